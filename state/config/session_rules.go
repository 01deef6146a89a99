package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"gchat-hooks/state"
)

// Rule says how the sessions that it matches are treated. Patterns are shell globs; an empty one matches everything. Of
// each setting the first matching rule that says something about it counts.
type Rule struct {
	Session     string `json:"session,omitempty"`      // the session's name
	Project     string `json:"project,omitempty"`      // the project's folder
	OutputStyle string `json:"output_style,omitempty"` // $CLAUDE_OUTPUT_STYLE
	Preset      string `json:"preset,omitempty"`       // a pattern with a name: system3, which without ask_mode is in deny mode

	AskMode       state.Mode          `json:"ask_mode,omitempty"`
	TimeoutPolicy state.TimeoutPolicy `json:"timeout_policy,omitempty"`
	StopGate      StopGate            `json:"stop_gate,omitempty"`
	Idle          Idle                `json:"idle,omitempty"`
}

// Asked is the session that rules are looked up for.
type Asked struct {
	Session, Project, OutputStyle string
	Named                         bool // Session was given by a person ($CLAUDE_SESSION_ID), not found out
}

// SessionRules is how one session is treated.
type SessionRules struct {
	AskMode       state.Mode
	TimeoutPolicy state.TimeoutPolicy
	StopGate      StopGate // complete: every check has its level
	Idle          Idle     // not ""
}

// GateLevel is what a check of the stop gate does when it finds something.
type GateLevel string

const (
	GateOn     GateLevel = "on"     // it keeps the session from stopping
	GateOff    GateLevel = "off"    // it is not made
	GateAdvice GateLevel = "advice" // it tells the person, and the session stops
)

// The stop gate's checks.
const (
	QuestionAsked    = "question_asked"    // the person was asked something before the session stops
	PersistentAgents = "persistent_agents" // of a team's persistent agents at least one is there
)

// StopGate is the level of each check of the stop gate. In a file it is an object, or one level for all checks.
type StopGate map[string]GateLevel

// Guards says whether any check is made.
func (g StopGate) Guards() bool {
	made := []GateLevel{GateOn, GateAdvice}
	return slices.Contains(made, g[QuestionAsked]) || slices.Contains(made, g[PersistentAgents])
}

// UnmarshalJSON reads both forms. What means nothing is an error.
func (g *StopGate) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var all string
	levels := map[string]string{}
	if json.Unmarshal(b, &all) == nil {
		levels = map[string]string{QuestionAsked: all, PersistentAgents: all}
	} else if err := json.Unmarshal(b, &levels); err != nil {
		return err
	}
	*g = StopGate{}
	for name, word := range levels {
		var check string
		var level GateLevel
		err := cmp.Or(takeWord(&check, name, gateChecks), takeWord(&level, word, gateLevels))
		if err != nil {
			return fmt.Errorf("%s is %q: %w", name, word, err)
		}
		(*g)[strings.ReplaceAll(check, "-", "_")] = level
	}
	return nil
}

func (c *Config) readGate(value json.RawMessage) error {
	var gate StopGate
	err := json.Unmarshal(value, &gate)
	for check, level := range gate {
		c.StopGate[check] = cmp.Or(c.StopGate[check], level)
	}
	return err
}

// readRules takes the rules of the highest place that has any. A rule that says something which means nothing is left out.
func (c *Config) readRules(value json.RawMessage) error {
	var all []json.RawMessage
	err := json.Unmarshal(value, &all)
	if c.Rules != nil {
		return err
	}
	for _, one := range all {
		var r Rule
		d := json.NewDecoder(bytes.NewReader(one))
		d.DisallowUnknownFields() // a slip in "session" must not make a rule for all sessions
		err := d.Decode(&r)
		if err == nil {
			err = r.check()
		}
		if err != nil {
			c.problem("rules", fmt.Errorf("%s is left out: %w", one, err))
			continue
		}
		c.Rules = append(c.Rules, r)
	}
	return err
}

