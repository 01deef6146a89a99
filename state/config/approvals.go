package config

import (
	"errors"
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
	DefaultGrace = 8 * time.Second
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
