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
	writer      http.ResponseWriter
	claims      *Claims
	query       url.Values
	space       string // spaces/S, where the path names one
	messageName string // spaces/S/messages/M, where the path names one
}

// checkAllowed refuses what is not the machine's: another space, and a message that
// another machine posted, for the app owns them all. It refuses query names that the call
// does not take, and one that comes twice.
func (c *call) checkAllowed(allowedNames []string) error {
	for name, values := range c.query {
		if len(values) != 1 || !slices.Contains(append(allowedNames, "alt", "prettyPrint"), name) {
			return newRefusal(
				http.StatusBadRequest,
				"a query has a name that is not known here, or one twice",
			)
		}
	}
	c.space = "spaces/" + c.PathValue("space")
	c.messageName = c.space + "/messages/" + c.PathValue("message")
	switch {
	case c.PathValue("space") != "" && c.space != c.claims.Space && c.space != c.claims.DirectSpace:
		return newRefusal(http.StatusForbidden, "that space is not this machine's")
	case c.PathValue("message") != "" && !c.claims.ownsMessageID(c.PathValue("message")):
		return newRefusal(
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
	maxCalls, maxCallsInFlight       = 600, 8
	maxSpaceWrites, maxMachineWrites = 60, 40
)

// maxRemembered is how much a hub remembers of one kind, before it begins anew.
const maxRemembered = 100_000

// limitRate refuses what goes beyond so many a minute, or half of them at once.
func (h *Hub) limitRate(key string, perMinute int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.limiters[key] == nil {
		if len(h.limiters) >= maxRemembered {
			clear(h.limiters)
		}
		h.limiters[key] = rate.NewLimiter(
			rate.Every(time.Minute/time.Duration(perMinute)),
			perMinute/2,
		)
	}
	if !h.limiters[key].Allow() {
		return tooManyRequests()
	}
	return nil
}

func tooManyRequests() error {
	r := newRefusal(http.StatusTooManyRequests, "this machine asks too much")
	r.retryAfter = time.Second
	return r
}

// reserveCall lets so many calls of a machine, or answers to a person, be under way,
// until the end of each one's context. Each holds memory, and connections to Google.
func (h *Hub) reserveCall(ctx context.Context, caller string, limit int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.callsInFlight[caller] >= limit {
		return tooManyRequests()
	}
	h.callsInFlight[caller]++
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.callsInFlight[caller]--
		if h.callsInFlight[caller] == 0 {
			delete(h.callsInFlight, caller)
		}
	})
	return nil
}

// decodeBody reads a request's body to its end: what a pull leaves unread would be waited
// for without a bound.
func decodeBody(r *http.Request, into any) error {
	b, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(b, into) != nil {
		return newRefusal(http.StatusBadRequest, "the body is no JSON of that call, or too large")
	}
	return nil
}

// readMessage reads what a machine writes, in its turn: text and cards. What else a
// message has in Chat is not passed on: it could show files, or quote what others said.
func (h *Hub) readMessage(c *call) (*chat.Message, error) {
	body := &chat.Message{}
	var err error
	if c.space != c.claims.DirectSpace {
		err = h.limitRate("writes of "+c.claims.Machine, maxMachineWrites)
	}
	if err == nil {
		err = h.limitRate(c.space, maxSpaceWrites)
	}
	if err == nil {
		err = decodeBody(c.Request, body)
	}
	return &chat.Message{
		Text: body.Text, MarkupSyntax: body.MarkupSyntax, CardsV2: body.CardsV2, FallbackText: body.FallbackText,
		PrivateMessageViewer: body.PrivateMessageViewer, Thread: body.Thread,
	}, err
}

