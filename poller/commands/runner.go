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

// AcceptsInput says whether a session takes what is said to it: its hooks said so, and
// its Claude Code runs.
func AcceptsInput(session *state.Session, now time.Time) bool {
	isKnown := session.ClaudePID > 1 || now.Sub(session.LastSeen).Abs() < state.MaxQuestionAge
	return session.AcceptsCommands && session.IsRunning() && isKnown &&
		!inject.HasEnded(
			session.ClaudePID,
			session.ClaudeStart,
		) && !inject.IsElsewhere(session.ClaudeStart)
}

// HasMovedOn says that the Claude Code of a session goes on with another one: what is
// said to the first must not reach that. Just after /clear, no hook has told of the other
// one, which goes on in the same thread.
func HasMovedOn(folder state.Sessions, session *state.Session) bool {
	currentID := inject.SessionIDOf(session.ClaudePID, session.ClaudeStart, session.TranscriptPath)
	if currentID == "" {
		return folder.IsSuperseded(session)
	}
	_, loadErr := folder.Get(currentID)
	return currentID != session.ID && (loadErr == nil || session.EndReason == "resume")
}

// IsTypedCommand says whether a text is one of Claude Code's own commands that a
// session's terminal takes: it is typed as it is.
func IsTypedCommand(session *state.Session, text string, extraCommands []string) bool {
	return session.TmuxPane != "" && wording.IsClaudeCommand(text, extraCommands)
}

// HasUntypedCommand says whether one of Claude Code's own commands that was said to a
// session is not typed yet: words that are said then come after it, and are no reply to
// what waited before.
func HasUntypedCommand(
	session *state.Session,
	messages []*state.Incoming,
	extraCommands []string,
) bool {
	return slices.ContainsFunc(messages, func(in *state.Incoming) bool {
		return in.ResolvedBy == "" && IsTypedCommand(session, in.Text, extraCommands)
	})
}

// AcceptsFrom is from when on what is said to a session counts: since its start, or since
// a poller set about that.
func AcceptsFrom(session *state.Session) time.Time {
	if startTime := session.StartedAt.Sub(session.StartingAt); startTime > 0 &&
		startTime < StartTimeout {
		return session.StartingAt
	}
	return session.StartedAt
}

// NotTakenText is what is told of words that nothing takes.
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

// EnqueueNote puts a note into the thread of a session, once.
func (r Runner) EnqueueNote(session *state.Session, id, text string) error {
	return r.Enqueue(r.newNote(session, id, text))
}

// enqueueResult puts what became of a command into the thread that it was written in,
// once.
func (r Runner) enqueueResult(session *state.Session, in *state.Incoming, text string) error {
	message := r.newNote(session, state.MessageID("command", in.MessageName), text)
	if in.ThreadName != session.ThreadName {
		// its key would make that the session's thread
		message.ThreadName, message.ThreadKey = in.ThreadName, ""
	}
	return r.Enqueue(message)
}

func (r Runner) newNote(session *state.Session, id, text string) *state.Message {
	return &state.Message{
		ID: id, Type: state.MessageNote, Parts: []string{text}, ProjectDir: session.ProjectDir, IsTrusted: session.IsTrusted,
		SessionID: session.ID, Chat: session.Chat, ThreadName: session.ThreadName, ThreadKey: state.SessionThreadKey(session.ID), IsUrgent: true,
		CreatedAt: r.Now().UTC(),
	}
}

// IsOurCommand says whether something that was said to a session is a command of ours,
// and not for Claude.
func (r Runner) IsOurCommand(session *state.Session, in *state.Incoming) bool {
	return in.IsCommand() && !IsTypedCommand(session, in.Text, r.Config.ClaudeCommands)
}

