package gchat

import (
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/state"
)

const cardID = "0123456789abcdef0123456789abcdef"

// drawn is a card as lines of text: "[Allow] allow" is a button and its choice.
func drawn(card *chat.CardWithId) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s | %s\n", card.Card.Header.Title, card.Card.Header.Subtitle)
	for _, s := range card.Card.Sections {
		fmt.Fprintf(&b, "## %s\n", s.Header)
		for _, w := range s.Widgets {
			switch {
			case w.TextParagraph != nil:
				fmt.Fprintf(&b, "%s: %s\n", w.TextParagraph.TextSyntax, w.TextParagraph.Text)
			case w.ButtonList != nil:
				for _, one := range w.ButtonList.Buttons {
					fmt.Fprintf(&b, "[%s] %s\n", one.Text, tapOf(one).Choice)
				}
			case w.TextInput != nil:
				fmt.Fprintf(&b, "%s (%s)\n", w.TextInput.Name, w.TextInput.Label)
			case w.SelectionInput != nil:
				fmt.Fprintf(&b, "%s %s (%s)\n", w.SelectionInput.Name, w.SelectionInput.Type, w.SelectionInput.Label)
				for _, item := range w.SelectionInput.Items {
					fmt.Fprintf(&b, "  %s %s\n", item.Value, item.Text)
				}
			}
		}
	}
	return strings.TrimSpace(b.String())
}

func buttonsOf(card *chat.CardWithId) (all []*chat.GoogleAppsCardV1Button) {
	for _, s := range card.Card.Sections {
		for _, w := range s.Widgets {
			if w.ButtonList != nil {
				all = append(all, w.ButtonList.Buttons...)
			}
		}
	}
	return all
}

// tapOf is the tap on a button, with fields that are empty.
func tapOf(b *chat.GoogleAppsCardV1Button) *Tap {
	carried := map[string]string{}
	for _, p := range b.OnClick.Action.Parameters {
		carried[p.Key] = p.Value
	}
	return &Tap{Question: carried[tapQuestion], Choice: carried[tapChoice], Inputs: map[string][]string{}}
}

func decides(kind state.Kind, labels ...string) *state.Question {
	p := prompt(false, labels...)
	return &state.Question{Kind: kind, SessionName: "shop", CWD: "/home/me/shop", ThreadKey: "k",
		Shown: "# Plan\n\n- a <b>\n- c & d", Questions: []state.Prompt{p}}
}

// cardsOfEachKind are questions of every kind, by the name of the file that shows their card.
func cardsOfEachKind() map[string]*state.Question {
	terminal := permission("")
	terminal.TerminalOnly, terminal.Questions[0].Options = true, terminal.Questions[0].Options[1:]
	long := permission("Bash(rm *)")
	long.Shown = strings.Repeat("echo <a>\n", 40) + "rm -rf /"
	plan := decides(state.AskedPlan, state.LabelApprove, state.LabelSendBack, state.LabelApproveAuto)
	longPlan := decides(state.AskedPlan, state.LabelApprove, state.LabelSendBack, state.LabelApproveAuto)
	code := decides(state.AskedPlan, state.LabelApprove, state.LabelSendBack)
	code.Shown = "Run\n```\nmake\n```"
	longPlan.Shown = strings.Repeat("A long plan.\n", 3000)
	next := decides(state.AskedNext, "Reply")
	next.TmuxPane = "%1"
	return map[string]*state.Question{
		"single": asked(strategy), "multi": asked(tools), "several": asked(strategy, tools), "free": asked(branch),
		"previews": asked(layout), "previews_several": asked(layout, tools),
		"hostile":    asked(hostile),
		"permission": permission("Bash(rm *)"), "permission_long": long, "permission_terminal": terminal,
		"plan": plan, "plan_long": longPlan, "plan_code": code, "next": next,
	}
}

// appTexts are the texts of a question and its card, as Google takes it.
func appTexts(q *state.Question, id string) ([]string, *chat.CardWithId) {
	texts, card := CardTexts(q, id, CardSize)
	return texts, CardV2(card)
}

func closedCard(q *state.Question, now time.Time) (string, *chat.CardWithId) {
	text, card := ClosedCard(q, now)
	return text, CardV2(card)
}

