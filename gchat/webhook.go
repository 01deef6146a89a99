package gchat

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
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

// postTimeout bounds one try to post. A message whose post timed out may have arrived, so
// the next try uses the same id.
const postTimeout = 10 * time.Second

// Webhook posts to one space with spaces.messages.create. The key and the token in its
// URL authenticate it.
type Webhook struct {
	*API // its baseURL is the webhook's URL, with the secrets
}

var webhookPathPattern = state.LazyPattern(`^(.*/)?v1/(spaces/[^/]+)/messages/?$`)

// ParseWebhook parses a webhook's URL, raw, which the configuration or its command gave.
// A space's page "Apps & integrations > Webhooks" gives URLs of the form
// https://chat.googleapis.com/v1/spaces/S/messages?key=K&token=T. Plain http is allowed
// to this machine only. ParseWebhook unescapes &amp;. If the configuration names a space,
// the URL may have another form, such as a gateway's. If it names an API endpoint, the
// webhook posts to that endpoint in place of Google's host. No error quotes the URL.
func ParseWebhook(cfg *config.Config, raw string) (*Webhook, error) {
	raw = strings.Trim(strings.TrimSpace(raw), `"'`)
	u, err := url.Parse(strings.ReplaceAll(raw, "&amp;", "&"))
	if err != nil || !IsAllowedBaseURL(u) {
		return nil, ErrNotWebhook
	}
	space := cfg.SpaceID
	if m := webhookPathPattern().FindStringSubmatch(u.Path); m != nil {
		space = m[2] // replies arrive in the space that it posts to, whatever is configured
	}
	if space == "" {
		return nil, ErrNotWebhook
	}
	needsSecrets := u.Host == googleHost || u.Scheme == "http" && space == embeddedSpaceName
	query := u.Query()
	if needsSecrets && (query.Get("key") == "" || query.Get("token") == "") {
		return nil, withEmbeddedSpaceHint(
			fmt.Errorf("%w: it has no key or no token", ErrNotWebhook), u, space)
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

// NewWebhook returns the webhook of a configuration. If the configuration has a command
// for the URL, NewWebhook runs it.
func NewWebhook(ctx context.Context, cfg *config.Config) (*Webhook, error) {
	raw, err := cfg.ResolveWebhook(ctx)
	if err != nil {
		return nil, err
	}
	return ParseWebhook(cfg, raw)
}

// ID distinguishes one webhook from another without showing its secret.
func (w *Webhook) ID() string { return state.Hash(8, w.baseURL.String()) }

// IsLocalChat reports whether a chat (host/spaces/S) is on this machine, as the embedded
// space is.
func IsLocalChat(chat string) bool {
	host, _, _ := strings.Cut(chat, "/")
	u := url.URL{Host: host}
	return host != "" && isLoopback(u.Hostname())
}

// LocalEndpoint returns the API's base URL if the webhook is on this machine, as that of
// the embedded space is, and "" otherwise. The path keeps the embedded space's token.
func (w *Webhook) LocalEndpoint() string {
	if w.baseURL.Scheme != "http" {
		return ""
	}
	path, _, _ := strings.Cut(w.baseURL.Path, "v1/spaces/")
	return (&url.URL{Scheme: "http", Host: w.baseURL.Host, Path: path}).String()
}

// Post is a message to be created.
type Post struct {
	Text       string // in Chat's markup, at most MaxText bytes
	ThreadName string // the thread to reply in
	// ThreadKey is the key of the thread to reply in. Chat begins that thread if it does
	// not exist. If ThreadName and ThreadKey are both "", the message begins a thread.
	ThreadKey string
	MessageID string // client-…: Chat keeps one message for an id
	// Card is a StoredCard. Only an app can post one. Text is then the fallback, shown
	// where no card can be drawn.
	Card   json.RawMessage
	Viewer string // users/ID, the only person who sees an app's message; "" for everybody
	About  About  // for the page of the embedded space; Google ignores it
	// UploadTokens are of the files that it has; see UploadFile.
	UploadTokens []string
}

// About names the session and the kind of message that a text belongs to.
type About struct {
	// Kind is a state.ReportType, or the word that a rule uses for the message. For a
	// note about a reply it begins with "note ".
	Kind      string
	Session   string // the session's name
	SessionID string // Claude Code's own id of the session; "" for none
}

// AboutHeader is the request header that carries a message's About.
const AboutHeader = "Gchat-Hooks-About"

func (a About) encode() string {
	values := url.Values{"kind": {a.Kind}, "session": {a.Session}}
	if a.SessionID != "" {
		values.Set("session_id", a.SessionID)
	}
	return values.Encode()
}

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
	for _, token := range p.UploadTokens {
		data := &chat.AttachmentDataRef{AttachmentUploadToken: token}
		m.Attachment = append(m.Attachment, &chat.Attachment{AttachmentDataRef: data})
	}
	if p.ThreadName != "" {
		m.Thread = &chat.Thread{Name: p.ThreadName}
	} else if p.ThreadKey != "" {
		m.Thread = &chat.Thread{ThreadKey: p.ThreadKey}
	}
	return m
}

// Body returns the JSON that is posted.
func (p Post) Body() []byte {
	b, _ := p.chatMessage().MarshalJSON() // text always encodes
	return b
}

// PostedMessage is a receipt: what Chat's response says about a created message. The
// response to a webhook has nothing else.
type PostedMessage struct {
	Name       string    // spaces/S/messages/M
	ThreadName string    // spaces/S/threads/T
	ServerTime time.Time // by the server's clock; zero if the response has no time
}

// ChatAtEndpoint returns host/spaces/S for a space at an endpoint of the API. The
// endpoint "" is Google's.
func ChatAtEndpoint(endpoint, space string) string {
	host := googleHost
	if u, err := url.Parse(endpoint); err == nil {
		host = cmp.Or(u.Host, host)
	}
	return host + "/" + space
}

// IsThreadName reports whether a text has the form spaces/S/threads/T.
func IsThreadName(s string) bool {
	matches, _ := path.Match("spaces/?*/threads/?*", s)
	return matches
}

// noRedirectClient follows no redirect, since a redirected request would give the secret
// to another host. The whole process shares it. It does not use HTTP/2: a process posts
// to one host, usually once, so HTTP/2 would only cost time.
var noRedirectClient = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport: bodyLimiter{&http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dial,
		TLSHandshakeTimeout: postTimeout,
		IdleConnTimeout:     90 * time.Second,
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
	}},
}

