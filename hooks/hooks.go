// Package hooks speaks Claude Code's hook protocol: an event comes as JSON on stdin, and
// a decision goes as JSON to stdout. A hook must never break, slow down or freeze the
// session that calls it. Whatever happens, it ends with exit code 0. What it cannot do is
// left to the dialog in the terminal.
package hooks

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// Hook is one run of a hook: its streams, its environment and what it found out.
type Hook struct {
	Name   string // the name that the program was called by
	Stdin  io.Reader
	Stdout io.Writer // the protocol: only decisions go there
	Stderr io.Writer // only text that wakes a session goes there
	Env    state.Getenv
	// Self is this program's path, for a poller that the hook may start; "" starts none.
	Self string
	// Args are the command's arguments. Two registrations of ours in Claude Code differ
	// in them.
	Args []string

	// Job is what the hook does if Name is not one of ours. JobMayWait reports whether
	// Job may wait for a person or an agent over an event.
	Job          func(*Hook, context.Context, *Event) error
	JobMayWait   func(*Hook, *Event) bool
	DefaultEvent string // hook_event_name of an event that has none; "" makes that an error

	ReadPolicy config.PolicyReader // the only network request that a hook makes

	log         *state.Log
	exitCode    int
	waiterLocks []*state.Lock // of the questions that this process waits for, until it ends
	cached      struct {      // found out once
		config    *config.Config
		rules     *config.SessionRules
		session   *state.Session
		claudePID int // of Claude Code; 0 if it is not known
		// the id of the question that this process has a model word; "" for none
		wordedQuestion string
		// acceptsCommands marks the session as one that takes commands from its thread.
		acceptsCommands bool
		// isLeftToTerminal says that this Claude Code takes no answer to the question but
		// from its terminal. unsupportedClaude is its version if the question's message
		// names it. See workingMode.
		isLeftToTerminal  bool
		unsupportedClaude string
	}
}

// jobs are the hooks by name. Each handles its own events and ignores the others
// silently.
var jobs = map[string]func(*Hook, context.Context, *Event) error{
	"gchat-ask-user-forward":      (*Hook).runForward,
	"gchat-ask-user-answered":     (*Hook).runAnswered,
	"gchat-ask-user-rewake":       (*Hook).runRewake,
	"gchat-notification-dispatch": (*Hook).runNotification,
	"gchat-session-event":         (*Hook).runSessionEvent,
	"gchat-stop-gate":             (*Hook).runStopGate,
}

// Names are the names of our hooks, sorted.
func Names() []string { return slices.Sorted(maps.Keys(jobs)) }

// JobName returns the job that a program's name stands for. Older scripts for the same
// jobs had names that end in .sh or .py. Settings and other scripts may still call those
// names.
func JobName(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, ".sh"), ".py")
}

// IsName reports whether name is the name of a hook.
func IsName(name string) bool { return jobs[name] != nil }

// quickTimeout ends a hook that does not wait. It is reached only if the event does not
// arrive, or if the disk or a lock hangs.
const quickTimeout = 10 * time.Second

// endSignals are the signals that would end a hook with another code than 0. For SIGQUIT
// and SIGABRT, Go exits with 2, which Claude Code takes for "block".
var endSignals = []os.Signal{
	syscall.SIGTERM,
	syscall.SIGINT,
	syscall.SIGHUP,
	syscall.SIGQUIT,
	syscall.SIGABRT,
}

// Run runs the hook and returns its exit code: 0, or 2 where gchat-ask-user-rewake wakes
// the session. It returns no error and does not panic: what went wrong is in the log.
//
// A hook that does not wait ends within quickTimeout and ignores signals. To be notified
// of signals takes a goroutine and a thread, which is a fifth of the time that such a
// hook takes.
func (h *Hook) Run() int {
	// If Claude Code is gone, the hook still ends with 0.
	signal.Ignore(append(endSignals, syscall.SIGPIPE)...)
	h.log = state.NewLog(h.Env, h.Name)
	giveUp := time.AfterFunc(quickTimeout, func() {
		h.log.Error().Msg("hook gave up: its event did not arrive, or the disk or a lock does not answer")
		os.Exit(0)
	})
	defer giveUp.Stop()
	defer h.recoverPanic()
	e, err := h.readEvent()
	if err != nil {
		h.log.Error().Err(err).Msg("hook event not understood: nothing is done")
		return 0
	}
	ctx, job := context.Background(), h.Job
	if h.mayWait(e) {
		giveUp.Stop()
		var stop func()
		// Claude Code sends SIGTERM on Esc and when it quits.
		ctx, stop = signal.NotifyContext(ctx, endSignals...)
		defer stop()
		defer signal.Ignore(endSignals...)
	}
	if job == nil {
		job = jobs[h.Name]
	}
	if err := job(h, ctx, e); err != nil {
		h.log.Error().
			Str("error", h.log.Redact(err.Error())).
			Str("event", e.HookEventName).
			Str("session", e.SessionID).
			Msg("hook failed: the session goes on without it")
	}
	return h.exitCode
}

