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

// undecidedFor is how long a message waits that no record here knows. It may be for another
// machine of the app, or for a question that is just being posted: the receipt of a post may
// come after the reply to it.
const undecidedFor = time.Minute

// A destination is what an incoming message is for.
type destination struct {
	kind     destinationKind
	question *served
	session  *state.Session
	// environment is whose poller decides what it is; "" where that is the one which pulls.
	environment string
}

type destinationKind int

const (
	toNobody     destinationKind = iota
	toQuestion                   // a reply
	toSession                    // words or a command
	toNewSession                 // it begins one
	toOthers                     // another environment's poller decides what it is
	toLater                      // it is not known yet
)

// scanInbox reads the messages that are not done, in the order in which they were written.
func (p *Poller) scanInbox() {
	p.noteReadTo() // before: what was read by then is in the inbox
	inbox := state.InboxIn(p.user)
	names, err := inbox.Names()
	p.Log.ErrorOnce(err, "inbox not read")
	p.incoming, p.routed = nil, map[string][]*state.Incoming{}
	for _, name := range names {
		path := filepath.Join(inbox.Dir, name+".json")
		if !p.inboxFiles.Has(path) && inbox.RemoveFinished(name) {
			continue
		}
		in, err := p.inboxFiles.Load(path, false)
		p.Log.ErrorOnce(err, "incoming message not read")
		if err == nil && in != nil && in.ID == name { // a copy under another name is none of ours
			p.incoming = append(p.incoming, in)
		}
	}
	p.inboxFiles.ForgetUnused()
	slices.SortFunc(p.incoming, (*state.Incoming).Compare)
	for _, in := range p.incoming {
		if in.SessionID != "" {
			p.routed[in.SessionID] = append(p.routed[in.SessionID], in)
		}
	}
}

// isUndecided says whether something that was read in a chat is not decided yet. What only
// another environment decides counts for a minute: its poller may never come.
func (p *Poller) isUndecided(chat string) bool {
	return slices.ContainsFunc(p.incoming, func(in *state.Incoming) bool {
		isLeft := p.ofOthers[in.ID] && p.Now().Sub(in.ReadAt).Abs() >= undecidedFor
		return in.Chat == chat && in.Status == state.IncomingNew && !isLeft
	})
}

// routeAll decides what each new message is, and has it go there. A message that has to wait
// holds back the later ones of its thread, but for one that another environment decides.
func (p *Poller) routeAll(ctx context.Context) (next time.Time, busy bool) {
	p.ofOthers = map[string]bool{}
	isNew := func(in *state.Incoming) bool { return in.Status == state.IncomingNew }
	if !slices.ContainsFunc(p.incoming, isNew) {
		return time.Time{}, false
	}
	isHeldBack := map[string]bool{}
	for _, in := range p.incoming {
		thread := in.Chat + " " + in.ThreadName
		overtakes := in.IsTap() || wording.OurCommand(in.Text)
		if !isNew(in) || isHeldBack[thread] && !overtakes {
			continue
		}
		to := destination{kind: toLater}
		p.safely("route", func() { to = p.route(ctx, in) })
		switch to.kind {
		case toOthers:
			p.ofOthers[in.ID] = true
			at := p.leaveToOthers(in, to.environment)
			next, busy = sooner(next, at), busy || !at.IsZero()
			continue
		case toLater:
			isHeldBack[thread] = true
			next, busy = sooner(next, p.Now().Add(time.Second)), true
			continue
		}
		err := p.deliver(ctx, in, to)
		if err != nil {
			p.Log.ErrorOnce(err, "what a person wrote is not used yet")
			isHeldBack[thread] = true
			next, busy = sooner(next, p.Now().Add(time.Second)), true
		}
	}
	return next, busy
}

// callFor is how long after a message was read another environment's poller is called for it.
const callFor = 5 * time.Second

