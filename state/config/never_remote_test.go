package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state"
)

func TestNeverRemote_Table(t *testing.T) {
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
		// a command, whichever tool runs it
		{"Bash(git push*)", "Monitor", "while sleep 9; do git push; done", true},
		{"PowerShell(git push*)", "Bash", "git push", true},
		{"Bash(git push*)", "Bash", "git pu\\\nsh", true},
		{"Bash(git push*)", "Skill", `{"skill":"deploy"}`, true}, // which may allow it
		{"mcp__prod*", "Skill", `{"skill":"deploy"}`, true},
		{"Bash(git push*)", "Monitor", "tail -f log", false},
		{"mcp__prod*", "mcp__prod__drop", "{}", true},
		{"Write(*/.env)", "Write", "/home/x/.env", true},
		{"Write(*/.env)", "Read", "/home/x/.env", false},
		{"Bash(git push*", "Bash", "ls", true}, // without its end
		{"*", "Read", "", true},
	} {
		c := &Config{NeverRemote: []string{test.pattern}}
		kit.Equalf(t, c.isNeverRemote(test.tool, test.input), test.want, "%s: %s %q", test.pattern, test.tool, test.input)
	}
}

// A pattern names a call however the call, or the pattern, is spelled.
func TestNeverRemote_OtherSpellings(t *testing.T) {
	for _, test := range []struct {
		pattern, tool, input string
		want                 bool
	}{
		{"Bash(rm *)", "Bash", "/bin/rm x", true},
		{"Bash(rm *)", "Bash", "./rm x", true},
		{"Bash(rm *)", "Bash", "'/bin/rm' x", true},
		{"Bash(rm *)", "Bash", "~/bin/RM x", true}, // macOS finds it
		{"Bash(rm *)", "Bash", "rm", true},
		{"Bash(rm *)", "Bash", "rmdir x", false},
		{"Bash(rm *)", "Bash", "./farm x", false},
		{"Bash(/bin/rm *)", "Bash", "rm x", true},
		{"Bash(/usr/bin/git push*)", "Bash", "/opt/git/bin/git push", true},
		{"Bash(/opt/*)", "Bash", "ls", false},
		{"Bash(git push*)", "Bash", "/usr/bin/git push", true},
		{"Bash(git push*)", "Bash", "git -C . push", true},
		{"Bash(git push*)", "Bash", `git -c user.name="A B C" --no-pager push`, true},
		{"Bash(git push*)", "Bash", "git -C . status; npm push", false},
		{"Bash(git push*)", "Bash", "git log push", false},
		{"Bash(git push*)", "Bash", "git${IFS}push", true},
		{"Bash(git push*)", "Bash", "git$IFS'push' x", true},
		{"Bash(git push*)", "Bash", `git "" push`, true},
		{"Bash(git  push*)", "Bash", "git push", true},
		{"Bash(git push:*)", "Bash", "git push origin", true}, // as in rules of Claude Code
		{"Bash(git push:*)", "Bash", "git pull", false},
		{"Bash(git push)", "Bash", "git push>log", true},
		{"Bash(git push)", "Bash", "git push 2>&1", true},
		{"Bash(*${IFS}*)", "Bash", "ls -l", false},
		{`Bash(*"*)`, "Bash", "ls -l", false},
		{"WebFetch(https://evil.example*)", "WebFetch", "https://EVIL.example/x", true},
		{"WebFetch(https://evil.example*)", "WebFetch", "https://ev%69l.example/", true},
		{"WebFetch(https://evil.example*)", "WebFetch", "https://evil。example/", true},
		{"WebFetch(https://evil.example/*)", "WebFetch", "https://evil.example./", true},
		{"WebFetch(https://evil.example/*)", "WebFetch", "https://u:p@evil.example:443/", true},
		{"WebFetch(https://evil.example/*)", "WebFetch", `http:\\evil.example/`, true},
		{"WebFetch(https://evil.example:8443/*)", "WebFetch", "https://evil.example/", false},
		{"WebFetch(https://EVIL.example*)", "WebFetch", "https://evil.example/", true},
		{"WebFetch(https://bücher.example*)", "WebFetch", "https://xn--bcher-kva.example/", true},
		{"WebFetch(*xn--bcher-kva.example*)", "WebFetch", "https://bücher.example/", true},
		{"WebFetch(*bücher.example*)", "WebFetch", "https://xn--bcher-kva.example/", true},
		{"WebFetch(*ücher.example*)", "WebFetch", "https://bücher.example/", true},
		{"WebFetch(*evil.example*)", "WebFetch", "https://good.example/", false},
		// as in rules of Claude Code
		{"WebFetch(domain:evil.example)", "WebFetch", "http://EVIL.example/x", true},
		{"WebFetch(domain:evil.example)", "WebFetch", "https://good.example/", false},
		{"WebFetch(*%2A*)", "WebFetch", "https://good.example/", false},
		{"Bash(*evil.example*)", "Bash", "curl ev%69l。example", true},
		{"Bash(curl https://evil.example*)", "Bash", "curl -s HTTPS://evil.EXAMPLE/x", true},
		{"mcp__web__get(*evil.example*)", "mcp__web__get", `{"url":"https://evil。example/"}`, true},
		{"mcp__db*", "mcp__DB__drop", "{}", true},
		{"mcp__DB__*", "mcp__db__drop", "{}", true},
		{"mcp__db", "mcp__db__drop", "{}", true}, // as in rules of Claude Code
		{"mcp__db", "mcp__dbx__drop", "{}", false},
		{"Read(*/.env)", "Grep", "/home/x/.env", true},
		{"Read(*/.env)", "Glob", "/home/x/", true}, // it may find it there
		{"Read(.env)", "Grep", "/home/x/", true},
		{"Read(/home/x/keys/*)", "Grep", "/home/x/", true},
		{"Read(/home/x/keys/*)", "Grep", "/home/x/keys/old/", true},
		{"Read(/home/x/keys/*)", "Grep", "/home/x/src/", false},
		{"Read(/home/x/keys/*)", "Grep", "/home/y/", false},
		{"Read(~/.ssh/*)", "Read", "/home/x/.ssh/id", true}, // as in rules of Claude Code
		{"Read(//etc/**)", "Read", "/etc/shadow", true},
		{"Read(~/.ssh/*)", "Grep", "/home/x/", true},
		{"Read(//etc/**)", "Grep", "/etc/", true},
		{"Read(/etc/*)", "Grep", "/", true},
		{"Read(*/.env)", "Edit", "/home/x/.env", false},
		{"Grep(*)", "Read", "/home/x/.env", false},
		{"Edit(*/.env)", "Write", "/home/x/.env", true},
		{"Edit(*/.env)", "MultiEdit", "/home/x/.ENV", true},
		{"Edit(*.ipynb)", "NotebookEdit", "/home/x/a.ipynb", true},
		{"Write(*/.env)", "Edit", "/home/x/.env", true},
		{"NotebookEdit", "Edit", "/home/x/.env", true},
		{"Edit(*/.env)", "Edit", "/home/x/env", false},
	} {
		c := &Config{NeverRemote: []string{test.pattern}}
		kit.Equalf(t, c.isNeverRemote(test.tool, test.input), test.want, "%s: %s %q", test.pattern, test.tool, test.input)
	}
}

