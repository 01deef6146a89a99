package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat"
	"gchat-hooks/hooks"
	"gchat-hooks/hooks/wake"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

func (p Program) completionCommand() *cli.Command {
	return &cli.Command{
		Name:        "completion",
		Usage:       "print a script that completes command lines, for bash, zsh or fish",
		ArgsUsage:   "bash|zsh|fish",
		Description: "In ~/.bashrc:   source <(gchat-hooks completion bash)",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "words", Hidden: true, Usage: "as the scripts ask: what can stand last"}},
		Action: func(c *cli.Context) error {
			if c.Bool("words") {
				return completion{os.Getenv, p.out, wordsOf(c.App.Name, "", c.App.Flags, c.App.Commands)}.print(c.Args().Slice())
			}
			return completion{}.script(p.out, c.Args().First(), p.self)
		},
	}
}

// wordsOf is a command as completion sees it.
func wordsOf(name, usage string, flags []cli.Flag, subs []*cli.Command) commandWords {
	w := commandWords{name: name, usage: usage}
	for _, f := range append(slices.Clip(flags), cli.HelpFlag) {
		if v, ok := f.(cli.DocGenerationFlag); ok && f.(cli.VisibleFlag).IsVisible() {
			about := strings.ReplaceAll(v.GetUsage(), "`", "")
			if !slices.ContainsFunc(w.flags, func(have flagWords) bool { return have.names[0] == f.Names()[0] }) {
				w.flags = append(w.flags, flagWords{f.Names(), about, v.TakesValue()})
			}
		}
	}
	for _, c := range subs {
		if !c.Hidden && (c.Name != "help" || name == "gchat-hooks") { // the library gives each command one
			w.subs = append(w.subs, wordsOf(c.Name, c.Usage, c.Flags, c.Subcommands))
		}
	}
	return w
}

// completion says what can stand next on a command line. It has nothing to do with the library's own way, which adds a
// hidden flag to every command and prints to stdout from within it: hooks must never come near that.
type completion struct {
	env  state.Getenv
	out  io.Writer
	root commandWords
}

// commandWords are a command as completion sees it.
type commandWords struct {
	name, usage string
	flags       []flagWords
	subs        []commandWords
}

type flagWords struct {
	names []string
	usage string
	value bool // it takes one
}

// candidate is a word that can stand there.
type candidate struct{ word, about string }

// files says that a file's name can stand there, which shells know better.
var files = []candidate{{word: ":files"}}

// print prints the candidates for the last of these words, one a line, with a tab before what is said about it. The first
// word is the name that the program was called by.
func (c completion) print(words []string) error {
	for _, one := range c.complete(words) {
		if _, err := fmt.Fprintf(c.out, "%s\t%s\n", one.word, state.OneLine(one.about)); err != nil {
			return err
		}
	}
	return nil
}

func (c completion) complete(words []string) []candidate {
	if len(words) < 2 {
		return nil
	}
	name, current := commandCalled(filepath.Base(words[0])), words[len(words)-1]
	words = words[1 : len(words)-1]
	if name != "" {
		words = append([]string{name}, words...)
	} else if len(words) > 0 && commandCalled(words[0]) != "" {
		words = append([]string{commandCalled(words[0])}, words[1:]...)
	}
	at, path, given := c.root, "", 0
	var open *flagWords // whose value stands next
	for i, w := range words {
		switch {
		case w == "=" && i > 0 && strings.HasPrefix(words[i-1], "-"): // bash takes --flag=value for three words
			open = at.flag(words[i-1])
		case open != nil:
			open = nil
		case strings.HasPrefix(w, "-") && !strings.Contains(w, "="):
			if f := at.flag(w); f != nil && f.value {
				open = f
			}
		case strings.HasPrefix(w, "-"):
		default:
			if sub := at.sub(w); sub != nil && given == 0 {
				at, path = *sub, strings.TrimSpace(path+" "+sub.name)
				continue
			}
			given++
		}
	}
	if current == "=" && open != nil {
		current = ""
	}
	before := ""
	if name, value, joined := strings.Cut(current, "="); joined && strings.HasPrefix(name, "-") {
		if open = at.flag(name); open == nil {
			return nil
		}
		before, current = name+"=", value
	}
	var all []candidate
	switch {
	case open != nil:
		all = c.values(path, open.names[0], 0)
	case strings.HasPrefix(current, "-"):
		for _, f := range at.flags {
			all = append(all, candidate{"--" + f.names[0], f.usage})
		}
	case len(at.subs) > 0 && given == 0:
		for _, sub := range at.subs {
			all = append(all, candidate{sub.name, sub.usage})
		}
	default:
		all = c.values(path, "", given)
	}
	if slices.Equal(all, files) {
		return all
	}
	all = slices.DeleteFunc(slices.Clone(all), func(one candidate) bool { return !strings.HasPrefix(one.word, current) })
	for i := range all {
		all[i].word = before + all[i].word
	}
	return all
}

