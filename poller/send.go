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
	lanesAtOnce = 8 // to Chat; each agent has a lane of its own besides
	// burst is how many messages may leave at once before the pace is held. Questions and what else is urgent may go a little
	// beyond it, so that none waits behind a flood of reports.
	burst         = 10
	urgentBurst   = burst + 3
	authPause     = time.Minute      // from one try of a webhook that a person has to mend to the next
	mostBackoff   = 5 * time.Minute  // after failures in a row
	urgentBackoff = 30 * time.Second // for a question that alone does not get through
	diskPause     = 2 * time.Second  // after something could not be written down
	lingerBound   = 2 * time.Second  // for a send under way when the poller is told to end
	wakePause     = 5 * time.Second  // after the first failure of a message for an agent
	oldWake       = 24 * time.Hour   // how long such a message is kept that was tried often enough
	// An agent whose turns fail on a message that it has is given it again for so long, and so often at least.
	failingTurns    = 8
	failingTurnsFor = time.Hour
	muteStep        = 30 * time.Second   // for a muted report: the person may end the mute meanwhile
	tooOld          = 7 * 24 * time.Hour // then a message that waits for its space is set aside
	// mostRead is how many messages of the outbox one step reads for the first time.
	mostRead = 4000
)

// sender delivers what is in the outbox: in order within a lane, several lanes at the same time, each beside the loop.
type sender struct {
	*Poller
	box    state.Outbox
	spaces state.Spaces
	linger time.Duration // see lingerBound
	pacing sync.Mutex

	mu    sync.Mutex // of what follows
	cache state.Cache[state.Message]
	lanes map[string][]*state.Message // the oldest first
	part  bool                        // older messages of the outbox are still to be read
	busy  map[string]bool             // lanes that are under way; true for one to Chat
	later map[string]outcome          // messages that wait for a reason that is not on disk, by path
	waits map[string]outcome          // when a space takes the next message, by gatewayKey
}

func (p *Poller) newSender() *sender {
	return &sender{
		Poller: p, box: state.OutboxIn(p.user), spaces: state.SpacesIn(p.user), lanes: map[string][]*state.Message{},
		linger: lingerBound,
		cache:  state.Cache[state.Message]{ShouldSkip: state.HasReceipt},
		busy:   map[string]bool{}, later: map[string]outcome{}, waits: map[string]outcome{},
	}
}

// outcome is what became of a try to send a lane's message, which stands on disk as it then is.
type outcome struct {
	at    time.Time // when it ended
	until time.Time // when to try it again; zero for at once
	held  bool      // until then those behind it may go
	space bool      // until then nothing of its project goes
	eased bool      // its space was in trouble, and is not any more
}

// dispatch starts what can be sent now. It returns when something is due, zero for nothing, and whether something is under way.
func (s *sender) dispatch(ctx context.Context) (next time.Time, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readOutbox()
	if s.part {
		s.wake()
	}
	for ctx.Err() == nil {
		m, at := s.first()
		next = at
		if m == nil {
			break
		}
		s.busy[m.Lane()] = m.Wake == nil
		s.beside("send", func() {
			how := s.try(ctx, m)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.busy, m.Lane())
			s.note(m, how)
		})
	}
	return next, len(s.busy) > 0 || s.part
}

func (s *sender) note(m *state.Message, how outcome) {
	how.at = s.Now()
	delete(s.later, m.Path)
	if how.eased {
		clear(s.waits)
	}
	if how.space {
		s.waits[gatewayKey(m)] = how
	} else if !how.until.IsZero() {
		s.later[m.Path] = how
	}
}

// pass sends until nothing more can be sent now, for ten seconds at most, and returns when something is due.
func (s *sender) pass(ctx context.Context) time.Time {
	ctx, cancel := context.WithTimeout(ctx, onceBound)
	defer cancel()
	for {
		next, busy := s.dispatch(ctx)
		if !busy {
			return next
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return next
		}
	}
}

