// Package hooks speaks Claude Code's hook protocol: an event as JSON on stdin, an effect, a decision as JSON on stdout.
// It must never break, slow or freeze the session that calls it: whatever happens, a hook ends with exit code 0, and
// what it cannot do is left to the dialog in the terminal.
package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// Hook is one process of a hook: where it reads, writes and looks things up.
type Hook struct {
	Name   string // what it was called as
	Stdin  io.Reader
	Stdout io.Writer // the protocol: nothing but a decision goes there
	Stderr io.Writer // only what wakes a session goes there
	Env    state.Getenv
	Self   string // this program's path, for the detached flusher

	// Job is what to do where Name names none of ours, and Waits whether it may take its time over an event.
	Job   func(context.Context, *Hook, *Event) error
	Waits func(*Hook, *Event) bool
	Own   string // hook_event_name of an event that has none; "" where that is an error

	log    *state.Log
	poller *poller.Poller
	code   int             // exit code
	passed map[string]bool // what was logged of markers that are none
	asked  struct {        // found out once
		cfg   *state.Config
		rules state.SessionRules
		chat  string // "" when the webhook has to be asked for
		space string
		by    *inject.Asker
		pid   int // of Claude Code; 0 when that cannot be told
	}
}

// jobs are the hooks by name. Each handles its own events and ignores the others in silence.
var jobs = map[string]func(*Hook, context.Context, *Event) error{
	"gchat-ask-user-forward":      (*Hook).forward,
	"gchat-ask-user-answered":     (*Hook).answered,
	"gchat-ask-user-rewake":       (*Hook).rewake,
	"gchat-notification-dispatch": (*Hook).notification,
	"gchat-session-event":         (*Hook).sessionEvent,
	"gchat-stop-gate":             (*Hook).stopGate,
}

// Names are the hooks' names, sorted.
func Names() []string { return slices.Sorted(maps.Keys(jobs)) }

// JobName is the job that a name stands for: scripts that did it before were called so with .sh or .py at the end, and
// settings and other scripts still name them.
func JobName(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, ".sh"), ".py")
}

// Known says whether name is a hook's.
func Known(name string) bool { return jobs[name] != nil }

const (
	readBound  = 5 * time.Second  // for the event to arrive on stdin
	quickBound = 10 * time.Second // for a hook that does not wait; reached only when a disk or a lock hangs
)

// exitWake is the exit code with which a hook in the background wakes its session.
const exitWake = 2

// Run runs the hook and returns its exit code: 0, and for gchat-ask-user-rewake 2 when it wakes the session. It returns when
// the hook is done, in bound, without an error and without a panic: what went wrong is in the log.
func (h *Hook) Run() (code int) {
	signal.Ignore(syscall.SIGPIPE) // a Claude Code that is gone is no reason to end otherwise than with 0
	aborted := make(chan os.Signal, 1)
	// Go prints its stacks and exits 2 at the first two, and 2 means "block". A hook that does not wait ends at the others too.
	signal.Notify(aborted, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	h.log = state.NewLog(h.Env, h.Name)
	h.poller = &poller.Poller{Env: h.Env, Log: h.log}
	done, waiting := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer h.catch()
		input, err := h.read()
		if err != nil {
			h.log.Error().Err(err).Msg("hook event not read; nothing is done")
			return
		}
		e, err := decode(input, h.Own)
		if err != nil {
			h.log.Error().Err(err).Int("bytes", len(input)).Msg("hook event not understood; nothing is done")
			return
		}
		ctx := context.Background()
		if h.mayWait(e) {
			var stop func()
			ctx, stop = untilTold()
			defer stop()
			close(waiting)
		}
		if err := h.do(ctx, e); err != nil {
			h.log.Error().Str("error", h.log.Clean(err.Error())).Str("event", e.HookEventName).Str("session", e.SessionID).
				Str("hint", hint(err)).Msg("hook failed; the session goes on without it")
		}
	}()
	select {
	case <-done:
	case <-waiting:
		<-done
	case <-aborted:
		return 0
	case <-time.After(quickBound):
		h.log.Error().Msg("hook gave up: the disk or a lock does not answer")
		return 0
	}
	return h.code
}

func (h *Hook) do(ctx context.Context, e *Event) error {
	if h.Job != nil {
		return h.Job(ctx, h, e)
	}
	return jobs[h.Name](h, ctx, e)
}

// Log is the hook's log; nil before Run.
func (h *Hook) Log() *state.Log { return h.log }

func hint(err error) string {
	switch {
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return "the state folder cannot be written: check its owner, or set GCHAT_STATE_DIR"
	case errors.Is(err, syscall.ENOSPC):
		return "the disk is full"
	case errors.Is(err, state.ErrLocked):
		return "another gchat-hooks process is stopped while it holds a lock"
	}
	return ""
}

// catch keeps a panic from ending the process with exit code 2, which Claude Code takes for "block".
func (h *Hook) catch() {
	if r := recover(); r != nil {
		h.log.Error().Any("panic", r).Bytes("stack", debug.Stack()).Msg("a bug in gchat-hooks; please report it")
	}
}

// read takes the event from stdin, and no more: a pipe that is never closed must not hold the session.
func (h *Hook) read() ([]byte, error) {
	type result struct {
		b   []byte
		err error
	}
	got := make(chan result, 1)
	go func() {
		in := &io.LimitedReader{R: h.Stdin, N: maxEvent}
		var b json.RawMessage
		err := json.NewDecoder(in).Decode(&b)
		if in.N == 0 && err != nil {
			err = fmt.Errorf("more than %d bytes", maxEvent)
		}
		got <- result{b, err}
	}()
	select {
	case r := <-got:
		return r.b, r.err
	case <-time.After(readBound):
		return nil, fmt.Errorf("no whole event on stdin within %s", readBound)
	}
}

// wake has what is in the outbox, and questions that no hook posts, sent by a process of its own.
func (h *Hook) wake() {
	if h.Self == "" {
		return
	}
	if err := poller.StartFlusher(h.Env, h.Self); err != nil {
		h.log.Error().Err(err).Msg("flusher not started; the next hook tries again")
	}
}
