package poller

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/gchat/space"
	"gchat-hooks/inject"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// asksFor is a permission that a process of a session asks for.
func asksFor(command string, asked time.Time) *state.Question {
	return &state.Question{
		QuestionID: "q-" + command, Kind: state.AskedPermission, Tool: "Bash", Shown: command, Call: []string{command}, Mode: state.Native,
		Status: state.Pending, AskedAt: asked, PostedAt: &asked, Approvers: &[]string{"users/1", "users/2"}, ClaudePID: 7, ClaudeStart: "a",
		Questions: []state.Prompt{{Question: "Bash", Options: []state.Option{{Label: state.LabelAllow}, {Label: state.LabelDeny}}}},
	}
}

// Who may begin a yes for a while, and with what.
func TestWhoGrants(t *testing.T) {
	now := time.Now()
	on := config.Config{AllowedUsers: []string{"users/1", "users/2"}, Approvers: []string{"users/1"}, TimedYes: true}
	off := on
	off.TimedYes = false
	for name, test := range map[string]struct {
		cfg      *config.Config
		by, text string
		as       func(*state.Question)
		long     time.Duration
		decided  string
		owed     string
	}{
		"an approver":               {&on, "users/1", "yes 30m", nil, 30 * time.Minute, state.LabelAllow, state.NoteGranted},
		"of more than two hours":    {&on, "users/1", "yes 9h", nil, 2 * time.Hour, state.LabelAllow, state.NoteGranted},
		"a plain yes":               {&on, "users/1", "yes", nil, 0, state.LabelAllow, ""},
		"no time":                   {&on, "users/1", "yes 30", nil, 0, "", state.NoteUnclear},
		"switched off":              {&off, "users/1", "yes 30m", nil, 0, "", state.NoteUnclear},
		"a stranger":                {&on, "users/9", "yes 2h", nil, 0, "", state.NoteRefused},
		"who may only answer":       {&on, "users/2", "yes 2h", nil, 0, "", state.NoteRefused},
		"a program":                 {&on, state.Local, "yes 2h", nil, 0, "", ""},
		"only the terminal":         {&on, "users/1", "yes 30m", func(q *state.Question) { q.TerminalOnly = true }, 0, "", state.NoteUnclear},
		"of no known process":       {&on, "users/1", "yes 30m", func(q *state.Question) { q.ClaudeStart = "" }, 0, "", state.NoteUnclear},
		"answered already":          {&on, "users/1", "yes 30m", func(q *state.Question) { q.Status = state.Answered }, 0, "", state.NoteLate},
		"a no":                      {&on, "users/1", "no, not that", nil, 0, state.LabelDeny, state.NoteAsks},
		"a no that comes late":      {&on, "users/1", "no", func(q *state.Question) { q.Status = state.Resolved }, 0, "", state.NoteAsks},
		"a stranger's no":           {&on, "users/9", "no", func(q *state.Question) { q.Status = state.Resolved }, 0, "", state.NoteRefused},
		"a late no, switched off":   {&off, "users/1", "no", func(q *state.Question) { q.Status = state.Resolved }, 0, "", state.NoteLate},
		"what was said before that": {&on, "users/1", "yes 30m", func(q *state.Question) { at := now.Add(time.Minute); q.PostedAt = &at }, 0, "", ""},
		"a plan": {&on, "users/1", "yes 30m", func(q *state.Question) {
			q.Kind, q.Questions[0].Options = state.AskedPlan, []state.Option{{Label: state.LabelApprove}, {Label: state.LabelSendBack}}
		}, 0, "", state.NoteUnclear},
	} {
		q := asksFor("make", now.Add(-time.Minute))
		if test.as != nil {
			test.as(q)
		}
		q.Replies = []state.Reply{{MessageName: "m", Sender: test.by, Text: test.text, CreateTime: now}}
		judge.Tighten(test.cfg, q)
		judge.Reply(test.cfg, q, &q.Replies[0], now)
		var owed string
		if len(q.Owes) == 1 {
			owed = q.Owes[0].About
		}
		if got, _ := q.Decision(); got != test.decided || owed != test.owed || len(q.Owes) > 1 {
			t.Errorf("%s: %q, owes %+v", name, got, q.Owes)
		}
		if (q.Grant != nil) != (test.long > 0) || q.Grant != nil && (q.Grant.Until.Sub(now).Round(time.Second) != test.long || q.Grant.By != test.by) {
			t.Errorf("%s: %+v", name, q.Grant)
		}
	}
}

