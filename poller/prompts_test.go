package poller

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// Claude gets prompts in the order in which they were written, each once, however often
// they are read. It gets none from a stranger.
func TestPrompts_DeliveredOnceInOrder(t *testing.T) {
	x := newTestSession(t, nil)
	x.reply(x.threadName, "", "one")
	x.reply(x.threadName, "", "two")
	x.reply(x.threadName, "users/9", "four")
	for range 3 {
		x.say("!rm -rf /")
	}
	x.checkPrompts("one", "two")
	later := x.nextPoller()
	kit.Equalf(t, len(later.readNotes()), 0, "notes of a later poller")
	later.checkPrompts("one", "two")
	kit.Equalf(t, x.countUnfinished(), 0, "left in the session")
}

// A poller that is killed between two writes delivers nothing twice, and loses nothing.
func TestPrompts_SurviveAKill(t *testing.T) {
	c := oldCommand("users/1", "go on")
	x := newTestSession(t, func(s *state.Session) { s.OldCommands = c })
	// The poller was killed before it removed the command from the session's record.
	_, err := x.inbox().Add(c[0].Incoming(x.loadSession(), time.Now()), false)
	kit.NoError(t, err)
	x.readNotes()
	x.checkPrompts("go on")
	kit.Equalf(t, x.countUnfinished(), 0, "left in the session")
}

// addNextQuestion adds a "next instruction" question that a hook waits for. The
// function that it returns ends the hook.
func (x *testSession) addNextQuestion(change func(*state.Question)) (q *state.Question,
	end func()) {
	x.t.Helper()
	dir := x.spareFolder()
	q, err := state.QuestionsIn(dir).Record(x.sessionID, func([]*state.Question) *state.Question {
		q := &state.Question{
			QuestionID: "00000000-next", Kind: state.KindNext, Mode: state.ModeNative,
			Status: state.Pending, AskedAt: time.Now(),
			SessionID: x.sessionID, ClaudeSessionID: x.sessionID, ThreadKey: "session-" +
				x.sessionID, SubQuestions: []state.SubQuestion{{Question: "next"}},
		}
		change(q)
		return q
	})
	kit.NoError(x.t, err)
	kit.NoError(x.t, state.AddQuestionToIndex(x.env, q))
	return q, x.startWaiter(q).Unlock
}

// checkInstruction checks which reply became the next instruction, and which prompts
// wait.
func (x *testSession) checkInstruction(q *state.Question, want string, prompts ...string) {
	x.t.Helper()
	stored := x.loadQuestion(q)
	text, _ := stored.Decision()
	kit.Equalf(x.t, text, want, "the next instruction")
	kit.Equalf(x.t, stored.Status, state.Answered, "the question")
	x.checkPrompts(prompts...)
}

// Once the notes about a kept prompt are enqueued, the poller rests: a step names no time
// that has passed. Outside of tmux, a prompt is kept until the turn ends; one that a hook
// printed, until its outcome is known.
func TestPrompts_RestAfterTheirNotes(t *testing.T) {
	for name, isPrinted := range map[string]bool{"kept": false, "printed": true} {
		t.Run(name, func(t *testing.T) {
			x := newTestSession(t, nil)
			x.say("go on")
			if isPrinted {
				x.markPrinted()
			}
			later := time.Now().Add(stillKeptDelay + time.Second)
			x.poller.Now = func() time.Time { return later }
			x.poller.readState()
			x.poller.attendPrompts(t.Context(), x.poller.ownSessions[0], false)
			next, _ := x.poller.attendPrompts(t.Context(), x.poller.ownSessions[0], false)
			kit.True(t, next.IsZero() || next.After(later), "it looks again at %v, now %v", next, later)
		})
	}
}

