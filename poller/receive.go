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

// recentMessages is what this process read lately. It spares looks at the disk, which
// knows it all.
type recentMessages struct {
	mu       sync.Mutex
	byID     map[string]recentMessage // by id
	tidiedAt time.Time
}

type recentMessage struct {
	text   string
	isGone bool // its sender took it back
	readAt time.Time
}

// addIncoming writes down what a person did, once, wherever and however often it is read.
// With an error it has to be read again.
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
	if isEdited && stored.Sender == in.Sender { // an edit counts until it is decided what it is
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

// revokeIncoming has what a person wrote, and deleted before it was used, count no more.
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
	recent.byID[id] = recentMessage{isGone: true, readAt: now} // its event may come after this
	return nil
}

// reopenIncoming has a message be decided once more, where this became of it.
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

// forgetOld forgets what no list brings again.
func (a *recentMessages) forgetOld(now time.Time) {
	if a.byID == nil {
		a.byID = map[string]recentMessage{}
	}
	if now.Sub(a.tidiedAt).Abs() < time.Minute {
		return
	}
	a.tidiedAt = now
	maps.DeleteFunc(
		a.byID,
		func(_ string, r recentMessage) bool { return now.Sub(r.readAt).Abs() > 2*listOverlap },
	)
}

// newIncoming is a message of a person as the inbox has it. ahead is how far Chat's clock
// is ahead of ours.
func newIncoming(chat string, m gchat.Message, clockLead time.Duration) *state.Incoming {
	createdAt := m.CreateTime.Truncate(time.Millisecond).UTC() // as files have it
	return &state.Incoming{
		ID:                 state.IncomingID(chat, m.Name),
		Chat:               chat,
		MessageName:        m.Name,
		ThreadName:         m.ThreadName,
		QuotedMessage:      m.Quotes,
		FirstThreadMessage: m.Follows(),
		Sender:             m.Sender,
		SenderEmail:        m.SenderEmail,
		DisplayName:        m.DisplayName,
		Text:               wording.Cut(m.Text, wording.MaxText),
		HasAttachment:      m.Attached,
		IsRevoked:          m.Deleted,
		CreatedAt:          createdAt,
		LocalCreatedAt:     createdAt.Add(-clockLead),
	}
}

// newIncomingTap is a tap as the inbox has it. The same tap may be published twice.
func newIncomingTap(chat string, event gchat.Pulled) *state.Incoming {
	createdAt := event.At.Truncate(time.Millisecond).UTC()
	parts := []string{
		event.By.Name,
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
		Sender:       event.By.Name,
		SenderEmail:  event.By.Email,
		DisplayName:  event.By.DisplayName,
		Tap: &state.IncomingTap{
			CardID: event.Tap.Question, Choice: event.Tap.Choice, Inputs: event.Tap.Inputs, HadButton: event.Tap.Stands,
		},
		EventID:        event.ID,
		CreatedAt:      createdAt,
		LocalCreatedAt: createdAt,
	}
}