func sizeOf(card *chat.CardWithId) int {
	b, _ := json.Marshal(card)
	return len(b)
}

// QuestionCard is the card of appTexts.
func QuestionCard(q *state.Question, id string) *chat.CardWithId {
	_, card := appTexts(q, id)
	return card
}

func TestQuestionCard(t *testing.T) {
	for name, q := range cardsOfEachKind() {
		card := QuestionCard(q, cardID)
		golden(t, "card_"+name, drawn(card))
		for _, b := range buttonsOf(card) {
			if got := tapOf(b).Question; got != cardID || b.OnClick.Action.Function != TapFunction {
				t.Errorf("%s: %q carries %q", name, b.Text, got)
			}
		}
	}
}

// A text that is too long for a card stands above it, whole; what stands for the card says how to reply.
func TestAppTexts(t *testing.T) {
	kinds := cardsOfEachKind()
	for name, q := range kinds {
		texts, _ := appTexts(q, cardID)
		if want := QuestionTexts(q); !strings.HasPrefix(name, "plan_") && (len(texts) != 1 || texts[0] != want[0]) {
			t.Errorf("%s: %q", name, texts)
		}
	}
	texts, _ := appTexts(kinds["plan_long"], cardID)
	last := len(texts) - 1
	above := strings.Join(texts[:last], " ")
	if got := strings.Count(above, "A long plan."); got != 3000 || strings.Contains(above, "Reply yes") {
		t.Errorf("%d of 3000 sentences stand above", got)
	}
	if !strings.HasPrefix(texts[last], "[Plan] Session: shop") || !strings.Contains(texts[last], "Reply yes") {
		t.Errorf("%q", texts[last])
	}
}

// largest are questions that no one should ask.
func largest() map[string]*state.Question {
	const size = 2 * MaxText
	all := map[string]*state.Question{}
	for name, unit := range map[string]string{
		"words": "word ", "emoji": "👩‍👩‍👧", "marks": "<&>", "controls": "\x1b[31m\x00\u202ex\xff",
	} {
		text := strings.Repeat(unit, size/len(unit))
		var prompts []state.Prompt
		for i := range 4 {
			p := state.Prompt{Header: text, Question: fmt.Sprint(i, text), MultiSelect: i > 1}
			for j := range 4 {
				p.Options = append(p.Options, state.Option{Label: fmt.Sprint(j, text), Description: text, Preview: text})
			}
			prompts = append(prompts, p)
		}
		all["question of "+name], all["prompt of "+name] = asked(prompts...), asked(prompts[0])
		for _, q := range cardsOfEachKind() {
			if q.Kind != state.AskedQuestion {
				q.Shown, q.About, q.Tool, q.AlwaysAllows, q.SessionName, q.CWD = text, text, text, text, text, text
				all[fmt.Sprint(q.Kind, len(q.Questions[0].Options), " of ", name)] = q
			}
		}
	}
	return all
}

func TestCardsFit(t *testing.T) {
	for name, q := range largest() {
		texts, card := appTexts(q, cardID)
		for i, text := range texts {
			if len(text) > MaxText {
				t.Errorf("%s: text %d has %d bytes", name, i, len(text))
			}
		}
		if size := len(texts[len(texts)-1]) + sizeOf(card); size > MaxText {
			t.Errorf("%s: %d bytes", name, size)
		}
		if len(buttonsOf(card)) == 0 && q.Kind.Row().Personal { // a question's answer can be written
			t.Errorf("%s: no button: %s", name, drawn(card))
		}
		for _, status := range []state.Status{state.Resolved, state.Cancelled, state.TimedOut} {
			q.Status, q.AnsweredByName = status, q.SessionName
			text, card := closedCard(q, time.Now())
			if size := len(text) + sizeOf(card); size > MaxText || len(buttonsOf(card)) > 0 {
				t.Errorf("%s, %s: %d bytes", name, status, size)
			}
		}
	}
}

