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

// Rule says how the sessions that it matches are treated. Patterns are shell globs; an
// empty one matches everything. Of each setting the first matching rule that says
// something about it counts.
type Rule struct {
	Session     string `json:"session,omitempty"`      // the session's name
	Project     string `json:"project,omitempty"`      // the project's folder
	OutputStyle string `json:"output_style,omitempty"` // $CLAUDE_OUTPUT_STYLE
	// a pattern with a name: system3, which without ask_mode is in deny mode
	Preset string `json:"preset,omitempty"`

	AskMode       state.Mode          `json:"ask_mode,omitempty"`
	TimeoutPolicy state.TimeoutPolicy `json:"timeout_policy,omitempty"`
	StopGate      StopGate            `json:"stop_gate,omitempty"`
	Idle          Idle                `json:"idle,omitempty"`
}

// SessionFacts is the session that rules are looked up for.
type SessionFacts struct {
	Name, ProjectDir, OutputStyle string
	// Session was given by a person ($CLAUDE_SESSION_ID), not found out
	IsNamedByPerson bool
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
	// the person was asked something before the session stops
	GateQuestionAsked = "question_asked"
	// of a team's persistent agents at least one is there
	GatePersistentAgents = "persistent_agents"
)

// StopGate is the level of each check of the stop gate. In a file it is an object, or one
// level for all checks.
type StopGate map[string]GateLevel

// HasChecks says whether any check is made.
func (g StopGate) HasChecks() bool {
	made := []GateLevel{GateOn, GateAdvice}
	return slices.Contains(made, g[GateQuestionAsked]) ||
		slices.Contains(made, g[GatePersistentAgents])
}

// UnmarshalJSON reads both forms. What means nothing is an error.
func (g *StopGate) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var all string
	levels := map[string]string{}
	if json.Unmarshal(b, &all) == nil {
		levels = map[string]string{GateQuestionAsked: all, GatePersistentAgents: all}
	} else if err := json.Unmarshal(b, &levels); err != nil {
		return err
	}
	*g = StopGate{}
	for name, word := range levels {
		var check string
		var level GateLevel
		err := cmp.Or(setWord(&check, name, gateCheckWords), setWord(&level, word, gateLevelWords))
		if err != nil {
			return fmt.Errorf("%s is %q: %w", name, word, err)
		}
		(*g)[strings.ReplaceAll(check, "-", "_")] = level
	}
	return nil
}

func (c *Config) readStopGate(value json.RawMessage) error {
	var gate StopGate
	err := json.Unmarshal(value, &gate)
	for check, level := range gate {
		c.StopGate[check] = cmp.Or(c.StopGate[check], level)
	}
	return err
}

// readRules takes the rules of the highest place that has any. A rule that says something
// which means nothing is left out.
func (c *Config) readRules(value json.RawMessage) error {
	var all []json.RawMessage
	err := json.Unmarshal(value, &all)
	if c.Rules != nil {
		return err
	}
	for _, raw := range all {
		var r Rule
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields() // a slip in "session" must not make a rule for all sessions
		err := d.Decode(&r)
		if err == nil {
			err = r.normalize()
		}
		if err != nil {
			c.addProblem("rules", fmt.Errorf("%s is left out: %w", raw, err))
			continue
		}
		c.Rules = append(c.Rules, r)
	}
	return err
}

// normalize puts a rule's words as they are meant, and says what means nothing.
func (r *Rule) normalize() error {
	err := cmp.Or(
		setKnownWord(&r.AskMode, modeWords),
		setKnownWord(&r.TimeoutPolicy, timeoutPolicyWords),
		setKnownWord(&r.Idle, idleWords),
		setKnownWord(&r.Preset, []string{system3Preset}),
	)
	for _, pattern := range []string{r.Session, r.Project, r.OutputStyle} {
		_, patternErr := path.Match(pattern, "")
		err = cmp.Or(err, patternErr)
	}
	return err
}

