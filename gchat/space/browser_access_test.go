package space

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// A shopDesk is a space with what a person sees on a working day: sessions, and one thread
// of each kind that looks different.
type shopDesk struct {
	*cardDesk
	views []shopView
}

type shopView struct {
	name, thread string // no thread: the list
	isShown      string // the condition that the view is there
}

func newShopDesk(t *testing.T) *shopDesk {
	t.Helper()
	now := time.Now().Add(-40 * time.Minute)
	var sessions []ListedSession
	var shop string
	s, srv, app := openApp(t, Options{
		DataDir: t.TempDir(), IsDirect: true, Now: func() time.Time { return now },
		ListSessions: func(context.Context) []ListedSession { return sessions },
		ListProjects: func() ([]string, bool) { return []string{"web-shop", "docs-site"}, true },
		DescribeWeek: func() Week { return weekOf("web-shop", "docs-site") },
		DescribeSession: func(_ context.Context, thread string) Session {
			if thread != shop {
				return Session{}
			}
			return Session{State: "works", AcceptsCommands: true, Progress: &Progress{
				Calls: []string{"Read cart/total.go", "Edit cart/total.go", "Bash go test ./cart"},
				Words: "The totals are right. Now I run the tests once more.",
			}}
		},
	})
	d := &shopDesk{cardDesk: newCardDeskOf(t, s, srv.URL, app)}
	report := func(id, thread, kind string, r state.Report) string {
		r.At = now
		return d.postOf(id, r.SessionName, thread, kind, wording.ReportTexts(r)[0])
	}
	ask := func(q state.Question) string {
		q.SessionName, q.CWD = "web-shop", "/home/ann/web-shop"
		now = now.Add(2 * time.Minute)
		return d.askOf(shopID, q)
	}
	ended := report(endedID, "", "session_end", state.Report{
		Type: state.ReportSessionEnded, SessionName: "mail-worker",
		Text: "Duration: 42m\nTurns: 6\nLast words: All letters are sent.",
	})
	docs := report(otherID, "", "session_start", state.Report{
		Type: state.ReportSessionStarted, SessionName: "docs-site",
		Text: "Project: docs-site\nMachine: laptop",
	})
	shop = report(shopID, "", "session_start", state.Report{
		Type: state.ReportSessionStarted, SessionName: "web-shop",
		Text: "Project: web-shop\nMachine: laptop",
	})
	now = now.Add(5 * time.Minute)
	report(shopID, shop, "turn_done", state.Report{
		Type: state.ReportPlain, Prefix: "[Turn Done]", SessionName: "web-shop",
		Text: "The cart's total includes the tax. All 42 tests pass.\n\n" +
			"4m, 12 tool calls, context 84k tokens",
	})
	postAsPerson(t, s, shop, "Now round once, at the end, and add a test for it.")
	d.end(ask(askQuestions(retriesQuestion)), answerWith())
	form := ask(tableForm())
	files := report("backup", "", "task_completion", state.Report{
		Type: state.ReportTaskCompletion, SessionName: "checkout-page",
		Text: "The new checkout is ready. Which colour should its button have?",
	})
	permission := ask(bashPermission())
	question := ask(askQuestions(deploymentQuestion))
	now = time.Now()
	ago := func(d time.Duration) string { return now.UTC().Add(-d).Format(time.RFC3339) }
	sessions = []ListedSession{
		{
			ID: shopID, Name: "web-shop", Project: "web-shop", State: "works", Thread: shop,
			StateSince: ago(12 * time.Minute), LastSeen: ago(0), PersonLast: true,
			LastWords: "Now round once, at the end, and add a test for it.",
			Waits: []Wait{
				{Kind: "question", Thread: question}, {Kind: "permission", Thread: permission},
				{Kind: "form", Thread: form},
			},
		},
		{
			ID: otherID, Name: "docs-site", Project: "docs-site", State: "idle", Thread: docs,
			StateSince: ago(3 * time.Minute), LastSeen: ago(3 * time.Minute),
			LastWords: "All links work, and the search finds the new pages.",
		},
		{
			ID: endedID, Name: "mail-worker", Project: "mail-worker", State: "ended",
			Thread: ended, LastSeen: ago(35 * time.Minute),
		},
	}
	const title = `document.querySelector('#thread-title').textContent === `
	d.views = []shopView{
		{"list", "", `document.querySelectorAll('#waiting-rows .row').length === 3 &&
			document.querySelectorAll('#sessions-rows .row').length === 2`},
		{"session", shop, title + `'web-shop' &&
			document.querySelector('#progress').checkVisibility()`},
		{"question", question, `document.querySelectorAll('[data-option]').length === 3`},
		{"permission", permission, hasButtons("Allow, Deny, Always")},
		{"form", form, `document.querySelectorAll('.input').length === 5`},
		{"files", files, `document.querySelector('.mine .files img').naturalWidth > 0 &&
			document.querySelectorAll('#chosen-files li').length === 1`},
	}
	return d
}

