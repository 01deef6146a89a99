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
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// judgeUnread judges the replies in a question's file, as long as something can deliver an answer to it.
func (p *Poller) judgeUnread(s *served) (again time.Time) {
	waited, again := p.waited(s)
	over := !s.q.Answerable()
	if !again.IsZero() && !over {
		return again
	}
	waited = waited || over
	law := p.lawOf(s, s.q)
	p.change(s, "replies not judged", func(q *state.Question) {
		if waited {
			p.judgeIn(s, q, law)
			return
		}
		for i := range q.Replies {
			if r := &q.Replies[i]; r.Verdict == state.Unread && q.Answerable() {
				r.Verdict = state.Unwaited
				q.Owe(state.NoteUnwaited, r.MessageName)
			}
		}
	})
	return time.Time{}
}

// law is the configuration by which a question's replies are judged, and whose that is. It is
// read before the question's lock is taken.
type law struct {
	by  configured
	cfg *config.Config
}

func (p *Poller) lawOf(s *served, q *state.Question) law {
	by := judgedBy(q, s.Open)
	return law{by, p.config(by)}
}

// forbids reports whether a sender surely may not answer a question.
func (l law) forbids(q *state.Question, sender, email string) bool {
	known := !l.cfg.Unread && !l.cfg.AllowedUnknown
	return known && !judge.MayAnswer(l.cfg, q, &state.Reply{Sender: sender, SenderEmail: email})
}

// judgedBy is the project by whose configuration replies to a question are judged: none where
// they are a power over the machine.
func judgedBy(q *state.Question, o *state.Open) configured {
	if q.Kind.Row().Personal {
		return configured{}
	}
	return configuredFor(q, o)
}

// judgeIn judges the unread replies within a write of the question, oldest first. It changes nothing where none can be judged.
func (p *Poller) judgeIn(s *served, q *state.Question, law law) {
	cfg := law.cfg
	switch {
	case law.by != judgedBy(q, s.Open): // the question has moved: the next step reads what counts
		return
	case cfg.Unread && q.Kind.Row().Personal, len(cfg.Problems) > 0 && len(cfg.AllowedUsers) == 0:
		return // the file that says who may answer does not parse: they are judged when it does
	}
	before := q.AnsweredMessage
	var order []*state.Reply
	for i := range q.Replies {
		// While the allowlist cannot be read, judge only senders who are surely on it.
		if r := &q.Replies[i]; r.Verdict == state.Unread && (!cfg.AllowedUnknown || judge.MayAnswer(cfg, q, r)) {
			order = append(order, r)
		}
	}
	if q.Kind.Row().Own && len(order) > 0 {
		judge.Tighten(cfg, q)
	}
	slices.SortStableFunc(order, func(a, b *state.Reply) int { return a.CreateTime.Compare(b.CreateTime) })
	for _, r := range order {
		judge.Reply(cfg, q, r, p.Now())
		p.Log.Info().Str("question", q.QuestionID).Str("message", r.MessageName).Str("sender", r.Sender).
			Str("verdict", string(r.Verdict)).Msg("reply")
	}
	answer := q.Reply(q.AnsweredMessage)
	fresh := answer != nil && q.AnsweredMessage != before
	if fresh && !judge.FromShell(answer) && q.Deliverer(p.Env, q.TmuxPane != "") == state.ByLater {
		q.Owe(state.NoteLater, q.AnsweredMessage)
	}
}

// deliverer is who can bring the reply to a question to Claude; see state.Question.Deliverer.
func (p *Poller) deliverer(s *served) state.Deliverer { return s.q.Deliverer(p.Env, p.typable(s)) }

