package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/cli/doctor"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func (p Program) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "check everything, and say how to fix what is wrong",
		Description: "Check:  gchat-hooks doctor          (posts nothing; also without a network)\n" +
			"Fix:    gchat-hooks doctor --fix    (permissions, stale pid files, missing links; nothing else)\n" +
			"Try:    gchat-hooks doctor --live   (three messages to the space and back; you reply ok)\n" +
			"Exit codes: 0 all is well, 1 warnings, 2 failures, 4 wrong arguments",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "print a line for every check, not only for problems"},
			&cli.BoolFlag{Name: "json", Usage: "print a JSON object"},
			&cli.BoolFlag{Name: "fix", Usage: "fix what can be fixed safely, and say what was done"},
			&cli.BoolFlag{Name: "live", Usage: "post three messages in two threads, read them back, and wait for your reply"},
			&cli.DurationFlag{Name: "wait", Value: 2 * time.Minute, Usage: "with --live: `TIME` to wait; 0 asks for no reply"},
		},
		Action: func(c *cli.Context) error {
			if c.IsSet("wait") && !c.Bool("live") {
				return usage(errors.New("--wait goes with --live"), "gchat-hooks doctor --help")
			}
			o := p.exam(c.Duration("wait"))
			o.Fix, o.Live = c.Bool("fix"), c.Bool("live")
			report, err := doctor.Run(c.Context, o)
			if err != nil {
				return err
			}
			return p.printReport(report, c.Bool("json"), c.Bool("all"))
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
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "no-human", Usage: "do not wait for a person's reply"},
			&cli.StringFlag{Name: "wait", Value: "5m", Usage: "`TIME` to wait for that reply"},
			&cli.BoolFlag{Name: "json", Usage: "print a JSON object"},
		},
		Action: func(c *cli.Context) error {
			wait, err := config.ParseInterval(c.String("wait"))
			if err != nil {
				return usage(fmt.Errorf("--wait: %w", err), "gchat-hooks verify --help")
			}
			if c.Bool("no-human") {
				wait = 0
			}
			report, err := doctor.RoundTrip(c.Context, p.exam(wait))
			if err != nil {
				return err
			}
			return p.printReport(report, c.Bool("json"), true)
		},
	}
}

// exam is what doctor and verify have in common.
func (p Program) exam(wait time.Duration) doctor.Options {
	tell := func(sentence string) { fmt.Fprintln(p.errOut, "gchat-hooks:", plain(sentence)) }
	return doctor.Options{Env: p.env, Self: p.self, Wait: wait, Tell: tell}
}

// printReport prints what was found, and ends with its exit code.
func (p Program) printReport(report *doctor.Report, asJSON, all bool) error {
	text := report.Text(all)
	if asJSON {
		text = inJSON(report)
	}
	_, err := io.WriteString(p.out, text)
	if err == nil && report.ExitCode != 0 {
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
