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

// IndexEntry names an open record: a file of this kind stands in the user's state for
// each question that a hook or a command of ours wrote, and for each message that a
// process waits for. The poller acts only on what an Open names, so that a record, a pane
// or a thread that a checkout brings is nothing to it. It is written once, before its
// record is due, and goes with its record.
//
// The poller holds the file's lock while it serves the record, so that waiting processes
// block on a shared lock of it.
type IndexEntry struct {
	RecordType  string `json:"kind"`                  // question or message
	Path        string `json:"path"`                  // of the record
	Environment string `json:"env"`                   // see Environment
	ProjectDir  string `json:"project_dir,omitempty"` // absolute
	IsTrusted   bool   `json:"trusted,omitempty"`     // the project's files count
	// the only one that an answer may be typed into
	TmuxPane   string    `json:"tmux_pane,omitempty"`
	TmuxSocket string    `json:"tmux_socket,omitempty"`
	AddedAt    time.Time `json:"at"`

	EntryFile string `json:"-"` // where the Open itself is
}

const (
	IndexedQuestion = "question"
	IndexedMessage  = "message"
)

// IndexFile is where the Open of a record is.
func IndexFile(env Getenv, path string) string {
	return filepath.Join(UserStateDir(env), "open", Hash(6, path)+".open")
}

// waiterFile is locked by the process that waits for a record.
func waiterFile(env Getenv, path string) string {
	return strings.TrimSuffix(IndexFile(env, path), ".open") + ".waiter"
}

// AddToIndex writes the Open of a record under this environment. One that is there
// already stays; one of another environment, which no poller serves, comes under this
// one, as when a session is resumed elsewhere. So do the messages about it.
func AddToIndex(env Getenv, entry IndexEntry) error {
	old, err := ReadIndexEntry(IndexFile(env, entry.Path))
	isThere := err == nil
	switch {
	case !isThere:
		entry.AddedAt, entry.IsTrusted = time.Now().
			UTC(),
			entry.ProjectDir != "" &&
				IsProjectTrusted(env, entry.ProjectDir)
	case old.Environment == Environment(env),
		IsLocked(filepath.Join(pollersDir(env), filepath.Base(old.Environment)+".lock")):
		return nil
	default:
		entry = *old
		isAbout := func(m *Message) bool { return m.Question == entry.Path }
		if err := OutboxIn(UserStateDir(env)).moveToEnvironment(isAbout, Environment(env)); err != nil {
			return fmt.Errorf("announce record: %w", err)
		}
	}
	entry.Environment = Environment(env)
	if !utf8.ValidString(entry.Path) { // JSON would name another file
		return fmt.Errorf(
			"announce record: its folder's name is no UTF-8: %q",
			filepath.Dir(entry.Path),
		)
	}
	b, _ := json.Marshal(entry) // texts and a time
	err = unsynced.write(IndexFile(env, entry.Path), b, !isThere)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("announce record: %w", err)
	}
	return nil
}

