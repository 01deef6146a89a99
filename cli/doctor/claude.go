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

	"gchat-hooks/hooks/settings"
	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

const (
	ask     = "AskUserQuestion"
	program = "gchat-hooks"
)

// source is a settings file, or a plugin's hooks.
type source struct {
	path    string
	managed bool    // only an administrator decides that it counts
	broken  error   // why Claude Code skips the file
	gone    string  // the folder of a plugin that is not there: none of its hooks runs
	hooks   []*hook // of ours
	file    settingsFile
}

// settingsFile is what the doctor reads of settings.json. A member of another type than it should have is passed over.
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
	from        *source
	start, name string // the program, and what it is called as
}

// sources are the settings that count for a project, in the order in which they count: the last one most. Plugins come
// first. What a session was started with (--settings) cannot be seen here.
func sources(env state.Getenv) []*source {
	managed := config.ManagedDir(env)
	var paths []string
	for _, scope := range []settings.Scope{settings.User, settings.Project, settings.Local} {
		file, _ := settings.At(env, scope)
		paths = append(paths, file.Path)
	}
	paths = append(paths, config.ManagedFiles(env)...)
	var all []*source
	enabled, forced := map[string]bool{}, map[string]bool{}
	for _, path := range paths {
		if b, err := state.ReadLinked(path, state.MostRead); err == nil {
			s := &source{path: path, managed: strings.HasPrefix(path, managed)}
			s.parse(b)
			maps.Copy(enabled, s.file.EnabledPlugins)
			if s.managed {
				maps.Copy(forced, s.file.EnabledPlugins)
			}
			all = append(all, s)
		}
	}
	all = append(plugins(env, enabled, forced), all...)
	only := managedOnly(all)
	for _, s := range all {
		if only != "" && !s.managed {
			s.hooks = nil // Claude Code does not run them
		}
	}
	return all
}

// managedOnly is the file that allows only managed hooks, "" where none does.
func managedOnly(all []*source) string {
	for _, s := range all {
		if s.managed && s.file.ManagedHooksOnly {
			return s.path
		}
	}
	return ""
}

// plugins are the hooks of our plugins that are enabled: those of the preset that a plugin is named after. forced are the plugins
// that managed settings enable.
func plugins(env state.Getenv, enabled, forced map[string]bool) (all []*source) {
	var installed struct {
		Plugins map[string][]struct{ InstallPath string }
	}
	user, _ := settings.At(env, settings.User)
	b, _ := state.ReadLinked(filepath.Join(filepath.Dir(user.Path), "plugins", "installed_plugins.json"), state.MostRead)
	_ = json.Unmarshal(b, &installed)
	for _, name := range slices.Sorted(maps.Keys(enabled)) {
		plugin, _, _ := strings.Cut(name, "@")
		preset, ours := strings.CutPrefix(plugin, program)
		hooks, err := settings.Hooks(cmp.Or(strings.TrimPrefix(preset, "-"), "answer"))
		if !enabled[name] || !ours || err != nil {
			continue
		}
		s := &source{path: "the plugin " + name, managed: forced[name]}
		for _, folder := range installed.Plugins[name] {
			if _, err := os.Stat(folder.InstallPath); err != nil {
				s.gone = folder.InstallPath
			}
		}
		for _, h := range hooks {
			entry := settings.Entry{Event: h.Event, Matcher: h.Matcher}
			s.hooks = append(s.hooks, &hook{Entry: entry, from: s, start: program, name: h.Name})
		}
		all = append(all, s)
	}
	return all
}

// parse reads a file.
func (s *source) parse(b []byte) {
	entries, err := settings.Registered(b)
	s.broken = err
	_ = json.Unmarshal(bytes.TrimPrefix(b, []byte("\ufeff")), &s.file)
	for _, e := range entries {
		start, name := settings.Ours(e.Command, e.Args)
		s.hooks = append(s.hooks, &hook{Entry: e, from: s, start: start, name: name})
	}
}

// asks says whether a mode is that of any session.
func (e *exam) asks(mode state.Mode) bool {
	return e.cfg.AskMode == mode || slices.ContainsFunc(e.cfg.Rules, func(r config.Rule) bool { return r.AskMode == mode })
}

