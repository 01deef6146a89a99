package poller

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	chatapi "google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func TestPullEvents_TapIsTheAnswer(t *testing.T) {
	d, g := newAppMachine(t)
	q, card := d.addCardQuestion(nil)
	d.runPoller(Options{Daemon: true})
	m := g.awaitPost("Which?")
	kit.True(t, m.Text == "" && len(m.CardsV2) == 1 && strings.Contains(m.FallbackText, "2. Two"),
		"text %q, fallback %q, %d cards", m.Text, m.FallbackText, len(m.CardsV2))
	id := g.tap("users/2", m, card, "2", nil)
	q = d.awaitQuestion(q, "answered", isAnswered)
	kit.True(t, q.Answers["Which?"] == "Two" && q.AnsweredBy == "users/2" &&
		q.AnsweredByName == "Ann" && q.AnsweredMessage == "tap/"+id,
		"%+v", q)
	d.changeQuestion(q, func(q *state.Question) {})
	d.closeQuestion(q, state.Resolved, "chat")
	g.awaitPatch(m.Name, "Two")
	kit.Equalf(t, g.listCount.Load(), 0, "the space was listed")
	kit.True(t, len(g.unexpectedRequests) == 0, "asked for %q", g.unexpectedRequests)
}

// The event's user is the one who tapped, whatever the card carries. A second tap changes
// nothing, nor does one on the card of a closed question.
func TestPullEvents_WhoseTapCounts(t *testing.T) {
	t.Parallel()
	d, g := newAppMachine(t)
	q, card := d.addCardQuestion(func(q *state.Question) {
		q.Kind, q.ToolName, q.Approvers = state.KindPermission, "Bash", &[]string{"users/1"}
		q.SubQuestions[0].Options = []state.Option{
			{Label: state.LabelAllow}, {Label: state.LabelDeny},
		}
	})
	d.startWaiter(q) // the hook
	other, _ := d.addCardQuestion(nil)
	d.runPoller(Options{Daemon: true})
	m := g.awaitPost("[Permission]")
	g.awaitPost("Which?")
	g.tap("users/1", m, strings.Repeat("0", 32), "allow", nil)
	g.tap("users/1", m, "", "allow", nil)
	for i, tap := range []struct{ by, choice, why string }{
		{"users/9", "allow", ""},  // a stranger
		{"users/2", "allow", ""},  // may answer questions, and not decide
		{"users/1", "always", ""}, // is not offered
		{"users/1", "deny", "use git mv"}, {"users/1", "allow", ""},
	} {
		g.tap(tap.by, m, card, tap.choice, map[string]string{"w1": tap.why})
		q = d.awaitQuestion(q, "judged", func(q *state.Question) bool {
			return len(q.Replies) == i+1 && !q.HasUnreadReply()
		})
	}
	label, why := q.Decision()
	kit.True(t, label == state.LabelDeny && why == "use git mv", "%q, %q", label, why)
	var verdicts []string
	for _, r := range q.Replies {
		verdicts = append(verdicts, string(r.Verdict))
	}
	got := strings.Join(verdicts, " ")
	kit.True(t, got == "refused refused asked_back used late", "%v", got)
	stored := d.loadQuestion(other)
	kit.True(t, len(stored.Replies) == 0, "another question has %+v", stored.Replies)
}

