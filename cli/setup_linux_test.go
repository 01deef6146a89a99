package cli

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
)

// answerHookOffers answers what setup asks about hooks, with what it proposes.
func (dialog *ptyDialog) answerHookOffers() {
	dialog.Helper()
	dialog.answerPrompt(`Also answer permissions and plans, and give the next instruction, `+
		`from there\? `+
		`Anyone who may answer can then approve commands on this machine. \[Y/n\]`, "")
	dialog.expect(`settings.json: 15 hooks added`)
	if _, err := os.Stat("/usr/bin/tmux"); err == nil { // on the PATH that setup has here
		dialog.answerPrompt(`Also resume ended sessions`, "")
	}
	dialog.expect("Done.")
	dialog.wantExit(0)
}

// However a person leaves the question for a secret, the secret is not shown, and the
// terminal echoes again.
func TestSetup_HidesTheSecret(t *testing.T) {
	for name, leave := range map[string]func(dialog *ptyDialog){
		"Ctrl-C":  func(dialog *ptyDialog) { dialog.typeText("half of SECRET\x03") },
		"SIGTERM": func(dialog *ptyDialog) { _ = dialog.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			dialog := newSetupHome(t).runSetup()
			dialog.expect("Paste its URL here")
			dialog.awaitEcho(false)
			dialog.typeText("https://chat.googleapis.com/SECRET\n")
			dialog.expect("That did not work: not a Chat webhook URL", "Paste its URL here")
			dialog.awaitEcho(false)
			leave(dialog)
			dialog.expect("run the same command again to go on")
			dialog.wantExit(1)
			dialog.awaitEcho(true)
			dialog.wantHidden("SECRET")
		})
	}
}

// Behind a gateway, sessions of Claude Code 2.1.332 begin in a mode in which permissions
// do not reach Chat. Setup says so and offers another mode. Uninstall removes that mode
// again.
func TestSetup_OffersAnotherPermissionMode(t *testing.T) {
	s := newSetupHome(t)
	own := "{\n  \"env\": {\n    \"ANTHROPIC_BASE_URL\": \"https://gateway.example/v1\"\n  }\n}\n"
	s.writeFile(".local/bin/claude", "#!/bin/sh\necho '2.1.332 (Claude Code)'\n")
	kit.NoError(t, os.Chmod(s.path(".local/bin/claude"), 0o700))
	s.writeFile(settingsFile, own)

	dialog := s.runSetup("--approve", "--start-sessions=false", "--round-trip=false", "--allow",
		"users/111")
	dialog.answerPrompt("Paste its URL here", s.webhookURL)
	dialog.expect("auto mode, but gateway.example does not pass auto mode's check on to",
		"defaultMode.*default")
	dialog.answerPrompt(`Start sessions in the mode default\? \[y/N\]`, "y")
	dialog.expect("Done.")
	dialog.wantExit(0)
	kit.Containsf(t, s.readFile(settingsFile), `"defaultMode": "default"`, "the settings")
	s.mustRun("uninstall")
	kit.Equalf(t, s.readFile(settingsFile), own, "the settings after uninstall")
}

// One conversation, with a slip, an interruption, and a reply of a person who is not on
// the list yet.
func TestSetup_OneConversation(t *testing.T) {
	s := newSetupHome(t)
	dialog := s.runSetup()
	dialog.answerPrompt("Paste its URL here", "https://chat.googleapis.com/v1/spac")
	dialog.expect("That did not work: not a Chat webhook URL")
	dialog.answerPrompt("Paste its URL here", s.webhookURL)
	dialog.expect(`ok    webhook   questions go to 127\.0\.0\.1:\d+/spaces/local`, `ok    reading`,
		`choose ok in the thread`)
	s.reply(ann, "ok")
	dialog.expect(`Ann replied, but may not answer; if that is you: gchat-hooks setup --allow ` +
		`users/111`)
	dialog.typeText("\x03")
	dialog.wantExit(1)
	dialog.expect("run the same command again to go on")
	dialog.wantHidden(s.webhookSecret())
	before := len(s.space.Messages())

	dialog = s.runSetup("--allow", "users/111")
	dialog.expect(`ok    webhook   questions go to 127\.0\.0\.1`, // not asked again
		`ok    people    may answer: users/111`, `choose ok in the thread`)
	s.reply(ann, "ok")
	dialog.expect(`ok    back      the reply of users/111 Ann was read`)
	dialog.answerHookOffers()
	// three of ours, a reply, and the end
	kit.Equalf(t, len(s.space.Messages()), before+5, "messages")
	var cfg struct {
		URL   string   `json:"webhook_url"`
		Users []string `json:"allowed_users"`
	}
	kit.NoError(t, json.Unmarshal([]byte(s.readFile(configFile)), &cfg))
	kit.Equalf(t, cfg.URL, s.webhookURL, "the webhook")
	kit.Equalf(t, cfg.Users, []string{"users/111"}, "the people")
	kit.Containsf(t, s.readFile(settingsFile), "gchat-ask-user-forward", "the settings")
}

