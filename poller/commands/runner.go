package commands

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// commandTimeout is how long a command may take.
const commandTimeout = 30 * time.Second

// AcceptsInput reports whether a session takes messages: its hooks accept them, and its
// Claude Code runs.
func AcceptsInput(session *state.Session, now time.Time) bool {
	isKnown := session.ClaudePID > 1 || now.Sub(session.LastSeen).Abs() < state.MaxQuestionAge
	return session.AcceptsCommands && session.IsRunning() && isKnown &&
		!inject.HasEnded(session.ClaudePID, session.ClaudeStart) &&
		!inject.IsElsewhere(session.ClaudeStart)
}

// HasMovedOn reports whether the Claude Code of a session has moved on to another
// session. A message to the first session must not reach the second. Just after /clear,
// no hook has reported the new session yet; it continues in the same thread, and
// HasMovedOn is false.
func HasMovedOn(folder state.Sessions, session *state.Session) bool {
	currentID := inject.SessionIDOf(session.ClaudePID, session.ClaudeStart, session.TranscriptPath)
	if currentID == "" {
		return folder.IsSuperseded(session)
	}
	_, loadErr := folder.Get(currentID)
	return currentID != session.ID && (loadErr == nil || session.EndReason == "resume")
}

// IsTypedCommand reports whether a text is one of Claude Code's own commands, and the
// session has a terminal to type it into. It is typed unchanged.
func IsTypedCommand(session *state.Session, text string, extraCommands []string) bool {
	return session.TmuxPane != "" && wording.IsClaudeCommand(text, extraCommands)
}

// HasUntypedCommand reports whether one of Claude Code's own commands waits to be typed
// into a session. A message that follows it is meant for the time after the command. It
// is no reply to what waited before.
func HasUntypedCommand(
	session *state.Session,
	messages []*state.Incoming,
	extraCommands []string,
) bool {
	return slices.ContainsFunc(messages, func(in *state.Incoming) bool {
		return in.ResolvedBy == "" && IsTypedCommand(session, in.Text, extraCommands)
	})
}

// AcceptsFrom returns the time from which messages to a session count: the session's
// start, or the moment when a poller began to start it.
func AcceptsFrom(session *state.Session) time.Time {
	startDuration := session.StartedAt.Sub(session.StartingAt)
	if startDuration > 0 && startDuration < StartTimeout {
		return session.StartingAt
	}
	return session.StartedAt
}

// NotTakenText returns the note for a message that no session takes.
func (r Runner) NotTakenText(session *state.Session) string {
	isRunning := AcceptsInput(session, r.Now()) || session.IsRunning() && !session.AcceptsCommands
	if isRunning && inject.TerminalDialogText(r.Env, session) != "" {
		return wording.DialogOpenText
	}
	if isRunning && HasMovedOn(state.SessionsIn(state.UserStateDir(r.Env)), session) {
		return wording.SessionReplacedText(session)
	}
	return wording.NobodyWaitsText(session, isRunning)
}

// EnqueueNote enqueues a note for the thread of a session, once.
func (r Runner) EnqueueNote(session *state.Session, id, text string) error {
	return r.Enqueue(r.newNote(session, id, text))
}

// enqueueResult enqueues the result of a command for the thread that the command was
// written in, once.
func (r Runner) enqueueResult(session *state.Session, in *state.Incoming, text string) error {
	message := r.newNote(session, state.MessageID("command", in.MessageName), text)
	if in.ThreadName != session.ThreadName {
		// The session's thread key would send the result to the session's own thread.
		message.ThreadName, message.ThreadKey = in.ThreadName, ""
	}
	return r.Enqueue(message)
}

func (r Runner) newNote(session *state.Session, id, text string) *state.Message {
	return &state.Message{
		ID:         id,
		Type:       state.MessageNote,
		Parts:      []string{text},
		ProjectDir: session.ProjectDir,
		IsTrusted:  session.IsTrusted,
		SessionID:  session.ID,
		Chat:       session.Chat,
		ThreadName: session.ThreadName,
		ThreadKey:  state.SessionThreadKey(session.ID),
		IsUrgent:   true,
		CreatedAt:  r.Now().UTC(),
	}
}

