package wake

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"gchat-hooks/hooks"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// agentNews is what a message reports, from one source: Claude's text, a question, or
// else lines of the pane.
type agentNews struct {
	source     string // transcript, question, pane, none
	text       string
	isNew      bool // the agent does not know it, or may not know it
	isEnqueued bool // it is in the outbox
}

// buildNews works out what to report, and updates memory, which is what the agent knows.
// In doubt the news is new.
func (f *wakeHook) buildNews(memory *state.WakeMemory) agentNews {
	openclawSession := f.agent.openclawSession
	if f.trigger.name == questionTrigger {
		news := agentNews{source: "question", text: questionsText(f.event.ToolInput)}
		askedKey := f.event.ToolUseID + "\n\n" + news.text
		// Two installs get the same call, and only the first one reports it.
		news.isNew = f.event.ToolUseID == "" || askedKey != memory.Question ||
			openclawSession != memory.AgentSession
		memory.Question, memory.AgentSession = askedKey, openclawSession
		return news
	}
	isSameAgent := openclawSession == memory.AgentSession
	isPermission := f.trigger.name == permissionTrigger
	if isPermission && f.agent.skipsKnown && isSameAgent && f.pane.showsQuestion(memory.Question) {
		// Claude Code also notifies of a question, 6 s after it draws the dialog.
		return agentNews{source: "question"}
	}
	// A session's end and a compaction are new whatever the pane shows. A pane that
	// cannot be seen may show anything.
	isAlwaysNew := f.trigger.name == endTrigger || f.trigger.name == compactTrigger
	claudeText := f.claudeText(memory)
	news := agentNews{isNew: isAlwaysNew || f.pane.Screen == "" || !isSameAgent}
	memory.AgentSession = openclawSession
	if claudeText != "" {
		id := textHash(claudeText)
		news.isNew, memory.TextHash = news.isNew || id != memory.TextHash, id
		news.source, news.text = "transcript", lastChars(claudeText, f.agent.transcriptChars)
	}
	if f.pane.Screen != "" {
		id := hash(f.pane.Lines...) // a progress bar that fills changes it, too
		lastLines := f.pane.cleanedLines[max(0, len(f.pane.cleanedLines)-comparedLines):]
		news.isNew, memory.PaneHash = news.isNew || id != memory.PaneHash, id
		if claudeText == "" {
			lines := newLines(memory.Lines, lastLines, f.agent.minPaneLines)
			news.source, news.text = "pane", strings.Join(lines, "\n")
		}
		memory.Lines, memory.CapturedAt = append([]string{}, lastLines...), f.pane.answeredAt
	}
	if news.text == "" {
		news.source, news.text = "none", "(no text in the transcript, and none on the screen)"
	}
	return news
}

// showsQuestion reports whether the pane shows one of the questions that the agent knows,
// or the page on which their answers are reviewed.
func (p pane) showsQuestion(knownQuestions string) bool {
	screen := p.parsed
	isShown := func(question string) bool {
		isQuestion := screen.Shows == inject.Question &&
			(screen.IsCut || inject.IsStartOf(screen.Question, question))
		return isQuestion || screen.Shows == inject.Review
	}
	return slices.ContainsFunc(strings.Split(knownQuestions, "\n\nQuestion: ")[1:], isShown)
}

func hash(texts ...string) string { return state.Hash(12, strings.Join(texts, "\x00")) }

// textHash identifies a text without the blanks around it, since an event trims them.
func textHash(text string) string { return hash(strings.TrimSpace(text)) }

// claudeText is Claude's last text, by the event or the transcript. It is "" if there is
// none or if it cannot be read. It is also "" for a notification if the agent knows the
// text: then what the session waits for is on the screen.
func (f *wakeHook) claudeText(memory *state.WakeMemory) string {
	path := string(f.event.TranscriptPath)
	if text := cleanText(string(f.event.LastAssistantMessage)); text != "" || path == "" {
		return text
	}
	text, err := hooks.LastClaudeText(path)
	// A session's first hooks run before its transcript has a line.
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.Log().Error().Err(err).Msg("transcript not read: the message shows the screen instead")
	}
	text = cleanText(text)
	if f.trigger.hookEvent == "Notification" && textHash(text) == memory.TextHash {
		return ""
	}
	return text
}

// newLines returns the lines of after that are not in before, in their order. If these
// are fewer than minLines, the last of the other lines are added. If before is nil, it
// returns just the last minLines lines.
func newLines(before, after []string, minLines int) (chosen []string) {
	if before == nil && minLines > 0 {
		return after[max(0, len(after)-minLines):]
	}
	remaining := map[string]int{} // how often each line of before is not matched yet
	for _, l := range before {
		remaining[l]++
	}
	isKnown := make([]bool, len(after))
	for i, l := range after {
		isKnown[i] = remaining[l] > 0
		if isKnown[i] {
			remaining[l]--
		} else {
			minLines--
		}
	}
	for i, l := range slices.Backward(after) {
		if isKnown[i] {
			minLines--
		}
		if !isKnown[i] || minLines >= 0 {
			chosen = append(chosen, l)
		}
	}
	slices.Reverse(chosen)
	return chosen
}