// Log returns the hook's log; nil before Run.
func (h *Hook) Log() *state.Log { return h.log }

// recoverPanic keeps a panic from ending the process with exit code 2, which Claude Code
// takes for "block".
func (h *Hook) recoverPanic() {
	if panicked := recover(); panicked != nil {
		h.log.Error().
			Any("panic", panicked).
			Bytes("stack", debug.Stack()).
			Msg("a bug in gchat-hooks; please report it")
	}
}

// readEvent reads one event from stdin and no more, since the pipe may never be closed.
// An event without a name is a DefaultEvent.
func (h *Hook) readEvent() (*Event, error) {
	e := &Event{}
	err := json.NewDecoder(io.LimitReader(h.Stdin, maxEventBytes)).Decode(e)
	e.HookEventName = cmp.Or(e.HookEventName, h.DefaultEvent)
	if err == nil && e.HookEventName == "" {
		err = errors.New("hook_event_name is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("read hook event: %w", err)
	}
	return e, nil
}

// StartPoller makes sure that a poller runs, which sends, reads and judges what this hook
// wrote.
func (h *Hook) StartPoller() {
	if h.Self != "" {
		_, err := state.StartPoller(h.Env, h.Self)
		h.logFailed(err, "poller not started: the next hook tries again")
	}
}

func (h *Hook) logFailed(err error, what string) {
	if err != nil {
		h.log.Error().Err(err).Msg(what)
	}
}

// sessions are the records of sessions.
func (h *Hook) sessions() state.Sessions { return state.SessionsIn(state.UserStateDir(h.Env)) }

// inbox has the records of incoming messages.
func (h *Hook) inbox() state.Inbox { return state.InboxIn(state.UserStateDir(h.Env)) }

// sessionRefreshInterval is the age from which a session's record is written again though
// nothing changed. A record is removed a month after its LastSeen.
const sessionRefreshInterval = 24 * time.Hour

// ensureSession returns the record of the session that this event comes from. The first
// event that needs it creates it. It is updated if the session runs in another process or
// pane than the record says. Otherwise it costs one read, and tmux is not asked. If the
// disk fails, it returns the session as this process sees it.
func (h *Hook) ensureSession(e *Event) *state.Session {
	cached := h.cached.session
	if cached != nil && (cached.AcceptsCommands || !h.cached.acceptsCommands) {
		return cached
	}
	project := state.ProjectDir(h.Env)
	session, err := h.sessions().Get(e.SessionID)
	switch {
	case err != nil || !h.isUpToDate(session, project):
		session = h.writeSession(e, project, "")
	case e.HookEventName == "SessionStart", h.cached.acceptsCommands && !session.AcceptsCommands:
		session = h.writeSession(e, project, session.Name)
	}
	h.cached.session = session
	return session
}

// writeSession finds out where a session runs and records that, with the name by which
// people know the session. With knownName "" it chooses a name.
func (h *Hook) writeSession(e *Event, project, knownName string) *state.Session {
	observed, now := &state.Session{}, time.Now().UTC()
	windowName := inject.IdentifySession(context.Background(), h.Env, observed)
	// After a compaction the session goes on.
	isStart := e.HookEventName == "SessionStart" && e.Source != "compact"
	if isStart {
		observed.Branch, observed.Commit = gitHead(
			context.Background(), cmp.Or(e.CWD, project), gitHookTimeout)
	}
	environment, isTrusted := state.Environment(h.Env), state.IsProjectTrusted(h.Env, project)
	update := func(record *state.Session) {
		record.ProjectDir, record.CWD = project, cmp.Or(e.CWD, record.CWD)
		record.LastSeen = now
		record.TmuxSession, record.TmuxSocket = observed.TmuxSession, observed.TmuxSocket
		record.TmuxPane, record.HiddenPane = observed.TmuxPane, observed.HiddenPane
		record.ClaudePID, record.ClaudeStart = observed.ClaudePID, observed.ClaudeStart
		if len(observed.ClaudeCommand) > 0 {
			record.ClaudeCommand = observed.ClaudeCommand
		}
		record.Environment, record.IsTrusted = environment, isTrusted
		record.StateDir = state.SpareStateDir(h.Env)
		record.TranscriptPath = cmp.Or(string(e.TranscriptPath), record.TranscriptPath)
		record.AcceptsCommands = record.AcceptsCommands || h.cached.acceptsCommands
		if e.HookEventName == "SessionStart" {
			record.EndedAt = time.Time{}
			record.Model = cmp.Or(string(e.Model), record.Model)
		}
		if isStart || e.HookEventName == "UserPromptSubmit" {
			// After /resume a prompt may come first: SessionStart may not be registered.
			record.EndReason = ""
		}
		if isStart {
			record.Source = string(e.Source)
			record.Branch, record.Commit = observed.Branch, observed.Commit
		}
		if isStart || record.StartedAt.IsZero() {
			record.StartedAt = now
		}
	}
	session := &state.Session{ID: e.SessionID, Name: knownName}
	update(session)
	var previous *state.Session
	isThreadInherited := false
	if knownName == "" {
		// so that two sessions that start at once get two names
		lock, err := h.sessions().LockNames()
		h.logFailed(err, "session named without a look at the other sessions' names")
		defer lock.Unlock()
		allSessions, _ := h.sessions().All()
		previous, isThreadInherited = findPreviousSession(session, allSessions)
		siblings := siblingSessions(session, allSessions)
		session.Name = inject.SessionName(h.Env, session, windowName, siblings)
	}
	if e.SessionID == "" {
		return session
	}
	stored, err := h.sessions().Change(e.SessionID, func(record *state.Session) {
		record.Name = session.Name
		if isThreadInherited {
			record.ThreadName, record.Chat = "", "" // the session starts a thread of its own
		}
		if record.ThreadName == "" && previous != nil {
			record.PreviousSession = previous.ID
			record.ThreadName, record.Chat = previous.ThreadName, previous.Chat
			record.AcceptsCommands, record.MutedUntil = previous.AcceptsCommands, previous.MutedUntil
			record.OldCommandsDoneUntil = previous.OldCommandsDoneUntil
			record.OldDoneCommands = previous.OldDoneCommands
			record.OldIgnoredUntil = previous.OldIgnoredUntil
		}
		update(record)
	})
	if err != nil {
		h.log.Error().Err(err).Msg("session not recorded")
		return session
	}
	return stored
}

// findPreviousSession returns the session whose thread this one continues: after /clear
// the same Claude Code goes on under another id. It is nil if there is none.
// isThreadInherited reports that another living session already continues this session's
// own thread.
func findPreviousSession(
	session *state.Session, allSessions []*state.Session,
) (previous *state.Session, isThreadInherited bool) {
	for _, other := range allSessions {
		isSameClaude := session.Supersedes(other)
		isHeir := !isSameClaude && other.PreviousSession == session.ID &&
			other.ClaudePID > 1 && isClaudeAlive(other)
		isThreadInherited = isThreadInherited || isHeir
		isNewer := previous == nil || previous.LastSeen.Before(other.LastSeen)
		if isSameClaude && other.ThreadName != "" && isNewer {
			previous = other
		}
	}
	return previous, isThreadInherited
}

// siblingSessions are the other running sessions of the same project.
func siblingSessions(session *state.Session, allSessions []*state.Session) []*state.Session {
	return slices.DeleteFunc(allSessions, func(other *state.Session) bool {
		isSibling := other.ID != session.ID && other.ProjectDir == session.ProjectDir &&
			!session.Supersedes(other)
		return !isSibling || !other.IsRunning() || !isClaudeAlive(other)
	})
}

func isClaudeAlive(s *state.Session) bool {
	return s.ClaudePID > 0 && !inject.HasEnded(s.ClaudePID, s.ClaudeStart)
}

// isUpToDate reports whether a session's record describes where this process runs. What
// the environment does not say is taken as unchanged.
func (h *Hook) isUpToDate(session *state.Session, project string) bool {
	socket, _, _ := strings.Cut(h.Env("TMUX"), ",")
	pane, name, pid := h.Env("TMUX_PANE"), h.Env("CLAUDE_SESSION_ID"), h.claudePID()
	isInPane := session.TmuxPane == pane && session.TmuxSocket == socket ||
		session.HiddenPane != "" && session.HiddenPane == pane
	return session.EndReason == "" && isInPane &&
		(pid == 0 || pid == session.ClaudePID) &&
		!inject.HasEnded(session.ClaudePID, session.ClaudeStart) &&
		session.ProjectDir == project &&
		session.Environment == state.Environment(h.Env) &&
		(name == "" || name == session.Name) &&
		time.Since(session.LastSeen).Abs() < sessionRefreshInterval
}

// claudePID is the process of the Claude Code that runs this hook; 0 if it is not known.
func (h *Hook) claudePID() int {
	if h.cached.claudePID == 0 {
		h.cached.claudePID, _ = inject.CallingClaude(h.Env)
	}
	return h.cached.claudePID
}

// maxEventBytes bounds a hook event. Some events carry Claude's last message or a tool's
// result; neither comes near the bound.
const maxEventBytes = 32 << 20

// questionTool is the tool whose calls are questions to the person.
const questionTool = "AskUserQuestion"

// Event is what Claude Code gives a hook on stdin, as far as our hooks need it.
// PermissionRequest has no tool_use_id. prompt_id exists from 2.1.196 on,
// last_assistant_message from 2.1.197 on.
type Event struct {
	HookEventName string    `json:"hook_event_name"`
	SessionID     string    `json:"session_id"`
	CWD           string    `json:"cwd"`
	PromptID      LooseText `json:"prompt_id"`
	// the subagent that the event is about; "" for the session itself
	AgentID              LooseText       `json:"agent_id"`
	AgentType            LooseText       `json:"agent_type"`
	PermissionMode       LooseText       `json:"permission_mode"`
	TranscriptPath       LooseText       `json:"transcript_path"`
	LastAssistantMessage LooseText       `json:"last_assistant_message"`
	ToolName             string          `json:"tool_name"`
	ToolUseID            string          `json:"tool_use_id"`
	ToolInput            json.RawMessage `json:"tool_input"`
	ToolResponse         json.RawMessage `json:"tool_response"`

	NotificationType LooseText `json:"notification_type"`
	Title            LooseText `json:"title"`
	Message          LooseText `json:"message"`
	// sent by scripts that are older than notification_type
	OldNotification json.RawMessage `json:"notification"`
	Error           LooseText       `json:"error"`
	ErrorDetails    LooseText       `json:"error_details"`
	Source          LooseText       `json:"source"`
	Model           LooseText       `json:"model"`
	Reason          LooseText       `json:"reason"`
	StopHookActive  LooseText       `json:"stop_hook_active"`
	Prompt          LooseText       `json:"prompt"`

	MCPServer     LooseText       `json:"mcp_server_name"`
	FormMode      LooseText       `json:"mode"` // form or url
	FormSchema    json.RawMessage `json:"requested_schema"`
	FormURL       LooseText       `json:"url"`
	ElicitationID LooseText       `json:"elicitation_id"`
	FormAction    LooseText       `json:"action"`

	// what Claude Code would allow from now on if the person chose "always"
	PermissionSuggestions json.RawMessage `json:"permission_suggestions"`
	ToolCalls             []batchToolCall `json:"tool_calls"` // of PostToolBatch
}

// LooseText is text in an event or a transcript. A value that is no text in some version
// of Claude Code is kept as its JSON.
type LooseText string

// UnmarshalJSON accepts any value.
func (w *LooseText) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil { // null counts as ""
		*w = LooseText(s)
		return nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, b); err != nil {
		return err
	}
	*w = LooseText(compact.String())
	return nil
}

