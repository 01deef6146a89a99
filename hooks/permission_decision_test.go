package hooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// wantDecided checks how a permission was decided, and by what.
func (w *world) wantDecided(q *state.Question, status state.Status, resolvedBy, label string) {
	w.Helper()
	w.wantEnd(q, status, resolvedBy)
	got, _ := w.reload(q).Decision()
	kit.Equalf(w, got, label, "decision")
}

// An approval is for one plan. If its hook was killed, another plan is shown and decided
// separately.
func TestPlan_ApprovalIsForOne(t *testing.T) {
	t.Parallel()
	w := newChatWorld(t)
	first, thread := w.askPermission(planEvent(w, "s-1", "Read the code"))
	first.kill()
	w.sendAsUser(ann, thread, "yes")
	second, other := w.askPermission(planEvent(w, "s-1", "Delete the code"))
	if texts := w.messages("[Plan]"); other == thread || len(texts) != 2 ||
		!strings.Contains(texts[1].Text, "Delete the code") {
		t.Fatalf("the second plan is not shown: %d messages", len(texts))
	}
	second.wantUndecided(other)
}

func TestPlan_IsShown(t *testing.T) {
	dir := t.TempDir()
	plan, transcript := filepath.Join(dir, "plan.md"), filepath.Join(dir, "a.jsonl")
	line := `{"type":"attachment","attachment":{"type":"plan_mode","planFilePath":"` + plan +
		`","planExists":false}}` + "\n"
	for path, text := range map[string]string{plan: "# Do\u202e it",
		transcript: line + `{"type":"user"}` + "\n"} {
		kit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for name, test := range map[string]struct{ input, transcript, want string }{
		"in the input": {`{"plan":"# A plan\n"}`, transcript, "# A plan"},
		"in Arabic": {`{"plan":"خطة\u202e می\u200cخواهم"}`, transcript,
			"خطة‹U+202E› می\u200cخواهم"},
		"in its file":   {`{}`, transcript, "# Do‹U+202E› it"},
		"nowhere":       {`{}`, filepath.Join(dir, "none.jsonl"), ""},
		"no transcript": {`{}`, "", ""},
	} {
		if got, isComplete := readPlan(json.RawMessage(test.input), test.transcript,
			false); got != test.want || isComplete != (test.want != "") {
			t.Errorf("%s: %q, %v", name, got, isComplete)
		}
	}
}

// A call's result shows how a permission was decided, whoever decided it. The text that a
// tool prints proves nothing.
func TestDecision_ResultShowsIt(t *testing.T) {
	const reason = "The user doesn't want to proceed with this tool use. x"
	const user = `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":%v,"content":%q}]},"toolUseResult":%s}`
	succeeded := fmt.Sprintf(user, false, reason, `{"stdout":"`+reason+`"}`)
	failing := fmt.Sprintf(user, true, "Exit code 1\n"+reason, `"Error: Exit code 1\n`+reason+`"`)
	denied := fmt.Sprintf(user, true, "use git mv", `"Error: use git mv"`)
	inTerminal := fmt.Sprintf(user, true, reason, `"User rejected tool use"`)
	because := fmt.Sprintf(user, true, reason, `"Error: `+reason+`"`)
	kind := strings.Replace(fmt.Sprintf(user, true, "", `"Error: no"`), `{"type"`,
		`{"toolDenialKind":"user-rejected","type"`, 1)
	allow, deny := state.LabelAllow, state.LabelDeny
	for name, test := range map[string]struct {
		decided, line string
		printed       bool
		by, label     string
	}{
		"allowed in the thread":                     {allow, succeeded, true, "chat", allow},
		"allowed in the thread, and it failed":      {allow, failing, true, "chat", allow},
		"denied in the thread":                      {deny, denied, true, "chat", deny},
		"no transcript":                             {allow, "", true, "chat", allow},
		"allowed, denied in terminal":               {allow, inTerminal, true, "terminal", deny},
		"allowed, denied in terminal with a reason": {allow, because, true, "terminal", deny},
		"allowed, denied in terminal of 2.1.329":    {allow, kind, true, "terminal", deny},
		"denied, allowed in terminal":               {deny, succeeded, true, "terminal", allow},
		"not printed yet":                           {deny, succeeded, false, "terminal", allow},
		"allowed, printed, and not written down":    {allow, succeeded, false, "chat", allow},
		"always, and not known to be printed":       {state.LabelAlways, succeeded, false, "terminal", allow},
		"allowed, not printed, and not known":       {allow, "", false, "terminal", ""},
		"answered in the terminal":                  {"", failing, false, "terminal", allow},
		"denied in the terminal":                    {"", inTerminal, false, "terminal", deny},
		"in the terminal, and not known how":        {"", "", false, "terminal", ""},
	} {
		t.Run(name, func(t *testing.T) {
			// What may be allowed only in the terminal offers no Allow button, and can still
			// be allowed there.
			q := &state.Question{
				QuestionID: "q", SessionID: "s", Kind: state.KindPermission, ToolName: "Bash",
				Status: state.Pending, Mode: state.ModeNative,
				SubQuestions: []state.SubQuestion{{Question: "Bash",
					Options: []state.Option{{Label: state.LabelDeny}}}},
			}
			if test.decided != "" {
				q.Status, q.IsPrinted = state.Answered, test.printed
				q.Answers = map[string]string{"Bash": test.decided}
			}
			w := newWorld(t)
			kit.NoError(t, state.QuestionsIn(w.dir).Create("q", q))
			transcript := transcript(t, `{"type":"assistant"}`+"\n"+test.line+"\n")
			result := readCallResult(&Event{TranscriptPath: LooseText(transcript)}, "t1")
			kit.NoError(t, w.newHook().confirmDecision(q, result))
			w.wantDecided(q, state.Resolved, test.by, test.label)
		})
	}
}

// The hook was killed, so a note said that the "yes" in the thread was not read. Then the
// terminal allowed the call.
func TestDecision_UntakenReplyDecidesNothing(t *testing.T) {
	w := newWorld(t)
	q := &state.Question{
		QuestionID: "q", SessionID: "s", Kind: state.KindPermission, ToolName: "Bash",
		Status: state.Answered, Mode: state.ModeNative, AnsweredMessage: "m",
		SubQuestions: []state.SubQuestion{{Question: "Bash"}},
		Answers:      map[string]string{"Bash": state.LabelAllow},
		Replies:      []state.Reply{{MessageName: "m", Verdict: state.VerdictNoWaiter}},
	}
	kit.NoError(t, state.QuestionsIn(w.dir).Create("q", q))
	kit.NoError(t, w.newHook().confirmDecision(q, resultRan))
	w.wantDecided(q, state.Resolved, "terminal", state.LabelAllow)
}

// Esc comes at the moment of an approval: Claude Code refuses the call and ignores what
// the hook prints. Esc on a call that runs leaves the same text.
func TestDecision_EscBesideAYes(t *testing.T) {
	const refusal = `{"type":"user","timestamp":"2026-11-27T04:00:0%s","message":{"content":[{"type":"tool_result","tool_use_id":"t1",` +
		`"is_error":true,"content":"x"}]},"toolUseResult":"User rejected tool use"%s}`
	printed := time.Date(2026, 11, 27, 4, 0, 2, 0, time.UTC)
	for name, test := range map[string]struct {
		line  string
		by    string
		label string
	}{
		"before it was printed": {fmt.Sprintf(refusal, "1.9Z", ""), "terminal", state.LabelDeny},
		"it did not begin to run": {fmt.Sprintf(refusal, "2.1Z",
			`,"toolDenialBeforeRun":true`), "terminal", state.LabelDeny},
		"it ran, and was broken off":  {fmt.Sprintf(refusal, "9.0Z", ""), "chat", state.LabelAllow},
		"the transcript does not say": {"", "chat", state.LabelAllow},
		"an equal call was refused then": {strings.Replace(fmt.Sprintf(refusal, "1.0Z", ""), "t1",
			"t0", 1), "chat", state.LabelAllow},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			lines := ""
			for _, id := range []string{"t0", "t1"} {
				lines += `{"type":"assistant","message":{"content":[{"type":"tool_use","id":"` + id + `","name":"Bash","input":{"command":"ls"}}]}}` + "\n"
			}
			transcript := transcript(t, lines+test.line+"\n")
			q := &state.Question{
				QuestionID: "q", SessionID: "s", Kind: state.KindPermission, ToolName: "Bash",
				Status: state.Answered, Mode: state.ModeNative,
				InputHash: callHash("Bash", json.RawMessage(`{"command":"ls"}`)), IsPrinted: true,
				PrintedAt:    &printed,
				SubQuestions: []state.SubQuestion{{Question: "Bash"}},
				Answers:      map[string]string{"Bash": state.LabelAllow},
			}
			kit.NoError(t, state.QuestionsIn(w.dir).Create("q", q))
			e := &Event{HookEventName: "UserPromptSubmit", TranscriptPath: LooseText(transcript)}
			w.newHook().closeOpenQuestions(e, []*state.Question{q}, nil)
			w.wantDecided(q, state.Resolved, test.by, test.label)
		})
	}
}

