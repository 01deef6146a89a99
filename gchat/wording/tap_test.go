package wording

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

func newTap(choice string, inputs ...string) *Tap {
	t := &Tap{Choice: choice, Inputs: map[string][]string{}}
	for _, in := range inputs {
		name, value, _ := strings.Cut(in, "=")
		t.Inputs[name] = append(t.Inputs[name], value)
	}
	return t
}

func TestTap_Read(t *testing.T) {
	single, multi := askQuestions(newSubQuestion(false, "A", "B",
		"\u200b")), askQuestions(newSubQuestion(true, "A", "B", "C"))
	two := askQuestions(newSubQuestion(false, "A", "B"), newSubQuestion(true, "C", "D"))
	always, only := askPermission("Bash(rm *)"), askPermission("")
	terminal := askPermission("")
	terminal.IsTerminalOnly = true // and its record offers Allow, which it should not
	plan := askDecision(state.KindPlan, state.LabelApprove, state.LabelSendBack,
		state.LabelApproveAuto)
	next := askDecision(state.KindNext, "Reply")
	same := func(a, b state.Answer) bool { return reflect.DeepEqual(a, b) }
	firstAnswer := func(a state.Answer) map[int]state.Answer { return map[int]state.Answer{0: a} }
	for _, c := range []struct {
		name  string
		q     *state.Question
		tap   *Tap
		want  map[int]state.Answer
		text  string
		about string
	}{
		{"option", single, newTap("2"), firstAnswer(answerLabels("B")), "2", ""},
		{"option with a remark", single, newTap("2", "w1= keep it \n"),
			firstAnswer(answerWithNotes("keep it", "B")), "2 - keep it", ""},
		{"the same choice in words", single, newTap("2", "w1=2 - but keep it"),
			firstAnswer(answerWithNotes("but keep it", "B")), "2 - but keep it", ""},
		{"another choice in words", single, newTap("2", "w1=1 - but keep it"),
			firstAnswer(answerWithNotes("1 - but keep it", "B")),
			"2 - 1 - but keep it", ""},
		{"own words", single, newTap("send", "w1=use C"), firstAnswer(answerText("use C")), "use C",
			""},
		{"own words like an option", single, newTap("send", "w1=2"), firstAnswer(answerText("2")),
			"2", ""},
		{"own words like a label", single, newTap("send", "w1=b"), firstAnswer(answerText("b")),
			"b", ""},
		{"nothing", single, newTap("send"), nil, "", state.NoteNoText},
		{"nothing to see", single, newTap("send", "w1=\u200b \u202e"), nil, "", state.NoteNoText},
		{"no such option", single, newTap("9"), nil, "", state.NoteUnclear},
		{"option 0", single, newTap("0"), nil, "", state.NoteUnclear},
		{"an option that is not seen", single, newTap("3"), nil, "", state.NoteUnclear},
		{"negative", single, newTap("-1"), nil, "", state.NoteUnclear},
		{"no number", single, newTap("allow"), nil, "", state.NoteUnclear},
		{"huge number", single, newTap("99999999999999999999"), nil, "", state.NoteUnclear},
		{"no choice", single, newTap(""), nil, "", state.NoteUnclear},
		{"two of one", single, newTap("send", "q1=1", "q1=2"), nil, "", state.NoteUnclear},
		{"several chosen", multi, newTap("send", "q1=3", "q1=1", "q1=3"),
			firstAnswer(answerLabels("A", "C")), "1,3", ""},
		{"several chosen with a remark", multi, newTap("send", "q1=3", "q1=1", "w1=soon"),
			firstAnswer(answerWithNotes("soon", "A", "C")), "1,3 - soon", ""},
		{"one of several is none", multi, newTap("send", "q1=3", "q1=4"), nil, "",
			state.NoteUnclear},
		{"a button that its card does not have", multi, newTap("1"), nil, "", state.NoteUnclear},
		{"both", two, newTap("send", "q1=2", "q2=1", "q2=2"),
			map[int]state.Answer{0: answerLabels("B"), 1: answerLabels("C", "D")}, "Q1: 2\nQ2: 1,2",
			""},
		{"choice and words", two, newTap("send", "q1=2", "w2=none of them"),
			map[int]state.Answer{0: answerLabels("B"), 1: answerText("none of them")},
			"Q1: 2\nQ2: other: none of them", ""},
		{"words beside all, for one that has no choice", two,
			newTap("send", "q1=2", "w=please:\nQ2: other: none"),
			map[int]state.Answer{0: answerWithNotes("please:", "B"), 1: answerText("none")},
			"please:\nQ1: 2\nQ2: other: none", ""},
		{"words beside all, a remark on a choice", two,
			newTap("send", "q1=2", "q2=1", "w=if it is fast"),
			map[int]state.Answer{0: answerWithNotes("if it is fast", "B"), 1: answerLabels("C")},
			"Q1: 2 - if it is fast\nQ2: 1", ""},
		{"words beside all, that choose", two, newTap("send", "q1=2", "w=Q2: d"),
			map[int]state.Answer{0: answerLabels("B"), 1: answerLabels("D")}, "Q1: 2\nQ2: d", ""},
		{"words beside all, and a field", two, newTap("send", "w1=both", "w=Q2: 1"),
			map[int]state.Answer{0: answerText("both"), 1: answerLabels("C")},
			"Q1: other: both\nQ2: 1", ""},
		{"one of two", two, newTap("send", "q2=1"), map[int]state.Answer{1: answerLabels("C")},
			"Q2: 1", ""},
		{"one of two is wrong", two, newTap("send", "q1=1", "q2=7"), nil, "", state.NoteUnclear},
		{"a third", two, newTap("send", "q3=1", "w3=x"), nil, "", state.NoteNoText},
		{"another question's", two, newTap("send", "question=other", "choice=allow"), nil, "",
			state.NoteNoText},
		{"allow", always, newTap("allow", "w1=but slowly"),
			firstAnswer(answerLabels(state.LabelAllow)), "yes", ""},
		{"always", always, newTap("always"), firstAnswer(answerLabels(state.LabelAlways)), "always",
			""},
		{"always, not offered", only, newTap("always"), nil, "", state.NoteUnclear},
		{"deny", always, newTap("deny"), firstAnswer(answerLabels(state.LabelDeny)), "no", ""},
		{"deny with a reason", always, newTap("deny", "w1=use git mv"),
			firstAnswer(answerWithNotes("use git mv", state.LabelDeny)), "no, use git mv", ""},
		{"deny with a denial", always, newTap("deny", "w1=No, use git mv"),
			firstAnswer(answerWithNotes("use git mv", state.LabelDeny)), "no, use git mv", ""},
		{"deny with no problem", always, newTap("deny", "w1=no problem"),
			firstAnswer(answerWithNotes("no problem", state.LabelDeny)), "no, no problem", ""},
		{"more", always, newTap("more"), nil, "more", state.NoteFullText},
		{"approve a permission", always, newTap("approve"), nil, "", state.NoteUnclear},
		{"send a permission", always, newTap("send", "w1=yes"), nil, "", state.NoteUnclear},
		{"a number for a permission", always, newTap("1"), nil, "", state.NoteUnclear},
		{"allow what only the terminal can", terminal, newTap("allow"), nil, "", state.NoteUnclear},
		{"deny what only the terminal can allow", terminal, newTap("deny"),
			firstAnswer(answerLabels(state.LabelDeny)), "no", ""},
		{"approve", plan, newTap("approve"), firstAnswer(answerLabels(state.LabelApprove)), "yes",
			""},
		{"approve, auto", plan, newTap("auto"), firstAnswer(answerLabels(state.LabelApproveAuto)),
			"yes, accept edits", ""},
		{"send back", plan, newTap("back", "w1=leave 2 out"),
			firstAnswer(answerWithNotes("leave 2 out", state.LabelSendBack)), "no, leave 2 out",
			""},
		{"allow a plan", plan, newTap("allow"), nil, "", state.NoteUnclear},
		{"more of a plan", plan, newTap("more"), nil, "", state.NoteUnclear},
		{"next", next, newTap("send", "w1= run the tests "),
			firstAnswer(answerText("run the tests")), "run the tests", ""},
		{"next: a shell's command", next, newTap("send", "w1=!rm -rf /"), nil, "!rm -rf /",
			state.NoteUnclear},
		{"next: a command", next, newTap("send", "w1=/clear"), nil, "/clear", state.NoteUnclear},
		{"next: a memory", next, newTap("send", "w1=\u200b# remember"), nil, "# remember",
			state.NoteUnclear},
		{"next: nothing", next, newTap("send"), nil, "", state.NoteNoText},
		{"next: a choice", next, newTap("1", "w1=x"), nil, "", state.NoteUnclear},
		{"a question without prompts", askQuestions(), newTap("1"), nil, "", state.NoteUnclear},
	} {
		answers, text, about := ReadTap(c.q, c.tap)
		kit.True(t, maps.EqualFunc(answers, c.want, same) && text == c.text && about == c.about,
			"%s: %v, %q, %q", c.name, answers, text, about)
	}
}

