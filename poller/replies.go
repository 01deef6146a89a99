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

// judgeUnread judges the unread replies in a question's file if something can deliver
// an answer. If nothing can, each reply gets a note that no process waits for it. A
// retryAt that is not zero says when to look again.
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
			reply := &q.Replies[i]
			if reply.Verdict == state.VerdictUnread && q.IsAnswerable() {
				reply.Verdict = state.VerdictNoWaiter
				q.OweNote(state.NoteNoWaiter, reply.MessageName)
			}
		}
	})
	return time.Time{}
}

// judgingConfig is the configuration by which a question's replies are judged, and
// where it comes from. It is read before the question is locked.
type judgingConfig struct {
	source configSource
	cfg    *config.Config
}

func (p *Poller) judgingConfigOf(record *trackedRecord, q *state.Question) judgingConfig {
	source := judgingSourceOf(q, record.IndexEntry)
	return judgingConfig{source, p.loadConfig(source)}
}

// forbids reports whether a sender certainly must not answer a question.
func (j judgingConfig) forbids(q *state.Question, sender, email string) bool {
	isKnown := !j.cfg.HasUnreadFile && !j.cfg.IsAllowlistUnknown
	return isKnown && !judge.CanAnswer(j.cfg, q, &state.Reply{Sender: sender, SenderEmail: email})
}

// judgingSourceOf returns the project whose configuration judges the replies to a
// question. It names no project for a question whose answer is a power over the
// machine: only the person's own configuration counts there.
func judgingSourceOf(q *state.Question, entry *state.IndexEntry) configSource {
	if q.Kind.Traits().IsPersonal {
		return configSource{}
	}
	return configSourceOf(q, entry)
}

// judgeReplies judges the unread replies, oldest first, inside a write of the question.
// It changes nothing if none can be judged.
func (p *Poller) judgeReplies(record *trackedRecord, q *state.Question, judging judgingConfig) {
	cfg := judging.cfg
	switch {
	case judging.source != judgingSourceOf(q, record.IndexEntry):
		// The question has another project than when the configuration was read. The
		// next step reads the right one.
		return
	case cfg.HasUnreadFile && q.Kind.Traits().IsPersonal,
		len(cfg.Problems) > 0 && len(cfg.AllowedUsers) == 0:
		// The file that says who may answer does not parse. Replies wait until it does.
		return
	}
	earlierAnswer := q.AnsweredMessage
	var unread []*state.Reply
	for i := range q.Replies {
		reply := &q.Replies[i]
		// While the allowlist cannot be read, judge only senders who are certainly on it.
		canJudge := !cfg.IsAllowlistUnknown || judge.CanAnswer(cfg, q, reply)
		if reply.Verdict == state.VerdictUnread && canJudge {
			unread = append(unread, reply)
		}
	}
	if q.Kind.Traits().UsesOwnSpace && len(unread) > 0 {
		judge.RestrictChoices(cfg, q)
	}
	slices.SortStableFunc(unread, func(a, b *state.Reply) int {
		return a.CreatedAt.Compare(b.CreatedAt)
	})
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
	if !isNew || judge.IsFromShell(answer) {
		return
	}
	if q.FindDeliverer(p.Env, q.TmuxPane != "") == state.DelivererLater {
		q.OweNote(state.NoteLater, q.AnsweredMessage)
	}
}

// findDeliverer returns who can deliver the answer to the question; see
// state.Deliverer.
func (p *Poller) findDeliverer(record *trackedRecord) state.Deliverer {
	return record.question.FindDeliverer(p.Env, p.canType(record))
}

// hasDeliverer reports whether somebody can deliver an answer to the question. A
// retryAt that is not zero says when to ask again: a hook may just be starting.
func (p *Poller) hasDeliverer(record *trackedRecord) (canDeliver bool, retryAt time.Time) {
	q, deliverer := record.question, p.findDeliverer(record)
	if !q.NeedsHook(deliverer) { // a later process delivers it, if none waits yet
		return true, retryAt
	}
	// The poller waits for a hook first, and then delivers the answer itself.
	grace := graceForReply
	if deliverer == state.DelivererPoller {
		grace = graceForHook
	}
	if age := p.Now().Sub(q.AskedAt).Abs(); age < grace {
		return false, p.Now().Add(min(grace-age, time.Second))
	}
	return deliverer == state.DelivererPoller, retryAt
}

// oweUndeliveredNote has the thread informed of an answer that no process can deliver:
// its hook was killed before it printed the answer, and there is no pane to type into.
func (p *Poller) oweUndeliveredNote(record *trackedRecord) {
	isLost := func(q *state.Question) bool {
		reply := q.FindReply(q.AnsweredMessage)
		return q.Status == state.Answered && !q.IsPrinted && reply != nil &&
			reply.Verdict == state.VerdictUsed
	}
	if !isLost(record.question) || p.findDeliverer(record) != state.DelivererNone {
		return
	}
	p.changeRecord(record, "note of a lost answer not saved", func(q *state.Question) {
		if isLost(q) { // else the hook printed it just before it ended
			q.FindReply(q.AnsweredMessage).Verdict = state.VerdictNoWaiter
			q.OweNote(state.NoteNoWaiter, q.AnsweredMessage)
		}
	})
}

// stillKeptDelay is how long a prompt is kept before a note says so a second time.
const stillKeptDelay = 2 * time.Minute

