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

// ErrEndpoint says that the configured base URL of the API is none that requests may go
// to.
var ErrEndpoint = errors.New("the API endpoint is neither https nor on this machine")

// ErrCredentials says that there are no credentials to read messages with, or that they
// are of no use.
var ErrCredentials = errors.New("no usable Google credentials")

const listTimeout = 30 * time.Second

// Message is a message of a space as far as an answer needs it.
type Message struct {
	Name          string // spaces/S/messages/M
	ThreadName    string
	Sender        string // users/ID, or ""
	SenderEmail   string // where Chat gives it
	DisplayName   string // where Chat gives it
	IsHuman       bool   // sender.type is HUMAN; nothing else counts as a person
	Text          string // without mentions of apps
	CreateTime    time.Time
	IsDeleted     bool
	IsReply       bool   // in a thread that another message began
	ClientID      string // it was posted with that MessageID; "" for none
	QuotedMessage string // the message that it quotes, spaces/S/messages/M; "" for none
	HasAttachment bool   // a file or a picture came with it
	IsAmbiguous   bool   // several questions wait in its thread, and it quotes none of them
}

// Space is the space that the message is in: spaces/S.
func (m Message) Space() string {
	space, _, _ := strings.Cut(m.Name, "/messages/")
	return space
}

// API is the Chat API, at Google or at what stands in for it.
type API struct {
	Space   string // spaces/S, where it posts; "" of a reader
	chat    *chat.Service
	baseURL *url.URL   // nil: Google's
	Hub     *HubClient // that stands before Google; nil where none does
	// how far Chat's clock is ahead of ours, to about two seconds, as its lists told
	ClockAhead time.Duration
}

// Chat tells where it posts, host/spaces/S, without a secret.
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

// call makes a request within a time. Its error says what was wanted.
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

// callError is the error of a call, with a hint where it is of a hub or of the embedded
// space.
func (a *API) callError(action, space string, err error) error {
	if a.Hub != nil {
		return fmt.Errorf("%s: %w", action, a.Hub.withHubHint(convertError(err)))
	}
	return fmt.Errorf("%s: %w", action, withEmbeddedSpaceHint(convertError(err), a.baseURL, space))
}

// chatMessageID is the id that a message of ours has in Chat: a hub has each machine's
// ids name it, and lets it change no other messages.
func (a *API) chatMessageID(id string) string {
	rest, isOurs := strings.CutPrefix(id, "client-")
	if a.Hub == nil || !isOurs || strings.HasPrefix(rest, a.Hub.Machine+"-") {
		return id
	}
	return "client-" + a.Hub.Machine + "-" + rest
}

// OnceMark stands in the id of a message that any machine of a person's may post, and one
// does: a hub takes it for all as one.
const OnceMark = "x-" // an id has 63 characters at most

// OnceID is an id with OnceMark.
func OnceID(id string) string { return "client-" + OnceMark + strings.TrimPrefix(id, "client-") }

// NewReader prepares to read. endpoint is the API's base URL, "" for Google's; plain http
// is allowed to this machine only, and then goes without credentials. credentialsFile is
// a service account or authorized user file (a login's too); "" finds Application Default
// Credentials. Errors are ErrCredentials, or the endpoint's.
func NewReader(ctx context.Context, endpoint, credentialsFile string) (*API, error) {
	var hub *HubClient
	if credentialsFile != "" {
		hub = LoadHubClient(credentialsFile)
	}
	options, base, err := serviceOptions(endpoint, credentialsFile, hub,
		chat.ChatAppMessagesReadonlyScope, chat.ChatMessagesReadonlyScope)
	if err != nil {
		return nil, err
	}
	service, err := chat.NewService(ctx, options...)
	return &API{chat: service, baseURL: base, Hub: hub}, err
}

// serviceOptions lead to one of Google's APIs with the file's credentials, or to a base
// URL in its place: on this machine without any, but for a hub's, whose file it is where
// hub is not nil. See findCredentials for the scopes.
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
	// plain http may go to the embedded space
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
	// A redirect would take the access token along.
	client.CheckRedirect = noRedirectClient.CheckRedirect
	return append(options, option.WithHTTPClient(client)), base, nil
}

// ParseEndpoint reads an API's base URL; nil for "", which is Google's. The error is
// ErrEndpoint where requests may not go there.
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

