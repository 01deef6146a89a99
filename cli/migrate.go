package cli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/hooks/migrate"
)

func (p Program) migrateCommand() *cli.Command {
	return &cli.Command{
		Name:  "migrate",
		Usage: "take a harness from a relay agent to gchat-hooks",
		Subcommands: []*cli.Command{{
			Name:  "s3-communicator",
			Usage: "from the agent of that name",
			Description: "Look:    gchat-hooks migrate s3-communicator --harness DIR\n" +
				"Do it:   gchat-hooks migrate s3-communicator --harness DIR --apply\n" +
				"Back:    gchat-hooks migrate s3-communicator --harness DIR --revert\n" +
				"Exit codes: 0 done or shown, 1 no harness there, 2 some files were left as they are; what is left to look at is listed, and no failure",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "harness", Value: ".", Usage: "the folder `DIR` that holds .claude"},
				&cli.BoolFlag{Name: "apply", Usage: "do what the plan shows"},
				&cli.BoolFlag{Name: "revert", Usage: "take back what --apply did"},
			},
			Action: func(c *cli.Context) error {
				if c.Bool("apply") && c.Bool("revert") {
					return usage(errors.New("--apply and --revert exclude each other"), "gchat-hooks migrate s3-communicator --help")
				}
				return migration{out: p.out, harness: c.String("harness"), apply: c.Bool("apply"), revert: c.Bool("revert")}.run()
			},
		}},
		Action: func(*cli.Context) error {
			return usage(errors.New("migrate takes what to migrate from: s3-communicator"), "gchat-hooks migrate --help")
		},
	}
}

// migration takes a harness from a relay agent to gchat-hooks, or back.
type migration struct {
	out           io.Writer
	harness       string
	apply, revert bool
}

func (m migration) run() error {
	if m.revert {
		out, err := migrate.Revert(m.harness)
		return m.tell(out, err)
	}
	plan, err := migrate.Find(m.harness, time.Now())
	if err != nil {
		return err
	}
	if m.apply {
		out, err := plan.Apply()
		err = m.tell(out, err)
		if out != nil {
			fmt.Fprint(m.out, plan.LookAt(" (by the lines from before)"))
		}
		return err
	}
	fmt.Fprint(m.out, plan.Diff(), plan.Summary())
	if len(plan.Changes) > 0 {
		fmt.Fprintln(m.out, "Nothing was written. --apply does it, and --revert takes it back, byte for byte.")
	}
	return nil
}

func (m migration) tell(o *migrate.Outcome, err error) error {
	if o != nil {
		for _, line := range o.Done {
			fmt.Fprintln(m.out, line)
		}
		for _, look := range o.Refused {
			fmt.Fprintln(m.out, "left as it is:", look)
		}
	}
	if err == nil && o != nil && len(o.Refused) > 0 {
		err = failed(fmt.Errorf("%d files were left as they are", len(o.Refused)), "look at those files; the rest is done", 2)
	}
	return err
}
