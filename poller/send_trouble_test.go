package poller

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// Each of these went wrong once; the comment says how it did.

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What could not be put aside was tried again at once, for ever.
func TestAFailingDiskIsNotSpunOn(t *testing.T) {
	o := newOffice(t)
	o.report("a", "one")
	o.fault = refuse(400)
	write(t, filepath.Join(o.outbox().Dir, "dead"), "a file") // parking fails
	if left := o.Send(t.Context()); len(o.posts) != 1 || !left.Again.After(o.clock) {
		t.Errorf("%d posts, left %+v", len(o.posts), left)
	}
}

// A head of a lane that nobody can send (its project is gone) blocks other projects' messages to the same space.
func TestAProjectThatIsGoneHoldsNobodyUp(t *testing.T) {
	o := newOffice(t)
	url := o.env["GOOGLE_CHAT_WEBHOOK_URL"]
	delete(o.env, "GOOGLE_CHAT_WEBHOOK_URL")
	one, two := t.TempDir(), t.TempDir()
	for _, dir := range []string{one, two} {
		write(t, filepath.Join(dir, ".claude", "gchat-hooks.json"), fmt.Sprintf(`{"webhook_url": %q}`, url))
	}
	in := func(dir string) func(*Report) { return func(r *Report) { r.ProjectDir, r.SessionID = dir, "" } }
	o.report("", "of project one", in(one))
	os.RemoveAll(one)
	o.report("", "of project two", in(two))
	left := o.Send(t.Context())
	o.clock = o.clock.Add(time.Hour)
	o.Send(t.Context())
	if len(o.texts()) == 0 {
		t.Errorf("project two's message is never sent; left: %+v", left)
	}
	o.clock = o.clock.Add(30 * 24 * time.Hour)
	o.Flush(t.Context())
	if n := len(o.outbox().Dead()); n == 0 {
		ms, _ := o.outbox().Waiting()
		t.Errorf("after 30 days: %d waiting, %d dead: what nobody can send is never put aside", len(ms), n)
	}
}

// The same with webhook_url_command: all projects share the lane of chat "".
func TestEachProjectsCommandGoesItsOwnWay(t *testing.T) {
	o := newOffice(t)
	url := o.env["GOOGLE_CHAT_WEBHOOK_URL"]
	delete(o.env, "GOOGLE_CHAT_WEBHOOK_URL")
	write(t, filepath.Join(o.env["HOME"], ".config", "gchat-hooks", "config.json"), fmt.Sprintf(`{"webhook_url_command": "echo '%s'"}`, url))
	o.env["XDG_CONFIG_HOME"] = ""
	in := func(dir string) func(*Report) { return func(r *Report) { r.ProjectDir, r.SessionID = dir, "" } }
	o.report("", "of another project", in(t.TempDir()))
	o.report("", "of ours", in(o.env["CLAUDE_PROJECT_DIR"]))
	left := o.Send(t.Context())
	if len(o.texts()) == 0 {
		t.Errorf("ours waits behind another project's that only that one's process sends: %+v", left)
	}
}

// A message without a chat (webhook_url_command) goes to whatever space a process of the same project has in its environment.
func TestAnotherTerminalsSpaceIsNotTaken(t *testing.T) {
	o := newOffice(t)
	env := o.env["GOOGLE_CHAT_WEBHOOK_URL"]
	delete(o.env, "GOOGLE_CHAT_WEBHOOK_URL")
	write(t, filepath.Join(o.env["CLAUDE_PROJECT_DIR"], ".claude", "gchat-hooks.json"),
		`{"webhook_url_command": "echo 'https://chat.example/v1/spaces/SECRET/messages?key=k'"}`)
	o.report("a", "for the space of the command")
	o.env["GOOGLE_CHAT_WEBHOOK_URL"] = env // another terminal of the project
	o.Send(t.Context())
	if len(o.texts()) != 0 {
		t.Errorf("sent to the other space: %q", o.texts())
	}
}