// IsStopHookActive reports whether a Stop hook already sent the session back to work.
func (e *Event) IsStopHookActive() bool {
	return e.StopHookActive != "" && e.StopHookActive != "false"
}

func (e *Event) subQuestions() ([]state.SubQuestion, error) {
	var in struct {
		Questions []state.SubQuestion `json:"questions"`
	}
	if err := json.Unmarshal(keepSurrogates(e.ToolInput), &in); err != nil {
		return nil, fmt.Errorf("read tool input: %w", err)
	}
	if len(in.Questions) == 0 {
		return nil, errors.New("read tool input: it has no questions")
	}
	for i := range in.Questions {
		in.Questions[i].OptionCount = len(in.Questions[i].Options)
	}
	return in.Questions, nil
}

// questionsOfSession reads the session's questions in some folders: of all its records,
// those whose files have one of the texts.
func (h *Hook) questionsOfSession(
	e *Event, folders []state.Questions, texts ...string,
) (questions []*state.Question) {
	for _, folder := range folders {
		qs, loadErrs, _ := folder.OfSession(e.SessionID, texts...)
		if len(loadErrs) > 0 {
			h.logSkippedRecords(loadErrs)
		}
		questions = append(questions, qs...)
	}
	return slices.DeleteFunc(questions, h.moveOldPrompt)
}

