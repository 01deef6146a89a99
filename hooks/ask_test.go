package hooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

func TestQuestion_ReplyIsPrinted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env["CLAUDE_SESSION_ID"] = "orch-epic4"
	kit.Equalf(t, w.runHook(forwardHook, recorded(t, "single-03-PreToolUse")), "",
		"PreToolUse printed")
	q := w.question()
	kit.Equalf(t, q.Status, state.Pending, "status")
	kit.True(t, q.ToolUseID != "", "it lacks its call's id")
	kit.Equalf(t, q.ThreadKey, "ask-user-"+q.QuestionID[:8], "thread key")
	kit.Equalf(t, q.SessionName, "orch-epic4", "session")
	entry := w.indexEntry(q)
	kit.Equalf(t, entry.Environment, state.Environment(w.getenv), "environment")
	kit.True(t, entry.IsTrusted, "not trusted")
	p := w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
	w.awaitWaiter(q)
	w.markReplied(q, "Rolling deployment")
	out := p.awaitOutput()
	kit.Equal(t, w.readAnswers(out), map[string]string{singleQuestion: "Rolling deployment"})
	kit.True(t, hasWholeInput(t, out, recorded(t, "single-04-PermissionRequest")),
		"the input did not come back unchanged: %s", out)
	w.wantEnd(q, state.Answered, "")
	if q = w.reload(q); !q.IsPrinted || q.PrintedAt == nil {
		t.Errorf("after the print: %v at %v", q.IsPrinted, q.PrintedAt)
	}
	kit.Equalf(t, w.runHook(answeredHook, answeredEvent(t, "Rolling deployment")), "",
		"PostToolUse printed")
	w.wantEnd(q, state.Resolved, "chat")
	w.wantOwedNotes(q, closedNote)
}

// hasWholeInput reports whether a decision carries the event's questions unchanged.
func hasWholeInput(t *testing.T, out string, event []byte) bool {
	t.Helper()
	var d printedDecision
	var in, sent struct {
		Questions json.RawMessage `json:"questions"`
	}
	var e struct {
		ToolInput json.RawMessage `json:"tool_input"`
	}
	err := errors.Join(json.Unmarshal([]byte(out), &d),
		json.Unmarshal(d.HookOutput.Decision.Input, &in),
		json.Unmarshal(event, &e), json.Unmarshal(e.ToolInput, &sent))
	return err == nil && string(in.Questions) == string(sent.Questions)
}

func TestQuestion_RemarkBecomesAnnotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest", "tool_input",
		map[string]any{
			"questions": []any{map[string]any{
				"question": "Which layout?", "header": "Layout", "multiSelect": false,
				"from_the_future": 1,
				"options": []any{map[string]any{"label": "Side bar", "preview": "|=|"},
					map[string]any{"label": "Top bar", "preview": "---"}},
			}}, "metadata": map[string]any{"source": "x"}}))
	w.changeQuestion(w.awaitQuestion(), func(q *state.Question) {
		q.Status, q.Answers = state.Answered, map[string]string{"Which layout?": "Top bar"}
		q.Notes = map[string]string{"Which layout?": "but keep the footer"}
	})
	out := p.awaitOutput()
	for _, want := range []string{
		`"annotations":{"Which layout?":{"preview":"---","notes":"but keep the footer"}}`,
		`"answers":{"Which layout?":"Top bar"}`,
		`"metadata":{"source":"x"}`, `"from_the_future":1`,
	} {
		kit.Contains(t, out, want)
	}
}

func TestQuestion_AnsweredInTheTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, q := w.startDialog()
	w.runHook(answeredHook, recorded(t, "single-05-PostToolUse"))
	kit.Equalf(t, p.awaitOutput(), "", "the waiting hook printed")
	w.wantEnd(q, state.Resolved, "terminal")
	kit.Equal(t, w.reload(q).Answers[singleQuestion], "ship|it")
	w.wantOwedNotes(q, closedNote)
}

// A session that is resumed, after a crash or in a second terminal, asks the same
// question again. The hook beside the dialog on the screen waits for that dialog's
// question.
func TestQuestion_EqualOneOfAnotherProcess(t *testing.T) {
	for _, first := range []string{"lives", "is gone"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			one, two := w.withVariables("CLAUDE_PID", livingPID(t)),
				w.withVariables("CLAUDE_PID", livingPID(t))
			one.runHook(forwardHook, recorded(t, "single-03-PreToolUse", "tool_use_id", "toolu_a"))
			if first == "is gone" {
				w.changeQuestion(w.question(),
					func(q *state.Question) { q.ClaudeStart = "of another process" })
			}
			two.runHook(forwardHook, recorded(t, "single-03-PreToolUse", "tool_use_id", "toolu_b"))
			p := two.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
			w.awaitWaiter(w.questionOfCall("toolu_b"))
			w.markReplied(w.questionOfCall("toolu_b"), "Canary")
			p.wantAnswer("Canary")
			w.wantEnd(w.questionOfCall("toolu_a"), state.Pending, "")
		})
	}
}

