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

// environmentVariables are the variables that decide where messages go and replies are
// read, as whom, and for whom.
var environmentVariables = []string{
	"GOOGLE_CHAT_WEBHOOK_URL", "GOOGLE_CHAT_SPACE_ID", "GOOGLE_CHAT_CREDENTIALS_FILE", "GOOGLE_APPLICATION_CREDENTIALS",
	"CLOUDSDK_CONFIG", "GCHAT_API_ENDPOINT", "GCHAT_PUBSUB_SUBSCRIPTION", "GCHAT_PUBSUB_ENDPOINT", "GCHAT_ALLOWED_USERS",
	"GCHAT_APPROVERS", "GCHAT_CONFIG", "GCHAT_FORMAT", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL",
	"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"OPENCLAW_HOME", "OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH", "OPENCLAW_PROFILE",
	"OPENCLAW_GATEWAY_TOKEN", "OPENCLAW_GATEWAY_PASSWORD", "OPENCLAW_GATEWAY_PORT", "OPENCLAW_GATEWAY_URL",
}

// Environment returns the name of the environment: a salted hash, in hex, of this machine
// and of the variables that decide where messages go. The salt keeps secrets off the
// disk. One poller serves the records of one environment. Machines that share a HOME have
// one environment each.
func Environment(env Getenv) string { return environmentName(env, countedValue) }

// formerEnvironment returns the name that earlier versions give this environment: they
// count the full value of every variable.
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
		// hashed only where it is set, so that the other records of earlier versions keep
		// their environment
		fmt.Fprintf(h, "policy=%s\x00", policy)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// countedValue returns the part of a variable that distinguishes environments.
// Anthropic's variables, which differ with the Claude Code that runs a hook, do not. Of
// the proxy variables it takes the value that Go uses: upper case before lower case. A
// variable that does not count is hashed as if it were unset, so the records of earlier
// versions keep their environment where it is unset.
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

// salts caches the results of salt by its file: a process asks for it with each lock.
var salts sync.Map

// salt returns a random text that belongs to this user's state and is created by the
// first call. Where the state cannot be written, it is a fresh one each time: nothing
// else of ours can be written there either.
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

// CardID returns what the buttons of a question's card carry in place of the question's
// id: a keyed hash, in hex. No other program can guess it.
func CardID(env Getenv, questionID string) string {
	h := hmac.New(sha256.New, salt(env))
	h.Write([]byte("card " + questionID))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// JoinNonce returns the value that this machine sends along with the code that it joins a
// hub with. It is the same on every try, and no other program can guess it.
func JoinNonce(env Getenv, code string) string { return CardID(env, "join "+code) }

// ProjectEnv returns the variables with which the configuration of a project's record is
// read. CLAUDE_PROJECT_DIR is projectDir where the record's index entry says that the
// project is trusted; otherwise it is empty, and the project's files do not count.
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

// PIDScope returns a hash that says where this process's pids are valid: on this machine
// and, on Linux, in this pid namespace, such as a container's. Several of them may share
// one HOME, and a process that cannot be seen from here may well live in another.
var PIDScope = sync.OnceValue(func() string {
	// the initial pid namespace has the same name on every machine
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	return Hash(4, "gchat-hooks "+machineID()+" "+namespace)
})

// MachineName returns what people call this machine: its host name up to the first dot.
func MachineName() string {
	name, _ := os.Hostname()
	name, _, _ = strings.Cut(name, ".")
	return cmp.Or(name, "this machine")
}

// AwakeTime returns how long this machine has run since it started, without the time that
// it slept.
func AwakeTime() time.Duration {
	clock := int32(unix.CLOCK_MONOTONIC)
	if runtime.GOOS == "darwin" {
		// CLOCK_UPTIME_RAW: on macOS the monotonic clock runs on while the machine sleeps
		clock = 8
	}
	var t unix.Timespec
	if unix.ClockGettime(clock, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
