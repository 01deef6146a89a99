package state

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Here names where this process's pids count: this machine, and on Linux the pid namespace in it, such as a container's. One HOME
// can be in several, and a process that is not seen from here may well live there.
var Here = sync.OnceValue(func() string {
	namespace, _ := os.Readlink("/proc/self/ns/pid") // the first one is called the same on every machine
	sum := sha256.Sum256([]byte("gchat-hooks " + machine() + " " + namespace))
	return hex.EncodeToString(sum[:4])
})

// Awake is how long this machine has run since it started, without its sleep.
func Awake() time.Duration {
	clock := int32(unix.CLOCK_MONOTONIC)
	if runtime.GOOS == "darwin" {
		clock = 8 // CLOCK_UPTIME_RAW: there the monotonic clock goes on while the machine sleeps
	}
	var t unix.Timespec
	if unix.ClockGettime(clock, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