// Killed between the receipt and the removal, where Chat knows no ids: the look skips its own message, since the receipt names it.
func TestKilledBetweenReceiptAndRemoval(t *testing.T) {
	o := newOffice(t)
	o.idless = true
	out := o.report("a", "one")
	kept, err := os.ReadFile(out.Message.Path)
	if err != nil {
		t.Fatal(err)
	}
	tried := filepath.Join(o.outbox().Dir, ".tried", filepath.Base(out.Message.Path))
	o.Send(t.Context())
	// the state of the disk after kill -9 between receive and os.Remove in Outbox.Sent
	write(t, out.Message.Path, string(kept))
	write(t, tried, "")
	o.Send(t.Context())
	o.want("one")
}

// The same words a minute later: FateOf takes the old receipt for the new message.
func TestTheFateOfTheSameWordsLater(t *testing.T) {
	o := newOffice(t)
	o.report("a", "still alive")
	o.Send(t.Context())
	o.clock = o.clock.Add(2 * time.Minute)
	o.fault = refuse(503)
	out := o.report("a", "still alive")
	if !out.Put {
		t.Fatal("not put")
	}
	o.SendUntil(t.Context(), "", func() bool { return o.FateOf(out).Known() })
	if f := o.FateOf(out); f.Arrived {
		t.Errorf("told as arrived (%s), while it waits and Chat was asked %d times for it", f.Name, len(o.posts)-1)
	}
}

// A space that hangs or stumbles keeps another, healthy one waiting: one try (10 s when hanging) for each of its lanes.
func TestASpaceThatStumblesHoldsNoOtherUp(t *testing.T) {
	o := newOffice(t)
	good := o.env["GOOGLE_CHAT_WEBHOOK_URL"]
	hang := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { time.Sleep(300 * time.Millisecond); w.WriteHeader(503) }))
	defer hang.Close()
	bad := hang.URL + "/v1/spaces/BAD/messages?key=k"
	delete(o.env, "GOOGLE_CHAT_WEBHOOK_URL")
	a, b := t.TempDir(), t.TempDir()
	write(t, filepath.Join(a, ".claude", "gchat-hooks.json"), fmt.Sprintf(`{"webhook_url": %q}`, bad))
	write(t, filepath.Join(b, ".claude", "gchat-hooks.json"), fmt.Sprintf(`{"webhook_url": %q}`, good))
	for i := range 10 {
		o.report(fmt.Sprint("s", i), "x", func(r *Report) { r.ProjectDir = a })
	}
	o.report("y", "healthy", func(r *Report) { r.ProjectDir = b })
	ctx, cancel := context.WithTimeout(t.Context(), 1800*time.Millisecond)
	defer cancel()
	o.Send(ctx)
	if len(o.texts()) == 0 {
		t.Error("the healthy space's message waits for 10 lanes of the other (10 tries; each takes 10 s when Chat hangs)")
	}
}

// One webhook that is refused (401) starves another project's good webhook to the same space, and its questions.
func TestARevokedWebhookHoldsNoOtherUp(t *testing.T) {
	o := newOffice(t)
	good := o.env["GOOGLE_CHAT_WEBHOOK_URL"]
	delete(o.env, "GOOGLE_CHAT_WEBHOOK_URL")
	a, b := t.TempDir(), t.TempDir()
	bad := strings.Replace(good, "key=", "key=revoked", 1)
	write(t, filepath.Join(a, ".claude", "gchat-hooks.json"), fmt.Sprintf(`{"webhook_url": %q}`, bad))
	write(t, filepath.Join(b, ".claude", "gchat-hooks.json"), fmt.Sprintf(`{"webhook_url": %q}`, good))
	o.report("a", "of the revoked", func(r *Report) { r.ProjectDir = a })
	o.report("b", "of the good", func(r *Report) { r.ProjectDir = b })
	for range 100 {
		left := o.Send(t.Context())
		if left.Again.IsZero() {
			break
		}
		o.clock = left.Again
	}
	if len(o.texts()) == 0 {
		t.Errorf("the good webhook's message was not sent in %s; asked %d times", o.clock.Sub(time.Now()).Round(time.Minute), len(o.posts))
	}
}

