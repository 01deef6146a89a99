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
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
)

var scriptsWithASpace = []string{
	"send", "send-trouble", "poller", "deny", "wait", "live", "answer", "status", "doctor", "setup",
	"names",
	"permission",
}

// TestCLI_Scripts runs what a person types, as processes: each script in testdata is a
// course of commands. Those that send have a space, and see what arrives in it.
func TestCLI_Scripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			bin := filepath.Join(e.WorkDir, ".bin")
			kit.NoError(t, os.Mkdir(bin, 0o700))
			kit.NoError(t, os.Link(programPath(t), filepath.Join(bin, "gchat-hooks")))
			for _, name := range []string{"gchat-send", "gchat-response-poller", "gchat-wait"} {
				kit.NoError(t, os.Symlink("gchat-hooks", filepath.Join(bin, name)))
			}
			e.Setenv("PATH", bin+string(filepath.ListSeparator)+e.Getenv("PATH"))
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("XDG_STATE_HOME", e.WorkDir+"/state")
			e.Setenv("TZ", "UTC")
			script := strings.TrimPrefix(filepath.Base(e.WorkDir), "script-")
			if slices.Contains(scriptsWithASpace, script) {
				s, server := serveSpace(t, space.Options{}, nil)
				e.Setenv("GOOGLE_CHAT_WEBHOOK_URL", s.WebhookURL(server.URL))
				e.Setenv("ELSEWHERE",
					s.WebhookURL(strings.Replace(server.URL, "127.0.0.1", "localhost", 1)))
				e.Setenv("SERVER", server.URL)
				e.Setenv("ENDPOINT", s.APIEndpoint(server.URL))
				e.Setenv("GCHAT_ALLOWED_USERS", space.PersonName)
				e.Values[spaceKey{}] = s
			}
			if script == "space" {
				other := httptest.NewServer(http.NotFoundHandler())
				e.Defer(other.Close)
				e.Setenv("FREE", freeAddress(t))
				e.Setenv("ADDRESS", other.Listener.Addr().String())
			}
			e.Defer(func() { endPollersIn(e.WorkDir) })
			return os.Mkdir(e.WorkDir+"/home", 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"arrived": checkArrived, "exits": checkExit, "bytes": writeBytes, "says": replyInThread,
			"asked-now": setAskedAt, "until": awaitMatch,
		},
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
	ms := slices.DeleteFunc(ts.Value(spaceKey{}).(*space.Space).Messages(),
		func(m *chat.Message) bool {
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
	_, err := s.PostAs(&chat.User{Name: space.PersonName, Type: "HUMAN"}, ms[len(ms)-1].Thread.Name,
		args[0])
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
	text := strings.ReplaceAll(ts.ReadFile(args[0]), "@NOW@",
		askedAt.Format("2006-01-02T15:04:05.000000+00:00"))
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

// Text from Chat or from a file reaches the terminal as plain text: no control character
// is obeyed, and no secret is shown.
func TestCLI_ErrorsAreInert(t *testing.T) {
	const hostile = `\u001b]52;c;cHduZWQ=\u0007\u009b31m\u202etxt`
	server := kit.NewServer(t, strict.CheckRequests(t,
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w,
				`{"error":{"code":403,"status":"PERMISSION_DENIED","message":"%s: wrong `+
					`TOKENTOKEN1299 in %s"}}`,
				hostile, r.URL.RequestURI())
		})))
	h := newHome(t)
	h.env = append(h.env, "GCHAT_STATE_DIR="+h.path("state"))
	for i := range 2 {
		h.writeFile(fmt.Sprintf("state/pending-questions/evil-%d.json", i), fmt.Sprintf(
			`{"question_id":"evil%d","session_id":"evil","gchat_thread_key":"ask-%s%[1]d",`+
				`"status":"pending",`+
				`"asked_at":"2026-01-01T00:00:00Z","questions":[{"question":"?",`+
				`"options":[]}]}`, i, hostile))
	}
	webhook := "GOOGLE_CHAT_WEBHOOK_URL=" + server.URL +
		"/v1/spaces/AAAA/messages?key=KEYKEY1234&token=TOKENTOKEN1299"
	for _, args := range [][]string{
		{"answer", "evil", "1"}, {"setup"}, {"send", "--no-queue", "hello"},
	} {
		cmd := h.command(h.program, args...)
		if args[0] != "answer" {
			cmd.Env = append(cmd.Env, webhook)
		}
		var out strings.Builder
		cmd.Stderr = &out
		if cmd.Run() == nil || out.Len() == 0 {
			t.Errorf("%v: no error: %s", args, out.String())
		}
		for _, bad := range []string{
			"\x1b", "\x07", "\u009b", "\u202e", "KEYKEY1234", "TOKENTOKEN1299",
		} {
			if strings.Contains(out.String(), bad) {
				t.Errorf("%v prints %q: %q", args, bad, out.String())
			}
		}
		t.Logf("%v: %s", args, out.String())
	}
}

