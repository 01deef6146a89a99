package doctor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
)

// newest is the newest Claude Code that this program was tried with.
var newest = settings.Version{2, 1, 329}

const ask = "AskUserQuestion"

// source is a file with hooks.
type source struct {
	path     string
	managed  bool  // only an administrator writes it
	plugin   bool  // a plugin brings it
	broken   error // why Claude Code skips the file
	hooks    []hook
	settings settingsFile
}

// settingsFile is what the doctor reads of settings.json. A member of another type than it should have is passed over, as
// Claude Code does.
type settingsFile struct {
	Hooks map[string][]struct {
		Matcher string `json:"matcher"`
		Hooks   []struct {
			Command     string   `json:"command"`
			Args        []string `json:"args"`
			Timeout     float64  `json:"timeout"`
			Async       bool     `json:"async"`
			AsyncRewake bool     `json:"asyncRewake"`
		} `json:"hooks"`
	} `json:"hooks"`
	DisableAllHooks  *bool          `json:"disableAllHooks"`
	ManagedHooksOnly bool           `json:"allowManagedHooksOnly"`
	EnabledPlugins   map[string]any `json:"enabledPlugins"`
	AskTimeout       any            `json:"askUserQuestionTimeout"`
	Env              map[string]any `json:"env"`
	DenyAsking       bool           `json:"denyInsteadOfPrompting"`
	Permissions      struct {
		DenyAsking bool     `json:"denyInsteadOfPrompting"`
		Deny       []string `json:"deny"`
		Mode       string   `json:"defaultMode"`
	} `json:"permissions"`
}

// hook is an entry of a source.
type hook struct {
	settings.Entry
	from  *source
	start string // the program, of an entry of ours
	name  string // of ours; "" for another program's
	async bool   // it runs beside the tool call: Claude Code does not wait for what it says
}

// claudeDir is where Claude Code keeps what belongs to the person.
func claudeDir(env state.Getenv) string {
	return cmp.Or(env("CLAUDE_CONFIG_DIR"), filepath.Join(state.Home(env), ".claude"))
}

// sources are the settings that count for a project, in the order in which they count: the last one most. Plugins come
// first. What a session was started with (--settings) cannot be seen here.
func sources(env state.Getenv) []*source {
	project := filepath.Join(state.ProjectDir(env), ".claude")
	managed := env("CLAUDE_CODE_MANAGED_SETTINGS_PATH") // Claude Code's own name for it, read in 2.1.329
	switch {
	case managed != "":
	case runtime.GOOS == "darwin":
		managed = "/Library/Application Support/ClaudeCode"
	default:
		managed = "/etc/claude-code"
	}
	more, _ := filepath.Glob(filepath.Join(managed, "managed-settings.d", "*.json"))
	var all []*source
	for _, path := range append([]string{
		filepath.Join(claudeDir(env), "settings.json"),
		filepath.Join(project, "settings.json"), filepath.Join(project, "settings.local.json"),
		filepath.Join(managed, "managed-settings.json"),
	}, more...) {
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		s := &source{path: path, broken: err, managed: strings.HasPrefix(path, managed)}
		if err == nil {
			s.parse(b, "")
		}
		all = append(all, s)
	}
	return append(plugins(env, all), all...)
}

// plugins are the hooks that enabled plugins bring. Their place is Claude Code's own file, which no page documents: what is
// not understood is passed over.
func plugins(env state.Getenv, settings []*source) (all []*source) {
	enabled := map[string]any{}
	for _, s := range settings {
		maps.Copy(enabled, s.settings.EnabledPlugins)
	}
	var installed struct {
		Plugins map[string][]struct {
			Path string `json:"installPath"`
		} `json:"plugins"`
	}
	_ = json.Unmarshal(read(filepath.Join(claudeDir(env), "plugins", "installed_plugins.json")), &installed)
	for name, places := range installed.Plugins {
		if enabled[name] == true && len(places) > 0 {
			s := &source{path: filepath.Join(places[0].Path, "hooks", "hooks.json"), plugin: true}
			s.parse(read(s.path), places[0].Path)
			all = append(all, s)
		}
	}
	return all
}

