package space

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func TestPage_Questions(t *testing.T) {
	ctx, d := openCards(t)
	waitUntil(t, ctx,
		`document.querySelector('#link').dataset.state === 'live' &&
			!document.querySelector('#no-threads').hidden`)
	screenshot(t, ctx, "phone-empty")

	t.Run("a question comes live, a button answers it", func(t *testing.T) {
		evaluate(t, ctx, `window.sameDocument = true`)
		thread := d.ask(askQuestions(deploymentQuestion))
		waitUntil(t, ctx, `document.title === '(1) gchat-hooks'`)
		openThread(t, ctx, thread)
		waitUntil(t, ctx, `document.querySelectorAll('[data-option]').length === 3`)
		screenshot(t, ctx, "phone-question")
		click(t, ctx, `[data-option="2"]`)
		d.wantTap("2")
		waitUntil(t, ctx,
			`document.title === 'gchat-hooks' &&
				document.querySelector('[data-option="2"]').disabled`,
			hasPressed("1.2"))

		d.end(thread, answerWith("Rolling deployment"))
		waitUntil(t, ctx,
			hasState("answered"),
			hasPressed("1.2"),
			`[...document.querySelectorAll('[data-option]')].every((b) => b.disabled)`,
			`window.sameDocument && document.querySelectorAll('[data-message]').length === 2`,
			`document.querySelector('.end .bubble').textContent.includes('Selected: Rolling deployment')`)
		screenshot(t, ctx, "phone-answered")
		runActions(t, ctx, chromedp.Reload())
		waitUntil(t, ctx,
			hasState("answered"),
			hasPressed("1.2"), // as the closed card says
			`document.querySelectorAll('[data-message]').length === 2 &&
				document.querySelector('[data-option="2"]').disabled`)
	})
	t.Run("a typed reply answers", func(t *testing.T) {
		thread := openNew(t, ctx, d, askQuestions(deploymentQuestion))
		typeReply(t, ctx, "neither, <b>wait</b>\n")
		wantReplies(t, d.s, thread, "neither, <b>wait</b>")
		waitUntil(t, ctx,
			`document.querySelector('.mine .bubble').textContent === 'neither, <b>wait</b>' &&
				!document.querySelector('[data-reply]').value`,
			hasState("replied"))

		// The session did not understand: the question is open again.
		d.postReport(thread, "note "+state.NoteUnclear, "",
			"[Not used] Please choose one of the options.")
		waitUntil(t, ctx, hasState("open"), `!document.querySelector('[data-option="1"]').disabled`)
		typeReply(t, ctx, "Blue-green")
		evaluate(t, ctx,
			`document.querySelector('[data-reply]').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', shiftKey: true, cancelable: true}))`)
		click(t, ctx, `[data-send]`)
		wantReplies(t, d.s, thread, "neither, <b>wait</b>", "Blue-green")
		d.postReport(thread, "note "+state.NoteSent, "", "[Sent] Sent to Claude.")
		waitUntil(t, ctx,
			endsWithText("Sent to Claude."),
			hasState("replied"))
	})
	t.Run("several options", func(t *testing.T) {
		openNew(t, ctx, d, askQuestions(featuresQuestion))
		waitUntil(t, ctx,
			`document.querySelector('[data-choice="send"]').disabled &&
				document.querySelector('[data-send]').disabled`)
		for _, n := range []string{"3", "2", "1", "2"} { // 2 on, and off again
			click(t, ctx, `[data-option="`+n+`"]`)
		}
		screenshot(t, ctx, "phone-multi")
		click(t, ctx, `[data-choice="send"]`)
		d.wantTap("send q1=3 q1=1")
	})
	t.Run("two questions", func(t *testing.T) {
		openNew(t, ctx, d, askQuestions(databaseQuestion, mergesQuestion))
		waitUntil(t, ctx,
			`document.querySelectorAll('.question section:has([data-option])').length === 2`)
		click(t, ctx, `[data-question="1"] [data-option="1"]`)
		click(t, ctx, `[data-question="1"] [data-option="2"]`) // one only: takes the place of 1
		waitUntil(t, ctx, `document.querySelector('[data-choice="send"]').disabled`)
		click(t, ctx,
			`[data-question="2"] [data-option="1"]`,
			`[data-question="2"] [data-option="3"]`)
		screenshot(t, ctx, "phone-two")
		click(t, ctx, `[data-send]`) // the other send button does the same
		d.wantTap("send q1=2 q2=1 q2=3")
	})
	t.Run("a question without options", func(t *testing.T) {
		d.ask(askQuestions(state.SubQuestion{Header: "Name", Question: "What shall it be called?"}))
		waitUntil(t, ctx,
			`[...document.querySelectorAll('[data-thread]')].some((n) => n.dataset.state === 'open' && n.textContent.includes('What shall it be called?'))`)
	})
	t.Run("Markdown in a question", func(t *testing.T) {
		openThread(t, ctx,
			d.ask(state.Question{SessionName: "web-shop", Machine: "vps1", SubQuestions: []state.SubQuestion{{
				Header:   "Plan",
				Question: "## Which *plan*?\n\n- **fast**, see `a.go`\n- <img src=x onerror=alert(1)> [x](javascript:alert(1))\n```go\nx := 1\n```",
				Options: []state.Option{
					{Label: "The `first`", Description: "**bold** <b>no</b>"},
					{Label: "second"},
				}}}}))
		waitUntil(t, ctx,
			`document.querySelector('.ask p strong').textContent === 'Which plan?' &&
				document.querySelectorAll('.ask .bullet').length === 2`,
			`document.querySelector('.ask .bullet strong').textContent === 'fast' &&
				document.querySelector('.ask pre').textContent.trim() === 'x := 1'`,
			`document.querySelector('.label code').textContent === 'first' &&
				document.querySelector('.description strong').textContent === 'bold'`,
			`!document.querySelector('.card img, .card b, .card a') &&
				document.querySelector('.description').textContent.includes('b>no')`)
		screenshot(t, ctx, "phone-markdown")
	})
	t.Run("the box is off where a reply would not be read", func(t *testing.T) {
		const off = `document.querySelector('[data-reply]').disabled &&
			document.querySelector('#unread-words').textContent.startsWith(%q)`
		const on = `!document.querySelector('[data-reply]').disabled &&
			document.querySelector('#unread').hidden`
		anyway := func(offered bool) string {
			return fmt.Sprintf(`document.querySelector('#anyway').hidden === %t`, !offered)
		}
		timedOut := func(by string) func(q *state.Question) {
			return func(q *state.Question) { q.Status, q.ResolvedBy = state.TimedOut, by }
		}
		for _, c := range []struct {
			name string
			end  func(q *state.Question)
			text string
			more string // after it
			want string
		}{
			{"answered", answerWith(), "Selected: ", "", "Already answered."},
			// gchat-wait may wait here
			{"followed up", answerWith(), "Selected: ", "Here is more: what now?", ""},
			{"closed", cancelQuestion, "The session ended.", "", "This question is closed."},
			{"in time for Claude only", timedOut("timeout"), "a reply still reaches it.", "", ""},
			{
				"chosen", timedOut("policy"), "Nobody replied in time.", "",
				"The time for this question has run out.",
			},
		} {
			thread := openNew(t, ctx, d, askQuestions(deploymentQuestion))
			waitUntil(t, ctx, on)
			d.end(thread, c.end)
			if c.more != "" {
				d.postReport(thread, string(state.ReportPlain), "", c.more)
			}
			waitUntil(t, ctx,
				fmt.Sprintf(`document.querySelector('#messages').textContent.includes(%q) &&
				document.querySelector('#messages').textContent.includes(%q)`, c.text, c.more))
			if c.want == "" {
				waitUntil(t, ctx, on)
			} else {
				waitUntil(t, ctx, fmt.Sprintf(off, c.want))
			}
			waitUntil(t, ctx, anyway(c.name == "chosen"))
		}
		thread := d.postReport("", "task_completion", "mail-worker",
			"[Done] mail-worker | 2026-02-21 10:45:23\n\nAll is sent.")
		openThread(t, ctx, thread)
		waitUntil(t, ctx,
			on+` &&
				document.querySelector('[data-reply]').placeholder === 'Only a waiting script reads this'`)
		d.postReport(thread, "note "+state.NoteNoWaiter, "",
			"[Not read] Please answer in the terminal. No hook waits for a reply to this question.")
		waitUntil(t, ctx, fmt.Sprintf(off, "Please answer in the terminal")+" && "+anyway(true))
		screenshot(t, ctx, "phone-unread")
		d.postReport(thread, "task_completion", "mail-worker",
			"[Done] mail-worker\n\nSend the rest?")
		waitUntil(t, ctx, on)
		d.postReport(thread, string(state.ReportSessionEnded), "mail-worker",
			"[Session End] mail-worker | 2026-02-21 10:45:23\n\nTurns: 2")
		waitUntil(t, ctx, fmt.Sprintf(off, "This session has ended."))
		click(t, ctx, "#anyway")
		waitUntil(t, ctx,
			on+` && document.activeElement === document.querySelector('[data-reply]')`)
	})
	t.Run("answered elsewhere", func(t *testing.T) {
		thread := openNew(t, ctx, d, askQuestions(databaseQuestion, mergesQuestion))
		d.end(thread, func(q *state.Question) {
			q.Status, q.ResolvedBy = state.Resolved, "terminal"
			q.Answers = map[string]string{
				databaseQuestion.Question: "Redis",
				mergesQuestion.Question:   "Unit tests, Race detector",
			}
		})
		waitUntil(t, ctx, hasState("answered"), hasPressed("1.2,2.1,2.3"))
		screenshot(t, ctx, "phone-answered-elsewhere")
	})
	t.Run("cancelled", func(t *testing.T) {
		thread := openNew(t, ctx, d, askQuestions(deploymentQuestion))
		d.end(thread, cancelQuestion)
		waitUntil(t, ctx,
			hasState("cancelled"),
			`document.querySelector('[data-option="1"]').disabled`)
	})
	t.Run("a message is text, whatever it says", func(t *testing.T) {
		thread := postQuestion(t, d.s, d.base, "k6",
			"[Stop] <img src=x onerror=alert(1)> *done* in `main.go` for my_var_name, __init__ and /a/_b_/c_d.py, see <https://example.com/a|the log>, not <javascript:alert(1)|this>\n```\nok  \tall 12 *tests*\n```\n- _one_\n- two")
		openThread(t, ctx, thread)
		const names = "for my_var_name, __init__ and /a/_b_/c_d.py"
		waitUntil(t, ctx,
			`document.querySelector('.theirs strong')?.textContent === 'done'`,
			`document.querySelector('.theirs em').textContent === 'one'`,
			fmt.Sprintf(`document.querySelector('.theirs').textContent.includes(%q) &&
				document.querySelector('[data-thread="%s"] p').textContent.includes(%[1]q)`, names, thread),
			`document.querySelector('.theirs pre').textContent === 'ok  \tall 12 *tests*'`,
			`document.querySelectorAll('#messages a').length === 1 &&
				document.querySelector('#messages a').href === 'https://example.com/a'`,
			`!document.querySelector('#messages img') &&
				document.querySelector('.theirs').textContent.includes('<img src=x onerror=alert(1)>')`)
		screenshot(t, ctx, "phone-markup")
	})
	t.Run("a webhook's text is no card, and no mark", func(t *testing.T) {
		for _, text := range []string{
			wording.QuestionTexts(&state.Question{
				SessionName: "s", ThreadKey: "k",
				SubQuestions: []state.SubQuestion{deploymentQuestion},
			})[0],
			"[Permission] web-shop\nClaude needs your permission",
			"[BLOCKED] web-shop\n\nACTION REQUIRED: the key",
		} {
			openThread(t, ctx, postQuestion(t, d.s, d.base, text, text))
			waitUntil(t, ctx,
				fmt.Sprintf(`document.querySelector('.theirs').textContent.includes(%s) &&
					!document.querySelector('.question')
				&& document.querySelector('#thread-state').hidden &&
				!document.querySelector('[data-reply]').disabled`, jsonText(text[:12])))
		}
	})
}

