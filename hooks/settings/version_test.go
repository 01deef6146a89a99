package settings

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// claude may be a wrapper that does other things as well.
func TestHookTable_InstalledVersion(t *testing.T) {
	for _, test := range []struct{ name, script, err string }{
		{"as it is", "echo '2.1.197 (Claude Code)'", ""},
		{"a child of it holds the pipe", "sleep 5 & echo '2.1.197 (Claude Code)'", ""},
		{"it fails", "echo 'node 18.0.0 is too old'; exit 1", "exit status 1"},
		{"no version", "echo hello", "prints no version"},
		{"never", "exec sleep 60", "context deadline exceeded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			home := t.TempDir()
			writeTestFile(t, filepath.Join(home, ".local/bin/claude"), []byte("#!/bin/sh\n"+test.script+"\n"), 0o755)
			t.Setenv("PATH", "/usr/bin:/bin")
			wait := time.Minute
			if test.name == "never" {
				wait = 50 * time.Millisecond
			}
			v, err := InstalledVersion(t.Context(), func(string) string { return home }, wait)
			switch {
			case test.err == "" && (err != nil || v != Version{2, 1, 197}):
				t.Errorf("%v, %v", v, err)
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("%v, %v, want %s", v, err, test.err)
			}
		})
	}
}
