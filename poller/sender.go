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
	maxParallelLanes = 8 // of messages to Chat; each agent has a lane of its own besides
	// maxBurst is how many messages may go at once before the pace limits them. Urgent
	// messages, such as questions, may go a little beyond it, so that none waits behind
	// many reports.
	maxBurst       = 10
	maxUrgentBurst = maxBurst + 3
	// maxWatchBurst is how many there may be if one more only shows what a session does.
	maxWatchBurst = maxBurst / 2
	// authRetryPause is the time between two tries of a webhook that a person has to fix.
	authRetryPause = time.Minute
	maxBackoff     = 5 * time.Minute // after failures in a row
	// maxUrgentBackoff is maxBackoff for an urgent message that fails while others of its
	// space do not.
	maxUrgentBackoff = 30 * time.Second
	diskRetryPause   = 2 * time.Second // after a record could not be written
	// lingerTimeout is how long a send may still take once the poller has to end.
	lingerTimeout   = 2 * time.Second
	agentRetryPause = 5 * time.Second // after the first failure of a message for an agent
	// A message for an agent is set aside after minFailedTurns tries, once it is older
	// than maxAgentMessageAge. Where the agent gets it and the agent's turn fails,
	// minFailedTurnsAge counts in place of maxAgentMessageAge.
	maxAgentMessageAge = 24 * time.Hour
	minFailedTurns     = 8
	minFailedTurnsAge  = time.Hour
	// muteCheckInterval is how often a muted message is looked at: the person may end the
	// mute early.
	muteCheckInterval = 30 * time.Second
	// maxMessageAge is how long a message waits for its space before it is set aside.
	maxMessageAge = 7 * 24 * time.Hour
	// maxReadPerStep is how many new messages of the outbox one step reads.
	maxReadPerStep = 4000
)

// sender delivers the messages in the outbox. Messages of one lane go in order. Several
// lanes go at the same time, each in a goroutine beside the loop.
type sender struct {
	*Poller
	outbox     state.Outbox
	spaces     state.Spaces
	lingerTime time.Duration // see lingerTimeout
	paceLock   sync.Mutex    // see takeSendSlot

	mu           sync.Mutex // guards the fields below
	messageCache state.Cache[state.Message]
	lanes        map[string][]*state.Message // each lane's messages, the oldest first
	isPartlyRead bool                        // the next step has to read older messages
	busyLanes    map[string]bool             // lanes with a send under way; true for one to Chat
	// waitingMessages are messages, by path, that wait for a reason which is not on disk.
	waitingMessages map[string]sendResult
	// waitingGateways are the gateways, by gatewayKey, that have to pause.
	waitingGateways map[string]sendResult
}

func (p *Poller) newSender() *sender {
	return &sender{
		Poller:          p,
		outbox:          state.OutboxIn(p.userStateDir),
		spaces:          state.SpacesIn(p.userStateDir),
		lingerTime:      lingerTimeout,
		messageCache:    state.Cache[state.Message]{ShouldSkip: state.HasReceipt},
		lanes:           map[string][]*state.Message{},
		busyLanes:       map[string]bool{},
		waitingMessages: map[string]sendResult{},
		waitingGateways: map[string]sendResult{},
	}
}

// sendResult is how a try to send a message went. The message on disk is already as the
// try left it.
type sendResult struct {
	endedAt        time.Time // when the try ended
	retryAt        time.Time // when to try once more; zero for at once
	canBeOvertaken bool      // until retryAt, later messages of its lane may go
	pausesGateway  bool      // until retryAt, nothing goes through its gateway
	endsTrouble    bool      // its space took no messages before, and took this one
}

// dispatch starts all sends that can start. It returns when the next message is due, or
// zero, and whether there is work under way.
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
		s.busyLanes[message.Lane()] = message.IsForChat()
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

// sendUntilIdle sends until no more messages can go at present, for onceTimeout at most.
// It returns the time at which the next one is due.
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

