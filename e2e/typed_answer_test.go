package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// These tests answer a real Claude Code's dialogs at its keyboard, and ask the model
// stand-in what Claude was told.

// typistSession is a typist at a session's pane.
type typistSession struct {
	inject.Typist
	*session
	keys atomic.Int32 // that were announced
}

func newTypistSession(t *testing.T, s *session) *typistSession {
	y := &typistSession{session: s}
	y.Typist = inject.Typist{
		UserState:     t.TempDir(),
		EffectTimeout: 6 * time.Second,
		BeforeKey: func(string, bool) error {
			y.keys.Add(1)
			return nil
		},
	}
	return y
}

func (y *typistSession) target() inject.Target {
	pid := y.ClaudePID()
	return inject.Target{
		Server:      inject.ServerOf(y.TMUX()),
		Pane:        y.Pane(),
		ClaudePID:   pid,
		ClaudeStart: inject.ProcessStart(pid),
	}
}

func (y *typistSession) answer(t *testing.T, choices ...inject.Choice) inject.Outcome {
	t.Helper()
	began := time.Now()
	out := y.AnswerDialog(context.Background(), y.target(), choices)
	t.Logf("%s in %d ms, %d keys %q: %s", out.Result, time.Since(began).Milliseconds(),
		out.KeyCount, out.Steps, out.Why)
	return out
}

// checkAnswered types the answers and checks what Claude was told with the nth tool
// result.
func (y *typistSession) checkAnswered(t *testing.T, n int, told []string,
	choices ...inject.Choice) {
	t.Helper()
	out := y.answer(t, choices...)
	if out.Result != inject.Injected {
		t.Fatalf("%s: %s\n%s", out.Result, out.Why, y.Screen())
	}
	got := y.API.WaitToolResult(t, n).Text
	for _, want := range told {
		kit.Containsf(t, got, want, "what Claude is told")
	}
	y.WaitIdle()
	kit.Equalf(t, inputText(y.Screen()), "", "in the input box")
}

// choiceOf is one question with its answer.
func choiceOf(q question, a state.Answer) inject.Choice {
	raw, err := json.Marshal(q)
	if err != nil {
		panic(err)
	}
	var p state.SubQuestion
	if err := json.Unmarshal(raw, &p); err != nil {
		panic(err)
	}
	return inject.Choice{SubQuestion: p, Answer: a}
}

func labelAnswer(of ...string) state.Answer { return state.Answer{Labels: of} }

func ownWords(prompt string) state.Answer { return state.Answer{Text: prompt} }

func pickOption(q question, n int) inject.Choice {
	return choiceOf(q, labelAnswer(q.Options[n-1].Label))
}

// showDialog has the model ask, and waits until the dialog is drawn.
func (s *session) showDialog(asks ...question) {
	s.t.Helper()
	s.API.AddTurns(turn{questionCall(asks...)}, thanksTurn)
	s.Prompt("go ahead")
	s.WaitScreen("Esc to cancel")
}

var (
	layoutsQuestion = question{
		Question: "Which layout?",
		Header:   "Layout",
		Options: []option{
			{Label: "Side bar", Description: "left", Preview: "|nav|page|"}, {
				Label: "Top bar", Description: "above", Preview: "==nav==\npage",
			}},
	}
	editorQuestion = question{
		Question: "Which editor?",
		Header:   "Editor",
		Options: []option{
			{Label: "vim", Description: "modal"}, {Label: "ed", Description: "the standard one"},
		},
	}
	extrasQuestion = multiQuestion("Which extras?", "Extras",
		option{Label: "Docs", Description: "a manual"},
		option{Label: "Tests", Description: "unit tests"},
		option{Label: "CI", Description: "pipelines"},
		option{Label: "Lint", Description: "style"})
)

const hostileText = `C-c Enter ; $(rm -rf ~) "quotes" 'single' {braces} [x] \n \ ; `

// A typingCase is a dialog and the answers that are typed into it.
type typingCase struct {
	name    string
	size    [2]string // of the pane
	before  []string  // keys of a person who has been there
	choices []inject.Choice
	results []string
}

// casesPerSession is how many dialogs one session shows. Sessions run side by side.
const casesPerSession = 10