// An outage with a report waiting blocks the space up to 5 minutes after Chat is back: questions too.
func TestAnOutageOfReportsDelaysNoQuestion(t *testing.T) {
	o := newOffice(t)
	good := o.env["GOOGLE_CHAT_WEBHOOK_URL"]
	o.env["GOOGLE_CHAT_WEBHOOK_URL"] = "http://127.0.0.1:1/v1/spaces/local/messages?key=k"
	o.report("a", "a report")
	for range 12 {
		o.clock = o.Send(t.Context()).Again
	}
	o.clock = o.clock.Add(-4 * time.Minute) // Chat is back one minute after the last try
	_ = good
	quota := o.outbox().Quota("127.0.0.1:1/spaces/local")
	if wait := quota.Take(o.clock, time.Second, questionBurst, true); wait > 35*time.Second {
		t.Errorf("a question asked now waits %s, because of a report's backoff (before: 30 s at most)", wait)
	}
}

// Any other 4xx for one message (413 of a proxy, 422) blocks the whole space, the same head first, for a week.
func TestWhatAProxyRefusesHoldsNobodyUp(t *testing.T) {
	o := newOffice(t)
	o.fault = func(text string, w http.ResponseWriter) bool {
		if text == "big" {
			answer(w, 413, "too large")
			return true
		}
		return false
	}
	o.report("a", "big")
	o.report("b", "small")
	for range 50 {
		left := o.Send(t.Context())
		if left.Again.IsZero() {
			break
		}
		o.clock = left.Again
	}
	if len(o.texts()) == 0 {
		t.Errorf("50 tries of one message that a proxy refuses, %s: nothing else gets through", o.clock.Sub(time.Now()).Round(time.Minute))
	}
}

// Urgent message behind one that quiet hours hold, in the same thread.
func TestAnAlertPassesWhatIsHeld(t *testing.T) {
	o := newOffice(t)
	now := o.clock
	from, to := now.Add(-time.Hour).Format("15:04"), now.Add(3*time.Hour).Format("15:04")
	write(t, filepath.Join(o.env["CLAUDE_PROJECT_DIR"], ".claude", "gchat-hooks.json"), fmt.Sprintf(`{"quiet_hours":{"from":%q,"to":%q}}`, from, to))
	key := func(r *Report) { r.ThreadKey = "deploy" }
	o.report("a", "fyi", key)
	o.report("a", "PRODUCTION IS DOWN", key, func(r *Report) { r.Type = "blocked_alert"; r.Session = "s" })
	left := o.Send(t.Context())
	if len(o.texts()) == 0 {
		t.Errorf("the alert is held until %s behind a plain message", left.HeldUntil.Format("15:04"))
	}
}

// A clock that is set back: message backoff, quota, and repeats.
func TestAClockThatIsSetBack(t *testing.T) {
	t.Run("message that failed once waits for the clock", func(t *testing.T) {
		o := newOffice(t)
		o.fault = refuse(503)
		o.report("a", "one")
		o.Send(t.Context())
		o.fault = nil
		o.clock = o.clock.Add(-24 * time.Hour)
		left := o.Send(t.Context())
		if len(o.texts()) == 0 {
			t.Errorf("waits %s", left.Again.Sub(o.clock))
		}
	})
	t.Run("one hour back stops all writes, questions too", func(t *testing.T) {
		o := newOffice(t)
		o.report("a", "one")
		o.Send(t.Context())
		o.clock = o.clock.Add(-time.Hour)
		quota := o.outbox().Quota(o.report("b", "two").Message.Chat)
		if wait := quota.Take(o.clock, time.Second, questionBurst, true); wait > 15*time.Second {
			t.Errorf("a question waits %s after ONE earlier write", wait)
		}
	})
	t.Run("the same words count as repeated", func(t *testing.T) {
		o := newOffice(t)
		o.report("a", "done")
		o.Send(t.Context())
		o.clock = o.clock.Add(-6 * time.Hour)
		o.report("a", "x")
		o.clock = o.clock.Add(5 * time.Hour)
		if out := o.report("a", "done"); !out.Put {
			t.Error("dropped as said 'less than a minute ago', five hours later")
		}
	})
}

// Flush --dead puts a message that is older than seven days aside again at once.
func TestTheDeadAreRevivedHoweverOld(t *testing.T) {
	o := newOffice(t)
	o.fault = refuse(404)
	o.report("a", "one")
	o.Send(t.Context())
	o.fault = nil
	o.clock = o.clock.Add(8 * 24 * time.Hour)
	if n, err := o.outbox().Revive(o.clock); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	o.Send(t.Context())
	if len(o.texts()) == 0 {
		t.Errorf("dead again: %v", o.outbox().Dead()[0].LastError)
	}
}

