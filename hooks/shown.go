package hooks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// mostShown bounds what is kept of a command, a diff or a plan, in bytes.
const mostShown = 200 << 10

// mostDeep is how many brackets an input has that is laid out in lines: 9,000 within each other would take a gigabyte.
const mostDeep = 4000

// shownCall is what a person sees before they allow a call. Nothing in it is invisible, and keys of known makers are masked.
type shownCall struct {
	about string   // what it is for, in one line: Claude's words of a command, a file, an address
	shown string   // the command, the diff, or the input, with every other member that is given
	call  []string // what never_remote is held against: the command, the file by all its names, or the whole input
	whole bool     // all of it is shown
}

// permissionShown shows a call of a tool. Members count by their exact names, as Claude Code reads them.
func permissionShown(tool string, input json.RawMessage, folders ...string) (c shownCall) {
	var in map[string]json.RawMessage
	_ = json.Unmarshal(input, &in)
	given := map[string]bool{} // members that stand in what is shown
	text := func(member string) string {
		var w Words
		_ = json.Unmarshal(in[member], &w)
		given[member] = true
		return string(w)
	}
	c.call = []string{string(input)}
	if name := mainInput[tool]; name != "" && text(name) != "" {
		c.call = []string{text(name)}
	}
	about, name, file := "", "", ""
	if fileMembers[tool] != "" && text(fileMembers[tool]) != "" {
		path := text(fileMembers[tool])
		about, name, file = shownPath(path, folders)
		c.call = append(c.call, path, file, name, filepath.Base(file))
	}
	var shown, note string
	switch {
	case state.Shell(tool) && text("command") != "":
		shown, about = text("command"), text("description")
	case tool == "Edit":
		shown = diffOf(text("old_string"), text("new_string"))
		if string(in["replace_all"]) == "true" {
			if was, err := state.ReadPlain(file, mostDiffed); err == nil && text("old_string") != "" {
				note = fmt.Sprintf("replaces %d places in the file", strings.Count(string(was), text("old_string")))
			}
		}
	case tool == "Write":
		var was string
		was, note = writtenOver(file)
		shown = diffOf(was, text("content"))
	default:
		about = cmp.Or(about, text("url"), text("description"))
		var members bytes.Buffer // a line for each
		shown, given = string(input), nil
		deep := bytes.Count(input, []byte("["))+bytes.Count(input, []byte("{")) > mostDeep
		if !deep && json.Indent(&members, input, "", "  ") == nil {
			shown = members.String()
		}
	}
	var notes []string
	for _, member := range slices.Sorted(maps.Keys(in)) {
		if given != nil && !given[member] {
			notes = append(notes, member+": "+string(in[member]))
		}
	}
	if note != "" {
		notes = append(notes, note)
	}
	if given != nil && file != "" && (oneLine(about) != about || markup().MatchString(about)) { // a message's line alters it
		notes = append(notes, "file: "+strconv.Quote(file))
	}
	for _, note := range notes {
		shown = "‹" + note + "›\n" + shown
	}
	c.about, _ = visible(state.ForReview, about)
	c.about = oneLine(c.about)
	c.shown, c.whole = visible(state.ForReview, strings.TrimRight(shown, "\n"))
	c.whole = c.whole && (file == "" || len(c.about) <= state.MostAbout)
	return c
}

// mainInput names the member of a tool's input that says what is going to happen.
var mainInput = map[string]string{
	"Bash": "command", "Monitor": "command", "PowerShell": "command",
	"Edit": "file_path", "MultiEdit": "file_path", "Write": "file_path", "Read": "file_path",
	"NotebookEdit": "notebook_path", "WebFetch": "url", "WebSearch": "query", "ExitPlanMode": "plan",
}

