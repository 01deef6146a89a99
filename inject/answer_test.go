package inject

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// These answers go to a program that shows a screen of Claude Code and ignores all keys.
// No key is pressed that could reach the wrong place. After a key without an effect no
// other key follows. The pane stays unchanged.
func TestAnswer_CannotBeTyped(t *testing.T) {
	deploy := state.SubQuestion{Question: "Which deployment approach should we use?",
		Options: []state.Option{
			{Label: "Blue-green deployment"}, {Label: "Rolling deployment"}, {Label: "Canary"}}}
	second, words := state.Answer{Labels: []string{"Rolling deployment"}}, state.Answer{Text: "neither"}
	for name, c := range map[string]struct {
		screen string
		answer state.Answer
		before func(testTmux, Pane)
		keys   string // that the program receives
		why    string
		gone   bool
	}{
		"a digit that gets lost": {screen: "single", answer: second, keys: "2", why: "no effect"},
		"the way to the field": {screen: "single", answer: words, keys: "\x1b[B",
			why: "no effect"},
		"a text that gets lost": {screen: "single-field", answer: words, keys: "n",
			why: "no effect"},
		"a person's text": {screen: "single-typed", answer: second,
			why: "changed in the terminal"},
		"no dialog":        {screen: "idle", answer: second, why: "no longer open", gone: true},
		"a draft":          {screen: "draft", answer: second, why: "no longer open", gone: true},
		"another question": {screen: "multi", answer: second, why: "another question"},
		"a permission":     {screen: "permission", answer: second, why: "another dialog"},
		"a review page":    {screen: "review", answer: second, why: "up to the last page"},
		"a pane without its input": {screen: "single", answer: second,
			before: func(w testTmux, p Pane) { w.tmux("select-pane", "-d", "-t", p.ID) },
			why:    "input"},
		"another of ours is typing": {screen: "single", answer: second, before: lockPane,
			why: "another answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := newTestTmux(t, "exec sleep 600")
			p := w.showRecordedScreen(c.screen)
			if c.before != nil {
				c.before(w, p)
			}
			told := 0
			typist := Typist{UserState: filepath.Join(w.dir, "state"),
				EffectTimeout: 500 * time.Millisecond,
				BeforeKey:     func(string, bool) error { told++; return nil }}
			out := typist.AnswerDialog(t.Context(), Target{Server: w.Server, Pane: p.ID},
				[]Choice{{SubQuestion: deploy, Answer: c.answer}})
			kit.True(t, out.Result == Unchanged && strings.Contains(out.Why, c.why) &&
				out.DialogGone == c.gone,
				"%+v; want %q", out, c.why)
			w.checkReceived(c.keys)
			kit.True(t, told == out.KeyCount && (told > 0) == (c.keys != ""),
				"%d keys were written down, %d pressed: %q", told, out.KeyCount, out.Steps)
		})
	}
}

func lockPane(w testTmux, p Pane) {
	lock, err := LockPane(filepath.Join(w.dir, "state"), w.Server, p.ID)
	kit.NoError(w.t, err)
	w.t.Cleanup(lock.Unlock)
}
