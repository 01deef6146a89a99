package hooks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/gchat"
	"gchat-hooks/inject"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// doubled is how long after its end an equal question without a prompt id counts as the same event delivered twice.
const doubled = time.Minute

// mayWait says whether this event's hook may take as long as the person takes.
func (h *Hook) mayWait(e *Event) bool {
	if h.Job != nil {
		return h.Waits != nil && h.Waits(h, e)
	}
	return h.Name == "gchat-ask-user-rewake" || h.Name == "gchat-ask-user-forward" && e.ToolName == askTool &&
		(e.HookEventName == "PermissionRequest" || e.HookEventName == "PreToolUse" && h.mode(e) == state.Hold)
}

// mode is how this session's questions are answered.
func (h *Hook) mode(e *Event) state.Mode {
	if h.asked.cfg != nil {
		return h.asked.rules.AskMode
	}
	project := state.ProjectDir(h.Env)
	cfg := state.LoadConfig(h.Env, project)
	h.logProblems(cfg)
	if hook, err := gchat.ConfiguredWebhook(cfg, cfg.WebhookURL); err == nil {
		h.asked.chat, h.asked.space = hook.Chat(), hook.Space
	}
	h.asked.cfg, h.asked.rules = cfg, cfg.For(h.askedFor(cfg, e))
	return h.asked.rules.AskMode
}

// askedFor is this session as rules see it. Its name costs a process to ask, so it is left out where no rule wants it.
func (h *Hook) askedFor(cfg *state.Config, e *Event) state.Asked {
	a := state.Asked{
		Session: h.Env("CLAUDE_SESSION_ID"), Project: state.ProjectDir(h.Env), OutputStyle: h.Env("CLAUDE_OUTPUT_STYLE"),
	}
	if a.Named = a.Session != ""; !a.Named && len(cfg.Rules) > 0 {
		a.Session = h.asker(e).Name
	}
	return a
}

// asker is the session that this event comes from; found out once, since tmux is a process to ask.
func (h *Hook) asker(e *Event) *inject.Asker {
	if h.asked.by == nil {
		a := inject.Identify(context.Background(), h.Env, e.SessionID, nil)
		h.asked.by = &a
	}
	return h.asked.by
}

// inOtherTerminal says whether another Claude Code asked, which still lives: a session can be resumed in two terminals, and
// the events of one do not end the dialog of the other.
func (h *Hook) inOtherTerminal(q *state.Question) bool {
	if q.ClaudePID == 0 {
		return false
	}
	if h.asked.pid == 0 {
		h.asked.pid, _ = inject.Claude(h.Env)
	}
	return h.asked.pid != 0 && h.asked.pid != q.ClaudePID && !poller.Gone(q)
}

// forward is gchat-ask-user-forward. PreToolUse writes the question down and prints nothing, in deny mode it denies the
// call; PermissionRequest puts the question into the space, waits for the reply beside the open dialog, and answers with it.
func (h *Hook) forward(ctx context.Context, e *Event) error {
	if e.ToolName != askTool || e.HookEventName != "PreToolUse" && e.HookEventName != "PermissionRequest" {
		return nil
	}
	mode := h.mode(e)
	if mode == state.Off {
		return nil
	}
	if mode == state.Deny {
		if e.HookEventName == "PreToolUse" {
			return h.deny(ctx, e)
		}
		if err := h.reclaim(e); err != nil {
			h.log.Error().Err(err).Msg("marker not handed over")
		}
		mode = state.Native // its dialog is on the screen
	}
	if e.HookEventName == "PreToolUse" {
		q, lock, err := h.recordCall(e, mode)
		if err != nil || q == nil {
			return err
		}
		h.wake() // for the case that no PermissionRequest hook shows up to post it
		if lock == nil {
			return nil
		}
		defer lock.Unlock()
		return h.wait(ctx, e, q, toolAllow)
	}
	if mode == state.Inject && h.asker(e).TmuxPane != "" {
		return nil // the daemon types the answer; outside tmux it cannot, and this hook waits after all
	}
	q, lock, err := h.findCall(e, mode)
	if err != nil || q == nil {
		return err
	}
	defer lock.Unlock()
	return h.wait(ctx, e, q, permissionAllow)
}

// recordCall writes down the question of a PreToolUse event. It returns nil when another process did so already, and in
// hold mode the waiter's lock.
func (h *Hook) recordCall(e *Event, mode state.Mode) (q *state.Question, lock *state.Lock, err error) {
	fresh, err := h.question(e, mode)
	if err != nil {
		return nil, nil, err
	}
	known := false
	q, err = h.record(state.QuestionsIn, e, func(have []*state.Question) *state.Question {
		if q := ofCall(have, e); q != nil {
			known = true
			return q
		}
		known = false
		return fresh
	})
	if err != nil || mode != state.Hold {
		if known {
			return nil, nil, err
		}
		return q, nil, err
	}
	if !q.Status.Open() {
		return nil, nil, nil
	}
	if lock, err = state.LockWaiter(q); errors.Is(err, state.ErrLocked) {
		return nil, nil, nil // the same event from a second install: one of them waits
	}
	return q, lock, err
}

