// Package wake speaks to OpenClaw agents: when a Claude Code session that an agent supervises has ended a turn, asks
// something, idles or ends, the agent is told, in a message that carries what Claude said, or else what changed on the
// session's screen. The hook writes the message into the outbox; the poller runs openclaw.
package wake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/hooks"
	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// trigger is what a hook of ours tells about.
type trigger struct {
	name  string // as messages and logs say it
	event string // of Claude Code
	kind  string // Claude Code's notification type; "" where there is none
}

const (
	askTrigger        = "ask_user_question"
	permissionTrigger = "permission_prompt"
	endTrigger        = "session_end"
	compactTrigger    = "pre_compact"
)

// triggers are the hooks by name.
var triggers = map[string]trigger{
	"stop-hook":                    {"response_complete", "Stop", ""},
	"pre-tool-use-hook":            {askTrigger, "PreToolUse", ""},
	"notification-idle-hook":       {"idle_prompt", "Notification", "idle_prompt"},
	"notification-permission-hook": {permissionTrigger, "Notification", "permission_prompt"},
	"session-end-hook":             {endTrigger, "SessionEnd", ""},
	"pre-compact-hook":             {compactTrigger, "PreCompact", ""},
}

// Names are the hooks' names, sorted.
func Names() []string { return slices.Sorted(maps.Keys(triggers)) }

// Known says whether name is one of the hooks here.
func Known(name string) bool { return triggers[name].name != "" }

// Hook gives h the job that its name stands for, and says whether the name is one of ours.
func Hook(h *hooks.Hook) bool {
	t, ok := triggers[h.Name]
	if ok {
		f := &fire{Hook: h, trigger: t, began: time.Now()}
		h.Own = t.event // settings name the hook for one event only
		h.Job = func(_ *hooks.Hook, ctx context.Context, e *hooks.Event) error { return f.run(ctx, e) }
	}
	return ok
}

// fire is one hook at work.
type fire struct {
	*hooks.Hook
	trigger trigger
	began   time.Time
	event   *hooks.Event

	agent    agent
	last     string // tmux session that an earlier hook of this session was in
	pane     pane
	state    string
	pressure string
}

// run is the way of an event: guards, registry, pane, agent, message.
func (f *fire) run(ctx context.Context, e *hooks.Event) error {
	f.event = e
	if !f.meant() || f.Env("TMUX") == "" {
		return nil
	}
	reg, err := f.registry()
	if err != nil {
		return err
	}
	if session, err := f.sessions().Of(e.SessionID); err == nil {
		f.last = session.TmuxSession
	}
	f.pane, err = f.capture(ctx)
	if err != nil {
		return fmt.Errorf("tmux session: %w", err)
	}
	// tmux names the session that was used last. A person who watches has one of the same windows.
	for _, session := range append([]string{f.pane.Session}, f.pane.Others...) {
		if agent, ok := reg.agentOf(session); ok {
			f.agent, f.pane.Session = agent, session
			f.pane.keep(agent.Settings.PaneLines)
			return f.tell()
		}
	}
	return nil
}

// meant says whether this event is one that the hook tells about.
func (f *fire) meant() bool {
	kind := string(f.event.Kind)
	return f.event.HookEventName == f.trigger.event &&
		(f.trigger.name != askTrigger || f.event.ToolName == "AskUserQuestion") &&
		(f.trigger.kind == "" || kind == "" || kind == f.trigger.kind) &&
		(f.trigger.event != "Stop" || !f.event.SentBack())
}

func (f *fire) sessions() state.Sessions { return state.SessionsIn(state.UserState(f.Env)) }

func (f *fire) outbox() state.Outbox { return state.OutboxIn(state.UserState(f.Env)) }

// tell puts the message, and has the poller deliver it.
func (f *fire) tell() error {
	c, err := f.prepare()
	outcome := "queued"
	switch {
	case err != nil:
		outcome = "failed"
	case !c.told:
		outcome = "unchanged"
		if waiting, _ := f.outbox().Waiting(); len(waiting) > 0 { // of a hook that was killed
			f.StartPoller()
		}
	default:
		f.StartPoller()
	}
	f.Log().Info().Str("trigger", f.trigger.name).Str("tmux_session", f.pane.Session).Str("agent_id", f.agent.ID).
		Str("state", f.state).Str("pressure", f.pressure).Str("content_source", c.source).Str("outcome", outcome).
		Dur("duration_ms", time.Since(f.began)).Msg("supervised session")
	return err
}

// prepare works out what there is to tell and puts it into the outbox, under the session's lock: two hooks that run at the
// same moment tell the same once.
func (f *fire) prepare() (c content, err error) {
	f.state, f.pressure = f.stateHint(), f.pane.pressure(f.agent.Settings.Threshold)
	change := func(s *state.Session) error {
		c = f.content(&s.Wake)
		if c.new {
			if err := f.put(c); err != nil {
				return err
			}
			c.told = true
		}
		s.LastSeen, s.TmuxSession, s.TmuxPane = time.Now().UTC(), f.pane.Session, f.Env("TMUX_PANE")
		s.TmuxSocket = inject.ServerOf(f.Env("TMUX")).Socket
		return nil
	}
	if f.event.SessionID == "" { // no event of Claude Code's: nothing is remembered
		err = change(&state.Session{})
		return c, err
	}
	// The session is written after the message was put: a hook that is killed in between tells twice, and loses nothing.
	_, err = f.sessions().Change(f.event.SessionID, change)
	if err != nil && c.told {
		f.Log().Error().Err(err).Msg("session not written; its agent may be told this again")
		err = nil
	}
	return c, err
}

// put writes the message down. The poller puts one that is too long for a command line into a file.
func (f *fire) put(c content) error {
	if f.agent.To == "" {
		return fmt.Errorf("agent %s has no openclaw_session_id in the registry", f.agent.ID)
	}
	_, _, err := f.outbox().Put(f.Env, &state.Message{
		ID: "wake-" + uuid.NewString(), Kind: state.MessageWake, SessionID: f.event.SessionID, Urgent: true,
		Wake: &state.Wake{
			Args: []string{"agent", "--session-id", f.agent.To, "--message", f.message(c)},
			Path: f.Env("PATH"), To: f.agent.To, Agent: f.agent.ID, Trigger: f.trigger.name,
		},
	}, 0)
	return err
}
