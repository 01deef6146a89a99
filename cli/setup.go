package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/state"
)

func (p Program) setupCommand() *cli.Command {
	return &cli.Command{
		Name:  "setup",
		Usage: "from nothing to a question answered: asks for what is missing, tries it, writes it down",
		Description: "On a terminal:  gchat-hooks setup\n" +
			"No Google:      gchat-hooks setup --space\n" +
			"In a script:    GOOGLE_CHAT_WEBHOOK_URL=... gchat-hooks setup --credentials-file key.json --allow users/123\n" +
			"What is configured already is not asked again. Without a terminal nothing is asked.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "webhook-url-file", Usage: "`FILE` with the URL, - for standard input (or $GOOGLE_CHAT_WEBHOOK_URL)"},
			&cli.StringFlag{Name: "webhook-url", Aliases: []string{"webhook"}, Hidden: true}, // a person who tries it is told what to use
			&cli.StringFlag{Name: "space-id", Usage: "the space's `ID`, where the URL does not say it (or $GOOGLE_CHAT_SPACE_ID)"},
			&cli.BoolFlag{Name: "space", Usage: "the embedded space in place of Google"},
			&cli.BoolFlag{Name: "replace", Usage: "with --space: also where questions go to Google now, whose webhook's URL is lost then"},
			&cli.StringFlag{Name: "address", Value: "127.0.0.1:8765", Usage: "`ADDRESS` of the embedded space"},
			&cli.StringFlag{Name: "client-id-file", Usage: "log in with the OAuth client's JSON `FILE`"},
			&cli.StringFlag{Name: "credentials-file", Usage: "read with the credentials in `FILE` (or $GOOGLE_CHAT_CREDENTIALS_FILE)"},
			&cli.BoolFlag{Name: "send-only", Usage: "do not read replies"},
			&cli.BoolFlag{Name: "no-browser", Usage: "only print the address to log in at"},
			&cli.StringSliceFlag{Name: "allow", Usage: "`users/ID` or e-mail that may answer, repeatable (or $GCHAT_ALLOWED_USERS)"},
			&cli.BoolFlag{Name: "round-trip", Usage: "wait for a reply to a test message (asked on a terminal; --no-round-trip)"},
			&cli.BoolFlag{Name: "no-round-trip", Hidden: true},
			&cli.DurationFlag{Name: "wait", Value: 5 * time.Minute, Usage: "wait so `LONG` for you"},
			&cli.BoolFlag{Name: "hooks", Usage: "register the hooks (default; --no-hooks)"},
			&cli.BoolFlag{Name: "no-hooks", Hidden: true},
			&cli.StringSliceFlag{Name: "preset", Usage: "`NAME`, as of install"},
			&cli.BoolFlag{Name: "service", Usage: "have the system keep the daemon running (asked on a terminal; --no-service)"},
			&cli.BoolFlag{Name: "no-service", Hidden: true},
		},
		Action: func(c *cli.Context) error {
			if c.IsSet("webhook-url") {
				return urlInSight("--webhook-url takes no URL")
			}
			return (&setup{Program: p, flags: c, env: os.Getenv, ask: newAsker(p.in, p.out), answers: map[string]string{}}).run(c.Context)
		},
	}
}

// urlInSight refuses the webhook's URL on the command line, and does not repeat it.
func urlInSight(what string) error {
	return usage(fmt.Errorf("%s, for every process list would show it: --webhook-url-file FILE does (- for standard input), "+
		"or GOOGLE_CHAT_WEBHOOK_URL in the environment", what), "gchat-hooks setup --help")
}

// setup is one conversation from nothing to a question answered from the phone. Every step tries what it was told, then
// writes it into the person's configuration, and is done when that has it: so setup can be stopped anywhere, a person who
// did a step by hand is not asked for it, and one who took something out again is.
type setup struct {
	Program
	flags *cli.Context
	env   state.Getenv
	ask   *asker

	answers  map[string]string // by the variable that they could be in: not tried yet
	sendOnly bool              // replies are not read
	changed  bool              // something is configured that was not
	declined bool              // the hooks are registered another time
	page     string            // of the embedded space, where questions go there
	serving  chan error        // the embedded space's end, where setup itself serves it
}

func (s *setup) run(ctx context.Context) error {
	// The last steps need these; the person should not find out there that they fail.
	if _, err := (install{self: s.self}).program(); err != nil {
		return err
	}
	if err := s.readFlags(); err != nil {
		return err
	}
	if s.ask.terminal {
		fmt.Fprintln(s.out, "Enter takes the answer in capitals. Stop with Ctrl-C at any time: run again, setup goes on from there.")
	}
	for _, step := range []func(context.Context) error{s.webhook, s.reading, s.people, s.roundTrip, s.hooks, s.service, s.closing} {
		err := step(ctx)
		if ctx.Err() != nil {
			return errStopped
		}
		if err != nil {
			return err
		}
	}
	return s.stay(ctx)
}

