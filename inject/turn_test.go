package inject

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// describeTurn returns everything that is known of a turn in one text.
func describeTurn(turn Turn) string {
	var calls []string
	for _, call := range turn.Calls {
		calls = append(calls, call.String())
	}
	since := ""
	if !turn.StartedAt.IsZero() {
		since = turn.StartedAt.Format(time.RFC3339)
	}
	return fmt.Sprintf("since %s, %d calls [%s], context %d: %s",
		since, turn.CallCount, strings.Join(calls, ", "), turn.ContextTokens, turn.Words)
}

// The transcripts were recorded with 2.1.197 and 2.1.332: two turns, of which a usage
// limit stopped the second.
func TestReadTurn_Recorded(t *testing.T) {
	for version, want := range map[string][2]string{
		"2.1.197": {"since 2026-11-29T12:48:54Z, 4 calls [Bash, Read hostname, Write plan.md, Bash]," +
			" context 30: It is all done: the plan is in notes/plan.md.",
			"since 2026-11-29T12:49:12Z, 0 calls [], context 0: "},
		"2.1.332": {"since 2026-11-29T12:48:02Z, 4 calls [Bash, Read hostname, Write plan.md, Bash]," +
			" context 30: It is all done: the plan is in notes/plan.md.",
			"since 2026-11-29T12:48:20Z, 0 calls [], context 0: "},
	} {
		recorded := kit.ReadFile(t, filepath.Join("testdata", "turns", version+".jsonl"))
		first, _, _ := strings.Cut(recorded, "go on please")
		first = first[:strings.LastIndex(first, "\n")+1]
		kit.Equalf(t, describeTurn(ReadWholeTurn(writeTranscript(t, first))), want[0], "%s", version)
		kit.Equalf(t, describeTurn(ReadWholeTurn(writeTranscript(t, recorded))), want[1],
			"%s, stopped by a limit", version)
	}
}

func writeTranscript(t testing.TB, lines string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "session.jsonl")
	kit.NoError(t, os.WriteFile(path, []byte(lines), 0o600))
	return path
}

// turnLines are lines of a transcript, with what a test needs of them.
const (
	promptLine = `{"type":"user","timestamp":"2026-11-29T12:00:00Z","message":{"content":"go"}}` + "\n"
	wakeLine   = `{"type":"user","isMeta":true,"timestamp":"2026-11-29T13:00:00Z","message":{"content":"a hook says"}}` + "\n"
	endLine    = `{"type":"system","subtype":"turn_duration","durationMs":9}` + "\n"
	resultLine = `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"1"}]}}` + "\n"
)

func callLine(name, input string) string {
	return fmt.Sprintf(`{"type":"assistant","message":{"content":[{"type":"tool_use","name":%q,"input":%s}],`+
		`"usage":{"input_tokens":3,"cache_read_input_tokens":40}}}`, name, input) + "\n"
}

func wordsLine(words string) string {
	text, _ := json.Marshal(words)
	return fmt.Sprintf(`{"type":"assistant","message":{"content":[{"type":"text","text":%s}]}}`, text) + "\n"
}

func TestReadTurn(t *testing.T) {
	bash := callLine("Bash", `{"command":"curl -u ann:secret-word x","description":"secret-word"}`)
	key := "sk-ant-api03-" + strings.Repeat("a", 93) + "AA"
	for name, c := range map[string]struct{ lines, want string }{
		"nothing":               {"", "since , 0 calls [], context 0: "},
		"no command is shown":   {promptLine + bash, "since 2026-11-29T12:00:00Z, 1 calls [Bash], context 43: "},
		"without its beginning": {bash + wordsLine("Hm."), "since , 0 calls [Bash], context 43: Hm."},
		"five calls at most": {promptLine + strings.Repeat(bash, 3) +
			strings.Repeat(callLine("Edit", `{"file_path":"/home/ann/a.go"}`)+resultLine, 4),
			"since 2026-11-29T12:00:00Z, 7 calls [Bash, Edit a.go, Edit a.go, Edit a.go, Edit a.go], context 43: "},
		"a hook woke it": {promptLine + bash + endLine + wakeLine + bash,
			"since 2026-11-29T13:00:00Z, 1 calls [Bash], context 43: "},
		"a hook's words within": {promptLine + bash + wakeLine + bash,
			"since 2026-11-29T12:00:00Z, 2 calls [Bash, Bash], context 43: "},
		"a subagent's": {promptLine + strings.Replace(bash, "{", `{"isSidechain":true,`, 1),
			"since 2026-11-29T12:00:00Z, 0 calls [], context 0: "},
		"keys": {promptLine + wordsLine("The key is "+key) + callLine("Read", `{"file_path":"/x/`+key+`"}`),
			"since 2026-11-29T12:00:00Z, 1 calls [Read sk-ant-api03-•••], context 43: The key is sk-ant-api03-•••"},
		"several lines": {promptLine + wordsLine("one\n\n two\tthree"),
			"since 2026-11-29T12:00:00Z, 0 calls [], context 0: one two three"},
		"a megabyte": {promptLine + wordsLine(strings.Repeat("word ", 200_000)),
			"since 2026-11-29T12:00:00Z, 0 calls [], context 0: " + strings.Repeat("word ", 60)[:299] + "…"},
		"other types": {promptLine + callLine("Read", `{"file_path":{"a":1}}`) + callLine("X", `7`) +
			"\x00{{\nnull\n[]\n" + `{"type":"assistant","timestamp":7,"message":{"content":[{"type":"text","text":"Hm"}]}}`,
			"since 2026-11-29T12:00:00Z, 2 calls [Read, X], context 43: Hm"},
	} {
		t.Run(name, func(t *testing.T) {
			kit.Equal(t, describeTurn(ReadWholeTurn(writeTranscript(t, c.lines))), c.want)
		})
	}
}

