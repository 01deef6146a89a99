package state

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func outgoing(id string, at time.Time, thread string) *Outgoing {
	return &Outgoing{MessageID: id, Chat: "chat.example/spaces/A", ThreadKey: thread, Parts: []string{id}, CreatedAt: at}
}

func mustPut(t *testing.T, box Outbox, m *Outgoing, again time.Duration) bool {
	t.Helper()
	put, err := box.Put(m, again)
	if err != nil {
		t.Fatal(err)
	}
	return put
}

func ids(ms []*Outgoing) (ids []string) {
	for _, m := range ms {
		ids = append(ids, m.MessageID)
	}
	return ids
}

func TestOutboxKeepsOrder(t *testing.T) {
	box := OutboxIn(t.TempDir())
	mustPut(t, box, outgoing("client-a", asked.Add(time.Hour), "x"), 0)
	mustPut(t, box, outgoing("client-b", asked, "x"), 0) // the clock was set back
	mustPut(t, box, outgoing("client-c", asked, "y"), 0)
	mustPut(t, box, outgoing("client-d", asked.Add(2*time.Hour), "x"), 0)
	ms, bad := box.Waiting()
	if got := ids(ms); len(bad) > 0 || !slices.Equal(got, []string{"client-a", "client-b", "client-c", "client-d"}) {
		t.Fatalf("waiting: %v, %v", got, bad)
	}
	lanes, err := box.Queue()
	if err != nil || len(lanes) != 2 || len(lanes[0]) != 3 || lanes[0][1].Key != "client-b" {
		t.Errorf("lanes: %+v, %v", lanes, err)
	}
}

func TestOutboxKnowsWhatItWasGivenBefore(t *testing.T) {
	box := OutboxIn(filepath.Join(t.TempDir(), "a [folder")) // a name is no pattern
	m := outgoing("client-1", asked, "")
	m.Key = "said ../so" // a key is foreign text: it must not leave the folder
	mustPut(t, box, m, time.Minute)
	say := func(after time.Duration) bool {
		again := outgoing("client-2", asked.Add(after), "")
		again.Key = m.Key
		return mustPut(t, box, again, time.Minute)
	}
	if say(59 * time.Second) {
		t.Error("the same was put twice while it waits")
	}
	if err := box.Sent(m, Receipt{Name: "spaces/A/messages/M"}); err != nil {
		t.Fatal(err)
	}
	if say(59 * time.Second) {
		t.Error("the same was put again after it was sent")
	}
	known, _ := box.Known()
	if r, ok := box.Arrived(m.Key, "client-1"); !ok || r.Name != "spaces/A/messages/M" || !known["spaces/A/messages/M"] {
		t.Errorf("receipt: %+v, %v", r, ok)
	}
	if !say(time.Minute) {
		t.Error("a minute later it is news again")
	}
	if !say(2*time.Minute) || say(150*time.Second) {
		t.Error("the last time counts")
	}
	box.Sweep(time.Now().Add(MaxAge + time.Minute))
	if _, ok := box.Receipt(m.Key); ok {
		t.Error("a receipt is kept for ever")
	}
}

