package hooks

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// A session's record is created with its first question and stays unchanged until the
// session runs elsewhere. Two running sessions of a project have different names.
func TestSession_KeepsItsName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.withVariables("CLAUDE_PID", livingPID(t)),
		w.withVariables("CLAUDE_PID", livingPID(t))
	ask := func(w *world, session, call string) *state.Session {
		w.runHook(forwardHook, recorded(t, "single-03-PreToolUse", "session_id", session,
			"tool_use_id", call))
		return w.loadSession(session)
	}
	first := ask(one, "s-1", "t1")
	again := ask(one, "s-1", "t2")
	project := w.env["CLAUDE_PROJECT_DIR"]
	kit.True(t, again.LastSeen.Equal(first.LastSeen) && again.ProjectDir == project &&
		again.IsTrusted && again.Environment != "", "written again: %+v", again)
	if second := ask(two, "s-2", "t3"); second.Name == first.Name ||
		w.questionOfCall("t3").SessionName != second.Name {
		t.Errorf("two sessions are called %q", second.Name)
	}
	if resumed := ask(two, "s-1", "t4"); resumed.ClaudePID == first.ClaudePID ||
		!resumed.StartedAt.Equal(first.StartedAt) {
		t.Errorf("resumed in another process: %+v", resumed)
	}
	w.changeSession("s-1", func(s *state.Session) { s.LastSeen = s.LastSeen.Add(-25 * time.Hour) })
	isSeen := ask(two, "s-1", "t5").LastSeen.After(first.LastSeen.Add(-time.Hour))
	kit.True(t, isSeen, "a session that goes on for a day is not seen")
}

// Two sessions that start in one project at the same moment have different names, too.
func TestSession_ConcurrentNamesDiffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var hooks []*hookProcess
	for i := range 3 {
		one := w.withVariables("CLAUDE_PID", livingPID(t))
		hooks = append(hooks, one.startHook(forwardHook, recorded(t, "single-03-PreToolUse",
			"session_id", fmt.Sprintf("%d-session", i), "tool_use_id", fmt.Sprint("t", i))))
	}
	names := map[string]bool{}
	for i, p := range hooks {
		p.awaitOutput()
		names[w.loadSession(fmt.Sprintf("%d-session", i)).Name] = true
	}
	kit.Equalf(t, len(names), len(hooks), "called %v", names)
}

