package inject

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"gchat-hooks/state"
)

// act is how one prompt is answered at the keyboard.
type act struct {
	prompt  state.Prompt
	numbers []int  // of the options that are chosen, as the dialog numbers them, ascending
	text    string // the person's own words
	notes   string // a remark beside the choice
}

// plan is what is to be done, page by page. removed says that control characters were taken out of a text.
func plan(choices []Choice) (acts []act, removed bool, err error) {
	if len(choices) == 0 {
		return nil, false, errors.New("there is nothing to answer")
	}
	for _, c := range choices {
		a := act{prompt: c.Prompt}
		var cut [2]bool
		a.text, cut[0] = typeable(c.Answer.Text)
		a.notes, cut[1] = typeable(c.Answer.Notes)
		removed = removed || cut[0] || cut[1]
		if err := a.choose(c.Answer.Labels); err != nil {
			return nil, removed, err
		}
		if len(a.numbers) == 0 && a.text == "" {
			return nil, removed, fmt.Errorf("there is no answer to %q that can be typed", cutText(c.Prompt.Question, 60))
		}
		acts = append(acts, a)
	}
	return acts, removed, nil
}

// typeable is a text as it is typed: without what a terminal would obey, and without white space at its ends, which
// Claude Code takes off as well.
func typeable(text string) (string, bool) {
	clean, removed := Clean(text)
	return strings.TrimSpace(clean), removed
}

// choose finds the numbers of the labels. Of two options with the same label it is the first: Claude is told the label.
func (a *act) choose(labels []string) error {
	const digits = 9 - 2 // "Type something" and "Chat about this" have numbers too
	if len(a.prompt.Options) > digits {
		return fmt.Errorf("%d options are more than the dialog can have", len(a.prompt.Options))
	}
	if len(labels) > 1 && !a.prompt.MultiSelect {
		return fmt.Errorf("%q takes one choice, not %d", cutText(a.prompt.Question, 60), len(labels))
	}
	for _, label := range labels {
		i := slices.IndexFunc(a.prompt.Options, func(o state.Option) bool { return o.Label == label })
		if i < 0 {
			return fmt.Errorf("%q is not an option of %q", cutText(label, 40), cutText(a.prompt.Question, 60))
		}
		if !slices.Contains(a.numbers, i+1) {
			a.numbers = append(a.numbers, i+1)
		}
	}
	slices.Sort(a.numbers)
	return nil
}

// drawn is the act on the page as it is drawn. A remark has a place only beside options with previews; a single choice
// with previews has none for own words but its field for notes; and where own words are typed, a choice and a remark go
// with them, so that nothing of what the person said is lost.
func (a act) drawn(preview bool) act {
	switch {
	case a.prompt.MultiSelect:
		a.text, a.notes = dashed(a.text, a.notes), ""
	case preview && a.text != "":
		a.notes, a.text, a.numbers = a.words(), "", nil
	case !preview && (a.text != "" || a.notes != ""):
		a.text, a.notes, a.numbers = a.words(), "", nil
	}
	return a
}

// words are choice, own words and remark in one text.
func (a act) words() string { return dashed(joinWords(a.labels(), a.text), a.notes) }

func (a act) labels() []string {
	var labels []string
	for _, n := range a.numbers {
		labels = append(labels, a.prompt.Options[n-1].Label)
	}
	return labels
}

// reviewed is how the review page shows the answer.
func (a act) reviewed() string { return joinWords(a.labels(), a.text) }

func joinWords(labels []string, text string) string {
	return state.Answer{Labels: labels, Text: text}.Value()
}

func dashed(text, remark string) string {
	if text == "" || remark == "" {
		return text + remark
	}
	return text + " – " + remark
}

// field is the number of the row for own words.
func (a act) field() int { return len(a.prompt.Options) + 1 }

