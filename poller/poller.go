// Package poller is the one loop that talks to Google Chat, types into tmux and calls OpenClaw: it sends what is in the
// outbox, reads what people reply, decides who may answer, types answers, and closes what is over. It knows nothing of
// Claude Code's hook protocol: hooks and commands write records, and it goes on from the records, also after kill -9.
package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"gchat-hooks/poller/service"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// Options say what a poller is to do.
type Options struct {
	Env  state.Getenv
	Log  *state.Log
	Self string      // this program's path; the poller ends when the file there changes
	Lock *state.Lock // where the caller took it, or inherited it; nil: Run takes it

	Daemon bool      // stays; else it ends Idle after its work is done
	Once   bool      // one round: send, read, judge, type, send
	DryRun bool      // type nothing; say what would be typed
	Out    io.Writer // where IsDryRun says it; nil for the log alone
	// Dirs are folders of questions that a person named: the poller acts on all that is in them.
	Dirs   []string
	Hangup <-chan os.Signal // configuration and credentials are read afresh

	// Summary puts the summary that a session's thread is owed. Nil puts none.
	Summary func(context.Context, state.Getenv, *state.Session) error
	// Dialog tells a session's thread what waits in its terminal. Nil tells nothing.
	Dialog func(state.Getenv, *state.Session) error

	Now func() time.Time // nil, for Run: time.Now
}

// Idle is how long a poller stays after its work is done.
const Idle = 30 * time.Second

const (
	// stepBound is how long one step of the loop may take: then something hangs, and the process ends. Another is started.
	stepBound = time.Minute
	// onceBound is how long a single round sends before it types, and again after it.
	onceBound = 10 * time.Second
	// burstPause is how long changes that come close together are collected.
	burstPause = 10 * time.Millisecond
	// clockJump is how much later than asked for the loop wakes when the machine slept.
	clockJump = time.Minute
	// unwatched is how long the loop rests at most where the system does not tell of calls.
	unwatched = 2 * time.Second
)

// Poller is one running poller.
type Poller struct {
	Options
	environment string // see state.Environment
	user        string // see state.UserStateDir
	ways        gateways

	sender *sender
	index  map[string]*served // by the Open's file, or by the record's real one where a person named its folder
	// others are the records of the other environments. What is read in their threads goes
	// into the inbox, for their pollers; nothing else is done for them.
	others       map[string]*served
	records      state.Cache[state.Question]
	sessionFiles state.Cache[state.Session]
	inboxFiles   state.Cache[state.Incoming]
	incoming     []*state.Incoming            // what is not done, the oldest first
	routed       map[string][]*state.Incoming // of these, what is for a session, by its id
	wordTries    map[string]*try              // of these, what was done about words, by id
	ofOthers     map[string]bool              // of these, what another environment decides, by id
	arrivals     arrivals
	readTo       map[string]time.Time               // by chat: up to when it was read
	cards        atomic.Pointer[map[string]*served] // by what their buttons carry
	sessions     []*state.Session                   // of all environments
	ownSessions  []*state.Session                   // of these, those of this one
	byThread     map[string]*state.Session          // of their reports
	starts       bool                               // the person wants sessions to be started: see config.CanStartSessions
	pulls        bool                               // what is said in the space comes from a subscription
	// fresh are paths of messages that this process put as tried, to spare a write, and did not try yet.
	fresh     sync.Map
	summed    sync.Map           // ids of the sessions whose summary is being worded
	dialogDue time.Time          // when a dialog is to be told of that stands in a terminal
	doing     sync.Map           // ids of the sessions whose commands are being done
	readers   map[string]*reader // by chat
	events    events
	watch     *fsnotify.Watcher // of calls: see state.CallPoller; nil where there is none to be had
	changed   chan struct{}     // a goroutine of ours has something for the loop
	working   sync.WaitGroup

	asking   atomic.Bool // tmux is being asked for its panes
	polled   time.Time   // of the last round: see round
	swept    time.Time
	beatAt   time.Time
	ended    time.Time // when the last question of this environment ended; see endedLately
	began    time.Time
	calls    int64       // see state.CountPollerCalls
	letSleep func()      // ends what keeps the machine awake; nil where nothing does
	awake    time.Time   // since when this process reads on: it began then, or the machine slept until then
	program  os.FileInfo // what stood at Self when this process began
	homes    []string    // state folders that have the daemon's pid and the time of its last poll
}

// ErrDaemonRuns says that a daemon of this environment runs already.
var ErrDaemonRuns = errors.New("the daemon runs already")

