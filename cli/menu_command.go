package cli

import (
	"errors"

	"github.com/urfave/cli/v2"

	"gchat-hooks/inject"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func (p Program) menuCommand() *cli.Command {
	return &cli.Command{
		Name:            "menu",
		HideHelpCommand: true, // "help" is a text like any other
		Usage:           "read a session's screen and press its keys (also as menu-driver)",
		UsageText:       "menu-driver SESSION ACTION",
		Description: "SESSION is a tmux session (the beginning of its name is enough), or a pane such as %3.\n" +
			"See the screen:       menu-driver orch-epic4 snapshot\n" +
			"Choose option 2:      menu-driver orch-epic4 choose 2\n" +
			"Send Claude a text:   menu-driver orch-epic4 type \"go on with F2.2\"\n" +
			"Press Enter or Esc:   menu-driver orch-epic4 enter, menu-driver orch-epic4 esc\n" +
			"Send what is typed:   menu-driver orch-epic4 submit\n" +
			"Clear, then send:     menu-driver orch-epic4 clear_then \"read PLAN.md and begin\"\n" +
			"type also presses Enter. While Claude works, Claude Code queues the text. In a question, the text is the answer,\n" +
			"together with what is ticked; after the last of several questions, submit sends the answers. Where text is already\n" +
			"typed, and in a permission, plan or trust dialog, type is refused, and nothing is typed.\n" +
			"In a permission or a plan, choose and enter are refused, unless your configuration file has \"menu_decides\".\n" +
			"Exit codes: 0 done, 1 no such session, 2 refused, 3 pressed without a visible effect, 4 wrong arguments",
		Action: func(c *cli.Context) error {
			args := c.Args().Slice()
			if len(args) < 2 {
				return usageError(
					errors.New("give a session and an action"),
					"menu-driver --help",
				)
			}
			m := inject.Menu{
				UserState: state.UserStateDir(p.env),
				Env:       p.env,
				Out:       p.out,
				// A project's files do not count.
				MayDecide: config.Load(p.env, state.ConfigDir(p.env)).MenuCanDecide,
			}
			return m.Run(c.Context, args[0], args[1], args[2:])
		},
	}
}
