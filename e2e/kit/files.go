package kit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// ReadFile returns what a file holds. It ends the test if the file cannot be read.
func ReadFile(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	NoError(t, err)
	return string(content)
}

// WriteFile writes a file, and makes the folders above it. The file has this mode
// whatever the umask is.
func WriteFile[T string | []byte](t testing.TB, path string, content T, mode os.FileMode) {
	t.Helper()
	NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	NoError(t, os.WriteFile(path, []byte(content), mode))
	NoError(t, os.Chmod(path, mode))
}

// JSON returns a value as JSON.
func JSON(t testing.TB, value any) []byte {
	t.Helper()
	b, err := json.Marshal(value)
	NoError(t, err)
	return b
}
