package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/e2e/underlock"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// TestMain removes the program that the tests built.
func TestMain(m *testing.M) {
	code := underlock.Run(m)
	if dir, err := builtProgram(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// changeToRoot goes to the folder with main.go for the rest of a test.
func changeToRoot(t *testing.T) {
	t.Helper()
	t.Chdir("..")
}

// TestCommands runs what a person types, as processes: each script in testdata is a small
// story. Those that send have a space, and see what arrives in it.
func TestCommands(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			dir, err := builtProgram()
			if err != nil {
				return err
			}
			bin := filepath.Join(e.WorkDir, ".bin")
			if err := errors.Join(os.Mkdir(bin, 0o700), os.Link(filepath.Join(dir, "gchat-hooks"), filepath.Join(bin, "gchat-hooks"))); err != nil {
				return err
			}
			for _, name := range []string{"gchat-send", "gchat-response-poller", "gchat-wait"} {
				if err := os.Symlink("gchat-hooks", filepath.Join(bin, name)); err != nil {
					return err
				}
			}
			e.Setenv("PATH", bin+string(filepath.ListSeparator)+e.Getenv("PATH"))
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("XDG_STATE_HOME", e.WorkDir+"/state")
			e.Setenv("TZ", "UTC")
			if slices.Contains([]string{"send", "send-trouble", "poller", "deny", "wait", "live", "answer", "status", "doctor", "setup", "names", "permission"}, strings.TrimPrefix(filepath.Base(e.WorkDir), "script-")) {
				s, err := space.Open(space.Options{})
				if err != nil {
					return err
				}
				server := httptest.NewServer(strict.CheckRequests(t, s.Handler(), strict.Embedded))
				e.Defer(func() { server.Close(); s.Close() })
				e.Setenv("GOOGLE_CHAT_WEBHOOK_URL", s.WebhookURL(server.URL))
				e.Setenv("ELSEWHERE", s.WebhookURL(strings.Replace(server.URL, "127.0.0.1", "localhost", 1)))
				e.Setenv("SERVER", server.URL)
				e.Setenv("ENDPOINT", s.APIEndpoint(server.URL))
				e.Setenv("GCHAT_ALLOWED_USERS", space.PersonName)
				e.Values[spaceKey{}] = s
			}
			if filepath.Base(e.WorkDir) == "script-space" {
				other := httptest.NewServer(http.NotFoundHandler())
				e.Defer(other.Close)
				free := httptest.NewUnstartedServer(nil)
				e.Setenv("FREE", free.Listener.Addr().String())
				free.Close()
				e.Setenv("ADDRESS", other.Listener.Addr().String())
			}
			e.Defer(func() { endPollersIn(e.WorkDir) })
			return os.Mkdir(e.WorkDir+"/home", 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"arrived": checkArrived, "exits": checkExit, "bytes": writeBytes, "says": replyInThread, "asked-now": setAskedAt, "until": awaitMatch},
	})
}

// endPollersIn ends the pollers that commands started with a state somewhere in a folder,
// and waits until they have: also those that hold their lock and have written no
// heartbeat yet, and what one starts in its place as it ends.
func endPollersIn(dir string) {
	quiet := 0
	bound.WaitFor(bound.Patience, func() bool {
		lives := false
		_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
			if filepath.Base(filepath.Dir(path)) == "pollers" && filepath.Ext(path) == ".lock" && state.IsLocked(path) {
				lives = true
			}
			if filepath.Base(path) != "pollers" {
				return nil
			}
			for _, p := range state.ReadHeartbeats(getenvOf([]string{"XDG_STATE_HOME=" + filepath.Dir(filepath.Dir(path))})) {
				if p.IsAlive && p.PIDScope == state.PIDScope() {
					lives = true
					_ = syscall.Kill(p.PID, syscall.SIGKILL)
				}
			}
			return nil
		})
		if quiet++; lives {
			quiet = 0
		}
		return quiet == 2
	})
}

type spaceKey struct{}

// checkArrived N [REGEXP]: the space holds N messages, of which the last one matches. A
// "[Kept] Claude reads your reply" does not count: it comes only where the poller reads a
// reply before the command that waits for it does.
func checkArrived(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: arrived N [REGEXP]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	ms := slices.DeleteFunc(ts.Value(spaceKey{}).(*space.Space).Messages(), func(m *chat.Message) bool {
		return strings.HasPrefix(m.Text, "[Kept] Claude reads your reply")
	})
	listing := ""
	for _, m := range ms {
		listing += fmt.Sprintf("%s: %q\n", m.Thread.Name, m.Text)
	}
	if len(ms) != want {
		ts.Fatalf("%d messages arrived, want %d:\n%s", len(ms), want, listing)
	}
	if len(args) > 1 && !regexp.MustCompile("(?s)"+args[1]).MatchString(ms[len(ms)-1].Text) {
		ts.Fatalf("the last message does not match %s:\n%s", args[1], listing)
	}
}

// replyInThread TEXT: a person replies in the thread of the last message.
func replyInThread(ts *testscript.TestScript, neg bool, args []string) {
	s := ts.Value(spaceKey{}).(*space.Space)
	ms := s.Messages()
	if neg || len(args) != 1 || len(ms) == 0 {
		ts.Fatalf("usage: says TEXT, with a message in the space")
	}
	_, err := s.PostAs(&chat.User{Name: space.PersonName, Type: "HUMAN"}, ms[len(ms)-1].Thread.Name, args[0])
	ts.Check(err)
}

// asked-now FILE [AGE]: the question in the file was asked that long ago.
func setAskedAt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: asked-now FILE [AGE]")
	}
	askedAt := time.Now().UTC()
	if len(args) > 1 {
		age, err := time.ParseDuration(args[1])
		ts.Check(err)
		askedAt = askedAt.Add(-age)
	}
	text := strings.ReplaceAll(ts.ReadFile(args[0]), "@NOW@", askedAt.Format("2006-01-02T15:04:05.000000+00:00"))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// awaitMatch FILES REGEXP: one of the files, which are a pattern, comes to match.
func awaitMatch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: until FILES REGEXP")
	}
	want := regexp.MustCompile(args[1])
	var last []byte
	matches := func(file string) bool {
		last, _ = os.ReadFile(file)
		return want.Match(last)
	}
	found := bound.WaitFor(bound.Patience, func() bool {
		files, _ := filepath.Glob(ts.MkAbs(args[0]))
		return slices.ContainsFunc(files, matches)
	})
	if !found {
		ts.Fatalf("%s does not match %s:\n%s", args[0], args[1], last)
	}
}

// checkExit CODE PROGRAM ARGS…: the program ends with that code.
func checkExit(ts *testscript.TestScript, neg bool, args []string) {
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
