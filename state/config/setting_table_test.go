package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

// loadWith loads the configuration of a person with this file and these variables. It
// also returns which variables were read.
func loadWith(t *testing.T, file string, env map[string]string) (c *Config, asked map[string]bool) {
	t.Helper()
	home := t.TempDir()
	path := filepath.Join(home, "config.json")
	if file != "" {
		kit.NoError(t, os.WriteFile(path, []byte(file), 0o600))
	}
	asked = map[string]bool{}
	return Load(func(name string) string {
		asked[name] = true
		switch name {
		case "HOME":
			return "/nowhere"
		case "GCHAT_CONFIG":
			return path
		}
		return env[name]
	}, home), asked
}

// row is a setting as docs/configuration.md describes it. Its example is JSON.
type row struct {
	Setting
	byDefault, example string
}

// rows reads docs/configuration.md.
func rows(t *testing.T) (all []row) {
	t.Helper()
	folder := ".."
	if _, err := os.Stat(filepath.Join(folder, "docs")); err != nil {
		folder = filepath.Join("..", "..")
	}
	b := kit.ReadFile(t, filepath.Join(folder, "docs", "configuration.md"))
	last := strings.LastIndex(b, "```json\n") // the example of a whole file
	page, example := b[:last], b[last+len("```json\n"):]
	example, _, _ = strings.Cut(example, "```")
	var examples map[string]json.RawMessage
	err := json.Unmarshal([]byte(example), &examples)
	kit.Must(t, err == nil, "the example of a whole file: %v", err)
	for line := range strings.Lines(page) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.Contains(cells[1]+cells[2], "`") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) == 5 { // in the environment only
			all = append(all, row{Setting: Setting{Variable: strings.Trim(cells[1], "`")}})
			continue
		}
		member, personal := strings.CutSuffix(cells[1], " *")
		r := row{Setting: Setting{JSONName: strings.Trim(member, "`"),
			Variable: strings.Trim(cells[2], "`"), IsPersonal: personal}}
		if strings.Count(cells[3], "`") == 2 && strings.HasSuffix(cells[3], "`") &&
			strings.HasPrefix(cells[3], "`") {
			r.byDefault = strings.Trim(cells[3], "`")
		}
		r.example = string(examples[r.JSONName])
		all = append(all, r)
	}
	return all
}

// inEnv returns an example as it is written in a variable.
func inEnv(t *testing.T, r row) string {
	t.Helper()
	var v any
	err := json.Unmarshal([]byte(r.example), &v)
	kit.Must(t, err == nil, "%s: example %s: %v", r.JSONName, r.example, err)
	switch v := v.(type) {
	case []any:
		return strings.Trim(fmt.Sprint(v), "[]")
	case map[string]any:
		return "advice" // the only object that a variable stands for
	}
	return fmt.Sprint(v)
}

// Each setting's example on the page must change the configuration, in a file and in the
// environment. The default on the page must change nothing.
func TestSettingTable_EachCounts(t *testing.T) {
	none, _ := loadWith(t, "", nil)
	for _, r := range rows(t) {
		if r.JSONName == "" {
			continue
		}
		with := map[string]func() *Config{"in a file": func() *Config {
			c, _ := loadWith(t, fmt.Sprintf(`{%q: %s}`, r.JSONName, r.example), nil)
			return c
		}}
		if r.Variable != "" {
			with["as "+r.Variable] = func() *Config {
				c, _ := loadWith(t, "", map[string]string{r.Variable: inEnv(t, r)})
				c.isModeInEnv = false
				return c
			}
		}
		for how, load := range with {
			c := load()
			kit.True(t, len(c.Problems) == 0, "%s %s: %v", r.JSONName, how, c.Problems)
			kit.True(t, !reflect.DeepEqual(c, none),
				"%s %s: %s changes nothing", r.JSONName, how, r.example)
		}
		if r.byDefault == "" {
			continue
		}
		c, _ := loadWith(t, fmt.Sprintf(`{%q: %q}`, r.JSONName, r.byDefault), nil)
		kit.True(t, reflect.DeepEqual(c, none),
			"%s: with its default, %s, the configuration is another one:\n%+v\n%+v", r.JSONName,
			r.byDefault, c, none)
	}
}

// The table has the settings of the page and the variables that the code reads.
func TestSettingTable_IsComplete(t *testing.T) {
	var onPage []Setting
	for _, r := range rows(t) {
		onPage = append(onPage, r.Setting)
	}
	variables := map[string]bool{"HOME": true}
	var listed []Setting
	for _, s := range settings {
		if s.Variable != "" {
			variables[s.Variable] = true
		}
		s.target, s.parse, s.readObject = nil, nil, nil
		listed = append(listed, s)
	}
	kit.True(t, reflect.DeepEqual(onPage, listed),
		"docs/configuration.md has other settings than the code, or in another order:\n%+v\n%+v",
		onPage, listed)
	_, asked := loadWith(t, "{}", nil)
	for name := range asked {
		kit.True(t, variables[name],
			"the configuration reads $%s, which the list does not have", name)
	}
	for _, name := range FileVariables() {
		kit.True(t, asked[name], "$%s is in the list, and the configuration does not read it", name)
	}
}
