package gchat

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/api/chat/v1"
	"google.golang.org/api/pubsub/v1"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

const (
	// pullTimeout bounds one pull: Google holds an empty one open for about 90 seconds.
	pullTimeout     = 2 * time.Minute
	maxPulledEvents = 100
	// consumePermission is the permission to pull from a subscription.
	consumePermission = "pubsub.subscriptions.consume"
)

// ErrNoSpace means that a Chat app is configured, and that the space it writes to is not.
// That space may be the person's direct message with the app.
var ErrNoSpace = errors.New("a Chat app needs a space: set space_id")

// App is a Chat app. It writes to one space under its own name, and receives people's
// taps and messages there from a Pub/Sub subscription. With the scope chat.bot, Google
// lets it list no messages.
type App struct {
	Subscription string // projects/P/subscriptions/S

	isDirect atomic.Pointer[bool] // what IsDirect learned; nil before that
	pubSub   *pubsub.Service
	*API
}

// NewApp prepares the app of a configuration that names a subscription. Errors are
// ErrNoSpace, ErrEndpoint and ErrCredentials.
func NewApp(ctx context.Context, cfg *config.Config) (*App, error) {
	if cfg.SpaceID == "" {
		return nil, ErrNoSpace
	}
	hub := LoadHubClient(cfg.CredentialsFile)
	messages, pubSub, err := NewServices(ctx, cfg, hub)
	if err != nil {
		return nil, err
	}
	base, _ := ParseEndpoint(cfg.APIEndpoint) // NewServices parsed it without error
	a := &API{Space: cfg.SpaceID, chat: messages, baseURL: base, Hub: hub}
	return &App{Subscription: cfg.Subscription, API: a, pubSub: pubSub}, nil
}

// NewServices returns clients of the two Google APIs that a Chat app uses, or of the
// endpoints that the configuration names in their place. They use the configuration's
// credentials. If hub is not nil, these are the hub's. Errors are ErrEndpoint and
// ErrCredentials.
func NewServices(
	ctx context.Context,
	cfg *config.Config,
	hub *HubClient,
) (*chat.Service, *pubsub.Service, error) {
	options, _, err := serviceOptions(
		cfg.APIEndpoint, cfg.CredentialsFile, hub, chat.ChatBotScope, "")
	if err != nil {
		return nil, nil, err
	}
	messages, err := chat.NewService(ctx, options...)
	if err != nil {
		return nil, nil, err
	}
	options, _, err = serviceOptions(
		cfg.PubSubEndpoint, cfg.CredentialsFile, hub, pubsub.PubsubScope, "")
	if err != nil {
		return nil, nil, err
	}
	pubSub, err := pubsub.NewService(ctx, options...)
	return messages, pubSub, err
}

// ID distinguishes one app from another.
func (a *App) ID() string { return a.Subscription }

// Patch changes the card of one of the app's messages. It also writes the beginning of
// the text above the card, because Google lets nobody change the fallback text of a
// message that exists (spaces.messages.patch, updateMask). Without a card, Patch changes
// the text. The name may end with the id that the message was posted with.
func (a *App) Patch(ctx context.Context, name, text string, card json.RawMessage) error {
	m := &chat.Message{
		Text:         wording.Cut(text, 1000),
		CardsV2:      cardsV2(card),
		MarkupSyntax: "MARKUP_SYNTAX_CHAT",
	}
	mask := "text,cardsV2"
	if len(card) == 0 {
		m.Text, m.CardsV2, mask = text, nil, "text"
	}
	folder, id := path.Split(name)
	patch := a.chat.Spaces.Messages.Patch(folder+a.chatMessageID(id), m).UpdateMask(mask)
	_, err := call(ctx, a.API, postTimeout, "change message", a.Space, patch)
	return err
}

// Delete deletes one of the app's messages.
func (a *App) Delete(ctx context.Context, name string) error {
	_, err := call(ctx, a.API, postTimeout, "delete message", a.Space,
		a.chat.Spaces.Messages.Delete(name))
	return err
}

// HasButtonOf reports whether a message of the app has a button of that question on its
// card at present.
func (a *App) HasButtonOf(ctx context.Context, message Message, question string) (bool, error) {
	name := message.Name
	if message.ClientID != "" {
		name = path.Dir(message.Name) + "/" + message.ClientID // the only name that a hub accepts
	}
	m, err := a.getMessage(ctx, a.Space, name)
	return err == nil && hasButton(m, question), err
}