// leaveToOthers has another environment's poller decide what a message is. Where none comes, the
// poller that reads the message's space tells of that. It returns when it has to look again.
func (p *Poller) leaveToOthers(in *state.Incoming, environment string) (again time.Time) {
	if environment == "" {
		return time.Time{}
	}
	age := p.Now().Sub(in.ReadAt).Abs()
	if age < callFor {
		state.CallPoller(p.Env, environment)
	}
	by, isReader := p.readsBy(in)
	switch {
	case !isReader:
		return time.Time{}
	case age < undecidedFor:
		return in.ReadAt.Add(undecidedFor)
	}
	state.RunWithoutPoller(p.Env, environment, func() { p.tellUnserved(in, by) })
	return time.Time{}
}

// readsBy says whether this process reads the space of a message, and by whose configuration.
func (p *Poller) readsBy(in *state.Incoming) (by configured, reads bool) {
	if in.EventID != "" && p.events.of != "" {
		return configured{projectDir: p.user}, true
	}
	r := p.readers[in.Chat]
	if r == nil || r.busy.Load() || r.lock == nil {
		return by, false
	}
	return r.by, true
}

// tellUnserved tells the thread of a message, once for each sender, that nothing serves what the
// message is for.
func (p *Poller) tellUnserved(in *state.Incoming, by configured) {
	err := p.put(&state.Message{
		ID: state.MessageID("unserved", in.ThreadName, in.Sender), Type: state.MessageNote,
		Parts: []string{wording.UnservedText}, ProjectDir: by.projectDir, IsTrusted: by.trusted,
		Chat: in.Chat, ThreadName: in.ThreadName, IsUrgent: true, CreatedAt: p.Now().UTC(),
	})
	if err == nil {
		err = p.finish(in, state.OutcomeNobody)
	}
	p.Log.ErrorOnce(err, "not told that nothing serves what a message is for")
}

// An address is what an incoming message may be for.
type address struct {
	asked   *served        // the question that it may answer; nil for none
	session *state.Session // whose thread it is in; nil for none
	records []*served      // the questions of its thread
}

func (p *Poller) addressOf(in *state.Incoming) (at address) {
	at.asked = p.quoted(in)
	thread := in.ThreadName
	if at.asked != nil {
		thread = at.asked.q.ThreadName
	}
	at.records, at.session = p.inThread(in.Chat, thread), p.byThread[thread]
	if at.asked == nil {
		at.asked = p.target(in, at.records, at.session)
	}
	return at
}

// route decides what an incoming message is: a reply to a question, words or a command for a
// session, the beginning of a new session, or nothing.
func (p *Poller) route(ctx context.Context, in *state.Incoming) destination {
	if in.IsTap() {
		return p.routeTap(in)
	}
	at := p.addressOf(in)
	owner := p.ownerOf(in, at)
	isUnknown := at.asked == nil && at.session == nil && len(at.records) == 0
	switch {
	case owner != p.environment:
		return destination{kind: toOthers, environment: owner}
	case isUnknown && in.EventID != "" && p.events.of == "": // who took it knows the app
		return destination{kind: toOthers}
	case p.beginsSession(ctx, in, at.asked, at.session, len(at.records) > 0):
		return destination{kind: toNewSession}
	}
	addressed := p.sessionOf(in, at.asked, at.session)
	if addressed != nil && slices.Contains(p.ownSessions, addressed) {
		takes, isSilent := p.takesWords(in, addressed, at.asked, at.records)
		switch {
		case takes:
			return destination{kind: toSession, session: addressed}
		case isSilent:
			return destination{kind: toNobody}
		}
	}
	switch {
	case isUnknown && p.Now().Sub(in.ReadAt).Abs() < undecidedFor:
		return destination{kind: toLater}
	case at.asked == nil:
		return destination{kind: toNobody, session: at.session}
	case p.isAwaited(in, at.asked):
		return destination{kind: toLater}
	}
	return destination{kind: toQuestion, question: at.asked}
}

