package wake

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"gchat-hooks/state"
)

// registry is recovery-registry.json: which OpenClaw agent supervises which tmux session. Other programs have members in it.
type registry struct {
	agents    []agent
	settings  settings // of all agents that do not say otherwise
	mostLines int      // the most that any agent wants of a pane
	problems  []string
}

// agent is an entry of a registry with its settings.
type agent struct {
	id, session, to string // agent_id, tmux_session_name, openclaw_session_id
	enabled         bool
	settings
}

// settings are hook_settings: an agent's own before the registry's before ours. docs/openclaw.md has the table.
type settings struct {
	paneLines int // pane_capture_lines: of the pane that are looked at, and told where Claude said nothing
	threshold int // context_pressure_threshold, in percent: from there on it is a warning
}

// builtIn is what holds where a registry says nothing.
var builtIn = settings{paneLines: 40, threshold: 50}

const (
	maxRegistry = 4 << 20 // bytes
	mostChars   = 900_000 // keeps a message below the 4 MiB that openclaw reads
)

// registry reads $GCHAT_WAKE_REGISTRY, else recovery-registry.json beside our own configuration, once.
func (f *fire) registry() (*registry, error) {
	if f.reg != nil {
		return f.reg, nil
	}
	path := cmp.Or(f.Env("GCHAT_WAKE_REGISTRY"), filepath.Join(state.ConfigDir(f.Env), "recovery-registry.json"))
	b, err := state.ReadLinked(path, maxRegistry)
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	if f.reg, err = parseRegistry(b); err != nil {
		return nil, fmt.Errorf("registry %s: %w", path, err)
	}
	for _, p := range f.reg.problems {
		f.Log().Warn().Str("registry", path).Msg(p)
	}
	return f.reg, nil
}

func parseRegistry(b []byte) (*registry, error) {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	file, ok := members(b)
	if !ok {
		return nil, errors.New(`it is not a JSON object such as {"agents": [...]}`)
	}
	r := &registry{}
	r.settings = r.read(builtIn, file["hook_settings"], "hook_settings")
	var entries []json.RawMessage
	if len(file["agents"]) > 0 && json.Unmarshal(file["agents"], &entries) != nil {
		return nil, errors.New("agents is not a list")
	}
	for i, entry := range entries {
		r.add(entry, fmt.Sprintf("agents[%d]", i))
	}
	return r, nil
}

func (r *registry) wrong(where, what string) { r.problems = append(r.problems, where+what) }

// add takes an entry. It ignores one that it does not understand.
func (r *registry) add(entry json.RawMessage, where string) {
	in, ok := members(entry)
	id, session := text(in["agent_id"]), text(in["tmux_session_name"])
	switch {
	case !ok:
		r.wrong(where, " is not an object and is ignored")
		return
	case id == "" && session == "":
		r.wrong(where, " has neither agent_id nor tmux_session_name and is ignored")
		return
	}
	a := agent{
		id: id, session: session, to: text(in["openclaw_session_id"]), enabled: true,
		settings: r.read(r.settings, in["hook_settings"], where+".hook_settings"),
	}
	if on := in["enabled"]; len(on) > 0 && (!isSet(on) || json.Unmarshal(on, &a.enabled) != nil) {
		a.enabled = false
		r.wrong(where, ".enabled is neither true nor false; the agent is not told")
	}
	r.agents, r.mostLines = append(r.agents, a), max(r.mostLines, a.paneLines)
}

// keptName is what tmux makes of a session's name that it is given.
var keptName = strings.NewReplacer(":", "_", ".", "_")

// agentOf is the agent that supervises a session: the one with exactly this tmux_session_name, else the one whose agent_id
// and a dash begin the name, the longest of those. Of equals it is one that is enabled, then the first. ok is false when there is
// none, or it is not enabled.
func (r *registry) agentOf(session string) (best agent, ok bool) {
	most := 0
	for _, a := range r.agents {
		length := 0 // of what is the same
		switch {
		case a.session == session, a.session != "" && keptName.Replace(a.session) == session:
			length = math.MaxInt32
		case a.id != "" && strings.HasPrefix(session, a.id+"-"):
			length = len(a.id)
		}
		if length > most || length > 0 && length == most && a.enabled && !best.enabled {
			best, most = a, length
		}
	}
	best.id = cmp.Or(best.id, best.session)
	return best, best.enabled
}

// read is s with what an object of settings says. It ignores a value that a setting does not take, and names the problem.
func (r *registry) read(s settings, raw json.RawMessage, where string) settings {
	in, ok := members(raw)
	if isSet(raw) && !ok {
		r.wrong(where, " is not an object and is ignored")
	}
	for _, n := range []struct {
		name   string
		to     *int
		lo, hi int
	}{{"pane_capture_lines", &s.paneLines, 1, 5000}, {"context_pressure_threshold", &s.threshold, 0, 100}} {
		value := float64(*n.to)
		if v := in[n.name]; isSet(v) && json.Unmarshal(v, &value) != nil || value < float64(n.lo) || value > float64(n.hi) {
			r.wrong(where, fmt.Sprintf(".%s is not a number from %d to %d and is ignored", n.name, n.lo, n.hi))
			continue
		}
		*n.to = int(value)
	}
	return s
}

// members are an object's.
func members(raw json.RawMessage) (m map[string]json.RawMessage, ok bool) {
	err := json.Unmarshal(raw, &m)
	return m, err == nil && m != nil
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
