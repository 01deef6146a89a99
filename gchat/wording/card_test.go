package wording

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/golden"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/sample"
	"gchat-hooks/state"
)

const cardID = "0123456789abcdef0123456789abcdef"

// drawCard returns a card as lines of text. "[Allow] allow" is a button and its choice.
func drawCard(card *Card) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s | %s\n", card.Title, card.Subtitle)
	for _, s := range card.Sections {
		fmt.Fprintf(&b, "## %s\n", s.Header)
		for _, w := range s.Widgets {
			drawWidget(&b, w)
		}
	}
	return strings.TrimSpace(b.String())
}

func drawWidget(b *strings.Builder, w Widget) {
	switch {
	case w.Text != "":
		fmt.Fprintf(b, "TEXT: %s\n", w.Text)
	case w.Code != "":
		fmt.Fprintf(b, "MARKDOWN: %s\n", w.Code)
	case w.Field != nil:
		fmt.Fprintf(b, "%s (%s)\n", w.Field.Name, w.Field.Label)
	case w.Select != nil:
		fmt.Fprintf(b, "%s several: %v (%s)\n", w.Select.Name, w.Select.AllowsSeveral,
			w.Select.Label)
		for _, item := range w.Select.Items {
			fmt.Fprintf(b, "  %s %s\n", item.Value, item.Text)
		}
	}
	for _, one := range w.Buttons {
		fmt.Fprintf(b, "[%s] %s\n", one.Text, one.Choice)
	}
}

func allWidgets(card *Card) (all []Widget) {
	for _, s := range card.Sections {
		all = append(all, s.Widgets...)
	}
	return all
}

func allButtons(card *Card) (all []Button) {
	for _, w := range allWidgets(card) {
		all = append(all, w.Buttons...)
	}
	return all
}

// tapFor is a tap on a button, with empty fields.
func tapFor(b Button) *Tap {
	return &Tap{QuestionID: cardID, Choice: b.Choice, Inputs: map[string][]string{}}
}

func askDecision(kind state.Kind, labels ...string) *state.Question {
	p := newSubQuestion(false, labels...)
	return &state.Question{Kind: kind, SessionName: "shop", CWD: "/home/me/shop", ThreadKey: "k",
		ShownText: "# Plan\n\n- a <b>\n- c & d", SubQuestions: []state.SubQuestion{p}}
}

// cardsOfEachKind returns questions of every kind, by the name of the file with their
// card.
func cardsOfEachKind() map[string]*state.Question {
	terminal := askPermission("")
	terminal.IsTerminalOnly, terminal.SubQuestions[0].Options = true, terminal.SubQuestions[0].Options[1:]
	long := askPermission("Bash(rm *)")
	long.ShownText = strings.Repeat("echo <a>\n", 40) + "rm -rf /"
	plan := askDecision(state.KindPlan, state.LabelApprove, state.LabelSendBack,
		state.LabelApproveAuto)
	longPlan := askDecision(state.KindPlan, state.LabelApprove, state.LabelSendBack,
		state.LabelApproveAuto)
	code := askDecision(state.KindPlan, state.LabelApprove, state.LabelSendBack)
	code.ShownText = "Run\n```\nmake\n```"
	longPlan.ShownText = strings.Repeat("A long plan.\n", 3000)
	next := askDecision(state.KindNext, "Reply")
	next.TmuxPane = "%1"
	return map[string]*state.Question{
		"single": askQuestions(strategyQuestion), "multi": askQuestions(toolsQuestion),
		"several":          askQuestions(strategyQuestion, toolsQuestion),
		"free":             askQuestions(branchQuestion),
		"previews":         askQuestions(layoutQuestion),
		"previews_several": askQuestions(layoutQuestion, toolsQuestion),
		"hostile":          askQuestions(hostileQuestion),
		"permission":       askPermission("Bash(rm *)"), "permission_long": long,
		"permission_terminal": terminal,
		"plan":                plan, "plan_long": longPlan, "plan_code": code, "next": next,
	}
}

// countBytes stands in for the size that a chat gives a card.
func countBytes(card *Card) int {
	b, _ := json.Marshal(card)
	return len(b)
}

func QuestionCard(q *state.Question) *Card {
	_, card := CardTexts(q, cardID, countBytes)
	return card
}

