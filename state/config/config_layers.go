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
	isEnvironment bool
	// it is a project's, which came from wherever the project came from
	isProject    bool
	texts        map[string]string          // by environment variable
	objects      map[string]json.RawMessage // by member, of the settings that are more than a text
	misspellings []error                    // members that are misspelled
}

// hasSettings reports whether anything is set there.
func (l *layer) hasSettings() bool { return len(l.texts)+len(l.objects) > 0 }

// configFile is a file where configuration can stand.
type configFile struct {
	path      string
	parse     func(*layer, []byte) error
	isProject bool   // it is a project's
	readMark  string // of a file of the person's: see readMarkPath
}

// configFiles are the files of a configuration, the highest first.
func configFiles(env state.Getenv, projectDir string) []configFile {
	userFile, bridgeFile := state.ConfigFile(env), filepath.Join(state.Home(env), ".mcp.json")
	return []configFile{
		{
			path:  filepath.Join(projectDir, ".claude", "gchat-hooks.json"),
			parse: (*layer).parseConfigFile, isProject: true,
		},
		{path: userFile, parse: (*layer).parseConfigFile, readMark: readMarkPath(env, userFile)},
		{
			path:      filepath.Join(projectDir, ".mcp.json"),
			parse:     (*layer).parseMCPFile,
			isProject: true,
		},
		{path: bridgeFile, parse: (*layer).parseMCPFile, readMark: readMarkPath(env, bridgeFile)},
	}
}

// read reads a file. One that is missing though its mark is there is ErrFileGone.
func (f configFile) read() (layer, error) {
	b, err := state.ReadPlainOrLink(f.path, maxConfigSize)
	if state.IsMissing(err) && fileExists(f.readMark) {
		err = fmt.Errorf(
			"%w: put it back, or an empty {}; or, to do without it: rm %s",
			ErrFileGone,
			f.readMark,
		)
	}
	if err != nil {
		return layer{}, err
	}
	l := layer{texts: map[string]string{}, objects: map[string]json.RawMessage{}}
	err = f.parse(&l, b)
	file := l.texts[credentialsFile]
	if file != "" && !filepath.IsAbs(file) && !strings.HasPrefix(file, "~/") {
		l.texts[credentialsFile] = filepath.Join(filepath.Dir(f.path), file)
	}
	return l, err
}

// readMarkPath is the file that says that a configuration file of the person's was read,
// and set something. Where that is missing from then on, what it took away is not known.
func readMarkPath(env state.Getenv, path string) string {
	return filepath.Join(state.UserStateDir(env), "config-read-"+state.Hash(6, path))
}

// writeReadMark makes a mark that is not there. It holds the path of its configuration
// file. Before anything has written state, as where doctor looks at a new machine, it
// makes none.
func (f configFile) writeReadMark() {
	if !fileExists(f.readMark) && fileExists(filepath.Dir(f.readMark)) {
		// where it cannot be written, a missing file is none
		_ = state.WriteFile(f.readMark, []byte(f.path+"\n"))
	}
}

func fileExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// readLayers reads the places where configuration can stand, the highest first. Nothing
// below a broken file is used: it could belong to another space, where questions must not
// go.
func (c *Config) readLayers(env state.Getenv, projectDir string) []layer {
	layers := []layer{{isEnvironment: true, texts: map[string]string{}}}
	for _, s := range settings {
		if s.Variable != "" && s.JSONName != "" {
			layers[0].texts[s.Variable] = env(s.Variable)
		}
	}
	// What stands in these folders came with no repository.
	isOwn := projectDir == state.Home(env) || projectDir == state.ConfigDir(env)
	// Trust is read once: Claude Code's file of it is large.
	isTrusted := sync.OnceValue(func() bool { return state.IsProjectTrusted(env, projectDir) })
	for _, file := range configFiles(env, projectDir) {
		if file.isProject && projectDir == "" {
			continue
		}
		l, err := file.read()
		l.isProject = file.isProject && !isOwn
		switch {
		case state.IsMissing(err):
			continue
		case l.isProject && !isTrusted():
			if err != nil || l.hasSettings() {
				c.addProblem(file.path+" does not count", state.ErrUntrusted)
			}
			continue
		case err != nil:
			c.Problems = append(
				c.Problems,
				fmt.Errorf("%w %s: %w", ErrUnreadableFile, file.path, err),
			)
			c.IsAllowlistUnknown, c.HasUnreadFile = true, true
			return layers
		}
		for _, misspelling := range l.misspellings {
			c.Misspellings = append(c.Misspellings, fmt.Errorf("%s: %w", file.path, misspelling))
		}
		if file.readMark != "" && l.hasSettings() {
			file.writeReadMark()
		}
		if l.isProject {
			c.dropPersonal(l, file.path, state.ConfigFile(env))
		}
		layers = append(layers, l)
	}
	return layers
}

// parseConfigFile reads a file that people write: with comments and trailing commas,
// which JSON has none of.
func (l *layer) parseConfigFile(b []byte) error {
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
		raw, ok := file[s.JSONName]
		switch {
		case !ok || s.JSONName == "" || string(raw) == "null":
			continue
		case s.readObject != nil:
			l.objects[s.JSONName] = raw
			continue
		}
		text, err := settingText(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", s.JSONName, err)
		}
		l.texts[s.key()] = text
	}
	for _, name := range slices.Sorted(maps.Keys(file)) {
		if suggestion := suggestSetting(name); suggestion != "" {
			l.misspellings = append(
				l.misspellings,
				fmt.Errorf("%q is no setting. Did you mean %s?", name, suggestion),
			)
		}
	}
	return nil
}

