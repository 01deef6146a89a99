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
	label, called, choice string
	words                 []string
}

// isSaid reports whether a text is one of the words for it, and no more.
func (d decision) isSaid(text string) bool {
	bare := normal(strings.TrimRight(strings.TrimSpace(text), ".!"))
	return slices.ContainsFunc(d.words, func(words string) bool { return normal(words) == bare })
}

// refusal is a "no" with its reason behind it. "No problem" and its like refuse nothing.
var (
	refusal   = state.LazyPattern(`(?is)^(?:n|no|deny)(?:[\s\pZ]*[,;:.!–—-]|[\s\pZ])[\s\pZ]*(.+)$`)
	noRefusal = state.LazyPattern(`(?i)^no[\s\pZ]+(?:problem|worries|objections?|issues?)\b`)
)

// timedYes is a yes for a while: "yes 30m", "allow, for 90 min".
var timedYes = state.LazyPattern(
	`(?i)^(?:yes|y|allow)(?:[\s\pZ]*,|[\s\pZ])[\s\pZ]*(?:for[\s\pZ]+)?(\d.*?)[.!]*$`,
)

// endsClaude are the words that end Claude Code where nothing else stands at its prompt
// (2.1.197 and 2.1.329). There "!" begins a shell's command, "/" one of Claude Code's
// own, and a mark that combines with the prompt itself keeps the words from being read.
var endsClaude = []string{"exit", "quit", ":q", ":q!", ":wq", ":wq!"}

// readsFile matches a word that begins with "@": Claude Code reads the file of that name,
// asks nobody, and heeds no permission rule (2.1.332). An e-mail address is none.
var readsFile = state.LazyPattern(`(^|[^\pL\pN._%+-])@\S`)

// ActsAtPrompt reports whether Claude Code would do something by itself with a text at
// its prompt: run a shell's command or one of its own, note a memory, read a file, or
// end.
func ActsAtPrompt(text string) bool {
	first, _ := utf8.DecodeRuneInString(text)
	return text != "" && strings.ContainsRune("!/#", first) || unicode.IsMark(first) ||
		slices.Contains(endsClaude, text) || readsFile().MatchString(text)
}

// claudeCommands are Claude Code's own commands that a person may give in a session's
// thread, each as it is typed: in one line. Of others that the configuration allows, any
// words may follow.
var claudeCommands = state.LazyPattern(`^(?:/clear|/compact(?: .+)?|/model [\w.\[\]-]+)$`)

// ClaudeCommand says whether a text is one of Claude Code's own commands that may be
// typed: of those above, and of these more.
func ClaudeCommand(text string, more []string) bool {
	name, _, _ := strings.Cut(text, " ")
	return claudeCommands().MatchString(text) ||
		strings.HasPrefix(name, "/") && slices.Contains(more, name) && !strings.Contains(text, "\n")
}

// ParseDecision reads a reply to a permission or a plan: y, yes, allow or 1; n, no or
// deny, with or without a reason; always where that is offered; for a plan also "yes,
// accept edits", or "yes, auto". A session that waits takes all words that its prompt
// takes as words. About is the note for other words.
func ParseDecision(text string, q *state.Question) (a state.Answer, about string) {
	return mannerOf(q.Kind).read(strings.TrimSpace(state.Clean(state.ForAgent, text)), q)
}

func readInstruction(text string, _ *state.Question) (a state.Answer, about string) {
	if text == "" || ActsAtPrompt(text) {
		return a, state.NoteUnclear
	}
	return state.Answer{Text: text}, ""
}

func readDecision(text string, q *state.Question) (a state.Answer, about string) {
	reason := refusal().FindStringSubmatch(text)
	for _, one := range decisions {
		switch {
		case !offers(q, one.label):
		case one.isSaid(text):
			return state.Answer{Labels: []string{one.label}}, ""
		case state.IsRefusal(one.label) && reason != nil && !noRefusal().MatchString(text):
			a = state.Answer{Labels: []string{one.label}, Notes: reason[1]}
		}
	}
	switch {
	case !a.IsEmpty():
		return a, ""
	case normal(strings.TrimRight(text, ".!")) == normal("more"):
		return a, state.NoteFullText
	}
	return a, state.NoteUnclear
}

// IsDecision says whether a text is one of the words that decide a permission or a plan,
// and no more.
func IsDecision(text string) bool {
	isSaid := func(one decision) bool { return one.isSaid(text) }
	return slices.ContainsFunc(decisions, isSaid) || TimedYes(text) > 0
}

