package poller

import (
	"testing"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// A reply that nobody judged yet counts as it stands in the space by then.
func TestReplyIsReadAsItWasRevised(t *testing.T) {
	for name, c := range map[string]struct {
		judged  bool
		now     gchat.Message
		text    string
		verdict state.Verdict
	}{
		"edited":             {false, gchat.Message{Text: "2"}, "2", state.Unread},
		"deleted":            {false, gchat.Message{Deleted: true}, "1", state.Ignored},
		"as it was":          {false, gchat.Message{Text: "1"}, "1", state.Unread},
		"edited too late":    {true, gchat.Message{Text: "2"}, "1", state.Used},
		"deleted too late":   {true, gchat.Message{Deleted: true}, "1", state.Used},
		"of somebody else's": {false, gchat.Message{Text: "2", Sender: "users/2"}, "1", state.Unread},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			q := d.asked(state.Question{Mode: state.Native})
			in := d.newInbox(q)
			m := gchat.Message{Name: "spaces/S/messages/M", ThreadName: q.ThreadName, Human: true, Sender: "users/1", Text: "1", CreateTime: noon.Add(time.Second)}
			deliver := func() {
				t.Helper()
				if err := in.deliver(t.Context(), d.load(q), q.ThreadName, []gchat.Message{m}); err != nil {
					t.Fatal(err)
				}
			}
			deliver()
			if c.judged {
				if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error { q.Replies[0].Verdict = state.Used; return nil }); err != nil {
					t.Fatal(err)
				}
			}
			m.Text, m.Deleted = c.now.Text, c.now.Deleted
			if c.now.Sender != "" {
				m.Sender = c.now.Sender
			}
			deliver()
			r := d.load(q).Replies
			if len(r) != 1 || r[0].Text != c.text || r[0].Verdict != c.verdict {
				t.Errorf("%+v, want one, %q, %q", r, c.text, c.verdict)
			}
		})
	}
}