// buildMessage is the text of a wake message, in version 2 of its format: sections with a
// headline in brackets and one blank line between them. For a question, a section of its
// own replaces the content, and the context pressure is left out.
func (f *wakeHook) buildMessage(news agentNews) string {
	var sections []string
	addSection := func(name, text string) { sections = append(sections, "["+name+"]\n"+text) }
	addSection("SESSION IDENTITY", fmt.Sprintf("agent_id: %s\ntmux_session_name: %s\ntimestamp: %s",
		oneLine(f.agent.id), oneLine(f.pane.Session), f.startedAt.UTC().Format(time.RFC3339)))
	addSection("TRIGGER", "type: "+f.trigger.name)
	if f.trigger.name == questionTrigger {
		addSection("ASK USER QUESTION", news.text)
		addSection("STATE HINT", "state: "+f.state)
	} else {
		addSection("CONTENT", news.text)
		addSection("STATE HINT", "state: "+f.state)
		addSection("CONTEXT PRESSURE", f.pressure)
	}
	if f.state != terminatedState { // nothing can be done in a session that has ended
		addSection("AVAILABLE ACTIONS", actionLines(f.pane.Session, f.Env("TMUX_PANE")))
	}
	return strings.Join(sections, "\n\n")
}

// actionLines are commands for the agent to paste into a shell. menu-driver.sh finds the
// session by its name. A name that looks like an option or a pane is replaced by the
// pane's id.
func actionLines(session, pane string) string {
	if strings.HasPrefix(session, "-") || strings.HasPrefix(session, "%") {
		session = pane
	}
	var lines []string
	actions := []string{
		"choose <n>", "type <text>", "clear_then <command>", "enter", "esc", "submit", "snapshot",
	}
	for _, action := range actions {
		lines = append(lines, "menu-driver.sh "+state.QuoteForShell(session)+" "+action)
	}
	return strings.Join(lines, "\n")
}

// enqueueChatReport enqueues a report of the event for the session's thread in Chat.
// Claude's text is Markdown already; a screen or a question is shown as code.
func (f *wakeHook) enqueueChatReport(news agentNews) error {
	body := news.text
	if news.source != "transcript" {
		body = "```\n" + strings.ReplaceAll(body, "```", "'''") + "\n```"
	}
	about := f.trigger.name + ", " + f.state
	if f.pressure != "unknown" {
		about += ", context " + f.pressure
	}
	return f.EnqueueReport(f.event, "wake", state.Report{
		Type:        state.ReportPlain,
		Prefix:      "[Wake]",
		SessionName: f.pane.Session,
		About:       about,
		Text:        body,
	})
}

// maxRawChars is how much of a call's input is sent if its questions cannot be read.
const maxRawChars = 2000

// questionsText lists the questions of an AskUserQuestion call, for an agent to read. If
// they cannot be read, it is the call's input.
func questionsText(toolInput []byte) string {
	var in struct {
		Questions []state.SubQuestion `json:"questions"`
	}
	err := json.Unmarshal(toolInput, &in)
	hasNoText := func(q state.SubQuestion) bool { return q.Question == "" }
	if err != nil || len(in.Questions) == 0 || slices.ContainsFunc(in.Questions, hasNoText) {
		return strings.TrimSpace("(could not parse questions)\n" +
			firstChars(cleanText(string(toolInput)), maxRawChars))
	}
	var texts []string
	for _, q := range in.Questions {
		lines := []string{"Question: " + cleanText(q.Question)}
		if h := oneLine(q.Header); h != "" {
			lines = append(lines, "Header: "+h)
		}
		lines = append(lines,
			"Multi-select: "+map[bool]string{true: "yes", false: "no"}[q.MultiSelect])
		if len(q.Options) > 0 {
			lines = append(lines, "Options:")
		}
		for i, o := range q.Options {
			line := fmt.Sprintf("  %d. %s", i+1, oneLine(o.Label))
			if d := oneLine(o.Description); d != "" {
				line += ": " + d
			}
			lines = append(lines, line)
		}
		texts = append(texts, strings.Join(lines, "\n"))
	}
	return firstChars(strings.Join(texts, "\n\n"), maxMessageChars)
}

// cleanText returns a text as an agent may see it, without line breaks at its end.
func cleanText(s string) string {
	s = state.Clean(state.ForAgent, s)
	if strings.TrimSpace(s) == "" {
		return ""
	}
	return strings.TrimRight(s, "\n")
}

// oneLine returns a clean text as one line. It keeps blanks: they may belong to a
// session's name or to a label on the screen.
func oneLine(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(cleanText(s))
}

func lastChars(s string, chars int) string {
	runes := []rune(s)
	return string(runes[max(0, len(runes)-chars):])
}

func firstChars(s string, chars int) string {
	runes := []rune(s)
	return string(runes[:min(chars, len(runes))])
}
