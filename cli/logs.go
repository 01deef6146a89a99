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
			&cli.BoolFlag{
				Name:  "audit",
				Usage: "the log of decisions: who allowed what, what Claude was told, how each ended",
			},
			&cli.StringFlag{Name: "level", Value: "trace", DefaultText: "all",
				Usage: "only lines of `LEVEL` and above: debug, info, warn, error"},
		},
		Action: p.printLogs,
	}
}

// printLogs prints the last lines of the log, which all hooks and commands write.
func (p Program) printLogs(c *cli.Context) error {
	level, err := zerolog.ParseLevel(c.String("level"))
	if err != nil {
		return usageError(
			errors.New("--level must be debug, info, warn or error"),
			"gchat-hooks logs --help",
		)
	}
	if c.Int("lines") < 0 {
		return usageError(errors.New("--lines must be 0 or more"), "gchat-hooks logs --help")
	}
	path := state.LogPath(p.env)
	if c.Bool("audit") {
		path = state.AuditPath(p.env)
	}
	older, _ := state.ReadPlainOrLink(path+".1", state.MaxFileSize)
	current, err := state.ReadPlainOrLink(path, state.MaxFileSize)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("read the log: %w", err)
	}
	lines := slices.Collect(bytes.Lines(append(older, current...)))
	lines = slices.DeleteFunc(lines, func(line []byte) bool {
		if level == zerolog.TraceLevel {
			return false // every line counts: parse none of up to 20 MB
		}
		entry := struct{ Level zerolog.Level }{zerolog.NoLevel}
		err := json.Unmarshal(line, &entry)
		return err == nil && entry.Level < level // a line that is not JSON is probably a crash
	})
	if len(lines) == 0 {
		fmt.Fprintf(p.out, "no such lines in the log %s\n", path)
	}
	// NO_COLOR: see https://no-color.org
	hasColor := isTerminal(p.out) && p.env("NO_COLOR") == "" && p.env("TERM") != "dumb"
	w := zerolog.ConsoleWriter{Out: p.out, NoColor: !hasColor, TimeFormat: time.DateTime}
	if c.Bool("audit") {
		w.PartsExclude = []string{zerolog.LevelFieldName} // audit lines have no level
	}
	w.FormatPrepare = func(entry map[string]any) error {
		for name, v := range entry {
			if text, ok := v.(string); ok {
				entry[name] = cleanForTerminal(text)
			}
		}
		return nil
	}
	for _, line := range lines[max(0, len(lines)-c.Int("lines")):] {
		if _, err := w.Write(line); err != nil { // the line is not JSON
			fmt.Fprint(p.out, cleanForTerminal(string(line)))
		}
	}
	return nil
}
