package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

const (
	// listOverlap is read again with every list: a message can be listed after one that
	// was created later.
	listOverlap = 2 * time.Minute
	// clockSlack is how far before its asking the thread of a question is read for the
	// first time whose message's time is not known: this machine's clock may be wrong.
	clockSlack = 10 * time.Minute
	// after asking, and after a person's message, a space is listed once a quickInterval
	quickPeriod   = 2 * time.Minute
	quickInterval = time.Second
	// after the last question's end, for a reply that was on its way
	readAfterEnd = 5 * time.Minute
	// restInterval is the cycle where only sessions that ended may be written to, and
	// restPeriod how long after their end.
	restInterval = 30 * time.Second
	restPeriod   = time.Hour

	firstQuotaPause = 30 * time.Second // after 429
	firstErrorPause = time.Second      // after 5xx: Chat stumbles now and then
	refusedPause    = time.Minute
	maxAuthFailures = 5                // then degraded, and said so
	appOnlyPause    = 10 * time.Minute // for a space that only its Chat app may hear
)

// spaceView is what the reader of a space has to know of the records: the loop gives it a
// new one with each step.
type spaceView struct {
	// by thread, the oldest first, of every environment; not to be changed
	questionsByThread map[string][]*state.Question
	recordOf          map[*state.Question]*trackedRecord
	isOwn             map[*state.Question]bool // those of this environment: no other is written
	ownOpen           []*state.Question        // open ones of these
	// the projects of these, and of the sessions that listen
	sources          []configSource
	sessionsByThread map[string]*state.Session // by the thread of their reports
	// when the youngest question was asked that waits for a reply
	youngestAskedAt time.Time
	// when the last question ended whose thread may still get a reply
	lastEndAt         time.Time
	hasRunningSession bool // there is the thread of a session that listens
	// there is that of one that has ended, and can be resumed
	hasEndedSession bool
}

// configSource is by whose configuration something goes: a project's, or with none the
// person's own.
type configSource struct {
	projectDir string
	isTrusted  bool // its files count
}

// configSourceOf is the project by whose configuration a question is asked and answered:
// none for what is decided.
func configSourceOf(q *state.Question, entry *state.IndexEntry) configSource {
	if q.Kind.Traits().UsesOwnSpace {
		return configSource{}
	}
	return configSource{q.ProjectDir, entry.IsTrusted}
}

// reader lists a space, for the records of every environment: beside the loop, one list
// at a time.
type reader struct {
	*Poller
	chat      string // host/spaces/S
	spaces    state.Spaces
	hasFailed atomic.Bool // the last list failed
	isListing atomic.Bool // a list is under way: what follows is that goroutine's

	listStartedAt time.Time     // when the last list began
	minPause      time.Duration // the least time from then to the next
	lastGoodList  time.Time     // when the last good list began
	isPulled      bool          // what is said there comes from the subscription
	lock          *state.Lock   // while this process lists the space
	api           *gchat.API
	// the space is read by the configuration of this one of the view's own, counted round
	sourceIndex        int
	source             configSource // which that was, with the last list
	spaceRecord        *state.Space
	failures           listFailures
	lastHumanMessageAt time.Time // when the last message of a person came
	// ids of the questions whose threads were read from their beginnings
	isThreadRead map[string]bool
	// kept are messages of the threads that a process began to wait in, by the question's
	// id: the list that says which of them counts goes on with the next one.
	keptMessages map[string][]gchat.Message
	isEndless    bool // the last list had no end
}

// needsReading says whether a reply to this question is of use now, so that its space has
// to be read.
func (p *Poller) needsReading(record *trackedRecord) bool {
	q := record.question
	switch {
	case record.isDone || !q.IsMessageSent:
		return false
	case q.Status.IsOpen() || q.HasActiveGrant(): // also answered: a second reply gets its note
		return true
	}
	return q.IsLate(p.Now()) && (p.Daemon || state.HasWaiter(p.Env, record.Path))
}

// spaceViews are what there is to be known of each space that a record is in, or the
// thread of a session that listens.
func (p *Poller) spaceViews() map[string]*spaceView {
	views := map[string]*spaceView{}
	viewOf := func(chat string) *spaceView {
		if views[chat] == nil {
			views[chat] = &spaceView{
				questionsByThread: map[string][]*state.Question{}, recordOf: map[*state.Question]*trackedRecord{},
				isOwn: map[*state.Question]bool{}, sessionsByThread: p.sessionsByThread,
			}
		}
		return views[chat]
	}
	for _, record := range p.allOldestFirst() {
		q := record.question
		if q == nil || q.Chat == "" {
			continue
		}
		view := viewOf(q.Chat)
		for _, thread := range append(slices.Clone(q.FormerThreads), q.ThreadName) {
			if thread != "" {
				view.questionsByThread[thread] = append(view.questionsByThread[thread], q)
			}
		}
		view.recordOf[q], view.isOwn[q] = record, record.Environment == p.environment
		switch {
		case !view.isOwn[q]:
		case p.needsReading(record):
			view.sources, view.youngestAskedAt = append(
				view.sources,
				configSourceOf(q, record.IndexEntry),
			), q.AskedAt
			view.ownOpen = append(view.ownOpen, q)
		case p.hasEndedLately(q):
			view.sources = append(view.sources, configSourceOf(q, record.IndexEntry))
			if q.ResolvedAt.After(view.lastEndAt) {
				view.lastEndAt = *q.ResolvedAt
			}
		}
	}
	for _, session := range p.ownSessions {
		isRunning := p.canTakeCommands(session)
		if isRunning || p.needsReadingAfterEnd(session) {
			view := viewOf(session.Chat)
			view.sources = append(view.sources, configSource{session.ProjectDir, session.IsTrusted})
			view.hasRunningSession, view.hasEndedSession = view.hasRunningSession ||
				isRunning, view.hasEndedSession ||
				!isRunning
		}
	}
	return views
}

