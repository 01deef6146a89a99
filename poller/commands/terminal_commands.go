// Package commands does what a person writes in the thread of a session: it shows the
// terminal, says what Claude does, interrupts it, and mutes its reports.
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
	// MaxCommandAge is how old a command may be when it is begun: an Esc for what Claude
	// did an hour ago would stop something else.
	MaxCommandAge = 5 * time.Minute
	// screenLines is how many lines of a terminal /screen reads; the last ones that fit
	// are shown.
	screenLines = 80
	// maxMute is the longest time that a session is muted.
	maxMute = 24 * time.Hour
)

const commandList = `/screen: what the terminal shows
/status: what Claude does, and what waits for you
/stop: interrupts Claude, as Esc does
/mute 2h: no reports of this session until then (also 30m, off)
/ask: ends a "yes 30m", each permission is asked for again
/compact, /clear, /model NAME: Claude Code's own, typed as they are when Claude is idle
/new PROJECT WORDS: begins a session in another thread, where start_sessions is on
/help: these lines`

// Runner is where commands are done.
type Runner struct {
	Env     state.Getenv
	Log     *state.Log
	DryRun  bool           // press nothing
	Config  *config.Config // the person's own: who may say something
	Enqueue func(*state.Message) error
	Now     func() time.Time
}

// endsGrant says whether a command ends a yes for a while, which is done before that is
// taken off the session.
func endsGrant(
	in *state.Incoming,
) bool {
	return strings.HasPrefix(strings.ToLower(in.Text), "/ask")
}

// RunCommand does one command, and returns what its thread is told.
func (r Runner) RunCommand(ctx context.Context, session *state.Session, in *state.Incoming) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandTimeout)
	defer cancel()
	name, rest, _ := strings.Cut(strings.Join(strings.Fields(strings.ToLower(in.Text)), " "), " ")
	if endsGrant(in) { // also an old one: it lets Claude do nothing
		return "[Asks again] Each permission of this session is asked for from now on."
	}
	if r.Now().Sub(in.LocalCreatedAt) > MaxCommandAge {
		return "[Not used] " + wording.SafeLine(
			name,
		) + " was read too late. Send it again if you still want it."
	}
	if wording.IsClaudeCommand(in.Text, r.Config.ClaudeCommands) { // there is no terminal for it
		return outOfReachText + wording.SafeLine(inject.ErrNoTmux.Error()) + "."
	}
	switch name {
	case "/model":
		return "[Not used] Name a model: /model opus."
	case "/screen":
		return r.screenText(ctx, session)
	case "/status":
		return r.statusText(ctx, session)
	case "/stop":
		return r.interrupt(ctx, session, in)
	case "/mute":
		return r.muteReports(session, rest)
	case "/new":
		return "[Not used] Sessions are begun in the terminal alone: start_sessions is off, or a policy forbids it."
	case "/help":
		return "[Help] In this thread you can write:\n" + commandList
	}
	return "[Not used] There is no command " + wording.SafeLine(name) + ". There are:\n" + commandList
}

// CaptureScreen is what the pane shows in which a session's own Claude Code has the
// keyboard.
func CaptureScreen(
	ctx context.Context,
	session *state.Session,
) (snapshot inject.Snapshot, screen inject.Screen, err error) {
	if session.TmuxPane == "" || session.TmuxSocket == "" || session.ClaudePID <= 1 {
		return snapshot, screen, inject.ErrNoTmux
	}
	server := inject.Server{Socket: session.TmuxSocket}
	pane, err := server.Pane(ctx, session.TmuxPane)
	if err == nil {
		_, err = pane.FindClaude(session.ClaudePID, session.ClaudeStart)
	}
	if err == nil {
		snapshot, err = server.Snapshot(ctx, pane.ID, screenLines)
	}
	return snapshot, inject.ReadScreen(snapshot.Screen), err
}

const outOfReachText = "[Not used] The terminal is out of reach: "

func (r Runner) screenText(ctx context.Context, session *state.Session) string {
	snapshot, _, err := CaptureScreen(ctx, session)
	if err != nil {
		return outOfReachText + wording.SafeLine(err.Error()) + "."
	}
	return wording.ScreenText(
		"[Screen] "+wording.SafeLine(session.Name),
		r.redact(strings.Join(snapshot.Lines, "\n")),
	)
}

