package poller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/poller/commands"
	"gchat-hooks/state"
)

// mostCommands is how many commands of a session wait at most.
const mostCommands = 20

// takesCommands says whether commands in the thread of a session's reports count: its hooks said so, and its Claude Code runs.
func (p *Poller) takesCommands(one *state.Session) bool {
	return one.ThreadName != "" && one.Chat != "" && commands.Listens(one, p.Now())
}

// resumes says whether words in a session's thread start its Claude Code again, which has ended, where the person wants that.
func (p *Poller) resumes(one *state.Session) bool {
	return one.Listens && one.ThreadName != "" && one.Chat != "" && !inject.Elsewhere(one.ClaudeStart) &&
		!commands.Listens(one, p.Now())
}

// readsOn says whether the thread of a session that has ended is read. Where words resume it, that is for an hour, or for good
// where that costs nothing. Else who writes there is told that it has ended: for a while after its end, and on the page for a
// while after this poller began, since what is written there starts one.
func (p *Poller) readsOn(one *state.Session) bool {
	if !p.resumes(one) {
		return false
	}
	ended := one.EndedAt
	if ended.IsZero() {
		ended = one.LastSeen
	}
	age := p.Now().Sub(ended).Abs()
	if !p.starts {
		isWoken := gchat.Local(one.Chat) && (p.Daemon || p.Now().Sub(p.began) < readOnFor)
		return age < readOnFor || isWoken && age < state.MaxAge
	}
	return p.Daemon || p.pulls || gchat.Local(one.Chat) || age < restsFor
}

// deserted says that a session is of another environment, and that no poller of that runs.
func (p *Poller) deserted(one *state.Session) bool {
	return one.Env != p.environment && !state.ReadBeat(p.Env, one.Env).Lives
}

// takeSaid writes down what a person wrote in the thread of a session's reports, where the session listens: a command, which
// begins with a slash, or words for Claude, where no question in that thread is to get them. The poller of the session's
// environment does the rest. A command that was read once is not read again; of words their record knows it.
func (r *reader) takeSaid(n *pass, one *state.Session, m gchat.Message, asked *state.Question) bool {
	text := strings.TrimSpace(state.Clean(state.ForAgent, m.Text))
	command := strings.HasPrefix(text, "/")
	said := m.CreateTime.Add(-r.api.Ahead)
	before := said.Before(commands.BeganAt(one)) || r.Now().Sub(said) > state.MaxAge
	cfg := r.personal()
	follows := asked != nil && asked.Kind.Row().Prompt &&
		(slices.Contains(n.typed, one.ID) || commands.Typing(one, n.records[m.ThreadName], cfg.ClaudeCommands))
	switch {
	case asked != nil && asked.Reply(m.Name) != nil: // an edited reply is no command
		return false
	case asked != nil && !command && !follows:
		return false
	case one.Chat != r.chat, text == "", !command && before, commands.Left(state.SessionsIn(r.user), one):
		return false
	}
	at := m.CreateTime.Truncate(time.Millisecond) // as the session's file has it
	if !r.takesCommands(one) && (command || !r.resumes(one) || !cfg.StartSessions || r.deserted(one)) {
		return command && one.HasRead(m.Name, at)
	}
	elsewhere := m.ThreadName != one.ThreadName // a question's, which asks back who may not
	// The poller of another environment judges by a configuration of its own.
	stranger := one.Env == r.environment && !cfg.Unread && !cfg.Approves(m.Sender, m.SenderEmail)
	marks := command && !commands.Typed(one, text, cfg.ClaudeCommands) // its message is known by no record
	known := !elsewhere && !at.After(one.ToldNobody) || marks && one.HasRead(m.Name, at)
	if m.Sender == "" || known || stranger {
		return (command || known) && !(stranger && elsewhere)
	}
	_, err := state.SessionsIn(r.user).Change(one.ID, func(one *state.Session) error {
		taken := slices.ContainsFunc(one.Commands, func(c state.Command) bool { return c.Message == m.Name })
		switch {
		case taken, marks && one.HasRead(m.Name, at):
			return state.ErrUnchanged
		case len(one.Commands) >= mostCommands:
			return errors.New("too much at once")
		}
		if marks {
			one.NoteRead(m.Name, at)
		}
		c := r.commandOf(m, wording.Cut(text, wording.MaxText))
		if elsewhere {
			c.Thread = m.ThreadName
		}
		one.Commands = append(one.Commands, c)
		return nil
	})
	if err != nil {
		n.failed = fmt.Errorf("what was said to a session: %w", err)
	}
	if command && !marks {
		n.typed = append(n.typed, one.ID)
	}
	if one.Env != r.environment {
		state.CallPoller(r.Env, one.Env) // which does it
	}
	return true
}

