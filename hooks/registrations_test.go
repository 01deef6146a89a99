package hooks_test

import (
	"testing"

	"gchat-hooks/state"
)

// Two equal calls at one moment, each with the events of two registrations, are two records,
// each seen by both. No record's lock is taken under another one: see underlock.
func TestEachCallIsSeenByBothRegistrations(t *testing.T) {
	t.Parallel()
	w := agentDesk(t)
	plugin := w.with("CLAUDE_PLUGIN_ROOT", "/plugins/gchat-hooks")
	var hooks []*process
	for range 2 {
		hooks = append(hooks, w.start(forward, wants(w, "s-1", "make it")))
		hooks = append(hooks, plugin.start(forward, wants(w, "s-1", "make it")))
	}
	var qs []*state.Question
	w.until("each call's record is seen by both", func() bool {
		qs, _ = state.OpenQuestions(w.getenv)
		seen := 0
		for _, q := range qs {
			seen += len(q.SeenBy)
		}
		return seen == len(hooks)
	})
	if len(qs) != 2 || len(qs[0].SeenBy) != 2 || len(qs[1].SeenBy) != 2 {
		t.Errorf("%d records", len(qs))
	}
	for _, q := range qs {
		w.untilWaited(q)
	}
}

// A question that PermissionRequest writes down, where PreToolUse is not registered, is
// written without a look at tmux or the session under its folder's lock: see underlock.
func TestADialogsHookLooksAroundBeforeItLocks(t *testing.T) {
	t.Parallel()
	w := newDesk(t)
	w.inTmux()
	w.start(forward, recorded(t, "single-04-PermissionRequest"))
	w.until("the question", func() bool { return len(w.questions()) == 1 })
	w.untilWaited(w.question())
}
