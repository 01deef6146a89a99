package cli

import (
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

// At a shell a person sees which devices are called, and how it went, and removes one.
// What a page wrote into the file does not reach the terminal as control characters.
func TestSpaceDevices_ListAndRemove(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.wantRun(0, "no device is notified", "space", "devices")
	const file = ".local/state/gchat-hooks/space/devices.json"
	h.writeFile(file, `{"devices":[
		{"id":"a","name":"Chrome on Android","added_at":"2026-11-01T10:00:00Z",
		 "last_failure":"the push service answered 403 \u001b[31m","failed_at":"2026-11-02T10:00:00Z"},
		{"id":"c","name":"tablet","added_at":"2026-11-01T10:00:00Z","refusal":"no push service"},
		{"id":"b","name":"work laptop","added_at":"2026-11-01T10:00:00Z","called_at":"2026-11-03T10:00:00Z"}]}`)
	listed := h.wantRun(0, "Chrome on Android  2026-11-01", "space", "devices")
	kit.Contains(t, listed, "answered 403")
	kit.Contains(t, listed, "not notified: no push service")
	kit.Contains(t, listed, "2026-11-03")
	kit.True(t, !strings.Contains(listed, "\x1b"), "%q", listed)
	h.wantRun(1, "there is no such device", "space", "devices", "remove", "phone")
	h.wantRun(0, "is no longer notified", "space", "devices", "remove", "Work", "laptop")
	kit.True(t, !strings.Contains(h.mustRun("space", "devices"), "laptop"), "it is still there")
	h.writeFile(file, "{")
	h.wantRun(1, "is damaged", "space", "devices")
}
