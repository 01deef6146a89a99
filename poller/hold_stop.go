package poller

import (
	"os"
	"os/signal"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// ctrlZ has a process that a person can stop at their terminal stop between two messages only: one that is stopped keeps the
// outbox of a space for itself, and no other may send beside it, for Chat could have a message twice.
var ctrlZ struct {
	once  sync.Once
	mu    sync.Mutex // held while the outbox is
	asked atomic.Bool
}

// holdStop keeps Ctrl-Z until release.
func holdStop() (release func()) {
	ctrlZ.once.Do(func() {
		if signal.Ignored(unix.SIGTSTP) {
			return
		}
		stops := make(chan os.Signal, 1) // for good: Go gives no signal back its own way to stop a program
		signal.Notify(stops, unix.SIGTSTP)
		go func() {
			for range stops {
				if sid, err := unix.Getsid(0); err != nil || sid == os.Getpid() {
					continue // without a shell above nothing could make it go on
				}
				ctrlZ.asked.Store(true)
				ctrlZ.mu.Lock()
				ctrlZ.asked.Store(false)
				_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
				ctrlZ.mu.Unlock()
			}
		}()
	})
	ctrlZ.mu.Lock()
	return ctrlZ.mu.Unlock
}