// mayBeClaimed says whether another environment's poller may still come for what was said to its
// session, which lives: for a minute, and for as long as this one may tell its sender nothing.
func (p *Poller) mayBeClaimed(in *state.Incoming, one *state.Session) bool {
	isLong := p.Now().Sub(in.ReadAt).Abs() >= undecidedFor
	cfg := p.config(configured{one.ProjectDir, one.IsTrusted})
	return p.takesCommands(one) && (!isLong || !cfg.CanAnswer(in.Sender, in.SenderEmail))
}

// ownerOf is the environment whose poller decides what a message is. Where a session's does not
// run any more, the session's thread is told by this one.
func (p *Poller) ownerOf(in *state.Incoming, at address) (environment string) {
	switch {
	case at.asked != nil:
		return at.asked.Environment
	case at.session != nil && (!p.isDeserted(at.session) || p.mayBeClaimed(in, at.session)):
		return at.session.Environment
	}
	return p.environment
}

// isAwaited says whether it is not known yet if a message is for the process that waits in
// its thread: the list that it came with says whether it counts, and of a process that was
// killed, it is for the next one.
func (p *Poller) isAwaited(in *state.Incoming, s *served) bool {
	if beginsIn(s.q) && in.EventID == "" {
		return true
	}
	isOld := p.Now().Sub(s.q.AskedAt).Abs() >= graceForHook
	return !s.q.Mode.Traits().Asks && s.q.Status == state.Pending && isOld && !state.HasWaiter(p.Env, s.Path)
}

// ofCard is the question with the card that a button is on, as of the last scan; nil for none. It
// may be called beside the loop.
func (p *Poller) ofCard(card string) *served {
	if cards := p.cards.Load(); cards != nil {
		return (*cards)[card]
	}
	return nil
}

// routeTap has a tap count on the very card of its question alone. What a card's buttons carry
// can be read by all in the space, and put on another card.
func (p *Poller) routeTap(in *state.Incoming) destination {
	s := p.ofCard(in.Tap.CardID)
	switch {
	case s != nil && s.q != nil && in.MessageName != "" && in.MessageName == s.q.MessageName:
		if s.Environment != p.environment {
			return destination{kind: toOthers, environment: s.Environment}
		}
		return destination{kind: toQuestion, question: s}
	case p.events.of == "":
		return destination{kind: toOthers}
	case in.Tap.HadButton && p.Now().Sub(in.ReadAt).Abs() < undecidedFor: // its card may be just being posted
		return destination{kind: toLater}
	}
	return destination{kind: toNobody}
}

// inThread are the questions of a thread, the oldest first.
func (p *Poller) inThread(chat, thread string) (in []*served) {
	for s := range p.everyRecord() {
		isIn := s.q != nil && thread != "" && s.q.Chat == chat &&
			(s.q.ThreadName == thread || slices.Contains(s.q.FormerThreads, thread))
		if isIn {
			in = append(in, s)
		}
	}
	return sorted(in)
}

func questionsOf(records []*served) (qs []*state.Question) {
	for _, s := range records {
		qs = append(qs, s.q)
	}
	return qs
}

// quoted is the question whose message a person quotes; nil for none.
func (p *Poller) quoted(in *state.Incoming) *served {
	if in.QuotedMessage == "" {
		return nil
	}
	for s := range p.everyRecord() {
		if s.q != nil && s.q.Chat == in.Chat && s.q.MessageName == in.QuotedMessage {
			return s
		}
	}
	return nil
}

