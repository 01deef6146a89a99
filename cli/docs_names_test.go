package cli

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// stringLiterals are all texts in the program and on the embedded space's page, a line
// each.
func stringLiterals(t *testing.T) string {
	t.Helper()
	var collected strings.Builder
	var text func(e ast.Expr) string
	text = func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			return unquoted(e)
		case *ast.BinaryExpr:
			return text(e.X) + text(e.Y)
		}
		return ""
	}
	for _, path := range sourceFiles(t) {
		ast.Inspect(parseFile(t, path), func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok {
				if s := text(e); s != "" {
					collected.WriteString(s + "\n")
				}
			}
			return true
		})
	}
	return collected.String()
}

// unquoted is a string in the code, and "" for anything else.
func unquoted(e ast.Expr) string {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return ""
	}
	text, _ := strconv.Unquote(literal.Value)
	return text
}

// foreignTexts are what Google and Claude Code say, as troubleshooting.md quotes them.
var foreignTexts = []string{
	"invalid_grant", "invalid_rapt", "invalid_client", "deleted_client", "admin_policy_enforced",
	"org_internal", "SCOPE",
	"redirect_uri_mismatch", "access_denied", "API key not valid", "called without a valid token",
	"unregistered callers",
	"has not been used in project", "Chat app not found", "could not find default credentials",
	"certificate signed by unknown authority", "Proxy Authentication Required",
}

// TestDocsNames_QuotedTextsExist looks for the texts that the pages quote: headers of
// messages anywhere, and all that troubleshooting.md says that a person sees. Where the
// program fills something in, the page has "…".
func TestDocsNames_QuotedTextsExist(t *testing.T) {
	all := docPages(t)
	known, checked := stringLiterals(t), 0
	header := regexp.MustCompile(`^(\[[A-Z][A-Za-z ]+\])(.*)$`)
	has := func(p docPage, quoted string) {
		checked++
		var parts []string
		if m := header.FindStringSubmatch(quoted); m != nil {
			parts, quoted = append(parts, m[1]), m[2]
		}
		parts = append(parts, strings.Split(quoted, "…")...)
		for _, part := range parts {
			inBrackets := "\n" + strings.Trim(part, "[]") + "\n"
			part = strings.Trim(part, " .:")
			if part != "" && !strings.Contains(known, part) &&
				!strings.Contains(known, inBrackets) {
				t.Errorf("%s quotes %q, which the program does not say", p.path, part)
			}
		}
	}
	for _, p := range all {
		for _, code := range p.codeLines {
			if header.MatchString(code) {
				has(p, code)
			}
		}
		if p.path != "docs/troubleshooting.md" {
			continue
		}
		for _, row := range tableRows(p.text) {
			for _, quoted := range codeSpans(row[0]) {
				isCommand := len(commandsIn(quoted)) > 0 || strings.HasPrefix(quoted, "-")
				if !isCommand && !header.MatchString(quoted) &&
					!slices.Contains(foreignTexts, quoted) {
					has(p, quoted)
				}
			}
		}
		for _, m := range regexp.MustCompile(`(?m)^    (?:fail|warn)  (\S+) +(.*) → (.*)$`).FindAllStringSubmatch(p.text, -1) {
			has(p, m[1])
			has(p, m[3])
		}
	}
	wantFound(t, checked, 40, "quoted texts")
}

// foreignVariables are variables that only other programs read, and what a script reads
// on its standard output.
var foreignVariables = []string{
	"HTTPS_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "CLAUDE_CODE_SAFE_MODE",
	"OPENCLAW_SHELL", "CGO_ENABLED", "GCHAT_RESPONSE", "GCHAT_TIMEOUT",
}

