package wording

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/quick"
	"unicode/utf8"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

func newSubQuestion(multi bool, labels ...string) state.SubQuestion {
	p := state.SubQuestion{Question: "Which?", MultiSelect: multi, OptionCount: len(labels)}
	for _, l := range labels {
		p.Options = append(p.Options, state.Option{Label: l})
	}
	return p
}

var (
	deployQuestion = newSubQuestion(false, "Blue-green deployment", "Rolling deployment",
		"Canary")
	featuresQuestion = newSubQuestion(true, "Auth", "Search", "Dark mode", "Export, CSV")
	freeTextQuestion = newSubQuestion(false)
)

func answerLabels(labels ...string) state.Answer { return state.Answer{Labels: labels} }
func answerText(text string) state.Answer        { return state.Answer{Text: text} }
func answerWithNotes(notes string, labels ...string) state.Answer {
	return state.Answer{Labels: labels, Notes: notes}
}

func TestReply_ToOneQuestion(t *testing.T) {
	blue, rolling := "Blue-green deployment", "Rolling deployment"
	for _, tt := range []struct {
		name string
		p    state.SubQuestion
		text string
		want state.Answer
	}{
		// numbers
		{"number", deployQuestion, "2", answerLabels(rolling)},
		{"number with space", deployQuestion, "  2 \n", answerLabels(rolling)},
		{"number with full stop", deployQuestion, "2.", answerLabels(rolling)},
		{"number with bracket", deployQuestion, "2)", answerLabels(rolling)},
		{"number in brackets", deployQuestion, "(2)", answerLabels(rolling)},
		{"number with hash", deployQuestion, "#2", answerLabels(rolling)},
		{"option number", deployQuestion, "option 2", answerLabels(rolling)},
		{"option number, shouted", deployQuestion, "OPTION #2.", answerLabels(rolling)},
		{"full-width digit", deployQuestion, "２", answerLabels(rolling)},
		{"full-width digit and brackets", deployQuestion, "（２）", answerLabels(rolling)},
		{"Chinese full stop", deployQuestion, "2。", answerLabels(rolling)},
		{"keycap emoji", deployQuestion, "2️⃣", answerLabels(rolling)},
		{"keycap without variation selector", deployQuestion, "2\u20E3", answerLabels(rolling)},
		{"leading zero", deployQuestion, "02", answerLabels(rolling)},
		{"number behind a control and a tag", deployQuestion, "\x002\U000E0031",
			answerLabels(rolling)},
		{"non-breaking space", deployQuestion, "\u00a02\u00a0", answerLabels(rolling)},
		{"zero", deployQuestion, "0", answerText("0")},
		{"out of range", deployQuestion, "4", answerText("4")},
		{"negative", deployQuestion, "-1", answerText("-1")},
		{"huge", deployQuestion, "99999999999999999999999", answerText("99999999999999999999999")},
		{"two numbers in a single-select", deployQuestion, "1,3", answerText("1,3")},
		{"two keycaps in a single-select", deployQuestion, "1️⃣3️⃣", answerText("1️⃣3️⃣")},
		{"semicolons for one question", deployQuestion, "1; 2", answerText("1; 2")},
		// own words that begin with a number
		{"weeks", deployQuestion, "2 weeks", answerText("2 weeks")},
		{"time of day", deployQuestion, "1:30", answerText("1:30")},
		{"full-width time of day", deployQuestion, "1：30", answerText("1：30")},
		{"range of days", deployQuestion, "2-3 days", answerText("2-3 days")},
		{"range with en dash", deployQuestion, "2–3 days", answerText("2–3 days")},
		{"range with em dash", deployQuestion, "2—3 days", answerText("2—3 days")},
		{"decimal", deployQuestion, "1.5", answerText("1.5")},
		{"ordinal", deployQuestion, "2nd", answerText("2nd")},
		{"version", deployQuestion, "v2", answerText("v2")},
		{"hyphen with space on one side", deployQuestion, "2- but", answerText("2- but")},
		{"separator without remark", deployQuestion, "2 —", answerText("2 —")},
		// labels
		{"label", deployQuestion, "Canary", answerLabels("Canary")},
		{"label, any case", deployQuestion, "cANARY", answerLabels("Canary")},
		{"label with much space", deployQuestion, " Rolling \n deployment", answerLabels(rolling)},
		{"label with a phone's dash", deployQuestion, "Blue–green deployment", answerLabels(blue)},
		{"beginning", deployQuestion, "blue", answerLabels(blue)},
		{"beginning with spaces, capital", deployQuestion, " Roll  ", answerLabels(rolling)},
		{"beginning, one letter", deployQuestion, "c", answerText("c")},
		{"do is not Docker", newSubQuestion(false, "Docker", "Podman"), "do", answerText("do")},
		{"do is not Do nothing", newSubQuestion(false, "Do nothing", "Retry"), "Do",
			answerText("Do")},
		{"do is Do", newSubQuestion(false, "Do", "Don't"), "do", answerLabels("Do")},
		{"go is not Go back", newSubQuestion(false, "Go back", "Stay"), "Go", answerText("Go")},
		{"sure is not Surefire", newSubQuestion(false, "Surefire", "Jest"), "Sure",
			answerText("Sure")},
		{"sure is not Sure, later", newSubQuestion(false, "Sure, later", "No"), "sure",
			answerText("sure")},
		{"sure is Sure", newSubQuestion(false, "Sure", "No"), "sure", answerLabels("Sure")},
		{"ambiguous beginning", newSubQuestion(false, "Redis", "Redpanda"), "red",
			answerText("red")},
		{"label that begins another", newSubQuestion(false, "Redis cluster", "Redis"), "redis",
			answerLabels("Redis")},
		{"equal labels by label", newSubQuestion(false, "Yes", "YES"), "yes", answerLabels("Yes")},
		{"equal labels by number", newSubQuestion(false, "Yes", "YES"), "2", answerLabels("YES")},
		{"beginning of equal labels", newSubQuestion(false, "Yes", "YES"), "ye", answerText("ye")},
		{"clear beginning of equal labels", newSubQuestion(false, "Later", "LATER"), "late",
			answerLabels("Later")},
		{"typographic apostrophe", newSubQuestion(false, "Don't", "Do"), "don’t",
			answerLabels("Don't")},
		{"straight quotes", newSubQuestion(false, "Say “hi”", "Leave"), `say "hi"`,
			answerLabels("Say “hi”")},
		{"Greek sigma folds", newSubQuestion(false, "ΟΔΟΣ", "x"), "οδος", answerLabels("ΟΔΟΣ")},
		{"label copied from the message", newSubQuestion(false, "List<int>", "Set<int>"),
			"List‹int>", answerLabels("List<int>")},
		{"label typed from the message", newSubQuestion(false, "List<int>", "Set<int>"),
			"list<int>", answerLabels("List<int>")},
		{"beginning that ends in a bracket", newSubQuestion(false, "List<int>", "Set<int>"),
			"list<", answerLabels("List<int>")},
		{"label is a number, in range", newSubQuestion(false, "3", "1", "2"), "2",
			answerLabels("1")},
		{"label is a number, out of range", newSubQuestion(false, "50", "5"), "5",
			answerLabels("5")},
		{"number is no beginning", newSubQuestion(false, "50", "100"), "5", answerText("5")},
		{"label looks like a number form", newSubQuestion(false, "Option 2", "Option 1"),
			"option 2", answerLabels("Option 2")},
		{"label looks like a remark", newSubQuestion(false, "Slow", "1 - fast"), "1 - fast",
			answerLabels("1 - fast")},
		{"label looks like a Q line", newSubQuestion(false, "Q1: January", "Q2: April"),
			"Q1: January", answerLabels("Q1: January")},
		{"no is not Node.js", newSubQuestion(false, "Node.js", "Deno"), "no", answerText("no")},
		{"no is not No, later", newSubQuestion(false, "No, later", "Yes"), "no", answerText("no")},
		{"punctuation is no beginning", newSubQuestion(false, "?", "(recommended) x"), "(",
			answerText("(")},
		{"beginning that is too long", deployQuestion, "Canary release",
			answerText("Canary release")},
		{"empty label cannot be chosen", newSubQuestion(false, "", "x"), "1", answerText("1")},
		// remarks
		{"remark behind a hyphen", deployQuestion, "2 - but keep the footer",
			answerWithNotes("but keep the footer", rolling)},
		{"remark behind an em dash", deployQuestion, "2 — but keep it",
			answerWithNotes("but keep it", rolling)},
		{"remark behind an en dash", deployQuestion, "2 – but keep it",
			answerWithNotes("but keep it", rolling)},
		{"remark behind two hyphens", deployQuestion, "2 -- keep it",
			answerWithNotes("keep it", rolling)},
		{"remark of several lines", deployQuestion, "2 - a\n$HOME \"x\"",
			answerWithNotes("a\n$HOME \"x\"", rolling)},
		{"remark with separators", deployQuestion, "2 - a - b: c",
			answerWithNotes("a - b: c", rolling)},
		{"remark behind a keycap", deployQuestion, "2️⃣ - go", answerWithNotes("go", rolling)},
		{"remark behind a label", deployQuestion, "Canary - 5 percent",
			answerWithNotes("5 percent", "Canary")},
		{"remark behind a beginning", deployQuestion, "blue - but keep it",
			answerText("blue - but keep it")},
		{"hyphen of another label", newSubQuestion(false, "Blue - green", "Red"), "blue - red",
			answerText("blue - red")},
		{"words behind a tight dash", deployQuestion, "2—but keep it", answerText("2—but keep it")},
		{"words behind a colon", deployQuestion, "2: keep it", answerText("2: keep it")},
		{"words behind a comma", deployQuestion, "2, but keep it", answerText("2, but keep it")},
		{"words on the next line", deployQuestion, "2\nbut keep it", answerText("2\nbut keep it")},
		{"words as a list", deployQuestion, "2\r\n- a\r\n- b", answerText("2\n- a\n- b")},
		{"remark behind a label with a hyphen", newSubQuestion(false, "Blue", "Blue - green"),
			"blue - green - now", answerWithNotes("now", "Blue - green")},
		// own words
		{"other", deployQuestion, "other: canary", answerText("canary")},
		{"Other", deployQuestion, "Other: 2", answerText("2")},
		{"other with full-width colon", deployQuestion, "other：２", answerText("２")},
		{"other without words", deployQuestion, "other:", answerText("other:")},
		{"other takes everything", deployQuestion, "other: a; b\nQ1: 2\n",
			answerText("a; b\nQ1: 2")},
		{"label that begins with other", newSubQuestion(false, "Other: mine", "B"), "other: mine",
			answerLabels("Other: mine")},
		{"shell", deployQuestion, `$HOME "x" {a} \n`, answerText(`$HOME "x" {a} \n`)},
		{"several lines", deployQuestion, "first\r\n  second\n\nthird ",
			answerText("first\n  second\n\nthird")},
		{"CJK", deployQuestion, "请用金丝雀", answerText("请用金丝雀")},
		{"emoji", deployQuestion, "👍🏽", answerText("👍🏽")},
		{"markup stays", deployQuestion, "<users/all> ```", answerText("<users/all> ```")},
		{"hidden instruction", deployQuestion, "sure\U000E0072\U000E006D\x1b[2J",
			answerText("sure")},
		{"invalid bytes", deployQuestion, "a\xff", answerText("a\uFFFD")},
		{"word and bell", deployQuestion, "\ano idea\a", answerText("no idea")},
		{"question without options, number", freeTextQuestion, "1", answerText("1")},
		{"question without options, words", freeTextQuestion, "call it - hm - foo",
			answerText("call it - hm - foo")},
		// lists
		{"list", featuresQuestion, "1,3", answerLabels("Auth", "Dark mode")},
		{"list with space", featuresQuestion, "1, 3", answerLabels("Auth", "Dark mode")},
		{"list of spaces", featuresQuestion, "1 3", answerLabels("Auth", "Dark mode")},
		{"list with and", featuresQuestion, "1 and 3", answerLabels("Auth", "Dark mode")},
		{"list with semicolon", featuresQuestion, "1;3", answerLabels("Auth", "Dark mode")},
		{"list with ideographic comma", featuresQuestion, "1、3", answerLabels("Auth", "Dark mode")},
		{"list with full-width comma", featuresQuestion, "1，３", answerLabels("Auth", "Dark mode")},
		{"list by lines", featuresQuestion, "1\n3", answerLabels("Auth", "Dark mode")},
		{"list of keycaps", featuresQuestion, "1️⃣3️⃣", answerLabels("Auth", "Dark mode")},
		{"list with options", featuresQuestion, "options 1 & 3", answerLabels("Auth", "Dark mode")},
		{"list with a last comma", featuresQuestion, "1,3,", answerLabels("Auth", "Dark mode")},
		{"list in disorder, twice", featuresQuestion, "3,1,3", answerLabels("Auth", "Dark mode")},
		{"list of one", featuresQuestion, "2", answerLabels("Search")},
		{"list out of range", featuresQuestion, "1,9", answerText("1,9")},
		{"list with zero", featuresQuestion, "0,1", answerText("0,1")},
		{"list that ends in and", featuresQuestion, "1 and", answerText("1 and")},
		{"list of labels", featuresQuestion, "search, AUTH", answerLabels("Auth", "Search")},
		{"list with beginnings", featuresQuestion, "auth, dark", answerLabels("Auth", "Dark mode")},
		{"list with too short beginnings", featuresQuestion, "au, da", answerText("au, da")},
		{"list of labels with and", featuresQuestion, "auth and search",
			answerLabels("Auth", "Search")},
		{"list of labels with comma and and", featuresQuestion, "auth, search, and dark",
			answerLabels("Auth", "Search", "Dark mode")},
		{"list of numbers and labels", featuresQuestion, "1, dark mode",
			answerLabels("Auth", "Dark mode")},
		{"list by lines of labels", featuresQuestion, "Auth\nSearch",
			answerLabels("Auth", "Search")},
		{"label with a comma", featuresQuestion, "export, csv", answerLabels("Export, CSV")},
		{"label with a comma in a list", featuresQuestion, "auth, export, csv",
			answerLabels("Auth", "Export, CSV")},
		{"label with and", newSubQuestion(true, "Search and replace", "Auth"),
			"auth, search and replace", answerLabels("Search and replace", "Auth")},
		{"list with a piece that is none", featuresQuestion, "auth, billing",
			answerText("auth, billing")},
		{"number in a list is no beginning", newSubQuestion(true, "50", "100", "All"), "5, al",
			answerText("5, al")},
		{"list and other", featuresQuestion, "1,3, other: billing",
			state.Answer{Labels: []string{"Auth", "Dark mode"}, Text: "billing"}},
		{"labels and other", featuresQuestion, "auth, search, Other: a, b",
			state.Answer{Labels: []string{"Auth", "Search"}, Text: "a, b"}},
		{"list and other by lines", featuresQuestion, "1 3\nother: a\nb",
			state.Answer{Labels: []string{"Auth", "Dark mode"}, Text: "a\nb"}},
		{"list and other without words", featuresQuestion, "1,3, other:",
			answerLabels("Auth", "Dark mode")},
		{"list and other in a single-select", deployQuestion, "1, other: x",
			answerText("1, other: x")},
		{"other inside words", featuresQuestion, "I want the other: 2",
			answerText("I want the other: 2")},
		{"list with a remark", featuresQuestion, "1,3 - but later",
			answerWithNotes("but later", "Auth", "Dark mode")},
		{"labels with a remark", featuresQuestion, "auth, search - soon",
			answerWithNotes("soon", "Auth", "Search")},
		{"list with words below", featuresQuestion, "1,3\nbut later", answerText("1,3\nbut later")},
		{"equal labels in a list", newSubQuestion(true, "A", "A", "B"), "1,2,3",
			answerLabels("A", "B")},
		{"words in a multi-select", featuresQuestion, "2 weeks", answerText("2 weeks")},
		// Q lines
		{"Q line", deployQuestion, "Q1: 2", answerLabels(rolling)},
		{"Q line, words", deployQuestion, "q 1) 2 weeks", answerText("2 weeks")},
		{"Q line, several lines", deployQuestion, "Q1: 2 - a\nbut keep it",
			answerWithNotes("a\nbut keep it", rolling)},
		{"Q line behind words", deployQuestion, "hello\nQ1: 2", answerWithNotes("hello", rolling)},
		{"Q line behind words, with remark", deployQuestion, "hello\nQ1: 2 - now",
			answerWithNotes("now\nhello", rolling)},
		{"Q line out of range", deployQuestion, "Q2: 1", answerText("Q2: 1")},
		{"Q line without answer", deployQuestion, "Q1:", answerText("Q1:")},
		{"quarters", deployQuestion, "Q1-Q2", answerText("Q1-Q2")},
		{"quarter of a year", deployQuestion, "Q1-26 release", answerText("Q1-26 release")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := ParseReply(tt.text, []state.SubQuestion{tt.p}, nil)
			kit.Equalf(t, got, map[int]state.Answer{0: tt.want}, "reply %q", tt.text)
		})
	}
}

