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
)

// ErrNoSpace says that a Chat app is configured, and not the space, or the direct message
// with it, that it writes to.
var ErrNoSpace = errors.New("a Chat app needs a space: space_id")

// App is a Chat app: it writes to one space as itself, and hears what people tap and say
// there from a Pub/Sub subscription. Google lets it list no messages with the scope
// chat.bot.
type App struct {
	Subscription string // projects/P/subscriptions/S

	isDirect atomic.Pointer[bool] // see Direct
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
	base, _ := ParseEndpoint(cfg.APIEndpoint) // it was parsed
	a := &API{Space: cfg.SpaceID, chat: messages, baseURL: base, Hub: hub}
	return &App{Subscription: cfg.Subscription, API: a, pubSub: pubSub}, nil
}

// NewServices are Google's APIs as a Chat app uses them, or what stands in their place,
// with the credentials of a configuration, which are the hub's where there is one. Errors
// are ErrEndpoint and ErrCredentials.
func NewServices(
	ctx context.Context,
	cfg *config.Config,
	hub *HubClient,
) (*chat.Service, *pubsub.Service, error) {
	options, _, err := serviceOptions(
		cfg.APIEndpoint,
		cfg.CredentialsFile,
		hub,
		chat.ChatBotScope,
		"",
	)
	if err != nil {
		return nil, nil, err
	}
	messages, err := chat.NewService(ctx, options...)
	if err != nil {
		return nil, nil, err
	}
	options, _, err = serviceOptions(
		cfg.PubSubEndpoint,
		cfg.CredentialsFile,
		hub,
		pubsub.PubsubScope,
		"",
	)
	if err != nil {
		return nil, nil, err
	}
	pubSub, err := pubsub.NewService(ctx, options...)
	return messages, pubSub, err
}

// ID tells one app from another.
func (a *App) ID() string { return a.Subscription }

// Patch has a message of the app's show another card, below the beginning of the same
// text: Google takes no other fallback text for a message that stands
// (spaces.messages.patch, updateMask). Without a card it is another text. The name may
// end with the id that the message was posted with.
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

func (a *App) Delete(ctx context.Context, name string) error {
	_, err := call(
		ctx,
		a.API,
		postTimeout,
		"delete message",
		a.Space,
		a.chat.Spaces.Messages.Delete(name),
	)
	return err
}

// HasButtonOf says whether a message of the app's has a card with a button of that
// question now.
func (a *App) HasButtonOf(ctx context.Context, message Message, question string) (bool, error) {
	name := message.Name
	if message.ClientID != "" {
		name = path.Dir(message.Name) + "/" + message.ClientID // a hub knows it by no other name
	}
	m, err := call(
		ctx,
		a.API,
		listTimeout,
		"read messages",
		a.Space,
		a.chat.Spaces.Messages.Get(name),
	)
	return err == nil && hasButton(m, question), err
}

// CardID is what the buttons of this machine's cards carry: an id of the question, and
// behind it which machine is asked, since each hears the taps on the cards of all.
// Machines are told apart by their subscriptions: of several that share one, any gets the
// taps of the others.
func (a *App) CardID(question string) string { return question + "-" + a.machineID() }

// IsForOtherMachine says whether a tap is on the card of another machine, which hears it,
// too.
func (a *App) IsForOtherMachine(t *wording.Tap) bool {
	return t.MachineID != "" && t.MachineID != a.machineID()
}

func (a *App) machineID() string { return state.Hash(6, a.Subscription) }

// ParentMessage is the message that another one quotes, or whose thread it is in; ""
// where it begins a thread. Chat's first message of spaces/S/threads/T is
// spaces/S/messages/T.T, as observed.
func (m Message) ParentMessage() string {
	space, thread, ok := strings.Cut(m.ThreadName, "/threads/")
	if m.QuotedMessage != "" || !m.IsReply || !ok {
		return m.QuotedMessage
	}
	return space + "/messages/" + thread + "." + thread
}

// IsShared says whether other machines may hear the same events. Those of the embedded
// space are this machine's alone.
func (a *App) IsShared() bool { return a.Hub != nil || a.Subscription != state.EmbeddedSubscription }

// CanAnswerFor says whether this machine may tell a person that words behind that message
// were not used, where no record here knows them. Behind a message of ours that names
// another machine they are left to that one: there they may have been used. Chat shows an
// app no message that is not for it, and a hub none of another machine's.
func (a *App) CanAnswerFor(ctx context.Context, name string) (bool, error) {
	m, err := call(
		ctx,
		a.API,
		listTimeout,
		"read messages",
		a.Space,
		a.chat.Spaces.Messages.Get(name),
	)
	switch {
	case IsPermanent(err):
		return a.Hub == nil, nil
	case err != nil:
		return false, err
	}
	if !a.IsShared() && m.Sender != nil && m.Sender.Name != embeddedAppName {
		// a webhook's, whose sender reads what is replied
		return false, nil
	}
	id := m.ClientAssignedMessageId
	isOthers := strings.HasPrefix(id, state.MachineIDPrefix) &&
		!strings.HasPrefix(id, state.OwnIDPrefix()) ||
		wording.NamesAnotherMachine(m.Text)
	for _, c := range m.CardsV2 {
		if c != nil && c.Card != nil && c.Card.Header != nil {
			isOthers = isOthers || wording.CardNamesAnotherMachine(c.Card.Header.Subtitle)
		}
	}
	return !isOthers || !strings.HasPrefix(id, "client-"), nil
}