// oweStillKeptNote has the thread informed, once, that an answer has waited long for
// Claude, and what a person can do about it.
func (p *Poller) oweStillKeptNote(record *trackedRecord) {
	q := record.question
	reply := q.FindReply(q.AnsweredMessage)
	isReasonUnknown := p.canType(record) && record.tries.lastReason == ""
	if q.HasKeptNote || isReasonUnknown || needsPerson(q) || !q.Kind.Traits().IsPrompt {
		return
	}
	if reply == nil || p.Now().Sub(reply.CreatedAt) < stillKeptDelay {
		return
	}
	owed := state.OwedNote{About: state.NoteStillKept, Text: record.tries.lastReason}
	p.changeRecord(record, "note of a kept prompt not saved", func(q *state.Question) {
		if !q.HasKeptNote && q.Status == state.Answered {
			q.HasKeptNote = true
			q.OwedNotes = append(q.OwedNotes, owed)
		}
	})
}

const (
	maxReplyFile = 1 << 20 // in bytes; no reply is so long
	// A file may seem this much older than its question: a file system's clock is
	// coarse.
	fileClockSlack  = 3 * time.Second
	minReplyFileAge = 300 * time.Millisecond // a younger file may still be being written
)

// stateDirOf returns the state folder that holds a question.
func stateDirOf(q *state.Question) string { return filepath.Dir(filepath.Dir(q.Path)) }

// readReplyFile reads a reply that a person or a script put into the project's state
// while Chat is out of reach. The file is user-input-queue/{session_id}.txt, with
// either session id, or {session name}.txt. The poller removes the file once the
// question's record has the reply. It leaves a file that is not for this question.
// isTooYoung reports that a file may not be complete yet.
func (p *Poller) readReplyFile(record *trackedRecord) (isTooYoung bool) {
	q := record.question
	names := []string{q.ClaudeSession(), q.SessionID, q.SessionFileName(), q.SessionName}
	for _, name := range names {
		path := filepath.Join(stateDirOf(q), "user-input-queue", name+".txt")
		var info unix.Stat_t
		if name == "" || filepath.Base(name) != name || unix.Lstat(path, &info) != nil {
			continue
		}
		// The change time says when the file was put there. The modification time may
		// come from a stranger's archive.
		placedAt := time.Unix(info.Ctim.Unix())
		if p.Now().Sub(placedAt).Abs() < minReplyFileAge {
			return true
		}
		if why := p.whyNotReplyTo(record, name, placedAt); why != "" {
			p.Log.ErrorOnce(fmt.Errorf("%s: %s", path, why), "reply file not used")
			continue
		}
		text, err := state.ReadPlain(path, maxReplyFile)
		if err != nil || strings.TrimSpace(string(text)) == "" { // the file is being written
			continue
		}
		// Another file with the same text is another reply.
		messageName := fmt.Sprintf("local/%x-%x", info.Ino, placedAt.UnixNano())
		hasReply := func(record *trackedRecord) bool {
			return record.question != nil && record.question.FindReply(messageName) != nil
		}
		if slices.ContainsFunc(p.allOldestFirst(), hasReply) {
			removeReplyFile(path, info) // a poller was killed before it removed the file
			continue
		}
		reply := state.Reply{
			MessageName: messageName,
			Sender:      state.LocalSender,
			Text:        string(text),
			CreatedAt:   p.Now().UTC(),
		}
		p.changeRecord(record, "reply file not saved", func(q *state.Question) {
			q.Replies = append(q.Replies, reply)
		})
		if record.question.FindReply(messageName) != nil {
			removeReplyFile(path, info)
		}
		return false
	}
	return false
}

// removeReplyFile removes a reply file that was used, unless another reply was put there
// since: seen is the file before it was read.
func removeReplyFile(path string, seen unix.Stat_t) {
	var info unix.Stat_t
	if unix.Lstat(path, &info) == nil && info.Ino == seen.Ino && info.Ctim == seen.Ctim {
		os.Remove(path)
	}
}

// whyNotReplyTo returns why a reply file is not for this question, or "" if it is. A
// file that is named after anything but Claude Code's own id may come from a stranger's
// archive: it counts only where the project's files do.
func (p *Poller) whyNotReplyTo(record *trackedRecord, name string, placedAt time.Time) string {
	q := record.question
	isFolderOf := func(dir string) bool {
		return filepath.Dir(record.realPath) == state.RealPath(dir)
	}
	switch {
	case placedAt.Before(q.AskedAt.Add(-fileClockSlack)):
		return "the file is older than the question"
	case name == q.ClaudeSession():
		return ""
	case !record.IsTrusted && !slices.ContainsFunc(p.QuestionDirs, isFolderOf):
		return "this project's files are not trusted: name the file after the claude_session_id"
	}
	for record := range p.allRecords() {
		other := record.question
		if other == nil || !other.IsAnswerable() || stateDirOf(other) != stateDirOf(q) ||
			other.ClaudeSession() == q.ClaudeSession() {
			continue
		}
		otherNames := []string{other.SessionID, other.SessionFileName(), other.SessionName}
		hasName := slices.Contains(otherNames, name)
		if hasName && !inject.HasEnded(other.ClaudePID, other.ClaudeStart) {
			return "another session with this name has an open question: " +
				"name the file after the claude_session_id, or use `gchat-hooks answer`"
		}
	}
	return ""
}
