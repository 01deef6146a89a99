package hooks

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// These are how many bytes of a transcript's end are read. Transcripts reach hundreds of
// megabytes.
const (
	// firstTailBytes is for Claude's last text: usually only a few lines follow it.
	firstTailBytes = int64(64 << 10)
	// tailBytes is for what Claude waits for.
	tailBytes    = 512 << 10
	maxTailBytes = 4 << 20
)

// transcriptEntry is a line of a transcript, as far as we read it. Claude Code documents
// no format and changes it. What is not understood is skipped.
type transcriptEntry struct {
	Type string `json:"type"`
	// of a subagent, in versions that write subagents' lines into the same file
	IsSidechain bool `json:"isSidechain"`
	// 2.1.332: about a call that a script of Code Mode made
	IsVirtual        bool `json:"isVirtual"`
	IsMeta           bool `json:"isMeta"`
	IsCompactSummary bool `json:"isCompactSummary"` // sums up the conversation before a compaction
	Origin           struct {
		From string `json:"kind"` // human, task-notification
	} `json:"origin"`
	Timestamp         LooseText `json:"timestamp"`           // RFC 3339
	ToolUseResult     LooseText `json:"toolUseResult"`       // a text if the call failed
	DenialKind        LooseText `json:"toolDenialKind"`      // who refused the call
	IsDeniedBeforeRun bool      `json:"toolDenialBeforeRun"` // 2.1.330: it did not start to run
	// Esc interrupted a call of this message that was running (2.1.197 and 2.1.332)
	InterruptedMessage LooseText `json:"interruptedMessageId"`
	Message            struct {
		ID      LooseText       `json:"id"` // the same in all lines of one message
		Content json.RawMessage `json:"content"`
	} `json:"message"`
}

// contentBlock is a block of a message: a text, a call or a call's result.
type contentBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	IsError   bool            `json:"is_error"`
}

// readEntry reads a line. ok is false if it is no entry. A member of another type is left
// out.
func readEntry(line []byte) (entry transcriptEntry, blocks []contentBlock, ok bool) {
	_ = json.Unmarshal(line, &entry)
	if entry.Type == "" {
		return entry, nil, false
	}
	_ = json.Unmarshal(entry.Message.Content, &blocks) // content can be plain text
	return entry, blocks, true
}

// lastPendingCalls are the last three calls that have no result.
func lastPendingCalls(tail []byte) []contentBlock {
	calls := callsWithoutResult(tail)
	return calls[max(0, len(calls)-3):]
}

// callsWithoutResult are the calls without a result since the person's last prompt: an
// earlier one was interrupted.
func callsWithoutResult(tail []byte) (calls []contentBlock) {
	for line := range bytes.Lines(tail) {
		entry, blocks, ok := readEntry(line)
		if !ok || entry.IsSidechain {
			continue
		}
		if _, isPrompt := personPrompt(entry, blocks); isPrompt {
			calls = nil
		}
		for _, b := range blocks {
			switch {
			case entry.Type == "user" && b.Type == "tool_result":
				calls = slices.DeleteFunc(calls, func(c contentBlock) bool {
					return c.ID == b.ToolUseID
				})
			case entry.Type == "assistant" && b.Type == "tool_use" && b.ID != "":
				calls = append(calls, b)
			}
		}
	}
	return calls
}

// agentMeta is what Claude Code records about a subagent, beside its transcript.
type agentMeta struct {
	Description  string `json:"description"`  // Claude's description of the task
	ToolUseID    string `json:"toolUseId"`    // the call that started it
	RequestShape string `json:"requestShape"` // foreground or background (2.1.332)
}

// readAgentMeta reads the file about an event's subagent. Without the file, nothing is
// known.

func readAgentMeta(e *Event) (meta agentMeta) {
	b, err := state.ReadPlain(agentFileStem(e, string(e.AgentID))+".meta.json", 1<<20)
	if err == nil {
		_ = json.Unmarshal(b, &meta)
	}
	return meta
}

// isInForeground reports whether an event's subagent is known to run in the foreground:
// the session waits for the call that started it. Claude Code draws the dialogs of a
// foreground agent while the hooks run, and those of a background agent after the hooks
// (2.1.197 and 2.1.332).
func isInForeground(e *Event, meta agentMeta) bool {
	if meta.ToolUseID == "" || meta.RequestShape == "background" {
		return false
	}
	calls := callsWithoutResult(transcriptEnd(e, ""))
	i := slices.IndexFunc(calls, func(c contentBlock) bool { return c.ID == meta.ToolUseID })
	if i < 0 {
		return false
	}
	var in struct {
		Background bool `json:"run_in_background"`
	}
	err := json.Unmarshal(calls[i].Input, &in)
	return err == nil && !in.Background
}

