package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tailscale/hujson"
)

// SetMember writes a setting, a text or a list of texts, into the person's configuration, readable by them only. Other
// members, their order and comments stay; a file that does not parse is left alone.
func SetMember(path, name string, value any) error {
	if behindLinks, err := filepath.EvalSymlinks(path); err == nil {
		path = behindLinks // a person's link, as into a folder of dotfiles, stays one
	}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read configuration: %w", err)
	}
	text, err := withMember(old, name, value)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make configuration folder: %w", err)
	}
	return WriteSecret(path, text)
}

// withMember is the file with a member set, as hujson formats it: it indents with tabs. Where the file says it already, it
// stays as it is.
func withMember(file []byte, name string, value any) ([]byte, error) {
	if len(bytes.TrimSpace(file)) == 0 {
		file = []byte("{}\n")
	}
	root, err := hujson.Parse(file)
	if err != nil {
		return nil, err
	}
	var patch bytes.Buffer
	e := json.NewEncoder(&patch)
	e.SetEscapeHTML(false) // a URL keeps its &
	if err := e.Encode([]map[string]any{{"op": "add", "path": "/" + name, "value": value}}); err != nil {
		return nil, err
	}
	if err := root.Patch(patch.Bytes()); err != nil {
		return nil, err
	}
	if set := root.Pack(); bytes.Equal(set, file) {
		return set, nil
	}
	root.Format()
	return root.Pack(), nil
}