// IsOurCommand reports whether a message to a session is one of our commands, and not
// for Claude.
func (r Runner) IsOurCommand(session *state.Session, in *state.Incoming) bool {
	return in.IsCommand() && !IsTypedCommand(session, in.Text, r.Config.ClaudeCommands)
}

// RunCommands runs our commands, the oldest first. The record says that a command was
// begun before it runs. So no command runs twice, even after kill -9.
func (r Runner) RunCommands(
	ctx context.Context,
	session *state.Session,
	messages []*state.Incoming,
) error {
	endsGrantNow := func(in *state.Incoming) bool {
		return endsGrant(in) && r.isAccepted(session, in)
	}
	if slices.ContainsFunc(messages, endsGrantNow) {
		questions, _ := state.ReadIndexedQuestions(r.Env, state.GrantText)
		err := state.EndGrants(questions, session.ID)
		if err != nil {
			return err
		}
	}
	for _, in := range messages {
		err := error(nil)
		if r.isAccepted(session, in) {
			err = r.runOnce(ctx, session, in)
		} else {
			err = r.finish(in, state.OutcomeNobody)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isAccepted reports whether a message to a session counts: its sender is an approver,
// and a command is not older than the session. A prompt may be older, because a session
// that is started for it begins after it.
func (r Runner) isAccepted(session *state.Session, in *state.Incoming) bool {
	isLate := in.IsCommand() && in.LocalCreatedAt.Before(AcceptsFrom(session))
	return !isLate && r.Config.CanApprove(in.Sender, in.SenderEmail)
}

func (r Runner) finish(in *state.Incoming, outcome state.Outcome) error {
	return r.inbox().Finish(in, outcome, r.Now())
}

func (r Runner) inbox() state.Inbox { return state.InboxIn(state.UserStateDir(r.Env)) }

// ErrStarting means that the session's Claude Code is being started.
var ErrStarting = errors.New("the session is being started")

const policyText = "[Not used] A policy allows instructions only in the terminal. " +
	"Please give them there."

// KeepPrompts keeps prompts until Claude can take them, or enqueues a note that says
// why nothing takes them. It starts a session that has ended, if the person has
// configured that.
func (r Runner) KeepPrompts(
	ctx context.Context,
	session *state.Session,
	prompts []*state.Incoming,
) error {
	canTake := !HasMovedOn(state.SessionsIn(state.UserStateDir(r.Env)), session)
	notTaken := r.NotTakenText(session)
	if !r.Config.AccessTo(state.KindPrompt, "").CanAsk {
		canTake, notTaken = false, policyText
	}
	hasPrompt := slices.ContainsFunc(prompts, func(in *state.Incoming) bool {
		return !in.IsCommand() && r.isAccepted(session, in)
	})
	canStart := r.Config.CanStartSessions && session.AcceptsCommands
	if canTake && hasPrompt && canStart && !AcceptsInput(session, r.Now()) {
		started, why := r.StartClaude(ctx, session)
		switch {
		case why != "":
			notTaken = wording.NotStartedText(why)
		case started == nil:
			return ErrStarting
		default:
			session = started
			id := state.MessageID("begun", session.ID, session.StartingAt.String())
			err := r.EnqueueNote(session, id, wording.StartedText(session))
			r.Log.ErrorOnce(err, "note not enqueued")
		}
	}
	canTake = canTake && AcceptsInput(session, r.Now())
	for _, in := range prompts {
		err := error(nil)
		isForDialog := wording.IsDecision(in.Text) &&
			inject.TerminalDialogText(r.Env, session) != ""
		switch {
		case !r.isAccepted(session, in):
			err = r.finish(in, state.OutcomeNobody)
		case isForDialog:
			err = r.refuse(session, in, wording.DialogOpenText)
		case canTake:
			err = r.keepPrompt(session, in)
		default:
			err = r.refuse(session, in, notTaken)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refuse enqueues a note that says why nothing takes a message, and finishes the
// message.
func (r Runner) refuse(session *state.Session, in *state.Incoming, why string) error {
	err := r.EnqueueNote(session, state.MessageID("nobody", in.MessageName), why)
	if err != nil {
		return err
	}
	return r.finish(in, state.OutcomeNobody)
}

// keepPrompt keeps a prompt. If a hook waits for the next instruction, the prompt
// becomes the reply to its question instead: Chat may not have confirmed that question
// yet, or a stranger replied to it first.
func (r Runner) keepPrompt(session *state.Session, in *state.Incoming) error {
	folder := state.QuestionsIn(r.stateDir(session))
	open, _, err := folder.OfSession(session.ID, append(state.OpenStatusTexts, in.MessageName)...)
	if err != nil {
		return err
	}
	hasReply := func(q *state.Question) bool {
		reply := q.FindReply(in.MessageName)
		// Inbox.AddOldPrompt marks a reply that it moved to the inbox as ignored.
		return q.Kind.Traits().IsPrompt && reply != nil && reply.Verdict != state.VerdictIgnored
	}
	if slices.ContainsFunc(open, hasReply) { // a poller was killed after it saved the reply
		return r.finish(in, state.OutcomeReply)
	}
	i := slices.IndexFunc(open, r.isWaitingForNext)
	if i >= 0 {
		isReply, err := r.answerNext(open[i], in)
		if err != nil || isReply {
			return err
		}
	}
	answer, unclear := wording.ParseDecision(in.Text, &state.Question{Kind: state.KindPrompt})
	if IsTypedCommand(session, in.Text, r.Config.ClaudeCommands) {
		answer.Text, unclear = strings.TrimSpace(in.Text), ""
	}
	_, err = r.inbox().Change(in.ID, func(in *state.Incoming) {
		if in.Status != state.IncomingRouted {
			return
		}
		in.Status = state.IncomingKept
		if unclear != "" {
			in.ResolvedBy, in.EndedAt = state.EndedReplaced, r.Now().UTC()
			return
		}
		in.Text = answer.Text
	})
	return err
}

// isWaitingForNext reports whether a hook waits for the next instruction, and no
// approver has replied to its question.
func (r Runner) isWaitingForNext(q *state.Question) bool {
	hasReply := slices.ContainsFunc(q.Replies, func(reply state.Reply) bool {
		return reply.Verdict == state.VerdictUnread &&
			r.Config.CanApprove(reply.Sender, reply.SenderEmail)
	})
	isOpen := q.Kind == state.KindNext && q.Status == state.Pending && !hasReply
	return isOpen && state.HasWaiter(r.Env, q.Path)
}

// answerNext makes a prompt the reply to a "next instruction" question. isReply is
// false if that question was answered just before.
func (r Runner) answerNext(q *state.Question, in *state.Incoming) (isReply bool, err error) {
	reply := in.AsReply()
	reply.CreatedAt = in.LocalCreatedAt
	_, err = state.ChangeQuestion(q.Path, func(q *state.Question) {
		isReply = r.isWaitingForNext(q)
		if isReply {
			q.Replies = append(q.Replies, reply)
		}
	})
	if err == nil && isReply {
		err = r.finish(in, state.OutcomeReply)
	}
	return isReply, err
}

// interruptedText is the note about a command that was running when the poller was
// killed.
const interruptedText = "[Not known] The poller was stopped while it ran this command. " +
	"Check what happened before you send it again."

// runOnce runs one of our commands, and enqueues its result.
func (r Runner) runOnce(ctx context.Context, session *state.Session, in *state.Incoming) error {
	wasStarted := false
	current, err := r.inbox().Change(in.ID, func(stored *state.Incoming) {
		// Another poller may have begun it since in was read.
		wasStarted = stored.Status == state.IncomingDoing
		stored.Status = state.IncomingDoing
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // another poller finished it
	case err != nil:
		return err
	}
	text := interruptedText
	if !wasStarted {
		r.Log.Info().
			Str("session", session.Name).
			Str("message", current.MessageName).
			Str("sender", current.Sender).
			Str("text", current.Text).
			Msg("command")
		text = r.NotTakenText(session)
		if AcceptsInput(session, r.Now()) {
			text = r.RunCommand(ctx, session, current)
		}
	}
	err = r.enqueueResult(session, current, text)
	if err != nil {
		return err
	}
	return r.finish(current, state.OutcomeCommand)
}

// stateDir returns the folder for the questions that let a session act.
func (r Runner) stateDir(session *state.Session) string {
	// A session that an earlier version recorded has no StateDir.
	spareDir := state.SpareStateDir(state.ProjectEnv(r.Env, session.ProjectDir, true))
	return cmp.Or(session.StateDir, spareDir)
}