// target is the question of a thread that a message belongs to; nil for none. Ours have a
// thread each. Other programs may put several questions into one, and processes may wait in
// it: a reply is for the oldest that it can answer, and for a process that began to wait when
// it can answer none. A process that ended keeps only the reply that it took.
func (p *Poller) target(in *state.Incoming, records []*served, session *state.Session) *served {
	var begun, over *served
	// A yes or a no is meant for a dialog that stands in the terminal of the thread's session.
	isForDialog := session != nil && session.Dialog != nil && wording.IsDecision(in.Text)
	for _, s := range records {
		if s.q.FindReply(in.ReplyName()) != nil { // it stands there already
			return s
		}
	}
	for _, s := range records {
		q := s.q
		switch {
		case q.Kind.Traits().IsPrompt: // one reply; what is said besides is said to Claude
			waits := q.Status == state.Pending && !q.HasUnreadReply() && q.PostedAt != nil
			if waits && !in.CreatedAt.Before(*q.PostedAt) && !isForDialog {
				return s
			}
		case beginsIn(q):
			begun = cmp.Or(begun, s)
		case !q.Mode.Traits().Asks:
			if q.Status == state.Pending && !in.CreatedAt.Before(*q.PostedAt) {
				return s
			}
		case q.IsAnswerable():
			return s
		default:
			over = cmp.Or(over, s)
		}
	}
	return cmp.Or(begun, over)
}

// sessionOf is the session that a person writes to: the one whose thread it is, or, with a
// command of ours, the one that asked the question of the thread.
func (p *Poller) sessionOf(in *state.Incoming, asked *served, session *state.Session) *state.Session {
	if session != nil || asked == nil || !wording.OurCommand(in.Text) {
		return session
	}
	i := slices.IndexFunc(p.sessions, func(one *state.Session) bool { return one.ID == asked.q.ClaudeSession() })
	if i < 0 {
		return nil
	}
	return p.sessions[i]
}

// takesWords says whether a session takes a message: a command, or words for Claude where no
// question in that thread is to get them. A command of somebody who may give none is not
// answered in the session's own thread.
func (p *Poller) takesWords(in *state.Incoming, one *state.Session, asked *served,
	records []*served) (takes, isSilent bool) {
	text, cfg := wordsOf(in), p.personal()
	isCommand := strings.HasPrefix(text, "/")
	isLate := in.LocalCreatedAt.Before(commands.BeganAt(one))
	isElsewhere := in.ThreadName != one.ThreadName // in a question's thread, which asks back who may not
	switch {
	case asked != nil && asked.q.FindReply(in.ReplyName()) != nil:
		return false, false
	case asked != nil && !isCommand && !p.follows(one, asked):
		return false, false
	case one.Chat != in.Chat, text == "", !isCommand && isLate:
		return false, false
	case isCommand && one.IsOldCommandDone(in.MessageName, in.CreatedAt):
		return false, true
	case commands.Left(state.SessionsIn(p.user), one):
		return false, false
	case !p.takesCommands(one) && (isCommand || !p.resumes(one) || !cfg.CanStartSessions):
		return false, false
	case !cfg.HasUnreadFile && !cfg.CanApprove(in.Sender, in.SenderEmail):
		return false, isCommand && !isElsewhere
	}
	return true, false
}

// follows says whether words in a thread come after one of Claude Code's own commands that
// is not typed yet: then they are no reply to what waited before that.
func (p *Poller) follows(one *state.Session, asked *served) bool {
	if !asked.q.Kind.Traits().IsPrompt {
		return false
	}
	return commands.Typing(one, p.routed[one.ID], p.personal().ClaudeCommands)
}

// wordsOf is what a person wrote as Claude may get it.
func wordsOf(in *state.Incoming) string {
	return strings.TrimSpace(state.Clean(state.ForAgent, in.Text))
}

