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

// envOf is the environment of a person with a home folder of their own.
func envOf(t testing.TB, pairs ...string) Getenv {
	home := t.TempDir()
	return func(name string) string {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		if name == "HOME" {
			return home
		}
		return ""
	}
}

func TestRecords_EnvironmentsDiffer(t *testing.T) {
	env := envOf(t)
	with := func(name, value string) Getenv {
		return func(n string) string {
			if n == name {
				return value
			}
			return env(n)
		}
	}
	same := Environment(env)
	for _, name := range []string{"GOOGLE_CHAT_WEBHOOK_URL", "GCHAT_ALLOWED_USERS", "GCHAT_CONFIG", "https_proxy", "OPENCLAW_HOME"} {
		if Environment(with(name, "x")) == same {
			t.Errorf("%s does not count", name)
		}
	}
	for _, name := range []string{
		"CLAUDE_PROJECT_DIR", "TMUX_PANE", "GCHAT_ASK_MODE", "GCHAT_STATE_DIR", "PWD",
		"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL",
	} {
		kit.Equalf(t, Environment(with(name, "x")), same, "%s counts", name)
	}
	other := envOf(t)
	if Environment(other) == same {
		t.Error("the hash has no salt")
	}
}

func TestRecords_OnePollerLock(t *testing.T) {
	env := envOf(t)
	lock, err := LockPoller(env)
	kit.NoError(t, err)
	if _, err := LockPoller(env); !errors.Is(err, ErrLocked) {
		t.Errorf("taken twice: %v", err)
	}
	calls := CountPollerCalls(env)
	if _, err := StartPoller(env, "/nothing/is/here"); err != nil {
		t.Errorf("beside a poller: %v", err)
	}
	if err := lock.UnlockPoller(env, "/nothing/is/here", calls); err == nil {
		t.Error("a poller that was called while it ended has no successor")
	}
	if lock, err = LockPoller(env); err != nil {
		t.Fatal(err)
	}
	if err := lock.UnlockPoller(env, "/nothing/is/here", CountPollerCalls(env)); err != nil {
		t.Errorf("one that was not called has a successor: %v", err)
	}
	if _, err := StartPoller(env, "/nothing/is/here"); err == nil {
		t.Error("a program that is not there was started")
	}
	if lock, err = LockPoller(env); err != nil {
		t.Errorf("a poller that could not be started has the lock: %v", err)
	}
	lock.Unlock()
}

func TestAwait_ReturnsTheFinalRecord(t *testing.T) {
	env := envOf(t)
	q := record(t, QuestionsIn(t.TempDir()), question("s"))
	kit.NoError(t, AddQuestionToIndex(env, q))
	serving, err := TryLock(IndexFile(env, q.Path)) // as the poller does
	kit.NoError(t, err)
	got := make(chan *Question)
	go func() {
		q, err := Await(t.Context(), env, "", q.Path, func(q *Question) bool { return q.Status == Answered })
		if err != nil {
			t.Error(err)
		}
		got <- q
	}()
	if _, err := UpdateQuestion(q.Path, func(q *Question) error {
		q.Answers = map[string]string{"Which?": "A"}
		return q.MoveTo(Answered, time.Now())
	}); err != nil {
		t.Fatal(err)
	}
	serving.Unlock()
	if q := <-got; q.Status != Answered {
		t.Errorf("returned at %s", q.Status)
	}
}

