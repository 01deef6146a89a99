package poller

import (
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// replaceFile replaces path with b, with these permissions whatever an older file had: renameio.WriteFile would take those
// over.
func replaceFile(path string, b []byte, perm os.FileMode) error {
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(perm))
	if err != nil {
		return err
	}
	defer f.Cleanup()
	if _, err := f.Write(b); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}
