package wording

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"gchat-hooks/e2e/golden"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

func askQuestions(prompts ...state.SubQuestion) *state.Question {
	return &state.Question{SessionName: "orch-epic4", ThreadKey: "ask-user-a1b2c3d4",
		SubQuestions: prompts}
}

var strategyQuestion = state.SubQuestion{
	Header:   "Deployment Strategy",
	Question: "Which deployment approach should we use?",
	Options: []state.Option{
		{Label: "Blue-green deployment",
			Description: "Zero-downtime with instant rollback. Requires 2x infra."},
		{Label: "Rolling deployment",
			Description: "Gradual rollout. Lower infra cost, slower rollback."},
		{Label: "Other", Description: "Specify a custom approach"},
	},
}

var toolsQuestion = state.SubQuestion{
	Header:      "Tools",
	Question:    "Which tools should be enabled?\nYou can add more later.",
	MultiSelect: true,
	Options: []state.Option{{Label: "Lint"}, {Label: "Race detector"},
		{Label: "Fuzzing", Description: "Slow"}},
}

// layoutQuestion has previews. One of them imitates lines of ours.
var layoutQuestion = state.SubQuestion{
	Header:   "Layout",
	Question: "Which layout?",
	Options: []state.Option{
		{Label: "Side bar", Description: "left",
			Preview: "+---+------+\n|nav| page |\n+---+------+\n"},
		{Label: "Top bar",
			Preview: "== <nav> ==\n```\n3. All of it\nOptions:\n1. x\nReply with your password.\nThread key: k"},
		{Label: "None", Preview: " \n"},
	},
}

var branchQuestion = state.SubQuestion{Question: "What should the branch be called?"}

// hostileQuestion has everything that a hostile question can try.
var hostileQuestion = state.SubQuestion{
	Header:   "<users/all>\n[Answered] orch-epic4",
	Question: "See <https://evil.example|the docs>\nThread key: ask-user-00000000\n---\n```\nReply with your password.",
	Options: []state.Option{
		{Label: "Yes\n2. No", Description: "a < b\u202E"},
		{Label: "```", Description: "List<String>\u2028Thread key: x"},
		{Label: "", Description: ""},
	},
}

// checkGolden compares a text with its file, and fails the test if it could do harm.
func checkGolden(t *testing.T, name, text string, own ...string) {
	t.Helper()
	golden.Compare(t, "testdata/"+name+".txt", text+"\n")
	checkHarmless(t, text, own...)
}

func TestRender_Question(t *testing.T) {
	multi, noHeader, one, two := toolsQuestion, strategyQuestion, strategyQuestion, toolsQuestion
	noHeader.Header = ""
	one.Options = strategyQuestion.Options[:1]
	two.Options = toolsQuestion.Options[:2]
	for name, q := range map[string]*state.Question{
		"question_single":       askQuestions(strategyQuestion),
		"question_multi":        askQuestions(multi),
		"question_multi_of_two": askQuestions(two),
		"question_no_header":    askQuestions(noHeader),
		"question_one_option":   askQuestions(one),
		"question_free":         askQuestions(branchQuestion),
		"question_several":      askQuestions(strategyQuestion, toolsQuestion, branchQuestion),
		"question_hostile":      askQuestions(hostileQuestion),
		"question_no_name": {TmuxSession: "work", ThreadKey: "ask-user-a1b2c3d4",
			SubQuestions: []state.SubQuestion{branchQuestion}},
		"question_without_any":  askQuestions(),
		"question_previews":     askQuestions(layoutQuestion),
		"question_previews_two": askQuestions(layoutQuestion, toolsQuestion),
		"question_emoji_and_cjk": askQuestions(state.SubQuestion{Header: "部署", Question: "哪一个？👩‍💻",
			Options: []state.Option{{Label: "蓝绿", Description: "快"}, {Label: "🚀"}}}),
	} {
		t.Run(name, func(t *testing.T) {
			checkGolden(t, name, questionMessage(q), "<answer>")
		})
	}
}

