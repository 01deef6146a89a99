package poller

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// The same holds for a message to a session.
func TestTypePrompt_DryRunTypesNothing(t *testing.T) {
	x := newTestSession(t, nil)
	x.runInPane(withInputBox("● Hello."), "")
	mark, err := state.MarkDryRun(x.env)
	kit.NoError(t, err)
	notes := x.say("go on")
	mark.Unlock()
	notes = append(notes, x.readNotes()...)
	kit.True(t, len(notes) == 1 && strings.Contains(notes[0], "--dry-run") &&
		len(x.waitingPrompts()) == 0,
		"notes %q, prompts %q", notes, x.waitingPrompts())
}

// Claude began to work between the look at the screen and the key. The prompt is in
// Claude Code's queue, and no hook reports it (2.1.197).
func TestTypePrompt_FindsQueuedText(t *testing.T) {
	x := newTestSession(t, nil)
	tr := filepath.Join(x.dir, "t.jsonl")
	at := time.Now().Add(-11 * time.Second).UTC()
	line := fmt.Sprintf(
		`{"type":"queue-operation","operation":"enqueue","timestamp":%q,"content":"go on"}`,
		at.Add(time.Second).Format(time.RFC3339Nano))
	_ = os.WriteFile(tr, []byte(line+"\n"), 0o600)
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.TranscriptPath, s.TmuxPane, s.TmuxSocket = tr, "%1", "/nonexistent"
	})
	x.say("go on")
	inbox := x.inbox()
	in := inbox.WaitingPrompts(x.sessionID)[0]
	_, err := inbox.Update(in.ID, func(in *state.Incoming) error {
		in.Typing = &state.Typing{LastKeyAt: at, LastKey: "text", IsSubmit: true, KeyCount: 1}
		return nil
	})
	kit.NoError(t, err)
	x.poller.typeKeptPrompt(t.Context(), x.loadSession(), &nextPrompt{
		incoming: in, tries: x.poller.promptTriesOf(in),
	})
	left := inbox.WaitingPrompts(x.sessionID)
	kit.True(t, len(left) == 0,
		"it stands to be typed again: tries %d", x.poller.promptTriesOf(in).failed)
}

// The transcript has a queue line with the same text, written 0.5 s before the prompt
// was typed. It counts as proof for the prompt.
func TestTypePrompt_EarlierLineIsNoProof(t *testing.T) {
	tr := filepath.Join(t.TempDir(), "t.jsonl")
	typing := time.Now().Truncate(time.Second).Add(900 * time.Millisecond).UTC()
	line := fmt.Sprintf(
		`{"type":"queue-operation","operation":"enqueue","timestamp":%q,"content":"go on"}`,
		typing.Add(-500*time.Millisecond).Format(time.RFC3339Nano))
	_ = os.WriteFile(tr, []byte(line+"\n"), 0o600)
	kit.True(t, !inject.TranscriptHasPrompt(tr, "go on", typing, true),
		"an earlier one is the proof")
}

// A message that is kept for two minutes gets a second note, which says what a person
// can do. It gets no third, also not from another poller.
func TestTypePrompt_SecondNoteAfterTwoMinutes(t *testing.T) {
	for name, c := range map[string]struct {
		screen, does string
	}{
		"a draft": {
			strings.Replace(withInputBox("● Hello."), "❯ \r", "❯ half a thought\r", 1),
			"Clear that box (Ctrl-U), or send its text (Enter)",
		},
		"a shell": {"$ ", "/screen shows the terminal."},
		"out of tmux": {
			"", "gets it when its turn ends. If Claude is idle, type any prompt in the terminal",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTestSession(t, nil)
			if c.screen != "" {
				x.runInPane(c.screen, "")
			}
			notes := x.notesWhilePromptWaits(20, 20*time.Second)
			later := x.nextPoller()
			later.poller.Now = x.poller.Now
			notes = append(notes, later.readNotes()...)
			kit.True(t, len(notes) == 2 && strings.HasPrefix(notes[0], "[Kept]") &&
				strings.HasPrefix(notes[1], "[Kept] Claude does not have your message yet") &&
				strings.Contains(notes[1], c.does) && !strings.Contains(notes[1], "half a thought"),
				"notes %q", notes)
		})
	}
}

// notesWhilePromptWaits writes "go on" to the session and returns the notes of so many
// steps of the poller. Its clock goes on by interval with each.
func (x *testSession) notesWhilePromptWaits(steps int, interval time.Duration) (notes []string) {
	now := time.Now()
	x.poller.Now = func() time.Time { return now }
	x.reply(x.threadName, "", "go on")
	for range steps {
		notes = append(notes, x.readNotes()...)
		now = now.Add(interval)
	}
	return notes
}

