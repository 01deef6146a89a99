package cli

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// devicesCommand lists and removes the browsers that the embedded space calls.
func (p Program) devicesCommand() *cli.Command {
	return &cli.Command{
		Name:  "devices",
		Usage: "list the phones and browsers that are notified when something waits",
		Description: "List them:   gchat-hooks space devices\n" +
			"Remove one:  gchat-hooks space devices remove NAME",
		Action: func(*cli.Context) error { return p.listDevices() },
		Subcommands: []*cli.Command{{
			Name: "remove", Usage: "stop notifying a device",
			UsageText: "gchat-hooks space devices remove NAME",
			Action: func(c *cli.Context) error {
				name := strings.Join(c.Args().Slice(), " ")
				if name == "" {
					return usageError(errors.New("no name is given"),
						"gchat-hooks space devices lists them")
				}
				err := space.RemoveDevice(spaceDir(p.env), name)
				if err != nil {
					return exitError(fmt.Errorf("remove %q: %w", name, err),
						"gchat-hooks space devices lists them", exitFailed)
				}
				fmt.Fprintf(p.out, "%s is no longer notified\n", state.OneLine(name))
				return nil
			},
		}},
	}
}

func (p Program) listDevices() error {
	devices, err := space.Devices(spaceDir(p.env))
	if err != nil {
		return exitError(err, "", exitFailed)
	}
	if len(devices) == 0 {
		fmt.Fprintln(p.out, "no device is notified; \"Notify me on this device\" on the page adds one")
		return nil
	}
	format := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return t.Local().Format("2006-01-02 15:04")
	}
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tADDED\tLAST NOTIFIED\tLAST FAILURE")
	for _, d := range devices {
		failure := ""
		switch {
		case d.Refusal != "":
			failure = "not notified: " + state.OneLine(d.Refusal)
		case d.LastFailure != "":
			failure = format(d.FailedAt) + ": " + state.OneLine(d.LastFailure)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n",
			state.OneLine(d.Name), format(d.AddedAt), format(d.CalledAt), failure)
	}
	return table.Flush()
}

// pushSettings returns what the person set about the calls on their devices.
func (d *spaceServer) pushSettings() space.PushSettings {
	cfg := config.LoadPersonal(d.env)
	settings := space.PushSettings{ShowsText: cfg.ShowsPushText, AllowedHosts: cfg.PushHosts}
	if end, isQuiet := cfg.QuietHours.EndAfter(time.Now()); isQuiet {
		settings.QuietUntil = end
	}
	return settings
}
