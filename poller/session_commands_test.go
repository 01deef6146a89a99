package poller

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
	"gchat-hooks/poller/commands"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func TestSessionCommands_InSessionThread(t *testing.T) {
	x := newTestSession(t, nil)
	x.checkAnswer("/help", "[Help]", "/screen", "/status", "/stop", "/mute 2h")
	x.checkAnswer("  /Help ", "[Help]")
	x.checkAnswer("/dance", "[Not used] There is no command /dance", "/screen")
	x.checkAnswer("/screen", "[Not used]", "the session does not run in tmux")
	x.checkAnswer("/stop", "[Not used]", "the session does not run in tmux")
	for _, text := range []string{"/compact", "/clear", "/model opus"} {
		x.checkAnswer(text, "[Not used]", "the session does not run in tmux")
	}
	x.checkAnswer("/model", "[Not used] Name a model")
	x.checkAnswer("and now?", "[Kept]", "does not run in tmux", "when its turn ends",
		"If Claude is idle")
	x.addQuestion(func(q *state.Question) { q.ClaudeSessionID = x.sessionID })
	x.addQuestion(func(q *state.Question) {
		q.ClaudeSessionID, q.Kind, q.ToolName, q.About =
			x.sessionID, state.KindPermission, "Bash", "git push"
	})
	x.addQuestion(func(q *state.Question) {
		q.ClaudeSessionID, q.Kind, q.ShownText, q.SubQuestions[0].Question =
			x.sessionID, state.KindNext, "Shall I push?", "What is to be done next?"
	})
	x.checkAnswer("/status", "[Status] shop\n", "not known",
		"Kept until Claude can take them: 1 of your messages\n",
		"Waits for you:\n• Which?\n• Which?\n• Shall I push?")
	kit.Equalf(t, x.readNotes(), nil, "notes a second time")
	kit.Equalf(t, x.nextPoller().readNotes(), nil, "notes by a later poller")
	x.changeSession(x.sessionID, func(s *state.Session) { s.EndedAt = time.Now() })
	// the list reads older messages again
	kit.NoError(t, x.readOnce())
	kit.Equalf(t, x.readNotes(), nil, "notes once the session has ended")
}

// checkNotMuted has the poller handle the messages. It checks that none of them mutes the
// session, gets a note or is left.
func (x *testSession) checkNotMuted(what string) {
	x.t.Helper()
	kit.Equalf(x.t, x.readNotes(), nil, "%s: notes", what)
	kit.True(x.t, x.loadSession().MutedUntil.IsZero(), "%s: it is muted", what)
	kit.Equalf(x.t, x.countUnfinished(), 0, "%s: messages that are left", what)
}

// A command of an allowed person is run by the poller of the session's environment,
// unless it is too old.
func TestSessionCommands_WhoseIsDone(t *testing.T) {
	x := newTestSession(t, nil)
	x.reply(x.threadName, "users/9", "/mute")
	x.testMachine.postAsApp(x.threadName, "/mute")
	x.checkNotMuted("a stranger's")
	x.testMachine.reply(x.threadName, "users/9", "/mute 3h") // may have the same millisecond
	x.checkAnswer("/mute", "[Muted]")
	x.changeSession(x.sessionID, func(s *state.Session) { s.MutedUntil = time.Time{} })

	command := state.OldCommand{
		MessageName: "m", Sender: "users/1", Text: "/mute", LocalCreatedAt: time.Now(),
	}
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.Environment, s.OldCommands = "another", []state.OldCommand{command}
	})
	x.readNotes()
	kit.True(t, x.loadSession().MutedUntil.IsZero(),
		"it was done for another environment's session")
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.Environment = state.Environment(x.env)
		s.OldCommands[0].LocalCreatedAt = time.Now().Add(-commands.MaxCommandAge - time.Minute)
	})
	kit.Containsf(t, strings.Join(x.readNotes(), ""), "[Not used] /mute was read too late",
		"the notes about an old one")
	command.MessageName, command.Sender, command.LocalCreatedAt =
		"of a stranger, as another environment read it", "users/9", time.Now()
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.OldCommands = []state.OldCommand{command}
	})
	x.checkNotMuted("a stranger's, from another environment")
	command.Sender = "users/1"
	command.MessageName, command.LocalCreatedAt =
		"older than the session", time.Now().Add(-2*time.Hour)
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.OldCommands = []state.OldCommand{command}
	})
	x.checkNotMuted("older than the session")
}

