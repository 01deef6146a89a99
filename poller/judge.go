package poller

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gchat-hooks/gchat"
	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// dateSlack is how far a reply may seem older than its question when the question's time is only known from the HTTP
// answer, which counts whole seconds.
const dateSlack = 2 * time.Second

// shellReply begins the names of replies that were given with gchat-hooks answer, which tells their sender what became of them.
const shellReply = "shell/"

// fromShell says whether a reply was typed at a shell.
func fromShell(r *state.Reply) bool {
	return r.Sender == state.Local && strings.HasPrefix(r.MessageName, shellReply)
}

// judgeUnread judges the replies in a question's file, as long as something can deliver an answer to it. It returns when to
// come again.
func (p *Poller) judgeUnread(s *served) (again time.Time) {
	q := s.q
	if !q.Unread() {
		return p.undelivered(s)
	}
	waited, again := p.waited(s)
	if !again.IsZero() {
		return again
	}
	if !waited && q.Answerable() {
		p.change(s, "replies not judged", func(q *state.Question) error {
			for i := range q.Replies {
				if r := &q.Replies[i]; r.Verdict == state.Unread && q.Answerable() {
					r.Verdict = state.Unwaited
					q.Owe(state.NoteUnwaited, r.MessageName)
				}
			}
			return nil
		})
		return time.Time{}
	}
	p.judgeNow(s)
	return time.Time{}
}

// judgeNow judges the unread replies, oldest first: the first good one of an allowed person becomes the answer.
func (p *Poller) judgeNow(s *served) {
	p.change(s, "replies not judged", func(q *state.Question) error {
		cfg := p.config(q.ProjectDir, s.Trusted)
		if len(cfg.Problems) > 0 && len(cfg.AllowedUsers) == 0 {
			return state.ErrUnchanged // the file that says who may answer does not parse: they are judged when it does
		}
		var order []*state.Reply
		for i := range q.Replies {
			// While the allowlist cannot be read, judge only senders who are surely on it.
			if r := &q.Replies[i]; r.Verdict == state.Unread && (!cfg.AllowedUnknown || allowed(cfg, r)) {
				order = append(order, r)
			}
		}
		if len(order) == 0 {
			return state.ErrUnchanged
		}
		slices.SortStableFunc(order, func(a, b *state.Reply) int { return a.CreateTime.Compare(b.CreateTime) })
		for _, r := range order {
			judge(cfg, q, r, p.now())
			p.Log.Info().Str("question", q.QuestionID).Str("message", r.MessageName).Str("sender", r.Sender).
				Str("verdict", string(r.Verdict)).Msg("reply")
		}
		answer := q.Reply(q.AnsweredMessage)
		if answer != nil && !fromShell(answer) && q.Mode == state.Deny && !state.HasWaiter(p.Env, q.Path) {
			q.Owe(state.NoteLater, q.AnsweredMessage)
		}
		return nil
	})
}

// waited says whether something delivers an answer to the question: a process that waits, the poller by typing it, or, in deny
// mode, a later hook. Again is when to ask once more: a hook may just be starting.
func (p *Poller) waited(s *served) (yes bool, again time.Time) {
	q := s.q
	if q.Mode != state.Native && q.Mode != state.Hold || state.HasWaiter(p.Env, s.Path) {
		return true, again
	}
	grace := graceForReply
	if p.typable(s) {
		grace = graceForHook
	}
	if age := p.now().Sub(q.AskedAt).Abs(); age < grace {
		return false, p.now().Add(min(grace-age, time.Second))
	}
	return p.typable(s), again
}

// undelivered tells the thread of an answer that was claimed and can not be delivered: the waiting hook was killed before it
// printed the answer, and there is no pane to type it into.
func (p *Poller) undelivered(s *served) (again time.Time) {
	q := s.q
	if q.Status != state.Answered || q.Printed || q.Mode == state.Deny || q.Mode == state.Thread || p.typable(s) {
		return time.Time{}
	}
	r := q.Reply(q.AnsweredMessage)
	if r == nil || r.Verdict != state.Used || state.HasWaiter(p.Env, s.Path) {
		return time.Time{}
	}
	if p.change(s, "thread not told", func(q *state.Question) error {
		r := q.Reply(q.AnsweredMessage)
		if q.Status != state.Answered || q.Printed || r == nil || r.Verdict != state.Used {
			return state.ErrUnchanged // the hook printed it just before it ended
		}
		r.Verdict = state.Unwaited
		q.Owe(state.NoteUnwaited, r.MessageName)
		return nil
	}) {
		p.Log.Warn().Str("question", q.QuestionID).Msg("no process delivers the answer")
	}
	return time.Time{}
}

