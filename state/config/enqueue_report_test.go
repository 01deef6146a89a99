package config

import (
	"errors"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

func reportEnv(t *testing.T) state.Getenv {
	t.Helper()
	env := map[string]string{"HOME": t.TempDir(), "XDG_STATE_HOME": t.TempDir()}
	return func(name string) string { return env[name] }
}

func TestEnqueueReport_Table(t *testing.T) {
	evening := time.Date(2026, 11, 21, 22, 30, 0, 0, time.UTC)
	noon := time.Date(2026, 11, 21, 12, 10, 0, 0, time.UTC)
	quiet := &QuietHours{From: 22 * 60, To: 7 * 60, TimeZone: time.UTC}
	morning := time.Date(2026, 11, 22, 7, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name      string
		rules     map[string]ReportRule
		otherwise ReportRule
		quiet     *QuietHours
		now       time.Time
		report    state.Report
		key       string // of its thread
		off       bool
		held      time.Time
		thread    string
	}{
		{name: "at once, in the session's thread", now: noon, thread: "session-a"},
		{name: "off by its kind", rules: map[string]ReportRule{"task_done": ReportOff}, now: noon,
			report: state.Report{RuleKind: "task_done"}, off: true},
		{name: "off by its type", rules: map[string]ReportRule{"heartbeat": ReportOff}, now: noon,
			report: state.Report{Type: state.ReportHeartbeat}, off: true},
		{name: "off where nothing is set", otherwise: ReportOff, now: noon, off: true},
		{name: "on where a rule says so", rules: map[string]ReportRule{"plain": ReportOn},
			otherwise: ReportOff, now: noon,
			report: state.Report{Type: state.ReportPlain}, thread: "session-a"},
		{name: "a digest goes with the full hour",
			rules: map[string]ReportRule{"progress_update": ReportDigest}, now: noon,
			report: state.Report{Type: state.ReportProgressUpdate},
			held:   noon.Add(50 * time.Minute), thread: "digest-2026-11-21"},
		{name: "quiet hours end in a digest", quiet: quiet, now: evening, held: morning,
			thread: "digest-2026-11-22"},
		{name: "a digest that falls into quiet hours",
			rules: map[string]ReportRule{"plain": ReportDigest}, quiet: quiet,
			now: evening.Add(-40 * time.Minute), report: state.Report{Type: state.ReportPlain},
			held: morning, thread: "digest-2026-11-22"},
		{name: "an alert knows no quiet hours", quiet: quiet, now: evening,
			report: state.Report{Type: state.ReportBlockedAlert}, thread: "session-a"},
		{name: "a thread that was named waits for itself", quiet: quiet, now: evening, key: "mine",
			held: morning, thread: "mine"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := reportEnv(t)
			cfg := &Config{WebhookURL: "https://chat.example/x", Reports: tt.rules,
				QuietHours: tt.quiet}
			tt.report.Text = "hello"
			out, err := EnqueueReport(env, cfg, &state.Message{
				Report: &tt.report, SessionID: "a", ThreadKey: tt.key, CreatedAt: tt.now,
			}, tt.otherwise)
			kit.NoError(t, err)
			all, bad := state.OutboxIn(state.UserStateDir(env)).Waiting()
			if tt.off {
				kit.True(t, out.IsOff && len(all) == 0, "%+v, in the outbox: %d", out, len(all))
				return
			}
			kit.Must(t, len(all) == 1 && len(bad) == 0, "in the outbox: %v, %v", all, bad)
			m := all[0]
			kit.True(t, m.ThreadKey == tt.thread && out.HeldUntil.Equal(tt.held) &&
				m.NotBefore.Equal(tt.held),
				"thread %s, held until %s, not before %s", m.ThreadKey, out.HeldUntil, m.NotBefore)
			digest := !tt.held.IsZero() && tt.key == ""
			kit.True(t, m.IsDigest == digest && m.IsUrgent == tt.report.Type.IsUrgent(),
				"digest %t, urgent %t", m.IsDigest, m.IsUrgent)
		})
	}
}

func TestEnqueueReport_Once(t *testing.T) {
	env, cfg := reportEnv(t), &Config{WebhookURL: "https://chat.example/x"}
	now := time.Date(2026, 11, 21, 12, 10, 0, 0, time.UTC)
	said := func(session, text, key string, at time.Time) bool {
		m := &state.Message{Report: &state.Report{Type: state.ReportPlain, Text: text},
			SessionID: session, Key: key, CreatedAt: at}
		out, err := EnqueueReport(env, cfg, m, "")
		kit.NoError(t, err)
		kit.True(t, !out.IsRepeated || out.Message.Report.Text != "",
			"a repetition without the message that stands")
		return !out.IsRepeated
	}
	for _, tt := range []struct {
		name, session, text, key string
		after                    time.Duration
		want                     bool
	}{
		{"first", "a", "x", "", 0, true},
		{"the same words", "a", "x", "", time.Second, false},
		{"of another session", "b", "x", "", time.Second, true},
		{"other words", "a", "y", "", time.Second, true},
		{"the same a minute later", "a", "x", "", time.Minute, true},
		{"outside a session", "", "x", "", 0, true},
		{"outside a session again", "", "x", "", 0, true},
		{"once", "a", "end", "end-a", 0, true},
		{"once, an hour later", "a", "other", "end-a", time.Hour, false},
	} {
		kit.Equalf(t, said(tt.session, tt.text, tt.key, now.Add(tt.after)), tt.want, "%s: put",
			tt.name)
	}
}

// A report is a repetition only if it goes to the same place. Then the same text, or the
// same key, is sent once.
func TestEnqueueReport_OnceInEachPlace(t *testing.T) {
	env := reportEnv(t)
	for _, key := range []string{"", "once"} {
		for _, place := range []struct{ name, webhook, space, thread string }{
			{name: "a webhook", webhook: "https://chat.example/a"},
			{name: "another webhook", webhook: "https://chat.example/b"},
			{name: "another space of a gateway", webhook: "https://chat.example/b",
				space: "spaces/C"},
			{name: "a thread", webhook: "https://chat.example/a", thread: "t"},
		} {
			for _, again := range []bool{false, true} {
				cfg := &Config{WebhookURL: place.webhook, SpaceID: place.space}
				report := &state.Report{Type: state.ReportPlain, Text: "x"}
				m := &state.Message{Report: report, SessionID: "a", Key: key,
					ThreadKey: place.thread}
				out, err := EnqueueReport(env, cfg, m, "")
				kit.True(t, err == nil && out.IsRepeated == again,
					"%s, key %q, again %t: repeated %t, %v", place.name, key, again, out.IsRepeated,
					err)
			}
		}
	}
}

func TestEnqueueReport_NeedsAChat(t *testing.T) {
	_, err := EnqueueReport(reportEnv(t), &Config{},
		&state.Message{Report: &state.Report{Text: "x"}}, "")
	kit.True(t, errors.Is(err, ErrNoWebhook), "got %v", err)
}
