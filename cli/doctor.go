package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/inject"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

func (p Program) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "look whether everything is there and works, and say what mends it",
		Description: "Look:  gchat-hooks doctor              (posts nothing; also without a network)\n" +
			"Mend:  gchat-hooks doctor --fix        (file modes, stale pid files, missing folders; nothing else)\n" +
			"Try:   gchat-hooks doctor --live       (two messages to the space and back; you reply ok)\n" +
			"Exit codes: 0 all is well, 1 warnings, 2 failures, 4 wrong arguments",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print an object in place of lines"},
			&cli.BoolFlag{Name: "fix", Usage: "mend what can be mended safely, and say what was done"},
			&cli.BoolFlag{Name: "live", Usage: "post two messages in one thread, read them back, and wait for your reply there"},
			&cli.StringFlag{Name: "wait", Value: "2m", Usage: "with --live, wait so `LONG` for that reply; 0 asks nobody"},
		},
		Action: func(c *cli.Context) error {
			d := doctor{
				env: os.Getenv, out: p.out, errOut: p.errOut, asJSON: c.Bool("json"), fix: c.Bool("fix"), live: c.Bool("live"),
				colour: terminalOf(p.out, os.Getenv).colour,
			}
			if s := c.String("wait"); s != "0" && s != "0s" {
				var err error
				if d.wait, err = state.ParseInterval(s); err != nil {
					return usage(fmt.Errorf("--wait: %w", err), "gchat-hooks doctor --help")
				}
			}
			if c.IsSet("wait") && !d.live {
				return usage(errors.New("--wait goes with --live"), "gchat-hooks doctor --help")
			}
			return d.run(c.Context)
		},
	}
}

// doctor looks at everything that a question and its reply pass through. The checks stand in the rooms that speak their
// language; here they are run and told.
type doctor struct {
	env         state.Getenv
	out, errOut io.Writer
	asJSON, fix bool
	live        bool          // post to the space, and read it back
	wait        time.Duration // for a person's reply to that; 0 asks for none
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
		return silent(errors.New("not all is well"), code)
	}
	return nil
}

// look makes all checks, mends what it may, and returns what was found, as it can be shown, in the order of the rooms.
func (d doctor) look(ctx context.Context, project string) []state.Finding {
	p := &poller.Poller{Env: d.env, Log: state.NewLog(d.env, "doctor")}
	cfg := state.LoadConfig(d.env, project)
	p.Log.HideConfigured(d.env, cfg)
	found := examineAll(ctx, slices.Concat(
		state.Checks(d.env, time.Now), settings.Checks(d.env, cfg), p.Checks(project), inject.Checks(d.env, poller.Types(cfg))))
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
			*s = gchat.Cut(state.OneLine(p.Log.Clean(*s)), longest) // not cut before: half a secret is not known again
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

// examine runs a check within its time. A check that hangs or breaks is a finding, too.
func examine(ctx context.Context, c state.Check, bound time.Duration) []state.Finding {
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	done := make(chan []state.Finding, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- []state.Finding{{
					Level: state.LevelFail, What: fmt.Sprintf("the check broke: %v", r),
					Means: "a bug in gchat-hooks", Mend: "please report it",
				}}
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
			found = []state.Finding{{
				Level: state.LevelWarn, What: "the check did not end within " + poller.Spoken(bound),
				Means: "this was not looked at", Mend: "gchat-hooks doctor, again; see what hangs",
			}}
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

// tell prints the findings, one line each, or as an object whose keys stay.
func (d doctor) tell(project string, found []state.Finding) error {
	count := map[state.Level]int{state.LevelOK: 0, state.LevelWarn: 0, state.LevelFail: 0, state.LevelSkip: 0}
	wide := 0
	for _, f := range found {
		count[f.Level]++
		wide = max(wide, len(f.ID))
	}
	if d.asJSON {
		e := json.NewEncoder(d.out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Project  string              `json:"project"`
			ExitCode int                 `json:"exit_code"`
			Counts   map[state.Level]int `json:"counts"`
			Findings []state.Finding     `json:"findings"`
		}{project, exitOf(found), count, found})
	}
	for _, f := range found {
		if _, err := fmt.Fprintf(d.out, "%s  %-*s  %s\n", d.paint(f.Level), wide, f.ID, sentence(f)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(d.out, "\n%d ok, %d warn, %d fail, %d skip\n",
		count[state.LevelOK], count[state.LevelWarn], count[state.LevelFail], count[state.LevelSkip])
	return err
}

// sentence is a finding in a line: what there is, what it means, what mends it.
func sentence(f state.Finding) string {
	s := f.What
	switch {
	case f.Fixed != "":
		s += " – fixed: " + f.Fixed
	case f.Level == state.LevelWarn || f.Level == state.LevelFail:
		s += " – " + f.Means + " → " + f.Mend
	}
	return s
}

var colours = map[state.Level]string{state.LevelOK: "32", state.LevelWarn: "33", state.LevelFail: "31;1", state.LevelSkip: "2"}

// paint is a level in four columns.
func (d doctor) paint(l state.Level) string {
	word := fmt.Sprintf("%-4s", l)
	if !d.colour {
		return word
	}
	return "\x1b[" + colours[l] + "m" + word + "\x1b[0m"
}
