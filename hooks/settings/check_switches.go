package settings

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gchat-hooks/state"
)

// deciding is the file whose value of a switch counts: the last one that has it.
func (a *audit) deciding(names ...string) (on bool, in *source) {
	for _, s := range a.sources() {
		if v, set := s.bool(names...); set && s.scope != plugin {
			on, in = v, s
		}
	}
	return on, in
}

// checkDisabled looks for what switches all hooks off.
func (a *audit) checkDisabled(context.Context) []state.Finding {
	const means = "no hook runs, so no question is asked in Chat"
	if on, in := a.deciding("disableAllHooks"); on {
		return failed("disableAllHooks is set in "+in.path,
			means, "take it out: $EDITOR "+state.ShellQuoted(in.path))
	}
	if a.env("CLAUDE_CODE_SAFE_MODE") != "" {
		return warned("CLAUDE_CODE_SAFE_MODE is set",
			"sessions started from here run no hooks", "unset CLAUDE_CODE_SAFE_MODE")
	}
	return state.Fine("hooks are not switched off")
}

// checkManaged looks whether only the administrator's hooks run.
func (a *audit) checkManaged(context.Context) []state.Finding {
	for _, s := range a.sources() {
		if on, _ := s.bool("allowManagedHooksOnly"); !on || s.scope != managed {
			continue
		}
		if slices.ContainsFunc(a.own(), func(h registered) bool { return h.from.scope == managed }) {
			return state.Fine("only managed hooks run, and ours are among them")
		}
		return failed(
			"allowManagedHooksOnly is set in "+s.path,
			"Claude Code runs none of your own hooks",
			"ask your administrator to put the hooks into the managed settings ("+installs+" --dry-run shows them)",
		)
	}
	return state.Fine("your own hooks may run")
}

// checkTrust looks whether Claude Code trusts the project's folder: in interactive sessions no hook runs before that, not
// even the person's own.
func (a *audit) checkTrust(context.Context) []state.Finding {
	if a.project == state.Home(a.env) {
		return state.Skipped("this is your home folder, of which Claude Code keeps no trust: run it in a project")
	}
	yes, known := state.Trusted(a.env, a.project)
	switch {
	case yes:
		return state.Fine("Claude Code trusts " + a.project)
	case !known:
		return state.Skipped("Claude Code was not used here yet")
	}
	return warned(
		"Claude Code was not told to trust "+a.project,
		"in an interactive session no hook runs until then",
		"cd "+state.ShellQuoted(a.project)+" && claude, and accept the folder",
	)
}

// Claude Code closed questions by itself after 60 seconds in these two versions, unless told otherwise.
var impatientFrom, impatientTo = Version{2, 1, 198}, Version{2, 1, 200}

// checkIdle looks whether Claude Code goes on by itself when nobody answers in the terminal.
func (a *audit) checkIdle(ctx context.Context) []state.Finding {
	const means = "the dialog closes with what is ticked before you can reply from Chat"
	if s := a.env("CLAUDE_AFK_TIMEOUT_MS"); s != "" {
		return warned("CLAUDE_AFK_TIMEOUT_MS is set", means, "unset CLAUDE_AFK_TIMEOUT_MS")
	}
	after, in := "", (*source)(nil)
	for _, s := range a.sources() {
		var v any // a number, too, is somebody's wish for an end
		if (s.scope == User || s.scope == managed) && s.value(&v, "askUserQuestionTimeout") {
			after, in = fmt.Sprint(v), s
		}
		var env map[string]any
		s.value(&env, "env")
		if _, ok := env["CLAUDE_AFK_TIMEOUT_MS"]; ok {
			return warned("env.CLAUDE_AFK_TIMEOUT_MS is set in "+s.path,
				means, "take it out: $EDITOR "+state.ShellQuoted(s.path))
		}
	}
	if after != "" && after != "never" {
		return warned(fmt.Sprintf("askUserQuestionTimeout is %.20q in %s", after, in.path),
			means, `set it to "never": $EDITOR `+state.ShellQuoted(in.path))
	}
	if v, err := a.claude(ctx); err == nil && v.atLeast(impatientFrom) && !v.atLeast(impatientTo) {
		return warned("Claude Code "+v.String()+" closes questions by itself after a minute",
			means, "claude update")
	}
	return state.Fine("a question waits until it is answered")
}

// checkPrompting looks for what refuses questions before anybody is asked.
func (a *audit) checkPrompting(context.Context) []state.Finding {
	for _, names := range [][]string{{"permissions", "denyInsteadOfPrompting"}, {"denyInsteadOfPrompting"}} {
		if on, in := a.deciding(names...); on {
			return failed(strings.Join(names, ".")+" is set in "+in.path,
				"Claude Code refuses every question by itself", "take it out: $EDITOR "+state.ShellQuoted(in.path))
		}
	}
	mode, in := "", (*source)(nil)
	for _, s := range a.sources() {
		var deny []string
		s.value(&deny, "permissions", "deny")
		for _, rule := range deny {
			if name, _, _ := strings.Cut(rule, "("); name == ask || name == "*" {
				return failed("permissions.deny has "+name+" in "+s.path,
					"Claude cannot ask questions", "take it out: $EDITOR "+state.ShellQuoted(s.path))
			}
		}
		var m string
		if s.value(&m, "permissions", "defaultMode") {
			mode, in = m, s
		}
	}
	if mode == "dontAsk" {
		return warned("permissions.defaultMode is dontAsk in "+in.path,
			"Claude Code refuses every question by itself", "use another mode: $EDITOR "+state.ShellQuoted(in.path))
	}
	return state.Fine("Claude may ask questions")
}
