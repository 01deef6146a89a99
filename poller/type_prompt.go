package poller

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/poller/commands"
	"gchat-hooks/state"
)

const (
	// after its typing, for the hook that saw an instruction as a prompt
	proofTimeout    = 10 * time.Second
	proofCheckPause = 300 * time.Millisecond // from one look for such a proof to the next
	maxPastes       = 3                      // of an instruction that no hook ever sees
)

// A nextPrompt is what the poller types as a session's next prompt: the answer to its
// question for the next instruction, or words that were said unasked.
type nextPrompt struct {
	question *state.Question // of words, what they look like as one
	incoming *state.Incoming // words; nil of an answer
	session  *state.Session  // of words
	tries    *typingTries
	// trusted says that the files of its project count.
	isTrusted bool
}

// typePrompt types a session's next prompt at its empty input box, and submits it. The
// next UserPromptSubmit or Stop of the session proves that it arrived and closes it;
// where neither comes, it is typed again. What is said while Claude works is queued by
// Claude Code, and typed once: where it cannot be seen that Claude Code has it, a person
// has to look.
func (p *Poller) typePrompt(ctx context.Context, prompt *nextPrompt) {
	prompt.tries.nextAt = p.Now().Add(retryPause)
	text, _ := prompt.question.Decision()
	switch {
	case prompt.question.Typing != nil && strings.HasPrefix(text, "/"): // a poller was killed
		p.endPrompt(prompt, "chat", "What became of it was not seen.")
		return
	case prompt.question.Typing != nil && p.handleTypedBefore(prompt, text):
		return
	case p.isDryRun():
		p.endDryRunPrompt(prompt, "would type: "+text)
		return
	}
	session, firstKey, why := p.checkReadyForPrompt(ctx, prompt, text)
	// What was said after a /clear from Chat is for what its Claude Code has by now.
	isLeft := session != nil && session.EndReason != "clear" &&
		commands.HasMovedOn(state.SessionsIn(p.userStateDir), session)
	hasJustBegun := session != nil && p.Now().Sub(session.StartingAt).Abs() < commands.StartTimeout
	switch {
	case isLeft:
		p.endPrompt(prompt, "superseded", "")
	case why != "" && !hasJustBegun:
		p.handlePromptNotTyped(prompt, why)
	case why == "":
		p.typePromptNow(ctx, prompt, session, text, firstKey)
	}
}

// handleTypedBefore looks for the proof that a prompt arrived which was typed before. It
// says whether there is nothing to be typed for now.
func (p *Poller) handleTypedBefore(prompt *nextPrompt, text string) bool {
	typing := prompt.question.Typing
	remaining, isQueued := typing.LastKeyAt.Add(proofTimeout).
		Sub(p.Now()),
		typing.LastKey == state.KeyQueued
	isWaiting := remaining > 0 && remaining <= proofTimeout
	session, err := state.SessionsIn(p.userStateDir).Get(prompt.question.ClaudeSession())
	canLook := (isQueued || !isWaiting) && err == nil
	switch {
	case canLook && inject.TranscriptHasPrompt(p.transcriptPath(session), text, typing.LastKeyAt, true):
		p.endPrompt(prompt, "chat", "") // it is in the queue; or no hook of ours runs there
	case isWaiting && isQueued:
		// 2.1.329 tells a hook of the queue, and the transcript says so in both versions
		prompt.tries.nextAt = p.Now().Add(proofCheckPause)
	case isWaiting:
		prompt.tries.nextAt = p.Now().Add(remaining)
	case isQueued:
		p.leavePromptToPerson(prompt, "Claude Code did not say that it has your message")
	case typing.KeyCount >= maxPastes:
		p.endPrompt(prompt, "not_typed", "")
	default:
		return false
	}
	return true
}

