package cli

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// TestVersion compares the places that name the version: the program, the changelog's
// newest release and the plugins.
func TestVersion(t *testing.T) {
	changeToRoot(t)
	if !strings.HasPrefix(version(), releaseVersion) {
		t.Errorf("the program says %s", version())
	}
	changelog, err := os.ReadFile("CHANGELOG.md")
	kit.NoError(t, err)
	headings := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(changelog), -1)
	if len(headings) < 2 || headings[0][1] != "Unreleased" || headings[1][1] != releaseVersion {
		t.Errorf("the changelog has the headings %q", headings)
	}
	plugins, err := filepath.Glob("plugins/*/.claude-plugin/plugin.json")
	if err != nil || len(plugins) == 0 {
		t.Fatal("no plugins", err)
	}
	for _, path := range plugins {
		b, err := os.ReadFile(path)
		kit.NoError(t, err)
		var plugin struct{ Version string }
		if err := json.Unmarshal(b, &plugin); err != nil || plugin.Version != releaseVersion {
			t.Errorf("%s has version %q (%v)", path, plugin.Version, err)
		}
	}
}

// docPage is a Markdown file that people read.
type docPage struct {
	path       string
	text       string
	codeLines  []string // lines of code: of blocks, and the spans in the text
	jsonBlocks []string // whole blocks that say that they are JSON, and spans that look like it
	prose      string   // without code
}

var codeSpan = regexp.MustCompile("`([^`\n]+(?:\n[^`\n]+)?)`")

// docPages are the README, the pages beside it and everything in docs.
func docPages(t *testing.T) (pages []docPage) {
	t.Helper()
	if _, err := os.Stat("docs"); err != nil {
		changeToRoot(t)
	}
	paths, err := filepath.Glob("docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatal("no pages in docs", err)
	}
	for _, path := range append(paths, "README.md", "CONTRIBUTING.md", "SECURITY.md") {
		b, err := os.ReadFile(path)
		kit.NoError(t, err)
		p := docPage{path: path, text: string(b)}
		var prose, block []string
		fence, blank := "", true
		for line := range strings.Lines(p.text) {
			line = strings.TrimRight(line, "\n")
			switch {
			case strings.HasPrefix(strings.TrimSpace(line), "```"):
				if fence == "" {
					fence, block = strings.TrimSpace(line), nil
					continue
				}
				if fence == "```json" {
					p.jsonBlocks = append(p.jsonBlocks, strings.Join(block, "\n"))
				} else {
					p.codeLines = append(p.codeLines, block...)
				}
				fence, blank = "", true
				continue
			case fence != "":
				block = append(block, line)
			case strings.HasPrefix(line, "    ") && blank:
				p.codeLines = append(p.codeLines, line)
			default:
				prose = append(prose, line)
				blank = line == ""
			}
		}
		kit.Equalf(t, fence, "", "%s: a block has no end", path)
		p.prose = strings.Join(prose, "\n")
		for _, m := range codeSpan.FindAllStringSubmatch(p.prose, -1) {
			s := strings.Join(strings.Fields(m[1]), " ")
			if strings.HasPrefix(s, `{"`) || strings.HasPrefix(s, `"`) && strings.Contains(s, `":`) {
				p.jsonBlocks = append(p.jsonBlocks, s)
			} else {
				p.codeLines = append(p.codeLines, s)
			}
		}
		p.prose = codeSpan.ReplaceAllString(p.prose, "")
		pages = append(pages, p)
	}
	return pages
}

// programCommands are the names that a command of ours can begin with, and what they are
// as a command of gchat-hooks.
func programCommands() map[string][]string {
	commands := map[string][]string{"gchat-hooks": nil}
	for name, command := range commandAliases {
		commands[name] = []string{command}
	}
	return commands
}

