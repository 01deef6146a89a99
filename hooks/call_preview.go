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

// maxShownBytes bounds what is kept of a command, a diff or a plan, in bytes.
const maxShownBytes = 200 << 10

// maxBrackets is how many brackets an input has that is laid out in lines: 9,000 within
// each other would take a gigabyte.
const maxBrackets = 4000

// callPreview is what a person sees before they allow a call. Nothing in it is invisible,
// and keys of known makers are masked.
type callPreview struct {
	// what it is for, in one line: Claude's words of a command, a file, an address
	about string
	// the command, the diff, or the input, with every other member that is given
	text string
	// what never_remote is held against: the command, the file by all its names, the
	// folders of a search, or the whole input
	ruleTexts  []string
	isComplete bool // all of it is shown
}

// callInput is what a tool is called with. Members count by their exact names, as Claude
// Code reads them.
type callInput struct {
	members map[string]json.RawMessage
	isShown map[string]bool // those that stand in what is shown
}

// takeText is a member that is given; "" where it is no text.
func (in callInput) takeText(member string) string {
	if member == "" {
		return ""
	}
	var text LooseText
	_ = json.Unmarshal(in.members[member], &text)
	in.isShown[member] = true
	return string(text)
}

// previewCall shows a call of a tool.
func previewCall(tool string, input json.RawMessage, folders ...string) (preview callPreview) {
	in := callInput{isShown: map[string]bool{}}
	_ = json.Unmarshal(keepSurrogates(input), &in.members)
	preview.ruleTexts = []string{cmp.Or(in.takeText(mainInputMember[tool]), string(input))}
	about, file := "", ""
	if path := in.takeText(fileInputMember[tool]); path != "" {
		var name string
		about, name, file = displayPath(path, folders)
		preview.ruleTexts = append(preview.ruleTexts, path, file, name, filepath.Base(file))
	}
	if fileInputMember[tool] == "path" { // a search may read all that is below its folder
		path := in.takeText("path")
		for _, path := range []string{path, patternFolder(path, in.takeText("pattern"))} {
			_, _, folder := displayPath(path, folders)
			preview.ruleTexts = append(preview.ruleTexts, strings.TrimSuffix(folder, "/")+"/")
		}
	}
	var shown, note string
	isFormatted := false // with all its members
	switch {
	case state.IsShellTool(tool) && in.takeText("command") != "":
		shown, about = in.takeText("command"), in.takeText("description")
	case tool == "Edit":
		shown = diffText(in.takeText("old_string"), in.takeText("new_string"))
		if string(in.members["replace_all"]) == "true" {
			note = replaceAllNote(file, in.takeText("old_string"))
		}
	case tool == "Write":
		var before string
		before, note = replacedContent(file)
		shown = diffText(before, in.takeText("content"))
	default:
		if !strings.HasPrefix(tool, "mcp__") { // a server's own words say nothing of what it does
			about = cmp.Or(about, in.takeText("url"), in.takeText("description"))
		}
		shown, isFormatted = formatMembers(input), true
	}
	var notes []string
	if !isFormatted {
		notes = append(otherMemberNotes(in), nonEmpty(note, alteredNameNote(about, file))...)
	}
	preview.about, _ = visibleText(state.ForReview, about)
	preview.about = oneLine(preview.about)
	preview.text, preview.isComplete = visibleText(state.ForReview, strings.TrimRight(shown, "\n"))
	for _, note := range notes {
		text, isComplete := visibleText(state.ForReview, note)
		preview.text = "‹" + text + "›\n" + preview.text
		preview.isComplete = preview.isComplete && isComplete
	}
	preview.isComplete = preview.isComplete && len(preview.text) <= maxShownBytes &&
		(file == "" || len(preview.about) <= state.MaxAboutLength)
	return preview
}

// alteredNameNote is the name of a file as it is, where the line of a message that has it
// alters it; else "".
func alteredNameNote(about, file string) string {
	if file == "" || oneLine(about) == about && !markupPattern().MatchString(about) {
		return ""
	}
	return "file: " + strconv.Quote(file)
}

// replaceAllNote says in how many places of a file a text stands that is replaced in all
// of them.
func replaceAllNote(file, text string) string {
	content, err := state.ReadPlain(file, maxDiffedBytes)
	if err != nil || text == "" {
		return ""
	}
	return fmt.Sprintf("replaces %d places in the file", strings.Count(string(content), text))
}