// typePromptNow types a prompt where the screen just showed that it can be typed.
func (p *Poller) typePromptNow(
	ctx context.Context,
	prompt *nextPrompt,
	session *state.Session,
	text, firstKey string,
) {
	earlierTyping := prompt.question.Typing
	typing := state.Typing{LastKeyAt: p.Now().UTC(), LastKey: firstKey, IsSubmit: true, KeyCount: 1}
	if earlierTyping != nil {
		typing.KeyCount = earlierTyping.KeyCount + 1
	}
	if p.saveTyping(prompt, &typing) != nil {
		return // its person went on in the terminal
	}
	if earlierTyping == nil {
		p.Log.ErrorOnce(
			state.AppendDecision(p.Env, p.Log, prompt.question.DecisionLine(text)),
			"not in the audit log",
		)
	}
	p.saveLastTyped(session, text, typing.LastKeyAt)
	menu := commands.NewMenu(p.Env, session)
	if earlierTyping != nil {
		menu.OwnText = text
	}
	err := menu.Run(ctx, session.TmuxPane, "type", []string{text})
	p.Log.Info().
		Str("question", prompt.question.QuestionID).
		Str("session", prompt.question.SessionName).
		Err(err).
		Msg("next instruction typed")
	userErr := new(state.UserError)
	isRefused := errors.As(err, &userErr) && userErr.Code == 2
	isUnsent := errors.As(err, new(inject.UnsubmittedError)) && firstKey == state.KeyQueued
	switch {
	case isRefused: // nothing of it stands there
		p.saveTyping(prompt, earlierTyping)
		p.handlePromptNotTyped(prompt, err.Error())
	case isUnsent:
		typing.LastKey = "text"
		p.saveTyping(prompt, &typing)
		p.handlePromptNotTyped(prompt, err.Error())
	case strings.HasPrefix(text, "/"):
		p.endPrompt(prompt, "chat", p.commandRunner().AwaitOutcome(ctx, session, text))
	case firstKey == state.KeyQueued:
		prompt.tries.nextAt = time.Time{} // its proof is looked for
	default:
		prompt.tries.nextAt = p.Now().Add(proofTimeout)
	}
}

// saveLastTyped notes what was typed last into a session's terminal: a hook is told of it
// as of a prompt, and /stop may find it in the box.
func (p *Poller) saveLastTyped(session *state.Session, text string, typedAt time.Time) {
	_, err := state.SessionsIn(p.userStateDir).Change(session.ID, func(session *state.Session) {
		session.LastTyped = &state.TypedPrompt{Text: text, TypedAt: typedAt}
	})
	p.Log.ErrorOnce(err, "what is typed not noted")
}

// saveTyping writes down what is typed of a prompt; nil is that nothing was. An error is
// also that the prompt is over.
func (p *Poller) saveTyping(prompt *nextPrompt, typing *state.Typing) error {
	prompt.question.Typing = typing
	if prompt.incoming != nil {
		return p.changePrompt(prompt.incoming, func(in *state.Incoming) error {
			in.Status, in.Typing = state.IncomingDoing, typing
			if typing == nil {
				in.Status = state.IncomingKept
			}
			return nil
		})
	}
	_, err := state.UpdateQuestion(prompt.question.Path, func(q *state.Question) error {
		if q.Status != state.Answered {
			return state.ErrTransition
		}
		q.InjectionAttempted, q.Typing = true, typing
		return nil
	})
	if !errors.Is(err, state.ErrTransition) {
		p.Log.ErrorOnce(err, "typing not written down")
	}
	return err
}

// endPrompt ends a prompt; said is what the terminal said of a command.
func (p *Poller) endPrompt(prompt *nextPrompt, resolvedBy, terminalOutput string) {
	switch {
	case prompt.incoming != nil:
		p.endKeptPrompt(prompt.incoming, resolvedBy, terminalOutput)
	case resolvedBy == "chat":
		p.closeQuestion(prompt.question, state.Resolved, resolvedBy, nil)
	default:
		p.closeQuestion(prompt.question, state.Cancelled, resolvedBy, nil)
	}
}

func (p *Poller) endDryRunPrompt(prompt *nextPrompt, would string) {
	p.reportDryRun(prompt.question, prompt.question.TmuxPane, would, 0)
	prompt.tries.nextAt = time.Time{} // for the next reply
	if prompt.incoming == nil {
		p.withdrawDryRunAnswer(prompt.question)
		return
	}
	in := *prompt.incoming
	in.ResolvedBy, in.EndedAt = state.EndedReplaced, p.Now().UTC() // nothing else waits for it
	err := p.finishPrompt(
		prompt.session,
		&in,
		state.OwedNote{About: state.NoteDryRun, ReplyMessage: in.MessageName},
	)
	p.Log.ErrorOnce(err, "words of a dry run not given up")
}

