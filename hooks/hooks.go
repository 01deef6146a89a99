// Package hooks speaks Claude Code's hook protocol: an event as JSON on stdin, an effect, a decision as JSON on stdout.
// It must never break, slow or freeze the session that calls it: whatever happens, a hook ends with exit code 0, and
// what it cannot do is left to the dialog in the terminal.
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
	Self   string   // this program's path, for the poller that a hook may have to start; "" starts none
	Args   []string // as it was called: two registrations of ours in Claude Code differ in that

	// Job is what to do where Name names none of ours, and Waits whether it may take its time over an event.
	Job   func(*Hook, context.Context, *Event) error
	Waits func(*Hook, *Event) bool
	Own   string // hook_event_name of an event that has none; "" where that is an error

	ReadPolicy config.ReadPolicy // the only request that a hook makes

	log   *state.Log
	code  int           // exit code
	locks []*state.Lock // of the questions that this process waits for, until it ends
	asked struct {      // found out once
		cfg     *config.Config
		rules   *config.SessionRules
		session *state.Session
		pid     int    // of Claude Code; 0 when that cannot be told
		words   string // the id of the question that this process has a model word; "" for none
		listens bool   // the session is to be steered from its thread: the poller reads commands there
	}
}

// jobs are the hooks by name. Each handles its own events and ignores the others in silence.
var jobs = map[string]func(*Hook, context.Context, *Event) error{
	"gchat-ask-user-forward":      (*Hook).forward,
	"gchat-ask-user-answered":     (*Hook).answered,
	"gchat-ask-user-rewake":       (*Hook).rewake,
	"gchat-notification-dispatch": (*Hook).notification,
	"gchat-session-event":         (*Hook).sessionEvent,
	"gchat-stop-gate":             (*Hook).stopGate,
}

func Names() []string { return slices.Sorted(maps.Keys(jobs)) }

// JobName is the job that a name stands for: scripts that did it before were called so with .sh or .py at the end, and
// settings and other scripts still name them.
func JobName(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, ".sh"), ".py")
}

// Known says whether name is a hook's.
func Known(name string) bool { return jobs[name] != nil }

// quickBound is for a hook that does not wait. It is reached only when its event does not arrive, or a disk or a lock hangs.
const quickBound = 10 * time.Second

// ending are the signals that would end a hook with another code than 0. Go exits with 2 at the last two, which Claude Code takes
// for "block".
var ending = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT}

// Run runs the hook and returns its exit code: 0, and for gchat-ask-user-rewake 2 when it wakes the session. It returns when
// the hook is done, without an error and without a panic: what went wrong is in the log.
//
// A hook that does not wait is over within quickBound, whatever signal comes. To be told of signals takes a goroutine and a
// thread: a fifth of the time that such a hook takes.
func (h *Hook) Run() int {
	signal.Ignore(append(ending, syscall.SIGPIPE)...) // a Claude Code that is gone is no reason to end otherwise than with 0
	h.log = state.NewLog(h.Env, h.Name)
	bound := time.AfterFunc(quickBound, func() {
		h.log.Error().Msg("hook gave up: its event did not arrive, or the disk or a lock does not answer")
		os.Exit(0)
	})
	defer bound.Stop()
	defer h.catch()
	e, err := h.read()
	if err != nil {
		h.log.Error().Err(err).Msg("hook event not understood; nothing is done")
		return 0
	}
	ctx, job := context.Background(), h.Job
	if h.mayWait(e) {
		bound.Stop()
		var stop func()
		ctx, stop = signal.NotifyContext(ctx, ending...) // Claude Code sends SIGTERM on Esc and when it quits
		defer stop()
		defer signal.Ignore(ending...)
	}
	if job == nil {
		job = jobs[h.Name]
	}
	if err := job(h, ctx, e); err != nil {
		h.log.Error().Str("error", h.log.Clean(err.Error())).Str("event", e.HookEventName).Str("session", e.SessionID).
			Msg("hook failed; the session goes on without it")
	}
	return h.code
}

// Log is the hook's log; nil before Run.
func (h *Hook) Log() *state.Log { return h.log }

// catch keeps a panic from ending the process with exit code 2, which Claude Code takes for "block".
func (h *Hook) catch() {
	if r := recover(); r != nil {
		h.log.Error().Any("panic", r).Bytes("stack", debug.Stack()).Msg("a bug in gchat-hooks; please report it")
	}
}

