package space

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

const (
	askBash = "[Permission] Session: web-shop\nFolder: /home/ann/web-shop\n\nBash: Delete the build folder\n```\nrm -rf build\n```\n\n" +
		"\"always\" allows: `rm -rf build:* in this folder`\n" +
		"Reply yes or no (with a reason if you like: \"no, use git mv\"), or always.\nThread key: permission-1"
	askEdit = "[Permission] Session: web-shop\nFolder: /home/ann/web-shop\n\nEdit: cart/total.go\n```\n func total(items []Item) int {\n" +
		"-\treturn len(items)\n+\tsum := 0\n+\tfor _, item := range items {\n+\t\tsum += item.Price * item.Count\n+\t}\n+\treturn sum\n }\n```\n" +
		"(12 more lines: reply \"more\")\n\n\"always\" allows: all edits in this session\n" +
		"Reply yes or no (with a reason if you like: \"no, use git mv\"), or always.\nThread key: permission-2"
	askOnce = "[Permission] Session: web-shop\nFolder: /home/ann/web-shop\n\nWebFetch: https://example.com/a\n\n" +
		"Reply yes or no (with a reason if you like: \"no, use git mv\").\nThread key: permission-3"
	askTerminal = "[Permission] Session: web-shop\nFolder: /home/ann/web-shop\n\nBash: Publish\n```\ngit push --force\n```\n\n" +
		"Only the terminal can allow this. Reply no (with a reason if you like: \"no, use git mv\").\nThread key: permission-4"
	askPlan = "[Plan] Session: web-shop\nFolder: /home/ann/web-shop\n\n*Totals*\n\n• Sum the prices in `cart/total.go`\n• Round once, at the end\n" +
		"• Test with *three* currencies\n\nNo change to the database.\n\n" +
		"Reply yes, \"yes, accept edits\" (edits need no permission then), or \"no, …\" with what to change.\nThread key: plan-1"
	askNext = "[Waiting for you] web-shop\n\nThe totals are right now, and all *42* tests pass. Shall I look at the rounding, too?\n\n" +
		"Reply with the next instruction."
)

const buttonsGone = `!document.querySelector('[data-decide]')`

// named are the buttons that stand, and whether they can be pressed.
func wantButtons(t *testing.T, ctx context.Context, want string) {
	t.Helper()
	until(t, ctx, fmt.Sprintf(`[...document.querySelectorAll('[data-decide]')].filter((b) => b.checkVisibility())
		.map((b) => b.textContent + (b.disabled ? ' (off)' : '')).join(', ') === %s`, jsonText(want)))
}

