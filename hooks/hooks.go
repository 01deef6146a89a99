// Package hooks speaks Claude Code's hook protocol: an event as JSON on stdin, an effect,
// a decision as JSON on stdout. It must never break, slow or freeze the session that
// calls it: whatever happens, a hook ends with exit code 0, and what it cannot do is left
// to the dialog in the terminal.
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

// Hook is one process of a hook: where it reads, writes and looks things up.
type Hook struct {
	Name   string // what it was called as
	Stdin  io.Reader
	Stdout io.Writer // the protocol: nothing but a decision goes there
	Stderr io.Writer // only what wakes a session goes there
	Env    state.Getenv
	// this program's path, for the poller that a hook may have to start; "" starts none
	Self string
	Args []string // as it was called: two registrations of ours in Claude Code differ in that

	// Job is what to do where Name names none of ours, and Waits whether it may take its
	// time over an event.
	Job          func(*Hook, context.Context, *Event) error
	JobMayWait   func(*Hook, *Event) bool
	DefaultEvent string // hook_event_name of an event that has none; "" where that is an error

	ReadPolicy config.PolicyReader // the only request that a hook makes

	log         *state.Log
	exitCode    int           // exit code
	waiterLocks []*state.Lock // of the questions that this process waits for, until it ends
	cached      struct {      // found out once
		config    *config.Config
		rules     *config.SessionRules
		session   *state.Session
		claudePID int // of Claude Code; 0 when that cannot be told
		// the id of the question that this process has a model word; "" for none
		wordedQuestion string
		// the session is to be steered from its thread: the poller reads commands there
		acceptsCommands bool
	}
}

// jobs are the hooks by name. Each handles its own events and ignores the others in
// silence.
var jobs = map[string]func(*Hook, context.Context, *Event) error{
	"gchat-ask-user-forward":      (*Hook).runForward,
	"gchat-ask-user-answered":     (*Hook).runAnswered,
	"gchat-ask-user-rewake":       (*Hook).runRewake,
	"gchat-notification-dispatch": (*Hook).runNotification,
	"gchat-session-event":         (*Hook).runSessionEvent,
	"gchat-stop-gate":             (*Hook).runStopGate,
}

func Names() []string { return slices.Sorted(maps.Keys(jobs)) }

// JobName is the job that a name stands for: scripts that did it before were called so
// with .sh or .py at the end, and settings and other scripts still name them.
func JobName(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, ".sh"), ".py")
}

// IsName says whether name is a hook's.
func IsName(name string) bool { return jobs[name] != nil }

// quickTimeout is for a hook that does not wait. It is reached only when its event does
// not arrive, or a disk or a lock hangs.
const quickTimeout = 10 * time.Second

// endSignals are the signals that would end a hook with another code than 0. Go exits
// with 2 at the last two, which Claude Code takes for "block".
var endSignals = []os.Signal{
	syscall.SIGTERM,
	syscall.SIGINT,
	syscall.SIGHUP,
	syscall.SIGQUIT,
	syscall.SIGABRT,
}

// Run runs the hook and returns its exit code: 0, and for gchat-ask-user-rewake 2 when it
// wakes the session. It returns when the hook is done, without an error and without a
// panic: what went wrong is in the log.
//
// A hook that does not wait is over within quickTimeout, whatever signal comes. To be
// told of signals takes a goroutine and a thread: a fifth of the time that such a hook
// takes.
func (h *Hook) Run() int {
	// a Claude Code that is gone is no reason to end otherwise than with 0
	signal.Ignore(append(endSignals, syscall.SIGPIPE)...)
	h.log = state.NewLog(h.Env, h.Name)
	giveUp := time.AfterFunc(quickTimeout, func() {
		h.log.Error().
			Msg("hook gave up: its event did not arrive, or the disk or a lock does not answer")
		os.Exit(0)
	})
	defer giveUp.Stop()
	defer h.recoverPanic()
	e, err := h.readEvent()
	if err != nil {
		h.log.Error().Err(err).Msg("hook event not understood; nothing is done")
		return 0
	}
	ctx, job := context.Background(), h.Job
	if h.mayWait(e) {
		giveUp.Stop()
		var stop func()
		// Claude Code sends SIGTERM on Esc and when it quits
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
			Msg("hook failed; the session goes on without it")
	}
	return h.exitCode
}

