package config

import (
	"encoding/json"
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"gchat-hooks/state"
)

// Idle says when a session that ended its turn asks its thread for the next instruction.
type Idle string

const (
	IdleOff  Idle = "off"
	IdleOn   Idle = "on"
	IdleAsks Idle = "asks" // when Claude's last words end in a question
)

var idles = []Idle{IdleOff, IdleOn, IdleAsks}

const (
	// DefaultGrace is how long a permission or a plan is left to a person who types in its pane.
	DefaultGrace = 10 * time.Second
	// DefaultBackgroundWait is how long a hook hides a dialog where no keys can be seen.
	DefaultBackgroundWait = 2 * time.Minute
	mostReminds           = 10
)

// takeApprovers settles who decides permissions and plans. Here the person's file goes before the environment, which a trusted
// project's settings can change: beside a list in the file, the environment names fewer people only. login is who logged in.
func (c *Config) takeApprovers(layers []layer, login []string) {
	inFiles := func(setting string) (users []string, isSet bool) {
		for _, l := range layers {
			if text, is := l.value[setting]; is && !l.project && !l.environment {
				return list(text), true // an empty list in a file is one: then no reply decides
			}
		}
		return nil, false
	}
	answer, answerSet := inFiles("GCHAT_ALLOWED_USERS")
	approve, approveSet := inFiles("GCHAT_APPROVERS")
	named := list(layers[0].value["GCHAT_APPROVERS"])
	switch {
	case approveSet:
		c.Approvers = approve
	case len(named) > 0:
		c.Approvers = slices.DeleteFunc(named, func(user string) bool {
			return answerSet && !slices.Contains(answer, user) && !slices.Contains(login, user)
		})
	case answerSet:
		c.Approvers = append(answer, login...)
	default:
		c.Approvers = c.AllowedUsers
	}
	if c.Unread { // what it says is not known
		c.NeverRemote = []string{"*"}
	}
	for _, pattern := range c.NeverRemote {
		if strings.TrimSpace(pattern) == "" {
			c.Problems = append(c.Problems, errors.New("never_remote: an empty pattern names nothing"))
		}
	}
}

// readNever reads never_remote, whose patterns may hold commas.
func (c *Config) readNever(value json.RawMessage) error {
	patterns := []string{}
	err := json.Unmarshal(value, &patterns)
	if c.NeverRemote == nil {
		c.NeverRemote = patterns
	}
	return err
}

// NeverRemotely says whether never_remote names a call: then only the terminal allows it. A pattern is a tool, or a tool with
// what it is called with, as in "Bash(git push*)"; "*" stands for any characters. A shell's command is named where the pattern
// fits it from any of its words on: "cd x && sudo git push" is a "git push*", and so is what only mentions it. Whatever tool runs
// the command, patterns of all such tools name it. texts are what the call is made with: a file also by the name that links lead
// to.
func (c *Config) NeverRemotely(tool string, texts ...string) bool {
	begin, end := "^", "$"
	if state.Shell(tool) {
		begin, end = "(?:^|[\\s;&|(){}`'\"$=])", "\\s*(?:$|[;&|)`'\"])"
		for _, command := range texts {
			command = strings.Join(strings.Fields(strings.NewReplacer("\\\n", "", "\n", ";").Replace(command)), " ")
			bare := strings.NewReplacer(`"`, "", "'", "", `\`, "").Replace(command) // "git" p\ush is git push
			texts = append(texts, command, bare)
		}
	}
	return slices.ContainsFunc(c.NeverRemote, func(pattern string) bool {
		name, glob, called := strings.Cut(strings.TrimSpace(pattern), "(")
		if !namesTool(name, tool) {
			return false
		}
		glob, whole := strings.CutSuffix(glob, ")")
		fits, err := regexp.Compile("(?s)" + begin + strings.ReplaceAll(regexp.QuoteMeta(glob), `\*`, ".*") + end)
		unsure := !called || !whole || tool == skillTool || err != nil // in doubt it names more, not less
		return unsure || slices.ContainsFunc(texts, fits.MatchString)
	})
}

// skillTool asks only for a skill that allows tools itself, and then runs its own commands (2.1.197 and 2.1.332). Which these are
// stands in no call of it, so each pattern may name them.
const skillTool = "Skill"

// namesTool says whether a pattern's tool, in which "*" stands for any characters, may be this one, or one that runs commands as
// this one does.
func namesTool(name, tool string) bool {
	alike := []string{tool}
	if state.Shell(tool) {
		alike = state.Shells
	}
	return tool == skillTool || slices.ContainsFunc(alike, func(tool string) bool {
		fits, err := path.Match(name, tool)
		return fits || err != nil
	})
}

// NeverNames says whether never_remote may name any call of a tool.
func (c *Config) NeverNames(tool string) bool {
	return slices.ContainsFunc(c.NeverRemote, func(pattern string) bool {
		name, _, _ := strings.Cut(strings.TrimSpace(pattern), "(")
		return namesTool(name, tool)
	})
}

// idleOf completes what rules say of a session: one whose person is asked in other ways does not wait in its thread.
func idleOf(set Idle, mode state.Mode) Idle {
	switch {
	case set != "":
		return set
	case mode.Row().Marker || !mode.Row().Asks:
		return IdleOff
	}
	return IdleAsks
}
