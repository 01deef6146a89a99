package poller

import (
	"strings"
	"testing"
	"time"

	"gchat-hooks/state"
)

// A dry run is one for all sessions of the person, whatever their settings. What was replied meanwhile is told, and is not typed when
// it has ended.
func TestADryRunOfOtherSettingsTypesNothing(t *testing.T) {
	d := newDesk(t)
	socket, pane := d.tmux("shop")
	answered := func(kind state.Kind) *state.Question {
		return d.ask(func(q *state.Question) {
			d.posted(q)
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
	if err != nil {
		t.Fatal(err)
	}
	p := d.poller()
	for range 2 {
		p.round(t.Context())
		p.working.Wait()
	}
	mark.Unlock()
	for range 2 {
		p.round(t.Context())
		p.working.Wait()
	}
	for q, want := range map[*state.Question]state.Status{question: state.Pending, next: state.Pending} {
		is := d.load(q)
		if is.Status != want || is.InjectionAttempted || is.Typing != nil {
			t.Errorf("%s: %s, attempted %v, typing %+v", is.Kind, is.Status, is.InjectionAttempted, is.Typing)
		}
	}
	if is := d.load(question); is.FindReply("m").Verdict != state.VerdictNoWaiter || len(is.Answers) != 0 || is.AnsweredMessage != "" {
		t.Errorf("the answer is kept: %+v", is)
	}
	told := 0
	waiting, _ := state.OutboxIn(p.user).Waiting()
	for _, m := range waiting {
		if m.Note != nil && m.Note.About == state.NoteDryRun {
			told++
		}
	}
	if told != 2 {
		t.Errorf("%d threads are told", told)
	}
}

// So it is with words for a session.
func TestADryRunTypesNoWords(t *testing.T) {
	x := newTalk(t, nil)
	x.inPane(boxed("● Hello."), "")
	mark, err := state.MarkDryRun(x.env)
	if err != nil {
		t.Fatal(err)
	}
	x.reply(x.thread, "", "go on")
	told := x.hears()
	mark.Unlock()
	told = append(told, x.hears()...)
	if len(told) != 1 || !strings.Contains(told[0], "--dry-run") || len(x.said()) > 0 {
		t.Errorf("told %q, said %q", told, x.said())
	}
}

// The marker of a process that has ended counts for nothing.
func TestADryRunEndsWithItsProcess(t *testing.T) {
	d := newDesk(t)
	mark, err := state.MarkDryRun(d.env)
	if err != nil || !state.IsDryRunMarked(d.env) {
		t.Fatal("not marked", err)
	}
	mark.Unlock() // as the kernel does
	if state.IsDryRunMarked(d.env) {
		t.Error("it goes on")
	}
}