// The variables of tmux were passed into a sandbox or to another terminal. Keys would not
// reach this Claude Code, so it counts as outside of tmux. The hook finds that out once.
func TestSession_UnseenPaneIsNone(t *testing.T) {
	for name, set := range map[string]func(*world){
		"no server there": func(w *world) {
			w.env["TMUX"] = filepath.Join(w.dir, "no-server") + ",1,0"
		},
		"no such pane":     func(w *world) { w.env["TMUX_PANE"] = "%999" },
		"another terminal": func(w *world) { w.env["CLAUDE_PID"] = livingPID(w) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.inTmux()
			set(w)
			w.runHook(sessionHook, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1"))
			first := w.loadSession("s-1")
			kit.True(t, first.TmuxPane == "" && first.TmuxSocket == "" && first.AcceptsCommands,
				"it is in pane %q of %q", first.TmuxPane, first.TmuxSocket)
			w.runHook(sessionHook, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1"))
			kit.Equalf(t, w.loadSession("s-1").LastSeen, first.LastSeen, "last seen")
		})
	}
}

// After /branch the same Claude Code goes on as another session, which continues the
// thread at once.
func TestSession_BranchKeepsTheThread(t *testing.T) {
	for _, source := range []string{"fork", "resume"} { // of 2.1.332, and of 2.1.197
		w := newWorld(t)
		w.inTmux()
		w.runHook(sessionHook, recorded(t, "single-02-UserPromptSubmit", "session_id", "s-1"))
		w.changeSession("s-1", func(s *state.Session) {
			s.ThreadName, s.Chat = "spaces/x/threads/t", "h/spaces/x"
		})
		w.runHook(answeredHook, recorded(t, "timing-10-SessionEnd", "session_id", "s-1",
			"reason", "resume"))
		w.runHook(answeredHook, recorded(t, "single-01-SessionStart", "session_id", "s-2",
			"source", source))
		s := w.loadSession("s-2")
		kit.True(t, s.ThreadName == "spaces/x/threads/t" && s.AcceptsCommands &&
			s.PreviousSession == "s-1", "%s: %+v", source, s)
	}
}

func TestSession_StartIsRecorded(t *testing.T) {
	w := newReportWorld(t)
	dir, head := w.newRepository()
	kit.Equalf(t, w.callHook(sessionHook, w.event("single-01-SessionStart")), "", "printed")
	s := w.session()
	kit.True(t, s.Name == "orch-epic4" && s.ProjectDir == dir && s.CWD == dir &&
		s.Source == "startup" && s.Model == "claude-opus-5-5" && s.Branch == "main" &&
		s.Commit == head && !s.StartedAt.IsZero() && s.IsRunning() &&
		s.TranscriptPath == filepath.Join(w.dir, "sess-1.jsonl"), "session %+v", s)
	kit.Equalf(t, len(w.reports()), 0, "reports")
}

func TestSession_StartIsReportedOnce(t *testing.T) {
	w := newReportWorld(t)
	w.newRepository()
	w.writeConfig(`{"reports":{"session_start":"on"}}`)
	for range 2 {
		w.callHook(sessionHook, w.event("single-01-SessionStart"))
	}
	w.callHook(sessionHook, w.event("single-01-SessionStart", "source", "compact"))
	w.wantReports("(session_start) orch-epic4\nProject: shop\nBranch: main\nModel: claude-opus-5-5\nSource: startup\nMachine: " + state.MachineName())
}

// After a compaction a session goes on. With every other source it starts again.
func TestSession_SourceSaysIfItGoesOn(t *testing.T) {
	w := newReportWorld(t)
	w.callHook(sessionHook, w.event("single-01-SessionStart"))
	sent := time.Now().UTC().Truncate(time.Millisecond)
	markEnded := func() {
		w.changeSession("sess-1",
			func(s *state.Session) { s.SummarySentFor, s.EndedAt = sent, sent })
	}
	markEnded()
	began := w.session().StartedAt
	w.callHook(sessionHook, w.event("single-01-SessionStart", "source", "compact", "model",
		"claude-next"))
	s := w.session()
	kit.True(t, s.StartedAt.Equal(began) && s.Model == "claude-next" && s.Source == "startup" &&
		s.IsRunning(), "after a compaction: %+v", s)
	for _, source := range []string{"resume", "clear", "fork", "startup"} {
		markEnded()
		before := w.session().StartedAt
		w.callHook(sessionHook, w.event("single-01-SessionStart", "source", source))
		s := w.session()
		kit.True(t, s.StartedAt.After(before) && s.SummarySentFor.Equal(sent) &&
			s.Source == source && s.IsRunning(), "after %s: %+v", source, s)
	}
}

// After /clear the thread goes on, and commands that were carried out in it are not
// repeated. Without that, a /stop that had been answered interrupted the next session's
// first turn, seen with Claude Code 2.1.197.
func TestSession_ClearKeepsTheThread(t *testing.T) {
	w := newReportWorld(t)
	w.env["CLAUDE_PID"] = strconv.Itoa(os.Getpid())
	w.callHook(sessionHook, w.event("single-01-SessionStart"))
	done := time.Now().UTC().Truncate(time.Millisecond)
	w.changeSession("sess-1", func(s *state.Session) {
		s.ThreadName, s.Chat, s.AcceptsCommands, s.OldCommandsDoneUntil = "spaces/x/threads/t",
			"h/spaces/x", true, done
		s.OldIgnoredUntil = done
	})
	w.callHook(sessionHook, w.event("single-01-SessionStart", "session_id", "sess-2",
		"source", "clear"))
	s := w.loadSession("sess-2")
	knows := s.OldCommandsDoneUntil.Equal(done) && s.OldIgnoredUntil.Equal(done)
	kit.True(t, s.ThreadName == "spaces/x/threads/t" && s.AcceptsCommands && knows, "%+v", s)
}

func TestSession_EndOwesTheSummary(t *testing.T) {
	for name, start := range map[string]bool{"with a start": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			w := newReportWorld(t)
			w.newRepository()
			if start {
				w.callHook(sessionHook, w.event("single-01-SessionStart"))
			}
			kit.Equalf(t, w.callHook(sessionHook, w.event("timing-10-SessionEnd")), "", "printed")
			s := w.session()
			kit.True(t, !s.IsRunning() && !s.SummaryOwedFor.IsZero() &&
				s.EndReason == "prompt_input_exit" && s.Name == "orch-epic4" &&
				s.TranscriptPath != "" && (s.Source != "") == start, "session %+v", s)
			kit.Equalf(t, len(w.reports()), 0, "reports: they are the poller's")
		})
	}
}

