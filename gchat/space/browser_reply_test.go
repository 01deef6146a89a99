package space

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"gchat-hooks/state"
)

// A text in the box goes with a tap, as a remark on the choice.
func TestReplyBox_GoesWithATap(t *testing.T) {
	ctx, d := openCards(t)
	const second, third, send = `[data-option="2"]`, `[data-option="3"]`, `[data-choice="send"]`
	for _, c := range []struct {
		name string
		of   state.SubQuestion
		text string
		taps []string
		want string
	}{
		{
			"a remark", deploymentQuestion, "but keep the footer", []string{second},
			"2 w1=but keep the footer",
		},
		{"like another option", deploymentQuestion, "9", []string{second}, "2 w1=9"},
		{
			"several", featuresQuestion, "but small", []string{second, third, send},
			"send q1=2 q1=3 w1=but small",
		},
		{
			"several, by the other button", featuresQuestion, "but small",
			[]string{second, third, `[data-send]`}, "send q1=2 q1=3 w1=but small",
		},
		{
			"to talk about", deploymentQuestion, "why now?", []string{`[data-choice="chat"]`},
			"chat w1=why now?",
		},
		{
			"several, to talk about", featuresQuestion, "why now?",
			[]string{third, `[data-choice="chat"]`}, "chat q1=3 w1=why now?",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			openNew(t, ctx, d, askQuestions(c.of))
			typeReply(t, ctx, c.text)
			for _, tap := range c.taps {
				click(t, ctx, tap)
			}
			d.wantTap(c.want)
			waitUntil(t, ctx, boxIsEmpty)
		})
	}
	t.Run("skip takes none", func(t *testing.T) {
		thread := openNew(t, ctx, d, askQuestions(deploymentQuestion))
		typeReply(t, ctx, "later")
		click(t, ctx, `[data-choice="skip"]`)
		d.wantTap("skip")
		d.end(thread,
			func(q *state.Question) { q.HandedOverAt = new(time.Now()); q.Status = state.Pending })
		waitUntil(t, ctx,
			hasState("terminal"),
			`document.querySelector('[data-reply]').value === 'later' &&
				document.title.startsWith('(1)')`)
	})
}

// With two questions, the page sends what it shows, and earlier answers count.
func TestReplyBox_TwoQuestions(t *testing.T) {
	ctx, d := openCards(t)
	option := func(question, n int) string {
		return fmt.Sprintf(`[data-question="%d"] [data-option="%d"]`, question, n)
	}
	const send = `[data-choice="send"]`
	says := func(want string) string {
		return fmt.Sprintf(`document.querySelector(%q).textContent === %q`, send, want)
	}
	openNew(t, ctx, d, askQuestions(databaseQuestion, mergesQuestion))
	typeReply(t, ctx, "if it is fast")
	waitUntil(t, ctx, hasOwnText("Your words: if it is fast"))
	click(t, ctx, option(2, 3))
	waitUntil(t, ctx, hasPressed("2.3"))
	click(t, ctx, option(1, 2))
	waitUntil(t, ctx, hasPressed("1.2,2.3"), hasOwnText("Your words: if it is fast"))
	click(t, ctx, send)
	d.wantTap("send q1=2 q2=3 w=if it is fast")
	waitUntil(t, ctx, boxIsEmpty)

	openNew(t, ctx, d, askQuestions(databaseQuestion, mergesQuestion))
	click(t, ctx, option(1, 1))
	fillBox(t, ctx, "please:\nQ2: other: none")
	waitUntil(t, ctx, hasPressed("1.1"))
	click(t, ctx, `[data-send]`)
	d.wantTap("send q1=1 w=please:\nQ2: other: none")

	// An own text for one of them has its own field.
	openNew(t, ctx, d, askQuestions(databaseQuestion, mergesQuestion))
	click(t, ctx, option(1, 1))
	waitUntil(t, ctx, says("Send (1 to go)"))
	runActions(t, ctx, chromedp.SendKeys(chromedp.CSS(`[name="w2"]`), "none of them"))
	waitUntil(t, ctx, says("Send"))
	click(t, ctx, send)
	d.wantTap("send q1=1 w2=none of them")

	// A part of the answers counts, and is shown as chosen, also after a reload.
	thread := openNew(t, ctx, d, askQuestions(databaseQuestion, mergesQuestion))
	typeReply(t, ctx, "Q1: redis\n")
	waitForReplies(t, d.s, thread, 1)
	d.keepPartial(thread, map[int]state.Answer{0: {Labels: []string{"Redis"}, Notes: "soon"}})
	for range 2 {
		waitUntil(t, ctx,
			hasPressed("1.2"),
			`document.querySelector('[name="w1"]').value === 'soon' && `+says("Send (1 to go)"))
		d.postReport(thread, "note "+state.NoteKept, "",
			"[Kept] Q1: Redis - soon. Still missing: Q2.")
		waitUntil(t, ctx, hasState("open"))
		runActions(t, ctx, chromedp.Reload())
	}
	click(t, ctx, option(2, 1))
	waitUntil(t, ctx, hasPressed("1.2,2.1"), says("Send"))
	click(t, ctx, send)
	d.wantTap("send q1=2 q2=1 w1=soon")
}

// A text that cannot be sent, or is too long, stays in the box.
func TestReplyBox_UnsentTextStays(t *testing.T) {
	ctx, d := openCards(t)
	thread := openNew(t, ctx, d, bashPermission())
	typeReply(t, ctx, "use git mv")
	click(t, ctx, `[data-choice="allow"]`)
	d.wantTap("allow")
	d.end(thread, answerWith())
	waitUntil(t, ctx,
		`document.querySelector('[data-reply]').disabled &&
			document.querySelector('[data-reply]').checkVisibility() &&
		document.querySelector('[data-reply]').value === 'use git mv' &&
		!document.querySelector('[data-send]').checkVisibility()`)

	openNew(t, ctx, d, askQuestions(featuresQuestion))
	write := func(bytes int) {
		t.Helper()
		fillBox(t, ctx, strings.Repeat("ö", bytes/2))
	}
	const tooLong = `document.querySelector('#too-long').checkVisibility() &&
		document.querySelector('#too-long').textContent === 'Too long: at most 32,000 bytes'`
	write(32002)
	waitUntil(t, ctx, tooLong+` && document.querySelector('[data-send]').disabled`)
	typeReply(t, ctx, "\n")
	click(t, ctx, `[data-option="2"]`, `[data-choice="send"]`)
	// nothing was sent
	waitUntil(t, ctx, tooLong+` && !document.querySelector('[data-choice="send"]').disabled`)
	write(32000)
	waitUntil(t, ctx, `!document.querySelector('#too-long').checkVisibility()`)
	click(t, ctx, `[data-send]`)
	d.wantTap("send q1=2 w1=" + strings.Repeat("ö", 16000))
	waitUntil(t, ctx, boxIsEmpty)
}
