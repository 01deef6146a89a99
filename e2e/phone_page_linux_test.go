package e2e

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"golang.org/x/sys/unix"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/state"
)

// elsewhere is an address of this machine that is not loopback's, as a phone knows it:
// the namespace's own.
const elsewhere = "10.77.0.1"

// A new user without Google: install, setup, and the page whose link `gchat-hooks space`
// prints. The question is answered with a tap on the page, on this machine and at the
// address that a phone would open.
func TestPage_NewUserAnswers(t *testing.T) {
	eachCase(t, testedVersions, map[string]bool{
		"here": false, "phone": true,
	}, func(t *testing.T, c claude, phone bool) {
		program, installer := builtProgram(t), absPath(t, "../install.sh")
		args, address := []string(nil), "127.0.0.1:"+kit.FreePort(t)
		if phone {
			addAddress(t)
			args, address = []string{"--phone"}, "0.0.0.0:"+kit.FreePort(t)
		}
		var page string
		s := startSession(t, c, config{
			Script: deployScript,
			Prepare: func(t *testing.T, home, project string) {
				env := personEnv(c, home)
				runIn(t, project, env, "sh", installer, "--binary", program)
				runIn(t, project, env, filepath.Join(home, "bin", "gchat-hooks"),
					slices.Concat([]string{"setup", "--space"}, args,
						[]string{"--address", address})...)
				page = serveSpace(t, env, filepath.Join(home, "bin", "gchat-hooks"),
					slices.Concat([]string{"space"}, args, []string{"--listen", address}))
			},
		})
		if phone != strings.Contains(page, elsewhere) {
			t.Fatalf("the page is at %s", page)
		}
		tap := newBrowser(t).do
		tap(chromedp.Navigate(page))
		s.Prompt("go ahead")
		s.WaitScreen(firstOption)
		tap(chromedp.Click(chromedp.CSS(`[data-thread][data-state="open"]`), chromedp.NodeVisible))
		tap(chromedp.Click(chromedp.CSS(`[data-option="3"]`), chromedp.NodeVisible))
		s.awaitResult(1, "Canary")
		tap(chromedp.WaitVisible(chromedp.CSS(`#thread-state[data-state="answered"]`)))
		tap(chromedp.Evaluate[chromedp.Void](`(async () => {
			const { request } = await import('/page/key.js');
			const week = await (await request('/page/week')).json();
			const count = (what) => week.totals.find((total) => total.what === what)?.count ?? 0;
			if (count('questions') !== 1 || count('answered in chat') !== 1 || count('lost') !== 0) {
				throw new Error(JSON.stringify(week));
			}
		})()`, chromedp.EvalAwaitPromise))
	})
}

// serveSpace runs the space until the test ends, and returns its page's address.
func serveSpace(t *testing.T, env []string, program string, args []string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stderr = env, os.Stderr
	out, err := cmd.StdoutPipe()
	kit.NoError(t, err)
	kit.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		bound.Wait(t, cmd)
	})
	page := regexp.MustCompile(`http://\S+`)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if found := page.FindString(lines.Text()); found != "" {
			t.Cleanup(strict.CheckSocket(t, spaceSocket(t, env, args[len(args)-1])))
			go func() {
				for lines.Scan() {
				}
			}()
			return found
		}
	}
	t.Fatal("the space printed no address")
	return ""
}

// spaceSocket is the unix socket of the space that listens at an address.
func spaceSocket(t *testing.T, env []string, address string) string {
	t.Helper()
	_, port, _ := net.SplitHostPort(address)
	at, _ := strconv.Atoi(port)
	socket, err := state.ReadSpaceSocket(lookupIn(env[:1]), at)
	if err != nil || socket == "" {
		t.Fatalf("the space's socket is %q: %v", socket, err)
	}
	return socket
}

// addAddress gives the namespace's loopback interface a second address.
func addAddress(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	kit.NoError(t, err)
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo:1")
	kit.NoError(t, err)
	kit.NoError(t, req.SetInet4Addr(net.ParseIP(elsewhere).To4()))
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, req); err != nil {
		t.Fatalf("add %s: %v", elsewhere, err)
	}
}

