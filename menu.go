package main

import (
	"context"
	"errors"
	"io"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// runMenu is menu-driver: SESSION ACTION [WORD].
func runMenu(ctx context.Context, env state.Getenv, out io.Writer, force bool, words []string) error {
	if len(words) < 2 {
		return usageError{errors.New("menu-driver takes a session and an action"), "menu-driver --help"}
	}
	m := inject.Menu{UserState: state.UserState(env), Env: env, Out: out, Force: force}
	return m.Run(ctx, words[0], words[1], words[2:])
}
