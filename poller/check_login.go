package poller

import (
	"strings"

	"gchat-hooks/state"
)

const logIn = "gchat-hooks login"

// loginMend makes a mend that names a login one that works here: with the client's file where no login has kept its client,
// and with what keeps a login from being used: a credentials file goes before it.
func (p *Poller) loginMend(cfg *state.Config, mend string) string {
	if !strings.Contains(mend, logIn) {
		return mend
	}
	if cfg.CredentialsFile == state.NoCredentials {
		return "put a credentials file into the project and name it as credentials_file, or take the webhook out of the project's files"
	}
	if !strings.Contains(mend, "--client-id-file") {
		mend = strings.ReplaceAll(mend, logIn, state.LoginCommand(p.Env))
	}
	if file := cfg.CredentialsFile; file != "" && file != state.LoginFile(p.Env) {
		mend += "; a login is used only once credentials_file (GOOGLE_CHAT_CREDENTIALS_FILE) is removed: do that, or replace " + file
	}
	return mend
}