// setUpSpace connects a machine to an embedded space of its own, as a person does, and
// runs it. It gives the page's address.
func setUpSpace(t *testing.T, c claude, home, project string, flags ...string) (page string) {
	t.Helper()
	program, address := builtProgram(t), "127.0.0.1:"+kit.FreePort(t)
	env := personEnv(c, home)
	runIn(t, project, env, program, append([]string{
		"setup", "--space", "--address", address, "--preset", "approve",
	}, flags...)...)
	return serveSpace(t, env, program, []string{"space", "--listen", address})
}

// A person begins a session on the page, by its form. The words go in as they are.
func TestPage_StartsSession(t *testing.T) {
	const words = `model is "what" I ask about; $(touch owned)`
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		var page string
		s := startSession(t, c, config{
			Script: []turn{
				{questionCall(deployQuestion)}, thanksTurn, {textBlock("The new one is at work.")},
			},
			Prepare: func(t *testing.T, home, project string) {
				page = setUpSpace(t, c, home,
					project, "--start-sessions")
			},
		})
		defer (&hookedSession{session: s}).runOwnTmux("kill-server")
		s.Prompt("go ahead")
		s.Choose(firstOption, "2") // by which the project is known
		s.WaitScreen("Thanks, understood.")
		tap := newBrowser(t).do
		tap(chromedp.Navigate(page), chromedp.Click(chromedp.CSS(`#begin`), chromedp.NodeVisible))
		tap(chromedp.SendKeys(chromedp.CSS(`#new-project`), "project"),
			chromedp.SendKeys(chromedp.CSS(`#new-words`), words))
		tap(chromedp.Click(chromedp.CSS(`#new-start`)))
		s.API.WaitText(t, words)
	})
}

// A person looks at a session on the page of the embedded space, and stops it there. Its
// project's name is hostile.
func TestPage_StopsSession(t *testing.T) {
	const forever = "./forever.sh"
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		var page string
		s := startSession(t, c, config{
			Folder: `<script>document.title='owned'` + "\u202e" + strings.Repeat("x", 100),
			Args:   []string{"--allowedTools", "Bash(" + forever + ")"},
			Script: []turn{
				{textBlock("What shall I do?")},
				{toolCall("Bash", map[string]any{"command": forever})},
				{questionCall(deployQuestion)}, thanksTurn,
			},
			Files: map[string]string{forever: "#!/bin/sh\nexec sleep 1000\n"},
			Prepare: func(t *testing.T, home, project string) {
				page = setUpSpace(t, c, home, project)
			},
		})
		tap := newBrowser(t).do
		does := func(want string) {
			t.Helper()
			tap(chromedp.WaitVisible(chromedp.CSS(`#does[data-does="` + want + `"]`)))
		}
		tap(chromedp.Navigate(page))
		s.Prompt("hello")
		tap(chromedp.Click(chromedp.CSS(`[data-thread]:has(.session)`), chromedp.NodeVisible))
		does("waits for you")
		s.Prompt("go ahead")
		does("works")
		// The list says the same, and in Claude's or the person's last words what was said.
		tap(chromedp.Poll[chromedp.Void](`document.querySelector('[data-session] [data-does="works"]') &&
			document.querySelector('[data-session] p').textContent === 'You: go ahead'`))
		tap(chromedp.Click(chromedp.CSS(`#stop:not(:disabled)`), chromedp.NodeVisible))
		s.WaitScreen("Interrupted")
		does("idle")
		tap(chromedp.WaitVisible(chromedp.CSS(`#reply`)))
		s.Prompt("once more")
		does("waits for you") // a question, in a thread of its own
		s.Choose(firstOption, "2")
		s.WaitScreen("Thanks, understood.")
		does("idle")
		tap(chromedp.Evaluate[chromedp.Void](`if (document.title.includes('owned') || document.querySelector('main script')) throw new Error('owned')`))
		s.Kill(syscall.SIGKILL)
		does("ended")
		tap(chromedp.WaitVisible(chromedp.CSS(`#reply`)),
			chromedp.WaitNotVisible(chromedp.CSS(`#steer`)))
		// Who writes to it then is told what to type.
		tap(chromedp.SendKeys(chromedp.CSS(`#reply`), "go on\n"))
		tap(chromedp.Poll[chromedp.Void](`document.querySelector('#messages').textContent.includes('claude --resume')`))
	})
}
