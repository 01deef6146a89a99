package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// payloads are the recorded events of a version of Claude Code.
func payloads(t testing.TB, pattern string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded payloads %s: %v", pattern, err)
	}
	got := map[string][]byte{}
	for _, f := range files {
		if got[f], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

// decode reads an event as a hook does.
func decode(b []byte) (*Event, error) { return (&Hook{Stdin: bytes.NewReader(b)}).readEvent() }

// The three events of one call carry the same questions among different members. One hash
// identifies the call.
func TestQuestion_OneHashForACall(t *testing.T) {
	for _, version := range []string{"2.1.197", "2.1.329"} {
		for _, call := range []string{"single", "multi"} {
			hashes := map[string]bool{}
			for _, event := range []string{"PreToolUse", "PermissionRequest", "PostToolUse"} {
				for f, b := range payloads(t, filepath.Join(version, call+"-0*-"+event+".json")) {
					e, err := decode(b)
					if err != nil || callHash(e.ToolName, e.ToolInput) == "" {
						t.Fatalf("%s: %v", f, err)
					}
					hashes[callHash(e.ToolName, e.ToolInput)] = true
				}
			}
			if len(hashes) != 1 {
				t.Errorf("%s %s: %d hashes", version, call, len(hashes))
			}
		}
	}
}

func TestAnswered_AnswersOfEveryVersion(t *testing.T) {
	const deploy, features = "Which deployment approach should we use?", "Which features do you want to enable?"
	for file, want := range map[string]map[string]string{
		"2.1.329/single-05-PostToolUse.json": {deploy: "ship|it"},
		"2.1.329/timing-06-PostToolUse.json": {deploy: "Rolling deployment"},
		"2.1.329/two-questions-free-text-04-PostToolUse.json": {
			"Which DB?": `neither, use $HOME/duck "db"; 日本語`, "Which features?": "Auth, Search, something else"},
	} {
		e, err := decode(payloads(t, file)[filepath.Join("testdata", file)])
		kit.NoError(t, err)
		prompts, err := e.subQuestions()
		kit.NoError(t, err)
		answers, notes, err := readAnswers(e, prompts)
		if err != nil || !maps.Equal(answers, want) || len(notes) > 0 {
			t.Errorf("%s: %v, notes %v, %v; want %v", file, answers, notes, err, want)
		}
	}
	e := &Event{ToolResponse: json.RawMessage(
		`{"answers":{"` + features + `":"Auth, Export"},"annotations":{"` + features + `":{"notes":"soon"}}}`)}
	answers, notes, err := readAnswers(e, []state.SubQuestion{{Question: features}})
	if err != nil || answers[features] != "Auth, Export" || notes[features] != "soon" {
		t.Errorf("with a remark: %v, %v, %v", answers, notes, err)
	}
	e.ToolResponse = json.RawMessage(`{"answers":[{"selectedOption":"Rolling deployment","customText":null},
		{"selectedOptions":["Auth","Export"]},{"selectedOption":null,"customText":"soon"},{"customText":"of no question"}]}`)
	answers, _, err = readAnswers(e, []state.SubQuestion{{Question: deploy}, {Question: features}, {Question: "When?"}})
	want := map[string]string{deploy: "Rolling deployment", features: "Auth, Export", "When?": "soon"}
	if err != nil || !maps.Equal(answers, want) {
		t.Errorf("in a list: %v, %v; want %v", answers, err, want)
	}
}

func TestReplyOfThisMachineIsNotFromChat(t *testing.T) {
	q := &state.Question{AnsweredBy: state.LocalSender, SubQuestions: []state.SubQuestion{{Question: "DB?"}}, Answers: map[string]string{"DB?": "Postgres"}}
	if got := answerText(q); !strings.HasPrefix(got, `GCHAT_RESPONSE: The user has answered your question on this machine: "DB?"="Postgres". `) {
		t.Errorf("got %q", got)
	}
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
		q := &state.Question{SubQuestions: prompts, Answers: map[string]string{}, Notes: map[string]string{}}
		for _, p := range prompts {
			q.Answers[p.Question], q.Notes[p.Question] = "x", "y"
		}
		in, err := inputWithAnswers(e.ToolInput, q)
		if err != nil {
			t.Fatalf("prompts were read, the input was not: %v", err)
		}
		var before, after map[string]json.RawMessage
		if err := json.Unmarshal(in, &after); err != nil {
			t.Fatalf("no JSON: %s", in)
		}
		_ = json.Unmarshal(e.ToolInput, &before)
		for k := range before {
			if _, ok := after[k]; !ok {
				t.Errorf("member %q got lost", k)
			}
		}
	})
}

// Each folder that may have a question is read once, also where the project has no folder
// of its own.
func TestQuestion_ReadsEachFolderOnce(t *testing.T) {
	dir := t.TempDir()
	project := filepath.Join(dir, "clone")
	kit.NoError(t, errors.Join(os.MkdirAll(project, 0o700), os.Symlink(dir, filepath.Join(project, ".claude"))))
	vars := map[string]string{"HOME": dir, "CLAUDE_PROJECT_DIR": project}
	h := &Hook{Env: func(name string) string { return vars[name] }}
	folders := h.folders(state.QuestionsIn)
	if own := state.QuestionsIn(state.SpareStateDir(h.Env)); len(folders) != 1 || folders[0].Dir != own.Dir {
		t.Errorf("looks into %v", folders)
	}
}