// A prompt that a hook printed ends while the poller writes the note about it: the thread
// gets one note.
func TestPrompts_EndBesideTheirNote(t *testing.T) {
	x := newTestSession(t, nil)
	x.say("go on")
	x.markPrinted()
	later := time.Now().Add(graceForConfirmation + time.Second)
	x.poller.Now = func() time.Time { return later }
	x.poller.readState()
	_, err := state.InboxIn(x.poller.userStateDir).Update(x.poller.incoming[0].ID,
		func(in *state.Incoming) error {
			in.ResolvedBy = "chat"
			return nil
		})
	kit.NoError(t, err)
	x.poller.attendPrompts(t.Context(), x.poller.ownSessions[0], false)
	x.poller.readState()
	x.poller.attendPrompts(t.Context(), x.poller.ownSessions[0], false)
	sent := 0
	for _, note := range x.notesIn(x.threadName) {
		if strings.HasPrefix(note, "[Sent]") {
			sent++
		}
	}
	kit.Equal(t, sent, 1)
	kit.Equal(t, x.countUnfinished(), 0)
}

// The space takes no messages for a time. If Claude gets a prompt meanwhile, or it ends,
// its thread is not informed any more that it is kept.
func TestPrompts_NoteOfKeptIsDropped(t *testing.T) {
	for name, c := range map[string]struct {
		change func(x *testSession)
		want   string
	}{
		"it is still kept": {func(*testSession) {}, "[Kept]"},
		"Claude has it":    {(*testSession).markPrinted, ""},
		"it ended": {func(x *testSession) {
			x.poller.readState()
			x.poller.endKeptPrompt(x.poller.incoming[0], "age", "")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTestSession(t, nil)
			x.reply(x.threadName, "", "go on")
			x.poller.readSessions()
			x.mustRead()
			for range 2 { // a message becomes a record, which is then judged
				x.poller.readAndAttend(t.Context())
				x.poller.goroutines.Wait()
			}
			kit.Equalf(t, len(x.notesIn(x.threadName)), 1, "notes before")
			c.change(x)
			x.poller.newSender().sendUntilIdle(t.Context())
			notes := strings.Join(x.notesIn(x.threadName), "\n")
			kit.True(t, strings.HasPrefix(notes, c.want) && (notes == "") == (c.want == ""), "%q", notes)
		})
	}
}

// markPrinted writes down that a hook printed the session's prompts.
func (x *testSession) markPrinted() {
	x.t.Helper()
	x.poller.readState()
	for _, in := range x.poller.incoming {
		_, err := state.InboxIn(x.poller.userStateDir).Update(in.ID, func(in *state.Incoming) error {
			in.Status, in.PrintedAt = state.IncomingDoing, time.Now()
			return nil
		})
		kit.NoError(x.t, err)
	}
}

// A hook waits for the next instruction, and Chat has not confirmed the question yet. A
// message in the session's thread is that instruction: outside of tmux, no other hook
// would deliver it to an idle Claude.
func TestPrompts_GoToWaitingHook(t *testing.T) {
	x := newTestSession(t, nil)
	q, end := x.addNextQuestion(func(*state.Question) {})
	x.say("go on")
	x.readNotes()
	x.checkInstruction(q, "go on")
	kit.Equalf(t, len(x.loadQuestion(q).Replies), 1, "replies")
	end()
	x.say("and on")
	x.checkPrompts("and on")
}

// A stranger writes in the thread before its person does, and both messages are read at
// once. The person's message is the next instruction.
func TestPrompts_StrangerGivesNoInstruction(t *testing.T) {
	x := newTestSession(t, nil)
	asked := time.Now().Add(-time.Minute)
	q, _ := x.addNextQuestion(func(q *state.Question) {
		q.IsMessageSent, q.AskedAt, q.PostedAt, q.ThreadName, q.Chat =
			true, asked, &asked, x.threadName, x.loadSession().Chat
	})
	x.reply(x.threadName, "users/9", "one")
	x.poller.readIndex()
	x.say("two")
	x.checkInstruction(q, "two")
}

