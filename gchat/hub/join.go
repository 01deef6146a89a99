package hub

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

// Claims are the content of a code or a token, which the hub signs.
type Claims struct {
	Kind string `json:"k"` // codeKind or tokenKind
	// Machine is 12 hex digits. The names of the machine's messages and of its
	// subscription contain it.
	Machine string `json:"m"`
	User    string `json:"u"`           // users/ID
	Email   string `json:"e,omitempty"` // "" if Chat does not give it
	Space   string `json:"s"`           // spaces/S, where the machine posts its questions
	// DirectSpace is the person's direct message with the app. It may be Space.
	DirectSpace string `json:"d"`
	ExpiresAt   int64  `json:"x"` // seconds since 1970
}

const (
	codeKind, tokenKind = "code", "token"
	codeLife            = 10 * time.Minute
	tokenLife           = 24 * time.Hour
	// maxClockSkew is how much the clocks of two replicas may differ.
	maxClockSkew = 2 * time.Minute
	// subscriptionIdleLife is how long a machine may pull nothing before Google deletes
	// its subscription.
	subscriptionIdleLife = 31 * 24 * time.Hour
)

// These are the labels of a machine's subscription. A label's value may contain a-z, 0-9,
// "_" and "-".
const (
	userLabel = "user" // the machine's owner
	// nonceLabel is a hash of the nonce that the machine joined with. A second join with
	// the same code needs the same nonce.
	nonceLabel   = "nonce"
	createdLabel = "made"    // seconds since 1970
	revokedLabel = "revoked" // present if the machine was revoked
)

// machinePrefix begins the names of the machines' subscriptions.
const machinePrefix = "gchat-hooks-"

// projectName returns projects/P, the project of the topic and of the subscriptions.
func (h *Hub) projectName() string { return strings.Join(strings.SplitN(h.Topic, "/", 3)[:2], "/") }

func (h *Hub) subscriptionName(machine string) string {
	return h.projectName() + "/subscriptions/" + machinePrefix + machine
}

// macOf returns a keyed hash of text. Only a replica of this hub can compute it.
func (h *Hub) macOf(text string) []byte {
	m := hmac.New(sha256.New, h.SigningKey)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// Sign returns claims as text with a signature that only this hub can make.
func (h *Hub) Sign(c Claims) string {
	b, _ := json.Marshal(c) // texts and numbers always encode
	payload := base64.RawURLEncoding.EncodeToString(b)
	return payload + "." + base64.RawURLEncoding.EncodeToString(h.macOf("claims "+payload))
}

// verifyClaims reads signed claims of one kind. It counts as a call of their machine, so
// it refuses claims of a machine that calls too often.
func (h *Hub) verifyClaims(signed, kind string) (*Claims, error) {
	payload, mac, _ := strings.Cut(signed, ".")
	signature, err := base64.RawURLEncoding.DecodeString(mac)
	isSigned := err == nil && hmac.Equal(signature, h.macOf("claims "+payload))
	b, _ := base64.RawURLEncoding.DecodeString(payload)
	claims := &Claims{}
	if !isSigned || json.Unmarshal(b, claims) != nil || claims.Kind != kind {
		return nil, newRefusal(http.StatusUnauthorized, "the "+kind+" is not one of this hub's")
	}
	return claims, h.limitRate(claims.Machine, maxCalls)
}

// isExpired reports whether a code or a token has expired. It also rejects one that ends
// later than a new one would: the clock that signed it was ahead.
func (c *Claims) isExpired(maxLife time.Duration) bool {
	left := time.Until(time.Unix(c.ExpiresAt, 0))
	return left < 0 || left > maxLife+maxClockSkew
}

// joinRequest is the body of a machine's request to join, or to renew its token.
type joinRequest struct {
	Code    string `json:"code"` // "" to renew
	Nonce   string `json:"nonce"`
	Version string `json:"version"`
}

// readJoinRequest reads a request to join. The hub has checked no code or token of the
// sender yet. So it reads only a small body, for a short time, and few at once.
func (h *Hub) readJoinRequest(
	w http.ResponseWriter, r *http.Request,
) (request joinRequest, err error) {
	select {
	case h.joinSlots <- struct{}{}:
	default:
		busy := newRefusal(http.StatusServiceUnavailable, "too many machines join at once")
		busy.retryAfter = joinReadTimeout
		return request, busy
	}
	defer func() { <-h.joinSlots }()
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(joinReadTimeout))
	r.Body = http.MaxBytesReader(w, r.Body, maxJoinBodyBytes)
	return request, decodeBody(r, &request)
}

