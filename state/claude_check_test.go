package state

import (
	"testing"

	"gchat-hooks/e2e/kit"
)

// A check by this release counts before the table of tested versions, and the table
// before a check by another release. What another release found counts for a version that
// nobody else checked, and that version is still to be checked.
func TestLoadClaudeCheck_WhoseCheckCounts(t *testing.T) {
	const tested, untested = "2.1.332", "2.1.999"
	broken := ClaudeCheck{Broken: []string{ContractPlan}}
	for name, test := range map[string]struct {
		version           string
		program           string // that checked; "" for no check
		isBroken, isKnown bool
	}{
		"tested before":                     {tested, "", false, true},
		"tested before, checked here":       {tested, ReleaseVersion, true, true},
		"tested before, checked by another": {tested, "0.0.9", false, true},
		"nobody checked":                    {untested, "", false, false},
		"checked here":                      {untested, ReleaseVersion, true, true},
		"checked by another":                {untested, "0.0.9", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			env := func(name string) string { return map[string]string{"HOME": home}[name] }
			if test.program != "" {
				kit.NoError(t, saveClaudeCheck(env, test.version, test.program, broken))
			}
			check, isKnown := LoadClaudeCheck(env, test.version)
			kit.Equalf(t, check.IsBroken(ContractPlan), test.isBroken, "broken")
			kit.Equalf(t, isKnown, test.isKnown, "known")
		})
	}
}