// readOutbox reads the new and changed messages of the outbox. Where there are very many,
// each step reads a part of them, the newest first. So a new question need not wait for
// all of them.
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
		if !isKnown && s.messageCache.Has(path) { // an unreadable file does not count
			newlyRead++
		}
		if !errors.Is(err, fs.ErrNotExist) {
			s.Log.ErrorOnce(err, "message not read")
		}
		if message == nil || message.IsFinal() {
			continue
		}
		isOld := s.Now().Sub(message.CreatedAt) > maxMessageAge
		if isOld && s.setAsideOld(message) {
			continue
		}
		if message.Environment != "" && message.Environment != s.environment {
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
	maps.DeleteFunc(s.waitingMessages, func(path string, _ sendResult) bool {
		return !waiting[path]
	})
}

// nextMessage returns the message that goes next: the oldest urgent one, else the oldest.
// Where there is none, it returns when one is due. Until the whole outbox is read, only
// messages that begin a thread go: no unread message can precede them in their lane.
func (s *sender) nextMessage() (best *state.Message, next time.Time) {
	lanesToChat := 0
	for _, isToChat := range s.busyLanes {
		if isToChat {
			lanesToChat++
		}
	}
	for name, lane := range s.lanes {
		_, isBusy := s.busyLanes[name]
		isTooEarly := s.isPartlyRead && !beginsThread(lane[0])
		hasSlot := !lane[0].IsForChat() || lanesToChat < maxParallelLanes
		isBehind := lane[0].IsWatch && s.hasUrgentMessage()
		if isBusy || isTooEarly || !hasSlot || isBehind {
			continue
		}
		message, until := s.nextInLane(lane)
		next = earlier(next, until)
		if message != nil && (best == nil || precedes(message, best)) {
			best = message
		}
	}
	return best, next
}

// hasUrgentMessage reports whether an urgent message is on its way, or waits. What only
// shows a session's work lets it go first.
func (s *sender) hasUrgentMessage() bool {
	for _, lane := range s.lanes {
		if slices.ContainsFunc(lane, func(m *state.Message) bool { return m.IsUrgent && m.IsForChat() }) {
			return true
		}
	}
	return false
}

// precedes reports whether a message of one lane goes before one of another lane: urgent
// ones first, then the oldest.
func precedes(message, other *state.Message) bool {
	if message.IsUrgent != other.IsUrgent {
		return message.IsUrgent
	}
	return message.Path < other.Path
}

// nextInLane returns the message of a lane that goes next, or when one is due. Later
// messages may overtake one that is held back, but not one that failed.
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

// nextTryAt returns when a message may be tried; zero for at once. canBeOvertaken says
// that later messages of its lane may go until then.
func (s *sender) nextTryAt(
	message *state.Message,
	now time.Time,
) (until time.Time, canBeOvertaken bool) {
	wait := message.NotBefore.Sub(now)
	// No failure pauses for more than an hour: where one seems to, the clock was set
	// back.
	isClockWrong := message.FailedTries > 0 && wait > time.Hour
	if wait > 0 && !isClockWrong {
		return message.NotBefore, message.FailedTries == 0
	}
	for _, result := range []sendResult{
		s.waitingMessages[message.Path],
		s.waitingGateways[gatewayKey(message)],
	} {
		// A NotBefore after the try means that a person asked for another one.
		isRetryAsked := message.NotBefore.After(result.endedAt)
		if now.Before(result.retryAt) && !isRetryAsked {
			return result.retryAt, result.canBeOvertaken
		}
	}
	return time.Time{}, false
}

// gatewayKey is the same for messages that go through one gateway at one pace.
func gatewayKey(message *state.Message) string {
	if !message.IsForChat() {
		return ""
	}
	return fmt.Sprint(message.ProjectDir, "\x00", message.IsTrusted, message.IsUrgent)
}

// setAsideOld sets aside a message of any environment that no poller could send for a
// week. It reports whether it did.
func (s *sender) setAsideOld(message *state.Message) bool {
	if s.Now().Sub(message.NotBefore) <= maxMessageAge {
		return false
	}
	why := cmp.Or(message.LastError, "no poller had a webhook for it")
	return s.setAside(message, "not sent within seven days: "+why).retryAt.IsZero()
}

