package space

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gchat-hooks/e2e/kit"
)

// pullEventIDs is the texts and taps that the app hears, each once, and acknowledges.
func pullEventIDs(t *testing.T, s *Space) (ids []string) {
	t.Helper()
	s.mu.Lock()
	answer := s.handOutEvents(100)
	var acks []string
	for _, q := range s.queue {
		ids = append(ids, q.ID)
	}
	s.mu.Unlock()
	for _, m := range answer.ReceivedMessages {
		acks = append(acks, m.AckId)
	}
	kit.NoError(t, s.acknowledge(acks))
	return ids
}

func wantEvents(t *testing.T, s *Space, want ...string) {
	t.Helper()
	kit.Equalf(t, pullEventIDs(t, s), want, "the app hears")
}

func postEvent(t *testing.T, s *Space, text string) (id string) {
	t.Helper()
	m := postAsPerson(t, s, "", text)
	return "message:" + m.Name
}

// Events that the app did not acknowledge come again after a restart, even a message
// whose event was not written when the process was killed. Acknowledged events do not.
func TestEvents_OutliveTheProcess(t *testing.T) {
	opts := Options{DataDir: t.TempDir(), IsDirect: true}
	s, _, app := openApp(t, opts)
	card := postCard(t, app)
	first := postEvent(t, s, "first")
	wantEvents(t, s, first)
	file := filepath.Join(opts.DataDir, eventsFile)
	second := postEvent(t, s, "second")
	kit.NoError(t, s.Tap(nil, card, "", "2", nil, "tap:a"))
	written := kit.ReadFile(t, file)
	third := postEvent(t, s, "third")
	s.Close()
	kit.NoError(t, os.WriteFile(file, []byte(written+`{"id":"half`), 0o600))
	s, _, _ = openApp(t, opts)
	wantEvents(t, s, second, "tap:a", third)
	s.Close()
	s, _, _ = openApp(t, opts)
	wantEvents(t, s)
	if info, err := os.Stat(file); err != nil || info.Size() > 100 {
		t.Errorf("the file of events is %v (%v)", info.Size(), err)
	}
}

// If too many events wait, the person gets an error. Events older than a day are
// dropped.
func TestEvents_AreBounded(t *testing.T) {
	now := time.Now()
	s, _, app := openApp(t, Options{IsDirect: true, Now: func() time.Time { return now }})
	card := postCard(t, app)
	for range maxQueuedEvents {
		kit.NoError(t, s.Tap(nil, card, "", "2", nil, ""))
	}
	if err := s.Tap(nil, card, "", "2", nil, ""); err == nil {
		t.Error("a tap is taken without end")
	}
	now = now.Add(maxEventAge + time.Hour)
	if err := s.Tap(nil, card, "", "2", nil, ""); err != nil || len(s.queue) != 1 {
		t.Errorf("a day later %d wait: %v", len(s.queue), err)
	}
}

// While an event waits, the server is notified, ever more rarely, so that it can start
// what fetches it.
func TestEvents_WakeTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notified := 0
		s, err := Open(Options{IsDirect: true, OnActivity: func(waits bool) {
			if waits {
				notified++
			}
		}})
		kit.NoError(t, err)
		defer s.Close()
		postEvent(t, s, "for nobody")
		s.hasApp = true
		for _, want := range []int{4, 8} { // at once, and after 10, 30 and 70 seconds
			postEvent(t, s, "for the app")
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			pullEventIDs(t, s)
			time.Sleep(time.Hour)
			kit.Equalf(t, notified, want, "notified")
		}
	})
}

// An event that is not acknowledged in time comes again with a new ack id. Only the new
// id counts.
func TestEvents_ComeAgainUntilAcknowledged(t *testing.T) {
	var late atomic.Int64
	s, _, app := openApp(t,
		Options{Now: func() time.Time { return time.Now().Add(time.Duration(late.Load())) }})
	kit.NoError(t, s.Tap(nil, postCard(t, app), "", "1", nil, ""))
	first := pullAll(t, app, 1)[0]
	for i, ack := range []bool{false, true} {
		late.Add(int64(ackDeadline + time.Second))
		again := pullAll(t, app, 1)[0]
		if again.ID != first.ID || again.AckID == first.AckID {
			t.Fatalf("delivery %d: %+v after %+v", i+2, again, first)
		}
		id := first.AckID
		if ack {
			id = again.AckID
		}
		kit.NoError(t, app.Ack(t.Context(), []string{id}))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kit.Equalf(t, len(s.queue), 0, "events are left")
}
