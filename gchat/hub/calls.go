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

// A call is a machine's request.
type call struct {
	*http.Request
	writer      http.ResponseWriter
	claims      *Claims
	query       url.Values
	space       string // spaces/S, if the path names one
	messageName string // spaces/S/messages/M, if the path names one
}

// checkAllowed refuses a call for a space or a message that is not the machine's. To
// Chat, the messages of all machines are the same app's, so only the hub can tell them
// apart. checkAllowed also refuses a query name that the call does not have, and a
// repeated one.
func (c *call) checkAllowed(allowedNames []string) error {
	for name, values := range c.query {
		if len(values) != 1 || !slices.Contains(append(allowedNames, "alt", "prettyPrint"), name) {
			return newRefusal(http.StatusBadRequest, "the query has an unknown name, or one twice")
		}
	}
	space, message := c.PathValue("space"), c.PathValue("message")
	c.space = "spaces/" + space
	c.messageName = c.space + "/messages/" + message
	switch {
	case space != "" && !c.claims.ownsSpace(c.space):
		return newRefusal(http.StatusForbidden, "that space is not this machine's")
	case message != "" && !c.claims.ownsMessageID(message):
		return newRefusal(http.StatusForbidden, "no message of this machine has that id")
	}
	return nil
}

const (
	// maxCalls bounds a machine's calls in a minute, and maxCallsInFlight those under
	// way. A poller has two pulls under way. Chat allows an app 3,000 reads and 3,000
	// writes in a minute, so one machine leaves most of them to the others.
	maxCalls, maxCallsInFlight = 600, 8
	// maxSpaceWrites bounds the writes into a space in a minute. Chat allows 60.
	// maxMachineWrites bounds a machine's writes into a named space in a minute, so that
	// it leaves some to the others there.
	maxSpaceWrites, maxMachineWrites = 60, 40
)

// maxRemembered is how many entries a map of limiters or of threads may have. The hub
// clears a map that is full.
const maxRemembered = 100_000

// limitRate refuses more than perMinute events of a key in a minute, or more than half of
// that at once.
func (h *Hub) limitRate(key string, perMinute int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.limiters[key] == nil {
		if len(h.limiters) >= maxRemembered {
			clear(h.limiters)
		}
		h.limiters[key] = rate.NewLimiter(
			rate.Every(time.Minute/time.Duration(perMinute)), perMinute/2)
	}
	if !h.limiters[key].Allow() {
		return tooManyRequests()
	}
	return nil
}

func tooManyRequests() error {
	r := newRefusal(http.StatusTooManyRequests, "this machine sends too many requests")
	r.retryAfter = time.Second
	return r
}

// reserveCall counts a call of a machine, or a greeting of a person, as under way until
// ctx ends. It refuses the call if limit of them are under way, since each holds memory
// and connections to Google.
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

// decodeBody parses a request's body. It reads the body to its end, because a pull has no
// read deadline afterwards, and the server would wait for the rest without a bound.
func decodeBody(r *http.Request, into any) error {
	b, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(b, into) != nil {
		return newRefusal(http.StatusBadRequest, "the body is not JSON of that call, or too large")
	}
	return nil
}

// readMessage reads the message that a machine writes, if the machine has not written too
// often. It keeps only some of a message's fields, such as text and cards. The other
// fields could show files, or quote messages of others.
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
		Text:                 body.Text,
		MarkupSyntax:         body.MarkupSyntax,
		CardsV2:              body.CardsV2,
		FallbackText:         body.FallbackText,
		PrivateMessageViewer: body.PrivateMessageViewer,
		Thread:               body.Thread,
	}, err
}