// readOutbox reads what is new or changed in the outbox. Of very many messages the newest are
// read first, a part with each step: a question is not to wait until all are.
func (s *sender) readOutbox() {
	names, err := s.box.Names()
	if err != nil {
		s.Log.ErrorOnce(err, "outbox not read")
		return
	}
	clear(s.lanes)
	waiting := map[string]bool{}
	read := 0
	s.part = false
	for _, name := range slices.Backward(names) {
		path := filepath.Join(s.box.Dir, name+".json")
		known := s.cache.Has(path)
		if !known && read == mostRead {
			s.part = true
			continue
		}
		m, err := s.cache.Load(path, false)
		if !known && s.cache.Has(path) { // what cannot be read takes nobody's place
			read++
		}
		if !errors.Is(err, fs.ErrNotExist) {
			s.Log.ErrorOnce(err, "message not read")
		}
		if m == nil || m.IsFinal() || s.Now().Sub(m.CreatedAt) > tooOld && s.dropOld(m) || m.Environment != "" && m.Environment != s.environment {
			continue
		}
		waiting[path] = true
		s.lanes[m.Lane()] = append(s.lanes[m.Lane()], m)
	}
	for _, lane := range s.lanes {
		slices.Reverse(lane)
	}
	s.cache.ForgetUnused()
	for _, o := range s.index {
		if o.RecordType == state.IndexedMessage {
			o.waiting = waiting[o.Path]
			s.hold(o)
		}
	}
	maps.DeleteFunc(s.later, func(path string, _ outcome) bool { return !waiting[path] })
}

// first is the message that goes next: an urgent one, then the oldest. With none, next is when one is due. Before all are read,
// only questions go: nothing of their lanes can come before them.
func (s *sender) first() (best *state.Message, next time.Time) {
	toChat := 0
	for _, chat := range s.busy {
		if chat {
			toChat++
		}
	}
	for name, lane := range s.lanes {
		wake := lane[0].Wake != nil
		early := s.part && !beginsThread(lane[0])
		if _, busy := s.busy[name]; busy || early || !wake && toChat >= lanesAtOnce {
			continue
		}
		m, until := s.turn(lane)
		next = sooner(next, until)
		if m != nil && (best == nil || m.IsUrgent && !best.IsUrgent || m.IsUrgent == best.IsUrgent && m.Path < best.Path) {
			best = m
		}
	}
	return best, next
}

// turn is the message of a lane that goes next, or when one is due. What is held back lets the others pass; what failed does not.
func (s *sender) turn(lane []*state.Message) (m *state.Message, next time.Time) {
	for _, m := range lane {
		until, held := s.due(m, s.Now())
		if until.IsZero() {
			return m, next
		}
		next = sooner(next, until)
		if !held {
			break
		}
	}
	return nil, next
}

// due is when a message may be tried; zero for now. held says that those behind it may go meanwhile.
func (s *sender) due(m *state.Message, now time.Time) (until time.Time, held bool) {
	if wait := m.NotBefore.Sub(now); wait > 0 && (m.FailedTries == 0 || wait <= time.Hour) { // a clock may have been set back
		return m.NotBefore, m.FailedTries == 0
	}
	for _, wait := range []outcome{s.later[m.Path], s.waits[gatewayKey(m)]} {
		if now.Before(wait.until) && !m.NotBefore.After(wait.at) { // else a person had it tried anew meanwhile
			return wait.until, wait.held
		}
	}
	return time.Time{}, false
}

// gatewayKey is equal for messages that go through one gateway, and at one pace.
func gatewayKey(m *state.Message) string {
	if m.Wake != nil {
		return ""
	}
	return fmt.Sprint(m.ProjectDir, "\x00", m.IsTrusted, m.IsUrgent)
}

