// Package commands does what a person writes in the thread of a session: it shows the terminal, says what Claude does, interrupts
// it, and mutes its reports.
package commands

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

const (
	// TooOld is how old a command may be when it is begun: an Esc for what Claude did an hour ago would stop something else.
	TooOld = 5 * time.Minute
	// screenLines is how many lines of a terminal /screen reads; the last ones that fit are shown.
	screenLines = 80
	// mostMuted is the longest time that a session is muted.
	mostMuted = 24 * time.Hour
)

const list = `/screen: what the terminal shows
/status: what Claude does, and what waits for you
/stop: interrupts Claude, as Esc does
/mute 2h: no reports of this session until then (also 30m, off)
/ask: ends a "yes 30m", each permission is asked for again
/compact, /clear, /model NAME: Claude Code's own, typed as they are when Claude is idle
/new PROJECT WORDS: begins a session in another thread, where start_sessions is on
/help: these lines`

// Room is where commands are done.
type Room struct {
	Env    state.Getenv
	Log    *state.Log
	DryRun bool           // press nothing
	Config *config.Config // the person's own: who may say something
	Put    func(*state.Message) error
	Now    func() time.Time
}

// asks says whether a command ends a yes for a while, which is done before that is taken off the session.
func asks(in *state.Incoming) bool { return strings.HasPrefix(strings.ToLower(in.Text), "/ask") }

// Do does one command, and returns what its thread is told.
func (r Room) Do(ctx context.Context, one *state.Session, in *state.Incoming) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandBound)
	defer cancel()
	name, rest, _ := strings.Cut(strings.Join(strings.Fields(strings.ToLower(in.Text)), " "), " ")
	if asks(in) { // also an old one: it lets Claude do nothing
		return "[Asks again] Each permission of this session is asked for from now on."
	}
	if r.Now().Sub(in.LocalCreatedAt) > TooOld {
		return "[Not used] " + wording.Line(name) + " was read too late. Send it again if you still want it."
	}
	if wording.ClaudeCommand(in.Text, r.Config.ClaudeCommands) { // there is no terminal for it
		return outOfReach + wording.Line(inject.ErrNoTmux.Error()) + "."
	}
	switch name {
	case "/model":
		return "[Not used] Name a model: /model opus."
	case "/screen":
		return r.screen(ctx, one)
	case "/status":
		return r.status(ctx, one)
	case "/stop":
		return r.stop(ctx, one, in)
	case "/mute":
		return r.mute(one, rest)
	case "/new":
		return "[Not used] Sessions are begun in the terminal alone: start_sessions is off, or a policy forbids it."
	case "/help":
		return "[Help] In this thread you can write:\n" + list
	}
	return "[Not used] There is no command " + wording.Line(name) + ". There are:\n" + list
}