// An app's events come in any order, and more than once: each command runs once, the
// newest twenty by their names.
func TestSessionCommands_InAnyOrder(t *testing.T) {
	x := newTestSession(t, nil)
	now := time.Now().Add(-time.Minute)
	for n := range 2 {
		x.addEventMessage("second", "/help", now)
		x.addEventMessage("first", "/mute 2h", now.Add(-time.Second))
		x.addEventMessage("third", "/status", now) // with the same millisecond
		notes := x.readNotes()
		kit.True(t, len(notes) == 3*(1-n), "notes %q", notes)
	}
	notes := x.readNotes()
	kit.True(t, !x.loadSession().MutedUntil.IsZero() && len(notes) == 0,
		"muted until %v, notes of the third time %q", x.loadSession().MutedUntil, notes)
}

// A command that a version without an inbox ran does not run again when a list or an
// event brings it again.
func TestSessionCommands_OfEarlierVersion(t *testing.T) {
	x := newTestSession(t, nil)
	now := time.Now().Add(-time.Minute)
	_, space, _ := strings.Cut(x.reader.chat, "/")
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.OldDoneCommands = []state.OldDoneCommand{
			{MessageName: space + "/messages/did", DoneAt: now},
		}
		s.OldCommandsDoneUntil = now.Add(-time.Minute)
	})
	x.addEventMessage("did", "/mute 2h", now)
	x.addEventMessage("before", "/mute 3h", now.Add(-2*time.Minute))
	x.checkNotMuted("done by an earlier version")
	x.addEventMessage("after", "/mute 2h", now)
	notes := x.readNotes()
	kit.True(t, len(notes) == 1 && !x.loadSession().MutedUntil.IsZero(),
		"notes %q, muted until %v", notes, x.loadSession().MutedUntil)
}

// A command that a poller was running when it was killed does not run again, since a
// second Esc would stop something else. A note says so, once.
func TestSessionCommands_NotDoneTwice(t *testing.T) {
	x := newTestSession(t, nil)
	given := state.OldCommand{
		MessageName: "m", Sender: "users/1", Text: "/mute", LocalCreatedAt: time.Now(),
	}
	in := given.Incoming(x.loadSession(), time.Now())
	in.Status = state.IncomingDoing
	_, err := x.inbox().Add(in, false)
	kit.NoError(t, err)
	notes := x.readNotes()
	kit.True(t, len(notes) == 1 && strings.HasPrefix(notes[0], "[Not known]"), "notes %q", notes)
	x.checkNotMuted("begun by a killed poller")
}

// A question in the session's thread takes no command as its reply, and a question that
// is closed there takes no reply.
func TestSessionCommands_AreNoReplies(t *testing.T) {
	x := newTestSession(t, nil)
	q := x.addPosted(func(q *state.Question) {
		q.Kind, q.ThreadName, q.AskedAt = state.KindNext, x.threadName, time.Now().Add(-time.Minute)
		at := q.AskedAt
		q.PostedAt = &at
	})
	x.checkAnswer("/help", "[Help]")
	x.reply(x.threadName, "users/9", "/stop")
	x.readNotes()
	kit.Equalf(t, len(x.loadQuestion(q).Replies), 0, "replies")
	x.say("go on")
	kit.Equalf(t, x.loadQuestion(q).Replies[0].Text, "go on", "the reply")
	x.changeQuestion(q, func(q *state.Question) { q.Status = state.Resolved })
	x.checkAnswer("and then?", "[Kept]", "when its turn ends")
	kit.Equalf(t, len(x.loadQuestion(q).Replies), 1, "replies with one to what was over")
}

func TestSessionCommands_MuteDuration(t *testing.T) {
	x := newTestSession(t, nil)
	now := time.Now().Truncate(time.Millisecond) // with the precision of the session's file
	runner := commands.Runner{Env: x.env, Log: x.poller.Log, Config: &config.Config{},
		Now: func() time.Time {
			return now
		}}
	for duration, want := range map[string]time.Duration{
		"": time.Hour, "2h": 2 * time.Hour, "30m": 30 * time.Minute, "2 hours": 2 * time.Hour,
		"45 min": 45 * time.Minute,
		"1h30m":  90 * time.Minute, "99h": 24 * time.Hour, "off": 0, "long": -1, "-2h": -1,
	} {
		x.changeSession(x.sessionID, func(s *state.Session) {
			s.MutedUntil = time.Unix(7, 0).UTC()
		})
		answer := runner.RunCommand(t.Context(), x.loadSession(), &state.Incoming{
			Text: "/mute " + duration, LocalCreatedAt: now,
		})
		got := x.loadSession().MutedUntil
		until := now.Add(want)
		switch {
		case want < 0:
			until = time.Unix(7, 0)
			kit.Contains(t, answer, "[Not used]")
		case want == 0:
			until = time.Time{}
		}
		kit.True(t, got.Equal(until), "/mute %s: %q, until %v", duration, answer, got)
	}
}

