package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

const (
	// overlap is read again with every list: a message can be listed after one that was created later.
	overlap = 2 * time.Minute
	// clockSlack is how far before its asking the thread of a question is read for the first time whose message's time is not
	// known: this machine's clock may be wrong.
	clockSlack = 10 * time.Minute
	// quickFor is how long after asking, and after a person's message, the space is listed once a second.
	quickFor   = 2 * time.Minute
	quickCycle = time.Second
	// otherReads is the time from one try to become the reader of a space to the next.
	otherReads = time.Second
	// mostReplies is how many replies one question's file keeps with their words, and mostNames how many at all: a thread
	// that is chatted in for hours must not fill the disk.
	mostReplies, mostNames = 200, 5000

	firstBackup  = 30 * time.Second
	mostBackup   = 5 * time.Minute
	refusedPause = time.Minute
	authTries    = 5 // then degraded, and said so
)

// view is what the reader of a space has to know of the records: the loop gives it a new one with each step.
type view struct {
	records  map[string][]*state.Question // by thread, the oldest first, of every environment; not to be changed
	own      []*served                    // open ones of this environment, the newest first
	sessions map[string]*state.Session    // by the thread of their reports
	youngest time.Time                    // when the youngest question was asked that waits for a reply
	sources  []source                     // whose configuration may read the space
}

// source is a project whose configuration leads to a space.
type source struct {
	projectDir string
	trusted    bool
}

// reader is the one goroutine that lists a space, for the records of every environment.
type reader struct {
	*Poller
	chat  string // host/spaces/S
	space string
	stop  context.CancelFunc
	done  chan struct{}
	fresh chan struct{} // there is another view, or credentials are to be read again

	mu    sync.Mutex
	view  view
	good  time.Time // when the last good list began
	bad   bool      // the last list failed
	reset bool      // what failed until now says nothing

	api     *gchat.Reader
	source  int // of the view's
	mark    *state.Space
	trouble trouble
	heard   time.Time         // when the last message of a person came
	seen    map[string]string // by message name: what it said when it was handed to its record; of the overlap
}

// reads says whether a reply to this question is of use now, so that its space has to be read.
func (p *Poller) reads(s *served) bool {
	q := s.q
	switch {
	case q == nil || s.settled || q.Chat == "" || !q.MessageSent && (q.Mode != state.Thread || q.ThreadName == ""):
		return false
	case q.Status == state.Pending:
		return true
	}
	return q.Late(p.now()) && (p.Daemon || state.HasWaiter(p.Env, s.Path))
}

// views are what there is to be known of each space that an open question of this environment is in.
func (p *Poller) views() map[string]view {
	views := map[string]view{}
	all := p.inOrder()
	for _, s := range slices.Backward(all) {
		if !s.mine(p) || !p.reads(s) {
			continue
		}
		v := views[s.q.Chat]
		if v.own = append(v.own, s); s.q.AskedAt.After(v.youngest) {
			v.youngest = s.q.AskedAt
		}
		from := source{s.q.ProjectDir, s.Trusted}
		if !slices.Contains(v.sources, from) {
			v.sources = append(v.sources, from)
		}
		views[s.q.Chat] = v
	}
	for chat, v := range views {
		v.sessions, v.records = p.people.byThread, map[string][]*state.Question{}
		for _, s := range all {
			if s.q != nil && s.q.Chat == chat && s.q.ThreadName != "" {
				v.records[s.q.ThreadName] = append(v.records[s.q.ThreadName], s.q)
			}
		}
		views[chat] = v
	}
	return views
}

