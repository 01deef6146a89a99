package poller

import (
	"slices"
	"testing"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// The hook of a question was killed, and another session's reads the reply to it: who replied is told that nobody has it.
func TestReplyThatNobodyWaitsForIsNotSilent(t *testing.T) {
	said := "[Not read] No hook waits for a reply to this question: answer it in the terminal."
	for name, c := range map[string]struct {
		mode  state.Mode
		after time.Duration
		waits bool
		want  []string
	}{
		"killed":         {state.Native, time.Minute, false, []string{said}},
		"killed in hold": {state.Hold, time.Minute, false, []string{said}},
		"starting":       {state.Native, time.Second, false, nil},
		"starting, 3 s":  {state.Native, 3 * time.Second, false, nil},
		"starting, 8 s":  {state.Native, 8 * time.Second, false, nil},
		"waiting":        {state.Native, time.Minute, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			q := d.asked(state.Question{Mode: c.mode})
			if c.waits {
				lock, err := state.LockWaiter(q)
				if err != nil {
					t.Fatal(err)
				}
				defer lock.Unlock()
			}
			in := d.newInbox(q)
			reply := []gchat.Message{{Name: "spaces/S/messages/M", ThreadName: q.ThreadName, Human: true, Sender: "users/1", Text: "1", CreateTime: noon}}
			deliver := func(ms []gchat.Message) {
				t.Helper()
				if err := in.deliver(t.Context(), d.load(q), q.ThreadName, ms); err != nil {
					t.Fatal(err)
				}
			}
			deliver(reply[:1:1])
			d.clock = noon.Add(c.after)
			for range 3 {
				deliver(nil)
			}
			if got := d.notes(); !slices.Equal(got, c.want) {
				t.Errorf("the thread is told %q, want %q", got, c.want)
			}
		})
	}
}
