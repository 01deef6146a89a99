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
			parts:       questionParts,
			card:        questionCard,
			readText:    readDecision,
			readTap:     (*Tap).readAnswers,
			closingText: questionClosingText,
			unclearText: questionUnclearText,
		}
	case state.KindPermission:
		return kindWording{
			parts:       permissionParts,
			card:        permissionCard,
			readText:    readDecision,
			readTap:     (*Tap).readDecision,
			closingText: decisionClosingText,
			unclearText: decisionUnclearText,
		}
	case state.KindPlan:
		return kindWording{
			parts:       planParts,
			card:        longTextCard,
			readText:    readDecision,
			readTap:     (*Tap).readDecision,
			closingText: decisionClosingText,
			unclearText: decisionUnclearText,
		}
	case state.KindForm:
		return kindWording{
			parts:       formParts,
			card:        formCard,
			readText:    readForm,
			readTap:     (*Tap).readForm,
			closingText: formClosingText,
			unclearText: formUnclearText,
		}
	case state.KindNext, state.KindPrompt:
		return kindWording{
			parts:       nextParts,
			card:        longTextCard,
			readText:    readInstruction,
			readTap:     (*Tap).readInstruction,
			closingText: nextClosingText,
			unclearText: instructionUnclearText,
		}
	}
	return kindWording{
		parts:       questionParts,
		card:        questionCard,
		readText:    readDecision,
		readTap:     (*Tap).readDecision,
		closingText: questionClosingText,
		unclearText: questionUnclearText,
	}
}
