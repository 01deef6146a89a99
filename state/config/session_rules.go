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

// Rule sets how the sessions that it matches are treated. Its patterns are shell globs;
// an empty one matches everything. If several rules match a session, the first that has a
// setting decides that setting.
type Rule struct {
	Session     string `json:"session,omitempty"`      // the session's name
	Project     string `json:"project,omitempty"`      // the project's folder
	OutputStyle string `json:"output_style,omitempty"` // $CLAUDE_OUTPUT_STYLE
	// system3: matches the sessions of isSystem3, and sets deny mode by default
	Preset string `json:"preset,omitempty"`

	AskMode       state.Mode          `json:"ask_mode,omitempty"`
	TimeoutPolicy state.TimeoutPolicy `json:"timeout_policy,omitempty"`
	StopGate      StopGate            `json:"stop_gate,omitempty"`
	Idle          Idle                `json:"idle,omitempty"`
}

// SessionFacts are the facts about a session that rules match.
type SessionFacts struct {
	Name, ProjectDir, OutputStyle string
	// a person gave the name ($CLAUDE_SESSION_ID); otherwise the hook derived it
	IsNamedByPerson bool
}

// SessionRules says how one session is treated.
type SessionRules struct {
	AskMode       state.Mode
	TimeoutPolicy state.TimeoutPolicy
	StopGate      StopGate // every check has a level
	Idle          Idle     // not ""
}

// GateLevel is what a check of the stop gate does when it finds something.
type GateLevel string

const (
	GateOn     GateLevel = "on"     // the check keeps the session from stopping
	GateOff    GateLevel = "off"    // the check is not made
	GateAdvice GateLevel = "advice" // the person is notified, and the session stops
)

// The stop gate's checks.
const (
	// the session asked its person something before it stops
	GateQuestionAsked = "question_asked"
	// at least one of a team's persistent agents is running
	GatePersistentAgents = "persistent_agents"
)

// StopGate has the level of each check of the stop gate. In a file it is an object, or
// one level for all checks.
type StopGate map[string]GateLevel

// HasChecks reports whether any check is made.
func (g StopGate) HasChecks() bool {
	active := []GateLevel{GateOn, GateAdvice}
	return slices.Contains(active, g[GateQuestionAsked]) ||
		slices.Contains(active, g[GatePersistentAgents])
}

// UnmarshalJSON parses both forms. An unknown check or level is an error.
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

// readRules reads the rules of the highest place that has any. It skips an invalid rule.
func (c *Config) readRules(value json.RawMessage) error {
	var all []json.RawMessage
	err := json.Unmarshal(value, &all)
	if c.Rules != nil {
		return err
	}
	for _, raw := range all {
		var r Rule
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields() // a misspelled "session" must not make a rule for all sessions
		err := d.Decode(&r)
		if err == nil {
			err = r.normalize()
		}
		if err != nil {
			c.addProblem("rules", fmt.Errorf("%s is ignored: %w", raw, err))
			continue
		}
		c.Rules = append(c.Rules, r)
	}
	return err
}

// normalize replaces a rule's words by their exact form, since people may write them in
// another case. It returns an error for an invalid word or pattern.
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

// setKnownWord replaces a word by its exact form, as setWord does. An empty word stays.
func setKnownWord[T ~string](word *T, allowed []T) error {
	if *word == "" {
		return nil
	}
	return setWord(word, string(*word), allowed)
}

// RulesFor returns how a session is treated. Each setting comes from the first of these
// that has it: the matching rules, in their order; the built-in preset, which only
// applies to a session that a person named or styled for it; the settings for all
// sessions.
func (c *Config) RulesFor(session SessionFacts) SessionRules {
	rules := SessionRules{StopGate: StopGate{}}
	fill := func(mode state.Mode, policy state.TimeoutPolicy, gate StopGate) {
		rules.AskMode = cmp.Or(rules.AskMode, mode)
		rules.TimeoutPolicy = cmp.Or(rules.TimeoutPolicy, policy)
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
		// In deny mode, Claude must by default ask the person what comes next before the
		// session may stop.
		level = GateOn
	}
	fill("", "", StopGate{GateQuestionAsked: level, GatePersistentAgents: level})
	return rules
}

func (r Rule) matches(session SessionFacts) bool {
	fits := func(pattern, text string) bool {
		matches, err := path.Match(pattern, text)
		return pattern == "" || err == nil && matches
	}
	fitsPreset := r.Preset == "" || r.Preset == system3Preset && isSystem3(session, false)
	return fitsPreset && fits(r.Session, session.Name) &&
		fits(r.Project, session.ProjectDir) && fits(r.OutputStyle, session.OutputStyle)
}

const system3Preset = "system3"

// timestampNamePattern matches names that begin with a time, such as
// 20260221T103000Z-a7f3b9e1, 2026-02-21-review or 1771669800.
var timestampNamePattern = state.LazyPattern(
	`^(20\d\d-?[01]\d-?[0-3]\d([T_-]?\d\d:?\d\d(:?\d\d)?Z?)?|1\d{9}(\d{3})?)([^0-9A-Za-z]|$)`,
)

// isSystem3 reports whether a session is a meta-orchestrator's, by its output style or
// its name; with isStyleOnly the name does not count. A session that a meta-orchestrator
// supervises (style orchestrator, name orch-…) is not: the meta-orchestrator answers its
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
	gateLevelWords  = []GateLevel{GateOn, GateOff, GateAdvice}
	gateCheckWords  = []string{"question-asked", "persistent-agents"}
	reportRuleWords = []ReportRule{ReportOn, ReportOff, ReportDigest}
)