// moveOldPrompt reports whether a record is a prompt that a version without an inbox kept
// among the questions. It moves such a prompt into the inbox.
func (h *Hook) moveOldPrompt(q *state.Question) bool {
	if q.Kind != state.KindPrompt {
		return false
	}
	err := h.inbox().AddOldPrompt(q, time.Now())
	h.logFailed(err, "prompt of an earlier version not moved to the inbox")
	return true
}

// openQuestions are the session's open questions, in deny mode whether or not the call
// was denied.
func (h *Hook) openQuestions(e *Event) []*state.Question {
	folders := append(h.folders(state.QuestionsIn), h.folders(state.MarkersIn)...)
	return h.questionsOfSession(e, folders, state.OpenStatusTexts...)
}

func nonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(t string) bool { return t == "" })
}

const (
	// writeTimeout is for recording what Claude got: nearly all the time of a hook that
	// does not wait.
	writeTimeout = quickTimeout - 3*time.Second
	// closeTimeout is for a question's end. Claude Code waits for the hook meanwhile, or
	// is ending it.
	closeTimeout = 2 * time.Second
)

// retryWrite calls write, and calls it again for as long as timeout while another process
// has the lock or the disk is full.
func retryWrite(timeout time.Duration, write func() error) error {
	isTemporary := func(err error) bool {
		return errors.Is(err, state.ErrLocked) || errors.Is(err, syscall.ENOSPC) ||
			errors.Is(err, syscall.EDQUOT)
	}
	err := write()
	deadline := time.Now().Add(timeout)
	for isTemporary(err) && time.Now().Before(deadline) {
		time.Sleep(200 * time.Millisecond)
		err = write()
	}
	return err
}

