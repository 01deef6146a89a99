package poller

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// newPermission returns a permission that a process of a session asks for.
func newPermission(command string, asked time.Time) *state.Question {
	return &state.Question{
		QuestionID: "q-" + command, Kind: state.KindPermission, ToolName: "Bash", ShownText: command, CallTexts: []string{command}, Mode: state.ModeNative,
		Status: state.Pending, AskedAt: asked, PostedAt: &asked, Approvers: &[]string{"users/1", "users/2"}, ClaudePID: 7, ClaudeStart: "a",
		SubQuestions: []state.SubQuestion{{Question: "Bash", Options: []state.Option{{Label: state.LabelAllow}, {Label: state.LabelDeny}}}},
	}
}

// Who may give a yes for a while, and with which reply.
func TestWhoGrants(t *testing.T) {
	now := time.Now()
	on := config.Config{AllowedUsers: []string{"users/1", "users/2"}, Approvers: []string{"users/1"}, AllowsTimedYes: true}
	off := on
	off.AllowsTimedYes = false
	for name, test := range map[string]struct {
		cfg      *config.Config
		by, text string
		as       func(*state.Question)
		long     time.Duration
		decided  string
		owed     string
	}{
		"an approver":            {&on, "users/1", "yes 30m", nil, 30 * time.Minute, state.LabelAllow, state.NoteGranted},
		"of more than two hours": {&on, "users/1", "yes 9h", nil, 2 * time.Hour, state.LabelAllow, state.NoteGranted},
		"a plain yes":            {&on, "users/1", "yes", nil, 0, state.LabelAllow, ""},
		"no time":                {&on, "users/1", "yes 30", nil, 0, "", state.NoteUnclear},
		"switched off":           {&off, "users/1", "yes 30m", nil, 0, "", state.NoteUnclear},
		"a stranger":             {&on, "users/9", "yes 2h", nil, 0, "", state.NoteRefused},
		"who may only answer":    {&on, "users/2", "yes 2h", nil, 0, "", state.NoteRefused},
		"a program":              {&on, state.LocalSender, "yes 2h", nil, 0, "", ""},
		"only the terminal":      {&on, "users/1", "yes 30m", func(q *state.Question) { q.IsTerminalOnly = true }, 0, "", state.NoteUnclear},
		"of no known process":    {&on, "users/1", "yes 30m", func(q *state.Question) { q.ClaudeStart = "" }, 0, "", state.NoteUnclear},
		"answered already":       {&on, "users/1", "yes 30m", func(q *state.Question) { q.Status = state.Answered }, 0, "", state.NoteLate},
		"a no":                   {&on, "users/1", "no, not that", nil, 0, state.LabelDeny, ""},
		"a no that comes late":   {&on, "users/1", "no", func(q *state.Question) { q.Status = state.Resolved }, 0, "", state.NoteLate},
		"a stranger's no":        {&on, "users/9", "no", func(q *state.Question) { q.Status = state.Resolved }, 0, "", state.NoteRefused},
		"a no to what it was given to": {&on, "users/1", "no", func(q *state.Question) {
			q.Status, q.Grant = state.Resolved, &state.Grant{QuestionID: q.QuestionID}
		}, 0, "", ""},
		"late words":                {&on, "users/1", "hm", func(q *state.Question) { q.Status = state.Resolved }, 0, "", state.NoteLate},
		"what was said before that": {&on, "users/1", "yes 30m", func(q *state.Question) { at := now.Add(time.Minute); q.PostedAt = &at }, 0, "", state.NoteUnclear},
		"a plan": {&on, "users/1", "yes 30m", func(q *state.Question) {
			q.Kind, q.SubQuestions[0].Options = state.KindPlan, []state.Option{{Label: state.LabelApprove}, {Label: state.LabelSendBack}}
		}, 0, "", state.NoteUnclear},
	} {
		q := newPermission("make", now.Add(-time.Minute))
		if test.as != nil {
			test.as(q)
		}
		q.Replies = []state.Reply{{MessageName: "m", Sender: test.by, Text: test.text, CreatedAt: now}}
		judge.RestrictChoices(test.cfg, q)
		judge.JudgeReply(test.cfg, q, &q.Replies[0], now)
		var owed string
		if len(q.OwedNotes) == 1 {
			owed = q.OwedNotes[0].About
		}
		if got, _ := q.Decision(); got != test.decided || owed != test.owed || len(q.OwedNotes) > 1 {
			t.Errorf("%s: %q, owes %+v", name, got, q.OwedNotes)
		}
		kit.Equalf(t, len(q.OwedNotes) == 1 && q.OwedNotes[0].Text == wording.TimedYesHint, (name == "no time"), "%s: how to write it is told", name)
		if g := q.Grant; g != nil && g.GrantedAt.Nanosecond()%int(time.Millisecond) != 0 {
			t.Errorf("%s: given at %s, which records with a no do not tell apart", name, g.GrantedAt)
		}
		if g := q.Grant; test.long > 0 && (g == nil || g.EndsAt.Sub(now).Round(time.Second) != test.long) || test.long == 0 && q.Status != state.Resolved && g != nil {
			t.Errorf("%s: %+v", name, g)
		}
		if no := test.by == "users/1" && strings.HasPrefix(test.text, "no"); q.LastDenialAt.IsZero() == no {
			t.Errorf("%s: a no at %s", name, q.LastDenialAt)
		}
	}
}