// A poller lets the waiting process go for a moment when the message was sent, and goes
// on serving the question: a process that does not look in that moment learns of it all
// the same.
func TestAwait_SeesAChangeWithoutAWake(t *testing.T) {
	env := envOf(t)
	q := record(t, QuestionsIn(t.TempDir()), question("s"))
	kit.NoError(t, AddQuestionToIndex(env, q))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	looks, pauses := 0, make(chan bool, 1)
	go func() {
		<-pauses
		time.Sleep(30 * time.Millisecond) // of a pause of 160
		serving, err := TryLock(IndexFile(env, q.Path))
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(serving.Unlock)
		if _, err := UpdateQuestion(q.Path, func(q *Question) error { q.IsMessageSent = true; return nil }); err != nil {
			t.Error(err)
		}
	}()
	_, err := Await(ctx, env, "", q.Path, func(q *Question) bool {
		if looks++; looks == 5 {
			pauses <- true
		}
		return q.IsMessageSent
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAwait_EndsWithItsContext(t *testing.T) {
	env := envOf(t)
	q := record(t, QuestionsIn(t.TempDir()), question("s"))
	kit.NoError(t, AddQuestionToIndex(env, q))
	never := func(*Question) bool { return false }
	serving, err := TryLock(IndexFile(env, q.Path))
	kit.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Await(ctx, env, "", q.Path, never); !errors.Is(err, context.Canceled) {
		t.Errorf("told to end: %v", err)
	}
	os.Remove(q.Path)
	serving.Unlock()
	if _, err := Await(t.Context(), env, "", q.Path, never); !errors.Is(err, ErrUnserved) {
		t.Errorf("without the record: %v", err)
	}
}

func TestRecords_OneWaiter(t *testing.T) {
	env := envOf(t)
	lock, err := LockWaiter(env, "/q.json")
	if err != nil || !HasWaiter(env, "/q.json") {
		t.Fatal(err)
	}
	if _, err := LockWaiter(env, "/q.json"); !errors.Is(err, ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	lock.Unlock()
	if HasWaiter(env, "/q.json") {
		t.Error("still waited for")
	}
}

func TestIndex_HasWhatWeWrote(t *testing.T) {
	env := envOf(t)
	q := question("s")
	q.TmuxPane, q.TmuxSocket = "%3", "/tmp/tmux"
	record(t, QuestionsIn(t.TempDir()), q)
	kit.NoError(t, errors.Join(AddQuestionToIndex(env, q), AddQuestionToIndex(env, q)))
	os.WriteFile(filepath.Join(UserStateDir(env), "open", "odd.open"), []byte("{"), 0o600)
	os.WriteFile(filepath.Join(UserStateDir(env), "open", "relative.open"), []byte(`{"path":"q.json"}`), 0o600)
	all, err := IndexEntries(env)
	if err != nil || len(all) != 1 || all[0].Path != q.Path || all[0].TmuxPane != "%3" || all[0].Environment != Environment(env) {
		t.Fatalf("%+v, %v", all, err)
	}
	if qs, bad := ReadIndexedQuestions(env); len(qs) != 1 || len(bad) != 0 {
		t.Errorf("%v, %v", qs, bad)
	}
	if err := RemoveClosedQuestion(env, q); err == nil {
		t.Error("an open question was removed")
	}
	q, err = UpdateQuestion(q.Path, func(q *Question) error { return q.MoveTo(Cancelled, time.Now()) })
	kit.NoError(t, errors.Join(err, RemoveClosedQuestion(env, q)))
	if all, _ := IndexEntries(env); len(all) != 0 {
		t.Errorf("still in the index: %+v", all[0])
	}
}

// A question that comes under another environment brings its messages: no poller would
// send them, and its thread could be told nothing. What a living poller serves stays, and
// so does what is not its.
func TestIndex_AQuestionWithItsMessages(t *testing.T) {
	for _, lives := range []bool{true, false} {
		env := envOf(t)
		old := func(name string) string {
			if name == "GCHAT_FORMAT" {
				return "haiku"
			}
			return env(name)
		}
		q := record(t, QuestionsIn(t.TempDir()), question("s"))
		kit.NoError(t, AddQuestionToIndex(old, q))
		about := map[string]string{"its text": q.Path, "of another": "/q.json"}
		for key, question := range about {
			m := message(key, "words")
			m.Question, m.CreatedAt = question, time.Now().UTC()
			if _, _, err := OutboxIn(UserStateDir(env)).Enqueue(old, m, 0); err != nil {
				t.Fatal(err)
			}
		}
		lock, err := LockPoller(old)
		kit.NoError(t, err)
		if !lives {
			lock.Unlock()
		}
		kit.NoError(t, AddQuestionToIndex(env, q))
		for key := range about {
			want := Environment(old)
			if key == "its text" && !lives {
				want = Environment(env)
			}
			if m, err := OutboxIn(UserStateDir(env)).FindByKey(key); err != nil || m.Environment != want {
				t.Errorf("%s, with a poller %v: of %s, want %s, %v", key, lives, m.Environment, want, err)
			}
		}
		lock.Unlock()
	}
}

func TestRecords_ClosingOwesOneNote(t *testing.T) {
	q := record(t, QuestionsIn(t.TempDir()), question("s"))
	for _, want := range []bool{true, false} {
		ended, err := CloseQuestion(q.Path, Cancelled, "signal", nil)
		if err != nil || ended != want {
			t.Errorf("ended %v, %v; want %v", ended, err, want)
		}
	}
	q, err := LoadQuestion(q.Path)
	if err != nil || !slices.Equal(q.OwedNotes, []OwedNote{{About: NoteClosed}}) || q.ResolvedBy != "signal" {
		t.Errorf("%+v, %v", q, err)
	}
}

func message(key, text string) *Message {
	return &Message{ID: "client-" + key, Key: key, Type: MessageReport, Report: &Report{Type: ReportPlain, Text: text}}
}

func TestOutbox_KeepsOrderAndKeys(t *testing.T) {
	env := envOf(t)
	box := OutboxIn(UserStateDir(env))
	late := message("a", "first")
	late.CreatedAt = time.Now().Add(time.Hour) // the clock was set back after it
	for _, m := range []*Message{late, message("b", "second"), message("c", "third")} {
		if _, put, err := box.Enqueue(env, m, time.Minute); err != nil || !put {
			t.Fatal(put, err)
		}
	}
	again, put, err := box.Enqueue(env, message("b", "second"), time.Minute)
	if err != nil || put || again.Key != "b" {
		t.Errorf("put twice: %v, %v, %v", again, put, err)
	}
	if _, put, err := box.Enqueue(env, message("b", "second"), 0); err != nil || !put {
		t.Errorf("put again later: %v, %v", put, err)
	}
	waiting, bad := box.Waiting()
	var keys string
	for _, m := range waiting {
		keys += m.Key
	}
	if keys != "abcb" || len(bad) > 0 {
		t.Errorf("in order: %q, %v", keys, bad)
	}
}

// A message that is taken away does not come back by what another process writes into it
// at that moment: gchat-send --no-queue has said that it is not kept.
func TestOutbox_RemovedStaysRemoved(t *testing.T) {
	env := envOf(t)
	box := OutboxIn(UserStateDir(env))
	m, _, err := box.Enqueue(env, message("a", "never"), 0)
	kit.NoError(t, err)
	dropped := make(chan error)
	if _, err := box.Change(m.Path, func(m *Message) {
		go func() { dropped <- box.RemoveMessage(env, m) }()
		m.FailedTries++
		select {
		case err := <-dropped: // before the write
			go func() { dropped <- err }()
		case <-time.After(50 * time.Millisecond):
		}
	}); err != nil {
		t.Fatal(err)
	}
	kit.NoError(t, <-dropped)
	if all, bad := box.All(); len(all)+len(bad) > 0 {
		t.Errorf("left are %v, %v", all, bad)
	}
}

func TestOutbox_KeepsReceipts(t *testing.T) {
	env, now := envOf(t), time.Now()
	box := OutboxIn(UserStateDir(env))
	end := func(key string, ago time.Duration, aside string) {
		m, _, err := box.Enqueue(env, message(key, key), time.Minute)
		kit.NoError(t, err)
		if _, err := box.Change(m.Path, func(m *Message) {
			if m.EndedAt, m.SetAsideReason = now.Add(-ago).UTC(), aside; aside == "" {
				m.SentAt = m.EndedAt
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	end("fresh", time.Minute, "")
	end("old", time.Hour, "")
	end("aside", 24*time.Hour, "refused")
	end("gone", 31*24*time.Hour, "refused")
	if _, _, err := box.Enqueue(env, message("waits", "x"), 0); err != nil {
		t.Fatal(err)
	}
	box.Sweep(env, now)
	all, _ := box.All()
	var left []string
	for _, m := range all {
		left = append(left, m.Key)
	}
	slices.Sort(left)
	if !slices.Equal(left, []string{"aside", "fresh", "waits"}) {
		t.Errorf("left are %v", left)
	}
	if n, err := box.RetrySetAside(now); n != 1 || err != nil || len(box.SetAside()) != 0 {
		t.Errorf("revived %d, %v", n, err)
	}
}

// Messages of the release before wait in the same folder.
func TestOutbox_MessageOfTheReleaseBefore(t *testing.T) {
	env := envOf(t)
	box := OutboxIn(UserStateDir(env))
	writeAt(t, filepath.Join(box.Dir, "1795357346000000000-0a1b2c3d4e5f60-client-1.json"),
		`{"message_id":"client-1","key":"client-1","chat":"h/spaces/S","parts":["Done."],"project_dir":"/p","kind":"task_done","created_at":"2026-11-22T10:00:00Z"}`)
	waiting, bad := box.Waiting()
	if len(bad) > 0 || len(waiting) != 1 || waiting[0].Type != MessageReport || waiting[0].Parts[0] != "Done." || waiting[0].Environment != "" {
		t.Errorf("%+v, %v", waiting, bad)
	}
}

func TestRecords_SessionIsKept(t *testing.T) {
	s := SessionsIn(t.TempDir())
	kit.NoError(t, errors.Join(s.AddNotice("s.1", "it failed"), s.AddNotice("s.1", "it failed"), s.AddNotice("s_1", "another")))
	kit.Equalf(t, s.TakeNotices("s.1"), "it failed", "first")
	kit.Equalf(t, s.TakeNotices("s.1"), "", "second")
	now := time.Now()
	for n, want := range []bool{true, true, false} {
		if ok, err := s.CountGateBlock("s.1", now.Add(time.Duration(n)*time.Second), 2, time.Minute); ok != want || err != nil {
			t.Errorf("block %d: %v, %v", n, ok, err)
		}
	}
	if ok, err := s.CountGateBlock("s.1", now.Add(2*time.Minute), 2, time.Minute); !ok || err != nil {
		t.Errorf("later: %v, %v", ok, err)
	}
}

func TestRecords_Pace(t *testing.T) {
	s, now := &Space{}, time.Now()
	for n := range 10 {
		if wait := s.TakeWrite(now, time.Second, 10); wait != 0 {
			t.Fatalf("write %d waits %s", n, wait)
		}
	}
	kit.Equalf(t, s.TakeWrite(now, time.Second, 10), time.Second, "the eleventh waits")
	kit.Equalf(t, s.TakeWrite(now.Add(time.Second), time.Second, 10), 0, "a second later")
	kit.Equalf(t, s.TakeWrite(now.Add(-time.Hour), time.Second, 10), 0, "after the clock was set back")
	s.NotBefore = now.Add(2 * time.Hour)
	if s.WriteDelay(now) != 0 || s.WriteDelay(now.Add(90*time.Minute)) != 30*time.Minute {
		t.Error("a pause that no server asks for counts")
	}
}

// A read that failed for want of a descriptor is tried again, though the file does not
// change.
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
	if s, err := c.Load(filepath.Join(dir, "s.json"), false); s == nil {
		t.Errorf("afterwards it is %v, %v", s, err)
	}
}

// A waiting process takes its record into its own environment when the poller of another
// one that served it is dead.
func TestRecords_WaiterTakesItsRecordAlong(t *testing.T) {
	dir := t.TempDir()
	vars := map[string]string{"HOME": dir}
	env := func(name string) string { return vars[name] }
	q := &Question{QuestionID: "q", SessionID: "s", Status: Pending, Mode: ModeDeny, AskedAt: time.Now()}
	kit.NoError(t, MarkersIn(filepath.Join(dir, "p")).Create("q", q))
	kit.NoError(t, AddQuestionToIndex(env, q))
	other, err := LockPoller(env) // A's poller
	kit.NoError(t, err)
	vars["GCHAT_ALLOWED_USERS"] = "users/1" // B: the session is resumed
	kit.NoError(t, AddQuestionToIndex(env, q))
	other.Unlock() // A's poller is killed
	self := filepath.Join(dir, "self")
	kit.NoError(t, os.WriteFile(self, []byte("#!/bin/sh\nexit 0\n"), 0o700))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, _ = Await(ctx, env, self, q.Path, func(q *Question) bool { return q.Status != Pending })
	o, err := ReadIndexEntry(IndexFile(env, q.Path))
	if err != nil || o.Environment != Environment(env) {
		t.Errorf("the record is still %s's, whose poller is dead; ours is %s: %v", o.Environment, Environment(env), err)
	}
}

// What was emptied in a copy of a record does not come back with the members that the
// copy was read with.
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
	if err != nil || is.IsDenied || is.TimesOutAt != nil || is.TimeoutPolicy != "" || is.Mode != ModeNative {
		t.Errorf("it is %+v, %v", is, err)
	}
}

// With what a hub adds, an id that names its machine is as long as Chat takes.
func TestRecords_NamedIDFits(t *testing.T) {
	const fromHub = len("0123456789ab-")
	if id := MachineMessageID("report"); len(id)+fromHub > 63 || !strings.HasPrefix(id, OwnIDPrefix()) || id == MachineMessageID("another") {
		t.Error(id)
	}
}
