package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"gchat-hooks/state"
)

// managed is a Scope that only an administrator writes; what a plugin brings is said of the plugin.
const (
	managed Scope = "managed"
	plugin  Scope = "plugin"
)

// A source is a settings file as the doctor reads it: leniently, since Claude Code too takes what it understands.
type source struct {
	scope  Scope
	path   string
	name   string // of a plugin, with its marketplace
	broken error  // why Claude Code skips the file
	member map[string]json.RawMessage
	hooks  []registered
}

// A registered hook is an entry of a settings file or a plugin.
type registered struct {
	Entry
	from  *source
	name  string // of ours; "" for another program's
	async bool   // it runs beside the tool call: Claude Code does not wait for what it says
}

// bool is a switch of the file; set says that the file has it.
func (s *source) bool(names ...string) (on, set bool) {
	set = s.value(&on, names...)
	return on, set
}

// value reads a member, or a member of a member.
func (s *source) value(v any, names ...string) bool {
	in := s.member
	for i, name := range names {
		raw, ok := in[name]
		if !ok {
			return false
		}
		if i == len(names)-1 {
			return json.Unmarshal(raw, v) == nil && string(raw) != "null"
		}
		in = nil
		if json.Unmarshal(raw, &in) != nil {
			return false
		}
	}
	return false
}

// sources are the settings that count for a project, in the order in which they count: the last one most. Plugins come
// first. What a session was started with (--settings) cannot be seen here.
func sources(env state.Getenv) (all []*source) {
	for _, scope := range []Scope{User, Project, Local} {
		if f, err := At(env, scope); err == nil {
			if s := readSource(scope, f); s != nil {
				all = append(all, s)
			}
		}
	}
	for _, path := range managedFiles(env) {
		if s := readSource(managed, File{Path: path}); s != nil {
			all = append(all, s)
		}
	}
	return append(plugins(env, all), all...)
}

func readSource(scope Scope, f File) *source {
	s := &source{scope: scope, path: f.Path}
	_, b, err := f.read()
	if err != nil {
		s.broken = err
		return s
	}
	if b == nil {
		return nil
	}
	s.parse(b, "")
	return s
}

// parse reads a file's members and hooks. root stands for ${CLAUDE_PLUGIN_ROOT}.
func (s *source) parse(b []byte, root string) {
	b = bytes.TrimPrefix(b, []byte(byteOrderMark))
	if len(bytes.TrimSpace(b)) == 0 {
		return
	}
	if err := json.Unmarshal(b, &s.member); err != nil {
		s.broken = errors.New("it is no JSON object")
		if _, perr := parse(b); perr != nil {
			s.broken = perr // it knows the line
		} else if !json.Valid(b) {
			s.broken = errors.New("it has comments or trailing commas")
		}
		return
	}
	var events map[string]json.RawMessage
	s.value(&events, "hooks")
	for event, raw := range events {
		var groups []struct {
			Matcher string            `json:"matcher"`
			Hooks   []json.RawMessage `json:"hooks"`
		}
		_ = json.Unmarshal(raw, &groups)
		for _, g := range groups {
			for _, one := range g.Hooks {
				var h struct {
					Type        string   `json:"type"`
					Command     string   `json:"command"`
					Args        []string `json:"args"`
					Timeout     float64  `json:"timeout"`
					Async       bool     `json:"async"`
					AsyncRewake bool     `json:"asyncRewake"`
				}
				if json.Unmarshal(one, &h) != nil {
					continue
				}
				if root != "" {
					h.Command = strings.ReplaceAll(h.Command, "${CLAUDE_PLUGIN_ROOT}", root)
				}
				_, name := ours(h.Command, h.Args)
				e := Entry{
					Event: event, Matcher: g.Matcher, Command: h.Command, Args: h.Args, Timeout: int(h.Timeout),
					AsyncRewake: h.AsyncRewake,
				}
				s.hooks = append(s.hooks, registered{e, s, name, h.Async})
			}
		}
	}
	slices.SortStableFunc(s.hooks, func(a, b registered) int { return strings.Compare(a.Event, b.Event) })
}

const simple = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_ -,|"

// matches says whether a matcher takes a tool: everything when it is blank or "*", an exact name or a list of them when it
// has nothing but letters, else an expression that may match anywhere.
func matches(matcher, tool string) bool {
	switch {
	case matcher == "" || matcher == "*":
		return true
	case strings.Trim(matcher, simple) == "":
		for _, name := range strings.FieldsFunc(matcher, func(r rune) bool { return r == '|' || r == ',' }) {
			if strings.TrimSpace(name) == tool {
				return true
			}
		}
		return false
	}
	re, err := regexp.Compile(matcher)
	return err == nil && re.MatchString(tool)
}
