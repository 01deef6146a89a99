package settings

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"gchat-hooks/state"
)

// The versions of Claude Code that this program was tried with, the oldest and the newest.
var (
	testedTo = Version{2, 1, 329}
)

// installs is the command that registers the hooks.
const installs = "gchat-hooks install"

// audit is what the doctor looks at: settings are read once, and Claude Code asked for its version once.
type audit struct {
	env     state.Getenv
	cfg     *state.Config
	project string
	sources func() []*source

	versionOnce sync.Once
	version     Version
	versionErr  error
}

// Checks are the checks of what Claude Code was told: whether our hooks are registered, and whether anything keeps them from
// being run. They read settings files and start `claude --version`, nothing else.
func Checks(env state.Getenv, cfg *state.Config) []state.Check {
	project, _ := filepath.Abs(state.ProjectDir(env))
	a := &audit{env: env, cfg: cfg, project: project, sources: sync.OnceValue(func() []*source { return sources(env) })}
	return []state.Check{
		{ID: "claude.version", Run: a.checkVersion},
		{ID: "claude.settings", Run: a.checkSettings},
		{ID: "claude.hooks", Run: a.checkHooks},
		{ID: "claude.program", Run: a.checkProgram},
		{ID: "claude.twice", Run: a.checkTwice},
		{ID: "claude.limit", Run: a.checkLimit},
		{ID: "claude.rewake", Run: a.checkRewake},
		{ID: "claude.others", Run: a.checkOthers},
		{ID: "claude.disabled", Run: a.checkDisabled},
		{ID: "claude.managed", Run: a.checkManaged},
		{ID: "claude.trust", Run: a.checkTrust},
		{ID: "claude.idle", Run: a.checkIdle},
		{ID: "claude.prompting", Run: a.checkPrompting},
	}
}

// claude is the version of the claude on PATH.
func (a *audit) claude(ctx context.Context) (Version, error) {
	a.versionOnce.Do(func() { a.version, a.versionErr = AskVersion(ctx, a.env, 4*time.Second) })
	return a.version, a.versionErr
}

func (a *audit) checkVersion(ctx context.Context) []state.Finding {
	v, err := a.claude(ctx)
	const untried = "it may ask, answer or draw in ways that were not tried"
	switch {
	case errors.Is(err, errNoClaude):
		return warned(err.Error(), "its version is not known; hooks are checked as for the oldest, "+Oldest.String(),
			"install Claude Code, or put it on PATH")
	case err != nil:
		return warned(err.Error(), untried, "run claude --version by hand")
	case v.Supported() != nil:
		return failed(v.Supported().Error(), "one hook event that it does not know voids the whole settings file",
			"claude update")
	case v != testedTo && v.atLeast(testedTo):
		return warned("Claude Code "+v.String()+" is newer than "+testedTo.String()+", the newest that was tried", untried,
			"gchat-hooks demo --claude shows whether it works; look for a newer gchat-hooks")
	}
	return state.Fine("Claude Code " + v.String() + ", within " + Oldest.String() + " … " + testedTo.String())
}

// checkSettings finds the files that Claude Code skips, hooks and all.
func (a *audit) checkSettings(context.Context) (fs []state.Finding) {
	for _, s := range a.sources() {
		if s.broken != nil {
			fs = append(fs, failed(
				s.path+" cannot be read: "+s.broken.Error(),
				"Claude Code skips the whole file, hooks and all",
				"mend its JSON: $EDITOR "+state.ShellQuoted(s.path),
			)...)
		}
	}
	if len(fs) == 0 {
		return state.Fine(fmt.Sprintf("settings files that Claude Code reads: %d", len(a.sources())))
	}
	return fs
}

func failed(what, means, mend string) []state.Finding {
	return []state.Finding{{Level: state.LevelFail, What: what, Means: means, Mend: mend}}
}

func warned(what, means, mend string) []state.Finding {
	return []state.Finding{{Level: state.LevelWarn, What: what, Means: means, Mend: mend}}
}
