package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/poller"
	"gchat-hooks/poller/service"
	"gchat-hooks/state"
)

// tried sends a message through the space and back. That needs no repeating once it was done and nothing changed since,
// also where the hooks are still to come. Who has the hooks and no mark did it before there were marks.
func (s *setup) tried(ctx context.Context) error {
	due := s.marked(notTried) || !s.marked(wasTried) && !s.hooksThere()
	if s.sendOnly {
		return nil // what cannot be read is tried when it can
	}
	if s.trip == nil && due || s.trip != nil && *s.trip {
		if err := s.roundTrip(ctx); err != nil {
			return err
		}
	}
	if err := s.mark(wasTried); err != nil {
		return err
	}
	return s.unmark(notTried)
}

func (s *setup) roundTrip(ctx context.Context) error {
	if err := s.begun(); err != nil {
		return err
	}
	trip := &poller.RoundTrip{Verify: &poller.Verify{
		Poller: &poller.Poller{Env: s.kept, Log: state.NewLog(s.env, "setup")}, ProjectDir: state.ConfigDir(s.env), Wait: s.wait,
	}}
	person := s.ask.terminal || s.trip != nil && *s.trip
	text := "[Setup] This message was posted and found again: no reply is needed."
	if person {
		text = "[Setup] Reply \"ok\" in this thread."
	}
	there, err := trip.Out(ctx, text)
	if err != nil {
		return failed(err, poller.VerifyHint(err), exitNotVerified)
	}
	s.done("there", "posted in %s, listed %s later", brief(there.Posted), brief(there.Listed))
	if !person {
		return nil
	}
	fmt.Fprintf(s.out, "\nNow you: reply \"ok\" in the thread that just appeared in %s%s. Waiting %s for it (Ctrl-C stops).\n", gchat.Line(there.Chat), s.space.page(), poller.Spoken(s.wait))
	began := time.Now()
	for {
		reply, err := trip.Back(ctx)
		if err != nil {
			return failed(err, "reply in the thread of the last [Setup] message, and run gchat-hooks setup again; --no-round-trip leaves this out", exitNotVerified)
		}
		may, err := s.mayAnswer(ctx, reply)
		if err != nil {
			return err
		}
		if !may {
			continue
		}
		s.done("back", "%s said %q, read after %s", name(reply), reply.Text, brief(time.Since(began)))
		if err := trip.Say(ctx, "[Setup] Read: "+gchat.Line(reply.Text)+". All is set; this thread can be deleted."); err != nil {
			return failed(err, poller.VerifyHint(err), exitNotVerified)
		}
		return nil
	}
}

// mayAnswer says whether a reply's sender is on the allowlist, and puts them there if the person at the terminal says so.
// A reply alone never does: whoever is in the space could send one.
func (s *setup) mayAnswer(ctx context.Context, r *state.Reply) (bool, error) {
	if poller.Named(s.config().AllowedUsers, r.Sender, r.SenderEmail) {
		return true, nil
	}
	if !s.ask.terminal {
		fmt.Fprintf(s.out, "%s replied, and may not answer: run it again with --allow %s if that is you\n", name(r), gchat.Line(r.Sender))
		return false, nil
	}
	yes, err := s.ask.yes(ctx, fmt.Sprintf("%s replied. Is that you: may they answer Claude for you?", name(r)), false, "")
	if err != nil {
		return false, err
	}
	if !yes {
		fmt.Fprintln(s.out, "Then they may not. Waiting for another reply in that thread; Ctrl-C stops, and --allow users/ID or --allow EMAIL says who you are.")
		return false, nil
	}
	if err := s.set(ctx, settings.Member{Name: "allowed_users", Value: settings.More(append(s.listed(), r.Sender))}); err != nil {
		return false, err
	}
	s.done("people", "may answer: %s", gchat.Line(r.Sender))
	return true, nil
}

// name is a reply's sender for a person.
func name(r *state.Reply) string {
	if r.DisplayName != "" {
		return gchat.Line(r.DisplayName) + " (" + gchat.Line(r.Sender) + ")"
	}
	return gchat.Line(r.Sender)
}

func brief(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// hooksThere says whether our hooks are in the person's settings.
func (s *setup) hooksThere() bool {
	file, err := settings.At(s.env, settings.User)
	if err != nil {
		return false
	}
	there, err := file.Holds()
	return err == nil && there
}

// registered writes the hooks into Claude Code's settings.
func (s *setup) registered(ctx context.Context) error {
	if s.hooksThere() && len(s.presets) == 0 {
		s.done("hooks", "registered; %s install says which, and changes them", s.command())
		return nil
	}
	yes, err := s.choose(ctx, s.hooks, "\nRegister the hooks in Claude Code's settings?", true, true)
	if err != nil {
		return err
	}
	if !yes {
		s.declined = true
		fmt.Fprintf(s.out, "later:  %s install\n", s.command())
		return nil
	}
	if len(s.presets) == 0 && s.ask.terminal && s.hooks == nil {
		more, err := s.ask.yes(ctx, "Shall sessions also report (what is done, errors, how they ended)?", false, "")
		if err != nil {
			return err
		}
		if more {
			s.presets = []string{"report"}
		}
	}
	var shown strings.Builder // the difference is long, and `install --dry-run` shows it
	i := install{env: s.env, self: s.self, out: &shown, scope: settings.User, presets: s.presets}
	if err := i.run(ctx); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(shown.String()), "\n")
	s.done("hooks", "%s", lines[len(lines)-1])
	return nil
}

// served offers the service. Without a terminal nobody gets one unasked, and who did not want it is not asked again.
func (s *setup) served(ctx context.Context) error {
	if _, ok := service.New(s.env, s.self, s.out).Installed(); ok && s.service == nil {
		s.done("service", "installed")
		return nil
	}
	if s.service == nil && s.marked(noService) {
		s.done("service", "not wanted; %s poller install has the system keep the daemon running", s.command())
		return nil
	}
	yes, err := s.choose(ctx, s.service, "Keep the daemon running? It answers sessions that hooks cannot reach; most need none.", false, false)
	if err != nil {
		return err
	}
	if !yes {
		if s.service == nil && !s.ask.terminal {
			return nil // nobody said no
		}
		return s.mark(noService)
	}
	if err := s.unmark(noService); err != nil {
		return err
	}
	err = service.New(s.kept, s.self, s.out).Install(ctx)
	if err != nil && s.service == nil {
		fmt.Fprintf(s.out, "%v\n", err) // it was an offer
		return nil
	}
	if err != nil {
		return err
	}
	s.done("service", "installed")
	return nil
}
