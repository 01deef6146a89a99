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
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
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
		chromedp.Flag("host-resolver-rules", "MAP phone.test 127.0.0.1"),
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
		_, _, changed := s.after(0)
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
			const { parseQuestion, composeReply } = await import('/page/question.js');
			const { readReplies } = await import('/page/reply.js');
			for (const text of texts) {
				const lines = text.split('\n');
				const cuts = lines.flatMap((_, i) => [lines.slice(0, i), lines.slice(i), lines.toSpliced(i, 1), lines.toSpliced(i, 0, lines[i]), lines.toSpliced(i, 0, '---')]);
				for (const cut of cuts) {
					const q = parseQuestion(cut.join('\n'));
					if (!q) continue;
					if (!q.sections[0]) return 'no section in ' + cut.join('|');
					const all = q.sections.map((s) => new Set(s.options.map((_, i) => i + 1).slice(0, s.multi ? undefined : 1)));
					const reply = composeReply(q, all);
					if (reply !== null && composeReply(q, readReplies(q, [reply]).all.map((s) => s ?? new Set())) !== reply) return reply + ' is not read back';
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
	t.Run("a typed reply marks what it chooses", func(t *testing.T) {
		thread := ask(t, s, srv.URL, "k9", askDeployment)
		openThread(t, ctx, thread)
		do(t, ctx, chromedp.SendKeys(chromedp.CSS(`[data-reply]`), "re")) // too short for a label's beginning
		until(t, ctx, `!document.querySelector('[data-send]').disabled && !document.querySelector('[aria-pressed="true"]')`)
		do(t, ctx, chromedp.SendKeys(chromedp.CSS(`[data-reply]`), "\b\broll"))
		until(t, ctx, `document.querySelector('[data-option="2"]').ariaPressed === 'true'`)
		do(t, ctx, chromedp.SendKeys(chromedp.CSS(`[data-reply]`), "\n"))
		wantReplies(t, s, thread, "roll")
		until(t, ctx, `document.querySelector('[data-option="2"]').ariaPressed === 'true' && document.querySelector('.mine .meaning').textContent === 'Rolling deployment'`)
		do(t, ctx, chromedp.SendKeys(chromedp.CSS(`[data-reply]`), "rolling Deployment\n")) // says what it means
		wantReplies(t, s, thread, "roll", "rolling Deployment")
		until(t, ctx, `document.querySelectorAll('.mine').length === 2 && [...document.querySelectorAll('.mine .meaning')].at(-1).textContent === ''`)
	})
	t.Run("Markdown in a question", func(t *testing.T) {
		text := wording.QuestionTexts(&state.Question{SessionName: "web-shop", Machine: "vps1", ThreadKey: "k10", Questions: []state.Prompt{{
			Header: "Plan", Question: "## Which *plan*?\n\n- **fast**, see `a.go`\n- <img src=x onerror=alert(1)> [x](javascript:alert(1))\n```go\nx := 1\n```",
			Options: []state.Option{{Label: "The `first`", Description: "**bold** <b>no</b>"}, {Label: "second"}}}}})
		openThread(t, ctx, ask(t, s, srv.URL, "k10", strings.ReplaceAll(text[0], "‹", "<"))) // as another program might post it
		until(t, ctx, `document.querySelector('.ask p strong').textContent === 'Which plan?' && document.querySelectorAll('.ask .bullet').length === 2`)
		until(t, ctx, `document.querySelector('.ask .bullet strong').textContent === 'fast' && document.querySelector('.ask pre').textContent === 'x := 1'`)
		until(t, ctx, `document.querySelector('.label code').textContent === 'first' && document.querySelector('.description strong').textContent === 'bold'`)
		until(t, ctx, `!document.querySelector('.card img, .card b, .card a') && document.querySelector('.description').textContent.includes('<b>no</b>')`)
		screenshot(t, ctx, "phone-markdown")
	})
	t.Run("the box is off where a reply would not be read", func(t *testing.T) {
		const off = `document.querySelector('[data-reply]').disabled && document.querySelector('#unread-words').textContent.startsWith(%q)`
		const on = `!document.querySelector('[data-reply]').disabled && document.querySelector('#unread').hidden`
		anyway := func(offered bool) string {
			return fmt.Sprintf(`document.querySelector('#anyway').hidden === %t`, !offered)
		}
		for _, c := range []struct{ name, text, want string }{
			{"answered", "[Answered] orch-epic4\n\nQuestion: Which?\nSelected: Recreate", "This question has its answer."},
			{"followed up", "Here is more: what now?", ""}, // gchat-wait may wait here
			{"closed", "[Cancelled] orch-epic4\n\nQuestion: Which?\n\nThe session ended.", "This question is closed."},
			{"in time for Claude only", "[Timeout] orch-epic4\n\nQuestion: Which?\n\nNobody replied in time. Claude goes on without an answer; a reply still reaches it.", ""},
			{"chosen", "[Timeout] orch-epic4\n\nQuestion: Which?\nChosen by the timeout policy, not by you: Recreate\n\nNobody replied in time.", "The time for this question is over."},
		} {
			key := "off-" + c.name
			thread := ask(t, s, srv.URL, key, askDeployment)
			openThread(t, ctx, thread)
			until(t, ctx, on)
			if c.name == "followed up" {
				ask(t, s, srv.URL, key, "[Answered] orch-epic4\n\nQuestion: Which?\nSelected: Recreate")
			}
			ask(t, s, srv.URL, key, c.text)
			until(t, ctx, fmt.Sprintf(`document.querySelectorAll('[data-message]').length >= 2 && document.querySelector('#messages').textContent.includes(%q)`, c.text[len(c.text)-10:]))
			if c.want == "" {
				until(t, ctx, on)
			} else {
				until(t, ctx, fmt.Sprintf(off, c.want)+" && "+anyway(false))
			}
		}
		thread := ask(t, s, srv.URL, "session-9", "[Done] mail-worker | 2026-02-21 10:45:23\n\nAll is sent.")
		openThread(t, ctx, thread)
		until(t, ctx, on+` && document.querySelector('[data-reply]').placeholder === 'Write, if a program waits for it'`)
		ask(t, s, srv.URL, "session-9", wording.NobodyText(&state.Session{}, true))
		until(t, ctx, fmt.Sprintf(off, "Nobody is waiting for a reply here: this thread only")+" && "+anyway(true))
		screenshot(t, ctx, "phone-unread")
		ask(t, s, srv.URL, "session-9", "[Done] mail-worker\n\nSend the rest?")
		until(t, ctx, on)
		ask(t, s, srv.URL, "session-9", "[Session End] mail-worker | 2026-02-21 10:45:23\n\nTurns: 2")
		until(t, ctx, fmt.Sprintf(off, "This session has ended."))
		click(t, ctx, "#anyway")
		until(t, ctx, on+` && document.activeElement === document.querySelector('[data-reply]')`)
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

// What waits for a person is on top, with its project and session, counted in the title and notified once.
func TestWhatWaits(t *testing.T) {
	ctx := browser(t)
	s, srv := testServer(t, Options{})
	const stub = `window.shown = []; document.hasFocus = () => false;
		window.Notification = class { static permission = 'default'; static async requestPermission() { this.permission = 'granted' }
			constructor(title, { body }) { window.shown.push(title + '|' + body) } };`
	do(t, ctx, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: stub})
		return err
	}))
	ask(t, s, srv.URL, "old", askRetries)
	do(t, ctx, chromedp.Navigate(s.PageURL(srv.URL)))
	until(t, ctx, `document.title === '(1) Local space'`)
	click(t, ctx, "#notify")
	until(t, ctx, `document.querySelector('#notify').hidden`)

	ask(t, s, srv.URL, "session-1", "[Session Start] orch-epic4 | 2026-02-21 10:45:23\n\nProject: web-shop\nBranch: main")
	permission := ask(t, s, srv.URL, "session-1", "[Permission] orch-epic4\nClaude needs your permission\nBash: rm -rf build")
	done := ask(t, s, srv.URL, "session-2", "[Done] other | 2026-02-21 10:45:23\n\nThe rest.")
	until(t, ctx, `document.title === '(2) Local space' && window.shown.join() === 'Permission|web-shop · orch-epic4\nClaude needs your permission Bash: rm -rf build'`)
	until(t, ctx, fmt.Sprintf(`[...document.querySelectorAll('[data-thread]')].findIndex((n) => n.dataset.thread === %q) === 0`, permission))
	until(t, ctx, fmt.Sprintf(`[...document.querySelectorAll('[data-thread]')].findIndex((n) => n.dataset.thread === %q) === 2`, done))
	openThread(t, ctx, permission)
	until(t, ctx, `document.querySelector('#thread-session').textContent === 'web-shop · orch-epic4' && document.querySelector('#thread-state').dataset.state === 'open'`)
	screenshot(t, ctx, "phone-permission")

	ask(t, s, srv.URL, "session-1", "[Task Done] orch-epic4\nstep 4") // in the background: the dialog may stand
	until(t, ctx, `document.querySelectorAll('[data-message]').length === 3 && document.title === '(2) Local space'`)
	ask(t, s, srv.URL, "elsewhere", "[Progress] orch-epic4 | 2026-02-21 10:45:23\n\nIt goes on.")
	until(t, ctx, `document.title === '(1) Local space' && window.shown.length === 1`)
	ask(t, s, srv.URL, "blocked", "[BLOCKED] orch-epic4 | 2026-02-21 10:45:23\n\nACTION REQUIRED: the key")
	until(t, ctx, `document.title === '(2) Local space' && window.shown[1] === 'Blocked|web-shop · orch-epic4\nACTION REQUIRED: the key'`)

	// Over plain http, on another address than this machine's own, a browser shows none.
	private, psrv := testServer(t, Options{Phone: true})
	private.secrets.Page = "sesame"
	address := strings.Replace(private.PageURL(psrv.URL), "127.0.0.1", "phone.test", 1)
	do(t, ctx, chromedp.Navigate(address))
	until(t, ctx, `document.querySelector('#link').dataset.state === 'live' && !window.isSecureContext && document.querySelector('#notify').hidden`)
}

