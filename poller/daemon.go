package poller

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"gchat-hooks/state"
)

// Daemon is gchat-response-poller: the one process of a person that stays. It reads the space for all questions, sends what
// is in the outbox, and types the answers where no hook can give them.
type Daemon struct {
	*Poller
	PendingDirs []string         // folders of questions to type answers for; none: those of all projects that are known
	DryRun      bool             // do everything but type
	Out         io.Writer        // what DryRun would have typed; nil for the log alone
	Hangup      <-chan os.Signal // SIGHUP: the configuration is read afresh

	homes   []string // the state folders that this daemon is the only one of
	scan    state.Scan
	inboxes map[string]*listing // by chat
	tasks   map[string]*task    // by question's path
	ended   chan struct{}       // a task came to its end
	typing  sync.WaitGroup
	failing sync.Map // chats whose last list failed
	kick    chan struct{}
}

// listing is the inbox loop of a space.
type listing struct {
	stop context.CancelFunc
	done <-chan struct{}
}

// ended says whether the loop came to its end, which only a panic brings about before it is stopped.
func (l *listing) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// Run serves until ctx ends; then it finishes what it is typing. *state.ErrDaemonRuns when there is a daemon already.
func (d *Daemon) Run(ctx context.Context) error {
	seat, err := d.begin()
	if err != nil {
		return err
	}
	defer seat.Leave()
	d.kick = make(chan struct{}, 1)
	watch := state.WatchFolders(ctx)
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		for ctx.Err() == nil { // also after a panic
			<-d.goSafely("flush", func() { d.FlushSteadily(ctx, d.kick) })
			sleep(ctx, lookAround)
		}
	}()
	d.Log.Info().Strs("pending_dirs", d.PendingDirs).Bool("dry_run", d.DryRun).Msg("daemon started")

	for polled := (time.Time{}); ctx.Err() == nil; {
		interval := d.config(state.ProjectDir(d.Env)).PollInterval
		dirs, err := d.stateDirs()
		if err != nil {
			d.Log.Error().Err(err).Msg("project registry")
		}
		watched := watch.Cover(d.user(), dirs, d.Folders)
		due := d.now().Sub(polled).Abs() >= interval // a clock that was set back must not hold us
		qs := d.questions(dirs)
		next := d.cycle(ctx, qs, due)
		d.follow(ctx, qs)
		if due {
			if polled = d.now(); d.reading() {
				d.noteLastPoll()
			}
		}
		if next = sooner(next, polled.Add(interval)); !watched {
			next = sooner(next, d.now().Add(lookAround))
		}
		d.await(ctx, watch, next)
	}
	for _, l := range d.inboxes {
		l.stop()
		<-l.done
	}
	d.typing.Wait()
	<-flushed
	d.Log.Info().Msg("shutting down")
	return nil
}

func (d *Daemon) begin() (*state.DaemonSeat, error) {
	d.inboxes, d.tasks, d.ended = map[string]*listing{}, map[string]*task{}, make(chan struct{}, 1)
	d.settle()
	seat, err := state.TakeDaemonSeat(d.homes)
	if err != nil {
		return nil, misconfigured(err)
	}
	if err := d.check(); err != nil {
		seat.Leave()
		return nil, err
	}
	return seat, nil
}

// burstPause is how long changes that come close together are collected.
const burstPause = 10 * time.Millisecond

// settle finds out which folders are this daemon's: those that it was told to serve, else the person's, and the project's
// that it was started in, where other programs look for its pid.
func (d *Daemon) settle() {
	d.Folders = d.PendingDirs
	for _, dir := range d.PendingDirs {
		d.homes = append(d.homes, filepath.Dir(dir))
	}
	if len(d.homes) == 0 {
		d.homes = []string{d.user()}
		own, err := filepath.Abs(state.ProjectState(d.Env))
		_, serr := os.Stat(own)
		if err == nil && (serr == nil || d.Env("GCHAT_STATE_DIR") != "" || d.Env("CLAUDE_PROJECT_DIR") != "") {
			d.homes, d.Dirs = append(d.homes, own), append(d.Dirs, own)
		}
	}
	slices.Sort(d.homes) // two daemons take them in the same order
	d.homes = slices.Compact(d.homes)
}

