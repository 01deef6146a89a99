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
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/gchat"
	"gchat-hooks/poller"
	"gchat-hooks/state"
)

func (p Program) verifyCommand() *cli.Command {
	return &cli.Command{
		Name:  "verify",
		Usage: "check in the space itself that threads are kept apart and replies are found",
		Description: "Once:    gchat-hooks verify                 (you reply to one question)\n" +
			"In CI:   gchat-hooks verify --no-human --json\n" +
			"It posts about a dozen messages, in threads marked [Verify] that can be deleted.\n" +
			"Exit codes: 0 all passed or skipped, 1 no webhook or the space cannot be read, 2 a scenario failed, " +
			"4 wrong arguments",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "no-human", Usage: "skip the scenario that waits for a person's reply"},
			&cli.StringFlag{Name: "wait", Value: "5m", Usage: "wait so `LONG` for that reply"},
			&cli.StringFlag{Name: "timeout", Value: "5s", Usage: "how `LONG` nobody answers the last question"},
			&cli.StringFlag{Name: "report", Usage: "`FILE` for the report (default: in the state folder)"},
			&cli.BoolFlag{Name: "json", Usage: "print the report in place of a line for each scenario"},
		},
		Action: func(c *cli.Context) error {
			var long [2]time.Duration
			for i, name := range []string{"wait", "timeout"} {
				var err error
				if long[i], err = state.ParseInterval(c.String(name)); err != nil {
					return usage(fmt.Errorf("--%s: %w", name, err), "gchat-hooks verify --help")
				}
			}
			v := verify{
				env: os.Getenv, out: p.out, errOut: p.errOut, noHuman: c.Bool("no-human"), wait: long[0], timeout: long[1],
				file: c.String("report"), asJSON: c.Bool("json"),
			}
			return v.run(c.Context)
		},
	}
}

// verify is the correlation check, as a command.
type verify struct {
	env           state.Getenv
	out, errOut   io.Writer
	noHuman       bool
	wait, timeout time.Duration
	file          string // "": in the user state
	asJSON        bool
}

// Exit codes of verify beside 0 and exitUsage.
const (
	exitNotVerifiable = 1 // no webhook, or the space cannot be read
	exitNotVerified   = 2
)

func (v *verify) run(ctx context.Context) error {
	path, err := v.reportFile(time.Now())
	if err != nil {
		return err
	}
	project, err := filepath.Abs(state.ProjectDir(v.env))
	if err != nil {
		return err
	}
	p := &poller.Poller{Env: v.env, Log: state.NewLog(v.env, "verify")}
	for _, problem := range state.LoadConfig(v.env, project).Problems {
		fmt.Fprintln(v.errOut, "gchat-hooks: warning:", p.Log.Clean(problem.Error()))
	}
	check := &poller.Verify{
		Poller: p, ProjectDir: project, NoHuman: v.noHuman, Wait: v.wait, Timeout: v.timeout,
		Keep: func(r *poller.VerifyReport) error {
			v.show(r)
			r.File = path
			return r.Save(path)
		},
		Tell: func(sentence string) { fmt.Fprintln(v.errOut, "gchat-hooks:", sentence) },
	}
	report, err := check.Run(ctx)
	switch {
	case err == nil:
	case ctx.Err() != nil && report == nil:
		return failed(errors.New("interrupted before anything was posted"), "", exitNotVerified)
	case report != nil:
		return failed(err, "name a file that can be written with --report", exitNotVerifiable)
	default:
		return failed(errors.New(p.Log.Clean(err.Error())), poller.VerifyHint(err), exitNotVerifiable)
	}
	if v.asJSON {
		e := json.NewEncoder(v.out)
		e.SetIndent("", "  ")
		if err := e.Encode(report); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(v.out, "report:", path)
	}
	return verdict(report)
}

