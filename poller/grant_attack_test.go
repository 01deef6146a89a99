package poller

import (
	"testing"
	"time"

	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// What was said before, and stands on the disk or in the space alone, goes before a yes for a while.
func TestNothingIsAllowedOverWhatWasSaid(t *testing.T) {
	on := `{"timed_yes": true}`
	for name, test := range map[string]struct {
		between func(x *granted, p *Poller)
		want    bool
		held    bool // it is not posted yet
	}{
		"nothing": {func(*granted, *Poller) {}, true, false},
		"a list that failed a moment ago": {func(x *granted, p *Poller) {
			p.awake = time.Now().Add(-time.Hour)
			p.readerOf(x.load(x.first).Chat).good = time.Now().Add(-time.Minute)
			p.readerOf(x.load(x.first).Chat).bad.Store(true)
		}, false, true},
		"a pull that failed a moment ago": {func(x *granted, p *Poller) {
			p.readerOf(x.load(x.first).Chat).pulls = true
			p.events.good, p.events.failed = time.Now(), 1
		}, false, true},
		"a subscription that is pulled": {func(x *granted, p *Poller) {
			p.readerOf(x.load(x.first).Chat).pulls = true
			p.events.good = time.Now()
		}, true, false},
		"a no that was written down since the records were read": {func(x *granted, p *Poller) {
			judge := p.judgesByPerson()
			x.change(x.first, func(q *state.Question) {
				q.Replies = append(q.Replies, state.Reply{MessageName: "n", Sender: "users/1", Text: "no", CreatedAt: time.Now()})
				if err := judge(q); err != nil {
					x.t.Fatal(err)
				}
			})
		}, false, false},
		"a reply that another environment's poller wrote down": {func(x *granted, p *Poller) {
			x.change(x.first, func(q *state.Question) {
				q.Replies = append(q.Replies, state.Reply{MessageName: "n", Sender: "users/1", Text: "no", CreatedAt: time.Now()})
			})
		}, false, true},
		"an /ask that is not done": {func(x *granted, p *Poller) {
			x.session("s", func(one *state.Session) {
				one.OldCommands = []state.OldCommand{{MessageName: "c", Sender: "users/1", Text: "/ask", LocalCreatedAt: time.Now()}}
			})
		}, false, true},
		"its person's removal, and return": {func(x *granted, p *Poller) {
			x.configure(`{"timed_yes": true, "approvers": ["` + space.Human + `"]}`)
			p.round(t.Context())
			p.working.Wait()
			x.configure(on)
		}, false, false},
		"a file that did not parse for a moment": {func(x *granted, p *Poller) {
			x.configure(on[1:])
			p.round(t.Context())
			p.working.Wait()
			x.configure(on)
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newJudged(t)
			p := x.steps()
			p.round(t.Context())
			p.working.Wait()
			p.readerOf(x.load(x.first).Chat).good = time.Now().Add(time.Hour)
			q := x.wants("make two", nil)
			unwaited := x.ask(func(is *state.Question) {
				id, key := is.QuestionID, is.ThreadKey
				*is = *q
				is.Record, is.QuestionID, is.ThreadKey = state.Record{}, id, key
			})
			p.scan()
			test.between(x, p)
			p.scanInbox()
			p.scanSessions()
			p.attendAll(t.Context(), p.own())
			p.working.Wait()
			for _, s := range p.index {
				if s.q != nil && s.q.QuestionID == q.QuestionID && !test.want && s.put == test.held {
					t.Errorf("posted: %v", s.put)
				}
			}
			if x.load(unwaited).Status != state.Pending {
				t.Error("answered without a hook that waits")
			}
			if got := x.load(q).Status == state.Answered; got != test.want {
				t.Errorf("allowed: %v", got)
			}
		})
	}
}