// A direct message to the app answers the question whose thread it is in, or whose
// message it quotes.
func TestPullEvents_DirectMessageAnswers(t *testing.T) {
	t.Parallel()
	d, g := newAppMachine(t)
	one, _ := d.addCardQuestion(nil)
	var later testClock
	d.runPoller(Options{Daemon: true, Now: later.now})
	m := g.awaitPost("Which?")
	e := newEvent("MESSAGE", "users/1", g.addHumanMessage(m.Thread.Name, "2 - soon", ""))
	g.publish(e)
	g.publish(e)
	q := d.awaitQuestion(one, "answered", isAnswered)
	kit.True(t, q.Answers["Which?"] == "Two" && q.Notes["Which?"] == "soon" && len(q.Replies) == 1,
		"%+v", q)
	two, _ := d.addCardQuestion(nil)
	m = g.awaitPost(two.ThreadKey)
	for _, ago := range []time.Duration{
		2 * time.Minute, 25 * time.Hour, -250 * 365 * 24 * time.Hour,
	} {
		// the last lies ahead
		e := newEvent("MESSAGE", "users/1", g.addHumanMessage(appSpace+"/threads/new", "1", ""))
		e.EventTime = time.Now().Add(-ago).UTC().Format(time.RFC3339Nano)
		g.awaitDelivered(g.publish(e))
	}
	g.awaitAcknowledged()
	kit.True(t, !bound.WaitFor(300*time.Millisecond,
		func() bool { return g.countMessages("[Not used]") > 0 }),
		"answered before its record could be written")
	later.Store(int64(undecidedTimeout))
	g.awaitPost("Nothing here is waiting for that")
	g.awaitAcknowledged()
	g.publish(newEvent("MESSAGE", "users/1",
		g.addHumanMessage(appSpace+"/threads/newer", "1", m.Name)))
	d.awaitQuestion(two, "answered", isAnsweredWith("One"))
}

// The app may be in spaces where this machine posts nothing. The poller acknowledges the
// events from there and answers none.
func TestPullEvents_OtherSpaceIsIgnored(t *testing.T) {
	d, g := newAppMachine(t)
	d.writeConfig(`{"start_sessions": true}`)
	d.addCardQuestion(nil)
	var later testClock
	d.runPoller(Options{Daemon: true, Now: later.now})
	g.awaitPost("Which?")
	elsewhere := &chatapi.Message{
		Name: "spaces/OTHER/messages/M", Text: "hello", Thread: &chatapi.Thread{
			Name: "spaces/OTHER/threads/T",
		},
		Sender: &chatapi.User{Name: "users/1", Type: "HUMAN"},
	}
	asksForSession := *elsewhere
	asksForSession.Name, asksForSession.Text =
		"spaces/OTHER/messages/N", "/new "+state.MachineName()+" shop fix it"
	g.publish(newEvent("MESSAGE", "users/1", elsewhere))
	g.publish(newEvent("MESSAGE", "users/1", &asksForSession))
	g.tap("users/1", elsewhere, strings.Repeat("0", 32), "1", nil)
	g.publish(newEvent("MESSAGE", "users/1", g.addHumanMessage(appSpace+"/threads/new", "hello",
		"")))
	bound.Until(t, "all events are acknowledged", func() bool {
		later.Add(int64(undecidedTimeout))
		return g.countUnacknowledged() == 0
	})
	g.awaitPost("Nothing here is waiting for that")
	kit.True(t, len(g.posts) == 2 && len(g.unexpectedRequests) == 0,
		"%d messages are posted, asked for %q", len(g.posts), g.unexpectedRequests)
}

// In a space an app gets only messages that mention it. So the poller lists the space
// where that is allowed. Otherwise it reports no error.
func TestPullEvents_SpaceIsListed(t *testing.T) {
	t.Parallel()
	for name, locked := range map[string]bool{"listed": false, "not to be listed": true} {
		t.Run(name, func(t *testing.T) {
			d, g := newAppMachine(t)
			g.spaceType, g.isListForbidden = "SPACE", locked
			q, card := d.addCardQuestion(nil)
			d.runPoller(Options{Daemon: true})
			m := g.awaitPost("Which?")
			message := g.addHumanMessage(m.Thread.Name, "2", "")
			g.mu.Lock()
			g.humanMessages = append(g.humanMessages, message)
			g.mu.Unlock()
			if locked {
				bound.Until(t, "the space is listed", func() bool { return g.listCount.Load() > 0 })
				g.tap("users/1", m, card, "2", nil)
			}
			d.awaitQuestion(q, "answered", isAnsweredWith("Two"))
			n := g.listCount.Load()
			kit.True(t, n == 1 || n > 1 && !locked, "listed %d times", n)
			kit.Equalf(t, g.countMessages("cannot be read"), 0, "notes about it")
		})
	}
}

