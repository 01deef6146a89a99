package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// layer answers for one place where configuration can stand.
type layer struct {
	environment bool
	project     bool              // it is a project's, which came from wherever the project came from
	value       map[string]string // by environment variable
	rules       []Rule
	gate        StopGate
	never       []string
	problems    []error // what is left out of it

	reports       map[string]ReportRule
	notifications map[string]NotificationRoute
	quiet         *QuietHours
}

// configLayer reads a file that people write: with comments and trailing commas, which JSON has none of.
func configLayer(b []byte) (layer, error) {
	b = trimBOM(b)
	if plain, err := hujson.Standardize(bytes.Clone(b)); err == nil { // else the error is to be JSON's
		b = plain
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(b, &file); err != nil {
		return layer{}, err
	}
	l := layer{value: map[string]string{}}
	for _, s := range settings {
		key, name := s.Member, s.key()
		raw, ok := file[key]
		if !ok || key == "" || s.Object {
			continue
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			return layer{}, err
		}
		switch v := v.(type) {
		case nil:
		case string:
			l.value[name] = v
		case bool:
			l.value[name] = strconv.FormatBool(v)
		case float64:
			l.value[name] = strconv.FormatFloat(v, 'f', -1, 64)
		case []any:
			var parts []string
			for _, p := range v {
				parts = append(parts, fmt.Sprint(p))
			}
			l.value[name] = strings.Join(parts, ",")
		default:
			return layer{}, fmt.Errorf("%s is neither text nor a number nor true or false nor a list", key)
		}
	}
	if raw, ok := file["rules"]; ok {
		var all []json.RawMessage
		if err := json.Unmarshal(raw, &all); err != nil {
			return layer{}, fmt.Errorf("rules: %w", err)
		}
		for _, one := range all {
			var r Rule
			d := json.NewDecoder(bytes.NewReader(one))
			d.DisallowUnknownFields() // a slip in "session" must not make a rule for all sessions
			if err := d.Decode(&r); err != nil {
				l.problems = append(l.problems, fmt.Errorf("rules: %s is left out: %w", one, err))
				continue
			}
			l.rules = append(l.rules, r)
		}
	}
	if raw, ok := file["stop_gate"]; ok && string(raw) != "null" {
		if err := json.Unmarshal(raw, &l.gate); err != nil {
			return layer{}, fmt.Errorf("stop_gate: %w", err)
		}
	}
	l.readReports(file)
	var err error
	l.never, err = readNever(file)
	return l, err
}

// bridge is the MCP server whose environment counts, in .mcp.json.
const bridge = "google-chat-bridge"

func mcpLayer(b []byte) (layer, error) {
	var file struct {
		Servers map[string]struct {
			Env map[string]any `json:"env"`
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(trimBOM(b), &file); err != nil {
		return layer{}, err
	}
	l := layer{value: map[string]string{}}
	for name, v := range file.Servers[bridge].Env {
		if slices.Contains(Variables(), name) { // no commands: the server would not run them either
			l.value[name] = fmt.Sprint(v)
		}
	}
	return l, nil
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
