package poller

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
)

// applyGrant uses the yes for a while that answered this permission. It answers what
// the same session asks, where a hook waits for the answer.
func (p *Poller) applyGrant(record *trackedRecord) (next time.Time) {
	granting := record.question
	// Check this before the records are reloaded: they then hold all that was read
	// until here.
	isAllRead := p.isAllRead(granting)
	records := p.reloadSessionRecords(granting)
	if record.question == nil { // its file does not exist
		return next
	}
	isOver := p.isGrantOver(record, records)
	isAllRead = isAllRead && !slices.ContainsFunc(records, func(other *trackedRecord) bool {
		return other.question.HasUnreadReply()
	})
	for _, other := range records {
		isAsking := !isOver && other.question.Kind == state.KindPermission &&
			other.question.Status == state.Pending
		other.isWaitingForGrant = isAsking && !isAllRead
		if isAsking && isAllRead && state.HasWaiter(p.Env, other.Path) {
			cfg := p.loadPersonalConfig()
			q, err := state.UpdateQuestion(other.Path, func(q *state.Question) error {
				return judge.AnswerByGrant(cfg, q, granting, p.Now())
			})
			if err == nil {
				other.question = q
			} else if !errors.Is(err, judge.ErrNotCovered) {
				p.Log.ErrorOnce(err, "yes for a while not used")
			}
		}
	}
	return p.enqueueGrantNote(record, allowedByGrant(granting, records), isOver)
}

// isAllRead reports whether the poller has read and handled all that people wrote in a
// question's space and to its session.
func (p *Poller) isAllRead(q *state.Question) bool {
	if !p.isReadUpTo(q.Chat, p.awakeSince) || p.readers[q.Chat].hasFailed.Load() {
		return false
	}
	session, err := state.SessionsIn(p.userStateDir).Get(q.ClaudeSession())
	isUnfinished := func(in *state.Incoming) bool {
		return !in.IsWaitingPrompt() && in.ResolvedBy == ""
	}
	if err != nil || slices.ContainsFunc(p.routedBySession[session.ID], isUnfinished) ||
		len(session.OldCommands) > 0 {
		return false
	}
	// A no or /ask in the session's threads counts even if another environment routes
	// it.
	return !slices.ContainsFunc(p.incoming, func(in *state.Incoming) bool {
		isInThread := in.ThreadName == session.ThreadName || in.ThreadName == q.ThreadName
		return in.Status == state.IncomingNew && in.Chat == q.Chat && isInThread
	})
}

// reloadSessionRecords reloads the records of a question's session and returns them,
// the oldest first.
func (p *Poller) reloadSessionRecords(q *state.Question) []*trackedRecord {
	return slices.DeleteFunc(p.ownOldestFirst(), func(record *trackedRecord) bool {
		if record.question == nil || record.question.ClaudeSession() != q.ClaudeSession() {
			return true
		}
		p.loadQuestion(record)
		return record.question == nil
	})
}

// isGrantOver reports whether a yes for a while has ended for good. Its end by this
// process's own clock counts, too: nobody sets that clock back.
func (p *Poller) isGrantOver(record *trackedRecord, records []*trackedRecord) bool {
	now, granting := p.Now(), record.question
	session, err := state.SessionsIn(p.userStateDir).Get(granting.ClaudeSession())
	if err != nil {
		return true
	}
	if record.grantEndsAt.IsZero() {
		record.grantEndsAt = now.Add(granting.Grant.EndsAt.Sub(now))
	}
	isCleared := slices.ContainsFunc(p.sessions, func(other *state.Session) bool {
		return other.Supersedes(session)
	})
	hasDenial := slices.ContainsFunc(records, func(other *trackedRecord) bool {
		return !other.question.LastDenialAt.Before(granting.Grant.GrantedAt)
	})
	return isCleared || hasDenial || !now.Before(record.grantEndsAt) ||
		judge.IsGrantOver(p.loadPersonalConfig(), granting, session, now)
}

// allowedByGrant returns the permissions that were allowed by the yes for a while in
// granting, without those that the terminal answered first.
func allowedByGrant(
	granting *state.Question,
	records []*trackedRecord,
) (allowed []*state.Question) {
	for _, record := range records {
		q := record.question
		isByGrant := q.Grant != nil && q.Grant.QuestionID == granting.QuestionID &&
			q.QuestionID != granting.QuestionID
		if isByGrant && (q.Status == state.Answered || q.ResolvedBy == "chat") {
			allowed = append(allowed, q)
		}
	}
	return allowed
}

// enqueueGrantNote has the thread informed what a yes for a while allowed. If the
// question has a card, each use changes the note that says until when the yes lasts.
// Without a card that note cannot be changed: a note lists all uses when the yes is
// over.
func (p *Poller) enqueueGrantNote(
	record *trackedRecord,
	allowed []*state.Question,
	isOver bool,
) (next time.Time) {
	q, cfg := record.question, p.loadPersonalConfig()
	if !cfg.AccessToQuestion(q).CanShow {
		allowed = nil
	}
	hasCard := q.CardMessage != ""
	if !isOver && (!hasCard || len(allowed) == record.notedGrantUses) {
		return q.Grant.EndsAt
	}
	message := p.newQuestionMessage(q, record.IndexEntry)
	version := fmt.Sprint(len(allowed), isOver)
	message.ID, message.Type = state.MessageID("granted", q.QuestionID, version), state.MessageNote
	message.Parts = []string{wording.GrantText(q, allowed, isOver)}
	if hasCard {
		firstNote := state.OwedNote{About: state.NoteGranted, ReplyMessage: q.AnsweredMessage}
		message.PatchedMessage = gchat.MessageName(q.Space, noteMessageID(q, firstNote))
	}
	if err := p.enqueue(message); err != nil {
		p.Log.ErrorOnce(err, "note not enqueued")
		return p.Now().Add(time.Second)
	}
	record.notedGrantUses = len(allowed)
	if isOver {
		p.changeRecord(record, "end of a yes for a while not saved", func(q *state.Question) {
			q.Grant.IsEnded = true
		})
	}
	return p.Now().Add(time.Second)
}
