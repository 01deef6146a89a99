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
