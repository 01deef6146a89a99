package poller

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/sample"
	"gchat-hooks/gchat/space"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// grantTest is a session with a yes for half an hour. A hook waits for each of its
// permissions.
type grantTest struct {
	*testMachine
	first *state.Question
}

func newGrantTest(t *testing.T, d *testMachine, posted func(*state.Question)) *grantTest {
	x := &grantTest{testMachine: d}
	d.writeConfig(`{"timed_yes": true}`)
	d.changeSession("s", func(session *state.Session) {
		session.StartedAt, session.LastSeen = time.Now().Add(-time.Hour), time.Now()
	})
	x.first = x.askPermission("make one", posted)
	return x
}

// askPermission has the session ask for a permission that a hook waits for.
func (d *testMachine) askPermission(command string, change func(*state.Question)) *state.Question {
	d.t.Helper()
	q := d.writeQuestion(func(q *state.Question) {
		p := sample.Permission(command, q.AskedAt)
		p.PostedAt, p.QuestionID, p.ThreadKey, p.SessionName, p.ProjectDir =
			nil, q.QuestionID, q.ThreadKey, "shop", q.ProjectDir
		p.SessionID, p.ClaudePID, p.ClaudeStart = "s", os.Getpid(), inject.ProcessStart(os.Getpid())
		p.Approvers = &[]string{space.PersonName, "users/1"}
		*q = *p
		if change != nil {
			change(q)
		}
	})
	d.startWaiter(q)
	kit.NoError(d.t, state.AddQuestionToIndex(d.env, q))
	state.CallPoller(d.env, state.Environment(d.env))
	return q
}

func (d *testMachine) awaitDecision(q *state.Question) *state.Question {
	d.t.Helper()
	return d.awaitQuestion(q, "decided", isDecided)
}

// replyUntil replies to the first permission, and waits until the session's grant is as
// expected.
func (x *grantTest) replyUntil(sender, text string, runs bool) {
	x.t.Helper()
	x.reply(x.loadQuestion(x.first).ThreadName, sender, text)
	bound.Until(x.t, text, func() bool { return x.isGrantActive() == runs })
}

func (x *grantTest) isGrantActive() bool {
	return x.loadQuestion(x.first).HasActiveGrant()
}

func (x *grantTest) appTexts() (all []string) {
	for _, m := range x.space.Messages() {
		if m.Sender.Type != "HUMAN" {
			all = append(all, m.Text)
		}
	}
	return all
}

// A yes for a while answers what the session asks next, without notes, until somebody
// with the right to decide says no. A stranger neither ends nor begins one.
func TestGrant_AnswersUntilNo(t *testing.T) {
	t.Parallel()
	x := newGrantTest(t, newTestMachine(t), nil)
	x.runPoller(Options{})
	x.awaitQuestion(x.first, "posted", isSent)
	x.reply(x.loadQuestion(x.first).ThreadName, "users/9", "yes 2h")
	x.awaitQuestion(x.first, "refused", func(q *state.Question) bool {
		return len(q.Replies) == 1 && q.Replies[0].Verdict == state.VerdictRefused
	})
	x.replyUntil("", "Yes 30m", true)
	for _, command := range []string{"make two", "make three"} {
		q := x.awaitDecision(x.askPermission(command, nil))
		kit.True(t, !q.HasActiveGrant() && q.Grant != nil && !q.IsMessageSent &&
			q.AnsweredBy == space.PersonName,
			"%+v", q)
	}
	x.reply(x.loadQuestion(x.first).ThreadName, "users/9", "no")
	q := x.awaitDecision(x.askPermission("make four", func(q *state.Question) {
		q.AgentID = "sub"
	}))
	kit.True(t, q.Grant != nil, "%+v", q)
	x.replyUntil("", "no", false)
	five := x.askPermission("make five", nil)
	x.awaitQuestion(five, "posted", isSent)
	bound.Until(t, "the note", func() bool {
		return slices.ContainsFunc(x.appTexts(), func(s string) bool {
			return strings.HasPrefix(s, "[Asks again]")
		})
	})
	q = x.loadQuestion(five)
	kit.True(t, q.Status == state.Pending, "%+v", q)
	listed := slices.DeleteFunc(x.appTexts(), func(s string) bool {
		return !strings.HasPrefix(s, "[Allowed]")
	})
	kit.True(t, len(listed) <= 2 && strings.Contains(listed[0], "until") &&
		!strings.Contains(strings.Join(x.appTexts(), "\n"),
			"[Permission] Session: shop\nFolder: "+x.dir+"/shop\n\nmake two"),
		"%q", x.appTexts())
}