// follow has every space listed that an open question is in, and no other.
func (p *Poller) follow(ctx context.Context) {
	views := p.views()
	for chat, r := range p.readers {
		select {
		case <-r.done: // also after a panic
			delete(p.readers, chat)
			continue
		default:
		}
		if _, open := views[chat]; !open {
			r.stop()
		}
	}
	for chat, v := range views {
		r := p.readers[chat]
		if r == nil {
			r = p.readerOf(chat)
			r.give(v)
			p.readers[chat] = r
			rctx, stop := context.WithCancel(ctx)
			r.stop = stop
			go func() {
				defer p.wake()
				defer close(r.done)
				p.safely("read", func() { r.follow(rctx) })
			}()
		}
		r.give(v)
	}
}

func (p *Poller) readerOf(chat string) *reader {
	_, space, _ := strings.Cut(chat, "/")
	return &reader{
		Poller: p, chat: chat, space: space, done: make(chan struct{}), fresh: make(chan struct{}, 1), seen: map[string]string{},
	}
}

// resetReaders has the readers begin anew, with the credentials as they are now.
func (p *Poller) resetReaders() {
	for _, r := range p.readers {
		r.mu.Lock()
		r.reset = true
		r.mu.Unlock()
		r.nudge()
	}
}

// reading says whether every list went well the last time.
func (p *Poller) reading() bool {
	for _, r := range p.readers {
		r.mu.Lock()
		bad := r.bad
		r.mu.Unlock()
		if bad {
			return false
		}
	}
	return true
}

func (r *reader) give(v view) {
	r.mu.Lock()
	news := len(v.own) != len(r.view.own) || !v.youngest.Equal(r.view.youngest)
	r.view = v
	r.mu.Unlock()
	if news {
		r.nudge()
	}
}

func (r *reader) nudge() {
	select {
	case r.fresh <- struct{}{}:
	default:
	}
}

// readAfter says whether a good list began after t.
func (r *reader) readAfter(t time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.good.After(t)
}

// follow lists the space whenever no other process does, until ctx ends.
func (r *reader) follow(ctx context.Context) {
	spaces := state.SpacesIn(r.user())
	for ctx.Err() == nil {
		lock, err := spaces.LockReader(r.chat)
		if errors.Is(err, state.ErrLocked) { // the poller of another environment reads it, for our records, too
			r.trouble = trouble{}
			good := time.Time{}
			if spaces.Of(r.chat).Trouble == nil {
				good = r.now().Add(-quickFor)
			}
			r.mu.Lock()
			r.good = good
			r.mu.Unlock()
			sleep(ctx, otherReads)
			continue
		}
		if err != nil {
			r.logOnce(err, "reader's lock") // better two processes that list than none
		}
		pause := r.lead(ctx, spaces)
		if lock != nil {
			lock.Unlock() // a process with better credentials gets its turn
		}
		sleep(ctx, min(pause, otherReads))
		r.rest(ctx, r.now().Add(pause-min(pause, otherReads)))
	}
}

// lead lists once a cycle until ctx ends or the credentials are refused; it returns how long to stand back.
func (r *reader) lead(ctx context.Context, spaces state.Spaces) (pause time.Duration) {
	r.mark = spaces.Of(r.chat) // another process may have read on
	for ctx.Err() == nil {
		v := r.current()
		began := r.now()
		err := r.listOne(ctx, v)
		if pause = r.trouble.after(err); gchat.AuthFailure(err) {
			r.api, r.source = nil, r.source+1
			return pause
		}
		for ctx.Err() == nil {
			until := began.Add(max(r.cycle(r.current()), pause))
			if !r.rest(ctx, until) {
				break
			}
		}
	}
	return 0
}

// rest waits until then, and reports whether something new cut it short.
func (r *reader) rest(ctx context.Context, until time.Time) (cut bool) {
	t := time.NewTimer(max(until.Sub(r.now()), 0))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-r.fresh:
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.reset {
			r.reset, r.api, r.trouble = false, nil, trouble{}
			return false // list now
		}
		return true
	}
	return false
}

func (r *reader) current() view {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view
}

// from is the project whose configuration reads the space: another one after the credentials of the former were refused.
func (r *reader) from(v view) source {
	if len(v.sources) == 0 {
		return source{projectDir: state.ProjectDir(r.Env)}
	}
	return v.sources[r.source%len(v.sources)]
}