// What a yes for a while covers: each exception.
func TestWhatIsCovered(t *testing.T) {
	now := time.Now()
	cfg := config.Config{Approvers: []string{"users/1"}, TimedYes: true}
	type set struct {
		*state.Question
		g   *state.Grant
		cfg *config.Config
	}
	for name, change := range map[string]func(*set){
		"covered":                func(*set) {},
		"of a subagent, covered": func(s *set) { s.AgentID = "a" },
		"by e-mail, covered": func(s *set) {
			s.g.Email = "a@b.c"
			s.Approvers = &[]string{"a@b.c"}
			s.cfg.Approvers = []string{"a@b.c"}
		},
		"switched off since":            func(s *set) { s.cfg.TimedYes = false },
		"the configuration is unread":   func(s *set) { s.cfg.Unread = true },
		"its time is up":                func(s *set) { s.g.Until = now },
		"of more than two hours":        func(s *set) { s.g.Until = s.g.At.Add(2*time.Hour + 1) },
		"ended":                         func(s *set) { *s.g = state.Grant{At: s.g.At} },
		"a clock that was set back":     func(s *set) { s.g.At = now.Add(time.Second) },
		"asked before":                  func(s *set) { s.AskedAt = s.g.At },
		"another process":               func(s *set) { s.ClaudePID = 8 },
		"a process of the same number":  func(s *set) { s.ClaudeStart = "b" },
		"no process is known":           func(s *set) { s.ClaudePID, s.g.ClaudePID = 0, 0 },
		"no start is known":             func(s *set) { s.ClaudeStart, s.g.ClaudeStart = "", "" },
		"no approver now":               func(s *set) { s.cfg.Approvers = []string{"users/2"} },
		"no approver then":              func(s *set) { s.Approvers = &[]string{"users/2"} },
		"nobody was an approver then":   func(s *set) { s.Approvers = &[]string{} },
		"the record says no approver":   func(s *set) { s.Approvers = nil },
		"only the terminal":             func(s *set) { s.TerminalOnly = true },
		"never_remote, today":           func(s *set) { s.cfg.NeverRemote = []string{"Bash(make*)"} },
		"a plan":                        func(s *set) { s.Kind = state.AskedPlan },
		"the next instruction":          func(s *set) { s.Kind = state.AskedNext },
		"a question":                    func(s *set) { s.Kind = state.AskedQuestion },
		"answered":                      func(s *set) { s.Status = state.Answered },
		"over":                          func(s *set) { s.Status = state.Cancelled },
		"it could not be said yes to":   func(s *set) { s.Questions[0].Options = s.Questions[0].Options[1:] },
		"another person of that e-mail": func(s *set) { s.g.By, s.g.Email = "users/3", "" },
	} {
		c, q := cfg, asksFor("make", now.Add(-time.Second))
		g := state.Grant{Question: "q", Reply: "m", By: "users/1", Name: "Ada", At: now.Add(-time.Minute), Until: now.Add(time.Minute), ClaudePID: 7, ClaudeStart: "a"}
		change(&set{q, &g, &c})
		used, want := judge.ByGrant(&c, q, g, now), strings.HasSuffix(name, "covered")
		if label, _ := q.Decision(); used != want || (label == state.LabelAllow) != want || (q.Grant != nil) != want {
			t.Errorf("%s: %v, %q", name, used, label)
		}
		if used && (!strings.HasPrefix(*q.Response, "yes, by the grant of Ada until ") || q.AnsweredBy != "users/1" || q.Grants()) {
			t.Errorf("%s: %+v", name, q)
		}
	}
}

// granted is a session with a yes for half an hour, whose permissions a hook waits for.
type granted struct {
	*desk
	first *state.Question
}

func newGranted(t *testing.T, d *desk, posted func(*state.Question)) *granted {
	x := &granted{desk: d}
	d.configure(`{"timed_yes": true}`)
	x.first = x.wants("make one", posted)
	return x
}

