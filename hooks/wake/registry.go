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
	Agents   []agent  `json:"agents"`
	Settings settings `json:"hook_settings"` // of all agents that do not say otherwise
}

// agent is an entry of a registry.
type agent struct {
	ID       string          `json:"agent_id"`
	Session  string          `json:"tmux_session_name"`
	To       string          `json:"openclaw_session_id"`
	Enabled  json.RawMessage `json:"enabled"` // true where it is absent; all else is false
	Settings settings        `json:"hook_settings"`
}

func (a agent) enabled() bool { return a.Enabled == nil || string(a.Enabled) == "true" }

// settings are an agent's own before the registry's before ours. docs/openclaw.md has the table.
type settings struct {
	PaneLines int `json:"pane_capture_lines"`         // of the pane that are looked at, and told where Claude said nothing
	Threshold int `json:"context_pressure_threshold"` // in percent: from there on it is a warning
}

// builtIn is what holds where a registry says nothing.
var builtIn = settings{PaneLines: 40, Threshold: 50}

const (
	maxRegistry = 4 << 20 // bytes
	mostLines   = 200     // of a pane
	mostChars   = 900_000 // keeps a message below the 4 MiB that openclaw reads
)

// registry reads $GCHAT_WAKE_REGISTRY, else recovery-registry.json beside our own configuration.
func (f *fire) registry() (*registry, error) {
	path := cmp.Or(f.Env("GCHAT_WAKE_REGISTRY"), filepath.Join(state.ConfigDir(f.Env), "recovery-registry.json"))
	b, err := state.ReadLinked(path, maxRegistry)
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	reg, odd, err := parseRegistry(b)
	if err != nil {
		return nil, fmt.Errorf("registry %s: %w", path, err)
	}
	if odd != nil {
		f.Log().Warn().Err(odd).Str("registry", path).Msg("what has the wrong type in the registry does not count")
	}
	return reg, nil
}

// parseRegistry reads a registry. odd names a member that has the wrong type, and does not count.
func parseRegistry(b []byte) (r *registry, odd, err error) {
	r = &registry{}
	err = json.Unmarshal(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), r)
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
		return r, err, nil
	}
	return r, nil, err
}

// keptName is what tmux makes of a session's name that it is given.
var keptName = strings.NewReplacer(":", "_", ".", "_")

// agentOf is the agent that supervises a session, with the settings that hold for it: the one with exactly this
// tmux_session_name, else the one whose agent_id and a dash begin the name, the longest of those. Of equals it is one that is
// enabled, then the first. ok is false when there is none, or it is not enabled.
func (r *registry) agentOf(session string) (best agent, ok bool) {
	most := 0
	for _, a := range r.Agents {
		length := 0 // of what is the same
		switch {
		case a.Session != "" && (a.Session == session || keptName.Replace(a.Session) == session):
			length = math.MaxInt32
		case a.ID != "" && strings.HasPrefix(session, a.ID+"-"):
			length = len(a.ID)
		}
		if length > most || length > 0 && length == most && a.enabled() && !best.enabled() {
			best, most = a, length
		}
	}
	lines := cmp.Or(best.Settings.PaneLines, r.Settings.PaneLines, builtIn.PaneLines)
	best.Settings.PaneLines = min(max(1, lines), mostLines)
	best.Settings.Threshold = cmp.Or(best.Settings.Threshold, r.Settings.Threshold, builtIn.Threshold)
	best.ID = cmp.Or(best.ID, best.Session)
	return best, most > 0 && best.enabled()
}
