package wake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/state"
)

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
		ID: "wake-" + uuid.NewString(), Kind: state.MessageWake, SessionID: f.event.SessionID, Urgent: true,
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
	if err := state.Announce(f.Env, state.Open{Kind: state.OpenMessage, Path: m.Path}); err != nil {
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

// readDecision reads what openclaw printed. The agent's reply is the text of the last payload, in result.payloads or payloads,
// and the decision may stand in a code block of it.
func readDecision(printed []byte) decision {
	out := firstObject(printed, func(o output) bool { return o.Decision != "" || o.Payloads != nil || o.Result != nil })
	if out.decision.block() {
		return out.decision
	}
	texts := out.Payloads
	if out.Result != nil {
		texts = append(texts, out.Result.Payloads...)
	}
	for _, t := range slices.Backward(texts) {
		d := firstObject([]byte(t.Text), func(d decision) bool { return d.Decision != "" })
		if d.Decision != "" {
			return d
		}
	}
	return decision{}
}

// firstObject is the first wanted JSON object in a text: a CLI may print lines before it, an agent words and a fence around it.
func firstObject[T any](text []byte, wanted func(T) bool) (none T) {
	for begin := bytes.IndexByte(text, '{'); begin >= 0; begin = bytes.IndexByte(text, '{') {
		text = text[begin:]
		var raw json.RawMessage
		d := json.NewDecoder(bytes.NewReader(text))
		if d.Decode(&raw) != nil {
			text = text[1:]
			continue
		}
		var one T
		if json.Unmarshal(raw, &one) == nil && wanted(one) {
			return one
		}
		text = text[d.InputOffset():]
	}
	return none
}
