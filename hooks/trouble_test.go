package hooks_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

func TestHook_BadInputIsIgnored(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutPoller(t)
	deep := strings.Repeat(`{"tool_input":`, 100000) + "1" + strings.Repeat("}", 100000)
	ask := string(recorded(t, "single-04-PermissionRequest"))
	const ours = `{"hook_event_name":"PermissionRequest","tool_name":"AskUserQuestion",`
	for name, in := range map[string]string{
		"nothing": "", "blank": " \n", "garbage": "\x00\x01\xff\xfe{{{", "text": "hello", "null": "null", "number": "7", "list": "[]",
		"truncated": ask[:len(ask)/2], "deep": deep,
		"huge":                 ours + `"session_id":"s","tool_input":"` + strings.Repeat("x", 10<<20) + `"}`,
		"no session":           ours + `"tool_input":{"questions":[{"question":"Q?","options":[]}]}}`,
		"no questions":         ours + `"session_id":"s","tool_input":{"questions":[]}}`,
		"questions are text":   ours + `"session_id":"s","tool_input":{"questions":"?"}}`,
		"wrong types":          `{"hook_event_name":7,"session_id":[]}`,
		"another tool":         `{"hook_event_name":"PreToolUse","tool_name":"Bash","session_id":"s","tool_input":{"command":"ls"}}`,
		"an event of tomorrow": `{"hook_event_name":"PreCoffee","session_id":"s"}`,
	} {
		for _, hook := range []string{forwardHook, answeredHook, sessionHook, "gchat-notification-dispatch", "gchat-stop-gate"} {
			kit.Equalf(t, w.runHook(hook, []byte(in)), "", "%s, %s: printed", hook, name)
		}
	}
	if qs := w.questions(); len(qs) > 0 {
		t.Errorf("%d questions were recorded", len(qs))
	}
	kit.Containsf(t, w.log(), "not understood", "the log")
}

// The event is handled once it is there, even if the pipe that it came through stays
// open.
func TestHook_EventOnAnOpenPipe(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutPoller(t)
	r, event, err := os.Pipe()
	kit.NoError(t, err)
	defer r.Close()
	defer event.Close()
	if _, err := event.Write(recorded(t, "single-03-PreToolUse")); err != nil {
		t.Fatal(err)
	}
	cmd := bound.Command(t, os.Args[0])
	cmd.Env, cmd.Dir, cmd.Stdin = append(w.environ(), hookNameVariable+"="+forwardHook), w.env["CLAUDE_PROJECT_DIR"], r
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
	if n := len(w.questions()); n != 1 {
		t.Errorf("%d questions were recorded: %s", n, w.log())
	}
}