// setKnownWord is setWord of a word that may be missing.
func setKnownWord[T ~string](word *T, words []T) error {
	if *word == "" {
		return nil
	}
	return setWord(word, string(*word), words)
}

// RulesFor is how a session is treated: as the first matching rules say, else as the
// built-in preset says of a session that was named so on purpose, else as configured for
// all.
func (c *Config) RulesFor(session SessionFacts) SessionRules {
	rules := SessionRules{StopGate: StopGate{}}
	fill := func(mode state.Mode, policy state.TimeoutPolicy, gate StopGate) {
		rules.AskMode, rules.TimeoutPolicy = cmp.Or(
			rules.AskMode,
			mode,
		), cmp.Or(
			rules.TimeoutPolicy,
			policy,
		)
		for check, level := range gate {
			rules.StopGate[check] = cmp.Or(rules.StopGate[check], level)
		}
	}
	for _, r := range c.Rules {
		if r.matches(session) {
			mode := r.AskMode
			if mode == "" && r.Preset != "" {
				mode = state.ModeDeny
			}
			fill(mode, r.TimeoutPolicy, r.StopGate)
			rules.Idle = cmp.Or(rules.Idle, r.Idle)
		}
	}
	if !c.isModeInEnv && isSystem3(session, !session.IsNamedByPerson) {
		fill(state.ModeDeny, "", nil)
	}
	fill(c.AskMode, c.TimeoutPolicy, c.StopGate)
	rules.Idle = idleFor(cmp.Or(rules.Idle, c.Idle), rules.AskMode)
	level := GateOff
	if rules.AskMode.Traits().HasMarker {
		// such a session stops only after its person was asked, unless a rule says
		// otherwise
		level = GateOn
	}
	fill("", "", StopGate{GateQuestionAsked: level, GatePersistentAgents: level})
	return rules
}

func (r Rule) matches(session SessionFacts) bool {
	match := func(pattern, s string) bool {
		ok, err := path.Match(pattern, s)
		return pattern == "" || err == nil && ok
	}
	return match(r.Session, session.Name) && match(r.Project, session.ProjectDir) &&
		match(r.OutputStyle, session.OutputStyle) &&
		(r.Preset == "" || r.Preset == system3Preset && isSystem3(session, false))
}

const system3Preset = "system3"

// timestampNamePattern are names such as 20260221T103000Z-a7f3b9e1, 2026-02-21-review or
// 1771669800.
var timestampNamePattern = state.LazyPattern(
	`^(20\d\d-?[01]\d-?[0-3]\d([T_-]?\d\d:?\d\d(:?\d\d)?Z?)?|1\d{9}(\d{3})?)([^0-9A-Za-z]|$)`,
)

// isSystem3 says whether a session is a meta-orchestrator's: by its name, unless only its
// style counts, or by its style. Those that it supervises never are: it answers their
// questions itself.
func isSystem3(session SessionFacts, isStyleOnly bool) bool {
	style, name := strings.ToLower(session.OutputStyle), session.Name
	if style == "orchestrator" || strings.HasPrefix(name, "orch-") {
		return false
	}
	if strings.Contains(style, "system3") {
		return true
	}
	for _, prefix := range []string{"system3-", "s3-", "cccb-"} {
		if !isStyleOnly && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return !isStyleOnly && timestampNamePattern().MatchString(name)
}

var (
	modeWords = []state.Mode{
		state.ModeNative,
		state.ModeHold,
		state.ModeDeny,
		state.ModeInject,
		state.ModeOff,
	}
	timeoutPolicyWords = []state.TimeoutPolicy{
		state.TimeoutLeaveOpen,
		state.TimeoutRecommended,
		state.TimeoutAskTerminal,
	}
	gateLevelWords = []GateLevel{GateOn, GateOff, GateAdvice}
	gateCheckWords = []string{"question-asked", "persistent-agents"}
)
