package cli

import (
	"cmp"
	"context"
	"path/filepath"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// hub joins this machine to the hub of a team, and writes down that questions go there. Killed anywhere, the same line does the
// rest: the hub gives this machine the same answer again.
func (s *setup) hub(ctx context.Context) error {
	code := s.flags.String("code")
	hub, err := gchat.JoinHub(ctx, s.flags.String("hub"), code, state.JoinNonce(s.env, code), version())
	if err != nil {
		return s.cannot("", err)
	}
	// A poller that goes by the new configuration leaves the subscription to the test card, until setup ends.
	s.pulling, _ = state.SpacesIn(state.UserState(s.env)).LockReader(hub.Subscription)
	file := filepath.Join(state.ConfigDir(s.env), "hub.json")
	may := append([]string{hub.User}, hub.Deciders...)
	if err := config.SetMember(state.ConfigFile(s.env), "allowed_users", may); err != nil {
		return err
	}
	if err := hub.Save(file); err != nil {
		return err
	}
	// They are written in the order of the settings, the endpoints last: other credentials never go to the hub.
	s.answers = map[string]string{
		"GOOGLE_CHAT_SPACE_ID": hub.Space, "GOOGLE_CHAT_CREDENTIALS_FILE": file, "GCHAT_API_ENDPOINT": hub.URL,
		"GCHAT_PUBSUB_SUBSCRIPTION": hub.Subscription, "GCHAT_PUBSUB_ENDPOINT": hub.URL,
	}
	s.person = hub.User
	who := cmp.Or(hub.Email, hub.User)
	s.done("hub", "%s takes this machine as %s's; questions go to %s", gchat.Line(hub.URL), gchat.Line(who), hub.Space)
	if err := s.keep(); err != nil {
		return err
	}
	// What waited because the last token was refused, goes now.
	app, err := gchat.NewApp(ctx, s.config())
	if err == nil {
		_, err = state.SpacesIn(state.UserState(s.env)).Change(app.Chat(), func(one *state.Space) { clear(one.Paused) })
	}
	return cmp.Or(err, s.retry(false))
}

// hubCard has the person tap a card, which shows that questions and answers pass the hub.
func (s *setup) hubCard(ctx context.Context) error {
	if s.sendOnly || s.flags.IsSet("round-trip") && !s.flags.Bool("round-trip") {
		return nil
	}
	app, err := gchat.NewApp(ctx, s.config())
	if err != nil {
		return s.cannot("", err)
	}
	return s.testCard(ctx, app)
}