// hasEndedLately says whether a reply in a question's thread may have been written before
// its person saw that it is over.
func (p *Poller) hasEndedLately(q *state.Question) bool {
	hasEnded := !q.Status.IsOpen() && q.IsMessageSent && q.Mode.Traits().Asks &&
		q.ResolvedAt != nil &&
		q.ResolvedBy != state.EndedReplaced
	return hasEnded && p.Now().Sub(*q.ResolvedAt).Abs() < readAfterEnd
}

// startLists has every space listed once a cycle that has a view, and no other. It
// returns when to come again.
func (p *Poller) startLists(ctx context.Context) (next time.Time) {
	views := p.spaceViews()
	maps.DeleteFunc(views, func(_ string, view *spaceView) bool { return len(view.sources) == 0 })
	p.closeReaders(views)
	for chat, view := range views {
		if view.lastEndAt.After(p.lastQuestionEnd) {
			p.lastQuestionEnd = view.lastEndAt
		}
		reader := p.readerFor(chat)
		if reader.isListing.Load() {
			continue
		}
		if dueAt := reader.listStartedAt.Add(max(reader.listInterval(view), reader.minPause)); p.Now().
			Before(dueAt) {
			next = earlier(next, dueAt)
			continue
		}
		reader.listStartedAt = p.Now()
		reader.isListing.Store(true)
		p.runInBackground("read", func() {
			defer reader.isListing.Store(false)
			_ = reader.listSpace(ctx, view)
		})
	}
	return next
}

func (p *Poller) readerFor(chat string) *reader {
	if p.readers[chat] == nil {
		p.readers[chat] = &reader{Poller: p, chat: chat, spaces: state.SpacesIn(p.userStateDir)}
	}
	return p.readers[chat]
}

// closeReaders lets the readers of the other spaces go, with what failed there, but for
// those at work.
func (p *Poller) closeReaders(kept map[string]*spaceView) {
	for chat, r := range p.readers {
		if kept[chat] == nil && !r.isListing.Load() {
			release(&r.lock)
			delete(p.readers, chat)
		}
	}
}

func (p *Poller) canReadSpaces() bool {
	for _, r := range p.readers {
		if r.hasFailed.Load() {
			return false
		}
	}
	return true
}

func (r *reader) listSpace(ctx context.Context, view *spaceView) error {
	if !r.takeReaderLock() {
		return r.readWaitThreads(ctx, view)
	}
	r.source = view.sources[r.sourceIndex%len(view.sources)]
	startedAt, gateway := r.Now(), r.gatewayFor(ctx, r.source)
	err := r.readSpace(ctx, view, gateway)
	switch {
	case ctx.Err() != nil:
		return err
	case err == nil:
		r.lastGoodList, r.failures, r.minPause = startedAt, listFailures{}, 0
		r.hasFailed.Store(false)
		if earlierTrouble := r.spaceRecord.ReadTrouble; earlierTrouble != nil {
			r.Log.Info().Str("chat", r.chat).Time("since", earlierTrouble.Since).Msg(logReadAgain)
			r.saveTrouble(nil)
		}
		return nil
	case gateway.eventSource() != nil && (gchat.AuthFailure(err) || gchat.Permanent(err)):
		r.Log.ErrorOnce(
			err,
			"the space is not listed: its Chat app hears taps, and words that mention it",
		)
		r.api, r.minPause, r.isPulled = nil, appOnlyPause, true
		return nil
	}
	r.minPause = r.failures.pauseAfter(err)
	r.hasFailed.Store(true)
	r.reportTrouble(err, view)
	if gchat.AuthFailure(err) { // the next list is by another project's configuration
		r.api, r.sourceIndex = nil, r.sourceIndex+1
	}
	release(&r.lock) // a process with better credentials, or a better way to Chat, gets its turn
	return err
}

