package doctor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"gchat-hooks/cli/claudecheck"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

const (
	askTool     = "AskUserQuestion"
	programName = "gchat-hooks"
)

// source is a settings file, or a plugin's hooks.
type source struct {
	path       string
	isManaged  bool    // an administrator's: Claude Code also uses it if others are excluded
	parseErr   error   // why Claude Code skips the file
	missingDir string  // a plugin's missing folder, without which none of its hooks runs
	hooks      []*hook // our hooks in it
	file       settingsFile
}

// settingsFile is what the doctor reads of settings.json. It ignores a member of the
// wrong type.
type settingsFile struct {
	DisableAllHooks  *bool           `json:"disableAllHooks"`
	ManagedHooksOnly bool            `json:"allowManagedHooksOnly"`
	EnabledPlugins   map[string]bool `json:"enabledPlugins"`
	AskTimeout       any             `json:"askUserQuestionTimeout"`
	Permissions      struct {
		Deny        []string `json:"deny"`
		DefaultMode string   `json:"defaultMode"`
	} `json:"permissions"`
	Env map[string]string `json:"env"`
}

// hook is an entry of ours in a source.
type hook struct {
	settings.Entry
	source        *source
	program, name string // the program's path, and the hook's name
}

// readSources reads the settings that apply to a project. A later source overrides an
// earlier one; plugins come first. Settings that a session was started with (--settings)
// cannot be seen here.
func readSources(env state.Getenv) []*source {
	var paths []string
	for _, scope := range []settings.Scope{settings.User, settings.Project, settings.Local} {
		file, _ := settings.FileFor(env, scope)
		paths = append(paths, file.Path)
	}
	paths = append(paths, config.ManagedFiles(env)...)
	var sources []*source
	enabled, forced := map[string]bool{}, map[string]bool{}
	for _, path := range paths {
		if b, err := state.ReadPlainOrLink(path, state.MaxFileSize); err == nil {
			s := &source{path: path, isManaged: strings.HasPrefix(path, config.ManagedDir(env))}
			s.parse(b)
			maps.Copy(enabled, s.file.EnabledPlugins)
			if s.isManaged {
				maps.Copy(forced, s.file.EnabledPlugins)
			}
			sources = append(sources, s)
		}
	}
	sources = append(pluginSources(env, enabled, forced), sources...)
	onlyManagedBy := managedOnlyFile(sources)
	for _, s := range sources {
		if onlyManagedBy != "" && !s.isManaged {
			s.hooks = nil // Claude Code runs none of them
		}
	}
	return sources
}

// managedOnlyFile is the settings file that allows only managed hooks. It is "" if there
// is none.
func managedOnlyFile(all []*source) string {
	for _, s := range all {
		if s.isManaged && s.file.ManagedHooksOnly {
			return s.path
		}
	}
	return ""
}

// pluginSources are our enabled plugins. A plugin has the hooks of the preset that it is
// named after. forced are the plugins that managed settings enable.
func pluginSources(env state.Getenv, enabled, forced map[string]bool) (sources []*source) {
	var installed struct {
		Plugins map[string][]struct{ InstallPath string }
	}
	user, _ := settings.FileFor(env, settings.User)
	installedFile := filepath.Join(filepath.Dir(user.Path), "plugins", "installed_plugins.json")
	b, _ := state.ReadPlainOrLink(installedFile, state.MaxFileSize)
	_ = json.Unmarshal(b, &installed)
	for _, name := range slices.Sorted(maps.Keys(enabled)) {
		plugin, _, _ := strings.Cut(name, "@")
		preset, isOurs := strings.CutPrefix(plugin, programName)
		hooks, err := settings.PresetHooks(cmp.Or(strings.TrimPrefix(preset, "-"), "answer"))
		if !enabled[name] || !isOurs || err != nil {
			continue
		}
		s := &source{path: "the plugin " + name, isManaged: forced[name]}
		for _, folder := range installed.Plugins[name] {
			if _, err := os.Stat(folder.InstallPath); err != nil {
				s.missingDir = folder.InstallPath
			}
		}
		for _, h := range hooks {
			s.hooks = append(s.hooks, &hook{
				Entry:   settings.Entry{Event: h.Event, Matcher: h.Matcher},
				source:  s,
				program: programName,
				name:    h.Name,
			})
		}
		sources = append(sources, s)
	}
	return sources
}

// parse reads the settings and our hooks from a file's text.
func (s *source) parse(b []byte) {
	entries, err := settings.OwnEntries(b)
	s.parseErr = err
	_ = json.Unmarshal(bytes.TrimPrefix(b, []byte("\ufeff")), &s.file)
	for _, entry := range entries {
		program, name := settings.ParseOwnCommand(entry.Command, entry.Args)
		s.hooks = append(s.hooks, &hook{Entry: entry, source: s, program: program, name: name})
	}
}

// usesMode reports whether the configuration sets a mode for any session.
func (e *exam) usesMode(mode state.Mode) bool {
	setsMode := func(r config.Rule) bool { return r.AskMode == mode }
	return e.cfg.AskMode == mode || slices.ContainsFunc(e.cfg.Rules, setsMode)
}

