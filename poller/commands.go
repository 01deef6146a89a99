package poller

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

const (
	// commandAge is how old a command may be when it is begun: an Esc for what Claude did an hour ago would stop something else.
	commandAge = 5 * time.Minute
	// commandBound is how long a command may take.
	commandBound = 30 * time.Second
	// mostCommands is how many commands of a session wait at most.
	mostCommands = 20
	// screenLines is how many lines of a terminal /screen reads; the last ones that fit are shown.
	screenLines = 80
	// mostMuted is the longest time that a session is muted.
	mostMuted = 24 * time.Hour
	// muteStep is how long a muted report is left alone: the person may end the mute meanwhile.
	muteStep = 30 * time.Second
)

const commandList = `/screen: what the terminal shows
/status: what Claude does, and what waits for you
/stop: interrupts Claude, as Esc does
/mute 2h: no reports of this session until then (also 30m, off)
/help: these lines`

// takesCommands says whether commands in the thread of a session's reports count: its hooks said so, and its Claude Code runs.
func (p *Poller) takesCommands(one *state.Session) bool {
	known := one.ClaudePID > 1 || p.now().Sub(one.LastSeen).Abs() < state.MaxAge
	return one.Listens && one.Running() && one.ThreadName != "" && one.Chat != "" && known &&
		!inject.Ended(one.ClaudePID, one.ClaudeStart)
}

// listens says whether this poller has the session's thread read.
func (p *Poller) listens(one *state.Session) bool {
	return p.has(one) && p.takesCommands(one)
}

// awaitsCommands says whether this poller is needed for the thread of a session.
func (p *Poller) awaitsCommands(one *state.Session) bool {
	return p.listens(one) || p.has(one) && len(one.Commands) > 0
}

// takeCommand writes down what a person wrote in the thread of a session that listens, where it begins with a slash. The poller
// of the session's environment does it. It reports whether it is a command: no question in that thread gets it.
func (r *reader) takeCommand(n *pass, m gchat.Message) bool {
	one := n.sessions[m.ThreadName]
	text := strings.TrimSpace(state.Clean(state.ForAgent, m.Text))
	if one == nil || one.Chat != r.chat || !strings.HasPrefix(text, "/") || !r.takesCommands(one) {
		return false
	}
	at := m.CreateTime.Truncate(time.Millisecond) // as the session's file has it
	// The poller of another environment judges by a configuration of its own.
	stranger := r.has(one) && !r.mayCommand(m.Sender, m.SenderEmail)
	if m.Sender == "" || !at.After(one.ToldNobody) || stranger {
		return true
	}
	ahead, _ := r.api.Ahead()
	_, err := state.SessionsIn(r.user()).Change(one.ID, func(one *state.Session) error {
		if !at.After(one.ToldNobody) || len(one.Commands) >= mostCommands {
			return state.ErrUnchanged
		}
		one.ToldNobody = at
		one.Commands = append(one.Commands, state.Command{
			Message: m.Name, Sender: m.Sender, SenderEmail: m.SenderEmail, Text: gchat.Cut(text, 200), At: at.Add(-ahead).UTC(),
		})
		return nil
	})
	if err != nil {
		r.logOnce(err, "command not written down")
	}
	return true
}

// mayCommand says whether the sender may decide what Claude does.
func (p *Poller) mayCommand(sender, email string) bool {
	cfg := p.personal()
	return !cfg.Unread && Named(cfg.Approvers, sender, email)
}

// obey does the commands that wait in the sessions of this environment, beside the loop. It says whether a poller is needed for
// the thread of a session.
func (p *Poller) obey(ctx context.Context) (needed bool) {
	for _, one := range p.people {
		needed = needed || p.awaitsCommands(one)
		if !p.has(one) || len(one.Commands) == 0 {
			continue
		}
		if _, busy := p.obeying.LoadOrStore(one.ID, true); busy {
			continue
		}
		p.beside("command", func() {
			defer p.obeying.Delete(one.ID)
			p.obeyFor(ctx, one.ID)
		})
	}
	return needed
}

// obeyFor takes a session's commands off its record and then does them: none is done twice, also after kill -9.
func (p *Poller) obeyFor(ctx context.Context, id string) {
	var commands []state.Command
	one, err := state.SessionsIn(p.user()).Change(id, func(one *state.Session) error {
		commands = one.Commands
		one.Commands = nil
		return nil
	})
	if err != nil {
		p.logOnce(err, "commands not taken")
		return
	}
	for _, c := range commands {
		if c.At.Before(one.StartedAt) || !p.mayCommand(c.Sender, c.SenderEmail) {
			continue
		}
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandBound)
		text := p.command(bound, one, c)
		cancel()
		if strings.HasPrefix(text, "[Stopped]") {
			p.audit(state.AuditLine{
				Session: one.Name, Project: one.ProjectDir, Kind: "command", By: c.Sender, Replied: c.Text, Told: text,
			})
		}
		p.Log.Info().Str("session", one.Name).Str("message", c.Message).Str("sender", c.Sender).Str("text", c.Text).Msg("command")
		if err := p.putAnswer(one, state.MessageID("command", c.Message), text); err != nil {
			p.logOnce(err, "note not put into the outbox")
		}
	}
}

