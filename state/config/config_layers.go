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

// layer has the settings of one place of the configuration: of the environment, or of a
// file.
type layer struct {
	isEnvironment bool
	// the file is in the project, and came from wherever the project came from
	isProject    bool
	texts        map[string]string          // the texts, by Setting.key
	objects      map[string]json.RawMessage // the objects and lists, by member
	misspellings []error                    // see suggestSetting
}

// hasSettings reports whether the layer sets anything.
func (l *layer) hasSettings() bool { return len(l.texts)+len(l.objects) > 0 }

// configFile is a file that can contain configuration.
type configFile struct {
	path      string
	parse     func(*layer, []byte) error
	isProject bool   // it is in the project
	readMark  string // for the person's own files: see readMarkPath
}

// configFiles returns the files of a configuration, the highest first.
func configFiles(env state.Getenv, projectDir string) []configFile {
	userFile, bridgeFile := state.ConfigFile(env), filepath.Join(state.Home(env), ".mcp.json")
	return []configFile{
		{
			path:      filepath.Join(projectDir, ".claude", "gchat-hooks.json"),
			parse:     (*layer).parseConfigFile,
			isProject: true,
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

// read reads and parses a file. It returns ErrFileGone if the file is missing although
// its mark exists.
func (f configFile) read() (layer, error) {
	b, err := state.ReadPlainOrLink(f.path, maxConfigSize)
	if state.IsMissing(err) && fileExists(f.readMark) {
		err = fmt.Errorf("%w: put it back, or an empty {}; or, to do without it: rm %s",
			ErrFileGone, f.readMark)
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

// readMarkPath returns the path of the mark which says that a configuration file of the
// person was read and set something. If the file is missing later, nobody knows whom and
// which calls it excluded, and so nobody decides in Chat.
func readMarkPath(env state.Getenv, path string) string {
	return filepath.Join(state.UserStateDir(env), "config-read-"+state.Hash(6, path))
}

// writeReadMark writes the mark if it does not exist. The mark contains the path of its
// configuration file. As long as the state folder does not exist, writeReadMark does
// nothing: doctor must not create it on a new machine.
func (f configFile) writeReadMark() {
	if !fileExists(f.readMark) && fileExists(filepath.Dir(f.readMark)) {
		// without the mark, a file that is missing later counts as one that never was
		_ = state.WriteFile(f.readMark, []byte(f.path+"\n"))
	}
}

func fileExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// readLayers reads the environment and the configuration files, the highest first. It
// stops at a broken file: the places below may name another space, where the questions
// must not go.
func (c *Config) readLayers(env state.Getenv, projectDir string) []layer {
	layers := []layer{{isEnvironment: true, texts: map[string]string{}}}
	for _, name := range FileVariables() {
		layers[0].texts[name] = env(name)
	}
	// The files in these folders are the person's own; no repository brought them.
	isOwn := projectDir == state.Home(env) || projectDir == state.ConfigDir(env)
	// Trust is read at most once: Claude Code's file with it is large.
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
				c.addProblem(file.path+" is ignored", state.ErrUntrusted)
			}
			continue
		case err != nil:
			c.Problems = append(c.Problems,
				fmt.Errorf("%w %s: %w", ErrUnreadableFile, file.path, err))
			c.IsAllowlistUnknown, c.HasUnreadFile = true, true
			return layers
		}
		for _, err := range l.misspellings {
			c.Misspellings = append(c.Misspellings, fmt.Errorf("%s: %w", file.path, err))
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

// parseConfigFile parses a gchat-hooks.json or config.json. Besides JSON it accepts
// comments and trailing commas, because people write these files.
func (l *layer) parseConfigFile(b []byte) error {
	plain, err := hujson.Standardize(bytes.Clone(trimBOM(b)))
	if err != nil {
		// The rest of the error quotes the file, which may contain a secret.
		where, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "hujson: "), ": ")
		return errors.New(where + ": not valid JSON")
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
			l.misspellings = append(l.misspellings,
				fmt.Errorf("%q is not a setting. Did you mean %s?", name, suggestion))
		}
	}
	return nil
}

// suggestSetting returns the setting that a name is probably meant for, by its spelling.
// It returns "" if no setting is spelled similarly, or the name is a setting.
func suggestSetting(name string) (best string) {
	if slices.ContainsFunc(settings, func(s Setting) bool { return s.JSONName == name }) {
		return ""
	}
	bestScore := 0.9
	for _, s := range settings {
		score := smetrics.JaroWinkler(s.JSONName, strings.ToLower(name), 0.7, 4)
		if score > bestScore {
			bestScore, best = score, s.JSONName
		}
	}
	return best
}

// settingText returns a value of a file in the form in which a variable holds it: a list
// is separated by commas.
func settingText(raw json.RawMessage) (string, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return "", err
	}
	switch v := v.(type) {
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case []any:
		var items []string
		for _, item := range v {
			items = append(items, fmt.Sprint(item))
		}
		return strings.Join(items, ","), nil
	case map[string]any:
		return "", errors.New("it takes a text, a number, true or false, or a list")
	}
	return fmt.Sprint(v), nil
}

// bridgeServer is the MCP server in .mcp.json whose "env" sets our settings.
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
		// webhook_url_command has no variable and so is not read here: the MCP server
		// would not run a command, either.
		if v, ok := file.Servers[bridgeServer].Env[s.Variable]; ok && s.JSONName != "" {
			l.texts[s.Variable] = fmt.Sprint(v)
		}
	}
	return nil
}