// callResult is how a call ended, by its transcript.
type callResult string

const (
	resultUnknown callResult = ""    // not known: the transcript lags or has another format
	resultRan     callResult = "ran" // it ran, with or without an error of the tool's own
	// an error that may be the tool's own, or the refusal of a hook or a rule
	resultFailed  callResult = "failed"
	resultRefused callResult = "refused" // the person refused it in the terminal
	resultUnseen  callResult = "unseen"  // not known, and no later event can tell
	// Esc or a bare "No" ended its dialog, and the turn. Both leave the same lines (2.1.197
	// and 2.1.332).
	resultDismissed callResult = "dismissed"
)

// These are texts by which 2.1.329 and other versions mark a call's result.
// rejectedResult is the toolUseResult of a call that the person refused in the terminal.
// With a reason it begins with rejectedResultPrefix. 2.1.329 also marks both as
// userRejectedKind in toolDenialKind, and the refusal of a rule or a hook as another
// kind. exitCodePrefix begins the result of a shell command that ran and failed.
const (
	rejectedResult       = "User rejected tool use"
	rejectedResultPrefix = "Error: The user doesn't want to proceed with this tool use."
	userRejectedKind     = "user-rejected"
	exitCodePrefix       = "Error: Exit code "
	interruptionPrefix   = "[Request interrupted by user" // the text of the line after Esc
)

// readCallResult returns how a call of this event's batch ended. It goes by the structure
// of the result and never by text that a tool may print.
func readCallResult(e *Event, toolUseID string) callResult {
	entry, result := findCallResult(e, string(e.AgentID), toolUseID)
	if result == nil {
		return resultUnknown
	}
	return classifyResult(entry, *result)
}

// findCallResult returns the line with a call's result, and the result, from the
// transcript of the session or of its subagent. The result is nil if it is not there.
func findCallResult(
	e *Event, agent, toolUseID string,
) (transcriptEntry, *contentBlock) {
	for line := range bytes.Lines(transcriptEnd(e, agent)) {
		if toolUseID == "" || !bytes.Contains(line, []byte(toolUseID)) {
			continue
		}
		entry, blocks, _ := readEntry(line)
		for _, b := range blocks {
			if b.ToolUseID == toolUseID {
				return entry, &b
			}
		}
	}
	return transcriptEntry{}, nil
}

// readToolResponse returns what a question's call returned, as PostToolUse has it in
// tool_response (2.1.197 and 2.1.332). It is nil if the transcript has no answers.
func readToolResponse(e *Event, q *state.Question) json.RawMessage {
	entry, result := findCallResult(e, q.AgentID, q.ToolUseID)
	if result == nil || result.IsError || !strings.HasPrefix(string(entry.ToolUseResult), "{") {
		return nil
	}
	return json.RawMessage(entry.ToolUseResult)
}

// CallOutcome returns how a transcript says that a call ended: "ran", "failed" or
// "refused", and "" if it does not say.
func CallOutcome(transcript, toolUseID string) string {
	return string(readCallResult(&Event{TranscriptPath: LooseText(transcript)}, toolUseID))
}

// classifyResult returns how a call ended, by the transcript's line with its result.
func classifyResult(entry transcriptEntry, result contentBlock) callResult {
	switch {
	case !result.IsError,
		entry.DenialKind == "" && strings.HasPrefix(string(entry.ToolUseResult), exitCodePrefix):
		return resultRan
	case entry.DenialKind == userRejectedKind,
		entry.ToolUseResult == rejectedResult,
		strings.HasPrefix(string(entry.ToolUseResult), rejectedResultPrefix):
		return resultRefused
	}
	return resultFailed
}

// readUnlistedResult returns how the call of a permission or a plan ended that no batch
// lists: Esc interrupted it, or a script of Code Mode made it. The transcript has the
// calls of a script once the script has ended (2.1.332). If equal calls of scripts ended
// differently, the result is not known.
//
// After Esc, Claude Code uses no hook's decision. Esc on a call that already runs leaves
// the same text, but without IsDeniedBeforeRun or later than the decision was printed.
// Where no decision was printed, the next line says whether a call was running.
func readUnlistedResult(e *Event, q *state.Question) callResult {
	calls := map[string]callResult{}
	var refused []string // the calls of which the line about the interruption is to come
	for line := range bytes.Lines(transcriptEnd(e, q.AgentID)) {
		entry, blocks, _ := readEntry(line)
		at, _ := time.Parse(time.RFC3339, string(entry.Timestamp))
		for _, b := range blocks {
			_, isCall := calls[b.ToolUseID]
			isOfTool := b.Type == "tool_use" && b.Name == q.ToolName
			switch {
			case isOfTool && (q.ToolName == planTool || callHash(b.Name, b.Input) == q.InputHash):
				if !entry.IsVirtual {
					clear(calls) // Claude makes the call again
				}
				calls[b.ID] = resultUnknown
			case !isCall:
			case at.Before(q.AskedAt):
				delete(calls, b.ToolUseID)
			case entry.ToolUseResult == rejectedResult && q.PrintedAt == nil && !entry.IsDeniedBeforeRun:
				refused = append(refused, b.ToolUseID)
			default:
				calls[b.ToolUseID] = classifyUnlisted(entry, b, at, q.PrintedAt)
			}
		}
		if isInterruption(blocks) {
			for _, id := range refused {
				calls[id] = classifyInterruption(entry)
			}
			refused = nil
		}
	}
	results := slices.Compact(slices.Sorted(maps.Values(calls)))
	if len(results) != 1 {
		return resultUnknown
	}
	return results[0]
}

