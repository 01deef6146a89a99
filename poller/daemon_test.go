package poller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// desk is a daemon with folders of its own, and a tmux server of its own where one is asked for.
type desk struct {
	*Daemon
	t      testing.TB
	dir    string
	socket string
	clock  time.Time
	skew   atomic.Int64 // added to clock, nanoseconds
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	dir, err := os.MkdirTemp("", "t-") // short: a socket's path ends at 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &desk{t: t, dir: dir, clock: noon}
	env := map[string]string{
		"HOME": dir, "PATH": os.Getenv("PATH"), "CLAUDE_PROJECT_DIR": filepath.Join(dir, "shop"), "TMUX_TMPDIR": dir,
		"GOOGLE_CHAT_WEBHOOK_URL": "http://127.0.0.1:9/v1/spaces/S/messages?key=k&token=t",
	}
	getenv := func(name string) string { return env[name] }
	d.Daemon = &Daemon{
		Poller: &Poller{Env: getenv, Log: state.NewLog(getenv, "test"), Now: func() time.Time { return d.clock.Add(time.Duration(d.skew.Load())) }},
		tasks:  map[string]*task{}, ended: make(chan struct{}, 1),
	}
	return d
}

// sessions starts a tmux server with these sessions, a shell in each, and returns their panes.
func (d *desk) sessions(names ...string) (panes []string) {
	d.t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
			d.t.Fatal("tmux is missing")
		}
		d.t.Skip("needs tmux")
	}
	d.socket = filepath.Join(d.dir, "s")
	d.t.Cleanup(func() { _ = exec.Command("tmux", "-S", d.socket, "kill-server").Run() })
	for _, name := range names {
		panes = append(panes, d.tmux("new-session", "-d", "-P", "-F", "#{pane_id}", "-s", name, "-x", "80", "-y", "24", "sleep", "1000"))
	}
	return panes
}

