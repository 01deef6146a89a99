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

// trackedRecord is a record that this poller knows from the index, or from a folder that
// a person named.
type trackedRecord struct {
	*state.IndexEntry
	isInNamedFolder bool        // a person named the folder that the record is in: it has no Open
	entryInfo       os.FileInfo // of the Open's file
	recordInfo      os.FileInfo // of the record's file, as it was last looked at
	realPath        string      // the record's path without links in its folder's name

	// what the buttons of its card carry; "" while that is not needed
	cardID string
	// as it was last read, not to be changed; nil while it cannot be read
	question        *state.Question
	isMissing       bool // the record's file is gone
	isUnreadable    bool // the system does not let us read it
	isUnsentMessage bool // a message that is neither sent nor set aside

	entryLock      *state.Lock     // of the Open's file
	lockedQuestion *state.Question // as it was when the lock was taken
	relockAt       time.Time       // the lock is not taken before
	relockPause    time.Duration   // until then, longer with each try that failed

	isDone         bool      // the question is over, and nothing is left to be done about it
	isEnqueued     bool      // its message was put into the outbox
	hasSeenDialog  bool      // its dialog was seen to wait in the terminal
	isDialogGone   bool      // and, at one look since then, no more
	dialogGoneAt   time.Time // since when a question's dialog is gone
	hasCheckedKeys bool      // tmux was asked for its person's keys
	isPersonTyping bool      // its person types in its pane: see graceEnd
	notedGrantUses int       // how much of what its yes for a while allowed was told
	// when that ends by this process's own clock, which nobody sets back
	grantEndsAt time.Time
	// such a yes is to answer it, and something that was said is still to be read
	isWaitingForGrant bool
	isTyping          atomic.Bool // a goroutine types its answer

	isCheckingKeys atomic.Bool              // a goroutine looks at the keyboard of its session
	lastKeyCheck   atomic.Pointer[keyCheck] // what the last one saw; nil before
	tries          typingTries
}

const (
	// minRelockPause is how long the lock of an Open stays free for the processes that
	// wait for it.
	minRelockPause = 100 * time.Millisecond
	// otherEnvironmentGrace is how long after MaxQuestionAge this poller removes what
	// another environment's poller left.
	otherEnvironmentGrace = time.Hour
)

// readState reads what is on disk. The inbox is read first: whatever wrote a message
// there saw the record that the message is for, so that record is found afterwards.
func (p *Poller) readState() {
	p.readInbox()
	p.readIndex()
	p.readSessions()
}

// readIndex reads the index, the folders that a person named, and each record in them
// that changed.
func (p *Poller) readIndex() {
	folder := filepath.Join(p.userStateDir, "open")
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.Log.ErrorOnce(err, "index not read")
		return
	}
	isThere, isIndexed := map[string]bool{}, map[string]bool{}
	for _, dirEntry := range entries {
		file := filepath.Join(folder, dirEntry.Name())
		if filepath.Ext(file) != ".open" {
			continue
		}
		record := cmp.Or(p.ownRecords[file], p.otherRecords[file])
		if record == nil || !record.isDone {
			record = p.readIndexEntry(record, file, dirEntry)
		}
		if record != nil {
			isThere[file], isIndexed[record.realPath] = true, true
		}
	}
	for _, dir := range p.QuestionDirs {
		if p.callWatcher != nil {
			// one that is not there yet is tried again with the next scan
			_ = p.callWatcher.Add(dir)
		}
		names, err := state.Questions{Folder: state.Folder[state.Question]{Dir: dir}}.Names()
		p.Log.ErrorOnce(err, "folder not read")
		realDir := state.RealPath(dir)
		for _, name := range names {
			path, realPath := filepath.Join(dir, name+".json"), filepath.Join(realDir, name+".json")
			isThere[realPath] = !isIndexed[realPath]
			if p.ownRecords[realPath] == nil && isThere[realPath] {
				entry := &state.IndexEntry{
					RecordType:  state.IndexedQuestion,
					Path:        path,
					Environment: p.environment,
				}
				p.ownRecords[realPath] = &trackedRecord{
					IndexEntry:      entry,
					isInNamedFolder: true,
					realPath:        realPath,
				}
			}
		}
	}
	cards := map[string]*trackedRecord{}
	for _, records := range []map[string]*trackedRecord{p.ownRecords, p.otherRecords} {
		for file, record := range records {
			if !isThere[file] && !record.isTyping.Load() {
				release(&record.entryLock)
				delete(records, file)
				continue
			}
			p.loadQuestion(record)
			if record.question != nil {
				if record.cardID == "" {
					record.cardID = state.CardID(p.Env, record.question.QuestionID)
				}
				cards[record.cardID] = record
			}
		}
	}
	p.recordsByCard.Store(&cards)
	p.questionCache.ForgetUnused()
}