// A tap's text in the record can be read as a reply with the same answer. Own words alone
// are kept as they are.
func TestTap_AsTyped(t *testing.T) {
	for _, c := range []struct {
		q   *state.Question
		tap *Tap
	}{
		{askQuestions(newSubQuestion(false, "A", "B")), newTap("1")},
		{askQuestions(newSubQuestion(false, "A", "B")), newTap("1", "w1=but soon")},
		{askQuestions(newSubQuestion(true, "A", "B")),
			newTap("send", "q1=2", "q1=1", "w1=but soon")},
		{askQuestions(newSubQuestion(false, "A", "B"), branchQuestion),
			newTap("send", "q1=2", "w=well\nQ2: other: no")},
		{askQuestions(newSubQuestion(false, "A", "B"), newSubQuestion(true, "C", "D"),
			branchQuestion), newTap("send", "q1=2", "q2=1", "q2=2", "w2=soon", "w3=2")},
	} {
		answers, text, about := ReadTap(c.q, c.tap)
		typed, none := ParseReply(text, c.q.SubQuestions, nil)
		kit.True(t, about == "" && reflect.DeepEqual(typed, answers) &&
			len(Unanswered(c.q.SubQuestions, typed)) == 0 && none == nil,
			"%q reads as %v, not as %v", text, typed, answers)
	}
}

