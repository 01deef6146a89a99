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

// How much of a transcript's end is read, in bytes. Transcripts reach hundreds of megabytes.
const (
	firstBytes = int64(64 << 10) // for Claude's last words: what follows them is mostly a few lines
	tailBytes  = 512 << 10       // for what Claude waits for
	endBytes   = 4 << 20
)

// entry is a line of a transcript, as far as we read it. Claude Code calls the format its own affair and changes it: what
// is not understood is passed over.
type entry struct {
	Type        string `json:"type"`
	IsSidechain bool   `json:"isSidechain"` // a subagent's, in versions that write them into the same file
	IsVirtual   bool   `json:"isVirtual"`   // 2.1.332: of a call that a script of Code Mode made
	IsMeta      bool   `json:"isMeta"`
	IsSummary   bool   `json:"isCompactSummary"` // of the conversation before a compaction
	Origin      struct {
		From string `json:"kind"` // human, task-notification
	} `json:"origin"`
	Timestamp Words `json:"timestamp"`           // RFC 3339
	Result    Words `json:"toolUseResult"`       // text for an error
	Denial    Words `json:"toolDenialKind"`      // who refused a call
	BeforeRun bool  `json:"toolDenialBeforeRun"` // 2.1.330: it did not begin to run
	Message   struct {
		ID      Words           `json:"id"` // the same in all lines of one message
		Content json.RawMessage `json:"content"`
	} `json:"message"`
}

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	IsError   bool            `json:"is_error"`
}

// readEntry reads a line; ok is false for what is no entry. Unmarshal leaves out a member of another type, and goes on.
func readEntry(line []byte) (e entry, blocks []block, ok bool) {
	_ = json.Unmarshal(line, &e)
	if e.Type == "" {
		return e, nil, false
	}
	_ = json.Unmarshal(e.Message.Content, &blocks) // content can be plain text
	return e, blocks, true
}

// pendingIn are the last of unanswered, at most three.
func pendingIn(tail []byte) []block {
	calls := unanswered(tail)
	return calls[max(0, len(calls)-3):]
}

// unanswered are the calls that have no result and came after what the person said last: a call before that was broken off.
func unanswered(tail []byte) (calls []block) {
	for line := range bytes.Lines(tail) {
		e, blocks, ok := readEntry(line)
		if !ok || e.IsSidechain {
			continue
		}
		if _, isPrompt := promptOf(e, blocks); isPrompt {
			calls = nil
		}
		for _, b := range blocks {
			switch {
			case e.Type == "user" && b.Type == "tool_result":
				calls = slices.DeleteFunc(calls, func(c block) bool { return c.ID == b.ToolUseID })
			case e.Type == "assistant" && b.Type == "tool_use" && b.ID != "":
				calls = append(calls, b)
			}
		}
	}
	return calls
}

// agentMeta is what Claude Code writes down about a subagent, beside its transcript.
type agentMeta struct {
	Task  string `json:"description"`  // in Claude's words
	Call  string `json:"toolUseId"`    // that began it
	Shape string `json:"requestShape"` // foreground or background (2.1.332)
}

func metaOf(e *Event) (meta agentMeta) {
	b, err := state.ReadPlain(agentFile(e, string(e.AgentID))+".meta.json", 1<<20)
	if err == nil {
		_ = json.Unmarshal(b, &meta) // what is not there is not known
	}
	return meta
}

// inForeground reports whether an event's subagent is known to run in front: the session waits
// for the call that began it. Claude Code draws the dialogs of such a one beside their hooks,
// and those of one in the background after them (2.1.197 and 2.1.332).
func inForeground(e *Event, meta agentMeta) bool {
	if meta.Call == "" || meta.Shape == "background" {
		return false
	}
	calls := unanswered(transcriptEnd(e, ""))
	i := slices.IndexFunc(calls, func(c block) bool { return c.ID == meta.Call })
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
	unknown callResult = ""        // nothing: the transcript lags, or is another version's
	ran     callResult = "ran"     // with or without an error of the tool's own
	failed  callResult = "failed"  // with an error that may be the tool's own, or a hook's or a rule's refusal
	refused callResult = "refused" // the person refused it in the terminal
	unseen  callResult = "unseen"  // nothing, and no event is to come that does
)

