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

// appCloudSteps is what a person does in Google Cloud before a Chat app can be tried. In
// it, PROJECT stands for their project and SUBSCRIPTION for this machine's subscription.
//
//go:embed setup_app_cloud.txt
var appCloudSteps string

// appPageSteps is what to enter on the Chat app's page, which no program can fill in.
//
//go:embed setup_app_page.txt
var appPageSteps string

const appChatSteps = `
In Google Chat: New chat, enter the app's name, and send it any message. A direct message is private, and the app reads
all that you write there. If Chat does not find the app, add yourself to its Visibility.
`

// connectApp leads a person to a Chat app whose taps arrive. Each step is tried by
// calling Google. At a terminal it is tried until it works.
func (s *setupWizard) connectApp(ctx context.Context) error {
	if s.connection() != chatAppName {
		s.replaced = s.loadConfig().AppConnection()
	}
	for _, variable := range []string{
		"GOOGLE_CHAT_SPACE_ID", "GOOGLE_CHAT_CREDENTIALS_FILE",
		"GCHAT_API_ENDPOINT", "GCHAT_PUBSUB_ENDPOINT", "GCHAT_PUBSUB_SUBSCRIPTION",
	} {
		s.answers[variable] = strings.TrimSpace(os.Getenv(variable))
	}
	if file := s.flags.String("credentials-file"); file != "" {
		s.answers["GOOGLE_CHAT_CREDENTIALS_FILE"], _ = filepath.Abs(file)
	}
	project, err := s.askCloudProject(ctx)
	if err != nil {
		return err
	}
	_, subscription, _ := strings.Cut(s.loadConfig().Subscription, "/subscriptions/")
	key := s.appKeyFile()
	placeholders := strings.NewReplacer(
		"PROJECT", project, "SUBSCRIPTION", subscription, "KEY", key, "DIR", filepath.Dir(key))
	var app *gchat.App
	for _, step := range []struct {
		name, result, instructions string
		try                        func() error
	}{
		{"events", "the subscription can be read", placeholders.Replace(appCloudSteps), func() (err error) {
			app, err = s.newApp(ctx)
			if err == nil {
				err = app.CheckPullAccess(ctx)
			}
			return err
		}},
		{"app", "Google Chat knows the app", placeholders.Replace(appPageSteps), func() error {
			_, err := app.Spaces(ctx)
			return err
		}},
		{"space", "the app is in the space", appChatSteps, func() error { return s.chooseAppSpace(ctx, app) }},
	} {
		for err := step.try(); err != nil; err = step.try() {
			if !s.asker.isInteractive || ctx.Err() != nil {
				return s.stepError(step.name+": ", err)
			}
			fmt.Fprintf(s.out, "%s\nNot yet: %s\n→ %s\n",
				step.instructions, s.errorText(err), gchat.AppHint(err))
			if _, err := s.asker.askLine(ctx, "Press Enter when that is done:"); err != nil {
				return err
			}
		}
		s.printStep(step.name, "%s", step.result)
	}
	app, err = s.newApp(ctx)
	if err != nil {
		return err
	}
	if err := s.tryTestCard(ctx, app); err != nil {
		return err
	}
	return s.saveAnswers()
}

// askCloudProject returns the Cloud project that the configured subscription names. If
// none is configured, it asks for the project and names a subscription for this machine.
// Each machine needs its own: Pub/Sub gives each event of a subscription to one reader
// only.
func (s *setupWizard) askCloudProject(ctx context.Context) (string, error) {
	for s.loadConfig().Subscription == "" {
		if !s.asker.isInteractive {
			err := fmt.Errorf("GCHAT_PUBSUB_SUBSCRIPTION is %q", s.answers["GCHAT_PUBSUB_SUBSCRIPTION"])
			return "", usageError(err, "set it to projects/PROJECT/subscriptions/NAME")
		}
		project, err := s.asker.askLine(ctx,
			"The Cloud project's id (make one at https://console.cloud.google.com/projectcreate):")
		if err != nil {
			return "", err
		}
		name := nonNameChars().ReplaceAllString(state.MachineName(), "-") +
			"-" + state.CardID(s.getenv, "of its own")[:6]
		s.answers["GCHAT_PUBSUB_SUBSCRIPTION"] = "projects/" + project + "/subscriptions/gchat-hooks-" + name
	}
	return strings.Split(s.loadConfig().Subscription, "/")[1], nil
}

// nonNameChars matches what our name of a subscription leaves out. Google allows a few
// more characters: https://cloud.google.com/pubsub/docs/pubsub-basics#resource_names
var nonNameChars = state.LazyPattern(`[^A-Za-z0-9-]+`)

// appKeyFile is where setup looks for the service account's key.
func (s *setupWizard) appKeyFile() string {
	return filepath.Join(state.ConfigDir(s.getenv), "app-key.json")
}