func TestCard_Question(t *testing.T) {
	for name, q := range cardsOfEachKind() {
		card := QuestionCard(q)
		golden.Compare(t, "testdata/card_"+name+".txt", drawCard(card)+"\n")
		kit.Equalf(t, card.ID, cardID, "%s: its buttons carry", name)
	}
}

// A text that is too long for a card stands above it, complete. The card's own text says
// how to reply.
func TestCard_Texts(t *testing.T) {
	kinds := cardsOfEachKind()
	for name, q := range kinds {
		texts, _ := CardTexts(q, cardID, countBytes)
		want := QuestionTexts(q)
		kit.True(t, strings.HasPrefix(name, "plan_") || len(texts) == 1 && texts[0] == want[0],
			"%s: %q", name, texts)
	}
	texts, _ := CardTexts(kinds["plan_long"], cardID, countBytes)
	last := len(texts) - 1
	above := strings.Join(texts[:last], " ")
	got := strings.Count(above, "A long plan.")
	kit.True(t, got == 3000 && !strings.Contains(above, "Reply yes"),
		"%d of 3000 sentences stand above", got)
	kit.True(t, strings.HasPrefix(texts[last], "[Plan] Session: shop") &&
		strings.Contains(texts[last], "Reply yes"),
		"%q", texts[last])
}

// largestQuestions returns questions that are larger than anyone should ask.
func largestQuestions() map[string]*state.Question {
	const size = 2 * MaxText
	all := map[string]*state.Question{}
	for name, unit := range map[string]string{
		"words": "word ", "emoji": "👩‍👩‍👧", "marks": "<&>", "controls": "\x1b[31m\x00\u202ex\xff",
	} {
		text := strings.Repeat(unit, size/len(unit))
		prompts := sample.FullSubQuestions(text)
		all["question of "+name] = askQuestions(prompts...)
		all["prompt of "+name] = askQuestions(prompts[0])
		for _, q := range cardsOfEachKind() {
			if q.Kind != state.KindQuestion {
				q.ShownText, q.About, q.ToolName, q.AlwaysAllows, q.SessionName, q.CWD = text, text, text, text, text, text
				all[fmt.Sprint(q.Kind, len(q.SubQuestions[0].Options), " of ", name)] = q
			}
		}
	}
	return all
}

// checkCardFits fails the test if a card and the text beside it are too long for Chat.
func checkCardFits(t *testing.T, name string, texts []string, card *Card) {
	t.Helper()
	total := len(texts[len(texts)-1]) + countBytes(card)
	kit.True(t, total <= MaxText, "%s: %d bytes", name, total)
}

func TestCard_Fits(t *testing.T) {
	t.Parallel()
	for name, q := range largestQuestions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			texts, card := CardTexts(q, cardID, countBytes)
			for i, text := range texts {
				kit.True(t, len(text) <= MaxText, "text %d has %d bytes", i, len(text))
			}
			checkCardFits(t, name, texts, card)
			if len(allButtons(card)) == 0 && q.Kind.Traits().IsPersonal {
				// a question's answer can be written
				t.Errorf("no button: %s", drawCard(card))
			}
			for _, status := range []state.Status{state.Resolved, state.Cancelled, state.TimedOut} {
				q.Status, q.AnsweredByName = status, q.SessionName
				text, card := ClosedCard(q, time.Now())
				checkCardFits(t, fmt.Sprint(name, ", ", status), []string{text}, card)
				kit.Equalf(t, len(allButtons(card)), 0, "%s: buttons", status)
			}
		})
	}
}

// The end of a command is always shown, however long its lines and the other texts are.
func TestCard_EndIsShown(t *testing.T) {
	long := strings.Repeat("&", 2000)
	q := askPermission(long)
	q.ToolName, q.About, q.SessionName, q.CWD = long, long, long, long
	q.ShownText = strings.Repeat(long+"\n", 100) + "rm -rf /"
	texts, card := CardTexts(q, cardID, countBytes)
	kit.True(t, strings.Contains(drawCard(card), "\nrm -rf /\n"+fence) &&
		strings.Contains(texts[0], "\nrm -rf /\n"+fence),
		"%v", drawCard(card))
	checkCardFits(t, "a long command", texts, card)
}