// Each button of each kind sends its words, can be pressed once, and goes when the thread says how it ended.
func TestDecisionButtons(t *testing.T) {
	ctx := browser(t)
	s, srv := testServer(t, Options{})
	do(t, ctx, chromedp.Navigate(s.PageURL(srv.URL)))
	const off = " (off)"
	for _, c := range []struct{ name, text, buttons, words, press, want string }{
		{"allow", askBash, "Allow, Deny, Always", "", "yes", "yes"},
		{"deny", askBash, "Allow, Deny, Always", "", "no", "no"},
		{"deny with words", askBash, "Allow, Deny with these words, Always", "use git mv", "no", "no, use git mv"},
		{"deny with a denial", askBash, "Allow, Deny with these words, Always", "No, use git mv", "no", "No, use git mv"},
		{"always", askBash, "Allow, Deny, Always", "", "always", "always"},
		{"without always", askOnce, "Allow, Deny", "", "yes", "yes"},
		{"the terminal only", askTerminal, "Deny", "", "no", "no"},
		{"approve", askPlan, "Approve, Approve, accept edits, Send back (off)", "", "yes", "yes"},
		{"approve, accept edits", askPlan, "Approve, Approve, accept edits, Send back (off)", "", "yes, accept edits", "yes, accept edits"},
		{"send back", askPlan, "Approve, Approve, accept edits, Send back with these words", "test it first", "no", "no, test it first"},
	} {
		t.Run(c.name, func(t *testing.T) {
			thread := ask(t, s, srv.URL, c.name, c.text)
			openThread(t, ctx, thread)
			until(t, ctx, `document.querySelector('#thread-state').dataset.state === 'open'`)
			if c.words != "" {
				do(t, ctx, chromedp.SendKeys(chromedp.CSS(`[data-reply]`), c.words))
			}
			wantButtons(t, ctx, c.buttons)
			until(t, ctx, `[...document.querySelectorAll('[data-decide]')].every((b) => b.offsetHeight >= 44 && b.offsetWidth >= 44 &&
				b.getBoundingClientRect().right <= 390 && b.type === 'button' && b.tabIndex === 0)`)
			click(t, ctx, `[data-decide="`+c.press+`"]`)
			wantReplies(t, s, thread, c.want)
			bare := strings.NewReplacer(off, "", " with these words", "").Replace(c.buttons)
			allOff := strings.ReplaceAll(bare, ", ", off+", ") + off
			wantButtons(t, ctx, strings.ReplaceAll(allOff, "Approve"+off+", accept", "Approve, accept"))
			until(t, ctx, `document.querySelector('[data-reply]').value === '' && document.title === 'Local space'`)

			ask(t, s, srv.URL, c.name, "[Not used] That came too early. Reply again.")
			until(t, ctx, `!document.querySelector('.decide').disabled && document.title === '(1) Local space'`)
			ask(t, s, srv.URL, c.name, "[Reminder] web-shop\n\nIt still waits.")
			click(t, ctx, `.decide:not(:disabled)`)
			replied(t, s, thread, 2)
			ask(t, s, srv.URL, c.name, "[Sent] Sent to Claude.")
			until(t, ctx, `document.querySelector('#messages').lastChild.textContent.includes('Sent to Claude.') && document.querySelector('.decide').disabled`)
			ask(t, s, srv.URL, c.name, "[Answered] web-shop\n\nDone.")
			until(t, ctx, buttonsGone+` && document.querySelector('#thread-state').dataset.state === 'answered'`)
			until(t, ctx, `document.querySelector('[data-reply]').disabled && document.title === 'Local space'`)
		})
	}
	t.Run("more", func(t *testing.T) {
		thread := ask(t, s, srv.URL, "more", askEdit)
		openThread(t, ctx, thread)
		wantButtons(t, ctx, "Show 12 more lines, Allow, Deny, Always")
		click(t, ctx, `[data-decide="more"]`)
		wantReplies(t, s, thread, "more")
		wantButtons(t, ctx, "Show 12 more lines (off), Allow (off), Deny (off), Always (off)")
		ask(t, s, srv.URL, "more", "[More] The rest:\n```\n+// end\n```")
		wantButtons(t, ctx, "Allow, Deny, Always")
		ask(t, s, srv.URL, "more", "[Cancelled] web-shop\n\nThe session ended.")
		until(t, ctx, buttonsGone+` && document.querySelector('#thread-state').dataset.state === 'cancelled'`)
	})
	t.Run("in the terminal", func(t *testing.T) {
		thread := ask(t, s, srv.URL, "terminal", askBash)
		openThread(t, ctx, thread)
		wantButtons(t, ctx, "Allow, Deny, Always")
		ask(t, s, srv.URL, "terminal", "[In the terminal] web-shop\n\nBash: rm -rf build\n\nIn the terminal since 14:02: answer it there.")
		until(t, ctx, buttonsGone+` && document.querySelector('#thread-state').dataset.state === 'terminal' && document.title === '(1) Local space'`)
		ask(t, s, srv.URL, "terminal", "[Answered] web-shop\n\nBash: rm -rf build\n\nAnswered in the terminal.")
		until(t, ctx, `document.querySelector('#thread-state').dataset.state === 'answered' && document.title === 'Local space'`)
	})
	t.Run("words in the box go as they are, or refuse by a button", func(t *testing.T) {
		const refuse, send = `[data-refuse]`, `[data-send]`
		const denies, sendsBack, nothing = "Deny with these words", "Send back with these words", "Send below decides nothing: write yes or no, or tap “"
		for _, c := range []struct{ text, words, hint, beside, press, want, end, state string }{
			{askBash, "use git mv instead", nothing + denies + "”", denies, refuse, "no, use git mv instead", "Denied: Bash: rm -rf build", "denied"},
			{askPlan, "test it first", nothing + sendsBack + "”", sendsBack, refuse, "no, test it first", "Sent the plan back.", "denied"},
			{askBash, "use git", nothing + denies + "”", denies, send, "use git", "Allowed: Bash: rm -rf build", "answered"},
			{askBash, "👍", nothing + denies + "”", denies, send, "👍", "Allowed: Bash: rm -rf build", "answered"},
			{askPlan, "ja", nothing + sendsBack + "”", sendsBack, send, "ja", "Approved the plan.", "answered"},
			{askBash, "no problem", nothing + denies + "”", denies, send, "no problem", "Allowed: Bash: rm -rf build", "answered"},
			{askBash, "why?", nothing + denies + "”", denies, refuse, "no, why?", "Denied: Bash: rm -rf build", "denied"},
			{askBash, "no, use git mv", "Send below means: Deny: use git mv", denies, send, "no, use git mv", "Denied: Bash: rm -rf build", "denied"},
			{askPlan, "yes, auto", "Send below means: Approve, accept edits", "", send, "yes, auto", "Approved the plan.", "answered"},
			{askBash, "yes", "Send below means: Allow", "", send, "yes", "Allowed: Bash: rm -rf build", "answered"},
			{askBash, "/ask", "Send below means: a command", denies, send, "/ask", "Allowed: Bash: rm -rf build", "answered"},
		} {
			key := "words " + c.words + c.text[:9]
			thread := ask(t, s, srv.URL, key, c.text)
			openThread(t, ctx, thread)
			until(t, ctx, `document.querySelector('#thread-state').dataset.state === 'open'`)
			do(t, ctx, chromedp.SendKeys(chromedp.CSS(`[data-reply]`), c.words))
			until(t, ctx, fmt.Sprintf(`document.querySelector('.decisions .hint').textContent === %s`, jsonText(c.hint)))
			until(t, ctx, fmt.Sprintf(`(document.querySelector(%q).checkVisibility() ? document.querySelector(%[1]q).textContent : '') === %q`, refuse, c.beside))
			click(t, ctx, c.press)
			wantReplies(t, s, thread, c.want)
			ask(t, s, srv.URL, key, "[Answered] web-shop\n\n"+c.end)
			until(t, ctx, fmt.Sprintf(`document.querySelector('#thread-state').dataset.state === %q && document.querySelector('[data-reply]').disabled`, c.state))
			until(t, ctx, fmt.Sprintf(`document.querySelector('[data-thread="%s"] .chip').dataset.state === %q`, thread, c.state))
		}
	})
	t.Run("a plan in parts", func(t *testing.T) {
		long := strings.Repeat("• One more step of many\n", 40)
		thread := ask(t, s, srv.URL, "parts", "[Plan] Session: web-shop (1/2)\nFolder: /home/ann/web-shop\n\nThe start of it\n"+long)
		openThread(t, ctx, thread)
		until(t, ctx, `document.querySelectorAll('[data-message]').length === 1 && `+buttonsGone)
		ask(t, s, srv.URL, "parts", strings.Replace(askPlan, "web-shop\nFolder: /home/ann/web-shop\n", "web-shop (2/2)\n", 1))
		wantButtons(t, ctx, "Approve, Approve, accept edits, Send back (off)")
		until(t, ctx, fmt.Sprintf(`document.querySelector('[data-thread="%s"] p').textContent.startsWith('The start of it')`, thread))
		openThread(t, ctx, thread)
		until(t, ctx, `document.querySelector('#scroll').scrollTop < 20`)
		ask(t, s, srv.URL, "parts", "[Cancelled] web-shop\n\nThe session ended.")
		until(t, ctx, buttonsGone)
	})
	t.Run("the next instruction", func(t *testing.T) {
		thread := ask(t, s, srv.URL, "session-1", askNext)
		openThread(t, ctx, thread)
		const state = `document.querySelector('#thread-state').dataset.state === `
		until(t, ctx, state+`'open' && document.querySelector('[data-reply]').placeholder === 'Write the next instruction'`)
		ask(t, s, srv.URL, "session-1", "[Status] web-shop\n\nIt waits.")
		do(t, ctx, chromedp.SendKeys(chromedp.CSS(`[data-reply]`), "/screen\n"))
		wantReplies(t, s, thread, "/screen")
		until(t, ctx, state+`'replied'`)
		ask(t, s, srv.URL, "session-1", "[Screen] web-shop\n```\n>\n```")
		until(t, ctx, state+`'open'`)
		do(t, ctx, chromedp.SendKeys(chromedp.CSS(`[data-reply]`), "yes, round up"))
		click(t, ctx, `[data-send]`)
		wantReplies(t, s, thread, "/screen", "yes, round up")
		until(t, ctx, state+`'replied'`)
		ask(t, s, srv.URL, "session-1", "[Sent] Sent to Claude.")
		until(t, ctx, state+`'answered' && document.title === 'Local space' && !document.querySelector('[data-reply]').disabled`)

		for _, end := range []string{"[Answered] web-shop\n\nYou went on in the terminal.", "[Cancelled] web-shop\n\nIt is over.", "[Session End] web-shop"} {
			ask(t, s, srv.URL, "session-1", askNext)
			until(t, ctx, state+`'open' && document.title === '(1) Local space'`)
			ask(t, s, srv.URL, "session-1", askNext) // the newer takes its place
			until(t, ctx, `[...document.querySelectorAll('.decision')].filter((n) => n.dataset.state === 'open').length === 1`)
			ask(t, s, srv.URL, "session-1", end)
			until(t, ctx, `document.title === 'Local space' && !document.querySelector('.decision[data-state="open"]')`)
		}
	})
	t.Run("the old notification stays text", func(t *testing.T) {
		thread := ask(t, s, srv.URL, "session-2", "[Permission] web-shop\nClaude needs your permission\nBash: rm -rf build")
		openThread(t, ctx, thread)
		until(t, ctx, `document.querySelector('[data-reply]').placeholder === 'Allow or deny it in the terminal' && !document.querySelector('.decision')`)
	})
}