func TestReply_ToSeveralQuestions(t *testing.T) {
	type answers = map[int]state.Answer
	blue, rolling := "Blue-green deployment", "Rolling deployment"
	three := []state.SubQuestion{deployQuestion, featuresQuestion, freeTextQuestion}
	two := []state.SubQuestion{deployQuestion, deployQuestion}
	mixed := []state.SubQuestion{deployQuestion, featuresQuestion}
	for _, tt := range []struct {
		name      string
		questions []state.SubQuestion
		partial   answers
		text      string
		want      answers
		missing   []int
	}{
		{"blank", two, nil, " \n\u200b", answers{}, []int{0, 1}},
		{"blank keeps", two, answers{1: answerText("x")}, "", answers{1: answerText("x")},
			[]int{0}},
		{"no questions", nil, nil, "2", answers{}, nil},
		{"Q lines", three, nil, "Q1: 2\nQ2: 1,3\nQ3: call it foo",
			answers{0: answerLabels(rolling), 1: answerLabels("Auth", "Dark mode"),
				2: answerText("call it foo")}, nil},
		{"Q lines, their separators", three, nil, "q1. 2\nQ 2 = search\nQ3 - foo",
			answers{0: answerLabels(rolling), 1: answerLabels("Search"), 2: answerText("foo")},
			nil},
		{"Q lines, full-width", two, nil, "Ｑ１：２\nQ2)1",
			answers{0: answerLabels(rolling), 1: answerLabels(blue)}, nil},
		{"Q lines, tight", two, nil, "Q1:2\nQ2:1",
			answers{0: answerLabels(rolling), 1: answerLabels(blue)}, nil},
		{"Q lines with words of several lines", two, nil, "Q1: first\nsecond\nQ2: 2\nbut now",
			answers{0: answerText("first\nsecond"), 1: answerText("2\nbut now")}, nil},
		{"Q lines with a remark", two, nil, "Q1: 2 - fast\nQ2: other: 2",
			answers{0: answerWithNotes("fast", rolling), 1: answerText("2")}, nil},
		{"Q lines in disorder", two, nil, "Q2: 1\nQ1: 2",
			answers{0: answerLabels(rolling), 1: answerLabels(blue)}, nil},
		{"one Q line", two, nil, "Q2: 1", answers{1: answerLabels(blue)}, []int{0}},
		{"Q line twice", two, nil, "Q2: 1\nQ2: 2", answers{1: answerLabels(rolling)}, []int{0}},
		{"Q line overrides", two, answers{0: answerLabels(blue), 1: answerText("x")}, "Q1: 2",
			answers{0: answerLabels(rolling), 1: answerText("x")}, nil},
		{"Q line out of range belongs to the words", two, nil, "Q1: see\nQ3: no",
			answers{0: answerText("see\nQ3: no")}, []int{1}},
		{"empty template", two, nil, "Q1:\nQ2:", answers{}, []int{0, 1}},
		{"half a template", two, nil, "Q1:\nQ2: 1", answers{1: answerLabels(blue)}, []int{0}},
		{"empty template behind words", two, nil, "no idea\nQ1:\nQ2:",
			answers{0: answerText("no idea\nQ1:\nQ2:")}, []int{1}},
		{"words before the Q lines", two, nil, "thanks!\nQ2: 1\nQ1: 2",
			answers{0: answerLabels(rolling), 1: answerWithNotes("thanks!", blue)}, nil},
		{"Q lines in one line", two, nil, "Q1: 2, Q2: 1",
			answers{0: answerLabels(rolling), 1: answerLabels(blue)}, nil},
		{"Q lines in one line, spaces", two, nil, "q1: 2 q2: 1",
			answers{0: answerLabels(rolling), 1: answerLabels(blue)}, nil},
		{"Q inside words", two, nil, "Q1: as I said on Q2: never",
			answers{0: answerText("as I said on Q2: never")}, []int{1}},
		{"quarter is words", two, nil, "Q1-2 next year", answers{0: answerText("Q1-2 next year")},
			[]int{1}},
		{"Q lines with a semicolon", two, nil, "Q1: 2; Q2: 1",
			answers{0: answerLabels(rolling), 1: answerLabels(blue)}, nil},
		{"words of several lines", two, nil, "Postgres\nyes we talked about it",
			answers{0: answerText("Postgres\nyes we talked about it")}, []int{1}},
		{"words of as many lines, the first a choice", two, nil, "Canary\nyes we talked about it",
			answers{0: answerText("Canary\nyes we talked about it")}, []int{1}},
		{"words with a semicolon", two, nil, "use A; it is better",
			answers{0: answerText("use A; it is better")}, []int{1}},
		{"words with a semicolon, the first a choice", two, nil, "2; it is better",
			answers{0: answerText("2; it is better")}, []int{1}},
		{"words with a semicolon in lines", two, nil, "use A; it is better\nuse B",
			answers{0: answerText("use A; it is better\nuse B")}, []int{1}},
		{"words for the next", two, answers{0: answerLabels(blue)}, "a; b\nc",
			answers{0: answerLabels(blue), 1: answerText("a; b\nc")}, nil},
		{"semicolons, then other", three, nil, "1; 2,3; other: foo; bar\nbaz",
			answers{0: answerLabels(blue), 1: answerLabels("Search", "Dark mode"),
				2: answerText("foo; bar\nbaz")}, nil},
		{"semicolons, other first", two, nil, "other: a; 2", answers{0: answerText("a; 2")},
			[]int{1}},
		{"semicolons, labels and remarks", two, nil, "canary - now; roll",
			answers{0: answerWithNotes("now", "Canary"), 1: answerLabels(rolling)}, nil},
		{"semicolons, an empty piece", three, nil, "1;;2", answers{0: answerText("1;;2")},
			[]int{1, 2}},
		{"semicolons, too many", two, nil, "1; 2; 1", answers{0: answerText("1; 2; 1")}, []int{1}},
		{"semicolons for the missing", three, answers{1: answerLabels("Auth")}, "2; other: foo",
			answers{0: answerLabels(rolling), 1: answerLabels("Auth"), 2: answerText("foo")}, nil},
		{"semicolons for all again", mixed, answers{0: answerLabels(blue)}, "2;1",
			answers{0: answerLabels(rolling), 1: answerLabels("Auth")}, nil},
		{"lines", mixed, nil, "2\n\nauth, search\n",
			answers{0: answerLabels(rolling), 1: answerLabels("Auth", "Search")}, nil},
		{"lines, phone", mixed, nil, "２。 \n #1 ",
			answers{0: answerLabels(rolling), 1: answerLabels("Auth")}, nil},
		{"lines with remarks", two, nil, "1 - fast\n2 - cheap",
			answers{0: answerWithNotes("fast", blue), 1: answerWithNotes("cheap", rolling)}, nil},
		{"lines, then other", two, nil, "2\nother: a\n\nb; c",
			answers{0: answerLabels(rolling), 1: answerText("a\n\nb; c")}, nil},
		{"lines for the missing", three, answers{2: answerText("x")}, "2\n1",
			answers{0: answerLabels(rolling), 1: answerLabels("Auth"), 2: answerText("x")}, nil},
		{"lines, too few", three, nil, "2\n1", answers{0: answerText("2\n1")}, []int{1, 2}},
		{"numbered lines are words", two, nil, "1. migrate\n2. test",
			answers{0: answerText("1. migrate\n2. test")}, []int{1}},
		{"list for a single-select", two, nil, "2, 1", answers{0: answerText("2, 1")}, []int{1}},
		{"semicolons that fit", three, nil, "1; 2,3; other: foo",
			answers{0: answerLabels(blue), 1: answerLabels("Search", "Dark mode"),
				2: answerText("foo")}, nil},
		{"semicolons, full-width", two, nil, "1；2",
			answers{0: answerLabels(blue), 1: answerLabels(rolling)}, nil},
		{"semicolons, fewer", three, nil, "1; 2",
			answers{0: answerLabels(blue), 1: answerLabels("Search")}, []int{2}},
		{"semicolons, one too many but empty", two, nil, "1; 2;",
			answers{0: answerLabels(blue), 1: answerLabels(rolling)}, nil},
		{"semicolons that fit nothing", three, answers{0: answerLabels(blue)}, "1;3;4;2",
			answers{0: answerLabels(blue),
				1: answerLabels("Auth", "Search", "Dark mode", "Export, CSV")}, []int{2}},
		{"semicolons over a line end", two, nil, "1; other: a\nb",
			answers{0: answerLabels(blue), 1: answerText("a\nb")}, nil},
		{"lines with a semicolon list", []state.SubQuestion{featuresQuestion, deployQuestion}, nil,
			"1;3\n2", answers{0: answerLabels("Auth", "Dark mode"), 1: answerLabels(rolling)}, nil},
		{"label with a semicolon",
			[]state.SubQuestion{newSubQuestion(false, "a; b", "c"), deployQuestion}, nil, "A; b",
			answers{0: answerLabels("a; b")}, []int{1}},
		{"numbers for a missing multi-select", mixed, answers{0: answerLabels(blue)}, "2, 1",
			answers{0: answerLabels(blue), 1: answerLabels("Auth", "Search")}, nil},
		{"bare", three, nil, "2", answers{0: answerLabels(rolling)}, []int{1, 2}},
		{"bare, next", three, answers{0: answerLabels(blue)}, "1,2",
			answers{0: answerLabels(blue), 1: answerLabels("Auth", "Search")}, []int{2}},
		{"bare, with remark", three, nil, "2 - why not",
			answers{0: answerWithNotes("why not", rolling)}, []int{1, 2}},
		{"bare, all answered", two, answers{0: answerLabels(blue), 1: answerLabels(blue)}, "2",
			answers{0: answerLabels(blue), 1: answerLabels(blue)}, nil},
		{"empty partial is missing", two, answers{0: {Notes: "hm"}}, "2",
			answers{0: answerLabels(rolling)}, []int{1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := maps.Clone(tt.partial)
			got, _ := ParseReply(tt.text, tt.questions, tt.partial)
			kit.Equalf(t, got, tt.want, "reply %q", tt.text)
			missing := Unanswered(tt.questions, got)
			kit.Equalf(t, missing, tt.missing, "reply %q: missing", tt.text)
			kit.True(t, reflect.DeepEqual(before, tt.partial), "partial became %+v", tt.partial)
		})
	}
}

