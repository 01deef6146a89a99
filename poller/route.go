package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/inject"
	"gchat-hooks/poller/commands"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
)

// undecidedTimeout is how long the poller holds a message that belongs to no record here.
// The message may be for another machine of the app. It may also be for a question that
// is just being posted: the receipt of a post can come after the reply to it.
const undecidedTimeout = time.Minute

// A destination is what an incoming message is for.
type destination struct {
	kind    destinationKind
	record  *trackedRecord
	session *state.Session
	// environment is the one whose poller decides what the message is. It is empty where
	// the poller that pulls the app's events decides.
	environment string
}

type destinationKind int

const (
	toNobody           destinationKind = iota
	toQuestion                         // a reply
	toSession                          // a prompt or a command
	toNewSession                       // it starts a session
	toSessionList                      // it asks for the list of sessions
	toOtherEnvironment                 // another environment's poller decides what it is
	toUndecided                        // it is not decided yet
)

// readInbox reads the messages that are not done, in the order in which people wrote
// them.
func (p *Poller) readInbox() {
	p.updateReadUntil() // first: what was read from Chat until then is in the inbox
	inbox := state.InboxIn(p.userStateDir)
	names, err := inbox.Names()
	p.Log.ErrorOnce(err, "inbox not read")
	p.incoming, p.routedBySession = nil, map[string][]*state.Incoming{}
	for _, name := range names {
		path := filepath.Join(inbox.Dir, name+".json")
		if !p.inboxCache.Has(path) && inbox.RemoveFinished(name) {
			continue
		}
		in, err := p.inboxCache.Load(path, false)
		p.Log.ErrorOnce(err, "incoming message not read")
		if err == nil && in != nil && in.ID == name { // not a copy of a record's file
			p.incoming = append(p.incoming, in)
		}
	}
	p.inboxCache.ForgetUnused()
	slices.SortFunc(p.incoming, (*state.Incoming).Compare)
	for _, in := range p.incoming {
		if in.SessionID != "" {
			p.routedBySession[in.SessionID] = append(p.routedBySession[in.SessionID], in)
		}
	}
}

// hasUndecided reports whether a message from a chat is not decided yet. A message that
// only another environment can decide counts for a minute: its poller may never come.
func (p *Poller) hasUndecided(chat string) bool {
	return slices.ContainsFunc(p.incoming, func(in *state.Incoming) bool {
		isLeft := p.decidedElsewhere[in.ID] && p.Now().Sub(in.ReadAt).Abs() >= undecidedTimeout
		return in.Chat == chat && in.Status == state.IncomingNew && !isLeft
	})
}

// routeAll decides what each new message is, and hands it over. A message that has to
// wait holds back the later ones of its thread. One that another environment decides
// holds back none.
func (p *Poller) routeAll(ctx context.Context) (next time.Time, hasWork bool) {
	p.decidedElsewhere = map[string]bool{}
	isNew := func(in *state.Incoming) bool { return in.Status == state.IncomingNew }
	if !slices.ContainsFunc(p.incoming, isNew) {
		return time.Time{}, false
	}
	isHeldBack := map[string]bool{}
	for _, in := range p.incoming {
		thread := in.Chat + " " + in.ThreadName
		canOvertake := in.IsTap() || wording.IsOwnCommand(in.Text)
		if !isNew(in) || isHeldBack[thread] && !canOvertake {
			continue
		}
		target := destination{kind: toUndecided}
		p.runSafely("route", func() { target = p.route(ctx, in) })
		switch target.kind {
		case toOtherEnvironment:
			p.decidedElsewhere[in.ID] = true
			dueAt := p.leaveToOtherEnvironment(in, target.environment)
			next = earlier(next, dueAt)
			hasWork = hasWork || !dueAt.IsZero()
			continue
		case toUndecided:
			isHeldBack[thread] = true
			next, hasWork = earlier(next, p.Now().Add(time.Second)), true
			continue
		}
		if p.fetchFilesFirst(ctx, in, target) {
			isHeldBack[thread] = true
			hasWork = true // the end of the fetch wakes the loop
			continue
		}
		err := p.handleIncoming(ctx, in, target)
		if err != nil {
			p.Log.ErrorOnce(err, "incoming message not handled; gchat-hooks tries again")
			isHeldBack[thread] = true
			next, hasWork = earlier(next, p.Now().Add(time.Second)), true
		}
	}
	return next, hasWork
}

