package state

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gchat-hooks/e2e/kit"
)

// We write the log and the log of decisions into plain files only. A pipe without a
// reader or a device gets no line and blocks nothing. A link to a plain file is followed.
func TestLog_IsAPlainFile(t *testing.T) {
	env := envOf(t)
	kit.NoError(t, os.MkdirAll(filepath.Dir(LogPath(env)), 0o700))
	log := NewLog(env, "test")
	for _, path := range []string{LogPath(env), AuditPath(env)} {
		kit.NoError(t, syscall.Mkfifo(path, 0o600))
	}
	log.Info().Msg("into a pipe")
	kit.True(t, AppendDecision(env, log, AuditLine{}) != nil,
		"a decision counts as written into a pipe")
	kit.NoError(t, os.Remove(AuditPath(env)))
	kit.NoError(t, os.Symlink("/dev/null", AuditPath(env)))
	kit.True(t, AppendDecision(env, log, AuditLine{}) != nil,
		"a decision counts as written into a device")
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	kit.NoError(t, os.WriteFile(elsewhere, nil, 0o600))
	kit.NoError(t, os.Remove(LogPath(env)))
	kit.NoError(t, os.Symlink(elsewhere, LogPath(env)))
	log.Info().Msg("behind a link")
	b, _ := os.ReadFile(elsewhere)
	kit.True(t, len(b) != 0, "a log behind a link is not written")
	_, err := ReadPlainOrLink("/dev/zero", MaxFileSize)
	kit.True(t, err != nil, "a device without an end is read")
}
