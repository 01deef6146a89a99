package poller

import (
	"strings"

	"gchat-hooks/state"
)

// Local is the sender of a reply that was put into user-input-queue/ by hand: whoever can write there owns the session.
const Local = "local"

// allowed decides who may answer: the senders that the project's configuration names, by users/ID or by e-mail where
// Chat gives one. It fails closed: with nobody named, nobody may.
func allowed(cfg *state.Config, r *state.Reply) bool {
	if r.Sender == Local {
		return true
	}
	for _, u := range cfg.AllowedUsers {
		if u == r.Sender && strings.HasPrefix(u, "users/") {
			return true
		}
		if strings.Contains(u, "@") && strings.EqualFold(strings.TrimPrefix(u, "users/"), r.SenderEmail) {
			return true
		}
	}
	return false
}