func (d *desk) configure(file string) {
	d.t.Helper()
	path := filepath.Join(d.dir, ".config", "gchat-hooks", "config.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// wants has the session ask for a permission, which a hook waits for.
func (d *desk) wants(command string, as func(*state.Question)) *state.Question {
	d.t.Helper()
	q := d.record(func(q *state.Question) {
		p := asksFor(command, q.AskedAt)
		p.PostedAt, p.QuestionID, p.ThreadKey, p.SessionName, p.ProjectDir = nil, q.QuestionID, q.ThreadKey, "shop", q.ProjectDir
		p.SessionID, p.ClaudePID, p.ClaudeStart = "s", os.Getpid(), inject.StartOf(os.Getpid())
		p.Approvers = &[]string{space.Human, "users/1"}
		*q = *p
		if as != nil {
			as(q)
		}
	})
	waiter, err := state.LockWaiter(d.env, q.Path)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(waiter.Unlock)
	if err := state.AnnounceQuestion(d.env, q); err != nil {
		d.t.Fatal(err)
	}
	state.CallPoller(d.env, state.Environment(d.env))
	return q
}

func (d *desk) decided(q *state.Question) *state.Question {
	d.t.Helper()
	return d.await(q, "decided", func(q *state.Question) bool { return q.Status != state.Pending })
}

// says replies to the first permission, and waits until the session's grant is as wanted.
func (x *granted) says(sender, text string, runs bool) {
	x.t.Helper()
	x.reply(x.load(x.first).ThreadName, sender, text)
	bound.Until(x.t, text, func() bool { return x.runs() == runs })
}

func (x *granted) runs() bool {
	one, err := state.SessionsIn(state.UserState(x.env)).Of("s")
	return err == nil && one.Grant.Runs(time.Now())
}

func (x *granted) texts() (all []string) {
	for _, m := range x.space.Messages() {
		if m.Sender.Type != "HUMAN" {
			all = append(all, m.Text)
		}
	}
	return all
}

// A yes for a while answers what the session asks next, in silence, until a no; a stranger neither ends it nor begins one.
func TestAYesForAWhile(t *testing.T) {
	x := newGranted(t, newDesk(t), nil)
	x.run(Options{})
	x.await(x.first, "posted", func(q *state.Question) bool { return q.MessageSent })
	x.reply(x.load(x.first).ThreadName, "users/9", "yes 2h")
	x.await(x.first, "refused", func(q *state.Question) bool {
		return len(q.Replies) == 1 && q.Replies[0].Verdict == state.Refused
	})
	x.says("", "Yes 30m", true)
	for _, command := range []string{"make two", "make three"} {
		if q := x.decided(x.wants(command, nil)); q.Grants() || q.Grant == nil || q.MessageSent || q.AnsweredBy != space.Human {
			t.Errorf("%+v", q)
		}
	}
	x.reply(x.load(x.first).ThreadName, "users/9", "no")
	if q := x.decided(x.wants("make four", func(q *state.Question) { q.AgentID = "sub" })); q.Grant == nil {
		t.Errorf("%+v", q)
	}
	x.says("", "no", false)
	five := x.wants("make five", nil)
	x.await(five, "posted", func(q *state.Question) bool { return q.MessageSent })
	bound.Until(t, "told", func() bool {
		return slices.ContainsFunc(x.texts(), func(s string) bool { return strings.HasPrefix(s, "[Asks again]") })
	})
	if q := x.load(five); q.Status != state.Pending {
		t.Errorf("%+v", q)
	}
	listed := slices.DeleteFunc(x.texts(), func(s string) bool { return !strings.HasPrefix(s, "[Allowed]") })
	if len(listed) > 2 || !strings.Contains(listed[0], "until") || strings.Contains(strings.Join(x.texts(), "\n"), "[Permission] Session: shop\nFolder: "+x.dir+"/shop\n\nmake two") {
		t.Errorf("%q", x.texts())
	}
}

// steps is a poller that takes its steps when the test says so, and that has read the space.
func (x *granted) steps() *Poller {
	p := x.poller()
	p.readerOf(x.load(x.first).Chat).good = time.Now().Add(time.Hour)
	return p
}

// One step after a yes for half an hour was judged and written, and the poller was killed.
func newJudged(t *testing.T) *granted {
	x := newGranted(t, newDesk(t), func(q *state.Question) { q.AskedAt = q.AskedAt.Add(-time.Second) })
	x.change(x.first, func(q *state.Question) {
		x.posted(q)
		q.Replies = []state.Reply{{MessageName: "m", Sender: "users/1", DisplayName: "Ada", Text: "yes 30m", CreateTime: time.Now()}}
		if err := x.poller().judgeIn(q, configured{}); err != nil {
			t.Fatal(err)
		}
	})
	return x
}

// What is said and done between the yes and the next permission decides about that.
func TestWhatEndsAYesForAWhile(t *testing.T) {
	for name, test := range map[string]struct {
		as      func(*state.Question)       // the next permission
		between func(x *granted, p *Poller) // the yes and that
		want    bool
	}{
		"nothing":     {nil, nil, true},
		"its time":    {nil, func(_ *granted, p *Poller) { p.Now = func() time.Time { return time.Now().Add(31 * time.Minute) } }, false},
		"its own end": {nil, func(_ *granted, p *Poller) { p.Now = func() time.Time { return time.Now().Add(29 * time.Minute) } }, true},
		"a clock that was set back after 31 minutes": {nil, func(x *granted, p *Poller) {
			at := time.Now().Add(31 * time.Minute)
			p.Now = func() time.Time { return at }
			p.lasts(x.load(x.first).Grant)
			for name := range p.grants { // this process saw 31 minutes pass
				p.grants[name] = p.grants[name].Add(-31 * time.Minute)
			}
			p.Now = func() time.Time { return time.Now().Round(0) }
		}, false},
		"its person's removal": {nil, func(x *granted, _ *Poller) {
			x.configure(`{"timed_yes": true, "approvers": ["` + space.Human + `"]}`)
		}, false},
		"its being switched off":        {nil, func(x *granted, _ *Poller) { x.configure(`{}`) }, false},
		"a file that does not parse":    {nil, func(x *granted, _ *Poller) { x.configure(`{"timed_yes": true`) }, false},
		"never_remote":                  {nil, func(x *granted, _ *Poller) { x.configure(`{"timed_yes": true, "never_remote": ["Bash"]}`) }, false},
		"another process":               {func(q *state.Question) { q.ClaudeStart = "later" }, nil, false},
		"another session, as by /clear": {func(q *state.Question) { q.SessionID = "t" }, nil, false},
		"a resume in the same process": {nil, func(x *granted, _ *Poller) {
			x.session("s", func(one *state.Session) { one.StartedAt = time.Now() })
		}, false},
		"another session of its process, in between": {nil, func(x *granted, _ *Poller) {
			for i, id := range []string{"s", "t"} {
				x.session(id, func(one *state.Session) {
					one.ClaudePID, one.ClaudeStart, one.LastSeen = x.first.ClaudePID, x.first.ClaudeStart, time.Now().Add(time.Duration(i)*time.Second)
				})
			}
		}, false},
		"a plan": {func(q *state.Question) { q.Kind = state.AskedPlan }, nil, false},
		"/ask, and a poller that was killed before its yes was kept": {nil, func(x *granted, p *Poller) {
			if _, err := state.SessionsIn(p.user).AskAgain("s", p.Now()); err != nil {
				x.t.Fatal(err)
			}
		}, false},
		"a no that is judged and not acted on": {nil, func(x *granted, p *Poller) {
			x.session("s", func(one *state.Session) { one.Grant = *x.load(x.first).Grant })
			x.wants("make none", func(q *state.Question) {
				q.AskedAt, q.Status = q.AskedAt.Add(time.Minute), state.Resolved // its turn comes after that of what is asked now
				q.Owe(state.NoteAsks, "")
			})
		}, false},
		"a record of the yes that is gone": {nil, func(x *granted, p *Poller) {
			x.session("s", func(one *state.Session) { one.Grant = *x.load(x.first).Grant })
			if err := os.Remove(x.first.Path); err != nil {
				x.t.Fatal(err)
			}
		}, false},
		"a space that is not read": {func(q *state.Question) { q.AskedAt = q.AskedAt.Add(10 * time.Second) },
			func(x *granted, p *Poller) { p.readerOf(x.load(x.first).Chat).good = p.awake.Add(-time.Hour) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newJudged(t)
			p := x.steps()
			if test.between != nil {
				test.between(x, p)
			}
			q := x.wants("make two", test.as)
			for range 2 {
				p.round(t.Context())
				p.working.Wait()
			}
			if is := x.load(q); (is.Status == state.Answered) != test.want || (is.Grant != nil) != test.want {
				t.Errorf("%s, %+v", is.Status, is.Grant)
			}
		})
	}
}

// What is killed after any write of it is done again, and nothing twice.
func TestAYesForAWhileOutlivesAKilledPoller(t *testing.T) {
	x := newJudged(t)
	x.session("s", func(one *state.Session) { one.Grant = *x.load(x.first).Grant }) // killed after that
	x.steps().round(t.Context())
	x.change(x.first, func(q *state.Question) { q.Owe(state.NoteGranted, "m") }) // killed before that was struck off
	x.steps().round(t.Context())
	if notes := x.notes(x.first); len(notes) != 1 || notes[0] != state.NoteGranted {
		t.Errorf("told %q", notes)
	}
	x.session("s", func(one *state.Session) { one.Grant = state.Grant{At: time.Now()} }) // and ended then
	x.change(x.first, func(q *state.Question) { q.Owe(state.NoteGranted, "m") })
	x.steps().round(t.Context())
	if x.runs() {
		t.Error("it was begun anew")
	}
}

func TestAskEndsAYesForAWhile(t *testing.T) {
	x := newTalk(t, func(s *state.Session) {
		s.Grant = state.Grant{Reply: "m", By: "users/1", Name: "Ada <x>", At: time.Now().Add(-time.Minute), Until: time.Now().Add(time.Hour)}
	})
	x.says("/status", "Permissions are allowed by Ada ", "until "+x.is().Grant.Until.Local().Format("15:04"))
	x.reply(x.thread, "users/9", "/ask")
	if told := x.hears(); len(told) > 0 || !x.is().Grant.Runs(time.Now()) {
		t.Errorf("a stranger's: %q", told)
	}
	x.says("/ask", "[Asks again]")
	if x.is().Grant.Runs(time.Now()) {
		t.Error("it runs")
	}
	x.says("/ask", "[Not used] Each permission of this session is asked for anyway.")
}

// A Chat app changes the one message that says what was allowed.
func TestAnAppListsInOneMessage(t *testing.T) {
	d, g := newAppDesk(t)
	d.vars["GCHAT_APPROVERS"] = "users/1"
	d.configure(`{"timed_yes": true}`)
	first := d.wants("make one", nil)
	d.run(Options{Daemon: true})
	g.awaitPost("make one")
	first = d.await(first, "posted", func(q *state.Question) bool { return q.MessageSent })
	m := g.said(first.ThreadName, "yes 2h", "")
	g.publish(event("MESSAGE", "users/1", m))
	d.decided(first)
	begun := g.awaitPost("[Allowed] shop")
	for _, command := range []string{"make two", "make three"} {
		d.decided(d.wants(command, nil))
	}
	name := appSpace + "/messages/" + begun.ClientAssignedMessageId
	bound.Until(t, "its message lists both", func() bool {
		return strings.HasSuffix(g.message(name).Text, "\n• Bash: make two\n• Bash: make three")
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.posts) != 2 {
		t.Errorf("%d messages", len(g.posts))
	}
}

// What a webhook allowed is listed after five minutes, once.
func TestAWebhookListsNowAndThen(t *testing.T) {
	x := newJudged(t)
	p := x.steps()
	p.round(t.Context())
	q := x.wants("make `two`", nil)
	p.round(t.Context())
	x.decided(q)
	x.wants("make three", func(q *state.Question) { // in the terminal, which was faster
		q.Grant, q.Status, q.ResolvedBy = x.load(x.first).Grant, state.Resolved, "terminal"
	})
	p.round(t.Context())
	box := state.OutboxIn(state.UserState(x.env))
	count := func() (n int) {
		all, _ := box.All()
		for _, m := range all {
			if m.Type == state.MessageNote && strings.Contains(m.Parts[0], "• Bash: make") {
				n++
				if strings.Contains(m.Parts[0], "three") {
					t.Errorf("%q", m.Parts)
				}
			}
		}
		return n
	}
	for after, want := range []int{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1} {
		p.Now = func() time.Time { return time.Now().Add(time.Duration(after)*time.Minute + time.Second) }
		p.round(t.Context())
		if got := count(); got != want {
			t.Errorf("after %d minutes: %d", after, got)
		}
	}
}
