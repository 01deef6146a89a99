// Package claudecheck tries whether the Claude Code that is installed still works with this
// program. It runs that Claude Code without a network, in a folder of its own, against a
// model that plays a script, and goes through a table of contracts.
package claudecheck

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// Verdict says what was found about a contract.
type Verdict string

const (
	Holds   Verdict = "holds"
	Broken  Verdict = "does not hold"
	Untried Verdict = "could not be tried"
)

// Words returns what a person reads of a verdict.
func (v Verdict) Words() string {
	switch v {
	case Holds:
		return "works"
	case Broken:
		return "does not work"
	}
	return string(v)
}

// Finding is the outcome of one contract.
type Finding struct {
	ID      string  `json:"id"`
	Claim   string  `json:"claim"`
	Verdict Verdict `json:"verdict"`
	// Seen is what was seen instead, or why the contract could not be tried.
	Seen string `json:"seen,omitempty"`
	// Meaning is what a contract that does not hold means for a person.
	Meaning string `json:"meaning,omitempty"`
}

// Report is the outcome of a check.
type Report struct {
	Version  string    `json:"version"`
	Findings []Finding `json:"findings"`
}

func (r Report) count(v Verdict) (n int) {
	for _, f := range r.Findings {
		if f.Verdict == v {
			n++
		}
	}
	return n
}

// Summary returns the outcome in one line.
func (r Report) Summary() string {
	line := fmt.Sprintf("Claude Code %s: %d of %d work", r.Version, r.count(Holds), len(r.Findings))
	if n := r.count(Broken); n > 0 {
		line += fmt.Sprintf(", %d do not work", n)
	}
	if n := r.count(Untried); n > 0 {
		line += fmt.Sprintf(", %d could not be tried", n)
	}
	return line
}

// Result returns what is recorded of a report. For contracts that were not tried, what
// was known before stays: before.Failure says that it is not all.
func (r Report) Result(before state.ClaudeCheck, now time.Time) state.ClaudeCheck {
	result := state.ClaudeCheck{CheckedAt: now.UTC()}
	missing := 0
	for _, k := range contracts {
		isTried, isBroken := false, before.IsBroken(k.id)
		for _, f := range r.Findings {
			if f.ID == k.id && f.Verdict != Untried {
				isTried, isBroken = true, f.Verdict == Broken
			}
		}
		if !isTried {
			missing++
		}
		if isBroken {
			result.Broken = append(result.Broken, k.id)
		}
	}
	if missing > 0 && before.Failure != "" {
		result.Failure = fmt.Sprintf("%d of %d checks were not made", missing, len(contracts))
	}
	return result
}

// Meanings returns what it means for a person that contracts do not hold, by their ids.
func Meanings(broken []string) (meanings []string) {
	for _, k := range contracts {
		if slices.Contains(broken, k.id) {
			meanings = append(meanings, k.meaning)
		}
	}
	return meanings
}

// FailureText says that a version of Claude Code was not checked as a whole, and why.
func FailureText(version, failure string) string {
	return "Claude Code " + version + " was not checked as a whole: " + failure +
		"; gchat-hooks doctor --claude tries it"
}

// ExitCode is 0 if all contracts hold, 2 if one does not, and 1 if one could not be tried.
func (r Report) ExitCode() int {
	switch {
	case r.count(Broken) > 0:
		return 2
	case r.count(Untried) > 0:
		return exitUntried
	}
	return 0
}

const (
	// defaultTimeout is how long a whole check may take.
	defaultTimeout = 60 * time.Second
	// defaultPatience is how long anything is waited for.
	defaultPatience = 10 * time.Second
	// sessionLimit is how many sessions run at the same time. A Claude Code that starts
	// takes a core for a second or two.
	sessionLimit = 3

	// markVariable is in the environment of every process that a check starts.
	markVariable = "GCHAT_CLAUDE_CHECK"
)

// Check says what to check, and how. Program and Claude are needed.
type Check struct {
	// Program is this program's absolute path. GuardArgs are the arguments with which it
	// runs Guard, and FormServerArgs those with which it runs ServeForms.
	Program        string
	GuardArgs      []string
	FormServerArgs []string
	// Claude is the absolute path of Claude Code.
	Claude string
	// Only has the ids of the contracts to try; nil means all.
	Only []string
	// Progress is called with each finding. Calls do not overlap.
	Progress func(Finding)
	Timeout  time.Duration // of all; 0 means 60 s
	Patience time.Duration // of each step; 0 means 10 s

	dir     string
	mark    string
	version settings.Version
	mu      sync.Mutex
	found   map[string]Finding
}

// Run tries the contracts. The error says why no contract could be tried.
func (c *Check) Run(ctx context.Context) (Report, error) {
	c.Patience = cmp.Or(c.Patience, defaultPatience)
	c.mark, c.found = rand.Text(), map[string]Finding{}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Timeout, defaultTimeout))
	defer cancel()
	if _, err := exec.LookPath("tmux"); err != nil {
		return Report{}, fmt.Errorf("find tmux: %w", err)
	}
	if err := c.readVersion(ctx); err != nil {
		return Report{}, err
	}
	stop, err := c.startGuard()
	if err != nil {
		return Report{}, err
	}
	defer stop()

	var running sync.WaitGroup
	slots := make(chan struct{}, sessionLimit)
	for _, s := range c.scenes() {
		slots <- struct{}{}
		running.Go(func() {
			c.runScene(ctx, s)
			<-slots
		})
	}
	running.Wait()
	if err := c.whyNothingRan(); err != nil {
		return Report{}, err
	}
	report := Report{Version: c.version.String()}
	for _, k := range c.chosen(nil) {
		report.Findings = append(report.Findings, c.found[k.id])
	}
	return report, nil
}

