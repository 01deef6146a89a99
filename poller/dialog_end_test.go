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
		q := d.addPosted(func(q *state.Question) {
			q.Mode, q.ClaudePID, q.SessionID = c.mode, os.Getpid(), "s"
		})
		says := d.startClaudeStatus("s")
		p, record := d.readFirst()
		for _, status := range c.statuses {
			says(status)
			p.attendRecord(t.Context(), record, true)
		}
		p.Now = shifted(c.later)
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
			q := d.addPosted(func(q *state.Question) {
				q.Kind, q.Mode, q.IsDialogHidden, q.ClaudePID, q.SessionID =
					state.KindForm, state.ModeHold, true, os.Getpid(), "s"
				if isOver {
					q.HandedOverAt = new(time.Now())
				}
			})
			d.startClaudeStatus("s")(fmt.Sprintf(`{"status":%q,"statusUpdatedAt":%d}`, c.status,
				q.AskedAt.Add(c.since).UnixMilli()))
			p, record := d.readFirst()
			p.attendRecord(t.Context(), record, true)
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
		kit.WriteFile(d.t, file, status, 0o600)
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
		says := d.startClaudeStatus("s")
		p, record := d.readFirst()
		for n, status := range []string{
			`{"status":"waiting"}`, `{"status":"busy"}`, `{"status":"busy"}`,
		} {
			p.Now = shifted(time.Duration(n) * graceForAnswered)
			says(status)
			p.handleDialogEnd(record)
		}
		stored := d.loadQuestion(q)
		kit.True(t, stored.Status == c.want,
			"%s: %s by %q, want %s", name, stored.Status, stored.ResolvedBy, c.want)
	}
}

// After Esc and after a yes the dialog is gone, and no hook says which it was. The
// transcript does, a moment later. Without it, a session that still works after a while
// has its answer, and of one that is idle nothing is known.
func TestDialogEnd_DecisionByTranscript(t *testing.T) {
	const waits, works, idle = `{"status":"waiting"}`, `{"status":"busy"}`,
		`{"status":"idle","statusUpdatedAt":%d}`
	for name, c := range map[string]struct {
		statuses  []string
		later     time.Duration
		isWritten bool
		status    state.Status
		by        string
	}{
		"dismissed":                {[]string{waits, idle}, 0, true, state.Cancelled, "signal"},
		"dismissed, its line late": {[]string{waits, idle, idle}, 0, false, state.Pending, ""},
		"dismissed, and a queued prompt": {
			[]string{waits, works}, 0, true, state.Cancelled, "signal",
		},
		"dismissed, the dialog not seen": {[]string{idle}, 0, true, state.Cancelled, "signal"},
		"its call runs":                  {[]string{waits, works, works}, 0, false, state.Pending, ""},
		"its call runs for long": {
			[]string{waits, works}, graceForRefusal, false, state.Resolved, "terminal",
		},
		"another dialog came": {
			[]string{waits, works, waits, works}, graceForRefusal - 1, false, state.Pending, "",
		},
		"no line is ever written": {
			[]string{waits, idle}, graceForAnswered, false, state.Cancelled, state.EndedUnseen,
		},
		"the same, the dialog not seen": {
			[]string{idle}, graceForAnswered, false, state.Cancelled, state.EndedUnseen,
		},
		"its dialog is still to be drawn": {
			[]string{works}, graceForAnswered, false, state.Pending, "",
		},
		"in another container, with the same pid": {
			[]string{waits, `{"status":"busy","sessionId":"another"}`}, graceForAnswered, false,
			state.Pending, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestMachine(t)
			q := d.addQuestion(func(q *state.Question) {
				q.Mode, q.Kind, q.ClaudePID = state.ModeNative, state.KindPermission, os.Getpid()
			})
			says, p := d.startClaudeStatus(q.SessionID), d.newPoller()
			now, isWritten := time.Now(), false
			p.Now = func() time.Time { return now }
			p.CloseByTranscript = func(_ state.Getenv, _ *state.Session, q *state.Question) bool {
				if !isWritten {
					return false
				}
				_, err := state.CloseQuestion(q.Path, state.Cancelled, state.EndedDismissed, nil)
				return err == nil
			}
			p.readIndex()
			record := p.ownOldestFirst()[0]
			for _, status := range c.statuses {
				if status == idle {
					status = fmt.Sprintf(idle, q.AskedAt.Add(time.Second).UnixMilli())
				}
				says(status)
				p.handleDialogEnd(record)
				kit.Equalf(t, d.loadQuestion(q).Status, state.Pending, "at %s", status)
			}
			now, isWritten = now.Add(c.later), c.isWritten
			p.handleDialogEnd(record)
			stored := d.loadQuestion(q)
			kit.True(t, stored.Status == c.status && stored.ResolvedBy == c.by,
				"%s by %q, want %s by %q", stored.Status, stored.ResolvedBy, c.status, c.by)
			kit.Equalf(t, record.question.Status, c.status, "the poller's copy")
		})
	}
}
