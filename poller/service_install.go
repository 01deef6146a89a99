package poller

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gchat-hooks/state"
)

// startPatience is how long a start is watched for the daemon's pid.
const startPatience = 5 * time.Second

// Install writes the service's file, has it start at each login, and starts it. Done twice it changes nothing. A file that
// a person changed is kept as .bak. Where nothing starts programs for a person, it says what to do by hand and returns an
// error.
func (s *Service) Install(ctx context.Context, o ServiceOptions) error {
	if err := s.own(); err != nil {
		return err
	}
	l, err := s.launch(o)
	if err != nil {
		return err
	}
	sup, err := s.supervisor(ctx)
	if err != nil {
		s.advise(l)
		return err
	}
	contents := unit(l)
	if s.goos() == "darwin" {
		contents = plist(l)
		if err := os.MkdirAll(l.logs, 0o700); err != nil { // launchd starts nothing whose log it cannot open
			return notPermitted(fmt.Errorf("make the log folder: %w", err), filepath.Dir(l.logs))
		}
	}
	changed, kept, err := writeServiceFile(s.file(), contents)
	if kept != "" {
		s.say("your changes to the service file are kept in %s", kept)
	}
	if err != nil {
		return err
	}
	reload := changed || s.outdated()
	before, err := sup.state(ctx)
	if err != nil {
		return err
	}
	switch {
	case changed:
		s.say("installed %s", s.file())
	case reload:
		s.say("already installed, and the program is new: it is started again")
	case before.pid > 0:
		s.say("already installed, nothing to do: %s", s.file())
	default:
		s.say("already installed: %s", s.file())
	}
	s.sayByHand(before.pid)
	if err := sup.start(ctx, reload); err != nil {
		return err
	}
	if err := s.sayStarted(ctx, sup); err != nil {
		return err
	}
	s.sayUnseen()
	if o.PollInterval != "" {
		s.say(`note: health and status take the interval from the configuration: "poll_interval": %q in %s`, o.PollInterval, s.configFile())
	}
	if s.goos() == "linux" {
		if lingers, known := s.lingers(ctx); known && !lingers {
			s.say("note: it ends with your last logout; on a server, have it stay with: loginctl enable-linger")
		}
	}
	return nil
}

// Uninstall stops the service and removes its file. State, logs and configuration stay.
func (s *Service) Uninstall(ctx context.Context) error {
	if err := s.own(); err != nil {
		return err
	}
	_, err := os.Lstat(s.file())
	there := err == nil
	sup, err := s.supervisor(ctx)
	if err != nil {
		if !there {
			s.say("not installed: nothing to remove")
			return nil
		}
		if err := os.Remove(s.file()); err != nil {
			return notPermitted(fmt.Errorf("remove the service file: %w", err), filepath.Dir(s.file()))
		}
		_ = os.Remove(s.wantsLink())
		s.say("removed %s; it could not be stopped: %v", s.file(), err)
		return nil
	}
	st, err := sup.state(ctx)
	if err != nil {
		return err
	}
	if !there && !st.loaded {
		s.say("not installed: nothing to remove")
		return nil
	}
	if there {
		if b, err := os.ReadFile(s.file()); err == nil && !asWritten(b) {
			kept, err := keep(s.file(), b)
			if err != nil {
				return notPermitted(err, filepath.Dir(s.file()))
			}
			s.say("your changes to the service file are kept in %s", kept)
		}
	}
	if err := sup.remove(ctx); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return notPermitted(fmt.Errorf("remove the service: %w", err), filepath.Dir(s.file()))
	}
	s.say("stopped, and removed %s; state and logs stay", s.file())
	return nil
}

// own refuses sudo: it would set the service up for root, or write root's files into a person's home.
func (s *Service) own() error {
	if s.UID == 0 && s.Env("SUDO_USER") != "" {
		return &serviceError{errors.New("the service is a person's own, and sudo makes it root's"), "run it without sudo"}
	}
	return nil
}

// outdated says whether the daemon that runs was started before its program or its service file was written.
func (s *Service) outdated() bool {
	started, err := os.Stat(filepath.Join(state.UserState(s.Env), "gchat-poller.pid"))
	if err != nil {
		return false
	}
	for _, path := range []string{s.Self, s.file()} {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(started.ModTime()) {
			return true
		}
	}
	return false
}

// sayStarted waits for the daemon's pid. A daemon that ends by itself in order is no error: it says why in its log.
func (s *Service) sayStarted(ctx context.Context, sup supervisor) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		st, err := sup.state(ctx)
		switch {
		case err != nil:
			return err
		case st.pid > 0:
			s.say("running (pid %d); it starts at each login", st.pid)
			return nil
		case st.ended != "":
			return &serviceError{fmt.Errorf("the service does not stay up: %s", st.ended), "gchat-hooks poller logs"}
		}
		if sleep(ctx, launchdLook); ctx.Err() != nil {
			s.say("it ended by itself; gchat-hooks poller logs says why")
			return nil
		}
	}
}

// sayByHand names a daemon that keeps the service's from its work.
func (s *Service) sayByHand(service int) {
	if pid := s.startedByHand(service); pid > 0 {
		s.say("note: a daemon that was started by hand runs; have the service take its place: kill %d && gchat-hooks poller start", pid)
	}
}

// startedByHand is the pid of a daemon that runs and is not the service's; 0 when there is none.
func (s *Service) startedByHand(service int) int {
	dir := state.UserState(s.Env)
	if pid := state.DaemonPID(dir); pid != service && state.DaemonRuns(dir) {
		return pid
	}
	return 0
}