// commandsIn are the commands of ours in a line of a shell, as words; what is quoted is
// one word, and none that is checked.
func commandsIn(line string) (found [][]string) {
	line, _, _ = strings.Cut(line, " # ")
	line = regexp.MustCompile(`"[^"]*"|'[^']*'`).ReplaceAllString(line, "QUOTED")
	for _, part := range regexp.MustCompile(`&&|\|\||[|;()]`).Split(line, -1) {
		words := strings.Fields(part)
		for len(words) > 0 && (strings.Contains(words[0], "=") && !strings.HasPrefix(words[0], "-") || words[0] == "$") {
			words = words[1:]
		}
		if len(words) > 2 && words[0] == "go" && words[1] == "run" && words[2] == "." {
			words = append([]string{"gchat-hooks"}, words[3:]...)
		}
		if len(words) == 0 {
			continue
		}
		if prefix, ok := programCommands()[strings.TrimSuffix(filepath.Base(words[0]), ".sh")]; ok {
			found = append(found, append(slices.Clone(prefix), words[1:]...))
		}
	}
	return found
}

// TestDocsCommands asks of every command line in the pages whether the program has the
// command, the hook and the flags.
func TestDocsCommands(t *testing.T) {
	app := Program{}.buildApp()
	checked := 0
	for _, p := range docPages(t) {
		for _, line := range p.codeLines {
			if _, after, ok := strings.Cut(line, "./install.sh"); ok {
				for _, flag := range regexp.MustCompile(`--\S+`).FindAllString(after, -1) {
					if !isInstallerFlag(flag) {
						t.Errorf("%s: %q: install.sh has no flag %s", p.path, line, flag)
					}
				}
			}
			for _, words := range commandsIn(line) {
				checked++
				if problem := unknownPart(app, words); problem != "" {
					t.Errorf("%s: %q: %s", p.path, strings.TrimSpace(line), problem)
				}
			}
			flag, _, _ := strings.Cut(line, " ")
			isKnown := anyHasFlag(app, flag) || slices.Contains(foreignFlags, flag) || isInstallerFlag(flag)
			if strings.HasPrefix(flag, "--") && !isKnown {
				t.Errorf("%s: no command has the flag %s", p.path, flag)
			}
		}
	}
	if checked < 60 {
		t.Errorf("only %d commands were found in the pages", checked)
	}
}

// isInstallerFlag says whether install.sh takes a flag.
func isInstallerFlag(flag string) bool {
	b, _ := os.ReadFile("install.sh")
	return strings.Contains(string(b), " "+flag+") ")
}

// foreignFlags are flags of other programs that the pages name.
var foreignFlags = []string{"--bare", "--bg", "--message-file"}

// unknownPart says what of a command line the program does not have.
func unknownPart(app *cli.App, words []string) string {
	if len(words) == 0 {
		return ""
	}
	if words[0] == "hook" || slices.Contains(hookNames(), words[0]) {
		name := words[len(words)-1]
		if len(words) > 1 && name != "NAME" && !slices.Contains(hookNames(), name) {
			return "there is no hook " + name
		}
		return ""
	}
	words = normalizeArgs(append([]string{"gchat-hooks"}, words...))[1:]
	if words[0] == "help" || words[0] == "--version" {
		return ""
	}
	c := app.Command(words[0])
	if c == nil {
		return "there is no command " + words[0]
	}
	words = words[1:]
	if len(c.Subcommands) > 0 && len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		name := c.Name
		if c = c.Command(words[0]); c == nil {
			return name + " has no command " + words[0]
		}
		words = words[1:]
	}
	for _, w := range words {
		name, _, _ := strings.Cut(strings.Trim(w, "[],.…"), "=")
		if strings.HasPrefix(name, "--") && name != "--" && !hasFlag(c, name) {
			return c.Name + " has no flag " + name
		}
	}
	return ""
}

func hasFlag(c *cli.Command, name string) bool {
	return name == "--help" || slices.ContainsFunc(c.Flags, func(f cli.Flag) bool {
		return slices.Contains(f.Names(), strings.TrimLeft(name, "-"))
	})
}

func anyHasFlag(app *cli.App, name string) bool {
	name, _, _ = strings.Cut(name, "=")
	for _, c := range app.Commands {
		for _, c := range append([]*cli.Command{c}, c.Subcommands...) {
			if hasFlag(c, name) {
				return true
			}
		}
	}
	return false
}