func (p *Poller) readIndexEntry(
	record *trackedRecord,
	file string,
	dirEntry os.DirEntry,
) *trackedRecord {
	info, err := dirEntry.Info()
	if err != nil {
		return nil
	}
	if record != nil && os.SameFile(record.entryInfo, info) ||
		record != nil && record.isTyping.Load() {
		return record
	}
	entry, err := state.ReadIndexEntry(file)
	if err != nil {
		return nil
	}
	if record != nil {
		release(&record.entryLock)
	}
	dir, name := filepath.Split(entry.Path)
	record = &trackedRecord{
		IndexEntry: entry,
		entryInfo:  info,
		realPath:   filepath.Join(state.RealPath(dir), name),
	}
	delete(p.ownRecords, file) // another environment may have taken it over
	delete(p.otherRecords, file)
	if entry.Environment == p.environment {
		p.ownRecords[file] = record
	} else {
		p.otherRecords[file] = record
	}
	return record
}

// loadQuestion reads a question as it stands now; one that is over, when its file
// changed.
func (p *Poller) loadQuestion(record *trackedRecord) {
	earlierInfo := record.recordInfo
	var err error
	record.recordInfo, err = os.Lstat(record.Path)
	record.isMissing = errors.Is(err, fs.ErrNotExist)
	if record.isMissing {
		record.question = nil
	}
	if record.isMissing || record.RecordType == state.IndexedMessage ||
		record.isDone && state.IsSameVersion(earlierInfo, record.recordInfo) {
		return
	}
	q, err := p.questionCache.Load(record.Path, record.isInNamedFolder)
	record.isUnreadable = errors.Is(err, fs.ErrPermission)
	switch {
	case err != nil:
		record.question = nil
		p.Log.ErrorOnce(err, "question not read")
	case q == record.question: // as it was
	case q != nil && q.Kind.Traits().IsPersonal && !strings.HasPrefix(record.realPath, state.RealPath(p.userStateDir)+string(filepath.Separator)):
		// Claude may write in the project: what lets it act stands in the person's own
		// state alone
		record.question = nil
	case q != nil:
		record.question, record.isDone = q, false
	}
}

// shrinkDone keeps of a question that is over what a reply in its thread needs: a
// thousand of them must not fill the memory.
func (p *Poller) shrinkDone(record *trackedRecord) {
	q := record.question
	if record.isDone || q == nil || q.Status.IsOpen() || q.IsLate(p.Now()) ||
		len(q.OwedNotes) > 0 ||
		q.HasUnreadReply() ||
		q.HasActiveGrant() {
		return
	}
	reduced := *q
	reduced.Record, reduced.SubQuestions, reduced.Wording, reduced.Response = state.Record{
		Path: q.Path,
	}, nil, nil, nil
	reduced.Replies = slices.Clone(q.Replies)
	for i := range reduced.Replies {
		reduced.Replies[i].Text = ""
	}
	record.question, record.lockedQuestion, record.isDone = &reduced, nil, true
}

