package hub

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/api/chat/v1"
	"google.golang.org/api/pubsub/v1"
)

// bucket paces the writes into a space, as Chat does: 60 a minute.
type bucket struct {
	left float64
	at   time.Time
}

const mostWrites = 60 // a minute, and at once

// pace takes a write out of a space's bucket.
func (h *Hub) pace(space string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.buckets[space]
	if b == nil {
		b = &bucket{left: mostWrites, at: time.Now()}
		h.buckets[space] = b
	}
	b.left = min(mostWrites, b.left+time.Since(b.at).Seconds()*mostWrites/60)
	b.at = time.Now()
	if b.left < 1 {
		too := refuse(http.StatusTooManyRequests, "more than 60 messages a minute in this space")
		too.after = time.Second
		return too
	}
	b.left--
	return nil
}

// query refuses names that the call does not know, and a name that comes twice.
func query(r *http.Request, known ...string) error {
	for name, values := range r.URL.Query() {
		if len(values) != 1 || !slices.Contains(append(known, "alt", "prettyPrint"), name) {
			return refuse(http.StatusBadRequest, "a query has a name that is not known here, or one twice")
		}
	}
	return nil
}

// decode reads a request's body. What it has no place for is not passed on.
func decode(r *http.Request, into any) error {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		return refuse(http.StatusBadRequest, "the body is no JSON of that call, or too large")
	}
	return nil
}

// spaceOf is the space that a request names, which has to be the machine's.
func spaceOf(r *http.Request, c *Claims) (string, error) {
	space := "spaces/" + r.PathValue("space")
	if space != c.Space && space != c.Direct {
		return "", refuse(http.StatusForbidden, "that space is not this machine's")
	}
	return space, nil
}

// ownID says whether a message's id is one that this machine gave it. The app owns all messages, so only that tells a colleague's.
func (c *Claims) ownID(id string) bool {
	rest, ok := strings.CutPrefix(id, "client-"+c.Machine+"-")
	odd := func(r rune) bool { return !(r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z') }
	return ok && rest != "" && !strings.ContainsFunc(rest, odd)
}

// messageOf is the message that a request names, which has to be the machine's.
func messageOf(r *http.Request, c *Claims) (string, error) {
	space, err := spaceOf(r, c)
	if err == nil && !c.ownID(r.PathValue("message")) {
		err = refuse(http.StatusForbidden, "that message is not this machine's: its name has to end with the id that it was posted with")
	}
	return space + "/messages/" + r.PathValue("message"), err
}

func (h *Hub) create(_ http.ResponseWriter, r *http.Request, c *Claims) (any, error) {
	space, err := spaceOf(r, c)
	if err != nil {
		return nil, err
	}
	if err := query(r, "messageId", "requestId", "messageReplyOption"); err != nil {
		return nil, err
	}
	q, m := r.URL.Query(), &chat.Message{}
	id := q.Get("messageId")
	if !c.ownID(id) || q.Has("requestId") && q.Get("requestId") != id { // a request's id gives back the message that it made
		return nil, refuse(http.StatusForbidden, "messageId has to begin with client-"+c.Machine+"-, and requestId to be the same")
	}
	if err := decode(r, m); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), callBound)
	defer cancel()
	if t := m.Thread; t != nil && t.Name != "" {
		if err := h.ownThread(ctx, c, space, t.Name); err != nil {
			return nil, err
		}
		t.ThreadKey = ""
	} else if t != nil && t.ThreadKey != "" {
		t.ThreadKey = c.Machine + "-" + t.ThreadKey // the app's keys are those of all machines
	}
	if err := h.pace(space); err != nil {
		return nil, err
	}
	create := h.Chat.Spaces.Messages.Create(space, m).MessageId(id).RequestId(id)
	if option := q.Get("messageReplyOption"); option != "" {
		create.MessageReplyOption(option)
	}
	made, err := create.Context(ctx).Do()
	if err == nil {
		h.Log.Info().Str("machine", c.Machine).Str("user", c.User).Str("space", space).Str("message", id).Msg("posted")
	}
	return made, err
}

