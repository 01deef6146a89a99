package hooks

import (
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

// The gate sends a session back at most maxGateBlocks times within gateBlockWindow.
// Usually Claude Code's own stop_hook_active ends it earlier. This limit is for another
// hook, or a version of Claude Code, that does not pass stop_hook_active on.
const (
	maxGateBlocks   = 3
	gateBlockWindow = time.Minute
)

// runStopGate is gchat-stop-gate. It keeps a session that rules guard from stopping
// before the person was asked what comes next, and while its team has no persistent
// agent. It never does so for long. If it cannot find out, the session may stop.
//
// It makes one decision from all that the checks find. A block that cannot be counted is
// not made, since it could repeat forever.
func (h *Hook) runStopGate(_ context.Context, e *Event) error {
	switch {
	case e.HookEventName != "Stop", e.AgentID != "", !h.rules(e).StopGate.HasChecks():
		return nil
	case e.SessionID == "":
		return errors.New("hook event: session_id is missing")
	case e.IsStopHookActive():
		return nil
	}
	var reasons, blocked, advice []string
	for _, check := range []struct {
		name string
		find func(*Event) (forClaude, forPerson string)
	}{{config.GateQuestionAsked, h.checkQuestion}, {config.GatePersistentAgents, h.checkAgents}} {
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
	output := map[string]string{}
	if len(reasons) > 0 {
		isCounted, err := h.sessions().CountGateBlock(
			e.SessionID, time.Now(), maxGateBlocks, gateBlockWindow)
		why := fmt.Sprintf("it was sent back %d times within a minute", maxGateBlocks)
		if err != nil {
			why = "how often it was sent back cannot be written down"
		}
		if isCounted {
			output["decision"], output["reason"] = "block", strings.Join(reasons, "\n\n")
		} else {
			advice = append(append(blocked, advice...), "The stop gate lets Claude stop: "+why+".")
			h.log.Warn().Err(err).Str("session", e.SessionID).Msg("the stop gate lets a session stop: " + why)
		}
	}
	if len(advice) > 0 {
		output["systemMessage"] = "gchat-hooks: " + strings.Join(advice, " ")
	}
	if len(output) == 0 {
		return nil
	}
	return h.Print(output)
}

// sessionNames are the names by which other files know this session.
func (h *Hook) sessionNames(e *Event) []string {
	return slices.Compact(nonEmpty(e.SessionID, h.Env("CLAUDE_SESSION_ID")))
}

// recentWindow is how long after a question, or after its answer, its session may stop.
const recentWindow = 30 * time.Minute

// checkQuestion objects if the session's person was not asked anything lately. Without
// forwarded questions there are no records of them, and it does not object.
func (h *Hook) checkQuestion(e *Event) (forClaude, forPerson string) {
	isForwarded := h.rules(e).AskMode.Traits().Asks
	if !isForwarded || h.wasPersonAsked(e) ||
		h.isKeptInTerminal(context.Background(), h.config(), state.KindQuestion) {
		return "", ""
	}
	chat := "Google Chat"
	if h.config().UsesChatPage() {
		chat = "the chat page"
	}
	instruction := "The question goes to the terminal and to " + chat +
		"; wait for the answer and act on it."
	if h.rules(e).AskMode.Traits().KeepsAnswer {
		instruction = "The question goes to " + chat + ", and the call comes back as denied. " +
			"That is intended. Then go on with other work or stop; the reply comes to you by itself."
	}
	forClaude = "The user was not asked anything within " + state.DescribeDuration(recentWindow) +
		", so do not stop yet. " +
		"Ask with the AskUserQuestion tool what comes next, with two to four concrete options, " +
		"and say briefly what is done and what is open. " + instruction
	return forClaude, "Claude stops without having asked you what comes next."
}

// wasPersonAsked reports whether the person was asked a question, in a space or in the
// terminal. A permission, a plan or a next instruction does not count: with these Claude
// neither said what is done nor asked what comes next.
func (h *Hook) wasPersonAsked(e *Event) bool {
	now, sessions := time.Now(), h.sessionNames(e)
	for _, folder := range append(h.folders(state.MarkersIn), h.folders(state.QuestionsIn)...) {
		questions, loadErrs, _ := folder.OfSessionNames(sessions)
		if len(loadErrs) > 0 {
			h.logSkippedRecords(loadErrs)
		}
		isFound := slices.ContainsFunc(questions, func(q *state.Question) bool {
			if folder.KeepsDamaged && q.Mode != state.ModeNative { // a marker
				return q.Status != state.Cancelled && allowsStop(q, q.WrittenAt, now)
			}
			// A question that the person dismissed counts as well.
			return q.Kind == state.KindQuestion && allowsStop(q, q.AskedAt, now)
		})
		if isFound {
			return true
		}
	}
	return false
}

// allowsStop reports whether a question lets its session stop: it was asked or answered
// lately, or timed out. changedAt is when its file was written. That stands in for the
// time of an answer which another program did not give.
func allowsStop(q *state.Question, changedAt, now time.Time) bool {
	switch {
	case q.Status == state.Expired,
		q.Status == state.Abandoned,
		q.AskedAt.After(now.Add(state.MarkerClockSlack)):
		return false
	case q.Status == state.TimedOut: // nothing more can be done about it
		return now.Sub(q.AskedAt) < state.MaxQuestionAge
	}
	if q.ResolvedAt != nil {
		changedAt = *q.ResolvedAt
	}
	return now.Sub(q.AskedAt) < recentWindow ||
		(q.Status != state.Pending || q.HasUnreadReply()) && now.Sub(changedAt) < recentWindow
}

// teamMember is a member of a team, with what says whether the member is active.
type teamMember struct {
	Name     LooseText `json:"name"`
	IsActive LooseText `json:"isActive"`
	Status   LooseText `json:"status"`
}

// goneStatuses are the statuses of a member that is not active.
var goneStatuses = []string{
	"stopped", "shutdown", "shut_down", "dead", "inactive", "terminated",
	"exited", "killed", "failed", "crashed", "closed", "ended",
}

// isPresent reports whether the member is active, as far as the team's file says.
func (m teamMember) isPresent() bool {
	status := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(string(m.Status)), "-", "_"))
	return m.IsActive != "false" && !slices.Contains(goneStatuses, status)
}

