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

	"gchat-hooks/state"
)

func prompt(multi bool, labels ...string) state.SubQuestion {
	p := state.SubQuestion{Question: "Which?", MultiSelect: multi, OptionCount: len(labels)}
	for _, l := range labels {
		p.Options = append(p.Options, state.Option{Label: l})
	}
	return p
}

var (
	deploy   = prompt(false, "Blue-green deployment", "Rolling deployment", "Canary")
	features = prompt(true, "Auth", "Search", "Dark mode", "Export, CSV")
	free     = prompt(false)
)

func chose(labels ...string) state.Answer { return state.Answer{Labels: labels} }
func said(text string) state.Answer       { return state.Answer{Text: text} }
func noted(notes string, labels ...string) state.Answer {
	return state.Answer{Labels: labels, Notes: notes}
}

func TestParseReplyToOneQuestion(t *testing.T) {
	blue, rolling := "Blue-green deployment", "Rolling deployment"
	for _, tt := range []struct {
		name string
		p    state.SubQuestion
		text string
		want state.Answer
	}{
		// numbers
		{"number", deploy, "2", chose(rolling)},
		{"number with space", deploy, "  2 \n", chose(rolling)},
		{"number with full stop", deploy, "2.", chose(rolling)},
		{"number with bracket", deploy, "2)", chose(rolling)},
		{"number in brackets", deploy, "(2)", chose(rolling)},
		{"number with hash", deploy, "#2", chose(rolling)},
		{"option number", deploy, "option 2", chose(rolling)},
		{"option number, shouted", deploy, "OPTION #2.", chose(rolling)},
		{"full-width digit", deploy, "２", chose(rolling)},
		{"full-width digit and brackets", deploy, "（２）", chose(rolling)},
		{"Chinese full stop", deploy, "2。", chose(rolling)},
		{"keycap emoji", deploy, "2️⃣", chose(rolling)},
		{"keycap without variation selector", deploy, "2\u20E3", chose(rolling)},
		{"leading zero", deploy, "02", chose(rolling)},
		{"number behind a control and a tag", deploy, "\x002\U000E0031", chose(rolling)},
		{"non-breaking space", deploy, "\u00a02\u00a0", chose(rolling)},
		{"zero", deploy, "0", said("0")},
		{"out of range", deploy, "4", said("4")},
		{"negative", deploy, "-1", said("-1")},
		{"huge", deploy, "99999999999999999999999", said("99999999999999999999999")},
		{"two numbers in a single-select", deploy, "1,3", said("1,3")},
		{"two keycaps in a single-select", deploy, "1️⃣3️⃣", said("1️⃣3️⃣")},
		{"semicolons for one question", deploy, "1; 2", said("1; 2")},
		// own words that begin with a number
		{"weeks", deploy, "2 weeks", said("2 weeks")},
		{"time of day", deploy, "1:30", said("1:30")},
		{"full-width time of day", deploy, "1：30", said("1：30")},
		{"range of days", deploy, "2-3 days", said("2-3 days")},
		{"range with en dash", deploy, "2–3 days", said("2–3 days")},
		{"range with em dash", deploy, "2—3 days", said("2—3 days")},
		{"decimal", deploy, "1.5", said("1.5")},
		{"ordinal", deploy, "2nd", said("2nd")},
		{"version", deploy, "v2", said("v2")},
		{"hyphen with space on one side", deploy, "2- but", said("2- but")},
		{"separator without remark", deploy, "2 —", said("2 —")},
		// labels
		{"label", deploy, "Canary", chose("Canary")},
		{"label, any case", deploy, "cANARY", chose("Canary")},
		{"label with much space", deploy, " Rolling \n deployment", chose(rolling)},
		{"label with a phone's dash", deploy, "Blue–green deployment", chose(blue)},
		{"beginning", deploy, "blue", chose(blue)},
		{"beginning with spaces, capital", deploy, " Roll  ", chose(rolling)},
		{"beginning, one letter", deploy, "c", said("c")},
		{"do is not Docker", prompt(false, "Docker", "Podman"), "do", said("do")},
		{"do is not Do nothing", prompt(false, "Do nothing", "Retry"), "Do", said("Do")},
		{"do is Do", prompt(false, "Do", "Don't"), "do", chose("Do")},
		{"go is not Go back", prompt(false, "Go back", "Stay"), "Go", said("Go")},
		{"sure is not Surefire", prompt(false, "Surefire", "Jest"), "Sure", said("Sure")},
		{"sure is not Sure, later", prompt(false, "Sure, later", "No"), "sure", said("sure")},
		{"sure is Sure", prompt(false, "Sure", "No"), "sure", chose("Sure")},
		{"ambiguous beginning", prompt(false, "Redis", "Redpanda"), "red", said("red")},
		{"label that begins another", prompt(false, "Redis cluster", "Redis"), "redis", chose("Redis")},
		{"equal labels by label", prompt(false, "Yes", "YES"), "yes", chose("Yes")},
		{"equal labels by number", prompt(false, "Yes", "YES"), "2", chose("YES")},
		{"beginning of equal labels", prompt(false, "Yes", "YES"), "ye", said("ye")},
		{"clear beginning of equal labels", prompt(false, "Later", "LATER"), "late", chose("Later")},
		{"typographic apostrophe", prompt(false, "Don't", "Do"), "don’t", chose("Don't")},
		{"straight quotes", prompt(false, "Say “hi”", "Leave"), `say "hi"`, chose("Say “hi”")},
		{"Greek sigma folds", prompt(false, "ΟΔΟΣ", "x"), "οδος", chose("ΟΔΟΣ")},
		{"label copied from the message", prompt(false, "List<int>", "Set<int>"), "List‹int>", chose("List<int>")},
		{"label typed from the message", prompt(false, "List<int>", "Set<int>"), "list<int>", chose("List<int>")},
		{"beginning that ends in a bracket", prompt(false, "List<int>", "Set<int>"), "list<", chose("List<int>")},
		{"label is a number, in range", prompt(false, "3", "1", "2"), "2", chose("1")},
		{"label is a number, out of range", prompt(false, "50", "5"), "5", chose("5")},
		{"number is no beginning", prompt(false, "50", "100"), "5", said("5")},
		{"label looks like a number form", prompt(false, "Option 2", "Option 1"), "option 2", chose("Option 2")},
		{"label looks like a remark", prompt(false, "Slow", "1 - fast"), "1 - fast", chose("1 - fast")},
		{"label looks like a Q line", prompt(false, "Q1: January", "Q2: April"), "Q1: January", chose("Q1: January")},
		{"no is not Node.js", prompt(false, "Node.js", "Deno"), "no", said("no")},
		{"no is not No, later", prompt(false, "No, later", "Yes"), "no", said("no")},
		{"punctuation is no beginning", prompt(false, "?", "(recommended) x"), "(", said("(")},
		{"beginning that is too long", deploy, "Canary release", said("Canary release")},
		{"empty label cannot be chosen", prompt(false, "", "x"), "1", said("1")},
		// remarks
		{"remark behind a hyphen", deploy, "2 - but keep the footer", noted("but keep the footer", rolling)},
		{"remark behind an em dash", deploy, "2 — but keep it", noted("but keep it", rolling)},
		{"remark behind an en dash", deploy, "2 – but keep it", noted("but keep it", rolling)},
		{"remark behind two hyphens", deploy, "2 -- keep it", noted("keep it", rolling)},
		{"remark of several lines", deploy, "2 - a\n$HOME \"x\"", noted("a\n$HOME \"x\"", rolling)},
		{"remark with separators", deploy, "2 - a - b: c", noted("a - b: c", rolling)},
		{"remark behind a keycap", deploy, "2️⃣ - go", noted("go", rolling)},
		{"remark behind a label", deploy, "Canary - 5 percent", noted("5 percent", "Canary")},
		{"remark behind a beginning", deploy, "blue - but keep it", said("blue - but keep it")},
		{"hyphen of another label", prompt(false, "Blue - green", "Red"), "blue - red", said("blue - red")},
		{"words behind a tight dash", deploy, "2—but keep it", said("2—but keep it")},
		{"words behind a colon", deploy, "2: keep it", said("2: keep it")},
		{"words behind a comma", deploy, "2, but keep it", said("2, but keep it")},
		{"words on the next line", deploy, "2\nbut keep it", said("2\nbut keep it")},
		{"words as a list", deploy, "2\r\n- a\r\n- b", said("2\n- a\n- b")},
		{"remark behind a label with a hyphen", prompt(false, "Blue", "Blue - green"), "blue - green - now", noted("now", "Blue - green")},
		// own words
		{"other", deploy, "other: canary", said("canary")},
		{"Other", deploy, "Other: 2", said("2")},
		{"other with full-width colon", deploy, "other：２", said("２")},
		{"other without words", deploy, "other:", said("other:")},
		{"other takes everything", deploy, "other: a; b\nQ1: 2\n", said("a; b\nQ1: 2")},
		{"label that begins with other", prompt(false, "Other: mine", "B"), "other: mine", chose("Other: mine")},
		{"shell", deploy, `$HOME "x" {a} \n`, said(`$HOME "x" {a} \n`)},
		{"several lines", deploy, "first\r\n  second\n\nthird ", said("first\n  second\n\nthird")},
		{"CJK", deploy, "请用金丝雀", said("请用金丝雀")},
		{"emoji", deploy, "👍🏽", said("👍🏽")},
		{"markup stays", deploy, "<users/all> ```", said("<users/all> ```")},
		{"hidden instruction", deploy, "sure\U000E0072\U000E006D\x1b[2J", said("sure")},
		{"invalid bytes", deploy, "a\xff", said("a\uFFFD")},
		{"word and bell", deploy, "\ano idea\a", said("no idea")},
		{"question without options, number", free, "1", said("1")},
		{"question without options, words", free, "call it - hm - foo", said("call it - hm - foo")},
		// lists
		{"list", features, "1,3", chose("Auth", "Dark mode")},
		{"list with space", features, "1, 3", chose("Auth", "Dark mode")},
		{"list of spaces", features, "1 3", chose("Auth", "Dark mode")},
		{"list with and", features, "1 and 3", chose("Auth", "Dark mode")},
		{"list with semicolon", features, "1;3", chose("Auth", "Dark mode")},
		{"list with ideographic comma", features, "1、3", chose("Auth", "Dark mode")},
		{"list with full-width comma", features, "1，３", chose("Auth", "Dark mode")},
		{"list by lines", features, "1\n3", chose("Auth", "Dark mode")},
		{"list of keycaps", features, "1️⃣3️⃣", chose("Auth", "Dark mode")},
		{"list with options", features, "options 1 & 3", chose("Auth", "Dark mode")},
		{"list with a last comma", features, "1,3,", chose("Auth", "Dark mode")},
		{"list in disorder, twice", features, "3,1,3", chose("Auth", "Dark mode")},
		{"list of one", features, "2", chose("Search")},
		{"list out of range", features, "1,9", said("1,9")},
		{"list with zero", features, "0,1", said("0,1")},
		{"list that ends in and", features, "1 and", said("1 and")},
		{"list of labels", features, "search, AUTH", chose("Auth", "Search")},
		{"list with beginnings", features, "auth, dark", chose("Auth", "Dark mode")},
		{"list with too short beginnings", features, "au, da", said("au, da")},
		{"list of labels with and", features, "auth and search", chose("Auth", "Search")},
		{"list of labels with comma and and", features, "auth, search, and dark", chose("Auth", "Search", "Dark mode")},
		{"list of numbers and labels", features, "1, dark mode", chose("Auth", "Dark mode")},
		{"list by lines of labels", features, "Auth\nSearch", chose("Auth", "Search")},
		{"label with a comma", features, "export, csv", chose("Export, CSV")},
		{"label with a comma in a list", features, "auth, export, csv", chose("Auth", "Export, CSV")},
		{"label with and", prompt(true, "Search and replace", "Auth"), "auth, search and replace", chose("Search and replace", "Auth")},
		{"list with a piece that is none", features, "auth, billing", said("auth, billing")},
		{"number in a list is no beginning", prompt(true, "50", "100", "All"), "5, al", said("5, al")},
		{"list and other", features, "1,3, other: billing", state.Answer{Labels: []string{"Auth", "Dark mode"}, Text: "billing"}},
		{"labels and other", features, "auth, search, Other: a, b", state.Answer{Labels: []string{"Auth", "Search"}, Text: "a, b"}},
		{"list and other by lines", features, "1 3\nother: a\nb", state.Answer{Labels: []string{"Auth", "Dark mode"}, Text: "a\nb"}},
		{"list and other without words", features, "1,3, other:", chose("Auth", "Dark mode")},
		{"list and other in a single-select", deploy, "1, other: x", said("1, other: x")},
		{"other inside words", features, "I want the other: 2", said("I want the other: 2")},
		{"list with a remark", features, "1,3 - but later", noted("but later", "Auth", "Dark mode")},
		{"labels with a remark", features, "auth, search - soon", noted("soon", "Auth", "Search")},
		{"list with words below", features, "1,3\nbut later", said("1,3\nbut later")},
		{"equal labels in a list", prompt(true, "A", "A", "B"), "1,2,3", chose("A", "B")},
		{"words in a multi-select", features, "2 weeks", said("2 weeks")},
		// Q lines
		{"Q line", deploy, "Q1: 2", chose(rolling)},
		{"Q line, words", deploy, "q 1) 2 weeks", said("2 weeks")},
		{"Q line, several lines", deploy, "Q1: 2 - a\nbut keep it", noted("a\nbut keep it", rolling)},
		{"Q line behind words", deploy, "hello\nQ1: 2", noted("hello", rolling)},
		{"Q line behind words, with remark", deploy, "hello\nQ1: 2 - now", noted("now\nhello", rolling)},
		{"Q line out of range", deploy, "Q2: 1", said("Q2: 1")},
		{"Q line without answer", deploy, "Q1:", said("Q1:")},
		{"quarters", deploy, "Q1-Q2", said("Q1-Q2")},
		{"quarter of a year", deploy, "Q1-26 release", said("Q1-26 release")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := ParseReply(tt.text, []state.SubQuestion{tt.p}, nil)
			if !reflect.DeepEqual(got, map[int]state.Answer{0: tt.want}) {
				t.Errorf("reply %q = %+v, want %+v", tt.text, got, tt.want)
			}
		})
	}
}

