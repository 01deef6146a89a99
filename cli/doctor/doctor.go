// Package doctor checks everything that a question and its reply pass through. Its checks stand in one list; each says what
// it found, what does not work meanwhile, and what to do about it. A check posts nothing and changes nothing.
package doctor

import (
	"context"
	"encoding/json"
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
)

// check is one line of the doctor.
type check struct {
	id    string // room.thing; programs know it
	means string // what does not work while this is not well
	mend  string // what to do about it
	run   func(*exam, context.Context, *result)
}

// checks are all of them, in the order in which a question needs what they check.
var checks = []check{
	{"config.parse", "what stands there is not used",
		"correct it in that file; docs/configuration.md lists all settings", (*exam).configParse},
	{"config.secrets", "everybody who gets the repository can use it",
		"move it to ~/.config/gchat-hooks/config.json, have git ignore the file, and make a new one if it was published: " +
			"the old one stays in the history", (*exam).configSecrets},
	{"files.folders", "questions cannot be kept, so they stay in the terminal",
		"see who owns the folder, whether the disk is full, and whether a file stands in its place; or set GCHAT_STATE_DIR",
		(*exam).filesFolders},
	{"files.private", "they can read what you were asked, or answer in your name",
		"gchat-hooks doctor --fix; what it leaves is a link or another program's, and yours to close with chmod go-w, " +
			"or chmod 600 for a file with a secret", (*exam).filesPrivate},
	{"files.links", "agents that call it find no program", doctorFix, (*exam).filesLinks},

	{"claude.version", "it may ask, answer or draw in ways that were not tried",
		"gchat-hooks demo --claude shows whether it works; see whether there is a newer gchat-hooks", (*exam).claudeVersion},
	{"claude.settings", "Claude Code skips the whole file, hooks and all",
		"correct its JSON; Claude Code takes no comments and no trailing commas there", (*exam).claudeSettings},
	{"claude.disabled", "no hook runs, so no question is asked in Chat",
		"take the setting out; the administrator's file is the administrator's to change", (*exam).claudeDisabled},
	{"claude.trust", "in an interactive session no hook runs until then",
		"start claude in that folder, and accept it", (*exam).claudeTrust},
	{"claude.hooks", "questions are not asked in Chat", install, (*exam).claudeHooks},
	{"claude.program", "Claude Code passes the hook over without a word", install, (*exam).claudeProgram},
	{"claude.twice", "they start twice; each acts once, but two versions may disagree",
		"keep one: gchat-hooks uninstall takes them out of your settings (--project or --local: out of the project's), " +
			"claude plugin disable out of a plugin", (*exam).claudeTwice},
	{"claude.limit", "later replies do not answer the question, and its thread does not hear why", install,
		(*exam).claudeLimit},
	{"claude.rewake", "nothing wakes a session with your reply", "gchat-hooks install --preset system3", (*exam).claudeRewake},
	{"claude.others", "it may answer, deny or delay questions before your reply comes",
		"see what it does; if it decides about questions, narrow its matcher or take it out", (*exam).claudeOthers},
	{"claude.asking", "Claude Code refuses or closes questions before you can reply",
		"take the setting out, or set askUserQuestionTimeout to \"never\"", (*exam).claudeAsking},

	{"chat.webhook", "questions stay in the terminal", "gchat-hooks setup", (*exam).chatWebhook},
	{"chat.post", "questions stay in the terminal", "make a new webhook in the space, and run gchat-hooks setup",
		(*exam).chatPost},
	{"chat.read", "replies are not read", login, (*exam).chatRead},
	{"chat.allowed", "their replies are not used",
		"put the person's users/ID on allowed_users in ~/.config/gchat-hooks/config.json: gchat-hooks login does, and the " +
			"thread of a question tells it to people who may not answer", (*exam).chatAllowed},
	{"chat.clock", "time limits and times of replies are off; Google refuses logins when it gets worse",
		"have the system set its clock: sudo timedatectl set-ntp true (macOS: sudo sntp -sS time.apple.com)", (*exam).chatClock},

	{"daemon.runs", "answers are not typed", "gchat-hooks poller install; gchat-hooks logs tells why it ended",
		(*exam).daemonRuns},
	{"daemon.pid", "scripts that trust the file would signal another process", doctorFix, (*exam).daemonPID},
	{"daemon.inbox", "what you reply there is not used until it can be read again",
		"see chat.read; an open question tries again at once", (*exam).daemonInbox},
	{"outbox.waiting", "questions and reports wait", "see chat.post, then gchat-hooks flush", (*exam).outboxWaiting},
	{"outbox.dead", "they never came into the space",
		"gchat-hooks flush --dead; what is refused again goes with gchat-hooks flush --forget-dead", (*exam).outboxDead},
	{"tmux.program", "answers are not typed", "install tmux 3.3 or newer (apt-get install tmux, brew install tmux)", (*exam).tmux},
}

// liveCheck posts, and runs alone after the others.
var liveCheck = check{"live", "questions do not get into the space and back",
	"gchat-hooks verify tells more", (*exam).live}

const (
	install   = "gchat-hooks install"
	login     = "gchat-hooks login"
	doctorFix = "gchat-hooks doctor --fix"
)

// Level says how bad a finding is.
type Level string