// dropOld sets a message aside that no poller could send for a week, whichever environment it was for.
func (s *sender) dropOld(m *state.Message) bool {
	if s.Now().Sub(m.NotBefore) <= tooOld {
		return false
	}
	why := cmp.Or(m.LastError, "no poller had a webhook for it")
	return s.setAside(m, "it waited for seven days: "+why).until.IsZero()
}

// try sends the part of a message that goes next, or says when it may be tried again.
func (s *sender) try(ctx context.Context, m *state.Message) (out outcome) {
	out.until = s.Now().Add(authPause) // after a panic
	s.safely("send", func() {
		if m.Wake != nil {
			out = s.send(ctx, m, nil)
			return
		}
		way := s.gateway(ctx, configured{m.ProjectDir, m.IsTrusted})
		if ctx.Err() == nil { // else a command for the webhook may have been cut
			out = s.tryBy(ctx, m, way)
		}
	})
	return out
}

func (s *sender) tryBy(ctx context.Context, m *state.Message, way *gateway) outcome {
	if quiet := way.cfg.QuietHours != nil || m.SessionID != ""; quiet && !m.IsUrgent && m.Type != state.MessageNote {
		if until := s.heldBack(m, way.cfg); !until.IsZero() {
			return outcome{until: until, held: true}
		}
	}
	worded, end := s.word(ctx, m, way)
	switch {
	case worded == nil:
		return end
	case way.err != nil:
		return s.paused(m, way, way.err, true)
	case m.Chat != "" && m.Chat != way.transport.Chat():
		return outcome{until: s.Now().Add(authPause)} // the webhook is another space's
	}
	return s.send(ctx, worded, way)
}

// heldBack is until when a message waits because its person wants quiet; zero for not at all. A report that was put before the
// quiet hours, and could not be sent, waits for their end; a report, and [Waiting for you], while the session is muted.
func (s *sender) heldBack(m *state.Message, cfg *config.Config) (until time.Time) {
	if cfg.QuietHours != nil && m.Type == state.MessageReport {
		if end, quiet := cfg.QuietHours.EndAfter(s.Now()); quiet {
			return end
		}
	}
	one, err := state.SessionsIn(s.user).Get(m.SessionID)
	if m.SessionID == "" || err != nil || !one.MutedUntil.After(s.Now()) {
		return time.Time{}
	}
	return sooner(one.MutedUntil, s.Now().Add(muteStep))
}

// send delivers one part of a message. FirstTriedAt is on disk before: after kill -9 the next poller looks whether the part arrived.
// This process just wrote what is fresh, so it is not read again.
func (s *sender) send(ctx context.Context, m *state.Message, way *gateway) outcome {
	troubled := false // the space took no messages the last time
	if way != nil {
		var until time.Time
		until, troubled = s.pace(m, way)
		if !until.IsZero() {
			return outcome{until: until, space: true}
		}
	}
	_, fresh := s.fresh.LoadAndDelete(m.Path)
	first := fresh || m.FirstTriedAt.IsZero()
	if !first && way != nil {
		if r, err := way.find(ctx, m); err != nil {
			return s.notSent(ctx, m, way, err, false)
		} else if r != nil {
			return s.delivered(m, way, *r, "")
		}
	}
	now := *m
	if !fresh {
		tried, err := s.noteTry(m)
		if err != nil || tried == nil || tried.IsFinal() {
			return s.written(err)
		}
		now = *tried
	}
	begins := now.ThreadKey == "" || beginsThread(m)
	if way != nil && now.ThreadName == "" && !begins {
		now.ThreadName = s.savedThread(m, way)
	}
	lingering, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(s.linger, cancel) })()
	var r gchat.Posted
	var err error
	answer := "" // of an agent
	if way == nil {
		answer, err = openclaw.Deliver(lingering, s.Env, &now)
	} else {
		r, err = way.deliver(lingering, &now)
	}
	if err != nil {
		return s.notSent(ctx, &now, way, err, first)
	}
	out := s.delivered(&now, way, r, answer)
	if troubled {
		out.eased = true
		s.worked(way)
	}
	return out
}

