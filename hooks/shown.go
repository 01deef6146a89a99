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
	"golang.org/x/text/unicode/norm"

	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// mostShown bounds what is kept of a command, a diff or a plan, in bytes.
const mostShown = 200 << 10

// mostDeep is how many brackets an input has that is laid out in lines: 9,000 within each other would take a gigabyte.
const mostDeep = 4000

// shownCall is what a person sees before they allow a call. Nothing in it is invisible, and keys of known makers are masked.
type shownCall struct {
	about string   // what it is for, in one line: Claude's words of a command, a file, an address
	shown string   // the command, the diff, or the input, with every other member that is given
	call  []string // what never_remote is held against: the command, the file by all its names, the folders of a search, or the whole input
	whole bool     // all of it is shown
}

// callInput is what a tool is called with. Members count by their exact names, as Claude Code
// reads them.
type callInput struct {
	members map[string]json.RawMessage
	given   map[string]bool // those that stand in what is shown
}

// text is a member that is given; "" where it is no text.
func (in callInput) text(member string) string {
	if member == "" {
		return ""
	}
	var w Words
	_ = json.Unmarshal(in.members[member], &w)
	in.given[member] = true
	return string(w)
}

// permissionShown shows a call of a tool.
func permissionShown(tool string, input json.RawMessage, folders ...string) (c shownCall) {
	in := callInput{given: map[string]bool{}}
	_ = json.Unmarshal(keepSurrogates(input), &in.members)
	c.call = []string{cmp.Or(in.text(mainInput[tool]), string(input))}
	about, file := "", ""
	if path := in.text(fileMembers[tool]); path != "" {
		var name string
		about, name, file = shownPath(path, folders)
		c.call = append(c.call, path, file, name, filepath.Base(file))
	}
	if fileMembers[tool] == "path" { // a search may read all that is below its folder
		path := in.text("path")
		for _, path := range []string{path, patternFolder(path, in.text("pattern"))} {
			_, _, folder := shownPath(path, folders)
			c.call = append(c.call, strings.TrimSuffix(folder, "/")+"/")
		}
	}
	var shown, note string
	isLaidOut := false // with all its members
	switch {
	case state.Shell(tool) && in.text("command") != "":
		shown, about = in.text("command"), in.text("description")
	case tool == "Edit":
		shown = diffOf(in.text("old_string"), in.text("new_string"))
		if string(in.members["replace_all"]) == "true" {
			note = replacedNote(file, in.text("old_string"))
		}
	case tool == "Write":
		var was string
		was, note = writtenOver(file)
		shown = diffOf(was, in.text("content"))
	default:
		if !strings.HasPrefix(tool, "mcp__") { // a server's own words say nothing of what it does
			about = cmp.Or(about, in.text("url"), in.text("description"))
		}
		shown, isLaidOut = membersShown(input), true
	}
	var notes []string
	if !isLaidOut {
		notes = append(membersBeside(in), nonEmpty(note, alteredName(about, file))...)
	}
	c.about, _ = visible(state.ForReview, about)
	c.about = oneLine(c.about)
	c.shown, c.whole = visible(state.ForReview, strings.TrimRight(shown, "\n"))
	for _, note := range notes {
		text, whole := visible(state.ForReview, note)
		c.shown = "‹" + text + "›\n" + c.shown
		c.whole = c.whole && whole
	}
	c.whole = c.whole && len(c.shown) <= mostShown && (file == "" || len(c.about) <= state.MostAbout)
	return c
}

// alteredName is the name of a file as it is, where the line of a message that has it alters it;
// else "".
func alteredName(about, file string) string {
	if file == "" || oneLine(about) == about && !markup().MatchString(about) {
		return ""
	}
	return "file: " + strconv.Quote(file)
}

// replacedNote says in how many places of a file a text stands that is replaced in all of them.
func replacedNote(file, text string) string {
	was, err := state.ReadPlain(file, mostDiffed)
	if err != nil || text == "" {
		return ""
	}
	return fmt.Sprintf("replaces %d places in the file", strings.Count(string(was), text))
}

// membersBeside are the members of a call that do not stand in what is shown of it, a note each.
func membersBeside(in callInput) (notes []string) {
	for _, member := range slices.Sorted(maps.Keys(in.members)) {
		if !in.given[member] {
			note := member + ": " + membersShown(in.members[member])
			notes = append(notes, strings.Replace(note, ": \n", ":\n", 1))
		}
	}
	return notes
}

