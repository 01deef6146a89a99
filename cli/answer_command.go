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
		Description: "ID is the question's id, its thread's key, or its session's name.\n" +
			"TEXT is what you would type in Chat: 2, 1,3, \"2 - but keep the footer\", your own words, " +
			"chat, skip, \"Q1: 2; Q2: 1\".\n" +
			"A text that looks like a flag:  gchat-hooks answer -- ID \"--force\"\n" +
			"Permissions, plans and the next instruction are answered only in the thread or in the terminal.\n" +
			"Exit codes: 0 answered, 1 no question has that ID, or several have it, 2 not clear or closed, 4 wrong arguments",
		Action: func(c *cli.Context) error {
			return answerer{p}.run(c.Context, c.Args().Slice())
		},
	}
}

// decideElsewhere says where a person answers what no command can answer: a permission, a
// plan, a form, or the next instruction.
const decideElsewhere = "answer it in its thread or in the terminal"

const (
	maxPreviewBytes = 2000        // how much of an option's preview is listed, in bytes
	previewIndent   = "       │ " // begins each line of a preview
)

// exitNotUsed is the exit code of answer for a reply that did not become the answer.
const exitNotUsed = 2

// answerer adds a reply to a question from a shell. The poller judges it as it judges a
// reply in Chat.
type answerer struct{ Program }

// verdictTimeout is how long the command waits for the poller to judge the reply. A
// poller that runs needs milliseconds.
const verdictTimeout = 5 * time.Second

func (a answerer) run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return a.listQuestions()
	}
	text := strings.Join(args[1:], " ")
	if strings.TrimSpace(state.Clean(state.ForAgent, text)) == "" {
		return usageError(errors.New("the answer has no text"), "gchat-hooks answer "+args[0]+" 2")
	}
	q, err := state.PickQuestion(a.env, args[0])
	if err != nil {
		return exitError(err, "gchat-hooks answer lists the open questions", exitFailed)
	}
	if q.Kind.Traits().IsPersonal { // Claude can run this command, and must not answer it
		return exitError(errors.New("no command can answer this"), decideElsewhere, exitNotUsed)
	}
	reply := state.Reply{
		MessageName: "shell/" + uuid.NewString(),
		Sender:      state.LocalSender,
		DisplayName: cmp.Or(a.env("USER"), a.env("LOGNAME")),
		Text:        text,
		CreatedAt:   time.Now().UTC(),
	}
	// The deliverer is found before the question is answered: a hook that has the answer
	// does not wait, and would not be found.
	deliverer := state.DelivererNone
	q, err = state.UpdateQuestion(q.Path, func(q *state.Question) error {
		deliverer = q.FindDeliverer(a.env, q.TmuxPane != "")
		switch {
		case !q.IsAnswerable():
			return a.notUsedError(q, state.NoteLate, "")
		case deliverer == state.DelivererNone:
			return a.notUsedError(q, state.NoteNoWaiter, "")
		}
		q.Replies = append(q.Replies, reply)
		return nil
	})
	if err == nil {
		q, err = a.awaitVerdict(ctx, q.Path, reply.MessageName)
	}
	if err != nil && !errors.As(err, new(*state.UserError)) {
		err = exitError(err, "gchat-hooks status", exitNotUsed)
	}
	if err != nil {
		return err
	}
	if q.Declined != "" {
		_, err = fmt.Fprintf(a.out, "declined (%s): %s, session %s\n",
			q.Declined, state.OneLine(q.ThreadKey), state.OneLine(q.SessionName))
		return err
	}
	fmt.Fprintf(a.out, "answered: %s, session %s\n",
		state.OneLine(q.ThreadKey), state.OneLine(q.SessionName))
	for _, question := range q.SubQuestions {
		asked := wording.Cut(state.OneLine(question.Question), maxQuestionBytes)
		answerText := state.OneLine(q.Answers[question.Question])
		noteText := state.OneLine(q.Notes[question.Question])
		fmt.Fprintf(a.out, "  %s = %s\n", asked, strings.TrimSpace(answerText+" "+noteText))
	}
	_, err = fmt.Fprintln(a.out, "on its way to Claude:", answerRoutes[deliverer])
	return err
}

// answerRoutes say how an answer reaches Claude.
var answerRoutes = map[state.Deliverer]string{
	state.DelivererHook:   "a waiting process delivers it",
	state.DelivererPoller: "it is typed into tmux",
	state.DelivererLater:  "it is read with Claude's next step",
}

