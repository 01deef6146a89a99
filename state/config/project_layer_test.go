package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

const theirHook = "https://chat.googleapis.com/v1/spaces/THEIRS/messages?key=k&token=t"

// A trusted project's files may choose modes, rules and a webhook. They may not choose
// who answers, a command or a host.
func TestProjectLayer_WhatItMayChoose(t *testing.T) {
	for name, file := range map[string]string{
		projectFile: `{"webhook_url": "` +
			theirHook + `", "webhook_url_command": "theirs", "allowed_users": ["users/666"],
			"api_endpoint": "https://theirs.example/", "menu_decides": true, "ask_mode": "hold", "rules": [{"ask_mode": "off"}]}`,
		".mcp.json": `{"mcpServers":{"google-chat-bridge":{"env":{"GOOGLE_CHAT_WEBHOOK_URL": "` +
			theirHook + `", "webhook_url_command": "theirs",
			"GCHAT_ALLOWED_USERS": "users/666", "GCHAT_API_ENDPOINT": "https://theirs.example/", "menu_decides": "true", "GCHAT_ASK_MODE": "hold"}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.write(personFile, `{"api_endpoint": "https://mine.example/"}`)
			p.write("~/.mcp.json",
				`{"mcpServers":{"google-chat-bridge":{"env":{"GCHAT_ALLOWED_USERS":"users/1"}}}}`)
			p.write(name, file)
			c := p.load()
			kit.True(t, c.WebhookURL == theirHook && c.AskMode == state.ModeHold &&
				(!strings.HasSuffix(name, "hooks.json") || len(c.Rules) == 1),
				"the project's own choice does not count: %+v", c)
			kit.True(t, !c.MenuCanDecide, "menu-driver decides")
			kit.True(t, c.WebhookCommand == "" && c.APIEndpoint == "https://mine.example/" &&
				slices.Equal(c.AllowedUsers, []string{"users/1"}),
				"command %q, endpoint %q, people %q", c.WebhookCommand, c.APIEndpoint,
				c.AllowedUsers)
			kit.True(t, len(c.Problems) >= 2 &&
				strings.Contains(c.Problems[0].Error(), "is ignored in a project"),
				"problems: %v", c.Problems)
		})
	}
}

// A project's webhook is read only with the project's or the environment's credentials. A
// project does not choose the credentials of the person's webhook.
func TestProjectLayer_Credentials(t *testing.T) {
	webhook := `"webhook_url": "` + theirHook + `"`
	for name, tt := range map[string]struct {
		files map[string]string
		env   string
		want  string
	}{
		"the person's file": {map[string]string{projectFile: `{` + webhook + `}`,
			personFile: `{"credentials_file": "KEY"}`}, "", NoCredentials},
		"the login": {map[string]string{projectFile: `{` + webhook + `}`,
			loginFile: `{"made_by":"gchat-hooks login","user":"users/1"}`}, "", NoCredentials},
		"default credentials": {map[string]string{projectFile: `{` + webhook + `}`}, "",
			NoCredentials},
		"a space alone": {map[string]string{projectFile: `{"space_id": "THEIRS"}`}, "",
			NoCredentials},
		"its own": {map[string]string{projectFile: `{` + webhook +
			`, "credentials_file": "key.json"}`, ".claude/key.json": `{}`}, "",
			"PROJECT/.claude/key.json"},
		"its own in .mcp.json": {map[string]string{".mcp.json": `{"mcpServers":{"google-chat-bridge":{"env":{"GOOGLE_CHAT_WEBHOOK_URL":"x","GOOGLE_CHAT_CREDENTIALS_FILE":"key.json"}}}}`, "key.json": `{}`}, "", "PROJECT/key.json"},
		"the person's by its path": {map[string]string{projectFile: `{` + webhook +
			`, "credentials_file": "KEY"}`}, "", NoCredentials},
		"the person's by a link": {map[string]string{projectFile: `{` + webhook +
			`, "credentials_file": "link.json"}`}, "", NoCredentials},
		"those of the environment": {map[string]string{projectFile: `{` + webhook + `}`}, "KEY",
			"KEY"},
		"for the person's webhook": {map[string]string{projectFile: `{"credentials_file": "key.json"}`, ".claude/key.json": `{}`, personFile: `{` + webhook + `, "credentials_file": "KEY"}`}, "", "KEY"},
		"a space beside the webhook": {map[string]string{projectFile: `{"space_id": "THEIRS"}`,
			personFile: `{` + webhook + `, "credentials_file": "KEY"}`}, "", "KEY"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			key := filepath.Join(p.env["HOME"], "key.json")
			p.write("~/key.json", `{}`)
			p.write(".claude/x", "")
			kit.NoError(t, os.Symlink(key, filepath.Join(p.proj, ".claude", "link.json")))
			names := strings.NewReplacer("KEY", key, "PROJECT", p.proj)
			for path, content := range tt.files {
				p.write(path, names.Replace(content))
			}
			p.env["GOOGLE_CHAT_CREDENTIALS_FILE"], tt.want = names.Replace(tt.env), names.Replace(tt.want)
			c := p.load()
			kit.Equalf(t, c.CredentialsFile, tt.want, "credentials")
			kit.True(t, tt.files[loginFile] == "" || slices.Contains(c.AllowedUsers, "users/1"),
				"the person who logged in may not answer: %q", c.AllowedUsers)
		})
	}
}

// The home directory's files are the person's own, even if the session was started there.
func TestProjectLayer_HomeIsNoProject(t *testing.T) {
	p := newPlace(t)
	p.proj = p.env["HOME"]
	p.write(personFile,
		`{"webhook_url": "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"}`)
	p.write("~/.mcp.json",
		`{"mcpServers":{"google-chat-bridge":{"env":{"GCHAT_API_ENDPOINT":"https://proxy.example/"}}}}`)
	c := p.load()
	kit.True(t, c.APIEndpoint != "" && len(c.Problems) == 0,
		"endpoint %q, problems %v", c.APIEndpoint, c.Problems)
}

// A folder from elsewhere has no say in where questions go until Claude Code was told to
// trust it.
func TestProjectLayer_CountsOnceTrusted(t *testing.T) {
	for _, tt := range []struct {
		name, claude string // what stands in ~/.claude.json; "" for no such file
		env          map[string]string
		counts       bool
	}{
		{"never used", "", nil, false},
		{"not trusted", `{"projects":{"PROJECT":{"hasTrustDialogAccepted":false}}}`, nil, false},
		{"another one trusted", `{"projects":{"/elsewhere":{"hasTrustDialogAccepted":true}}}`, nil,
			false},
		{"trusted", `{"projects":{"PROJECT":{"hasTrustDialogAccepted":true}}}`, nil, true},
		{"a folder around it trusted", `{"projects":{"PARENT":{"hasTrustDialogAccepted":true}}}`,
			nil, true},
		{"trusted by a link", `{"projects":{"LINK":{"hasTrustDialogAccepted":true}}}`, nil, true},
		{"a folder around it trusted by a link",
			`{"projects":{"AROUND":{"hasTrustDialogAccepted":true}}}`, nil, true},
		{"a link not trusted", `{"projects":{"LINK":{"hasTrustDialogAccepted":false}}}`, nil,
			false},
		{"a folder that the working folder tells",
			`{"projects":{".":{"hasTrustDialogAccepted":true}}}`, nil, false},
		{"a clone in a folder trusted by a link",
			`{"projects":{"AROUND":{"hasTrustDialogAccepted":true}}}`,
			map[string]string{"clone": "yes"}, false},
		{"a clone in a trusted folder", `{"projects":{"PARENT":{"hasTrustDialogAccepted":true}}}`,
			map[string]string{"clone": "yes"}, false},
		{"a hook", `{"projects":{}}`, map[string]string{"CLAUDE_PROJECT_DIR": "PROJECT"}, true},
		{"a hook by a link", `{"projects":{}}`, map[string]string{"CLAUDE_PROJECT_DIR": "LINK"},
			true},
		{"a hook of another project", `{"projects":{}}`,
			map[string]string{"CLAUDE_PROJECT_DIR": "PARENT"}, false},
		{"Claude's own shell", `{"projects":{}}`, map[string]string{"CLAUDECODE": "1"}, false},
		{"Claude's own shell, never used", "", map[string]string{"CLAUDECODE": "1"}, false},
		{"another list of Claude's", `{"projects":{"PROJECT":{"hasTrustDialogAccepted":true}}}`,
			map[string]string{"CLAUDE_CONFIG_DIR": "/elsewhere"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			parent, err := filepath.EvalSymlinks(filepath.Dir(p.proj))
			kit.NoError(t, err)
			link, around := filepath.Join(t.TempDir(), "link"), filepath.Join(t.TempDir(), "around")
			kit.NoError(t, errors.Join(os.Symlink(p.proj, link), os.Symlink(parent, around)))
			names := strings.NewReplacer("PROJECT", filepath.Join(parent, "proj"), "PARENT", parent,
				"LINK", link, "AROUND", around)
			p.write(projectFile, `{"webhook_url": "theirs", "rules": [{"ask_mode": "off"}]}`)
			p.write(".mcp.json",
				`{"mcpServers":{"google-chat-bridge":{"env":{"GOOGLE_CHAT_SPACE_ID":"spaces/THEIRS"}}}}`)
			p.write(personFile, `{"webhook_url": "mine"}`)
			if tt.claude != "" {
				p.write("~/.claude.json", names.Replace(tt.claude))
			}
			if tt.env["clone"] != "" {
				p.write(".git/HEAD", "")
			}
			t.Chdir(p.proj)
			delete(p.env, "CLAUDE_PROJECT_DIR")
			for k, v := range tt.env {
				p.env[k] = names.Replace(v)
			}
			c := p.load()
			theirs := c.WebhookURL == "theirs" && c.SpaceID != "" && len(c.Rules) == 1 &&
				len(c.Problems) == 0
			mine := c.WebhookURL == "mine" && c.SpaceID == "" && len(c.Rules) == 0 &&
				len(c.Problems) == 2
			kit.True(t, (!tt.counts || theirs) && (tt.counts || mine),
				"webhook %s, space %q, %d rules, problems %v", c.WebhookURL, c.SpaceID,
				len(c.Rules), c.Problems)
		})
	}
}

// Whatever a repository puts in a configuration file's place, reading it neither hangs
// nor fills the memory.
func TestProjectLayer_ConfigurationThatIsNoFile(t *testing.T) {
	for name, plant := range map[string]func(path string) error{
		"endless": func(path string) error { return os.Symlink("/dev/zero", path) },
		"pipe":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"folder":  func(path string) error { return os.Mkdir(path, 0o700) },
		"huge": func(path string) error {
			f, err := os.Create(path)
			if err == nil {
				defer f.Close()
				err = f.Truncate(1 << 40)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.write(".claude/x", "")
			if err := plant(p.full(projectFile)); err != nil {
				t.Skip(err)
			}
			c := p.load()
			kit.True(t, len(c.Problems) == 1, "problems: %v", c.Problems)
		})
	}
}

// Without HOME there is no person's configuration, login or state. Files in the temporary
// folder or the working folder do not stand in for them.
func TestProjectLayer_NoHome(t *testing.T) {
	strange := &place{t, nil, t.TempDir()}
	t.Chdir(strange.proj)
	t.Setenv("TMPDIR", strange.proj)
	t.Setenv("HOME", "")
	strange.write(".config/gchat-hooks/config.json",
		`{"webhook_url_command": "theirs", "allowed_users": ["users/666"]}`)
	strange.write(".mcp.json",
		`{"mcpServers":{"google-chat-bridge":{"env":{"GOOGLE_CHAT_SPACE_ID":"spaces/THEIRS"}}}}`)
	strange.write(".local/state/gchat-hooks/projects.json", `{"projects":{"/theirs":{}}}`)
	strange.write(".local/state/gchat-hooks/login.json",
		`{"type":"authorized_user","made_by":"gchat-hooks login","user":"users/666"}`)
	strange.write(".claude.json", `{"projects":{"/":{"hasTrustDialogAccepted":true}}}`)
	for name, home := range map[string]string{"unset": "", "relative": "."} {
		t.Run(name, func(t *testing.T) {
			env := func(name string) string { return map[string]string{"HOME": home}[name] }
			c := Load(env, t.TempDir())
			kit.True(t, c.WebhookCommand == "" && c.SpaceID == "" && len(c.AllowedUsers) == 0 &&
				c.CredentialsFile == "",
				"another's configuration counts: %+v", c)
			dirs, bad := state.KnownProjects(env)
			kit.True(t, len(dirs) == 0 && len(bad) == 0,
				"another's registry counts: %v %v", dirs, bad)
			yes, _ := state.IsFolderTrusted(env, "/")
			kit.True(t, !yes, "another's list of trusted folders counts")
			err := state.RegisterProject(env, "/p/.claude/state", "/p")
			kit.True(t, err != nil, "state was written somewhere")
		})
	}
}

// A project cannot change who approves, nor what only the terminal allows.
func TestProjectLayer_CannotLiftApprovals(t *testing.T) {
	p := newPlace(t)
	p.write(personFile,
		`{"allowed_users": ["users/1", "users/2"], "approvers": ["users/1"], "never_remote": ["Bash(a,b)", "Write"]}`)
	p.write(projectFile, `{"approvers": ["users/9"], "never_remote": []}`)
	p.write(".mcp.json",
		`{"mcpServers": {"google-chat-bridge": {"env": {"GCHAT_APPROVERS": "users/9"}}}}`)
	c := p.load()
	kit.True(t, slices.Equal(c.Approvers, []string{"users/1"}) &&
		slices.Equal(c.NeverRemote, []string{"Bash(a,b)", "Write"}),
		"approvers %q, never_remote %q", c.Approvers, c.NeverRemote)

	p.write(personFile, `{"allowed_users": ["users/1"], "approvers": []}`)
	c = p.load()
	kit.True(t, len(c.Approvers) == 0 && len(c.AllowedUsers) == 1, "with an empty list: %q",
		c.Approvers)
	p.write(personFile, `{"allowed_users": ["users/1"]}`)
	kit.Equalf(t, p.load().Approvers, []string{"users/1"}, "with none")
	for _, broken := range []string{`{"never_remote": ["Bash"`, `{"never_remote": 7}`} {
		p.write(personFile, broken)
		c := p.load()
		kit.True(t, c.isNeverRemote("Read", "x") && len(c.Problems) != 0,
			"%s: %q is not known, and something can be allowed", broken, c.NeverRemote)
	}
}

// A project's webhook must lead to Google or to a host that the person named.
func TestProjectLayer_WebhookHost(t *testing.T) {
	const google = "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"
	for _, test := range []struct {
		webhook, person string
		counts          bool
	}{
		{google, `{}`, true},
		{"http://127.0.0.1:7000/v1/spaces/A/messages?key=k&token=t", `{}`, false},
		{"https://chat.example/v1/spaces/A/messages?key=k&token=t", `{}`, false},
		{"http://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t", `{}`, false},
		{"https://chat.googleapis.com.example/v1/spaces/A/messages?key=k", `{}`, false},
		{"http://127.0.0.1:7000/v1/spaces/A/messages?key=k",
			`{"api_endpoint": "http://127.0.0.1:7000/"}`, true},
		{"http://127.0.0.1:7001/v1/spaces/A/messages?key=k",
			`{"api_endpoint": "http://127.0.0.1:7000/"}`, false},
		{"http://127.0.0.1:7000/v1/spaces/A/messages?key=k",
			`{"webhook_url": "http://127.0.0.1:7000/v1/spaces/local/messages"}`, true},
	} {
		p := newPlace(t)
		p.write(personFile, test.person)
		p.write(projectFile, `{"webhook_url": "`+test.webhook+`"}`)
		c := p.load()
		counts := c.WebhookURL == test.webhook
		kit.True(t, counts == test.counts && counts == (len(c.Problems) == 0),
			"%s beside %s: %q, %v", test.webhook, test.person, c.WebhookURL, c.Problems)
		own := LoadPersonal(p.getenv)
		kit.True(t, own.WebhookURL != test.webhook,
			"%s counts where the person alone decides", test.webhook)
	}
}