// TestDocsNames_ListedNamesExist holds what the pages list to what there is: presets,
// types of messages, exit codes as the help of a command on the page says them, and
// variables.
func TestDocsNames_ListedNamesExist(t *testing.T) {
	var presets, types []string
	for _, row := range tableRows(section(t, "docs/install.md", "What does `install` write?")) {
		if name := codeSpans(row[0])[0]; !strings.HasPrefix(name, "-") {
			presets = append(presets, name)
		}
	}
	if !slices.Equal(presets, settings.PresetNames()) {
		t.Errorf("install.md has the presets %q", presets)
	}
	for _, row := range tableRows(section(t, "docs/sending.md", "How do I send a message?")) {
		types = append(types, codeSpans(row[0])...)
	}
	for _, typ := range state.ReportTypes {
		if !slices.Contains(types, string(typ)) {
			t.Errorf("sending.md does not have the type %s", typ)
		}
	}
	kit.Equalf(t, len(types), len(state.ReportTypes), "sending.md has the types %q", types)

	for heading, member := range map[string]string{
		"Which mode do I want?":                        "ask_mode",
		"What happens if nobody replies in deny mode?": "timeout_policy",
	} {
		var values []string
		for _, row := range tableRows(section(t, "docs/advanced.md", heading)) {
			values = append(values, codeSpans(row[0])[0])
			if c := loadConfigText(t, fmt.Sprintf(`{%q: %q}`, member, values[len(values)-1])); len(c.Problems) > 0 {
				t.Errorf("advanced.md: %v", c.Problems)
			}
		}
		problem := fmt.Sprint(loadConfigText(t, fmt.Sprintf(`{%q: "nonsense"}`, member)).Problems)
		for _, value := range regexp.MustCompile(`takes (.*?)\]`).FindAllString(problem, -1) {
			for _, word := range regexp.MustCompile(`[a-z-]{3,}`).FindAllString(strings.TrimPrefix(value, "takes"), -1) {
				if !slices.Contains(values, word) {
					t.Errorf("advanced.md does not have the %s %s", member, word)
				}
			}
		}
	}

	variables := map[string]bool{}
	for _, s := range config.AllSettings() {
		variables[s.Variable] = true
	}
	for _, name := range append(systemVariables, foreignVariables...) {
		variables[name] = true
	}
	app := Program{}.buildApp()
	checked := 0
	for _, p := range docPages(t) {
		for _, name := range regexp.MustCompile(`\b[A-Z]{2,}(?:_[A-Z]+)+\b`).FindAllString(strings.Join(p.codeLines, "\n"), -1) {
			if checked++; !variables[name] && p.path != "docs/architecture.md" {
				t.Errorf("%s names %s, which nothing reads", p.path, name)
			}
		}
		shown := slices.Collect(maps.Values(commandsNamed(app, p.text)))
		for _, after := range strings.Split(p.text, "Exit codes: ")[1:] {
			checked++
			after, _, _ = strings.Cut(strings.Join(strings.Fields(after), " ")+" ", ". ")
			codes := exitCodes(after)
			if !slices.ContainsFunc(shown, func(c *cli.Command) bool {
				_, help, ok := strings.Cut(c.Description, "Exit codes: ")
				return ok && slices.Equal(exitCodes(help), codes)
			}) {
				t.Errorf("%s: no command on it has these exit codes: %s", p.path, after)
			}
		}
	}
	for _, p := range docPages(t) {
		for _, code := range p.codeLines {
			for _, name := range regexp.MustCompile(`(?:[a-z0-9_-]+/)*[a-z0-9_-]+\.(?:go|sh|svg)\b`).FindAllString(code, -1) {
				link := commandAliases[strings.TrimSuffix(name, ".sh")] != ""
				if checked++; !link && !isInTree(name) {
					t.Errorf("%s names the file %s, which is not there", p.path, name)
				}
			}
		}
	}
	wantFound(t, checked, 60, "names")
}

// isInTree says whether a file is there: at its path, or, where only its name is given,
// in some folder.
func isInTree(name string) bool {
	for _, folder := range []string{"", "*/", "*/*/"} {
		if found, _ := filepath.Glob(folder + name); len(found) > 0 {
			return true
		}
	}
	return false
}

// exitCodes are the numbers in a list of exit codes: "0 done, 1 no such session".
func exitCodes(list string) []string { return regexp.MustCompile(`\b\d\b`).FindAllString(list, -1) }

// systemVariables are the variables that are read and that configure other programs.
var systemVariables = []string{
	"HOME", "PATH", "TMUX", "TMUX_PANE", "TMUX_TMPDIR", "DISPLAY", "WAYLAND_DISPLAY",
	"SSH_CONNECTION", "SSH_TTY", "SUDO_USER", "WSL_DISTRO_NAME",
	"CLAUDE_CODE_MANAGED_SETTINGS_PATH",     // Claude Code's own, which the doctor reads
	"CLOUDSDK_CONFIG", "ANTHROPIC_BASE_URL", // Google's and Anthropic's own
	"XDG_RUNTIME_DIR", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SESSION_ATTENDED",
	"CLAUDE_CODE_ENTRYPOINT", "CLAUDE_PID", "USER", "LOGNAME", "TERM", "NO_COLOR",
}

// TestDocsNames_AllVariablesAreListed looks for the variables that any part of the
// program reads: what can be set is in the list, and what is in the list is read.
func TestDocsNames_AllVariablesAreListed(t *testing.T) {
	listed, named, read := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, s := range config.AllSettings() {
		listed[s.Variable] = true
	}
	for _, name := range systemVariables {
		listed[name] = true
	}
	for _, path := range sourceFiles(t) {
		ast.Inspect(parseFile(t, path), func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				named[unquoted(n)] = true
			case *ast.CallExpr:
				function := ""
				switch f := n.Fun.(type) {
				case *ast.Ident:
					function = f.Name
				case *ast.SelectorExpr:
					function = f.Sel.Name
				}
				if len(n.Args) == 1 && strings.HasSuffix(strings.ToLower(function), "env") {
					read[unquoted(n.Args[0])] = path
				}
			}
			return true
		})
	}
	delete(read, "") // a name that is not in the code
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

// TestDocsNames_FunctionsAreThere looks for the functions that the architecture page names
// with the file or package in which they are.
func TestDocsNames_FunctionsAreThere(t *testing.T) {
	page := kit.ReadFile(t, "../docs/architecture.md")
	named := regexp.MustCompile("((?:`[\\w.]+`,? (?:and )?)+)in\\s+`([\\w/]+(?:\\.go)?)`").
		FindAllStringSubmatch(string(page), -1)
	kit.Must(t, len(named) > 30, "%d functions are named: not read as they are written", len(named))
	for _, match := range named {
		files := []string{filepath.Join("..", match[2])}
		if !strings.HasSuffix(match[2], ".go") {
			files, _ = filepath.Glob(filepath.Join("..", match[2], "*.go"))
		}
		source := ""
		for _, file := range files {
			source += string(kit.ReadFile(t, file))
		}
		for _, name := range regexp.MustCompile(`[\w.]+`).FindAllString(match[1], -1) {
			name = name[strings.LastIndex(name, ".")+1:]
			isThere := name == "and" ||
				regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|var |const |\t)`+name+`\b`).MatchString(source)
			kit.True(t, isThere, "%s is not in %s", name, match[2])
		}
	}
}