// fileMembers name the member of a tool's input that is a file or a folder.
var fileMembers = map[string]string{
	"Edit": "file_path", "MultiEdit": "file_path", "Write": "file_path", "Read": "file_path", "NotebookEdit": "notebook_path",
	"NotebookRead": "notebook_path", "Glob": "path", "Grep": "path", "LS": "path", "LSP": "filePath", "Artifact": "file_path",
}

// mostDiffed bounds what is read of a file, and compared with what is written in its place, in bytes.
const mostDiffed = 1 << 20

// writtenOver is what stands in the file that a call replaces; note says that something stands there that cannot be shown.
func writtenOver(file string) (was, note string) {
	if b, err := state.ReadPlain(file, mostDiffed); err == nil && utf8.Valid(b) {
		return string(b), ""
	}
	if info, err := os.Lstat(file); err == nil {
		note = fmt.Sprintf("replaces a file of %d bytes, which is not shown", info.Size())
	}
	return "", note
}

// visible is text in which all is seen, keys are masked, and the runs of blanks counted that push the end of a command out of
// sight, of a length that is kept; whole says that it is all of it.
func visible(place state.Place, text string) (shown string, whole bool) {
	shown = state.Clean(place, state.MaskKeys(shorter(text)))
	if place == state.ForReview {
		shown = lettersAlike(shown)
		shown = noOption().ReplaceAllStringFunc(shown, func(begin string) string {
			return strings.NewReplacer("–", "‹U+2013›", "—", "‹U+2014›").Replace(begin)
		})
	}
	shown = noLonger().ReplaceAllStringFunc(shown, func(end string) string {
		return strings.NewReplacer(" ", "‹U+0020›", "\t", "‹U+0009›").Replace(end)
	})
	shown = manyBreaks().ReplaceAllStringFunc(shown, func(run string) string {
		return fmt.Sprintf("\n‹%d blank lines›\n", strings.Count(run, "\n")-1)
	})
	shown = shorter(manyBlanks().ReplaceAllStringFunc(shown, func(run string) string {
		return fmt.Sprintf(" ‹%d blanks› ", utf8.RuneCountInString(run))
	}))
	return shown, len(text) <= mostShown && !strings.Contains(shown, notShown)
}

// lettersAlike writes out the letters that look like those of ASCII, in words that have both: a name that begins with a Cyrillic
// "a" is another name.
func lettersAlike(text string) string {
	if !strings.ContainsFunc(text, isAlike) { // mostly
		return text
	}
	var b strings.Builder
	for text != "" {
		end := strings.IndexFunc(text, func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M, unicode.N) })
		if end < 0 {
			end = len(text)
		}
		both := strings.ContainsFunc(text[:end], func(r rune) bool { return r < utf8.RuneSelf && unicode.IsLetter(r) })
		for _, r := range text[:end] {
			if both && isAlike(r) {
				fmt.Fprintf(&b, "‹U+%04X›", r)
			} else {
				b.WriteRune(r)
			}
		}
		_, size := utf8.DecodeRuneInString(text[end:])
		b.WriteString(text[end : end+size])
		text = text[end+size:]
	}
	return b.String()
}

// isAlike says whether a letter is of a script with such letters, a mathematical one, or the sign for Kelvin.
func isAlike(r rune) bool {
	return r >= utf8.RuneSelf && unicode.In(r, unicode.Greek, unicode.Cyrillic, unicode.Armenian, unicode.Cherokee,
		unicode.Coptic, unicode.Lisu) || r >= 0x1d400 && r <= 0x1d7ff || r == '\u212a'
}

var (
	manyBreaks = state.Pattern(`\n(?:[\t\pZ]*\n){4,}`)
	noOption   = state.Pattern(`(?m)(?:^|[\s"'=])[–—]+[A-Za-z]`) // a long dash before a word makes no option of it
	noLonger   = state.Pattern(`(?m)\\[\t ]+$`)                  // with a blank behind it, a backslash ends no line for a shell
	manyBlanks = state.Pattern(`[\t\pZ]{40,}`)
)