// judge decides about one reply, and notes what the thread is owed for it. A reply from the shell is answered there.
func judge(cfg *config.Config, q *state.Question, r *state.Reply, now time.Time) {
	text := gchat.CleanReply(r.Text)
	owe := func(about string) {
		if !fromShell(r) {
			q.Owe(about, r.MessageName)
		}
	}
	switch {
	case r.Sender != state.Local && q.PostedAt != nil && r.CreateTime.Before(q.PostedAt.Add(-dateSlack)):
		r.Verdict = state.Ignored
		return
	case !allowed(cfg, r):
		if r.Verdict = state.Ignored; strings.TrimSpace(text) == "" || q.Mode == state.Thread {
			return
		}
		if !refusedBefore(q, r) {
			owed := state.Owed{About: state.NoteRefused, Reply: r.MessageName}
			if len(cfg.AllowedUsers) == 0 {
				owed.Seen = gchat.NobodyAllowed
			}
			q.Owes = append(q.Owes, owed)
		}
		r.Verdict = state.Refused
		return
	case !q.Answerable():
		r.Verdict = state.Late
		owe(state.NoteLate)
		return
	case strings.TrimSpace(text) == "":
		if r.Verdict = state.Ignored; r.Sender != state.Local {
			owe(state.NoteNoText)
		}
		return
	case q.Mode == state.Thread:
		claim(q, r, text, nil, now)
		return
	}
	answers, missing, none := gchat.ParseReply(text, q.Questions, q.Partial)
	switch {
	case none != nil && !askedBack(q):
		r.Verdict = state.AskedBack
		owe(state.NoteNoOption)
	case len(missing) > 0:
		r.Verdict, q.Partial = state.Kept, answers
		q.Owe(state.NoteKept, r.MessageName) // also of one from the shell: the thread shows what is still missing
	default:
		claim(q, r, text, answers, now)
	}
}

// refusedBefore says whether the thread was told already that this sender may not answer.
func refusedBefore(q *state.Question, r *state.Reply) bool {
	return slices.ContainsFunc(q.Replies, func(other state.Reply) bool {
		return other.Sender == r.Sender && other.Verdict == state.Refused
	})
}

// askedBack says whether a reply with a number that no option has was asked back. It happens once for a question: a second
// such number is taken as the person's own words.
func askedBack(q *state.Question) bool {
	return slices.ContainsFunc(q.Replies, func(r state.Reply) bool { return r.Verdict == state.AskedBack })
}

// claim makes a reply the question's answer. Answers are keyed by the raw question text.
func claim(q *state.Question, r *state.Reply, text string, answers map[int]state.Answer, now time.Time) {
	if q.Move(state.Answered, now) != nil {
		r.Verdict = state.Late
		return
	}
	r.Verdict = state.Used
	q.Answers, q.Notes, q.Partial = map[string]string{}, nil, nil
	for i, prompt := range q.Questions {
		a := answers[i]
		q.Answers[prompt.Question] = a.Value()
		if a.Notes != "" {
			if q.Notes == nil {
				q.Notes = map[string]string{}
			}
			q.Notes[prompt.Question] = a.Notes
		}
	}
	kind := gchat.ResponseType(q.Questions, answers)
	q.Response, q.ResponseType = &text, &kind
	q.AnsweredBy, q.AnsweredByName, q.AnsweredMessage = r.Sender, r.DisplayName, r.MessageName
}

// allowed decides who may answer: the senders that the project's configuration names, and, since only the session's owner can
// write into the state folder, a reply that was put there. Chat's API cannot say Local: gchat.Message has no sender that is not
// users/ID. It fails closed: without names, no sender may.
func allowed(cfg *config.Config, r *state.Reply) bool {
	return r.Sender == state.Local || Named(cfg.AllowedUsers, r.Sender, r.SenderEmail)
}

// Named says whether an allowlist names a sender of Chat's: by users/ID, or by e-mail where Chat gives one.
func Named(users []string, sender, email string) bool {
	for _, u := range users {
		id := strings.TrimPrefix(u, "users/")
		if before, after, address := strings.Cut(id, "@"); address {
			if before != "" && after != "" && lowerASCII(id) == lowerASCII(email) {
				return true
			}
		} else if id != "" && id != u && u == sender {
			return true
		}
	}
	return false
}