// beginsThread reports whether a question begins a thread of its own. What a session is to do
// next goes with its reports.
func beginsThread(m *state.Message) bool {
	return m.Type == state.MessageQuestion && !m.IsInSessionThread()
}

// noteTry writes down that a message is tried, and with what texts; nil and no error where it is gone.
func (s *sender) noteTry(m *state.Message) (*state.Message, error) {
	return s.box.Change(m.Path, func(now *state.Message) {
		if now.IsFinal() || !now.FirstTriedAt.IsZero() && len(now.Parts) > 0 { // it was put so, or tried
			return
		}
		now.ID, now.Parts, now.Card, now.MergedMessages, now.ThreadKey = m.ID, m.Parts, m.Card, m.MergedMessages, m.ThreadKey
		now.FirstTriedAt = s.Now().UTC()
	})
}

// savedThread is the thread of a key, where one is known in the space: of a session's, which may have begun under another key,
// and of any with an app, whose direct message sees no keys.
func (s *sender) savedThread(m *state.Message, way *gateway) (name string) {
	if m.IsInSessionThread() {
		if one, err := state.SessionsIn(s.user).Get(m.SessionID); err == nil {
			name = one.ThreadName
		}
	} else if !way.transport.KeepsThreadKeys() {
		name = state.FindThreadName(s.Env, m.ThreadKey)
	}
	if !strings.HasPrefix(name, way.space+"/") {
		return ""
	}
	return name
}

// delivered writes a receipt: into the question or the session that the message is of, then into the message itself. Killed in
// between, the next poller finds the message again.
func (s *sender) delivered(m *state.Message, way *gateway, r gchat.Posted, answer string) outcome {
	if way != nil && m.PatchedMessage == "" {
		s.Log.Info().Str("id", partID(m)).Str("project", m.ProjectDir).Str("session", m.SessionID).Msg(state.LogMessageSent)
	}
	if m.PartsSent+1 < len(m.Parts) {
		_, err := s.box.Change(m.Path, func(m *state.Message) {
			m.PartsSent, m.FailedTries, m.FirstTriedAt, m.NotBefore = m.PartsSent+1, 0, time.Time{}, time.Time{}
			m.MessageName = cmp.Or(m.MessageName, r.Name)
			m.ThreadName = cmp.Or(m.ThreadName, r.ThreadName) // the other parts go there, too: a direct message knows no keys
		})
		return s.written(err)
	}
	if way != nil && (m.Question != "" || m.SessionID != "") {
		if err := s.tellRecord(m, way, r); err != nil {
			return s.written(err)
		}
	}
	return s.finish(m, func(m *state.Message) {
		m.SentAt, m.LastError, m.AgentAnswer = m.EndedAt, "", answer
		m.MessageName = cmp.Or(m.MessageName, r.Name)
		m.ThreadName = cmp.Or(r.ThreadName, m.ThreadName)
	})
}

// finish makes a message final, and before it those that go with a digest.
func (s *sender) finish(m *state.Message, as func(*state.Message)) outcome {
	for _, file := range append(slices.Clone(m.MergedMessages), m.Path) {
		_, err := s.box.Change(file, func(m *state.Message) {
			if !m.IsFinal() {
				m.EndedAt = s.Now().UTC()
				as(m)
			}
		})
		if err != nil {
			return s.written(err)
		}
	}
	return outcome{}
}

