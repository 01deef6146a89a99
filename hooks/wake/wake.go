// Package wake speaks to OpenClaw agents: when a Claude Code session that an agent
// supervises has ended a turn, asks something, idles or ends, the agent is told, in a
// message that carries what Claude said, or else what changed on the session's screen.
// The hook writes the message into the outbox; the poller runs openclaw.
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

type trigger struct {
	name      string // as messages and logs say it
	hookEvent string // of Claude Code; a notification's type is the name
}

const (
	questionTrigger   = "ask_user_question"
	permissionTrigger = "permission_prompt"
	endTrigger        = "session_end"
	compactTrigger    = "pre_compact"
)

var triggers = map[string]trigger{
	"stop-hook":                    {"response_complete", "Stop"},
	"pre-tool-use-hook":            {questionTrigger, "PreToolUse"},
	"notification-idle-hook":       {"idle_prompt", "Notification"},
	"notification-permission-hook": {permissionTrigger, "Notification"},
	"session-end-hook":             {endTrigger, "SessionEnd"},
	"pre-compact-hook":             {compactTrigger, "PreCompact"},
}

func Names() []string { return slices.Sorted(maps.Keys(triggers)) }

func IsName(name string) bool { return triggers[name].name != "" }

// SetJob gives h the job that its name stands for, and says whether the name is one of
// ours.
func SetJob(h *hooks.Hook) bool {
	t, ok := triggers[h.Name]
	if ok {
		f := &wakeHook{Hook: h, trigger: t, startedAt: time.Now()}
		h.DefaultEvent = t.hookEvent // settings name the hook for one event only
		h.Job = func(_ *hooks.Hook, ctx context.Context, e *hooks.Event) error { return f.handleEvent(ctx, e) }
		h.JobMayWait = func(_ *hooks.Hook, e *hooks.Event) bool { // for an agent's decision
			loaded, err := f.loadRegistry()
			return t.hookEvent == "Stop" && e.HookEventName == "Stop" && err == nil &&
				slices.ContainsFunc(loaded.agents, func(a agent) bool { return a.isBidirectional })
		}
	}
	return ok
}

func stringValue(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

type wakeHook struct {
	*hooks.Hook
	trigger   trigger
	startedAt time.Time
	event     *hooks.Event

	loadedRegistry  *registry // once read
	agent           agent
	lastTmuxSession string // tmux session that an earlier hook of this session was in
	pane            pane
	state           string
	pressure        string
}

// handleEvent is the way of an event: guards, registry, pane, agent, message.
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
		return fmt.Errorf("tmux session: %w", err)
	}
	// tmux names the session that was used last. A person who watches has one of the same
	// windows.
	for _, session := range append([]string{f.pane.Session}, f.pane.AllSessions...) {
		if agent, ok := loaded.agentForSession(session); ok {
			f.agent, f.pane.Session = agent, session
			f.pane.keepLastLines(agent.paneLines)
			return f.informAgent(ctx)
		}
	}
	return nil
}

// isRelevant says whether this event is one that the hook tells about.
func (f *wakeHook) isRelevant() bool {
	notificationType := string(f.event.NotificationType)
	return f.event.HookEventName == f.trigger.hookEvent &&
		(f.trigger.name != questionTrigger || f.event.ToolName == "AskUserQuestion") &&
		(f.trigger.hookEvent != "Notification" || notificationType == "" || notificationType == f.trigger.name) &&
		(f.trigger.hookEvent != "Stop" || !f.event.IsStopHookActive())
}

func (f *wakeHook) sessions() state.Sessions { return state.SessionsIn(state.UserStateDir(f.Env)) }

func (f *wakeHook) outbox() state.Outbox { return state.OutboxIn(state.UserStateDir(f.Env)) }

