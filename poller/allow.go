package poller

import (
	"strings"

	"gchat-hooks/state"
)

// Local is the sender of a reply that was put into user-input-queue/ by hand: who can write there owns the session. Chat's
// API cannot say it: gchat.Message has no sender that is not users/ID.
const Local = state.Local

// allowed decides who may answer: the senders that the project's configuration names. It fails closed: without
// names, no sender may.
func allowed(cfg *state.Config, r *state.Reply) bool {
	return r.Sender == Local || Named(cfg.AllowedUsers, r.Sender, r.SenderEmail)
}

// Named says whether an allowlist names a sender of Chat's: by users/ID, or by e-mail where Chat gives one.
func Named(users []string, sender, email string) bool {
	for _, u := range users {
		id := strings.TrimPrefix(u, "users/")
		if before, after, address := strings.Cut(id, "@"); address {
			if before != "" && after != "" && lowerASCII(id) == lowerASCII(email) {
				return true
			}
		} else if id != "" && id != u && u == sender {
			return true
		}
	}
	return false
}

// lowerASCII folds A to Z only: strings.EqualFold takes the Kelvin sign for a K, and another person may have that address.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}
