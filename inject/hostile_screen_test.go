package inject

import (
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

var (
	ruleLine = strings.Repeat("─", 60)

	// goodDialog is a dialog that ReadScreen accepts. The hostile screens differ from it
	// a little.
	goodDialog = []string{
		"❯ go ahead",
		ruleLine,
		" ☐ Colour",
		"",
		"Which colour?",
		"",
		"❯ 1. Red",
		"     warm",
		"  2. Blue",
		"     cold",
		"  3. Type something.",
		ruleLine,
		"  4. Chat about this",
		"",
		"Enter to select · ↑/↓ to navigate · Esc to cancel",
	}
	box = []string{ruleLine, "❯ ", ruleLine, "  ? for shortcuts"}
)

func screenOf(parts ...[]string) string {
	var all []string
	for _, p := range parts {
		all = append(all, p...)
	}
	return strings.Join(all, "\n") + "\n\n\n"
}

// withLine returns goodDialog with one line replaced, or removed if by is "-".
func withLine(line, by string) []string {
	var out []string
	for _, l := range goodDialog {
		switch {
		case l != line:
			out = append(out, l)
		case by != "-":
			out = append(out, strings.Split(by, "\n")...)
		}
	}
	return out
}

func TestHostileScreen_TheGoodDialogIsRead(t *testing.T) {
	for name, lines := range map[string][]string{"good": goodDialog, "box": box} {
		s := ReadScreen(screenOf(lines))
		kit.True(t, s.Shows != Unknown, "%s: unknown: %s", name, s.Why)
	}
}

// None of these screens may be read as a dialog or as an empty input box.
func TestHostileScreen_IsNotRead(t *testing.T) {
	indent := func(lines []string) []string {
		var out []string
		for _, l := range lines {
			out = append(out, "  "+l)
		}
		return out
	}
	quoted := append([]string{"● The screen was:", ""}, indent(goodDialog)...)
	tests := map[string]struct {
		screen string
		shows  View
		why    string // part of Screen.Why
	}{
		"nothing":                     {"", Unknown, "empty"},
		"blank lines":                 {"\n\n \n", Unknown, "empty"},
		"a shell":                     {"$ ls\nx y\n$ ", Unknown, "shell"},
		"a shell with a fancy prompt": {"~/x main ✗\n❯ ", Unknown, "shell"},
		"a shell between rules": {ruleLine + "\n❯ \n" + ruleLine + "\n~/x $ ", Unknown,
			"shell"},
		"a shell with an indent": {ruleLine + "\n❯ \n" + ruleLine +
			"\n  ? for shortcuts\n  user@host $", Unknown, "shell"},
		"killed below the box": {screenOf(box) + "Killed\nclaude exited: 137\n# ", Unknown,
			"shell"},
		"killed, later versions": {ruleLine + "\n❯ Killed\nclaude exited: 137" +
			ruleLine[:90] + "\n# ? for shortcuts", Unknown, ""},
		"vim on a saved screen":     {screenOf(goodDialog) + "~\n~\n\"x\" 15L, 500B", Unknown, ""},
		"less on a saved screen":    {screenOf(goodDialog) + ":", Unknown, ""},
		"cat of a saved screen":     {screenOf(goodDialog) + "user@host:~$ ", Unknown, "shell"},
		"a quotation above the box": {screenOf(quoted, []string{""}, box), Prompt, ""},
		"a dialog above the box":    {screenOf(goodDialog, []string{""}, box), Prompt, ""},
		"a quotation at the end":    {screenOf(quoted), Unknown, ""},
		"no hint":                   {screenOf(withLine("Enter to select · ↑/↓ to navigate · Esc to cancel", "-")), Unknown, ""},
		"half a hint":               {screenOf(withLine("Enter to select · ↑/↓ to navigate · Esc to cancel", "Enter to select · ↑/↓ to na")), Unknown, ""},
		"another hint":              {screenOf(withLine("Enter to select · ↑/↓ to navigate · Esc to cancel", "Enter to confirm · Esc to exit")), Unknown, ""},
		// These are read because the question is visible, but as cut.
		"no rule above": {screenOf([]string{"$ fake-dialog", " ☐ Colour"},
			goodDialog[3:]), Question, ""},
		"no rule below": {screenOf(goodDialog[:11], goodDialog[12:]), Unknown, ""},
		"a rule of another width": {screenOf([]string{ruleLine + "──"}, goodDialog[2:]),
			Unknown, ""},
		"no chip": {screenOf(withLine(" ☐ Colour", "-")), Unknown, ""},
		"no chat row": {screenOf(withLine("  4. Chat about this",
			"  4. Something else")), Unknown, ""},
		"no cursor":         {screenOf(withLine("❯ 1. Red", "  1. Red")), Unknown, "half drawn"},
		"two cursors":       {screenOf(withLine("  2. Blue", "❯ 2. Blue")), Unknown, "half drawn"},
		"a number twice":    {screenOf(withLine("  2. Blue", "  1. Blue")), Unknown, "half drawn"},
		"a number left out": {screenOf(withLine("  2. Blue", "  -")), Unknown, "half drawn"},
		"the last number is another": {screenOf(withLine("  4. Chat about this",
			"  3. Chat about this")), Unknown, ""},
		"no question":      {screenOf(withLine("Which colour?", "-")), Unknown, "half drawn"},
		"a row half drawn": {screenOf(withLine("  3. Type something.", "  3")), Unknown, ""},
		"a description out of its place": {screenOf(withLine("     warm", "  warm")), Unknown,
			"half drawn"},
		"text between rows and hint": {screenOf(withLine("  4. Chat about this",
			"  4. Chat about this\n\nSomething")), Unknown, ""},
		"a box without its upper rule": {screenOf(box[1:]), Unknown, ""},
		"a box without its lower rule": {screenOf(box[:2]), Unknown, ""},
		"a box with a line in it": {screenOf([]string{ruleLine, "❯ ", "x", ruleLine}), Unknown,
			""},
		"a box of two widths": {screenOf([]string{ruleLine + "─"}, box[1:]), Unknown, ""},
		"a box and a long list": {screenOf(box, []string{strings.Repeat("  line\n", 20)}),
			Unknown, ""},
		"a box that runs shell": {screenOf([]string{ruleLine, "! ", ruleLine,
			"  ! for shell mode"}), Draft, ""},
		"a box with its list": {screenOf([]string{ruleLine, "❯ /mo", ruleLine,
			"/model     Set the model", "/mobile    Show a code"}), Unknown, "list"},
		"a search": {screenOf([]string{ruleLine, "❯ ", ruleLine,
			"  search prompts: "}), Unknown, "search"},
		"a menu": {screenOf([]string{ruleLine, " Select model", "",
			" ❯ 1. Default", "   2. Opus", "", " Enter to confirm · Esc to exit"}), Unknown,
			"a menu that gchat-hooks does not know"},
		// 2.1.330
		"a dialog without a box": {screenOf([]string{ruleLine,
			"  Make auto mode your default?", "", "  Auto mode lets Claude …", "",
			"  ❯ Yes, set it", "    No, keep manual mode", ""}), Unknown,
			`a dialog that only the terminal answers: "Make auto mode your default?"`},
		"a menu that a program draws": {"Pick one\n❯ 1. Yes\n  2. No", Unknown, ""},
		"a permission, quoted": {screenOf([]string{"  Do you want to proceed?",
			"  ❯ 1. Yes", "    2. No", "", "  Esc to cancel"}, box), Prompt, ""},
		"a permission above a shell": {screenOf([]string{" Do you want to proceed?", " ❯ 1. Yes",
			"   2. No", "", "$ "}), Unknown, "shell"},
		"a review above a shell": {screenOf([]string{"Review your answers", "", " ● Q?",
			"   → A", "", "❯ 1. Submit answers", "  2. Cancel", "$ "}), Unknown, "shell"},
		"a review without its title": {screenOf([]string{ruleLine, " ● Q?", "   → A", "",
			"❯ 1. Submit answers", "  2. Cancel"}), Unknown, ""},
		"a review with two arrows": {screenOf([]string{ruleLine, "←  ☒ Q  ✔ Submit  →", "",
			"Review your answers", "", " ● Q?", "   → A", "   → B", "", "❯ 1. Submit answers",
			"  2. Cancel"}), Review, ""},
		"the rows of a review only":    {"❯ 1. Submit answers\n  2. Cancel", Unknown, ""},
		"an escape sequence cut short": {"\x1b[38;5", Unknown, "empty"},
		"a hyperlink without an end":   {"\x1b]8;;http://x", Unknown, ""},
		"a program's own boxes":        {"┌──────┐\n│ ❯ ok │\n└──────┘", Unknown, ""},
		"Claude Code's transcript": {screenOf(goodDialog,
			[]string{ruleLine, "  Showing detailed transcript · ctrl+o to toggle"}), Unknown,
			"transcript"},
		"an installer's own question": {"? Which colour? (Use arrow keys)\n❯ Red\n  Blue",
			Unknown, ""},
		"a table above a coloured edge": {screenOf(goodDialog[:5], []string{"", "| 1. | 2. |"}),
			Unknown, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := ReadScreen(tt.screen)
			kit.True(t, s.Shows == tt.shows && strings.Contains(s.Why, tt.why),
				"is read as %q (%s), want %q (…%s…):\n%s", s.Shows, s.Why, tt.shows, tt.why,
				tt.screen)
			kit.True(t, s.Shows != Unknown || s.Why != "", "no reason")
		})
	}
}

// Each recorded dialog is read with one line removed. If the result is still a question,
// its rows are complete and in order.
func TestHostileScreen_ALineMissing(t *testing.T) {
	for _, name := range []string{"2.1.197/multi-02-open", "2.1.329/multi-02-open",
		"2.1.329/single-06-type-ship-it"} {
		raw := kit.ReadFile(t, filepath.Join("testdata", "screens", name+".ansi"))
		whole := ReadScreen(raw)
		lines := strings.Split(strings.TrimRight(raw, "\n"), "\n")
		for i := range lines {
			s := ReadScreen(strings.Join(append(append([]string(nil), lines[:i]...),
				lines[i+1:]...), "\n"))
			if s.Shows != Question {
				continue
			}
			kit.True(t, len(s.Rows) == len(whole.Rows),
				"%s without line %d has %d rows:\n%s", name, i+1, len(s.Rows), printScreen(s))
		}
	}
}
