// Package poller is the one loop that talks to Google Chat, types into tmux and calls
// OpenClaw: it sends what is in the outbox, reads what people reply, decides who may
// answer, types answers, and closes what is over. It knows nothing of Claude Code's hook
// protocol: hooks and commands write records, and it goes on from the records, also after
// kill -9.
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
	Env         state.Getenv
	Log         *state.Log
	ProgramPath string      // this program's path; the poller ends when the file there changes
	Lock        *state.Lock // where the caller took it, or inherited it; nil: Run takes it

	Daemon       bool      // stays; else it ends Idle after its work is done
	Once         bool      // one round: send, read, judge, type, send
	DryRun       bool      // type nothing; say what would be typed
	DryRunOutput io.Writer // where IsDryRun says it; nil for the log alone
	// Dirs are folders of questions that a person named: the poller acts on all that is
	// in them.
	QuestionDirs []string
	Hangup       <-chan os.Signal // configuration and credentials are read afresh

	// Summary puts the summary that a session's thread is owed. Nil puts none.
	EnqueueSummary func(context.Context, state.Getenv, *state.Session) error
	// Dialog tells a session's thread what waits in its terminal. Nil tells nothing.
	EnqueueDialogNote func(state.Getenv, *state.Session) error

	Now func() time.Time // nil, for Run: time.Now
}

// IdleTimeout is how long a poller stays after its work is done.
const IdleTimeout = 30 * time.Second

const (
	// stepTimeout is how long one step of the loop may take: then something hangs, and
	// the process ends. Another is started.
	stepTimeout = time.Minute
	// onceTimeout is how long a single round sends before it types, and again after it.
	onceTimeout = 10 * time.Second
	// burstWindow is how long changes that come close together are collected.
	burstWindow = 10 * time.Millisecond
	// clockJump is how much later than asked for the loop wakes when the machine slept.
	clockJump = time.Minute
	// unwatchedPause is how long the loop rests at most where the system does not tell of
	// calls.
	unwatchedPause = 2 * time.Second
)

// Poller is one running poller.
type Poller struct {
	Options
	environment  string // see state.Environment
	userStateDir string // see state.UserStateDir
	gateways     gatewayCache

	sender *sender
	// by the Open's file, or by the record's real one where a person named its folder
	ownRecords map[string]*trackedRecord
	// others are the records of the other environments. What is read in their threads
	// goes into the inbox, for their pollers; nothing else is done for them.
	otherRecords    map[string]*trackedRecord
	questionCache   state.Cache[state.Question]
	sessionCache    state.Cache[state.Session]
	inboxCache      state.Cache[state.Incoming]
	incoming        []*state.Incoming            // what is not done, the oldest first
	routedBySession map[string][]*state.Incoming // of these, what is for a session, by its id
	promptTries     map[string]*typingTries      // of these, what was done about words, by id
	// of these, what another environment decides, by id
	decidedElsewhere map[string]bool
	recentMessages   recentMessages
	readUntil        map[string]time.Time                      // by chat: up to when it was read
	recordsByCard    atomic.Pointer[map[string]*trackedRecord] // by what their buttons carry
	sessions         []*state.Session                          // of all environments
	ownSessions      []*state.Session                          // of these, those of this one
	sessionsByThread map[string]*state.Session                 // of their reports
	// the person wants sessions to be started: see config.CanStartSessions
	canStartSessions bool
	// what is said in the space comes from a subscription
	receivesEvents bool
	// fresh are paths of messages that this process put as tried, to spare a write, and
	// did not try yet.
	untriedPaths   sync.Map
	attemptedNotes sync.Map           // ids of the sessions whose summary is being worded
	dialogNoteDue  time.Time          // when a dialog is to be told of that stands in a terminal
	inProgress     sync.Map           // ids of the sessions whose commands are being done
	readers        map[string]*reader // by chat
	puller         eventPuller
	// of calls: see state.CallPoller; nil where there is none to be had
	callWatcher *fsnotify.Watcher
	wakeups     chan struct{} // a goroutine of ours has something for the loop
	goroutines  sync.WaitGroup

	isFindingPanes  atomic.Bool // tmux is being asked for its panes
	lastRoundAt     time.Time   // of the last round: see round
	lastSweepAt     time.Time
	lastHeartbeatAt time.Time
	// when the last question of this environment ended; see hasEndedLately
	lastQuestionEnd  time.Time
	startedAt        time.Time
	callCount        int64  // see state.CountPollerCalls
	stopKeepingAwake func() // ends what keeps the machine awake; nil where nothing does
	// since when this process reads on: it began then, or the machine slept until then
	awakeSince  time.Time
	programFile os.FileInfo // what stood at Self when this process began
	// state folders that have the daemon's pid and the time of its last poll
	stateDirs []string
}