// If a project cannot be written or its disk is full, its questions are in the person's
// own state.
func TestQuestion_UnwritableProjectUsesPersonalState(t *testing.T) {
	for name, block := range map[string]func(w *world){
		"a file where a folder should be": func(w *world) { writeFile(w, filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude"), "") },
		"a full disk": func(w *world) {
			dir := w.smallDisk()
			kit.NoError(w, os.MkdirAll(filepath.Join(dir, "pending-questions", ".locks"), 0o700))
			fillDisk(w, dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWithoutPoller(t)
			block(w)
			w.runHook(forwardHook, recorded(t, "single-03-PreToolUse"))
			p := w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
			qs, loadErrs := state.QuestionsIn(state.SpareStateDir(w.getenv)).All()
			if len(qs) != 1 || len(loadErrs) > 0 {
				t.Fatalf("%d questions in the person's own state, %v", len(qs), loadErrs)
			}
			w.awaitWaiter(qs[0])
			w.markReplied(qs[0], "Canary")
			kit.Equalf(t, w.readAnswers(p.awaitOutput())[singleQuestion], "Canary", "answered")
			w.runHook(answeredHook, answeredEvent(t, "Canary"))
			w.wantOwedNotes(qs[0], closedNote)
		})
	}
}

// A project that could not be written for a moment does not make a question be asked
// twice.
func TestQuestion_PersonalStateIsAskedOnce(t *testing.T) {
	w := newWorldWithoutPoller(t)
	claude := filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude")
	writeFile(w, claude, "") // no folder can be made there
	w.runHook(forwardHook, recorded(t, "single-03-PreToolUse"))
	kit.NoError(t, os.Remove(claude))
	p := w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
	qs, _ := state.QuestionsIn(state.SpareStateDir(w.getenv)).All()
	if len(qs) != 1 {
		t.Fatalf("%d questions in the person's own state", len(qs))
	}
	w.awaitWaiter(qs[0])
	w.markReplied(qs[0], "Canary")
	kit.Equalf(t, w.readAnswers(p.awaitOutput())[singleQuestion], "Canary", "answered")
	if n := len(w.questions()); n > 0 {
		t.Errorf("%d questions in the project, too", n)
	}
}

// smallDisk mounts a file system of a few blocks at the project's state, and returns its
// folder.
func (w *world) smallDisk() string {
	w.Helper()
	dir := w.projectState()
	kit.NoError(w, os.MkdirAll(dir, 0o700))
	if out, err := bound.Command(w, "mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", dir).CombinedOutput(); err != nil {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" && os.Geteuid() == 0 {
			w.Fatalf("a small disk cannot be mounted, and GCHAT_E2E_REQUIRED=1: %v: %s", err, out)
		}
		w.Skipf("needs to mount a small disk: %v: %s", err, out)
	}
	w.Cleanup(func() {
		if out, err := bound.Command(w, "umount", "-l", dir).CombinedOutput(); err != nil {
			w.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// fillDisk writes until the disk is full.
func fillDisk(t testing.TB, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "fill"))
	kit.NoError(t, err)
	defer f.Close()
	for b := make([]byte, 4096); err == nil; _, err = f.Write(b) {
	}
}

// A full disk does not let the session be woken again and again. It is woken once, when
// that can be recorded.
func TestRewake_FullDiskWakesOnce(t *testing.T) {
	w := newDenyWorld(t)
	dir := w.smallDisk()
	ask := questionEvent(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")
	q := w.askDenied(ask)
	p := w.startHook(rewake, ask)
	w.awaitWaiter(q)
	w.markTimedOut(q, nil)
	fillDisk(w, dir)
	if bound.WaitFor(time.Second, p.hasEnded) {
		t.Fatalf("woken with %q while the disk is full", p.awaitWakeText())
	}
	kit.NoError(t, os.Remove(filepath.Join(dir, "fill")))
	kit.Containsf(t, p.awaitWakeText(), "GCHAT_TIMEOUT", "woken with")
	if again := w.startHook(rewake, namedEvent(t, "Stop", "s-1")); bound.WaitFor(time.Second, again.hasEnded) {
		// it waits for a late reply
		t.Errorf("woken again with %q", again.awaitWakeText())
	}
}

func TestHook_NothingCanBeWritten(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutPoller(t)
	blocked := filepath.Join(w.dir, "blocked")
	writeFile(t, blocked, "")
	w.env["GCHAT_STATE_DIR"], w.env["XDG_STATE_HOME"] = filepath.Join(blocked, "a"), filepath.Join(blocked, "b")
	for _, event := range []string{"single-03-PreToolUse", "single-04-PermissionRequest"} {
		kit.Equalf(t, w.runHook(forwardHook, recorded(t, event)), "", "%s printed", event)
	}
	kit.Containsf(t, w.log(), "the session goes on without it", "log")
}

// No hook opens a socket, whether it waits or not. It is as fast when Chat hangs as when
// Chat is idle.
func TestHook_OpensNoSocket(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("needs strace: apt-get install strace")
	}
	for mode, events := range map[string][]string{
		"native": {forwardHook, "single-03-PreToolUse", forwardHook, "single-04-PermissionRequest", answeredHook, "single-05-PostToolUse"},
		"hold":   {forwardHook, "single-03-PreToolUse", answeredHook, "single-05-PostToolUse"},
		"deny":   {rewake, "single-03-PreToolUse", forwardHook, "single-03-PreToolUse", answeredHook, "single-07-Stop"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorldWithoutPoller(t)
			w.env["GCHAT_ASK_MODE"] = mode
			w.env["GOOGLE_CHAT_WEBHOOK_URL"] = "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"
			trace := filepath.Join(w.dir, "trace")
			var hooks []*hookProcess
			for i := 0; i < len(events); i += 2 {
				p := w.startHook(events[i], recorded(t, events[i+1]), "strace", "-f", "-qq", "-A", "-o", trace, "-e", "trace=socket")
				if hooks = append(hooks, p); i == 0 || events[i] == forwardHook {
					w.waitUntil("its question or its end", func() bool { return len(w.questions()) > 0 || p.hasEnded() || events[i] == rewake })
				}
			}
			for _, q := range w.questions() {
				_, _ = state.UpdateQuestion(q.Path, func(q *state.Question) error {
					q.Status, q.IsMessageSent = state.Cancelled, true
					return nil
				})
			}
			for _, p := range hooks {
				<-p.done
			}
			if b, err := os.ReadFile(trace); err != nil || strings.Contains(string(b), "AF_INET") {
				t.Errorf("%v: %s", err, b)
			}
		})
	}
}

// A disk that is full for a moment makes no thread say something untrue. That an answer
// was delivered, and that a question ended, is recorded a little later.
func TestQuestion_FullDiskForAMoment(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("needs strace: apt-get install strace")
	}
	full := []string{"strace", "-D", "-f", "-qq", "-o", os.DevNull, "-e", "trace=rename,renameat,renameat2",
		"-e", "inject=rename,renameat,renameat2:error=ENOSPC:when=1"}
	waiting := func(w *world) *hookProcess {
		w.runHook(forwardHook, recorded(t, "single-03-PreToolUse"))
		p := w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"), full...)
		w.awaitWaiter(w.question())
		return p
	}
	for name, c := range map[string]struct {
		story func(w *world)
		done  func(q *state.Question) bool
	}{
		"printed": {func(w *world) {
			p := waiting(w)
			w.markReplied(w.question(), "Canary")
			kit.Equalf(w, w.readAnswers(p.awaitOutput())[singleQuestion], "Canary", "answered")
		}, func(q *state.Question) bool { return q.IsPrinted }},
		"dismissed": {func(w *world) {
			p := waiting(w)
			terminate(p)
			p.awaitOutput()
		}, func(q *state.Question) bool { return q.Status == state.Cancelled && q.ResolvedBy == "signal" }},
		"stopped": {func(w *world) {
			w.runHook(forwardHook, recorded(t, "single-03-PreToolUse"))
			w.startHook(answeredHook, recorded(t, "single-07-Stop"), full...).awaitOutput()
		}, func(q *state.Question) bool { return q.Status == state.Cancelled && q.ResolvedBy == "stop" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWithoutPoller(t)
			c.story(w)
			if q := w.question(); !c.done(q) {
				t.Errorf("%s by %q, printed: %v", q.Status, q.ResolvedBy, q.IsPrinted)
			}
		})
	}
}
