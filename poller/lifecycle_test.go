package poller

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
)

func TestWhatIsOverIsClosed(t *testing.T) {
	ago := func(d time.Duration) *time.Time { at := time.Now().Add(-d); return &at }
	printed := func(d time.Duration) func(*state.Question) {
		return func(q *state.Question) {
			q.Status, q.Answers, q.IsPrinted, q.PrintedAt = state.Answered, map[string]string{"Which?": "Two"}, true, ago(d)
		}
	}
	for name, c := range map[string]struct {
		as     func(*state.Question)
		status state.Status
		by     string
		owed   string
	}{
		"young":                        {nil, state.Pending, "", ""},
		"a day old":                    {func(q *state.Question) { q.AskedAt = *ago(25 * time.Hour) }, state.Expired, "age", state.NoteClosed},
		"Claude Code has ended":        {func(q *state.Question) { q.ClaudePID = 1 << 30 }, state.Cancelled, "claude_gone", state.NoteClosed},
		"it has ended with its answer": {func(q *state.Question) { printed(time.Second)(q); q.ClaudePID = 1 << 30 }, state.Resolved, "chat", state.NoteClosed},
		"it has ended, in deny mode":   {func(q *state.Question) { q.Mode, q.ClaudePID = state.ModeDeny, 1<<30 }, state.Pending, "", ""},
		"it is not to be seen":         {func(q *state.Question) { q.ClaudePID, q.ClaudeStart = 1<<30, "1@elsewhere" }, state.Pending, "", ""},
		"it lives":                     {func(q *state.Question) { q.ClaudePID, q.ClaudeStart = os.Getpid(), inject.ProcessStart(os.Getpid()) }, state.Pending, "", ""},
		"deny mode, its time not up":   {func(q *state.Question) { q.Mode, q.TimesOutAt = state.ModeDeny, ago(-time.Minute) }, state.Pending, "", ""},
		"its time up, space unread":    {func(q *state.Question) { q.Mode, q.TimesOutAt = state.ModeDeny, ago(time.Minute) }, state.Pending, "", ""},
		"up for long, and unread":      {func(q *state.Question) { q.Mode, q.TimesOutAt = state.ModeDeny, ago(time.Hour) }, state.TimedOut, "timeout", state.NoteClosed},
		"its time up, never posted": {func(q *state.Question) {
			q.Mode, q.TimesOutAt, q.IsMessageSent = state.ModeDeny, ago(time.Minute), false
		}, state.TimedOut, "timeout", state.NoteClosed},
		"printed just now":             {printed(time.Second), state.Answered, "", ""},
		"printed, and not seen":        {printed(time.Minute), state.Answered, "", state.NoteSent},
		"a wait whose process is gone": {func(q *state.Question) { q.Mode, q.AskedAt = state.ModeThread, *ago(time.Minute) }, state.Cancelled, "signal", state.NoteClosed},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestMachine(t)
			q := d.addQuestion(func(q *state.Question) {
				d.markPosted(q)
				if q.Mode = state.ModeNative; c.as != nil {
					c.as(q)
				}
			})
			p := d.newPoller()
			p.awakeSince = time.Now().Add(-2 * time.Hour)
			p.readIndex()
			record := p.ownOldestFirst()[0]
			for range 2 {
				p.closeExpired(record, true)
				p.handleClaudeEnd(record)
			}
			stored := d.loadQuestion(q)
			owed := ""
			for _, one := range stored.OwedNotes {
				owed += one.About
			}
			if stored.Status != c.status || stored.ResolvedBy != c.by || owed != c.owed {
				t.Errorf("%s by %q, owes %q; want %s by %q, %q", stored.Status, stored.ResolvedBy, owed, c.status, c.by, c.owed)
			}
			p.enqueueOwedNotes(record)
			if stored = d.loadQuestion(q); len(stored.OwedNotes) != 0 && stored.Mode == state.ModeThread {
				t.Errorf("a wait owes %+v", stored.OwedNotes)
			}
		})
	}
}