// A message after one of Claude Code's own commands is delivered after the command,
// even if a question waits for a reply.
func TestPrompts_FollowTheirCommand(t *testing.T) {
	x := newTestSession(t, func(s *state.Session) {
		s.TmuxPane, s.TmuxSocket = "%1", "/nonexistent"
	})
	next := x.addQuestion(func(q *state.Question) {
		x.markPosted(q)
		q.Kind, q.Mode, q.ThreadName, q.ClaudeSessionID, q.AskedAt =
			state.KindNext, state.ModeNative, x.threadName, x.sessionID,
			time.Now().Add(-time.Minute)
	})
	x.reply(x.threadName, "", "/clear")
	x.say("one")
	x.say("two")
	got, want := x.waitingPrompts(), []string{"/clear", "one", "two"}
	kit.True(t, slices.Equal(got, want), "prompts %q, want %q", got, want)
	q := x.loadQuestion(next)
	kit.True(t, len(q.Replies) == 0, "replies %+v", q.Replies)
}

// Prompts that a version without an inbox kept as questions are delivered, each once.
// No note about them is repeated.
func TestPrompts_OfEarlierVersion(t *testing.T) {
	x := newTestSession(t, nil)
	last := time.Now().Add(-time.Minute)
	old := func(name string, change func(*state.Question)) *state.Question {
		last = last.Add(time.Second) // two of one millisecond have no order
		at := last
		q := &state.Question{
			QuestionID: state.MessageID("said", name), Kind: state.KindPrompt,
			Mode: state.ModeNative, Status: state.Answered,
			AskedAt: at, PostedAt: &at, SessionID: x.sessionID, ClaudeSessionID: x.sessionID,
			ThreadName: x.threadName, Chat: x.loadSession().Chat,
			IsMessageSent: true, ThreadKey: state.SessionThreadKey(x.sessionID),
			SubQuestions: []state.SubQuestion{{Question: name}},
			Answers:      map[string]string{name: name}, AnsweredMessage: name,
			AnsweredBy: "users/1",
			Replies: []state.Reply{
				{
					MessageName: name, Sender: "users/1", Text: name, CreatedAt: at,
					Verdict: state.VerdictUsed,
				},
			},
		}
		change(q)
		folder := state.QuestionsIn(x.spareFolder())
		q, err := folder.Record(x.sessionID, func([]*state.Question) *state.Question { return q })
		kit.NoError(t, err)
		kit.NoError(t, state.AddQuestionToIndex(x.env, q))
		return q
	}
	unread := old("first", func(q *state.Question) {
		q.Status, q.Answers, q.AnsweredMessage, q.Replies[0].Verdict =
			state.Pending, nil, "", state.VerdictUnread
	})
	old("second", func(q *state.Question) {})
	printed := old("third", func(q *state.Question) {
		q.IsPrinted, q.PrintedAt = true, new(time.Now())
	})
	old("fourth", func(q *state.Question) { // its thread has the note that it was sent
		q.IsPrinted, q.PrintedAt, q.HasSentNote = true, new(time.Now().Add(-time.Minute)), true
	})
	old("fifth", func(q *state.Question) { // a poller was killed before it enqueued the notes
		q.OwedNotes = []state.OwedNote{
			{About: state.NoteAttached, ReplyMessage: "fifth"},
			{About: state.NoteNotTyped, Text: "so"},
		}
	})
	x.poller.readIndex()
	var notes []string
	for range 3 {
		notes = append(notes, x.readNotes()...)
	}
	x.checkPrompts("first", "second", "third", "fourth", "fifth")
	// The first was not judged. The other notes are owed for the fifth.
	notesText := strings.Join(notes, "\n")
	kit.Equalf(t, len(notes), 3, "notes")
	for _, part := range []string{"[Kept] The session", "[Kept] So;", "[Words only]"} {
		kit.Contains(t, notesText, part)
	}
	for _, q := range []*state.Question{unread, printed} {
		stored := x.loadQuestion(q)
		kit.True(t, !stored.Status.IsOpen() && len(stored.OwedNotes) == 0,
			"%s: %s, owes %v", stored.SubQuestions[0].Question, stored.Status, stored.OwedNotes)
	}
	third := x.inbox().WaitingPrompts()[2]
	kit.True(t, !third.PrintedAt.IsZero() && third.Status == state.IncomingDoing,
		"it is to wake the session again: %+v", third)
}