// parse reads a file. root stands for ${CLAUDE_PLUGIN_ROOT}.
func (s *source) parse(b []byte, root string) {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	if len(bytes.TrimSpace(b)) == 0 {
		return
	}
	var syntax *json.SyntaxError
	switch err := json.Unmarshal(b, &s.settings); {
	case errors.As(err, &syntax):
		s.broken = fmt.Errorf("line %d: %w", 1+bytes.Count(b[:syntax.Offset], []byte("\n")), err)
	case !bytes.HasPrefix(bytes.TrimSpace(b), []byte("{")):
		s.broken = errors.New("it is no JSON object")
	}
	for _, event := range slices.Sorted(maps.Keys(s.settings.Hooks)) {
		for _, group := range s.settings.Hooks[event] {
			for _, h := range group.Hooks {
				if root != "" {
					h.Command = strings.ReplaceAll(h.Command, "${CLAUDE_PLUGIN_ROOT}", root)
				}
				entry := settings.Entry{
					Event: event, Matcher: group.Matcher, Command: h.Command, Args: h.Args, Timeout: int(h.Timeout),
					AsyncRewake: h.AsyncRewake,
				}
				start, name := settings.Ours(h.Command, h.Args)
				s.hooks = append(s.hooks, hook{entry, s, start, name, h.Async})
			}
		}
	}
}

// matches says whether a matcher takes AskUserQuestion: everything when it is blank or "*", an exact name or a list of them
// when it has nothing but letters, else an expression that may match anywhere. The expressions are JavaScript's: one that Go
// does not understand, as with (?!…), may take anything.
func matches(matcher string) bool {
	const simple = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_ -,|"
	if matcher == "" || matcher == "*" {
		return true
	}
	if strings.Trim(matcher, simple) == "" {
		names := strings.FieldsFunc(matcher, func(r rune) bool { return r == '|' || r == ',' || r == ' ' })
		return slices.Contains(names, ask)
	}
	expression, err := regexp.Compile(matcher)
	return err != nil || expression.MatchString(ask)
}

// own are the entries of ours, of all settings and plugins.
func (e *exam) own() (all []hook) {
	for _, s := range e.sources() {
		all = append(all, slices.DeleteFunc(slices.Clone(s.hooks), func(h hook) bool { return h.name == "" })...)
	}
	return all
}

// asks says whether a mode is that of any session.
func (e *exam) asks(mode state.Mode) bool {
	return e.cfg.AskMode == mode || slices.ContainsFunc(e.cfg.Rules, func(r state.Rule) bool { return r.AskMode == mode })
}

func (e *exam) claudeVersion(_ context.Context, r *result) {
	v, err := e.version()
	switch {
	case errors.Is(err, settings.ErrNoClaude):
		r.warn("%v", err).Mend = "install Claude Code, or put it on PATH"
	case err != nil:
		r.warn("%v", err).Mend = "run claude --version by hand"
	case v.Supported() != nil:
		f := r.fail("Claude Code %s is too old", v)
		f.Means, f.Mend = "one hook event that it does not know voids the whole settings file", "claude update"
	case v != newest && v.AtLeast(newest):
		r.warn("Claude Code %s is newer than %s, the newest that was tried", v, newest)
	}
	r.ok("Claude Code %s, within %s … %s", v, settings.Oldest, newest)
}

// claudeSettings finds the files that Claude Code skips.
func (e *exam) claudeSettings(_ context.Context, r *result) {
	for _, s := range e.sources() {
		if s.broken != nil {
			r.fail("%s cannot be read: %v", s.path, s.broken)
		}
	}
	r.ok("settings files that Claude Code reads: %d", len(e.sources()))
}

