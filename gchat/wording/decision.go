package wording

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gchat-hooks/state"
)

// decisions are what permissions and plans offer: how a person sees each called, what its
// button carries, and what people write for it. The first of its words stand for a tap.
// Anything else is asked back: a guess would let Claude act.
var decisions = []decision{
	{state.LabelAllow, "Allow", "allow", []string{"yes", "y", "allow", "1"}},
	{state.LabelDeny, "Deny", "deny", []string{"no", "n", "deny"}},
	{state.LabelAlways, "Always", "always", []string{"always"}},
	{state.LabelApprove, "Approve", "approve", []string{"yes", "y", "allow", "1"}},
	{state.LabelApproveAuto, "Approve, accept edits", "auto",
		[]string{"yes, accept edits", "yes accept edits", "yes, auto", "yes auto"}},
	{state.LabelSendBack, "Send back", "back", []string{"no", "n", "deny"}},
}

// decision is one way to decide something as a whole.
type decision struct {
	label, buttonText, choice string
	words                     []string
}

// matches reports whether a text is one of the words for it, and no more.
func (d decision) matches(text string) bool {
	bare := normalise(strings.TrimRight(strings.TrimSpace(text), ".!"))
	return slices.ContainsFunc(
		d.words,
		func(phrase string) bool { return normalise(phrase) == bare },
	)
}

// refusalPattern is a "no" with its reason behind it. "No problem" and its like refuse
// nothing.
var (
	refusalPattern = state.LazyPattern(
		`(?is)^(?:n|no|deny)(?:[\s\pZ]*[,;:.!–—-]|[\s\pZ])[\s\pZ]*(.+)$`,
	)
	notRefusalPattern = state.LazyPattern(
		`(?i)^no[\s\pZ]+(?:problem|worries|objections?|issues?)\b`,
	)
)

// timedYesPattern is a yes for a while: "yes 30m", "allow, for 90 min".
var timedYesPattern = state.LazyPattern(
	`(?i)^(?:yes|y|allow)(?:[\s\pZ]*,|[\s\pZ])[\s\pZ]*(?:for[\s\pZ]+)?(\d.*?)[.!]*$`,
)

// claudeExitWords are the words that end Claude Code where nothing else stands at its
// prompt (2.1.197 and 2.1.329). There "!" begins a shell's command, "/" one of Claude
// Code's own, and a mark that combines with the prompt itself keeps the words from being
// read.
var claudeExitWords = []string{"exit", "quit", ":q", ":q!", ":wq", ":wq!"}

// fileMentionPattern matches a word that begins with "@": Claude Code reads the file of
// that name, asks nobody, and heeds no permission rule (2.1.332). An e-mail address is
// none.
var fileMentionPattern = state.LazyPattern(`(^|[^\pL\pN._%+-])@\S`)

// ActsAtPrompt reports whether Claude Code would do something by itself with a text at
// its prompt: run a shell's command or one of its own, note a memory, read a file, or
// end.
func ActsAtPrompt(text string) bool {
	first, _ := utf8.DecodeRuneInString(text)
	return text != "" && strings.ContainsRune("!/#", first) || unicode.IsMark(first) ||
		slices.Contains(claudeExitWords, text) || fileMentionPattern().MatchString(text)
}

// claudeCommandPattern are Claude Code's own commands that a person may give in a
// session's thread, each as it is typed: in one line. Of others that the configuration
// allows, any words may follow.
var claudeCommandPattern = state.LazyPattern(`^(?:/clear|/compact(?: .+)?|/model [\w.\[\]-]+)$`)

// IsClaudeCommand says whether a text is one of Claude Code's own commands that may be
// typed: of those above, and of these more.
func IsClaudeCommand(text string, allowed []string) bool {
	name, _, _ := strings.Cut(text, " ")
	return claudeCommandPattern().MatchString(text) ||
		strings.HasPrefix(name, "/") && slices.Contains(allowed, name) &&
			!strings.Contains(text, "\n")
}

