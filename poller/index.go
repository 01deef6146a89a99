package poller

import (
	"cmp"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"gchat-hooks/inject"
	"gchat-hooks/state"
)

// served is a record that this poller knows from the index, or from a folder that a person named.
type served struct {
	*state.IndexEntry
	named bool        // a person named the folder that the record is in: it has no Open
	info  os.FileInfo // of the Open's file
	is    os.FileInfo // of the record's file, as it was last looked at
	real  string      // the record's path without links in its folder's name

	card    string          // what the buttons of its card carry; "" while that is not needed
	q       *state.Question // as it was last read, not to be changed; nil while it cannot be read
	missing bool            // the record's file is gone
	hidden  bool            // the system does not let us read it
	waiting bool            // a message that is neither sent nor set aside

	lock     *state.Lock     // of the Open's file
	lockedAs *state.Question // as it was when the lock was taken
	retake   time.Time       // the lock is not taken before
	pause    time.Duration   // until then, longer with each try that failed

	over   bool        // the question is over, and nothing is left to be done about it
	put    bool        // its message was put into the outbox
	shown  bool        // its dialog was seen to wait in the terminal
	gone   bool        // and, at one look since then, no more
	goneAt time.Time   // since when a question's dialog is gone
	looked bool        // tmux was asked for its person's keys
	sits   bool        // its person types in its pane: see graceLeft
	told   int         // how much of what its yes for a while allowed was told
	lasts  time.Time   // when that ends by this process's own clock, which nobody sets back
	unsure bool        // such a yes is to answer it, and something that was said is still to be read
	typing atomic.Bool // a goroutine types its answer

	looking atomic.Bool          // a goroutine looks at the keyboard of its session
	seen    atomic.Pointer[keys] // what the last one saw; nil before
	try     try
}

const (
	// retakePause is how long the lock of an Open stays free for the processes that wait for it.
	retakePause = 100 * time.Millisecond
	// expireOthers is how long after MaxQuestionAge this poller removes what another environment's poller left.
	expireOthers = time.Hour
)

// readRecords reads what is on disk. The inbox is read first: whatever wrote a message there saw
// the record that the message is for, so that record is found afterwards.
func (p *Poller) readRecords() {
	p.scanInbox()
	p.scan()
	p.scanSessions()
}

// scan reads the index, the folders that a person named, and each record in them that changed.
func (p *Poller) scan() {
	folder := filepath.Join(p.user, "open")
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.Log.ErrorOnce(err, "index not read")
		return
	}
	there, paths := map[string]bool{}, map[string]bool{}
	for _, e := range entries {
		file := filepath.Join(folder, e.Name())
		if filepath.Ext(file) != ".open" {
			continue
		}
		s := cmp.Or(p.index[file], p.others[file])
		if s == nil || !s.over {
			s = p.readOpen(s, file, e)
		}
		if s != nil {
			there[file], paths[s.real] = true, true
		}
	}
	for _, dir := range p.Dirs {
		if p.watch != nil {
			_ = p.watch.Add(dir) // one that is not there yet is tried again with the next scan
		}
		names, err := state.Questions{Folder: state.Folder[state.Question]{Dir: dir}}.Names()
		p.Log.ErrorOnce(err, "folder not read")
		at := state.RealPath(dir)
		for _, name := range names {
			path, real := filepath.Join(dir, name+".json"), filepath.Join(at, name+".json")
			there[real] = !paths[real]
			if p.index[real] == nil && there[real] {
				o := &state.IndexEntry{RecordType: state.IndexedQuestion, Path: path, Environment: p.environment}
				p.index[real] = &served{IndexEntry: o, named: true, real: real}
			}
		}
	}
	cards := map[string]*served{}
	for _, records := range []map[string]*served{p.index, p.others} {
		for file, s := range records {
			if !there[file] && !s.typing.Load() {
				release(&s.lock)
				delete(records, file)
				continue
			}
			p.load(s)
			if s.q != nil {
				if s.card == "" {
					s.card = state.CardID(p.Env, s.q.QuestionID)
				}
				cards[s.card] = s
			}
		}
	}
	p.cards.Store(&cards)
	p.records.ForgetUnused()
}

func (p *Poller) readOpen(s *served, file string, e os.DirEntry) *served {
	info, err := e.Info()
	if err != nil {
		return nil
	}
	if s != nil && os.SameFile(s.info, info) || s != nil && s.typing.Load() {
		return s
	}
	o, err := state.ReadIndexEntry(file)
	if err != nil {
		return nil
	}
	if s != nil {
		release(&s.lock)
	}
	dir, name := filepath.Split(o.Path)
	s = &served{IndexEntry: o, info: info, real: filepath.Join(state.RealPath(dir), name)}
	delete(p.index, file) // another environment may have taken it over
	delete(p.others, file)
	if o.Environment == p.environment {
		p.index[file] = s
	} else {
		p.others[file] = s
	}
	return s
}