// When the time for a reply is up, the poller reads the space once more: the reply may
// have come while no poller ran.
func TestAReplyInTimeCountsAlsoWhenItIsReadLate(t *testing.T) {
	d := newTestMachine(t)
	late := func(q *state.Question) {
		d.markPosted(q)
		up := time.Now().Add(-time.Second)
		q.Mode, q.TimesOutAt, q.TimeoutPolicy = state.ModeDeny, &up, state.TimeoutRecommended
	}
	replied, silent := d.addQuestion(late), d.addQuestion(late)
	m := d.startThread(replied)
	d.runPoller(Options{})
	if stored := d.awaitQuestion(replied, "answered", func(q *state.Question) bool { return q.Status != state.Pending }); stored.AnsweredMessage != m.Name {
		t.Errorf("%s by %s", stored.Status, stored.ResolvedBy)
	}
	if stored := d.awaitQuestion(silent, "timed out", func(q *state.Question) bool { return q.Status != state.Pending }); stored.ResolvedBy != "policy" || stored.Answers["Which?"] != "One" {
		t.Errorf("%s by %s: %v", stored.Status, stored.ResolvedBy, stored.Answers)
	}
}

func TestTheTimeoutPolicyChooses(t *testing.T) {
	prompts := []state.SubQuestion{
		{Question: "A?", Options: []state.Option{{Label: "x"}, {Label: "y (Recommended)"}}},
		{Question: "B?", Options: []state.Option{{Label: "z"}, {Label: "w"}}},
	}
	for name, c := range map[string]struct {
		policy state.TimeoutPolicy
		unread bool
		want   string
	}{
		"recommended":          {state.TimeoutRecommended, false, "y (Recommended)/w"},
		"there may be a reply": {state.TimeoutRecommended, true, "/"},
		"another policy":       {state.TimeoutAskTerminal, false, "/"},
	} {
		q := &state.Question{Mode: state.ModeDeny, SubQuestions: prompts, TimeoutPolicy: c.policy, PartialAnswers: map[int]state.Answer{1: {Labels: []string{"w"}}}}
		judge.ApplyTimeoutPolicy(q, c.unread)
		if got := q.Answers["A?"] + "/" + q.Answers["B?"]; got != c.want || (q.ResolvedBy == "policy") != (c.want != "/") {
			t.Errorf("%s: %q by %q", name, got, q.ResolvedBy)
		}
	}
}

// A question in native mode is posted once its hook waits, or graceForPost after it was
// asked. In the other modes it is posted at once.
func TestWhenAQuestionIsPosted(t *testing.T) {
	for name, c := range map[string]struct {
		mode   state.Mode
		age    time.Duration
		waiter bool
		want   bool
	}{
		"native, no hook yet": {state.ModeNative, 0, false, false}, "native, its hook waits": {state.ModeNative, 0, true, true},
		"native, no hook came": {state.ModeNative, 6 * time.Second, false, true}, "hold": {state.ModeHold, 0, false, true},
		"deny": {state.ModeDeny, 0, false, true}, "inject": {state.ModeInject, 0, false, true}, "a wait": {state.ModeThread, 0, false, false},
	} {
		d := newTestMachine(t)
		q := d.addQuestion(func(q *state.Question) { q.Mode, q.AskedAt = c.mode, time.Now().Add(-c.age) })
		if c.waiter {
			l, err := state.LockWaiter(d.env, q.Path)
			kit.NoError(t, err)
			defer l.Unlock()
		}
		p := d.newPoller()
		p.readIndex()
		record := p.ownOldestFirst()[0]
		if retryAt := p.attendRecord(t.Context(), record, false); record.isEnqueued != c.want || retryAt.IsZero() == (c.mode == state.ModeNative && !c.want) {
			t.Errorf("%s: put %v, again %v", name, record.isEnqueued, retryAt)
		}
	}
}