// putAnswer puts a note into the thread of a session, once.
func (p *Poller) putAnswer(one *state.Session, id, text string) error {
	return p.put(&state.Message{
		ID: id, Kind: state.MessageNote, Parts: []string{text}, ProjectDir: one.ProjectDir, Trusted: one.Trusted,
		SessionID: one.ID, Chat: one.Chat, ThreadName: one.ThreadName, Urgent: true, CreatedAt: p.now().UTC(),
	})
}

// command does one command, and returns what its thread is told.
func (p *Poller) command(ctx context.Context, one *state.Session, c state.Command) string {
	name, rest, _ := strings.Cut(strings.Join(strings.Fields(strings.ToLower(c.Text)), " "), " ")
	switch {
	case !p.takesCommands(one):
		return gchat.NobodyText(one)
	case p.now().Sub(c.At) > commandAge:
		return "[Not used] " + gchat.Line(name) + " was read too late. Send it again if you still want it."
	}
	switch name {
	case "/screen":
		return p.screen(ctx, one)
	case "/status":
		return p.statusOf(ctx, one)
	case "/stop":
		return p.stop(ctx, one)
	case "/mute":
		return p.mute(one, rest)
	case "/help":
		return "[Help] In this thread you can write:\n" + commandList
	}
	return "[Not used] There is no command " + gchat.Line(name) + ". There are:\n" + commandList
}

// shotOf is what the pane shows in which a session's own Claude Code has the keyboard.
func (p *Poller) shotOf(ctx context.Context, one *state.Session) (shot inject.Snapshot, s inject.Screen, err error) {
	if one.TmuxPane == "" || one.TmuxSocket == "" || one.ClaudePID <= 1 {
		return shot, s, errNoTmux
	}
	server := inject.Server{Socket: one.TmuxSocket}
	pane, err := server.Pane(ctx, one.TmuxPane)
	if err == nil {
		_, err = pane.Claude(one.ClaudePID, one.ClaudeStart)
	}
	if err == nil {
		shot, err = server.Snapshot(ctx, pane.ID, screenLines)
	}
	return shot, inject.ReadScreen(shot.Screen), err
}

const outOfReach = "[Not used] The terminal is out of reach: "

func (p *Poller) screen(ctx context.Context, one *state.Session) string {
	shot, _, err := p.shotOf(ctx, one)
	if err != nil {
		return outOfReach + gchat.Line(err.Error()) + "."
	}
	return gchat.ScreenText("[Screen] "+gchat.Line(one.Name), p.masked(strings.Join(shot.Lines, "\n")))
}

// masked is foreign text without secrets.
func (p *Poller) masked(text string) string { return p.Log.Clean(state.MaskKeys(text)) }

// short is foreign text as a part of one line.
func (p *Poller) short(text string) string { return gchat.Cut(gchat.Line(p.masked(text)), 200) }

func (p *Poller) statusOf(ctx context.Context, one *state.Session) string {
	lines := []string{"[Status] " + gchat.Line(one.Name), "", p.doing(ctx, one)}
	if !one.StartedAt.IsZero() {
		lines = append(lines, "Runs since "+clock(one.StartedAt)+" in "+gchat.Line(cmp.Or(one.CWD, one.ProjectDir)))
	}
	if one.MutedUntil.After(p.now()) {
		lines = append(lines, "Muted until "+clock(one.MutedUntil))
	}
	qs, _ := state.OpenQuestions(p.Env)
	var waits []string
	for _, q := range slices.Backward(qs) { // the oldest first
		if q.ClaudeSession() == one.ID && q.Status == state.Pending && len(q.Questions) > 0 {
			waits = append(waits, "• "+p.short(q.Questions[0].Question))
		}
	}
	if len(waits) == 0 {
		waits = []string{"Nothing waits for you."}
	} else {
		lines = append(lines, "Waits for you:")
	}
	return gchat.Cut(strings.Join(append(lines, waits...), "\n"), gchat.MaxText)
}