// A person can decline a question, or ask for help, in place of an answer. A label with
// that name comes first.
func TestReply_Decline(t *testing.T) {
	const chat, skip = state.DeclinedChat, state.DeclinedSkip
	named := askQuestions(newSubQuestion(false, "Chat", "Skip tests", "Cancel", "Help", "/status"))
	several := askQuestions(deployQuestion, featuresQuestion)
	second := askQuestions(deployQuestion, newSubQuestion(false, "Skip", "Run"))
	second.PartialAnswers = map[int]state.Answer{1: {Labels: []string{"Run"}}}
	for _, c := range []struct {
		q          *state.Question
		text       string
		how, words string
	}{
		{askQuestions(deployQuestion), "chat", chat, ""},
		{askQuestions(deployQuestion), " Chat. ", chat, ""},
		{askQuestions(deployQuestion), "Chat about this", chat, ""},
		{askQuestions(deployQuestion), "chat  about\u00a0this!", chat, ""},
		{askQuestions(deployQuestion), "chat: why?", chat, "why?"},
		{askQuestions(deployQuestion), "chat:", chat, ""},
		{askQuestions(deployQuestion), "chat\nwhy?\nand who?", chat, "why?\nand who?"},
		{askQuestions(deployQuestion), "Chat — why?", chat, "why?"},
		{askQuestions(deployQuestion), "chat about this, why?", chat, "why?"},
		{askQuestions(deployQuestion), "chat about this why?", chat, "why?"},
		{several, "chat: Q1: 2", chat, "Q1: 2"},
		{askQuestions(deployQuestion), "skip", skip, ""},
		{askQuestions(deployQuestion), "SKIP!", skip, ""},
		{askQuestions(deployQuestion), "cancel", skip, ""},
		{several, "skip", skip, ""},
		{askQuestions(deployQuestion), "?", AskedForHelp, ""},
		{askQuestions(deployQuestion), "??", AskedForHelp, ""},
		{askQuestions(deployQuestion), "help", AskedForHelp, ""},
		{askQuestions(deployQuestion), "Help?", AskedForHelp, ""},
		{askQuestions(deployQuestion), "/status", AskedForHelp, ""},
		{askQuestions(deployQuestion), "/STOP ", AskedForHelp, ""},
		{askQuestions(deployQuestion), "/mute 2h", AskedForHelp, ""},

		{askQuestions(deployQuestion), "I don't know", "", ""},
		{askQuestions(deployQuestion), "chat, email and phone", "", ""},
		{askQuestions(deployQuestion), "chat-based", "", ""},
		{askQuestions(deployQuestion), "chat with Ann first", "", ""},
		{askQuestions(deployQuestion), "chatting: fine", "", ""},
		{askQuestions(deployQuestion), "skip the tests", "", ""},
		{askQuestions(deployQuestion), "cancel it", "", ""},
		{askQuestions(deployQuestion), "help me", "", ""},
		{askQuestions(deployQuestion), "/tmp/status", "", ""},
		{askQuestions(deployQuestion), "/clear", "", ""},
		{askQuestions(deployQuestion), "other: skip", "", ""},
		{askQuestions(deployQuestion), "2", "", ""},
		{several, "Q2: skip", "", ""},
		{named, "chat", "", ""}, {named, "chat - loud", "", ""}, {named, "skip", "", ""},
		{named, "Cancel", "", ""},
		{named, "help", "", ""}, {named, "/status", "", ""}, {named, "chat about this", chat, ""},
		{named, "/stop", AskedForHelp, ""},
		{second, "skip", skip, ""}, // that one is answered
	} {
		how, words := ReadDecline(c.text, c.q)
		kit.True(t, how == c.how && words == c.words,
			"%q is %q with %q, want %q with %q", c.text, how, words, c.how, c.words)
	}
}