// ErrDaemonRuns says that a daemon of this environment runs already.
var ErrDaemonRuns = errors.New("the daemon runs already")

// endReason is why a poller stops serving.
type endReason string

const (
	endStopped        endReason = "stopped" // ctx ended, or a daemon waits for the lock
	endIdle           endReason = "idled"   // there is nothing to do
	endProgramChanged endReason = "the program on disk changed"
	endStateRemoved   endReason = "the state folder was removed"
)

// Run is the poller until ctx ends or its Options say so. Errors are ErrDaemonRuns,
// *state.UserError when a person has to mend something, and with Once what kept a space
// from being read.
func Run(ctx context.Context, o Options) error {
	p := newPoller(o)
	if p.Lock == nil {
		if err := p.lockPoller(ctx); err != nil {
			return err
		}
	}
	defer release(&p.Lock)
	canServe, err := p.checkPollerLock(ctx)
	if !canServe {
		return err
	}
	if p.DryRun {
		dryRunMark, err := state.MarkDryRun(p.Env)
		if err != nil {
			return addStateHint(err)
		}
		defer dryRunMark.Unlock()
	}
	p.Log.ErrorOnce(
		state.AdoptFormerEnvironment(p.Env),
		"not all of an earlier version's environment taken over",
	)
	if p.Daemon || p.Once {
		p.stateDirs = p.findStateDirs()
		p.readIndex()
	}
	if p.Daemon && len(p.ownRecords) == 0 {
		if err := config.CheckDaemonHasWork(p.Env, p.projectDirs()); err != nil {
			return err
		}
	}
	if p.Once {
		return p.runOnce(ctx)
	}
	if p.Daemon {
		defer p.removePIDFiles()
		for _, dir := range p.stateDirs {
			if err := state.WriteDaemonPID(dir); err != nil {
				return addStateHint(err)
			}
		}
	}
	return p.finishServing(p.serve(ctx))
}

// projectDirs are the folders of the projects that a daemon was started for.
func (p *Poller) projectDirs() []string {
	dirs := []string{state.ProjectDir(p.Env)}
	for _, dir := range p.QuestionDirs {
		dirs = append(dirs, p.projectDirOf(filepath.Dir(dir)))
	}
	return dirs
}

// removePIDFiles takes this process's id out of the state folders, and no other daemon's.
func (p *Poller) removePIDFiles() {
	for _, dir := range p.stateDirs {
		if state.ReadDaemonPID(dir) == os.Getpid() {
			os.Remove(filepath.Join(dir, state.PIDFile))
		}
	}
}

// runOnce is the poller of a single round. Where a detached poller may have made way for
// it, another begins.
func (p *Poller) runOnce(ctx context.Context) error {
	for _, record := range p.ownRecords {
		if !record.isInNamedFolder && p.hasWork(record) {
			p.callCount = startAnother
		}
	}
	return errors.Join(p.runAllSteps(ctx), p.unlockPoller(p.callCount))
}

// finishServing ends a poller that served, and leaves what it did not do to another.
func (p *Poller) finishServing(reason endReason) error {
	state.RemoveHeartbeat(p.Env)
	switch {
	case reason == endStopped:
		// what waits for the lock is to go on, and not only a single round
		state.CallPoller(p.Env, p.environment)
		return nil
	case p.Daemon:
		return errors.New(string(reason)) // the service manager starts it
	case reason == endStateRemoved:
		return nil
	case reason == endProgramChanged:
		return p.unlockPoller(startAnother)
	}
	return p.unlockPoller(p.callCount)
}

