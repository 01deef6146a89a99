// Package e2e has the tests of the whole product: a real Claude Code in a real tmux, with
// nothing played but the far ends.
//
// TestMain runs the tests in a network namespace that has only loopback, so a
// session, its hooks and every server they talk to cannot reach anything else.
// There, [fakeModel] plays the model from a script, [startSession] opens a session
// with a HOME of its own, and [recorder] shows which hook events it fired.
//
// The real client is about 245 MB and is not fetched by the tests; where it is
// missing they skip and print the command that installs it. GCHAT_E2E_CLAUDE_DIR
// says where the versions are (default ~/.cache/gchat-hooks-e2e), and
// GCHAT_E2E_REQUIRED=1 turns every such skip into a failure, for machines that
// are meant to have them. See [findClaude] for the layout.
package e2e

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// The line names no program that is there under another of its names, and README promises
// no more of it than there is.
func TestHarness_NamesMissingPrograms(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"tmux", "google-chrome", "jq"} {
		kit.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700))
	}
	t.Setenv("PATH", dir)
	if got, want := missingPrograms(), []string{
		"strace", "node", "python3", "curl", "bash",
	}; !slices.Equal(got, want) {
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
		// most of a session's time is waiting; takeSessionSlot and checkSlots limit what a
		// machine has to bear
		_ = set.Value.Set("400")
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
	{"tmux"}, {"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}, {"strace"},
	{"node"}, {"python3"},
	{"jq"}, {"curl"}, {"bash"},
}

// missingPrograms are those of them that are not on the PATH.
func missingPrograms() (missing []string) {
	for _, names := range neededPrograms {
		if !slices.ContainsFunc(names,
			func(name string) bool { _, err := exec.LookPath(name); return err == nil }) {
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
		if _, err := os.Stat(filepath.Join(claudeDir(), version, "node_modules", claudePackage,
			"claude")); err != nil {
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
		fmt.Fprintf(f, "skipped tests that need: %s (go test -v ./... names each)\n",
			strings.Join(missing, ", "))
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

// These tests are about the harness: what it claims to show is there, and what it starts
// is gone afterwards.

func TestHarness_ReachesOnlyLoopback(t *testing.T) {
	requireIsolation(t)
	// 192.0.2.0/24 is nobody's; without a route it is refused here, at once.
	conn, err := net.DialTimeout("tcp", "192.0.2.1:443", time.Second)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("dial an address outside: %v", err)
	}
}

// However Claude Code ends, nothing of it is left when the test is over, not even
// what a hook started behind its back.
func TestHarness_LeavesNothing(t *testing.T) {
	eachCase(t, testedVersions, map[string]func(*session){
		"kill": func(s *session) {
			s.Kill(syscall.SIGKILL)
			s.WaitExit()
			s.WaitScreen("claude exited: 137")
		},
		"open": func(*session) {}, // the test ends first
	}, func(t *testing.T, c claude, end func(*session)) {
		rec := newRecorder(t)
		var s *session
		t.Cleanup(func() { checkNothingLeft(t, s) }) // registered first, runs last
		s = startSession(t, c, config{
			Script: []turn{{questionCall(deployQuestion)}},
			Hooks: hooks{
				"SessionStart": {
					{Command: "setsid sleep 600 </dev/null >/dev/null 2>&1 & " + rec.Command()},
				},
				"PermissionRequest": {{Command: rec.Command() + "; sleep 600"}},
			},
		})
		rec.Wait(t, "SessionStart")
		if n := len(s.processes("")); n < 4 {
			// tmux, shell, Claude Code, sleep
			t.Fatalf("%d processes carry the session's mark", n)
		}
		s.Prompt("go ahead")
		rec.Wait(t, "PermissionRequest")
		s.WaitScreen(firstOption)
		end(s)
	})
}

func checkNothingLeft(t *testing.T, s *session) {
	if s == nil {
		return
	}
	kit.Equalf(t, len(s.processes("")), 0, "processes that are left: %q", s.processes(""))
	kit.Equalf(t, fileExists(s.tmux.dir), false, "the session's folder is left")
	if out, err := s.tmux.run("list-sessions"); err == nil {
		t.Errorf("the tmux server answers: %s", out)
	}
}

func TestHarness_ReadsThePrompt(t *testing.T) {
	rule := strings.Repeat("─", 40) + "\n"
	tests := []struct {
		name, screen string
		boxed        string
		idle         bool
	}{
		{"empty", rule + "❯\u00a0\n" + rule + "  ? for shortcuts\n", "", true},
		{"typed", rule + "❯ go ahead\n" + rule, "goahead", true},
		{"wrapped", rule + "❯ go\n  ahead\n\n" + rule, "goahead", true},
		{"busy", rule + "❯ \n" + rule + "  esc to interrupt\n", "", false},
		{
			"busy, without the hint",
			"✻ Choreographing… (3s · ↓ 8 tokens)\n" + rule + "❯ \n" + rule, "", false,
		},
		{"done", "✻ Crunched for 0s · done\n" + rule + "❯ \n" + rule, "", true},
		{
			"dialog", rule + " ☐ Deploy\n\n❯ 1. Canary\n" + rule + "  2. Chat about this\n", "",
			false,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kit.Equalf(t, inputText(tt.screen), tt.boxed, "in the prompt")
			kit.Equalf(t, isIdle(tt.screen), tt.idle, "idle")
		})
	}
}
