package hooks

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"time"
)

const (
	tallyBound   = 10 * time.Second // for all of a session's transcripts
	tallyBytes   = 200 << 20        // of them, the end of the longest
	maxLine      = 16 << 20         // bytes; a longer line (a picture) is passed over
	maxSubagents = 1000
	maxFiles     = 1000 // edited ones that are told apart
)

// tally is what a session did, by its transcripts.
type tally struct {
	tools     map[string]int
	files     []string // edited, in the order of their first edit
	lastWords string
	cut       bool // not everything was read

	since time.Time
	calls map[string]bool // a resumed session's transcript can hold a call twice
	known map[string]bool
	left  int64
}

// tallyOf reads the transcripts of a session and its subagents from since on: a resumed session goes on in the same file.
func tallyOf(ctx context.Context, transcript string, since time.Time) *tally {
	ctx, cancel := context.WithTimeout(ctx, tallyBound)
	defer cancel()
	t := &tally{tools: map[string]int{}, since: since, calls: map[string]bool{}, known: map[string]bool{}, left: tallyBytes}
	t.read(ctx, transcript, true)
	subagents := filepath.Join(strings.TrimSuffix(transcript, ".jsonl"), "subagents")
	for _, name := range filesIn(subagents, maxSubagents) {
		t.read(ctx, filepath.Join(subagents, name), false)
	}
	return t
}

func (t *tally) read(ctx context.Context, path string, main bool) {
	f, size, err := openTranscript(path)
	if err != nil {
		return
	}
	defer f.Close()
	if size > t.left {
		t.cut = true
		if _, err := f.Seek(size-t.left, io.SeekStart); err != nil {
			return
		}
		size = t.left
	}
	t.left -= size
	lines := bufio.NewReaderSize(io.LimitReader(f, size), 64<<10)
	for ctx.Err() == nil {
		line, err := readLine(lines)
		t.add(line, main)
		if err != nil {
			return
		}
	}
	t.cut = true
}

// readLine gives the next line; one that is too long comes empty.
func readLine(r *bufio.Reader) (line []byte, err error) {
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > maxLine; !tooLong {
			line = append(line, part...)
		} else {
			line = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

func (t *tally) add(line []byte, main bool) {
	if !bytes.Contains(line, []byte(`"assistant"`)) { // most bytes are tools' results: those are not parsed
		return
	}
	e, blocks, ok := readEntry(line)
	if !ok || e.Type != "assistant" {
		return
	}
	if at, err := time.Parse(time.RFC3339, string(e.Timestamp)); err == nil && at.Before(t.since) {
		return
	}
	for _, b := range blocks {
		switch b.Type {
		case "text":
			if main && !e.IsSidechain && strings.TrimSpace(b.Text) != "" {
				t.lastWords = b.Text
			}
		case "tool_use":
			if b.Name == "" || b.ID != "" && t.calls[b.ID] {
				continue
			}
			t.calls[b.ID] = true
			t.tools[b.Name]++
			t.edited(b)
		}
	}
}

func (t *tally) edited(b block) {
	if b.Name != "Edit" && b.Name != "MultiEdit" && b.Name != "Write" && b.Name != "NotebookEdit" {
		return
	}
	path := (toolCall{Name: b.Name, Input: b.Input}).what()
	if path != "" && !strings.HasPrefix(path, "{") && !t.known[path] && len(t.files) < maxFiles {
		t.known[path] = true
		t.files = append(t.files, path)
	}
}