// waited reports whether somebody delivers an answer to the question. Again is when to ask
// once more: a hook may just be starting.
func (p *Poller) waited(s *served) (yes bool, again time.Time) {
	q, who := s.q, p.deliverer(s)
	if !q.NeedsHook(who) { // where nobody is there yet, a hook may come
		return true, again
	}
	grace := graceForReply
	if who == state.ByPoller {
		grace = graceForHook
	}
	if age := p.Now().Sub(q.AskedAt).Abs(); age < grace {
		return false, p.Now().Add(min(grace-age, time.Second))
	}
	return who == state.ByPoller, again
}

// undelivered tells the thread of an answer that was taken, whose hook was killed before it printed it, and that has no pane.
func (p *Poller) undelivered(s *served) {
	lost := func(q *state.Question) bool {
		r := q.Reply(q.AnsweredMessage)
		return q.Status == state.Answered && !q.Printed && r != nil && r.Verdict == state.Used
	}
	if !lost(s.q) || p.deliverer(s) != state.ByNobody {
		return
	}
	p.change(s, "thread not told", func(q *state.Question) {
		if lost(q) { // else the hook printed it just before it ended
			q.Reply(q.AnsweredMessage).Verdict = state.Unwaited
			q.Owe(state.NoteUnwaited, q.AnsweredMessage)
		}
	})
}

// keptLong is how long words are kept until their thread is told so once more.
const keptLong = 2 * time.Minute

// tellStillKept tells the thread once more, once, of words that wait for Claude for long, and what a person can do about it.
func (p *Poller) tellStillKept(s *served) {
	r := s.q.Reply(s.q.AnsweredMessage)
	unknown := p.typable(s) && s.try.why == ""
	if s.q.ToldKept || unknown || spoiled(s.q) || !s.q.Kind.Row().Prompt || r == nil || p.Now().Sub(r.CreateTime) < keptLong {
		return
	}
	p.change(s, "thread not told that words are kept", func(q *state.Question) {
		if !q.ToldKept && q.Status == state.Answered {
			q.ToldKept = true
			q.Owes = append(q.Owes, state.Owed{About: state.NoteStillKept, Seen: s.try.why})
		}
	})
}

const (
	maxReplyFile = 1 << 20                // in bytes; more than a reply has
	justBefore   = 3 * time.Second        // before its question: a file system's clock is coarse
	stillWritten = 300 * time.Millisecond // a younger file is left to be finished
)

// stateDirOf is the state folder that a question is in.
func stateDirOf(q *state.Question) string { return filepath.Dir(filepath.Dir(q.Path)) }

// takeReplyFile takes a reply that a person or a script put into the project's state, when Chat is out of reach:
// user-input-queue/{session_id}.txt, by either id, or {session name}.txt. The file goes when its reply is in the question's; one
// that is not for this question is left. It reports whether a file is too young: it may not be written to its end.
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
		if slices.ContainsFunc(p.ofAll(), func(s *served) bool { return s.q != nil && s.q.Reply(said) != nil }) {
			os.Remove(path) // a poller was killed before it did
			continue
		}
		p.change(s, "reply by hand not written down", func(q *state.Question) {
			q.Replies = append(q.Replies, state.Reply{
				MessageName: said, Sender: state.Local, Text: string(b), CreateTime: p.Now().UTC(),
			})
		})
		if s.q.Reply(said) != nil {
			os.Remove(path)
		}
		return false
	}
	return false
}

// notFor is why a reply put there by hand is not one to this question; "" when it is. One that names a session by more than
// Claude Code's own id may come from a stranger's archive: it counts where the project's files do.
func (p *Poller) notFor(s *served, name string, placed time.Time) string {
	q := s.q
	switch {
	case placed.Before(q.AskedAt.Add(-justBefore)):
		return "it is older than the question"
	case name == q.ClaudeSession():
		return ""
	case !s.Trusted && !slices.ContainsFunc(p.Dirs, func(dir string) bool { return filepath.Dir(s.real) == state.RealPath(dir) }):
		return "the project's files do not count: name the file after the claude_session_id"
	}
	for s := range p.everyRecord() {
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
