package cli

import (
	"errors"
	"os"

	"github.com/urfave/cli/v2"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

func (p Program) menuCommand() *cli.Command {
	return &cli.Command{
		Name:            "menu",
		HideHelpCommand: true, // "help" is a text like any other
		Usage:           "look at a session's screen and press its keys, checked (also as menu-driver)",
		UsageText:       "menu-driver SESSION ACTION",
		Description: "SESSION is a tmux session, by name or by a beginning that only it has, or a pane, %3.\n" +
			"Look:    menu-driver orch-epic4 snapshot\n" +
			"Answer:  menu-driver orch-epic4 choose 2\n" +
			"Write:   menu-driver orch-epic4 type \"go on with F2.2\", then menu-driver orch-epic4 submit\n" +
			"Keys:    menu-driver orch-epic4 enter, menu-driver orch-epic4 esc\n" +
			"Afresh:  menu-driver orch-epic4 clear_then \"read PLAN.md and begin\"\n" +
			"Exit codes: 0 done, 1 no such session, 2 refused (what is on the screen is said), " +
			"3 pressed without a visible effect, 4 wrong arguments",
		Action: func(c *cli.Context) error {
			words := c.Args().Slice()
			if len(words) < 2 {
				return usage(errors.New("menu-driver takes a session and an action"), "menu-driver --help")
			}
			m := inject.Menu{UserState: state.UserState(os.Getenv), Env: os.Getenv, Out: p.out}
			return m.Run(c.Context, words[0], words[1], words[2:])
		},
	}
}
