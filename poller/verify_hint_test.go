package poller

import (
	"strings"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/gchat"
)

// What Chat did answer is no matter of the network.
func TestHintOfWhatWasAnswered(t *testing.T) {
	v := newVerified(t)
	v.list = func(_ int, ms []*chat.Message) ([]*chat.Message, int) {
		for _, m := range ms {
			m.Sender.Type = "HUMAN"
		}
		return ms, 0
	}
	if hint := v.check().Scenarios[0].Hint; !strings.Contains(hint, "look what answers in Google Chat's place") {
		t.Errorf("hint: %s", hint)
	}
	if hint := VerifyHint(gchat.ErrNotTold); !strings.Contains(hint, "users/ID") {
		t.Errorf("who that is: %s", hint)
	}
}
