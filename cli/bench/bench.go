// Package bench measures how long this program takes on the machine of the person who
// asks, beside small Python and bash programs that do the same work.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// Bench measures each scenario with each program. All that the programs read and write is
// in Dir, and what they post goes to a space on loopback.
type Bench struct {
	Program  string    // this program's file
	Version  string    // this program's version
	Dir      string    // an empty folder; the caller removes it after Close
	Rounds   int       // how often each program is measured in each scenario
	Progress io.Writer // gets a dot for each round

	contenders []*contender
	posts      chan struct{} // gets a value for each message that arrives
	machine    Machine
	pollers    []*state.Lock // held so that no poller starts
	closers    []func()
}

// contender is a program in a scenario.
type contender struct {
	scenario scenario
	side     *Side
	argv     []string
	dir      string // its project
	env      []string
	times    []time.Duration // by round
}

const (
	// runTimeout ends a program that hangs.
	runTimeout = 20 * time.Second
	// postTimeout is how long a message may take to arrive after its program has ended.
	postTimeout = 10 * time.Second
)

// Run measures, and returns the report. The first round is not counted: it fills caches,
// and creates the folders and records that a hook finds from then on. In each round all
// programs run one after the other, in an order of its own. So what else the machine does
// meanwhile concerns all of them.
func (b *Bench) Run(ctx context.Context) (*Report, error) {
	if err := b.prepare(ctx); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	for round := range b.Rounds + 1 {
		for _, i := range rand.Perm(len(b.contenders)) {
			c := b.contenders[i]
			if c.side.LeftOut != "" {
				continue
			}
			took, err := b.runOnce(ctx, c, strconv.Itoa(round))
			switch {
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case err != nil && c.isOurs():
				return nil, fmt.Errorf("%s: %w", c.scenario.about, err)
			case err != nil:
				c.side.LeftOut = err.Error()
			case round > 0:
				c.times = append(c.times, took)
			}
		}
		fmt.Fprint(b.Progress, ".")
	}
	return b.report(), nil
}

// Close ends all that Run started. From then on no process writes into Dir.
func (b *Bench) Close() {
	for _, c := range b.contenders {
		if c.isOurs() {
			b.pollers = append(b.pollers, endPoller(c.getenv))
		}
	}
	for _, closeOne := range b.closers {
		closeOne()
	}
}

func (c *contender) isOurs() bool { return c.side.Program == ourName }

// getenv reads the contender's environment.
func (c *contender) getenv(name string) string {
	for _, pair := range c.env {
		if value, isThis := strings.CutPrefix(pair, name+"="); isThis {
			return value
		}
	}
	return ""
}

// prepare opens the space, writes the programs, and finds out what cannot be measured.
func (b *Bench) prepare(ctx context.Context) error {
	webhook, err := b.openSpace()
	if err != nil {
		return err
	}
	python := b.describeMachine(ctx)
	if err := os.CopyFS(b.Dir, sources); err != nil {
		return err
	}
	tmuxEnv, tmuxErr := b.startTmux(ctx)
	for _, s := range scenarios {
		script := filepath.Join(b.Dir, "programs", s.name)
		for _, c := range []*contender{
			{side: &Side{Program: ourName}, argv: append([]string{b.Program}, s.own...)},
			{
				side: &Side{Program: "python", LeftOut: missing(python)},
				// -S leaves out what the packages of this machine do when Python starts.
				argv: []string{python, "-S", script + ".py"},
			},
			{
				side: &Side{Program: "bash", LeftOut: missing("bash", "jq", "curl")},
				argv: []string{"bash", script + ".sh"},
			},
		} {
			c.scenario, c.argv = s, append(c.argv, s.args...)
			if s.needsTmux && tmuxErr != nil {
				c.side.LeftOut = tmuxErr.Error()
			}
			if err := b.addContender(c, webhook, tmuxEnv); err != nil {
				return err
			}
		}
	}
	return nil
}

// addContender gives a program a home folder and a project of its own.
func (b *Bench) addContender(c *contender, webhook string, tmuxEnv []string) error {
	home := filepath.Join(b.Dir, c.scenario.name+"-"+c.side.Program)
	c.dir = filepath.Join(home, "project")
	config := filepath.Join(home, ".config", "gchat-hooks")
	err := errors.Join(os.MkdirAll(c.dir, 0o700), os.MkdirAll(config, 0o700))
	if err != nil {
		return err
	}
	c.env = []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + b.Dir,
		"CLAUDE_PROJECT_DIR=" + c.dir, "GOOGLE_CHAT_WEBHOOK_URL=" + webhook,
		"GCHAT_ALLOWED_USERS=" + space.PersonName, "GCHAT_WRITES_PER_MINUTE=60000",
		// Python keeps what it compiles there, and not beside its own library.
		"PYTHONPYCACHEPREFIX=" + filepath.Join(b.Dir, "pycache"),
	}
	if c.scenario.name == "send" {
		c.env = append(c.env, "CLAUDE_SESSION_ID=bench")
	}
	if c.scenario.needsTmux {
		c.env = append(c.env, tmuxEnv...)
	}
	b.contenders = append(b.contenders, c)
	return os.WriteFile(filepath.Join(config, "config.json"), []byte(`{"check_claude": false}`), 0o600)
}

