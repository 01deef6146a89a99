package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
)

func (p Program) setupCommand() *cli.Command {
	return &cli.Command{
		Name:  "setup",
		Usage: "from nothing to a question answered: asks for what is missing, tries it, writes it down",
		Description: "On a terminal:  gchat-hooks setup\n" +
			"No Google:      gchat-hooks setup --space\n" +
			"In a script:    GOOGLE_CHAT_WEBHOOK_URL=... gchat-hooks setup --credentials-file key.json --allow users/123\n" +
			"What is done already is not asked again. Without a terminal nothing is asked.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "webhook-url-file", Usage: "`FILE` that holds the webhook URL, - for standard input (or $GOOGLE_CHAT_WEBHOOK_URL itself)", EnvVars: []string{"GCHAT_SETUP_WEBHOOK_URL_FILE"}},
			&cli.StringFlag{Name: "webhook-url", Aliases: []string{"webhook"}, Hidden: true}, // who tries it is told what to use
			&cli.StringFlag{Name: "space-id", Usage: "the space's `ID`, where the URL does not say it (or $GOOGLE_CHAT_SPACE_ID)"},
			&cli.BoolFlag{Name: "space", Usage: "the embedded space in place of Google", EnvVars: []string{"GCHAT_SETUP_SPACE"}},
			&cli.BoolFlag{Name: "replace", Usage: "with --space: also where questions go to Google now, whose webhook's URL is lost then", EnvVars: []string{"GCHAT_SETUP_REPLACE"}},
			&cli.StringFlag{Name: "address", Value: "127.0.0.1:8765", Usage: "`ADDRESS` of the embedded space", EnvVars: []string{"GCHAT_SETUP_ADDRESS"}},
			&cli.StringFlag{Name: "client-id-file", Usage: "log in with the OAuth client's JSON `FILE`", EnvVars: []string{"GCHAT_CLIENT_ID_FILE"}},
			&cli.StringFlag{Name: "credentials-file", Usage: "read with the credentials in `FILE` (or $GOOGLE_CHAT_CREDENTIALS_FILE)"},
			&cli.BoolFlag{Name: "send-only", Usage: "do not read replies", EnvVars: []string{"GCHAT_SETUP_SEND_ONLY"}},
			&cli.BoolFlag{Name: "no-browser", Usage: "only print the address to log in at", EnvVars: []string{"GCHAT_SETUP_NO_BROWSER"}},
			&cli.StringSliceFlag{Name: "allow", Usage: "`users/ID` or an e-mail address that may answer, repeatable (or $GCHAT_ALLOWED_USERS)"},
			&cli.BoolFlag{Name: "round-trip", Usage: "wait for a reply to a test message (asked for on a terminal; --no-round-trip)", EnvVars: []string{"GCHAT_SETUP_ROUND_TRIP"}},
			&cli.BoolFlag{Name: "no-round-trip", Hidden: true},
			&cli.DurationFlag{Name: "wait", Value: 5 * time.Minute, Usage: "wait so `LONG` for you", EnvVars: []string{"GCHAT_SETUP_WAIT"}},
			&cli.BoolFlag{Name: "hooks", Usage: "register the hooks (default; --no-hooks)", EnvVars: []string{"GCHAT_SETUP_HOOKS"}},
			&cli.BoolFlag{Name: "no-hooks", Hidden: true},
			&cli.StringSliceFlag{Name: "preset", Usage: "`NAME`, as of install", EnvVars: []string{"GCHAT_SETUP_PRESET"}},
			&cli.BoolFlag{Name: "service", Usage: "have the system keep the daemon running (asked for on a terminal; --no-service)", EnvVars: []string{"GCHAT_SETUP_SERVICE"}},
			&cli.BoolFlag{Name: "no-service", Hidden: true},
		},
		Action: func(c *cli.Context) error {
			if c.IsSet("webhook-url") {
				return urlInSight("--webhook-url takes no URL")
			}
			said := func(name string) *bool { // a yes, a no, or nothing
				yes, no := c.Bool(name), c.Bool("no-"+name)
				if no {
					yes = false
				}
				if !no && !c.IsSet(name) {
					return nil
				}
				return &yes
			}
			return (&setup{
				env: os.Getenv, self: p.self, out: p.out, ask: newAsker(p.in, p.out),
				setupAnswers: setupAnswers{
					webhookFile: c.String("webhook-url-file"), spaceID: c.String("space-id"), local: c.Bool("space"), replace: c.Bool("replace"), address: c.String("address"),
					clientFile: c.String("client-id-file"), credentialsFile: c.String("credentials-file"), sendOnly: c.Bool("send-only"),
					noBrowser: c.Bool("no-browser"), allow: c.StringSlice("allow"), presets: c.StringSlice("preset"),
					hooks: said("hooks"), service: said("service"), trip: said("round-trip"), wait: c.Duration("wait"),
				},
			}).run(c.Context)
		},
	}
}

