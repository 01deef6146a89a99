package poller

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// claudeLookInterval is how often a poller looks for a Claude Code that was not checked.
const claudeLookInterval = time.Minute

// ownClaudePath returns how the path of a Claude Code ends that Anthropic's installers
// made: the native one, and the packages of npm.
var ownClaudePath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`(/claude/versions/[0-9.]+|/@anthropic-ai/claude-code[^/]*/([^/]+/)*claude)$`)
})

// checkClaude starts a check of the Claude Code of a session, if that version is not known
// to work with this program, and if this machine has nothing else to do. The check is a
// process of its own, which may outlive this poller. root is the machine's root folder.
func (p *Poller) checkClaude(isWanted bool, root fs.FS) {
	now := p.Now()
	if !isWanted || runtime.GOOS != "linux" || now.Before(p.claudeLookDue) {
		return
	}
	p.claudeLookDue = now.Add(claudeLookInterval)
	binary, version, known := p.findUncheckedClaude()
	if binary == "" || hasManagedSettings(p.Env) || !isIdleMachine(root) {
		return
	}
	// Written first: a check that is killed is not started again. What another release
	// found counts until this check has found more.
	known.CheckedAt, known.Failure = now.UTC(), "the check did not come to its end"
	err := state.SaveClaudeCheck(p.Env, version, known)
	if err == nil {
		cmd := state.DetachedCommand(p.ProgramPath, "doctor", "--claude", "--claude-binary", binary,
			"--report")
		err = cmd.Start()
		if err == nil {
			go func() { _ = cmd.Wait() }()
		}
	}
	p.Log.ErrorOnce(err, "the check of Claude Code was not started")
}

// findUncheckedClaude returns the Claude Code of a session whose version was not checked
// with this release, and what another release found. It returns "" if there is none, or
// if a session works.
func (p *Poller) findUncheckedClaude() (binary, version string, known state.ClaudeCheck) {
	for _, session := range p.sessions {
		if session.ClaudePID <= 1 || inject.IsElsewhere(session.ClaudeStart) ||
			inject.HasEnded(session.ClaudePID, session.ClaudeStart) {
			continue
		}
		if inject.IdleSince(session.TranscriptPath, session.ID, session.ClaudePID).IsZero() {
			return "", "", known
		}
		running := inject.ClaudeVersion(session.TranscriptPath, session.ClaudePID)
		check, isKnown := state.LoadClaudeCheck(p.Env, running)
		if isKnown || running == "" {
			continue
		}
		// The link of a program that was replaced ends in " (deleted)".
		path, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(session.ClaudePID), "exe"))
		if err == nil && ownClaudePath().MatchString(path) {
			binary, version, known = path, running, check
		}
	}
	return binary, version, known
}

// hasManagedSettings reports whether an administrator set rules for Claude Code. Their
// hooks would run in a check, too.
func hasManagedSettings(env state.Getenv) bool {
	return slices.ContainsFunc(config.ManagedFiles(env), func(path string) bool {
		_, err := os.Stat(path)
		return !errors.Is(err, fs.ErrNotExist)
	})
}

// isIdleMachine reports whether little else runs, and the machine is not on battery.
func isIdleMachine(root fs.FS) bool {
	batteries, _ := fs.Glob(root, "sys/class/power_supply/*/status")
	for _, path := range batteries {
		b, _ := fs.ReadFile(root, path)
		if strings.TrimSpace(string(b)) == "Discharging" {
			return false
		}
	}
	b, err := fs.ReadFile(root, "proc/loadavg")
	if err != nil {
		return false
	}
	first, _, _ := strings.Cut(string(b), " ")
	load, err := strconv.ParseFloat(first, 64)
	return err == nil && load < float64(runtime.NumCPU())/2
}