// A number without an option counts as text, and is reported.
func TestReply_FindsNoOption(t *testing.T) {
	one, several := []state.SubQuestion{deployQuestion}, []state.SubQuestion{deployQuestion,
		featuresQuestion}
	for _, tt := range []struct {
		name      string
		questions []state.SubQuestion
		text      string
		want      *UnknownOption
	}{
		{"in range", one, "3", nil},
		{"out of range", one, "9", &UnknownOption{0, 9}},
		{"decorated", one, "#４.", &UnknownOption{0, 4}},
		{"zero", one, "0", &UnknownOption{0, 0}},
		{"with a remark", one, "9 - please", &UnknownOption{0, 9}},
		{"a label of that number", []state.SubQuestion{newSubQuestion(false, "9", "10")}, "9", nil},
		{"without options", []state.SubQuestion{freeTextQuestion}, "9", nil},
		{"meant", one, "other: 9", nil},
		{"words", one, "9 lives", nil},
		{"list for one choice", one, "1,9", nil},
		{"in a list", []state.SubQuestion{featuresQuestion}, "1, 9", &UnknownOption{0, 9}},
		{"in a Q line", several, "Q2: 9", &UnknownOption{1, 9}},
		{"in the second line", several, "1\n9", &UnknownOption{1, 9}},
		{"behind a semicolon", several, "1; auth, 7", &UnknownOption{1, 7}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answers, got := ParseReply(tt.text, tt.questions, nil)
			kit.Equalf(t, got, tt.want, "reply %q", tt.text)
			kit.True(t, got == nil || len(answers[got.Question].Labels) == 0,
				"reply %q chose %+v", tt.text, answers)
		})
	}
}

