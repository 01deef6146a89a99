package config

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // a small container has no time zones of its own

	"gchat-hooks/state"

	"github.com/google/uuid"
)

// Outcome is what became of a report that was to be put into the outbox.
type Outcome struct {
	Message   *state.Message // as it stands in the outbox; nil when Off
	Off       bool           // a rule suppresses it
	Repeated  bool           // it was put already, and Message is that one
	HeldUntil time.Time      // a rule or the quiet hours hold it until then; zero for at once
}

// PutReport puts a message with a Report into the outbox, as the rules of its project's configuration have it; otherwise is
// the rule that holds where the person set none, "" is ReportOn. The caller starts a poller then.
//
// Of the message the caller sets Report, ProjectDir and SessionID ("" outside a session). An Urgent one goes in quiet hours.
// ThreadKey or ThreadName name a thread in place of the session's. CreatedAt is now where it is zero.
// Key names what is reported once to a destination. Without Key the same words of one session count once within a minute:
// Claude Code may deliver an event to a hook twice. Outside a session each report counts on its own.
//
// Errors are ErrNoWebhook, ErrPolicy, and the disk's: then nothing was written.
func PutReport(env state.Getenv, cfg *Config, m *state.Message, otherwise ReportRule) (Outcome, error) {
	r := m.Report
	rule := cmp.Or(cfg.ReportRule(r.Kind, string(r.Type)), otherwise, ReportOn)
	if rule == ReportOff {
		return Outcome{Off: true}, nil
	}
	err := cfg.Restrict(context.Background(), env)
	asks := r.Kind == string(state.AskedPermission) // it tells what a permission is asked for
	switch {
	case err != nil:
		return Outcome{}, err
	case !cfg.Terms(Report, "").Asked, asks && !cfg.Terms(state.AskedPermission, "").Asked:
		return Outcome{Off: true}, nil
	case (asks || r.Kind == TurnDone) && !cfg.Terms(state.Kind(r.Kind), "").Shown:
		r.Text = ""
	}
	if !cfg.Sends() {
		return Outcome{}, cfg.noWebhook()
	}
	if m.CreatedAt.IsZero() {
		m.CreatedAt = time.Now().UTC()
	}
	again := state.MaxAge
	switch {
	case m.Key != "":
		m.Key = state.MessageID("once", cfg.destination(m), m.Key)
	case m.SessionID != "":
		again = time.Minute
		m.Key = state.MessageID("said", cfg.destination(m), m.SessionID,
			string(r.Type), r.Prefix, r.Session, r.About, r.Title, r.Text)
	default:
		m.Key = state.MessageID("report", uuid.NewString())
	}
	m.Type, m.Urgent = state.MessageReport, m.Urgent || r.Type.Urgent()
	m.ID = state.NamedID("report", m.Key, m.CreatedAt.Format(time.RFC3339Nano))
	var held time.Time
	if rule == ReportDigest || cfg.Quiet != nil {
		held = heldUntil(cfg, rule, m.Urgent, m.CreatedAt)
	}
	if !held.IsZero() { // it is worded when it goes
		m.NotBefore, m.Parts, m.TriedAt = held.UTC(), nil, time.Time{}
	}
	switch {
	case m.ThreadKey != "" || m.ThreadName != "":
	case !held.IsZero():
		m.Digest, m.ThreadKey = true, "digest-"+held.Format(time.DateOnly)
	case m.SessionID != "":
		m.ThreadKey = state.SessionThread(m.SessionID)
	}
	stands, put, err := state.OutboxIn(state.UserState(env)).Put(env, m, again)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Message: stands, Repeated: !put, HeldUntil: held}, nil
}

// destination is where a report goes: the space and the thread, by all that names them.
func (c *Config) destination(m *state.Message) string {
	space := []string{c.WebhookURL, c.WebhookCommand, c.SpaceID, c.Subscription, c.APIEndpoint}
	return strings.Join(append(space, m.ThreadKey, m.ThreadName), "\x00")
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

// TurnDone is what rules call the line that a turn leaves in the thread of its session.
const TurnDone = "turn_done"

// ReportRule is what becomes of a kind of report.
type ReportRule string

const (
	ReportOn     ReportRule = "on"     // sent at once
	ReportOff    ReportRule = "off"    // not sent
	ReportDigest ReportRule = "digest" // collected, and sent as one message every DigestEvery
)

// ReportRule is what the person set for the first of the kinds that they set something for; "" when for none. Kinds are
// the message types (task_completion, …), the finer subagent_done, task_done and permission, and other notifications' types.
func (c *Config) ReportRule(kinds ...string) ReportRule {
	for _, k := range kinds {
		if r := c.Reports[k]; r != "" {
			return r
		}
	}
	return ""
}

// readReports and its like leave out what they cannot read: a slip in the quiet hours is no reason to send no questions.
func (c *Config) readReports(value json.RawMessage) error {
	var rules map[string]json.RawMessage
	err := json.Unmarshal(value, &rules)
	for kind, raw := range rules {
		var rule ReportRule
		word, _ := textOf(raw)
		c.problem("reports: "+kind, takeWord(&rule, word, []ReportRule{ReportOn, ReportOff, ReportDigest}))
		c.Reports[kind] = cmp.Or(c.Reports[kind], rule)
	}
	return err
}

func (c *Config) readQuiet(value json.RawMessage) error {
	if c.Quiet != nil {
		return nil
	}
	quiet := &QuietHours{}
	if err := json.Unmarshal(value, quiet); err != nil {
		return err
	}
	c.Quiet = quiet
	return nil
}

// QuietHours are the part of each day in which reports are held back: {"from": "22:00", "to": "07:00", "time_zone":
// "Europe/Berlin"}, the machine's own zone when none is given.
type QuietHours struct {
	From, To Clock
	Zone     *time.Location
}

// Clock is a time of day, in minutes since midnight.
type Clock int

// UnmarshalJSON reads quiet hours; hours that never or always hold are refused.
func (q *QuietHours) UnmarshalJSON(b []byte) error {
	var v struct {
		From string `json:"from"`
		To   string `json:"to"`
		Zone string `json:"time_zone"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	for _, c := range []struct {
		at *Clock
		s  string
	}{{&q.From, v.From}, {&q.To, v.To}} {
		t, err := time.Parse("15:04", c.s)
		if err != nil {
			return fmt.Errorf("%q is not a time of day such as 22:00", c.s)
		}
		*c.at = Clock(t.Hour()*60 + t.Minute())
	}
	if q.From == q.To {
		return fmt.Errorf("from and to are both %s", v.From)
	}
	q.Zone = time.Local
	if v.Zone != "" {
		var err error
		q.Zone, err = time.LoadLocation(v.Zone)
		if err != nil {
			return fmt.Errorf("time_zone: %w", err)
		}
	}
	return nil
}

// Until says whether t is in quiet hours (nil has none), and when they end.
func (q *QuietHours) Until(t time.Time) (end time.Time, quiet bool) {
	if q == nil {
		return time.Time{}, false
	}
	t = t.In(q.Zone)
	day, now := t.Day(), Clock(t.Hour()*60+t.Minute())
	switch overnight := q.From > q.To; {
	case overnight && now >= q.From:
		day++
	case overnight && now < q.To, now >= q.From && now < q.To:
	default:
		return time.Time{}, false
	}
	// time.Date knows on which days the clock is changed.
	return time.Date(t.Year(), t.Month(), day, int(q.To)/60, int(q.To)%60, 0, 0, q.Zone), true
}
