package settings

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

func TestSetKeepsWhatAPersonWrote(t *testing.T) {
	tests := []struct {
		name, file string
		set        []Member
		want       string
	}{
		{"none", "", []Member{{"a", "1"}}, "{\n  \"a\": \"1\"\n}\n"},
		{"another member", "{\"b\": 2}\n", []Member{{"a", "1"}}, "{\"b\": 2,\n  \"a\": \"1\"\n}\n"},
		{"comments and a trailing comma", "// mine\n{\n\t\"b\": 2, // two\n}", []Member{{"a", []string{"x", "y"}}}, "// mine\n{\n\t\"b\": 2, // two\n\t\"a\": [\"x\", \"y\"]\n}"},
		{"a value, with what stands around it", "{\n  \"a\" :  \"old\" /* why */ ,\n  \"b\": 2\n}\n", []Member{{"a", "new"}}, "{\n  \"a\" :  \"new\" /* why */ ,\n  \"b\": 2\n}\n"},
		{"twice the same name", `{"a": "1", "a": "2"}`, []Member{{"a", "3"}}, `{"a": "1", "a": "3"}`},
		{"more, and none yet", "{}", []Member{{"a", More{"x"}}}, "{\n  \"a\": [\"x\"]\n}"},
		{"more, with a comment", "{\"a\": [\"x\", /* mine */ \"y\",],}", []Member{{"a", More{"y", "z"}}}, "{\"a\": [\"x\", \"y\", \"z\"],}"},
		{"more, beside a text", "{\"a\": \"x, y\"}", []Member{{"a", More{"y", "z"}}}, "{\"a\": [\"x\", \"y\", \"z\"]}"},
		{"out", "{\n  \"a\": \"1\",\n  \"b\": 2\n}\n", []Member{{"a", nil}}, "{\n  \"b\": 2\n}\n"},
		{"out, and not there", "{\"b\": 2}", []Member{{"a", nil}}, "{\"b\": 2}"},
		{"CRLF and a byte order mark", "\ufeff{\r\n  \"b\": 2\r\n}\r\n", []Member{{"a", "1"}}, "\ufeff{\r\n  \"b\": 2,\r\n  \"a\": \"1\"\r\n}\r\n"},
		{"hard text", "{}", []Member{{"a", "x\"\\\n&"}}, "{\n  \"a\": \"x\\\"\\\\\\n&\"\n}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Set([]byte(tt.file), tt.set...)
			if err != nil || string(got) != tt.want {
				t.Errorf("%v\n%s\nwant\n%s", err, got, tt.want)
			}
			again, err := Set(got, tt.set...)
			if err != nil || string(again) != string(got) {
				t.Errorf("a second time changes it: %v\n%s", err, again)
			}
		})
	}
	if _, err := Set([]byte("{\n\"a\" 1}"), Member{"a", "1"}); err == nil {
		t.Error("a file that does not parse was changed")
	}
}

// What is set may be a secret: nobody else reads it, whatever the file was, and wherever a link leads.
func TestSetProtectsTheFile(t *testing.T) {
	home := t.TempDir()
	real := filepath.Join(home, "dotfiles.json")
	if err := os.WriteFile(real, []byte("{\"b\": 2}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, "config.json")
	if err := os.Symlink("dotfiles.json", path); err != nil {
		t.Fatal(err)
	}
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	f := File{Path: path, Mode: 0o600, Env: env}
	for i, want := range []bool{true, false} {
		if changed, err := f.Set(context.Background(), Member{"a", "secret"}); err != nil || changed != want {
			t.Fatalf("set %d: changed %v, %v", i+1, changed, err)
		}
	}
	info, err := os.Lstat(real)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v: mode %v", err, info.Mode())
	}
	if to, err := os.Readlink(path); err != nil || to != "dotfiles.json" {
		t.Errorf("the link leads to %q now: %v", to, err)
	}
	fresh := File{Path: filepath.Join(home, "new", "config.json"), Mode: 0o600, Env: env}
	if _, err := fresh.Set(context.Background(), Member{"a", "secret"}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(fresh.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a new file: %v, %v", info.Mode(), err)
	}
}