func TestReply_Decompose(t *testing.T) {
	for _, tt := range []struct {
		name  string
		p     state.SubQuestion
		value string
		want  state.Answer
	}{
		{"label", deployQuestion, "Canary", answerLabels("Canary")},
		{"label in another case is words", deployQuestion, "canary", answerText("canary")},
		{"words", deployQuestion, "Canary, Rolling deployment",
			answerText("Canary, Rolling deployment")},
		{"empty", featuresQuestion, "", state.Answer{}},
		{"labels", featuresQuestion, "Auth, Search", answerLabels("Auth", "Search")},
		{"labels in another order", featuresQuestion, "Search, Auth",
			answerLabels("Auth", "Search")},
		{"labels and words", featuresQuestion, "Auth, something, else",
			state.Answer{Labels: []string{"Auth"}, Text: "something, else"}},
		{"label with a comma", featuresQuestion, "Auth, Export, CSV, x",
			state.Answer{Labels: []string{"Auth", "Export, CSV"}, Text: "x"}},
		{"longest label", newSubQuestion(true, "A", "A, B", "B"), "A, B", answerLabels("A, B")},
		{"label twice", featuresQuestion, "Auth, Auth",
			state.Answer{Labels: []string{"Auth"}, Text: "Auth"}},
		{"label begins the words", featuresQuestion, "Authentication",
			answerText("Authentication")},
		{"comma at the end", featuresQuestion, "Auth, ", answerText("Auth, ")},
		{"words first", featuresQuestion, "both Auth, Search", answerText("both Auth, Search")},
		{"no options", freeTextQuestion, "foo, bar", answerText("foo, bar")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ParseAnswerValue(tt.p, tt.value)
			kit.True(t, reflect.DeepEqual(got, tt.want),
				"Decompose(%q) = %+v, want %+v", tt.value, got, tt.want)
		})
	}
}