// RunCommands does commands of ours, the oldest first. That one is done is written down
// before. So nothing is done twice, also after kill -9.
func (r Runner) RunCommands(
	ctx context.Context,
	session *state.Session,
	messages []*state.Incoming,
) error {
	endsGrantNow := func(in *state.Incoming) bool { return endsGrant(in) && r.isAccepted(session, in) }
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

// isAccepted says whether something that was said to a session counts. Words that are
// older than the session do: one that is started for them begins after them.
func (r Runner) isAccepted(session *state.Session, in *state.Incoming) bool {
	isLate := in.IsCommand() && in.LocalCreatedAt.Before(AcceptsFrom(session))
	return !isLate && r.Config.CanApprove(in.Sender, in.SenderEmail)
}

func (r Runner) finish(in *state.Incoming, outcome state.Outcome) error {
	return r.inbox().Finish(in, outcome, r.Now())
}

func (r Runner) inbox() state.Inbox { return state.InboxIn(state.UserStateDir(r.Env)) }

// ErrStarting says that the session's Claude Code is being started.
var ErrStarting = errors.New("the session is being started")

// KeepPrompts has words wait until Claude can take them, or tells their thread why
// nothing takes them. A session that has ended is started for them, where the person
// wants that.
func (r Runner) KeepPrompts(
	ctx context.Context,
	session *state.Session,
	prompts []*state.Incoming,
) error {
	canTake, notTaken := !HasMovedOn(
		state.SessionsIn(state.UserStateDir(r.Env)),
		session,
	), r.NotTakenText(
		session,
	)
	if !r.Config.AccessTo(state.KindPrompt, "").CanAsk {
		canTake, notTaken = false, "[Not used] By a policy, instructions are given in the terminal alone."
	}
	canStart := func(in *state.Incoming) bool { return !in.IsCommand() && r.isAccepted(session, in) }
	hasPrompt := slices.ContainsFunc(prompts, canStart)
	if canTake && hasPrompt && r.Config.CanStartSessions && session.AcceptsCommands &&
		!AcceptsInput(session, r.Now()) {
		started, why := r.StartClaude(ctx, session)
		switch {
		case why != "":
			notTaken = wording.NotStartedText(why)
		case started == nil:
			return ErrStarting
		default:
			session = started
			err := r.EnqueueNote(
				session,
				state.MessageID("begun", session.ID, session.StartingAt.String()),
				wording.StartedText(session),
			)
			r.Log.ErrorOnce(err, "note not put into the outbox")
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

// refuse tells a person why nothing takes their words.
func (r Runner) refuse(session *state.Session, in *state.Incoming, why string) error {
	err := r.EnqueueNote(session, state.MessageID("nobody", in.MessageName), why)
	if err != nil {
		return err
	}
	return r.finish(in, state.OutcomeNobody)
}

// keepPrompt has words wait. Where a hook waits for the next instruction, they are that:
// Chat may not have said yet that it has the question, or a stranger replied to it first.
func (r Runner) keepPrompt(session *state.Session, in *state.Incoming) error {
	folder := state.QuestionsIn(r.stateDir(session))
	open, _, err := folder.OfSession(session.ID, append(state.OpenStatusTexts, in.MessageName)...)
	if err != nil {
		return err
	}
	hasReply := func(q *state.Question) bool {
		r := q.FindReply(in.MessageName)
		// see Inbox.AddOldPrompt
		return q.Kind.Traits().IsPrompt && r != nil && r.Verdict != state.VerdictIgnored
	}
	if slices.ContainsFunc(open, hasReply) { // a poller was killed behind it
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

// isWaitingForNext says whether a hook waits for the next instruction by a question that
// no approver has answered.
func (r Runner) isWaitingForNext(q *state.Question) bool {
	hasReply := slices.ContainsFunc(q.Replies, func(reply state.Reply) bool {
		return reply.Verdict == state.VerdictUnread &&
			r.Config.CanApprove(reply.Sender, reply.SenderEmail)
	})
	return q.Kind == state.KindNext && q.Status == state.Pending && !hasReply &&
		state.HasWaiter(r.Env, q.Path)
}

// answerNext has words be the reply to a question for the next instruction; false where
// that was answered just now.
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

// interruptedText is told of a command that the program was doing when it was killed.
const interruptedText = "[Not known] The poller was stopped while it did this. Look what became of it before you send it again."

// runOnce does a command of ours, and tells its thread what became of it.
func (r Runner) runOnce(ctx context.Context, session *state.Session, in *state.Incoming) error {
	wasStarted := false
	current, err := r.inbox().Change(in.ID, func(stored *state.Incoming) {
		wasStarted = stored.Status == state.IncomingDoing // also since in was read
		stored.Status = state.IncomingDoing
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it is done
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

// stateDir is where what lets a session act is written.
func (r Runner) stateDir(session *state.Session) string {
	// Without it the session began under an earlier version.
	return cmp.Or(
		session.StateDir,
		state.SpareStateDir(state.ProjectEnv(r.Env, session.ProjectDir, true)),
	)
}
