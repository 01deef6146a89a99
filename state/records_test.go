package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

func TestRecords_OneWaiter(t *testing.T) {
	env := envOf(t)
	lock, err := LockWaiter(env, "/q.json")
	kit.Must(t, err == nil && HasWaiter(env, "/q.json"), "%v", err)
	_, err = LockWaiter(env, "/q.json")
	kit.True(t, errors.Is(err, ErrLocked), "locked twice: %v", err)
	lock.Unlock()
	kit.True(t, !HasWaiter(env, "/q.json"), "still waited for")
}

func TestRecords_ClosingOwesOneNote(t *testing.T) {
	q := record(t, QuestionsIn(t.TempDir()), question("s"))
	for _, want := range []bool{true, false} {
		ended, err := CloseQuestion(q.Path, Cancelled, "signal", nil)
		kit.True(t, err == nil && ended == want, "ended %v, %v; want %v", ended, err, want)
	}
	q, err := LoadQuestion(q.Path)
	kit.True(t, err == nil && slices.Equal(q.OwedNotes, []OwedNote{{About: NoteClosed}}) &&
		q.ResolvedBy == "signal",
		"%+v, %v", q, err)
}

func TestRecords_SessionIsKept(t *testing.T) {
	s := SessionsIn(t.TempDir())
	kit.NoError(t, errors.Join(s.AddNotice("s.1", "it failed"), s.AddNotice("s.1", "it failed"),
		s.AddNotice("s_1", "another")))
	kit.Equalf(t, s.TakeNotices("s.1"), "it failed", "first")
	kit.Equalf(t, s.TakeNotices("s.1"), "", "second")
	now := time.Now()
	for n, want := range []bool{true, true, false} {
		ok, err := s.CountGateBlock("s.1", now.Add(time.Duration(n)*time.Second), 2, time.Minute)
		kit.True(t, ok == want && err == nil, "block %d: %v, %v", n, ok, err)
	}
	ok, err := s.CountGateBlock("s.1", now.Add(2*time.Minute), 2, time.Minute)
	kit.True(t, ok && err == nil, "later: %v, %v", ok, err)
}

func TestRecords_Pace(t *testing.T) {
	s, now := &Space{}, time.Now()
	for n := range 10 {
		wait := s.TakeWrite(now, time.Second, 10)
		kit.Must(t, wait == 0, "write %d waits %s", n, wait)
	}
	kit.Equalf(t, s.TakeWrite(now, time.Second, 10), time.Second, "the eleventh waits")
	kit.Equalf(t, s.TakeWrite(now.Add(time.Second), time.Second, 10), 0, "a second later")
	kit.Equalf(t, s.TakeWrite(now.Add(-time.Hour), time.Second, 10), 0,
		"after the clock was set back")
	s.NotBefore = now.Add(2 * time.Hour)
	kit.True(t, s.WriteDelay(now) == 0 && s.WriteDelay(now.Add(90*time.Minute)) == 30*time.Minute,
		"a pause that no server asks for counts")
}

// If a read failed because no file descriptor was free, the cache reads again even though
// the file has not changed.
func TestRecords_FailedReadIsRepeated(t *testing.T) {
	dir := t.TempDir()
	f := Folder[Session]{Dir: dir}
	kit.NoError(t, f.Create("s", &Session{ID: "s"}))
	var was syscall.Rlimit
	kit.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was))
	var c Cache[Session]
	low := was
	low.Cur = 3
	kit.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	_, err := c.Load(filepath.Join(dir, "s.json"), false)
	kit.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was))
	if err == nil {
		t.Skip("no error to be had")
	}
	s, err := c.Load(filepath.Join(dir, "s.json"), false)
	kit.True(t, s != nil, "afterwards it is %v, %v", s, err)
}

// If the poller that served a record is dead and belongs to another environment, the
// waiting process moves the record into its own environment.
func TestRecords_WaiterTakesItsRecordAlong(t *testing.T) {
	dir := t.TempDir()
	vars := map[string]string{"HOME": dir}
	env := func(name string) string { return vars[name] }
	q := &Question{QuestionID: "q", SessionID: "s", Status: Pending, Mode: ModeDeny,
		AskedAt: time.Now()}
	kit.NoError(t, MarkersIn(filepath.Join(dir, "p")).Create("q", q))
	kit.NoError(t, AddQuestionToIndex(env, q))
	other := lockPoller(t, env)             // A's poller
	vars["GCHAT_ALLOWED_USERS"] = "users/1" // B: the session is resumed
	kit.NoError(t, AddQuestionToIndex(env, q))
	other.Unlock() // A's poller is killed
	self := filepath.Join(dir, "self")
	kit.NoError(t, os.WriteFile(self, []byte("#!/bin/sh\nexit 0\n"), 0o700))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, _ = Await(ctx, env, self, q.Path, func(q *Question) bool { return q.Status != Pending })
	o, err := ReadIndexEntry(IndexFile(env, q.Path))
	kit.True(t, err == nil && o.Environment == Environment(env),
		"the record is still %s's, whose poller is dead; ours is %s: %v", o.Environment,
		Environment(env), err)
}

// A member that was emptied in a copy of a record stays empty when the copy is written.
func TestRecords_CopyHasNoEmptiedMember(t *testing.T) {
	folder := QuestionsIn(t.TempDir())
	q, end := question("s"), time.Now().UTC()
	q.Mode, q.IsDenied, q.TimesOutAt, q.TimeoutPolicy = ModeDeny, true, &end, TimeoutRecommended
	kit.NoError(t, folder.Create("marker", q))
	read, err := folder.Load("marker")
	kit.NoError(t, err)
	there := *read
	there.Mode, there.IsDenied, there.TimesOutAt, there.TimeoutPolicy = ModeNative, false, nil, ""
	kit.NoError(t, folder.Create("terminal", &there))
	is, err := folder.Load("terminal")
	kit.True(t, err == nil && !is.IsDenied && is.TimesOutAt == nil && is.TimeoutPolicy == "" &&
		is.Mode == ModeNative,
		"it is %+v, %v", is, err)
}

// An id that names its machine fits Chat's limit, together with what a hub adds.
func TestRecords_NamedIDFits(t *testing.T) {
	const fromHub = len("0123456789ab-")
	id := MachineMessageID("report")
	kit.True(t, len(id)+fromHub <= 63 && strings.HasPrefix(id, OwnIDPrefix()) &&
		id != MachineMessageID("another"),
		"%v", id)
}