func TestReply_DecomposeUndoesValue(t *testing.T) {
	survives := func(multi bool, count, mask uint8, words string) bool {
		var labels, picked []string
		for i := range int(count%4) + 1 {
			labels = append(labels, fmt.Sprintf("Label %d", i+1))
			if mask>>i&1 == 1 && (multi || len(picked) == 0) {
				picked = append(picked, labels[i])
			}
		}
		if !multi && len(picked) > 0 {
			words = ""
		}
		a := state.Answer{Labels: picked, Text: words}
		return reflect.DeepEqual(ParseAnswerValue(newSubQuestion(multi, labels...), a.Value()), a)
	}
	kit.NoError(t, quick.Check(survives, &quick.Config{MaxCount: 2000}))
}

func TestReply_ResponseType(t *testing.T) {
	type answers = map[int]state.Answer
	for _, tt := range []struct {
		name      string
		questions []state.SubQuestion
		answers   answers
		want      string
	}{
		{"option", []state.SubQuestion{deployQuestion}, answers{0: answerLabels("Canary")},
			"single_select"},
		{"options", []state.SubQuestion{featuresQuestion}, answers{0: answerLabels("Auth")},
			"multi_select"},
		{"options and words", []state.SubQuestion{featuresQuestion},
			answers{0: {Labels: []string{"Auth"}, Text: "x"}}, "multi_select"},
		{"words", []state.SubQuestion{featuresQuestion}, answers{0: answerText("x")},
			"custom_text"},
		{"several", []state.SubQuestion{deployQuestion, freeTextQuestion},
			answers{0: answerText("x"), 1: answerText("y")}, "multi_question"},
		{"nothing", []state.SubQuestion{deployQuestion}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kit.Equal(t, ResponseType(tt.questions, tt.answers), tt.want)
		})
	}
}

