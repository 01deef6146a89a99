package poller

import (
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// markTyped saves a prompt as typed into the session's terminal.
func (x *testSession) markTyped(words string, at time.Time) {
	x.t.Helper()
	x.changeSession(x.sessionID, func(s *state.Session) { s.LastTyped = &state.TypedPrompt{Text: words, TypedAt: at.UTC()} })
}

// After a /stop before Claude's first output, Claude Code puts the prompt back into its
// box. The poller presses a key there only if the box holds what it typed, to the last
// character, and no person was at the keyboard since.
func TestAStopLeavesAPersonsTextInTheBox(t *testing.T) {
	draft := func(text string) string {
		return strings.Replace(withInputBox("❯ hello", "", "● Hello.", ""), "❯ \r", "❯ "+text+"\r", 1)
	}
	const spinner = "✻ Working… (3s)"
	for name, c := range map[string]struct {
		typed, stands string
		attached      bool
	}{
		"typed in the terminal":    {"", "go ahead", false},
		"another text":             {"go ahead", "go ahead!", false},
		"another blank":            {"go ahead", "go  ahead", false},
		"typed before":             {"hello", "go ahead", false},
		"a person at the keyboard": {"go ahead", "go ahead", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTestSession(t, nil)
			got := x.runInPane(withInputBox("❯ go ahead", "", spinner), draft(c.stands))
			if c.typed != "" {
				x.markTyped(c.typed, time.Now().Add(-time.Minute))
			}
			if c.attached {
				x.attachPerson()
			}
			x.checkAnswer("/stop", `[Stopped] the work on "go ahead"`, "The input box of the terminal holds a text. To have messages")
			kit.Equalf(t, got(), "\x1b", "keys")
		})
	}
}

// attachPerson attaches a person's terminal to the session's pane.
func (x *testSession) attachPerson() {
	x.t.Helper()
	socket, pane := x.startTmux("person")
	at := inject.Server{Socket: x.loadSession().TmuxSocket}
	look := "unset TMUX; exec tmux -u -S " + at.Socket + " attach"
	if out, err := bound.Command(x.t, "tmux", "-S", socket, "respawn-pane", "-k", "-t", pane, look).CombinedOutput(); err != nil {
		x.t.Fatalf("tmux: %v: %s", err, out)
	}
	bound.Until(x.t, "a person is attached", func() bool {
		last, err := at.LastTyped(x.t.Context(), x.loadSession().TmuxPane)
		return err == nil && !last.IsZero()
	})
}

// A message that is kept for two minutes gets a second note, which says what a person
// can do. It gets no third, also not from another poller.
func TestWhatIsKeptForLongIsSaidOnceMore(t *testing.T) {
	for name, c := range map[string]struct {
		screen, does string
	}{
		"a draft":     {strings.Replace(withInputBox("● Hello."), "❯ \r", "❯ half a thought\r", 1), "empty the box there (Ctrl-U), or send its text (Enter)"},
		"a shell":     {"$ ", "/screen shows the terminal."},
		"out of tmux": {"", "gets it when its turn ends. If Claude is idle, type any prompt in the terminal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTestSession(t, nil)
			if c.screen != "" {
				x.runInPane(c.screen, "")
			}
			now := time.Now()
			x.poller.Now = func() time.Time { return now }
			x.reply(x.threadName, "", "go on")
			var notes []string
			for range 20 {
				notes = append(notes, x.readNotes()...)
				now = now.Add(20 * time.Second)
			}
			later := &testSession{newReadTest(x.testMachine, &state.Question{Chat: x.reader.chat}), x.threadName, x.sessionID}
			later.poller.Now = x.poller.Now
			notes = append(notes, later.readNotes()...)
			if len(notes) != 2 || !strings.HasPrefix(notes[0], "[Kept]") || !strings.HasPrefix(notes[1], "[Kept] Claude does not have your message yet") ||
				!strings.Contains(notes[1], c.does) || strings.Contains(notes[1], "half a thought") {
				t.Errorf("told %q", notes)
			}
		})
	}
}

// While Claude waits for the end of a usage limit, messages are kept, and a note says
// until when. They are typed when it is over.
func TestWordsWaitForTheEndOfAUsageLimit(t *testing.T) {
	t.Parallel()
	const limit = "  Continuing automatically at 12:47pm · Esc to cancel"
	for name, screen := range map[string]string{
		"above the box": withInputBox("❯ go ahead", "", "● You've hit your session limit", "", limit),
		"below the box": withInputBox("❯ go ahead", "", "● You've hit your session limit") + "\r\n" + limit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newTestSession(t, nil)
			got := x.runInPane(screen, "")
			now := time.Now()
			x.poller.Now = func() time.Time { return now }
			x.reply(x.threadName, "", "go on")
			var notes []string
			for range 5 {
				notes = append(notes, x.readNotes()...)
				now = now.Add(5 * time.Second)
			}
			want := "[Kept] The usage limit is reached, and Claude goes on at 12:47pm; your message goes in then."
			if len(notes) != 1 || notes[0] != want || got() != "" {
				t.Errorf("told %q, keys %q", notes, got())
			}
		})
	}
	x := newTestSession(t, nil) // the older lines about it do not count
	got := x.runInPane(withInputBox(limit, "❯ go ahead", "", "● Done.", "", "", "", ""), "")
	x.reply(x.threadName, "", "go on")
	bound.Until(t, "the words are typed", func() bool {
		x.readNotes()
		return strings.Contains(got(), "go on")
	})
}