// cycle is the time from one list to the next.
func (r *reader) cycle(v view) time.Duration {
	from := r.from(v)
	since := min(r.now().Sub(v.youngest).Abs(), r.now().Sub(r.heard).Abs())
	return cycle(since, r.config(from.projectDir, from.trusted).PollInterval)
}

// cycle is quick just after asking and after a person's message, whichever is less ago.
func cycle(since, interval time.Duration) time.Duration {
	if since < quickFor {
		return min(quickCycle, interval)
	}
	return interval
}

// listOnce is a single round's list, unless another process reads the space anyway.
func (r *reader) listOnce(ctx context.Context, v view) error {
	spaces := state.SpacesIn(r.user())
	lock, err := spaces.LockReader(r.chat)
	if errors.Is(err, state.ErrLocked) {
		return nil
	}
	if err == nil {
		defer lock.Unlock()
	}
	r.mark = spaces.Of(r.chat)
	return r.listOne(ctx, v)
}

// listOne lists the space and tells how that went.
func (r *reader) listOne(ctx context.Context, v view) error {
	began := r.now()
	err := r.list(ctx, v)
	if ctx.Err() != nil {
		return err
	}
	r.mu.Lock()
	if r.bad = err != nil; err == nil {
		r.good = began
	}
	r.mu.Unlock()
	r.tell(err, v)
	r.wake() // a question's time may be up, which waits for a list
	return err
}

// pass is one list of a space, from its first page to its last.
type pass struct {
	view
	mark    state.Space // as it will be
	newest  time.Time
	border  time.Time                  // what is older is only for threads that were not read before
	first   map[string][]gchat.Message // by record: what is in the thread that a process began to wait in
	failed  error                      // a reply could not be written down
	covered map[string]bool
}

// list lists the space once, hands each person's message to the record whose thread it is in, page by page, and then notes how
// far it read.
func (r *reader) list(ctx context.Context, v view) (err error) {
	if r.api == nil {
		from := r.from(v)
		if r.api, err = r.gateway(ctx, from.projectDir, from.trusted).newReader(ctx); err != nil {
			return err
		}
	}
	n := &pass{view: v, mark: *r.mark, newest: r.mark.Watermark, first: map[string][]gchat.Message{}}
	n.covered = n.mark.Covered
	n.border = r.now().Add(-overlap)
	if !n.newest.IsZero() {
		n.border = n.newest.Add(-overlap)
	}
	start := n.mark.Resume.Add(-time.Millisecond)
	if n.mark.Resume.IsZero() {
		n.mark.From = since(&n.mark, v, r.now())
		start = n.mark.From
	}
	done, err := r.api.Since(ctx, r.space, start, func(page []gchat.Message) { r.take(n, page) })
	if err == nil {
		err = n.failed
	}
	if done && n.failed == nil {
		r.takeFirst(n)
		n.mark.Resume, n.mark.Watermark, n.mark.Covered = time.Time{}, n.newest, map[string]bool{}
		for _, qs := range v.records {
			for _, q := range qs {
				if n.covered[q.QuestionID] || !begins(q).Before(n.mark.From) {
					n.mark.Covered[q.QuestionID] = true
				}
			}
		}
		if err == nil {
			err = n.failed
		}
	}
	if n.failed != nil {
		return err // what could not be written down is read again
	}
	r.note(n)
	return err
}

// note writes down how far the space was read.
func (r *reader) note(n *pass) {
	was, is := r.mark, &n.mark
	same := is.Watermark.Equal(was.Watermark) && is.Resume.Equal(was.Resume) && maps.Equal(is.Covered, was.Covered)
	if r.mark = is; same {
		return
	}
	if _, err := state.SpacesIn(r.user()).Change(r.chat, func(s *state.Space) {
		s.Watermark, s.From, s.Resume, s.Covered = is.Watermark, is.From, is.Resume, is.Covered
	}); err != nil {
		r.logOnce(err, "watermark not written down")
	}
	for name := range r.seen {
		if at, _, _ := strings.Cut(r.seen[name], " "); at < is.Watermark.Add(-overlap-time.Minute).UTC().Format(time.RFC3339) {
			delete(r.seen, name)
		}
	}
}