// callWindow is how long after a message was read this poller calls the poller of the
// environment that has to decide it.
const callWindow = 5 * time.Second

// leaveToOtherEnvironment calls another environment's poller, which decides what a
// message is. Where that poller does not come, the poller that reads the message's space
// writes a note about it. leaveToOtherEnvironment returns when to look at the message
// once more.
func (p *Poller) leaveToOtherEnvironment(in *state.Incoming, environment string) time.Time {
	if environment == "" {
		return time.Time{}
	}
	age := p.Now().Sub(in.ReadAt).Abs()
	if age < callWindow {
		state.CallPoller(p.Env, environment)
	}
	source, isReader := p.readerSource(in)
	switch {
	case !isReader:
		return time.Time{}
	case age < undecidedTimeout:
		return in.ReadAt.Add(undecidedTimeout)
	}
	state.RunWithoutPoller(p.Env, environment, func() { p.enqueueUnservedNote(in, source) })
	return time.Time{}
}

// readerSource returns by whose configuration this process reads the space of a message.
// isReader is false where this process does not read that space.
func (p *Poller) readerSource(in *state.Incoming) (source configSource, isReader bool) {
	if in.EventID != "" && p.puller.subscription != "" {
		return configSource{projectDir: p.userStateDir}, true
	}
	reader := p.readers[in.Chat]
	if reader == nil || reader.isListing.Load() || reader.lock == nil {
		return source, false
	}
	return reader.source, true
}

// enqueueUnservedNote enqueues a note for the thread of a message: no poller serves the
// question or session that the message is for. Each sender gets one in a thread.
func (p *Poller) enqueueUnservedNote(in *state.Incoming, source configSource) {
	err := p.enqueue(&state.Message{
		ID:         state.MessageID("unserved", in.ThreadName, in.Sender),
		Type:       state.MessageNote,
		Parts:      []string{wording.UnservedText},
		ProjectDir: source.projectDir,
		IsTrusted:  source.isTrusted,
		Chat:       in.Chat,
		ThreadName: in.ThreadName,
		IsUrgent:   true,
		CreatedAt:  p.Now().UTC(),
	})
	if err == nil {
		err = p.finishIncoming(in, state.OutcomeNobody)
	}
	p.Log.ErrorOnce(err, "note not enqueued: no poller serves what a message is for")
}

// An address is what an incoming message may be for.
type address struct {
	record        *trackedRecord   // the question that it may answer; nil for none
	session       *state.Session   // the session whose thread it is in; nil for none
	threadRecords []*trackedRecord // the questions of its thread
}

// findAddress finds what a message may be for. A message that quotes a question counts as
// written in that question's thread.
func (p *Poller) findAddress(in *state.Incoming) (to address) {
	to.record = p.quotedRecord(in)
	thread := in.ThreadName
	if to.record != nil {
		thread = to.record.question.ThreadName
	}
	to.threadRecords, to.session = p.recordsInThread(in.Chat, thread), p.sessionsByThread[thread]
	if to.record == nil {
		to.record = p.targetRecord(in, to.threadRecords, to.session)
	}
	return to
}

