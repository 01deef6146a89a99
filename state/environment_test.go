package state

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// Each variable counts by its name: the same value in another variable makes another
// environment.
func TestEnvironment_EachVariableCounts(t *testing.T) {
	vars := map[string]string{"HOME": t.TempDir(), "GCHAT_PUBSUB_ENDPOINT": "e"}
	env := func(name string) string { return vars[name] }
	with := Environment(env)
	vars["GCHAT_PUBSUB_ENDPOINT"], vars["GCHAT_PUBSUB_SUBSCRIPTION"] = "", "e"
	kit.True(t, Environment(env) != with, "a subscription has the name of an endpoint")
}

// Proxies are compared as the program uses them: upper case comes before lower case, and
// NO_PROXY counts only beside a proxy.
func TestEnvironment_DifferentProxiesCount(t *testing.T) {
	home := t.TempDir()
	environment := func(pairs ...string) string {
		vars := map[string]string{"HOME": home}
		for _, pair := range pairs {
			name, value, _ := strings.Cut(pair, "=")
			vars[name] = value
		}
		return Environment(func(name string) string { return vars[name] })
	}
	for _, alike := range [][2][]string{
		{{"HTTPS_PROXY=http://p"}, {"https_proxy=http://p"}},
		{{"HTTPS_PROXY=http://p"}, {"HTTPS_PROXY=http://p", "https_proxy=http://p"}},
		{{"HTTPS_PROXY=http://p"}, {"HTTPS_PROXY=http://p", "https_proxy=http://q"}},
		{{"HTTP_PROXY=http://p"}, {"http_proxy=http://p", "HTTP_PROXY="}},
		{{"https_proxy=http://p", "no_proxy=a"}, {"HTTPS_PROXY=http://p", "NO_PROXY=a"}},
		{nil, {"no_proxy=localhost", "NO_PROXY=localhost"}},
	} {
		kit.True(t, environment(alike[0]...) == environment(alike[1]...),
			"%q and %q are two environments", alike[0], alike[1])
	}
	for _, differs := range [][2][]string{
		{nil, {"https_proxy=http://p"}},
		{{"HTTPS_PROXY=http://p"}, {"HTTP_PROXY=http://p"}},
		{{"HTTPS_PROXY=http://p"}, {"HTTPS_PROXY=http://q"}},
		{{"HTTPS_PROXY=http://p"}, {"HTTPS_PROXY=http://p", "NO_PROXY=a"}},
	} {
		kit.True(t, environment(differs[0]...) != environment(differs[1]...),
			"%q and %q are one environment", differs[0], differs[1])
	}
}

// If only variables of earlier versions are set, the environment has the name that they
// gave it. Its records then stay with the same poller.
func TestEnvironment_KeepsItsName(t *testing.T) {
	vars := map[string]string{"HOME": t.TempDir(), "GOOGLE_CHAT_SPACE_ID": "A",
		"HTTPS_PROXY": "http://p"}
	env := func(name string) string { return vars[name] }
	is := Environment(env)
	h := sha256.New()
	fmt.Fprintf(h, "%smachine=%s\x00", salt(env), machineID())
	for _, name := range strings.Fields("GOOGLE_CHAT_WEBHOOK_URL GOOGLE_CHAT_SPACE_ID " +
		"GOOGLE_CHAT_CREDENTIALS_FILE GOOGLE_APPLICATION_CREDENTIALS CLOUDSDK_CONFIG GCHAT_API_ENDPOINT " +
		"GCHAT_PUBSUB_SUBSCRIPTION GCHAT_PUBSUB_ENDPOINT GCHAT_ALLOWED_USERS GCHAT_APPROVERS GCHAT_CONFIG " +
		"GCHAT_FORMAT ANTHROPIC_API_KEY ANTHROPIC_BASE_URL HOME XDG_CONFIG_HOME XDG_STATE_HOME " +
		"HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy SSL_CERT_FILE SSL_CERT_DIR " +
		"OPENCLAW_HOME OPENCLAW_STATE_DIR OPENCLAW_CONFIG_PATH OPENCLAW_PROFILE " +
		"OPENCLAW_GATEWAY_TOKEN OPENCLAW_GATEWAY_PASSWORD OPENCLAW_GATEWAY_PORT OPENCLAW_GATEWAY_URL") {
		fmt.Fprintf(h, "%s=%s\x00", name, vars[name])
	}
	was := hex.EncodeToString(h.Sum(nil)[:8])
	kit.True(t, is == was, "it is %s, and was %s", is, was)
}

