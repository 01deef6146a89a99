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

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// Each reply gets its verdict once, in the order in which the replies were written. The
// notes that the thread is owed are in the same write.
func TestReplies_JudgedOnce(t *testing.T) {
	d := newTestMachine(t)
	q := d.addPosted(func(q *state.Question) { q.Mode = state.ModeDeny })
	reply := func(name, sender, text string, after time.Duration) state.Reply {
		return state.Reply{
			MessageName: name, Sender: sender, Text: text, CreatedAt: q.AskedAt.Add(after),
		}
	}
	d.changeQuestion(q, func(q *state.Question) {
		q.Replies = []state.Reply{ // in the order of arrival, not of writing
			reply("m5", "users/1", "One", 6*time.Second), reply("m4", "users/1", "2",
				5*time.Second), reply("m3", "users/1", " ", 3*time.Second),
			reply("m2", "users/2", "1", 2*time.Second), reply("m2b", "users/2", "1", 3*time.Second),
			reply("m7", "users/2", "", 0),
			reply("m0", "users/1", "1", -time.Minute), reply("m3b", "users/1", "7", 4*time.Second),
		}
	})
	p, record := d.readFirst()
	for range 2 { // judging a second time changes nothing
		p.judgeUnread(record)
		after := d.loadQuestion(q)
		want := map[string]state.Verdict{
			"m7": state.VerdictIgnored, "m0": state.VerdictIgnored, "m2": state.VerdictRefused,
			"m2b": state.VerdictRefused, "m3": state.VerdictIgnored,
			"m3b": state.VerdictAskedBack,
			"m4":  state.VerdictUsed, "m5": state.VerdictLate,
		}
		for name, v := range want {
			kit.Equalf(t, after.FindReply(name).Verdict, v, "%s", name)
		}
		kit.True(t, after.Status == state.Answered && after.Answers["Which?"] == "Two" &&
			after.AnsweredMessage == "m4",
			"%s %v by %s", after.Status, after.Answers, after.AnsweredMessage)
		owed := []state.OwedNote{
			{About: state.NoteRefused, ReplyMessage: "m2"}, {About: state.NoteNoText,
				ReplyMessage: "m3"}, {About: state.NoteUnclear, ReplyMessage: "m3b"},
			{About: state.NoteLate, ReplyMessage: "m5"}, {
				About: state.NoteLater, ReplyMessage: "m4",
			},
		}
		kit.True(t, slices.Equal(after.OwedNotes, owed), "owes %+v", after.OwedNotes)
	}
}

// Who can deliver an answer decides whether a reply is judged, waits for a hook, or
// gets a note that only the terminal answers.
func TestReplies_WithoutWaitingHook(t *testing.T) {
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
			q := d.addPosted(func(q *state.Question) {
				q.Mode, q.TmuxPane, q.TmuxSocket = state.ModeNative, c.pane, "/nowhere"
			})
			d.changeQuestion(q, func(q *state.Question) {
				q.AskedAt = time.Now().Add(-c.age)
				q.Replies = []state.Reply{
					{MessageName: "m", Sender: "users/1", Text: "2", CreatedAt: time.Now()},
				}
			})
			if c.waiter {
				d.startWaiter(q)
			}
			p := d.newReadyPoller()
			p.judgeUnread(p.ownOldestFirst()[0])
			stored := d.loadQuestion(q)
			kit.Equal(t, stored.Replies[0].Verdict, c.want)
			kit.Equalf(t,
				len(stored.OwedNotes) == 1 && stored.OwedNotes[0].About == state.NoteNoWaiter,
				(c.want == state.VerdictNoWaiter), "owes %+v", stored.OwedNotes)
		})
	}
}

