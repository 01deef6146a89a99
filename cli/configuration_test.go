package cli

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gchat-hooks/state"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew from the tables in state and hooks/wake; then read what git shows")

const configurationPage = "../docs/configuration.md"

// TestConfigurationPage holds docs/configuration.md to the tables that the code reads the configuration by.
func TestConfigurationPage(t *testing.T) {
	want := configurationMarkdown()
	if *update {
		if err := os.WriteFile(configurationPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(configurationPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the table in state/config_reference.go says: go test -run TestConfigurationPage ./cli -update", configurationPage)
	}
}

// configurationMarkdown is the page.
func configurationMarkdown() string {
	var b strings.Builder
	b.WriteString(`# Configuration

This page is written from the table that the program reads its configuration by (` + "`go test -run TestConfigurationPage ./cli -update`" + `).

A value is looked for in these places, and the first that has one counts:

1. a flag of the command, where it has one,
2. the environment,
3. ` + "`.claude/gchat-hooks.json`" + ` in the project,
4. ` + "`~/.config/gchat-hooks/config.json`" + `, or the file that ` + "`$GCHAT_CONFIG`" + ` names,
5. ` + "`mcpServers.google-chat-bridge.env`" + ` in the project's ` + "`.mcp.json`" + `, which takes the variables,
6. the same in ` + "`~/.mcp.json`" + `.

A project's files count where Claude Code trusts the folder, and may not set what is marked with *: see
[whom the program trusts](security.md#whom-the-program-trusts). A project's webhook is read with the project's own ` + "`credentials_file`" + `.

The files are JSON objects. Unknown members are left alone. When a file does not parse, it and what stands below it do not count: what
stands there could belong to another space. A value that means nothing is left out. ` + "`gchat-hooks status`" + ` and the log say both.
Where a cell is empty, there is no such variable, no such member, or no default.
`)
	group := ""
	for _, s := range state.Settings() {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n## %s\n\n", group)
			if s.Member != "" {
				b.WriteString("| in a file | variable | default | meaning |\n|---|---|---|---|\n")
			} else {
				b.WriteString("| variable | default | meaning |\n|---|---|---|\n")
			}
		}
		byDefault := s.Default
		if byDefault != "" && !s.Object {
			byDefault = code(byDefault)
		}
		if s.Member != "" {
			member := code(s.Member)
			if s.Personal {
				member += " *"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", member, code(s.Variable), byDefault, s.Meaning)
		} else {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", code(s.Variable), byDefault, s.Meaning)
		}
	}
	b.WriteString("\n## A file with everything in it\n\nNobody needs all of it; each line is an example.\n\n```json\n{\n")
	var lines []string
	for _, s := range state.Settings() {
		if s.Member != "" && !strings.ContainsAny(s.Member, ".[") {
			lines = append(lines, fmt.Sprintf("  %q: %s", s.Member, s.Example))
		}
	}
	b.WriteString(strings.Join(lines, ",\n") + "\n}\n```\n")
	return b.String()
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

// bySystem are the variables that are read and that nobody sets to configure us.
var bySystem = []string{
	"HOME", "PATH", "TMUX", "TMUX_PANE", "TMUX_TMPDIR", "DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "SSH_TTY", "SUDO_USER", "WSL_DISTRO_NAME",
	"CLAUDE_CODE_MANAGED_SETTINGS_PATH",     // Claude Code's own, which the doctor reads
	"CLOUDSDK_CONFIG", "ANTHROPIC_BASE_URL", // Google's and Anthropic's own
	"XDG_RUNTIME_DIR", "CLAUDE_CODE_SESSION_ID", "CLAUDE_PID", "USER", "LOGNAME", "TERM", "NO_COLOR",
}

// TestVariablesAreDocumented looks for the variables that any part of the program reads: what can be set is in the table,
// and what is in the table is read.
func TestVariablesAreDocumented(t *testing.T) {
	inTable, named, read := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, s := range state.Settings() {
		inTable[s.Variable] = true
	}
	for _, name := range bySystem {
		inTable[name] = true
	}
	atTop(t)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "e2e" || strings.HasPrefix(d.Name(), ".") && path != ".") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "config_reference.go" {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
					named[text] = true
				}
			case *ast.CallExpr:
				name, function := "", ""
				if len(n.Args) == 1 {
					if lit, ok := n.Args[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
						name, _ = strconv.Unquote(lit.Value)
					}
				}
				switch f := n.Fun.(type) {
				case *ast.Ident:
					function = f.Name
				case *ast.SelectorExpr:
					function = f.Sel.Name
				}
				if name != "" && strings.HasSuffix(strings.ToLower(function), "env") {
					read[name] = path
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(read) < 20 {
		t.Fatalf("only %d variables were found: %v", len(read), read)
	}
	for name, path := range read {
		if !inTable[name] {
			t.Errorf("%s reads $%s, which state/config_reference.go does not have", path, name)
		}
	}
	for _, s := range state.Settings() {
		if s.Variable != "" && s.Member == "" && !named[s.Variable] {
			t.Errorf("no part of the program names %s", s.Variable)
		}
	}
}
