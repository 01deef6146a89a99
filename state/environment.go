package state

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// environmentVariables are the variables that decide where, as whom and for whom messages
// go and replies are read.
var environmentVariables = []string{
	"GOOGLE_CHAT_WEBHOOK_URL", "GOOGLE_CHAT_SPACE_ID", "GOOGLE_CHAT_CREDENTIALS_FILE", "GOOGLE_APPLICATION_CREDENTIALS",
	"CLOUDSDK_CONFIG", "GCHAT_API_ENDPOINT", "GCHAT_PUBSUB_SUBSCRIPTION", "GCHAT_PUBSUB_ENDPOINT", "GCHAT_ALLOWED_USERS",
	"GCHAT_APPROVERS", "GCHAT_CONFIG", "GCHAT_FORMAT", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL",
	"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"OPENCLAW_HOME", "OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH", "OPENCLAW_PROFILE",
	"OPENCLAW_GATEWAY_TOKEN", "OPENCLAW_GATEWAY_PASSWORD", "OPENCLAW_GATEWAY_PORT", "OPENCLAW_GATEWAY_URL",
}

// Environment names this machine, and what this process's environment says about where
// messages go: a salted hash, so that no secret reaches the disk. One poller serves the
// records of one environment: machines that share a HOME have one each.
func Environment(env Getenv) string { return environmentName(env, countedValue) }

// formerEnvironment is what earlier versions call it, for which more of some variables
// counts.
func formerEnvironment(env Getenv) string {
	return environmentName(env, func(env Getenv, name string) string { return env(name) })
}

func environmentName(env Getenv, valueOf func(Getenv, string) string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%smachine=%s\x00", salt(env), machineID())
	for _, name := range environmentVariables {
		fmt.Fprintf(h, "%s=%s\x00", name, valueOf(env, name))
	}
	if policy := env("GCHAT_POLICY_FILE"); policy != "" {
		// without it the records of earlier versions keep their environment
		fmt.Fprintf(h, "policy=%s\x00", policy)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// countedValue is what of a variable makes an environment. Those of Anthropic's, with
// which Claude Code runs, make none; of a proxy it is what Go takes, the upper case
// before the lower one. What counts no more stands in the hash as if it were not set: so
// where it is not, the records of earlier versions keep their environment.
func countedValue(env Getenv, name string) string {
	proxy := func(name string) string { return cmp.Or(env(name), env(strings.ToLower(name))) }
	switch name {
	case "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "http_proxy", "https_proxy", "no_proxy":
		return ""
	case "NO_PROXY":
		if proxy("HTTP_PROXY")+proxy("HTTPS_PROXY") == "" {
			return ""
		}
		return proxy(name)
	case "HTTP_PROXY", "HTTPS_PROXY":
		return proxy(name)
	}
	return env(name)
}

// salts are what salt returned, by its file: a process asks for it with each lock.
var salts sync.Map

// salt is a random text of this user's state, made with the first call. Where they cannot
// be written it is none: then nothing else of ours can be, either.
func salt(env Getenv) []byte {
	path := filepath.Join(UserStateDir(env), "salt")
	if cachedSalt, ok := salts.Load(path); ok {
		return cachedSalt.([]byte)
	}
	if b, err := ReadPlain(path, 64); err == nil && len(b) > 0 {
		salts.Store(path, b)
		return b
	}
	fresh := []byte(rand.Text())
	l, err := LockWithTimeout(path)
	if err != nil {
		return fresh
	}
	defer l.Unlock()
	if b, _ := ReadPlain(path, 64); len(b) > 0 { // another process was faster
		return b
	}
	_, _ = l.file.Write(fresh)
	return fresh
}

// CardID is what the buttons of a question's card carry in place of its id: no other
// program can guess it.
func CardID(env Getenv, questionID string) string {
	h := hmac.New(sha256.New, salt(env))
	h.Write([]byte("card " + questionID))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// JoinNonce goes with a code that this machine joins a hub with: it is the same on every
// try, and no other program can guess it.
func JoinNonce(env Getenv, code string) string { return CardID(env, "join "+code) }

// ProjectEnv is the environment in which a project's record was written, as far as its
// configuration goes: a project's files count where the record's Open says so.
func ProjectEnv(env Getenv, projectDir string, trusted bool) Getenv {
	return func(name string) string {
		switch {
		case name != "CLAUDE_PROJECT_DIR":
			return env(name)
		case trusted:
			return projectDir
		}
		return ""
	}
}

// PIDScope names where this process's pids count: this machine, and on Linux the pid
// namespace in it, such as a container's. One HOME can be in several, and a process that
// is not seen from here may well live there.
var PIDScope = sync.OnceValue(func() string {
	// the first one is called the same on every machine
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	return Hash(4, "gchat-hooks "+machineID()+" "+namespace)
})

// MachineName is what people call this machine: its host name, up to the first dot.
func MachineName() string {
	name, _ := os.Hostname()
	name, _, _ = strings.Cut(name, ".")
	return cmp.Or(name, "this machine")
}

// AwakeTime is how long this machine has run since it started, without its sleep.
func AwakeTime() time.Duration {
	clock := int32(unix.CLOCK_MONOTONIC)
	if runtime.GOOS == "darwin" {
		clock = 8 // CLOCK_UPTIME_RAW: there the monotonic clock goes on while the machine sleeps
	}
	var t unix.Timespec
	if unix.ClockGettime(clock, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