// ending is why a poller stops serving.
type ending string

const (
	stopped  ending = "stopped" // ctx ended, or a daemon waits for the lock
	idled    ending = "idled"   // there is nothing to do
	replaced ending = "the program on disk changed"
	homeless ending = "the state folder was removed"
)

// Run is the poller until ctx ends or its Options say so. Errors are ErrDaemonRuns, *state.UserError when a person has to mend
// something, and with Once what kept a space from being read.
func Run(ctx context.Context, o Options) error {
	p := newPoller(o)
	if p.Lock == nil {
		if err := p.lock(ctx); err != nil {
			return err
		}
	}
	defer release(&p.Lock)
	serves, err := p.proveLocks(ctx)
	if !serves {
		return err
	}
	if p.DryRun {
		mark, err := state.MarkDryRun(p.Env)
		if err != nil {
			return misconfigured(err)
		}
		defer mark.Unlock()
	}
	p.Log.ErrorOnce(state.AdoptFormerEnvironment(p.Env), "not all of an earlier version's environment taken over")
	if p.Daemon || p.Once {
		p.homes = p.stateFolders()
		p.scan()
	}
	if p.Daemon && len(p.index) == 0 {
		if err := config.CheckDaemonHasWork(p.Env, p.projects()); err != nil {
			return err
		}
	}
	if p.Once {
		return p.runOnce(ctx)
	}
	if p.Daemon {
		defer p.removePIDs()
		for _, dir := range p.homes {
			if err := state.WriteDaemonPID(dir); err != nil {
				return misconfigured(err)
			}
		}
	}
	return p.handOn(p.serve(ctx))
}

// projects are the folders of the projects that a daemon was started for.
func (p *Poller) projects() []string {
	dirs := []string{state.ProjectDir(p.Env)}
	for _, dir := range p.Dirs {
		dirs = append(dirs, p.projectOf(filepath.Dir(dir)))
	}
	return dirs
}

// removePIDs takes this process's id out of the state folders, and no other daemon's.
func (p *Poller) removePIDs() {
	for _, dir := range p.homes {
		if state.ReadDaemonPID(dir) == os.Getpid() {
			os.Remove(filepath.Join(dir, state.PIDFile))
		}
	}
}

// runOnce is the poller of a single round. Where a detached poller may have made way for it,
// another begins.
func (p *Poller) runOnce(ctx context.Context) error {
	for _, s := range p.index {
		if !s.named && p.busy(s) {
			p.calls = anew
		}
	}
	return errors.Join(p.once(ctx), p.leave(p.calls))
}

// handOn ends a poller that served, and leaves what it did not do to another.
func (p *Poller) handOn(why ending) error {
	state.RemoveHeartbeat(p.Env)
	switch {
	case why == stopped:
		state.CallPoller(p.Env, p.environment) // what waits for the lock is to go on, and not only a single round
		return nil
	case p.Daemon:
		return errors.New(string(why)) // the service manager starts it
	case why == homeless:
		return nil
	case why == replaced:
		return p.leave(anew)
	}
	return p.leave(p.calls)
}

// Deliver has a command, which has the poller's lock, send a message that it just put as tried, by its configuration. What has to
// wait, or fails, is returned as it then stands, and left to a poller; so is what an older message of its lane waits before.
func Deliver(ctx context.Context, o Options, cfg *config.Config, m *state.Message) (*state.Message, error) {
	s := commandSender(o, m)
	waiting, _ := s.box.Waiting()
	if slices.ContainsFunc(waiting, func(one *state.Message) bool { return one.Path < m.Path && one.Lane() == m.Lane() }) {
		return s.leaveToPoller(m)
	}
	return s.sendOne(ctx, m, s.open(ctx, cfg))
}

// commandSender is the sender of a command that just put m as tried. Its caller's time is all that it has.
func commandSender(o Options, m *state.Message) *sender {
	p := &Poller{Options: o, user: state.UserStateDir(o.Env)}
	p.ways.renew()
	s := p.newSender()
	s.linger = 0
	s.fresh.Store(m.Path, true)
	return s
}

// sendOne sends all parts of a message, for as long as ctx lasts.
func (s *sender) sendOne(ctx context.Context, m *state.Message, way *gateway) (*state.Message, error) {
	for ctx.Err() == nil { // else a command for the webhook may have been cut
		how := outcome{until: s.Now().Add(authPause)} // after a panic
		s.safely("send", func() { how = s.tryBy(ctx, m, way) })
		now, err := s.box.Load(state.RecordName(m.Path))
		if err != nil || now.IsFinal() {
			return cmp.Or(now, m), err
		}
		m = now // with its next part
		if !how.until.IsZero() {
			break
		}
	}
	return s.leaveToPoller(m)
}

