package poller

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// addUnanswered adds a question that has waited for a minute.
func (d *testMachine) addUnanswered(change func(*state.Question)) *state.Question {
	d.t.Helper()
	return d.addPosted(func(q *state.Question) {
		q.AskedAt, q.SessionName = time.Now().Add(-time.Minute).UTC(), "shop"
		if change != nil {
			change(q)
		}
	})
}

// callOnce has a new poller enqueue the calls that are due.
func (d *testMachine) callOnce() *Poller {
	d.t.Helper()
	p := d.newReadyPoller()
	for _, record := range p.ownOldestFirst() {
		p.callWhenDue(d.t.Context(), record)
	}
	return p
}

// callAndSend has a new poller enqueue the calls that are due, and send them.
func (d *testMachine) callAndSend() {
	d.t.Helper()
	d.callOnce().newSender().sendUntilIdle(d.t.Context())
}

// isCallQueued reports whether a call for a question is in the outbox.
func (d *testMachine) isCallQueued(q *state.Question) bool {
	d.t.Helper()
	message, err := d.outbox().FindByKey("call-" + q.QuestionID)
	kit.NoError(d.t, err)
	return message != nil
}

// A poller that is killed after any step calls once, and never for what is over. If it is
// killed before it recorded the server's answer, the next one calls with the same id.
func TestCall_KilledAtEachStep(t *testing.T) {
	const call, end = "4 shop: Question: Deploy", "1 shop: Over: Question: Deploy"
	type world struct {
		*testMachine
		q *state.Question
	}
	reopen := func(w *world, key string) { // its end was not written
		message, err := w.outbox().FindByKey(key)
		kit.NoError(t, err)
		_, err = w.outbox().Change(message.Path, func(m *state.Message) {
			m.SentAt, m.EndedAt = time.Time{}, time.Time{}
		})
		kit.NoError(t, err)
	}
	forgetCall := func(w *world) {
		w.changeQuestion(w.q, func(q *state.Question) { q.CalledAt = nil })
	}
	answer := func(w *world) { w.closeQuestion(w.q, state.Resolved, "terminal") }
	for name, c := range map[string]struct {
		kill  func(w *world) // what is done, up to the kill
		lines []string
	}{
		"before anything": {func(*world) {}, []string{call}},
		"before the call": {func(w *world) { w.callOnce() }, []string{call}},
		"before the call, and answered": {
			func(w *world) { w.callOnce(); answer(w) }, nil,
		},
		"before the answer was recorded": {
			func(w *world) {
				w.callAndSend()
				forgetCall(w)
				reopen(w, "call-"+w.q.QuestionID)
			}, []string{call, call},
		},
		"before the answer was recorded, and answered": {
			func(w *world) {
				w.callAndSend()
				forgetCall(w)
				reopen(w, "call-"+w.q.QuestionID)
				answer(w)
			}, []string{call, end},
		},
		"before the message was finished": {
			func(w *world) {
				w.callAndSend()
				reopen(w, "call-"+w.q.QuestionID)
			}, []string{call},
		},
		"after the call": {func(w *world) { w.callAndSend() }, []string{call}},
		"before the end was recorded": {
			func(w *world) {
				w.callAndSend()
				answer(w)
				w.callAndSend()
				w.changeQuestion(w.q, func(q *state.Question) { q.IsCallOver = false })
			}, []string{call, end},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := strict.NewCallServer(t)
			w := &world{testMachine: newTestMachine(t)}
			w.writeConfig(notifyBy(server, "1s"))
			w.q = w.addUnanswered(func(q *state.Question) { q.SubQuestions[0].Header = "Deploy" })
			c.kill(w)
			w.callAndSend()
			w.callAndSend()
			kit.Equal(t, server.Lines(), c.lines)
			kit.True(t, server.Shown() <= 1, "%d notifications", server.Shown())
		})
	}
}

// A poller process is killed while the server has its call. The next process calls again,
// and the phone shows one notification.
func TestCall_KilledInFlight(t *testing.T) {
	t.Parallel()
	d, server := newCalledMachine(t, "1s", http.StatusOK)
	q := d.addUnanswered(nil)
	var first *exec.Cmd
	var killed sync.Once
	ready, hasEnded := make(chan struct{}), make(chan struct{})
	server.OnCall(func() {
		<-ready
		killed.Do(func() {
			_ = first.Process.Kill()
			_ = first.Wait()
			close(hasEnded)
		})
	})
	first = d.pollerProcess()
	close(ready)
	bound.Until(t, "the first is killed", func() bool { // a second beside it would end at once
		select {
		case <-hasEnded:
			return true
		default:
			return false
		}
	})
	second := d.pollerProcess()
	t.Cleanup(func() { _ = second.Process.Kill(); _ = second.Wait() })
	d.awaitQuestion(q, "the second calls", func(q *state.Question) bool { return q.CalledAt != nil })
	kit.Equalf(t, len(server.Received()), 2, "calls")
	kit.Equalf(t, server.Shown(), 1, "notifications")
}