// verdict is nil when the check passed, else what is to be said at its end.
func verdict(r *poller.VerifyReport) error {
	if r.Passed {
		return nil
	}
	count, hint := map[poller.VerifyStatus]int{}, ""
	for _, s := range r.Scenarios {
		count[s.Status]++
		hint = cmp.Or(hint, s.Hint) // the first failure's: the others may follow from it
	}
	words := fmt.Sprintf("%d of %d scenarios failed", count[poller.VerifyFail], len(r.Scenarios))
	if count[poller.VerifyFail] == 0 {
		words = fmt.Sprintf("interrupted: %d of %d scenarios passed", count[poller.VerifyPass], len(r.Scenarios))
	}
	return failed(errors.New(words), hint, exitNotVerified)
}

// reportFile is where the report goes. What stands there is replaced, so it must be a file.
func (v *verify) reportFile(now time.Time) (string, error) {
	wrong := func(format string, args ...any) error {
		return usage(fmt.Errorf("--report: "+format, args...), "gchat-hooks verify --help")
	}
	if v.file == "" {
		dir := state.UserState(v.env)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", failed(fmt.Errorf("make state folder: %w", err),
				"name a file that can be written with --report", exitNotVerifiable)
		}
		name := filepath.Join(dir, "gchat-verify-"+now.Format("20060102-150405"))
		path := name + ".json"
		for n := 2; ; n++ { // two runs in a second
			if _, err := os.Lstat(path); err != nil {
				return path, nil
			}
			path = fmt.Sprintf("%s-%d.json", name, n)
		}
	}
	path, err := filepath.Abs(v.file)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return "", wrong("there is no folder %s", filepath.Dir(path))
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return "", wrong("%s is no file", path)
	}
	return path, nil
}

// show prints the scenario that ended last, as soon as it has. What Chat said may come from something that answers in its
// place: a terminal must not obey it.
func (v *verify) show(r *poller.VerifyReport) {
	switch {
	case v.asJSON || !r.Ended.IsZero():
	case len(r.Scenarios) == 0:
		fmt.Fprintf(v.out, "The space is %s; the keys of the threads begin verify-%s-.\n\n", r.Chat, r.Run)
	default:
		s := r.Scenarios[len(r.Scenarios)-1]
		fmt.Fprintf(v.out, "%-7s  %d. %s: %s\n", s.Status, len(r.Scenarios), s.Title, inWords(s))
		for _, th := range s.Threads {
			fmt.Fprintf(v.out, "           %s → %s\n", th.Key, cmp.Or(gchat.Line(th.Name), "(no thread)"))
		}
		for _, note := range s.Notes {
			fmt.Fprintln(v.out, "           note:", gchat.Line(note))
		}
	}
}

// inWords is a scenario's result in a line.
func inWords(s poller.VerifyResult) string {
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	if s.Why != "" {
		add("%s", gchat.Line(s.Why))
	}
	if a := s.Answer; a != nil {
		who := a.By
		if a.Name != "" {
			who += " (" + a.Name + ")"
		}
		add("%s replied %q, read as %q", gchat.Line(who), gchat.Cut(a.Text, 200), gchat.Cut(a.ReadAs, 200))
	}
	if s.Scenario == "timeout" && s.Status == poller.VerifyPass {
		add("timed out after %s without a reply", poller.Spoken(time.Duration(s.WaitedMS*float64(time.Millisecond))))
	}
	if s.BotMessages > 0 {
		add("not taken for one: %d messages of bots, %d of people in other threads", s.BotMessages, s.Elsewhere)
	}
	if len(s.PostMS) > 0 {
		add("posted in %s", span(s.PostMS))
	}
	if len(s.ListedMS) > 0 {
		add("listed %s later", span(s.ListedMS))
	}
	return strings.Join(words, "; ")
}

// span is a list of milliseconds as "0.4 ms" or "38 to 52 ms".
func span(ms []float64) string {
	short := func(ms float64) string {
		if ms < 10 {
			return fmt.Sprintf("%.1f", ms)
		}
		return fmt.Sprintf("%.0f", ms)
	}
	least, most := short(slices.Min(ms)), short(slices.Max(ms))
	if least == most {
		return most + " ms"
	}
	return least + " to " + most + " ms"
}
