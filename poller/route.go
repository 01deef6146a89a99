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
	"gchat-hooks/poller/commands"
	"gchat-hooks/poller/judge"
	"gchat-hooks/state"
)

// undecidedTimeout is how long a message waits that no record here knows. It may be for
// another machine of the app, or for a question that is just being posted: the receipt of
// a post may come after the reply to it.
const undecidedTimeout = time.Minute

// A destination is what an incoming message is for.
type destination struct {
	kind    destinationKind
	record  *trackedRecord
	session *state.Session
	// environment is whose poller decides what it is; "" where that is the one which
	// pulls.
	environment string
}

type destinationKind int

const (
	toNobody           destinationKind = iota
	toQuestion                         // a reply
	toSession                          // words or a command
	toNewSession                       // it begins one
	toOtherEnvironment                 // another environment's poller decides what it is
	toUndecided                        // it is not known yet
)

// readInbox reads the messages that are not done, in the order in which they were
// written.
func (p *Poller) readInbox() {
	p.updateReadUntil() // before: what was read by then is in the inbox
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
		if err == nil && in != nil && in.ID == name { // a copy under another name is none of ours
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

// hasUndecided says whether something that was read in a chat is not decided yet. What
// only another environment decides counts for a minute: its poller may never come.
func (p *Poller) hasUndecided(chat string) bool {
	return slices.ContainsFunc(p.incoming, func(in *state.Incoming) bool {
		isLeft := p.decidedElsewhere[in.ID] && p.Now().Sub(in.ReadAt).Abs() >= undecidedTimeout
		return in.Chat == chat && in.Status == state.IncomingNew && !isLeft
	})
}

// routeAll decides what each new message is, and has it go there. A message that has to
// wait holds back the later ones of its thread, but for one that another environment
// decides.
func (p *Poller) routeAll(ctx context.Context) (next time.Time, hasWork bool) {
	p.decidedElsewhere = map[string]bool{}
	isNew := func(in *state.Incoming) bool { return in.Status == state.IncomingNew }
	if !slices.ContainsFunc(p.incoming, isNew) {
		return time.Time{}, false
	}
	isHeldBack := map[string]bool{}
	for _, in := range p.incoming {
		thread := in.Chat + " " + in.ThreadName
		canOvertake := in.IsTap() || wording.OurCommand(in.Text)
		if !isNew(in) || isHeldBack[thread] && !canOvertake {
			continue
		}
		target := destination{kind: toUndecided}
		p.runSafely("route", func() { target = p.route(ctx, in) })
		switch target.kind {
		case toOtherEnvironment:
			p.decidedElsewhere[in.ID] = true
			dueAt := p.leaveToOtherEnvironment(in, target.environment)
			next, hasWork = earlier(next, dueAt), hasWork || !dueAt.IsZero()
			continue
		case toUndecided:
			isHeldBack[thread] = true
			next, hasWork = earlier(next, p.Now().Add(time.Second)), true
			continue
		}
		err := p.handleIncoming(ctx, in, target)
		if err != nil {
			p.Log.ErrorOnce(err, "what a person wrote is not used yet")
			isHeldBack[thread] = true
			next, hasWork = earlier(next, p.Now().Add(time.Second)), true
		}
	}
	return next, hasWork
}

// callWindow is how long after a message was read another environment's poller is called
// for it.
const callWindow = 5 * time.Second

// leaveToOtherEnvironment has another environment's poller decide what a message is.
// Where none comes, the poller that reads the message's space tells of that. It returns
// when it has to look again.
func (p *Poller) leaveToOtherEnvironment(
	in *state.Incoming,
	environment string,
) (retryAt time.Time) {
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

// readerSource says whether this process reads the space of a message, and by whose
// configuration.
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

// enqueueUnservedNote tells the thread of a message, once for each sender, that nothing
// serves what the message is for.
func (p *Poller) enqueueUnservedNote(in *state.Incoming, source configSource) {
	err := p.isNew(&state.Message{
		ID: state.MessageID("unserved", in.ThreadName, in.Sender), Type: state.MessageNote,
		Parts: []string{
			wording.UnservedText,
		}, ProjectDir: source.projectDir, IsTrusted: source.isTrusted,
		Chat: in.Chat, ThreadName: in.ThreadName, IsUrgent: true, CreatedAt: p.Now().UTC(),
	})
	if err == nil {
		err = p.finishIncoming(in, state.OutcomeNobody)
	}
	p.Log.ErrorOnce(err, "not told that nothing serves what a message is for")
}

// An address is what an incoming message may be for.
type address struct {
	record        *trackedRecord   // the question that it may answer; nil for none
	session       *state.Session   // whose thread it is in; nil for none
	threadRecords []*trackedRecord // the questions of its thread
}

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

// route decides what an incoming message is: a reply to a question, words or a command
// for a session, the beginning of a new session, or nothing.
func (p *Poller) route(ctx context.Context, in *state.Incoming) destination {
	if in.IsTap() {
		return p.routeTap(in)
	}
	to := p.findAddress(in)
	owner := p.ownerEnvironment(in, to)
	isUnknown := to.record == nil && to.session == nil && len(to.threadRecords) == 0
	switch {
	case owner != p.environment:
		return destination{kind: toOtherEnvironment, environment: owner}
	case isUnknown && in.EventID != "" && p.puller.subscription == "": // who took it knows the app
		return destination{kind: toOtherEnvironment}
	case p.asksForNewSession(ctx, in, to.record, to.session, len(to.threadRecords) > 0):
		return destination{kind: toNewSession}
	}
	addressed := p.addressedSession(in, to.record, to.session)
	if addressed != nil && slices.Contains(p.ownSessions, addressed) {
		canTake, isSilent := p.canSessionTake(in, addressed, to.record, to.threadRecords)
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

// canBeClaimed says whether another environment's poller may still come for what was said
// to its session, which lives: for a minute, and for as long as this one may tell its
// sender nothing.
func (p *Poller) canBeClaimed(in *state.Incoming, session *state.Session) bool {
	isLong := p.Now().Sub(in.ReadAt).Abs() >= undecidedTimeout
	cfg := p.loadConfig(configSource{session.ProjectDir, session.IsTrusted})
	return p.canTakeCommands(session) && (!isLong || !cfg.CanAnswer(in.Sender, in.SenderEmail))
}

// ownerEnvironment is the environment whose poller decides what a message is. Where a
// session's does not run any more, the session's thread is told by this one.
func (p *Poller) ownerEnvironment(in *state.Incoming, to address) (environment string) {
	switch {
	case to.record != nil:
		return to.record.Environment
	case to.session != nil && (!p.hasNoPoller(to.session) || p.canBeClaimed(in, to.session)):
		return to.session.Environment
	}
	return p.environment
}

// isForUndecidedWait says whether it is not known yet if a message is for the process
// that waits in its thread: the list that it came with says whether it counts, and of a
// process that was killed, it is for the next one.
func (p *Poller) isForUndecidedWait(in *state.Incoming, record *trackedRecord) bool {
	if needsStart(record.question) && in.EventID == "" {
		return true
	}
	isOld := p.Now().Sub(record.question.AskedAt).Abs() >= graceForHook
	return !record.question.Mode.Traits().Asks && record.question.Status == state.Pending &&
		isOld &&
		!state.HasWaiter(p.Env, record.Path)
}

// recordOfCard is the question with the card that a button is on, as of the last scan;
// nil for none. It may be called beside the loop.
func (p *Poller) recordOfCard(card string) *trackedRecord {
	if cards := p.recordsByCard.Load(); cards != nil {
		return (*cards)[card]
	}
	return nil
}

// routeTap has a tap count on the very card of its question alone. What a card's buttons
// carry can be read by all in the space, and put on another card.
func (p *Poller) routeTap(in *state.Incoming) destination {
	record := p.recordOfCard(in.Tap.CardID)
	switch {
	case record != nil && record.question != nil && in.MessageName != "" && in.MessageName == record.question.MessageName:
		if record.Environment != p.environment {
			return destination{kind: toOtherEnvironment, environment: record.Environment}
		}
		return destination{kind: toQuestion, record: record}
	case p.puller.subscription == "":
		return destination{kind: toOtherEnvironment}
	case in.Tap.HadButton && p.Now().Sub(in.ReadAt).Abs() < undecidedTimeout:
		// its card may be just being posted
		return destination{kind: toUndecided}
	}
	return destination{kind: toNobody}
}

// recordsInThread are the questions of a thread, the oldest first.
func (p *Poller) recordsInThread(chat, thread string) (records []*trackedRecord) {
	for record := range p.allRecords() {
		isIn := record.question != nil && thread != "" && record.question.Chat == chat &&
			(record.question.ThreadName == thread || slices.Contains(record.question.FormerThreads, thread))
		if isIn {
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

// quotedRecord is the question whose message a person quotes; nil for none.
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

// targetRecord is the question of a thread that a message belongs to; nil for none. Ours
// have a thread each. Other programs may put several questions into one, and processes
// may wait in it: a reply is for the oldest that it can answer, and for a process that
// began to wait when it can answer none. A process that ended keeps only the reply that
// it took.
func (p *Poller) targetRecord(
	in *state.Incoming,
	records []*trackedRecord,
	session *state.Session,
) *trackedRecord {
	var waiting, closed *trackedRecord
	// A yes or a no is meant for a dialog that stands in the terminal of the thread's
	// session.
	isForDialog := session != nil && session.Dialog != nil && wording.IsDecision(in.Text)
	for _, record := range records {
		if record.question.FindReply(in.ReplyName()) != nil { // it stands there already
			return record
		}
	}
	for _, record := range records {
		q := record.question
		switch {
		case q.Kind.Traits().IsPrompt: // one reply; what is said besides is said to Claude
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

// addressedSession is the session that a person writes to: the one whose thread it is,
// or, with a command of ours, the one that asked the question of the thread.
func (p *Poller) addressedSession(
	in *state.Incoming,
	record *trackedRecord,
	session *state.Session,
) *state.Session {
	if session != nil || record == nil || !wording.OurCommand(in.Text) {
		return session
	}
	i := slices.IndexFunc(
		p.sessions,
		func(other *state.Session) bool { return other.ID == record.question.ClaudeSession() },
	)
	if i < 0 {
		return nil
	}
	return p.sessions[i]
}

// canSessionTake says whether a session takes a message: a command, or words for Claude
// where no question in that thread is to get them. A command of somebody who may give
// none is not answered in the session's own thread.
func (p *Poller) canSessionTake(in *state.Incoming, session *state.Session, record *trackedRecord,
	records []*trackedRecord) (canTake, isSilent bool) {
	text, cfg := promptText(in), p.loadPersonalConfig()
	isCommand := strings.HasPrefix(text, "/")
	isLate := in.LocalCreatedAt.Before(commands.AcceptsFrom(session))
	// in a question's thread, which asks back who may not
	isElsewhere := in.ThreadName != session.ThreadName
	switch {
	case record != nil && record.question.FindReply(in.ReplyName()) != nil:
		return false, false
	case record != nil && !isCommand && !p.followsClaudeCommand(session, record):
		return false, false
	case session.Chat != in.Chat, text == "", !isCommand && isLate:
		return false, false
	case isCommand && session.IsOldCommandDone(in.MessageName, in.CreatedAt):
		return false, true
	case commands.HasMovedOn(state.SessionsIn(p.userStateDir), session):
		return false, false
	case !p.canTakeCommands(session) && (isCommand || !p.canResume(session) || !cfg.CanStartSessions):
		return false, false
	case !cfg.HasUnreadFile && !cfg.CanApprove(in.Sender, in.SenderEmail):
		return false, isCommand && !isElsewhere
	}
	return true, false
}

// followsClaudeCommand says whether words in a thread come after one of Claude Code's own
// commands that is not typed yet: then they are no reply to what waited before that.
func (p *Poller) followsClaudeCommand(session *state.Session, record *trackedRecord) bool {
	if !record.question.Kind.Traits().IsPrompt {
		return false
	}
	return commands.HasUntypedCommand(
		session,
		p.routedBySession[session.ID],
		p.loadPersonalConfig().ClaudeCommands,
	)
}

// promptText is what a person wrote as Claude may get it.
func promptText(in *state.Incoming) string {
	return strings.TrimSpace(state.Clean(state.ForAgent, in.Text))
}

// asksForNewSession says whether a person who may asks for a new session: in a thread of
// ours, to the app, or on the page.
func (p *Poller) asksForNewSession(ctx context.Context, in *state.Incoming, record *trackedRecord,
	session *state.Session, isOurs bool) bool {
	id := commands.NewSessionID(in.MessageName)
	if slices.ContainsFunc(p.sessions, func(other *state.Session) bool { return other.ID == id }) {
		return true // it was begun, by a poller that was killed
	}
	cfg := p.loadPersonalConfig()
	canStart := cfg.CanStartSessions && cfg.AccessTo(state.KindPrompt, "").CanAsk &&
		cfg.CanApprove(in.Sender, in.SenderEmail)
	isReply := record != nil && record.question.FindReply(in.ReplyName()) != nil
	if !wording.IsNew(in.Text) || !canStart || isReply {
		return false
	}
	if isOurs || session != nil {
		return true
	}
	if in.EventID == "" {
		return gchat.Local(in.Chat)
	}
	events := p.gatewayFor(ctx, configSource{projectDir: p.userStateDir}).eventSource()
	isNamed := strings.EqualFold(commands.TargetOfNew(in.Text), state.MachineName())
	return events != nil && events.Chat() == in.Chat && (!events.IsShared() || isNamed)
}

// handleIncoming has a message go where it belongs. Killed in between, it is routed once
// more, and each step finds what is done.
func (p *Poller) handleIncoming(ctx context.Context, in *state.Incoming, target destination) error {
	switch target.kind {
	case toQuestion:
		return p.addReply(in, target.record)
	case toSession:
		return p.assignToSession(in, target.session.ID, promptText(in))
	case toNewSession:
		return p.assignToNewSession(in)
	}
	return p.answerUnaddressed(ctx, in, target.session)
}

func (p *Poller) finishIncoming(in *state.Incoming, outcome state.Outcome) error {
	return state.InboxIn(p.userStateDir).Finish(in, outcome, p.Now())
}

// addReply writes a reply into its question. Where a process waits for it, it is judged
// in the same write; otherwise the loop judges, which knows of panes.
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
			// no message of ours comes with events: what was said before was kept for it
			q.PostedAt = new(q.AskedAt.Add(-undecidedTimeout))
		}
		isNew = judge.ReviseReply(q, in) ||
			!in.IsRevoked && judge.AddReply(q, reply, judging.forbids(q, in.Sender, in.SenderEmail))
		if isNew && (state.HasWaiter(p.Env, q.Path) || !q.IsAnswerable()) {
			p.judgeReplies(record, q, judging)
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reply not written down: %w", err)
	}
	if isNew && err == nil {
		record.question, record.isDone = q, false
	}
	return p.finishIncoming(in, state.OutcomeReply)
}

// assignToSession leaves a message to a session, whose commands are done beside the loop.
func (p *Poller) assignToSession(in *state.Incoming, sessionID, text string) error {
	stored, err := state.InboxIn(p.userStateDir).Change(in.ID, func(in *state.Incoming) {
		if in.Status == state.IncomingNew {
			in.Status, in.SessionID, in.Text = state.IncomingRouted, sessionID, text
		}
	})
	if err == nil {
		p.routedBySession[sessionID] = append(p.routedBySession[sessionID], stored)
	}
	return err
}

// assignToNewSession begins the session that a person asks for, once: its id is made of
// the message.
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

// answerUnaddressed tells a person, once, what became of what nothing took.
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
		err := p.commandRunner().
			EnqueueNote(session, state.MessageID("nobody", in.MessageName), p.commandRunner().NotTakenText(session))
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

// answerUnbound tells a person what became of what they wrote to the app, or tapped, and
// no record here knows. It reports whether that goes on beside the loop, since Chat has
// to be asked whether another machine is concerned.
func (p *Poller) answerUnbound(ctx context.Context, in *state.Incoming) (goesOn bool) {
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
	p.runInBackground("unbound words", func() {
		defer p.inProgress.Delete(in.ID)
		err := error(nil)
		if text := p.unboundText(ctx, events, in, canStart); text != "" {
			err = p.enqueueEventNote(events, in, text)
		}
		if err == nil && ctx.Err() == nil {
			err = p.finishIncoming(in, state.OutcomeNobody)
		}
		p.Log.ErrorOnce(err, "note not put into the outbox")
	})
	return true
}

// unboundText is what a person is told of what no record here knows; "" for nothing.
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
			return "" // another machine used it meanwhile
		}
		return wording.OldCardText
	case wording.IsNew(in.Text) && canStart:
		return p.whichMachineText(ctx, events, in)
	case in.FirstThreadMessage != "":
		canAnswer, err := events.CanAnswerFor(ctx, in.FirstThreadMessage)
		if !canAnswer {
			p.Log.ErrorOnce(err, "not known whose words these are")
			return ""
		}
	}
	return wording.UnboundText
}

// whichMachineText asks which machine is to begin a session, unless the one that was
// named has told of it. Behind a hub no machine sees what another one tells: there the
// answer is given where the first word is a project of this machine, or there is none.
func (p *Poller) whichMachineText(
	ctx context.Context,
	events eventSource,
	in *state.Incoming,
) string {
	name := commands.TargetOfNew(in.Text)
	_, err := events.Find(ctx, commands.NewSessionNoteID(in.MessageName, name), time.Time{})
	if !gchat.Permanent(err) { // it was begun, or that is not known
		p.Log.ErrorOnce(err, "not known whether a session was begun")
		return ""
	}
	if events.CanFindOthers() || name == "" || p.commandRunner().NamesProject(in.Text) {
		return wording.NameMachineText()
	}
	return ""
}

// enqueueEventNote tells a person, and only that person where Chat can do that, what
// became of what they did; once, though other machines of theirs may hear it, too.
func (p *Poller) enqueueEventNote(events eventSource, in *state.Incoming, text string) error {
	return p.isNew(&state.Message{
		ID: gchat.OnceID(
			state.MessageID("event", in.EventID),
		), Type: state.MessageNote, Parts: []string{text}, ProjectDir: p.userStateDir,
		Chat: events.Chat(), ThreadName: in.ThreadName, Viewer: in.Sender, IsUrgent: true, CreatedAt: p.Now().UTC(),
	})
}