// Every button of every card is read as what it says.
func TestTap_ButtonsAreRead(t *testing.T) {
	for name, q := range cardsOfEachKind() {
		for _, b := range allButtons(QuestionCard(q)) {
			one := tapFor(b)
			switch one.Choice {
			case choiceShowAll:
				_, _, about := ReadTap(q, one)
				kit.True(t, about == state.NoteFullText, "%s, %s: %q", name, b.Text, about)
				continue
			case state.DeclinedChat, state.DeclinedSkip:
				_, text, _ := ReadTap(q, one)
				how, _ := ReadDecline(text, q)
				kit.True(t, how == one.Choice,
					"%s: %q is read as %q, which is %q", name, b.Text, text, how)
				continue
			case ChoiceSend:
				one.Inputs["w1"] = []string{"own words"}
			}
			answers, text, about := ReadTap(q, one)
			got, want := SafeLine(answers[0].Value()), b.Text
			if one.Choice == ChoiceSend {
				want = "own words"
			}
			if want == "Approve, accept edits" { // records keep the label of the releases before
				want = state.LabelApproveAuto
			}
			kit.Equalf(t, got, want, "%s: %q is read as %v, %q, %q", name, b.Text, answers, text,
				about)
		}
		for _, w := range allWidgets(QuestionCard(q)) {
			if w.Select == nil {
				continue
			}
			for _, item := range w.Select.Items {
				answers, _, _ := ReadTap(q, newTap(ChoiceSend, w.Select.Name+"="+item.Value))
				for _, a := range answers {
					kit.True(t, len(answers) == 1 &&
						strings.HasPrefix(item.Text, SafeLine(a.Labels[0])),
						"%s: %q is read as %v", name, item.Text, answers)
				}
			}
		}
	}
}

func TestTap_IsBounded(t *testing.T) {
	huge := strings.Repeat("\xff", 10*MaxText)
	q := askQuestions(newSubQuestion(true, "A", "B"), branchQuestion, branchQuestion)
	answers, text, about := ReadTap(q, newTap("send", "q1=1", "w1="+huge, "w2="+huge, "w3="+huge))
	kit.True(t, about == "" && len(answers) == 3 && len(text) <= MaxText &&
		len(answers[0].Notes) <= MaxText && len(answers[1].Text) <= MaxText,
		"%d answers, %d bytes, %q", len(answers), len(text), about)
	many := &Tap{Choice: "send", Inputs: map[string][]string{"q1": make([]string, 1_000_000)}}
	for i := range many.Inputs["q1"] {
		many.Inputs["q1"][i] = "1"
	}
	_, _, about = ReadTap(q, many)
	kit.True(t, about == state.NoteUnclear, "a million boxes")
}

// FuzzReadTap checks that any tap chooses only options of its question and decides only
// what is offered.
func FuzzReadTap(f *testing.F) {
	for _, seed := range []string{"1", "send", "allow", "deny", "always", "more", "auto", "-1",
		"01"} {
		f.Add(seed, "q1", "1", "w1", "words")
	}
	f.Fuzz(func(t *testing.T, choice, name, value, name2, value2 string) {
		one := &Tap{Choice: choice,
			Inputs: map[string][]string{name: {value, value2}, name2: {value2}}}
		terminal := askPermission("")
		terminal.IsTerminalOnly = true
		for _, q := range []*state.Question{
			askQuestions(newSubQuestion(false, "A", "B")),
			askQuestions(newSubQuestion(true, "A", "B"), newSubQuestion(false, "C")),
			askPermission(""), terminal,
			askDecision(state.KindPlan, state.LabelApprove, state.LabelSendBack),
			askDecision(state.KindNext, "Reply"), askQuestions(),
		} {
			answers, text, about := ReadTap(q, one)
			kit.Must(t, (about == "") == (len(answers) > 0) && len(text) <= MaxText,
				"%v, %q, %q", answers, text, about)
			for i, a := range answers {
				for _, label := range a.Labels {
					kit.True(t, i < len(q.SubQuestions) &&
						(label == "A" || label == "B" || label == "C" || isOffered(q, label)),
						"%v", answers)
				}
				kit.True(t, !a.IsEmpty() && (!q.IsTerminalOnly || a.Labels[0] == state.LabelDeny),
					"%v", answers)
			}
		}
	})
}
