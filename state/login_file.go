package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"
)

// ErrNotOurs says that the file where a login is kept came from a person or another program: it is neither replaced nor removed.
var ErrNotOurs = errors.New("that file is not one of gchat-hooks login")

// madeBy tells a login from a credentials file that a person put into its place.
const madeBy = "gchat-hooks login"

// Login is what a login leaves on disk: an "authorized_user" credentials file as Google's libraries read it, and beside
// that what we want to know later; they leave unknown members alone.
//
// It stands in the user state and not in ~/.config: it is of use on this machine only, and people publish their ~/.config.
type Login struct {
	Type         string    `json:"type"` // authorized_user
	ClientID     string    `json:"client_id"`
	ClientSecret string    `json:"client_secret"`      // a secret
	RefreshToken string    `json:"refresh_token"`      // a secret
	AuthURI      string    `json:"auth_uri,omitempty"` // for the next login; logins of older releases lack it
	TokenURI     string    `json:"token_uri"`
	Scopes       []string  `json:"scopes"` // as granted
	MadeBy       string    `json:"made_by"`
	At           time.Time `json:"logged_in_at"`
	Ends         time.Time `json:"ends_at,omitzero"` // where Google said so: 7 days, for a client in Testing
	User         string    `json:"user,omitempty"`   // users/ID; "" where Chat did not tell
	Email        string    `json:"email,omitempty"`
	DisplayName  string    `json:"display_name,omitempty"`
}

// LoginFile is where the login of the person is kept: login.json in the user state.
func LoginFile(env Getenv) string { return filepath.Join(UserState(env), "login.json") }

// ReadLogin reads a login. Errors are those of reading (fs.ErrNotExist: there is no login), and ErrNotOurs.
func ReadLogin(path string) (*Login, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read login: %w", err)
	}
	l := &Login{}
	if err := json.Unmarshal(b, l); err != nil || l.MadeBy != madeBy {
		return nil, fmt.Errorf("read login %s: %w", path, ErrNotOurs)
	}
	return l, nil
}

// HasClient says that the next login can use the OAuth client of this one.
func (l *Login) HasClient() bool { return l.ClientID != "" && l.ClientSecret != "" && l.TokenURI != "" }

// LoginCommand logs a person in here: without the client's file where the login that is kept has the client.
func LoginCommand(env Getenv) string {
	if l, err := ReadLogin(LoginFile(env)); err == nil && l.HasClient() {
		return "gchat-hooks login"
	}
	return "gchat-hooks login --client-id-file FILE"
}

// Save writes the login, readable by its owner only, also where another file was not. Errors are ErrNotOurs and those of
// writing; then what was there is there still.
func (l *Login) Save(path string) error {
	if _, err := ReadLogin(path); err != nil && !missing(err) {
		return err
	}
	l.Type, l.MadeBy = "authorized_user", madeBy
	b, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	if err := mkdir(filepath.Dir(path)); err != nil {
		return err
	}
	return WriteSecret(path, append(b, '\n'))
}

// WriteSecret replaces a file by one that only its owner can read. renameio.WriteFile, and so writeFile, keeps the
// permissions of the file before.
func WriteSecret(path string, b []byte) error {
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(0o600))
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	defer f.Cleanup()
	if _, err = f.Write(b); err == nil {
		err = f.CloseAtomicallyReplace() // syncs before it renames
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return syncDir(filepath.Dir(path))
}

// RemoveLogin removes a login. Errors are ErrNotOurs, and those of reading and removing.
func RemoveLogin(path string) error {
	if _, err := ReadLogin(path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove login: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// IsPerson says whether name is a person's resource name as Chat returns it, users/ID. With an e-mail address in the id's
// place it is an alias for requests, and with a word an app's or everybody's.
func IsPerson(name string) bool {
	id, ok := strings.CutPrefix(name, "users/")
	return ok && id != "" && len(id) <= 40 && strings.Trim(id, "0123456789") == ""
}

// takeLogin reads with the login where nothing names a credentials file: before Application Default Credentials, which
// people set for other programs too. The person who logged in may answer, also where a project's webhook is read otherwise.
func (c *Config) takeLogin(env Getenv, project bool) {
	path := LoginFile(env)
	if c.CredentialsFile != "" && c.CredentialsFile != path && !project {
		return
	}
	l, err := ReadLogin(path)
	if missing(err) {
		return
	}
	if err != nil {
		c.Problems, c.AllowedUnknown = append(c.Problems, err), true
		return
	}
	if !project {
		c.CredentialsFile = path
	}
	if IsPerson(l.User) {
		c.AllowedUsers = append(c.AllowedUsers, l.User)
	}
}
