package cli

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"gchat-hooks/cli/doctor"
	"gchat-hooks/state"
)

func (p Program) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "check everything, and say how to fix what is wrong",
		Description: "Check:  gchat-hooks doctor          (posts nothing; also without a network)\n" +
			"Fix:    gchat-hooks doctor --fix    (permissions, stale pid files, missing links; nothing else)\n" +
			"Try:    gchat-hooks verify          (three messages to the space and back; you reply ok)\n" +
			"Exit codes: 0 all is well, 1 warnings, 2 failures, 4 wrong arguments",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "print a line for every check, not only for problems"},
			&cli.BoolFlag{Name: "json", Usage: "print a JSON object"},
			&cli.BoolFlag{Name: "fix", Usage: "fix what can be fixed safely, and say what was done"},
		},
		Action: func(c *cli.Context) error {
			report, err := doctor.Run(c.Context, doctor.Options{Env: os.Getenv, Self: p.self, Fix: c.Bool("fix")})
			if err != nil {
				return err
			}
			return p.printReport(report, c.Bool("json"), c.Bool("all"))
		},
	}
}

// printReport prints what was found, and ends with its exit code.
func (p Program) printReport(report *doctor.Report, asJSON, all bool) (err error) {
	if asJSON {
		_, err = io.WriteString(p.out, inJSON(report))
	} else {
		err = report.Print(p.out, all)
	}
	if err == nil && report.ExitCode != 0 {
		err = silent(errors.New("not all is well"), report.ExitCode)
	}
	return err
}

// inJSON is a report for a program, or for a person who reads it on a terminal.
func inJSON(report any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // a URL keeps its &
	_ = e.Encode(report)   // a report holds nothing that JSON has no words for
	return state.PrintableJSON(b.String())
}
