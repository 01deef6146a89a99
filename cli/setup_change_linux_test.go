package cli

import (
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/team"
)

// Setup for an app leaves the page or the hub that was used before, and talks to Google.
func TestSetupApp_LeavesWhatWasConnected(t *testing.T) {
	for name, connect := range map[string]func(*fakeAppGoogle){
		"the page": func(c *fakeAppGoogle) {
			c.mustRun("setup", "--space", "--address", freeAddress(t), "--no-hooks")
		},
		"the hub": func(c *fakeAppGoogle) {
			hub, _ := team.StartLocal(t)
			_, code := c.executeWithInput(hub.Code, c.program, "setup", "--hub", hub.URL,
				"--code", "-", "--no-hooks", "--round-trip=false")
			kit.Equalf(t, code, 0, "joining the hub: exit code")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeAppGoogle(t)
			connect(c)
			onPage := c.readFile(messagesFile)
			dialog := c.runSetup("--app", "--no-hooks")
			dialog.answerPrompt("The Cloud project's id", "local")
			dialog.expect("Please tap its button")
			tapCard(t, c.space, ann)
			dialog.answerPrompt("Is that you", "y")
			dialog.expect("ok    replaced  " + name + `.* is not used any more`)
			dialog.wantExit(0)
			config := c.readFile(configFile)
			kit.Equalf(t, strings.Count(config, c.endpoint), 2, "Google's endpoints in %s", config)
			kit.Equalf(t, strings.Contains(config, "hub.json"), false, "the hub's file in %s", config)
			kit.Equalf(t, c.readFile(messagesFile), onPage, "the page's messages")
		})
	}
}

// A login does not keep setup from finding the app's key.
func TestSetupApp_FindsTheKeyBesideALogin(t *testing.T) {
	c := newFakeAppGoogle(t)
	const key = ".config/gchat-hooks/app-key.json"
	c.writeFile(key, "{}")
	c.writeFile(".local/state/gchat-hooks/login.json",
		`{"type": "authorized_user", "made_by": "gchat-hooks login", "user": "users/111"}`)
	dialog := c.runSetup("--app", "--no-hooks")
	dialog.answerPrompt("The Cloud project's id", "local")
	dialog.expect("Please tap its button")
	tapCard(t, c.space, ann)
	dialog.answerPrompt("Is that you", "y")
	dialog.wantExit(0)
	kit.Containsf(t, c.readFile(configFile), `"`+c.path(key)+`"`, "the configuration")
}

// A webhook or the page that a person connects is used in place of an app or a hub. What
// was used before is named. A hub's policy goes on counting, and setup says so.
func TestSetup_UsesWhatIsConnectedLast(t *testing.T) {
	c, s := newHubHome(t), newSetupHome(t)
	c.setPolicy(`{"terminal_only": ["report"]}`)
	wantSetup := func(lines []string, args ...string) {
		t.Helper()
		args = append([]string{"setup", "--no-hooks", "--allow", "users/1"}, args...)
		output := c.mustRun(args...)
		for _, line := range lines {
			kit.Containsf(t, output, line+"\n", "%q", args)
		}
		isReplaced := strings.Contains(strings.Join(lines, ""), "replaced")
		kit.Equalf(t, strings.Contains(output, "replaced"), isReplaced, "replaced by %q", args)
	}
	c.mustJoinHub()
	wantSetup([]string{"ok    app       questions go to the hub " + c.URL})
	policy := "ok    policy    the policy of " + c.URL + " still counts, until you delete " +
		c.path(hubFile)
	withoutWebhook := c.env
	c.env = append(c.env, "GOOGLE_CHAT_WEBHOOK_URL="+s.webhookURL)
	wantSetup([]string{"ok    replaced  the hub " + c.URL + " is not used any more", policy})
	c.wantRun(0, "not sent: the configuration or a policy", "send", "hidden-word")
	c.env = withoutWebhook
	wantSetup([]string{policy})
	c.writeFile(hubFile, "{}")
	c.mustRun("send", "to the webhook")
	messages := s.space.Messages()
	kit.Equalf(t, messages[len(messages)-1].Text, "to the webhook", "the last message")
	kit.Equalf(t, len(c.space.Messages()), 0, "messages through the hub")

	c.writeFile(configFile, `{"pubsub_subscription": "projects/p/subscriptions/s",
		"pubsub_endpoint": "http://127.0.0.1:1", "api_endpoint": "http://127.0.0.1:1",
		"space_id": "spaces/A", "credentials_file": "/none.json", "webhook_url": "https://x/"}`)
	wantSetup([]string{"ok    app       questions go to the Chat app"})
	wantSetup([]string{"ok    replaced  the Chat app is not used any more"},
		"--space", "--address", freeAddress(t))
	wantSetup([]string{"ok    page      questions go to the page"})
	page := c.readFile(configFile)
	c.env = append(c.env, "GOOGLE_CHAT_WEBHOOK_URL="+s.webhookURL)
	wantSetup([]string{"ok    replaced  the page is not used any more"})
	kit.Equalf(t, strings.Contains(page, "credentials_file"), false, "the app's key is kept")
	for _, name := range []string{"space_id", "api_endpoint", "pubsub_"} {
		isKept := strings.Contains(c.readFile(configFile), name)
		kit.Equalf(t, isKept, false, "%s of the page is kept", name)
	}
}

// A person leaves a hub whose policy lets nobody answer on the page. Setup says so, and
// does not wait for an answer that cannot count.
func TestSetup_PolicyLocksThePage(t *testing.T) {
	c := newHubHome(t)
	c.setPolicy(`{"allowed_users": ["*@example.com"]}`)
	c.mustJoinHub()
	c.mustRun("setup", "--no-hooks", "--allow", "users/1")
	c.wantRun(1, "a policy's allowed_users does not name users/local-human",
		"setup", "--no-hooks", "--space", "--address", freeAddress(t))
}