// handlePromptNotTyped counts a try that changed nothing, and tells the thread why when
// it goes on.
func (p *Poller) handlePromptNotTyped(prompt *nextPrompt, why string) {
	interval := p.loadConfig(
		configSource{prompt.question.ProjectDir, prompt.isTrusted},
	).PollInterval
	mustNotify := prompt.tries.countFailure(p.Now(), interval, why)
	p.logNotTyped(prompt.question, prompt.tries)
	switch {
	case !mustNotify:
	case prompt.incoming != nil:
		p.enqueuePromptNote(
			prompt.session,
			prompt.question,
			state.OwedNote{About: state.NoteNotTyped, Text: why},
		)
	default:
		p.oweNotTypedNote(prompt.question, why)
	}
}

// leavePromptToPerson tells the thread that a person has to look: nothing more is typed.
func (p *Poller) leavePromptToPerson(prompt *nextPrompt, why string) {
	if prompt.incoming == nil {
		p.leaveToPerson(prompt.question, inject.Outcome{Result: inject.Dirty, Why: why})
		return
	}
	typing := *prompt.question.Typing
	typing.IsEnded, typing.Result, typing.Why = true, string(inject.Dirty), wording.SafeLine(why)
	if p.saveTyping(prompt, &typing) == nil {
		p.enqueuePromptNote(
			prompt.session,
			prompt.question,
			state.OwedNote{
				About:        state.NoteNotTyped,
				ReplyMessage: prompt.incoming.MessageName,
				Text:         why,
			},
		)
	}
}

// transcriptPath is a session's transcript; of one that was begun from Chat, and called
// no hook yet, where Claude Code puts it.
func (p *Poller) transcriptPath(session *state.Session) string {
	if session.TranscriptPath != "" {
		return session.TranscriptPath
	}
	paths, _ := filepath.Glob(
		filepath.Join(state.Home(p.Env), ".claude", "projects", "*", session.ID+".jsonl"),
	)
	return strings.Join(paths, "") // of several none
}

// checkReadyForPrompt says whether an instruction can be typed into the pane of its
// session: at an empty prompt, or where it stands there already, since a poller was
// killed; then it is taken out first. last is the key that is written down before. why
// says what is in the way; a person's draft is left alone.
func (p *Poller) checkReadyForPrompt(
	ctx context.Context,
	prompt *nextPrompt,
	text string,
) (session *state.Session, firstKey, why string) {
	q := prompt.question
	session, err := state.SessionsIn(p.userStateDir).Get(q.ClaudeSession())
	var screen inject.Screen
	if err == nil {
		_, screen, err = commands.CaptureScreen(ctx, session)
	}
	dialog := (*state.Dialog)(nil)
	if err == nil {
		dialog, _ = inject.DialogOf(session)
	}
	firstKey = "text"
	if screen.Busy {
		firstKey = state.KeyQueued
	}
	switch {
	case err != nil:
		return session, "", err.Error()
	case screen.Busy && (prompt.incoming == nil || q.Typing != nil || strings.HasPrefix(text, "/")):
		return session, "", wording.ClaudeWorks
	case dialog != nil && !screen.IsDialog(): // whatever the screen looks like
		return session, "", "a dialog is open in the terminal; answer it there, and your message goes in then"
	case screen.LimitEnd != "": // the request would be refused
		return session, "", "the usage limit is reached, and Claude goes on " + screen.LimitEnd + "; your message goes in then"
	case screen.Shows == inject.Prompt,
		screen.Shows == inject.Draft && q.Typing != nil && inject.SameText(screen.Draft, text):
		return session, firstKey, ""
	}
	if screen.Shows == inject.Draft { // which is its person's, and not for the space
		return session, "", wording.DraftInBox
	}
	why = "the terminal shows " + screen.String()
	if screen.IsDialog() {
		why += "; answer it in its own thread, or in the terminal, and your message goes in then"
	}
	return session, "", why
}