// The end of a command is shown, however long its lines are, and what else is said.
func TestEndIsShown(t *testing.T) {
	long := strings.Repeat("&", 2000)
	q := permission(long)
	q.Tool, q.About, q.SessionName, q.CWD = long, long, long, long
	q.Shown = strings.Repeat(long+"\n", 100) + "rm -rf /"
	texts, card := appTexts(q, cardID)
	if !strings.Contains(drawn(card), "\nrm -rf /\n"+fence) || !strings.Contains(texts[0], "\nrm -rf /\n"+fence) {
		t.Error(drawn(card))
	}
	if size := len(texts[0]) + sizeOf(card); size > MaxText {
		t.Errorf("%d bytes", size)
	}
}

// A question with more than a card may hold is asked in words, above the card.
func TestTooManyForACard(t *testing.T) {
	many := prompt(false)
	var prompts []state.Prompt
	for i := range 101 {
		many.Options = append(many.Options, state.Option{Label: fmt.Sprint("option ", i)})
		prompts = append(prompts, branch)
	}
	for name, q := range map[string]*state.Question{"options": asked(many), "prompts": asked(prompts...), "none": asked()} {
		texts, card := appTexts(q, cardID)
		if len(texts) != 2 || texts[0] != questionMessage(q) || len(buttonsOf(card)) > 0 {
			t.Errorf("%s: %d texts", name, len(texts))
		}
		if got := drawn(card); !strings.Contains(got, "please reply in words") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// An option that nobody can see has no button.
func TestInvisibleOption(t *testing.T) {
	card := QuestionCard(asked(prompt(false, "A", "\u200b", "B")), cardID)
	if got := drawn(card); !strings.Contains(got, "[A] 1\n[B] 3\n") {
		t.Error(got)
	}
}

func TestClosedCard(t *testing.T) {
	now := time.Date(2026, 11, 23, 14, 32, 0, 0, time.UTC)
	earlier := now.Add(-time.Hour)
	one := map[string]string{"Which?": "B"}
	q := func(kind state.Kind, labels ...string) *state.Question { return decides(kind, labels...) }
	for _, c := range []struct {
		name   string
		q      *state.Question
		change func(q *state.Question)
		want   string
	}{
		{"answered", q("", "A", "B"), func(q *state.Question) {
			q.Status, q.Answers, q.AnsweredByName = state.Resolved, one, "Ann <b>"
		}, "# Question (answered) | shop · /home/me/shop\nHTML: Question: Which?<br>Selected: B<br><br>Ann ‹b&gt;, 2026-11-23 14:32"},
		{"not confirmed", q("", "A", "B"), func(q *state.Question) {
			q.Status, q.Answers, q.AnsweredByName = state.Answered, one, "Ann"
		}, "Selected: B<br><br>Ann, 2026-11-23 14:32"},
		{"in the terminal", q("", "A", "B"), func(q *state.Question) {
			q.Status, q.Answers, q.AnsweredByName, q.ResolvedBy, q.AnsweredMessage = state.Resolved, one, "Ann", "terminal", "m"
		}, "Answered in the terminal; the reply in this thread did not count.<br><br>2026-11-23 14:32"},
		{"at a shell", q("", "A", "B"), func(q *state.Question) {
			q.Status, q.Answers, q.AnsweredByName, q.AnsweredBy = state.Resolved, one, "Ann", state.Local
		}, "Answered with gchat-hooks answer.<br><br>2026-11-23 14:32"},
		{"dismissed, an hour ago", q("", "A", "B"), func(q *state.Question) {
			q.Status, q.ResolvedBy, q.ResolvedAt = state.Cancelled, "signal", &earlier
		}, "(cancelled) | shop · /home/me/shop\nHTML: Question: Which?<br><br>Dismissed in the terminal.<br><br>2026-11-23 13:32"},
		{"expired", q("", "A", "B"), func(q *state.Question) { q.Status, q.ResolvedBy = state.Expired, "age" },
			"24 hours have passed."},
		{"timed out", q("", "A", "B"), func(q *state.Question) { q.Status, q.ResolvedBy = state.TimedOut, "timeout" },
			"# Question (timeout) | shop · /home/me/shop\nHTML: Question: Which?<br><br>Nobody replied in time."},
		{"denied", q(state.AskedPermission, state.LabelDeny), func(q *state.Question) {
			q.Status, q.Answers = state.Answered, map[string]string{"Which?": state.LabelDeny}
			q.Notes = map[string]string{"Which?": "use mv"}
			q.Tool, q.Shown, q.AnsweredByName = "Bash", "rm -rf build && cat <in", "Ann"
		}, "# Permission (answered) | shop · /home/me/shop\n" +
			"HTML: Denied: Bash: rm -rf build &amp;&amp; cat ‹in<br>Reason: use mv<br><br>Ann, "},
		{"approved", q(state.AskedPlan, state.LabelApprove), func(q *state.Question) {
			q.Status, q.Answers = state.Resolved, map[string]string{"Which?": state.LabelApprove}
		}, "# Plan (answered) | shop · /home/me/shop\nHTML: Approved the plan.<br>"},
		{"next", q(state.AskedNext, "Reply"), func(q *state.Question) {
			q.Status, q.Answers, q.ToldSent = state.Resolved, map[string]string{"Which?": "Run\nthe tests"}, true
		}, "# Waiting for you (sent) | shop · /home/me/shop\nHTML: Sent to Claude.<br>Run<br>\u00a0 the tests<br>"},
		{"instead", q("", "A"), func(q *state.Question) { q.Status, q.ResolvedBy = state.Cancelled, state.Instead },
			"It goes on in the terminal."},
	} {
		c.change(c.q)
		text, card := closedCard(c.q, now)
		got := strings.ReplaceAll(drawn(card), "## \n", "")
		if !strings.Contains(got, c.want) || len(buttonsOf(card)) > 0 || strings.Contains(got, "w1") {
			t.Errorf("%s: %s", c.name, got)
		}
		if note := noteText(c.q, state.Owed{About: state.NoteClosed}); !strings.HasPrefix(text, note) {
			t.Errorf("%s: the text is not the closing note: %q", c.name, text)
		}
	}
}

var (
	markup = regexp.MustCompile(`<[^>]*>`)
	entity = regexp.MustCompile(`&(?:amp|lt|gt);`)
)

// Nothing of a foreign text becomes markup in a card's text, and all of it is shown.
func FuzzCardText(f *testing.F) {
	for _, s := range []string{`<a href="https://evil.example">docs</a>`, "<users/all>", "&lt;b&gt;", "a\n  b", "<br>", "&amp;amp;"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, foreign string) {
		got := cardEscapes.Replace(foreign)
		shown := strings.NewReplacer("<br>", "\n", "\u00a0 ", "  ").Replace(got)
		if strings.Contains(foreign, "\u00a0") {
			shown = got
		} else if html.UnescapeString(shown) != foreign {
			t.Errorf("%q is shown as %q", foreign, got)
		}
		for _, tag := range markup.FindAllString(got, -1) {
			if tag != "<br>" {
				t.Errorf("%q has %q", got, tag)
			}
		}
		if strings.Count(entity.ReplaceAllString(got, ""), "&") > 0 || strings.Contains(strings.ReplaceAll(got, "<br>", ""), "<") {
			t.Errorf("%q", got)
		}
	})
}

// A question's words are nowhere a link, a mention or markup.
func FuzzQuestionCard(f *testing.F) {
	f.Add("See <https://evil.example|docs> and <users/all> <b>now</b>\n```\n[x](https://evil.example)")
	f.Fuzz(func(t *testing.T, foreign string) {
		options := []state.Option{{Label: foreign, Description: foreign}}
		q := asked(state.Prompt{Header: foreign, Question: foreign, Options: options})
		p := permission(foreign)
		p.Tool, p.About, p.Shown, p.SessionName = foreign, foreign, foreign, foreign
		for _, q := range []*state.Question{q, p} {
			card := QuestionCard(q, cardID)
			b, err := json.Marshal(card)
			if err != nil || strings.Contains(string(b), `"openLink"`) {
				t.Fatalf("%s, %v", b, err)
			}
			for _, s := range card.Card.Sections {
				for _, w := range s.Widgets {
					if w.TextParagraph != nil && w.TextParagraph.TextSyntax == "HTML" {
						if got := strings.ReplaceAll(w.TextParagraph.Text, "<br>", ""); strings.Contains(got, "<") {
							t.Errorf("%q", got)
						}
					} else if w.TextParagraph != nil && strings.Count(w.TextParagraph.Text, fence) != 2 {
						t.Errorf("%q", w.TextParagraph.Text)
					}
				}
			}
		}
	})
}
