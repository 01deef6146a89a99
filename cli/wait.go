package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"gchat-hooks/gchat"
	"gchat-hooks/hooks"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

func (p Program) waitCommand() *cli.Command {
	return &cli.Command{
		Name:  "wait",
		Usage: "wait for the reply to a question, or in a thread (also as gchat-wait)",
		UsageText: "gchat-wait --question-id ID | --thread-key KEY | --thread-name NAME | --marker FILE [OPTIONS]\n" +
			"gchat-wait --first-of ID ID ... [OPTIONS]",
		Description: "One:     gchat-wait --question-id ask-0f2b-1a2b3c4d\n" +
			"Several: gchat-wait --first-of ask-0f2b-1a2b3c4d ask-0f2b-5e6f7a8b --json\n" +
			"It prints one line, \"GCHAT_RESPONSE: what was typed\" or \"GCHAT_TIMEOUT: No response in 30 minutes\".\n" +
			"Exit codes: 0 replied, 2 trouble, wrong arguments too, 3 nobody replied in time",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "question-id", Usage: "the question `ID`"},
			&cli.StringFlag{Name: "thread-key", Usage: "the question, or the message of ours, with that thread `KEY`"},
			&cli.StringFlag{Name: "thread-name", Usage: "the question in the thread `NAME`, spaces/S/threads/T, or the thread"},
			&cli.StringFlag{Name: "marker", Usage: "the question in `FILE`"},
			&cli.StringSliceFlag{
				Name:  "first-of",
				Usage: "the first reply to one of these: `IDS`, thread keys, thread names or files, also separated by commas",
			},
			&cli.StringFlag{
				Name:  "interval",
				Usage: "`TIME` from one look to the next without a reply (default: 15s, or what is configured, if that is less)",
			},
			&cli.StringFlag{Name: "timeout", Value: "30m", Usage: "give up after `TIME`"},
			&cli.BoolFlag{Name: "json", Usage: "print an object: status, response, answers, answered_by, question_id and more"},
		},
		Action: func(c *cli.Context) error {
			replyTo, err := awaitedOf(c)
			if err != nil {
				return failed(err, "gchat-hooks wait --help", exitWaitTrouble)
			}
			timeout, err := state.ParseInterval(c.String("timeout"))
			if err != nil {
				return failed(fmt.Errorf("--timeout: %w", err), "", exitWaitTrouble)
			}
			if s := c.String("interval"); s != "" {
				if _, err := state.ParseInterval(s); err != nil {
					return failed(fmt.Errorf("--interval: %w", err), "", exitWaitTrouble)
				}
			}
			return wait{
				env: os.Getenv, self: p.self, out: p.out, errOut: p.errOut, interval: c.String("interval"), timeout: timeout,
				asJSON: c.Bool("json"), replyTo: replyTo,
			}.run(c.Context)
		},
	}
}

// Exit codes of gchat-wait.
const (
	exitWaitTrouble = 2
	exitNoReply     = 3
)

// wait is gchat-wait: it waits for one reply.
type wait struct {
	env      state.Getenv
	self     string
	out      io.Writer
	errOut   io.Writer
	interval string // as given
	timeout  time.Duration
	asJSON   bool
	replyTo  []awaited
}

// run waits, and ends soon after ctx: what hangs then, as a disk, does not hold the process.
func (w wait) run(ctx context.Context) error {
	return endsWith(ctx, func() error { return w.await(ctx) })
}

// endsWith runs f, and leaves it endBound after ctx has ended.
func endsWith(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(endBound):
		return failed(errors.New("interrupted"), "", exitWaitTrouble)
	}
}

// endBound is how long gchat-wait has to let go of its questions and to tell their threads when it is told to end.
const endBound = tellBound + 3*time.Second

