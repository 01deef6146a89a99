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
	Name        string // spaces/S/messages/M
	ThreadName  string
	Sender      string // users/ID, or ""
	SenderEmail string // where Chat gives it
	DisplayName string // where Chat gives it
	Human       bool   // sender.type is HUMAN; nothing else counts as a person
	Text        string // without mentions of apps
	CreateTime  time.Time
	Deleted     bool
	Reply       bool   // in a thread that another message began
	ClientID    string // it was posted with that MessageID; "" for none
	Quotes      string // the message that it quotes, spaces/S/messages/M; "" for none
	Attached    bool   // a file or a picture came with it
	Unsure      bool   // several questions wait in its thread, and it quotes none of them
}

// Space is the space that the message is in: spaces/S.
func (m Message) Space() string {
	space, _, _ := strings.Cut(m.Name, "/messages/")
	return space
}

// API is the Chat API, at Google or at what stands in for it.
type API struct {
	Space string // spaces/S, where it posts; "" of a reader
	chat  *chat.Service
	base  *url.URL // nil: Google's
	Hub   *Hub     // that stands before Google; nil where none does
	// how far Chat's clock is ahead of ours, to about two seconds, as its lists told
	Ahead time.Duration
}

// Chat tells where it posts, host/spaces/S, without a secret.
func (a *API) Chat() string {
	if a.base != nil {
		return a.base.Host + "/" + a.Space
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
	most time.Duration,
	what, space string,
	r R,
) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	answer, err := r.Context(ctx).Do()
	if err != nil {
		err = a.failed(what, space, err)
	}
	return answer, err
}

// failed is the error of a call, with a hint where it is of a hub or of the embedded
// space.
func (a *API) failed(what, space string, err error) error {
	if a.Hub != nil {
		return fmt.Errorf("%s: %w", what, a.Hub.failed(apiError(err)))
	}
	return fmt.Errorf("%s: %w", what, embedded(apiError(err), a.base, space))
}

// named is the id that a message of ours has in Chat: a hub has each machine's ids name
// it, and lets it change no other messages.
func (a *API) named(id string) string {
	rest, ours := strings.CutPrefix(id, "client-")
	if a.Hub == nil || !ours || strings.HasPrefix(rest, a.Hub.Machine+"-") {
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
	var hub *Hub
	if credentialsFile != "" {
		hub = ReadHub(credentialsFile)
	}
	opts, base, err := serviceOptions(endpoint, credentialsFile, hub,
		chat.ChatAppMessagesReadonlyScope, chat.ChatMessagesReadonlyScope)
	if err != nil {
		return nil, err
	}
	svc, err := chat.NewService(ctx, opts...)
	return &API{chat: svc, base: base, Hub: hub}, err
}

// serviceOptions lead to one of Google's APIs with the file's credentials, or to a base
// URL in its place: on this machine without any, but for a hub's, whose file it is where
// hub is not nil. See findCredentials for the scopes.
func serviceOptions(
	endpoint, file string,
	hub *Hub,
	app, user string,
) ([]option.ClientOption, *url.URL, error) {
	base, err := ParseEndpoint(endpoint)
	if err != nil {
		return nil, nil, err
	}
	opts := []option.ClientOption{option.WithTelemetryDisabled()}
	if base != nil {
		opts = append(opts, option.WithEndpoint(strings.TrimSuffix(endpoint, "/")+"/"))
	}
	// plain http may go to the embedded space
	client := &http.Client{Transport: noRedirects.Transport}
	if hub != nil {
		client.Transport = hub
	} else if base == nil || base.Scheme == "https" {
		with := &renewing{file: file, app: app, user: user}
		if _, err := with.renew(nil); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrCredentials, err)
		}
		client.Transport = with
	}
	// A redirect would take the access token along.
	client.CheckRedirect = noRedirects.CheckRedirect
	return append(opts, option.WithHTTPClient(client)), base, nil
}

// ParseEndpoint reads an API's base URL; nil for "", which is Google's. The error is
// ErrEndpoint where requests may not go there.
func ParseEndpoint(endpoint string) (*url.URL, error) {
	if endpoint == "" {
		return nil, nil
	}
	u, err := url.Parse(strings.TrimSuffix(endpoint, "/"))
	if err != nil || !AllowedBase(u) {
		return nil, ErrEndpoint
	}
	return u, nil
}

// Since lists the messages of a space that were created after t (exclusive, the server's
// clock), deleted ones too, oldest first (Google's default), and hands over page after
// page: what was handed over counts, also when a later page fails, and with ErrEndless.
func (a *API) Since(ctx context.Context, space string, t time.Time, page func([]Message)) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	after := t.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano) // Chat counts microseconds
	list := a.chat.Spaces.Messages.List(space).PageSize(1000).ShowDeleted(true).
		Filter(fmt.Sprintf("createTime > %q", after))
	next := func(got *chat.ListMessagesResponse) string { return got.NextPageToken }
	err := list.Pages(ctx, BoundPages(next, func(got *chat.ListMessagesResponse) {
		// in whole seconds: a small difference is none, and would change what was said
		// first
		now := clock(got.Header)
		if ahead := time.Until(now); !now.IsZero() &&
			(a.Ahead == 0 || (ahead-a.Ahead).Abs() > 2*time.Second) {
			a.Ahead = ahead
		}
		var ms []Message
		for _, m := range got.Messages {
			if m != nil {
				ms = append(ms, fromChat(m))
			}
		}
		page(ms)
	}))
	if err != nil {
		err = a.failed("read messages", space, err)
	}
	return err
}

