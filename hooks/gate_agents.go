package hooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gchat-hooks/state"
)

// maxTeam bounds a team's configuration, in bytes.
const maxTeam = 4 << 20

// member is one of a team's members, as far as it is known whether it is there.
type member struct {
	Name   words `json:"name"`
	Active words `json:"isActive"`
	Status words `json:"status"`
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
func (h *Hook) checkAgents(e *Event) *finding {
	team, members, err := h.team(e)
	if err != nil {
		h.log.Warn().Err(err).Str("session", e.SessionID).Msg("team not read; the session may stop")
		return nil
	}
	agents := h.asked.cfg.TeamAgents
	if team == "" || slices.ContainsFunc(members, func(m member) bool { return m.active() && m.called(agents) }) {
		return nil
	}
	none := fmt.Sprintf("None of the persistent agents of the team %s is active (%s)", team, strings.Join(agents, ", "))
	return &finding{
		forClaude: none + ", so do not stop yet. Start at least one of them again; if the team's work is done, delete the team.",
		forPerson: none + ".",
	}
}

// team reads the members of the session's team: s3-live and the end of the session's id, else s3-live. It is "" where
// there is none.
func (h *Hook) team(e *Event) (name string, members []member, err error) {
	var names []string
	for _, id := range slices.Backward(h.sessions(e)) {
		if end := id[max(0, len(id)-8):]; filepath.IsLocal(end) && filepath.Base(end) == end {
			names = append(names, "s3-live-"+end)
		}
	}
	for _, name := range append(names, "s3-live") {
		for _, root := range []string{h.Env("CLAUDE_CONFIG_DIR"), filepath.Join(h.Env("HOME"), ".claude")} {
			if !filepath.IsAbs(root) {
				continue
			}
			members, err := teamMembers(filepath.Join(root, "teams", name, "config.json"))
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
				continue
			}
			return name, members, err
		}
	}
	return "", nil, nil
}

func teamMembers(path string) (members []member, err error) {
	b, err := state.ReadPlain(path, maxTeam)
	if err != nil {
		return nil, err
	}
	var team struct {
		Members *[]json.RawMessage `json:"members"`
	}
	if err := json.Unmarshal(b, &team); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if team.Members == nil {
		return nil, fmt.Errorf("%s: members is missing", path)
	}
	for _, raw := range *team.Members {
		var m member
		if json.Unmarshal(raw, &m) == nil {
			members = append(members, m)
		}
	}
	return members, nil
}
