package state

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// loadWith is the configuration of a person who set this in their file and in the environment, and what was asked of the
// environment.
func loadWith(t *testing.T, file string, env map[string]string) (c *Config, asked map[string]bool) {
	t.Helper()
	home := t.TempDir()
	path := filepath.Join(home, "config.json")
	if file != "" {
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	asked = map[string]bool{}
	return LoadConfig(func(name string) string {
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

// inEnv is an example as a variable holds it.
func inEnv(t *testing.T, s Setting) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s.Example), &v); err != nil {
		t.Fatalf("%s: example %s: %v", s.Member, s.Example, err)
	}
	switch v := v.(type) {
	case []any:
		return strings.Trim(fmt.Sprint(v), "[]")
	case map[string]any:
		return "advice" // the only object that a variable stands for
	}
	return fmt.Sprint(v)
}

// TestSettingsCount sets each setting, in a file and in the environment: it has to count, and to mean something.
func TestSettingsCount(t *testing.T) {
	none, _ := loadWith(t, "", nil)
	for _, s := range settings {
		if s.Member == "" || strings.ContainsAny(s.Member, ".[") {
			continue
		}
		with := map[string]func() *Config{"in a file": func() *Config {
			c, _ := loadWith(t, fmt.Sprintf(`{%q: %s}`, s.Member, s.Example), nil)
			return c
		}}
		if s.Variable != "" {
			with["as "+s.Variable] = func() *Config {
				c, _ := loadWith(t, "", map[string]string{s.Variable: inEnv(t, s)})
				c.modeInEnv = false
				return c
			}
		}
		for how, load := range with {
			c := load()
			if len(c.Problems) > 0 {
				t.Errorf("%s %s: %v", s.Member, how, c.Problems)
			}
			if reflect.DeepEqual(c, none) {
				t.Errorf("%s %s: %s changes nothing", s.Member, how, s.Example)
			}
		}
	}
}

// TestSettingsDefaults sets what is said to be the default: it has to change nothing.
func TestSettingsDefaults(t *testing.T) {
	none, _ := loadWith(t, "", nil)
	for _, s := range settings {
		if s.Member == "" || s.Object || s.Default == "" {
			continue
		}
		c, _ := loadWith(t, fmt.Sprintf(`{%q: %q}`, s.Member, s.Default), nil)
		if !reflect.DeepEqual(c, none) {
			t.Errorf("%s: with its default, %s, the configuration is another one:\n%+v\n%+v", s.Member, s.Default, c, none)
		}
	}
}

// TestSettingsAreAll compares the table with what the code looks for.
func TestSettingsAreAll(t *testing.T) {
	variables, members := map[string]bool{"HOME": true}, map[string]bool{}
	for _, s := range settings {
		if s.Variable != "" {
			if variables[s.Variable] {
				t.Errorf("%s is there twice", s.Variable)
			}
			variables[s.Variable] = true
		}
		if s.Member != "" {
			if members[s.Member] {
				t.Errorf("%s is there twice", s.Member)
			}
			members[s.Member] = true
		}
		if s.Meaning == "" || strings.HasSuffix(s.Meaning, ".") || strings.Contains(s.Meaning+s.Default+s.Example, "|") {
			t.Errorf("%s%s: %q cannot stand in the reference", s.Variable, s.Member, s.Meaning)
		}
		if s.Member != "" && !json.Valid([]byte(s.Example)) {
			t.Errorf("%s: its example is no JSON: %s", s.Member, s.Example)
		}
	}
	_, asked := loadWith(t, "{}", nil)
	for name := range asked {
		if !variables[name] {
			t.Errorf("the configuration reads $%s, which the table does not have", name)
		}
	}
	for _, name := range Variables() {
		if !asked[name] {
			t.Errorf("$%s is in the table, and the configuration does not read it", name)
		}
	}

	known := map[string]bool{}
	for key := range fileKeys() {
		known[key] = true
	}
	for _, in := range []struct{ file, pattern string }{
		{"layers.go", `file\["(\w+)"\]`},
		{"report_rules.go", `file\["(\w+)"\]`},
		{"report_rules.go", `each\("(\w+)"`},
	} {
		b, err := os.ReadFile(in.file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(in.pattern).FindAllStringSubmatch(string(b), -1)
		if len(found) == 0 {
			t.Errorf("%s: nothing matches %s any more", in.file, in.pattern)
		}
		for _, m := range found {
			known[m[1]] = true
		}
	}
	if got, want := slices.Sorted(maps.Keys(members)), slices.Sorted(maps.Keys(known)); !slices.Equal(got, want) {
		t.Errorf("the table has other members than the code knows:\n%q\n%q", got, want)
	}
}
