package poller

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"sync"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// recentMessages are the messages that this process read in the last minutes. They save
// reads of the inbox on disk, which has them all.
type recentMessages struct {
	mu       sync.Mutex
	byID     map[string]recentMessage // by the id of the inbox record
	tidiedAt time.Time
}

type recentMessage struct {
	text   string
	isGone bool // its sender deleted it
	readAt time.Time
}

// addIncoming adds a message or a tap to the inbox, once, however often it is read. After
// an error the caller has to read it again. A message older than MaxQuestionAge is
// dropped.
func (p *Poller) addIncoming(in *state.Incoming) error {
	now := p.Now()
	if now.Sub(in.LocalCreatedAt) > state.MaxQuestionAge {
		return nil
	}
	recent := &p.recentMessages
	recent.mu.Lock()
	defer recent.mu.Unlock()
	earlierRead, isKnown := recent.byID[in.ID]
	if isKnown && (earlierRead.isGone || earlierRead.text == in.Text) {
		return nil
	}
	recent.forgetOld(now)
	in.Status, in.ReadAt = state.IncomingNew, now.UTC()
	inbox := state.InboxIn(p.userStateDir)
	stored, err := inbox.Add(in, !p.loadPersonalConfig().CanAnswer(in.Sender, in.SenderEmail))
	isEdited := err == nil && stored != nil && stored.Status == state.IncomingNew &&
		stored.Text != in.Text
	if isEdited && stored.Sender == in.Sender { // an edit counts until the message is routed
		_, err = inbox.Change(in.ID, func(stored *state.Incoming) {
			if stored.Status == state.IncomingNew {
				stored.Text, stored.IsRevoked = in.Text, in.IsRevoked
			}
		})
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	recent.byID[in.ID] = recentMessage{text: in.Text, readAt: now}
	return nil
}

// revokeIncoming finishes a message that its sender deleted before it was used.
func (p *Poller) revokeIncoming(id string) error {
	recent := &p.recentMessages
	recent.mu.Lock()
	defer recent.mu.Unlock()
	if recent.byID[id].isGone {
		return nil
	}
	inbox, now := state.InboxIn(p.userStateDir), p.Now()
	in, err := inbox.Load(id)
	if err == nil && in.Status == state.IncomingNew {
		err = inbox.Finish(in, state.OutcomeRevoked, now)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	recent.forgetOld(now)
	// The message's own event may still come. It must not add the message once more.
	recent.byID[id] = recentMessage{isGone: true, readAt: now}
	return nil
}

// reopenIncoming removes a message's tombstone if the message ended with this outcome.
// The message is then added and routed once more when it is read the next time.
func (p *Poller) reopenIncoming(id string, outcome state.Outcome) error {
	recent := &p.recentMessages
	recent.mu.Lock()
	defer recent.mu.Unlock()
	isReopened, err := state.InboxIn(p.userStateDir).RemoveTombstone(id, outcome)
	if isReopened {
		delete(recent.byID, id)
	}
	return err
}

// forgetOld drops the messages that are too old to be listed once more.
func (r *recentMessages) forgetOld(now time.Time) {
	if r.byID == nil {
		r.byID = map[string]recentMessage{}
	}
	if now.Sub(r.tidiedAt).Abs() < time.Minute {
		return
	}
	r.tidiedAt = now
	maps.DeleteFunc(r.byID, func(_ string, message recentMessage) bool {
		return now.Sub(message.readAt).Abs() > 2*listOverlap
	})
}

// newIncoming returns the inbox record of a person's message. clockLead is how far Chat's
// clock is ahead of this machine's.
func newIncoming(chat string, m gchat.Message, clockLead time.Duration) *state.Incoming {
	createdAt := m.CreateTime.Truncate(time.Millisecond).UTC() // records store milliseconds
	return &state.Incoming{
		ID:                 state.IncomingID(chat, m.Name),
		Chat:               chat,
		MessageName:        m.Name,
		ThreadName:         m.ThreadName,
		QuotedMessage:      m.QuotedMessage,
		FirstThreadMessage: m.ParentMessage(),
		Sender:             m.Sender,
		SenderEmail:        m.SenderEmail,
		DisplayName:        m.DisplayName,
		Text:               wording.Cut(m.Text, wording.MaxText),
		HasAttachment:      m.HasAttachment,
		Files:              newAttachedFiles(m.Files),
		IsRevoked:          m.IsDeleted,
		CreatedAt:          createdAt,
		LocalCreatedAt:     createdAt.Add(-clockLead),
	}
}

// newIncomingTap returns the inbox record of a tap. Its id is made from the tap's facts:
// Google may publish the same tap twice.
func newIncomingTap(chat string, event gchat.PulledEvent) *state.Incoming {
	createdAt := event.At.Truncate(time.Millisecond).UTC()
	parts := []string{
		event.Person.Name,
		event.At.UTC().Format(time.RFC3339Nano),
		event.Tap.Choice,
		fmt.Sprint(event.Tap.Inputs),
	}
	return &state.Incoming{
		ID:           state.IncomingID(chat, event.Message.Name, parts...),
		Chat:         chat,
		MessageName:  event.Message.Name,
		ThreadName:   event.Message.ThreadName,
		CardClientID: event.Message.ClientID,
		Sender:       event.Person.Name,
		SenderEmail:  event.Person.Email,
		DisplayName:  event.Person.DisplayName,
		Tap: &state.IncomingTap{
			CardID:    event.Tap.QuestionID,
			Choice:    event.Tap.Choice,
			Inputs:    event.Tap.Inputs,
			HadButton: event.Tap.IsOnCard,
		},
		EventID:        event.ID,
		CreatedAt:      createdAt,
		LocalCreatedAt: createdAt,
	}
}
