package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/poller/openclaw"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

const (
	maxParallelLanes = 8 // to Chat; each agent has a lane of its own besides
	// maxBurst is how many messages may leave at once before the pace is held. Questions
	// and what else is urgent may go a little beyond it, so that none waits behind a
	// flood of reports.
	maxBurst       = 10
	maxUrgentBurst = maxBurst + 3
	// from one try of a webhook that a person has to mend to the next
	authRetryPause   = time.Minute
	maxBackoff       = 5 * time.Minute  // after failures in a row
	maxUrgentBackoff = 30 * time.Second // for a question that alone does not get through
	diskRetryPause   = 2 * time.Second  // after something could not be written down
	lingerTimeout    = 2 * time.Second  // for a send under way when the poller is told to end
	agentRetryPause  = 5 * time.Second  // after the first failure of a message for an agent
	// how long such a message is kept that was tried often enough
	maxAgentMessageAge = 24 * time.Hour
	// An agent whose turns fail on a message that it has is given it again for so long,
	// and so often at least.
	minFailedTurns    = 8
	minFailedTurnsAge = time.Hour
	// for a muted report: the person may end the mute meanwhile
	muteCheckInterval = 30 * time.Second
	maxMessageAge     = 7 * 24 * time.Hour // then a message that waits for its space is set aside
	// maxReadPerStep is how many messages of the outbox one step reads for the first
	// time.
	maxReadPerStep = 4000
)

// sender delivers what is in the outbox: in order within a lane, several lanes at the
// same time, each beside the loop.
type sender struct {
	*Poller
	outbox     state.Outbox
	spaces     state.Spaces
	lingerTime time.Duration // see lingerTimeout
	paceLock   sync.Mutex

	mu           sync.Mutex // of what follows
	messageCache state.Cache[state.Message]
	lanes        map[string][]*state.Message // the oldest first
	isPartlyRead bool                        // older messages of the outbox are still to be read
	busyLanes    map[string]bool             // lanes that are under way; true for one to Chat
	// messages that wait for a reason that is not on disk, by path
	waitingMessages map[string]sendResult
	// when a space takes the next message, by gatewayKey
	waitingGateways map[string]sendResult
}

func (p *Poller) newSender() *sender {
	return &sender{
		Poller: p, outbox: state.OutboxIn(p.userStateDir), spaces: state.SpacesIn(p.userStateDir), lanes: map[string][]*state.Message{},
		lingerTime:   lingerTimeout,
		messageCache: state.Cache[state.Message]{ShouldSkip: state.HasReceipt},
		busyLanes:    map[string]bool{}, waitingMessages: map[string]sendResult{}, waitingGateways: map[string]sendResult{},
	}
}

// sendResult is what became of a try to send a lane's message, which stands on disk as it
// then is.
type sendResult struct {
	endedAt        time.Time // when it ended
	retryAt        time.Time // when to try it again; zero for at once
	canBeOvertaken bool      // until then those behind it may go
	pausesGateway  bool      // until then nothing of its project goes
	endsTrouble    bool      // its space was in trouble, and is not any more
}

// dispatch starts what can be sent now. It returns when something is due, zero for
// nothing, and whether something is under way.
func (s *sender) dispatch(ctx context.Context) (next time.Time, isBusy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readOutbox()
	if s.isPartlyRead {
		s.wakeLoop()
	}
	for ctx.Err() == nil {
		message, dueAt := s.nextMessage()
		next = dueAt
		if message == nil {
			break
		}
		s.busyLanes[message.Lane()] = message.Wake == nil
		s.runInBackground("send", func() {
			result := s.trySend(ctx, message)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.busyLanes, message.Lane())
			s.applyResult(message, result)
		})
	}
	return next, len(s.busyLanes) > 0 || s.isPartlyRead
}

func (s *sender) applyResult(message *state.Message, result sendResult) {
	result.endedAt = s.Now()
	delete(s.waitingMessages, message.Path)
	if result.endsTrouble {
		clear(s.waitingGateways)
	}
	if result.pausesGateway {
		s.waitingGateways[gatewayKey(message)] = result
	} else if !result.retryAt.IsZero() {
		s.waitingMessages[message.Path] = result
	}
}

// sendUntilIdle sends until nothing more can be sent now, for ten seconds at most, and
// returns when something is due.
func (s *sender) sendUntilIdle(ctx context.Context) time.Time {
	ctx, cancel := context.WithTimeout(ctx, onceTimeout)
	defer cancel()
	for {
		next, isBusy := s.dispatch(ctx)
		if !isBusy {
			return next
		}
		select {
		case <-s.wakeups:
		case <-ctx.Done():
			return next
		}
	}
}