func TestParseReplyToSeveralQuestions(t *testing.T) {
	type answers = map[int]state.Answer
	blue, rolling := "Blue-green deployment", "Rolling deployment"
	three := []state.SubQuestion{deploy, features, free}
	two := []state.SubQuestion{deploy, deploy}
	mixed := []state.SubQuestion{deploy, features}
	for _, tt := range []struct {
		name      string
		questions []state.SubQuestion
		partial   answers
		text      string
		want      answers
		missing   []int
	}{
		{"blank", two, nil, " \n\u200b", answers{}, []int{0, 1}},
		{"blank keeps", two, answers{1: said("x")}, "", answers{1: said("x")}, []int{0}},
		{"no questions", nil, nil, "2", answers{}, nil},
		{"Q lines", three, nil, "Q1: 2\nQ2: 1,3\nQ3: call it foo", answers{0: chose(rolling), 1: chose("Auth", "Dark mode"), 2: said("call it foo")}, nil},
		{"Q lines, their separators", three, nil, "q1. 2\nQ 2 = search\nQ3 - foo", answers{0: chose(rolling), 1: chose("Search"), 2: said("foo")}, nil},
		{"Q lines, full-width", two, nil, "Ｑ１：２\nQ2)1", answers{0: chose(rolling), 1: chose(blue)}, nil},
		{"Q lines, tight", two, nil, "Q1:2\nQ2:1", answers{0: chose(rolling), 1: chose(blue)}, nil},
		{"Q lines with words of several lines", two, nil, "Q1: first\nsecond\nQ2: 2\nbut now", answers{0: said("first\nsecond"), 1: said("2\nbut now")}, nil},
		{"Q lines with a remark", two, nil, "Q1: 2 - fast\nQ2: other: 2", answers{0: noted("fast", rolling), 1: said("2")}, nil},
		{"Q lines in disorder", two, nil, "Q2: 1\nQ1: 2", answers{0: chose(rolling), 1: chose(blue)}, nil},
		{"one Q line", two, nil, "Q2: 1", answers{1: chose(blue)}, []int{0}},
		{"Q line twice", two, nil, "Q2: 1\nQ2: 2", answers{1: chose(rolling)}, []int{0}},
		{"Q line overrides", two, answers{0: chose(blue), 1: said("x")}, "Q1: 2", answers{0: chose(rolling), 1: said("x")}, nil},
		{"Q line out of range belongs to the words", two, nil, "Q1: see\nQ3: no", answers{0: said("see\nQ3: no")}, []int{1}},
		{"empty template", two, nil, "Q1:\nQ2:", answers{}, []int{0, 1}},
		{"half a template", two, nil, "Q1:\nQ2: 1", answers{1: chose(blue)}, []int{0}},
		{"empty template behind words", two, nil, "no idea\nQ1:\nQ2:", answers{0: said("no idea\nQ1:\nQ2:")}, []int{1}},
		{"words before the Q lines", two, nil, "thanks!\nQ2: 1\nQ1: 2", answers{0: chose(rolling), 1: noted("thanks!", blue)}, nil},
		{"Q lines in one line", two, nil, "Q1: 2, Q2: 1", answers{0: chose(rolling), 1: chose(blue)}, nil},
		{"Q lines in one line, spaces", two, nil, "q1: 2 q2: 1", answers{0: chose(rolling), 1: chose(blue)}, nil},
		{"Q inside words", two, nil, "Q1: as I said on Q2: never", answers{0: said("as I said on Q2: never")}, []int{1}},
		{"quarter is words", two, nil, "Q1-2 next year", answers{0: said("Q1-2 next year")}, []int{1}},
		{"Q lines with a semicolon", two, nil, "Q1: 2; Q2: 1", answers{0: chose(rolling), 1: chose(blue)}, nil},
		{"words of several lines", two, nil, "Postgres\nyes we talked about it", answers{0: said("Postgres\nyes we talked about it")}, []int{1}},
		{"words of as many lines, the first a choice", two, nil, "Canary\nyes we talked about it", answers{0: said("Canary\nyes we talked about it")}, []int{1}},
		{"words with a semicolon", two, nil, "use A; it is better", answers{0: said("use A; it is better")}, []int{1}},
		{"words with a semicolon, the first a choice", two, nil, "2; it is better", answers{0: said("2; it is better")}, []int{1}},
		{"words with a semicolon in lines", two, nil, "use A; it is better\nuse B", answers{0: said("use A; it is better\nuse B")}, []int{1}},
		{"words for the next", two, answers{0: chose(blue)}, "a; b\nc", answers{0: chose(blue), 1: said("a; b\nc")}, nil},
		{"semicolons, then other", three, nil, "1; 2,3; other: foo; bar\nbaz", answers{0: chose(blue), 1: chose("Search", "Dark mode"), 2: said("foo; bar\nbaz")}, nil},
		{"semicolons, other first", two, nil, "other: a; 2", answers{0: said("a; 2")}, []int{1}},
		{"semicolons, labels and remarks", two, nil, "canary - now; roll", answers{0: noted("now", "Canary"), 1: chose(rolling)}, nil},
		{"semicolons, an empty piece", three, nil, "1;;2", answers{0: said("1;;2")}, []int{1, 2}},
		{"semicolons, too many", two, nil, "1; 2; 1", answers{0: said("1; 2; 1")}, []int{1}},
		{"semicolons for the missing", three, answers{1: chose("Auth")}, "2; other: foo", answers{0: chose(rolling), 1: chose("Auth"), 2: said("foo")}, nil},
		{"semicolons for all again", mixed, answers{0: chose(blue)}, "2;1", answers{0: chose(rolling), 1: chose("Auth")}, nil},
		{"lines", mixed, nil, "2\n\nauth, search\n", answers{0: chose(rolling), 1: chose("Auth", "Search")}, nil},
		{"lines, phone", mixed, nil, "２。 \n #1 ", answers{0: chose(rolling), 1: chose("Auth")}, nil},
		{"lines with remarks", two, nil, "1 - fast\n2 - cheap", answers{0: noted("fast", blue), 1: noted("cheap", rolling)}, nil},
		{"lines, then other", two, nil, "2\nother: a\n\nb; c", answers{0: chose(rolling), 1: said("a\n\nb; c")}, nil},
		{"lines for the missing", three, answers{2: said("x")}, "2\n1", answers{0: chose(rolling), 1: chose("Auth"), 2: said("x")}, nil},
		{"lines, too few", three, nil, "2\n1", answers{0: said("2\n1")}, []int{1, 2}},
		{"numbered lines are words", two, nil, "1. migrate\n2. test", answers{0: said("1. migrate\n2. test")}, []int{1}},
		{"list for a single-select", two, nil, "2, 1", answers{0: said("2, 1")}, []int{1}},
		{"semicolons that fit", three, nil, "1; 2,3; other: foo", answers{0: chose(blue), 1: chose("Search", "Dark mode"), 2: said("foo")}, nil},
		{"semicolons, full-width", two, nil, "1；2", answers{0: chose(blue), 1: chose(rolling)}, nil},
		{"semicolons, fewer", three, nil, "1; 2", answers{0: chose(blue), 1: chose("Search")}, []int{2}},
		{"semicolons, one too many but empty", two, nil, "1; 2;", answers{0: chose(blue), 1: chose(rolling)}, nil},
		{"semicolons that fit nothing", three, answers{0: chose(blue)}, "1;3;4;2", answers{0: chose(blue), 1: chose("Auth", "Search", "Dark mode", "Export, CSV")}, []int{2}},
		{"semicolons over a line end", two, nil, "1; other: a\nb", answers{0: chose(blue), 1: said("a\nb")}, nil},
		{"lines with a semicolon list", []state.SubQuestion{features, deploy}, nil, "1;3\n2", answers{0: chose("Auth", "Dark mode"), 1: chose(rolling)}, nil},
		{"label with a semicolon", []state.SubQuestion{prompt(false, "a; b", "c"), deploy}, nil, "A; b", answers{0: chose("a; b")}, []int{1}},
		{"numbers for a missing multi-select", mixed, answers{0: chose(blue)}, "2, 1", answers{0: chose(blue), 1: chose("Auth", "Search")}, nil},
		{"bare", three, nil, "2", answers{0: chose(rolling)}, []int{1, 2}},
		{"bare, next", three, answers{0: chose(blue)}, "1,2", answers{0: chose(blue), 1: chose("Auth", "Search")}, []int{2}},
		{"bare, with remark", three, nil, "2 - why not", answers{0: noted("why not", rolling)}, []int{1, 2}},
		{"bare, all answered", two, answers{0: chose(blue), 1: chose(blue)}, "2", answers{0: chose(blue), 1: chose(blue)}, nil},
		{"empty partial is missing", two, answers{0: {Notes: "hm"}}, "2", answers{0: chose(rolling)}, []int{1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := maps.Clone(tt.partial)
			got, _ := ParseReply(tt.text, tt.questions, tt.partial)
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("reply %q = %+v, want %+v", tt.text, got, tt.want)
			}
			if missing := Unanswered(tt.questions, got); !slices.Equal(missing, tt.missing) {
				t.Errorf("reply %q: missing %v, want %v", tt.text, missing, tt.missing)
			}
			if !reflect.DeepEqual(before, tt.partial) {
				t.Errorf("partial became %+v", tt.partial)
			}
		})
	}
}