func TestQuestion_SameEventTwiceAsksOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pre, request := recorded(t, "single-03-PreToolUse"), recorded(t, "single-04-PermissionRequest")
	a, b := w.startHook(forwardHook, pre), w.startHook(forwardHook, pre)
	a.awaitOutput()
	b.awaitOutput()
	a, b = w.startHook(forwardHook, request), w.startHook(forwardHook, request)
	w.waitUntil("one of them to leave it to the other",
		func() bool { return a.hasEnded() != b.hasEnded() })
	w.markReplied(w.question(), "Canary")
	kit.True(t, (a.awaitOutput() == "") != (b.awaitOutput() == ""), "both answer, or none")
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
			w := newWorld(t)
			w.recordQuestion("tool_use_id", "toolu_a")
			w.runHook(forwardHook, recorded(t, "single-03-PreToolUse", "tool_use_id", "toolu_b"))
			first := w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
			qs, i := w.questions(), -1
			w.waitUntil("a hook to wait", func() bool {
				i = slices.IndexFunc(qs, func(q *state.Question) bool {
					return state.HasWaiter(w.getenv, q.Path)
				})
				return i >= 0
			})
			kit.Equalf(t, w.runHook(forwardHook, recorded(t, "single-04-PermissionRequest")), "",
				"the second hook printed")
			w.markReplied(qs[i], "Canary")
			first.wantAnswer("Canary")
			for i, answer := range []string{"Canary", "Blue-green deployment"} {
				w.runHook(answeredHook, answeredEvent(t, answer, "tool_use_id", ids[i]))
				kit.Equalf(t, w.questionOfCall(ids[i]).Answers[singleQuestion],
					answer, "%s", ids[i])
			}
		})
	}
}

// The same question asked again is a new one, whether PreToolUse is registered or not.
func TestQuestion_AskedAgainIsNew(t *testing.T) {
	for _, registered := range []bool{true, false} {
		t.Run(fmt.Sprintf("PreToolUse registered: %v", registered), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for i, id := range []string{"toolu_a", "toolu_b"} {
				if registered {
					w.runHook(forwardHook, recorded(t, "single-03-PreToolUse", "tool_use_id", id))
				}
				p := w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
				w.waitUntil("the question", func() bool { return len(w.questions()) == i+1 })
				q := w.questions()[0]
				w.awaitWaiter(q)
				w.markReplied(q, "Canary")
				kit.Equalf(t, w.readAnswers(p.awaitOutput())[singleQuestion], "Canary",
					"time %d", i+1)
				w.runHook(answeredHook, answeredEvent(t, "Canary", "tool_use_id", id))
			}
		})
	}
}

func TestQuestion_EachMode(t *testing.T) {
	t.Run("off", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.env["GCHAT_ASK_MODE"] = "off"
		for _, event := range []string{"single-03-PreToolUse", "single-04-PermissionRequest"} {
			kit.Equalf(t, w.runHook(forwardHook, recorded(t, event)), "", "%s printed", event)
		}
		kit.Equalf(t, len(w.questions()), 0, "questions")
		w.wantNoOutput()
	})
	t.Run("hold", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.env["GCHAT_ASK_MODE"] = "hold"
		p := w.startHook(forwardHook, recorded(t, "single-03-PreToolUse"))
		q := w.awaitQuestion()
		w.awaitWaiter(q)
		w.markReplied(q, "Canary")
		out := p.awaitOutput()
		kit.Contains(t, out, `"permissionDecision":"allow"`)
		kit.Contains(t, out, `"answers":{"`+singleQuestion+`":"Canary"}`)
		// A dialog that is drawn although the call was denied is asked here.
		w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest")).wantAnswer("Canary")
	})
	t.Run("inject", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.env["GCHAT_ASK_MODE"] = "inject"
		socket, pane := w.inTmux()
		entry := w.indexEntry(w.recordQuestion())
		kit.Equalf(t, w.runHook(forwardHook, recorded(t,
			"single-04-PermissionRequest")), "", "printed")
		kit.Equalf(t, entry.TmuxPane, pane, "pane")
		kit.Equalf(t, entry.TmuxSocket, socket, "socket")
	})
}