// rejected is the toolUseResult of a call that the person refused in the terminal, and rejectedBecause begins it where they said
// why. 2.1.329 says both as toolDenialKind, too, and a rule's or a hook's refusal by other words there. exited begins that of a
// shell's command that ran and failed.
const (
	rejected        = "User rejected tool use"
	rejectedBecause = "Error: The user doesn't want to proceed with this tool use."
	userRejected    = "user-rejected"
	exited          = "Error: Exit code "
)

// resultOf is how a call of this event's batch ended, by the structure of its result: never by words that a tool may print.
func resultOf(e *Event, toolUseID string) callResult {
	for line := range bytes.Lines(transcriptEnd(e, string(e.AgentID))) {
		if toolUseID == "" || !bytes.Contains(line, []byte(toolUseID)) {
			continue
		}
		e, blocks, _ := readEntry(line)
		for _, b := range blocks {
			if b.ToolUseID == toolUseID {
				return resultIn(e, b)
			}
		}
	}
	return unknown
}

// resultIn is how a call ended whose result a line of a transcript has.
func resultIn(e entry, result block) callResult {
	switch {
	case !result.IsError, e.Denial == "" && strings.HasPrefix(string(e.Result), exited):
		return ran
	case e.Denial == userRejected, e.Result == rejected, strings.HasPrefix(string(e.Result), rejectedBecause):
		return refused
	}
	return failed
}

// endedAs is how the call of a permission or a plan ended that no batch lists: Esc broke it off, or a script of Code Mode
// made it. The transcript has the calls of a script once the script has ended (2.1.332). Equal calls of
// scripts that ended differently tell nothing.
//
// After Esc, Claude Code takes no decision of a hook. Esc on a call that runs is written down by the same words, without
// BeforeRun, or later than the decision was printed.
func endedAs(e *Event, q *state.Question) callResult {
	calls := map[string]callResult{}
	for line := range bytes.Lines(transcriptEnd(e, q.AgentID)) {
		is, blocks, _ := readEntry(line)
		at, _ := time.Parse(time.RFC3339, string(is.Timestamp))
		early := q.PrintedAt != nil && !at.After(*q.PrintedAt)
		for _, b := range blocks {
			_, isCall := calls[b.ToolUseID]
			switch {
			case b.Type == "tool_use" && b.Name == q.Tool && (q.Tool == planTool || callHash(b.Name, b.Input) == q.InputHash):
				if !is.IsVirtual {
					clear(calls) // Claude asks anew
				}
				calls[b.ID] = unknown
			case !isCall:
			case at.Before(q.AskedAt):
				delete(calls, b.ToolUseID)
			case is.Result == rejected && !is.BeforeRun && !early:
				calls[b.ToolUseID] = failed
			default:
				calls[b.ToolUseID] = resultIn(is, b)
			}
		}
	}
	ends := slices.Compact(slices.Sorted(maps.Values(calls)))
	if len(ends) != 1 {
		return unknown
	}
	return ends[0]
}

// scriptRuns says whether a script of Code Mode has no result yet, so that it is not known which of its calls ran.
func scriptRuns(e *Event, q *state.Question) bool {
	return slices.ContainsFunc(pendingIn(transcriptEnd(e, q.AgentID)), func(b block) bool { return b.Name == "REPL" })
}

// transcriptEnd is the end of the transcript of an event's session, or of its subagent.
func transcriptEnd(e *Event, agent string) []byte {
	path := string(e.Transcript)
	if agent != "" {
		path = agentFile(e, agent) + ".jsonl"
	}
	end, _, _ := inject.TranscriptEnd(path, tailBytes)
	return end
}

// handbackTool is what a subagent reports with in auto mode: its last words are the message of that call, and SubagentStop brings
// none (2.1.332). A subagent that ends without the call is sent back, three times at most.
const handbackTool = "SubagentHandback"