func trimBOM(b []byte) []byte { return bytes.TrimPrefix(b, []byte("\ufeff")) }

const credentialsFile = "GOOGLE_CHAT_CREDENTIALS_FILE"

// NoCredentials is in CredentialsFile where no credentials may be used, not even
// Application Default Credentials.
const NoCredentials = "(none: a project's webhook is read with a credentials_file of the project's)"

// dropPersonal removes from a project's layer what a project may not choose: who answers,
// a command, a host that secrets go to.
func (c *Config) dropPersonal(l layer, path, userFile string) {
	for _, s := range settings {
		if s.IsPersonal && (l.texts[s.key()] != "" || l.objects[s.JSONName] != nil) {
			delete(l.texts, s.key())
			delete(l.objects, s.JSONName)
			c.addProblem(path, fmt.Errorf("%s is ignored in a project's file: set it in %s",
				s.JSONName, userFile))
		}
	}
}

// errForeignWebhook means that a project's webhook leads to a host of the project's
// choice.
var errForeignWebhook = errors.New("webhook_url is ignored: a project's webhook has to be " +
	"Google's, or on the host of your own api_endpoint or webhook_url")

// isOwnHost reports whether a webhook leads to Google, or to a host that the person's own
// api_endpoint or webhook_url names.
func isOwnHost(layers []layer, webhook string) bool {
	u, err := url.Parse(webhook)
	if err != nil || u.Host == "" {
		return true // it leads nowhere; the code that uses it returns an error
	}
	isGoogle := u.Scheme == "https" && u.Host == "chat.googleapis.com"
	return isGoogle || slices.ContainsFunc(layers, func(l layer) bool {
		for _, name := range []string{"GCHAT_API_ENDPOINT", "GOOGLE_CHAT_WEBHOOK_URL"} {
			own, err := url.Parse(l.texts[name])
			if !l.isProject && err == nil && own.Scheme == u.Scheme && own.Host == u.Host {
				return true
			}
		}
		return false
	})
}

var errCredentialsOutside = errors.New("credentials_file is ignored: " +
	"replies to a project's webhook are read with a file in the project")

// setCredentials sets what replies are read with. A project may bring a webhook together
// with its own credentials. The person's credentials are only for the person's own
// webhook and space, not for those that a project names. Credentials in the environment
// are meant for this very process, and count for both.
func (c *Config) setCredentials(env state.Getenv, projectDir string, layers []layer) {
	webhookLayer := firstWith(layers, "GOOGLE_CHAT_WEBHOOK_URL", "webhook_url_command")
	if !webhookLayer.hasSettings() {
		webhookLayer = firstWith(layers, "GOOGLE_CHAT_SPACE_ID")
	}
	isOfProject := webhookLayer.isProject
	for _, l := range layers {
		file := l.texts[credentialsFile]
		if rest, ok := strings.CutPrefix(file, "~/"); ok {
			file = filepath.Join(state.Home(env), rest)
		}
		if file == "" || !l.isEnvironment && l.isProject != isOfProject {
			continue
		}
		if l.isProject && !state.IsWithin(file, projectDir) {
			c.Problems = append(c.Problems, errCredentialsOutside)
			continue
		}
		c.CredentialsFile = file
		break
	}
	if isOfProject && c.CredentialsFile == "" {
		c.CredentialsFile = NoCredentials
	}
	c.applyLogin(env, isOfProject)
}

// firstWith returns the first layer that sets one of these, or an empty layer.
func firstWith(layers []layer, names ...string) *layer {
	if i := indexWith(layers, names...); i < len(layers) {
		return &layers[i]
	}
	return &layer{}
}

// indexWith returns the index of the first layer that sets one of these, or len(layers).
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

// SetMember writes a setting into the person's configuration file, and makes the file
// readable by them only. The value is a text or a list of texts; nil removes the member.
// Other members, their order and comments stay. A file that cannot be parsed is not
// changed.
func SetMember(path, name string, value any) error {
	// If the file is a link, such as into a folder of dotfiles, its target is written.
	path = state.RealPath(path)
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

// setJSONMember returns the file with a member set to value, or without it if value is
// nil. The result has hujson's format, which indents with tabs. If that changes nothing,
// it returns the file as it is.
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
	e.SetEscapeHTML(false) // a URL keeps its &
	// texts always encode
	_ = e.Encode([]map[string]any{{"op": op, "path": "/" + name, "value": value}})
	if err := root.Patch(patch.Bytes()); err != nil {
		return nil, err
	}
	if packed := root.Pack(); bytes.Equal(packed, file) {
		return packed, nil
	}
	root.Format()
	return root.Pack(), nil
}
