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

// ReportResult is what became of a report that was to be put into the outbox.
type ReportResult struct {
	Message    *state.Message // as it stands in the outbox; nil when Off
	IsOff      bool           // a rule suppresses it
	IsRepeated bool           // it was put already, and Message is that one
	HeldUntil  time.Time      // a rule or the quiet hours hold it until then; zero for at once
}

// EnqueueReport puts a message with a Report into the outbox, as the rules of its
// project's configuration have it; otherwise is the rule that holds where the person set
// none, "" is ReportOn. The caller starts a poller then.
//
// Of the message the caller sets Report, ProjectDir and SessionID ("" outside a session).
// An Urgent one goes in quiet hours. QuestionThreadKey or ThreadName name a thread in
// place of the session's. CreatedAt is now where it is zero. Key names what is reported
// once to a destination. Without Key the same words of one session count once within a
// minute: Claude Code may deliver an event to a hook twice. Outside a session each report
// counts on its own.
//
// Errors are ErrNoWebhook, ErrUnreadablePolicy, and the disk's: then nothing was written.
func EnqueueReport(
	env state.Getenv,
	cfg *Config,
	m *state.Message,
	defaultRule ReportRule,
) (ReportResult, error) {
	r := m.Report
	rule := cmp.Or(cfg.ReportRule(r.RuleKind, string(r.Type)), defaultRule, ReportOn)
	if rule == ReportOff {
		return ReportResult{IsOff: true}, nil
	}
	err := cfg.ApplyPolicies(context.Background(), env)
	// it tells what a permission is asked for
	isPermission := r.RuleKind == string(state.KindPermission)
	switch {
	case err != nil:
		return ReportResult{}, err
	case !cfg.AccessTo(KindReport, "").CanAsk,
		isPermission && !cfg.AccessTo(state.KindPermission, "").CanAsk:
		return ReportResult{IsOff: true}, nil
	case (isPermission || r.RuleKind == KindTurnDone) && !cfg.AccessTo(state.Kind(r.RuleKind), "").CanShow:
		r.Text = ""
	}
	if !cfg.CanSend() {
		return ReportResult{}, cfg.noWebhookError()
	}
	if m.CreatedAt.IsZero() {
		m.CreatedAt = time.Now().UTC()
	}
	repeatAfter := state.MaxQuestionAge
	switch {
	case m.Key != "":
		m.Key = state.MessageID("once", cfg.destination(m), m.Key)
	case m.SessionID != "":
		repeatAfter = time.Minute
		m.Key = state.MessageID("said", cfg.destination(m), m.SessionID,
			string(r.Type), r.Prefix, r.SessionName, r.About, r.Title, r.Text)
	default:
		m.Key = state.MessageID("report", uuid.NewString())
	}
	m.Type, m.IsUrgent = state.MessageReport, m.IsUrgent || r.Type.IsUrgent()
	m.ID = state.MachineMessageID("report", m.Key, m.CreatedAt.Format(time.RFC3339Nano))
	var releaseAt time.Time
	if rule == ReportDigest || cfg.QuietHours != nil {
		releaseAt = heldUntil(cfg, rule, m.IsUrgent, m.CreatedAt)
	}
	if !releaseAt.IsZero() { // it is worded when it goes
		m.NotBefore, m.Parts, m.FirstTriedAt = releaseAt.UTC(), nil, time.Time{}
	}
	switch {
	case m.ThreadKey != "" || m.ThreadName != "":
	case !releaseAt.IsZero():
		m.IsDigest, m.ThreadKey = true, "digest-"+releaseAt.Format(time.DateOnly)
	case m.SessionID != "":
		m.ThreadKey = state.SessionThreadKey(m.SessionID)
	}
	stored, isNew, err := state.OutboxIn(state.UserStateDir(env)).Enqueue(env, m, repeatAfter)
	if err != nil {
		return ReportResult{}, err
	}
	return ReportResult{Message: stored, IsRepeated: !isNew, HeldUntil: releaseAt}, nil
}