// Releasing the lock of an index entry wakes the processes that wait for the record. The
// poller does that with every step that they may wait for. It takes the lock once more
// while there may be another step.
func TestTheLockOfAnOpenQuestion(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(func(q *state.Question) { d.markPosted(q); q.Mode = state.ModeDeny })
	p := d.newPoller()
	held := func(want bool, what string) {
		t.Helper()
		p.readAndAttend(t.Context())
		kit.Equalf(t, state.IsLocked(state.IndexFile(d.env, q.Path)), want, "%s: held", what)
	}
	held(true, "pending")
	d.changeQuestion(q, func(q *state.Question) {
		q.Replies = append(q.Replies, state.Reply{MessageName: "m", Sender: "users/9", Text: "1", CreatedAt: time.Now()})
	})
	held(false, "a reply was judged")
	for _, record := range p.ownRecords {
		record.relockAt = time.Time{}
	}
	held(true, "and it waits again")
	if _, err := state.CloseQuestion(q.Path, state.Cancelled, "stop", nil); err != nil {
		t.Fatal(err)
	}
	held(false, "closed")
	held(false, "closed for good")
}

// A suspended process may hold the lock for long. The loop tries once more after a tenth
// of a second, and then at growing intervals.
func TestALockThatIsHeldIsTriedEverMoreSeldom(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(d.markPosted)
	lock, err := state.TryLock(state.IndexFile(d.env, q.Path))
	kit.NoError(t, err)
	p, now := d.newPoller(), time.Now()
	p.Now = func() time.Time { return now }
	p.readIndex()
	record := p.ownOldestFirst()[0]
	var pauses []time.Duration
	for range 7 {
		retryAt := p.holdEntryLock(record)
		pauses = append(pauses, retryAt.Sub(now)/time.Millisecond)
		now = retryAt
	}
	if want := []time.Duration{100, 200, 400, 800, 1600, 2000, 2000}; !slices.Equal(pauses, want) {
		t.Errorf("pauses %d, want %d", pauses, want)
	}
	lock.Unlock()
	if retryAt := p.holdEntryLock(record); !retryAt.IsZero() || record.entryLock == nil {
		t.Error("it is not taken when it is free")
	}
}

// A closed question stays in the index for a day, without most of its contents, for
// replies that come late. Then its file is removed.
func TestWhatIsOverIsKeptSmallForADay(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(func(q *state.Question) { d.markPosted(q); q.Status, q.ResolvedBy = state.Resolved, "chat" })
	p := d.newPoller()
	p.readAndAttend(t.Context())
	record := p.ownOldestFirst()[0]
	if !record.isDone || record.question.SubQuestions != nil || record.lockedQuestion != nil {
		t.Fatal("it is not over")
	}
	// a PostToolUse hook corrects what the thread was told
	d.changeQuestion(q, func(q *state.Question) { q.OweNote(state.NoteClosed, "") })
	p.loadQuestion(record)
	if record.isDone || len(record.question.OwedNotes) != 1 {
		t.Error("a later change is not seen")
	}
	p.readAndAttend(t.Context())
	if !slices.Equal(d.noteKinds(q), []string{state.NoteClosed}) {
		t.Errorf("notes %q", d.noteKinds(q))
	}
	d.changeQuestion(q, func(q *state.Question) { q.AskedAt = time.Now().Add(-25 * time.Hour) })
	p.loadQuestion(record)
	p.readAndAttend(t.Context())
	p.sweep()
	if _, err := os.Lstat(q.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its file: %v", err)
	}
	if all, _ := state.IndexEntries(d.env); len(all) != 0 {
		t.Errorf("%d in the index", len(all))
	}
}

// A file that is older than a day is removed in the first step without an open question.
// The documents promise that for each cycle.
func TestAnOldFileGoesWithTheNextStep(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(func(q *state.Question) { d.markPosted(q); q.Status, q.ResolvedBy = state.Resolved, "chat" })
	p := d.newPoller()
	p.sender = p.newSender()
	p.step(t.Context()) // it sweeps all
	if _, err := os.Lstat(q.Path); err != nil {
		t.Fatal(err)
	}
	p.Now = func() time.Time { return time.Now().Add(state.MaxQuestionAge + time.Minute) }
	p.lastSweepAt = p.Now()
	p.step(t.Context())
	if _, err := os.Lstat(q.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its file is there: %v", err)
	}
}