// begins is from when on the messages of a record's thread have to be read.
func begins(q *state.Question) time.Time {
	switch {
	case q.Mode == state.Thread && q.PostedAt == nil: // since the last message of ours, which may be hours old
		return q.AskedAt.Add(-state.MaxAge)
	case q.PostedAt != nil:
		return q.PostedAt.Add(-overlap)
	}
	return q.AskedAt.Add(-clockSlack)
}

// since is where a list begins: at the watermark, or further back for a question whose thread was never read, and never more
// than the age of a question.
func since(mark *state.Space, v view, now time.Time) time.Time {
	from := mark.Watermark
	if !from.IsZero() {
		from = from.Add(-overlap)
	}
	for _, qs := range v.records {
		for _, q := range qs {
			if !q.Answerable() || mark.Covered[q.QuestionID] && !mark.Watermark.IsZero() {
				continue
			}
			if t := begins(q); from.IsZero() || t.Before(from) {
				from = t
			}
		}
	}
	if oldest := now.Add(-state.MaxAge - clockSlack); from.Before(oldest) {
		return oldest
	}
	return from
}

// take hands over the messages of a page.
func (r *reader) take(n *pass, page []gchat.Message) {
	limit := r.now()
	if ahead, ok := r.api.Ahead(); ok {
		limit = limit.Add(ahead)
	}
	limit = limit.Add(2 * time.Second) // the header counts whole seconds
	given := map[*state.Question][]gchat.Message{}
	for _, m := range page {
		if m.CreateTime.After(limit) {
			// One from the future must not end reading: it moves no watermark.
		} else {
			if m.Human && m.CreateTime.After(n.newest) {
				r.heard = r.now()
			}
			n.newest = later(n.newest, m.CreateTime)
			n.mark.Resume = later(n.mark.Resume, m.CreateTime)
		}
		if m.ThreadName == "" {
			continue
		}
		if !m.Human {
			for _, q := range n.records[m.ThreadName] {
				if m.Name == q.MessageName {
					given[q] = append(given[q], m)
				}
				if n.beginsIn(q) {
					n.first[q.Path] = append(n.first[q.Path], m)
				}
			}
			continue
		}
		if r.seen[m.Name] == saidBy(m) {
			continue
		}
		q, first := n.target(m)
		switch {
		case first:
			n.first[q.Path] = append(n.first[q.Path], m)
		case q != nil && (m.CreateTime.After(n.border) || !n.covered[q.QuestionID] || q.Reply(m.Name) != nil):
			given[q] = append(given[q], m)
		case q == nil && m.CreateTime.After(n.border):
			r.answerNobody(n, m)
		}
	}
	for q, ms := range given {
		r.deliver(n, q, ms)
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// saidBy is when a message was created and what it says by now.
func saidBy(m gchat.Message) string {
	return fmt.Sprint(m.CreateTime.UTC().Format(time.RFC3339), " ", m.Deleted, " ", m.Text)
}

// beginsIn says whether a process began to wait in the thread, which was not read since: the reply that it waits for comes
// after the last message of ours there.
func (n *pass) beginsIn(q *state.Question) bool {
	return q.Mode == state.Thread && q.PostedAt == nil && q.Status == state.Pending
}

// target is the record that a message belongs to, nil for none. Ours have a thread each; other programs may put several
// questions into one, and processes may wait in it: a reply is for the oldest that it can answer. First says that it belongs to
// a process that began to wait in the thread.
func (n *pass) target(m gchat.Message) (q *state.Question, first bool) {
	var begun, over *state.Question
	all := n.records[m.ThreadName]
	for _, one := range all {
		if one.Reply(m.Name) != nil {
			return one, false
		}
	}
	for _, one := range all {
		switch {
		case n.beginsIn(one):
			begun = cmp.Or(begun, one)
		case one.Mode == state.Thread:
			if one.Status == state.Pending && m.CreateTime.Truncate(time.Millisecond).After(*one.PostedAt) {
				return one, false
			}
		case one.Answerable():
			return one, false
		default:
			over = cmp.Or(over, one)
		}
	}
	if begun != nil {
		return begun, true
	}
	return over, false
}

// takeFirst gives a process that began to wait in a thread what people said there after the last message of ours.
func (r *reader) takeFirst(n *pass) {
	for _, qs := range n.records {
		for _, q := range qs {
			if !n.beginsIn(q) {
				continue
			}
			after := q.AskedAt.Add(-dateSlack)
			var said []gchat.Message
			for _, m := range n.first[q.Path] {
				if m.Human {
					said = append(said, m)
				} else {
					after, said = m.CreateTime, nil
				}
			}
			said = slices.DeleteFunc(said, func(m gchat.Message) bool { return !m.CreateTime.After(after) })
			if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
				q.PostedAt = &after
				return nil
			}); err != nil {
				n.failed = err
				continue
			}
			r.deliver(n, q, said)
		}
	}
}

