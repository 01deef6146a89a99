package poller

import (
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// A no that was written earlier counts before a yes for a while, even if it is only on
// the disk or in the space.
func TestNothingIsAllowedOverWhatWasSaid(t *testing.T) {
	on := `{"timed_yes": true}`
	for name, test := range map[string]struct {
		between func(x *grantTest, p *Poller)
		want    bool
		held    bool // the message is not posted yet
	}{
		"nothing": {func(*grantTest, *Poller) {}, true, false},
		"a list that failed a moment ago": {func(x *grantTest, p *Poller) {
			p.awakeSince = time.Now().Add(-time.Hour)
			p.readerFor(x.loadQuestion(x.first).Chat).lastGoodList = time.Now().Add(-time.Minute)
			p.readerFor(x.loadQuestion(x.first).Chat).hasFailed.Store(true)
		}, false, true},
		"a pull that failed a moment ago": {func(x *grantTest, p *Poller) {
			p.readerFor(x.loadQuestion(x.first).Chat).isPulled = true
			p.puller.lastGoodPull, p.puller.failedPulls = time.Now(), 1
		}, false, true},
		"a subscription that is pulled": {func(x *grantTest, p *Poller) {
			p.readerFor(x.loadQuestion(x.first).Chat).isPulled = true
			p.puller.lastGoodPull = time.Now()
		}, true, false},
		"a no that was written down since the records were read": {func(x *grantTest, p *Poller) {
			judge := p.judgeByPersonalConfig()
			x.changeQuestion(x.first, func(q *state.Question) {
				q.Replies = append(q.Replies, state.Reply{MessageName: "n", Sender: "users/1", Text: "no", CreatedAt: time.Now()})
				kit.NoError(x.t, judge(q))
			})
		}, false, false},
		"a reply that another environment's poller wrote down": {func(x *grantTest, p *Poller) {
			x.changeQuestion(x.first, func(q *state.Question) {
				q.Replies = append(q.Replies, state.Reply{MessageName: "n", Sender: "users/1", Text: "no", CreatedAt: time.Now()})
			})
		}, false, true},
		"an /ask that is not done": {func(x *grantTest, p *Poller) {
			x.changeSession("s", func(session *state.Session) {
				session.OldCommands = []state.OldCommand{{MessageName: "c", Sender: "users/1", Text: "/ask", LocalCreatedAt: time.Now()}}
			})
		}, false, true},
		"its person's removal, and return": {func(x *grantTest, p *Poller) {
			x.writeConfig(`{"timed_yes": true, "approvers": ["` + space.PersonName + `"]}`)
			p.readAndAttend(t.Context())
			p.goroutines.Wait()
			x.writeConfig(on)
		}, false, false},
		"a file that did not parse for a moment": {func(x *grantTest, p *Poller) {
			x.writeConfig(on[1:])
			p.readAndAttend(t.Context())
			p.goroutines.Wait()
			x.writeConfig(on)
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newJudgedGrant(t)
			p := x.newReadPoller()
			p.readAndAttend(t.Context())
			p.goroutines.Wait()
			p.readerFor(x.loadQuestion(x.first).Chat).lastGoodList = time.Now().Add(time.Hour)
			q := x.askPermission("make two", nil)
			unwaited := x.addQuestion(func(stored *state.Question) {
				id, key := stored.QuestionID, stored.ThreadKey
				*stored = *q
				stored.Record, stored.QuestionID, stored.ThreadKey = state.Record{}, id, key
			})
			p.readIndex()
			test.between(x, p)
			p.readInbox()
			p.readSessions()
			p.attendAll(t.Context(), p.loadOwnConfig())
			p.goroutines.Wait()
			for _, record := range p.ownRecords {
				if record.question != nil && record.question.QuestionID == q.QuestionID && !test.want && record.isEnqueued == test.held {
					t.Errorf("posted: %v", record.isEnqueued)
				}
			}
			if x.loadQuestion(unwaited).Status != state.Pending {
				t.Error("answered without a hook that waits")
			}
			kit.Equalf(t, x.loadQuestion(q).Status == state.Answered, test.want, "allowed")
		})
	}
}
