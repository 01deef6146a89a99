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
	// how long after the typing a hook may report the prompt
	proofTimeout    = 10 * time.Second
	proofCheckPause = 300 * time.Millisecond // from one search for that proof to the next
	maxPastes       = 3                      // of a prompt that no hook ever reports
)

// nextPrompt is what the poller types as a session's next prompt: the answer to its
// "next instruction" question, or a message that a person wrote without being asked.
type nextPrompt struct {
	question *state.Question // the question; a message is represented as one
	incoming *state.Incoming // the message; nil for an answer
	session  *state.Session  // the message's session; nil for an answer
	tries    *typingTries

	isTrusted bool // the files of its project count
}

// typePrompt types a session's next prompt into its empty input box, and submits it.
// The session's next UserPromptSubmit or Stop hook proves that it arrived, and closes
// it. If neither hook comes, the prompt is typed again. While Claude works, Claude Code
// queues the prompt, and it is typed once: if there is no proof that Claude Code has
// it, a person has to look.
func (p *Poller) typePrompt(ctx context.Context, prompt *nextPrompt) {
	prompt.tries.nextAt = p.Now().Add(retryPause)
	text, _ := prompt.question.Decision()
	switch {
	case prompt.question.Typing != nil && strings.HasPrefix(text, "/"):
		// A poller typed the command, and was killed.
		p.endPrompt(prompt, "chat", "Its outcome was not seen.")
		return
	case prompt.question.Typing != nil && p.handleTypedBefore(prompt, text):
		return
	case p.isDryRun():
		p.endDryRunPrompt(prompt, "would type: "+text)
		return
	}
	session, firstKey, why := p.checkReadyForPrompt(ctx, prompt, text)
	// After a /clear from Chat, a message is for the session that Claude Code has since
	// then.
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

// handleTypedBefore looks for the proof that a prompt arrived which was typed before.
// It reports whether nothing is to be typed at this moment.
func (p *Poller) handleTypedBefore(prompt *nextPrompt, text string) bool {
	typing := prompt.question.Typing
	remaining := typing.LastKeyAt.Add(proofTimeout).Sub(p.Now())
	isQueued := typing.LastKey == state.KeyQueued
	isWaiting := remaining > 0 && remaining <= proofTimeout
	session, err := state.SessionsIn(p.userStateDir).Get(prompt.question.ClaudeSession())
	canLook := (isQueued || !isWaiting) && err == nil
	hasArrived := canLook &&
		inject.TranscriptHasPrompt(p.transcriptPath(session), text, typing.LastKeyAt, true)
	switch {
	case hasArrived:
		p.endPrompt(prompt, "chat", "") // it is in the queue, or no hook of ours runs there
	case isWaiting && isQueued:
		// Claude Code 2.1.329 also reports a queued prompt to a hook. The transcript
		// has it in every version that we know.
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

// typePromptNow types a prompt right after the screen showed that this is possible.
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
		return // its person continued in the terminal
	}
	if earlierTyping == nil {
		err := state.AppendDecision(p.Env, p.Log, prompt.question.DecisionLine(text))
		p.Log.ErrorOnce(err, "prompt not written to the audit log")
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
	case isRefused: // nothing of the prompt is in the input box
		p.saveTyping(prompt, earlierTyping)
		p.restoreLastTyped(session)
		p.handlePromptNotTyped(prompt, err.Error())
	case isUnsent:
		typing.LastKey = "text"
		p.saveTyping(prompt, &typing)
		p.handlePromptNotTyped(prompt, err.Error())
	case strings.HasPrefix(text, "/"):
		p.endPrompt(prompt, "chat", p.commandRunner().AwaitOutcome(ctx, session, text))
	case firstKey == state.KeyQueued:
		prompt.tries.nextAt = time.Time{} // the next step looks for its proof
	default:
		prompt.tries.nextAt = p.Now().Add(proofTimeout)
	}
}

// saveLastTyped saves what was typed last into a session's terminal. A hook gets it
// back as a prompt, and /stop may find it in the input box.
func (p *Poller) saveLastTyped(session *state.Session, text string, typedAt time.Time) {
	_, err := state.SessionsIn(p.userStateDir).Change(session.ID, func(session *state.Session) {
		session.LastTyped = session.LastTyped.Then(text, typedAt)
	})
	p.Log.ErrorOnce(err, "typed prompt not saved")
}

// restoreLastTyped saves again what was typed before a prompt of which no key was typed.
// That text may still be put back into the input box.
func (p *Poller) restoreLastTyped(before *state.Session) {
	_, err := state.SessionsIn(p.userStateDir).Change(before.ID, func(session *state.Session) {
		session.LastTyped = before.LastTyped
	})
	p.Log.ErrorOnce(err, "typed prompt not saved")
}

// saveTyping saves how far a prompt is typed; a nil typing means not at all. It fails
// with state.ErrTransition if the prompt has ended.
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
		p.Log.ErrorOnce(err, "typing not saved")
	}
	return err
}

