package hooks_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// These tests show what hooks do to records. The test acts as the poller.

const singleQuestion = "Which deployment approach should we use?"

// answeredEvent is a PostToolUse of the recorded call with this answer.
func answeredEvent(t testing.TB, answer string, kv ...any) []byte {
	response := map[string]any{"answers": map[string]string{singleQuestion: answer}}
	return recorded(t, "single-05-PostToolUse", append([]any{"tool_response", response}, kv...)...)
}

func TestQuestion_ReplyIsPrinted(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutPoller(t)
	w.env["CLAUDE_SESSION_ID"] = "orch-epic4"
	kit.Equalf(t, w.runHook(forwardHook, recorded(t, "single-03-PreToolUse")), "", "PreToolUse printed")
	q := w.question()
	if q.Status != state.Pending || q.ToolUseID == "" || q.ThreadKey != "ask-user-"+q.QuestionID[:8] ||
		q.SessionName != "orch-epic4" {
		t.Errorf("recorded %s %q %q %q", q.Status, q.ToolUseID, q.ThreadKey, q.SessionName)
	}
	if o, err := state.ReadIndexEntry(state.IndexFile(w.getenv, q.Path)); err != nil || o.Environment != state.Environment(w.getenv) || !o.IsTrusted {
		t.Errorf("the poller is told %+v, %v", o, err)
	}
	p := w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
	w.awaitWaiter(q)
	w.markReplied(q, "Rolling deployment")
	out := p.awaitOutput()
	if got := w.readAnswers(out); !maps.Equal(got, map[string]string{singleQuestion: "Rolling deployment"}) {
		t.Errorf("answers %v", got)
	}
	if !hasWholeInput(t, out, recorded(t, "single-04-PermissionRequest")) {
		t.Errorf("the input did not come back whole: %s", out)
	}
	if q = w.question(); q.Status != state.Answered || !q.IsPrinted || q.PrintedAt == nil {
		t.Errorf("after the print: %s, %v at %v", q.Status, q.IsPrinted, q.PrintedAt)
	}
	kit.Equalf(t, w.runHook(answeredHook, answeredEvent(t, "Rolling deployment")), "", "PostToolUse printed")
	if q = w.question(); q.Status != state.Resolved || q.ResolvedBy != "chat" {
		t.Errorf("at the end: %s by %q", q.Status, q.ResolvedBy)
	}
	w.wantOwedNotes(q, closedNote)
}

// hasWholeInput reports whether a decision carries the event's questions unchanged.
func hasWholeInput(t *testing.T, out string, event []byte) bool {
	t.Helper()
	var d hookDecision
	var in, sent struct {
		Questions json.RawMessage `json:"questions"`
	}
	var e struct {
		ToolInput json.RawMessage `json:"tool_input"`
	}
	err := errors.Join(json.Unmarshal([]byte(out), &d), json.Unmarshal(d.HookOutput.Decision.Input, &in),
		json.Unmarshal(event, &e), json.Unmarshal(e.ToolInput, &sent))
	return err == nil && string(in.Questions) == string(sent.Questions)
}

func TestQuestion_RemarkBecomesAnnotation(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutPoller(t)
	p := w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest", "tool_input", map[string]any{
		"questions": []any{map[string]any{
			"question": "Which layout?", "header": "Layout", "multiSelect": false, "from_the_future": 1,
			"options": []any{map[string]any{"label": "Side bar", "preview": "|=|"}, map[string]any{"label": "Top bar", "preview": "---"}},
		}}, "metadata": map[string]any{"source": "x"}}))
	w.waitUntil("the question", func() bool { return len(w.questions()) == 1 })
	w.changeQuestion(w.question(), func(q *state.Question) {
		q.Status, q.Answers = state.Answered, map[string]string{"Which layout?": "Top bar"}
		q.Notes = map[string]string{"Which layout?": "but keep the footer"}
	})
	out := p.awaitOutput()
	for _, want := range []string{
		`"annotations":{"Which layout?":{"preview":"---","notes":"but keep the footer"}}`, `"answers":{"Which layout?":"Top bar"}`,
		`"metadata":{"source":"x"}`, `"from_the_future":1`,
	} {
		kit.Contains(t, out, want)
	}
}

