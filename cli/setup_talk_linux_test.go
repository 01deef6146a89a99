package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// setupHome is a person who has nothing yet but a space.
type setupHome struct {
	t          *testing.T
	home       string
	program    string
	space      *space.Space
	webhookURL string // the webhook's
	serverURL  string
}

func newSetupHome(t *testing.T) *setupHome {
	dir, err := builtProgram()
	kit.NoError(t, err)
	sp, err := space.Open(space.Options{})
	kit.NoError(t, err)
	server := httptest.NewServer(strict.CheckRequests(t, sp.Handler(), strict.Embedded))
	t.Cleanup(func() { server.Close(); sp.Close() })
	home := t.TempDir()
	t.Cleanup(func() {
		// before the folder goes: a space that setup started lives on, and starts pollers
		endSpace(getenvOf([]string{"HOME=" + home}))
		endPollersIn(home)
	})
	return &setupHome{t: t, home: home, program: filepath.Join(dir, "gchat-hooks"), space: sp, webhookURL: sp.WebhookURL(server.URL), serverURL: server.URL}
}

func (s *setupHome) runSetup(args ...string) *ptyDialog {
	return startInTerminal(s.t, []string{"HOME=" + s.home, "PATH=/usr/bin:/bin", "TERM=dumb"}, s.program, append([]string{"setup"}, args...)...)
}

func (s *setupHome) readConfig() string {
	b, _ := os.ReadFile(filepath.Join(s.home, ".config/gchat-hooks/config.json"))
	return string(b)
}

// reply has somebody reply in the thread of the last message.
func (s *setupHome) reply(user *chat.User, text string) {
	s.t.Helper()
	ms := s.space.Messages()
	if _, err := s.space.PostAs(user, ms[len(ms)-1].Thread.Name, text); err != nil {
		s.t.Fatal(err)
	}
}

// Behind a gateway, sessions of 2.1.332 begin in a mode in which permissions do not reach
// Chat: setup says so, and offers another one. It is taken out again with the hooks.
func TestSetupOffersAModeInWhichPermissionsReachChat(t *testing.T) {
	s := newSetupHome(t)
	claude, file := filepath.Join(s.home, ".local/bin/claude"), filepath.Join(s.home, ".claude/settings.json")
	own := "{\n  \"env\": {\n    \"ANTHROPIC_BASE_URL\": \"https://gateway.example/v1\"\n  }\n}\n"
	for path, text := range map[string]string{claude: "#!/bin/sh\necho '2.1.332 (Claude Code)'\n", file: own} {
		kit.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o700)))
	}
	read := func() string { b, _ := os.ReadFile(file); return string(b) }

	dialog := s.runSetup("--approve", "--start-sessions=false", "--round-trip=false", "--allow", "users/111")
	dialog.answerPrompt("Paste its URL here", s.webhookURL)
	dialog.expect("auto mode, but gateway.example does not pass on its check")
	dialog.expect("defaultMode.*default")
	dialog.answerPrompt(`Start sessions in the mode default\? \[y/N\]`, "y")
	dialog.expect("Done.")
	if code := dialog.waitExit(); code != 0 || !strings.Contains(read(), `"defaultMode": "default"`) {
		t.Fatalf("exit code %d, settings %s", code, read())
	}
	cmd := bound.Command(t, s.program, "uninstall")
	cmd.Env = []string{"HOME=" + s.home, "PATH=/usr/bin:/bin"}
	if out, err := cmd.CombinedOutput(); err != nil || read() != own {
		t.Errorf("uninstall: %s, %v, settings %q, want %q", out, err, read(), own)
	}
}