// TestDocsJSON parses what the pages show as JSON. What is a configuration loads without
// a problem, and what registers hooks names ours. Registries are held to their code in
// hooks/wake.
func TestDocsJSON(t *testing.T) {
	members, events := map[string]bool{}, map[string]bool{}
	for _, s := range config.AllSettings() {
		members[s.JSONName] = true
	}
	for _, name := range settings.PresetNames() {
		hooks, err := settings.PresetHooks(name)
		kit.NoError(t, err)
		for _, h := range hooks {
			events[h.Event] = true
		}
	}
	checked := 0
	for _, p := range docPages(t) {
		for _, text := range p.jsonBlocks {
			whole := text
			if !strings.HasPrefix(strings.TrimSpace(text), "{") {
				whole = "{" + text + "}"
			}
			var object map[string]json.RawMessage
			if err := json.Unmarshal([]byte(whole), &object); err != nil {
				t.Errorf("%s: this does not parse as JSON: %v\n%s", p.path, err, text)
				continue
			}
			checked++
			kind := "a configuration"
			for name := range object {
				switch {
				case events[name]:
					kind = "hooks"
				case name == "agents" || name == "hook_settings":
					kind = "a registry"
				case name == "decision":
					kind = "an agent's reply"
				case name == "terminal_only":
					kind = "a policy"
				case name == "allowManagedHooksOnly":
					kind = "managed settings" // e2e has Claude Code take them
				}
			}
			switch kind {
			case "a configuration":
				for name := range object {
					if !members[name] {
						t.Errorf("%s: the configuration knows no %q: %s", p.path, name, text)
					}
				}
				if c := loadConfigText(t, whole); len(c.Problems) > 0 {
					t.Errorf("%s: %v: %s", p.path, c.Problems, text)
				}
			case "a policy":
				file := filepath.Join(t.TempDir(), "policy.json")
				kit.NoError(t, os.WriteFile(file, []byte(text), 0o600))
				env := map[string]string{"HOME": t.TempDir(), "GCHAT_POLICY_FILE": file}
				if err := new(config.Config).ApplyPolicies(t.Context(), func(name string) string { return env[name] }); err != nil {
					t.Errorf("%s: %v", p.path, err)
				}
			case "hooks":
				named := regexp.MustCompile(`hook (g?[a-z-]+)"`).FindAllStringSubmatch(text, -1)
				if len(named) == 0 {
					t.Errorf("%s: no hook of ours in\n%s", p.path, text)
				}
				for _, m := range named {
					if !slices.Contains(hookNames(), m[1]) {
						t.Errorf("%s: there is no hook %s", p.path, m[1])
					}
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d pieces of JSON were found in the pages", checked)
	}
}

// loadConfigText is the configuration of a person whose file holds that.
func loadConfigText(t *testing.T, text string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	kit.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return config.Load(func(name string) string {
		return map[string]string{"GCHAT_CONFIG": file, "HOME": filepath.Dir(file)}[name]
	}, filepath.Dir(file))
}

// TestDocsLinks follows the links between the pages: to files, pictures and headings that
// are there.
func TestDocsLinks(t *testing.T) {
	anchors := map[string][]string{}
	for _, p := range docPages(t) {
		for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(p.text, -1) {
			anchors[p.path] = append(anchors[p.path], anchorOf(m[1]))
		}
	}
	checked, read := 0, map[string]bool{"README.md": true}
	for _, p := range docPages(t) {
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"`).FindAllStringSubmatch(p.prose, -1) {
			to := m[1] + m[2]
			if strings.HasPrefix(to, "https://") {
				continue
			}
			checked++
			if p.path == "README.md" {
				read[strings.Split(to, "#")[0]] = true
			}
			file, anchor, _ := strings.Cut(to, "#")
			target := p.path
			if file != "" {
				target = filepath.Join(filepath.Dir(p.path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s leads nowhere", p.path, to)
			} else if anchor != "" && !slices.Contains(anchors[target], anchor) {
				t.Errorf("%s: %s: %s has no such heading (it has %q)", p.path, to, target, anchors[target])
			}
		}
	}
	for path := range anchors {
		if !read[path] {
			t.Errorf("the README does not lead to %s", path)
		}
	}
	if checked < 20 {
		t.Errorf("only %d links were found in the pages", checked)
	}
}

// anchorOf is what a heading is called in a link, as GitHub makes it.
func anchorOf(heading string) string {
	heading = strings.ToLower(strings.ReplaceAll(heading, "`", ""))
	heading = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(heading, "")
	return strings.ReplaceAll(strings.TrimSpace(heading), " ", "-")
}

// TestREADME holds the README to the versions and the commands that a new reader tries.
func TestREADME(t *testing.T) {
	for _, p := range docPages(t) {
		if p.path != "README.md" {
			continue
		}
		module, err := os.ReadFile("go.mod")
		kit.NoError(t, err)
		version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
		needs := []string{"Go " + string(version[1]) + ",", "Claude Code " + settings.MinVersion.String() + " or newer"}
		for _, need := range needs {
			kit.Containsf(t, p.text, need, "the README")
		}
		for _, command := range []string{"    go run . demo ", "    go test ./... ", "    ./install.sh "} {
			if !strings.Contains(p.text, "\n"+command) {
				t.Errorf("the README does not show %q", command)
			}
		}
	}
	picture, err := os.ReadFile("docs/answer.svg")
	kit.NoError(t, err)
	if len(picture) > 150_000 || regexp.MustCompile(`/(tmp|home|root|Users)/`).Match(picture) {
		t.Errorf("the picture has %d bytes, or a path of the machine that recorded it", len(picture))
	}
}

// tableRows are the cells of the tables' rows in a text, without their headings and
// rules.
func tableRows(text string) (rows [][]string) {
	heading := true
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			heading = true
		case strings.HasPrefix(line, "|---"):
			heading = false
		case !heading:
			row := strings.Split(strings.Trim(line, "|"), " | ")
			for i := range row {
				row[i] = strings.Trim(strings.TrimSpace(row[i]), "|")
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// codeSpans are the spans of code in a text.
func codeSpans(text string) (all []string) {
	for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// section is what a page says below a heading.
func section(t *testing.T, path, heading string) string {
	t.Helper()
	for _, p := range docPages(t) {
		if p.path != path {
			continue
		}
		if _, after, ok := strings.Cut(p.text, "\n## "+heading+"\n"); ok {
			text, _, _ := strings.Cut(after, "\n## ")
			return text
		}
	}
	t.Fatalf("%s has no heading %q", path, heading)
	return ""
}

// TestDocsReplies types what the README's table says that people can type.
func TestDocsReplies(t *testing.T) {
	prompt := func(multi bool, labels ...string) state.SubQuestion {
		p := state.SubQuestion{Question: strings.Join(labels, "?"), MultiSelect: multi, OptionCount: len(labels)}
		for _, l := range labels {
			p.Options = append(p.Options, state.Option{Label: l})
		}
		return p
	}
	deploy := prompt(false, "Blue-green deployment", "Rolling deployment", "Canary")
	features := prompt(true, "Auth", "Billing", "Search")
	one, many, both := []state.SubQuestion{deploy}, []state.SubQuestion{features}, []state.SubQuestion{deploy, features}
	rolling, two := state.Answer{Labels: []string{"Rolling deployment"}}, state.Answer{Labels: []string{"Auth", "Search"}}
	remarked := state.Answer{Labels: rolling.Labels, Notes: "but keep the footer"}
	rows := []struct {
		prompts []state.SubQuestion
		// the row's spans of code; more than one is a reply each, or a line each where
		// there are two questions
		replies []string
		want    map[int]state.Answer
		none    int    // a number without an option
		how     string // what it says in place of an answer
	}{
		{one, []string{"2", "roll", "Rolling deployment"}, map[int]state.Answer{0: rolling}, 0, ""},
		{many, []string{"1,3", "auth, search"}, map[int]state.Answer{0: two}, 0, ""},
		{one, []string{"2 - but keep the footer"}, map[int]state.Answer{0: remarked}, 0, ""},
		{both, []string{"Q1: 2; Q2: text"}, map[int]state.Answer{0: rolling, 1: {Text: "text"}}, 0, ""},
		{both, []string{"2; 1,3"}, map[int]state.Answer{0: rolling, 1: two}, 0, ""},
		{one, []string{"other: 2"}, map[int]state.Answer{0: {Text: "2"}}, 0, ""},
		{one, []string{"9"}, map[int]state.Answer{0: {Text: "9"}}, 9, ""},
		{one, []string{"chat", "chat: what is a canary?"}, nil, 0, state.DeclinedChat},
		{one, []string{"skip", "cancel"}, nil, 0, state.DeclinedSkip},
		{one, []string{"?", "help"}, nil, 0, wording.AskedForHelp},
		{one, nil, nil, 0, ""}, // anything else
	}
	table := tableRows(section(t, "README.md", "What you can reply"))
	if len(table) != len(rows) {
		t.Fatalf("the table has %d rows, the test %d", len(table), len(rows))
	}
	for i, row := range rows {
		typed := codeSpans(table[i][0])
		if len(row.replies) == 1 {
			typed = []string{strings.Join(typed, "\n")}
		}
		if !slices.Equal(typed, row.replies) && len(typed)+len(row.replies) > 1 {
			t.Errorf("row %d has %q, the test %q", i+1, typed, row.replies)
		}
		for _, reply := range row.replies {
			how, _ := wording.ReadDecline(reply, &state.Question{SubQuestions: row.prompts})
			if how != row.how {
				t.Errorf("%q is %q; the README says %q", reply, how, row.how)
			}
			if how != "" {
				continue
			}
			answers, none := wording.ParseReply(reply, row.prompts, nil)
			if fmt.Sprint(answers) != fmt.Sprint(row.want) || (none != nil) != (row.none > 0) {
				t.Errorf("%q: %+v, %+v; the README says %+v", reply, answers, none, row.want)
			}
		}
	}
}

// stringLiterals are all texts in the program and on the embedded space's page, a line
// each.
func stringLiterals(t *testing.T) string {
	t.Helper()
	var collected strings.Builder
	var text func(e ast.Expr) string
	text = func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			s, _ := strconv.Unquote(e.Value)
			return s
		case *ast.BinaryExpr:
			return text(e.X) + text(e.Y)
		}
		return ""
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "e2e"):
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok {
				if s := text(e); s != "" {
					collected.WriteString(s + "\n")
				}
			}
			return true
		})
		return nil
	})
	kit.NoError(t, err)
	return collected.String()
}

// foreignTexts are what Google and Claude Code say, as troubleshooting.md quotes them.
var foreignTexts = []string{
	"invalid_grant", "invalid_rapt", "invalid_client", "deleted_client", "admin_policy_enforced", "org_internal", "SCOPE",
	"redirect_uri_mismatch", "access_denied", "API key not valid", "called without a valid token", "unregistered callers",
	"has not been used in project", "Chat app not found", "could not find default credentials",
	"certificate signed by unknown authority", "Proxy Authentication Required",
}

// TestDocsTexts looks for the texts that the pages quote: headers of messages anywhere,
// and all that troubleshooting.md says that a person sees. Where the program fills
// something in, the page has "…".
func TestDocsTexts(t *testing.T) {
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
			if part != "" && !strings.Contains(known, part) && !strings.Contains(known, inBrackets) {
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
				if !isCommand && !header.MatchString(quoted) && !slices.Contains(foreignTexts, quoted) {
					has(p, quoted)
				}
			}
		}
		for _, m := range regexp.MustCompile(`(?m)^    (?:fail|warn)  (\S+) +(.*) → (.*)$`).FindAllStringSubmatch(p.text, -1) {
			has(p, m[1])
			has(p, m[3])
		}
	}
	if checked < 40 {
		t.Errorf("only %d quoted texts were found in the pages", checked)
	}
}

// foreignVariables are variables that only other programs read, and what a script reads
// on its standard output.
var foreignVariables = []string{
	"HTTPS_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "CLAUDE_CODE_SAFE_MODE", "OPENCLAW_SHELL", "CGO_ENABLED", "GCHAT_RESPONSE", "GCHAT_TIMEOUT",
}

// TestDocsNames holds what the pages list to what there is: presets, types of messages,
// exit codes as the help of a command on the page says them, and variables.
func TestDocsNames(t *testing.T) {
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
		"Which mode do I want?": "ask_mode", "What happens if nobody replies in deny mode?": "timeout_policy",
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
	if checked < 60 {
		t.Errorf("only %d names were found in the pages", checked)
	}
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

// commandsNamed are the commands that a text shows, by name.
func commandsNamed(app *cli.App, text string) map[string]*cli.Command {
	found := map[string]*cli.Command{}
	for line := range strings.Lines(text) {
		for _, code := range append(codeSpans(line), line) {
			for _, words := range commandsIn(code) {
				if len(words) == 0 {
					continue
				}
				if c := app.Command(words[0]); c != nil {
					found[c.Name] = c
					for _, sub := range c.Subcommands {
						found[sub.Name] = sub
					}
				}
			}
		}
	}
	return found
}