func (w commandWords) flag(name string) *flagWords {
	name, _, _ = strings.Cut(strings.TrimLeft(name, "-"), "=")
	for i := range w.flags {
		if slices.Contains(w.flags[i].names, name) {
			return &w.flags[i]
		}
	}
	return nil
}

func (w commandWords) sub(name string) *commandWords {
	for i := range w.subs {
		if w.subs[i].name == name {
			return &w.subs[i]
		}
	}
	return nil
}

// values are what a flag takes, or, with "", what can be the n-th word of a command.
func (c completion) values(command, flag string, n int) []candidate {
	switch strings.TrimSpace(command + " " + flag) {
	case "answer":
		if n > 0 {
			return nil
		}
		return c.openQuestions()
	case "wait": // the words of --first-of
		return c.openQuestions()
	case "wait question-id", "wait thread-key", "wait first-of":
		return c.openQuestions()
	case "wait marker", "verify report", "space data", "poller pending-dir":
		return files
	case "send type":
		return words("task_completion", "progress_update", "blocked_alert", "heartbeat", "session_start", "session_end", "error", "plain")
	case "logs level":
		return words(logLevels...)
	case "logs session":
		return c.sessions()
	case "completion":
		if n == 0 {
			return words("bash", "zsh", "fish")
		}
	case "hook":
		if n == 0 {
			return words(slices.Concat(hooks.Names(), wake.Names())...)
		}
	case "menu":
		if n == 1 {
			return words("snapshot", "choose", "type", "submit", "enter", "esc", "clear_then")
		}
	}
	return nil
}

func words(all ...string) (cs []candidate) {
	for _, w := range all {
		cs = append(cs, candidate{word: w})
	}
	return cs
}

func (c completion) poller() *poller.Poller {
	return &poller.Poller{Env: c.env, Log: state.NewLog(c.env, "completion")}
}

// openQuestions are the keys of the threads of open questions: what a person sees in Chat, and what every command takes.
func (c completion) openQuestions() (cs []candidate) {
	for _, q := range c.poller().Unanswered() {
		key := q.ThreadKey
		if key == "" {
			key = q.QuestionID
		}
		if key != state.OneLine(key) {
			continue // no name that a shell could take
		}
		about := q.SessionName
		if len(q.Questions) > 0 {
			about += ": " + q.Questions[0].Question
		}
		cs = append(cs, candidate{key, gchat.Cut(state.OneLine(about), 100)})
	}
	return cs
}

func (c completion) sessions() (cs []candidate) {
	names := map[string]string{}
	running, _ := state.LedgersIn(state.UserState(c.env)).Running()
	for _, l := range running {
		names[l.SessionName] = l.ProjectDir
	}
	for _, q := range c.poller().AllQuestions() {
		names[q.SessionName] = q.ProjectDir
	}
	for name, dir := range names {
		if name != "" && name == state.OneLine(name) {
			cs = append(cs, candidate{name, dir})
		}
	}
	slices.SortFunc(cs, func(a, b candidate) int { return strings.Compare(a.word, b.word) })
	return cs
}

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
		return usage(fmt.Errorf("completion takes bash, zsh or fish"), "gchat-hooks completion --help")
	}
	_, err := io.WriteString(out, strings.NewReplacer("PROGRAM", quoted, "NAMES", completedNames).Replace(script))
	return err
}
