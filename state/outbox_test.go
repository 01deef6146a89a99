package state

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
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
	box := OutboxIn(t.TempDir())
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
	if r, ok := box.Arrived(m.Key); !ok || r.Name != "spaces/A/messages/M" || !box.Names()["spaces/A/messages/M"] {
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
		{Key: "client-b", File: filepath.Base(ms[1].Path)}, {Key: "client-c", File: "../" + filepath.Base(ms[2].Path)}}
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
	if _, ok := box.Arrived("client-c"); ok {
		t.Error("c arrived before the message that it is in")
	}
	if mustPut(t, box, outgoing("client-c", asked, "x"), time.Minute) {
		t.Error("c was put again while it waits inside a")
	}
	if err := box.Sent(head, Receipt{Name: "spaces/A/messages/M"}); err != nil {
		t.Fatal(err)
	}
	if r, ok := box.Arrived("client-c"); !ok || r.Name != "spaces/A/messages/M" {
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
	if n, err := box.Revive(); n != 1 || err != nil {
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
	big.Parts = []string{strings.Repeat("x", 1<<16)}
	limit := was
	limit.Cur = 1 << 12 // as a full disk: a write ends in the middle
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
		if q.Take(now, time.Second, 10) == 0 {
			sent++
		}
	}
	if wait := q.Take(now, time.Second, 10); sent != 10 || wait != time.Second {
		t.Fatalf("%d at once, then wait %s", sent, wait)
	}
	if wait := q.Take(now, time.Second, 13); wait != 0 {
		t.Errorf("a question waits %s behind a flood of reports", wait)
	}
	// One a second on average, however often it is asked.
	for range 6000 {
		now = now.Add(10 * time.Millisecond)
		if q.Take(now, time.Second, 10) == 0 {
			sent++
		}
	}
	if sent != 10+59 {
		t.Errorf("%d in a minute, want 69: ten at once, one went to a question", sent)
	}
	q.Block(now.Add(30 * time.Second))
	if wait := q.Take(now, time.Second, 13); wait != 30*time.Second {
		t.Errorf("left alone for %s, want 30s", wait)
	}
	if wait := q.Take(now.Add(-48*time.Hour), time.Second, 10); wait != 0 {
		t.Errorf("a clock that was set back by two days stops everything for %s", wait)
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
				if box.Quota("c").Take(asked, time.Second, 10) == 0 {
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
	if box.Quota("another").Take(asked, time.Second, 10) != 0 {
		t.Error("another space has an allowance of its own")
	}
}

func TestPauseIsSaidOnceForAWebhook(t *testing.T) {
	box := OutboxIn(t.TempDir())
	q := box.Quota("c")
	if !q.Pause(Pause{Chat: "c", Since: asked, Why: "403", Webhook: "one"}) || q.Pause(Pause{Chat: "c", Since: asked.Add(time.Hour), Why: "403", Webhook: "one"}) {
		t.Error("a pause is news once")
	}
	if ps := box.Pauses(); len(ps) != 1 || !ps[0].Since.Equal(asked) {
		t.Errorf("%+v", ps)
	}
	q.Block(asked.Add(time.Minute))
	if q.Mended("one"); q.Take(asked, time.Second, 10) == 0 {
		t.Error("the same webhook does not end a pause")
	}
	if q.Mended("two"); q.Take(asked, time.Second, 10) != 0 || len(box.Pauses()) != 0 {
		t.Error("a new webhook URL ends the pause")
	}
}