// route decides what an incoming message is: a reply to a question, a prompt or a command
// for a session, the start of a new session, or nothing.
func (p *Poller) route(ctx context.Context, in *state.Incoming) destination {
	if in.IsTap() {
		return p.routeTap(in)
	}
	to := p.findAddress(in)
	owner := p.ownerEnvironment(in, to)
	isUnknown := to.record == nil && to.session == nil && len(to.threadRecords) == 0
	isOthersEvent := in.EventID != "" && p.puller.subscription == ""
	switch {
	case owner != p.environment:
		return destination{kind: toOtherEnvironment, environment: owner}
	case isUnknown && isOthersEvent: // the poller that pulled it knows the app
		return destination{kind: toOtherEnvironment}
	case p.asksForNewSession(ctx, in, to.record, to.session, len(to.threadRecords) > 0):
		return destination{kind: toNewSession}
	case p.asksForSessionList(ctx, in, to):
		return destination{kind: toSessionList}
	}
	addressed := p.addressedSession(in, to.record, to.session)
	if addressed != nil && slices.Contains(p.ownSessions, addressed) {
		canTake, isSilent := p.canSessionTake(in, addressed, to.record)
		switch {
		case canTake:
			return destination{kind: toSession, session: addressed}
		case isSilent:
			return destination{kind: toNobody}
		}
	}
	switch {
	case isUnknown && p.Now().Sub(in.ReadAt).Abs() < undecidedTimeout:
		return destination{kind: toUndecided}
	case to.record == nil:
		return destination{kind: toNobody, session: to.session}
	case p.isForUndecidedWait(in, to.record):
		return destination{kind: toUndecided}
	}
	return destination{kind: toQuestion, record: to.record}
}

// canBeClaimed reports whether another environment's poller may still come for a message
// to its session. The session has to be running. That poller has a minute. It has longer
// where the sender may not answer: then this poller may send the sender no note. Whether
// a session of another machine runs, this machine cannot see: only its own poller decides.
func (p *Poller) canBeClaimed(in *state.Incoming, session *state.Session) bool {
	if session.IsRunning() && inject.IsElsewhere(session.ClaudeStart) {
		return true
	}
	isLong := p.Now().Sub(in.ReadAt).Abs() >= undecidedTimeout
	cfg := p.loadConfig(configSource{session.ProjectDir, session.IsTrusted})
	return p.canTakeCommands(session) && (!isLong || !cfg.CanAnswer(in.Sender, in.SenderEmail))
}

// ownerEnvironment returns the environment whose poller decides what a message is. Where
// no poller of a session's environment runs, this one answers in the session's thread.
func (p *Poller) ownerEnvironment(in *state.Incoming, to address) (environment string) {
	switch {
	case to.record != nil:
		return to.record.Environment
	case to.session != nil && (!p.hasNoPoller(to.session) || p.canBeClaimed(in, to.session)):
		return to.session.Environment
	}
	return p.environment
}

// isForUndecidedWait reports whether the poller cannot tell yet if a message is for the
// process that waits for a reply in its thread. As long as needsStart holds, the end of
// the list that brought the message decides. Where the waiting process was killed, the
// message stays for the next process that waits there.
func (p *Poller) isForUndecidedWait(in *state.Incoming, record *trackedRecord) bool {
	q := record.question
	if needsStart(q) && in.EventID == "" {
		return true
	}
	isOpenWait := !q.Mode.Traits().Asks && q.Status == state.Pending
	isOld := p.Now().Sub(q.AskedAt).Abs() >= graceForHook
	return isOpenWait && isOld && !state.HasWaiter(p.Env, record.Path)
}

// recordOfCard returns the question whose card has an id, as of the last scan, or nil.
// Goroutines other than the loop may call it.
func (p *Poller) recordOfCard(card string) *trackedRecord {
	if cards := p.recordsByCard.Load(); cards != nil {
		return (*cards)[card]
	}
	return nil
}

// routeTap decides what a tap is for. A tap counts only on its question's own card:
// everyone in the space can read what a button carries, and put it on another card.
func (p *Poller) routeTap(in *state.Incoming) destination {
	record := p.recordOfCard(in.Tap.CardID)
	isOnOwnCard := record != nil && record.question != nil && in.MessageName != "" &&
		in.MessageName == record.question.MessageName
	switch {
	case isOnOwnCard:
		if record.Environment != p.environment {
			return destination{kind: toOtherEnvironment, environment: record.Environment}
		}
		return destination{kind: toQuestion, record: record}
	case p.puller.subscription == "":
		return destination{kind: toOtherEnvironment}
	case in.Tap.HadButton && p.Now().Sub(in.ReadAt).Abs() < undecidedTimeout:
		// the receipt of its card may not be written yet
		return destination{kind: toUndecided}
	}
	return destination{kind: toNobody}
}

