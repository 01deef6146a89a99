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

// applyGrant answers what a session asks, where a hook waits, by the yes for a while that
// was given to this permission.
func (p *Poller) applyGrant(record *trackedRecord) (next time.Time) {
	granting := record.question
	isAllRead := p.isAllRead(granting) // what was heard before this stands in the records
	records := p.reloadSessionRecords(granting)
	if record.question == nil { // its file is gone
		return next
	}
	isOver := p.isGrantOver(record, records)
	isAllRead = isAllRead &&
		!slices.ContainsFunc(
			records,
			func(other *trackedRecord) bool { return other.question.HasUnreadReply() },
		)
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

// isAllRead says whether all is read and done that people said in a question's space and
// to its session.
func (p *Poller) isAllRead(q *state.Question) bool {
	reader := p.readers[q.Chat]
	if !p.isReadSince(q.Chat, p.awakeSince) || reader.hasFailed.Load() {
		return false
	}
	session, err := state.SessionsIn(p.userStateDir).Get(q.ClaudeSession())
	isUnfinished := func(in *state.Incoming) bool { return !in.IsWaitingPrompt() && in.ResolvedBy == "" }
	if err != nil || slices.ContainsFunc(p.routedBySession[session.ID], isUnfinished) ||
		len(session.OldCommands) > 0 {
		return false
	}
	// A no or /ask in its threads counts also where another environment decides what it
	// is.
	return !slices.ContainsFunc(p.incoming, func(in *state.Incoming) bool {
		isInThread := in.ThreadName == session.ThreadName || in.ThreadName == q.ThreadName
		return in.Status == state.IncomingNew && in.Chat == q.Chat && isInThread
	})
}

// reloadSessionRecords are the records of a question's session, the oldest first, as they
// stand now.
func (p *Poller) reloadSessionRecords(q *state.Question) []*trackedRecord {
	return slices.DeleteFunc(p.ownOldestFirst(), func(record *trackedRecord) bool {
		if record.question == nil || record.question.ClaudeSession() != q.ClaudeSession() {
			return true
		}
		p.loadQuestion(record)
		return record.question == nil
	})
}

// isGrantOver says whether a yes for a while has ended for good, also by this process's
// own clock, which no one sets back.
func (p *Poller) isGrantOver(record *trackedRecord, records []*trackedRecord) bool {
	now, granting := p.Now(), record.question
	session, err := state.SessionsIn(p.userStateDir).Get(granting.ClaudeSession())
	if err != nil {
		return true
	}
	if record.grantEndsAt.IsZero() {
		record.grantEndsAt = now.Add(granting.Grant.EndsAt.Sub(now))
	}
	isCleared := slices.ContainsFunc(
		p.sessions,
		func(other *state.Session) bool { return other.Supersedes(session) },
	)
	hasDenial := slices.ContainsFunc(
		records,
		func(other *trackedRecord) bool { return !other.question.LastDenialAt.Before(granting.Grant.GrantedAt) },
	)
	return isCleared || hasDenial || !now.Before(record.grantEndsAt) ||
		judge.IsGrantOver(p.loadPersonalConfig(), granting, session, now)
}

// allowedByGrant are the permissions that the yes for a while allowed that was given to
// this one, where the terminal was not faster.
func allowedByGrant(
	granting *state.Question,
	records []*trackedRecord,
) (allowed []*state.Question) {
	for _, record := range records {
		isByGrant := record.question.Grant != nil &&
			record.question.Grant.QuestionID == granting.QuestionID &&
			record.question.QuestionID != granting.QuestionID
		if isByGrant &&
			(record.question.Status == state.Answered || record.question.ResolvedBy == "chat") {
			allowed = append(allowed, record.question)
		}
	}
	return allowed
}

// enqueueGrantNote has the thread told what a yes for a while allowed. Where the yes was
// said to a card, the message that says until when is changed, too. Another one cannot
// be: all is listed when the yes is over.
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
	message.ID, message.Type = state.MessageID(
		"granted",
		q.QuestionID,
		fmt.Sprint(len(allowed), isOver),
	), state.MessageNote
	message.Parts = []string{wording.GrantText(q, allowed, isOver)}
	if hasCard {
		// see enqueueNote
		firstNoteID := state.MessageID(
			"note",
			q.QuestionID,
			state.NoteGranted,
			q.AnsweredMessage,
			"",
		)
		message.PatchedMessage = gchat.MessageName(q.Space, firstNoteID)
	}
	if err := p.isNew(message); err != nil {
		p.Log.ErrorOnce(err, "note not put into the outbox")
		return p.Now().Add(time.Second)
	}
	record.notedGrantUses = len(allowed)
	if isOver {
		p.changeRecord(
			record,
			"end of a yes for a while not written down",
			func(q *state.Question) { q.Grant.IsEnded = true },
		)
	}
	return p.Now().Add(time.Second)
}
