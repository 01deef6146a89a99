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

// maxShownBytes bounds what is shown of a command, a diff or a plan.
const maxShownBytes = 200 << 10

// maxBrackets is how many brackets an input may have to be laid out in lines. 9,000
// nested ones would take a gigabyte.
const maxBrackets = 4000

// callPreview is what a person sees before they allow a call. Nothing in it is invisible,
// and keys of known services are masked.
type callPreview struct {
	// one line about the call: Claude's description of a command, a file, an address
	about string
	// the command, the diff or the input, and every other member of the input
	text string
	// what never_remote is compared with: the command, the file by all its names, the
	// folders of a search, or the whole input
	ruleTexts  []string
	isComplete bool // all of it is shown
}

// callInput is the input of a tool call. Member names are case-sensitive, as in Claude
// Code.
type callInput struct {
	members map[string]json.RawMessage
	isShown map[string]bool // members that the shown text has
}

// takeText returns a member as text, "" if it is not there, and marks it as shown.
func (in callInput) takeText(member string) string {
	if member == "" {
		return ""
	}
	var text LooseText
	_ = json.Unmarshal(in.members[member], &text)
	in.isShown[member] = true
	return string(text)
}

// previewCall describes a call of a tool. The first of folders is the one that the call's
// paths are relative to.
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
	if fileInputMember[tool] == "path" { // a search may read all below its folder
		path := in.takeText("path")
		for _, path := range []string{path, patternFolder(path, in.takeText("pattern"))} {
			_, _, folder := displayPath(path, folders)
			preview.ruleTexts = append(preview.ruleTexts, strings.TrimSuffix(folder, "/")+"/")
		}
	}
	var shown, note string
	isFormatted := false // shown has all members
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
		if !strings.HasPrefix(tool, "mcp__") { // what an MCP server says of a call proves nothing
			about = cmp.Or(about, in.takeText("url"), in.takeText("description"))
		}
		shown, isFormatted = formatMembers(input), true
	}
	var notes []string
	if !isFormatted {
		notes = append(otherMemberNotes(tool, in), nonEmpty(note, alteredNameNote(about, file))...)
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

// alteredNameNote gives a file's exact name if the line that shows it has to alter it;
// else "".
func alteredNameNote(about, file string) string {
	if file == "" || oneLine(about) == about && !markupPattern().MatchString(about) {
		return ""
	}
	return "file: " + strconv.Quote(file)
}

// replaceAllNote says how many places of a file a call replaces that replaces all.
func replaceAllNote(file, text string) string {
	content, err := state.ReadPlain(file, maxDiffedBytes)
	if err != nil || text == "" {
		return ""
	}
	return fmt.Sprintf("replaces %d places in the file", strings.Count(string(content), text))
}

// otherMemberNotes are notes about the members of a call that its shown text lacks, one
// for each. A member that says what the tool does anyway is left out.
func otherMemberNotes(tool string, in callInput) (notes []string) {
	for _, member := range slices.Sorted(maps.Keys(in.members)) {
		isDefault := string(in.members[member]) == defaultMembers[tool][member]
		if !in.isShown[member] && !isDefault {
			note := member + ": " + formatMembers(in.members[member])
			notes = append(notes, strings.Replace(note, ": \n", ":\n", 1))
		}
	}
	return notes
}

// formatMembers lays out a tool's input: a line for each member. A string with line
// breaks becomes a block of lines that begin with "|"; no other line begins so.
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
		// Decoding would replace half of a surrogate pair by another character.
		isExact := !strings.Contains(literal, `\ud`)
		if !isExact || json.Unmarshal([]byte(literal), &text) != nil {
			return line
		}
		nextLine := "\n" + indent + "| "
		return indent + member + nextLine + strings.ReplaceAll(text, "\n", nextLine)
	})
}

// multilineStringPattern matches a line of indented JSON that holds a string with a line
// break. Its groups are the indent, the member's name and the string.
var multilineStringPattern = state.LazyPattern(
	`(?m)^( *)("(?:[^"\\]|\\.)*":|) ?("(?:[^"\\]|\\[^n])*\\n(?:[^"\\]|\\.)*"),?$`,
)