func TestOutboxMergesWhateverStepIsCut(t *testing.T) {
	box := OutboxIn(t.TempDir())
	var ms []*Outgoing
	for _, id := range []string{"client-a", "client-b", "client-c"} {
		m := outgoing(id, asked, "x")
		mustPut(t, box, m, 0)
		ms = append(ms, m)
	}
	// Killed right after the first step: the texts are in a, and b and c still wait.
	ms[0].Parts, ms[0].Merged = []string{"a\n\nb\n\nc"}, []Merged{
		{"client-b", "client-b", asked, filepath.Base(ms[1].Path)}, {"client-c", "client-c", asked, "../" + filepath.Base(ms[2].Path)}}
	if err := box.Rewrite(ms[0]); err != nil {
		t.Fatal(err)
	}
	head, err := box.Load(ms[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Absorb(head); err != nil {
		t.Fatal(err)
	}
	if left, _ := box.Waiting(); len(left) != 1 || left[0].Parts[0] != "a\n\nb\n\nc" {
		t.Fatalf("waiting: %v", ids(left))
	}
	if _, ok := box.Arrived("client-c", "client-c"); ok {
		t.Error("c arrived before the message that it is in")
	}
	if mustPut(t, box, outgoing("client-c", asked, "x"), time.Minute) {
		t.Error("c was put again while it waits inside a")
	}
	if err := box.Sent(head, Receipt{Name: "spaces/A/messages/M"}); err != nil {
		t.Fatal(err)
	}
	if r, ok := box.Arrived("client-c", "client-c"); !ok || r.Name != "spaces/A/messages/M" {
		t.Errorf("c: %+v, %v", r, ok)
	}
}

func TestOutboxParksAndRevives(t *testing.T) {
	box := OutboxIn(t.TempDir())
	a, b := outgoing("client-a", asked, "x"), outgoing("client-b", asked, "x")
	mustPut(t, box, a, 0)
	mustPut(t, box, b, 0)
	if err := box.Park(a, "chat answered 404"); err != nil {
		t.Fatal(err)
	}
	if ms, _ := box.Waiting(); len(ms) != 1 || len(box.Dead()) != 1 || box.Dead()[0].LastError != "chat answered 404" {
		t.Fatalf("waiting %v, dead %v", ids(ms), ids(box.Dead()))
	}
	if n, err := box.Revive(asked); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if ms, _ := box.Waiting(); !slices.Equal(ids(ms), []string{"client-a", "client-b"}) || ms[0].LastError != "" {
		t.Errorf("waiting: %v", ids(ms))
	}
}

func TestOutboxSetsAsideWhatIsNoMessage(t *testing.T) {
	box := OutboxIn(t.TempDir())
	mustPut(t, box, outgoing("client-a", asked, "x"), 0)
	for name, content := range map[string]string{"1-x-torn": `{"message_id":`, "2-x-empty": `{"message_id":"client-x","parts":[]}`, "3-x-list": `[]`} {
		os.WriteFile(filepath.Join(box.Dir, name+".json"), []byte(content), 0o600)
	}
	os.WriteFile(filepath.Join(box.Dir, "notes.json"), []byte("a person's"), 0o600)
	ms, bad := box.Waiting()
	if len(ms) != 1 || len(bad) != 3 {
		t.Fatalf("waiting %v, bad %v", ids(ms), bad)
	}
	for _, err := range bad {
		var c *Corrupt
		if !errors.As(err, &c) || !strings.Contains(c.Aside, ".corrupt-") {
			t.Errorf("%v", err)
		}
	}
	if ms, bad = box.Waiting(); len(ms) != 1 || len(bad) != 0 {
		t.Errorf("a second look: %v, %v", ids(ms), bad)
	}
}

func TestOutboxWritesAllOrNothing(t *testing.T) {
	box := OutboxIn(t.TempDir())
	mustPut(t, box, outgoing("client-a", asked, "x"), 0)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Skip(err)
	}
	big := outgoing("client-b", asked, "x")
	big.Parts = []string{strings.Repeat("x", 16<<20)}
	limit := was
	limit.Cur = 8 << 20 // as a full disk: a write ends in the middle; the go command's own log of the test is smaller
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Skip(err)
	}
	put, err := box.Put(big, 0)
	syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was)
	if put || err == nil {
		t.Fatal("a message that does not fit was put")
	}
	entries, _ := os.ReadDir(box.Dir)
	for _, e := range entries {
		if !strings.Contains(e.Name(), "client-a") && e.Name() != ".put" {
			t.Errorf("left behind: %s", e.Name())
		}
	}
}

func TestQuota(t *testing.T) {
	q := OutboxIn(t.TempDir()).Quota("chat.example/spaces/A")
	now, sent := asked, 0
	for range 10 {
		if q.Take(now, time.Second, 10, false) == 0 {
			sent++
		}
	}
	if wait := q.Take(now, time.Second, 10, false); sent != 10 || wait != time.Second {
		t.Fatalf("%d at once, then wait %s", sent, wait)
	}
	if wait := q.Take(now, time.Second, 13, true); wait != 0 {
		t.Errorf("a question waits %s behind a flood of reports", wait)
	}
	// One a second on average, however often it is asked.
	for range 6000 {
		now = now.Add(10 * time.Millisecond)
		if q.Take(now, time.Second, 10, false) == 0 {
			sent++
		}
	}
	if sent != 10+59 {
		t.Errorf("%d in a minute, want 69: ten at once, one went to a question", sent)
	}
	q.TooMany(now.Add(30*time.Second), "no")
	if wait := q.Take(now, time.Second, 13, true); wait != 30*time.Second {
		t.Errorf("left alone for %s, want 30s", wait)
	}
	for _, back := range []time.Duration{time.Hour, 48 * time.Hour} {
		q.Worked("w", "/another", now)
		if wait := q.Take(now.Add(-back), time.Second, 10, false); wait > 0 {
			t.Errorf("a clock that was set back by %s stops everything for %s", back, wait)
		}
	}
	q.OutOfReach(now.Add(time.Minute), "no")
	if q.Take(now, time.Second, 10, false) != time.Minute || q.Take(now, time.Second, 13, true) != 0 {
		t.Error("while Chat is out of reach reports wait and questions try")
	}
}

