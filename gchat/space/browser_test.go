package space

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

const (
	askDeployment = `[AskUserQuestion] Session: orch-epic4

Deployment Strategy
Which deployment approach should we use?

Options:
1. Blue-green deployment — Zero-downtime with instant rollback.
2. Rolling deployment — Gradual rollout.
3. Recreate — Simple; a short downtime.

Reply with the option number (e.g., "2") or type a custom response.
Thread key: ask-user-a1b2c3d4`

	askFeatures = `[AskUserQuestion] Session: web-shop

Features
Which features should the first release have?

Options:
1. Search — Full text, with typo tolerance.
2. Wish lists
3. Gift cards — Needs the new payment provider.

Reply with comma-separated numbers (e.g., "1,3") or type a custom response.
Thread key: ask-user-0badcafe`

	askRetries = `[AskUserQuestion] Session: mail-worker

Retry policy
How often should a failed delivery be tried again?

Options:
1. Five times in an hour — Then it goes to the dead letters.
2. Until it works

Reply with the option number (e.g., "2") or type a custom response.
Thread key: ask-user-cafe1234`

	askTwo = `[AskUserQuestion] Session: api-gateway

Q1. Database
Where should sessions be stored?

Options:
1. PostgreSQL — What we have.
2. Redis — Faster, one more service.

---

Q2. Checks
Which checks should block a merge?

Options (choose one or more):
1. Unit tests
2. Lint
3. Race detector — Twice as slow.

Reply with answers in order, each on its own line:
Q1: <answer>
Q2: <answer>
Thread key: ask-user-5eed5eed`
)

// browser starts a headless Chromium, or skips the test when there is none.
func browser(t *testing.T) context.Context {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
			t.Fatal("no chromium on the PATH, and GCHAT_E2E_REQUIRED=1")
		}
		t.Skip("no chromium on the PATH")
	}
	if testing.Short() {
		t.Skip("a browser takes seconds")
	}
	home, err := os.MkdirTemp("", "browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) }) // not a failure when the browser, which is going, writes there once more
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx,
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()),
		chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home), // it writes there beside its own folder
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("hide-scrollbars", true),
	)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		chromedp.Cancel(ctx) // waits until the browser is gone, and its folder can go
		cancel()
	})
	if err := chromedp.Do(ctx); err != nil { // the browser lives as long as this call's context
		t.Fatalf("start %s: %v", path, err)
	}
	phone(t, ctx)
	return ctx
}

func phone(t *testing.T, ctx context.Context) {
	do(t, ctx, chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(2), chromedp.EmulateMobile))
}

func do(t *testing.T, ctx context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatalf("browser: %v", err)
	}
}

// until waits for a condition of the page, written in JavaScript. Where it throws,
// it does not hold yet.
func until(t *testing.T, ctx context.Context, condition string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool]("(() => { try { return Boolean("+condition+") } catch { return false } })()")); err != nil {
		t.Fatalf("the page never came to %s: %v", condition, err)
	}
}

func click(t *testing.T, ctx context.Context, selector string) {
	t.Helper()
	do(t, ctx, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

func screenshot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	dir := os.Getenv("GCHAT_SCREENSHOTS")
	if dir == "" {
		dir = t.TempDir()
	}
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

// ask posts a question as the forwarder does and returns its thread.
func ask(t *testing.T, s *Space, base, key, text string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"text": text, "thread": map[string]string{"threadKey": key}})
	if err != nil {
		t.Fatal(err)
	}
	code, v := postTo(t, s.WebhookURL(base)+"&messageReplyOption="+replyOrFallback, string(body))
	if code != 200 {
		t.Fatal(code, v)
	}
	return v["thread"].(map[string]any)["name"].(string)
}

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// replied waits for the reply of the person in a thread.
func replied(t *testing.T, s *Space, thread string, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		_, changed := s.after(0)
		var said []string
		for _, m := range s.Messages() {
			if m.Thread.Name == thread && m.Sender.Name == Human {
				said = append(said, m.Text)
			}
		}
		if len(said) >= n {
			return said
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%q is all that was replied", said)
		}
	}
}

func wantReplies(t *testing.T, s *Space, thread string, want ...string) {
	t.Helper()
	if got := replied(t, s, thread, len(want)); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("replies %q, want %q", got, want)
	}
}

