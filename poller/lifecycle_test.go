package poller

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

func TestLifecycle_ClosesWhatIsOver(t *testing.T) {
	ago := func(d time.Duration) *time.Time { at := time.Now().Add(-d); return &at }
	printed := func(d time.Duration) func(*state.Question) {
		return func(q *state.Question) {
			q.Status, q.Answers, q.IsPrinted, q.PrintedAt =
				state.Answered, map[string]string{"Which?": "Two"}, true, ago(d)
		}
	}
	for name, c := range map[string]struct {
		as     func(*state.Question)
		status state.Status
		by     string
		owed   string
	}{
		"young": {nil, state.Pending, "", ""},
		"a day old": {
			func(q *state.Question) { q.AskedAt = *ago(25 * time.Hour) }, state.Expired, "age",
			state.NoteClosed,
		},
		"Claude Code has ended": {
			func(q *state.Question) { q.ClaudePID = 1 << 30 }, state.Cancelled, "claude_gone",
			state.NoteClosed,
		},
		"it has ended with its answer": {
			func(q *state.Question) { printed(time.Second)(q); q.ClaudePID = 1 << 30 },
			state.Resolved, "chat", state.NoteClosed,
		},
		"it has ended, in deny mode": {
			func(q *state.Question) { q.Mode, q.ClaudePID = state.ModeDeny, 1<<30 }, state.Pending,
			"", "",
		},
		"it is not to be seen": {
			func(q *state.Question) { q.ClaudePID, q.ClaudeStart = 1<<30, "1@elsewhere" },
			state.Pending, "", "",
		},
		"it lives": {
			func(q *state.Question) {
				q.ClaudePID, q.ClaudeStart = os.Getpid(), inject.ProcessStart(os.Getpid())
			},
			state.Pending, "", "",
		},
		"deny mode, its time not up": {
			func(q *state.Question) { q.Mode, q.TimesOutAt = state.ModeDeny, ago(-time.Minute) },
			state.Pending, "", "",
		},
		"its time up, space unread": {
			func(q *state.Question) { q.Mode, q.TimesOutAt = state.ModeDeny, ago(time.Minute) },
			state.Pending, "", "",
		},
		"up for long, and unread": {
			func(q *state.Question) { q.Mode, q.TimesOutAt = state.ModeDeny, ago(time.Hour) },
			state.TimedOut, "timeout", state.NoteClosed,
		},
		"its time up, never posted": {func(q *state.Question) {
			q.Mode, q.TimesOutAt, q.IsMessageSent = state.ModeDeny, ago(time.Minute), false
		}, state.TimedOut, "timeout", state.NoteClosed},
		"printed just now":      {printed(time.Second), state.Answered, "", ""},
		"printed, and not seen": {printed(time.Minute), state.Answered, "", state.NoteSent},
		"a wait whose process is gone": {
			func(q *state.Question) { q.Mode, q.AskedAt = state.ModeThread, *ago(time.Minute) },
			state.Cancelled, "signal", state.NoteClosed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestMachine(t)
			q := d.addPosted(func(q *state.Question) {
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
			kit.True(t, stored.Status == c.status && stored.ResolvedBy == c.by && owed == c.owed,
				"%s by %q, owes %q; want %s by %q, %q", stored.Status, stored.ResolvedBy, owed,
				c.status, c.by, c.owed)
			p.enqueueOwedNotes(record)
			stored = d.loadQuestion(q)
			kit.True(t, stored.Mode != state.ModeThread || len(stored.OwedNotes) == 0,
				"a wait owes %+v", stored.OwedNotes)
		})
	}
}

// A question in native mode is posted once its hook waits, or graceForPost after it was
// asked: with the preset send, no hook ever waits. In the other modes it is posted at
// once.
func TestLifecycle_WhenQuestionIsPosted(t *testing.T) {
	for name, c := range map[string]struct {
		mode   state.Mode
		age    time.Duration
		waiter bool
		want   bool
	}{
		"native, no hook yet":    {state.ModeNative, graceForPost / 2, false, false},
		"native, its hook waits": {state.ModeNative, 0, true, true},
		"native, no hook came":   {state.ModeNative, graceForPost, false, true},
		"hold":                   {state.ModeHold, 0, false, true},
		"deny":                   {state.ModeDeny, 0, false, true},
		"inject":                 {state.ModeInject, 0, false, true},
		"a wait":                 {state.ModeThread, 0, false, false},
	} {
		d := newTestMachine(t)
		q := d.addQuestion(func(q *state.Question) {
			q.Mode, q.AskedAt = c.mode, time.Now().Add(-c.age)
		})
		if c.waiter {
			d.startWaiter(q)
		}
		p, record := d.readFirst()
		retryAt := p.attendRecord(t.Context(), record, false)
		kit.Equalf(t, record.isEnqueued, c.want, "%s: enqueued", name)
		isHeldBack := c.mode == state.ModeNative && !c.want
		kit.Equalf(t, retryAt.IsZero(), !isHeldBack, "%s: not looked at again", name)
		kit.True(t, !isHeldBack || retryAt.Before(q.AskedAt.Add(graceForPost+time.Second)),
			"%s: again at %s", name, retryAt)
	}
}

// addResolved adds a question that was answered in Chat.
func (d *testMachine) addResolved() *state.Question {
	return d.addPosted(func(q *state.Question) {
		q.Status, q.ResolvedBy = state.Resolved, "chat"
	})
}

// A closed question stays in the index for a day, without most of its contents, for
// replies that come late. Then its file is removed.
func TestLifecycle_KeepsClosedForADay(t *testing.T) {
	d := newTestMachine(t)
	q := d.addResolved()
	p := d.newPoller()
	p.readAndAttend(t.Context())
	record := p.ownOldestFirst()[0]
	kit.Must(t, record.isDone && record.question.SubQuestions == nil &&
		record.lockedQuestion == nil,
		"it is not over")
	// a PostToolUse hook corrects the thread's note
	d.changeQuestion(q, func(q *state.Question) { q.OweNote(state.NoteClosed, "") })
	p.loadQuestion(record)
	kit.True(t, !record.isDone && len(record.question.OwedNotes) == 1, "a later change is not seen")
	p.readAndAttend(t.Context())
	kit.True(t, slices.Equal(d.noteKinds(q), []string{state.NoteClosed}),
		"notes %q", d.noteKinds(q))
	d.changeQuestion(q, func(q *state.Question) { q.AskedAt = time.Now().Add(-25 * time.Hour) })
	p.loadQuestion(record)
	p.readAndAttend(t.Context())
	p.sweep()
	_, err := os.Lstat(q.Path)
	kit.True(t, errors.Is(err, fs.ErrNotExist), "its file: %v", err)
	all, _ := state.IndexEntries(d.env)
	kit.True(t, len(all) == 0, "%d in the index", len(all))
}

// A file that is older than a day is removed in the first step without an open question.
// The documents promise that for each cycle.
func TestLifecycle_RemovesOldFile(t *testing.T) {
	d := newTestMachine(t)
	q := d.addResolved()
	p := d.newPoller()
	p.sender = p.newSender()
	p.step(t.Context()) // it sweeps all
	_, err := os.Lstat(q.Path)
	kit.NoError(t, err)
	p.Now = shifted(state.MaxQuestionAge + time.Minute)
	p.lastSweepAt = p.Now()
	p.step(t.Context())
	_, err = os.Lstat(q.Path)
	kit.True(t, errors.Is(err, fs.ErrNotExist), "its file is there: %v", err)
}

// A question in deny mode stays open after its Claude Code ends, and records that the
// session has ended. So does one that timed out, as long as a reply counts.
func TestLifecycle_DeniedRecordsSessionEnd(t *testing.T) {
	for _, status := range []state.Status{state.Pending, state.TimedOut} {
		d := newTestMachine(t)
		q := d.addPosted(func(q *state.Question) {
			q.Mode, q.Status, q.ClaudePID, q.ClaudeStart = state.ModeDeny, status, 1<<30, "1"
		})
		d.newPoller().readAndAttend(t.Context())
		stored := d.loadQuestion(q)
		kit.True(t, stored.Status == status && stored.SessionEndedAt != nil,
			"%s: %s, ended %v", status, stored.Status, stored.SessionEndedAt)
	}
}

// A reply to a session that has just ended gets its note at once, before the next round.
func TestLifecycle_DeadSessionGetsNoteAtOnce(t *testing.T) {
	d := newTestMachine(t)
	q := d.addPosted(func(q *state.Question) {
		q.Mode, q.ClaudePID, q.AskedAt = state.ModeNative, 1<<30, time.Now().Add(-time.Second)
		q.Replies = []state.Reply{
			{MessageName: "m", Sender: "users/1", Text: "2", CreatedAt: time.Now()},
		}
	})
	p := d.newPoller()
	p.lastRoundAt = time.Now() // a round was just now
	p.readState()
	p.attendAll(t.Context(), p.loadOwnConfig())
	stored := d.loadQuestion(q)
	kit.True(t, stored.ResolvedBy == "claude_gone" &&
		stored.FindReply("m").Verdict == state.VerdictLate,
		"%s by %q, reply %+v", stored.Status, stored.ResolvedBy, stored.Replies)
}

// Each reminder is sent once, and after a night without a poller only the last one.
func TestLifecycle_RemindersAreSentOnce(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(func(q *state.Question) {
		q.Mode, q.AskedAt = state.ModeNative, time.Now().Add(-20*time.Minute)
		d.markPosted(q)
		q.RemindAfter = []time.Duration{15 * time.Minute, time.Hour}
	})
	p, record := d.readFirst()
	p.awakeSince = q.AskedAt // this poller was awake all the time
	for _, step := range []struct {
		at   time.Duration
		down int // failures of the space: failed sends do not add up
		owes int
		seen string
	}{
		{0, 0, 1, "15 minutes"},
		{0, 0, 1, "15 minutes"},
		{time.Hour, 1, 1, "15 minutes"},
		{time.Hour, 0, 2, "60 minutes"},
		{9 * time.Hour, 0, 2, "60 minutes"},
	} {
		p.Now = shifted(step.at)
		_, err := d.spaces().Change(q.Chat, func(s *state.Space) {
			s.Failures = step.down
		})
		kit.NoError(t, err)
		if record.question.RemindersSent < len(record.question.RemindAfter) {
			p.oweReminder(record)
		}
		n := len(record.question.OwedNotes)
		kit.True(t, n == step.owes && record.question.OwedNotes[n-1].Text == step.seen,
			"after %s: %+v", step.at, record.question.OwedNotes)
	}
}

// A person deleted the thread of a question in Chat, and Chat begins another one for its
// reminder. A reply there is the answer.
func TestLifecycle_ReminderInNewThread(t *testing.T) {
	t.Parallel()
	d := newTestMachine(t)
	q := d.addPosted(func(q *state.Question) {
		q.RemindAfter = []time.Duration{time.Millisecond}
	})
	former := q.ThreadName // there is none in the space
	d.runPoller(Options{})
	bound.Until(t, "the reminder is in the space", func() bool {
		return len(d.space.Messages()) == 1
	})
	d.reply(d.space.Messages()[0].Thread.Name, space.PersonName, "2")
	stored := d.awaitQuestion(q, "the reply counts", isAnsweredWith("Two"))
	kit.True(t, stored.ThreadName != former && slices.Equal(stored.FormerThreads, []string{former}),
		"it is in %s, formerly in %q", stored.ThreadName, stored.FormerThreads)
}

// What killed processes left is swept, and so is an old question that no index names.
func TestLifecycle_SweepsLeftovers(t *testing.T) {
	d := newTestMachine(t)
	q := d.addQuestion(nil)
	lost := d.writeQuestion(func(q *state.Question) { q.SessionID = "lost" })
	dir, old := filepath.Dir(q.Path), time.Now().Add(-26*time.Hour)
	user := state.UserStateDir(d.env)
	var gone, kept []string
	folders := []string{
		dir, filepath.Dir(dir), filepath.Join(user, "open"), filepath.Join(user, "spaces"),
	}
	for _, folder := range folders {
		for name, paths := range map[string]*[]string{
			".new-1234": &gone, ".other": &kept, "notes.txt": &kept, ".renovaterc.json5": &kept,
		} {
			path := filepath.Join(folder, name)
			kit.WriteFile(t, path, "{}", 0o600)
			*paths = append(*paths, path)
		}
	}
	foreign := filepath.Join(dir, "foreign.json")
	kit.WriteFile(t, foreign, `{"question_id": "x", "status": "pending"}`, 0o600)
	gone, kept = append(gone, lost.Path), append(kept, foreign, q.Path)
	for _, path := range append(slices.Clone(gone), kept...) {
		kit.NoError(t, os.Chtimes(path, old, old))
	}
	p := d.newReadyPoller()
	p.sweep()
	for _, path := range gone {
		_, err := os.Lstat(path)
		kit.True(t, err != nil, "%s is there", path)
	}
	for _, path := range kept {
		_, err := os.Lstat(path)
		kit.True(t, err == nil, "%s is gone: %v", path, err)
	}
}

// A person answered some questions before Claude Code continued without the rest. Those
// answers go to Claude as a prompt when the person says so.
func TestLifecycle_ForwardsUnsentAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		sender, text string
		listens      bool
		prompts      []string
		note         string
	}{
		"send": {
			"", "Send.", true, []string{`You asked "Which?". The answer: Two. but why?`},
			state.NoteSendUnsent,
		},
		"another text":  {"", "hello", true, nil, state.NoteLate},
		"a stranger":    {"users/9", "send", true, nil, state.NoteRefused},
		"it takes none": {"", "send", false, nil, state.NoteLate},
	} {
		x := newTestSession(t, nil)
		q := x.addPosted(func(q *state.Question) {
			q.SessionID, q.ClaudeSessionID, q.Mode, q.Status, q.ResolvedBy =
				x.sessionID, x.sessionID, state.ModeNative, state.Cancelled, state.EndedAway
			q.ResolvedAt, q.AcceptsPrompts, q.AwayAfter = new(time.Now()), c.listens, time.Minute
			q.SubQuestions = append(q.SubQuestions, state.SubQuestion{Question: "When?"})
			q.PartialAnswers = map[int]state.Answer{0: {Labels: []string{"Two"}, Notes: "but why?"}}
		})
		m := x.testMachine.startThread(q)
		for range 2 {
			x.reply(m.Thread.Name, c.sender, c.text)
			x.readNotes()
			x.readNotes()
		}
		got := x.waitingPrompts()
		kit.True(t, slices.Equal(got, c.prompts), "%s: prompts %q, want %q", name, got, c.prompts)
		notes := x.noteKinds(q)
		kit.True(t, slices.Contains(notes, c.note) &&
			slices.Contains(notes, state.NoteSendUnsent) == (c.prompts != nil),
			"%s: notes %q", name, notes)
	}
}