// Two installs of the hooks, whose events coincide with those of a Stop, owe one summary.
// A session that was resumed may end again.
func TestSession_EndsOnce(t *testing.T) {
	w := newReportWorld(t)
	w.callHook(sessionHook, w.event("single-01-SessionStart"))
	owed := map[time.Time]bool{}
	for range 2 {
		var all sync.WaitGroup
		for _, event := range []string{"timing-10-SessionEnd", "single-07-Stop",
			"timing-10-SessionEnd"} {
			all.Go(func() { w.callHook(sessionHook, w.event(event)) })
		}
		all.Wait()
		owed[w.session().SummaryOwedFor] = true
		w.callHook(sessionHook, w.event("timing-10-SessionEnd"))
		owed[w.session().SummaryOwedFor] = true
	}
	w.callHook(sessionHook, w.event("single-01-SessionStart", "source", "resume"))
	w.callHook(sessionHook, w.event("timing-10-SessionEnd"))
	owed[w.session().SummaryOwedFor] = true
	kit.True(t, !owed[time.Time{}] && len(owed) == 2, "owed: %v", owed)
}

// All hooks of SessionEnd share one and a half seconds.
func TestSession_EndStartsNoGit(t *testing.T) {
	w := newReportWorld(t)
	w.newRepository()
	ran := filepath.Join(w.dir, "ran")
	git := writeFile(w, filepath.Join(w.dir, "bin", "git"), "#!/bin/sh\ntouch "+ran+"\n")
	kit.NoError(t, os.Chmod(git, 0o700))
	t.Setenv("PATH", filepath.Dir(git)+":"+os.Getenv("PATH"))
	w.callHook(sessionHook, w.event("timing-10-SessionEnd"))
	wantNoFile(t, ran)
}

// A turn's end is not recorded.
func TestSession_StopWritesNothing(t *testing.T) {
	w := newReportWorld(t)
	w.callHook(sessionHook, w.event("single-07-Stop"))
	w.wantNoOutput()
}

// The terminal shows the person once what went wrong.
func TestSession_NoticesAreShownOnce(t *testing.T) {
	w := newReportWorld(t)
	for _, run := range [][2]string{
		{sessionHook, "single-07-Stop"}, {sessionHook, "single-01-SessionStart"},
		{answeredHook, "single-07-Stop"},
	} {
		w.changeSession("sess-1", func(s *state.Session) { s.Notices = []string{"Look here."} })
		kit.Equalf(t, w.callHook(run[0], w.event(run[1])), `{"systemMessage":"Look here."}`+"\n",
			"%q printed", run)
		kit.Equalf(t, w.callHook(run[0], w.event(run[1])), "", "%q printed once more", run)
	}
}

// A session's thread starts with its first prompt. From then on the session gets what is
// written there.
func TestSession_ThreadBeginsWithFirstPrompt(t *testing.T) {
	w := newReportWorld(t)
	kit.Equalf(t, w.callHook(sessionHook, w.event("single-02-UserPromptSubmit")), "", "printed")
	began := "(session_start) orch-epic4\nProject: shop\nMachine: " + state.MachineName() + "\n\n" +
		state.OutsideTmuxWarning
	w.wantReports(began)
	if s := w.session(); !s.AcceptsCommands || !s.IsRunning() {
		t.Errorf("session %+v", s)
	}
	w.callHook(sessionHook, w.event("single-02-UserPromptSubmit"))
	w.wantReports(began)
}

// If a session has a thread, the next prompt starts no other.
func TestSession_ThreadBeginsOnce(t *testing.T) {
	for name, has := range map[string]func(*world){
		"a thread": func(w *world) {
			w.changeSession("sess-1", func(s *state.Session) { s.ThreadName = "spaces/x/threads/t" })
		},
		"a report of its start": func(w *world) {
			w.writeConfig(`{"reports":{"session_start":"on"}}`)
			w.callHook(sessionHook, w.event("single-01-SessionStart"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReportWorld(t)
			has(w)
			before := len(w.reports())
			w.callHook(sessionHook, w.event("single-02-UserPromptSubmit"))
			kit.Equalf(t, len(w.reports()), before, "reports")
		})
	}
}

// No thread starts for a program's own session, for a session that asks nothing in Chat,
// or where the person wants no report of a start.
func TestSession_WithoutAThread(t *testing.T) {
	for name, set := range map[string]func(*world){
		"claude -p of 2.1.332": func(w *world) { w.env["CLAUDE_CODE_SESSION_ATTENDED"] = "0" },
		"claude -p of 2.1.197": func(w *world) { w.env["CLAUDE_CODE_ENTRYPOINT"] = "sdk-cli" },
		"ask_mode off":         func(w *world) { w.env["GCHAT_ASK_MODE"] = "off" },
		"reports off":          func(w *world) { w.writeConfig(`{"reports":{"session_start":"off"}}`) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newReportWorld(t)
			set(w)
			w.callHook(sessionHook, w.event("single-02-UserPromptSubmit"))
			w.wantReports()
		})
	}
}
