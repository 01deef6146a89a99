package gchat

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"google.golang.org/api/chat/v1"
	"google.golang.org/api/option"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// postTimeout bounds one try to post. A message that timed out may have arrived: the next
// try carries the same id.
const postTimeout = 10 * time.Second

// Webhook posts to one space: spaces.messages.create, authenticated by the key and token
// in its URL.
type Webhook struct {
	*API // its base is the webhook's URL, with the secrets
}

var webhookPathPattern = state.LazyPattern(`^(.*/)?v1/(spaces/[^/]+)/messages/?$`)

// ParseWebhook is the webhook of a configuration whose URL, or command for it, gave
// raw: the URL that a space's page "Apps & integrations > Webhooks" gives,
// https://chat.googleapis.com/v1/spaces/S/messages?key=K&token=T. Plain http is taken for
// this machine only. An HTML-escaped URL (&amp;) is mended. With a configured space, the
// URL may be of another form (a gateway's). With an API endpoint in place of Google's, a
// webhook of Google's is posted to there. No error quotes the URL.
func ParseWebhook(cfg *config.Config, raw string) (*Webhook, error) {
	u, err := url.Parse(
		strings.ReplaceAll(strings.Trim(strings.TrimSpace(raw), `"'`), "&amp;", "&"),
	)
	if err != nil || !IsAllowedBaseURL(u) {
		return nil, ErrNotWebhook
	}
	space := cfg.SpaceID
	if m := webhookPathPattern().FindStringSubmatch(u.Path); m != nil {
		space = m[2] // replies come where it posts, and not to another space that is configured
	}
	if space == "" {
		return nil, ErrNotWebhook
	}
	isEmbedded := u.Scheme == "http" && space == embeddedSpaceName
	if q := u.Query(); (u.Host == googleHost || isEmbedded) &&
		(q.Get("key") == "" || q.Get("token") == "") {
		return nil, withEmbeddedSpaceHint(
			fmt.Errorf("%w: it has no key or no token", ErrNotWebhook),
			u,
			space,
		)
	}
	if u.Host == googleHost && cfg.APIEndpoint != "" {
		base, err := ParseEndpoint(cfg.APIEndpoint)
		if err != nil {
			return nil, err
		}
		u.Scheme, u.Host, u.Path = base.Scheme, base.Host, base.Path+u.Path
	}
	w := &Webhook{&API{Space: space, baseURL: u}}
	client := &http.Client{Transport: w, CheckRedirect: noRedirectClient.CheckRedirect}
	w.chat, err = chat.NewService(context.Background(), option.WithHTTPClient(client))
	return w, err
}

const googleHost = "chat.googleapis.com"

// NewWebhook is the webhook of a configuration; its command is run where it has one.
func NewWebhook(ctx context.Context, cfg *config.Config) (*Webhook, error) {
	raw, err := cfg.ResolveWebhook(ctx)
	if err != nil {
		return nil, err
	}
	return ParseWebhook(cfg, raw)
}

// ID tells one webhook from another without its secret.
func (w *Webhook) ID() string { return state.Hash(8, w.baseURL.String()) }

// IsLocalChat says whether a chat (host/spaces/S) is on this machine, as the embedded
// space is.
func IsLocalChat(chat string) bool {
	host, _, _ := strings.Cut(chat, "/")
	u := url.URL{Host: host}
	return host != "" && isLoopback(u.Hostname())
}

// LocalEndpoint is the API's base URL when the webhook is on this machine, as the
// embedded space's is, whose token stays in it; "" otherwise.
func (w *Webhook) LocalEndpoint() string {
	if w.baseURL.Scheme != "http" {
		return ""
	}
	path, _, _ := strings.Cut(w.baseURL.Path, "v1/spaces/")
	return (&url.URL{Scheme: "http", Host: w.baseURL.Host, Path: path}).String()
}