// load reads a question as it stands now; one that is over, when its file changed.
func (p *Poller) load(s *served) {
	was := s.is
	var err error
	s.is, err = os.Lstat(s.Path)
	s.missing = errors.Is(err, fs.ErrNotExist)
	if s.missing {
		s.q = nil
	}
	if s.missing || s.RecordType == state.IndexedMessage || s.over && state.IsSameVersion(was, s.is) {
		return
	}
	q, err := p.records.Load(s.Path, s.named)
	s.hidden = errors.Is(err, fs.ErrPermission)
	switch {
	case err != nil:
		s.q = nil
		p.Log.ErrorOnce(err, "question not read")
	case q == s.q: // as it was
	case q != nil && q.Kind.Traits().IsPersonal && !strings.HasPrefix(s.real, state.RealPath(p.user)+string(filepath.Separator)):
		s.q = nil // Claude may write in the project: what lets it act stands in the person's own state alone
	case q != nil:
		s.q, s.over = q, false
	}
}

// shrink keeps of a question that is over what a reply in its thread needs: a thousand of them must not fill the memory.
func (p *Poller) shrink(s *served) {
	q := s.q
	if s.over || q == nil || q.Status.IsOpen() || q.IsLate(p.Now()) || len(q.OwedNotes) > 0 || q.HasUnreadReply() || q.HasActiveGrant() {
		return
	}
	small := *q
	small.Record, small.SubQuestions, small.Wording, small.Response = state.Record{Path: q.Path}, nil, nil, nil
	small.Replies = slices.Clone(q.Replies)
	for i := range small.Replies {
		small.Replies[i].Text = ""
	}
	s.q, s.lockedAs, s.over = &small, nil, true
}

// hold keeps the lock of a record's Open, on which waiting processes block, while the record waits for something. They are let
// go with every change of the record.
func (p *Poller) hold(s *served) (again time.Time) {
	now := p.Now()
	waits := s.waiting || s.q != nil && (s.q.Status == state.Pending || s.q.IsLate(now))
	if s.lock != nil && (!waits || s.q != s.lockedAs) {
		release(&s.lock)
		s.pause, s.retake = retakePause, now.Add(retakePause)
	}
	s.lockedAs = s.q
	if !waits || s.named || s.lock != nil {
		return time.Time{}
	}
	if left := s.retake.Sub(now); left > 0 && left <= s.pause {
		return s.retake
	}
	lock, err := state.TryLockExisting(s.EntryFile)
	if err != nil { // a process that waits holds it for an instant, a stopped one for longer
		s.pause = min(max(2*s.pause, retakePause), unwatched)
		s.retake = now.Add(s.pause)
		return s.retake
	}
	s.lock = lock
	return time.Time{}
}

// forget takes a record out of the index that is gone, while no process waits for it.
func (p *Poller) forget(s *served) {
	if s.named || s.typing.Load() {
		return
	}
	if s.lock == nil {
		lock, err := state.TryLockExisting(s.EntryFile)
		if state.IsMissing(err) { // the hook that wrote it took it back
			delete(p.index, s.EntryFile)
			return
		}
		if err != nil {
			return // with the next step
		}
		s.lock = lock
	}
	p.Log.ErrorOnce(state.RemoveFromIndex(p.Env, s.Path), "record not forgotten")
	release(&s.lock)
	delete(p.index, s.EntryFile)
	delete(p.others, s.EntryFile)
}

func (p *Poller) scanSessions() {
	folder := state.SessionsIn(p.user)
	names, err := folder.Names()
	p.Log.ErrorOnce(err, "sessions not read")
	p.sessions, p.ownSessions, p.byThread = nil, nil, map[string]*state.Session{}
	for _, name := range names {
		s, err := p.sessionFiles.Load(filepath.Join(folder.Dir, name+".json"), false)
		if err != nil || s == nil {
			continue
		}
		p.sessions = append(p.sessions, s)
		if s.Environment == p.environment {
			p.ownSessions = append(p.ownSessions, s)
		}
		if s.ThreadName == "" {
			continue
		}
		was := p.byThread[s.ThreadName]
		if was == nil || p.threadGoesOn(was, s) {
			p.byThread[s.ThreadName] = s
		}
	}
	p.sessionFiles.ForgetUnused()
}

// threadGoesOn says whether a thread that two sessions have, after /clear, goes on with the second of them.
func (p *Poller) threadGoesOn(was, s *state.Session) bool {
	later := s.LastSeen.After(was.LastSeen)
	if was.ClaudePID != s.ClaudePID || was.ClaudeStart != s.ClaudeStart {
		return later && !p.takesCommands(was)
	}
	now := inject.SessionOf(s.ClaudePID, s.ClaudeStart, s.TranscriptPath) // its person may have gone back, with /resume
	return now == s.ID || later && now != was.ID
}

// inOrder are the records of the index, the oldest question first, as Claude Code shows their dialogs.
func (p *Poller) inOrder() []*served { return sorted(slices.Collect(maps.Values(p.index))) }

// everyRecord gives the records of all environments, in no order.
func (p *Poller) everyRecord() iter.Seq[*served] {
	return func(yield func(*served) bool) {
		for _, records := range []map[string]*served{p.index, p.others} {
			for _, s := range records {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// ofAll are the records of all environments, the oldest question first.
func (p *Poller) ofAll() []*served { return sorted(slices.Collect(p.everyRecord())) }

func sorted(all []*served) []*served {
	asked := func(s *served) time.Time {
		if s.q != nil {
			return s.q.AskedAt
		}
		return s.AddedAt
	}
	slices.SortFunc(all, func(a, b *served) int { return cmp.Or(asked(a).Compare(asked(b)), strings.Compare(a.Path, b.Path)) })
	return all
}
