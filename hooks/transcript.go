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

// How much of a transcript's end is read, in bytes. Transcripts reach hundreds of
// megabytes.
const (
	// for Claude's last words: what follows them is mostly a few lines
	firstTailBytes = int64(64 << 10)
	tailBytes      = 512 << 10 // for what Claude waits for
	maxTailBytes   = 4 << 20
)

// transcriptEntry is a line of a transcript, as far as we read it. Claude Code calls the
// format its own affair and changes it: what is not understood is passed over.
type transcriptEntry struct {
	Type string `json:"type"`
	// a subagent's, in versions that write them into the same file
	IsSidechain bool `json:"isSidechain"`
	// 2.1.332: of a call that a script of Code Mode made
	IsVirtual        bool `json:"isVirtual"`
	IsMeta           bool `json:"isMeta"`
	IsCompactSummary bool `json:"isCompactSummary"` // of the conversation before a compaction
	Origin           struct {
		From string `json:"kind"` // human, task-notification
	} `json:"origin"`
	Timestamp         LooseText `json:"timestamp"`           // RFC 3339
	ToolUseResult     LooseText `json:"toolUseResult"`       // text for an error
	DenialKind        LooseText `json:"toolDenialKind"`      // who refused a call
	IsDeniedBeforeRun bool      `json:"toolDenialBeforeRun"` // 2.1.330: it did not begin to run
	Message           struct {
		ID      LooseText       `json:"id"` // the same in all lines of one message
		Content json.RawMessage `json:"content"`
	} `json:"message"`
}

type contentBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	IsError   bool            `json:"is_error"`
}

// readEntry reads a line; ok is false for what is no entry. Unmarshal leaves out a member
// of another type, and goes on.
func readEntry(line []byte) (entry transcriptEntry, blocks []contentBlock, ok bool) {
	_ = json.Unmarshal(line, &entry)
	if entry.Type == "" {
		return entry, nil, false
	}
	_ = json.Unmarshal(entry.Message.Content, &blocks) // content can be plain text
	return entry, blocks, true
}

// lastPendingCalls are the last of unanswered, at most three.
func lastPendingCalls(tail []byte) []contentBlock {
	calls := callsWithoutResult(tail)
	return calls[max(0, len(calls)-3):]
}

// callsWithoutResult are the calls that have no result and came after what the person
// said last: a call before that was broken off.
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
				calls = slices.DeleteFunc(
					calls,
					func(c contentBlock) bool { return c.ID == b.ToolUseID },
				)
			case entry.Type == "assistant" && b.Type == "tool_use" && b.ID != "":
				calls = append(calls, b)
			}
		}
	}
	return calls
}

// agentMeta is what Claude Code writes down about a subagent, beside its transcript.
type agentMeta struct {
	Description  string `json:"description"`  // in Claude's words
	ToolUseID    string `json:"toolUseId"`    // that began it
	RequestShape string `json:"requestShape"` // foreground or background (2.1.332)
}

func readAgentMeta(e *Event) (meta agentMeta) {
	b, err := state.ReadPlain(agentFileStem(e, string(e.AgentID))+".meta.json", 1<<20)
	if err == nil {
		_ = json.Unmarshal(b, &meta) // what is not there is not known
	}
	return meta
}

// isInForeground reports whether an event's subagent is known to run in front: the
// session waits for the call that began it. Claude Code draws the dialogs of such a one
// beside their hooks, and those of one in the background after them (2.1.197 and
// 2.1.332).
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

// callResult is what a transcript says of a call that ended.
type callResult string

const (
	resultUnknown callResult = ""    // nothing: the transcript lags, or is another version's
	resultRan     callResult = "ran" // with or without an error of the tool's own
	// with an error that may be the tool's own, or a hook's or a rule's refusal
	resultFailed  callResult = "failed"
	resultRefused callResult = "refused" // the person refused it in the terminal
	resultUnseen  callResult = "unseen"  // nothing, and no event is to come that does
)

// rejectedResult is the toolUseResult of a call that the person refused in the terminal,
// and rejectedResultPrefix begins it where they said why. 2.1.329 says both as
// toolDenialKind, too, and a rule's or a hook's refusal by other words there. exited
// begins that of a shell's command that ran and failed.
const (
	rejectedResult       = "User rejected tool use"
	rejectedResultPrefix = "Error: The user doesn't want to proceed with this tool use."
	userRejectedKind     = "user-rejected"
	exitCodePrefix       = "Error: Exit code "
)

// readCallResult is how a call of this event's batch ended, by the structure of its
// result: never by words that a tool may print.
func readCallResult(e *Event, toolUseID string) callResult {
	for line := range bytes.Lines(transcriptEnd(e, string(e.AgentID))) {
		if toolUseID == "" || !bytes.Contains(line, []byte(toolUseID)) {
			continue
		}
		entry, blocks, _ := readEntry(line)
		for _, b := range blocks {
			if b.ToolUseID == toolUseID {
				return classifyResult(entry, b)
			}
		}
	}
	return resultUnknown
}

// classifyResult is how a call ended whose result a line of a transcript has.
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

