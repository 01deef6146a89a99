package wording

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"gchat-hooks/state"
)

func tap(choice string, inputs ...string) *Tap {
	t := &Tap{Choice: choice, Inputs: map[string][]string{}}
	for _, in := range inputs {
		name, value, _ := strings.Cut(in, "=")
		t.Inputs[name] = append(t.Inputs[name], value)
	}
	return t
}

func TestReadTap(t *testing.T) {
	single, multi := asked(prompt(false, "A", "B", "\u200b")), asked(prompt(true, "A", "B", "C"))
	two := asked(prompt(false, "A", "B"), prompt(true, "C", "D"))
	always, only := permission("Bash(rm *)"), permission("")
	terminal := permission("")
	terminal.IsTerminalOnly = true // and its record offers Allow, which it should not
	plan := decides(state.KindPlan, state.LabelApprove, state.LabelSendBack, state.LabelApproveAuto)
	next := decides(state.KindNext, "Reply")
	same := func(a, b state.Answer) bool { return reflect.DeepEqual(a, b) }
	first := func(a state.Answer) map[int]state.Answer { return map[int]state.Answer{0: a} }
	for _, c := range []struct {
		name  string
		q     *state.Question
		tap   *Tap
		want  map[int]state.Answer
		text  string
		about string
	}{
		{"option", single, tap("2"), first(chose("B")), "2", ""},
		{"option with a remark", single, tap("2", "w1= keep it \n"), first(noted("keep it", "B")), "2 - keep it", ""},
		{"the same choice in words", single, tap("2", "w1=2 - but keep it"), first(noted("but keep it", "B")), "2 - but keep it", ""},
		{"another choice in words", single, tap("2", "w1=1 - but keep it"), first(noted("1 - but keep it", "B")),
			"2 - 1 - but keep it", ""},
		{"own words", single, tap("send", "w1=use C"), first(said("use C")), "use C", ""},
		{"own words like an option", single, tap("send", "w1=2"), first(said("2")), "2", ""},
		{"own words like a label", single, tap("send", "w1=b"), first(said("b")), "b", ""},
		{"nothing", single, tap("send"), nil, "", state.NoteNoText},
		{"nothing to see", single, tap("send", "w1=\u200b \u202e"), nil, "", state.NoteNoText},
		{"no such option", single, tap("9"), nil, "", state.NoteUnclear},
		{"option 0", single, tap("0"), nil, "", state.NoteUnclear},
		{"an option that is not seen", single, tap("3"), nil, "", state.NoteUnclear},
		{"negative", single, tap("-1"), nil, "", state.NoteUnclear},
		{"no number", single, tap("allow"), nil, "", state.NoteUnclear},
		{"huge number", single, tap("99999999999999999999"), nil, "", state.NoteUnclear},
		{"no choice", single, tap(""), nil, "", state.NoteUnclear},
		{"two of one", single, tap("send", "q1=1", "q1=2"), nil, "", state.NoteUnclear},
		{"several chosen", multi, tap("send", "q1=3", "q1=1", "q1=3"), first(chose("A", "C")), "1,3", ""},
		{"several chosen with a remark", multi, tap("send", "q1=3", "q1=1", "w1=soon"),
			first(noted("soon", "A", "C")), "1,3 - soon", ""},
		{"one of several is none", multi, tap("send", "q1=3", "q1=4"), nil, "", state.NoteUnclear},
		{"a button that its card does not have", multi, tap("1"), nil, "", state.NoteUnclear},
		{"both", two, tap("send", "q1=2", "q2=1", "q2=2"),
			map[int]state.Answer{0: chose("B"), 1: chose("C", "D")}, "Q1: 2\nQ2: 1,2", ""},
		{"choice and words", two, tap("send", "q1=2", "w2=none of them"),
			map[int]state.Answer{0: chose("B"), 1: said("none of them")}, "Q1: 2\nQ2: other: none of them", ""},
		{"words beside all, for one that has no choice", two, tap("send", "q1=2", "w=please:\nQ2: other: none"),
			map[int]state.Answer{0: noted("please:", "B"), 1: said("none")}, "please:\nQ1: 2\nQ2: other: none", ""},
		{"words beside all, a remark on a choice", two, tap("send", "q1=2", "q2=1", "w=if it is fast"),
			map[int]state.Answer{0: noted("if it is fast", "B"), 1: chose("C")}, "Q1: 2 - if it is fast\nQ2: 1", ""},
		{"words beside all, that choose", two, tap("send", "q1=2", "w=Q2: d"),
			map[int]state.Answer{0: chose("B"), 1: chose("D")}, "Q1: 2\nQ2: d", ""},
		{"words beside all, and a field", two, tap("send", "w1=both", "w=Q2: 1"),
			map[int]state.Answer{0: said("both"), 1: chose("C")}, "Q1: other: both\nQ2: 1", ""},
		{"one of two", two, tap("send", "q2=1"), map[int]state.Answer{1: chose("C")}, "Q2: 1", ""},
		{"one of two is wrong", two, tap("send", "q1=1", "q2=7"), nil, "", state.NoteUnclear},
		{"a third", two, tap("send", "q3=1", "w3=x"), nil, "", state.NoteNoText},
		{"another question's", two, tap("send", "question=other", "choice=allow"), nil, "", state.NoteNoText},
		{"allow", always, tap("allow", "w1=but slowly"), first(chose(state.LabelAllow)), "yes", ""},
		{"always", always, tap("always"), first(chose(state.LabelAlways)), "always", ""},
		{"always, not offered", only, tap("always"), nil, "", state.NoteUnclear},
		{"deny", always, tap("deny"), first(chose(state.LabelDeny)), "no", ""},
		{"deny with a reason", always, tap("deny", "w1=use git mv"),
			first(noted("use git mv", state.LabelDeny)), "no, use git mv", ""},
		{"deny with a denial", always, tap("deny", "w1=No, use git mv"),
			first(noted("use git mv", state.LabelDeny)), "no, use git mv", ""},
		{"deny with no problem", always, tap("deny", "w1=no problem"),
			first(noted("no problem", state.LabelDeny)), "no, no problem", ""},
		{"more", always, tap("more"), nil, "more", state.NoteFullText},
		{"approve a permission", always, tap("approve"), nil, "", state.NoteUnclear},
		{"send a permission", always, tap("send", "w1=yes"), nil, "", state.NoteUnclear},
		{"a number for a permission", always, tap("1"), nil, "", state.NoteUnclear},
		{"allow what only the terminal can", terminal, tap("allow"), nil, "", state.NoteUnclear},
		{"deny what only the terminal can allow", terminal, tap("deny"), first(chose(state.LabelDeny)), "no", ""},
		{"approve", plan, tap("approve"), first(chose(state.LabelApprove)), "yes", ""},
		{"approve, auto", plan, tap("auto"), first(chose(state.LabelApproveAuto)), "yes, accept edits", ""},
		{"send back", plan, tap("back", "w1=leave 2 out"),
			first(noted("leave 2 out", state.LabelSendBack)), "no, leave 2 out", ""},
		{"allow a plan", plan, tap("allow"), nil, "", state.NoteUnclear},
		{"more of a plan", plan, tap("more"), nil, "", state.NoteUnclear},
		{"next", next, tap("send", "w1= run the tests "), first(said("run the tests")), "run the tests", ""},
		{"next: a shell's command", next, tap("send", "w1=!rm -rf /"), nil, "!rm -rf /", state.NoteUnclear},
		{"next: a command", next, tap("send", "w1=/clear"), nil, "/clear", state.NoteUnclear},
		{"next: a memory", next, tap("send", "w1=\u200b# remember"), nil, "# remember", state.NoteUnclear},
		{"next: nothing", next, tap("send"), nil, "", state.NoteNoText},
		{"next: a choice", next, tap("1", "w1=x"), nil, "", state.NoteUnclear},
		{"a question without prompts", asked(), tap("1"), nil, "", state.NoteUnclear},
	} {
		answers, text, about := ReadTap(c.q, c.tap)
		if !maps.EqualFunc(answers, c.want, same) || text != c.text || about != c.about {
			t.Errorf("%s: %v, %q, %q", c.name, answers, text, about)
		}
	}
}