// Our files in a project are ignored by git. A .gitignore that a person wrote stays.
func TestQuestion_FolderIsIgnoredByGit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := filepath.Join(w.projectState(), ".gitignore")
	for i, want := range []string{"*\n", "!kept\n"} {
		if i == 1 {
			writeFile(t, path, want)
		}
		w.runHook(forwardHook, recorded(t, "single-03-PreToolUse", "tool_use_id",
			fmt.Sprint("t", i)))
		kit.Equalf(t, kit.ReadFile(t, path), want, ".gitignore")
	}
}

func TestQuestion_RoundTripThroughChat(t *testing.T) {
	for name, c := range map[string]struct {
		mode   string
		waits  string // the event whose hook waits
		answer func(w *world, thread string)
		says   string // in the thread, at the end
	}{
		"native": {"native", "single-04-PermissionRequest", replyInChat("2"),
			"Selected: Rolling deployment"},
		"hold": {"hold", "single-03-PreToolUse", replyInChat("rolling"),
			"Selected: Rolling deployment"},
		"at a shell": {"native", "single-04-PermissionRequest", answerAtShell("2"),
			"Answered with gchat-hooks answer."},
		"in the dialog": {"native", "single-04-PermissionRequest", func(w *world, _ string) {
			w.runHook(answeredHook, answeredEvent(w, "Rolling deployment"))
		}, "terminal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newChatWorld(t)
			w.env["GCHAT_ASK_MODE"], w.env["CLAUDE_SESSION_ID"] = c.mode, "orch-epic4"
			if c.waits != "single-03-PreToolUse" {
				w.runHook(forwardHook, recorded(t, "single-03-PreToolUse"))
			}
			p := w.startHook(forwardHook, recorded(t, c.waits))
			c.answer(w, w.awaitThread(1))
			out := p.awaitOutput()
			kit.Equalf(t, name != "in the dialog",
				strings.Contains(out, `"answers":{"`+singleQuestion+`":"Rolling deployment"}`),
				"printed %q", out)
			w.runHook(answeredHook, answeredEvent(t, "Rolling deployment"))
			kit.Containsf(t, w.awaitMessage("[Answered]").Text, c.says, "the thread")
			kit.Equalf(t, w.messages("[Answered]")[0].Thread.Name, w.awaitThread(1), "thread")
			w.wantSentOnce()
		})
	}
}

func replyInChat(text string) func(*world, string) {
	return func(w *world, thread string) { w.sendAsUser(ann, thread, text) }
}

func answerAtShell(text string) func(*world, string) {
	return func(w *world, _ string) {
		kit.NoError(w, w.programCommand("answer", "orch-epic4", text).Run())
	}
}

// A process that asks with an API key and an API address has its question worded with
// them, also if the running poller has neither. Both have one environment, so one poller
// serves them.
func TestQuestion_WordedWithItsOwnKey(t *testing.T) {
	t.Parallel()
	const worded, key = "Which way shall it go out?", "sk-ant-of-the-asker"
	model := kit.NewServer(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != key {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = rw.Write([]byte(`{"type":"message","model":"m","content":[{"type":"text","text":"[\"` + worded +
			`\"]"}],"stop_reason":"end_turn","usage":{"input_tokens":1000,"output_tokens":200}}`))
	}))
	w := newChatWorld(t)
	writeFile(t, state.ConfigFile(w.getenv), `{"format":"haiku"}`)
	w.runHook(forwardHook, recorded(t, "single-03-PreToolUse"))
	w.awaitThread(1) // posted by a poller without a key
	asker := w.withVariables("ANTHROPIC_API_KEY", key, "ANTHROPIC_BASE_URL", model.URL)
	asker.runHook(forwardHook, recorded(t, "single-03-PreToolUse", "tool_use_id", "toolu_second"))
	w.awaitThread(2)
	messages := w.messages("[AskUserQuestion]")
	kit.True(t, !strings.Contains(messages[0].Text, worded), "%q", messages[0].Text)
	kit.Contains(t, messages[1].Text, worded)
	kit.Equalf(t, w.questions()[0].WordingCostUSD, 0.002, "cost")
	kit.Equalf(t, len(state.ReadHeartbeats(w.getenv)), 1, "pollers")
	w.endPollers()
	kit.NoError(t, filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		kit.True(t, err != nil || !d.Type().IsRegular() ||
			!strings.Contains(kit.ReadFile(t, path), key), "the key stands in %s", path)
		return err
	}))
}

