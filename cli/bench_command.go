package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"gchat-hooks/cli/bench"
)

func (p Program) benchCommand() *cli.Command {
	return &cli.Command{
		Name:  "bench",
		Usage: "measure on this machine how long hooks and gchat-send take, beside Python and bash programs",
		Description: "It takes about half a minute. All programs run in a temporary folder, and post to a server\n" +
			"on this machine: nothing of yours is read or written, and no network is needed.\n" +
			"Python needs python3, and bash needs jq and curl: what is not there is left out.\n" +
			"Measure:    gchat-hooks bench\n" +
			"More runs:  gchat-hooks bench --rounds 100\n" +
			"On a disk:  TMPDIR=$HOME gchat-hooks bench    (if /tmp is in memory)",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "rounds", Value: 40, Usage: "run each program `N` times"},
			&cli.BoolFlag{Name: "json", Usage: "print a JSON object"},
		},
		Action: p.runBench,
	}
}

// runBench measures in a temporary folder, and prints the report.
func (p Program) runBench(c *cli.Context) error {
	if c.Int("rounds") < 1 {
		return usageError(errors.New("--rounds must be 1 or more"), "gchat-hooks bench --help")
	}
	dir, err := os.MkdirTemp("", "gchat-hooks-bench-")
	if err != nil {
		return err
	}
	b := &bench.Bench{
		Program: p.self, Version: version(), Dir: dir, Rounds: c.Int("rounds"), Progress: p.errOut,
	}
	fmt.Fprint(p.errOut, "Measuring: ")
	report, err := b.Run(c.Context)
	b.Close()
	fmt.Fprintln(p.errOut)
	if removeErr := removeUntilGone(dir); removeErr != nil {
		return fmt.Errorf("remove %s: %w", dir, removeErr)
	}
	switch {
	case c.Context.Err() != nil:
		return errors.New("stopped before the end: nothing is left of it")
	case err != nil:
		return fmt.Errorf("measure: %w", err)
	}
	text := report.Text()
	if c.Bool("json") {
		text = indentedJSON(report)
	}
	_, err = io.WriteString(p.out, text)
	return err
}