// Log is the hook's log; nil before Run.
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

// readEvent takes the event from stdin, and no more: a pipe may never be closed. One that
// does not say which it is counts as Own.
func (h *Hook) readEvent() (*Event, error) {
	e := &Event{}
	err := json.NewDecoder(io.LimitReader(h.Stdin, maxEventBytes)).Decode(e)
	e.HookEventName = cmp.Or(e.HookEventName, h.DefaultEvent)
	if err == nil && e.HookEventName == "" {
		err = errors.New("hook_event_name is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("hook event: %w", err)
	}
	return e, nil
}

// StartPoller makes sure that a poller sends, reads and judges what this hook wrote.
func (h *Hook) StartPoller() {
	if h.Self != "" {
		_, err := state.StartPoller(h.Env, h.Self)
		h.logFailed(err, "poller not started; the next hook tries again")
	}
}

func (h *Hook) logFailed(err error, what string) {
	if err != nil {
		h.log.Error().Err(err).Msg(what)
	}
}

// sessionRefreshInterval is how long a session's record stays as it is while nothing
// changes; it is swept a month after its LastSeen.
const sessionRefreshInterval = 24 * time.Hour

// ensureSession is the record of the session that this event comes from. It is begun with
// the first event that needs it, and brought up to date where the session runs in another
// process or pane by now; else it costs one read, and no tmux. Where the disk fails, the
// session is as this process sees it.
func (h *Hook) ensureSession(e *Event) *state.Session {
	if cached := h.cached.session; cached != nil &&
		(cached.AcceptsCommands || !h.cached.acceptsCommands) {
		return cached
	}
	project := state.ProjectDir(h.Env)
	sessions := state.SessionsIn(state.UserStateDir(h.Env))
	session, err := sessions.Get(e.SessionID)
	switch {
	case err != nil || !h.isUpToDate(session, project):
		session = h.writeSession(e, sessions, project, "")
	case e.HookEventName == "SessionStart", h.cached.acceptsCommands && !session.AcceptsCommands:
		session = h.writeSession(e, sessions, project, session.Name)
	}
	h.cached.session = session
	return session
}

// writeSession finds out where a session runs, and writes that down under the name by
// which people know it; "" is to be found.
func (h *Hook) writeSession(
	e *Event,
	sessions state.Sessions,
	project, knownName string,
) *state.Session {
	observed, now := &state.Session{}, time.Now().UTC()
	windowName := inject.IdentifySession(context.Background(), h.Env, observed)
	// after a compaction the session goes on
	isStart := e.HookEventName == "SessionStart" && e.Source != "compact"
	if isStart {
		observed.Branch, observed.Commit = gitHead(
			context.Background(),
			cmp.Or(e.CWD, project),
			gitHookTimeout,
		)
	}
	environment, isTrusted := state.Environment(h.Env), state.IsProjectTrusted(h.Env, project)
	update := func(record *state.Session) {
		record.ProjectDir, record.CWD, record.LastSeen = project, cmp.Or(e.CWD, record.CWD), now
		record.TmuxSession, record.TmuxPane, record.TmuxSocket = observed.TmuxSession, observed.TmuxPane, observed.TmuxSocket
		record.HiddenPane = observed.HiddenPane
		record.ClaudePID, record.ClaudeStart = observed.ClaudePID, observed.ClaudeStart
		if len(observed.ClaudeCommand) > 0 {
			record.ClaudeCommand = observed.ClaudeCommand
		}
		record.Environment, record.IsTrusted = environment, isTrusted
		record.StateDir = state.SpareStateDir(h.Env)
		record.TranscriptPath = cmp.Or(string(e.TranscriptPath), record.TranscriptPath)
		record.AcceptsCommands = record.AcceptsCommands || h.cached.acceptsCommands
		if e.HookEventName == "SessionStart" {
			record.EndedAt, record.Model = time.Time{}, cmp.Or(string(e.Model), record.Model)
		}
		if isStart || e.HookEventName == "UserPromptSubmit" {
			// also after /resume, where SessionStart is not registered
			record.EndReason = ""
		}
		if isStart {
			record.Source, record.Branch, record.Commit = string(
				e.Source,
			), observed.Branch, observed.Commit
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
		lock, err := sessions.LockNames() // two sessions that begin at one moment take two names
		h.logFailed(err, "session named without its siblings")
		defer lock.Unlock()
		allSessions, _ := sessions.All()
		previous, isThreadInherited = findPreviousSession(session, allSessions)
		session.Name = inject.SessionName(
			h.Env,
			session,
			windowName,
			siblingSessions(session, allSessions),
		)
	}
	if e.SessionID == "" {
		return session
	}
	stored, err := sessions.Change(e.SessionID, func(record *state.Session) {
		record.Name = session.Name
		if isThreadInherited {
			record.ThreadName, record.Chat = "", "" // it begins one of its own
		}
		if record.ThreadName == "" && previous != nil {
			record.PreviousSession, record.ThreadName, record.Chat = previous.ID, previous.ThreadName, previous.Chat
			record.AcceptsCommands, record.MutedUntil = previous.AcceptsCommands, previous.MutedUntil
			record.OldCommandsDoneUntil, record.OldDoneCommands = previous.OldCommandsDoneUntil, previous.OldDoneCommands
			record.OldIgnoredUntil = previous.OldIgnoredUntil
		}
		update(record)
	})
	if err != nil {
		h.log.Error().Err(err).Msg("session not written down")
		return session
	}
	return stored
}

// findPreviousSession is the session of the same Claude Code whose thread goes on with
// this one, after /clear; nil where there is none. heir reports whether this session's
// own thread went on so, with another one that lives.
func findPreviousSession(
	session *state.Session,
	allSessions []*state.Session,
) (previous *state.Session, isThreadInherited bool) {
	for _, other := range allSessions {
		isSameClaude := session.Supersedes(other)
		isThreadInherited = isThreadInherited ||
			!isSameClaude && other.PreviousSession == session.ID && other.ClaudePID > 1 &&
				isClaudeAlive(other)
		if isSameClaude && other.ThreadName != "" &&
			(previous == nil || previous.LastSeen.Before(other.LastSeen)) {
			previous = other
		}
	}
	return previous, isThreadInherited
}

// siblingSessions are the other sessions that run in the same project.
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

func (h *Hook) isUpToDate(session *state.Session, project string) bool {
	socket, _, _ := strings.Cut(h.Env("TMUX"), ",")
	name, pid := h.Env("CLAUDE_SESSION_ID"), h.claudePID() // 0 says nothing against it
	isInPane := session.TmuxPane == h.Env("TMUX_PANE") && session.TmuxSocket == socket
	return session.EndReason == "" && (isInPane || session.HiddenPane != "" && session.HiddenPane == h.Env("TMUX_PANE")) &&
		(pid == 0 || pid == session.ClaudePID) &&
		!inject.HasEnded(session.ClaudePID, session.ClaudeStart) &&
		session.ProjectDir == project &&
		session.Environment == state.Environment(h.Env) &&
		(name == "" || name == session.Name) &&
		time.Since(session.LastSeen).Abs() < sessionRefreshInterval
}

// claudePID is the Claude Code that runs this hook; 0 when it cannot be told.
func (h *Hook) claudePID() int {
	if h.cached.claudePID == 0 {
		h.cached.claudePID, _ = inject.CallingClaude(h.Env)
	}
	return h.cached.claudePID
}

// maxEventBytes bounds a hook event, in bytes. Claude's last message and a tool's result
// are in some; neither comes near.
const maxEventBytes = 32 << 20

// questionTool is the tool whose calls are questions to the person.
const questionTool = "AskUserQuestion"

// Event is what Claude Code tells a hook on stdin, as far as ours need it.
// PermissionRequest has no tool_use_id, and prompt_id and last_assistant_message come
// from 2.1.196 and 2.1.197 on.
type Event struct {
	HookEventName string    `json:"hook_event_name"`
	SessionID     string    `json:"session_id"`
	CWD           string    `json:"cwd"`
	PromptID      LooseText `json:"prompt_id"`
	// of the subagent whose event this is; "" for the session's own
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
	// as scripts send it that were written before notification_type
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

	// what "always" would allow
	PermissionSuggestions json.RawMessage `json:"permission_suggestions"`
	ToolCalls             []batchToolCall `json:"tool_calls"` // of PostToolBatch
}

// LooseText is text in an event or a transcript. What is no text in some version comes as
// its JSON.
type LooseText string

// UnmarshalJSON takes any value.
func (w *LooseText) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil { // null too
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

// IsStopHookActive says that a Stop hook sent the session back already.
func (e *Event) IsStopHookActive() bool { return e.StopHookActive != "" && e.StopHookActive != "false" }

func (e *Event) subQuestions() ([]state.SubQuestion, error) {
	var in struct {
		Questions []state.SubQuestion `json:"questions"`
	}
	if err := json.Unmarshal(keepSurrogates(e.ToolInput), &in); err != nil {
		return nil, fmt.Errorf("tool input: %w", err)
	}
	if len(in.Questions) == 0 {
		return nil, errors.New("tool input: no questions")
	}
	for i := range in.Questions {
		in.Questions[i].OptionCount = len(in.Questions[i].Options)
	}
	return in.Questions, nil
}

func (h *Hook) questionsOfSession(
	e *Event,
	folders []state.Questions,
	texts ...string,
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

// moveOldPrompt reports whether a question is words that a version without an inbox kept.
// These go into the inbox.
func (h *Hook) moveOldPrompt(q *state.Question) bool {
	if q.Kind != state.KindPrompt {
		return false
	}
	err := state.InboxIn(state.UserStateDir(h.Env)).AddOldPrompt(q, time.Now())
	h.logFailed(err, "words of an earlier version not taken")
	return true
}

// openQuestions are the session's that are open, whatever became of a denial.
func (h *Hook) openQuestions(e *Event) []*state.Question {
	folders := append(h.folders(state.QuestionsIn), h.folders(state.MarkersIn)...)
	return h.questionsOfSession(e, folders, state.OpenStatusTexts...)
}

func nonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(t string) bool { return t == "" })
}

const (
	// for what Claude was told: as long as a hook that does not wait has time
	writeTimeout = quickTimeout - 3*time.Second
	// for a question's end: Claude Code waits for the hook, or ends it
	closeTimeout = 2 * time.Second
)

// retryWrite does what must be written, once more while another process has the lock or
// the disk is full, for so long.
func retryWrite(timeout time.Duration, write func() error) error {
	isTemporary := func(err error) bool {
		return errors.Is(err, state.ErrLocked) || errors.Is(err, syscall.ENOSPC) ||
			errors.Is(err, syscall.EDQUOT)
	}
	err := write()
	for deadline := time.Now().Add(timeout); isTemporary(err) && time.Now().Before(deadline); err = write() {
		time.Sleep(200 * time.Millisecond)
	}
	return err
}

// retryTimeout is how long this hook tries to write what its session is to be told: it
// may have no other event for hours.
func (h *Hook) retryTimeout(e *Event) time.Duration {
	if h.mayWait(e) {
		return busyTimeout
	}
	return 0
}

// retryWriteOrLog is again for a question that may be gone. What fails is in the log.
func (h *Hook) retryWriteOrLog(timeout time.Duration, write func() error) {
	err := retryWrite(timeout, write)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.log.Error().Err(err).Msg("what became of a question is not written down")
	}
}

func (h *Hook) logSkippedRecords(loadErrs []error) {
	h.log.Warn().Err(loadErrs[0]).Int("files", len(loadErrs)).Msg("record passed over")
}

// deliverPending shows the person, once, what could not be done since the last hook, and
// hands Claude the replies that reached it by no other way, where the event takes a
// context. At the session's end, which shows nothing to anyone, the markers hear of it.
func (h *Hook) deliverPending(e *Event) {
	if e.HookEventName == "SessionEnd" {
		h.markSessionEnded(e)
		return
	}
	output := map[string]any{}
	if e.HookEventName == "SessionStart" || e.HookEventName == "UserPromptSubmit" {
		if texts := h.collectUndelivered(e); len(texts) > 0 {
			output["hookSpecificOutput"] = map[string]string{
				"hookEventName": e.HookEventName, "additionalContext": strings.Join(texts, "\n\n"),
			}
		}
	}
	if text := state.SessionsIn(state.UserStateDir(h.Env)).TakeNotices(e.SessionID); text != "" {
		output["systemMessage"] = text
	}
	if len(output) > 0 {
		h.logFailed(h.Print(output), "notice not shown")
	}
}
