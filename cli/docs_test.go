package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"gchat-hooks/hooks/settings"
	"gchat-hooks/state/config"
)

// page is a Markdown file that people read.
type page struct {
	path  string
	text  string
	code  []string // lines of code: of blocks, and the spans in the text
	json  []string // whole blocks that say that they are JSON, and spans that look like it
	prose string   // without code
}

var codeSpan = regexp.MustCompile("`([^`\n]+(?:\n[^`\n]+)?)`")

// pages are the README and everything in docs.
func pages(t *testing.T) (all []page) {
	t.Helper()
	if _, err := os.Stat("docs"); err != nil {
		atTop(t)
	}
	paths, err := filepath.Glob("docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatal("no pages in docs", err)
	}
	for _, path := range append(paths, "README.md") {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		p := page{path: path, text: string(b)}
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
					p.json = append(p.json, strings.Join(block, "\n"))
				} else {
					p.code = append(p.code, block...)
				}
				fence, blank = "", true
				continue
			case fence != "":
				block = append(block, line)
			case strings.HasPrefix(line, "    ") && blank:
				p.code = append(p.code, line)
			default:
				prose = append(prose, line)
				blank = line == ""
			}
		}
		if fence != "" {
			t.Errorf("%s: a block has no end", path)
		}
		p.prose = strings.Join(prose, "\n")
		for _, m := range codeSpan.FindAllStringSubmatch(p.prose, -1) {
			s := strings.Join(strings.Fields(m[1]), " ")
			if strings.HasPrefix(s, `{"`) || strings.HasPrefix(s, `"`) && strings.Contains(s, `":`) {
				p.json = append(p.json, s)
			} else {
				p.code = append(p.code, s)
			}
		}
		p.prose = codeSpan.ReplaceAllString(p.prose, "")
		all = append(all, p)
	}
	return all
}

// programs are the names that a command of ours can begin with, and what they are as a command of gchat-hooks.
func programs() map[string][]string {
	names := map[string][]string{"gchat-hooks": nil}
	for name, command := range calledAs {
		names[name] = []string{command}
	}
	return names
}

// commandsIn are the commands of ours in a line of a shell, as words; what is quoted is one word, and none that is checked.
func commandsIn(line string) (found [][]string) {
	line, _, _ = strings.Cut(line, " # ")
	line = regexp.MustCompile(`"[^"]*"|'[^']*'`).ReplaceAllString(line, "QUOTED")
	for _, one := range regexp.MustCompile(`&&|\|\||[|;()]`).Split(line, -1) {
		words := strings.Fields(one)
		for len(words) > 0 && (strings.Contains(words[0], "=") && !strings.HasPrefix(words[0], "-") || words[0] == "$") {
			words = words[1:]
		}
		if len(words) > 2 && words[0] == "go" && words[1] == "run" && words[2] == "." {
			words = append([]string{"gchat-hooks"}, words[3:]...)
		}
		if len(words) == 0 {
			continue
		}
		if before, ok := programs()[filepath.Base(words[0])]; ok {
			found = append(found, append(slices.Clone(before), words[1:]...))
		}
	}
	return found
}

// TestDocsCommands asks of every command line in the pages whether the program has the command, the hook and the flags.
func TestDocsCommands(t *testing.T) {
	app := Program{}.app()
	checked := 0
	for _, p := range pages(t) {
		for _, line := range p.code {
			for _, words := range commandsIn(line) {
				checked++
				if why := unknown(app, words); why != "" {
					t.Errorf("%s: %q: %s", p.path, strings.TrimSpace(line), why)
				}
			}
			if flag := strings.Fields(line); len(flag) > 0 && strings.HasPrefix(flag[0], "--") && !someFlag(app, flag[0]) && !slices.Contains(othersFlags, flag[0]) {
				t.Errorf("%s: no command has the flag %s", p.path, flag[0])
			}
		}
	}
	if checked < 60 {
		t.Errorf("only %d commands were found in the pages", checked)
	}
}

// othersFlags are flags of other programs that the pages name.
var othersFlags = []string{"--bare", "--bg", "--message-file"}

// unknown says what of a command line the program does not have.
func unknown(app *cli.App, words []string) string {
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
	if to, ok := calledAs[words[0]]; ok {
		words[0] = to
	}
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
	return name == "--help" || slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), strings.TrimLeft(name, "-")) })
}

func someFlag(app *cli.App, name string) bool {
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

// TestDocsJSON parses what the pages show as JSON. What is a configuration loads without a problem, and what
// registers hooks names ours. Registries are held to their code in hooks/wake.
func TestDocsJSON(t *testing.T) {
	members, events := map[string]bool{}, map[string]bool{}
	for _, s := range config.Settings() {
		members[s.Member] = true
	}
	for _, name := range settings.Presets() {
		hooks, err := settings.Hooks(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hooks {
			events[h.Event] = true
		}
	}
	checked := 0
	for _, p := range pages(t) {
		for _, text := range p.json {
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
				}
			}
			switch kind {
			case "a configuration":
				for name := range object {
					if !members[name] {
						t.Errorf("%s: the configuration knows no %q: %s", p.path, name, text)
					}
				}
				file := filepath.Join(t.TempDir(), "config.json")
				if err := os.WriteFile(file, []byte(whole), 0o600); err != nil {
					t.Fatal(err)
				}
				c := config.Load(func(name string) string {
					return map[string]string{"GCHAT_CONFIG": file, "HOME": filepath.Dir(file)}[name]
				}, filepath.Dir(file))
				if len(c.Problems) > 0 {
					t.Errorf("%s: %v: %s", p.path, c.Problems, text)
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

// TestDocsLinks follows the links between the pages: to files, pictures and headings that are there.
func TestDocsLinks(t *testing.T) {
	anchors := map[string][]string{}
	for _, p := range pages(t) {
		for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(p.text, -1) {
			anchors[p.path] = append(anchors[p.path], slug(m[1]))
		}
	}
	checked, read := 0, map[string]bool{"README.md": true}
	for _, p := range pages(t) {
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

// slug is what a heading is called in a link, as GitHub makes it.
func slug(heading string) string {
	heading = strings.ToLower(strings.ReplaceAll(heading, "`", ""))
	heading = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(heading, "")
	return strings.ReplaceAll(strings.TrimSpace(heading), " ", "-")
}
