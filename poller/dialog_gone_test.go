package poller

import (
	"fmt"
	"os"
	"testing"
	"time"

	"gchat-hooks/state"
)

// No hook reports the end of a question whose plugin folder was deleted. Claude Code's
// own file does.
func TestAQuestionEndsWithItsDialog(t *testing.T) {
	const waits, works = `{"status":"waiting"}`, `{"status":"busy"}`
	for name, c := range map[string]struct {
		mode     state.Mode
		statuses []string
		later    time.Duration
		want     state.Status
	}{
		"its dialog is gone":         {state.ModeNative, []string{waits, works, works}, graceForAnswered, state.Cancelled},
		"its hooks have a while":     {state.ModeNative, []string{waits, works, works}, graceForAnswered - time.Second, state.Pending},
		"another dialog came":        {state.ModeNative, []string{waits, works, works, waits}, graceForAnswered, state.Pending},
		"its dialog was not seen":    {state.ModeNative, []string{works, works, works}, graceForAnswered, state.Pending},
		"the poller looks itself":    {state.ModeInject, []string{waits, works, works}, graceForAnswered, state.Pending},
		"no dialog is drawn (hold)":  {state.ModeHold, []string{waits, works, works}, graceForAnswered, state.Pending},
		"the session goes on (deny)": {state.ModeDeny, []string{waits, works, works}, graceForAnswered, state.Pending},
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
		if stored := d.loadQuestion(q); stored.Status != c.want || c.want != state.Pending && stored.ResolvedBy != state.EndedDialogGone {
			t.Errorf("%s: %s by %q, want %s", name, stored.Status, stored.ResolvedBy, c.want)
		}
	}
}

// No hook reports that Esc ended the turn in which a form was asked. Claude Code's own
// file says since when the session is idle. It is not idle while an agent works in the
// background.
func TestAFormEndsWithItsTurn(t *testing.T) {
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
				q.Kind, q.Mode, q.IsDialogHidden, q.ClaudePID, q.SessionID = state.KindForm, state.ModeHold, true, os.Getpid(), "s"
				if isOver {
					q.HandedOverAt = new(time.Now())
				}
			})
			d.startClaudeStatus("s")(fmt.Sprintf(`{"status":%q,"statusUpdatedAt":%d}`, c.status, q.AskedAt.Add(c.since).UnixMilli()))
			p := d.newPoller()
			p.readIndex()
			p.attendRecord(t.Context(), p.ownOldestFirst()[0], true)
			if stored := d.loadQuestion(q); stored.Status != c.want || c.want != state.Pending && stored.ResolvedBy != "signal" {
				t.Errorf("%s, handed over %v: %s by %q, want %s", name, isOver, stored.Status, stored.ResolvedBy, c.want)
			}
		}
	}
}