// SendNow has a command, which has the poller's lock, send a message that it just put as
// tried, by its configuration. What has to wait, or fails, is returned as it then stands,
// and left to a poller; so is what an older message of its lane waits before.
func SendNow(
	ctx context.Context,
	o Options,
	cfg *config.Config,
	message *state.Message,
) (*state.Message, error) {
	sender := newCommandSender(o, message)
	waiting, _ := sender.outbox.Waiting()
	if slices.ContainsFunc(waiting, func(earlierMessage *state.Message) bool {
		return earlierMessage.Path < message.Path && earlierMessage.Lane() == message.Lane()
	}) {
		return sender.leaveToPoller(message)
	}
	return sender.sendAllParts(ctx, message, sender.openGateway(ctx, cfg))
}

// newCommandSender is the sender of a command that just put m as tried. Its caller's time
// is all that it has.
func newCommandSender(o Options, message *state.Message) *sender {
	p := &Poller{Options: o, userStateDir: state.UserStateDir(o.Env)}
	p.gateways.reset()
	sender := p.newSender()
	sender.lingerTime = 0
	sender.untriedPaths.Store(message.Path, true)
	return sender
}

// sendAllParts sends all parts of a message, for as long as ctx lasts.
func (s *sender) sendAllParts(
	ctx context.Context,
	message *state.Message,
	gateway *projectGateway,
) (*state.Message, error) {
	for ctx.Err() == nil { // else a command for the webhook may have been cut
		result := sendResult{retryAt: s.Now().Add(authRetryPause)} // after a panic
		s.runSafely("send", func() { result = s.trySendThrough(ctx, message, gateway) })
		stored, err := s.outbox.Load(state.RecordName(message.Path))
		if err != nil || stored.IsFinal() {
			return cmp.Or(stored, message), err
		}
		message = stored // with its next part
		if !result.retryAt.IsZero() {
			break
		}
	}
	return s.leaveToPoller(message)
}

// leaveToPoller leaves a message as a poller has to find it.
func (s *sender) leaveToPoller(message *state.Message) (*state.Message, error) {
	if _, isUntried := s.untriedPaths.Load(message.Path); !isUntried {
		return message, nil
	}
	// The next poller need not look for it in the space.
	stored, err := s.outbox.Change(
		message.Path,
		func(message *state.Message) { message.FirstTriedAt = time.Time{} },
	)
	return cmp.Or(stored, message), err
}

// startAnother is a number of calls that there never was: another poller begins in any
// case.
const startAnother = -1

// unlockPoller lets the lock go. What saw it held relied on this process: a detached
// poller begins where one was called since then.
func (p *Poller) unlockPoller(knownCalls int64) error {
	lock, programPath := p.Lock, p.ProgramPath
	p.Lock = nil
	if p.DryRun {
		programPath = ""
	}
	return lock.UnlockPoller(p.Env, programPath, knownCalls)
}

func newPoller(o Options) *Poller {
	if o.Now == nil {
		o.Now = time.Now
	}
	now := o.Now()
	p := &Poller{
		Options: o, environment: state.Environment(o.Env), userStateDir: state.UserStateDir(o.Env),
		promptTries: map[string]*typingTries{}, ownRecords: map[string]*trackedRecord{}, otherRecords: map[string]*trackedRecord{}, readers: map[string]*reader{}, wakeups: make(chan struct{}, 1),
		startedAt: now, awakeSince: now, lastSweepAt: now, callCount: state.CountPollerCalls(o.Env),
	}
	p.gateways.reset()
	if o.ProgramPath != "" {
		p.programFile, _ = os.Stat(o.ProgramPath)
	}
	return p
}

func (p *Poller) findStateDirs() []string {
	dirs := []string{p.userStateDir}
	for _, dir := range p.QuestionDirs {
		dirs = append(dirs, filepath.Dir(dir))
	}
	projectState := state.ProjectStateDir(p.Env)
	_, err := os.Stat(projectState)
	if len(p.QuestionDirs) == 0 &&
		(err == nil || p.Env("GCHAT_STATE_DIR") != "" || p.Env("CLAUDE_PROJECT_DIR") != "") {
		dirs = append(dirs, projectState)
	}
	return dirs
}