// classifyUnlisted is classifyResult for a call whose decision was printed at a time, or
// was not printed.
func classifyUnlisted(
	entry transcriptEntry, result contentBlock, at time.Time, printedAt *time.Time,
) callResult {
	if entry.ToolUseResult != rejectedResult {
		return classifyResult(entry, result)
	}
	switch {
	case printedAt == nil:
		return resultDismissed
	case at.After(*printedAt) && !entry.IsDeniedBeforeRun:
		return resultFailed
	}
	return classifyResult(entry, result)
}

// classifyInterruption returns how the calls ended that the line about an Esc is about.
func classifyInterruption(entry transcriptEntry) callResult {
	if entry.InterruptedMessage != "" {
		return resultFailed
	}
	return resultDismissed
}

// isInterruption reports whether these blocks are Claude Code's line about an Esc.
func isInterruption(blocks []contentBlock) bool {
	return len(blocks) > 0 && strings.HasPrefix(blocks[0].Text, interruptionPrefix)
}

// isScriptRunning reports whether a script of Code Mode has no result yet. Then it is not
// known which of its calls ran.
func isScriptRunning(e *Event, q *state.Question) bool {
	isScript := func(b contentBlock) bool { return b.Name == "REPL" }
	return slices.ContainsFunc(lastPendingCalls(transcriptEnd(e, q.AgentID)), isScript)
}

// transcriptEnd reads the end of the transcript of an event's session, or of its
// subagent.
func transcriptEnd(e *Event, agent string) []byte {
	path := string(e.TranscriptPath)
	if agent != "" {
		path = agentFileStem(e, agent) + ".jsonl"
	}
	end, _, _ := inject.TranscriptEnd(path, tailBytes)
	return end
}

// handbackTool is the tool by which a subagent reports in auto mode. The agent's last
// text is the message of that call, and its SubagentStop event has no text (2.1.332). If
// a subagent ends without the call, Claude Code sends it back to work, at most three
// times.
const handbackTool = "SubagentHandback"

// readHandback returns the report that a subagent handed back since its last prompt.
// hasHandbackTool reports whether the subagent has the tool for that.
func readHandback(e *Event) (report string, hasHandbackTool bool) {
	for line := range bytes.Lines(transcriptEnd(e, string(e.AgentID))) {
		hasHandbackTool = hasHandbackTool || bytes.Contains(line, []byte(handbackTool))
		entry, blocks, _ := readEntry(line)
		if _, isPrompt := personPrompt(entry, blocks); isPrompt {
			report = ""
		}
		for _, b := range blocks {
			var input struct {
				Message LooseText `json:"message"`
			}
			if b.Type == "tool_use" && b.Name == handbackTool &&
				json.Unmarshal(b.Input, &input) == nil {
				report = string(input.Message)
			}
		}
	}
	return report, hasHandbackTool
}

// agentFileStem is the path of a subagent's files without their endings.
func agentFileStem(e *Event, agent string) string {
	sessionDir := strings.TrimSuffix(string(e.TranscriptPath), ".jsonl")
	return filepath.Join(sessionDir, "subagents", "agent-"+agent)
}

// tally counts what a session did and keeps its last text, as far as its transcript was
// read.
type tally struct {
	turns    int            // prompts of the person that Claude answered
	tools    map[string]int // calls, by the tool's name
	lastText string         // the text blocks of Claude's last message, a line each; "" for none
	// isTextLast reports that nothing of the conversation follows lastText. If something
	// does at a turn's end, the turn's last text is not in the transcript yet.
	isTextLast bool

	costUSD float64 // what the session cost, by Claude Code's estimate; 0 if not known

	since          time.Time  // older lines do not count
	isPromptOpen   bool       // the last prompt has no answer yet
	lastTextID     LooseText  // the id of the message that has lastText
	firstMessageID *LooseText // the id of the first message of Claude's that was read
}