func openThread(t *testing.T, ctx context.Context, thread string) {
	t.Helper()
	until(t, ctx, fmt.Sprintf(`document.querySelector('[data-thread="%s"]')`, thread))
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`location.hash = ''`))
	click(t, ctx, fmt.Sprintf(`[data-thread="%s"]`, thread))
}

func TestPage(t *testing.T) {
	ctx := browser(t)
	s, srv := testServer(t, Options{})
	do(t, ctx, chromedp.Navigate(s.PageURL(srv.URL)))
	until(t, ctx, `document.querySelector('#link').dataset.state === 'live' && !document.querySelector('#no-threads').hidden`)
	screenshot(t, ctx, "phone-empty")

	t.Run("a question comes live, a button answers it", func(t *testing.T) {
		do(t, ctx, chromedp.Evaluate[chromedp.Void](`window.sameDocument = true`))
		thread := ask(t, s, srv.URL, "k1", askDeployment)
		until(t, ctx, `document.title === '(1) Local space'`)
		openThread(t, ctx, thread)
		until(t, ctx, `document.querySelectorAll('[data-option]').length === 3`)
		screenshot(t, ctx, "phone-question")
		click(t, ctx, `[data-option="2"]`)
		wantReplies(t, s, thread, "2")
		until(t, ctx, `document.title === 'Local space' && document.querySelector('[data-option="2"]').disabled`)
		until(t, ctx, `document.querySelector('.mine .meaning').textContent === 'Rolling deployment'`)

		ask(t, s, srv.URL, "k1", "[Answered] orch-epic4\n\nQuestion: Which deployment approach should we use?\nSelected: Rolling deployment")
		until(t, ctx, `document.querySelector('#thread-state').dataset.state === 'answered'`)
		until(t, ctx, `[...document.querySelectorAll('[data-option]')].every((b) => b.disabled)`)
		until(t, ctx, `window.sameDocument && document.querySelectorAll('[data-message]').length === 3`)
		screenshot(t, ctx, "phone-answered")
	})
	t.Run("a typed reply answers", func(t *testing.T) {
		thread := ask(t, s, srv.URL, "k2", askDeployment)
		openThread(t, ctx, thread)
		do(t, ctx, chromedp.SendKeys(chromedp.CSS(`[data-reply]`), "neither, <b>wait</b>\n"))
		wantReplies(t, s, thread, "neither, <b>wait</b>")
		until(t, ctx, `document.querySelector('.mine .bubble').textContent === 'neither, <b>wait</b>' && !document.querySelector('[data-reply]').value`)

		// The session did not understand: the question is open again.
		ask(t, s, srv.URL, "k2", "Please choose one of the options.")
		until(t, ctx, `document.querySelector('#thread-state').dataset.state === 'open' && !document.querySelector('[data-option="1"]').disabled`)
		do(t, ctx, chromedp.SendKeys(chromedp.CSS(`[data-reply]`), "Blue-green"))
		do(t, ctx, chromedp.Evaluate[chromedp.Void](`document.querySelector('[data-reply]').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', shiftKey: true, cancelable: true}))`))
		click(t, ctx, `[data-send]`)
		wantReplies(t, s, thread, "neither, <b>wait</b>", "Blue-green")
	})
	t.Run("several options", func(t *testing.T) {
		thread := ask(t, s, srv.URL, "k3", askFeatures)
		openThread(t, ctx, thread)
		until(t, ctx, `document.querySelector('[data-send-choices]').disabled && document.querySelector('[data-send]').disabled`)
		for _, n := range []string{"3", "2", "1", "2"} { // 2 on, and off again
			click(t, ctx, `[data-option="`+n+`"]`)
		}
		screenshot(t, ctx, "phone-multi")
		click(t, ctx, `[data-send-choices]`)
		wantReplies(t, s, thread, "1,3")
	})
	t.Run("two questions", func(t *testing.T) {
		thread := ask(t, s, srv.URL, "k4", askTwo)
		openThread(t, ctx, thread)
		until(t, ctx, `document.querySelectorAll('[data-question]').length === 2`)
		click(t, ctx, `[data-question="1"] [data-option="1"]`)
		click(t, ctx, `[data-question="1"] [data-option="2"]`) // one only: takes the place of 1
		until(t, ctx, `document.querySelector('[data-send-choices]').disabled`)
		click(t, ctx, `[data-question="2"] [data-option="1"]`)
		click(t, ctx, `[data-question="2"] [data-option="3"]`)
		screenshot(t, ctx, "phone-two")
		click(t, ctx, `[data-send]`) // the other send button does the same
		wantReplies(t, s, thread, "Q1: 2\nQ2: 1,3")
		until(t, ctx, `document.querySelector('.mine .meaning').textContent === 'Redis\nUnit tests, Race detector'`)
	})
	t.Run("mutilated questions", func(t *testing.T) {
		found, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf(`(async (texts) => {
			const { parseQuestion, composeReply, readReply } = await import('/page/question.js');
			for (const text of texts) {
				const lines = text.split('\n');
				const cuts = lines.flatMap((_, i) => [lines.slice(0, i), lines.slice(i), lines.toSpliced(i, 1), lines.toSpliced(i, 0, lines[i]), lines.toSpliced(i, 0, '---')]);
				for (const cut of cuts) {
					const q = parseQuestion(cut.join('\n'));
					if (!q) continue;
					if (!q.sections[0]) return 'no section in ' + cut.join('|');
					const all = q.sections.map((s) => new Set(s.options.map((_, i) => i + 1)));
					const reply = composeReply(q, all);
					if (reply !== null && composeReply(q, readReply(q, reply)) !== reply) return reply + ' is not read back';
				}
			}
			const blank = parseQuestion('[AskUserQuestion] Session: s\n\nWhich?\n\nOptions:\n1. a\n2.\n3. c\n\nReply with the option number (e.g., "2")');
			if (blank.sections[0].options.map((o) => o.label).join() !== 'a,,c') return 'an empty label breaks the list';
			return 'nothing';
		})(%s)`, jsonText([]string{askDeployment, askFeatures, askTwo, askRetries})), chromedp.EvalAwaitPromise))
		if err != nil || found != "nothing" {
			t.Errorf("found %s (%v)", found, err)
		}
		ask(t, s, srv.URL, "k7", "[AskUserQuestion] Session: broken\n\nReply with answers in order, each on its own line:")
		ask(t, s, srv.URL, "k8", "[AskUserQuestion] Session: no-options\n\nName\nWhat shall it be called?\n\nReply with a custom response.\nThread key: ask-user-1")
		until(t, ctx, `[...document.querySelectorAll('[data-thread]')].some((n) => n.dataset.state === 'open' && n.textContent.includes('What shall it be called?'))`)
	})
	t.Run("cancelled", func(t *testing.T) {
		thread := ask(t, s, srv.URL, "k5", askDeployment)
		openThread(t, ctx, thread)
		ask(t, s, srv.URL, "k5", "[Cancelled] The session ended.")
		until(t, ctx, `document.querySelector('#thread-state').dataset.state === 'cancelled' && document.querySelector('[data-option="1"]').disabled`)
	})
	t.Run("a message is text, whatever it says", func(t *testing.T) {
		thread := ask(t, s, srv.URL, "k6", "[Stop] <img src=x onerror=alert(1)> *done* in `main.go`, see <https://example.com/a|the log>, not <javascript:alert(1)|this>\n```\nok  \tall 12 *tests*\n```\n- _one_\n- two")
		openThread(t, ctx, thread)
		until(t, ctx, `document.querySelector('.theirs strong')?.textContent === 'done'`)
		until(t, ctx, `document.querySelector('.theirs pre').textContent === 'ok  \tall 12 *tests*'`)
		until(t, ctx, `document.querySelectorAll('#messages a').length === 1 && document.querySelector('#messages a').href === 'https://example.com/a'`)
		until(t, ctx, `!document.querySelector('#messages img') && document.querySelector('.theirs').textContent.includes('<img src=x onerror=alert(1)>')`)
		screenshot(t, ctx, "phone-markup")
	})
}

