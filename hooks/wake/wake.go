// Package wake informs OpenClaw agents. An agent supervises a Claude Code session. When
// the session ends a turn, asks something, idles or ends, the agent gets a message. It
// carries Claude's text, or else what changed on the session's screen. The hook writes
// the message into the outbox, and the poller runs openclaw.
package wake

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/hooks"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// trigger is what a hook of ours informs an agent about.
type trigger struct {
	name      string // its name in messages and logs
	hookEvent string // Claude Code's event; for a notification, its type is the name
}

const (
	questionTrigger   = "ask_user_question"
	permissionTrigger = "permission_prompt"
	endTrigger        = "session_end"
	compactTrigger    = "pre_compact"
)

// triggers are the hooks of this package by name.
var triggers = map[string]trigger{
	"stop-hook":                    {"response_complete", "Stop"},
	"pre-tool-use-hook":            {questionTrigger, "PreToolUse"},
	"notification-idle-hook":       {"idle_prompt", "Notification"},
	"notification-permission-hook": {permissionTrigger, "Notification"},
	"session-end-hook":             {endTrigger, "SessionEnd"},
	"pre-compact-hook":             {compactTrigger, "PreCompact"},
}

// Names are the names of this package's hooks, sorted.
func Names() []string { return slices.Sorted(maps.Keys(triggers)) }

// IsName reports whether name is a hook of this package.
func IsName(name string) bool { return triggers[name].name != "" }

// SetJob gives h the job that its name stands for. It reports whether the name is one of
// ours.
func SetJob(h *hooks.Hook) bool {
	t, ok := triggers[h.Name]
	if !ok {
		return false
	}
	f := &wakeHook{Hook: h, trigger: t, startedAt: time.Now()}
	h.DefaultEvent = t.hookEvent // settings register each of these hooks for one event only
	h.Job = func(_ *hooks.Hook, ctx context.Context, e *hooks.Event) error {
		return f.handleEvent(ctx, e)
	}
	// Only a Stop hook waits, for the decision of an agent that can answer.
	h.JobMayWait = func(_ *hooks.Hook, e *hooks.Event) bool {
		loaded, err := f.loadRegistry()
		return t.hookEvent == "Stop" && e.HookEventName == "Stop" && err == nil &&
			slices.ContainsFunc(loaded.agents, func(a agent) bool { return a.isBidirectional })
	}
	return true
}