func TestQuestion_AnsweredInTheTerminal(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutPoller(t)
	w.runHook(forwardHook, recorded(t, "single-03-PreToolUse"))
	p := w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
	w.awaitWaiter(w.question())
	w.runHook(answeredHook, recorded(t, "single-05-PostToolUse"))
	kit.Equalf(t, p.awaitOutput(), "", "the waiting hook printed")
	q := w.question()
	if q.Status != state.Resolved || q.ResolvedBy != "terminal" || q.Answers[singleQuestion] != "ship|it" {
		t.Errorf("%s by %q: %v", q.Status, q.ResolvedBy, q.Answers)
	}
	w.wantOwedNotes(q, closedNote)
}

// The thread gets the answer that PostToolUse carries, whatever was recorded before, and
// gets it once.
func TestAnswered_PostToolUseDecides(t *testing.T) {
	correction := state.OwedNote{About: state.NoteClosed, ReplyMessage: "corrected"}
	for name, c := range map[string]struct {
		before func(w *world, q *state.Question)
		owes   []state.OwedNote
	}{
		"printed": {func(w *world, q *state.Question) {
			w.changeQuestion(q, func(q *state.Question) { q.IsPrinted, q.HasSentNote = true, true })
		}, []state.OwedNote{closedNote}},
		"closed, and told so": {func(w *world, q *state.Question) {
			w.changeQuestion(q, func(q *state.Question) { q.IsPrinted = true })
			w.runHook(answeredHook, recorded(t, "single-07-Stop"))
			w.changeQuestion(q, func(q *state.Question) { q.OwedNotes = nil })
		}, []state.OwedNote{correction}},
		"closed, and not told yet": {func(w *world, q *state.Question) {
			w.changeQuestion(q, func(q *state.Question) { q.IsPrinted = true })
			w.runHook(answeredHook, recorded(t, "single-07-Stop"))
		}, []state.OwedNote{closedNote}},
		"dismissed, and told so": {func(w *world, q *state.Question) {
			w.runHook(answeredHook, recorded(t, "single-02-UserPromptSubmit"))
			w.changeQuestion(q, func(q *state.Question) { q.OwedNotes = nil })
		}, []state.OwedNote{correction}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWithoutPoller(t)
			w.runHook(forwardHook, recorded(t, "single-03-PreToolUse"))
			q := w.question()
			w.markPosted(q)
			w.markReplied(q, "Canary")
			c.before(w, q)
			for range 2 {
				w.runHook(answeredHook, answeredEvent(t, "Rolling deployment"))
			}
			q = w.question()
			if q.Status != state.Resolved || q.ResolvedBy != "terminal" || q.Answers[singleQuestion] != "Rolling deployment" {
				t.Errorf("%s by %q: %v", q.Status, q.ResolvedBy, q.Answers)
			}
			w.wantOwedNotes(q, c.owes...)
		})
	}
}

func TestAnswered_EventsThatCancel(t *testing.T) {
	session := "b1e91434-d410-4fbe-b382-0fbc1f1c23d3"
	for resolvedBy, end := range map[string]func(w *world, p *hookProcess){
		"signal": func(w *world, p *hookProcess) { terminate(p) },
		"stop":   func(w *world, p *hookProcess) { w.runHook(answeredHook, recorded(w.TB, "single-07-Stop")) },
		"prompt": func(w *world, p *hookProcess) { w.runHook(answeredHook, recorded(w.TB, "single-02-UserPromptSubmit")) },
		"session_end": func(w *world, p *hookProcess) {
			w.runHook(answeredHook, recorded(w.TB, "killed-04-SessionEnd", "session_id", session))
		},
	} {
		t.Run(resolvedBy, func(t *testing.T) {
			t.Parallel()
			w := newWorldWithoutPoller(t)
			w.runHook(forwardHook, recorded(t, "single-03-PreToolUse"))
			p := w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
			w.awaitWaiter(w.question())
			end(w, p)
			kit.Equalf(t, p.awaitOutput(), "", "printed")
			if q := w.question(); q.Status != state.Cancelled || q.ResolvedBy != resolvedBy {
				t.Errorf("%s by %q", q.Status, q.ResolvedBy)
			}
			w.wantOwedNotes(w.question(), closedNote)
		})
	}
}