// Post is a message to be created.
type Post struct {
	Text       string // Chat's own markup, at most MaxText bytes
	ThreadName string // reply in this thread, or
	// in the thread of this key, which it begins if need be; both "" begin a thread of
	// their own
	ThreadKey string
	MessageID string // client-…: Chat keeps one message of an id
	// of an app, a StoredCard: Text then stands where no card can be shown
	Card   json.RawMessage
	Viewer string // users/ID: of an app, only that person sees it; "" for all
	About  About  // for the page of the embedded space; Google does not look at it
}

// About says what a message is about, where no card does.
type About struct {
	// a state.ReportType, or what a rule knows it by; "note …" for a note about a reply
	Kind    string
	Session string // its name
}

// AboutHeader is the header of a request that says it.
const AboutHeader = "Gchat-Hooks-About"

func (p Post) chatMessage() *chat.Message {
	m := &chat.Message{Text: p.Text}
	if p.Text != "" {
		m.MarkupSyntax = "MARKUP_SYNTAX_CHAT"
	}
	if len(p.Card) > 0 {
		m.Text, m.FallbackText, m.CardsV2 = "", p.Text, cardsV2(p.Card)
	}
	if p.Viewer != "" {
		m.PrivateMessageViewer = &chat.User{Name: p.Viewer}
	}
	if p.ThreadName != "" {
		m.Thread = &chat.Thread{Name: p.ThreadName}
	} else if p.ThreadKey != "" {
		m.Thread = &chat.Thread{ThreadKey: p.ThreadKey}
	}
	return m
}

// Body is the JSON that is posted.
func (p Post) Body() []byte {
	b, _ := p.chatMessage().MarshalJSON() // text always encodes
	return b
}

// PostedMessage is what Chat tells of a created message: a webhook's answer has no more.
type PostedMessage struct {
	Name       string    // spaces/S/messages/M
	ThreadName string    // spaces/S/threads/T
	ServerTime time.Time // the server's clock; zero when it did not say
}

// MessageName is the name of the message with an id in a space: spaces/S/messages/ID,
// where ID may be the one that its sender gave it (client-…).
func MessageName(space, id string) string { return space + "/messages/" + id }

// SpaceOf is the space that a thread or message is in: spaces/S.
func SpaceOf(name string) (space string) {
	space, _, _ = strings.Cut(name, "/threads/")
	space, _, _ = strings.Cut(space, "/messages/")
	return space
}

// ChatAtEndpoint is host/spaces/S of a space at an endpoint of the API; "" is Google's.
func ChatAtEndpoint(endpoint, space string) string {
	host := googleHost
	if u, err := url.Parse(endpoint); err == nil {
		host = cmp.Or(u.Host, host)
	}
	return host + "/" + space
}

// IsThreadName says whether a text has the form spaces/S/threads/T.
func IsThreadName(s string) bool {
	matches, _ := path.Match("spaces/?*/threads/?*", s)
	return matches
}

// noRedirectClient follows none, which would carry the secret away. It is shared: a
// process posts to one host, mostly once, and HTTP/2 would only cost it time.
var noRedirectClient = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport: bodyLimiter{&http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dial, TLSHandshakeTimeout: postTimeout, IdleConnTimeout: 90 * time.Second,
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}},
}

// RoundTrip takes a call to where the webhook is. Its secrets come in here, so that no
// error of the caller's holds them.
func (w *Webhook) RoundTrip(r *http.Request) (*http.Response, error) {
	target := *w.baseURL
	target.RawQuery = strings.Trim(target.RawQuery+"&"+r.URL.RawQuery, "&")
	r = r.Clone(r.Context())
	r.URL, r.Host = &target, target.Host
	return noRedirectClient.Transport.RoundTrip(r)
}

