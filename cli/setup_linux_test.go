package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// Behind a gateway, sessions of 2.1.332 begin in a mode in which permissions do not reach
// Chat: setup says so, and offers another one. It is taken out again with the hooks.
func TestSetup_OffersAnotherPermissionMode(t *testing.T) {
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
func TestSetup_OneConversation(t *testing.T) {
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
func TestSetup_WritesNothingBeforeAnAnswer(t *testing.T) {
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
func TestSetup_WithoutGoogle(t *testing.T) {
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
func TestSetup_TriesThePage(t *testing.T) {
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

func webhookSecret(webhook string) string {
	return webhook[strings.Index(webhook, "token=")+len("token="):]
}

// However a person leaves the question for a secret, the secret is not shown, and the
// terminal shows again what is typed.
func TestSetup_HidesTheSecret(t *testing.T) {
	for name, leave := range map[string]func(dialog *ptyDialog){
		"Ctrl-C":  func(dialog *ptyDialog) { dialog.typeText("half of SECRET\x03") },
		"SIGTERM": func(dialog *ptyDialog) { _ = dialog.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetupHome(t)
			dialog := s.runSetup()
			dialog.expect("Paste its URL here")
			dialog.awaitEcho(false)
			dialog.typeText("https://chat.googleapis.com/SECRET\n")
			dialog.expect("That did not work: not a Chat webhook URL")
			dialog.expect("Paste its URL here")
			dialog.awaitEcho(false)
			leave(dialog)
			dialog.expect("run the same command again to go on")
			if code := dialog.waitExit(); code != 1 {
				t.Errorf("exit code %d:\n%s", code, dialog.screen())
			}
			dialog.awaitEcho(true)
			if strings.Contains(dialog.screen(), "SECRET") {
				t.Errorf("the secret is shown:\n%s", dialog.screen())
			}
		})
	}
}