func (w wait) await(ctx context.Context) error {
	interval := w.interval
	if cfg := state.LoadConfig(w.env, state.ProjectDir(w.env)); interval == "" && cfg.PollInterval > mostInterval {
		interval = mostInterval.String()
	}
	env := withInterval(w.env, interval)
	p := &poller.Poller{Env: env, Log: state.NewLog(env, "gchat-wait")}
	trouble := make(chan error, 1)
	listed := sync.Map{} // chats that were listed
	p.Listed = func(chat string, err error) {
		_, before := listed.LoadOrStore(chat, true) // what was well before may come back
		if !before && (gchat.AuthFailure(err) || gchat.Permanent(err)) {
			select {
			case trouble <- err:
			default:
			}
		}
	}
	var waits []waitFor
	known := map[string]bool{}
	for _, a := range w.replyTo {
		what, f, err := w.waiting(p, a)
		if err != nil {
			return err
		}
		if !known[what] { // the same thing under two names is waited for once
			known[what], waits = true, append(waits, f)
		}
	}
	begun := time.Now()
	until := begun.Add(w.timeout)
	stop := showProgress(w.errOut, until)
	h, late := firstOf(ctx, waits, until, trouble)
	stop()
	defer w.tell(ctx, p)
	switch {
	case ctx.Err() != nil && h.err != nil:
		return failed(errors.New("interrupted"), "", exitWaitTrouble)
	case errors.Is(h.err, poller.ErrNoReply):
		return w.sayTimeout(late)
	case h.err != nil:
		return failed(h.err, gchat.Hint(h.err), exitWaitTrouble)
	}
	if err := w.say(h, hooks.ReplyLine(h.Response)); err != nil {
		return failed(err, "", exitWaitTrouble)
	}
	if h.record != nil {
		if err := h.record(); err != nil {
			p.Log.Error().Err(err).Msg("reply printed, and not written down")
		}
	}
	return nil
}

// tell sends what the threads are told; what cannot be sent at once is the flusher's.
func (w wait) tell(ctx context.Context, p *poller.Poller) {
	ctx, cancel := context.WithTimeout(ctx, tellBound)
	defer cancel()
	if p.Left() {
		p.Send(ctx)
	}
	if p.Left() {
		_ = poller.StartFlusher(w.env, w.self)
	}
}

// mostInterval is the time from one look to the next without a reply, where nothing else is said.
const mostInterval = 15 * time.Second

// tellBound is how long gchat-wait stays to tell the thread.
const tellBound = 2 * time.Second

// waitFor waits for one reply until then.
type waitFor func(ctx context.Context, until time.Time) heard

// firstOf is what is heard first. When the time is up for all of them, late is what then is to be recorded of each.
func firstOf(ctx context.Context, waits []waitFor, until time.Time, trouble <-chan error) (h heard, late []heard) {
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan heard, len(waits))
	for _, f := range waits {
		go func() { results <- f(ctx, until) }()
	}
	got := 0
	defer func() {
		cancel()
		for ; got < len(waits); got++ { // each lets go of its question
			<-results
		}
	}()
	for got < len(waits) {
		select {
		case err := <-trouble:
			return heard{err: err}, nil
		case one := <-results:
			got++
			switch {
			case one.err == nil:
				return one, nil
			case errors.Is(one.err, poller.ErrNoReply):
				late = append(late, one)
			}
			if h.err == nil || errors.Is(h.err, poller.ErrNoReply) { // trouble is worth more than a timeout
				h = one
			}
		}
	}
	return h, late
}