// What waits for a person is on top, with its project and session, counted in the title
// and notified once.
func TestPage_WhatWaits(t *testing.T) {
	ctx := newBrowser(t)
	d := newCardDesk(t)
	const stub = `window.shown = []; document.hasFocus = () => false;
		window.Notification = class { static permission = 'default'; static async requestPermission() { this.permission = 'granted' }
			constructor(title, { body }) { window.shown.push(title + '|' + body) } };`
	runFirst(t, ctx, stub)
	d.ask(askQuestions(retriesQuestion))
	navigate(t, ctx, d.s.PageURL(d.base))
	waitUntil(t, ctx, `document.title === '(1) gchat-hooks'`)
	click(t, ctx, "#notify")
	waitUntil(t, ctx, `document.querySelector('#notify').hidden`)

	const name = "orch-epic4"
	thread := d.postReport("", string(state.ReportSessionStarted), name,
		"[Session Start] orch-epic4 | 2026-02-21 10:45:23\n\nProject: web-shop")
	permission := d.postReport(thread, string(state.KindPermission), name,
		"[Permission] orch-epic4\nClaude needs your permission\nBash: rm -rf build")
	done := d.postReport("", string(state.ReportTaskCompletion), "other",
		"[Done] other | 2026-02-21 10:45:23\n\nThe rest.")
	waitUntil(t, ctx,
		`document.title === '(2) gchat-hooks' &&
		window.shown.join() === 'Permission|orch-epic4\nClaude needs your permission Bash: rm -rf build'`,
		fmt.Sprintf(`[...document.querySelectorAll('[data-thread]')].findIndex((n) => n.dataset.thread === %q) === 0`, permission),
		fmt.Sprintf(`[...document.querySelectorAll('[data-thread]')].findIndex((n) => n.dataset.thread === %q) === 2`, done))
	openThread(t, ctx, permission)
	waitUntil(t, ctx,
		`document.querySelector('#thread-session').textContent === 'orch-epic4' &&
			document.querySelector('#thread-state').dataset.state === 'open'`)
	screenshot(t, ctx, "phone-permission")

	// in the background: the dialog may still be open
	d.postReport(thread, "task_done", name, "[Task Done] orch-epic4\nstep 4")
	d.postReport("", string(state.ReportProgressUpdate), name,
		"[Progress] orch-epic4 | 2026-02-21 10:45:23\n\nIt goes on.")
	waitUntil(t, ctx,
		`document.querySelectorAll('[data-message]').length === 3 &&
			document.title === '(2) gchat-hooks'`)
	d.postReport(thread, "gone_on", "", wording.DialogOverText)
	waitUntil(t, ctx, `document.title === '(1) gchat-hooks' && window.shown.length === 1`)
	d.postReport("", string(state.ReportBlockedAlert), name,
		"[BLOCKED] orch-epic4 | 2026-02-21 10:45:23\n\nACTION REQUIRED: the key")
	waitUntil(t, ctx,
		`document.title === '(2) gchat-hooks' &&
			window.shown[1] === 'Blocked|orch-epic4\nACTION REQUIRED: the key'`)
	d.postReport("", config.KindTurnDone, name, "[Turn Done] orch-epic4\nmeanwhile")
	d.postReport("", string(state.ReportProgressUpdate), "other", "[Progress] other")
	waitUntil(t, ctx,
		`document.querySelectorAll('[data-thread]').length === 7 &&
			document.title === '(2) gchat-hooks'`)
	d.postReport("", string(state.ReportProgressUpdate), name,
		"[Progress] orch-epic4 | 2026-02-21 10:45:23\n\nIt goes on.")
	waitUntil(t, ctx, `document.title === '(1) gchat-hooks' && window.shown.length === 2`)

	// Over plain http, on another address than this machine's own, a browser shows none.
	private, psrv := testServer(t, Options{AllowsPhone: true})
	private.secrets.APIToken = "sesame"
	address := strings.Replace(private.PageURL(psrv.URL), "127.0.0.1", "phone.test", 1)
	navigate(t, ctx, address)
	waitUntil(t, ctx,
		`document.querySelector('#link').dataset.state === 'live' && !window.isSecureContext &&
			document.querySelector('#notify').hidden`)
}