// ParseDecision reads a reply to a permission or a plan: y, yes, allow or 1; n, no or
// deny, with or without a reason; always where that is offered; for a plan also "yes,
// accept edits", or "yes, auto". A session that waits takes all words that its prompt
// takes as words. About is the note for other words.
func ParseDecision(text string, q *state.Question) (a state.Answer, note string) {
	return wordingOf(q.Kind).readText(strings.TrimSpace(state.Clean(state.ForAgent, text)), q)
}

func readInstruction(text string, _ *state.Question) (a state.Answer, note string) {
	if text == "" || ActsAtPrompt(text) {
		return a, state.NoteUnclear
	}
	return state.Answer{Text: text}, ""
}

func readDecision(text string, q *state.Question) (a state.Answer, note string) {
	reason := refusalPattern().FindStringSubmatch(text)
	for _, candidate := range decisions {
		switch {
		case !isOffered(q, candidate.label):
		case candidate.matches(text):
			return state.Answer{Labels: []string{candidate.label}}, ""
		case state.IsRefusal(candidate.label) && reason != nil && !notRefusalPattern().MatchString(text):
			a = state.Answer{Labels: []string{candidate.label}, Notes: reason[1]}
		}
	}
	switch {
	case !a.IsEmpty():
		return a, ""
	case normalise(strings.TrimRight(text, ".!")) == normalise("more"):
		return a, state.NoteFullText
	}
	return a, state.NoteUnclear
}

// IsDecision says whether a text is one of the words that decide a permission or a plan,
// and no more.
func IsDecision(text string) bool {
	matches := func(candidate decision) bool { return candidate.matches(text) }
	return slices.ContainsFunc(decisions, matches) || ReadTimedYes(text) > 0
}

// ReadDuration is how long a person says that something is to last: 2h, 30m, 90 min, 1
// hour.
func ReadDuration(text string) (duration time.Duration, ok bool) {
	unit := strings.NewReplacer(
		"hours",
		"h",
		"hour",
		"h",
		"minutes",
		"m",
		"minute",
		"m",
		"mins",
		"m",
		"min",
		"m",
	)
	duration, err := time.ParseDuration(
		unit.Replace(strings.ToLower(strings.Join(strings.Fields(text), ""))),
	)
	return duration, err == nil && duration > 0
}

// ReadTimedYes reads a yes for a while, such as "yes 30m", of at most two hours; it is
// 0 for other words.
func ReadTimedYes(text string) (duration time.Duration) {
	if match := timedYesPattern().FindStringSubmatch(strings.TrimSpace(text)); match != nil {
		duration, _ = ReadDuration(match[1])
	}
	return min(duration, 2*time.Hour)
}

// isOffered says whether a reply or a tap may decide so. What only the terminal can
// allow, they can refuse.
func isOffered(q *state.Question, label string) bool {
	if len(q.SubQuestions) == 0 || q.HandedOverAt != nil ||
		q.IsTerminalOnly && !state.IsRefusal(label) {
		return false
	}
	return slices.ContainsFunc(
		q.SubQuestions[0].Options,
		func(o state.Option) bool { return o.Label == label },
	)
}

// What is shown of a permission at once: a command's end is always among it.
const (
	maxFirstLines, maxLastLines = 20, 10 // lines
	maxLineBytes                = 600    // bytes of a line, mostly
)

// excerpt is the beginning and the end of what a permission is asked for as a code block,
// with so many bytes of a line. hidden says what it leaves out; "" where that is nothing.
func excerpt(text string, lineLimit int) (shown, omitted string) {
	if text == "" {
		return "", ""
	}
	lines := strings.Split(codeBlockText(text), "\n") // which makes it longer
	cutLines, cutBytes := 0, 0
	if omittedLines := len(lines) - maxFirstLines - maxLastLines; omittedLines > 0 {
		cutLines = omittedLines
		cutBytes = len(strings.Join(lines[maxFirstLines:maxFirstLines+omittedLines], "\n"))
		lines = slices.Replace(
			lines,
			maxFirstLines,
			maxFirstLines+omittedLines,
			fmt.Sprintf("⋯ %d lines ⋯", omittedLines),
		)
	}
	for i, line := range lines {
		if len(line) > lineLimit {
			lines[i] = startAndEnd(line, lineLimit)
			cutLines++
			cutBytes += len(line) - lineLimit
		}
	}
	if cutLines > 0 {
		omitted = fmt.Sprintf("%d bytes in %d more lines", cutBytes, cutLines)
	}
	return fence + "\n" + strings.Join(lines, "\n") + "\n" + fence, omitted
}