// RoundTrip sends a request to the webhook's URL. It adds the secrets only here, so that
// no error of the caller contains them.
func (w *Webhook) RoundTrip(r *http.Request) (*http.Response, error) {
	target := *w.baseURL
	target.RawQuery = strings.Trim(target.RawQuery+"&"+r.URL.RawQuery, "&")
	r = r.Clone(r.Context())
	r.URL, r.Host = &target, target.Host
	return noRedirectClient.Transport.RoundTrip(r)
}

// Post creates the message. The error is an *APIError if Chat refused it, ErrBadResponse,
// or an error of the connection. None contains the URL. IsAlreadyExists(err) means that
// an earlier try with this MessageID has arrived.
func (a *API) Post(ctx context.Context, p Post) (posted PostedMessage, err error) {
	create := a.chat.Spaces.Messages.Create(a.Space, p.chatMessage())
	if p.ThreadName != "" || p.ThreadKey != "" {
		// Without the option Chat ignores the thread. With the option and no thread it
		// refuses the message.
		create.MessageReplyOption("REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD")
	}
	if p.MessageID != "" {
		id := a.chatMessageID(p.MessageID)
		create.MessageId(id).RequestId(id)
	}
	if p.About.Kind != "" {
		create.Header().Set(AboutHeader, p.About.encode())
	}
	created, err := call(ctx, a, postTimeout, "post message", a.Space, create)
	if err != nil {
		return posted, err
	}
	// A name in another space shows that Chat did not create the message.
	if matches, _ := path.Match(a.Space+"/messages/?*", created.Name); !matches {
		return posted, a.callError("post message", a.Space, ErrBadResponse)
	}
	posted.Name = created.Name
	thread := cmp.Or(created.Thread, &chat.Thread{}).Name
	if matches, _ := path.Match(a.Space+"/threads/?*", thread); matches {
		posted.ThreadName = thread
	}
	createTime, err := time.Parse(time.RFC3339Nano, created.CreateTime)
	if err != nil { // it has no createTime: its Date has whole seconds
		createTime = serverTime(created.Header)
	}
	posted.ServerTime = createTime.UTC()
	return posted, nil
}

// serverTime returns the time in a response's Date header, in whole seconds. It is zero
// if there is none.
func serverTime(h http.Header) time.Time {
	t, _ := http.ParseTime(h.Get("Date"))
	return t
}

// readAPIError parses Google's error envelope. It ignores a body of another form, which
// may be a proxy's page.
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

// shorten cuts foreign text to n bytes, so that it does not fill a log.
func shorten(s string, n int) string {
	return wording.Truncate(strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), ""), n)
}

// Probe asks Chat whether it accepts the webhook, without posting anything. It sends an
// empty message. If the key and the token are right, Chat refuses the message because it
// is empty ("Message cannot be empty."), as its responses suggest. If they are wrong, its
// error is another one. A server in place of Chat may accept the empty message: then it
// accepts the webhook, too. ahead is how far Chat's clock is ahead of ours, to about a
// second. Errors are those of Post.
func (w *Webhook) Probe(ctx context.Context) (ahead time.Duration, err error) {
	posted, err := w.Post(ctx, Post{})
	apiErr := asAPIError(err)
	if serverNow := cmp.Or(posted.ServerTime, apiErr.serverTime); !serverNow.IsZero() {
		ahead = time.Until(serverNow)
	}
	if apiErr.HTTP == http.StatusBadRequest &&
		apiErr.Status == "INVALID_ARGUMENT" && !apiErr.hasBadKey() {
		return ahead, nil
	}
	return ahead, err
}
