// Package doctor checks everything that a question and its reply pass through. Its checks stand in one list; each says what
// it found, and what to do about it. A check posts nothing and changes nothing.
package doctor

import (
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
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// check is one line of the doctor.
type check struct {
	id   string // room.thing; programs know it
	run  func(*exam, context.Context, *result)
	mend string // what to do where it is not well
}

// checks are all of them, in the order in which a question needs what they check.
var checks = []check{
	{"config.parse", (*exam).configParse, "correct it in that file; docs/configuration.md lists all settings"},
	{"config.secrets", (*exam).configSecrets, "move it to ~/.config/gchat-hooks/config.json and have git ignore the file; " +
		"where others may have it already, make a new one, for it stays in git's history"},
	{"files.folders", (*exam).filesFolders, "questions stay in the terminal meanwhile: see who owns the folder, and " +
		"whether a file stands in its place; or set GCHAT_STATE_DIR"},
	{"files.private", (*exam).filesPrivate, "gchat-hooks doctor --fix; what a link leads to, close yourself"},
	{"files.links", (*exam).filesLinks, "gchat-hooks doctor --fix"},

	{"claude.version", (*exam).claudeVersion, "have claude ask you something to see whether it works; look for a newer gchat-hooks"},
	{"claude.settings", (*exam).claudeSettings, "take the setting out, or set askUserQuestionTimeout to \"never\"; a managed " +
		"file is the administrator's"},
	{"claude.trust", (*exam).claudeTrust, "start claude in that folder and accept it: interactive sessions run no hook before"},
	{"claude.hooks", (*exam).claudeHooks, "gchat-hooks install"},
	{"claude.limit", (*exam).claudeLimit, "gchat-hooks install: the hook has to wait as long as you may take to reply"},

	{"chat.post", (*exam).chatPost, "gchat-hooks setup"},
	{"chat.read", (*exam).chatRead, login},
	{"chat.allowed", (*exam).chatAllowed, "put your users/ID on allowed_users in ~/.config/gchat-hooks/config.json: " +
		"gchat-hooks login does, and the thread of a question tells it to people who may not answer"},

	{"daemon.runs", (*exam).daemonRuns, "gchat-hooks poller install; gchat-hooks logs tells why it ended"},
	{"daemon.pid", (*exam).daemonPID, "gchat-hooks doctor --fix"},
	{"daemon.inbox", (*exam).daemonInbox, "see chat.read; an open question tries again at once"},
	{"outbox.waiting", (*exam).outboxWaiting, "see chat.post, then gchat-hooks flush"},
}

// live is the id of the round trip, which is made after the checks. Its ways are live.out and live.in.
const live = "live"

const login = "gchat-hooks login"

// Level says how bad a finding is.
type Level string

const (
	Fail Level = "fail" // questions are not asked, or not answered, in Chat; or a secret lies open
	Warn Level = "warn" // something does not work as it could, or will not before long
	OK   Level = "ok"
	Skip Level = "skip" // it was not looked at, and why
)

// Finding is what a check has to say in one line. None of its words is a secret.
type Finding struct {
	ID    string `json:"id"`
	Level Level  `json:"level"`
	What  string `json:"what"`
	Mend  string `json:"mend,omitempty"`
	Fixed string `json:"fixed,omitempty"` // what Options.Fix did about it

	// fix mends it where that is safe, and says what it did. nil: a person has to.
	fix func() (did string, err error)
}

// result collects what one check finds.
type result struct {
	check
	found []*Finding
}

// add adds what was not said yet.
func (r *result) add(level Level, format string, args []any) *Finding {
	f := &Finding{ID: r.id, Level: level, What: fmt.Sprintf(format, args...)}
	if slices.ContainsFunc(r.found, func(other *Finding) bool { return other.What == f.What }) {
		return f
	}
	if level == Warn || level == Fail {
		f.Mend = r.mend
	}
	r.found = append(r.found, f)
	return f
}

func (r *result) warn(format string, args ...any) *Finding { return r.add(Warn, format, args) }
func (r *result) fail(format string, args ...any) *Finding { return r.add(Fail, format, args) }
func (r *result) skip(format string, args ...any)          { r.add(Skip, format, args) }

// ok is the line of a check that found nothing wrong; beside a problem it says nothing.
func (r *result) ok(format string, args ...any) {
	if len(r.found) == 0 {
		r.add(OK, format, args)
	}
}

// Options are what a person asked for.
type Options struct {
	Env  state.Getenv
	Self string           // this program's path
	Fix  bool             // mend permissions, stale pid files and missing links
	Live bool             // post to the space, and read it back
	Wait time.Duration    // for a person's reply to that; 0 asks for none
	Tell func(say string) // while that waits
}

// exam is one run. Its functions find out once what several checks need, by the check that comes first.
type exam struct {
	Options
	project string
	cfg     *config.Config
	log     *state.Log

	sources func() []*source
	version func() (settings.Version, error)
	webhook func() (*gchat.Webhook, error)
	list    func() listed
}

const (
	// checkBound is how long one check takes at most. All but the live one run at once, so it is the whole doctor's too.
	checkBound = 5 * time.Second
	// sharedBound is for what several checks wait for, so that each of them can still tell what became of it.
	sharedBound = 4 * time.Second
	// liveBound is for the round trip without the wait for the person.
	liveBound = 25 * time.Second
)

// Report is what was found: problems first, the failures before the warnings. Its keys in JSON stay.
type Report struct {
	Project  string        `json:"project"`
	ExitCode int           `json:"exit_code"` // 0 all is well, 1 warnings, 2 failures
	Counts   map[Level]int `json:"counts"`
	Findings []*Finding    `json:"findings"`
}

// Run makes all checks, and mends what it was asked to.
func Run(ctx context.Context, o Options) (*Report, error) {
	project, err := filepath.Abs(state.ProjectDir(o.Env))
	if err != nil {
		return nil, err
	}
	e := &exam{Options: o, project: project, cfg: config.Load(o.Env, project), log: state.NewLog(o.Env, "doctor")}
	e.log.Hide(e.cfg.Secrets(o.Env)...)
	shared, cancel := context.WithTimeout(ctx, sharedBound)
	defer cancel()
	e.sources = sync.OnceValue(func() []*source { return sources(o.Env) })
	e.version = sync.OnceValues(func() (settings.Version, error) { return settings.AskVersion(shared, o.Env, sharedBound) })
	e.visit(shared)
	found := e.runAll(ctx, checks)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("interrupted: %w", ctx.Err())
	case o.Live:
		found = append(found, e.roundTrip(ctx)...)
	default:
		found = append(found, &Finding{ID: live, Level: Skip, What: "not tried: gchat-hooks doctor --live posts three messages"})
	}
	r := &Report{Project: project, Counts: map[Level]int{OK: 0, Warn: 0, Fail: 0, Skip: 0}, Findings: found}
	for _, f := range found {
		if o.Fix && f.fix != nil {
			did, err := f.fix()
			if f.Level, f.Fixed = OK, did; err != nil {
				f.Level, f.Fixed, f.What = Fail, "", fmt.Sprintf("%s; --fix could not mend it: %v", f.What, err)
			}
		}
		for _, s := range []*string{&f.What, &f.Mend, &f.Fixed} {
			*s = gchat.Cut(state.OneLine(e.log.Clean(*s)), 600) // not cut before: half a secret is not known again
		}
		r.Counts[f.Level]++
	}
	order := map[Level]int{Fail: 0, Warn: 1, OK: 2, Skip: 3}
	slices.SortStableFunc(found, func(a, b *Finding) int { return order[a.Level] - order[b.Level] })
	switch {
	case r.Counts[Fail] > 0:
		r.ExitCode = 2
	case r.Counts[Warn] > 0:
		r.ExitCode = 1
	}
	return r, nil
}