// A call of many foreign signs in one word is held against a pattern within a moment: to
// write such a word as Punycode takes the square of its length.
func TestNeverRemote_LongWord(t *testing.T) {
	var word strings.Builder
	for i := range 200_000 {
		word.WriteRune(rune(0x4e00 + i%20_000))
	}
	c := &Config{NeverRemote: []string{"Bash(git push*)"}}
	if c.isNeverRemote("Bash", "echo "+word.String()) || !c.isNeverRemote("Bash", word.String()+" git push") {
		t.Error("a long word alters what is named")
	}
}

// Who approves, and what only the terminal allows, is the person's to say: a project
// cannot change it.
func TestProjectLayer_CannotLiftApprovals(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	write := func(path, text string) {
		kit.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		kit.NoError(t, os.WriteFile(path, []byte(text), 0o600))
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
		if c := Load(env, project); !c.isNeverRemote("Read", "x") || len(c.Problems) == 0 {
			t.Errorf("%s: %q is not known, and something can be allowed", broken, c.NeverRemote)
		}
	}
}

// A project's webhook leads to Google or to a host that the person named, not to a server
// of the project's choice.
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
		if own := LoadPersonal(p.getenv); own.WebhookURL == test.webhook {
			t.Errorf("%s counts where the person alone decides", test.webhook)
		}
	}
}

// A trusted project's settings can set variables: who approves is first of all what the
// person's file says.
func TestConfig_ApproversOfThePersonsFileFirst(t *testing.T) {
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
		if c := LoadPersonal(p.getenv); !slices.Equal(c.Approvers, test.want) {
			t.Errorf("%s: %q", name, c.Approvers)
		}
	}
}