// lowerASCII folds A to Z only: strings.EqualFold takes the Kelvin sign for a K, and another person may have that address.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

const (
	// maxByHand is more than a reply has, in bytes.
	maxByHand = 1 << 20
	// justBefore is how long before its question a reply by hand may have been written: a script may be a little faster, and a
	// file system's clock is coarse.
	justBefore = 3 * time.Second
	// aheadByHand is how far in the future a reply by hand may seem to be written: a file system's clock may be another machine's.
	aheadByHand = 5 * time.Second
	// stillWritten is how young a reply put there by hand may be when it is left to be finished.
	stillWritten = 300 * time.Millisecond
)

// byHandFolder is where a person or a script can put a reply when Chat is out of reach: PROJECT_STATE/user-input-queue.
func byHandFolder(q *state.Question) string { return filepath.Join(stateDirOf(q), "user-input-queue") }

// stateDirOf is the state folder that a question is in.
func stateDirOf(q *state.Question) string { return filepath.Dir(filepath.Dir(q.Path)) }

// takeByHand takes a reply from user-input-queue/{session_id}.txt or {session name}.txt. The id may also be Claude Code's own,
// or as the question's file has it in its name. The file is renamed before it is read, and goes when the reply is in the
// question's file.
//
// A file that was there before the question was asked was meant for another one, and so may one be that only names a session
// where two are called so and ask: they are left, which the log says once. So is what a stranger's archive may have brought: a
// file from the future, and, where the project's files do not count, one that only names a session. It reports whether a file is too young: it may not be
// written to its end.
func (p *Poller) takeByHand(s *served) (soon bool) {
	q, folder := s.q, byHandFolder(s.q)
	if info, err := os.Lstat(folder); err != nil || !info.IsDir() {
		return false
	}
	mine := filepath.Join(folder, "."+filepath.Base(q.Path)+".taken")
	b, err := state.ReadPlain(mine, maxByHand) // of a poller that was killed
	for _, name := range []string{q.ClaudeSession(), q.SessionID, q.SessionFileName(), q.SessionName} {
		if err == nil || name == "" || filepath.Base(name) != name {
			continue
		}
		path := filepath.Join(folder, name+".txt")
		info, serr := os.Lstat(path)
		if serr != nil {
			continue
		}
		if time.Since(info.ModTime()).Abs() < stillWritten {
			return true
		}
		if why := p.notFor(s, name, path, info.ModTime()); why != "" {
			p.logOnce(fmt.Errorf("%s: %s", path, why), "reply by hand left where it is")
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
	var file unix.Stat_t
	if unix.Lstat(mine, &file) != nil {
		return false
	}
	// The same words may be said again, in another file.
	sum := sha256.Sum256(fmt.Append(b, file.Ino, file.Mtim))
	name := "local/" + hex.EncodeToString(sum[:8])
	p.change(s, "reply by hand not written down", func(q *state.Question) error {
		if q.Reply(name) != nil {
			return state.ErrUnchanged
		}
		q.Replies = append(q.Replies, state.Reply{
			MessageName: name, Sender: state.Local, Text: string(b), CreateTime: p.now().UTC(),
		})
		return nil
	})
	if s.q.Reply(name) != nil {
		os.Remove(mine)
	}
	return false
}

// placed is when a file came to its place, and now at the latest. Programs that unpack an archive set its other time.
func placed(path string, now time.Time) time.Time {
	var file unix.Stat_t
	if unix.Lstat(path, &file) != nil {
		return now
	}
	if at := time.Unix(file.Ctim.Unix()); at.Before(now) {
		return at
	}
	return now
}

// notFor is why a reply put there by hand is not one to this question; "" when it is.
func (p *Poller) notFor(s *served, name, path string, written time.Time) string {
	q := s.q
	switch {
	case written.Before(q.AskedAt.Add(-justBefore)):
		return "it is older than the question"
	case written.After(placed(path, p.now()).Add(aheadByHand)):
		return "its time was set into the future"
	case name == q.ClaudeSession():
		return ""
	case !s.Trusted && !slices.Contains(p.Dirs, filepath.Dir(q.Path)): // a person named those folders
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
