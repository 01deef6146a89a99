package poller

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func TestAllowedFailsClosed(t *testing.T) {
	for _, c := range []struct {
		users  []string
		sender state.Reply
		want   bool
	}{
		{nil, state.Reply{Sender: "users/1"}, false},
		{[]string{""}, state.Reply{}, false},
		{[]string{"users/1"}, state.Reply{Sender: "users/1"}, true},
		{[]string{"users/1"}, state.Reply{Sender: "users/11"}, false},
		{[]string{"1"}, state.Reply{Sender: "1"}, false},
		{[]string{"*", "users/*", "all", "users/"}, state.Reply{Sender: "users/1"}, false},
		{[]string{"Ann@Example.com"}, state.Reply{Sender: "users/1", SenderEmail: "ann@example.com"}, true},
		{[]string{"users/ann@example.com"}, state.Reply{Sender: "users/1", SenderEmail: "ann@example.com"}, true},
		{[]string{"ann@example.com"}, state.Reply{Sender: "users/1", DisplayName: "ann@example.com"}, false},
		{[]string{"ann@example.com"}, state.Reply{Sender: "users/1"}, false},
		{[]string{"users/"}, state.Reply{Sender: "users/"}, false},
		{[]string{"users/@"}, state.Reply{Sender: "users/@", SenderEmail: "@"}, false},
		{[]string{"@example.com"}, state.Reply{Sender: "users/1", SenderEmail: "@example.com"}, false},
		{[]string{"kim@example.com"}, state.Reply{Sender: "users/1", SenderEmail: "\u212Aim@example.com"}, false},
		{[]string{"sam@example.com"}, state.Reply{Sender: "users/1", SenderEmail: "\u017Fam@example.com"}, false},
		{[]string{"local"}, state.Reply{Sender: "users/1"}, false},
		{nil, state.Reply{Sender: state.LocalSender}, true},
	} {
		kit.Equalf(t, judge.CanAnswer(&config.Config{AllowedUsers: c.users}, &state.Question{}, &c.sender), c.want, "%q, %+v", c.users, c.sender)
	}
}

// Each reply gets its verdict once, in the order in which the replies were written. The
// notes that the thread is owed are in the same write.
func TestJudgeOnce(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(func(q *state.Question) { d.markPosted(q); q.Mode = state.ModeDeny })
	reply := func(name, sender, text string, after time.Duration) state.Reply {
		return state.Reply{MessageName: name, Sender: sender, Text: text, CreatedAt: q.AskedAt.Add(after)}
	}
	d.changeQuestion(q, func(q *state.Question) {
		q.Replies = []state.Reply{ // in the order of arrival, not of writing
			reply("m5", "users/1", "One", 6*time.Second), reply("m4", "users/1", "2", 5*time.Second), reply("m3", "users/1", " ", 3*time.Second),
			reply("m2", "users/2", "1", 2*time.Second), reply("m2b", "users/2", "1", 3*time.Second), reply("m7", "users/2", "", 0),
			reply("m0", "users/1", "1", -time.Minute), reply("m3b", "users/1", "7", 4*time.Second),
		}
	})
	p := d.newPoller()
	p.readIndex()
	record := p.ownOldestFirst()[0]
	for range 2 { // judging a second time changes nothing
		p.judgeUnread(record)
		after := d.loadQuestion(q)
		want := map[string]state.Verdict{
			"m7": state.VerdictIgnored, "m0": state.VerdictIgnored, "m2": state.VerdictRefused, "m2b": state.VerdictRefused, "m3": state.VerdictIgnored, "m3b": state.VerdictAskedBack,
			"m4": state.VerdictUsed, "m5": state.VerdictLate,
		}
		for name, v := range want {
			kit.Equalf(t, after.FindReply(name).Verdict, v, "%s", name)
		}
		if after.Status != state.Answered || after.Answers["Which?"] != "Two" || after.AnsweredMessage != "m4" {
			t.Errorf("%s %v by %s", after.Status, after.Answers, after.AnsweredMessage)
		}
		owed := []state.OwedNote{
			{About: state.NoteRefused, ReplyMessage: "m2"}, {About: state.NoteNoText, ReplyMessage: "m3"}, {About: state.NoteUnclear, ReplyMessage: "m3b"},
			{About: state.NoteLate, ReplyMessage: "m5"}, {About: state.NoteLater, ReplyMessage: "m4"},
		}
		if !slices.Equal(after.OwedNotes, owed) {
			t.Errorf("owes %+v", after.OwedNotes)
		}
	}
}

