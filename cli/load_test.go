package cli

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"gchat-hooks/gchat/space"
)

// TestLoad_EachMessageArrivesOnce has twenty workers send five hundred messages through a Chat that refuses or
// stumbles half the time, while the machine is killed at random moments. Every message
// arrives, none twice, in order in each thread, within the rate.
func TestLoad_EachMessageArrivesOnce(t *testing.T) {
	workers, each, calm := 20, 25, 1800
	if testing.Short() {
		workers, each, calm = 8, 10, 200
	}
	m := newMachine(t, 6000)
	m.nextFault = func(r *rand.Rand) fault {
		return []fault{noFault, noFault, noFault, noFault, tooMany, tooMany, storedThenTooMany, serverError, storedThenServerError, storedThenConnectionCut}[r.IntN(10)]
	}
	stop := make(chan struct{})
	var killers sync.WaitGroup
	killers.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(200+rand.IntN(calm)) * time.Millisecond):
				if m.pausedKills.Load() == 0 {
					m.killAll()
				}
			}
		}
	})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for n := range each {
				m.sendUntilKept(fmt.Sprintf("w%02d", w), fmt.Sprintf("w%02d m%02d", w, n))
			}
		})
	}
	wg.Wait()
	close(stop)
	killers.Wait()
	m.flush()

	var counts arrivals
	counts.count(m.space)
	t.Logf("%d messages from %d workers: %d arrived, %d missing, %d twice, %d out of order; %d requests, of which %d refused or broken, %d stored all the same; the machine killed %d times, %d processes; bursts of at most %d over the rate",
		workers*each, workers, len(counts.counts), workers*each-len(counts.counts), counts.duplicates, counts.outOfOrder,
		m.posts.Load(), m.faults.Load(), m.storedFaults.Load(), m.kills.Load(), m.killed.Load(), m.largestBurst())
	if len(counts.counts) != workers*each || counts.duplicates > 0 || counts.outOfOrder > 0 {
		t.Errorf("%d arrived, %d twice, %d out of order", len(counts.counts), counts.duplicates, counts.outOfOrder)
	}
	if m.kills.Load() == 0 || m.faults.Load() == 0 || m.storedFaults.Load() == 0 {
		t.Error("the load was none: no kill, or no fault")
	}
	// The rate is one write per 10 ms here, with bursts of 10; a busy machine may deliver
	// a few of them late, together.
	if over := m.largestBurst(); over > 2*10 {
		t.Errorf("%d writes more than the rate at some moment, want at most 10 and what came late", over)
	}
}

// arrivals is what the space holds, counted.
type arrivals struct {
	counts                 map[string]int
	duplicates, outOfOrder int
}

func (a *arrivals) count(s *space.Space) {
	a.counts = map[string]int{}
	last := map[string]string{} // by thread
	for _, m := range s.Messages() {
		if a.counts[m.Text]++; a.counts[m.Text] > 1 {
			a.duplicates++
		}
		if m.Text <= last[m.Thread.Name] {
			a.outOfOrder++
		}
		last[m.Thread.Name] = m.Text
	}
}

// largestBurst is by how many writes the requests were ahead of the rate at most.
func (m *machine) largestBurst() (most int) {
	interval := time.Minute / time.Duration(m.perMinute)
	slices.SortFunc(m.postTimes, time.Time.Compare)
	ahead, last := time.Duration(0), time.Time{}
	for _, at := range m.postTimes {
		ahead = max(0, ahead-at.Sub(last)) + interval
		last = at
		most = max(most, int(ahead/interval))
	}
	return most
}