// recordsInThread returns the questions of a thread, the oldest first.
func (p *Poller) recordsInThread(chat, thread string) (records []*trackedRecord) {
	for record := range p.allRecords() {
		q := record.question
		if q == nil || thread == "" || q.Chat != chat {
			continue
		}
		if q.ThreadName == thread || slices.Contains(q.FormerThreads, thread) {
			records = append(records, record)
		}
	}
	return sortOldestFirst(records)
}

func questionsOf(records []*trackedRecord) (questions []*state.Question) {
	for _, record := range records {
		questions = append(questions, record.question)
	}
	return questions
}

// quotedRecord returns the question whose message a person quotes, or nil.
func (p *Poller) quotedRecord(in *state.Incoming) *trackedRecord {
	if in.QuotedMessage == "" {
		return nil
	}
	for record := range p.allRecords() {
		if record.question != nil && record.question.Chat == in.Chat &&
			record.question.MessageName == in.QuotedMessage {
			return record
		}
	}
	return nil
}

// targetRecord returns the question of a thread that a message belongs to, or nil. Each
// question of ours has its own thread. Other programs may post several questions into one
// thread, and processes may wait for a reply there. A reply is for the oldest record that
// it can answer. Where it can answer none, it is for a process for which needsStart
// holds. The record of a process that has stopped waiting keeps only the reply that it
// has.
func (p *Poller) targetRecord(
	in *state.Incoming,
	records []*trackedRecord,
	session *state.Session,
) *trackedRecord {
	var waiting, closed *trackedRecord
	// A yes or a no is meant for the dialog in the terminal of the thread's session.
	isForDialog := session != nil && session.Dialog != nil && wording.IsDecision(in.Text)
	for _, record := range records {
		if record.question.FindReply(in.ReplyName()) != nil {
			return record // it has the reply already
		}
	}
	for _, record := range records {
		q := record.question
		switch {
		case q.Kind.Traits().IsPrompt: // it takes one reply; any other message is a prompt
			isWaiting := q.Status == state.Pending && !q.HasUnreadReply() && q.PostedAt != nil
			if isWaiting && !in.CreatedAt.Before(*q.PostedAt) && !isForDialog {
				return record
			}
		case needsStart(q):
			waiting = cmp.Or(waiting, record)
		case !q.Mode.Traits().Asks:
			if q.Status == state.Pending && !in.CreatedAt.Before(*q.PostedAt) {
				return record
			}
		case q.IsAnswerable():
			return record
		default:
			closed = cmp.Or(closed, record)
		}
	}
	return cmp.Or(waiting, closed)
}

// addressedSession returns the session that a person writes to, or nil. It is the session
// whose thread the message is in. For a command of ours in a question's thread, it is the
// session that asked the question.
func (p *Poller) addressedSession(
	in *state.Incoming,
	record *trackedRecord,
	session *state.Session,
) *state.Session {
	if session != nil || record == nil || !wording.IsOwnCommand(in.Text) {
		return session
	}
	sessionID := record.question.ClaudeSession()
	i := slices.IndexFunc(p.sessions, func(other *state.Session) bool {
		return other.ID == sessionID
	})
	if i < 0 {
		return nil
	}
	return p.sessions[i]
}