// setup is one conversation from nothing to a question answered from the phone: where questions go, what replies are read
// with, who may answer, a message there and back, the hooks, the service, and the doctor's word that all of it fits.
//
// It can be stopped anywhere. What is done is seen from the configuration itself, so that a person who did a step by hand is
// not asked for it, and one who took something out again is.
type setup struct {
	env  state.Getenv
	self string
	out  io.Writer
	ask  *asker
	setupAnswers

	space    *localSpace // the embedded space, where it is used
	endpoint string      // the API endpoint that the environment says, until it is kept
	declined bool        // the hooks are registered another time
}

// setupAnswers are what a script says beforehand. Each is a flag and a variable; where neither is, the terminal is asked.
type setupAnswers struct {
	webhookFile     string // holds the URL, "-" for stdin: a flag with the URL itself could be read in the process list
	spaceID         string
	local           bool   // the embedded space in place of Google
	replace         bool   // also where another space is configured
	address         string // of the embedded space
	clientFile      string // log in with this OAuth client
	credentialsFile string // or read with these
	sendOnly        bool   // or do not read at all
	noBrowser       bool
	allow           []string
	presets         []string
	hooks           *bool // nil: not said
	service         *bool
	trip            *bool // wait for a reply
	wait            time.Duration
}

func (s *setup) run(ctx context.Context) error {
	// The last step needs it; nobody should find that out there.
	if _, err := (install{self: s.self}).program(); err != nil {
		return err
	}
	if err := s.readable(); err != nil {
		return err
	}
	if s.ask.terminal {
		fmt.Fprintln(s.out, "Enter takes the answer in capitals. Stop with Ctrl-C at any time: setup goes on from there when you run it again.")
	}
	for _, step := range []func(context.Context) error{s.webhook, s.reading, s.people, s.tried, s.registered, s.served, s.checked} {
		if err := ctx.Err(); err != nil {
			return errStopped
		}
		if err := step(ctx); err != nil {
			if ctx.Err() != nil {
				return errStopped
			}
			return err
		}
	}
	return s.space.stay(ctx, s)
}

// checked has the doctor look at what came of it, and says how to go on. What the doctor finds is for the person to see
// to: it undoes no step.
func (s *setup) checked(ctx context.Context) error {
	home := state.Home(s.env) // in no project: setup is called anywhere
	env := func(name string) string {
		if name == "CLAUDE_PROJECT_DIR" {
			return home
		}
		return s.kept(name)
	}
	found := doctor{env: env, errOut: io.Discard}.look(ctx, home)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fine, well := 0, true
	for _, f := range found {
		if s.leftOut(f.ID) {
			continue
		}
		well = well && f.Level != state.LevelFail
		switch f.Level {
		case state.LevelWarn, state.LevelFail:
			fmt.Fprintf(s.out, "%-4s  %-9s %s\n", f.Level, "doctor", sentence(f))
		case state.LevelOK:
			fine++
		}
	}
	s.done("doctor", "%d checks are fine; %s doctor shows them", fine, s.command())
	s.overruled()
	if !well {
		fmt.Fprintf(s.out, "\nNot yet: what fails above keeps questions from being answered. Then run %s setup again.\n", s.command())
		return nil
	}
	fmt.Fprintf(s.out, "\nDone. Start claude in a folder that you trust (it asks that once) and let it ask you something; %s status shows what is open.\n", s.command())
	return nil
}

