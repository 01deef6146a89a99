package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/cli/doctor"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/login"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func (p Program) loginCommand() *cli.Command {
	return &cli.Command{
		Name:  "login",
		Usage: "let gchat-hooks read replies as you: you log in with your browser, and it can only read",
		Description: "gchat-hooks login --client-id-file client_secret.json\n" +
			"The file is your own OAuth client's (type Desktop app). Over ssh, paste the address of the page that your browser fails to load.",
		Flags: []cli.Flag{
			&cli.StringFlag{
				Name:  "client-id-file",
				Usage: "the OAuth client's JSON `FILE` (default: the last login's)",
			},
			&cli.BoolFlag{Name: "no-browser", Usage: "print the address, and open no browser"},
			&cli.DurationFlag{
				Name:  "wait",
				Value: 5 * time.Minute,
				Usage: "`TIME` to wait for you",
			},
		},
		Action: func(c *cli.Context) error {
			_, loginErr := config.ReadLogin(config.LoginFile(p.env))
			if loginErr != nil && c.String("client-id-file") == "" {
				err := errors.New(
					"the first login needs your OAuth client's JSON file (type Desktop app)",
				)
				return usageError(err, "gchat-hooks login --client-id-file client_secret.json")
			}
			err := logIn(c.Context, login.Options{
				Getenv:     p.env,
				Out:        p.out,
				NextLine:   newAsker(p.in, p.out).nextLine,
				ClientFile: c.String("client-id-file"),
				NoBrowser:  c.Bool("no-browser"),
				Timeout:    c.Duration("wait"),
			})
			p.ensurePoller() // it can read the replies to open questions with this login
			return err
		},
	}
}

// logIn gets a person's permission to read Google Chat, and prints who has logged in.
func logIn(ctx context.Context, o login.Options) error {
	user, err := login.Run(ctx, o)
	if err != nil {
		return err
	}
	file := config.LoginFile(o.Getenv)
	if user == "" {
		user = "who that is could not be found out\n  " + doctor.Hint(gchat.ErrUnknownPerson)
	}
	fmt.Fprintf(o.Out, "logged in: %s\nthe login is in %s\n", user, file)
	credentialsFile := config.Load(o.Getenv, state.ProjectDir(o.Getenv)).CredentialsFile
	if credentialsFile != file {
		fmt.Fprintf(o.Out, "but replies are read with credentials_file (%s): "+
			"remove that setting to use the login\n", credentialsFile)
	}
	return nil
}

func (p Program) logoutCommand() *cli.Command {
	return &cli.Command{
		Name:  "logout",
		Usage: "end the login, here and at Google",
		Action: func(c *cli.Context) error {
			err := p.logOut(c.Context)
			if err == nil {
				fmt.Fprintf(p.out, "logged out: %s is deleted\n", config.LoginFile(p.env))
			}
			return err
		},
	}
}

func (p Program) logOut(ctx context.Context) error {
	notRevoked, err := login.Logout(ctx, p.env)
	if err == nil && notRevoked != nil {
		fmt.Fprintf(p.out, "Google may not have ended the login (%v): "+
			"end it at https://myaccount.google.com/connections\n", notRevoked)
	}
	return err
}
