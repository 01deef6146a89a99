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

// judgeUnread judges the replies in a question's file, as long as something can deliver
// an answer to it.
func (p *Poller) judgeUnread(record *trackedRecord) (retryAt time.Time) {
	canDeliver, retryAt := p.hasDeliverer(record)
	isClosed := !record.question.IsAnswerable()
	if !retryAt.IsZero() && !isClosed {
		return retryAt
	}
	canDeliver = canDeliver || isClosed
	judging := p.judgingConfigOf(record, record.question)
	p.changeRecord(record, "replies not judged", func(q *state.Question) {
		if canDeliver {
			p.judgeReplies(record, q, judging)
			return
		}
		for i := range q.Replies {
			if reply := &q.Replies[i]; reply.Verdict == state.VerdictUnread && q.IsAnswerable() {
				reply.Verdict = state.VerdictNoWaiter
				q.OweNote(state.NoteNoWaiter, reply.MessageName)
			}
		}
	})
	return time.Time{}
}

// judgingConfig is the configuration by which a question's replies are judged, and whose
// that is. It is read before the question's lock is taken.
type judgingConfig struct {
	source configSource
	cfg    *config.Config
}

func (p *Poller) judgingConfigOf(record *trackedRecord, q *state.Question) judgingConfig {
	source := judgingSourceOf(q, record.IndexEntry)
	return judgingConfig{source, p.loadConfig(source)}
}

// forbids reports whether a sender surely may not answer a question.
func (l judgingConfig) forbids(q *state.Question, sender, email string) bool {
	isKnown := !l.cfg.HasUnreadFile && !l.cfg.IsAllowlistUnknown
	return isKnown && !judge.CanAnswer(l.cfg, q, &state.Reply{Sender: sender, SenderEmail: email})
}

// judgingSourceOf is the project by whose configuration replies to a question are judged:
// none where they are a power over the machine.
func judgingSourceOf(q *state.Question, entry *state.IndexEntry) configSource {
	if q.Kind.Traits().IsPersonal {
		return configSource{}
	}
	return configSourceOf(q, entry)
}

// judgeReplies judges the unread replies within a write of the question, oldest first. It
// changes nothing where none can be judged.
func (p *Poller) judgeReplies(record *trackedRecord, q *state.Question, judging judgingConfig) {
	cfg := judging.cfg
	switch {
	case judging.source != judgingSourceOf(q, record.IndexEntry):
		// the question has moved: the next step reads what counts
		return
	case cfg.HasUnreadFile && q.Kind.Traits().IsPersonal,
		len(cfg.Problems) > 0 && len(cfg.AllowedUsers) == 0:
		return // the file that says who may answer does not parse: they are judged when it does
	}
	earlierAnswer := q.AnsweredMessage
	var unread []*state.Reply
	for i := range q.Replies {
		// While the allowlist cannot be read, judge only senders who are surely on it.
		if reply := &q.Replies[i]; reply.Verdict == state.VerdictUnread &&
			(!cfg.IsAllowlistUnknown || judge.CanAnswer(cfg, q, reply)) {
			unread = append(unread, reply)
		}
	}
	if q.Kind.Traits().UsesOwnSpace && len(unread) > 0 {
		judge.RestrictChoices(cfg, q)
	}
	slices.SortStableFunc(
		unread,
		func(a, b *state.Reply) int { return a.CreatedAt.Compare(b.CreatedAt) },
	)
	for _, reply := range unread {
		judge.JudgeReply(cfg, q, reply, p.Now())
		p.Log.Info().
			Str("question", q.QuestionID).
			Str("message", reply.MessageName).
			Str("sender", reply.Sender).
			Str("verdict", string(reply.Verdict)).
			Msg("reply")
	}
	answer := q.FindReply(q.AnsweredMessage)
	isNew := answer != nil && q.AnsweredMessage != earlierAnswer
	if isNew && !judge.IsFromShell(answer) &&
		q.FindDeliverer(p.Env, q.TmuxPane != "") == state.DelivererLater {
		q.OweNote(state.NoteLater, q.AnsweredMessage)
	}
}

// findDeliverer is who can bring the reply to a question to Claude; see
// state.Question.Deliverer.
func (p *Poller) findDeliverer(record *trackedRecord) state.Deliverer {
	return record.question.FindDeliverer(p.Env, p.canType(record))
}

// hasDeliverer reports whether somebody delivers an answer to the question. Again is when
// to ask once more: a hook may just be starting.
func (p *Poller) hasDeliverer(record *trackedRecord) (canDeliver bool, retryAt time.Time) {
	q, deliverer := record.question, p.findDeliverer(record)
	if !q.NeedsHook(deliverer) { // where nobody is there yet, a hook may come
		return true, retryAt
	}
	grace := graceForReply
	if deliverer == state.DelivererPoller {
		grace = graceForHook
	}
	if age := p.Now().Sub(q.AskedAt).Abs(); age < grace {
		return false, p.Now().Add(min(grace-age, time.Second))
	}
	return deliverer == state.DelivererPoller, retryAt
}

