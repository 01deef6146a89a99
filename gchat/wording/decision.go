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

// decisions are the decisions that a person can make about a permission or a plan. A text
// that is none of their words gets a note that asks again: with a guess, Claude might act
// against the person's will.
var decisions = []decision{
	{state.LabelAllow, "Allow", "allow", []string{"yes", "y", "allow", "1"}},
	{state.LabelDeny, "Deny", "deny", []string{"no", "n", "deny"}},
	{state.LabelAlways, "Always", "always", []string{"always"}},
	{state.LabelApprove, "Approve", "approve", []string{"yes", "y", "allow", "1"}},
	{state.LabelApproveAuto, "Approve, accept edits", "auto",
		[]string{"yes, accept edits", "yes accept edits", "yes, auto", "yes auto"}},
	{state.LabelSendBack, "Send back", "back", []string{"no", "n", "deny"}},
}

// decision is a decision about a whole question. label is what its answer contains,
// choice what its button carries, and words what a person may write for it. The first of
// the words also stands for a tap.
type decision struct {
	label, buttonText, choice string
	words                     []string
}

// matches reports whether a text is one of the words for the decision, and nothing else.
func (d decision) matches(text string) bool {
	bare := normalise(strings.TrimRight(strings.TrimSpace(text), ".!"))
	return slices.ContainsFunc(d.words, func(word string) bool { return normalise(word) == bare })
}

var (
	// refusalPattern matches a "no" that is followed by a reason.
	refusalPattern = state.LazyPattern(
		`(?is)^(?:n|no|deny)(?:[\s\pZ]*[,;:.!–—-]|[\s\pZ])[\s\pZ]*(.+)$`)
	// notRefusalPattern matches "no problem" and the like, which refuse nothing.
	notRefusalPattern = state.LazyPattern(
		`(?i)^no[\s\pZ]+(?:problem|worries|objections?|issues?)\b`)
)

// timedYesPattern matches a yes for a while: "yes 30m", "allow, for 90 min".
var timedYesPattern = state.LazyPattern(
	`(?i)^(?:yes|y|allow)(?:[\s\pZ]*,|[\s\pZ])[\s\pZ]*(?:for[\s\pZ]+)?(\d.*?)[.!]*$`)

// claudeExitWords end Claude Code if they are the whole input at its prompt (2.1.197 and
// 2.1.329).
var claudeExitWords = []string{"exit", "quit", ":q", ":q!", ":wq", ":wq!"}

// fileMentionPattern matches a word that begins with "@", but no e-mail address. Claude
// Code reads the file of that name without asking, and ignores all permission rules for
// it (2.1.332).
var fileMentionPattern = state.LazyPattern(`(^|[^\pL\pN._%+-])@\S`)

// ActsAtPrompt reports whether Claude Code would do something by itself with a text at
// its prompt: run a shell command ("!") or one of its own commands ("/"), save a memory
// ("#"), read a file, or exit. A combining mark at the start counts too: it merges with
// the prompt's own character, and Claude Code does not read the text (2.1.197 and
// 2.1.329).
func ActsAtPrompt(text string) bool {
	first, _ := utf8.DecodeRuneInString(text)
	return text != "" && strings.ContainsRune("!/#", first) ||
		unicode.IsMark(first) ||
		slices.Contains(claudeExitWords, text) ||
		fileMentionPattern().MatchString(text)
}

// claudeCommandPattern matches those of Claude Code's own commands that a person may
// always send in a session's thread. Each is typed as one line.
var claudeCommandPattern = state.LazyPattern(`^(?:/clear|/compact(?: .+)?|/model [\w.\[\]-]+)$`)

// IsClaudeCommand reports whether a text is one of Claude Code's own commands that a
// person may send: one that claudeCommandPattern matches, or one of allowed, which the
// configuration lists. Any arguments may follow one of allowed, on the same line.
func IsClaudeCommand(text string, allowed []string) bool {
	name, _, _ := strings.Cut(text, " ")
	isAllowed := strings.HasPrefix(name, "/") && slices.Contains(allowed, name)
	return claudeCommandPattern().MatchString(text) || isAllowed && !strings.Contains(text, "\n")
}