// Events of another session, of another terminal with the same session, or of a subagent
// do not end a dialog that they are not about.
func TestAnswered_ForeignEventsEndNothing(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutPoller(t)
	one, two := w.withVariables("CLAUDE_PID", livingPID(t)), w.withVariables("CLAUDE_PID", livingPID(t))
	one.runHook(forwardHook, recorded(t, "single-03-PreToolUse", "agent_id", "a1"))
	for name, event := range map[string]func(){
		"another session's Stop":      func() { one.runHook(answeredHook, recorded(t, "single-07-Stop", "session_id", "another")) },
		"another call's PostToolUse":  func() { one.runHook(answeredHook, recorded(t, "two-calls-08-PostToolUse")) },
		"the other terminal's Stop":   func() { two.runHook(answeredHook, recorded(t, "single-07-Stop", "agent_id", "a1")) },
		"the other terminal's prompt": func() { two.runHook(answeredHook, recorded(t, "single-02-UserPromptSubmit")) },
		"the session's own Stop":      func() { one.runHook(answeredHook, recorded(t, "single-07-Stop")) },
	} {
		if event(); w.question().Status != state.Pending {
			t.Fatalf("%s made it %s by %q", name, w.question().Status, w.question().ResolvedBy)
		}
	}
}

// livingPID is a process that stands for Claude Code and lives as long as the test.
func livingPID(t testing.TB) string {
	t.Helper()
	cmd := exec.Command("sleep", "300")
	kit.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return fmt.Sprint(cmd.Process.Pid)
}

// A session that is resumed, after a crash or in a second terminal, asks the same
// question again. The hook beside the dialog on the screen waits for that dialog's
// question.
func TestQuestion_EqualOneOfAnotherProcess(t *testing.T) {
	for _, first := range []string{"lives", "is gone"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			w := newWorldWithoutPoller(t)
			one, two := w.withVariables("CLAUDE_PID", livingPID(t)), w.withVariables("CLAUDE_PID", livingPID(t))
			one.runHook(forwardHook, recorded(t, "single-03-PreToolUse", "tool_use_id", "toolu_a"))
			if first == "is gone" {
				w.changeQuestion(w.question(), func(q *state.Question) { q.ClaudeStart = "of another process" })
			}
			two.runHook(forwardHook, recorded(t, "single-03-PreToolUse", "tool_use_id", "toolu_b"))
			p := two.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
			w.awaitWaiter(w.questionOfCall("toolu_b"))
			w.markReplied(w.questionOfCall("toolu_b"), "Canary")
			kit.Equalf(t, w.readAnswers(p.awaitOutput())[singleQuestion], "Canary", "answered")
			if q := w.questionOfCall("toolu_a"); q.Status != state.Pending {
				t.Errorf("the first one is %s", q.Status)
			}
		})
	}
}

