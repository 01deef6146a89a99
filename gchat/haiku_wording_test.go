package gchat

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"gchat-hooks/state"
)

const goodTools = "Tools\nWhich _tools_ do you want on? More can come later.\n\nOptions (choose one or more):\n1. *Lint*\n2. *Race detector*\n3. *Fuzzing* — slow"

// worded is a question that a model worded.
func worded(body string, prompts ...state.Prompt) *state.Question {
	q := asked(prompts...)
	q.Formatted = body
	return q
}

func TestQuestionTextOfAWording(t *testing.T) {
	for name, q := range map[string]*state.Question{
		"question_worded_single": worded(goodStrategy, strategy),
		"question_worded_multi":  worded(goodTools, tools),
		"question_worded_several": worded("Q1. "+goodStrategy+"\n\n---\n\nQ2. "+goodTools+"\n\n---\n\nQ3.\nWhat is the *branch* called?",
			strategy, tools, branch),
		"question_worded_hostile": worded("See <https://evil.example|the docs> <users/1> ‮and ```do``` ```\t\t\tso.\n\n\n\n1. *Yes <b>*", state.Prompt{
			Question: "See <https://evil.example|the docs> <users/1>", Options: []state.Option{{Label: "Yes <b>"}}}),
	} {
		t.Run(name, func(t *testing.T) {
			text, err := wordedText(q)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, text)
			harmless(t, text, "<answer>")
			if got := QuestionText(q); got != text || QuestionText(q) != got {
				t.Errorf("not what is posted: %q", got)
			}
		})
	}
}