// A link may lead elsewhere after it was shown. A call is not allowed for the new target.
func TestDecision_AnotherFileIsNotAllowed(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		writeFile(t, filepath.Join(dir, name), name)
	}
	link := filepath.Join(dir, "link")
	input := kit.JSON(t, map[string]string{"file_path": link})
	e := &Event{ToolName: "Read", ToolInput: input, CWD: dir,
		PermissionSuggestions: json.RawMessage("[]")}
	for _, label := range []string{state.LabelAllow, state.LabelAlways} {
		kit.NoError(t, os.Symlink("a", link))
		q := &state.Question{About: previewCall("Read", input, dir).about,
			SubQuestions: []state.SubQuestion{{Question: "p"}},
			Answers:      map[string]string{"p": label}}
		wantAllowed(t, hookDecision(e, q), label == state.LabelAlways)
		kit.NoError(t, errors.Join(os.Remove(link), os.Symlink("b", link)))
		kit.Equalf(t, hookDecision(e, q), nil, "%s: another file", label)
		os.Remove(link)
	}
}

// wantAllowed checks that a decision allows a call, and whether it changes permissions.
func wantAllowed(t testing.TB, decision map[string]any, changesPermissions bool) {
	t.Helper()
	kit.Equalf(t, decision["behavior"], any("allow"), "behavior")
	kit.Equalf(t, decision["updatedPermissions"] != nil, changesPermissions, "permissions: %v", decision)
}

