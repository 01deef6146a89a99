package poller

import (
	"os"
	"path/filepath"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// Where no lock excludes other processes, a poller that hooks started ends at once, since
// several might serve. A daemon serves.
func TestWithoutLocksOnlyTheDaemonServes(t *testing.T) {
	for _, daemon := range []bool{false, true} {
		d := newTestMachine(t)
		t.Cleanup(state.UseLockEnv(d.env))
		lock, err := state.LockPoller(d.env)
		kit.NoError(t, err)
		// This executable says that it got the lock, as a child of this process would.
		self := filepath.Join(d.dir, "self")
		kit.NoError(t, os.WriteFile(self, []byte("#!/bin/sh\necho locked\n"), 0o700))
		p := d.newPoller()
		p.ProgramPath, p.Lock, p.Daemon = self, lock, daemon
		serves, err := p.checkPollerLock(t.Context())
		if serves != daemon || err != nil {
			t.Errorf("daemon %v: serves %v, %v", daemon, serves, err)
		}
		if place := state.ReadLockFolder(d.env); place == nil || place.Dir != "" {
			t.Errorf("locks are at %+v", place)
		}
		release(&p.Lock)
	}
}
