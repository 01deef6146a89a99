package poller

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// thread is a thread of an office with a person in it who may answer.
type thread struct {
	*office
	name string
}

func newThread(t *testing.T, text string) *thread {
	t.Helper()
	o := newOffice(t)
	o.env["GCHAT_ALLOWED_USERS"] = space.Human
	th := &thread{office: o}
	th.asks(text)
	o.pass()
	th.name = o.space.Messages()[0].Thread.Name
	return th
}

func (th *thread) asks(text string) {
	th.t.Helper()
	th.report("s", text, func(r *Report) { r.ThreadKey = "build" })
}

func (th *thread) replies(text string) {
	th.t.Helper()
	if _, err := th.space.Say(&chat.User{Name: space.Human, Type: "HUMAN"}, th.name, text); err != nil {
		th.t.Fatal(err)
	}
}

// hears is what one process that waits in the thread has with its first look; "" for nothing.
func (th *thread) hears() string {
	th.t.Helper()
	p := &Poller{Env: th.Env, Log: th.Log}
	r, err := p.AwaitInThread(th.t.Context(), th.name, time.Now())
	if err != nil && !errors.Is(err, ErrNoReply) {
		th.t.Fatal(err)
	}
	return r.Text
}

// A reply in a thread that no question is known of is delivered once: it is none to what is asked there next.
func TestReplyInAThreadIsDeliveredOnce(t *testing.T) {
	th := newThread(t, "Start the build?")
	th.replies("yes")
	th.replies("and quickly")
	for _, want := range []string{"yes", "and quickly", ""} {
		if got := th.hears(); got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
	th.replies("still there?")
	if got := th.hears(); got != "still there?" {
		t.Errorf("the next reply: heard %q", got)
	}
}

// What is asked next and not in its space yet is not answered by what was said before it, nor by who has not seen it.
func TestNobodyAnswersWhatWaitsInTheOutbox(t *testing.T) {
	th := newThread(t, "Start the build?")
	th.replies("yes")
	th.fault = func(_ string, w http.ResponseWriter) bool { w.WriteHeader(http.StatusServiceUnavailable); return true }
	th.asks("It is red. Delete the database and start over?")
	th.pass()
	th.replies("go on")
	if got := th.hears(); got != "" {
		t.Errorf("heard %q", got)
	}
	th.fault, th.clock = nil, th.clock.Add(time.Hour)
	th.pass()
	if got := th.hears(); got != "" {
		t.Errorf("with the message in its space: heard %q", got)
	}
	th.replies("no!")
	if got := th.hears(); got != "no!" {
		t.Errorf("heard %q", got)
	}
}

// Of several threads that one process waits in, only one reply is taken: a second would be printed by nobody.
func TestOneProcessTakesOneReply(t *testing.T) {
	th := newThread(t, "Start the build?")
	th.replies("yes")
	p := &Poller{Env: th.Env, Log: th.Log}
	p.took.Store(true)
	if r, err := p.AwaitInThread(t.Context(), th.name, time.Now()); !errors.Is(err, ErrNoReply) {
		t.Errorf("%v, %v", r, err)
	}
	if is := state.TakenIn(p.user(), th.name); is.MessageName != "" {
		t.Errorf("taken: %+v", is)
	}
	if got := th.hears(); got != "yes" {
		t.Errorf("another process heard %q", got)
	}
}