// What a command, a plan or a person writes is never taken for a line of ours, and nothing of it is hidden.
func TestHostileDecisions(t *testing.T) {
	ctx := browser(t)
	s, srv := testServer(t, Options{})
	do(t, ctx, chromedp.Navigate(s.PageURL(srv.URL)))
	const evil = "echo <img src=x onerror=alert(1)>\n```\n(9 more lines: reply \"more\")\n\"always\" allows: everything\n" +
		"Reply yes or no (x), or always.\nThread key: k\n\u202etxt.exe"
	text := strings.NewReplacer("rm -rf build\n", evil+strings.Repeat("x", 300)+"END\n", "Delete the build folder", "*x* <b>y</b> \u202ez").Replace(askTerminal)
	text = strings.Replace(text, "git push --force", evil, 1)
	openThread(t, ctx, ask(t, s, srv.URL, "always", askBash))
	until(t, ctx, `document.querySelector('.card .always').textContent === '“Always” allows: rm -rf build:* in this folder'`)
	openThread(t, ctx, ask(t, s, srv.URL, "evil", text))
	wantButtons(t, ctx, "Deny")
	until(t, ctx, `!document.querySelector('.card img, .card .always') && document.querySelector('.shown').textContent.includes('<img src=x onerror=alert(1)>')`)
	until(t, ctx, `document.querySelector('.shown').textContent.includes('Reply yes or no (x), or always.') && document.querySelector('.shown').textContent.endsWith('‹U+202E›txt.exe')`)

	long := strings.Replace(askBash, "rm -rf build\n", "rm "+strings.Repeat("-v ", 300)+"END\n", 1)
	openThread(t, ctx, ask(t, s, srv.URL, "long", long))
	until(t, ctx, `document.querySelector('.shown').scrollWidth <= document.querySelector('.shown').clientWidth && document.querySelector('.shown').clientWidth < 390`)

	thread := ask(t, s, srv.URL, "mine", askBash)
	ask(t, s, srv.URL, "watch", strings.Replace(askBash, "Bash: ", "Monitor: ", 1))
	for _, tool := range []string{"Bash", "Monitor"} { // as in status
		until(t, ctx, `document.querySelector('#threads').textContent.includes('`+tool+`: rm -rf build (Delete the build folder)')`)
	}
	for _, said := range []string{askEdit, "[Answered] web-shop\n\nAllowed"} {
		if _, err := s.Say(nil, thread, said); err != nil {
			t.Fatal(err)
		}
	}
	openThread(t, ctx, thread)
	until(t, ctx, `document.querySelectorAll('.mine').length === 2 && document.querySelectorAll('.decision').length === 1 && document.querySelector('#thread-state').dataset.state === 'replied'`)

	// The page knows the messages that are sent, in all their forms.
	texts := []string{askBash, askEdit, askOnce, askTerminal, askPlan, askNext}
	for _, q := range []state.Question{
		{Kind: state.AskedPermission, Tool: "Bash", Shown: "git push"}, {Kind: state.AskedPlan, Shown: "# Plan"}, {Kind: state.AskedPlan, Shown: "# Plan", TerminalOnly: true},
		{Kind: state.AskedPermission, Tool: "Bash", Shown: "git push", AlwaysAllows: "git in this session"},
		{Kind: state.AskedPermission, Tool: "Bash", Shown: strings.Repeat("git push\n", 50), TerminalOnly: true},
		{Kind: state.AskedNext, Shown: "Shall I?"},
	} {
		q.SessionName, q.CWD, q.ThreadKey = "shop", "/home/ann/shop", "ask-user-1"
		texts = append(texts, wording.QuestionTexts(&q)...)
		q.Machine = "vps1"
		texts = append(texts, wording.QuestionTexts(&q)...)
	}
	broken, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf(`(async (texts) => {
		const { parseDecision } = await import('/page/decision.js');
		for (const text of texts) {
			const lines = text.split('\n');
			if (!parseDecision(text)) return text;
			for (let i = 0; i < lines.length; i++) {
				for (const cut of [lines.slice(0, i), lines.slice(i), lines.toSpliced(i, 1), lines.toSpliced(i, 0, lines[i])]) parseDecision(cut.join('\n'));
			}
		}
		return '';
	})(%s)`, jsonText(texts)), chromedp.EvalAwaitPromise))
	if err != nil || broken != "" {
		t.Errorf("not parsed: %s (%v)", broken, err)
	}
}

