package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"gchat-hooks/e2e/kit"
)

// setUpSpace connects a machine to an embedded space of its own, as a person does, and
// runs it. It gives the page's address.
func setUpSpace(t *testing.T, c claude, home, project string, flags ...string) (page string) {
	t.Helper()
	program, address := builtProgram(t), "127.0.0.1:"+freePort(t)
	env := []string{"HOME=" + home, "PATH=" + filepath.Dir(c.Argv[len(c.Argv)-1]) + ":" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	cmd := exec.Command(program, append([]string{"setup", "--space", "--address", address, "--preset", "approve"}, flags...)...)
	cmd.Dir, cmd.Env = project, env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("setup: %v\n%s", err, out)
	}
	return serveSpace(t, env, program, []string{"space", "--listen", address})
}

// A person begins a session on the page, by its form. The words go in as they are.
func TestASessionIsBegunFromThePage(t *testing.T) {
	const words = `model is "what" I ask about; $(touch owned)`
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		requireIsolation(t)
		var page string
		s := startSession(t, c, config{
			Script:  []turn{{questionCall(deployQuestion)}, thanksTurn, {textBlock("The new one is at work.")}},
			Prepare: func(home, project string) { page = setUpSpace(t, c, home, project, "--start-sessions") },
		})
		defer (&hookedSession{session: s}).runOwnTmux("kill-server")
		s.Prompt("go ahead")
		s.Choose(firstOption, "2") // by which the project is known
		s.WaitScreen("Thanks, understood.")
		tap := phoneBrowser(t)
		tap(chromedp.Navigate(page), chromedp.Click(chromedp.CSS(`#begin`), chromedp.NodeVisible))
		tap(chromedp.SendKeys(chromedp.CSS(`#new-project`), "project"), chromedp.SendKeys(chromedp.CSS(`#new-words`), words))
		tap(chromedp.Click(chromedp.CSS(`#new-start`)))
		s.API.WaitText(t, words)
	})
}

// A person looks at a session on the page of the embedded space, and stops it there. Its
// project's name is hostile.
func TestASessionIsSteeredFromThePage(t *testing.T) {
	const forever = "./forever.sh"
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		requireIsolation(t)
		var page string
		s := startSession(t, c, config{
			Folder: `<script>document.title='owned'` + "\u202e" + strings.Repeat("x", 100),
			Args:   []string{"--allowedTools", "Bash(" + forever + ")"},
			Script: []turn{{textBlock("What shall I do?")}, {toolCall("Bash", map[string]any{"command": forever})}, {questionCall(deployQuestion)}, thanksTurn},
			Prepare: func(home, project string) {
				kit.NoError(t, os.WriteFile(filepath.Join(project, "forever.sh"), []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700))
				page = setUpSpace(t, c, home, project)
			},
		})
		tap := phoneBrowser(t)
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
		tap(chromedp.WaitVisible(chromedp.CSS(`#reply`)), chromedp.WaitNotVisible(chromedp.CSS(`#steer`)))
		// Who writes to it then is told what to type.
		tap(chromedp.SendKeys(chromedp.CSS(`#reply`), "go on\n"))
		tap(chromedp.Poll[chromedp.Void](`document.querySelector('#messages').textContent.includes('claude --resume')`))
	})
}
