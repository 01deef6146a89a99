package state

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"
)

// These are the ids of the contracts with Claude Code on which a question's way depends.
// All contracts are in the table of the package claudecheck.
const (
	ContractQuestion      = "question.answered"
	ContractDialog        = "dialog.open"
	ContractTyped         = "inject.answered"
	ContractPermission    = "permission.allowed"
	ContractPlan          = "plan.decided"
	ContractForm          = "form.filled"
	ContractAgent         = "agent.decided"
	ContractAgentKeyboard = "agent.keyboard"
	ContractDeny          = "deny.wakes"
)

// ReleaseVersion is the version that this source becomes, or became. A release is tagged
// with a "v" before it. The plugins and CHANGELOG.md name it, too:
// TestVersion_IsTheSameEverywhere compares them.
const ReleaseVersion = "0.1.0"

// ClaudeCheck is what was found about one version of Claude Code. It is in the person's
// state, in claude-checks/VERSION.json.
type ClaudeCheck struct {
	CheckedAt time.Time `json:"checked_at"`
	Program   string    `json:"program"` // this program's release, see ReleaseVersion
	// Broken has the ids of the contracts that do not hold.
	Broken []string `json:"broken,omitempty"`
	// Failure says why nothing, or not every contract, could be tried.
	Failure string `json:"failure,omitempty"`
}

// LoadClaudeCheck returns what is known about a version of Claude Code: by a check with
// this release on this machine, else by the versions that were tested before. isKnown is
// false if the version was not checked. What another release found counts until then.
func LoadClaudeCheck(env Getenv, version string) (check ClaudeCheck, isKnown bool) {
	b, err := ReadPlain(claudeCheckPath(env, version), 64<<10)
	hasFile := err == nil && json.Unmarshal(b, &check) == nil
	if hasFile && check.Program == ReleaseVersion {
		return check, true
	}
	if broken, isTested := testedClaudes[version]; isTested {
		return ClaudeCheck{Broken: broken}, true
	}
	isUnreadable := err != nil && !errors.Is(err, fs.ErrNotExist)
	return check, isUnreadable
}

// SaveClaudeCheck records what this release found about a version of Claude Code.
func SaveClaudeCheck(env Getenv, version string, check ClaudeCheck) error {
	return saveClaudeCheck(env, version, ReleaseVersion, check)
}

func saveClaudeCheck(env Getenv, version, program string, check ClaudeCheck) error {
	check.Program = program
	b, err := json.MarshalIndent(check, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(claudeCheckPath(env, version), append(b, '\n'))
}

// IsBroken reports whether a contract does not hold.
func (c ClaudeCheck) IsBroken(contract string) bool { return slices.Contains(c.Broken, contract) }

func claudeCheckPath(env Getenv, version string) string {
	return filepath.Join(UserStateDir(env), "claude-checks", filepath.Base("v"+version)+".json")
}
