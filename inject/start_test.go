package inject

import (
	"sync"
	"testing"

	"gchat-hooks/e2e/bound"
)

// Sessions that begin at one moment each get a window of our own server, which one of them starts.
func TestOpenAtOneMoment(t *testing.T) {
	needs(t, "tmux")
	own := Own(t.TempDir())
	t.Cleanup(func() { _ = bound.Command(t, "tmux", "-S", own.Socket, "kill-server").Run() })
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if _, err := own.Open(t.Context(), ownSession, t.TempDir(), []string{"/bin/sleep", "60"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	panes, err := own.Panes(t.Context())
	if err != nil || len(panes) != 6 {
		t.Errorf("%d panes, %v", len(panes), err)
	}
}
