package state

import (
	"path/filepath"
	"testing"
	"time"
)

// A home may have any name, also one that reads like a pattern: what waits is seen there.
func TestWakeOutboxInAnyFolder(t *testing.T) {
	for _, home := range []string{"plain", "a[b", "a[b]c", "a*", `back\slash`} {
		box := WakeOutboxIn(filepath.Join(t.TempDir(), home))
		if !box.Empty() {
			t.Errorf("%s: a folder that is not there holds a message", home)
		}
		first := &WakeMessage{ID: "1", To: "agent", CreatedAt: time.Unix(1, 0)}
		for _, w := range []*WakeMessage{first, {ID: "2", To: "another", CreatedAt: time.Unix(2, 0)}} {
			if err := box.Put(w); err != nil {
				t.Fatal(err)
			}
		}
		lock, err := box.Claim(first) // whose file is no message
		if err != nil {
			t.Fatal(err)
		}
		lock.Unlock()
		if box.Empty() || !box.Alone(first) {
			t.Errorf("%s: empty %v, alone %v", home, box.Empty(), box.Alone(first))
		}
		if err := box.Put(&WakeMessage{ID: "3", To: "agent", CreatedAt: time.Unix(3, 0)}); err != nil {
			t.Fatal(err)
		}
		if box.Alone(first) {
			t.Errorf("%s: alone beside another one to the same agent", home)
		}
	}
}