// membersShown lays a tool's input out: a line for each member, and for a string with line
// breaks a block of lines that begin with "|", as no other line does.
func membersShown(input json.RawMessage) string {
	isDeep := bytes.Count(input, []byte("["))+bytes.Count(input, []byte("{")) > mostDeep
	var laidOut bytes.Buffer
	if isDeep || json.Indent(&laidOut, input, "", "  ") != nil {
		return string(input)
	}
	return linesOfText().ReplaceAllStringFunc(laidOut.String(), func(line string) string {
		parts := linesOfText().FindStringSubmatch(line)
		indent, member, literal := parts[1], parts[2], parts[3]
		var text string
		isExact := !strings.Contains(literal, `\ud`) // half of a pair of surrogates would become another sign
		if !isExact || json.Unmarshal([]byte(literal), &text) != nil {
			return line
		}
		return indent + member + "\n" + indent + "| " + strings.ReplaceAll(text, "\n", "\n"+indent+"| ")
	})
}

// linesOfText matches a line of indented JSON that holds a string with a line break: its
// indent, its member's name, and the string.
var linesOfText = state.Pattern(`(?m)^( *)("(?:[^"\\]|\\.)*":|) ?("(?:[^"\\]|\\[^n])*\\n(?:[^"\\]|\\.)*"),?$`)

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
	begin, end, left := cutMiddle(text)
	shown = seen(place, begin)
	if left > 0 {
		shown += fmt.Sprintf("\n‹%d bytes are not shown›\n", left) + seen(place, end)
	}
	if begin, end, also := cutMiddle(shown); also > 0 { // marks make it longer
		left += also
		shown = begin + fmt.Sprintf("\n‹%d bytes are not shown›\n", also) + end
	}
	return shown, left == 0
}

// seen is text in which all is seen; see visible.
func seen(place state.Place, text string) string {
	if place == state.ForReview {
		text = hostsAsASCII(text)
	}
	shown := state.Review(place, text)
	if place == state.ForReview {
		shown = lettersAlike(shown)
	}
	shown = noLonger().ReplaceAllStringFunc(shown, func(end string) string {
		return strings.NewReplacer(" ", "‹U+0020›", "\t", "‹U+0009›").Replace(end)
	})
	shown = manyBreaks().ReplaceAllStringFunc(shown, func(run string) string {
		return fmt.Sprintf("\n‹%d blank lines›\n", strings.Count(run, "\n")-1)
	})
	return manyBlanks().ReplaceAllStringFunc(shown, func(run string) string {
		return fmt.Sprintf(" ‹%d blanks› ", utf8.RuneCountInString(run))
	})
}

// hostsAsASCII writes the hosts of addresses as they are looked up: in Punycode, where they
// are not ASCII.
func hostsAsASCII(text string) string {
	if !strings.ContainsFunc(text, isForeign) { // mostly
		return text
	}
	return hostOfAddress().ReplaceAllStringFunc(text, func(address string) string {
		parts := hostOfAddress().FindStringSubmatch(address)
		return parts[1] + config.HostAsASCII(parts[2])
	})
}

func isForeign(r rune) bool { return r >= utf8.RuneSelf }

