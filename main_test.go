package main

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gchat-hooks/gchat/space"
)

func TestMain(m *testing.M) {
	testscript.Main(cleaned{m}, map[string]func(){"gchat-hooks": main, "gchat-send": main})
}

// cleaned runs the tests and removes the program that they built.
type cleaned struct{ *testing.M }

func (c cleaned) Run() int {
	code := c.M.Run()
	if dir, err := builtProgram(); err == nil {
		os.RemoveAll(dir)
	}
	return code
}

// TestCommands runs what a person types, as processes: each script in testdata is a small story. Those that send have a
// space, and see what arrives in it.
func TestCommands(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("XDG_STATE_HOME", e.WorkDir+"/state")
			e.Setenv("TZ", "UTC")
			if strings.HasPrefix(filepath.Base(e.WorkDir), "script-send") {
				s, err := space.Open(space.Options{})
				if err != nil {
					return err
				}
				server := httptest.NewServer(s.Handler())
				e.Defer(func() { server.Close(); s.Close() })
				e.Setenv("GOOGLE_CHAT_WEBHOOK_URL", s.WebhookURL(server.URL))
				e.Setenv("SERVER", server.URL)
				e.Values[spaceKey{}] = s
			}
			return os.Mkdir(e.WorkDir+"/home", 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"arrived": arrived, "exits": exits, "bytes": writeBytes},
	})
}

type spaceKey struct{}

// arrived N [REGEXP]: the space holds N messages, of which the last one matches.
func arrived(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: arrived N [REGEXP]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	ms := ts.Value(spaceKey{}).(*space.Space).Messages()
	said := ""
	for _, m := range ms {
		said += fmt.Sprintf("%s: %q\n", m.Thread.Name, m.Text)
	}
	if len(ms) != want {
		ts.Fatalf("%d messages arrived, want %d:\n%s", len(ms), want, said)
	}
	if len(args) > 1 && !regexp.MustCompile("(?s)"+args[1]).MatchString(ms[len(ms)-1].Text) {
		ts.Fatalf("the last message does not match %s:\n%s", args[1], said)
	}
}

// exits CODE PROGRAM ARGS…: the program ends with that code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s; stderr: %s", code, args[0], ts.ReadFile("stderr"))
	}
}

// bytes FILE QUOTED [TIMES]: writes a file of bytes that a script cannot hold.
func writeBytes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: bytes FILE QUOTED [TIMES]")
	}
	text, err := strconv.Unquote(`"` + args[1] + `"`)
	ts.Check(err)
	times := 1
	if len(args) > 2 {
		times, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Repeat(text, times)), 0o600))
}