// stringValue returns a JSON string; "" for any other value.
func stringValue(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

// wakeHook is one run of a hook of this package.
type wakeHook struct {
	*hooks.Hook
	trigger   trigger
	startedAt time.Time
	event     *hooks.Event

	loadedRegistry  *registry // read once
	agent           agent
	lastTmuxSession string // the tmux session that an earlier hook of this session ran in
	pane            pane
	state           string
	pressure        string
}

// handleEvent handles an event: it checks that the event is relevant, reads the registry
// and the pane, finds the agent and informs it.
func (f *wakeHook) handleEvent(ctx context.Context, e *hooks.Event) error {
	f.event = e
	if !f.isRelevant() || f.Env("TMUX") == "" {
		return nil
	}
	loaded, err := f.loadRegistry()
	if err != nil {
		return err
	}
	if session, err := f.sessions().Get(e.SessionID); err == nil {
		f.lastTmuxSession = session.TmuxSession
	}
	f.pane, err = f.capturePane(ctx)
	if err != nil {
		return fmt.Errorf("find tmux session: %w", err)
	}
	// tmux names the session that was used last. That may be the session of a person who
	// watches and has the same windows.
	for _, session := range append([]string{f.pane.Session}, f.pane.AllSessions...) {
		if agent, ok := loaded.agentForSession(session); ok {
			f.agent, f.pane.Session = agent, session
			f.pane.keepLastLines(agent.paneLines)
			return f.informAgent(ctx)
		}
	}
	return nil
}

// isRelevant reports whether this hook informs an agent about the event.
func (f *wakeHook) isRelevant() bool {
	notificationType := string(f.event.NotificationType)
	switch {
	case f.event.HookEventName != f.trigger.hookEvent:
		return false
	case f.trigger.name == questionTrigger:
		return f.event.ToolName == "AskUserQuestion"
	case f.trigger.hookEvent == "Notification":
		return notificationType == "" || notificationType == f.trigger.name
	case f.trigger.hookEvent == "Stop":
		return !f.event.IsStopHookActive()
	}
	return true
}

func (f *wakeHook) sessions() state.Sessions { return state.SessionsIn(state.UserStateDir(f.Env)) }

func (f *wakeHook) outbox() state.Outbox { return state.OutboxIn(state.UserStateDir(f.Env)) }

// informAgent enqueues the message and has the poller deliver it. It waits only if the
// agent decides whether the session stops.
func (f *wakeHook) informAgent(ctx context.Context) error {
	news, message, err := f.enqueueIfNew(ctx)
	outcome := "queued" // or unchanged, decided, undecided, failed
	switch {
	case err != nil:
		outcome = "failed"
	case !news.isEnqueued:
		outcome = "unchanged"
		// A hook that was killed may have left a message.
		if waiting, _ := f.outbox().Waiting(); len(waiting) > 0 {
			f.StartPoller()
		}
	case message != nil && message.Wake.NeedsReply:
		outcome, err = f.awaitDecision(ctx, message)
	case message != nil:
		f.StartPoller()
	}
	f.Log().
		Info().
		Str("trigger", f.trigger.name).
		Str("tmux_session", f.pane.Session).
		Str("agent_id", f.agent.id).
		Str("state", f.state).
		Str("pressure", f.pressure).
		Str("content_source", news.source).
		Str("outcome", outcome).
		Dur("duration_ms", time.Since(f.startedAt)).
		Msg("supervised session")
	return err
}

// enqueueIfNew works out what is new and enqueues it. A lock makes it the only hook of
// the session that does so: two hooks that run at the same moment report no line twice.
// message is nil if no agent gets one.
func (f *wakeHook) enqueueIfNew(
	ctx context.Context,
) (news agentNews, message *state.Message, err error) {
	session := &state.Session{}
	// Without an id the event is not Claude Code's, and nothing is remembered.
	if f.event.SessionID != "" {
		lock, err := f.sessions().LockWake(f.event.SessionID)
		if err != nil {
			return news, nil, err
		}
		defer lock.Unlock()
		stored, err := f.sessions().Get(f.event.SessionID)
		switch {
		case err == nil:
			session = stored
		case !errors.Is(err, fs.ErrNotExist) && !errors.As(err, new(*state.CorruptFileError)):
			return news, nil, err
		}
	}
	// Another hook may have enqueued first what it saw, perhaps later than this one
	// looked.
	if session.WakeMemory.CapturedAt.After(f.pane.askedAt) {
		if newer, err := f.capturePane(ctx); err == nil {
			newer.Session = f.pane.Session
			newer.keepLastLines(f.agent.paneLines)
			f.pane = newer
		}
	}
	f.state, f.pressure = f.stateHint(), f.pane.contextPressure(f.agent.warningPercent)
	memory := session.WakeMemory
	news = f.buildNews(&memory)
	if news.isNew || !f.agent.skipsKnown {
		message, err = f.enqueueWake(news)
		if err != nil {
			return news, message, err
		}
		news.isEnqueued = true
	}
	if f.event.SessionID == "" {
		return news, message, nil
	}
	// The session is written after the message. A hook that is killed in between makes
	// the agent get the same news twice, but loses none.
	err = f.remember(memory)
	if err != nil && news.isEnqueued {
		f.Log().Error().Err(err).Msg("session not recorded: its agent may get the same message again")
		err = nil
	}
	return news, message, err
}

// remember records what the session's agent knows, and where the session runs. No other
// hook of ours may be registered that records it.
func (f *wakeHook) remember(memory state.WakeMemory) error {
	now, project := time.Now().UTC(), state.ProjectDir(f.Env)
	socket := inject.ServerOf(f.Env("TMUX")).Socket
	_, err := f.sessions().Change(f.event.SessionID, func(s *state.Session) {
		s.WakeMemory = memory
		s.LastSeen, s.StartedAt = now, cmp.Or(s.StartedAt, now)
		s.ProjectDir = cmp.Or(s.ProjectDir, project)
		s.TmuxSession, s.TmuxPane, s.TmuxSocket = f.pane.Session, f.Env("TMUX_PANE"), socket
	})
	return err
}

// enqueueWake enqueues the message: for the agent, for the session's thread in Chat, or
// for both, as the settings say. The poller writes a message that is too long for a
// command line into a file.
func (f *wakeHook) enqueueWake(news agentNews) (*state.Message, error) {
	if f.agent.toChat {
		err := f.enqueueChatReport(news)
		if !f.agent.toAgent {
			return nil, err
		}
		if err != nil {
			f.Log().Error().Err(err).Msg("not reported in Chat: only the agent gets the message")
		}
	}
	if f.agent.openclawSession == "" {
		return nil, fmt.Errorf("agent %s has no openclaw_session_id in the registry", f.agent.id)
	}
	needsReply := f.agent.isBidirectional && f.trigger.hookEvent == "Stop"
	args := []string{
		"agent",
		"--session-id", f.agent.openclawSession,
		"--message", f.buildMessage(news),
	}
	if needsReply {
		args = append(args, "--json")
	}
	message, _, err := f.outbox().Enqueue(f.Env, &state.Message{
		ID:        "wake-" + uuid.NewString(),
		Type:      state.MessageWake,
		SessionID: f.event.SessionID,
		IsUrgent:  true,
		CreatedAt: time.Now().UTC(),
		Wake: &state.Wake{
			Args:         args,
			SearchPath:   f.Env("PATH"),
			AgentSession: f.agent.openclawSession,
			AgentName:    f.agent.id,
			Trigger:      f.trigger.name,
			NeedsReply:   needsReply,
		},
	}, 0)
	return message, err
}

// awaitDecision waits for the agent's decision for as long as the settings say. It prints
// a decision that makes the session go on. The poller continues to deliver a message that
// takes longer.
func (f *wakeHook) awaitDecision(
	ctx context.Context, message *state.Message,
) (outcome string, err error) {
	timeout := time.Duration(f.agent.replySeconds) * time.Second
	entry := state.IndexEntry{RecordType: state.IndexedMessage, Path: message.Path}
	if err := state.AddToIndex(f.Env, entry); err != nil {
		return "undecided", err
	}
	waitCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	message, err = state.Await(waitCtx, f.Env, f.Self, message.Path, (*state.Message).IsFinal)
	switch {
	case ctx.Err() != nil: // Esc
		return "undecided", nil
	case errors.Is(err, context.DeadlineExceeded):
		return "undecided", fmt.Errorf("the agent did not decide within %s: the session stops", timeout)
	case err != nil:
		return "undecided", fmt.Errorf("wait for the agent: %w", err)
	}
	verdict := readDecision([]byte(message.AgentAnswer))
	if !verdict.blocksStop() {
		return "undecided", nil
	}
	return "decided", f.Print(map[string]string{"decision": "block", "reason": verdict.Reason})
}

// decision is an agent's answer about a session that wants to stop.
type decision struct {
	Decision string `json:"decision"` // "block" makes the session go on; nothing else does
	Reason   string `json:"reason"`   // what the session is to do
}

// blocksStop reports whether the session is to go on. Claude Code needs a reason for
// that.
func (d decision) blocksStop() bool {
	return d.Decision == "block" && strings.TrimSpace(d.Reason) != ""
}

// cliOutput is what `openclaw agent --json` prints: the decision itself, or the agent's
// reply.
type cliOutput struct {
	decision
	Payloads []struct {
		Text string `json:"text"`
	} `json:"payloads"`
	Result *cliOutput `json:"result"`
}

// readDecision returns the last decision in openclaw's output: an object by itself, or
// one in the text of a payload. openclaw may print lines before it. An agent may write
// text and a code fence around it.
func readDecision(text []byte) (last decision) {
	for begin := bytes.IndexByte(text, '{'); begin >= 0; begin = bytes.IndexByte(text, '{') {
		text = text[begin:]
		var output cliOutput
		decoder := json.NewDecoder(bytes.NewReader(text))
		// Members of other types are left out, and what is no JSON is skipped.
		_ = decoder.Decode(&output)
		text = text[max(1, decoder.InputOffset()):]
		for result := &output; result != nil; result = result.Result {
			if result.Decision != "" {
				last = result.decision
			}
			for _, payload := range result.Payloads {
				if nested := readDecision([]byte(payload.Text)); nested.Decision != "" {
					last = nested
				}
			}
		}
	}
	return last
}
