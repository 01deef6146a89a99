package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/cli/claudecheck"
	"gchat-hooks/state"
)

// claudeCheckJob is the first argument of the processes that a check of Claude Code starts.
const claudeCheckJob = "claude-check"

// runClaudeCheckJob runs one of those processes.
func (p Program) runClaudeCheckJob(args []string) error {
	switch {
	case len(args) == 3 && args[0] == "guard":
		return claudecheck.Guard(p.in, args[1], args[2])
	case len(args) == 1 && args[0] == "form-server":
		return claudecheck.ServeForms(p.in, p.out, []map[string]any{claudecheck.NameForm()}, nil)
	}
	return fmt.Errorf("no such job: %s", strings.Join(args, " "))
}

// checkClaude tries the Claude Code that is installed, and prints what holds.
func (p Program) checkClaude(c *cli.Context) error {
	path, err := exec.LookPath(cmp.Or(c.String("claude-binary"), "claude"))
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return exitError(fmt.Errorf("find Claude Code: %w", err),
			"install it, or name it: gchat-hooks doctor --claude --claude-binary FILE", exitFailed)
	}
	check := &claudecheck.Check{
		Program: p.self, Claude: path, Only: c.StringSlice("only"),
		GuardArgs:      []string{claudeCheckJob, "guard"},
		FormServerArgs: []string{claudeCheckJob, "form-server"},
	}
	if !c.Bool("json") {
		check.Progress = func(f claudecheck.Finding) { fmt.Fprintln(p.out, findingLine(f)) }
	}
	if c.Bool("report") {
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19) // sessions go first
	}
	report, err := check.Run(c.Context)
	if err != nil {
		return err
	}
	before, isKnown := state.LoadClaudeCheck(p.env, report.Version)
	if !isKnown {
		before.Failure = "no check was made"
	}
	saved := report.Result(before, time.Now())
	if err := state.SaveClaudeCheck(p.env, report.Version, saved); err != nil {
		return err
	}
	if c.Bool("report") && len(saved.Broken) > 0 {
		text := fmt.Sprintf("Not everything works with Claude Code %s:\n\n- %s", report.Version,
			strings.Join(claudecheck.Meanings(saved.Broken), "\n- "))
		return exec.CommandContext(c.Context, p.self, "send", "--queue", "--quiet", "--",
			text).Run()
	}
	if c.Bool("json") {
		_, err = io.WriteString(p.out, indentedJSON(report))
	} else {
		_, err = fmt.Fprintln(p.out, report.Summary())
	}
	if err == nil && report.ExitCode() != 0 {
		err = silentError(errors.New("not everything works"), report.ExitCode())
	}
	return err
}

// findingLine is what a person reads about one contract.
func findingLine(f claudecheck.Finding) string {
	line := fmt.Sprintf("%-18s %s", f.Verdict.Words(), f.Claim)
	if f.Seen != "" {
		line += "\n    " + cleanForTerminal(f.Seen)
	}
	if f.Meaning != "" {
		line += "\n    " + f.Meaning
	}
	return line
}
