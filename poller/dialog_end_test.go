package poller

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// No hook reports the end of a question whose plugin folder was deleted. Claude Code's
// own file does.
func TestDialogEnd_ClosesItsQuestion(t *testing.T) {
	const waits, works = `{"status":"waiting"}`, `{"status":"busy"}`
	for name, c := range map[string]struct {
		mode     state.Mode
		statuses []string
		later    time.Duration
		want     state.Status
	}{
		"its dialog is gone": {
			state.ModeNative, []string{waits, works, works}, graceForAnswered, state.Cancelled,
		},
		"its hooks have a while": {
			state.ModeNative, []string{waits, works, works}, graceForAnswered - time.Second,
			state.Pending,
		},
		"another dialog came": {
			state.ModeNative, []string{waits, works, works, waits}, graceForAnswered, state.Pending,
		},
		"its dialog was not seen": {
			state.ModeNative, []string{works, works, works}, graceForAnswered, state.Pending,
		},
		"the poller looks itself": {
			state.ModeInject, []string{waits, works, works}, graceForAnswered, state.Pending,
		},
		"no dialog is drawn (hold)": {
			state.ModeHold, []string{waits, works, works}, graceForAnswered, state.Pending,
		},
		"the session goes on (deny)": {
			state.ModeDeny, []string{waits, works, works}, graceForAnswered, state.Pending,
		},
	} {
		d := newTestMachine(t)
		q := d.addQuestion(func(q *state.Question) {
			d.markPosted(q)
			q.Mode, q.ClaudePID, q.SessionID = c.mode, os.Getpid(), "s"
		})
		says, p := d.startClaudeStatus("s"), d.newPoller()
		now := time.Now()
		p.Now = func() time.Time { return now }
		p.readIndex()
		record := p.ownOldestFirst()[0]
		for _, status := range c.statuses {
			says(status)
			p.attendRecord(t.Context(), record, true)
		}
		now = now.Add(c.later)
		p.attendRecord(t.Context(), record, true)
		stored := d.loadQuestion(q)
		isByDialog := stored.ResolvedBy == state.EndedDialogGone
		kit.True(t, stored.Status == c.want && isByDialog == (c.want != state.Pending),
			"%s: %s by %q, want %s", name, stored.Status, stored.ResolvedBy, c.want)
	}
}

// No hook reports that Esc ended the turn in which a form was asked. Claude Code's own
// file says since when the session is idle. It is not idle while an agent works in the
// background.
func TestDialogEnd_FormEndsWithTurn(t *testing.T) {
	for name, c := range map[string]struct {
		status string
		since  time.Duration // after it was asked
		want   state.Status
	}{
		"the turn has ended":       {"idle", time.Second, state.Cancelled},
		"it works":                 {"busy", time.Second, state.Pending},
		"its dialog waits":         {"waiting", time.Second, state.Pending},
		"it rested already":        {"idle", -time.Second, state.Pending},
		"its file is of no status": {"", time.Second, state.Pending},
	} {
		for _, isOver := range []bool{false, true} {
			d := newTestMachine(t)
			q := d.addQuestion(func(q *state.Question) {
				d.markPosted(q)
				q.Kind, q.Mode, q.IsDialogHidden, q.ClaudePID, q.SessionID =
					state.KindForm, state.ModeHold, true, os.Getpid(), "s"
				if isOver {
					q.HandedOverAt = new(time.Now())
				}
			})
			d.startClaudeStatus("s")(fmt.Sprintf(`{"status":%q,"statusUpdatedAt":%d}`, c.status,
				q.AskedAt.Add(c.since).UnixMilli()))
			p := d.newPoller()
			p.readIndex()
			p.attendRecord(t.Context(), p.ownOldestFirst()[0], true)
			stored := d.loadQuestion(q)
			isByTurn := stored.ResolvedBy == "signal"
			kit.True(t, stored.Status == c.want && isByTurn == (c.want != state.Pending),
				"%s, handed over %v: %s by %q, want %s", name, isOver, stored.Status,
				stored.ResolvedBy, c.want)
		}
	}
}

