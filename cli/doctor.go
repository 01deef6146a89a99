package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/cli/doctor"
	"gchat-hooks/state"
)

func (p Program) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "check everything, and say how to fix what is wrong",
		Description: "Check:  gchat-hooks doctor          (posts nothing; also without a network)\n" +
			"Fix:    gchat-hooks doctor --fix    (permissions, stale pid files, missing links; nothing else)\n" +
			"Try:    gchat-hooks doctor --live   (verify, what Google's documents leave open, and JSON for an issue)\n" +
			"Exit codes: 0 all is well, 1 warnings, 2 failures, 4 wrong arguments",
		Flags: append(liveFlags(),
			&cli.BoolFlag{Name: "all", Usage: "print a line for every check, not only for problems"},
			&cli.BoolFlag{Name: "fix", Usage: "fix what can be fixed safely, and say what was done"},
			&cli.BoolFlag{Name: "live", Usage: "post test messages in two threads, read them back, and wait for your reply"},
		),
		Action: func(c *cli.Context) error {
			if !c.Bool("live") && (c.IsSet("wait") || c.Bool("no-human")) {
				return usage(errors.New("--wait and --no-human go with --live"), "gchat-hooks doctor --help")
			}
			return p.examine(c, doctor.Run)
		},
	}
}

func (p Program) verifyCommand() *cli.Command {
	return &cli.Command{
		Name:  "verify",
		Usage: "send test messages to the space, and check that your reply comes back",
		Description: "Once:    gchat-hooks verify                 (you reply to one question)\n" +
			"In CI:   gchat-hooks verify --no-human --json\n" +
			"It posts three or four messages, in threads marked [Verify].\n" +
			"Exit codes: 0 all passed or skipped, 1 no webhook or the space cannot be read, 2 it failed, 4 wrong arguments",
		Flags:  liveFlags(),
		Action: func(c *cli.Context) error { return p.examine(c, doctor.RoundTrip) },
	}
}

// liveFlags are those of the round trip, and of its report.
func liveFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "no-human", Usage: "do not wait for a person's reply"},
		&cli.DurationFlag{Name: "wait", Value: 5 * time.Minute, Usage: "`TIME` to wait for it; without a terminal only if given"},
		&cli.BoolFlag{Name: "json", Usage: "print a JSON object"},
	}
}

// examine runs doctor or verify, prints what was found, and ends with its exit code.
func (p Program) examine(c *cli.Context, run func(context.Context, doctor.Options) (*doctor.Report, error)) error {
	o := doctor.Options{
		Env: p.env, Self: p.self, Version: version(), Fix: c.Bool("fix"), Live: c.Bool("live"),
		Tell: func(sentence string) { fmt.Fprintln(p.errOut, "gchat-hooks:", plain(sentence)) },
	}
	if !c.Bool("no-human") && (c.IsSet("wait") || isTerminal(p.in)) {
		o.Wait = c.Duration("wait")
	}
	report, err := run(c.Context, o)
	if err != nil {
		return err
	}
	text := report.Text(c.Bool("all") || c.Command.Name == "verify")
	switch {
	case c.Bool("json") && o.Live:
		text = inJSON(report.Live)
	case c.Bool("json"):
		text = inJSON(report)
	case o.Live:
		text += "\n" + inJSON(report.Live)
	}
	if _, err = io.WriteString(p.out, text); err == nil && report.ExitCode != 0 {
		err = silent(errors.New("not all is well"), report.ExitCode)
	}
	return err
}

// inJSON is a report for a program, or for a person who reads it on a terminal.
func inJSON(report any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // a URL keeps its &
	_ = e.Encode(report)   // a report holds nothing that JSON has no words for
	return state.Clean(state.ForJSON, b.String())
}
