package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

func (p Program) answerCommand() *cli.Command {
	return &cli.Command{
		Name:            "answer",
		HideHelpCommand: true, // "help" is an answer like any other
		Usage:           "answer a question from this shell; without arguments, list the open ones",
		UsageText:       "gchat-hooks answer ID TEXT...",
		Description: "ID is the question's id or its thread's key, or its session's name.\n" +
			"TEXT is what you would type in Chat: 2, 1,3, \"2 - but keep the footer\", own words, " +
			"chat, skip, \"Q1: 2; Q2: 1\".\n" +
			"A text that looks like a flag:  gchat-hooks answer -- ID \"--force\"\n" +
			"Permissions, plans and the next instruction are a person's to give: in the thread, or in the terminal.\n" +
			"Exit codes: 0 answered, 1 no question or several have that ID, 2 not understood or over, 4 wrong arguments",
		Action: func(c *cli.Context) error {
			return answer{p}.run(c.Context, c.Args().Slice())
		},
	}
}

// decidedElsewhere says what to do about a permission, a plan, or a session that waits.
const decidedElsewhere = "decide it in its thread, or in its terminal"

const (
	mostPreview   = 2000        // bytes of an option's preview that are listed
	besidePreview = "       │ " // begins each of its lines
)

// exitNotUsed is answer's code for a reply that did not become the answer.
const exitNotUsed = 2

// answer gives a question its reply at a shell, on the way that a reply in Chat takes.
type answer struct{ Program }

// judgedSoon is how long the poller may take to judge a reply; it takes milliseconds where it runs.
const judgedSoon = 5 * time.Second

func (a answer) run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return a.list()
	}
	text := strings.Join(args[1:], " ")
	if strings.TrimSpace(state.Clean(state.ForAgent, text)) == "" {
		return usage(errors.New("answer takes a text"), "gchat-hooks answer "+args[0]+" 2")
	}
	q, err := state.PickQuestion(a.env, args[0])
	if err != nil {
		return failed(err, "gchat-hooks answer lists what is open", exitFailed)
	}
	if q.Kind.Row().Personal { // Claude can run this command, too
		return failed(errors.New("no command decides this"), decidedElsewhere, exitNotUsed)
	}
	reply := state.Reply{
		MessageName: "shell/" + uuid.NewString(), Sender: state.Local, DisplayName: cmp.Or(a.env("USER"), a.env("LOGNAME")),
		Text: text, CreateTime: time.Now().UTC(),
	}
	waiter := state.ByNobody // before it is answered: a hook that has the answer waits no more
	q, err = state.UpdateQuestion(q.Path, func(q *state.Question) error {
		waiter = q.Deliverer(a.env, q.TmuxPane != "")
		switch {
		case !q.Answerable():
			return a.notUsed(q, state.NoteLate, "")
		case waiter == state.ByNobody:
			return a.notUsed(q, state.NoteUnwaited, "")
		}
		q.Replies = append(q.Replies, reply)
		return nil
	})
	if err == nil {
		q, err = a.judged(ctx, q.Path, reply.MessageName)
	}
	if told := new(state.UserError); err != nil && !errors.As(err, &told) {
		err = failed(err, "gchat-hooks status", exitNotUsed)
	}
	if err != nil {
		return err
	}
	if q.Declined != "" {
		_, err = fmt.Fprintf(a.out, "turned down (%s): %s, session %s\n",
			q.Declined, state.OneLine(q.ThreadKey), state.OneLine(q.SessionName))
		return err
	}
	fmt.Fprintf(a.out, "answered: %s, session %s\n", state.OneLine(q.ThreadKey), state.OneLine(q.SessionName))
	for _, prompt := range q.Questions {
		said, note := state.OneLine(q.Answers[prompt.Question]), state.OneLine(q.Notes[prompt.Question])
		fmt.Fprintf(a.out, "  %s = %s\n", wording.Cut(state.OneLine(prompt.Question), mostWords), strings.TrimSpace(said+" "+note))
	}
	_, err = fmt.Fprintln(a.out, "on its way to Claude:", delivers[waiter])
	return err
}