// What a yes for a while covers, with each exception.
func TestWhatIsCovered(t *testing.T) {
	now := time.Now()
	cfg := config.Config{Approvers: []string{"users/1"}, AllowsTimedYes: true}
	type set struct {
		*state.Question
		given *state.Question
		g     *state.Grant
		cfg   *config.Config
		one   *state.Session
	}
	for name, change := range map[string]func(*set){
		"covered":                func(*set) {},
		"of a subagent, covered": func(s *set) { s.AgentID = "a" },
		"by e-mail, covered": func(s *set) {
			s.given.Replies[0].SenderEmail = "a@b.c"
			s.Approvers = &[]string{"a@b.c"}
			s.cfg.Approvers = []string{"a@b.c"}
		},
		"switched off since":            func(s *set) { s.cfg.AllowsTimedYes = false },
		"the configuration is unread":   func(s *set) { s.cfg.HasUnreadFile = true },
		"its time is up":                func(s *set) { s.g.EndsAt = now },
		"its end was told":              func(s *set) { s.g.IsEnded = true },
		"its reply is gone":             func(s *set) { s.given.Replies = nil },
		"a clock that was set back":     func(s *set) { s.g.GrantedAt, s.AskedAt = now.Add(time.Second), now.Add(2*time.Second) },
		"asked before":                  func(s *set) { s.AskedAt = s.g.GrantedAt },
		"another process":               func(s *set) { s.ClaudePID = 8 },
		"a process of the same number":  func(s *set) { s.ClaudeStart = "b" },
		"no process is known":           func(s *set) { s.ClaudePID, s.given.ClaudePID = 0, 0 },
		"no start is known":             func(s *set) { s.ClaudeStart, s.given.ClaudeStart = "", "" },
		"a session that began anew":     func(s *set) { s.one.StartedAt = now },
		"no approver now":               func(s *set) { s.cfg.Approvers = []string{"users/2"} },
		"no approver then":              func(s *set) { s.Approvers = &[]string{"users/2"} },
		"nobody was an approver then":   func(s *set) { s.Approvers = &[]string{} },
		"the record says no approver":   func(s *set) { s.Approvers = nil },
		"only the terminal":             func(s *set) { s.IsTerminalOnly = true },
		"never_remote, today":           func(s *set) { s.cfg.NeverRemote = []string{"Bash(make*)"} },
		"a plan":                        func(s *set) { s.Kind = state.KindPlan },
		"the next instruction":          func(s *set) { s.Kind = state.KindNext },
		"a question":                    func(s *set) { s.Kind = state.KindQuestion },
		"answered":                      func(s *set) { s.Status = state.Answered },
		"over":                          func(s *set) { s.Status = state.Cancelled },
		"it could not be said yes to":   func(s *set) { s.SubQuestions[0].Options = s.SubQuestions[0].Options[1:] },
		"another person of that e-mail": func(s *set) { s.given.Replies[0].Sender = "users/3" },
	} {
		c, q, given, session := cfg, newPermission("make", now.Add(-time.Second)), newPermission("one", now.Add(-time.Minute)), &state.Session{}
		g := &state.Grant{QuestionID: given.QuestionID, GrantedAt: now.Add(-time.Minute), EndsAt: now.Add(time.Minute)}
		given.Grant, given.AnsweredMessage, given.AnsweredByName = g, "m", "Ada"
		given.Replies = []state.Reply{{MessageName: "m", Sender: "users/1", DisplayName: "Ada"}}
		change(&set{q, given, g, &c, session})
		used := given.HasActiveGrant() && !judge.IsGrantOver(&c, given, session, now) && judge.AnswerByGrant(&c, q, given, now) == nil
		want := strings.HasSuffix(name, "covered")
		if label, _ := q.Decision(); used != want || (label == state.LabelAllow) != want || (q.Grant != nil) != want {
			t.Errorf("%s: %v, %q", name, used, label)
		}
		if used && (!strings.HasPrefix(*q.Response, "yes, by the grant of Ada until ") || q.AnsweredBy != "users/1" || q.HasActiveGrant()) {
			t.Errorf("%s: %+v", name, q)
		}
	}
}

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

