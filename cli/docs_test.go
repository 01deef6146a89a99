package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

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
		p := docPage{path: path, text: kit.ReadFile(t, path)}
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
			if strings.HasPrefix(s, `{"`) ||
				strings.HasPrefix(s, `"`) && strings.Contains(s, `":`) {
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

// wantFound fails the test if it found so little in the pages that it looks in the wrong
// place.
func wantFound(t *testing.T, found, least int, what string) {
	t.Helper()
	if found < least {
		t.Errorf("only %d %s were found in the pages", found, what)
	}
}

// TestDocs_JSONIsValid parses what the pages show as JSON. What is a configuration loads
// without a problem, and what registers hooks names ours. Registries are held to their
// code in hooks/wake.
func TestDocs_JSONIsValid(t *testing.T) {
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
				err := new(config.Config).ApplyPolicies(t.Context(), getenvOf([]string{
					"HOME=" + t.TempDir(), "GCHAT_POLICY_FILE=" + file,
				}))
				kit.Equalf(t, err, nil, "%s: the policy's error", p.path)
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
	wantFound(t, checked, 10, "pieces of JSON")
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

// TestDocs_LinksLeadSomewhere follows the links between the pages: to files, pictures and
// headings that are there.
func TestDocs_LinksLeadSomewhere(t *testing.T) {
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
				t.Errorf("%s: %s: %s has no such heading (it has %q)", p.path, to, target,
					anchors[target])
			}
		}
	}
	for path := range anchors {
		if !read[path] {
			t.Errorf("the README does not lead to %s", path)
		}
	}
	wantFound(t, checked, 20, "links")
}

// anchorOf is what a heading is called in a link, as GitHub makes it.
func anchorOf(heading string) string {
	heading = strings.ToLower(strings.ReplaceAll(heading, "`", ""))
	heading = regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(heading, "")
	return strings.ReplaceAll(strings.TrimSpace(heading), " ", "-")
}

// TestDocs_READMEIsTrue holds the README to the versions and the commands that a new
// reader tries.
func TestDocs_READMEIsTrue(t *testing.T) {
	for _, p := range docPages(t) {
		if p.path != "README.md" {
			continue
		}
		version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(
			kit.ReadFile(t, "go.mod"))
		needs := []string{
			"Go " + version[1] + ",",
			"Claude Code " + settings.MinVersion.String() + " or newer",
		}
		for _, need := range needs {
			kit.Containsf(t, p.text, need, "the README")
		}
		for _, command := range []string{
			"    go run . demo ", "    go test ./... ", "    ./install.sh ",
		} {
			if !strings.Contains(p.text, "\n"+command) {
				t.Errorf("the README does not show %q", command)
			}
		}
	}
	picture := kit.ReadFile(t, "docs/answer.svg")
	hasPath := regexp.MustCompile(`/(tmp|home|root|Users)/`).MatchString(picture)
	kit.True(t, len(picture) <= 150_000 && !hasPath,
		"the picture has %d bytes, or a path of the machine that recorded it", len(picture))
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

// TestDocs_RepliesAreRead types what the README's table says that people can type.
func TestDocs_RepliesAreRead(t *testing.T) {
	prompt := func(multi bool, labels ...string) state.SubQuestion {
		p := state.SubQuestion{
			Question: strings.Join(labels, "?"), MultiSelect: multi, OptionCount: len(labels),
		}
		for _, l := range labels {
			p.Options = append(p.Options, state.Option{Label: l})
		}
		return p
	}
	deploy := prompt(false, "Blue-green deployment", "Rolling deployment", "Canary")
	features := prompt(true, "Auth", "Billing", "Search")
	one, many := []state.SubQuestion{deploy}, []state.SubQuestion{features}
	both := []state.SubQuestion{deploy, features}
	rolling := state.Answer{Labels: []string{"Rolling deployment"}}
	two := state.Answer{Labels: []string{"Auth", "Search"}}
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
		{
			both, []string{"Q1: 2; Q2: text"},
			map[int]state.Answer{0: rolling, 1: {Text: "text"}}, 0, "",
		},
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
