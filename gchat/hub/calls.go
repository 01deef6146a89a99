package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/api/chat/v1"
	"google.golang.org/api/pubsub/v1"

	"gchat-hooks/gchat"
)

// A call is a request of a machine's.
type call struct {
	*http.Request
	w     http.ResponseWriter
	who   *Claims
	query url.Values
	in    string // spaces/S, where the path names one
	name  string // spaces/S/messages/M, where the path names one
}

// allowed refuses what is not the machine's: another space, and a message that another
// machine posted, for the app owns them all. It refuses query names that the call does
// not take, and one that comes twice.
func (c *call) allowed(query []string) error {
	for name, values := range c.query {
		if len(values) != 1 || !slices.Contains(append(query, "alt", "prettyPrint"), name) {
			return refuse(
				http.StatusBadRequest,
				"a query has a name that is not known here, or one twice",
			)
		}
	}
	c.in = "spaces/" + c.PathValue("space")
	c.name = c.in + "/messages/" + c.PathValue("message")
	switch {
	case c.PathValue("space") != "" && c.in != c.who.Space && c.in != c.who.Direct:
		return refuse(http.StatusForbidden, "that space is not this machine's")
	case c.PathValue("message") != "" && !c.who.ownID(c.PathValue("message")):
		return refuse(
			http.StatusForbidden,
			"that is no id with which this machine posted a message",
		)
	}
	return nil
}

// What may be done in a minute. Chat takes 60 writes a minute in a space, and 3,000 reads
// and 3,000 writes of an app: one machine leaves room for others, also in a named space.
// A poller has two pulls under way.
const (
	mostCalls, mostUnderWay = 600, 8
	mostWrites, mostShare   = 60, 40
)

// mostKept is how much a hub remembers of one kind, before it begins anew.
const mostKept = 100_000

// pace refuses what goes beyond so many a minute, or half of them at once.
func (h *Hub) pace(key string, most int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.paces[key] == nil {
		if len(h.paces) >= mostKept {
			clear(h.paces)
		}
		h.paces[key] = rate.NewLimiter(rate.Every(time.Minute/time.Duration(most)), most/2)
	}
	if !h.paces[key].Allow() {
		return tooMany()
	}
	return nil
}

func tooMany() error {
	r := refuse(http.StatusTooManyRequests, "this machine asks too much")
	r.after = time.Second
	return r
}

// begin lets so many calls of a machine, or answers to a person, be under way, until the
// end of each one's context. Each holds memory, and connections to Google.
func (h *Hub) begin(ctx context.Context, who string, most int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.underWay[who] >= most {
		return tooMany()
	}
	h.underWay[who]++
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.underWay[who]--
		if h.underWay[who] == 0 {
			delete(h.underWay, who)
		}
	})
	return nil
}

// decode reads a request's body to its end: what a pull leaves unread would be waited for
// without a bound.
func decode(r *http.Request, into any) error {
	b, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(b, into) != nil {
		return refuse(http.StatusBadRequest, "the body is no JSON of that call, or too large")
	}
	return nil
}

// message reads what a machine writes, in its turn: text and cards. What else a message
// has in Chat is not passed on: it could show files, or quote what others said.
func (h *Hub) message(c *call) (*chat.Message, error) {
	in := &chat.Message{}
	var err error
	if c.in != c.who.Direct {
		err = h.pace("writes of "+c.who.Machine, mostShare)
	}
	if err == nil {
		err = h.pace(c.in, mostWrites)
	}
	if err == nil {
		err = decode(c.Request, in)
	}
	return &chat.Message{
		Text: in.Text, MarkupSyntax: in.MarkupSyntax, CardsV2: in.CardsV2, FallbackText: in.FallbackText,
		PrivateMessageViewer: in.PrivateMessageViewer, Thread: in.Thread,
	}, err
}

