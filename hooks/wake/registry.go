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
// Other programs keep members of their own in that file.
type registry struct {
	agents       []agent
	settings     settings // of agents that have none of their own
	maxPaneLines int      // the most pane lines that any agent wants
	problems     []string
}

// agent is an agent of a registry, with its settings.
type agent struct {
	id, tmuxSession, openclawSession string // agent_id, tmux_session_name, openclaw_session_id
	isEnabled                        bool
	isUnnamed                        bool // it has no agent_id; id is the session's name instead
	settings
}

// settings are hook_settings. An agent's own ones come before the registry's, and these
// before ours. docs/openclaw.md has a table of them.
type settings struct {
	paneLines       int  // pane_capture_lines: how many lines of the pane are captured
	warningPercent  int  // context_pressure_threshold: the percentage from which a warning is given
	isBidirectional bool // hook_mode: bidirectional: Stop waits for the agent's decision
	skipsKnown      bool // dedup_enabled: no message if the agent knows everything in it
	minPaneLines    int  // min_context_lines: the fewest lines of the pane in a message about it
	transcriptChars int  // transcript_extract_chars: how much of the end of Claude's text is sent
	// reply_seconds: how long bidirectional waits; less than the Stop hook's own timeout
	replySeconds    int
	toAgent, toChat bool // deliver: openclaw, chat or both
}

// defaultSettings are for what a registry does not set. replySeconds is below 60, which
// was for a long time Claude Code's own limit for a hook, in seconds.
var defaultSettings = settings{
	paneLines:       100,
	warningPercent:  50,
	skipsKnown:      true,
	minPaneLines:    10,
	transcriptChars: 2000,
	replySeconds:    50,
	toAgent:         true,
}

const (
	maxRegistryBytes = 4 << 20
	// maxMessageChars keeps a message below the 4 MiB that openclaw reads.
	maxMessageChars = 900_000
)

// loadRegistry reads the registry once: $GCHAT_WAKE_REGISTRY, else recovery-registry.json
// beside our own configuration.
func (f *wakeHook) loadRegistry() (*registry, error) {
	if f.loadedRegistry != nil {
		return f.loadedRegistry, nil
	}
	path := cmp.Or(f.Env("GCHAT_WAKE_REGISTRY"),
		filepath.Join(state.ConfigDir(f.Env), "recovery-registry.json"))
	b, err := state.ReadPlainOrLink(path, maxRegistryBytes)
	if err != nil {
		return nil, fmt.Errorf("read registry: %w", err)
	}
	f.loadedRegistry, err = parseRegistry(b)
	if err != nil {
		return nil, fmt.Errorf("read registry %s: %w", path, err)
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

// addProblem notes a problem of the registry, for the log.
func (r *registry) addProblem(where, what string) { r.problems = append(r.problems, where+what) }

// addAgent adds an agent. It ignores an entry that it does not understand.
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
		id:              cmp.Or(id, session),
		tmuxSession:     session,
		openclawSession: stringValue(members["openclaw_session_id"]),
		isEnabled:       true,
		isUnnamed:       id == "",
		settings:        r.readSettings(r.settings, members["hook_settings"], where+".hook_settings"),
	}
	if enabled := members["enabled"]; len(enabled) > 0 {
		if !isSet(enabled) || json.Unmarshal(enabled, &a.isEnabled) != nil {
			a.isEnabled = false
			r.addProblem(where, ".enabled is neither true nor false; the agent gets no messages")
		}
	}
	r.agents = append(r.agents, a)
	r.maxPaneLines = max(r.maxPaneLines, a.paneLines)
}

// agentForSession returns the agent that supervises a session. That is the one with
// exactly this tmux_session_name. Else it is the one whose agent_id and a dash begin the
// name; the longest such agent_id wins. Among equals an enabled agent wins, then one that
// messages can reach, then the first. isEnabled is false if there is none, or if it is
// not enabled.
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

// readSettings returns s changed by an object of settings. It ignores a value that is not
// valid and adds a problem for it.
func (r *registry) readSettings(s settings, raw json.RawMessage, where string) settings {
	members, ok := objectMembers(raw)
	if isSet(raw) && !ok {
		r.addProblem(where, " is not an object and is ignored")
	}
	addProblem := func(name, wanted string) {
		r.addProblem(where, "."+name+" is not "+wanted+" and is ignored")
	}
	for _, setting := range []struct {
		name     string
		target   *int
		min, max int
	}{
		{"pane_capture_lines", &s.paneLines, 1, 5000},
		{"context_pressure_threshold", &s.warningPercent, 0, 100},
		{"min_context_lines", &s.minPaneLines, 0, 1000},
		{"transcript_extract_chars", &s.transcriptChars, 1, math.MaxInt32},
		{"reply_seconds", &s.replySeconds, 1, 3600},
	} {
		value, raw := float64(*setting.target), members[setting.name]
		isNumber := !isSet(raw) || json.Unmarshal(raw, &value) == nil
		if !isNumber || value < float64(setting.min) || value > float64(setting.max) {
			addProblem(setting.name, fmt.Sprintf("a number from %d to %d", setting.min, setting.max))
			continue
		}
		*setting.target = int(value)
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

// objectMembers returns the members of a JSON object; ok is false for any other value.
func objectMembers(raw json.RawMessage) (m map[string]json.RawMessage, ok bool) {
	err := json.Unmarshal(raw, &m)
	return m, err == nil && m != nil
}

// isSet reports whether a member is there and is not null.
func isSet(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