// newApp returns a client of the app, as far as it is configured at this point.
func (s *setupWizard) newApp(ctx context.Context) (*gchat.App, error) {
	file := s.loadConfig().CredentialsFile
	hasOwnFile := file != "" && file != config.LoginFile(s.getenv) // a login is no app's
	if _, err := os.Stat(s.appKeyFile()); err == nil && !hasOwnFile {
		s.answers["GOOGLE_CHAT_CREDENTIALS_FILE"] = s.appKeyFile()
	}
	cfg := s.loadConfig()
	// a placeholder until chooseAppSpace finds the space
	cfg.SpaceID = cmp.Or(cfg.SpaceID, "spaces/-")
	if len(cfg.Problems) > 0 {
		return nil, cfg.Problems[0]
	}
	return gchat.NewApp(ctx, cfg)
}

// chooseAppSpace chooses the space that the app writes to: the configured one, else its
// only direct message, else the only space that it is in.
func (s *setupWizard) chooseAppSpace(ctx context.Context, app *gchat.App) error {
	chatSpaces, err := app.Spaces(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, space := range chatSpaces {
		names = append(names, space.Name)
	}
	switch configured := s.loadConfig().SpaceID; {
	case slices.Contains(names, configured):
		return nil
	case configured != "":
		return fmt.Errorf("the app is not in %s", configured)
	case len(names) == 0:
		return errors.New("the app is in no space, and in no direct message")
	case len(names) > 1 && (chatSpaces[0].SpaceType != "DIRECT_MESSAGE" || chatSpaces[1].SpaceType == "DIRECT_MESSAGE"):
		return fmt.Errorf("the app is in several spaces: set GOOGLE_CHAT_SPACE_ID to one of %s",
			strings.Join(names, ", "))
	}
	s.answers["GOOGLE_CHAT_SPACE_ID"] = names[0]
	return nil
}

// tryTestCard posts a card and waits until somebody taps its button. It prints who
// tapped, and asks the person at the terminal whether that person may answer. If
// expectedTapper is set, only that person's tap counts.
func (s *setupWizard) tryTestCard(ctx context.Context, app *gchat.App) error {
	id := strings.ReplaceAll(uuid.NewString(), "-", "")
	const request = "gchat-hooks can write here. Tap the button to show that your taps arrive."
	card := gchat.Post{
		Text:      "[Setup] " + request,
		Card:      gchat.StoredCard(wording.NoticeCard(request, app.CardID(id))),
		MessageID: "client-" + id,
	}
	if _, err := app.Post(ctx, card); err != nil {
		return s.stepError("", err)
	}
	fmt.Fprintln(s.out, "A card is in Google Chat. Please tap its button.")
	closeCard := func(text string) {
		name := gchat.MessageName(app.Space, card.MessageID)
		closed := gchat.StoredCard(wording.NoticeCard(text, ""))
		_ = app.Patch(context.WithoutCancel(ctx), name, "[Setup] "+text, closed)
	}
	ctx, cancel := context.WithTimeout(ctx, s.flags.Duration("wait"))
	defer cancel()
	failure := errors.New("no tap arrived")
	for ctx.Err() == nil {
		events, err := app.Pull(ctx)
		if err != nil && ctx.Err() == nil && !errors.Is(err, gchat.ErrConnectionLost) {
			closeCard("Setup could not read the taps. Please run it again.")
			return s.stepError("", err)
		}
		// Setup acknowledges only the events that it caused. Other events may answer
		// questions: Pub/Sub delivers them again, to the poller.
		var acks []string
		var tapper *gchat.Person
		for _, event := range events {
			isGreeting := event.Type == "MESSAGE" && !event.Message.IsReply &&
				event.Message.QuotedMessage == ""
			if isGreeting || event.Type == "ADDED_TO_SPACE" {
				acks = append(acks, event.AckID)
			}
			if event.Tap != nil && event.Tap.QuestionID == id {
				acks = append(acks, event.AckID)
				if s.expectedTapper == "" || s.expectedTapper == event.Person.Name {
					tapper = &event.Person
				}
			}
			failure = cmp.Or(event.Err, failure)
		}
		if len(acks) > 0 {
			// Without this, the poller would get the tap and tell its sender that no
			// question has this card.
			_ = app.Ack(ctx, acks)
		}
		if tapper != nil {
			closeCard("Your taps arrive. There is nothing more to do here.")
			return s.offerAllow(ctx, *tapper)
		}
		if len(events) == 0 {
			time.Sleep(100 * time.Millisecond) // a server other than Google's may answer at once
		}
	}
	closeCard("No tap arrived in time. Please run setup again.")
	if s.expectedTapper != "" {
		return exitError(failure,
			"everything is set up; gchat-hooks doctor says whether the hub works", exitFailed)
	}
	return exitError(failure, "check that the topic's publisher is "+
		"chat-api-push@system.gserviceaccount.com, that the app's connection is Cloud Pub/Sub "+
		"with that topic, and that it is no Workspace add-on; "+
		"then run gchat-hooks setup --app again", exitFailed)
}

// offerAllow offers to allow the person who tapped to answer.
func (s *setupWizard) offerAllow(ctx context.Context, tapper gchat.Person) error {
	s.printStep("tap", "%s (%s) tapped",
		wording.SafeLine(tapper.DisplayName), wording.SafeLine(tapper.Name))
	allowed := s.loadConfig().AllowedUsers
	if slices.Contains(allowed, tapper.Name) ||
		!config.IsPersonName(tapper.Name) && tapper.Name != "users/local-human" ||
		!s.asker.isInteractive {
		return nil
	}
	isSame, err := s.asker.askYesNo(ctx, "Is that you, and may this person answer for you?", false)
	if err != nil || !isSame {
		notSame := exitError(errors.New("another person tapped"), "gchat-hooks setup --app, and tap first", exitFailed)
		return cmp.Or(err, notSame)
	}
	return config.SetMember(state.ConfigFile(s.getenv), "allowed_users", append(allowed, tapper.Name))
}

// readJoinCode reads the code that the Chat app wrote. The person types it at the
// terminal, which does not show it, or it is the first line of stdin. It is never an
// argument: other users of the machine can read command lines.
func (s *setupWizard) readJoinCode(ctx context.Context) (string, error) {
	const hint = "write join to the app in Google Chat: it answers with the code"
	if s.asker.isInteractive && !s.flags.IsSet("code") {
		code, err := s.asker.askSecret(ctx, "Write join to the app in Google Chat, and paste the code that it sends (it is not shown):")
		if err == nil && code == "" {
			err = exitError(errors.New("no code was pasted"), hint, exitFailed)
		}
		return code, err
	}
	if !s.flags.IsSet("code") {
		err := errors.New("there is no terminal to ask on: give --code -, and the code on stdin")
		return "", usageError(err, hint)
	}
	code, err := s.asker.readLine(ctx, s.asker.nextLine())
	if code == "" && ctx.Err() == nil {
		err = exitError(errors.New("no code came on stdin"), hint, exitFailed)
	}
	return code, err
}

// joinHub joins this machine to a team's hub, and saves that questions go there. If it is
// killed at any point, running it again with the same code does the rest: the hub gives
// this machine the same answer again.
func (s *setupWizard) joinHub(ctx context.Context) error {
	code, err := s.readJoinCode(ctx)
	if err != nil {
		return err
	}
	nonce := state.JoinNonce(s.getenv, code)
	hub, err := gchat.JoinHub(ctx, s.flags.String("hub"), code, nonce, version())
	if err != nil {
		return s.stepError("", err)
	}
	// The lock is held until setup ends: a poller that starts with the new configuration
	// must not take the tap on the test card.
	s.pullLock, _ = state.SpacesIn(state.UserStateDir(s.getenv)).LockReader(hub.Subscription)
	file := filepath.Join(state.ConfigDir(s.getenv), "hub.json")
	allowed := append([]string{hub.User}, hub.Deciders...)
	if err := config.SetMember(state.ConfigFile(s.getenv), "allowed_users", allowed); err != nil {
		return err
	}
	if err := hub.Save(file); err != nil {
		return err
	}
	// saveAnswers writes these in the order of the settings, the endpoints last. So no
	// other credentials are ever sent to the hub.
	s.answers = map[string]string{
		"GOOGLE_CHAT_SPACE_ID": hub.Space, "GOOGLE_CHAT_CREDENTIALS_FILE": file, "GCHAT_API_ENDPOINT": hub.URL,
		"GCHAT_PUBSUB_SUBSCRIPTION": hub.Subscription, "GCHAT_PUBSUB_ENDPOINT": hub.URL,
	}
	s.expectedTapper = hub.User
	user := cmp.Or(hub.Email, hub.User)
	s.printStep("hub", "joined %s: this machine is %s's, and questions go to %s",
		wording.SafeLine(hub.URL), wording.SafeLine(user), hub.Space)
	if err := s.saveAnswers(); err != nil {
		return err
	}
	// Messages that waited because the last token was refused are sent now.
	app, err := gchat.NewApp(ctx, s.loadConfig())
	if err == nil {
		spaces := state.SpacesIn(state.UserStateDir(s.getenv))
		_, err = spaces.Change(app.Chat(), func(space *state.Space) {
			clear(space.PausedWebhooks)
		})
	}
	return cmp.Or(err, s.retryNow(false))
}

// tryHubCard asks the person to tap a card: that shows that questions and answers pass
// through the hub.
func (s *setupWizard) tryHubCard(ctx context.Context) error {
	if s.sendOnly || s.flags.IsSet("round-trip") && !s.flags.Bool("round-trip") {
		return nil
	}
	app, err := gchat.NewApp(ctx, s.loadConfig())
	if err != nil {
		return s.stepError("", err)
	}
	return s.tryTestCard(ctx, app)
}