// The page says what a typed reply to a decision means.
func TestThePageReadsDecisions(t *testing.T) {
	ctx := browser(t)
	s, srv := testServer(t, Options{})
	do(t, ctx, chromedp.Navigate(s.PageURL(srv.URL)))
	type testCase struct{ Text, Reply, Want string }
	wrong, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf(`(async (cases) => {
		const { parseDecision, meaning } = await import('/page/decision.js');
		return cases.map(({ Text, Reply, Want }) => [meaning(parseDecision(Text), Reply), Reply, Want])
			.filter(([got, , want]) => got !== want).join('\n');
	})(%s)`, jsonText([]testCase{
		{askBash, "y", "Allow"}, {askBash, " YES ", "Allow"}, {askBash, "allow", "Allow"}, {askBash, "1", "Allow"}, {askBash, "always", "Always"},
		{askBash, "n", "Deny"}, {askBash, "deny", "Deny"}, {askBash, "no, use git mv", "Deny: use git mv"}, {askBash, "no\nuse *git*", "Deny: use *git*"},
		{askBash, "nothing", ""}, {askBash, "yes but later", ""}, {askBash, "2", ""}, {askBash, "more", ""},
		{askOnce, "always", ""}, {askTerminal, "yes", ""}, {askTerminal, "no", "Deny"}, {askEdit, "more", "Show more"},
		{askPlan, "yes", "Approve"}, {askPlan, "Yes, auto", "Approve, accept edits"}, {askPlan, "yes accept edits", "Approve, accept edits"},
		{askBash, "👍", ""}, {askBash, "ja", ""}, {askBash, "no problem", ""}, {askPlan, "no, smaller", "Send back: smaller"}, {askPlan, "always", ""},
		{askNext, "anything", ""},
	})), chromedp.EvalAwaitPromise))
	if err != nil || wrong != "" {
		t.Errorf("read otherwise (got, reply, want):\n%s (%v)", wrong, err)
	}
}