// readOutbox reads what is new or changed in the outbox. Of very many messages the newest
// are read first, a part with each step: a question is not to wait until all are.
func (s *sender) readOutbox() {
	names, err := s.outbox.Names()
	if err != nil {
		s.Log.ErrorOnce(err, "outbox not read")
		return
	}
	clear(s.lanes)
	waiting := map[string]bool{}
	newlyRead := 0
	s.isPartlyRead = false
	for _, name := range slices.Backward(names) {
		path := filepath.Join(s.outbox.Dir, name+".json")
		isKnown := s.messageCache.Has(path)
		if !isKnown && newlyRead == maxReadPerStep {
			s.isPartlyRead = true
			continue
		}
		message, err := s.messageCache.Load(path, false)
		if !isKnown && s.messageCache.Has(path) { // what cannot be read takes nobody's place
			newlyRead++
		}
		if !errors.Is(err, fs.ErrNotExist) {
			s.Log.ErrorOnce(err, "message not read")
		}
		if message == nil || message.IsFinal() ||
			s.Now().Sub(message.CreatedAt) > maxMessageAge && s.setAsideOld(message) ||
			message.Environment != "" && message.Environment != s.environment {
			continue
		}
		waiting[path] = true
		s.lanes[message.Lane()] = append(s.lanes[message.Lane()], message)
	}
	for _, lane := range s.lanes {
		slices.Reverse(lane)
	}
	s.messageCache.ForgetUnused()
	for _, record := range s.ownRecords {
		if record.RecordType == state.IndexedMessage {
			record.isUnsentMessage = waiting[record.Path]
			s.holdEntryLock(record)
		}
	}
	maps.DeleteFunc(
		s.waitingMessages,
		func(path string, _ sendResult) bool { return !waiting[path] },
	)
}

// nextMessage is the message that goes next: an urgent one, then the oldest. With none,
// next is when one is due. Before all are read, only questions go: nothing of their lanes
// can come before them.
func (s *sender) nextMessage() (best *state.Message, next time.Time) {
	lanesToChat := 0
	for _, isToChat := range s.busyLanes {
		if isToChat {
			lanesToChat++
		}
	}
	for name, lane := range s.lanes {
		isForAgent := lane[0].Wake != nil
		isTooEarly := s.isPartlyRead && !beginsThread(lane[0])
		if _, isBusy := s.busyLanes[name]; isBusy || isTooEarly ||
			!isForAgent && lanesToChat >= maxParallelLanes {
			continue
		}
		message, until := s.nextInLane(lane)
		next = earlier(next, until)
		if message != nil &&
			(best == nil || message.IsUrgent && !best.IsUrgent || message.IsUrgent == best.IsUrgent && message.Path < best.Path) {
			best = message
		}
	}
	return best, next
}

// nextInLane is the message of a lane that goes next, or when one is due. What is held
// back lets the others pass; what failed does not.
func (s *sender) nextInLane(lane []*state.Message) (message *state.Message, next time.Time) {
	for _, message := range lane {
		until, canBeOvertaken := s.nextTryAt(message, s.Now())
		if until.IsZero() {
			return message, next
		}
		next = earlier(next, until)
		if !canBeOvertaken {
			break
		}
	}
	return nil, next
}

// nextTryAt is when a message may be tried; zero for now. held says that those behind it
// may go meanwhile.
func (s *sender) nextTryAt(
	message *state.Message,
	now time.Time,
) (until time.Time, canBeOvertaken bool) {
	if wait := message.NotBefore.Sub(now); wait > 0 &&
		(message.FailedTries == 0 || wait <= time.Hour) {
		// a clock may have been set back
		return message.NotBefore, message.FailedTries == 0
	}
	for _, earlierResult := range []sendResult{s.waitingMessages[message.Path], s.waitingGateways[gatewayKey(message)]} {
		if now.Before(earlierResult.retryAt) && !message.NotBefore.After(earlierResult.endedAt) {
			// else a person had it tried anew meanwhile
			return earlierResult.retryAt, earlierResult.canBeOvertaken
		}
	}
	return time.Time{}, false
}

// gatewayKey is equal for messages that go through one gateway, and at one pace.
func gatewayKey(message *state.Message) string {
	if message.Wake != nil {
		return ""
	}
	return fmt.Sprint(message.ProjectDir, "\x00", message.IsTrusted, message.IsUrgent)
}

