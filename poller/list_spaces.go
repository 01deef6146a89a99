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
	// listOverlap is how much of the time before the watermark each list reads once more.
	// Chat may list a message after one that was created later.
	listOverlap = 2 * time.Minute
	// clockSlack is how far before a question was asked the first list of its thread
	// starts, where the time of its message is not known. This machine's clock may be
	// wrong.
	clockSlack = 10 * time.Minute
	// quickPeriod is how long after asking, and after a person's message, a space is
	// listed once a quickInterval.
	quickPeriod   = 2 * time.Minute
	quickInterval = time.Second
	// readAfterEnd is how long after the last question's end its space is read: a person
	// may have replied before they saw the end.
	readAfterEnd = 5 * time.Minute
	// restInterval is the time between two lists of a space where people can only write
	// to sessions that have ended. restPeriod is how long after a session's end it is
	// listed.
	restInterval = 30 * time.Second
	restPeriod   = time.Hour

	firstQuotaPause = 30 * time.Second // after a 429
	firstErrorPause = time.Second      // after a 5xx: Chat has short failures now and then
	refusedPause    = time.Minute
	// maxAuthFailures is the number of failures in a row that make a space degraded. The
	// open threads and `status` then say so.
	maxAuthFailures = 5
	appOnlyPause    = 10 * time.Minute // for a space that only its Chat app may read
)

// spaceView is what the reader of a space has to know of the records. The loop makes a
// new one in each step.
type spaceView struct {
	// questionsByThread are the questions of every environment, the oldest first. The
	// reader must not change them.
	questionsByThread map[string][]*state.Question
	recordOf          map[*state.Question]*trackedRecord
	isOwn             map[*state.Question]bool // of this environment; only those may be written
	ownOpen           []*state.Question        // those of this environment that need replies
	// sources are the configurations of this environment's questions that need the space
	// to be read, and of its sessions that take messages.
	sources          []configSource
	sessionsByThread map[string]*state.Session // by the thread of their reports
	// youngestAskedAt is when the youngest question that waits for a reply was asked.
	youngestAskedAt time.Time
	// lastEndAt is when the last question ended whose thread may still get a reply.
	lastEndAt         time.Time
	hasRunningSession bool // a running session takes messages in this space
	hasEndedSession   bool // a session that has ended can be resumed from this space
}

// configSource tells whose configuration counts: that of a project, or with an empty
// projectDir the person's own.
type configSource struct {
	projectDir string
	isTrusted  bool // the project's own files count
}

// configSourceOf returns whose configuration counts for a question. A permission, a plan
// and other kinds with a space of their own go by the person's.
func configSourceOf(q *state.Question, entry *state.IndexEntry) configSource {
	if q.Kind.Traits().UsesOwnSpace {
		return configSource{}
	}
	return configSource{q.ProjectDir, entry.IsTrusted}
}

// reader lists a space for the records of every environment. It runs beside the loop, one
// list at a time.
type reader struct {
	*Poller
	chat      string // host/spaces/S
	spaces    state.Spaces
	hasFailed atomic.Bool // the last list failed
	// isListing says that a list is under way. Until it ends, the fields below belong to
	// its goroutine.
	isListing atomic.Bool

	listStartedAt time.Time     // when the last list began
	minPause      time.Duration // the least time from then to the next
	lastGoodList  time.Time     // when the last good list began
	isPulled      bool          // people's messages come from the subscription
	lock          *state.Lock   // held while this process is the one that lists the space
	api           *gchat.API
	// sourceIndex, modulo their number, chooses the one of the view's sources by whose
	// configuration the space is read.
	sourceIndex        int
	source             configSource // the source of the last list
	spaceRecord        *state.Space
	failures           listFailures
	lastHumanMessageAt time.Time // when this process last read a new message of a person
	// isThreadRead has the ids of the questions whose threads were read from their
	// beginnings.
	isThreadRead map[string]bool
	// keptMessages are the waitMessages, by the question's id, of a list that did not
	// reach the end of the space. The next list continues it.
	keptMessages map[string][]gchat.Message
	isEndless    bool // the last list had no end
}

