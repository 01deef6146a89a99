//go:build !linux

package claudecheck

import (
	"path/filepath"
	"syscall"

	"gchat-hooks/state"
)

// killMarked kills the pollers of the sessions in dir, and reports whether there were
// some. The other processes end with their terminal.
func killMarked(dir, _ string) (found bool) {
	homes, _ := filepath.Glob(filepath.Join(dir, "*", "home"))
	for _, home := range homes {
		env := func(name string) string { return map[string]string{"HOME": home}[name] }
		for _, h := range state.ReadHeartbeats(env) {
			if h.IsAlive && h.PIDScope == state.PIDScope() {
				found = syscall.Kill(h.PID, syscall.SIGKILL) == nil || found
			}
		}
	}
	return found
}
