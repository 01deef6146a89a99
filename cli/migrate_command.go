package cli

import (
	"errors"

	"github.com/urfave/cli/v2"

	"gchat-hooks/cli/migrate"
)

func (p Program) migrateCommand() *cli.Command {
	return &cli.Command{
		Name:      "migrate",
		Usage:     "move a harness from the relay agent s3-communicator to gchat-hooks",
		UsageText: "gchat-hooks migrate s3-communicator [OPTIONS]",
		Description: "Look:    gchat-hooks migrate s3-communicator --harness DIR\n" +
			"Do it:   gchat-hooks migrate s3-communicator --harness DIR --apply\n" +
			"It moves the agent aside, and lists by file and line what to change in your documents.\n" +
			"Exit codes: 0 done or shown, 1 no harness, 4 wrong arguments",
		Flags: []cli.Flag{
			&cli.StringFlag{
				Name:  "harness",
				Value: ".",
				Usage: "the folder `DIR` that holds .claude",
			},
			&cli.BoolFlag{Name: "apply", Usage: "move the agent aside"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 || c.Args().First() != "s3-communicator" {
				return usageError(errors.New("name what to migrate from"),
					"gchat-hooks migrate s3-communicator --harness DIR")
			}
			return migrate.Run(p.out, c.String("harness"), c.Bool("apply"))
		},
	}
}
