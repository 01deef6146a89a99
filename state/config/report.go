package config

import (
	"cmp"
	"errors"
	"time"

	"gchat-hooks/state"

	"github.com/google/uuid"
)

// Outcome is what became of a report that was to be put into the outbox.
type Outcome struct {
	Message   *state.Message // as it stands in the outbox; nil when Off
	Off       bool           // a rule suppresses it
	Repeated  bool           // the session said the same less than a minute ago, and Message is that one
	HeldUntil time.Time      // a rule or the quiet hours hold it until then; zero for at once
}

// repeatWithin is how long the same words of the same session are said once.
const repeatWithin = time.Minute

// PutReport puts a message with a Report into the outbox, as the rules of its project's configuration have it; otherwise is
// the rule that holds where the person set none, "" is ReportOn. The caller starts a poller then.
//
// Of the message the caller sets Report, ProjectDir and SessionID ("" outside a session). ThreadKey or ThreadName name a thread
// in place of the session's. Key names what is reported once a day, however often it is put; without Key the words decide, and
// outside a session each report counts on its own. CreatedAt is now where it is zero.
//
// Errors are ErrNoWebhook and the disk's: then nothing was written.
func PutReport(env state.Getenv, cfg *Config, m *state.Message, otherwise ReportRule) (Outcome, error) {
	r := m.Report
	rule := cmp.Or(cfg.ReportRule(r.Kind, string(r.Type)), otherwise, ReportOn)
	if rule == ReportOff {
		return Outcome{Off: true}, nil
	}
	if !cfg.Sends() {
		return Outcome{}, errors.Join(append([]error{ErrNoWebhook}, cfg.Problems...)...)
	}
	if m.CreatedAt.IsZero() {
		m.CreatedAt = time.Now().UTC()
	}
	again := state.MaxAge
	if m.Key == "" {
		m.Key, again = wordsKey(m), repeatWithin
	}
	m.Kind, m.Urgent = state.MessageReport, r.Type.Urgent()
	m.ID = state.MessageID("report", m.Key, m.CreatedAt.Format(time.RFC3339Nano))
	held := heldUntil(cfg, rule, m.Urgent, m.CreatedAt)
	m.NotBefore = held.UTC()
	switch {
	case m.ThreadKey != "" || m.ThreadName != "":
	case !held.IsZero():
		m.Digest, m.ThreadKey = true, "digest-"+held.Format(time.DateOnly)
	case m.SessionID != "":
		m.ThreadKey = "session-" + m.SessionID
	}
	stands, put, err := state.OutboxIn(state.UserState(env)).Put(env, m, again)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Message: stands, Repeated: !put, HeldUntil: held}, nil
}

// wordsKey is equal for reports that say the same in the same place.
func wordsKey(m *state.Message) string {
	if m.SessionID == "" {
		return state.MessageID("report", uuid.NewString())
	}
	r := m.Report
	place := []string{"said", m.SessionID, m.ThreadKey, m.ThreadName}
	return state.MessageID(append(place, string(r.Type), r.Prefix, r.Session, r.About, r.Title, r.Text)...)
}

// heldUntil is when a report may go; zero for at once. Quiet hours hold everything but what is urgent.
func heldUntil(cfg *Config, rule ReportRule, urgent bool, now time.Time) (until time.Time) {
	goes := now
	if rule == ReportDigest {
		until = now.Truncate(DigestEvery).Add(DigestEvery)
		goes = until
	}
	if end, quiet := cfg.Quiet.Until(goes); quiet && !urgent {
		return end
	}
	return until
}
