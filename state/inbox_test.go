package state

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

func addIncoming(t *testing.T, box Inbox, in *Incoming) {
	t.Helper()
	_, err := box.Add(in, false)
	kit.NoError(t, err)
}

// A tombstone has none of the message's text, even if the message was read from disk.
func TestInbox_TombstoneHasNoText(t *testing.T) {
	t.Parallel()
	box := InboxIn(t.TempDir())
	in := &Incoming{
		ID: "x", Chat: "host/spaces/S", MessageName: "spaces/S/messages/M", Sender: "users/1",
		DisplayName: "Secret Ann",
		Text:        "a secret", CreatedAt: time.Now(), Status: IncomingNew,
		Tap: &IncomingTap{Choice: "accept", Inputs: map[string][]string{"w1": {"a secret"}}},
	}
	addIncoming(t, box, in)
	read, err := box.Load(in.ID)
	kit.NoError(t, err)
	kit.NoError(t, box.Finish(read, OutcomeReply, time.Now()))
	left := kit.ReadFile(t, filepath.Join(box.Dir, "done", in.ID+".json"))
	kit.True(t, !strings.Contains(strings.ToLower(left), "secret") &&
		strings.Contains(left, "users/1"), "%s", left)
}

// A message that no poller decides is removed in the end. Otherwise the inbox would fill
// up.
func TestInbox_RemovesOldRecords(t *testing.T) {
	t.Parallel()
	box, now := InboxIn(t.TempDir()), time.Now()
	for id, age := range map[string]time.Duration{"old": tombstoneAge + time.Hour,
		"young": time.Hour} {
		addIncoming(t, box, &Incoming{
			ID: id, Chat: "host/spaces/S", MessageName: "spaces/S/messages/" + id, Text: "go on",
			Status:    IncomingNew,
			CreatedAt: now.Add(-age), LocalCreatedAt: now.Add(-age), ReadAt: now.Add(-age),
		})
	}
	box.Sweep(now)
	names, err := box.Names()
	kit.True(t, err == nil && len(names) == 1 && names[0] == "young",
		"%v: the inbox has %q", err, names)
}