// setAsideOld sets a message aside that no poller could send for a week, whichever
// environment it was for.
func (s *sender) setAsideOld(message *state.Message) bool {
	if s.Now().Sub(message.NotBefore) <= maxMessageAge {
		return false
	}
	why := cmp.Or(message.LastError, "no poller had a webhook for it")
	return s.setAside(message, "it waited for seven days: "+why).retryAt.IsZero()
}

// trySend sends the part of a message that goes next, or says when it may be tried again.
func (s *sender) trySend(ctx context.Context, message *state.Message) (result sendResult) {
	result.retryAt = s.Now().Add(authRetryPause) // after a panic
	s.runSafely("send", func() {
		if message.Wake != nil {
			result = s.sendPart(ctx, message, nil)
			return
		}
		gateway := s.gatewayFor(ctx, configSource{message.ProjectDir, message.IsTrusted})
		if ctx.Err() == nil { // else a command for the webhook may have been cut
			result = s.trySendThrough(ctx, message, gateway)
		}
	})
	return result
}

func (s *sender) trySendThrough(
	ctx context.Context,
	message *state.Message,
	gateway *projectGateway,
) sendResult {
	if mayBeQuiet := gateway.cfg.QuietHours != nil || message.SessionID != ""; mayBeQuiet &&
		!message.IsUrgent &&
		message.Type != state.MessageNote {
		if until := s.quietUntil(message, gateway.cfg); !until.IsZero() {
			return sendResult{retryAt: until, canBeOvertaken: true}
		}
	}
	worded, result := s.wordMessage(ctx, message, gateway)
	switch {
	case worded == nil:
		return result
	case gateway.err != nil:
		return s.pauseGateway(message, gateway, gateway.err, true)
	case message.Chat != "" && message.Chat != gateway.transport.Chat():
		return sendResult{retryAt: s.Now().Add(authRetryPause)} // the webhook is another space's
	}
	return s.sendPart(ctx, worded, gateway)
}

// quietUntil is until when a message waits because its person wants quiet; zero for not
// at all. A report that was put before the quiet hours, and could not be sent, waits for
// their end; a report, and [Waiting for you], while the session is muted.
func (s *sender) quietUntil(message *state.Message, cfg *config.Config) (until time.Time) {
	if cfg.QuietHours != nil && message.Type == state.MessageReport {
		if end, isQuiet := cfg.QuietHours.EndAfter(s.Now()); isQuiet {
			return end
		}
	}
	session, err := state.SessionsIn(s.userStateDir).Get(message.SessionID)
	if message.SessionID == "" || err != nil || !session.MutedUntil.After(s.Now()) {
		return time.Time{}
	}
	return earlier(session.MutedUntil, s.Now().Add(muteCheckInterval))
}

// sendPart delivers one part of a message. FirstTriedAt is on disk before: after kill -9
// the next poller looks whether the part arrived. This process just wrote what is fresh,
// so it is not read again.
func (s *sender) sendPart(
	ctx context.Context,
	message *state.Message,
	gateway *projectGateway,
) sendResult {
	hadTrouble := false // the space took no messages the last time
	if gateway != nil {
		var until time.Time
		until, hadTrouble = s.takeSendSlot(message, gateway)
		if !until.IsZero() {
			return sendResult{retryAt: until, pausesGateway: true}
		}
	}
	_, isUntried := s.untriedPaths.LoadAndDelete(message.Path)
	isFirstTry := isUntried || message.FirstTriedAt.IsZero()
	if !isFirstTry && gateway != nil {
		if found, err := gateway.findPart(ctx, message); err != nil {
			return s.handleSendFailure(ctx, message, gateway, err, false)
		} else if found != nil {
			return s.writeReceipt(message, gateway, *found, "")
		}
	}
	sending := *message
	if !isUntried {
		stored, err := s.writeTry(message)
		if err != nil || stored == nil || stored.IsFinal() {
			return s.resultOfWrite(err)
		}
		sending = *stored
	}
	startsThread := sending.ThreadKey == "" || beginsThread(message)
	if gateway != nil && sending.ThreadName == "" && !startsThread {
		sending.ThreadName = s.knownThread(message, gateway)
	}
	sendCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(s.lingerTime, cancel) })()
	var posted gchat.PostedMessage
	var err error
	answer := "" // of an agent
	if gateway == nil {
		answer, err = openclaw.InformAgent(sendCtx, s.Env, &sending)
	} else {
		posted, err = gateway.postPart(sendCtx, &sending)
	}
	if err != nil {
		return s.handleSendFailure(ctx, &sending, gateway, err, isFirstTry)
	}
	result := s.writeReceipt(&sending, gateway, posted, answer)
	if hadTrouble {
		result.endsTrouble = true
		s.clearTrouble(gateway)
	}
	return result
}