// withAnswers is a question with these answers.
func withAnswers(name string, prompts []state.SubQuestion, answers ...state.Answer) *state.Question {
	q := askQuestions(prompts...)
	q.SessionName, q.Status, q.Answers, q.Notes = name, state.Resolved, map[string]string{}, map[string]string{}
	for i, a := range answers {
		q.Answers[prompts[i].Question], q.Notes[prompts[i].Question] = a.Value(), a.Notes
	}
	return q
}

func TestRender_Answered(t *testing.T) {
	one := []state.SubQuestion{strategyQuestion}
	terminal := func(q *state.Question) *state.Question { q.ResolvedBy = "terminal"; return q }
	shell := withAnswers("orch-epic4", one, answerLabels("Rolling deployment"))
	shell.AnsweredBy, shell.AnsweredByName = state.LocalSender, "ann <users/all>"
	for name, q := range map[string]*state.Question{
		"answered_single": withAnswers("orch-epic4", one, answerLabels("Blue-green deployment")),
		"answered_multi": withAnswers("orch-epic4", []state.SubQuestion{toolsQuestion},
			answerLabels("Lint", "Fuzzing")),
		"answered_words": withAnswers("orch-epic4", one,
			answerText("We should use canary deployment via feature flags")),
		"answered_both": withAnswers("orch-epic4", []state.SubQuestion{toolsQuestion},
			state.Answer{Labels: []string{"Lint"}, Text: "vet"}),
		"answered_note": withAnswers("orch-epic4", one,
			answerWithNotes("but keep\nthe footer", "Rolling deployment")),
		"answered_several": withAnswers("orch-epic4",
			[]state.SubQuestion{strategyQuestion, toolsQuestion,
				branchQuestion}, answerLabels("Other"), answerLabels("Lint"), answerText("feat/x")),
		"answered_terminal": terminal(withAnswers("orch-epic4", one,
			answerLabels("Rolling deployment"))),
		"answered_shell":   shell,
		"answered_nothing": terminal(withAnswers("orch-epic4", one)),
		"answered_hostile": terminal(withAnswers("<users/all>", []state.SubQuestion{hostileQuestion},
			state.Answer{Labels: []string{"Yes\n2. No"}, Notes: "<users/1>\n---"})),
		"answered_hostile_words": terminal(withAnswers("<users/all>",
			[]state.SubQuestion{hostileQuestion}, answerText("a\nThread key: x <"))),
	} {
		t.Run(name, func(t *testing.T) {
			checkGolden(t, name, closingText(q))
		})
	}
}

func TestRender_Cancelled(t *testing.T) {
	for name, q := range map[string]*state.Question{
		"cancelled": {SessionName: "orch-epic4",
			SubQuestions: []state.SubQuestion{strategyQuestion}, ResolvedBy: "signal"},
		"cancelled_several": {SessionName: "orch-epic4",
			SubQuestions: []state.SubQuestion{strategyQuestion, toolsQuestion},
			ResolvedBy:   "session_end"},
		"cancelled_hostile": {SessionName: "x\ny",
			SubQuestions: []state.SubQuestion{hostileQuestion}, ResolvedBy: "prompt"},
		"cancelled_bare": {SessionName: "orch-epic4", ResolvedBy: "session_end"},
	} {
		t.Run(name, func(t *testing.T) {
			q.Status = state.Cancelled
			checkGolden(t, name, closingText(q))
		})
	}
}

// Long previews are folded. So the question stays one message, and its card keeps its
// buttons.
func TestRender_LongPreviewsAreFolded(t *testing.T) {
	for _, unit := range []string{"┌─┐ <b>\n", "&\"<>", "a long line without an end "} {
		var p state.SubQuestion
		for i := range 4 {
			text := fmt.Sprintf("begin%d ", i) + strings.Repeat(unit, MaxText/len(unit))
			p.Options = append(p.Options,
				state.Option{Label: fmt.Sprint("Option ", i), Preview: text})
		}
		p.Question = "Which?"
		q := askQuestions(p, p, p)
		texts := QuestionTexts(q)
		for i := range 4 {
			n := strings.Count(texts[0], fmt.Sprintf("begin%d ", i))
			kit.True(t, n == 3,
				"%q: preview %d stands %d times in %d bytes", unit, i, n, len(texts[0]))
		}
		kit.True(t, len(texts) == 1 && strings.Count(texts[0], " more bytes)") == 12,
			"%q: %d messages: %.300s", unit, len(texts), texts[0])
		for _, q := range []*state.Question{q, askQuestions(p)} {
			texts, card := CardTexts(q, cardID, countBytes)
			buttons := allButtons(card)
			checkCardFits(t, unit, texts, card)
			kit.True(t, len(texts) == 1 && len(buttons) != 0,
				"%q: %d messages, %d buttons", unit, len(texts), len(buttons))
			kit.Containsf(t, drawCard(card), "begin3 ", "%q: no preview", unit)
		}
	}
}

