package doctor

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/strict"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// refuseWith has the space answer requests of a method with an error of Google's.
func refuseWith(method string, code int, status, message string) func(p *doctorHome) {
	return func(p *doctorHome) {
		p.pretendGoogle()
		p.answerInstead = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != method {
				return false
			}
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": code, "status": status, "message": message}})
			return true
		}
	}
}

// startGoogle puts TLS before the space, so that it is read with credentials, which
// answer gives a token for, or none.
func startGoogle(p *doctorHome, answer func(w http.ResponseWriter)) *httptest.Server {
	chat := strict.CheckRequests(p, p, strict.Embedded)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			answer(w)
			return
		}
		chat.ServeHTTP(w, r)
	}))
	p.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	ca := filepath.Join(p.binDir, "ca.pem")
	p.writeFile(ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})), 0o644)
	p.env["SSL_CERT_FILE"] = ca
	p.config["webhook_url"] = p.space.WebhookURL(server.URL)
	p.config["api_endpoint"] = p.space.APIEndpoint(server.URL)
	return server
}

func writeToken(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"access_token": "scope:chat.messages.readonly,ya29.planted-access", "token_type": "Bearer", "expires_in": 3600}`))
}

// writeLogin writes a login as gchat-hooks login leaves it.
func (p *doctorHome) writeLogin(server *httptest.Server, change func(*config.Login)) {
	l := &config.Login{ClientID: "id", ClientSecret: plantedClient, RefreshToken: plantedRefresh, TokenURI: server.URL + "/token", User: "users/1"}
	change(l)
	p.check(l.Save(filepath.Join(p.userState(), "login.json")))
}

// writeCredentials writes a credentials file of the person's own, and configures it.
func (p *doctorHome) writeCredentials(server *httptest.Server) string {
	path := filepath.Join(p.home, "own.json")
	p.writeJSON(path, map[string]any{"type": "authorized_user", "client_id": "id", "client_secret": plantedClient, "refresh_token": plantedRefresh, "token_uri": server.URL + "/token"})
	p.config["credentials_file"] = path
	return path
}

// writeHook registers one hook in a settings file of the project.
func (p *doctorHome) writeHook(name string, entry settings.Entry) {
	p.writeFile(filepath.Join(p.project, ".claude", name), fmt.Sprintf(`{"hooks": {%q: [{"matcher": %q, "hooks": [{"type": "command", "command": %q}]}]}}`, entry.Event, entry.Matcher, entry.Command), 0o644)
}

// recordDaemon is one that is this test's process, and showed so long ago that it goes
// on, and polled.
func (p *doctorHome) recordDaemon(age time.Duration) {
	beatAt := time.Now().Add(-age)
	p.check(os.MkdirAll(filepath.Join(p.userState(), "pollers"), 0o700))
	p.check(state.WriteHeartbeat(p.getenv, state.Heartbeat{PID: os.Getpid(), IsDaemon: true, StartedAt: beatAt, BeatAt: beatAt}))
	p.check(state.WriteDaemonPID(p.userState()))
	p.check(state.WriteLastPoll(p.userState(), beatAt))
}

// Each fault is found by the check that is for it, and no other; its line names the mend.
func TestFaults_AreFound(t *testing.T) {
	const warn, fail = Warn, Fail
	for _, c := range []struct {
		fault string
		plant func(p *doctorHome)
		id    string
		level Level
		says  string // in what it found
		mend  string
		also  string // ids that the fault brings with it
	}{
		// The space.
		{"no webhook", func(p *doctorHome) { delete(p.config, "webhook_url") }, "chat.post", fail, "no webhook", "gchat-hooks setup", ""},
		{"a webhook URL that is none", func(p *doctorHome) { p.config["webhook_url"] = "https://example.com/x?token=" + plantedKey }, "chat.post", fail, "not a Chat webhook URL", "the webhook URL is cut off or wrong", ""},
		{"a webhook command that hangs", func(p *doctorHome) {
			delete(p.config, "webhook_url")
			p.config["webhook_url_command"] = "sleep 60"
		}, "chat.post", fail, "webhook_url_command", "within 4 seconds", ""},
		{"a key that was cut off", func(p *doctorHome) {
			p.config["webhook_url"] = p.space.APIEndpoint(p.server.URL) + "v1/" + googleSpace + "/messages?key=k&token=" + p.secrets[1]
		}, "chat.post", fail, "chat answered 400", "the webhook URL is cut off or wrong", ""},
		{"a wrong token", func(p *doctorHome) {
			p.config["webhook_url"] = p.space.APIEndpoint(p.server.URL) + "v1/" + googleSpace + "/messages?key=" + p.secrets[0] + "&token=wrong"
		}, "chat.post", fail, "chat answered 403", "token is missing or wrong", ""},
		{"another embedded space", func(p *doctorHome) {
			p.config["webhook_url"] = strings.Replace(fmt.Sprint(p.config["webhook_url"]), p.secrets[0], "other", 1)
		}, "chat.post", fail, "chat answered 400", "gchat-hooks setup --space --listen 127.0.0.1:", ""},
		{"a webhook that was deleted", refuseWith("POST", 404, "NOT_FOUND", "gone"), "chat.post", fail, "chat answered 404", "was deleted", ""},
		{"no embedded space", func(p *doctorHome) { p.server.Close() }, "chat.post", fail, "connection refused", "gchat-hooks space --listen 127.0.0.1:", "chat.read"},
		{"a server that says nothing", func(p *doctorHome) {
			p.pretendGoogle()
			p.answerInstead = func(_ http.ResponseWriter, r *http.Request) bool {
				// else the server does not see that the client went away
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
				return true
			}
		}, "chat.post", fail, "deadline exceeded", "check the network", "chat.read"},
		{"an answer that quotes the webhook", func(p *doctorHome) {
			refuseWith("POST", 403, "PERMISSION_DENIED", "bad token "+p.secrets[1]+" in "+fmt.Sprint(p.config["webhook_url"]))(p)
		}, "chat.post", fail, "bad token [secret] in", "token is missing or wrong", ""},
		{"an overloaded Chat", refuseWith("POST", 503, "UNAVAILABLE", "later"), "chat.post", warn, "503", "run it again later", ""},
		{"another space", func(p *doctorHome) { p.config["space_id"] = "spaces/BBBB" }, "chat.post", warn, "spaces/BBBB", "remove space_id", ""},
		{"an API endpoint that is none", func(p *doctorHome) {
			p.config["api_endpoint"] = "http://ann:" + plantedKey + "@example.com/" + plantedKey
		}, "chat.post", fail, "neither https nor", "set api_endpoint (GCHAT_API_ENDPOINT)", ""},
		{"no member of the space", refuseWith("GET", 403, "PERMISSION_DENIED", "The caller does not have permission"), "chat.read", fail, "chat answered 403", "not a member of the space", ""},
		{"a scope that is missing", refuseWith("GET", 403, "PERMISSION_DENIED", "Request had insufficient authentication scopes."), "chat.read", fail, "insufficient authentication scopes", "gchat-hooks login", ""},
		{"an API that is not enabled", refuseWith("GET", 403, "PERMISSION_DENIED", "Google Chat API has not been used in project 1"), "chat.read", fail, "has not been used", "enable the Google Chat API", ""},
		{"no credentials", func(p *doctorHome) { startGoogle(p, writeToken) }, "chat.read", fail, "no usable Google credentials", "gchat-hooks login", ""},
		{"a login that ended at Google", func(p *doctorHome) {
			s := startGoogle(p, func(w http.ResponseWriter) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(`{"error": "invalid_grant", "error_description": "Token has been expired or revoked."}`))
			})
			p.writeLogin(s, func(*config.Login) {})
		}, "chat.read", fail, "invalid_grant", "gchat-hooks login", ""},
		{"a token that Google does not take", func(p *doctorHome) {
			p.writeLogin(startGoogle(p, writeToken), func(*config.Login) {})
			refuseWith("GET", 401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")(p)
		}, "chat.read", fail, "chat answered 401", "gchat-hooks login", ""},
		{"a credentials file whose login ended at Google", func(p *doctorHome) {
			s := startGoogle(p, func(w http.ResponseWriter) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(`{"error": "invalid_grant", "error_description": "Token has been expired or revoked."}`))
			})
			p.writeCredentials(s)
		}, "chat.read", fail, "invalid_grant", "(gchat-hooks login); if it ends every 7 days, the OAuth client is in Testing: make its consent screen Internal or publish it; a login is used only where the webhook is your own", ""},
		{"a credentials file of somebody who is no member", func(p *doctorHome) {
			s := startGoogle(p, writeToken)
			p.writeCredentials(s)
			refuseWith("GET", 403, "PERMISSION_DENIED", "The caller does not have permission")(p)
		}, "chat.read", fail, "chat answered 403", "no credentials_file", ""},
		{"a person who may not answer", func(p *doctorHome) {
			s := startGoogle(p, writeToken)
			p.writeLogin(s, func(l *config.Login) { l.User = "" })
			p.answerInstead = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, ":search") {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(map[string]any{"results": []any{map[string]any{"message": map[string]any{"sender": map[string]any{"name": "users/99", "type": "HUMAN"}}}}})
				return true
			}
		}, "chat.allowed", warn, "who is not on allowed_users and may not answer", "allowed_users", ""},
		{"nobody may answer", func(p *doctorHome) { delete(p.config, "allowed_users") }, "chat.allowed", fail, "allowed_users is empty", "allowed_users in ~/.config", ""},
		{"a policy that cannot be read", func(p *doctorHome) { p.env["GCHAT_POLICY_FILE"] = "/none" }, "config.parse", fail, "nothing is asked in Chat: read policy", "the policy's owner", ""},
		{"a name on the list", func(p *doctorHome) { p.config["allowed_users"] = []string{"users/1", "Ann"} }, "chat.allowed", warn, `"Ann"`, "users/ID", ""},
		{"a person by name on the list", func(p *doctorHome) {
			p.config["allowed_users"] = []string{"users/local-human", "ann@example.com", "users/ann@example.com", "users/Bob"}
		}, "chat.allowed", warn, `"users/Bob"`, "users/ID", ""},
		{"a clock that is behind", func(p *doctorHome) {
			p.answerInstead = func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Date", time.Now().Add(2*time.Minute).UTC().Format(http.TimeFormat))
				return false
			}
		}, "chat.post", warn, "clock and Chat's differ by", "set-ntp", ""},
		{"a clock that is far ahead", func(p *doctorHome) {
			p.answerInstead = func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
				return false
			}
		}, "chat.post", warn, "clock and Chat's differ by", "set-ntp", ""},

		// Claude Code.
		{"no hooks", func(p *doctorHome) { p.presets = nil }, "claude.hooks", fail, "no hook of gchat-hooks", "gchat-hooks install", ""},
		{"no PermissionRequest", func(p *doctorHome) {
			entries := slices.DeleteFunc(p.hookEntries(), func(e settings.Entry) bool { return e.Event == "PermissionRequest" })
			b, err := settings.Install(nil, entries)
			p.check(err)
			p.writeFile(p.settingsFile(), string(b), 0o600)
		}, "claude.hooks", fail, "PermissionRequest", "gchat-hooks install --preset answer", ""},
		{"no PostToolUse", func(p *doctorHome) {
			entries := slices.DeleteFunc(p.hookEntries(), func(e settings.Entry) bool { return e.Event == "PostToolUse" })
			b, err := settings.Install(nil, entries)
			p.check(err)
			p.writeFile(p.settingsFile(), string(b), 0o600)
		}, "claude.hooks", warn, "PostToolUse", "gchat-hooks install --preset answer", ""},
		{"only an agent's hooks", func(p *doctorHome) { p.presets = []string{"wake"} },
			"claude.hooks", fail, "PreToolUse", "gchat-hooks install --preset answer", ""},
		{"permissions without PostToolBatch", func(p *doctorHome) { p.installWithout("approve", "PostToolBatch") },
			"claude.hooks", warn, "PostToolBatch", "gchat-hooks install --preset approve", ""},
		{"permissions without the hook for them", func(p *doctorHome) { p.installWithout("approve", "PermissionRequest") },
			"claude.hooks", fail, "is not registered on PermissionRequest", "gchat-hooks install --preset approve", ""},
		{"permissions with the hook for questions", func(p *doctorHome) {
			p.presets = []string{"approve"}
			entries := p.hookEntries()
			for i := range entries {
				if entries[i].Event == "PermissionRequest" {
					entries[i].Matcher = "AskUserQuestion"
				}
			}
			b, err := settings.Install(nil, entries)
			p.check(err)
			p.writeFile(p.settingsFile(), string(b), 0o600)
		}, "claude.hooks", fail, "is not registered on PermissionRequest", "gchat-hooks install --preset approve", ""},
		{"no hook for the next instruction", func(p *doctorHome) { p.installWithout("approve", "Stop") },
			"claude.hooks", warn, "is not registered on Stop", "gchat-hooks install --preset approve", ""},
		{"a program that is gone", func(p *doctorHome) {
			p.writeHook("settings.local.json", settings.Entry{Event: "PreCompact", Command: "/nowhere/gchat-hooks hook pre-compact-hook"})
		}, "claude.hooks", fail, "/nowhere/gchat-hooks", "gchat-hooks install", ""},
		{"settings with a comment", func(p *doctorHome) {
			p.writeFile(filepath.Join(p.project, ".claude", "settings.json"), "{\n  // mine\n  \"env\": {}\n}\n", 0o644)
		}, "claude.settings", fail, "a comment or a trailing comma", "correct its JSON", ""},
		{"deny mode without a waker", func(p *doctorHome) { p.config["ask_mode"] = "deny" }, "claude.hooks", warn, "no gchat-ask-user-rewake", "--preset system3", ""},
		{"disableAllHooks", func(p *doctorHome) { p.settings["disableAllHooks"] = true }, "claude.settings", fail, "disableAllHooks is set", "remove the setting", ""},
		{"allowManagedHooksOnly", func(p *doctorHome) {
			p.writeFile(filepath.Join(p.env["CLAUDE_CODE_MANAGED_SETTINGS_PATH"], "managed-settings.json"), `{"allowManagedHooksOnly": true}`, 0o644)
		}, "claude.settings", fail, "allowManagedHooksOnly is set", "administrator", ""},
		{"a plugin whose folder is gone", func(p *doctorHome) {
			p.settings["enabledPlugins"] = map[string]bool{"gchat-hooks-report@gchat-hooks": true}
			p.writeJSON(filepath.Join(p.home, ".claude", "plugins", "installed_plugins.json"), map[string]any{"plugins": map[string]any{
				"gchat-hooks-report@gchat-hooks": []map[string]string{{"installPath": "/nowhere/0.1.0"}}}})
		}, "claude.settings", fail, "the plugin gchat-hooks-report@gchat-hooks is gone: /nowhere/0.1.0", "/reload-plugins", ""},
		{"a folder that is not trusted", func(p *doctorHome) {
			p.writeJSON(filepath.Join(p.home, ".claude.json"), map[string]any{"projects": map[string]any{}})
		}, "claude.trust", warn, "was not told to trust", "start claude", ""},
		{"askUserQuestionTimeout", func(p *doctorHome) { p.settings["askUserQuestionTimeout"] = "60s" }, "claude.settings", warn, `"60s"`, `"never"`, ""},
		{"AskUserQuestion denied", func(p *doctorHome) { p.settings["permissions"] = map[string]any{"deny": []string{"AskUserQuestion"}} }, "claude.settings", fail, "permissions.deny", "remove the setting", ""},
		{"an old Claude Code", func(p *doctorHome) { p.claude = "2.1.45 (Claude Code)" }, "claude.version", fail, "2.1.45 is too old", "claude update", ""},
		{"no Claude Code", func(p *doctorHome) {
			p.presets = []string{"answer"}
			b, err := settings.Install(nil, p.hookEntries())
			p.check(err)
			p.writeFile(p.settingsFile(), string(b), 0o600)
			p.claude = ""
		}, "claude.version", warn, "not on PATH", "install Claude Code", ""},

		{"auto mode behind a gateway", func(p *doctorHome) {
			p.presets = []string{"approve"}
			p.env["ANTHROPIC_BASE_URL"] = "https://gateway.example:8443"
		}, "claude.waits", warn, "but gateway.example:8443 does not pass on its check", "setup --approve", ""},
		{"auto mode behind a gateway, in the settings", func(p *doctorHome) {
			p.presets = []string{"approve"}
			p.settings["env"] = map[string]any{"ANTHROPIC_BASE_URL": "https://gateway.example", "OTHER": 7}
			p.settings["permissions"] = map[string]any{"defaultMode": "auto"}
		}, "claude.waits", warn, "gateway.example", "defaultMode", ""},
		{"a session that waits in its terminal", func(p *doctorHome) {
			_, err := state.SessionsIn(state.UserStateDir(p.getenv)).Change("s", func(s *state.Session) {
				s.Name, s.Dialog = "shop", state.NewDialog(true, "")
			})
			p.check(err)
		}, "claude.waits", warn, "shop waits in its terminal", "answer it in that terminal", ""},

		// The daemon, the outbox, tmux.
		{"a daemon that hangs", func(p *doctorHome) { p.recordDaemon(time.Hour) }, "daemon.runs", warn, "may be stuck", "poller install", ""},
		{"inject without tmux", func(p *doctorHome) {
			p.config["ask_mode"] = "inject"
			p.env["PATH"] = p.binDir
			p.recordDaemon(0)
			p.claude = ""
		}, "daemon.runs", fail, "tmux is not installed", "install tmux", "claude.version"},
		// Files.
		{"a configuration that does not parse", func(p *doctorHome) {
			p.writeFile(filepath.Join(p.project, ".claude", "gchat-hooks.json"), `{"ask_mode": `, 0o644)
		}, "config.parse", fail, "gchat-hooks.json", "correct the file", "chat.post chat.allowed"},
		{"a misspelt setting", func(p *doctorHome) { p.config["alowed_users"] = "users/1" }, "config.parse", warn, `"alowed_users"`, "correct the file", ""},
		{"a value that means nothing", func(p *doctorHome) { p.config["poll_interval"] = "often" }, "config.parse", fail, "often", "configuration.md", ""},
		{"a rule that quotes the webhook", func(p *doctorHome) {
			p.config["rules"] = []any{map[string]any{"session": "x", "secret": p.secrets[1]}}
		}, "config.parse", fail, "[secret]", "configuration.md", ""},
		{"a configuration that others read", func(p *doctorHome) {
			p.writeJSON(filepath.Join(p.home, ".config", "gchat-hooks", "config.json"), p.config)
			p.config = nil
			p.check(os.Chmod(filepath.Join(p.home, ".config", "gchat-hooks", "config.json"), 0o644))
		}, "files.private", fail, "can read or change", "chmod go-rwx", ""},
		{"a configuration's backup that others read", func(p *doctorHome) {
			p.writeFile(filepath.Join(p.home, ".config", "gchat-hooks", "config.json~"), `{"webhook_url": "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=`+plantedKey+`"}`, 0o644)
		}, "files.private", fail, "config.json~", "chmod go-rwx", ""},
		{"a folder of ours that others write to", func(p *doctorHome) {
			p.check(os.MkdirAll(filepath.Join(p.home, ".config", "gchat-hooks"), 0o755))
			p.check(os.Chmod(filepath.Join(p.home, ".config", "gchat-hooks"), 0o777))
		}, "files.private", fail, ".config/gchat-hooks", "chmod go-rwx", ""},
		{"a project's state that others write to", func(p *doctorHome) {
			dir := filepath.Join(p.project, ".claude", "state")
			// as git or Claude leave it
			p.check(os.MkdirAll(filepath.Join(dir, "pending-questions"), 0o755))
			p.check(os.Chmod(dir, 0o777))
		}, "files.private", fail, ".claude/state", "chmod go-rwx", ""},
		{"state that others read", func(p *doctorHome) { p.writeFile(filepath.Join(p.userState(), "projects.json"), "{}", 0o644) }, "files.private", fail, "projects.json", "chmod go-rwx", ""},
		{"state that others write", func(p *doctorHome) { p.writeFile(filepath.Join(p.userState(), "projects.json"), "{}", 0o666) }, "files.private", fail, "projects.json", "chmod go-rwx", ""},
		{"a file in a folder's place", func(p *doctorHome) { p.writeFile(filepath.Join(p.home, ".local", "state"), "", 0o600) }, "files.folders", fail, "not a directory", "a file has its name", ""},
		{"a folder that cannot be made", func(p *doctorHome) {
			p.writeFile(filepath.Join(p.home, ".local", "state", "x"), "", 0o600)
			p.check(os.Chmod(filepath.Join(p.home, ".local", "state"), 0o500))
			if os.Getuid() == 0 { // to whom no folder is closed
				p.check(os.RemoveAll(filepath.Join(p.home, ".local", "state")))
				p.check(os.Symlink("/proc/sys", filepath.Join(p.home, ".local", "state")))
			}
		}, "files.folders", fail, "cannot write to", "who owns the folder", ""},
		{"a state folder that is no UTF-8", func(p *doctorHome) {
			p.env["XDG_STATE_HOME"] = filepath.Join(p.home, "state\xff")
		}, "files.folders", fail, `state\xff/gchat-hooks" is not UTF-8`, "XDG_STATE_HOME", ""},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			p := newDoctorHome(t)
			c.plant(p)
			p.writeDefaults()
			r := p.runJSON()
			f := r.finding(c.id)
			for _, g := range r.Findings {
				if g.ID == c.id && g.Level == c.level {
					f = *g
					break
				}
			}
			if f.Level != c.level || !strings.Contains(f.Text, c.says) || !strings.Contains(f.Fix, c.mend) {
				t.Errorf("%s: %+v", c.id, f)
			}
			want := append(strings.Fields(c.also), c.id)
			slices.Sort(want)
			if bad := r.problemIDs(); !slices.Equal(bad, want) {
				t.Errorf("not well: %v, want %v", bad, want)
				for _, f := range r.Findings {
					if !slices.Contains(want, f.ID) && (f.Level == warn || f.Level == fail) {
						t.Logf("%+v", f)
					}
				}
			}
			if wantCode := map[Level]int{warn: 1, fail: 2}[c.level]; c.also == "" && r.ExitCode != wantCode {
				t.Errorf("exit code %d, want %d", r.ExitCode, wantCode)
			}
		})
	}
}

// installWithout writes the hooks of a preset but those on an event; of those on Stop it
// leaves out the waking one.
func (p *doctorHome) installWithout(preset, event string) {
	p.presets = []string{preset}
	entries := slices.DeleteFunc(p.hookEntries(), func(e settings.Entry) bool { return e.Event == event && e.AsyncRewake == (event == "Stop") })
	b, err := settings.Install(nil, entries)
	p.check(err)
	p.writeFile(p.settingsFile(), string(b), 0o600)
}
