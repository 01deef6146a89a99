package cli

import (
	"errors"
	"io"
	"strings"

	"github.com/urfave/cli/v2"
)

func (p Program) completionCommand() *cli.Command {
	return &cli.Command{
		Name:        "completion",
		Usage:       "print a script that completes commands and flags, for bash, zsh or fish",
		ArgsUsage:   "bash|zsh|fish",
		Description: "In ~/.bashrc:   source <(gchat-hooks completion bash)",
		Action: func(c *cli.Context) error {
			script, ok := completionScripts[c.Args().First()]
			if !ok {
				return usage(errors.New("completion takes bash, zsh or fish"), "gchat-hooks completion --help")
			}
			quoted := "'" + strings.ReplaceAll(p.self, "'", `'\''`) + "'" // for fish, too: it takes \' outside of quotes
			names := strings.NewReplacer("PROGRAM", quoted, "NAMES", "gchat-hooks gchat-send gchat-wait")
			_, err := io.WriteString(p.out, names.Replace(script))
			return err
		},
	}
}

// completionFlag ends a command line that asks what can stand next: the library answers with commands, or with flags behind
// a "-"; a lone "--" it takes for the end of the flags. main runs hooks before it, and with no input they print nothing.
const completionFlag = "--generate-bash-completion"

// completionScripts ask this program itself, by its path: what is typed is never run.
var completionScripts = map[string]string{
	"bash": `# bash completion for gchat-hooks; in ~/.bashrc: source <(gchat-hooks completion bash)
_gchat_hooks() {
    local IFS=$'\n' word="${COMP_WORDS[COMP_CWORD]}" words=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
    [ "${1##*/}" = gchat-hooks ] || words=("${1##*/}" "${words[@]}")
    case "$word" in --) words+=(-) ;; -*) words+=("$word") ;; esac
    COMPREPLY=($(compgen -W "$(PROGRAM "${words[@]}" ` + completionFlag + ` </dev/null 2>/dev/null)" -- "$word"))
}
complete -o default -F _gchat_hooks NAMES
`,
	"zsh": `#compdef NAMES
# zsh completion for gchat-hooks; in ~/.zshrc, after compinit: source <(gchat-hooks completion zsh)
_gchat_hooks() {
    local -a typed found
    typed=("${(@)words[2,CURRENT-1]}")
    [[ "${words[1]:t}" == gchat-hooks ]] || typed=("${words[1]:t}" "${(@)typed}")
    [[ "${words[CURRENT]}" == -* ]] && typed+=("${words[CURRENT]/#%--/-}")
    found=("${(@f)$(_CLI_ZSH_AUTOCOMPLETE_HACK=1 PROGRAM "${(@)typed}" ` + completionFlag + ` </dev/null 2>/dev/null)}")
    [[ -n "$found[1]" ]] && _describe -t gchat-hooks gchat-hooks found || _files
}
[[ "$funcstack[1]" == "_gchat_hooks" ]] && _gchat_hooks "$@" || compdef _gchat_hooks NAMES
`,
	"fish": `# fish completion for gchat-hooks: gchat-hooks completion fish >~/.config/fish/completions/gchat-hooks.fish
function __gchat_hooks
    set -l words (commandline -opc)
    set -l name (basename $words[1])
    set -e words[1]
    test $name = gchat-hooks; or set -p words $name
    string match -q -- '-*' (commandline -ct); and set -a words (string replace -r '^--$' - -- (commandline -ct))
    PROGRAM $words ` + completionFlag + ` </dev/null 2>/dev/null
end
for name in NAMES
    complete -c $name -a '(__gchat_hooks)'
end
`,
}