// A tap that comes while no poller runs is used once, even if acknowledgements are lost.
func TestPullEvents_RepeatedTapCountsOnce(t *testing.T) {
	t.Parallel()
	kit.SkipShort(t, "ten seconds pass until an event comes again")
	d, g := newAppMachine(t)
	q, card := d.addCardQuestion(nil)
	end := d.runPoller(Options{Daemon: true})
	m := g.awaitPost("Which?")
	_ = end()
	g.losesAcks.Store(true)
	id := g.tap("users/1", m, card, "1", nil)
	d.runPoller(Options{Daemon: true})
	d.awaitQuestion(q, "answered", isAnswered)
	bound.Until(t, "an acknowledgement is lost", func() bool { return g.lostAcks.Load() > 0 })
	g.losesAcks.Store(false)
	g.awaitAcknowledged()
	delivered := g.pubsubServer.Message(id).Deliveries
	kit.True(t, delivered >= 2, "delivered %d times", delivered)
	q = d.loadQuestion(q)
	kit.True(t, len(q.Replies) == 1, "%+v", q.Replies)
}

// Of ten thousand events in any order none is lost and none is used twice, while the
// poller is killed many times.
func TestPullEvents_SurviveKills(t *testing.T) {
	t.Parallel()
	questions, each, limit := 10, 20, 3*time.Minute
	if testing.Short() {
		questions, each = 4, 5
	}
	if os.Getenv("GCHAT_LOAD") != "" {
		questions, each, limit = 100, 100, 10*time.Minute
	}
	d, g := newAppMachine(t)
	cards, want := map[string]*state.Question{}, map[string][]string{}
	for range questions {
		q, card := d.addCardQuestion(func(q *state.Question) { d.markPostedByApp(q, g) })
		cards[card] = q
	}
	for n := range each {
		for card, q := range cards { // in any order
			user := fmt.Sprint("users/9", n) // of one stranger, one is kept
			if n == each/2 {
				user = "users/1"
			}
			m := g.message(q.MessageName)
			want[q.Path] = append(want[q.Path], "tap/"+g.tap(user, m, card, "1", nil))
		}
	}
	killed := 0
	inbox := d.inbox()
	isDone := func() bool {
		left, _ := inbox.Names()
		return g.countUnacknowledged() == 0 && len(left) == 0
	}
	for end := time.Now().Add(limit); !isDone() && time.Now().Before(end); killed++ {
		cmd := d.pollerProcess()
		lives := time.Duration(50+killed*killed%97*12) * time.Millisecond
		bound.WaitFor(lives, isDone)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	for _, q := range cards {
		stored := d.loadQuestion(q)
		var got []string
		used := 0
		for _, r := range stored.Replies {
			got = append(got, r.MessageName)
			if r.Verdict == state.VerdictUsed {
				used++
			}
		}
		slices.Sort(got)
		slices.Sort(want[q.Path])
		kit.True(t, slices.Equal(got, want[q.Path]),
			"%s has %d taps, want %d", q.QuestionID, len(got), len(want[q.Path]))
		kit.True(t, used <= 1, "%s was answered %d times", q.QuestionID, used)
	}
	t.Logf("%d events, the poller killed %d times", questions*each, killed)
}

// pollerProcess starts a poller of this machine in a process of its own.
func (d *testMachine) pollerProcess() *exec.Cmd {
	d.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"GCHAT_TEST_POLLER=1"}
	for name, value := range d.vars {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	kit.NoError(d.t, cmd.Start())
	return cmd
}

// markPostedByApp marks a question's card as posted in the app's space.
func (d *testMachine) markPostedByApp(q *state.Question, g *fakeGoogle) {
	m := g.post([]byte("{}"), "")
	at := q.AskedAt
	q.IsMessageSent, q.ThreadName, q.MessageName, q.CardMessage =
		true, m.Thread.Name, m.Name, m.Name
	q.Space, q.PostedAt, q.Chat = appSpace, &at, strings.TrimPrefix(g.url, "http://")+"/"+appSpace
}

// A card that a person deleted in Chat needs no update. The update counts as done.
func TestPullEvents_DeletedCardIsLeft(t *testing.T) {
	d, g := newAppMachine(t)
	q, _ := d.addCardQuestion(nil)
	d.runPoller(Options{Daemon: true})
	g.awaitPost("Which?")
	q = d.awaitQuestion(q, "posted", hasCard)
	g.mu.Lock()
	g.posts = nil
	g.mu.Unlock()
	d.closeQuestion(q, state.Cancelled, "terminal")
	box := d.outbox()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		all, err := box.All()
		i := slices.IndexFunc(all, func(message *state.Message) bool {
			return message.PatchedMessage != "" && message.IsFinal()
		})
		if i >= 0 && all[i].SetAsideReason == "" {
			return
		}
		kit.Must(t, err == nil && i < 0 && !time.Now().After(end), "%v, %+v", err, all)
	}
}

