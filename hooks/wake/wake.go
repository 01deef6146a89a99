// Package wake speaks to OpenClaw agents: when a Claude Code session that an agent supervises has ended a turn, asks
// something, idles or ends, the agent is told, in a message that carries what Claude said, or else what changed on the
// session's screen. The hook writes the message into the outbox; the poller runs openclaw.
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
	name  string // as messages and logs say it
	event string // of Claude Code; a notification's type is the name
}

const (
	askTrigger        = "ask_user_question"
	permissionTrigger = "permission_prompt"
	endTrigger        = "session_end"
	compactTrigger    = "pre_compact"
)

var triggers = map[string]trigger{
	"stop-hook":                    {"response_complete", "Stop"},
	"pre-tool-use-hook":            {askTrigger, "PreToolUse"},
	"notification-idle-hook":       {"idle_prompt", "Notification"},
	"notification-permission-hook": {permissionTrigger, "Notification"},
	"session-end-hook":             {endTrigger, "SessionEnd"},
	"pre-compact-hook":             {compactTrigger, "PreCompact"},
}

func Names() []string { return slices.Sorted(maps.Keys(triggers)) }

func Known(name string) bool { return triggers[name].name != "" }

// Hook gives h the job that its name stands for, and says whether the name is one of ours.
func Hook(h *hooks.Hook) bool {
	t, ok := triggers[h.Name]
	if ok {
		f := &fire{Hook: h, trigger: t, began: time.Now()}
		h.Own = t.event // settings name the hook for one event only
		h.Job = func(_ *hooks.Hook, ctx context.Context, e *hooks.Event) error { return f.run(ctx, e) }
		h.Waits = func(_ *hooks.Hook, e *hooks.Event) bool { // for an agent's decision
			reg, err := f.registry()
			return t.event == "Stop" && e.HookEventName == "Stop" && err == nil &&
				slices.ContainsFunc(reg.agents, func(a agent) bool { return a.bidirectional })
		}
	}
	return ok
}

func text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

type fire struct {
	*hooks.Hook
	trigger trigger
	began   time.Time
	event   *hooks.Event

	reg      *registry // once read
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
	for _, session := range append([]string{f.pane.Session}, f.pane.Sessions...) {
		if agent, ok := reg.agentOf(session); ok {
			f.agent, f.pane.Session = agent, session
			f.pane.keep(agent.paneLines)
			return f.tell(ctx)
		}
	}
	return nil
}

// meant says whether this event is one that the hook tells about.
func (f *fire) meant() bool {
	notified := string(f.event.Notification)
	return f.event.HookEventName == f.trigger.event &&
		(f.trigger.name != askTrigger || f.event.ToolName == "AskUserQuestion") &&
		(f.trigger.event != "Notification" || notified == "" || notified == f.trigger.name) &&
		(f.trigger.event != "Stop" || !f.event.SentBack())
}

func (f *fire) sessions() state.Sessions { return state.SessionsIn(state.UserState(f.Env)) }

func (f *fire) outbox() state.Outbox { return state.OutboxIn(state.UserState(f.Env)) }

// tell puts the message, has the poller deliver it, and waits only where the agent decides whether the session stops.
func (f *fire) tell(ctx context.Context) error {
	c, m, err := f.prepare(ctx)
	outcome := "queued" // or unchanged, decided, undecided, failed
	switch {
	case err != nil:
		outcome = "failed"
	case !c.told:
		outcome = "unchanged"
		if waiting, _ := f.outbox().Waiting(); len(waiting) > 0 { // of a hook that was killed
			f.StartPoller()
		}
	case m != nil && m.Wake.Reply:
		outcome, err = f.decide(ctx, m)
	case m != nil:
		f.StartPoller()
	}
	f.Log().Info().Str("trigger", f.trigger.name).Str("tmux_session", f.pane.Session).Str("agent_id", f.agent.id).
		Str("state", f.state).Str("pressure", f.pressure).Str("content_source", c.source).Str("outcome", outcome).
		Dur("duration_ms", time.Since(f.began)).Msg("supervised session")
	return err
}

// prepare works out what there is to tell and puts it into the outbox, as the only hook of the
// session that does: two hooks that run at the same moment tell no line twice. m is nil when
// no agent is told.
func (f *fire) prepare(ctx context.Context) (c content, m *state.Message, err error) {
	session := &state.Session{}
	if f.event.SessionID != "" { // else it is no event of Claude Code's, and nothing is remembered
		lock, err := f.sessions().LockWake(f.event.SessionID)
		if err != nil {
			return c, nil, err
		}
		defer lock.Unlock()
		known, err := f.sessions().Of(f.event.SessionID)
		switch {
		case err == nil:
			session = known
		case !errors.Is(err, fs.ErrNotExist) && !errors.As(err, new(*state.Corrupt)):
			return c, nil, err
		}
	}
	// Another hook may be first to tell what it saw, perhaps later than this one.
	if session.Wake.CapturedAt.After(f.pane.asked) {
		if again, err := f.capture(ctx); err == nil {
			again.Session = f.pane.Session
			again.keep(f.agent.paneLines)
			f.pane = again
		}
	}
	f.state, f.pressure = f.stateHint(), f.pane.pressure(f.agent.threshold)
	memory := session.Wake
	c = f.content(&memory)
	if c.new || !f.agent.dedup {
		m, err = f.put(c)
		if err != nil {
			return c, m, err
		}
		c.told = true
	}
	if f.event.SessionID == "" {
		return c, m, nil
	}
	// The session is written after the message was put: a hook that is killed in between tells twice, and loses nothing.
	err = f.remember(memory)
	if err != nil && c.told {
		f.Log().Error().Err(err).Msg("session not written; its agent may be told this again")
		err = nil
	}
	return c, m, err
}