// A number without an option counts as words, and is told apart from them.
// What a person says in place of an answer. A label named so, or that begins so, wins.
func TestReadDecline(t *testing.T) {
	const chat, skip = state.DeclinedChat, state.DeclinedSkip
	named := asked(prompt(false, "Chat", "Skip tests", "Cancel", "Help", "/status"))
	several := asked(deploy, features)
	second := asked(deploy, prompt(false, "Skip", "Run"))
	second.PartialAnswers = map[int]state.Answer{1: {Labels: []string{"Run"}}}
	for _, c := range []struct {
		q          *state.Question
		text       string
		how, words string
	}{
		{asked(deploy), "chat", chat, ""}, {asked(deploy), " Chat. ", chat, ""}, {asked(deploy), "Chat about this", chat, ""},
		{asked(deploy), "chat  about\u00a0this!", chat, ""}, {asked(deploy), "chat: why?", chat, "why?"},
		{asked(deploy), "chat:", chat, ""}, {asked(deploy), "chat\nwhy?\nand who?", chat, "why?\nand who?"},
		{asked(deploy), "Chat — why?", chat, "why?"}, {asked(deploy), "chat about this, why?", chat, "why?"},
		{asked(deploy), "chat about this why?", chat, "why?"}, {several, "chat: Q1: 2", chat, "Q1: 2"},
		{asked(deploy), "skip", skip, ""}, {asked(deploy), "SKIP!", skip, ""}, {asked(deploy), "cancel", skip, ""},
		{several, "skip", skip, ""},
		{asked(deploy), "?", AskedHow, ""}, {asked(deploy), "??", AskedHow, ""}, {asked(deploy), "help", AskedHow, ""},
		{asked(deploy), "Help?", AskedHow, ""}, {asked(deploy), "/status", AskedHow, ""},
		{asked(deploy), "/STOP ", AskedHow, ""}, {asked(deploy), "/mute 2h", AskedHow, ""},

		{asked(deploy), "I don't know", "", ""}, {asked(deploy), "chat, email and phone", "", ""},
		{asked(deploy), "chat-based", "", ""}, {asked(deploy), "chat with Ann first", "", ""},
		{asked(deploy), "chatting: fine", "", ""}, {asked(deploy), "skip the tests", "", ""},
		{asked(deploy), "cancel it", "", ""}, {asked(deploy), "help me", "", ""}, {asked(deploy), "/tmp/status", "", ""},
		{asked(deploy), "/clear", "", ""}, {asked(deploy), "other: skip", "", ""}, {asked(deploy), "2", "", ""},
		{several, "Q2: skip", "", ""},
		{named, "chat", "", ""}, {named, "chat - loud", "", ""}, {named, "skip", "", ""}, {named, "Cancel", "", ""},
		{named, "help", "", ""}, {named, "/status", "", ""}, {named, "chat about this", chat, ""}, {named, "/stop", AskedHow, ""},
		{second, "skip", skip, ""}, // that one is answered
	} {
		how, words := ReadDecline(c.text, c.q)
		if how != c.how || words != c.words {
			t.Errorf("%q is %q with %q, want %q with %q", c.text, how, words, c.how, c.words)
		}
	}
}

