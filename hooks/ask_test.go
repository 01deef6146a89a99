package hooks_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

const single = "Which deployment approach should we use?"

func TestReplyBecomesTheAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env["CLAUDE_SESSION_ID"] = "orch-epic4"
	if out := w.run(forward, recorded(t, "single-03-PreToolUse")); out != "" {
		t.Errorf("PreToolUse printed %q", out)
	}
	if q := w.question(); q.Status != state.Pending || q.ToolUseID == "" || q.ThreadKey != "ask-user-"+q.QuestionID[:8] || q.SessionName != "orch-epic4" {
		t.Errorf("recorded %s %q %q %q", q.Status, q.ToolUseID, q.ThreadKey, q.SessionName)
	}
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	thread := w.thread(1)
	w.say(ann, thread, "2")
	out := p.end()
	if got := w.answers(out); !maps.Equal(got, map[string]string{single: "Rolling deployment"}) {
		t.Errorf("answers %v", got)
	}
	var d decision
	var in, sent struct {
		Questions json.RawMessage `json:"questions"`
	}
	_ = json.Unmarshal([]byte(out), &d)
	_ = json.Unmarshal(d.Output.Decision.Input, &in)
	var event struct {
		ToolInput json.RawMessage `json:"tool_input"`
	}
	_ = json.Unmarshal(recorded(t, "single-04-PermissionRequest"), &event)
	_ = json.Unmarshal(event.ToolInput, &sent)
	if string(in.Questions) != string(sent.Questions) {
		t.Errorf("the input did not come back whole: %s", d.Output.Decision.Input)
	}
	q := w.question()
	if q.Status != state.Answered || *q.Response != "2" || *q.ResponseType != "single_select" || q.AnsweredBy != ann.Name || q.ThreadName != thread {
		t.Errorf("record: %s by %q %q in %q", q.Status, q.ResolvedBy, q.AnsweredBy, q.ThreadName)
	}
	after := recorded(t, "single-05-PostToolUse", "tool_response", map[string]any{"answers": map[string]string{single: "Rolling deployment"}})
	if out := w.run(answered, after); out != "" {
		t.Errorf("PostToolUse printed %q", out)
	}
	want := "[Answered] orch-epic4\n\nQuestion: " + single + "\nSelected: Rolling deployment"
	if got := w.awaitMessage("[Answered]"); got != want {
		t.Errorf("the thread says %q, want %q", got, want)
	}
	if q := w.question(); q.Status != state.Resolved || q.ResolvedBy != "chat" || q.ResolvedAt == nil {
		t.Errorf("record: %s by %q %q in %q", q.Status, q.ResolvedBy, q.AnsweredBy, q.ThreadName)
	}
}

func TestSeveralQuestionsAreAnsweredAllOrNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start(forward, recorded(t, "two-questions-04-PermissionRequest"))
	thread := w.thread(1)
	w.say(ann, thread, "Q2: 1, 3")
	if got := w.awaitMessage("[Kept]"); !strings.Contains(got, "Q1") || strings.Contains(got, "Q2") {
		t.Errorf("the thread says %q", got)
	}
	w.say(ann, thread, `use $HOME/duck "db"`+"\n日本語")
	got := w.answers(p.end())
	want := map[string]string{"Which DB?": "use $HOME/duck \"db\"\n日本語", "Which features?": "Auth, Search"}
	if !maps.Equal(got, want) {
		t.Errorf("answers %v, want %v", got, want)
	}
}

