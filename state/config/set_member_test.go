package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/tailscale/hujson"

	"gchat-hooks/e2e/kit"
)

func TestSetMember_KeepsTheRest(t *testing.T) {
	const url = "https://x/?a=1&b=2"
	for name, c := range map[string]struct {
		before string
		name   string
		value  any
		after  string
	}{
		"no file":           {"", "webhook_url", url, "{\"webhook_url\": \"" + url + "\"}\n"},
		"nothing but space": {" \n", "webhook_url", url, "{\"webhook_url\": \"" + url + "\"}\n"},
		"only a comment": {"{\n  // later\n}\n", "space_id", "spaces/A",
			"{\n\t\"space_id\": \"spaces/A\",\n\t// later\n}\n"},
		"order, comments": {
			"// mine\n{\n\t\"z\": 1, // one\n\t/* two */\n\t\"a\": [1, 2] // three\n}\n",
			"webhook_url", url,
			"// mine\n{\n\t\"z\": 1, // one\n\t/* two */\n\t\"a\":           [1, 2], // three\n\t\"webhook_url\": \"" + url + "\",\n}\n",
		},
		"a list in another's place": {
			"{\n\t\"allowed_users\": [\"users/1\"], // Ann\n\t\"a\": 1\n}\n", "allowed_users",
			[]string{"users/1", "users/2"},
			"{\n\t\"allowed_users\": [\"users/1\", \"users/2\"], // Ann\n\t\"a\":             1,\n}\n",
		},
		"said already, in the person's own spacing": {
			"{ \"a\" :1,\n      \"webhook_url\"  :  \"" + url + "\" /* w */}", "webhook_url", url,
			"{ \"a\" :1,\n      \"webhook_url\"  :  \"" + url + "\" /* w */}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := setJSONMember([]byte(c.before), c.name, c.value)
			kit.True(t, err == nil && string(got) == c.after, "%v\n%s\nwant\n%s", err, got, c.after)
			again, _ := setJSONMember(got, c.name, c.value)
			kit.True(t, string(again) == string(got), "done twice it becomes\n%s", again)
		})
	}
	for _, none := range []string{"[]", "{", `{"a"}`, "1"} {
		got, err := setJSONMember([]byte(none), "webhook_url", url)
		kit.True(t, err != nil, "%s became %s", none, got)
	}
}

// If a person's file is a link, for example into a folder of dotfiles, the link stays.
// The file is made private, because it holds a secret.
func TestSetMember_ConfigurationThatIsALink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "dotfiles.json"), filepath.Join(dir, "config.json")
	kit.NoError(t, os.WriteFile(file, []byte("{}"), 0o644))
	kit.NoError(t, os.Symlink(file, link))
	kit.NoError(t, SetMember(link, "a", "b"))
	info, err := os.Lstat(file)
	kit.True(t, err == nil && info.Mode() == 0o600 && info.Size() >= 10, "%v, %v", info.Mode(), err)
}

func FuzzMember(f *testing.F) {
	for _, s := range []string{"{}", "{\"a\":1,}", "// c\n{\"a\":1 /* d */}\n",
		"{\"webhook_url\":1 // e\n}", "{\"a\":{/**/}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, file string) {
		got, err := setJSONMember([]byte(file), "webhook_url", "new")
		if err != nil {
			return
		}
		root, err := hujson.Parse(got)
		kit.Must(t, err == nil, "%q became %q: %v", file, got, err)
		var set string
		value := root.Find("/webhook_url")
		kit.True(t, value != nil &&
			json.Unmarshal([]byte(value.Value.(hujson.Literal)), &set) == nil && set == "new",
			"%q became %q", file, got)
	})
}