// waiting finds what is meant; what names it.
func (w wait) waiting(p *poller.Poller, a awaited) (what string, wait waitFor, err error) {
	var q *state.Question
	switch by := a.question + a.threadKey + a.threadName; {
	case a.marker != "":
		path, aerr := filepath.Abs(a.marker)
		if aerr != nil {
			return "", nil, failed(aerr, "", exitWaitTrouble)
		}
		if q, err = state.PeekQuestion(path); err != nil {
			return "", nil, failed(fmt.Errorf("marker: %w", err), "", exitWaitTrouble)
		}
		if !state.AmongMarkers(path) { // a copy, or a question elsewhere
			a = awaited{threadName: q.ThreadName, threadKey: q.ThreadKey}
			if q, err = p.FindQuestion(q.QuestionID); err != nil && q == nil {
				return "", nil, failed(err, "", exitWaitTrouble)
			}
		}
	default:
		if q, err = p.FindQuestion(by); err != nil && q == nil {
			return "", nil, failed(err, "", exitWaitTrouble)
		}
	}
	if q != nil && q.Mode == "" && state.AmongMarkers(q.Path) && q.Status.Open() {
		if q, err = p.AdoptMarker(q); err != nil {
			return "", nil, failed(err, "", exitWaitTrouble)
		}
	}
	if q != nil {
		return q.Path, func(ctx context.Context, until time.Time) heard { return w.question(ctx, p, q, until) }, nil
	}
	switch {
	case a.question != "":
		return "", nil, failed(fmt.Errorf("no question %s is known", a.question),
			"is this the machine, the user and the project that asked it?", exitWaitTrouble)
	case a.threadName == "":
		if a.threadName = p.ThreadOf(a.threadKey); a.threadName == "" {
			return "", nil, failed(fmt.Errorf("no thread with the key %s is known", a.threadKey),
				"only threads that gchat-hooks began on this machine have a key; use --thread-name", exitWaitTrouble)
		}
	}
	if !gchat.IsThreadName(a.threadName) {
		return "", nil, failed(fmt.Errorf("%q is no thread's name: spaces/S/threads/T", a.threadName), "", exitWaitTrouble)
	}
	return a.threadName, func(ctx context.Context, until time.Time) heard {
		r, err := p.AwaitInThread(ctx, a.threadName, until)
		return heard{
			ThreadKey: a.threadKey, ThreadName: a.threadName, Status: "answered",
			Response: r.Text, AnsweredBy: r.Sender, Name: r.DisplayName, err: err,
		}
	}, nil
}

// sayTimeout prints that no reply came to any of them; of one, also what the timeout policy made of it.
func (w wait) sayTimeout(late []heard) error {
	h := heard{}
	if len(late) == 1 {
		h = late[0]
	}
	h.Status, h.Answers = "timeout", nil
	if h.question != nil && h.question.ResolvedBy == "policy" {
		h.Answers, h.AnsweredBy = maps.Clone(h.question.Answers), "policy"
	}
	if err := w.say(h, hooks.TimeoutLine(cmp.Or(h.waited, w.timeout), h.question)); err != nil {
		return failed(err, "", exitWaitTrouble)
	}
	for _, one := range late {
		if one.record == nil {
			continue
		}
		if err := one.record(); err != nil {
			return failed(err, "", exitWaitTrouble)
		}
	}
	return silent(poller.ErrNoReply, exitNoReply)
}

// say prints one line.
func (w wait) say(h heard, line string) error {
	if w.asJSON {
		b, err := json.Marshal(h)
		if err != nil {
			return err
		}
		line = string(b)
	}
	_, err := fmt.Fprintln(w.out, line)
	return err
}

// awaited is what one reply is waited for: a question, or, where none is known, a thread.
type awaited struct {
	question, threadKey, threadName, marker string
}

// awaitedOf reads what is waited for from the command line.
func awaitedOf(c *cli.Context) (all []awaited, err error) {
	for _, a := range []awaited{
		{question: c.String("question-id")}, {threadKey: c.String("thread-key")},
		{threadName: c.String("thread-name")}, {marker: c.String("marker")},
	} {
		if a != (awaited{}) {
			all = append(all, a)
		}
	}
	firstOf, words := c.StringSlice("first-of"), c.Args().Slice()
	if len(firstOf) == 0 && len(words) > 0 {
		return nil, fmt.Errorf("gchat-wait takes no %q", words[0])
	}
	for _, ref := range slices.Concat(firstOf, words) {
		for ref := range strings.SplitSeq(ref, ",") {
			switch ref = strings.TrimSpace(ref); {
			case ref == "":
			case strings.HasPrefix(ref, "-"):
				return nil, errors.New("--first-of takes ids, thread keys, thread names or files")
			case gchat.IsThreadName(ref):
				all = append(all, awaited{threadName: ref})
			case strings.Contains(ref, "/") || strings.HasSuffix(ref, ".json"):
				all = append(all, awaited{marker: ref})
			default: // a question's id, or a thread's key
				all = append(all, awaited{threadKey: ref})
			}
		}
	}
	switch {
	case len(all) == 0:
		return nil, errors.New("gchat-wait takes one of --question-id, --thread-key, --thread-name, --marker, or --first-of")
	case len(all) > 1 && len(firstOf) == 0:
		return nil, errors.New("gchat-wait takes only one of --question-id, --thread-key, --thread-name and --marker; " +
			"for several there is --first-of")
	}
	return all, nil
}

