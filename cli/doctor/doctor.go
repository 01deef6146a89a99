// Package doctor checks everything that a question and its reply pass through. Its checks
// are one list. Each says what it found and what to do about it. A check posts nothing
// and changes nothing.
package doctor

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// check is one line of the doctor.
type check struct {
	id  string // SUBJECT.CHECK; other programs know it
	run func(*exam, context.Context, *result)
	fix string // what to do about a problem
}

// checks are all checks, in the order in which a question depends on what they check.
var checks = []check{
	{
		"config.parse",
		(*exam).checkConfigParse,
		"correct the file; docs/configuration.md lists the files and all settings",
	},
	{
		"files.folders",
		(*exam).checkFilesFolders,
		"until then questions stay in the terminal: check who owns the folder, " +
			"whether a file has its name, and whether the disk is full; or set GCHAT_STATE_DIR",
	},
	{"files.private", (*exam).checkFilesPrivate, "chmod go-rwx for files, chmod go-w for folders"},

	{"claude.version", (*exam).checkClaudeVersion, "claude update"},
	{
		"claude.settings",
		(*exam).checkClaudeSettings,
		"remove the setting, or set askUserQuestionTimeout to \"never\"; only an " +
			"administrator can change a managed file",
	},
	{
		"claude.trust",
		(*exam).checkClaudeTrust,
		"start claude in that folder and accept it: interactive sessions run no hook before",
	},
	{"claude.hooks", (*exam).checkClaudeHooks, "gchat-hooks install"},
	{"claude.waits", (*exam).checkClaudeWaits, "answer it in that terminal"},

	{"chat.post", (*exam).checkChatPost, "gchat-hooks setup"},
	{"chat.read", (*exam).checkChatRead, loginCommand},
	{
		"chat.allowed",
		(*exam).checkChatAllowed,
		"gchat-hooks login, or reply to a question: its thread says which users/ID to add to " +
			"allowed_users in ~/.config/gchat-hooks/config.json",
	},

	{
		"page.https",
		(*exam).checkPublicPage,
		"docs/connect.md says how a name leads to the page; " +
			"gchat-hooks setup --phone serves it in this network instead",
	},
	{
		"page.devices",
		(*exam).checkDevices,
		"open the page on the device; gchat-hooks space devices remove NAME forgets it",
	},
	{
		"notify.calls",
		(*exam).checkCalls,
		"correct notify in ~/.config/gchat-hooks/config.json; this line ends with the next notification that arrives",
	},

	{
		"daemon.runs",
		(*exam).checkDaemonRuns,
		"gchat-hooks poller install; gchat-hooks logs says why it ended",
	},
}

// liveID is the id of the round trip, which follows the checks. Its findings are
// live.out, from here to the space and back, and live.in, from a person to here.
const liveID = "live"

const loginCommand = "gchat-hooks login"

// Level says how bad a finding is.
type Level string

const (
	Fail Level = "fail" // Chat gets no questions or cannot answer them, or others can read a secret
	Warn Level = "warn" // something works less well than it could, or will soon fail
	OK   Level = "ok"
	Skip Level = "skip" // not checked; the text says why
)

// Finding is what a check found, in one line. It contains no secret.
type Finding struct {
	ID    string `json:"id"`
	Level Level  `json:"level"`
	Text  string `json:"what"`
	Fix   string `json:"mend,omitempty"`
}

// result collects what one check finds.
type result struct {
	check
	found []*Finding
}

// add adds a finding, unless one with the same text is there already.
func (r *result) add(level Level, format string, args []any) *Finding {
	f := &Finding{ID: r.id, Level: level, Text: fmt.Sprintf(format, args...)}
	if slices.ContainsFunc(r.found, func(earlier *Finding) bool { return earlier.Text == f.Text }) {
		return f
	}
	if level == Warn || level == Fail {
		f.Fix = r.fix
	}
	r.found = append(r.found, f)
	return f
}

func (r *result) warn(format string, args ...any) *Finding { return r.add(Warn, format, args) }
func (r *result) fail(format string, args ...any) *Finding { return r.add(Fail, format, args) }
func (r *result) skip(why string)                          { r.add(Skip, why, nil) }

// ok adds the finding of a check that found no problem. After a problem it adds nothing.
func (r *result) ok(format string, args ...any) {
	if len(r.found) == 0 {
		r.add(OK, format, args)
	}
}

// Options say what to check, and how.
type Options struct {
	Env     state.Getenv
	Version string
	// Live makes the round trip, and tries what Google's documents leave open.
	Live   bool
	Wait   time.Duration    // how long the round trip waits for a reply; 0: it asks for none
	Notify func(say string) // prints a line for the person while the round trip waits
	// OneThread leaves out the second post of the round trip. That post shows whether the
	// space follows thread keys, and the embedded space does.
	OneThread bool
	// PublicPage is the address of the embedded space's page by https, such as
	// https://HOST:8443; "" where it has none.
	PublicPage string
}

