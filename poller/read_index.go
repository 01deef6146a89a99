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
	isInNamedFolder bool        // a person named the record's folder: there is no index entry
	entryInfo       os.FileInfo // of the index entry's file
	recordInfo      os.FileInfo // of the record's file, when the poller last looked at it
	realPath        string      // the record's path with symbolic links in its folder resolved

	// The id that the buttons of the question's card carry; "" until it is needed.
	cardID string
	// The question as it was last read; it must not be changed. It is nil while the
	// file cannot be read.
	question        *state.Question
	isMissing       bool // the record's file does not exist
	isUnreadable    bool // the system does not let the poller read the file
	isUnsentMessage bool // the record is an outgoing message that is neither sent nor set aside

	entryLock      *state.Lock     // of the index entry's file
	lockedQuestion *state.Question // the question when the lock was last checked
	relockAt       time.Time       // the lock is not locked before this time
	relockPause    time.Duration   // doubles with each try to lock that fails

	isDone         bool      // the question is closed, and the poller has nothing left to do for it
	isEnqueued     bool      // its message is in the outbox
	isCallEnqueued bool      // the call that it waits is in the outbox
	hasSeenDialog  bool      // its dialog was seen waiting in the terminal
	isDialogGone   bool      // and was missing at a later look
	dialogGoneAt   time.Time // when the dialog was first missing
	hasCheckedKeys bool      // tmux was asked whether its person types
	isPersonTyping bool      // its person types in its pane; see graceEnd
	notedGrantUses int       // how many uses of its yes for a while stand in the last note
	// When the yes for a while ends by this process's own clock, which nobody sets
	// back.
	grantEndsAt time.Time
	// A yes for a while would answer it, but an incoming message is still unread.
	isWaitingForGrant bool
	isTyping          atomic.Bool // a goroutine is typing its answer

	isCheckingKeys atomic.Bool              // a goroutine is checking the keyboard of its session
	lastKeyCheck   atomic.Pointer[keyCheck] // what the last check saw; nil before the first
	tries          typingTries
}

const (
	// minRelockPause is how long the poller leaves an entry's lock free, so that the
	// processes that wait for it can read the record.
	minRelockPause = 100 * time.Millisecond
	// otherEnvironmentGrace is how long after MaxQuestionAge this poller removes a
	// record that another environment's poller left behind.
	otherEnvironmentGrace = time.Hour
)

// readState reads what is on disk. It reads the inbox first: a record that an inbox
// message refers to was written before the message, so readIndex still finds it.
func (p *Poller) readState() {
	p.readInbox()
	p.readIndex()
	p.readSessions()
}