// A question that does not fit a card is asked in a text above the card.
func TestCard_TooManyQuestions(t *testing.T) {
	many := newSubQuestion(false)
	var prompts []state.SubQuestion
	for i := range 101 {
		many.Options = append(many.Options, state.Option{Label: fmt.Sprint("option ", i)})
		prompts = append(prompts, branchQuestion)
	}
	for name, q := range map[string]*state.Question{"options": askQuestions(many),
		"prompts": askQuestions(prompts...), "none": askQuestions()} {
		texts, card := CardTexts(q, cardID, countBytes)
		kit.True(t, len(texts) == 2 && texts[0] == questionMessage(q) && len(allButtons(card)) == 0,
			"%s: %d texts", name, len(texts))
		kit.Containsf(t, drawCard(card), "reply in words", "%s", name)
	}
}

// An option that nobody can see has no button.
func TestCard_InvisibleOption(t *testing.T) {
	card := QuestionCard(askQuestions(newSubQuestion(false, "A", "\u200b", "B")))
	got := drawCard(card)
	kit.True(t, strings.Contains(got, "[A] 1\n[B] 3\n"), "%v", got)
}

func TestCard_Closed(t *testing.T) {
	now := time.Date(2026, 11, 23, 14, 32, 0, 0, time.UTC)
	earlier := now.Add(-time.Hour)
	one := map[string]string{"Which?": "B"}
	states := map[string]string{
		"dismissed, an hour ago": CardCancelled, "expired": CardCancelled, "instead": CardCancelled,
		"timed out": CardLate, "chosen by the policy": CardTimeout, "asked again": CardTimeout,
		"denied": CardDenied, "handed over": CardTerminal,
	}
	q := func(kind state.Kind, labels ...string) *state.Question {
		return askDecision(kind,
			labels...)
	}
	for _, c := range []struct {
		name   string
		q      *state.Question
		change func(q *state.Question)
		want   string
	}{
		{"answered", q("", "A", "B"), func(q *state.Question) {
			q.Status, q.Answers, q.AnsweredByName = state.Resolved, one, "Ann <b>"
		}, "# Question (answered) | shop · /home/me/shop\nTEXT: Question: Which?\nSelected: B\n\nAnn ‹b>, 2026-11-23 14:32"},
		{"not confirmed", q("", "A", "B"), func(q *state.Question) {
			q.Status, q.Answers, q.AnsweredByName = state.Answered, one, "Ann"
		}, "Selected: B\n\nAnn, 2026-11-23 14:32"},
		{"in the terminal", q("", "A", "B"), func(q *state.Question) {
			q.Status, q.Answers, q.AnsweredByName, q.ResolvedBy, q.AnsweredMessage = state.Resolved, one, "Ann", "terminal", "m"
		}, "Answered in the terminal; the reply in this thread did not count.\n\n2026-11-23 14:32"},
		{"at a shell", q("", "A", "B"), func(q *state.Question) {
			q.Status, q.Answers, q.AnsweredByName, q.AnsweredBy = state.Resolved, one, "Ann", state.LocalSender
		}, "Answered with gchat-hooks answer.\n\n2026-11-23 14:32"},
		{"dismissed, an hour ago", q("", "A", "B"), func(q *state.Question) {
			q.Status, q.ResolvedBy, q.ResolvedAt = state.Cancelled, "signal", &earlier
		}, "(cancelled) | shop · /home/me/shop\nTEXT: Question: Which?\n\nDismissed in the terminal.\n\n2026-11-23 13:32"},
		{"expired", q("", "A", "B"),
			func(q *state.Question) { q.Status, q.ResolvedBy = state.Expired, "age" },
			"24 hours have passed."},
		{"timed out", q("", "A", "B"),
			func(q *state.Question) { q.Status, q.ResolvedBy = state.TimedOut, "timeout" },
			"# Question (timeout) | shop · /home/me/shop\nTEXT: Question: Which?\n\nNobody replied in time."},
		{"handed over", q("", "A", "B"),
			func(q *state.Question) { q.Status, q.HandedOverAt = state.Pending, &now },
			"answer it there."},
		{"chosen by the policy", q("", "A", "B"),
			func(q *state.Question) { q.Status, q.ResolvedBy = state.TimedOut, "policy" },
			"Nobody replied in time."},
		{"asked again", q("", "A", "B"), func(q *state.Question) {
			q.Status, q.ResolvedBy, q.TimeoutPolicy = state.TimedOut, "timeout", state.TimeoutAskTerminal
		}, "Claude is told to ask again"},
		{"denied", q(state.KindPermission, state.LabelDeny), func(q *state.Question) {
			q.Status, q.Answers = state.Answered, map[string]string{"Which?": state.LabelDeny}
			q.Notes = map[string]string{"Which?": "use mv"}
			q.ToolName, q.ShownText, q.AnsweredByName = "Bash", "rm -rf build && cat <in", "Ann"
		}, "# Permission (answered) | shop · /home/me/shop\n" +
			"TEXT: Denied: Bash: rm -rf build && cat ‹in\nReason: use mv\n\nAnn, "},
		{"approved", q(state.KindPlan, state.LabelApprove), func(q *state.Question) {
			q.Status, q.Answers = state.Resolved, map[string]string{"Which?": state.LabelApprove}
		}, "# Plan (answered) | shop · /home/me/shop\nTEXT: Approved the plan.\n"},
		{"next", q(state.KindNext, "Reply"), func(q *state.Question) {
			q.Status, q.Answers, q.HasSentNote = state.Resolved, map[string]string{"Which?": "Run\nthe tests"}, true
		}, "# Waiting for you (sent) | shop · /home/me/shop\nTEXT: Sent to Claude.\nRun\n  the tests\n"},
		{"instead", q("",
			"A"), func(q *state.Question) { q.Status, q.ResolvedBy = state.Cancelled, state.EndedReplaced },
			"It goes on in the terminal."},
	} {
		c.change(c.q)
		text, card := ClosedCard(c.q, now)
		kind := cmp.Or(string(c.q.Kind), "question")
		want := states[c.name]
		kit.True(t, card.State == cmp.Or(want, CardAnswered) && card.Kind == kind,
			"%s: its state is %q, of a %s", c.name, card.State, card.Kind)
		got := strings.ReplaceAll(drawCard(card), "## \n", "")
		kit.True(t, strings.Contains(got, c.want) && len(allButtons(card)) == 0 &&
			!strings.Contains(got, "w1"),
			"%s: %s", c.name, got)
		note := noteText(c.q, state.OwedNote{About: state.NoteClosed})
		kit.True(t, strings.HasPrefix(text, note),
			"%s: the text is not the closing note: %q", c.name, text)
	}
}