// exam is one run of the doctor. The results that several checks need are computed once,
// by the check that needs them first.
type exam struct {
	Options
	project string
	cfg     *config.Config
	log     *state.Log

	roots   *x509.CertPool // whom the check of the page trusts; nil is as the system does
	sources []*source
	webhook func() (*gchat.Webhook, error)
	list    func() (*gchat.API, error) // lists the space, and returns the client

	// Of a live run.
	transport
	listSince time.Time // the round trip lists messages since then, by the server's clock
	replier   string    // users/ID of the person whose reply was read
	live      Live
}

const (
	// checkTimeout bounds all checks together: they run in parallel.
	checkTimeout = 4 * time.Second
	// liveTimeout bounds the round trip, without its wait for the person.
	liveTimeout = 25 * time.Second
)

// Report is what the doctor found: failures first, then warnings, then the rest. Its JSON
// keys are a contract.
type Report struct {
	Project  string        `json:"project"`
	ExitCode int           `json:"exit_code"` // 0 all is well, 1 warnings, 2 failures
	Counts   map[Level]int `json:"counts"`
	Findings []*Finding    `json:"findings"`
	Live     Live          `json:"-"` // of a live run
}

// Run makes all checks.
func Run(ctx context.Context, o Options) (*Report, error) {
	bounded, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	e := newExam(bounded, o)
	perCheck := make([][]*Finding, len(checks))
	var running sync.WaitGroup
	for i, c := range checks {
		running.Go(func() {
			r := &result{check: c}
			c.run(e, bounded, r)
			perCheck[i] = r.found
		})
	}
	running.Wait()
	found := slices.Concat(perCheck...)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("interrupted: %w", ctx.Err())
	case o.Live:
		report := e.newReport(append(found, e.roundTrip(ctx)...))
		report.Live = e.runProbes(ctx, report.ExitCode)
		return report, nil
	}
	found = append(found, &Finding{
		ID: liveID, Level: Skip,
		Text: "not tried: gchat-hooks doctor --live sends test messages",
	})
	return e.newReport(found), nil
}

// RoundTrip makes only the round trip. Setup uses it, and has checked the rest.
func RoundTrip(ctx context.Context, o Options) *Report {
	e := newExam(ctx, o)
	return e.newReport(e.roundTrip(ctx))
}

// CheckReading lists the space, and returns the error.
func CheckReading(ctx context.Context, o Options) error {
	_, err := newExam(ctx, o).tryListing(ctx)
	return err
}

// newExam prepares what the checks share. Their requests end with ctx.
func newExam(ctx context.Context, o Options) *exam {
	project := state.ProjectDir(o.Env)
	e := &exam{
		Options: o,
		project: project,
		cfg:     config.Load(o.Env, project),
		log:     state.NewLog(o.Env, "doctor"),
		sources: readSources(o.Env),
	}
	e.cfg.ReadPolicy, e.cfg.RenewsPolicy = gchat.ReadPolicy, true
	_ = e.cfg.ApplyPolicies(ctx, o.Env) // its error becomes one of cfg.Problems
	e.log.AddSecrets(e.cfg.Secrets(o.Env)...)
	e.webhook = sync.OnceValues(func() (*gchat.Webhook, error) { return e.findWebhook(ctx) })
	e.list = sync.OnceValues(func() (*gchat.API, error) { return e.tryListing(ctx) })
	return e
}

// newReport makes the report: it removes secrets, counts, and puts the problems first.
func (e *exam) newReport(found []*Finding) *Report {
	r := &Report{
		Project:  e.project,
		Counts:   map[Level]int{OK: 0, Warn: 0, Fail: 0, Skip: 0},
		Findings: found,
	}
	for _, f := range found {
		for _, s := range []*string{&f.Text, &f.Fix} {
			// Secrets go before the text is cut: half a secret is not recognised.
			*s = wording.Cut(state.OneLine(e.log.Redact(*s)), 600)
		}
		r.Counts[f.Level]++
	}
	order := []Level{Fail, Warn, OK, Skip}
	slices.SortStableFunc(found, func(a, b *Finding) int {
		return slices.Index(order, a.Level) - slices.Index(order, b.Level)
	})
	if r.Counts[Fail] > 0 {
		r.ExitCode = 2
	} else if r.Counts[Warn] > 0 {
		r.ExitCode = 1
	}
	return r
}

// Text is the report for a person: a line for each problem and for the round trip, then
// the counts. With showsAll every finding has a line.
func (r *Report) Text(showsAll bool) string {
	var text strings.Builder
	for _, f := range r.Findings {
		isProblem := f.Level == Warn || f.Level == Fail
		isRoundTrip := strings.HasPrefix(f.ID, liveID+".")
		if !showsAll && !isRoundTrip && !isProblem {
			continue
		}
		fmt.Fprintf(&text, "%-4s  %-15s %s", f.Level, f.ID, f.Text)
		if f.Fix != "" {
			text.WriteString(" → " + f.Fix)
		}
		text.WriteString("\n")
	}
	if text.Len() > 0 {
		text.WriteString("\n")
	}
	fmt.Fprintf(&text, "%d ok, %d warn, %d fail, %d skip",
		r.Counts[OK], r.Counts[Warn], r.Counts[Fail], r.Counts[Skip])
	if !showsAll {
		text.WriteString("; gchat-hooks doctor --all shows every line")
	}
	return text.String() + "\n"
}
