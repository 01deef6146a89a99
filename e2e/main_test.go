// Package e2e is the room for whole-house tests: a real Claude Code in a real
// tmux, with nothing pretended but the far ends.
//
// TestMain runs the tests in a network namespace that has only loopback, so a
// session, its hooks and every server they talk to cannot reach anything else.
// There, [anthropic] plays the model from a script, [start] opens a session
// with a HOME of its own, and [recorder] shows which hook events it fired.
//
// The real client is about 245 MB and is not fetched by the tests; where it is
// missing they skip and print the command that installs it. GCHAT_E2E_CLAUDE_DIR
// says where the versions are (default ~/.cache/gchat-hooks-e2e), and
// GCHAT_E2E_REQUIRED=1 turns every such skip into a failure, for machines that
// are meant to have them. See [findClaude] for the layout.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

// The line names no program that is there under another of its names, and README promises
// no more of it than there is.
func TestWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"tmux", "google-chrome", "jq"} {
		kit.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700))
	}
	t.Setenv("PATH", dir)
	if got, want := missingPrograms(), []string{"strace", "node", "python3", "curl", "bash"}; !slices.Equal(got, want) {
		t.Errorf("missing: %q, want %q", got, want)
	}
	readme, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil || strings.Contains(string(readme), "the last line names") {
		t.Errorf("README calls it the last line, and other packages' lines follow it (%v)", err)
	}
}

// The test binary plays three parts: what `go test` starts, the same again
// inside a namespace, and (see recorder_test.go) a hook that Claude Code runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == recordHook {
		os.Exit(runRecordHook(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == formServer {
		os.Exit(runFormServer(os.Args[2]))
	}
	flag.Parse()
	if set := flag.Lookup("test.parallel"); set.Value.String() == set.DefValue {
		// most of a session's time is waiting; takeSessionSlot limits what a machine has
		// to bear
		_ = set.Value.Set("6")
	}
	code := runIsolated(m)
	if os.Getenv(runVariable) == "" && !testing.Verbose() {
		printMissing()
	}
	os.Exit(code)
}

// neededPrograms are the programs that tests of any package skip without. One of each row
// is enough.
var neededPrograms = [][]string{
	{"tmux"}, {"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}, {"strace"}, {"node"}, {"python3"},
	{"jq"}, {"curl"}, {"bash"},
}

// missingPrograms are those of them that are not on the PATH.
func missingPrograms() (missing []string) {
	for _, names := range neededPrograms {
		if !slices.ContainsFunc(names, func(name string) bool { _, err := exec.LookPath(name); return err == nil }) {
			missing = append(missing, names[0])
		}
	}
	return missing
}

// printMissing names what tests of any package skip for on this machine. The go tool
// drops what a green test binary prints, so the line goes to the go tool's own standard
// error, or to the person's terminal. Other packages' lines may follow it.
func printMissing() {
	missing := missingPrograms()
	for _, version := range bothVersions {
		if _, err := os.Stat(filepath.Join(claudeDir(), version, "node_modules", claudePackage, "claude")); err != nil {
			missing = append(missing, "Claude Code "+version)
		}
	}
	if noNamespace != "" {
		missing = append(missing, "a network namespace")
	}
	if len(missing) == 0 {
		return
	}
	for _, path := range []string{fmt.Sprintf("/proc/%d/fd/2", os.Getppid()), "/dev/tty"} {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			continue
		}
		defer f.Close()
		fmt.Fprintf(f, "skipped tests that need: %s (go test -v ./... names each)\n", strings.Join(missing, ", "))
		return
	}
}

// noNamespace says why the tests do not run in a namespace of their own, ""
// when they do.
var noNamespace string

// requireIsolation skips a test that must not run with a real network around it.
func requireIsolation(t *testing.T) {
	t.Helper()
	if noNamespace != "" {
		skip(t, "no network namespace: "+noNamespace)
	}
}

// skip says why a test cannot run on this machine. A machine that is meant to
// run it (GCHAT_E2E_REQUIRED=1) fails instead, or nobody would notice.
func skip(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}
