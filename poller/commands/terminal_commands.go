// Package commands runs what a person writes in the thread of a session. A command
// shows the terminal, says what Claude does, interrupts Claude, or mutes the session's
// reports. A prompt is kept for Claude, and can start a session.
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
	// MaxCommandAge is how old a command may be when the poller begins it. An Esc that
	// was meant for what Claude did an hour ago would stop something else.
	MaxCommandAge = 5 * time.Minute
	// screenLines is how many lines of a terminal /screen reads. It shows the last of
	// them that fit.
	screenLines = 80
	// maxMute is the longest time for which a session can be muted.
	maxMute = 24 * time.Hour
)

const commandList = `/screen: what the terminal shows
/status: what Claude does, and what waits for you
/stop: interrupts Claude, as Esc does
/mute 2h: no reports of this session for that time (also 30m, off)
/watch: shows here what Claude does while it works (also /watch off)
/ask: ends a "yes 30m"; you are asked for each permission again
/compact, /clear, /model NAME: Claude Code's own commands, typed when Claude is idle
/sessions: lists the sessions of this machine, with links
/new PROJECT WORDS: starts a session in a new thread, if start_sessions is on
/help: shows this list`

// Runner runs commands and keeps prompts.
type Runner struct {
	Env     state.Getenv
	Log     *state.Log
	DryRun  bool           // type nothing and press no key
	Config  *config.Config // the person's own configuration, which says who may write to a session
	Enqueue func(*state.Message) error
	Now     func() time.Time
	// WhyNoWatch says why the session's thread cannot show what Claude does; "" if it can.
	WhyNoWatch string
}

// endsGrant reports whether a command ends a yes for a while. RunCommands ends it
// before it runs any command.
func endsGrant(in *state.Incoming) bool {
	return strings.HasPrefix(strings.ToLower(in.Text), "/ask")
}

// RunCommand runs one command, and returns the note for its thread.
func (r Runner) RunCommand(ctx context.Context, session *state.Session, in *state.Incoming) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandTimeout)
	defer cancel()
	name, rest, _ := strings.Cut(strings.Join(strings.Fields(strings.ToLower(in.Text)), " "), " ")
	if endsGrant(in) { // however old it is: it only takes a permission away
		return "[Asks again] You are asked for each permission of this session from now on."
	}
	if r.Now().Sub(in.LocalCreatedAt) > MaxCommandAge {
		return "[Not used] " + wording.SafeLine(name) +
			" was read too late. Send it again if you still want it."
	}
	// With a terminal, it would have been typed.
	if wording.IsClaudeCommand(in.Text, r.Config.ClaudeCommands) {
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
	case "/watch":
		return r.setWatch(session, rest)
	case "/new":
		return "[Not used] Sessions cannot be started from here: " +
			"start_sessions is off, or a policy forbids it. Start it in the terminal."
	case "/help":
		return "[Help] In this thread you can write:\n" + commandList
	}
	return "[Not used] There is no command " + wording.SafeLine(name) +
		". These commands exist:\n" + commandList
}

// CaptureScreen returns what a session's pane shows. It fails unless the session's own
// Claude Code has the keyboard in that pane.
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
	title := "[Screen] " + wording.SafeLine(session.Name)
	return wording.ScreenText(title, r.redact(strings.Join(snapshot.Lines, "\n")))
}

// redact returns foreign text without secrets, or no word of it if a policy keeps such
// text in the terminal.
func (r Runner) redact(text string) string {
	if !r.Config.AccessTo(config.KindScreen, "").CanShow {
		return "(only in the terminal)"
	}
	return r.Log.Redact(state.MaskKeys(text))
}

// shorten returns foreign text, redacted, as a part of one line.
func (r Runner) shorten(text string) string {
	return wording.Cut(wording.SafeLine(r.redact(text)), 200)
}

func (r Runner) statusText(ctx context.Context, session *state.Session) string {
	lines := []string{"[Status] " + wording.SafeLine(session.Name), "", r.activity(ctx, session)}
	if !session.StartedAt.IsZero() {
		dir := wording.SafeLine(cmp.Or(session.CWD, session.ProjectDir))
		lines = append(lines, "Running since "+formatTime(session.StartedAt)+" in "+dir)
	}
	if session.MutedUntil.After(r.Now()) {
		lines = append(lines, "Muted until "+formatTime(session.MutedUntil))
	}
	texts := append(state.OpenStatusTexts, state.GrantText)
	questions, _ := state.ReadIndexedQuestions(r.Env, texts...)
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
		lines = append(lines,
			fmt.Sprintf("Kept until Claude can take them: %d of your messages", kept))
	}
	if len(openLines) == 0 {
		openLines = []string{"Nothing needs you."}
	} else {
		lines = append(lines, "Waits for you:")
	}
	return wording.Cut(strings.Join(append(lines, openLines...), "\n"), wording.MaxText)
}