// The same mistake ends every command with the same exit code, so a script can check for
// one code.
func TestCLI_ExitCodes(t *testing.T) {
	const aHub = "hub --topic projects/p/topics/t --subscription projects/p/subscriptions/s " +
		"--domain example.com --key-file k "
	for _, tt := range []struct {
		mistake  string
		code     int
		commands []string
	}{
		{"a command, subcommand or action that there is not", 4, []string{
			"nonsense", "poller instal", "migrate nonsense", "menu a-session dance",
		}},
		{"a flag that there is not", 4, []string{
			"--bogus", "setup --bogus", "install --bogus", "uninstall --bogus", "login --bogus",
			"logout --bogus", "demo --bogus",
			"space --bogus", "hub --bogus", "hub revoke --bogus", "status --bogus",
			"answer --bogus 2", "send --bogus hi", "gchat-send --bogus hi", "logs --bogus",
			"doctor --bogus", "flush --bogus", "poller --bogus", "poller install --bogus",
			"menu --bogus",
			"health --bogus", "wake --bogus", "migrate s3-communicator --bogus",
		}},
		{"a word too many", 4, []string{
			"setup x", "install x", "uninstall x", "login x", "logout x", "demo x", "space x",
			"hub x", "status x", "logs x", "doctor x",
			"flush x", "poller install x", "health x", "wake x", "migrate s3-communicator x",
		}},
		{"a word too few", 4, []string{
			"answer ask-1", "send", "menu", "menu a-session", "hook", "migrate", "login",
		}},
		{"a value that a flag does not take", 4, []string{
			"poller --poll-interval x", "install --preset nope", "install --claude-version x",
			"setup --wait x", "setup --space --address nope", "login --wait x",
			"space --listen nope", "hub --listen nope", "hub revoke --topic nope", "logs --level x",
			"logs --lines x", "doctor --live --wait x",
			"flush --timeout x", "send --type x hi",
			"send --thread-name x hi",
		}},
		{"flags that do not go with each other", 4, []string{
			"hub", "hub --tls-cert x",
			"hub --listen 0.0.0.0:0 --topic projects/p/topics/t --subscription s --domain d " +
				"--key-file k",
			aHub + "--behind-proxy", aHub + "--url http://hub.example.com",
			aHub + "--subscription x", aHub + "--domain *", aHub + "--domain @example.com",
			"install --user --local", "uninstall --purge --local", "send --queue --no-queue hi",
			"doctor --wait 1m", "send --thread-key x --thread-name spaces/S/threads/T hi",
		}},
		{"a mistake of gchat-wait's callers, who know three codes", 2, []string{
			"wait", "gchat-wait", "wait --bogus", "wait x", "wait --thread-key x --timeout x",
			"wait --thread-key x --interval x",
			"wait --thread-key x --marker y",
		}},
		{"no webhook", 1, []string{
			"setup", "send hi", "send --queue hi", "send --no-queue hi", "send --webhook x hi",
		}},
	} {
		t.Run(tt.mistake, func(t *testing.T) {
			h := newHome(t)
			for _, command := range tt.commands {
				cmd := h.command(h.program, strings.Fields(command)...)
				var out, errOut strings.Builder
				cmd.Stdout, cmd.Stderr = &out, &errOut
				_ = cmd.Run()
				kit.Equalf(t, cmd.ProcessState.ExitCode(), tt.code, "%s: exit code", command)
				kit.Equalf(t, out.String(), "", "%s: stdout", command)
				kit.Containsf(t, errOut.String(), ": error: ", "%s", command)
			}
		})
	}
}