// A version without an inbox ignores what is in our inbox, by the session's record: it
// delivers nothing a second time, and does not deliver what waits. Messages in another
// thread do not count for that.
func TestPrompts_EarlierVersionIgnoresInbox(t *testing.T) {
	x := newTestSession(t, nil)
	at := time.Now().Add(-10 * time.Second).UTC().Truncate(time.Millisecond)
	x.addEventMessage("m1", "go on", at)
	x.addEventMessage("m2", "/status", at.Add(time.Second))
	x.readNotes()
	stored := x.loadSession()
	kit.True(t, stored.OldIgnoredUntil.Equal(at.Add(time.Second)),
		"it passes over what was written until %v", stored.OldIgnoredUntil)
	x.addEventMessage("m0", "and on", at.Add(-time.Second)) // its event arrived late
	x.readNotes()
	got := x.waitingPrompts()
	kit.True(t, len(got) == 2 && x.loadSession().OldIgnoredUntil.Equal(at.Add(time.Second)),
		"prompts %q, until %v", got, x.loadSession().OldIgnoredUntil)
}

// A message came just when the turn ended, so the Stop hook did not find it and waits
// for the next instruction. The message is that instruction: outside of tmux, no other
// hook would deliver it to an idle Claude.
func TestPrompts_KeptGoesToWaitingHook(t *testing.T) {
	x := newTestSession(t, nil)
	x.reply(x.threadName, "", "one")
	x.say("two")
	q, _ := x.addNextQuestion(func(*state.Question) {})
	x.poller.readIndex()
	x.readNotes()
	x.checkInstruction(q, "one", "two")
}

// After /branch or /resume, another session runs there. Outside of tmux, no Stop hook
// delivers the prompt, and a note says so.
func TestPrompts_LeftSessionGetsNote(t *testing.T) {
	for name, reason := range map[string]string{"/branch": "", "just after /clear": "clear"} {
		x := newTestSession(t, nil)
		x.say("go on")
		x.changeSession(x.sessionID, func(s *state.Session) { s.EndReason = reason })
		x.changeSession("other", func(s *state.Session) {
			stored := x.loadSession()
			s.ClaudePID, s.ClaudeStart, s.Environment =
				stored.ClaudePID, stored.ClaudeStart, stored.Environment
			s.LastSeen = stored.LastSeen.Add(time.Second)
		})
		x.readNotes()
		x.readNotes()
		notes := ""
		box, _ := x.outbox().All()
		for _, message := range box {
			notes += strings.Join(message.Parts, "\n")
		}
		isTold := strings.Contains(notes, "Another session now runs in its terminal.")
		ended := len(x.waitingPrompts()) == 0
		kit.True(t, ended == (reason == "") && isTold == ended,
			"%s: prompts %q, notes %q", name, x.waitingPrompts(), notes)
	}
}

// Session A (cleared, then ended) and session B, which continues in another process
// (claude --resume B), share a thread.
func TestPrompts_ResumedAfterClear(t *testing.T) {
	x := newTestSession(t, nil)
	dead := exec.Command("true")
	_ = dead.Run()
	x.changeSession("a", func(s *state.Session) {
		stored := x.loadSession()
		s.Name, s.ThreadName, s.Chat, s.Environment, s.ProjectDir =
			"shop", stored.ThreadName, stored.Chat, stored.Environment, stored.ProjectDir
		s.AcceptsCommands, s.StartedAt, s.LastSeen, s.EndedAt =
			true, time.Now().Add(-3*time.Hour), time.Now().Add(-2*time.Hour),
			time.Now().Add(-time.Hour)
		s.ClaudePID, s.ClaudeStart = dead.Process.Pid, "1@"+state.PIDScope()
	})
	x.changeSession(x.sessionID, func(s *state.Session) { s.PreviousSession = "a" })
	x.say("go on")
	x.checkPrompts("go on")
}

// A message that was written before the session started, and is read after that, gets a
// note. Claude does not get it.
func TestPrompts_BeforeTheStart(t *testing.T) {
	x := newTestSession(t, nil)
	x.reply(x.threadName, "", "go on")
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.StartedAt = time.Now().Add(3 * time.Second)
	})
	kit.Contains(t, strings.Join(x.readNotes(), "\n"), "[Not read]")
	x.checkPrompts()
}