// whyNothingRan returns an error if Claude Code showed no prompt in any session.
func (c *Check) whyNothingRan() error {
	seen := ""
	for _, f := range c.found {
		if f.Verdict != Untried || !strings.Contains(f.Seen, errNoPrompt.Error()) {
			return nil
		}
		seen = f.Seen
	}
	hint := "run it once in a terminal: it says what it waits for. A firewall may keep it from " +
		"starting"
	for _, path := range config.ManagedFiles(os.Getenv) {
		if _, err := os.Stat(path); err == nil {
			hint += ", and so may the rules in " + path
		}
	}
	return &state.UserError{Err: errors.New(seen), Hint: hint, Code: exitUntried}
}

// exitUntried is the exit code of a check that could try nothing.
const exitUntried = 1

// readVersion asks Claude Code for its version.
func (c *Check) readVersion(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Claude, "--version")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.DevNull}
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w", c.Claude, err)
	}
	version, ok := settings.ParseVersion(string(out))
	if !ok {
		return fmt.Errorf("%s is not Claude Code: its version is %.60q", c.Claude, out)
	}
	c.version = version
	return nil
}

// scenes returns the scenes of the chosen contracts, each once, those with the most
// contracts first.
func (c *Check) scenes() (all []*scene) {
	counts := map[*scene]int{}
	for _, k := range c.chosen(nil) {
		if counts[k.scene]++; counts[k.scene] == 1 {
			all = append(all, k.scene)
		}
	}
	slices.SortStableFunc(all, func(a, b *scene) int { return counts[b] - counts[a] })
	return all
}

// chosen returns the contracts to try in a scene; nil stands for all scenes.
func (c *Check) chosen(s *scene) (all []contract) {
	for _, k := range contracts {
		isChosen := len(c.Only) == 0 || slices.Contains(c.Only, k.id)
		if isChosen && (s == nil || k.scene == s) {
			all = append(all, k)
		}
	}
	return all
}

// runScene tries the contracts of a scene in one session. After a contract that does not
// hold, the next one gets a new session.
func (c *Check) runScene(ctx context.Context, s *scene) {
	current := &sceneRun{check: c, scene: s}
	defer current.closeSession()
	for _, k := range c.chosen(s) {
		if c.verdictOf(k.needs) == Broken {
			c.add(k, Finding{Verdict: Untried, Seen: "it needs what does not work: " + k.needs})
			continue
		}
		err := current.try(ctx, k)
		// A machine that was busy for a moment is no reason to say that something is
		// broken.
		if isFailure(err) && !errors.Is(err, errNotCalled) && ctx.Err() == nil {
			err = current.try(ctx, k)
		}
		c.add(k, k.finding(err))
	}
}

// sceneRun is a scene with the session in which its contracts are tried.
type sceneRun struct {
	check   *Check
	scene   *scene
	session *session // nil: the next contract starts one
}

func (r *sceneRun) closeSession() {
	if r.session != nil {
		r.session.close()
		r.session = nil
	}
}

// try tries a contract. The error says why it does not hold, or could not be tried.
func (r *sceneRun) try(ctx context.Context, k contract) (err error) {
	if r.session == nil {
		r.session, err = r.check.startSession(ctx, *r.scene)
	}
	if err != nil {
		r.session = nil
		return fmt.Errorf("%w: %w", errUntried, err)
	}
	t := r.session.newTrial(ctx)
	k.run(t)
	if t.err != nil {
		r.closeSession()
	}
	return t.err
}

// errUntried means that a contract could not be tried.
var errUntried = errors.New("no session could be started")

// isFailure reports whether a contract was tried and does not hold.
func isFailure(err error) bool {
	return err != nil && !errors.Is(err, errUntried) &&
		!errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}

// finding returns what a try of a contract found.
func (k contract) finding(err error) Finding {
	switch {
	case err == nil:
		return Finding{Verdict: Holds}
	case isFailure(err):
		return Finding{Verdict: Broken, Seen: err.Error(), Meaning: k.meaning}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Finding{Verdict: Untried, Seen: "there was no time for it"}
	}
	return Finding{Verdict: Untried, Seen: err.Error()}
}

func (c *Check) verdictOf(id string) Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.found[id].Verdict
}

// add records what was found about a contract.
func (c *Check) add(k contract, f Finding) {
	f.ID, f.Claim = k.id, k.claim
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found[k.id] = f
	if c.Progress != nil {
		c.Progress(f)
	}
}

// folderPrefix begins the name of a check's folder. It is short, since a socket's path is
// limited.
const folderPrefix = "gc-"

// startGuard makes the check's folder, and starts a process that removes it with all that
// runs from it once this process has ended, even by SIGKILL. stop ends both at once.
func (c *Check) startGuard() (stop func(), err error) {
	c.dir, err = os.MkdirTemp("", folderPrefix)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(c.Program, append(c.GuardArgs, c.dir, c.mark)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C does not reach it
	alive, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_ = os.Remove(c.dir)
		return nil, fmt.Errorf("start the guard of the check: %w", err)
	}
	return func() {
		alive.Close()
		_ = cmd.Wait()
	}, nil
}