// What waits in the terminal alone waits until the thread takes it back, whatever else the session says meanwhile: an agent's
// permission that is asked and answered ends no dialog there.
func TestWhatWaitsInTheTerminalStays(t *testing.T) {
	ctx := browser(t)
	s, srv := testServer(t, Options{})
	do(t, ctx, chromedp.Navigate(s.PageURL(srv.URL)))
	for _, says := range []string{"Claude waits for a permission in the terminal", "Claude waits in the terminal: " + "Claude needs your input"} {
		ask(t, s, srv.URL, "session", "[Permission] web-shop\n"+says)
		ask(t, s, srv.URL, says, askBash)
		until(t, ctx, `document.title === '(2) Local space'`)
		ask(t, s, srv.URL, says, "[Answered] web-shop\n\nAllowed: Bash: rm -rf build")
		until(t, ctx, `document.title === '(1) Local space'`)
		ask(t, s, srv.URL, "session", "[Gone on] The terminal waits for this no more.")
		until(t, ctx, `document.title === 'Local space'`)
	}
}

// A page that hears nothing of its server does not say that nothing waits.
func TestAPageOutOfReachSaysSo(t *testing.T) {
	ctx := browser(t)
	s, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	var down atomic.Bool
	h := s.Handler()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		h.ServeHTTP(w, r)
	}))
	defer srv.Close()
	defer s.Close() // first: it ends the event streams
	const summary = `document.querySelector('#summary').textContent`
	do(t, ctx, chromedp.Navigate(s.PageURL(srv.URL)))
	until(t, ctx, summary+` === 'Nothing waits for you'`)
	down.Store(true)
	srv.CloseClientConnections()
	until(t, ctx, `document.querySelector('#link').textContent === 'Reconnecting'`)
	do(t, ctx, chromedp.Evaluate[chromedp.Void](`{ const now = Date.now; Date.now = () => now() + 20000 }`))
	until(t, ctx, summary+` === 'Out of reach: what waits is not known'`)
	down.Store(false)
	until(t, ctx, summary+` === 'Nothing waits for you'`)
}