// TestScreens draws the screens of the manual.
func TestScreens(t *testing.T) {
	ctx := browser(t)
	now := time.Now().Add(-50 * time.Minute)
	s, srv := testServer(t, Options{Now: func() time.Time { return now }})
	ask(t, s, srv.URL, "done", "[Session ended] *docs-site*: 14 files changed, all tests pass. <https://example.com/log|Log>")
	now = now.Add(9 * time.Minute)
	answered := ask(t, s, srv.URL, "old", askRetries)
	now = now.Add(time.Minute)
	if _, err := s.Say(nil, answered, "1"); err != nil {
		t.Fatal(err)
	}
	ask(t, s, srv.URL, "old", "[Answered] Retry policy: *Five times in an hour*")
	now = now.Add(27 * time.Minute)
	ask(t, s, srv.URL, "two", askTwo)
	now = now.Add(8 * time.Minute)
	ask(t, s, srv.URL, "features", askFeatures)
	now = time.Now()
	thread := ask(t, s, srv.URL, "new", askDeployment)

	for _, scheme := range []string{"light", "dark"} {
		do(t, ctx, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			return err
		}))
		phone(t, ctx)
		do(t, ctx, chromedp.Navigate(srv.URL+"/"), chromedp.Reload())
		until(t, ctx, `document.title === '(3) Local space' && document.querySelectorAll('[data-thread]').length === 5`)
		until(t, ctx, fmt.Sprintf(`document.querySelector('[data-thread]').dataset.thread === '%s'`, thread)) // newest first
		screenshot(t, ctx, "phone-list-"+scheme)
		openThread(t, ctx, thread)
		until(t, ctx, `document.querySelectorAll('[data-option]').length === 3`)
		screenshot(t, ctx, "phone-thread-"+scheme)
		do(t, ctx, chromedp.EmulateViewport(1280, 800))
		until(t, ctx, `document.querySelector('#list-pane').offsetWidth > 300 && document.querySelector('#thread-pane').offsetWidth > 800`)
		screenshot(t, ctx, "desktop-"+scheme)
	}
}