// leaveToPoller leaves a message as a poller has to find it.
func (s *sender) leaveToPoller(m *state.Message) (*state.Message, error) {
	if _, untried := s.fresh.Load(m.Path); !untried {
		return m, nil
	}
	// The next poller need not look for it in the space.
	now, err := s.box.Change(m.Path, func(m *state.Message) { m.FirstTriedAt = time.Time{} })
	return cmp.Or(now, m), err
}

// anew is a number of calls that there never was: another poller begins in any case.
const anew = -1

// leave lets the lock go. What saw it held relied on this process: a detached poller begins where one was called since then.
func (p *Poller) leave(calls int64) error {
	lock, self := p.Lock, p.Self
	p.Lock = nil
	if p.DryRun {
		self = ""
	}
	return lock.UnlockPoller(p.Env, self, calls)
}

func newPoller(o Options) *Poller {
	if o.Now == nil {
		o.Now = time.Now
	}
	now := o.Now()
	p := &Poller{
		Options: o, environment: state.Environment(o.Env), user: state.UserStateDir(o.Env),
		wordTries: map[string]*try{}, index: map[string]*served{}, others: map[string]*served{}, readers: map[string]*reader{}, changed: make(chan struct{}, 1),
		began: now, awake: now, swept: now, calls: state.CountPollerCalls(o.Env),
	}
	p.ways.renew()
	if o.Self != "" {
		p.program, _ = os.Stat(o.Self)
	}
	return p
}

func (p *Poller) stateFolders() []string {
	all := []string{p.user}
	for _, dir := range p.Dirs {
		all = append(all, filepath.Dir(dir))
	}
	own := state.ProjectStateDir(p.Env)
	_, err := os.Stat(own)
	if len(p.Dirs) == 0 && (err == nil || p.Env("GCHAT_STATE_DIR") != "" || p.Env("CLAUDE_PROJECT_DIR") != "") {
		all = append(all, own)
	}
	return all
}

// lock makes this process the poller of its environment. The daemon, and a single round, have a detached one yield.
func (p *Poller) lock(ctx context.Context) (err error) {
	p.Lock, err = state.LockPoller(p.Env)
	if !errors.Is(err, state.ErrLocked) || !p.Daemon && !p.Once {
		return misconfigured(err)
	}
	want, err := state.RequestPollerLock(p.Env)
	if errors.Is(err, state.ErrLocked) {
		return ErrDaemonRuns // another one waits
	}
	if err != nil {
		return misconfigured(err)
	}
	defer want.Unlock()
	state.CallPoller(p.Env, p.environment) // the one that has the lock looks who wants it
	for {
		if h := state.ReadHeartbeat(p.Env, p.environment); h.IsDaemon && h.IsAlive { // it says so a moment after it took the lock
			return fmt.Errorf("%w: pid %d", ErrDaemonRuns, h.PID)
		}
		if !state.Sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
		p.Lock, err = state.LockPoller(p.Env)
		if !errors.Is(err, state.ErrLocked) {
			return misconfigured(err)
		}
	}
}

// proveLocks looks whether the poller's lock excludes other processes. Where it does not, another poller may be there:
// the lock is taken again, where it does. Without locks that lock, only the daemon serves.
func (p *Poller) proveLocks(ctx context.Context) (serves bool, err error) {
	if p.Self != "" && !p.Once && p.Lock.MoveLocksIfShared(p.Env, p.Self) {
		release(&p.Lock)
		err = p.lock(ctx)
		if errors.Is(err, state.ErrLocked) {
			err = nil
		}
		if p.Lock == nil {
			return false, err
		}
	}
	place := state.ReadLockFolder(p.Env)
	return place == nil || place.Dir != "" || p.Daemon || p.Once, nil
}

func release(lock **state.Lock) {
	(*lock).Unlock()
	*lock = nil
}