// AdoptFormerEnvironment has what an earlier version wrote down under this environment,
// which it calls by another name, come under this one. Where a poller of that name runs,
// which this one may have, it is left to that.
func AdoptFormerEnvironment(env Getenv) error {
	former := formerEnvironment(env)
	if IsLocked(filepath.Join(pollersDir(env), former+".lock")) {
		return nil
	}
	isFormer := func(environment string) bool { return environment == former }
	isOfFormer := func(m *Message) bool { return isFormer(m.Environment) }
	entries, err := IndexEntries(env)
	failed := errors.Join(
		err,
		OutboxIn(UserStateDir(env)).moveToEnvironment(isOfFormer, Environment(env)),
	)
	for _, entry := range entries {
		if isFormer(entry.Environment) {
			failed = errors.Join(failed, AddToIndex(env, *entry))
		}
	}
	sessionFolder := SessionsIn(UserStateDir(env))
	sessions, _ := sessionFolder.All()
	for _, session := range sessions {
		if isFormer(session.Environment) {
			_, err := sessionFolder.Change(
				session.ID,
				func(session *Session) { session.Environment = Environment(env) },
			)
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// IsInIndex says whether a record has its Open.
func IsInIndex(env Getenv, path string) bool { return fileExists(IndexFile(env, path)) }

// AddQuestionToIndex is Announce of a question that a hook or a command of ours just
// wrote.
func AddQuestionToIndex(env Getenv, question *Question) error {
	return AddToIndex(env, IndexEntry{
		RecordType: IndexedQuestion, Path: question.Path, ProjectDir: question.ProjectDir, TmuxPane: question.TmuxPane, TmuxSocket: question.TmuxSocket,
	})
}

// IndexEntries are all open records, of every environment, in no order. What does not
// parse is passed over.
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
		return nil, errors.New("an open record without a path")
	}
	return entry, nil
}

// ReadIndexedQuestions are the questions of the index, of every environment, newest
// first; with texts those in whose files one of them stands. Those whose files are gone
// are left out; what does not parse is returned in bad and stays where it is.
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

// FindQuestion finds a question of the index by its id, its thread's key or its thread's
// name, the newest of several; nil when there is none.
func FindQuestion(env Getenv, name string) *Question {
	qs, _ := ReadIndexedQuestions(env)
	if i := slices.IndexFunc(qs, func(q *Question) bool { return name != "" && hasName(q, name) }); i >= 0 {
		return qs[i]
	}
	return nil
}

func hasName(q *Question, name string) bool {
	return name == q.QuestionID || name == q.ThreadKey || name == q.ThreadName
}

// SessionThreadKey is the key of a session's own thread.
func SessionThreadKey(sessionID string) (key string) { return "session-" + sessionID }

// sessionOfThreadKey is the session whose own thread a key is of.
func sessionOfThreadKey(key string) (sessionID string, ok bool) {
	return strings.CutPrefix(key, "session-")
}

// FindThreadName is the thread of a key, as far as a session, a question or a message
// tells it; "" where none does.
func FindThreadName(env Getenv, key string) (name string) {
	if key == "" {
		return ""
	}
	user := UserStateDir(env)
	id, ofSession := sessionOfThreadKey(key)
	if session, err := SessionsIn(user).Get(id); err == nil {
		name = session.ThreadName
	}
	if name != "" || ofSession { // what a session's first message began stands in its record
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

// PickQuestion finds the question that a person means: by its id, its thread's key or its
// thread's name, else by its session's name or id, where that has one question that can
// be answered. Where none can be answered, a closed one that is meant is returned: that
// it is over is worth saying.
func PickQuestion(env Getenv, name string) (*Question, error) {
	qs, bad := ReadIndexedQuestions(env)
	ofSession := func(q *Question, name string) bool {
		return name == q.SessionName || name == q.SessionID || name == q.ClaudeSessionID
	}
	for _, matches := range []func(*Question, string) bool{hasName, ofSession} {
		var open []*Question
		var closed *Question
		for _, q := range qs { // the newest first
			switch {
			case name == "" || !q.Mode.Traits().Asks || !matches(q, name):
			case q.IsAnswerable() && (!q.Kind.Traits().IsPersonal || hasName(q, name)):
				// no command decides the others
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
			return nil, fmt.Errorf(
				"%s could be %d questions: %s",
				name,
				len(open),
				strings.Join(keys, ", "),
			)
		case closed != nil:
			return closed, nil
		}
	}
	if len(bad) > 0 { // it may be the question that is meant
		return nil, fmt.Errorf(
			"no question %s is known; %d files could not be read: %w",
			name,
			len(bad),
			bad[0],
		)
	}
	return nil, fmt.Errorf("no question %s is known", name)
}

// RemoveFromIndex takes a record's Open away, with its lock files. Only the poller does
// that, for records that are final or gone.
func RemoveFromIndex(env Getenv, path string) error {
	err := os.Remove(IndexFile(env, path))
	os.Remove(waiterFile(env, path))
	if err != nil && !IsMissing(err) {
		return fmt.Errorf("forget record: %w", err)
	}
	return nil
}

// LockWaiter makes the caller the one process that waits for a record; ErrLocked when
// there is one.
func LockWaiter(env Getenv, path string) (l *Lock, err error) {
	for range 5 {
		l, err = TryLock(waiterFile(env, path))
		if !errors.Is(err, ErrLocked) {
			return l, err
		}
		time.Sleep(2 * time.Millisecond) // HasWaiter of another process has it for an instant
	}
	return nil, err
}

// HasWaiter says whether a living process waits for a record.
func HasWaiter(env Getenv, path string) bool { return IsLocked(waiterFile(env, path)) }

const (
	minAwaitPause = 20 * time.Millisecond
	maxAwaitPause = 2 * time.Second
	// serveTimeout is how long a process waits for a poller that runs to take the record:
	// a machine can be busy, and a step of the poller long.
	serveTimeout = 30 * time.Second
)

// ErrUnserved says that a record is gone, or that no poller can serve it.
var ErrUnserved = errors.New("the record is gone")

// ErrNoPoller says that nobody is asked: no poller can be started, or none that runs
// takes the record.
var (
	ErrNoPoller  = errors.New("no poller takes it")
	errNotServed = fmt.Errorf("none did within %s", serveTimeout)
)

// Await waits until done says that the record at path is final for the caller, and
// returns it as it then stands. It costs no wake-ups while it waits: it blocks on the
// lock that the poller holds while it serves the record. Woken while the record is not
// final, the poller died, or did not come to the record yet: Await starts another poller
// and tries again.
//
// The record must have been announced. self is this program's path, for the poller that
// it may have to start; "" starts none. Errors are ctx's, ErrUnserved when the record's
// file is gone, *Corrupt, and ErrNoPoller: it waits only while a poller has the record,
// or one that was just called may come.
func Await[T any](
	ctx context.Context,
	env Getenv,
	self, path string,
	done func(*T) bool,
) (*T, error) {
	folder := Folder[T]{Dir: filepath.Dir(path)}
	lastServed := time.Now()  // when a poller had the record last
	patience := maxAwaitPause // with failures to start one, before any had it
	for pause := time.Duration(0); ; pause = min(max(2*pause, minAwaitPause), maxAwaitPause) {
		Sleep(ctx, pause) // before the record is read: a change meanwhile may leave the lock held
		record, err := folder.Load(RecordName(path))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, ErrUnserved
		case err != nil && !errors.Is(err, errBeingWritten):
			return nil, err
		case err == nil && done(record):
			return record, nil
		case ctx.Err() != nil:
			return record, ctx.Err() // a goroutine may stay behind, blocked; the process ends soon
		}
		if self != "" {
			entry, err := ReadIndexEntry(IndexFile(env, path))
			switch {
			case err != nil || entry.Environment == Environment(env):
			case pause > 0:
				_ = AddToIndex(env, *entry) // another environment's poller served it, and is dead
			default:
				CallPoller(env, entry.Environment) // it serves it
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
			pause = 0 // a poller served the record until now
		}
	}
}

// Sleep waits for so long, or until ctx ends, which it reports as false.
func Sleep(ctx context.Context, duration time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(duration):
		return true
	}
}

// waitWhileServed waits until no poller serves the record of an Open. held is false where
// none did; it is true where that cannot be told.
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
		if err := syscall.Flock(int(locked.Fd()), syscall.LOCK_SH); !errors.Is(err, syscall.EINTR) {
			return true
		}
	}
}

// isDaemonAlive reports whether a daemon lives. Where no folder has locks that lock, it
// serves records without them.
func isDaemonAlive(env Getenv) bool {
	beat := ReadHeartbeat(env, Environment(env))
	return beat.IsDaemon && beat.IsAlive && !beat.IsSilent(time.Now())
}

// IsDialogExplained says whether what a session waits for in its terminal is asked by a
// record of ours, in a thread of its own.
func IsDialogExplained(env Getenv, sessionID string) bool {
	qs, _ := ReadIndexedQuestions(env, OpenStatusTexts...)
	return slices.ContainsFunc(
		qs,
		func(q *Question) bool { return q.ClaudeSession() == sessionID && q.MayExplainDialog() },
	)
}