// doing says what Claude does.
func (p *Poller) doing(ctx context.Context, one *state.Session) string {
	shot, s, err := p.shotOf(ctx, one)
	switch {
	case err != nil:
		return "What Claude does is not known: " + gchat.Line(err.Error())
	case s.Dialog():
		return "A dialog is open in the terminal: " + p.short(s.String())
	case s.Busy:
		return "Claude works: " + p.underWay(shot.Lines)
	case s.Kind == inject.Draft:
		return "Claude is idle. A draft stands in the input box: " + p.short(s.Draft)
	case s.Kind == inject.Prompt:
		return "Claude is idle, at an empty input box"
	}
	return "The terminal shows " + p.short(s.Why)
}

// stop interrupts Claude where it works. inject.Menu reads the screen again before the key, and sees to it that Claude stopped.
func (p *Poller) stop(ctx context.Context, one *state.Session) string {
	shot, s, err := p.shotOf(ctx, one)
	switch {
	case err != nil:
		return outOfReach + gchat.Line(err.Error()) + "."
	case s.Dialog():
		return "[Not used] A dialog is open in the terminal: answer it first."
	case !s.Busy && (s.Kind == inject.Prompt || s.Kind == inject.Draft):
		return "[Not used] Claude is not working."
	case !s.Busy:
		return "[Not used] The terminal shows " + p.short(s.Why) + ": nothing was pressed."
	case p.DryRun:
		return "[Not used] The poller runs with --dry-run: nothing was pressed."
	}
	if err := p.menu(one).Run(ctx, one.TmuxPane, "esc", nil); err != nil {
		return "[Not used] Claude was not seen to stop: " + p.short(err.Error()) + "."
	}
	return "[Stopped] " + p.underWay(shot.Lines)
}

// menu drives a session's own pane: it types where a text belongs, and interrupts Claude.
func (p *Poller) menu(one *state.Session) inject.Menu {
	env := func(name string) string {
		if name == "TMUX" {
			return one.TmuxSocket
		}
		return p.Env(name)
	}
	return inject.Menu{UserState: p.user(), Env: env, Interrupt: true, ClaudePID: one.ClaudePID, ClaudeStart: one.ClaudeStart}
}

var (
	// toolLine is "● Bash(git push)", or, of 2.1.329 while it runs, "⎿  $ git push".
	toolLine   = state.Pattern(`^(?:[●⏺ ] ?(\w[\w ]*\(.*)| +⎿ +\$ (.+))`)
	promptLine = state.Pattern(`^[❯>] (.+)`)
)

// underWay is what Claude is at, as far as the screen tells: the last tool since the last prompt, else that prompt.
func (p *Poller) underWay(lines []string) string {
	rules := 0 // the input box stands between two
	for _, l := range slices.Backward(lines) {
		if strings.HasPrefix(l, "───") && strings.HasSuffix(l, "──") {
			rules++
		}
		if rules < 2 {
			continue
		}
		if tool := toolLine().FindStringSubmatch(l); tool != nil {
			return p.short(tool[1] + tool[2])
		}
		if prompt := promptLine().FindStringSubmatch(l); prompt != nil {
			return "the work on \"" + p.short(prompt[1]) + "\""
		}
	}
	return "what it was doing is not on the screen"
}

// mute has the reports of a session held back for a time.
func (p *Poller) mute(one *state.Session, words string) string {
	long := time.Hour
	if words != "" && words != "off" {
		unit := strings.NewReplacer(" ", "", "hours", "h", "hour", "h", "minutes", "m", "min", "m")
		var err error
		if long, err = time.ParseDuration(unit.Replace(words)); err != nil || long <= 0 {
			return "[Not used] Say for how long: /mute 2h, /mute 30m, or /mute off."
		}
	}
	until := p.now().Add(min(long, mostMuted)).UTC()
	if words == "off" {
		until = time.Time{}
	}
	if _, err := state.SessionsIn(p.user()).Change(one.ID, func(one *state.Session) error {
		one.MutedUntil = until
		return nil
	}); err != nil {
		return "[Not used] That could not be written down: " + p.short(err.Error()) + "."
	}
	if until.IsZero() {
		return "[Muted] No more: reports of this session come again."
	}
	return "[Muted] No reports of this session until " + clock(until) +
		". Questions, permissions and plans still come. /mute off ends it."
}

// muted says until when a message is left alone because the person muted its session: a report, and [Waiting for you].
func (s *sender) muted(m *state.Message) (until time.Time, muted bool) {
	if m.SessionID == "" || m.Urgent || m.Kind == state.MessageNote {
		return until, false
	}
	one, err := state.SessionsIn(s.user()).Of(m.SessionID)
	if err != nil || !one.MutedUntil.After(s.now()) {
		return until, false
	}
	return sooner(one.MutedUntil, s.now().Add(muteStep)), true
}

// clock is a time as people say it.
func clock(t time.Time) string { return t.Local().Format("15:04 on Monday") }