// A record whose file is gone is removed from the index, and the processes that wait for
// it continue.
func TestARecordThatIsGoneIsForgotten(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(nil)
	p := d.newPoller()
	p.readAndAttend(t.Context())
	kit.NoError(t, os.Remove(q.Path))
	p.readAndAttend(t.Context())
	if all, _ := state.IndexEntries(d.env); len(all) != 0 || len(p.ownRecords) != 0 {
		t.Errorf("%d in the index, %d served", len(all), len(p.ownRecords))
	}
}

// A record of another environment whose file is missing may belong to another machine
// with this HOME and other projects. It is removed from the index only once its question
// is too old in any case.
func TestARecordOfAnotherMachineIsNotForgotten(t *testing.T) {
	d := newTestMachine(t)
	d.vars["GCHAT_FORMAT"] = "another environment"
	q := d.addQuestion(func(q *state.Question) { d.markPosted(q); q.Status = state.Answered })
	delete(d.vars, "GCHAT_FORMAT")
	kit.NoError(t, os.Remove(q.Path))
	p := d.newPoller()
	for _, later := range []struct {
		by   time.Duration
		want int
	}{{0, 1}, {state.MaxQuestionAge, 1}, {state.MaxQuestionAge + otherEnvironmentGrace + time.Minute, 0}} {
		p.Now = func() time.Time { return time.Now().Add(later.by) }
		p.readAndAttend(t.Context())
		p.sweep()
		if all, _ := state.IndexEntries(d.env); len(all) != later.want {
			t.Errorf("%d in the index after %s, want %d", len(all), later.by, later.want)
		}
	}
}

// startTmux starts a tmux server for the test, with a session. It returns its socket and
// the pane.
func (d *testMachine) startTmux(session string) (socket, pane string) {
	d.t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
			d.t.Fatal("tmux is missing")
		}
		d.t.Skip("needs tmux")
	}
	dir, err := os.MkdirTemp("", "t-") // short: a socket's path ends at 107 bytes
	kit.NoError(d.t, err)
	socket = filepath.Join(dir, "s")
	d.t.Cleanup(func() {
		_ = bound.Command(d.t, "tmux", "-S", socket, "kill-server").Run()
		os.RemoveAll(dir)
	})
	begin := []string{"-S", socket, "-f", os.DevNull, "new-session", "-d", "-P", "-F", "#{pane_id}", "-s", session, "sleep", "1000"}
	out, err := bound.Command(d.t, "tmux", begin...).CombinedOutput()
	if err != nil {
		d.t.Fatalf("tmux: %v: %s", err, out)
	}
	return socket, strings.TrimSpace(string(out))
}

// A tmux session that is missing for three rounds in a row counts as gone. The index
// names the pane, whatever the question's file says.
func TestAbandonedAfterThreeRounds(t *testing.T) {
	d := newTestMachine(t)
	socket, pane := d.startTmux("shop")
	q := d.addQuestion(func(q *state.Question) { d.markPosted(q); q.TmuxPane, q.TmuxSocket = pane, socket })
	// a checkout's
	d.changeQuestion(q, func(q *state.Question) { q.TmuxPane, q.TmuxSocket = "%99", "/nowhere" })
	p := d.newPoller()
	round := func() *state.Question {
		p.readAndAttend(t.Context())
		p.goroutines.Wait()
		return d.loadQuestion(q)
	}
	for range 5 {
		if stored := round(); stored.PaneMissedCycles != 0 || stored.Status != state.Pending {
			t.Fatalf("%s, missed %d", stored.Status, stored.PaneMissedCycles)
		}
	}
	_ = bound.Command(t, "tmux", "-S", socket, "kill-server").Run()
	stored := round()
	for n := 0; n < 10 && stored.Status == state.Pending; n++ {
		stored = round()
	}
	if stored.Status != state.Abandoned || stored.PaneMissedCycles != maxMissedRounds {
		t.Errorf("%s, missed %d", stored.Status, stored.PaneMissedCycles)
	}
}

