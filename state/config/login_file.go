package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gchat-hooks/state"
)

// loginMadeBy tells a login from a credentials file that a person put into its place.
const loginMadeBy = "gchat-hooks login"

// Login is what a login leaves on disk: an "authorized_user" credentials file as Google's
// libraries read it, and beside that what we want to know later; they leave unknown
// members alone.
//
// It stands in the user state and not in ~/.config: it is of use on this machine only,
// and people publish their ~/.config.
type Login struct {
	Type         string `json:"type"` // authorized_user
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"` // a secret
	RefreshToken string `json:"refresh_token"` // a secret
	TokenURI     string `json:"token_uri"`
	MadeBy       string `json:"made_by"`
	User         string `json:"user,omitempty"` // users/ID; "" where Chat did not tell
}

// LoginFile is where the login of the person is kept: login.json in the user state.
func LoginFile(env state.Getenv) string {
	return filepath.Join(state.UserStateDir(env), "login.json")
}

// ReadLogin reads a login. Errors are those of reading (fs.ErrNotExist: there is no
// login), and of a file that is none.
func ReadLogin(path string) (*Login, error) {
	b, err := state.ReadPlainOrLink(path, state.MaxFileSize)
	if err != nil {
		return nil, fmt.Errorf("read login: %w", err)
	}
	l := &Login{}
	if err := json.Unmarshal(b, l); err != nil || l.MadeBy != loginMadeBy {
		return nil, fmt.Errorf("read login: %s is not a file of %s", path, loginMadeBy)
	}
	return l, nil
}

// Save writes the login, readable by its owner only.
func (l *Login) Save(path string) error {
	l.Type, l.MadeBy = "authorized_user", loginMadeBy
	b, _ := json.MarshalIndent(l, "", "  ") // texts always encode
	return WriteSecretFile(path, append(b, '\n'))
}

// WriteSecretFile replaces a file by one that only its owner can read, and makes its
// folder. state.WriteFile keeps the permissions of the file before.
func WriteSecretFile(path string, b []byte) error {
	if err := os.Chmod(path, 0o600); err != nil && !state.IsMissing(err) {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return state.WriteFile(path, b)
}

// IsPersonName says whether name is a person's resource name as Chat returns it,
// users/ID. With an e-mail address in the id's place it is an alias for requests, and
// with a word an app's or everybody's.
func IsPersonName(name string) bool {
	id, ok := strings.CutPrefix(name, "users/")
	return ok && id != "" && len(id) <= 40 && strings.Trim(id, "0123456789") == ""
}

// applyLogin reads with the login where nothing names a credentials file: before
// Application Default Credentials, which people set for other programs too. The person
// who logged in may answer, also where a project's webhook is read otherwise.
func (c *Config) applyLogin(env state.Getenv, project bool) {
	path := LoginFile(env)
	if c.CredentialsFile != "" && c.CredentialsFile != path && !project {
		return
	}
	l, err := ReadLogin(path)
	if state.IsMissing(err) {
		return
	}
	if err != nil {
		c.Problems, c.IsAllowlistUnknown = append(c.Problems, err), true
		return
	}
	if !project {
		c.CredentialsFile = path
	}
	if IsPersonName(l.User) {
		c.AllowedUsers = append(c.AllowedUsers, l.User)
	}
}

// Secrets are what is configured and not for reading: a text that quotes the
// configuration, or an answer to a request, may hold one.
func (c *Config) Secrets(env state.Getenv) []string {
	secrets := []string{c.WebhookURL, c.AnthropicKey}
	if l, err := ReadLogin(LoginFile(env)); err == nil {
		secrets = append(secrets, l.RefreshToken, l.ClientSecret)
	}
	return secrets
}