// lockPoller makes this process the poller of its environment. The daemon, and a single
// round, have a detached one yield.
func (p *Poller) lockPoller(ctx context.Context) (err error) {
	p.Lock, err = state.LockPoller(p.Env)
	if !errors.Is(err, state.ErrLocked) || !p.Daemon && !p.Once {
		return addStateHint(err)
	}
	request, err := state.RequestPollerLock(p.Env)
	if errors.Is(err, state.ErrLocked) {
		return ErrDaemonRuns // another one waits
	}
	if err != nil {
		return addStateHint(err)
	}
	defer request.Unlock()
	state.CallPoller(p.Env, p.environment) // the one that has the lock looks who wants it
	for {
		if heartbeat := state.ReadHeartbeat(p.Env, p.environment); heartbeat.IsDaemon &&
			heartbeat.IsAlive {
			// it says so a moment after it took the lock
			return fmt.Errorf("%w: pid %d", ErrDaemonRuns, heartbeat.PID)
		}
		if !state.Sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
		p.Lock, err = state.LockPoller(p.Env)
		if !errors.Is(err, state.ErrLocked) {
			return addStateHint(err)
		}
	}
}

// checkPollerLock looks whether the poller's lock excludes other processes. Where it does
// not, another poller may be there: the lock is taken again, where it does. Without locks
// that lock, only the daemon serves.
func (p *Poller) checkPollerLock(ctx context.Context) (canServe bool, err error) {
	if p.ProgramPath != "" && !p.Once && p.Lock.MoveLocksIfShared(p.Env, p.ProgramPath) {
		release(&p.Lock)
		err = p.lockPoller(ctx)
		if errors.Is(err, state.ErrLocked) {
			err = nil
		}
		if p.Lock == nil {
			return false, err
		}
	}
	folder := state.ReadLockFolder(p.Env)
	return folder == nil || folder.Dir != "" || p.Daemon || p.Once, nil
}

func release(lock **state.Lock) {
	(*lock).Unlock()
	*lock = nil
}

func (p *Poller) serve(ctx context.Context) (reason endReason) {
	ctx, stop := p.startServing(ctx)
	defer stop()
	p.watchCalls()
	defer func() { p.Log.Info().Msg("poller ends") }()
	p.Log.Info().
		Bool("daemon", p.Daemon).
		Bool("dry_run", p.DryRun).
		Strs("pending_dirs", p.QuestionDirs).
		Msg("poller started")
	idleSince, wakeAt := p.Now(), p.Now()
	for {
		if p.Lock.IsFileGone() {
			return endStateRemoved
		}
		// Without Go's monotonic clock, which stands still while the machine sleeps.
		if lateness := p.Now().Round(0).Sub(wakeAt); lateness > clockJump {
			p.resumeAfterSleep()
		}
		next, isBusy := p.step(ctx)
		now := p.Now()
		if isBusy {
			idleSince = now
		}
		switch {
		case ctx.Err() != nil, !p.Daemon && state.IsPollerLockRequested(p.Env):
			return endStopped
		case p.isProgramChanged():
			return endProgramChanged
		case !p.Daemon && now.Sub(idleSince).Abs() >= IdleTimeout && now.Sub(p.lastQuestionEnd).Abs() >= readAfterEnd:
			if p.callCount > 0 && p.Lock.ResetCalls() == nil {
				continue
			}
			p.sweep()
			return endIdle
		}
		wakeAt = earlier(next, now.Add(state.HeartbeatInterval))
		if idleEnd := idleSince.Add(IdleTimeout); !p.Daemon && !isBusy && idleEnd.After(now) {
			wakeAt = earlier(wakeAt, idleEnd)
		}
		p.waitForWork(ctx, wakeAt)
	}
}

// startServing makes a poller ready to serve. end waits for what this process still does:
// an answer is typed to its end.
func (p *Poller) startServing(ctx context.Context) (servingCtx context.Context, stop func()) {
	p.sender = p.newSender()
	ctx, cancel := context.WithCancel(ctx)
	return ctx, func() {
		cancel()
		if p.stopKeepingAwake != nil {
			p.stopKeepingAwake()
		}
		p.goroutines.Wait()
		for _, r := range p.readers {
			release(&r.lock)
		}
		release(&p.puller.lock)
		for _, record := range p.ownRecords {
			release(&record.entryLock)
		}
		if p.callWatcher != nil {
			_ = p.callWatcher.Close()
		}
		clear(p.ownRecords)
		clear(p.otherRecords)
		clear(p.readers)
	}
}