func TestJudgeSeveralQuestions(t *testing.T) {
	cfg := &config.Config{AllowedUsers: []string{"users/1"}}
	q := &state.Question{Status: state.Pending, SubQuestions: []state.SubQuestion{
		{Question: "A?", Options: []state.Option{{Label: "x"}, {Label: "y"}}}, {Question: "B?", Options: []state.Option{{Label: "z"}}},
	}}
	say := func(name, text string) *state.Reply {
		q.Replies = append(q.Replies, state.Reply{MessageName: name, Sender: "users/1", Text: text, CreatedAt: noon})
		r := &q.Replies[len(q.Replies)-1]
		judge.JudgeReply(cfg, q, r, noon)
		return r
	}
	if r := say("m1", "Q1: 2"); r.Verdict != state.VerdictKept || q.PartialAnswers[0].Value() != "y" || q.OwedNotes[0] != (state.OwedNote{About: state.NoteKept, ReplyMessage: "m1"}) {
		t.Errorf("%+v, owes %+v", r, q.OwedNotes)
	}
	if r := say("m2", " Q2: 1\n"); r.Verdict != state.VerdictUsed || *q.Response != "Q2: 1" || q.Answers["A?"] != "y" || q.Answers["B?"] != "z" || *q.ResponseType != "multi_question" {
		t.Errorf("%+v, %v", r, q.Answers)
	}
}

// A tap on a button that the card does not have, and that also names an option, is
// asked back. It keeps nothing, and does not take over what was answered before.
func TestATapOnNoButtonIsAskedBack(t *testing.T) {
	cfg := &config.Config{AllowedUsers: []string{"users/1"}}
	for choice, label := range map[string]string{
		state.DeclinedSkip: "Skip tests",
		state.DeclinedChat: "Chat about this",
	} {
		for name, partial := range map[string]map[int]state.Answer{
			"nothing answered": nil,
			"one answered":     {0: {Labels: []string{"x"}}},
		} {
			q := &state.Question{Status: state.Pending, PartialAnswers: partial, SubQuestions: []state.SubQuestion{
				{Question: "A?", Options: []state.Option{{Label: "x"}}},
				{Question: "B?", Options: []state.Option{{Label: label}}},
			}}
			r := &state.Reply{MessageName: "tap/1", Sender: "users/1", Text: choice, Choice: choice, CreatedAt: noon}
			judge.JudgeReply(cfg, q, r, noon)
			isTold := slices.Equal(q.OwedNotes, []state.OwedNote{{About: state.NoteUnclear, ReplyMessage: "tap/1"}})
			if r.Verdict != state.VerdictAskedBack || !isTold || len(q.PartialAnswers) != len(partial) || q.Declined != "" {
				t.Errorf("%s, %s: %s, owes %+v, kept %v", choice, name, r.Verdict, q.OwedNotes, q.PartialAnswers)
			}
		}
	}
}

// A reply with `gchat-hooks answer` is answered in the shell, and not in the thread.
func TestAReplyFromTheShellIsAnsweredThere(t *testing.T) {
	for text, want := range map[string]state.Verdict{"9": state.VerdictAskedBack, "1": state.VerdictUsed} {
		q := &state.Question{Status: state.Pending, SubQuestions: []state.SubQuestion{{Question: "A?", Options: []state.Option{{Label: "x"}, {Label: "y"}}}}}
		r := &state.Reply{MessageName: judge.ShellReplyPrefix + "1", Sender: state.LocalSender, Text: text, CreatedAt: noon}
		if judge.JudgeReply(&config.Config{}, q, r, noon); r.Verdict != want || len(q.OwedNotes) != 0 {
			t.Errorf("%s: %s, owes %+v", text, r.Verdict, q.OwedNotes)
		}
		if judge.JudgeReply(&config.Config{}, q, r, noon); want == state.VerdictUsed && (r.Verdict != state.VerdictLate || len(q.OwedNotes) != 0) {
			t.Errorf("again: %s, owes %+v", r.Verdict, q.OwedNotes)
		}
	}
}

