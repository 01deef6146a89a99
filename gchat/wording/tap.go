package wording

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gchat-hooks/state"
)

// Tap is what a card tells of a tap on it. All of it is what the sender's program sent:
// it says what was tapped, and not who may.
type Tap struct {
	QuestionID string // what the card carries for its question: see state.CardID
	// which machine's card it is: see App.CardID; "" of an earlier version's card
	MachineID string
	Choice    string              // which button it was
	Inputs    map[string][]string // what its fields and boxes held, by name
	// the card still had that button when Chat told of the tap, as far as that is known
	IsOnCard bool
}

// What people are told in a note.
const (
	OldCardText = "[Not used] This card is closed, or its machine is not running."
	UnboundText = "[Not used] Nothing here is waiting for that. To answer, tap a button, or reply to the message itself."
)

// What the buttons of a card say beside the numbers of options and the choices of
// decisions.
const (
	ChoiceSend    = "send" // what its fields and boxes hold
	choiceShowAll = "more" // all of a permission is to be shown
)

// ordinal is an index as the names and values in a card count it.
func ordinal(index int) string { return strconv.Itoa(index + 1) }

// ReadTap says what a tap answers, by index into the question's prompts, without what was
// answered before; and text, how a person types the same. A tap that turns a question
// down has a text alone. Where it answers nothing else, about is the note for that. A tap
// is not to be trusted: labels come from the record, and a number that no option has is
// refused.
func ReadTap(q *state.Question, t *Tap) (answers map[int]state.Answer, text, note string) {
	return wordingOf(q.Kind).readTap(t, q)
}

func (t *Tap) readInstruction(q *state.Question) (answers map[int]state.Answer, text, note string) {
	typed := t.ownText(0)
	switch {
	case t.Choice != ChoiceSend:
		return nil, "", state.NoteUnclear
	case typed == "":
		return nil, "", state.NoteNoText
	}
	a, note := ParseDecision(typed, q)
	if note != "" {
		return nil, typed, note
	}
	return map[int]state.Answer{0: a}, a.Text, ""
}

// readDecision reads a tap on a permission or a plan. A "no" takes the person's words as
// its reason.
func (t *Tap) readDecision(q *state.Question) (answers map[int]state.Answer, text, note string) {
	if t.Choice == choiceShowAll && q.Kind == state.KindPermission {
		return nil, choiceShowAll, state.NoteFullText
	}
	for _, candidate := range decisions {
		if candidate.choice != t.Choice || !isOffered(q, candidate.label) {
			continue
		}
		answer := state.Answer{Labels: []string{candidate.label}}
		if state.IsRefusal(candidate.label) {
			answer.Notes = t.ownText(0)
			parsed, _ := ParseDecision(answer.Notes, q)
			if slices.Equal(parsed.Labels, answer.Labels) { // "no, use git mv" beside Deny
				answer.Notes = parsed.Notes
			}
		}
		text = candidate.words[0]
		if answer.Notes != "" {
			text += ", " + answer.Notes
		}
		return map[int]state.Answer{0: answer}, text, ""
	}
	return nil, "", state.NoteUnclear
}

// readAnswers reads a tap on a question: the button of an option, one that turns it down,
// or Send with what was chosen and written for each prompt.
func (t *Tap) readAnswers(q *state.Question) (answers map[int]state.Answer, text, note string) {
	switch t.Choice {
	case state.DeclinedChat:
		_, ownText, _ := ReadTap(q, &Tap{Choice: ChoiceSend, Inputs: t.Inputs})
		return nil, strings.TrimSuffix("chat about this: "+ownText, ": "), ""
	case state.DeclinedSkip:
		return nil, t.Choice, ""
	}
	hasSeveral := len(q.SubQuestions) != 1
	if t.Choice != ChoiceSend && (hasSeveral || q.SubQuestions[0].MultiSelect) {
		return nil, "", state.NoteUnclear // its card has no such button
	}
	answers = map[int]state.Answer{}
	textFor, remark := map[int]string{}, ""
	for _, part := range newReply(t.values(wholeCardField), q.SubQuestions, q.PartialAnswers).parts() {
		textFor[part.question] = part.text
		remark += part.remark
	}
	var typed []string
	for i, subQuestion := range q.SubQuestions {
		values := t.Inputs["q"+ordinal(i)]
		if t.Choice != ChoiceSend {
			values = []string{t.Choice}
		}
		matcher, ownText := newOptionMatcher(subQuestion), t.ownText(i)
		a, asTyped, ok := matcher.readTicked(values, cmp.Or(ownText, textFor[i]))
		if len(values) == 0 && ownText == "" && textFor[i] != "" {
			a, _ = matcher.readAnswer(textFor[i])
			asTyped = textFor[i]
		}
		switch {
		case !ok:
			return nil, "", state.NoteUnclear
		case a.IsEmpty():
			continue
		case hasSeveral:
			asTyped = fmt.Sprintf("Q%d: %s", i+1, asTyped)
		case len(a.Labels) == 0:
			asTyped = a.Text
		}
		answers[i], typed = a, append(typed, asTyped)
	}
	if len(answers) == 0 {
		return nil, "", state.NoteNoText
	}
	if remark != "" { // it is on the first answer, as in a reply
		firstIndex := slices.Min(slices.Collect(maps.Keys(answers)))
		a := answers[firstIndex]
		a.Notes = strings.TrimSpace(a.Notes + "\n" + remark)
		answers[firstIndex] = a
		typed = append([]string{remark}, typed...)
	}
	return answers, firstBytes(strings.Join(typed, "\n"), MaxText), ""
}

// readTicked reads the values of a prompt's boxes, and the words beside them: a remark
// where an option is chosen. Ok is false where no option has a number, or too many are
// chosen.
func (c *optionMatcher) readTicked(
	values []string,
	ownText string,
) (a state.Answer, typed string, ok bool) {
	var numbers []int
	for _, value := range values {
		n, err := strconv.Atoi(value)
		if err != nil || !c.hasOption(n) || len(numbers) == MaxWidgets ||
			len(numbers) == 1 && !c.MultiSelect {
			return a, "", false
		}
		numbers = append(numbers, n)
	}
	if len(numbers) == 0 {
		return state.Answer{Text: ownText}, "other: " + ownText, true
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	labels := chosenLabels(c.SubQuestion, numbers)
	fromText, _ := c.readAnswer(ownText)
	if slices.Equal(fromText.Labels, labels) { // the words choose the same
		ownText = cmp.Or(fromText.Text, fromText.Notes)
	}
	for _, n := range numbers {
		typed += "," + strconv.Itoa(n)
	}
	typed = typed[1:]
	if ownText != "" {
		typed += " - " + ownText
	}
	return state.Answer{Labels: labels, Notes: ownText}, typed, true
}

// wholeCardField is the field for words beside a whole card: they are read as a reply is.
const wholeCardField = "w"

func (t *Tap) ownText(index int) string { return t.values("w" + ordinal(index)) }

func (t *Tap) values(field string) string {
	values := t.Inputs[field]
	if len(values) == 0 {
		return ""
	}
	return strings.TrimSpace(
		firstBytes(state.Clean(state.ForAgent, firstBytes(values[0], MaxText)), MaxText),
	)
}