// trySend sends the part of a message that goes next, or returns when to try once more.
func (s *sender) trySend(ctx context.Context, message *state.Message) (result sendResult) {
	result.retryAt = s.Now().Add(authRetryPause) // what counts after a panic
	s.runSafely("send", func() {
		if message.Wake != nil {
			result = s.sendPart(ctx, message, nil)
			return
		}
		if message.Call != nil {
			result = s.sendCall(ctx, message)
			return
		}
		gateway := s.gatewayFor(ctx, configSource{message.ProjectDir, message.IsTrusted})
		if ctx.Err() == nil { // else the command for the webhook may have been interrupted
			result = s.trySendThrough(ctx, message, gateway)
		}
	})
	return result
}

// trySendThrough sends the next part through a gateway, unless its person wants quiet.
func (s *sender) trySendThrough(
	ctx context.Context,
	message *state.Message,
	gateway *projectGateway,
) sendResult {
	if s.isOvertaken(message) {
		return s.dropMessage(message)
	}
	if !message.IsUrgent && message.Type != state.MessageNote {
		until := s.quietUntil(message, gateway.cfg)
		if !until.IsZero() {
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
		// the project's webhook leads to another space than when the message was enqueued
		return sendResult{retryAt: s.Now().Add(authRetryPause)}
	}
	return s.sendPart(ctx, worded, gateway)
}

// isOvertaken reports whether a note says that something still waits which has ended
// meanwhile: the space took no messages for a time. Another note says how it ended.
func (s *sender) isOvertaken(message *state.Message) bool {
	if message.Note == nil {
		return false
	}
	about := message.Note.About
	switch about {
	case state.NoteKept, state.NoteLater, state.NoteStillKept, state.NoteNotTyped, state.NoteReminder:
	default:
		return false
	}
	if message.Question != "" {
		q, err := state.LoadQuestion(message.Question)
		if err != nil {
			return false
		}
		isAnswered := about == state.NoteKept && q.Status != state.Pending
		return !q.Status.IsOpen() || isAnswered || q.IsPrinted && about == state.NoteLater
	}
	if message.Note.ReplyMessage == "" { // of a version that did not say which prompt is kept
		return false
	}
	undecided, unreadable := state.InboxIn(s.userStateDir).All()
	isStillKept := slices.ContainsFunc(undecided, func(in *state.Incoming) bool {
		isItsPrompt := in.MessageName == message.Note.ReplyMessage && in.IsWaitingPrompt()
		return isItsPrompt && in.PrintedAt.IsZero()
	})
	return len(unreadable) == 0 && !isStillKept
}

// quietUntil returns until when a message waits because its person wants quiet, or zero.
// In quiet hours only reports wait. That concerns a report from before the quiet hours
// that could not be sent then. While its session is muted, a report and a [Waiting for
// you] message wait.
func (s *sender) quietUntil(message *state.Message, cfg *config.Config) (until time.Time) {
	if cfg.QuietHours != nil && message.Type == state.MessageReport {
		if end, isQuiet := cfg.QuietHours.EndAfter(s.Now()); isQuiet {
			return end
		}
	}
	if message.SessionID == "" {
		return time.Time{}
	}
	session, err := state.SessionsIn(s.userStateDir).Get(message.SessionID)
	if err != nil || !session.MutedUntil.After(s.Now()) {
		return time.Time{}
	}
	return earlier(session.MutedUntil, s.Now().Add(muteCheckInterval))
}

// sendPart delivers one part of a message: through a gateway, or where that is nil to an
// agent. It writes FirstTriedAt to disk before it sends. So after kill -9 the next poller
// searches the space for the part before it sends it. A message that this process
// enqueued with FirstTriedAt and has not tried yet needs neither the write nor the
// search.
func (s *sender) sendPart(
	ctx context.Context,
	message *state.Message,
	gateway *projectGateway,
) sendResult {
	hadTrouble := false // the space took no messages at the last try
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
		found, err := gateway.findPart(ctx, message)
		if err != nil {
			return s.handleSendFailure(ctx, message, gateway, err, false)
		}
		if found != nil {
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
	agentAnswer := ""
	if gateway == nil {
		agentAnswer, err = openclaw.InformAgent(sendCtx, s.Env, &sending)
	} else {
		posted, err = gateway.postPart(sendCtx, &sending)
	}
	if err != nil {
		return s.handleSendFailure(ctx, &sending, gateway, err, isFirstTry)
	}
	result := s.writeReceipt(&sending, gateway, posted, agentAnswer)
	if hadTrouble {
		result.endsTrouble = true
		s.clearTrouble(gateway)
	}
	return result
}

// beginsThread reports whether a message is a question that begins a thread of its own. A
// "next instruction" question goes into the thread of its session's reports.
func beginsThread(message *state.Message) bool {
	return message.Type == state.MessageQuestion && !message.IsInSessionThread()
}

// writeTry writes to disk that a message is tried, and with which texts. It returns the
// message as it is on disk, or nil and no error where its file is gone.
func (s *sender) writeTry(message *state.Message) (*state.Message, error) {
	return s.outbox.Change(message.Path, func(stored *state.Message) {
		isTried := !stored.FirstTriedAt.IsZero() && len(stored.Parts) > 0
		if stored.IsFinal() || isTried {
			return
		}
		stored.ID, stored.ThreadKey = message.ID, message.ThreadKey
		stored.Parts, stored.Card = message.Parts, message.Card
		stored.MergedMessages = message.MergedMessages
		stored.FirstTriedAt = s.Now().UTC()
	})
}

// knownThread returns the name of a message's thread in the gateway's space, or "" where
// only its key is known. A session's thread may have begun under another key. With a Chat
// app every thread needs its name: a direct conversation has no keys.
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

// writeReceipt writes a receipt into the message's question or session, and then into the
// message itself. If the poller is killed in between, the next one finds the message in
// the space and writes the receipt once more.
func (s *sender) writeReceipt(
	message *state.Message,
	gateway *projectGateway,
	posted gchat.PostedMessage,
	agentAnswer string,
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
			message.PartsSent, message.FailedTries = message.PartsSent+1, 0
			message.FirstTriedAt, message.NotBefore = time.Time{}, time.Time{}
			message.MessageName = cmp.Or(message.MessageName, posted.Name)
			// The other parts need the thread's name: a direct conversation has no keys.
			message.ThreadName = cmp.Or(message.ThreadName, posted.ThreadName)
		})
		return s.resultOfWrite(err)
	}
	if gateway != nil && (message.Question != "" || message.SessionID != "") {
		err := s.addReceiptToRecord(message, gateway, posted)
		if err != nil {
			return s.resultOfWrite(err)
		}
	}
	if message.Report != nil && message.Report.Type == state.ReportBlockedAlert {
		s.callForAlert(message, gateway.transport.Chat(), cmp.Or(posted.ThreadName, message.ThreadName))
	}
	return s.finishMessage(message, func(message *state.Message) {
		message.SentAt, message.LastError = message.EndedAt, ""
		message.AgentAnswer = agentAnswer
		message.MessageName = cmp.Or(message.MessageName, posted.Name)
		message.ThreadName = cmp.Or(posted.ThreadName, message.ThreadName)
	})
}

