package gchat

import (
	"encoding/json"
	"html"
	"regexp"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/sample"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// Each kind of widget is written as Google expects it, and each button names its
// question.
func TestCardV2_Golden(t *testing.T) {
	card := &wording.Card{ID: "cafe12", Kind: "question", State: "open", Chosen: []string{"1-2"}, Title: "Question",
		Subtitle: "shop", Sections: []wording.Section{{Header: "a < b", Widgets: []wording.Widget{
			{Text: "one\n  <two>"}, {Code: "```\nls\n```"},
			{Field: &wording.Field{Name: "w1", Label: "A reason"}},
			{Field: &wording.Field{Name: "w2", Label: "Own", Value: "said"}},
			{Select: &wording.Select{Name: "q1", Label: "Choose",
				Items: []wording.Item{{Text: "A", Value: "1", IsChosen: true}}}},
			{Select: &wording.Select{Name: "q2", Label: "Choose", AllowsSeveral: true,
				Items: []wording.Item{{Text: "B", Value: "1"}, {Text: "C", Value: "2"}}}},
			{Buttons: []wording.Button{{Text: "Send", Choice: "send"}}},
			{Field: &wording.Field{Name: "w3", Label: "Seats", Accepts: &wording.Accepts{
				Type: "integer", Max: new(8.0), IsRequired: true, Title: "Seats", InWords: "a number"}}},
			{Buttons: []wording.Button{{Text: "Accept", Choice: wording.AcceptChoice}}},
		}}}}
	b, err := json.MarshalIndent(CardV2(card), "", " ")
	kit.NoError(t, err)
	var flat strings.Builder
	for line := range strings.Lines(string(b)) {
		flat.WriteString(strings.TrimSpace(line))
	}
	for _, want := range []string{
		`"cardId": "gchat-hooks.question.open.1-2"`,
		`"header": {"subtitle": "shop","title": "Question"}`, `"header": "a \u0026lt; b"`,
		`"text": "one\u003cbr\u003e\u00a0 \u0026lt;two\u0026gt;","textSyntax": "HTML"`,
		`"textSyntax": "MARKDOWN"`,
		`"label": "A reason","name": "w1","type": "MULTIPLE_LINE"`,
		`"label": "Own","name": "w2","type": "MULTIPLE_LINE","value": "said"`,
		`"items": [{"selected": true,"text": "A","value": "1"}],"label": "Choose","name": "q1","type": "RADIO_BUTTON"`,
		`"items": [{"text": "B","value": "1"},{"text": "C","value": "2"}],"label": "Choose","name": "q2","type": "CHECK_BOX"`,
		`"function": "gchat-hooks","parameters": [{"key": "question","value": "cafe12"},{"key": "choice","value": "send"}]`,
		`"label": "Seats","name": "w3","type": "SINGLE_LINE","validation": {"inputType": "INTEGER"}`,
		`{"key": "fields","value": "{\"w3\":{\"type\":\"integer\",\"max\":8,\"required\":true,\"title\":\"Seats\",\"words\":\"a number\"}}"}]`,
	} {
		kit.True(t, strings.Contains(strings.ReplaceAll(flat.String(), "\u00a0", `\u00a0`), want),
			"%s is not in %s", want, flat.String())
	}
	n := CardSize(card)
	kit.True(t, n >= 300 && n <= len(b), "%d bytes", n)
}

// A message with its card fits Chat's limit, whatever the text becomes in Google's form.
func TestCardV2_FitsGooglesLimits(t *testing.T) {
	for name, unit := range map[string]string{"words": "word ", "emoji": "👩‍👩‍👧", "marks": "<&>",
		"lines": "\n\n", "spaces": "  "} {
		long := strings.Repeat(unit, 2*wording.MaxText/len(unit))
		prompts := sample.FullSubQuestions(long)
		withShownText := func(kind state.Kind, labels ...string) *state.Question {
			p := state.SubQuestion{Question: "Which?"}
			for _, label := range labels {
				p.Options = append(p.Options, state.Option{Label: label})
			}
			return &state.Question{Kind: kind, SessionName: long, CWD: long, ShownText: long,
				About: long, ToolName: long, SubQuestions: []state.SubQuestion{p}}
		}
		for _, q := range []*state.Question{
			{SessionName: long, SubQuestions: prompts},
			{SessionName: long, SubQuestions: prompts[:1]},
			withShownText(state.KindPermission, state.LabelAllow, state.LabelDeny),
			withShownText(state.KindPlan, state.LabelApprove, state.LabelSendBack),
		} {
			texts, card := wording.CardTexts(q, "0123456789abcdef0123456789abcdef", CardSize)
			n := len(texts[len(texts)-1]) + CardSize(card)
			kit.True(t, n <= wording.MaxText, "%s, %s: %d bytes", name, q.Kind, n)
		}
	}
}

var (
	markupPattern = regexp.MustCompile(`<[^>]*>`)
	entityPattern = regexp.MustCompile(`&(?:amp|lt|gt);`)
)

// FuzzCardText checks that no foreign text becomes markup in a card, and that all of it
// is shown.
func FuzzCardText(f *testing.F) {
	for _, s := range []string{`<a href="https://evil.example">docs</a>`, "<users/all>",
		"&lt;b&gt;", "a\n  b", "<br>", "&amp;amp;"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, foreign string) {
		got := cardEscaper.Replace(foreign)
		shown := strings.NewReplacer("<br>", "\n", "\u00a0 ", "  ").Replace(got)
		if strings.Contains(foreign, "\u00a0") {
			shown = got
		} else if html.UnescapeString(shown) != foreign {
			t.Errorf("%q is shown as %q", foreign, got)
		}
		for _, tag := range markupPattern.FindAllString(got, -1) {
			kit.Equalf(t, tag, "<br>", "%q", got)
		}
		kit.True(t, strings.Count(entityPattern.ReplaceAllString(got, ""), "&") <= 0 &&
			!strings.Contains(strings.ReplaceAll(got, "<br>", ""), "<"),
			"%q", got)
	})
}