// The page reads replies as the poller does.
func TestThePageReadsRepliesAsThePollerDoes(t *testing.T) {
	ctx := browser(t)
	s, srv := testServer(t, Options{})
	do(t, ctx, chromedp.Navigate(s.PageURL(srv.URL)))
	one := []state.Prompt{{Header: "Deploy", Question: "Which?", Options: []state.Option{
		{Label: "Blue-green"}, {Label: "Rolling deployment"}, {Label: "Rolling back – slowly"}, {Label: "Node.js, and more"}, {Label: "Surefire"}, {Label: "7"}}}}
	many := []state.Prompt{{Header: "Parts", Question: "Which?", MultiSelect: true, Options: []state.Option{
		{Label: "Auth"}, {Label: "Search and find"}, {Label: "Wish lists, shared"}, {Label: "Ünïcode"}}}}
	both := append(append([]state.Prompt{}, one...), many...)
	type testCase struct {
		Text    string     `json:"text"`
		Replies []string   `json:"replies"`
		Want    [][]string `json:"want"`
	}
	var cases []testCase
	for _, questions := range [][]state.Prompt{one, many, both} {
		text := wording.QuestionTexts(&state.Question{SessionName: "s", Machine: "vps1", ThreadKey: "k", Questions: questions})[0]
		for _, replies := range [][]string{
			{"2"}, {"#2"}, {"(2)"}, {"2."}, {"option 2"}, {"２"}, {"2️⃣"}, {"7"}, {"9"}, {"0"}, {"roll"}, {"rolling d"}, {"ROLLING DEPLOYMENT"},
			{"ro"}, {"blue"}, {"blue‑green!"}, {"sure"}, {"surefi"}, {"no"}, {"nod"}, {"2 - but keep it"}, {"blue - later"}, {"blue-green — later"},
			{"rolling back – slowly – if at all"}, {"2-3 days"}, {"other: 2"}, {"1,3"}, {"1 3"}, {"1, 3 and 2"}, {"auth, sea"}, {"auth and search and find"},
			{"wish lists, shared & auth"}, {"1, other: 3"}, {"1️⃣3️⃣"}, {"ünÏ"}, {"1,9"}, {"the first one"}, {"Q1: 2"}, {"Q2: 1"}, {"Q1: 2\nQ2: 1,3"},
			{"Q1: 2, Q2: 1"}, {"q1. 2; q2) auth"}, {"2\n1,3"}, {"2; 1,3"}, {"2;9"}, {"2\nfoo"}, {"2; other: x; y"}, {"Q1: see Q2: never"}, {"Q1:\nQ2:"},
			{"well: Q1: 2"}, {"2", "1,3"}, {"Q2: 1", "roll"}, {"9", "2"}, {"Q2: 1", "1"}, {"hm?", "auth"}, {" "}, {"<b>"}, {"2\n"},
			{"chat"}, {"chat: Q1: 2"}, {"Chat about this", "2"}, {"chat — 2"}, {"chat, auth"}, {"Skip!"}, {"cancel", "Q2: 1"}, {"help?"}, {"?"}, {"..."},
			{"/status", "1"}, {"/tmp"}, {"Q2: 1", "skip", "roll"}, {"other: skip", "chat\n1"},
		} {
			c := testCase{Text: text, Replies: replies, Want: make([][]string, len(questions))}
			partial := map[int]state.Answer{}
			for _, reply := range replies {
				if missing := len(questions) - len(partial); missing == 0 {
					partial = map[int]state.Answer{}
				}
				if how, _ := wording.ReadDecline(reply, &state.Question{Questions: questions, Partial: partial}); how != "" {
					continue
				}
				if said, none := wording.ParseReply(reply, questions, partial); none == nil {
					partial = said
				}
			}
			for i := range questions {
				c.Want[i] = append([]string{}, partial[i].Labels...)
			}
			cases = append(cases, c)
		}
	}
	wrong, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf(`(async (cases) => {
		const { parseQuestion } = await import('/page/question.js');
		const { readReplies } = await import('/page/reply.js');
		return cases.flatMap(({ text, replies, want }) => {
			const q = parseQuestion(text);
			const { all } = readReplies(q, replies);
			const got = q.sections.map((s, i) => s.options.map((o) => o.label).filter((_, k) => all[i]?.has(k + 1)));
			return JSON.stringify(got) === JSON.stringify(want) ? [] : [JSON.stringify(replies) + ' is ' + JSON.stringify(got) + ', want ' + JSON.stringify(want)];
		}).join('\n');
	})(%s)`, jsonText(cases)), chromedp.EvalAwaitPromise))
	if err != nil || wrong != "" {
		t.Errorf("%d replies, of them are read otherwise:\n%s (%v)", len(cases), wrong, err)
	}
}