// readIndex reads the index and the folders that a person named. It reloads each record
// in them that changed.
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
			// a missing folder is tried again with the next scan
			_ = p.callWatcher.Add(dir)
		}
		names, err := state.Questions{Folder: state.Folder[state.Question]{Dir: dir}}.Names()
		p.Log.ErrorOnce(err, "folder not read")
		realDir := state.RealPath(dir)
		for _, name := range names {
			path, realPath := filepath.Join(dir, name+".json"), filepath.Join(realDir, name+".json")
			isThere[realPath] = !isIndexed[realPath]
			if p.ownRecords[realPath] == nil && isThere[realPath] {
				p.ownRecords[realPath] = &trackedRecord{
					IndexEntry: &state.IndexEntry{
						RecordType:  state.IndexedQuestion,
						Path:        path,
						Environment: p.environment,
					},
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

// readIndexEntry reads an entry whose file is new or was replaced, and starts a fresh
// trackedRecord for it. While the answer is being typed, the earlier one stays.
func (p *Poller) readIndexEntry(
	record *trackedRecord,
	file string,
	dirEntry os.DirEntry,
) *trackedRecord {
	info, err := dirEntry.Info()
	if err != nil {
		return nil
	}
	if record != nil && (os.SameFile(record.entryInfo, info) || record.isTyping.Load()) {
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
	delete(p.ownRecords, file) // the entry may have moved to another environment
	delete(p.otherRecords, file)
	if entry.Environment == p.environment {
		p.ownRecords[file] = record
	} else {
		p.otherRecords[file] = record
	}
	return record
}

// loadQuestion reads a question from its file. It reads a question that is done only
// after its file changed.
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
	case q == record.question: // unchanged
	case q != nil && q.Kind.Traits().IsPersonal && !p.isInUserState(record):
		// Claude can write in the project. A question whose answer lets Claude act
		// counts only in the person's own state.
		record.question = nil
	case q != nil:
		record.question, record.isDone = q, false
	}
}

func (p *Poller) isInUserState(record *trackedRecord) bool {
	userStateDir := state.RealPath(p.userStateDir) + string(filepath.Separator)
	return strings.HasPrefix(record.realPath, userStateDir)
}

// shrinkDone reduces a question that is done to what a reply in its thread still needs.
// A thousand of them must not fill the memory.
func (p *Poller) shrinkDone(record *trackedRecord) {
	q := record.question
	if record.isDone || q == nil || q.Status.IsOpen() || q.IsLate(p.Now()) {
		return
	}
	if len(q.OwedNotes) > 0 || q.HasUnreadReply() || q.HasActiveGrant() || owesCallEnd(q) {
		return
	}
	reduced := *q
	reduced.Record = state.Record{Path: q.Path}
	reduced.SubQuestions, reduced.Wording, reduced.Response = nil, nil, nil
	reduced.Replies = slices.Clone(q.Replies)
	for i := range reduced.Replies {
		reduced.Replies[i].Text = ""
	}
	record.question, record.lockedQuestion = &reduced, nil
	record.isDone = true
}

// holdEntryLock holds the lock of a record's index entry while the record waits for
// something. Waiting processes block on that lock. The poller releases it with every
// change of the record, so that they wake and read the record. A retryAt that is not
// zero says when to try the lock again.
func (p *Poller) holdEntryLock(record *trackedRecord) (retryAt time.Time) {
	now := p.Now()
	q := record.question
	isWaiting := record.isUnsentMessage ||
		q != nil && (q.Status == state.Pending || q.IsLate(now))
	if record.entryLock != nil && (!isWaiting || q != record.lockedQuestion) {
		release(&record.entryLock)
		record.relockPause, record.relockAt = minRelockPause, now.Add(minRelockPause)
	}
	record.lockedQuestion = q
	if !isWaiting || record.isInNamedFolder || record.entryLock != nil {
		return time.Time{}
	}
	if remaining := record.relockAt.Sub(now); remaining > 0 && remaining <= record.relockPause {
		return record.relockAt
	}
	lock, err := state.TryLockExisting(record.EntryFile)
	if err != nil {
		// A waiting process holds the lock for an instant, a process that is suspended
		// for longer.
		record.relockPause = min(max(2*record.relockPause, minRelockPause), unwatchedPause)
		record.relockAt = now.Add(record.relockPause)
		return record.relockAt
	}
	record.entryLock = lock
	return time.Time{}
}

// removeFromIndex removes the index entry of a record that is gone, unless a process
// waits for the record.
func (p *Poller) removeFromIndex(record *trackedRecord) {
	if record.isInNamedFolder || record.isTyping.Load() {
		return
	}
	if record.entryLock == nil {
		lock, err := state.TryLockExisting(record.EntryFile)
		if state.IsMissing(err) { // the hook that added the entry removed it
			delete(p.ownRecords, record.EntryFile)
			return
		}
		if err != nil {
			return // the next step tries again
		}
		record.entryLock = lock
	}
	p.Log.ErrorOnce(state.RemoveFromIndex(p.Env, record.Path), "record not removed from the index")
	release(&record.entryLock)
	delete(p.ownRecords, record.EntryFile)
	delete(p.otherRecords, record.EntryFile)
}

// readSessions reads all sessions, and finds the session of each thread.
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

// continuesThread reports whether session takes over the thread that former has, too,
// as after /clear.
func (p *Poller) continuesThread(former, session *state.Session) bool {
	isLater := session.LastSeen.After(former.LastSeen)
	if former.ClaudePID != session.ClaudePID || former.ClaudeStart != session.ClaudeStart {
		return isLater && !p.canTakeCommands(former)
	}
	// The person may have returned to the former session with /resume.
	current := inject.SessionIDOf(session.ClaudePID, session.ClaudeStart, session.TranscriptPath)
	return current == session.ID || isLater && current != former.ID
}

// ownOldestFirst returns the records of this environment, the oldest question first.
// Claude Code shows their dialogs in that order.
func (p *Poller) ownOldestFirst() []*trackedRecord {
	return sortOldestFirst(slices.Collect(maps.Values(p.ownRecords)))
}

// allRecords yields the records of all environments, in no order.
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

// allOldestFirst returns the records of all environments, the oldest question first.
func (p *Poller) allOldestFirst() []*trackedRecord {
	return sortOldestFirst(slices.Collect(p.allRecords()))
}

// hasSessionRecord reports whether a question of this environment and this Claude session
// matches.
func (p *Poller) hasSessionRecord(sessionID string, matches func(*trackedRecord) bool) bool {
	for _, record := range p.ownRecords {
		q := record.question
		if q != nil && q.ClaudeSession() == sessionID && matches(record) {
			return true
		}
	}
	return false
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
