package inject

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

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
