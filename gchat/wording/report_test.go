package wording

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"gchat-hooks/e2e/golden"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

var evening = time.Date(2026, 2, 21, 10, 45, 23, 0, time.UTC)

func TestReport_Text(t *testing.T) {
	for name, r := range map[string]state.Report{
		"task_completion": {Type: state.ReportTaskCompletion,
			Text: "Epic 3 completed. 12/12 subtasks validated."},
		"progress_update": {Type: state.ReportProgressUpdate,
			Text: "- [x] schema\n- [ ] API: see [the plan](https://x.example/plan)\n\n**3** of `5` done"},
		"blocked_alert": {Type: state.ReportBlockedAlert,
			Text: "Need API credentials for GChat service account.\nSession cannot proceed without this."},
		"heartbeat": {Type: state.ReportHeartbeat, Text: "Still running: 42 of 120 tests."},
		"session_start": {Type: state.ReportSessionStarted,
			Text: "Working directory: /src/app\nBranch: main"},
		"session_end": {Type: state.ReportSessionEnded},
		"error": {Type: state.ReportFailure,
			Text: "The build failed:\n\n```go\nmain.go:3: x < y\n```"},
		"plain": {Type: state.ReportPlain,
			Text: "# Summary\n\n| Test | ms |\n|---|--:|\n| a | 12 |\n| bcd | 7 |"},
		"subagent": {Type: state.ReportTaskCompletion, Prefix: "[Subagent Done]",
			About: "tdd-test-engineer completed task",
			Text:  "The tdd-test-engineer subagent has completed its task."},
		"task_done": {Type: state.ReportProgressUpdate, Prefix: "[Task Done]",
			Text: "\n\n - All **green**.\n"},
		"title": {Type: state.ReportProgressUpdate, Title: "Phase 2 * of\n3", Text: "Migrating."},
		"about_and_title": {Type: state.ReportFailure, Prefix: "[Task Done]", About: "step 4",
			Title: "Deploy", Text: "Rolled back."},
		"blocked_list":      {Type: state.ReportBlockedAlert, Text: "- a key\n- a token"},
		"blocked_already":   {Type: state.ReportBlockedAlert, Text: "**Action required:** a key"},
		"blocked_and_title": {Type: state.ReportBlockedAlert, Title: "Keys", Text: "Need one."},
		"hostile": {Type: state.ReportBlockedAlert,
			SessionName: "a | 2020-01-01 00:00:00\n[Done] <users/all>", About: "[Answered] x",
			Title: "[Done]* <users/all>",
			Text:  "Thread key: x\n[Session] y <https://evil.example|z>\n```\n[Done] in code\n````\n&lt;users/all&gt;"},
	} {
		t.Run(name, func(t *testing.T) {
			if r.SessionName == "" {
				r.SessionName = "orch-epic4"
			}
			if !strings.Contains(name, "subagent") && name != "task_done" &&
				name != "about_and_title" {
				r.At = evening
			}
			texts := ReportTexts(r)
			kit.Must(t, len(texts) == 1, "%d texts", len(texts))
			golden.Compare(t, "testdata/reports/"+name+".txt", texts[0]+"\n")
			checkReport(t, r)
		})
	}
}

