package poller

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// obeyPermissions has this thread read only what permissions allow, also as root:
// CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH go.
func obeyPermissions(t *testing.T) {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var all [2]unix.CapUserData
	if err := unix.Capget(&header, &all[0]); err != nil {
		t.Skip(err)
	}
	was := all
	all[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	if err := unix.Capset(&header, &all[0]); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = unix.Capset(&header, &was[0]) })
}

// A daemon of launchd's may not read a project in ~/Documents before the person allows
// it.
func TestPoller_HeartbeatNamesUnreadableFolder(t *testing.T) {
	for _, part := range []string{"folder", "file"} {
		t.Run(part, func(t *testing.T) {
			d := newTestMachine(t)
			q := d.addQuestion(nil)
			d.addQuestion(nil)
			folder := filepath.Dir(q.Path)
			closed := map[string]string{"folder": folder, "file": q.Path}[part]
			p := d.newPoller()
			obeyPermissions(t)
			unread := func(mode os.FileMode) []string {
				kit.NoError(t, os.Chmod(closed, mode))
				p.lastHeartbeatAt = time.Time{}
				p.readIndex()
				p.writeHeartbeat(false)
				return state.ReadHeartbeat(d.env, state.Environment(d.env)).UnreadableFolders
			}
			kit.Equalf(t, unread(0), []string{folder}, "closed")
			got := unread(0o700)
			kit.True(t, len(got) == 0, "open: %q", got)
		})
	}
}