// One conversation, with a slip, an interruption, and a reply of a person who is not on
// the list yet.
func TestSetupIsOneConversation(t *testing.T) {
	s := newSetupHome(t)
	ann := &chat.User{Name: "users/111", Type: "HUMAN", DisplayName: "Ann"}

	dialog := s.runSetup()
	dialog.answerPrompt("Paste its URL here", "https://chat.googleapis.com/v1/spac")
	dialog.expect("That did not work: not a Chat webhook URL")
	dialog.answerPrompt("Paste its URL here", s.webhookURL)
	dialog.expect(`ok    webhook   questions go to 127\.0\.0\.1:\d+/spaces/local`)
	dialog.expect(`ok    reading`)
	dialog.expect(`choose ok in the thread`)
	s.reply(ann, "ok")
	dialog.expect(`Ann replied, but may not answer; if that is you: gchat-hooks setup --allow users/111`)
	dialog.typeText("\x03")
	if code := dialog.waitExit(); code == 0 {
		t.Error("a setup that was stopped ended with 0")
	}
	dialog.expect("run the same command again to go on")
	if strings.Contains(dialog.screen(), webhookSecret(s.webhookURL)) {
		t.Errorf("the webhook's secret stands on the screen:\n%s", dialog.screen())
	}
	before := len(s.space.Messages())

	dialog = s.runSetup("--allow", "users/111")
	dialog.expect(`ok    webhook   questions go to 127\.0\.0\.1`) // not asked again
	dialog.expect(`ok    people    may answer: users/111`)
	dialog.expect(`choose ok in the thread`)
	s.reply(ann, "ok")
	dialog.expect(`ok    back      the reply of users/111 Ann was read`)
	dialog.answerPrompt(`Also answer permissions and plans, and give the next instruction, from there\? Anyone who may answer can then approve commands on this machine. \[Y/n\]`, "")
	dialog.expect(`settings.json: 15 hooks added`)
	if _, err := os.Stat("/usr/bin/tmux"); err == nil { // on the PATH that setup has here
		dialog.answerPrompt(`Also resume ended sessions`, "")
	}
	dialog.expect("Done.")
	kit.Equalf(t, dialog.waitExit(), 0, "exit code")
	if n := len(s.space.Messages()); n != before+5 { // three of ours, a reply, and the end
		t.Errorf("%d messages, want %d", n, before+5)
	}
	var cfg struct {
		URL   string   `json:"webhook_url"`
		Users []string `json:"allowed_users"`
	}
	if err := json.Unmarshal([]byte(s.readConfig()), &cfg); err != nil || cfg.URL != s.webhookURL || strings.Join(cfg.Users, " ") != "users/111" {
		t.Errorf("%v: the configuration is %s", err, s.readConfig())
	}
	if settings, _ := os.ReadFile(filepath.Join(s.home, ".claude/settings.json")); !strings.Contains(string(settings), "gchat-ask-user-forward") {
		t.Errorf("the hooks are not registered:\n%s", settings)
	}
}

// A person who goes away at the first question leaves no trace, whatever stands in the
// environment; and what stands there is kept with the webhook.
func TestSetupWritesNothingBeforeAnAnswer(t *testing.T) {
	s := newSetupHome(t)
	env := []string{"HOME=" + s.home, "PATH=/usr/bin:/bin", "TERM=dumb", "GCHAT_API_ENDPOINT=" + s.space.APIEndpoint(s.serverURL)}
	dialog := startInTerminal(t, env, s.program, "setup")
	dialog.expect("Paste its URL here")
	dialog.awaitEcho(false)
	dialog.typeText("\x03")
	dialog.waitExit()
	if there, _ := os.ReadDir(s.home); len(there) > 0 {
		t.Errorf("left in the home folder: %v", there)
	}
	dialog = startInTerminal(t, env, s.program, "setup", "--round-trip=false", "--no-hooks", "--service=false", "--allow", "users/7")
	dialog.answerPrompt("Paste its URL here", s.webhookURL)
	dialog.expect("Done.")
	if dialog.waitExit(); !strings.Contains(s.readConfig(), `"`+s.space.APIEndpoint(s.serverURL)+`"`) {
		t.Errorf("the configuration is %s", s.readConfig())
	}
}

// Without Google: setup starts the space, which stays, and asks nothing about a service.
func TestSetupWithoutGoogle(t *testing.T) {
	s := newSetupHome(t)
	address := freeAddress(t)
	dialog := s.runSetup("--round-trip=false", "--no-hooks", "--address", address)
	dialog.answerPrompt("press Enter to answer on a page on this machine", "")
	dialog.expect(`page:  http://` + address + `/`)
	dialog.expect(`ok    people    anyone with this link can answer`)
	dialog.expect(`Done. Now start claude in a project, and tell it:`)
	dialog.expect(`on the page, http://` + address + `/`)
	if code := dialog.waitExit(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, dialog.screen())
	}
	env := getenvOf([]string{"HOME=" + s.home})
	if _, detached := lastSpace(env); detached == 0 || !isSpaceRunning(env) {
		t.Errorf("the space does not run: %d", detached)
	}
	endSpace(env)
	if !regexp.MustCompile(`"api_endpoint": +"http://` + address + `/t/[^/]+/"`).MatchString(s.readConfig()) {
		t.Errorf("the configuration is %s", s.readConfig())
	}
}