// Post creates the message. Errors are *APIError where Chat answered, ErrBadResponse, or
// of the transport; none holds the URL. IsAlreadyExists(err) means that an earlier try
// with this MessageID had arrived.
func (a *API) Post(ctx context.Context, p Post) (posted PostedMessage, err error) {
	create := a.chat.Spaces.Messages.Create(a.Space, p.chatMessage())
	if p.ThreadName != "" || p.ThreadKey != "" {
		// Without the option Chat ignores the thread; without a thread it refuses the
		// option.
		create.MessageReplyOption("REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD")
	}
	if p.MessageID != "" {
		id := a.chatMessageID(p.MessageID)
		create.MessageId(id).RequestId(id)
	}
	if p.About.Kind != "" {
		create.Header().
			Set(AboutHeader, url.Values{"kind": {p.About.Kind}, "session": {p.About.Session}}.Encode())
	}
	created, err := call(ctx, a, postTimeout, "post message", a.Space, create)
	if err != nil {
		return posted, err
	}
	if matches, _ := path.Match(a.Space+"/messages/?*", created.Name); !matches {
		return posted, a.callError("post message", a.Space, ErrBadResponse)
	}
	posted.Name = created.Name
	thread := cmp.Or(created.Thread, &chat.Thread{}).Name
	if matches, _ := path.Match(a.Space+"/threads/?*", thread); matches {
		posted.ThreadName = thread
	}
	createTime, err := time.Parse(time.RFC3339Nano, created.CreateTime)
	if err != nil { // the answer's own time, in whole seconds
		createTime = serverTime(created.Header)
	}
	posted.ServerTime = createTime.UTC()
	return posted, nil
}

// serverTime is the time of an answer by its server's clock, in whole seconds; zero where
// it does not say.
func serverTime(h http.Header) time.Time {
	t, _ := http.ParseTime(h.Get("Date"))
	return t
}

// readAPIError reads Google's error envelope; a body that is none is left out: it may be
// a proxy's page.
func readAPIError(status int, h http.Header, body []byte) *APIError {
	e := &APIError{HTTP: status, RetryAfter: parseRetryAfter(h), serverTime: serverTime(h)}
	var envelope struct {
		Error struct{ Message, Status string }
	}
	if json.Unmarshal(body, &envelope) == nil {
		e.Message = shorten(envelope.Error.Message, 300)
		e.Status = shorten(envelope.Error.Status, 60)
	}
	return e
}

// shorten keeps foreign words from filling a log.
func shorten(s string, n int) string {
	return wording.Truncate(strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), ""), n)
}

// Probe asks Chat whether it lets the webhook in, and posts nothing: it posts an empty
// message, which Chat refuses as empty ("Message cannot be empty.") once key and token
// are right, as its answers suggest, and with other words when they are not. ahead is how
// far Chat's clock is ahead of ours, to about a second. Errors are those of Post. What
// stands in for Chat may take the empty message and tell its name: it let the webhook in,
// too.
func (w *Webhook) Probe(ctx context.Context) (ahead time.Duration, err error) {
	posted, err := w.Post(ctx, Post{})
	apiErr := asAPIError(err)
	if serverNow := cmp.Or(posted.ServerTime, apiErr.serverTime); !serverNow.IsZero() {
		ahead = time.Until(serverNow)
	}
	if apiErr.HTTP == http.StatusBadRequest && apiErr.Status == "INVALID_ARGUMENT" &&
		!apiErr.hasBadKey() {
		return ahead, nil
	}
	return ahead, err
}

// ThreadLink is the address that opens a thread in a browser; "" where none is known.
// Chat is host/spaces/S. Of Google Chat it is the form of the links that its own page
// gives out, which Google does not document; of the embedded space on this machine it is
// its page, which asks for the token that status must not show.
func ThreadLink(chat, thread string) string {
	host, space, _ := strings.Cut(chat, "/")
	id, ok := strings.CutPrefix(thread, space+"/threads/")
	name, _, err := net.SplitHostPort(host)
	switch {
	case !ok || id == "" || url.PathEscape(id) != id:
		return ""
	case host == googleHost:
		return "https://chat.google.com/room/" + strings.TrimPrefix(space, "spaces/") + "/" + id
	case err == nil && space == embeddedSpaceName && isLoopback(name):
		return "http://" + host + "/#" + id
	}
	return ""
}