// redact is foreign text without secrets, and without a word of it where a policy wants
// that.
func (r Runner) redact(text string) string {
	if !r.Config.AccessTo(config.KindScreen, "").CanShow {
		return "(only in the terminal)"
	}
	return r.Log.Redact(state.MaskKeys(text))
}

// shorten is foreign text as a part of one line.
func (r Runner) shorten(
	text string,
) string {
	return wording.Cut(wording.SafeLine(r.redact(text)), 200)
}

func (r Runner) statusText(ctx context.Context, session *state.Session) string {
	lines := []string{"[Status] " + wording.SafeLine(session.Name), "", r.activity(ctx, session)}
	if !session.StartedAt.IsZero() {
		lines = append(
			lines,
			"Runs since "+formatTime(
				session.StartedAt,
			)+" in "+wording.SafeLine(
				cmp.Or(session.CWD, session.ProjectDir),
			),
		)
	}
	if session.MutedUntil.After(r.Now()) {
		lines = append(lines, "Muted until "+formatTime(session.MutedUntil))
	}
	questions, _ := state.ReadIndexedQuestions(
		r.Env,
		append(state.OpenStatusTexts, state.GrantText)...)
	var openLines []string
	kept := len(r.inbox().WaitingPrompts(session.ID))
	for _, q := range slices.Backward(questions) { // the oldest first
		if q.ClaudeSession() == session.ID && q.HasActiveGrant() {
			lines = append(lines, "Permissions are allowed by "+wording.SafeLine(q.DescribeGrant()))
		}
		switch {
		case q.ClaudeSession() != session.ID || len(q.SubQuestions) == 0:
		case q.Status == state.Pending && q.Kind == state.KindNext && q.ShownText != "":
			openLines = append(openLines, "• "+r.shorten(q.ShownText))
		case q.Status == state.Pending:
			openLines = append(openLines, "• "+r.shorten(q.SubQuestions[0].Question))
		}
	}
	if dialog := inject.TerminalDialogText(r.Env, session); dialog != "" {
		openLines = append(openLines, "• "+r.shorten(dialog))
	}
	if kept > 0 {
		lines = append(
			lines,
			fmt.Sprintf("Kept until Claude can take them: %d of your messages", kept),
		)
	}
	if len(openLines) == 0 {
		openLines = []string{"Nothing waits for you."}
	} else {
		lines = append(lines, "Waits for you:")
	}
	return wording.Cut(strings.Join(append(lines, openLines...), "\n"), wording.MaxText)
}

// activity says what Claude does.
func (r Runner) activity(ctx context.Context, session *state.Session) string {
	snapshot, screen, err := CaptureScreen(ctx, session)
	switch {
	case err != nil:
		return "What Claude does is not known: " + wording.SafeLine(err.Error())
	case screen.IsDialog():
		return "A dialog is open in the terminal: " + r.shorten(screen.String())
	case screen.Busy:
		return "Claude works: " + r.currentWork(snapshot.Lines)
	case screen.Shows == inject.Draft:
		return "Claude is idle. A draft stands in the input box: " + r.shorten(screen.Draft)
	case screen.Shows == inject.Prompt:
		return "Claude is idle, at an empty input box"
	}
	return "The terminal shows " + r.shorten(screen.Why)
}

// DescribeThread is what the session of a thread does, in a word or two, whether commands
// in that thread are read, and whether that session runs outside of tmux: words wake it,
// and what takes a terminal does not work.
func DescribeThread(
	ctx context.Context,
	env state.Getenv,
	thread string,
) (activity string, acceptsCommands, isOutsideTmux bool) {
	sessions, _ := state.SessionsIn(state.UserStateDir(env)).All()
	sessions = slices.DeleteFunc(
		sessions,
		func(session *state.Session) bool { return thread == "" || session.ThreadName != thread },
	)
	if len(sessions) == 0 {
		return "", false, false
	}
	// of several after /clear
	session := slices.MaxFunc(
		sessions,
		func(a, b *state.Session) int { return a.LastSeen.Compare(b.LastSeen) },
	)
	if !session.IsRunning() || inject.HasEnded(session.ClaudePID, session.ClaudeStart) {
		return "ended", false, false
	}
	if inject.TerminalDialogText(env, session) != "" {
		return "waits for you", session.AcceptsCommands, session.TmuxPane == ""
	}
	_, screen, err := CaptureScreen(ctx, session)
	return screenState(
		screen,
		err,
		hasOpenQuestion(env, session),
	), session.AcceptsCommands, session.TmuxPane == ""
}