func TestQuotaIsShared(t *testing.T) {
	box := OutboxIn(t.TempDir())
	var wg sync.WaitGroup
	var mu sync.Mutex
	taken := 0
	for range 8 {
		wg.Go(func() {
			for range 10 {
				if box.Quota("c").Take(asked, time.Second, 10, false) == 0 {
					mu.Lock()
					taken++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if taken != 10 {
		t.Errorf("%d taken at the same moment, want 10", taken)
	}
	if box.Quota("another").Take(asked, time.Second, 10, false) != 0 {
		t.Error("another space has an allowance of its own")
	}
}

func TestPauseIsSaidOnceForAWebhook(t *testing.T) {
	q := OutboxIn(filepath.Join(t.TempDir(), "a [folder")).Quota("c") // a name is no pattern
	box := Outbox{filepath.Dir(filepath.Dir(q.path))}
	pause := func(webhook string, at time.Time, told bool) (bool, bool) {
		return q.Pause(webhook, Pause{Chat: "c", Project: "/shop", Since: at, NotBefore: at.Add(time.Minute), Why: "403", Told: told})
	}
	if news, tell := pause("one", asked, false); !news || tell {
		t.Error("a pause is news, also when nobody is there to be told")
	}
	if news, tell := pause("one", asked.Add(time.Hour), true); news || !tell {
		t.Error("the first session's person is told")
	}
	if news, tell := pause("one", asked.Add(2*time.Hour), true); news || tell {
		t.Error("and no other")
	}
	if ps := box.Pauses(); len(ps) != 1 || !ps[0].Since.Equal(asked) {
		t.Errorf("%+v", ps)
	}
	now := asked.Add(2 * time.Hour)
	if until := q.PausedUntil(now); len(until) != 1 || until["one"].Sub(now) != time.Minute {
		t.Errorf("paused: %v; the space's other webhooks are not", until)
	}
	q.Worked("two", "/another", now)
	if len(box.Pauses()) != 1 {
		t.Error("another webhook that works ends the pause of one that is tried")
	}
	q.Worked("two", "/another", now.Add(time.Hour))
	if len(box.Pauses()) != 0 {
		t.Error("a webhook that nobody tries any more is shown for ever")
	}
	pause("one", now, true)
	q.Worked("new", "/shop", now)
	if len(box.Pauses()) != 0 {
		t.Error("a project's new webhook works, and the old one is still shown")
	}
	pause("one", now, true)
	q.Worked("one", "/another", now)
	if len(box.Pauses()) != 0 {
		t.Error("success ends the pause")
	}
}

func TestQuotaBesideAStoppedProcess(t *testing.T) {
	q := OutboxIn(t.TempDir()).Quota("c")
	q.TooMany(asked.Add(time.Minute), "no")
	l, err := lockSoon(q.path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	if wait := q.Take(asked, time.Second, 10, false); wait != time.Minute {
		t.Errorf("left alone for %s, want a minute", wait)
	}
	q.Worked("w", "/another", asked)
	l.Unlock()
	if wait := q.Take(asked, time.Second, 10, false); wait != time.Minute {
		t.Errorf("then left alone for %s, want a minute: nothing may be written without the lock", wait)
	}
}

func TestPutBesideAStoppedProcess(t *testing.T) {
	box := OutboxIn(t.TempDir())
	l, err := lockSoon(filepath.Join(box.Dir, ".put"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	mustPut(t, box, outgoing("client-a", asked, "x"), time.Minute)
	mustPut(t, box, outgoing("client-b", asked, "x"), time.Minute)
	if ms, _ := box.Waiting(); len(ms) != 2 {
		t.Errorf("waiting: %v", ids(ms))
	}
}

func TestSettleEndsWhatASenderBegan(t *testing.T) {
	box := OutboxIn(t.TempDir())
	m := outgoing("client-a", asked, "x")
	mustPut(t, box, m, 0)
	if done, err := box.Settle(m); done || err != nil {
		t.Fatal(done, err)
	}
	if err := box.receive(m.Key, Receipt{MessageID: m.MessageID, Sent: true}); err != nil {
		t.Fatal(err)
	}
	if done, err := box.Settle(m); !done || err != nil || !box.Empty() {
		t.Error("a message with a receipt waits on", err)
	}
}

// TestOutboxListsWhatIsBeingRewritten lists the messages as Put does, while others note failed tries. Most file systems
// show a file that is replaced in every listing of its folder; tmpfs does not once a listing takes more than one read.
func TestOutboxListsWhatIsBeingRewritten(t *testing.T) {
	defer func(was time.Duration) { placeWait = was }(placeWait)
	placeWait = time.Minute // a busy machine may stop whoever holds the names for longer than a message can wait
	dirs := []string{t.TempDir()}
	if shm, err := os.MkdirTemp("/dev/shm", "outbox-"); err == nil { // Linux
		t.Cleanup(func() { os.RemoveAll(shm) })
		dirs = append(dirs, shm)
	}
	for _, dir := range dirs {
		box := OutboxIn(dir)
		var waiting []*Outgoing
		for i := range 150 {
			m := outgoing("client-"+strings.Repeat("x", 40)+strconv.Itoa(i), asked, "")
			mustPut(t, box, m, 0)
			waiting = append(waiting, m)
		}
		stop := make(chan struct{})
		var writer sync.WaitGroup
		writer.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := box.Rewrite(waiting[i*7%len(waiting)]); err != nil {
					t.Errorf("rewrite: %v", err)
					return
				}
			}
		})
		short := 0
		for range 3000 {
			unlock, err := box.lockNames()
			if err != nil {
				t.Fatal(err)
			}
			listed, err := box.queue()
			unlock()
			if err != nil || len(listed) != len(waiting) {
				short++
			}
		}
		close(stop)
		writer.Wait()
		if short > 0 {
			t.Errorf("%s: %d of 3000 listings missed a message", dir, short)
		}
	}
}
