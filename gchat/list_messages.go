package gchat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"gchat-hooks/state/config"

	"cloud.google.com/go/auth"
	"google.golang.org/api/chat/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
)

// ErrEndpoint means that no request may go to the configured base URL of the API.
var ErrEndpoint = errors.New("the API endpoint is neither https nor on this machine")

// ErrCredentials means that the credentials for Google are missing, or do not work.
var ErrCredentials = errors.New("no usable Google credentials")

const listTimeout = 30 * time.Second

// Message is a message of a space. It holds what the poller needs to use it as a reply.
type Message struct {
	Name          string // spaces/S/messages/M
	ThreadName    string
	Sender        string // users/ID, or ""
	SenderEmail   string // "" if Chat does not give it
	DisplayName   string // "" if Chat does not give it
	IsHuman       bool   // sender.type is HUMAN; nothing else counts as a person
	Text          string // without mentions of apps
	CreateTime    time.Time
	IsDeleted     bool
	IsReply       bool   // another message began its thread
	ClientID      string // the MessageID that it was posted with; "" for none
	QuotedMessage string // the message that it quotes, spaces/S/messages/M; "" for none
	HasAttachment bool   // it has a file or a picture
	Files         []File // what is attached
	IsAmbiguous   bool   // several questions wait in its thread, and it quotes none of them
}

// API is the Chat API, at Google or at another endpoint that serves the same calls.
type API struct {
	Space   string // spaces/S, where it posts; "" if it only reads
	chat    *chat.Service
	baseURL *url.URL   // nil for Google's
	Hub     *HubClient // the hub between this machine and Google; nil for none
	// ClockAhead is how far Chat's clock is ahead of ours, to about two seconds.
	// ListSince measures it.
	ClockAhead time.Duration
}

// Chat returns where API posts, host/spaces/S, without a secret.
func (a *API) Chat() string {
	if a.baseURL != nil {
		return a.baseURL.Host + "/" + a.Space
	}
	return googleHost + "/" + a.Space
}

type request[R, T any] interface {
	Context(context.Context) R
	Do(...googleapi.CallOption) (T, error)
}

// call makes a request with a timeout. Its error begins with the action.
func call[R request[R, T], T any](
	ctx context.Context,
	a *API,
	timeout time.Duration,
	action, space string,
	request R,
) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	response, err := request.Context(ctx).Do()
	if err != nil {
		err = a.callError(action, space, err)
	}
	return response, err
}

// callError returns the error of a call. Errors of a hub and of the embedded space get a
// hint.
func (a *API) callError(action, space string, err error) error {
	if a.Hub != nil {
		return fmt.Errorf("%s: %w", action, a.Hub.withHubHint(convertError(err)))
	}
	return fmt.Errorf("%s: %w", action, withEmbeddedSpaceHint(convertError(err), a.baseURL, space))
}

// chatMessageID returns the id that a message of ours has in Chat. A hub requires the
// machine's name in it, and lets a machine change only messages with such an id.
func (a *API) chatMessageID(id string) string {
	rest, isOurs := strings.CutPrefix(id, "client-")
	if a.Hub == nil || !isOurs || strings.HasPrefix(rest, a.Hub.Machine+"-") {
		return id
	}
	return "client-" + a.Hub.Machine + "-" + rest
}

// OnceMark in a message's id says that each machine of a person tries to post the
// message, and that only one of them should. A hub gives these posts one id, so Chat
// keeps one.
const OnceMark = "x-" // it is short because Chat allows an id 63 characters

// OnceID returns an id with OnceMark in it.
func OnceID(id string) string { return "client-" + OnceMark + strings.TrimPrefix(id, "client-") }

// NewReader returns an API that reads messages. endpoint is the API's base URL, or "" for
// Google's. Plain http is allowed to this machine only, and is used without credentials.
// credentialsFile is a service account's file or an authorized user's, as a login writes
// it. For "", NewReader finds Application Default Credentials. Errors are ErrCredentials
// and ErrEndpoint.
func NewReader(ctx context.Context, endpoint, credentialsFile string) (*API, error) {
	return newAPI(ctx, endpoint, credentialsFile, chat.ChatAppMessagesReadonlyScope)
}

// newAPI is NewReader, with the scope that a service account gets.
func newAPI(ctx context.Context, endpoint, credentialsFile, appScope string) (*API, error) {
	hub := LoadHubClient(credentialsFile)
	options, base, err := serviceOptions(endpoint, credentialsFile, hub,
		appScope, chat.ChatMessagesReadonlyScope)
	if err != nil {
		return nil, err
	}
	service, err := chat.NewService(ctx, options...)
	return &API{chat: service, baseURL: base, Hub: hub}, err
}

