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

// agentNews is what a message carries, from one source: Claude's words, a question, or
// else lines of the pane.
type agentNews struct {
	source     string // transcript, question, pane, none
	text       string
	isNew      bool // the agent does not know it yet, or may not
	isEnqueued bool // it is in the outbox
}

// buildNews works out what there is to tell, and updates what the agent knows. In doubt
// it says that it is new.
func (f *wakeHook) buildNews(memory *state.WakeMemory) agentNews {
	openclawSession := f.agent.openclawSession
	if f.trigger.name == questionTrigger {
		news := agentNews{source: "question", text: questionsText(f.event.ToolInput)}
		askedKey := f.event.ToolUseID + "\n\n" + news.text
		// a doubled install tells once
		news.isNew = f.event.ToolUseID == "" || askedKey != memory.Question ||
			openclawSession != memory.AgentSession
		memory.Question, memory.AgentSession = askedKey, openclawSession
		return news
	}
	if f.trigger.name == permissionTrigger && f.agent.skipsKnown &&
		openclawSession == memory.AgentSession &&
		f.pane.showsQuestion(memory.Question) {
		// Claude Code notifies of a question, too, 6 s after its dialog is drawn
		return agentNews{source: "question"}
	}
	// A session's end and a compaction are news whatever the pane shows; and a pane that
	// cannot be seen may have any.
	isAlwaysNew := f.trigger.name == endTrigger || f.trigger.name == compactTrigger
	claudeText := f.claudeText(memory)
	news := agentNews{
		isNew: isAlwaysNew || f.pane.Screen == "" || openclawSession != memory.AgentSession,
	}
	memory.AgentSession = openclawSession
	if claudeText != "" {
		id := textHash(claudeText)
		news.isNew, memory.TextHash = news.isNew || id != memory.TextHash, id
		news.source, news.text = "transcript", lastChars(claudeText, f.agent.transcriptChars)
	}
	if f.pane.Screen != "" {
		id := hash(f.pane.Lines...) // a bar that fills is another pane
		lastLines := f.pane.toldLines[max(0, len(f.pane.toldLines)-comparedLines):]
		news.isNew, memory.PaneHash = news.isNew || id != memory.PaneHash, id
		if claudeText == "" {
			news.source, news.text = "pane", strings.Join(
				newLines(memory.Lines, lastLines, f.agent.minPaneLines),
				"\n",
			)
		}
		memory.Lines, memory.CapturedAt = append([]string{}, lastLines...), f.pane.answeredAt
	}
	if news.text == "" {
		news.source, news.text = "none", "(no text in the transcript, and none on the screen)"
	}
	return news
}

// showsQuestion says whether the pane shows one of the questions that were told, or the
// page on which their answers are reviewed.
func (p pane) showsQuestion(toldQuestions string) bool {
	screen := p.parsed
	return slices.ContainsFunc(
		strings.Split(toldQuestions, "\n\nQuestion: ")[1:],
		func(question string) bool {
			return screen.Shows == inject.Review ||
				screen.Shows == inject.Question &&
					(screen.IsCut || inject.IsStartOf(screen.Question, question))
		},
	)
}

func hash(texts ...string) string { return state.Hash(12, strings.Join(texts, "\x00")) }

// textHash tells words apart, and not by their margins: an event trims them.
func textHash(text string) string { return hash(strings.TrimSpace(text)) }

// claudeText is what Claude said last, by the event or the transcript; "" when it said
// nothing, or that cannot be read, or when this is a notification and they are known:
// what the session waits for is on the screen.
func (f *wakeHook) claudeText(memory *state.WakeMemory) string {
	path := string(f.event.TranscriptPath)
	if text := cleanText(string(f.event.LastAssistantMessage)); text != "" || path == "" {
		return text
	}
	text, err := hooks.LastClaudeText(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		// a session's first hooks come before its first line
		f.Log().Error().Err(err).Msg("transcript not read; the message shows the screen instead")
	}
	text = cleanText(text)
	if f.trigger.hookEvent == "Notification" && textHash(text) == memory.TextHash {
		return ""
	}
	return text
}

// newLines are the lines that are new since the pane was last told of, in their order,
// and as many of the last ones besides that at least so many are told; at the first time
// (was is nil) only those.
func newLines(before, after []string, minLines int) (chosen []string) {
	if before == nil && minLines > 0 {
		return after[max(0, len(after)-minLines):]
	}
	remaining := map[string]int{} // of the lines before
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

// buildMessage is the wake message, version 2 of its format: sections with a headline in
// brackets, one blank line between them. A question has a section of its own in place of
// the content, and says nothing of the context's pressure.
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
	if f.state != terminatedState { // else nothing can be done
		addSection("AVAILABLE ACTIONS", actionLines(f.pane.Session, f.Env("TMUX_PANE")))
	}
	return strings.Join(sections, "\n\n")
}

// actionLines are commands that can be pasted into a shell. menu-driver finds the session
// by its name, but for one that reads like an option or a pane.
func actionLines(session, pane string) string {
	if strings.HasPrefix(session, "-") || strings.HasPrefix(session, "%") {
		session = pane
	}
	var lines []string
	for _, action := range []string{"choose <n>", "type <text>", "clear_then <command>", "enter", "esc", "submit", "snapshot"} {
		lines = append(lines, "menu-driver.sh "+state.QuoteForShell(session)+" "+action)
	}
	return strings.Join(lines, "\n")
}

// enqueueChatReport puts the same event into Google Chat's outbox, for the session's
// thread: what Claude said as the Markdown that it is, and a screen or a question as it
// stands.
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
		Type: state.ReportPlain, Prefix: "[Wake]", SessionName: f.pane.Session, About: about, Text: body,
	})
}

// maxRawChars is how much of an input is told that holds no question which can be read.
const maxRawChars = 2000

// questionsText are those of an AskUserQuestion call, for an agent to read. Where they
// cannot be read it gets the input as it came.
func questionsText(toolInput []byte) string {
	var in struct {
		Questions []state.SubQuestion `json:"questions"`
	}
	err := json.Unmarshal(toolInput, &in)
	hasNoText := func(q state.SubQuestion) bool { return q.Question == "" }
	if err != nil || len(in.Questions) == 0 || slices.ContainsFunc(in.Questions, hasNoText) {
		return strings.TrimSpace(
			"(could not parse questions)\n" + firstChars(cleanText(string(toolInput)), maxRawChars),
		)
	}
	var texts []string
	for _, q := range in.Questions {
		lines := []string{"Question: " + cleanText(q.Question)}
		if h := oneLine(q.Header); h != "" {
			lines = append(lines, "Header: "+h)
		}
		lines = append(
			lines,
			"Multi-select: "+map[bool]string{true: "yes", false: "no"}[q.MultiSelect],
		)
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

// cleanText is a text as an agent is told it, without the line breaks at its end.
func cleanText(s string) string {
	s = state.Clean(state.ForAgent, s)
	if strings.TrimSpace(s) == "" {
		return ""
	}
	return strings.TrimRight(s, "\n")
}

// oneLine is a readable text on one line. Its blanks stay: they are a part of a session's
// name, and of a label on the screen.
func oneLine(
	s string,
) string {
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
