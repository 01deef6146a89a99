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

// commandBound is how long a command may take.
const commandBound = 30 * time.Second

// Listens says whether a session takes what is said to it: its hooks said so, and its Claude Code runs.
func Listens(one *state.Session, now time.Time) bool {
	known := one.ClaudePID > 1 || now.Sub(one.LastSeen).Abs() < state.MaxQuestionAge
	return one.AcceptsCommands && one.IsRunning() && known &&
		!inject.Ended(one.ClaudePID, one.ClaudeStart) && !inject.Elsewhere(one.ClaudeStart)
}

// Left says that the Claude Code of a session goes on with another one: what is said to the first must not reach that. Just after
// /clear, no hook has told of the other one, which goes on in the same thread.
func Left(folder state.Sessions, one *state.Session) bool {
	now := inject.SessionOf(one.ClaudePID, one.ClaudeStart, one.TranscriptPath)
	if now == "" {
		return folder.IsSuperseded(one)
	}
	_, unknown := folder.Get(now)
	return now != one.ID && (unknown == nil || one.EndReason == "resume")
}

// Typed says whether a text is one of Claude Code's own commands that a session's terminal takes: it is typed as it is.
func Typed(one *state.Session, text string, more []string) bool {
	return one.TmuxPane != "" && wording.ClaudeCommand(text, more)
}

// Typing says whether one of Claude Code's own commands that was said to a session is not typed
// yet: words that are said then come after it, and are no reply to what waited before.
func Typing(one *state.Session, given []*state.Incoming, more []string) bool {
	return slices.ContainsFunc(given, func(in *state.Incoming) bool {
		return in.ResolvedBy == "" && Typed(one, in.Text, more)
	})
}

// BeganAt is from when on what is said to a session counts: since its start, or since a poller set about that.
func BeganAt(one *state.Session) time.Time {
	if took := one.StartedAt.Sub(one.StartingAt); took > 0 && took < BeginBound {
		return one.StartingAt
	}
	return one.StartedAt
}

// NobodyText is what is told of words that nothing takes.
func (r Room) NobodyText(one *state.Session) string {
	lives := Listens(one, r.Now()) || one.IsRunning() && !one.AcceptsCommands
	if lives && inject.WaitsThere(r.Env, one) != "" {
		return wording.DialogText
	}
	if lives && Left(state.SessionsIn(state.UserStateDir(r.Env)), one) {
		return wording.LeftText(one)
	}
	return wording.NobodyText(one, lives)
}

// Tell puts a note into the thread of a session, once.
func (r Room) Tell(one *state.Session, id, text string) error {
	return r.Put(r.note(one, id, text))
}

// answer puts what became of a command into the thread that it was written in, once.
func (r Room) answer(one *state.Session, in *state.Incoming, text string) error {
	m := r.note(one, state.MessageID("command", in.MessageName), text)
	if in.ThreadName != one.ThreadName {
		m.ThreadName, m.ThreadKey = in.ThreadName, "" // its key would make that the session's thread
	}
	return r.Put(m)
}

func (r Room) note(one *state.Session, id, text string) *state.Message {
	return &state.Message{
		ID: id, Type: state.MessageNote, Parts: []string{text}, ProjectDir: one.ProjectDir, IsTrusted: one.IsTrusted,
		SessionID: one.ID, Chat: one.Chat, ThreadName: one.ThreadName, ThreadKey: state.SessionThreadKey(one.ID), IsUrgent: true,
		CreatedAt: r.Now().UTC(),
	}
}

// IsOurs says whether something that was said to a session is a command of ours, and not for
// Claude.
func (r Room) IsOurs(one *state.Session, in *state.Incoming) bool {
	return in.IsCommand() && !Typed(one, in.Text, r.Config.ClaudeCommands)
}

