package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat"
	"gchat-hooks/hooks"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func (p Program) waitCommand() *cli.Command {
	return &cli.Command{
		Name:      "wait",
		Usage:     "wait for the reply to a question, or in a thread (also as gchat-wait)",
		UsageText: "gchat-wait --question-id ID | --thread-key KEY | --thread-name NAME | --marker FILE [OPTIONS]",
		Description: "It prints one line, \"GCHAT_RESPONSE: what was typed\" or \"GCHAT_TIMEOUT: No response in 30 minutes\".\n" +
			"Exit codes: 0 replied, 2 an error or wrong arguments, 3 no reply in time",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "question-id", Usage: "the question `ID`"},
			&cli.StringFlag{Name: "thread-key", Usage: "the question or message with the thread key `KEY`"},
			&cli.StringFlag{Name: "thread-name", Usage: "the question or a reply in the thread `NAME`, spaces/S/threads/T"},
			&cli.StringFlag{Name: "marker", Usage: "the question in `FILE`"},
			&cli.StringFlag{Name: "interval", Hidden: true}, // of older callers; the poller's pace is poll_interval
			&cli.StringFlag{Name: "timeout", Value: "30m", Usage: "give up after `TIME`"},
			&cli.BoolFlag{Name: "json", Usage: "print an object: status, response, answers, answered_by, question_id and more"},
		},
		Action: func(c *cli.Context) error {
			err := (&wait{Program: p, asJSON: c.Bool("json")}).run(c)
			told := &state.UserError{}
			if err == nil || errors.As(err, &told) && told.Said {
				return err
			}
			return failed(err, cmp.Or(told.Hint, "gchat-hooks wait --help"), exitWaitTrouble)
		},
	}
}

// Exit codes of gchat-wait.
const exitWaitTrouble, exitNoReply = 2, 3

// wait is gchat-wait: it waits for one reply.
type wait struct {
	Program
	timeout time.Duration
	asJSON  bool
	q       *state.Question // or a thread without one
	lock    *state.Lock     // of this process, which waits for it; nil where another process does
}

func (w *wait) run(c *cli.Context) error {
	ref, err := awaited(c)
	if err != nil {
		return err
	}
	w.timeout, err = config.ParseInterval(c.String("timeout"))
	if err != nil {
		return fmt.Errorf("--timeout: %w", err)
	}
	w.q, err = w.question(c.Context, ref)
	if err != nil {
		return err
	}
	if w.q.Mode.Row().Later {
		w.lock, _ = state.LockWaiter(w.env, w.q.Path)
	}
	defer w.letGo()
	err = w.await(c.Context)
	switch {
	case c.Context.Err() != nil:
		return errors.New("interrupted")
	case err != nil:
		return err
	case w.replied():
		return w.sayAnswer()
	}
	return w.sayTimeout()
}

func (w *wait) replied() bool { return w.q.Status == state.Answered || w.q.Status == state.Resolved }

// sayAnswer prints the reply.
func (w *wait) sayAnswer() error {
	h := heardOf(w.q)
	err := w.say(h, hooks.ReplyLine(h.Response))
	if err == nil && w.q.Status == state.Answered && w.q.Mode.Row().Later {
		w.resolve()
	}
	return err
}

// await waits until there is a reply, or the time is up. What keeps a reply from coming is an error: whether the space can be
// read at all is known after three seconds.
func (w *wait) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	soon, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	chat := w.q.Chat
	err := w.awaitWithin(soon)
	if errors.Is(err, context.DeadlineExceeded) && w.unread(chat) == nil {
		err = w.awaitWithin(ctx)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return w.unread(chat)
	case err == nil && w.q.Status != state.TimedOut && !w.replied(): // another process, or the poller, writes TimedOut
		return fmt.Errorf("the question was closed without a reply: it is %s", w.q.Status)
	}
	return err
}

// awaitWithin waits until the question is over, or ctx. One that timed out may still get a reply.
func (w *wait) awaitWithin(ctx context.Context) error {
	late := w.q.Status == state.TimedOut && w.lock != nil
	q, err := state.Await(ctx, w.env, w.self, w.q.Path, func(q *state.Question) bool {
		return q.Status != state.Pending && !(late && q.Late(time.Now()))
	})
	if q != nil {
		w.q = q
	}
	return err
}

// unread says why replies cannot be read before a person mends something; nil when they can.
func (w *wait) unread(chat string) error {
	trouble := state.SpacesIn(state.UserState(w.env)).Of(chat).Trouble
	if trouble != nil && trouble.Refused {
		return failed(fmt.Errorf("replies cannot be read: %s", trouble.Why), "gchat-hooks doctor", exitFailed)
	}
	return nil
}

