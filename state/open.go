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

// Open names an open record: a file of this kind stands in the user's state for each question that a hook or a command of ours
// wrote, and for each message that a process waits for. The poller acts only on what an Open names, so that a record, a pane
// or a thread that a checkout brings is nothing to it. It is written once, before its record is due, and goes with its record.
//
// The poller holds the file's lock while it serves the record, so that waiting processes block on a shared lock of it.
type Open struct {
	Record     string    `json:"kind"`                  // question or message
	Path       string    `json:"path"`                  // of the record
	Env        string    `json:"env"`                   // see Environment
	ProjectDir string    `json:"project_dir,omitempty"` // absolute
	Trusted    bool      `json:"trusted,omitempty"`     // the project's files count
	TmuxPane   string    `json:"tmux_pane,omitempty"`   // the only one that an answer may be typed into
	TmuxSocket string    `json:"tmux_socket,omitempty"`
	At         time.Time `json:"at"`

	File string `json:"-"` // where the Open itself is
}

const (
	OpenQuestion = "question"
	OpenMessage  = "message"
)

// OpenFile is where the Open of a record is.
func OpenFile(env Getenv, path string) string {
	return filepath.Join(UserState(env), "open", Hash(6, path)+".open")
}

// waiterFile is locked by the process that waits for a record.
func waiterFile(env Getenv, path string) string {
	return strings.TrimSuffix(OpenFile(env, path), ".open") + ".waiter"
}

// Announce writes the Open of a record under this environment. One that is there already stays; one of another environment, which
// no poller serves, comes under this one, as when a session is resumed elsewhere. So do the messages about it.
func Announce(env Getenv, o Open) error {
	old, err := ReadOpen(OpenFile(env, o.Path))
	stands := err == nil
	switch {
	case !stands:
		o.At, o.Trusted = time.Now().UTC(), o.ProjectDir != "" && ProjectCounts(env, o.ProjectDir)
	case old.Env == Environment(env), Held(filepath.Join(pollersDir(env), filepath.Base(old.Env)+".lock")):
		return nil
	default:
		o = *old
		isAbout := func(m *Message) bool { return m.Question == o.Path }
		if err := OutboxIn(UserState(env)).takeOver(isAbout, Environment(env)); err != nil {
			return fmt.Errorf("announce record: %w", err)
		}
	}
	o.Env = Environment(env)
	if !utf8.ValidString(o.Path) { // JSON would name another file
		return fmt.Errorf("announce record: its folder's name is no UTF-8: %q", filepath.Dir(o.Path))
	}
	b, _ := json.Marshal(o) // texts and a time
	err = quick.write(OpenFile(env, o.Path), b, !stands)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("announce record: %w", err)
	}
	return nil
}