// One call of --once is one of those rounds.
func TestOnceCountsOneRound(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(func(q *state.Question) {
		d.markPosted(q)
		q.TmuxPane, q.TmuxSocket = "%1", filepath.Join(d.dir, "none")
	})
	for n := 1; n <= maxMissedRounds; n++ {
		o := Options{Env: d.env, Log: state.NewLog(d.env, "test"), Daemon: true, Once: true}
		kit.NoError(t, Run(t.Context(), o))
		if stored := d.loadQuestion(q); stored.PaneMissedCycles != n || stored.Status.IsOpen() != (n < maxMissedRounds) {
			t.Errorf("after %d: %s, missed %d", n, stored.Status, stored.PaneMissedCycles)
		}
	}
}

// A question in deny mode stays open after its Claude Code ends, and records that the
// session has ended. So does one that timed out, as long as a reply counts.
func TestADeniedQuestionNotesTheEndOfItsSession(t *testing.T) {
	for _, status := range []state.Status{state.Pending, state.TimedOut} {
		d := newTestMachine(t)
		q := d.addQuestion(func(q *state.Question) {
			d.markPosted(q)
			q.Mode, q.Status, q.ClaudePID, q.ClaudeStart = state.ModeDeny, status, 1<<30, "1"
		})
		d.newPoller().readAndAttend(t.Context())
		if stored := d.loadQuestion(q); stored.Status != status || stored.SessionEndedAt == nil {
			t.Errorf("%s: %s, ended %v", status, stored.Status, stored.SessionEndedAt)
		}
	}
}

// A daemon without any configuration says what to do and ends: a restart would change
// nothing.
func TestADaemonWithoutConfigurationEnds(t *testing.T) {
	d := newTestMachine(t)
	d.vars["GOOGLE_CHAT_WEBHOOK_URL"] = ""
	err := Run(t.Context(), Options{Env: d.env, Log: state.NewLog(d.env, "test"), Daemon: true})
	if user := (*state.UserError)(nil); !errors.As(err, &user) || user.Hint == "" {
		t.Errorf("%v", err)
	}
	d.addQuestion(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, Options{Env: d.env, Log: state.NewLog(d.env, "test"), Daemon: true}); err != nil {
		t.Errorf("with a question: %v", err)
	}
}

// An answer that cannot be typed yet is tried once more. After the third try the thread
// gets a note.
func TestAnAnswerThatCannotBeTypedYet(t *testing.T) {
	d := newTestMachine(t)
	socket, pane := d.startTmux("shop")
	q := d.addQuestion(func(q *state.Question) {
		d.markPosted(q)
		q.Mode, q.TmuxPane, q.TmuxSocket, q.AskedAt = state.ModeNative, pane, socket, time.Now().Add(-time.Minute)
		q.Status, q.Answers, q.AnsweredMessage = state.Answered, map[string]string{"Which?": "Two"}, "m"
	})
	p := d.newPoller()
	p.readIndex()
	record := p.ownOldestFirst()[0]
	for range triesBeforeNote + 1 {
		record.tries.nextAt = time.Time{}
		p.startTyping(t.Context(), record)
		p.goroutines.Wait()
	}
	stored := d.loadQuestion(q)
	if stored.Status != state.Answered || stored.InjectionAttempted || len(stored.OwedNotes) != 1 || stored.OwedNotes[0].About != state.NoteNotTyped {
		t.Errorf("%s, attempted %v, owes %+v", stored.Status, stored.InjectionAttempted, stored.OwedNotes)
	}
	l, err := state.LockWaiter(d.env, q.Path)
	kit.NoError(t, err)
	defer l.Unlock()
	record.tries.nextAt = time.Time{}
	if p.startTyping(t.Context(), record); record.isTyping.Load() {
		t.Error("it is typed beside a hook that waits")
	}
}