// ReadTime is how long a person says that something is to last: 2h, 30m, 90 min, 1 hour.
func ReadTime(words string) (long time.Duration, ok bool) {
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
	long, err := time.ParseDuration(
		unit.Replace(strings.ToLower(strings.Join(strings.Fields(words), ""))),
	)
	return long, err == nil && long > 0
}

// AllowsTimedYes reads a yes for a while, such as "yes 30m", of at most two hours; it is
// 0 for other words.
func TimedYes(text string) (long time.Duration) {
	if said := timedYes().FindStringSubmatch(strings.TrimSpace(text)); said != nil {
		long, _ = ReadTime(said[1])
	}
	return min(long, 2*time.Hour)
}

// offers says whether a reply or a tap may decide so. What only the terminal can allow,
// they can refuse.
func offers(q *state.Question, label string) bool {
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
	shownFirst, shownLast = 20, 10 // lines
	shownLine             = 600    // bytes of a line, mostly
)

// excerpt is the beginning and the end of what a permission is asked for as a code block,
// with so many bytes of a line. hidden says what it leaves out; "" where that is nothing.
func excerpt(text string, most int) (shown, hidden string) {
	if text == "" {
		return "", ""
	}
	lines := strings.Split(inBlock(text), "\n") // which makes it longer
	cutLines, cutBytes := 0, 0
	if between := len(lines) - shownFirst - shownLast; between > 0 {
		cutLines = between
		cutBytes = len(strings.Join(lines[shownFirst:shownFirst+between], "\n"))
		lines = slices.Replace(
			lines,
			shownFirst,
			shownFirst+between,
			fmt.Sprintf("⋯ %d lines ⋯", between),
		)
	}
	for i, l := range lines {
		if len(l) > most {
			lines[i] = ends(l, most)
			cutLines++
			cutBytes += len(l) - most
		}
	}
	if cutLines > 0 {
		hidden = fmt.Sprintf("%d bytes in %d more lines", cutBytes, cutLines)
	}
	return fence + "\n" + strings.Join(lines, "\n") + "\n" + fence, hidden
}

// block is foreign text as a code block, which nothing in it ends.
func block(text string) string { return fence + "\n" + inBlock(text) + "\n" + fence }

// inBlock is foreign text within a code block. A reader sees that the third backtick is
// one: a shell runs what backticks embrace.
func inBlock(text string) string { return shut(strings.ReplaceAll(text, fence, "``‹U+0060›")) }

// ScreenText shows what a terminal shows in a code block below a neutral header: the last
// lines that fit one message. Nothing in it ends the block or mentions anybody.
func ScreenText(header, screen string) string {
	text := inBlock(strings.Trim(state.Clean(state.ForChat, screen), "\n"))
	room := MaxText - len(header) - len("\n"+block(""))
	if over := len(text) - room; over > 0 {
		text = strings.ToValidUTF8(text[over:], "")
		text = text[strings.IndexByte(text, '\n')+1:]
	}
	if strings.TrimSpace(text) == "" {
		return header + "\nThe terminal is empty."
	}
	return header + "\n" + block(text)
}

func decisionHeader(q *state.Question) string {
	header := "[" + q.Kind.Traits().Title + "] Session: " + sessionOf(q) + machineOf(q, inHeader)
	if dir := cmp.Or(q.CWD, q.ProjectDir); dir != "" {
		header += "\nFolder: " + field(state.CleanForReview(state.ForReview, dir))
	}
	return header
}

func permissionText(q *state.Question, line int) string {
	text := whatFor(q)
	if agent := fromAgent(q); agent != "" {
		text += "\n" + agent
	}
	shown, hidden := excerpt(q.ShownText, line)
	if shown != "" {
		text += "\n" + shown
	}
	if hidden != "" {
		text += "\n(" + hidden + ": reply \"more\")"
	}
	return text
}

// alwaysAllows is the line that says what "always" allows, where that is offered, by the
// word that is there for it. The mark of code around it, where a message has markup,
// keeps the stars of rules.
func alwaysAllows(q *state.Question, word, mark string) string {
	if q.AlwaysAllows == "" || !offers(q, state.LabelAlways) {
		return ""
	}
	return `"` + word + `" allows: ` + mark + closed(field(q.AlwaysAllows)) + mark + "\n"
}

// autoAllows is what Claude Code does without asking after a plan was approved so: its
// mode acceptEdits.
const autoAllows = "edits and common file commands such as rm, mv and cp"

// terminalOnly says that no reply and no tap allows it.
const terminalOnly = "Only the terminal can allow this."

