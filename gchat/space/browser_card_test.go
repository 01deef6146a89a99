package space

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// A card is tapped on the page, and a denial takes its reason along. An answered card
// stays, with the choice and without buttons, and the answer is below it.
func TestCard_TapsFromThePage(t *testing.T) {
	ctx := newBrowser(t)
	s, srv, app := openApp(t, Options{IsDirect: true})
	navigate(t, ctx, s.PageURL(srv.URL))
	options := func(labels ...string) []state.SubQuestion {
		p := state.SubQuestion{Header: "DB", Question: "Which?"}
		for _, l := range labels {
			p.Options = append(p.Options, state.Option{Label: l})
		}
		return []state.SubQuestion{p}
	}
	permission := state.Question{Kind: state.KindPermission, ToolName: "Bash", ShownText: "mv a b",
		SubQuestions: options(state.LabelAllow, state.LabelDeny)}
	several := state.Question{SubQuestions: options("A", "B", "C")}
	several.SubQuestions[0].MultiSelect = true
	for _, c := range []struct {
		name   string
		q      state.Question
		text   string
		press  []string
		choice string
		input  string
		want   string
	}{
		{
			"single", state.Question{SubQuestions: options("A", "B")}, "",
			[]string{`[data-option="2"]`}, "2", "", "",
		},
		{
			"several", several, "",
			[]string{`[data-option="1"]`, `[data-option="3"]`, `[data-choice="send"]`}, "send",
			"q1", "1 3",
		},
		{
			"a reason", permission, "use git mv", []string{`[data-choice="deny"]`}, "deny",
			"w1", "use git mv",
		},
		{
			"a denial", permission, "deny, use git mv", []string{`[data-choice="deny"]`},
			"deny", "w1", "deny, use git mv",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.q.SessionName, c.q.CWD, c.q.ThreadKey = "shop", "/home/ann/shop", "ask-user-"+c.choice
			texts, card := wording.CardTexts(&c.q, "0123456789abcdef0123456789abcdef",
				gchat.CardSize)
			posted, err := app.Post(t.Context(),
				gchat.Post{Text: texts[len(texts)-1], Card: gchat.StoredCard(card)})
			kit.NoError(t, err)
			openThread(t, ctx, posted.ThreadName)
			if c.text != "" {
				typeReply(t, ctx, c.text)
			}
			for _, selector := range c.press {
				click(t, ctx, selector)
			}
			got := pullAll(t, app, 1)[0]
			var input string
			for i, v := range got.Event.Tap.Inputs[c.input] {
				if i > 0 {
					input += " "
				}
				input += v
			}
			if got.Event.Tap.Choice != c.choice || input != c.want {
				t.Errorf("tapped %+v", got.Event.Tap)
			}
			kit.NoError(t, app.Ack(t.Context(), []string{got.AckID}))
			c.q.Status, c.q.ResolvedBy = state.Resolved, "chat"
			text, closed := wording.ClosedCard(&c.q, time.Now())
			kit.NoError(t, app.Patch(t.Context(), posted.Name, text, gchat.StoredCard(closed)))
			waitUntil(t, ctx,
				`!document.querySelector('#messages [data-option]:enabled, #messages .decide:not([hidden])')
				&& !document.querySelector('#messages [data-choice="send"]:not([hidden])')
				&& document.querySelectorAll('#messages article').length === 2
				&& document.querySelector('#messages article.card :is(.ask, .about)')
				&& document.querySelectorAll('#messages article')[1].classList.contains('end') &&
				document.title === 'gchat-hooks'`)
			var chosen []string
			for _, selector := range c.press {
				if strings.HasPrefix(selector, "[data-option") {
					chosen = append(chosen,
						`document.querySelector('#messages `+selector+`').ariaPressed === 'true'`)
				}
			}
			waitUntil(t, ctx, strings.Join(append(chosen, "true"), " && "))
		})
	}
}

// Previews are shown below their options, as they are.
func TestCard_ShowsPreviews(t *testing.T) {
	ctx, d := openCards(t)
	const side, top = "+--+\n|  nav\n+--+", "==\n3. All\nOptions:\n1. x\n```\nReply with a\n---\nQ2. b"
	p := state.SubQuestion{Header: "Layout", Question: "Which?", Options: []state.Option{
		{Label: "Side", Description: "left", Preview: side}, {Label: "Top", Preview: top},
		{Label: "None"},
	}}
	for n := 1; n <= 2; n++ {
		q := state.Question{SessionName: "shop", ThreadKey: "k"}
		for range n {
			q.SubQuestions = append(q.SubQuestions, p)
		}
		openNew(t, ctx, d, q)
		shown := strings.Replace(top, "```", "``‹U+0060›", 1)
		waitUntil(t, ctx,
			fmt.Sprintf(`JSON.stringify([...document.querySelectorAll('.preview')].map((p) => `+
				`p.textContent)) === %s`,
				jsonText(jsonText([]string{side, shown, side, shown}[:2*n]))),
			fmt.Sprintf(`document.querySelectorAll('[data-option]').length === %d &&
			document.querySelector('.description').textContent === 'left'`, 3*n))
		screenshot(t, ctx, fmt.Sprint("phone-previews-", n))
		wantContrast(t, ctx, "previews")
	}
}
