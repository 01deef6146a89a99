package cli

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// appSteps is what a person does in Google Cloud before a Chat app can be tried; PROJECT stands for theirs, SUBSCRIPTION
// for the name of this machine's.
//
//go:embed setup_app_cloud.txt
var appSteps string

// appPage is what to type into the page that no program can fill in.
//
//go:embed setup_app_page.txt
var appPage string

const appChat = `
In Google Chat: New chat, the app's name, and write it a word. A direct message is private, and the app hears all you say
there. If Chat does not find the app, its Visibility does not name you.
`

// app walks a person to a Chat app whose taps arrive. Each step is tried with a call, again and again at a terminal.
func (s *setup) app(ctx context.Context) error {
	for _, variable := range []string{
		"GOOGLE_CHAT_SPACE_ID", "GOOGLE_CHAT_CREDENTIALS_FILE",
		"GCHAT_API_ENDPOINT", "GCHAT_PUBSUB_ENDPOINT", "GCHAT_PUBSUB_SUBSCRIPTION",
	} {
		s.answers[variable] = strings.TrimSpace(os.Getenv(variable))
	}
	if file := s.flags.String("credentials-file"); file != "" {
		s.answers["GOOGLE_CHAT_CREDENTIALS_FILE"], _ = filepath.Abs(file)
	}
	project, err := s.appProject(ctx)
	if err != nil {
		return err
	}
	_, subscription, _ := strings.Cut(s.config().Subscription, "/subscriptions/")
	key := s.appKey()
	words := strings.NewReplacer("PROJECT", project, "SUBSCRIPTION", subscription, "KEY", key, "DIR", filepath.Dir(key))
	var app *gchat.App
	for _, step := range []struct {
		name, told, how string
		try             func() error
	}{
		{"events", "the subscription can be read", words.Replace(appSteps), func() (err error) {
			app, err = s.newApp(ctx)
			if err == nil {
				err = app.MayPull(ctx)
			}
			return err
		}},
		{"app", "Google Chat knows the app", words.Replace(appPage), func() error {
			_, err := app.Spaces(ctx)
			return err
		}},
		{"space", "the app is there", appChat, func() error { return s.appSpace(ctx, app) }},
	} {
		for err := step.try(); err != nil; err = step.try() {
			if !s.ask.terminal || ctx.Err() != nil {
				return s.cannot(step.name+": ", err)
			}
			fmt.Fprintf(s.out, "%s\nNot yet: %s\n→ %s\n", step.how, s.words(err), gchat.AppHint(err))
			if _, err := s.ask.line(ctx, "Press Enter when that is done:"); err != nil {
				return err
			}
		}
		s.done(step.name, "%s", step.told)
	}
	app, err = s.newApp(ctx)
	if err != nil {
		return err
	}
	if err := s.testCard(ctx, app); err != nil {
		return err
	}
	return s.keep()
}

// appProject is the Cloud project, which the subscription names. Where none is configured each machine gets its own: one that is
// shared gives each event to one of the machines.
func (s *setup) appProject(ctx context.Context) (string, error) {
	for s.config().Subscription == "" {
		if !s.ask.terminal {
			err := fmt.Errorf("GCHAT_PUBSUB_SUBSCRIPTION is %q", s.answers["GCHAT_PUBSUB_SUBSCRIPTION"])
			return "", usage(err, "it takes projects/PROJECT/subscriptions/NAME")
		}
		said, err := s.ask.line(ctx, "The Cloud project's id (make one at https://console.cloud.google.com/projectcreate):")
		if err != nil {
			return "", err
		}
		name := notInName().ReplaceAllString(state.MachineName(), "-") + "-" + state.CardID(s.env, "of its own")[:6]
		s.answers["GCHAT_PUBSUB_SUBSCRIPTION"] = "projects/" + said + "/subscriptions/gchat-hooks-" + name
	}
	return strings.Split(s.config().Subscription, "/")[1], nil
}

// notInName is what no name of a subscription has: https://cloud.google.com/pubsub/docs/pubsub-basics#resource_names allows a few
// signs more.
var notInName = state.Pattern(`[^A-Za-z0-9-]+`)

// appKey is where the service account's key is looked for.
func (s *setup) appKey() string { return filepath.Join(state.ConfigDir(s.env), "app-key.json") }

// newApp is the app as far as it is configured by now.
func (s *setup) newApp(ctx context.Context) (*gchat.App, error) {
	if _, err := os.Stat(s.appKey()); err == nil && s.config().CredentialsFile == "" {
		s.answers["GOOGLE_CHAT_CREDENTIALS_FILE"] = s.appKey()
	}
	cfg := s.config()
	cfg.SpaceID = cmp.Or(cfg.SpaceID, "spaces/-") // until appSpace finds it
	if len(cfg.Problems) > 0 {
		return nil, cfg.Problems[0]
	}
	return gchat.NewApp(ctx, cfg)
}

