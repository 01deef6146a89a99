package state

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

func TestOutbox_KeepsOrderAndKeys(t *testing.T) {
	env := envOf(t)
	box := OutboxIn(UserStateDir(env))
	late := message("a", "first")
	late.CreatedAt = time.Now().Add(time.Hour) // the clock was set back after it
	for _, m := range []*Message{late, message("b", "second"), message("c", "third")} {
		enqueue(t, env, m)
	}
	again, put, err := box.Enqueue(env, message("b", "second"), time.Minute)
	kit.True(t, err == nil && !put && again.Key == "b", "put twice: %v, %v, %v", again, put, err)
	enqueue(t, env, message("b", "second")) // later
	waiting, bad := box.Waiting()
	var keys string
	for _, m := range waiting {
		keys += m.Key
	}
	kit.True(t, keys == "abcb" && len(bad) == 0, "in order: %q, %v", keys, bad)
}

// A message stays removed even if another process changes it at the same moment:
// `gchat-send --no-queue` has reported that it is not kept.
func TestOutbox_RemovedStaysRemoved(t *testing.T) {
	env := envOf(t)
	box := OutboxIn(UserStateDir(env))
	m := enqueue(t, env, message("a", "never"))
	dropped := make(chan error)
	changeMessage(t, env, m, func(m *Message) {
		go func() { dropped <- box.RemoveMessage(env, m) }()
		m.FailedTries++
		select {
		case err := <-dropped: // before the write
			go func() { dropped <- err }()
		case <-time.After(50 * time.Millisecond):
		}
	})
	kit.NoError(t, <-dropped)
	all, bad := box.All()
	kit.True(t, len(all)+len(bad) == 0, "left are %v, %v", all, bad)
}

func TestOutbox_KeepsReceipts(t *testing.T) {
	env, now := envOf(t), time.Now()
	box := OutboxIn(UserStateDir(env))
	end := func(key string, ago time.Duration, aside string) {
		m := enqueue(t, env, message(key, key))
		changeMessage(t, env, m, func(m *Message) {
			m.EndedAt, m.SetAsideReason = now.Add(-ago).UTC(), aside
			if aside == "" {
				m.SentAt = m.EndedAt
			}
		})
	}
	end("fresh", time.Minute, "")
	end("old", time.Hour, "")
	end("aside", 24*time.Hour, "refused")
	end("gone", 31*24*time.Hour, "refused")
	enqueue(t, env, message("waits", "x"))
	box.Sweep(env, now)
	all, _ := box.All()
	var left []string
	for _, m := range all {
		left = append(left, m.Key)
	}
	slices.Sort(left)
	kit.Equalf(t, left, []string{"aside", "fresh", "waits"}, "what is left")
	n, err := box.RetrySetAside(now)
	kit.True(t, n == 1 && err == nil && len(box.SetAside()) == 0, "revived %d, %v", n, err)
}

// A message that the previous release queued is sent.
func TestOutbox_MessageOfTheReleaseBefore(t *testing.T) {
	box := OutboxIn(UserStateDir(envOf(t)))
	writeAt(t, filepath.Join(box.Dir, "1795357346000000000-0a1b2c3d4e5f60-client-1.json"),
		`{"message_id":"client-1","key":"client-1","chat":"h/spaces/S","parts":["Done."],"project_dir":"/p","kind":"task_done","created_at":"2026-11-22T10:00:00Z"}`)
	waiting, bad := box.Waiting()
	kit.True(t, len(bad) == 0 && len(waiting) == 1 && waiting[0].Type == MessageReport &&
		waiting[0].Parts[0] == "Done." && waiting[0].Environment == "",
		"%+v, %v", waiting, bad)
}
