package hooks_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gchat-hooks/state"
)

func TestBadStdin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	deep := strings.Repeat(`{"tool_input":`, 100000) + "1" + strings.Repeat("}", 100000)
	ask := string(recorded(t, "single-04-PermissionRequest"))
	for name, in := range map[string]string{
		"nothing": "", "blank": " \n", "garbage": "\x00\x01\xff\xfe{{{", "text": "hello", "null": "null", "number": "7", "list": "[]", "truncated": ask[:len(ask)/2],
		"deep": deep, "huge": `{"hook_event_name":"PermissionRequest","tool_name":"AskUserQuestion","session_id":"s","tool_input":"` + strings.Repeat("x", 10<<20) + `"}`,
		"no session":         `{"hook_event_name":"PermissionRequest","tool_name":"AskUserQuestion","tool_input":{"questions":[{"question":"Q?","options":[]}]}}`,
		"no questions":       `{"hook_event_name":"PermissionRequest","tool_name":"AskUserQuestion","session_id":"s","tool_input":{"questions":[]}}`,
		"questions are text": `{"hook_event_name":"PermissionRequest","tool_name":"AskUserQuestion","session_id":"s","tool_input":{"questions":"?"}}`,
		"wrong types":        `{"hook_event_name":7,"session_id":[]}`, "another tool": `{"hook_event_name":"PreToolUse","tool_name":"Bash","session_id":"s","tool_input":{"command":"ls"}}`,
		"an event of tomorrow": `{"hook_event_name":"PreCoffee","session_id":"s"}`,
	} {
		for _, hook := range []string{forward, answered} {
			if out := w.run(hook, []byte(in)); out != "" {
				t.Errorf("%s, %s: printed %q", hook, name, out)
			}
		}
	}
	if qs := w.questions(); len(qs) > 0 {
		t.Errorf("%d questions were recorded", len(qs))
	}
	if log := w.log(); !strings.Contains(log, "not understood") {
		t.Errorf("the log does not say so: %s", log)
	}
}

// The event counts when it is there, also where the pipe that it came through stays open.
func TestEventOnAnOpenPipe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, event, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer event.Close()
	if _, err := event.Write(recorded(t, "single-03-PreToolUse")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "hook", forward)
	cmd.Env, cmd.Dir, cmd.Stdin = w.environ(), w.env["CLAUDE_PROJECT_DIR"], r
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
	if n := len(w.questions()); n != 1 {
		t.Errorf("%d questions were recorded: %s", n, w.log())
	}
}

func TestHookOfAnotherVersionIsIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if out := w.run("gchat-hook-of-tomorrow", recorded(t, "single-07-Stop")); out != "" {
		t.Errorf("printed %q", out)
	}
}

func TestBadConfigurationLeavesTheDialogToThePerson(t *testing.T) {
	for name, c := range map[string]struct {
		set func(w *world)
		log string // what the log names
	}{
		"no webhook":        {func(w *world) { delete(w.env, "GOOGLE_CHAT_WEBHOOK_URL") }, "no webhook URL"},
		"webhook is no URL": {func(w *world) { w.env["GOOGLE_CHAT_WEBHOOK_URL"] = "see 1password" }, "not a Chat webhook URL"},
		"webhook in the clear": {func(w *world) {
			w.env["GOOGLE_CHAT_WEBHOOK_URL"] = "http://chat.example/v1/spaces/A/messages?key=k&token=topsecret"
		}, "not a Chat webhook URL"},
		"broken project file": {func(w *world) {
			delete(w.env, "GOOGLE_CHAT_WEBHOOK_URL")
			writeFile(w.TB, filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "gchat-hooks.json"), `{"webhook_url":`)
		}, "gchat-hooks.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			good := w.env["GOOGLE_CHAT_WEBHOOK_URL"]
			c.set(w)
			w.run(forward, recorded(t, "single-03-PreToolUse"))
			if out := w.run(forward, recorded(t, "single-04-PermissionRequest")); out != "" {
				t.Errorf("printed %q", out)
			}
			if log := w.log(); !strings.Contains(log, c.log) || !strings.Contains(log, `"hint"`) || strings.Contains(log, "topsecret") {
				t.Errorf("log: %s", log)
			}
			if q := w.question(); q.Status != state.Pending || q.PostError == "" {
				t.Errorf("on disk: %s, %q", q.Status, q.PostError)
			}
			// The session's next hook tells the person, once.
			var told struct {
				SystemMessage string `json:"systemMessage"`
			}
			out := w.run(answered, recorded(t, "timing-09-Notification"))
			if out != "" {
				t.Errorf("an unknown event printed %q", out)
			}
			// Mended, and any hook of the machine runs: the question goes out.
			mended := w.with("GOOGLE_CHAT_WEBHOOK_URL", good)
			_ = os.Remove(filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude", "gchat-hooks.json"))
			w.endOfFlusherNow()
			mended.run(forward, recorded(t, "two-calls-03-PreToolUse"))
			mended.thread(2)
			if err := json.Unmarshal([]byte(w.run(answered, recorded(t, "single-02-UserPromptSubmit"))), &told); err != nil || !strings.Contains(told.SystemMessage, "could not be posted") {
				t.Errorf("the person was told %q, %v", told.SystemMessage, err)
			}
		})
	}
}

func TestUnwritableStateGoesToThePersonsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	writeFile(t, filepath.Join(w.env["CLAUDE_PROJECT_DIR"], ".claude"), "a file where a folder should be")
	w.run(forward, recorded(t, "single-03-PreToolUse"))
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.say(ann, w.thread(1), "2")
	if got := w.answers(p.end())[single]; got != "Rolling deployment" {
		t.Errorf("answered %q", got)
	}
	w.run(answered, recorded(t, "single-05-PostToolUse"))
	w.awaitMessage("[Answered]")
}

func TestNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	blocked := filepath.Join(w.dir, "blocked")
	writeFile(t, blocked, "")
	w.env["GCHAT_STATE_DIR"], w.env["XDG_STATE_HOME"] = filepath.Join(blocked, "a"), filepath.Join(blocked, "b")
	for _, event := range []string{"single-03-PreToolUse", "single-04-PermissionRequest"} {
		if out := w.run(forward, recorded(t, event)); out != "" {
			t.Errorf("%s printed %q", event, out)
		}
	}
	if log := w.log(); !strings.Contains(log, "the session goes on without it") {
		t.Errorf("log: %s", log)
	}
	w.env["XDG_STATE_HOME"] = filepath.Join(w.dir, "user")
}

func TestChatInTroubleGetsTheQuestionWhenItIsBack(t *testing.T) {
	answer := func(code int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(rw http.ResponseWriter, r *http.Request) bool {
			if code == http.StatusTooManyRequests {
				rw.Header().Set("Retry-After", "1")
			}
			rw.WriteHeader(code)
			_, _ = rw.Write([]byte(body))
			return true
		}
	}
	envelope := func(status, message string) string {
		return `{"error":{"code":1,"message":"` + message + `","status":"` + status + `"}}`
	}
	for name, c := range map[string]struct {
		fault func(http.ResponseWriter, *http.Request) bool
		log   string
	}{
		"400":      {answer(400, envelope("INVALID_ARGUMENT", "API key not valid.")), "copy it again"},
		"401":      {answer(401, envelope("UNAUTHENTICATED", "no")), "log in again"},
		"403":      {answer(403, envelope("PERMISSION_DENIED", "no token")), "token"},
		"404":      {answer(404, envelope("NOT_FOUND", "gone")), "deleted"},
		"429":      {answer(429, envelope("RESOURCE_EXHAUSTED", "quota")), "quota"},
		"500":      {answer(500, "<html>oops</html>"), "trouble"},
		"nonsense": {answer(200, "<html>log in to the hotel's network</html>"), "not one of Google Chat's"},
		"redirect": {func(rw http.ResponseWriter, r *http.Request) bool {
			http.Redirect(rw, r, "http://127.0.0.1:1/elsewhere?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
			return true
		}, "307"},
		"cut connection": {func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }, "could not be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.trace.set(c.fault)
			w.run(forward, recorded(t, "single-03-PreToolUse"))
			p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
			w.until("the log to name the cause", func() bool { return strings.Contains(w.log(), c.log) })
			w.until("the cause on disk", func() bool { q := w.question(); return q.Status == state.Pending && q.PostError != "" })
			w.trace.set(nil)
			w.say(ann, w.thread(1), "2")
			if got := w.answers(p.end())[single]; got != "Rolling deployment" {
				t.Errorf("answered %q", got)
			}
			w.until("one message", func() bool { return len(w.messages("[AskUserQuestion]")) == 1 })
			w.noSecrets()
		})
	}
}

func TestSilentChatHoldsNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := make(chan struct{})
	reached := make(chan struct{}, 100)
	w.trace.set(func(_ http.ResponseWriter, r *http.Request) bool {
		reached <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		return true
	})
	w.run(forward, recorded(t, "single-03-PreToolUse"))
	p := w.start(forward, recorded(t, "single-04-PermissionRequest"))
	<-reached
	w.run(answered, recorded(t, "single-05-PostToolUse")) // answered in the terminal meanwhile
	if out := p.end(); out != "" {
		t.Errorf("printed %q", out)
	}
	if q := w.question(); q.Status != state.Resolved {
		t.Errorf("status %s", q.Status)
	}
	// Whether the message arrived is not known: when Chat is back the thread is told, whoever is alive.
	w.trace.set(nil)
	close(release)
	w.awaitMessage("[Answered]")
	if n := len(w.messages("[AskUserQuestion]")); n != 1 {
		t.Errorf("posted %d times", n)
	}
}

// noSecrets looks for the webhook's key and token where people and other programs look.
func (w *world) noSecrets() {
	w.Helper()
	_, query, _ := strings.Cut(w.env["GOOGLE_CHAT_WEBHOOK_URL"], "?")
	var secrets []string
	for _, kv := range strings.Split(query, "&") {
		_, v, _ := strings.Cut(kv, "=")
		secrets = append(secrets, v)
	}
	_ = filepath.WalkDir(w.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		b, _ := os.ReadFile(path)
		for _, s := range secrets {
			if strings.Contains(string(b), s) {
				w.Errorf("%s holds a secret of the webhook", path)
			}
		}
		return nil
	})
}

// endOfFlusherNow lets a flusher that runs with the old environment end: on a person's machine it would, by its own
// time-out, and the next hook starts one with the mended environment.
func (w *world) endOfFlusherNow() {
	w.Helper()
	w.stopFlushers()
	w.endFlusher()
}
