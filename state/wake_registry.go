package state

import (
	"bytes"
	"os"
	"path/filepath"
)

// KeepRegistry keeps the bytes of a wake registry that could be read, for while an edit leaves it broken.
func KeepRegistry(userState, path string, b []byte) error {
	kept := keptRegistry(userState, path)
	if was, err := os.ReadFile(kept); err == nil && bytes.Equal(was, b) {
		return nil
	}
	if err := mkdir(filepath.Dir(kept)); err != nil {
		return err
	}
	return replaceFile(kept, b)
}

// KeptRegistry is what KeepRegistry kept of the registry at path.
func KeptRegistry(userState, path string) (b []byte, ok bool) {
	b, err := os.ReadFile(keptRegistry(userState, path))
	return b, err == nil
}

func keptRegistry(userState, path string) string {
	return filepath.Join(wakeDir(userState), "registry-"+hashName(path)+".json")
}