// claudeDisabled looks for what keeps all our hooks from running. Of a switch the file counts that ranks highest.
func (e *exam) claudeDisabled(_ context.Context, r *result) {
	off, where := false, ""
	ours := func(h hook) bool { return h.name != "" }
	for _, s := range e.sources() {
		if s.settings.DisableAllHooks != nil && !s.plugin {
			off, where = *s.settings.DisableAllHooks, s.path
		}
		if s.managed && s.settings.ManagedHooksOnly && !slices.ContainsFunc(s.hooks, ours) {
			r.fail("allowManagedHooksOnly is set in %s", s.path)
		}
	}
	if off {
		r.fail("disableAllHooks is set in %s", where)
	}
	r.ok("hooks may run")
}

// claudeTrust looks whether Claude Code trusts the project's folder: in interactive sessions no hook runs before that, not
// even the person's own.
func (e *exam) claudeTrust(_ context.Context, r *result) {
	yes, known := state.Trusted(e.Env, e.project)
	switch {
	case e.project == state.Home(e.Env):
		r.skip("this is your home folder, of which Claude Code keeps no trust: run it in a project")
	case !known:
		r.skip("Claude Code was not used here yet")
	case !yes:
		r.warn("Claude Code was not told to trust %s", e.project)
	}
	r.ok("Claude Code trusts %s", e.project)
}

// claudeHooks looks for the hooks without which questions do not get into the space, or answers not back.
func (e *exam) claudeHooks(_ context.Context, r *result) {
	all := e.own()
	if len(all) == 0 {
		r.fail("no hook of ours is registered in Claude Code's settings")
		return
	}
	want, _ := settings.Hooks("answer")
	for _, h := range want {
		if slices.ContainsFunc(all, func(o hook) bool {
			return o.Event == h.Event && o.name == h.Name && (h.Matcher == "" || matches(o.Matcher))
		}) {
			continue
		}
		switch what := h.Name + " is not registered on " + h.Event; {
		case h.Event == "PreToolUse":
			r.fail("%s", what)
		case h.Event == "PermissionRequest" && e.asks(state.Native):
			r.fail("%s", what).Means = "questions are posted, but only the terminal can answer them"
		case h.Event != "PermissionRequest":
			r.warn("%s", what).Means = "threads do not hear how a question ended"
		}
	}
	r.ok("registered in %s", all[0].from.path)
}

// claudeProgram looks whether what the entries start is there.
func (e *exam) claudeProgram(_ context.Context, r *result) {
	seen := map[string]bool{}
	for _, h := range e.own() {
		line := h.from.path + " starts " + h.start
		if err := e.cannotStart(h.start); err != nil && !seen[line] {
			r.fail("%s: %v", line, err)
		}
		seen[line] = true
	}
	r.ok("the registered program is there")
}

// cannotStart is why a shell in a hook would not start a program; nil where only the shell can say.
func (e *exam) cannotStart(program string) error {
	program = os.Expand(program, func(name string) string {
		if name == "CLAUDE_PROJECT_DIR" {
			return e.project
		}
		return e.Env(name)
	})
	if rest, ok := strings.CutPrefix(program, "~/"); ok {
		program = filepath.Join(state.Home(e.Env), rest)
	}
	_, err := exec.LookPath(program)
	return err
}

// claudeTwice finds hooks of ours that run twice for an event. Claude Code itself starts the same handler of several settings
// files once; a plugin's is always another one.
func (e *exam) claudeTwice(_ context.Context, r *result) {
	first := map[string]hook{}
	told := map[string]bool{}
	for _, h := range e.own() {
		key := h.Event + " " + h.name
		was, ok := first[key]
		if !ok {
			first[key] = h
			continue
		}
		once := was.Command == h.Command && slices.Equal(was.Args, h.Args) && was.Matcher == h.Matcher && !was.from.plugin
		apart := was.Matcher != h.Matcher && !(matches(was.Matcher) && matches(h.Matcher))
		files := fmt.Sprintf("registered twice, in %s and in %s", was.from.path, h.from.path)
		if !once && !apart && !told[files] { // two files are one line, whatever number of hooks they share
			told[files] = true
			r.warn("%s: %s on %s", files, h.name, h.Event)
		}
	}
	r.ok("no hook of ours is registered twice")
}