// The three events of one call carry the same questions among different members. One hash
// identifies the call.
func TestQuestion_OneHashForACall(t *testing.T) {
	for _, version := range []string{"2.1.197", "2.1.329"} {
		for _, call := range []string{"single", "multi"} {
			hashes := map[string]bool{}
			for _, event := range []string{"PreToolUse", "PermissionRequest", "PostToolUse"} {
				for _, b := range payloads(t, filepath.Join(version, call+"-0*-"+event+".json")) {
					e := eventOf(t, b)
					hashes[callHash(e.ToolName, e.ToolInput)] = true
				}
			}
			kit.Equalf(t, len(hashes), 1, "%s %s: hashes", version, call)
			kit.True(t, !hashes[""], "%s %s: no hash", version, call)
		}
	}
}

// Each folder that may have a question is read once, also where the project has no folder
// of its own.
func TestQuestion_ReadsEachFolderOnce(t *testing.T) {
	w := newWorld(t)
	delete(w.env, "XDG_STATE_HOME")
	kit.NoError(t, os.Symlink(w.env["HOME"], filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude")))
	own := state.QuestionsIn(state.SpareStateDir(w.getenv))
	kit.Equal(t, w.newHook().folders(state.QuestionsIn), []state.Questions{own})
}

// A question that PermissionRequest records because PreToolUse is not registered is
// written without reading tmux or the session under its folder's lock: see underlock.
func TestQuestion_ReadsTmuxBeforeItLocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.inTmux()
	w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
	w.awaitWaiter(w.awaitQuestion())
}

// If a project cannot be written or its disk is full, its questions are in the person's
// own state.
func TestQuestion_UnwritableProjectUsesPersonalState(t *testing.T) {
	for name, block := range map[string]func(w *world){
		"a file where a folder should be": func(w *world) {
			writeFile(w, filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude"), "")
		},
		"a full disk": func(w *world) {
			dir := w.smallDisk()
			kit.NoError(w, os.MkdirAll(filepath.Join(dir, "pending-questions", ".locks"), 0o700))
			fillDisk(w, dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			block(w)
			w.runHook(forwardHook, recorded(t, "single-03-PreToolUse"))
			q := w.answerPersonalQuestion()
			w.runHook(answeredHook, answeredEvent(t, "Canary"))
			w.wantOwedNotes(q, closedNote)
		})
	}
}

// A project that could not be written for a moment does not make a question be asked
// twice.
func TestQuestion_PersonalStateIsAskedOnce(t *testing.T) {
	w := newWorld(t)
	claude := filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude")
	writeFile(w, claude, "") // no folder can be made there
	w.runHook(forwardHook, recorded(t, "single-03-PreToolUse"))
	kit.NoError(t, os.Remove(claude))
	w.answerPersonalQuestion()
	kit.Equalf(t, len(w.questions()), 0, "questions in the project")
}

// answerPersonalQuestion answers the question in the person's own state in its dialog.
func (w *world) answerPersonalQuestion() *state.Question {
	w.Helper()
	p := w.startHook(forwardHook, recorded(w, "single-04-PermissionRequest"))
	qs, loadErrs := state.QuestionsIn(state.SpareStateDir(w.getenv)).All()
	kit.Must(w, len(qs) == 1 && len(loadErrs) == 0, "%d questions in the person's own state, %v",
		len(qs), loadErrs)
	w.awaitWaiter(qs[0])
	w.markReplied(qs[0], "Canary")
	p.wantAnswer("Canary")
	return qs[0]
}

// A disk that is full for a moment makes no thread say something untrue. That an answer
// was delivered, and that a question ended, is recorded a little later.
func TestQuestion_FullDiskForAMoment(t *testing.T) {
	kit.NeedProgram(t, "strace")
	full := []string{
		"strace", "-D", "-f", "-qq", "-o", os.DevNull, "-e", "trace=rename,renameat,renameat2",
		"-e", "inject=rename,renameat,renameat2:error=ENOSPC:when=1",
	}
	for name, c := range map[string]struct {
		end       func(w *world)
		status    state.Status
		by        string
		isPrinted bool
	}{
		"printed": {func(w *world) {
			p, q := w.startDialog(full...)
			w.markReplied(q, "Canary")
			p.wantAnswer("Canary")
		}, state.Answered, "", true},
		"dismissed": {func(w *world) {
			p, _ := w.startDialog(full...)
			terminate(p)
			p.awaitOutput()
		}, state.Cancelled, "signal", false},
		"stopped": {func(w *world) {
			w.recordQuestion()
			w.startHook(answeredHook, recorded(t, "single-07-Stop"), full...).awaitOutput()
		}, state.Cancelled, "stop", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.end(w)
			w.wantEnd(w.question(), c.status, c.by)
			kit.Equalf(t, w.question().IsPrinted, c.isPrinted, "printed")
		})
	}
}