func TestQuestion_SameEventTwiceAsksOnce(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutPoller(t)
	pre, request := recorded(t, "single-03-PreToolUse"), recorded(t, "single-04-PermissionRequest")
	a, b := w.startHook(forwardHook, pre), w.startHook(forwardHook, pre)
	a.awaitOutput()
	b.awaitOutput()
	a, b = w.startHook(forwardHook, request), w.startHook(forwardHook, request)
	w.waitUntil("one of them to leave it to the other", func() bool { return a.hasEnded() != b.hasEnded() })
	w.markReplied(w.question(), "Canary")
	if outs := []string{a.awaitOutput(), b.awaitOutput()}; (outs[0] == "") == (outs[1] == "") {
		t.Errorf("printed %q; one of them answers", outs)
	}
	for range 2 {
		w.runHook(answeredHook, answeredEvent(t, "Canary"))
	}
	kit.Equalf(t, w.runHook(forwardHook, request), "", "a third request printed")
	w.wantOwedNotes(w.question(), closedNote)
}

// Two equal questions are asked at once. A PermissionRequest does not say whose it is, so
// one hook waits and the other dialog is answered in the terminal. Each thread gets the
// answer that Claude got in the end.
func TestQuestion_EqualOnesEndSeparately(t *testing.T) {
	for _, ids := range [][2]string{{"toolu_a", "toolu_b"}, {"toolu_b", "toolu_a"}} {
		t.Run("first dialog "+ids[0], func(t *testing.T) {
			t.Parallel()
			w := newWorldWithoutPoller(t)
			w.runHook(forwardHook, recorded(t, "single-03-PreToolUse", "tool_use_id", "toolu_a"))
			w.runHook(forwardHook, recorded(t, "single-03-PreToolUse", "tool_use_id", "toolu_b"))
			first := w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
			var waited *state.Question
			w.waitUntil("a hook to wait", func() bool {
				for _, q := range w.questions() {
					if state.HasWaiter(w.getenv, q.Path) {
						waited = q
					}
				}
				return waited != nil
			})
			kit.Equalf(t, w.runHook(forwardHook, recorded(t, "single-04-PermissionRequest")), "", "the second hook printed")
			w.markReplied(waited, "Canary")
			kit.Equalf(t, w.readAnswers(first.awaitOutput())[singleQuestion], "Canary", "answered")
			for i, answer := range []string{"Canary", "Blue-green deployment"} {
				w.runHook(answeredHook, answeredEvent(t, answer, "tool_use_id", ids[i]))
				if q := w.questionOfCall(ids[i]); q.Status != state.Resolved || q.Answers[singleQuestion] != answer {
					t.Errorf("%s is %s by %q with %v", ids[i], q.Status, q.ResolvedBy, q.Answers)
				}
			}
		})
	}
}

// The same question asked again is a new one, whether PreToolUse is registered or not.
func TestQuestion_AskedAgainIsNew(t *testing.T) {
	for _, registered := range []bool{true, false} {
		t.Run(fmt.Sprintf("PreToolUse registered: %v", registered), func(t *testing.T) {
			t.Parallel()
			w := newWorldWithoutPoller(t)
			for i, id := range []string{"toolu_a", "toolu_b"} {
				if registered {
					w.runHook(forwardHook, recorded(t, "single-03-PreToolUse", "tool_use_id", id))
				}
				p := w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
				w.waitUntil("the question", func() bool { return len(w.questions()) == i+1 })
				q := w.questions()[0]
				w.awaitWaiter(q)
				w.markReplied(q, "Canary")
				kit.Equalf(t, w.readAnswers(p.awaitOutput())[singleQuestion], "Canary", "time %d", i+1)
				w.runHook(answeredHook, answeredEvent(t, "Canary", "tool_use_id", id))
			}
		})
	}
}

