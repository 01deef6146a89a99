package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/state/config"
)

// systemVariables are the variables that are read and that configure other programs.
var systemVariables = []string{
	"HOME", "PATH", "TMUX", "TMUX_PANE", "TMUX_TMPDIR", "DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION", "SSH_TTY", "SUDO_USER", "WSL_DISTRO_NAME",
	"CLAUDE_CODE_MANAGED_SETTINGS_PATH",     // Claude Code's own, which the doctor reads
	"CLOUDSDK_CONFIG", "ANTHROPIC_BASE_URL", // Google's and Anthropic's own
	"XDG_RUNTIME_DIR", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SESSION_ATTENDED", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_PID", "USER", "LOGNAME", "TERM", "NO_COLOR",
}

// TestVariablesAreDocumented looks for the variables that any part of the program reads:
// what can be set is in the list, and what is in the list is read.
func TestVariablesAreDocumented(t *testing.T) {
	listed, named, read := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, s := range config.AllSettings() {
		listed[s.Variable] = true
	}
	for _, name := range systemVariables {
		listed[name] = true
	}
	changeToRoot(t)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "e2e" || strings.HasPrefix(d.Name(), ".") && path != ".") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "reference.go" {
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
	kit.NoError(t, err)
	if len(read) < 20 {
		t.Fatalf("only %d variables were found: %v", len(read), read)
	}
	for name, path := range read {
		if !listed[name] {
			t.Errorf("%s reads $%s, which state/config/setting_table.go does not have", path, name)
		}
	}
	for _, s := range config.AllSettings() {
		if s.Variable != "" && s.JSONName == "" && !named[s.Variable] {
			t.Errorf("no part of the program names %s", s.Variable)
		}
	}
}