// Posted finds the message that was posted with that MessageID after t, by the server's
// clock: by its id, and in the list where that finds none. The id is described for the
// app that gave it (spaces.messages.get): a person's login may not know a webhook's.
func (a *API) Posted(ctx context.Context, space, id string, t time.Time) (Message, error) {
	found, err := a.ByClientID(ctx, space, id)
	if !gone(err) {
		return found, err
	}
	lerr := a.Since(ctx, space, t, func(page []Message) {
		for _, m := range page {
			if m.ClientID == id {
				found, err = m, nil
			}
		}
	})
	if err != nil && lerr != nil {
		err = lerr
	}
	return found, err
}

// ByClientID gets the message that was posted with that MessageID.
func (a *API) ByClientID(ctx context.Context, space, id string) (Message, error) {
	m, err := call(
		ctx,
		a,
		listTimeout,
		"read messages",
		space,
		a.chat.Spaces.Messages.Get(space+"/messages/"+a.named(id)),
	)
	if err != nil {
		return Message{}, err
	}
	return fromChat(m), nil
}

// Describe asks Chat what kind of space that is. Of a person's login it takes the scope
// chat.spaces.readonly.
func (a *API) Describe(ctx context.Context, name string) (*chat.Space, error) {
	return call(ctx, a, listTimeout, "look at the space", name, a.chat.Spaces.Get(name))
}

func fromChat(m *chat.Message) Message {
	sender := cmp.Or(m.Sender, &chat.User{})
	out := Message{
		Name: m.Name, ThreadName: cmp.Or(m.Thread, &chat.Thread{}).Name, Text: cmp.Or(m.ArgumentText, m.Text),
		SenderEmail: sender.Email, DisplayName: sender.DisplayName, Human: sender.Type == "HUMAN",
		ClientID: m.ClientAssignedMessageId, Deleted: m.DeleteTime != "", Reply: m.ThreadReply,
		Attached: len(m.Attachment)+len(m.AttachedGifs) > 0,
		Quotes:   cmp.Or(m.QuotedMessageMetadata, &chat.QuotedMessageMetadata{}).Name,
	}
	if strings.HasPrefix(sender.Name, "users/") {
		// another name could be one that we keep for ourselves
		out.Sender = sender.Name
	}
	out.CreateTime, _ = time.Parse(time.RFC3339Nano, m.CreateTime)
	return out
}

// apiError turns the client library's errors into ours. It does not say which of them an
// answer brought that it could not read.
func apiError(err error) error {
	var api *googleapi.Error
	var token *auth.Error
	ended := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	switch {
	case errors.As(err, &api):
		e := answeredError(api.Code, api.Header, []byte(api.Body))
		e.Message = cmp.Or(e.Message, shorten(api.Message, 300))
		return e
	case errors.As(err, &token):
		code, header, said := 0, http.Header{}, ReadRefusal(token.Body)
		if token.Response != nil {
			code, header = token.Response.StatusCode, token.Response.Header
		}
		return tokenError(code, header, said, LoginHint(said))
	case !ended && !errors.As(err, new(*url.Error)) && !errors.Is(err, ErrNonsense):
		return fmt.Errorf("%w: %w", ErrNonsense, err)
	}
	if m := impersonation().FindStringSubmatch(err.Error()); m != nil {
		code, _ := strconv.Atoi(m[1])
		said := cmp.Or(answeredError(code, nil, []byte(m[2])).Message, "no reason was told")
		return tokenError(code, nil, m[1]+" "+said, impersonationHint)
	}
	return unquote(err)
}

type Person struct {
	Name        string // users/ID
	Email       string // where Chat gives it
	DisplayName string // where Chat gives it
}

// ErrNotTold says that Chat cannot tell who the credentials belong to: that person wrote
// nothing that a search finds.
var ErrNotTold = errors.New("chat does not tell who that is")

// Me is the person whose login reads. With the scopes that reading takes, the API does
// not tell who that is (members.get takes chat.memberships.readonly), but messages.search
// finds the messages of "users/me", and a message has its sender. Errors are ErrNotTold,
// ErrCredentials and the API's.
func (r *API) Me(ctx context.Context) (Person, error) {
	mine := &chat.SearchMessagesRequest{Filter: `sender.name = "users/me"`, PageSize: 25}
	// not what was said
	search := r.chat.Spaces.Messages.Search("spaces/-", mine).Fields("results/message/sender")
	got, err := call(ctx, r, listTimeout, "ask who logged in", "", search)
	if err != nil {
		return Person{}, err
	}
	var me Person
	for _, res := range got.Results {
		if res == nil || res.Message == nil || res.Message.Sender == nil {
			continue
		}
		s := res.Message.Sender
		if s.Type != "HUMAN" || !config.IsPersonName(s.Name) || me.Name != "" && s.Name != me.Name {
			return Person{}, ErrNotTold // two senders: the filter was not understood
		}
		me = Person{s.Name, s.Email, s.DisplayName}
	}
	if me.Name == "" {
		return me, ErrNotTold
	}
	return me, nil
}
