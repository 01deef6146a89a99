package poller

import (
	"path/filepath"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// A tmux session that is missing for three rounds in a row counts as gone. The index
// names the pane, whatever the question's file says.
func TestTypeAnswer_AbandonedAfterThreeRounds(t *testing.T) {
	d := newTestMachine(t)
	socket, pane := d.startTmux("shop")
	q := d.addPosted(func(q *state.Question) {
		q.TmuxPane, q.TmuxSocket = pane, socket
	})
	// a checkout's
	d.changeQuestion(q, func(q *state.Question) { q.TmuxPane, q.TmuxSocket = "%99", "/nowhere" })
	p := d.newPoller()
	round := func() *state.Question {
		d.runSteps(p, 1)
		return d.loadQuestion(q)
	}
	for range 5 {
		stored := round()
		kit.Must(t, stored.PaneMissedCycles == 0 && stored.Status == state.Pending,
			"%s, missed %d", stored.Status, stored.PaneMissedCycles)
	}
	runTmux(t, socket, "kill-server")
	stored := round()
	for n := 0; n < 10 && stored.Status == state.Pending; n++ {
		stored = round()
	}
	kit.True(t, stored.Status == state.Abandoned && stored.PaneMissedCycles == maxMissedRounds,
		"%s, missed %d", stored.Status, stored.PaneMissedCycles)
}

// One call of --once is one of those rounds.
func TestTypeAnswer_OnceCountsOneRound(t *testing.T) {
	d := newTestMachine(t)
	q := d.addPosted(func(q *state.Question) {
		q.TmuxPane, q.TmuxSocket = "%1", filepath.Join(d.dir, "none")
	})
	for n := 1; n <= maxMissedRounds; n++ {
		kit.NoError(t, d.run(Options{Daemon: true, Once: true}))
		stored := d.loadQuestion(q)
		kit.True(t, stored.PaneMissedCycles == n && stored.Status.IsOpen() == (n < maxMissedRounds),
			"after %d: %s, missed %d", n, stored.Status, stored.PaneMissedCycles)
	}
}

// An answer that cannot be typed yet is tried once more. After the third try the thread
// gets a note.
func TestTypeAnswer_RetriesThenWritesNote(t *testing.T) {
	d := newTestMachine(t)
	socket, pane := d.startTmux("shop")
	q := d.addPosted(func(q *state.Question) {
		q.Mode, q.TmuxPane, q.TmuxSocket, q.AskedAt =
			state.ModeNative, pane, socket, time.Now().Add(-time.Minute)
		q.Status, q.Answers, q.AnsweredMessage =
			state.Answered, map[string]string{"Which?": "Two"}, "m"
	})
	p, record := d.readFirst()
	for range triesBeforeNote + 1 {
		record.tries.nextAt = time.Time{}
		p.startTyping(t.Context(), record)
		p.goroutines.Wait()
	}
	stored := d.loadQuestion(q)
	kit.True(t, stored.Status == state.Answered && !stored.InjectionAttempted &&
		len(stored.OwedNotes) == 1 && stored.OwedNotes[0].About == state.NoteNotTyped,
		"%s, attempted %v, owes %+v", stored.Status, stored.InjectionAttempted, stored.OwedNotes)
	d.startWaiter(q)
	record.tries.nextAt = time.Time{}
	p.startTyping(t.Context(), record)
	kit.True(t, !record.isTyping.Load(), "it is typed beside a hook that waits")
}

// A question that ends while its answer is being typed gets only the note about its end.
func TestTypeAnswer_EndedQuestionGetsNoNote(t *testing.T) {
	for name, tell := range map[string]func(*Poller, *trackedRecord){
		"nothing typed": func(p *Poller, record *trackedRecord) {
			for range triesBeforeNote {
				p.handleNotTyped(record, record.question, "the terminal shows an empty input box",
					false)
			}
		},
		"typed in part": func(p *Poller, record *trackedRecord) {
			p.leaveToPerson(record.question, inject.Outcome{
				Result: inject.Dirty, Why: "a key had no effect",
			})
		},
	} {
		d := newTestMachine(t)
		q := d.addPosted(func(q *state.Question) {
			q.Mode, q.Status, q.AnsweredMessage = state.ModeInject, state.Answered, "m"
		})
		p, record := d.readFirst()
		d.closeQuestion(q, state.Resolved, "terminal")
		tell(p, record)
		owes := d.loadQuestion(q).OwedNotes
		kit.True(t, len(owes) == 1 && owes[0].About == state.NoteClosed, "%s: owes %+v", name, owes)
	}
}

// After a poller was killed while it typed, no key is typed twice, and a note asks a
// person to look.
func TestTypeAnswer_KilledTypingNeedsPerson(t *testing.T) {
	d := newTestMachine(t)
	q := d.addPosted(func(q *state.Question) {
		q.Status, q.Answers, q.AnsweredMessage =
			state.Answered, map[string]string{"Which?": "Two"}, "m"
		q.Typing = &state.Typing{LastKeyAt: time.Now(), KeyCount: 1, LastKey: "2"}
		q.TmuxPane, q.TmuxSocket = "%0", "/nowhere/s"
	})
	p, record := d.readFirst()
	p.leaveToPerson(record.question, inject.Outcome{
		Result: inject.Dirty, Why: "the poller was stopped while it typed your answer",
	})
	stored := d.loadQuestion(q)
	kit.True(t, stored.Status == state.Answered && needsPerson(stored) &&
		stored.Typing.Result == "dirty" && len(stored.OwedNotes) == 1,
		"%s, %+v, owes %+v", stored.Status, stored.Typing, stored.OwedNotes)
	p.readIndex()
	p.startTyping(t.Context(), record)
	kit.True(t, !record.isTyping.Load(), "it is typed again")
}

// A dry run counts for all sessions of the person, whatever their settings. A reply
// meanwhile gets a note, and is not typed when the dry run has ended.
func TestTypeAnswer_DryRunTypesNothing(t *testing.T) {
	d := newTestMachine(t)
	socket, pane := d.startTmux("shop")
	answered := func(kind state.Kind) *state.Question {
		return d.addPosted(func(q *state.Question) {
			q.Kind, q.TmuxPane, q.TmuxSocket = kind, pane, socket
			q.Status, q.Answers, q.AnsweredMessage =
				state.Answered, map[string]string{"Which?": "Two"}, "m"
			q.Replies = []state.Reply{
				{MessageName: "m", Text: "2", CreatedAt: time.Now(), Verdict: state.VerdictUsed},
			}
		})
	}
	question, next := answered(state.KindQuestion), answered(state.KindNext)
	other := func(name string) string {
		if name == "ANTHROPIC_API_KEY" {
			return "another"
		}
		return d.env(name)
	}
	mark, err := state.MarkDryRun(other)
	kit.NoError(t, err)
	p := d.newPoller()
	d.runSteps(p, 2)
	mark.Unlock()
	d.runSteps(p, 2)
	for _, q := range []*state.Question{question, next} {
		stored := d.loadQuestion(q)
		kit.True(t, stored.Status == state.Pending && !stored.InjectionAttempted &&
			stored.Typing == nil,
			"%s: %s, attempted %v, typing %+v", stored.Kind, stored.Status,
			stored.InjectionAttempted, stored.Typing)
	}
	stored := d.loadQuestion(question)
	kit.True(t, stored.FindReply("m").Verdict == state.VerdictNoWaiter &&
		len(stored.Answers) == 0 && stored.AnsweredMessage == "",
		"the answer is kept: %+v", stored)
	notes := 0
	waiting, _ := state.OutboxIn(p.userStateDir).Waiting()
	for _, message := range waiting {
		if message.Note != nil && message.Note.About == state.NoteDryRun {
			notes++
		}
	}
	kit.Equalf(t, notes, 2, "notes")
}

// The marker of a process that has ended does not count.
func TestTypeAnswer_DryRunEndsWithProcess(t *testing.T) {
	d := newTestMachine(t)
	mark, err := state.MarkDryRun(d.env)
	kit.Must(t, err == nil && state.IsDryRunMarked(d.env), "not marked %v", err)
	mark.Unlock() // as the kernel does
	kit.True(t, !state.IsDryRunMarked(d.env), "it goes on")
}
