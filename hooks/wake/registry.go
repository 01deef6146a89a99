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

// registry is recovery-registry.json: which OpenClaw agent supervises which tmux session.
// Other programs have members in it.
type registry struct {
	agents       []agent
	settings     settings // of all agents that do not say otherwise
	maxPaneLines int      // the most that any agent wants of a pane
	problems     []string
}

// agent is an entry of a registry with its settings.
type agent struct {
	id, tmuxSession, openclawSession string // agent_id, tmux_session_name, openclaw_session_id
	isEnabled                        bool
	isUnnamed                        bool // no agent_id: id is the session's name
	settings
}

// settings are hook_settings: an agent's own before the registry's before ours.
// docs/openclaw.md has the table.
type settings struct {
	paneLines       int  // pane_capture_lines: of the pane that are captured
	warningPercent  int  // context_pressure_threshold, in percent: from there on it is a warning
	isBidirectional bool // hook_mode: bidirectional: Stop waits for the agent's decision
	skipsKnown      bool // dedup_enabled: what is known already is not told again
	minPaneLines    int  // min_context_lines: of the pane in a message that tells of it
	transcriptChars int  // transcript_extract_chars: of Claude's words, the last ones
	// reply_seconds: how long bidirectional waits; less than the Stop hook's own timeout
	replySeconds    int
	toAgent, toChat bool // deliver: openclaw, chat or both
}

// defaultSettings is what holds where a registry says nothing. Claude Code's own bound
// for a hook was 60 s for long.
var defaultSettings = settings{
	paneLines: 100, warningPercent: 50, skipsKnown: true, minPaneLines: 10, transcriptChars: 2000, replySeconds: 50, toAgent: true,
}

const (
	maxRegistryBytes = 4 << 20 // bytes
	maxMessageChars  = 900_000 // keeps a message below the 4 MiB that openclaw reads
)

// loadRegistry reads $GCHAT_WAKE_REGISTRY, else recovery-registry.json beside our own
// configuration, once.
func (f *wakeHook) loadRegistry() (*registry, error) {
	if f.loadedRegistry != nil {
		return f.loadedRegistry, nil
	}
	path := cmp.Or(
		f.Env("GCHAT_WAKE_REGISTRY"),
		filepath.Join(state.ConfigDir(f.Env), "recovery-registry.json"),
	)
	b, err := state.ReadPlainOrLink(path, maxRegistryBytes)
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	f.loadedRegistry, err = parseRegistry(b)
	if err != nil {
		return nil, fmt.Errorf("registry %s: %w", path, err)
	}
	for _, problem := range f.loadedRegistry.problems {
		f.Log().Warn().Str("registry", path).Msg(problem)
	}
	return f.loadedRegistry, nil
}

func parseRegistry(b []byte) (*registry, error) {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	file, ok := objectMembers(b)
	if !ok {
		return nil, errors.New(`it is not a JSON object such as {"agents": [...]}`)
	}
	r := &registry{}
	r.settings = r.readSettings(defaultSettings, file["hook_settings"], "hook_settings")
	var entries []json.RawMessage
	if len(file["agents"]) > 0 && json.Unmarshal(file["agents"], &entries) != nil {
		return nil, errors.New("agents is not a list")
	}
	for i, entry := range entries {
		r.addAgent(entry, fmt.Sprintf("agents[%d]", i))
	}
	return r, nil
}

func (r *registry) addProblem(where, what string) { r.problems = append(r.problems, where+what) }