func (d *testMachine) writeConfig(file string) {
	d.t.Helper()
	path := filepath.Join(d.dir, ".config", "gchat-hooks", "config.json")
	kit.NoError(d.t, os.MkdirAll(filepath.Dir(path), 0o700))
	kit.NoError(d.t, os.WriteFile(path, []byte(file), 0o600))
}

// askPermission has the session ask for a permission that a hook waits for.
func (d *testMachine) askPermission(command string, change func(*state.Question)) *state.Question {
	d.t.Helper()
	q := d.writeQuestion(func(q *state.Question) {
		p := newPermission(command, q.AskedAt)
		p.PostedAt, p.QuestionID, p.ThreadKey, p.SessionName, p.ProjectDir = nil, q.QuestionID, q.ThreadKey, "shop", q.ProjectDir
		p.SessionID, p.ClaudePID, p.ClaudeStart = "s", os.Getpid(), inject.ProcessStart(os.Getpid())
		p.Approvers = &[]string{space.PersonName, "users/1"}
		*q = *p
		if change != nil {
			change(q)
		}
	})
	waiter, err := state.LockWaiter(d.env, q.Path)
	kit.NoError(d.t, err)
	d.t.Cleanup(waiter.Unlock)
	kit.NoError(d.t, state.AddQuestionToIndex(d.env, q))
	state.CallPoller(d.env, state.Environment(d.env))
	return q
}

