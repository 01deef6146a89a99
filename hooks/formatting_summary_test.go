package hooks_test

import (
	"strings"
	"testing"

	"gchat-hooks/state"
)

func TestSummaryTellsWhatFormattingCost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		questions int
		usd       float64
		want      string
	}{
		"none":    {0, 0, ""},
		"one":     {1, 0.00118, "Formatting: 1 question, $0.0012\n"},
		"several": {3, 0.0012, "Formatting: 3 questions, $0.0012\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := namedWorld(t)
			w.run(sessionHook, w.event("single-07-Stop"))
			if err := w.ledgers().Update("sess-1", func(l *state.Ledger, known bool) error {
				l.FormattingQuestions, l.FormattingUSD = tt.questions, tt.usd
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			w.run(sessionHook, w.event("timing-10-SessionEnd"))
			w.awaitMessage("[Session End]")
			w.endFlusher()
			l := w.sessionMessages("[Session End]")
			if want := "[Session End] orch-epic4\n\nTurns: 1\n" + tt.want + "Reason: prompt_input_exit\nLast words: "; len(l) != 1 || !strings.HasPrefix(l[0], want) {
				t.Errorf("got %q\nwant %q", l, want)
			}
		})
	}
}