// A transcript is read from its end, in bounds, and only if it is a plain file.
func TestReadTurn_IsBounded(t *testing.T) {
	filler := strings.Repeat(`{"type":"progress","data":"`+strings.Repeat("x", 1000)+`"}`+"\n", 1000)
	call := callLine("Bash", "{}")
	turn := ReadWholeTurn(writeTranscript(t, filler+promptLine+call+filler+call))
	kit.Equal(t, turn.CallCount, 2)
	turn = ReadWholeTurn(writeTranscript(t, promptLine+call+strings.Repeat(filler, 5)+call))
	kit.Equalf(t, describeTurn(turn), "since , 0 calls [Bash], context 43: ", "longer than what is read")
	secret := writeTranscript(t, promptLine+call)
	dir := t.TempDir()
	kit.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo.jsonl"), 0o600))
	kit.NoError(t, os.Symlink(secret, filepath.Join(dir, "link.jsonl")))
	for _, name := range []string{"fifo.jsonl", "link.jsonl", "absent.jsonl"} {
		turn := ReadWholeTurn(filepath.Join(dir, name))
		kit.Equalf(t, describeTurn(turn), "since , 0 calls [], context 0: ", "%s", name)
	}
}

func TestReadUsageLimit(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 48, 20, 0, time.UTC)
	for text, want := range map[string]string{
		"You've hit your session limit · resets 1:47pm (UTC)":           "session limit|1:47pm (UTC)|2026-11-29T13:47:00Z", // 2.1.197
		"You've hit your 5-hour limit · resets 1:47pm (UTC)":            "5-hour limit|1:47pm (UTC)|2026-11-29T13:47:00Z",  // 2.1.332
		"You've hit your weekly limit · resets Dec 2, 1:24pm (UTC)":     "weekly limit|Dec 2, 1:24pm (UTC)|2026-12-02T13:24:00Z",
		"You've hit your Opus limit · resets 3am (Europe/Berlin) · /x":  "Opus limit|3am (Europe/Berlin)|2026-11-30T02:00:00Z",
		"You've hit your weekly limit · resets Jan 2, 3am (Asia/Dhaka)": "weekly limit|Jan 2, 3am (Asia/Dhaka)|2027-01-01T21:00:00Z",
		"You've hit your session limit · resets at noon":                "session limit|at noon|",
		"You've hit your session limit · resets 25:99pm (UTC)":          "session limit|25:99pm (UTC)|",
		"You've hit your session limit · resets 1pm (../../etc/x)":      "",
		"You've hit your limit":                                         "",
		"API Error: Request rejected (429)":                             "",
		"As it said: You've hit your session limit · resets 1pm (UTC)":  "",
	} {
		limit, ok := ReadUsageLimit(text, at)
		got := ""
		if ok {
			got = limit.Name + "|" + limit.Ends + "|"
			if !limit.EndsAt.IsZero() {
				got += limit.EndsAt.Format(time.RFC3339)
			}
		}
		kit.Equalf(t, got, want, "%s", text)
	}
}

func TestContinuesByItself(t *testing.T) {
	for version, want := range map[string]bool{"2.1.197": false, "2.1.332": true} {
		recorded := kit.ReadFile(t, filepath.Join("testdata", "turns", version+".jsonl"))
		kit.Equalf(t, ContinuesByItself(writeTranscript(t, recorded)), want, "%s", version)
		later := recorded + promptLine
		kit.Equalf(t, ContinuesByItself(writeTranscript(t, later)), false, "%s, after a prompt", version)
	}
}
