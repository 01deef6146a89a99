package hooks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"gchat-hooks/state"
)

// BenchmarkReportHooks is what the hooks that report do, without the start of a process and of a poller.
func BenchmarkReportHooks(b *testing.B) {
	for _, c := range []struct{ name, hook, event string }{
		{"SuppressedNotification", notifyHook, "timing-09-Notification"}, {"SubagentStop", notifyHook, "plan-12-SubagentStop"},
		{"PermissionPrompt", notifyHook, "timing-05-Notification"}, {"SessionStart", sessionHook, "single-01-SessionStart"},
		{"Stop", sessionHook, "single-07-Stop"}, {"SessionEnd", sessionHook, "timing-10-SessionEnd"},
	} {
		b.Run(c.name, func(b *testing.B) {
			m := newMachine(b)
			initRepository(b, m.env["CLAUDE_PROJECT_DIR"])
			m.put(m.dir+"/sess-1.jsonl", longTranscript(b))
			for i := 0; b.Loop(); i++ {
				m.run(c.hook, m.event(c.event, "message", fmt.Sprint(i), "last_assistant_message", fmt.Sprint(i)))
			}
		})
	}
}

// longTranscript is 8 MB of one turn: tools with long results, and a command that waits.
func longTranscript(b *testing.B) string {
	var long strings.Builder
	for i := range 1000 {
		id := fmt.Sprint(i)
		long.WriteString(assistantLine(b, time.Now(), call(id, "Read", map[string]any{"file_path": "/home/dev/a.go"})))
		long.WriteString(strings.Replace(entryLine(b, "user", time.Now(), result(id)), "done", strings.Repeat("x", 8000), 1))
	}
	long.WriteString(assistantLine(b, time.Now(), call("last", "Bash", map[string]any{"command": "make"})))
	return long.String()
}

// BenchmarkGate is a decision with 1,000 markers lying around: of other sessions, and of this one, where none proves anything
// (each is read), where only the oldest does, and where the newest does.
func BenchmarkGate(b *testing.B) {
	for _, c := range []struct {
		name, session string
		proof         int // which marker is pending; -1 for none
	}{{"Others", "sess-2", -1}, {"OwnNoneProves", "sess-1", -1}, {"OwnOldestProves", "sess-1", 0}, {"OwnNewestProves", "sess-1",
		999}} {
		b.Run(c.name, func(b *testing.B) {
			m := newGate(b)
			for i := range 1000 {
				q := &state.Question{
					QuestionID: fmt.Sprintf("ask-%s-%08x", c.session, i), SessionID: c.session, Mode: state.Deny, Status: state.Resolved,
					AskedAt: time.Now().Add(-time.Hour), Questions: []state.Prompt{{Question: strings.Repeat("Which one? ", 50)}},
				}
				q.ResolvedAt = &q.AskedAt
				if i == c.proof {
					q.Status, q.AskedAt = state.Pending, time.Now()
				}
				text, err := json.Marshal(q)
				if err != nil {
					b.Fatal(err)
				}
				m.put(m.markerPath(q.QuestionID), string(text))
				age(b, m.markerPath(q.QuestionID), time.Duration(1000-i)*time.Millisecond)
			}
			for b.Loop() {
				m.run(gateHook, m.event("single-07-Stop"))
			}
		})
	}
}