// A hook was killed before it delivered the answer: a note says that only the terminal
// can answer.
func TestReplies_KilledHookGetsNote(t *testing.T) {
	d := newTestMachine(t)
	q := d.addPosted(func(q *state.Question) { q.Mode = state.ModeNative })
	l := d.startWaiter(q)
	d.changeQuestion(q, func(q *state.Question) {
		q.Replies = []state.Reply{
			{MessageName: "m", Sender: "users/1", Text: "2", CreatedAt: time.Now()},
		}
	})
	p := d.newPoller()
	p.readAndAttend(t.Context())
	stored := d.loadQuestion(q)
	kit.True(t, stored.Status == state.Answered && len(stored.OwedNotes) == 0,
		"%s, owes %+v", stored.Status, stored.OwedNotes)
	l.Unlock()
	p.readAndAttend(t.Context())
	p.readAndAttend(t.Context())
	stored = d.loadQuestion(q)
	kit.True(t, stored.Status == state.Answered &&
		stored.Replies[0].Verdict == state.VerdictNoWaiter &&
		slices.Equal(d.noteKinds(q), []string{state.NoteNoWaiter}),
		"%s, %+v, notes %q", stored.Status, stored.Replies, d.noteKinds(q))
}

// While somebody edits the file that says who may answer, the login's own person may
// answer. Replies of others wait for the file.
func TestReplies_HalfWrittenConfiguration(t *testing.T) {
	d := newTestMachine(t)
	delete(d.vars, "GCHAT_ALLOWED_USERS")
	config, login :=
		filepath.Join(d.dir, ".config", "gchat-hooks", "config.json"), config.LoginFile(d.env)
	write := func(path, content string) {
		t.Helper()
		kit.WriteFile(t, path, content, 0o600)
	}
	write(login, `{"type":"authorized_user","client_id":"x","client_secret":"y","refresh_token":"z",
		"token_uri":"https://127.0.0.1:1/","scopes":[],"made_by":"gchat-hooks login",
		"logged_in_at":"2026-11-22T00:00:00Z","user":"users/1"}`)
	write(config, `{"allowed_users":["users/2"],`)
	q := d.addPosted(func(q *state.Question) { q.Mode = state.ModeDeny })
	d.changeQuestion(q, func(q *state.Question) {
		for _, who := range []string{"users/3", "users/1"} {
			q.Replies = append(q.Replies, state.Reply{
				MessageName: who, Sender: who, Text: "2", CreatedAt: time.Now(),
			})
		}
	})
	p := d.newReadyPoller()
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
	after, err := os.Stat(q.Path)
	kit.True(t, err == nil && os.SameFile(before, after),
		"the file is rewritten though nothing is new: %v", err)
	write(config, `{"allowed_users":["users/2"]}`)
	verdicts(state.VerdictRefused, state.VerdictUsed)
}

