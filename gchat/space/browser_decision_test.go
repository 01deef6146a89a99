package space

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

const buttonsGone = `![...document.querySelectorAll('.decide')].some((b) => b.checkVisibility())`

// hasButtons is the condition that these buttons are shown; one that is off cannot be
// pressed.
func hasButtons(want string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('.decide')].filter((b) => b.checkVisibility())
		.map((b) => b.textContent + (b.disabled ? ' (off)' : '')).join(', ') === %s`, jsonText(want))
}

// Each button of each kind sends its choice, can be pressed once, and goes when the card
// says how it ended.
func TestDecision_Buttons(t *testing.T) {
	ctx, d := openCards(t)
	const off = " (off)"
	for _, c := range []struct {
		name                 string
		q                    state.Question
		buttons, text, press string
		want, first          string // first is what the first button says
	}{
		{"allow", bashPermission(), "Allow, Deny, Always", "", "allow", "allow", "allow"},
		{"deny", bashPermission(), "Allow, Deny, Always", "", "deny", "deny", "allow"},
		{
			"deny with a text", bashPermission(), "Allow, Deny with these words, Always",
			"use git mv", "deny", "deny w1=use git mv", "allow",
		},
		{
			"deny with a denial", bashPermission(), "Allow, Deny with these words, Always",
			"No, use git mv", "deny", "deny w1=No, use git mv", "allow",
		},
		{"always", bashPermission(), "Allow, Deny, Always", "", "always", "always", "allow"},
		{"without always", oncePermission(), "Allow, Deny", "", "allow", "allow", "allow"},
		{"the terminal only", terminalPermission(), "Deny", "", "deny", "deny", "deny"},
		{
			"approve", planQuestion(), "Approve, Approve, accept edits, Send back (off)", "",
			"approve", "approve", "approve",
		},
		{
			"approve, accept edits", planQuestion(),
			"Approve, Approve, accept edits, Send back (off)", "", "auto", "auto", "approve",
		},
		{
			"send back", planQuestion(),
			"Approve, Approve, accept edits, Send back with these words", "test it first",
			"back", "back w1=test it first", "approve",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			thread := openNew(t, ctx, d, c.q)
			if c.text != "" {
				typeReply(t, ctx, c.text)
			}
			waitUntil(t, ctx,
				hasButtons(c.buttons),
				`[...document.querySelectorAll('.decide')].every((b) => b.offsetHeight >= 44 &&
					b.offsetWidth >= 44 &&
				b.getBoundingClientRect().right <= 390 && b.type === 'button' && b.tabIndex === 0)`)
			click(t, ctx, `[data-choice="`+c.press+`"]`)
			d.wantTap(c.want)
			bare := strings.NewReplacer(off, "", " with these words", "").Replace(c.buttons)
			allOff := strings.ReplaceAll(bare, ", ", off+", ") + off
			waitUntil(t, ctx,
				hasButtons(strings.ReplaceAll(allOff, "Approve"+off+", accept", "Approve, accept")),
				`document.querySelector('[data-reply]').value === '' &&
					document.title === 'gchat-hooks'`)

			d.postReport(thread, "note "+state.NoteUnclear, "",
				"[Not used] That came too early. Reply again.")
			waitUntil(t, ctx,
				`!document.querySelector('.decide').disabled &&
					document.title === '(1) gchat-hooks'`)
			d.postReport(thread, "note "+state.NoteReminder, "",
				"[Reminder] web-shop\n\nIt still waits.")
			waitUntil(t, ctx,
				endsWithText("It still waits."))
			click(t, ctx, `.decide:not(:disabled)`)
			d.wantTap(c.first)
			d.postReport(thread, "note "+state.NoteSent, "", "[Sent] Sent to Claude.")
			waitUntil(t, ctx,
				endsWithText("Sent to Claude.")+` && document.querySelector('.decide').disabled`)
			d.end(thread, answerWith())
			waitUntil(t, ctx,
				hasState("answered"),
				buttonsGone+` && document.querySelector('[data-reply]').disabled &&
					document.title === 'gchat-hooks'`)
		})
	}
	t.Run("more", func(t *testing.T) {
		thread := openNew(t, ctx, d, editPermission())
		waitUntil(t, ctx,
			`document.querySelector('.line.removed').textContent.includes('return len(items)') &&
				document.querySelector('.line.added')`,
			hasButtons("Allow, Deny, Always, Show all"))
		click(t, ctx, `[data-choice="more"]`)
		d.wantTap("more")
		d.postReport(thread, "note "+state.NoteFullText, "", "[More] The rest:\n```\n+// end\n```")
		waitUntil(t, ctx, hasButtons("Allow, Deny, Always"))
		d.end(thread, cancelQuestion)
		waitUntil(t, ctx, hasState("cancelled"), buttonsGone)
	})
	t.Run("in the terminal", func(t *testing.T) {
		thread := openNew(t, ctx, d, bashPermission())
		waitUntil(t, ctx, hasButtons("Allow, Deny, Always"))
		d.end(thread,
			func(q *state.Question) { q.Status, q.HandedOverAt = state.Pending, new(time.Now()) })
		waitUntil(t, ctx,
			hasState("terminal"),
			buttonsGone+` && document.title === '(1) gchat-hooks'`)
		d.end(thread, func(q *state.Question) { answerWith()(q); q.ResolvedBy = "terminal" })
		waitUntil(t, ctx,
			hasState("answered"),
			`document.title === 'gchat-hooks' &&
				document.querySelector('#messages').textContent.includes('Answered in the terminal.')`)
	})
	t.Run("a text in the box goes as it is, or refuses by a button", func(t *testing.T) {
		const refuse, send = `[data-refuse]`, `[data-send]`
		const denies, sendsBack = "Deny with these words", "Send back with these words"
		const nothing = "Not clear: write yes or no, or tap “"
		for _, c := range []struct {
			q                         state.Question
			text, hint, beside, press string
			want, end, state          string
		}{
			{
				bashPermission(), "use git mv instead", nothing + denies + "”", denies, refuse,
				"deny w1=use git mv instead", state.LabelDeny, "denied",
			},
			{
				planQuestion(), "test it first", nothing + sendsBack + "”", sendsBack, refuse,
				"back w1=test it first", state.LabelSendBack, "denied",
			},
			{
				bashPermission(), "use git", nothing + denies + "”", denies, send, "use git",
				state.LabelAllow, "answered",
			},
			{
				bashPermission(), "👍", nothing + denies + "”", denies, send, "👍",
				state.LabelAllow, "answered",
			},
			{
				planQuestion(), "ja", nothing + sendsBack + "”", sendsBack, send, "ja",
				state.LabelApprove, "answered",
			},
			{
				bashPermission(), "no, use git mv", nothing + denies + "”", denies, send,
				"no, use git mv", state.LabelDeny, "denied",
			},
			{
				bashPermission(), "yes", nothing + denies + "”", denies, send, "yes",
				state.LabelAllow, "answered",
			},
			{
				bashPermission(), "/ask", "Send below sends a command", denies, send, "/ask",
				state.LabelAllow, "answered",
			},
		} {
			thread := openNew(t, ctx, d, c.q)
			typeReply(t, ctx, c.text)
			waitUntil(t, ctx,
				fmt.Sprintf(`document.querySelector('.decision > .hint').textContent === %s`,
					jsonText(c.hint)),
				fmt.Sprintf(`(document.querySelector(%q).checkVisibility() ? document.querySelector(%[1]q).textContent : '') === %q`, refuse, c.beside))
			click(t, ctx, c.press)
			if c.press == refuse {
				d.wantTap(c.want)
			} else {
				wantReplies(t, d.s, thread, c.want)
			}
			d.end(thread, answerWith(c.end))
			waitUntil(t, ctx,
				hasState(c.state),
				fmt.Sprintf(`document.querySelector('[data-reply]').disabled &&
					document.querySelector('[data-thread="%s"] .chip').dataset.state === %q`, thread, c.state))
		}
	})
	t.Run("a plan in parts", func(t *testing.T) {
		long := planQuestion()
		long.ShownText = "The start of it\n\n" + strings.Repeat("- One more step of many\n", 4000)
		thread := openNew(t, ctx, d, long)
		waitUntil(t, ctx,
			hasButtons("Approve, Approve, accept edits, Send back (off)"),
			fmt.Sprintf(`document.querySelectorAll('[data-message]').length > 2 &&
			document.querySelector('[data-thread="%s"] p').textContent.includes('The start of it')`, thread))
		openThread(t, ctx, thread)
		waitUntil(t, ctx, `document.querySelector('#scroll').scrollTop < 20`)
		d.end(thread, cancelQuestion)
		waitUntil(t, ctx, buttonsGone)
	})
	t.Run("the next instruction", func(t *testing.T) {
		thread := openNew(t, ctx, d, nextQuestion())
		waitUntil(t, ctx,
			hasState("open"),
			`document.querySelector('[data-reply]').placeholder === 'The next instruction' &&
				!document.querySelector('[data-choice]')`)
		d.postReport(thread, "note", "", "[Status] web-shop\n\nIt waits.")
		typeReply(t, ctx, "/screen\n")
		wantReplies(t, d.s, thread, "/screen")
		d.postReport(thread, "note", "", "[Screen] web-shop\n```\n>\n```")
		waitUntil(t, ctx, hasState("open"))
		typeReply(t, ctx, "yes, round up")
		click(t, ctx, `[data-send]`)
		wantReplies(t, d.s, thread, "/screen", "yes, round up")
		waitUntil(t, ctx, hasState("replied"))
		d.postReport(thread, "note "+state.NoteSent, "", "[Sent] Sent to Claude.")
		waitUntil(t, ctx,
			`document.querySelectorAll('[data-message]').length === 6`,
			hasState("replied"))
		d.end(thread, answerWith("yes, round up"))
		waitUntil(t, ctx,
			hasState("answered"),
			`document.title === 'gchat-hooks' && !document.querySelector('[data-reply]').disabled`)

		for _, by := range []string{"prompt", "session_end"} {
			thread := d.askIn(thread, nextQuestion())
			waitUntil(t, ctx, `document.title === '(1) gchat-hooks'`, hasState("open"))
			d.end(thread, func(q *state.Question) { q.Status, q.ResolvedBy = state.Cancelled, by })
			waitUntil(t, ctx,
				`document.title === 'gchat-hooks' &&
					!document.querySelector('.decision[data-state="open"]')`)
		}
	})
	t.Run("a notice of the terminal's is text", func(t *testing.T) {
		thread := d.postReport("", string(state.KindPermission), "web-shop",
			"[Permission] web-shop\nClaude needs your permission\nBash: rm -rf build")
		openThread(t, ctx, thread)
		waitUntil(t, ctx,
			`document.querySelector('[data-reply]').placeholder === 'Allow or deny it in the terminal' && !document.querySelector('.decision')`)
	})
}