// The receipt of a merged message has the other one's time: the same words 15 s later are not a repeat.
func TestWhatWasMergedIsARepetitionToo(t *testing.T) {
	o := newOffice(t)
	o.report("a", "first", progress)
	o.clock = o.clock.Add(50 * time.Second)
	o.report("a", "second", progress)
	o.Send(t.Context())
	o.clock = o.clock.Add(15 * time.Second)
	if out := o.report("a", "second", progress); out.Put {
		t.Error("said twice within 15 s")
	}
}

// A webhook_url_command that fails for a moment (locked password manager): nothing comes back for it.
func TestACommandThatFailsIsAskedAgain(t *testing.T) {
	o := newOffice(t)
	delete(o.env, "GOOGLE_CHAT_WEBHOOK_URL")
	write(t, filepath.Join(o.env["CLAUDE_PROJECT_DIR"], ".claude", "gchat-hooks.json"), `{"webhook_url_command": "exit 1"}`)
	o.report("a", "one")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	left := o.FlushDetached(ctx, FlushPatience)
	ms, _ := o.outbox().Waiting()
	if left.Again.IsZero() && !left.GaveUp {
		t.Errorf("the flusher ended at once: %+v; waiting: %d, tries %d, error %q", left, len(ms), ms[0].Tries, ms[0].LastError)
	}
}

// An unreadable file, or a folder, at the head of a lane blocks it for ever.
func TestAFileThatCannotBeReadHoldsNobodyUp(t *testing.T) {
	o := newOffice(t)
	first := o.report("a", "one")
	os.Remove(first.Message.Path)
	os.Mkdir(first.Message.Path, 0o700) // EISDIR; as root chmod 0 reads
	o.report("a", "two")
	o.Send(t.Context())
	if len(o.texts()) == 0 {
		t.Error("what stands behind a file that cannot be read is never sent, nor is it put aside")
	}
}

// Low-value messages outside any session are merged across scripts and projects.
func TestOutsideASessionNothingIsMerged(t *testing.T) {
	o := newOffice(t)
	o.report("", "script one", progress)
	o.report("", "script two", progress, func(r *Report) { r.Session = "another"; r.ProjectDir = o.env["HOME"] })
	o.Send(t.Context())
	if len(o.texts()) == 1 {
		t.Errorf("one message: %q", o.texts())
	}
}

// A printed webhook is never asked again: after it is rotated the flusher goes on with the old one.
func TestACommandWhoseWebhookIsRefusedIsAskedAgain(t *testing.T) {
	o := newOffice(t)
	good := o.env["GOOGLE_CHAT_WEBHOOK_URL"]
	delete(o.env, "GOOGLE_CHAT_WEBHOOK_URL")
	secret := filepath.Join(t.TempDir(), "url")
	write(t, secret, strings.Replace(good, "key=", "key=old", 1))
	write(t, filepath.Join(o.env["CLAUDE_PROJECT_DIR"], ".claude", "gchat-hooks.json"), fmt.Sprintf(`{"webhook_url_command": "cat %s"}`, secret))
	o.report("a", "one")
	o.clock = o.Send(t.Context()).Again
	write(t, secret, good)
	for range 30 {
		left := o.Send(t.Context())
		if left.Again.IsZero() {
			break
		}
		o.clock = left.Again
	}
	if len(o.texts()) == 0 {
		t.Errorf("not sent %d tries after the secret was mended", len(o.posts))
	}
}

// One part's Rewrite fails (full disk): the mark that it was tried is taken away all the same.
func TestThePartThatWasNotWrittenDownStaysTried(t *testing.T) {
	o := newOffice(t)
	out := o.report("a", strings.Repeat("word ", 8000))
	m := out.Message
	if len(m.Parts) < 2 {
		t.Fatal("one part")
	}
	box := o.outbox()
	if _, err := box.Try(m); err != nil {
		t.Fatal(err)
	}
	s := o.sender(nil)
	l := s.letter(t.Context(), m.Path)
	l.Path = filepath.Join(filepath.Dir(m.Path), "no", "such", filepath.Base(m.Path)) // Rewrite fails
	if err := s.sentPart(l, gchat.Posted{}); err == nil {
		t.Error("what could not be written is not told")
	}
	if box.Tried(m).IsZero() {
		t.Error("part 1 was sent, that is not on disk, and the mark that it was tried is gone: the next try does not look")
	}
}