func (e *exam) checkClaudeVersion(ctx context.Context, r *result) {
	v, err := settings.InstalledVersion(ctx, e.Env, checkTimeout)
	switch {
	case err != nil:
		r.warn("%v", err).Fix = "install Claude Code, or put it on PATH, and check what claude --version prints"
	case v.CheckSupported() != nil:
		// A version that does not know one of our hook events ignores the whole settings
		// file.
		r.fail("Claude Code %s is too old", v)
	}
	checked, isKnown := state.LoadClaudeCheck(e.Env, v.String())
	for _, meaning := range claudecheck.Meanings(checked.Broken) {
		r.warn("Claude Code %s: %s", v, meaning).Fix = "gchat-hooks doctor --claude tries it again"
	}
	if checked.Failure != "" {
		r.ok("%s", claudecheck.FailureText(v.String(), checked.Failure))
	}
	if !isKnown && checked.Failure == "" && err == nil {
		r.ok("Claude Code %s; gchat-hooks doctor --claude tries whether it works with this version", v)
	}
	r.ok("Claude Code %s", v)
}

// checkClaudeSettings looks for settings that keep our hooks from running, that refuse
// questions before the person is asked, or that close questions while the person is away.
// If several files set disableAllHooks, the one with the highest rank counts.
func (e *exam) checkClaudeSettings(_ context.Context, r *result) {
	disabledBy := ""
	for _, s := range e.sources {
		if s.parseErr != nil {
			r.fail("Claude Code skips all of %s, including its hooks: %v", s.path, s.parseErr).Fix =
				"correct its JSON: comments and trailing commas are not allowed"
		}
		if s.missingDir != "" {
			plugin := strings.TrimPrefix(s.path, "the plugin ")
			r.fail("the folder of %s is gone: %s", s.path, s.missingDir).Fix =
				"claude plugin install " + plugin + ", then /reload-plugins in each session that runs"
		}
		if s.file.DisableAllHooks != nil {
			disabledBy = map[bool]string{true: s.path}[*s.file.DisableAllHooks]
		}
		isAsk := func(rule string) bool { return rule == "*" || strings.HasPrefix(rule, askTool) }
		if slices.ContainsFunc(s.file.Permissions.Deny, isAsk) {
			r.fail("permissions.deny has %s in %s: Claude cannot ask you", askTool, s.path)
		}
		if askTimeout := s.file.AskTimeout; askTimeout != nil && askTimeout != "never" {
			r.warn("askUserQuestionTimeout is %.20q in %s: questions close before you reply",
				fmt.Sprint(askTimeout), s.path)
		}
	}
	if disabledBy != "" {
		r.fail("disableAllHooks is set in %s: no hooks run", disabledBy)
	}
	hasHooks := func(s *source) bool { return len(s.hooks) > 0 }
	onlyManagedBy := managedOnlyFile(e.sources)
	if onlyManagedBy != "" && !slices.ContainsFunc(e.sources, hasHooks) {
		r.fail("allowManagedHooksOnly is set in %s: your hooks do not run", onlyManagedBy)
	}
	r.ok("hooks can run, and Claude can ask; settings files: %d", len(e.sources))
}

// checkClaudeTrust checks that Claude Code trusts the project's folder. In interactive
// sessions no hook runs before that, not even one in the person's own settings.
func (e *exam) checkClaudeTrust(_ context.Context, r *result) {
	isTrusted, isKnown := state.IsFolderTrusted(e.Env, e.project)
	switch {
	case !isKnown || e.project == state.Home(e.Env):
		r.skip("not in a project: run doctor in a folder where you started claude")
	case !isTrusted:
		r.warn("Claude Code was not told to trust %s", e.project)
	}
	r.ok("Claude Code trusts %s", e.project)
}

// checkClaudeHooks checks that the hooks are registered that questions and answers need,
// and that their programs exist: Claude Code silently skips a hook whose program is
// missing.
func (e *exam) checkClaudeHooks(_ context.Context, r *result) {
	var hooks []*hook
	for _, s := range e.sources {
		hooks = append(hooks, s.hooks...)
	}
	onlyManagedBy := managedOnlyFile(e.sources)
	switch {
	case len(hooks) == 0 && onlyManagedBy != "":
		r.skip("only managed hooks may run")
		return
	case len(hooks) == 0:
		r.fail("no hook of gchat-hooks is registered in Claude Code's settings")
		return
	}
	for _, h := range hooks {
		isExpanded := strings.ContainsAny(h.program, "$~") // only the shell knows the path
		if _, err := exec.LookPath(h.program); err != nil && !isExpanded {
			r.fail("%s starts %s: %v", h.source.path, h.program, err)
		}
	}
	e.compareWithPreset(r, hooks, onlyManagedBy)
	isRewake := func(h *hook) bool { return h.name == "gchat-ask-user-rewake" }
	if e.usesMode(state.ModeDeny) && !slices.ContainsFunc(hooks, isRewake) {
		r.warn("ask_mode is deny, but no gchat-ask-user-rewake is registered: your reply wakes no session").Fix =
			"gchat-hooks install --preset system3"
	}
	r.ok("hooks are registered in %s", hooks[0].source.path)
}

