package poller

import (
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// A dry run counts for all sessions of the person, whatever their settings. A reply
// meanwhile gets a note, and is not typed when the dry run has ended.
func TestADryRunOfOtherSettingsTypesNothing(t *testing.T) {
	d := newTestMachine(t)
	socket, pane := d.startTmux("shop")
	answered := func(kind state.Kind) *state.Question {
		return d.addQuestion(func(q *state.Question) {
			d.markPosted(q)
			q.Kind, q.TmuxPane, q.TmuxSocket = kind, pane, socket
			q.Status, q.Answers, q.AnsweredMessage = state.Answered, map[string]string{"Which?": "Two"}, "m"
			q.Replies = []state.Reply{{MessageName: "m", Text: "2", CreatedAt: time.Now(), Verdict: state.VerdictUsed}}
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
	for range 2 {
		p.readAndAttend(t.Context())
		p.goroutines.Wait()
	}
	mark.Unlock()
	for range 2 {
		p.readAndAttend(t.Context())
		p.goroutines.Wait()
	}
	for q, want := range map[*state.Question]state.Status{question: state.Pending, next: state.Pending} {
		stored := d.loadQuestion(q)
		if stored.Status != want || stored.InjectionAttempted || stored.Typing != nil {
			t.Errorf("%s: %s, attempted %v, typing %+v", stored.Kind, stored.Status, stored.InjectionAttempted, stored.Typing)
		}
	}
	if stored := d.loadQuestion(question); stored.FindReply("m").Verdict != state.VerdictNoWaiter || len(stored.Answers) != 0 || stored.AnsweredMessage != "" {
		t.Errorf("the answer is kept: %+v", stored)
	}
	told := 0
	waiting, _ := state.OutboxIn(p.userStateDir).Waiting()
	for _, message := range waiting {
		if message.Note != nil && message.Note.About == state.NoteDryRun {
			told++
		}
	}
	kit.Equalf(t, told, 2, "threads are told")
}

// The same holds for a message to a session.
func TestADryRunTypesNoWords(t *testing.T) {
	x := newTestSession(t, nil)
	x.runInPane(withInputBox("● Hello."), "")
	mark, err := state.MarkDryRun(x.env)
	kit.NoError(t, err)
	x.reply(x.threadName, "", "go on")
	notes := x.readNotes()
	mark.Unlock()
	notes = append(notes, x.readNotes()...)
	if len(notes) != 1 || !strings.Contains(notes[0], "--dry-run") || len(x.waitingPrompts()) > 0 {
		t.Errorf("told %q, said %q", notes, x.waitingPrompts())
	}
}

// The marker of a process that has ended does not count.
func TestADryRunEndsWithItsProcess(t *testing.T) {
	d := newTestMachine(t)
	mark, err := state.MarkDryRun(d.env)
	if err != nil || !state.IsDryRunMarked(d.env) {
		t.Fatal("not marked", err)
	}
	mark.Unlock() // as the kernel does
	if state.IsDryRunMarked(d.env) {
		t.Error("it goes on")
	}
}
