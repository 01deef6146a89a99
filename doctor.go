package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/inject"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

// doctor looks at everything that a question and its reply pass through. The checks stand in the rooms that speak their
// language; here they are run and told.
type doctor struct {
	env         state.Getenv
	out, errOut io.Writer
	asJSON, fix bool
	live        bool          // post to the space, and read it back
	wait        time.Duration // for a person's reply to that; 0 asks nobody
	colour      bool
}

// Exit codes of the doctor beside 0 and exitUsage.
const (
	exitWarnings = 1
	exitFailures = 2
)

const (
	// checkBound is how long one check takes at most. All but the live one run at once, so it is the whole doctor's too.
	checkBound = 5 * time.Second
	// checkGrace is for a check to say what kept it, after its time.
	checkGrace = 300 * time.Millisecond
	// longest bounds each part of a finding, in bytes.
	longest = 600
	// liveBound is the round trip without the wait for the person.
	liveBound = 25 * time.Second
)

// unwell ends the doctor with its exit code. What there is to say was said on stdout.
type unwell struct{ code int }

func (u unwell) Error() string { return "the doctor found something" }
func (u unwell) ExitCode() int { return u.code }

func (d doctor) run(ctx context.Context) error {
	project, err := filepath.Abs(state.ProjectDir(d.env))
	if err != nil {
		return err
	}
	found := d.look(ctx, project)
	if err := d.tell(project, found); err != nil {
		return err
	}
	if code := exitOf(found); code != 0 {
		return unwell{code}
	}
	return nil
}

// look makes all checks, mends what it may, and returns what was found, as it can be shown, in the order of the rooms.
func (d doctor) look(ctx context.Context, project string) []state.Finding {
	p := &poller.Poller{Env: d.env, Log: state.NewLog(d.env, "doctor")}
	cfg := state.LoadConfig(d.env, project)
	p.Log.HideConfigured(d.env, cfg)
	checks := slices.Concat(state.Checks(d.env, time.Now), settings.Checks(d.env, cfg), p.Checks(project), inject.Checks(d.env, poller.Types(cfg)))
	found := examineAll(ctx, checks)
	if d.live {
		tell := func(sentence string) { fmt.Fprintln(d.errOut, "gchat-hooks:", p.Log.Clean(sentence)) }
		for _, c := range p.LiveChecks(project, d.wait, tell) {
			found = append(found, examine(ctx, c, liveBound+d.wait)...)
		}
	} else {
		found = append(found, poller.NotLive)
	}
	for i := range found {
		f := &found[i]
		if d.fix {
			mend(f)
		}
		for _, s := range []*string{&f.What, &f.Means, &f.Mend, &f.Fixed} {
			*s = gchat.Cut(printable(p.Log.Clean(*s)), longest) // not cut before: half a secret is not known again
		}
	}
	slices.SortStableFunc(found, func(a, b state.Finding) int { return cmp.Compare(room(a.ID), room(b.ID)) })
	return found
}

// rooms is the order of the findings: what a question needs first comes first.
var rooms = []string{"config", "files", "claude", "chat", "daemon", "outbox", "tmux", "live"}

func room(id string) int {
	name, _, _ := strings.Cut(id, ".")
	return slices.Index(rooms, name)
}

// examineAll runs checks side by side and returns what they found, in their order.
func examineAll(ctx context.Context, checks []state.Check) (found []state.Finding) {
	each := make([][]state.Finding, len(checks))
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() { each[i] = examine(ctx, c, checkBound) })
	}
	all.Wait()
	return slices.Concat(each...)
}

// examine runs a check within its time, whatever it does: one that hangs or breaks is a finding, too.
func examine(ctx context.Context, c state.Check, bound time.Duration) []state.Finding {
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	done := make(chan []state.Finding, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- []state.Finding{{Level: state.LevelFail, What: fmt.Sprintf("the check broke: %v", r), Means: "a bug in gchat-hooks", Mend: "please report it"}}
			}
		}()
		done <- c.Run(bounded)
	}()
	var found []state.Finding
	select {
	case found = <-done:
	case <-bounded.Done():
		select {
		case found = <-done:
		case <-time.After(checkGrace):
			found = []state.Finding{{Level: state.LevelWarn, What: "the check did not end within " + poller.Spoken(bound), Means: "this was not looked at", Mend: "gchat-hooks doctor, again; see what hangs"}}
			if ctx.Err() != nil {
				found[0].What = "interrupted"
			}
		}
	}
	for i := range found {
		found[i].ID = cmp.Or(found[i].ID, c.ID)
	}
	return found
}

// mend does what is safe, and says what it did.
func mend(f *state.Finding) {
	if f.Fix == nil {
		return
	}
	did, err := f.Fix()
	if err != nil {
		f.What += fmt.Sprintf("; --fix could not mend it: %v", err)
		return
	}
	f.Level, f.Fixed = state.LevelOK, did
}

// exitOf is 0 when all is well, 1 with warnings, 2 with failures.
func exitOf(found []state.Finding) int {
	code := 0
	for _, f := range found {
		switch f.Level {
		case state.LevelFail:
			return exitFailures
		case state.LevelWarn:
			code = exitWarnings
		}
	}
	return code
}
