package claudecheck

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

// A check of some contracts, or one without time for all, says nothing about the others.
func TestReport_KeepsWhatWasNotTried(t *testing.T) {
	before := state.ClaudeCheck{
		Broken: []string{state.ContractQuestion, state.ContractPermission, state.ContractPlan},
	}
	report := Report{Findings: []Finding{
		{ID: state.ContractPermission, Verdict: Holds},
		{ID: state.ContractPlan, Verdict: Untried},
		{ID: state.ContractForm, Verdict: Broken},
	}}
	result := report.Result(before, time.Now())
	for contract, want := range map[string]bool{
		state.ContractQuestion: true, state.ContractPermission: false,
		state.ContractPlan: true, state.ContractForm: true, state.ContractTyped: false,
	} {
		kit.Equalf(t, result.IsBroken(contract), want, "%s is broken", contract)
	}
	kit.Equal(t, len(Meanings(result.Broken)), 3)
	kit.Equal(t, result.Failure, "")
	before.Failure = "no check was made"
	kit.Contains(t, report.Result(before, time.Now()).Failure, "checks were not made")
}

// Whoever may run this program, such as Claude, cannot have the guard remove any folder.
func TestGuard_RemovesOnlyTheFolderOfACheck(t *testing.T) {
	parent := t.TempDir()
	mark := strings.Repeat("M", 26)
	for _, dir := range []string{
		filepath.Join(parent, "home"), filepath.Join(parent, "gc-1"),
		os.TempDir() + "/gc-1/../" + filepath.Base(parent),
	} {
		kit.NoError(t, os.MkdirAll(filepath.Join(parent, filepath.Base(dir)), 0o700))
		kit.True(t, Guard(strings.NewReader(""), dir, mark) != nil, "%s is taken", dir)
	}
	for _, name := range []string{"home", "gc-1"} {
		_, err := os.Stat(filepath.Join(parent, name))
		kit.NoError(t, err)
	}
}