// ownID says whether a message's id is one that this machine gave it.
func (c *Claims) ownID(id string) bool {
	rest, ok := strings.CutPrefix(id, "client-"+c.Machine+"-")
	odd := func(r rune) bool { return !(r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z') }
	return ok && rest != "" && !strings.ContainsFunc(rest, odd)
}

func (h *Hub) create(c *call) (any, error) {
	id := c.query.Get("messageId")
	if !c.who.ownID(id) || c.query.Has("requestId") && c.query.Get("requestId") != id {
		// a request's id gives back its message
		return nil, refuse(
			http.StatusForbidden,
			"messageId begins with client-"+c.who.Machine+"-, and requestId is the same",
		)
	}
	if once, is := strings.CutPrefix(id, "client-"+c.who.Machine+"-"+gchat.OnceMark); is {
		// no machine gets or changes it
		id = fmt.Sprintf("client-%x-%s", h.mac("once " + c.who.User + " " + c.in)[:6], once)
	}
	m, err := h.message(c)
	if err != nil {
		return nil, err
	}
	if t := m.Thread; t != nil && t.Name != "" {
		if err := h.ownThread(c, t.Name); err != nil {
			return nil, err
		}
		t.ThreadKey = ""
	} else if t != nil && t.ThreadKey != "" {
		t.ThreadKey = c.who.Machine + "-" + t.ThreadKey // the app's keys are those of all machines
	}
	create := h.Chat.Spaces.Messages.Create(c.in, m).MessageId(id).RequestId(id)
	if option := c.query.Get("messageReplyOption"); option != "" {
		create.MessageReplyOption(option)
	}
	made, err := create.Context(c.Context()).Do()
	if err == nil {
		h.Log.Info().
			Str("machine", c.who.Machine).
			Str("user", c.who.User).
			Str("space", c.in).
			Str("id", id).
			Msg("posted")
	}
	return made, err
}

// ownThread refuses a thread that neither the machine nor its person began: words there
// would seem to be a colleague's machine's. Chat's first message of spaces/S/threads/T is
// spaces/S/messages/T.T, as observed; where that is not so, the machine begins a thread
// anew. In a direct message all threads are one person's.
func (h *Hub) ownThread(c *call, thread string) error {
	id, ok := strings.CutPrefix(thread, c.in+"/threads/")
	if !ok || id == "" || strings.ContainsAny(id, "/?#%") {
		return refuse(http.StatusBadRequest, "the thread is none of that space")
	}
	key := c.who.Machine + " " + thread
	h.mu.Lock()
	known := h.threads[key]
	h.mu.Unlock()
	if known || c.in == c.who.Direct {
		return nil
	}
	first, err := h.Chat.Spaces.Messages.Get(c.in + "/messages/" + id + "." + id).
		Context(c.Context()).
		Do()
	switch code := codeOf(err); {
	case code == http.StatusNotFound || code == http.StatusForbidden:
	case err != nil:
		return err
	case c.who.ownID(first.ClientAssignedMessageId) || first.Sender != nil && first.Sender.Name == c.who.User:
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.threads) >= mostKept {
			clear(h.threads)
		}
		h.threads[key] = true
		return nil
	}
	return refuse(http.StatusBadRequest, "the thread is neither this machine's nor its person's")
}

func (h *Hub) get(c *call) (any, error) {
	return h.Chat.Spaces.Messages.Get(c.name).Context(c.Context()).Do()
}

func (h *Hub) patch(c *call) (any, error) {
	m, err := h.message(c)
	if err != nil {
		return nil, err
	}
	return h.Chat.Spaces.Messages.Patch(c.name, m).
		UpdateMask(c.query.Get("updateMask")).
		Context(c.Context()).
		Do()
}

func (h *Hub) space(c *call) (any, error) {
	return h.Chat.Spaces.Get(c.in).Context(c.Context()).Do()
}

// subscription pulls from the machine's subscription, or acknowledges there.
func (h *Hub) subscription(c *call) (any, error) {
	own := h.subscriptionOf(c.who.Machine)
	name, verb, _ := strings.Cut(
		"projects/"+c.PathValue("project")+"/subscriptions/"+c.PathValue("to"),
		":",
	)
	if name != own {
		return nil, refuse(http.StatusForbidden, "that subscription is not this machine's")
	}
	switch verb {
	case "pull":
		return h.pull(c, own)
	case "acknowledge":
		in := &pubsub.AcknowledgeRequest{}
		if err := decode(c.Request, in); err != nil {
			return nil, err
		}
		return h.PubSub.Projects.Subscriptions.Acknowledge(own, in).Context(c.Context()).Do()
	}
	return nil, refuse(http.StatusNotFound, "there is no such call at a hub")
}

// pull waits for events of the machine's spaces. Where this replica ends, the machine
// pulls at another.
func (h *Hub) pull(c *call, from string) (any, error) {
	in := &pubsub.PullRequest{}
	if err := decode(c.Request, in); err != nil {
		return nil, err
	}
	// the request has come, and its answer takes longer
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{})
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	defer context.AfterFunc(h.drain, cancel)()
	ask := &pubsub.PullRequest{MaxMessages: min(max(in.MaxMessages, 1), 100)}
	got, err := h.PubSub.Projects.Subscriptions.Pull(from, ask).Context(ctx).Do()
	if ctx.Err() != nil {
		return &pubsub.PullResponse{}, nil
	}
	if codeOf(err) == http.StatusNotFound { // just revoked
		h.mu.Lock()
		delete(h.stands, from)
		h.mu.Unlock()
		return nil, h.joined(c.Context(), c.who)
	}
	if err != nil {
		return nil, err
	}
	for _, m := range got.ReceivedMessages {
		m.Message.MessageId, m.Message.Attributes = m.Message.Attributes[idAttribute], nil
	}
	if n := len(got.ReceivedMessages); n > 0 {
		h.Log.Info().
			Str("machine", c.who.Machine).
			Str("user", c.who.User).
			Int("events", n).
			Msg("pulled")
	}
	return got, nil
}
