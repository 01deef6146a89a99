package cli

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"gchat-hooks/cli/doctor"
	"gchat-hooks/state/config"
)

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