// newReadPoller returns a poller that has read the space, and takes a step only when
// the test calls it.
func (x *grantTest) newReadPoller() *Poller {
	p := x.newPoller()
	p.readerFor(x.loadQuestion(x.first).Chat).lastGoodList = time.Now().Add(time.Hour)
	return p
}

// newJudgedGrant returns a test whose poller was killed right after it judged and saved
// a yes for half an hour.
func newJudgedGrant(t *testing.T) *grantTest {
	x := newGrantTest(t, newTestMachine(t), func(q *state.Question) {
		q.AskedAt = q.AskedAt.Add(-2 * time.Second)
	})
	then := x.newPoller()
	then.Now = shifted(-time.Second)
	judge := then.judgeByPersonalConfig()
	x.changeQuestion(x.first, func(q *state.Question) {
		x.markPosted(q)
		q.Replies = []state.Reply{
			{
				MessageName: "m", Sender: "users/1", DisplayName: "Ada", Text: "yes 30m",
				CreatedAt: time.Now(),
			},
		}
		kit.NoError(t, judge(q))
		at := time.Now()
		q.Status, q.ResolvedBy, q.ResolvedAt = state.Resolved, "chat", &at
	})
	return x
}

// What happens between the yes and the next permission decides whether the yes still
// counts.
func TestGrant_WhatEndsIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		as      func(*state.Question)         // the next permission
		between func(x *grantTest, p *Poller) // the yes and that
		want    bool
	}{
		"nothing": {nil, nil, true},
		"its time": {
			nil, func(_ *grantTest, p *Poller) { p.Now = shifted(31 * time.Minute) }, false,
		},
		"its own end": {
			nil, func(_ *grantTest, p *Poller) { p.Now = shifted(29 * time.Minute) }, true,
		},
		"a clock that was set back after 31 minutes": {nil, func(x *grantTest, p *Poller) {
			p.readAndAttend(x.t.Context())
			for _, record := range p.ownRecords { // 31 minutes have passed by this process's clock
				record.grantEndsAt = record.grantEndsAt.Add(-31 * time.Minute)
			}
		}, false},
		"its person's removal": {nil, func(x *grantTest, _ *Poller) {
			x.writeConfig(`{"timed_yes": true, "approvers": ["` + space.PersonName + `"]}`)
		}, false},
		"its being switched off": {
			nil, func(x *grantTest, _ *Poller) { x.writeConfig(`{}`) }, false,
		},
		"a file that does not parse": {
			nil, func(x *grantTest, _ *Poller) { x.writeConfig(`{"timed_yes": true`) }, false,
		},
		"never_remote": {
			nil,
			func(x *grantTest, _ *Poller) {
				x.writeConfig(`{"timed_yes": true, "never_remote": ["Bash"]}`)
			},
			false,
		},
		"another process": {
			func(q *state.Question) { q.ClaudeStart = "later" }, nil, false,
		},
		"another session, as by /clear": {
			func(q *state.Question) { q.SessionID = "t" }, nil, false,
		},
		"a resume in the same process": {nil, func(x *grantTest, _ *Poller) {
			x.changeSession("s", func(session *state.Session) { session.StartedAt = time.Now() })
		}, false},
		"another session of its process, in between": {nil, func(x *grantTest, _ *Poller) {
			for i, id := range []string{"s", "t"} {
				x.changeSession(id, func(session *state.Session) {
					session.ClaudePID, session.ClaudeStart, session.LastSeen =
						x.first.ClaudePID, x.first.ClaudeStart,
						time.Now().Add(time.Duration(i)*time.Second)
				})
			}
		}, false},
		"a plan": {func(q *state.Question) { q.Kind = state.KindPlan }, nil, false},
		"a no to another permission, which is over": {nil, func(x *grantTest, _ *Poller) {
			x.askPermission("make none", func(q *state.Question) {
				q.AskedAt, q.Status, q.LastDenialAt =
					q.AskedAt.Add(time.Minute), state.Resolved, time.Now()
			})
		}, false},
		"a no before it": {nil, func(x *grantTest, _ *Poller) {
			x.askPermission("make none", func(q *state.Question) {
				q.Status, q.LastDenialAt = state.Resolved, time.Now().Add(-time.Minute)
			})
		}, true},
		"a no in another session": {nil, func(x *grantTest, _ *Poller) {
			x.askPermission("make none", func(q *state.Question) {
				q.SessionID, q.Status, q.LastDenialAt = "t", state.Resolved, time.Now()
			})
		}, true},
		"a record of the yes that is gone": {nil, func(x *grantTest, p *Poller) {
			kit.NoError(x.t, os.Remove(x.first.Path))
		}, false},
		"a space that is not read": {func(q *state.Question) {
			q.AskedAt = q.AskedAt.Add(10 * time.Second)
		},
			func(x *grantTest, p *Poller) {
				p.readerFor(x.loadQuestion(x.first).Chat).lastGoodList =
					p.awakeSince.Add(-time.Hour)
			}, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newJudgedGrant(t)
			p := x.newReadPoller()
			if test.between != nil {
				test.between(x, p)
			}
			q := x.askPermission("make two", test.as)
			x.runSteps(p, 2)
			stored := x.loadQuestion(q)
			kit.True(t, (stored.Status == state.Answered) == test.want &&
				(stored.Grant != nil) == test.want,
				"%s, %+v", stored.Status, stored.Grant)
		})
	}
}

