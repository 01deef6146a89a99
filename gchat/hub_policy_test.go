package gchat

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// A hub's policy is read with the machine's token, which goes nowhere else.
func TestHubPolicy_Read(t *testing.T) {
	elsewhere := kit.NewServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s went elsewhere, with %q", r.Method, r.URL, r.Header.Get("Authorization"))
	}))
	answer := func(http.ResponseWriter) {}
	hub := kit.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hub/join" { // the token is renewed where the hub refused it
			w.WriteHeader(401)
			return
		}
		kit.True(t, r.Method+r.URL.Path == "GET/hub/policy" &&
			r.Header.Get("Authorization") == "Bearer secret",
			"%s %s, %q", r.Method, r.URL, r.Header.Get("Authorization"))
		answer(w)
	}))
	write := func(code int, body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.WriteHeader(code); fmt.Fprint(w, body) }
	}
	file := filepath.Join(t.TempDir(), "hub.json")
	now, later := time.Now().UTC().Format(time.RFC3339), time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	fresh := `"got":"` + now + `","time":"` + now + `","expires":"` + later + `"}`
	for name, test := range map[string]struct {
		file   string
		answer func(http.ResponseWriter)
		want   string // the policy
		failed func(error) bool
	}{
		"a policy": {"", write(200,
			`{"policy":{"titles_only":true},"version":"1","time":"2026-01-01T00:00:00Z"}`),
			`{"titles_only":true}`, nil},
		"revoked": {"", write(401,
			`{"error":{"code":401,"status":"UNAUTHENTICATED","message":"revoked"}}`), "",
			IsAuthFailure},
		"too many": {"", write(429, `{}`), "", IsRateLimited},
		"no hub": {"", write(200, `<html>`), "",
			func(err error) bool { return errors.Is(err, ErrBadResponse) }},
		"none": {"", write(200, `{"time":"2026-01-01T00:00:00Z"}`), "",
			func(err error) bool { return errors.Is(err, ErrBadResponse) }},
		"a redirect": {"", func(w http.ResponseWriter) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(307)
		}, "", func(err error) bool { return err != nil }},
		"plain http to another machine": {`{"type":"gchat_hooks_hub","hub":"http://192.0.2.1","token":"secret",` + fresh, nil, "", IsAuthFailure},
		"no address": {`{"type":"gchat_hooks_hub","token":"secret",` + fresh,
			nil, "", IsAuthFailure},
		"a broken file": {`{`, nil, "", IsAuthFailure},
	} {
		if test.file == "" {
			test.file = `{"type":"gchat_hooks_hub","hub":"` + hub.URL + `","token":"secret",` +
				fresh
		}
		kit.NoError(t, os.WriteFile(file, []byte(test.file), 0o600))
		answer = test.answer
		got, err := ReadPolicy(t.Context(), file)
		kit.True(t, string(got) == test.want && (test.failed != nil || err == nil) &&
			(test.failed == nil || test.failed(err)),
			"%s: %s, %v", name, got, err)
	}
}