// A question that ends while its answer is being typed gets only the note about its end.
func TestATryThatOutlivesItsQuestionIsNotToldOf(t *testing.T) {
	for name, tell := range map[string]func(*Poller, *trackedRecord){
		"nothing typed": func(p *Poller, record *trackedRecord) {
			for range triesBeforeNote {
				p.handleNotTyped(record, record.question, "the terminal shows an empty input box", false)
			}
		},
		"typed in part": func(p *Poller, record *trackedRecord) {
			p.leaveToPerson(record.question, inject.Outcome{Result: inject.Dirty, Why: "a key had no effect"})
		},
	} {
		d := newTestMachine(t)
		q := d.addQuestion(func(q *state.Question) {
			d.markPosted(q)
			q.Mode, q.Status, q.AnsweredMessage = state.ModeInject, state.Answered, "m"
		})
		p := d.newPoller()
		p.readIndex()
		record := p.ownOldestFirst()[0]
		if _, err := state.CloseQuestion(q.Path, state.Resolved, "terminal", nil); err != nil {
			t.Fatal(err)
		}
		tell(p, record)
		if owes := d.loadQuestion(q).OwedNotes; len(owes) != 1 || owes[0].About != state.NoteClosed {
			t.Errorf("%s: owes %+v", name, owes)
		}
	}
}

// After a poller was killed while it typed, no key is typed twice, and a note asks a
// person to look.
func TestAKilledTypingIsNotTakenForAnswered(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(func(q *state.Question) {
		d.markPosted(q)
		q.Status, q.Answers, q.AnsweredMessage = state.Answered, map[string]string{"Which?": "Two"}, "m"
		q.Typing = &state.Typing{LastKeyAt: time.Now(), KeyCount: 1, LastKey: "2"}
		q.TmuxPane, q.TmuxSocket = "%0", "/nowhere/s"
	})
	p := d.newPoller()
	p.readIndex()
	record := p.ownOldestFirst()[0]
	p.leaveToPerson(record.question, inject.Outcome{Result: inject.Dirty, Why: "the poller was stopped while it typed your answer"})
	stored := d.loadQuestion(q)
	if stored.Status != state.Answered || !needsPerson(stored) || stored.Typing.Result != "dirty" || len(stored.OwedNotes) != 1 {
		t.Errorf("%s, %+v, owes %+v", stored.Status, stored.Typing, stored.OwedNotes)
	}
	p.readIndex()
	if p.startTyping(t.Context(), record); record.isTyping.Load() {
		t.Error("it is typed again")
	}
}

// A session's name picks that session's question, even a closed one. It never picks a
// question of another session whose id begins in the same way.
func TestPickQuestion(t *testing.T) {
	d := newTestMachine(t)
	for _, q := range []state.Question{
		{QuestionID: "77770000-0000-4000-8000-000000000000", SessionID: "one", SessionName: "1", Status: state.Resolved, ThreadKey: "ask-user-77770000"},
		{QuestionID: "1abc0000-0000-4000-8000-000000000000", SessionID: "bill", SessionName: "billing", Status: state.Pending, ThreadKey: "ask-user-1abc0000"},
		{QuestionID: "1fff0000-0000-4000-8000-000000000000", SessionID: "2222", SessionName: "shop", Status: state.Pending, ThreadKey: "ask-2222-1fff0000"},
		{QuestionID: "1abc5555-0000-4000-8000-000000000000", SessionID: "gone", SessionName: "1fff", Status: state.Cancelled, ThreadKey: "ask-user-1abc5555"},
	} {
		d.addQuestion(func(to *state.Question) { q.AskedAt = noon; *to = q })
	}
	for by, want := range map[string]string{
		"1": "one", "1fff": "gone", // a session's name, and the beginning of another's id
		"billing": "bill", "2222": "2222", "ask-user-1abc0000": "bill", "ask-user-1abc5555": "gone", "ask-2222-1fff0000": "2222",
		"1abc": "", "ask-user-1abc": "", "ask-user": "", "ask-2222": "", "a": "", "": "",
	} {
		q, err := state.PickQuestion(d.env, by)
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "no open question \""+by+"\"") {
				t.Errorf("%q is %v, %v", by, q, err)
			}
		} else if err != nil || q.SessionID != want {
			t.Errorf("%q is %v, %v; want the one of session %s", by, q, err, want)
		}
	}
}