// 409 is also google.rpc.Code ABORTED (two that begin one thread at once): that message is not in the space.
func TestAbortedIsNotSent(t *testing.T) {
	o := newOffice(t)
	o.fault = func(_ string, w http.ResponseWriter) bool {
		w.WriteHeader(409)
		fmt.Fprint(w, `{"error":{"code":409,"message":"The operation was aborted, please retry","status":"ABORTED"}}`)
		return true
	}
	o.report("a", "one")
	o.Send(t.Context())
	if len(o.texts()) == 0 && o.outbox().Empty() {
		t.Error("lost: out of the outbox, not in the space, with reading configured")
	}
}

// Absorb fails for one (a receipt cannot be written at that moment): the merged message goes all the same, and so does the one in it.
func TestWhatCannotBeAbsorbedIsNotSentTwice(t *testing.T) {
	o := newOffice(t)
	o.report("a", "first", progress)
	second := o.report("a", "second", progress)
	write(t, filepath.Join(o.outbox().Dir, ".sent", second.Message.Key+".json", "x"), "") // rename onto it fails
	o.Send(t.Context())
	if all := strings.Join(o.texts(), "|"); strings.Count(all, "second") > 1 {
		t.Errorf("doubled: %q", all)
	}
}

// The first message that meets a 401 has no session: then no session is ever told.
func TestAPauseIsToldToTheFirstSession(t *testing.T) {
	o := newOffice(t)
	o.fault = refuse(401)
	o.report("", "of a cron job")
	o.clock = o.Send(t.Context()).Again
	o.report("sess", "of a session")
	for range 5 {
		o.clock = o.Send(t.Context()).Again
	}
	if state.TakeNotices(o.user(), "sess") == "" {
		t.Error("the session whose messages wait is not told")
	}
}

