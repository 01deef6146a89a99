package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"gchat-hooks/cli/doctor"
	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

func (p Program) verifyCommand() *cli.Command {
	return &cli.Command{
		Name:  "verify",
		Usage: "check in the space itself that threads are kept apart and replies are found",
		Description: "Once:    gchat-hooks verify                 (you reply to one question)\n" +
			"In CI:   gchat-hooks verify --no-human --json\n" +
			"It posts three or four messages, in threads marked [Verify] that can be deleted.\n" +
			"Exit codes: 0 all passed or skipped, 1 no webhook or the space cannot be read, 2 it failed, 4 wrong arguments",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "no-human", Usage: "do not wait for a person's reply"},
			&cli.StringFlag{Name: "wait", Value: "5m", Usage: "wait so `LONG` for that reply"},
			&cli.StringFlag{Name: "report", Usage: "`FILE` for the report (default: in the state folder)"},
			&cli.BoolFlag{Name: "json", Usage: "print the report in place of a line for each way"},
		},
		Action: func(c *cli.Context) error {
			wait, err := state.ParseInterval(c.String("wait"))
			if err != nil {
				return usage(fmt.Errorf("--wait: %w", err), "gchat-hooks verify --help")
			}
			if c.Bool("no-human") {
				wait = 0
			}
			v := verify{env: os.Getenv, out: p.out, errOut: p.errOut, wait: wait, file: c.String("report")}
			v.asJSON = c.Bool("json")
			return v.run(c.Context)
		},
	}
}

// verify makes the round trip, and keeps what it found in a file.
type verify struct {
	env         state.Getenv
	out, errOut io.Writer
	wait        time.Duration // for a person's reply; 0 asks for none
	file        string        // "": in the user state
	asJSON      bool
}

// Exit codes of verify beside 0 and exitUsage.
const (
	exitNotVerifiable = 1 // no webhook, or the space cannot be read
	exitNotVerified   = 2
)

// verifyReport is what a run found, as its file has it.
type verifyReport struct {
	Chat   string       `json:"chat"`  // host/spaces/S
	File   string       `json:"file"`  // where the report is
	Began  time.Time    `json:"began"` // this machine's clock, UTC
	Ended  time.Time    `json:"ended"`
	Passed bool         `json:"passed"` // all passed, or were skipped as asked
	Legs   []doctor.Leg `json:"legs"`
}

func (v *verify) run(ctx context.Context) error {
	path, err := v.reportFile(time.Now())
	if err != nil {
		return err
	}
	project, err := filepath.Abs(state.ProjectDir(v.env))
	if err != nil {
		return err
	}
	log := state.NewLog(v.env, "verify")
	for _, problem := range state.LoadConfig(v.env, project).Problems {
		fmt.Fprintln(v.errOut, "gchat-hooks: warning:", log.Clean(problem.Error()))
	}
	r := verifyReport{File: path, Began: time.Now().UTC(), Passed: true}
	r.Chat, r.Legs, err = doctor.RoundTrip{
		Env: v.env, Log: log, ProjectDir: project, Wait: v.wait,
		Tell: func(sentence string) { fmt.Fprintln(v.errOut, "gchat-hooks:", plain(log.Clean(sentence))) },
	}.Run(ctx)
	if err != nil {
		return failed(errors.New(log.Clean(err.Error())), doctor.Hint(err), exitNotVerifiable)
	}
	hint, why := "", ""
	for _, leg := range r.Legs {
		if leg.Status == doctor.LegFail || leg.Status == doctor.LegCut {
			r.Passed, hint, why = false, leg.Hint, leg.What
		}
		if !v.asJSON {
			v.show(leg)
		}
	}
	r.Ended = time.Now().UTC()
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(path, append(b, '\n'), 0o600, renameio.WithStaticPermissions(0o600)); err != nil {
		return failed(fmt.Errorf("write report: %w", err), "name a file that can be written with --report", exitNotVerifiable)
	}
	if v.asJSON {
		fmt.Fprintf(v.out, "%s\n", b)
	} else {
		fmt.Fprintln(v.out, "report:", path)
	}
	if !r.Passed {
		return failed(errors.New(why), hint, exitNotVerified)
	}
	return nil
}

// show prints a way of the trip. What Chat said may come from something that answers in its place: a terminal must not obey it.
func (v *verify) show(leg doctor.Leg) {
	fmt.Fprintf(v.out, "%-7s  %-3s  %s\n", leg.Status, leg.Name, gchat.Line(plain(leg.What)))
	for key, name := range leg.Threads {
		fmt.Fprintf(v.out, "              %s → %s\n", key, gchat.Line(plain(name)))
	}
}

// reportFile is where the report goes. What stands there is replaced, so it must be a file.
func (v *verify) reportFile(now time.Time) (string, error) {
	wrong := func(format string, args ...any) error {
		return usage(fmt.Errorf("--report: "+format, args...), "gchat-hooks verify --help")
	}
	if v.file == "" {
		dir := state.UserState(v.env)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", failed(fmt.Errorf("make state folder: %w", err),
				"name a file that can be written with --report", exitNotVerifiable)
		}
		return filepath.Join(dir, "gchat-verify-"+now.Format("20060102-150405.000")+".json"), nil
	}
	path, err := filepath.Abs(v.file)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return "", wrong("there is no folder %s", filepath.Dir(path))
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return "", wrong("%s is no file", path)
	}
	return path, nil
}
