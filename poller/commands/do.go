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
	known := one.ClaudePID > 1 || now.Sub(one.LastSeen).Abs() < state.MaxAge
	return one.Listens && one.Running() && known &&
		!inject.Ended(one.ClaudePID, one.ClaudeStart) && !inject.Elsewhere(one.ClaudeStart)
}

// Left says that the Claude Code of a session goes on with another one: what is said to the first must not reach that. Just after
// /clear, no hook has told of the other one, which goes on in the same thread.
func Left(folder state.Sessions, one *state.Session) bool {
	now := inject.SessionOf(one.ClaudePID, one.ClaudeStart, one.TranscriptPath)
	if now == "" {
		return folder.Superseded(one)
	}
	_, unknown := folder.Of(now)
	return now != one.ID && (unknown == nil || one.Reason == "resume")
}

// Typed says whether a text is one of Claude Code's own commands that a session's terminal takes: it is typed as it is.
func Typed(one *state.Session, text string, more []string) bool {
	return one.TmuxPane != "" && wording.ClaudeCommand(text, more)
}

// Typing says whether one of Claude Code's own commands that was said to a session is not typed yet: words that are said then
// come after it, and are no reply to what waited before.
func Typing(one *state.Session, given []*state.Incoming, records []*state.Question, more []string) bool {
	isTyped := func(in *state.Incoming) bool { return Typed(one, in.Text, more) }
	waits := func(q *state.Question) bool {
		return q.Kind.Row().Said && q.Status.Open() && len(q.Replies) > 0 && Typed(one, q.Replies[0].Text, more)
	}
	return slices.ContainsFunc(given, isTyped) || slices.ContainsFunc(records, waits)
}

// BeganAt is from when on what is said to a session counts: since its start, or since a poller set about that.
func BeganAt(one *state.Session) time.Time {
	if took := one.StartedAt.Sub(one.Begins); took > 0 && took < BeginBound {
		return one.Begins
	}
	return one.StartedAt
}

// NobodyText is what is told of words that nothing takes.
func (r Room) NobodyText(one *state.Session) string {
	lives := Listens(one, r.Now()) || one.Running() && !one.Listens
	if lives && inject.WaitsThere(r.Env, one) != "" {
		return wording.DialogText
	}
	if lives && Left(state.SessionsIn(state.UserState(r.Env)), one) {
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
		ID: id, Type: state.MessageNote, Parts: []string{text}, ProjectDir: one.ProjectDir, Trusted: one.Trusted,
		SessionID: one.ID, Chat: one.Chat, ThreadName: one.ThreadName, ThreadKey: state.SessionThread(one.ID), Urgent: true,
		CreatedAt: r.Now().UTC(),
	}
}

// Work does what was said to a session, the oldest first. Of words a record is made. That a
// command is done is written down before. So nothing is done twice, also after kill -9. It is
// not done where it is to be tried again.
func (r Room) Work(ctx context.Context, id string, given []*state.Incoming) (done bool) {
	one, err := state.SessionsIn(state.UserState(r.Env)).Of(id)
	if err != nil {
		r.Log.Once(err, "commands not taken")
		return false
	}
	if r.Config.Unread {
		return false // who may say something is not known
	}
	ours, forClaude, err := r.sort(one, given)
	if err == nil && slices.ContainsFunc(ours, asks) {
		qs, _ := state.OpenQuestions(r.Env, state.TextGrant)
		err = state.AskAgain(qs, id)
	}
	if err == nil {
		one, err = r.giveToClaude(ctx, one, forClaude)
	}
	for _, in := range ours {
		if err == nil {
			err = r.doOnce(ctx, one, in)
		}
	}
	if !errors.Is(err, errBegins) {
		r.Log.Once(err, "what was said to a session is not done yet")
	}
	return err == nil
}

// sort tells commands of ours from what is for Claude. What counts no more is finished.
func (r Room) sort(one *state.Session, given []*state.Incoming) (ours, forClaude []*state.Incoming, err error) {
	for _, in := range given {
		isCommand := in.IsCommand()
		switch {
		case err != nil:
		case !r.Config.Approves(in.Sender, in.SenderEmail):
			err = r.finish(in, state.OutcomeNobody)
		case isCommand && in.SaidAt.Before(BeganAt(one)): // of words not: a session that is started for them begins after them
			err = r.finish(in, state.OutcomeNobody)
		case isCommand && !Typed(one, in.Text, r.Config.ClaudeCommands):
			ours = append(ours, in)
		default:
			forClaude = append(forClaude, in)
		}
	}
	return ours, forClaude, err
}

func (r Room) finish(in *state.Incoming, outcome state.Outcome) error {
	return r.inbox().Finish(in, outcome, r.Now())
}

func (r Room) inbox() state.Inbox { return state.InboxIn(state.UserState(r.Env)) }

// errBegins says that the session's Claude Code is being started.
var errBegins = errors.New("the session is being started")