// LastClaudeText returns the last text of Claude's in a transcript; "" if something of
// the conversation follows it. It reads more and more of the transcript's end until it
// has all lines of that message. It fails if the transcript cannot be opened or read.
func LastClaudeText(path string) (string, error) {
	for limit := firstTailBytes; ; limit *= 8 {
		tail, isComplete, err := inject.TranscriptEnd(path, limit)
		t := tally{tools: map[string]int{}}
		for line := range bytes.Lines(tail) {
			t.addLine(line)
		}
		// The message is complete if another one stands before it.
		isMessageComplete := t.firstMessageID != nil && *t.firstMessageID != t.lastTextID
		if err == nil && !isComplete && !isMessageComplete && limit < maxTailBytes {
			continue
		}
		if !t.isTextLast {
			return "", err
		}
		return t.lastText, err
	}
}

// addLine adds the next line of the transcript. Each line of a message has some of its
// blocks, and results can stand between these lines.
func (t *tally) addLine(line []byte) {
	hasResult := bytes.Contains(line, []byte(`"tool_result"`))
	mayBePrompt := bytes.Contains(line, []byte(`"user"`)) && !hasResult
	if !mayBePrompt && !bytes.Contains(line, []byte(`"assistant"`)) { // most lines need no parser
		t.isTextLast = t.isTextLast && !hasResult
		t.readCost(line)
		return
	}
	entry, blocks, ok := readEntry(line)
	at, err := time.Parse(time.RFC3339, string(entry.Timestamp))
	isOld := err == nil && at.Before(t.since)
	if !ok || entry.IsMeta || entry.IsSidechain || isOld {
		return
	}
	if prompt, ok := personPrompt(entry, blocks); ok {
		isForClaudeCode := strings.HasPrefix(prompt, "<command-") ||
			strings.HasPrefix(prompt, "<local-command-") || strings.HasPrefix(prompt, "<bash-")
		t.isPromptOpen = true
		t.isTextLast = t.isTextLast && isForClaudeCode
	}
	if entry.Type != "assistant" {
		return
	}
	if t.firstMessageID == nil {
		t.firstMessageID = &entry.Message.ID
	}
	if t.isPromptOpen {
		t.turns++
		t.isPromptOpen = false
	}
	texts := t.countTools(blocks)
	t.isTextLast = len(texts) > 0
	if !t.isTextLast {
		return
	}
	if entry.Message.ID == "" || entry.Message.ID != t.lastTextID {
		t.lastTextID, t.lastText = entry.Message.ID, ""
	}
	t.lastText = strings.Join(append(nonEmpty(t.lastText), texts...), "\n")
}

// readCost reads the line in which Claude Code writes what the session cost, when it ends
// (2.1.332; 2.1.197 writes none).
func (t *tally) readCost(line []byte) {
	var entry struct {
		Type         string  `json:"type"`
		TotalCostUSD float64 `json:"totalCostUSD"`
		IsIncomplete bool    `json:"hasUnknownModelCost"`
	}
	if !bytes.Contains(line, []byte(`"cost-state"`)) || json.Unmarshal(line, &entry) != nil ||
		entry.Type != "cost-state" {
		return
	}
	t.costUSD = 0
	if !entry.IsIncomplete && entry.TotalCostUSD < 1e6 {
		t.costUSD = entry.TotalCostUSD
	}
}

// countTools counts the tools that Claude called in some blocks, and returns Claude's
// texts in them.
func (t *tally) countTools(blocks []contentBlock) (texts []string) {
	for _, b := range blocks {
		switch {
		case b.Type == "text" && strings.TrimSpace(b.Text) != "":
			texts = append(texts, b.Text)
		case b.Type == "tool_use" && b.Name != "":
			t.tools[b.Name]++
		}
	}
	return texts
}

// personPrompt returns what the person typed. ok is false for a line that is no prompt,
// or a prompt of Claude Code's own.
func personPrompt(entry transcriptEntry, blocks []contentBlock) (text string, ok bool) {
	isOfPerson := entry.Origin.From == "" || entry.Origin.From == "human"
	if entry.Type != "user" || entry.IsMeta || entry.IsCompactSummary || !isOfPerson {
		return "", false
	}
	switch {
	case len(blocks) == 0:
		_ = json.Unmarshal(entry.Message.Content, &text)
	case blocks[0].Type == "tool_result":
		return "", false
	default:
		text = blocks[0].Text
	}
	text = strings.TrimSpace(text)
	return text, !strings.HasPrefix(text, interruptionPrefix) &&
		!strings.HasPrefix(text, "<task-notification>")
}