// A machine that slept does not count as a poller that hangs. A process on another
// machine does not count as ended because we cannot see it.
func TestEnvironment_HeartbeatOfAnotherMachine(t *testing.T) {
	env := envOf(t)
	long, now := time.Now().Add(-8*time.Hour), time.Now()
	for name, c := range map[string]struct {
		h             Heartbeat
		where         string
		lives, silent bool
	}{
		"goes on": {Heartbeat{PID: os.Getpid(), BeatAt: now,
			AwakeTime: AwakeTime()}, "", true, false},
		"stopped": {Heartbeat{PID: os.Getpid(), BeatAt: long,
			AwakeTime: AwakeTime() - 4*HeartbeatInterval}, "", true, true},
		"its machine slept": {Heartbeat{PID: os.Getpid(), BeatAt: long,
			AwakeTime: AwakeTime()}, "", true, false},
		"of an earlier release, stopped": {Heartbeat{PID: os.Getpid(), BeatAt: long}, "", true,
			true},
		"before its machine restarted": {Heartbeat{PID: os.Getpid(), BeatAt: now,
			AwakeTime: AwakeTime() + time.Hour}, "", false, false},
		"gone": {Heartbeat{PID: 1 << 30, BeatAt: now, AwakeTime: AwakeTime()}, "", false, false},
		"on another machine": {Heartbeat{PID: 1 << 30, BeatAt: now, AwakeTime: 1},
			"elsewhere", true, false},
		"gone there, as it seems": {Heartbeat{PID: os.Getpid(), BeatAt: long,
			AwakeTime: AwakeTime()}, "elsewhere", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if AwakeTime() < 8*HeartbeatInterval {
				t.Skip("this machine has only just started")
			}
			kit.NoError(t, WriteHeartbeat(env, c.h))
			if c.where != "" {
				replaceIn(t, pollerFile(env, ".json"), PIDScope(), c.where)
			}
			h := ReadHeartbeat(env, Environment(env))
			kit.True(t, h.IsAlive == c.lives && h.IsSilent(time.Now()) == c.silent &&
				h.Machine != "",
				"lives %v, silent %v: %+v", h.IsAlive, h.IsSilent(time.Now()), h)
		})
	}
}

func replaceIn(t *testing.T, path, old, by string) {
	t.Helper()
	kit.WriteFile(t, path, strings.ReplaceAll(kit.ReadFile(t, path), old, by), 0o600)
}

// In earlier versions Anthropic's variables were part of an environment. Its records come
// under this version's environment, unless a poller of that version runs.
func TestEnvironment_OfAnEarlierVersion(t *testing.T) {
	for name, isServed := range map[string]bool{"no poller": false, "its poller runs": true} {
		env := envOf(t, "ANTHROPIC_API_KEY", "k")
		path := env("HOME") + "/q.json"
		kit.NoError(t, AddToIndex(env, IndexEntry{RecordType: IndexedQuestion, Path: path}))
		file, former := IndexFile(env, path), formerEnvironment(env)
		replaceIn(t, file, Environment(env), former)
		sessions := SessionsIn(UserStateDir(env))
		_, err := sessions.Change("s", func(session *Session) { session.Environment = former })
		kit.NoError(t, err)
		m := enqueue(t, env, message("m", "x"))
		changeMessage(t, env, m, func(m *Message) { m.Environment = former })
		if isServed {
			defer tryLock(t, pollersDir(env)+"/"+former+".lock").Unlock()
		}
		kit.NoError(t, AdoptFormerEnvironment(env))
		o, err := ReadIndexEntry(file)
		kit.NoError(t, err)
		session, err := sessions.Get("s")
		kit.NoError(t, err)
		want := Environment(env)
		if isServed {
			want = former
		}
		waiting, _ := OutboxIn(UserStateDir(env)).Waiting()
		kit.True(t, former != Environment(env) && len(waiting) == 1, "%s: %v wait", name, waiting)
		kit.Equalf(t, waiting[0].Environment, want, "%s: the message's", name)
		kit.Equalf(t, o.Environment, want, "%s: the record's", name)
		kit.Equalf(t, session.Environment, want, "%s: the session's", name)
	}
}

func TestRecords_EnvironmentsDiffer(t *testing.T) {
	env := envOf(t)
	with := func(name, value string) Getenv {
		return envOf(t, name, value, "HOME", env("HOME"))
	}
	same := Environment(env)
	for _, name := range []string{"GOOGLE_CHAT_WEBHOOK_URL", "GCHAT_ALLOWED_USERS", "GCHAT_CONFIG",
		"https_proxy", "OPENCLAW_HOME"} {
		kit.True(t, Environment(with(name, "x")) != same, "%s does not count", name)
	}
	for _, name := range []string{
		"CLAUDE_PROJECT_DIR", "TMUX_PANE", "GCHAT_ASK_MODE", "GCHAT_STATE_DIR", "PWD",
		"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL",
	} {
		kit.Equalf(t, Environment(with(name, "x")), same, "%s counts", name)
	}
	kit.True(t, Environment(envOf(t)) != same, "the hash has no salt")
}

func TestRecords_OnePollerLock(t *testing.T) {
	env := envOf(t)
	const gone = "/nothing/is/here"
	lock := lockPoller(t, env)
	_, err := LockPoller(env)
	kit.True(t, errors.Is(err, ErrLocked), "taken twice: %v", err)
	calls := CountPollerCalls(env)
	_, err = StartPoller(env, gone)
	kit.True(t, err == nil, "beside a poller: %v", err)
	kit.True(t, lock.UnlockPoller(env, gone, calls) != nil,
		"a poller that was called while it ended has no successor")
	lock = lockPoller(t, env)
	err = lock.UnlockPoller(env, gone, CountPollerCalls(env))
	kit.True(t, err == nil, "one that was not called has a successor: %v", err)
	_, err = StartPoller(env, gone)
	kit.True(t, err != nil, "a program that is not there was started")
	lock = lockPoller(t, env) // a poller that could not be started does not have it
	lock.Unlock()
}
