package poller

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/state"
)

// A file says nothing of which question it answers, so it answers none that it cannot have been meant for.
func TestAReplyByHandAnswersWhatItWasMeantFor(t *testing.T) {
	for name, c := range map[string]struct {
		file    string
		written time.Duration // after the question was asked
		other   *state.Question
		want    bool
	}{
		"by the session's id":               {"s-orch-0", time.Minute, nil, true},
		"by its name":                       {"main", time.Minute, nil, true},
		"just before":                       {"main", -time.Second, nil, true},
		"to an earlier question":            {"s-orch-0", -10 * time.Second, nil, false},
		"of days ago, by name":              {"main", -72 * time.Hour, nil, false},
		"two of that name ask":              {"main", time.Minute, &state.Question{SessionName: "main", TmuxSession: "other"}, false},
		"two of that name ask, by id":       {"s-orch-0", time.Minute, &state.Question{SessionName: "main", TmuxSession: "other"}, true},
		"two ask in whose files that id is": {"epic4", time.Minute, &state.Question{SessionName: "main", TmuxSession: "other", ClaudeSessionID: "c-2"}, false},
		"one of them by Claude Code's id":   {"c-1", time.Minute, &state.Question{SessionName: "main", TmuxSession: "other", ClaudeSessionID: "c-2"}, true},
		"one session asks twice":            {"main", time.Minute, &state.Question{SessionName: "main", TmuxSession: "orch"}, true},
		"another name asks":                 {"main", time.Minute, &state.Question{SessionName: "side", TmuxSession: "other"}, true},
		"the other's Claude Code is gone":   {"main", time.Minute, &state.Question{SessionName: "main", TmuxSession: "other", ClaudePID: 1 << 30}, true},
		"the other question has its answer": {"main", time.Minute, &state.Question{SessionName: "main", TmuxSession: "other", Answers: map[string]string{"Which?": "Two"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			q := d.asked(state.Question{SessionName: "main", TmuxSession: "orch"})
			if o := c.other; o != nil && o.ClaudeSessionID != "" { // a launch script calls both the same
				for id, one := range map[string]*state.Question{"c-1": q, "c-2": d.asked(*o)} {
					if _, err := state.UpdateQuestion(one.Path, func(q *state.Question) error { q.SessionID, q.ClaudeSessionID = "epic4", id; return nil }); err != nil {
						t.Fatal(err)
					}
				}
				q = d.load(q)
			} else if o != nil {
				answered := len(o.Answers) > 0
				if o = d.asked(*o); strings.HasPrefix(o.SessionID, "s-orch") {
					if _, err := state.UpdateQuestion(o.Path, func(o *state.Question) error { o.SessionID = q.SessionID; return nil }); err != nil {
						t.Fatal(err)
					}
				} else if answered {
					d.answered(o)
				}
			}
			path := filepath.Join(d.dir, "shop", ".claude", "state", "user-input-queue", c.file+".txt")
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("2\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			at := q.AskedAt.Add(c.written)
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
			d.clock = noon.Add(time.Hour)
			for range 3 {
				d.takeByHand(q)
			}
			if got := len(d.load(q).Replies) == 1; got != c.want {
				t.Errorf("taken: %v, want %v", got, c.want)
			}
			if _, err := os.Stat(path); os.IsNotExist(err) != c.want {
				t.Errorf("the file: %v", err)
			}
			b, _ := os.ReadFile(filepath.Join(d.dir, ".claude", "logs", "gchat-hooks.log"))
			if n := strings.Count(string(b), "reply by hand left where it is"); (n == 1) == c.want || n > 1 {
				t.Errorf("the log says %d times that it is left", n)
			}
		})
	}
}

// A checkout can bring a link or a pipe in a reply's place, or a link in its folder's: none of them is a reply, nor waited for.
func TestReplyByHandIsAPlainFile(t *testing.T) {
	for name, plant := range map[string]func(folder, theirs string) error{
		"link":          func(folder, theirs string) error { return os.Symlink(theirs, filepath.Join(folder, "main.txt")) },
		"pipe":          func(folder, _ string) error { return syscall.Mkfifo(filepath.Join(folder, "main.txt"), 0o600) },
		"taken, a link": func(folder, theirs string) error { return os.Symlink(theirs, filepath.Join(folder, ".QUESTION.taken")) },
		"taken, a pipe": func(folder, _ string) error { return syscall.Mkfifo(filepath.Join(folder, ".QUESTION.taken"), 0o600) },
		"linked folder": func(folder, theirs string) error { os.Remove(folder); return os.Symlink(filepath.Dir(theirs), folder) },
		"larger than it": func(folder, _ string) error {
			return os.WriteFile(filepath.Join(folder, "main.txt"), make([]byte, maxByHand+1), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			q := d.asked(state.Question{SessionName: "main"})
			theirs := filepath.Join(t.TempDir(), "main.txt")
			write(t, theirs, "2\n")
			folder := filepath.Join(d.dir, "shop", ".claude", "state", "user-input-queue")
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := plant(folder, theirs); err != nil {
				t.Fatal(err)
			}
			taken := filepath.Join(folder, ".QUESTION.taken")
			_ = os.Rename(taken, strings.Replace(taken, "QUESTION", filepath.Base(q.Path), 1))
			at := q.AskedAt.Add(time.Minute)
			_ = os.Chtimes(theirs, at, at)
			d.clock = noon.Add(time.Hour)
			d.takeByHand(q)
			if n := len(d.load(q).Replies); n != 0 {
				t.Errorf("%d replies", n)
			}
			if b, _ := os.ReadFile(theirs); string(b) != "2\n" {
				t.Errorf("the person's file holds %q", b)
			}
		})
	}
}
