package cli

import (
	"fmt"
	"strings"
	"testing"
)

// The command answer says who will deliver the answer. It looks before the waiting hook
// has the answer and ends.
func TestAnswer_SaysWhoWaited(t *testing.T) {
	t.Parallel()
	p := newSpaceHome(t)
	_, end := p.runSpace()
	defer end()
	for i := range 12 {
		_, answer := p.ask(fmt.Sprintf("session-%d", i))
		open, _ := p.run("answer")
		key, _, _ := strings.Cut(open, ",")
		p.wantRun(0, "on its way to Claude: a waiting process delivers it\n", "answer", key, "2")
		answer()
	}
}
