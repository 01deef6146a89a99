package main

import (
	"fmt"
	"io"
	"strings"
)

// completedNames are the names that a shell completes for.
const completedNames = "gchat-hooks gchat-send gchat-wait gchat-response-poller menu-driver"

// The scripts ask the program itself what can stand next, so that they never grow old: each line is a word, a tab, and what
// is said about it. In bash, words go back quoted: a session's name is whatever somebody called it, and what is completed is
// one Enter away from being run.
const bashScript = `# bash completion for gchat-hooks; in ~/.bashrc: source <(gchat-hooks completion bash)
_gchat_hooks() {
    local line word
    COMPREPLY=()
    while IFS= read -r line; do
        word="${line%%$'\t'*}"
        if [ "$word" = ":files" ]; then
            compopt -o default 2>/dev/null # bash 3 has none
            return 0
        fi
        COMPREPLY+=("$(printf '%q' "$word")")
    done < <(PROGRAM completion --words -- "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null)
}
complete -F _gchat_hooks NAMES
`

const zshScript = `#compdef NAMES
# zsh completion for gchat-hooks; in ~/.zshrc, after compinit: source <(gchat-hooks completion zsh)
_gchat_hooks() {
    local -a described
    local line word
    while IFS= read -r line; do
        word="${line%%$'\t'*}"
        if [[ "$word" == ":files" ]]; then
            _files
            return
        fi
        described+=("${word//:/\\:}:${line#*$'\t'}")
    done < <(PROGRAM completion --words -- "${(@)words[1,CURRENT]}" 2>/dev/null)
    _describe -t gchat-hooks 'gchat-hooks' described
}
if [[ "$funcstack[1]" == "_gchat_hooks" ]]; then
    _gchat_hooks "$@"
else
    compdef _gchat_hooks NAMES
fi
`

const fishScript = `# fish completion for gchat-hooks: gchat-hooks completion fish >~/.config/fish/completions/gchat-hooks.fish
function __gchat_hooks
    set -l words (commandline -opc) (commandline -ct)
    for line in (PROGRAM completion --words -- $words 2>/dev/null)
        if string match -q ':files*' -- $line
            __fish_complete_path (commandline -ct)
        else
            printf '%s\n' $line
        end
    end
end
for name in NAMES
    complete -c $name -f -a '(__gchat_hooks)'
end
`

// script prints the script of a shell, which calls this program where it is.
func (completion) script(out io.Writer, shell, self string) error {
	script, quoted := "", "'"+strings.ReplaceAll(self, "'", `'\''`)+"'"
	switch shell {
	case "bash":
		script = bashScript
	case "zsh":
		script = zshScript
	case "fish":
		script = fishScript
		quoted = "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(self) + "'"
	default:
		return usageError{fmt.Errorf("completion takes bash, zsh or fish"), "gchat-hooks completion --help"}
	}
	_, err := io.WriteString(out, strings.NewReplacer("PROGRAM", quoted, "NAMES", completedNames).Replace(script))
	return err
}