// The cards can be read, in light and in dark.
func TestDecisionScreens(t *testing.T) {
	ctx := browser(t)
	s, srv := testServer(t, Options{})
	threads := map[string]string{
		"edit": ask(t, s, srv.URL, "edit", askEdit), "bash": ask(t, s, srv.URL, "bash", askBash), "terminal": ask(t, s, srv.URL, "terminal", askTerminal),
		"plan": ask(t, s, srv.URL, "plan", askPlan), "next": ask(t, s, srv.URL, "session-1", askNext),
		"over": ask(t, s, srv.URL, "over", askBash), "sent": ask(t, s, srv.URL, "sent", askPlan),
	}
	ask(t, s, srv.URL, "over", "[Answered] web-shop\n\nDenied: Bash: rm -rf build\nReason: use git mv")
	if _, err := s.Say(nil, threads["sent"], "no, test it first"); err != nil {
		t.Fatal(err)
	}
	for _, scheme := range []string{"light", "dark"} {
		do(t, ctx, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			return err
		}))
		do(t, ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(s.PageURL(srv.URL)))
		until(t, ctx, `document.title === '(5) Local space'`)
		wantContrast(t, ctx, "list, "+scheme)
		screenshot(t, ctx, "decisions-list-"+scheme)
		for name, thread := range threads {
			openThread(t, ctx, thread)
			until(t, ctx, `document.querySelector('.decision').checkVisibility()`)
			wantContrast(t, ctx, name+", "+scheme)
			screenshot(t, ctx, "decision-"+name+"-"+scheme)
		}
	}
}
