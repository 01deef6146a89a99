package hooks

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// payloads are the recorded events of a version of Claude Code.
func payloads(t testing.TB, pattern string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	kit.Must(t, err == nil && len(files) != 0, "no recorded payloads %s: %v", pattern, err)
	got := map[string][]byte{}
	for _, f := range files {
		got[f] = []byte(kit.ReadFile(t, f))
	}
	return got
}

// decode reads an event as a hook does.
func decode(b []byte) (*Event, error) { return (&Hook{Stdin: bytes.NewReader(b)}).readEvent() }

// eventOf is decode of an event that can be read.
func eventOf(t testing.TB, b []byte) *Event {
	t.Helper()
	e, err := decode(b)
	kit.NoError(t, err)
	return e
}

// FuzzEvent feeds anything to a hook's stdin. The hook reads it, answers it and closes it
// without a panic. What it prints is JSON with the call's own members.
func FuzzEvent(f *testing.F) {
	for _, b := range payloads(f, "2.1.*/*.json") {
		f.Add(b)
	}
	const after = `{"hook_event_name":"PostToolUse","tool_input":{"questions":[{"question":"Q"}]},"tool_response":`
	f.Add([]byte(after + `{"answers":[{},1]}}`))
	f.Add([]byte(after + `{"answers":[{"selectedOptions":["a"]},{}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decode(b)
		if err != nil {
			return
		}
		callHash(e.ToolName, e.ToolInput)
		prompts, err := e.subQuestions()
		if err != nil {
			return
		}
		_, _, _ = readAnswers(e, prompts)
		q := &state.Question{SubQuestions: prompts, Answers: map[string]string{},
			Notes: map[string]string{}}
		for _, p := range prompts {
			q.Answers[p.Question], q.Notes[p.Question] = "x", "y"
		}
		in, err := inputWithAnswers(e.ToolInput, q)
		kit.Must(t, err == nil, "prompts were read, the input was not: %v", err)
		var before, after map[string]json.RawMessage
		kit.NoError(t, json.Unmarshal(in, &after))
		_ = json.Unmarshal(e.ToolInput, &before)
		for k := range before {
			kit.True(t, after[k] != nil, "member %q got lost", k)
		}
	})
}

func TestHook_LooseTextTakesAnything(t *testing.T) {
	var in struct{ A, B, C, D, E LooseText }
	kit.NoError(t, json.Unmarshal([]byte(`{"A":"a","B":null,"C":7,"D":{"x": [1, 2]},"E":false}`),
		&in))
	want := [5]LooseText{"a", "", "7", `{"x":[1,2]}`, "false"}
	kit.Equal(t, [5]LooseText{in.A, in.B, in.C, in.D, in.E}, want)
}

func TestHook_BadInputIsIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	deep := strings.Repeat(`{"tool_input":`, 100000) + "1" + strings.Repeat("}", 100000)
	ask := string(recorded(t, "single-04-PermissionRequest"))
	const ours = `{"hook_event_name":"PermissionRequest","tool_name":"AskUserQuestion",`
	for name, in := range map[string]string{
		"nothing": "", "blank": " \n", "garbage": "\x00\x01\xff\xfe{{{", "text": "hello",
		"null": "null", "number": "7", "list": "[]",
		"truncated": ask[:len(ask)/2], "deep": deep,
		"huge":                 ours + `"session_id":"s","tool_input":"` + strings.Repeat("x", 10<<20) + `"}`,
		"no session":           ours + `"tool_input":{"questions":[{"question":"Q?","options":[]}]}}`,
		"no questions":         ours + `"session_id":"s","tool_input":{"questions":[]}}`,
		"questions are text":   ours + `"session_id":"s","tool_input":{"questions":"?"}}`,
		"wrong types":          `{"hook_event_name":7,"session_id":[]}`,
		"another tool":         `{"hook_event_name":"PreToolUse","tool_name":"Bash","session_id":"s","tool_input":{"command":"ls"}}`,
		"an event of tomorrow": `{"hook_event_name":"PreCoffee","session_id":"s"}`,
	} {
		for _, hook := range []string{forwardHook, answeredHook, sessionHook, notifyHook,
			"gchat-stop-gate"} {
			kit.Equalf(t, w.runHook(hook, []byte(in)), "", "%s, %s: printed", hook, name)
		}
	}
	kit.Equalf(t, len(w.questions()), 0, "questions")
	kit.Containsf(t, w.log(), "not understood", "the log")
}

// The event is handled once it is there, even if the pipe that it came through stays
// open.
func TestHook_EventOnAnOpenPipe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, event, err := os.Pipe()
	kit.NoError(t, err)
	defer r.Close()
	defer event.Close()
	_, err = event.Write(recorded(t, "single-03-PreToolUse"))
	kit.NoError(t, err)
	cmd := bound.Command(t, os.Args[0])
	cmd.Env, cmd.Dir, cmd.Stdin = append(w.environ(), hookNameVariable+"="+forwardHook),
		w.env["CLAUDE_PROJECT_DIR"], r
	out, err := cmd.CombinedOutput()
	kit.True(t, err == nil && len(out) == 0, "%v: %s", err, out)
	w.question()
}

// Where nothing can be written, each hook ends without a decision and logs why.
func TestHook_NothingCanBeWritten(t *testing.T) {
	w := newReportWorld(t)
	blocked := writeFile(t, filepath.Join(w.dir, "blocked"), "")
	w.env["GCHAT_STATE_DIR"] = filepath.Join(blocked, "a")
	w.env["XDG_STATE_HOME"] = filepath.Join(blocked, "b")
	for i, run := range [][2]string{
		{notifyHook, "plan-12-SubagentStop"}, {sessionHook, "single-01-SessionStart"},
		{sessionHook, "timing-10-SessionEnd"}, {forwardHook, "single-03-PreToolUse"},
		{forwardHook, "single-04-PermissionRequest"},
	} {
		kit.Equalf(t, w.callHook(run[0], w.event(run[1])), "", "%s printed", run[1])
		logged := strings.Count(w.log(), `"level":"error"`)
		kit.True(t, logged > i, "%s: %d errors in the log: %s", run[1], logged, w.log())
	}
	kit.Contains(t, w.log(), "the session goes on without it")
}