// openSpace serves a space that keeps its messages in memory, and returns its webhook. It
// speaks http. With https each program would take longer: it reads the machine's
// certificates first.
func (b *Bench) openSpace() (webhook string, err error) {
	b.posts = make(chan struct{}, 1)
	sp, err := space.Open(space.Options{})
	if err != nil {
		return "", err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", errors.Join(err, sp.Close())
	}
	handler := sp.Handler()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			select {
			case b.posts <- struct{}{}:
			default:
			}
		}
		handler.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(listener) }()
	b.closers = append(b.closers, func() { _ = server.Close(); _ = sp.Close() })
	return sp.WebhookURL("http://" + listener.Addr().String()), nil
}

// startTmux starts a tmux server with one session, and returns the variables of a program
// that runs in its pane.
func (b *Bench) startTmux(ctx context.Context) (env []string, err error) {
	if what := missing("tmux"); what != "" {
		return nil, errors.New(what)
	}
	screen, agents := filepath.Join(b.Dir, "screen"), filepath.Join(b.Dir, "registry.json")
	err = errors.Join(os.WriteFile(screen, []byte(screenText), 0o600),
		os.WriteFile(agents, []byte(registry), 0o600))
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(b.Dir, "tmux")
	b.closers = append(b.closers, func() {
		_ = exec.Command("tmux", "-S", socket, "kill-server").Run()
	})
	cmd := exec.CommandContext(ctx, "tmux", "-S", socket, "-f", os.DevNull, "new-session", "-d",
		"-s", tmuxSession, "-x", "100", "-y", "50", "cat "+state.QuoteForShell(screen)+" -")
	cmd.Env = append(os.Environ(), "TMUX=", "TERM=xterm")
	if printed, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("start tmux: %w: %s", err, lastLine(printed))
	}
	return []string{"TMUX=" + socket + ",1,0", "TMUX_PANE=%0", "GCHAT_WAKE_REGISTRY=" + agents}, nil
}

// missing says which of some programs are not there; "" if all are.
func missing(programs ...string) string {
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return cmp.Or(program, "python3") + " is not there"
		}
	}
	return ""
}

// runOnce runs a program and returns how long it took, from its start until its process
// is gone and its output is closed. Claude Code waits that long for a hook. Before the
// next program runs, runOnce waits for what this one left behind: the post of a
// background process, or the poller.
func (b *Bench) runOnce(ctx context.Context, c *contender, round string) (time.Duration, error) {
	select {
	case <-b.posts: // a second message of an earlier program
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	argv := make([]string, len(c.argv))
	for i, arg := range c.argv {
		argv[i] = strings.ReplaceAll(arg, roundMark, round)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = c.env, c.dir
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(c.scenario.stdin, roundMark, round))
	var printed strings.Builder
	cmd.Stdout, cmd.Stderr = &printed, &printed
	// Ctrl-C in the terminal reaches only this process, which ends the others.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	killGroup := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel, cmd.WaitDelay = killGroup, time.Second
	awaitRest := func() error { return nil }
	if c.isOurs() {
		// It started the poller only if there was something to do.
		defer func() { endPoller(c.getenv).Unlock() }()
	} else {
		left, err := watchGroup(cmd)
		if err != nil {
			return 0, err
		}
		defer left.Close()
		awaitRest = func() error { return awaitEnd(left, killGroup) }
	}
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	for _, file := range cmd.ExtraFiles {
		_ = file.Close()
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, lastLine([]byte(printed.String())))
	}
	if err := awaitRest(); err != nil {
		return 0, err
	}
	if c.scenario.isPosted && !(c.isOurs() && c.scenario.isPostedLate && round != "0") {
		err = b.awaitPost(ctx)
	}
	return took, err
}

// watchGroup gives a command a pipe that all processes inherit which it leaves behind. The
// end of the pipe is the end of the last one.
func watchGroup(cmd *exec.Cmd) (left *os.File, err error) {
	left, inherited, err := os.Pipe()
	cmd.ExtraFiles = []*os.File{inherited}
	return left, err
}

// awaitEnd waits until no process has the other end of the pipe, and kills those that
// take too long.
func awaitEnd(left *os.File, kill func() error) error {
	_ = left.SetReadDeadline(time.Now().Add(postTimeout))
	if _, err := left.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		_ = kill()
		return errors.New("what it left running did not end")
	}
	return nil
}

// awaitPost waits for a message in the space.
func (b *Bench) awaitPost(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	select {
	case <-b.posts:
		return nil
	case <-ctx.Done():
		return errors.New("its message did not arrive")
	}
}

// endPoller ends the poller of an environment, and returns its lock, with which no other
// one can start; nil if that takes too long. A poller that was just started has the lock,
// but no heartbeat yet.
func endPoller(env state.Getenv) *state.Lock {
	signalled := map[int]syscall.Signal{}
	for try := range 500 {
		if lock, err := state.LockPoller(env); err == nil {
			return lock
		}
		signal := syscall.SIGTERM
		if try > 300 {
			signal = syscall.SIGKILL
		}
		for _, h := range state.ReadHeartbeats(env) {
			if h.IsAlive && signalled[h.PID] != signal {
				_ = syscall.Kill(h.PID, signal) // a second SIGTERM would end it at once
				signalled[h.PID] = signal
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}