func (s *sender) tellRecord(m *state.Message, way *gateway, r gchat.Posted) (err error) {
	if m.Type == state.MessageQuestion && m.PatchedMessage == "" {
		_, err = state.ChangeQuestionRelaxed(m.Question, func(q *state.Question) {
			q.IsMessageSent, q.PostError = true, ""
			q.MessageName, q.ThreadName = cmp.Or(r.Name, q.MessageName), cmp.Or(r.ThreadName, q.ThreadName)
			q.Chat, q.Space = way.transport.Chat(), way.space
			if way.transport.DrawsCards() && len(m.Card) > 0 {
				q.CardMessage = gchat.MessageName(way.space, partID(m)) // by this id the app changes it, also through a hub
			}
			if !r.ServerTime.IsZero() && q.PostedAt == nil {
				q.PostedAt = new(r.ServerTime.UTC())
			}
		})
		if errors.Is(err, fs.ErrNotExist) {
			return nil // its project was removed
		}
	}
	moved := m.Type == state.MessageNote && m.Question != "" && m.PatchedMessage == "" && m.ThreadName != "" && r.ThreadName != ""
	if moved && m.ThreadName != r.ThreadName { // its thread was deleted, and Chat began another
		_, err = state.ChangeQuestionRelaxed(m.Question, func(q *state.Question) {
			if q.ThreadName != r.ThreadName {
				q.FormerThreads = append(q.FormerThreads, q.ThreadName)
				q.ThreadName = r.ThreadName
			}
		})
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil && m.IsInSessionThread() && r.ThreadName != "" {
		_, err = state.SessionsIn(s.user).Change(m.SessionID, func(one *state.Session) {
			one.ThreadName, one.Chat = r.ThreadName, way.transport.Chat()
		})
	}
	return err
}

func (s *sender) written(err error) outcome {
	if err == nil {
		return outcome{}
	}
	s.Log.Error().Err(err).Msg("outbox not written; the message waits")
	return outcome{until: s.Now().Add(diskPause)}
}

// pace takes one write from what the space allows, or says when there is one. Through a webhook that a person has to mend one
// message goes a minute. troubled says that the last message failed for its space's sake.
func (s *sender) pace(m *state.Message, way *gateway) (until time.Time, troubled bool) {
	now, id := s.Now(), way.transport.ID()
	most := burst
	if m.IsUrgent {
		most = urgentBurst
	}
	s.pacing.Lock() // the lanes wait for each other here, and not by trying the file's lock
	defer s.pacing.Unlock()
	s.changeSpace(way, func(space *state.Space) {
		pause, paused := space.PausedWebhooks[id]
		troubled = paused || space.Failures > 0 || !space.NotBefore.IsZero()
		wait := space.WriteDelay(now)
		if left := pause.NotBefore.Sub(now); paused && left <= authPause {
			wait = max(wait, left)
		}
		if wait <= 0 {
			wait = space.TakeWrite(now, time.Minute/time.Duration(way.cfg.WritesPerMinute), most)
		}
		if wait > 0 {
			until = now.Add(wait)
		} else if paused {
			pause.NotBefore = now.Add(authPause).UTC()
			space.PausedWebhooks[id] = pause
		}
	})
	return until, troubled
}

func (s *sender) worked(way *gateway) {
	s.changeSpace(way, func(space *state.Space) {
		space.Failures, space.NotBefore, space.Why = 0, time.Time{}, ""
		delete(space.PausedWebhooks, way.transport.ID())
	})
	s.Log.Info().Str("chat", way.transport.Chat()).Msg(sentAgain)
}

// changeSpace writes down what is known of a gateway's space. A pace that is not kept is better than silence.
func (s *sender) changeSpace(way *gateway, change func(*state.Space)) {
	_, err := s.spaces.Change(way.transport.Chat(), change)
	s.Log.ErrorOnce(err, "not written what is known of the space")
}

// wakeUp has messages tried at once that wait for their space, unless Chat itself asked for the pause.
func (s *sender) wakeUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.later)
	clear(s.waits)
	all, _ := s.spaces.All()
	for _, of := range all {
		if of.NotBefore.IsZero() || of.IsAskedByChat {
			continue
		}
		_, err := s.spaces.Change(of.Chat, func(space *state.Space) { space.Failures, space.NotBefore = 0, time.Time{} })
		s.Log.ErrorOnce(err, "a space's pause not ended")
	}
}
