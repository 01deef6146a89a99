package poller

import (
	"os"
	"path/filepath"
	"testing"
)

func TestReplacedFilesPermissionsAreOurs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(path, []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if b, _ := os.ReadFile(path); err != nil || string(b) != "new" || info.Mode() != 0o644 {
		t.Errorf("%q, %v, %v", b, info.Mode(), err)
	}
}
