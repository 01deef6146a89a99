package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/state"
)

const week = 7 // days

func (p Program) statsCommand() *cli.Command {
	return &cli.Command{
		Name:  "stats",
		Usage: "show what was asked and answered, where and how fast, and whether anything was lost",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "days", Value: week, Usage: "of the last `N` days"},
			&cli.BoolFlag{Name: "json", Usage: "print a JSON object"},
		},
		Action: func(c *cli.Context) error {
			if c.Int("days") < 1 {
				return usage(errors.New("--days takes a number of days, 1 or more"), c.Command.HelpName+" --help")
			}
			r := state.ReadStats(p.env, time.Now().AddDate(0, 0, -c.Int("days")))
			text := statsText(r, "day", "project", "session")
			if c.Bool("json") {
				text = inJSON(r)
			}
			_, err := io.WriteString(p.out, plain(text))
			return err
		},
	}
}

// statsText is the report for a person, as a whole and by what is named.
func statsText(r *state.Stats, parts ...string) string {
	var text strings.Builder
	asked := []string{"questions", "permissions", "plans", "instructions"} // they go first, then what became of them
	say := func(what string, t *state.Tally) {
		others := slices.DeleteFunc(slices.Sorted(maps.Keys(t.Counts)), func(name string) bool {
			return slices.Contains(asked, name)
		})
		for _, name := range slices.Concat(asked, others) {
			if n, counted := t.Counts[name]; counted {
				what += fmt.Sprintf(" %s %d,", strings.ReplaceAll(name, "_", " "), n)
			}
		}
		fmt.Fprintln(&text, state.OneLine(fmt.Sprintf("%s lost %d %s", what, len(t.Lost), strings.Join(t.Lost, " "))))
	}
	say("since "+local(r.Since)+":", r.All)
	if len(r.All.Posted)+len(r.All.Replied)+len(r.All.Told) > 0 {
		const times = "asked to posted: %s, posted to answered: %s, answered to told Claude: %s\n"
		fmt.Fprintf(&text, times, r.All.Posted, r.All.Replied, r.All.Told)
	}
	for _, by := range parts {
		for _, key := range slices.Sorted(maps.Keys(r.By[by])) {
			say(strings.TrimSpace(by+" "+r.Names[key])+" "+key+":", r.By[by][key])
		}
	}
	return text.String()
}
