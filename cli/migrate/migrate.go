// Package migrate moves a harness folder from a relay agent to gchat-hooks. The relay is
// the persistent agent s3-communicator, to which other agents send messages for Google
// Chat. gchat-send and the hooks replace it. The files that Claude Code loads as that
// agent are moved aside. No document is rewritten: each line that is about the relay is
// listed, with what to write instead.
package migrate

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gchat-hooks/state"
)

const (
	relayName  = "s3-communicator"
	archiveDir = ".claude/skills/_archived"
)

// moves are the paths where Claude Code finds the relay, as a skill and as an agent. Each
// has a path that Claude Code does not load, to which the relay is moved.
var moves = [][2]string{
	{".claude/skills/" + relayName, archiveDir + "/" + relayName},
	{".claude/agents/" + relayName + ".md", archiveDir + "/" + relayName + "-agent.md"},
}

// skippedPaths are folders whose files give no session instructions. A repository within
// the harness is skipped, too: it has to be migrated by itself.
var skippedPaths = []string{
	".claude/state",
	".claude/logs",
	".claude/worktrees",
	".claude/projects",
	archiveDir,
	".git",
	"node_modules",
}

// Run moves the relay aside in the folder that holds .claude. Without apply it only
// prints what it would move. Then it lists the lines that a person has to change. A
// second run moves nothing. If the folder is no harness, it fails with a hint.
func Run(out io.Writer, dir string, apply bool) error {
	dir, err := filepath.Abs(dir)
	info, statErr := os.Lstat(filepath.Join(dir, ".claude"))
	if err != nil || statErr != nil || !info.IsDir() {
		return &state.UserError{
			Err: errors.New("no harness in " + dir),
			Hint: "gchat-hooks migrate s3-communicator --harness DIR, " +
				"where DIR is the folder that holds .claude",
			Code: 1,
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	h := &harness{root: root, out: out}
	moved, err := h.moveRelay(apply)
	switch {
	case err != nil:
		return err
	case moved == 0:
		fmt.Fprintln(out, "Nothing to move.")
	case apply:
		fmt.Fprintln(out, "Start new sessions: running sessions keep their old instructions.")
	default:
		fmt.Fprintln(out, "Nothing was written. To do it, add --apply.")
	}
	fmt.Fprintln(out, "\nLines that you have to change yourself, if any are listed:")
	err = h.listMentions()
	if h.hasOutputStyle {
		fmt.Fprintf(out, "\nAdd this to the output style:\n\n%s", styleText)
	}
	return err
}

// harness is a harness folder. Everything is read and moved through an os.Root, so that
// no link leads out of the folder.
type harness struct {
	root           *os.Root
	out            io.Writer
	hasOutputStyle bool // a line of an output style is listed
}

// moveRelay moves the relay aside. Without apply it only prints and counts what it would
// move.
func (h *harness) moveRelay(apply bool) (moved int, err error) {
	for _, move := range moves {
		switch {
		case !h.exists(move[0]):
			continue
		case h.exists(move[1]):
			h.printPlace(move[0], "is not moved: "+move[1]+" exists already")
			continue
		case apply:
			err = errors.Join(h.root.MkdirAll(archiveDir, 0o755), h.root.Rename(move[0], move[1]))
			if err != nil {
				return moved, err
			}
			fmt.Fprintf(h.out, "moved %s to %s\n", move[0], move[1])
		default:
			fmt.Fprintf(h.out, "would move %s to %s\n", move[0], move[1])
		}
		moved++
	}
	return moved, nil
}

func (h *harness) exists(p string) bool {
	_, err := h.root.Lstat(p)
	return err == nil
}

// listMentions lists the lines that name the relay, in the order of their paths.
func (h *harness) listMentions() error {
	mention, todos := patterns()
	return fs.WalkDir(h.root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		isRelay := p == moves[0][0] || p == moves[1][0]
		isSkipped := slices.Contains(skippedPaths, p) ||
			slices.Contains(skippedPaths, path.Base(p)) ||
			p != "." && h.exists(p+"/.git")
		switch {
		case err != nil && p == ".":
			return err
		case err != nil:
			h.printPlace(p, "is not searched: it cannot be read")
			return fs.SkipDir
		case d.IsDir() && (isRelay || isSkipped):
			return fs.SkipDir
		case d.Type().IsRegular() && !isRelay:
			h.listFile(p, d, mention, todos)
		case d.Type()&fs.ModeSymlink != 0 && strings.HasPrefix(p, ".claude/"):
			h.printPlace(p, "is a link, and links are not followed")
		}
		return nil
	})
}

// todo is what a person has to do about a line that matches its pattern.
type todo struct {
	pattern *regexp.Regexp
	advice  string
}

// patterns returns the pattern of a line that names the relay, and the todos for such
// lines, of which the first match counts. The patterns are compiled here, not at
// start-up, where they would slow down every hook.
func patterns() (mention *regexp.Regexp, todos []todo) {
	compile := func(expr string) *regexp.Regexp { return regexp.MustCompile(`(?i)` + expr) }
	const starts = `\b(spawn|start|launch|wait)|\b(Skill|Task|Agent)\(|\b(name|subagent_type)["']?\s*[=:]`
	const sends = `SendMessage|\b(recipient|to)["']?\s*[=:]\s*["']s3-`
	return compile(
			`\bs3[-_ ]?communicator\b|\bcommunicator(_checker)?\b|\b(3\+?|three)( [a-z]+)? agents\b`,
		), []todo{
			{compile(sends), `replace the message with Bash("gchat-send --type plain 'TEXT'")`},
			{
				compile(`communicator_checker`),
				"have the stop gate run `gchat-hooks hook gchat-stop-gate` instead",
			},
			{compile(`\b(3\+?|three)( [a-z]+)? agents\b`), "count one agent fewer"},
			{compile(`^\s*\|`), "remove the row"},
			{compile(starts), "remove it: nothing is started or awaited"},
			{compile(``), "check it: no agent relays messages"},
		}
}

// listFile lists the lines of one file.
func (h *harness) listFile(p string, d fs.DirEntry, mention *regexp.Regexp, todos []todo) {
	info, err := d.Info()
	var b []byte
	if err == nil && info.Size() <= 1<<20 {
		b, err = h.root.ReadFile(p)
	}
	if err != nil || len(b) < int(info.Size()) {
		h.printPlace(p, "is not searched: it cannot be read, or is larger than 1 MB")
	}
	for i, line := range strings.Split(string(b), "\n") {
		if mention.MatchString(strings.ReplaceAll(line, archiveDir+"/"+relayName, "")) {
			at := slices.IndexFunc(todos, func(t todo) bool { return t.pattern.MatchString(line) })
			h.printPlace(p+":"+strconv.Itoa(i+1), todos[at].advice)
		}
	}
}

// printPlace prints a place that a person has to look at, and what to do there.
func (h *harness) printPlace(place, advice string) {
	fmt.Fprintf(h.out, "    %s: %s\n", state.OneLine(place), advice)
	h.hasOutputStyle = h.hasOutputStyle || strings.HasPrefix(place, ".claude/output-styles/")
}

// styleText goes into the harness's output style. It tells the orchestrator what the
// reason of a denied question also says: no agent has to poll for the answer.
//
//go:embed style.md
var styleText string