func TestParseReplyFindsNoOption(t *testing.T) {
	one, several := []state.SubQuestion{deploy}, []state.SubQuestion{deploy, features}
	for _, tt := range []struct {
		name      string
		questions []state.SubQuestion
		text      string
		want      *NoOption
	}{
		{"in range", one, "3", nil},
		{"out of range", one, "9", &NoOption{0, 9}},
		{"decorated", one, "#４.", &NoOption{0, 4}},
		{"zero", one, "0", &NoOption{0, 0}},
		{"with a remark", one, "9 - please", &NoOption{0, 9}},
		{"a label of that number", []state.SubQuestion{prompt(false, "9", "10")}, "9", nil},
		{"without options", []state.SubQuestion{free}, "9", nil},
		{"meant", one, "other: 9", nil},
		{"words", one, "9 lives", nil},
		{"list for one choice", one, "1,9", nil},
		{"in a list", []state.SubQuestion{features}, "1, 9", &NoOption{0, 9}},
		{"in a Q line", several, "Q2: 9", &NoOption{1, 9}},
		{"in the second line", several, "1\n9", &NoOption{1, 9}},
		{"behind a semicolon", several, "1; auth, 7", &NoOption{1, 7}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answers, got := ParseReply(tt.text, tt.questions, nil)
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("reply %q: %+v, want %+v", tt.text, got, tt.want)
			}
			if got != nil && len(answers[got.Question].Labels) > 0 {
				t.Errorf("reply %q chose %+v", tt.text, answers[got.Question])
			}
		})
	}
}

