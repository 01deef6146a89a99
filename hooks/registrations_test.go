package hooks_test

import (
	"testing"

	"gchat-hooks/state"
)

// Two equal calls at one moment, each with the events of two registrations, are two
// records. Each record is marked as seen by both registrations. No record's lock is taken
// under another record's: see underlock.
func TestPermission_BothRegistrationsSeeEachCall(t *testing.T) {
	t.Parallel()
	w := newAgentWorld(t)
	plugin := w.withVariables("CLAUDE_PLUGIN_ROOT", "/plugins/gchat-hooks")
	var hooks []*hookProcess
	for range 2 {
		hooks = append(hooks, w.startHook(forwardHook, permissionEvent(w, "s-1", "make it")))
		hooks = append(hooks, plugin.startHook(forwardHook, permissionEvent(w, "s-1", "make it")))
	}
	var qs []*state.Question
	w.waitUntil("each call's record is seen by both", func() bool {
		qs, _ = state.ReadIndexedQuestions(w.getenv)
		seen := 0
		for _, q := range qs {
			seen += len(q.SeenByHooks)
		}
		return seen == len(hooks)
	})
	if len(qs) != 2 || len(qs[0].SeenByHooks) != 2 || len(qs[1].SeenByHooks) != 2 {
		t.Errorf("%d records", len(qs))
	}
	for _, q := range qs {
		w.awaitWaiter(q)
	}
}

// A question that PermissionRequest records because PreToolUse is not registered is
// written without reading tmux or the session under its folder's lock: see underlock.
func TestQuestion_ReadsTmuxBeforeItLocks(t *testing.T) {
	t.Parallel()
	w := newWorldWithoutPoller(t)
	w.inTmux()
	w.startHook(forwardHook, recorded(t, "single-04-PermissionRequest"))
	w.waitUntil("the question", func() bool { return len(w.questions()) == 1 })
	w.awaitWaiter(w.question())
}