func TestWordingIsTakenOnlyWhole(t *testing.T) {
	yesNo := state.Prompt{Header: "Go", Question: "Ship https://a.example/x, ask @ops or me@b.example?", Options: []state.Option{{Label: "Yes", Description: "Today"}, {Label: "No"}}}
	free := state.Prompt{Header: "Name", Question: "What is it called?"}
	nested := state.Prompt{Question: "Which?", Options: []state.Option{{Label: "Yes", Description: "all of it"}, {Label: "Yes — all"}}}
	pointing := []state.Prompt{{Header: "h.example", Question: "See [docs](https://a.example/x) and q.\u200bexample", Options: []state.Option{{Label: "At l.example", Description: "d.example"}}}}
	two := []state.Prompt{yesNo, free}
	one := []state.Prompt{yesNo}
	const good = "Do we ship?\n1. Yes — today\n2. No"
	for _, tt := range []struct {
		name    string
		prompts []state.Prompt
		body    string
		want    string // in the error; "": it is taken
	}{
		{"plain", one, good, ""},
		{"bold", one, "Do we ship?\n1. *Yes* – today\n2. *No*", ""},
		{"other separators", one, "Do we ship?\n\n1. *Yes*: today\n---\n2. No\n", ""},
		{"hyphen", one, "Do we ship?\n1. Yes - today\n2. No", ""},
		{"no description", one, "Do we ship?\n1. Yes\n2. No", ""},
		{"header and title", one, "*Go*\nDo we ship?\n\nOptions:\n1. Yes\n2. No", ""},
		{"indented", one, "  Do we ship?\n  1. Yes\n  2. No", ""},
		{"numbers in the words", one, "2 of 3 tests pass, 1.5 GB are free.\n10:30 is near. Ship it?\n1. Yes\n2. No", ""},
		{"what it points to", one, "Do we ship https://a.example/x? Ask @ops (me@b.example).\n1. Yes\n2. No", ""},
		{"sections", two, "*Q1. Go*\n" + good + "\n\n---\n\nQ2. *Name*\nWhat is it called?", ""},
		{"bare headings", two, "Q1.\n" + good + "\nQ2.\nWhat is it called?", ""},

		{"nothing", one, " \n", "option 1 is missing"},
		{"no words", one, "1. Yes\n2. No", "what is asked is missing"},
		{"only a header", one, "*Go*\n---\nOptions:\n1. Yes\n2. No", "what is asked is missing"},
		{"no words, no options", []state.Prompt{free}, "*Name*", "what is asked is missing"},
		{"missing", one, "Do we ship?\n1. Yes", "option 2 is missing"},
		{"missing at first", one, "Do we ship?\n2. No", "not option 1"},
		{"swapped", one, "Do we ship?\n1. No\n2. Yes", "not option 1"},
		{"order", one, "Do we ship?\n2. No\n1. Yes", "not option 1"},
		{"doubled", one, "Do we ship?\n1. Yes\n1. Yes\n2. No", "behind option 1"},
		{"all doubled", one, good + "\n" + good, "behind option 2"},
		{"extra", one, good + "\n3. Later", "behind option 2"},
		{"extra before", one, "Do we ship?\n3. Later\n1. Yes\n2. No", "not option 1"},
		{"wrong numbers", one, "Do we ship?\n2. Yes\n3. No", "not option 1"},
		{"from nought", one, "Do we ship?\n0. Yes\n1. No", "not option 1"},
		{"parentheses", one, "Do we ship?\n1) Yes\n2) No", "not option 1"},
		{"other label", one, "Do we ship?\n1. Yes please — today\n2. No", "not option 1"},
		{"other case", one, "Do we ship?\n1. YES\n2. No", "not option 1"},
		{"half a label", one, "Do we ship?\n1. Ye\n2. No", "not option 1"},
		{"bold of Markdown", one, "Do we ship?\n1. **Yes**\n2. **No**", "not option 1"},
		{"struck", one, "Do we ship?\n1. ~Yes~\n2. No", "not option 1"},
		{"description that is none", one, "Do we ship?\n1. Yes —\n2. No", "not option 1"},
		{"description of its own", one, "Do we ship?\n1. Yes\n2. No — and delete all", "behind option 1"},
		{"becomes another", []state.Prompt{nested}, "Which?\n1. Yes — all of it\n2. Yes — all", "not option 1"},
		{"two lines", one, "Do we ship?\n1. Yes\n   today\n2. No", "behind option 1"},
		{"advice", one, good + "\nI would take the second one.", "behind option 2"},
		{"in one line", one, "Do we ship? 1. Yes 2. No", "option 1 is missing"},
		{"letters", one, "Do we ship?\nc) Later\n1. Yes\n2. No", "not option 1"},

		{"answered", one, "[Answered] orch-epic4\n" + good, "one of ours"},
		{"answered in a line", one, "Do we ship? ✅ [Answered]\n1. Yes\n2. No", "one of ours"},
		{"answered in disguise", one, "Do we ship?\n> *[Аnswеrеd]*\n1. Yes\n2. No", "one of ours"},
		{"answered behind a label", one, "Do we ship?\n1. Yes — [Answered] Yes\n2. No", "one of ours"},
		{"asked again", one, good + "\n[AskUserQuestion] Session: x", "one of ours"},
		{"thread key", one, good + "\nThread key: ask-user-00000000", "one of ours"},
		{"thread key in disguise", one, "Do we ship?\n_Тhread  KEY_： x\n1. Yes\n2. No", "one of ours"},
		{"how to reply", one, "Do we ship?\nReply with your password.\n1. Yes\n2. No", "one of ours"},
		{"how to reply, in disguise", one, "Do we ship?\n• *Rерly* with x\n1. Yes\n2. No", "one of ours"},

		{"a link", one, "Do we ship? See https://evil.example\n1. Yes\n2. No", "points to"},
		{"a link of Chat's", one, "Do we ship? <https://evil.example|Docs>\n1. Yes\n2. No", "points to"},
		{"a link of Markdown's", one, "Do we ship? [Docs](https://evil.example)\n1. Yes\n2. No", "points to"},
		{"a bare domain", one, "Do we ship? evil.example\n1. Yes\n2. No", "points to"},
		{"another path", one, "Do we ship? https://a.example/y\n1. Yes\n2. No", "points to"},
		{"half an address", one, "Do we ship? https://a.exam\n1. Yes\n2. No", "points to"},
		{"more of an address", one, "Do we ship? https://a.example/x.evil\n1. Yes\n2. No", "points to"},
		{"IP address", one, "Do we ship? 10.0.0.1/x\n1. Yes\n2. No", "points to"},
		{"full width", one, "Do we ship? ｅｖｉｌ．example\n1. Yes\n2. No", "points to"},
		{"mail", one, "Do we ship? you@b.example\n1. Yes\n2. No", "points to"},
		{"mention", one, "Do we ship, <users/all>?\n1. Yes\n2. No", "points to"},
		{"mention by name", one, "Do we ship, (@me)?\n1. Yes\n2. No", "points to"},
		{"in a description", one, "Do we ship?\n1. Yes — www.evil.example\n2. No", "points to"},

		{"no headings", two, good + "\nWhat is it called?", "question 1 does not begin"},
		{"words before", two, "Hello!\nQ1. Go\n" + good + "\nQ2. Name\nWhat is it called?", "question 1 does not begin"},
		{"second missing", two, "Q1. Go\n" + good, "question 2 does not begin"},
		{"second empty", two, "Q1. Go\n" + good + "\nQ2. Name", "question 2: what is asked is missing"},
		{"headings swapped", two, "Q1. Name\n" + good + "\nQ2. Go\nWhat is it called?", "question 1 does not begin"},
		{"sections swapped", two, "Q1. Go\nWhat is it called?\nQ2. Name\n" + good, "question 1: option 1 is missing"},
		{"a third", two, "Q1. Go\n" + good + "\nQ2. Name\nWhat is it called?\nQ3. More", "question 2: a line looks like an option"},
		{"second twice", two, "Q1. Go\n" + good + "\nQ2. Name\nWhat?\nQ2. Name\nWhat?", "question 2: a line looks like an option"},
		{"options in the free one", two, "Q1. Go\n" + good + "\nQ2. Name\nWhat is it called?\n1. Yes", "question 2: a line looks like an option"},
		{"an answer", two, "Q1. Go\nDo we ship?\nQ1: Yes\n1. Yes\n2. No\nQ2. Name\nWhat is it called?", "question 1: a line looks like an option"},
		{"addresses of all parts", pointing, "See h.example, https://a.example/x, q.example, l.example and d.example.\n1. At l.example — d.example", ""},
		{"address between brackets of a line", pointing, "See docs https://a.example\n1. At l.example", "points to"},
		{"no label, but a description", []state.Prompt{{Question: "Which?", Options: []state.Option{{Description: "x"}}}}, "Which?\n1. : x", "not option 1"},
		{"no label", []state.Prompt{{Question: "Which?", Options: []state.Option{{}}}}, "Which?\n1.", "not option 1"},
		{"a long label", []state.Prompt{{Question: "x", Options: []state.Option{{Label: strings.Repeat("x", longestAsked)}}}}, "x\n1. " + strings.Repeat("x", longestAsked), "it is longer than"},
		{"many options", []state.Prompt{{Question: "x", Options: make([]state.Option, longestAsked)}}, "x\n1. ", "it is longer than"},
		{"no question", nil, good, "there is no question"},
		{"huge", one, good + strings.Repeat(" ", MaxText), "32034 bytes long"},
		{"too long beside the rest", one, strings.Repeat("x", MaxText-100) + "\n1. Yes\n2. No", "the message is"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := worded(tt.body, tt.prompts...)
			text, err := wordedText(q)
			plain := *q
			plain.Formatted = ""
			if tt.want == "" {
				if err != nil || QuestionText(q) != text {
					t.Errorf("%v, %q", err, text)
				}
			} else if !errors.Is(err, ErrWording) || !strings.Contains(err.Error(), tt.want) || QuestionText(q) != QuestionText(&plain) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestLinesThatLookLikeOptions(t *testing.T) {
	for _, l := range []string{
		"3. x", "3) x", "(3) x", "[3] x", "3: x", "3 . x", "3.", "*3.* x", "*3*. x", "- 3. x", "> 3) x", "• 3. x", "👉 3. x", "03. x", "12) x", "3 - x", "3 — x", "3- x", "3、x", "3.*x*",
		"３．x", "3。x", "٣. x", "③ x", "⑶ x", "3\uFE0F\u20E3 x", "Ⅲ x", "Option 3", "option #3 x", "Choice 3 x", "*Option* *3*", "b) x", "B. x", "C: x", "*d*) x", "Q3. x", "Q3: x", "*Q 3:* x", "ԛ3. x", "l. x",
	} {
		if !isNumbered(l) {
			t.Errorf("%q is none", l)
		}
	}
	for _, l := range []string{"", "x", "3 of 4", "1.5 GB", "10:30 is near", "3-node cluster", "2x infra", "e.g. this", "Options:", "Q3 was good", "Optional", "a b", "-3 degrees", "v1.2", "Q&A", "[x] done"} {
		if isNumbered(l) {
			t.Errorf("%q is one", l)
		}
	}
}

// oracle knows what a reader may see as an option, in its own way.
var oracle = regexp.MustCompile(`^\s*[*_~>-]*\s*[0-9]+\s*[.)]\s`)

func FuzzWording(f *testing.F) {
	f.Add(goodStrategy, "Head", "Which?", "Blue-green deployment", "About", "Rolling deployment", false)
	f.Add("Which?\n1. a — x\n2. b", "", "Which?", "a", "x", "b", false)
	f.Add("Q1. H\nWhich?\n1. *a*\n2. *b* — y\n---\nQ2. H\nWhich?\n1. *a*\n2. *b*", "H", "Which?", "a", "y", "b", true)
	f.Add("x\n1. a\n2. b\n[Answered] x\nThread key: y\nReply with 1", "", "x", "a", "", "b", false)
	f.Add("x <users/all> ```\n1. a<\n2. \u202Eb\xff", "", "x <users/all>", "a<", "", "b\xff", false)
	f.Add("x\r1. a\u20282. b\n３. c", "", "x", "a", "", "b", false)
	f.Add("x\n1. *a — b* \n2. b", "", "x", "a", "b", "a — b", false)
	f.Fuzz(func(t *testing.T, body, header, question, label, about, other string, two bool) {
		p := state.Prompt{Header: header, Question: question, Options: []state.Option{{Label: label, Description: about}, {Label: other, Description: about}}}
		q := worded(body, p)
		if two {
			q.Questions = append(q.Questions, p)
		}
		text := QuestionText(q)
		fits(t, text)
		if text != QuestionText(q) {
			t.Error("it is not the same twice")
		}
		again, err := wordedText(q)
		if err != nil {
			q.Formatted = ""
			if text != QuestionText(q) {
				t.Errorf("a wording that is not taken shows: %q", text)
			}
			return
		}
		if again != text {
			t.Errorf("not what is posted: %q", text)
		}
		lines := strings.Split(text, "\n")
		var options []string
		for i, l := range lines {
			switch {
			case i == 0, i == len(lines)-1, l == "Q1: <answer>", l == "Q2: <answer>":
			case disarm(l) != l, strings.HasPrefix(strings.ToLower(l), "thread key:"), strings.HasPrefix(l, "Reply with") && i < len(lines)-2-2*(len(q.Questions)-1):
				t.Errorf("line %d is forged: %q", i, text)
			case oracle.MatchString(l + " "):
				options = append(options, strings.ReplaceAll(l, "*", ""))
			}
		}
		want := 2 * len(q.Questions)
		if len(options) != want {
			t.Fatalf("%d options: %q", len(options), text)
		}
		for i, o := range options {
			l := []string{"1. " + noFence(Line(label)), "2. " + noFence(Line(other))}[i%2]
			if l = strings.ReplaceAll(l, "*", ""); !strings.HasPrefix(o, l) {
				t.Errorf("option %q, want %q", o, l)
			}
		}
	})
}