// activity returns a line that says what Claude does.
func (r Runner) activity(ctx context.Context, session *state.Session) string {
	snapshot, screen, err := CaptureScreen(ctx, session)
	switch {
	case err != nil:
		return "It is not known what Claude does: " + wording.SafeLine(err.Error())
	case screen.IsDialog():
		return "A dialog is open in the terminal: " + r.shorten(screen.String())
	case screen.Busy:
		return "Claude works: " + r.currentWork(snapshot.Lines)
	case screen.Shows == inject.Draft:
		return "Claude is idle. There is text in its input box: " + r.shorten(screen.Draft)
	case screen.Shows == inject.Prompt:
		return "Claude is idle, at an empty input box"
	}
	return "The terminal shows " + r.shorten(screen.Why)
}

// sessionOfThread returns the session of a thread, or nil.
func sessionOfThread(env state.Getenv, thread string) *state.Session {
	sessions, _ := state.SessionsIn(state.UserStateDir(env)).All()
	sessions = slices.DeleteFunc(sessions, func(session *state.Session) bool {
		return thread == "" || session.ThreadName != thread
	})
	if len(sessions) == 0 {
		return nil
	}
	// After /clear, several sessions have the same thread.
	return slices.MaxFunc(sessions, func(a, b *state.Session) int {
		return a.LastSeen.Compare(b.LastSeen)
	})
}

// DescribeThread returns what the session of a thread does, in a word or two. It also
// reports whether commands in the thread are read, and whether the session runs outside
// of tmux: there a message wakes the session, and a command that needs a terminal does
// not work.
func DescribeThread(
	ctx context.Context,
	env state.Getenv,
	thread string,
) (activity string, acceptsCommands, isOutsideTmux bool) {
	session := sessionOfThread(env, thread)
	if session == nil {
		return "", false, false
	}
	if !session.IsRunning() || inject.HasEnded(session.ClaudePID, session.ClaudeStart) {
		return stateEnded, false, false
	}
	if inject.TerminalDialogText(env, session) != "" {
		return stateWaits, session.AcceptsCommands, session.TmuxPane == ""
	}
	_, screen, err := CaptureScreen(ctx, session)
	activity = screenState(screen, err, hasOpenQuestion(env, session))
	return activity, session.AcceptsCommands, session.TmuxPane == ""
}

// hasOpenQuestion reports whether a session waits for a person's answer in Chat.
func hasOpenQuestion(env state.Getenv, session *state.Session) bool {
	questions, _ := state.ReadIndexedQuestions(env, state.OpenStatusTexts...)
	return slices.ContainsFunc(questions, func(q *state.Question) bool {
		return q.ClaudeSession() == session.ID && q.Status == state.Pending
	})
}

// screenState describes a screen in a word or two. If a question is open in Chat, a
// dialog or an idle Claude waits for the person who is asked.
func screenState(screen inject.Screen, err error, hasOpenQuestion bool) string {
	switch {
	case err == nil && screen.Busy && !screen.IsDialog():
		return stateWorks
	case hasOpenQuestion:
		return stateWaits
	case err == nil && screen.IsDialog():
		return stateDialogOpen
	case err == nil && (screen.Shows == inject.Prompt || screen.Shows == inject.Draft):
		return stateIdle
	}
	return stateOutOfReach
}

// interrupt interrupts Claude if it works. inject.Menu reads the screen again before it
// sends the key, and checks that Claude stopped.
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
		return "[Not used] The terminal shows " + r.shorten(screen.Why) + ". No key was pressed."
	case r.DryRun:
		return "[Not used] The poller runs with --dry-run. No key was pressed."
	}
	menu := NewMenu(r.Env, session)
	if err := menu.Run(ctx, session.TmuxPane, "esc", nil); err != nil {
		return "[Not used] The terminal does not show that Claude stopped: " +
			r.shorten(err.Error()) + "."
	}
	text := "[Stopped] " + r.currentWork(snapshot.Lines)
	if _, screen, err := CaptureScreen(ctx, session); err == nil && screen.Shows == inject.Draft {
		text += "\nThere is text in the terminal's input box. " + wording.EmptyBoxHint
	}
	err = state.AppendDecision(r.Env, r.Log, state.AuditLine{
		SessionName: session.Name,
		Project:     session.ProjectDir,
		Kind:        "command",
		By:          in.Sender,
		ReplyText:   in.Text,
		ClaudeText:  text,
	})
	r.Log.ErrorOnce(err, "command not written to the audit log")
	return text
}