// takeReaderLock has this process list the space; false while another environment's
// poller does, for our records, too.
func (r *reader) takeReaderLock() bool {
	if r.lock != nil {
		return true
	}
	lock, err := r.spaces.LockReader(r.chat)
	if errors.Is(err, state.ErrLocked) {
		r.failures, r.minPause = listFailures{}, 0
		isReading := func(heartbeat state.Heartbeat) bool {
			return heartbeat.IsAlive && heartbeat.PID != os.Getpid() && !heartbeat.IsSilent(r.Now())
		}
		r.lastGoodList = time.Time{}
		// Where no process shows life, the one that has the lock is stopped, and reads
		// nothing.
		if r.spaces.Get(r.chat).ReadTrouble == nil &&
			slices.ContainsFunc(state.ReadHeartbeats(r.Env), isReading) {
			r.lastGoodList = r.Now().Add(-quickPeriod)
		}
		return false
	}
	r.Log.ErrorOnce(err, "reader's lock")              // better two processes that list than none
	r.lock, r.spaceRecord = lock, r.spaces.Get(r.chat) // another process may have read on
	for id := range r.keptMessages {
		delete(r.isThreadRead, id)
	}
	r.keptMessages = nil
	return true
}

// listInterval is the time from one list to the next: short just after asking and after a
// person's message.
func (r *reader) listInterval(view *spaceView) time.Duration {
	interval := r.loadConfig(view.sources[r.sourceIndex%len(view.sources)]).PollInterval
	isQuiet := len(view.ownOpen) == 0 && !view.hasRunningSession
	if isQuiet && !view.lastEndAt.IsZero() { // ever more rarely
		return max(min(quickInterval, interval), r.Now().Sub(view.lastEndAt)/4)
	}
	if isQuiet && view.hasEndedSession && !gchat.Local(r.chat) &&
		r.Now().Sub(r.lastHumanMessageAt).Abs() >= quickPeriod {
		return max(interval, restInterval)
	}
	if r.Now().Sub(view.youngestAskedAt).Abs() < quickPeriod ||
		r.Now().Sub(r.lastHumanMessageAt).Abs() < quickPeriod {
		return min(quickInterval, interval)
	}
	return interval
}

// What ends an error: its line in the log has one of these as "until", and `status` shows
// it until that is logged.
const (
	logReadAgain = "replies are read again"
	logSentAgain = "messages are sent again"
)

// reportTrouble says why a list failed: for status, in the log, and once in the open
// threads when only a person can mend it.
func (r *reader) reportTrouble(err error, view *spaceView) {
	earlierTrouble := r.spaceRecord.ReadTrouble
	newTrouble := state.ReadTrouble{
		Since: r.Now().UTC(), Why: r.Log.Redact(err.Error()),
		IsDegraded: r.failures.isDegraded(), IsRefused: gchat.AuthFailure(err) || gchat.Permanent(err),
	}
	if earlierTrouble != nil {
		newTrouble.Since = earlierTrouble.Since
	}
	if earlierTrouble == nil || *earlierTrouble != newTrouble { // not with every cycle of an outage
		r.Log.Error().
			Str("chat", r.chat).
			Str("error", newTrouble.Why).
			Str("hint", gchat.Hint(err)).
			Bool("degraded", newTrouble.IsDegraded).
			Str("until", logReadAgain).
			Msg("replies cannot be read")
		r.saveTrouble(&newTrouble)
	}
	if !newTrouble.IsDegraded && !errors.Is(err, gchat.ErrCredentials) {
		return
	}
	why := fmt.Sprintf("%s. Hint: %s", wording.Line(newTrouble.Why), gchat.Hint(err))
	for _, q := range view.ownOpen {
		if q.HasUnreadNote || !q.Mode.Traits().Asks {
			continue
		}
		r.changeQuestion(
			q.Path,
			"thread not told that replies cannot be read",
			func(q *state.Question) {
				if !q.HasUnreadNote && q.Status == state.Pending {
					q.HasUnreadNote = true
					q.OwedNotes = append(
						q.OwedNotes,
						state.OwedNote{About: state.NoteUnread, Text: why},
					)
				}
			},
		)
	}
}

func (r *reader) saveTrouble(trouble *state.ReadTrouble) {
	r.spaceRecord.ReadTrouble = trouble
	_, err := r.spaces.Change(r.chat, func(space *state.Space) { space.ReadTrouble = trouble })
	r.Log.ErrorOnce(err, "trouble not written down")
}

// listFailures counts the failures of listing that follow one another.
type listFailures struct {
	overloaded int
	auth       int // with what only a person can mend
}

// pauseAfter is how long to leave Chat alone after err; 0 means the usual cycle.
func (t *listFailures) pauseAfter(err error) time.Duration {
	switch {
	case gchat.AuthFailure(err), gchat.Permanent(err):
		// 400, 404: a person has to look, or the space is being made
		t.auth++
		if gchat.AuthFailure(err) || t.isDegraded() {
			return refusedPause
		}
	case gchat.Overloaded(err), errors.Is(err, gchat.ErrEndless):
		first := firstErrorPause
		if gchat.TooMany(err) {
			first = firstQuotaPause
		}
		t.overloaded++
		// What Chat asks for counts, also when it is less than our own rule: it knows
		// when the quota is back.
		return cmp.Or(gchat.RetryAfter(err), backoff(first, t.overloaded))
	}
	return 0
}

func (t *listFailures) isDegraded() bool { return t.auth >= maxAuthFailures }