// informAgent puts the message, has the poller deliver it, and waits only where the agent
// decides whether the session stops.
func (f *wakeHook) informAgent(ctx context.Context) error {
	news, message, err := f.enqueueIfNew(ctx)
	outcome := "queued" // or unchanged, decided, undecided, failed
	switch {
	case err != nil:
		outcome = "failed"
	case !news.isEnqueued:
		outcome = "unchanged"
		if waiting, _ := f.outbox().Waiting(); len(waiting) > 0 { // of a hook that was killed
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

// enqueueIfNew works out what there is to tell and puts it into the outbox, as the only
// hook of the session that does: two hooks that run at the same moment tell no line
// twice. m is nil when no agent is told.
func (f *wakeHook) enqueueIfNew(
	ctx context.Context,
) (news agentNews, message *state.Message, err error) {
	session := &state.Session{}
	if f.event.SessionID != "" { // else it is no event of Claude Code's, and nothing is remembered
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
	// Another hook may be first to tell what it saw, perhaps later than this one.
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
	// The session is written after the message was put: a hook that is killed in between
	// tells twice, and loses nothing.
	err = f.remember(memory)
	if err != nil && news.isEnqueued {
		f.Log().Error().Err(err).Msg("session not written; its agent may be told this again")
		err = nil
	}
	return news, message, err
}

// remember writes down what the session's agent knows, and where the session runs:
// perhaps no other hook of ours writes that.
func (f *wakeHook) remember(memory state.WakeMemory) error {
	now, project := time.Now().UTC(), state.ProjectDir(f.Env)
	socket := inject.ServerOf(f.Env("TMUX")).Socket
	_, err := f.sessions().Change(f.event.SessionID, func(s *state.Session) {
		s.WakeMemory = memory
		s.LastSeen, s.TmuxSession, s.TmuxPane = now, f.pane.Session, f.Env("TMUX_PANE")
		s.StartedAt, s.ProjectDir = cmp.Or(s.StartedAt, now), cmp.Or(s.ProjectDir, project)
		s.TmuxSocket = socket
	})
	return err
}

// enqueueWake writes the message down: for the agent, for the session's thread in Google
// Chat, or both, as the settings say. The poller puts a message that is too long for a
// command line into a file.
func (f *wakeHook) enqueueWake(news agentNews) (*state.Message, error) {
	if f.agent.toChat {
		err := f.enqueueChatReport(news)
		if !f.agent.toAgent {
			return nil, err
		}
		if err != nil {
			f.Log().Error().Err(err).Msg("Google Chat is not told; the agent is")
		}
	}
	if f.agent.openclawSession == "" {
		return nil, fmt.Errorf("agent %s has no openclaw_session_id in the registry", f.agent.id)
	}
	needsReply := f.agent.isBidirectional && f.trigger.hookEvent == "Stop"
	args := []string{
		"agent",
		"--session-id",
		f.agent.openclawSession,
		"--message",
		f.buildMessage(news),
	}
	if needsReply {
		args = append(args, "--json")
	}
	message, _, err := f.outbox().Enqueue(f.Env, &state.Message{
		ID: "wake-" + uuid.NewString(), Type: state.MessageWake, SessionID: f.event.SessionID, IsUrgent: true,
		CreatedAt: time.Now().UTC(),
		Wake: &state.Wake{
			Args: args, SearchPath: f.Env("PATH"), AgentSession: f.agent.openclawSession, AgentName: f.agent.id, Trigger: f.trigger.name, NeedsReply: needsReply,
		},
	}, 0)
	return message, err
}

// awaitDecision waits for the agent's decision as long as the settings say, and prints
// one that sends the session on. The poller goes on with a message that takes longer.
func (f *wakeHook) awaitDecision(
	ctx context.Context,
	message *state.Message,
) (outcome string, err error) {
	timeout := time.Duration(f.agent.replySeconds) * time.Second
	if err := state.AddToIndex(f.Env, state.IndexEntry{RecordType: state.IndexedMessage, Path: message.Path}); err != nil {
		return "undecided", err
	}
	waitCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	message, err = state.Await(waitCtx, f.Env, f.Self, message.Path, (*state.Message).IsFinal)
	switch {
	case ctx.Err() != nil: // Esc
		return "undecided", nil
	case errors.Is(err, context.DeadlineExceeded):
		return "undecided", fmt.Errorf(
			"the agent did not decide within %s; the session stops",
			timeout,
		)
	case err != nil:
		return "undecided", fmt.Errorf("wait for the agent: %w", err)
	}
	verdict := readDecision([]byte(message.AgentAnswer))
	if !verdict.blocksStop() {
		return "undecided", nil
	}
	return "decided", f.Print(map[string]string{"decision": "block", "reason": verdict.Reason})
}

// decision is what an agent says of a session that wants to stop.
type decision struct {
	Decision string `json:"decision"` // block, or anything else
	Reason   string `json:"reason"`   // what the session is to do instead
}

// blocksStop says whether the session is to go on. Claude Code wants a reason for it.
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

// readDecision is the last decision in what openclaw printed: an object by itself, or in
// the text of a payload. A CLI may print lines before it, an agent words and a fence
// around it.
func readDecision(text []byte) (last decision) {
	for begin := bytes.IndexByte(text, '{'); begin >= 0; begin = bytes.IndexByte(text, '{') {
		text = text[begin:]
		var output cliOutput
		decoder := json.NewDecoder(bytes.NewReader(text))
		// members of other types are left out; what is no JSON is passed over
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
