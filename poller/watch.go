package poller

import (
	"context"
	"path"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/poller/commands"
	"gchat-hooks/state"
)

// watchInterval is the shortest time between two changes of the message that shows what
// a watched session does, and between two looks at the session.
const watchInterval = 10 * time.Second

// whyNoWatch says why a session's thread cannot show what Claude does, or "".
func (p *Poller) whyNoWatch(ctx context.Context, session *state.Session) string {
	if gchat.IsLocalChat(session.Chat) {
		return "the page shows what Claude does above the reply box, while the thread is open"
	}
	gateway := p.gatewayFor(ctx, configSource{session.ProjectDir, session.IsTrusted})
	switch {
	case gateway.err != nil:
		return p.Log.Redact(gateway.err.Error())
	case !gateway.transport.DrawsCards():
		return "a webhook cannot change a message that it posted; a Chat app can"
	}
	return ""
}

// attendWatch keeps the message up to date that shows in a session's thread what Claude
// does. There is one for each turn. It is changed in place, and at the turn's end to a
// line that says so. attendWatch returns when to look again, or zero.
func (p *Poller) attendWatch(session *state.Session) (next time.Time) {
	watch := session.Watch
	if watch == nil {
		delete(p.watchedAt, session.ID)
		return time.Time{}
	}
	now := p.Now()
	lookedAt, hasLooked := p.watchedAt[session.ID]
	if age := now.Sub(lookedAt); hasLooked && age >= 0 && age < watchInterval {
		return lookedAt.Add(watchInterval)
	}
	if p.watchedAt == nil {
		p.watchedAt = map[string]time.Time{}
	}
	p.watchedAt[session.ID] = now
	isOver := watch.IsOver || !commands.AcceptsInput(session, now)
	isWorking, _ := inject.IsWorking(session)
	turn, _ := inject.ReadTurn(p.transcriptPath(session), inject.ProgressBytes)
	isOtherTurn := turn.StartedAt.After(watch.TurnSince) && !watch.TurnSince.IsZero()
	isTurnOver := isOver || !isWorking || isOtherTurn
	switch {
	case watch.MessageName != "" && watch.PostedAt.IsZero():
		p.awaitWatchPost(session, turn, isTurnOver)
	case watch.MessageName != "":
		p.followTurn(session, turn, isTurnOver)
	case isOver:
		p.saveWatch(session, nil)
	case isWorking:
		p.beginTurnMessage(session, turn)
	}
	return now.Add(watchInterval)
}

// beginTurnMessage begins the message of a turn. The message's name is recorded before
// the message is enqueued: so a turn has one message, even after kill -9.
func (p *Poller) beginTurnMessage(session *state.Session, turn inject.Turn) {
	now := p.Now().UTC()
	_, space, _ := strings.Cut(session.Chat, "/")
	id := state.MachineMessageID("watch", session.ID, now.Format(time.RFC3339Nano))
	watch := *session.Watch
	watch.TurnSince, watch.MessageName = now, gchat.MessageName(space, id)
	if p.saveWatch(session, &watch) {
		p.enqueueWatchPost(session, id, turn)
	}
}

// enqueueWatchPost enqueues the message of a turn, once.
func (p *Poller) enqueueWatchPost(session *state.Session, id string, turn inject.Turn) {
	message := p.newWatchMessage(session, p.commandRunner().WatchText(session, turn))
	message.ID = id
	message.ThreadName, message.ThreadKey = session.ThreadName, state.SessionThreadKey(session.ID)
	p.Log.ErrorOnce(p.enqueue(message), "message of a watched session not enqueued")
}

func (p *Poller) newWatchMessage(session *state.Session, text string) *state.Message {
	return &state.Message{
		Type:       state.MessageNote,
		IsWatch:    true,
		Parts:      []string{text},
		ProjectDir: session.ProjectDir,
		IsTrusted:  session.IsTrusted,
		SessionID:  session.ID,
		Chat:       session.Chat,
		CreatedAt:  p.Now().UTC(),
	}
}

