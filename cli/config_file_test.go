package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/tailscale/hujson"
)

func TestMembersAreSetAndTheRestStays(t *testing.T) {
	set := []member{{"webhook_url", "https://x/?a=1&b=2"}, {"allowed_users", []string{"users/1", "users/2"}}, {name: "gone"}}
	const url, users = `"webhook_url": "https://x/?a=1&b=2"`, `"allowed_users": ["users/1", "users/2"]`
	for name, c := range map[string]struct{ before, after string }{
		"no file":           {"", "{\n  " + url + ",\n  " + users + "\n}\n"},
		"an empty object":   {"{}", "{\n  " + url + ",\n  " + users + "\n}"},
		"only a comment":    {"{\n  // later\n}\n", "{\n  // later\n  " + url + ",\n  " + users + "\n}\n"},
		"one line":          {`{"a": 1}`, `{"a": 1, ` + url + `, ` + users + `}`},
		"tabs, comments":    {"// mine\n{\n\t\"a\": 1 // one\n}\n", "// mine\n{\n\t\"a\": 1, // one\n\t" + url + ",\n\t" + users + "\n}\n"},
		"a trailing comma":  {"{\n  \"a\": 1,\n  // end\n}\n", "{\n  \"a\": 1,\n  // end\n  " + url + ",\n  " + users + ",\n}\n"},
		"there already":     {"{\n  \"webhook_url\" : \"old\", /* w */\n  \"gone\": true,\n  \"allowed_users\": \"users/1\"\n}", "{\n  \"webhook_url\" : \"https://x/?a=1&b=2\", /* w */\n  " + users + "\n}"},
		"nothing but space": {" \n", "{\n  " + url + ",\n  " + users + "\n}\n"},
	} {
		got, err := withMembers([]byte(c.before), set...)
		if err != nil || string(got) != c.after {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, c.after)
		}
		if again, _ := withMembers(got, set...); string(again) != string(got) {
			t.Errorf("%s: done twice it becomes\n%s", name, again)
		}
	}
	for _, none := range []string{"[]", "{", `{"a"}`, "1"} {
		if got, err := withMembers([]byte(none), set...); err == nil {
			t.Errorf("%s became %s", none, got)
		}
	}
}

// A person's link, as into a folder of dotfiles, stays one; a file that a person or a program made read-only stays as it is.
func TestConfigurationThatIsALinkOrReadOnly(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "dotfiles.json"), filepath.Join(dir, "config.json")
	if err := os.WriteFile(file, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := setMembers(link, member{"a", "b"}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(file); err != nil || info.Mode() != 0o600 || info.Size() < 10 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.Chmod(file, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := setMembers(link, member{"a", "c"}); err == nil {
		t.Error("a read-only file was written")
	}
}

func FuzzMembers(f *testing.F) {
	for _, s := range []string{"{}", "{\"a\":1,}", "// c\n{\"a\":1 /* d */}\n", "{\"webhook_url\":1,\"webhook_url\":2}", "{\"a\":{/**/}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, file string) {
		got, err := withMembers([]byte(file), member{"webhook_url", "new"})
		if err != nil {
			return
		}
		plain, err := hujson.Standardize(got)
		var all map[string]any
		if err != nil || json.Unmarshal(plain, &all) != nil || all["webhook_url"] != "new" {
			t.Errorf("%q became %q", file, got)
		}
	})
}