func TestSessionCommands_StopAndScreen(t *testing.T) {
	t.Parallel()
	const tool, spinner = "● Bash(sleep 60)", "✻ Working… (3s · ↓ 20 tokens)"
	idle := withInputBox("❯ go ahead", "", "● Done.")
	dialog := strings.Join([]string{tool, "", strings.Repeat("─", 100), " Bash command", "",
		"   git push", "", " Do you want to proceed?",
		" ❯ 1. Yes", "   2. No", "", " Esc to cancel · Tab to amend"}, "\r\n")
	const queued = "  ⎿  Queued · ctrl+x ctrl+s to send now"
	ended := []string{"❯ hello", "", "● Hello.", "", "✻ Baked for 2s"}
	for name, c := range map[string]struct {
		screen, stop, status, keys string
	}{
		"named": {
			strings.Replace(withInputBox("❯ go ahead", "", "● I begin.", "", spinner),
				strings.Repeat("─", 13)+"\r", " my session ─\r", 1),
			`[Stopped] the work on "go ahead"`, "Claude works", "\x1b",
		},
		"a tool": {
			withInputBox("❯ go ahead", "", tool, "", spinner), "[Stopped] Bash(sleep 60)",
			"Claude works: Bash(sleep 60)", "\x1b",
		},
		"a command": {
			withInputBox("❯ go ahead", "", "  Running ./long.sh", "  ⎿  $ ./long.sh", "", spinner),
			"[Stopped] ./long.sh", "Claude works: ./long.sh", "\x1b",
		},
		"a prompt": {
			withInputBox(tool, "❯ go ahead", "", "● I begin.", "", spinner),
			`[Stopped] the work on "go ahead"`, "Claude works", "\x1b",
		},
		"a tool, and queued messages": {
			withInputBox("❯ go ahead", "", "  ⎿  $ ./long.sh (4s)", "", "❯ one", "", "❯ two",
				queued, "", spinner),
			"[Stopped] ./long.sh", "Claude works: ./long.sh", "\x1b",
		},
		"a prompt, and queued messages": {
			withInputBox(append(ended, "❯ go ahead", "❯ one", "❯ two", queued, "", spinner)...),
			`[Stopped] the work on "go ahead"`, "Claude works", "\x1b",
		},
		"text, and queued messages": {
			withInputBox(append(ended, "❯ go ahead", "● I begin.", "❯ one", queued, "",
				spinner)...),
			`[Stopped] the work on "go ahead"`, "Claude works", "\x1b",
		},
		"idle": {
			idle, "[Not used] Claude is not working.", "Claude is idle, at an empty input box", "",
		},
		"a dialog": {
			dialog, "[Not used] A dialog is open in the terminal: answer it first.",
			"A dialog is open in the terminal", "",
		},
		"a shell": {"$ ", "No key was pressed", "The terminal shows", ""},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTestSession(t, nil)
			then := idle
			if strings.HasSuffix(name, "queued messages") { // Claude continues with them
				then = withInputBox(append(ended, "❯ go ahead",
					"  ⎿  Interrupted · What should Claude do instead?", "❯ one", "", spinner)...)
			}
			got := x.runInPane(c.screen, then)
			x.checkAnswer("/status", "[Status] shop", c.status)
			if name != "a shell" {
				x.checkAnswer("/screen", "[Screen] shop\n```\n", strings.Split(c.screen, "\r\n")[0])
			}
			x.checkAnswer("/stop", c.stop)
			kit.Equalf(t, got(), c.keys, "keys")
		})
	}
}

// A pane belongs to the session only while the session's own Claude Code runs in it.
func TestSessionCommands_LeaveOtherClaude(t *testing.T) {
	x := newTestSession(t, nil)
	got := x.runInPane(withInputBox("❯ go", "", "✻ Working… (3s)"), "")
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.ClaudePID, s.ClaudeStart = os.Getpid(), inject.ProcessStart(os.Getpid())
	})
	x.checkAnswer("/stop", "[Not used] The terminal is out of reach")
	x.checkAnswer("/screen", "[Not used] The terminal is out of reach")
	kit.Equalf(t, got(), "", "keys")
}

