// Package poller is the one loop that talks to Google Chat, types into tmux and calls
// OpenClaw. It sends the messages in the outbox, reads replies, decides who may answer,
// types answers, and closes questions that have ended. It knows nothing of Claude Code's
// hook protocol. Hooks and commands write records, and the poller works from the records.
// So a new poller continues the work of one that was killed with kill -9.
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
	Lock        *state.Lock // the poller's lock, where the caller has it; nil: Run takes it

	Daemon       bool      // stay; else the poller ends IdleTimeout after its work is done
	Once         bool      // run one round: send, read, judge, type, send
	DryRun       bool      // type nothing, and say what would be typed
	DryRunOutput io.Writer // where DryRun says it; nil for the log alone
	// QuestionDirs are folders of questions that a person named. The poller serves all
	// questions in them.
	QuestionDirs []string
	Hangup       <-chan os.Signal // each signal has configuration and credentials reloaded

	// EnqueueSummary enqueues the summary that a session owes its thread. Nil enqueues
	// none.
	EnqueueSummary func(context.Context, state.Getenv, *state.Session) error
	// EnqueueDialogNote enqueues a note for a session's thread about the dialog that
	// waits in its terminal. Nil enqueues none.
	EnqueueDialogNote func(state.Getenv, *state.Session) error
	// CloseByTranscript closes a permission or a plan whose dialog is gone, if the
	// session's transcript says how its call ended, and reports whether it did. Nil closes
	// none.
	CloseByTranscript func(state.Getenv, *state.Session, *state.Question) bool

	Now func() time.Time // the clock; Run takes time.Now where it is nil
}

// IdleTimeout is how long a poller stays after its work is done.
const IdleTimeout = 30 * time.Second

const (
	// stepTimeout is how long one step of the loop may take. A longer one hangs: the
	// process then ends, and another one is started.
	stepTimeout = time.Minute
	// onceTimeout is how long a single round may send, before it types and once more
	// after.
	onceTimeout = 10 * time.Second
	// burstWindow is how long the loop waits for more calls after a first one.
	burstWindow = 10 * time.Millisecond
	// stepPause is the time between two steps at least, where nothing calls the poller.
	stepPause = 10 * time.Millisecond
	// clockJump is how late the loop has to wake before it takes the machine for one that
	// slept.
	clockJump = time.Minute
	// unwatchedPause is how long the loop rests at most where the system cannot watch the
	// file of calls.
	unwatchedPause = 2 * time.Second
)

// Poller is one running poller.
type Poller struct {
	Options
	environment  string // see state.Environment
	userStateDir string // see state.UserStateDir
	gateways     gatewayCache

	sender *sender
	// ownRecords are keyed by the path of the index entry, or by the record's real path
	// where a person named its folder.
	ownRecords map[string]*trackedRecord
	// otherRecords are the records of the other environments. This poller adds what it
	// reads in their threads to the inbox, for their pollers. It does nothing else for
	// them.
	otherRecords    map[string]*trackedRecord
	questionCache   state.Cache[state.Question]
	sessionCache    state.Cache[state.Session]
	inboxCache      state.Cache[state.Incoming]
	incoming        []*state.Incoming            // the messages that are not done, the oldest first
	routedBySession map[string][]*state.Incoming // those of incoming for a session, by its id
	promptTries     map[string]*typingTries      // by the id of an incoming prompt
	// decidedElsewhere has the ids of incoming messages that another environment decides.
	decidedElsewhere map[string]bool
	recentMessages   recentMessages
	readUntil        map[string]time.Time                      // until when each chat was read
	recordsByCard    atomic.Pointer[map[string]*trackedRecord] // by the id in their cards' buttons
	sessions         []*state.Session                          // of all environments
	ownSessions      []*state.Session                          // those of this environment
	sessionsByThread map[string]*state.Session                 // by the thread of their reports
	canStartSessions bool                                      // see config.CanStartSessions
	receivesEvents   bool                                      // see config.ReceivesEvents
	// untriedPaths are the messages that this process enqueued with FirstTriedAt, to save
	// a write, and has not tried yet.
	untriedPaths   sync.Map
	attemptedNotes sync.Map             // summaries and dialog notes tried since the last sweep
	dialogNoteDue  time.Time            // when the next note about a dialog in a terminal is due
	watchedAt      map[string]time.Time // when each watched session was last looked at
	inProgress     sync.Map             // ids of sessions and messages that a goroutine works on
	readers        map[string]*reader   // by chat
	claudeLookDue  time.Time            // see claudeLookInterval
	puller         eventPuller
	callWatcher    *fsnotify.Watcher // watches for calls, see state.CallPoller; nil without
	wakeups        chan struct{}     // a goroutine of this process has news for the loop
	goroutines     sync.WaitGroup

	isFindingPanes  atomic.Bool // tmux is being asked for its panes
	lastRoundAt     time.Time   // when the last round began: see attendAll
	lastSweepAt     time.Time
	lastHeartbeatAt time.Time
	// lastQuestionEnd is when the last question of this environment ended; see
	// hasEndedLately.
	lastQuestionEnd  time.Time
	startedAt        time.Time
	callCount        int64  // see state.CountPollerCalls
	stopKeepingAwake func() // lets the machine sleep; nil while nothing keeps it awake
	// awakeSince is when this process started, or when the machine last woke from sleep.
	awakeSince  time.Time
	programFile os.FileInfo // the file at ProgramPath when this process started
	// stateDirs are the folders that get the daemon's pid and the time of its last poll.
	stateDirs []string
}

