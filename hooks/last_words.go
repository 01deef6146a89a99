package hooks

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
)

const (
	// lastWordsBytes is how much of a transcript's end is read for Claude's last words at most. What follows them is mostly a
	// few lines, but one line can be a picture of ten megabytes.
	lastWordsBytes = 64 << 20
	// restBytes is how much is read at most for the rest of a message whose last words were found: what is before them can be
	// a line of a gigabyte, and is hardly ever of the same message.
	restBytes = 1 << 20
)

// Said is what a transcript's end tells of Claude's last words.
type Said struct {
	Text    string // all text blocks of the message, a line each; "" for none
	Entry   string // the uuid of the message's last line with a text: tells equal words of two turns apart
	Last    bool   // nothing of the conversation follows: at a turn's end the words are not there yet otherwise
	Earlier bool   // a prompt of the person's follows: they are words of an earlier turn
}

// LastWords is the last that Claude said in a transcript. However long that is, only its end is read. Errors are
// those of opening and reading.
func LastWords(path string) (Said, error) {
	if to, err := filepath.EvalSymlinks(path); err == nil { // a person may keep them on another disk
		path = to
	}
	f, size, err := openRegular(path)
	if err != nil {
		return Said{}, err
	}
	defer f.Close()
	for long := int64(128 << 10); ; long *= 8 {
		tail, err := lastLines(f, size, min(long, lastWordsBytes))
		if err != nil {
			return Said{}, err
		}
		s := speech{}
		if s.readBack(tail) || long >= min(size, lastWordsBytes) || len(s.texts) > 0 && long >= restBytes {
			return Said{strings.Join(s.texts, "\n"), string(s.entry), s.lasts, s.earlier && len(s.texts) > 0}, nil
		}
	}
}

// mostLines is how far apart the lines of one message can be: results stand between them.
const mostLines = 20

// speech is a message of Claude's, gathered from a transcript's end.
type speech struct {
	message  words // its id
	entry    words // the uuid of its last line with a text
	texts    []string
	followed bool // by something else of the conversation
	lasts    bool // nothing follows it
	earlier  bool // a prompt follows it
	before   int  // lines before its last one that were looked at
}

// readBack goes through the lines from the last to the first, and says whether the message was found whole. Its lines can
// have results between them, but stand close together.
func (s *speech) readBack(tail []byte) (done bool) {
	for len(tail) > 0 && s.before < mostLines {
		line := tail[bytes.LastIndexByte(tail, '\n')+1:]
		tail = tail[:max(0, len(tail)-len(line)-1)]
		if len(s.texts) > 0 {
			s.before++
		}
		says, prompts := bytes.Contains(line, []byte(`"assistant"`)), bytes.Contains(line, []byte(`"user"`))
		result := prompts && bytes.Contains(line, []byte(`"tool_result"`))
		if !says && (!prompts || result) { // most bytes need no parser
			s.followed = s.followed || result
			continue
		}
		e, blocks, ok := readEntry(line)
		switch {
		case !ok || e.IsMeta || e.IsSidechain:
		case e.Type == "assistant":
			if done = s.add(e, blocks); done {
				return true
			}
		case e.Type == "user":
			prompt, ok := promptOf(line, e, blocks)
			slash := strings.HasPrefix(prompt, "<command-") || strings.HasPrefix(prompt, "<local-command-")
			if !ok || slash || strings.HasPrefix(prompt, "<bash-") { // a command for Claude Code, or for the shell
				continue
			}
			if len(s.texts) > 0 {
				return true
			}
			s.earlier, s.followed, s.message = true, true, ""
		}
	}
	return s.before >= mostLines
}

// add takes a line of the message along; done says that the line is of the one before it.
func (s *speech) add(e entry, blocks []block) (done bool) {
	if len(s.texts) > 0 && (e.Message.ID == "" || e.Message.ID != s.message) {
		return true
	}
	var texts []string
	for _, b := range blocks {
		if b.Type == "text" && strings.TrimSpace(b.Text) != "" {
			texts = append(texts, b.Text)
		}
	}
	if len(texts) > 0 && len(s.texts) == 0 {
		s.lasts, s.entry = !s.followed, e.UUID
	}
	s.followed = true
	s.message, s.texts = e.Message.ID, append(texts, s.texts...)
	return false
}