// Work does commands of ours, the oldest first. That one is done is written down before. So
// nothing is done twice, also after kill -9.
func (r Room) Work(ctx context.Context, one *state.Session, given []*state.Incoming) error {
	endsYes := func(in *state.Incoming) bool { return asks(in) && r.counts(one, in) }
	if slices.ContainsFunc(given, endsYes) {
		qs, _ := state.ReadIndexedQuestions(r.Env, state.GrantText)
		err := state.EndGrants(qs, one.ID)
		if err != nil {
			return err
		}
	}
	for _, in := range given {
		err := error(nil)
		if r.counts(one, in) {
			err = r.doOnce(ctx, one, in)
		} else {
			err = r.finish(in, state.OutcomeNobody)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// counts says whether something that was said to a session counts. Words that are older than
// the session do: one that is started for them begins after them.
func (r Room) counts(one *state.Session, in *state.Incoming) bool {
	isLate := in.IsCommand() && in.LocalCreatedAt.Before(BeganAt(one))
	return !isLate && r.Config.CanApprove(in.Sender, in.SenderEmail)
}

func (r Room) finish(in *state.Incoming, outcome state.Outcome) error {
	return r.inbox().Finish(in, outcome, r.Now())
}

func (r Room) inbox() state.Inbox { return state.InboxIn(state.UserStateDir(r.Env)) }

// ErrBegins says that the session's Claude Code is being started.
var ErrBegins = errors.New("the session is being started")

// Keep has words wait until Claude can take them, or tells their thread why nothing takes
// them. A session that has ended is started for them, where the person wants that.
func (r Room) Keep(ctx context.Context, one *state.Session, words []*state.Incoming) error {
	takes, nobody := !Left(state.SessionsIn(state.UserStateDir(r.Env)), one), r.NobodyText(one)
	if !r.Config.AccessTo(state.KindPrompt, "").CanAsk {
		takes, nobody = false, "[Not used] By a policy, instructions are given in the terminal alone."
	}
	resumes := func(in *state.Incoming) bool { return !in.IsCommand() && r.counts(one, in) }
	hasWords := slices.ContainsFunc(words, resumes)
	if takes && hasWords && r.Config.CanStartSessions && one.AcceptsCommands && !Listens(one, r.Now()) {
		begun, why := r.Begin(ctx, one)
		switch {
		case why != "":
			nobody = wording.NotBegunText(why)
		case begun == nil:
			return ErrBegins
		default:
			one = begun
			err := r.Tell(one, state.MessageID("begun", one.ID, one.StartingAt.String()), wording.BegunText(one))
			r.Log.ErrorOnce(err, "note not put into the outbox")
		}
	}
	takes = takes && Listens(one, r.Now())
	for _, in := range words {
		err := error(nil)
		isForDialog := wording.IsDecision(in.Text) && inject.WaitsThere(r.Env, one) != ""
		switch {
		case !r.counts(one, in):
			err = r.finish(in, state.OutcomeNobody)
		case isForDialog:
			err = r.refuse(one, in, wording.DialogText)
		case takes:
			err = r.keepOne(one, in)
		default:
			err = r.refuse(one, in, nobody)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refuse tells a person why nothing takes their words.
func (r Room) refuse(one *state.Session, in *state.Incoming, why string) error {
	err := r.Tell(one, state.MessageID("nobody", in.MessageName), why)
	if err != nil {
		return err
	}
	return r.finish(in, state.OutcomeNobody)
}

// keepOne has words wait. Where a hook waits for the next instruction, they are that: Chat may
// not have said yet that it has the question, or a stranger replied to it first.
func (r Room) keepOne(one *state.Session, in *state.Incoming) error {
	folder := state.QuestionsIn(r.stateDir(one))
	have, _, err := folder.OfSession(one.ID, append(state.OpenStatusTexts, in.MessageName)...)
	if err != nil {
		return err
	}
	hasThis := func(q *state.Question) bool {
		r := q.FindReply(in.MessageName)
		return q.Kind.Traits().IsPrompt && r != nil && r.Verdict != state.VerdictIgnored // see Inbox.AddOldPrompt
	}
	if slices.ContainsFunc(have, hasThis) { // a poller was killed behind it
		return r.finish(in, state.OutcomeReply)
	}
	i := slices.IndexFunc(have, r.isAwaited)
	if i >= 0 {
		isReply, err := r.answerNext(have[i], in)
		if err != nil || isReply {
			return err
		}
	}
	answer, unclear := wording.ParseDecision(in.Text, &state.Question{Kind: state.KindPrompt})
	if Typed(one, in.Text, r.Config.ClaudeCommands) {
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

// isAwaited says whether a hook waits for the next instruction by a question that no approver
// has answered.
func (r Room) isAwaited(q *state.Question) bool {
	hasReply := slices.ContainsFunc(q.Replies, func(is state.Reply) bool {
		return is.Verdict == state.VerdictUnread && r.Config.CanApprove(is.Sender, is.SenderEmail)
	})
	return q.Kind == state.KindNext && q.Status == state.Pending && !hasReply && state.HasWaiter(r.Env, q.Path)
}

// answerNext has words be the reply to a question for the next instruction; false where that
// was answered just now.
func (r Room) answerNext(q *state.Question, in *state.Incoming) (isReply bool, err error) {
	reply := in.AsReply()
	reply.CreatedAt = in.LocalCreatedAt
	_, err = state.ChangeQuestion(q.Path, func(q *state.Question) {
		isReply = r.isAwaited(q)
		if isReply {
			q.Replies = append(q.Replies, reply)
		}
	})
	if err == nil && isReply {
		err = r.finish(in, state.OutcomeReply)
	}
	return isReply, err
}

// interrupted is told of a command that the program was doing when it was killed.
const interrupted = "[Not known] The poller was stopped while it did this. Look what became of it before you send it again."

// doOnce does a command of ours, and tells its thread what became of it.
func (r Room) doOnce(ctx context.Context, one *state.Session, in *state.Incoming) error {
	wasBegun := false
	now, err := r.inbox().Change(in.ID, func(is *state.Incoming) {
		wasBegun = is.Status == state.IncomingDoing // also since in was read
		is.Status = state.IncomingDoing
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it is done
	case err != nil:
		return err
	}
	text := interrupted
	if !wasBegun {
		r.Log.Info().Str("session", one.Name).Str("message", now.MessageName).Str("sender", now.Sender).
			Str("text", now.Text).Msg("command")
		text = r.NobodyText(one)
		if Listens(one, r.Now()) {
			text = r.Do(ctx, one, now)
		}
	}
	err = r.answer(one, now, text)
	if err != nil {
		return err
	}
	return r.finish(now, state.OutcomeCommand)
}

// stateDir is where what lets a session act is written.
func (r Room) stateDir(one *state.Session) string {
	// Without it the session began under an earlier version.
	return cmp.Or(one.StateDir, state.SpareStateDir(state.ProjectEnv(r.Env, one.ProjectDir, true)))
}
