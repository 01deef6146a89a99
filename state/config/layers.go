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
	"sync"

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

// says reports whether anything is set there.
func (l *layer) says() bool { return len(l.value)+len(l.object) > 0 }

// configFile is a file where configuration can stand.
type configFile struct {
	path    string
	parse   func(*layer, []byte) error
	project bool   // it is a project's
	mark    string // of a file of the person's: see readMark
}

// configFiles are the files of a configuration, the highest first.
func configFiles(env state.Getenv, projectDir string) []configFile {
	own, bridge := state.ConfigFile(env), filepath.Join(state.Home(env), ".mcp.json")
	return []configFile{
		{
			path:  filepath.Join(projectDir, ".claude", "gchat-hooks.json"),
			parse: (*layer).configLayer, project: true,
		},
		{path: own, parse: (*layer).configLayer, mark: readMark(env, own)},
		{path: filepath.Join(projectDir, ".mcp.json"), parse: (*layer).mcpLayer, project: true},
		{path: bridge, parse: (*layer).mcpLayer, mark: readMark(env, bridge)},
	}
}

// read reads a file. One that is missing though its mark is there is ErrGone.
func (f configFile) read() (layer, error) {
	b, err := state.ReadLinked(f.path, maxConfig)
	if state.Missing(err) && isThere(f.mark) {
		err = fmt.Errorf("%w: put it back, or an empty {}; or, to do without it: rm %s", ErrGone, f.mark)
	}
	if err != nil {
		return layer{}, err
	}
	l := layer{value: map[string]string{}, object: map[string]json.RawMessage{}}
	err = f.parse(&l, b)
	file := l.value[credentialsFile]
	if file != "" && !filepath.IsAbs(file) && !strings.HasPrefix(file, "~/") {
		l.value[credentialsFile] = filepath.Join(filepath.Dir(f.path), file)
	}
	return l, err
}

// readMark is the file that says that a configuration file of the person's was read, and
// set something. Where that is missing from then on, what it took away is not known.
func readMark(env state.Getenv, path string) string {
	return filepath.Join(state.UserState(env), "config-read-"+state.Hash(6, path))
}

// markRead makes a mark that is not there. It holds the path of its configuration file.
// Before anything has written state, as where doctor looks at a new machine, it makes none.
func (f configFile) markRead() {
	if !isThere(f.mark) && isThere(filepath.Dir(f.mark)) {
		_ = state.WriteFile(f.mark, []byte(f.path+"\n")) // where it cannot be written, a missing file is none
	}
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// readLayers reads the places where configuration can stand, the highest first. Nothing below a
// broken file is used: it could belong to another space, where questions must not go.
func (c *Config) readLayers(env state.Getenv, projectDir string) []layer {
	layers := []layer{{environment: true, value: map[string]string{}}}
	for _, s := range settings {
		if s.Variable != "" && s.Member != "" {
			layers[0].value[s.Variable] = env(s.Variable)
		}
	}
	// What stands in these folders came with no repository.
	isOwn := projectDir == state.Home(env) || projectDir == state.ConfigDir(env)
	// Trust is read once: Claude Code's file of it is large.
	counts := sync.OnceValue(func() bool { return state.ProjectCounts(env, projectDir) })
	for _, file := range configFiles(env, projectDir) {
		if file.project && projectDir == "" {
			continue
		}
		l, err := file.read()
		l.project = file.project && !isOwn
		switch {
		case state.Missing(err):
			continue
		case l.project && !counts():
			if err != nil || l.says() {
				c.problem(file.path+" does not count", state.ErrUntrusted)
			}
			continue
		case err != nil:
			c.Problems = append(c.Problems, fmt.Errorf("%w %s: %w", ErrBroken, file.path, err))
			c.AllowedUnknown, c.Unread = true, true
			return layers
		}
		for _, slip := range l.slips {
			c.Slips = append(c.Slips, fmt.Errorf("%s: %w", file.path, slip))
		}
		if file.mark != "" && l.says() {
			file.markRead()
		}
		if l.project {
			c.leavePersonal(l, file.path, state.ConfigFile(env))
		}
		layers = append(layers, l)
	}
	return layers
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
	if !place.says() {
		place = firstWith(layers, "GOOGLE_CHAT_SPACE_ID")
	}
	project := place.project
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

// firstWith is the first layer that says one of these; an empty one where none does.
func firstWith(layers []layer, names ...string) *layer {
	if i := indexWith(layers, names...); i < len(layers) {
		return &layers[i]
	}
	return &layer{}
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
	path = state.RealPath(path) // a person's link, as into a folder of dotfiles, stays one
	old, err := state.ReadLinked(path, state.MostRead)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read configuration: %w", err)
	}
	text, err := withMember(old, name, value)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
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