// A person who leaves at the first question leaves no file behind. Settings from the
// environment are saved together with the webhook.
func TestSetup_WritesNothingBeforeAnAnswer(t *testing.T) {
	s := newSetupHome(t)
	endpoint := s.space.APIEndpoint(s.serverURL)
	s.env = append(s.env, "GCHAT_API_ENDPOINT="+endpoint)
	dialog := s.runSetup()
	dialog.expect("Paste its URL here")
	dialog.awaitEcho(false)
	dialog.typeText("\x03")
	dialog.wantExit(1)
	s.wantEmpty()
	dialog = s.runSetup("--round-trip=false", "--no-hooks", "--service=false", "--allow", "users/7")
	dialog.answerPrompt("Paste its URL here", s.webhookURL)
	dialog.expect("Done.")
	dialog.wantExit(0)
	kit.Containsf(t, s.readFile(configFile), `"`+endpoint+`"`, "the configuration")
}

// wantEmpty fails the test if something is left in the home folder.
func (h *home) wantEmpty() {
	h.Helper()
	left, _ := os.ReadDir(h.dir)
	kit.Equalf(h, len(left), 0, "left in the home folder: %v", left)
}

// Without Google, setup starts the space, which keeps running, and asks nothing about a
// service.
func TestSetup_WithoutGoogle(t *testing.T) {
	s := newSetupHome(t)
	address := freeAddress(t)
	dialog := s.runSetup("--round-trip=false", "--no-hooks", "--address", address)
	dialog.answerPrompt("press Enter to answer on a page on this machine", "")
	dialog.expect(`page:  http://`+address+`/`, `ok    people    anyone with this link can answer`,
		`Done. Now start claude in a project, and tell it:`, `on the page, http://`+address+`/`)
	dialog.wantExit(0)
	if _, detached := lastSpace(s.getenv); detached == 0 || !isSpaceRunning(s.getenv) {
		t.Errorf("the space does not run: %d", detached)
	}
	endpoint := regexp.MustCompile(`"api_endpoint": +"http://` + address + `/t/[^/]+/"`)
	if config := s.readFile(configFile); !endpoint.MatchString(config) {
		t.Errorf("the configuration is %s", config)
	}
}

// The round trip on the page is one thread with one card. The person taps it or types a
// reply, and nothing is left to answer.
func TestSetup_TriesThePage(t *testing.T) {
	t.Parallel()
	for name, isTyped := range map[string]bool{"tapped": false, "typed": true} {
		t.Run(name, func(t *testing.T) {
			s := newSetupHome(t)
			dialog := s.runSetup("--space", "--no-hooks", "--service=false", "--address",
				freeAddress(t))
			dialog.expect(`Now open the page, and tap ok`)
			page := regexp.MustCompile(`page: +(http://\S+)`).FindStringSubmatch(dialog.screen())[1]
			messages := func() (all []chat.Message) {
				for line := range strings.Lines(s.readFile(messagesFile)) {
					var row struct{ Message chat.Message }
					kit.NoError(t, json.Unmarshal([]byte(line), &row))
					all = append(all, row.Message)
					kit.Equalf(t, row.Message.Thread.Name, all[0].Thread.Name, "the thread")
				}
				return all
			}
			before := messages()
			if len(before) != 1 || len(before[0].CardsV2) != 1 {
				t.Fatalf("the space has %+v", before)
			}
			const asked = "This is a test: please choose ok.\n\nOptions:\n1. ok\n\n"
			kit.Containsf(t, before[0].FallbackText, asked, "the card")
			if isTyped {
				s.replyOnPage(page, before[0].Thread.Name, "1")
			} else {
				s.tapOnPage(page, before[0].Name, "1")
			}
			dialog.expect(`ok    back      your reply was read: "1" means "ok"`, `Done.`)
			dialog.wantExit(0)
			events := kit.ReadFile(t, s.path(".local/state/gchat-hooks/space/events.jsonl"))
			kit.True(t, !strings.Contains(events, `"id"`), "a poller is left to answer %s", events)
			after := messages()
			end := after[len(after)-1]
			kit.Equalf(t, end.Name, before[0].Name, "the end is in the message")
			kit.True(t, strings.HasPrefix(end.CardsV2[0].CardId, "gchat-hooks.question.answered"),
				"its card is %s", end.CardsV2[0].CardId)
			kit.Containsf(t, end.Text, "[Answered] gchat-hooks setup\n", "the end")
			kit.Containsf(t, end.Text, "\nSelected: ok\n", "the end")
		})
	}
}
