package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/gchat"
	"gchat-hooks/poller"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// RoundTrip tries a project's space: it posts to two threads, reads that back, and waits for a person's reply. doctor, setup
// and verify make it. It keeps nothing in the state folder: no hook and no poller sees its question.
type RoundTrip struct {
	Env        state.Getenv
	Log        *state.Log
	ProjectDir string        // whose configuration is tried; absolute
	Wait       time.Duration // for the person's reply; 0 asks for none
	Tell       func(string)  // a sentence for the person who is to reply
}

// Leg is one way of the trip.
type Leg struct {
	Name    string            `json:"name"` // out: from here to the space and back by listing; in: from a person to here
	Status  LegStatus         `json:"status"`
	What    string            `json:"what"`           // in a sentence
	Hint    string            `json:"hint,omitempty"` // what a person can do about it
	Threads map[string]string `json:"threads,omitempty"`
	By      string            `json:"by,omitempty"` // users/ID
	ReadAs  string            `json:"read_as,omitempty"`
	Refused []string          `json:"refused,omitempty"` // senders of replies who may not answer
}

// LegStatus is what became of a leg.
type LegStatus string

const (
	LegPass    LegStatus = "pass"
	LegFail    LegStatus = "fail"
	LegSkipped LegStatus = "skipped" // no person was to be asked
	LegCut     LegStatus = "cut"     // interrupted
)

const over = "This thread can be deleted."

// listedWithin is how long Chat has to list a message that it took.
const listedWithin = 15 * time.Second

const noThreads = "use a space with threads (in Google Chat: one that is no direct message), through the webhook's own URL; " +
	"what stands between must not drop messageReplyOption and threadKey"

// trip is a RoundTrip that was begun.
type trip struct {
	RoundTrip
	run    string
	cfg    *config.Config
	hook   *gchat.Webhook
	reader *gchat.Reader
	from   time.Time // what is listed is younger; the server's clock
}

// Run makes the trip, and returns its space and its legs. An error says why nothing could be posted or read: then nothing was.
func (r RoundTrip) Run(ctx context.Context) (chat string, legs []Leg, err error) {
	t := &trip{RoundTrip: r, run: uuid.NewString()[:8], cfg: config.Load(r.Env, r.ProjectDir)}
	t.Log.Hide(t.cfg.Secrets(r.Env)...)
	if t.hook, err = webhookOf(ctx, t.cfg, t.Log); err != nil {
		return "", nil, err
	}
	if t.reader, err = readerOf(ctx, t.cfg, t.hook); err != nil {
		return "", nil, err
	}
	t.from = time.Now()
	if _, err := t.list(ctx); err != nil { // a thread that cannot be read back is of no use
		return "", nil, err
	}
	ahead, _ := t.reader.Ahead()
	t.from = t.from.Add(ahead - 5*time.Second)
	out, question := t.out(ctx)
	legs = []Leg{out}
	switch {
	case out.Status != LegPass:
	case r.Wait <= 0:
		legs = append(legs, Leg{Name: "in", Status: LegSkipped, What: "no person was to be asked"})
	default:
		legs = append(legs, t.in(ctx, question))
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		told := over
		if as := legs[1].ReadAs; as != "" {
			told = "Read as: " + gchat.Line(gchat.Cut(as, 1000)) + ". " + over
		}
		_, _ = t.hook.Post(ctx, gchat.Post{Text: "[Verify] " + told, ThreadName: question.ThreadName})
	}
	return t.hook.Chat(), legs, nil
}

// out posts the question, a message to another thread, and one more to the question's thread, and finds all of them there, as a
// program's. A Chat that does not keep to thread keys begins a thread for each, or puts all into one.
func (t *trip) out(ctx context.Context) (Leg, *state.Question) {
	q := &state.Question{
		QuestionID: t.run, SessionName: "[Verify] round trip " + t.run, ThreadKey: "verify-" + t.run + "-a",
		Status: state.Pending, Mode: state.Native, Questions: []state.Prompt{{
			Header: "Verify", Question: "Round trip of gchat-hooks: reply ok in this thread.", OptionCount: 2,
			Options: []state.Option{{Label: "ok"}, {Label: "not ok"}},
		}},
	}
	text, again := gchat.QuestionText(q), "[Verify] 1. This is a program's message: it is no reply."
	if t.Wait <= 0 {
		text, again = "[Verify] Round trip of gchat-hooks. No reply is needed.", again+" "+over
	}
	leg, began := Leg{Name: "out", Threads: map[string]string{}}, time.Now()
	var sent []gchat.Posted
	for _, p := range []gchat.Post{
		{Text: text, ThreadKey: q.ThreadKey}, {Text: "[Verify] Another thread. " + over, ThreadKey: "verify-" + t.run + "-b"},
		{Text: again, ThreadKey: q.ThreadKey},
	} {
		done, err := t.hook.Post(ctx, p)
		if err != nil {
			return t.failed(ctx, leg, err), q
		}
		leg.Threads[p.ThreadKey] = done.ThreadName
		sent = append(sent, done)
	}
	posted := time.Since(began)
	q.ThreadName = sent[0].ThreadName
	err := error(nil)
	switch {
	case q.ThreadName == "":
		err = wrong("look what stands between here and Google Chat",
			"Chat's answer to a post names no thread: no reply could be bound to it")
	case sent[2].ThreadName != q.ThreadName || sent[1].ThreadName == q.ThreadName:
		err = wrong(noThreads, "thread keys are not kept to: one was mapped to %s and then to %s, another one to %s",
			q.ThreadName, sent[2].ThreadName, sent[1].ThreadName)
	default:
		err = t.find(ctx, sent)
	}
	if err != nil {
		return t.failed(ctx, leg, err), q
	}
	leg.Status = LegPass
	leg.What = fmt.Sprintf("three messages were posted in %d ms, and listed in their two threads as a program's %d ms later",
		posted.Milliseconds(), (time.Since(began) - posted).Milliseconds())
	return leg, q
}