// Our commands count in the thread of a question, too, and their result is posted
// there. A command that cannot run there is no answer.
func TestSessionCommands_InQuestionThread(t *testing.T) {
	for name, c := range map[string]struct {
		as   func(*state.Session)
		want string
		done bool // by the session; otherwise the question asks back
	}{
		"it listens": {nil, "[Status] shop", true},
		"it does not": {
			func(s *state.Session) { s.AcceptsCommands = false },
			"[Not used] Reply with the option number", false,
		},
		"it is in another": {
			func(s *state.Session) { s.Chat = "chat.example/spaces/other" },
			"[Not used] Reply with", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTestSession(t, c.as)
			m := x.postAsApp("", "a question")
			q := x.addPosted(func(q *state.Question) {
				q.MessageName, q.ThreadName = m.Name, m.Thread.Name
				q.ClaudeSessionID, q.Mode, q.AskedAt =
					x.sessionID, state.ModeDeny, time.Now().Add(-time.Minute)
				q.PostedAt = new(q.AskedAt)
			})
			x.poller.readIndex()
			thread := x.threadName
			x.threadName = m.Thread.Name
			x.checkAnswer("/status", c.want)
			stored := x.loadQuestion(q)
			kit.True(t, stored.Status == state.Pending && len(stored.Replies) > 0 != c.done,
				"%s with %+v", stored.Status, stored.Replies)
			kit.Equalf(t, x.readNotes(), nil, "notes a second time")
			session := x.loadSession()
			kit.True(t, session.ThreadName == thread,
				"the session's thread is %s, was %s", session.ThreadName, thread)
			x.say("2")
			stored = x.loadQuestion(q)
			kit.True(t, stored.Status == state.Answered && stored.Answers["Which?"] == "Two",
				"%s with %v", stored.Status, stored.Answers)
		})
	}
}

// A summary that failed is not tried in every step.
func TestSessionCommands_SummaryIsTriedOnce(t *testing.T) {
	d := newTestMachine(t)
	p := d.newPoller()
	d.changeSession("s", func(s *state.Session) {
		s.Name, s.Environment, s.SummaryOwedFor = "shop", state.Environment(d.env), time.Now().UTC()
	})
	tries := 0
	p.EnqueueSummary = func(context.Context, state.Getenv, *state.Session) error {
		tries++
		return errors.New("not now")
	}
	d.runSteps(p, 2)
	kit.Equalf(t, tries, 1, "it was tried")
}

// A daemon sees the very first session, even if the daemon started before it.
func TestSessionCommands_FirstSessionIsSeen(t *testing.T) {
	d := newTestMachine(t)
	asked := make(chan bool, 1)
	d.runPoller(Options{Daemon: true, EnqueueSummary: func(_ context.Context, env state.Getenv,
		session *state.Session) error {
		asked <- true
		_, err := state.SessionsIn(state.UserStateDir(env)).Change(session.ID,
			func(s *state.Session) {
				s.SummaryOwedFor = time.Time{}
			})
		return err
	}})
	bound.Until(t, "its first step is done", func() bool {
		return state.ReadHeartbeat(d.env, state.Environment(d.env)).PID != 0
	})
	d.changeSession("s", func(s *state.Session) {
		s.Name, s.Environment, s.SummaryOwedFor = "shop", state.Environment(d.env), time.Now().UTC()
	})
	state.CallPoller(d.env, state.Environment(d.env))
	select {
	case <-asked:
	case <-time.After(5 * time.Second):
		t.Error("its summary is not asked for")
	}
}

// markTyped saves a prompt as typed into the session's terminal.
func (x *testSession) markTyped(text string, at time.Time) {
	x.t.Helper()
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.LastTyped = &state.TypedPrompt{Text: text, TypedAt: at.UTC()}
	})
}

// After a /stop before Claude's first output, Claude Code puts the prompt back into its
// box. The poller presses a key there only if the box holds what it typed, to the last
// character, and no person was at the keyboard since.
func TestSessionCommands_StopLeavesDraft(t *testing.T) {
	draft := func(text string) string {
		return strings.Replace(withInputBox("❯ hello", "", "● Hello.", ""), "❯ \r", "❯ "+text+"\r",
			1)
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
			x.checkAnswer("/stop", `[Stopped] the work on "go ahead"`,
				"There is text in the terminal's input box. Clear that box")
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
	runTmux(x.t, socket, "respawn-pane", "-k", "-t", pane, look)
	bound.Until(x.t, "a person is attached", func() bool {
		last, err := at.LastTyped(x.t.Context(), x.loadSession().TmuxPane)
		return err == nil && !last.IsZero()
	})
}

// A poller does not carry out a command that another process began after the poller read
// its record.
func TestSessionCommands_BegunIsNotRepeated(t *testing.T) {
	x := newTestSession(t, nil)
	x.poller.readSessions()
	x.addEventMessage("m", "/mute 2h", time.Now().Add(-time.Second))
	x.route()
	stale := slices.Clone(x.poller.routedBySession[x.sessionID])
	kit.Must(t, len(stale) == 1, "%d messages are for the session", len(stale))
	_, err := x.inbox().Update(stale[0].ID, func(in *state.Incoming) error {
		in.Status = state.IncomingDoing
		return nil
	})
	kit.NoError(t, err)
	kit.NoError(t, x.poller.commandRunner().RunCommands(t.Context(), x.loadSession(), stale))
	kit.True(t, x.loadSession().MutedUntil.IsZero(), "it is done once more")
}
