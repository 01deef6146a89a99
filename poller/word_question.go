package poller

import (
	"context"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// word has a model reword the question's text, where the configuration wants that, before it is sent for the first time:
// another text of the same message would not be known again. Whatever fails leaves it to Claude's own words.
func (p *Poller) word(ctx context.Context, cfg *state.Config, q *state.Question) *state.Question {
	if cfg.Format != "haiku" || q.Wording != nil || q.FormatTried || q.PostTried {
		return q
	}
	p.Log.Hide(cfg.AnthropicKey)
	w, err := gchat.Haiku{Key: cfg.AnthropicKey, BaseURL: p.Env("ANTHROPIC_BASE_URL")}.Word(ctx, q.Questions)
	if w.InputTokens+w.OutputTokens > 0 { // a wording of no use costs, too
		p.noteCost(q, w)
	}
	if err == nil {
		var after *state.Question
		after, err = state.UpdateQuestion(q.Path, func(q *state.Question) error { q.Wording = w.Texts; return nil })
		if err == nil {
			return after
		}
	}
	p.Log.Warn().Str("question", q.QuestionID).Str("error", p.Log.Clean(err.Error())).
		Msg("not worded by the model: Claude's own words are used")
	after, err := state.UpdateQuestion(q.Path, func(q *state.Question) error { q.FormatTried = true; return nil })
	if err == nil {
		return after // it is not paid for again with the next try to post
	}
	return q
}

// noteCost writes into the session's ledger and into the log what the wording of a question cost.
func (p *Poller) noteCost(q *state.Question, w gchat.Wording) {
	usd := w.USD()
	p.Log.Info().Str("question", q.QuestionID).Str("model", w.Model).Int64("input_tokens", w.InputTokens).
		Int64("output_tokens", w.OutputTokens).Float64("usd", usd).Msg("a model was asked for a wording")
	err := state.LedgersIn(p.user()).Update(q.ClaudeSession(), func(l *state.Ledger, known bool) error {
		if !known {
			*l = state.Ledger{
				SessionID: q.ClaudeSession(), SessionName: q.SessionName, ProjectDir: q.ProjectDir, CWD: q.CWD,
				StartedAt: q.AskedAt, LastSeen: q.AskedAt, Source: state.Unknown,
			}
		}
		l.FormattingQuestions++
		l.FormattingUSD += usd
		return nil
	})
	if err != nil {
		p.Log.Error().Err(err).Msg("cost not written down")
	}
}