func (e *exam) claudeVersion(ctx context.Context, r *result) {
	v, err := settings.AskVersion(ctx, e.Env, bound)
	switch {
	case err != nil:
		r.warn("%v", err).Mend = "install Claude Code, or put it on PATH, and see what claude --version prints"
	case v.Supported() != nil:
		// One hook event that it does not know voids the whole settings file.
		r.fail("Claude Code %s is too old", v)
	}
	r.ok("Claude Code %s", v)
}

// claudeSettings looks for what keeps our hooks from running, for what refuses questions before the person is asked, and for
// what closes them while the person is away. Of a switch the file counts that ranks highest.
func (e *exam) claudeSettings(_ context.Context, r *result) {
	off := ""
	for _, s := range e.sources {
		if s.broken != nil {
			r.fail("Claude Code skips all of %s, hooks too: %v", s.path, s.broken).Mend =
				"correct its JSON, without comments and trailing commas"
		}
		if s.gone != "" {
			r.fail("the folder of %s is gone: %s", s.path, s.gone).Mend =
				"claude plugin install " + strings.TrimPrefix(s.path, "the plugin ") + ", then /reload-plugins in each session that runs"
		}
		if s.file.DisableAllHooks != nil {
			off = map[bool]string{true: s.path}[*s.file.DisableAllHooks]
		}
		isAsk := func(rule string) bool { return rule == "*" || strings.HasPrefix(rule, ask) }
		if slices.ContainsFunc(s.file.Permissions.Deny, isAsk) {
			r.fail("permissions.deny has %s in %s", ask, s.path)
		}
		if after := s.file.AskTimeout; after != nil && after != "never" {
			r.warn("askUserQuestionTimeout is %.20q in %s: questions close before you reply", fmt.Sprint(after), s.path)
		}
	}
	if off != "" {
		r.fail("disableAllHooks is set in %s", off)
	}
	ours := func(s *source) bool { return len(s.hooks) > 0 }
	if only := managedOnly(e.sources); only != "" && !slices.ContainsFunc(e.sources, ours) {
		r.fail("allowManagedHooksOnly is set in %s: your hooks do not run", only)
	}
	r.ok("hooks may run, and Claude may ask; settings files: %d", len(e.sources))
}

// claudeTrust looks whether Claude Code trusts the project's folder: in interactive sessions no hook runs before that, not
// even the person's own.
func (e *exam) claudeTrust(_ context.Context, r *result) {
	yes, known := state.Trusted(e.Env, e.project)
	switch {
	case !known || e.project == state.Home(e.Env):
		r.skip("no project: run it in a folder in which claude was started")
	case !yes:
		r.warn("Claude Code was not told to trust %s", e.project)
	}
	r.ok("Claude Code trusts %s", e.project)
}

// claudeHooks looks for the hooks without which questions do not get into the space, or answers not back, and for what they
// start: Claude Code passes a hook over without a word where that is not there.
func (e *exam) claudeHooks(_ context.Context, r *result) {
	var all []*hook
	for _, s := range e.sources {
		all = append(all, s.hooks...)
	}
	only := managedOnly(e.sources)
	switch {
	case len(all) == 0 && only != "":
		r.skip("only managed hooks may run")
		return
	case len(all) == 0:
		r.fail("no hook of ours is registered in Claude Code's settings")
		return
	}
	for _, h := range all {
		named := strings.ContainsAny(h.start, "$~") // by what the shell puts there
		if _, err := exec.LookPath(h.start); err != nil && !named {
			r.fail("%s starts %s: %v", h.from.path, h.start, err)
		}
	}
	e.compareWithPreset(r, all, only)
	isRewake := func(h *hook) bool { return h.name == "gchat-ask-user-rewake" }
	if e.asks(state.Deny) && !slices.ContainsFunc(all, isRewake) {
		r.warn("ask_mode is deny, and no gchat-ask-user-rewake wakes a session with your reply").Mend =
			"gchat-hooks install --preset system3"
	}
	r.ok("registered in %s", all[0].from.path)
}