// findCall ties a PermissionRequest to its question by session and equal input, since it has no tool_use_id, and takes the
// lock of the one process that waits for it. Where PreToolUse is not registered it writes the question down itself. It
// returns nil when another process has the question, or had it.
func (h *Hook) findCall(e *Event, mode state.Mode) (q *state.Question, lock *state.Lock, err error) {
	hash := e.inputHash()
	var lockErr, freshErr error
	var gone []*state.Question
	q, err = h.record(state.QuestionsIn, e, func(have []*state.Question) (fresh *state.Question) {
		taken := false
		for _, q := range slices.Backward(have) { // the oldest first, as Claude Code shows their dialogs
			switch {
			case q.InputHash != hash:
			case q.Status.Open() && poller.Gone(q): // the session was resumed after a crash: that dialog is not this one
				gone = append(gone, q)
			case q.Status.Open() && h.inOtherTerminal(q):
			case q.Status.Open():
				// Two equal questions at once have two records: each hook takes one without a waiter.
				if lock, lockErr = state.LockWaiter(q); lockErr == nil {
					return q
				}
				taken = true
			case q.ToolUseID == "":
			case q.PromptID == "" && time.Since(q.AskedAt) < doubled, q.PromptID != "" && q.PromptID == string(e.PromptID):
				taken = true // PreToolUse would have written a new question down: this is the old one's event once more
			}
		}
		if !taken {
			fresh, freshErr = h.question(e, mode)
		}
		return fresh
	})
	h.poller.CloseGone(gone) // else their threads would stay open
	if err = errors.Join(err, freshErr); err != nil || q == nil {
		if lock != nil {
			lock.Unlock()
		}
		return nil, nil, err
	}
	if lock == nil {
		if lock, err = state.LockWaiter(q); err != nil {
			if errors.Is(err, state.ErrLocked) {
				err = nil
			}
			return nil, nil, err
		}
	}
	return q, lock, nil
}

// question makes the record of a call.
func (h *Hook) question(e *Event, mode state.Mode) (*state.Question, error) {
	prompts, err := e.prompts()
	if err != nil {
		return nil, err
	}
	if e.SessionID == "" {
		return nil, errors.New("hook event: session_id is missing")
	}
	id := uuid.New().String()
	asker := h.asker(e)
	return &state.Question{
		QuestionID: id, SessionID: state.SessionID(h.Env, e.SessionID), ClaudeSessionID: e.SessionID, SessionName: asker.Name,
		TmuxSession: asker.TmuxSession, TmuxPane: asker.TmuxPane, TmuxSocket: asker.TmuxSocket,
		ClaudePID: asker.ClaudePID, ClaudeStart: asker.ClaudeStart,
		AskedAt: time.Now().UTC().Truncate(time.Millisecond), ThreadKey: state.ThreadKey(id),
		Questions: prompts, Status: state.Pending, Mode: mode, ProjectDir: absolute(state.ProjectDir(h.Env)), CWD: e.CWD,
		Chat: h.asked.chat, Space: h.asked.space,
		PromptID: string(e.PromptID), ToolUseID: e.ToolUseID, InputHash: e.inputHash(), AgentID: e.agentID(),
	}, nil
}

func absolute(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

// record writes a question into the project's state, or where that cannot be written (a read-only checkout) into the
// person's own.
func (h *Hook) record(folder func(projectState string) state.Questions, e *Event,
	decide func([]*state.Question) *state.Question) (*state.Question, error) {
	var errs []error
	for _, dir := range h.stateDirs() {
		q, err := folder(dir).Record(e.SessionID, decide)
		if err == nil {
			if q != nil {
				if err := state.Register(state.UserState(h.Env), dir, absolute(state.ProjectDir(h.Env)), time.Now()); err != nil {
					h.log.Error().Err(err).Msg("project not registered; other sessions do not read for it")
				}
			}
			return q, nil
		}
		errs = append(errs, err)
		unwritable := errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrExist) || errors.Is(err, syscall.EROFS) ||
			errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
		if !unwritable {
			break
		}
	}
	return nil, fmt.Errorf("write question down: %w", errors.Join(errs...))
}

// stateDirs are the folders that a question of this project may be in.
func (h *Hook) stateDirs() []string {
	return []string{absolute(state.ProjectState(h.Env)), state.SpareState(h.Env)}
}
