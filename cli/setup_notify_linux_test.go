package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
)

// newCallServer is an ntfy server whose topics need no token.
func newCallServer(t *testing.T) *strict.CallServer {
	server := strict.NewCallServer(t)
	server.IsOpen = true
	return server
}

// callsTo are the calls that a server took, as "TOPIC: TEXT → LINK".
func callsTo(server *strict.CallServer) (calls []string) {
	for _, call := range server.Received() {
		calls = append(calls, call.Topic+": "+call.Text+" → "+call.Click)
	}
	return calls
}

// savedNotify is what the person's configuration says of notify.
func (h *home) savedNotify() (notify map[string]string) {
	h.Helper()
	var file struct{ Notify map[string]string }
	if text := h.readFile(configFile); text != "" {
		kit.NoError(h, json.Unmarshal([]byte(text), &file))
	}
	return file.Notify
}

// Setup gives the person a topic that nobody guesses, shows how to subscribe, and saves it
// once its server took a call. Run again, it keeps it.
func TestSetup_OffersToCall(t *testing.T) {
	s, server := newSetupHome(t), newCallServer(t)
	server.AnswerWith(http.StatusForbidden)
	args := []string{
		"--https", "box.example", "--no-hooks", "--service=false", "--round-trip=false",
		"--listen", freeAddress(t),
	}
	dialog := s.runSetup(args...)
	// a page by https can notify without ntfy
	dialog.answerPrompt(`Notify you on a locked phone when nobody answers\?.*\[y/N\]`, "y")
	dialog.answerPrompt(`press Enter for https://ntfy\.sh\)`, server.URL)
	dialog.expect(`█ ▄▄▄▄▄ █`)
	dialog.expect(`topic:  gchat-hooks-[a-z2-7]{26}\n`, `server: `+server.URL)
	dialog.answerPrompt("Press Enter when the app shows the topic", "")
	dialog.expect(`That did not work: .*403: as the test wants it.*the topic is protected: notify needs`)
	kit.Equalf(t, s.savedNotify(), nil, "notify after a refusal")
	server.AnswerWith(http.StatusOK)
	dialog.answerPrompt("Another ntfy server", server.URL)
	shown := dialog.expect(`topic:  gchat-hooks-[a-z2-7]{26}\n`)
	dialog.answerPrompt("Press Enter when the app shows the topic", "")
	dialog.expect(`ok    notify    127\.0\.0\.1:\d+ accepted a test notification`, "Done.")
	dialog.wantExit(0)
	kit.True(t, !strings.Contains(dialog.screen(), "\x1b[31m"), "the server colours the terminal")

	topic := regexp.MustCompile(`gchat-hooks-\w+`).FindString(shown)
	want := map[string]string{"url": server.URL + "/" + topic, "page": "https://box.example/"}
	kit.Equal(t, s.savedNotify(), want)
	call := topic + ": This is how you are notified. → https://box.example/"
	kit.Equal(t, callsTo(server), []string{call})
	info, err := os.Stat(s.path(configFile))
	kit.NoError(t, err)
	kit.Equalf(t, info.Mode().Perm(), 0o600, "mode of the configuration")
	again := append([]string{"setup", "--notify", "random"}, args...)
	s.wantRun(0, "ok    notify    kept: you are notified through 127.0.0.1", again...)
	kit.Equal(t, s.savedNotify(), want)
	doctor, _ := s.run("doctor", "--all")
	kit.Contains(t, doctor, "the last notification was on")
	kit.True(t, !strings.Contains(doctor, topic), "the doctor shows the topic:\n%s", doctor)
}

// In a script --notify names the topic. Beside Google Chat it works, too.
func TestSetup_NotifyInAScript(t *testing.T) {
	t.Parallel()
	s, server := newSetupHome(t), newCallServer(t)
	s.env = append(s.env, "GOOGLE_CHAT_WEBHOOK_URL="+s.webhookURL)
	setup := func(code int, text, notify string) {
		t.Helper()
		s.wantRun(code, text, "setup", "--send-only", "--no-hooks", "--notify", notify)
	}
	for _, wrong := range []string{
		"https://ann:pass@ntfy.example/x", "ftp://ntfy.example/x", "a b", "https://",
	} {
		setup(4, "is not the address of an ntfy topic", wrong)
	}
	server.AnswerWith(http.StatusNotFound)
	setup(1, "notifications do not work yet: the notification was refused", server.URL+"/mine")
	server.AnswerWith(http.StatusOK)
	setup(0, "Done.", "off")
	kit.Equalf(t, s.savedNotify(), nil, "notify")
	setup(0, "accepted a test notification", server.URL+"/mine")
	kit.Equal(t, s.savedNotify(), map[string]string{"url": server.URL + "/mine"})
	kit.Equal(t, callsTo(server), []string{"mine: This is how you are notified. → "})
}
