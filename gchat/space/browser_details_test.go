package space

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// hasHint is the condition that the card's line below its buttons says this.
func hasHint(want string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('.question > .hint')].at(-1).textContent === %s`,
		jsonText(want))
}

// A tap can be undone for three seconds. A second tap, or leaving the page, sends it at
// once. What was undone, or is over meanwhile, is not sent.
func TestTap_CanBeUndone(t *testing.T) {
	ctx, d := openCards(t)
	runFirst(t, ctx, keepUndoScript)
	runActions(t, ctx, chromedp.Reload())
	const first, second, third = `[data-option="1"]`, `[data-option="2"]`, `[data-option="3"]`
	const undo, isUndone = `[data-undo]`, `document.querySelector('[data-undo]').hidden`

	openNew(t, ctx, d, askQuestions(deploymentQuestion))
	click(t, ctx, second)
	waitUntil(t, ctx, hasHint("Sending “Rolling deployment”…"), hasPressed("1.2"),
		`document.querySelector('[data-undo]').offsetHeight >= 44`)
	wantReadable(t, ctx, "phone-undo")
	click(t, ctx, undo)
	waitUntil(t, ctx, isUndone, hasPressed(""), hasHint("Undone. Nothing was sent."),
		`document.activeElement.matches('[data-option="2"]')`)
	click(t, ctx, first)
	runActions(t, ctx, chromedp.KeyEvent("\x1b")) // Escape undoes, too
	waitUntil(t, ctx, isUndone, hasPressed(""))
	// A double click is one tap; another option takes the place of the first; Enter sends.
	evaluate(t, ctx, `for (const detail of [1, 2]) {
		document.querySelector('[data-option="1"]').dispatchEvent(new MouseEvent('click', { detail, bubbles: true })) }`)
	waitUntil(t, ctx, hasHint("Sending “Blue-green deployment”…"))
	runActions(t, ctx, chromedp.Focus(chromedp.CSS(third)), chromedp.KeyEvent("\r"))
	waitUntil(t, ctx, hasHint("Sending “Recreate”…"), hasPressed("1.3"))
	runActions(t, ctx, chromedp.KeyEvent("\r"))
	d.wantTap("3")

	// A decision is held, too. After the three seconds it is sent.
	openNew(t, ctx, d, bashPermission())
	click(t, ctx, `[data-choice="allow"]`)
	waitUntil(t, ctx, hasHint("Sending “Allow”…"))
	screenshot(t, ctx, "phone-undo-allow")
	click(t, ctx, `[data-choice="deny"]`)
	d.wantTap("deny")

	// Of a question that is over, nothing is sent.
	thread := openNew(t, ctx, d, askQuestions(deploymentQuestion))
	click(t, ctx, second)
	waitUntil(t, ctx, hasPressed("1.2"))
	d.end(thread, answerWith("Recreate"))
	waitUntil(t, ctx, hasState("answered"), hasPressed("1.3"), isUndone)

	// Another thread, and another page, send what is held.
	thread = openNew(t, ctx, d, askQuestions(deploymentQuestion))
	typeReply(t, ctx, "soon")
	click(t, ctx, second)
	waitUntil(t, ctx, hasPressed("1.2"))
	evaluate(t, ctx, `location.hash = ''`)
	d.wantTap("2 w1=soon")
	openThread(t, ctx, thread)
	waitUntil(t, ctx, hasState("replied"), boxIsEmpty)
	openNew(t, ctx, d, askQuestions(deploymentQuestion))
	click(t, ctx, first)
	waitUntil(t, ctx, hasPressed("1.1"))
	navigate(t, ctx, "about:blank")
	d.wantTap("1")
}

// "Show all" opens in its place, all of it, with lines that wrap, and no message comes.
func TestDetails_ShownInPlace(t *testing.T) {
	ctx := newBrowser(t)
	form, edit := formOfInputs(), editPermission()
	edit.ShownText = strings.Repeat("+\tsum++\n", 60) + "+" + strings.Repeat("word ", 300) + "END"
	s, srv, app := openApp(t, Options{
		IsDirect:      true,
		ReadShownText: func(string) string { return wording.WholeShownText(&edit) },
		CheckForm: func(_ string, inputs map[string][]string) map[string]string {
			return wording.FormProblems(&form,
				&wording.Tap{Choice: wording.AcceptChoice, Inputs: inputs})
		},
	})
	d := newCardDeskOf(t, s, srv.URL, app)
	navigate(t, ctx, s.PageURL(srv.URL))
	t.Run("all of an edit", func(t *testing.T) {
		openNew(t, ctx, d, edit)
		waitUntil(t, ctx, hasButtons("Allow, Deny, Always, Show all"),
			`document.querySelectorAll('.shown .line').length === 31`)
		screenshot(t, ctx, "phone-more-before")
		before := len(s.Messages())
		click(t, ctx, `[data-choice="more"]`)
		waitUntil(t, ctx, hasButtons("Allow, Deny, Always"),
			`document.querySelectorAll('.shown .line').length === 61 &&
				document.querySelector('.shown').textContent.endsWith('END')`,
			`document.querySelector('.shown').scrollWidth <= document.querySelector('.shown').clientWidth`,
			`![...document.querySelectorAll('.note')].some((n) => n.textContent.includes('more lines'))`,
			`document.activeElement.matches('.shown')`)
		screenshot(t, ctx, "phone-more-after")
		kit.Equalf(t, len(s.Messages()), before, "messages")
		click(t, ctx, `[data-choice="deny"]`)
		d.wantTap("deny") // and not "more"
	})
	t.Run("an alert stands out", func(t *testing.T) {
		thread := d.postReport("", string(state.ReportBlockedAlert), "web-shop",
			"[BLOCKED] web-shop\n\nACTION REQUIRED: the key")
		openThread(t, ctx, thread)
		waitUntil(t, ctx, `document.title === '(1) gchat-hooks' &&
			document.querySelector('#thread-state').textContent === 'Blocked' &&
			document.querySelector('.theirs header b').textContent === '⚠ Blocked'`)
		wantReadable(t, ctx, "phone-blocked")
		typeReply(t, ctx, "here it is\n")
		wantReplies(t, s, thread, "here it is")
		waitUntil(t, ctx, hasState("replied"), `document.title === 'gchat-hooks'`)
	})
	t.Run("a form has real inputs", func(t *testing.T) {
		openNew(t, ctx, d, form)
		waitUntil(t, ctx,
			`[...document.querySelectorAll('.input :is(input, textarea, select)')]
				.map((n) => n.name.replace(/^input-\d+-/, '') + ' ' + n.type).join() ===
				'w1 text,w2 number,q3 checkbox,q4 radio,q4 radio,q4 radio,q5 checkbox,q5 checkbox,`+
				`w6 email,w7 date,w8 datetime-local,w9 url,w10 number'`,
			`document.querySelector('[data-field="w1"]').innerText.match(/required/g).length === 1 &&
				document.querySelector('[data-field="w1"]').innerText.includes('As on the card')`,
			`document.querySelector('[name="w2"]').min === '1' && document.querySelector('[name="w2"]').max === '8' &&
				document.querySelector('[name="w2"]').step === '1' && document.querySelector('[name="w10"]').step === 'any'`,
			`document.querySelector('[name="q3"]').checked && document.querySelector('[name="w7"]').value === '2026-11-28'`,
			`document.querySelector('[data-kind="form"]').innerText.match(/Your name/g).length === 1`)
		for _, scheme := range []string{"dark", "light"} {
			preferScheme(t, ctx, scheme)
			waitUntil(t, ctx, `document.getAnimations().length === 0`)
			wantReadable(t, ctx, "phone-form-"+scheme)
		}
		problem := func(field string) string {
			return fmt.Sprintf(`document.querySelector('[data-field="%s"] .problem').textContent`, field)
		}
		// The browser's own check leads to the first field, and nothing is sent.
		click(t, ctx, `[data-choice="accept"]`)
		waitUntil(t, ctx, problem("w1")+` !== '' && `+problem("w2")+` !== '' &&
			document.activeElement.name === 'w1' && document.activeElement.ariaInvalid === 'true'`)
		fill := func(name, value string) {
			t.Helper()
			evaluate(t, ctx, fmt.Sprintf(`{ const n = document.querySelector('[name="%s"]'); n.value = %q;
				for (const kind of ['input', 'change']) n.dispatchEvent(new Event(kind, { bubbles: true })) }`, name, value))
		}
		fill("w1", "A")
		waitUntil(t, ctx, problem("w1")+` === 'At least 2 characters, not 1.'`)
		fill("w1", "Ann")
		waitUntil(t, ctx, problem("w1")+` === ''`)
		fill("w2", "9")
		fill("w6", "ann")
		click(t, ctx, `[data-field="q5"] [data-option="1"]`, `[data-field="q5"] [data-option="2"]`)
		waitUntil(t, ctx, problem("w2")+` !== '' && `+problem("w6")+` !== ''`,
			problem("q5")+` === 'Choose at most 1, not 2.'`)
		wantReadable(t, ctx, "phone-form-problems")
		fill("w2", "8")
		fill("w6", "ann@example.com")
		click(t, ctx, `[data-field="q5"] [data-option="1"]`, `[data-field="q4"] [data-option="2"]`)
		fill("w8", "2026-11-29T13:45")
		// Where only the server sees the problem, it stands beside the field as well.
		fill("w9", "https://[::1")
		evaluate(t, ctx, `{ const n = document.querySelector('[name="w9"]'); n.type = 'text' }`)
		click(t, ctx, `[data-choice="accept"]`)
		waitUntil(t, ctx, problem("w9")+` === 'It takes text, as uri.' &&
			document.activeElement.name === 'w9' && !document.activeElement.disabled`,
			hasHint("Not sent: see the fields that are marked."))
		fill("w9", "https://example.com/")
		click(t, ctx, `[data-choice="accept"]`)
		zone := time.Date(2026, 11, 29, 13, 45, 0, 0, time.Local).UTC().Format(time.RFC3339)
		d.wantTap("accept q3=1 q4=2 q5=2 w1=Ann w2=8 w6=ann@example.com w7=2026-11-28 w8=" +
			zone + " w9=https://example.com/")
	})
}