// TestFailedReply cuts the page from its server and brings it back.
func TestFailedReply(t *testing.T) {
	ctx := browser(t)
	s, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var down, swallow atomic.Bool
	h := s.Handler()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/page/messages" && down.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		if r.URL.Path == "/page/messages" && swallow.Load() { // posted, but the answer is lost
			h.ServeHTTP(httptest.NewRecorder(), r)
			http.Error(w, "lost", http.StatusBadGateway)
			return
		}
		h.ServeHTTP(w, r)
	}))
	defer srv.Close()
	defer s.Close() // first: it ends the event streams
	thread := ask(t, s, srv.URL, "k", askDeployment)
	do(t, ctx, chromedp.Navigate(s.PageURL(srv.URL)))
	openThread(t, ctx, thread)

	down.Store(true)
	click(t, ctx, `[data-option="1"]`)
	until(t, ctx, `document.querySelector('[data-retry]') && document.title === '(1) Local space' && !document.querySelector('[data-option="1"]').disabled`)
	screenshot(t, ctx, "phone-failed")
	down.Store(false)
	click(t, ctx, `[data-retry]`)
	wantReplies(t, s, thread, "1")
	until(t, ctx, `!document.querySelector('[data-retry]') && document.querySelectorAll('.mine').length === 1`)

	// A retry of what did arrive must not arrive twice.
	ask(t, s, srv.URL, "k", "Which one?")
	swallow.Store(true)
	do(t, ctx, chromedp.SendKeys(chromedp.CSS(`[data-reply]`), "the first\n"))
	wantReplies(t, s, thread, "1", "the first")
	until(t, ctx, `document.querySelectorAll('.mine').length === 2 && !document.querySelector('[data-retry]')`)

	// With a token, the page works through its cookie; and a page whose server
	// came back with other messages shows those.
	do(t, ctx, chromedp.Navigate("about:blank"))
	private, psrv := testServer(t, Options{Phone: true, Token: "sesame"})
	other := ask(t, private, psrv.URL, "k", askFeatures)
	do(t, ctx, chromedp.Navigate(private.PageURL(psrv.URL)))
	openThread(t, ctx, other)
	do(t, ctx, chromedp.SendKeys(chromedp.CSS(`[data-reply]`), "all\n"))
	wantReplies(t, private, other, "all")
}