// ErrDaemonRuns means that a daemon of this environment runs already.
var ErrDaemonRuns = errors.New("the daemon runs already")

// endReason is why a poller stops serving.
type endReason string

const (
	endStopped        endReason = "stopped" // ctx ended, or a daemon waits for the lock
	endIdle           endReason = "idled"   // there is nothing to do
	endProgramChanged endReason = "the program on disk changed"
	endStateRemoved   endReason = "the state folder was removed"
)

// Run runs a poller until ctx ends, or until its work is done as Options say. It returns
// ErrDaemonRuns, a *state.UserError where a person has to fix something, and with Once
// the error that kept it from reading a space.
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
	err = state.AdoptFormerEnvironment(p.Env)
	p.Log.ErrorOnce(err, "not all records of an earlier version taken over")
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

// projectDirs returns the folders of the projects that a daemon was started for.
func (p *Poller) projectDirs() []string {
	dirs := []string{state.ProjectDir(p.Env)}
	for _, dir := range p.QuestionDirs {
		dirs = append(dirs, p.projectDirOf(filepath.Dir(dir)))
	}
	return dirs
}

// removePIDFiles removes the pid files that name this process.
func (p *Poller) removePIDFiles() {
	for _, dir := range p.stateDirs {
		if state.ReadDaemonPID(dir) == os.Getpid() {
			os.Remove(filepath.Join(dir, state.PIDFile))
		}
	}
}

// runOnce runs a single round. A detached poller may have given up its lock so that this
// round could run. Where work is left, another poller is therefore started afterwards.
func (p *Poller) runOnce(ctx context.Context) error {
	for _, record := range p.ownRecords {
		if !record.isInNamedFolder && p.hasWork(record) {
			p.callCount = startAnother
		}
	}
	return errors.Join(p.runAllSteps(ctx), p.unlockPoller(p.callCount))
}

