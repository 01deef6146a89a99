package poller

import (
	"context"
	"errors"
	"fmt"
	"os"

	"gchat-hooks/state"
)

// Start starts the installed service.
func (s *Service) Start(ctx context.Context) error {
	sup, err := s.installed(ctx)
	if err != nil {
		return err
	}
	st, err := sup.state(ctx)
	if err != nil {
		return err
	}
	if st.pid > 0 {
		s.say("already running (pid %d)", st.pid)
		return nil
	}
	s.sayByHand(0)
	if err := sup.start(ctx, false); err != nil {
		return err
	}
	return s.sayStarted(ctx, sup)
}

// Stop stops the service until the next login. The daemon finishes its cycle first.
func (s *Service) Stop(ctx context.Context) error {
	if err := s.own(); err != nil {
		return err
	}
	sup, err := s.supervisor(ctx)
	if err != nil {
		return s.stoppedByHand(err)
	}
	st, err := sup.state(ctx)
	if err != nil {
		return err
	}
	if !st.active {
		s.say("the service is not running")
		return s.stoppedByHand(nil)
	}
	if err := sup.stop(ctx); err != nil {
		return err
	}
	s.say("stopped; it starts again at the next login, or with gchat-hooks poller start")
	return nil
}

// stoppedByHand names the daemon that Stop has no hold of, if one runs; else it returns err.
func (s *Service) stoppedByHand(err error) error {
	if pid := s.startedByHand(0); pid > 0 {
		return &serviceError{fmt.Errorf("a daemon that was started by hand runs (pid %d)", pid), fmt.Sprintf("kill %d", pid)}
	}
	return err
}

// Status says whether the service is installed, whether it runs, and when it last looked for replies.
func (s *Service) Status(ctx context.Context) error {
	b, ferr := os.ReadFile(s.file())
	there := !errors.Is(ferr, os.ErrNotExist)
	sup, err := s.supervisor(ctx)
	var st serviceState
	if err == nil {
		st, err = sup.state(ctx)
	}
	switch {
	case err != nil && there:
		s.say("service:   installed, and out of reach: %v", err)
	case err != nil:
		s.say("service:   none: %v", err)
	case !there && st.pid > 0:
		s.say("service:   running (pid %d), but its file is gone: gchat-hooks poller install", st.pid)
	case !there:
		s.say("service:   not installed; gchat-hooks poller install")
	case st.pid > 0:
		s.say("service:   installed, running (pid %d)", st.pid)
	case st.ended != "":
		s.say("service:   installed, not running: %s; gchat-hooks poller logs", st.ended)
	default:
		s.say("service:   installed, not running; gchat-hooks poller start")
	}
	if there {
		note := ""
		if ferr == nil && !asWritten(b) {
			note = ", changed by hand"
		}
		s.say("file:      %s%s", s.file(), note)
	}
	if pid := s.startedByHand(st.pid); pid > 0 {
		s.say("daemon:    started by hand (pid %d)", pid)
	}
	line, _ := Health(s.Env, s.now())
	s.say("health:    %s", line)
	s.say("log:       %s", state.LogPath(s.Env))
	return nil
}

// installed is the supervisor of a service that is there to be started.
func (s *Service) installed(ctx context.Context) (supervisor, error) {
	if err := s.own(); err != nil {
		return nil, err
	}
	sup, err := s.supervisor(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(s.file()); err != nil {
		return nil, &serviceError{errors.New("the service is not installed"), "gchat-hooks poller install"}
	}
	return sup, nil
}
