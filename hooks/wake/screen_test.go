package wake

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/hooks"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// paneFromFile returns a pane that shows a recorded screen.
func paneFromFile(t *testing.T, path string) pane {
	t.Helper()
	styled := kit.ReadFile(t, path)
	plain := state.Clean(state.ForAgent, styled)
	s := paneOf(strings.Split(strings.TrimRight(plain, "\n "), "\n"))
	s.Screen = styled
	s.keepLastLines(100)
	return s
}

// paneOf returns a pane with these lines, without styles.
func paneOf(lines []string) pane {
	p := pane{Snapshot: inject.Snapshot{Lines: lines, Screen: strings.Join(lines, "\n") + "\n"}}
	p.keepLastLines(100)
	return p
}

// These are recorded screens of the measured versions. The name of each says what it
// shows.
func TestScreen_StateOfRecordings(t *testing.T) {
	states := map[string]string{
		"box-01-idle": idleState, "box-02-type-a-draft": idleState, "multi-00-idle": idleState,
		"busy-00-busy": workingState, "busy-01-type-a-draft-while-busy": workingState,
		"permission-02-open": permissionState, "permission-03-Down": permissionState,
		"plan-01-open": permissionState, "edit-01-edit": permissionState,
		"multi-02-open": menuState, "multi-09-Tab": menuState, "longq-01-open": menuState,
		"preview-01-open": menuState, "planq-01-open": menuState,
		"broken-00-broken": menuState,
		// The dialog before a session in a new folder was recorded only of 2.1.329.
		"trust-00-trust": menuState, "trust-01-Down": menuState, "trust-02-60x15": menuState,
	}
	for _, version := range []string{"2.1.197", "2.1.329"} {
		for name, want := range states {
			if version == "2.1.197" && strings.HasPrefix(name, "trust") {
				continue
			}
			path := filepath.Join("..", "..", "inject", "testdata", "screens",
				version, name+".ansi")
			f := wakeHook{trigger: triggers["notification-idle-hook"], event: &hooks.Event{},
				pane: paneFromFile(t, path)}
			kit.Equalf(t, f.stateHint(), want, "%s", path)
			kit.Equalf(t, f.pane.contextPressure(50), "unknown", "%s: pressure", path)
		}
	}
}

// paneWithBox returns a screen of Claude Code with lines above and below the input box.
func paneWithBox(above, below []string) pane {
	rule := strings.Repeat("─", 40)
	return paneOf(slices.Concat(above, []string{"", rule, "❯ ", rule}, below))
}

func TestScreen_StateHint(t *testing.T) {
	plain := func(lines ...string) pane { return paneOf(lines) }
	turn := paneWithBox([]string{"● Looking.", "", "✻ Choreographing… (3s · ↓ 20 tokens)"}, nil)
	for name, c := range map[string]struct {
		hook string
		pane
		want string
	}{
		"a box":                          {"stop-hook", paneWithBox([]string{"● Done."}, nil), idleState},
		"a turn that ends":               {"stop-hook", turn, idleState},
		"a turn that goes on":            {"notification-idle-hook", turn, workingState},
		"a turn that needs a permission": {"notification-permission-hook", turn, workingState},
		"a turn that is compacted":       {"pre-compact-hook", turn, workingState},
		"a box that is compacted": {"pre-compact-hook",
			paneWithBox([]string{"● Done."}, nil), workingState},
		"an end": {"session-end-hook", paneWithBox([]string{"● Done."}, nil), terminatedState},
		"an API error": {"stop-hook",
			paneWithBox([]string{"❯ go on", "", "  ⎿  API Error: 500 overloaded"},
				nil), errorState},
		"an error that is over": {"stop-hook",
			paneWithBox([]string{"  ⎿  API Error: 500 overloaded", "", "● Now it works."},
				nil), idleState},
		"an unknown menu": {"stop-hook",
			plain("Pick one", "  a", "Enter to select · Esc"), menuState},
		"an unknown question": {"stop-hook", plain("Do you want to allow this?"), permissionState},
		"the mode is no question": {"stop-hook",
			plain("bypass permissions on (shift+tab to cycle) do you want to "), idleState},
		"a program's error": {"stop-hook", plain("make", "error: no rule"), errorState},
		"a program that tells of an error": {"stop-hook",
			plain("there was an error: failed to build"), errorState},
		"an error that occurred": {"stop-hook",
			plain("An error occurred: no space left"), errorState},
		"a build":                {"stop-hook", plain("make", "Build failed"), errorState},
		"a build, with its time": {"stop-hook", plain("BUILD FAILED in 3s"), errorState},
		"a build in a box": {"stop-hook",
			paneWithBox([]string{"● Bash(make)", "  ⎿  Build failed"}, nil), errorState},
		"a build that is repaired": {"stop-hook",
			paneWithBox([]string{"● Build failed earlier, and now it works."}, nil), idleState},
		"no test failed": {"stop-hook",
			plain("Tests failed: 0", "4 passed, 0 failed", "no error: all is well"), idleState},
		"no such command": {"stop-hook", plain("bash: foo: command not found"), errorState},
		"no such command in a script": {"stop-hook",
			plain("./x.sh: line 3: foo: command not found"), errorState},
		"no such command, in zsh":  {"stop-hook", plain("zsh: command not found: foo"), errorState},
		"no such command, in dash": {"stop-hook", plain("sh: 1: foo: not found"), errorState},
		"no such command, in a box": {"stop-hook",
			paneWithBox([]string{"● Bash(foo)", "  ⎿  bash: foo: command not found"},
				nil), errorState},
		"a folder to be trusted": {"stop-hook",
			plain("1. Yes, I trust this folder", "Enter to confirm · Esc to exit"), menuState},
		"a permission is needed": {"stop-hook",
			plain("Claude needs your permission to use Bash"), permissionState},
		"nothing known":           {"stop-hook", plain("hello"), idleState},
		"nothing known, but idle": {"notification-idle-hook", plain("hello"), idleState},
		"nothing known, but asked": {"notification-permission-hook", plain("hello"),
			permissionState},
		"no screen":                    {"stop-hook", pane{}, errorState},
		"no screen at the end":         {"session-end-hook", pane{}, terminatedState},
		"a question says it by itself": {"pre-tool-use-hook", plain("hello"), awaitingState},
	} {
		f := wakeHook{trigger: triggers[c.hook],
			event: &hooks.Event{Reason: "prompt_input_exit"}, pane: c.pane}
		kit.Equalf(t, f.stateHint(), c.want, "%s", name)
	}
	for _, reason := range []hooks.LooseText{"clear", "resume"} { // Claude Code stays in its pane
		f := wakeHook{trigger: triggers["session-end-hook"], event: &hooks.Event{Reason: reason}}
		kit.Equalf(t, f.stateHint(), idleState, "%s", reason)
	}
}