// appSpace settles where the app writes: the configured space, else the one direct message, else the one space that it is in.
func (s *setup) appSpace(ctx context.Context, app *gchat.App) error {
	spaces, err := app.Spaces(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, one := range spaces {
		names = append(names, one.Name)
	}
	switch configured := s.config().SpaceID; {
	case slices.Contains(names, configured):
		return nil
	case configured != "":
		return fmt.Errorf("the app is not in %s", configured)
	case len(names) == 0:
		return errors.New("the app is in no space, and in no direct message")
	case len(names) > 1 && (spaces[0].SpaceType != "DIRECT_MESSAGE" || spaces[1].SpaceType == "DIRECT_MESSAGE"):
		return fmt.Errorf("the app is in several: GOOGLE_CHAT_SPACE_ID has to name one of %s", strings.Join(names, ", "))
	}
	s.answers["GOOGLE_CHAT_SPACE_ID"] = names[0]
	return nil
}

// testCard posts a card, and waits until its button is tapped. Who tapped it is told, and may answer where the person here says
// so. Where the person is known, only their tap counts.
func (s *setup) testCard(ctx context.Context, app *gchat.App) error {
	id := strings.ReplaceAll(uuid.NewString(), "-", "")
	const please = "gchat-hooks can write here. Tap the button, and it knows that your taps arrive."
	card := gchat.Post{Text: "[Setup] " + please, Card: gchat.StoredCard(wording.NoticeCard(please, app.CardID(id))), MessageID: "client-" + id}
	if _, err := app.Post(ctx, card); err != nil {
		return s.cannot("", err)
	}
	fmt.Fprintln(s.out, "A card is in Google Chat. Please tap its button.")
	over := func(words string) {
		name := gchat.MessageName(app.Space, card.MessageID)
		_ = app.Patch(context.WithoutCancel(ctx), name, "[Setup] "+words, gchat.StoredCard(wording.NoticeCard(words, "")))
	}
	ctx, cancel := context.WithTimeout(ctx, s.flags.Duration("wait"))
	defer cancel()
	heard := errors.New("no tap arrived")
	for ctx.Err() == nil {
		events, err := app.Pull(ctx)
		if err != nil && ctx.Err() == nil && !errors.Is(err, gchat.ErrConnectionLost) {
			over("Setup could not read the taps. Please run it again.")
			return s.cannot("", err)
		}
		var acks []string // of what setup caused; the others may answer questions, and come again for the poller
		var by *gchat.Person
		for _, one := range events {
			greets := one.Type == "MESSAGE" && !one.Message.Reply && one.Message.Quotes == ""
			if greets || one.Type == "ADDED_TO_SPACE" {
				acks = append(acks, one.AckID)
			}
			if one.Tap != nil && one.Tap.Question == id {
				acks = append(acks, one.AckID)
				if s.person == "" || s.person == one.By.Name {
					by = &one.By
				}
			}
			heard = cmp.Or(one.Err, heard)
		}
		if len(acks) > 0 {
			_ = app.Ack(ctx, acks) // one that is not acknowledged comes again, and is told that nothing waits for it
		}
		if by != nil {
			over("Your taps arrive. This card has done its work.")
			return s.letAnswer(ctx, *by)
		}
		if len(events) == 0 {
			time.Sleep(100 * time.Millisecond) // what stands in for Google may not wait
		}
	}
	over("No tap arrived in time. Please run setup again.")
	if s.person != "" {
		return failed(heard, "all is set up; gchat-hooks doctor tells whether the hub works", exitFailed)
	}
	const look = "see that the topic's publisher is chat-api-push@system.gserviceaccount.com, that the app's connection is " +
		"Cloud Pub/Sub with that topic, and that it is no Workspace add-on; then run gchat-hooks setup --app again"
	return failed(heard, look, exitFailed)
}

// letAnswer offers to put on the list who tapped.
func (s *setup) letAnswer(ctx context.Context, by gchat.Person) error {
	s.done("tap", "%s (%s) tapped", wording.Line(by.DisplayName), wording.Line(by.Name))
	may := s.config().AllowedUsers
	if slices.Contains(may, by.Name) || !config.IsPerson(by.Name) && by.Name != "users/local-human" || !s.ask.terminal {
		return nil
	}
	if yes, err := s.ask.yes(ctx, "Is that you, and may this person answer for you?", false); err != nil || !yes {
		return cmp.Or(err, failed(errors.New("another person tapped"), "gchat-hooks setup --app, and tap first", exitFailed))
	}
	return config.SetMember(state.ConfigFile(s.env), "allowed_users", append(may, by.Name))
}

// joinCode is the code that the app wrote: typed at the terminal, which does not show it,
// or the first line of stdin. It is on no command line, which other users of the machine
// can read.
func (s *setup) joinCode(ctx context.Context) (string, error) {
	const hint = "write join to the app in Google Chat: it answers with the code"
	if s.ask.terminal && !s.flags.IsSet("code") {
		code, err := s.ask.secret(ctx, "Paste the code that the app answered to: join")
		if err == nil && code == "" {
			err = failed(errors.New("no code was pasted"), hint, exitFailed)
		}
		return code, err
	}
	if !s.flags.IsSet("code") {
		return "", usage(errors.New("without a terminal, --code - reads the code from stdin"), hint)
	}
	code, err := s.ask.answer(ctx, s.ask.next())
	if code == "" && ctx.Err() == nil {
		err = failed(errors.New("no code came on stdin"), hint, exitFailed)
	}
	return code, err
}

// hub joins this machine to the hub of a team, and writes down that questions go there.
// Killed anywhere, the same line and code do the rest: the hub gives this machine the same
// answer again.
func (s *setup) hub(ctx context.Context) error {
	code, err := s.joinCode(ctx)
	if err != nil {
		return err
	}
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
	s.done("hub", "%s takes this machine as %s's; questions go to %s", wording.Line(hub.URL), wording.Line(who), hub.Space)
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