func TestReport_Header(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    state.Report
		want string
	}{
		{"no time", state.Report{Type: state.ReportTaskCompletion, SessionName: "a"}, "[Done] a"},
		{"no session", state.Report{Type: state.ReportTaskCompletion, At: evening},
			"[Done] 2026-02-21 10:45:23"},
		{"neither", state.Report{Type: state.ReportTaskCompletion}, "[Done]"},
		{"own time zone", state.Report{Type: state.ReportTaskCompletion, SessionName: "a",
			At: evening.In(time.FixedZone("", 3600))}, "[Done] a | 2026-02-21 11:45:23"},
		{"bars", state.Report{Type: state.ReportFailure, SessionName: "a | b", At: evening},
			"[Error] a / b | 2026-02-21 10:45:23"},
		{"bracket", state.Report{Type: state.ReportFailure, SessionName: "a <", At: evening},
			"[Error] a ‹ | 2026-02-21 10:45:23"},
		{"prefix of a plain one", state.Report{Type: state.ReportPlain, Prefix: "[Digest]",
			SessionName: "a"}, "[Digest] a"},
		{"long", state.Report{Type: state.ReportHeartbeat, SessionName: strings.Repeat("é", 600)},
			"[Heartbeat] " + strings.Repeat("é", 500) + "…"},
	} {
		got := ReportTexts(tt.r)
		kit.True(t, len(got) == 1 && got[0] == tt.want, "%s: %q, want %q", tt.name, got, tt.want)
	}
	for _, r := range []state.Report{{Type: state.ReportPlain},
		{Type: "unknown", SessionName: "a", At: evening},
		{Type: state.ReportPlain, Text: " \n\u200b"}} {
		got := ReportTexts(r)
		kit.True(t, got == nil, "%+v says %q", r, got)
	}
}

func TestReport_ActionRequired(t *testing.T) {
	alert := state.Report{Type: state.ReportBlockedAlert, SessionName: "s"}
	for in, want := range map[string]string{
		"a\nb":                       "ACTION REQUIRED: a\nb",
		"action Required: a":         "action Required: a",
		"_Action required: a_":       "_Action required: a_",
		"# Action required: a":       "*Action required: a*",
		"ACTION REQUIRED a":          "ACTION REQUIRED: ACTION REQUIRED a",
		"# a":                        "ACTION REQUIRED:\n*a*",
		"1. a":                       "ACTION REQUIRED:\n1. a",
		"> a":                        "ACTION REQUIRED:\n> a",
		"```\na\n```":                "ACTION REQUIRED:\n```\na\n```",
		"```\nACTION REQUIRED:\n```": "ACTION REQUIRED:\n```\nACTION REQUIRED:\n```",
		"|a|\n|-|\n|b|":              "ACTION REQUIRED:\n```\na\n-\nb\n```",
		"**a** b":                    "ACTION REQUIRED: *a* b",
		"ｘ":                          "ACTION REQUIRED: ｘ",
		strings.Repeat("é", 20):      "ACTION REQUIRED: " + strings.Repeat("é", 20),
		"[BLOCKED] a":                "ACTION REQUIRED: [BLOCKED] a",
	} {
		alert.Text = in
		kit.Equalf(t, ReportTexts(alert), []string{"[BLOCKED] s\n\n" + want}, "of %q", in)
	}
}

func TestReport_Parts(t *testing.T) {
	text := strings.Repeat("A paragraph of **some** words, with [a link](https://x.example/a).\n\n```\ncode\n\nmore [Done] code\n```\n\n", 700)
	for _, r := range []state.Report{
		{Type: state.ReportTaskCompletion, SessionName: "orch-epic4", At: evening, Text: text},
		{Type: state.ReportPlain, Text: text},
		{Type: state.ReportTaskCompletion, Prefix: "[Subagent Done]", SessionName: "s",
			About: "about", Title: "t", Text: text},
		{Type: state.ReportFailure, SessionName: "s", At: evening,
			Text: strings.Repeat("x [Done] y Thread key: z <https://x.example|q> ", 3000)},
		{Type: state.ReportFailure, SessionName: "s", At: evening,
			Text: "```\n" + strings.Repeat("x", 100000) + "\n```"},
	} {
		texts := ReportTexts(r)
		kit.True(t, len(texts) >= 3, "%d texts", len(texts))
		checkReport(t, r)
	}
	r := state.Report{Type: state.ReportTaskCompletion, SessionName: "orch-epic4", At: evening,
		Text: text}
	texts := ReportTexts(r)
	for i, want := range []string{"[Done] orch-epic4 | 2026-02-21 10:45:23 (1/3)\n\nA para",
		"[Done] orch-epic4 | 2026-02-21 10:45:23 (2/3)\n\n",
		"[Done] orch-epic4 | 2026-02-21 10:45:23 (3/3)\n\n"} {
		kit.True(t, strings.HasPrefix(texts[i], want), "part %d: %.80q", i+1, texts[i])
	}
	r = state.Report{Type: state.ReportTaskCompletion, SessionName: "s",
		Text: strings.Repeat("x\n", (MaxText-len("[Done] s\n\n"))/2-1) + "xx"}
	texts = ReportTexts(r)
	kit.True(t, len(texts) == 1 && len(texts[0]) == MaxText, "%d texts at the limit", len(texts))
	r.Text += "x"
	texts = ReportTexts(r)
	kit.True(t, len(texts) == 2, "%d texts beyond the limit", len(texts))
}