// ownsMessageID reports whether an id has the form of those that this machine gives its
// messages.
func (c *Claims) ownsMessageID(id string) bool {
	rest, ok := strings.CutPrefix(id, "client-"+c.Machine+"-")
	return ok && rest != "" && strings.Trim(rest, "-0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// createMessage posts a machine's message. Its id in Chat names the machine, unless the
// machines of a person share it.
func (h *Hub) createMessage(c *call) (any, error) {
	ownPrefix := "client-" + c.claims.Machine + "-"
	id := c.query.Get("messageId")
	// Google answers a known requestId with the message that was created with it. With
	// another machine's requestId, a machine could read that machine's message.
	hasOtherRequestID := c.query.Has("requestId") && c.query.Get("requestId") != id
	if !c.claims.ownsMessageID(id) || hasOtherRequestID {
		return nil, newRefusal(http.StatusForbidden,
			"messageId has to begin with "+ownPrefix+", and requestId has to equal it")
	}
	// All machines of a person get the same id for a message with OnceMark. The id names
	// no machine, so none can read or change the message.
	if sharedID, isShared := strings.CutPrefix(id, ownPrefix+gchat.OnceMark); isShared {
		id = fmt.Sprintf("client-%x-%s",
			h.macOf("once " + c.claims.User + " " + c.space)[:6], sharedID)
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
		// In Chat, thread keys are the app's, so those of two machines could be equal.
		thread.ThreadKey = c.claims.Machine + "-" + thread.ThreadKey
	}
	create := h.Chat.Spaces.Messages.Create(c.space, message).MessageId(id).RequestId(id)
	if option := c.query.Get("messageReplyOption"); option != "" {
		create.MessageReplyOption(option)
	}
	created, err := create.Context(c.Context()).Do()
	if err == nil {
		h.Log.Info().Str("machine", c.claims.Machine).Str("user", c.claims.User).
			Str("space", c.space).Str("id", id).Msg("posted")
	}
	return created, err
}

// checkThread refuses a thread that neither the machine nor its person began. A message
// there would seem to come from a colleague's machine. In a direct message all threads
// belong to one person. If Google has no first message of the thread, the thread is
// refused too, and the machine begins another one.
func (h *Hub) checkThread(c *call, thread string) error {
	id := gchat.ThreadID(c.space, thread)
	if id == "" || strings.ContainsAny(id, "/?#%") {
		return newRefusal(http.StatusBadRequest, "the thread is not in that space")
	}
	key := c.claims.Machine + " " + thread
	h.mu.Lock()
	isKnown := h.writableThreads[key]
	h.mu.Unlock()
	if isKnown || c.space == c.claims.DirectSpace {
		return nil
	}
	first, err := h.Chat.Spaces.Messages.Get(gchat.FirstMessageName(thread)).
		Context(c.Context()).Do()
	switch code := googleStatus(err); {
	case code == http.StatusNotFound, code == http.StatusForbidden,
		err == nil && !c.claims.wrote(first):
		return newRefusal(http.StatusBadRequest,
			"neither this machine nor its person began the thread")
	case err != nil:
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.writableThreads) >= maxRemembered {
		clear(h.writableThreads)
	}
	h.writableThreads[key] = true
	return nil
}

// ownsSpace reports whether the machine posts in a space.
func (c *Claims) ownsSpace(space string) bool {
	return space == c.Space || space == c.DirectSpace
}

// wrote reports whether the machine or its person wrote a message.
func (c *Claims) wrote(m *chat.Message) bool {
	return c.ownsMessageID(m.ClientAssignedMessageId) || m.Sender != nil && m.Sender.Name == c.User
}

// maxMachineFiles bounds the files that a machine fetches in a minute.
const maxMachineFiles = 60

// openFile opens a file that is attached to a message. The path is Google's, whose names
// of files say nothing about the space. So the query names the message, and openFile
// looks at it: it is in a space and a thread of the machine, and the file is attached.
func (h *Hub) openFile(c *call) (any, error) {
	space, id, _ := strings.Cut(c.query.Get("message"), "/messages/")
	c.space = space
	switch {
	case id == "" || strings.ContainsAny(id, "/?#%"):
		return nil, newRefusal(http.StatusBadRequest, "the query names no message")
	case !c.claims.ownsSpace(space):
		return nil, newRefusal(http.StatusForbidden, "that space is not this machine's")
	}
	if err := h.limitRate("files of "+c.claims.Machine, maxMachineFiles); err != nil {
		return nil, err
	}
	message, err := h.Chat.Spaces.Messages.Get(gchat.MessageName(space, id)).
		Context(c.Context()).Do()
	if err != nil {
		return nil, err
	}
	resource := c.PathValue("resource")
	isAttached := slices.ContainsFunc(message.Attachment, func(a *chat.Attachment) bool {
		return a != nil && a.AttachmentDataRef != nil &&
			a.AttachmentDataRef.ResourceName == resource
	})
	if !isAttached || message.Thread == nil {
		return nil, newRefusal(http.StatusForbidden, "no such file is attached to that message")
	}
	if err := h.checkThread(c, message.Thread.Name); err != nil {
		return nil, err
	}
	response, err := h.Chat.Media.Download(resource).Context(c.Context()).Download()
	if err != nil {
		return nil, err
	}
	h.Log.Info().Str("machine", c.claims.Machine).Str("user", c.claims.User).
		Str("space", space).Str("message", logText(id)).Msg("file opened")
	return response.Body, nil
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
		UpdateMask(c.query.Get("updateMask")).Context(c.Context()).Do()
}

func (h *Hub) getSpace(c *call) (any, error) {
	return h.Chat.Spaces.Get(c.space).Context(c.Context()).Do()
}

// callSubscription pulls events from the machine's subscription, or acknowledges them.
func (h *Hub) callSubscription(c *call) (any, error) {
	subscription := h.subscriptionName(c.claims.Machine)
	// The project's own name may have a colon: example.com:p.
	id, verb, _ := strings.Cut(c.PathValue("to"), ":")
	if "projects/"+c.PathValue("project")+"/subscriptions/"+id != subscription {
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
			Context(c.Context()).Do()
	}
	return nil, newRefusal(http.StatusNotFound, gchat.HubHasNoSuchCall)
}

// pullEvents waits for events in the machine's spaces. When this replica drains, it
// answers with no events, and the machine pulls from another replica.
func (h *Hub) pullEvents(c *call, subscription string) (any, error) {
	request := &pubsub.PullRequest{}
	if err := decodeBody(c.Request, request); err != nil {
		return nil, err
	}
	// The request is complete. The wait for events is longer than the read deadline.
	_ = http.NewResponseController(c.writer).SetReadDeadline(time.Time{})
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	defer context.AfterFunc(h.drainContext, cancel)()
	pull := h.PubSub.Projects.Subscriptions.Pull(subscription,
		&pubsub.PullRequest{MaxMessages: min(max(request.MaxMessages, 1), 100)})
	response, err := pull.Context(ctx).Do()
	if ctx.Err() != nil {
		return &pubsub.PullResponse{}, nil
	}
	// The machine was revoked since the last check of its subscription.
	if googleStatus(err) == http.StatusNotFound {
		h.mu.Lock()
		delete(h.subscriptions, subscription)
		h.mu.Unlock()
		return nil, h.checkSubscription(c.Context(), c.claims)
	}
	if err != nil {
		return nil, err
	}
	// A machine gets the id of the app's event, not that of the hub's copy.
	for _, m := range response.ReceivedMessages {
		m.Message.MessageId, m.Message.Attributes = m.Message.Attributes[idAttribute], nil
	}
	if n := len(response.ReceivedMessages); n > 0 {
		h.Log.Info().Str("machine", c.claims.Machine).Str("user", c.claims.User).
			Int("events", n).Msg("pulled")
	}
	return response, nil
}
