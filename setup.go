package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
)

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

	space   *localSpace // the embedded space, where it is used
	changed bool        // what is posted or read with is new: it has to be tried
}

// setupAnswers are what a script says beforehand. Each is a flag and a variable; where neither is, the terminal is asked.
type setupAnswers struct {
	webhookFile     string // holds the URL, "-" for stdin: a flag with the URL itself could be read in the process list
	spaceID         string
	local           bool   // the embedded space in place of Google
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
	if err := state.NoteMade(s.env, state.Made{}); err != nil {
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
	fmt.Fprintln(s.out, "\nDone. Start claude and let it ask you something; gchat-hooks status shows what is open.")
	return s.space.stay(ctx, s)
}

// checked has the doctor look at what came of it. What it finds is for the person to see to: it undoes no step.
func (s *setup) checked(ctx context.Context) error {
	home := s.env("HOME") // in no project: setup is called anywhere
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
	fine := 0
	for _, f := range found {
		switch f.Level {
		case state.LevelWarn, state.LevelFail:
			fmt.Fprintf(s.out, "%-4s  %-9s %s\n", f.Level, "doctor", sentence(f))
		case state.LevelOK:
			fine++
		}
	}
	s.done("doctor", "%d checks are fine; gchat-hooks doctor shows them", fine)
	return nil
}

// done says what a step came to, in a line.
func (s *setup) done(step, format string, args ...any) {
	fmt.Fprintf(s.out, "ok    %-9s %s\n", step, fmt.Sprintf(format, args...))
}

// file is the person's own configuration.
func (s *setup) file() settings.File {
	path := s.env("GCHAT_CONFIG")
	if path == "" {
		path = filepath.Join(state.ConfigDir(s.env), "config.json")
	}
	return settings.File{Path: path, Mode: 0o600, Env: s.env}
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

// set writes into the configuration, and leaves the rest of it alone.
func (s *setup) set(ctx context.Context, members ...settings.Member) error {
	if err := os.MkdirAll(filepath.Dir(s.file().Path), 0o700); err != nil {
		return fmt.Errorf("make configuration folder: %w", err)
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
func (s *setup) config() *state.Config { return state.LoadConfig(s.kept, state.ConfigDir(s.env)) }

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