// handedBack is the report that a subagent handed back by its tool since its last prompt; handsBack says that it has that tool.
func handedBack(e *Event) (report string, handsBack bool) {
	for line := range bytes.Lines(transcriptEnd(e, string(e.AgentID))) {
		handsBack = handsBack || bytes.Contains(line, []byte(handbackTool))
		is, blocks, _ := readEntry(line)
		if _, isPrompt := promptOf(is, blocks); isPrompt {
			report = ""
		}
		for _, b := range blocks {
			var input struct {
				Message Words `json:"message"`
			}
			if b.Type == "tool_use" && b.Name == handbackTool && json.Unmarshal(b.Input, &input) == nil {
				report = string(input.Message)
			}
		}
	}
	return report, handsBack
}

// agentFile is where the files of a subagent are, without what their names end in.
func agentFile(e *Event, agent string) string {
	return filepath.Join(strings.TrimSuffix(string(e.Transcript), ".jsonl"), "subagents", "agent-"+agent)
}

// tally is what a session did and said, as far as its transcript was read.
type tally struct {
	turns    int            // prompts of the person that Claude answered
	tools    map[string]int // calls, by the tool's name
	said     string         // all text blocks of Claude's last words, a line each; "" for none
	saidLast bool           // nothing of the conversation follows: at a turn's end the words are not there yet otherwise

	since    time.Time // what is older does not count
	prompted bool      // by a prompt that has no answer yet
	message  Words     // the id of the message that said is of
	first    *Words    // the id of the first message of Claude's that was read
}

// LastWords is the last that Claude said in a transcript; "" where something of the conversation follows. It is read from its
// end, until all lines of that message are there. Errors are those of opening and reading.
func LastWords(path string) (string, error) {
	for most := firstBytes; ; most *= 8 {
		end, all, err := inject.TranscriptEnd(path, most)
		t := tally{tools: map[string]int{}}
		for line := range bytes.Lines(end) {
			t.add(line)
		}
		begins := t.first != nil && *t.first != t.message // another message stands before it
		if err == nil && !all && !begins && most < endBytes {
			continue
		}
		if !t.saidLast {
			return "", err
		}
		return t.said, err
	}
}

// add takes a further line along. Each line of a message has some of its blocks, and results can stand between them.
func (t *tally) add(line []byte) {
	result := bytes.Contains(line, []byte(`"tool_result"`))
	prompt := bytes.Contains(line, []byte(`"user"`)) && !result
	if !prompt && !bytes.Contains(line, []byte(`"assistant"`)) { // most bytes need no parser
		t.saidLast = t.saidLast && !result
		return
	}
	e, blocks, ok := readEntry(line)
	at, err := time.Parse(time.RFC3339, string(e.Timestamp))
	if !ok || e.IsMeta || e.IsSidechain || err == nil && at.Before(t.since) {
		return
	}
	if prompt, ok := promptOf(e, blocks); ok {
		forClaudeCode := strings.HasPrefix(prompt, "<command-") || strings.HasPrefix(prompt, "<local-command-")
		t.prompted, t.saidLast = true, t.saidLast && (forClaudeCode || strings.HasPrefix(prompt, "<bash-"))
	}
	if e.Type != "assistant" {
		return
	}
	if t.first == nil {
		t.first = &e.Message.ID
	}
	if t.prompted {
		t.turns++
		t.prompted = false
	}
	texts := t.count(blocks)
	t.saidLast = len(texts) > 0
	if !t.saidLast {
		return
	}
	if e.Message.ID == "" || e.Message.ID != t.message {
		t.message, t.said = e.Message.ID, ""
	}
	t.said = strings.Join(append(nonEmpty(t.said), texts...), "\n")
}

// count counts the tools that Claude called in some blocks, and returns what it said there.
func (t *tally) count(blocks []block) (texts []string) {
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

// promptOf is what the person typed; ok is false for a line that is no prompt, or one that Claude Code makes up.
func promptOf(e entry, blocks []block) (text string, ok bool) {
	if e.Type != "user" || e.IsMeta || e.IsSummary || e.Origin.From != "" && e.Origin.From != "human" {
		return "", false
	}
	switch {
	case len(blocks) == 0:
		_ = json.Unmarshal(e.Message.Content, &text)
	case blocks[0].Type == "tool_result":
		return "", false
	default:
		text = blocks[0].Text
	}
	text = strings.TrimSpace(text)
	return text, !strings.HasPrefix(text, "[Request interrupted by user") && !strings.HasPrefix(text, "<task-notification>")
}
