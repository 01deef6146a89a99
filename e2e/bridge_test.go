package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/gchat/space"
)

// program builds gchat-hooks, once for all tests.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.TempDir(), "gchat-hooks")
	build := exec.Command("go", "build", "-o", path, "gchat-hooks")
	build.Stderr = os.Stderr
	return path, build.Run()
})

// A bridge is a Claude Code with our hooks and an embedded space: all of the product, and the real thing around it.
type bridge struct {
	*session
	chat *space.Space
}

// all are the events that the README has a person register, all known to 2.1.45.
var all = []string{"PreToolUse", "PermissionRequest", "PostToolUse", "UserPromptSubmit", "Stop", "SessionEnd"}

// connect starts a session that asks through the embedded space; cfg.Hooks is filled for the given events.
func connect(t *testing.T, c claude, cfg config, events ...string) *bridge {
	t.Helper()
	requireIsolation(t)
	exe, err := program()
	if err != nil {
		t.Fatal("build gchat-hooks:", err)
	}
	chat, err := space.Open(space.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = space.Serve(t.Context(), ln, chat) }()
	b := &bridge{chat: chat}
	t.Cleanup(func() {
		if t.Failed() {
			for _, m := range chat.Messages() {
				t.Logf("space: %s: %q", m.Sender.Name, m.Text)
			}
			if b.session != nil {
				log, _ := os.ReadFile(filepath.Join(b.Home, ".claude", "logs", "gchat-hooks.log"))
				t.Logf("log of the hooks:\n%s", log)
			}
		}
		<-served
		chat.Close()
	})
	base := "http://" + ln.Addr().String()
	cfg.Env = append(cfg.Env, "GOOGLE_CHAT_WEBHOOK_URL="+chat.WebhookURL(base), "GCHAT_API_ENDPOINT="+chat.APIEndpoint(base),
		"GCHAT_ALLOWED_USERS="+space.Human, "GCHAT_POLLER_INTERVAL=0.2")
	cfg.Hooks = hooks{}
	for _, event := range events {
		h := hook{Command: exe + " hook gchat-ask-user-answered", Timeout: 10}
		switch event {
		case "PreToolUse", "PermissionRequest":
			h = hook{Matcher: "AskUserQuestion", Command: exe + " hook gchat-ask-user-forward", Timeout: 86400}
		case "PostToolUse":
			h.Matcher = "AskUserQuestion"
		}
		cfg.Hooks[event] = []hook{h}
	}
	b.session = start(t, c, cfg)
	return b
}

// await waits for a message of the space that begins so and holds every one of the parts.
func (b *bridge) await(beginning string, parts ...string) *chat.Message {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		for _, m := range b.chat.Messages() {
			if strings.HasPrefix(m.Text, beginning) && holdsAll(m.Text, parts) {
				return m
			}
		}
		time.Sleep(glance / 5)
	}
	b.t.Fatalf("no message %s with %q in the space", beginning, parts)
	return nil
}

func holdsAll(s string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

// reply answers in a message's thread, as the person does on the page.
func (b *bridge) reply(to *chat.Message, text string) {
	b.t.Helper()
	if _, err := b.chat.Say(space.Person(), to.Thread.Name, text); err != nil {
		b.t.Fatal(err)
	}
}

// told checks what the model was told in its n-th tool result.
func (b *bridge) told(n int, parts ...string) {
	b.t.Helper()
	if got := b.API.WaitToolResult(b.t, n); !holdsAll(got.Text, parts) {
		b.t.Errorf("the model was told %q, which does not hold %q", got.Text, parts)
	}
}