// destination is where a report goes: the space and the thread, by all that names them.
func (c *Config) destination(m *state.Message) string {
	space := []string{c.WebhookURL, c.WebhookCommand, c.SpaceID, c.Subscription, c.APIEndpoint}
	return strings.Join(append(space, m.ThreadKey, m.ThreadName), "\x00")
}

// heldUntil is when a report may go; zero for at once. Quiet hours hold everything but
// what is urgent.
func heldUntil(cfg *Config, rule ReportRule, urgent bool, now time.Time) (until time.Time) {
	sendAt := now
	if rule == ReportDigest {
		until = now.Truncate(digestInterval).Add(digestInterval)
		sendAt = until
	}
	if end, isQuiet := cfg.QuietHours.EndAfter(sendAt); isQuiet && !urgent {
		return end
	}
	return until
}

// KindTurnDone is what rules call the line that a turn leaves in the thread of its
// session.
const KindTurnDone = "turn_done"

// ReportRule is what becomes of a kind of report.
type ReportRule string

const (
	ReportOn     ReportRule = "on"     // sent at once
	ReportOff    ReportRule = "off"    // not sent
	ReportDigest ReportRule = "digest" // collected, and sent as one message every digestInterval
)

// ReportRule is what the person set for the first of the kinds that they set something
// for; "" when for none. Kinds are the message types (task_completion, …), the finer
// subagent_done, task_done and permission, and other notifications' types.
func (c *Config) ReportRule(kinds ...string) ReportRule {
	for _, k := range kinds {
		if r := c.Reports[k]; r != "" {
			return r
		}
	}
	return ""
}

// readReports and its like leave out what they cannot read: a slip in the quiet hours is
// no reason to send no questions.
func (c *Config) readReports(value json.RawMessage) error {
	var rules map[string]json.RawMessage
	err := json.Unmarshal(value, &rules)
	for kind, raw := range rules {
		var rule ReportRule
		word, _ := settingText(raw)
		c.addProblem(
			"reports: "+kind,
			setWord(&rule, word, []ReportRule{ReportOn, ReportOff, ReportDigest}),
		)
		c.Reports[kind] = cmp.Or(c.Reports[kind], rule)
	}
	return err
}

func (c *Config) readQuietHours(value json.RawMessage) error {
	if c.QuietHours != nil {
		return nil
	}
	quiet := &QuietHours{}
	if err := json.Unmarshal(value, quiet); err != nil {
		return err
	}
	c.QuietHours = quiet
	return nil
}

// QuietHours are the part of each day in which reports are held back: {"from": "22:00",
// "to": "07:00", "time_zone": "Europe/Berlin"}, the machine's own zone when none is
// given.
type QuietHours struct {
	From, To TimeOfDay
	TimeZone *time.Location
}

// TimeOfDay is a time of day, in minutes since midnight.
type TimeOfDay int

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
		at *TimeOfDay
		s  string
	}{{&q.From, v.From}, {&q.To, v.To}} {
		t, err := time.Parse("15:04", c.s)
		if err != nil {
			return fmt.Errorf("%q is not a time of day such as 22:00", c.s)
		}
		*c.at = TimeOfDay(t.Hour()*60 + t.Minute())
	}
	if q.From == q.To {
		return fmt.Errorf("from and to are both %s", v.From)
	}
	q.TimeZone = time.Local
	if v.Zone != "" {
		var err error
		q.TimeZone, err = time.LoadLocation(v.Zone)
		if err != nil {
			return fmt.Errorf("time_zone: %w", err)
		}
	}
	return nil
}

// EndAfter says whether t is in quiet hours (nil has none), and when they end.
func (q *QuietHours) EndAfter(t time.Time) (end time.Time, isQuiet bool) {
	if q == nil {
		return time.Time{}, false
	}
	t = t.In(q.TimeZone)
	day, now := t.Day(), TimeOfDay(t.Hour()*60+t.Minute())
	switch overnight := q.From > q.To; {
	case overnight && now >= q.From:
		day++
	case overnight && now < q.To, now >= q.From && now < q.To:
	default:
		return time.Time{}, false
	}
	// time.Date knows on which days the clock is changed.
	return time.Date(t.Year(), t.Month(), day, int(q.To)/60, int(q.To)%60, 0, 0, q.TimeZone), true
}
