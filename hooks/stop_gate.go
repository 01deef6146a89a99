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

// The gate sends a session back at most so many times within that time. Claude Code's own
// stop_hook_active mostly ends it earlier; this holds where another hook, or a version of
// it, does not pass that on.
const (
	maxGateBlocks   = 3
	gateBlockWindow = time.Minute
)

// runStopGate is gchat-stop-gate: it keeps a session that rules guard from stopping
// before its person was asked what comes next, and while its team has no persistent
// agent. It never does so for long, and where it cannot tell the session stops.
//
// It makes one decision of all that the checks find. A block that cannot be counted is
// none: it could go round for ever.
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
		isCounted, err := state.SessionsIn(state.UserStateDir(h.Env)).
			CountGateBlock(e.SessionID, time.Now(), maxGateBlocks, gateBlockWindow)
		why := fmt.Sprintf("it was sent back %d times within a minute", maxGateBlocks)
		if err != nil {
			why = "how often it was sent back cannot be written down"
		}
		if isCounted {
			output["decision"], output["reason"] = "block", strings.Join(reasons, "\n\n")
		} else {
			advice = append(append(blocked, advice...), "The stop gate lets it stop all the same: "+why+".")
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

// sessionNames are the names under which other files know this session.
func (h *Hook) sessionNames(e *Event) []string {
	return slices.Compact(nonEmpty(e.SessionID, h.Env("CLAUDE_SESSION_ID")))
}

// recentWindow is how long a question, or its answer, lets its session stop.
const recentWindow = 30 * time.Minute

// checkQuestion finds fault with a session whose person was not asked anything lately.
// Where questions are not forwarded, no record of them tells, and the session stops.
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
	instruction := "The question goes to the terminal and to " + chat + "; wait for the answer and act on it."
	if h.rules(e).AskMode.Traits().KeepsAnswer {
		instruction = "The question goes to " + chat + ", and the call comes back as denied: that is as it should be. " +
			"Then go on with other work or stop; the reply comes to you by itself."
	}
	return "The user was not asked anything within " + state.DescribeDuration(
		recentWindow,
	) + ", so do not stop yet. " +
		"Ask with the AskUserQuestion tool what comes next, with two to four concrete options, " +
		"and say briefly what is done and what is open. " + instruction, "Claude stops without having asked you what comes next."
}

// wasPersonAsked says whether the person was asked a question, in a space or in the
// terminal. A permission, a plan or the next instruction is none: Claude did not say what
// is done, nor ask what comes next.
func (h *Hook) wasPersonAsked(e *Event) bool {
	now, sessions := time.Now(), h.sessionNames(e)
	for _, folder := range append(h.folders(state.MarkersIn), h.folders(state.QuestionsIn)...) {
		questions, loadErrs, _ := folder.OfSessionNames(sessions)
		if len(loadErrs) > 0 {
			h.logSkippedRecords(loadErrs)
		}
		isFound := slices.ContainsFunc(questions, func(q *state.Question) bool {
			if folder.KeepsDamaged && q.Mode != state.ModeNative { // the markers
				return q.Status != state.Cancelled && allowsStop(q, q.WrittenAt, now)
			}
			// also one that the person dismissed
			return q.Kind == state.KindQuestion && allowsStop(q, q.AskedAt, now)
		})
		if isFound {
			return true
		}
	}
	return false
}

// allowsStop says whether a question lets its session stop: it was asked or answered
// lately, or asked in vain. written is the time of its file, which stands for what
// another program did not say.
func allowsStop(q *state.Question, changedAt, now time.Time) bool {
	switch {
	case q.Status == state.Expired,
		q.Status == state.Abandoned,
		q.AskedAt.After(now.Add(state.MarkerClockSlack)):
		return false
	case q.Status == state.TimedOut: // there is nothing more to do about it
		return now.Sub(q.AskedAt) < state.MaxQuestionAge
	}
	if q.ResolvedAt != nil {
		changedAt = *q.ResolvedAt
	}
	return now.Sub(q.AskedAt) < recentWindow ||
		(q.Status != state.Pending || q.HasUnreadReply()) && now.Sub(changedAt) < recentWindow
}

// teamMember is one of a team's members, as far as it is known whether it is there.
type teamMember struct {
	Name     LooseText `json:"name"`
	IsActive LooseText `json:"isActive"`
	Status   LooseText `json:"status"`
}

// goneStatuses are the words for a member that is there no more.
var goneStatuses = []string{
	"stopped", "shutdown", "shut_down", "dead", "inactive", "terminated",
	"exited", "killed", "failed", "crashed", "closed", "ended",
}

func (m teamMember) isPresent() bool {
	status := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(string(m.Status)), "-", "_"))
	return m.IsActive != "false" && !slices.Contains(goneStatuses, status)
}

// isOneOf says whether the member is one of these agents, or one that replaces it:
// s3-heartbeat-2 for s3-heartbeat.
func (m teamMember) isOneOf(agents []string) bool {
	name := strings.ToLower(strings.TrimSpace(string(m.Name)))
	return slices.ContainsFunc(
		agents,
		func(agent string) bool { return strings.HasPrefix(name, strings.ToLower(agent)) },
	)
}

// checkAgents finds fault with a session whose team has lost all its persistent agents.
func (h *Hook) checkAgents(e *Event) (forClaude, forPerson string) {
	team, members, err := h.readTeam(e)
	if err != nil {
		h.log.Warn().Err(err).Str("session", e.SessionID).Msg("team not read; the session may stop")
		return "", ""
	}
	agents := h.config().TeamAgents
	if team == "" ||
		slices.ContainsFunc(
			members,
			func(m teamMember) bool { return m.isPresent() && m.isOneOf(agents) },
		) {
		return "", ""
	}
	problem := fmt.Sprintf(
		"None of the persistent agents of the team %s is active (%s)",
		team,
		strings.Join(agents, ", "),
	)
	return problem + ", so do not stop yet. Start at least one of them again; if the team's work is done, delete the team.",
		problem + "."
}

// readTeam reads the session's team: s3-live with the end of the session's id, else
// s3-live; "" where there is none.
func (h *Hook) readTeam(e *Event) (name string, members []teamMember, err error) {
	configDir := cmp.Or(h.Env("CLAUDE_CONFIG_DIR"), filepath.Join(state.Home(h.Env), ".claude"))
	names := []string{"s3-live"}
	for _, id := range h.sessionNames(e) {
		names = append(names, "s3-live-"+id[max(0, len(id)-8):])
	}
	for _, name := range slices.Backward(names) {
		if filepath.Base(name) != name {
			continue
		}
		b, err := state.ReadPlain(filepath.Join(configDir, "teams", name, "config.json"), 4<<20)
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
			err = nil // a member that is none is passed over
		}
		if err == nil && team.Members == nil {
			err = errors.New("members is missing")
		}
		return name, team.Members, err
	}
	return "", nil, nil
}