// step does once all that is due. It returns when to come again, and whether something is
// left to be done.
func (p *Poller) step(ctx context.Context) (next time.Time, isBusy bool) {
	watchdog := time.AfterFunc(stepTimeout, func() {
		p.Log.Error().Msg("the poller hangs, and ends itself")
		os.Exit(1)
	})
	defer watchdog.Stop()
	cfg := p.loadOwnConfig()
	next, isBusy = p.Now().Add(cfg.PollInterval), true // after a panic
	p.callCount = state.CountPollerCalls(p.Env)
	p.runSafely("step", func() {
		p.readState()
		pullAt := p.keepPulling(ctx, cfg.ReceivesEvents())
		next, isBusy = p.attendAll(ctx, cfg)
		next = earlier(next, pullAt)
		next = earlier(next, p.startLists(ctx))
		sendAt, isSending := p.sender.dispatch(ctx)
		next, isBusy = earlier(next, sendAt), isBusy || isSending || !sendAt.IsZero()
		if p.Now().Sub(p.lastSweepAt).Abs() >= sweepInterval {
			p.sweep()
		} else if !isBusy {
			p.sweepQuestions()
		}
		p.writeHeartbeat(cfg.KeepsAwake)
	})
	return next, isBusy
}

// watchCalls has the system tell of calls, each of which writes to the file of this
// poller's lock.
func (p *Poller) watchCalls() {
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		err = watcher.Add(p.Lock.Path)
	}
	if err != nil {
		p.Log.Warn().Err(err).Msg("work is looked for every two seconds")
		return
	}
	p.callWatcher = watcher
}

// waitForWork waits for a call, for what a goroutine of ours has, for SIGHUP, or for that
// time.
func (p *Poller) waitForWork(ctx context.Context, until time.Time) {
	var calls chan fsnotify.Event
	var watchErrors chan error // too many at once
	if p.callWatcher == nil {
		until = earlier(until, p.Now().Add(unwatchedPause))
	} else {
		calls, watchErrors = p.callWatcher.Events, p.callWatcher.Errors
	}
	timer := time.NewTimer(max(until.Sub(p.Now()), time.Millisecond))
	defer timer.Stop()
	for isCollecting := false; ; {
		select {
		case <-calls:
			if !isCollecting {
				isCollecting = true
				timer.Reset(burstWindow)
			}
			continue
		case <-watchErrors:
		case <-p.Hangup:
			p.gateways.reset()
			p.closeReaders(nil)
			p.Log.Info().Msg("configuration read again")
		case <-ctx.Done():
		case <-timer.C:
		case <-p.wakeups:
		}
		return
	}
}

// runAllSteps is one round: what waits is sent, each space is listed once, replies are
// judged and typed, and notes of that are sent.
func (p *Poller) runAllSteps(ctx context.Context) (lastErr error) {
	ctx, end := p.startServing(ctx)
	defer end()
	// a reply by hand that may just be written counts before what Chat has
	state.Sleep(ctx, minReplyFileAge)
	p.readAndAttend(ctx)
	p.sender.sendUntilIdle(ctx)
	p.readAndAttend(ctx) // with the threads that the questions have now
	pullCtx, cancel := context.WithTimeout(ctx, oncePullTimeout)
	defer cancel()
	p.keepPulling(pullCtx, p.loadOwnConfig().ReceivesEvents())
	p.goroutines.Wait()
	for chat, view := range p.spaceViews() {
		if len(view.sources) == 0 {
			continue
		}
		if err := p.readerFor(chat).listSpace(ctx, view); err != nil {
			lastErr = err
		}
	}
	p.readAndAttend(ctx)
	p.goroutines.Wait() // what is being typed is asked for its pane, too
	p.abandonWithoutPane(ctx)
	p.goroutines.Wait()
	p.readAndAttend(ctx)
	p.sender.sendUntilIdle(ctx)
	p.sweep()
	if lastErr == nil && ctx.Err() == nil {
		p.writeLastPoll()
	}
	return lastErr
}

func (p *Poller) readAndAttend(ctx context.Context) {
	p.lastRoundAt = time.Time{} // also to what has its time once an interval
	p.readState()
	p.attendAll(ctx, p.loadOwnConfig())
}

