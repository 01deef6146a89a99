package poller

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

const (
	// maxReplyFile is more than a reply has, in bytes.
	maxReplyFile = 1 << 20
	// justBefore is how long before its question a reply by hand may have been written: a script may be a little faster, and a
	// file system's clock is coarse.
	justBefore = 3 * time.Second
	// stillWritten is how young a reply put there by hand may be when it is left to be finished.
	stillWritten = 300 * time.Millisecond
)

// stateDirOf is the state folder that a question is in.
func stateDirOf(q *state.Question) string { return filepath.Dir(filepath.Dir(q.Path)) }

// takeReplyFile takes a reply that a person or a script put there, when Chat is out of reach: from the project's state,
// user-input-queue/{session_id}.txt or {session name}.txt. The id may also be Claude Code's own,
// or as the question's file has it in its name. The file goes when the reply is in the question's file. One that is not for this
// question is left, which the log says once. It reports whether a file is too young: it may not be written to its end.
func (p *Poller) takeReplyFile(s *served) (soon bool) {
	q := s.q
	for _, name := range []string{q.ClaudeSession(), q.SessionID, q.SessionFileName(), q.SessionName} {
		path := filepath.Join(stateDirOf(q), "user-input-queue", name+".txt")
		var file unix.Stat_t
		if name == "" || filepath.Base(name) != name || unix.Lstat(path, &file) != nil {
			continue
		}
		// When the file came to its place. Its other time is what a stranger's archive says.
		placed := time.Unix(file.Ctim.Unix())
		if p.Now().Sub(placed).Abs() < stillWritten {
			return true
		}
		if why := p.notFor(s, name, placed); why != "" {
			p.Log.Once(fmt.Errorf("%s: %s", path, why), "reply by hand left where it is")
			continue
		}
		b, err := state.ReadPlain(path, maxReplyFile)
		if err != nil || strings.TrimSpace(string(b)) == "" { // it is being written
			continue
		}
		said := fmt.Sprintf("local/%x-%x", file.Ino, placed.UnixNano()) // the same words may be said again, in another file
		if slices.ContainsFunc(p.inOrder(), func(s *served) bool { return s.q != nil && s.q.Reply(said) != nil }) {
			os.Remove(path) // a poller was killed before it did
			continue
		}
		p.change(s, "reply by hand not written down", func(q *state.Question) error {
			q.Replies = append(q.Replies, state.Reply{
				MessageName: said, Sender: state.Local, Text: string(b), CreateTime: p.Now().UTC(),
			})
			return nil
		})
		if s.q.Reply(said) != nil {
			os.Remove(path)
		}
		return false
	}
	return false
}

// notFor is why a reply put there by hand is not one to this question; "" when it is. A file that was there before the question
// was asked was meant for another one, and so may one be that names two sessions which ask. One that names a session by more than
// Claude Code's own id may come from a stranger's archive: it counts where the project's files do.
func (p *Poller) notFor(s *served, name string, placed time.Time) string {
	q := s.q
	switch {
	case placed.Before(q.AskedAt.Add(-justBefore)):
		return "it is older than the question"
	case name == q.ClaudeSession():
		return ""
	case !s.Trusted && !slices.ContainsFunc(p.Dirs, s.in): // a person named those folders
		return "the project's files do not count: name the file after the claude_session_id"
	}
	for _, s := range p.index {
		other := s.q
		if other == nil || !other.Answerable() || stateDirOf(other) != stateDirOf(q) ||
			other.ClaudeSession() == q.ClaudeSession() {
			continue
		}
		called := slices.Contains([]string{other.SessionID, other.SessionFileName(), other.SessionName}, name)
		if called && !inject.Ended(other.ClaudePID, other.ClaudeStart) {
			return "another session of that name asks, too: " +
				"name the file after its claude_session_id, or use `gchat-hooks answer`"
		}
	}
	return ""
}
