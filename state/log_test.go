package state

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

func TestLog_Redacts(t *testing.T) {
	var r Redactor
	r.AddSecrets("https://chat.example/v1/spaces/A/messages?key=KEYKEYKEY&token=tok%2Ftok%3D")
	for _, leak := range []string{
		`Post "https://chat.example/v1/spaces/A/messages?key=KEYKEYKEY&token=tok%2Ftok%3D": EOF`,
		"token is tok/tok=", "KEYKEYKEY", `https://other.example/x?token=unseen-secret`,
		`{"url":"https://o/x?key=a1\u0026token=unseen-secret"}`,
		"Authorization: Bearer unseen-secret", `"refresh_token": "unseen-secret"`,
		`{"refresh_token":"1//0-unseen-secret"}`,
		`{"private_key":"-----BEGIN PRIVATE KEY-----\nunseen-secret\n"}`,
		"GET /?state=x&code=4/0Aunseen-secret&scope=y", "got ya29.unseen-secret",
		"http://127.0.0.1:1/t/unseen-secret/v1/spaces",
		"page:  http://127.0.0.1:1/#key=unseen-secret",
		`{"type":"gchat-hooks","token": "unseen-secret"}`,
	} {
		got := r.Redact(leak)
		for _, secret := range []string{"KEYKEYKEY", "tok/tok=", "tok%2Ftok", "unseen-secret"} {
			kit.True(t, !strings.Contains(got, secret),
				"%q became %q, which holds %q", leak, got, secret)
		}
	}
	kit.Equalf(t, r.Redact("a plain line, key: value"), "a plain line, key: value", "a plain line")
}

func TestLog_IsCappedAndClean(t *testing.T) {
	env := envOf(t)
	path := LogPath(env)
	NewLog(env, "test")
	_, err := os.Stat(path)
	kit.True(t, err != nil, "a log without a line was opened")
	writeAt(t, path, strings.Repeat("x", maxLogSize+1))
	l := NewLog(env, "test")
	l.AddSecrets("topsecret")
	l.Error().Str("url", "topsecret").Msg("x")
	log := kit.ReadFile(t, path)
	kit.True(t, !strings.Contains(log, "topsecret") && strings.Contains(log, `"job":"test"`),
		"log holds %s", log)
	info, err := os.Stat(path + ".1")
	kit.True(t, err == nil && info.Size() == maxLogSize+1, "old log: %v, %v", info, err)
}

// The same error is logged once, whatever file or port it names, until it is forgotten.
// The list of remembered errors has a limit.
func TestLog_WritesAnErrorOnce(t *testing.T) {
	l := NewLog(envOf(t), "test")
	lines := func() int { return strings.Count(kit.ReadFile(t, l.path), "\n") }
	for _, err := range []error{errors.New("rename .new-1234567: full"),
		errors.New("rename .new-7654321: full"), nil} {
		l.ErrorOnce(err, "not written")
	}
	kit.Equalf(t, lines(), 1, "lines for one fault")
	l.ForgetOnce()
	for i := range 3 * maxLoggedOnce {
		l.ErrorOnce(fmt.Errorf("fault %s", strings.Repeat("x", i)), "not written")
	}
	n := lines()
	kit.True(t, n == 1+maxLoggedOnce && len(l.loggedOnce) == maxLoggedOnce,
		"%d lines, %d remembered", n, len(l.loggedOnce))
}
