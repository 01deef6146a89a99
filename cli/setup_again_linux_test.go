package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/api/chat/v1"
)

// What was answered is not asked again: the reply where the hooks are still to come, and a no to the service.
func TestSetupAsksOnce(t *testing.T) {
	s := newSettler(t)
	x := s.setup()
	x.answer("Paste its URL here", s.url)
	x.expect(`Now you: reply "ok" in the thread`)
	s.says(&chat.User{Name: "users/111", Type: "HUMAN", DisplayName: "Ann"}, "ok")
	x.answer(`Is that you`, "y")
	x.expect(`Register the hooks`)
	x.typed("\x03")
	x.ends()
	n := len(s.space.Messages())

	x = s.setup()
	x.expect(`ok    people    may answer: users/111\s+Register the hooks`)
	x.typed("n\n")
	x.answer(`Keep the daemon running\?`, "n")
	x.expect("Done.")
	x.ends()
	x = s.setup()
	x.answer(`Register the hooks`, "n")
	x.expect(`ok    service   not wanted; .*gchat-hooks poller install`)
	x.expect("Done.")
	if code := x.ends(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, x.screen())
	}
	if now := len(s.space.Messages()); now != n {
		t.Errorf("%d messages, want %d:\n%s", now, n, x.screen())
	}

	// A flag goes before what was answered then. Without a PATH there is no systemd that could keep the daemon.
	x = inTerminal(t, []string{"HOME=" + s.home, "PATH=" + filepath.Dir(s.program), "TERM=dumb"}, s.program, "setup", "--no-hooks", "--service")
	x.expect("@reboot")
	if x.ends(); strings.Contains(x.screen(), "not wanted") {
		t.Errorf("--service does nothing:\n%s", x.screen())
	}
}

// Who goes away at the first question leaves no trace, whatever stands in the environment; and what stands there is kept
// with the webhook.
func TestSetupWritesNothingBeforeAnAnswer(t *testing.T) {
	s := newSettler(t)
	env := []string{"HOME=" + s.home, "PATH=/usr/bin:/bin", "TERM=dumb", "GCHAT_API_ENDPOINT=" + s.server + "/"}
	x := inTerminal(t, env, s.program, "setup")
	x.expect("Paste its URL here")
	x.typed("\x03")
	x.ends()
	if there, _ := os.ReadDir(s.home); len(there) > 0 {
		t.Errorf("left in the home folder: %v", there)
	}
	x = inTerminal(t, env, s.program, "setup", "--no-round-trip", "--no-hooks", "--no-service", "--allow", "users/7")
	x.answer("Paste its URL here", s.url)
	x.expect("Done.")
	if x.ends(); !strings.Contains(s.config(), `"api_endpoint": "`+s.server+`/"`) {
		t.Errorf("the configuration is %s", s.config())
	}
}