// ownsMessageID says whether a message's id is one that this machine gave it.
func (c *Claims) ownsMessageID(id string) bool {
	rest, ok := strings.CutPrefix(id, "client-"+c.Machine+"-")
	isForbidden := func(r rune) bool { return !(r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z') }
	return ok && rest != "" && !strings.ContainsFunc(rest, isForbidden)
}

func (h *Hub) createMessage(c *call) (any, error) {
	id := c.query.Get("messageId")
	if !c.claims.ownsMessageID(id) || c.query.Has("requestId") && c.query.Get("requestId") != id {
		// a request's id gives back its message
		return nil, newRefusal(
			http.StatusForbidden,
			"messageId begins with client-"+c.claims.Machine+"-, and requestId is the same",
		)
	}
	if sharedID, isShared := strings.CutPrefix(id, "client-"+c.claims.Machine+"-"+gchat.OnceMark); isShared {
		// no machine gets or changes it
		id = fmt.Sprintf(
			"client-%x-%s",
			h.macOf("once " + c.claims.User + " " + c.space)[:6],
			sharedID,
		)
	}
	message, err := h.readMessage(c)
	if err != nil {
		return nil, err
	}
	if thread := message.Thread; thread != nil && thread.Name != "" {
		if err := h.checkThread(c, thread.Name); err != nil {
			return nil, err
		}
		thread.ThreadKey = ""
	} else if thread != nil && thread.ThreadKey != "" {
		// the app's keys are those of all machines
		thread.ThreadKey = c.claims.Machine + "-" + thread.ThreadKey
	}
	create := h.Chat.Spaces.Messages.Create(c.space, message).MessageId(id).RequestId(id)
	if option := c.query.Get("messageReplyOption"); option != "" {
		create.MessageReplyOption(option)
	}
	created, err := create.Context(c.Context()).Do()
	if err == nil {
		h.Log.Info().
			Str("machine", c.claims.Machine).
			Str("user", c.claims.User).
			Str("space", c.space).
			Str("id", id).
			Msg("posted")
	}
	return created, err
}

// checkThread refuses a thread that neither the machine nor its person began: words there
// would seem to be a colleague's machine's. Chat's first message of spaces/S/threads/T is
// spaces/S/messages/T.T, as observed; where that is not so, the machine begins a thread
// anew. In a direct message all threads are one person's.
func (h *Hub) checkThread(c *call, thread string) error {
	id, ok := strings.CutPrefix(thread, c.space+"/threads/")
	if !ok || id == "" || strings.ContainsAny(id, "/?#%") {
		return newRefusal(http.StatusBadRequest, "the thread is none of that space")
	}
	key := c.claims.Machine + " " + thread
	h.mu.Lock()
	isKnown := h.writableThreads[key]
	h.mu.Unlock()
	if isKnown || c.space == c.claims.DirectSpace {
		return nil
	}
	first, err := h.Chat.Spaces.Messages.Get(c.space + "/messages/" + id + "." + id).
		Context(c.Context()).
		Do()
	switch code := googleStatus(err); {
	case code == http.StatusNotFound || code == http.StatusForbidden:
	case err != nil:
		return err
	case c.claims.ownsMessageID(first.ClientAssignedMessageId) || first.Sender != nil && first.Sender.Name == c.claims.User:
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.writableThreads) >= maxRemembered {
			clear(h.writableThreads)
		}
		h.writableThreads[key] = true
		return nil
	}
	return newRefusal(
		http.StatusBadRequest,
		"the thread is neither this machine's nor its person's",
	)
}

func (h *Hub) getMessage(c *call) (any, error) {
	return h.Chat.Spaces.Messages.Get(c.messageName).Context(c.Context()).Do()
}

func (h *Hub) patchMessage(c *call) (any, error) {
	m, err := h.readMessage(c)
	if err != nil {
		return nil, err
	}
	return h.Chat.Spaces.Messages.Patch(c.messageName, m).
		UpdateMask(c.query.Get("updateMask")).
		Context(c.Context()).
		Do()
}

func (h *Hub) getSpace(c *call) (any, error) {
	return h.Chat.Spaces.Get(c.space).Context(c.Context()).Do()
}

// callSubscription pulls from the machine's subscription, or acknowledges there.
func (h *Hub) callSubscription(c *call) (any, error) {
	subscription := h.subscriptionName(c.claims.Machine)
	name, verb, _ := strings.Cut(
		"projects/"+c.PathValue("project")+"/subscriptions/"+c.PathValue("to"),
		":",
	)
	if name != subscription {
		return nil, newRefusal(http.StatusForbidden, "that subscription is not this machine's")
	}
	switch verb {
	case "pull":
		return h.pullEvents(c, subscription)
	case "acknowledge":
		request := &pubsub.AcknowledgeRequest{}
		if err := decodeBody(c.Request, request); err != nil {
			return nil, err
		}
		return h.PubSub.Projects.Subscriptions.Acknowledge(subscription, request).
			Context(c.Context()).
			Do()
	}
	return nil, newRefusal(http.StatusNotFound, "there is no such call at a hub")
}

// pullEvents waits for events of the machine's spaces. Where this replica ends, the
// machine pulls at another.
func (h *Hub) pullEvents(c *call, subscription string) (any, error) {
	request := &pubsub.PullRequest{}
	if err := decodeBody(c.Request, request); err != nil {
		return nil, err
	}
	// the request has come, and its answer takes longer
	_ = http.NewResponseController(c.writer).SetReadDeadline(time.Time{})
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	defer context.AfterFunc(h.drainContext, cancel)()
	upstreamRequest := &pubsub.PullRequest{MaxMessages: min(max(request.MaxMessages, 1), 100)}
	response, err := h.PubSub.Projects.Subscriptions.Pull(subscription, upstreamRequest).
		Context(ctx).
		Do()
	if ctx.Err() != nil {
		return &pubsub.PullResponse{}, nil
	}
	if googleStatus(err) == http.StatusNotFound { // just revoked
		h.mu.Lock()
		delete(h.subscriptions, subscription)
		h.mu.Unlock()
		return nil, h.checkSubscription(c.Context(), c.claims)
	}
	if err != nil {
		return nil, err
	}
	for _, m := range response.ReceivedMessages {
		m.Message.MessageId, m.Message.Attributes = m.Message.Attributes[idAttribute], nil
	}
	if n := len(response.ReceivedMessages); n > 0 {
		h.Log.Info().
			Str("machine", c.claims.Machine).
			Str("user", c.claims.User).
			Int("events", n).
			Msg("pulled")
	}
	return response, nil
}