// read takes the event from stdin, and no more: a pipe may never be closed. One that does not say which it is counts as Own.
func (h *Hook) read() (*Event, error) {
	e := &Event{}
	err := json.NewDecoder(io.LimitReader(h.Stdin, maxEvent)).Decode(e)
	e.HookEventName = cmp.Or(e.HookEventName, h.Own)
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

// sessionKept is how long a session's record stays as it is while nothing changes; it is swept a month after its LastSeen.
const sessionKept = 24 * time.Hour

// session is the record of the session that this event comes from. It is begun with the first event that needs it, and
// brought up to date where the session runs in another process or pane by now; else it costs one read, and no tmux. Where the
// disk fails, the session is as this process sees it.
func (h *Hook) session(e *Event) *state.Session {
	if s := h.asked.session; s != nil && (s.Listens || !h.asked.listens) {
		return s
	}
	project := state.ProjectDir(h.Env)
	sessions := state.SessionsIn(state.UserState(h.Env))
	one, err := sessions.Of(e.SessionID)
	switch {
	case err != nil || !h.isStill(one, project):
		one = h.writeSession(e, sessions, project, "")
	case e.HookEventName == "SessionStart", h.asked.listens && !one.Listens:
		one = h.writeSession(e, sessions, project, one.Name)
	}
	h.asked.session = one
	return one
}

// writeSession finds out where a session runs, and writes that down under the name by which people know it; "" is to be found.
func (h *Hook) writeSession(e *Event, sessions state.Sessions, project, known string) *state.Session {
	here, now := &state.Session{}, time.Now().UTC()
	window := inject.Identify(context.Background(), h.Env, here)
	begins := e.HookEventName == "SessionStart" && e.Source != "compact" // after a compaction the session goes on
	if begins {
		here.Branch, here.Commit = headOf(context.Background(), cmp.Or(e.CWD, project), gitQuick)
	}
	environment, trusted := state.Environment(h.Env), state.ProjectCounts(h.Env, project)
	fill := func(s *state.Session) {
		s.ProjectDir, s.CWD, s.LastSeen = project, cmp.Or(e.CWD, s.CWD), now
		s.TmuxSession, s.TmuxPane, s.TmuxSocket = here.TmuxSession, here.TmuxPane, here.TmuxSocket
		s.HiddenPane = here.HiddenPane
		s.ClaudePID, s.ClaudeStart = here.ClaudePID, here.ClaudeStart
		if len(here.Program) > 0 {
			s.Program = here.Program
		}
		s.Env, s.Trusted = environment, trusted
		s.StateDir = state.SpareState(h.Env)
		s.TranscriptPath = cmp.Or(string(e.Transcript), s.TranscriptPath)
		s.Listens = s.Listens || h.asked.listens
		if e.HookEventName == "SessionStart" {
			s.EndedAt, s.Model = time.Time{}, cmp.Or(string(e.Model), s.Model)
		}
		if begins || e.HookEventName == "UserPromptSubmit" { // also after /resume, where SessionStart is not registered
			s.Reason = ""
		}
		if begins {
			s.Source, s.Branch, s.Commit = string(e.Source), here.Branch, here.Commit
		}
		if begins || s.StartedAt.IsZero() {
			s.StartedAt = now
		}
	}
	one := &state.Session{ID: e.SessionID, Name: known}
	fill(one)
	var before *state.Session
	heir := false
	if known == "" {
		lock, err := sessions.LockNames() // two sessions that begin at one moment take two names
		h.logFailed(err, "session named without its siblings")
		defer lock.Unlock()
		all, _ := sessions.All()
		before, heir = threadBefore(one, all)
		one.Name = inject.NameOf(h.Env, one, window, siblings(one, all))
	}
	if e.SessionID == "" {
		return one
	}
	kept, err := sessions.Change(e.SessionID, func(s *state.Session) {
		s.Name = one.Name
		if heir {
			s.ThreadName, s.Chat = "", "" // it begins one of its own
		}
		if s.ThreadName == "" && before != nil {
			s.Before, s.ThreadName, s.Chat = before.ID, before.ThreadName, before.Chat
			s.Listens, s.MutedUntil = before.Listens, before.MutedUntil
			s.OldCommanded, s.OldDid = before.OldCommanded, before.OldDid
			s.OldToldNobody = before.OldToldNobody
		}
		fill(s)
	})
	if err != nil {
		h.log.Error().Err(err).Msg("session not written down")
		return one
	}
	return kept
}

// threadBefore is the session of the same Claude Code whose thread goes on with this one, after
// /clear; nil where there is none. heir reports whether this session's own thread went on so, with
// another one that lives.
func threadBefore(one *state.Session, all []*state.Session) (before *state.Session, heir bool) {
	for _, s := range all {
		same := one.Supersedes(s)
		heir = heir || !same && s.Before == one.ID && s.ClaudePID > 1 && lives(s)
		if same && s.ThreadName != "" && (before == nil || before.LastSeen.Before(s.LastSeen)) {
			before = s
		}
	}
	return before, heir
}

// siblings are the other sessions that run in the same project.
func siblings(one *state.Session, all []*state.Session) []*state.Session {
	return slices.DeleteFunc(all, func(s *state.Session) bool {
		other := s.ID != one.ID && s.ProjectDir == one.ProjectDir && !one.Supersedes(s)
		return !other || !s.Running() || !lives(s)
	})
}

func lives(s *state.Session) bool {
	return s.ClaudePID > 0 && !inject.Ended(s.ClaudePID, s.ClaudeStart)
}

func (h *Hook) isStill(s *state.Session, project string) bool {
	socket, _, _ := strings.Cut(h.Env("TMUX"), ",")
	name, pid := h.Env("CLAUDE_SESSION_ID"), h.claudePID() // 0 says nothing against it
	inPane := s.TmuxPane == h.Env("TMUX_PANE") && s.TmuxSocket == socket
	return s.Reason == "" && (inPane || s.HiddenPane != "" && s.HiddenPane == h.Env("TMUX_PANE")) &&
		(pid == 0 || pid == s.ClaudePID) && !inject.Ended(s.ClaudePID, s.ClaudeStart) &&
		s.ProjectDir == project && s.Env == state.Environment(h.Env) &&
		(name == "" || name == s.Name) && time.Since(s.LastSeen).Abs() < sessionKept
}

// claudePID is the Claude Code that runs this hook; 0 when it cannot be told.
func (h *Hook) claudePID() int {
	if h.asked.pid == 0 {
		h.asked.pid, _ = inject.Claude(h.Env)
	}
	return h.asked.pid
}

// maxEvent bounds a hook event, in bytes. Claude's last message and a tool's result are in some; neither comes near.
const maxEvent = 32 << 20

// askTool is the tool whose calls are questions to the person.
const askTool = "AskUserQuestion"

// Event is what Claude Code tells a hook on stdin, as far as ours need it. PermissionRequest has no tool_use_id, and
// prompt_id and last_assistant_message come from 2.1.196 and 2.1.197 on.
type Event struct {
	HookEventName string          `json:"hook_event_name"`
	SessionID     string          `json:"session_id"`
	CWD           string          `json:"cwd"`
	PromptID      Words           `json:"prompt_id"`
	AgentID       Words           `json:"agent_id"` // of the subagent whose event this is; "" for the session's own
	AgentType     Words           `json:"agent_type"`
	Mode          Words           `json:"permission_mode"`
	Transcript    Words           `json:"transcript_path"`
	LastWords     Words           `json:"last_assistant_message"`
	ToolName      string          `json:"tool_name"`
	ToolUseID     string          `json:"tool_use_id"`
	ToolInput     json.RawMessage `json:"tool_input"`
	ToolResponse  json.RawMessage `json:"tool_response"`

	Notification Words           `json:"notification_type"`
	Title        Words           `json:"title"`
	Message      Words           `json:"message"`
	Old          json.RawMessage `json:"notification"` // as scripts send it that were written before notification_type
	Error        Words           `json:"error"`
	Details      Words           `json:"error_details"`
	Source       Words           `json:"source"`
	Model        Words           `json:"model"`
	Reason       Words           `json:"reason"`
	Again        Words           `json:"stop_hook_active"`
	Prompt       Words           `json:"prompt"`

	Server Words           `json:"mcp_server_name"`
	Form   Words           `json:"mode"` // form or url
	Schema json.RawMessage `json:"requested_schema"`
	URL    Words           `json:"url"`
	LinkID Words           `json:"elicitation_id"`
	Action Words           `json:"action"`

	Suggestions json.RawMessage `json:"permission_suggestions"` // what "always" would allow
	Calls       []batchCall     `json:"tool_calls"`             // of PostToolBatch
}

// Words is text in an event or a transcript. What is no text in some version comes as its JSON.
type Words string

// UnmarshalJSON takes any value.
func (w *Words) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil { // null too
		*w = Words(s)
		return nil
	}
	var flat bytes.Buffer
	if err := json.Compact(&flat, b); err != nil {
		return err
	}
	*w = Words(flat.String())
	return nil
}