// tableForm is a form with an input of each look.
func tableForm() state.Question {
	q := formOfInputs()
	q.SubQuestions[0].Question = "Book a table for the team?"
	for name, title := range map[string]string{
		"seats": "Seats", "place": "Where", "smoke": "Vegetarian menu", "day": "Day",
	} {
		n := slices.IndexFunc(q.Fields, func(f state.Field) bool { return f.Name == name })
		q.Fields[n].Title = title
	}
	q.Fields = slices.DeleteFunc(q.Fields, func(f state.Field) bool {
		return !slices.Contains([]string{"name", "seats", "smoke", "place", "day"}, f.Name)
	})
	return q
}

// sendPicture has the person send a picture in the open thread, and attach another file.
func (d *shopDesk) sendPicture(ctx context.Context) {
	d.t.Helper()
	files := d.views[len(d.views)-1].thread
	canAttach := `document.querySelector('#attach').checkVisibility()`
	d.openView(ctx, shopView{thread: files, isShown: canAttach})
	evaluate(d.t, ctx, `new Promise((done) => {
		const box = new OffscreenCanvas(480, 300), pen = box.getContext('2d');
		const draw = (colour, ...at) => { pen.fillStyle = colour; pen.fillRect(...at); };
		const write = (text, x, y, size, colour) => {
			pen.fillStyle = colour; pen.font = size + 'px sans-serif'; pen.fillText(text, x, y);
		};
		draw('#f7f3ea', 0, 0, 480, 300); draw('#2f4858', 0, 0, 480, 56);
		write('Checkout', 24, 37, 24, '#ffffff');
		[['Tea, 250 g', '12.40'], ['Two cups', '18.00'], ['Tax', '5.78']].forEach(([what, costs], i) => {
			write(what, 24, 98 + 34 * i, 20, '#333333');
			write(costs, 396, 98 + 34 * i, 20, '#333333');
		});
		draw('#c8553d', 24, 214, 432, 58); write('Pay 36.18', 192, 251, 24, '#ffffff');
		box.convertToBlob().then((blob) => {
			const choose = (...files) => {
				const list = new DataTransfer(), input = document.getElementById('file-input');
				files.forEach((file) => list.items.add(file));
				input.files = list.files;
				input.dispatchEvent(new Event('change'));
			};
			window.chooseMore = (n = 1) => choose(...Array(n).fill(new File(['Pay'], 'wording.txt')));
			choose(new File([blob], 'checkout.png', { type: 'image/png' }));
			done();
		});
	})`)
	waitUntil(d.t, ctx, `document.querySelectorAll('#chosen-files li').length === 1`)
	typeReply(d.t, ctx, "Red, as in this picture")
	click(d.t, ctx, `[data-send]`)
	waitForReplies(d.t, d.s, files, 1)
	waitUntil(d.t, ctx, `document.querySelector('#chosen-files').hidden`)
	evaluate(d.t, ctx, `window.chooseMore()`)
}

func (d *shopDesk) openView(ctx context.Context, view shopView) {
	d.t.Helper()
	hash := `''`
	if view.thread != "" {
		row := fmt.Sprintf(`document.querySelector('[data-thread="%s"]')`, view.thread)
		waitUntil(d.t, ctx, row)
		hash = row + `.getAttribute('href')`
	}
	evaluate(d.t, ctx, `location.hash = `+hash)
	waitUntil(d.t, ctx, view.isShown)
}

