package webpush

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/pushservice"
)

func subscriptionOf(b *pushservice.Browser) (s Subscription) {
	s.Endpoint, s.Keys.P256DH, s.Keys.Auth = b.Endpoint, b.P256DH, b.Auth
	return s
}

func newClient(t *testing.T, service *pushservice.Service) *Client {
	t.Helper()
	keys, err := LoadKeys(filepath.Join(t.TempDir(), "keys.json"))
	kit.NoError(t, err)
	hosts := func() []string { return []string{service.Host()} }
	return NewClient(keys, hosts, service.Roots())
}

// A subscription comes from a browser: it may name any server.
func TestSubscription_OnlyPushServices(t *testing.T) {
	service := pushservice.New(t)
	good := subscriptionOf(service.Subscribe("phone"))
	allowed := []string{"push.example.org", "10.1.2.3:8443"}
	for endpoint, isGood := range map[string]bool{
		"https://fcm.googleapis.com/fcm/send/abc:def":                true,
		"https://FCM.googleapis.com:443/fcm/send/x":                  true,
		"https://web.push.apple.com/QGx":                             true,
		"https://updates.push.services.mozilla.com/wpush/v2/x":       true,
		"https://wns2-par02p.notify.windows.com/w/?token=x":          true,
		"https://push.example.org/x":                                 true,
		"https://10.1.2.3:8443/x":                                    true,
		"http://fcm.googleapis.com/fcm/send/x":                       false,
		"https://fcm.googleapis.com:8443/fcm/send/x":                 false,
		"https://fcm.googleapis.com.evil.org/x":                      false,
		"https://evil-fcm.googleapis.com/x":                          false,
		"https://push.apple.com.evil.org/x":                          false,
		"https://evilpush.apple.com/x":                               false,
		"https://fcm.googleapis.com@127.0.0.1/x":                     false,
		"https://127.0.0.1/x":                                        false,
		"https://127.0.0.1\\@fcm.googleapis.com/x":                   false,
		"https://fcm.googleapis.com#@127.0.0.1/":                     false,
		"https://[::1]/x":                                            false,
		"https://2130706433/x":                                       false,
		"https://localhost/x":                                        false,
		"https://169.254.169.254/latest/meta-data":                   false,
		"https://10.1.2.3/x":                                         false,
		"https://push.example.org:22/x":                              false,
		"https:fcm.googleapis.com/x":                                 false,
		"//fcm.googleapis.com/x":                                     false,
		"":                                                           false,
		"javascript:alert(1)":                                        false,
		"https://fcm.googleapis.com/" + strings.Repeat("x", 3000):    false,
		"https://fcm.googleapis.com/\nHost: evil":                    false,
		"https://xn--fcm-googleapis-com.evil.org/x":                  false,
		"https://fcm.googleapis.com%00.evil.org/x":                   false,
		"https://fcm。googleapis。com/x":                               false,
		"https://updates.push.services.mozilla.com.:443/wpush/v2/x":  false,
		"https://user:pass@updates.push.services.mozilla.com/wpush/": false,
	} {
		s := good
		s.Endpoint = endpoint
		err := s.Check(allowed)
		kit.True(t, (err == nil) == isGood, "%.80q: %v", endpoint, err)
	}

	known := good
	known.Endpoint = "https://fcm.googleapis.com/x"
	for what, change := range map[string]func(*Subscription){
		"no key":               func(s *Subscription) { s.Keys.P256DH = "" },
		"a key of zeros":       func(s *Subscription) { s.Keys.P256DH = "B" + strings.Repeat("A", 86) },
		"a compressed key":     func(s *Subscription) { s.Keys.P256DH = "A" + s.Keys.P256DH[1:44] },
		"no secret":            func(s *Subscription) { s.Keys.Auth = "" },
		"a secret of 15 bytes": func(s *Subscription) { s.Keys.Auth = s.Keys.Auth[:20] },
		"not base64":           func(s *Subscription) { s.Keys.Auth = "!" + s.Keys.Auth[1:] },
	} {
		s := known
		change(&s)
		kit.True(t, s.Check(nil) != nil, "%s is accepted", what)
	}
	kit.NoError(t, known.Check(nil))
}

// A name of a push service could be made to lead into the person's network.
func TestClient_NoAddressInsideOfNetwork(t *testing.T) {
	for address, isInside := range map[string]bool{
		"142.250.1.1": false, "17.188.1.1": false, "2a00:1450:4001::200a": false,
		"127.0.0.1": true, "127.9.9.9": true, "0.0.0.0": true, "0.1.2.3": true, "10.0.0.1": true,
		"172.16.0.1": true, "172.31.255.255": true, "192.168.1.1": true, "169.254.169.254": true,
		"100.64.0.1": true, "100.100.100.100": true, "192.0.0.8": true, "198.18.0.1": true,
		"224.0.0.1": true, "255.255.255.255": true, "240.0.0.1": true,
		"::1": true, "::": true, "fe80::1": true, "fe80::1%eth0": true, "fc00::1": true,
		"fd12:3456::1": true, "ff02::1": true, "::ffff:127.0.0.1": true, "::ffff:10.0.0.1": true,
		"::ffff:100.64.0.1": true,
		"64:ff9b::7f00:1":   true, "64:ff9b:1::a00:1": true, "2002:7f00:1::1": true,
		"2001::1": true, "fec0::1": true,
	} {
		ip, err := netip.ParseAddr(address)
		kit.NoError(t, err)
		kit.Equalf(t, isInsideNetwork(ip), isInside, "%s is inside of a network", address)
	}
	service := pushservice.New(t)
	client := newClient(t, service)
	host, port, _ := strings.Cut(service.Host(), ":")
	kept := knownHosts
	defer func() { knownHosts = kept }()
	knownHosts = []string{"localhost", host} // as if their names led here
	_, err := client.dial(t.Context(), "tcp", "localhost:"+port)
	kit.True(t, err != nil && strings.Contains(err.Error(), "inside of a network"), "%v", err)
	conn, err := client.dial(t.Context(), "tcp", service.Host()) // the person allowed it
	kit.NoError(t, err)
	conn.Close()
}