// SentBack says that a Stop hook sent the session back already.
func (e *Event) SentBack() bool { return e.Again != "" && e.Again != "false" }

func (e *Event) prompts() ([]state.Prompt, error) {
	var in struct {
		Questions []state.Prompt `json:"questions"`
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

func (h *Hook) ofSession(e *Event, folders []state.Questions, texts ...string) (all []*state.Question) {
	for _, folder := range folders {
		qs, bad, _ := folder.OfSession(e.SessionID, texts...)
		if len(bad) > 0 {
			h.passedOver(bad)
		}
		all = append(all, qs...)
	}
	return slices.DeleteFunc(all, h.takeOldWords)
}

// takeOldWords reports whether a question is words that a version without an inbox kept. These
// go into the inbox.
func (h *Hook) takeOldWords(q *state.Question) bool {
	if q.Kind != state.Said {
		return false
	}
	err := state.InboxIn(state.UserState(h.Env)).TakeOldWords(q, time.Now())
	h.logFailed(err, "words of an earlier version not taken")
	return true
}

// openQuestions are the session's that are open, whatever became of a denial.
func (h *Hook) openQuestions(e *Event) []*state.Question {
	folders := append(h.folders(state.QuestionsIn), h.folders(state.MarkersIn)...)
	return h.ofSession(e, folders, state.TextsOpen...)
}

func nonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(t string) bool { return t == "" })
}