// readFlags takes what flags say in place of variables, and looks whether the configuration can be written later.
func (s *setup) readFlags() error {
	old, err := os.ReadFile(state.ConfigFile(s.env))
	if _, broken := withMembers(old); broken != nil || err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: %w", state.ConfigFile(s.env), cmp.Or(broken, err))
	}
	s.sendOnly = s.flags.Bool("send-only")
	s.answers["GOOGLE_CHAT_SPACE_ID"] = cmp.Or(s.flags.String("space-id"), s.env("GOOGLE_CHAT_SPACE_ID"))
	if file := cmp.Or(s.flags.String("credentials-file"), s.env("GOOGLE_CHAT_CREDENTIALS_FILE")); file != "" {
		file = s.absolute(file)
		if _, err := os.Stat(file); err != nil {
			return usage(err, readingFlag)
		}
		s.answers["GOOGLE_CHAT_CREDENTIALS_FILE"] = file
	}
	s.answers["GOOGLE_CHAT_WEBHOOK_URL"], err = s.readWebhookURL()
	return err
}

// readWebhookURL is the URL that a script gives.
func (s *setup) readWebhookURL() (string, error) {
	file := s.flags.String("webhook-url-file")
	if file == "" {
		return strings.TrimSpace(s.env("GOOGLE_CHAT_WEBHOOK_URL")), nil
	}
	if file == "-" {
		file = "/dev/stdin"
	}
	b, err := os.ReadFile(file)
	if err == nil && len(bytes.TrimSpace(b)) == 0 {
		err = errors.New("there is nothing in the file")
	}
	if err != nil {
		return "", usage(fmt.Errorf("read webhook URL: %w", err), webhookFlag)
	}
	return string(bytes.TrimSpace(b)), nil
}

// said is the environment as the answers complete it.
func (s *setup) said(name string) string {
	if answer, ok := s.answers[name]; ok {
		return answer
	}
	return s.env(name)
}

// kept is the environment without its settings, in no project: the daemon and other shells see what the files say.
func (s *setup) kept(name string) string {
	if name == "CLAUDE_PROJECT_DIR" {
		return s.env("HOME")
	}
	if slices.Contains(state.Variables(), name) {
		return ""
	}
	return s.env(name)
}

// config is the configuration for all projects: a project that setup happens to be called in does not count.
func (s *setup) config(env state.Getenv) *state.Config {
	return state.LoadConfig(env, state.ConfigDir(s.env))
}

// write puts members into the configuration.
func (s *setup) write(members ...member) error {
	if len(members) == 0 {
		return nil
	}
	s.changed = true
	return setMembers(state.ConfigFile(s.env), members...)
}

// answered is what a variable says, to be kept once it was tried: a variable counts in this shell only.
func (s *setup) answered(variable, name, configured string) []member {
	if answer := s.said(variable); answer != "" && answer != configured {
		return []member{{name, answer}}
	}
	return nil
}

// choose is a yes or no that a flag says, else the person, else what goes without asking.
func (s *setup) choose(ctx context.Context, flag, question string, otherwise, unasked bool) (bool, error) {
	switch {
	case s.flags.Bool("no-" + flag):
		return false, nil
	case s.flags.IsSet(flag):
		return s.flags.Bool(flag), nil
	case !s.ask.terminal:
		return unasked, nil
	}
	return s.ask.yes(ctx, question, otherwise, "")
}

// absolute is a path as every folder reads it.
func (s *setup) absolute(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(state.Home(s.env), rest)
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// done says what a step came to, in a line.
func (s *setup) done(step, format string, args ...any) {
	fmt.Fprintf(s.out, "ok    %-9s %s\n", step, fmt.Sprintf(format, args...))
}

// closing has the doctor examine what came of it, and says how to go on. What the doctor finds undoes no step.
func (s *setup) closing(ctx context.Context) error {
	fine, well := 0, true
	for _, f := range (doctor{env: s.kept, errOut: io.Discard}).look(ctx, state.Home(s.env)) {
		ofSending := slices.Contains([]string{"chat.webhook", "chat.post", "chat.endpoint"}, f.ID)
		if s.declined && f.ID == "claude.hooks" || s.sendOnly && strings.HasPrefix(f.ID, "chat.") && !ofSending {
			continue // the person did not want it
		}
		switch f.Level {
		case state.LevelOK:
			fine++
		case state.LevelWarn, state.LevelFail:
			well = well && f.Level != state.LevelFail
			fmt.Fprintf(s.out, "%-4s  %-9s %s\n", f.Level, "doctor", sentence(f))
		}
	}
	s.done("doctor", "%d checks are fine; gchat-hooks doctor shows them", fine)
	if !well {
		fmt.Fprintln(s.out, "\nNot yet: what fails above keeps questions from being answered. Then run gchat-hooks setup again.")
		return nil
	}
	fmt.Fprintln(s.out, "\nDone. Start claude in a folder that you trust (it asks that once) and let it ask you something; "+
		"gchat-hooks status shows what is open.")
	return nil
}