// While Claude waits for the end of a usage limit, messages are kept, and a note says
// until when. They are typed when it is over.
func TestTypePrompt_WaitsForUsageLimit(t *testing.T) {
	t.Parallel()
	const limit = "  Continuing automatically at 12:47pm · Esc to cancel"
	for name, screen := range map[string]string{
		"above the box": withInputBox("❯ go ahead", "", "● You've hit your session limit", "",
			limit),
		"below the box": withInputBox("❯ go ahead", "", "● You've hit your session limit") +
			"\r\n" + limit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTestSession(t, nil)
			got := x.runInPane(screen, "")
			notes := x.notesWhilePromptWaits(5, 5*time.Second)
			const want = "[Kept] The usage limit is reached, and Claude goes on at 12:47pm; " +
				"your message is typed then."
			kit.True(t, len(notes) == 1 && notes[0] == want && got() == "",
				"notes %q, keys %q", notes, got())
		})
	}
	x := newTestSession(t, func(s *state.Session) { // a hook read it, and the screen does not show it
		s.UsageLimitUntil = time.Now().Add(time.Hour)
	})
	got := x.runInPane(withInputBox("❯ go ahead"), "")
	notes := x.notesWhilePromptWaits(5, 5*time.Second)
	kit.True(t, len(notes) == 1 && got() == "" &&
		strings.HasPrefix(notes[0], "[Kept] The usage limit is reached until "),
		"notes %q, keys %q", notes, got())
	x = newTestSession(t, nil) // the older lines about it do not count
	got = x.runInPane(withInputBox(limit, "❯ go ahead", "", "● Done.", "", "", "", ""), "")
	x.reply(x.threadName, "", "go on")
	bound.Until(t, "the prompt is typed", func() bool {
		x.readNotes()
		return strings.Contains(got(), "go on")
	})
}

// Claude Code may put an interrupted prompt back into its box long after the /stop. The
// box is emptied for the next prompt if it holds what we typed, to the last character,
// and no person was at the keyboard since.
func TestTypePrompt_AfterPutBackText(t *testing.T) {
	t.Parallel()
	const first, second = "publish it", "rather not ⚠️ 👍🏽"
	for name, c := range map[string]struct {
		draft    string
		attached bool
		isOurs   bool
	}{
		"what was typed last":       {second, false, true},
		"as the terminal draws it":  {"rather not ⚠  👍", false, true},
		"what was typed before":     {first, false, true},
		"both, the second too late": {first + second, false, true},
		"the other way round":       {second + first, false, false},
		"and a person's words":      {first + " tomorrow", false, false},
		"and a person's blank":      {"publish  it", false, false},
		"a person's words":          {"go ahead", false, false},
		"a person at the keyboard":  {first, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTestSession(t, nil)
			empty := withInputBox("● Hello.")
			keys := x.runInPane(strings.Replace(empty, "❯ \r", "❯ "+c.draft+"\r", 1), empty)
			at := time.Now().Add(-time.Minute).UTC()
			x.changeSession(x.sessionID, func(s *state.Session) {
				s.LastTyped = s.LastTyped.Then(first, at).Then(second, at.Add(time.Second))
			})
			if c.attached {
				x.attachPerson()
			}
			if !c.isOurs {
				notes := x.notesWhilePromptWaits(5, 5*time.Second)
				kit.True(t, len(notes) == 1 && strings.HasPrefix(notes[0], "[Kept]") && keys() == "",
					"notes %q, keys %q", notes, keys())
				return
			}
			x.reply(x.threadName, "", "go on")
			bound.Until(t, "the box is emptied and the prompt typed", func() bool {
				x.readNotes()
				_, after, isEmptied := strings.Cut(keys(), "\x15")
				return isEmptied && strings.Contains(after, "go on")
			})
			typed := x.loadSession().LastTyped
			kit.True(t, typed.Text == "go on" && typed.Before.Text == second &&
				typed.Before.Before == nil, "typed: %+v", typed)
		})
	}
}

// A person's draft comes between the look at the box and the key. Nothing was typed, and
// what was typed before may still be put back.
func TestTypePrompt_RefusedIsNotTyped(t *testing.T) {
	x := newTestSession(t, nil)
	x.markTyped("publish it", time.Now().Add(-time.Minute))
	x.runInPane(strings.Replace(withInputBox("● Hello."), "❯ \r", "❯ half a thought\r", 1), "")
	x.reply(x.threadName, "", "go on")
	x.readNotes()
	in := x.inbox().WaitingPrompts(x.sessionID)[0]
	prompt := &nextPrompt{
		incoming: in, session: x.loadSession(), question: in.AsQuestion(x.loadSession()),
		tries: x.poller.promptTriesOf(in),
	}
	x.poller.typePromptNow(t.Context(), prompt, x.loadSession(), "go on", "text")
	kit.Equal(t, x.loadSession().LastTyped.Text, "publish it")
}