// A poller that is killed after any write does the rest later, and nothing twice.
func TestGrant_SurvivesAKill(t *testing.T) {
	x := newJudgedGrant(t)
	x.newReadPoller().readAndAttend(t.Context())
	// The poller was killed before it removed the owed note.
	x.changeQuestion(x.first, func(q *state.Question) { q.OweNote(state.NoteGranted, "m") })
	x.newReadPoller().readAndAttend(t.Context())
	p := x.newReadPoller()
	p.readAndAttend(t.Context())
	for _, record := range p.ownRecords {
		kit.True(t, p.hasWork(record) && p.needsReading(record) && !record.isDone,
			"nothing goes on, or a no is not read")
	}
	notes := x.noteKinds(x.first)
	kit.True(t, len(notes) == 1 && notes[0] == state.NoteGranted, "notes %q", notes)
	x.changeQuestion(x.first, func(q *state.Question) { q.LastDenialAt = time.Now() })
	x.newReadPoller().readAndAttend(t.Context())
	stored := x.loadQuestion(x.first)
	kit.True(t, !stored.HasActiveGrant(), "%+v", stored.Grant)
	// The poller was killed before it saved the end.
	x.changeQuestion(x.first, func(q *state.Question) { q.Grant.IsEnded = false })
	x.newReadPoller().readAndAttend(t.Context())
	all := x.endNotes()
	kit.True(t, len(all) == 1, "notes about the end: %q", all)
}

func TestGrant_AskEndsIt(t *testing.T) {
	x := newTestSession(t, nil)
	x.testMachine.writeConfig(`{"timed_yes": true}`)
	g := x.askPermission("make", func(q *state.Question) {
		q.Status, q.AnsweredByName, q.AnsweredMessage = state.Resolved, "Ada <x>", "m"
		q.Replies = []state.Reply{
			{MessageName: "m", Sender: space.PersonName, Verdict: state.VerdictUsed},
		}
		q.Grant = &state.Grant{
			QuestionID: q.QuestionID, GrantedAt: time.Now(), EndsAt: time.Now().Add(time.Hour),
		}
	})
	x.checkAnswer("/status", "Permissions are allowed by Ada ",
		"until "+x.loadQuestion(g).Grant.EndsAt.Local().Format("15:04"))
	x.reply(x.threadName, "users/9", "/ask")
	notes := x.readNotes()
	kit.True(t, len(notes) == 0 && x.loadQuestion(g).LastDenialAt.IsZero(),
		"a stranger's: %q", notes)
	x.changeSession(x.sessionID, func(session *state.Session) {
		// another environment's poller, which judges nothing here
		session.OldCommands = []state.OldCommand{
			{MessageName: "c", Sender: "users/9", Text: "/ask", LocalCreatedAt: time.Now()},
		}
	})
	x.readNotes()
	kit.True(t, x.loadQuestion(g).LastDenialAt.IsZero() && x.countUnfinished() == 0,
		"a stranger ended it, or waits")
	x.checkAnswer("/ask", "[Asks again]")
	kit.True(t, !x.loadQuestion(g).LastDenialAt.IsZero(), "it runs")
}