// A dialog that waits only in the terminal waits until its thread says that it is over.
// An agent's permission that is asked and answered meanwhile does not end it.
func TestPage_TerminalDialogsWait(t *testing.T) {
	ctx, d := openCards(t)
	session := ""
	for _, says := range []string{
		"Claude waits for a permission in the terminal",
		"Claude waits in the terminal: " + "Claude needs your input",
	} {
		session = d.postReport(session, string(state.KindPermission), "web-shop",
			"[Permission] web-shop\n"+says)
		thread := d.ask(bashPermission())
		waitUntil(t, ctx, `document.title === '(2) gchat-hooks'`)
		d.end(thread, answerWith())
		waitUntil(t, ctx, `document.title === '(1) gchat-hooks'`)
		d.postReport(session, "gone_on", "", wording.DialogOverText)
		waitUntil(t, ctx, `document.title === 'gchat-hooks'`)
	}
}

// A page without its server does not say that nothing waits.
func TestPage_OutOfReach(t *testing.T) {
	ctx := newBrowser(t)
	s, err := Open(Options{})
	kit.NoError(t, err)
	var down atomic.Bool
	srv := serveWith(t, s, func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		s.Handler().ServeHTTP(w, r)
	})
	const summary = `document.querySelector('#summary').textContent`
	navigate(t, ctx, s.PageURL(srv.URL))
	waitUntil(t, ctx, summary+` === 'Nothing needs you'`)
	down.Store(true)
	srv.CloseClientConnections()
	waitUntil(t, ctx, `document.querySelector('#link').textContent === 'Reconnecting'`)
	evaluate(t, ctx, `{ const now = Date.now; Date.now = () => now() + 20000 }`)
	waitUntil(t, ctx, summary+` === 'Out of reach: it is not known what needs you'`)
	down.Store(false)
	waitUntil(t, ctx, summary+` === 'Nothing needs you'`)
}