// hasOpenQuestion says that a session waits for a person's answer in Chat.
func hasOpenQuestion(env state.Getenv, session *state.Session) bool {
	questions, _ := state.ReadIndexedQuestions(env, state.OpenStatusTexts...)
	return slices.ContainsFunc(questions, func(q *state.Question) bool {
		return q.ClaudeSession() == session.ID && q.Status == state.Pending
	})
}

// screenState is a screen in a word or two. Where a person is asked in Chat, a dialog or
// an idle Claude waits for that person.
func screenState(screen inject.Screen, err error, hasOpenQuestion bool) string {
	switch {
	case err == nil && screen.Busy && !screen.IsDialog():
		return "works"
	case hasOpenQuestion:
		return "waits for you"
	case err == nil && screen.IsDialog():
		return "dialog open"
	case err == nil && (screen.Shows == inject.Prompt || screen.Shows == inject.Draft):
		return "idle"
	}
	return "out of reach"
}

// interrupt interrupts Claude where it works. inject.Menu reads the screen again before
// the key, and sees to it that Claude stopped.
func (r Runner) interrupt(ctx context.Context, session *state.Session, in *state.Incoming) string {
	snapshot, screen, err := CaptureScreen(ctx, session)
	switch {
	case err != nil:
		return outOfReachText + wording.SafeLine(err.Error()) + "."
	case screen.IsDialog():
		return "[Not used] A dialog is open in the terminal: answer it first."
	case !screen.Busy && (screen.Shows == inject.Prompt || screen.Shows == inject.Draft):
		return "[Not used] Claude is not working."
	case !screen.Busy:
		return "[Not used] The terminal shows " + r.shorten(screen.Why) + ": nothing was pressed."
	case r.DryRun:
		return "[Not used] The poller runs with --dry-run: nothing was pressed."
	}
	menu := NewMenu(r.Env, session)
	menu.OwnText = r.lastTypedText(ctx, session)
	if err := menu.Run(ctx, session.TmuxPane, "esc", nil); err != nil {
		return "[Not used] Claude was not seen to stop: " + r.shorten(err.Error()) + "."
	}
	text := "[Stopped] " + r.currentWork(snapshot.Lines)
	if _, screen, err := CaptureScreen(ctx, session); err == nil && screen.Shows == inject.Draft {
		text += "\nA text stands in the input box of the terminal. " + wording.EmptyBoxHint
	}
	auditLine := state.AuditLine{
		SessionName: session.Name, Project: session.ProjectDir, Kind: "command", By: in.Sender, ReplyText: in.Text, ClaudeText: text,
	}
	r.Log.ErrorOnce(state.AppendDecision(r.Env, r.Log, auditLine), "not in the audit log")
	return text
}

// lastTypedText is what was typed last into a session's terminal from Chat, where no key
// of a person came since; else "".
func (r Runner) lastTypedText(ctx context.Context, session *state.Session) string {
	if session.LastTyped == nil {
		return ""
	}
	lastKeyAt, err := inject.Server{Socket: session.TmuxSocket}.LastTyped(ctx, session.TmuxPane)
	if err != nil || !lastKeyAt.Before(session.LastTyped.TypedAt.Truncate(time.Second)) {
		// tmux tells whole seconds
		return ""
	}
	return session.LastTyped.Text
}

// NewMenu drives a session's own pane: it types where a text belongs, and interrupts
// Claude.
func NewMenu(env state.Getenv, session *state.Session) inject.Menu {
	getenv := func(name string) string {
		if name == "TMUX" {
			return session.TmuxSocket
		}
		return env(name)
	}
	return inject.Menu{
		UserState:     state.UserStateDir(env),
		Env:           getenv,
		InterruptOnly: true,
		PromptOnly:    true,
		ClaudePID:     session.ClaudePID,
		ClaudeStart:   session.ClaudeStart,
	}
}

var (
	// toolPattern is "● Bash(git push)", or, of 2.1.329 while it runs, "⎿  $ git push".
	toolPattern   = state.LazyPattern(`^(?:[●⏺ ] ?(\w[\w ]*\(.*)| +⎿ +\$ (.+))`)
	promptPattern = state.LazyPattern(`^[❯>] (.+)`)
)