func (d *testMachine) awaitDecision(q *state.Question) *state.Question {
	d.t.Helper()
	return d.awaitQuestion(q, "decided", func(q *state.Question) bool { return q.Status != state.Pending })
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
func TestAYesForAWhile(t *testing.T) {
	t.Parallel()
	x := newGrantTest(t, newTestMachine(t), nil)
	x.runPoller(Options{})
	x.awaitQuestion(x.first, "posted", func(q *state.Question) bool { return q.IsMessageSent })
	x.reply(x.loadQuestion(x.first).ThreadName, "users/9", "yes 2h")
	x.awaitQuestion(x.first, "refused", func(q *state.Question) bool {
		return len(q.Replies) == 1 && q.Replies[0].Verdict == state.VerdictRefused
	})
	x.replyUntil("", "Yes 30m", true)
	for _, command := range []string{"make two", "make three"} {
		if q := x.awaitDecision(x.askPermission(command, nil)); q.HasActiveGrant() || q.Grant == nil || q.IsMessageSent || q.AnsweredBy != space.PersonName {
			t.Errorf("%+v", q)
		}
	}
	x.reply(x.loadQuestion(x.first).ThreadName, "users/9", "no")
	if q := x.awaitDecision(x.askPermission("make four", func(q *state.Question) { q.AgentID = "sub" })); q.Grant == nil {
		t.Errorf("%+v", q)
	}
	x.replyUntil("", "no", false)
	five := x.askPermission("make five", nil)
	x.awaitQuestion(five, "posted", func(q *state.Question) bool { return q.IsMessageSent })
	bound.Until(t, "told", func() bool {
		return slices.ContainsFunc(x.appTexts(), func(s string) bool { return strings.HasPrefix(s, "[Asks again]") })
	})
	if q := x.loadQuestion(five); q.Status != state.Pending {
		t.Errorf("%+v", q)
	}
	listed := slices.DeleteFunc(x.appTexts(), func(s string) bool { return !strings.HasPrefix(s, "[Allowed]") })
	if len(listed) > 2 || !strings.Contains(listed[0], "until") || strings.Contains(strings.Join(x.appTexts(), "\n"), "[Permission] Session: shop\nFolder: "+x.dir+"/shop\n\nmake two") {
		t.Errorf("%q", x.appTexts())
	}
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
	x := newGrantTest(t, newTestMachine(t), func(q *state.Question) { q.AskedAt = q.AskedAt.Add(-2 * time.Second) })
	then := x.newPoller()
	then.Now = func() time.Time { return time.Now().Add(-time.Second) }
	judge := then.judgeByPersonalConfig()
	x.changeQuestion(x.first, func(q *state.Question) {
		x.markPosted(q)
		q.Replies = []state.Reply{{MessageName: "m", Sender: "users/1", DisplayName: "Ada", Text: "yes 30m", CreatedAt: time.Now()}}
		kit.NoError(t, judge(q))
		at := time.Now()
		q.Status, q.ResolvedBy, q.ResolvedAt = state.Resolved, "chat", &at
	})
	return x
}

// What happens between the yes and the next permission decides whether the yes still
// counts.
func TestWhatEndsAYesForAWhile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		as      func(*state.Question)         // the next permission
		between func(x *grantTest, p *Poller) // the yes and that
		want    bool
	}{
		"nothing":     {nil, nil, true},
		"its time":    {nil, func(_ *grantTest, p *Poller) { p.Now = func() time.Time { return time.Now().Add(31 * time.Minute) } }, false},
		"its own end": {nil, func(_ *grantTest, p *Poller) { p.Now = func() time.Time { return time.Now().Add(29 * time.Minute) } }, true},
		"a clock that was set back after 31 minutes": {nil, func(x *grantTest, p *Poller) {
			p.readAndAttend(x.t.Context())
			for _, record := range p.ownRecords { // 31 minutes have passed by this process's clock
				record.grantEndsAt = record.grantEndsAt.Add(-31 * time.Minute)
			}
		}, false},
		"its person's removal": {nil, func(x *grantTest, _ *Poller) {
			x.writeConfig(`{"timed_yes": true, "approvers": ["` + space.PersonName + `"]}`)
		}, false},
		"its being switched off":        {nil, func(x *grantTest, _ *Poller) { x.writeConfig(`{}`) }, false},
		"a file that does not parse":    {nil, func(x *grantTest, _ *Poller) { x.writeConfig(`{"timed_yes": true`) }, false},
		"never_remote":                  {nil, func(x *grantTest, _ *Poller) { x.writeConfig(`{"timed_yes": true, "never_remote": ["Bash"]}`) }, false},
		"another process":               {func(q *state.Question) { q.ClaudeStart = "later" }, nil, false},
		"another session, as by /clear": {func(q *state.Question) { q.SessionID = "t" }, nil, false},
		"a resume in the same process": {nil, func(x *grantTest, _ *Poller) {
			x.changeSession("s", func(session *state.Session) { session.StartedAt = time.Now() })
		}, false},
		"another session of its process, in between": {nil, func(x *grantTest, _ *Poller) {
			for i, id := range []string{"s", "t"} {
				x.changeSession(id, func(session *state.Session) {
					session.ClaudePID, session.ClaudeStart, session.LastSeen = x.first.ClaudePID, x.first.ClaudeStart, time.Now().Add(time.Duration(i)*time.Second)
				})
			}
		}, false},
		"a plan": {func(q *state.Question) { q.Kind = state.KindPlan }, nil, false},
		"a no to another permission, which is over": {nil, func(x *grantTest, _ *Poller) {
			x.askPermission("make none", func(q *state.Question) {
				q.AskedAt, q.Status, q.LastDenialAt = q.AskedAt.Add(time.Minute), state.Resolved, time.Now()
			})
		}, false},
		"a no before it": {nil, func(x *grantTest, _ *Poller) {
			x.askPermission("make none", func(q *state.Question) { q.Status, q.LastDenialAt = state.Resolved, time.Now().Add(-time.Minute) })
		}, true},
		"a no in another session": {nil, func(x *grantTest, _ *Poller) {
			x.askPermission("make none", func(q *state.Question) { q.SessionID, q.Status, q.LastDenialAt = "t", state.Resolved, time.Now() })
		}, true},
		"a record of the yes that is gone": {nil, func(x *grantTest, p *Poller) {
			kit.NoError(x.t, os.Remove(x.first.Path))
		}, false},
		"a space that is not read": {func(q *state.Question) { q.AskedAt = q.AskedAt.Add(10 * time.Second) },
			func(x *grantTest, p *Poller) {
				p.readerFor(x.loadQuestion(x.first).Chat).lastGoodList = p.awakeSince.Add(-time.Hour)
			}, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newJudgedGrant(t)
			p := x.newReadPoller()
			if test.between != nil {
				test.between(x, p)
			}
			q := x.askPermission("make two", test.as)
			for range 2 {
				p.readAndAttend(t.Context())
				p.goroutines.Wait()
			}
			if stored := x.loadQuestion(q); (stored.Status == state.Answered) != test.want || (stored.Grant != nil) != test.want {
				t.Errorf("%s, %+v", stored.Status, stored.Grant)
			}
		})
	}
}