func TestQuestion_EachMode(t *testing.T) {
	t.Run("off", func(t *testing.T) {
		t.Parallel()
		w := newWorldWithoutPoller(t)
		w.env["GCHAT_ASK_MODE"] = "off"
		for _, event := range []string{"single-03-PreToolUse", "single-04-PermissionRequest"} {
			if out := w.runHook(forwardHook, recorded(t, event)); out != "" || len(w.questions()) > 0 {
				t.Errorf("%s printed %q, %d questions", event, out, len(w.questions()))
			}
		}
		if _, err := os.Stat(w.env["XDG_STATE_HOME"]); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a hook with nothing to do wrote state: %v", err)
		}
	})
	t.Run("hold", func(t *testing.T) {
		t.Parallel()
		w := newWorldWithoutPoller(t)
		w.env["GCHAT_ASK_MODE"] = "hold"
		p := w.startHook(forwardHook, recorded(t, "single-03-PreToolUse"))
		w.waitUntil("the question", func() bool { return len(w.questions()) == 1 })
		w.awaitWaiter(w.question())
		w.markReplied(w.question(), "Canary")
		out := p.awaitOutput()
		if !strings.Contains(out, `"permissionDecision":"allow"`) || !strings.Contains(out, `"answers":{"`+singleQuestion+`":"Canary"}`) {
			t.Errorf("printed %s", out)
		}
		// A dialog that is drawn although the call was denied is asked here.
		kit.Equalf(t, w.readAnswers(w.runHook(forwardHook, recorded(t, "single-04-PermissionRequest")))[singleQuestion], "Canary", "PermissionRequest after hold")
	})
	t.Run("inject", func(t *testing.T) {
		t.Parallel()
		w := newWorldWithoutPoller(t)
		w.env["GCHAT_ASK_MODE"] = "inject"
		socket, pane := w.inTmux()
		w.runHook(forwardHook, recorded(t, "single-03-PreToolUse"))
		if out := w.runHook(forwardHook, recorded(t, "single-04-PermissionRequest")); out != "" {
			t.Errorf("printed %q beside the typist", out)
		}
		o, err := state.ReadIndexEntry(state.IndexFile(w.getenv, w.question().Path))
		if err != nil || o.TmuxPane != pane || o.TmuxSocket != socket {
			t.Errorf("the poller is told of pane %q, %v", o.TmuxPane, err)
		}
	})
}

// A session's record is created with its first question and stays unchanged until the
// session runs elsewhere. Two running sessions of a project have different names.
func TestSession_KeepsItsName(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutPoller(t)
	one, two := w.withVariables("CLAUDE_PID", livingPID(t)), w.withVariables("CLAUDE_PID", livingPID(t))
	sessions := state.SessionsIn(state.UserStateDir(w.getenv))
	ask := func(w *world, session, call string) *state.Session {
		w.runHook(forwardHook, recorded(t, "single-03-PreToolUse", "session_id", session, "tool_use_id", call))
		s, err := sessions.Get(session)
		kit.NoError(t, err)
		return s
	}
	first := ask(one, "s-1", "t1")
	again := ask(one, "s-1", "t2")
	project := w.env["CLAUDE_PROJECT_DIR"]
	if !again.LastSeen.Equal(first.LastSeen) || again.ProjectDir != project || !again.IsTrusted || again.Environment == "" {
		t.Errorf("written again: %+v", again)
	}
	if second := ask(two, "s-2", "t3"); second.Name == first.Name || w.questionOfCall("t3").SessionName != second.Name {
		t.Errorf("two sessions are called %q", second.Name)
	}
	if resumed := ask(two, "s-1", "t4"); resumed.ClaudePID == first.ClaudePID || !resumed.StartedAt.Equal(first.StartedAt) {
		t.Errorf("resumed in another process: %+v", resumed)
	}
	if ended, err := sessions.Change("s-1", func(s *state.Session) {
		s.LastSeen = s.LastSeen.Add(-25 * time.Hour)
	}); err != nil || !ask(two, "s-1", "t5").LastSeen.After(ended.LastSeen) {
		t.Errorf("a session that goes on for a day is not seen: %v", err)
	}
}

// Our files in a project are ignored by git. A .gitignore that a person wrote stays.
func TestQuestion_FolderIsIgnoredByGit(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutPoller(t)
	path := filepath.Join(w.projectState(), ".gitignore")
	for i, want := range []string{"*\n", "!kept\n"} {
		if i == 1 {
			writeFile(t, path, want)
		}
		w.runHook(forwardHook, recorded(t, "single-03-PreToolUse", "tool_use_id", fmt.Sprint("t", i)))
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf(".gitignore: %q, %v", b, err)
		}
	}
}