// showProgress says every second how long is left, in a line that it wipes at the end, where w is a terminal.
func showProgress(w io.Writer, until time.Time) (stop func()) {
	if f, ok := w.(*os.File); !ok || !isTerminal(f) {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			left := time.Until(until).Round(time.Second)
			fmt.Fprintf(w, "\r\x1b[Kwaiting for a reply, %s left", max(left, 0))
			select {
			case <-done:
				fmt.Fprint(w, "\r\x1b[K")
				return
			case <-tick.C:
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// heard is what came of waiting for one of them.
type heard struct {
	QuestionID   string            `json:"question_id,omitempty"`
	ThreadKey    string            `json:"thread_key,omitempty"`
	ThreadName   string            `json:"thread_name,omitempty"`
	Status       string            `json:"status"` // answered or timeout
	Response     string            `json:"response"`
	ResponseType string            `json:"response_type,omitempty"`
	Answers      map[string]string `json:"answers,omitempty"`
	Notes        map[string]string `json:"notes,omitempty"`
	AnsweredBy   string            `json:"answered_by,omitempty"` // users/ID; terminal, policy
	Name         string            `json:"answered_by_name,omitempty"`

	question *state.Question
	waited   time.Duration // of a timeout that came to pass earlier
	record   func() error  // after it was printed
	err      error
}

// question waits for the reply to a question. One in deny mode without another waiter is then resolved or timed out.
func (w wait) question(ctx context.Context, p *poller.Poller, q *state.Question, until time.Time) heard {
	var lock *state.Lock
	if q.Mode == state.Deny {
		var err error
		if lock, err = state.LockWaiter(q); err != nil && !errors.Is(err, state.ErrLocked) {
			return heard{err: err}
		}
		if lock != nil {
			state.SignWaiter(q, "gchat-wait")
		}
	}
	q, err := p.Await(ctx, q, poller.Waiting{Until: until, Held: lock != nil})
	h := heard{
		QuestionID: q.QuestionID, ThreadKey: q.ThreadKey, ThreadName: q.ThreadName, Status: "answered",
		Answers: q.Answers, Notes: q.Notes, AnsweredBy: q.AnsweredBy, Name: q.AnsweredByName, question: q, err: err,
	}
	if q.ResponseType != nil {
		h.ResponseType = *q.ResponseType
	}
	release := func() error {
		if lock != nil {
			lock.Unlock()
		}
		return nil
	}
	h.record = release
	switch {
	case errors.Is(err, poller.ErrNoReply):
		if lock != nil {
			h.record = func() error {
				defer lock.Unlock()
				_, err := p.TimeOut(q.Path, false, nil)
				return err
			}
			h.question = p.TimedOut(q, false)
		}
	case err != nil:
		_ = release()
		if errors.Is(err, poller.ErrGaveUp) {
			h.err = errors.New("the question was removed")
		}
	case q.Status == state.TimedOut: // by another waiter; no reply counts any more, or that waiter goes on
		h.err = poller.ErrNoReply
		if q.TimesOutAt != nil {
			h.waited = q.TimesOutAt.Sub(q.AskedAt)
		}
	case q.Status == state.Answered || q.Status == state.Resolved:
		if q.Response != nil {
			h.Response = *q.Response
		} else { // in the terminal
			h.AnsweredBy = q.ResolvedBy
			var values []string
			for _, prompt := range q.Questions {
				values = append(values, q.Answers[prompt.Question])
			}
			h.Response = strings.Join(values, "; ")
		}
		if lock == nil && q.Mode == state.Deny && q.Status == state.Answered {
			lock, _ = state.LockWaiter(q) // the process that had it may have been killed
		}
		if lock != nil && q.Status == state.Answered {
			h.record = func() error {
				defer lock.Unlock()
				_, err := p.Close(q.Path, state.Resolved, "chat", nil)
				return err
			}
		}
	default:
		_ = release()
		h.err = fmt.Errorf("the question was closed without a reply: it is %s", q.Status)
	}
	return h
}
