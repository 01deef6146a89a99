package webpush

import (
	"net/url"
	"testing"

	"gchat-hooks/e2e/kit"
)

// Whatever a browser names, what is accepted is an https address at a known push service.
func FuzzSubscription_Check(f *testing.F) {
	f.Add("https://fcm.googleapis.com/fcm/send/x", "BA", "auth")
	f.Add("https://fcm.googleapis.com\\@127.0.0.1/", "", "AAAAAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, endpoint, key, secret string) {
		s := Subscription{Endpoint: endpoint}
		s.Keys.P256DH, s.Keys.Auth = key, secret
		_ = s.Check(nil)
		host, err := s.endpointHost(nil)
		if err != nil {
			return
		}
		u, err := url.Parse(endpoint)
		kit.NoError(t, err)
		isRight := u.Scheme == "https" && u.User == nil && isKnownHost(u.Hostname())
		kit.True(t, isRight || isKnownHost((&url.URL{Host: host}).Hostname()), "%q is accepted", endpoint)
	})
}
