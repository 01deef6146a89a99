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
				"Without git, with a copy of DIR as the way back:\n" +
				"         gchat-hooks migrate s3-communicator --harness DIR --apply --copy\n" +
				"Exit codes: 0 done or shown, 1 no harness or no way back, 4 wrong arguments",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "harness", Value: ".", Usage: "the folder `DIR` that holds .claude"},
				&cli.BoolFlag{Name: "apply", Usage: "do what the plan shows, in a clean git tree"},
				&cli.BoolFlag{Name: "copy", Usage: "with --apply: first copy DIR, beside it, in place of the clean git tree"},
			},
			Action: func(c *cli.Context) error {
				o := migrate.Options{Harness: c.String("harness"), Apply: c.Bool("apply"), Copy: c.Bool("copy")}
				return migrate.Run(c.Context, p.out, o)
			},
		}},
		Action: func(*cli.Context) error {
			return usage(errors.New("migrate takes what to migrate from"), "gchat-hooks migrate s3-communicator --harness DIR")
		},
	}
}