// canSessionTake reports whether a message goes to a session: a command, or a prompt that
// no question of that thread is to get. isSilent means that the message gets no note: it
// is an old command that was done, or, in the session's own thread, a command of a person
// who may give none.
func (p *Poller) canSessionTake(
	in *state.Incoming,
	session *state.Session,
	record *trackedRecord,
) (canTake, isSilent bool) {
	text, cfg := promptText(in), p.loadPersonalConfig()
	isCommand := strings.HasPrefix(text, "/")
	isEarly := in.LocalCreatedAt.Before(commands.AcceptsFrom(session))
	isInSessionThread := in.ThreadName == session.ThreadName
	canResume := func() bool {
		return !isCommand && cfg.CanStartSessions && p.canResume(session)
	}
	switch {
	case record != nil && record.question.FindReply(in.ReplyName()) != nil:
		return false, false
	case record != nil && !isCommand && !p.followsClaudeCommand(session, record):
		return false, false
	case session.Chat != in.Chat, text == "" && len(in.Files) == 0, !isCommand && isEarly:
		return false, false
	case isCommand && session.IsOldCommandDone(in.MessageName, in.CreatedAt):
		return false, true
	case commands.HasMovedOn(state.SessionsIn(p.userStateDir), session):
		return false, false
	case !p.canTakeCommands(session) && !canResume():
		return false, false
	case !cfg.HasUnreadFile && !cfg.CanApprove(in.Sender, in.SenderEmail):
		return false, isCommand && isInSessionThread
	}
	return true, false
}

// followsClaudeCommand reports whether one of Claude Code's own commands still waits to
// be typed into a session. A later message is then no reply to a "next instruction"
// question that was asked before the command.
func (p *Poller) followsClaudeCommand(session *state.Session, record *trackedRecord) bool {
	return record.question.Kind.Traits().IsPrompt && commands.HasUntypedCommand(
		session,
		p.routedBySession[session.ID],
		p.loadPersonalConfig().ClaudeCommands,
	)
}

// promptText returns what a person wrote, in a form that Claude may get.
func promptText(in *state.Incoming) string {
	return strings.TrimSpace(state.Clean(state.ForAgent, in.Text))
}

// asksForNewSession reports whether a message asks for a new session, and its sender may
// do that. It can stand in a thread of ours, be sent to the app, or be written on the
// page.
func (p *Poller) asksForNewSession(
	ctx context.Context,
	in *state.Incoming,
	record *trackedRecord,
	session *state.Session,
	isOurs bool,
) bool {
	id := commands.NewSessionID(in.MessageName)
	if slices.ContainsFunc(p.sessions, func(other *state.Session) bool { return other.ID == id }) {
		return true // a poller that was killed has started it
	}
	cfg := p.loadPersonalConfig()
	canStart := cfg.CanStartSessions && cfg.AccessTo(state.KindPrompt, "").CanAsk &&
		cfg.CanApprove(in.Sender, in.SenderEmail)
	isReply := record != nil && record.question.FindReply(in.ReplyName()) != nil
	if !wording.IsNewCommand(in.Text) || !canStart || isReply {
		return false
	}
	if isOurs || session != nil {
		return true
	}
	if in.EventID == "" {
		return gchat.IsLocalChat(in.Chat)
	}
	events := p.gatewayFor(ctx, configSource{projectDir: p.userStateDir}).eventSource()
	isNamed := strings.EqualFold(commands.TargetOfNew(in.Text), state.MachineName())
	return events != nil && events.Chat() == in.Chat && (!events.IsShared() || isNamed)
}

// handleIncoming hands a message to its destination. If the poller is killed meanwhile,
// the next one routes the message once more, and each step finds what is done already.
func (p *Poller) handleIncoming(ctx context.Context, in *state.Incoming, target destination) error {
	switch target.kind {
	case toQuestion:
		return p.addReply(in, target.record)
	case toSession:
		if promptText(in) == "" && state.FileLines(in.Files) == "" {
			return p.refuseUnfetched(in, target.session)
		}
		return p.assignToSession(in, target.session.ID, promptText(in))
	case toNewSession:
		return p.assignToNewSession(in)
	case toSessionList:
		return p.enqueueSessionList(in)
	}
	return p.answerUnaddressed(ctx, in, target.session)
}

func (p *Poller) finishIncoming(in *state.Incoming, outcome state.Outcome) error {
	return state.InboxIn(p.userStateDir).Finish(in, outcome, p.Now())
}