// beginsThread reports whether a question begins a thread of its own. What a session is
// to do next goes with its reports.
func beginsThread(message *state.Message) bool {
	return message.Type == state.MessageQuestion && !message.IsInSessionThread()
}

// writeTry writes down that a message is tried, and with what texts; nil and no error
// where it is gone.
func (s *sender) writeTry(message *state.Message) (*state.Message, error) {
	return s.outbox.Change(message.Path, func(stored *state.Message) {
		if stored.IsFinal() || !stored.FirstTriedAt.IsZero() && len(stored.Parts) > 0 {
			// it was put so, or tried
			return
		}
		stored.ID, stored.Parts, stored.Card, stored.MergedMessages, stored.ThreadKey = message.ID, message.Parts, message.Card, message.MergedMessages, message.ThreadKey
		stored.FirstTriedAt = s.Now().UTC()
	})
}

// knownThread is the thread of a key, where one is known in the space: of a session's,
// which may have begun under another key, and of any with an app, whose direct message
// sees no keys.
func (s *sender) knownThread(message *state.Message, gateway *projectGateway) (name string) {
	if message.IsInSessionThread() {
		if session, err := state.SessionsIn(s.userStateDir).Get(message.SessionID); err == nil {
			name = session.ThreadName
		}
	} else if !gateway.transport.KeepsThreadKeys() {
		name = state.FindThreadName(s.Env, message.ThreadKey)
	}
	if !strings.HasPrefix(name, gateway.spaceName+"/") {
		return ""
	}
	return name
}

// writeReceipt writes a receipt: into the question or the session that the message is of,
// then into the message itself. Killed in between, the next poller finds the message
// again.
func (s *sender) writeReceipt(
	message *state.Message,
	gateway *projectGateway,
	posted gchat.PostedMessage,
	answer string,
) sendResult {
	if gateway != nil && message.PatchedMessage == "" {
		s.Log.Info().
			Str("id", partID(message)).
			Str("project", message.ProjectDir).
			Str("session", message.SessionID).
			Msg(state.LogMessageSent)
	}
	if message.PartsSent+1 < len(message.Parts) {
		_, err := s.outbox.Change(message.Path, func(message *state.Message) {
			message.PartsSent, message.FailedTries, message.FirstTriedAt, message.NotBefore = message.PartsSent+1, 0, time.Time{}, time.Time{}
			message.MessageName = cmp.Or(message.MessageName, posted.Name)
			// the other parts go there, too: a direct message knows no keys
			message.ThreadName = cmp.Or(message.ThreadName, posted.ThreadName)
		})
		return s.resultOfWrite(err)
	}
	if gateway != nil && (message.Question != "" || message.SessionID != "") {
		if err := s.addReceiptToRecord(message, gateway, posted); err != nil {
			return s.resultOfWrite(err)
		}
	}
	return s.finishMessage(message, func(message *state.Message) {
		message.SentAt, message.LastError, message.AgentAnswer = message.EndedAt, "", answer
		message.MessageName = cmp.Or(message.MessageName, posted.Name)
		message.ThreadName = cmp.Or(posted.ThreadName, message.ThreadName)
	})
}

// finishMessage makes a message final, and before it those that go with a digest.
func (s *sender) finishMessage(message *state.Message, change func(*state.Message)) sendResult {
	for _, name := range append(slices.Clone(message.MergedMessages), message.Path) {
		_, err := s.outbox.Change(name, func(message *state.Message) {
			if !message.IsFinal() {
				message.EndedAt = s.Now().UTC()
				change(message)
			}
		})
		if err != nil {
			return s.resultOfWrite(err)
		}
	}
	return sendResult{}
}