// A poller that is killed after any write does the rest later, and nothing twice.
func TestAYesForAWhileOutlivesAKilledPoller(t *testing.T) {
	x := newJudgedGrant(t)
	x.newReadPoller().readAndAttend(t.Context())
	// The poller was killed before it removed the owed note.
	x.changeQuestion(x.first, func(q *state.Question) { q.OweNote(state.NoteGranted, "m") })
	x.newReadPoller().readAndAttend(t.Context())
	p := x.newReadPoller()
	p.readAndAttend(t.Context())
	for _, record := range p.ownRecords {
		if !p.hasWork(record) || !p.needsReading(record) || record.isDone {
			t.Error("nothing goes on, or a no is not read")
		}
	}
	if notes := x.noteKinds(x.first); len(notes) != 1 || notes[0] != state.NoteGranted {
		t.Errorf("told %q", notes)
	}
	x.changeQuestion(x.first, func(q *state.Question) { q.LastDenialAt = time.Now() })
	x.newReadPoller().readAndAttend(t.Context())
	if stored := x.loadQuestion(x.first); stored.HasActiveGrant() {
		t.Errorf("%+v", stored.Grant)
	}
	// The poller was killed before it saved the end.
	x.changeQuestion(x.first, func(q *state.Question) { q.Grant.IsEnded = false })
	x.newReadPoller().readAndAttend(t.Context())
	if all := x.endNotes(); len(all) != 1 {
		t.Errorf("the end was told as %q", all)
	}
}

