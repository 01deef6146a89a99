package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/hooks/wake"
	"gchat-hooks/state"
)

func (p Program) wakeCommand() *cli.Command {
	return &cli.Command{
		Name:  "wake",
		Usage: "hand over what waits for OpenClaw agents, now",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "detached", Hidden: true, Usage: "as hooks start it: until nothing waits"},
			&cli.StringFlag{Name: "first", Hidden: true, Usage: "the message in `FILE` before all others"},
			&cli.StringFlag{Name: "started", Hidden: true, Usage: "the process `PID` is handing that over"},
		},
		Action: func(c *cli.Context) error {
			if c.Bool("detached") {
				courier(os.Getenv, c.String("first"), c.String("started")).Run(c.Context)
				return nil
			}
			return runWake(c.Context, os.Getenv, p.out)
		},
	}
}

// courier is the process that a wake hook starts. Where the hook waits for the reply, its stdout is a pipe.
func courier(env state.Getenv, first, shell string) *wake.Courier {
	c := &wake.Courier{Env: env, Log: state.NewLog(env, "wake"), First: first}
	c.Shell, _ = strconv.Atoi(shell) // "" for none
	if info, err := os.Stdout.Stat(); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		c.Reply = os.Stdout
	}
	return c
}

// runWake is for a person: it tries once what waits for agents, and says what does not arrive, and why.
func runWake(ctx context.Context, env state.Getenv, out io.Writer) error {
	sent, left := courier(env, "", "").HandOver(ctx)
	fmt.Fprintf(out, "%d handed over, %d left\n", sent, len(left))
	for _, w := range left {
		why := cmp.Or(w.LastError, "an older one comes first, or it is just being handed over")
		fmt.Fprintf(out, "  %s %s to %s: %s\n", w.CreatedAt.Local().Format(time.DateTime), w.Trigger, w.AgentID, why)
	}
	if len(left) > 0 {
		return failed(fmt.Errorf("not all is handed over: %d wait", len(left)),
			"the next wake hook tries again, and so does the daemon", exitNotDelivered)
	}
	return nil
}