// remember writes down what the session's agent knows, and where the session runs: perhaps no
// other hook of ours writes that.
func (f *fire) remember(memory state.WakeMemory) error {
	now, project := time.Now().UTC(), state.ProjectDir(f.Env)
	socket := inject.ServerOf(f.Env("TMUX")).Socket
	_, err := f.sessions().Change(f.event.SessionID, func(s *state.Session) {
		s.Wake = memory
		s.LastSeen, s.TmuxSession, s.TmuxPane = now, f.pane.Session, f.Env("TMUX_PANE")
		s.StartedAt, s.ProjectDir = cmp.Or(s.StartedAt, now), cmp.Or(s.ProjectDir, project)
		s.TmuxSocket = socket
	})
	return err
}

// put writes the message down: for the agent, for the session's thread in Google Chat, or both, as the settings say. The poller
// puts a message that is too long for a command line into a file.
func (f *fire) put(c content) (*state.Message, error) {
	if f.agent.chat {
		err := f.tellChat(c)
		if !f.agent.agent {
			return nil, err
		}
		if err != nil {
			f.Log().Error().Err(err).Msg("Google Chat is not told; the agent is")
		}
	}
	if f.agent.to == "" {
		return nil, fmt.Errorf("agent %s has no openclaw_session_id in the registry", f.agent.id)
	}
	reply := f.agent.bidirectional && f.trigger.event == "Stop"
	args := []string{"agent", "--session-id", f.agent.to, "--message", f.message(c)}
	if reply {
		args = append(args, "--json")
	}
	m, _, err := f.outbox().Put(f.Env, &state.Message{
		ID: "wake-" + uuid.NewString(), Type: state.MessageWake, SessionID: f.event.SessionID, Urgent: true,
		CreatedAt: time.Now().UTC(),
		Wake: &state.Wake{
			Args: args, Path: f.Env("PATH"), To: f.agent.to, Agent: f.agent.id, Trigger: f.trigger.name, Reply: reply,
		},
	}, 0)
	return m, err
}

// decide waits for the agent's decision as long as the settings say, and prints one that sends the session on. The poller
// goes on with a message that takes longer.
func (f *fire) decide(ctx context.Context, m *state.Message) (outcome string, err error) {
	bound := time.Duration(f.agent.replySeconds) * time.Second
	if err := state.Announce(f.Env, state.Open{Record: state.OpenMessage, Path: m.Path}); err != nil {
		return "undecided", err
	}
	inTime, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	m, err = state.Await(inTime, f.Env, f.Self, m.Path, (*state.Message).Final)
	switch {
	case ctx.Err() != nil: // Esc
		return "undecided", nil
	case errors.Is(err, context.DeadlineExceeded):
		return "undecided", fmt.Errorf("the agent did not decide within %s; the session stops", bound)
	case err != nil:
		return "undecided", fmt.Errorf("wait for the agent: %w", err)
	}
	d := readDecision([]byte(m.Answer))
	if !d.block() {
		return "undecided", nil
	}
	return "decided", f.Print(map[string]string{"decision": "block", "reason": d.Reason})
}

// decision is what an agent says of a session that wants to stop.
type decision struct {
	Decision string `json:"decision"` // block, or anything else
	Reason   string `json:"reason"`   // what the session is to do instead
}

// block says whether the session is to go on. Claude Code wants a reason for it.
func (d decision) block() bool { return d.Decision == "block" && strings.TrimSpace(d.Reason) != "" }

// output is what `openclaw agent --json` prints: the decision itself, or the agent's reply.
type output struct {
	decision
	Payloads []struct {
		Text string `json:"text"`
	} `json:"payloads"`
	Result *output `json:"result"`
}

// readDecision is the last decision in what openclaw printed: an object by itself, or in the text of a payload. A CLI may print
// lines before it, an agent words and a fence around it.
func readDecision(text []byte) (last decision) {
	for begin := bytes.IndexByte(text, '{'); begin >= 0; begin = bytes.IndexByte(text, '{') {
		text = text[begin:]
		var out output
		d := json.NewDecoder(bytes.NewReader(text))
		_ = d.Decode(&out) // members of other types are left out; what is no JSON is passed over
		text = text[max(1, d.InputOffset()):]
		for o := &out; o != nil; o = o.Result {
			if o.Decision != "" {
				last = o.decision
			}
			for _, payload := range o.Payloads {
				if said := readDecision([]byte(payload.Text)); said.Decision != "" {
					last = said
				}
			}
		}
	}
	return last
}