// TestPage_Screens draws the screens of the manual.
func TestPage_Screens(t *testing.T) {
	ctx := newBrowser(t)
	now := time.Now().Add(-50 * time.Minute)
	s, srv, app := openApp(t, Options{IsDirect: true, Now: func() time.Time { return now }})
	d := newCardDeskOf(t, s, srv.URL, app)
	named := func(name string, prompts ...state.SubQuestion) state.Question {
		q := askQuestions(prompts...)
		q.SessionName, q.CWD = name, "/home/ann/"+name
		return q
	}
	ended := d.postReport("", string(state.ReportSessionEnded), "docs-site",
		"[Session End] docs-site | 2026-02-21 10:45:23\n\nDuration: 42m\nTurns: 6\nFiles: README.md, docs/install.md\nLast words: All links work.")
	now = now.Add(9 * time.Minute)
	over := d.ask(named("mail-worker", retriesQuestion))
	now = now.Add(time.Minute)
	postAsPerson(t, s, over, "1")
	d.end(over, answerWith())
	now = now.Add(27 * time.Minute)
	d.postReport("", string(state.KindPermission), "crawler · parser",
		"[Permission] crawler · parser\nClaude needs your permission\nBash: `rm -rf build/cache`")
	d.postReport("", string(state.ReportProgressUpdate), "data-import",
		"[Progress] data-import | 2026-02-21 10:45:23\n\nStep 2 of 5 is done.")
	d.ask(named("api-gateway", databaseQuestion, mergesQuestion))
	now = now.Add(8 * time.Minute)
	d.ask(named("web-shop", featuresQuestion))
	now = time.Now()
	thread := d.ask(named("orch-epic4", deploymentQuestion))

	for _, scheme := range []string{"light", "dark"} {
		preferScheme(t, ctx, scheme)
		emulatePhone(t, ctx)
		navigate(t, ctx, "about:blank", s.PageURL(srv.URL))
		waitUntil(t, ctx,
			`document.title === '(4) gchat-hooks' &&
				document.querySelectorAll('[data-thread]').length === 7`)
		// newest first
		waitUntil(t, ctx,
			fmt.Sprintf(`document.querySelector('[data-thread]').dataset.thread === '%s'`, thread),
			`document.querySelector('main').contains(document.querySelector('[data-thread]')) &&
				document.querySelector('main').checkVisibility()`)
		wantReadable(t, ctx, "phone-list-"+scheme)
		for _, other := range []string{over, ended} {
			openThread(t, ctx, other)
			waitUntil(t, ctx, `document.querySelector('[data-reply]').disabled`)
			wantReadable(t, ctx, "phone-over-"+scheme)
		}
		openThread(t, ctx, thread)
		waitUntil(t, ctx, `document.querySelectorAll('[data-option]').length === 3`)
		wantReadable(t, ctx, "phone-thread-"+scheme)
		runActions(t, ctx, chromedp.EmulateViewport(1280, 800),
			chromedp.Evaluate[chromedp.Void](`document.querySelector('#threads').scrollTop = 0`))
		waitUntil(t, ctx,
			`document.querySelector('#threads').scrollTop === 0 &&
				document.querySelector('#list-pane').offsetWidth > 300 &&
				document.querySelector('#thread-pane').offsetWidth > 800`)
		screenshot(t, ctx, "desktop-"+scheme)
	}
}