// beginsSession says whether a person who may asks for a new session: in a thread of ours, to
// the app, or on the page.
func (p *Poller) beginsSession(ctx context.Context, in *state.Incoming, asked *served,
	session *state.Session, isOurs bool) bool {
	id := commands.NewID(in.MessageName)
	if slices.ContainsFunc(p.sessions, func(one *state.Session) bool { return one.ID == id }) {
		return true // it was begun, by a poller that was killed
	}
	cfg := p.personal()
	mayBegin := cfg.CanStartSessions && cfg.AccessTo(state.KindPrompt, "").CanAsk && cfg.CanApprove(in.Sender, in.SenderEmail)
	isReply := asked != nil && asked.q.FindReply(in.ReplyName()) != nil
	if !wording.IsNew(in.Text) || !mayBegin || isReply {
		return false
	}
	if isOurs || session != nil {
		return true
	}
	if in.EventID == "" {
		return gchat.Local(in.Chat)
	}
	from := p.gateway(ctx, configured{projectDir: p.user}).events()
	isNamed := strings.EqualFold(commands.Named(in.Text), state.MachineName())
	return from != nil && from.Chat() == in.Chat && (!from.IsShared() || isNamed)
}

// deliver has a message go where it belongs. Killed in between, it is routed once more, and
// each step finds what is done.
func (p *Poller) deliver(ctx context.Context, in *state.Incoming, to destination) error {
	switch to.kind {
	case toQuestion:
		return p.giveReply(in, to.question)
	case toSession:
		return p.giveToSession(in, to.session.ID, wordsOf(in))
	case toNewSession:
		return p.giveToNewSession(in)
	}
	return p.answerNobody(ctx, in, to.session)
}

func (p *Poller) finish(in *state.Incoming, outcome state.Outcome) error {
	return state.InboxIn(p.user).Finish(in, outcome, p.Now())
}

