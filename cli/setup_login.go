package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"gchat-hooks/gchat/login"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// readWith takes a file for what it is: an OAuth client to log in with, or credentials.
func (s *setup) readWith(ctx context.Context, path string) error {
	path = s.absolute(path)
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var file struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(b, &file) != nil || file.Type == "" {
		return s.login(ctx, path)
	}
	before := s.config().CredentialsFile
	if err := s.set(ctx, settings.Member{Name: "credentials_file", Value: path}); err != nil {
		return err
	}
	if err := s.read(ctx); err != nil {
		var back any
		if before != "" && before != state.LoginFile(s.env) {
			back = before
		}
		return errors.Join(failed(err, poller.VerifyHint(err), exitNotVerifiable), s.set(ctx, settings.Member{Name: "credentials_file", Value: back}))
	}
	return s.sayReading(nil)
}

// login logs the person in, and sees whether the space can be read then.
func (s *setup) login(ctx context.Context, clientFile string) error {
	cfg := s.config()
	if hook, err := s.known(ctx, cfg); err == nil && cfg.APIEndpoint == "" {
		cfg.APIEndpoint = hook.LocalEndpoint() // where replies are read is known who replies
	}
	if err := s.begun(); err != nil {
		return err
	}
	who, err := login.Run(ctx, login.Options{
		ClientFile: clientFile, Env: s.env, Out: s.out, Pasted: s.ask.lines, NoBrowser: s.noBrowser, Wait: s.wait, Endpoint: cfg.APIEndpoint,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "logged in: %s\n", who)
	if who.User == "" {
		fmt.Fprintf(s.out, "who that is could not be found out: %s\n", plain(who.Unknown.Error()))
	}
	if !who.Ends.IsZero() {
		fmt.Fprintf(s.out, "it ends on %s, for its OAuth client is in Testing: publish the app to make it last\n", who.Ends.Local().Format("Mon 2 Jan 15:04"))
	}
	if file := s.config().CredentialsFile; file != who.File {
		fmt.Fprintf(s.out, "but %s is configured as credentials_file, and is what replies are read with: take it out to use the login\n", file)
	}
	if err := s.mark(notTried); err != nil {
		return err
	}
	if err := s.read(ctx); err != nil {
		return failed(fmt.Errorf("logged in, but the space cannot be read: %w", err), poller.VerifyHint(err), exitNotVerifiable)
	}
	return s.sayReading(nil)
}