// codeBlock is foreign text as a code block, which nothing in it ends.
func codeBlock(text string) string { return fence + "\n" + codeBlockText(text) + "\n" + fence }

// codeBlockText is foreign text within a code block. A reader sees that the third
// backtick is one: a shell runs what backticks embrace.
func codeBlockText(text string) string {
	return neutraliseAngles(strings.ReplaceAll(text, fence, "``‹U+0060›"))
}

// ScreenText shows what a terminal shows in a code block below a neutral header: the last
// lines that fit one message. Nothing in it ends the block or mentions anybody.
func ScreenText(header, screen string) string {
	text := codeBlockText(strings.Trim(state.Clean(state.ForChat, screen), "\n"))
	room := MaxText - len(header) - len("\n"+codeBlock(""))
	if excess := len(text) - room; excess > 0 {
		text = strings.ToValidUTF8(text[excess:], "")
		text = text[strings.IndexByte(text, '\n')+1:]
	}
	if strings.TrimSpace(text) == "" {
		return header + "\nThe terminal is empty."
	}
	return header + "\n" + codeBlock(text)
}

func decisionHeader(q *state.Question) string {
	header := "[" + q.Kind.Traits().Title + "] Session: " + sessionName(q) + machineText(
		q,
		machineInHeader,
	)
	if dir := cmp.Or(q.CWD, q.ProjectDir); dir != "" {
		header += "\nFolder: " + safeField(state.CleanForReview(state.ForReview, dir))
	}
	return header
}

func permissionText(q *state.Question, lineLimit int) string {
	text := toolCallText(q)
	if agent := agentText(q); agent != "" {
		text += "\n" + agent
	}
	shown, omitted := excerpt(q.ShownText, lineLimit)
	if shown != "" {
		text += "\n" + shown
	}
	if omitted != "" {
		text += "\n(" + omitted + ": reply \"more\")"
	}
	return text
}

// alwaysAllowsLine is the line that says what "always" allows, where that is offered, by
// the word that is there for it. The mark of code around it, where a message has markup,
// keeps the stars of rules.
func alwaysAllowsLine(q *state.Question, word, mark string) string {
	if q.AlwaysAllows == "" || !isOffered(q, state.LabelAlways) {
		return ""
	}
	rules := neutraliseLastAngle(safeField(q.AlwaysAllows))
	return `"` + word + `" allows: ` + mark + rules + mark + "\n"
}

// acceptEditsScope is what Claude Code does without asking after a plan was approved so:
// its mode acceptEdits.
const acceptEditsScope = "edits and common file commands such as rm, mv and cp"

// terminalOnlyText says that no reply and no tap allows it.
const terminalOnlyText = "Only the terminal can allow this."

// HowToDecide says what to reply to a permission or a plan.
func HowToDecide(q *state.Question) string {
	refuseText, separator := `no (with a reason if you like: "no, use git mv")`, " or "
	if q.Kind == state.KindPlan {
		refuseText, separator = `"no, …" with what to change`, ", or "
	}
	switch {
	case q.HandedOverAt != nil:
		return inTerminalText(q)
	case q.IsTerminalOnly:
		return terminalOnlyText + " Reply " + refuseText + "."
	case isOffered(q, state.LabelApproveAuto):
		return `Reply yes, "yes, accept edits" (` + acceptEditsScope + " need no permission then)" + separator + refuseText + "."
	case isOffered(q, state.LabelAlways):
		return "Reply yes" + separator + refuseText + ", or always."
	}
	return "Reply yes" + separator + refuseText + "."
}