// faint lists the texts of the page whose contrast is below 4.5:1, by the colours that the browser computed.
const faint = `(() => {
	const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
	const layer = (colour, under) => {
		canvas.fillStyle = under; canvas.fillRect(0, 0, 1, 1);
		canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
		const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
		return 'rgb(' + [r, g, b] + ')';
	};
	const light = (colour) => {
		const [r, g, b] = colour.match(/\d+/g).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const ground = (n) => n ? layer(getComputedStyle(n).backgroundColor, ground(n.parentElement)) : 'rgb(255,255,255)';
	const ratio = (n, pseudo) => {
		const under = ground(n);
		const [a, b] = [light(layer(getComputedStyle(n, pseudo).color, under)), light(under)].sort((a, b) => b - a);
		return (a + 0.05) / (b + 0.05);
	};
	const out = [];
	for (const n of document.querySelectorAll('body *')) {
		const field = n.placeholder && getComputedStyle(n).display !== 'none';
		const says = n.checkVisibility() && [...n.childNodes].some((c) => c.nodeType === 3 && c.data.trim()) && parseFloat(getComputedStyle(n).fontSize) > 0;
		if (n.checkVisibility() && getComputedStyle(n).opacity !== '1') out.push('opacity of ' + n.className);
		if ((says || field) && ratio(n, field ? '::placeholder' : undefined) < 4.5) out.push((n.className || n.tagName) + ' ' + n.textContent.slice(0, 20) + ' ' + ratio(n).toFixed(2));
	}
	return out.join('; ');
})()`