// A [BLOCKED] message notifies at once, also in quiet hours, and once.
func TestCall_BlockedAlert(t *testing.T) {
	o, server := newSendTest(t), strict.NewCallServer(t)
	o.writeConfig(strings.Replace(notifyBy(server, "1h"), "{", "{"+quietNow(o.now())+",", 1))
	o.enqueueReport("a", "stuck", func(message *state.Message) {
		message.IsUrgent = true
		message.Report.Type, message.Report.SessionName = state.ReportBlockedAlert, "shop"
	})
	o.enqueueReport("b", "an error", func(message *state.Message) {
		message.IsUrgent, message.Report.Type = true, state.ReportFailure
	})
	o.send()
	o.sendAfter(time.Hour)
	kit.Equal(t, server.Lines(), []string{"5 shop: Blocked"})
}

// quietNow is a setting: it is quiet for an hour more.
func quietNow(now time.Time) string {
	return fmt.Sprintf(`"quiet_hours":{"from":%q,"to":%q}`,
		now.Add(-time.Hour).Format("15:04"), now.Add(time.Hour).Format("15:04"))
}

// Quiet hours hold the calls for plans, forms and the next instruction. They do not hold
// those for questions and permissions.
func TestCall_QuietHours(t *testing.T) {
	d, server := newTestMachine(t), strict.NewCallServer(t)
	d.writeConfig(strings.Replace(notifyBy(server, "1s"), "{", "{"+quietNow(time.Now())+",", 1))
	isHeld := map[state.Kind]bool{
		state.KindQuestion: false, state.KindPermission: false,
		state.KindPlan: true, state.KindForm: true, state.KindPrompt: true,
	}
	questions := map[state.Kind]*state.Question{}
	for kind := range isHeld {
		questions[kind] = d.addUnanswered(func(q *state.Question) {
			q.Kind, q.Mode = kind, state.ModeNative
		})
	}
	p := d.callOnce()
	for kind, held := range isHeld {
		kit.Equalf(t, d.isCallQueued(questions[kind]), !held, "%q is called for in quiet hours", kind)
	}
	p.Now = shifted(time.Hour)
	for _, record := range p.ownOldestFirst() {
		p.callWhenDue(t.Context(), record)
	}
	for kind := range isHeld {
		kit.True(t, d.isCallQueued(questions[kind]), "%q is not called for after the quiet hours", kind)
	}
}

// While the person types in the session's pane, in a real tmux, nobody is called.
func TestCall_NotWhileThePersonTypes(t *testing.T) {
	t.Parallel()
	d, _ := newCalledMachine(t, "30s", http.StatusOK)
	socket, pane := d.startTmux("claude")
	q := d.addUnanswered(func(q *state.Question) { q.TmuxSocket, q.TmuxPane = socket, pane })
	desk := socket + "-desk"
	runTmux(t, desk, "-f", os.DevNull, "new-session", "-d", "-x", "100", "-y", "30",
		"unset TMUX; exec tmux -u -S "+socket+" attach -t =claude")
	t.Cleanup(func() { _ = bound.Command(t, "tmux", "-S", desk, "kill-server").Run() })
	lastKeyAt := func() time.Time {
		last, err := inject.Server{Socket: socket}.LastTyped(t.Context(), pane)
		kit.NoError(t, err)
		return last
	}
	bound.Until(t, "a terminal shows the session", func() bool { return !lastKeyAt().IsZero() })
	attachedAt := lastKeyAt()
	bound.Until(t, "a key counts", func() bool { // tmux counts whole seconds
		runTmux(t, desk, "send-keys", "x")
		return lastKeyAt().After(attachedAt)
	})
	p, record := d.readFirst()
	callAt := func(at time.Time) (retryAt time.Time) {
		p.Now = func() time.Time { return at }
		return p.callWhenDue(t.Context(), record)
	}
	last := lastKeyAt()
	soon := last.Add(29 * time.Second)
	kit.Equalf(t, callAt(soon), soon.Add(typingCheckInterval), "looked at again")
	kit.True(t, !d.isCallQueued(q), "the person is called while they type")
	callAt(last.Add(31 * time.Second))
	kit.True(t, d.isCallQueued(q), "the person is not called after they left")
}

// Beside Google Chat, a tap leads to the thread there. However long a name is, the server
// takes the call.
func TestCall_BesideGoogleChat(t *testing.T) {
	d, server := newTestMachine(t), strict.NewCallServer(t)
	d.writeConfig(strings.Replace(notifyBy(server, "1s"), `"token"`,
		`"page": "https://box.example/", "token"`, 1))
	d.addUnanswered(func(q *state.Question) {
		q.Chat, q.ThreadName = "chat.googleapis.com/spaces/AAAA", "spaces/AAAA/threads/T1"
		q.SessionName = strings.Repeat("né ", 5000)
		q.SubQuestions[0].Header = strings.Repeat("h\n", 5000)
	})
	d.callAndSend()
	kit.Must(t, len(server.Received()) == 1, "%d calls", len(server.Received()))
	call := server.Received()[0]
	kit.Equal(t, call.Click, "https://chat.google.com/room/AAAA/T1")
	kit.True(t, len(call.Title) <= maxCallLine && len(call.Text) <= maxCallLine, "%d and %d bytes",
		len(call.Title), len(call.Text))
}