// ownThread refuses a thread that neither the machine nor its person began: words there would seem to be a colleague's machine's.
// Chat's first message of spaces/S/threads/T is spaces/S/messages/T.T, as observed; where that is not so, the machine begins a
// thread anew. In a direct message all threads are one person's.
func (h *Hub) ownThread(ctx context.Context, c *Claims, space, thread string) error {
	const mostThreads = 100_000
	id, ok := strings.CutPrefix(thread, space+"/threads/")
	if !ok || id == "" || strings.ContainsAny(id, "/?#%") {
		return refuse(http.StatusBadRequest, "the thread is none of that space")
	}
	key := c.Machine + " " + thread
	h.mu.Lock()
	_, known := h.threads[key]
	h.mu.Unlock()
	if known || space == c.Direct {
		return nil
	}
	first, err := h.Chat.Spaces.Messages.Get(space + "/messages/" + id + "." + id).Context(ctx).Do()
	switch code := codeOf(err); {
	case code == http.StatusNotFound || code == http.StatusForbidden:
	case err != nil:
		return err
	case c.ownID(first.ClientAssignedMessageId) || first.Sender != nil && first.Sender.Name == c.User:
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.threads) >= mostThreads {
			clear(h.threads)
		}
		h.threads[key] = time.Now()
		return nil
	}
	return refuse(http.StatusBadRequest, "the thread is neither this machine's nor its person's")
}

func (h *Hub) get(_ http.ResponseWriter, r *http.Request, c *Claims) (any, error) {
	name, err := messageOf(r, c)
	if err == nil {
		err = query(r)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), callBound)
	defer cancel()
	return h.Chat.Spaces.Messages.Get(name).Context(ctx).Do()
}

func (h *Hub) patch(_ http.ResponseWriter, r *http.Request, c *Claims) (any, error) {
	m := &chat.Message{}
	name, err := messageOf(r, c)
	if err == nil {
		err = query(r, "updateMask")
	}
	if err == nil {
		err = decode(r, m)
	}
	if err == nil {
		err = h.pace("spaces/" + r.PathValue("space"))
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), callBound)
	defer cancel()
	return h.Chat.Spaces.Messages.Patch(name, m).UpdateMask(r.URL.Query().Get("updateMask")).Context(ctx).Do()
}

func (h *Hub) space(_ http.ResponseWriter, r *http.Request, c *Claims) (any, error) {
	space, err := spaceOf(r, c)
	if err == nil {
		err = query(r)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), callBound)
	defer cancel()
	return h.Chat.Spaces.Get(space).Context(ctx).Do()
}

// subscription pulls from the machine's subscription, or acknowledges there.
func (h *Hub) subscription(w http.ResponseWriter, r *http.Request, c *Claims) (any, error) {
	own := h.subscriptionOf(c.Machine)
	name, verb, _ := strings.Cut("projects/"+r.PathValue("project")+"/subscriptions/"+r.PathValue("to"), ":")
	if name != own {
		return nil, refuse(http.StatusForbidden, "that subscription is not this machine's")
	}
	if err := query(r); err != nil {
		return nil, err
	}
	switch verb {
	case "pull":
		return h.pull(w, r, c, own)
	case "acknowledge":
		in := &pubsub.AcknowledgeRequest{}
		if err := decode(r, in); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(r.Context(), callBound)
		defer cancel()
		return h.PubSub.Projects.Subscriptions.Acknowledge(own, in).Context(ctx).Do()
	}
	return nil, refuse(http.StatusNotFound, "there is no such call at a hub")
}

// pull waits for events of the machine's spaces. Where this replica ends, the machine pulls at another.
func (h *Hub) pull(w http.ResponseWriter, r *http.Request, c *Claims, from string) (any, error) {
	in := &pubsub.PullRequest{}
	if err := decode(r, in); err != nil {
		return nil, err
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // the request has come, and its answer takes longer
	ctx, cancel := context.WithTimeout(r.Context(), pullBound)
	defer cancel()
	defer context.AfterFunc(h.drain, cancel)()
	ask := &pubsub.PullRequest{MaxMessages: min(max(in.MaxMessages, 1), 100)}
	got, err := h.PubSub.Projects.Subscriptions.Pull(from, ask).Context(ctx).Do()
	if ctx.Err() != nil && r.Context().Err() == nil {
		return &pubsub.PullResponse{}, nil
	}
	if codeOf(err) == http.StatusNotFound { // just revoked
		h.mu.Lock()
		delete(h.stands, from)
		h.mu.Unlock()
		return nil, h.joined(r.Context(), c)
	}
	if err != nil {
		return nil, err
	}
	for _, m := range got.ReceivedMessages {
		m.Message.MessageId, m.Message.Attributes = m.Message.Attributes[idAttribute], nil
	}
	if n := len(got.ReceivedMessages); n > 0 {
		h.Log.Info().Str("machine", c.Machine).Str("user", c.User).Int("events", n).Msg("pulled")
	}
	return got, nil
}