// judged waits until the poller has judged a reply, and returns the question when the reply became its answer.
func (a answer) judged(ctx context.Context, path, name string) (*state.Question, error) {
	ctx, cancel := context.WithTimeout(ctx, judgedSoon)
	defer cancel()
	q, err := state.Await(ctx, a.env, a.self, path, func(q *state.Question) bool {
		r := q.Reply(name)
		return r == nil || r.Verdict != state.Unread || !q.Status.Open()
	})
	if err != nil && ctx.Err() == nil {
		return q, err
	}
	if q == nil || q.Reply(name) == nil {
		return q, errors.New("the reply was not judged yet")
	}
	verdict := q.Reply(name).Verdict
	about := notes[verdict]
	if about == "" && !q.Status.Open() {
		about = state.NoteLate
	}
	switch {
	case verdict == state.Used:
		return q, nil
	case about == state.NoteUnclear:
		return q, a.notUsed(q, about, name)
	case about != "":
		return q, a.notUsed(q, about, "")
	}
	return q, errors.New("the reply is written down, and was not judged yet")
}

// notes are what the thread hears of a reply that did not become the answer.
var notes = map[state.Verdict]string{
	state.Kept: state.NoteKept, state.AskedBack: state.NoteUnclear, state.AskedHow: state.NoteUnclear,
	state.Ignored: state.NoteNoText, state.Late: state.NoteLate,
}

// notUsed says why a reply did not become the answer, in the words that the thread would have for it.
func (a answer) notUsed(q *state.Question, about, reply string) error {
	hint, by := "", cmp.Or(q.AnsweredByName, q.AnsweredBy)
	switch {
	case about == state.NoteLate && by != "" && q.ResolvedBy != "terminal":
		hint = "it was answered by " + state.OneLine(by)
	case about == state.NoteKept:
		hint = "what was said is kept: answer the rest with another gchat-hooks answer"
	}
	return failed(errors.New(strings.Join(wording.NoteTexts(q, state.Owed{About: about, Reply: reply}), "")), hint, exitNotUsed)
}

// list shows the questions that a reply would answer, the oldest first, with the options that a number means.
func (a answer) list() error {
	a.serve()
	qs, _ := state.OpenQuestions(a.env, append(state.TextsOpen, state.TextLate)...)
	qs = slices.DeleteFunc(qs, func(q *state.Question) bool {
		return !q.Mode.Row().Asks || !q.Answerable() || q.Status != state.Pending && !q.Late(time.Now())
	})
	if len(qs) == 0 {
		_, err := fmt.Fprintln(a.out, "no question is open")
		return err
	}
	for _, q := range slices.Backward(qs) {
		key := state.OneLine(cmp.Or(q.ThreadKey, q.QuestionID))
		fmt.Fprintf(a.out, "%s, %s old, session %s\n", key, ago(time.Since(q.AskedAt)), state.OneLine(q.SessionName))
		for i, prompt := range q.Questions {
			number, several := "", ""
			if len(q.Questions) > 1 {
				number = fmt.Sprintf("Q%d. ", i+1)
			}
			if prompt.MultiSelect {
				several = " (one or more)"
			}
			fmt.Fprintf(a.out, "  %s%s%s\n", number, wording.Cut(state.OneLine(asked(q, i)), 2*mostWords), several)
			if q.Kind.Row().Personal {
				fmt.Fprintf(a.out, "    %s\n", decidedElsewhere)
				continue
			}
			for n, o := range prompt.Options {
				fmt.Fprintf(a.out, "    %d. %s\n", n+1, state.OneLine(o.Label))
				preview := strings.Trim(state.Clean(state.ForTerminal, o.Preview), "\n")
				if preview != "" {
					shown := strings.ReplaceAll(wording.Cut(preview, mostPreview), "\n", "\n"+besidePreview)
					fmt.Fprintf(a.out, "%s%s\n", besidePreview, shown)
				}
			}
		}
	}
	return nil
}
