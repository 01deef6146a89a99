package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// layer answers for one place where configuration can stand.
type layer struct {
	environment bool
	project     bool                       // it is a project's, which came from wherever the project came from
	value       map[string]string          // by environment variable
	object      map[string]json.RawMessage // by member, of the settings that are more than a text
}

// configLayer reads a file that people write: with comments and trailing commas, which JSON has none of.
func (l *layer) configLayer(b []byte) error {
	b = trimBOM(b)
	plain, err := hujson.Standardize(bytes.Clone(b))
	if err != nil { // it goes on with what stands there, which may be a secret
		where, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "hujson: "), ": ")
		return errors.New(where + ": this is not JSON")
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(plain, &file); err != nil {
		return err
	}
	for _, s := range settings {
		raw, ok := file[s.Member]
		switch {
		case !ok || s.Member == "" || string(raw) == "null":
			continue
		case s.read != nil:
			l.object[s.Member] = raw
			continue
		}
		text, err := textOf(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Member, err)
		}
		l.value[s.key()] = text
	}
	return nil
}

// textOf is a value in a file as a variable holds it.
func textOf(raw json.RawMessage) (string, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return "", err
	}
	switch v := v.(type) {
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case []any:
		var parts []string
		for _, p := range v {
			parts = append(parts, fmt.Sprint(p))
		}
		return strings.Join(parts, ","), nil
	case map[string]any:
		return "", errors.New("it is neither text nor a number nor true or false nor a list")
	}
	return fmt.Sprint(v), nil
}

// bridge is the MCP server whose environment counts, in .mcp.json.
const bridge = "google-chat-bridge"

func (l *layer) mcpLayer(b []byte) error {
	var file struct {
		Servers map[string]struct {
			Env map[string]any `json:"env"`
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(trimBOM(b), &file); err != nil {
		return err
	}
	for _, s := range settings { // no commands, which have no variable: the server would not run them either
		if v, ok := file.Servers[bridge].Env[s.Variable]; ok && s.Member != "" {
			l.value[s.Variable] = fmt.Sprint(v)
		}
	}
	return nil
}

func trimBOM(b []byte) []byte { return bytes.TrimPrefix(b, []byte("\ufeff")) }

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
	// A URL keeps its &.
	e.SetEscapeHTML(false)
	_ = e.Encode([]map[string]any{{"op": "add", "path": "/" + name, "value": value}}) // texts
	if err := root.Patch(patch.Bytes()); err != nil {
		return nil, err
	}
	if set := root.Pack(); bytes.Equal(set, file) {
		return set, nil
	}
	root.Format()
	return root.Pack(), nil
}