// typeCases answers the dialogs, many in one session; a session in which a case failed is
// left alone.
func typeCases(t *testing.T, versions []string, cases []typingCase) {
	parts := map[string][]typingCase{}
	for part := range slices.Chunk(cases, casesPerSession) {
		parts[part[0].name+" and others"] = part
	}
	eachCase(t, versions, parts, typeInOneSession)
}

func typeInOneSession(t *testing.T, cl claude, cases []typingCase) {
	var s *session
	told := 0
	for _, c := range cases {
		ok := t.Run(c.name, func(inner *testing.T) {
			if s == nil {
				s, told = startSession(t, cl, config{}), 0
			}
			s.resize("110", "40")
			var asks []question
			for _, choice := range c.choices {
				asks = append(asks, questionOf(choice))
			}
			s.showDialog(asks...)
			if c.size[0] != "" {
				s.resize(c.size[0], c.size[1])
				s.awaitStill()
			}
			for _, key := range c.before {
				s.Keys(key)
				s.awaitStill()
			}
			told++
			newTypistSession(inner, s).checkAnswered(inner, told, c.results, c.choices...)
		})
		if !ok {
			s = nil
		}
	}
}

func TestTyping_EachKindOfAnswer(t *testing.T) {
	long := strings.Repeat("0123456789 lorem ipsum ", 445) // 10 kB
	cases := []typingCase{
		{
			name:    "single choice",
			choices: []inject.Choice{pickOption(deployQuestion, 2)},
			results: []string{`"="Rolling deployment"`},
		},
		{
			name:    "one letter",
			choices: []inject.Choice{choiceOf(deployQuestion, ownWords("x"))},
			results: []string{`"="x"`},
		},
		{
			name:    "a number",
			choices: []inject.Choice{choiceOf(deployQuestion, ownWords("2"))},
			results: []string{`"="2`},
		},
		{
			name:    "literal",
			choices: []inject.Choice{choiceOf(deployQuestion, ownWords(hostileText))},
			results: []string{`"="` + strings.TrimSpace(hostileText) + `"`},
		},
		{
			name:    "slash first, backslash last",
			choices: []inject.Choice{choiceOf(deployQuestion, ownWords(`/help @main.go !ls # x C:\`))},
			results: []string{`"="/help @main.go !ls # x C:\`},
		},
		{
			name:    "several lines",
			choices: []inject.Choice{choiceOf(deployQuestion, ownWords("one\ntwo\n\nthree"))},
			results: []string{"\"=\"one\ntwo\n\nthree\""},
		},
		{
			name: "emoji of several characters, and CJK",
			choices: []inject.Choice{
				choiceOf(deployQuestion, ownWords("❤️ 👍🏽 e\u0301 然后 日本語 ✅ 👩‍👩‍👧 ok")),
			},
			results: []string{"\"=\"❤️ 👍🏽 e\u0301 然后 日本語 ✅ 👩‍👩‍👧 ok\""},
		},
		{
			name:    "accents apart",
			choices: []inject.Choice{choiceOf(featuresQuestion, ownWords("e\u0301 and a\u0308"))},
			results: []string{"\"=\"e\u0301 and a\u0308\""},
		},
		{
			name:    "ten kilobytes",
			choices: []inject.Choice{choiceOf(deployQuestion, ownWords(long))},
			results: []string{`"="` + strings.TrimSpace(long) + `"`},
		},
		{
			name: "a remark",
			choices: []inject.Choice{
				choiceOf(deployQuestion,
					state.Answer{Labels: []string{"Canary"}, Notes: "but slowly"}),
			},
			results: []string{"Canary – but slowly"},
		},
		{
			name:    "multi",
			choices: []inject.Choice{choiceOf(featuresQuestion, labelAnswer("Auth", "Search"))},
			results: []string{`"="Auth, Search"`},
		},
		{
			name: "multi all",
			choices: []inject.Choice{
				choiceOf(extrasQuestion, labelAnswer("Docs", "Tests", "CI", "Lint")),
			},
			results: []string{`"="Docs, Tests, CI, Lint"`},
		},
		{
			name:    "multi text",
			choices: []inject.Choice{choiceOf(featuresQuestion, ownWords("dark mode"))},
			results: []string{`"="dark mode"`},
		},
		{
			name: "multi with text",
			choices: []inject.Choice{
				choiceOf(featuresQuestion,
					state.Answer{Labels: []string{"Auth", "Billing"}, Text: "dark mode"}),
			},
			results: []string{`"="Auth, Billing, dark mode"`},
		},
		{
			name: "multi lines",
			choices: []inject.Choice{
				choiceOf(featuresQuestion,
					state.Answer{Labels: []string{"Auth"}, Text: "dark\nmode"}),
			},
			results: []string{"\"=\"Auth, dark\nmode\""},
		},
		{
			name: "two questions",
			choices: []inject.Choice{
				pickOption(databaseQuestion, 2), choiceOf(featuresQuestion, labelAnswer("Search")),
			},
			results: []string{`"Which DB?"="SQLite"`, `"="Search"`},
		},
		{name: "four questions", choices: []inject.Choice{
			pickOption(databaseQuestion, 1),
			choiceOf(featuresQuestion, state.Answer{Labels: []string{"Auth"}, Text: "more"}),
			choiceOf(editorQuestion, ownWords("emacs\nreally")),
			choiceOf(extrasQuestion, labelAnswer("CI")),
		},
			results: []string{
				`"Which DB?"="Postgres"`, `"="Auth, more"`, "\"Which editor?\"=\"emacs\nreally\"",
				`"Which extras?"="CI"`,
			}},
		{
			name:    "preview",
			choices: []inject.Choice{pickOption(layoutsQuestion, 2)},
			results: []string{`"="Top bar"`},
		},
		{
			name: "preview of two",
			choices: []inject.Choice{
				pickOption(layoutsQuestion, 2), pickOption(databaseQuestion, 1),
			},
			results: []string{`"="Top bar"`, `"Which DB?"="Postgres"`},
		},
	}
	typeCases(t, bothVersions, cases)
}

// A session with a name has it drawn around its input box, and below its dialogs.
func TestTyping_NamedSession(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, cl claude) {
		s := startSession(t, cl, config{})
		s.TypeLine("/rename my session")
		s.WaitScreen("Session renamed to: my session")
		s.WaitScreenFunc("an empty input box", func(string) bool {
			capture, err := s.capture()
			return err == nil && inject.ReadScreen(capture).Shows == inject.Prompt
		})
		s.API.AddTurns(turn{questionCall(deployQuestion, featuresQuestion)}, thanksTurn)
		s.TypeLine("go ahead")
		s.WaitScreen("Esc to cancel")
		newTypistSession(t, s).checkAnswered(t, 1, []string{`"="Auth, Search"`},
			pickOption(deployQuestion, 2),
			choiceOf(featuresQuestion, labelAnswer("Auth", "Search")))
	})
}

// questionOf is the question of a choice, as the model asks it.
func questionOf(c inject.Choice) question {
	raw, _ := json.Marshal(c.SubQuestion)
	var q question
	_ = json.Unmarshal(raw, &q)
	return q
}

// Panes and labels that make a dialog hard to read.
func TestTyping_OddDialogs(t *testing.T) {
	prompt := strings.Repeat("a label that is long and wraps ", 3)
	odd := question{
		Question: "Which of these should we take, given that all of them look much the same and the question is long enough for several lines?",
		Header:   "Odd",
		Options: []option{
			{
				Label:       prompt + "A",
				Description: strings.Repeat("What it says about itself is long too. ", 4),
			},
			{Label: prompt + "B", Description: "2. [ ] Submit"},
			{
				Label: "日本語のラベルはとても長いので折り返されます、そうでしょう？", Description: "幅の広い文字",
			}, {Label: "2. ❯ Type something.", Description: "→ ok ✅"}},
	}
	twins := multiQuestion("Same?", "Same",
		option{Label: "Yes", Description: "a"}, option{Label: "Yes!", Description: "b"},
		option{Label: "Yes.", Description: "c"}, option{Label: "yes", Description: "d"})
	cases := []typingCase{
		{
			name:    "wrapped",
			size:    [2]string{"70", "40"},
			choices: []inject.Choice{pickOption(odd, 2)},
			results: []string{`"="` + odd.Options[1].Label},
		},
		{
			name:    "wide",
			size:    [2]string{"50", "40"},
			choices: []inject.Choice{pickOption(odd, 3)},
			results: []string{`"="` + odd.Options[2].Label + `"`},
		},
		{
			name:    "like a row",
			size:    [2]string{"110", "40"},
			choices: []inject.Choice{pickOption(odd, 4)},
			results: []string{`"="2. ❯ Type something."`},
		},
		{
			name:    "almost the same",
			size:    [2]string{"110", "40"},
			choices: []inject.Choice{choiceOf(twins, labelAnswer("Yes.", "yes"))},
			results: []string{`"="Yes., yes"`},
		},
		{
			name:    "cursor left on the field",
			size:    [2]string{"110", "40"},
			before:  []string{"4"},
			choices: []inject.Choice{pickOption(deployQuestion, 3)},
			results: []string{`"="Canary"`},
		},
		{
			name:    "cursor left on the field, own words",
			size:    [2]string{"110", "40"},
			before:  []string{"4"},
			choices: []inject.Choice{choiceOf(deployQuestion, ownWords("no"))},
			results: []string{`"="no"`},
		},
		{
			name:    "cursor left on the chat",
			size:    [2]string{"110", "40"},
			before:  []string{"Up"},
			choices: []inject.Choice{pickOption(deployQuestion, 3)},
			results: []string{`"="Canary"`},
		},
		{
			name:    "small",
			size:    [2]string{"60", "15"},
			choices: []inject.Choice{choiceOf(extrasQuestion, labelAnswer("Docs", "Lint"))},
			results: []string{`"="Docs, Lint"`},
		},
		{
			name:    "small, own words",
			size:    [2]string{"60", "15"},
			choices: []inject.Choice{choiceOf(extrasQuestion, ownWords("none\nof it"))},
			results: []string{"\"=\"none\nof it\""},
		},
		{
			name: "small, several",
			size: [2]string{"60", "15"},
			choices: []inject.Choice{
				pickOption(deployQuestion, 3), choiceOf(extrasQuestion, labelAnswer("Lint")),
			},
			results: []string{`"="Canary"`, `"="Lint"`},
		},
	}
	typeCases(t, testedVersions, cases)
}

// checkUntyped gives an answer that must not be typed where at points, and checks that
// nothing was.
func (y *typistSession) checkUntyped(t *testing.T, at inject.Target, why string,
	choices ...inject.Choice) inject.Outcome {
	t.Helper()
	before := y.heldKeys()
	out := y.AnswerDialog(t.Context(), at, choices)
	t.Logf("%s: %s", out.Result, out.Why)
	if out.Result != inject.Unchanged || out.KeyCount != 0 || y.keys.Load() != 0 {
		t.Errorf("%s, %d keys %q, %d announced: %s", out.Result, out.KeyCount, out.Steps,
			y.keys.Load(), out.Why)
	}
	kit.Containsf(t, out.Why, why, "why")
	if after := y.heldKeys(); after != before {
		t.Errorf("the screen changed from\n%s\nto\n%s", before, after)
	}
	return out
}

// heldKeys is what the screen says of Claude Code's dialog or input box, without the
// hints and notices around it, which come and go; all of the screen where it is neither.
func (s *session) heldKeys() string {
	s.t.Helper()
	text := s.awaitStill()
	screen := inject.ReadScreen(s.runTmux("capture-pane", "-p", "-e", "-t", "=claude:"))
	if screen.Shows == inject.Unknown {
		return text
	}
	screen.Busy = false
	return fmt.Sprintf("%#v", screen)
}

func TestTyping_LeavesOtherScreensAlone(t *testing.T) {
	eachCase(t, testedVersions, map[string]func(*testing.T, *typistSession){
		"after Claude has quit, and where less runs": func(t *testing.T, y *typistSession) {
			at := y.target()
			y.Quit()
			y.checkUntyped(t, at, "has ended", pickOption(deployQuestion, 2))
			y.TypeLine("less /etc/passwd")
			y.WaitScreen("/etc/passwd")
			y.checkUntyped(t, at, "has ended", pickOption(deployQuestion, 2))
		},
		"after Claude was started anew": func(t *testing.T, y *typistSession) {
			at := y.target()
			y.Quit()
			y.API.AddTurns(turn{questionCall(deployQuestion)})
			y.TypeLine(shellLine(y.Claude.Argv...) + " 'go ahead'")
			y.WaitScreen("Esc to cancel")
			y.checkUntyped(t, at, "has ended", pickOption(deployQuestion, 2))
		},
		"other dialogs, a draft, and a dry run": func(t *testing.T, y *typistSession) {
			dismiss := func() {
				y.Keys("Escape")
				y.WaitIdle()
				y.API.DropTurns()
			}
			out := y.checkUntyped(t, y.target(), "no longer open", pickOption(deployQuestion, 2))
			kit.Equalf(t, out.DialogGone, true, "the dialog is gone")
			y.Type("I was thinking")
			y.WaitScreen("I was thinking")
			y.checkUntyped(t, y.target(), "no longer open", pickOption(deployQuestion, 2))
			y.Keys("C-u")

			y.showDialog(deployQuestion)
			y.checkUntyped(t, y.target(), "another question is open",
				pickOption(databaseQuestion, 2))
			changed := deployQuestion
			changed.Options = deployQuestion.Options[:2]
			y.checkUntyped(t, y.target(), "other options", pickOption(changed, 2))
			many := deployQuestion
			many.MultiSelect = true
			y.checkUntyped(t, y.target(), "another dialog", pickOption(many, 2))

			at := y.target() // another session
			at.ClaudeStart = "at another time"
			y.checkUntyped(t, at, "has ended", pickOption(deployQuestion, 2))
			at = y.target()
			at.ClaudePID = 1
			y.checkUntyped(t, at, "", pickOption(deployQuestion, 2))
			at.Pane = "%77"
			y.checkUntyped(t, at, "closed", pickOption(deployQuestion, 2))
			dismiss()

			y.API.AddTurns(turn{bash("touch something")}, thanksTurn)
			y.Prompt("go ahead")
			y.WaitScreen(permissionDialog)
			y.checkUntyped(t, y.target(), "another dialog is open", pickOption(deployQuestion, 2))
			dismiss()

			y.showDialog(featuresQuestion) // what a person has begun
			y.awaitStill()
			y.Keys("2")
			y.WaitScreen("[✔] Billing")
			y.checkUntyped(t, y.target(), "changed in the terminal",
				choiceOf(featuresQuestion, labelAnswer("Auth")))
			dismiss()
			y.showDialog(databaseQuestion, deployQuestion)
			y.awaitStill()
			y.Keys("1")
			y.WaitScreen(deployQuestion.Question)
			y.checkUntyped(t, y.target(), "another question is open",
				pickOption(databaseQuestion, 2), pickOption(deployQuestion, 2))
			dismiss()

			y.showDialog(databaseQuestion, featuresQuestion)
			y.DryRun = true
			out = y.checkUntyped(t, y.target(), "", pickOption(databaseQuestion, 2),
				choiceOf(featuresQuestion, labelAnswer("Auth", "Search")))
			kit.Equalf(t, strings.Join(out.Steps, "; "), "SQLite; Auth, Search", "it would type")
		},
		"a pane that somebody is at": func(t *testing.T, y *typistSession) {
			y.showDialog(deployQuestion)
			desk := y.sitDown(t)
			desk("send-keys", "Down")
			y.WaitScreen("❯ 2.")
			y.checkUntyped(t, y.target(), "a person is typing", pickOption(deployQuestion, 2))
			desk("send-keys", "C-b")
			desk("send-keys", "[")
			y.untilMode("1")
			y.checkUntyped(t, y.target(), "scrolled back", pickOption(deployQuestion, 2))
			// Nobody has touched it for a while: then it is set right, and answered.
			y.IdleTime, y.QuietTime = time.Millisecond, time.Millisecond
			y.checkAnswered(t, 1, []string{"Rolling deployment"}, pickOption(deployQuestion, 2))
		},
		"a pane left scrolled back": func(t *testing.T, y *typistSession) {
			y.showDialog(deployQuestion)
			y.runTmux("copy-mode", "-t", "=claude:")
			y.checkAnswered(t, 1, []string{"Rolling deployment"}, pickOption(deployQuestion, 2))
		},
	}, func(t *testing.T, cl claude, test func(*testing.T, *typistSession)) {
		test(t, newTypistSession(t, startSession(t, cl, config{})))
	})
}