// holdEntryLock keeps the lock of a record's Open, on which waiting processes block,
// while the record waits for something. They are let go with every change of the record.
func (p *Poller) holdEntryLock(record *trackedRecord) (retryAt time.Time) {
	now := p.Now()
	isWaiting := record.isUnsentMessage ||
		record.question != nil &&
			(record.question.Status == state.Pending || record.question.IsLate(now))
	if record.entryLock != nil && (!isWaiting || record.question != record.lockedQuestion) {
		release(&record.entryLock)
		record.relockPause, record.relockAt = minRelockPause, now.Add(minRelockPause)
	}
	record.lockedQuestion = record.question
	if !isWaiting || record.isInNamedFolder || record.entryLock != nil {
		return time.Time{}
	}
	if remaining := record.relockAt.Sub(now); remaining > 0 && remaining <= record.relockPause {
		return record.relockAt
	}
	lock, err := state.TryLockExisting(record.EntryFile)
	if err != nil { // a process that waits holds it for an instant, a stopped one for longer
		record.relockPause = min(max(2*record.relockPause, minRelockPause), unwatchedPause)
		record.relockAt = now.Add(record.relockPause)
		return record.relockAt
	}
	record.entryLock = lock
	return time.Time{}
}

// removeFromIndex takes a record out of the index that is gone, while no process waits
// for it.
func (p *Poller) removeFromIndex(record *trackedRecord) {
	if record.isInNamedFolder || record.isTyping.Load() {
		return
	}
	if record.entryLock == nil {
		lock, err := state.TryLockExisting(record.EntryFile)
		if state.IsMissing(err) { // the hook that wrote it took it back
			delete(p.ownRecords, record.EntryFile)
			return
		}
		if err != nil {
			return // with the next step
		}
		record.entryLock = lock
	}
	p.Log.ErrorOnce(state.RemoveFromIndex(p.Env, record.Path), "record not forgotten")
	release(&record.entryLock)
	delete(p.ownRecords, record.EntryFile)
	delete(p.otherRecords, record.EntryFile)
}

func (p *Poller) readSessions() {
	folder := state.SessionsIn(p.userStateDir)
	names, err := folder.Names()
	p.Log.ErrorOnce(err, "sessions not read")
	p.sessions, p.ownSessions, p.sessionsByThread = nil, nil, map[string]*state.Session{}
	for _, name := range names {
		session, err := p.sessionCache.Load(filepath.Join(folder.Dir, name+".json"), false)
		if err != nil || session == nil {
			continue
		}
		p.sessions = append(p.sessions, session)
		if session.Environment == p.environment {
			p.ownSessions = append(p.ownSessions, session)
		}
		if session.ThreadName == "" {
			continue
		}
		other := p.sessionsByThread[session.ThreadName]
		if other == nil || p.continuesThread(other, session) {
			p.sessionsByThread[session.ThreadName] = session
		}
	}
	p.sessionCache.ForgetUnused()
}

// continuesThread says whether a thread that two sessions have, after /clear, goes on
// with the second of them.
func (p *Poller) continuesThread(former, session *state.Session) bool {
	isLater := session.LastSeen.After(former.LastSeen)
	if former.ClaudePID != session.ClaudePID || former.ClaudeStart != session.ClaudeStart {
		return isLater && !p.canTakeCommands(former)
	}
	// its person may have gone back, with /resume
	current := inject.SessionIDOf(session.ClaudePID, session.ClaudeStart, session.TranscriptPath)
	return current == session.ID || isLater && current != former.ID
}

// ownOldestFirst are the records of the index, the oldest question first, as Claude Code
// shows their dialogs.
func (p *Poller) ownOldestFirst() []*trackedRecord {
	return sortOldestFirst(slices.Collect(maps.Values(p.ownRecords)))
}

// allRecords gives the records of all environments, in no order.
func (p *Poller) allRecords() iter.Seq[*trackedRecord] {
	return func(yield func(*trackedRecord) bool) {
		for _, records := range []map[string]*trackedRecord{p.ownRecords, p.otherRecords} {
			for _, record := range records {
				if !yield(record) {
					return
				}
			}
		}
	}
}

// allOldestFirst are the records of all environments, the oldest question first.
func (p *Poller) allOldestFirst() []*trackedRecord {
	return sortOldestFirst(slices.Collect(p.allRecords()))
}

func sortOldestFirst(records []*trackedRecord) []*trackedRecord {
	askedAt := func(record *trackedRecord) time.Time {
		if record.question != nil {
			return record.question.AskedAt
		}
		return record.AddedAt
	}
	slices.SortFunc(records, func(a, b *trackedRecord) int {
		return cmp.Or(askedAt(a).Compare(askedAt(b)), strings.Compare(a.Path, b.Path))
	})
	return records
}