// issueToken returns a new token in exchange for a code, or for an earlier token, which
// may have expired.
func (h *Hub) issueToken(
	r *http.Request, request joinRequest,
) (claims *Claims, response any, err error) {
	policy := &config.HubPolicy{} // a renewal gets no Deciders, so it needs no policy
	if request.Code == "" {
		claims, err = h.bearerClaims(r)
		if err == nil && claims.ExpiresAt < time.Now().Add(-subscriptionIdleLife).Unix() {
			err = newRefusal(http.StatusUnauthorized,
				"the token expired long ago: write join to the app again")
		}
		if err == nil {
			err = h.checkSubscription(r.Context(), claims)
		}
	} else {
		policy, err = h.readPolicyFile()
		if err == nil {
			claims, err = h.redeemCode(r.Context(), request)
		}
	}
	if err == nil {
		err = h.checkMembership(r.Context(), claims)
	}
	if err != nil {
		return claims, nil, err
	}
	now := time.Now().UTC()
	claims.Kind, claims.ExpiresAt = tokenKind, now.Add(tokenLife).Unix()
	joined := gchat.JoinResponse{
		Token:        h.Sign(*claims),
		Expires:      time.Unix(claims.ExpiresAt, 0).UTC(),
		Machine:      claims.Machine,
		User:         claims.User,
		Email:        claims.Email,
		Space:        claims.Space,
		Subscription: h.subscriptionName(claims.Machine),
		Deciders:     policy.SpaceApprovers[claims.Space],
		Version:      h.Version,
		Time:         now,
	}
	h.Log.Info().Str("machine", claims.Machine).Str("user", claims.User).
		Str("email", claims.Email).Str("space", claims.Space).
		Str("version", logText(request.Version)).Bool("renewed", request.Code == "").
		Msg("joined")
	return claims, joined, nil
}

// checkMembership refuses the machine of a person who is not a member of its space. If
// Chat does not answer, the machine is accepted, and its next renewal asks again.
func (h *Hub) checkMembership(ctx context.Context, claims *Claims) error {
	if claims.Space == claims.DirectSpace {
		return nil
	}
	member, err := h.Chat.Spaces.Members.Get(claims.Space + "/members/" + path.Base(claims.User)).
		Context(ctx).Do()
	if googleStatus(err) == http.StatusNotFound || err == nil && member.State == "NOT_A_MEMBER" {
		return newRefusal(http.StatusUnauthorized,
			"you are not in that space: write join to the app in one that you are in")
	}
	return nil
}

// redeemCode creates the subscription of the machine that a code names. While that
// subscription exists, nobody can use the code again without the same nonce.
func (h *Hub) redeemCode(ctx context.Context, request joinRequest) (*Claims, error) {
	claims, err := h.verifyClaims(request.Code, codeKind)
	switch {
	case err != nil:
		return claims, err
	case claims.isExpired(codeLife):
		return claims, newRefusal(http.StatusUnauthorized,
			"the code has expired: write join to the app again")
	case request.Nonce == "":
		return claims, newRefusal(http.StatusBadRequest, "nonce is missing")
	}
	filter := fmt.Sprintf("attributes.%s = %q", spaceAttribute, claims.Space)
	if claims.DirectSpace != claims.Space {
		filter += fmt.Sprintf(" OR attributes.%s = %q", spaceAttribute, claims.DirectSpace)
	}
	nonce := state.Hash(16, request.Nonce)
	name := h.subscriptionName(claims.Machine)
	_, err = h.PubSub.Projects.Subscriptions.Create(name, &pubsub.Subscription{
		Topic:                    h.Topic,
		Filter:                   filter,
		AckDeadlineSeconds:       20,
		MessageRetentionDuration: "86400s",
		ExpirationPolicy:         &pubsub.ExpirationPolicy{Ttl: durationText(subscriptionIdleLife)},
		Labels: map[string]string{
			userLabel:    labelValue(claims.User),
			nonceLabel:   nonce,
			createdLabel: strconv.FormatInt(time.Now().Unix(), 10),
		},
	}).Context(ctx).Do()
	if googleStatus(err) == http.StatusConflict {
		var existing *pubsub.Subscription
		existing, err = h.PubSub.Projects.Subscriptions.Get(name).Context(ctx).Do()
		if err == nil &&
			(existing.Labels[nonceLabel] != nonce || existing.Labels[revokedLabel] != "") {
			err = newRefusal(http.StatusConflict, "the code was used already. "+
				"If you did not use it, somebody else has this machine's token: "+
				"have the person who runs the hub revoke "+claims.Machine+
				", and write join to the app again")
		}
	}
	return claims, err
}