// What the record shows of a tap reads as the same answer, but for own words alone, which
// stand as they are.
func TestTapsAsTyped(t *testing.T) {
	for _, c := range []struct {
		q   *state.Question
		tap *Tap
	}{
		{asked(prompt(false, "A", "B")), tap("1")}, {asked(prompt(false, "A", "B")), tap("1", "w1=but soon")},
		{asked(prompt(true, "A", "B")), tap("send", "q1=2", "q1=1", "w1=but soon")},
		{asked(prompt(false, "A", "B"), branch), tap("send", "q1=2", "w=well\nQ2: other: no")},
		{asked(prompt(false, "A", "B"), prompt(true, "C", "D"), branch), tap("send", "q1=2", "q2=1", "q2=2", "w2=soon", "w3=2")},
	} {
		answers, text, about := ReadTap(c.q, c.tap)
		typed, none := ParseReply(text, c.q.SubQuestions, nil)
		if about != "" || !reflect.DeepEqual(typed, answers) || len(Unanswered(c.q.SubQuestions, typed)) > 0 || none != nil {
			t.Errorf("%q reads as %v, not as %v", text, typed, answers)
		}
	}
}

// Every button of every card does what it says.
func TestButtonsAreRead(t *testing.T) {
	for name, q := range cardsOfEachKind() {
		for _, b := range buttonsOf(QuestionCard(q)) {
			one := tapOf(b)
			switch one.Choice {
			case choiceMore:
				if _, _, about := ReadTap(q, one); about != state.NoteFullText {
					t.Errorf("%s, %s: %q", name, b.Text, about)
				}
				continue
			case state.DeclinedChat, state.DeclinedSkip:
				_, text, _ := ReadTap(q, one)
				if how, _ := ReadDecline(text, q); how != one.Choice {
					t.Errorf("%s: %q is read as %q, which is %q", name, b.Text, text, how)
				}
				continue
			case ChoiceSend:
				one.Inputs["w1"] = []string{"own words"}
			}
			answers, text, about := ReadTap(q, one)
			got, want := Line(answers[0].Value()), b.Text
			if one.Choice == ChoiceSend {
				want = "own words"
			}
			if want == "Approve, accept edits" { // records keep the label of the releases before
				want = state.LabelApproveAuto
			}
			if got != want {
				t.Errorf("%s: %q is read as %v, %q, %q", name, b.Text, answers, text, about)
			}
		}
		for _, s := range QuestionCard(q).Sections {
			for _, w := range s.Widgets {
				if w.Select == nil {
					continue
				}
				for _, item := range w.Select.Items {
					one := tap(ChoiceSend, w.Select.Name+"="+item.Value)
					answers, _, _ := ReadTap(q, one)
					for _, a := range answers {
						if len(answers) != 1 || !strings.HasPrefix(item.Text, Line(a.Labels[0])) {
							t.Errorf("%s: %q is read as %v", name, item.Text, answers)
						}
					}
				}
			}
		}
	}
}