func TestDecompose(t *testing.T) {
	for _, tt := range []struct {
		name  string
		p     state.SubQuestion
		value string
		want  state.Answer
	}{
		{"label", deploy, "Canary", chose("Canary")},
		{"label in another case is words", deploy, "canary", said("canary")},
		{"words", deploy, "Canary, Rolling deployment", said("Canary, Rolling deployment")},
		{"empty", features, "", state.Answer{}},
		{"labels", features, "Auth, Search", chose("Auth", "Search")},
		{"labels in another order", features, "Search, Auth", chose("Auth", "Search")},
		{"labels and words", features, "Auth, something, else", state.Answer{Labels: []string{"Auth"}, Text: "something, else"}},
		{"label with a comma", features, "Auth, Export, CSV, x", state.Answer{Labels: []string{"Auth", "Export, CSV"}, Text: "x"}},
		{"longest label", prompt(true, "A", "A, B", "B"), "A, B", chose("A, B")},
		{"label twice", features, "Auth, Auth", state.Answer{Labels: []string{"Auth"}, Text: "Auth"}},
		{"label begins the words", features, "Authentication", said("Authentication")},
		{"comma at the end", features, "Auth, ", said("Auth, ")},
		{"words first", features, "both Auth, Search", said("both Auth, Search")},
		{"no options", free, "foo, bar", said("foo, bar")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Decompose(tt.p, tt.value); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Decompose(%q) = %+v, want %+v", tt.value, got, tt.want)
			}
		})
	}
}