// wideScript lists what needs more room than the window is wide. A box that scrolls by
// itself may hold wide lines.
const wideScript = `(() => {
	const scrolls = (n) => n && n !== document.body &&
		(/auto|scroll/.test(getComputedStyle(n).overflowX) || scrolls(n.parentElement));
	const out = document.documentElement.scrollWidth > innerWidth ? ['the page'] : [];
	for (const n of document.querySelectorAll('body *')) {
		const { left, right, width } = n.getBoundingClientRect();
		const isOut = width > 1 && (right > innerWidth + 0.5 || left < -0.5);
		if (isOut && n.checkVisibility() && !scrolls(n.parentElement)) {
			out.push((n.id || n.className || n.tagName) + ' ' + left + ' to ' + right);
		}
	}
	const boxes = '.pane, .threads, #scroll, #composer, .card, #list-pane h1';
	for (const n of document.querySelectorAll(boxes)) {
		const isWide = n.checkVisibility() && n.scrollWidth > n.clientWidth + 1;
		if (isWide) out.push((n.id || n.className || n.tagName) + ' holds more than its width');
	}
	return out.join('; ');
})()`

// movingScript lists what moves, or would move when it changes.
const movingScript = `(() => {
	const out = [];
	const lasts = (durations) => durations.split(',').some((d) => parseFloat(d) > 0);
	for (const n of document.querySelectorAll('*')) {
		for (const part of ['', '::before', '::after']) {
			const s = getComputedStyle(n, part || null);
			const moves = (s.animationName !== 'none' && lasts(s.animationDuration)) ||
				(s.transitionProperty !== 'none' && lasts(s.transitionDuration)) ||
				s.scrollBehavior === 'smooth';
			if (moves) out.push((n.id || n.className || n.tagName) + part);
		}
	}
	return out.join();
})()`

// keyboardScript marks the controls that a person sees, and keeps how each looks without
// the focus. It returns what takes clicks and is no control.
const keyboardScript = `(() => {
	const controls = 'a[href], button, input, select, textarea, summary, [tabindex]';
	// What a control shows its focus by: itself, or the option around it.
	window.lookOf = (n) => [n, n.closest('.option')].filter(Boolean).map((m) => {
		const s = getComputedStyle(m);
		const outline = s.outlineStyle === 'none' ? '' : s.outlineWidth + s.outlineColor;
		return outline + s.borderColor + s.boxShadow;
	}).join('|');
	document.activeElement.blur();
	window.unreached = new Map();
	for (const n of document.querySelectorAll(controls)) {
		if (!n.checkVisibility({ visibilityProperty: true }) || n.disabled) continue;
		const isNative = n.matches('a, button, input, select, textarea, summary');
		if (n.tabIndex < 0 && !isNative) continue; // only a script moves the focus there
		// The arrow keys go from one radio button of a group to the others.
		const group = n.type === 'radio' ? [...document.getElementsByName(n.name)] : [n];
		if (n !== (group.find((m) => m.checked) ?? group[0])) continue;
		unreached.set(n, lookOf(n));
	}
	window.reached = new Set();
	return [...document.querySelectorAll('body *')].filter((n) => n.checkVisibility() &&
		getComputedStyle(n).cursor === 'pointer' && !n.closest(controls + ', label'))
		.map((n) => n.className || n.tagName).join();
})()`

// focusScript says what is wrong with the focused control; "done" once the focus comes
// round.
const focusScript = `(() => {
	const n = document.activeElement;
	if (n === document.body) return unreached.size === 0 ? 'done' : 'lost';
	if (reached.has(n) && !['date', 'datetime-local'].includes(n.type)) return 'done';
	reached.add(n);
	const before = unreached.get(n);
	unreached.delete(n);
	const name = n.id || n.className || n.tagName;
	const { left, top, right, bottom } = n.getBoundingClientRect();
	const [x, y] = [(left + right) / 2, (Math.max(top, 0) + Math.min(bottom, innerHeight)) / 2];
	const hit = document.elementFromPoint(x, y);
	const isSeen = hit && (n.contains(hit) || hit.contains(n));
	if (!isSeen) return name + ' is hidden by ' + (hit?.id || hit?.className);
	if (before !== undefined && before === lookOf(n)) return name + ' does not look focused';
	return '';
})()`

