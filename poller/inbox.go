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

// arrivals is what this process read lately. It spares looks at the disk, which knows it all.
type arrivals struct {
	mu     sync.Mutex
	read   map[string]arrival // by id
	tidied time.Time
}

type arrival struct {
	text   string
	isGone bool // its sender took it back
	at     time.Time
}

// take writes down what a person did, once, wherever and however often it is read. With an
// error it has to be read again.
func (p *Poller) take(in *state.Incoming) error {
	now := p.Now()
	if now.Sub(in.LocalCreatedAt) > state.MaxQuestionAge {
		return nil
	}
	a := &p.arrivals
	a.mu.Lock()
	defer a.mu.Unlock()
	was, isKnown := a.read[in.ID]
	if isKnown && (was.isGone || was.text == in.Text) {
		return nil
	}
	a.tidy(now)
	in.Status, in.ReadAt = state.IncomingNew, now.UTC()
	inbox := state.InboxIn(p.user)
	is, err := inbox.Add(in, !p.personal().CanAnswer(in.Sender, in.SenderEmail))
	isEdited := err == nil && is != nil && is.Status == state.IncomingNew && is.Text != in.Text
	if isEdited && is.Sender == in.Sender { // an edit counts until it is decided what it is
		_, err = inbox.Change(in.ID, func(is *state.Incoming) {
			if is.Status == state.IncomingNew {
				is.Text, is.IsRevoked = in.Text, in.IsRevoked
			}
		})
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	a.read[in.ID] = arrival{text: in.Text, at: now}
	return nil
}

// takeBack has what a person wrote, and deleted before it was used, count no more.
func (p *Poller) takeBack(id string) error {
	a := &p.arrivals
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.read[id].isGone {
		return nil
	}
	inbox, now := state.InboxIn(p.user), p.Now()
	in, err := inbox.Load(id)
	if err == nil && in.Status == state.IncomingNew {
		err = inbox.Finish(in, state.OutcomeRevoked, now)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	a.tidy(now)
	a.read[id] = arrival{isGone: true, at: now} // its event may come after this
	return nil
}

// forgetDone has a message be decided once more, where this became of it.
func (p *Poller) forgetDone(id string, outcome state.Outcome) error {
	a := &p.arrivals
	a.mu.Lock()
	defer a.mu.Unlock()
	wasSo, err := state.InboxIn(p.user).RemoveTombstone(id, outcome)
	if wasSo {
		delete(a.read, id)
	}
	return err
}

// tidy forgets what no list brings again.
func (a *arrivals) tidy(now time.Time) {
	if a.read == nil {
		a.read = map[string]arrival{}
	}
	if now.Sub(a.tidied).Abs() < time.Minute {
		return
	}
	a.tidied = now
	maps.DeleteFunc(a.read, func(_ string, r arrival) bool { return now.Sub(r.at).Abs() > 2*overlap })
}

// incomingOf is a message of a person as the inbox has it. ahead is how far Chat's clock is
// ahead of ours.
func incomingOf(chat string, m gchat.Message, ahead time.Duration) *state.Incoming {
	at := m.CreateTime.Truncate(time.Millisecond).UTC() // as files have it
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
		CreatedAt:          at,
		LocalCreatedAt:     at.Add(-ahead),
	}
}

// incomingOfTap is a tap as the inbox has it. The same tap may be published twice.
func incomingOfTap(chat string, e gchat.Pulled) *state.Incoming {
	at := e.At.Truncate(time.Millisecond).UTC()
	parts := []string{e.By.Name, e.At.UTC().Format(time.RFC3339Nano), e.Tap.Choice, fmt.Sprint(e.Tap.Inputs)}
	return &state.Incoming{
		ID:           state.IncomingID(chat, e.Message.Name, parts...),
		Chat:         chat,
		MessageName:  e.Message.Name,
		ThreadName:   e.Message.ThreadName,
		CardClientID: e.Message.ClientID,
		Sender:       e.By.Name,
		SenderEmail:  e.By.Email,
		DisplayName:  e.By.DisplayName,
		Tap: &state.IncomingTap{
			CardID: e.Tap.Question, Choice: e.Tap.Choice, Inputs: e.Tap.Inputs, HadButton: e.Tap.Stands,
		},
		EventID:        e.ID,
		CreatedAt:      at,
		LocalCreatedAt: at,
	}
}
