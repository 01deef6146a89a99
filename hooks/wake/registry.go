package wake

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gchat-hooks/inject"
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
	unnamed         bool // no agent_id: id is the session's name
	settings
}

// settings are hook_settings: an agent's own before the registry's before ours. docs/openclaw.md has the table.
type settings struct {
	paneLines     int  // pane_capture_lines: of the pane that are captured
	threshold     int  // context_pressure_threshold, in percent: from there on it is a warning
	bidirectional bool // hook_mode: bidirectional: Stop waits for the agent's decision
	dedup         bool // dedup_enabled: what is known already is not told again
	minLines      int  // min_context_lines: of the pane in a message that tells of it
	extractChars  int  // transcript_extract_chars: of Claude's words, the last ones
	replySeconds  int  // reply_seconds: how long bidirectional waits; less than the Stop hook's own timeout
	agent, chat   bool // deliver: openclaw, chat or both
}

// builtIn is what holds where a registry says nothing. Claude Code's own bound for a hook was 60 s for long.
var builtIn = settings{
	paneLines: 100, threshold: 50, dedup: true, minLines: 10, extractChars: 2000, replySeconds: 50, agent: true,
}

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
	f.reg, err = parseRegistry(b)
	if err != nil {
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
		id: cmp.Or(id, session), session: session, to: text(in["openclaw_session_id"]), enabled: true, unnamed: id == "",
		settings: r.read(r.settings, in["hook_settings"], where+".hook_settings"),
	}
	if on := in["enabled"]; len(on) > 0 && (!isSet(on) || json.Unmarshal(on, &a.enabled) != nil) {
		a.enabled = false
		r.wrong(where, ".enabled is neither true nor false; the agent is not told")
	}
	r.agents, r.mostLines = append(r.agents, a), max(r.mostLines, a.paneLines)
}

// agentOf is the agent that supervises a session: the one with exactly this tmux_session_name, else the one whose agent_id
// and a dash begin the name, the longest of those. Of equals it is one that is enabled, then one that can be told, then the
// first. ok is false when there is none, or it is not enabled.
func (r *registry) agentOf(session string) (best agent, ok bool) {
	most := 0
	for _, a := range r.agents {
		rank := 0
		switch {
		case a.session == session, a.session != "" && inject.KeptName(a.session) == session:
			rank = math.MaxInt32
		case !a.unnamed && strings.HasPrefix(session, a.id+"-"):
			rank = 4 * len(a.id)
		default:
			continue
		}
		if a.enabled {
			rank += 2
		}
		if a.chat || a.to != "" {
			rank++
		}
		if rank > most {
			best, most = a, rank
		}
	}
	return best, best.enabled
}

// read is s with what an object of settings says. It ignores a value that a setting does not take, and names the problem.
func (r *registry) read(s settings, raw json.RawMessage, where string) settings {
	in, ok := members(raw)
	if isSet(raw) && !ok {
		r.wrong(where, " is not an object and is ignored")
	}
	wrong := func(name, wanted string) { r.wrong(where, "."+name+" is not "+wanted+" and is ignored") }
	for _, n := range []struct {
		name   string
		to     *int
		lo, hi int
	}{
		{"pane_capture_lines", &s.paneLines, 1, 5000}, {"context_pressure_threshold", &s.threshold, 0, 100},
		{"min_context_lines", &s.minLines, 0, 1000}, {"transcript_extract_chars", &s.extractChars, 1, math.MaxInt32},
		{"reply_seconds", &s.replySeconds, 1, 3600},
	} {
		value := float64(*n.to)
		if v := in[n.name]; isSet(v) && json.Unmarshal(v, &value) != nil || value < float64(n.lo) || value > float64(n.hi) {
			wrong(n.name, fmt.Sprintf("a number from %d to %d", n.lo, n.hi))
			continue
		}
		*n.to = int(value)
	}
	s.extractChars = min(s.extractChars, mostChars)
	if v := in["dedup_enabled"]; isSet(v) && json.Unmarshal(v, &s.dedup) != nil {
		wrong("dedup_enabled", "true or false")
	}
	switch mode := in["hook_mode"]; {
	case text(mode) == "async", text(mode) == "bidirectional":
		s.bidirectional = text(mode) == "bidirectional"
	case isSet(mode):
		wrong("hook_mode", "async or bidirectional")
	}
	switch to := in["deliver"]; {
	case slices.Contains([]string{"openclaw", "chat", "both"}, text(to)):
		s.agent, s.chat = text(to) != "chat", text(to) != "openclaw"
	case isSet(to):
		wrong("deliver", "openclaw, chat or both")
	}
	return s
}

func members(raw json.RawMessage) (m map[string]json.RawMessage, ok bool) {
	err := json.Unmarshal(raw, &m)
	return m, err == nil && m != nil
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