// mainInputMember names the member of a tool's input that says what the call does.
var mainInputMember = map[string]string{
	"Bash": "command", "Monitor": "command", "PowerShell": "command",
	"Edit": "file_path", "MultiEdit": "file_path", "Write": "file_path", "Read": "file_path",
	"NotebookEdit": "notebook_path", "WebFetch": "url", "WebSearch": "query", "ExitPlanMode": "plan",
}

// defaultMembers has the JSON of members that change nothing: a call without them does
// the same. The schema of Edit names the default of replace_all. Bash does in the
// background, or outside of its sandbox, only what says "true" (2.1.88 and 2.1.332).
var defaultMembers = map[string]map[string]string{
	"Edit": {"replace_all": "false"},
	"Bash": {"run_in_background": "false", "dangerouslyDisableSandbox": "false"},
}

// fileInputMember names the member of a tool's input that is a file or a folder.
var fileInputMember = map[string]string{
	"Edit": "file_path", "MultiEdit": "file_path", "Write": "file_path", "Read": "file_path",
	"NotebookEdit": "notebook_path", "NotebookRead": "notebook_path",
	"Glob": "path", "Grep": "path", "LS": "path", "LSP": "filePath", "Artifact": "file_path",
}

// maxDiffedBytes bounds what is read of a file to compare it with the content that
// replaces it.
const maxDiffedBytes = 1 << 20

// replacedContent returns the content of the file that a call replaces. If that cannot be
// shown, note says so.
func replacedContent(file string) (content, note string) {
	if b, err := state.ReadPlain(file, maxDiffedBytes); err == nil && utf8.Valid(b) {
		return string(b), ""
	}
	if info, err := os.Lstat(file); err == nil {
		note = fmt.Sprintf("replaces a file of %d bytes, which is not shown", info.Size())
	}
	return "", note
}

// visibleText returns text with nothing invisible in it, with keys masked and within
// maxShownBytes. Long runs of blanks, which would push the end of a command out of sight,
// become a count. isComplete reports that nothing of the text is left out.
func visibleText(place state.TextPlace, text string) (shown string, isComplete bool) {
	head, tail, omitted := cutMiddle(text)
	shown = escapeHidden(place, head)
	if omitted > 0 {
		shown += fmt.Sprintf("\n‹%d bytes are not shown›\n", omitted) + escapeHidden(place, tail)
	}
	if head, tail, omittedAgain := cutMiddle(shown); omittedAgain > 0 { // the marks made it longer
		omitted += omittedAgain
		shown = head + fmt.Sprintf("\n‹%d bytes are not shown›\n", omittedAgain) + tail
	}
	return shown, omitted == 0
}

// escapeHidden returns text with nothing invisible in it, of any length; see visibleText.
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

// hostsAsASCII replaces the hosts of web addresses by the names that are looked up: those
// that are not ASCII by their Punycode.
func hostsAsASCII(text string) string {
	if !strings.ContainsFunc(text, isNonASCII) { // the usual case
		return text
	}
	return addressHostPattern().ReplaceAllStringFunc(text, func(address string) string {
		parts := addressHostPattern().FindStringSubmatch(address)
		return parts[1] + config.HostAsASCII(parts[2])
	})
}

func isNonASCII(r rune) bool { return r >= utf8.RuneSelf }

// escapeLookalikes writes foreign letters and digits that could pass for ASCII as code
// points. In a word with ASCII these are all foreign letters, except ASCII letters with
// an accent. In a word without ASCII it is all letters, if each looks like ASCII. A name
// that begins with a Cyrillic "a" is another name.
func escapeLookalikes(text string) string {
	if !strings.ContainsFunc(text, isNonASCII) { // the usual case
		return text
	}
	var b strings.Builder
	isSeparator := func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M, unicode.N) }
	for text != "" {
		end := strings.IndexFunc(text, isSeparator)
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

// isEscapedInASCIIWord reports whether a letter or digit is written as its code point in
// a word that also has ASCII. An accent is not, nor is an ASCII letter with one. Scripts
// that are written without blanks stand beside ASCII in ordinary text: of these only
// lookalikes are.
func isEscapedInASCIIWord(r rune) bool {
	if !isNonASCII(r) || unicode.IsMark(r) {
		return false
	}
	if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana,
		unicode.Hangul, unicode.Bopomofo) {
		return state.IsASCIILookalike(r)
	}
	decomposed := norm.NFD.String(string(r))
	letter, size := utf8.DecodeRuneInString(decomposed)
	return isNonASCII(letter) || size == len(decomposed)
}

