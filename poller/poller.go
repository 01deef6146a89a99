// Package poller is the one loop that talks to Google Chat, types into tmux and calls OpenClaw: it sends what is in the
// outbox, reads what people reply, decides who may answer, types answers, and closes what is over. It knows nothing of
// Claude Code's hook protocol: hooks and commands write records, and it goes on from the records, also after kill -9.
package poller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"time"

	"gchat-hooks/state"
)

// Options say what a poller is to do.
type Options struct {
	Env  state.Getenv
	Log  *state.Log
	Self string            // this program's path; the poller ends when the file there changes
	Lock *state.PollerLock // where the caller took it, or inherited it; nil: Run takes it

	Daemon bool      // stays; else it ends Idle after its work is done
	Once   bool      // one round: send, read, judge, type, send
	DryRun bool      // type nothing; say what would be typed
	Out    io.Writer // where DryRun says it; nil for the log alone
	// Dirs are folders of questions that a person named: the poller acts on all that is in them.
	Dirs   []string
	Hangup <-chan os.Signal // configuration and credentials are read afresh

	// Until, where set, ends the poller as soon as it says so: a command is the poller itself until its receipt is there. What
	// is left then goes to a detached poller.
	Until func() bool

	// Summary words what a session that ended or stopped did, and counts its turns. Nil words nothing.
	Summary func(context.Context, *state.Session) (state.Report, int, error)

	Now func() time.Time // nil: time.Now
}

// Idle is how long a poller stays after its work is done.
const Idle = 30 * time.Second

// Poller is one running poller.
type Poller struct {
	Options
	environment string // see state.Environment
	ways        gateways
}

func (p *Poller) now() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return time.Now()
}

func (p *Poller) user() string { return state.UserState(p.Env) }

// config reads a project's configuration afresh: a person who was refused may just have set the allowlist.
func (p *Poller) config(projectDir string, trusted bool) *state.Config {
	c := state.LoadConfig(state.ForProject(p.Env, projectDir, trusted), projectDir)
	p.Log.Hide(c.WebhookURL)
	return c
}

// messageID derives the id that Chat keeps one message of, from what the message is about: at most 63 characters of
// a-z, 0-9 and "-", beginning "client-".
func messageID(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return "client-" + hex.EncodeToString(h.Sum(nil)[:20])
}
