package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/state"
)

// spaceHome is a home with the embedded space in it.
type spaceHome struct {
	*testing.T
	home, program, address string
}

// newSpaceHome is a project whose setup is done, with a space on this machine that does
// not run yet.
func newSpaceHome(t *testing.T) *spaceHome {
	t.Helper()
	dir, err := builtProgram()
	kit.NoError(t, err)
	p := &spaceHome{t, t.TempDir(), filepath.Join(dir, "gchat-hooks"), freeAddress(t)}
	t.Cleanup(func() { endPollersIn(p.home); endSpace(getenvOf(p.env())) })
	kit.NoError(t, os.Mkdir(filepath.Join(p.home, "project"), 0o700))
	if out, code := p.run("setup", "--space", "--address", p.address); code != 0 {
		t.Fatalf("setup: %s", out)
	}
	endSpace(getenvOf(p.env()))
	return p
}

func (p *spaceHome) env() []string {
	return []string{"HOME=" + p.home, "XDG_STATE_HOME=" + p.home + "/state", "PATH=/usr/bin:/bin", "CLAUDE_PROJECT_DIR=" + p.home + "/project"}
}

func (p *spaceHome) run(args ...string) (output string, code int) {
	p.Helper()
	cmd := bound.Command(p, p.program, args...)
	cmd.Env = p.env()
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		p.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// runSpace runs the space, and returns its first page and how to end it.
func (p *spaceHome) runSpace(flags ...string) (page string, end func()) {
	p.Helper()
	out := filepath.Join(p.home, "out")
	file, err := os.Create(out)
	kit.NoError(p, err)
	cmd := exec.CommandContext(p.Context(), p.program, append([]string{"space", "--listen", p.address}, flags...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env(), file, file
	kit.NoError(p, cmd.Start())
	output := p.awaitText("the space runs", func() string {
		b, _ := os.ReadFile(out)
		if !regexp.MustCompile(`page: +\S+\n`).Match(b) {
			return ""
		}
		return string(b)
	})
	_, port, _ := net.SplitHostPort(p.address)
	portNumber, _ := strconv.Atoi(port)
	socket, err := state.ReadSpaceSocket(getenvOf(p.env()), portNumber)
	kit.NoError(p, err)
	endChecks := strict.CheckSocket(p, socket)
	return regexp.MustCompile(`page: +(\S+)`).FindStringSubmatch(output)[1], func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = bound.Wait(p, cmd)
		endChecks()
	}
}

// awaitText waits for what f finds.
func (p *spaceHome) awaitText(what string, f func() string) (found string) {
	p.Helper()
	bound.Until(p, what, func() bool {
		found = f()
		return found != ""
	})
	return found
}

// preToolUse has a session ask, and returns the thread of its question and the hook that
// waits for the answer.
func (p *spaceHome) ask(session string) (thread string, answer func() string) {
	p.Helper()
	event := func(name string) *exec.Cmd {
		cmd := exec.CommandContext(p.Context(), p.program, "hook", "gchat-ask-user-forward")
		cmd.Env = p.env()
		cmd.Stdin = strings.NewReader(p.hookEvent(session, name))
		return cmd
	}
	preToolUse := event("PreToolUse")
	kit.NoError(p, preToolUse.Start())
	kit.NoError(p, bound.Wait(p, preToolUse))
	var stdout bytes.Buffer
	permissionRequest := event("PermissionRequest")
	permissionRequest.Stdout = &stdout
	kit.NoError(p, permissionRequest.Start())
	return p.awaitThread(session), func() string { _ = bound.Wait(p, permissionRequest); return stdout.String() }
}

// hookEvent is what Claude Code tells a hook of a question.
func (p *spaceHome) hookEvent(session, name string) string {
	input := `{"questions":[{"question":"Which DB in ` + session + `?","header":"DB","multiSelect":false,"options":[{"label":"SQLite"},{"label":"Postgres"}]}]}`
	return fmt.Sprintf(`{"session_id":%q,"cwd":%q,"permission_mode":"default","hook_event_name":%q,`+
		`"tool_name":"AskUserQuestion","tool_use_id":%q,"tool_input":%s}`, session, p.home+"/project", name, session, input)
}

// awaitThread waits for a session's question in the space.
func (p *spaceHome) awaitThread(session string) string {
	p.Helper()
	return p.awaitText("the question is in the space", func() string {
		b, _ := os.ReadFile(filepath.Join(p.home, "state/gchat-hooks/space/messages.jsonl"))
		for _, line := range strings.Split(string(b), "\n") {
			if strings.Contains(line, "Which DB in "+session+"?") {
				return regexp.MustCompile(`spaces/local/threads/[\w-]+`).FindString(line)
			}
		}
		return ""
	})
}

// reply is a person at the page.
func (p *spaceHome) reply(page, thread, text string) {
	p.Helper()
	p.postToPage(page, map[string]string{"thread": thread, "text": text, "clientId": "c" + filepath.Base(thread) + text})
}

// tap taps a button of a message's card on the page.
func (p *spaceHome) tap(page, message, choice string) {
	p.Helper()
	p.postToPage(page, map[string]string{"message": message, "choice": choice, "clientId": "tap" + choice})
}

func (p *spaceHome) postToPage(page string, fields map[string]string) {
	p.Helper()
	baseURL, key, found := strings.Cut(page, "#key=")
	if !found {
		p.Fatalf("the page's link is %s", page)
	}
	browser := &http.Client{Timeout: 20 * time.Second}
	body, _ := json.Marshal(fields)
	post, err := http.NewRequest("POST", baseURL+"page/messages", bytes.NewReader(body))
	kit.NoError(p, err)
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Gchat-Page-Key", key)
	resp, err := browser.Do(post)
	if err != nil || resp.StatusCode != http.StatusOK {
		p.Fatalf("reply: %v, %v", resp, err)
	}
	resp.Body.Close()
}

// From loopback to a phone and back nothing changes for the hooks: a question that was
// asked before is answered after. An older configuration, without the token, is told what
// to run.
func TestQuestionSurvivesTheWayToThePhoneAndBack(t *testing.T) {
	t.Parallel()
	elsewhere := ""
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && elsewhere == "" {
			elsewhere = n.IP.String()
		}
	}
	if elsewhere == "" {
		t.Skip("this machine has no address but loopback")
	}
	p := newSpaceHome(t)
	config := filepath.Join(p.home, ".config/gchat-hooks/config.json")
	local, _ := os.ReadFile(config)
	out, code := p.run("setup", "--space", "--phone", "--address", p.address)
	for _, want := range []string{"http://" + elsewhere + ":", "/#key=", "█ ▄▄▄▄▄ █", "ok    reading"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("setup --phone ends with %d and does not say %q:\n%s", code, want, out)
		}
	}
	if phone, _ := os.ReadFile(config); string(phone) != string(local) || !strings.Contains(string(phone), "/t/") {
		t.Errorf("the configuration changes on the way to the phone:\n%s\n%s", local, phone)
	}

	_, end := p.runSpace()
	thread, answer := p.ask("one")
	end()
	page, end := p.runSpace("--phone")
	if !strings.HasPrefix(page, "http://"+elsewhere+":") {
		t.Errorf("the first page is %s", page)
	}
	p.reply(page, thread, "2")
	kit.Containsf(t, answer(), `"Which DB in one?":"Postgres"`, "asked on loopback, answered on the phone")
	thread, answer = p.ask("two")

	// The same port once more: the space runs, or it does in the other mode.
	if out, code := p.run("space", "--phone", "--listen", p.address); code != 0 || !strings.Contains(out, "is already running") || !strings.Contains(out, page) {
		t.Errorf("a second space: %d\n%s", code, out)
	}
	if out, code := p.run("space"); code != 0 || !strings.Contains(out, "is already running") || !strings.Contains(out, page) {
		t.Errorf("the link again: %d\n%s", code, out)
	}
	if out, code := p.run("space", "--listen", p.address); code != 1 || !strings.Contains(out, "hint: end it where it runs (Ctrl-C") {
		t.Errorf("a second space, without --phone: %d\n%s", code, out)
	}
	// Without the token, as an earlier setup wrote it.
	older := []byte(`{"webhook_url": "http://` + p.address + `/v1/spaces/local/messages?key=k&token=t", "allowed_users": ["users/local-human"]}`)
	kit.NoError(t, os.WriteFile(config, older, 0o600))
	hint := "gchat-hooks setup --space --listen " + p.address + " (for a phone, with --phone) writes down the token"
	if out, _ := p.run("doctor"); !strings.Contains(out, hint) || regexp.MustCompile(`Google|OAuth|log in|login|Apps`).MatchString(out) {
		t.Errorf("doctor on a phone's space without a token:\n%s", out)
	}
	kit.NoError(t, os.WriteFile(config, local, 0o600))
	end()
	page, end = p.runSpace()
	defer end()
	p.reply(page, thread, "1")
	kit.Containsf(t, answer(), `"Which DB in two?":"SQLite"`, "asked with the phone, answered on loopback")
}

// Who tells Claude is said as it was before the hook had the answer, and ended.
func TestAnswerSaysWhoWaited(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	_, end := p.runSpace()
	defer end()
	for i := range 12 {
		_, told := p.ask(fmt.Sprintf("session-%d", i))
		open, _ := p.run("answer")
		key, _, _ := strings.Cut(open, ",")
		if said, code := p.run("answer", key, "2"); code != 0 || !strings.Contains(said, "on its way to Claude: a waiting process delivers it\n") {
			t.Errorf("%d: %s", code, said)
		}
		told()
	}
}

// What setup prints last is what the person opens: with --phone the address that a phone
// reaches.
func TestSetupEndsWithTheAddressOfThePhone(t *testing.T) {
	p := newSpaceHome(t)
	out, code := p.run("setup", "--space", "--phone", "--address", p.address)
	if code != 0 || strings.Contains(out, "No phone can reach this machine") {
		t.Skipf("no address but this machine's own: %d, %s", code, out)
	}
	_, port, _ := strings.Cut(p.address, ":")
	if !regexp.MustCompile(`Answer on the page, http://\S+:`+port+`/#key=`).MatchString(out) || strings.Contains(out, "http://127.0.0.1") {
		t.Errorf("setup ends with\n%s", out)
	}
}