// typed is the text as it goes into a field. 2.1.329 takes a backslash before Enter for "the text goes on".
func typed(text string) string {
	if strings.HasSuffix(text, `\`) {
		return text + " "
	}
	return text
}

// firstPart is the little of a text that is typed to see whether it arrives where it should.
func firstPart(text string) (first, rest string) {
	_, n := utf8.DecodeRuneInString(text)
	return text[:n], text[n:]
}

// record is what Claude Code writes into the conversation when a dialog has closed.
type record struct {
	declined bool
	words    string // "·question→answer·question→answer", without white space; "" for none
}

var recordEnd = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\n(─|\s*(\n|$))`) })

// lastRecord finds the last one: "● Answered Claude's questions:" (2.1.329), "● User answered Claude's questions:", and
// with "eclined to answer" when the dialog was cancelled.
func lastRecord(raw string) record {
	text := readable(raw)
	yes, no := strings.LastIndex(text, "nswered Claude's questions:"), strings.LastIndex(text, "eclined to answer")
	if yes < 0 && no < 0 {
		return record{}
	}
	text = text[max(yes, no):]
	if end := recordEnd().FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	return record{no > yes, squeeze(text)}
}

// theirs says whether the record shows that it was not our answer alone that closed the dialog: it was cancelled, or one of
// the answers is not ours.
func (r record) theirs(acts []act) bool {
	for i, a := range acts {
		if shown, there := r.answer(acts, i); there && !toldSo(shown, a.reviewed()) {
			return true
		}
	}
	return r.declined
}

// mixed says whether an answer is ours with something added to it.
func (r record) mixed(acts []act) bool {
	for i, a := range acts {
		shown, there := r.answer(acts, i)
		if ours := squeeze(a.reviewed()); there && ours != "" && shown != ours && strings.HasPrefix(shown, ours) {
			return true
		}
	}
	return false
}

// answer is what the record shows for the question of an act.
func (r record) answer(acts []act, i int) (shown string, there bool) {
	_, shown, there = strings.Cut(r.words, "·"+squeeze(acts[i].prompt.Question)+"→")
	if there && i+1 < len(acts) {
		shown, _, _ = strings.Cut(shown, "·"+squeeze(acts[i+1].prompt.Question)+"→")
	}
	return shown, there
}

// toldSo says whether an answer is recorded as given; of a long one, or one with an empty line, the beginning must do.
func toldSo(shown, given string) bool {
	const long = 200
	given, _, cut := strings.Cut(given, "\n\n")
	ours := []rune(squeeze(given))
	if len(ours) > long || cut {
		return strings.HasPrefix(shown, string(ours[:min(len(ours), 12)]))
	}
	return shown == string(ours) || len(ours) == 0 || Begins(shown, given) && strings.HasSuffix(shown, "…")
}

// news is the record of this dialog, if it is there. The same question may have been answered before: a record that was
// there already proves nothing.
func (h *hand) news() (r record, there bool) {
	r = lastRecord(h.raw)
	return r, r.words != "" && r != h.record
}

// confirm looks whether the key that closed the dialog was ours: one that stands in the input box came too late.
func (h *hand) confirm(ctx context.Context) Outcome {
	if h.t.DryRun {
		return h.ended(Unchanged, nil)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackTime)
	defer cancel()
	h.backing = true
	err := h.takeStray(ctx)
	strayed := h.strayed
	h.last, h.strayed = "", false
	if strayed {
		_ = h.takeStray(ctx) // for the record
	}
	const before = "the question was answered or left in the terminal a moment before"
	switch r, there := h.news(); {
	case there && !r.theirs(h.acts), !there && !strayed: // its last page, if it closed there, showed our answers
		return h.ended(Injected, err)
	case there && r.mixed(h.acts):
		return h.ended(Dirty, closed("somebody typed into the dialog in the moment that the answer was submitted: "+
			"Claude was told both"))
	case strayed && err != nil:
		return h.ended(Dirty, fmt.Errorf(before+", and our last key may stand in the input box (%w)", err))
	case !there && h.reviewed():
		return h.ended(Dirty, closed("somebody closed the dialog on its last page: "+
			"it is not known whether the answers were submitted"))
	}
	return h.ended(Unchanged, closed(before))
}
