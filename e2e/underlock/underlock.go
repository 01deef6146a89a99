// Package underlock holds that nothing slow happens while a record's lock is held: no
// other lock is waited for, and neither tmux, the network nor configuration is read. Only
// tests import it.
package underlock

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/state"
)

// lockHolders call a function of another package while they hold a record's lock, or the
// lock of a folder that a record is about to be written into.
var lockHolders = []string{"gchat-hooks/state.Folder[...].Update", "gchat-hooks/state.Questions.Record"}

// minParallel is how many parallel tests run at once where a machine has fewer cores:
// most of a test's time is waiting.
const minParallel = 6

// Run runs a package's tests. It fails where a test, or a copy of the test's program that
// called Watch, did something slow under a record's lock.
func Run(m *testing.M) (code int) {
	os.Remove(reportFile())
	flag.Parse()
	set := flag.Lookup("test.parallel")
	if set.Value.String() == set.DefValue {
		_ = set.Value.Set(strconv.Itoa(max(minParallel, runtime.GOMAXPROCS(0))))
	}
	Watch()
	code = m.Run()
	if report, err := os.ReadFile(reportFile()); err == nil {
		fmt.Printf("under a record's lock:\n%s", report)
		return 1
	}
	return code
}

// Watch has what this process does under a record's lock written down for Run.
func Watch() { WatchFor(reportFile()) }

// WatchFor is Watch of another program than the test's, which has its file of reports
// there.
func WatchFor(file string) {
	state.SlowCallWatcher = func(what string) { recordIfLocked(what, file) }
}

// Build builds gchat-hooks for a test, so that whatever it is run as is watched, too.
func Build(path string) error {
	dir, err := os.MkdirTemp("", "underlock-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	module, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return err
	}
	watch, overlay := filepath.Join(dir, "watch.go"), filepath.Join(dir, "overlay.json")
	// beside main.go, for the compiler alone
	overlaidFile := filepath.Join(filepath.Dir(string(module)), "watched_by_tests.go")
	replace, _ := json.Marshal(map[string]any{"Replace": map[string]string{overlaidFile: watch}})
	code := fmt.Sprintf("package main\nimport %q\nfunc init() { underlock.WatchFor(%q) }\n",
		"gchat-hooks/e2e/underlock", reportFile())
	err = errors.Join(os.WriteFile(watch, []byte(code), 0o600), os.WriteFile(overlay, replace, 0o600))
	if err != nil {
		return err
	}
	return bound.Build(path, "-overlay", overlay)
}

// reportFile is a file beside the test's program, which each run of the tests has for
// itself.
func reportFile() string {
	program, _ := os.Executable()
	return filepath.Join(filepath.Dir(program), "under-lock.txt")
}

// recordIfLocked writes down something slow whose caller's caller, or one further up,
// holds a lock. A holder that waits for its own lock is the caller.
func recordIfLocked(what, file string) {
	stack := make([]uintptr, 200)
	// without Callers, look, WatchFor's, Slow, what is slow
	stack = stack[:runtime.Callers(5, stack)]
	frames := runtime.CallersFrames(stack)
	caller, more := frames.Next()
	trace := []string{frameLine(caller)}
	for more {
		var frame runtime.Frame
		frame, more = frames.Next()
		trace = append(trace, frameLine(frame))
		if slices.Contains(lockHolders, frame.Function) {
			appendReport(file, what+"\n"+strings.Join(trace, ""))
			return
		}
	}
}

func frameLine(frame runtime.Frame) string {
	return fmt.Sprintf("  %s\n    %s:%d\n", frame.Function, frame.File, frame.Line)
}

func appendReport(path, text string) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.WriteString(text)
	}
	if err != nil {
		panic(fmt.Sprintf("%v: %s", err, text))
	}
	file.Close()
}
