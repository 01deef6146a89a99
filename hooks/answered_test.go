package hooks

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

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
		"closed, and noted": {func(w *world, q *state.Question) {
			w.changeQuestion(q, func(q *state.Question) { q.IsPrinted = true })
			w.runHook(answeredHook, recorded(t, "single-07-Stop"))
			w.changeQuestion(q, func(q *state.Question) { q.OwedNotes = nil })
		}, []state.OwedNote{correction}},
		"closed, and not noted yet": {func(w *world, q *state.Question) {
			w.changeQuestion(q, func(q *state.Question) { q.IsPrinted = true })
			w.runHook(answeredHook, recorded(t, "single-07-Stop"))
		}, []state.OwedNote{closedNote}},
		"dismissed, and noted": {func(w *world, q *state.Question) {
			w.runHook(answeredHook, recorded(t, "single-02-UserPromptSubmit"))
			w.changeQuestion(q, func(q *state.Question) { q.OwedNotes = nil })
		}, []state.OwedNote{correction}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			q := w.recordQuestion()
			w.markPosted(q)
			w.markReplied(q, "Canary")
			c.before(w, q)
			for range 2 {
				w.runHook(answeredHook, answeredEvent(t, "Rolling deployment"))
			}
			w.wantAnswered(q, "terminal", "Rolling deployment")
			w.wantOwedNotes(q, c.owes...)
		})
	}
}

func TestAnswered_EventsThatCancel(t *testing.T) {
	session := "b1e91434-d410-4fbe-b382-0fbc1f1c23d3"
	for resolvedBy, end := range map[string]func(w *world, p *hookProcess){
		"signal": func(w *world, p *hookProcess) { terminate(p) },
		"stop": func(w *world, p *hookProcess) {
			w.runHook(answeredHook, recorded(w.TB, "single-07-Stop"))
		},
		"prompt": func(w *world, p *hookProcess) {
			w.runHook(answeredHook, recorded(w.TB, "single-02-UserPromptSubmit"))
		},
		"session_end": func(w *world, p *hookProcess) {
			w.runHook(answeredHook, recorded(w.TB, "killed-04-SessionEnd", "session_id", session))
		},
	} {
		t.Run(resolvedBy, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p, q := w.startDialog()
			end(w, p)
			kit.Equalf(t, p.awaitOutput(), "", "printed")
			w.wantEnd(q, state.Cancelled, resolvedBy)
			w.wantOwedNotes(q, closedNote)
		})
	}
}

// The hook of PostToolUse could not write the answers down, or is not registered. The
// transcript has them, so no event calls the question cancelled.
func TestAnswered_ToldByTranscript(t *testing.T) {
	var used Event
	kit.NoError(t, json.Unmarshal(recorded(t, "single-05-PostToolUse"), &used))
	for _, event := range []string{"single-07-Stop", "single-02-UserPromptSubmit"} {
		w := newWorld(t)
		q := w.recordQuestion()
		result := map[string]any{"type": "tool_result", "tool_use_id": q.ToolUseID}
		line := kit.JSON(t, map[string]any{
			"type":          "user",
			"message":       map[string]any{"content": []any{result}},
			"toolUseResult": used.ToolResponse,
		})
		path := transcript(t, string(line)+"\n")
		w.runHook(answeredHook, recorded(t, event, "transcript_path", path))
		w.wantEnd(q, state.Resolved, "terminal")
		kit.Equalf(t, w.reload(q).Answers[q.SubQuestions[0].Question], "ship|it", "%s: answer", event)
	}
}

// Events of another session, of another terminal with the same session, or of a subagent
// do not end a dialog that they are not about.
func TestAnswered_ForeignEventsEndNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.withVariables("CLAUDE_PID", livingPID(t)),
		w.withVariables("CLAUDE_PID", livingPID(t))
	one.recordQuestion("agent_id", "a1")
	for name, event := range map[string]func(){
		"another session's Stop": func() {
			one.runHook(answeredHook, recorded(t, "single-07-Stop", "session_id", "another"))
		},
		"another call's PostToolUse": func() {
			one.runHook(answeredHook, recorded(t, "two-calls-08-PostToolUse"))
		},
		"the other terminal's Stop": func() {
			two.runHook(answeredHook, recorded(t, "single-07-Stop", "agent_id", "a1"))
		},
		"the other terminal's prompt": func() {
			two.runHook(answeredHook, recorded(t, "single-02-UserPromptSubmit"))
		},
		"the session's own Stop": func() {
			one.runHook(answeredHook, recorded(t, "single-07-Stop"))
		},
	} {
		if event(); w.question().Status != state.Pending {
			t.Fatalf("%s made it %s by %q", name, w.question().Status, w.question().ResolvedBy)
		}
	}
}

// The answer that Claude got is recorded although another process locks the record for
// some seconds.
func TestAnswered_WaitsForALockedRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	q := w.recordQuestion()
	lock, err := state.TryLock(lockPath(q))
	kit.NoError(t, err)
	p := w.startHook(answeredHook, recorded(t, "single-05-PostToolUse"))
	time.Sleep(3 * time.Second) // longer than a hook tries once
	lock.Unlock()
	p.awaitOutput()
	w.wantAnswered(q, "terminal", "ship|it")
}