// readUnlistedResult is how the call of a permission or a plan ended that no batch lists:
// Esc broke it off, or a script of Code Mode made it. The transcript has the calls of a
// script once the script has ended (2.1.332). Equal calls of scripts that ended
// differently tell nothing.
//
// After Esc, Claude Code takes no decision of a hook. Esc on a call that runs is written
// down by the same words, without IsDeniedBeforeRun, or later than the decision was
// printed.
func readUnlistedResult(e *Event, q *state.Question) callResult {
	calls := map[string]callResult{}
	for line := range bytes.Lines(transcriptEnd(e, q.AgentID)) {
		entry, blocks, _ := readEntry(line)
		at, _ := time.Parse(time.RFC3339, string(entry.Timestamp))
		isBeforeDecision := q.PrintedAt != nil && !at.After(*q.PrintedAt)
		for _, b := range blocks {
			_, isCall := calls[b.ToolUseID]
			switch {
			case b.Type == "tool_use" && b.Name == q.ToolName && (q.ToolName == planTool || callHash(b.Name, b.Input) == q.InputHash):
				if !entry.IsVirtual {
					clear(calls) // Claude asks anew
				}
				calls[b.ID] = resultUnknown
			case !isCall:
			case at.Before(q.AskedAt):
				delete(calls, b.ToolUseID)
			case entry.ToolUseResult == rejectedResult && !entry.IsDeniedBeforeRun && !isBeforeDecision:
				calls[b.ToolUseID] = resultFailed
			default:
				calls[b.ToolUseID] = classifyResult(entry, b)
			}
		}
	}
	results := slices.Compact(slices.Sorted(maps.Values(calls)))
	if len(results) != 1 {
		return resultUnknown
	}
	return results[0]
}

// isScriptRunning says whether a script of Code Mode has no result yet, so that it is not
// known which of its calls ran.
func isScriptRunning(e *Event, q *state.Question) bool {
	return slices.ContainsFunc(
		lastPendingCalls(transcriptEnd(e, q.AgentID)),
		func(b contentBlock) bool { return b.Name == "REPL" },
	)
}

// transcriptEnd is the end of the transcript of an event's session, or of its subagent.
func transcriptEnd(e *Event, agent string) []byte {
	path := string(e.TranscriptPath)
	if agent != "" {
		path = agentFileStem(e, agent) + ".jsonl"
	}
	end, _, _ := inject.TranscriptEnd(path, tailBytes)
	return end
}

// handbackTool is what a subagent reports with in auto mode: its last words are the
// message of that call, and SubagentStop brings none (2.1.332). A subagent that ends
// without the call is sent back, three times at most.
const handbackTool = "SubagentHandback"

// readHandback is the report that a subagent handed back by its tool since its last
// prompt; handsBack says that it has that tool.
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

// agentFileStem is where the files of a subagent are, without what their names end in.
func agentFileStem(e *Event, agent string) string {
	return filepath.Join(
		strings.TrimSuffix(string(e.TranscriptPath), ".jsonl"),
		"subagents",
		"agent-"+agent,
	)
}

// tally is what a session did and said, as far as its transcript was read.
type tally struct {
	turns    int            // prompts of the person that Claude answered
	tools    map[string]int // calls, by the tool's name
	lastText string         // all text blocks of Claude's last words, a line each; "" for none
	// nothing of the conversation follows: at a turn's end the words are not there yet
	// otherwise
	isTextLast bool

	since          time.Time  // what is older does not count
	isPromptOpen   bool       // by a prompt that has no answer yet
	lastTextID     LooseText  // the id of the message that said is of
	firstMessageID *LooseText // the id of the first message of Claude's that was read
}

// LastClaudeText is the last that Claude said in a transcript; "" where something of the
// conversation follows. It is read from its end, until all lines of that message are
// there. Errors are those of opening and reading.
func LastClaudeText(path string) (string, error) {
	for limit := firstTailBytes; ; limit *= 8 {
		tail, isComplete, err := inject.TranscriptEnd(path, limit)
		t := tally{tools: map[string]int{}}
		for line := range bytes.Lines(tail) {
			t.addLine(line)
		}
		// another message stands before it
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

// addLine takes a further line along. Each line of a message has some of its blocks, and
// results can stand between them.
func (t *tally) addLine(line []byte) {
	hasResult := bytes.Contains(line, []byte(`"tool_result"`))
	mayBePrompt := bytes.Contains(line, []byte(`"user"`)) && !hasResult
	if !mayBePrompt && !bytes.Contains(line, []byte(`"assistant"`)) { // most bytes need no parser
		t.isTextLast = t.isTextLast && !hasResult
		return
	}
	entry, blocks, ok := readEntry(line)
	at, err := time.Parse(time.RFC3339, string(entry.Timestamp))
	if !ok || entry.IsMeta || entry.IsSidechain || err == nil && at.Before(t.since) {
		return
	}
	if prompt, ok := personPrompt(entry, blocks); ok {
		forClaudeCode := strings.HasPrefix(prompt, "<command-") ||
			strings.HasPrefix(prompt, "<local-command-")
		t.isPromptOpen, t.isTextLast = true, t.isTextLast &&
			(forClaudeCode || strings.HasPrefix(prompt, "<bash-"))
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

// countTools counts the tools that Claude called in some blocks, and returns what it said
// there.
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

// personPrompt is what the person typed; ok is false for a line that is no prompt, or one
// that Claude Code makes up.
func personPrompt(entry transcriptEntry, blocks []contentBlock) (text string, ok bool) {
	if entry.Type != "user" || entry.IsMeta || entry.IsCompactSummary ||
		entry.Origin.From != "" && entry.Origin.From != "human" {
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
	return text, !strings.HasPrefix(text, "[Request interrupted by user") &&
		!strings.HasPrefix(text, "<task-notification>")
}