// IsDirect says whether the app's space is a direct message with one person: there an app
// hears all that is said. Google is asked once.
func (a *App) IsDirect(ctx context.Context) (bool, error) {
	if known := a.isDirect.Load(); known != nil {
		return *known, nil
	}
	s, err := a.GetSpace(ctx, a.Space)
	if err != nil {
		return false, err
	}
	direct := isDirectSpace(s)
	if direct || a.IsShared() { // the embedded space becomes one when its version changes
		a.isDirect.Store(&direct)
	}
	return direct, nil
}

func isDirectSpace(s *chat.Space) bool {
	return s != nil && (s.SingleUserBotDm || s.SpaceType == "DIRECT_MESSAGE" || s.Type == "DM")
}

// PulledEvent is an event that the subscription gave; it comes again until it is
// acknowledged.
type PulledEvent struct {
	Event
	AckID string
	ID    string // Pub/Sub's: the same with each delivery
	Err   error  // why it is of no use
}

// Pull takes events from the subscription. Where there are none it may wait for a minute
// or two. Its errors are ErrConnectionLost and Chat's.
func (a *App) Pull(ctx context.Context) (events []PulledEvent, err error) {
	pull := a.pubSub.Projects.Subscriptions.Pull(
		a.Subscription,
		&pubsub.PullRequest{MaxMessages: maxPulledEvents},
	)
	response, err := call(ctx, a.API, pullTimeout, "pull events", a.Space, pull)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded): // Google had answered long ago
		return nil, fmt.Errorf("pull events: %w", ErrConnectionLost)
	case err != nil && strings.HasSuffix(err.Error(), "http2: client connection lost"):
		// net/http does not export that error
		return nil, fmt.Errorf("pull events: %w", ErrConnectionLost)
	case err != nil:
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
			message.Sender, message.SenderEmail, message.DisplayName = pulled.Person.Name, pulled.Person.Email, pulled.Person.DisplayName
			message.IsHuman = pulled.IsHuman
			message.CreateTime = cmp.Or(message.CreateTime, pulled.At)
		}
		events = append(events, pulled)
	}
	return events, nil
}

// Ack tells the subscription that these events need not come again.
func (a *App) Ack(ctx context.Context, ackIDs []string) error {
	ack := a.pubSub.Projects.Subscriptions.Acknowledge(
		a.Subscription,
		&pubsub.AcknowledgeRequest{AckIds: ackIDs},
	)
	_, err := call(ctx, a.API, listTimeout, "acknowledge events", a.Space, ack)
	return err
}

// ErrAddOn says that an event has the form of an add-on's, which gets no taps over
// Pub/Sub.
var ErrAddOn = errors.New(
	"the Chat app is a Google Workspace add-on, which gets no taps over Pub/Sub: make another one in a " +
		"new Cloud project, and clear \"Build this Chat app as a Google Workspace add-on\" before the first save",
)

// CheckPullAccess says whether the app's credentials may take events from its
// subscription; none is taken.
func (a *App) CheckPullAccess(ctx context.Context) error {
	if a.Hub != nil { // it renews a token while the subscription stands
		_, err := a.Hub.freshToken(ctx, true)
		return err
	}
	const consumePermission = "pubsub.subscriptions.consume"
	request := &pubsub.TestIamPermissionsRequest{Permissions: []string{consumePermission}}
	test := a.pubSub.Projects.Subscriptions.TestIamPermissions(a.Subscription, request)
	response, err := call(ctx, a.API, postTimeout, "look at the subscription", a.Space, test)
	switch {
	case err != nil:
		return err
	case !slices.Contains(response.Permissions, consumePermission):
		return ErrNotSubscriber
	}
	return nil
}

// ErrNotSubscriber says that the app's credentials may not take events from its
// subscription, or that it is not there: Google answers a test of permissions on what is
// missing as it answers one without any (testIamPermissions, {} and 200).
var ErrNotSubscriber = errors.New(
	"the subscription is not there, or the service account may not pull from it",
)

// Spaces are the spaces that the app was added to, direct messages first.
func (a *App) Spaces(ctx context.Context) ([]*chat.Space, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var direct, others []*chat.Space
	next := func(page *chat.ListSpacesResponse) string { return page.NextPageToken }
	err := a.chat.Spaces.List().
		PageSize(1000).
		Pages(ctx, LimitPages(next, func(page *chat.ListSpacesResponse) {
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

// AppHint says what a person can do where a step towards a Chat app fails.
func AppHint(err error) string {
	text := err.Error()
	switch {
	case NetworkHint(err) != "",
		errors.As(err, new(*state.UserError)),
		strings.Contains(text, "has not been used in project"):
		// see Hint
	case errors.Is(err, ErrCredentials):
		return "make the service account's key, and name it: gchat-hooks setup --app --credentials-file KEY"
	case errors.Is(err, ErrNotSubscriber), strings.Contains(text, "pull events"):
		return "make the subscription where it is missing, and grant roles/pubsub.subscriber on it to the service account"
	case strings.Contains(text, "Chat app not found"):
		return "fill in the app's page, and save it"
	case strings.Contains(text, "look at the subscription"):
		return "see that the service account is of that project, and that the Pub/Sub API is on"
	case strings.Contains(text, "the app is "):
		return "write the app a direct message, or add it to the space"
	}
	return Hint(err)
}