// commandOf is what a person wrote, as a session keeps it.
func (r *reader) commandOf(m gchat.Message, text string) state.Command {
	at := m.CreateTime.Truncate(time.Millisecond)
	return state.Command{
		Message: m.Name, Sender: m.Sender, SenderEmail: m.SenderEmail, DisplayName: m.DisplayName,
		Text: text, Attached: m.Attached, At: at.Add(-r.api.Ahead).UTC(), Created: at,
	}
}

// attendSessions has the summaries put that sessions owe, and done what was said to them; needed says that it goes on.
func (p *Poller) attendSessions(ctx context.Context, due bool) (needed bool) {
	if !p.dialogDue.IsZero() && !p.Now().Before(p.dialogDue) {
		due = true
	}
	if due {
		p.dialogDue = time.Time{}
	}
	for _, one := range p.sessions {
		if one.Env != p.environment {
			continue
		}
		needed = needed || p.takesCommands(one) || len(one.Commands) > 0 || p.readsOn(one) || one.Dialog != nil
		p.attendDialog(one, due)
		if !one.OwesSummary.IsZero() && p.Summary != nil {
			_, tried := p.summed.LoadOrStore(one.ID+one.OwesSummary.String(), true) // one that failed waits for sweep
			if !tried {
				p.beside("summary", func() { p.Log.Once(p.Summary(ctx, p.Env, one), "summary not put into the outbox") })
			}
		}
		if len(one.Commands) == 0 {
			continue
		}
		if _, busy := p.doing.LoadOrStore(one.ID, true); !busy {
			p.beside("command", func() {
				defer p.doing.Delete(one.ID)
				if !p.room().Work(ctx, one.ID) {
					state.Sleep(ctx, retryPause) // the loop goes on at once when this ends
				}
			})
		}
	}
	return needed
}

func (p *Poller) room() commands.Room {
	return commands.Room{Env: p.Env, Log: p.Log, DryRun: p.isDryRun(), Config: p.personal(), Put: p.put, Now: p.Now}
}

// begin begins the session that a person asks for with /new, in any thread of ours, once: its id is made of the message.
func (r *reader) begin(m gchat.Message) error {
	c := r.commandOf(m, state.Clean(state.ForAgent, m.Text))
	if r.Now().Sub(c.At) > commands.TooOld && !m.CreateTime.After(r.mark.Watermark) {
		return nil // it was read long ago
	}
	return r.room().New(c, r.chat, m.ThreadName)
}

// beginsSession says whether a person who may asks for a new session: in a thread of ours, to the app, or on the page.
func (r *reader) beginsSession(n *pass, m gchat.Message) bool {
	id := commands.NewID(m.Name)
	if slices.ContainsFunc(n.known, func(one *state.Session) bool { return one.ID == id }) {
		return true // an edit makes nothing else of it
	}
	if !wording.IsNew(m.Text) {
		return false
	}
	q, cfg := n.target(m), r.personal()
	may := cfg.StartSessions && cfg.Terms(state.Said, "").Asked && cfg.Approves(m.Sender, m.SenderEmail)
	ours := len(n.records[m.ThreadName]) > 0 || n.sessions[m.ThreadName] != nil || r.pulled || gchat.Local(r.chat)
	return ours && may && (q == nil || q.Reply(m.Name) == nil)
}