func TestClient_WhatAnswersMean(t *testing.T) {
	service := pushservice.New(t)
	phone := service.Subscribe("phone")
	client := newClient(t, service)
	message := Message{
		Payload:      []byte(`{"title":"` + strings.Repeat("long ", 300) + `"}`),
		ShortPayload: []byte(`{"title":"short"}`),
		Topic:        "topic", TTL: time.Minute, Urgency: UrgencyHigh,
	}
	send := func(to Subscription) error {
		return client.Send(t.Context(), to, "https://chat.example.org", message)
	}
	outcome := func(err error) string {
		later := new(LaterError)
		switch {
		case err == nil:
			return "sent"
		case errors.Is(err, ErrGone):
			return "gone"
		case errors.As(err, &later):
			return "later " + later.After.Round(time.Second).String()
		}
		return "refused"
	}
	for status, want := range map[int]string{
		200: "sent", 201: "sent", 202: "sent", 204: "sent",
		404: "gone", 410: "gone",
		429: "later 0s", 500: "later 0s", 502: "later 0s", 503: "later 0s",
		400: "refused", 401: "refused", 403: "refused", 413: "refused",
		301: "refused", 307: "refused", 308: "refused",
	} {
		service.Answer = func(h http.Header, _ pushservice.Message) int {
			h.Set("Location", "https://127.0.0.1:1/")
			return status
		}
		kit.Equalf(t, outcome(send(subscriptionOf(phone))), want, "%d", status)
	}
	for header, want := range map[string]string{
		"120": "later 2m0s", "99999999999": "later 24h0m0s", "-5": "later 0s", "soon": "later 0s",
		time.Now().Add(time.Hour).UTC().Format(http.TimeFormat): "later 1h0m0s",
	} {
		service.Answer = func(h http.Header, _ pushservice.Message) int {
			h.Set("Retry-After", header)
			return 429
		}
		got := outcome(send(subscriptionOf(phone)))
		isDate := strings.Contains(header, "GMT")
		kit.True(t, got == want || isDate && strings.HasPrefix(got, "later 59m5"), "%q: %s", header, got)
	}

	var sizes []int
	service.Answer = func(_ http.Header, m pushservice.Message) int {
		sizes = append(sizes, m.Size)
		if m.Size > 2048 {
			return 413
		}
		return 201
	}
	kit.NoError(t, send(subscriptionOf(phone)))
	kit.Equal(t, sizes, []int{4096, 1024})
	received := service.Received(phone)
	last := received[len(received)-1]
	kit.Equal(t, last.Text, `{"title":"short"}`)
	kit.Equal(t, last.Subject, "https://chat.example.org")

	unknown := subscriptionOf(phone)
	unknown.Endpoint = strings.Replace(unknown.Endpoint, "127.0.0.1", "localhost", 1)
	kit.Equal(t, outcome(send(unknown)), "refused")
}

// A server that never answers holds up a call until its context ends, and nobody knows
// whether the server has the message.
func TestClient_HangingServer(t *testing.T) {
	service := pushservice.New(t)
	release := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	service.Answer = func(http.Header, pushservice.Message) int { cancel(); <-release; return 201 }
	defer close(release)
	client := newClient(t, service)
	message := Message{Payload: []byte("{}"), Topic: "t", TTL: time.Second, Urgency: UrgencyNormal}
	err := client.Send(ctx, subscriptionOf(service.Subscribe("phone")), "a@b", message)
	later := new(LaterError)
	kit.Must(t, errors.As(err, &later) && later.MayHaveArrived, "%v", err)
	kit.True(t, !strings.Contains(err.Error(), "wpush"), "the error has the endpoint: %v", err)
}

func TestKeys_KeptAndPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	made, err := LoadKeys(path)
	kit.NoError(t, err)
	again, err := LoadKeys(path)
	kit.NoError(t, err)
	kit.Equal(t, again, made)
	info, err := os.Stat(path)
	kit.NoError(t, err)
	kit.Equal(t, info.Mode().Perm(), 0o600)
	for _, damaged := range []string{"", "{}", `{"public":"x","private":"y"}`} {
		kit.NoError(t, os.WriteFile(path, []byte(damaged), 0o600))
		_, err = LoadKeys(path)
		kit.True(t, err != nil, "%q is accepted", damaged)
	}
}
