package poller

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gchat-hooks/state"
)

// takeByHand takes a reply from user-input-queue/{session_id}.txt or {session name}.txt, where a person or a script can
// put one when Chat is out of reach. The id may also be Claude Code's own, or as the question's file has it in its name.
// Renaming the file decides which of several waiters has it; it goes when the reply is in the question's file.
//
// A file that was there before the question was asked was meant for another one, and so may one be that only names a session
// where two are called so and ask: they are left, which the log says once.
//
// It reports whether one is there that is too young: it may not be written to its end.
func (p *Poller) takeByHand(q *state.Question) (soon bool) {
	folder := filepath.Join(stateDirOf(q), "user-input-queue")
	mine := filepath.Join(folder, "."+filepath.Base(q.Path)+".taken")
	b, err := state.ReadPlain(mine, maxByHand) // of an earlier waiter of this question, that was killed
	for _, name := range []string{q.ClaudeSession(), q.SessionID, q.SessionFileName(), q.SessionName} {
		if err == nil || name == "" || filepath.Base(name) != name {
			continue
		}
		path := filepath.Join(folder, name+".txt")
		info, serr := os.Lstat(path)
		if serr != nil {
			continue
		}
		if p.now().Sub(info.ModTime()).Abs() < stillWritten {
			return true
		}
		if why := p.notFor(q, name, info.ModTime()); why != "" {
			if _, said := p.passedOver.LoadOrStore(q.Path+name+info.ModTime().String(), true); !said {
				p.Log.Warn().Str("question", q.QuestionID).Str("file", path).Str("why", why).Msg("reply by hand left where it is")
			}
			continue
		}
		if b, err = state.ReadPlain(path, maxByHand); err == nil && strings.TrimSpace(string(b)) == "" {
			err = os.ErrNotExist // it is being written
		}
		if err == nil {
			err = os.Rename(path, mine)
		}
	}
	if err != nil {
		return false
	}
	sum := sha256.Sum256(b)
	name := "local/" + hex.EncodeToString(sum[:8])
	if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		if q.Reply(name) != nil {
			return state.ErrUnchanged
		}
		q.Replies = append(q.Replies, state.Reply{MessageName: name, Sender: Local, Text: string(b), CreateTime: p.now().UTC()})
		return nil
	}); err == nil {
		os.Remove(mine)
	}
	return false
}

// notFor is why a reply put there by hand is not one to this question; "" when it is.
func (p *Poller) notFor(q *state.Question, name string, written time.Time) string {
	if written.Before(q.AskedAt.Add(-justBefore)) {
		return "it is older than the question"
	}
	if name == q.ClaudeSession() {
		return ""
	}
	qs, _ := (&state.Scan{LeaveAlone: true}).Questions([]string{stateDirOf(q)})
	for _, other := range qs {
		called := slices.Contains([]string{other.SessionID, other.SessionFileName(), other.SessionName}, name)
		if called && other.ClaudeSession() != q.ClaudeSession() && other.Answerable() &&
			p.now().Sub(other.AskedAt) < state.MaxAge && !Gone(other) {
			return "another session of that name asks, too: " +
				"name the file after its claude_session_id, or use `gchat-hooks answer`"
		}
	}
	return ""
}

// maxByHand is more than a reply has, in bytes.
const maxByHand = 1 << 20

// justBefore is how long before its question a reply by hand may have been written: a script may be a little faster, and a
// file system's clock is coarse.
const justBefore = 3 * time.Second

// stillWritten is how young a reply put there by hand may be when it is left to be finished.
const stillWritten = 300 * time.Millisecond
