package main

import (
	"fmt"
	"strings"

	"gchat-hooks/cli/claudecheck"
)

// The exit codes of a comparison.
const (
	exitStopped = 1
	exitUntried = 2
)

// comparison is what was found about two versions of Claude Code. The findings of both are
// about the same contracts, in the same order.
type comparison struct {
	Known claudecheck.Report `json:"known"`
	New   claudecheck.Report `json:"new"`
}

// checkFunc tries contracts on a program of Claude Code; nil for only stands for all.
type checkFunc func(claude string, only []string) (claudecheck.Report, error)

// compare checks two programs of Claude Code. What differs is tried once more.
func compare(known, next string, check checkFunc) (c comparison, err error) {
	c.Known, err = check(known, nil)
	if err != nil {
		return c, err
	}
	c.New, err = check(next, nil)
	if err != nil {
		return c, err
	}
	doubtful := c.differing()
	tryAgain(c.Known.Findings, doubtful, known, check)
	tryAgain(c.New.Findings, doubtful, next, check)
	return c, nil
}

// tryAgain tries those of the doubtful contracts that did not hold. If nothing can be
// tried, the findings stay as they are.
func tryAgain(findings []claudecheck.Finding, doubtful []int, claude string, check checkFunc) {
	var only []string
	for _, n := range doubtful {
		if findings[n].Verdict != claudecheck.Holds {
			only = append(only, findings[n].ID)
		}
	}
	if only == nil {
		return
	}
	again, err := check(claude, only)
	if err == nil {
		replaceFindings(findings, again.Findings)
	}
}

// replaceFindings puts what a second check found into the place of what the first one found.
func replaceFindings(findings, again []claudecheck.Finding) {
	for n := range findings {
		for _, f := range again {
			if f.ID == findings[n].ID {
				findings[n] = f
			}
		}
	}
}

// differing returns the indices of the contracts about which the two reports say something
// else, or one says nothing.
func (c comparison) differing() (indices []int) {
	for n, f := range c.New.Findings {
		if f.Verdict != c.Known.Findings[n].Verdict || f.Verdict == claudecheck.Untried {
			indices = append(indices, n)
		}
	}
	return indices
}

// count returns how many of the contracts that differ have a verdict with the new version.
func (c comparison) count(v claudecheck.Verdict) (n int) {
	for _, index := range c.differing() {
		if c.New.Findings[index].Verdict == v {
			n++
		}
	}
	return n
}

func (c comparison) exitCode() int {
	switch {
	case c.count(claudecheck.Broken) > 0:
		return exitStopped
	case c.count(claudecheck.Untried) > 0:
		return exitUntried
	}
	return 0
}

// text says what differs.
func (c comparison) text() string {
	var b strings.Builder
	for _, n := range c.differing() {
		known, next := c.Known.Findings[n], c.New.Findings[n]
		fmt.Fprintf(&b, "%s (%s)\n", next.Claim, next.ID)
		fmt.Fprintf(&b, "    %s: %s\n", c.Known.Version, seen(known))
		fmt.Fprintf(&b, "    %s: %s\n", c.New.Version, seen(next))
		if next.Meaning != "" {
			fmt.Fprintf(&b, "    %s\n", next.Meaning)
		}
	}
	if b.Len() == 0 {
		b.WriteString("Nothing changed")
	} else {
		fmt.Fprintf(&b, "%d stopped working, %d work for the first time, %d could not be tried",
			c.count(claudecheck.Broken), c.count(claudecheck.Holds), c.count(claudecheck.Untried))
	}
	fmt.Fprintf(&b, " with Claude Code %s, compared with %s.\n", c.New.Version, c.Known.Version)
	return b.String()
}

// seen is a contract's verdict, and why.
func seen(f claudecheck.Finding) string {
	if f.Seen == "" {
		return f.Verdict.Words()
	}
	return fmt.Sprintf("%s: %s", f.Verdict.Words(), f.Seen)
}
