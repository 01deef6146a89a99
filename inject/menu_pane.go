package inject

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gchat-hooks/state"
)

// locate finds the pane that is meant. Of several in a session it is the one where a Claude Code has the keyboard.
func (d *driver) locate(ctx context.Context, session string) (Pane, error) {
	if paneID().MatchString(session) {
		return d.Server.Pane(ctx, session)
	}
	name, err := d.Server.Find(ctx, session)
	if err != nil {
		return Pane{}, err
	}
	all, err := d.Server.Panes(ctx)
	if err != nil {
		return Pane{}, err
	}
	var panes, claudes []Pane
	var what []string
	for _, p := range all {
		if p.Session != name {
			continue
		}
		panes = append(panes, p)
		if _, err := p.Claude(0, ""); err == nil {
			claudes = append(claudes, p)
		} else {
			what = append(what, fmt.Sprintf("%s: %v", p.ID, err))
		}
	}
	switch {
	case len(panes) == 0:
		return Pane{}, fmt.Errorf("find session %q: %w", session, ErrNoSession) // it ended just now
	case len(claudes) == 1:
		return claudes[0], nil
	case len(panes) == 1:
		return panes[0], nil
	case len(claudes) > 1:
		var ids []string
		for _, p := range claudes {
			ids = append(ids, p.ID)
		}
		return Pane{}, d.refuse("session %s has %d panes with Claude Code: name one of %s",
			name, len(claudes), strings.Join(ids, ", "))
	}
	return Pane{}, d.refuse("session %s has %d panes, none with Claude Code: %s", name, len(panes), strings.Join(what, "; "))
}

// locateSupervised finds the pane on the server that its agent was told of: an agent runs the lines of its message outside of
// tmux, where nothing names a server that is not the default one.
func (d *driver) locateSupervised(ctx context.Context) bool {
	for _, socket := range state.WakeServers(d.UserState, d.session) {
		there := *d
		there.Server = Server{Socket: socket}
		if pane, err := there.locate(ctx, d.session); err == nil {
			d.Server, d.pane = there.Server, pane
			return true
		}
	}
	return false
}

// look reads the screen once.
func (d *driver) look(ctx context.Context) (Screen, error) {
	capture, err := d.Server.Capture(ctx, d.pane.ID)
	if err != nil {
		return Screen{}, err
	}
	s := ReadScreen(capture)
	if s.Kind == Unknown && s.Why == "" {
		s.Why = "a screen that I do not know"
	}
	return s, nil
}

// await looks until ok likes the screen, or until patience has run out: then seen is false, and the screen the last one.
func (d *driver) await(ctx context.Context, patience time.Duration, ok func(Screen) bool) (s Screen, seen bool, err error) {
	if d.Patience > 0 {
		patience = d.Patience
	}
	for deadline := time.Now().Add(patience); ; {
		if s, err = d.look(ctx); err != nil || ok(s) {
			return s, err == nil, err
		}
		if time.Now().After(deadline) {
			return s, false, nil
		}
		select {
		case <-ctx.Done():
			return s, false, ctx.Err()
		case <-time.After(glance):
		}
	}
}

// steady is a screen that has been the same dialog for a moment. Claude Code 2.1.329 takes no keys in the first 150 ms of
// a dialog, lest it swallow what a person was typing; and a screen may be caught half drawn.
func (d *driver) steady(ctx context.Context) (Screen, error) {
	s, err := d.look(ctx)
	since := time.Now()
	for deadline := since.Add(6 * settled); err == nil && time.Since(since) < settled && time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(glance):
		}
		var now Screen
		if now, err = d.look(ctx); !sameDialog(now, s) {
			since = time.Now()
		}
		s = now
	}
	return s, err
}

// settled is how long a screen stays as it is before it is believed.
const settled = 300 * time.Millisecond

// sameDialog says whether two screens show the same dialog, whatever is ticked or typed in it.
func sameDialog(a, b Screen) bool {
	if a.Kind != b.Kind || a.Question != b.Question || a.Header != b.Header || a.Why != b.Why || len(a.Rows) != len(b.Rows) {
		return false
	}
	for i := range a.Rows {
		if a.Rows[i].Number != b.Rows[i].Number || a.Rows[i].Kind != OtherRow && a.Rows[i].Label != b.Rows[i].Label {
			return false
		}
	}
	current := func(s Screen) string {
		for _, t := range s.Tabs {
			if t.Current {
				return t.Title
			}
		}
		return ""
	}
	return current(a) == current(b)
}