func (s *sender) addReceiptToRecord(
	message *state.Message,
	gateway *projectGateway,
	posted gchat.PostedMessage,
) (err error) {
	if message.Type == state.MessageQuestion && message.PatchedMessage == "" {
		_, err = state.ChangeQuestionRelaxed(message.Question, func(q *state.Question) {
			q.IsMessageSent, q.PostError = true, ""
			q.MessageName, q.ThreadName = cmp.Or(
				posted.Name,
				q.MessageName,
			), cmp.Or(
				posted.ThreadName,
				q.ThreadName,
			)
			q.Chat, q.Space = gateway.transport.Chat(), gateway.spaceName
			if gateway.transport.DrawsCards() && len(message.Card) > 0 {
				// by this id the app changes it, also through a hub
				q.CardMessage = gchat.MessageName(gateway.spaceName, partID(message))
			}
			if !posted.ServerTime.IsZero() && q.PostedAt == nil {
				q.PostedAt = new(posted.ServerTime.UTC())
			}
		})
		if errors.Is(err, fs.ErrNotExist) {
			return nil // its project was removed
		}
	}
	hasThreads := message.Type == state.MessageNote && message.Question != "" &&
		message.PatchedMessage == "" &&
		message.ThreadName != "" &&
		posted.ThreadName != ""
	if hasThreads && message.ThreadName != posted.ThreadName {
		// its thread was deleted, and Chat began another
		_, err = state.ChangeQuestionRelaxed(message.Question, func(q *state.Question) {
			if q.ThreadName != posted.ThreadName {
				q.FormerThreads = append(q.FormerThreads, q.ThreadName)
				q.ThreadName = posted.ThreadName
			}
		})
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil && message.IsInSessionThread() && posted.ThreadName != "" {
		_, err = state.SessionsIn(s.userStateDir).
			Change(message.SessionID, func(session *state.Session) {
				session.ThreadName, session.Chat = posted.ThreadName, gateway.transport.Chat()
			})
	}
	return err
}

func (s *sender) resultOfWrite(err error) sendResult {
	if err == nil {
		return sendResult{}
	}
	s.Log.Error().Err(err).Msg("outbox not written; the message waits")
	return sendResult{retryAt: s.Now().Add(diskRetryPause)}
}

// takeSendSlot takes one write from what the space allows, or says when there is one.
// Through a webhook that a person has to mend one message goes a minute. troubled says
// that the last message failed for its space's sake.
func (s *sender) takeSendSlot(
	message *state.Message,
	gateway *projectGateway,
) (until time.Time, hadTrouble bool) {
	now, transportID := s.Now(), gateway.transport.ID()
	allowance := maxBurst
	if message.IsUrgent {
		allowance = maxUrgentBurst
	}
	s.paceLock.Lock() // the lanes wait for each other here, and not by trying the file's lock
	defer s.paceLock.Unlock()
	s.changeSpace(gateway, func(space *state.Space) {
		pause, isPaused := space.PausedWebhooks[transportID]
		hadTrouble = isPaused || space.Failures > 0 || !space.NotBefore.IsZero()
		wait := space.WriteDelay(now)
		if left := pause.NotBefore.Sub(now); isPaused && left <= authRetryPause {
			wait = max(wait, left)
		}
		if wait <= 0 {
			wait = space.TakeWrite(
				now,
				time.Minute/time.Duration(gateway.cfg.WritesPerMinute),
				allowance,
			)
		}
		if wait > 0 {
			until = now.Add(wait)
		} else if isPaused {
			pause.NotBefore = now.Add(authRetryPause).UTC()
			space.PausedWebhooks[transportID] = pause
		}
	})
	return until, hadTrouble
}

func (s *sender) clearTrouble(gateway *projectGateway) {
	s.changeSpace(gateway, func(space *state.Space) {
		space.Failures, space.NotBefore, space.Why = 0, time.Time{}, ""
		delete(space.PausedWebhooks, gateway.transport.ID())
	})
	s.Log.Info().Str("chat", gateway.transport.Chat()).Msg(logSentAgain)
}

// changeSpace writes down what is known of a gateway's space. A pace that is not kept is
// better than silence.
func (s *sender) changeSpace(gateway *projectGateway, change func(*state.Space)) {
	_, err := s.spaces.Change(gateway.transport.Chat(), change)
	s.Log.ErrorOnce(err, "not written what is known of the space")
}

// retryAfterSleep has messages tried at once that wait for their space, unless Chat
// itself asked for the pause.
func (s *sender) retryAfterSleep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.waitingMessages)
	clear(s.waitingGateways)
	spaces, _ := s.spaces.All()
	for _, listed := range spaces {
		if listed.NotBefore.IsZero() || listed.IsAskedByChat {
			continue
		}
		_, err := s.spaces.Change(
			listed.Chat,
			func(space *state.Space) { space.Failures, space.NotBefore = 0, time.Time{} },
		)
		s.Log.ErrorOnce(err, "a space's pause not ended")
	}
}