// Answers that did not reach Claude go to it as a prompt, even if the question lies in
// the folder of prompts because its project cannot be written to.
func TestLifecycle_ForwardsFromSpareFolder(t *testing.T) {
	x := newTestSession(t, nil)
	dir := x.spareFolder()
	x.changeSession(x.sessionID, func(s *state.Session) { s.StateDir = dir })
	q, err := state.QuestionsIn(dir).Record(x.sessionID, func([]*state.Question) *state.Question {
		return &state.Question{
			QuestionID: "00000000-away", Mode: state.ModeNative, Status: state.Cancelled,
			ResolvedBy: state.EndedAway,
			AskedAt:    time.Now(), ResolvedAt: new(time.Now()), SessionID: x.sessionID,
			ClaudeSessionID: x.sessionID,
			ThreadKey:       "session-" + x.sessionID, AcceptsPrompts: true,
			Chat:           x.loadSession().Chat,
			ThreadName:     x.threadName,
			SubQuestions:   []state.SubQuestion{{Question: "Which?"}, {Question: "When?"}},
			PartialAnswers: map[int]state.Answer{0: {Labels: []string{"Two"}}},
			Replies: []state.Reply{{
				MessageName: "spaces/local/messages/send", Sender: "users/1", Text: "send",
				Verdict: state.VerdictUsed, CreatedAt: time.Now(),
			}},
		}
	})
	kit.NoError(t, err)
	kit.NoError(t, x.poller.forwardUnsentAnswers(q, "spaces/local/messages/send"))
	for range 2 {
		x.readNotes()
	}
	got := x.waitingPrompts()
	kit.True(t, len(got) == 1, "prompts %q, left %d", got, x.countUnfinished())
}