// CardID returns what the buttons of this machine's cards carry: the question's id, a
// hyphen, and an id of the machine that asks. The machine's id is needed because each
// machine receives the taps on the cards of all. It is made from the subscription, so
// machines that share one subscription also take each other's taps.
func (a *App) CardID(question string) string { return question + "-" + a.machineID() }

// IsForOtherMachine reports whether a tap is on the card of another machine. That machine
// receives the tap, too.
func (a *App) IsForOtherMachine(t *wording.Tap) bool {
	return t.MachineID != "" && t.MachineID != a.machineID()
}

func (a *App) machineID() string { return state.Hash(6, a.Subscription) }

// IsShared reports whether other machines may receive the same events. No other machine
// receives those of the embedded space.
func (a *App) IsShared() bool {
	return a.Hub != nil || a.Subscription != state.EmbeddedSubscription
}

// CanAnswerFor reports whether this machine may write a note that a reply to the named
// message was not used. The poller asks this if it has no record that the reply belongs
// to. If the message is another machine's, that machine may have used the reply, so this
// one writes nothing. Chat shows an app no message that is not for the app, and a hub
// shows a machine no message of another machine.
func (a *App) CanAnswerFor(ctx context.Context, name string) (bool, error) {
	m, err := a.getMessage(ctx, a.Space, name)
	switch {
	case IsPermanent(err):
		return a.Hub == nil, nil
	case err != nil:
		return false, err
	}
	if !a.IsShared() && m.Sender != nil && m.Sender.Name != embeddedAppName {
		// A webhook posted it. The program that uses the webhook reads the replies.
		return false, nil
	}
	id := m.ClientAssignedMessageId
	hasOthersID := strings.HasPrefix(id, state.MachineIDPrefix) &&
		!strings.HasPrefix(id, state.OwnIDPrefix())
	isOthers := hasOthersID || wording.NamesAnotherMachine(m.Text)
	for _, c := range m.CardsV2 {
		if c != nil && c.Card != nil && c.Card.Header != nil {
			isOthers = isOthers || wording.CardNamesAnotherMachine(c.Card.Header.Subtitle)
		}
	}
	// A message without a client- id is not ours, whatever its text says.
	return !isOthers || !strings.HasPrefix(id, "client-"), nil
}

// IsDirect reports whether the app's space is a direct message with one person. There an
// app receives every message. IsDirect asks Google once.
func (a *App) IsDirect(ctx context.Context) (bool, error) {
	if known := a.isDirect.Load(); known != nil {
		return *known, nil
	}
	s, err := a.GetSpace(ctx, a.Space)
	if err != nil {
		return false, err
	}
	direct := isDirectSpace(s)
	// The embedded space is asked again: it may become a direct message when a newer
	// version of it starts.
	if direct || a.IsShared() {
		a.isDirect.Store(&direct)
	}
	return direct, nil
}

func isDirectSpace(s *chat.Space) bool {
	return s != nil && (s.SingleUserBotDm || s.SpaceType == "DIRECT_MESSAGE" || s.Type == "DM")
}

// PulledEvent is an event from the subscription. The subscription delivers it again until
// Ack gets its AckID.
type PulledEvent struct {
	Event
	AckID string
	ID    string // Pub/Sub's: the same with each delivery
	Err   error  // why the event cannot be used
}

// Pull gets events from the subscription. If there are none, it may wait for a minute or
// two. Its errors are ErrConnectionLost and Chat's.
func (a *App) Pull(ctx context.Context) (events []PulledEvent, err error) {
	pull := a.pubSub.Projects.Subscriptions.Pull(a.Subscription,
		&pubsub.PullRequest{MaxMessages: maxPulledEvents})
	response, err := call(ctx, a.API, pullTimeout, "pull events", a.Space, pull)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded),
		strings.HasSuffix(err.Error(), "http2: client connection lost"):
		// Google ends a pull before pullTimeout, so a deadline means a dead connection.
		// net/http does not export the error that it has for one.
		return nil, fmt.Errorf("pull events: %w", ErrConnectionLost)
	default:
		return nil, err
	}
	for _, m := range response.ReceivedMessages {
		if m == nil || m.Message == nil {
			continue
		}
		pulled := PulledEvent{AckID: m.AckId, ID: m.Message.MessageId}
		data, err := base64.StdEncoding.DecodeString(m.Message.Data)
		if err == nil {
			pulled.Event, err = ReadEvent(data)
		}
		pulled.Err = err
		published, _ := time.Parse(time.RFC3339Nano, m.Message.PublishTime)
		pulled.At = cmp.Or(pulled.At, published, time.Now())
		if message := &pulled.Message; pulled.Type == "MESSAGE" {
			message.Sender, message.SenderEmail = pulled.Person.Name, pulled.Person.Email
			message.DisplayName, message.IsHuman = pulled.Person.DisplayName, pulled.IsHuman
			message.CreateTime = cmp.Or(message.CreateTime, pulled.At)
		}
		events = append(events, pulled)
	}
	return events, nil
}

