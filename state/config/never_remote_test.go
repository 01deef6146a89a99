package config

import (
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
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

		// However a call or a pattern is spelled, it names the same.
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
		kit.Equalf(t, c.isNeverRemote(test.tool, test.input), test.want, "%s: %s %q", test.pattern,
			test.tool, test.input)
	}
}

// A long word of foreign characters is compared quickly. Writing it as Punycode would
// take the square of its length.
func TestNeverRemote_LongWord(t *testing.T) {
	var word strings.Builder
	for i := range 200_000 {
		word.WriteRune(rune(0x4e00 + i%20_000))
	}
	c := &Config{NeverRemote: []string{"Bash(git push*)"}}
	kit.True(t, !c.isNeverRemote("Bash", "echo "+word.String()) &&
		c.isNeverRemote("Bash", word.String()+" git push"),
		"a long word alters what is named")
}