// A reply file does not name its question, so it answers no question that it cannot be
// meant for.
func TestReplyFile_AnswersItsQuestion(t *testing.T) {
	main := func(q *state.Question) { q.SessionName = "main" }
	for name, c := range map[string]struct {
		file    string
		written time.Duration // after the question was asked
		other   func(*state.Question)
		want    bool
	}{
		"not trusted":                 {"main", time.Minute, nil, false},
		"not trusted, by id":          {"s-1", time.Minute, nil, true},
		"not trusted, but its folder": {"main", time.Minute, nil, true},
		"by the session's id":         {"s-1", time.Minute, nil, true},
		"by its name":                 {"main", time.Minute, nil, true},
		"just before":                 {"main", -time.Second, nil, true},
		"to an earlier question":      {"s-1", -10 * time.Second, nil, false},
		"two of that name ask":        {"main", time.Minute, main, false},
		"two of that name ask, by id": {"s-1", time.Minute, main, true},
		"one session asks twice": {
			"main", time.Minute,
			func(q *state.Question) { q.SessionName, q.SessionID = "main", "s-1" }, true,
		},
		"another name asks": {
			"main", time.Minute, func(q *state.Question) { q.SessionName = "side" }, true,
		},
		"the other's Claude Code is gone": {
			"main", time.Minute,
			func(q *state.Question) { q.SessionName, q.ClaudePID = "main", 1<<30 }, true,
		},
		"the other has its answer": {"main", time.Minute, func(q *state.Question) {
			q.SessionName, q.Status, q.Answers = "main", state.Answered, map[string]string{
				"Which?": "Two",
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestMachine(t)
			if !strings.HasPrefix(name, "not trusted") {
				d.vars["CLAUDE_PROJECT_DIR"] = filepath.Join(d.dir, "shop")
			}
			q := d.addQuestion(func(q *state.Question) {
				main(q)
				q.AskedAt = time.Now().Add(-c.written)
			})
			if c.other != nil {
				d.addQuestion(c.other)
			}
			path := filepath.Join(stateDirOf(q), "user-input-queue", c.file+".txt")
			kit.WriteFile(t, path, "2\n", 0o600)
			future := time.Now().Add(time.Hour) // an archive can set such a modification time
			kit.NoError(t, os.Chtimes(path, future, future))
			p := d.newPoller()
			// it is written to its end
			p.Now = shifted(time.Second)
			if name == "not trusted, but its folder" {
				p.QuestionDirs = []string{filepath.Dir(q.Path)}
			}
			p.readIndex()
			for range 3 {
				p.readReplyFile(p.ownOldestFirst()[0])
			}
			kit.Equalf(t, len(d.loadQuestion(q).Replies) == 1, c.want, "taken")
			_, err := os.Stat(path)
			kit.True(t, os.IsNotExist(err) == c.want, "the file: %v", err)
			n := len(d.logLines("reply file not used"))
			kit.True(t, (n == 1) != c.want && n <= 1,
				"the log says %d times that it is not used", n)
		})
	}
}

// Two questions of one call may get the same reply text, one after the other.
func TestReplyFile_SameTextTwice(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(func(q *state.Question) {
		q.AskedAt = time.Now().Add(-time.Hour)
		q.SubQuestions = append(q.SubQuestions, state.SubQuestion{
			Question: "And?", Options: q.SubQuestions[0].Options, OptionCount: 2,
		})
	})
	p := d.newPoller()
	p.Now = shifted(time.Second) // each is written to its end
	for range 2 {
		path := filepath.Join(filepath.Join(stateDirOf(q), "user-input-queue"), q.SessionID+".txt")
		kit.WriteFile(t, path, "1\n", 0o600)
		p.readAndAttend(t.Context())
	}
	stored := d.loadQuestion(q)
	kit.True(t, stored.Status == state.Answered,
		"it is %s, with %d replies", stored.Status, len(stored.Replies))
}

// Another reply may be put there while the poller uses the first one. It stays.
func TestReplyFile_NextOneStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.txt")
	for name, write := range map[string]func(){
		"another file": func() {
			kit.NoError(t, os.Rename(path, path+".old"))
			kit.WriteFile(t, path, "2", 0o600)
		},
		"the same file": func() { kit.WriteFile(t, path, "22", 0o600) },
	} {
		kit.WriteFile(t, path, "1", 0o600)
		var seen unix.Stat_t
		kit.NoError(t, unix.Lstat(path, &seen))
		bound.Until(t, "the next reply has another time", func() bool {
			var now unix.Stat_t
			write()
			kit.NoError(t, unix.Lstat(path, &now))
			return now.Ctim != seen.Ctim
		})
		removeReplyFile(path, seen)
		_, err := os.Lstat(path)
		kit.True(t, err == nil, "%s: it is removed: %v", name, err)
		kit.NoError(t, unix.Lstat(path, &seen))
		removeReplyFile(path, seen)
		_, err = os.Lstat(path)
		kit.True(t, os.IsNotExist(err), "%s: the one that was read stays: %v", name, err)
	}
}

