package hooks

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
)

// What is read of a transcript's end for Claude's last words: what follows them is mostly a few lines, but one line can be a
// picture of ten megabytes.
const (
	endBytes     = 1 << 20
	longEndBytes = 64 << 20
)

// Said is what a transcript's end tells of Claude's last words.
type Said struct {
	Text    string // all text blocks of the message, a line each; "" for none
	Entry   string // the uuid of the message's last line with a text: tells equal words of two turns apart
	Last    bool   // nothing of the conversation follows: at a turn's end the words are not there yet otherwise
	Earlier bool   // a prompt of the person's follows: they are words of an earlier turn

	message words // its id
}

// LastWords is the last that Claude said in a transcript. However long that is, only its end is read. Errors are
// those of opening and reading.
func LastWords(path string) (Said, error) {
	if to, err := filepath.EvalSymlinks(path); err == nil { // a person may keep them on another disk
		path = to
	}
	f, size, err := openTranscript(path)
	if err != nil {
		return Said{}, err
	}
	defer f.Close()
	said := Said{}
	for _, most := range []int64{endBytes, longEndBytes} {
		tail, err := lastLines(f, size, most)
		if err != nil {
			return Said{}, err
		}
		said = Said{}
		for line := range bytes.Lines(tail) {
			said.read(line)
		}
		if said.Text != "" || size <= most {
			break
		}
	}
	return said, nil
}

// read takes a further line along.
func (s *Said) read(line []byte) {
	if !bytes.Contains(line, []byte(`"assistant"`)) && !mayPrompt(line) { // most bytes need no parser
		s.Last = s.Last && !bytes.Contains(line, []byte(`"tool_result"`))
		return
	}
	e, blocks, ok := readEntry(line)
	switch {
	case !ok || e.IsMeta || e.IsSidechain:
	case e.Type == "assistant":
		s.add(e, blocks)
	case e.Type == "user":
		prompt, ok := promptOf(line, e, blocks)
		slash := strings.HasPrefix(prompt, "<command-") || strings.HasPrefix(prompt, "<local-command-")
		if ok && !slash && !strings.HasPrefix(prompt, "<bash-") { // no command for Claude Code, or for the shell
			s.Last, s.Earlier = false, s.Text != ""
		}
	}
}

// add takes a line of Claude's along. Each line of a message has some of its blocks, and results can stand between them.
func (s *Said) add(e entry, blocks []block) {
	var texts []string
	for _, b := range blocks {
		if b.Type == "text" && strings.TrimSpace(b.Text) != "" {
			texts = append(texts, b.Text)
		}
	}
	if s.Last = len(texts) > 0; !s.Last {
		return
	}
	if e.Message.ID == "" || e.Message.ID != s.message {
		s.message, s.Text = e.Message.ID, ""
	}
	s.Text = strings.Join(append(nonEmpty(s.Text), texts...), "\n")
	s.Entry, s.Earlier = string(e.UUID), false
}

// mayPrompt says whether a line may be a prompt, before it is parsed.
func mayPrompt(line []byte) bool {
	return bytes.Contains(line, []byte(`"user"`)) && !bytes.Contains(line, []byte(`"tool_result"`))
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
			case e.Type == "user" && b.Type == "tool_result" && asked[b.ToolUseID] && wasDrawn(b):
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
		if !mayPrompt(line) {
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

// wasDrawn says whether a call's result is that of a dialog: an answer, or its dismissal. Any other error means that there was
// no dialog.
func wasDrawn(result block) bool {
	return !result.IsError || strings.Contains(string(result.Content), refusedByPerson)
}