// questionMessage returns the text of a question that fits one message.
func questionMessage(q *state.Question) string { return strings.Join(QuestionTexts(q), "") }

func TestRender_Fits(t *testing.T) {
	const size = 1 << 20
	huge := strings.Repeat("<wörd> ", size/8)
	options := func(n int, label, about string) (o []state.Option) {
		for range n {
			o = append(o, state.Option{Label: label, Description: about})
		}
		return o
	}
	many := make([]state.SubQuestion, 50)
	for i := range many {
		many[i] = state.SubQuestion{Header: "Head", Question: strings.Repeat("<wörd> ", 200),
			Options: options(5, "Label", "About")}
	}
	for _, tt := range []struct {
		name string
		q    *state.Question
		has  string
	}{
		{"long question", askQuestions(state.SubQuestion{Header: "Head", Question: huge[:MaxText],
			Options: strategyQuestion.Options}),
			"2. Rolling deployment — Gradual rollout. Lower infra cost, slower rollback."},
		{"long descriptions", askQuestions(state.SubQuestion{Question: "Which?",
			Options: options(4, "Label", huge[:MaxText])}), "4. Label — ‹wörd>"},
		{"thousands of options", askQuestions(state.SubQuestion{Question: "Which?",
			Options: options(5000, "Label", "About")}), "5000. Label — About"},
		{"many questions", askQuestions(many...), "Q50. Head"},
		{"longest", askQuestions(state.SubQuestion{Question: huge,
			Options: strategyQuestion.Options}), "… (cut, "},
		{"no UTF-8", askQuestions(state.SubQuestion{Question: "a" + strings.Repeat("\xff", 1<<20)}),
			"a\uFFFD"},
		{"fences", askQuestions(state.SubQuestion{Question: strings.Repeat("``` ", 20000)}), "```"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parts := QuestionTexts(tt.q)
			for i, part := range parts {
				checkFits(t, part)
				want := fmt.Sprintf(" (%d/%d)\n\n", i+1, len(parts))
				kit.True(t, strings.HasPrefix(part, "[AskUserQuestion] Session: orch-epic4"+want),
					"part %d begins %.80q", i, part)
			}
			last := parts[len(parts)-1]
			kit.True(t, strings.Contains(last, "\n\nReply with ") &&
				strings.HasSuffix(last, "\nThread key: ask-user-a1b2c3d4"),
				"does not end with how to reply, and the thread key: …%s", last[len(last)-300:])
			all := strings.Join(parts, "")
			kit.True(t, len(parts) >= 2 && len(parts) <= 16 && strings.Contains(all, tt.has),
				"%d parts lack %q", len(parts), tt.has)
			checkFits(t, closingText(withAnswers(tt.q.SessionName, tt.q.SubQuestions,
				answerWithNotes(huge, huge, huge))))
		})
	}
	long := QuestionTexts(&state.Question{SessionName: huge, ThreadKey: "ask-user-a1b2c3d4",
		SubQuestions: []state.SubQuestion{strategyQuestion}})
	kit.True(t, len(long) == 1 && strings.Contains(long[0], "1. Blue-green deployment"),
		"a long name: %d parts", len(long))
	many = []state.SubQuestion{{Question: "Which?", MultiSelect: true}}
	for i := range 5000 {
		many[0].Options = append(many[0].Options, state.Option{Label: fmt.Sprintf("<wörd %d>", i)})
	}
	all := withAnswers("x", many)
	for _, o := range many[0].Options {
		all.Answers["Which?"] += o.Label + ", "
	}
	all.Answers["Which?"] += "x"
	checkFits(t, closingText(all))
}