// addAgent takes an entry. It ignores one that it does not understand.
func (r *registry) addAgent(entry json.RawMessage, where string) {
	members, ok := objectMembers(entry)
	id, session := stringValue(members["agent_id"]), stringValue(members["tmux_session_name"])
	switch {
	case !ok:
		r.addProblem(where, " is not an object and is ignored")
		return
	case id == "" && session == "":
		r.addProblem(where, " has neither agent_id nor tmux_session_name and is ignored")
		return
	}
	a := agent{
		id: cmp.Or(
			id,
			session,
		), tmuxSession: session, openclawSession: stringValue(members["openclaw_session_id"]), isEnabled: true, isUnnamed: id == "",
		settings: r.readSettings(r.settings, members["hook_settings"], where+".hook_settings"),
	}
	if enabled := members["enabled"]; len(enabled) > 0 &&
		(!isSet(enabled) || json.Unmarshal(enabled, &a.isEnabled) != nil) {
		a.isEnabled = false
		r.addProblem(where, ".enabled is neither true nor false; the agent is not told")
	}
	r.agents, r.maxPaneLines = append(r.agents, a), max(r.maxPaneLines, a.paneLines)
}

// agentForSession is the agent that supervises a session: the one with exactly this
// tmux_session_name, else the one whose agent_id and a dash begin the name, the longest
// of those. Of equals it is one that is enabled, then one that can be told, then the
// first. ok is false when there is none, or it is not enabled.
func (r *registry) agentForSession(session string) (best agent, isEnabled bool) {
	bestRank := 0
	for _, a := range r.agents {
		rank := 0
		switch {
		case a.tmuxSession == session,
			a.tmuxSession != "" && inject.TmuxName(a.tmuxSession) == session:
			rank = math.MaxInt32
		case !a.isUnnamed && strings.HasPrefix(session, a.id+"-"):
			rank = 4 * len(a.id)
		default:
			continue
		}
		if a.isEnabled {
			rank += 2
		}
		if a.toChat || a.openclawSession != "" {
			rank++
		}
		if rank > bestRank {
			best, bestRank = a, rank
		}
	}
	return best, best.isEnabled
}

// readSettings is s with what an object of settings says. It ignores a value that a
// setting does not take, and names the problem.
func (r *registry) readSettings(s settings, raw json.RawMessage, where string) settings {
	members, ok := objectMembers(raw)
	if isSet(raw) && !ok {
		r.addProblem(where, " is not an object and is ignored")
	}
	addProblem := func(name, wanted string) { r.addProblem(where, "."+name+" is not "+wanted+" and is ignored") }
	for _, setting := range []struct {
		name   string
		to     *int
		lo, hi int
	}{
		{"pane_capture_lines", &s.paneLines, 1, 5000}, {"context_pressure_threshold", &s.warningPercent, 0, 100},
		{"min_context_lines", &s.minPaneLines, 0, 1000}, {"transcript_extract_chars", &s.transcriptChars, 1, math.MaxInt32},
		{"reply_seconds", &s.replySeconds, 1, 3600},
	} {
		value := float64(*setting.to)
		if v := members[setting.name]; isSet(v) && json.Unmarshal(v, &value) != nil ||
			value < float64(setting.lo) ||
			value > float64(setting.hi) {
			addProblem(setting.name, fmt.Sprintf("a number from %d to %d", setting.lo, setting.hi))
			continue
		}
		*setting.to = int(value)
	}
	s.transcriptChars = min(s.transcriptChars, maxMessageChars)
	if v := members["dedup_enabled"]; isSet(v) && json.Unmarshal(v, &s.skipsKnown) != nil {
		addProblem("dedup_enabled", "true or false")
	}
	switch mode := members["hook_mode"]; {
	case stringValue(mode) == "async", stringValue(mode) == "bidirectional":
		s.isBidirectional = stringValue(mode) == "bidirectional"
	case isSet(mode):
		addProblem("hook_mode", "async or bidirectional")
	}
	switch delivery := members["deliver"]; {
	case slices.Contains([]string{"openclaw", "chat", "both"}, stringValue(delivery)):
		s.toAgent, s.toChat = stringValue(delivery) != "chat", stringValue(delivery) != "openclaw"
	case isSet(delivery):
		addProblem("deliver", "openclaw, chat or both")
	}
	return s
}

func objectMembers(raw json.RawMessage) (m map[string]json.RawMessage, ok bool) {
	err := json.Unmarshal(raw, &m)
	return m, err == nil && m != nil
}

func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