// compareWithPreset reports the missing hooks of a preset: approve if one of its own
// hooks is registered, else answer. If managedBy is set, only an administrator can
// register them.
func (e *exam) compareWithPreset(r *result, registered []*hook, managedBy string) {
	preset := "answer"
	if slices.ContainsFunc(registered, (*hook).isOfApprove) {
		preset = "approve"
	}
	fix := "gchat-hooks install --preset " + preset
	if managedBy != "" {
		fix = "ask the administrator to register the preset " + preset
	}
	required, _ := settings.PresetHooks(preset)
	for _, w := range required {
		switch {
		case slices.ContainsFunc(registered, func(h *hook) bool { return h.matchesPreset(w) }):
		case e.isEssential(w):
			r.fail("%s is not registered on %s: only the terminal can answer", w.Name, w.Event).Fix = fix
		default:
			r.warn("%s is not registered on %s: threads say nothing about it", w.Name, w.Event).Fix = fix
		}
	}
}

// isEssential reports whether no question can be answered in Chat without this hook.
func (e *exam) isEssential(w settings.Hook) bool {
	asksPermission := w.Matcher == "" || e.usesMode(state.ModeNative)
	return w.Event == "PreToolUse" || w.Event == "PermissionRequest" && asksPermission
}

// checkClaudeWaits reports sessions that wait in their terminal only, and auto mode if it
// makes sessions do so.
func (e *exam) checkClaudeWaits(ctx context.Context, r *result) {
	sessions, _ := state.SessionsIn(state.UserStateDir(e.Env)).All()
	for _, session := range sessions {
		if dialog := inject.TerminalDialogText(e.Env, session); dialog != "" {
			r.warn("the session %s waits only in its terminal: %s", session.Name, dialog)
		}
	}
	takesPermissions := func(s *source) bool {
		return slices.ContainsFunc(s.hooks, (*hook).takesAllPermissions)
	}
	gateway := autoModeGateway(ctx, e.Env, e.sources)
	if gateway != "" && slices.ContainsFunc(e.sources, takesPermissions) {
		r.warn("sessions start in auto mode, but %s does not pass auto mode's check on to Anthropic: Claude "+
			"then asks for permissions only in the terminal. In the modes default and acceptEdits, they reach Chat", gateway).Fix =
			"gchat-hooks setup --approve offers the mode default, as permissions.defaultMode in your settings"
	}
	r.ok("no session waits only in its terminal")
}

// autoModeSince is the oldest version of Claude Code that we have seen start sessions in
// auto mode without a setting.
var autoModeSince = settings.Version{2, 1, 329}

// AutoModeGateway is the host of the gateway behind which sessions start in auto mode.
// Claude Code 2.1.332 then shows dialogs for which it runs no PermissionRequest hook. It
// is "" without a gateway, and in other modes.
func AutoModeGateway(ctx context.Context, env state.Getenv) string {
	return autoModeGateway(ctx, env, readSources(env))
}

func autoModeGateway(ctx context.Context, env state.Getenv, sources []*source) string {
	mode, address := "", env("ANTHROPIC_BASE_URL")
	for _, s := range sources {
		mode = cmp.Or(s.file.Permissions.DefaultMode, mode)
		address = cmp.Or(s.file.Env["ANTHROPIC_BASE_URL"], address)
	}
	gateway, err := url.Parse(address)
	isDirect := err != nil || gateway.Host == "" || gateway.Hostname() == "api.anthropic.com"
	if isDirect || mode != "" && mode != "auto" {
		return ""
	}
	v, err := settings.InstalledVersion(ctx, env, checkTimeout)
	startsInAutoMode := err == nil && v.IsAtLeast(autoModeSince)
	if mode == "" && !startsInAutoMode {
		return ""
	}
	return gateway.Host
}

// matchesPreset reports whether the hook does the work of a preset's hook.
func (h *hook) matchesPreset(w settings.Hook) bool {
	switch {
	case h.Event != w.Event || h.name != w.Name:
		return false
	case w.Matcher != "":
		// A person may have written the matcher in another way than install does.
		takesAll := slices.Contains([]string{"", "*", ".*"}, h.Matcher)
		return takesAll || h.Matcher == w.Matcher || strings.Contains(h.Matcher, askTool)
	}
	return w.Event != "PermissionRequest" || h.takesAllPermissions()
}

// isOfApprove reports whether the hook is in the preset approve, but not in answer.
func (h *hook) isOfApprove() bool { return h.Event == "PostToolBatch" || h.takesAllPermissions() }

// takesAllPermissions reports whether the hook answers all permissions, not only
// questions.
func (h *hook) takesAllPermissions() bool {
	return h.Event == "PermissionRequest" && h.name == "gchat-ask-user-forward" &&
		(h.Matcher == "" || h.Matcher == "*")
}
