package poller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// gonePatience is how long launchd may take to end the daemon: its ExitTimeOut, and some more to let go of the label.
	gonePatience = 45 * time.Second
	// loadPatience is how long a load is tried: for about five seconds after the old job is gone, launchd still answers
	// "5: Input/output error".
	loadPatience = 20 * time.Second
	launchdLook  = 250 * time.Millisecond
)

// launchctl's exit codes. They are errnos for the most part, and it says them in words besides.
const (
	launchctlNoProcess   = 3   // bootout: no such service
	launchctlIO          = 5   // bootstrap: it is there already, or not quite gone, or anything else
	launchctlInProgress  = 36  // bootout: it goes on
	launchctlAlready     = 37  // bootstrap, kickstart: it is at it
	launchctlNoService   = 113 // print, kickstart: no such service
	launchctlNoAction    = 125 // bootstrap: the domain cannot do that
	launchctlWrongDomain = 134 // bootstrap: the agent may not run in such sessions
)

// launchd keeps the service in one of a person's domains: gui/UID is there while they are logged in at the screen,
// user/UID also when they only came by ssh.
type launchd struct {
	*Service
	domains []string // those that exist, the first one first
}

func (s *Service) launchd(ctx context.Context) (supervisor, error) {
	l := launchd{Service: s}
	var why error
	for _, d := range []string{"gui/", "user/"} {
		d += strconv.Itoa(s.UID)
		if _, err := s.run(ctx, "launchctl", "print", d); err == nil {
			l.domains = append(l.domains, d)
		} else if why = err; errors.Is(err, exec.ErrNotFound) {
			break
		}
	}
	if len(l.domains) == 0 {
		return nil, &noSupervisor{why: why.Error(), hint: "log in at the screen or by ssh as yourself, and try again", err: why}
	}
	return l, nil
}

func (l launchd) start(ctx context.Context, reload bool) error {
	st, domain, err := l.find(ctx)
	if err != nil {
		return err
	}
	if st.loaded && !reload {
		if st.pid > 0 {
			return nil
		}
		return l.kickstart(ctx, domain)
	}
	if err := l.stop(ctx); err != nil {
		return err
	}
	for _, domain = range l.domains {
		// An agent that was disabled once, also of an older install, is not loaded until it is enabled.
		if _, err = l.run(ctx, "launchctl", "enable", domain+"/"+serviceLabel); err == nil {
			err = l.bootstrap(ctx, domain)
		}
		if code := exitCodeOf(err); code != launchctlNoAction && code != launchctlWrongDomain {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("load the agent: %w", err)
	}
	return nil
}

// bootstrap loads the agent, which starts it. That launchd fails says little: it does so when the agent is there already,
// and for a while after it went.
func (l launchd) bootstrap(ctx context.Context, domain string) error {
	ctx, cancel := context.WithTimeout(ctx, loadPatience)
	defer cancel()
	for {
		_, err := l.run(ctx, "launchctl", "bootstrap", domain, l.file())
		if err == nil {
			return nil
		}
		if !slices.Contains([]int{launchctlIO, launchctlInProgress, launchctlAlready}, exitCodeOf(err)) {
			return err
		}
		if st, at, serr := l.find(ctx); serr == nil && st.loaded && l.kickstart(ctx, at) == nil {
			return nil
		}
		if sleep(ctx, time.Second); ctx.Err() != nil {
			return err
		}
	}
}

// kickstart starts an agent that is loaded, anew if it runs.
func (l launchd) kickstart(ctx context.Context, domain string) error {
	_, err := l.run(ctx, "launchctl", "kickstart", "-k", domain+"/"+serviceLabel)
	if exitCodeOf(err) == launchctlAlready {
		return nil
	}
	return err
}

// stop unloads the agent until the next login, and waits until it is gone: bootout returns before that, and a bootstrap
// that comes too early fails. `bootout --wait` is no way, newer versions do not take it.
func (l launchd) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, gonePatience)
	defer cancel()
	asked := map[string]bool{}
	for {
		st, domain, err := l.find(ctx)
		if err != nil || !st.loaded {
			return err
		}
		if !asked[domain] {
			asked[domain] = true
			if _, err := l.run(ctx, "launchctl", "bootout", domain+"/"+serviceLabel); err != nil &&
				!slices.Contains([]int{launchctlNoProcess, launchctlInProgress, launchctlNoService}, exitCodeOf(err)) {
				return err
			}
			continue
		}
		if sleep(ctx, launchdLook); ctx.Err() != nil {
			return &serviceError{fmt.Errorf("launchd does not let go of the agent in %s", domain), fmt.Sprintf("launchctl kill SIGKILL %s/%s", domain, serviceLabel)}
		}
	}
}

func (l launchd) remove(ctx context.Context) error {
	if err := l.stop(ctx); err != nil {
		return err
	}
	return os.Remove(l.file())
}

func (l launchd) state(ctx context.Context) (serviceState, error) {
	st, _, err := l.find(ctx)
	return st, err
}

// find looks for the agent in all domains: it may have been loaded by ssh, and the person sit at the screen now.
func (l launchd) find(ctx context.Context) (st serviceState, domain string, err error) {
	for _, domain = range l.domains {
		out, err := l.run(ctx, "launchctl", "print", domain+"/"+serviceLabel)
		if err == nil {
			return launchdState(out), domain, nil
		}
		if code := exitCodeOf(err); code != launchctlNoService && code != launchctlNoProcess && !strings.Contains(out, "Could not find service") {
			return st, "", err
		}
	}
	return st, "", nil
}

// launchdState reads what `launchctl print` says of a service. The service's own lines are indented by one tab; deeper
// ones are of its sockets and the like.
func launchdState(printed string) serviceState {
	st := serviceState{loaded: true, active: true}
	for line := range strings.Lines(printed) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " = ")
		if !ok {
			continue
		}
		switch name {
		case "\tpid":
			st.pid, _ = strconv.Atoi(value)
		case "\tlast exit code":
			if code, _, _ := strings.Cut(value, ":"); code != "0" && code != "(never exited)" {
				st.ended = "exit code " + value
			}
		case "\tlast terminating signal":
			st.ended = value
		}
	}
	return st
}