// compareWithPreset looks which hooks of the preset are missing that the registered ones are of.
// Where only managed hooks may run, an administrator registers them.
func (e *exam) compareWithPreset(r *result, all []*hook, managedBy string) {
	preset := "answer"
	if slices.ContainsFunc(all, (*hook).approves) {
		preset = "approve"
	}
	mend := "gchat-hooks install --preset " + preset
	if managedBy != "" {
		mend = "the administrator registers the preset " + preset
	}
	want, _ := settings.Hooks(preset)
	for _, w := range want {
		switch {
		case slices.ContainsFunc(all, func(h *hook) bool { return h.serves(w) }):
		case e.isNeeded(w):
			r.fail("%s is not registered on %s: only the terminal can answer", w.Name, w.Event).Mend = mend
		default:
			r.warn("%s is not registered on %s: threads do not hear of that", w.Name, w.Event).Mend = mend
		}
	}
}

// isNeeded reports whether nothing can be answered in Chat without a hook.
func (e *exam) isNeeded(w settings.Hook) bool {
	isAsked := w.Matcher == "" || e.asks(state.Native)
	return w.Event == "PreToolUse" || w.Event == "PermissionRequest" && isAsked
}

// claudeWaits tells of sessions that wait in their terminal alone, and of auto mode where that makes them.
func (e *exam) claudeWaits(ctx context.Context, r *result) {
	sessions, _ := state.SessionsIn(state.UserState(e.Env)).All()
	for _, one := range sessions {
		if says := inject.WaitsThere(e.Env, one); says != "" {
			r.warn("the session %s waits in its terminal, and only there: %s", one.Name, says)
		}
	}
	approves := func(s *source) bool { return slices.ContainsFunc(s.hooks, (*hook).forEveryPermission) }
	if gateway := autoBehind(ctx, e.Env, e.sources); gateway != "" && slices.ContainsFunc(e.sources, approves) {
		r.warn("sessions begin in auto mode, whose check %s does not pass on: what Claude then asks for is asked in the terminal "+
			"alone. Permissions reach Chat in the modes default and acceptEdits", gateway).Mend =
			"gchat-hooks setup --approve offers the mode default, as permissions.defaultMode in your settings"
	}
	r.ok("no session waits in its terminal alone")
}

// autoStarts is the oldest Claude Code that was seen to begin sessions in auto mode by itself.
var autoStarts = settings.Version{2, 1, 329}

// AutoBehind is the host of the gateway behind which sessions begin in auto mode. Claude Code 2.1.332 then shows dialogs that no
// PermissionRequest hook hears of. It is "" without a gateway, and in other modes.
func AutoBehind(ctx context.Context, env state.Getenv) string {
	return autoBehind(ctx, env, sources(env))
}

func autoBehind(ctx context.Context, env state.Getenv, all []*source) string {
	mode, address := "", env("ANTHROPIC_BASE_URL")
	for _, s := range all {
		mode = cmp.Or(s.file.Permissions.DefaultMode, mode)
		address = cmp.Or(s.file.Env["ANTHROPIC_BASE_URL"], address)
	}
	gateway, err := url.Parse(address)
	direct := err != nil || gateway.Host == "" || gateway.Hostname() == "api.anthropic.com"
	if direct || mode != "" && mode != "auto" {
		return ""
	}
	if v, err := settings.AskVersion(ctx, env, bound); mode == "" && (err != nil || !v.AtLeast(autoStarts)) {
		return ""
	}
	return gateway.Host
}

// serves reports whether the hook does what a preset has one for.
func (h *hook) serves(w settings.Hook) bool {
	switch {
	case h.Event != w.Event || h.name != w.Name:
		return false
	case w.Matcher != "":
		takesAll := slices.Contains([]string{"", "*", ".*"}, h.Matcher)
		return takesAll || h.Matcher == w.Matcher || strings.Contains(h.Matcher, ask) // as people write it
	}
	return w.Event != "PermissionRequest" || h.forEveryPermission()
}

// approves reports whether the hook is of the preset approve, and not of answer.
func (h *hook) approves() bool { return h.Event == "PostToolBatch" || h.forEveryPermission() }

// forEveryPermission says whether the hook answers permissions, not only questions.
func (h *hook) forEveryPermission() bool {
	return h.Event == "PermissionRequest" && h.name == "gchat-ask-user-forward" && (h.Matcher == "" || h.Matcher == "*")
}
