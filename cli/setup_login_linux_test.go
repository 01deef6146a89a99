package cli

import (
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
)

// Setup leads from nothing to a reply that was read, with a login. The person who logged
// in may answer, without another setting.
func TestSetupLogin_ReplyIsRead(t *testing.T) {
	g := newFakeGoogle(t)
	dialog := g.runSetup("--no-browser", "--service=false")
	dialog.answerPrompt("Paste its URL here", g.webhookURL)
	dialog.expect("ok    webhook")
	dialog.answerPrompt("Path of its JSON file", "/no/such/file")
	dialog.expect("That did not work")
	dialog.answerPrompt("Path of its JSON file", g.writeClientFile())
	g.agreeToLogin(dialog)
	dialog.expect(`logged in: users/7`, "ok    reading   replies can be read",
		`ok    people    may answer: users/7`, `choose ok in the thread`)
	g.reply(&chat.User{Name: "users/7", Type: "HUMAN", DisplayName: "Ann"}, "ok")
	// nobody has to vouch for Ann
	dialog.expect(`ok    back      the reply of users/7 Ann was read`)
	dialog.answerHookOffers()
	kit.Equalf(t, g.refused.Load(), 0, "requests without the login's token")
	dialog.wantHidden("ya29.access", "1//0refresh", "GOCSPX-s", "4/0Acode", g.webhookSecret())

	dialog = g.runSetup("--no-browser", "--service=false",
		"--round-trip=false") // nothing is asked again
	dialog.expect("ok    reading   replies can be read", "nothing to change", "Done.")
	dialog.wantExit(0)
}
