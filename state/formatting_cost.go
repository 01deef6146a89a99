package state

import (
	"slices"
	"time"
)

// maxFormatting is how many questions' costs a ledger keeps one by one. Older ones are in its totals only.
const maxFormatting = 1000

// FormattingCost is what it cost to have a question worded by a model.
type FormattingCost struct {
	QuestionID   string    `json:"question_id"`
	Model        string    `json:"model"`
	InputTokens  int64     `json:"input_tokens"`
	OutputTokens int64     `json:"output_tokens"`
	USD          *float64  `json:"usd"` // US dollars; nil: the model's price is not known
	At           time.Time `json:"at"`  // this machine's clock, UTC
}

// RecordFormatting writes a cost into the ledger of a running session, once per question. begin makes the ledger of a
// session that has none yet. Errors are those of Update.
func (s Ledgers) RecordFormatting(sessionID string, f FormattingCost, begin func() Ledger) error {
	return s.Update(sessionID, func(l *Ledger, known bool) error {
		if !known {
			*l = begin()
			l.SessionID = sessionID
		}
		if slices.ContainsFunc(l.Formatting, func(old FormattingCost) bool { return old.QuestionID == f.QuestionID }) {
			return ErrUnchanged
		}
		f.At = f.At.UTC()
		l.Formatting = append(l.Formatting, f)
		l.Formatting = l.Formatting[max(0, len(l.Formatting)-maxFormatting):]
		l.FormattingQuestions++
		if f.USD == nil {
			l.FormattingUnpriced++
		} else {
			l.FormattingUSD += *f.USD
		}
		return nil
	})
}