// awaitWatchPost waits until the message of a turn is in the thread, and then has it
// changed. If a poller was killed before it enqueued the message, awaitWatchPost does it.
// The watch ends if Chat refused the message.
func (p *Poller) awaitWatchPost(session *state.Session, turn inject.Turn, isTurnOver bool) {
	id := path.Base(session.Watch.MessageName)
	post, err := state.OutboxIn(p.userStateDir).FindByKey(id)
	switch {
	case err != nil:
		p.Log.ErrorOnce(err, "message of a watched session not read")
	case post == nil && isTurnOver:
		p.forgetTurnMessage(session)
	case post == nil:
		p.enqueueWatchPost(session, id, turn)
	case post.SetAsideReason != "":
		p.saveWatch(session, nil)
	case post.IsFinal():
		posted, watch := *session, *session.Watch
		watch.PostedAt, posted.Watch = post.SentAt, &watch
		if p.saveWatch(session, &watch) {
			p.followTurn(&posted, turn, isTurnOver)
		}
	}
}

// followTurn has the message of a turn changed if Claude does something else than it
// shows. While an earlier change waits, because Chat wants fewer requests, there is no
// other one: the next one shows what Claude does then.
func (p *Poller) followTurn(session *state.Session, turn inject.Turn, isTurnOver bool) {
	text := wording.WatchOverText
	if !isTurnOver {
		text = p.commandRunner().WatchText(session, turn)
	}
	key := watchChangeKey(session.Watch.MessageName)
	change, err := state.OutboxIn(p.userStateDir).FindByKey(key)
	if err != nil {
		p.Log.ErrorOnce(err, "change of a watched session's message not read")
		return
	}
	changedAt := session.Watch.PostedAt
	if change != nil {
		changedAt = change.SentAt
	}
	switch {
	case change != nil && !change.IsFinal():
		return
	case change != nil && change.SetAsideReason != "":
		p.saveWatch(session, nil) // Chat refuses the changes
		return
	case change != nil && change.Parts[0] == text:
	case p.Now().Sub(changedAt).Abs() < watchInterval:
		return
	default:
		err = p.enqueueWatchChange(session, change, text)
		p.Log.ErrorOnce(err, "change of a watched session's message not enqueued")
	}
	if isTurnOver && err == nil {
		p.forgetTurnMessage(session)
	}
}

// watchChangeKey is the key of the changes of a turn's message. All of them have one
// record in the outbox, which is used again.
func watchChangeKey(messageName string) string { return "change-" + path.Base(messageName) }

// enqueueWatchChange has the message of a turn changed. last is the change before, or
// nil.
func (p *Poller) enqueueWatchChange(
	session *state.Session,
	last *state.Message,
	text string,
) error {
	message := p.newWatchMessage(session, text)
	message.Key = watchChangeKey(session.Watch.MessageName)
	message.ID, message.PatchedMessage = message.Key, session.Watch.MessageName
	if last == nil {
		return p.enqueue(message)
	}
	_, err := state.OutboxIn(p.userStateDir).Change(last.Path, func(m *state.Message) {
		m.Parts, m.PartsSent, m.CreatedAt = message.Parts, 0, message.CreatedAt
		m.SentAt, m.EndedAt, m.FirstTriedAt = time.Time{}, time.Time{}, time.Time{}
	})
	return err
}

// forgetTurnMessage forgets the message of a turn that is over. The next turn gets a
// message of its own.
func (p *Poller) forgetTurnMessage(session *state.Session) {
	p.saveWatch(session, &state.Watch{IsOver: session.Watch.IsOver})
}

// saveWatch saves what is known of a watched session, and reports whether it did. A
// person may have ended the watch meanwhile.
func (p *Poller) saveWatch(session *state.Session, watch *state.Watch) bool {
	_, err := state.SessionsIn(p.userStateDir).Change(session.ID, func(s *state.Session) {
		isOver := s.Watch != nil && s.Watch.IsOver
		s.Watch = watch
		if watch != nil && isOver {
			ending := *watch
			ending.IsOver = true
			s.Watch = &ending
		}
	})
	p.Log.ErrorOnce(err, "watch of a session not saved")
	return err == nil
}
