package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/login"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

const readingFlag = "gchat-hooks setup --client-id-file FILE (or GCHAT_CLIENT_ID_FILE), --credentials-file FILE (or GOOGLE_CHAT_CREDENTIALS_FILE), or --send-only"

// reading finds what replies are read with, and tries it on the space.
func (s *setup) reading(ctx context.Context) error {
	for _, path := range []string{s.credentials(), s.absolute(s.clientFile)} {
		if _, err := os.Stat(path); path != "" && err != nil {
			return usage(err, readingFlag)
		}
	}
	if said := s.credentials(); said != "" && said != s.config().CredentialsFile {
		if err := s.set(ctx, settings.Member{Name: "credentials_file", Value: said}); err != nil {
			return err
		}
	}
	err := s.read(ctx)
	if s.clientFile != "" && !s.sendOnly && (err != nil || !login.Works(ctx, s.env, s.absolute(s.clientFile))) {
		return s.login(ctx, s.clientFile) // who names a client wants its login, also where reading needs none yet
	}
	if err == nil || s.sendOnly {
		return s.sayReading(err)
	}
	if !s.ask.terminal && gchat.AuthFailure(err) {
		return usage(fmt.Errorf("replies cannot be read: %w", err), readingFlag)
	}
	if !s.ask.terminal {
		return failed(err, poller.VerifyHint(err), exitNotVerifiable)
	}
	fmt.Fprintf(s.out, "\nYour replies cannot be read yet: %s\n  %s\n", plain(err.Error()), poller.VerifyHint(err))
	fmt.Fprintln(s.out, "It takes an OAuth client of your own (type Desktop app, console.cloud.google.com/auth/clients), or a service account's key.")
	for {
		path, err := s.ask.line(ctx, "Path of that JSON file (empty: only send, answer in the terminal):", "", readingFlag)
		if err != nil {
			return err
		}
		if path == "" {
			s.sendOnly = true
			return s.sayReading(nil)
		}
		if err = s.readWith(ctx, path); err == nil || ctx.Err() != nil {
			return err
		}
		fmt.Fprintf(s.out, "That does not work: %s\n  %s\n", plain(err.Error()), hintOf(err))
	}
}

func (s *setup) sayReading(err error) error {
	switch {
	case err == nil && !s.sendOnly:
		s.done("reading", "replies can be read")
	default:
		s.done("reading", "not set up: questions are posted, and answered in the terminal")
		s.sendOnly = true
	}
	return nil
}

// credentials is the file that a script named, as every folder reads it.
func (s *setup) credentials() string {
	path := s.credentialsFile
	if path == "" {
		path = s.env("GOOGLE_CHAT_CREDENTIALS_FILE")
	}
	return s.absolute(path)
}

func (s *setup) absolute(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(state.Home(s.env), rest)
	}
	if abs, err := filepath.Abs(path); err == nil && path != "" {
		return abs
	}
	return path
}

// read lists the space once.
func (s *setup) read(ctx context.Context) error {
	cfg := s.config()
	hook, err := s.known(ctx, cfg)
	if err != nil {
		return err
	}
	r, err := s.reader(ctx, cfg, hook.LocalEndpoint())
	if err != nil {
		return err
	}
	_, err = r.Since(ctx, hook.Space, time.Now(), func([]gchat.Message) {})
	return err
}

func (s *setup) reader(ctx context.Context, cfg *state.Config, local string) (*gchat.Reader, error) {
	if cfg.APIEndpoint != "" {
		local = cfg.APIEndpoint
	}
	return gchat.NewReader(ctx, local, cfg.CredentialsFile)
}

// saidSpace is the space that a script named.
func (s *setup) saidSpace() string { return cmp.Or(s.spaceID, s.env("GOOGLE_CHAT_SPACE_ID")) }

// pickSpace asks which space it is where the webhook's URL does not say: those that the login sees are to choose from.
func (s *setup) pickSpace(ctx context.Context, cfg *state.Config) (string, error) {
	const flag = "gchat-hooks setup --space-id spaces/ID, or GOOGLE_CHAT_SPACE_ID in the environment"
	said := s.saidSpace()
	var spaces []gchat.Space
	if said == "" && s.ask.terminal {
		if r, err := s.reader(ctx, cfg, ""); err == nil {
			spaces, _ = r.Spaces(ctx) // not every kind of credentials may
		}
		for i, space := range spaces {
			fmt.Fprintf(s.out, "  %d  %s (%s)\n", i+1, gchat.Line(space.DisplayName), space.Name)
		}
	}
	for {
		if said == "" {
			var err error
			if said, err = s.ask.line(ctx, "The URL does not say which space it posts to. Its number or id (spaces/…; empty: it is no webhook):", "", flag); err != nil {
				return "", err
			}
			if said == "" {
				return "", failed(gchat.ErrNotWebhook, gchat.Hint(gchat.ErrNotWebhook), exitUsage)
			}
		}
		if n, err := strconv.Atoi(said); err == nil && n > 0 && n <= len(spaces) {
			return spaces[n-1].Name, nil
		}
		id := strings.TrimPrefix(strings.Trim(said, "/ "), "spaces/")
		if id != "" && !strings.ContainsAny(id, "/ ") {
			return "spaces/" + id, nil
		}
		if !s.ask.terminal {
			return "", usage(errors.New("that is no space id"), flag)
		}
		said = ""
	}
}

// people sees to it that somebody may answer: those that a script named, whoever logged in, the person at the page.
func (s *setup) people(ctx context.Context) error {
	listed := s.listed()
	may := slices.Clone(listed)
	wanted := slices.Concat(s.allow, strings.Split(s.env("GCHAT_ALLOWED_USERS"), ","))
	if l, err := state.ReadLogin(state.LoginFile(s.env)); err == nil && !s.sendOnly {
		wanted = append(wanted, l.User)
	}
	wanted = append(wanted, s.space.person())
	for _, who := range wanted {
		who = strings.TrimSpace(who)
		switch {
		case who == "" || slices.Contains(may, who):
		case strings.HasPrefix(who, "users/") && len(who) > len("users/") || strings.Contains(who, "@"):
			may = append(may, who)
		default:
			return usage(fmt.Errorf("%q is neither users/ID nor an e-mail address", who), "gchat-hooks setup --allow users/123456789")
		}
	}
	if len(may) > len(listed) {
		if err := s.set(ctx, settings.Member{Name: "allowed_users", Value: settings.More(may)}); err != nil {
			return err
		}
	}
	switch is := s.config().AllowedUsers; {
	case s.sendOnly:
	case len(may) > 0 || len(is) > 0:
		if len(may) == 0 {
			may = is
		}
		s.done("people", "may answer: %s", gchat.Line(strings.Join(may, ", ")))
	case !s.ask.terminal && (s.trip == nil || !*s.trip):
		return usage(errors.New("nobody may answer yet: --allow users/ID or --allow EMAIL says who (or GCHAT_ALLOWED_USERS)"), "gchat-hooks setup --allow users/ID; a reply in the space's thread tells you your id")
	}
	return nil
}

// listed are the people in the configuration file, without those who are added by themselves.
func (s *setup) listed() []string {
	without := func(name string) string {
		if name == "XDG_STATE_HOME" {
			return filepath.Join(s.file().Path, "nowhere") // no login is there
		}
		return s.kept(name)
	}
	return state.LoadConfig(without, state.ConfigDir(s.env)).AllowedUsers
}