// lostConnection stands in for Google behind a connection that breaks during two pulls.
type lostConnection struct{ pulls atomic.Int64 }

func (l *lostConnection) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := `{"access_token":"ya29.access","expires_in":3600,"token_type":"Bearer"}`
	if strings.HasSuffix(r.URL.Path, ":pull") {
		if l.pulls.Add(1) <= maxPulls {
			return nil, errors.New("http2: client connection lost")
		}
		answer = "{}"
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header,
		Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
}

// A pull from a subscription that the configuration has ceased to name keeps no poller
// running.
func TestPullEvents_LeavesSubscription(t *testing.T) {
	d, g := newAppMachine(t)
	p := d.newPoller()
	step := func() (isBusy bool) { _, isBusy = p.step(t.Context()); return isBusy }
	held := func(subscription string) bool {
		lock, err := state.SpacesIn(p.userStateDir).LockReader(subscription)
		lock.Unlock()
		return errors.Is(err, state.ErrLocked)
	}
	g.publish(newEvent("MESSAGE", "users/1", g.addHumanMessage(appSpace+"/threads/new", "hello",
		"")))
	bound.Until(t, "a message that no record knows yet is kept", step)
	other := appSubscription + "-other"
	g.subscribe(other)
	d.vars["GCHAT_PUBSUB_SUBSCRIPTION"] = other
	bound.Until(t, "it turns to the other subscription", func() bool { step(); return held(other) })
	kit.True(t, !held(appSubscription), "the first one is still held")
	g.publish(newEvent("MESSAGE", "users/1",
		g.addHumanMessage(appSpace+"/threads/newer", "hello", "")))
	bound.Until(t, "a message is kept again", step)
	delete(d.vars, "GCHAT_PUBSUB_SUBSCRIPTION")
	bound.Until(t, "nothing is kept without a subscription", func() bool { return !step() })
	kit.True(t, !held(other), "the second one is still held")
}

// After the computer slept, the log says once that the connection was lost, and the next
// pull does not wait.
func TestPullEvents_LostConnectionLoggedOnce(t *testing.T) {
	file := strict.ServiceAccount(t, "https://token.example/")
	was := http.DefaultTransport
	http.DefaultTransport = &lostConnection{}
	t.Cleanup(func() { http.DefaultTransport = was })

	d := newTestMachine(t)
	p := d.newPoller()
	app, err := gchat.NewApp(t.Context(), &config.Config{
		SpaceID: appSpace, Subscription: appSubscription, CredentialsFile: file,
	})
	kit.NoError(t, err)
	p.puller.switchTo(appSubscription, nil)
	for range maxPulls {
		p.puller.runningPulls++
		p.pullEvents(t.Context(), app)
		kit.True(t, p.puller.nextPullAt.IsZero() && p.puller.failedPulls == 0,
			"the next pull waits")
	}
	log := kit.ReadFile(t, state.LogPath(d.env))
	kit.True(t, strings.Count(log, "connection was lost") == 1 && strings.Count(log, "\n") == 1,
		"the log: %s", log)
}

