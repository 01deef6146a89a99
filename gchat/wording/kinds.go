package wording

import "gchat-hooks/state"

// kindWording is how a kind of question is put into words, and how people answer it. To
// add a kind, add a row here, beside that in state.KindTraits.
type kindWording struct {
	// pieces are what its messages are made of; see pieces.
	parts func(q *state.Question, line, preview int) (header, text, how string)
	// card is its messages and its card; see CardTexts.
	card func(q *state.Question, id string, size func(*Card) int) ([]string, *Card)
	// read and tap are what words and a tap mean; see ParseDecision and ReadTap.
	readText func(text string, q *state.Question) (a state.Answer, about string)
	readTap  func(t *Tap, q *state.Question) (answers map[int]state.Answer, text, about string)
	// closed says how it ended, and unclear answers a reply that is no answer.
	closingText func(q *state.Question) string
	unclearText func(q *state.Question, r *state.Reply) string
}

// wordingOf is a kind's row. A kind of a later release looks like a question, and no tap
// answers it. A text that answers a question is read by ParseReply.
func wordingOf(kind state.Kind) kindWording {
	switch kind {
	case state.KindQuestion:
		return kindWording{
			questionParts,
			questionCard,
			readDecision,
			(*Tap).readAnswers,
			questionClosingText,
			questionUnclearText,
		}
	case state.KindPermission:
		return kindWording{
			permissionParts,
			permissionCard,
			readDecision,
			(*Tap).readDecision,
			decisionClosingText,
			decisionUnclearText,
		}
	case state.KindPlan:
		return kindWording{
			planParts,
			longTextCard,
			readDecision,
			(*Tap).readDecision,
			decisionClosingText,
			decisionUnclearText,
		}
	case state.KindForm:
		return kindWording{
			formParts,
			formCard,
			readForm,
			(*Tap).readForm,
			formClosingText,
			formUnclearText,
		}
	case state.KindNext, state.KindPrompt:
		return kindWording{
			nextParts,
			longTextCard,
			readInstruction,
			(*Tap).readInstruction,
			nextClosingText,
			instructionUnclearText,
		}
	}
	return kindWording{
		questionParts,
		questionCard,
		readDecision,
		(*Tap).readDecision,
		questionClosingText,
		questionUnclearText,
	}
}
