package cli

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
)

// TestLoad_EachMessageArrivesOnce has twenty workers send five hundred messages through a
// Chat that refuses or stumbles half the time, while the machine is killed at random
// moments. Every message arrives, none twice, in order in each thread, within the rate.
func TestLoad_EachMessageArrivesOnce(t *testing.T) {
	workers, each, calm := 20, 25, 1800
	if !kit.IsThorough() {
		workers, each, calm = 8, 10, 200
	}
	m := newMachine(t, 6000)
	m.nextFault = func(r *rand.Rand) fault {
		return []fault{
			noFault, noFault, noFault, noFault, tooMany, tooMany, storedThenTooMany,
			serverError, storedThenServerError, storedThenConnectionCut,
		}[r.IntN(10)]
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
	t.Logf("%d requests, of which %d refused or broken, %d stored all the same; the machine "+
		"killed %d times, "+
		"%d processes; bursts of at most %d over the rate", m.posts.Load(), m.faults.Load(),
		m.storedFaults.Load(), m.kills.Load(), m.killed.Load(), m.largestBurst())
	kit.Equalf(t, len(counts.counts), workers*each, "arrived")
	kit.Equalf(t, counts.duplicates, 0, "arrived twice")
	kit.Equalf(t, counts.outOfOrder, 0, "arrived out of order")
	if m.kills.Load() == 0 || m.faults.Load() == 0 || m.storedFaults.Load() == 0 {
		t.Error("the load was none: no kill, or no fault")
	}
	// The rate is one write per 10 ms here, with bursts of 10; a busy machine may deliver
	// a few of them late, together.
	if over := m.largestBurst(); over > 2*10 {
		t.Errorf("%d writes more than the rate at some moment, want at most 10 and what came late",
			over)
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

// sendUntilKept runs gchat-send until it keeps the message: a worker whose process was
// killed, or that learns that the message was not kept, since the outbox is crowded,
// does what a script does, it sends again under the same id. What came under one id
// counts as one message for ten minutes. On a slow machine a worker may be killed for
// long, so after half a minute the killing pauses.
func (m *machine) sendUntilKept(session, text string) {
	start, isSpared := time.Now(), false
	defer func() {
		if isSpared {
			m.pausedKills.Add(-1)
		}
	}()
	for {
		if !isSpared && time.Since(start) > 30*time.Second {
			isSpared = true
			m.pausedKills.Add(1)
		}
		cmd := m.command(m.program, "send", "--session", session, "--thread-key", session,
			"--id", strings.ReplaceAll(text, " ", "-"), text)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		err := m.runKillable(cmd)
		var exit *exec.ExitError
		switch {
		case err == nil:
			return
		case errors.As(err, &exit) && exit.ExitCode() == exitNotDelivered:
			if !strings.Contains(stderr.String(), "save message: ") {
				return // it stays in the outbox
			}
		case errors.As(err, &exit) && exit.ExitCode() == -1: // killed
		default:
			m.Errorf("gchat-send: %v: %s", err, &stderr)
			return
		}
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
