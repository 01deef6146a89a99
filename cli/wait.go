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
			&cli.StringFlag{
				Name:  "thread-key",
				Usage: "the question or message with the thread key `KEY`",
			},
			&cli.StringFlag{
				Name:  "thread-name",
				Usage: "the question or a reply in the thread `NAME`, spaces/S/threads/T",
			},
			&cli.StringFlag{Name: "marker", Usage: "the question in `FILE`"},
			// Older callers give it. It does nothing: poll_interval sets the poller's
			// pace.
			&cli.StringFlag{Name: "interval", Hidden: true},
			&cli.StringFlag{Name: "timeout", Value: "30m", Usage: "give up after `TIME`"},
			&cli.BoolFlag{
				Name:  "json",
				Usage: "print an object: status, response, answers, answered_by, question_id and more",
			},
		},
		Action: func(c *cli.Context) error {
			err := (&waiter{Program: p, asJSON: c.Bool("json")}).run(c)
			userError := &state.UserError{}
			if err == nil || errors.As(err, &userError) && userError.IsPrinted {
				return err
			}
			return exitError(err, cmp.Or(userError.Hint, "gchat-hooks wait --help"), exitWaitFailed)
		},
	}
}

// Exit codes of gchat-wait.
const exitWaitFailed, exitNoReply = 2, 3

// waiter is gchat-wait: it waits for one reply.
type waiter struct {
	Program
	timeout  time.Duration
	asJSON   bool
	question *state.Question // or the record of a thread without a question
	// marks this process as the question's waiter; nil if another process waits for it
	lock *state.Lock
}

func (w *waiter) run(c *cli.Context) error {
	ref, err := awaitedRef(c)
	if err != nil {
		return err
	}
	w.timeout, err = config.ParseInterval(c.String("timeout"))
	if err != nil {
		return fmt.Errorf("--timeout: %w", err)
	}
	w.question, err = w.findQuestion(c.Context, ref)
	if err != nil {
		return err
	}
	if w.question.Mode.Traits().KeepsAnswer {
		w.lock, _ = state.LockWaiter(w.env, w.question.Path)
	}
	defer w.stopWaiting()
	err = w.awaitReply(c.Context)
	switch {
	case c.Context.Err() != nil:
		return errors.New("interrupted")
	case err != nil:
		return err
	case w.hasReply():
		return w.printAnswer()
	}
	return w.printTimeout()
}

func (w *waiter) hasReply() bool {
	return w.question.Status == state.Answered || w.question.Status == state.Resolved
}

// printAnswer prints the reply.
func (w *waiter) printAnswer() error {
	result := waitResultOf(w.question)
	err := w.printResult(result, hooks.ReplyLine(result.Response))
	if err == nil && w.question.Status == state.Answered && w.question.Mode.Traits().KeepsAnswer {
		w.markDelivered()
	}
	return err
}

// awaitReply waits until there is a reply, or the time is up. It fails early if the space
// cannot be read: the poller has found that out after three seconds.
func (w *waiter) awaitReply(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	soonCtx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	chat := w.question.Chat
	err := w.awaitChange(soonCtx)
	if errors.Is(err, context.DeadlineExceeded) && w.readingError(chat) == nil {
		err = w.awaitChange(ctx)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return w.readingError(chat)
	case err == nil && w.question.Status != state.TimedOut && !w.hasReply():
		// TimedOut is not among these: another process or the poller may have written it.
		return fmt.Errorf("the question was closed without a reply (%s)", w.question.Status)
	}
	return err
}

// awaitChange waits until the question is closed, or ctx ends. A question that has timed
// out still takes a late reply, and is waited for.
func (w *waiter) awaitChange(ctx context.Context) error {
	isLate := w.question.Status == state.TimedOut && w.lock != nil
	q, err := state.Await(ctx, w.env, w.self, w.question.Path, func(q *state.Question) bool {
		return q.Status != state.Pending && !(isLate && q.IsLate(time.Now()))
	})
	if q != nil {
		w.question = q
	}
	return err
}

// readingError says why replies cannot be read until a person repairs something. It is
// nil if they can be read.
func (w *waiter) readingError(chat string) error {
	trouble := state.SpacesIn(state.UserStateDir(w.env)).Get(chat).ReadTrouble
	if trouble != nil && trouble.IsRefused {
		return exitError(fmt.Errorf("replies cannot be read: %s", trouble.Why),
			"gchat-hooks doctor", exitFailed)
	}
	return nil
}

// findQuestion finds the question that ref names, by its id, its thread's key or name, or
// its file. If there is none, ref may be a thread's key or name: then it creates the
// record of a process that waits in that thread.
func (w *waiter) findQuestion(ctx context.Context, ref string) (*state.Question, error) {
	if q := state.FindQuestion(w.env, ref); q != nil && q.Mode.Traits().Asks {
		return q, nil
	}
	if gchat.IsThreadName(ref) {
		return w.waitInThread(ctx, "", ref)
	}
	if name := state.FindThreadName(w.env, ref); name != "" {
		return w.waitInThread(ctx, ref, name)
	}
	path, _ := filepath.Abs(ref)
	q, err := state.LoadQuestionInPlace(path)
	if err != nil {
		return nil, exitError(fmt.Errorf("no question, thread or file is called %s", ref),
			"a thread's key is known for some minutes after "+
				"your gchat-hooks wrote there; after that, use --thread-name", exitFailed)
	}
	if state.IsMarkerFile(path) && q.Mode != "" {
		return q, nil
	}
	// The file is a copy, or another program's marker: wait in the thread that it names.
	original := state.FindQuestion(w.env, cmp.Or(q.ThreadKey, q.QuestionID))
	if original != nil && original.Mode.Traits().Asks {
		return original, nil
	}
	if !gchat.IsThreadName(q.ThreadName) {
		return nil, fmt.Errorf("read marker: %s names no thread", ref)
	}
	return w.waitInThread(ctx, q.ThreadKey, q.ThreadName)
}