// giveReply writes a reply into its question. Where a process waits for it, it is judged in
// the same write; otherwise the loop judges, which knows of panes.
func (p *Poller) giveReply(in *state.Incoming, s *served) error {
	law, reply := p.lawOf(s, s.q), in.AsReply()
	if !in.IsTap() {
		reply.IsUnsure = judge.Unsure(s.q, questionsOf(p.inThread(in.Chat, s.q.ThreadName)), in)
	}
	isNews := false
	q, err := state.ChangeQuestion(s.Path, func(q *state.Question) {
		if in.IsTap() {
			tap := &wording.Tap{Choice: in.Tap.Choice, Inputs: in.Tap.Inputs}
			_, said, _ := wording.ReadTap(q, tap)
			reply.Text = cmp.Or(said, in.Tap.Choice)
		}
		if beginsIn(q) { // no message of ours comes with events: what was said before was kept for it
			q.PostedAt = new(q.AskedAt.Add(-undecidedFor))
		}
		isNews = judge.Revise(q, in) || !in.IsRevoked && judge.Add(q, reply, law.forbids(q, in.Sender, in.SenderEmail))
		if isNews && (state.HasWaiter(p.Env, q.Path) || !q.IsAnswerable()) {
			p.judgeIn(s, q, law)
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reply not written down: %w", err)
	}
	if isNews && err == nil {
		s.q, s.over = q, false
	}
	return p.finish(in, state.OutcomeReply)
}

// giveToSession leaves a message to a session, whose commands are done beside the loop.
func (p *Poller) giveToSession(in *state.Incoming, session, words string) error {
	now, err := state.InboxIn(p.user).Change(in.ID, func(in *state.Incoming) {
		if in.Status == state.IncomingNew {
			in.Status, in.SessionID, in.Text = state.IncomingRouted, session, words
		}
	})
	if err == nil {
		p.routed[session] = append(p.routed[session], now)
	}
	return err
}

// giveToNewSession begins the session that a person asks for, once: its id is made of the
// message.
func (p *Poller) giveToNewSession(in *state.Incoming) error {
	one, words, err := p.room().New(in)
	switch {
	case err != nil:
		return err
	case one == nil:
		return p.finish(in, state.OutcomeCommand)
	}
	return p.giveToSession(in, one.ID, wording.Cut(words, wording.MaxText))
}

// answerNobody tells a person, once, what became of what nothing took.
func (p *Poller) answerNobody(ctx context.Context, in *state.Incoming, one *state.Session) error {
	isBusy := false
	switch {
	case in.IsRevoked:
	case one != nil && cmp.Or(one.Chat, in.Chat) == in.Chat:
		cfg := p.config(configured{one.ProjectDir, one.IsTrusted})
		if in.Sender == "" || !cfg.CanAnswer(in.Sender, in.SenderEmail) {
			break
		}
		err := p.room().Tell(one, state.MessageID("nobody", in.MessageName), p.room().NobodyText(one))
		if err != nil {
			return err
		}
	case in.EventID != "" && len(p.inThread(in.Chat, in.ThreadName)) == 0 || in.IsTap():
		isBusy = p.answerUnbound(ctx, in)
	}
	if isBusy {
		return nil
	}
	return p.finish(in, state.OutcomeNobody)
}

// answerUnbound tells a person what became of what they wrote to the app, or tapped, and no
// record here knows. It reports whether that goes on beside the loop, since Chat has to be
// asked whether another machine is concerned.
func (p *Poller) answerUnbound(ctx context.Context, in *state.Incoming) (goesOn bool) {
	from := p.gateway(ctx, configured{projectDir: p.user}).events()
	if from == nil || from.Chat() != in.Chat || !p.personal().CanAnswer(in.Sender, in.SenderEmail) {
		return false
	}
	_, isAsked := p.doing.LoadOrStore(in.ID, true)
	if isAsked {
		return true
	}
	starts := p.starts
	p.beside("unbound words", func() {
		defer p.doing.Delete(in.ID)
		err := error(nil)
		if text := p.unboundText(ctx, from, in, starts); text != "" {
			err = p.answerEvent(from, in, text)
		}
		if err == nil && ctx.Err() == nil {
			err = p.finish(in, state.OutcomeNobody)
		}
		p.Log.ErrorOnce(err, "note not put into the outbox")
	})
	return true
}

// unboundText is what a person is told of what no record here knows; "" for nothing.
func (p *Poller) unboundText(ctx context.Context, from eventSource, in *state.Incoming, starts bool) string {
	switch {
	case in.IsTap():
		card := gchat.Message{Name: in.MessageName, ClientID: in.CardClientID}
		stands, err := from.Shows(ctx, card, in.Tap.CardID)
		if in.Tap.HadButton && err == nil && !stands {
			return "" // another machine used it meanwhile
		}
		return wording.OldCardText
	case wording.IsNew(in.Text) && starts:
		return p.askForMachine(ctx, from, in)
	case in.FirstThreadMessage != "":
		concerns, err := from.Concerns(ctx, in.FirstThreadMessage)
		if !concerns {
			p.Log.ErrorOnce(err, "not known whose words these are")
			return ""
		}
	}
	return wording.UnboundText
}

// askForMachine asks which machine is to begin a session, unless the one that was named has told of it. Behind a hub no machine
// sees what another one tells: there the answer is given where the first word is a project of this machine, or there is none.
func (p *Poller) askForMachine(ctx context.Context, from eventSource, in *state.Incoming) string {
	named := commands.Named(in.Text)
	_, err := from.Find(ctx, commands.NewNoteID(in.MessageName, named), time.Time{})
	if !gchat.Permanent(err) { // it was begun, or that is not known
		p.Log.ErrorOnce(err, "not known whether a session was begun")
		return ""
	}
	if from.SeesOthers() || named == "" || p.room().Knows(in.Text) {
		return wording.NameMachineText()
	}
	return ""
}

// answerEvent tells a person, and only that person where Chat can do that, what became of what they did; once, though other
// machines of theirs may hear it, too.
func (p *Poller) answerEvent(from eventSource, in *state.Incoming, text string) error {
	return p.put(&state.Message{
		ID: gchat.OnceID(state.MessageID("event", in.EventID)), Type: state.MessageNote, Parts: []string{text}, ProjectDir: p.user,
		Chat: from.Chat(), ThreadName: in.ThreadName, Viewer: in.Sender, IsUrgent: true, CreatedAt: p.Now().UTC(),
	})
}