// A Chat app changes the one message that lists what was allowed.
func TestGrant_AppListsInOneMessage(t *testing.T) {
	d, g := newAppMachine(t)
	d.vars["GCHAT_APPROVERS"] = "users/1"
	first := newGrantTest(t, d, nil).first
	d.runPoller(Options{Daemon: true})
	g.awaitPost("make one")
	first = d.awaitQuestion(first, "posted", isSent)
	m := g.addHumanMessage(first.ThreadName, "yes 2h", "")
	g.publish(newEvent("MESSAGE", "users/1", m))
	d.awaitDecision(first)
	begun := g.awaitPost("[Allowed] shop")
	for _, command := range []string{"make two", "make three"} {
		d.awaitDecision(d.askPermission(command, nil))
	}
	name := appSpace + "/messages/" + begun.ClientAssignedMessageId
	bound.Until(t, "its message lists both", func() bool {
		return strings.HasSuffix(g.message(name).Text, "\n• Bash: make three\n• Bash: make two")
	})
	no := g.addHumanMessage(first.ThreadName, "no", "")
	g.publish(newEvent("MESSAGE", "users/1", no))
	bound.Until(t, "its message says the end", func() bool {
		text := g.message(name).Text
		return strings.HasPrefix(text, "[Asks again]") &&
			strings.HasSuffix(text, "\n• Bash: make three\n• Bash: make two")
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	kit.Equalf(t, len(g.posts), 2, "messages")
}

// endNotes returns the outbox's notes about the end of a yes for a while.
func (x *grantTest) endNotes() (all []string) {
	box, _ := x.outbox().All()
	for _, message := range box {
		if message.Type == state.MessageNote &&
			strings.HasPrefix(message.Parts[0], "[Asks again]") {
			all = append(all, message.Parts[0])
		}
	}
	return all
}

// Where messages cannot be changed, what was allowed is listed once, when the yes is
// over.
func TestGrant_WebhookListsAtTheEnd(t *testing.T) {
	x := newJudgedGrant(t)
	p := x.newReadPoller()
	p.readAndAttend(t.Context())
	q := x.askPermission("make `two`", nil)
	p.readAndAttend(t.Context())
	x.awaitDecision(q)
	x.askPermission("make three", func(q *state.Question) { // answered in the terminal first
		q.Grant, q.Status, q.ResolvedBy = x.loadQuestion(x.first).Grant, state.Resolved, "terminal"
	})
	for _, after := range []int{0, 29, 30, 31, 300} {
		p.Now = shifted(time.Duration(after)*time.Minute + time.Second)
		p.readAndAttend(t.Context())
		all := x.endNotes()
		if (len(all) == 1) != (after >= 30) || len(all) > 1 || len(all) == 1 &&
			(!strings.Contains(all[0], "make") || strings.Contains(all[0], "three")) {
			t.Errorf("after %d minutes: %q", after, all)
		}
	}
}

// A no that was written earlier counts before a yes for a while, even if it is only on
// the disk or in the space.
func TestGrant_EarlierNoCounts(t *testing.T) {
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
				q.Replies = append(q.Replies, state.Reply{
					MessageName: "n", Sender: "users/1", Text: "no", CreatedAt: time.Now(),
				})
				kit.NoError(x.t, judge(q))
			})
		}, false, false},
		"a reply that another environment's poller wrote down": {func(x *grantTest, p *Poller) {
			x.changeQuestion(x.first, func(q *state.Question) {
				q.Replies = append(q.Replies, state.Reply{
					MessageName: "n", Sender: "users/1", Text: "no", CreatedAt: time.Now(),
				})
			})
		}, false, true},
		"an /ask that is not done": {func(x *grantTest, p *Poller) {
			x.changeSession("s", func(session *state.Session) {
				session.OldCommands = []state.OldCommand{
					{MessageName: "c", Sender: "users/1", Text: "/ask", LocalCreatedAt: time.Now()},
				}
			})
		}, false, true},
		"its person's removal, and return": {func(x *grantTest, p *Poller) {
			x.writeConfig(`{"timed_yes": true, "approvers": ["` + space.PersonName + `"]}`)
			x.runSteps(p, 1)
			x.writeConfig(on)
		}, false, false},
		"a file that did not parse for a moment": {func(x *grantTest, p *Poller) {
			x.writeConfig(on[1:])
			x.runSteps(p, 1)
			x.writeConfig(on)
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newJudgedGrant(t)
			p := x.newReadPoller()
			x.runSteps(p, 1)
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
				if record.question != nil && record.question.QuestionID == q.QuestionID &&
					!test.want && record.isEnqueued == test.held {
					t.Errorf("posted: %v", record.isEnqueued)
				}
			}
			kit.True(t, x.loadQuestion(unwaited).Status == state.Pending,
				"answered without a hook that waits")
			kit.Equalf(t, x.loadQuestion(q).Status == state.Answered, test.want, "allowed")
		})
	}
}
