package cli

import (
	"errors"

	"github.com/urfave/cli/v2"

	"gchat-hooks/cli/migrate"
)

func (p Program) migrateCommand() *cli.Command {
	return &cli.Command{
		Name:  "migrate",
		Usage: "move a harness from a relay agent to gchat-hooks",
		Subcommands: []*cli.Command{{
			Name:  "s3-communicator",
			Usage: "move from the agent s3-communicator",
			Description: "Look:    gchat-hooks migrate s3-communicator --harness DIR\n" +
				"Do it:   gchat-hooks migrate s3-communicator --harness DIR --apply\n" +
				"Exit codes: 0 done or shown, 1 no harness or no way back, 4 wrong arguments",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "harness", Value: ".", Usage: "the folder `DIR` that holds .claude"},
				&cli.BoolFlag{Name: "apply", Usage: "do what the plan shows, in a clean git tree"},
			},
			Action: func(c *cli.Context) error {
				return migrate.Run(c.Context, p.out, migrate.Options{Harness: c.String("harness"), Apply: c.Bool("apply")})
			},
		}},
		Action: func(*cli.Context) error {
			return usage(errors.New("migrate takes what to migrate from"), "gchat-hooks migrate s3-communicator --harness DIR")
		},
	}
}