// currentWork is what Claude is at, as far as the screen tells: the last tool since the
// last prompt, else that prompt. 2.1.332 draws words that are queued as prompts below it.
func (r Runner) currentWork(lines []string) string {
	rules := 0 // the input box stands between two
	lastPrompt, isQueued := "", false
	for _, line := range slices.Backward(lines) {
		if inject.IsBoxRule(line) {
			rules++
		}
		if rules < 2 {
			continue
		}
		if toolMatch := toolPattern().FindStringSubmatch(line); toolMatch != nil {
			return r.shorten(toolMatch[1] + toolMatch[2])
		}
		promptMatch := promptPattern().FindStringSubmatch(line)
		if promptMatch != nil {
			lastPrompt = promptMatch[1]
		}
		if promptMatch != nil && !isQueued || lastPrompt != "" && strings.HasPrefix(line, "✻") {
			// the turn before has ended
			break
		}
		isQueued = (isQueued || strings.Contains(line, "⎿  Queued")) &&
			!strings.HasPrefix(line, "●")
	}
	if lastPrompt != "" {
		return "the work on \"" + r.shorten(lastPrompt) + "\""
	}
	return "what it was doing is not on the screen"
}

// muteReports has the reports of a session held back for a time.
func (r Runner) muteReports(session *state.Session, argument string) string {
	duration := time.Hour
	if argument != "" && argument != "off" {
		var ok bool
		duration, ok = wording.ReadDuration(argument)
		if !ok {
			return "[Not used] Say for how long: /mute 2h, /mute 30m, or /mute off."
		}
	}
	until := r.Now().Add(min(duration, maxMute)).UTC()
	if argument == "off" {
		until = time.Time{}
	}
	_, err := state.SessionsIn(state.UserStateDir(r.Env)).
		Change(session.ID, func(session *state.Session) { session.MutedUntil = until })
	if err != nil {
		return "[Not used] That could not be written down: " + r.shorten(err.Error()) + "."
	}
	if until.IsZero() {
		return "[Muted] No more: reports of this session come again."
	}
	return "[Muted] No reports of this session until " + formatTime(until) +
		". Questions, permissions and plans still come. /mute off ends it."
}

// formatTime is a time as people say it.
func formatTime(t time.Time) string { return t.Local().Format("15:04 on Monday") }

// outcomeTimeout is how long the outcome of one of Claude Code's own commands is waited
// for: a compaction takes its time.
const outcomeTimeout = 50 * time.Second

// AwaitOutcome is what the terminal says of one of Claude Code's own commands that was
// just typed: the lines below it. The dialog that /model opens in a long conversation
// only asks whether that was meant.
func (r Runner) AwaitOutcome(ctx context.Context, session *state.Session, command string) string {
	ctx, cancel := context.WithTimeout(ctx, outcomeTimeout)
	defer cancel()
	output := ""
	for ctx.Err() == nil {
		time.Sleep(400 * time.Millisecond)
		snapshot, screen, err := CaptureScreen(ctx, session)
		switch {
		case err != nil:
			return "What became of it was not seen: " + r.shorten(err.Error()) + "."
		case screen.Question == inject.SwitchModelQuestion && strings.HasPrefix(command, "/model "):
			menu := NewMenu(r.Env, session)
			if err := menu.Run(ctx, session.TmuxPane, "choose", []string{"1"}); err != nil {
				return "The terminal asks whether to switch the model: " + r.shorten(
					err.Error(),
				) + "."
			}
		case screen.IsDialog():
			return "A dialog is open in the terminal: " + r.shorten(screen.String()) + "."
		case screen.Shows == inject.Prompt && !screen.Busy:
			earlierOutput := output
			output = textBelow(snapshot.Lines, command)
			if output == earlierOutput { // it stands still
				return r.shorten(output)
			}
		}
	}
	return "What became of it was not seen in time."
}

// textBelow is what the terminal says below the last command line: "  ⎿  Set model to …".
func textBelow(lines []string, command string) string {
	i := len(lines) - 1
	for ; i >= 0 && !strings.HasPrefix(strings.ReplaceAll(lines[i], "\u00a0", " "), "❯ "+command); i-- {
	}
	if i < 0 {
		return ""
	}
	var output []string
	for _, line := range lines[i+1:] {
		text := strings.TrimSpace(strings.Replace(line, "⎿", "", 1))
		if text == "" || strings.HasPrefix(text, "──") || strings.HasPrefix(text, "❯") {
			break
		}
		output = append(output, text)
	}
	return strings.Join(output, " ")
}