// isOneOf reports whether the member is one of these agents, or replaces one:
// s3-heartbeat-2 replaces s3-heartbeat.
func (m teamMember) isOneOf(agents []string) bool {
	name := strings.ToLower(strings.TrimSpace(string(m.Name)))
	return slices.ContainsFunc(agents, func(agent string) bool {
		return strings.HasPrefix(name, strings.ToLower(agent))
	})
}

// checkAgents objects if the session's team has lost all its persistent agents.
func (h *Hook) checkAgents(e *Event) (forClaude, forPerson string) {
	team, members, err := h.readTeam(e)
	if err != nil {
		h.log.Warn().Err(err).Str("session", e.SessionID).Msg("team not read: the session may stop")
		return "", ""
	}
	agents := h.config().TeamAgents
	isActive := func(m teamMember) bool { return m.isPresent() && m.isOneOf(agents) }
	if team == "" || slices.ContainsFunc(members, isActive) {
		return "", ""
	}
	problem := fmt.Sprintf("None of the persistent agents of the team %s is active (%s)",
		team, strings.Join(agents, ", "))
	forClaude = problem + ", so do not stop yet. Start at least one of them again. " +
		"If the team's work is done, delete the team."
	return forClaude, problem + "."
}

// readTeam reads the session's team: the one named s3-live and the end of the session's
// id, else s3-live. The name is "" if there is none.
func (h *Hook) readTeam(e *Event) (name string, members []teamMember, err error) {
	names := []string{"s3-live"}
	for _, id := range h.sessionNames(e) {
		names = append(names, "s3-live-"+id[max(0, len(id)-8):])
	}
	for _, name := range slices.Backward(names) {
		if filepath.Base(name) != name {
			continue
		}
		file := filepath.Join(state.ClaudeDir(h.Env), "teams", name, "config.json")
		b, err := state.ReadPlain(file, 4<<20)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var team struct {
			Members []teamMember `json:"members"`
		}
		if err == nil {
			err = json.Unmarshal(b, &team)
		}
		if typeErr := new(json.UnmarshalTypeError); errors.As(err, &typeErr) {
			err = nil // a member of another form is skipped
		}
		if err == nil && team.Members == nil {
			err = errors.New("members is missing")
		}
		return name, team.Members, err
	}
	return "", nil, nil
}