// finishMessage ends a message, sent or set aside. Where it is a digest, it first ends
// the messages that went into it.
func (s *sender) finishMessage(message *state.Message, change func(*state.Message)) sendResult {
	for _, path := range append(slices.Clone(message.MergedMessages), message.Path) {
		_, err := s.outbox.Change(path, func(message *state.Message) {
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

// addReceiptToRecord writes a receipt into the question that a message is of, and the
// thread into the question or the session.
func (s *sender) addReceiptToRecord(
	message *state.Message,
	gateway *projectGateway,
	posted gchat.PostedMessage,
) (err error) {
	if message.Type == state.MessageQuestion && message.PatchedMessage == "" {
		_, err = state.ChangeQuestionRelaxed(message.Question, func(q *state.Question) {
			q.IsMessageSent, q.PostError = true, ""
			q.MessageName = cmp.Or(posted.Name, q.MessageName)
			q.ThreadName = cmp.Or(posted.ThreadName, q.ThreadName)
			q.Chat, q.Space = gateway.transport.Chat(), gateway.spaceName
			if gateway.transport.DrawsCards() && len(message.Card) > 0 {
				// the name with our own id: the app updates the card by it, through a hub
				// too
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
	isNote := message.Type == state.MessageNote && message.Question != "" &&
		message.PatchedMessage == ""
	hasThreads := message.ThreadName != "" && posted.ThreadName != ""
	if isNote && hasThreads && message.ThreadName != posted.ThreadName {
		// A person deleted the thread, and Chat began another one.
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
		sessions := state.SessionsIn(s.userStateDir)
		_, err = sessions.Change(message.SessionID, func(session *state.Session) {
			session.ThreadName, session.Chat = posted.ThreadName, gateway.transport.Chat()
		})
	}
	return err
}

// resultOfWrite returns the result of a write to disk: after an error, the message is
// tried once more soon.
func (s *sender) resultOfWrite(err error) sendResult {
	if err == nil {
		return sendResult{}
	}
	s.Log.Error().Err(err).Msg("outbox not written; the message waits")
	return sendResult{retryAt: s.Now().Add(diskRetryPause)}
}

// takeSendSlot takes one of the writes that the space's pace allows, or returns when the
// next one is free. Through a webhook that a person has to fix, one message a minute
// goes. hadTrouble says that the last message failed because of its space or webhook.
func (s *sender) takeSendSlot(
	message *state.Message,
	gateway *projectGateway,
) (until time.Time, hadTrouble bool) {
	now, transportID := s.Now(), gateway.transport.ID()
	allowance := maxBurst
	switch {
	case message.IsUrgent:
		allowance = maxUrgentBurst
	case message.IsWatch:
		allowance = maxWatchBurst
	}
	s.paceLock.Lock() // so that lanes of one process do not poll for the file's lock
	defer s.paceLock.Unlock()
	s.changeSpace(gateway, func(space *state.Space) {
		pause, isPaused := space.PausedWebhooks[transportID]
		hadTrouble = isPaused || space.Failures > 0 || !space.NotBefore.IsZero()
		wait := space.WriteDelay(now)
		remaining := pause.NotBefore.Sub(now)
		if isPaused && remaining <= authRetryPause { // else the clock was set back
			wait = max(wait, remaining)
		}
		if wait <= 0 {
			interval := time.Minute / time.Duration(gateway.cfg.WritesPerMinute)
			wait = space.TakeWrite(now, interval, allowance)
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

// clearTrouble ends the pauses of a gateway's space and webhook, after a message went.
func (s *sender) clearTrouble(gateway *projectGateway) {
	s.changeSpace(gateway, func(space *state.Space) {
		space.Failures, space.NotBefore, space.Why = 0, time.Time{}, ""
		delete(space.PausedWebhooks, gateway.transport.ID())
	})
	s.Log.Info().Str("chat", gateway.transport.Chat()).Msg(logSentAgain)
}

// changeSpace changes the record of a gateway's space. An error is only logged: to send
// too fast is better than not to send.
func (s *sender) changeSpace(gateway *projectGateway, change func(*state.Space)) {
	_, err := s.spaces.Change(gateway.transport.Chat(), change)
	s.Log.ErrorOnce(err, "state of the space not written")
}

// retryAfterSleep is called after the machine slept. It ends the pauses of spaces,
// gateways and messages, so that each message is tried at once. A pause that Chat itself
// asked for stays.
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
		_, err := s.spaces.Change(listed.Chat, func(space *state.Space) {
			space.Failures, space.NotBefore = 0, time.Time{}
		})
		s.Log.ErrorOnce(err, "pause of a space not ended")
	}
}