func TestSameThread(t *testing.T) {
	tried := noon
	ours := &state.Outgoing{ThreadKey: "k"}
	for name, c := range map[string]struct {
		got     gchat.Message
		threads map[string]string
		want    bool
	}{
		"the thread is known":                {gchat.Message{ThreadName: "T"}, map[string]string{"k": "T"}, true},
		"another thread":                     {gchat.Message{ThreadName: "U", CreateTime: tried.Add(time.Second)}, map[string]string{"k": "T"}, false},
		"another key":                        {gchat.Message{ThreadKey: "x", CreateTime: tried.Add(time.Second)}, nil, false},
		"our key":                            {gchat.Message{ThreadKey: "k"}, nil, true},
		"nothing known, after the try":       {gchat.Message{ThreadName: "U", CreateTime: tried.Add(time.Second)}, nil, true},
		"nothing known, long before the try": {gchat.Message{ThreadName: "U", CreateTime: tried.Add(-time.Minute)}, nil, false},
	} {
		if got := sameThread(c.got, ours, c.threads, tried); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The person's flush, or a flusher that gives up, is poked by hooks until it ends, and leaves nobody.
func TestWhatNobodyCanSendIsPutAside(t *testing.T) {
	o := newOffice(t)
	o.report("a", "one")
	o.env["GOOGLE_CHAT_WEBHOOK_URL"] = "https://chat.googleapis.com/v1/spaces/NEW/messages?key=k&token=t" // the webhook changed
	o.clock = o.clock.Add(60 * 24 * time.Hour)
	left := o.Flush(t.Context())
	ms, _ := o.outbox().Waiting()
	if len(ms) == 1 && len(o.outbox().Dead()) == 0 && ms[0].LastError == "" {
		t.Errorf("60 days, never parked, no reason: %+v", left)
	}
}

// A flusher that gives up on one message leaves what is held for a digest to nobody.
func TestAFailureOrphansNoDigest(t *testing.T) {
	o := newOffice(t)
	write(t, filepath.Join(o.env["CLAUDE_PROJECT_DIR"], ".claude", "gchat-hooks.json"), `{"reports":{"heartbeat":"digest"}}`)
	o.Poller.Now = nil
	o.clock = time.Now()
	o.fault = func(text string, w http.ResponseWriter) bool {
		if text == "fails" {
			answer(w, 503, "no")
			return true
		}
		return false
	}
	o.report("a", "fails")
	out := o.report("a", "for the digest", func(r *Report) { r.Type = "heartbeat"; r.Session = "s" })
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	left := o.FlushDetached(ctx, time.Second) // an hour for hooks
	if left.GaveUp && time.Now().Before(out.HeldUntil) {
		t.Errorf("gave up with a digest due in %s: nobody sends it", time.Until(out.HeldUntil).Round(time.Second))
	}
}

// A poke did not renew the patience: what was put a moment before it ended was left after one try.
func TestAPokeRenewsThePatience(t *testing.T) {
	o := newOffice(t)
	o.Poller.Now = nil
	o.fault = refuse(503)
	o.report("a", "old")
	done := make(chan Left, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- o.FlushDetached(ctx, 3*time.Second) }()
	for range 8 { // longer than the patience, and never as long without a poke
		time.Sleep(500 * time.Millisecond)
		_ = touchPoke(o)
	}
	select {
	case left := <-done:
		t.Errorf("it ended: %+v", left)
		done <- left
	default:
	}
	cancel()
	<-done // it works in the test's folders
}

func touchPoke(o *office) error { return state.Touch(pokePath(o.Env)) }

// What could not be sent before the quiet hours goes within them.
func TestWhatFailedBeforeQuietHoursIsHeldInThem(t *testing.T) {
	o := newOffice(t)
	now := o.clock
	write(t, filepath.Join(o.env["CLAUDE_PROJECT_DIR"], ".claude", "gchat-hooks.json"), fmt.Sprintf(`{"quiet_hours":{"from":%q,"to":%q}}`, now.Add(5*time.Minute).Format("15:04"), now.Add(3*time.Hour).Format("15:04")))
	o.fault = refuse(503)
	o.report("a", "fyi")
	o.Send(t.Context())
	o.fault = nil
	o.clock = o.clock.Add(30 * time.Minute)
	o.Send(t.Context())
	if len(o.texts()) > 0 {
		t.Error("sent within quiet hours")
	}
}

// A digest counts parts as messages, and cuts the parts of a long one anew.
func TestADigestOfALongReport(t *testing.T) {
	o := newOffice(t)
	write(t, filepath.Join(o.env["CLAUDE_PROJECT_DIR"], ".claude", "gchat-hooks.json"), `{"reports":{"plain":"digest"}}`)
	long := ""
	for i := range 9000 {
		long += fmt.Sprintf("word%d ", i)
	}
	o.report("a", long)
	o.report("a", "short")
	o.clock = o.clock.Add(2 * time.Hour)
	o.Send(t.Context())
	for _, x := range o.texts() {
		if len(x) < 60 {
			t.Errorf("%d bytes: %.60q of two reports", len(x), x)
		}
	}
}

func smallState(t *testing.T, o *office) {
	dir := filepath.Join(o.env["XDG_STATE_HOME"], "gchat-hooks")
	os.MkdirAll(dir, 0o700)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("mount: %s", out)
	}
	t.Cleanup(func() { exec.Command("umount", "-l", dir).Run() })
}

func fillUp(dir string) {
	f, err := os.Create(filepath.Join(dir, "fill"))
	for b := make([]byte, 512); err == nil; _, err = f.Write(b) {
	}
	f.Close()
}

func TestAFullDiskIsNotSpunOn(t *testing.T) {
	for _, code := range []int{200, 400, 500, 413} {
		o := newOffice(t)
		smallState(t, o)
		o.Poller.Now = nil
		gets := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				gets++
			}
			o.ServeHTTP(w, r)
		}))
		defer server.Close()
		o.env["GOOGLE_CHAT_WEBHOOK_URL"] = o.space.WebhookURL(server.URL)
		if code != 200 {
			o.fault = refuse(code)
		}
		o.report("a", "one")
		fillUp(filepath.Join(o.env["XDG_STATE_HOME"], "gchat-hooks"))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		o.Send(ctx)
		cancel()
		if len(o.posts)+gets > 12 {
			t.Errorf("Chat answers %d, disk full: %d posts of one message and %d lists of the space in 2 s, in one pass that ends only with ctx", code, len(o.posts), gets)
		}
	}
}
