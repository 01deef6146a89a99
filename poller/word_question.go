package poller

import (
	"context"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// wordBound is how long a model may take to word a question.
const wordBound = 2 * time.Second

// word has a model word the question's message, where the configuration wants that, before it is sent for the first time:
// another text of the same message would not be known again. Whatever fails leaves it to the built-in format.
func (p *Poller) word(ctx context.Context, cfg *state.Config, q *state.Question) *state.Question {
	if cfg.Format != "haiku" || q.Formatted != "" || q.FormatTried || q.PostTried {
		return q
	}
	ctx, cancel := context.WithTimeout(ctx, wordBound)
	defer cancel()
	key, err := cfg.APIKey(ctx)
	p.Log.Hide(key)
	var w gchat.Wording
	if err == nil {
		w, err = gchat.Haiku{Key: key, Model: cfg.HaikuModel, BaseURL: p.Env("ANTHROPIC_BASE_URL")}.Word(ctx, q)
	}
	if w.InputTokens+w.OutputTokens > 0 { // a wording of no use costs, too
		p.noteCost(q, w)
	}
	if err == nil {
		var after *state.Question
		if after, err = state.UpdateQuestion(q.Path, func(q *state.Question) error { q.Formatted = w.Body; return nil }); err == nil {
			return after
		}
	}
	p.Log.Warn().Str("question", q.QuestionID).Str("error", p.Log.Clean(err.Error())).Msg("not worded by the model: the built-in format is used")
	if after, err := state.UpdateQuestion(q.Path, func(q *state.Question) error { q.FormatTried = true; return nil }); err == nil {
		return after // it is not paid for again with the next try to post
	}
	return q
}

// noteCost writes into the session's ledger what the wording of a question cost.
func (p *Poller) noteCost(q *state.Question, w gchat.Wording) {
	cost := state.FormattingCost{QuestionID: q.QuestionID, Model: w.Model, InputTokens: w.InputTokens, OutputTokens: w.OutputTokens, At: p.now().UTC()}
	if usd, known := w.USD(); known {
		cost.USD = &usd
	}
	err := state.LedgersIn(p.user()).RecordFormatting(q.SessionID, cost, func() state.Ledger {
		return state.Ledger{SessionName: q.SessionName, ProjectDir: q.ProjectDir, CWD: q.CWD, StartedAt: q.AskedAt, LastSeen: q.AskedAt, Source: state.Unknown}
	})
	if err != nil {
		p.Log.Error().Err(err).Msg("cost not written down")
	}
}
