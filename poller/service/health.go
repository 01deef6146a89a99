package service

import (
	"fmt"
	"strconv"
	"time"

	"gchat-hooks/state"
)

// Exit codes of the health check.
const (
	Healthy = 0
	Stale   = 1 // the last good cycle is too long ago
	Never   = 2 // there was none
)

// Health says when the daemon last looked for replies, in one line that monitors read: Healthy when that was within twice the
// poll interval. The project's state folder tells it, or else the user's.
func Health(env state.Getenv, now time.Time) (line string, exitCode int) {
	last := state.LastPoll(state.ProjectState(env))
	if last.IsZero() {
		last = state.LastPoll(state.UserState(env))
	}
	if last.IsZero() {
		return "WARN: Health file not found — daemon may not have run yet", Never
	}
	threshold := 2 * state.LoadConfig(env, state.ProjectDir(env)).PollInterval
	age := now.Sub(last).Truncate(time.Second).Abs() // of either sign: a clock that was set back is no good cycle
	line = fmt.Sprintf("Last poll %s ago (threshold: %s)", seconds(age), seconds(threshold))
	if age > threshold {
		return "WARN: " + line + " — daemon may be stuck", Stale
	}
	return "OK: " + line, Healthy
}

// seconds is a time span as the health check prints it: 90s, and 0.5s where whole seconds would not do.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s" }