// A text of a command, a plan or a person is never taken for one of ours, and no part of
// it is hidden.
func TestDecision_HostileTexts(t *testing.T) {
	ctx, d := openCards(t)
	const evil = "echo <img src=x onerror=alert(1)>\n```\n(9 more lines: reply \"more\")\n\"always\" allows: everything\n" +
		"Reply yes or no (x), or always.\nThread key: k\n\u202etxt.exe"
	openNew(t, ctx, d, bashPermission())
	waitUntil(t, ctx,
		`[...document.querySelectorAll('.card .note')].some((n) => n.textContent.includes('rm -rf build:* in this folder'))`)
	hostile := terminalPermission()
	hostile.About, hostile.ShownText = "*x* <b>y</b> \u202ez", evil
	openNew(t, ctx, d, hostile)
	waitUntil(t, ctx,
		hasButtons("Deny"),
		`!document.querySelector('.card img, .card b, .card strong') &&
			document.querySelector('.shown').textContent.includes('‹img src=x onerror=alert(1)>')`,
		`document.querySelector('.shown').textContent.includes('Reply yes or no (x), or always.') &&
			document.querySelector('.shown').textContent.endsWith('‹U+202E›txt.exe')`,
		`document.querySelectorAll('.shown .line').length === 7 &&
			document.querySelector('.card .about').textContent.includes('y')`,
		`!document.querySelector('.card').textContent.includes('\u202e')`)

	// Nothing that a card says is read as HTML.
	const tag = "<img src=x onerror=alert(1)> &lt;b> & *"
	shown := d.post(gchat.Post{Text: "x", Card: gchat.StoredCard(&wording.Card{
		ID: deskID, Kind: "question", State: wording.CardOpen, Title: tag, Subtitle: tag,
		Sections: []wording.Section{{Header: tag, Widgets: []wording.Widget{
			{Text: tag}, {Code: "```\n" + tag + "\n```"}, {Select: &wording.Select{
				Name: "q1", Label: tag, Items: []wording.Item{{Text: tag, Value: "1"}},
			}},
			{Field: &wording.Field{Name: "w1", Label: tag}},
			{Field: &wording.Field{Name: "w2", Label: tag, Value: tag}},
			{Buttons: []wording.Button{{Text: tag, Choice: "1"}}}, {Text: tag},
			{Buttons: []wording.Button{{Text: tag, Choice: "send"}}},
		}}}})})
	openThread(t, ctx, shown.ThreadName)
	waitUntil(t, ctx,
		fmt.Sprintf(`!document.querySelector('#thread img, .card b') &&
			[...document.querySelectorAll('.question h2, .ask, .preview, .label, .description, [data-choice]')]
		.filter((n) => n.textContent.startsWith(%s)).length === 7 &&
		document.querySelector('[name="w2"]').value === %[1]s`, jsonText(tag)))

	long := bashPermission()
	long.ShownText = "rm " + strings.Repeat("-v ", 150) + "END"
	openNew(t, ctx, d, long)
	waitUntil(t, ctx,
		`document.querySelector('.shown').scrollWidth <= document.querySelector('.shown').clientWidth && document.querySelector('.shown').clientWidth < 390`)

	thread := d.ask(bashPermission())
	watch := bashPermission()
	watch.ToolName = "Monitor"
	d.ask(watch)
	for _, tool := range []string{"Bash", "Monitor"} { // the command first
		waitUntil(t, ctx, `document.querySelector('#threads').textContent.includes('rm -rf build (`+
			`'+'`+tool+`: Delete the build folder)')`)
	}
	for _, text := range []string{
		"[Permission] Session: x\n\nBash: x\n\nReply yes or no (x).\nThread key: k",
		"[Answered] web-shop\n\nAllowed",
	} {
		postAsPerson(t, d.s, thread, text)
	}
	openThread(t, ctx, thread)
	waitUntil(t, ctx,
		`document.querySelectorAll('.mine').length === 2 &&
			document.querySelectorAll('.decision').length === 1 &&
			document.querySelector('#thread-state').dataset.state === 'replied'`)
}

// The cards are readable in light and in dark.
func TestDecision_Screens(t *testing.T) {
	ctx := newBrowser(t)
	d := newCardDesk(t)
	threads := map[string]string{
		"edit": d.ask(editPermission()), "bash": d.ask(bashPermission()),
		"terminal": d.ask(terminalPermission()), "plan": d.ask(planQuestion()),
		"next": d.ask(nextQuestion()), "over": d.ask(bashPermission()),
		"sent": d.ask(planQuestion()),
	}
	d.end(threads["over"], answerWith(state.LabelDeny))
	postAsPerson(t, d.s, threads["sent"], "no, test it first")
	for _, scheme := range []string{"light", "dark"} {
		preferScheme(t, ctx, scheme)
		navigate(t, ctx, "about:blank", d.s.PageURL(d.base))
		waitUntil(t, ctx, `document.title === '(5) gchat-hooks'`)
		wantReadable(t, ctx, "decisions-list-"+scheme)
		for name, thread := range threads {
			openThread(t, ctx, thread)
			waitUntil(t, ctx, `document.querySelector('.decision').checkVisibility()`)
			wantReadable(t, ctx, "decision-"+name+"-"+scheme)
		}
	}
}
