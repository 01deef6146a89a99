package poller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gchat-hooks/state"
)

// ErrNoReplies says that a question put into the space would wait in vain: a reply could not be used.
var ErrNoReplies = errors.New("no reply could be used")

// Replyable says whether a reply to a question could be used, as things are configured: a person may answer, and the space can
// be read, as far as that is known without asking. Errors are ErrNoReplies and those of the webhook.
func (p *Poller) Replyable(ctx context.Context, cfg *state.Config) error {
	if len(cfg.AllowedUsers) == 0 {
		return fmt.Errorf("%w: nobody is on allowed_users", ErrNoReplies)
	}
	hook, err := p.webhook(ctx, cfg)
	if err != nil {
		return err
	}
	if p.endpoint(cfg, hook) == "" && !p.hasCredentials(cfg) {
		return fmt.Errorf("%w: there are no credentials to read with", ErrNoReplies)
	}
	for _, in := range state.TroubledInboxes(p.user()) {
		if in.Chat == hook.Chat() && (in.Trouble.Refused || in.Trouble.Degraded) {
			return fmt.Errorf("%w: %s", ErrNoReplies, in.Trouble.Why)
		}
	}
	return nil
}

// hasCredentials says whether there is a file of credentials, the configured one or Google's default. A machine in Google's
// cloud has some without, but none that may read messages.
func (p *Poller) hasCredentials(cfg *state.Config) bool {
	gcloud := cmp.Or(p.Env("CLOUDSDK_CONFIG"), filepath.Join(state.Home(p.Env), ".config", "gcloud"))
	byDefault := filepath.Join(gcloud, "application_default_credentials.json")
	for _, path := range []string{cfg.CredentialsFile, p.Env("GOOGLE_APPLICATION_CREDENTIALS"), byDefault} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}
