package space

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// typeWords types into the reply box, at its end.
func typeWords(t *testing.T, ctx context.Context, words string) {
	t.Helper()
	do(t, ctx, chromedp.SendKeys(chromedp.CSS(`[data-reply]`), words))
}

// fillBox puts a text of any lines into the reply box.
func fillBox(t *testing.T, ctx context.Context, text string) {
	t.Helper()
	do(t, ctx, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => {
		const box = document.querySelector('[data-reply]');
		box.value = %s;
		box.dispatchEvent(new Event('input'));
	})()`, jsonText(text))))
}

// openAsked opens a thread whose question waits.
func openAsked(t *testing.T, ctx context.Context, thread string) {
	t.Helper()
	openThread(t, ctx, thread)
	until(t, ctx, `document.querySelector('#thread-state').dataset.state === 'open'`)
}

const boxIsEmpty = `document.querySelector('[data-reply]').value === ''`

// pressed are the options that the page shows as chosen, as "question.option".
func wantPressed(t *testing.T, ctx context.Context, want string) {
	t.Helper()
	until(t, ctx, fmt.Sprintf(`[...document.querySelectorAll('[aria-pressed="true"]')]
		.map((b) => b.closest('section').dataset.question + '.' + b.dataset.option).join() === %q`, want))
}

// wantOwnWords are the words that the page shows as an answer, or as a remark on what is chosen.
func wantOwnWords(t *testing.T, ctx context.Context, want string) {
	t.Helper()
	until(t, ctx, fmt.Sprintf(`[...document.querySelectorAll('.own')].filter((p) => p.checkVisibility())
		.map((p) => p.textContent).join('|') === %s`, jsonText(want)))
}

// Words in the box go along with a tap, as a remark on what was tapped.
func TestWordsGoAlongWithATap(t *testing.T) {
	ctx := browser(t)
	s, srv := testServer(t, Options{})
	do(t, ctx, chromedp.Navigate(s.PageURL(srv.URL)))
	const second, third, send = `[data-option="2"]`, `[data-option="3"]`, `[data-send-choices]`
	for _, c := range []struct {
		name, text, words string
		taps              []string
		want              string
	}{
		{"a remark", askDeployment, "but keep the footer", []string{second}, "2 - but keep the footer"},
		{"with a dash", askDeployment, "keep it - please", []string{second}, "2 - keep it - please"},
		{"like another option", askDeployment, "9", []string{second}, "2 - 9"},
		{"like another answer", askDeployment, "Q1: 3", []string{second}, "2 - Q1: 3"},
		{"the same choice", askDeployment, "2 - but keep it", []string{second}, "2 - but keep it"},
		{"several", askFeatures, "but small", []string{second, third, send}, "2,3 - but small"},
		{"several, by the other button", askFeatures, "but small", []string{second, third, `[data-send]`}, "2,3 - but small"},
	} {
		t.Run(c.name, func(t *testing.T) {
			thread := ask(t, s, srv.URL, "k-"+c.name, c.text)
			openAsked(t, ctx, thread)
			typeWords(t, ctx, c.words)
			for _, tap := range c.taps {
				click(t, ctx, tap)
			}
			wantReplies(t, s, thread, c.want)
			until(t, ctx, boxIsEmpty)
			var q state.Question
			p := state.Prompt{Question: "Which?", MultiSelect: c.text == askFeatures}
			for _, label := range []string{"A", "B", "C"} {
				p.Options = append(p.Options, state.Option{Label: label})
			}
			q.Questions = []state.Prompt{p}
			answers, none := wording.ParseReply(c.want, q.Questions, nil)
			if a := answers[0]; none != nil || len(a.Labels) != strings.Count(c.want[:3], ",")+1 || a.Notes == "" {
				t.Errorf("%q is read as %+v", c.want, answers)
			}
		})
	}
}

// With two questions, what is sent is what is shown, and what was answered before counts.
func TestWhatIsShownOfTwoQuestionsIsSent(t *testing.T) {
	ctx := browser(t)
	s, srv := testServer(t, Options{})
	do(t, ctx, chromedp.Navigate(s.PageURL(srv.URL)))
	option := func(question, n int) string {
		return fmt.Sprintf(`[data-question="%d"] [data-option="%d"]`, question, n)
	}
	thread := ask(t, s, srv.URL, "taps", askTwo)
	openAsked(t, ctx, thread)
	typeWords(t, ctx, "if it is fast")
	wantOwnWords(t, ctx, "Your words: if it is fast")
	click(t, ctx, option(2, 3))
	wantPressed(t, ctx, "2.3")
	click(t, ctx, option(1, 2))
	wantPressed(t, ctx, "1.2,2.3")
	wantOwnWords(t, ctx, "Your words: if it is fast")
	click(t, ctx, `[data-send-choices]`)
	wantReplies(t, s, thread, "Q1: 2 - if it is fast\nQ2: 3")
	until(t, ctx, boxIsEmpty)

	thread = ask(t, s, srv.URL, "words", askTwo)
	openAsked(t, ctx, thread)
	click(t, ctx, option(1, 1))
	fillBox(t, ctx, "please:\nQ2: other: none")
	wantPressed(t, ctx, "1.1")
	click(t, ctx, `[data-send]`)
	wantReplies(t, s, thread, "please:\nQ1: 1\nQ2: other: none")

	// A part of the answers counts, is shown as chosen, and is not said again.
	thread = ask(t, s, srv.URL, "partial", askTwo)
	openAsked(t, ctx, thread)
	typeWords(t, ctx, "just auth and postgres\n")
	wantReplies(t, s, thread, "just auth and postgres")
	ask(t, s, srv.URL, "partial", `[Kept] Q1: just auth and postgres. Still missing: Q2. Reply with, for example, "Q2: 1".`)
	wantOwnWords(t, ctx, "Your words: just auth and postgres")
	until(t, ctx, `document.querySelector('[data-send-choices]').textContent === 'Send answers (1 to go)'`)
	click(t, ctx, option(2, 1))
	wantPressed(t, ctx, "2.1")
	until(t, ctx, `document.querySelector('[data-send-choices]').textContent === 'Send answers'`)
	click(t, ctx, `[data-send-choices]`)
	wantReplies(t, s, thread, "just auth and postgres", "Q2: 1")
}

// On a card, words go along with a tap, too.
func TestWordsGoAlongWithATapOnACard(t *testing.T) {
	ctx := browser(t)
	s, srv, app := openApp(t, Options{Direct: true})
	do(t, ctx, chromedp.Navigate(s.PageURL(srv.URL)))
	var q state.Question
	q.Questions = []state.Prompt{{Question: "Which?", Options: []state.Option{{Label: "A"}, {Label: "B"}}}}
	texts, card := wording.CardTexts(&q, "0123456789abcdef0123456789abcdef", gchat.CardSize)
	posted, err := app.Post(t.Context(), gchat.Post{Text: texts[0], Card: gchat.CardV2(card)})
	if err != nil {
		t.Fatal(err)
	}
	openAsked(t, ctx, posted.ThreadName)
	typeWords(t, ctx, "but keep it")
	click(t, ctx, `[data-option="2"]`)
	if e := pullAll(t, app, 1)[0].Event; e.Message.Text != "2 - but keep it" || e.Message.ThreadName != posted.ThreadName {
		t.Errorf("the app hears %+v", e)
	}
}

// What cannot be sent any more, or is too long, stays in the box.
func TestUnsentWordsStay(t *testing.T) {
	ctx := browser(t)
	s, srv := testServer(t, Options{})
	do(t, ctx, chromedp.Navigate(s.PageURL(srv.URL)))
	thread := ask(t, s, srv.URL, "allow", askBash)
	openAsked(t, ctx, thread)
	typeWords(t, ctx, "use git mv")
	click(t, ctx, `[data-decide="yes"]`)
	wantReplies(t, s, thread, "yes")
	ask(t, s, srv.URL, "allow", "[Answered] web-shop\n\nAllowed: Bash: rm -rf build")
	until(t, ctx, `document.querySelector('[data-reply]').disabled && document.querySelector('[data-reply]').checkVisibility() &&
		document.querySelector('[data-reply]').value === 'use git mv' && !document.querySelector('[data-send]').checkVisibility()`)

	thread = ask(t, s, srv.URL, "long", askDeployment)
	openAsked(t, ctx, thread)
	write := func(bytes int) {
		t.Helper()
		fillBox(t, ctx, strings.Repeat("ö", bytes/2))
	}
	const tooLong = `document.querySelector('#too-long').checkVisibility() &&
		document.querySelector('#too-long').textContent === 'Too long: at most 32,000 bytes'`
	write(32002)
	until(t, ctx, tooLong+` && document.querySelector('[data-send]').disabled`)
	typeWords(t, ctx, "\n")
	click(t, ctx, `[data-option="2"]`)
	write(31998)
	until(t, ctx, tooLong+` && document.querySelector('[data-send]').disabled`) // "2 - " goes before
	write(31996)
	until(t, ctx, `!document.querySelector('#too-long').checkVisibility()`)
	click(t, ctx, `[data-send]`)
	wantReplies(t, s, thread, "2 - "+strings.Repeat("ö", 15998))
	until(t, ctx, boxIsEmpty)
}

// Previews are shown below their options, as they are.
func TestPreviewsOnThePage(t *testing.T) {
	ctx := browser(t)
	s, srv := testServer(t, Options{})
	do(t, ctx, chromedp.Navigate(s.PageURL(srv.URL)))
	const side, top = "+--+\n|  nav\n+--+", "==\n3. All\nOptions:\n1. x\n```\nReply with a\n---\nQ2. b"
	p := state.Prompt{Header: "Layout", Question: "Which?", Options: []state.Option{
		{Label: "Side", Description: "left", Preview: side}, {Label: "Top", Preview: top}, {Label: "None"},
	}}
	for n := 1; n <= 2; n++ {
		q := state.Question{SessionName: "shop", ThreadKey: "k"}
		for range n {
			q.Questions = append(q.Questions, p)
		}
		openAsked(t, ctx, ask(t, s, srv.URL, fmt.Sprint("previews", n), wording.QuestionTexts(&q)[0]))
		shown := strings.Replace(top, "```", "``‹U+0060›", 1)
		until(t, ctx, fmt.Sprintf(`JSON.stringify([...document.querySelectorAll('.preview')].map((p) => p.textContent)) === %s`,
			jsonText(jsonText([]string{side, shown, side, shown}[:2*n]))))
		until(t, ctx, fmt.Sprintf(`document.querySelectorAll('[data-option]').length === %d &&
			document.querySelector('.description').textContent === 'left'`, 3*n))
		screenshot(t, ctx, fmt.Sprint("phone-previews-", n))
		wantContrast(t, ctx, "previews")
	}
}