// A reply that is larger than Chat allows must not delay the hook. If anything here took
// quadratic time, this test would not end in time.
func TestReply_OfAMegabyte(t *testing.T) {
	var many []string
	for i := range 2000 {
		many = append(many, fmt.Sprintf("Option, number - %d", i))
	}
	size := 1 << 20
	if testing.Short() {
		size = 1 << 17
	}
	asked := [][]state.SubQuestion{{featuresQuestion},
		{newSubQuestion(true, many...), newSubQuestion(false, many...)}}
	for _, unit := range []string{"1,", "1;", "1\n", "Q1: 1\n", "Q1: 1 ", "a - ", "—", "other: ",
		"and ", "\xff", " ", "option, ", "<", "`"} {
		for _, questions := range asked {
			ParseReply("2"+strings.Repeat(unit, size/len(unit))+"x", questions, nil)
		}
	}
}

func FuzzParseReply(f *testing.F) {
	for _, text := range []string{"2", "1,3 - but", "Q1: 2\nQ2: x", "1; 2", "a\nb", "2\nbut",
		"other: x", "1, other:", "２️⃣", "blue — \x00", "Q1:", ";;", "\u200b", "Q1-2 x",
		"1 and 2, but", ", but x", "Q1: Q1: 1, Q2: 2", "—2", "Q１=\xff"} {
		f.Add(text, "Blue, green - now", "Other: x", true)
		f.Add(text, "auth", "search and replace", false)
	}
	f.Fuzz(func(t *testing.T, text, one, two string, multi bool) {
		p := newSubQuestion(multi, one, two, "Auth")
		one1, _ := ParseReply(text, []state.SubQuestion{p}, nil)
		isBlank := strings.TrimSpace(state.Clean(state.ForChat, text)) == ""
		kit.True(t, isBlank == one1[0].IsEmpty() && len(one1) <= 1, "reply %q = %+v", text, one1)
		said := one1[0].Text
		kit.True(t, said == "" || strings.TrimSpace(said) != "" && utf8.ValidString(said),
			"reply %q = %q", text, said)
		questions := []state.SubQuestion{p, deployQuestion, freeTextQuestion}
		partial := map[int]state.Answer{1: answerLabels("Canary")}
		for _, before := range []map[int]state.Answer{nil, partial} {
			got, _ := ParseReply(text, questions, before)
			missing := Unanswered(questions, got)
			for i, a := range got {
				for _, l := range a.Labels {
					kit.True(t, slices.ContainsFunc(questions[i].Options,
						func(o state.Option) bool { return o.Label == l }),
						"reply %q chose %q", text, l)
				}
				kit.True(t, !a.IsEmpty() && !slices.Contains(missing, i),
					"reply %q gave %+v for %d, missing %v", text, a, i, missing)
			}
			kit.True(t, len(got)+len(missing) == len(questions) &&
				(before == nil || !got[1].IsEmpty()),
				"reply %q = %+v, missing %v", text, got, missing)
		}
		ParseAnswerValue(p, text)
	})
}

// Outside tmux, the person is told before they write that their text is no approval to
// Claude. In tmux it is one, and nothing is said.
func TestOutside_TextIsNoApproval(t *testing.T) {
	for pane, want := range map[string]int{"": 1, "%1": 0} {
		q := askDecision(state.KindNext, "Reply")
		q.TmuxPane = pane
		text := strings.Join(QuestionTexts(q), "")
		n := strings.Count(text, state.OutsideTmuxWarning+"\nReply with the next instruction.")
		kit.True(t, n == want, "in pane %q: said %d times in %q", pane, n, text)
		card := drawCard(QuestionCard(q))
		kit.True(t, strings.Count(card, state.OutsideTmuxWarning) == want,
			"in pane %q: the card is %s", pane, card)
	}
}