// suggestSetting is the setting that a name is spelled much like; "" where none is, and
// for a setting.
func suggestSetting(name string) (best string) {
	if slices.ContainsFunc(settings, func(s Setting) bool { return s.JSONName == name }) {
		return ""
	}
	bestScore := 0.9
	for _, s := range settings {
		if score := smetrics.JaroWinkler(s.JSONName, strings.ToLower(name), 0.7, 4); score > bestScore {
			bestScore, best = score, s.JSONName
		}
	}
	return best
}

// settingText is a value in a file as a variable holds it.
func settingText(raw json.RawMessage) (string, error) {
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

// bridgeServer is the MCP server whose environment counts, in .mcp.json.
const bridgeServer = "google-chat-bridge"

func (l *layer) parseMCPFile(b []byte) error {
	var file struct {
		Servers map[string]struct {
			Env map[string]any `json:"env"`
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(trimBOM(b), &file); err != nil {
		return err
	}
	for _, s := range settings {
		// no commands, which have no variable: the server would not run them either
		if v, ok := file.Servers[bridgeServer].Env[s.Variable]; ok && s.JSONName != "" {
			l.texts[s.Variable] = fmt.Sprint(v)
		}
	}
	return nil
}

func trimBOM(b []byte) []byte { return bytes.TrimPrefix(b, []byte("\ufeff")) }

const credentialsFile = "GOOGLE_CHAT_CREDENTIALS_FILE"

// NoCredentials stands in the place of a credentials file where none may be used,
// Application Default Credentials neither.
const NoCredentials = "(none: a project's webhook is read with a credentials_file of the project's)"

// dropPersonal takes out of a project's layer what a project may not choose: who answers,
// a command, a host for secrets.
func (c *Config) dropPersonal(l layer, path, userFile string) {
	for _, s := range settings {
		if s.IsPersonal && (l.texts[s.key()] != "" || l.objects[s.JSONName] != nil) {
			delete(l.texts, s.key())
			delete(l.objects, s.JSONName)
			c.addProblem(
				path,
				fmt.Errorf("%s does not count in a project: set it in %s", s.JSONName, userFile),
			)
		}
	}
}

// errForeignWebhook is about a project's webhook that leads to a host of the project's
// choice.
var errForeignWebhook = errors.New("webhook_url does not count: " +
	"a project's webhook has to be Google's, or on the host of your own api_endpoint or webhook_url")

// isOwnHost says whether a webhook leads to Google, or to a host that the person's own
// endpoint or webhook names.
func isOwnHost(layers []layer, webhook string) bool {
	u, err := url.Parse(webhook)
	if err != nil || u.Host == "" {
		return true // it leads nowhere, which is said where it is used
	}
	return u.Scheme == "https" && u.Host == "chat.googleapis.com" ||
		slices.ContainsFunc(layers, func(l layer) bool {
			for _, name := range []string{"GCHAT_API_ENDPOINT", "GOOGLE_CHAT_WEBHOOK_URL"} {
				ownURL, err := url.Parse(l.texts[name])
				if !l.isProject && err == nil && ownURL.Scheme == u.Scheme &&
					ownURL.Host == u.Host {
					return true
				}
			}
			return false
		})
}

var errCredentialsOutside = errors.New(
	"credentials_file does not count: a project's webhook is read with a file in the project",
)

// setCredentials settles what replies are read with. A project may bring a webhook, with
// credentials of its own; the person's are for the person's webhook, and for nothing that
// a project names. Those of the environment are for this very process.
func (c *Config) setCredentials(env state.Getenv, projectDir string, layers []layer) {
	webhookLayer := firstWith(layers, "GOOGLE_CHAT_WEBHOOK_URL", "webhook_url_command")
	if !webhookLayer.hasSettings() {
		webhookLayer = firstWith(layers, "GOOGLE_CHAT_SPACE_ID")
	}
	project := webhookLayer.isProject
	for _, l := range layers {
		file := l.texts[credentialsFile]
		if rest, ok := strings.CutPrefix(file, "~/"); ok {
			file = filepath.Join(state.Home(env), rest)
		}
		if file == "" || !l.isEnvironment && l.isProject != project {
			continue
		}
		if l.isProject && !state.IsWithin(file, projectDir) {
			c.Problems = append(c.Problems, errCredentialsOutside)
			continue
		}
		c.CredentialsFile = file
		break
	}
	if project && c.CredentialsFile == "" {
		c.CredentialsFile = NoCredentials
	}
	c.applyLogin(env, project)
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
			if l.texts[name] != "" {
				return i
			}
		}
	}
	return len(layers)
}

// SetMember writes a setting, a text or a list of texts, into the person's configuration,
// readable by them only; nil takes the member out. Other members, their order and
// comments stay; a file that does not parse is left alone.
func SetMember(path, name string, value any) error {
	path = state.RealPath(path) // a person's link, as into a folder of dotfiles, stays one
	old, err := state.ReadPlainOrLink(path, state.MaxFileSize)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read configuration: %w", err)
	}
	text, err := setJSONMember(old, name, value)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return WriteSecretFile(path, text)
}

// setJSONMember is the file with a member set, as hujson formats it: it indents with
// tabs. Where the file says it already, it stays as it is.
func setJSONMember(file []byte, name string, value any) ([]byte, error) {
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
	if packed := root.Pack(); bytes.Equal(packed, file) {
		return packed, nil
	}
	root.Format()
	return root.Pack(), nil
}
