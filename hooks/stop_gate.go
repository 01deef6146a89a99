package hooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// The gate sends a session back at most so many times within that time. Claude Code's own stop_hook_active mostly ends it
// earlier; this holds where another hook, or a version of it, does not pass that on.
const (
	mostBlocks   = 3
	blocksWithin = time.Minute
)

// stopGate is gchat-stop-gate: it keeps a session that rules guard from stopping before its person was asked what comes
// next, and while its team has no persistent agent. It never does so for long, and where it cannot tell the session stops.
//
// It makes one decision of all that the checks find. A block that cannot be counted is none: it could go round for ever.
func (h *Hook) stopGate(_ context.Context, e *Event) error {
	switch {
	case e.HookEventName != "Stop", e.AgentID != "", !h.rules(e).StopGate.Guards():
		return nil
	case e.SessionID == "":
		return errors.New("hook event: session_id is missing")
	case e.SentBack():
		return nil
	}
	var reasons, blocked, advice []string
	for _, check := range []struct {
		name string
		find func(*Event) (forClaude, forPerson string)
	}{{config.QuestionAsked, h.checkQuestion}, {config.PersistentAgents, h.checkAgents}} {
		level := h.rules(e).StopGate[check.name]
		if level != config.GateOn && level != config.GateAdvice {
			continue
		}
		switch forClaude, forPerson := check.find(e); {
		case forClaude == "":
		case level == config.GateOn:
			reasons, blocked = append(reasons, forClaude), append(blocked, forPerson)
		default:
			advice = append(advice, forPerson)
		}
	}
	out := map[string]string{}
	if len(reasons) > 0 {
		ok, err := state.SessionsIn(state.UserState(h.Env)).CountGateBlock(e.SessionID, time.Now(), mostBlocks, blocksWithin)
		why := fmt.Sprintf("it was sent back %d times within a minute", mostBlocks)
		if err != nil {
			why = "how often it was sent back cannot be written down"
		}
		if ok {
			out["decision"], out["reason"] = "block", strings.Join(reasons, "\n\n")
		} else {
			advice = append(append(blocked, advice...), "The stop gate lets it stop all the same: "+why+".")
			h.log.Warn().Err(err).Str("session", e.SessionID).Msg("the stop gate lets a session stop: " + why)
		}
	}
	if len(advice) > 0 {
		out["systemMessage"] = "gchat-hooks: " + strings.Join(advice, " ")
	}
	if len(out) == 0 {
		return nil
	}
	return h.Print(out)
}

// sessions are the names under which other files know this session.
func (h *Hook) sessions(e *Event) []string {
	return slices.Compact(nonEmpty(e.SessionID, h.Env("CLAUDE_SESSION_ID")))
}

// recently is how long a question, or its answer, lets its session stop.
const recently = 30 * time.Minute

// checkQuestion finds fault with a session whose person was not asked anything lately. Where questions are not forwarded, no
// record of them tells, and the session stops.
func (h *Hook) checkQuestion(e *Event) (forClaude, forPerson string) {
	forwarded := h.rules(e).AskMode.Row().Asks
	if !forwarded || h.wasAsked(e) || h.keeps(context.Background(), h.config(), state.AskedQuestion) {
		return "", ""
	}
	chat := "Google Chat"
	if h.config().OnPage() {
		chat = "the chat page"
	}
	how := "The question goes to the terminal and to " + chat + "; wait for the answer and act on it."
	if h.rules(e).AskMode.Row().Later {
		how = "The question goes to " + chat + ", and the call comes back as denied: that is as it should be. " +
			"Then go on with other work or stop; the reply comes to you by itself."
	}
	return "The user was not asked anything within " + state.InWords(recently) + ", so do not stop yet. " +
		"Ask with the AskUserQuestion tool what comes next, with two to four concrete options, " +
		"and say briefly what is done and what is open. " + how, "Claude stops without having asked you what comes next."
}

