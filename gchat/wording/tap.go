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

// Tap is a tap on a card, as the sender's program reports it. It says what was tapped,
// but proves nothing about who may answer.
type Tap struct {
	QuestionID string // identifies the question; see state.CardID
	// identifies the machine whose card it is; see App.CardID; "" if an earlier version
	// posted the card
	MachineID string
	Choice    string              // the button that was tapped; see Button.Choice
	Inputs    map[string][]string // the values of the card's fields and lists, by name
	// the card still had that button when Chat reported the tap, as far as is known
	IsOnCard bool
}

// Notes about taps that answer nothing.
const (
	OldCardText = "[Not used] This card is closed, or its machine is not running."
	UnboundText = "[Not used] Nothing here is waiting for that. " +
		"To answer, tap a button, or reply to the message itself."
)

// The choices of buttons that are neither an option's number nor a decision's choice.
const (
	ChoiceSend    = "send" // send the values of the card's fields and lists
	choiceShowAll = "more" // show the full text of what a permission is for
)

// ordinal returns an index as names and values in a card have it: counted from 1.
func ordinal(index int) string { return strconv.Itoa(index + 1) }

// ReadTap returns the answers that a tap gives, by index into the question's
// SubQuestions, without earlier answers, and the text that a person would have to type
// for the same. If the tap turns the question down, it returns the text alone. If the tap
// answers nothing, note says what the reply gets. A tap is not trusted: labels come from
// the record, and a number without an option is rejected.
func ReadTap(q *state.Question, t *Tap) (answers map[int]state.Answer, text, note string) {
	return wordingOf(q.Kind).readTap(t, q)
}

// readInstruction reads a tap on a "next instruction" question.
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

// readDecision reads a tap on a permission or a plan. The text in the card's field is the
// reason of a refusal.
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
			if slices.Equal(parsed.Labels, answer.Labels) { // "no, use git mv", and a tap on Deny
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

// readAnswers reads a tap on a question's card: on the button of an option, on one that
// turns the question down, or on Send, which sends what the person chose and wrote for
// each subquestion.
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
		return nil, "", state.NoteUnclear // this card has no such button
	}
	answers = map[int]state.Answer{}
	textFor, remark := map[int]string{}, ""
	wholeCard := newReply(t.value(wholeCardField), q.SubQuestions, q.PartialAnswers)
	for _, part := range wholeCard.parts() {
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
	if remark != "" { // it belongs to the first answer, as in a written reply
		firstIndex := slices.Min(slices.Collect(maps.Keys(answers)))
		a := answers[firstIndex]
		a.Notes = strings.TrimSpace(a.Notes + "\n" + remark)
		answers[firstIndex] = a
		typed = append([]string{remark}, typed...)
	}
	return answers, firstBytes(strings.Join(typed, "\n"), MaxText), ""
}

// readTicked reads the answer to one subquestion of a card. values holds the numbers of
// the chosen options. ownText is the text that the person wrote: a remark if an option
// was chosen, otherwise the answer. typed is the same answer as a person would type it.
// ok is false if a number has no option, or if too many options were chosen.
func (c *optionMatcher) readTicked(
	values []string,
	ownText string,
) (a state.Answer, typed string, ok bool) {
	var numbers []int
	for _, value := range values {
		n, err := strconv.Atoi(value)
		isOneTooMany := len(numbers) == MaxWidgets || len(numbers) == 1 && !c.MultiSelect
		if err != nil || !c.hasOption(n) || isOneTooMany {
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
	if slices.Equal(fromText.Labels, labels) { // the text chooses the same options
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

// wholeCardField is a field for the card as a whole. Its text is read like a written
// reply.
const wholeCardField = "w"

// ownText returns the text that the person wrote for the subquestion with that index.
func (t *Tap) ownText(index int) string { return t.value("w" + ordinal(index)) }

// value returns the cleaned text of a field.
func (t *Tap) value(field string) string {
	values := t.Inputs[field]
	if len(values) == 0 {
		return ""
	}
	text := state.Clean(state.ForAgent, firstBytes(values[0], MaxText))
	return strings.TrimSpace(firstBytes(text, MaxText))
}