// wantKeyboard goes through all controls with the Tab key.
func wantKeyboard(t *testing.T, ctx context.Context, where string) {
	t.Helper()
	read := func(script string) string {
		found, err := chromedp.Run(ctx, chromedp.Evaluate[string](script))
		kit.NoError(t, err)
		return found
	}
	kit.Equalf(t, read(keyboardScript), "", "%s: takes clicks and no keys", where)
	for range 100 {
		runActions(t, ctx, chromedp.KeyEvent("\t"))
		found := read(focusScript)
		if found == "done" || found == "lost" {
			break
		}
		kit.Equalf(t, found, "", "%s: the focus", where)
	}
	left := read(`[...unreached.keys()].map((n) => n.id || n.className || n.tagName).join()`)
	kit.Equalf(t, left, "", "%s: not reached with the Tab key", where)
}

// wantNames fails the test if a screen reader has no name for a control or a picture.
func wantNames(t *testing.T, ctx context.Context, where string) {
	t.Helper()
	named := []string{
		"button", "checkbox", "combobox", "DisclosureTriangle", "image", "link", "listbox",
		"radio", "radiogroup", "searchbox", "spinbutton", "textbox", "Date",
	}
	tree := runCommand(t, ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	controls := 0
	for _, n := range tree.Nodes {
		var role, name string
		if n.Ignored || n.Role == nil || n.Name == nil {
			continue
		}
		kit.NoError(t, json.Unmarshal(n.Role.Value, &role))
		kit.NoError(t, json.Unmarshal(n.Name.Value, &name))
		if !slices.Contains(named, role) {
			continue
		}
		controls++
		if strings.TrimSpace(name) == "" {
			t.Errorf("%s: a %s has no name (node %d)", where, role, n.BackendDOMNodeID)
		}
	}
	kit.True(t, controls > 3, "%s: %d controls", where, controls)
}

// Everybody can use each view: texts stand out in light and dark, all controls have names
// and are reached by keyboard, nothing is cut at 320 pixels or at 200 %, and nothing moves
// for a person who does not want that.
func TestPage_IsUsableByAll(t *testing.T) {
	ctx := newBrowser(t)
	d := newShopDesk(t)
	navigate(t, ctx, d.s.PageURL(d.base))
	waitUntil(t, ctx, isLiveScript)
	d.sendPicture(ctx)
	check := func(script, want, what, where string) {
		t.Helper()
		found, err := chromedp.Run(ctx, chromedp.Evaluate[string](script))
		kit.NoError(t, err)
		kit.Equalf(t, found, want, "%s: %s", where, what)
	}
	for _, view := range d.views {
		emulatePhone(t, ctx)
		d.openView(ctx, view)
		check(`document.documentElement.lang`, "en", "language", view.name)
		check(`document.title`, "(3) gchat-hooks", "title", view.name)
		wantNames(t, ctx, view.name)
		for _, scheme := range []string{"light", "dark"} {
			// without the transitions from one colour to the other
			prefer(t, ctx, "prefers-color-scheme", scheme, "prefers-reduced-motion", "reduce")
			wantContrast(t, ctx, view.name+", "+scheme)
		}
		check(movingScript, "", "moves", view.name)

		runActions(t, ctx, chromedp.EmulateViewport(320, 640))
		check(wideScript, "", "wider than 320 pixels", view.name)
		// a window of 1280 by 800 pixels at 200 %
		runActions(t, ctx, chromedp.EmulateViewport(640, 400, chromedp.EmulateScale(2)))
		check(wideScript, "", "wider than the window at 200 %", view.name)
		wantKeyboard(t, ctx, view.name)
	}

	// Above a phone's keyboard there is still room to write and to send.
	runActions(t, ctx, chromedp.EmulateViewport(320, 290))
	for _, view := range d.views {
		d.openView(ctx, view)
		evaluate(t, ctx, `if (!document.querySelector('#attach').hidden) window.chooseMore?.(9)`)
		check(`[...document.querySelectorAll('#reply, #send')]
			.filter((n) => n.getBoundingClientRect().bottom > innerHeight).map((n) => n.id).join()`,
			"", "below the window's end", view.name)
	}
}
