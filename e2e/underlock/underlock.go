// Package underlock holds that nothing slow happens while a record's lock is held: no other
// lock is waited for, and neither tmux, the network nor configuration is read. Only tests
// import it.
package underlock

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/state"
)

// holders call a function of another package while they hold a record's lock, or the lock of
// a folder that a record is about to be written into.
var holders = []string{"gchat-hooks/state.Folder[...].Update", "gchat-hooks/state.Questions.Record"}

// Run runs a package's tests. It fails where a test, or a copy of the test's program that
// called Watch, did something slow under a record's lock.
func Run(m *testing.M) (code int) {
	os.Remove(reports())
	Watch()
	code = m.Run()
	if said, err := os.ReadFile(reports()); err == nil {
		fmt.Printf("under a record's lock:\n%s", said)
		return 1
	}
	return code
}

// Watch has what this process does under a record's lock written down for Run.
func Watch() { state.Watch = look }

// reports is a file beside the test's program, which each run of the tests has for itself.
func reports() string {
	program, _ := os.Executable()
	return filepath.Join(filepath.Dir(program), "under-lock.txt")
}

// look writes down something slow whose caller's caller, or one further up, holds a lock. A
// holder that waits for its own lock is the caller.
func look(what string) {
	stack := make([]uintptr, 200)
	stack = stack[:runtime.Callers(5, stack)] // without Callers, look, Slow, what is slow, its caller
	frames := runtime.CallersFrames(stack)
	var way []string
	for more := len(stack) > 0; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		way = append(way, fmt.Sprintf("  %s\n    %s:%d\n", frame.Function, frame.File, frame.Line))
		if slices.Contains(holders, frame.Function) {
			report(what + "\n" + strings.Join(way, ""))
			return
		}
	}
}

func report(text string) {
	file, err := os.OpenFile(reports(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.WriteString(text)
	}
	if err != nil {
		panic(fmt.Sprintf("%v: %s", err, text))
	}
	file.Close()
}
