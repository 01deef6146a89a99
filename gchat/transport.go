package gchat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// This file holds the differences between the transports. It implements the poller's
// interface transport for a webhook and for a Chat app. A Chat app behind a team's hub is
// an App whose Hub is set.

// ListedWebhook is a webhook that posts, in a space whose messages the poller reads by
// listing them.
type ListedWebhook struct {
	*Webhook
	Endpoint        string // base URL of the API that lists; "" is Google's
	CredentialsFile string
}

// Post creates a message as text. A webhook can neither draw a card nor show a message to
// one person only.
func (w ListedWebhook) Post(ctx context.Context, p Post) (PostedMessage, error) {
	p.Card, p.Viewer, p.UploadTokens = nil, "", nil
	return w.Webhook.Post(ctx, p)
}

// Update is not supported: a webhook cannot change a message.
func (ListedWebhook) Update(context.Context, string, Post) error { return errors.ErrUnsupported }

// Find asks Chat for a message by its id, and then searches the list from a time on.
func (w ListedWebhook) Find(ctx context.Context, id string, from time.Time) (PostedMessage, error) {
	reader, err := NewReader(ctx, w.Endpoint, w.CredentialsFile)
	if err != nil {
		return PostedMessage{}, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	m, err := reader.FindPosted(ctx, w.Space, id, from)
	return m.asPosted(), err
}

// QuestionTexts returns the messages that hold a question's text, and no card.
func (ListedWebhook) QuestionTexts(q *state.Question, _ string) ([]string, json.RawMessage) {
	return wording.QuestionTexts(q), nil
}

// DrawsCards returns false: a person answers a webhook's question with a written reply.
func (ListedWebhook) DrawsCards() bool { return false }

// KeepsThreadKeys returns true: a later post with the same key lands in the same thread.
func (ListedWebhook) KeepsThreadKeys() bool { return true }

// ReceivesAllAsEvents returns false: people's messages come from spaces.messages.list
// only, never as events.
func (ListedWebhook) ReceivesAllAsEvents(context.Context) (bool, error) { return false, nil }

// Post creates a message. In a direct message it removes the viewer, since nobody else is
// there to hide the message from. It also does so if it cannot learn what the space is.
func (a *App) Post(ctx context.Context, p Post) (PostedMessage, error) {
	if p.Viewer != "" {
		if isDirect, err := a.IsDirect(ctx); isDirect || err != nil {
			p.Viewer = ""
		}
	}
	return a.API.Post(ctx, p)
}

// Update changes a message as Patch does. If the message was deleted, it returns nil.
func (a *App) Update(ctx context.Context, name string, p Post) error {
	err := a.Patch(ctx, name, p.Text, p.Card)
	if isNotFound(err) {
		return nil
	}
	return err
}

// Find asks Chat for a message of this machine by its id. It ignores the time.
func (a *App) Find(ctx context.Context, id string, _ time.Time) (PostedMessage, error) {
	m, err := a.GetByClientID(ctx, a.Space, id)
	return m.asPosted(), err
}

// QuestionTexts returns the messages that hold a question's text, and the card of the
// last one in Google's form. The card's buttons carry id.
func (a *App) QuestionTexts(q *state.Question, id string) ([]string, json.RawMessage) {
	texts, card := wording.CardTexts(q, a.CardID(id), CardSize)
	return texts, StoredCard(card)
}

// DrawsCards returns true: a person can answer a question with a tap.
func (a *App) DrawsCards() bool { return true }

// KeepsThreadKeys returns false: in a direct message, Chat finds no thread by its key.
func (a *App) KeepsThreadKeys() bool { return false }

// ReceivesAllAsEvents reports whether all messages of people come as events. In a direct
// message they do. Behind a hub it returns true as well, because a hub offers no list.
func (a *App) ReceivesAllAsEvents(ctx context.Context) (bool, error) {
	if a.Hub != nil {
		return true, nil
	}
	return a.IsDirect(ctx)
}

// CanFindOthers reports whether Find finds messages that other machines posted as the
// same app. A hub shows each machine its own messages only.
func (a *App) CanFindOthers() bool { return a.Hub == nil }

// ConfiguredChat returns host/spaces/S for a space, with the host that the configuration
// leads to.
func ConfiguredChat(ctx context.Context, cfg *config.Config, space string) string {
	if cfg.ReceivesEvents() {
		return ChatAtEndpoint(cfg.APIEndpoint, space)
	}
	webhook, err := NewWebhook(ctx, cfg)
	if err != nil {
		return ChatAtEndpoint("", space)
	}
	return strings.TrimSuffix(webhook.Chat(), webhook.Space) + space
}

// asPosted returns the receipt of a message that was found in its space.
func (m Message) asPosted() PostedMessage {
	return PostedMessage{Name: m.Name, ThreadName: m.ThreadName, ServerTime: m.CreateTime}
}