// addReply writes a reply into its question. Where a process waits for the reply,
// addReply judges it in the same write. Otherwise the loop judges it: the loop knows the
// panes.
func (p *Poller) addReply(in *state.Incoming, record *trackedRecord) error {
	judging, reply := p.judgingConfigOf(record, record.question), in.AsReply()
	if !in.IsTap() {
		reply.IsUnsure = judge.IsAmbiguous(
			record.question,
			questionsOf(p.recordsInThread(in.Chat, record.question.ThreadName)),
			in,
		)
	}
	isNew := false
	q, err := state.ChangeQuestion(record.Path, func(q *state.Question) {
		if in.IsTap() {
			tap := &wording.Tap{Choice: in.Tap.Choice, Inputs: in.Tap.Inputs}
			_, text, _ := wording.ReadTap(q, tap)
			reply.Text = cmp.Or(text, in.Tap.Choice)
		}
		if needsStart(q) {
			// Events bring none of our own messages, so no list sets from when on a reply
			// counts. A message from the minute before the wait may have been held back
			// for it. It counts.
			q.PostedAt = new(q.AskedAt.Add(-undecidedTimeout))
		}
		isNew = judge.ReviseReply(q, in) ||
			!in.IsRevoked && judge.AddReply(q, reply, judging.forbids(q, in.Sender, in.SenderEmail))
		if isNew && (state.HasWaiter(p.Env, q.Path) || !q.IsAnswerable()) {
			p.judgeReplies(record, q, judging)
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write reply: %w", err)
	}
	if isNew && err == nil {
		record.question, record.isDone = q, false
	}
	return p.finishIncoming(in, state.OutcomeReply)
}

// assignToSession marks a message as routed to a session. A goroutine beside the loop
// carries out its commands.
func (p *Poller) assignToSession(in *state.Incoming, sessionID, text string) error {
	stored, err := state.InboxIn(p.userStateDir).Change(in.ID, func(in *state.Incoming) {
		if in.Status == state.IncomingNew {
			in.Status, in.SessionID, in.Text = state.IncomingRouted, sessionID, text
			if !in.IsCommand() {
				in.TellFiles()
			}
		}
	})
	if err == nil {
		p.routedBySession[sessionID] = append(p.routedBySession[sessionID], stored)
	}
	return err
}

// assignToNewSession starts the session that a person asks for. The session's id is made
// from the message's name, so one message starts one session.
func (p *Poller) assignToNewSession(in *state.Incoming) error {
	session, text, err := p.commandRunner().CreateSession(in)
	switch {
	case err != nil:
		return err
	case session == nil:
		return p.finishIncoming(in, state.OutcomeCommand)
	}
	return p.assignToSession(in, session.ID, wording.Cut(text, wording.MaxText))
}

// refuseUnfetched finishes a message that has files but no text, where no file could be
// fetched. A note in the thread names the reasons.
func (p *Poller) refuseUnfetched(in *state.Incoming, session *state.Session) error {
	noteID := state.MessageID("nobody", in.MessageName)
	text := wording.UnfetchedText(state.FileProblems(in.Files))
	err := p.commandRunner().EnqueueNote(session, noteID, text)
	if err != nil {
		return err
	}
	return p.finishIncoming(in, state.OutcomeNobody)
}

// answerUnaddressed finishes a message that no question and no session takes. Where its
// sender may answer, they get one note about it.
func (p *Poller) answerUnaddressed(
	ctx context.Context,
	in *state.Incoming,
	session *state.Session,
) error {
	isBusy := false
	switch {
	case in.IsRevoked:
	case session != nil && cmp.Or(session.Chat, in.Chat) == in.Chat:
		cfg := p.loadConfig(configSource{session.ProjectDir, session.IsTrusted})
		if in.Sender == "" || !cfg.CanAnswer(in.Sender, in.SenderEmail) {
			break
		}
		runner := p.commandRunner()
		noteID := state.MessageID("nobody", in.MessageName)
		err := runner.EnqueueNote(session, noteID, runner.NotTakenText(session))
		if err != nil {
			return err
		}
	case in.EventID != "" && len(p.recordsInThread(in.Chat, in.ThreadName)) == 0 || in.IsTap():
		isBusy = p.answerUnbound(ctx, in)
	}
	if isBusy {
		return nil
	}
	return p.finishIncoming(in, state.OutcomeNobody)
}

// answerUnbound answers a tap, or a message to the app, that belongs to no record here.
// Chat has to be asked whether the message concerns another machine. A goroutine does
// that and finishes the message; isBusy reports whether it runs.
func (p *Poller) answerUnbound(ctx context.Context, in *state.Incoming) (isBusy bool) {
	events := p.gatewayFor(ctx, configSource{projectDir: p.userStateDir}).eventSource()
	if events == nil || events.Chat() != in.Chat ||
		!p.loadPersonalConfig().CanAnswer(in.Sender, in.SenderEmail) {
		return false
	}
	_, isAsked := p.inProgress.LoadOrStore(in.ID, true)
	if isAsked {
		return true
	}
	canStart := p.canStartSessions
	p.runInBackground("unbound message", func() {
		defer p.inProgress.Delete(in.ID)
		err := error(nil)
		if text := p.unboundText(ctx, events, in, canStart); text != "" {
			err = p.enqueueEventNote(events, in, text)
		}
		if err == nil && ctx.Err() == nil {
			err = p.finishIncoming(in, state.OutcomeNobody)
		}
		p.Log.ErrorOnce(err, "note not enqueued")
	})
	return true
}

// unboundText returns the note for a person whose message belongs to no record here; ""
// for none.
func (p *Poller) unboundText(
	ctx context.Context,
	events eventSource,
	in *state.Incoming,
	canStart bool,
) string {
	switch {
	case in.IsTap():
		card := gchat.Message{Name: in.MessageName, ClientID: in.CardClientID}
		hasButton, err := events.HasButtonOf(ctx, card, in.Tap.CardID)
		if in.Tap.HadButton && err == nil && !hasButton {
			return "" // another machine has used the tap and removed the button
		}
		return wording.OldCardText
	case wording.IsNewCommand(in.Text) && canStart:
		return p.whichMachineText(ctx, events, in)
	case in.FirstThreadMessage != "":
		canAnswer, err := events.CanAnswerFor(ctx, in.FirstThreadMessage)
		if !canAnswer {
			p.Log.ErrorOnce(err, "cannot tell which machine a message is for")
			return ""
		}
	}
	return wording.UnboundText
}

// whichMachineText returns a note that asks which machine is to start a session. It is
// empty where a note says that the named machine has started it. Behind a hub no machine
// sees another one's notes. There this machine asks only where the message names no
// target, or where its first word is a project of this machine.
func (p *Poller) whichMachineText(
	ctx context.Context,
	events eventSource,
	in *state.Incoming,
) string {
	name := commands.TargetOfNew(in.Text)
	_, err := events.Find(ctx, commands.NewSessionNoteID(in.MessageName, name), time.Time{})
	if !gchat.IsPermanent(err) { // the session was started, or the search failed
		p.Log.ErrorOnce(err, "cannot tell whether a session was started")
		return ""
	}
	if events.CanFindOthers() || name == "" || p.commandRunner().NamesProject(in.Text) {
		return wording.NameMachineText()
	}
	return ""
}

// enqueueEventNote enqueues a note about a person's message or tap. Only that person sees
// it, where Chat can do that. The note's id is made from the event, so it is posted once,
// even if several machines get the event.
func (p *Poller) enqueueEventNote(events eventSource, in *state.Incoming, text string) error {
	return p.enqueue(&state.Message{
		ID:         gchat.OnceID(state.MessageID("event", in.EventID)),
		Type:       state.MessageNote,
		Parts:      []string{text},
		ProjectDir: p.userStateDir,
		Chat:       events.Chat(),
		ThreadName: in.ThreadName,
		Viewer:     in.Sender,
		IsUrgent:   true,
		CreatedAt:  p.Now().UTC(),
	})
}