// Who can deliver an answer decides whether a reply is judged, waits for a hook, or
// gets a note that only the terminal answers.
func TestAReplyWithoutAHookThatWaits(t *testing.T) {
	for name, c := range map[string]struct {
		age    time.Duration
		pane   string
		waiter bool
		want   state.Verdict
	}{
		"a hook waits":                   {0, "", true, state.VerdictUsed},
		"a hook may come":                {10 * time.Second, "", false, state.VerdictUnread},
		"none came":                      {20 * time.Second, "", false, state.VerdictNoWaiter},
		"a hook may come, tmux":          {time.Second, "%0", false, state.VerdictUnread},
		"none came, the poller types":    {10 * time.Second, "%0", false, state.VerdictUsed},
		"a hook waits, though in a tmux": {time.Minute, "%0", true, state.VerdictUsed},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestMachine(t)
			q := d.addQuestion(func(q *state.Question) {
				d.markPosted(q)
				q.Mode, q.TmuxPane, q.TmuxSocket = state.ModeNative, c.pane, "/nowhere"
			})
			d.changeQuestion(q, func(q *state.Question) {
				q.AskedAt = time.Now().Add(-c.age)
				q.Replies = []state.Reply{{MessageName: "m", Sender: "users/1", Text: "2", CreatedAt: time.Now()}}
			})
			if c.waiter {
				l, err := state.LockWaiter(d.env, q.Path)
				kit.NoError(t, err)
				defer l.Unlock()
			}
			p := d.newPoller()
			p.readIndex()
			p.judgeUnread(p.ownOldestFirst()[0])
			stored := d.loadQuestion(q)
			kit.Equal(t, stored.Replies[0].Verdict, c.want)
			kit.Equalf(t, len(stored.OwedNotes) == 1 && stored.OwedNotes[0].About == state.NoteNoWaiter, (c.want == state.VerdictNoWaiter), "owes %+v", stored.OwedNotes)
		})
	}
}

// A hook was killed before it delivered the answer: a note says that only the terminal
// can answer.
func TestAnAnswerWhoseHookWasKilled(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(func(q *state.Question) { d.markPosted(q); q.Mode = state.ModeNative })
	l, err := state.LockWaiter(d.env, q.Path)
	kit.NoError(t, err)
	d.changeQuestion(q, func(q *state.Question) {
		q.Replies = []state.Reply{{MessageName: "m", Sender: "users/1", Text: "2", CreatedAt: time.Now()}}
	})
	p := d.newPoller()
	p.readAndAttend(t.Context())
	if stored := d.loadQuestion(q); stored.Status != state.Answered || len(stored.OwedNotes) != 0 {
		t.Fatalf("%s, owes %+v", stored.Status, stored.OwedNotes)
	}
	l.Unlock()
	p.readAndAttend(t.Context())
	p.readAndAttend(t.Context())
	if stored := d.loadQuestion(q); stored.Status != state.Answered || stored.Replies[0].Verdict != state.VerdictNoWaiter || !slices.Equal(d.noteKinds(q), []string{state.NoteNoWaiter}) {
		t.Errorf("%s, %+v, notes %q", stored.Status, stored.Replies, d.noteKinds(q))
	}
}