// More messages than a session's record once kept are read at once. Claude gets them all.
func TestPrompts_ManyAtOnce(t *testing.T) {
	x := newTestSession(t, nil)
	at := time.Now().Add(-time.Second)
	var want []string
	for i := range 21 {
		want = append(want, fmt.Sprint("prompt ", i))
		x.addEventMessage(fmt.Sprint("m", i), want[i], at.Add(time.Duration(i)*time.Millisecond))
	}
	x.readNotes()
	x.checkPrompts(want...)
}

// A command of Claude Code's is used even if a later message was pulled before it.
func TestPrompts_PulledOutOfOrder(t *testing.T) {
	x := newTestSession(t, func(s *state.Session) { s.TmuxPane = "%1" })
	at := time.Now().Add(-time.Second)
	x.addEventMessage("m2", "/status", at.Add(100*time.Millisecond))
	x.addEventMessage("m1", "/compact", at)
	x.readNotes()
	x.checkPrompts("/compact")
}

// A prompt that is edited into a command is no command.
func TestPrompts_EditedToCommand(t *testing.T) {
	x := newTestSession(t, nil)
	m := x.reply(x.threadName, "", "go on")
	x.readNotes()
	x.addEventEdit(m.Name, "/mute 2h")
	x.readNotes()
	kit.True(t, x.loadSession().MutedUntil.IsZero(), "one message is a prompt and a command")
	x.checkPrompts("go on")
}

// While the configuration cannot be read, a message waits for it.
func TestPrompts_BrokenConfigurationKeepsThem(t *testing.T) {
	x := newTestSession(t, func(s *state.Session) {
		s.OldCommands = oldCommand("users/1", "go on")
	})
	x.testMachine.writeConfig(`{"approvers": [`)
	x.readNotes()
	kit.Equalf(t, x.countUnfinished(), 1, "messages that wait")
}

// A message that cannot be used gets one note, and none when the session ends or after a
// day.
func TestPrompts_UnclearGetsOneNote(t *testing.T) {
	x := newTestSession(t, nil)
	notes := x.say("!rm -rf /")
	x.readNotes()
	x.poller.Now = shifted(25 * time.Hour)
	for range 3 {
		notes = append(notes, x.readNotes()...)
	}
	box, _ := x.outbox().All()
	kit.Equalf(t, len(notes)+len(box), 1, "notes about %q", notes)
}

// The list may reach back further than a used prompt's record is kept. Claude gets the
// prompt once.
func TestPrompts_ListedAfterADay(t *testing.T) {
	x := newTestSession(t, func(s *state.Session) {
		s.StartedAt = time.Now().Add(-100 * time.Hour)
	})
	at := time.Now()
	x.addEventMessage("m", "go on", at)
	x.readNotes()
	_, err := x.inbox().EndPrompt(x.inbox().WaitingPrompts()[0].ID, "chat", "")
	kit.NoError(t, err)
	x.readNotes()
	x.poller.Now = shifted(24*time.Hour + time.Minute)
	x.changeSession(x.sessionID, func(s *state.Session) { s.LastSeen = x.poller.Now() })
	x.poller.sweep()
	x.addEventMessage("m", "go on", at)
	x.readNotes()
	x.checkPrompts()
	kit.Equalf(t, x.countUnfinished(), 0, "messages that wait")
}