// finishServing ends a poller that served, and leaves the remaining work to another one.
func (p *Poller) finishServing(reason endReason) error {
	state.RemoveHeartbeat(p.Env)
	switch {
	case reason == endStopped:
		// A single round may have taken the lock. The call has a poller started after it.
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

// SendNow sends a message for a command that holds the poller's lock and has just
// enqueued the message with FirstTriedAt. It uses the command's configuration. A message
// that fails or has to wait is left to a poller; so is one behind an older message of its
// lane. SendNow returns the message as it is on disk afterwards.
func SendNow(
	ctx context.Context,
	o Options,
	cfg *config.Config,
	message *state.Message,
) (*state.Message, error) {
	sender := newCommandSender(o, message)
	waiting, _ := sender.outbox.Waiting()
	hasEarlier := slices.ContainsFunc(waiting, func(other *state.Message) bool {
		return other.Path < message.Path && other.Lane() == message.Lane()
	})
	if hasEarlier {
		return sender.leaveToPoller(message)
	}
	return sender.sendAllParts(ctx, message, sender.openGateway(ctx, cfg))
}

// newCommandSender returns the sender for SendNow. It gives up a send as soon as the
// caller's context ends.
func newCommandSender(o Options, message *state.Message) *sender {
	p := &Poller{Options: o, userStateDir: state.UserStateDir(o.Env)}
	p.gateways.reset()
	sender := p.newSender()
	sender.lingerTime = 0
	sender.untriedPaths.Store(message.Path, true)
	return sender
}

// sendAllParts sends all parts of a message until ctx ends. It leaves the rest to a
// poller.
func (s *sender) sendAllParts(
	ctx context.Context,
	message *state.Message,
	gateway *projectGateway,
) (*state.Message, error) {
	for ctx.Err() == nil { // else the command for the webhook may have been interrupted
		result := sendResult{retryAt: s.Now().Add(authRetryPause)} // what counts after a panic
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

// leaveToPoller leaves a message for a poller. It clears FirstTriedAt of a message that
// was not tried, so that the poller need not search the space for it.
func (s *sender) leaveToPoller(message *state.Message) (*state.Message, error) {
	if _, isUntried := s.untriedPaths.Load(message.Path); !isUntried {
		return message, nil
	}
	stored, err := s.outbox.Change(message.Path, func(message *state.Message) {
		message.FirstTriedAt = time.Time{}
	})
	return cmp.Or(stored, message), err
}

// startAnother, as the number of known calls, makes unlockPoller start another poller
// even if nobody called.
const startAnother = -1

// unlockPoller releases the lock. It starts a detached poller if a hook or command has
// called since the call count was knownCalls: that one saw the lock held and relied on
// this process.
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
		Options:      o,
		environment:  state.Environment(o.Env),
		userStateDir: state.UserStateDir(o.Env),
		promptTries:  map[string]*typingTries{},
		ownRecords:   map[string]*trackedRecord{},
		otherRecords: map[string]*trackedRecord{},
		readers:      map[string]*reader{},
		wakeups:      make(chan struct{}, 1),
		startedAt:    now,
		awakeSince:   now,
		lastSweepAt:  now,
		callCount:    state.CountPollerCalls(o.Env),
	}
	p.gateways.reset()
	if o.ProgramPath != "" {
		p.programFile, _ = os.Stat(o.ProgramPath)
	}
	return p
}

// findStateDirs returns the folders for stateDirs.
func (p *Poller) findStateDirs() []string {
	dirs := []string{p.userStateDir}
	for _, dir := range p.QuestionDirs {
		dirs = append(dirs, filepath.Dir(dir))
	}
	if len(p.QuestionDirs) > 0 {
		return dirs
	}
	projectState := state.ProjectStateDir(p.Env)
	_, err := os.Stat(projectState)
	if err == nil || p.Env("GCHAT_STATE_DIR") != "" || p.Env("CLAUDE_PROJECT_DIR") != "" {
		dirs = append(dirs, projectState)
	}
	return dirs
}

// lockPoller makes this process the poller of its environment. A detached poller gives up
// the lock for a daemon and for a single round.
func (p *Poller) lockPoller(ctx context.Context) (err error) {
	p.Lock, err = state.LockPoller(p.Env)
	if !errors.Is(err, state.ErrLocked) || !p.Daemon && !p.Once {
		return addStateHint(err)
	}
	request, err := state.RequestPollerLock(p.Env)
	if errors.Is(err, state.ErrLocked) {
		return ErrDaemonRuns // another process waits for the lock already
	}
	if err != nil {
		return addStateHint(err)
	}
	defer request.Unlock()
	state.CallPoller(p.Env, p.environment) // so that the lock's holder sees the request
	for {
		// A daemon writes its first heartbeat a moment after it took the lock.
		heartbeat := state.ReadHeartbeat(p.Env, p.environment)
		if heartbeat.IsDaemon && heartbeat.IsAlive {
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

// checkPollerLock checks that the poller's lock excludes other processes, which fails on
// some network homes. There it moves the locks to another folder, and takes the lock in
// that folder. Where no folder has locks that exclude, only a daemon or a single round
// may serve.
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

// release unlocks a lock and forgets it. A nil lock stays as it is.
func release(lock **state.Lock) {
	(*lock).Unlock()
	*lock = nil
}

// serve runs the loop until the poller has to end.
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
		// Round drops Go's monotonic clock, which stops while the machine sleeps.
		if p.Now().Round(0).Sub(wakeAt) > clockJump {
			p.resumeAfterSleep()
		}
		next, isBusy := p.step(ctx)
		now := p.Now()
		if isBusy {
			idleSince = now
		}
		hasRested := now.Sub(idleSince).Abs() >= IdleTimeout &&
			now.Sub(p.lastQuestionEnd).Abs() >= readAfterEnd
		switch {
		case ctx.Err() != nil, !p.Daemon && state.IsPollerLockRequested(p.Env):
			return endStopped
		case p.isProgramChanged():
			return endProgramChanged
		case !p.Daemon && hasRested:
			// One more step with the count at zero: so no work is left between two
			// pollers.
			if p.callCount > 0 && p.Lock.ResetCalls() == nil {
				continue
			}
			p.sweep()
			return endIdle
		}
		// What a step names as due and cannot do must not keep a processor busy.
		wakeAt = earlier(next, now.Add(state.HeartbeatInterval))
		if earliest := now.Add(stepPause); wakeAt.Before(earliest) {
			wakeAt = earliest
		}
		idleEnd := idleSince.Add(IdleTimeout)
		if !p.Daemon && !isBusy && idleEnd.After(now) {
			wakeAt = earlier(wakeAt, idleEnd)
		}
		p.waitForWork(ctx, wakeAt)
	}
}

// startServing makes a poller ready to serve. The caller calls stop at the end. It waits
// for the goroutines, so that an answer is typed to its end.
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

// step does everything that is due. It returns when the next step is due, and whether
// work is left.
func (p *Poller) step(ctx context.Context) (next time.Time, isBusy bool) {
	watchdog := time.AfterFunc(stepTimeout, func() {
		p.Log.Error().Msg("the poller hangs and ends; another one is started")
		os.Exit(1)
	})
	defer watchdog.Stop()
	cfg := p.loadOwnConfig()
	next, isBusy = p.Now().Add(cfg.PollInterval), true // what counts after a panic
	p.callCount = state.CountPollerCalls(p.Env)
	p.runSafely("step", func() {
		p.readState()
		pullAt := p.keepPulling(ctx, cfg.ReceivesEvents())
		next, isBusy = p.attendAll(ctx, cfg)
		next = earlier(next, pullAt)
		next = earlier(next, p.startLists(ctx))
		sendAt, isSending := p.sender.dispatch(ctx)
		next = earlier(next, sendAt)
		isBusy = isBusy || isSending || !sendAt.IsZero()
		if p.Now().Sub(p.lastSweepAt).Abs() >= sweepInterval {
			p.sweep()
		} else if !isBusy {
			p.sweepQuestions()
		}
		p.writeHeartbeat(cfg.KeepsAwake)
		p.checkClaude(cfg.ChecksClaude, os.DirFS("/"))
	})
	return next, isBusy
}

// watchCalls watches for calls. Each call writes to the file of this poller's lock.
func (p *Poller) watchCalls() {
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		err = watcher.Add(p.Lock.Path)
	}
	if err != nil {
		p.Log.Warn().Err(err).Msg("no process can wake the poller; it looks for work every two seconds")
		return
	}
	p.callWatcher = watcher
}

// waitForWork waits until a call comes, a goroutine of this process has news, SIGHUP
// comes, or it is that time.
func (p *Poller) waitForWork(ctx context.Context, until time.Time) {
	var calls chan fsnotify.Event
	var watchErrors chan error // for example of too many events at once
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

// runAllSteps runs one round: it sends what waits, lists each space once, judges replies,
// types answers, and sends the notes about them.
func (p *Poller) runAllSteps(ctx context.Context) (lastErr error) {
	ctx, stop := p.startServing(ctx)
	defer stop()
	// A reply by hand takes precedence over one in Chat. Let a person finish writing it.
	state.Sleep(ctx, minReplyFileAge)
	p.readAndAttend(ctx)
	p.sender.sendUntilIdle(ctx)
	p.readAndAttend(ctx) // to get the threads of the questions that were posted
	pullCtx, cancel := context.WithTimeout(ctx, oncePullTimeout)
	defer cancel()
	p.keepPulling(pullCtx, p.loadOwnConfig().ReceivesEvents())
	p.goroutines.Wait()
	for chat, view := range p.spaceViews() {
		if len(view.sources) == 0 {
			continue
		}
		err := p.readerFor(chat).listSpace(ctx, view)
		if err != nil {
			lastErr = err
		}
	}
	p.readAndAttend(ctx)
	p.goroutines.Wait() // abandonWithoutPane skips a question while its answer is typed
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

// readAndAttend reads the records and attends to them, with the checks of a round.
func (p *Poller) readAndAttend(ctx context.Context) {
	p.lastRoundAt = time.Time{}
	p.readState()
	p.attendAll(ctx, p.loadOwnConfig())
}

// writeHeartbeat shows other processes that this one is alive. It also has the machine
// stay awake where that is wanted, and notes a daemon's good poll.
func (p *Poller) writeHeartbeat(keepAwake bool) {
	now := p.Now()
	if now.Sub(p.lastHeartbeatAt).Abs() < state.HeartbeatInterval {
		return
	}
	p.lastHeartbeatAt = now
	heartbeat := state.Heartbeat{
		PID:       os.Getpid(),
		Program:   p.ProgramPath,
		IsDaemon:  p.Daemon,
		IsDryRun:  p.DryRun,
		StartedAt: p.startedAt.UTC(),
		BeatAt:    now.UTC(),
		AwakeTime: state.AwakeTime(),
	}
	const maxFolders = 10
	for _, record := range p.ownRecords {
		if record.question != nil && record.question.Status.IsOpen() {
			heartbeat.OpenQuestions++
		}
		if !record.isUnreadable || record.isMissing {
			continue
		}
		dir := filepath.Dir(record.Path)
		isListed := slices.Contains(heartbeat.UnreadableFolders, dir)
		if !isListed && len(heartbeat.UnreadableFolders) < maxFolders {
			heartbeat.UnreadableFolders = append(heartbeat.UnreadableFolders, dir)
		}
	}
	slices.Sort(heartbeat.UnreadableFolders)
	p.Log.ErrorOnce(state.WriteHeartbeat(p.Env, heartbeat), "heartbeat not written")
	mustStayAwake := keepAwake && heartbeat.OpenQuestions > 0
	if isKeptAwake := p.stopKeepingAwake != nil; mustStayAwake != isKeptAwake {
		p.keepAwake(mustStayAwake)
	}
	if p.Daemon && p.canReadSpaces() {
		p.writeLastPoll()
	}
}

func (p *Poller) writeLastPoll() {
	for _, dir := range p.stateDirs {
		p.Log.ErrorOnce(state.WriteLastPoll(dir, p.Now()), "time of the last poll not written")
	}
}

// resumeAfterSleep drops the failures and pauses from before the machine slept. Only the
// pauses that Chat itself asked for stay.
func (p *Poller) resumeAfterSleep() {
	p.awakeSince = p.Now()
	p.closeReaders(nil)
	p.puller.retryAfterSleep()
	p.sender.retryAfterSleep()
	p.Log.Info().Msg("the machine slept; messages and lists that waited are tried at once")
}

// keepAwake starts or stops keeping the machine awake.
func (p *Poller) keepAwake(mustStayAwake bool) {
	if !mustStayAwake {
		p.stopKeepingAwake()
		p.stopKeepingAwake = nil
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stopKeepingAwake = cancel
	p.runInBackground("keep awake", func() {
		p.Log.ErrorOnce(service.KeepAwake(ctx), "the machine is not kept awake")
	})
}

// isProgramChanged reports whether another file is installed at this program's path. The
// next poller is started from that path, and is then the new program.
func (p *Poller) isProgramChanged() bool {
	current, err := os.Stat(p.ProgramPath)
	return p.programFile != nil && err == nil &&
		(!os.SameFile(current, p.programFile) || !current.ModTime().Equal(p.programFile.ModTime()))
}

// runSafely runs f. It logs a panic of f and returns.
func (p *Poller) runSafely(name string, f func()) {
	defer func() {
		if r := recover(); r != nil {
			p.Log.Error().Any("panic", r).Str("in", name).Bytes("stack", debug.Stack()).
				Msg("a bug in gchat-hooks; please report it")
		}
	}()
	f()
}

// runInBackground runs f in a goroutine, and wakes the loop when f is done.
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

// addStateHint adds a hint to an error about the state folder that only a person can fix.
func addStateHint(err error) error {
	needsPerson := errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) ||
		errors.Is(err, syscall.ENOTDIR)
	if !needsPerson {
		return err
	}
	return &state.UserError{
		Err: err,
		Hint: "the state folder cannot be written: check its owner, " +
			"or set GCHAT_STATE_DIR and XDG_STATE_HOME",
	}
}

// earlier returns the earlier of two times. A zero time counts as none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
