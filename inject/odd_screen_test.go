package inject

import (
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

// These dialogs are in no recording. The test says how they must be read.
func TestOddScreen_Dialogs(t *testing.T) {
	below := []string{ruleLine, "  5. Chat about this", "",
		"Enter to select · ↑/↓ to navigate · Esc to cancel"}
	preview := func(first, second string) string {
		return screenOf([]string{ruleLine, " ☐ Layout", "", "Which layout?", "",
			"❯ " + first + " Side     ┌──────┐", "  " + second + " Top      │ page │",
			"              └──────┘", "", "              Notes: press n to add notes", "",
			ruleLine, "  Chat about this", "",
			"Enter to select · ↑/↓ to navigate · n to add notes · Esc to cancel"})
	}
	tests := map[string]struct {
		screen string
		want   string // the first lines of the printed screen
	}{
		"a row at the top is missing": {
			screenOf([]string{ruleLine, " ☐ Colour", "", "Which colour?", "", "  2. Blue",
				"     cold", "❯ 3. Green", "     fresh", "  4. Type something."}, below),
			"unknown: a dialog of Claude Code's that is half drawn"},
		"rows hidden above": {
			screenOf([]string{ruleLine, " ☐ Colour", "", "Which colour?", "", "↑ 2. Blue",
				"     cold", "❯ 3. Green", "     fresh", "  4. Type something."}, below),
			"question above\nquestion \"Which colour?\"\n  2. option Blue"},
		"a numbered question above rows that are hidden above": {
			screenOf([]string{ruleLine, " ☐ Colour", "", "One of these:", "  1. red", "",
				"❯ 3. Green", "     fresh", "  4. Type something."}, below),
			"question above\nquestion \"One of these: 1. red\"\n❯ 3. option Green"},
		"output in the middle of the list": {
			screenOf([]string{ruleLine, " ☐ Colour", "", "Which colour?", "", "❯ 1. Red", "done",
				"  2. Blue", "  3. Green", "  4. Type something."}, below),
			"unknown: a dialog of Claude Code's that is half drawn"},
		"output in the middle of a multi-select": {
			screenOf([]string{ruleLine, "←  ☐ Colour  ✔ Submit  →", "", "Which colours?", "",
				"❯ 1. [ ] Red", "$ ls", "  2. [ ] Blue", "  3. [ ] Green",
				"  4. [ ] Type something", "     Submit"}, below),
			"unknown: a dialog of Claude Code's that is half drawn"},
		"a preview": {preview("1.", "2."),
			"question preview\nquestion \"Which layout?\"\n❯ 1. option Side\n  2. option Top\n     below  Chat about this\n"},
		"a preview without its first": {preview("2.", "3."),
			"unknown: a dialog of Claude Code's that is half drawn"},
		"a preview that is not straight": {preview("1.", "2.000000000"),
			"unknown: a dialog of Claude Code's that is half drawn"},
		"a review whose question has a bullet": {
			screenOf([]string{ruleLine, "←  ☒ Q  ✔ Submit  →", "", "Review your answers", "",
				" ● Which?", " ● Really?", "   → A", "", "❯ 1. Submit answers", "  2. Cancel"}),
			"review\ntabs     ☒ Q ✔ Submit\n❯ 1. option Submit answers\n  2. option Cancel\nanswers  \"● Which? ● Really? → A\"\n"},
		"an empty box while Claude works, told by its hint only": {
			screenOf([]string{ruleLine, "❯ ", ruleLine, "  esc to interrupt"}),
			"prompt busy\n"},
		"a box with the session's name": {
			screenOf([]string{strings.Repeat("─", 47) + " my session ─", "❯ ", ruleLine,
				"  ? for shortcuts"}),
			"prompt\n"},
		"a box in a narrow pane, with the session's name": {
			screenOf([]string{" a name that is longer than the pane is wide, or near… ─", "❯ ",
				ruleLine[:3*56], "  ? for shortcuts"}),
			"prompt\n"},
		"a permission with two cursors": {
			screenOf([]string{ruleLine, " Bash command", "", " Do you want to proceed?",
				" ❯ 1. Yes", " ❯ 2. No", "", " Esc to cancel"}),
			"unknown: a menu that gchat-hooks does not know\n"},
		"a permission": {
			screenOf([]string{ruleLine, " Bash command", "", " Do you want to proceed?",
				"   1. Yes", " ❯ 2. No", "", " Esc to cancel"}),
			"permission\nquestion \"Do you want to proceed?\"\n  1. option Yes\n❯ 2. option No\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := printScreen(ReadScreen(tt.screen))
			kit.True(t, strings.HasPrefix(got, tt.want),
				"is read as\n%s\nwant\n%s…\n%s", got, tt.want, tt.screen)
		})
	}
}

// Claude Code 2.1.332 also draws the session's name below its dialogs.
func TestOddScreen_DialogAboveTheSessionsName(t *testing.T) {
	runForVersions(t, func(t *testing.T, version string) {
		for name, capture := range recordedScreens(t, version) {
			s := ReadScreen(capture)
			named := strings.TrimRight(capture, "\n") + "\n\n\x1b[38;5;244m" +
				strings.Repeat("─", 97) + " my session ─\n"
			got, want := printScreen(ReadScreen(named)), printScreen(s)
			kit.True(t, !s.IsDialog() || got == want,
				"%s is read as\n%s\nwant\n%s", name, got, want)
		}
	})
}

// A later version may name its text field differently. ReadScreen then does not guess
// which row it is.
func TestOddScreen_FieldIsKnownByItsText(t *testing.T) {
	for _, version := range []string{"2.1.197", "2.1.329"} {
		raw := kit.ReadFile(t, filepath.Join("testdata", "screens", version,
			"single-02-open.ansi"))
		other := strings.NewReplacer("Type something.", "Say something.",
			"Type\x1b[39m \x1b[38;5;246msomething.", "Say something.").Replace(raw)
		s := ReadScreen(other)
		kit.True(t, s.Shows == Unknown, "%s: %s", version, printScreen(s))
	}
}
