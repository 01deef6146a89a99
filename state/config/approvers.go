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

var idleWords = []Idle{IdleOff, IdleOn, IdleAsks}

const (
	// DefaultGrace is how long a permission or a plan is left to a person who types in
	// its pane.
	DefaultGrace = 8 * time.Second
	// defaultBackgroundWait is how long a hook hides a dialog where no keys can be seen.
	defaultBackgroundWait = 2 * time.Minute
	maxReminders          = 10
)

// setApprovers settles who decides permissions and plans. Here the person's file goes
// before the environment, which a trusted project's settings can change: beside a list in
// the file, the environment names fewer people only. login is who logged in.
func (c *Config) setApprovers(layers []layer, login []string) {
	readFromFiles := func(setting string) (users []string, isSet bool) {
		for _, l := range layers {
			if text, ok := l.texts[setting]; ok && !l.isProject && !l.isEnvironment {
				// an empty list in a file is one: then no reply decides
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
			return hasAnswerers && !slices.Contains(answerers, user) &&
				!slices.Contains(login, user)
		})
	case hasAnswerers:
		c.Approvers = append(answerers, login...)
	default:
		c.Approvers = c.AllowedUsers
	}
	if c.HasUnreadFile { // what it says is not known
		c.NeverRemote = []string{"*"}
	}
	for _, pattern := range c.NeverRemote {
		if strings.TrimSpace(pattern) == "" {
			c.Problems = append(
				c.Problems,
				errors.New("never_remote: an empty pattern names nothing"),
			)
		}
	}
}

// idleFor completes what rules say of a session: one whose person is asked in other ways
// does not wait in its thread.
func idleFor(configured Idle, mode state.Mode) Idle {
	switch {
	case configured != "":
		return configured
	case mode.Traits().HasMarker || !mode.Traits().Asks:
		return IdleOff
	}
	return IdleAsks
}
