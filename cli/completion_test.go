package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// completing is a program at a path that needs quoting, and the script of a shell, as far as that is here.
func completing(t *testing.T, shell string) (script, dir string) {
	t.Helper()
	if _, err := exec.LookPath(shell); err != nil {
		t.Skipf("needs %s", shell)
	}
	dir = t.TempDir()
	self := filepath.Join(dir, "it's here", "gchat-hooks")
	if err := os.MkdirAll(filepath.Dir(self), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(program(t), self); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(self, "completion", shell).Output()
	if err != nil {
		t.Fatal(err)
	}
	script = filepath.Join(dir, "script")
	if err := os.WriteFile(script, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return script, dir
}

// What bash offers when Tab is pressed behind a line. Nothing of the line is run.
func TestBashCompletion(t *testing.T) {
	script, dir := completing(t, "bash")
	for line, want := range map[string]string{
		`gchat-hooks stat`:                           "status",
		`gchat-hooks poller unin`:                    "uninstall",
		`gchat-hooks status --js`:                    "--json",
		`gchat-hooks logs --lev`:                     "--level",
		`/x/gchat-send --ty`:                         "--type",
		`gchat-hooks send '$(touch ran)' `:           "",
		`gchat-hooks hook gchat-ask-user-forward --`: "",
		`gchat-send --dry -`:                         "",
	} {
		cmd := exec.Command("bash", "--norc", "-c", `
source "$1"
eval "COMP_WORDS=($2)"
case $2 in *" ") COMP_WORDS+=("") ;; esac
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_gchat_hooks "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" ""
printf '%s\n' "${COMPREPLY[@]}"`, "bash", script, line)
		cmd.Env, cmd.Dir = []string{"HOME=" + dir, "PATH=/usr/bin:/bin"}, dir
		out, err := cmd.CombinedOutput()
		got := strings.Join(strings.Fields(string(out)), " ")
		if err != nil || got != want && (want != "" || strings.Contains(line, "hook ")) {
			t.Errorf("%s: %v: %q, want %q", line, err, got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("what was typed was run")
	}
}

func TestOtherShellsComplete(t *testing.T) {
	for shell, press := range map[string]string{
		"zsh":  `autoload -Uz compinit; compinit -D; source "$1"; words=(gchat-hooks stat); CURRENT=2; _describe() { print -l -- "${(@P)4}"; }; _gchat_hooks`,
		"fish": `source $argv[1]; complete -C 'gchat-hooks stat'`,
	} {
		t.Run(shell, func(t *testing.T) {
			script, dir := completing(t, shell)
			args := []string{"-c", press}
			if shell == "zsh" {
				args = append(args, "zsh")
			}
			cmd := exec.Command(shell, append(args, script)...)
			cmd.Env, cmd.Dir = []string{"HOME=" + dir, "PATH=/usr/bin:/bin"}, dir
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "status") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
