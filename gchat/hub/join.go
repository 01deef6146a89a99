package hub

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"google.golang.org/api/pubsub/v1"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// Claims are what a code or a token says, signed by the hub's key.
type Claims struct {
	Is string `json:"k"` // isCode or isToken
	// twelve hex digits: of its messages, and of its subscription
	Machine string `json:"m"`
	User    string `json:"u"`           // users/ID
	Email   string `json:"e,omitempty"` // as Chat told it
	Space   string `json:"s"`           // spaces/S, where its questions go
	Direct  string `json:"d"`           // the person's direct message with the app; it may be Space
	Until   int64  `json:"x"`           // seconds since 1970
}

const (
	isCode, isToken = "code", "token"
	codeLife        = 10 * time.Minute
	tokenLife       = 24 * time.Hour
	// skew is how far the clocks of two replicas may be apart.
	skew = 2 * time.Minute
	// idleLife is after how long without a pull Google deletes a machine's subscription.
	idleLife = 31 * 24 * time.Hour
)

// The labels of a machine's subscription. A label's value has a-z, 0-9, "_" and "-".
const (
	userLabel = "user" // whose it is
	// a hash of what the machine said when it joined: only the same may repeat it
	nonceLabel   = "nonce"
	madeLabel    = "made"    // seconds since 1970
	revokedLabel = "revoked" // there: it stands for nothing any more
)

// machinePrefix begins the names of the machines' subscriptions.
const machinePrefix = "gchat-hooks-"

func (h *Hub) project() string { return strings.Join(strings.SplitN(h.Topic, "/", 3)[:2], "/") }

func (h *Hub) subscriptionOf(machine string) string {
	return h.project() + "/subscriptions/" + machinePrefix + machine
}

func (h *Hub) mac(what string) []byte {
	m := hmac.New(sha256.New, h.Key)
	m.Write([]byte(what))
	return m.Sum(nil)
}

// Sign writes claims down so that only this hub could have.
func (h *Hub) Sign(c Claims) string {
	b, _ := json.Marshal(c) // texts and numbers always encode
	said := base64.RawURLEncoding.EncodeToString(b)
	return said + "." + base64.RawURLEncoding.EncodeToString(h.mac("claims "+said))
}

// read reads what was signed, as a call of the machine that it names.
func (h *Hub) read(signed, is string) (*Claims, error) {
	said, mac, _ := strings.Cut(signed, ".")
	got, err := base64.RawURLEncoding.DecodeString(mac)
	b, _ := base64.RawURLEncoding.DecodeString(said)
	c := &Claims{}
	if err != nil || !hmac.Equal(got, h.mac("claims "+said)) || json.Unmarshal(b, c) != nil ||
		c.Is != is {
		return nil, refuse(http.StatusUnauthorized, "the "+is+" is not one of this hub's")
	}
	return c, h.pace(c.Machine, mostCalls)
}

// ended says that a code or a token is over. One that ends later than any does was signed
// by a clock that was ahead.
func (c *Claims) ended(life time.Duration) bool {
	left := time.Until(time.Unix(c.Until, 0))
	return left < 0 || left > life+skew
}

// asked is what a machine says to join.
type asked struct {
	Code    string `json:"code"`
	Nonce   string `json:"nonce"`
	Version string `json:"version"`
}

// readJoin reads what a machine says to join. The sender has shown no token yet, so the
// body is small, has little time, and few are read at once.
func (h *Hub) readJoin(w http.ResponseWriter, r *http.Request) (in asked, err error) {
	select {
	case h.joining <- struct{}{}:
	default:
		busy := refuse(http.StatusServiceUnavailable, "many machines join at once")
		busy.after = joinBound
		return in, busy
	}
	defer func() { <-h.joining }()
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(joinBound))
	r.Body = http.MaxBytesReader(w, r.Body, mostJoinBody)
	return in, decode(r, &in)
}

// join gives a token for a code, or for another token.
func (h *Hub) join(r *http.Request, in asked) (c *Claims, answer any, err error) {
	policy := &config.HubPolicy{}
	if in.Code == "" {
		c, err = h.bearer(r)
		if err == nil && c.Until < time.Now().Add(-idleLife).Unix() {
			err = refuse(
				http.StatusUnauthorized,
				"the token ended long ago: write join to the app again",
			)
		}
		if err == nil {
			err = h.joined(r.Context(), c)
		}
	} else {
		policy, err = h.policyFile()
		if err == nil {
			c, err = h.spend(r.Context(), in)
		}
	}
	if err == nil {
		err = h.stillIn(r.Context(), c)
	}
	if err != nil {
		return c, nil, err
	}
	now := time.Now().UTC()
	c.Is, c.Until = isToken, now.Add(tokenLife).Unix()
	told := gchat.Joined{
		Token: h.Sign(
			*c,
		), Expires: time.Unix(c.Until, 0).UTC(), Machine: c.Machine, User: c.User, Email: c.Email, Space: c.Space,
		Subscription: h.subscriptionOf(c.Machine), Version: h.Version, Time: now,
	}
	if in.Code != "" {
		told.Deciders = policy.SpaceApprovers[c.Space]
	}
	h.Log.Info().
		Str("machine", c.Machine).
		Str("user", c.User).
		Str("email", c.Email).
		Str("space", c.Space).
		Str("version", head(in.Version)).
		Bool("renewed", in.Code == "").
		Msg("joined")
	return c, told, nil
}

