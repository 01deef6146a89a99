package hooks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gchat-hooks/state"
)

func TestSummaryTellsWhatFormattingCost(t *testing.T) {
	t.Parallel()
	priced := func(usd float64) *float64 { return &usd }
	for name, tt := range map[string]struct {
		usd  []*float64
		want string
	}{
		"none":     {nil, ""},
		"one":      {[]*float64{priced(0.00118)}, "Formatting: 1 question, $0.0012\n"},
		"several":  {[]*float64{priced(0.0004), priced(0.0004), priced(0.0004)}, "Formatting: 3 questions, $0.0012\n"},
		"some":     {[]*float64{priced(0.0012), nil}, "Formatting: 2 questions, at least $0.0012\n"},
		"unpriced": {[]*float64{nil, nil}, "Formatting: 2 questions\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := namedWorld(t)
			w.run(sessionHook, w.event("single-07-Stop"))
			for i, usd := range tt.usd {
				f := state.FormattingCost{QuestionID: fmt.Sprint(i), USD: usd, At: time.Now()}
				if err := w.ledgers().RecordFormatting("sess-1", f, func() state.Ledger { t.Error("begun again"); return state.Ledger{} }); err != nil {
					t.Fatal(err)
				}
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
