package wording

import (
	"strings"
	"testing"

	"gchat-hooks/state"
)

// Outside of tmux the person is told before they write that their words are no approval
// to Claude; in tmux they are.
func TestOutside_TextIsNoApproval(t *testing.T) {
	for pane, want := range map[string]int{"": 1, "%1": 0} {
		q := askDecision(state.KindNext, "Reply")
		q.TmuxPane = pane
		text := strings.Join(QuestionTexts(q), "")
		if n := strings.Count(text, state.OutsideTmuxWarning+"\nReply with the next instruction."); n != want {
			t.Errorf("in pane %q: said %d times in %q", pane, n, text)
		}
		if card := drawCard(QuestionCard(q)); strings.Count(card, state.OutsideTmuxWarning) != want {
			t.Errorf("in pane %q: the card is %s", pane, card)
		}
	}
}