// ParseDecision reads a written reply to a question that is decided as a whole:
//   - a permission: y, yes, allow or 1; n, no or deny, with or without a reason; always,
//     if that is offered;
//   - a plan: the same without always, and "yes, accept edits" or "yes, auto";
//   - a form: see readForm;
//   - a "next instruction" question: any text that Claude Code's prompt reads as text.
//
// For any other text the answer is empty, and note says what the reply gets.
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
	hasReason := reason != nil && !notRefusalPattern().MatchString(text)
	for _, candidate := range decisions {
		switch {
		case !isOffered(q, candidate.label):
		case candidate.matches(text):
			return state.Answer{Labels: []string{candidate.label}}, ""
		case hasReason && state.IsRefusal(candidate.label):
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

// IsDecision reports whether a text is one of the words that decide a permission or a
// plan, and nothing else.
func IsDecision(text string) bool {
	matches := func(candidate decision) bool { return candidate.matches(text) }
	return slices.ContainsFunc(decisions, matches) || ReadTimedYes(text) > 0
}

// ReadDuration reads a duration as people write it: 2h, 30m, 90 min, 1 hour.
func ReadDuration(text string) (duration time.Duration, ok bool) {
	unitReplacer := strings.NewReplacer(
		"hours", "h", "hour", "h",
		"minutes", "m", "minute", "m", "mins", "m", "min", "m",
	)
	withoutSpaces := strings.ToLower(strings.Join(strings.Fields(text), ""))
	duration, err := time.ParseDuration(unitReplacer.Replace(withoutSpaces))
	return duration, err == nil && duration > 0
}

// ReadTimedYes returns for how long a yes such as "yes 30m" allows, which is at most two
// hours. It returns 0 for any other text.
func ReadTimedYes(text string) (duration time.Duration) {
	if match := timedYesPattern().FindStringSubmatch(strings.TrimSpace(text)); match != nil {
		duration, _ = ReadDuration(match[1])
	}
	return min(duration, 2*time.Hour)
}

// isOffered reports whether a reply or a tap may make the decision with this label. If
// only the terminal can allow something, Chat can still refuse it.
func isOffered(q *state.Question, label string) bool {
	needsTerminal := q.IsTerminalOnly && !state.IsRefusal(label)
	if len(q.SubQuestions) == 0 || q.HandedOverAt != nil || needsTerminal {
		return false
	}
	return slices.ContainsFunc(q.SubQuestions[0].Options, func(o state.Option) bool {
		return o.Label == label
	})
}

// What a message shows of a permission's command or diff. It always shows the end of a
// command.
const (
	maxFirstLines, maxLastLines = 20, 10
	maxLineBytes                = 600 // fewer in a card that would be too large
)

// excerpt returns the first and the last lines of what a permission is asked for, as a
// code block, with at most lineLimit bytes of each line. omitted says how much is left
// out; it is "" if nothing is.
func excerpt(text string, lineLimit int) (shown, omitted string) {
	if text == "" {
		return "", ""
	}
	lines := strings.Split(codeBlockText(text), "\n") // before cutting, since it adds bytes
	cutLines, cutBytes := max(len(lines)-maxFirstLines-maxLastLines, 0), 0
	if cutLines > 0 {
		end := maxFirstLines + cutLines
		cutBytes = len(strings.Join(lines[maxFirstLines:end], "\n"))
		lines = slices.Replace(lines, maxFirstLines, end, fmt.Sprintf("⋯ %d lines ⋯", cutLines))
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

// WholeShownText returns all that a permission is asked for, as its card shows a part of
// it.
func WholeShownText(q *state.Question) string { return codeBlockText(q.ShownText) }

// codeBlock returns foreign text as a code block. Nothing in the text can end the block.
func codeBlock(text string) string { return fence + "\n" + codeBlockText(text) + "\n" + fence }

// codeBlockText returns foreign text for the inside of a code block. Of three backticks
// in a row, the third is written as its code point. So the reader still sees that it is a
// backtick, which matters because a shell runs what is between backticks.
func codeBlockText(text string) string {
	return neutraliseAngles(strings.ReplaceAll(text, fence, "``‹U+0060›"))
}

// ScreenText returns what a terminal shows as a code block below a header, which must be
// neutral. It keeps the last lines that fit into one message. Nothing in it can end the
// block or mention anybody.
func ScreenText(header, screen string) string {
	text := codeBlockText(strings.Trim(state.Clean(state.ForChat, screen), "\n"))
	if excess := len(text) - (MaxText - len(header) - len("\n"+codeBlock(""))); excess > 0 {
		text = strings.ToValidUTF8(text[excess:], "")
		text = text[strings.IndexByte(text, '\n')+1:]
	}
	if strings.TrimSpace(text) == "" {
		return header + "\nThe terminal is empty."
	}
	return header + "\n" + codeBlock(text)
}

func decisionHeader(q *state.Question) string {
	header := "[" + q.Kind.Traits().Title + "] Session: " + sessionName(q) +
		machineText(q, machineInHeader)
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
		text += "\n(" + omitted + `: reply "more")`
	}
	return text
}

// alwaysAllowsLine returns the line that says what "always" allows, or "" if that is not
// offered. word is what the person writes or taps for it. mark is put around the rules:
// in a message with markup it is a backtick, so that Chat shows the rules' asterisks.
func alwaysAllowsLine(q *state.Question, word, mark string) string {
	if q.AlwaysAllows == "" || !isOffered(q, state.LabelAlways) {
		return ""
	}
	rules := neutraliseLastAngle(safeField(q.AlwaysAllows))
	return `"` + word + `" allows: ` + mark + rules + mark + "\n"
}

// acceptEditsScope is what Claude Code does without asking in its mode acceptEdits, which
// LabelApproveAuto sets.
const acceptEditsScope = "edits and common file commands such as rm, mv and cp"

const terminalOnlyText = "Only the terminal can allow this."

// HowToDecide returns the instructions for a reply to a permission or a plan.
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
		return `Reply yes, "yes, accept edits" (` + acceptEditsScope +
			" need no permission then)" + separator + refuseText + "."
	case isOffered(q, state.LabelAlways):
		return "Reply yes" + separator + refuseText + ", or always."
	}
	return "Reply yes" + separator + refuseText + "."
}

// agentText says which subagent asks, and that the terminal does not show its dialog
// while that is hidden. It returns "" if the session itself asks.
func agentText(q *state.Question) string {
	if q.AgentID == "" {
		return ""
	}
	text := strings.TrimSpace("From the agent " + safeField(q.AgentType))
	if task := safeField(q.AgentTask); task != "" {
		text += ": " + task
	}
	if !q.IsDialogDrawn() {
		text += "\nThe terminal does not show it until you answer. " +
			`Reply "terminal" to answer there.`
	}
	return disarm(text)
}

// AsksForTerminal reports whether a reply asks to show a hidden dialog in the terminal.
// If an option is called "terminal", the reply chooses that option instead.
func AsksForTerminal(q *state.Question, text string) bool {
	word := normalise("terminal")
	isOption := slices.ContainsFunc(q.SubQuestions, func(subQuestion state.SubQuestion) bool {
		return slices.ContainsFunc(subQuestion.Options, func(o state.Option) bool {
			return normalise(o.Label) == word
		})
	})
	return q.IsDialogHidden && !isOption &&
		normalise(strings.TrimRight(strings.TrimSpace(text), ".!")) == word
}

func toolCallText(q *state.Question) string {
	text := safeField(q.ToolName)
	if about := safeField(q.About); about != "" {
		text += ": " + about
	}
	return disarm(text)
}

// longText returns a plan, or Claude's last text. Rendering the Markdown hides no part of
// a plan.
func longText(q *state.Question) string {
	text := renderMarkdown(state.Clean(state.ForChat, q.ShownText))
	if q.Kind.Traits().IsPrompt {
		return text
	}
	return cmp.Or(text, "(The plan's text is not shown here. Please read it in the terminal.)")
}

// decisionTexts holds how the closing note words a decision, by its label. A text that
// ends with a colon needs a description of the call.
var decisionTexts = map[string]string{
	state.LabelAllow:   "Allowed: ",
	state.LabelAlways:  "Allowed: ",
	state.LabelDeny:    "Denied: ",
	state.LabelApprove: "Approved the plan.",
	state.LabelApproveAuto: `Approved the plan ("accept edits"). From now on ` + acceptEditsScope +
		" need no permission.",
	state.LabelSendBack: "Sent the plan back.",
}

// decidedText is the closing note about a decision.
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
	// the terminal may have decided, and no hook reported how: there is no label then
	if !strings.HasSuffix(decisionTexts[label], ".") {
		text += shortDescription(q)
	}
	if label == state.LabelAlways {
		rules := neutraliseLastAngle(safeField(q.AlwaysAllows))
		text += "\nAlways allowed from now on: `" + rules + "`"
	}
	if reason != "" {
		text += "\nReason: " + safeQuote(reason)
	}
	return strings.TrimSuffix(text+"\n\n"+answeredWhereText(q), "\n\n")
}

// shortDescription returns what a question is about, for one line of a note.
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
		about = "`" + about + "`" // Chat would read these characters as markup
	}
	return safeField(q.ToolName) + ": " + about
}
