package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"gchat-hooks/state"
)

// The gate sends a session back at most so many times within that time. Claude Code's own stop_hook_active mostly ends it
// earlier; this holds where another hook, or a version of it, does not pass that on.
const (
	mostBlocks   = 3
	blocksWithin = time.Minute
)

// gateNews is what a Stop event says that the gate wants to know.
type gateNews struct {
	sessionNews
	AgentID words           `json:"agent_id"`         // set in a subagent's events
	Again   json.RawMessage `json:"stop_hook_active"` // true when a Stop hook sent the session back already
}

// finding is what a check of the gate has against the session's stopping.
type finding struct {
	level     state.GateLevel
	forClaude string // what to do about it
	forPerson string // what is the case
}

// stopGate is gchat-stop-gate: it keeps a session that rules guard from stopping before its person was asked what comes
// next, and while its team has no persistent agent. It never does so for long, and where it cannot tell the session stops.
func (h *Hook) stopGate(ctx context.Context, e *Event) error {
	if e.HookEventName != "Stop" {
		return nil
	}
	var news gateNews
	if err := e.Read(&news); err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return err
	}
	if news.AgentID != "" {
		return nil
	}
	h.mode(e)
	if !h.asked.rules.StopGate.Guards() {
		return nil
	}
	if e.SessionID == "" {
		return errors.New("hook event: session_id is missing")
	}
	markers := h.markerFolders()
	defer func() {
		for _, folder := range markers {
			folder.Close()
		}
	}()
	blocked := false
	if again := string(news.Again); again == "" || again == "false" || again == "null" {
		var out map[string]string
		out, blocked = h.decide(e, h.findings(e, news, markers))
		if len(out) > 0 {
			if err := h.Print(out); err != nil {
				h.log.Error().Err(err).Msg("the session stops all the same")
				blocked = false
			}
		}
	}
	var err error
	if !blocked {
		err = h.tellStop(ctx, e, news)
	}
	for _, folder := range markers {
		h.tidyMarkers(folder)
	}
	return err
}

// findings are what the checks that are made have against the session's stopping.
func (h *Hook) findings(e *Event, news gateNews, markers []*state.MarkerFolder) (found []finding) {
	for _, check := range []struct {
		name string
		look func() *finding
	}{
		{state.QuestionAsked, func() *finding { return h.checkQuestion(e, news, markers) }},
		{state.PersistentAgents, func() *finding { return h.checkAgents(e) }},
	} {
		level := h.asked.rules.StopGate[check.name]
		if level != state.GateOn && level != state.GateAdvice {
			continue
		}
		if f := check.look(); f != nil {
			f.level = level
			found = append(found, *f)
		}
	}
	return found
}

// decide makes one decision of all findings. A block that cannot be counted is none: it could go round for ever.
func (h *Hook) decide(e *Event, found []finding) (out map[string]string, block bool) {
	var reasons, advice []string
	for _, f := range found {
		if f.level == state.GateOn {
			reasons = append(reasons, f.forClaude)
		} else {
			advice = append(advice, f.forPerson)
		}
	}
	out = map[string]string{}
	if len(reasons) > 0 {
		ok, err := state.CountGateBlock(state.UserState(h.Env), e.SessionID, time.Now(), mostBlocks, blocksWithin)
		why := fmt.Sprintf("it was sent back %d times within a minute", mostBlocks)
		if err != nil {
			why = "how often it was sent back cannot be written down"
		}
		if block = ok; !ok {
			advice = advice[:0]
			for _, f := range found {
				advice = append(advice, f.forPerson)
			}
			advice = append(advice, "The stop gate lets it stop all the same: "+why+".")
			h.log.Warn().Err(err).Str("session", e.SessionID).Msg("the stop gate lets a session stop: " + why)
		}
	}
	if len(advice) > 0 {
		out["systemMessage"] = "gchat-hooks: " + strings.Join(advice, " ")
	}
	if block {
		out["decision"], out["reason"] = "block", strings.Join(reasons, "\n\n")
	}
	return out, block
}

// sessions are the names under which other files know this session.
func (h *Hook) sessions(e *Event) []string {
	ids := []string{e.SessionID}
	if name := h.Env("CLAUDE_SESSION_ID"); name != "" && name != e.SessionID {
		ids = append(ids, name)
	}
	return ids
}
