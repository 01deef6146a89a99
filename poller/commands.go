package poller

import (
	"context"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/inject"
	"gchat-hooks/poller/commands"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
)

const (
	// commandBound is how long a command may take.
	commandBound = 30 * time.Second
	// mostCommands is how many commands of a session wait at most.
	mostCommands = 20
)

// takesCommands says whether commands in the thread of a session's reports count: its hooks said so, and its Claude Code runs.
func (p *Poller) takesCommands(one *state.Session) bool {
	known := one.ClaudePID > 1 || p.Now().Sub(one.LastSeen).Abs() < state.MaxAge
	return one.Listens && one.Running() && one.ThreadName != "" && one.Chat != "" && known &&
		!inject.Ended(one.ClaudePID, one.ClaudeStart)
}

// takeCommand writes down what a person wrote in the thread of a session's reports, where the session listens and the words begin
// with a slash. The poller of the session's environment does it. It reports whether it is a command: no question in that thread
// gets it.
func (r *reader) takeCommand(one *state.Session, m gchat.Message) bool {
	text := strings.TrimSpace(state.Clean(state.ForAgent, m.Text))
	if one.Chat != r.chat || !strings.HasPrefix(text, "/") || !r.takesCommands(one) {
		return false
	}
	at := m.CreateTime.Truncate(time.Millisecond) // as the session's file has it
	// The poller of another environment judges by a configuration of its own.
	stranger := one.Env == r.environment && !r.mayCommand(m.Sender, m.SenderEmail)
	if m.Sender == "" || !at.After(one.ToldNobody) || stranger {
		return true
	}
	ahead := r.api.Ahead
	_, err := state.SessionsIn(r.user).Change(one.ID, func(one *state.Session) error {
		if !at.After(one.ToldNobody) || len(one.Commands) >= mostCommands {
			return state.ErrUnchanged
		}
		one.ToldNobody = at
		one.Commands = append(one.Commands, state.Command{
			Message: m.Name, Sender: m.Sender, SenderEmail: m.SenderEmail, Text: gchat.Cut(text, 200), At: at.Add(-ahead).UTC(),
		})
		return nil
	})
	r.Log.Once(err, "command not written down")
	if one.Env != r.environment {
		state.CallPoller(r.Env, one.Env) // which does it
	}
	return true
}

// mayCommand says whether the sender may decide what Claude does.
func (p *Poller) mayCommand(sender, email string) bool {
	cfg := p.personal()
	return !cfg.Unread && judge.Named(cfg.Approvers, sender, email)
}

// attendSessions has the summaries put that sessions of this environment owe, and the commands done that wait in them, beside the
// loop. It says whether a poller is needed for the thread of a session.
func (p *Poller) attendSessions(ctx context.Context) (needed bool) {
	for _, one := range p.sessions {
		if one.Env != p.environment {
			continue
		}
		needed = needed || p.takesCommands(one) || len(one.Commands) > 0
		if !one.OwesSummary.IsZero() {
			p.summarise(ctx, one)
		}
		if len(one.Commands) == 0 {
			continue
		}
		if _, busy := p.doing.LoadOrStore(one.ID, true); !busy {
			p.beside("command", func() {
				defer p.doing.Delete(one.ID)
				p.doCommands(ctx, one.ID)
			})
		}
	}
	return needed
}

// summarise has the summary of a session put, once: one that failed is not tried with every step.
func (p *Poller) summarise(ctx context.Context, one *state.Session) {
	if _, tried := p.summed.LoadOrStore(one.ID+one.OwesSummary.String(), true); tried {
		return
	}
	p.beside("summary", func() {
		if err := p.putSummary(ctx, one); err != nil {
			p.Log.Error().Err(err).Str("session", one.Name).Msg("summary not put into the outbox")
		}
	})
}

// doCommands takes a session's commands off its record and then does them: none is done twice, also after kill -9.
func (p *Poller) doCommands(ctx context.Context, id string) {
	var read []state.Command
	one, err := state.SessionsIn(p.user).Change(id, func(one *state.Session) error {
		read = one.Commands
		one.Commands = nil
		return nil
	})
	if err != nil {
		p.Log.Once(err, "commands not taken")
		return
	}
	for _, c := range read {
		if c.At.Before(one.StartedAt) || !p.mayCommand(c.Sender, c.SenderEmail) {
			continue
		}
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandBound)
		text := gchat.NobodyText(one)
		if p.takesCommands(one) {
			text = commands.Room{Env: p.Env, Log: p.Log, DryRun: p.DryRun, Now: p.Now}.Do(bound, one, c)
		}
		cancel()
		if strings.HasPrefix(text, "[Stopped]") {
			p.audit(state.AuditLine{
				Session: one.Name, Project: one.ProjectDir, Kind: "command", By: c.Sender, Replied: c.Text, Told: text,
			})
		}
		p.Log.Info().Str("session", one.Name).Str("message", c.Message).Str("sender", c.Sender).Str("text", c.Text).Msg("command")
		if err := p.putAnswer(one, state.MessageID("command", c.Message), text); err != nil {
			p.Log.Once(err, "note not put into the outbox")
		}
	}
}

// putAnswer puts a note into the thread of a session, once.
func (p *Poller) putAnswer(one *state.Session, id, text string) error {
	return p.put(&state.Message{
		ID: id, Type: state.MessageNote, Parts: []string{text}, ProjectDir: one.ProjectDir, Trusted: one.Trusted,
		SessionID: one.ID, Chat: one.Chat, ThreadName: one.ThreadName, Urgent: true, CreatedAt: p.Now().UTC(),
	})
}
