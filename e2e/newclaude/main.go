// Command newclaude runs the check of Claude Code on two versions, and prints what differs:
//
//	newclaude PROGRAM KNOWN NEW [REPORT]
//
// PROGRAM is gchat-hooks, and KNOWN and NEW are two programs of Claude Code. What was found
// about both is written to REPORT as JSON. Exit codes: 0 if everything that holds with KNOWN
// holds with NEW, 1 if something does not, 2 if that could not be found out.
//
// .ci/claude calls it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"gchat-hooks/cli/claudecheck"
)

// checkTimeout is how long a check may take. It ends by itself after 60 s.
const checkTimeout = 2 * time.Minute

func main() {
	exitCode, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "newclaude:", err)
		exitCode = exitUntried
	}
	os.Exit(exitCode)
}

// run does what the program's arguments say, and returns its exit code.
func run(args []string, out io.Writer) (exitCode int, err error) {
	if len(args) < 3 {
		return 0, errors.New("usage: newclaude PROGRAM KNOWN NEW [REPORT]")
	}
	// The results of checks are kept in the home folder, which is not to be the person's.
	home, err := os.MkdirTemp("", "newclaude-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(home)
	try := func(claude string, only []string) (claudecheck.Report, error) {
		return check(home, args[0], claude, only)
	}
	found, err := compare(args[1], args[2], try)
	if err != nil {
		return 0, err
	}
	if len(args) > 3 {
		b, _ := json.MarshalIndent(found, "", "  ") // it always encodes
		if err := os.WriteFile(args[3], append(b, '\n'), 0o644); err != nil {
			return 0, err
		}
	}
	_, err = io.WriteString(out, found.text())
	return found.exitCode(), err
}

// check tries contracts on a Claude Code; nil for only stands for all of them.
func check(home, program, claude string, only []string) (report claudecheck.Report, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	args := []string{"doctor", "--claude", "--json", "--claude-binary", claude}
	for _, id := range only {
		args = append(args, "--only", id)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	// The exit code says that something does not hold. So does the report.
	if json.Unmarshal(out, &report) != nil || len(report.Findings) == 0 {
		return report, fmt.Errorf("the check of %s printed no report: %v", claude, err)
	}
	return report, nil
}
