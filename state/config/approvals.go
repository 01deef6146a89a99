package config

import (
	"encoding/json"
	"errors"
	"fmt"
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

const (
	// DefaultGrace is how long a permission or a plan is left to a person who types in its pane.
	DefaultGrace = 10 * time.Second
	mostReminds  = 10
)

// takeApprovals settles who decides permissions and plans, and when a thread hears of them. unread says that a
// file of the person's did not parse.
func (c *Config) takeApprovals(get func(string) string, layers []layer, unread bool) {
	c.Approvers = c.AllowedUsers
	for _, l := range layers {
		if named, isSet := l.value["GCHAT_APPROVERS"]; isSet && !l.project && (named != "" || !l.environment) {
			c.Approvers = list(named) // an empty list in a file is one: then no reply decides
			break
		}
	}
	for _, l := range layers {
		if c.NeverRemote == nil && !l.project {
			c.NeverRemote = l.never
		}
	}
	if unread { // what it says is not known
		c.NeverRemote = []string{"*"}
	}
	for _, pattern := range c.NeverRemote {
		if strings.TrimSpace(pattern) == "" {
			c.Problems = append(c.Problems, errors.New("never_remote: an empty pattern names nothing"))
		}
	}
	c.MenuDecides = oneOf(c, "menu_decides", get("menu_decides"), "true", "false") == "true"
	c.Grace = DefaultGrace
	if s := get("GCHAT_GRACE"); s == "0" || s == "0s" {
		c.Grace = 0
	} else {
		c.Grace = c.duration("grace", s, DefaultGrace)
	}
	for _, s := range list(get("GCHAT_REMIND")) {
		after, err := ParseInterval(s)
		if err != nil || after < time.Minute || len(c.Remind) >= mostReminds {
			err = fmt.Errorf("remind: %q: it takes up to %d durations of a minute or more", s, mostReminds)
			c.Problems = append(c.Problems, err)
			continue
		}
		c.Remind = append(c.Remind, after)
	}
	slices.Sort(c.Remind)
}

// readNever reads never_remote, whose patterns may hold commas.
func readNever(file map[string]json.RawMessage) (patterns []string, err error) {
	raw, ok := file["never_remote"]
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &patterns); err != nil {
		return nil, fmt.Errorf("never_remote: %w", err)
	}
	return append([]string{}, patterns...), nil
}

// NeverRemotely says whether never_remote names a call: then only the terminal allows it. A pattern is a tool, or a tool with
// what it is called with, as in "Bash(git push*)"; "*" stands for any characters. A shell's command is named where the pattern
// fits it from any of its words on: "cd x && sudo git push" is a "git push*", and so is what only mentions it.
func (c *Config) NeverRemotely(tool, input string) bool {
	texts, begin, end := []string{input}, "^", "$"
	if tool == "Bash" {
		input = strings.Join(strings.Fields(strings.NewReplacer("\\\n", " ", "\n", ";").Replace(input)), " ")
		bare := strings.NewReplacer(`"`, "", "'", "", `\`, "").Replace(input) // "git" p\ush is git push
		texts, begin, end = []string{input, bare}, "(?:^|[\\s;&|(){}`'\"$=])", "\\s*(?:$|[;&|)`'\"])"
	}
	return slices.ContainsFunc(c.NeverRemote, func(pattern string) bool {
		name, glob, called := strings.Cut(strings.TrimSpace(pattern), "(")
		if fits, err := path.Match(name, tool); !fits && err == nil {
			return false
		}
		glob, whole := strings.CutSuffix(glob, ")")
		fits, err := regexp.Compile("(?s)" + begin + strings.ReplaceAll(regexp.QuoteMeta(glob), `\*`, ".*") + end)
		return !called || !whole || err != nil || slices.ContainsFunc(texts, fits.MatchString) // in doubt it names more, not less
	})
}

// idle is a word for when a session asks for its next instruction.
func (c *Config) idle(where string, given Idle) Idle {
	return oneOf(c, where, given, IdleOff, IdleOn, IdleAsks)
}

// idleOf completes what rules say of a session: one whose person is asked in other ways does not wait in its thread.
func idleOf(set Idle, mode state.Mode) Idle {
	switch {
	case set != "":
		return set
	case mode == state.Deny || mode == state.Off:
		return IdleOff
	}
	return IdleAsks
}
