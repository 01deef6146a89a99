package state

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

// IndexEntry is a file in the user's state that names an open record: a question that one
// of our hooks or commands wrote, or a message that a process waits for. The poller acts
// only on records that have an entry, so that records, panes and threads in a repository
// that somebody else made have no effect. The entry is written once, before its record is
// due, and is removed with its record.
//
// The poller holds the file's lock while it serves the record; waiting processes block on
// a shared lock of it.
type IndexEntry struct {
	RecordType  string `json:"kind"`                  // IndexedQuestion or IndexedMessage
	Path        string `json:"path"`                  // of the record
	Environment string `json:"env"`                   // see the function Environment
	ProjectDir  string `json:"project_dir,omitempty"` // absolute
	IsTrusted   bool   `json:"trusted,omitempty"`     // the project's own files count
	// the only pane that an answer may be typed into
	TmuxPane   string    `json:"tmux_pane,omitempty"`
	TmuxSocket string    `json:"tmux_socket,omitempty"`
	AddedAt    time.Time `json:"at"`

	EntryFile string `json:"-"` // where the entry itself is
}

const (
	IndexedQuestion = "question"
	IndexedMessage  = "message"
)

// IndexFile returns the path of the index entry of the record at path.
func IndexFile(env Getenv, path string) string {
	return filepath.Join(UserStateDir(env), "open", Hash(6, path)+".open")
}

// waiterFile returns the path of the lock that a process holds while it waits for a
// record.
func waiterFile(env Getenv, path string) string {
	return strings.TrimSuffix(IndexFile(env, path), ".open") + ".waiter"
}

// AddToIndex writes the index entry of a record, under this environment. An existing
// entry stays as it is, with one exception: where it belongs to another environment and
// no poller serves that, the entry and the messages about the record move to this
// environment, as when a session is resumed elsewhere.
func AddToIndex(env Getenv, entry IndexEntry) error {
	old, err := ReadIndexEntry(IndexFile(env, entry.Path))
	isThere := err == nil
	switch {
	case !isThere:
		entry.AddedAt = time.Now().UTC()
		entry.IsTrusted = entry.ProjectDir != "" && IsProjectTrusted(env, entry.ProjectDir)
	case old.Environment == Environment(env),
		IsLocked(filepath.Join(pollersDir(env), filepath.Base(old.Environment)+".lock")):
		return nil
	default:
		entry = *old
		isAbout := func(m *Message) bool { return m.Question == entry.Path }
		if err := OutboxIn(UserStateDir(env)).moveToEnvironment(isAbout, Environment(env)); err != nil {
			return fmt.Errorf("add record to index: %w", err)
		}
	}
	entry.Environment = Environment(env)
	if !utf8.ValidString(entry.Path) { // JSON cannot hold the path
		return fmt.Errorf("add record to index: the name of its folder is not valid UTF-8: %q",
			filepath.Dir(entry.Path))
	}
	b, _ := json.Marshal(entry)
	err = unsynced.write(IndexFile(env, entry.Path), b, !isThere)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("add record to index: %w", err)
	}
	return nil
}