// Nobody answers for a minute, and Claude Code goes on (2.1.332). That is not a person's
// answer.
func TestAnswered_AwayTimerIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(*state.Question)
		says   []string
	}{
		"nobody answered": {func(*state.Question) {}, nil},
		"a part was answered": {func(q *state.Question) { q.PartialAnswers = map[int]state.Answer{0: {Labels: []string{"Canary"}}} },
			[]string{"Your answer: Canary", "did not reach Claude", `Reply "send"`}},
		"a reply came too late": {func(q *state.Question) {
			q.Status, q.Answers, q.AnsweredMessage, q.AnsweredBy = state.Answered,
				map[string]string{singleQuestion: "Canary"}, "m", ann.Name
		}, []string{"Your reply did not reach Claude"}},
		"the session's file was first": {func(q *state.Question) {
			q.Status, q.ResolvedBy, q.ResolvedAt = state.Resolved, "terminal", &q.AskedAt
		}, nil},
	} {
		w := newWorld(t)
		q := w.recordQuestion()
		w.changeSession(q.ClaudeSession(), func(s *state.Session) { s.AcceptsCommands = true })
		w.changeQuestion(q, c.before)
		w.runHook(answeredHook, recorded(t, "single-05-PostToolUse", "tool_response",
			map[string]any{"answers": map[string]any{}, "annotations": map[string]any{},
				"afkTimeoutMs": 60000}))
		q = w.question()
		note := closingNote(q)
		for _, want := range append(c.says, "[Timeout]", "Claude Code went on after 60 s") {
			kit.Containsf(t, note, want, "%s: note", name)
		}
		kit.True(t, !strings.Contains(note, "in the terminal"), "%s: %q", name, note)
		kit.Equalf(t, len(q.OwedNotes), 1, "%s: owed notes", name)
		counts := state.ReadStats(w.getenv, time.Now().AddDate(-1, 0, 0)).Total.Counts
		kit.True(t, counts["unanswered"] == 1 &&
			counts["answered_in_the_terminal"]+counts["answered_in_chat"] == 0,
			"%s: counted %v", name, counts)
	}
}

func TestAnswered_AnswersOfEveryVersion(t *testing.T) {
	const deploy, features = "Which deployment approach should we use?", "Which features do you want to enable?"
	for file, want := range map[string]map[string]string{
		"2.1.329/single-05-PostToolUse.json": {deploy: "ship|it"},
		"2.1.329/timing-06-PostToolUse.json": {deploy: "Rolling deployment"},
		"2.1.329/two-questions-free-text-04-PostToolUse.json": {
			"Which DB?":       `neither, use $HOME/duck "db"; 日本語`,
			"Which features?": "Auth, Search, something else"},
	} {
		e, err := decode(payloads(t, file)[filepath.Join("testdata", file)])
		kit.NoError(t, err)
		prompts, err := e.subQuestions()
		kit.NoError(t, err)
		answers, notes, err := readAnswers(e, prompts)
		kit.True(t, err == nil && maps.Equal(answers, want) && len(notes) == 0,
			"%s: %v, notes %v, %v; want %v", file, answers, notes, err, want)
	}
	e := &Event{ToolResponse: json.RawMessage(
		`{"answers":{"` + features + `":"Auth, Export"},"annotations":{"` + features + `":{"notes":"soon"}}}`)}
	answers, notes, err := readAnswers(e, []state.SubQuestion{{Question: features}})
	kit.True(t, err == nil && answers[features] == "Auth, Export" && notes[features] == "soon",
		"with a remark: %v, %v, %v", answers, notes, err)
	e.ToolResponse = json.RawMessage(`{"answers":[{"selectedOption":"Rolling deployment","customText":null},
		{"selectedOptions":["Auth","Export"]},{"selectedOption":null,"customText":"soon"},{"customText":"of no question"}]}`)
	answers, _, err = readAnswers(e, []state.SubQuestion{{Question: deploy}, {Question: features},
		{Question: "When?"}})
	want := map[string]string{deploy: "Rolling deployment", features: "Auth, Export",
		"When?": "soon"}
	kit.True(t, err == nil && maps.Equal(answers, want), "in a list: %v, %v; want %v",
		answers, err, want)
}

// What Claude got counts as the reply if it is what the poller types for it, and nothing
// else does.
func TestAnswered_TypedAnswers(t *testing.T) {
	const which = "Which?"
	for name, c := range map[string]struct {
		meant, remark, got string
		want               bool
	}{
		"the choice":             {"Two", "", "Two", true},
		"another that begins so": {"Yes", "", "Yes, and don't ask again", false},
		"another that holds it":  {"no", "", "not now", false},
		"one more":               {"Auth", "", "Auth, Search", false},
		"with its remark":        {"Two", "but later", "Two – but later", true},
		// with previews, a remark has a field of its own
		"without its remark":     {"Two", "but later", "Two", true},
		"with another remark":    {"Two", "but later", "Two – now", false},
		"white space on the way": {"one\ntwo  three", "", "one two three", true},
		"without its emoji mark": {"❤️ red", "", "❤ red", true},
		"nothing":                {"Two", "", "", false},
		"a text with the choice": {"Auth, dark mode", "", "Auth, dark mode", true},
	} {
		q := &state.Question{Typing: &state.Typing{},
			SubQuestions: []state.SubQuestion{{Question: which}}}
		q.Answers = map[string]string{which: c.meant}
		if c.remark != "" {
			q.Notes = map[string]string{which: c.remark}
		}
		kit.Equalf(t, areTypedAnswers(q, map[string]string{which: c.got}), c.want, "%s", name)
		if q.Typing = nil; areTypedAnswers(q, map[string]string{which: c.got}) {
			t.Errorf("%s: it was not typed at all", name)
		}
	}
}
