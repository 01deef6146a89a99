package poller

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// NobodyReads says whether the other end of a pipe is closed. A process that waits for something to print would hear of it
// only when there is something, and wait in vain until then.
func NobodyReads(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	pipe := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLHUP}} // macOS looks at nothing that is not asked for
	n, err := unix.Poll(pipe, 0)
	return err == nil && n > 0 && pipe[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}
