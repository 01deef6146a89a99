package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func cost(id string, usd float64) FormattingCost {
	f := FormattingCost{QuestionID: id, Model: "claude-haiku-4-5", InputTokens: 600, OutputTokens: 100, At: time.Date(2026, 11, 21, 9, 0, 0, 0, time.FixedZone("", 3600))}
	if usd > 0 {
		f.USD = &usd
	}
	return f
}

// recordCosts records costs in the ledger of session s, which must be there already.
func recordCosts(t *testing.T, s Ledgers, costs ...FormattingCost) *Ledger {
	t.Helper()
	for _, f := range costs {
		if err := s.RecordFormatting("s", f, func() Ledger { t.Error("begun again"); return Ledger{} }); err != nil {
			t.Fatal(err)
		}
	}
	l, err := s.Load("s")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestFormattingIsRecordedOncePerQuestion(t *testing.T) {
	s := LedgersIn(t.TempDir())
	begun(t, s, "s", time.Now())
	l := recordCosts(t, s, cost("a", 0.0012), cost("b", 0.0020), cost("a", 9), cost("c", 0), cost("b", 9))
	if l.FormattingQuestions != 3 || l.FormattingUnpriced != 1 || fmt.Sprintf("%.4f", l.FormattingUSD) != "0.0032" || len(l.Formatting) != 3 || l.Source != "startup" {
		t.Errorf("%+v", l)
	}
	b, err := os.ReadFile(filepath.Join(s.Dir, "s.json"))
	const want = `"formatting":[{"question_id":"a","model":"claude-haiku-4-5","input_tokens":600,"output_tokens":100,"usd":0.0012,"at":"2026-11-21T08:00:00Z"},`
	if err != nil || !strings.Contains(string(b), want) || !strings.Contains(string(b), `"question_id":"c","model":"claude-haiku-4-5","input_tokens":600,"output_tokens":100,"usd":null,`) {
		t.Errorf("on disk: %s, %v", b, err)
	}
}

func TestFormattingBeginsALedger(t *testing.T) {
	s := LedgersIn(t.TempDir())
	if err := s.RecordFormatting("s", cost("a", 1), func() Ledger { return Ledger{SessionID: "other", SessionName: "orch", Source: Unknown} }); err != nil {
		t.Fatal(err)
	}
	if l := recordCosts(t, s); l.SessionID != "s" || l.SessionName != "orch" || l.Source != Unknown || l.FormattingQuestions != 1 {
		t.Errorf("%+v", l)
	}
	if err := os.WriteFile(s.path("s", ""), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.RecordFormatting("s", cost("a", 1), func() Ledger { return Ledger{} }); !errors.As(err, new(*Corrupt)) {
		t.Errorf("error %v", err)
	}
	if l := recordCosts(t, s); l.FormattingQuestions != 1 {
		t.Errorf("%+v", l)
	}
}

func TestFormattingKeepsTheLastAndTheTotals(t *testing.T) {
	s := LedgersIn(t.TempDir())
	if err := s.Update("s", func(l *Ledger, _ bool) error {
		for i := range maxFormatting {
			l.Formatting = append(l.Formatting, cost(fmt.Sprint(i), 0.5))
		}
		l.FormattingQuestions, l.FormattingUSD = maxFormatting, maxFormatting/2
		l.rest = map[string]json.RawMessage{"of_tomorrow": json.RawMessage(`[1]`)}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	l := recordCosts(t, s, cost("new", 0.5), cost("newer", 0.5))
	if len(l.Formatting) != maxFormatting || l.Formatting[0].QuestionID != "2" || l.Formatting[maxFormatting-1].QuestionID != "newer" {
		t.Errorf("%d kept, from %s", len(l.Formatting), l.Formatting[0].QuestionID)
	}
	if l.FormattingQuestions != maxFormatting+2 || l.FormattingUSD != maxFormatting/2+1 || string(l.rest["of_tomorrow"]) != "[1]" {
		t.Errorf("%d questions, $%v, %s", l.FormattingQuestions, l.FormattingUSD, l.rest)
	}
}

// Hooks of one session record at the same time, some the same question.
func TestFormattingIsRecordedByManyAtOnce(t *testing.T) {
	s := LedgersIn(t.TempDir())
	begun(t, s, "s", time.Now())
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			if err := s.RecordFormatting("s", cost(fmt.Sprint(i/2), 0.25), func() Ledger { return Ledger{} }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if l := recordCosts(t, s); l.FormattingQuestions != 6 || l.FormattingUSD != 1.5 {
		t.Errorf("%d questions, $%v", l.FormattingQuestions, l.FormattingUSD)
	}
}