// endPrompt ends a prompt. terminalOutput is what the terminal showed for a command.
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
	prompt.tries.nextAt = time.Time{} // the next reply may be tried at once
	if prompt.incoming == nil {
		p.withdrawDryRunAnswer(prompt.question)
		return
	}
	in := *prompt.incoming
	in.ResolvedBy, in.EndedAt = state.EndedReplaced, p.Now().UTC() // no process waits for it
	owed := state.OwedNote{About: state.NoteDryRun, ReplyMessage: in.MessageName}
	p.Log.ErrorOnce(p.finishPrompt(prompt.session, &in, owed), "prompt of a dry run not ended")
}

// handlePromptNotTyped counts a try that changed nothing. After some tries a note says
// why.
func (p *Poller) handlePromptNotTyped(prompt *nextPrompt, why string) {
	source := configSource{prompt.question.ProjectDir, prompt.isTrusted}
	interval := p.loadConfig(source).PollInterval
	mustNotify := prompt.tries.countFailure(p.Now(), interval, why)
	p.logNotTyped(prompt.question, prompt.tries)
	switch {
	case !mustNotify:
	case prompt.incoming != nil:
		p.enqueuePromptNote(prompt.session, prompt.question, state.OwedNote{
			About:        state.NoteNotTyped,
			ReplyMessage: prompt.incoming.MessageName,
			Text:         why,
		})
	default:
		p.oweNotTypedNote(prompt.question, why)
	}
}

// leavePromptToPerson has the thread informed that a person has to look. Nothing more
// is typed.
func (p *Poller) leavePromptToPerson(prompt *nextPrompt, why string) {
	if prompt.incoming == nil {
		p.leaveToPerson(prompt.question, inject.Outcome{Result: inject.Dirty, Why: why})
		return
	}
	typing := *prompt.question.Typing
	typing.IsEnded = true
	typing.Result, typing.Why = string(inject.Dirty), wording.SafeLine(why)
	if p.saveTyping(prompt, &typing) == nil {
		p.enqueuePromptNote(prompt.session, prompt.question, state.OwedNote{
			About:        state.NoteNotTyped,
			ReplyMessage: prompt.incoming.MessageName,
			Text:         why,
		})
	}
}

// transcriptPath returns the path of a session's transcript. A session that was started
// from Chat may not have called a hook yet; its transcript is looked for where Claude
// Code puts it.
func (p *Poller) transcriptPath(session *state.Session) string {
	if session.TranscriptPath != "" {
		return session.TranscriptPath
	}
	projects := filepath.Join(state.Home(p.Env), ".claude", "projects")
	paths, _ := filepath.Glob(filepath.Join(projects, "*", session.ID+".jsonl"))
	return strings.Join(paths, "") // several joined paths name no file, so none is read
}

// checkReadyForPrompt checks whether a prompt can be typed into the pane of its
// session. It can at an empty input box. It also can where a text of ours stands in the
// box: the prompt itself because a poller was killed, or one that Claude Code put back. The
// box is cleared first then. A person's draft is left alone. firstKey is the key to save
// before the typing; why says what is in the way.
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
	canQueue := prompt.incoming != nil && q.Typing == nil && !strings.HasPrefix(text, "/")
	isUnsent := screen.Shows == inject.Draft && q.Typing != nil &&
		inject.SameText(screen.Draft, text)
	switch {
	case err != nil:
		return session, "", err.Error()
	case screen.Busy && !canQueue:
		return session, "", wording.ClaudeWorks
	case dialog != nil && !screen.IsDialog(): // even if the screen does not show it
		return session, "", "a dialog is open in the terminal; " +
			"answer it there, and your message is typed then"
	case screen.LimitEnd != "": // Anthropic would refuse the request
		return session, "", "the usage limit is reached, and Claude goes on " + screen.LimitEnd +
			"; your message is typed then"
	case session.UsageLimitUntil.After(p.Now()) && !screen.Busy:
		return session, "", "the usage limit is reached until " +
			session.UsageLimitUntil.Local().Format("15:04 on Monday") +
			"; your message is typed then"
	case screen.Shows == inject.Prompt, isUnsent,
		inject.Server{Socket: session.TmuxSocket}.HoldsTyped(
			ctx, session.TmuxPane, screen, session.LastTyped):
		return session, firstKey, ""
	}
	if screen.Shows == inject.Draft { // the text of the draft must not appear in the space
		return session, "", wording.DraftInBox
	}
	why = "the terminal shows " + screen.String()
	if screen.IsDialog() {
		why += "; answer it in its own thread, or in the terminal, and your message is typed then"
	}
	return session, "", why
}