// startClaudeStatus writes Claude Code's own session file, which says what the session
// waits for. This process stands in for Claude Code.
func (d *testMachine) startClaudeStatus(session string) (says func(status string)) {
	d.t.Helper()
	config := filepath.Join(d.dir, "claude")
	transcript := filepath.Join(config, "projects", "p", "s.jsonl")
	_, err := d.sessions().Change(session, func(s *state.Session) {
		s.TranscriptPath = transcript
	})
	kit.NoError(d.t, err)
	return func(status string) {
		file := filepath.Join(config, "sessions", fmt.Sprint(os.Getpid())+".json")
		writeFile(d.t, file, status, 0o600)
	}
}

// Claude Code says that a dialog of its session waits, but not which one. It never means
// a hidden dialog. It means the dialog of a subagent in the foreground only where no
// other is open.
func TestDialogEnd_ClosesNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		as     func(*state.Question)
		beside bool
		want   state.Status
	}{
		"the session's own":                  {nil, false, state.Resolved},
		"the session's own, with an agent's": {nil, true, state.Resolved},
		"hidden": {
			func(q *state.Question) { q.AgentID, q.IsDialogHidden = "a1", true }, false,
			state.Pending,
		},
		"handed over": {
			func(q *state.Question) {
				q.AgentID, q.IsDialogHidden = "a1", true
				q.HandOver(time.Now())
			},
			false, state.Pending,
		},
		"of an agent in front": {
			func(q *state.Question) { q.AgentID = "a1" }, false, state.Resolved,
		},
		"of an agent in front, with another's": {
			func(q *state.Question) { q.AgentID = "a1" }, true, state.Pending,
		},
	} {
		d := newTestMachine(t)
		as := func(q *state.Question) {
			q.Mode, q.Kind, q.ClaudePID, q.SessionID =
				state.ModeNative, state.KindPermission, os.Getpid(), "s"
		}
		q := d.addQuestion(func(q *state.Question) {
			if as(q); c.as != nil {
				c.as(q)
			}
		})
		if c.beside {
			d.addQuestion(func(q *state.Question) { as(q); q.AgentID = "a2" })
		}
		says, p := d.startClaudeStatus("s"), d.newPoller()
		p.readIndex()
		record := p.ownOldestFirst()[0]
		for _, status := range []string{
			`{"status":"waiting"}`, `{"status":"busy"}`, `{"status":"busy"}`,
		} {
			says(status)
			p.handleDialogEnd(record)
		}
		stored := d.loadQuestion(q)
		kit.True(t, stored.Status == c.want,
			"%s: %s by %q, want %s", name, stored.Status, stored.ResolvedBy, c.want)
	}
}

// After Esc the session stops waiting a moment before the hook runs that closes the
// permission as dismissed. So the dialog's end counts as an answer only if the question
// is still open a round later.
func TestDialogEnd_IsAnswerOneRoundLater(t *testing.T) {
	d := newTestMachine(t)
	pid := os.Getpid()
	q := d.addQuestion(func(q *state.Question) {
		q.Mode, q.Kind, q.ClaudePID = state.ModeNative, state.KindPermission, pid
	})
	says, p := d.startClaudeStatus(q.SessionID), d.newPoller()
	p.readIndex()
	record := p.ownOldestFirst()[0]
	for i, step := range []struct {
		status string
		want   state.Status
	}{
		{`{"status":"busy"}`, state.Pending}, {
			`{"status":"waiting","sessionId":"` + q.SessionID + `"}`, state.Pending,
		},
		// Another container's, with the same HOME and the same pid in it.
		{`{"status":"busy","sessionId":"another"}`, state.Pending}, {
			`{"status":"busy","sessionId":"another"}`, state.Pending,
		},
		{`{"status":"busy"}`, state.Pending}, {`{"status":"busy"}`, state.Resolved},
	} {
		says(step.status)
		p.handleDialogEnd(record)
		stored := d.loadQuestion(q)
		kit.True(t, stored.Status == step.want,
			"step %d, %s: %s, want %s", i, step.status, stored.Status, step.want)
	}
}