// check puts a rule's words as they are meant, and says what means nothing.
func (r *Rule) check() error {
	err := cmp.Or(known(&r.AskMode, modes), known(&r.TimeoutPolicy, policies), known(&r.Idle, idles),
		known(&r.Preset, []string{presetSystem3}))
	for _, pattern := range []string{r.Session, r.Project, r.OutputStyle} {
		_, bad := path.Match(pattern, "")
		err = cmp.Or(err, bad)
	}
	return err
}

// known is takeWord of a word that may be missing.
func known[T ~string](word *T, words []T) error {
	if *word == "" {
		return nil
	}
	return takeWord(word, string(*word), words)
}

// For is how a session is treated: as the first matching rules say, else as the built-in preset says of a session that was
// named so on purpose, else as configured for all.
func (c *Config) For(a Asked) SessionRules {
	is := SessionRules{StopGate: StopGate{}}
	fill := func(mode state.Mode, policy state.TimeoutPolicy, gate StopGate) {
		is.AskMode, is.TimeoutPolicy = cmp.Or(is.AskMode, mode), cmp.Or(is.TimeoutPolicy, policy)
		for check, level := range gate {
			is.StopGate[check] = cmp.Or(is.StopGate[check], level)
		}
	}
	for _, r := range c.Rules {
		if r.matches(a) {
			mode := r.AskMode
			if mode == "" && r.Preset != "" {
				mode = state.Deny
			}
			fill(mode, r.TimeoutPolicy, r.StopGate)
			is.Idle = cmp.Or(is.Idle, r.Idle)
		}
	}
	if !c.modeInEnv && system3(a, !a.Named) {
		fill(state.Deny, "", nil)
	}
	fill(c.AskMode, c.TimeoutPolicy, c.StopGate)
	is.Idle = idleOf(cmp.Or(is.Idle, c.Idle), is.AskMode)
	level := GateOff
	if is.AskMode.Row().Marker {
		level = GateOn // such a session stops only after its person was asked, unless a rule says otherwise
	}
	fill("", "", StopGate{QuestionAsked: level, PersistentAgents: level})
	return is
}

func (r Rule) matches(a Asked) bool {
	match := func(pattern, s string) bool {
		ok, err := path.Match(pattern, s)
		return pattern == "" || err == nil && ok
	}
	return match(r.Session, a.Session) && match(r.Project, a.Project) && match(r.OutputStyle, a.OutputStyle) &&
		(r.Preset == "" || r.Preset == presetSystem3 && system3(a, false))
}

const presetSystem3 = "system3"

// timestamped are names such as 20260221T103000Z-a7f3b9e1, 2026-02-21-review or 1771669800.
var timestamped = state.Pattern(`^(20\d\d-?[01]\d-?[0-3]\d([T_-]?\d\d:?\d\d(:?\d\d)?Z?)?|1\d{9}(\d{3})?)([^0-9A-Za-z]|$)`)

// system3 says whether a session is a meta-orchestrator's: by its name, unless only its style counts, or by its style.
// Those that it supervises never are: it answers their questions itself.
func system3(a Asked, styleOnly bool) bool {
	style, name := strings.ToLower(a.OutputStyle), a.Session
	if style == "orchestrator" || strings.HasPrefix(name, "orch-") {
		return false
	}
	if strings.Contains(style, "system3") {
		return true
	}
	for _, prefix := range []string{"system3-", "s3-", "cccb-"} {
		if !styleOnly && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return !styleOnly && timestamped().MatchString(name)
}

var (
	modes      = []state.Mode{state.Native, state.Hold, state.Deny, state.Inject, state.Off}
	policies   = []state.TimeoutPolicy{state.LeaveOpen, state.Recommended, state.AskTerminal}
	gateLevels = []GateLevel{GateOn, GateOff, GateAdvice}
	gateChecks = []string{"question-asked", "persistent-agents"}
)