// lettersAlike writes out foreign letters and digits that could pass for ASCII's: those in a
// word that has both, unless they are an ASCII letter with an accent, and all of a word in
// which each looks like ASCII. A name that begins with a Cyrillic "a" is another name.
func lettersAlike(text string) string {
	if !strings.ContainsFunc(text, isForeign) { // mostly
		return text
	}
	var b strings.Builder
	for text != "" {
		end := strings.IndexFunc(text, func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M, unicode.N) })
		if end < 0 {
			end = len(text)
		}
		word := text[:end]
		isMixed := strings.ContainsFunc(word, func(r rune) bool { return !isForeign(r) })
		isPosing := !isMixed && !strings.ContainsFunc(word, func(r rune) bool { return !state.LooksASCII(r) })
		for _, r := range word {
			if isPosing || isMixed && isOdd(r) {
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

// isOdd reports whether a letter or digit is written out in a word that has ASCII, too. An
// accent is none, nor is a letter of ASCII with one. Scripts that are written without blanks
// stand beside ASCII in ordinary text.
func isOdd(r rune) bool {
	if !isForeign(r) || unicode.IsMark(r) {
		return false
	}
	if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo) {
		return state.LooksASCII(r)
	}
	letter, size := utf8.DecodeRuneInString(norm.NFD.String(string(r)))
	accents := norm.NFD.String(string(r))[size:]
	return isForeign(letter) || accents == ""
}

var (
	manyBreaks = state.Pattern(`\n(?:[\t\pZ]*\n){4,}`)
	noLonger   = state.Pattern(`(?m)\\[\t ]+$`) // with a blank behind it, a backslash ends no line for a shell
	manyBlanks = state.Pattern(`[\t\pZ]{40,}`)

	// hostOfAddress matches what begins an address, and its host: behind a name and password, before a port.
	hostOfAddress = state.Pattern(`((?i)[a-z][a-z0-9+.-]*://(?:[^\s/?#"'@]*@)?)([^\s/?#"'@:\\\x60]+)`)
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

// patternFolder is the folder that a search's pattern leads to, from the folder of the search.
func patternFolder(folder, pattern string) string {
	if end := strings.IndexAny(pattern, "*?[{"); end >= 0 {
		pattern = pattern[:end]
	}
	leads := pattern[:strings.LastIndex(pattern, "/")+1]
	if filepath.IsAbs(leads) {
		return leads
	}
	return filepath.Join(folder, leads)
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

// cutMiddle is the beginning and the end of what is too long, and how many bytes it leaves
// out between them.
func cutMiddle(s string) (begin, end string, left int) {
	if len(s) <= mostShown {
		return s, "", 0
	}
	const half = mostShown / 2
	begin, end = strings.ToValidUTF8(s[:half], ""), strings.ToValidUTF8(s[len(s)-half:], "")
	return begin, end, len(s) - 2*half
}

// alwaysAllows says in Claude Code's words what it would allow from now on; "" where that is nothing, or of a kind that this
// version does not know: a person cannot agree to what they cannot read. Nor is anything offered that may go round never_remote:
// beside it only rules of tools that it does not name, for which never answers. local is where a rule of the project's own lands.
func alwaysAllows(suggestions json.RawMessage, guarded bool, never func(tool string) bool, local string) string {
	var all []suggestion
	if json.Unmarshal(suggestions, &all) != nil {
		return ""
	}
	places := map[string]string{
		"session": "in this session", "localSettings": local,
		"projectSettings": "in this project, for all who have it (.claude/settings.json)", "userSettings": "in all projects",
	}
	var words []string
	for _, s := range all {
		what := s.allows(guarded, never)
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

// suggestion is what Claude Code would do from now on, where a person allows a call always.
type suggestion struct {
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

// allows is what a suggestion allows, in Claude Code's words; nil where it is not offered. See
// alwaysAllows.
func (s suggestion) allows(guarded bool, never func(tool string) bool) (what []string) {
	switch {
	case s.Type == "addRules" && s.Behavior == "allow":
		for _, rule := range s.Rules {
			if rule.Tool == "" || guarded && (ofSeveral(rule.Tool) || slices.ContainsFunc(alsoAllowed(rule.Tool), never)) {
				return nil
			}
			if rule.Content != "" {
				rule.Tool += "(" + rule.Content + ")"
			}
			what = append(what, rule.Tool)
		}
	case guarded:
		return nil
	case s.Type == "addDirectories" && s.Behavior == "":
		for _, dir := range s.Directories {
			if dir == "" {
				return nil
			}
			what = append(what, "access to "+dir)
		}
	case s.Type == "setMode" && s.Permissions == "acceptEdits" && s.Behavior == "":
		what = []string{acceptsEdits}
	}
	return what
}

// localRules says where Claude Code writes a project's own rules: from a worktree, 2.1.332 writes them into the main checkout,
// and 2.1.197 into the worktree. Between these it was not looked at.
func localRules(project, version string) string {
	const file = ".claude/settings.local.json"
	b, err := state.ReadPlain(filepath.Join(project, ".git"), 1<<16)
	main, _, isWorktree := strings.Cut(strings.TrimPrefix(string(b), "gitdir: "), "/.git/worktrees/")
	var v [3]int
	_, unknown := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	switch {
	case err != nil || !isWorktree:
		return "in this project (" + file + ")"
	case unknown != nil || slices.Compare(v[:], []int{2, 1, 197}) > 0 && slices.Compare(v[:], []int{2, 1, 332}) < 0:
		return "in this worktree, or in its main checkout (" + file + ")"
	case slices.Compare(v[:], []int{2, 1, 332}) >= 0:
		return "in the main checkout (" + filepath.Join(main, file) + ")"
	}
	return "in this worktree (" + file + ")"
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
	_ = json.Unmarshal(keepSurrogates(input), &in)
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