// The embedded space's round trip is one thread with one card, which is tapped or
// answered in words, after which nothing waits for the person.
func TestSetupTriesThePage(t *testing.T) {
	t.Parallel()
	for name, typed := range map[string]bool{"tapped": false, "typed": true} {
		t.Run(name, func(t *testing.T) {
			s := newSetupHome(t)
			address := freeAddress(t)
			dialog := s.runSetup("--space", "--no-hooks", "--service=false", "--address", address)
			dialog.expect(`Now open the page, and tap ok`)
			page := regexp.MustCompile(`page: +(http://\S+)`).FindStringSubmatch(dialog.screen())[1]
			messages := func() (all []chat.Message) {
				b, _ := os.ReadFile(filepath.Join(s.home, ".local/state/gchat-hooks/space/messages.jsonl"))
				for line := range strings.Lines(string(b)) {
					var row struct{ Message chat.Message }
					kit.NoError(t, json.Unmarshal([]byte(line), &row))
					if len(all) > 0 && row.Message.Thread.Name != all[0].Thread.Name {
						t.Errorf("a second thread: %s", line)
					}
					all = append(all, row.Message)
				}
				return all
			}
			before := messages()
			if len(before) != 1 || len(before[0].CardsV2) != 1 ||
				!strings.Contains(before[0].FallbackText, "This is a test: please choose ok.\n\nOptions:\n1. ok\n\n") {
				t.Fatalf("the space has %+v", before)
			}
			if typed {
				(&spaceHome{T: t}).reply(page, before[0].Thread.Name, "1")
			} else {
				(&spaceHome{T: t}).tap(page, before[0].Name, "1")
			}
			dialog.expect(`ok    back      your reply was read: "1" means "ok"`)
			dialog.expect(`Done.`)
			if code := dialog.waitExit(); code != 0 {
				t.Errorf("exit code %d:\n%s", code, dialog.screen())
			}
			if b, err := os.ReadFile(filepath.Join(s.home, ".local/state/gchat-hooks/space/events.jsonl")); err != nil || bytes.Contains(b, []byte(`"id"`)) {
				t.Errorf("a poller is left to answer %s (%v)", b, err)
			}
			after := messages()
			end := after[len(after)-1]
			if end.Name != before[0].Name || !strings.HasPrefix(end.Text, "[Answered] gchat-hooks setup\n") ||
				!strings.Contains(end.Text, "\nSelected: ok\n") || end.CardsV2[0].CardId != "gchat-hooks.question.answered" {
				t.Errorf("the space has %+v", after)
			}
		})
	}
}

// A purge asks, and takes anything but a yes for a no. While a daemon runs that a person
// started, it removes nothing.
func TestPurgeAsks(t *testing.T) {
	s := newSetupHome(t)
	env := []string{"HOME=" + s.home, "PATH=/usr/bin:/bin", "TERM=dumb"}
	dialog := s.runSetup("--send-only", "--service=false", "--no-hooks")
	dialog.answerPrompt("Paste its URL here", s.webhookURL)
	dialog.expect("Done.")
	dialog.waitExit()
	daemon := exec.Command(s.program, "poller")
	daemon.Env = env
	kit.NoError(t, daemon.Start())
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	t.Cleanup(func() { _ = daemon.Process.Kill() })
	runs := func(h state.Heartbeat) bool { return h.IsAlive && h.IsDaemon }
	bound.Until(t, "the daemon runs", func() bool { return slices.ContainsFunc(state.ReadHeartbeats(getenvOf(env)), runs) })

	dialog = startInTerminal(t, env, s.program, "uninstall", "--purge", "--yes")
	dialog.expect(fmt.Sprintf(`the daemon runs \(pid %d on `, daemon.Process.Pid))
	kit.Equalf(t, dialog.waitExit(), 1, "beside a daemon: exit code")
	_ = daemon.Process.Signal(syscall.SIGTERM)
	if err := <-ended; err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
	for _, answer := range []string{"", "n"} {
		dialog = startInTerminal(t, env, s.program, "uninstall", "--purge")
		dialog.answerPrompt(`Remove all of it\? \[y/N\]`, answer)
		dialog.expect("nothing was removed")
		if dialog.waitExit(); s.readConfig() == "" {
			t.Fatalf("%q removed the configuration", answer)
		}
	}
	dialog = startInTerminal(t, env, s.program, "uninstall", "--purge")
	dialog.answerPrompt(`Remove all of it\?`, "yes")
	dialog.expect("gchat-hooks is removed")
	kit.Equalf(t, dialog.waitExit(), 0, "exit code")
	if left, _ := os.ReadDir(s.home); len(left) > 0 {
		t.Errorf("left in the home folder: %v", left)
	}
}

// install.sh asks, too, where there is somebody to ask.
func TestUninstallScriptAsksOnATerminal(t *testing.T) {
	n := newBareHome(t, "/usr/bin:/bin")
	before := n.listTree()
	n.mustRun("sh", installScript(t), "--binary", programPath(t))
	dialog := startInTerminal(t, append(n.env, "TERM=dumb"), "bash", installScript(t), "--uninstall")
	dialog.answerPrompt(`Remove all of it\? \[y/N\]`, "n")
	if dialog.waitExit(); n.listTree() == before {
		t.Error("a no removed all of it")
	}
	dialog = startInTerminal(t, append(n.env, "TERM=dumb"), "bash", installScript(t), "--uninstall")
	dialog.answerPrompt(`Remove all of it\? \[y/N\]`, "y")
	if code := dialog.waitExit(); code != 0 || n.listTree() != before {
		t.Errorf("exit code %d; the home folder is\n%s", code, n.listTree())
	}
}

func webhookSecret(webhook string) string {
	return webhook[strings.Index(webhook, "token=")+len("token="):]
}