// Two sessions that start in one project at the same moment have different names, too.
func TestSession_ConcurrentNamesDiffer(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutPoller(t)
	var hooks []*hookProcess
	for i := range 3 {
		one := w.withVariables("CLAUDE_PID", livingPID(t))
		hooks = append(hooks, one.startHook(forwardHook, recorded(t, "single-03-PreToolUse",
			"session_id", fmt.Sprintf("%d-session", i), "tool_use_id", fmt.Sprint("t", i))))
	}
	names := map[string]bool{}
	for i, p := range hooks {
		p.awaitOutput()
		s, err := state.SessionsIn(state.UserStateDir(w.getenv)).Get(fmt.Sprintf("%d-session", i))
		kit.NoError(t, err)
		names[s.Name] = true
	}
	kit.Equalf(t, len(names), len(hooks), "called %v", names)
}

// What a grant (a yes for a while) allowed is shown in the terminal with the call's
// result, and is in the log of decisions. The grant ends with the session, since the same
// Claude Code may resume it.
func TestPermission_GrantIsShownInTheTerminal(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutPoller(t)
	w.env["GOOGLE_CHAT_WEBHOOK_URL"] = "http://127.0.0.1:1/v1/spaces/x/messages?key=k&token=t"
	g := state.Grant{GrantedAt: time.Now().Add(-time.Minute), EndsAt: time.Now().Add(time.Hour)}
	p := w.startHook(forwardHook, permissionEvent(w, "s-1", "make"))
	var q *state.Question
	w.waitUntil("the permission", func() bool {
		qs, _ := state.ReadIndexedQuestions(w.getenv)
		if len(qs) == 1 {
			q = qs[0]
		}
		return q != nil
	})
	w.awaitWaiter(q)
	resolvedBy := "yes, by the grant of Ann"
	w.changeQuestion(q, func(q *state.Question) { // in one write, as the poller does
		if err := q.MoveTo(state.Answered, time.Now()); err != nil {
			t.Error(err)
		}
		q.Answers = map[string]string{q.SubQuestions[0].Question: state.LabelAllow}
		q.Grant, q.Response, q.AnsweredMessage, q.AnsweredByName = &g, &resolvedBy, "spaces/x/messages/m", "Ann\n\x1b[31m"
	})
	if behavior, _ := readDecision(p.awaitOutput()); behavior != "allow" {
		t.Errorf("%s", behavior)
	}
	want := `{"systemMessage":"Allowed by Ann` + "\ufffd" + `[31m until ` + g.EndsAt.Local().Format("15:04") + ` (Google Chat)"}` + "\n"
	if out := w.runHook(answeredHook, batchEvent(w, "s-1", "make", "")); strings.ReplaceAll(out, " \ufffd", "\ufffd") != want {
		t.Errorf("%q, want %q", out, want)
	}
	if log, _ := os.ReadFile(state.AuditPath(w.getenv)); !strings.Contains(string(log), `"replied":"yes, by the grant of Ann"`) {
		t.Errorf("the log of decisions: %s", log)
	}
	w.changeQuestion(q, func(q *state.Question) { q.Grant.QuestionID = q.QuestionID })
	w.runHook(answeredHook, namedEvent(t, "Stop", "s-1"))
	w.runHook(answeredHook, namedEvent(t, "SessionEnd", "s-2"))
	if current, err := state.LoadQuestion(q.Path); err != nil || !current.LastDenialAt.IsZero() {
		t.Error("a turn's end ends it, or another session's")
	}
	w.runHook(answeredHook, namedEvent(t, "SessionEnd", "s-1"))
	if current, err := state.LoadQuestion(q.Path); err != nil || current.LastDenialAt.IsZero() {
		t.Error("it outlives its session")
	}
}