// promptOf is what the person typed, as far as a line of a transcript is a prompt of the person's, and not one that Claude
// Code makes up.
func promptOf(line []byte, e entry, blocks []block) (text string, ok bool) {
	var p promptEntry
	if e.Type != "user" || e.IsMeta || json.Unmarshal(line, &p) != nil || p.Summary {
		return "", false
	}
	if text = string(p.Message.Content); len(blocks) > 0 {
		if blocks[0].Type == "tool_result" {
			return "", false
		}
		text = blocks[0].Text
	}
	if p.Origin.Kind != "" && p.Origin.Kind != "human" {
		return "", false
	}
	text = strings.TrimSpace(text)
	return text, !strings.HasPrefix(text, "[Request interrupted by user") && !strings.HasPrefix(text, "<task-notification>")
}

// refusedByPerson begins the result of a call that the person turned down in its dialog, with Esc or with "chat about this"
// (2.1.197, 2.1.329). A hook that denies a call leaves its own words there, before which newer versions put theirs.
const refusedByPerson = "The user doesn't want to proceed with this tool use."

// promptEntry is a line of a transcript as far as it tells a prompt of the person from one that Claude Code makes up.
type promptEntry struct {
	Origin struct {
		Kind string `json:"kind"` // human, task-notification
	} `json:"origin"`
	Summary bool `json:"isCompactSummary"` // of the conversation before a compaction
	Message struct {
		Content words `json:"content"`
	} `json:"message"`
}

// askedInTurn says whether a dialog with a question was put to the person since the last prompt that he typed. A turn that
// is longer than the tail counts as far as it is there.
func askedInTurn(tail []byte) bool {
	lines := bytes.Split(tail, []byte("\n"))
	begin := turnBegin(lines)
	asked := map[string]bool{}
	for _, line := range lines[begin:] {
		isCall := bytes.Contains(line, []byte(`"`+askTool+`"`))
		isResult := len(asked) > 0 && bytes.Contains(line, []byte(`"tool_result"`))
		if !isCall && !isResult { // most lines need no parser
			continue
		}
		e, blocks, ok := readEntry(line)
		if !ok || e.IsSidechain {
			continue
		}
		for _, b := range blocks {
			switch {
			case e.Type == "assistant" && b.Type == "tool_use" && b.Name == askTool && b.ID != "":
				asked[b.ID] = true
			case e.Type == "user" && b.Type == "tool_result" && asked[b.ToolUseID] && wasDrawn(e.Message.Content, b.ToolUseID):
				return true
			}
		}
	}
	return false
}

// turnBegin is the index of the last line that the person typed; 0 where there is none.
func turnBegin(lines [][]byte) int {
	for i := len(lines) - 1; i > 0; i-- {
		line := lines[i]
		if !bytes.Contains(line, []byte(`"user"`)) || bytes.Contains(line, []byte(`"tool_result"`)) {
			continue
		}
		if e, blocks, ok := readEntry(line); ok && !e.IsSidechain {
			if _, ok := promptOf(line, e, blocks); ok {
				return i
			}
		}
	}
	return 0
}

// wasDrawn says whether the result of a call in a message's content is that of a dialog: an answer, or its dismissal. Any
// other error means that there was no dialog.
func wasDrawn(content json.RawMessage, id string) bool {
	var blocks []struct {
		ToolUseID string `json:"tool_use_id"`
		IsError   bool   `json:"is_error"`
		Content   words  `json:"content"`
	}
	_ = json.Unmarshal(content, &blocks)
	for _, b := range blocks {
		if b.ToolUseID == id {
			return !b.IsError || strings.Contains(string(b.Content), refusedByPerson)
		}
	}
	return false
}