// waitInThread creates the record of this process's wait for a reply in a thread. The
// poller writes the reply into it.
func (w *waiter) waitInThread(ctx context.Context, key, name string) (*state.Question, error) {
	askedAt, project := time.Now().UTC(), state.FindProjectDir(w.env)
	space := gchat.SpaceOf(name)
	q := &state.Question{
		QuestionID:    uuid.NewString(),
		SessionName:   "gchat-wait",
		AskedAt:       askedAt,
		TimesOutAt:    new(askedAt.Add(w.timeout)),
		Mode:          state.ModeThread,
		Status:        state.Pending,
		IsMessageSent: true,
		ThreadKey:     key,
		ThreadName:    name,
		ProjectDir:    project,
		Chat:          gchat.ConfiguredChat(ctx, config.Load(w.env, project), space),
		Space:         space,
	}
	threads := state.QuestionsIn(filepath.Join(state.UserStateDir(w.env), "threads"))
	if err := threads.Create(q.QuestionID, q); err != nil {
		return nil, err
	}
	return q, state.AddToIndex(w.env, state.IndexEntry{
		RecordType: state.IndexedQuestion,
		Path:       q.Path,
		ProjectDir: project,
	})
}

// markDelivered records that the reply was printed. A question in deny mode is resolved
// by that, unless a hook of its session waits to deliver the answer.
func (w *waiter) markDelivered() {
	if w.lock == nil { // the process that held it may have ended
		w.lock, _ = state.LockWaiter(w.env, w.question.Path)
	}
	if w.lock == nil {
		return
	}
	_, err := state.CloseQuestion(w.question.Path, state.Resolved, "chat", nil)
	state.NewLog(w.env, "gchat-wait").ErrorOnce(err, "cannot record that the reply was printed")
	_ = w.startPoller() // it posts the closing note
}

// stopWaiting releases the waiter's lock. It closes the record of a thread that only this
// process waited in.
func (w *waiter) stopWaiting() {
	if w.lock == nil {
		return
	}
	if !w.question.Mode.Traits().Asks && w.question.Status == state.Pending {
		_, _ = state.CloseQuestion(w.question.Path, state.TimedOut, "timeout", nil)
	}
	w.lock.Unlock()
	w.lock = nil
}

// printTimeout prints that no reply came, and what the timeout policy chose.
func (w *waiter) printTimeout() error {
	q, waited := w.question, w.timeout
	if q.Mode.Traits().HasMarker && q.Status == state.Pending && w.lock != nil {
		if _, err := state.CloseQuestion(q.Path, state.TimedOut, "timeout", nil); err != nil {
			return err
		}
		_ = w.startPoller() // it posts the closing note
	}
	w.stopWaiting()
	if current, err := state.LoadQuestion(q.Path); err == nil {
		w.question = current
	}
	if w.hasReply() { // it came in the last moment
		return w.printAnswer()
	}
	if q.Status == state.TimedOut && q.TimesOutAt != nil {
		// Another process, with a shorter timeout, may have closed it.
		waited = min(q.TimesOutAt.Sub(q.AskedAt), time.Since(q.AskedAt).Round(time.Second))
	}
	result := waitResultOf(q)
	result.Status, result.Response = "timeout", ""
	if q.ResolvedBy != "policy" {
		result.Answers, result.AnsweredBy = nil, ""
	}
	if err := w.printResult(result, hooks.TimeoutLine(waited, q)); err != nil {
		return err
	}
	return silentError(errors.New("no reply in time"), exitNoReply)
}

func (w *waiter) printResult(result waitResult, line string) error {
	if w.asJSON {
		return json.NewEncoder(w.out).Encode(result)
	}
	_, err := fmt.Fprintln(w.out, line)
	return err
}

// waitResult is what --json prints: the reply, or that none came.
type waitResult struct {
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

func waitResultOf(q *state.Question) waitResult {
	result := waitResult{
		QuestionID: q.QuestionID, ThreadKey: q.ThreadKey, ThreadName: q.ThreadName, Status: "answered",
		Answers: q.Answers, Notes: q.Notes, AnsweredBy: q.AnsweredBy, Name: q.AnsweredByName,
	}
	if q.ResponseType != nil {
		result.ResponseType = *q.ResponseType
	}
	if q.Response != nil {
		result.Response = *q.Response
		return result
	}
	var values []string // without a response, it was answered in the terminal
	for _, question := range q.SubQuestions {
		values = append(values, q.Answers[question.Question])
	}
	result.Response, result.AnsweredBy = strings.Join(values, "; "), q.ResolvedBy
	return result
}

// awaitedRef is the question or thread that the command line names.
func awaitedRef(c *cli.Context) (string, error) {
	var refs []string
	for _, flag := range []string{"question-id", "thread-key", "thread-name", "marker"} {
		if ref := c.String(flag); ref != "" {
			refs = append(refs, ref)
		}
	}
	if len(refs) != 1 || c.Args().Present() {
		return "", errors.New(
			"give exactly one of --question-id, --thread-key, --thread-name and --marker",
		)
	}
	return refs[0], nil
}