// otherMachineEvents is an app whose cards were posted while the machine had another
// subscription.
type otherMachineEvents struct {
	eventSource
	chat string
}

func (otherMachineEvents) IsForOtherMachine(*wording.Tap) bool { return true }
func (e otherMachineEvents) Chat() string                      { return e.chat }

// A card of ours may name a subscription from before a new setup. A tap on it counts
// right after a poller started.
func TestPullEvents_CardOfEarlierSetup(t *testing.T) {
	x := newTestSession(t, nil)
	q := x.addQuestion(x.markPosted)
	x.beginThread(q)
	x.poller.readIndex()
	q = x.loadQuestion(q)
	card := gchat.Message{Name: q.MessageName, ThreadName: q.ThreadName}
	tap := &wording.Tap{QuestionID: state.CardID(x.env, q.QuestionID), Choice: "2"}
	err := x.poller.addEvent(otherMachineEvents{chat: x.reader.chat}, gchat.PulledEvent{
		ID: "e", Event: gchat.Event{
			At: time.Now(), Person: gchat.Person{Name: "users/1"}, IsHuman: true, Message: card,
			Tap: tap,
		},
	})
	kit.NoError(t, err)
	kit.True(t, x.countUnfinished() == 1,
		"the tap is acknowledged as another machine's, and is nowhere")
}

// A tap or a reply counts even if it comes before Google has answered the post of its
// question.
func TestPullEvents_BeforeReceipt(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(d *testMachine, g *fakeGoogle,
		m *chatapi.Message) string{
		"a reply": func(_ *testMachine, g *fakeGoogle, m *chatapi.Message) string {
			return g.publish(newEvent("MESSAGE", "users/1",
				g.addHumanMessage(m.Thread.Name, "2", "")))
		},
		"a tap": func(d *testMachine, g *fakeGoogle, m *chatapi.Message) string {
			unnamed := *m
			unnamed.Name = ""
			g.tap("users/1", &unnamed, buttonCardID(d.t, m), "1", nil)
			return g.tap("users/1", m, buttonCardID(d.t, m), "2", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, g := newAppMachine(t)
			g.postGate = make(chan struct{})
			q, _ := d.addCardQuestion(nil)
			d.runPoller(Options{Daemon: true})
			g.awaitDelivered(write(d, g, g.awaitPost("Which?")))
			isUsed := func() bool { return len(d.loadQuestion(q).Replies) > 0 }
			kit.True(t, !bound.WaitFor(time.Second, isUsed), "used before the receipt is there")
			close(g.postGate)
			q = d.awaitQuestion(q, "answered", isAnsweredWith("Two"))
			kit.Equalf(t, len(q.Replies), 1, "replies")
			kit.Equalf(t, g.countMessages("[Not used]"), 0, "notes that it was not used")
		})
	}
}

// A question's message arrived, the answer to its post was lost, and Chat does not find
// it at once. The poller searches for it until a tap on it can count.
func TestPullEvents_TapOnLateFoundMessage(t *testing.T) {
	t.Parallel()
	d, g := newAppMachine(t)
	q := d.writeQuestion(nil)
	m := g.post([]byte("{}"), state.MessageID("question", q.QuestionID))
	g.hidesPosts.Store(true)
	kit.NoError(t, state.AddQuestionToIndex(d.env, q))
	d.runPoller(Options{Daemon: true})
	d.awaitQuestion(q, "sent, and not found", func(q *state.Question) bool {
		return q.PostError != "" || q.IsMessageSent
	})
	g.hidesPosts.Store(false)
	d.awaitQuestion(q, "found", func(q *state.Question) bool {
		return q.MessageName == m.Name && q.CardMessage != ""
	})
	g.tap("users/1", m, state.CardID(d.env, q.QuestionID), "2", nil)
	d.awaitQuestion(q, "answered", isAnsweredWith("Two"))
}
