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
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
)

// buildProgram builds gchat-hooks, once for all tests.
var buildProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.TempDir(), "gchat-hooks")
	return path, bound.Build(path)
})

// A hookedSession is a Claude Code with our hooks and an embedded space: all of the
// product, and the real thing around it.
type hookedSession struct {
	*session
	space    *space.Space
	gate     *postGate
	spaceEnv []string // what leads to the space
	pageURL  string   // its page's address
}

// questionEvents are the events that the README has a person register.
var questionEvents = []string{"PreToolUse", "PermissionRequest", "PostToolUse", "UserPromptSubmit", "Stop", "SessionEnd"}

// startAsking starts a session that asks through the embedded space; cfg.Hooks is filled
// for the given events.
func startAsking(t *testing.T, c claude, cfg config, events ...string) *hookedSession {
	t.Helper()
	cfg.Hooks = questionHooks(t, events...)
	return startHooked(t, c, cfg)
}

// questionHooks are the hooks of questions, for the given events.
func questionHooks(t testing.TB, events ...string) hooks {
	t.Helper()
	exe := builtProgram(t)
	hooks := hooks{}
	for _, event := range events {
		h := hook{Command: exe + " hook gchat-ask-user-answered", Timeout: 10}
		switch event {
		case "PreToolUse", "PermissionRequest":
			h = hook{Matcher: "AskUserQuestion", Command: exe + " hook gchat-ask-user-forward", Timeout: 86400}
		case "PostToolUse":
			h.Matcher = "AskUserQuestion"
		}
		hooks[event] = []hook{h}
	}
	return hooks
}

func builtProgram(t testing.TB) string {
	t.Helper()
	exe, err := buildProgram()
	if err != nil {
		t.Fatal("build gchat-hooks:", err)
	}
	return exe
}

// startHooked starts a session with an embedded space of its own.
func startHooked(t *testing.T, c claude, cfg config) *hookedSession {
	t.Helper()
	requireIsolation(t)
	chat, err := space.Open(space.Options{IsDirect: cfg.App})
	kit.NoError(t, err)
	b := &hookedSession{space: chat, gate: newPostGate()}
	rules := []strict.Rule{strict.Embedded}
	if cfg.App {
		rules = append(rules, strict.DirectMessage)
	}
	server := httptest.NewServer(b.gate.wrap(strict.CheckRequests(t, chat.Handler(), rules...)))
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
	b.spaceEnv = []string{"GOOGLE_CHAT_WEBHOOK_URL=" + chat.WebhookURL(server.URL), "GCHAT_API_ENDPOINT=" + chat.APIEndpoint(server.URL),
		"GCHAT_ALLOWED_USERS=" + space.PersonName, "GCHAT_POLLER_INTERVAL=0.2"}
	if cfg.App {
		b.spaceEnv[0] = "GOOGLE_CHAT_SPACE_ID=" + space.Name
		b.spaceEnv = append(b.spaceEnv, "GCHAT_PUBSUB_SUBSCRIPTION="+space.Subscription, "GCHAT_PUBSUB_ENDPOINT="+chat.APIEndpoint(server.URL))
	}
	b.pageURL = chat.PageURL(server.URL)
	cfg.Env = append(slices.Clone(b.spaceEnv), cfg.Env...)
	b.session = startSession(t, c, cfg)
	t.Cleanup(func() { // before the home goes
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(b.Home, ".claude", "logs", "gchat-hooks.log"))
			t.Logf("log of the hooks:\n%s", log)
		}
	})
	return b
}

// startBeside starts another session with the same space.
func (b *hookedSession) startBeside(cfg config) *hookedSession {
	b.t.Helper()
	cfg.Env = append(cfg.Env, b.spaceEnv...)
	return &hookedSession{session: startSession(b.t, b.Claude, cfg), space: b.space, gate: b.gate, spaceEnv: b.spaceEnv, pageURL: b.pageURL}
}

// A postGate holds back every post to Chat while it is shut: Chat hangs.
type postGate struct {
	mu     sync.Mutex
	opened chan struct{}
}

func newPostGate() *postGate {
	g := &postGate{opened: make(chan struct{})}
	close(g.opened)
	return g
}

func (g *postGate) holdBack() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = make(chan struct{})
}

func (g *postGate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		close(g.opened)
	}
}

func (g *postGate) wrap(h http.Handler) http.Handler {
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

// awaitPost waits for a message of the space that begins so and holds every one of the
// parts.
func (b *hookedSession) awaitPost(prefix string, parts ...string) *chat.Message {
	b.t.Helper()
	return b.awaitPostFunc(fmt.Sprintf("%s with %q", prefix, parts), func(m *chat.Message) bool {
		text := cmp.Or(m.Text, m.FallbackText)
		return strings.HasPrefix(text, prefix) && containsAll(text, parts)
	})
}

// awaitPostFunc waits for the first message of the space that is as wanted.
func (b *hookedSession) awaitPostFunc(what string, wanted func(*chat.Message) bool) (found *chat.Message) {
	b.t.Helper()
	bound.Until(b.t, "a message "+what, func() bool {
		messages := b.space.Messages()
		index := slices.IndexFunc(messages, wanted)
		if index >= 0 {
			found = messages[index]
		}
		return found != nil
	})
	return found
}

func containsAll(s string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

// reply answers in a message's thread, as the person does on the page.
func (b *hookedSession) reply(to *chat.Message, text string) {
	b.t.Helper()
	if _, err := b.space.PostAs(space.Person(), to.Thread.Name, text); err != nil {
		b.t.Fatal(err)
	}
}

// awaitResult checks what the model was told in its n-th tool result.
func (b *hookedSession) awaitResult(n int, parts ...string) {
	b.t.Helper()
	if got := b.API.WaitToolResult(b.t, n); !containsAll(got.Text, parts) {
		b.t.Errorf("the model was told %q, which does not hold %q", got.Text, parts)
	}
}

// awaitResults checks what the model was told in two tool results, in whichever order
// they came.
func (b *hookedSession) awaitResults(parts ...string) {
	b.t.Helper()
	b.awaitResult(2)
	texts := ""
	for _, r := range b.API.ToolResults() {
		texts += r.Text + "\n"
	}
	if !containsAll(texts, parts) {
		b.t.Errorf("the model was told %q, which does not hold all of %q", texts, parts)
	}
}