// What was not sent says why: the server's words, or that there is no connection.
func TestDetails_NotSentSaysWhy(t *testing.T) {
	ctx := newBrowser(t)
	s, err := Open(Options{IsDirect: true})
	kit.NoError(t, err)
	srv := serveWith(t, s, s.Handler().ServeHTTP)
	d := newCardDeskOf(t, s, srv.URL, newApp(t, s, srv.URL))
	navigate(t, ctx, s.PageURL(srv.URL))
	openNew(t, ctx, d, askQuestions(deploymentQuestion))
	setQueue := func(queue []*queuedEvent) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.queue = queue
	}
	full := make([]*queuedEvent, maxQueuedEvents)
	for i := range full {
		full[i] = &queuedEvent{eventLine: eventLine{At: time.Now()}}
	}
	setQueue(full)
	const why = "Not sent: too many messages wait: gchat-hooks does not fetch them. " +
		"gchat-hooks status says why. "
	const isMineFailed = `[...document.querySelectorAll('.mine footer')].at(-1).textContent === %s`
	click(t, ctx, `[data-option="1"]`)
	waitUntil(t, ctx, hasHint(why+"Tap it again."))
	typeReply(t, ctx, "the first\n")
	waitUntil(t, ctx, fmt.Sprintf(isMineFailed, jsonText(why+"Try again")))
	wantReadable(t, ctx, "phone-not-sent")
	// The button to try again is still the same after the page was drawn again.
	evaluate(t, ctx, `document.querySelector('[data-retry]').focus()`)
	d.postReport("", string(state.ReportPlain), "", "meanwhile")
	waitUntil(t, ctx,
		`document.querySelector('#others-rows').textContent.includes('meanwhile')`,
		`document.activeElement.matches('[data-retry]')`)
	setQueue(nil)
	click(t, ctx, `[data-retry]`)
	// It is sent, so that it does not fail once more when the space goes down.
	waitUntil(t, ctx, `!document.querySelector('[data-retry]')`,
		`![...document.querySelectorAll('.mine footer')].at(-1).textContent.startsWith('Sending')`)

	// The header and the box keep their places while the space is down.
	const places = `[...document.querySelectorAll('#thread .bar, #thread-title, #thread-session, #composer, #reply')]
		.map((n) => n.getBoundingClientRect().toJSON())`
	evaluate(t, ctx, `window.places = JSON.stringify(`+places+`)`)
	srv.CloseClientConnections()
	srv.Listener.Close()
	waitUntil(t, ctx, `document.querySelector('#link').textContent === 'Reconnecting'`,
		`JSON.stringify(`+places+`) === window.places`)
	typeReply(t, ctx, "again\n")
	waitUntil(t, ctx, fmt.Sprintf(isMineFailed, jsonText("Not sent: no connection to the page's server. Try again")))
	screenshot(t, ctx, "phone-down-thread")
	evaluate(t, ctx, `{ const now = Date.now; Date.now = () => now() + 20000 }; location.hash = ''`)
	waitUntil(t, ctx, `document.querySelector('#link').textContent === 'Not running'`)
	screenshot(t, ctx, "phone-down-list")
	for _, width := range []int64{390, 320} {
		runActions(t, ctx, chromedp.EmulateViewport(width, 844, chromedp.EmulateScale(2)))
		waitUntil(t, ctx, `document.documentElement.scrollWidth <= innerWidth`,
			`['h1', '#summary', '#notify'].every((name) => {
				const n = document.querySelector('#list-pane ' + name);
				return n.checkVisibility() && n.scrollWidth <= n.clientWidth && n.getBoundingClientRect().right <= innerWidth;
			})`)
	}
	screenshot(t, ctx, "phone-down-list-320")
}