func TestScreen_ContextPressure(t *testing.T) {
	plain := func(lines ...string) pane { return paneOf(lines) }
	for name, c := range map[string]struct {
		pane
		want string
	}{
		"a status line": {paneWithBox([]string{"● 99% done"},
			[]string{"  opus │ ████░░░░ 47%"}), "47% [OK]"},
		"at the threshold": {paneWithBox(nil, []string{"  opus 50%"}), "50% [WARNING]"},
		"below it":         {paneWithBox(nil, []string{"  opus 49 %"}), "49% [OK]"},
		"critical":         {paneWithBox(nil, []string{"  opus 80%"}), "80% [CRITICAL]"},
		"full":             {paneWithBox(nil, []string{"  100%"}), "100% [CRITICAL]"},
		"what is left": {paneWithBox(nil,
			[]string{"  Context left until auto-compact: 8%"}), "92% [CRITICAL]"},
		"remaining": {paneWithBox(nil,
			[]string{"  Context low (12% remaining) · Run /compact"}), "88% [CRITICAL]"},
		"the context before others": {paneWithBox(nil,
			[]string{"  ctx: 30% · battery 81%", "  cpu 97%"}), "30% [OK]"},
		"before its word":   {paneWithBox(nil, []string{"  31% of context"}), "31% [OK]"},
		"a fraction":        {paneWithBox(nil, []string{"  ctx 47.5%"}), "47% [OK]"},
		"a fraction, named": {paneWithBox(nil, []string{"  Context: 85.2%"}), "85% [CRITICAL]"},
		"something else is left": {paneWithBox(nil,
			[]string{"  $3.10 (2h 45m left) | 12%"}), "12% [OK]"},
		"other things remain": {paneWithBox(nil, []string{"  ctx 83% · 3 todos remaining"}),
			"83% [CRITICAL]"},
		"left, short": {paneWithBox(nil, []string{"  ctx 12% left"}), "88% [CRITICAL]"},
		"until, after its number": {paneWithBox(nil, []string{"  12% until auto-compact"}),
			"88% [CRITICAL]"},
		"until, and left": {paneWithBox(nil,
			[]string{"  12% context left until auto-compact"}), "88% [CRITICAL]"},
		"until, after its limits": {paneWithBox(nil,
			[]string{"  5h 90% · 12% until auto-compact · 7d 3%"}), "88% [CRITICAL]"},
		"left before its number": {paneWithBox(nil,
			[]string{"  5h 90% | left until auto-compact: 12%"}), "88% [CRITICAL]"},
		"somebody else's left": {paneWithBox(nil, []string{"  5h 10% left | ctx 47%"}), "47% [OK]"},
		"its word after it":    {paneWithBox(nil, []string{"  47% ctx | 5h 90%"}), "47% [OK]"},
		"its word after it, commas": {paneWithBox(nil,
			[]string{"  opus, 47% of the context, 90% weekly"}), "47% [OK]"},
		"its word after it, last": {paneWithBox(nil, []string{"  5h 90% | 47% ctx"}), "47% [OK]"},
		"its word before it": {paneWithBox(nil,
			[]string{"  5h 90% | ctx 47% | 7d 12%"}), "47% [OK]"},
		"its word before it, bare": {paneWithBox(nil, []string{"  cpu 97% ctx 47%"}), "47% [OK]"},
		"its word before its size": {paneWithBox(nil,
			[]string{"  cpu 97% context used 94k/200k 47%"}), "47% [OK]"},
		"a bar between": {paneWithBox(nil, []string{"  5h 90% | ctx [███░░░] 47%"}), "47% [OK]"},
		"no percentage": {paneWithBox([]string{"● 99% done"},
			[]string{"  ? for shortcuts"}), "unknown"},
		"too much":           {paneWithBox(nil, []string{"  140%"}), "unknown"},
		"a part of a number": {paneWithBox(nil, []string{"  1234%"}), "unknown"},
		"another program":    {plain("12%", "a", "b", "c", "d", "77%", ""), "77% [WARNING]"},
		"too far up":         {plain("12%", "a", "b", "c", "d", "e"), "unknown"},
		"nothing":            {pane{}, "unknown"},
	} {
		kit.Equalf(t, c.contextPressure(50), c.want, "%s", name)
	}
}

func TestScreen_LinesAreCleaned(t *testing.T) {
	got := cleanLines([]string{"  indented", "╭──────╮", "│ boxed  text │", "", "   ",
		"▐▛███▜▌ logo", "red \x1b[31mtext\x1b[0m", "hid\u200bden", "trailing   "})
	want := []string{"  indented", "boxed text", "logo", "red text", "hidden", "trailing"}
	kit.Equal(t, got, want)
}