// writeHeartbeat shows that this process goes on, and that its last poll went well.
func (p *Poller) writeHeartbeat(keepAwake bool) {
	now := p.Now()
	if now.Sub(p.lastHeartbeatAt).Abs() < state.HeartbeatInterval {
		return
	}
	p.lastHeartbeatAt = now
	heartbeat := state.Heartbeat{
		PID: os.Getpid(), Program: p.ProgramPath, IsDaemon: p.Daemon, IsDryRun: p.DryRun,
		StartedAt: p.startedAt.UTC(), BeatAt: now.UTC(), AwakeTime: state.AwakeTime(),
	}
	for _, record := range p.ownRecords {
		if record.question != nil && record.question.Status.IsOpen() {
			heartbeat.OpenQuestions++
		}
		const maxUnread = 10
		if dir := filepath.Dir(record.Path); record.isUnreadable && !record.isMissing &&
			len(heartbeat.UnreadableFolders) < maxUnread &&
			!slices.Contains(heartbeat.UnreadableFolders, dir) {
			heartbeat.UnreadableFolders = append(heartbeat.UnreadableFolders, dir)
		}
	}
	slices.Sort(heartbeat.UnreadableFolders)
	p.Log.ErrorOnce(state.WriteHeartbeat(p.Env, heartbeat), "heartbeat")
	if mustStayAwake := keepAwake && heartbeat.OpenQuestions > 0; mustStayAwake != (p.stopKeepingAwake != nil) {
		p.keepAwake(mustStayAwake)
	}
	if p.Daemon && p.canReadSpaces() {
		p.writeLastPoll()
	}
}

func (p *Poller) writeLastPoll() {
	for _, dir := range p.stateDirs {
		p.Log.ErrorOnce(state.WriteLastPoll(dir, p.Now()), "last poll not noted")
	}
}

// resumeAfterSleep begins anew after the machine slept: what failed before says nothing.
// Only what Chat itself asked for is kept.
func (p *Poller) resumeAfterSleep() {
	p.awakeSince = p.Now()
	p.closeReaders(nil)
	p.puller.retryAfterSleep()
	p.sender.retryAfterSleep()
	p.Log.Info().Msg("the machine slept: what was put off is tried at once")
}

// keepAwake has the machine stay awake while a question is open, where its person wants
// that.
func (p *Poller) keepAwake(mustStayAwake bool) {
	if !mustStayAwake {
		p.stopKeepingAwake()
		p.stopKeepingAwake = nil
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stopKeepingAwake = cancel
	p.runInBackground(
		"keep awake",
		func() { p.Log.ErrorOnce(service.KeepAwake(ctx), "the machine is not kept awake") },
	)
}

// isProgramChanged says whether another program stands where this one was started:
// starters use the installed path.
func (p *Poller) isProgramChanged() bool {
	current, err := os.Stat(p.ProgramPath)
	return p.programFile != nil && err == nil &&
		(!os.SameFile(current, p.programFile) || !current.ModTime().Equal(p.programFile.ModTime()))
}

// runSafely runs f. A panic ends f and is logged.
func (p *Poller) runSafely(name string, f func()) {
	defer func() {
		if r := recover(); r != nil {
			p.Log.Error().Any("panic", r).Str("in", name).Bytes("stack", debug.Stack()).
				Msg("a bug in gchat-hooks; please report it")
		}
	}()
	f()
}

// runInBackground runs f beside the loop, and wakes the loop when it is done.
func (p *Poller) runInBackground(name string, f func()) {
	p.goroutines.Go(func() {
		defer p.wakeLoop()
		p.runSafely(name, f)
	})
}

func (p *Poller) wakeLoop() {
	select {
	case p.wakeups <- struct{}{}:
	default:
	}
}

// addStateHint has a hint for what does not pass by itself.
func addStateHint(err error) error {
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) ||
		errors.Is(err, syscall.ENOTDIR) {
		const hint = "the state folder cannot be written: check its owner, or set GCHAT_STATE_DIR and XDG_STATE_HOME"
		return &state.UserError{Err: err, Hint: hint}
	}
	return err
}

// earlier is the earlier of two times; a zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
