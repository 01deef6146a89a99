package state

import (
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// `status`, `answer` and the poller ask this one function who brings a reply to Claude.
func TestDeliverer_Table(t *testing.T) {
	prompts := []SubQuestion{{Question: "Which?"}}
	now := time.Now()
	for name, c := range map[string]struct {
		q       Question
		hasPane bool
		waits   bool // a process
		want    Deliverer
		needs   bool // a hook of its own
	}{
		"a hook waits": {Question{Mode: ModeNative}, true, true, DelivererHook, false},
		"it comes, or the poller types": {Question{Mode: ModeNative}, true, false,
			DelivererPoller, true},
		"it comes, or the terminal answers": {Question{Mode: ModeNative}, false, false,
			DelivererNone, true},
		"it had the answer": {Question{Mode: ModeNative, IsPrinted: true},
			true, false, DelivererNone, true},
		"no dialog, a hook waits":     {Question{Mode: ModeHold}, true, true, DelivererHook, false},
		"no dialog, nothing is typed": {Question{Mode: ModeHold}, true, false, DelivererNone, true},
		"handed over": {Question{Mode: ModeHold, HandedOverAt: &now},
			true, true, DelivererNone, true},
		"denied": {Question{Mode: ModeDeny}, true, false, DelivererLater, false},
		"denied, a hook waits to wake Claude": {Question{Mode: ModeDeny}, true, true,
			DelivererHook, false},
		"typed": {Question{Mode: ModeInject}, true, false, DelivererPoller, false},
		"to be typed outside of tmux": {Question{Mode: ModeInject}, false, false,
			DelivererNone, false},
		"outside of tmux, where a hook waits": {Question{Mode: ModeInject}, false, true,
			DelivererHook, false},
		"a thread that nobody waits in": {Question{Mode: ModeThread}, true, false,
			DelivererLater, false},
		"a thread that a process waits in": {Question{Mode: ModeThread}, true, true,
			DelivererHook, false},
		"a mode of a later release": {Question{Mode: "telepathy"}, true, false,
			DelivererNone, false},
		"another program's": {Question{}, true, false, DelivererPoller, false},
		"a permission is never typed": {Question{Mode: ModeNative,
			Kind: KindPermission}, true, false, DelivererNone, true},
		"nor is a plan": {Question{Mode: ModeNative, Kind: KindPlan},
			true, false, DelivererNone, true},
		"a permission's hook waits": {Question{Mode: ModeNative,
			Kind: KindPermission}, true, true, DelivererHook, false},
		"an instruction is typed beside its hook": {Question{Mode: ModeNative, Kind: KindNext},
			true, true, DelivererPoller, false},
		"an instruction outside of tmux": {Question{Mode: ModeNative, Kind: KindNext},
			false, true, DelivererHook, false},
		"its hook ended": {Question{Mode: ModeNative, Kind: KindNext},
			false, false, DelivererNone, true},
		"words in tmux": {Question{Mode: ModeNative, Kind: KindPrompt},
			true, false, DelivererPoller, false},
		"words outside of tmux": {Question{Mode: ModeNative, Kind: KindPrompt},
			false, false, DelivererLater, false},
		"words that a hook waits for": {Question{Mode: ModeNative, Kind: KindPrompt},
			false, true, DelivererHook, false},
	} {
		t.Run(name, func(t *testing.T) {
			env := envOf(t)
			c.q.SubQuestions, c.q.Path = prompts, "/q.json"
			if c.waits {
				lock, err := LockWaiter(env, c.q.Path)
				kit.NoError(t, err)
				defer lock.Unlock()
			}
			who := c.q.FindDeliverer(env, c.hasPane)
			kit.True(t, who == c.want && c.q.NeedsHook(who) == c.needs,
				"%s, needs a hook: %v; want %s, %v", who, c.q.NeedsHook(who), c.want, c.needs)
		})
	}
}