// oweUndeliveredNote tells the thread of an answer that was taken, whose hook was killed
// before it printed it, and that has no pane.
func (p *Poller) oweUndeliveredNote(record *trackedRecord) {
	isLost := func(q *state.Question) bool {
		reply := q.FindReply(q.AnsweredMessage)
		return q.Status == state.Answered && !q.IsPrinted && reply != nil &&
			reply.Verdict == state.VerdictUsed
	}
	if !isLost(record.question) || p.findDeliverer(record) != state.DelivererNone {
		return
	}
	p.changeRecord(record, "thread not told", func(q *state.Question) {
		if isLost(q) { // else the hook printed it just before it ended
			q.FindReply(q.AnsweredMessage).Verdict = state.VerdictNoWaiter
			q.OweNote(state.NoteNoWaiter, q.AnsweredMessage)
		}
	})
}

// stillKeptDelay is how long words are kept until their thread is told so once more.
const stillKeptDelay = 2 * time.Minute

// oweStillKeptNote tells the thread once more, once, of words that wait for Claude for
// long, and what a person can do about it.
func (p *Poller) oweStillKeptNote(record *trackedRecord) {
	reply := record.question.FindReply(record.question.AnsweredMessage)
	isUnknown := p.canType(record) && record.tries.lastReason == ""
	if record.question.HasKeptNote || isUnknown || needsPerson(record.question) ||
		!record.question.Kind.Traits().IsPrompt ||
		reply == nil ||
		p.Now().Sub(reply.CreatedAt) < stillKeptDelay {
		return
	}
	p.changeRecord(record, "thread not told that words are kept", func(q *state.Question) {
		if !q.HasKeptNote && q.Status == state.Answered {
			q.HasKeptNote = true
			q.OwedNotes = append(
				q.OwedNotes,
				state.OwedNote{About: state.NoteStillKept, Text: record.tries.lastReason},
			)
		}
	})
}

const (
	maxReplyFile    = 1 << 20                // in bytes; more than a reply has
	fileClockSlack  = 3 * time.Second        // before its question: a file system's clock is coarse
	minReplyFileAge = 300 * time.Millisecond // a younger file is left to be finished
)

// stateDirOf is the state folder that a question is in.
func stateDirOf(q *state.Question) string { return filepath.Dir(filepath.Dir(q.Path)) }

// readReplyFile takes a reply that a person or a script put into the project's state,
// when Chat is out of reach: user-input-queue/{session_id}.txt, by either id, or {session
// name}.txt. The file goes when its reply is in the question's; one that is not for this
// question is left. It reports whether a file is too young: it may not be written to its
// end.
func (p *Poller) readReplyFile(record *trackedRecord) (isTooYoung bool) {
	q := record.question
	for _, name := range []string{q.ClaudeSession(), q.SessionID, q.SessionFileName(), q.SessionName} {
		path := filepath.Join(stateDirOf(q), "user-input-queue", name+".txt")
		var info unix.Stat_t
		if name == "" || filepath.Base(name) != name || unix.Lstat(path, &info) != nil {
			continue
		}
		// When the file came to its place. Its other time is what a stranger's archive
		// says.
		placedAt := time.Unix(info.Ctim.Unix())
		if p.Now().Sub(placedAt).Abs() < minReplyFileAge {
			return true
		}
		if why := p.whyNotReplyTo(record, name, placedAt); why != "" {
			p.Log.ErrorOnce(fmt.Errorf("%s: %s", path, why), "reply by hand left where it is")
			continue
		}
		text, err := state.ReadPlain(path, maxReplyFile)
		if err != nil || strings.TrimSpace(string(text)) == "" { // it is being written
			continue
		}
		// the same words may be said again, in another file
		messageName := fmt.Sprintf("local/%x-%x", info.Ino, placedAt.UnixNano())
		if slices.ContainsFunc(p.allOldestFirst(), func(record *trackedRecord) bool {
			return record.question != nil && record.question.FindReply(messageName) != nil
		}) {
			os.Remove(path) // a poller was killed before it did
			continue
		}
		p.changeRecord(record, "reply by hand not written down", func(q *state.Question) {
			q.Replies = append(q.Replies, state.Reply{
				MessageName: messageName, Sender: state.LocalSender, Text: string(text), CreatedAt: p.Now().UTC(),
			})
		})
		if record.question.FindReply(messageName) != nil {
			os.Remove(path)
		}
		return false
	}
	return false
}

// whyNotReplyTo is why a reply put there by hand is not one to this question; "" when it
// is. One that names a session by more than Claude Code's own id may come from a
// stranger's archive: it counts where the project's files do.
func (p *Poller) whyNotReplyTo(record *trackedRecord, name string, placedAt time.Time) string {
	q := record.question
	switch {
	case placedAt.Before(q.AskedAt.Add(-fileClockSlack)):
		return "it is older than the question"
	case name == q.ClaudeSession():
		return ""
	case !record.IsTrusted && !slices.ContainsFunc(p.QuestionDirs, func(dir string) bool { return filepath.Dir(record.realPath) == state.RealPath(dir) }):
		return "the project's files do not count: name the file after the claude_session_id"
	}
	for record := range p.allRecords() {
		other := record.question
		if other == nil || !other.IsAnswerable() || stateDirOf(other) != stateDirOf(q) ||
			other.ClaudeSession() == q.ClaudeSession() {
			continue
		}
		hasName := slices.Contains(
			[]string{other.SessionID, other.SessionFileName(), other.SessionName},
			name,
		)
		if hasName && !inject.HasEnded(other.ClaudePID, other.ClaudeStart) {
			return "another session of that name asks, too: " +
				"name the file after its claude_session_id, or use `gchat-hooks answer`"
		}
	}
	return ""
}
