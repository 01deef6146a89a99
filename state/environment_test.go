package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"
	"time"
)

// What is open when the program is updated is served by the new one, which has to know the name that the one before gave.
func TestTheEnvironmentsEarlierName(t *testing.T) {
	vars := map[string]string{"HOME": t.TempDir(), "GOOGLE_CHAT_WEBHOOK_URL": "https://example.com/a", "GCHAT_PUBSUB_ENDPOINT": "e"}
	env := func(name string) string { return vars[name] }
	h := sha256.New()
	h.Write(salt(env))
	for _, name := range []string{
		"GOOGLE_CHAT_WEBHOOK_URL", "GOOGLE_CHAT_SPACE_ID", "GOOGLE_CHAT_CREDENTIALS_FILE", "GOOGLE_APPLICATION_CREDENTIALS",
		"CLOUDSDK_CONFIG", "GCHAT_API_ENDPOINT", "GCHAT_SUBSCRIPTION", "GCHAT_ALLOWED_USERS", "GCHAT_APPROVERS", "GCHAT_CONFIG",
		"GCHAT_FORMAT", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "HTTP_PROXY",
		"HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "OPENCLAW_HOME",
		"OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH", "OPENCLAW_PROFILE", "OPENCLAW_GATEWAY_TOKEN", "OPENCLAW_GATEWAY_PASSWORD",
		"OPENCLAW_GATEWAY_PORT", "OPENCLAW_GATEWAY_URL",
	} {
		h.Write([]byte(name + "=" + vars[name] + "\x00"))
	}
	h.Write([]byte("e"))
	if got, want := EarlierEnvironment(env), hex.EncodeToString(h.Sum(nil)[:8]); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	with := Environment(env)
	vars["GCHAT_PUBSUB_ENDPOINT"], vars["GCHAT_PUBSUB_SUBSCRIPTION"] = "", "e"
	if Environment(env) == with {
		t.Error("a subscription has the name of an endpoint")
	}
}

// A machine that slept is not taken for a poller that hangs, nor one that cannot be seen from here for one that is gone.
func TestAPollersLifeIsToldByItsMachine(t *testing.T) {
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	long, now := time.Now().Add(-8*time.Hour), time.Now()
	for name, c := range map[string]struct {
		h             Heartbeat
		where         string
		lives, silent bool
	}{
		"goes on":                        {Heartbeat{PID: os.Getpid(), Beat: now, Awake: Awake()}, "", true, false},
		"stopped":                        {Heartbeat{PID: os.Getpid(), Beat: long, Awake: Awake() - 4*BeatEvery}, "", true, true},
		"its machine slept":              {Heartbeat{PID: os.Getpid(), Beat: long, Awake: Awake()}, "", true, false},
		"of an earlier release, stopped": {Heartbeat{PID: os.Getpid(), Beat: long}, "", true, true},
		"gone":                           {Heartbeat{PID: 1 << 30, Beat: now, Awake: Awake()}, "", false, false},
		"on another machine":             {Heartbeat{PID: 1 << 30, Beat: now, Awake: 1}, "elsewhere", true, false},
		"gone there, as it seems":        {Heartbeat{PID: os.Getpid(), Beat: long, Awake: Awake()}, "elsewhere", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if Awake() < 8*BeatEvery {
				t.Skip("this machine has only just started")
			}
			if err := Beat(env, c.h); err != nil {
				t.Fatal(err)
			}
			if c.where != "" {
				b, err := os.ReadFile(pollerFile(env, ".json"))
				if err == nil {
					b = bytes.Replace(b, []byte(Here()), []byte(c.where), 1)
					err = os.WriteFile(pollerFile(env, ".json"), b, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if h := ReadBeat(env); h.Lives != c.lives || h.Silent(time.Now()) != c.silent || h.Machine == "" {
				t.Errorf("lives %v, silent %v: %+v", h.Lives, h.Silent(time.Now()), h)
			}
		})
	}
}