// answerNobody tells a person who wrote into a thread of a session's reports that no process waits for a reply there.
func (r *reader) answerNobody(n *pass, m gchat.Message) {
	one := n.sessions[m.ThreadName]
	if one == nil || one.Env != r.environment || m.Deleted || m.Sender == "" || cmp.Or(one.Chat, r.chat) != r.chat {
		return
	}
	if !Named(r.config(one.ProjectDir, one.Trusted).AllowedUsers, m.Sender, m.SenderEmail) {
		return
	}
	if err := r.putNobody(one, m.Name); err != nil {
		r.logOnce(err, "note not put into the outbox")
		return
	}
	r.seen[m.Name] = saidBy(m)
	r.sender.changed()
}

// deliver writes people's messages into the file of the question that they belong to. The poller of that question's
// environment judges them.
func (r *reader) deliver(n *pass, q *state.Question, ms []gchat.Message) {
	if len(ms) == 0 {
		return
	}
	_, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
		changed := false
		for _, m := range ms {
			changed = store(q, m) || changed
		}
		if !changed {
			return state.ErrUnchanged
		}
		return nil
	})
	if err != nil {
		r.logOnce(err, "replies not written down")
		n.failed = cmp.Or(n.failed, err)
		return
	}
	for _, m := range ms {
		r.seen[m.Name] = saidBy(m)
	}
}

// store copies a message into the file of its question. It reports whether that was news.
func store(q *state.Question, m gchat.Message) bool {
	if !m.Human {
		born := m.CreateTime.Truncate(time.Millisecond) // as the question's file has it
		if m.Name != q.MessageName || q.PostedAt != nil && q.PostedAt.Equal(born) {
			return false
		}
		q.PostedAt = &born
		return true
	}
	text := gchat.Cut(m.Text, gchat.MaxText)
	r := q.Reply(m.Name)
	switch {
	case r == nil && (m.Deleted || m.Sender == "" || !makeRoom(q)):
		return false
	case r == nil:
		q.Replies = append(q.Replies, state.Reply{
			MessageName: m.Name, Sender: m.Sender, SenderEmail: m.SenderEmail, DisplayName: m.DisplayName,
			Text: text, CreateTime: m.CreateTime,
		})
		return true
	case r.Verdict != state.Unread: // an edit or a deletion counts until the reply is judged
		return false
	case m.Deleted:
		r.Verdict = state.Ignored
		return true
	case r.Text == text || m.Sender != r.Sender:
		return false
	}
	r.Text = text
	return true
}

