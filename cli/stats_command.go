package cli

import (
	"errors"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/state"
)

func (p Program) statsCommand() *cli.Command {
	return &cli.Command{
		Name:  "stats",
		Usage: "show what was asked and answered, where and how fast, and whether anything was lost",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "days", Value: 7, Usage: "count the last `N` days"},
			&cli.BoolFlag{Name: "json", Usage: "print a JSON object"},
		},
		Action: func(c *cli.Context) error {
			if c.Int("days") < 1 {
				return usageError(
					errors.New("--days must be 1 or more"),
					c.Command.HelpName+" --help",
				)
			}
			r := state.ReadStats(p.env, time.Now().AddDate(0, 0, -c.Int("days")))
			text := r.Text("day", "project", "session")
			if c.Bool("json") {
				text = indentedJSON(r)
			}
			_, err := io.WriteString(p.out, cleanForTerminal(text))
			return err
		},
	}
}