func TestTapsAreBounded(t *testing.T) {
	huge := strings.Repeat("\xff", 10*MaxText)
	q := asked(prompt(true, "A", "B"), branch, branch)
	answers, text, about := ReadTap(q, tap("send", "q1=1", "w1="+huge, "w2="+huge, "w3="+huge))
	if about != "" || len(answers) != 3 || len(text) > MaxText || len(answers[0].Notes) > MaxText || len(answers[1].Text) > MaxText {
		t.Errorf("%d answers, %d bytes, %q", len(answers), len(text), about)
	}
	many := &Tap{Choice: "send", Inputs: map[string][]string{"q1": make([]string, 1_000_000)}}
	for i := range many.Inputs["q1"] {
		many.Inputs["q1"][i] = "1"
	}
	if _, _, about := ReadTap(q, many); about != state.NoteUnclear {
		t.Error("a million boxes")
	}
}

// However a tap looks, what it chooses is an option of its question, and it decides
// nothing that is not offered.
func FuzzReadTap(f *testing.F) {
	for _, seed := range []string{"1", "send", "allow", "deny", "always", "more", "auto", "-1", "01"} {
		f.Add(seed, "q1", "1", "w1", "words")
	}
	f.Fuzz(func(t *testing.T, choice, name, value, name2, value2 string) {
		one := &Tap{Choice: choice, Inputs: map[string][]string{name: {value, value2}, name2: {value2}}}
		terminal := permission("")
		terminal.IsTerminalOnly = true
		for _, q := range []*state.Question{
			asked(prompt(false, "A", "B")), asked(prompt(true, "A", "B"), prompt(false, "C")), permission(""), terminal,
			decides(state.KindPlan, state.LabelApprove, state.LabelSendBack), decides(state.KindNext, "Reply"), asked(),
		} {
			answers, text, about := ReadTap(q, one)
			if (about == "") != (len(answers) > 0) || len(text) > MaxText {
				t.Fatalf("%v, %q, %q", answers, text, about)
			}
			for i, a := range answers {
				for _, label := range a.Labels {
					if i >= len(q.SubQuestions) || label != "A" && label != "B" && label != "C" && !offers(q, label) {
						t.Errorf("%v", answers)
					}
				}
				if a.IsEmpty() || q.IsTerminalOnly && a.Labels[0] != state.LabelDeny {
					t.Errorf("%v", answers)
				}
			}
		}
	})
}
