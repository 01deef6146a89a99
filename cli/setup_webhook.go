package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/google/uuid"

	"gchat-hooks/gchat"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/state"
)

const webhookFlag = "gchat-hooks setup --webhook-url-file FILE, or GOOGLE_CHAT_WEBHOOK_URL in the environment, or --space to do without Google"

// webhook finds out where questions go. A URL is written down only after a message went through.
func (s *setup) webhook(ctx context.Context) error {
	if said := s.env("GCHAT_API_ENDPOINT"); said != s.config().APIEndpoint {
		s.endpoint = said // replies are read where messages go
	}
	cfg := s.config()
	said, err := s.saidWebhook()
	if err != nil {
		return err
	}
	if s.local {
		return s.openSpace(ctx)
	}
	if known, err := s.known(ctx, cfg); said == "" || known != nil && known.ID() == idOf(said, cfg) {
		if err == nil {
			if s.endpoint != "" {
				if err := s.set(ctx, s.endpointMember()); err != nil {
					return err
				}
			}
			s.done("webhook", "%s", gchat.Line(known.Chat()))
			return s.openAgain(ctx, known)
		}
		if !errors.Is(err, state.ErrNoWebhook) && !s.ask.terminal {
			return failed(err, gchat.Hint(err), exitUsage)
		}
	}
	if said != "" {
		return s.tryWebhook(ctx, said)
	}
	if !s.ask.terminal {
		return usage(errors.New("no webhook URL is configured, and there is no terminal to ask on"), webhookFlag)
	}
	fmt.Fprintln(s.out, "\nQuestions go to a space of Google Chat, through a webhook. In the space: Apps & integrations > Webhooks > Add.")
	for {
		said, err := s.ask.secret(ctx, "Paste its URL here (it is not shown), or type `space` to do without Google:", webhookFlag)
		if err != nil {
			return err
		}
		if strings.EqualFold(said, "space") || strings.EqualFold(said, "no google") {
			return s.openSpace(ctx)
		}
		err = s.tryWebhook(ctx, said)
		if err == nil || ctx.Err() != nil {
			return err
		}
		fmt.Fprintf(s.out, "That does not work: %s\n", plain(err.Error()))
		switch {
		case errors.Is(err, gchat.ErrNotWebhook):
			fmt.Fprintln(s.out, "  Copy it again in the space (Apps & integrations > Webhooks), and paste it here.")
		case !gchat.Answered(err):
			fmt.Fprintln(s.out, "  Nothing was written down. Paste it again when Chat can be reached.")
		default:
			fmt.Fprintf(s.out, "  %s\n", hintOf(err))
		}
	}
}

// endpointMember is the API endpoint that stood in the environment, to be kept with the webhook that goes by it.
func (s *setup) endpointMember() settings.Member {
	return settings.Member{Name: "api_endpoint", Value: s.endpoint}
}

// urlInSight is for who puts the webhook's URL on the command line. It is not repeated.
func urlInSight(what string) error {
	return usage(fmt.Errorf("%s, for every process list would show it: --webhook-url-file FILE does (- for standard input), or GOOGLE_CHAT_WEBHOOK_URL in the environment", what), "gchat-hooks setup --help")
}

// saidWebhook is the URL that a script gave.
func (s *setup) saidWebhook() (string, error) {
	if s.webhookFile == "" {
		return strings.TrimSpace(s.env("GOOGLE_CHAT_WEBHOOK_URL")), nil
	}
	in := os.Stdin
	if s.webhookFile != "-" {
		f, err := os.Open(s.webhookFile)
		if err != nil {
			return "", fmt.Errorf("read webhook URL: %w", err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, 64<<10))
	if err == nil && strings.TrimSpace(string(b)) == "" {
		err = errors.New("there is nothing in it")
	}
	if err != nil {
		return "", fmt.Errorf("read webhook URL: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// known is the webhook that is configured.
func (s *setup) known(ctx context.Context, cfg *state.Config) (*gchat.Webhook, error) {
	raw, err := cfg.Webhook(ctx)
	if err != nil {
		return nil, err
	}
	return gchat.ConfiguredWebhook(cfg, raw)
}

func idOf(raw string, cfg *state.Config) string {
	w, err := gchat.ConfiguredWebhook(cfg, raw)
	if err != nil {
		return ""
	}
	return w.ID()
}

// tryWebhook posts through a webhook and writes it down. What it says of the URL is where it posts, never its secret.
func (s *setup) tryWebhook(ctx context.Context, raw string) error {
	cfg := s.config()
	members := []settings.Member{{Name: "webhook_url", Value: raw}}
	if u, err := url.Parse(raw); err == nil && u.Scheme == "https" && cfg.APIEndpoint != "" && strings.HasPrefix(cfg.APIEndpoint, "http:") && s.env("GCHAT_API_ENDPOINT") == "" {
		// It is the embedded space's, of an earlier setup.
		cfg.APIEndpoint = ""
		members = append(members, settings.Member{Name: "api_endpoint"})
	} else if s.endpoint != "" {
		members = append(members, s.endpointMember())
	}
	if _, err := gchat.ParseWebhook(raw, ""); err != nil { // a gateway's URL does not say the space
		_, other := gchat.ParseWebhook(raw, "spaces/any")
		if google := strings.Contains(raw, "googleapis.com"); other != nil || google { // Google's own does: it was cut off
			return notWebhook(err, gchat.Hint(err))
		}
		if !s.ask.terminal && s.saidSpace() == "" {
			return notWebhook(err, gchat.Hint(err)+"; a gateway's URL goes with --space-id spaces/ID, or GOOGLE_CHAT_SPACE_ID")
		}
		id, err := s.pickSpace(ctx, cfg)
		if err != nil {
			return err
		}
		cfg.SpaceID = id
		members = append(members, settings.Member{Name: "space_id", Value: id})
	}
	hook, err := gchat.ConfiguredWebhook(cfg, raw)
	if err != nil {
		return failed(err, gchat.Hint(err), exitUsage)
	}
	_, err = hook.Post(ctx, gchat.Post{
		Text:      "[Setup] gchat-hooks can write here: questions of Claude Code sessions will appear in this space.",
		ThreadKey: "setup-webhook-" + uuid.NewString()[:8], MessageID: "client-" + uuid.NewString(),
	})
	if err != nil {
		var secrets state.Redactor
		secrets.Hide(raw) // a server may quote it
		return failed(said{secrets.Clean(err.Error()), err}, gchat.Hint(err), exitNotVerifiable)
	}
	if err := s.set(ctx, members...); err != nil {
		return err
	}
	s.done("webhook", "a test message is in %s; kept in %s", gchat.Line(hook.Chat()), s.file().Path)
	return nil
}

// notWebhook says how a webhook's URL looks, in words where its secrets are, and nothing of the one that was given.
func notWebhook(err error, hint string) error {
	return failed(fmt.Errorf("%w: Google Chat's are https://chat.googleapis.com/v1/spaces/ID/messages with a key and a token", err), hint, exitUsage)
}

// said is an error in other words.
type said struct {
	words string
	error
}

func (s said) Error() string { return s.words }
func (s said) Unwrap() error { return s.error }

// hintOf is what a person can do about an error.
func hintOf(err error) string {
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) {
		return hinted.Hint()
	}
	return ""
}
