package state

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The log and the log of decisions are plain files: a pipe without a reader and a device
// take no line and hold nothing up. A log that its person keeps behind a link is written
// to.
func TestLogsArePlainFiles(t *testing.T) {
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	if err := os.MkdirAll(filepath.Dir(LogPath(env)), 0o700); err != nil {
		t.Fatal(err)
	}
	log := NewLog(env, "test")
	for _, path := range []string{LogPath(env), AuditPath(env)} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log.Info().Msg("into a pipe")
	if err := AppendDecision(env, log, AuditLine{}); err == nil {
		t.Error("a decision counts as written into a pipe")
	}
	if err := os.Remove(AuditPath(env)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", AuditPath(env)); err != nil {
		t.Fatal(err)
	}
	if err := AppendDecision(env, log, AuditLine{}); err == nil {
		t.Error("a decision counts as written into a device")
	}
	elsewhere := filepath.Join(home, "elsewhere")
	if err := os.WriteFile(elsewhere, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(LogPath(env)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, LogPath(env)); err != nil {
		t.Fatal(err)
	}
	log.Info().Msg("behind a link")
	if b, _ := os.ReadFile(elsewhere); len(b) == 0 {
		t.Error("a log behind a link is not written")
	}
	if _, err := ReadPlainOrLink("/dev/zero", MaxFileSize); err == nil {
		t.Error("a device without an end is read")
	}
}
