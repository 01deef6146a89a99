package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
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
	c.Grace = DefaultGrace
	if s := get("GCHAT_GRACE"); s == "0" || s == "0s" {
		c.Grace = 0
	} else {
		c.Grace = c.duration("grace", s, DefaultGrace)
	}
	for _, s := range list(get("GCHAT_REMIND")) {
		after, err := ParseInterval(s)
		if err != nil || after < time.Minute || len(c.Remind) >= mostReminds {
			c.Problems = append(c.Problems, fmt.Errorf("remind: %q: it takes up to %d durations of a minute or more", s, mostReminds))
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
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	if err := json.Unmarshal(raw, &patterns); err != nil {
		return nil, fmt.Errorf("never_remote: %w", err)
	}
	return append([]string{}, patterns...), nil
}

// longestCommand is the longest shell command that is compared with patterns, in bytes; a longer one counts as named.
const longestCommand = 16 << 10

// shellWord is where a word of a shell's command may begin, and with it another command.
var shellWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("[\\s;&|(){}`'\"$=]+") })

// NeverRemotely says whether never_remote names a call: then only the terminal allows it. A pattern is a tool, or a tool with what
// it is called with, as in "Bash(git push*)"; "*" stands for any characters. A shell's command is named where the pattern fits it
// from any of its words on: "cd x && sudo git push" is a "git push*", and so is what only mentions it.
func (c *Config) NeverRemotely(tool, input string) bool {
	parts := []string{input}
	if tool == "Bash" && len(input) <= longestCommand {
		input = strings.Join(strings.Fields(strings.NewReplacer("\\\n", " ", "\n", ";").Replace(input)), " ")
		bare := strings.NewReplacer(`"`, "", "'", "", `\`, "").Replace(input) // "git" p\ush is git push
		for _, command := range []string{input, bare} {
			for _, at := range append(shellWord().FindAllStringIndex(command, -1), []int{0, 0}) {
				from := command[at[1]:]
				end := strings.IndexAny(from+";", ";&|)`'\"")
				parts = append(parts, from, strings.TrimSpace(from[:end]))
			}
		}
	}
	return slices.ContainsFunc(c.NeverRemote, func(pattern string) bool {
		name, rest, called := strings.Cut(strings.TrimSpace(pattern), "(")
		if !matches(name, tool) {
			return false
		}
		glob, whole := strings.CutSuffix(rest, ")")
		if !called || !whole || tool == "Bash" && len(input) > longestCommand { // in doubt it names more, not less
			return true
		}
		return slices.ContainsFunc(parts, func(part string) bool { return matches(glob, part) })
	})
}

// matches says whether a text is as a pattern says, in which "*" stands for any characters, line breaks too.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
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
