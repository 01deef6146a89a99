package state

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"gchat-hooks/e2e/kit"
)

func TestSmallRecords_RegisterAtOnce(t *testing.T) {
	env := envOf(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			dir := fmt.Sprintf("/p%02d", i/2)
			err := RegisterProject(env, dir+"/.claude/state", dir)
			kit.True(t, err == nil, "%v", err)
		})
	}
	wg.Wait()
	all, bad := KnownProjects(env)
	kit.True(t, len(bad) == 0 && len(all) == 10, "%d projects, %v", len(all), bad)
}

func TestSmallRecords_SpaceDropsGarbage(t *testing.T) {
	s := SpacesIn(t.TempDir())
	_, err := s.Change("h/spaces/A", func(space *Space) { space.Watermark = asked })
	kit.NoError(t, err)
	again := s.Get("h/spaces/A")
	kit.True(t, again.Watermark.Equal(asked), "got %+v", again)
	os.WriteFile(s.path(safeFileName("h/spaces/A")), []byte(`{"watermark":"yesterday"}`), 0o600)
	again = s.Get("h/spaces/A")
	kit.True(t, again.Watermark.IsZero(), "garbage: %+v", again)
}

// A record is written only if the change changed it, because each write wakes the
// waiters.
func TestSmallRecords_NoChangeWritesNothing(t *testing.T) {
	sessions := SessionsIn(t.TempDir())
	changes := []struct {
		name   string
		change func(*Session)
		writes bool
	}{
		{"nothing, of a session that is not there", func(*Session) {}, false},
		{"its begin", func(session *Session) { session.Name = "a" }, true},
		{"the same once more", func(session *Session) { session.Name = "a" }, false},
		{"a member more", func(session *Session) { session.Notices = append(session.Notices, "x") },
			true},
		{"nothing", func(*Session) {}, false},
	}
	for _, c := range changes {
		before, _ := os.Stat(sessions.path("s"))
		session, err := sessions.Change("s", c.change)
		after, _ := os.Stat(sessions.path("s"))
		wrote := after != nil && !IsSameVersion(before, after)
		kit.True(t, err == nil && session.ID == "s" && wrote == c.writes &&
			session.IsChanged == c.writes,
			"%s: written %v, said to be changed %v, %v", c.name, wrote, session.IsChanged, err)
	}
}
