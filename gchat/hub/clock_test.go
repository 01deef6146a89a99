package hub

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// A hub whose clock was ahead signs what would be good for too long. With the clock set
// right, such a code joins nobody, and such a token has to be renewed, which asks again
// who is where.
func TestHub_TokenSignedByAFastClock(t *testing.T) {
	h := New(t.Context(), Options{Topic: "projects/p/topics/t", SigningKey: []byte("k"), Log: zerolog.Nop()})
	h.subscriptions[h.subscriptionName("m")] = subscriptionState{true, time.Now()}
	year2100 := time.Until(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))
	for left, good := range map[time.Duration]bool{
		-time.Minute: false, time.Second: true, codeLife: true, codeLife + maxClockSkew/2: true, codeLife + 2*maxClockSkew: false, year2100: false,
	} {
		until := time.Now().Add(left).Unix()
		_, err := h.redeemCode(t.Context(), joinRequest{Code: h.Sign(Claims{Kind: codeKind, Machine: "c", ExpiresAt: until})})
		if isOver := refusalStatus(err) == http.StatusUnauthorized; isOver == good {
			// a good one lacks a nonce
			t.Errorf("a code that is good for %v: %v", left, err)
		}
	}
	for left, good := range map[time.Duration]bool{
		-time.Minute: false, time.Minute: true, tokenLife + maxClockSkew/2: true, tokenLife + 2*maxClockSkew: false, year2100: false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/hub/policy", nil)
		token := h.Sign(Claims{Kind: tokenKind, Machine: "m", ExpiresAt: time.Now().Add(left).Unix()})
		r.Header.Set("Authorization", "Bearer "+token)
		if _, err := h.authenticate(r); (err == nil) != good {
			t.Errorf("a token that is good for %v: %v", left, err)
		}
	}
}

func refusalStatus(err error) int {
	refused, _ := err.(*refusal)
	if refused == nil {
		return 0
	}
	return refused.Code
}
