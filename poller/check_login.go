package poller

import (
	"strings"

	"gchat-hooks/state"
)

const logIn = "gchat-hooks login"

// loginMend adds to a mend that names a login what keeps one from being used: a credentials file goes before it.
func (p *Poller) loginMend(cfg *state.Config, mend string) string {
	if !strings.Contains(mend, logIn) {
		return mend
	}
	if cfg.CredentialsFile == state.NoCredentials {
		return "put a credentials file into the project and name it as credentials_file, " +
			"or take the webhook out of the project's files"
	}
	if file := cfg.CredentialsFile; file != "" && file != state.LoginFile(p.Env) {
		mend += "; a login is used only once credentials_file (GOOGLE_CHAT_CREDENTIALS_FILE) is removed: " +
			"do that, or replace " + file
	}
	return mend
}
