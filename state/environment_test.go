package state

import (
	"bytes"
	"os"
	"testing"
	"time"
)

// What leads elsewhere is another environment, also where one variable says what another did.
func TestEachVariableNamesTheEnvironmentByItself(t *testing.T) {
	vars := map[string]string{"HOME": t.TempDir(), "GCHAT_PUBSUB_ENDPOINT": "e"}
	env := func(name string) string { return vars[name] }
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
		"before its machine restarted":   {Heartbeat{PID: os.Getpid(), Beat: now, Awake: Awake() + time.Hour}, "", false, false},
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
			if h := ReadBeat(env, Environment(env)); h.Lives != c.lives || h.Silent(time.Now()) != c.silent || h.Machine == "" {
				t.Errorf("lives %v, silent %v: %+v", h.Lives, h.Silent(time.Now()), h)
			}
		})
	}
}
