package claudecheck

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Guard waits until the check that started it has closed in, which a process that is
// killed does, too. It then ends what the check started, and removes its folder.
func Guard(in io.Reader, dir, mark string) error {
	isOfCheck := filepath.Dir(dir) == filepath.Clean(os.TempDir()) &&
		strings.HasPrefix(filepath.Base(dir), folderPrefix) && len(mark) == len(rand.Text())
	if !isOfCheck {
		return fmt.Errorf("%s is not the folder of a check", dir)
	}
	_, _ = io.Copy(io.Discard, in)
	sockets, _ := filepath.Glob(filepath.Join(dir, "*", "tmux"))
	for _, socket := range sockets {
		_ = exec.Command("tmux", "-S", socket, "kill-server").Run()
	}
	// A process that starts another one while it is killed is found by the next look.
	for quiet := 0; quiet < 2; time.Sleep(screenInterval) {
		quiet++
		if killMarked(dir, markVariable+"="+mark) {
			quiet = 0
		}
	}
	return os.RemoveAll(dir)
}