// HowToDecide says what to reply to a permission or a plan.
func HowToDecide(q *state.Question) string {
	refuse, or := `no (with a reason if you like: "no, use git mv")`, " or "
	if q.Kind == state.KindPlan {
		refuse, or = `"no, …" with what to change`, ", or "
	}
	switch {
	case q.HandedOverAt != nil:
		return answerThere(q)
	case q.IsTerminalOnly:
		return terminalOnly + " Reply " + refuse + "."
	case offers(q, state.LabelApproveAuto):
		return `Reply yes, "yes, accept edits" (` + autoAllows + " need no permission then)" + or + refuse + "."
	case offers(q, state.LabelAlways):
		return "Reply yes" + or + refuse + ", or always."
	}
	return "Reply yes" + or + refuse + "."
}

// fromAgent says which agent asks, and, while its dialog is hidden, that the terminal
// does not show it; "" for the session itself.
func fromAgent(q *state.Question) string {
	if q.AgentID == "" {
		return ""
	}
	text := strings.TrimSpace("From the agent " + field(q.AgentType))
	if task := field(q.AgentTask); task != "" {
		text += ": " + task
	}
	if !q.IsDialogDrawn() {
		text += "\nThe terminal does not show it until you decide. Reply \"terminal\" to decide there."
	}
	return disarm(text)
}

// ToTerminal reports whether a reply wants a hidden dialog in the terminal. An option
// that is named so goes first.
func ToTerminal(q *state.Question, text string) bool {
	word := normal("terminal")
	isOption := slices.ContainsFunc(q.SubQuestions, func(p state.SubQuestion) bool {
		return slices.ContainsFunc(
			p.Options,
			func(o state.Option) bool { return normal(o.Label) == word },
		)
	})
	return q.IsDialogHidden && !isOption &&
		normal(strings.TrimRight(strings.TrimSpace(text), ".!")) == word
}

func whatFor(q *state.Question) string {
	what := field(q.ToolName)
	if about := field(q.About); about != "" {
		what += ": " + about
	}
	return disarm(what)
}

// longText is a plan, or a session's last words. Markdown hides none of a plan's.
func longText(q *state.Question) string {
	text := markdown(state.Clean(state.ForChat, q.ShownText))
	if q.Kind.Traits().IsPrompt {
		return text
	}
	return cmp.Or(text, "(The plan's text is not shown here. Please read it in the terminal.)")
}

// decided begins what a thread is told of a decision, or is all of it.
var decided = map[string]string{
	state.LabelAllow:   "Allowed: ",
	state.LabelAlways:  "Allowed: ",
	state.LabelDeny:    "Denied: ",
	state.LabelApprove: "Approved the plan.",
	state.LabelApproveAuto: `Approved the plan ("accept edits"). From now on ` + autoAllows +
		" need no permission.",
	state.LabelSendBack: "Sent the plan back.",
}

func decidedText(q *state.Question) string {
	label, words := q.Decision()
	words = strings.TrimSpace(words)
	text := "[Answered] " + field(q.SessionName) + "\n\n"
	if q.ResolvedBy == state.EndedUnconfirmed {
		return text + briefly(
			q,
		) + "\n\n" + label + " was sent to Claude Code. It is not known whether that counted: " +
			"the terminal may have been faster."
	}
	text += decided[label]
	if !strings.HasSuffix(decided[label], ".") {
		// "" where the terminal decided, and no hook told how
		text += briefly(q)
	}
	if label == state.LabelAlways {
		text += "\nAlways allowed from now on: `" + closed(field(q.AlwaysAllows)) + "`"
	}
	if words != "" {
		text += "\nReason: " + quote(words)
	}
	if where := answeredWhere(q); where != "" {
		text += "\n\n" + where
	}
	return text
}

func briefly(q *state.Question) string {
	if brief := q.Kind.Traits().NotePhrase; brief != "" {
		return brief
	}
	if !q.Kind.Traits().IsPersonal && len(q.SubQuestions) > 0 {
		return clause(q.SubQuestions[0].Question)
	}
	about := cmp.Or(q.About, q.ShownText)
	if state.IsShellTool(q.ToolName) {
		about = q.ShownText
	}
	if about == "" {
		return field(q.ToolName)
	}
	if len(about) > state.MaxAboutLength {
		about = ends(about, state.MaxAboutLength)
	}
	about = clause(about)
	if strings.ContainsAny(about, "*_~") && !strings.Contains(about, "`") {
		// as code, Chat's markup takes none of them
		about = "`" + about + "`"
	}
	return field(q.ToolName) + ": " + about
}