// A plan's file may change after it was shown. The changed plan is not approved. 2.1.332
// also has the plan in its input, but uses the file.
func TestPlan_ChangedOneIsNotApproved(t *testing.T) {
	dir := t.TempDir()
	plan, transcript := filepath.Join(dir, "plan.md"), filepath.Join(dir, "a.jsonl")
	writeFile(t, transcript, `{"type":"attachment","attachment":{"type":"plan_mode","planFilePath":"`+plan+`"}}`+"\n")
	for _, input := range []string{`{}`, `{"plan":"# Harmless","planFilePath":"` + plan + `"}`} {
		writeFile(t, plan, "# Harmless")
		e := &Event{ToolName: planTool, ToolInput: json.RawMessage(input),
			TranscriptPath: LooseText(transcript)}
		shown, _ := readPlan(e.ToolInput, transcript, false)
		for _, label := range []string{state.LabelApprove, state.LabelApproveAuto} {
			q := &state.Question{Kind: state.KindPlan, InputHash: planHash(shown),
				SubQuestions: []state.SubQuestion{{Question: "p"}},
				Answers:      map[string]string{"p": label}}
			wantAllowed(t, hookDecision(e, q), label == state.LabelApproveAuto)
			writeFile(t, plan, "# Evil")
			kit.Equalf(t, hookDecision(e, q), nil, "%s: %s: another plan", input, label)
			writeFile(t, plan, "# Harmless")
		}
	}
}

