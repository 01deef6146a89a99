package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gchat-hooks/state"
)

// loginMadeBy distinguishes a login from a credentials file that a person put in its
// place.
const loginMadeBy = "gchat-hooks login"

// Login is the file that a login writes: an "authorized_user" credentials file as
// Google's libraries read it, with more members of our own. The libraries ignore members
// that they do not know.
//
// The file is in the user state and not in ~/.config: it is of use on this machine only,
// and people publish their ~/.config.
type Login struct {
	Type         string `json:"type"` // authorized_user
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"` // a secret
	RefreshToken string `json:"refresh_token"` // a secret
	TokenURI     string `json:"token_uri"`
	MadeBy       string `json:"made_by"`
	User         string `json:"user,omitempty"` // users/ID; "" if Chat did not return it
}

// LoginFile returns the path of the person's login: login.json in the user state.
func LoginFile(env state.Getenv) string {
	return filepath.Join(state.UserStateDir(env), "login.json")
}

// ReadLogin reads a login. The error wraps fs.ErrNotExist if there is no login. A file
// that gchat-hooks login did not write is an error, too.
func ReadLogin(path string) (*Login, error) {
	b, err := state.ReadPlainOrLink(path, state.MaxFileSize)
	if err != nil {
		return nil, fmt.Errorf("read login: %w", err)
	}
	l := &Login{}
	if err := json.Unmarshal(b, l); err != nil || l.MadeBy != loginMadeBy {
		return nil, fmt.Errorf("read login: %s was not written by %s", path, loginMadeBy)
	}
	return l, nil
}

// Save writes the login into a file that only its owner can read.
func (l *Login) Save(path string) error {
	l.Type, l.MadeBy = "authorized_user", loginMadeBy
	b, _ := json.MarshalIndent(l, "", "  ") // texts always encode
	return WriteSecretFile(path, append(b, '\n'))
}

// WriteSecretFile writes a file that only its owner can read. It creates the folder if
// needed. state.WriteFile alone would keep the permissions of an existing file.
func WriteSecretFile(path string, b []byte) error {
	if err := os.Chmod(path, 0o600); err != nil && !state.IsMissing(err) {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return state.WriteFile(path, b)
}

// IsPersonName reports whether name is a person's resource name as Chat returns it:
// users/ID with a number. With an e-mail address in place of the number, it is an alias
// that only requests may use. With a word, it names an app or everybody.
func IsPersonName(name string) bool {
	id, ok := strings.CutPrefix(name, "users/")
	return ok && id != "" && len(id) <= 40 && strings.Trim(id, "0123456789") == ""
}

// applyLogin sets the login as the credentials file if no other file is configured. It
// comes before Application Default Credentials, which people also set for other programs.
// The person who logged in may answer. That holds for a project's webhook or space as
// well (isOfProject), although its replies are read with other credentials.
func (c *Config) applyLogin(env state.Getenv, isOfProject bool) {
	path := LoginFile(env)
	if c.CredentialsFile != "" && c.CredentialsFile != path && !isOfProject {
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
	if !isOfProject {
		c.CredentialsFile = path
	}
	if IsPersonName(l.User) {
		c.AllowedUsers = append(c.AllowedUsers, l.User)
	}
}

// Secrets returns the secrets in the configuration. The caller masks them in a text that
// quotes the configuration or an answer to a request, since it may contain one.
func (c *Config) Secrets(env state.Getenv) []string {
	secrets := []string{c.WebhookURL, c.AnthropicKey}
	if c.Notify != nil {
		secrets = append(secrets, c.Notify.URL, c.Notify.Token)
	}
	if l, err := ReadLogin(LoginFile(env)); err == nil {
		secrets = append(secrets, l.RefreshToken, l.ClientSecret)
	}
	return secrets
}
