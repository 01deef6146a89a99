package state

import (
	"testing"
	"time"
)

// Status, answer and the poller ask one function who brings a reply to Claude, and so they
// agree.
func TestDeliverer(t *testing.T) {
	prompts := []Prompt{{Question: "Which?"}}
	now := time.Now()
	for name, c := range map[string]struct {
		q       Question
		hasPane bool
		waits   bool // a process
		want    Deliverer
		needs   bool // a hook of its own
	}{
		"a hook waits":                            {Question{Mode: Native}, true, true, ByHook, false},
		"it comes, or the poller types":           {Question{Mode: Native}, true, false, ByPoller, true},
		"it comes, or the terminal answers":       {Question{Mode: Native}, false, false, ByNobody, true},
		"it had the answer":                       {Question{Mode: Native, Printed: true}, true, false, ByNobody, true},
		"no dialog, a hook waits":                 {Question{Mode: Hold}, true, true, ByHook, false},
		"no dialog, nothing is typed":             {Question{Mode: Hold}, true, false, ByNobody, true},
		"handed over":                             {Question{Mode: Hold, HandedOver: &now}, true, true, ByNobody, true},
		"denied":                                  {Question{Mode: Deny}, true, false, ByLater, false},
		"denied, a hook waits to wake Claude":     {Question{Mode: Deny}, true, true, ByHook, false},
		"typed":                                   {Question{Mode: Inject}, true, false, ByPoller, false},
		"to be typed outside of tmux":             {Question{Mode: Inject}, false, false, ByNobody, false},
		"outside of tmux, where a hook waits":     {Question{Mode: Inject}, false, true, ByHook, false},
		"a thread that nobody waits in":           {Question{Mode: Thread}, true, false, ByLater, false},
		"a thread that a process waits in":        {Question{Mode: Thread}, true, true, ByHook, false},
		"a mode of a later release":               {Question{Mode: "telepathy"}, true, false, ByNobody, false},
		"another program's":                       {Question{}, true, false, ByPoller, false},
		"a permission is never typed":             {Question{Mode: Native, Kind: AskedPermission}, true, false, ByNobody, true},
		"nor is a plan":                           {Question{Mode: Native, Kind: AskedPlan}, true, false, ByNobody, true},
		"a permission's hook waits":               {Question{Mode: Native, Kind: AskedPermission}, true, true, ByHook, false},
		"an instruction is typed beside its hook": {Question{Mode: Native, Kind: AskedNext}, true, true, ByPoller, false},
		"an instruction outside of tmux":          {Question{Mode: Native, Kind: AskedNext}, false, true, ByHook, false},
		"its hook ended":                          {Question{Mode: Native, Kind: AskedNext}, false, false, ByNobody, true},
		"words in tmux":                           {Question{Mode: Native, Kind: Said}, true, false, ByPoller, false},
		"words outside of tmux":                   {Question{Mode: Native, Kind: Said}, false, false, ByLater, false},
		"words that a hook waits for":             {Question{Mode: Native, Kind: Said}, false, true, ByHook, false},
	} {
		t.Run(name, func(t *testing.T) {
			env := envOf(t)
			c.q.Questions, c.q.Path = prompts, "/q.json"
			if c.waits {
				lock, err := LockWaiter(env, c.q.Path)
				if err != nil {
					t.Fatal(err)
				}
				defer lock.Unlock()
			}
			who := c.q.Deliverer(env, c.hasPane)
			if who != c.want || c.q.NeedsHook(who) != c.needs {
				t.Errorf("%s, needs a hook: %v; want %s, %v", who, c.q.NeedsHook(who), c.want, c.needs)
			}
		})
	}
}
