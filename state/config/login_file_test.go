package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

const loginFile = "~/.local/state/gchat-hooks/login.json"

func TestLoginFile_ForItsOwnerOnly(t *testing.T) {
	p := newPlace(t)
	path := LoginFile(p.getenv)
	_, err := ReadLogin(path)
	kit.True(t, errors.Is(err, fs.ErrNotExist), "before any login: %v", err)
	l := &Login{ClientID: "id", ClientSecret: "cs", RefreshToken: "1//r", TokenURI: "https://t",
		User: "users/7"}
	kit.NoError(t, l.Save(path))
	kit.NoError(t, os.Chmod(path, 0o644)) // somebody restored it from a backup
	l.User = "users/8"
	kit.NoError(t, l.Save(path))
	info, err := os.Stat(path)
	kit.True(t, err == nil && info.Mode().Perm() == 0o600, "mode %v, %v", info.Mode(), err)
	dir, err := os.Stat(filepath.Dir(path))
	kit.True(t, err == nil && dir.Mode().Perm() == 0o700, "folder %v, %v", dir.Mode(), err)
	got, err := ReadLogin(path)
	kit.True(t, err == nil && got.Type == "authorized_user" && got.User == "users/8" &&
		got.RefreshToken == "1//r",
		"got %+v, %v", got, err)
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	kit.True(t, len(left) == 1, "left beside it: %v", left)
}

func TestLoginFile_OfAnotherPerson(t *testing.T) {
	for name, content := range map[string]string{
		"service account": `{"type":"service_account","private_key":"k"}`,
		"gcloud's":        `{"type":"authorized_user","refresh_token":"r"}`,
		"garbage":         "{", "empty": "",
	} {
		p := newPlace(t)
		p.write(loginFile, content)
		c := p.load()
		kit.True(t, c.CredentialsFile == "" && len(c.AllowedUsers) == 0 && len(c.Problems) == 1 &&
			strings.Contains(c.Problems[0].Error(), "not written by gchat-hooks login"),
			"%s: read with %q, problems %v", name, c.CredentialsFile, c.Problems)
	}
}

// The previous release's file has more members. The file that we write has the members
// that the previous release reads.
func TestLoginFile_OfAnotherRelease(t *testing.T) {
	p := newPlace(t)
	const before = `{"type":"authorized_user","client_id":"id","client_secret":"cs","refresh_token":"1//r","auth_uri":"https://a","token_uri":"https://t",
		"scopes":["a"],"made_by":"gchat-hooks login","logged_in_at":"2026-08-16T12:00:00Z","ends_at":"2026-08-23T12:00:00Z","user":"users/7","email":"ann@example.com"}`
	path := p.write(loginFile, before)
	l, err := ReadLogin(path)
	kit.Must(t, err == nil && l.ClientID == "id" && l.ClientSecret == "cs" &&
		l.RefreshToken == "1//r" && l.TokenURI == "https://t" && l.User == "users/7",
		"%+v, %v", l, err)
	kit.NoError(t, l.Save(path))
	saved := kit.ReadFile(t, path)
	for _, member := range []string{`"type": "authorized_user"`, `"client_id": "id"`,
		`"client_secret": "cs"`, `"refresh_token": "1//r"`, `"token_uri": "https://t"`,
		`"made_by": "gchat-hooks login"`, `"user": "users/7"`} {
		kit.Contains(t, saved, member)
	}
}

func TestLoginFile_ConfigReadsWithIt(t *testing.T) {
	p := newPlace(t)
	path := LoginFile(p.getenv)
	c := p.load()
	kit.True(t, c.CredentialsFile == "" && len(c.AllowedUsers) == 0 && len(c.Problems) == 0,
		"logged out: %q, %v, %v", c.CredentialsFile, c.AllowedUsers, c.Problems)
	kit.NoError(t, (&Login{RefreshToken: "r", User: "users/7"}).Save(path))
	p.write(personFile, `{"allowed_users":["users/1"]}`)
	c = p.load()
	kit.True(t, c.CredentialsFile == path &&
		slices.Equal(c.AllowedUsers, []string{"users/1", "users/7"}),
		"logged in: %q, %v", c.CredentialsFile, c.AllowedUsers)
	// Other credentials may be another person's or a robot's: then the login is nobody's
	// who may answer.
	p.env["GOOGLE_CHAT_CREDENTIALS_FILE"] = "/key.json"
	c = p.load()
	kit.True(t, c.CredentialsFile == "/key.json" &&
		slices.Equal(c.AllowedUsers, []string{"users/1"}),
		"with a key: %q, %v", c.CredentialsFile, c.AllowedUsers)
}

func TestLoginFile_AllowsOnlyAPersonsName(t *testing.T) {
	for _, user := range []string{"", "users/all", "users/app", "users/ann@example.com",
		"ann@example.com", "users/7\nusers/8", "local", "users/" + strings.Repeat("1", 41)} {
		p := newPlace(t)
		kit.NoError(t, (&Login{RefreshToken: "r", User: user}).Save(LoginFile(p.getenv)))
		c := p.load()
		kit.True(t, len(c.AllowedUsers) == 0, "%q may answer: %v", user, c.AllowedUsers)
	}
}