// Ack acknowledges events, so that the subscription does not deliver them again.
func (a *App) Ack(ctx context.Context, ackIDs []string) error {
	ack := a.pubSub.Projects.Subscriptions.Acknowledge(a.Subscription,
		&pubsub.AcknowledgeRequest{AckIds: ackIDs})
	_, err := call(ctx, a.API, listTimeout, "acknowledge events", a.Space, ack)
	return err
}

// ErrAddOn means that an event has the form of a Workspace add-on's event. Google sends
// an add-on no taps over Pub/Sub.
var ErrAddOn = errors.New(
	"the Chat app is a Google Workspace add-on, which gets no taps over Pub/Sub: " +
		"make another app in a new Cloud project, and clear " +
		"\"Build this Chat app as a Google Workspace add-on\" before the first save",
)

// CheckPullAccess returns an error if the app's credentials may not pull events from its
// subscription. It pulls none.
func (a *App) CheckPullAccess(ctx context.Context) error {
	if a.Hub != nil { // a hub renews a token only while the subscription exists
		_, err := a.Hub.freshToken(ctx, true)
		return err
	}
	request := &pubsub.TestIamPermissionsRequest{Permissions: []string{consumePermission}}
	test := a.pubSub.Projects.Subscriptions.TestIamPermissions(a.Subscription, request)
	response, err := call(ctx, a.API, postTimeout, "look at the subscription", a.Space, test)
	if err == nil && !slices.Contains(response.Permissions, consumePermission) {
		return ErrNotSubscriber
	}
	return err
}

// ErrNotSubscriber means that the app's credentials may not pull events from its
// subscription, or that the subscription does not exist. testIamPermissions does not
// distinguish the two: in both cases Google answers {} with status 200.
var ErrNotSubscriber = errors.New(
	"the subscription does not exist, or the service account may not pull from it",
)

// Spaces returns the spaces that the app was added to, direct messages first.
func (a *App) Spaces(ctx context.Context) ([]*chat.Space, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var direct, others []*chat.Space
	next := func(page *chat.ListSpacesResponse) string { return page.NextPageToken }
	list := a.chat.Spaces.List().PageSize(1000)
	err := list.Pages(ctx, LimitPages(next, func(page *chat.ListSpacesResponse) {
		for _, s := range page.Spaces {
			if isDirectSpace(s) {
				direct = append(direct, s)
			} else {
				others = append(others, s)
			}
		}
	}))
	if err != nil {
		err = a.callError("list the app's spaces", "", err)
	}
	return append(direct, others...), err
}

// AppHint returns what a person can do about a failed step of setting up a Chat app.
func AppHint(err error) string {
	text := err.Error()
	switch {
	case NetworkHint(err) != "",
		errors.As(err, new(*state.UserError)),
		strings.Contains(text, "has not been used in project"):
		// Hint has a hint for these.
	case errors.Is(err, ErrCredentials):
		return "make the service account's key, and name it: " +
			"gchat-hooks setup --app --credentials-file KEY"
	case errors.Is(err, ErrNotSubscriber), strings.Contains(text, "pull events"):
		return "make the subscription if it is missing, " +
			"and grant roles/pubsub.subscriber on it to the service account"
	case strings.Contains(text, "Chat app not found"):
		return "fill in the app's page, and save it"
	case strings.Contains(text, "look at the subscription"):
		return "check that the service account belongs to that project, " +
			"and that the Pub/Sub API is enabled"
	case strings.Contains(text, "the app is "):
		return "write the app a direct message, or add it to the space"
	}
	return Hint(err)
}
