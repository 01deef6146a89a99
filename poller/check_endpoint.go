package poller

import (
	"context"
	"net/url"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// seeEndpoint is all that the other checks say of an API endpoint that is none.
const seeEndpoint = "nothing is asked of an address like api_endpoint's: see chat.endpoint"

// checkEndpoint looks whether requests may go where the configuration sends them in Google's place.
func (l *look) checkEndpoint(context.Context) []state.Finding {
	err := gchat.CheckEndpoint(l.cfg.APIEndpoint)
	switch {
	case l.cfg.APIEndpoint == "":
		return state.Fine("api_endpoint is not set: replies are read from Google, or from where the webhook is on this machine")
	case err == nil:
		return state.Fine("api_endpoint may stand in for Google")
	}
	what := "api_endpoint (GCHAT_API_ENDPOINT)"
	if u, err := url.Parse(l.cfg.APIEndpoint); err == nil && u.Host != "" { // the rest may hold a secret
		what += " is " + l.plain(u.Scheme+"://"+u.Host)
	}
	return failed(what+": "+l.say(err), "no reply is read, and a webhook of Google's cannot be posted to", gchat.Hint(err))
}