// TestPage_FailedReply cuts the page from its server and brings it back.
func TestPage_FailedReply(t *testing.T) {
	ctx := newBrowser(t)
	s, err := Open(Options{IsDirect: true})
	kit.NoError(t, err)
	var down, swallow atomic.Bool
	srv := serveWith(t, s, func(w http.ResponseWriter, r *http.Request) {
		isPost := r.URL.Path == "/page/messages"
		if isPost && swallow.Load() { // posted, but the answer is lost
			s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		}
		if isPost && (down.Load() || swallow.Load()) {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		s.Handler().ServeHTTP(w, r)
	})
	app := newApp(t, s, srv.URL)
	d := newCardDeskOf(t, s, srv.URL, app)
	thread := d.ask(askQuestions(deploymentQuestion))
	navigate(t, ctx, s.PageURL(srv.URL))
	openThread(t, ctx, thread)
	const taken = `document.title === 'gchat-hooks' &&
		document.querySelector('[data-option="1"]').disabled`
	const notSent = `document.title === '(1) gchat-hooks' &&
		!document.querySelector('[data-option="1"]').disabled &&
		document.querySelector('.hint').textContent ===
			'Not sent: the page\'s server cannot be reached (502). Tap it again.'`

	down.Store(true)
	typeReply(t, ctx, "soon")
	click(t, ctx, `[data-option="1"]`)
	waitUntil(t, ctx, notSent+` && document.querySelector('[data-reply]').value === 'soon'`)
	screenshot(t, ctx, "phone-failed")
	down.Store(false)
	swallow.Store(true)
	click(t, ctx, `[data-option="1"]`)
	waitUntil(t, ctx, notSent)
	swallow.Store(false)
	click(t, ctx, `[data-option="1"]`) // it did arrive: once is enough
	waitUntil(t, ctx, taken+" && "+boxIsEmpty)
	pullAll(t, app, 1)

	// A typed reply that failed can be sent again, and arrives once.
	d.postReport(thread, string(state.ReportPlain), "", "Which one?")
	down.Store(true)
	typeReply(t, ctx, "the first\n")
	waitUntil(t, ctx,
		`document.querySelector('[data-retry]') && document.title === '(1) gchat-hooks'`)
	down.Store(false)
	swallow.Store(true)
	click(t, ctx, `[data-retry]`)
	wantReplies(t, s, thread, "the first")
	waitUntil(t, ctx,
		`document.querySelectorAll('.mine').length === 1 &&
			!document.querySelector('[data-retry]')`)

	// The page of a phone's space works; and a page whose server came back with
	// other messages shows those.
	navigate(t, ctx, "about:blank")
	private, psrv := testServer(t, Options{AllowsPhone: true})
	private.secrets.APIToken = "sesame"
	other := postQuestion(t, private, psrv.URL, "k", "Which features?")
	navigate(t, ctx, private.PageURL(psrv.URL))
	openThread(t, ctx, other)
	typeReply(t, ctx, "all\n")
	wantReplies(t, private, other, "all")
}
