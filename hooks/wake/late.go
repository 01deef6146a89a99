package wake

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// lateVar marks the process that waits for an old version's transcript in its hook's stead.
const lateVar = "GCHAT_WAKE_LATE"

// handedOn is how long the event may take into a process of its own.
const handedOn = 2 * time.Second

// mayBeLate says whether a process of its own can tell the event: where nobody waits for the agent's decision.
func (f *fire) mayBeLate() bool {
	return f.Self != "" && f.Env(lateVar) == "" && !f.agent.bidirectional
}

// tellLater hands the event to a process of its own, for which Claude Code does not wait: it does what this one would do, when
// the transcript has the words.
func (f *fire) tellLater() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := detached(f.Self, "hook", f.Name)
	cmd.Stdin, cmd.Env = r, append(cmd.Env, lateVar+"=1")
	err = cmd.Start()
	r.Close()
	if err != nil {
		w.Close()
		return fmt.Errorf("tell later: %w", err)
	}
	_ = w.SetWriteDeadline(time.Now().Add(handedOn))
	_, err = w.Write(f.event.Raw())
	return errors.Join(err, w.Close(), cmd.Process.Release())
}
