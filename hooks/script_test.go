package hooks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// In Code Mode (2.1.332), a batch names only the script. The transcript has the calls
// that the script made.
func TestDecision_PermissionOfAScript(t *testing.T) {
	env := func(string) string { return "" }
	asked := time.Date(2026, 11, 28, 14, 0, 0, 0, time.UTC)
	const batch, stop, prompt, esc = "PostToolBatch", "Stop", "UserPromptSubmit", "SIGTERM"
	for name, test := range map[string]struct {
		transcript, command, description string
		printed                          string
		event                            string
		status                           state.Status
		by, label, says                  string
	}{
		"allowed in the terminal":              {"script-allowed", "touch one.txt", "one", "", batch, state.Resolved, "terminal", state.LabelAllow, "Allowed: Bash: touch one.txt"},
		"the same, and the batch came early":   {"script-allowed", "touch two.txt", "two", "", stop, state.Resolved, "terminal", state.LabelAllow, "Allowed: Bash: touch two.txt"},
		"denied in Chat, and it ran":           {"script-allowed", "touch three.txt", "three", state.LabelDeny, batch, state.Resolved, "terminal", state.LabelAllow, "Allowed: Bash: touch three.txt"},
		"the same, at the end of the turn":     {"script-allowed", "touch three.txt", "three", state.LabelDeny, stop, state.Resolved, "terminal", state.LabelAllow, "Allowed: Bash: touch three.txt"},
		"denied in Chat":                       {"script-denied", "touch c1.txt", "q", state.LabelDeny, batch, state.Resolved, "chat", state.LabelDeny, "Denied: Bash: touch c1.txt"},
		"allowed in Chat":                      {"script-allowed", "touch one.txt", "one", state.LabelAllow, batch, state.Resolved, "chat", state.LabelAllow, "Allowed: Bash: touch one.txt"},
		"denied in the terminal":               {"script-refused", "touch a1.txt", "one", state.LabelAllow, prompt, state.Resolved, "terminal", state.LabelDeny, "Denied: Bash: touch a1.txt"},
		"it ran, and Esc ended a later one":    {"script-interrupted", "touch q1.txt", "q", "", esc, state.Resolved, "terminal", state.LabelAllow, "Allowed: Bash: touch q1.txt"},
		"the transcript has it not":            {"script-allowed", "touch four.txt", "four", "", stop, state.Cancelled, state.EndedUnseen, "", "is not known"},
		"the same, and a no was sent":          {"script-allowed", "touch four.txt", "four", state.LabelDeny, stop, state.Resolved, state.EndedUnconfirmed, state.LabelDeny, "not known"},
		"Esc while the script runs":            {"script-runs", "touch one.txt", "one", "", esc, state.Cancelled, state.EndedUnseen, "", "is not known"},
		"equal calls, one ran, one was denied": {"script-both", "touch c1.txt", "q", state.LabelDeny, stop, state.Resolved, state.EndedUnconfirmed, state.LabelDeny, "not known"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			transcript := filepath.Join(dir, "a.jsonl")
			writeTranscript(t, transcript, test.transcript)
			input, _ := json.Marshal(map[string]string{"command": test.command, "description": test.description})
			q := &state.Question{
				QuestionID: "q", SessionID: "s", ClaudeSessionID: "s", Kind: state.KindPermission, ToolName: "Bash",
				Status: state.Pending, Mode: state.ModeNative, InputHash: callHash("Bash", input), ShownText: test.command, AskedAt: asked,
				SubQuestions: []state.SubQuestion{{Question: "Bash"}},
			}
			if test.printed != "" {
				q.Status, q.IsPrinted, q.PrintedAt = state.Answered, true, new(asked.Add(time.Second))
				q.Answers = map[string]string{"Bash": test.printed}
			}
			home := func(name string) string { return map[string]string{"HOME": dir}[name] }
			h := &Hook{Env: home, log: state.NewLog(env, "t")}
			folder := h.personalFolders()[0]
			kit.NoError(t, folder.Create("q", q))
			e := &Event{HookEventName: test.event, SessionID: "s", TranscriptPath: LooseText(transcript)}
			switch test.event {
			case batch:
				e.ToolCalls = []batchToolCall{{Name: "REPL", ID: "x", Input: json.RawMessage(`{"code":"x"}`)}}
				h.confirmBatch(e, readCallResult)
			case esc:
				h.dismissQuestion(e, q)
			default:
				h.closeOpenQuestions(e, []*state.Question{q}, nil)
			}
			current, err := state.LoadQuestion(q.Path)
			kit.NoError(t, err)
			if label, _ := current.Decision(); current.Status != test.status || current.ResolvedBy != test.by || label != test.label {
				t.Errorf("%s by %s, %q", current.Status, current.ResolvedBy, label)
			}
			note := strings.Join(wording.NoteTexts(current, state.OwedNote{About: state.NoteClosed}), "")
			kit.Containsf(t, note, test.says, "told")
			if test.says != "Denied: Bash: "+test.command && strings.Contains(note, "Denied:") || strings.Contains(note, "without choosing") {
				t.Errorf("told %q", note)
			}
		})
	}
}

// writeTranscript writes a recorded transcript. In "script-runs" the script has not
// ended. In "script-both" a call that was denied is made again.
func writeTranscript(t *testing.T, path, name string) {
	t.Helper()
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("testdata", "2.1.332", name+".jsonl"))
		kit.NoError(t, err)
		return string(b)
	}
	content := ""
	switch name {
	case "script-runs":
		content, _, _ = strings.Cut(read("script-allowed"), "\n")
	case "script-both":
		ran := strings.NewReplacer("touch q1.txt", "touch c1.txt").Replace(read("script-interrupted"))
		content = ran + read("script-denied")
	default:
		content = read(name)
	}
	kit.NoError(t, os.WriteFile(path, []byte(content+"\n"), 0o600))
}
