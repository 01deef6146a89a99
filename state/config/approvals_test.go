package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gchat-hooks/state"
)

func TestNeverRemotely(t *testing.T) {
	for _, test := range []struct {
		pattern, tool, input string
		want                 bool
	}{
		{"Bash(git push*)", "Bash", "git push --force", true},
		{"Bash(git push*)", "Bash", "cd x && git  push origin", true},
		{"Bash(git push*)", "Bash", "FOO=1 sudo -u me git push", true},
		{"Bash(git push*)", "Bash", "x=$(git push)", true},
		{"Bash(git push*)", "Bash", "echo a\ngit push", true},
		{"Bash(git push*)", "Bash", `bash -c "git push"`, true},
		{"Bash(git push*)", "Bash", "true;git push", true},
		{"Bash(git push*)", "Bash", `git "push" o`, true},
		{"Bash(git push*)", "Bash", "git \\\n  push", true},
		{"Bash(git push*)", "Bash", "git pull", false},
		{"Bash(*rm -rf*)", "Bash", "find . | xargs rm  -rf", true},
		{"Bash(npm test)", "Bash", "npm test", true},
		{"Bash(npm test)", "Bash", "npm test2", false},
		{"Bash(npm test)", "Bash", "cd x\nnpm test\nls", true},
		{"Bash", "Bash", "anything", true},
		{"Bash", "BashOutput", "anything", false},
		{"Bash(git push*)", "Monitor", "while sleep 9; do git push; done", true}, // a command, whichever tool runs it
		{"PowerShell(git push*)", "Bash", "git push", true},
		{"Bash(git push*)", "Bash", "git pu\\\nsh", true},
		{"Bash(git push*)", "Skill", `{"skill":"deploy"}`, true}, // which may allow it
		{"mcp__prod*", "Skill", `{"skill":"deploy"}`, true},
		{"Bash(git push*)", "Monitor", "tail -f log", false},
		{"mcp__prod*", "mcp__prod__drop", "{}", true},
		{"Write(*/.env)", "Write", "/home/x/.env", true},
		{"Write(*/.env)", "Edit", "/home/x/.env", false},
		{"Bash(git push*", "Bash", "ls", true}, // without its end
		{"*", "Read", "", true},
	} {
		c := &Config{NeverRemote: []string{test.pattern}}
		if got := c.NeverRemotely(test.tool, test.input); got != test.want {
			t.Errorf("%s: %s %q: %v", test.pattern, test.tool, test.input, got)
		}
	}
}

// Who approves, and what only the terminal allows, is the person's to say: a project cannot change it.
func TestAProjectCannotLiftApprovals(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := func(name string) string {
		return map[string]string{"HOME": home, "CLAUDE_PROJECT_DIR": project}[name]
	}
	person := filepath.Join(state.ConfigDir(env), "config.json")
	write(person, `{"allowed_users": ["users/1", "users/2"], "approvers": ["users/1"], "never_remote": ["Bash(a,b)", "Write"]}`)
	write(filepath.Join(project, ".claude", "gchat-hooks.json"), `{"approvers": ["users/9"], "never_remote": []}`)
	write(filepath.Join(project, ".mcp.json"), `{"mcpServers": {"google-chat-bridge": {"env": {"GCHAT_APPROVERS": "users/9"}}}}`)
	c := Load(env, project)
	if !slices.Equal(c.Approvers, []string{"users/1"}) || !slices.Equal(c.NeverRemote, []string{"Bash(a,b)", "Write"}) {
		t.Errorf("approvers %q, never_remote %q", c.Approvers, c.NeverRemote)
	}

	write(person, `{"allowed_users": ["users/1"], "approvers": []}`)
	if c := Load(env, project); len(c.Approvers) != 0 || len(c.AllowedUsers) != 1 {
		t.Errorf("with an empty list: %q", c.Approvers)
	}
	write(person, `{"allowed_users": ["users/1"]}`)
	if c := Load(env, project); !slices.Equal(c.Approvers, []string{"users/1"}) {
		t.Errorf("with none: %q", c.Approvers)
	}
	for _, broken := range []string{`{"never_remote": ["Bash"`, `{"never_remote": 7}`} {
		write(person, broken)
		if c := Load(env, project); !c.NeverRemotely("Read", "x") || len(c.Problems) == 0 {
			t.Errorf("%s: %q is not known, and something can be allowed", broken, c.NeverRemote)
		}
	}
}

// A project's webhook leads to Google or to a host that the person named, not to a server of the project's choice.
func TestAProjectsWebhookLeadsToNoHostOfItsOwn(t *testing.T) {
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
		{"http://127.0.0.1:7000/v1/spaces/A/messages?key=k", `{"api_endpoint": "http://127.0.0.1:7000/"}`, true},
		{"http://127.0.0.1:7001/v1/spaces/A/messages?key=k", `{"api_endpoint": "http://127.0.0.1:7000/"}`, false},
		{"http://127.0.0.1:7000/v1/spaces/A/messages?key=k", `{"webhook_url": "http://127.0.0.1:7000/v1/spaces/local/messages"}`, true},
	} {
		p := newPlace(t)
		p.write("~/.config/gchat-hooks/config.json", test.person)
		p.write(".claude/gchat-hooks.json", `{"webhook_url": "`+test.webhook+`"}`)
		c := Load(p.getenv, p.proj)
		if counts := c.WebhookURL == test.webhook; counts != test.counts || counts != (len(c.Problems) == 0) {
			t.Errorf("%s beside %s: %q, %v", test.webhook, test.person, c.WebhookURL, c.Problems)
		}
		if own := Personal(p.getenv); own.WebhookURL == test.webhook {
			t.Errorf("%s counts where the person alone decides", test.webhook)
		}
	}
}

// A trusted project's settings can set variables: who approves is first of all what the person's file says.
func TestThePersonsFileNamesApproversBeforeTheEnvironment(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		env  map[string]string
		want []string
	}{
		"approvers in the file":         {`{"approvers": ["users/1"]}`, map[string]string{"GCHAT_APPROVERS": "users/9"}, []string{"users/1"}},
		"nobody in the file":            {`{"approvers": []}`, map[string]string{"GCHAT_APPROVERS": "users/9"}, nil},
		"those who may answer":          {`{"allowed_users": ["users/1"]}`, map[string]string{"GCHAT_ALLOWED_USERS": "users/9"}, []string{"users/1"}},
		"the environment where no file": {`{}`, map[string]string{"GCHAT_APPROVERS": "users/2"}, []string{"users/2"}},
		"the environment's who answer":  {`{}`, map[string]string{"GCHAT_ALLOWED_USERS": "users/2"}, []string{"users/2"}},
		"approvers of the environment":  {`{"allowed_users": ["users/1", "users/2"]}`, map[string]string{"GCHAT_APPROVERS": "users/2,users/9"}, []string{"users/2"}},
	} {
		p := newPlace(t)
		p.write("~/.config/gchat-hooks/config.json", test.file)
		for k, v := range test.env {
			p.env[k] = v
		}
		if c := Personal(p.getenv); !slices.Equal(c.Approvers, test.want) {
			t.Errorf("%s: %q", name, c.Approvers)
		}
	}
}