// otherMemberNotes are the members of a call that do not stand in what is shown of it, a
// note each.
func otherMemberNotes(in callInput) (notes []string) {
	for _, member := range slices.Sorted(maps.Keys(in.members)) {
		if !in.isShown[member] {
			note := member + ": " + formatMembers(in.members[member])
			notes = append(notes, strings.Replace(note, ": \n", ":\n", 1))
		}
	}
	return notes
}

// formatMembers lays a tool's input out: a line for each member, and for a string with
// line breaks a block of lines that begin with "|", as no other line does.
func formatMembers(input json.RawMessage) string {
	isTooDeep := bytes.Count(input, []byte("["))+bytes.Count(input, []byte("{")) > maxBrackets
	var indented bytes.Buffer
	if isTooDeep || json.Indent(&indented, input, "", "  ") != nil {
		return string(input)
	}
	return multilineStringPattern().ReplaceAllStringFunc(indented.String(), func(line string) string {
		parts := multilineStringPattern().FindStringSubmatch(line)
		indent, member, literal := parts[1], parts[2], parts[3]
		var text string
		// half of a pair of surrogates would become another sign
		isExact := !strings.Contains(literal, `\ud`)
		if !isExact || json.Unmarshal([]byte(literal), &text) != nil {
			return line
		}
		return indent + member + "\n" + indent + "| " + strings.ReplaceAll(
			text,
			"\n",
			"\n"+indent+"| ",
		)
	})
}

// multilineStringPattern matches a line of indented JSON that holds a string with a line
// break: its indent, its member's name, and the string.
var multilineStringPattern = state.LazyPattern(
	`(?m)^( *)("(?:[^"\\]|\\.)*":|) ?("(?:[^"\\]|\\[^n])*\\n(?:[^"\\]|\\.)*"),?$`,
)

// mainInputMember names the member of a tool's input that says what is going to happen.
var mainInputMember = map[string]string{
	"Bash": "command", "Monitor": "command", "PowerShell": "command",
	"Edit": "file_path", "MultiEdit": "file_path", "Write": "file_path", "Read": "file_path",
	"NotebookEdit": "notebook_path", "WebFetch": "url", "WebSearch": "query", "ExitPlanMode": "plan",
}

// fileInputMember name the member of a tool's input that is a file or a folder.
var fileInputMember = map[string]string{
	"Edit": "file_path", "MultiEdit": "file_path", "Write": "file_path", "Read": "file_path", "NotebookEdit": "notebook_path",
	"NotebookRead": "notebook_path", "Glob": "path", "Grep": "path", "LS": "path", "LSP": "filePath", "Artifact": "file_path",
}

// maxDiffedBytes bounds what is read of a file, and compared with what is written in its
// place, in bytes.
const maxDiffedBytes = 1 << 20

// replacedContent is what stands in the file that a call replaces; note says that
// something stands there that cannot be shown.
func replacedContent(file string) (content, note string) {
	if b, err := state.ReadPlain(file, maxDiffedBytes); err == nil && utf8.Valid(b) {
		return string(b), ""
	}
	if info, err := os.Lstat(file); err == nil {
		note = fmt.Sprintf("replaces a file of %d bytes, which is not shown", info.Size())
	}
	return "", note
}

// visibleText is text in which all is seen, keys are masked, and the runs of blanks
// counted that push the end of a command out of sight, of a length that is kept; whole
// says that it is all of it.
func visibleText(place state.TextPlace, text string) (shown string, isComplete bool) {
	head, tail, omitted := cutMiddle(text)
	shown = escapeHidden(place, head)
	if omitted > 0 {
		shown += fmt.Sprintf("\n‹%d bytes are not shown›\n", omitted) + escapeHidden(place, tail)
	}
	if head, tail, omittedAgain := cutMiddle(shown); omittedAgain > 0 { // marks make it longer
		omitted += omittedAgain
		shown = head + fmt.Sprintf("\n‹%d bytes are not shown›\n", omittedAgain) + tail
	}
	return shown, omitted == 0
}

// escapeHidden is text in which all is seen; see visible.
func escapeHidden(place state.TextPlace, text string) string {
	if place == state.ForReview {
		text = hostsAsASCII(text)
	}
	shown := state.CleanForReview(place, text)
	if place == state.ForReview {
		shown = escapeLookalikes(shown)
	}
	shown = brokenContinuationPattern().ReplaceAllStringFunc(shown, func(lineEnd string) string {
		return strings.NewReplacer(" ", "‹U+0020›", "\t", "‹U+0009›").Replace(lineEnd)
	})
	shown = blankLinesPattern().ReplaceAllStringFunc(shown, func(run string) string {
		return fmt.Sprintf("\n‹%d blank lines›\n", strings.Count(run, "\n")-1)
	})
	return blankRunPattern().ReplaceAllStringFunc(shown, func(run string) string {
		return fmt.Sprintf(" ‹%d blanks› ", utf8.RuneCountInString(run))
	})
}

