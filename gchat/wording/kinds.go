package wording

import "gchat-hooks/state"

// manner is how a kind of question is put into words, and how people answer it. To add a
// kind, add a row here, beside that in state.KindTraits.
type manner struct {
	// pieces are what its messages are made of; see pieces.
	pieces func(q *state.Question, line, preview int) (header, text, how string)
	// card is its messages and its card; see CardTexts.
	card func(q *state.Question, id string, size func(*Card) int) ([]string, *Card)
	// read and tap are what words and a tap mean; see ParseDecision and ReadTap.
	read func(text string, q *state.Question) (a state.Answer, about string)
	tap  func(t *Tap, q *state.Question) (answers map[int]state.Answer, text, about string)
	// closed says how it ended, and unclear answers a reply that is no answer.
	closed  func(q *state.Question) string
	unclear func(q *state.Question, r *state.Reply) string
}

// mannerOf is a kind's row. A kind of a later release looks like a question, and no tap
// answers it. A text that answers a question is read by ParseReply.
func mannerOf(kind state.Kind) manner {
	switch kind {
	case state.KindQuestion:
		return manner{
			questionPieces,
			questionCard,
			readDecision,
			(*Tap).answers,
			questionClosed,
			questionUnclear,
		}
	case state.KindPermission:
		return manner{
			permissionPieces,
			permissionCard,
			readDecision,
			(*Tap).decision,
			decisionClosed,
			decisionUnclear,
		}
	case state.KindPlan:
		return manner{
			planPieces,
			longCard,
			readDecision,
			(*Tap).decision,
			decisionClosed,
			decisionUnclear,
		}
	case state.KindForm:
		return manner{formPieces, formCard, readForm, (*Tap).form, formClosed, formUnclear}
	case state.KindNext, state.KindPrompt:
		return manner{
			nextPieces,
			longCard,
			readInstruction,
			(*Tap).instruction,
			nextClosed,
			instructionUnclear,
		}
	}
	return manner{
		questionPieces,
		questionCard,
		readDecision,
		(*Tap).decision,
		questionClosed,
		questionUnclear,
	}
}