// These texts are everything that Claude could be made to write. None may have an effect.
func TestReport_Hostile(t *testing.T) {
	for name, text := range map[string]string{
		"mention":             "<users/all>",
		"mention by address":  "hi <users/boss@x.example>",
		"mention in code":     "`<users/all>`\n\n```\n<users/all>\n```\n\n    <users/all>",
		"mention in a link":   "[<users/all>](https://x.example) [a](<users/all>) [b](https://x.example/<users/all>)",
		"mention in an image": "![<users/all>](<users/all>)",
		"mention in a table":  "|<users/all>|\n|-|\n|`<users/all>`|",
		"mention in a wide table": "|<users/all>|b|\n|-|-|\n|<users/all>|" +
			strings.Repeat("x", 70) + "|",
		"mention as entities":          "&lt;users/all&gt; &#60;users/all&#62; &#x3c;users/all> &LT;users/all>",
		"mention escaped":              `\<users/all\> <\users/all>`,
		"mention behind hidden runes":  "<\u200busers/all> <\u00adusers/all> <\u034fusers/all> <\U000E0020users/all> <\u200dusers/all>",
		"mention behind hidden entity": "<&#8203;users/all> <&ZeroWidthSpace;users/all> &lt;&shy;users/all> &lt;&#xFDD0;users/all>",
		"mention in emphasis":          "<**users/all**> <u**sers/al**l> **<**users/all>",
		"mention over nodes":           "\\<`users/all`> <![users/all>](x)",
		"mention as HTML":              "<b><users/all></b>\n<!-- <users/all> -->",
		"mention at a quote":           "> <\n> users/all>\n\n<\nusers/all>",
		"mention as autolink":          "<users:all> <https://users/all> <users@all.example>",
		"Chat's own link":              "<https://evil.example|https://bank.example>",
		"false link":                   "[https://bank.example](https://evil.example) [bank.example](https://evil.example)",
		"bar and newline in the URL":   "[a](https://x.example/|b> <users/all>) [a](<https://x.example/\n|b>)",
		"entities in the URL":          "[a](https://x.example/&#10;&#124;&gt;&lt;users/all&gt;)",
		"bracket in the label":         "[a\\> <users/all> \\| b](https://x.example)",
		"our header":                   "ok\n[Done] other | 2026-02-21 10:45:23\n\n[Answered] x",
		"our header in disguise":       "a\n**[Done]** x\n> [BLOCKED] x\n- ［Done］\n\n# [Error]\n\n&#91;Done&#93;\n\n\\[Done\\]\n\n【Dоnе】",
		"our header as label":          "[\\[Done\\] x](https://x.example)\n\n\\[[Done](https://x.example)\\] x",
		"our header behind a break":    "a\u2028[Done]\u2029[Done]\r[Done]\u0085[Done]\v[Done]&#10;[Done]",
		"our header behind hidden":     "\u200b[Done]\n\n\u2800[Done]\n\n\u3164[D\u200bo\u00adne]\n\n\uFEFF\u202E[Done]",
		"our header in rows": "|[Done]|b|\n|-|-|\n|x|" + strings.Repeat("y", 70) +
			"|\n|||",
		"thread key":           "Thread key: ask-user-00000000\n*Thread key*: x\nThrеad kеy： x",
		"open fence":           "```\n<users/all>",
		"fences in text":       "a ``` b\nc ```` d `````` e\n``\u200b` f",
		"fence closed in code": "~~~\n```\n[Done] x\n```\n~~~\n\n````\n```\n````",
		"fences out of pieces": "\\`\\`\\` &#96;&#96;&#96; `` ` ``` x \\```y` ``z`` `",
		"HTML":                 "<script>alert(1)</script>\n<a href=\"https://evil.example\">bank</a> <img src=x>",
		"our own marks":        "\uFDD0users/all\uFDD1 \uFDD2 &#xFDD0;users/all> [\uFDD0](https://x.example/\uFDD1)",
		"Markdown in Markdown": "&#91;a](https://evil.example) \\*\\*b** &#96;&#96;&#96; [x](https://x.example \"<users/all>\")",
		"joiners as entities":  "a&zwj;b &#x200C; é&zwj;&zwj;é x&#xFE0F;&#xFE0F;",
		"no UTF-8":             "\xff<\xc0users/all> \xed\xa0\x80",
		"selectors":            "a\uFE00\uFE0F\uFE0F\U000E0100 ❤\uFE0F\uFE0F b\u200d\u200cc",
	} {
		t.Run(name, func(t *testing.T) {
			for _, ty := range state.ReportTypes {
				checkReport(t, state.Report{Type: ty, SessionName: "s", At: evening, Text: text})
			}
			checkReport(t, state.Report{Type: state.ReportPlain,
				Text: strings.Repeat(text+"\n\n", 1+MaxText/len(text))})
			checkReport(t, state.Report{Type: state.ReportPlain,
				Text: strings.Repeat("x", MaxText-len(text)) + " " + text})
			checkReport(t, state.Report{Type: state.ReportFailure, SessionName: text, About: text,
				Title: text, Text: text, Prefix: "[Task Done]"})
			checkReport(t, state.Report{Type: state.ReportPlain, SessionName: text, About: text,
				Title: text})
		})
	}
}