// A summary that failed is not tried in every step.
func TestAnOwedSummaryIsTriedOnce(t *testing.T) {
	d := newTestMachine(t)
	p := d.newPoller()
	if _, err := state.SessionsIn(state.UserStateDir(d.env)).Change("s", func(s *state.Session) {
		s.Name, s.Environment, s.SummaryOwedFor = "shop", state.Environment(d.env), time.Now().UTC()
	}); err != nil {
		t.Fatal(err)
	}
	said := 0
	p.EnqueueSummary = func(context.Context, state.Getenv, *state.Session) error {
		said++
		return errors.New("not now")
	}
	for range 2 {
		p.readAndAttend(t.Context())
		p.goroutines.Wait()
	}
	kit.Equalf(t, said, 1, "it was tried")
}

// A daemon sees the very first session, even if the daemon started before it.
func TestTheFirstSessionIsSeen(t *testing.T) {
	d := newTestMachine(t)
	asked := make(chan bool, 1)
	d.runPoller(Options{Daemon: true, EnqueueSummary: func(_ context.Context, env state.Getenv, session *state.Session) error {
		asked <- true
		_, err := state.SessionsIn(state.UserStateDir(env)).Change(session.ID, func(s *state.Session) {
			s.SummaryOwedFor = time.Time{}
		})
		return err
	}})
	bound.Until(t, "its first step is done", func() bool { return state.ReadHeartbeat(d.env, state.Environment(d.env)).PID != 0 })
	if _, err := state.SessionsIn(state.UserStateDir(d.env)).Change("s", func(s *state.Session) {
		s.Name, s.Environment, s.SummaryOwedFor = "shop", state.Environment(d.env), time.Now().UTC()
	}); err != nil {
		t.Fatal(err)
	}
	state.CallPoller(d.env, state.Environment(d.env))
	select {
	case <-asked:
	case <-time.After(5 * time.Second):
		t.Error("its summary is not asked for")
	}
}

// startClaudeStatus writes Claude Code's own session file, which says what the session
// waits for. This process stands in for Claude Code.
func (d *testMachine) startClaudeStatus(session string) (says func(status string)) {
	d.t.Helper()
	config := filepath.Join(d.dir, "claude")
	transcript := filepath.Join(config, "projects", "p", "s.jsonl")
	if _, err := state.SessionsIn(state.UserStateDir(d.env)).Change(session, func(s *state.Session) {
		s.TranscriptPath = transcript
	}); err != nil {
		d.t.Fatal(err)
	}
	return func(status string) {
		file := filepath.Join(config, "sessions", fmt.Sprint(os.Getpid())+".json")
		kit.NoError(d.t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(status), 0o600)))
	}
}

// Claude Code says that a dialog of its session waits, but not which one. It never means
// a hidden dialog. It means the dialog of a subagent in the foreground only where no
// other is open.
func TestOneDialogsEndClosesNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		as     func(*state.Question)
		beside bool
		want   state.Status
	}{
		"the session's own":                    {nil, false, state.Resolved},
		"the session's own, with an agent's":   {nil, true, state.Resolved},
		"hidden":                               {func(q *state.Question) { q.AgentID, q.IsDialogHidden = "a1", true }, false, state.Pending},
		"handed over":                          {func(q *state.Question) { q.AgentID, q.IsDialogHidden = "a1", true; q.HandOver(time.Now()) }, false, state.Pending},
		"of an agent in front":                 {func(q *state.Question) { q.AgentID = "a1" }, false, state.Resolved},
		"of an agent in front, with another's": {func(q *state.Question) { q.AgentID = "a1" }, true, state.Pending},
	} {
		d := newTestMachine(t)
		as := func(q *state.Question) {
			q.Mode, q.Kind, q.ClaudePID, q.SessionID = state.ModeNative, state.KindPermission, os.Getpid(), "s"
		}
		q := d.addQuestion(func(q *state.Question) {
			if as(q); c.as != nil {
				c.as(q)
			}
		})
		if c.beside {
			d.addQuestion(func(q *state.Question) { as(q); q.AgentID = "a2" })
		}
		says, p := d.startClaudeStatus("s"), d.newPoller()
		p.readIndex()
		record := p.ownOldestFirst()[0]
		for _, status := range []string{`{"status":"waiting"}`, `{"status":"busy"}`, `{"status":"busy"}`} {
			says(status)
			p.handleDialogEnd(record)
		}
		if stored := d.loadQuestion(q); stored.Status != c.want {
			t.Errorf("%s: %s by %q, want %s", name, stored.Status, stored.ResolvedBy, c.want)
		}
	}
}