// A poller was killed after it wrote a reply file into a question and before it removed
// the file. The file answers no other question.
func TestReplyFile_AnswersOneQuestion(t *testing.T) {
	d := newTestMachine(t)
	asked := func(q *state.Question) { q.SessionID, q.ClaudeSessionID = "s", "s" }
	one, two := d.addQuestion(asked), d.addQuestion(asked)
	path := filepath.Join(filepath.Join(stateDirOf(one), "user-input-queue"), "s.txt")
	kit.WriteFile(t, path, "1\n", 0o600)
	var file unix.Stat_t
	kit.NoError(t, unix.Lstat(path, &file))
	d.changeQuestion(one, func(q *state.Question) {
		name := fmt.Sprintf("local/%x-%x", file.Ino, time.Unix(file.Ctim.Unix()).UnixNano())
		q.Replies = []state.Reply{
			{
				MessageName: name, Sender: state.LocalSender, Text: "1\n",
				CreatedAt: time.Now().UTC(),
			},
		}
	})
	d.closeQuestion(one, state.Resolved, "terminal")
	p := d.newPoller()
	p.Now = shifted(time.Second) // it is written to its end
	p.readAndAttend(t.Context())
	p.readAndAttend(t.Context())
	stored := d.loadQuestion(two)
	kit.True(t, len(stored.Replies) == 0, "the other question has %+v", stored.Replies)
	_, err := os.Stat(path)
	kit.True(t, os.IsNotExist(err), "the file stays: %v", err)
}

// A checkout can contain a link or a pipe in place of a reply file, or a link in place
// of its folder. The poller neither reads them as replies nor waits for them.
func TestReplyFile_MustBePlainFile(t *testing.T) {
	for name, plant := range map[string]func(folder, theirs string) error{
		"link": func(folder, theirs string) error {
			return os.Symlink(theirs, filepath.Join(folder, "main.txt"))
		},
		"pipe": func(folder, _ string) error {
			return syscall.Mkfifo(filepath.Join(folder, "main.txt"), 0o600)
		},
		"linked folder": func(folder, theirs string) error {
			os.Remove(folder)
			return os.Symlink(filepath.Dir(theirs), folder)
		},
		"too large": func(folder, _ string) error {
			return os.WriteFile(filepath.Join(folder, "main.txt"), make([]byte, maxReplyFile+1),
				0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestMachine(t)
			q := d.addQuestion(func(q *state.Question) {
				q.SessionName, q.AskedAt = "main", time.Now().Add(-time.Hour)
			})
			theirs := filepath.Join(t.TempDir(), "main.txt")
			folder := filepath.Join(stateDirOf(q), "user-input-queue")
			kit.NoError(t, os.WriteFile(theirs, []byte("2\n"), 0o600))
			kit.NoError(t, os.MkdirAll(folder, 0o700))
			kit.NoError(t, plant(folder, theirs))
			p := d.newPoller()
			// it is written to its end
			p.Now = shifted(time.Second)
			p.readIndex()
			p.readReplyFile(p.ownOldestFirst()[0])
			kit.Equalf(t, len(d.loadQuestion(q).Replies), 0, "replies")
			kit.Equalf(t, kit.ReadFile(t, theirs), "2\n", "the person's file")
		})
	}
}

// In deny mode, a message after an answer that was delivered gets a note that it came too
// late, and no other note.
func TestReplies_BehindDeliveredAnswer(t *testing.T) {
	d := newTestMachine(t)
	now := time.Now().UTC()
	q := d.addPosted(func(q *state.Question) {
		q.Mode, q.Status, q.ResolvedAt, q.ResolvedBy, q.DeliveredAt =
			state.ModeDeny, state.Resolved, &now, "chat", &now
		q.AnsweredMessage, q.AnsweredBy, q.Answers = "m1", space.PersonName, map[string]string{
			"Which?": "Two",
		}
		q.Replies = []state.Reply{
			{
				MessageName: "m1", Sender: q.AnsweredBy, Text: "2", CreatedAt: now,
				Verdict: state.VerdictUsed,
			},
			{MessageName: "m2", Sender: q.AnsweredBy, Text: "thanks, and tidy up", CreatedAt: now},
		}
	})
	p := d.newReadyPoller()
	for _, record := range p.ownRecords {
		p.judgeUnread(record)
	}
	q = d.loadQuestion(q)
	kit.True(t,
		slices.Equal(q.OwedNotes, []state.OwedNote{{About: state.NoteLate, ReplyMessage: "m2"}}),
		"owed are %+v", q.OwedNotes)
}