// In Code Mode (2.1.332), a batch names only the script. The transcript has the calls
// that the script made.
func TestDecision_PermissionOfAScript(t *testing.T) {
	asked := time.Date(2026, 11, 28, 14, 0, 0, 0, time.UTC)
	const batch, stop, prompt, esc = "PostToolBatch", "Stop", "UserPromptSubmit", "SIGTERM"
	for name, test := range map[string]struct {
		transcript, command, description string
		printed                          string
		event                            string
		status                           state.Status
		by, label, says                  string
	}{
		"allowed in the terminal": {"script-allowed", "touch one.txt", "one", "",
			batch, state.Resolved, "terminal", state.LabelAllow, "Allowed: Bash: touch one.txt"},
		"the same, and the batch came early": {"script-allowed", "touch two.txt", "two", "", stop,
			state.Resolved, "terminal", state.LabelAllow, "Allowed: Bash: touch two.txt"},
		"denied in Chat, and it ran": {"script-allowed", "touch three.txt", "three",
			state.LabelDeny, batch, state.Resolved, "terminal", state.LabelAllow,
			"Allowed: Bash: touch three.txt"},
		"the same, at the end of the turn": {"script-allowed", "touch three.txt", "three",
			state.LabelDeny, stop, state.Resolved, "terminal", state.LabelAllow,
			"Allowed: Bash: touch three.txt"},
		"denied in Chat": {"script-denied", "touch c1.txt", "q",
			state.LabelDeny, batch, state.Resolved, "chat", state.LabelDeny,
			"Denied: Bash: touch c1.txt"},
		"allowed in Chat": {"script-allowed", "touch one.txt", "one",
			state.LabelAllow, batch, state.Resolved, "chat", state.LabelAllow,
			"Allowed: Bash: touch one.txt"},
		"denied in the terminal": {"script-refused", "touch a1.txt", "one",
			state.LabelAllow, prompt, state.Resolved, "terminal", state.LabelDeny,
			"Denied: Bash: touch a1.txt"},
		"it ran, and Esc ended a later one": {"script-interrupted", "touch q1.txt", "q", "", esc,
			state.Resolved, "terminal", state.LabelAllow, "Allowed: Bash: touch q1.txt"},
		"the transcript has it not": {"script-allowed", "touch four.txt", "four", "",
			stop, state.Cancelled, state.EndedUnseen, "", "is not known"},
		"the same, and a no was sent": {"script-allowed", "touch four.txt", "four",
			state.LabelDeny, stop, state.Resolved, state.EndedUnconfirmed,
			state.LabelDeny, "not known"},
		"Esc while the script runs": {"script-runs", "touch one.txt", "one", "", esc,
			state.Cancelled, state.EndedUnseen, "", "is not known"},
		"equal calls, one ran, one was denied": {"script-both", "touch c1.txt", "q",
			state.LabelDeny, stop, state.Resolved, state.EndedUnconfirmed,
			state.LabelDeny, "not known"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			transcript := transcript(t, readTranscript(t, test.transcript)+"\n")
			input := kit.JSON(t, map[string]string{"command": test.command,
				"description": test.description})
			q := &state.Question{
				QuestionID: "q", SessionID: "s", ClaudeSessionID: "s", Kind: state.KindPermission,
				ToolName: "Bash",
				Status:   state.Pending, Mode: state.ModeNative, InputHash: callHash("Bash", input),
				ShownText: test.command, AskedAt: asked,
				SubQuestions: []state.SubQuestion{{Question: "Bash"}},
			}
			if test.printed != "" {
				q.Status, q.IsPrinted, q.PrintedAt = state.Answered, true,
					new(asked.Add(time.Second))
				q.Answers = map[string]string{"Bash": test.printed}
			}
			h := w.newHook()
			kit.NoError(t, h.personalFolders()[0].Create("q", q))
			e := &Event{HookEventName: test.event, SessionID: "s",
				TranscriptPath: LooseText(transcript)}
			switch test.event {
			case batch:
				e.ToolCalls = []batchToolCall{{Name: "REPL", ID: "x",
					Input: json.RawMessage(`{"code":"x"}`)}}
				h.confirmBatch(e, readCallResult)
			case esc:
				h.dismissQuestion(e, q)
			default:
				h.closeOpenQuestions(e, []*state.Question{q}, nil)
			}
			w.wantDecided(q, test.status, test.by, test.label)
			note := closingNote(w.reload(q))
			kit.Containsf(t, note, test.says, "note")
			kit.True(t, (test.says == "Denied: Bash: "+test.command ||
				!strings.Contains(note, "Denied:")) && !strings.Contains(note, "without choosing"),
				"note %q", note)
		})
	}
}

// readTranscript returns a recorded transcript. In "script-runs" the script has not
// ended. In "script-both" a call that was denied is made again.
func readTranscript(t *testing.T, name string) (content string) {
	t.Helper()
	read := func(name string) string {
		return kit.ReadFile(t, filepath.Join("testdata", "2.1.332", name+".jsonl"))
	}
	switch name {
	case "script-runs":
		content, _, _ = strings.Cut(read("script-allowed"), "\n")
	case "script-both":
		ran := strings.NewReplacer("touch q1.txt",
			"touch c1.txt").Replace(read("script-interrupted"))
		content = ran + read("script-denied")
	default:
		content = read(name)
	}
	return content
}
