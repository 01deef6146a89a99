package settings

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gchat-hooks/state"
)

// own are the entries of ours, of all files and plugins.
func (a *audit) own() (all []registered) {
	for _, s := range a.sources() {
		for _, h := range s.hooks {
			if h.name != "" {
				all = append(all, h)
			}
		}
	}
	return all
}

// asks says whether a mode is that of any session.
func (a *audit) asks(mode state.Mode) bool {
	return a.cfg.AskMode == mode || slices.ContainsFunc(a.cfg.Rules, func(r state.Rule) bool { return r.AskMode == mode })
}

// checkHooks looks for the hooks without which questions do not get into the space, or answers not back.
func (a *audit) checkHooks(context.Context) []state.Finding {
	all := a.own()
	if len(all) == 0 {
		return failed("no hook of ours is registered in Claude Code's settings",
			"no question is asked in Chat", installs)
	}
	want, _ := Hooks("answer")
	var vital, rest, files []string
	for _, h := range want {
		has := slices.ContainsFunc(all, func(r registered) bool {
			return r.Event == h.Event && r.name == h.Name && (h.Matcher == "" || matches(r.Matcher, h.Matcher))
		})
		switch {
		case has:
		case h.Name == "gchat-ask-user-forward" && (h.Event == "PreToolUse" || a.asks(state.Native)):
			vital = append(vital, h.Event)
		default:
			rest = append(rest, h.Event)
		}
	}
	for _, h := range all {
		if !slices.Contains(files, h.from.path) {
			files = append(files, h.from.path)
		}
	}
	mend := installs
	if len(files) == 1 {
		mend = all[0].from.reinstall("answer")
	}
	switch {
	case len(vital) > 0:
		means := "questions are not asked in Chat"
		if vital[0] == "PermissionRequest" { // the only one: the table has PreToolUse first
			means = "questions are posted, but only the terminal can answer them"
		}
		return failed("gchat-ask-user-forward is not registered on "+strings.Join(vital, ", ")+" for AskUserQuestion",
			means, mend)
	case len(rest) > 0:
		return warned("gchat-ask-user-answered is not registered on "+strings.Join(rest, ", "),
			"threads do not hear how a question ended", mend)
	}
	return state.Fine("registered in " + strings.Join(files, ", "))
}

// checkProgram looks whether what the entries start is there: Claude Code goes on without a word when it is not.
func (a *audit) checkProgram(ctx context.Context) (fs []state.Finding) {
	all := a.own()
	if len(all) == 0 {
		return state.Skipped("no hook of ours is registered")
	}
	v, verr := a.claude(ctx)
	seen := map[string]bool{}
	for _, h := range all {
		if h.Args != nil && verr == nil && !v.atLeast(execForm) && !seen["args "+h.from.path] {
			seen["args "+h.from.path] = true
			fs = append(fs, failed(h.from.path+` has entries with "args", which Claude Code `+v.String()+" does not know",
				"the hooks start without their names and do nothing", h.from.reinstall())...)
		}
		path, why := h.program(a.env)
		if seen[path] {
			continue
		}
		seen[path] = true
		if why == "" && strings.Contains(path, "/") && state.WritableByOthers(path) {
			fs = append(fs, warned("other users of this machine can write to "+path+", which "+h.from.path+" starts",
				"what they put there runs as you", "chmod go-w "+state.ShellQuoted(path))...)
		}
		if why == "" {
			continue
		}
		fs = append(fs, failed(fmt.Sprintf("%s starts %s, %s", h.from.path, path, why),
			"Claude Code passes the hook over without a word", h.from.reinstall())...)
	}
	if len(fs) == 0 {
		return state.Fine("the registered program is there")
	}
	return fs
}

// program is what an entry of ours starts, and why it cannot be started; "" when it can, or when a shell has to say.
func (r registered) program(env state.Getenv) (path, why string) {
	path, _ = ours(r.Command, r.Args)
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if r.Args != nil {
			return path, "and without a shell ~ is no folder"
		}
		path = filepath.Join(state.Home(env), rest)
	}
	for _, name := range []string{"HOME", "CLAUDE_PROJECT_DIR"} {
		value := env(name)
		if name == "CLAUDE_PROJECT_DIR" {
			value = state.ProjectDir(env)
		}
		path = strings.ReplaceAll(strings.ReplaceAll(path, "${"+name+"}", value), "$"+name, value)
	}
	if strings.ContainsAny(path, "$`") {
		return path, ""
	}
	if !strings.Contains(path, "/") {
		if _, err := exec.LookPath(path); err != nil {
			return path, "which is not on PATH"
		}
		return path, ""
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return path, "which is not there"
	case info.IsDir() || info.Mode()&0o111 == 0:
		return path, "which is no program"
	}
	return path, ""
}

// usualTimeout is how long Claude Code lets a hook run that has no "timeout".
const usualTimeout = 10 * time.Minute

// checkLimit looks whether the hooks that wait for a person may wait as long as they mean to: they end by themselves just
// before their time is up, and have to know it.
func (a *audit) checkLimit(context.Context) (fs []state.Finding) {
	for _, h := range a.own() {
		waits := h.name == "gchat-ask-user-rewake"
		if h.name == "gchat-ask-user-forward" {
			waits = h.Event == "PermissionRequest" || h.Event == "PreToolUse" && a.asks(state.Hold)
		}
		limit := time.Duration(h.Timeout) * time.Second
		if limit == 0 {
			limit = usualTimeout
		}
		if waits && limit < state.HookTimeout {
			fs = append(fs, warned(fmt.Sprintf("Claude Code ends %s on %s after %s (%s)", h.name, h.Event, limit, h.from.path),
				"later replies do not answer the question, and its thread does not hear why", h.from.reinstall())...)
		}
	}
	if len(fs) == 0 {
		return state.Fine("hooks that wait for you may wait long enough")
	}
	return fs
}

// checkRewake looks whether the hooks of deny mode are there, and whether this Claude Code knows asyncRewake.
func (a *audit) checkRewake(ctx context.Context) []state.Finding {
	v, err := a.claude(ctx)
	wakes := 0
	for _, h := range a.own() {
		if h.name != "gchat-ask-user-rewake" {
			continue
		}
		wakes++
		if err == nil && !v.atLeast(AsyncRewake) {
			return failed("gchat-ask-user-rewake is registered, and Claude Code "+v.String()+" does not know asyncRewake",
				"the session hangs in the hook until you reply", "claude update, or "+h.from.reinstall())
		}
		if !h.AsyncRewake {
			return failed("gchat-ask-user-rewake is registered on "+h.Event+" without asyncRewake",
				"the session hangs in the hook until you reply", h.from.reinstall())
		}
	}
	if a.asks(state.Deny) && wakes == 0 {
		return warned("ask_mode is deny, and gchat-ask-user-rewake is not registered",
			"nothing wakes a session with your reply; gchat-wait has to fetch it", installs+" --preset system3")
	}
	return state.Fine("what wakes sessions fits")
}
