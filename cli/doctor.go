package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/cli/doctor"
)

func (p Program) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "check everything, and say how to fix what is wrong",
		Description: "Check:  gchat-hooks doctor          (posts nothing; also without a network)\n" +
			"Mend:   gchat-hooks doctor --fix    (permissions, stale pid files, missing links; nothing else)\n" +
			"Try:    gchat-hooks doctor --live   (two messages to the space and back; you reply ok)\n" +
			"Exit codes: 0 all is well, 1 warnings, 2 failures, 4 wrong arguments",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "print a line for each check, not for problems alone"},
			&cli.BoolFlag{Name: "json", Usage: "print an object in place of lines"},
			&cli.BoolFlag{Name: "fix", Usage: "mend what can be mended safely, and say what was done"},
			&cli.BoolFlag{Name: "live", Usage: "post two messages in one thread, read them back, and wait for your reply there"},
			&cli.DurationFlag{Name: "wait", Value: 2 * time.Minute, Usage: "with --live, wait so `LONG` for a reply; 0: none"},
		},
		Action: func(c *cli.Context) error {
			o := doctor.Options{Env: os.Getenv, Self: p.self, Fix: c.Bool("fix"), Live: c.Bool("live"), Wait: c.Duration("wait")}
			o.Tell = func(sentence string) { fmt.Fprintln(p.errOut, "gchat-hooks:", sentence) }
			if c.IsSet("wait") && !o.Live {
				return usage(errors.New("--wait goes with --live"), "gchat-hooks doctor --help")
			}
			report, err := doctor.Run(c.Context, o)
			if err != nil {
				return err
			}
			if c.Bool("json") {
				enc := json.NewEncoder(p.out)
				enc.SetEscapeHTML(false)
				enc.SetIndent("", "  ")
				err = enc.Encode(report)
			} else {
				err = report.Print(p.out, c.Bool("all"))
			}
			if err == nil && report.ExitCode != 0 {
				err = silent(errors.New("not all is well"), report.ExitCode)
			}
			return err
		},
	}
}