// agentText says which agent asks, and, while its dialog is hidden, that the terminal
// does not show it; "" for the session itself.
func agentText(q *state.Question) string {
	if q.AgentID == "" {
		return ""
	}
	text := strings.TrimSpace("From the agent " + safeField(q.AgentType))
	if task := safeField(q.AgentTask); task != "" {
		text += ": " + task
	}
	if !q.IsDialogDrawn() {
		text += "\nThe terminal does not show it until you decide. Reply \"terminal\" to decide there."
	}
	return disarm(text)
}

// AsksForTerminal reports whether a reply wants a hidden dialog in the terminal. An
// option that is named so goes first.
func AsksForTerminal(q *state.Question, text string) bool {
	word := normalise("terminal")
	isOption := slices.ContainsFunc(q.SubQuestions, func(subQuestion state.SubQuestion) bool {
		return slices.ContainsFunc(
			subQuestion.Options,
			func(o state.Option) bool { return normalise(o.Label) == word },
		)
	})
	return q.IsDialogHidden && !isOption &&
		normalise(strings.TrimRight(strings.TrimSpace(text), ".!")) == word
}

func toolCallText(q *state.Question) string {
	what := safeField(q.ToolName)
	if about := safeField(q.About); about != "" {
		what += ": " + about
	}
	return disarm(what)
}

// longText is a plan, or a session's last words. Markdown hides none of a plan's.
func longText(q *state.Question) string {
	text := renderMarkdown(state.Clean(state.ForChat, q.ShownText))
	if q.Kind.Traits().IsPrompt {
		return text
	}
	return cmp.Or(text, "(The plan's text is not shown here. Please read it in the terminal.)")
}

// decisionTexts begins what a thread is told of a decision, or is all of it.
var decisionTexts = map[string]string{
	state.LabelAllow:   "Allowed: ",
	state.LabelAlways:  "Allowed: ",
	state.LabelDeny:    "Denied: ",
	state.LabelApprove: "Approved the plan.",
	state.LabelApproveAuto: `Approved the plan ("accept edits"). From now on ` + acceptEditsScope +
		" need no permission.",
	state.LabelSendBack: "Sent the plan back.",
}

func decidedText(q *state.Question) string {
	label, reason := q.Decision()
	reason = strings.TrimSpace(reason)
	text := "[Answered] " + safeField(q.SessionName) + "\n\n"
	if q.ResolvedBy == state.EndedUnconfirmed {
		return text + shortDescription(q) + "\n\n" + label +
			" was sent to Claude Code. It is not known whether that counted: " +
			"the terminal may have been faster."
	}
	text += decisionTexts[label]
	if !strings.HasSuffix(decisionTexts[label], ".") {
		// "" where the terminal decided, and no hook told how
		text += shortDescription(q)
	}
	if label == state.LabelAlways {
		rules := neutraliseLastAngle(safeField(q.AlwaysAllows))
		text += "\nAlways allowed from now on: `" + rules + "`"
	}
	if reason != "" {
		text += "\nReason: " + safeQuote(reason)
	}
	if where := answeredWhereText(q); where != "" {
		text += "\n\n" + where
	}
	return text
}

func shortDescription(q *state.Question) string {
	if phrase := q.Kind.Traits().NotePhrase; phrase != "" {
		return phrase
	}
	if !q.Kind.Traits().IsPersonal && len(q.SubQuestions) > 0 {
		return safeClause(q.SubQuestions[0].Question)
	}
	about := cmp.Or(q.About, q.ShownText)
	if state.IsShellTool(q.ToolName) {
		about = q.ShownText
	}
	if about == "" {
		return safeField(q.ToolName)
	}
	if len(about) > state.MaxAboutLength {
		about = startAndEnd(about, state.MaxAboutLength)
	}
	about = safeClause(about)
	if strings.ContainsAny(about, "*_~") && !strings.Contains(about, "`") {
		// as code, Chat's markup takes none of them
		about = "`" + about + "`"
	}
	return safeField(q.ToolName) + ": " + about
}