const (
	Fail Level = "fail" // questions are not asked, or not answered, in Chat; or a secret lies open
	Warn Level = "warn" // something does not work as it could, or will not before long
	OK   Level = "ok"
	Skip Level = "skip" // it was not looked at, and why
)

// order is that of the lines.
var order = []Level{Fail, Warn, OK, Skip}

// Finding is what a check has to say in one line. None of its words is a secret.
type Finding struct {
	ID    string `json:"id"`
	Level Level  `json:"level"`
	What  string `json:"what"`
	Means string `json:"means,omitempty"`
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

func (r *result) add(level Level, format string, args []any) *Finding {
	f := &Finding{ID: r.id, Level: level, What: fmt.Sprintf(format, args...)}
	if level == Warn || level == Fail {
		f.Means, f.Mend = r.means, r.mend
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
	cfg     *state.Config
	log     *state.Log

	sources func() []*source
	version func() (settings.Version, error)
	webhook func() (*gchat.Webhook, error)
	probe   func() probed
	list    func() listed
}

const (
	// checkBound is how long one check takes at most. All but the live one run at once, so it is the whole doctor's too.
	checkBound = 5 * time.Second
	// sharedBound is for what several checks wait for, so that each of them can still tell what became of it.
	sharedBound = 4 * time.Second
	// checkGrace is for a check to say what kept it, after its time.
	checkGrace = 300 * time.Millisecond
	// liveBound is the round trip without the wait for the person.
	liveBound = 25 * time.Second
	// longest bounds each part of a finding, in bytes.
	longest = 600
)

// Report is what was found: problems first, the failures before the warnings.
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
	e := &exam{Options: o, project: project, cfg: state.LoadConfig(o.Env, project), log: state.NewLog(o.Env, "doctor")}
	e.log.HideConfigured(o.Env, e.cfg)
	shared, cancel := context.WithTimeout(ctx, sharedBound)
	defer cancel()
	e.sources = sync.OnceValue(func() []*source { return sources(o.Env) })
	e.version = sync.OnceValues(func() (settings.Version, error) { return settings.AskVersion(shared, o.Env, sharedBound) })
	e.visit(shared)
	found := e.runAll(ctx, checks)
	if o.Live {
		found = append(found, e.examine(ctx, liveCheck, liveBound+o.Wait)...)
	} else {
		found = append(found, &Finding{ID: liveCheck.id, Level: Skip, What: "not tried: gchat-hooks doctor --live posts two messages"})
	}
	r := &Report{Project: project, Counts: map[Level]int{OK: 0, Warn: 0, Fail: 0, Skip: 0}, Findings: found}
	for _, f := range found {
		if o.Fix && f.fix != nil {
			f.mended()
		}
		for _, s := range []*string{&f.What, &f.Means, &f.Mend, &f.Fixed} {
			*s = gchat.Cut(state.OneLine(e.log.Clean(*s)), longest) // not cut before: half a secret is not known again
		}
		r.Counts[f.Level]++
	}
	slices.SortStableFunc(found, func(a, b *Finding) int { return slices.Index(order, a.Level) - slices.Index(order, b.Level) })
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
	bounded, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	done := make(chan []*Finding, 1)
	go func() {
		r := &result{check: c}
		defer func() {
			if p := recover(); p != nil {
				f := r.fail("the check broke: %v", p)
				f.Means, f.Mend = "a bug in gchat-hooks", "please report it"
			}
			done <- r.found
		}()
		c.run(e, bounded, r)
	}()
	select {
	case found := <-done:
		return found
	case <-bounded.Done():
	}
	select {
	case found := <-done:
		return found
	case <-time.After(checkGrace):
	}
	r := &result{check: c}
	f := r.warn("the check did not end within %s", bound)
	f.Means, f.Mend = "this was not looked at", "run gchat-hooks doctor again; see what hangs"
	if ctx.Err() != nil {
		f.What = "interrupted"
	}
	return r.found
}

// mended does what is safe, and says what it did.
func (f *Finding) mended() {
	did, err := f.fix()
	if err != nil {
		f.What += fmt.Sprintf("; --fix could not mend it: %v", err)
		return
	}
	f.Level, f.Fixed = OK, did
}

// JSON prints the report as an object whose keys stay.
func (r *Report) JSON(out io.Writer) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

var colours = map[Level]string{OK: "32", Warn: "33", Fail: "31;1", Skip: "2"}

// Print prints a line for each problem, for what was mended and for what the round trip came to, then a sum; all adds a line
// for everything else.
func (r *Report) Print(out io.Writer, all, colour bool) error {
	var lines []string
	for _, f := range r.Findings {
		problem, tried := f.Level == Warn || f.Level == Fail, f.Level == OK && strings.HasPrefix(f.ID, liveCheck.id)
		if !problem && !tried && f.Fixed == "" && !all {
			continue
		}
		level := fmt.Sprintf("%-4s", f.Level)
		if colour {
			level = "\x1b[" + colours[f.Level] + "m" + level + "\x1b[0m"
		}
		lines = append(lines, fmt.Sprintf("%s  %-15s %s", level, f.ID, f.sentence()))
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

// sentence is a finding in a line: what there is, what does not work, what to do.
func (f *Finding) sentence() string {
	switch {
	case f.Fixed != "":
		return f.What + " – fixed: " + f.Fixed
	case f.Level == Warn || f.Level == Fail:
		return f.What + " – " + f.Means + " → " + f.Mend
	}
	return f.What
}