// retryTimeout is how long this hook tries to record what it delivers to Claude. A hook
// that may wait tries long: the session may have no other event for hours.
func (h *Hook) retryTimeout(e *Event) time.Duration {
	if h.mayWait(e) {
		return busyTimeout
	}
	return 0
}

// retryWriteOrLog is retryWrite for a question whose file may be gone. It logs a failure.
func (h *Hook) retryWriteOrLog(timeout time.Duration, write func() error) {
	err := retryWrite(timeout, write)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.log.Error().Err(err).Msg("the end of a question is not recorded")
	}
}

func (h *Hook) logSkippedRecords(loadErrs []error) {
	h.log.Warn().Err(loadErrs[0]).Int("files", len(loadErrs)).Msg("record passed over")
}

// deliverPending shows the person, once, what went wrong since the last hook. On an event
// that takes a context it also gives Claude the replies that no other process delivered.
// After a session's end nothing can be shown. Then it only records the end in the
// session's deny-mode questions.
func (h *Hook) deliverPending(e *Event) {
	if e.HookEventName == "SessionEnd" {
		h.markSessionEnded(e)
		return
	}
	output := map[string]any{}
	if e.HookEventName == "SessionStart" || e.HookEventName == "UserPromptSubmit" {
		if texts := h.collectUndelivered(e); len(texts) > 0 {
			output["hookSpecificOutput"] = map[string]string{
				"hookEventName":     e.HookEventName,
				"additionalContext": strings.Join(texts, "\n\n"),
			}
		}
	}
	if text := h.sessions().TakeNotices(e.SessionID); text != "" {
		output["systemMessage"] = text
	}
	if len(output) > 0 {
		h.logFailed(h.Print(output), "notice not shown")
	}
}