// in waits for a person's reply in the question's thread, and reads it as the poller does.
func (t *trip) in(ctx context.Context, q *state.Question) Leg {
	leg, seen := Leg{Name: "in"}, map[string]bool{}
	t.Tell(fmt.Sprintf("waiting up to %s: reply ok in the thread of %q (Ctrl-C ends it)", state.InWords(t.Wait), q.SessionName))
	for until := time.Now().Add(t.Wait); ; {
		late := !time.Now().Before(until)
		listed, err := t.list(ctx) // where Chat stumbles, the next second's list tells
		if err != nil && (late || ctx.Err() != nil) {
			return t.failed(ctx, leg, err)
		}
		for _, m := range listed {
			if !m.Human || m.Deleted || m.ThreadName != q.ThreadName || seen[m.Name] {
				continue
			}
			seen[m.Name] = true
			who := gchat.Line(cmp.Or(strings.TrimSpace(m.Sender+" "+m.DisplayName), "a person"))
			cfg := config.Load(t.Env, t.ProjectDir) // a person who was refused may just have set the allowlist
			if !poller.Named(cfg.AllowedUsers, m.Sender, m.SenderEmail) {
				leg.Refused = append(leg.Refused, gchat.Line(m.Sender))
				told := who + " replied, but may not answer. If that is you: gchat-hooks setup --allow " + gchat.Line(m.Sender)
				t.Tell(told)
				if len(leg.Refused) == 1 {
					_, _ = t.hook.Post(ctx, gchat.Post{Text: "[Verify] " + told, ThreadName: q.ThreadName})
				}
				continue
			}
			answers, _, _ := gchat.ParseReply(m.Text, q.Questions, nil)
			if leg.ReadAs = answers[0].Value(); leg.ReadAs != "" {
				leg.Status, leg.By = LegPass, m.Sender
				leg.What = fmt.Sprintf("the reply of %s was read: %q means %q",
					who, gchat.Cut(m.Text, 200), gchat.Cut(leg.ReadAs, 200))
				return leg
			}
		}
		switch {
		case late && len(leg.Refused) > 0:
			return t.failed(ctx, leg, wrong("gchat-hooks setup --allow "+leg.Refused[0]+", if that is you",
				"only people replied who may not answer: %s", strings.Join(leg.Refused, ", ")))
		case late:
			return t.failed(ctx, leg, wrong("reply in the thread, or wait longer (--wait)",
				"no person replied within %s", state.InWords(t.Wait)))
		}
		pause(ctx, min(time.Second, time.Until(until)))
	}
}

// failed is a leg that err, or ctx, ended.
func (t *trip) failed(ctx context.Context, leg Leg, err error) Leg {
	leg.Status, leg.What, leg.Hint = LegFail, gchat.Cut(gchat.Line(t.Log.Clean(err.Error())), 400), Hint(err)
	if ctx.Err() != nil {
		leg.Status, leg.What, leg.Hint = LegCut, "interrupted", "run it again"
	}
	return leg
}

func wrong(hint, format string, args ...any) error {
	return &state.UserError{Err: fmt.Errorf(format, args...), Hint: hint}
}

func (t *trip) list(ctx context.Context) (listed []gchat.Message, err error) {
	_, err = t.reader.Since(ctx, t.hook.Space, t.from, func(page []gchat.Message) { listed = append(listed, page...) })
	return listed, err
}

// find lists until the messages are there, each as a program's.
func (t *trip) find(ctx context.Context, sent []gchat.Posted) error {
	until := time.Now().Add(listedWithin)
	for ; ; pause(ctx, 300*time.Millisecond) {
		listed, err := t.list(ctx)
		if err != nil {
			return err
		}
		missing := 0
		for _, s := range sent {
			i := slices.IndexFunc(listed, func(m gchat.Message) bool { return m.Name == s.Name })
			switch {
			case i < 0:
				missing++
			case listed[i].Human:
				return wrong("no reply can be told from the program's own messages: look what answers in Google Chat's place",
					"the round trip's own message %s is listed as a person's: it would be taken for a reply", s.Name)
			}
		}
		if missing == 0 {
			return nil
		}
		if ctx.Err() != nil || time.Now().After(until) {
			return wrong("check that the credentials read the space that the webhook posts to, "+t.hook.Space,
				"%d of %d messages that Chat took could not be found by listing within %s",
				missing, len(sent), state.InWords(listedWithin))
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Hint says what a person can do about an error of a RoundTrip, or of a login. Unlike elsewhere, nothing tries again by itself.
func Hint(err error) string {
	var told *state.UserError
	switch {
	case errors.As(err, &told), errors.Is(err, config.ErrNoWebhook), errors.Is(err, gchat.ErrCredentials),
		errors.Is(err, gchat.ErrNotWebhook), errors.Is(err, gchat.ErrNotTold), errors.Is(err, gchat.ErrEndpoint),
		gchat.NobodyAt(err) != "":
		return gchat.Hint(err)
	case gchat.TooMany(err):
		return "the space's quota is used up, by this program or another one: run it again in some minutes"
	case gchat.Overloaded(err), errors.Is(err, gchat.ErrNonsense):
		return "Google Chat has trouble, or something answers in its place (a proxy): run it again later"
	case !gchat.Answered(err):
		return "Google Chat could not be reached: check the network, and GCHAT_API_ENDPOINT where it is set"
	}
	return gchat.Hint(err)
}