func (p *Poller) serve(ctx context.Context) (why ending) {
	ctx, end := p.begin(ctx)
	defer end()
	p.watchCalls()
	defer func() { p.Log.Info().Msg("poller ends") }()
	p.Log.Info().Bool("daemon", p.Daemon).Bool("dry_run", p.DryRun).Strs("pending_dirs", p.Dirs).Msg("poller started")
	idleSince, expected := p.Now(), p.Now()
	for {
		if p.Lock.IsFileGone() {
			return homeless
		}
		// Without Go's monotonic clock, which stands still while the machine sleeps.
		if late := p.Now().Round(0).Sub(expected); late > clockJump {
			p.wakeUp()
		}
		next, busy := p.step(ctx)
		now := p.Now()
		if busy {
			idleSince = now
		}
		switch {
		case ctx.Err() != nil, !p.Daemon && state.IsPollerLockRequested(p.Env):
			return stopped
		case p.programChanged():
			return replaced
		case !p.Daemon && now.Sub(idleSince).Abs() >= Idle && now.Sub(p.ended).Abs() >= readOnFor:
			if p.calls > 0 && p.Lock.ResetCalls() == nil {
				continue
			}
			p.sweep()
			return idled
		}
		expected = sooner(next, now.Add(state.HeartbeatInterval))
		if end := idleSince.Add(Idle); !p.Daemon && !busy && end.After(now) {
			expected = sooner(expected, end)
		}
		p.await(ctx, expected)
	}
}

// begin makes a poller ready to serve. end waits for what this process still does: an answer is typed to its end.
func (p *Poller) begin(ctx context.Context) (serving context.Context, end func()) {
	p.sender = p.newSender()
	ctx, cancel := context.WithCancel(ctx)
	return ctx, func() {
		cancel()
		if p.letSleep != nil {
			p.letSleep()
		}
		p.working.Wait()
		for _, r := range p.readers {
			release(&r.lock)
		}
		release(&p.events.lock)
		for _, s := range p.index {
			release(&s.lock)
		}
		if p.watch != nil {
			_ = p.watch.Close()
		}
		clear(p.index)
		clear(p.others)
		clear(p.readers)
	}
}

// step does once all that is due. It returns when to come again, and whether something is left to be done.
func (p *Poller) step(ctx context.Context) (next time.Time, busy bool) {
	bound := time.AfterFunc(stepBound, func() {
		p.Log.Error().Msg("the poller hangs, and ends itself")
		os.Exit(1)
	})
	defer bound.Stop()
	cfg := p.own()
	next, busy = p.Now().Add(cfg.PollInterval), true // after a panic
	p.calls = state.CountPollerCalls(p.Env)
	p.safely("step", func() {
		p.readRecords()
		pulls := p.keepPulling(ctx, cfg.ReceivesEvents())
		next, busy = p.attendAll(ctx, cfg)
		next = sooner(next, pulls)
		next = sooner(next, p.follow(ctx))
		due, sending := p.sender.dispatch(ctx)
		next, busy = sooner(next, due), busy || sending || !due.IsZero()
		if p.Now().Sub(p.swept).Abs() >= sweepEvery {
			p.sweep()
		} else if !busy {
			p.sweepQuestions()
		}
		p.beat(cfg.KeepsAwake)
	})
	return next, busy
}

// watchCalls has the system tell of calls, each of which writes to the file of this poller's lock.
func (p *Poller) watchCalls() {
	watch, err := fsnotify.NewWatcher()
	if err == nil {
		err = watch.Add(p.Lock.Path)
	}
	if err != nil {
		p.Log.Warn().Err(err).Msg("work is looked for every two seconds")
		return
	}
	p.watch = watch
}

// await waits for a call, for what a goroutine of ours has, for SIGHUP, or for that time.
func (p *Poller) await(ctx context.Context, until time.Time) {
	var calls chan fsnotify.Event
	var lost chan error // too many at once
	if p.watch == nil {
		until = sooner(until, p.Now().Add(unwatched))
	} else {
		calls, lost = p.watch.Events, p.watch.Errors
	}
	timer := time.NewTimer(max(until.Sub(p.Now()), time.Millisecond))
	defer timer.Stop()
	for collecting := false; ; {
		select {
		case <-calls:
			if !collecting {
				collecting = true
				timer.Reset(burstPause)
			}
			continue
		case <-lost:
		case <-p.Hangup:
			p.ways.renew()
			p.closeReaders(nil)
			p.Log.Info().Msg("configuration read again")
		case <-ctx.Done():
		case <-timer.C:
		case <-p.changed:
		}
		return
	}
}

