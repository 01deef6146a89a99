package config

import (
	"errors"
	"slices"
	"strings"
	"time"

	"gchat-hooks/state"
)

// Idle is when a session that ended its turn asks its thread for the next instruction.
type Idle string

const (
	IdleOff  Idle = "off"
	IdleOn   Idle = "on"
	IdleAsks Idle = "asks" // only if Claude's last text ends in a question
)

var idleWords = []Idle{IdleOff, IdleOn, IdleAsks}

const (
	// DefaultGrace is how long the poller waits before it posts a permission or a plan,
	// while a person types in its session's pane.
	DefaultGrace = 8 * time.Second
	// defaultBackgroundWait is how long a background agent's permission waits in Chat
	// alone, without a dialog in the terminal, if nobody can see whether a person presses
	// keys there.
	defaultBackgroundWait = 2 * time.Minute
	maxReminders          = 10
)

// setApprovers sets who decides permissions and plans. For this setting the person's file
// wins over the environment, because a trusted project's settings can change the
// environment. If the file has a list, the environment can only name fewer people of it.
// login has the user who logged in, if any.
func (c *Config) setApprovers(layers []layer, login []string) {
	readFromFiles := func(setting string) (users []string, isSet bool) {
		for _, l := range layers {
			if text, ok := l.texts[setting]; ok && !l.isProject && !l.isEnvironment {
				// An empty list in a file counts: then no reply decides.
				return splitList(text), true
			}
		}
		return nil, false
	}
	answerers, hasAnswerers := readFromFiles("GCHAT_ALLOWED_USERS")
	approvers, hasApprovers := readFromFiles("GCHAT_APPROVERS")
	fromEnv := splitList(layers[0].texts["GCHAT_APPROVERS"])
	switch {
	case hasApprovers:
		c.Approvers = approvers
	case len(fromEnv) > 0:
		c.Approvers = slices.DeleteFunc(fromEnv, func(user string) bool {
			return hasAnswerers && !slices.Contains(slices.Concat(answerers, login), user)
		})
	case hasAnswerers:
		c.Approvers = append(answerers, login...)
	default:
		c.Approvers = c.AllowedUsers
	}
	if c.HasUnreadFile { // the file may name any call
		c.NeverRemote = []string{"*"}
	}
	for _, pattern := range c.NeverRemote {
		if strings.TrimSpace(pattern) == "" {
			c.addProblem("never_remote", errors.New("an empty pattern matches no call"))
		}
	}
}

// idleFor returns when a session of that mode asks for the next instruction, where
// configured is what the person set. The default is IdleAsks. It is IdleOff in deny mode,
// where the session asks its person in other ways, and in a mode that asks nothing.
func idleFor(configured Idle, mode state.Mode) Idle {
	switch {
	case configured != "":
		return configured
	case mode.Traits().HasMarker || !mode.Traits().Asks:
		return IdleOff
	}
	return IdleAsks
}