// leftOut says whether a finding is about what the person did not want.
func (s *setup) leftOut(id string) bool {
	reads := strings.HasPrefix(id, "chat.") && id != "chat.webhook" && id != "chat.post" && id != "chat.endpoint"
	return s.declined && id == "claude.hooks" || s.sendOnly && reads
}

// overruled says which variables of this shell go before what the files say: in it, all of the above would be otherwise.
func (s *setup) overruled() {
	here, files := state.LoadConfig(s.env, state.ConfigDir(s.env)), s.config()
	for _, v := range []struct {
		name    string
		differs bool
	}{
		{"GOOGLE_CHAT_WEBHOOK_URL", here.WebhookURL != files.WebhookURL},
		{"GCHAT_API_ENDPOINT", here.APIEndpoint != files.APIEndpoint},
		{"GOOGLE_CHAT_CREDENTIALS_FILE", here.CredentialsFile != files.CredentialsFile},
		{"GCHAT_ALLOWED_USERS", !slices.Equal(here.AllowedUsers, files.AllowedUsers)},
	} {
		if v.differs && s.env(v.name) != "" {
			fmt.Fprintf(s.out, "warn  %-9s %s is set in this shell, and goes before what is configured, for all that starts from here\n", "shell", v.name)
		}
	}
}

// command is what the person types to call us.
func (s *setup) command() string {
	if found, err := exec.LookPath("gchat-hooks"); err == nil {
		a, err1 := os.Stat(found)
		b, err2 := os.Stat(s.self)
		if err1 == nil && err2 == nil && os.SameFile(a, b) {
			return "gchat-hooks"
		}
	}
	return s.self
}

// done says what a step came to, in a line.
func (s *setup) done(step, format string, args ...any) {
	fmt.Fprintf(s.out, "ok    %-9s %s\n", step, fmt.Sprintf(format, args...))
}

// file is the person's own configuration.
func (s *setup) file() settings.File {
	return settings.File{Path: state.ConfigFile(s.env), Mode: 0o600, Env: s.env}
}

// readable says where the configuration cannot be understood, before anything is asked.
func (s *setup) readable() error {
	b, err := os.ReadFile(s.file().Path)
	if err == nil {
		_, err = settings.Set(b)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return settingsError(err, s.file().Path)
	}
	return nil
}

// begun notes which folders were there before us. It stands before whatever is written, and not at the beginning: who goes
// away at the first question leaves no trace.
func (s *setup) begun() error { return state.NoteMade(s.env, state.Made{}) }

// set writes into the configuration, and leaves the rest of it alone.
func (s *setup) set(ctx context.Context, members ...settings.Member) error {
	if err := s.begun(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.file().Path), 0o700); err != nil {
		return fmt.Errorf("make configuration folder: %w", err)
	}
	if members[0].Name != "allowed_users" {
		if err := s.mark(notTried); err != nil {
			return err
		}
	}
	_, err := s.file().Set(ctx, members...)
	if err != nil {
		return settingsError(err, s.file().Path)
	}
	return nil
}

// kept is the environment without its settings: what the daemon and other shells see is what the files say.
func (s *setup) kept(name string) string {
	if slices.Contains(state.Variables(), name) {
		return ""
	}
	return s.env(name)
}

// config is what the files say for all projects: those of the project that setup happens to be called in do not count.
func (s *setup) config() *state.Config {
	cfg := state.LoadConfig(s.kept, state.ConfigDir(s.env))
	if s.endpoint != "" {
		cfg.APIEndpoint = s.endpoint
	}
	return cfg
}

// choose is a yes or no that a flag or variable says, else the person, else what goes without asking.
func (s *setup) choose(ctx context.Context, said *bool, question string, otherwise, unasked bool) (bool, error) {
	switch {
	case said != nil:
		return *said, nil
	case !s.ask.terminal:
		return unasked, nil
	}
	return s.ask.yes(ctx, question, otherwise, "")
}