// question finds what is meant: a question by its id, its thread's key or name, or its file; else a thread by its key or name.
func (w *wait) question(ctx context.Context, ref string) (*state.Question, error) {
	if q := state.FindQuestion(w.env, ref); q != nil && q.Mode.Row().Asks {
		return q, nil
	}
	if gchat.IsThreadName(ref) {
		return w.thread(ctx, "", ref)
	}
	if name := state.ThreadOf(w.env, ref); name != "" {
		return w.thread(ctx, ref, name)
	}
	path, _ := filepath.Abs(ref)
	q, err := state.PeekQuestion(path)
	if err != nil {
		return nil, failed(fmt.Errorf("no question %s is known, no such thread or file either", ref),
			"a key is known for some minutes after gchat-hooks of this user wrote to its thread; use --thread-name", exitFailed)
	}
	if state.AmongMarkers(path) && q.Mode != "" {
		return q, nil
	}
	// A copy, or another program's marker: what is replied in its thread.
	if other := state.FindQuestion(w.env, cmp.Or(q.ThreadKey, q.QuestionID)); other != nil && other.Mode.Row().Asks {
		return other, nil
	}
	if !gchat.IsThreadName(q.ThreadName) {
		return nil, fmt.Errorf("marker: %s names no thread", ref)
	}
	return w.thread(ctx, q.ThreadKey, q.ThreadName)
}

// thread writes down that this process waits in a thread.
func (w *wait) thread(ctx context.Context, key, name string) (*state.Question, error) {
	now, project := time.Now().UTC(), state.ProjectAround(w.env)
	space := gchat.SpaceOf(name)
	q := &state.Question{
		QuestionID: uuid.NewString(), SessionName: "gchat-wait", AskedAt: now, TimesOutAt: new(now.Add(w.timeout)),
		Mode: state.Thread, Status: state.Pending, MessageSent: true, ThreadKey: key, ThreadName: name, ProjectDir: project,
		Chat: gchat.ChatOf(ctx, config.Load(w.env, project), space), Space: space,
	}
	threads := state.QuestionsIn(filepath.Join(state.UserState(w.env), "threads"))
	if err := threads.Create(q.QuestionID, q); err != nil {
		return nil, err
	}
	return q, state.Announce(w.env, state.Open{Record: state.OpenQuestion, Path: q.Path, ProjectDir: project})
}

// resolve writes down that the reply was printed: a question in deny mode has its answer then, unless a hook of its session waits
// to deliver it.
func (w *wait) resolve() {
	if w.lock == nil { // the process that had it may have been killed
		w.lock, _ = state.LockWaiter(w.env, w.q.Path)
	}
	if w.lock == nil {
		return
	}
	_, err := state.CloseQuestion(w.q.Path, state.Resolved, "chat", nil)
	state.NewLog(w.env, "gchat-wait").Once(err, "reply printed, and not written down")
	_ = w.startPoller() // its thread is told
}

// letGo ends the waiting, and a thread that only this process waited in.
func (w *wait) letGo() {
	if w.lock == nil {
		return
	}
	if !w.q.Mode.Row().Asks && w.q.Status == state.Pending {
		_, _ = state.CloseQuestion(w.q.Path, state.TimedOut, "timeout", nil)
	}
	w.lock.Unlock()
	w.lock = nil
}

// sayTimeout prints that no reply came, and what the timeout policy made of it.
func (w *wait) sayTimeout() error {
	q, waited := w.q, w.timeout
	if q.Mode.Row().Marker && q.Status == state.Pending && w.lock != nil {
		if _, err := state.CloseQuestion(q.Path, state.TimedOut, "timeout", nil); err != nil {
			return err
		}
		_ = w.startPoller() // its thread is told
	}
	w.letGo()
	if now, err := state.LoadQuestion(q.Path); err == nil {
		w.q = now
	}
	if w.replied() { // with the last moment
		return w.sayAnswer()
	}
	if q.Status == state.TimedOut && q.TimesOutAt != nil { // perhaps earlier, by one that waited less
		waited = min(q.TimesOutAt.Sub(q.AskedAt), time.Since(q.AskedAt).Round(time.Second))
	}
	h := heardOf(q)
	h.Status, h.Response = "timeout", ""
	if q.ResolvedBy != "policy" {
		h.Answers, h.AnsweredBy = nil, ""
	}
	if err := w.say(h, hooks.TimeoutLine(waited, q)); err != nil {
		return err
	}
	return silent(errors.New("no reply in time"), exitNoReply)
}

func (w *wait) say(h heard, line string) error {
	if w.asJSON {
		return json.NewEncoder(w.out).Encode(h)
	}
	_, err := fmt.Fprintln(w.out, line)
	return err
}

// heard is what --json prints of a reply, or of a timeout.
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
}

func heardOf(q *state.Question) heard {
	h := heard{
		QuestionID: q.QuestionID, ThreadKey: q.ThreadKey, ThreadName: q.ThreadName, Status: "answered",
		Answers: q.Answers, Notes: q.Notes, AnsweredBy: q.AnsweredBy, Name: q.AnsweredByName,
	}
	if q.ResponseType != nil {
		h.ResponseType = *q.ResponseType
	}
	if q.Response != nil {
		h.Response = *q.Response
		return h
	}
	var values []string // answered in the terminal
	for _, prompt := range q.Questions {
		values = append(values, q.Answers[prompt.Question])
	}
	h.Response, h.AnsweredBy = strings.Join(values, "; "), q.ResolvedBy
	return h
}

// awaited is what the command line says is waited for.
func awaited(c *cli.Context) (string, error) {
	var refs []string
	for _, flag := range []string{"question-id", "thread-key", "thread-name", "marker"} {
		if ref := c.String(flag); ref != "" {
			refs = append(refs, ref)
		}
	}
	if len(refs) != 1 || c.Args().Present() {
		return "", errors.New("gchat-wait takes one of --question-id, --thread-key, --thread-name and --marker")
	}
	return refs[0], nil
}
