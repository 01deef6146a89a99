package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// layer answers for one place where configuration can stand.
type layer struct {
	value    map[string]string // by environment variable
	rules    []Rule
	gate     StopGate
	problems []error // what is left out of it
	reports  reportSettings
}

// fileKeys names the members of gchat-hooks.json and config.json after the variables that they stand for.
var fileKeys = map[string]string{
	"webhook_url": "GOOGLE_CHAT_WEBHOOK_URL", "webhook_url_command": "webhook_url_command", "space_id": "GOOGLE_CHAT_SPACE_ID",
	"credentials_file": "GOOGLE_CHAT_CREDENTIALS_FILE", "allowed_users": "GCHAT_ALLOWED_USERS", "ask_mode": "GCHAT_ASK_MODE",
	"api_endpoint": "GCHAT_API_ENDPOINT", "poll_interval": "GCHAT_POLLER_INTERVAL", "hook_timeout": "GCHAT_HOOK_TIMEOUT",
	"writes_per_minute": "GCHAT_WRITES_PER_MINUTE", "digest_every": "GCHAT_DIGEST_EVERY",
	"timeout_policy": "GCHAT_TIMEOUT_POLICY", "reply_timeout": "GCHAT_REPLY_TIMEOUT", "persistent_agents": "GCHAT_PERSISTENT_AGENTS",
	"format": "GCHAT_FORMAT", "haiku_model": "GCHAT_HAIKU_MODEL", "anthropic_api_key": "ANTHROPIC_API_KEY", "anthropic_api_key_command": "anthropic_api_key_command",
}

// Variables are the environment variables that configure, sorted.
func Variables() []string { return slices.Sorted(maps.Values(fileKeys)) }

func envLayer(env Getenv) layer {
	l := layer{value: map[string]string{}}
	for _, name := range fileKeys {
		l.value[name] = env(name)
	}
	l.value["GCHAT_STOP_GATE"] = env("GCHAT_STOP_GATE")
	delete(l.value, "webhook_url_command")
	delete(l.value, "anthropic_api_key_command")
	return l
}

func configLayer(b []byte, dir string) (layer, error) {
	var file map[string]json.RawMessage
	if err := json.Unmarshal(trimBOM(b), &file); err != nil {
		return layer{}, err
	}
	l := layer{value: map[string]string{}}
	for key, name := range fileKeys {
		raw, ok := file[key]
		if !ok {
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
		case float64:
			l.value[name] = strconv.FormatFloat(v, 'f', -1, 64)
		case []any:
			var parts []string
			for _, p := range v {
				parts = append(parts, fmt.Sprint(p))
			}
			l.value[name] = strings.Join(parts, ",")
		default:
			return layer{}, fmt.Errorf("%s is neither text nor a number nor a list", key)
		}
	}
	if p := l.value["GOOGLE_CHAT_CREDENTIALS_FILE"]; p != "" && !filepath.IsAbs(p) && !strings.HasPrefix(p, "~/") {
		l.value["GOOGLE_CHAT_CREDENTIALS_FILE"] = filepath.Join(dir, p)
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
	l.reports = readReportSettings(file)
	return l, nil
}

func mcpLayer(b []byte, _ string) (layer, error) {
	var file struct {
		Servers map[string]struct {
			Env map[string]any `json:"env"`
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(trimBOM(b), &file); err != nil {
		return layer{}, err
	}
	l := layer{value: map[string]string{}}
	for name, v := range file.Servers["google-chat-bridge"].Env {
		l.value[name] = fmt.Sprint(v)
	}
	return l, nil
}

func trimBOM(b []byte) []byte { return []byte(strings.TrimPrefix(string(b), "\ufeff")) }