// runAll runs checks side by side and returns what they found, in their order.
func (e *exam) runAll(ctx context.Context, checks []check) []*Finding {
	each := make([][]*Finding, len(checks))
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() { each[i] = e.examine(ctx, c, checkBound) })
	}
	all.Wait()
	return slices.Concat(each...)
}

// examine runs a check within its time. A check that hangs or breaks is a finding, too.
func (e *exam) examine(ctx context.Context, c check, bound time.Duration) []*Finding {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	done := make(chan []*Finding, 1)
	go func() {
		r := &result{check: c}
		defer func() {
			if p := recover(); p != nil {
				r.fail("the check broke: %v", p).Mend = "please report this bug of gchat-hooks"
			}
			done <- r.found
		}()
		c.run(e, ctx, r)
	}()
	select {
	case found := <-done:
		return found
	case <-ctx.Done():
		r := &result{check: c}
		r.warn("the check did not end within %s", bound).Mend = "run gchat-hooks doctor again; see what hangs"
		return r.found
	}
}

// Print prints a line for each problem, for what was mended and for a round trip, then a sum; all adds a line for the rest.
func (r *Report) Print(out io.Writer, all bool) error {
	var lines []string
	for _, f := range r.Findings {
		words := f.What
		switch {
		case f.Fixed != "":
			words += " – fixed: " + f.Fixed
		case f.Level == Warn || f.Level == Fail:
			words += " → " + f.Mend
		case !all && (f.Level == Skip || !strings.HasPrefix(f.ID, live)):
			continue
		}
		lines = append(lines, fmt.Sprintf("%-4s  %-15s %s", f.Level, f.ID, words))
	}
	if len(lines) > 0 {
		lines = append(lines, "")
	}
	sum := fmt.Sprintf("%d ok, %d warn, %d fail, %d skip", r.Counts[OK], r.Counts[Warn], r.Counts[Fail], r.Counts[Skip])
	if !all {
		sum += "; gchat-hooks doctor --all shows every line"
	}
	_, err := fmt.Fprintln(out, strings.Join(append(lines, sum), "\n"))
	return err
}
