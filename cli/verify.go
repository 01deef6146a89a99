package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/cli/doctor"
	"gchat-hooks/gchat"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
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
			&cli.BoolFlag{Name: "json", Usage: "print the report in place of a line for each way"},
		},
		Action: func(c *cli.Context) error {
			wait, err := config.ParseInterval(c.String("wait"))
			if err != nil {
				return usage(fmt.Errorf("--wait: %w", err), "gchat-hooks verify --help")
			}
			if c.Bool("no-human") {
				wait = 0
			}
			v := verify{env: os.Getenv, out: p.out, errOut: p.errOut, wait: wait, asJSON: c.Bool("json")}
			return v.run(c.Context)
		},
	}
}

// verify makes the round trip.
type verify struct {
	env         state.Getenv
	out, errOut io.Writer
	wait        time.Duration // for a person's reply; 0 asks for none
	asJSON      bool
}

// Exit codes of verify beside 0 and exitUsage.
const (
	exitNotVerifiable = 1 // no webhook, or the space cannot be read
	exitNotVerified   = 2
)

// verifyReport is what a run found, as --json prints it.
type verifyReport struct {
	Chat   string       `json:"chat"`   // host/spaces/S
	Began  time.Time    `json:"began"`  // this machine's clock, UTC
	Passed bool         `json:"passed"` // all passed, or were skipped as asked
	Legs   []doctor.Leg `json:"legs"`
}

func (v *verify) run(ctx context.Context) error {
	log := state.NewLog(v.env, "verify")
	began := time.Now().UTC()
	chat, legs, err := doctor.RoundTrip{
		Env: v.env, Log: log, ProjectDir: state.ProjectDir(v.env), Wait: v.wait,
		Tell: func(sentence string) { fmt.Fprintln(v.errOut, "gchat-hooks:", plain(log.Clean(sentence))) },
	}.Run(ctx)
	if err != nil {
		return failed(errors.New(log.Clean(err.Error())), doctor.Hint(err), exitNotVerifiable)
	}
	r := verifyReport{Chat: chat, Began: began, Passed: true, Legs: legs}
	hint, why := "", ""
	for _, leg := range r.Legs {
		if leg.Status == doctor.LegFail || leg.Status == doctor.LegCut {
			r.Passed, hint, why = false, leg.Hint, leg.What
		}
		if !v.asJSON {
			v.show(leg)
		}
	}
	if v.asJSON {
		e := json.NewEncoder(v.out)
		e.SetIndent("", "  ")
		if err := e.Encode(r); err != nil {
			return err
		}
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