// After Esc the session stops waiting a moment before the hook runs that closes the
// permission as dismissed. So the dialog's end counts as an answer only if the question
// is still open a round later.
func TestADialogsEndIsAnAnswerARoundLater(t *testing.T) {
	d := newTestMachine(t)
	pid := os.Getpid()
	q := d.addQuestion(func(q *state.Question) { q.Mode, q.Kind, q.ClaudePID = state.ModeNative, state.KindPermission, pid })
	says, p := d.startClaudeStatus(q.SessionID), d.newPoller()
	p.readIndex()
	record := p.ownOldestFirst()[0]
	for i, step := range []struct {
		status string
		want   state.Status
	}{
		{`{"status":"busy"}`, state.Pending}, {`{"status":"waiting","sessionId":"` + q.SessionID + `"}`, state.Pending},
		// Another container's, with the same HOME and the same pid in it.
		{`{"status":"busy","sessionId":"another"}`, state.Pending}, {`{"status":"busy","sessionId":"another"}`, state.Pending},
		{`{"status":"busy"}`, state.Pending}, {`{"status":"busy"}`, state.Resolved},
	} {
		says(step.status)
		p.handleDialogEnd(record)
		if stored := d.loadQuestion(q); stored.Status != step.want {
			t.Errorf("step %d, %s: %s, want %s", i, step.status, stored.Status, step.want)
		}
	}
}

// With the preset send no hook ever waits for a question. It is in its space within two
// seconds all the same.
func TestAQuestionThatNoHookWaitsForIsPosted(t *testing.T) {
	for age, posted := range map[time.Duration]bool{time.Second: false, 1600 * time.Millisecond: true} {
		d := newTestMachine(t)
		d.addQuestion(func(q *state.Question) { q.Mode, q.AskedAt = state.ModeNative, time.Now().Add(-age).UTC() })
		p := d.newPoller()
		p.readIndex()
		record := p.ownOldestFirst()[0]
		if retryAt := p.enqueueWhenDue(t.Context(), record); record.isEnqueued != posted || !posted && time.Until(retryAt) > 250*time.Millisecond {
			t.Errorf("%v after its asking: put %v, again at %v", age, record.isEnqueued, retryAt)
		}
	}
}

// A reply to a session that has just ended gets its note at once, before the next round.
func TestAReplyToADeadSessionIsToldAtOnce(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(func(q *state.Question) {
		d.markPosted(q)
		q.Mode, q.ClaudePID, q.AskedAt = state.ModeNative, 1<<30, time.Now().Add(-time.Second)
		q.Replies = []state.Reply{{MessageName: "m", Sender: "users/1", Text: "2", CreatedAt: time.Now()}}
	})
	p := d.newPoller()
	p.lastRoundAt = time.Now() // a round was just now
	p.readState()
	p.attendAll(t.Context(), p.loadOwnConfig())
	if stored := d.loadQuestion(q); stored.ResolvedBy != "claude_gone" || stored.FindReply("m").Verdict != state.VerdictLate {
		t.Errorf("%s by %q, reply %+v", stored.Status, stored.ResolvedBy, stored.Replies)
	}
}
