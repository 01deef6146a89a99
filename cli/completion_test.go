package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/state"
)

// completing is a person's machine with an open question of a session with a hostile name, and the script of a shell.
func completing(t *testing.T, shell string) (env []string, script, dir string) {
	t.Helper()
	if _, err := exec.LookPath(shell); err != nil {
		t.Skipf("needs %s", shell)
	}
	built, env, folder := machineOf(t, 1)
	q := ask(t, folder, 1)
	if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error { q.SessionName = `$(touch pwned) "x'`; return nil }); err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	program := filepath.Join(dir, "it's here", "gchat-hooks")
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(built, program); err != nil {
		t.Fatal(err)
	}
	script = filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte(run(t, env, program, "completion", shell)), 0o600); err != nil {
		t.Fatal(err)
	}
	return env, script, dir
}

// What bash offers when Tab is pressed behind a line.
func TestBashCompletion(t *testing.T) {
	env, script, dir := completing(t, "bash")
	press := func(line string) []string {
		cmd := exec.Command("bash", "--norc", "-c", `
source "$1"
eval "COMP_WORDS=($2)"
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_gchat_hooks "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" ""
printf '%s\n' "${COMPREPLY[@]}"`, "bash", script, line)
		cmd.Env, cmd.Dir = env, dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", line, err, out)
		}
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	for line, want := range map[string]string{
		`gchat-hooks stat`:                           "status",
		`gchat-hooks answer ''`:                      "ask-user-00000001 ask-user-00000000",
		`gchat-hooks answer ask-user-00000000 ''`:    "",
		`gchat-wait --question-id ask`:               "ask-user-00000001 ask-user-00000000",
		`gchat-hooks wait --first-of ask-user-1 ask`: "ask-user-00000001 ask-user-00000000",
		`gchat-hooks logs --level = er`:              "error",
		`gchat-hooks logs --session '$(to'`:          `\$\(touch\ pwned\)\ \"x\'`,
		`gchat-send --type blo`:                      "blocked_alert",
		`gchat-hooks completion ''`:                  "bash zsh fish",
	} {
		if got := strings.Join(press(line), " "); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
		t.Error("a session's name was run")
	}
}

// As far as they are here: what they would offer.
func TestOtherShellsComplete(t *testing.T) {
	for shell, press := range map[string]string{
		"zsh":  `autoload -Uz compinit; compinit -D; source "$1"; words=(gchat-hooks answer ask); CURRENT=3; _describe() { print -l -- "${(@P)4}"; }; _gchat_hooks`,
		"fish": `source $argv[1]; complete -C 'gchat-hooks answer ask'`,
	} {
		t.Run(shell, func(t *testing.T) {
			env, script, dir := completing(t, shell)
			args := []string{"-c", press}
			if shell == "zsh" {
				args = append(args, "zsh")
			}
			cmd := exec.Command(shell, append(args, script)...)
			cmd.Env, cmd.Dir = env, dir
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Count(string(out), "\n") != 2 || !strings.Contains(string(out), "ask-user-00000000") || !strings.Contains(string(out), "$(touch pwned)") {
				t.Errorf("%v: %s", err, out)
			}
			if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
				t.Error("a session's name was run")
			}
		})
	}
}