// ListSince lists the messages of a space that were created after t (exclusive, the
// server's clock), deleted ones too, oldest first (Google's default), and hands over page
// after page: what was handed over counts, also when a later page fails, and with
// ErrEndlessList.
func (a *API) ListSince(
	ctx context.Context,
	space string,
	from time.Time,
	handlePage func([]Message),
) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	// Chat counts microseconds
	after := from.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
	list := a.chat.Spaces.Messages.List(space).PageSize(1000).ShowDeleted(true).
		Filter(fmt.Sprintf("createTime > %q", after))
	next := func(response *chat.ListMessagesResponse) string { return response.NextPageToken }
	err := list.Pages(ctx, LimitPages(next, func(response *chat.ListMessagesResponse) {
		// in whole seconds: a small difference is none, and would change what was said
		// first
		serverNow := serverTime(response.Header)
		if ahead := time.Until(serverNow); !serverNow.IsZero() &&
			(a.ClockAhead == 0 || (ahead-a.ClockAhead).Abs() > 2*time.Second) {
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

// FindPosted finds the message that was posted with that MessageID after t, by the
// server's clock: by its id, and in the list where that finds none. The id is described
// for the app that gave it (spaces.messages.get): a person's login may not know a
// webhook's.
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

// GetByClientID gets the message that was posted with that MessageID.
func (a *API) GetByClientID(ctx context.Context, space, id string) (Message, error) {
	m, err := call(
		ctx,
		a,
		listTimeout,
		"read messages",
		space,
		a.chat.Spaces.Messages.Get(space+"/messages/"+a.chatMessageID(id)),
	)
	if err != nil {
		return Message{}, err
	}
	return messageFromChat(m), nil
}

// GetSpace asks Chat what kind of space that is. Of a person's login it takes the scope
// chat.spaces.readonly.
func (a *API) GetSpace(ctx context.Context, name string) (*chat.Space, error) {
	return call(ctx, a, listTimeout, "look at the space", name, a.chat.Spaces.Get(name))
}

func messageFromChat(m *chat.Message) Message {
	sender := cmp.Or(m.Sender, &chat.User{})
	message := Message{
		Name: m.Name, ThreadName: cmp.Or(m.Thread, &chat.Thread{}).Name, Text: cmp.Or(m.ArgumentText, m.Text),
		SenderEmail: sender.Email, DisplayName: sender.DisplayName, IsHuman: sender.Type == "HUMAN",
		ClientID: m.ClientAssignedMessageId, IsDeleted: m.DeleteTime != "", IsReply: m.ThreadReply,
		HasAttachment: len(m.Attachment)+len(m.AttachedGifs) > 0,
		QuotedMessage: cmp.Or(m.QuotedMessageMetadata, &chat.QuotedMessageMetadata{}).Name,
	}
	if strings.HasPrefix(sender.Name, "users/") {
		// another name could be one that we keep for ourselves
		message.Sender = sender.Name
	}
	message.CreateTime, _ = time.Parse(time.RFC3339Nano, m.CreateTime)
	return message
}

// convertError turns the client library's errors into ours. It does not say which of them
// an answer brought that it could not read.
func convertError(err error) error {
	var googleErr *googleapi.Error
	var tokenErr *auth.Error
	isOver := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
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
	case !isOver && !errors.As(err, new(*url.Error)) && !errors.Is(err, ErrBadResponse):
		return fmt.Errorf("%w: %w", ErrBadResponse, err)
	}
	if m := impersonationPattern().FindStringSubmatch(err.Error()); m != nil {
		code, _ := strconv.Atoi(m[1])
		reason := cmp.Or(readAPIError(code, nil, []byte(m[2])).Message, "no reason was told")
		return tokenError(code, nil, m[1]+" "+reason, impersonationHint)
	}
	return withoutURL(err)
}

type Person struct {
	Name        string // users/ID
	Email       string // where Chat gives it
	DisplayName string // where Chat gives it
}

// ErrUnknownPerson says that Chat cannot tell who the credentials belong to: that person
// wrote nothing that a search finds.
var ErrUnknownPerson = errors.New("chat does not tell who that is")

// Me is the person whose login reads. With the scopes that reading takes, the API does
// not tell who that is (members.get takes chat.memberships.readonly), but messages.search
// finds the messages of "users/me", and a message has its sender. Errors are
// ErrUnknownPerson, ErrCredentials and the API's.
func (r *API) Me(ctx context.Context) (Person, error) {
	request := &chat.SearchMessagesRequest{Filter: `sender.name = "users/me"`, PageSize: 25}
	// not what was said
	search := r.chat.Spaces.Messages.Search("spaces/-", request).Fields("results/message/sender")
	response, err := call(ctx, r, listTimeout, "ask who logged in", "", search)
	if err != nil {
		return Person{}, err
	}
	var me Person
	for _, result := range response.Results {
		if result == nil || result.Message == nil || result.Message.Sender == nil {
			continue
		}
		sender := result.Message.Sender
		if sender.Type != "HUMAN" || !config.IsPersonName(sender.Name) ||
			me.Name != "" && sender.Name != me.Name {
			return Person{}, ErrUnknownPerson // two senders: the filter was not understood
		}
		me = Person{sender.Name, sender.Email, sender.DisplayName}
	}
	if me.Name == "" {
		return me, ErrUnknownPerson
	}
	return me, nil
}
