package wake_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// benchTranscript is a long session's file, whose last turn changes.
type benchTranscript struct {
	*benchDesk
	path string
	base int64 // where the last turn begins
}

// transcript writes whole turns until the file has this size: a prompt, ten tool calls with results of some KB, an answer.
func (d *benchDesk) transcript(name string, size int64) *benchTranscript {
	d.Helper()
	t := &benchTranscript{d, d.path(name), 0}
	f, err := os.Create(t.path)
	if err != nil {
		d.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	var turn []byte
	for i := 0; t.base < size; i++ {
		turn = appendBenchTurn(turn[:0], i, "Part "+strconv.Itoa(i)+" is done.")
		_, _ = w.Write(turn) // its error stays until Flush
		t.base += int64(len(turn))
	}
	// What is not on the disk yet would be written while the hooks are timed, and they wait for the disk themselves.
	if err := errors.Join(w.Flush(), f.Sync(), f.Close()); err != nil {
		d.Fatal(err)
	}
	return t
}

// end replaces the last turn by one that ends with these words: so the file keeps its size.
func (t *benchTranscript) end(i int, words string) {
	t.Helper()
	f, err := os.OpenFile(t.path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	err = f.Truncate(t.base)
	if err == nil {
		_, err = f.WriteAt(appendBenchTurn(nil, 1_000_000+i, words), t.base)
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// benchOutput is what a tool printed, inside a JSON string.
var benchOutput = func() string {
	var s strings.Builder
	for i := range 200 {
		fmt.Fprintf(&s, `%4d\tfunc part%d(in []byte) (out []byte, err error) { return in[%d:], nil }\n`, i, i, i)
	}
	return s.String()
}()

// appendBenchTurn writes a turn as Claude Code 2.1.329 does, with the members that tell something. Each result has a length of
// its own, between 1 and 8 KB.
func appendBenchTurn(to []byte, turn int, words string) []byte {
	const around = `,"userType":"external","entrypoint":"cli","cwd":"/home/dev/projects/x","sessionId":"b1e91434-d410-4fbe-b382-0fbc1f1c23d3","version":"2.1.329","gitBranch":"main"}` + "\n"
	line, parent := 0, "null"
	add := func(kind, format string, args ...any) {
		id := fmt.Sprintf("%08x-0000-4000-8000-%012d", turn, line)
		to = fmt.Appendf(to, `{"parentUuid":%s,"isSidechain":false,"type":"%s","message":`, parent, kind)
		to = fmt.Appendf(to, format, args...)
		to = fmt.Appendf(to, `,"uuid":"%s","timestamp":"2026-11-21T07:32:16.251Z"`, id)
		to = append(to, around...)
		line, parent = line+1, `"`+id+`"`
	}
	const message = `{"id":"msg_%d_%d","type":"message","role":"assistant","model":"claude-opus-5-5","content":[%s],"stop_reason":"%s","stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":41233,"output_tokens":20,"service_tier":"standard"}}`
	add("user", `{"role":"user","content":"go on with part %d"}`, turn)
	for call := range 10 {
		use := fmt.Sprintf("toolu_%d_%d", turn, call)
		add("assistant", message, turn, call, `{"type":"tool_use","id":"`+use+`","name":"Read","input":{"file_path":"/home/dev/projects/x/part.go"}}`, "tool_use")
		long := 1000 + (turn*7919+call*911)%7000
		result := benchOutput[:strings.LastIndex(benchOutput[:long], `\n`)+2]
		add("user", `{"role":"user","content":[{"type":"tool_result","content":"%s","tool_use_id":"%s"}]}`, result, use)
	}
	add("assistant", message, turn, 10, `{"type":"text","text":"`+words+`"}`, "end_turn")
	return to
}
