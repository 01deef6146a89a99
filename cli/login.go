package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat/login"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

func (p Program) loginCommand() *cli.Command {
	return &cli.Command{
		Name:  "login",
		Usage: "let this machine read your Google Chat: asks in your browser, for reading only",
		Description: "gchat-hooks login --client-id-file client_secret.json\n" +
			"The file is your own OAuth client's, of type Desktop app. Over ssh, paste the address that the browser ends on.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "client-id-file", Usage: "the OAuth client's JSON `FILE` (default: that of the login that is kept)"},
			&cli.BoolFlag{Name: "no-browser", Usage: "only print the address"},
			&cli.DurationFlag{Name: "wait", Value: 5 * time.Minute, Usage: "wait so `LONG` for you"},
		},
		Action: func(c *cli.Context) error {
			l, err := state.ReadLogin(state.LoginFile(os.Getenv))
			if c.String("client-id-file") == "" && (err != nil || !l.HasClient()) {
				err := errors.New("--client-id-file is missing: the JSON file of an OAuth client of your own, type Desktop app")
				return usage(err, "gchat-hooks login --help")
			}
			// The endpoint is never a project's: who logged in may answer in all of them.
			cfg := state.LoadConfig(os.Getenv, state.ConfigDir(os.Getenv))
			return logIn(c.Context, login.Options{
				Env: os.Getenv, Out: p.out, Paste: newAsker(p.in, p.out).next, Endpoint: cfg.APIEndpoint,
				ClientFile: c.String("client-id-file"), NoBrowser: c.Bool("no-browser"), Wait: c.Duration("wait"),
			})
		},
	}
}

// logIn gets a person's permission to read Google Chat, and says what came of it.
func logIn(ctx context.Context, o login.Options) error {
	who, err := login.Run(ctx, o)
	if err != nil {
		return err
	}
	file := state.LoginFile(o.Env)
	fmt.Fprintf(o.Out, "logged in: %s\nthe login is in %s\n", who, file)
	if who.Unknown != nil {
		why, hint := plain(who.Unknown.Error()), poller.VerifyHint(who.Unknown)
		fmt.Fprintf(o.Out, "who that is could not be found out (%s)\n  %s\n", why, hint)
	}
	if !who.Ends.IsZero() {
		ends := who.Ends.Local().Format("Mon 2 Jan 15:04")
		fmt.Fprintf(o.Out, "it ends on %s, for its OAuth client is in Testing: publish the app to make it last\n", ends)
	}
	if used := state.LoadConfig(o.Env, state.ProjectDir(o.Env)).CredentialsFile; used != file {
		fmt.Fprintf(o.Out, "but replies are read with credentials_file, %s: take it out to use the login\n", used)
	}
	return nil
}

func (p Program) logoutCommand() *cli.Command {
	return &cli.Command{
		Name:   "logout",
		Usage:  "end the login, at Google too",
		Action: func(c *cli.Context) error { return runLogout(c.Context, os.Getenv, p.out) },
	}
}

func runLogout(ctx context.Context, env state.Getenv, out io.Writer) error {
	gone, err := login.Logout(ctx, env)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "logged out: %s is gone\n", gone.File)
	if gone.NotRevoked != nil {
		fmt.Fprintf(out, "Google may still know the login (%v): end it at https://myaccount.google.com/connections\n", gone.NotRevoked)
	}
	return nil
}