// durationText returns a duration in Google's form, which is 2678400s for 31 days.
func durationText(d time.Duration) string { return strconv.Itoa(int(d/time.Second)) + "s" }

// labelValue turns a person's name into a label's value, which may have 63 characters.
// Characters that a label's value may not contain become "-".
func labelValue(user string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' {
			return r
		}
		return '-'
	}, strings.ToLower(user[:min(len(user), 63)]))
}

// Machine is a machine that has joined.
type Machine struct {
	ID        string
	User      string // users-ID, as in the label
	CreatedAt time.Time
	IsRevoked bool // the hub refuses it; Revoke deletes it once its code has expired
}

// ListMachines returns the machines that have joined.
func (h *Hub) ListMachines(ctx context.Context) (machines []Machine, err error) {
	list := h.PubSub.Projects.Subscriptions.List(h.projectName()).PageSize(1000)
	next := func(page *pubsub.ListSubscriptionsResponse) string { return page.NextPageToken }
	err = list.Pages(ctx, gchat.LimitPages(next, func(page *pubsub.ListSubscriptionsResponse) {
		for _, sub := range page.Subscriptions {
			id, isMachine := strings.CutPrefix(path.Base(sub.Name), machinePrefix)
			createdAt, err := strconv.ParseInt(sub.Labels[createdLabel], 10, 64)
			if isMachine && err == nil && sub.Topic == h.Topic {
				machines = append(machines, Machine{
					ID:        id,
					User:      sub.Labels[userLabel],
					CreatedAt: time.Unix(createdAt, 0),
					IsRevoked: sub.Labels[revokedLabel] != "",
				})
			}
		}
	}))
	return machines, err
}

// Revoke has the hub refuse machines, within stateMaxAge, and deletes their
// subscriptions. A code that has not expired could create a deleted subscription again.
// So Revoke first labels the subscriptions as revoked, and deletes them when all the
// codes have expired. If it has to wait for that, it calls notifyWait with the time at
// which it goes on.
func (h *Hub) Revoke(
	ctx context.Context,
	notifyWait func(until time.Time),
	machines ...Machine,
) error {
	subs := h.PubSub.Projects.Subscriptions
	var failed error
	var newest time.Time
	for _, machine := range machines {
		name := h.subscriptionName(machine.ID)
		existing, err := subs.Get(name).Context(ctx).Do()
		if err == nil {
			labels := map[string]string{}
			maps.Copy(labels, existing.Labels)
			labels[revokedLabel] = "1"
			change := &pubsub.UpdateSubscriptionRequest{
				Subscription: &pubsub.Subscription{
					Name:   name,
					Topic:  existing.Topic,
					Labels: labels,
				},
				UpdateMask: "labels",
			}
			_, err = subs.Patch(name, change).Context(ctx).Do()
		}
		failed = errors.Join(failed, err)
		if machine.CreatedAt.After(newest) {
			newest = machine.CreatedAt
		}
	}
	if failed != nil {
		return failed
	}
	if until := newest.Add(codeLife); time.Until(until) > 0 {
		notifyWait(until)
		if !state.Sleep(ctx, time.Until(until)) {
			return ctx.Err()
		}
	}
	for _, machine := range machines {
		_, err := subs.Delete(h.subscriptionName(machine.ID)).Context(ctx).Do()
		failed = errors.Join(failed, err)
	}
	return failed
}