// makeRoom says whether there is room for one more reply. When there are many, the words of the oldest that was no answer
// go, but its name stays: the list shows the message again for a while, and it must not pass for a new one.
func makeRoom(q *state.Question) bool {
	spent := func(r state.Reply) bool {
		return r.Verdict != state.Unread && r.Verdict != state.Used && r.Verdict != state.Kept
	}
	if len(q.Replies) >= mostReplies {
		if i := slices.IndexFunc(q.Replies, func(r state.Reply) bool { return spent(r) && r.Text != "" }); i >= 0 {
			q.Replies[i].Text = ""
		}
	}
	if len(q.Replies) >= mostNames {
		if i := slices.IndexFunc(q.Replies, spent); i >= 0 {
			q.Replies = slices.Delete(q.Replies, i, i+1)
		}
	}
	return len(q.Replies) < mostNames
}

// tell says how a list went: for status, in the log when that is news, and once in the open threads when only a person can
// mend it.
func (r *reader) tell(err error, v view) {
	was := r.mark.Trouble
	if err == nil {
		if was != nil {
			r.Log.Info().Str("chat", r.chat).Time("since", was.Since).Msg("replies are read again")
			r.setTrouble(nil)
		}
		return
	}
	is := state.ReadTrouble{
		Since: r.now().UTC(), Why: r.Log.Clean(err.Error()),
		Degraded: r.trouble.degraded(), Refused: gchat.AuthFailure(err) || gchat.Permanent(err),
	}
	if was != nil {
		is.Since = was.Since
	}
	if was == nil || *was != is { // not with every cycle of an outage
		r.Log.Error().Str("chat", r.chat).Str("error", is.Why).Str("hint", gchat.Hint(err)).Bool("degraded", is.Degraded).
			Msg("replies cannot be read")
		r.setTrouble(&is)
	}
	if !is.Degraded && !errors.Is(err, gchat.ErrCredentials) {
		return
	}
	why := fmt.Sprintf("%s. Hint: %s", gchat.Line(is.Why), gchat.Hint(err))
	for _, s := range v.own {
		if s.q.ToldUnread || s.q.Mode == state.Thread {
			continue
		}
		if _, err := state.UpdateQuestion(s.Path, func(q *state.Question) error {
			if q.ToldUnread || q.Status != state.Pending {
				return state.ErrUnchanged
			}
			q.ToldUnread = true
			q.Owes = append(q.Owes, state.Owed{About: state.NoteUnread, Seen: why})
			return nil
		}); err != nil {
			r.logOnce(err, "thread not told that replies cannot be read")
		}
	}
}

func (r *reader) setTrouble(t *state.ReadTrouble) {
	r.mark.Trouble = t
	if _, err := state.SpacesIn(r.user()).Change(r.chat, func(s *state.Space) { s.Trouble = t }); err != nil {
		r.logOnce(err, "trouble not written down")
	}
}

// trouble counts the failures of listing and says how long to leave Chat alone.
type trouble struct {
	overloaded int
	auth       int
}

// after is the pause after err; 0 means the usual cycle.
func (t *trouble) after(err error) time.Duration {
	switch {
	case err == nil:
		*t = trouble{}
	case gchat.AuthFailure(err):
		t.auth++
		return refusedPause
	case gchat.Permanent(err): // 400, 404: a person has to look, or the space is being made
		if t.auth++; !t.degraded() {
			return 0
		}
		return refusedPause
	case gchat.Overloaded(err):
		d := mostBackup
		if t.overloaded < 4 {
			d = min(firstBackup<<t.overloaded, mostBackup)
		}
		t.overloaded++
		// What Chat asks for counts, also when it is less than our own rule: it knows when the quota is back.
		if asked := gchat.RetryAfter(err); asked > 0 {
			return asked
		}
		return d
	}
	return 0
}

func (t *trouble) degraded() bool { return t.auth >= authTries }