// shownPath is a path as a person has to see it: where it leads, whatever links are in it, from the first folder where it is
// below that, and marked where it is below none. name is that without marks, and file where it leads from the root.
func shownPath(path string, folders []string) (shown, name, file string) {
	direct := filepath.Clean(path)
	if !filepath.IsAbs(direct) && len(folders) > 0 {
		direct = filepath.Join(folders[0], direct)
	}
	file = resolved(direct)
	name = file
	outside, linked := true, file != direct
	for i, folder := range slices.Backward(folders) {
		rel, err := filepath.Rel(resolved(folder), file)
		if err != nil || !filepath.IsAbs(folder) || !filepath.IsLocal(rel) {
			continue
		}
		outside, linked = false, linked && filepath.Join(folder, rel) != direct
		if i == 0 {
			name = rel
		}
	}
	shown = name
	if outside {
		shown += " (outside of the folder)"
	}
	if linked {
		shown += " (through the link " + path + ")"
	}
	return shown, name, file
}

// mostLinks is how many links a path may have; Linux follows as many.
const mostLinks = 40

// resolved is where a path leads: links in it are followed, also one to a file that is not there yet.
func resolved(path string) string {
	at, left, links := "/", strings.Split(filepath.ToSlash(path), "/"), 0
	for len(left) > 0 {
		name := left[0]
		left = left[1:]
		next := filepath.Join(at, name)
		to, err := os.Readlink(next)
		if err != nil {
			at = next
			continue
		}
		if links++; links > mostLinks {
			return path
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		left = append(strings.Split(to, "/"), left...)
	}
	return at
}

// around is how many equal lines stand before and after those that change.
const around = 3

// diffOf shows what becomes of a text: "-" and "+" begin the lines that go and come, a blank those around them.
func diffOf(was, is string) string {
	a, b := strings.SplitAfter(was, "\n"), strings.SplitAfter(is, "\n")
	begin, end := 0, 0 // equal lines; comparing takes long
	for begin < min(len(a), len(b)) && a[begin] == b[begin] {
		begin++
	}
	for end < min(len(a), len(b))-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	begin, end = max(0, begin-around), max(0, end-around-1) // behind the last line break there is one more
	cut := func(lines []string) []byte { return []byte(strings.Join(lines[begin:len(lines)-end], "")) }
	lines := strings.Split(string(diff.Diff("", cut(a), "", cut(b))), "\n")
	lines = lines[min(len(lines), 4):] // the names, and where the first change is
	for i, l := range lines {
		if strings.HasPrefix(l, "@@ ") {
			lines[i] = "⋯"
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), "\n\\ No newline at end of file", "")
}

// oneLine is a text with its white space, line breaks too, as single spaces.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// notShown ends the note about what is left out of a text.
const notShown = " bytes are not shown›"

// shorter keeps the beginning and the end of what is too long.
func shorter(s string) string {
	if len(s) <= mostShown {
		return s
	}
	const half = mostShown / 2
	return strings.ToValidUTF8(fmt.Sprintf("%s\n‹%d%s\n%s", s[:half], len(s)-2*half, notShown, s[len(s)-half:]), "")
}

// alwaysAllows says in Claude Code's words what it would allow from now on; "" where that is nothing, or of a kind that this
// version does not know: a person cannot agree to what they cannot read. Nor is anything offered that may go round never_remote:
// beside it only rules of tools that it does not name, for which never answers.
func alwaysAllows(suggestions json.RawMessage, guarded bool, never func(tool string) bool) string {
	var all []struct {
		Type        string   `json:"type"`
		Behavior    string   `json:"behavior"`
		Permissions string   `json:"mode"`
		Destination string   `json:"destination"`
		Directories []string `json:"directories"`
		Rules       []struct {
			Tool    string `json:"toolName"`
			Content string `json:"ruleContent"`
		} `json:"rules"`
	}
	if json.Unmarshal(suggestions, &all) != nil {
		return ""
	}
	places := map[string]string{
		"session": "in this session", "localSettings": "in this project (.claude/settings.local.json)",
		"projectSettings": "in this project, for all who have it (.claude/settings.json)", "userSettings": "in all projects",
	}
	var words []string
	for _, s := range all {
		var what []string
		switch {
		case s.Type == "addRules" && s.Behavior == "allow":
			for _, rule := range s.Rules {
				if rule.Tool == "" || guarded && (ofSeveral(rule.Tool) || slices.ContainsFunc(alsoAllowed(rule.Tool), never)) {
					return ""
				}
				if rule.Content != "" {
					rule.Tool += "(" + rule.Content + ")"
				}
				what = append(what, rule.Tool)
			}
		case guarded:
			return ""
		case s.Type == "addDirectories" && s.Behavior == "":
			for _, dir := range s.Directories {
				if dir == "" {
					return ""
				}
				what = append(what, "access to "+dir)
			}
		case s.Type == "setMode" && s.Permissions == "acceptEdits" && s.Behavior == "":
			what = append(what, acceptsEdits)
		}
		if len(what) == 0 || places[s.Destination] == "" {
			return ""
		}
		words = append(words, strings.Join(what, ", ")+" "+places[s.Destination])
	}
	shown, whole := visible(state.ForReview, strings.Join(words, "; "))
	if !whole || len(shown) > state.MostAbout || oneLine(shown) != shown || strings.Contains(shown, "`") {
		return "" // one line of code cannot show it as it is
	}
	return shown
}

// ofSeveral says whether a rule of that name is for several tools: all of an MCP server, or those that a star stands for.
func ofSeveral(tool string) bool {
	return strings.Contains(tool, "*") || strings.HasPrefix(tool, "mcp__") && strings.Count(tool, "__") == 1
}

// alsoAllowed are the tools whose calls a rule of a tool may allow: a folder that may be read is read by commands, too.
func alsoAllowed(tool string) []string {
	if fileMembers[tool] == "" {
		return []string{tool}
	}
	return append(slices.Collect(maps.Keys(fileMembers)), "Bash", tool)
}

// acceptsEdits is what Claude Code calls its mode acceptEdits (2.1.329: "auto-approve file edits and common file commands"), with
// the commands that it lets through in the working folder.
const acceptsEdits = "all edits and common file commands (mkdir, touch, rm, rmdir, mv, cp, sed)"

// planShown is the text of a plan, as the call's input has it, else as its file has it, which the transcript names. With now, it
// is what the file says that the input names: 2.1.332 goes on with that. whole says that it was found, and all of it is shown.
func planShown(input json.RawMessage, transcript string, now bool) (plan string, whole bool) {
	var in map[string]Words
	_ = json.Unmarshal(input, &in)
	plan = string(in["plan"])
	file := ""
	switch {
	case plan == "":
		file = planFile(transcript)
	case now:
		file = string(in["planFilePath"])
	}
	if strings.HasSuffix(file, ".md") && filepath.IsAbs(file) {
		if b, err := state.ReadPlain(file, 1<<20); err == nil {
			plan = string(b)
		}
	}
	plan, whole = visible(state.ForPlan, strings.TrimSpace(plan))
	return plan, whole && plan != ""
}

// planFile is the file of the session's plan, which an attachment in the transcript names when plan mode begins.
func planFile(transcript string) (path string) {
	end, _, _ := inject.TranscriptEnd(transcript, endBytes)
	for line := range bytes.Lines(end) {
		if !bytes.Contains(line, []byte(`"planFilePath"`)) {
			continue
		}
		var e struct {
			Attachment struct {
				Type string `json:"type"`
				File Words  `json:"planFilePath"`
			} `json:"attachment"`
		}
		if json.Unmarshal(line, &e) == nil && strings.HasPrefix(e.Attachment.Type, "plan_mode") && e.Attachment.File != "" {
			path = string(e.Attachment.File)
		}
	}
	return path
}
