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

// This file is where the ways into a space differ: what the poller's interface transport
// asks, answered for a webhook and for a Chat app. A Chat app behind a team's hub is one
// whose Hub is set.

// ListedWebhook is a webhook whose space is listed for what people say there.
type ListedWebhook struct {
	*Webhook
	Endpoint        string // of the API that lists; "" is Google's
	CredentialsFile string
}

// Post creates a message as text: a webhook draws no card, and each message is for all.
func (w ListedWebhook) Post(ctx context.Context, p Post) (PostedMessage, error) {
	p.Card, p.Viewer = nil, ""
	return w.Webhook.Post(ctx, p)
}

// Update is not supported: a webhook changes no message.
func (ListedWebhook) Update(context.Context, string, Post) error { return errors.ErrUnsupported }

// Find looks for a message by its id, and in the list from a time on.
func (w ListedWebhook) Find(ctx context.Context, id string, from time.Time) (PostedMessage, error) {
	reader, err := NewReader(ctx, w.Endpoint, w.CredentialsFile)
	if err != nil {
		return PostedMessage{}, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	m, err := reader.FindPosted(ctx, w.Space, id, from)
	return m.asPosted(), err
}

// QuestionTexts are the messages that hold a question's text. There is no card.
func (ListedWebhook) QuestionTexts(q *state.Question, _ string) ([]string, json.RawMessage) {
	return wording.QuestionTexts(q), nil
}

// DrawsCards is false: a question is answered in words.
func (ListedWebhook) DrawsCards() bool { return false }

// KeepsThreadKeys is true: a key finds its thread again.
func (ListedWebhook) KeepsThreadKeys() bool { return true }

// HearsAll is false: what people say comes by the list alone.
func (ListedWebhook) HearsAll(context.Context) (bool, error) { return false, nil }

// Post creates a message. In a direct message there is nobody from whom to hide it: it
// has no viewer there, nor where it is not known what the space is.
func (a *App) Post(ctx context.Context, p Post) (PostedMessage, error) {
	if p.Viewer != "" {
		if isDirect, err := a.IsDirect(ctx); isDirect || err != nil {
			p.Viewer = ""
		}
	}
	return a.API.Post(ctx, p)
}

// Update changes a message as Patch does. One that is not there any more needs no change.
func (a *App) Update(ctx context.Context, name string, p Post) error {
	err := a.Patch(ctx, name, p.Text, p.Card)
	if isNotFound(err) {
		return nil
	}
	return err
}

// Find looks for a message of this machine's by its id. The time is of no use to it.
func (a *App) Find(ctx context.Context, id string, _ time.Time) (PostedMessage, error) {
	m, err := a.GetByClientID(ctx, a.Space, id)
	return m.asPosted(), err
}

// QuestionTexts are the messages that hold a question's text, and the card of the last
// one, as Google takes it. The card's buttons carry id.
func (a *App) QuestionTexts(q *state.Question, id string) ([]string, json.RawMessage) {
	texts, card := wording.CardTexts(q, a.CardID(id), CardSize)
	return texts, StoredCard(card)
}

// DrawsCards is true: a question can be answered with a tap.
func (a *App) DrawsCards() bool { return true }

// KeepsThreadKeys is false: a direct message sees no keys.
func (a *App) KeepsThreadKeys() bool { return false }

// HearsAll says whether all that people say comes as events: it does in a direct message,
// and a hub has no list.
func (a *App) HearsAll(ctx context.Context) (bool, error) {
	if a.Hub != nil {
		return true, nil
	}
	return a.IsDirect(ctx)
}

// CanFindOthers says whether it finds what other machines of the app posted: a hub shows
// each machine its own messages only.
func (a *App) CanFindOthers() bool { return a.Hub == nil }

// ConfiguredChat is a space on the host to which a configuration leads: host/spaces/S.
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

// asPosted is what is known of a message that stands in its space.
func (m Message) asPosted() PostedMessage {
	return PostedMessage{Name: m.Name, ThreadName: m.ThreadName, ServerTime: m.CreateTime}
}