func TestDecomposeUndoesValue(t *testing.T) {
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
		return reflect.DeepEqual(Decompose(prompt(multi, labels...), a.Value()), a)
	}
	if err := quick.Check(survives, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
}

func TestResponseType(t *testing.T) {
	type answers = map[int]state.Answer
	for _, tt := range []struct {
		name      string
		questions []state.SubQuestion
		answers   answers
		want      string
	}{
		{"option", []state.SubQuestion{deploy}, answers{0: chose("Canary")}, "single_select"},
		{"options", []state.SubQuestion{features}, answers{0: chose("Auth")}, "multi_select"},
		{"options and words", []state.SubQuestion{features}, answers{0: {Labels: []string{"Auth"}, Text: "x"}}, "multi_select"},
		{"words", []state.SubQuestion{features}, answers{0: said("x")}, "custom_text"},
		{"several", []state.SubQuestion{deploy, free}, answers{0: said("x"), 1: said("y")}, "multi_question"},
		{"nothing", []state.SubQuestion{deploy}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := ResponseType(tt.questions, tt.answers); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A reply of Chat's size limit and beyond must not hold up the hook, whatever it is made
// of: all of these together take seconds, and with anything quadratic in it the test does
// not end before the test run's own time limit.
func TestParseReplyOfAMegabyte(t *testing.T) {
	var many []string
	for i := range 2000 {
		many = append(many, fmt.Sprintf("Option, number - %d", i))
	}
	size := 1 << 20
	if testing.Short() {
		size = 1 << 17
	}
	asked := [][]state.SubQuestion{{features}, {prompt(true, many...), prompt(false, many...)}}
	for _, unit := range []string{"1,", "1;", "1\n", "Q1: 1\n", "Q1: 1 ", "a - ", "—", "other: ", "and ", "\xff", " ", "option, ", "<", "`"} {
		for _, questions := range asked {
			ParseReply("2"+strings.Repeat(unit, size/len(unit))+"x", questions, nil)
		}
	}
}

func FuzzParseReply(f *testing.F) {
	for _, text := range []string{"2", "1,3 - but", "Q1: 2\nQ2: x", "1; 2", "a\nb", "2\nbut", "other: x", "1, other:", "２️⃣", "blue — \x00", "Q1:", ";;", "\u200b", "Q1-2 x", "1 and 2, but", ", but x", "Q1: Q1: 1, Q2: 2", "—2", "Q１=\xff"} {
		f.Add(text, "Blue, green - now", "Other: x", true)
		f.Add(text, "auth", "search and replace", false)
	}
	f.Fuzz(func(t *testing.T, text, one, two string, multi bool) {
		p := prompt(multi, one, two, "Auth")
		one1, _ := ParseReply(text, []state.SubQuestion{p}, nil)
		if said := !(strings.TrimSpace(state.Clean(state.ForChat, text)) == ""); said == one1[0].IsEmpty() || len(one1) > 1 {
			t.Errorf("reply %q = %+v", text, one1)
		}
		if said := one1[0].Text; said != "" && (strings.TrimSpace(said) == "" || !utf8.ValidString(said)) {
			t.Errorf("reply %q = %q", text, said)
		}
		questions := []state.SubQuestion{p, deploy, free}
		partial := map[int]state.Answer{1: chose("Canary")}
		for _, before := range []map[int]state.Answer{nil, partial} {
			got, _ := ParseReply(text, questions, before)
			missing := Unanswered(questions, got)
			for i, a := range got {
				for _, l := range a.Labels {
					if !slices.ContainsFunc(questions[i].Options, func(o state.Option) bool { return o.Label == l }) {
						t.Errorf("reply %q chose %q", text, l)
					}
				}
				if a.IsEmpty() || slices.Contains(missing, i) {
					t.Errorf("reply %q gave %+v for %d, missing %v", text, a, i, missing)
				}
			}
			if len(got)+len(missing) != len(questions) || before != nil && got[1].IsEmpty() {
				t.Errorf("reply %q = %+v, missing %v", text, got, missing)
			}
		}
		Decompose(p, text)
	})
}