// once is one round: what waits is sent, each space is listed once, replies are judged and typed, and notes of that are sent.
func (p *Poller) once(ctx context.Context) (failed error) {
	ctx, end := p.begin(ctx)
	defer end()
	state.Sleep(ctx, stillWritten) // a reply by hand that may just be written counts before what Chat has
	p.round(ctx)
	p.sender.pass(ctx)
	p.round(ctx) // with the threads that the questions have now
	soon, cancel := context.WithTimeout(ctx, pullOnce)
	defer cancel()
	p.keepPulling(soon, p.own().ReceivesEvents())
	p.working.Wait()
	for chat, v := range p.views() {
		if len(v.own) == 0 {
			continue
		}
		if err := p.readerOf(chat).list(ctx, v); err != nil {
			failed = err
		}
	}
	p.round(ctx)
	p.working.Wait() // what is being typed is asked for its pane, too
	p.findPanes(ctx)
	p.working.Wait()
	p.round(ctx)
	p.sender.pass(ctx)
	p.sweep()
	if failed == nil && ctx.Err() == nil {
		p.noteLastPoll()
	}
	return failed
}

func (p *Poller) round(ctx context.Context) {
	p.polled = time.Time{} // also to what has its time once an interval
	p.readRecords()
	p.attendAll(ctx, p.own())
}

// beat shows that this process goes on, and that its last poll went well.
func (p *Poller) beat(keepAwake bool) {
	now := p.Now()
	if now.Sub(p.beatAt).Abs() < state.HeartbeatInterval {
		return
	}
	p.beatAt = now
	h := state.Heartbeat{
		PID: os.Getpid(), Program: p.Self, IsDaemon: p.Daemon, IsDryRun: p.DryRun,
		StartedAt: p.began.UTC(), BeatAt: now.UTC(), AwakeTime: state.AwakeTime(),
	}
	for _, s := range p.index {
		if s.q != nil && s.q.Status.IsOpen() {
			h.OpenQuestions++
		}
		const most = 10
		if dir := filepath.Dir(s.Path); s.hidden && !s.missing && len(h.UnreadableFolders) < most && !slices.Contains(h.UnreadableFolders, dir) {
			h.UnreadableFolders = append(h.UnreadableFolders, dir)
		}
	}
	slices.Sort(h.UnreadableFolders)
	p.Log.ErrorOnce(state.WriteHeartbeat(p.Env, h), "heartbeat")
	if wanted := keepAwake && h.OpenQuestions > 0; wanted != (p.letSleep != nil) {
		p.keepAwake(wanted)
	}
	if p.Daemon && p.reading() {
		p.noteLastPoll()
	}
}

func (p *Poller) noteLastPoll() {
	for _, dir := range p.homes {
		p.Log.ErrorOnce(state.WriteLastPoll(dir, p.Now()), "last poll not noted")
	}
}

// wakeUp begins anew after the machine slept: what failed before says nothing. Only what Chat itself asked for is kept.
func (p *Poller) wakeUp() {
	p.awake = p.Now()
	p.closeReaders(nil)
	p.events.wakeUp()
	p.sender.wakeUp()
	p.Log.Info().Msg("the machine slept: what was put off is tried at once")
}

// keepAwake has the machine stay awake while a question is open, where its person wants that.
func (p *Poller) keepAwake(wanted bool) {
	if !wanted {
		p.letSleep()
		p.letSleep = nil
		return
	}
	ctx, end := context.WithCancel(context.Background())
	p.letSleep = end
	p.beside("keep awake", func() { p.Log.ErrorOnce(service.KeepAwake(ctx), "the machine is not kept awake") })
}

// programChanged says whether another program stands where this one was started: starters use the installed path.
func (p *Poller) programChanged() bool {
	is, err := os.Stat(p.Self)
	return p.program != nil && err == nil && (!os.SameFile(is, p.program) || !is.ModTime().Equal(p.program.ModTime()))
}

// safely runs f. A panic ends f and is logged.
func (p *Poller) safely(what string, f func()) {
	defer func() {
		if r := recover(); r != nil {
			p.Log.Error().Any("panic", r).Str("in", what).Bytes("stack", debug.Stack()).
				Msg("a bug in gchat-hooks; please report it")
		}
	}()
	f()
}

// beside runs f beside the loop, and wakes the loop when it is done.
func (p *Poller) beside(what string, f func()) {
	p.working.Go(func() {
		defer p.wake()
		p.safely(what, f)
	})
}

func (p *Poller) wake() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// misconfigured has a hint for what does not pass by itself.
func misconfigured(err error) error {
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOTDIR) {
		const hint = "the state folder cannot be written: check its owner, or set GCHAT_STATE_DIR and XDG_STATE_HOME"
		return &state.UserError{Err: err, Hint: hint}
	}
	return err
}

// sooner is the earlier of two times; a zero one is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
