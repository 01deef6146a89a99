package cli

import (
	"os"
	"strings"
	"testing"

	"google.golang.org/api/chat/v1"
)

// From nothing to a reply that was read, with a login: who logged in may answer, and
// needs no other word.
func TestSetupLogin_ReplyIsRead(t *testing.T) {
	g := newFakeGoogle(t)
	ann := &chat.User{Name: "users/7", Type: "HUMAN", DisplayName: "Ann"}
	dialog := g.runSetup()
	dialog.answerPrompt("Paste its URL here", g.webhookURL)
	dialog.expect("ok    webhook")
	dialog.answerPrompt("Path of its JSON file", "/no/such/file")
	dialog.expect("That did not work")
	dialog.answerPrompt("Path of its JSON file", g.writeClientFile())
	g.agreeToLogin(dialog)
	dialog.expect(`logged in: users/7`)
	dialog.expect("ok    reading   replies can be read")
	dialog.expect(`ok    people    may answer: users/7`)
	dialog.expect(`choose ok in the thread`)
	g.reply(ann, "ok")
	// nobody has to vouch for Ann
	dialog.expect(`ok    back      the reply of users/7 Ann was read`)
	dialog.answerPrompt(`Also answer permissions and plans`, "")
	dialog.expect("hooks added")
	if _, err := os.Stat("/usr/bin/tmux"); err == nil { // on the PATH that setup has here
		dialog.answerPrompt(`Also resume ended sessions`, "")
	}
	dialog.expect("Done.")
	if code := dialog.waitExit(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, dialog.screen())
	}
	if g.refused.Load() > 0 {
		t.Errorf("%d requests without the login's token", g.refused.Load())
	}
	for _, secret := range []string{"ya29.access", "1//0refresh", "GOCSPX-s", "4/0Acode", webhookSecret(g.webhookURL)} {
		if strings.Contains(dialog.screen(), secret) {
			t.Errorf("%s stands on the screen:\n%s", secret, dialog.screen())
		}
	}

	dialog = g.runSetup("--round-trip=false") // nothing is asked again
	dialog.expect("ok    reading   replies can be read")
	dialog.expect("nothing to change")
	dialog.expect("Done.")
	if code := dialog.waitExit(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, dialog.screen())
	}
}
