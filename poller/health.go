package poller

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gchat-hooks/state"
)

// Exit codes of the health check.
const (
	healthOK    = 0
	healthStale = 1 // the last good cycle is too long ago, or it cannot be told
	healthNever = 2 // there was none
)

// Health says when the daemon last looked for replies, in one line: 0 when that was within twice the poll interval, 1
// when it is longer ago or cannot be told, 2 when there is no time. It looks into the project's state folder, and where
// there is no time, into the user's.
func Health(env state.Getenv, now time.Time) (line string, exitCode int) {
	threshold := 2 * state.LoadConfig(env, state.ProjectDir(env)).PollInterval
	var text string
	err := fs.ErrNotExist
	for _, dir := range []string{state.ProjectState(env), state.UserState(env)} {
		if text, err = readHealth(filepath.Join(dir, state.LastPollFile)); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "WARN: Health file not found — daemon may not have run yet", healthNever
	}
	if err != nil {
		return fmt.Sprintf("WARN: Health file cannot be read: %v", err), healthStale
	}
	last, err := parseHealth(text)
	if err != nil {
		return fmt.Sprintf("WARN: Health file does not hold a time: %.40q", text), healthStale
	}
	// In whole seconds, as the line says it: the time in the file has no finer ones.
	age := now.Sub(last).Truncate(time.Second)
	switch {
	case -age > threshold:
		return fmt.Sprintf("WARN: Last poll is %s in the future — the clock may have been set back", seconds(-age)), healthStale
	case age > threshold:
		return fmt.Sprintf("WARN: Last poll %s ago (threshold: %s) — daemon may be stuck", seconds(age), seconds(threshold)), healthStale
	}
	return fmt.Sprintf("OK: Last poll %s ago (threshold: %s)", seconds(max(age, 0)), seconds(threshold)), healthOK
}

// readHealth is what the file says; fs.ErrNotExist also when a part of its path is no folder.
func readHealth(path string) (string, error) {
	f, err := state.OpenPlain(path, os.O_RDONLY)
	if errors.Is(err, syscall.ENOTDIR) {
		return "", fs.ErrNotExist
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 1024)) // a time is short, whatever stands there
	return strings.TrimSpace(string(b)), err
}

func parseHealth(text string) (t time.Time, err error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05Z0700"} { // the second as `date +%z` writes it
		if t, err = time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return t, err
}

// seconds is a time span as the health check prints it: 90s, and 0.5s where whole seconds would not do.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}