// forgedHeader matches a line that begins like one of our messages, without a disguise.
var forgedHeader = regexp.MustCompile("(?i)^[\\s*_~>`]*(?:\\[\\s*(?:done|progress|blocked|heartbeat|session|session start|session end|error|subagent done|task done|" +
	"permission|digest|askuserquestion|answered|cancelled|not used|not read|kept)\\s*\\]|thread key\\s*:)")

// checkReport fails if a report's texts could have any effect but to be read.
func checkReport(t *testing.T, r state.Report) {
	t.Helper()
	for i, text := range ReportTexts(r) {
		checkHarmless(t, text)
		kit.True(t, len(text) <= MaxText && strings.TrimSpace(text) != "",
			"part %d has %d bytes", i+1, len(text))
		checkNothingHidden(t, text)
		kit.True(t, !strings.Contains(text, "<users/"), "part %d mentions", i+1)
		code := false
		for n, l := range strings.Split(text, "\n") {
			if l == fence {
				code = !code
				continue
			}
			kit.True(t, !strings.Contains(l, fence),
				"part %d has a fence in line %d: %q", i+1, n, l)
			if reportHeader(r) != "" && n == 0 || code {
				continue
			}
			kit.True(t, !forgedHeader.MatchString(l) && disarm(l) == l,
				"part %d has a forged header in line %d: %q", i+1, n, l)
		}
		kit.True(t, !code, "part %d leaves a block open", i+1)
	}
}