// stillIn refuses the machine of a person who is not in its space any more. Where Chat
// does not say, the next renewal asks again.
func (h *Hub) stillIn(ctx context.Context, c *Claims) error {
	if c.Space == c.Direct {
		return nil
	}
	is, err := h.Chat.Spaces.Members.Get(c.Space + "/members/" + path.Base(c.User)).
		Context(ctx).
		Do()
	if codeOf(err) == http.StatusNotFound || err == nil && is.State == "NOT_A_MEMBER" {
		return refuse(
			http.StatusUnauthorized,
			"you are not in that space: write join to the app in one that you are in",
		)
	}
	return nil
}

// spend makes the subscription that a code names. It stands while it is used, and so the
// code is used up.
func (h *Hub) spend(ctx context.Context, in asked) (*Claims, error) {
	c, err := h.read(in.Code, isCode)
	switch {
	case err != nil:
		return c, err
	case c.ended(codeLife):
		return c, refuse(http.StatusUnauthorized, "the code has ended: write join to the app again")
	case in.Nonce == "":
		return c, refuse(http.StatusBadRequest, "nonce is missing")
	}
	filter := fmt.Sprintf("attributes.%s = %q", spaceAttribute, c.Space)
	if c.Direct != c.Space {
		filter += fmt.Sprintf(" OR attributes.%s = %q", spaceAttribute, c.Direct)
	}
	nonce := state.Hash(16, in.Nonce)
	name := h.subscriptionOf(c.Machine)
	_, err = h.PubSub.Projects.Subscriptions.Create(name, &pubsub.Subscription{
		Topic: h.Topic, Filter: filter, AckDeadlineSeconds: 20, MessageRetentionDuration: "86400s",
		ExpirationPolicy: &pubsub.ExpirationPolicy{Ttl: seconds(idleLife)},
		Labels: map[string]string{
			userLabel: label(
				c.User,
			), nonceLabel: nonce, madeLabel: strconv.FormatInt(time.Now().Unix(), 10),
		},
	}).Context(ctx).Do()
	if codeOf(err) == http.StatusConflict {
		var made *pubsub.Subscription
		made, err = h.PubSub.Projects.Subscriptions.Get(name).Context(ctx).Do()
		if err == nil && (made.Labels[nonceLabel] != nonce || made.Labels[revokedLabel] != "") {
			err = refuse(
				http.StatusConflict,
				"the code was used already. If that was not you, somebody else holds "+
					"this machine's token: have who runs the hub revoke "+c.Machine+", and write join to the app again",
			)
		}
	}
	return c, err
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d/time.Second)) + "s" }

// label is a person's name as a label's value takes it.
func label(user string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' {
			return r
		}
		return '-'
	}, strings.ToLower(user[:min(len(user), 63)]))
}

// Machine is one that has joined.
type Machine struct {
	ID      string
	User    string // users-ID
	Made    time.Time
	Revoked bool // it stands for nothing, and goes once its code has ended
}

// Machines are those that have joined.
func (h *Hub) Machines(ctx context.Context) (all []Machine, err error) {
	list := h.PubSub.Projects.Subscriptions.List(h.project()).PageSize(1000)
	next := func(page *pubsub.ListSubscriptionsResponse) string { return page.NextPageToken }
	err = list.Pages(ctx, gchat.BoundPages(next, func(page *pubsub.ListSubscriptionsResponse) {
		for _, sub := range page.Subscriptions {
			id, ok := strings.CutPrefix(path.Base(sub.Name), machinePrefix)
			if made, err := strconv.ParseInt(sub.Labels[madeLabel], 10, 64); ok && err == nil &&
				sub.Topic == h.Topic {
				m := Machine{ID: id, User: sub.Labels[userLabel], Made: time.Unix(made, 0)}
				m.Revoked = sub.Labels[revokedLabel] != ""
				all = append(all, m)
			}
		}
	}))
	return all, err
}

// Revoke takes from machines what they joined with, within standsFor; nothing makes it
// again. A code that is still good could: until all have ended, the subscriptions stay,
// and stand for nothing; waits is told until when.
func (h *Hub) Revoke(ctx context.Context, waits func(until time.Time), machines ...Machine) error {
	subs := h.PubSub.Projects.Subscriptions
	var failed error
	var last time.Time
	for _, m := range machines {
		name := h.subscriptionOf(m.ID)
		was, err := subs.Get(name).Context(ctx).Do()
		if err == nil {
			was.Labels[revokedLabel] = "1"
			change := &pubsub.UpdateSubscriptionRequest{
				Subscription: &pubsub.Subscription{
					Name:   name,
					Topic:  was.Topic,
					Labels: was.Labels,
				}, UpdateMask: "labels",
			}
			_, err = subs.Patch(name, change).Context(ctx).Do()
		}
		failed = errors.Join(failed, err)
		if m.Made.After(last) {
			last = m.Made
		}
	}
	if failed != nil {
		return failed
	}
	if until := last.Add(codeLife); time.Until(until) > 0 {
		waits(until)
		if !state.Sleep(ctx, time.Until(until)) {
			return ctx.Err()
		}
	}
	for _, m := range machines {
		_, err := subs.Delete(h.subscriptionOf(m.ID)).Context(ctx).Do()
		failed = errors.Join(failed, err)
	}
	return failed
}