// needsReading reports whether a reply to a question can still be used, so that its space
// has to be read.
func (p *Poller) needsReading(record *trackedRecord) bool {
	q := record.question
	switch {
	case record.isDone || !q.IsMessageSent:
		return false
	case q.Status.IsOpen() || q.HasActiveGrant():
		// An answered question is open until Claude has the answer: a second reply gets a
		// note.
		return true
	}
	// A late reply needs somebody who delivers it.
	return q.IsLate(p.Now()) && (p.Daemon || state.HasWaiter(p.Env, record.Path))
}

// spaceViews returns the view of each space that has a record, or the thread of a session
// that takes messages.
func (p *Poller) spaceViews() map[string]*spaceView {
	views := map[string]*spaceView{}
	viewOf := func(chat string) *spaceView {
		if views[chat] == nil {
			views[chat] = &spaceView{
				questionsByThread: map[string][]*state.Question{},
				recordOf:          map[*state.Question]*trackedRecord{},
				isOwn:             map[*state.Question]bool{},
				sessionsByThread:  p.sessionsByThread,
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
		source := configSourceOf(q, record.IndexEntry)
		switch {
		case !view.isOwn[q]:
		case p.needsReading(record):
			view.sources = append(view.sources, source)
			view.ownOpen = append(view.ownOpen, q)
			view.youngestAskedAt = q.AskedAt
		case p.hasEndedLately(q):
			view.sources = append(view.sources, source)
			if q.ResolvedAt.After(view.lastEndAt) {
				view.lastEndAt = *q.ResolvedAt
			}
		}
	}
	for _, session := range p.ownSessions {
		isRunning := p.canTakeCommands(session)
		if !isRunning && !p.needsReadingAfterEnd(session) {
			continue
		}
		view := viewOf(session.Chat)
		view.sources = append(view.sources, configSource{session.ProjectDir, session.IsTrusted})
		view.hasRunningSession = view.hasRunningSession || isRunning
		view.hasEndedSession = view.hasEndedSession || !isRunning
	}
	return views
}

// hasEndedLately reports whether a person may have replied to a question before they saw
// that it is closed.
func (p *Poller) hasEndedLately(q *state.Question) bool {
	hasThread := q.IsMessageSent && q.Mode.Traits().Asks
	hasEnded := !q.Status.IsOpen() && q.ResolvedAt != nil && q.ResolvedBy != state.EndedReplaced
	return hasThread && hasEnded && p.Now().Sub(*q.ResolvedAt).Abs() < readAfterEnd
}

// startLists starts a list of each space whose time has come, and drops the readers of
// spaces that need no reading. It returns when the next list is due.
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
		dueAt := reader.listStartedAt.Add(max(reader.listInterval(view), reader.minPause))
		if p.Now().Before(dueAt) {
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

// closeReaders drops the readers of all spaces but the kept ones, and with them their
// failures. A reader whose list is under way stays.
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

// listSpace lists the space once and records the result. While another process lists the
// space, it only calls readWaitThreads.
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
	case gateway.eventSource() != nil && (gchat.IsAuthFailure(err) || gchat.IsPermanent(err)):
		r.Log.ErrorOnce(err, "the space cannot be listed: its Chat app gets taps and mentions only")
		r.api, r.minPause, r.isPulled = nil, appOnlyPause, true
		return nil
	}
	r.minPause = r.failures.pauseAfter(err)
	r.hasFailed.Store(true)
	r.reportTrouble(err, view)
	if gchat.IsAuthFailure(err) { // the next list tries another project's credentials
		r.api = nil
		r.sourceIndex++
	}
	// Another process may have better credentials or a better connection.
	release(&r.lock)
	return err
}

// takeReaderLock reports whether this process is the one that lists the space. It is
// false while another environment's poller does that, for the records of all
// environments.
func (r *reader) takeReaderLock() bool {
	if r.lock != nil {
		return true
	}
	lock, err := r.spaces.LockReader(r.chat)
	if errors.Is(err, state.ErrLocked) {
		r.failures, r.minPause = listFailures{}, 0
		isOtherAlive := func(heartbeat state.Heartbeat) bool {
			return heartbeat.IsAlive && heartbeat.PID != os.Getpid() && !heartbeat.IsSilent(r.Now())
		}
		r.lastGoodList = time.Time{}
		// Where no other poller's heartbeat is fresh, the process that holds the lock is
		// suspended, and reads nothing.
		if r.spaces.Get(r.chat).ReadTrouble == nil &&
			slices.ContainsFunc(state.ReadHeartbeats(r.Env), isOtherAlive) {
			r.lastGoodList = r.Now().Add(-quickPeriod)
		}
		return false
	}
	// Without a lock this process lists as well: two that list are better than none.
	r.Log.ErrorOnce(err, "space not locked for reading")
	r.lock = lock
	r.spaceRecord = r.spaces.Get(r.chat) // another process may have moved the watermark
	for id := range r.keptMessages {
		delete(r.isThreadRead, id)
	}
	r.keptMessages = nil
	return true
}

// listInterval returns the time from one list to the next. It is short just after asking
// and after a person's message. It grows with the time since the last question's end.
func (r *reader) listInterval(view *spaceView) time.Duration {
	interval := r.loadConfig(view.sources[r.sourceIndex%len(view.sources)]).PollInterval
	quick := min(quickInterval, interval)
	hasNewQuestion := r.Now().Sub(view.youngestAskedAt).Abs() < quickPeriod
	hasNewMessage := r.Now().Sub(r.lastHumanMessageAt).Abs() < quickPeriod
	isQuiet := len(view.ownOpen) == 0 && !view.hasRunningSession
	switch {
	case isQuiet && !view.lastEndAt.IsZero():
		return max(quick, r.Now().Sub(view.lastEndAt)/4)
	case isQuiet && view.hasEndedSession && !gchat.IsLocalChat(r.chat) && !hasNewMessage:
		return max(interval, restInterval)
	case hasNewQuestion || hasNewMessage:
		return quick
	}
	return interval
}

// The messages that end an error. The error's line in the log names one of them as
// "until", and `status` shows the error until that message is logged.
const (
	logReadAgain = "replies are read again"
	logSentAgain = "messages are sent again"
)

// reportTrouble records why a list failed, for `status` and in the log. Where only a
// person can fix it, it also owes each open thread one note.
func (r *reader) reportTrouble(err error, view *spaceView) {
	earlierTrouble := r.spaceRecord.ReadTrouble
	newTrouble := state.ReadTrouble{
		Since:      r.Now().UTC(),
		Why:        r.Log.Redact(err.Error()),
		IsDegraded: r.failures.isDegraded(),
		IsRefused:  gchat.IsAuthFailure(err) || gchat.IsPermanent(err),
	}
	if earlierTrouble != nil {
		newTrouble.Since = earlierTrouble.Since
	}
	if earlierTrouble == nil || *earlierTrouble != newTrouble { // else it is logged already
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
	why := fmt.Sprintf("%s. Hint: %s", wording.SafeLine(newTrouble.Why), gchat.Hint(err))
	for _, q := range view.ownOpen {
		if q.HasUnreadNote || !q.Mode.Traits().Asks {
			continue
		}
		r.changeQuestion(q.Path, "note about unreadable replies not owed", func(q *state.Question) {
			if !q.HasUnreadNote && q.Status == state.Pending {
				q.HasUnreadNote = true
				q.OwedNotes = append(q.OwedNotes, state.OwedNote{
					About: state.NoteUnread, Text: why,
				})
			}
		})
	}
}

func (r *reader) saveTrouble(trouble *state.ReadTrouble) {
	r.spaceRecord.ReadTrouble = trouble
	_, err := r.spaces.Change(r.chat, func(space *state.Space) { space.ReadTrouble = trouble })
	r.Log.ErrorOnce(err, "state of the space not written")
}

// listFailures counts the failures in a row of listing a space.
type listFailures struct {
	overloaded int
	auth       int // those that only a person can fix
}

// pauseAfter returns how long to leave Chat alone after err. Zero means the usual
// interval.
func (f *listFailures) pauseAfter(err error) time.Duration {
	switch {
	case gchat.IsAuthFailure(err), gchat.IsPermanent(err):
		// A permanent failure (400, 404) may end by itself: the space may just be
		// created.
		f.auth++
		if gchat.IsAuthFailure(err) || f.isDegraded() {
			return refusedPause
		}
	case gchat.IsOverloaded(err), errors.Is(err, gchat.ErrEndlessList):
		first := firstErrorPause
		if gchat.IsRateLimited(err) {
			first = firstQuotaPause
		}
		f.overloaded++
		// The pause that Chat asks for counts, even if it is shorter than ours: Chat
		// knows when the quota is back.
		return cmp.Or(gchat.RetryAfter(err), backoff(first, f.overloaded))
	}
	return 0
}

func (f *listFailures) isDegraded() bool { return f.auth >= maxAuthFailures }
