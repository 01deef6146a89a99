package state

import (
	"os"
	"path/filepath"
	"testing"
)

// Application Default Credentials are ours to look at only while replies are read with them.
func TestDefaultCredentialsThatOthersRead(t *testing.T) {
	home := t.TempDir()
	for _, dir := range []string{filepath.Dir(home), home} { // else nobody could get at anything in it
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string, mode os.FileMode) {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	const secret = `{"type": "authorized_user", "refresh_token": "1//0planted-refresh"}`
	write(".config/gcloud/application_default_credentials.json", secret, 0o644)
	write("own.json", secret, 0o600)
	for _, c := range []struct {
		config string
		want   Level
	}{
		{`{"webhook_url": "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t"}`, LevelFail},
		{`{"webhook_url": "https://chat.googleapis.com/v1/spaces/A/messages?key=k&token=t", "credentials_file": "` + home + `/own.json"}`, LevelOK},
		{`{"webhook_url": "http://127.0.0.1:8090/v1/spaces/local/messages?key=k&token=t"}`, LevelOK},
	} {
		write(".config/gchat-hooks/config.json", c.config, 0o600)
		getenv := func(name string) string {
			return map[string]string{"HOME": home, "CLAUDE_PROJECT_DIR": filepath.Join(home, "project")}[name]
		}
		if f := checkPrivate(getenv)[0]; f.Level != c.want {
			t.Errorf("%s: %+v", c.config, f)
		}
	}
}