func TestAskEndsAYesForAWhile(t *testing.T) {
	x := newTestSession(t, nil)
	x.testMachine.writeConfig(`{"timed_yes": true}`)
	g := x.askPermission("make", func(q *state.Question) {
		q.Status, q.AnsweredByName, q.AnsweredMessage = state.Resolved, "Ada <x>", "m"
		q.Replies = []state.Reply{{MessageName: "m", Sender: space.PersonName, Verdict: state.VerdictUsed}}
		q.Grant = &state.Grant{QuestionID: q.QuestionID, GrantedAt: time.Now(), EndsAt: time.Now().Add(time.Hour)}
	})
	x.checkAnswer("/status", "Permissions are allowed by Ada ", "until "+x.loadQuestion(g).Grant.EndsAt.Local().Format("15:04"))
	x.reply(x.threadName, "users/9", "/ask")
	if notes := x.readNotes(); len(notes) > 0 || !x.loadQuestion(g).LastDenialAt.IsZero() {
		t.Errorf("a stranger's: %q", notes)
	}
	x.changeSession(x.sessionID, func(session *state.Session) {
		// another environment's poller, which judges nothing here
		session.OldCommands = []state.OldCommand{{MessageName: "c", Sender: "users/9", Text: "/ask", LocalCreatedAt: time.Now()}}
	})
	x.readNotes()
	if !x.loadQuestion(g).LastDenialAt.IsZero() || x.countUnfinished() > 0 {
		t.Error("a stranger ended it, or waits")
	}
	x.checkAnswer("/ask", "[Asks again]")
	if x.loadQuestion(g).LastDenialAt.IsZero() {
		t.Error("it runs")
	}
}

// A Chat app changes the one message that lists what was allowed.
func TestAnAppListsInOneMessage(t *testing.T) {
	d, g := newAppMachine(t)
	d.vars["GCHAT_APPROVERS"] = "users/1"
	d.writeConfig(`{"timed_yes": true}`)
	d.changeSession("s", func(session *state.Session) {
		session.StartedAt, session.LastSeen = time.Now().Add(-time.Hour), time.Now()
	})
	first := d.askPermission("make one", nil)
	d.runPoller(Options{Daemon: true})
	g.awaitPost("make one")
	first = d.awaitQuestion(first, "posted", func(q *state.Question) bool { return q.IsMessageSent })
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
		return strings.HasPrefix(text, "[Asks again]") && strings.HasSuffix(text, "\n• Bash: make three\n• Bash: make two")
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	kit.Equalf(t, len(g.posts), 2, "messages")
}

// endNotes returns the outbox's notes about the end of a yes for a while.
func (x *grantTest) endNotes() (all []string) {
	box, _ := state.OutboxIn(state.UserStateDir(x.env)).All()
	for _, message := range box {
		if message.Type == state.MessageNote && strings.HasPrefix(message.Parts[0], "[Asks again]") {
			all = append(all, message.Parts[0])
		}
	}
	return all
}

// Where messages cannot be changed, what was allowed is listed once, when the yes is
// over.
func TestAWebhookListsAtTheEnd(t *testing.T) {
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
		p.Now = func() time.Time { return time.Now().Add(time.Duration(after)*time.Minute + time.Second) }
		p.readAndAttend(t.Context())
		all := x.endNotes()
		if (len(all) == 1) != (after >= 30) || len(all) > 1 || len(all) == 1 && (!strings.Contains(all[0], "make") || strings.Contains(all[0], "three")) {
			t.Errorf("after %d minutes: %q", after, all)
		}
	}
}