// Shot is what the pane shows in which a session's own Claude Code has the keyboard.
func Shot(ctx context.Context, one *state.Session) (shot inject.Snapshot, s inject.Screen, err error) {
	if one.TmuxPane == "" || one.TmuxSocket == "" || one.ClaudePID <= 1 {
		return shot, s, inject.ErrNoTmux
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

func (r Room) screen(ctx context.Context, one *state.Session) string {
	shot, _, err := Shot(ctx, one)
	if err != nil {
		return outOfReach + wording.Line(err.Error()) + "."
	}
	return wording.ScreenText("[Screen] "+wording.Line(one.Name), r.masked(strings.Join(shot.Lines, "\n")))
}

// masked is foreign text without secrets, and without a word of it where a policy wants that.
func (r Room) masked(text string) string {
	if !r.Config.AccessTo(config.KindScreen, "").CanShow {
		return "(only in the terminal)"
	}
	return r.Log.Redact(state.MaskKeys(text))
}

// short is foreign text as a part of one line.
func (r Room) short(text string) string { return wording.Cut(wording.Line(r.masked(text)), 200) }

func (r Room) status(ctx context.Context, one *state.Session) string {
	lines := []string{"[Status] " + wording.Line(one.Name), "", r.doing(ctx, one)}
	if !one.StartedAt.IsZero() {
		lines = append(lines, "Runs since "+clock(one.StartedAt)+" in "+wording.Line(cmp.Or(one.CWD, one.ProjectDir)))
	}
	if one.MutedUntil.After(r.Now()) {
		lines = append(lines, "Muted until "+clock(one.MutedUntil))
	}
	qs, _ := state.ReadIndexedQuestions(r.Env, append(state.OpenStatusTexts, state.GrantText)...)
	var waits []string
	kept := len(r.inbox().WaitingPrompts(one.ID))
	for _, q := range slices.Backward(qs) { // the oldest first
		if q.ClaudeSession() == one.ID && q.HasActiveGrant() {
			lines = append(lines, "Permissions are allowed by "+wording.Line(q.DescribeGrant()))
		}
		switch {
		case q.ClaudeSession() != one.ID || len(q.SubQuestions) == 0:
		case q.Status == state.Pending && q.Kind == state.KindNext && q.ShownText != "":
			waits = append(waits, "• "+r.short(q.ShownText))
		case q.Status == state.Pending:
			waits = append(waits, "• "+r.short(q.SubQuestions[0].Question))
		}
	}
	if there := inject.WaitsThere(r.Env, one); there != "" {
		waits = append(waits, "• "+r.short(there))
	}
	if kept > 0 {
		lines = append(lines, fmt.Sprintf("Kept until Claude can take them: %d of your messages", kept))
	}
	if len(waits) == 0 {
		waits = []string{"Nothing waits for you."}
	} else {
		lines = append(lines, "Waits for you:")
	}
	return wording.Cut(strings.Join(append(lines, waits...), "\n"), wording.MaxText)
}

// doing says what Claude does.
func (r Room) doing(ctx context.Context, one *state.Session) string {
	shot, s, err := Shot(ctx, one)
	switch {
	case err != nil:
		return "What Claude does is not known: " + wording.Line(err.Error())
	case s.Dialog():
		return "A dialog is open in the terminal: " + r.short(s.String())
	case s.Busy:
		return "Claude works: " + r.underWay(shot.Lines)
	case s.Shows == inject.Draft:
		return "Claude is idle. A draft stands in the input box: " + r.short(s.Draft)
	case s.Shows == inject.Prompt:
		return "Claude is idle, at an empty input box"
	}
	return "The terminal shows " + r.short(s.Why)
}

// Seen is what the session of a thread does, in a word or two, whether commands in that thread are read, and whether that session
// runs outside of tmux: words wake it, and what takes a terminal does not work.
func Seen(ctx context.Context, env state.Getenv, thread string) (does string, reads, outside bool) {
	all, _ := state.SessionsIn(state.UserStateDir(env)).All()
	all = slices.DeleteFunc(all, func(one *state.Session) bool { return thread == "" || one.ThreadName != thread })
	if len(all) == 0 {
		return "", false, false
	}
	one := slices.MaxFunc(all, func(a, b *state.Session) int { return a.LastSeen.Compare(b.LastSeen) }) // of several after /clear
	if !one.IsRunning() || inject.Ended(one.ClaudePID, one.ClaudeStart) {
		return "ended", false, false
	}
	if inject.WaitsThere(env, one) != "" {
		return "waits for you", one.AcceptsCommands, one.TmuxPane == ""
	}
	_, s, err := Shot(ctx, one)
	return inWords(s, err, asked(env, one)), one.AcceptsCommands, one.TmuxPane == ""
}

// asked says that a session waits for a person's answer in Chat.
func asked(env state.Getenv, one *state.Session) bool {
	qs, _ := state.ReadIndexedQuestions(env, state.OpenStatusTexts...)
	return slices.ContainsFunc(qs, func(q *state.Question) bool {
		return q.ClaudeSession() == one.ID && q.Status == state.Pending
	})
}

// inWords is a screen in a word or two. Where a person is asked in Chat, a dialog or an idle Claude waits for that person.
func inWords(s inject.Screen, err error, asked bool) string {
	switch {
	case err == nil && s.Busy && !s.Dialog():
		return "works"
	case asked:
		return "waits for you"
	case err == nil && s.Dialog():
		return "dialog open"
	case err == nil && (s.Shows == inject.Prompt || s.Shows == inject.Draft):
		return "idle"
	}
	return "out of reach"
}

// stop interrupts Claude where it works. inject.Menu reads the screen again before the key, and sees to it that Claude stopped.
func (r Room) stop(ctx context.Context, one *state.Session, in *state.Incoming) string {
	shot, s, err := Shot(ctx, one)
	switch {
	case err != nil:
		return outOfReach + wording.Line(err.Error()) + "."
	case s.Dialog():
		return "[Not used] A dialog is open in the terminal: answer it first."
	case !s.Busy && (s.Shows == inject.Prompt || s.Shows == inject.Draft):
		return "[Not used] Claude is not working."
	case !s.Busy:
		return "[Not used] The terminal shows " + r.short(s.Why) + ": nothing was pressed."
	case r.DryRun:
		return "[Not used] The poller runs with --dry-run: nothing was pressed."
	}
	menu := Menu(r.Env, one)
	menu.Ours = r.lastTyped(ctx, one)
	if err := menu.Run(ctx, one.TmuxPane, "esc", nil); err != nil {
		return "[Not used] Claude was not seen to stop: " + r.short(err.Error()) + "."
	}
	told := "[Stopped] " + r.underWay(shot.Lines)
	if _, s, err := Shot(ctx, one); err == nil && s.Shows == inject.Draft {
		told += "\nA text stands in the input box of the terminal. " + wording.EmptyBox
	}
	line := state.AuditLine{
		SessionName: one.Name, Project: one.ProjectDir, Kind: "command", By: in.Sender, ReplyText: in.Text, ClaudeText: told,
	}
	r.Log.ErrorOnce(state.AppendDecision(r.Env, r.Log, line), "not in the audit log")
	return told
}

// lastTyped is what was typed last into a session's terminal from Chat, where no key of a
// person came since; else "".
func (r Room) lastTyped(ctx context.Context, one *state.Session) string {
	if one.LastTyped == nil {
		return ""
	}
	key, err := inject.Server{Socket: one.TmuxSocket}.LastTyped(ctx, one.TmuxPane)
	if err != nil || !key.Before(one.LastTyped.TypedAt.Truncate(time.Second)) { // tmux tells whole seconds
		return ""
	}
	return one.LastTyped.Text
}

// Menu drives a session's own pane: it types where a text belongs, and interrupts Claude.
func Menu(env state.Getenv, one *state.Session) inject.Menu {
	in := func(name string) string {
		if name == "TMUX" {
			return one.TmuxSocket
		}
		return env(name)
	}
	return inject.Menu{
		UserState:   state.UserStateDir(env),
		Env:         in,
		Interrupt:   true,
		PromptOnly:  true,
		ClaudePID:   one.ClaudePID,
		ClaudeStart: one.ClaudeStart,
	}
}

var (
	// toolLine is "● Bash(git push)", or, of 2.1.329 while it runs, "⎿  $ git push".
	toolLine   = state.LazyPattern(`^(?:[●⏺ ] ?(\w[\w ]*\(.*)| +⎿ +\$ (.+))`)
	promptLine = state.LazyPattern(`^[❯>] (.+)`)
)

// underWay is what Claude is at, as far as the screen tells: the last tool since the last prompt, else that prompt. 2.1.332 draws
// words that are queued as prompts below it.
func (r Room) underWay(lines []string) string {
	rules := 0 // the input box stands between two
	words, queued := "", false
	for _, l := range slices.Backward(lines) {
		if inject.BoxRule(l) {
			rules++
		}
		if rules < 2 {
			continue
		}
		if tool := toolLine().FindStringSubmatch(l); tool != nil {
			return r.short(tool[1] + tool[2])
		}
		prompt := promptLine().FindStringSubmatch(l)
		if prompt != nil {
			words = prompt[1]
		}
		if prompt != nil && !queued || words != "" && strings.HasPrefix(l, "✻") { // the turn before has ended
			break
		}
		queued = (queued || strings.Contains(l, "⎿  Queued")) && !strings.HasPrefix(l, "●")
	}
	if words != "" {
		return "the work on \"" + r.short(words) + "\""
	}
	return "what it was doing is not on the screen"
}

// mute has the reports of a session held back for a time.
func (r Room) mute(one *state.Session, words string) string {
	long := time.Hour
	if words != "" && words != "off" {
		var ok bool
		long, ok = wording.ReadTime(words)
		if !ok {
			return "[Not used] Say for how long: /mute 2h, /mute 30m, or /mute off."
		}
	}
	until := r.Now().Add(min(long, mostMuted)).UTC()
	if words == "off" {
		until = time.Time{}
	}
	_, err := state.SessionsIn(state.UserStateDir(r.Env)).Change(one.ID, func(one *state.Session) { one.MutedUntil = until })
	if err != nil {
		return "[Not used] That could not be written down: " + r.short(err.Error()) + "."
	}
	if until.IsZero() {
		return "[Muted] No more: reports of this session come again."
	}
	return "[Muted] No reports of this session until " + clock(until) +
		". Questions, permissions and plans still come. /mute off ends it."
}

// clock is a time as people say it.
func clock(t time.Time) string { return t.Local().Format("15:04 on Monday") }

// outcomeBound is how long the outcome of one of Claude Code's own commands is waited for: a compaction takes its time.
const outcomeBound = 50 * time.Second

// Outcome is what the terminal says of one of Claude Code's own commands that was just typed: the lines below it. The dialog that
// /model opens in a long conversation only asks whether that was meant.
func (r Room) Outcome(ctx context.Context, one *state.Session, command string) string {
	ctx, cancel := context.WithTimeout(ctx, outcomeBound)
	defer cancel()
	said := ""
	for ctx.Err() == nil {
		time.Sleep(400 * time.Millisecond)
		shot, s, err := Shot(ctx, one)
		switch {
		case err != nil:
			return "What became of it was not seen: " + r.short(err.Error()) + "."
		case s.Question == inject.SwitchModel && strings.HasPrefix(command, "/model "):
			menu := Menu(r.Env, one)
			if err := menu.Run(ctx, one.TmuxPane, "choose", []string{"1"}); err != nil {
				return "The terminal asks whether to switch the model: " + r.short(err.Error()) + "."
			}
		case s.Dialog():
			return "A dialog is open in the terminal: " + r.short(s.String()) + "."
		case s.Shows == inject.Prompt && !s.Busy:
			before := said
			said = below(shot.Lines, command)
			if said == before { // it stands still
				return r.short(said)
			}
		}
	}
	return "What became of it was not seen in time."
}

// below is what the terminal says below the last command line: "  ⎿  Set model to …".
func below(lines []string, command string) string {
	i := len(lines) - 1
	for ; i >= 0 && !strings.HasPrefix(strings.ReplaceAll(lines[i], "\u00a0", " "), "❯ "+command); i-- {
	}
	if i < 0 {
		return ""
	}
	var said []string
	for _, l := range lines[i+1:] {
		words := strings.TrimSpace(strings.Replace(l, "⎿", "", 1))
		if words == "" || strings.HasPrefix(words, "──") || strings.HasPrefix(words, "❯") {
			break
		}
		said = append(said, words)
	}
	return strings.Join(said, " ")
}
