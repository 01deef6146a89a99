package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

func (p Program) answerCommand() *cli.Command {
	return &cli.Command{
		Name:            "answer",
		HideHelpCommand: true, // "help" is an answer like any other
		Usage:           "answer a question at this shell, as a reply in its thread does; without arguments, list what is open",
		UsageText:       "gchat-hooks answer ID TEXT...\ngchat-hooks answer ID -         reads the text from standard input",
		Description: "ID is the question's id or its thread's key, a beginning that only it has, or its session's name.\n" +
			"TEXT is what you would type in Chat: 2, 1,3, \"2 - but keep the footer\", own words, \"Q1: 2; Q2: 1\".\n" +
			"Exit codes: 0 answered, 1 no such question, or not one, 2 not understood, or already over, 4 wrong arguments",
		Action: func(c *cli.Context) error {
			return answer{self: p.self, env: os.Getenv, in: p.in, out: p.out}.run(c.Context, c.Args().Slice())
		},
	}
}

// exitNotUsed is answer's code for a reply that did not become the answer.
const exitNotUsed = 2

// answer gives a question its reply at a shell, on the way that a reply in Chat takes.
type answer struct {
	self string
	env  state.Getenv
	in   io.Reader
	out  io.Writer
}

func (a answer) run(ctx context.Context, args []string) error {
	p := &poller.Poller{Env: a.env, Log: state.NewLog(a.env, "answer")}
	switch len(args) {
	case 0:
		return a.list(p.Unanswered())
	case 1:
		return usage(errors.New("answer takes a text"), "gchat-hooks answer "+args[0]+" 2")
	}
	text, err := a.text(args[1:])
	if err != nil {
		return usage(err, "gchat-hooks answer --help")
	}
	q, err := p.PickQuestion(args[0])
	if err != nil {
		return failed(err, "gchat-hooks answer lists what is open", exitFailed)
	}
	waiter := p.WaiterOf(q)
	after, err := p.AnswerAtShell(ctx, q, text, who(a.env))
	if p.Left() { // what the thread is told
		_ = poller.StartFlusher(a.env, a.self)
	}
	var not *poller.NotUsed
	switch {
	case errors.As(err, &not):
		hint, by := "", cmp.Or(after.AnsweredByName, after.AnsweredBy)
		if not.Verdict == state.Late && by != "" && after.ResolvedBy != "terminal" {
			hint = "it was answered by " + state.OneLine(by)
		}
		if not.Verdict == state.Kept {
			hint = "what was said is kept: answer the rest with another gchat-hooks answer"
		}
		return failed(not, hint, exitNotUsed)
	case errors.Is(err, fs.ErrNotExist):
		return failed(errors.New("[Not used] This question is closed: its file was removed."), "", exitNotUsed)
	case err != nil:
		return failed(err, "gchat-hooks status", exitNotUsed)
	}
	session := cmp.Or(after.SessionName, after.SessionID)
	fmt.Fprintf(a.out, "answered: %s, session %s\n", state.OneLine(after.ThreadKey), state.OneLine(session))
	for _, prompt := range after.Questions {
		said := state.OneLine(after.Answers[prompt.Question])
		if note := after.Notes[prompt.Question]; note != "" {
			said += " (note: " + state.OneLine(note) + ")"
		}
		fmt.Fprintf(a.out, "  %s = %s\n", gchat.Cut(state.OneLine(prompt.Question), mostWords), said)
	}
	fmt.Fprintln(a.out, deliveredBy(waiter, after))
	return nil
}

// text is the reply: the words, or with "-" what stands on stdin.
func (a answer) text(words []string) (string, error) {
	text := strings.Join(words, " ")
	if text == "-" {
		b, err := io.ReadAll(io.LimitReader(a.in, gchat.MaxText+1))
		if err != nil {
			return "", fmt.Errorf("read the answer: %w", err)
		}
		text = string(b)
	}
	switch {
	case len(text) > gchat.MaxText:
		return "", fmt.Errorf("the text is longer than a message in Chat can be, %d bytes", gchat.MaxText)
	case strings.TrimSpace(gchat.CleanReply(text)) == "":
		return "", errors.New("the text is empty")
	}
	return text, nil
}

// deliveredBy says how the answer reaches Claude.
func deliveredBy(w poller.Waiter, q *state.Question) string {
	switch {
	case w.Kind == poller.DaemonWaits:
		return "the daemon types it into the terminal"
	case w.Kind == poller.RewakeWaits:
		return "it wakes the session"
	case w.Kind == poller.ScriptWaits:
		return "gchat-wait prints it"
	case w.Kind != poller.NobodyIs || q.Mode != state.Deny:
		return "the hook that waits hands it to Claude"
	case q.SessionEnded != nil || poller.Gone(q):
		return "the session has ended: it reads the answer when it is resumed"
	}
	return "Claude reads it with its next step"
}

// list shows what can be answered, with the options that a number means.
func (a answer) list(qs []*state.Question) error {
	if len(qs) == 0 {
		_, err := fmt.Fprintln(a.out, "no question is open")
		return err
	}
	var b strings.Builder
	for _, q := range qs {
		key, session := state.OneLine(cmp.Or(q.ThreadKey, q.QuestionID)), state.OneLine(cmp.Or(q.SessionName, q.SessionID))
		fmt.Fprintf(&b, "%s, %s old, session %s\n", key, ago(time.Since(q.AskedAt)), session)
		for i, prompt := range q.Questions {
			number, several := "", ""
			if len(q.Questions) > 1 {
				number = fmt.Sprintf("Q%d. ", i+1)
			}
			if prompt.MultiSelect {
				several = " (one or more)"
			}
			fmt.Fprintf(&b, "  %s%s%s\n", number, state.OneLine(prompt.Question), several)
			for n, o := range prompt.Options {
				fmt.Fprintf(&b, "    %d. %s\n", n+1, state.OneLine(o.Label))
			}
		}
	}
	fmt.Fprintf(&b, "\nanswer one: gchat-hooks answer %s TEXT\n", state.OneLine(cmp.Or(qs[0].ThreadKey, qs[0].QuestionID)))
	_, err := io.WriteString(a.out, b.String())
	return err
}

// who is the person at this shell, for the thread.
func who(env state.Getenv) string {
	return cmp.Or(env("USER"), env("LOGNAME"), fmt.Sprintf("uid %d", os.Getuid()))
}