// TakeOverFormer has what an earlier version wrote down under this environment, which it calls by
// another name, come under this one. Where a poller of that name runs, which this one may have, it
// is left to that.
func TakeOverFormer(env Getenv) error {
	former := formerEnvironment(env)
	if Held(filepath.Join(pollersDir(env), former+".lock")) {
		return nil
	}
	isFormer := func(environment string) bool { return environment == former }
	waits := func(m *Message) bool { return isFormer(m.Env) }
	opens, err := Opens(env)
	failed := errors.Join(err, OutboxIn(UserState(env)).takeOver(waits, Environment(env)))
	for _, o := range opens {
		if isFormer(o.Env) {
			failed = errors.Join(failed, Announce(env, *o))
		}
	}
	folder := SessionsIn(UserState(env))
	sessions, _ := folder.All()
	for _, one := range sessions {
		if isFormer(one.Env) {
			_, err := folder.Change(one.ID, func(one *Session) { one.Env = Environment(env) })
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// Announced says whether a record has its Open.
func Announced(env Getenv, path string) bool { return exists(OpenFile(env, path)) }

// AnnounceQuestion is Announce of a question that a hook or a command of ours just wrote.
func AnnounceQuestion(env Getenv, q *Question) error {
	return Announce(env, Open{
		Record: OpenQuestion, Path: q.Path, ProjectDir: q.ProjectDir, TmuxPane: q.TmuxPane, TmuxSocket: q.TmuxSocket,
	})
}

// Opens are all open records, of every environment, in no order. What does not parse is passed over.
func Opens(env Getenv) (all []*Open, err error) {
	dir := filepath.Join(UserState(env), "open")
	entries, err := os.ReadDir(dir)
	if err != nil && !Missing(err) {
		return nil, fmt.Errorf("list open records: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".open") {
			continue
		}
		if o, err := ReadOpen(filepath.Join(dir, e.Name())); err == nil {
			all = append(all, o)
		}
	}
	return all, nil
}

func ReadOpen(file string) (*Open, error) {
	b, err := ReadPlain(file, 64<<10)
	if err != nil {
		return nil, err
	}
	o := &Open{File: file}
	if err := json.Unmarshal(b, o); err != nil {
		return nil, err
	}
	if o.Path == "" || !filepath.IsAbs(o.Path) {
		return nil, errors.New("an open record without a path")
	}
	return o, nil
}

// OpenQuestions are the questions of the index, of every environment, newest first; with texts those in whose files one of them
// stands. Those whose files are gone are left out; what does not parse is returned in bad and stays where it is.
func OpenQuestions(env Getenv, texts ...string) (qs []*Question, bad []error) {
	all, err := Opens(env)
	if err != nil {
		return nil, []error{err}
	}
	skip := func(_ string, file []byte) bool { return !says(file, texts) }
	buf := bytes.Buffer{}
	for _, o := range all {
		if o.Record != OpenQuestion {
			continue
		}
		folder := Folder[Question]{Dir: filepath.Dir(o.Path), LeaveAlone: true}
		q, err := folder.loadBut(skip, NameOf(o.Path), &buf)
		switch {
		case q != nil:
			qs = append(qs, q)
		case err != nil && !Missing(err):
			bad = append(bad, err)
		}
	}
	SortNewestFirst(qs)
	return qs, bad
}

// FindQuestion finds a question of the index by its id, its thread's key or its thread's name, the newest of several; nil when
// there is none.
func FindQuestion(env Getenv, by string) *Question {
	qs, _ := OpenQuestions(env)
	if i := slices.IndexFunc(qs, func(q *Question) bool { return by != "" && goesBy(q, by) }); i >= 0 {
		return qs[i]
	}
	return nil
}

func goesBy(q *Question, by string) bool {
	return by == q.QuestionID || by == q.ThreadKey || by == q.ThreadName
}

// SessionThread is the key of a session's own thread.
func SessionThread(sessionID string) (key string) { return "session-" + sessionID }

// SessionOfThread is the session whose own thread a key is of.
func SessionOfThread(key string) (sessionID string, ok bool) {
	return strings.CutPrefix(key, "session-")
}

// ThreadOf is the thread of a key, as far as a session, a question or a message tells it; "" where none does.
func ThreadOf(env Getenv, key string) (name string) {
	if key == "" {
		return ""
	}
	user := UserState(env)
	id, ofSession := SessionOfThread(key)
	if session, err := SessionsIn(user).Of(id); err == nil {
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

// PickQuestion finds the question that a person means: by its id, its thread's key or its thread's name, else by its session's
// name or id, where that has one question that can be answered. Where none can be answered, a closed one that is meant is
// returned: that it is over is worth saying.
func PickQuestion(env Getenv, by string) (*Question, error) {
	qs, bad := OpenQuestions(env)
	ofSession := func(q *Question, by string) bool {
		return by == q.SessionName || by == q.SessionID || by == q.ClaudeSessionID
	}
	for _, means := range []func(*Question, string) bool{goesBy, ofSession} {
		var open []*Question
		var over *Question
		for _, q := range qs { // the newest first
			switch {
			case by == "" || !q.Mode.Row().Asks || !means(q, by):
			case q.Answerable() && (!q.Kind.Row().Personal || goesBy(q, by)): // no command decides the others
				open = append(open, q)
			case over == nil:
				over = q
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
			return nil, fmt.Errorf("%s could be %d questions: %s", by, len(open), strings.Join(keys, ", "))
		case over != nil:
			return over, nil
		}
	}
	if len(bad) > 0 { // it may be the question that is meant
		return nil, fmt.Errorf("no question %s is known; %d files could not be read: %w", by, len(bad), bad[0])
	}
	return nil, fmt.Errorf("no question %s is known", by)
}

// Forget takes a record's Open away, with its lock files. Only the poller does that, for records that are final or gone.
func Forget(env Getenv, path string) error {
	err := os.Remove(OpenFile(env, path))
	os.Remove(waiterFile(env, path))
	if err != nil && !Missing(err) {
		return fmt.Errorf("forget record: %w", err)
	}
	return nil
}

// LockWaiter makes the caller the one process that waits for a record; ErrLocked when there is one.
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
func HasWaiter(env Getenv, path string) bool { return Held(waiterFile(env, path)) }

const (
	firstPause = 20 * time.Millisecond
	longPause  = 2 * time.Second
	// takenWithin is how long a process waits for a poller that runs to take the record: a
	// machine can be busy, and a step of the poller long.
	takenWithin = 30 * time.Second
)

// ErrUnserved says that a record is gone, or that no poller can serve it.
var ErrUnserved = errors.New("the record is gone")

// ErrNoPoller says that nobody is asked: no poller can be started, or none that runs takes the
// record.
var (
	ErrNoPoller = errors.New("no poller takes it")
	errNotTaken = fmt.Errorf("none did within %s", takenWithin)
)

// Await waits until done says that the record at path is final for the caller, and returns it as it then stands. It costs no
// wake-ups while it waits: it blocks on the lock that the poller holds while it serves the record. Woken while the record is
// not final, the poller died, or did not come to the record yet: Await starts another poller and tries again.
//
// The record must have been announced. self is this program's path, for the poller that it may have to start; "" starts none.
// Errors are ctx's, ErrUnserved when the record's file is gone, *Corrupt, and ErrNoPoller: it waits only while a poller has
// the record, or one that was just called may come.
func Await[T any](ctx context.Context, env Getenv, self, path string, done func(*T) bool) (*T, error) {
	folder := Folder[T]{Dir: filepath.Dir(path)}
	inHand := time.Now()  // when a poller had the record last
	patience := longPause // with failures to start one, before any had it
	for pause := time.Duration(0); ; pause = min(max(2*pause, firstPause), longPause) {
		Sleep(ctx, pause) // before the record is read: a change meanwhile may leave the lock held
		rec, err := folder.Load(NameOf(path))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, ErrUnserved
		case err != nil && !errors.Is(err, ErrBeingWritten):
			return nil, err
		case err == nil && done(rec):
			return rec, nil
		case ctx.Err() != nil:
			return rec, ctx.Err() // a goroutine may stay behind, blocked; the process ends soon
		}
		if self != "" {
			o, err := ReadOpen(OpenFile(env, path))
			switch {
			case err != nil || o.Env == Environment(env):
			case pause > 0:
				_ = Announce(env, *o) // another environment's poller served it, and is dead
			default:
				CallPoller(env, o.Env) // it serves it
			}
			most := takenWithin
			_, err = StartPoller(env, self)
			if err != nil {
				pause, most = longPause, patience
			}
			if time.Since(inHand) > most && !daemonServes(env) {
				return rec, fmt.Errorf("%w: %w", ErrNoPoller, cmp.Or(err, errNotTaken))
			}
		}
		began, released := time.Now(), make(chan bool, 1)
		go func() { released <- blockOn(OpenFile(env, path)) }()
		select {
		case <-ctx.Done():
		case held := <-released:
			if held {
				inHand, patience = time.Now(), takenWithin
			}
		}
		if time.Since(began) > longPause {
			pause = 0 // a poller served the record until now
		}
	}
}

// Sleep waits for so long, or until ctx ends, which it reports as false.
func Sleep(ctx context.Context, long time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(long):
		return true
	}
}

// blockOn waits until no poller serves the record of an Open. held is false where none did; it
// is true where that cannot be told.
func blockOn(file string) (held bool) {
	f, _, err := OpenPlain(file, os.O_RDONLY)
	if err != nil {
		return Missing(err)
	}
	defer f.Close()
	locked, err := lockedFile(f)
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

// daemonServes reports whether a daemon lives. Where no folder has locks that lock, it serves
// records without them.
func daemonServes(env Getenv) bool {
	beat := ReadBeat(env, Environment(env))
	return beat.Daemon && beat.Lives && !beat.Silent(time.Now())
}

// DialogExplained says whether what a session waits for in its terminal is asked by a record of ours, in a thread of its own.
func DialogExplained(env Getenv, session string) bool {
	qs, _ := OpenQuestions(env, TextsOpen...)
	return slices.ContainsFunc(qs, func(q *Question) bool { return q.ClaudeSession() == session && q.ExplainsDialog() })
}
