package wake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gchat-hooks/state"
)

// maxRegistry bounds a registry, in bytes.
const maxRegistry = 4 << 20

// registry is recovery-registry.json: which OpenClaw agent supervises which tmux session. Other members belong to other
// programs.
type registry struct {
	agents   []agent
	settings settings // of all agents that do not say otherwise
	problems []string
}

// agent is an entry of a registry with its settings.
type agent struct {
	id, session, to string // agent_id, tmux_session_name, openclaw_session_id
	enabled         bool
	unnamed         bool // no agent_id: id is the session's name
	problems        []string
	settings
}

// registryPath is $GCHAT_WAKE_REGISTRY, else recovery-registry.json beside our own configuration.
func registryPath(env state.Getenv) string {
	if path := env("GCHAT_WAKE_REGISTRY"); path != "" {
		return path
	}
	return filepath.Join(state.ConfigDir(env), "recovery-registry.json")
}

// registry reads the registry. While a person's edit leaves it broken, the last one that could be read counts.
func (f *fire) registry() (*registry, error) {
	if f.reg != nil {
		return f.reg, nil
	}
	reg, err := f.readRegistry()
	f.reg = reg
	return reg, err
}

// goneFor is how long a registry can be away while an editor replaces it.
const goneFor = 50 * time.Millisecond

func (f *fire) readRegistry() (*registry, error) {
	user, path := state.UserState(f.Env), registryPath(f.Env)
	b, err := readFile(path)
	if _, kept := state.KeptRegistry(user, path); os.IsNotExist(err) && kept {
		time.Sleep(goneFor)
		b, err = readFile(path)
	}
	var reg *registry
	if err == nil {
		reg, err = parseRegistry(b)
	}
	if err == nil {
		_ = state.KeepRegistry(user, path, b)
		return reg, nil
	}
	if kept, ok := state.KeptRegistry(user, path); ok && !os.IsNotExist(err) {
		if reg, kerr := parseRegistry(kept); kerr == nil {
			f.Log().Error().Err(err).Str("registry", path).
				Str("hint", "mend the file; the last one that could be read counts until then").Msg("registry")
			return reg, nil
		}
	}
	return nil, fmt.Errorf("registry %s: %w", path, err)
}

// readFile reads a file that a person named: it does not wait for a FIFO, and has a limit.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxRegistry+1))
	if err == nil && len(b) > maxRegistry {
		err = fmt.Errorf("more than %d bytes", maxRegistry)
	}
	return b, err
}

func parseRegistry(b []byte) (*registry, error) {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	var file struct {
		Settings json.RawMessage `json:"hook_settings"`
		Deliver  json.RawMessage `json:"deliver"`
		Agents   json.RawMessage `json:"agents"`
	}
	err := json.Unmarshal(b, &file)
	var otherType *json.UnmarshalTypeError
	if errors.As(err, &otherType) || string(bytes.TrimSpace(b)) == "null" {
		return nil, errors.New(`it is no object such as {"agents": [...]}`)
	}
	if err != nil {
		return nil, fmt.Errorf("it is no JSON: %w", err)
	}
	r := &registry{}
	r.settings, r.problems = builtIn.with(file.Settings, file.Deliver, "hook_settings")
	var entries []json.RawMessage
	if len(file.Agents) > 0 {
		if err := json.Unmarshal(file.Agents, &entries); err != nil {
			return nil, errors.New("agents is no list")
		}
	}
	for i, entry := range entries {
		r.add(entry, fmt.Sprintf("agents[%d]", i))
	}
	return r, nil
}

// add takes an entry. One that cannot be understood is passed over, and the others count.
func (r *registry) add(entry json.RawMessage, where string) {
	var in struct {
		ID       json.RawMessage `json:"agent_id"`
		Enabled  json.RawMessage `json:"enabled"`
		Session  json.RawMessage `json:"tmux_session_name"`
		To       json.RawMessage `json:"openclaw_session_id"`
		Settings json.RawMessage `json:"hook_settings"`
		Deliver  json.RawMessage `json:"deliver"`
	}
	if err := json.Unmarshal(entry, &in); err != nil || string(entry) == "null" {
		r.problems = append(r.problems, where+" is no object and is passed over")
		return
	}
	for _, m := range []struct {
		name  string
		value json.RawMessage
	}{{"agent_id", in.ID}, {"tmux_session_name", in.Session}, {"openclaw_session_id", in.To}} {
		if len(m.value) > 0 && string(m.value) != "null" && m.value[0] != '"' {
			r.problems = append(r.problems, fmt.Sprintf("%s.%s is no text and does not count", where, m.name))
		}
	}
	a := agent{id: text(in.ID), session: text(in.Session), to: text(in.To)}
	if a.unnamed = a.id == ""; a.unnamed {
		a.id = a.session
	}
	if a.id == "" {
		r.problems = append(r.problems, where+" has neither an agent_id nor a tmux_session_name and is passed over")
		return
	}
	plain := false
	if a.enabled, plain = isEnabled(in.Enabled); !plain {
		r.problems = append(r.problems, fmt.Sprintf("%s.enabled is neither true nor false; it counts as %v", where, a.enabled))
	}
	a.settings, a.problems = r.settings.with(in.Settings, in.Deliver, where+".hook_settings")
	if a.session != "" && a.enabled && slices.ContainsFunc(r.agents, func(other agent) bool {
		return other.session == a.session && other.enabled
	}) {
		r.problems = append(r.problems,
			fmt.Sprintf("%s: another agent has the tmux session %q; the first one that can be told counts", where, a.session))
	}
	r.agents = append(r.agents, a)
}

// isEnabled reads enabled, which holds where it is not said. plain is false where it is neither true nor false: what means no
// in some language or other counts as that, and anything else tells too much rather than too little.
func isEnabled(raw json.RawMessage) (enabled, plain bool) {
	if len(raw) == 0 {
		return true, true
	}
	plain = string(raw) == "true" || string(raw) == "false"
	switch strings.ToLower(strings.TrimSpace(asText(raw))) {
	case "false", "no", "off", "0", "n", "f", "null", "none", "disabled", "":
		return false, plain
	}
	return true, plain
}

// agentOf is the agent that supervises a session: the one with exactly this tmux_session_name, else the one whose agent_id
// and a dash begin the name, the longest of those. ok is false when there is none, or it is not enabled.
func (r *registry) agentOf(session string) (a agent, ok bool) {
	best, rank := agent{}, 0
	for _, one := range r.agents {
		now := 0
		switch {
		case one.session == session, one.session != "" && keptName.Replace(one.session) == session:
			now = 1 << 30
		case !one.unnamed && strings.HasPrefix(session, one.id+"-"):
			now = len(one.id) + 1
		}
		if now > rank || now == rank && now > 0 && one.worth() > best.worth() {
			best, rank = one, now
		}
	}
	return best, rank > 0 && best.enabled
}

// worth is what decides between entries for the same session: one that is enabled, one that can be told, one with a name; and
// of equals the first.
func (a agent) worth() (n int) {
	for _, is := range []bool{a.enabled, a.chat || a.to != "", !a.unnamed} {
		if n *= 2; is {
			n++
		}
	}
	return n
}

// keptName is what tmux makes of a session's name that it is given.
var keptName = strings.NewReplacer(":", "_", ".", "_")