// serviceOptions returns the client options for one of Google's APIs, or for the endpoint
// in its place. Requests carry the file's credentials. To plain http on this machine they
// carry none, unless hub is set. If hub is not nil, file is that hub's, and requests
// carry the hub's token. See findCredentials for the scopes.
func serviceOptions(
	endpoint, file string,
	hub *HubClient,
	appScope, userScope string,
) ([]option.ClientOption, *url.URL, error) {
	base, err := ParseEndpoint(endpoint)
	if err != nil {
		return nil, nil, err
	}
	options := []option.ClientOption{option.WithTelemetryDisabled()}
	if base != nil {
		options = append(options, option.WithEndpoint(strings.TrimSuffix(endpoint, "/")+"/"))
	}
	// Plain http may lead to the embedded space, which this transport dials by its
	// socket.
	client := &http.Client{Transport: noRedirectClient.Transport}
	if hub != nil {
		client.Transport = hub
	} else if base == nil || base.Scheme == "https" {
		transport := &renewingTransport{file: file, appScope: appScope, userScope: userScope}
		if _, err := transport.renew(nil); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrCredentials, err)
		}
		client.Transport = transport
	}
	// A client that follows a redirect would give the access token to another host.
	client.CheckRedirect = noRedirectClient.CheckRedirect
	return append(options, option.WithHTTPClient(client)), base, nil
}

// ParseEndpoint parses an API's base URL. It returns nil for "", which means Google's.
// The error is ErrEndpoint if requests may not go there.
func ParseEndpoint(endpoint string) (*url.URL, error) {
	if endpoint == "" {
		return nil, nil
	}
	u, err := url.Parse(strings.TrimSuffix(endpoint, "/"))
	if err != nil || !IsAllowedBaseURL(u) {
		return nil, ErrEndpoint
	}
	return u, nil
}

// ListSince lists the messages of a space that were created after from, by the server's
// clock. Deleted messages are among them. The oldest comes first, which is Google's
// default. handlePage gets each page. A page that it got stays valid if a later page
// fails, and if the error is ErrEndlessList.
func (a *API) ListSince(
	ctx context.Context,
	space string,
	from time.Time,
	handlePage func([]Message),
) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	// Chat's times have microseconds.
	after := from.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
	list := a.chat.Spaces.Messages.List(space).PageSize(1000).ShowDeleted(true).
		Filter(fmt.Sprintf("createTime > %q", after))
	next := func(response *chat.ListMessagesResponse) string { return response.NextPageToken }
	err := list.Pages(ctx, LimitPages(next, func(response *chat.ListMessagesResponse) {
		// serverNow has whole seconds. A small change is not one of the clocks, so the
		// first measurement stays.
		serverNow := serverTime(response.Header)
		ahead := time.Until(serverNow)
		hasChanged := a.ClockAhead == 0 || (ahead-a.ClockAhead).Abs() > 2*time.Second
		if !serverNow.IsZero() && hasChanged {
			a.ClockAhead = ahead
		}
		var messages []Message
		for _, m := range response.Messages {
			if m != nil {
				messages = append(messages, messageFromChat(m))
			}
		}
		handlePage(messages)
	}))
	if err != nil {
		err = a.callError("read messages", space, err)
	}
	return err
}

// FindPosted returns the message that was posted with that MessageID after from, by the
// server's clock. It asks Chat for the id, and searches the list if Chat knows no such
// message. Google documents the id only for the app that gave it (spaces.messages.get),
// so Chat may not find a webhook's message for a person's login.
func (a *API) FindPosted(ctx context.Context, space, id string, from time.Time) (Message, error) {
	found, err := a.GetByClientID(ctx, space, id)
	if !isNotFound(err) {
		return found, err
	}
	listErr := a.ListSince(ctx, space, from, func(page []Message) {
		for _, m := range page {
			if m.ClientID == id {
				found, err = m, nil
			}
		}
	})
	if err != nil && listErr != nil {
		err = listErr
	}
	return found, err
}

// GetByClientID returns the message that was posted with that MessageID.
func (a *API) GetByClientID(ctx context.Context, space, id string) (Message, error) {
	m, err := a.getMessage(ctx, space, MessageName(space, a.chatMessageID(id)))
	if err != nil {
		return Message{}, err
	}
	return messageFromChat(m), nil
}

func (a *API) getMessage(ctx context.Context, space, name string) (*chat.Message, error) {
	return call(ctx, a, listTimeout, "read messages", space, a.chat.Spaces.Messages.Get(name))
}

