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
			"The file is your own OAuth client's, of type Desktop app. Over ssh, open the address elsewhere and paste what the browser shows.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "client-id-file", Usage: "the OAuth client's JSON `FILE` (default: the client of the login that is kept)", EnvVars: []string{"GCHAT_CLIENT_ID_FILE"}},
			&cli.BoolFlag{Name: "no-browser", Usage: "only print the address"},
			&cli.DurationFlag{Name: "wait", Value: 5 * time.Minute, Usage: "wait so `LONG` for you"},
		},
		Action: func(c *cli.Context) error {
			return runLogin(c.Context, os.Getenv, p.in, p.out, c.String("client-id-file"), c.Bool("no-browser"), c.Duration("wait"))
		},
	}
}

func (p Program) logoutCommand() *cli.Command {
	return &cli.Command{
		Name:   "logout",
		Usage:  "end the login, at Google too",
		Action: func(c *cli.Context) error { return runLogout(c.Context, os.Getenv, p.out) },
	}
}

// runLogin gets a person's permission to read Google Chat. Without a client's file it takes the client of the login that is
// kept.
func runLogin(ctx context.Context, env state.Getenv, in io.Reader, out io.Writer, clientFile string, noBrowser bool, wait time.Duration) error {
	if l, err := state.ReadLogin(state.LoginFile(env)); clientFile == "" && (err != nil || !l.HasClient()) {
		return usage(errors.New("--client-id-file is missing: the JSON file of an OAuth client of your own, type Desktop app"), "gchat-hooks login --help")
	}
	if err := state.NoteMade(env, state.Made{}); err != nil {
		return err
	}
	// No project says whom a login is shown to: who that is gets to answer everywhere.
	cfg := state.LoadConfig(env, state.ConfigDir(env))
	who, err := login.Run(ctx, login.Options{
		ClientFile: clientFile, Env: env, Out: out, Pasted: login.Lines(in), NoBrowser: noBrowser, Wait: wait, Endpoint: cfg.APIEndpoint,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "logged in: %s\nthe login is in %s\n", who, who.File)
	if who.User == "" {
		fmt.Fprintf(out, "who that is could not be found out (%v)\n  %s\n", who.Unknown, poller.VerifyHint(who.Unknown))
	}
	if !who.Ends.IsZero() {
		fmt.Fprintf(out, "it ends on %s, for its OAuth client is in Testing: publish the app to make it last\n", who.Ends.Local().Format("Mon 2 Jan 15:04"))
	}
	if cfg = state.LoadConfig(env, state.ProjectDir(env)); cfg.CredentialsFile != who.File {
		fmt.Fprintf(out, "but %s is configured as credentials_file, and is what replies are read with: take it out to use the login\n", cfg.CredentialsFile)
	}
	return nil
}

// runLogout ends the login.
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
