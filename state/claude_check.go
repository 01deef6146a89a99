package state

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// These are the ids of the contracts with Claude Code on which a question's way depends.
// All contracts are in the table of the package claudecheck.
const (
	ContractQuestion      = "question.answered"
	ContractTyped         = "inject.answered"
	ContractPermission    = "permission.allowed"
	ContractPlan          = "plan.decided"
	ContractForm          = "form.filled"
	ContractAgent         = "agent.decided"
	ContractAgentKeyboard = "agent.keyboard"
	ContractDeny          = "deny.wakes"
)

// ClaudeCheck is what was found about one version of Claude Code. It is in the person's
// state, in claude-checks/VERSION.json.
type ClaudeCheck struct {
	CheckedAt time.Time `json:"checked_at"`
	Program   string    `json:"program"` // this program's version
	// Broken has the ids of the contracts that do not hold.
	Broken []string `json:"broken,omitempty"`
	// Meanings says for each of them what it means for a person.
	Meanings []string `json:"meanings,omitempty"`
	// Failure says why nothing, or not every contract, could be tried.
	Failure string `json:"failure,omitempty"`
}

// testedClaudes are the versions of Claude Code with which this version of the program
// was checked, and the contracts that do not hold with them.
var testedClaudes = map[string][]string{
	"2.1.197": nil, "2.1.207": nil, "2.1.217": nil, "2.1.227": nil, "2.1.237": nil,
	"2.1.247": nil, "2.1.257": nil, "2.1.267": nil, "2.1.277": nil, "2.1.287": nil,
	"2.1.299": nil, "2.1.309": nil, "2.1.319": nil, "2.1.332": nil,
}

// LoadClaudeCheck returns what is known about a version of Claude Code: by a check on
// this machine, else by the versions that were tested before. isKnown is false if the
// version was not checked.
func LoadClaudeCheck(env Getenv, version string) (check ClaudeCheck, isKnown bool) {
	b, err := ReadPlain(claudeCheckPath(env, version), 64<<10)
	if err == nil && json.Unmarshal(b, &check) == nil {
		return check, true
	}
	broken, isKnown := testedClaudes[version]
	isKnown = isKnown || err != nil && !errors.Is(err, fs.ErrNotExist)
	return ClaudeCheck{Broken: broken}, isKnown
}

// SaveClaudeCheck records what was found about a version of Claude Code.
func SaveClaudeCheck(env Getenv, version string, check ClaudeCheck) error {
	b, err := json.MarshalIndent(check, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(claudeCheckPath(env, version), append(b, '\n'))
}

// NewestClaudeCheck returns the last check on this machine, and its version of Claude
// Code; "" without one.
func NewestClaudeCheck(env Getenv) (version string, newest ClaudeCheck) {
	paths, _ := filepath.Glob(claudeCheckPath(env, "*"))
	for _, path := range paths {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "v"), ".json")
		check, _ := LoadClaudeCheck(env, name)
		if check.CheckedAt.After(newest.CheckedAt) {
			version, newest = name, check
		}
	}
	return version, newest
}

// IsBroken reports whether a contract does not hold.
func (c ClaudeCheck) IsBroken(contract string) bool { return slices.Contains(c.Broken, contract) }

func claudeCheckPath(env Getenv, version string) string {
	return filepath.Join(UserStateDir(env), "claude-checks", filepath.Base("v"+version)+".json")
}