// While somebody edits the file that says who may answer, the login's own person may
// answer. Replies of others wait for the file.
func TestHalfWrittenConfigurationRefusesNobody(t *testing.T) {
	d := newTestMachine(t)
	delete(d.vars, "GCHAT_ALLOWED_USERS")
	config, login := filepath.Join(d.dir, ".config", "gchat-hooks", "config.json"), config.LoginFile(d.env)
	write := func(path, content string) {
		t.Helper()
		kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		kit.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	write(login, `{"type":"authorized_user","client_id":"x","client_secret":"y","refresh_token":"z","token_uri":"https://127.0.0.1:1/",
		"scopes":[],"made_by":"gchat-hooks login","logged_in_at":"2026-11-22T00:00:00Z","user":"users/1"}`)
	write(config, `{"allowed_users":["users/2"],`)
	q := d.addQuestion(func(q *state.Question) { d.markPosted(q); q.Mode = state.ModeDeny })
	d.changeQuestion(q, func(q *state.Question) {
		for _, who := range []string{"users/3", "users/1"} {
			q.Replies = append(q.Replies, state.Reply{MessageName: who, Sender: who, Text: "2", CreatedAt: time.Now()})
		}
	})
	p := d.newPoller()
	p.readIndex()
	verdicts := func(want ...state.Verdict) {
		t.Helper()
		p.judgeUnread(p.ownOldestFirst()[0])
		for i, r := range d.loadQuestion(q).Replies {
			kit.Equalf(t, r.Verdict, want[i], "%s", r.Sender)
		}
	}
	verdicts(state.VerdictUnread, state.VerdictUsed)
	before, err := os.Stat(q.Path)
	kit.NoError(t, err)
	verdicts(state.VerdictUnread, state.VerdictUsed)
	if after, err := os.Stat(q.Path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file is rewritten though nothing is new: %v", err)
	}
	write(config, `{"allowed_users":["users/2"]}`)
	verdicts(state.VerdictRefused, state.VerdictUsed)
}

// A reply file does not name its question, so it answers no question that it cannot be
// meant for.
func TestAReplyFileAnswersWhatItWasMeantFor(t *testing.T) {
	main := func(q *state.Question) { q.SessionName = "main" }
	for name, c := range map[string]struct {
		file    string
		written time.Duration // after the question was asked
		other   func(*state.Question)
		want    bool
	}{
		"not trusted":                     {"main", time.Minute, nil, false},
		"not trusted, by id":              {"s-1", time.Minute, nil, true},
		"not trusted, but its folder":     {"main", time.Minute, nil, true},
		"by the session's id":             {"s-1", time.Minute, nil, true},
		"by its name":                     {"main", time.Minute, nil, true},
		"just before":                     {"main", -time.Second, nil, true},
		"to an earlier question":          {"s-1", -10 * time.Second, nil, false},
		"two of that name ask":            {"main", time.Minute, main, false},
		"two of that name ask, by id":     {"s-1", time.Minute, main, true},
		"one session asks twice":          {"main", time.Minute, func(q *state.Question) { q.SessionName, q.SessionID = "main", "s-1" }, true},
		"another name asks":               {"main", time.Minute, func(q *state.Question) { q.SessionName = "side" }, true},
		"the other's Claude Code is gone": {"main", time.Minute, func(q *state.Question) { q.SessionName, q.ClaudePID = "main", 1<<30 }, true},
		"the other has its answer": {"main", time.Minute, func(q *state.Question) {
			q.SessionName, q.Status, q.Answers = "main", state.Answered, map[string]string{"Which?": "Two"}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestMachine(t)
			if !strings.HasPrefix(name, "not trusted") {
				d.vars["CLAUDE_PROJECT_DIR"] = filepath.Join(d.dir, "shop")
			}
			q := d.addQuestion(func(q *state.Question) { main(q); q.AskedAt = time.Now().Add(-c.written) })
			if c.other != nil {
				d.addQuestion(c.other)
			}
			path := filepath.Join(stateDirOf(q), "user-input-queue", c.file+".txt")
			kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			kit.NoError(t, os.WriteFile(path, []byte("2\n"), 0o600))
			future := time.Now().Add(time.Hour) // an archive can set such a modification time
			kit.NoError(t, os.Chtimes(path, future, future))
			p := d.newPoller()
			// it is written to its end
			p.Now = func() time.Time { return time.Now().Add(time.Second) }
			if name == "not trusted, but its folder" {
				p.QuestionDirs = []string{filepath.Dir(q.Path)}
			}
			p.readIndex()
			for range 3 {
				p.readReplyFile(p.ownOldestFirst()[0])
			}
			kit.Equalf(t, len(d.loadQuestion(q).Replies) == 1, c.want, "taken")
			if _, err := os.Stat(path); os.IsNotExist(err) != c.want {
				t.Errorf("the file: %v", err)
			}
			if n := len(d.logLines("reply file not used")); (n == 1) == c.want || n > 1 {
				t.Errorf("the log says %d times that it is not used", n)
			}
		})
	}
}

// Two questions of one call may get the same reply text, one after the other.
func TestTheSameWordsInAReplyFileTwice(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(func(q *state.Question) {
		q.AskedAt = time.Now().Add(-time.Hour)
		q.SubQuestions = append(q.SubQuestions, state.SubQuestion{Question: "And?", Options: q.SubQuestions[0].Options, OptionCount: 2})
	})
	p := d.newPoller()
	p.Now = func() time.Time { return time.Now().Add(time.Second) } // each is written to its end
	for range 2 {
		path := filepath.Join(filepath.Join(stateDirOf(q), "user-input-queue"), q.SessionID+".txt")
		kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		kit.NoError(t, os.WriteFile(path, []byte("1\n"), 0o600))
		p.readAndAttend(t.Context())
	}
	if stored := d.loadQuestion(q); stored.Status != state.Answered {
		t.Errorf("it is %s, with %d replies", stored.Status, len(stored.Replies))
	}
}

// A poller was killed after it wrote a reply file into a question and before it removed
// the file. The file answers no other question.
func TestAReplyFileAnswersOneQuestion(t *testing.T) {
	d := newTestMachine(t)
	asked := func(q *state.Question) { q.SessionID, q.ClaudeSessionID = "s", "s" }
	one, two := d.addQuestion(asked), d.addQuestion(asked)
	path := filepath.Join(filepath.Join(stateDirOf(one), "user-input-queue"), "s.txt")
	kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	kit.NoError(t, os.WriteFile(path, []byte("1\n"), 0o600))
	var file unix.Stat_t
	kit.NoError(t, unix.Lstat(path, &file))
	d.changeQuestion(one, func(q *state.Question) {
		said := fmt.Sprintf("local/%x-%x", file.Ino, time.Unix(file.Ctim.Unix()).UnixNano())
		q.Replies = []state.Reply{{MessageName: said, Sender: state.LocalSender, Text: "1\n", CreatedAt: time.Now().UTC()}}
	})
	if _, err := state.CloseQuestion(one.Path, state.Resolved, "terminal", nil); err != nil {
		t.Fatal(err)
	}
	p := d.newPoller()
	p.Now = func() time.Time { return time.Now().Add(time.Second) } // it is written to its end
	p.readAndAttend(t.Context())
	p.readAndAttend(t.Context())
	if stored := d.loadQuestion(two); len(stored.Replies) > 0 {
		t.Errorf("the other question has %+v", stored.Replies)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the file stays: %v", err)
	}
}

// A checkout can contain a link or a pipe in place of a reply file, or a link in place
// of its folder. The poller neither reads them as replies nor waits for them.
func TestAReplyFileIsAPlainFile(t *testing.T) {
	for name, plant := range map[string]func(folder, theirs string) error{
		"link":          func(folder, theirs string) error { return os.Symlink(theirs, filepath.Join(folder, "main.txt")) },
		"pipe":          func(folder, _ string) error { return syscall.Mkfifo(filepath.Join(folder, "main.txt"), 0o600) },
		"linked folder": func(folder, theirs string) error { os.Remove(folder); return os.Symlink(filepath.Dir(theirs), folder) },
		"too large": func(folder, _ string) error {
			return os.WriteFile(filepath.Join(folder, "main.txt"), make([]byte, maxReplyFile+1), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestMachine(t)
			q := d.addQuestion(func(q *state.Question) { q.SessionName, q.AskedAt = "main", time.Now().Add(-time.Hour) })
			theirs := filepath.Join(t.TempDir(), "main.txt")
			folder := filepath.Join(stateDirOf(q), "user-input-queue")
			kit.NoError(t, os.WriteFile(theirs, []byte("2\n"), 0o600))
			kit.NoError(t, os.MkdirAll(folder, 0o700))
			kit.NoError(t, plant(folder, theirs))
			p := d.newPoller()
			// it is written to its end
			p.Now = func() time.Time { return time.Now().Add(time.Second) }
			p.readIndex()
			p.readReplyFile(p.ownOldestFirst()[0])
			kit.Equalf(t, len(d.loadQuestion(q).Replies), 0, "replies")
			if b, _ := os.ReadFile(theirs); string(b) != "2\n" {
				t.Errorf("the person's file holds %q", b)
			}
		})
	}
}

// Whatever a reply says, judging it ends with a verdict, and with an answer to every
// question or to none.
func FuzzJudge(f *testing.F) {
	f.Add("1")
	f.Add("Q2: 1; other: x\n")
	cfg := &config.Config{AllowedUsers: []string{"users/1"}}
	f.Fuzz(func(t *testing.T, text string) {
		q := &state.Question{Status: state.Pending, SubQuestions: []state.SubQuestion{
			{Question: "A?", Options: []state.Option{{Label: "x"}, {Label: "y"}}, MultiSelect: true}, {Question: "B?", Options: []state.Option{{Label: "z"}}},
		}}
		q.Replies = []state.Reply{{MessageName: "m", Sender: "users/1", Text: text, CreatedAt: noon}}
		judge.JudgeReply(cfg, q, &q.Replies[0], noon)
		if q.Replies[0].Verdict == state.VerdictUnread {
			t.Error("no verdict")
		}
		if q.Status == state.Answered && (len(q.Answers) != 2 || q.Answers["A?"] == "" || q.Answers["B?"] == "") {
			t.Errorf("answered with %v", q.Answers)
		}
		for _, owed := range q.OwedNotes {
			if wording.NoteTexts(q, owed) == nil {
				t.Errorf("the thread is told nothing of %+v", owed)
			}
		}
	})
}

// A reply that declines a question is used, and no reply after it. In deny mode Claude
// is told; in other modes the dialog stays.
func TestTurnedDown(t *testing.T) {
	for name, c := range map[string]struct {
		mode           state.Mode
		text, choice   string
		inputs         map[string][]string
		status         state.Status
		declined, said string
		handed         bool
		owes           string
	}{
		"chat":      {mode: state.ModeNative, text: "chat: why?", status: state.Answered, declined: "chat", said: "why?"},
		"a tap":     {mode: state.ModeHold, text: "chat about this: why?", choice: "chat", status: state.Answered, declined: "chat", said: "why?"},
		"skip":      {mode: state.ModeNative, text: "skip", status: state.Pending, declined: "skip", handed: true, owes: state.NoteHandedOver},
		"injected":  {mode: state.ModeInject, text: "cancel", status: state.Pending, declined: "skip", handed: true, owes: state.NoteHandedOver},
		"denied":    {mode: state.ModeDeny, text: "skip", status: state.Answered, declined: "skip"},
		"help":      {mode: state.ModeNative, text: "help", status: state.Pending, owes: state.NoteUnclear},
		"own words": {mode: state.ModeNative, text: "chat", choice: "send", inputs: map[string][]string{"w1": {"chat"}}, status: state.Answered},
	} {
		t.Run(name, func(t *testing.T) {
			q := &state.Question{
				Mode: c.mode, Status: state.Pending, ClaudePID: 7, IsMessageSent: true, PostedAt: new(noon.Add(-time.Hour)),
				SubQuestions: []state.SubQuestion{{Question: "A?", Options: []state.Option{{Label: "x"}, {Label: "y"}}}},
			}
			say := func(r state.Reply) state.Verdict {
				r.Sender, r.CreatedAt = "users/1", noon
				q.Replies = append(q.Replies, r)
				last := &q.Replies[len(q.Replies)-1]
				judge.JudgeReply(&config.Config{AllowedUsers: []string{"users/1"}}, q, last, noon)
				return last.Verdict
			}
			verdict := say(state.Reply{MessageName: "m1", Text: c.text, Choice: c.choice, Inputs: c.inputs})
			if q.Status != c.status || q.Declined != c.declined || q.DeclinedText != c.said || (q.HandedOverAt != nil) != c.handed {
				t.Errorf("%s, %q with %q, handed over %v", q.Status, q.Declined, q.DeclinedText, q.HandedOverAt)
			}
			if len(q.OwedNotes) > 0 != (c.owes != "") || c.owes != "" && q.OwedNotes[0].About != c.owes {
				t.Errorf("owes %+v", q.OwedNotes)
			}
			want, then := state.VerdictUsed, state.VerdictLate
			if c.owes == state.NoteUnclear {
				// the first number that is no option is still asked back
				want, then = state.VerdictAskedHow, state.VerdictAskedBack
			}
			if next := say(state.Reply{MessageName: "m2", Text: "9"}); verdict != want || next != then {
				t.Errorf("%s, then %s", verdict, next)
			}
		})
	}
}