// checkNothingHidden fails if the text has something that a reader cannot see.
func checkNothingHidden(t *testing.T, text string) {
	t.Helper()
	runes := []rune(text)
	at := func(i int) rune {
		if i < 0 || i >= len(runes) {
			return ' '
		}
		return runes[i]
	}
	for i, r := range runes {
		switch {
		case r == '\n', r == '\t', r >= ' ' &&
			r <= '~', unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		case r == 0x200C, r == 0x200D:
			for _, by := range []rune{at(i - 1), at(i + 1)} {
				kit.True(t, by >= 0x80 && by != 0x200C && by != 0x200D && !unicode.IsSpace(by),
					"a joiner between %q and %q", at(i-1), at(i+1))
			}
		case r == 0xFE0E, r == 0xFE0F:
			by := at(i - 1)
			kit.True(t, !unicode.IsSpace(by) && !unicode.Is(unicode.Variation_Selector, by) &&
				(by >= 0x80 || !unicode.IsLetter(by)),
				"a selector behind %q", by)
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point, unicode.Noncharacter_Code_Point,
			unicode.Zl, unicode.Zp), r == 0x2800:
			t.Errorf("hidden rune %U", r)
		}
	}
}

func FuzzReport(f *testing.F) {
	f.Add("task_completion", "orch-epic4", "", "",
		"**Done**: [a](https://x.example) `b`\n\n- [ ] c\n  ```\n  d\n  ```", uint16(1))
	f.Add("blocked_alert", "a | b", "[Done]", "*t*",
		"> <users/all>\n\n| a | b |\n|---|--:|\n| `x\\|y` | ~~z~~ |", uint16(1600))
	f.Add("plain", "", "", "",
		"[\\[Done\\]](https://x.example/|) &lt;users/all&gt; \\`\\`\\` ***x***\u200d", uint16(2000))
	f.Add("plain", "<", "<", "<", "a <\n``\u200b`", uint16(1))
	f.Add("error", "\xff", "\u2028", "`", "1. a\n\n   b\n9) c\n***\n# d\ne\n===\n```f\n\tg",
		uint16(320))
	f.Add("plain", "", "", "",
		"[bank.example](https://evil.example)![x](y)<https://z.example/**a**>__b__", uint16(4000))
	f.Fuzz(func(t *testing.T, ty, session, about, title, text string, times uint16) {
		if times%16 != 0 { // several parts take time
			times %= 8
		}
		text = strings.Repeat(text, min(int(times), 1+(MaxText+999)/(len(text)+1)))
		r := state.Report{Type: state.ReportType(ty), SessionName: session, About: about,
			Title: title, Text: text}
		if len(title)%2 == 1 {
			r.At = evening
		}
		checkReport(t, r)
		checkReport(t, state.Report{Type: state.ReportPlain, Text: text})
	})
}

func TestReport_WholeIsTheOnlyText(t *testing.T) {
	for _, r := range []state.Report{
		{Type: state.ReportPlain, Text: "one\n\ntwo"}, {Type: state.ReportPlain, Text: " \n"},
		{Type: state.ReportTaskCompletion, SessionName: "s"},
		{Type: state.ReportFailure, SessionName: "s", About: "a", Text: "b"},
		{Type: state.ReportBlockedAlert, SessionName: "s", Title: "t", Text: "b"},
		{Type: state.ReportProgressUpdate, SessionName: "s", About: "a"},
	} {
		texts := append(ReportTexts(r), "")
		kit.Equalf(t, WholeReportText(r), texts[0], "%+v", r)
	}
	long := state.Report{Type: state.ReportPlain, Text: strings.Repeat("word ", 20000)}
	got := WholeReportText(long)
	kit.True(t, len(got) >= 90000 && !strings.HasPrefix(got, "(1/"),
		"a long one: %d bytes, %.20q", len(got), got)
}

func TestReport_CodeBlockIsVerbatim(t *testing.T) {
	got := ReportTexts(state.Report{Type: state.ReportPlain,
		Text: CodeBlock("*TestA* <users/all>\n# x\n```\n[Done] x")})
	want := "```\n*TestA* ‹users/all>\n# x\n'''\n[Done] x\n```"
	kit.True(t, len(got) == 1 && got[0] == want, "%q, want %q", got, want)
}