// serves says whether this daemon types for a question.
func (d *Daemon) serves(q *state.Question) bool {
	return typable(q) && (len(d.PendingDirs) == 0 || slices.Contains(d.PendingDirs, filepath.Dir(q.Path)))
}

// await waits for a change, the end of a task, SIGHUP, or that time.
func (d *Daemon) await(ctx context.Context, watch *state.FolderWatch, until time.Time) {
	t := time.NewTimer(max(until.Sub(d.now()), time.Millisecond))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-d.ended:
	case <-watch.Changed:
		sleep(ctx, burstPause)
	case <-d.Hangup:
		d.printed.Clear() // what webhook_url_command printed
		for _, l := range d.inboxes {
			l.stop() // they begin anew, with the credentials as they are now
			<-l.done
		}
		clear(d.inboxes)
		for _, t := range d.tasks {
			if !t.running.Load() {
				t.next = time.Time{}
			}
		}
		d.Log.Info().Msg("configuration read again")
	}
}

// questions are those of all projects that are known, newest first.
func (d *Daemon) questions(dirs []string) []*state.Question {
	qs, bad := d.scan.Questions(dirs, d.Folders...)
	for _, err := range bad {
		d.Log.Error().Err(err).Msg("question set aside")
	}
	for i, q := range qs {
		if (q.Mode == "" || q.Chat == "" && q.Mode == state.Inject) && q.Status.Open() && d.serves(q) {
			if whole, err := d.adopt(q); err == nil {
				qs[i] = whole
			}
		}
	}
	return qs
}

// cycle looks at every question once and returns when to come again; zero for no time of its own. due says that a poll
// interval has passed.
func (d *Daemon) cycle(ctx context.Context, qs []*state.Question, due bool) (next time.Time) {
	view := &tmuxView{own: d.Env("TMUX")}
	open := map[string]bool{}               // by path
	for _, q := range slices.Backward(qs) { // the oldest first, as Claude Code shows their dialogs
		if ctx.Err() != nil {
			return next
		}
		open[q.Path] = q.Status.Open()
		if q.Status.Open() && d.serves(q) {
			next = sooner(next, d.attend(ctx, q, view, due))
		}
		if toBePosted(q) && q.Mode != state.Deny {
			d.flushSoon()
		}
	}
	for path, t := range d.tasks {
		if !t.running.Load() && !open[path] {
			delete(d.tasks, path)
		}
	}
	if due {
		d.CloseGone(qs)
		d.flushSoon()
	}
	return next
}

// follow has every space listed that an open question is in, and no other.
func (d *Daemon) follow(ctx context.Context, qs []*state.Question) {
	open := d.oneOfEachChat(ctx, qs)
	for chat, l := range d.inboxes {
		if open[chat] == nil {
			l.stop()
			<-l.done
			delete(d.inboxes, chat)
			d.failing.Delete(chat)
		}
	}
	for chat, q := range open {
		if l := d.inboxes[chat]; l == nil || l.ended() {
			ctx, stop := context.WithCancel(ctx)
			in := d.inboxOf(q)
			d.inboxes[chat] = &listing{stop, d.goSafely("inbox", func() { in.follow(ctx) })}
		}
	}
}

// inboxOf is the inbox loop of a question's space.
func (d *Daemon) inboxOf(q *state.Question) *inbox {
	in := d.newInbox(q)
	in.listed = func(err error) {
		if err == nil {
			d.failing.Delete(q.Chat)
		} else {
			d.failing.Store(q.Chat, true)
		}
	}
	return in
}

// reading says whether every list went well the last time.
func (d *Daemon) reading() (ok bool) {
	ok = true
	d.failing.Range(func(any, any) bool { ok = false; return false })
	return ok
}

func (d *Daemon) noteLastPoll() {
	for _, dir := range d.homes {
		if err := state.NoteLastPoll(dir, d.now()); err != nil {
			d.Log.Error().Err(err).Msg("last poll not noted")
		}
	}
}

// flushSoon has the outbox and the questions that wait to be posted looked at.
func (d *Daemon) flushSoon() { state.Wake(d.kick) }

// onceBound is how long the single cycle of RunOnce may send before it types, and again after it.
const onceBound = 10 * time.Second