// awaitVerdict waits until the poller has judged a reply. Unless the reply became the
// question's answer, it fails.
func (a answerer) awaitVerdict(ctx context.Context, path, replyName string) (*state.Question, error) {
	ctx, cancel := context.WithTimeout(ctx, verdictTimeout)
	defer cancel()
	q, err := state.Await(ctx, a.env, a.self, path, func(q *state.Question) bool {
		r := q.FindReply(replyName)
		return r == nil || r.Verdict != state.VerdictUnread || !q.Status.IsOpen()
	})
	if err != nil && ctx.Err() == nil {
		return q, err
	}
	if q == nil || q.FindReply(replyName) == nil {
		return q, errors.New("the poller has not read the reply yet")
	}
	verdict := q.FindReply(replyName).Verdict
	noteKind := verdictNotes[verdict]
	if noteKind == "" && !q.Status.IsOpen() {
		noteKind = state.NoteLate
	}
	switch {
	case verdict == state.VerdictUsed:
		return q, nil
	case noteKind == state.NoteUnclear:
		return q, a.notUsedError(q, noteKind, replyName)
	case noteKind != "":
		return q, a.notUsedError(q, noteKind, "")
	}
	return q, errors.New("the reply is kept, but the poller has not read it yet")
}

// verdictNotes are the notes that a thread gets when a reply did not become the answer.
var verdictNotes = map[state.Verdict]string{
	state.VerdictKept:      state.NoteKept,
	state.VerdictAskedBack: state.NoteUnclear,
	state.VerdictAskedHow:  state.NoteUnclear,
	state.VerdictIgnored:   state.NoteNoText,
	state.VerdictLate:      state.NoteLate,
}

// notUsedError says why a reply did not become the answer, with the text of the note that
// the thread would get.
func (a answerer) notUsedError(q *state.Question, noteKind, replyName string) error {
	hint := ""
	answeredBy := cmp.Or(q.AnsweredByName, q.AnsweredBy)
	switch {
	case noteKind == state.NoteLate && answeredBy != "" && q.ResolvedBy != "terminal":
		hint = "it was answered by " + state.OneLine(answeredBy)
	case noteKind == state.NoteKept:
		hint = "this part is kept; answer the rest with another gchat-hooks answer"
	}
	texts := wording.NoteTexts(q, state.OwedNote{About: noteKind, ReplyMessage: replyName})
	return exitError(errors.New(strings.Join(texts, "")), hint, exitNotUsed)
}

// listQuestions shows the questions that a reply would answer, the oldest first, with
// their numbered options.
func (a answerer) listQuestions() error {
	a.ensurePoller()
	questions, _ := readOpenQuestions(a.env, time.Now())
	questions = slices.DeleteFunc(questions, func(q *state.Question) bool {
		return !q.IsAnswerable()
	})
	if len(questions) == 0 {
		_, err := fmt.Fprintln(a.out, "no open questions")
		return err
	}
	for _, q := range questions {
		key := state.OneLine(cmp.Or(q.ThreadKey, q.QuestionID))
		age := shortDuration(time.Since(q.AskedAt))
		fmt.Fprintf(a.out, "%s, %s old, session %s\n", key, age, state.OneLine(q.SessionName))
		for i, question := range q.SubQuestions {
			prefix, multipleHint := "", ""
			if len(q.SubQuestions) > 1 {
				prefix = fmt.Sprintf("Q%d. ", i+1)
			}
			if question.MultiSelect {
				multipleHint = " (one or more)"
			}
			text := wording.Cut(state.OneLine(questionText(q, i)), 2*maxQuestionBytes)
			fmt.Fprintf(a.out, "  %s%s%s\n", prefix, text, multipleHint)
			if q.Kind.Traits().IsPersonal {
				fmt.Fprintf(a.out, "    %s\n", decideElsewhere)
				continue
			}
			for n, o := range question.Options {
				fmt.Fprintf(a.out, "    %d. %s\n", n+1, state.OneLine(o.Label))
				preview := strings.Trim(state.Clean(state.ForTerminal, o.Preview), "\n")
				if preview != "" {
					shown := wording.Cut(preview, maxPreviewBytes)
					shown = strings.ReplaceAll(shown, "\n", "\n"+previewIndent)
					fmt.Fprintf(a.out, "%s%s\n", previewIndent, shown)
				}
			}
		}
	}
	return nil
}