// hostsAsASCII writes the hosts of addresses as they are looked up: in Punycode, where
// they are not ASCII.
func hostsAsASCII(text string) string {
	if !strings.ContainsFunc(text, isNonASCII) { // mostly
		return text
	}
	return addressHostPattern().ReplaceAllStringFunc(text, func(address string) string {
		parts := addressHostPattern().FindStringSubmatch(address)
		return parts[1] + config.HostAsASCII(parts[2])
	})
}

func isNonASCII(r rune) bool { return r >= utf8.RuneSelf }

// escapeLookalikes writes out foreign letters and digits that could pass for ASCII's:
// those in a word that has both, unless they are an ASCII letter with an accent, and all
// of a word in which each looks like ASCII. A name that begins with a Cyrillic "a" is
// another name.
func escapeLookalikes(text string) string {
	if !strings.ContainsFunc(text, isNonASCII) { // mostly
		return text
	}
	var b strings.Builder
	for text != "" {
		end := strings.IndexFunc(
			text,
			func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M, unicode.N) },
		)
		if end < 0 {
			end = len(text)
		}
		word := text[:end]
		isMixed := strings.ContainsFunc(word, func(r rune) bool { return !isNonASCII(r) })
		isAllLookalike := !isMixed &&
			!strings.ContainsFunc(word, func(r rune) bool { return !state.IsASCIILookalike(r) })
		for _, r := range word {
			if isAllLookalike || isMixed && isEscapedInASCIIWord(r) {
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

// isEscapedInASCIIWord reports whether a letter or digit is written out in a word that
// has ASCII, too. An accent is none, nor is a letter of ASCII with one. Scripts that are
// written without blanks stand beside ASCII in ordinary text.
func isEscapedInASCIIWord(r rune) bool {
	if !isNonASCII(r) || unicode.IsMark(r) {
		return false
	}
	if unicode.In(
		r,
		unicode.Han,
		unicode.Hiragana,
		unicode.Katakana,
		unicode.Hangul,
		unicode.Bopomofo,
	) {
		return state.IsASCIILookalike(r)
	}
	letter, size := utf8.DecodeRuneInString(norm.NFD.String(string(r)))
	accents := norm.NFD.String(string(r))[size:]
	return isNonASCII(letter) || accents == ""
}

var (
	blankLinesPattern = state.LazyPattern(`\n(?:[\t\pZ]*\n){4,}`)
	// with a blank behind it, a backslash ends no line for a shell
	brokenContinuationPattern = state.LazyPattern(`(?m)\\[\t ]+$`)
	blankRunPattern           = state.LazyPattern(`[\t\pZ]{40,}`)

	// addressHostPattern matches what begins an address, and its host: behind a name and
	// password, before a port.
	addressHostPattern = state.LazyPattern(
		`((?i)[a-z][a-z0-9+.-]*://(?:[^\s/?#"'@]*@)?)([^\s/?#"'@:\\\x60]+)`,
	)
)

// displayPath is a path as a person has to see it: where it leads, whatever links are in
// it, from the first folder where it is below that, and marked where it is below none.
// name is that without marks, and file where it leads from the root.
func displayPath(path string, folders []string) (shown, name, file string) {
	absolute := filepath.Clean(path)
	if !filepath.IsAbs(absolute) && len(folders) > 0 {
		absolute = filepath.Join(folders[0], absolute)
	}
	file = resolveLinks(absolute)
	name = file
	isOutside, isLinked := true, file != absolute
	for i, folder := range slices.Backward(folders) {
		rel, err := filepath.Rel(resolveLinks(folder), file)
		if err != nil || !filepath.IsAbs(folder) || !filepath.IsLocal(rel) {
			continue
		}
		isOutside, isLinked = false, isLinked && filepath.Join(folder, rel) != absolute
		if i == 0 {
			name = rel
		}
	}
	shown = name
	if isOutside {
		shown += " (outside of the folder)"
	}
	if isLinked {
		shown += " (through the link " + path + ")"
	}
	return shown, name, file
}

// patternFolder is the folder that a search's pattern leads to, from the folder of the
// search.
func patternFolder(folder, pattern string) string {
	if end := strings.IndexAny(pattern, "*?[{"); end >= 0 {
		pattern = pattern[:end]
	}
	folderPart := pattern[:strings.LastIndex(pattern, "/")+1]
	if filepath.IsAbs(folderPart) {
		return folderPart
	}
	return filepath.Join(folder, folderPart)
}

// maxLinks is how many links a path may have; Linux follows as many.
const maxLinks = 40

// resolveLinks is where a path leads: links in it are followed, also one to a file that
// is not there yet.
func resolveLinks(path string) string {
	current, remaining, links := "/", strings.Split(filepath.ToSlash(path), "/"), 0
	for len(remaining) > 0 {
		name := remaining[0]
		remaining = remaining[1:]
		next := filepath.Join(current, name)
		target, err := os.Readlink(next)
		if err != nil {
			current = next
			continue
		}
		if links++; links > maxLinks {
			return path
		}
		if filepath.IsAbs(target) {
			current = "/"
		}
		remaining = append(strings.Split(target, "/"), remaining...)
	}
	return current
}

// diffContextLines is how many equal lines stand before and after those that change.
const diffContextLines = 3

// diffText shows what becomes of a text: "-" and "+" begin the lines that go and come, a
// blank those around them.
func diffText(before, after string) string {
	beforeLines, afterLines := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	equalBefore, equalAfter := 0, 0 // equal lines; comparing takes long
	for equalBefore < min(len(beforeLines), len(afterLines)) && beforeLines[equalBefore] == afterLines[equalBefore] {
		equalBefore++
	}
	for equalAfter < min(len(beforeLines), len(afterLines))-equalBefore && beforeLines[len(beforeLines)-1-equalAfter] == afterLines[len(afterLines)-1-equalAfter] {
		equalAfter++
	}
	// behind the last line break there is one more
	equalBefore, equalAfter = max(
		0,
		equalBefore-diffContextLines,
	), max(
		0,
		equalAfter-diffContextLines-1,
	)
	middleOf := func(lines []string) []byte { return []byte(strings.Join(lines[equalBefore:len(lines)-equalAfter], "")) }
	lines := strings.Split(
		string(diff.Diff("", middleOf(beforeLines), "", middleOf(afterLines))),
		"\n",
	)
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

// cutMiddle is the beginning and the end of what is too long, and how many bytes it
// leaves out between them.
func cutMiddle(s string) (head, tail string, omitted int) {
	if len(s) <= maxShownBytes {
		return s, "", 0
	}
	const half = maxShownBytes / 2
	head, tail = strings.ToValidUTF8(s[:half], ""), strings.ToValidUTF8(s[len(s)-half:], "")
	return head, tail, len(s) - 2*half
}

// alwaysRulesText says in Claude Code's words what it would allow from now on; "" where
// that is nothing, or of a kind that this version does not know: a person cannot agree to
// what they cannot read. Nor is anything offered that may go round never_remote: beside
// it only rules of tools that it does not name, for which never answers. local is where a
// rule of the project's own lands.
func alwaysRulesText(
	suggestions json.RawMessage,
	hasNeverRemote bool,
	isNeverRemote func(tool string) bool,
	localPlace string,
) string {
	var permissionSuggestions []permissionSuggestion
	if json.Unmarshal(suggestions, &permissionSuggestions) != nil {
		return ""
	}
	places := map[string]string{
		"session": "in this session", "localSettings": localPlace,
		"projectSettings": "in this project, for all who have it (.claude/settings.json)", "userSettings": "in all projects",
	}
	var phrases []string
	for _, s := range permissionSuggestions {
		grants := s.describeGrants(hasNeverRemote, isNeverRemote)
		if len(grants) == 0 || places[s.Destination] == "" {
			return ""
		}
		phrases = append(phrases, strings.Join(grants, ", ")+" "+places[s.Destination])
	}
	shown, isComplete := visibleText(state.ForReview, strings.Join(phrases, "; "))
	if !isComplete || len(shown) > state.MaxAboutLength || oneLine(shown) != shown ||
		strings.Contains(shown, "`") {
		return "" // one line of code cannot show it as it is
	}
	return shown
}

// permissionSuggestion is what Claude Code would do from now on, where a person allows a
// call always.
type permissionSuggestion struct {
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

// describeGrants is what a suggestion allows, in Claude Code's words; nil where it is not
// offered. See alwaysRulesText.
func (s permissionSuggestion) describeGrants(
	hasNeverRemote bool,
	isNeverRemote func(tool string) bool,
) (grants []string) {
	switch {
	case s.Type == "addRules" && s.Behavior == "allow":
		for _, rule := range s.Rules {
			if rule.Tool == "" ||
				hasNeverRemote &&
					(coversSeveralTools(rule.Tool) || slices.ContainsFunc(toolsAllowedBy(rule.Tool), isNeverRemote)) {
				return nil
			}
			if rule.Content != "" {
				rule.Tool += "(" + rule.Content + ")"
			}
			grants = append(grants, rule.Tool)
		}
	case hasNeverRemote:
		return nil
	case s.Type == "addDirectories" && s.Behavior == "":
		for _, dir := range s.Directories {
			if dir == "" {
				return nil
			}
			grants = append(grants, "access to "+dir)
		}
	case s.Type == "setMode" && s.Permissions == "acceptEdits" && s.Behavior == "":
		grants = []string{acceptEditsText}
	}
	return grants
}

// localRulesPlace says where Claude Code writes a project's own rules: from a worktree,
// 2.1.332 writes them into the main checkout, and 2.1.197 into the worktree. Between
// these it was not looked at.
func localRulesPlace(project, version string) string {
	const file = ".claude/settings.local.json"
	b, err := state.ReadPlain(filepath.Join(project, ".git"), 1<<16)
	mainCheckout, _, isWorktree := strings.Cut(
		strings.TrimPrefix(string(b), "gitdir: "),
		"/.git/worktrees/",
	)
	var number [3]int
	_, versionErr := fmt.Sscanf(version, "%d.%d.%d", &number[0], &number[1], &number[2])
	switch {
	case err != nil || !isWorktree:
		return "in this project (" + file + ")"
	case versionErr != nil || slices.Compare(number[:], []int{2, 1, 197}) > 0 && slices.Compare(number[:], []int{2, 1, 332}) < 0:
		return "in this worktree, or in its main checkout (" + file + ")"
	case slices.Compare(number[:], []int{2, 1, 332}) >= 0:
		return "in the main checkout (" + filepath.Join(mainCheckout, file) + ")"
	}
	return "in this worktree (" + file + ")"
}

// coversSeveralTools says whether a rule of that name is for several tools: all of an MCP
// server, or those that a star stands for.
func coversSeveralTools(tool string) bool {
	return strings.Contains(tool, "*") ||
		strings.HasPrefix(tool, "mcp__") && strings.Count(tool, "__") == 1
}

// toolsAllowedBy are the tools whose calls a rule of a tool may allow: a folder that may
// be read is read by commands, too.
func toolsAllowedBy(tool string) []string {
	if fileInputMember[tool] == "" {
		return []string{tool}
	}
	return append(slices.Collect(maps.Keys(fileInputMember)), "Bash", tool)
}

// acceptEditsText is what Claude Code calls its mode acceptEdits (2.1.329: "auto-approve
// file edits and common file commands"), with the commands that it lets through in the
// working folder.
const acceptEditsText = "all edits and common file commands (mkdir, touch, rm, rmdir, mv, cp, sed)"

// readPlan is the text of a plan, as the call's input has it, else as its file has it,
// which the transcript names. With now, it is what the file says that the input names:
// 2.1.332 goes on with that. whole says that it was found, and all of it is shown.
func readPlan(
	input json.RawMessage,
	transcript string,
	prefersFile bool,
) (plan string, isComplete bool) {
	var members map[string]LooseText
	_ = json.Unmarshal(keepSurrogates(input), &members)
	plan = string(members["plan"])
	file := ""
	switch {
	case plan == "":
		file = planFilePath(transcript)
	case prefersFile:
		file = string(members["planFilePath"])
	}
	if strings.HasSuffix(file, ".md") && filepath.IsAbs(file) {
		if b, err := state.ReadPlain(file, 1<<20); err == nil {
			plan = string(b)
		}
	}
	plan, isComplete = visibleText(state.ForPlan, strings.TrimSpace(plan))
	return plan, isComplete && plan != ""
}

// planFilePath is the file of the session's plan, which an attachment in the transcript
// names when plan mode begins.
func planFilePath(transcript string) (path string) {
	tail, _, _ := inject.TranscriptEnd(transcript, maxTailBytes)
	for line := range bytes.Lines(tail) {
		if !bytes.Contains(line, []byte(`"planFilePath"`)) {
			continue
		}
		var parsed struct {
			Attachment struct {
				Type string    `json:"type"`
				File LooseText `json:"planFilePath"`
			} `json:"attachment"`
		}
		if json.Unmarshal(line, &parsed) == nil &&
			strings.HasPrefix(parsed.Attachment.Type, "plan_mode") &&
			parsed.Attachment.File != "" {
			path = string(parsed.Attachment.File)
		}
	}
	return path
}
