package inject

import (
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// The person in this test is a real client of one tmux server. It runs in a pane of
// another server, which stands in for the terminal.
func TestAttention_LastTypedIsAPersons(t *testing.T) {
	t.Parallel()
	w, p := newTestTmux(t, "exec cat")
	other := w.newSession("other", "exec cat")
	last := func(p Pane) time.Time {
		t.Helper()
		at, err := w.LastTyped(t.Context(), p.ID)
		kit.NoError(t, err)
		return at
	}
	kit.True(t, last(p).IsZero(), "nobody is attached, and typed")

	desk, person := newTestTmux(t, "unset TMUX; exec tmux -u -S "+w.Socket+" attach -t =main")
	bound.Until(t, "somebody is attached", func() bool { return !last(p).IsZero() })
	kit.True(t, last(other).IsZero(), "attached to another session")
	// tmux counts whole seconds
	past := func(base time.Time) bool { return time.Now().Unix() > base.Unix()+1 }
	bound.Until(t, "the answers of the terminal are over", func() bool { return past(last(p)) })

	base := last(p)
	bound.Until(t, "we have typed for a while", func() bool {
		kit.NoError(t, w.PressKey(t.Context(), p.ID, KeyEnter))
		kit.NoError(t, w.PasteText(t.Context(), p.ID, "ours"))
		return past(base)
	})
	kit.Equalf(t, last(p), base, "after our own keys")
	bound.Until(t, "a person's key counts", func() bool {
		kit.NoError(t, desk.PressKey(t.Context(), person.ID, KeyDigit(1)))
		return last(p).After(base)
	})

	// A second session with the same window also shows the pane.
	w.tmux("new-session", "-d", "-t", "=other", "-s", "twin")
	w.tmux("switch-client", "-c", w.tmux("list-clients", "-F", "#{client_name}"), "-t", "=twin")
	kit.True(t, !last(other).IsZero(), "a client of the same window's other session does not count")
	kit.True(t, last(p).IsZero(), "it went to another session")
}

func TestAttention_ReadOnlyClientTypesNothing(t *testing.T) {
	w, p := newTestTmux(t, "exec cat")
	newTestTmux(t, "unset TMUX; exec tmux -u -S "+w.Socket+" attach -r -t =main")
	bound.Until(t, "somebody is attached", func() bool { return w.tmux("list-clients") != "" })
	at, err := w.LastTyped(t.Context(), p.ID)
	kit.True(t, err == nil && at.IsZero(), "%v, %v", at, err)
}

// A notice in the status line swallows no key: the key that ends it reaches the program.
func TestAttention_ANoticeTakesNoKey(t *testing.T) {
	w, p := newTestTmux(t, "exec cat")
	desk, person := newTestTmux(t, "unset TMUX; exec tmux -u -S "+w.Socket+" attach -t =main")
	var clients []Client
	bound.Until(t, "somebody is attached", func() bool {
		clients, _ = w.Clients(t.Context(), p.ID)
		return len(clients) == 1
	})
	kit.Must(t, !clients[0].IsControlMode && !clients[0].LastTyped.IsZero(),
		"attached as %+v", clients[0])
	shows := func(s Server, pane, words string) bool {
		screen, err := s.Capture(t.Context(), pane)
		return err == nil && strings.Contains(screen, words)
	}
	const words = "a permission waits: press a key"
	kit.NoError(t, w.ShowNotice(t.Context(), clients[0], time.Minute, words))
	bound.Until(t, "the notice", func() bool { return shows(desk.Server, person.ID, words) })
	kit.NoError(t, desk.PressKey(t.Context(), person.ID, KeyDigit(7)))
	bound.Until(t, "the key", func() bool { return shows(w.Server, p.ID, "7") })
	bound.Until(t, "the notice's end", func() bool { return !shows(desk.Server, person.ID, words) })
}

// tmux does not report the keys of a client in control mode.
func TestAttention_ControlMode(t *testing.T) {
	w, p := newTestTmux(t, "exec cat")
	newTestTmux(t, "unset TMUX; exec tmux -C -S "+w.Socket+" attach -t =main")
	bound.Until(t, "somebody is attached in control mode", func() bool {
		clients, err := w.Clients(t.Context(), p.ID)
		return err == nil && len(clients) == 1 && clients[0].IsControlMode
	})
}