var (
	blankLinesPattern = state.LazyPattern(`\n(?:[\t\pZ]*\n){4,}`)
	// For a shell, a backslash with a blank behind it does not continue the line.
	brokenContinuationPattern = state.LazyPattern(`(?m)\\[\t ]+$`)
	blankRunPattern           = state.LazyPattern(`[\t\pZ]{40,}`)

	// addressHostPattern matches the beginning of a web address. Its groups are what
	// comes before the host, with a name and password, and the host without a port.
	addressHostPattern = state.LazyPattern(
		`((?i)[a-z][a-z0-9+.-]*://(?:[^\s/?#"'@]*@)?)([^\s/?#"'@:\\\x60]+)`)
)

// displayPath returns a path as a person has to see it: the file that it leads to through
// all links. It is relative to the first folder if the file is below that. It is marked
// if the file is below none of the folders, or behind a link. name is the same without
// marks, and file the absolute path.
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

// patternFolder is the folder that a search's pattern leads to, starting from the folder
// of the search.
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

// maxLinks is how many links a path may have, as in Linux.
const maxLinks = 40

// resolveLinks follows all links in a path, also a link to a file that does not exist
// yet.
func resolveLinks(path string) string {
	current, remaining, links := "/", strings.Split(filepath.ToSlash(path), "/"), 0
	for len(remaining) > 0 {
		next := filepath.Join(current, remaining[0])
		remaining = remaining[1:]
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

// diffContextLines is how many equal lines a diff shows before and after those that
// change.
const diffContextLines = 3

// diffText shows a change of a text: removed lines begin with "-", added ones with "+",
// and the lines around them with a blank.
func diffText(before, after string) string {
	beforeLines, afterLines := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	// Equal lines at both ends are left out first, since comparing takes long.
	equalBefore, equalAfter := 0, 0
	shorter := min(len(beforeLines), len(afterLines))
	for equalBefore < shorter && beforeLines[equalBefore] == afterLines[equalBefore] {
		equalBefore++
	}
	for equalAfter < shorter-equalBefore &&
		beforeLines[len(beforeLines)-1-equalAfter] == afterLines[len(afterLines)-1-equalAfter] {
		equalAfter++
	}
	equalBefore = max(0, equalBefore-diffContextLines)
	equalAfter = max(0, equalAfter-diffContextLines-1) // an empty line follows the last line break
	middleOf := func(lines []string) []byte {
		return []byte(strings.Join(lines[equalBefore:len(lines)-equalAfter], ""))
	}
	changes := diff.Diff("", middleOf(beforeLines), "", middleOf(afterLines))
	lines := strings.Split(string(changes), "\n")
	lines = lines[min(len(lines), 4):] // without the names and the place of the first change
	for i, l := range lines {
		if strings.HasPrefix(l, "@@ ") {
			lines[i] = "⋯"
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), "\n\\ No newline at end of file", "")
}

// oneLine returns a text with each run of white space, line breaks included, as a single
// space.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// cutMiddle returns the beginning and the end of a text that is too long, and how many
// bytes are omitted between them.
func cutMiddle(s string) (head, tail string, omitted int) {
	if len(s) <= maxShownBytes {
		return s, "", 0
	}
	const half = maxShownBytes / 2
	head, tail = strings.ToValidUTF8(s[:half], ""), strings.ToValidUTF8(s[len(s)-half:], "")
	return head, tail, len(s) - 2*half
}

// alwaysRulesText says in Claude Code's words what it would allow from now on. It returns
// "" if that is nothing, or of a kind that this version does not know: a person cannot
// agree to what they cannot read. It also returns "" for what may bypass never_remote.
// With never_remote set, only rules of tools that it does not name are offered;
// isNeverRemote reports the named ones. localPlace is where a rule of the project's local
// settings is written.
func alwaysRulesText(
	suggestions json.RawMessage, hasNeverRemote bool,
	isNeverRemote func(tool string) bool, localPlace string,
) string {
	var permissionSuggestions []permissionSuggestion
	if json.Unmarshal(suggestions, &permissionSuggestions) != nil {
		return ""
	}
	places := map[string]string{
		"session":         "in this session",
		"localSettings":   localPlace,
		"projectSettings": "in this project, for all who have it (.claude/settings.json)",
		"userSettings":    "in all projects",
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
	isOneLine := oneLine(shown) == shown && len(shown) <= state.MaxAboutLength
	if !isComplete || !isOneLine || strings.Contains(shown, "`") {
		return "" // it cannot be shown unchanged as one line of code
	}
	return shown
}

// permissionSuggestion is what Claude Code would do from now on if a person allows a call
// always.
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

// describeGrants says in Claude Code's words what a suggestion allows; nil if it is not
// offered. See alwaysRulesText.
func (s permissionSuggestion) describeGrants(
	hasNeverRemote bool, isNeverRemote func(tool string) bool,
) (grants []string) {
	bypassesNeverRemote := func(tool string) bool {
		return coversSeveralTools(tool) || slices.ContainsFunc(toolsAllowedBy(tool), isNeverRemote)
	}
	switch {
	case s.Type == "addRules" && s.Behavior == "allow":
		for _, rule := range s.Rules {
			if rule.Tool == "" || hasNeverRemote && bypassesNeverRemote(rule.Tool) {
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

// localRulesPlace says where Claude Code writes a project's local rules. In a worktree,
// 2.1.332 writes them into the main checkout, and 2.1.197 into the worktree. Versions
// between these two were not tested.
func localRulesPlace(project, version string) string {
	const file = ".claude/settings.local.json"
	b, err := state.ReadPlain(filepath.Join(project, ".git"), 1<<16)
	gitDir := strings.TrimPrefix(string(b), "gitdir: ")
	mainCheckout, _, isWorktree := strings.Cut(gitDir, "/.git/worktrees/")
	var number [3]int
	_, versionErr := fmt.Sscanf(version, "%d.%d.%d", &number[0], &number[1], &number[2])
	switch {
	case err != nil || !isWorktree:
		return "in this project (" + file + ")"
	case versionErr != nil || slices.Compare(number[:], []int{2, 1, 197}) > 0 &&
		slices.Compare(number[:], []int{2, 1, 332}) < 0:
		return "in this worktree, or in its main checkout (" + file + ")"
	case slices.Compare(number[:], []int{2, 1, 332}) >= 0:
		return "in the main checkout (" + filepath.Join(mainCheckout, file) + ")"
	}
	return "in this worktree (" + file + ")"
}

// coversSeveralTools reports whether a rule's tool name stands for several tools: all of
// an MCP server, or those that match a star.
func coversSeveralTools(tool string) bool {
	return strings.Contains(tool, "*") ||
		strings.HasPrefix(tool, "mcp__") && strings.Count(tool, "__") == 1
}

// toolsAllowedBy are the tools whose calls a rule for a tool may allow. Commands may read
// a folder that may be read.
func toolsAllowedBy(tool string) []string {
	if fileInputMember[tool] == "" {
		return []string{tool}
	}
	return append(slices.Collect(maps.Keys(fileInputMember)), "Bash", tool)
}

// acceptEditsText describes Claude Code's mode acceptEdits in its own words (2.1.329:
// "auto-approve file edits and common file commands"), with the commands that the mode
// allows in the working folder.
const acceptEditsText = "all edits and common file commands (mkdir, touch, rm, rmdir, mv, cp, sed)"

// readPlan returns the text of a plan: from the call's input, else from the session's
// plan file, which the transcript names. With prefersFile it reads the file that the
// input names first, since 2.1.332 goes on with that file. isComplete reports that a plan
// was found and is shown in full.
func readPlan(
	input json.RawMessage, transcript string, prefersFile bool,
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

// planFilePath is the file of the session's plan. An attachment in the transcript names
// it when plan mode begins.
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