func (d *desk) tmux(args ...string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "tmux", append([]string{"-S", d.socket, "-f", os.DevNull}, args...)...).CombinedOutput()
	if err != nil {
		d.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// asked writes a question down.
func (d *desk) asked(q state.Question) *state.Question {
	d.t.Helper()
	n := len(d.tasks)
	q.QuestionID, q.Status = fmt.Sprintf("%08d-0000-4000-8000-000000000000", n), "pending"
	q.SessionID, q.AskedAt, q.ThreadKey = fmt.Sprintf("s-%s-%d", q.TmuxSession, n), d.clock, state.ThreadKey(q.QuestionID)
	if q.Mode == "" {
		q.Mode = state.Inject
	}
	q.Chat, q.Space, q.ThreadName, q.MessageSent = "127.0.0.1:9/spaces/S", "spaces/S", "spaces/S/threads/T", true
	q.Questions = []state.Prompt{{Question: "Which?", Options: []state.Option{{Label: "One"}, {Label: "Two"}}, OptionCount: 2}}
	got, err := state.QuestionsIn(filepath.Join(d.dir, "shop", ".claude", "state")).Record(q.SessionID, func([]*state.Question) *state.Question { return &q })
	if err != nil {
		d.t.Fatal(err)
	}
	d.task(got.Path)
	return got
}

// answered has a question's answer claimed.
func (d *desk) answered(q *state.Question) *state.Question {
	d.t.Helper()
	q, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		q.Answers, q.AnsweredMessage = map[string]string{"Which?": "Two"}, "spaces/S/messages/M"
		return q.Move(state.Answered, d.clock)
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return q
}

func (d *desk) load(q *state.Question) *state.Question {
	d.t.Helper()
	q, err := state.LoadQuestion(q.Path)
	if err != nil {
		d.t.Fatal(err)
	}
	return q
}

// notes are what waits for the space, oldest first.
func (d *desk) notes() (texts []string) {
	waiting, _ := d.outbox().Waiting()
	for _, m := range waiting {
		texts = append(texts, m.Parts...)
	}
	return texts
}

func TestWhereAnAnswerBelongs(t *testing.T) {
	d := newDesk(t)
	panes := d.sessions("orch-epic4", "orch-epic5", "shop")
	for name, c := range map[string]struct {
		q    state.Question
		want string
		err  error
	}{
		"its pane":                   {state.Question{TmuxPane: panes[1], TmuxSession: "orch-epic4"}, panes[1], nil},
		"a pane that is closed":      {state.Question{TmuxPane: "%99", TmuxSession: "orch-epic4"}, "", errTmuxGone},
		"a session that is gone":     {state.Question{TmuxSession: "deploy"}, "", errTmuxGone},
		"never in tmux":              {state.Question{SessionName: "deploy"}, "", errNoTmux},
		"a server that is gone":      {state.Question{TmuxSocket: filepath.Join(d.dir, "x"), TmuxPane: panes[0]}, "", errTmuxGone},
		"two sessions begin so":      {state.Question{TmuxSession: "orch"}, "", errAny},
		"no Claude Code there":       {state.Question{TmuxSession: "shop"}, "", errAny},
		"by a beginning, none there": {state.Question{TmuxSession: "sho"}, "", errAny},
	} {
		if c.q.TmuxSocket == "" {
			c.q.TmuxSocket = d.socket
		}
		to, err := (&tmuxView{}).where(t.Context(), &c.q)
		switch {
		case c.err == errAny:
			if err == nil || errors.Is(err, errTmuxGone) || errors.Is(err, errNoTmux) {
				t.Errorf("%s: %v", name, err)
			}
		case !errors.Is(err, c.err) || err == nil && to.Pane != c.want:
			t.Errorf("%s: %q, %v; want %q, %v", name, to.Pane, err, c.want, c.err)
		}
	}
	d.tmux("rename-session", "-t", "=orch-epic5", "other")
	if to, err := (&tmuxView{}).where(t.Context(), &state.Question{TmuxSocket: d.socket, TmuxPane: panes[1], TmuxSession: "orch-epic5"}); err != nil || to.Pane != panes[1] {
		t.Errorf("renamed: %q, %v", to.Pane, err)
	}
}

var errAny = errors.New("an error that says why")

// A session can be missing for a moment; three cycles running is for good.
func TestAbandonedAfterThreeCycles(t *testing.T) {
	d := newDesk(t)
	d.sessions("shop")
	q := d.asked(state.Question{TmuxSocket: d.socket, TmuxSession: "epic", TmuxPane: "%7"})
	never := d.asked(state.Question{SessionName: "plain"})
	cycle := func() { d.cycle(t.Context(), d.all(), true) }
	cycle()
	cycle()
	if got := d.load(q); got.Status != state.Pending || got.TmuxMissed != 2 {
		t.Fatalf("after two cycles: %s, missed %d", got.Status, got.TmuxMissed)
	}
	for range 9 {
		d.tmux("new-session", "-d", "-s", fmt.Sprintf("x%d", len(d.tmux("list-panes", "-a"))), "sleep", "1000")
	}
	if cycle(); d.load(q).TmuxMissed != 0 {
		t.Fatal("it is back, and still counted as missing")
	}
	d.tmux("kill-pane", "-t", "%7")
	cycle()
	cycle()
	cycle()
	if got := d.load(q); got.Status != state.Abandoned {
		t.Errorf("after three cycles: %s", got.Status)
	}
	if got := d.load(never); got.Status != state.Pending {
		t.Errorf("never in tmux: %s", got.Status)
	}
	if notes := d.notes(); len(notes) != 1 || !strings.Contains(notes[0], "tmux session has ended") {
		t.Errorf("said: %q", notes)
	}
}

func (d *desk) all() []*state.Question {
	d.Dirs = []string{filepath.Join(d.dir, "shop", ".claude", "state")}
	return d.questions(d.Dirs)
}

// What changes nothing is tried again, and said once; what finds the dialog gone three times ends the question.
func TestAnswersThatCannotBeTypedYet(t *testing.T) {
	d := newDesk(t)
	q := d.answered(d.asked(state.Question{}))
	for range 5 {
		before := d.clock
		d.notTyped(d.task(q.Path), q, "somebody is typing in that pane", false)
		if next := d.task(q.Path).next; !next.After(before) || next.After(before.Add(state.DefaultPollInterval)) {
			t.Errorf("tried again after %v", next.Sub(before))
		}
		d.clock = d.clock.Add(10 * time.Second)
	}
	if notes := d.notes(); len(notes) != 1 || !strings.HasPrefix(notes[0], "[Waiting] ") || !strings.Contains(notes[0], "somebody is typing") {
		t.Errorf("said: %q", notes)
	}
	for range 3 {
		if d.load(q).Status != state.Answered {
			t.Fatal("given up too early")
		}
		d.notTyped(d.task(q.Path), q, "it is gone", true)
	}
	if got := d.load(q); got.Status != state.Cancelled || got.ResolvedBy != "screen" {
		t.Errorf("%s by %s", got.Status, got.ResolvedBy)
	}
	if notes := d.notes(); len(notes) != 2 || !strings.Contains(notes[1], "no longer on the session's screen. Your reply did not reach") {
		t.Errorf("said: %q", notes)
	}
}

func TestASpoiledAnswerIsReportedAndLeftAlone(t *testing.T) {
	d := newDesk(t)
	q := d.answered(d.asked(state.Question{}))
	d.spoiled(d.task(q.Path), q, inject.Outcome{Result: inject.Dirty, Why: "two of three rows\nare ticked"})
	if got := d.load(q); got.Status != state.Answered || got.InjectionSucceeded == nil || *got.InjectionSucceeded || got.Typing.Why != "two of three rows are ticked" {
		t.Errorf("%s, %v, %+v", got.Status, got.InjectionSucceeded, got.Typing)
	}
	if notes := d.notes(); len(notes) != 1 || !strings.HasPrefix(notes[0], "[Look] ") || !strings.Contains(notes[0], "two of three rows are ticked") {
		t.Errorf("said: %q", notes)
	}
	d.task(q.Path).next = d.clock.Add(lookAround) // as the try left it
	d.clock = d.clock.Add(time.Hour)
	if next := d.cycle(t.Context(), d.all(), false); !next.IsZero() {
		t.Errorf("looked at again at %v: the daemon would not come to rest", next)
	}
	d.typing.Wait()
	if d.task(q.Path).tries != 0 {
		t.Error("it was tried again")
	}
}

// A key that was written down and, for what the screen showed then, not sent is no interrupted answer.
func TestAnUnsentKeyIsNoInterruption(t *testing.T) {
	d := newDesk(t)
	q := d.answered(d.asked(state.Question{}))
	if err := d.typist(q.Path).Before("2", true); err != nil {
		t.Fatal(err)
	}
	if got := d.load(q).Typing; got == nil || got.Ended || got.Keys != 1 || !got.Commit {
		t.Fatalf("written down: %+v", got)
	}
	d.endTyping(d.task(q.Path), q, inject.Outcome{Result: inject.Unchanged, Why: "another dialog"}, nil)
	if got := d.load(q); !got.Typing.Ended || got.InjectionSucceeded != nil {
		t.Errorf("%+v, %v", got.Typing, got.InjectionSucceeded)
	}
	closed := d.asked(state.Question{})
	if err := d.typist(closed.Path).Before("2", true); err == nil {
		t.Error("a key for a question that has no answer")
	}
}

// BenchmarkCycle is a cycle over 200 open questions in 50 panes, besides the listing.
func BenchmarkCycle(b *testing.B) {
	d := newDesk(b)
	var names []string
	for n := range 50 {
		names = append(names, fmt.Sprintf("s%02d", n))
	}
	panes := d.sessions(names...)
	for n := range 200 {
		d.asked(state.Question{TmuxSocket: d.socket, TmuxPane: panes[n%50], TmuxSession: names[n%50]})
	}
	for b.Loop() {
		d.cycle(b.Context(), d.all(), true)
	}
}

// A space that only a session's own environment leads to is left to that session's hooks.
func TestTheDaemonReadsOnlyWhatItIsConfiguredFor(t *testing.T) {
	d := newDesk(t)
	mine := d.asked(state.Question{})
	theirs := d.asked(state.Question{})
	theirs.Chat = "chat.googleapis.com/spaces/T"
	open := d.oneOfEachChat(t.Context(), []*state.Question{mine, theirs})
	if len(open) != 1 || open[mine.Chat] != mine {
		t.Errorf("reads %v", open)
	}
}

// After kill -9 behind the key that submits, the dialog counts as answered only where the Claude Code that asked says so.
func TestAKilledTypingIsNotTakenForAnswered(t *testing.T) {
	d := newDesk(t)
	panes := d.sessions("shop")
	q := d.answered(d.asked(state.Question{TmuxSocket: d.socket, TmuxPane: panes[0], ClaudePID: os.Getpid()}))
	if err := d.typist(q.Path).Before("2", true); err != nil {
		t.Fatal(err)
	}
	d.afterKill(t.Context(), d.task(q.Path), d.load(q))
	if got := d.load(q); got.Status != state.Answered || got.InjectionSucceeded == nil || *got.InjectionSucceeded {
		t.Errorf("%s, succeeded %v", got.Status, got.InjectionSucceeded)
	}
	if notes := d.notes(); len(notes) != 1 || !strings.HasPrefix(notes[0], "[Look] ") {
		t.Errorf("said: %q", notes)
	}
}

// The words of a reply are not in the account of the keys.
func TestTheAccountOfKeysHoldsNoWords(t *testing.T) {
	d := newDesk(t)
	q := d.answered(d.asked(state.Question{}))
	if err := d.typist(q.Path).Before("text: my secret", false); err != nil {
		t.Fatal(err)
	}
	if got := d.load(q).Typing.Last; got != "text" {
		t.Errorf("%q", got)
	}
}

// A question's own project decides where it is posted, also when the daemon posts it.
func TestTheDaemonPostsWhereTheProjectSays(t *testing.T) {
	d := newDesk(t)
	project := filepath.Join(d.dir, "other")
	if err := os.MkdirAll(filepath.Join(project, ".claude"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(d.dir, ".claude.json"), allTrusted)
	config := `{"webhook_url": "http://127.0.0.1:9/v1/spaces/PROJECTS/messages?key=k&token=t"}`
	if err := os.WriteFile(filepath.Join(project, ".claude", "gchat-hooks.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	q := d.asked(state.Question{ProjectDir: project})
	if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error { q.MessageSent, q.Chat, q.Space = false, "", ""; return nil }); err != nil {
		t.Fatal(err)
	}
	_, err := d.Post(t.Context(), q.Path, false) // nobody listens there
	if got := d.load(q); err == nil || got.Chat != "127.0.0.1:9/spaces/PROJECTS" {
		t.Errorf("posted to %q, %v", got.Chat, err)
	}
}

// A reply put there by hand may not be written to its end.
func TestAReplyByHandIsLeftToBeFinished(t *testing.T) {
	d := newDesk(t)
	q := d.asked(state.Question{SessionName: "orch"})
	folder := filepath.Join(d.dir, "shop", ".claude", "state", "user-input-queue")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "orch.txt")
	if err := os.WriteFile(path, []byte("other: this is"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.clock = time.Now()
	if soon := d.takeByHand(q); !soon || len(d.load(q).Replies) != 0 {
		t.Errorf("taken at once: %v, %+v", soon, d.load(q).Replies)
	}
	d.clock = d.clock.Add(time.Second)
	if soon := d.takeByHand(q); soon || len(d.load(q).Replies) != 1 {
		t.Errorf("not taken: %v, %+v", soon, d.load(q).Replies)
	}
}

// A hook that is just starting is not taken the question away from.
func TestTheDaemonLeavesAYoungQuestionToItsHook(t *testing.T) {
	d := newDesk(t)
	q := d.asked(state.Question{Mode: state.Native, TmuxPane: "%1"})
	if next := d.attend(t.Context(), q, &tmuxView{}, true); !next.Equal(q.AskedAt.Add(graceForHook)) {
		t.Errorf("looked at again at %v", next)
	}
	for name, q := range map[string]*state.Question{
		"printed": {Mode: state.Inject, Printed: true, Questions: q.Questions}, "without questions": {Mode: state.Inject},
		"hold": {Mode: state.Hold, Questions: q.Questions}, "deny": {Mode: state.Deny, Questions: q.Questions},
		"native, outside tmux": {Mode: state.Native, Questions: q.Questions},
	} {
		if typable(q) {
			t.Errorf("%s: the daemon would type", name)
		}
	}
}

func TestSweptAlsoWhileSomethingWaits(t *testing.T) {
	d := newDesk(t)
	d.clock = noon.Add(-25 * time.Hour)
	old := d.asked(state.Question{})
	d.clock = noon
	d.put(note(d.asked(state.Question{}), "undeliverable", "x"))
	d.Dirs = []string{filepath.Join(d.dir, "shop", ".claude", "state")}
	ctx, cancel := context.WithCancel(t.Context())
	done := d.goSafely("flush", func() { d.FlushSteadily(ctx, nil) })
	for end := time.Now().Add(20 * time.Second); d.load(old).Status != state.Expired && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		d.skew.Add(int64(time.Second))
	}
	cancel()
	<-done
	if got := d.load(old).Status; got != state.Expired {
		t.Errorf("a question of yesterday is %s", got)
	}
}

// However many questions are open, a cycle lists the space once.
func TestOneListForAllQuestions(t *testing.T) {
	var lists atomic.Int64
	chat := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			lists.Add(1)
		}
		fmt.Fprint(w, "{}")
	}))
	defer chat.Close()
	d := newDesk(t)
	d.clock = time.Now()
	base := d.Env
	d.Poller.Env = func(name string) string {
		if name == "GOOGLE_CHAT_WEBHOOK_URL" {
			return chat.URL + "/v1/spaces/S/messages?key=k&token=t"
		}
		return base(name)
	}
	for n := range 200 {
		q := d.asked(state.Question{SessionName: fmt.Sprintf("s%d", n)})
		if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
			q.Chat, q.ProjectDir = strings.TrimPrefix(chat.URL, "http://")+"/spaces/S", filepath.Join(d.dir, "shop")
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := lists.Load(); n != 1 {
		t.Errorf("%d lists, want 1", n)
	}
}