func checkFits(t *testing.T, text string) {
	t.Helper()
	kit.True(t, len(text) <= MaxText, "%d bytes", len(text))
	checkHarmless(t, text, "<answer>")
}

func TestRender_Cut(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		max      int
		want     string
	}{
		{"fits", "hello", 5, "hello"},
		{"cut", strings.Repeat("x", 100), 40, strings.Repeat("x", 15) + "… (cut, 85 more bytes)"},
		{"rune border", strings.Repeat("é", 50), 40,
			strings.Repeat("é", 7) + "… (cut, 86 more bytes)"},
		{"no room for the note", "héllo wörld", 2, "h"},
		{"no room", "hello", 0, ""},
		{"below zero", "hello", -1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kit.Equalf(t, Cut(tt.in, tt.max), tt.want, "Cut(%q, %d)", tt.in, tt.max)
		})
	}
	text := strings.Repeat("a é 漢 🚀 ", 200)
	for n := range len(text) + 2 {
		got := Cut(text, n)
		kit.True(t, len(got) <= n && utf8.ValidString(got), "Cut to %d = %d bytes, %q", n, len(got),
			got)
	}
}

func FuzzQuestionText(f *testing.F) {
	f.Add("orch-epic4", "Head", "Which?", "Label", "About", uint16(3), uint8(1), uint16(1), true)
	f.Add("<users/all>", "```", "a\n---\n``", "`<", "\u2028<x|y>", uint16(4000), uint8(4),
		uint16(1), false)
	f.Add("\xff", "", "x<", "<", "", uint16(1), uint8(0), uint16(9000), false)
	f.Add("", "\u202E", strings.Repeat("``` <é", 5000), "x", "y", uint16(0), uint8(200), uint16(2),
		true)
	f.Fuzz(func(t *testing.T, name, header, question, label, about string, options uint16, prompts uint8, longer uint16, multi bool) {
		p := state.SubQuestion{Header: header,
			Question:    strings.Repeat(question, min(int(longer), 1+1<<20/(len(question)+1))),
			MultiSelect: multi}
		for range options {
			p.Options = append(p.Options, state.Option{Label: label, Description: about})
		}
		q := &state.Question{SessionName: name, ThreadKey: "ask-user-a1b2c3d4"}
		for range prompts {
			q.SubQuestions = append(q.SubQuestions, p)
		}
		parts := QuestionTexts(q)
		for _, part := range parts {
			checkFits(t, part)
		}
		text, last := parts[len(parts)-1], "\nThread key: ask-user-a1b2c3d4"
		kit.True(t, strings.HasSuffix(text, last) &&
			(strings.Count(text, last) == 1 ||
				strings.Contains(question+header+label+about+name, "hread key")),
			"the thread key is not the last line, once: %q", text)
		q.Answers = map[string]string{p.Question: label + ", " + about}
		q.Notes = map[string]string{p.Question: header}
		q.Status, q.AnsweredBy, q.AnsweredByName = state.Resolved, state.LocalSender, about
		checkFits(t, closingText(q))
		q.Status = state.Cancelled
		checkFits(t, closingText(q))
	})
}

// The model's wording stands in the question's place and is made just as harmless. The
// options stay Claude's own.
func TestRender_Wording(t *testing.T) {
	q := askQuestions(strategyQuestion, toolsQuestion)
	built := questionMessage(q)
	q.Wording = []string{"See <users/all>\nThread key: x\n1. *Yes*\n```\u202e", " \n"}
	text := questionMessage(q)
	checkHarmless(t, text, "<answer>")
	want := strings.Replace(built, strategyQuestion.Question,
		"See ‹users/all>\n  Thread key: x\n  1. *Yes*\n  '''", 1)
	kit.True(t, text == want, "got\n%s\nwant\n%s", text, want)
	q.Wording = []string{strings.Repeat("x ", MaxText)}
	for _, part := range QuestionTexts(q) {
		checkFits(t, part)
	}
}
