package hooks_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"gchat-hooks/state"
)

// BenchmarkGate is a decision with 1,000 markers lying around, as a whole process: of other sessions, and of this one,
// where none proves anything (each is read), where only the oldest does, and where the newest does. The last ones are a day
// old: some are removed each time, after the decision.
func BenchmarkGate(b *testing.B) {
	lately, hour, old := 10*time.Minute, time.Hour, 48*time.Hour
	for _, c := range []struct {
		name, session string
		asked         time.Duration // ago
		proof         int           // which marker is pending; -1 for none
		files         time.Duration // how old the files are
	}{
		{"OthersMarkers", "sess-2", hour, -1, 0}, {"OwnNoneProves", "sess-1", hour, -1, 0}, {"OwnOldestProves", "sess-1", hour, 0, 0}, {"OwnNewestProves", "sess-1", hour, 999, 0},
		{"OldMarkers", "sess-2", old, -1, old},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := benchWorld(b)
			w.env["GCHAT_ASK_MODE"], w.env["CLAUDE_SESSION_ID"] = "deny", "system3-main"
			w.run(sessionHook, w.event("single-01-SessionStart"))
			put := func() {
				for i := range 1000 {
					asked, status := time.Now().Add(-c.asked), state.Resolved
					if i == c.proof {
						asked, status = time.Now().Add(-lately), state.Pending
					}
					w.fullMarker(i, c.session, status, asked)
					age(b, w.markerPath(fmt.Sprintf("ask-%s-%08x", c.session, i)), c.files+time.Duration(1000-i)*time.Millisecond)
				}
			}
			put()
			var ds []time.Duration
			for i := 0; b.Loop(); i++ {
				if c.files > 0 && len(w.left()) < 500 {
					b.StopTimer()
					put()
					b.StartTimer()
				}
				// A session that is sent back each time has an id of its own: the count of blocks would let it stop.
				event := w.event("single-07-Stop")
				if c.proof < 0 && c.session != "sess-1" {
					event = w.event("single-07-Stop", "session_id", fmt.Sprint("session-", i))
				}
				ds = append(ds, once(b, w.environ(), event, program, "hook", stopGate))
			}
			report(b, "process", ds)
			b.ReportMetric(ms(ds[0]), "process-ms(min)")
			b.ReportMetric(ms(ds[len(ds)*9/10]), "process-ms(p90)")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// fullMarker writes a marker as this version does.
func (w *world) fullMarker(i int, session string, status state.Status, asked time.Time) {
	w.Helper()
	id, response, resolved := fmt.Sprintf("ask-%s-%08x", session, i), "Canary", asked.UTC()
	q := &state.Question{
		QuestionID: id, SessionID: session, AskedAt: asked.UTC(), ThreadKey: id, ThreadName: "spaces/AAAABBBBCCCC/threads/DDDDEEEEFFFF", MessageSent: true,
		MessageName: "spaces/AAAABBBBCCCC/messages/GGGGHHHHIIII.JJJJKKKK", Status: status, Response: &response, ResolvedAt: &resolved, Mode: state.Deny, Denied: true,
		ProjectDir: w.env["CLAUDE_PROJECT_DIR"], CWD: w.env["CLAUDE_PROJECT_DIR"], SessionName: "system3-main", ToolUseID: "toolu_01ABCDEFGHIJKLMNOPQRSTUV", TimesOutAt: &resolved,
		Questions: []state.Prompt{{Question: "Which deployment approach should we use?", Header: "Deploy", Options: []state.Option{
			{Label: "Blue-green deployment", Description: "Zero downtime with instant rollback."}, {Label: "Rolling deployment", Description: "Gradual rollout."}, {Label: "Canary", Description: "Small slice first."}}}},
		Replies: []state.Reply{{MessageName: "spaces/AAAABBBBCCCC/messages/LLLL", Sender: "users/1", Text: "canary", CreateTime: resolved, Verdict: state.Used}},
	}
	b, err := json.Marshal(q)
	if err != nil {
		w.Fatal(err)
	}
	writeFile(w.TB, filepath.Join(filepath.Dir(w.markerPath(id)), id+".json"), string(b))
}