// GetSpace asks Chat what kind of space that is. A person's login needs the scope
// chat.spaces.readonly for it.
func (a *API) GetSpace(ctx context.Context, name string) (*chat.Space, error) {
	return call(ctx, a, listTimeout, "look at the space", name, a.chat.Spaces.Get(name))
}

func messageFromChat(m *chat.Message) Message {
	sender := cmp.Or(m.Sender, &chat.User{})
	message := Message{
		Name:          m.Name,
		ThreadName:    cmp.Or(m.Thread, &chat.Thread{}).Name,
		SenderEmail:   sender.Email,
		DisplayName:   sender.DisplayName,
		IsHuman:       sender.Type == "HUMAN",
		Text:          cmp.Or(m.ArgumentText, m.Text),
		IsDeleted:     m.DeleteTime != "",
		IsReply:       m.ThreadReply,
		ClientID:      m.ClientAssignedMessageId,
		QuotedMessage: cmp.Or(m.QuotedMessageMetadata, &chat.QuotedMessageMetadata{}).Name,
		HasAttachment: len(m.Attachment)+len(m.AttachedGifs) > 0,
		Files:         filesOf(m),
	}
	// A name of another form could equal one that gchat-hooks reserves for itself.
	if strings.HasPrefix(sender.Name, "users/") {
		message.Sender = sender.Name
	}
	message.CreateTime, _ = time.Parse(time.RFC3339Nano, m.CreateTime)
	return message
}

// convertError turns an error of Google's client library into ours. The library has no
// type for a response that it cannot read, so convertError returns ErrBadResponse for an
// error that is none of the known kinds.
func convertError(err error) error {
	var googleErr *googleapi.Error
	var tokenErr *auth.Error
	hasEnded := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	switch {
	case errors.As(err, &googleErr):
		apiErr := readAPIError(googleErr.Code, googleErr.Header, []byte(googleErr.Body))
		apiErr.Message = cmp.Or(apiErr.Message, shorten(googleErr.Message, 300))
		return apiErr
	case errors.As(err, &tokenErr):
		code, header, reason := 0, http.Header{}, ReadTokenError(tokenErr.Body)
		if tokenErr.Response != nil {
			code, header = tokenErr.Response.StatusCode, tokenErr.Response.Header
		}
		return tokenError(code, header, reason, LoginHint(reason))
	case !hasEnded && !errors.As(err, new(*url.Error)) && !errors.Is(err, ErrBadResponse):
		return fmt.Errorf("%w: %w", ErrBadResponse, err)
	}
	if m := impersonationPattern().FindStringSubmatch(err.Error()); m != nil {
		code, _ := strconv.Atoi(m[1])
		reason := cmp.Or(readAPIError(code, nil, []byte(m[2])).Message, "no reason was given")
		return tokenError(code, nil, m[1]+" "+reason, impersonationHint)
	}
	return withoutURL(err)
}

// Person is a person as Chat names them.
type Person struct {
	Name        string // users/ID
	Email       string // "" if Chat does not give it
	DisplayName string // "" if Chat does not give it
}

// ErrUnknownPerson means that Chat does not say whose credentials these are: that person
// wrote no message that a search finds.
var ErrUnknownPerson = errors.New("chat does not say whose login this is")

// Me returns the person whose login reads. With the scopes for reading, the API names
// that person only by a detour: members.get needs chat.memberships.readonly, but
// messages.search finds the messages of "users/me", and a message has its sender. Errors
// are ErrUnknownPerson, ErrCredentials and the API's.
func (a *API) Me(ctx context.Context) (Person, error) {
	request := &chat.SearchMessagesRequest{Filter: `sender.name = "users/me"`, PageSize: 25}
	// The messages' texts are not fetched.
	search := a.chat.Spaces.Messages.Search("spaces/-", request).Fields("results/message/sender")
	response, err := call(ctx, a, listTimeout, "ask who logged in", "", search)
	if err != nil {
		return Person{}, err
	}
	var me Person
	for _, result := range response.Results {
		if result == nil || result.Message == nil || result.Message.Sender == nil {
			continue
		}
		sender := result.Message.Sender
		// With two senders, the server did not apply the filter.
		isSecondSender := me.Name != "" && sender.Name != me.Name
		if sender.Type != "HUMAN" || !config.IsPersonName(sender.Name) || isSecondSender {
			return Person{}, ErrUnknownPerson
		}
		me = Person{sender.Name, sender.Email, sender.DisplayName}
	}
	if me.Name == "" {
		return me, ErrUnknownPerson
	}
	return me, nil
}
