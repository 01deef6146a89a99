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
	over := !s.q.IsAnswerable()
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
			if r := &q.Replies[i]; r.Verdict == state.VerdictUnread && q.IsAnswerable() {
				r.Verdict = state.VerdictNoWaiter
				q.OweNote(state.NoteNoWaiter, r.MessageName)
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
	by := judgedBy(q, s.IndexEntry)
	return law{by, p.config(by)}
}

// forbids reports whether a sender surely may not answer a question.
func (l law) forbids(q *state.Question, sender, email string) bool {
	known := !l.cfg.HasUnreadFile && !l.cfg.IsAllowlistUnknown
	return known && !judge.MayAnswer(l.cfg, q, &state.Reply{Sender: sender, SenderEmail: email})
}

// judgedBy is the project by whose configuration replies to a question are judged: none where
// they are a power over the machine.
func judgedBy(q *state.Question, o *state.IndexEntry) configured {
	if q.Kind.Traits().IsPersonal {
		return configured{}
	}
	return configuredFor(q, o)
}

// judgeIn judges the unread replies within a write of the question, oldest first. It changes nothing where none can be judged.
func (p *Poller) judgeIn(s *served, q *state.Question, law law) {
	cfg := law.cfg
	switch {
	case law.by != judgedBy(q, s.IndexEntry): // the question has moved: the next step reads what counts
		return
	case cfg.HasUnreadFile && q.Kind.Traits().IsPersonal, len(cfg.Problems) > 0 && len(cfg.AllowedUsers) == 0:
		return // the file that says who may answer does not parse: they are judged when it does
	}
	before := q.AnsweredMessage
	var order []*state.Reply
	for i := range q.Replies {
		// While the allowlist cannot be read, judge only senders who are surely on it.
		if r := &q.Replies[i]; r.Verdict == state.VerdictUnread && (!cfg.IsAllowlistUnknown || judge.MayAnswer(cfg, q, r)) {
			order = append(order, r)
		}
	}
	if q.Kind.Traits().UsesOwnSpace && len(order) > 0 {
		judge.Tighten(cfg, q)
	}
	slices.SortStableFunc(order, func(a, b *state.Reply) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for _, r := range order {
		judge.Reply(cfg, q, r, p.Now())
		p.Log.Info().Str("question", q.QuestionID).Str("message", r.MessageName).Str("sender", r.Sender).
			Str("verdict", string(r.Verdict)).Msg("reply")
	}
	answer := q.FindReply(q.AnsweredMessage)
	fresh := answer != nil && q.AnsweredMessage != before
	if fresh && !judge.FromShell(answer) && q.FindDeliverer(p.Env, q.TmuxPane != "") == state.DelivererLater {
		q.OweNote(state.NoteLater, q.AnsweredMessage)
	}
}

// deliverer is who can bring the reply to a question to Claude; see state.Question.Deliverer.
func (p *Poller) deliverer(s *served) state.Deliverer { return s.q.FindDeliverer(p.Env, p.typable(s)) }

// waited reports whether somebody delivers an answer to the question. Again is when to ask
// once more: a hook may just be starting.
func (p *Poller) waited(s *served) (yes bool, again time.Time) {
	q, who := s.q, p.deliverer(s)
	if !q.NeedsHook(who) { // where nobody is there yet, a hook may come
		return true, again
	}
	grace := graceForReply
	if who == state.DelivererPoller {
		grace = graceForHook
	}
	if age := p.Now().Sub(q.AskedAt).Abs(); age < grace {
		return false, p.Now().Add(min(grace-age, time.Second))
	}
	return who == state.DelivererPoller, again
}

// undelivered tells the thread of an answer that was taken, whose hook was killed before it printed it, and that has no pane.
func (p *Poller) undelivered(s *served) {
	lost := func(q *state.Question) bool {
		r := q.FindReply(q.AnsweredMessage)
		return q.Status == state.Answered && !q.IsPrinted && r != nil && r.Verdict == state.VerdictUsed
	}
	if !lost(s.q) || p.deliverer(s) != state.DelivererNone {
		return
	}
	p.change(s, "thread not told", func(q *state.Question) {
		if lost(q) { // else the hook printed it just before it ended
			q.FindReply(q.AnsweredMessage).Verdict = state.VerdictNoWaiter
			q.OweNote(state.NoteNoWaiter, q.AnsweredMessage)
		}
	})
}

// keptLong is how long words are kept until their thread is told so once more.
const keptLong = 2 * time.Minute

// tellStillKept tells the thread once more, once, of words that wait for Claude for long, and what a person can do about it.
func (p *Poller) tellStillKept(s *served) {
	r := s.q.FindReply(s.q.AnsweredMessage)
	unknown := p.typable(s) && s.try.why == ""
	if s.q.HasKeptNote || unknown || spoiled(s.q) || !s.q.Kind.Traits().IsPrompt || r == nil || p.Now().Sub(r.CreatedAt) < keptLong {
		return
	}
	p.change(s, "thread not told that words are kept", func(q *state.Question) {
		if !q.HasKeptNote && q.Status == state.Answered {
			q.HasKeptNote = true
			q.OwedNotes = append(q.OwedNotes, state.OwedNote{About: state.NoteStillKept, Text: s.try.why})
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
			p.Log.ErrorOnce(fmt.Errorf("%s: %s", path, why), "reply by hand left where it is")
			continue
		}
		b, err := state.ReadPlain(path, maxReplyFile)
		if err != nil || strings.TrimSpace(string(b)) == "" { // it is being written
			continue
		}
		said := fmt.Sprintf("local/%x-%x", file.Ino, placed.UnixNano()) // the same words may be said again, in another file
		if slices.ContainsFunc(p.ofAll(), func(s *served) bool { return s.q != nil && s.q.FindReply(said) != nil }) {
			os.Remove(path) // a poller was killed before it did
			continue
		}
		p.change(s, "reply by hand not written down", func(q *state.Question) {
			q.Replies = append(q.Replies, state.Reply{
				MessageName: said, Sender: state.LocalSender, Text: string(b), CreatedAt: p.Now().UTC(),
			})
		})
		if s.q.FindReply(said) != nil {
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
	case !s.IsTrusted && !slices.ContainsFunc(p.Dirs, func(dir string) bool { return filepath.Dir(s.real) == state.RealPath(dir) }):
		return "the project's files do not count: name the file after the claude_session_id"
	}
	for s := range p.everyRecord() {
		other := s.q
		if other == nil || !other.IsAnswerable() || stateDirOf(other) != stateDirOf(q) ||
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
