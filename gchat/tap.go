package gchat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gchat-hooks/state"
)

// What the buttons of a card mean beside the numbers of options.
const (
	choiceSend    = "send" // what the fields and boxes hold
	choiceMore    = "more"
	choiceAllow   = "allow"
	choiceDeny    = "deny"
	choiceAlways  = "always"
	choiceApprove = "approve"
	choiceAuto    = "auto"
	choiceBack    = "back"
)

// decisionOf is the label that a button of a permission's or a plan's card stands for.
var decisionOf = map[string]string{
	choiceAllow: state.LabelAllow, choiceDeny: state.LabelDeny, choiceAlways: state.LabelAlways,
	choiceApprove: state.LabelApprove, choiceAuto: state.LabelApproveAuto, choiceBack: state.LabelSendBack,
}

// The names of a card's boxes and fields, for each prompt from 1 on.
func boxName(i int) string   { return fmt.Sprintf("q%d", i+1) }
func fieldName(i int) string { return fmt.Sprintf("w%d", i+1) }

// words is what a field held, as a reply would have it.
func (t *Tap) words(i int) string {
	return Cut(strings.TrimSpace(CleanReply(strings.Join(t.Inputs[fieldName(i)], "\n"))), MaxText)
}

// ReadTap is what a tap on a question's card answers, by index into its prompts, and how the same would be typed. Labels are the
// question's own. About is the note for a tap that answers nothing.
func ReadTap(q *state.Question, t *Tap) (answers map[int]state.Answer, text, about string) {
	switch {
	case t.Choice == choiceMore:
		return nil, choiceMore, state.NoteMore
	case q.Kind == state.AskedNext:
		a, about := ParseDecision(t.words(0), q)
		return map[int]state.Answer{0: a}, t.words(0), about
	case q.Kind.Decides():
		return readDecision(q, t)
	}
	answers = map[int]state.Answer{}
	var said []string
	for i, p := range q.Questions {
		numbers := t.Inputs[boxName(i)]
		if t.Choice != choiceSend {
			numbers = nil
			if i == 0 && len(q.Questions) == 1 {
				numbers = []string{t.Choice}
			}
		}
		a := ticked(p, numbers)
		if words := t.words(i); t.Choice == choiceSend && words != "" {
			if len(a.Labels) > 0 {
				a.Notes = words
			} else {
				a.Text = words
			}
		}
		if a.Empty() {
			continue
		}
		answers[i] = a
		said = append(said, typed(q, i, a))
	}
	if len(answers) == 0 {
		return nil, t.Choice, state.NoteUnclear
	}
	return answers, strings.Join(said, "\n"), ""
}

// ticked are the options of these numbers, in their own order; of a question with a single choice one.
func ticked(p state.Prompt, numbers []string) (a state.Answer) {
	for i, o := range p.Options {
		if slices.Contains(numbers, strconv.Itoa(i+1)) && (p.MultiSelect || len(a.Labels) == 0) {
			a.Labels = append(a.Labels, o.Label)
		}
	}
	return a
}

// typed is how an answer would be typed.
func typed(q *state.Question, i int, a state.Answer) string {
	said := a.Value()
	switch {
	case a.Text != "":
		said = "other: " + a.Text
	case a.Notes != "":
		said += " - " + a.Notes
	}
	if len(q.Questions) > 1 {
		said = fmt.Sprintf("Q%d: %s", i+1, said)
	}
	return said
}

// readDecision is ReadTap of a permission or a plan: only what is offered is decided.
func readDecision(q *state.Question, t *Tap) (answers map[int]state.Answer, text, about string) {
	label := decisionOf[t.Choice]
	offered := slices.ContainsFunc(q.Questions, func(p state.Prompt) bool {
		return slices.ContainsFunc(p.Options, func(o state.Option) bool { return o.Label == label })
	})
	if !offered {
		return nil, t.Choice, state.NoteUnclear
	}
	a, text := state.Answer{Labels: []string{label}}, t.Choice
	if words := t.words(0); words != "" && (label == state.LabelDeny || label == state.LabelSendBack) {
		a.Notes, text = words, "no, "+words
	}
	return map[int]state.Answer{0: a}, text, ""
}
