package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
	"github.com/xrash/smetrics"

	"gchat-hooks/state"
)

// layer answers for one place where configuration can stand.
type layer struct {
	environment bool
	project     bool                       // it is a project's, which came from wherever the project came from
	value       map[string]string          // by environment variable
	object      map[string]json.RawMessage // by member, of the settings that are more than a text
	slips       []error                    // members that are misspelled
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
	for _, name := range slices.Sorted(maps.Keys(file)) {
		if meant := misspelled(name); meant != "" {
			l.slips = append(l.slips, fmt.Errorf("%q is no setting. Did you mean %s?", name, meant))
		}
	}
	return nil
}

// misspelled is the setting that a name is spelled much like; "" where none is, and for a setting.
func misspelled(name string) (like string) {
	if slices.ContainsFunc(settings, func(s Setting) bool { return s.Member == name }) {
		return ""
	}
	best := 0.9
	for _, s := range settings {
		if alike := smetrics.JaroWinkler(s.Member, strings.ToLower(name), 0.7, 4); alike > best {
			best, like = alike, s.Member
		}
	}
	return like
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

const credentialsFile = "GOOGLE_CHAT_CREDENTIALS_FILE"

// NoCredentials stands in the place of a credentials file where none may be used, Application Default Credentials neither.
const NoCredentials = "(none: a project's webhook is read with a credentials_file of the project's)"

// leavePersonal takes out of a project's layer what a project may not choose: who answers, a command, a host for secrets.
func (c *Config) leavePersonal(l layer, path, own string) {
	for _, s := range settings {
		if s.Personal && (l.value[s.key()] != "" || l.object[s.Member] != nil) {
			delete(l.value, s.key())
			delete(l.object, s.Member)
			c.problem(path, fmt.Errorf("%s does not count in a project: set it in %s", s.Member, own))
		}
	}
}

// errForeignWebhook is about a project's webhook that leads to a host of the project's choice.
var errForeignWebhook = errors.New("webhook_url does not count: " +
	"a project's webhook has to be Google's, or on the host of your own api_endpoint or webhook_url")

// ownHost says whether a webhook leads to Google, or to a host that the person's own endpoint or webhook names.
func ownHost(layers []layer, webhook string) bool {
	u, err := url.Parse(webhook)
	if err != nil || u.Host == "" {
		return true // it leads nowhere, which is said where it is used
	}
	return u.Scheme == "https" && u.Host == "chat.googleapis.com" || slices.ContainsFunc(layers, func(l layer) bool {
		for _, name := range []string{"GCHAT_API_ENDPOINT", "GOOGLE_CHAT_WEBHOOK_URL"} {
			own, err := url.Parse(l.value[name])
			if !l.project && err == nil && own.Scheme == u.Scheme && own.Host == u.Host {
				return true
			}
		}
		return false
	})
}

var errNotOfProject = errors.New("credentials_file does not count: a project's webhook is read with a file in the project")

// takeCredentials settles what replies are read with. A project may bring a webhook, with credentials of its own; the person's
// are for the person's webhook, and for nothing that a project names. Those of the environment are for this very process.
func (c *Config) takeCredentials(env state.Getenv, projectDir string, layers []layer) {
	place := firstWith(layers, "GOOGLE_CHAT_WEBHOOK_URL", "webhook_url_command")
	if place == nil {
		place = firstWith(layers, "GOOGLE_CHAT_SPACE_ID")
	}
	project := place != nil && place.project
	for _, l := range layers {
		file := l.value[credentialsFile]
		if rest, ok := strings.CutPrefix(file, "~/"); ok {
			file = filepath.Join(state.Home(env), rest)
		}
		if file == "" || !l.environment && l.project != project {
			continue
		}
		if l.project && !state.Within(file, projectDir) {
			c.Problems = append(c.Problems, errNotOfProject)
			continue
		}
		c.CredentialsFile = file
		break
	}
	if project && c.CredentialsFile == "" {
		c.CredentialsFile = NoCredentials
	}
	c.takeLogin(env, project)
}

// firstWith is the first layer that says one of these; nil where none does.
func firstWith(layers []layer, names ...string) *layer {
	i := indexWith(layers, names...)
	if i == len(layers) {
		return nil
	}
	return &layers[i]
}

// indexWith is the index of firstWith; how many there are where none says it.
func indexWith(layers []layer, names ...string) int {
	for i, l := range layers {
		for _, name := range names {
			if l.value[name] != "" {
				return i
			}
		}
	}
	return len(layers)
}

// SetMember writes a setting, a text or a list of texts, into the person's configuration, readable by them only; nil takes
// the member out. Other members, their order and comments stay; a file that does not parse is left alone.
func SetMember(path, name string, value any) error {
	if behindLinks, err := filepath.EvalSymlinks(path); err == nil {
		path = behindLinks // a person's link, as into a folder of dotfiles, stays one
	}
	old, err := state.ReadLinked(path, state.MostRead)
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
	op := "add"
	if value == nil {
		op = "remove"
		if root.Find("/"+name) == nil {
			return file, nil
		}
	}
	var patch bytes.Buffer
	e := json.NewEncoder(&patch)
	// A URL keeps its &.
	e.SetEscapeHTML(false)
	_ = e.Encode([]map[string]any{{"op": op, "path": "/" + name, "value": value}}) // texts
	if err := root.Patch(patch.Bytes()); err != nil {
		return nil, err
	}
	if set := root.Pack(); bytes.Equal(set, file) {
		return set, nil
	}
	root.Format()
	return root.Pack(), nil
}