func TestRemarkAndPreviewTravelAsAnnotations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	event := recorded(t, "single-04-PermissionRequest", "tool_input", map[string]any{"questions": []any{map[string]any{
		"question": "Which layout?", "header": "Layout", "multiSelect": false, "from_the_future": 1,
		"options": []any{map[string]any{"label": "Side bar", "preview": "|=|"}, map[string]any{"label": "Top bar", "preview": "---"}},
	}}, "metadata": map[string]any{"source": "x"}})
	p := w.start(forward, event)
	w.say(ann, w.thread(1), "2 - but keep the footer")
	var d decision
	if err := json.Unmarshal([]byte(p.end()), &d); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"annotations":{"Which layout?":{"preview":"---","notes":"but keep the footer"}}`, `"answers":{"Which layout?":"Top bar"}`, `"metadata":{"source":"x"}`, `"from_the_future":1`} {
		if !strings.Contains(string(d.Output.Decision.Input), want) {
			t.Errorf("%s is not in %s", want, d.Output.Decision.Input)
		}
	}
}

func TestWhoMayAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.say(ann, "", "1")
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	thread := w.thread(1)
	w.say(bot, thread, "1")
	w.say(ann, old.Thread.Name, "1")
	w.say(bob, thread, "1")
	if got := w.awaitMessage("[Not used]"); !strings.Contains(got, "Bob") || !strings.Contains(got, "users/bob") || !strings.Contains(got, "GCHAT_ALLOWED_USERS") {
		t.Errorf("refusal: %q", got)
	}
	w.say(bob, thread, "1")
	w.say(ann, thread, "3")
	if got := w.answers(p.end())[single]; got != "Canary" {
		t.Errorf("answered %q; only Ann may", got)
	}
	if got := w.messages("[Not used]"); len(got) != 1 || got[0].Thread.Name != thread {
		t.Errorf("%d refusals, want one in the thread", len(got))
	}
	verdicts := map[state.Verdict]int{}
	for _, r := range w.question().Replies {
		verdicts[r.Verdict]++
	}
	if verdicts[state.Refused] != 2 || verdicts[state.Used] != 1 || len(w.question().Replies) != 3 {
		t.Errorf("verdicts %v", verdicts)
	}
}

func TestNobodyAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	delete(w.env, "GCHAT_ALLOWED_USERS")
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	thread := w.thread(1)
	w.say(ann, thread, "1")
	if got := w.awaitMessage("[Not used]"); !strings.Contains(got, "Nobody") || !strings.Contains(got, "users/ann") {
		t.Errorf("refusal: %q", got)
	}
	// The person sets what the thread says, and replies again: the waiting hook reads the configuration afresh.
	writeFile(t, filepath.Join(w.env["HOME"], ".config", "gchat-hooks", "config.json"), `{"allowed_users":["users/ann"]}`)
	w.say(ann, thread, "2")
	if got := w.answers(p.end())[single]; got != "Rolling deployment" {
		t.Errorf("answered %q", got)
	}
}

func TestSecondReplyGetsOneNote(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	other := w.start(forward, recorded(t, "two-calls-05-PermissionRequest")) // keeps the inbox alive
	w.thread(2)
	thread := ""
	for _, m := range w.messages("[AskUserQuestion]") {
		if strings.Contains(m.Text, single) {
			thread = m.Thread.Name
		}
	}
	w.say(ann, thread, "1")
	w.say(ann, thread, "2")
	w.say(ann, thread, "3")
	if got := w.answers(p.end())[single]; got != "Blue-green deployment" {
		t.Errorf("answered %q; the first reply counts", got)
	}
	if got := w.awaitMessage("[Not used]"); !strings.Contains(got, "already answered") {
		t.Errorf("note %q", got)
	}
	w.until("both late replies judged", func() bool {
		n := 0
		for _, q := range w.questions() {
			for _, r := range q.Replies {
				if r.Verdict == state.Late {
					n++
				}
			}
		}
		return n == 2
	})
	if n := len(w.messages("[Not used]")); n != 1 {
		t.Errorf("%d notes, want 1", n)
	}
	terminate(other)
	other.end()
}

func TestTerminalFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(forward, recorded(t, "single-03-PreToolUse"))
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	thread := w.thread(1)
	w.run(answered, recorded(t, "single-05-PostToolUse"))
	if out := p.end(); out != "" {
		t.Errorf("the waiting hook printed %q", out)
	}
	got := w.awaitMessage("[Answered]")
	if !strings.Contains(got, `Custom response: "ship|it"`) || !strings.Contains(got, "terminal") {
		t.Errorf("the thread says %q", got)
	}
	if q := w.question(); q.Status != state.Resolved || q.ResolvedBy != "terminal" || q.ThreadName != thread {
		t.Errorf("record: %s by %q %q in %q", q.Status, q.ResolvedBy, q.AnsweredBy, q.ThreadName)
	}
}

func TestSeedsAnswerListIsUnderstood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(forward, recorded(t, "multi-03-PreToolUse"))
	p := w.start(forward, recorded(t, "multi-04-PermissionRequest"))
	w.thread(1)
	w.run(answered, recorded(t, "multi-05-PostToolUse", "tool_response", map[string]any{"answers": []any{
		map[string]any{"selectedOption": nil, "selectedOptions": []string{"Auth", "Export"}, "customText": nil}}}))
	p.end()
	if got := w.awaitMessage("[Answered]"); !strings.Contains(got, "Selected: Auth, Export") {
		t.Errorf("the thread says %q", got)
	}
}

func TestWhatEndsAQuestionOtherwise(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(w *world, p *process)
		says string
	}{
		"Esc":          {func(w *world, p *process) { terminate(p) }, "Dismissed in the terminal"},
		"Stop":         {func(w *world, p *process) { w.run(answered, recorded(w.TB, "single-07-Stop")) }, "without choosing"},
		"a new prompt": {func(w *world, p *process) { w.run(answered, recorded(w.TB, "single-02-UserPromptSubmit")) }, "new prompt"},
		"the session end": {func(w *world, p *process) {
			w.run(answered, recorded(w.TB, "killed-04-SessionEnd", "session_id", "b1e91434-d410-4fbe-b382-0fbc1f1c23d3"))
		}, "session ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.run(forward, recorded(t, "single-03-PreToolUse"))
			p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
			w.thread(1)
			c.end(w, p)
			if out := p.end(); out != "" {
				t.Errorf("printed %q", out)
			}
			if got := w.awaitMessage("[Cancelled]"); !strings.Contains(got, c.says) {
				t.Errorf("the thread says %q", got)
			}
			if q := w.question(); q.Status != state.Cancelled {
				t.Errorf("status %s", q.Status)
			}
		})
	}
}

func TestOtherSessionsEventsEndNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	thread := w.thread(1)
	w.run(answered, recorded(t, "single-07-Stop", "session_id", "another"))
	w.run(answered, recorded(t, "two-calls-08-PostToolUse"))
	w.say(ann, thread, "canary")
	if got := w.answers(p.end())[single]; got != "Canary" {
		t.Errorf("answered %q", got)
	}
}

func TestSameEventTwiceActsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pre, request := recorded(t, "single-03-PreToolUse"), recorded(t, "single-04-PermissionRequest")
	a, b := w.start(forward, pre), w.start(forward, pre)
	a.end()
	b.end()
	a, b = w.start(forward, request), w.start(forward, request)
	w.say(ann, w.thread(1), "2")
	outs := []string{a.end(), b.end()}
	if (outs[0] == "") == (outs[1] == "") {
		t.Errorf("printed %q; one of them answers", outs)
	}
	if out := w.run(forward, request); out != "" && len(w.questions()) == 1 {
		// The same answer again is harmless; a new question would not be.
		_ = w.answers(out)
	}
	for range 2 {
		w.run(answered, recorded(t, "single-05-PostToolUse"))
	}
	w.awaitMessage("[Answered]")
	w.endFlusher()
	if n := len(w.messages("[AskUserQuestion]")); n != 1 {
		t.Errorf("posted %d times", n)
	}
	if n := len(w.messages("[Answered]")); n != 1 {
		t.Errorf("confirmed %d times", n)
	}
	w.question()
}

func TestOnlyPreToolUseStillPosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(forward, recorded(t, "single-03-PreToolUse"))
	w.thread(1)
	w.run(answered, recorded(t, "single-05-PostToolUse"))
	w.awaitMessage("[Answered]")
}

func TestTwoQuestionsAtOnceStayApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(forward, recorded(t, "two-calls-03-PreToolUse"))
	w.run(forward, recorded(t, "two-calls-04-PreToolUse"))
	second, first := w.start(forward, recorded(t, "two-calls-05-PermissionRequest")), w.start(forward, recorded(t, "two-calls-06-PermissionRequest"))
	w.thread(2)
	for _, m := range w.messages("[AskUserQuestion]") {
		if strings.Contains(m.Text, "First call?") {
			w.say(ann, m.Thread.Name, "2")
		} else {
			w.say(ann, m.Thread.Name, "1")
		}
	}
	if got := w.answers(first.end())["First call?"]; got != "a2" {
		t.Errorf("first: %q", got)
	}
	if got := w.answers(second.end())["Second call?"]; got != "b1" {
		t.Errorf("second: %q", got)
	}
}

func TestTwoEqualQuestionsAtOnceStayApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(forward, recorded(t, "single-03-PreToolUse", "tool_use_id", "toolu_a"))
	w.run(forward, recorded(t, "single-03-PreToolUse", "tool_use_id", "toolu_b"))
	a, b := w.start(forward, recorded(t, "single-04-PermissionRequest")), w.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.thread(2)
	for i, m := range w.messages("[AskUserQuestion]") {
		w.say(ann, m.Thread.Name, []string{"1", "2"}[i])
	}
	got := map[string]bool{w.answers(a.end())[single]: true, w.answers(b.end())[single]: true}
	if !got["Blue-green deployment"] || !got["Rolling deployment"] {
		t.Errorf("answers %v", got)
	}
}

func TestAskedAgainIsANewQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, id := range []string{"toolu_a", "toolu_b"} {
		w.run(forward, recorded(t, "single-03-PreToolUse", "tool_use_id", id))
		p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
		w.say(ann, w.thread(i+1), []string{"1", "2"}[i])
		if got := w.answers(p.end())[single]; got != []string{"Blue-green deployment", "Rolling deployment"}[i] {
			t.Errorf("time %d: %q", i+1, got)
		}
		w.run(answered, recorded(t, "single-05-PostToolUse", "tool_use_id", id))
	}
}

func TestModes(t *testing.T) {
	t.Run("off", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.env["GCHAT_ASK_MODE"] = "off"
		w.run(forward, recorded(t, "single-03-PreToolUse"))
		if out := w.run(forward, recorded(t, "single-04-PermissionRequest")); out != "" || len(w.questions()) > 0 {
			t.Errorf("printed %q, %d questions", out, len(w.questions()))
		}
	})
	t.Run("hold", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.env["GCHAT_ASK_MODE"] = "hold"
		p := w.start(forward, recorded(t, "single-03-PreToolUse"))
		w.say(ann, w.thread(1), "3")
		out := p.end()
		if !strings.Contains(out, `"permissionDecision":"allow"`) || !strings.Contains(out, `"answers":{"`+single+`":"Canary"}`) {
			t.Errorf("printed %s", out)
		}
		// A dialog that is opened all the same asks here.
		if got := w.answers(w.run(forward, recorded(t, "single-04-PermissionRequest")))[single]; got != "Canary" {
			t.Errorf("PermissionRequest after hold: %q", got)
		}
	})
}

func TestReplyByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env["CLAUDE_SESSION_ID"] = "orch-epic4"
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.thread(1)
	writeFile(t, filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "state", "user-input-queue", "orch-epic4.txt"), "2\n")
	if got := w.answers(p.end())[single]; got != "Rolling deployment" {
		t.Errorf("answered %q", got)
	}
}

func TestOneListForAllQuestions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env["GCHAT_POLLER_INTERVAL"] = "1"
	var ps []*process
	for i := range 20 {
		other := w.with("CLAUDE_PROJECT_DIR", filepath.Join(w.dir, "projects", string(rune('a'+i))))
		writeFile(t, filepath.Join(other.env["CLAUDE_PROJECT_DIR"], "README"), "")
		for n := range 9 { // of sessions whose hooks wait too, so to say
			_, err := state.QuestionsIn(filepath.Join(other.env["CLAUDE_PROJECT_DIR"], ".claude", "state")).Record(fmt.Sprint("s", n), func([]*state.Question) *state.Question {
				return &state.Question{
					QuestionID: fmt.Sprint(i, "-", n), SessionID: fmt.Sprint("s", n), AskedAt: time.Now(), Status: state.Pending, MessageSent: true,
					Chat: strings.TrimPrefix(w.url, "http://") + "/" + space.Name, Space: space.Name, ThreadName: fmt.Sprintf("%s/threads/%d-%d", space.Name, i, n), Questions: []state.Prompt{{Question: "Q?"}},
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		ps = append(ps, other.start(forward, recorded(t, "single-04-PermissionRequest")))
	}
	w.thread(20)
	_, before := w.trace.counts()
	began := time.Now()
	w.until("five cycles", func() bool { _, n := w.trace.counts(); return n >= before+5 })
	// One process alone lists once a second; twenty that each listed, or one that listed for each of the 200 questions
	// in 20 projects, would be done with five in a quarter of one.
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("five lists in %v: more than one process lists", took)
	}
	for _, m := range w.messages("[AskUserQuestion]") {
		w.say(ann, m.Thread.Name, "1")
	}
	for _, p := range ps {
		if got := w.answers(p.end())[single]; got != "Blue-green deployment" {
			t.Errorf("answered %q", got)
		}
	}
	_, after := w.trace.counts()
	w.run(answered, recorded(t, "single-07-Stop"))
	time.Sleep(1500 * time.Millisecond) // nothing is open: nothing may be asked
	if _, n := w.trace.counts(); n != after {
		t.Errorf("%d lists with no open question", n-after)
	}
}

func TestNextWaiterLeads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start(forward, recorded(t, "two-calls-05-PermissionRequest"))
	w.thread(1)
	w.until("the first to lead", func() bool { _, n := w.trace.counts(); return n > 0 })
	b := w.start(forward, recorded(t, "two-calls-06-PermissionRequest"))
	thread := w.thread(2)
	_ = a.Process.Kill()
	<-a.done
	w.say(ann, thread, "1")
	if got := w.answers(b.end())["First call?"]; got != "a1" {
		t.Errorf("answered %q", got)
	}
}

func TestLostAnswerOfASendPostsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	handler, cut := w.chat.Handler(), 0
	w.trace.set(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || cut >= 2 {
			return false
		}
		cut++
		handler.ServeHTTP(&nowhere{}, r) // the message arrives, its answer does not
		panic(http.ErrAbortHandler)
	})
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	thread := w.thread(1)
	w.until("the send to be known", func() bool { qs := w.questions(); return len(qs) == 1 && qs[0].ThreadName == thread })
	w.say(ann, thread, "1")
	p.end()
	if n := len(w.messages("[AskUserQuestion]")); n != 1 {
		t.Errorf("posted %d times", n)
	}
}

// nowhere takes an answer that nobody gets.
type nowhere struct{ h http.Header }

func (n *nowhere) Header() http.Header {
	if n.h == nil {
		n.h = http.Header{}
	}
	return n.h
}
func (*nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (*nowhere) WriteHeader(int)             {}