func wantContrast(t *testing.T, ctx context.Context, where string) {
	t.Helper()
	found, err := chromedp.Run(ctx, chromedp.Evaluate[string](faint))
	if err != nil || found != "" {
		t.Errorf("%s: too faint: %s (%v)", where, found, err)
	}
}

// TestScreens draws the screens of the manual.
func TestScreens(t *testing.T) {
	ctx := browser(t)
	now := time.Now().Add(-50 * time.Minute)
	s, srv := testServer(t, Options{Now: func() time.Time { return now }})
	ended := ask(t, s, srv.URL, "done", "[Session End] docs-site | 2026-02-21 10:45:23\n\nDuration: 42m\nTurns: 6\nFiles: README.md, docs/install.md\nLast words: All links work.")
	now = now.Add(9 * time.Minute)
	answered := ask(t, s, srv.URL, "old", askRetries)
	now = now.Add(time.Minute)
	if _, err := s.Say(nil, answered, "1"); err != nil {
		t.Fatal(err)
	}
	ask(t, s, srv.URL, "old", "[Answered] mail-worker\n\nQuestion: How often should a failed delivery be tried again?\nSelected: Five times in an hour")
	now = now.Add(27 * time.Minute)
	ask(t, s, srv.URL, "session-1", "[Permission] crawler · parser\nClaude needs your permission\nBash: `rm -rf build/cache`")
	ask(t, s, srv.URL, "blocked", "[Progress] data-import | 2026-02-21 10:45:23\n\nStep 2 of 5 is done.")
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
		do(t, ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(s.PageURL(srv.URL)))
		until(t, ctx, `document.title === '(4) Local space' && document.querySelectorAll('[data-thread]').length === 7`)
		until(t, ctx, fmt.Sprintf(`document.querySelector('[data-thread]').dataset.thread === '%s'`, thread)) // newest first
		until(t, ctx, `document.querySelector('main').contains(document.querySelector('[data-thread]')) && document.querySelector('main').checkVisibility()`)
		wantContrast(t, ctx, "list, "+scheme)
		screenshot(t, ctx, "phone-list-"+scheme)
		for _, other := range []string{answered, ended} {
			openThread(t, ctx, other)
			until(t, ctx, `document.querySelector('[data-reply]').disabled`)
			wantContrast(t, ctx, "thread that is over, "+scheme)
			screenshot(t, ctx, "phone-over-"+scheme)
		}
		openThread(t, ctx, thread)
		until(t, ctx, `document.querySelectorAll('[data-option]').length === 3`)
		wantContrast(t, ctx, "question, "+scheme)
		screenshot(t, ctx, "phone-thread-"+scheme)
		do(t, ctx, chromedp.EmulateViewport(1280, 800), chromedp.Evaluate[chromedp.Void](`document.querySelector('#threads').scrollTop = 0`))
		until(t, ctx, `document.querySelector('#threads').scrollTop === 0 && document.querySelector('#list-pane').offsetWidth > 300 && document.querySelector('#thread-pane').offsetWidth > 800`)
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

	// The page of a phone's space works; and a page whose server came back with
	// other messages shows those.
	do(t, ctx, chromedp.Navigate("about:blank"))
	private, psrv := testServer(t, Options{Phone: true})
	private.secrets.Page = "sesame"
	other := ask(t, private, psrv.URL, "k", askFeatures)
	do(t, ctx, chromedp.Navigate(private.PageURL(psrv.URL)))
	openThread(t, ctx, other)
	do(t, ctx, chromedp.SendKeys(chromedp.CSS(`[data-reply]`), "all\n"))
	wantReplies(t, private, other, "all")
}
