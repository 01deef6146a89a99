package commands

import (
	"cmp"
	"context"
	"errors"
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
func Typing(one *state.Session, records []*state.Question, more []string) bool {
	read := func(c state.Command) bool { return Typed(one, c.Text, more) }
	waits := func(q *state.Question) bool {
		return q.Kind.Row().Said && q.Status.Open() && len(q.Replies) > 0 && Typed(one, q.Replies[0].Text, more)
	}
	return slices.ContainsFunc(one.Commands, read) || slices.ContainsFunc(records, waits)
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
func (r Room) answer(one *state.Session, c state.Command, text string) error {
	m := r.note(one, state.MessageID("command", c.Message), text)
	if c.Thread != "" {
		m.ThreadName, m.ThreadKey = c.Thread, "" // its key would make that the session's thread
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

// Work does what was said to a session. Of words a record is made before they are taken off the session's; commands are done
// after that: none is done twice, also after kill -9. It is not done where it is to be tried again.
func (r Room) Work(ctx context.Context, id string) (done bool) {
	folder := state.SessionsIn(state.UserState(r.Env))
	one, err := folder.Of(id)
	if err != nil {
		r.Log.Once(err, "commands not taken")
		return false
	}
	if r.Config.Unread {
		return false // who may say something is not known
	}
	read, starts := one.Commands, false
	var ours, forClaude []state.Command
	for _, c := range read {
		command := strings.HasPrefix(c.Text, "/")
		switch {
		case !r.Config.Approves(c.Sender, c.SenderEmail):
		case command && c.At.Before(BeganAt(one)): // of words not: a session that is started for them begins after them
		case command && !Typed(one, c.Text, r.Config.ClaudeCommands):
			ours = append(ours, c)
		default:
			forClaude = append(forClaude, c)
			starts = starts || !command
		}
	}
	takes, nobody := !Left(folder, one), r.NobodyText(one)
	if !r.Config.Terms(state.Said, "").Asked {
		takes, nobody = false, "[Not used] By a policy, instructions are given in the terminal alone."
	}
	if takes && starts && r.Config.StartSessions && one.Listens && !Listens(one, r.Now()) {
		begun, why := r.Begin(ctx, one)
		switch {
		case why != "":
			nobody = wording.NotBegunText(why)
		case begun == nil:
			return false // it is being started
		default:
			one = begun
			err := r.Tell(one, state.MessageID("begun", one.ID, one.Begins.String()), wording.BegunText(one))
			r.Log.Once(err, "note not put into the outbox")
		}
	}
	takes = takes && Listens(one, r.Now())
	if slices.ContainsFunc(ours, asks) {
		qs, _ := state.OpenQuestions(r.Env, state.TextGrant)
		err := state.AskAgain(qs, id)
		if err != nil {
			r.Log.Once(err, "yes for a while not ended")
			return false
		}
	}
	var untaken []state.Command // no record knows these words
	for _, c := range forClaude {
		switch id := state.MessageID("nobody", c.Message); {
		case wording.IsDecision(c.Text) && inject.WaitsThere(r.Env, one) != "":
			untaken = append(untaken, c)
			err = r.Tell(one, id, wording.DialogText)
		case takes:
			err = r.Instruct(one, c)
		default:
			err = r.Tell(one, id, nobody)
		}
		if err != nil {
			r.Log.Once(err, "words for Claude not written down")
			return false
		}
	}
	if !takes {
		untaken = read
	}
	one, err = folder.Change(id, func(one *state.Session) error {
		one.Commands = slices.DeleteFunc(one.Commands, func(c state.Command) bool {
			return slices.ContainsFunc(read, func(was state.Command) bool { return was.Message == c.Message })
		})
		for _, c := range untaken {
			if c.Created.After(one.ToldNobody) {
				one.ToldNobody = c.Created
			}
		}
		return nil
	})
	if err != nil {
		r.Log.Once(err, "commands not taken")
		return false
	}
	for _, c := range ours {
		r.Log.Info().Str("session", one.Name).Str("message", c.Message).Str("sender", c.Sender).Str("text", c.Text).Msg("command")
		text := r.NobodyText(one)
		if Listens(one, r.Now()) {
			text = r.Do(ctx, one, c)
		}
		r.Log.Once(r.answer(one, c, text), "note not put into the outbox")
	}
	return true
}

// stateDir is where what lets a session act is written.
func (r Room) stateDir(one *state.Session) string {
	// Without it the session began under an earlier version.
	return cmp.Or(one.StateDir, state.SpareState(state.ForProject(r.Env, one.ProjectDir, true)))
}

// Instruct makes a record of words for Claude, as of a question that has this reply. The same message is one record, however
// often it is read. Where a hook waits for the next instruction, the words are that: Chat may not have said yet that it has the
// question, or a stranger replied to it first.
func (r Room) Instruct(one *state.Session, c state.Command) error {
	dir := r.stateDir(one)
	_, space, _ := strings.Cut(one.Chat, "/")
	id := state.MessageID("said", c.Message)
	reply := state.Reply{
		MessageName: c.Message, Sender: c.Sender, SenderEmail: c.SenderEmail, DisplayName: c.DisplayName,
		Text: c.Text, CreateTime: c.At, Attached: c.Attached,
	}
	waits := func(q *state.Question) bool {
		kind, has := q.Kind.Row(), slices.ContainsFunc(q.Replies, func(is state.Reply) bool {
			return is.Verdict == state.Unread && r.Config.Approves(is.Sender, is.SenderEmail)
		})
		return kind.Prompt && !kind.Said && q.Status == state.Pending && !has && state.HasWaiter(r.Env, q.Path)
	}
	q, err := state.QuestionsIn(dir).Record(one.ID, func(have []*state.Question) *state.Question {
		if i := slices.IndexFunc(have, func(q *state.Question) bool { return q.Reply(c.Message) != nil }); i >= 0 {
			return have[i]
		}
		if i := slices.IndexFunc(have, waits); i >= 0 {
			return have[i]
		}
		at := c.At.Truncate(time.Millisecond)
		for slices.ContainsFunc(have, func(q *state.Question) bool { return q.AskedAt.Equal(at) }) {
			at = at.Add(time.Millisecond) // they are typed in this order, and files have no finer times
		}
		return &state.Question{
			QuestionID: id, Kind: state.Said, Mode: state.Native, Status: state.Pending, AskedAt: at, PostedAt: &c.At,
			SessionID: one.ID, ClaudeSessionID: one.ID, SessionName: one.Name, ProjectDir: one.ProjectDir, CWD: one.CWD,
			ThreadKey: state.SessionThread(one.ID), ThreadName: one.ThreadName, Chat: one.Chat, Space: space, MessageSent: true,
			ClaudePID: one.ClaudePID, ClaudeStart: one.ClaudeStart,
			TmuxSession: one.TmuxSession, TmuxPane: one.TmuxPane, TmuxSocket: one.TmuxSocket,
			Questions: []state.Prompt{{Header: "Said", Question: wording.Cut(c.Text, 200)}},
			Replies:   []state.Reply{reply},
		}
	}, append(state.TextsOpen, state.TextSaid, c.Message)...)
	if err == nil && q.Reply(c.Message) == nil {
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
