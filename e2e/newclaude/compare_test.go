package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/cli/claudecheck"
	"gchat-hooks/e2e/kit"
)

// What differs is tried once more, and counts only if it still differs.
func TestCompare_TriesWhatDiffersOnceMore(t *testing.T) {
	const holds, broken, untried = claudecheck.Holds, claudecheck.Broken, claudecheck.Untried
	type verdicts []claudecheck.Verdict // of a first check, and of a second one of the same
	cases := map[string]struct {
		known, next verdicts
		exitCode    int
		text        string
	}{
		"nothing differs":     {verdicts{holds}, verdicts{holds}, 0, "Nothing changed with Claude Code"},
		"both are broken":     {verdicts{broken}, verdicts{broken}, 0, "Nothing changed"},
		"a row is broken":     {verdicts{holds}, verdicts{broken, broken}, 1, "1 stopped working"},
		"broken for a moment": {verdicts{holds}, verdicts{broken, holds}, 0, "Nothing changed"},
		"the known version is broken for a moment": {
			verdicts{broken, holds}, verdicts{holds}, 0, "Nothing changed",
		},
		"a row is mended":         {verdicts{broken, broken}, verdicts{holds}, 0, "1 work for"},
		"no time for the new one": {verdicts{holds}, verdicts{untried, untried}, 2, "1 could not"},
		"no time at first":        {verdicts{holds}, verdicts{untried, broken}, 1, "1 stopped working"},
		"no time for either": {
			verdicts{untried, untried}, verdicts{untried, untried}, 2, "1 could not be tried",
		},
		"no time for the known":    {verdicts{untried, untried}, verdicts{holds}, 0, "1 work for"},
		"the second check fails":   {verdicts{holds}, verdicts{untried}, 2, "1 could not be tried"},
		"a broken one fails later": {verdicts{holds}, verdicts{broken}, 1, "1 stopped working"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			left := map[string]verdicts{"known": test.known, "new": test.next}
			check := func(claude string, only []string) (claudecheck.Report, error) {
				if len(left[claude]) == 0 {
					return claudecheck.Report{}, errors.New("nothing could be tried")
				}
				verdict := left[claude][0]
				left[claude] = left[claude][1:]
				row := claudecheck.Finding{ID: "row", Claim: "It works", Verdict: verdict}
				if verdict == broken {
					row.Seen, row.Meaning = "it did not", "It does not work."
				}
				other := claudecheck.Finding{ID: "other", Verdict: holds}
				report := claudecheck.Report{Version: claude, Findings: []claudecheck.Finding{other, row}}
				if only != nil {
					kit.Equal(t, only, []string{"row"})
					report.Findings = report.Findings[1:]
				}
				return report, nil
			}
			found, err := compare("known", "new", check)
			kit.NoError(t, err)
			kit.Equalf(t, found.exitCode(), test.exitCode, "exit code")
			kit.Contains(t, found.text(), test.text)
			kit.Equalf(t, len(left["known"])+len(left["new"]), 0, "verdicts that nobody asked for")
			if test.exitCode == exitStopped {
				kit.Contains(t, found.text(), "It works (row)\n    known: works\n    new: does not work")
			}
		})
	}
}

// Without a first report there is nothing to compare.
func TestCompare_FailsWithoutAReport(t *testing.T) {
	for _, failing := range []string{"known", "new"} {
		_, err := compare("known", "new", func(claude string, _ []string) (claudecheck.Report, error) {
			if claude == failing {
				return claudecheck.Report{}, errors.New("no prompt of Claude Code appeared")
			}
			return claudecheck.Report{}, nil
		})
		kit.True(t, err != nil, "%s failed", failing)
	}
}

// The doctor is asked for a report, and its exit code is no error if it printed one.
func TestCheck_ReadsTheDoctorsReport(t *testing.T) {
	home := t.TempDir()
	program := home + "/gchat-hooks"
	for script, problem := range map[string]string{
		`echo '{"version":"2.1.1","findings":[{"id":"'"$*"'"}]}'; exit 2`: "",
		`echo no >&2; exit 1`: "printed no report: exit status 1",
	} {
		kit.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
		report, err := check(home, program, "/claude", []string{"a", "b"})
		if problem != "" {
			kit.True(t, err != nil && strings.Contains(err.Error(), problem), "error: %v", err)
			continue
		}
		kit.NoError(t, err)
		args := strings.Fields(report.Findings[0].ID)
		kit.True(t, slices.Equal(args, strings.Fields(
			"doctor --claude --json --claude-binary /claude --only a --only b")), "arguments: %q", args)
	}
}
