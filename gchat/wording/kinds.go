package wording

import "gchat-hooks/state"

// kindWording holds the functions that write the texts of one kind of question and read
// its replies. To add a kind, add a case to wordingOf, and a row to the traits of kinds
// in package state.
type kindWording struct {
	// parts returns what the question's messages are made of; see messageParts.
	parts func(
		q *state.Question, lineLimit, previewLimit int,
	) (header, text, instructions string)
	// card returns the question's messages and its card; see CardTexts.
	card func(q *state.Question, id string, cardSize func(*Card) int) ([]string, *Card)
	// readText reads a written reply; see ParseDecision.
	readText func(text string, q *state.Question) (a state.Answer, note string)
	// readTap reads a tap on the card; see ReadTap.
	readTap func(t *Tap, q *state.Question) (answers map[int]state.Answer, text, note string)
	// closingText says how the question ended.
	closingText func(q *state.Question) string
	// unclearText is the note about a reply that is no valid answer.
	unclearText func(q *state.Question, r *state.Reply) string
}

// wordingOf returns the functions of a kind. A kind that only a later release knows is
// shown like a question, and no tap can answer it. Written replies to a question are read
// by ParseReply, so its readText is not used.
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