// AdoptFormerEnvironment moves the records of this environment that an earlier version
// stored under the environment's former name. While a poller runs under that name, it
// changes nothing: that poller serves them.
func AdoptFormerEnvironment(env Getenv) error {
	former := formerEnvironment(env)
	if IsLocked(filepath.Join(pollersDir(env), former+".lock")) {
		return nil
	}
	isFormer := func(environment string) bool { return environment == former }
	isOfFormer := func(m *Message) bool { return isFormer(m.Environment) }
	entries, err := IndexEntries(env)
	outbox := OutboxIn(UserStateDir(env))
	failed := errors.Join(err, outbox.moveToEnvironment(isOfFormer, Environment(env)))
	for _, entry := range entries {
		if isFormer(entry.Environment) {
			failed = errors.Join(failed, AddToIndex(env, *entry))
		}
	}
	sessionFolder := SessionsIn(UserStateDir(env))
	sessions, _ := sessionFolder.All()
	for _, session := range sessions {
		if isFormer(session.Environment) {
			_, err := sessionFolder.Change(session.ID, func(session *Session) {
				session.Environment = Environment(env)
			})
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// IsInIndex reports whether a record has an index entry.
func IsInIndex(env Getenv, path string) bool { return fileExists(IndexFile(env, path)) }

// AddQuestionToIndex adds a question that one of our hooks or commands just wrote to the
// index; see AddToIndex.
func AddQuestionToIndex(env Getenv, question *Question) error {
	return AddToIndex(env, IndexEntry{
		RecordType: IndexedQuestion, Path: question.Path, ProjectDir: question.ProjectDir,
		TmuxPane: question.TmuxPane, TmuxSocket: question.TmuxSocket,
	})
}

// IndexEntries returns the entries of all open records of every environment, in no order.
// Entries that cannot be parsed are skipped.
func IndexEntries(env Getenv) (all []*IndexEntry, err error) {
	dir := filepath.Join(UserStateDir(env), "open")
	entries, err := os.ReadDir(dir)
	if err != nil && !IsMissing(err) {
		return nil, fmt.Errorf("list open records: %w", err)
	}
	for _, file := range entries {
		if !strings.HasSuffix(file.Name(), ".open") {
			continue
		}
		if entry, err := ReadIndexEntry(filepath.Join(dir, file.Name())); err == nil {
			all = append(all, entry)
		}
	}
	return all, nil
}

// ReadIndexEntry reads an index entry by its file.
func ReadIndexEntry(file string) (*IndexEntry, error) {
	b, err := ReadPlain(file, 64<<10)
	if err != nil {
		return nil, err
	}
	entry := &IndexEntry{EntryFile: file}
	if err := json.Unmarshal(b, entry); err != nil {
		return nil, err
	}
	if entry.Path == "" || !filepath.IsAbs(entry.Path) {
		return nil, errors.New("the index entry has no absolute path")
	}
	return entry, nil
}

// ReadIndexedQuestions reads the questions of the index, of every environment, newest
// first. With texts it reads only those whose files contain one of them; see
// OpenStatusTexts. Questions whose files are gone are left out. Files that cannot be
// parsed stay where they are, and their errors are returned in bad.
func ReadIndexedQuestions(env Getenv, texts ...string) (questions []*Question, bad []error) {
	entries, err := IndexEntries(env)
	if err != nil {
		return nil, []error{err}
	}
	skip := func(_ string, file []byte) bool { return !hasStatusText(file, texts) }
	buf := bytes.Buffer{}
	for _, entry := range entries {
		if entry.RecordType != IndexedQuestion {
			continue
		}
		folder := Folder[Question]{Dir: filepath.Dir(entry.Path), KeepsDamaged: true}
		q, err := folder.loadUnless(skip, RecordName(entry.Path), &buf)
		switch {
		case q != nil:
			questions = append(questions, q)
		case err != nil && !IsMissing(err):
			bad = append(bad, err)
		}
	}
	SortNewestFirst(questions)
	return questions, bad
}

// FindQuestion returns the newest question of the index with this id, thread key or
// thread name; nil where there is none.
func FindQuestion(env Getenv, name string) *Question {
	qs, _ := ReadIndexedQuestions(env)
	isMeant := func(q *Question) bool { return name != "" && hasName(q, name) }
	if i := slices.IndexFunc(qs, isMeant); i >= 0 {
		return qs[i]
	}
	return nil
}

func hasName(q *Question, name string) bool {
	return name == q.QuestionID || name == q.ThreadKey || name == q.ThreadName
}

// SessionThreadKey returns the key of a session's own thread.
func SessionThreadKey(sessionID string) (key string) { return "session-" + sessionID }

// sessionOfThreadKey returns the session whose own thread has this key; ok is false for
// the key of another thread.
func sessionOfThreadKey(key string) (sessionID string, ok bool) {
	return strings.CutPrefix(key, "session-")
}

// FindThreadName returns the name of the thread with this key, as far as a session, a
// question or a message in the outbox knows it; otherwise "".
func FindThreadName(env Getenv, key string) (name string) {
	if key == "" {
		return ""
	}
	user := UserStateDir(env)
	id, ofSession := sessionOfThreadKey(key)
	if session, err := SessionsIn(user).Get(id); err == nil {
		name = session.ThreadName
	}
	// only the session's record knows the name of its own thread
	if name != "" || ofSession {
		return name
	}
	if q := FindQuestion(env, key); q != nil {
		name = q.ThreadName
	}
	messages, _ := OutboxIn(user).All()
	for _, m := range messages {
		if m.ThreadKey == key {
			name = cmp.Or(m.ThreadName, name)
		}
	}
	return name
}

// PickQuestion returns the question that a person means by a name: the question's id, its
// thread's key or its thread's name; or its session's name or id, where exactly one
// question of that session can be answered. Where no matching question can be answered,
// it returns a closed one, so that the caller can say that it is over.
func PickQuestion(env Getenv, name string) (*Question, error) {
	qs, bad := ReadIndexedQuestions(env)
	ofSession := func(q *Question, name string) bool {
		return name == q.SessionName || name == q.SessionID || name == q.ClaudeSessionID
	}
	for _, matches := range []func(*Question, string) bool{hasName, ofSession} {
		var open []*Question
		var closed *Question
		for _, q := range qs {
			switch {
			case name == "" || !q.Mode.Traits().Asks || !matches(q, name):
			case q.IsAnswerable() && (!q.Kind.Traits().IsPersonal || hasName(q, name)):
				// a personal question has to be named itself, not by its session
				open = append(open, q)
			case closed == nil:
				closed = q
			}
		}
		switch {
		case len(open) == 1:
			return open[0], nil
		case len(open) > 1:
			var keys []string
			for _, q := range open {
				keys = append(keys, q.ThreadKey)
			}
			return nil, fmt.Errorf("%q could be any of %d questions; name one: %s",
				name, len(open), strings.Join(keys, ", "))
		case closed != nil:
			return closed, nil
		}
	}
	if len(bad) > 0 { // the unreadable file may be the question that is meant
		return nil, fmt.Errorf("no open question %q; %d files could not be read: %w",
			name, len(bad), bad[0])
	}
	return nil, fmt.Errorf("no open question %q", name)
}

// RemoveFromIndex removes a record's index entry and its waiter's lock file. Only the
// poller calls it, for records that are final or gone.
func RemoveFromIndex(env Getenv, path string) error {
	err := os.Remove(IndexFile(env, path))
	os.Remove(waiterFile(env, path))
	if err != nil && !IsMissing(err) {
		return fmt.Errorf("remove record from index: %w", err)
	}
	return nil
}

// LockWaiter makes the caller the one process that waits for a record. The error is
// ErrLocked where another process waits.
func LockWaiter(env Getenv, path string) (l *Lock, err error) {
	for range 5 {
		l, err = TryLock(waiterFile(env, path))
		if !errors.Is(err, ErrLocked) {
			return l, err
		}
		// another process's HasWaiter holds the lock for an instant
		time.Sleep(2 * time.Millisecond)
	}
	return nil, err
}

// HasWaiter reports whether a living process waits for a record.
func HasWaiter(env Getenv, path string) bool { return IsLocked(waiterFile(env, path)) }

const (
	minAwaitPause = 20 * time.Millisecond
	maxAwaitPause = 2 * time.Second
	// serveTimeout is how long a process waits for a running poller to start serving the
	// record: the machine can be busy, and one step of the poller long.
	serveTimeout = 30 * time.Second
)

// ErrUnserved means that the record is gone.
var ErrUnserved = errors.New("the record is gone")

// ErrNoPoller means that no person is asked: no poller can be started, or a running one
// does not serve the record.
var (
	ErrNoPoller  = errors.New("no poller serves it")
	errNotServed = fmt.Errorf("the running poller did not within %s", serveTimeout)
)

// Await waits until done reports that the record at path is final for the caller, and
// returns the record. It causes no wake-ups while it waits: it blocks on the lock that
// the poller holds while it serves the record. If the lock is released and the record is
// not final, the poller died or has not reached the record yet; Await then starts a
// poller and waits again.
//
// The record has to be in the index. self is the path of this program, with which Await
// starts a poller; with "" it starts none. The error is ctx's, ErrUnserved where the
// record's file is gone, *CorruptFileError, or ErrNoPoller: Await waits only while a
// poller serves the record or one may still come.
func Await[T any](
	ctx context.Context,
	env Getenv,
	self, path string,
	done func(*T) bool,
) (*T, error) {
	folder := Folder[T]{Dir: filepath.Dir(path)}
	lastServed := time.Now() // when a poller last served the record
	// how long to go on when no poller can be started and none has served the record
	patience := maxAwaitPause
	for pause := time.Duration(0); ; pause = min(max(2*pause, minAwaitPause), maxAwaitPause) {
		// sleep first, then read: otherwise a change during the sleep is missed while the
		// poller holds the lock
		Sleep(ctx, pause)
		record, err := folder.Load(RecordName(path))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, ErrUnserved
		case err != nil && !errors.Is(err, errBeingWritten):
			return nil, err
		case err == nil && done(record):
			return record, nil
		case ctx.Err() != nil:
			// the goroutine below may stay blocked; the process ends soon
			return record, ctx.Err()
		}
		if self != "" {
			entry, err := ReadIndexEntry(IndexFile(env, path))
			switch {
			case err != nil || entry.Environment == Environment(env):
			case pause > 0:
				// the poller of another environment served it and may be dead
				_ = AddToIndex(env, *entry)
			default:
				// the poller of that environment serves the record
				CallPoller(env, entry.Environment)
			}
			limit := serveTimeout
			_, err = StartPoller(env, self)
			if err != nil {
				pause, limit = maxAwaitPause, patience
			}
			if time.Since(lastServed) > limit && !isDaemonAlive(env) {
				return record, fmt.Errorf("%w: %w", ErrNoPoller, cmp.Or(err, errNotServed))
			}
		}
		waitBegan, released := time.Now(), make(chan bool, 1)
		go func() { released <- waitWhileServed(IndexFile(env, path)) }()
		select {
		case <-ctx.Done():
		case held := <-released:
			if held {
				lastServed, patience = time.Now(), serveTimeout
			}
		}
		if time.Since(waitBegan) > maxAwaitPause {
			pause = 0 // a poller served the record until this moment
		}
	}
}

// Sleep waits for the duration, or until ctx ends; it then reports false.
func Sleep(ctx context.Context, duration time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(duration):
		return true
	}
}

// waitWhileServed blocks while a poller serves the record of an index entry. wasServed is
// false where no poller served it, and true where that cannot be found out.
func waitWhileServed(file string) (wasServed bool) {
	f, _, err := OpenPlain(file, os.O_RDONLY)
	if err != nil {
		return IsMissing(err)
	}
	defer f.Close()
	locked, err := openLockTarget(f)
	if err != nil {
		return false
	}
	defer locked.Close()
	err = syscall.Flock(int(locked.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if err == nil {
		return false
	}
	for {
		err := syscall.Flock(int(locked.Fd()), syscall.LOCK_SH)
		if !errors.Is(err, syscall.EINTR) {
			return true
		}
	}
}

// isDaemonAlive reports whether this environment's daemon lives. Where no folder has
// working locks, the daemon serves records without locks.
func isDaemonAlive(env Getenv) bool {
	beat := ReadHeartbeat(env, Environment(env))
	return beat.IsDaemon && beat.IsAlive && !beat.IsSilent(time.Now())
}

// IsDialogExplained reports whether an open question of ours, with a thread of its own,
// may be what the session waits for in its terminal.
func IsDialogExplained(env Getenv, sessionID string) bool {
	qs, _ := ReadIndexedQuestions(env, OpenStatusTexts...)
	return slices.ContainsFunc(qs, func(q *Question) bool {
		return q.ClaudeSession() == sessionID && q.MayExplainDialog()
	})
}
