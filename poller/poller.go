// Package poller waits for replies: it puts questions into their space, runs the one inbox loop that all waiters of a
// machine share, decides who may answer, and binds replies to questions. It knows nothing of the hook protocol: a
// question goes in, an answered question comes out.
package poller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gchat-hooks/state"
)

// Poller is one process's part in posting and reading. Env and Log must be set.
type Poller struct {
	Env state.Getenv
	Log *state.Log
	Now func() time.Time // nil: time.Now
	// Compose, where set, writes down what others have to report before each pass of the flusher; it reports whether some
	// could not be done yet.
	Compose func(context.Context) (left bool)

	// Dirs are state folders that are served besides those in the registry, Folders folders of questions. Not to be changed
	// any more when the work has begun.
	Dirs, Folders []string

	// Listed, where set, hears how each list of a space went, by its inbox loop.
	Listed func(chat string, err error)

	// Steady says that this is the daemon.
	Steady bool

	// Probe, where a person asks, tries each message once whatever earlier failures say. What Chat asked for is kept to.
	Probe bool
	Loud  bool // does not mind the quiet hours

	// Stoppable says that a person can stop this process with Ctrl-Z: it then does so between two messages.
	Stoppable bool

	probed     sync.Map    // messages that were tried so, by path
	passedOver sync.Map    // replies by hand that the log told of
	printed    sync.Map    // webhook_url_command → what it printed: a password manager is not asked every second
	took       atomic.Bool // a reply in a thread without a question
}

func (p *Poller) now() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return time.Now()
}

func (p *Poller) user() string { return state.UserState(p.Env) }

// stateDirs are the state folders of all projects that are known.
func (p *Poller) stateDirs() ([]string, error) {
	dirs, err := state.ProjectStates(p.user())
	for _, dir := range p.Dirs {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, err
}

// config reads a project's configuration afresh: a person who was refused may just have set the allowlist.
func (p *Poller) config(projectDir string) *state.Config {
	c := state.LoadConfig(p.Env, projectDir)
	p.Log.Hide(c.WebhookURL)
	return c
}

// goSafely runs f beside the caller. A panic ends f and is logged: it must not end the process with exit code 2, which
// Claude Code takes for "block".
func (p *Poller) goSafely(what string, f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				p.Log.Error().Any("panic", r).Str("in", what).Bytes("stack", debug.Stack()).
					Msg("a bug in gchat-hooks; please report it")
			}
		}()
		f()
	}()
	return done
}

// messageID derives the id that Chat keeps one message of, from what the message is about: at most 63 characters of
// a-z, 0-9 and "-", beginning "client-".
func messageID(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return "client-" + hex.EncodeToString(h.Sum(nil)[:20])
}
