package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/cli/doctor"
	"gchat-hooks/state"
)

func (p Program) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "check everything, and say how to fix what is wrong",
		Description: "Check:  gchat-hooks doctor            (posts nothing; also without a network)\n" +
			"Try:    gchat-hooks doctor --live     (sends test messages, reads your reply, and prints JSON for an issue)\n" +
			"Claude: gchat-hooks doctor --claude   (tries the installed Claude Code, offline)\n" +
			"In CI:  gchat-hooks doctor --live --wait 0 --json\n" +
			"Exit codes: 0 all is well, 1 warnings, 2 failures, 4 wrong arguments",
		Flags: []cli.Flag{
			&cli.BoolFlag{
				Name:  "all",
				Usage: "print a line for every check, not only for problems",
			},
			&cli.BoolFlag{
				Name:  "live",
				Usage: "post test messages in two threads, read them back, and wait for your reply",
			},
			&cli.DurationFlag{
				Name: "wait", Value: 5 * time.Minute, Usage: "with --live: `TIME` to wait for your reply; without a terminal, 0 unless given",
			},
			&cli.BoolFlag{
				Name:  "claude",
				Usage: "try whether the installed Claude Code works with this version, offline",
			},
			&cli.BoolFlag{Name: "report", Hidden: true}, // the poller sets it: see checkClaude
			&cli.StringSliceFlag{Name: "only", Hidden: true, Usage: "with --claude: try only the check with this `ID`; --json prints the ids"},
			&cli.StringFlag{Name: "claude-binary", Usage: "with --claude: try this `FILE`"},
			&cli.BoolFlag{Name: "json", Usage: "print a JSON object"},
		},
		Action: p.runDoctor,
	}
}

// runDoctor runs the doctor, prints its report, and ends with its exit code.
func (p Program) runDoctor(c *cli.Context) error {
	if !c.Bool("live") && c.IsSet("wait") {
		return usageError(errors.New("--wait needs --live"), "gchat-hooks doctor --help")
	}
	if c.Bool("claude") {
		return p.checkClaude(c)
	}
	o := doctor.Options{
		Env:        p.env,
		Version:    version(),
		Live:       c.Bool("live"),
		PublicPage: lastPublicPage(p.env),
		Notify: func(sentence string) {
			fmt.Fprintln(p.errOut, "gchat-hooks:", cleanForTerminal(sentence))
		},
	}
	if c.IsSet("wait") || isTerminal(p.in) {
		o.Wait = c.Duration("wait")
	}
	report, err := doctor.Run(c.Context, o)
	if err != nil {
		return err
	}
	text := report.Text(c.Bool("all"))
	switch {
	case c.Bool("json") && o.Live:
		text = indentedJSON(report.Live)
	case c.Bool("json"):
		text = indentedJSON(report)
	case o.Live:
		text += "\n" + indentedJSON(report.Live)
	}
	_, err = io.WriteString(p.out, text)
	if err == nil && report.ExitCode != 0 {
		err = silentError(errors.New("not all is well"), report.ExitCode)
	}
	return err
}

// indentedJSON is a report as JSON: for a program, or a person who reads it on a
// terminal.
func indentedJSON(report any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // a URL keeps its &
	_ = e.Encode(report)   // cannot fail: JSON can hold every value of a report
	return state.Clean(state.ForJSON, b.String())
}
