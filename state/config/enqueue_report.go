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

// ReportResult says what EnqueueReport did with a report.
type ReportResult struct {
	Message    *state.Message // the message in the outbox; nil if IsOff
	IsOff      bool           // a rule or a policy suppresses the report
	IsRepeated bool           // Message was enqueued before
	HeldUntil  time.Time      // a rule or the quiet hours hold it until then; zero for at once
}

// EnqueueReport enqueues a message with a Report, as the rules in its project's
// configuration say. defaultRule counts if the person set no rule for it; "" is ReportOn.
// The caller then starts a poller.
//
// The caller sets the message's Report, ProjectDir and SessionID ("" outside a session).
// IsUrgent sends it in quiet hours, too. ThreadKey or ThreadName name a thread to use
// instead of the session's. CreatedAt defaults to the time of the call.
//
// Key names what is to be reported only once to a destination. Without Key, a report with
// the same text from the same session counts once within a minute: Claude Code may
// deliver an event to a hook twice. Outside a session, each report without Key counts.
//
// The error is ErrNoWebhook, ErrUnreadablePolicy, or the disk's. Nothing was written
// then.
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
	if err := cfg.ApplyPolicies(context.Background(), env); err != nil {
		return ReportResult{}, err
	}
	isPermission := r.RuleKind == string(state.KindPermission)
	// The text of such a report says what a permission asks for, or what a turn did.
	hasPrivateText := isPermission || r.RuleKind == KindTurnDone
	switch {
	case !cfg.AccessTo(KindReport, "").CanAsk,
		isPermission && !cfg.AccessTo(state.KindPermission, "").CanAsk:
		return ReportResult{IsOff: true}, nil
	case hasPrivateText && !cfg.AccessTo(state.Kind(r.RuleKind), "").CanShow:
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
	releaseAt := heldUntil(cfg, rule, m.IsUrgent, m.CreatedAt)
	if !releaseAt.IsZero() { // its text is written when it is sent
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

// destination identifies where a report goes, by everything that names its space and its
// thread.
func (c *Config) destination(m *state.Message) string {
	space := []string{c.WebhookURL, c.WebhookCommand, c.SpaceID, c.Subscription, c.APIEndpoint}
	return strings.Join(append(space, m.ThreadKey, m.ThreadName), "\x00")
}

// heldUntil returns when a report may be sent; zero for at once. Quiet hours hold every
// report that is not urgent.
func heldUntil(cfg *Config, rule ReportRule, isUrgent bool, now time.Time) (until time.Time) {
	sendAt := now
	if rule == ReportDigest {
		until = now.Truncate(digestInterval).Add(digestInterval)
		sendAt = until
	}
	if end, isQuiet := cfg.QuietHours.EndAfter(sendAt); isQuiet && !isUrgent {
		return end
	}
	return until
}

// KindTurnDone is the name of a kind of report in the setting reports. When a turn ends,
// such a report is posted in the session's thread.
const KindTurnDone = "turn_done"

// ReportRule says whether and when reports of a kind are sent.
type ReportRule string

const (
	ReportOn     ReportRule = "on"     // sent at once
	ReportOff    ReportRule = "off"    // not sent
	ReportDigest ReportRule = "digest" // collected, and sent as one message every digestInterval
)

// ReportRule returns the rule of the first of these kinds that the person set a rule for;
// "" if there is none. A kind is a state.ReportType (task_completion, …), a finer
// Report.RuleKind (subagent_done, task_done, permission), or the type of another of
// Claude Code's notifications.
func (c *Config) ReportRule(kinds ...string) ReportRule {
	for _, k := range kinds {
		if r := c.Reports[k]; r != "" {
			return r
		}
	}
	return ""
}

// readReports reads the rules for reports. It skips a rule that it cannot read: a mistake
// there must not keep questions from being sent. The same holds for readQuietHours.
func (c *Config) readReports(value json.RawMessage) error {
	var rules map[string]json.RawMessage
	err := json.Unmarshal(value, &rules)
	for kind, raw := range rules {
		var rule ReportRule
		word, _ := settingText(raw)
		c.addProblem("reports: "+kind, setWord(&rule, word, reportRuleWords))
		c.Reports[kind] = cmp.Or(c.Reports[kind], rule)
	}
	return err
}

func (c *Config) readQuietHours(value json.RawMessage) error {
	if c.QuietHours != nil {
		return nil
	}
	quiet := &QuietHours{}
	err := json.Unmarshal(value, quiet)
	if err == nil {
		c.QuietHours = quiet
	}
	return err
}

// QuietHours are the hours of each day in which reports are held back: {"from": "22:00",
// "to": "07:00", "time_zone": "Europe/Berlin"}. Without time_zone, the machine's own
// counts.
type QuietHours struct {
	From, To TimeOfDay
	TimeZone *time.Location
}

// TimeOfDay is a time of day, in minutes since midnight.
type TimeOfDay int

// UnmarshalJSON parses quiet hours. It is an error if from and to are the same: that
// would be never, or always.
func (q *QuietHours) UnmarshalJSON(b []byte) error {
	var v struct {
		From string `json:"from"`
		To   string `json:"to"`
		Zone string `json:"time_zone"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	for _, end := range []struct {
		target *TimeOfDay
		text   string
	}{{&q.From, v.From}, {&q.To, v.To}} {
		t, err := time.Parse("15:04", end.text)
		if err != nil {
			return fmt.Errorf("%q is not a time of day such as 22:00", end.text)
		}
		*end.target = TimeOfDay(t.Hour()*60 + t.Minute())
	}
	if q.From == q.To {
		return fmt.Errorf("from and to are both %s", v.From)
	}
	var err error
	q.TimeZone, err = time.LoadLocation(cmp.Or(v.Zone, "Local"))
	if err != nil {
		return fmt.Errorf("time_zone: %w", err)
	}
	return nil
}

// EndAfter reports whether t is in the quiet hours, and when they end. A nil QuietHours
// has none.
func (q *QuietHours) EndAfter(t time.Time) (end time.Time, isQuiet bool) {
	if q == nil {
		return time.Time{}, false
	}
	t = t.In(q.TimeZone)
	day, now := t.Day(), TimeOfDay(t.Hour()*60+t.Minute())
	switch isOvernight := q.From > q.To; {
	case isOvernight && now >= q.From:
		day++
	case isOvernight && now < q.To, now >= q.From && now < q.To:
	default:
		return time.Time{}, false
	}
	// time.Date is right on a day with a change to or from summer time, too.
	return time.Date(t.Year(), t.Month(), day, int(q.To)/60, int(q.To)%60, 0, 0, q.TimeZone), true
}