// RunOnce is one cycle: what waits is sent, each space is listed once, replies are judged and typed, and what there is to say
// of it is sent. *state.ErrDaemonRuns when a daemon runs.
func (d *Daemon) RunOnce(ctx context.Context) error {
	seat, err := d.begin()
	if err != nil {
		return err
	}
	defer seat.Leave()
	dirs, err := d.stateDirs()
	if err != nil {
		d.Log.Error().Err(err).Msg("project registry")
	}
	d.questions(dirs) // another program's are completed before they are posted
	d.flushOnce(ctx)
	// What was put there by hand counts before what Chat has, also when it may just be written.
	if next := d.cycle(ctx, d.questions(dirs), false); !next.IsZero() && next.Sub(d.now()) <= stillWritten {
		sleep(ctx, next.Sub(d.now()))
		d.cycle(ctx, d.questions(dirs), false)
	}
	d.typing.Wait()
	var failed error
	for _, q := range d.oneOfEachChat(ctx, d.questions(dirs)) {
		if err := d.listOnce(ctx, q); err != nil {
			failed = err
		}
	}
	d.cycle(ctx, d.questions(dirs), true)
	d.typing.Wait()
	d.flushOnce(ctx)
	if failed == nil && ctx.Err() == nil {
		d.noteLastPoll()
	}
	return failed
}

// flushOnce sends what can be sent now.
func (d *Daemon) flushOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, onceBound)
	defer cancel()
	d.Flush(ctx)
}

// oneOfEachChat is an open question of each space that this process is configured for. What only a session's own
// environment leads to is read by that session's hooks: we could but fail, and say in its threads that it is not read.
func (d *Daemon) oneOfEachChat(ctx context.Context, qs []*state.Question) map[string]*state.Question {
	open, leads := map[string]*state.Question{}, map[string]string{} // by project: the space that its configuration leads to
	for _, q := range qs {
		if !q.Status.Open() && !q.Late(d.now()) || q.Chat == "" || open[q.Chat] != nil {
			continue
		}
		chat, known := leads[q.ProjectDir]
		if !known {
			chat, _ = d.leadsTo(ctx, d.config(q.ProjectDir))
			leads[q.ProjectDir] = chat
		}
		if chat == q.Chat {
			open[q.Chat] = q
		}
	}
	return open
}

// listOnce lists a question's space once, unless another process reads it anyway.
func (d *Daemon) listOnce(ctx context.Context, q *state.Question) error {
	lock, err := state.LockLeader(d.user(), q.Chat)
	if errors.Is(err, state.ErrLocked) {
		return nil
	}
	if err == nil {
		defer lock.Unlock()
	}
	in := d.newInbox(q)
	qs := in.questions()
	err = in.list(ctx, d.config(in.projectDir), qs)
	if ctx.Err() == nil {
		in.tell(ctx, err, qs)
	}
	return err
}

// misconfigured tells the permanent reasons from those that pass.
func misconfigured(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOTDIR) {
		const hint = "the state folder cannot be written: check its owner, or set GCHAT_STATE_DIR and XDG_STATE_HOME"
		return &state.UserError{Err: err, Hint: hint}
	}
	return err
}

// check finds out whether there is anything to do: a configuration that does not parse, or none at all, with no question
// open, is a person's to mend.
func (d *Daemon) check() error {
	dirs, _ := d.stateDirs()
	for _, q := range d.questions(dirs) {
		if q.Status.Open() {
			return nil
		}
	}
	projects := []string{state.ProjectDir(d.Env)}
	for _, dir := range dirs {
		projects = append(projects, d.projectOf(dir))
	}
	var broken []error
	for _, project := range projects {
		cfg := d.config(project)
		if cfg.WebhookURL != "" || cfg.WebhookCommand != "" || cfg.SpaceID != "" {
			return nil // credentials alone say nowhere to read
		}
		broken = append(broken, cfg.Problems...)
	}
	if len(broken) > 0 {
		return &state.UserError{Err: broken[0], Hint: "mend it, then start the daemon again: gchat-hooks poller install"}
	}
	return &state.UserError{
		Err: errors.New("no webhook and no space are configured"),
		Hint: "gchat-hooks setup, or webhook_url in ~/.config/gchat-hooks/config.json; " +
			"then start the daemon again: gchat-hooks poller install",
	}
}
