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
	say := func(what string, t *state.Tally) {
		for _, name := range slices.Sorted(maps.Keys(t.Counts)) {
			what += fmt.Sprintf(" %d %s,", t.Counts[name], strings.ReplaceAll(name, "_", " "))
		}
		fmt.Fprintln(&text, state.OneLine(fmt.Sprintf("%s %d lost %s", what, len(t.Lost), strings.Join(t.Lost, " "))))
	}
	say("since "+local(r.Since)+":", r.All)
	if len(r.All.Posted)+len(r.All.Replied)+len(r.All.Told) == 0 {
		return text.String() // nothing was asked
	}
	const times = "posted after %s, answered after %s more, told to Claude after %s more\n"
	fmt.Fprintf(&text, times, r.All.Posted, r.All.Replied, r.All.Told)
	for _, by := range parts {
		for _, key := range slices.Sorted(maps.Keys(r.By[by])) {
			say(strings.TrimSpace(by+" "+r.Names[key])+" "+key+":", r.By[by][key])
		}
	}
	return text.String()
}