// wasAsked says whether the person was asked a question, in a space or in the terminal. A permission, a plan or the next
// instruction is none: Claude did not say what is done, nor ask what comes next.
func (h *Hook) wasAsked(e *Event) bool {
	now, sessions := time.Now(), h.sessions(e)
	for _, folder := range append(h.folders(state.MarkersIn), h.folders(state.QuestionsIn)...) {
		qs, bad, _ := folder.Mentioning(sessions)
		if len(bad) > 0 {
			h.passedOver(bad)
		}
		asked := slices.ContainsFunc(qs, func(q *state.Question) bool {
			if folder.LeaveAlone && q.Mode != state.Native { // the markers
				return q.Status != state.Cancelled && letsStop(q, q.Written, now)
			}
			return q.Kind == state.AskedQuestion && letsStop(q, q.AskedAt, now) // also one that the person dismissed
		})
		if asked {
			return true
		}
	}
	return false
}

// letsStop says whether a question lets its session stop: it was asked or answered lately, or asked in vain. written is the
// time of its file, which stands for what another program did not say.
func letsStop(q *state.Question, written, now time.Time) bool {
	switch {
	case q.Status == state.Expired, q.Status == state.Abandoned, q.AskedAt.After(now.Add(state.MarkerSlack)):
		return false
	case q.Status == state.TimedOut: // there is nothing more to do about it
		return now.Sub(q.AskedAt) < state.MaxAge
	}
	if q.ResolvedAt != nil {
		written = *q.ResolvedAt
	}
	return now.Sub(q.AskedAt) < recently || (q.Status != state.Pending || q.Unread()) && now.Sub(written) < recently
}

// member is one of a team's members, as far as it is known whether it is there.
type member struct {
	Name   Words `json:"name"`
	Active Words `json:"isActive"`
	Status Words `json:"status"`
}

// gone are the words for a member that is there no more.
var gone = []string{
	"stopped", "shutdown", "shut_down", "dead", "inactive", "terminated",
	"exited", "killed", "failed", "crashed", "closed", "ended",
}

func (m member) active() bool {
	status := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(string(m.Status)), "-", "_"))
	return m.Active != "false" && !slices.Contains(gone, status)
}

// called says whether the member is one of these agents, or one that replaces it: s3-heartbeat-2 for s3-heartbeat.
func (m member) called(agents []string) bool {
	name := strings.ToLower(strings.TrimSpace(string(m.Name)))
	return slices.ContainsFunc(agents, func(agent string) bool { return strings.HasPrefix(name, strings.ToLower(agent)) })
}

// checkAgents finds fault with a session whose team has lost all its persistent agents.
func (h *Hook) checkAgents(e *Event) (forClaude, forPerson string) {
	team, members, err := h.team(e)
	if err != nil {
		h.log.Warn().Err(err).Str("session", e.SessionID).Msg("team not read; the session may stop")
		return "", ""
	}
	agents := h.config().TeamAgents
	if team == "" || slices.ContainsFunc(members, func(m member) bool { return m.active() && m.called(agents) }) {
		return "", ""
	}
	none := fmt.Sprintf("None of the persistent agents of the team %s is active (%s)", team, strings.Join(agents, ", "))
	return none + ", so do not stop yet. Start at least one of them again; if the team's work is done, delete the team.",
		none + "."
}

// team reads the session's team: s3-live with the end of the session's id, else s3-live; "" where there is none.
func (h *Hook) team(e *Event) (name string, members []member, err error) {
	config := cmp.Or(h.Env("CLAUDE_CONFIG_DIR"), filepath.Join(state.Home(h.Env), ".claude"))
	names := []string{"s3-live"}
	for _, id := range h.sessions(e) {
		names = append(names, "s3-live-"+id[max(0, len(id)-8):])
	}
	for _, name := range slices.Backward(names) {
		if filepath.Base(name) != name {
			continue
		}
		b, err := state.ReadPlain(filepath.Join(config, "teams", name, "config.json"), 4<<20)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var team struct {
			Members []member `json:"members"`
		}
		if err == nil {
			err = json.Unmarshal(b, &team)
		}
		if odd := new(json.UnmarshalTypeError); errors.As(err, &odd) {
			err = nil // a member that is none is passed over
		}
		if err == nil && team.Members == nil {
			err = errors.New("members is missing")
		}
		return name, team.Members, err
	}
	return "", nil, nil
}
