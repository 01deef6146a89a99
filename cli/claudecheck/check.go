// Package claudecheck tries whether the Claude Code that is installed still works with this
// program. It runs that Claude Code without a network, in a folder of its own, against a
// model that plays a script, and goes through a table of contracts.
package claudecheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"crypto/rand"

	"gchat-hooks/hooks/settings"
)

// Verdict says what was found about a contract.
type Verdict string

const (
	Holds   Verdict = "holds"
	Broken  Verdict = "does not hold"
	Untried Verdict = "could not be tried"
)

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

const (
	// defaultTimeout is how long a whole check may take.
	defaultTimeout = 60 * time.Second
	// defaultPatience is how long anything is waited for.
	defaultPatience = 20 * time.Second
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
	Patience time.Duration // of each step; 0 means 20 s

	dir     string
	mark    string
	version settings.Version
	mu      sync.Mutex
	slots   chan struct{}
	found   map[string]Finding
}

// Run tries the contracts. The error says why no contract could be tried.
func (c *Check) Run(ctx context.Context) (Report, error) {
	c.Patience = cmp.Or(c.Patience, defaultPatience)
	c.mark, c.slots, c.found = rand.Text(), make(chan struct{}, sessionLimit), map[string]Finding{}
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
	for _, s := range scenes() {
		running.Go(func() { c.runScene(ctx, s) })
	}
	running.Wait()
	report := Report{Version: c.version.String()}
	for _, k := range c.chosen(nil) {
		report.Findings = append(report.Findings, c.found[k.id])
	}
	return report, nil
}

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

// scenes returns the scenes of all contracts, each once.
func scenes() (all []*scene) {
	seen := map[*scene]bool{}
	for _, k := range contracts {
		if !seen[k.scene] {
			seen[k.scene] = true
			all = append(all, k.scene)
		}
	}
	return all
}

// chosen returns the contracts to try in a scene; nil stands for all scenes.
func (c *Check) chosen(s *scene) (all []contract) {
	for _, k := range contracts {
		isChosen := c.Only == nil
		for _, id := range c.Only {
			isChosen = isChosen || id == k.id
		}
		if isChosen && (s == nil || k.scene == s) {
			all = append(all, k)
		}
	}
	return all
}

// runScene tries the contracts of a scene in one session. After a contract that does not
// hold, the next one gets a new session.
func (c *Check) runScene(ctx context.Context, s *scene) {
	todo := c.chosen(s)
	if len(todo) == 0 {
		return
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
	}
	var current *session
	defer func() {
		if current != nil {
			current.close()
		}
	}()
	for _, k := range todo {
		var err error
		if current == nil {
			current, err = c.startSession(ctx, *s)
		}
		if err == nil {
			t := current.newTrial(ctx)
			k.run(t)
			err = t.err
			if err != nil {
				current.close()
				current = nil
			}
		} else if !errors.Is(err, errNoStart) && ctx.Err() == nil {
			err = errors.Join(errUntried, err)
		}
		c.add(k, err, ctx.Err())
	}
}

// errUntried means that a contract could not be tried, for a reason of this machine.
var errUntried = errors.New("no session could be started")

// add records what was found about a contract.
func (c *Check) add(k contract, err, timeout error) {
	f := Finding{ID: k.id, Claim: k.claim, Verdict: Holds}
	switch {
	case err != nil && timeout != nil:
		f.Verdict, f.Seen = Untried, "the time was over"
	case errors.Is(err, errUntried):
		f.Verdict, f.Seen = Untried, err.Error()
	case err != nil:
		f.Verdict, f.Seen, f.Meaning = Broken, err.Error(), k.meaning
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found[k.id] = f
	if c.Progress != nil {
		c.Progress(f)
	}
}

// startGuard makes the check's folder, and starts a process that removes it with all that
// runs from it once this process has ended, even by SIGKILL. stop ends both at once.
func (c *Check) startGuard() (stop func(), err error) {
	c.dir, err = os.MkdirTemp("", "gc-") // short: a socket's path is limited
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
