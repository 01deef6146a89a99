package wake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gchat-hooks/hooks"
	"gchat-hooks/state"
)

// fire is one hook at work.
type fire struct {
	*hooks.Hook
	trigger trigger
	began   time.Time
	event   *hooks.Event
	news    news

	reg      *registry // once read
	agent    agent
	sight    sight
	state    string
	pressure string
}

// tmuxBound is how long tmux may take, on a busy machine too. A server that was stopped never answers, and Claude Code waits
// for us.
const tmuxBound = 3 * time.Second

// run is the way of an event: guards, registry, pane, content, state, pressure, message, delivery.
func (f *fire) run(ctx context.Context, e *hooks.Event) error {
	f.event = e
	if err := e.Read(&f.news); err != nil {
		return err
	}
	if !f.meant() || f.Env("TMUX") == "" {
		return nil
	}
	reg, err := f.registry()
	if err != nil {
		return err
	}
	f.logProblems(reg.problems) // first: for one of these perhaps no agent is found
	go warm()
	if f.sight, err = f.look(ctx, f.linesFor(reg)); err != nil {
		return fmt.Errorf("tmux session: %w", err)
	}
	if !f.findAgent(ctx, reg) {
		return nil
	}
	f.logProblems(f.agent.problems)
	return f.tell(ctx)
}

// logProblems logs what is wrong with the registry.
func (f *fire) logProblems(problems []string) {
	for _, p := range problems {
		f.Log().Warn().Str("registry", registryPath(f.Env)).Msg(p)
	}
}

// linesFor is how many lines of the pane are looked at: those of its agent, as far as its session was seen before.
func (f *fire) linesFor(reg *registry) int {
	if a, ok := reg.agentOf(state.WakePane(state.UserState(f.Env), f.place())); ok {
		return a.paneLines
	}
	return builtIn.paneLines
}

// findAgent finds the agent of the session, or of another one that shares its windows: a person who looks in has such a
// session, and tmux names the session that was used last.
func (f *fire) findAgent(ctx context.Context, reg *registry) (known bool) {
	for _, session := range append([]string{f.sight.session}, f.sight.others...) {
		if f.agent, known = reg.agentOf(session); known {
			f.sight.session = session
			break
		}
	}
	if known && f.agent.paneLines > f.sight.wanted {
		f.lookAgain(ctx)
	}
	return known
}

// lookAgain looks at the session of the agent once more; where that fails, what was seen counts.
func (f *fire) lookAgain(ctx context.Context) {
	if again, err := f.look(ctx, f.agent.paneLines); err == nil {
		again.session = f.sight.session
		again.keep(f.agent.paneLines)
		f.sight = again
	}
}

// anyWaits says whether the registry has an agent whose decision is waited for.
func (f *fire) anyWaits() bool {
	reg, err := f.registry()
	return err == nil && slices.ContainsFunc(reg.agents, func(a agent) bool { return a.bidirectional })
}

// meant says whether this event is one that the hook tells about.
func (f *fire) meant() bool {
	active := string(f.news.Active)
	kind := text(f.news.Kind)
	return f.event.HookEventName == f.trigger.event &&
		(f.trigger.name != askTrigger || f.event.ToolName == "AskUserQuestion") &&
		(f.trigger.kind == "" || kind == "" || kind == f.trigger.kind) &&
		(f.trigger.event != "Stop" || active == "" || active == "false" || active == "null")
}

// tell finds out what there is to say and has it delivered.
func (f *fire) tell(ctx context.Context) error {
	f.sight.keep(f.agent.paneLines)
	var said spoken
	if f.trigger.name != askTrigger {
		said = f.lastWords()
	}
	c, put, err := f.prepare(ctx, said)
	switch {
	case err != nil:
		f.logFire("failed", c.source, err)
		return err
	case put == nil:
		f.logFire("unchanged", c.source, nil)
		return StartWaiting(f.Env, f.Self) // what an earlier hook left, if it was killed
	}
	return f.handOver(ctx, put, c)
}

// prepare works under the session's lock, so that two hooks of one moment tell no line twice. It looks at the pane, at what
// is known of it, and puts the message into the outbox; put is nil when there is nothing new.
func (f *fire) prepare(ctx context.Context, said spoken) (c content, put *outgoing, err error) {
	user := state.UserState(f.Env)
	session, err := state.LockWakeSession(user, f.sight.session, f.Env("TMUX_PANE"))
	if err != nil {
		// Told with what another hook may tell too, rather than not at all.
		if session = (&state.WakeSession{}); errors.Is(err, state.ErrLocked) {
			f.Log().Error().Err(err).Str("session", f.sight.session).Msg("session not locked")
		}
	}
	defer session.Unlock()
	memory := session.Memory()
	if memory.CapturedAt.After(f.sight.asked) { // another hook was first to tell what it saw, perhaps later than we
		f.lookAgain(ctx)
	}
	f.state, f.pressure = f.stateHint(), f.sight.pressure(f.agent.threshold)
	c = f.content(said, &memory)
	if c.new || !f.agent.dedup {
		if put, err = f.put(c); err != nil {
			return c, nil, err
		}
	}
	// Remembered after it was put: killed in between it is told twice, and not lost.
	if err := session.Remember(memory); err != nil && !(put != nil && put.unkept) {
		f.Log().Error().Err(err).Msg("told, and will be told again")
	}
	return c, put, nil
}

// logFire adds this fire's line to the session's wake log.
func (f *fire) logFire(outcome, source string, err error) {
	line := state.WakeFire{
		Time: time.Now().UTC(), Trigger: f.trigger.name, Session: f.sight.session, AgentID: f.agent.id,
		State: f.state, Pressure: f.pressure, Source: source, Outcome: outcome,
		DurationMS: float64(time.Since(f.began).Microseconds()) / 1000,
	}
	if err != nil {
		line.Error = f.Log().Clean(err.Error())
	}
	_ = state.LogWake(state.UserState(f.Env), line) // where it cannot be written, the message could not either
}