// NewMenu returns a menu that types prompts into a session's own pane, and interrupts
// Claude there.
func NewMenu(env state.Getenv, session *state.Session) inject.Menu {
	return inject.Menu{
		UserState: state.UserStateDir(env),
		Env: func(name string) string {
			if name == "TMUX" {
				return session.TmuxSocket
			}
			return env(name)
		},
		InterruptOnly: true,
		PromptOnly:    true,
		Typed:         session.LastTyped,
		ClaudePID:     session.ClaudePID,
		ClaudeStart:   session.ClaudeStart,
	}
}

var (
	// toolPattern matches "● Bash(git push)", or "⎿ $ git push", as Claude Code 2.1.329
	// draws a running tool.
	toolPattern   = state.LazyPattern(`^(?:[●⏺ ] ?(\w[\w ]*\(.*)| +⎿ +\$ (.+))`)
	promptPattern = state.LazyPattern(`^[❯>] (.+)`)
)

// currentWork returns what Claude works on, as far as the screen shows it: the last
// tool since the last prompt, else that prompt. Claude Code 2.1.332 draws queued
// prompts below it.
func (r Runner) currentWork(lines []string) string {
	rules := 0 // the input box has a rule above and a rule below
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
		isPrompt := promptMatch != nil && !isQueued
		isEarlierTurnEnd := lastPrompt != "" && strings.HasPrefix(line, "✻")
		if isPrompt || isEarlierTurnEnd {
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

// muteReports holds back the reports of a session for a time.
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
	sessions := state.SessionsIn(state.UserStateDir(r.Env))
	_, err := sessions.Change(session.ID, func(s *state.Session) { s.MutedUntil = until })
	if err != nil {
		return "[Not used] This could not be saved: " + r.shorten(err.Error()) + "."
	}
	if until.IsZero() {
		return "[Muted] Off: reports of this session are sent again."
	}
	return "[Muted] No reports of this session until " + formatTime(until) +
		". Questions, permissions and plans still come. To end it, write /mute off."
}

// formatTime returns a time as people say it.
func formatTime(t time.Time) string { return t.Local().Format("15:04 on Monday") }

// outcomeTimeout is how long AwaitOutcome waits for the outcome of one of Claude Code's
// own commands. A compaction takes long.
const outcomeTimeout = 50 * time.Second

// AwaitOutcome returns what the terminal shows below one of Claude Code's own commands
// that was just typed. /model opens a dialog in a long conversation that only asks for
// a confirmation; AwaitOutcome confirms it.
func (r Runner) AwaitOutcome(ctx context.Context, session *state.Session, command string) string {
	ctx, cancel := context.WithTimeout(ctx, outcomeTimeout)
	defer cancel()
	output := ""
	for ctx.Err() == nil {
		time.Sleep(400 * time.Millisecond)
		snapshot, screen, err := CaptureScreen(ctx, session)
		switch {
		case err != nil:
			return "Its outcome was not seen: " + r.shorten(err.Error()) + "."
		case screen.Question == inject.SwitchModelQuestion && strings.HasPrefix(command, "/model "):
			menu := NewMenu(r.Env, session)
			if err := menu.Run(ctx, session.TmuxPane, "choose", []string{"1"}); err != nil {
				return "The terminal asks whether to switch the model: " +
					r.shorten(err.Error()) + "."
			}
		case screen.IsDialog():
			return "A dialog is open in the terminal: " + r.shorten(screen.String()) + "."
		case screen.Shows == inject.Prompt && !screen.Busy:
			earlierOutput := output
			output = textBelow(snapshot.Lines, command)
			if output == earlierOutput { // the output is complete
				return r.shorten(output)
			}
		}
	}
	return "Its outcome was not seen in time."
}

// textBelow returns what the terminal shows below the last line with the command, such
// as " ⎿ Set model to …".
func textBelow(lines []string, command string) string {
	i := len(lines) - 1
	for i >= 0 && !strings.HasPrefix(strings.ReplaceAll(lines[i], "\u00a0", " "), "❯ "+command) {
		i--
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