const (
	writeBound = quickBound - 3*time.Second // for what Claude was told: as long as a hook that does not wait has time
	closeBound = 2 * time.Second            // for a question's end: Claude Code waits for the hook, or ends it
)

// again does what must be written, once more while another process has the lock or the disk is full, for so long.
func again(bound time.Duration, write func() error) error {
	passes := func(err error) bool {
		return errors.Is(err, state.ErrLocked) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
	}
	err := write()
	for end := time.Now().Add(bound); passes(err) && time.Now().Before(end); err = write() {
		time.Sleep(200 * time.Millisecond)
	}
	return err
}

// patience is how long this hook tries to write what its session is to be told: it may have no other event for hours.
func (h *Hook) patience(e *Event) time.Duration {
	if h.mayWait(e) {
		return busyBound
	}
	return 0
}

// tryAgain is again for a question that may be gone. What fails is in the log.
func (h *Hook) tryAgain(bound time.Duration, write func() error) {
	err := again(bound, write)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.log.Error().Err(err).Msg("what became of a question is not written down")
	}
}

func (h *Hook) passedOver(bad []error) {
	h.log.Warn().Err(bad[0]).Int("files", len(bad)).Msg("record passed over")
}

// notify shows the person, once, what could not be done since the last hook, and hands Claude the replies that reached it by
// no other way, where the event takes a context. At the session's end, which shows nothing to anyone, the markers hear of it.
func (h *Hook) notify(e *Event) {
	if e.HookEventName == "SessionEnd" {
		h.sessionEnded(e)
		return
	}
	out := map[string]any{}
	if e.HookEventName == "SessionStart" || e.HookEventName == "UserPromptSubmit" {
		if texts := h.undelivered(e); len(texts) > 0 {
			out["hookSpecificOutput"] = map[string]string{
				"hookEventName": e.HookEventName, "additionalContext": strings.Join(texts, "\n\n"),
			}
		}
	}
	if text := state.SessionsIn(state.UserState(h.Env)).TakeNotices(e.SessionID); text != "" {
		out["systemMessage"] = text
	}
	if len(out) > 0 {
		h.logFailed(h.Print(out), "notice not shown")
	}
}