// usualTimeout is how long Claude Code lets a hook run that has no "timeout".
const usualTimeout = 10 * time.Minute

// claudeLimit looks whether the hooks that wait for a person may wait as long as they mean to: they end by themselves just
// before their time is up, and have to know it.
func (e *exam) claudeLimit(_ context.Context, r *result) {
	for _, h := range e.own() {
		waits := h.name == "gchat-ask-user-rewake" || h.name == "gchat-ask-user-forward" &&
			(h.Event == "PermissionRequest" || h.Event == "PreToolUse" && e.asks(state.Hold))
		limit := cmp.Or(time.Duration(h.Timeout)*time.Second, usualTimeout)
		if waits && limit < state.HookTimeout {
			r.warn("Claude Code ends %s on %s after %s (%s)", h.name, h.Event, limit, h.from.path)
		}
	}
	r.ok("hooks that wait for you may wait long enough")
}

// claudeRewake looks whether the hooks of deny mode are there, and registered so that they run in the background.
func (e *exam) claudeRewake(_ context.Context, r *result) {
	wakes := false
	for _, h := range e.own() {
		if h.name != "gchat-ask-user-rewake" {
			continue
		}
		if wakes = true; !h.AsyncRewake {
			r.fail("%s is registered on %s without asyncRewake", h.name, h.Event).Means = "the session hangs in it until you reply"
		}
	}
	if e.asks(state.Deny) && !wakes {
		r.warn("ask_mode is deny, and gchat-ask-user-rewake is not registered")
	}
	r.ok("what wakes sessions fits")
}

// claudeOthers finds hooks of other programs that may answer, deny or change a question before ours. One in the background
// cannot.
func (e *exam) claudeOthers(_ context.Context, r *result) {
	told := map[string]bool{}
	for _, s := range e.sources() {
		for _, h := range s.hooks {
			decides := (h.Event == "PreToolUse" || h.Event == "PermissionRequest") && matches(h.Matcher)
			what := fmt.Sprintf("another hook is registered on %s for %s in %s: %s", h.Event, ask, s.path, h.called())
			if h.name == "" && decides && !h.async && !told[what] {
				told[what] = true
				r.warn("%s", what)
			}
		}
	}
	r.ok("no other hook decides about questions")
}

// called is the program of another's hook, without its words: they may hold a secret, as may what stands before it.
func (h hook) called() string {
	for _, word := range strings.Fields(h.Command) {
		if strings.ContainsAny(word, "'\"\\") {
			break
		}
		if !strings.Contains(word, "=") {
			return filepath.Base(word)
		}
	}
	return "a shell command"
}

// claudeAsking looks for what refuses questions before anybody is asked, and for what closes them while the person is away.
func (e *exam) claudeAsking(_ context.Context, r *result) {
	const idle = "CLAUDE_AFK_TIMEOUT_MS"
	mode, where := "", ""
	for _, s := range e.sources() {
		permissions := s.settings.Permissions
		if permissions.DenyAsking || s.settings.DenyAsking {
			r.fail("denyInsteadOfPrompting is set in %s", s.path)
		}
		if slices.ContainsFunc(permissions.Deny, func(rule string) bool { return rule == "*" || strings.HasPrefix(rule, ask) }) {
			r.fail("permissions.deny has %s in %s", ask, s.path)
		}
		if permissions.Mode != "" {
			mode, where = permissions.Mode, s.path
		}
		if after := s.settings.AskTimeout; after != nil && after != "never" {
			r.warn("askUserQuestionTimeout is %.20q in %s", fmt.Sprint(after), s.path)
		}
		if s.settings.Env[idle] != nil {
			r.warn("env.%s is set in %s", idle, s.path)
		}
	}
	if mode == "dontAsk" {
		r.warn("permissions.defaultMode is dontAsk in %s", where)
	}
	if e.Env("CLAUDE_AFK_TIMEOUT_MS") != "" {
		r.warn("%s is set", idle)
	}
	r.ok("Claude may ask, and a question waits until it is answered")
}
