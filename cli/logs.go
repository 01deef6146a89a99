package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"gchat-hooks/state"
)

func (p Program) logsCommand() *cli.Command {
	return &cli.Command{
		Name:  "logs",
		Usage: "print the log's last lines",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "lines", Value: 50, Usage: "the last `N` lines"},
			&cli.BoolFlag{Name: "audit", Usage: "the log of decisions: who allowed what, and what Claude was told"},
			&cli.StringFlag{Name: "level", Value: "trace", Usage: "only lines of `LEVEL` and above: debug, info, warn, error"},
		},
		Action: func(c *cli.Context) error {
			level, err := zerolog.ParseLevel(c.String("level"))
			if err != nil {
				return usage(errors.New("--level takes debug, info, warn or error"), "gchat-hooks logs --help")
			}
			l := logs{
				Program: p, path: state.LogPath(p.env), level: level, lines: c.Int("lines"),
			}
			if c.Bool("audit") {
				l.path = state.AuditPath(p.env)
			}
			return l.run()
		},
	}
}

// logs shows the log: what all jobs of this machine wrote.
type logs struct {
	Program
	path  string
	level zerolog.Level // and above
	lines int
}

func (l logs) run() error {
	older, _ := os.ReadFile(l.path + ".1")
	now, err := os.ReadFile(l.path)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("read the log: %w", err)
	}
	lines := slices.Collect(bytes.Lines(append(older, now...)))
	lines = slices.DeleteFunc(lines, func(line []byte) bool { return !l.wants(line) })
	if len(lines) == 0 {
		fmt.Fprintf(l.out, "no such lines in the log, %s\n", l.path)
	}
	for _, line := range lines[max(0, len(lines)-max(0, l.lines)):] {
		l.print(line)
	}
	return nil
}

// wants says whether a line is of the level. What is not JSON is a crash, most likely.
func (l logs) wants(line []byte) bool {
	var entry struct{ Level string }
	if json.Unmarshal(line, &entry) != nil {
		return true
	}
	level, _ := zerolog.ParseLevel(entry.Level)
	return level >= l.level
}

func (l logs) print(line []byte) {
	if !json.Valid(line) {
		fmt.Fprint(l.out, plain(string(line)))
		return
	}
	colour := isTerminal(l.out) && l.env("NO_COLOR") == "" && l.env("TERM") != "dumb" // see no-color.org
	w := zerolog.ConsoleWriter{Out: l.out, NoColor: !colour, TimeFormat: time.DateTime}
	w.FormatPrepare = func(entry map[string]any) error {
		for name, v := range entry {
			if text, ok := v.(string); ok {
				entry[name] = plain(text)
			}
		}
		return nil
	}
	_, _ = w.Write(line)
}