// One Claude Code process has had the sessions a and s, which share a thread. Claude
// Code's own file names the current one. Messages reach only that one, also after
// /resume of a session that no hook knows.
func TestPrompts_GoToCurrentSession(t *testing.T) {
	for name, test := range map[string]struct{ has, reason, session, note string }{
		"it goes on with s": {has: "s", session: "s"},
		"/resume of a":      {has: "a", reason: "resume", session: "a"},
		"just after /clear": {has: "new", reason: "clear", session: "s"},
		"/resume of an unknown one": {
			has: "new", reason: "resume", note: "Another session now runs in that terminal",
		},
		"that file is of another pid": {has: "", session: "s"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTestSession(t, nil)
			start, _, _ := strings.Cut(inject.ProcessStart(os.Getpid()), "@")
			own := fmt.Sprintf(`{"sessionId":%q,"procStart":%q}`, test.has, start)
			file := filepath.Join(x.dir, "sessions", fmt.Sprint(os.Getpid(), ".json"))
			kit.WriteFile(t, file, own, 0o600)
			stored := x.loadSession()
			x.changeSession("a", func(s *state.Session) {
				one := *stored
				one.Record, one.ID, one.LastSeen = s.Record, s.ID, stored.LastSeen.Add(-time.Minute)
				one.TranscriptPath = filepath.Join(x.dir, "projects", "p", "a.jsonl")
				*s = one
			})
			x.changeSession(x.sessionID, func(s *state.Session) {
				s.PreviousSession, s.EndReason, s.TranscriptPath =
					"a", test.reason, filepath.Join(x.dir, "projects", "p", "s.jsonl")
			})
			x.reply(x.threadName, "", "go on")
			notes := strings.Join(x.readNotes(), "\n")
			sessions := ""
			for _, in := range x.inbox().WaitingPrompts() {
				sessions += in.SessionID
			}
			kit.True(t, sessions == test.session && strings.Contains(notes, test.note),
				"given to %q, want %q; notes %q", sessions, test.session, notes)
		})
	}
}

// A person writes two messages in a row: the second before the Claude Code that the
// first started has called its first hook.
func TestPrompts_WhileSessionStarts(t *testing.T) {
	x := newTestSession(t, func(s *state.Session) {
		s.StartingAt = time.Now().Add(-2 * time.Second)
	})
	x.reply(x.threadName, "", "and run the tests")
	x.changeSession(x.sessionID, func(s *state.Session) {
		s.StartedAt = time.Now().Add(3 * time.Second)
	})
	x.readNotes()
	x.checkPrompts("and run the tests")
}

// A message waits for a configuration that can be read, and the poller does not check
// for it all the time.
func TestPrompts_WaitingKeepsPollerIdle(t *testing.T) {
	t.Parallel()
	x := newTestSession(t, func(s *state.Session) {
		s.OldCommands = oldCommand("users/1", "go on")
	})
	x.writeConfig(`{"approvers": [`)
	var asked atomic.Int64
	end := x.runPoller(Options{Daemon: true, Now: func() time.Time {
		asked.Add(1)
		return time.Now()
	}})
	time.Sleep(500 * time.Millisecond)
	asked.Store(0)
	time.Sleep(time.Second)
	n := asked.Load()
	kit.True(t, n <= 500, "the time was asked for %d times in a second", n)
	kit.NoError(t, end())
}

// A message to a session that has ended gets a note with the command to type, unless
// the message resumes the session. For that a Google space is read for five minutes,
// and the page for a while after a message on it, which starts a poller.
func TestPrompts_EndedSessionGetsNote(t *testing.T) {
	const chat = "chat.googleapis.com/spaces/S"
	for name, c := range map[string]struct {
		ago, runs time.Duration // since the session ended, and since the poller started
		chat      string        // "" for the page's
		read      bool
	}{
		"on the page":                      {time.Minute, 0, "", true},
		"on the page, a day after":         {20 * time.Hour, 0, "", true},
		"on the page, where nobody wrote":  {20 * time.Hour, time.Hour, "", false},
		"in Google Chat":                   {time.Minute, time.Hour, chat, true},
		"in Google Chat, and not for ever": {time.Hour, 0, chat, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTestSession(t, func(s *state.Session) { s.EndedAt = time.Now().Add(-c.ago) })
			if c.chat != "" {
				x.changeSession(x.sessionID, func(s *state.Session) { s.Chat = c.chat })
			}
			x.poller.startedAt = time.Now().Add(-c.runs)
			x.poller.readSessions()
			read := x.poller.spaceViews()[x.loadSession().Chat] != nil
			kit.Must(t, read == c.read, "its thread is read: %v", read)
			if c.chat == "" && c.read {
				x.checkAnswer("go on", "This session has ended")
			}
		})
	}
}
