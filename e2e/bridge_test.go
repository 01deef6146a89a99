package e2e

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
)

// program builds gchat-hooks, once for all tests.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.TempDir(), "gchat-hooks")
	return path, bound.Build(path)
})

// A bridge is a Claude Code with our hooks and an embedded space: all of the product, and the real thing around it.
type bridge struct {
	*session
	chat *space.Space
	gate *gate
	env  []string // what leads to the space
	page string   // its page's address
}

// all are the events that the README has a person register.
var all = []string{"PreToolUse", "PermissionRequest", "PostToolUse", "UserPromptSubmit", "Stop", "SessionEnd"}

// connect starts a session that asks through the embedded space; cfg.Hooks is filled for the given events.
func connect(t *testing.T, c claude, cfg config, events ...string) *bridge {
	t.Helper()
	cfg.Hooks = asking(t, events...)
	return bridged(t, c, cfg)
}

// asking are the hooks of questions, for the given events.
func asking(t testing.TB, events ...string) hooks {
	t.Helper()
	exe := built(t)
	all := hooks{}
	for _, event := range events {
		h := hook{Command: exe + " hook gchat-ask-user-answered", Timeout: 10}
		switch event {
		case "PreToolUse", "PermissionRequest":
			h = hook{Matcher: "AskUserQuestion", Command: exe + " hook gchat-ask-user-forward", Timeout: 86400}
		case "PostToolUse":
			h.Matcher = "AskUserQuestion"
		}
		all[event] = []hook{h}
	}
	return all
}

func built(t testing.TB) string {
	t.Helper()
	exe, err := program()
	if err != nil {
		t.Fatal("build gchat-hooks:", err)
	}
	return exe
}

// bridged starts a session with an embedded space of its own.
func bridged(t *testing.T, c claude, cfg config) *bridge {
	t.Helper()
	requireIsolation(t)
	chat, err := space.Open(space.Options{Direct: cfg.App})
	if err != nil {
		t.Fatal(err)
	}
	b := &bridge{chat: chat, gate: newGate()}
	rules := []strict.Rule{strict.Embedded}
	if cfg.App {
		rules = append(rules, strict.DirectMessage)
	}
	server := httptest.NewServer(b.gate.before(strict.Google(t, chat.Handler(), rules...)))
	t.Cleanup(func() {
		if t.Failed() {
			for _, m := range chat.Messages() {
				t.Logf("space: %s: %q", m.Sender.Name, cmp.Or(m.Text, m.FallbackText))
			}
		}
		b.gate.open()
		server.CloseClientConnections()
		server.Close()
		chat.Close()
	})
	b.env = []string{"GOOGLE_CHAT_WEBHOOK_URL=" + chat.WebhookURL(server.URL), "GCHAT_API_ENDPOINT=" + chat.APIEndpoint(server.URL),
		"GCHAT_ALLOWED_USERS=" + space.Human, "GCHAT_POLLER_INTERVAL=0.2"}
	if cfg.App {
		b.env[0] = "GOOGLE_CHAT_SPACE_ID=" + space.Name
		b.env = append(b.env, "GCHAT_PUBSUB_SUBSCRIPTION="+space.Subscription, "GCHAT_PUBSUB_ENDPOINT="+chat.APIEndpoint(server.URL))
	}
	b.page = chat.PageURL(server.URL)
	cfg.Env = append(slices.Clone(b.env), cfg.Env...)
	b.session = start(t, c, cfg)
	t.Cleanup(func() { // before the home goes
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(b.Home, ".claude", "logs", "gchat-hooks.log"))
			t.Logf("log of the hooks:\n%s", log)
		}
	})
	return b
}

// beside starts another session with the same space.
func (b *bridge) beside(cfg config) *bridge {
	b.t.Helper()
	cfg.Env = append(cfg.Env, b.env...)
	return &bridge{session: start(b.t, b.Claude, cfg), chat: b.chat, gate: b.gate, env: b.env, page: b.page}
}

// A gate holds back every post to Chat while it is shut: Chat hangs.
type gate struct {
	mu     sync.Mutex
	opened chan struct{}
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{})}
	close(g.opened)
	return g
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		close(g.opened)
	}
}

func (g *gate) before(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		opened := g.opened
		g.mu.Unlock()
		if r.Method == http.MethodPost {
			<-opened
		}
		h.ServeHTTP(w, r)
	})
}

// await waits for a message of the space that begins so and holds every one of the parts.
func (b *bridge) await(beginning string, parts ...string) *chat.Message {
	b.t.Helper()
	return b.awaitMessage(fmt.Sprintf("%s with %q", beginning, parts), func(m *chat.Message) bool {
		text := cmp.Or(m.Text, m.FallbackText)
		return strings.HasPrefix(text, beginning) && holdsAll(text, parts)
	})
}

// awaitMessage waits for the first message of the space that is as wanted.
func (b *bridge) awaitMessage(what string, wanted func(*chat.Message) bool) (found *chat.Message) {
	b.t.Helper()
	bound.Until(b.t, "a message "+what, func() bool {
		all := b.chat.Messages()
		at := slices.IndexFunc(all, wanted)
		if at >= 0 {
			found = all[at]
		}
		return found != nil
	})
	return found
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

// toldOfBoth checks what the model was told in two tool results, in whichever order they came.
func (b *bridge) toldOfBoth(parts ...string) {
	b.t.Helper()
	b.told(2)
	texts := ""
	for _, r := range b.API.ToolResults() {
		texts += r.Text + "\n"
	}
	if !holdsAll(texts, parts) {
		b.t.Errorf("the model was told %q, which does not hold all of %q", texts, parts)
	}
}