// giveToClaude makes records of words for Claude, or tells their thread why nothing takes
// them. A session that has ended is started for them, where the person wants that.
func (r Room) giveToClaude(ctx context.Context, one *state.Session, words []*state.Incoming) (*state.Session, error) {
	if len(words) == 0 {
		return one, nil
	}
	takes, nobody := !Left(state.SessionsIn(state.UserState(r.Env)), one), r.NobodyText(one)
	if !r.Config.Terms(state.Said, "").Asked {
		takes, nobody = false, "[Not used] By a policy, instructions are given in the terminal alone."
	}
	hasWords := slices.ContainsFunc(words, func(in *state.Incoming) bool { return !in.IsCommand() })
	if takes && hasWords && r.Config.StartSessions && one.Listens && !Listens(one, r.Now()) {
		begun, why := r.Begin(ctx, one)
		switch {
		case why != "":
			nobody = wording.NotBegunText(why)
		case begun == nil:
			return one, errBegins
		default:
			one = begun
			err := r.Tell(one, state.MessageID("begun", one.ID, one.Begins.String()), wording.BegunText(one))
			r.Log.Once(err, "note not put into the outbox")
		}
	}
	takes = takes && Listens(one, r.Now())
	for _, in := range words {
		note, outcome := state.MessageID("nobody", in.MessageName), state.OutcomeNobody
		err := error(nil)
		switch {
		case wording.IsDecision(in.Text) && inject.WaitsThere(r.Env, one) != "":
			err = r.Tell(one, note, wording.DialogText)
		case takes:
			outcome, err = state.OutcomeWords, r.Instruct(one, in)
		default:
			err = r.Tell(one, note, nobody)
		}
		if err == nil {
			err = r.finish(in, outcome)
		}
		if err != nil {
			return one, err
		}
	}
	return one, nil
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
	return cmp.Or(one.StateDir, state.SpareState(state.ForProject(r.Env, one.ProjectDir, true)))
}

// Instruct makes a record of words for Claude, as of a question that has this reply. The same message is one record, however
// often it is read. Where a hook waits for the next instruction, the words are that: Chat may not have said yet that it has the
// question, or a stranger replied to it first.
func (r Room) Instruct(one *state.Session, in *state.Incoming) error {
	dir := r.stateDir(one)
	_, space, _ := strings.Cut(one.Chat, "/")
	id, reply := state.MessageID("said", in.MessageName), in.Reply()
	reply.CreateTime = in.SaidAt
	waits := func(q *state.Question) bool {
		kind, has := q.Kind.Row(), slices.ContainsFunc(q.Replies, func(is state.Reply) bool {
			return is.Verdict == state.Unread && r.Config.Approves(is.Sender, is.SenderEmail)
		})
		return kind.Prompt && !kind.Said && q.Status == state.Pending && !has && state.HasWaiter(r.Env, q.Path)
	}
	q, err := state.QuestionsIn(dir).Record(one.ID, func(have []*state.Question) *state.Question {
		// Of what is sent on, the question that it answered has this reply, too.
		isSaid := func(q *state.Question) bool { return q.Kind.Row().Prompt && q.Reply(in.MessageName) != nil }
		if i := slices.IndexFunc(have, isSaid); i >= 0 {
			return have[i]
		}
		if i := slices.IndexFunc(have, waits); i >= 0 {
			return have[i]
		}
		at := in.SaidAt
		for slices.ContainsFunc(have, func(q *state.Question) bool { return q.AskedAt.Equal(at) }) {
			at = at.Add(time.Millisecond) // they are typed in this order, and files have no finer times
		}
		return &state.Question{
			QuestionID: id, Kind: state.Said, Mode: state.Native, Status: state.Pending, AskedAt: at, PostedAt: &in.SaidAt,
			SessionID: one.ID, ClaudeSessionID: one.ID, SessionName: one.Name, ProjectDir: one.ProjectDir, CWD: one.CWD,
			ThreadKey: state.SessionThread(one.ID), ThreadName: one.ThreadName, Chat: one.Chat, Space: space, MessageSent: true,
			ClaudePID: one.ClaudePID, ClaudeStart: one.ClaudeStart,
			TmuxSession: one.TmuxSession, TmuxPane: one.TmuxPane, TmuxSocket: one.TmuxSocket,
			Questions: []state.Prompt{{Header: "Said", Question: wording.Cut(in.Text, 200)}},
			Replies:   []state.Reply{reply},
		}
	}, append(state.TextsOpen, state.TextSaid, in.MessageName)...)
	if err == nil && q.Reply(in.MessageName) == nil {
		q, err = state.UpdateQuestion(q.Path, func(q *state.Question) error {
			if !waits(q) {
				return errors.New("it was answered just now") // the words get a record of their own
			}
			q.Replies = append(q.Replies, reply)
			return nil
		})
	}
	if err != nil {
		return err
	}
	return state.AnnounceQuestion(r.Env, q)
}