// A closed card says for programs which options Claude was told, whoever chose them.
func TestCard_ClosedNamesChosenOptions(t *testing.T) {
	commas := newSubQuestion(true, "A", "B, C", "C", "A")
	commas.Question = "Which ones?"
	for name, c := range map[string]struct {
		answers map[string]string
		change  func(q *state.Question)
		want    []string
	}{
		"several":         {answers: map[string]string{"Which?": "B", "Which ones?": "A, B, C"}, want: []string{"1-2", "2-1", "2-2"}},
		"words":           {answers: map[string]string{"Which?": "neither", "Which ones?": "C, and D"}, want: []string{"2-3"}},
		"in the terminal": {answers: map[string]string{"Which?": "A"}, change: func(q *state.Question) { q.ResolvedBy = "terminal" }, want: []string{"1-1"}},
		"cancelled":       {change: func(q *state.Question) { q.Status = state.Cancelled }},
		"a permission":    {answers: map[string]string{"Which?": "A"}, change: func(q *state.Question) { q.Kind = state.KindPermission }},
	} {
		q := askQuestions(newSubQuestion(false, "A", "B"), commas)
		q.Status, q.Answers = state.Resolved, c.answers
		if c.change != nil {
			c.change(q)
		}
		_, card := ClosedCard(q, time.Now())
		kit.Equalf(t, card.Chosen, c.want, "%s", name)
	}
}

// FuzzQuestionCard checks that a question's text cannot end a code block.
func FuzzQuestionCard(f *testing.F) {
	f.Add("See <https://evil.example|docs> and <users/all> <b>now</b>\n```\n[x](https://evil.example)")
	f.Fuzz(func(t *testing.T, foreign string) {
		options := []state.Option{{Label: foreign, Description: foreign}}
		q := askQuestions(state.SubQuestion{Header: foreign, Question: foreign, Options: options})
		p := askPermission(foreign)
		p.ToolName, p.About, p.ShownText, p.SessionName = foreign, foreign, foreign, foreign
		for _, q := range []*state.Question{q, p} {
			card := QuestionCard(q)
			for _, w := range allWidgets(card) {
				kit.True(t, w.Code == "" || strings.Count(w.Code, fence) == 2, "%q", w.Code)
			}
		}
	})
}
