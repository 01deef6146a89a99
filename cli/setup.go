package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"gchat-hooks/cli/doctor"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/login"
	"gchat-hooks/gchat/space"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/poller/service"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

func (p Program) setupCommand() *cli.Command {
	return &cli.Command{
		Name: "setup",
		Usage: "connect Claude Code to Google Chat, or to a page on this machine: " +
			"asks for what is missing, tries it, and saves it",
		Description: "On a terminal:  gchat-hooks setup\n" +
			"No Google:      gchat-hooks setup --space\n" +
			"With a phone:   gchat-hooks setup --space --phone (from anywhere: with --https HOST)\n" +
			"In a script:    GOOGLE_CHAT_WEBHOOK_URL=... gchat-hooks setup --credentials-file key.json --allow users/123\n" +
			"                gchat-hooks setup --space --phone --service --round-trip=false\n" +
			"In a team:      gchat-hooks setup --hub https://...   (write join to the Chat app: it answers with a code)\n" +
			"What is configured already is not asked again. Without a terminal nothing is asked.",
		Flags: append([]cli.Flag{
			&cli.BoolFlag{
				Name:  "app",
				Usage: "a Chat app in place of the webhook: questions have buttons to tap",
			},
			&cli.StringFlag{
				Name:  "hub",
				Usage: "join the hub at `URL`, which has your team's Chat app",
			},
			&cli.StringFlag{
				Name:  "code",
				Usage: "with --hub, `-`: read from stdin the code that the app sends when you write join",
			},
			&cli.BoolFlag{Name: "space", Usage: "the built-in page in place of Google Chat"},
			&cli.BoolFlag{
				Name:  "phone",
				Usage: "with --space: let a phone reach its page; prints a QR code of the link",
			},
			listenFlag(),
			&cli.StringFlag{
				Name:  "client-id-file",
				Usage: "log in with the OAuth client's JSON `FILE`",
			},
			&cli.StringFlag{
				Name:  "credentials-file",
				Usage: "`FILE` of the credentials that replies are read with (or $GOOGLE_CHAT_CREDENTIALS_FILE)",
			},
			&cli.BoolFlag{Name: "send-only", Usage: "do not read replies"},
			&cli.BoolFlag{Name: "no-browser", Usage: "print the address to log in at, and open no browser"},
			&cli.StringSliceFlag{
				Name:  "allow",
				Usage: "`users/ID` or e-mail that may answer (or $GCHAT_ALLOWED_USERS)",
			},
			&cli.BoolFlag{
				Name:  "round-trip",
				Usage: "wait for your reply to a test message (default on a terminal)",
			},
			&cli.DurationFlag{
				Name:  "wait",
				Value: 5 * time.Minute,
				Usage: "`TIME` to wait for that reply",
			},
			&cli.BoolFlag{
				Name:  "no-hooks",
				Usage: "do not register the hooks, because the plugin does",
			},
			&cli.StringSliceFlag{
				Name:  "preset",
				Usage: "`NAME` of the hooks to register: see gchat-hooks install --help",
			},
			&cli.BoolFlag{
				Name:  "approve",
				Usage: "answer permissions, plans and the next instruction, too: preset approve",
			},
			&cli.BoolFlag{
				Name:  "start-sessions",
				Usage: "let Chat resume and start sessions in tmux (setup asks)",
			},
			&cli.BoolFlag{
				Name:  "service",
				Usage: "with --space: have the system keep the page's server running (setup asks)",
			},
			notifyFlag(),
		}, httpsFlags()...),
		Action: func(c *cli.Context) error {
			s := &setupWizard{
				Program: p,
				flags:   c,
				asker:   newAsker(p.in, p.out),
				answers: map[string]string{},
			}
			return s.run(c.Context)
		},
	}
}

// setupWizard leads a person from nothing to the first answered question. Each step tries
// what the person entered, then writes it into their configuration. A step that finds its
// result in the configuration asks nothing. So setup can be stopped at any point and run
// again, and it does not ask for what a person has configured by hand.
type setupWizard struct {
	Program
	flags *cli.Context
	asker *asker
	// what the person entered and setup has not saved yet, by the name of its variable
	answers map[string]string
	// the variables of settings that the answers replace: see Config.AppConnection
	replaced    []string
	sendOnly    bool         // replies are not read
	spaceServer *spaceServer // nil unless questions go to the embedded space
	pageURL     string       // the address of the embedded space's page
	// the person (users/ID) whose tap on the test card counts; "" for anybody
	expectedTapper string
	pullLock       *state.Lock // keeps pollers from reading the hub's subscription
	redactor       state.Redactor
}

func (s *setupWizard) run(ctx context.Context) error {
	s.sendOnly = s.flags.Bool("send-only")
	if err := s.checkFlags(); err != nil {
		return err
	}
	for _, problem := range s.loadConfig().Problems {
		if errors.Is(problem, config.ErrUnreadableFile) && !errors.Is(problem, config.ErrFileGone) {
			// Setup could not save anything in that file.
			return s.stepError("", problem)
		}
	}
	for _, step := range s.steps() {
		err := step(ctx)
		if ctx.Err() != nil {
			return errStopped
		}
		if err != nil {
			return err
		}
	}
	where := s.answerPlace()
	if s.sendOnly {
		where = "in the terminal; the question is shown " + where
	}
	fmt.Fprintf(s.out, "\nDone. Now start claude in a project, and tell it:  "+
		"ask me a question with three options\n"+
		"Answer %s\nIf nothing comes:  %s doctor\n", where, s.shellName())
	return nil
}

// checkFlags returns an error if setup cannot run with these flags.
func (s *setupWizard) checkFlags() error {
	joins, hasCode := s.flags.IsSet("hub"), s.flags.IsSet("code")
	switch {
	case hasCode && !joins, joins && (s.flags.Bool("app") || s.flags.Bool("space")):
		err := errors.New("--code needs --hub, and --hub cannot be used with --app or --space")
		return usageError(err,
			"write join to the app in Google Chat: it answers with the line to run")
	case hasCode && s.flags.String("code") != "-":
		err := errors.New("a code on the command line can be read by every user of this machine")
		return usageError(err, "leave --code out, and paste the code when setup asks; "+
			"in a script: --code - reads it from stdin")
	}
	if err := s.checkNotifyFlag(); err != nil {
		return err
	}
	for _, person := range s.flags.StringSlice("allow") {
		if !strings.HasPrefix(person, "users/") && !strings.Contains(person, "@") {
			return usageError(fmt.Errorf("%q is neither users/ID nor an e-mail address", person),
				allowHint)
		}
	}
	return nil
}

// allowHint says how to put a person on the list of those who may answer.
const allowHint = "gchat-hooks setup --allow users/ID; reply to a question, and its thread names your id"

// steps are what setup does: for a hub, for a Chat app, and for a webhook or the embedded
// space.
func (s *setupWizard) steps() []func(context.Context) error {
	switch {
	case s.flags.IsSet("hub"):
		return []func(context.Context) error{
			s.reportingReplaced(s.joinHub),
			s.allowPeople, s.registerHooks, s.tryHubCard, s.offerNotify,
		}
	case s.flags.Bool("app"):
		return []func(context.Context) error{
			s.reportingReplaced(s.connectApp),
			s.allowPeople, s.registerHooks, s.offerNotify,
		}
	}
	return []func(context.Context) error{
		s.reportingReplaced(s.connectSpace),
		s.setUpReading,
		s.allowPeople,
		s.tryRoundTrip,
		s.registerHooks,
		s.offerSpaceService,
		s.offerNotify,
	}
}

const chatAppName = "the Chat app"

// connection names what questions go through; "" if nothing is connected.
func (s *setupWizard) connection() string {
	cfg := s.loadConfig()
	hub := gchat.LoadHubClient(cfg.CredentialsFile)
	switch {
	case cfg.UsesEmbeddedApp():
		return "the page"
	case cfg.ReceivesEvents() && hub != nil:
		return "the hub " + wording.SafeLine(hub.URL)
	case cfg.ReceivesEvents():
		return chatAppName
	case cfg.CanSend():
		return "the webhook"
	}
	return ""
}

// reportingReplaced returns a step that also says what the step replaced, and whether the
// policy of a hub still counts that the machine joined and does not use.
func (s *setupWizard) reportingReplaced(
	connect func(context.Context) error,
) func(context.Context) error {
	return func(ctx context.Context) error {
		before := s.connection()
		if err := connect(ctx); err != nil {
			return err
		}
		if before != "" && before != s.connection() {
			s.printStep("replaced", "%s is not used any more", before)
		}
		cfg := s.loadConfig()
		for file, hub := range cfg.JoinedHubs(s.getenv) {
			if file != cfg.CredentialsFile {
				s.printStep("policy", "the policy of %s still counts, until you delete %s",
					wording.SafeLine(hub), file)
			}
		}
		return nil
	}
}

// usesApp reports whether questions go to a Chat app of Google's, or to a hub.
func (s *setupWizard) usesApp() bool {
	cfg := s.loadConfig()
	return cfg.ReceivesEvents() && !cfg.UsesEmbeddedApp()
}

// answerPlace is where the person will see questions.
func (s *setupWizard) answerPlace() string {
	switch {
	case s.spaceServer != nil:
		return "on the page, " + s.pageURL
	case s.loadConfig().UsesChatPage():
		return "on the page; its link again:  " + s.shellName() + " space"
	}
	return "in Google Chat"
}

// getenv is the environment that setup loads the configuration with. The answers stand in
// place of this shell's settings, and the project is a folder without project files. So
// the configuration is what the daemon and other shells will get.
func (s *setupWizard) getenv(name string) string {
	switch {
	case name == "CLAUDE_PROJECT_DIR":
		return state.ConfigDir(os.Getenv)
	case slices.Contains(config.FileVariables(), name):
		return s.answers[name]
	}
	return os.Getenv(name)
}

func (s *setupWizard) loadConfig() *config.Config {
	return config.LoadIgnoring(s.getenv, state.ConfigDir(s.getenv), s.replaced)
}

// saveAnswers writes the answers into the configuration. They have been tried. Before
// that it removes what they replace, the endpoints before the credentials: no other
// credentials are ever sent to a hub.
func (s *setupWizard) saveAnswers() error {
	file := state.ConfigFile(s.getenv)
	usesSpace := s.answers["GCHAT_PUBSUB_SUBSCRIPTION"] == space.Subscription
	answers, replaced := s.answers, s.replaced
	s.answers, s.replaced = map[string]string{}, nil
	for _, setting := range slices.Backward(config.AllSettings()) {
		if slices.Contains(replaced, setting.Variable) {
			if err := config.SetMember(file, setting.JSONName, nil); err != nil {
				return err
			}
		}
	}
	for _, setting := range config.AllSettings() {
		if answer := answers[setting.Variable]; answer != "" {
			if err := config.SetMember(file, setting.JSONName, answer); err != nil {
				return err
			}
		}
	}
	if usesSpace {
		return config.SetMember(file, "webhook_url", nil)
	}
	return nil
}

// flagOrAsk returns the value of a flag. If the flag is not given, it asks the person.
// Without a terminal it asks nothing.
func (s *setupWizard) flagOrAsk(ctx context.Context, flag, question string, defaultYes bool) (bool, error) {
	if s.flags.IsSet(flag) || !s.asker.isInteractive {
		return s.flags.Bool(flag), nil
	}
	return s.asker.askYesNo(ctx, question, defaultYes)
}

// printStep prints the result of a step in a line.
func (s *setupWizard) printStep(name, format string, args ...any) {
	fmt.Fprintf(s.out, "ok    %-9s %s\n", name, fmt.Sprintf(format, args...))
}

// errorText is an error's text for the screen, without the webhook's URL: a server's
// answer may quote the URL.
func (s *setupWizard) errorText(err error) string {
	s.redactor.AddSecrets(s.answers["GOOGLE_CHAT_WEBHOOK_URL"])
	return state.Clean(state.ForTerminal, s.redactor.Redact(err.Error()))
}

// stepError ends setup with an error of Google Chat or of the connection to it.
func (s *setupWizard) stepError(prefix string, err error) error {
	hint := doctor.Hint(err)
	switch {
	case s.flags.Bool("app"):
		hint = gchat.AppHint(err)
	case errors.Is(err, config.ErrNoWebhook) && !errors.Is(err, config.ErrUnreadableFile):
		hint = "GOOGLE_CHAT_WEBHOOK_URL='https://...' gchat-hooks setup; or without Google: gchat-hooks setup --space"
	}
	return exitError(errors.New(prefix+s.errorText(err)), hint, exitFailed)
}

// connectSpace finds out where questions go. It saves a webhook's URL only after a
// message was posted with it.
func (s *setupWizard) connectSpace(ctx context.Context) error {
	// of the files' configuration: there are no answers yet
	knownID, old := s.transportID(ctx), s.loadConfig()
	for _, variable := range []string{"GOOGLE_CHAT_WEBHOOK_URL", "GOOGLE_CHAT_SPACE_ID", "GCHAT_API_ENDPOINT"} {
		s.answers[variable] = strings.TrimSpace(os.Getenv(variable))
	}
	usesSpace := s.flags.Bool("space") || s.flags.Bool("phone") || s.flags.IsSet("https")
	for {
		if usesSpace {
			if err := s.connectEmbeddedSpace(); err != nil {
				return err
			}
		}
		isNewSpace := usesSpace && !old.UsesEmbeddedApp()
		if isNewSpace || s.answers["GOOGLE_CHAT_WEBHOOK_URL"] != "" {
			s.replaced = old.AppConnection()
		}
		err := s.tryTransport(ctx, knownID)
		switch {
		case err == nil:
			return s.saveAnswers()
		case !s.asker.isInteractive || usesSpace || ctx.Err() != nil:
			return s.stepError("", err)
		case errors.Is(err, config.ErrNoWebhook):
			fmt.Fprintln(s.out, "\nQuestions go to a Google Chat space through a webhook. "+
				"In the space: Apps & integrations > Webhooks > Add.")
		default:
			fmt.Fprintln(s.out, "That did not work:", s.errorText(err))
		}
		pasted, err := s.asker.askSecret(ctx, "Paste its URL here (it is not shown), "+
			"or press Enter to answer on a page on this machine, without Google:")
		if err != nil {
			return err
		}
		s.answers["GOOGLE_CHAT_WEBHOOK_URL"] = pasted
		usesSpace = pasted == "" || strings.EqualFold(pasted, "space")
	}
}

// transport carries questions into a space: a webhook or a Chat app.
type transport interface {
	Post(context.Context, gchat.Post) (gchat.PostedMessage, error)
	Chat() string
	ID() string
}

func (s *setupWizard) transport(ctx context.Context) (transport, error) {
	if s.loadConfig().ReceivesEvents() {
		return gchat.NewApp(ctx, s.loadConfig())
	}
	return gchat.NewWebhook(ctx, s.loadConfig())
}

// transportID identifies the transport. It is "" if none is configured.
func (s *setupWizard) transportID(ctx context.Context) string {
	target, err := s.transport(ctx)
	if err != nil {
		return ""
	}
	return target.ID()
}

// tryTransport prints where questions go. It first posts a test message there, unless the
// transport is the one that was configured before.
func (s *setupWizard) tryTransport(ctx context.Context, knownID string) error {
	target, err := s.transport(ctx)
	if err != nil {
		return err
	}
	if s.spaceServer == nil && knownID != target.ID() { // the embedded space needs no test
		text := "[Setup] gchat-hooks can write here: " +
			"questions of Claude Code sessions will appear here."
		if _, err := target.Post(ctx, gchat.Post{Text: text}); err != nil {
			return err
		}
		fmt.Fprintln(s.out, "A test message is in Chat.")
	}
	switch cfg := s.loadConfig(); {
	case cfg.UsesEmbeddedApp():
		s.printStep("page", "questions go to %s", s.connection())
	case cfg.ReceivesEvents():
		s.printStep("app", "questions go to %s", s.connection())
	default:
		s.printStep("webhook", "questions go to %s", wording.SafeLine(target.Chat()))
	}
	return nil
}

// connectEmbeddedSpace makes questions go to the embedded space. If the space does not
// run at the address, it starts it.
func (s *setupWizard) connectEmbeddedSpace() (err error) {
	s.spaceServer, err = newSpaceServer(s.Program, s.flags)
	if err != nil {
		return err
	}
	if err := s.spaceServer.public.check(); err != nil {
		return err
	}
	embedded, ln, err := s.spaceServer.listen()
	if err != nil {
		return err
	}
	if ln != nil { // no other process serves it, and this address works: start it there
		err = errors.Join(ln.Close(), embedded.Close())
		if err == nil && !s.startDetachedSpace(s.spaceServer.flags()) {
			err = errors.New("the page's server did not start")
			err = exitError(err, "gchat-hooks logs says why", exitFailed)
		}
		if err != nil {
			return err
		}
	}
	endpoint := embedded.APIEndpoint(s.spaceServer.baseURL())
	s.answers = map[string]string{
		"GOOGLE_CHAT_SPACE_ID": space.Name, "GCHAT_PUBSUB_SUBSCRIPTION": space.Subscription,
		"GCHAT_API_ENDPOINT": endpoint, "GCHAT_PUBSUB_ENDPOINT": endpoint,
	}
	s.pageURL = s.spaceServer.pageURLs(embedded)[0]
	s.spaceServer.printPages(embedded)
	return nil
}

// setUpReading finds credentials to read replies with, and tries them on the space.
func (s *setupWizard) setUpReading(ctx context.Context) error {
	if s.usesApp() { // replies come through its subscription
		return nil
	}
	file := cmp.Or(s.flags.String("credentials-file"), os.Getenv("GOOGLE_CHAT_CREDENTIALS_FILE"))
	if file != "" && s.spaceServer == nil {
		s.answers["GOOGLE_CHAT_CREDENTIALS_FILE"], _ = filepath.Abs(file)
	}
	if file := s.flags.String("client-id-file"); file != "" && s.spaceServer == nil {
		if err := s.useCredentials(ctx, file); err != nil {
			return err
		}
	}
	for !s.sendOnly {
		err := doctor.CheckReading(ctx, doctor.Options{Env: s.getenv})
		if err == nil {
			s.printStep("reading", "replies can be read")
			return s.saveAnswers()
		}
		if !s.asker.isInteractive || s.spaceServer != nil || ctx.Err() != nil {
			return s.stepError("replies cannot be read (--send-only skips this): ", err)
		}
		fmt.Fprintln(s.out, "\nYour replies cannot be read yet:", s.errorText(err))
		fmt.Fprintln(s.out, "Reading needs an OAuth client (type Desktop app, see docs/connect.md), "+
			"or a service account's key.")
		path, err := s.asker.askLine(ctx,
			"Path of its JSON file (or press Enter to only send, and answer in the terminal):")
		if err != nil {
			return err
		}
		if path == "" {
			s.sendOnly = true
		} else if err := s.useCredentials(ctx, path); err != nil {
			fmt.Fprintln(s.out, "That did not work:", s.errorText(err))
		}
	}
	s.printStep("reading", "not set up: questions are posted, and answered in the terminal")
	return nil
}

// useCredentials uses the credentials in a file. If the file is an OAuth client's, it
// logs the person in with that.
func (s *setupWizard) useCredentials(ctx context.Context, path string) error {
	delete(s.answers, "GOOGLE_CHAT_CREDENTIALS_FILE")
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(state.Home(s.getenv), rest)
	}
	b, err := state.ReadPlainOrLink(path, state.MaxFileSize)
	if err != nil {
		return err
	}
	var credentials struct{ Type string } // an OAuth client's file has no type
	if json.Unmarshal(b, &credentials) == nil && credentials.Type != "" {
		s.answers["GOOGLE_CHAT_CREDENTIALS_FILE"], err = filepath.Abs(path)
		return err
	}
	return logIn(ctx, login.Options{
		ClientFile: path, Getenv: s.getenv, Out: s.out, NextLine: s.asker.nextLine, NoBrowser: s.flags.Bool("no-browser"),
	})
}

// allowPeople saves who may answer: the people of --allow and GCHAT_ALLOWED_USERS, and
// the embedded space's person. A login has added its own person already.
func (s *setupWizard) allowPeople(ctx context.Context) error {
	allowed := s.loadConfig().AllowedUsers
	before := len(allowed)
	wanted := append(
		s.flags.StringSlice("allow"),
		strings.Split(os.Getenv("GCHAT_ALLOWED_USERS"), ",")...)
	if s.spaceServer != nil {
		wanted = append(wanted, space.PersonName)
	}
	for _, person := range wanted {
		person = strings.TrimSpace(person)
		if person != "" && !slices.Contains(allowed, person) {
			allowed = append(allowed, person)
		}
	}
	if len(allowed) > before {
		if err := config.SetMember(state.ConfigFile(s.getenv), "allowed_users", allowed); err != nil {
			return err
		}
	}
	if s.spaceServer != nil {
		if s.isPageLocked(ctx) {
			return exitError(errors.New("nobody could answer on the page: a policy's allowed_users "+
				"does not name "+space.PersonName),
				"let its administrator add that name; the policy of a hub ends with the file named above",
				exitFailed)
		}
		s.printStep("people", "anyone with this link can answer")
	} else if len(allowed) > 0 {
		s.printStep("people", "may answer: %s", wording.SafeLine(strings.Join(allowed, ", ")))
	} else if !s.sendOnly && !s.asker.isInteractive {
		return usageError(errors.New("nobody may answer yet"), allowHint)
	}
	return nil
}

// isPageLocked reports whether a policy lets nobody answer on the page. All who open the
// page are one person to a policy, and that person has no e-mail address.
func (s *setupWizard) isPageLocked(ctx context.Context) bool {
	cfg := s.loadConfig()
	return cfg.ApplyPolicies(ctx, s.getenv) == nil && !cfg.CanAnswer(space.PersonName, "")
}

// tryRoundTrip posts a question and waits for a person's reply. It names a sender who may
// not answer, so that the person can run setup again with --allow. A reply alone does not
// allow its sender: everybody in the space can reply.
func (s *setupWizard) tryRoundTrip(ctx context.Context) error {
	if s.sendOnly || s.usesApp() { // for an app, setup --app tries a card
		return nil
	}
	isWanted := s.asker.isInteractive
	if s.flags.IsSet("round-trip") {
		isWanted = s.flags.Bool("round-trip")
	}
	if !isWanted {
		return nil
	}
	report := doctor.RoundTrip(ctx, doctor.Options{
		Env:       s.getenv,
		Wait:      s.flags.Duration("wait"),
		OneThread: s.spaceServer != nil,
		Notify:    func(sentence string) { fmt.Fprintln(s.out, "\n"+cleanForTerminal(sentence)) },
	})
	if failure := report.Findings[0]; report.ExitCode != 0 {
		return exitError(errors.New(failure.Text), failure.Fix, report.ExitCode)
	}
	s.printStep("back", "%s", report.Findings[len(report.Findings)-1].Text)
	return nil
}

// registerHooks registers the hooks of questions in Claude Code's settings, and those of
// permissions and plans if the person wants that. Hooks that are registered already stay.
func (s *setupWizard) registerHooks(ctx context.Context) (err error) {
	if s.flags.Bool("no-hooks") {
		return nil
	}
	presets := s.flags.StringSlice("preset")
	installation := installer{
		Program:         s.Program,
		scope:           settings.User,
		presets:         presets,
		keepsRegistered: s.sendOnly,
	}
	withApprove := s.flags.Bool("approve")
	if !s.sendOnly && len(presets) == 0 && !installation.hasApprovePreset() {
		withApprove, err = s.flagOrAsk(ctx, "approve", "\nAlso answer permissions and plans, and "+
			"give the next instruction, from there? "+
			"Anyone who may answer can then approve commands on this machine.", true)
		if err != nil {
			return err
		}
	}
	if withApprove && !s.sendOnly {
		installation.presets = append(presets, "approve")
	}
	err = installation.run(ctx)
	if err == nil && withApprove {
		err = s.offerDefaultMode(ctx)
	}
	// Setup that runs again, with the preset approve registered, does not ask this again.
	offersSessions := withApprove || s.flags.Bool("start-sessions")
	if err == nil && !s.sendOnly && offersSessions {
		err = s.offerSessionStart(ctx)
	}
	return err
}

// offerDefaultMode offers the permission mode default if sessions start in auto mode
// behind a gateway. There auto mode's check cannot run, and permissions do not reach
// Chat.
func (s *setupWizard) offerDefaultMode(ctx context.Context) error {
	gateway := doctor.AutoModeGateway(ctx, os.Getenv)
	if gateway == "" {
		return nil
	}
	fmt.Fprintf(s.out, "\nYour sessions start in auto mode, but %s does not pass auto mode's check on to\n"+
		"Anthropic. Claude then asks for permissions only in the terminal. "+
		"In the modes default and acceptEdits, they reach you here.\n", wording.SafeLine(gateway))
	file, err := settings.FileFor(s.getenv, settings.User)
	if err != nil {
		return err
	}
	change, err := file.SetPermissionMode(offeredMode, false, true)
	if err != nil || change.IsEmpty() || !s.asker.isInteractive {
		return err
	}
	fmt.Fprint(s.out, change.Diff())
	isWanted, err := s.asker.askYesNo(ctx, "Start sessions in the mode default?", false)
	if err != nil || !isWanted {
		return err
	}
	// The marker is written first, so that uninstall removes the mode in any case.
	err = state.WriteFile(modeMarkerFile(s.getenv), []byte(file.Path+"\n"))
	if err == nil {
		_, err = file.SetPermissionMode(offeredMode, false, false)
	}
	return err
}

// offeredMode is the permission mode that setup offers.
const offeredMode = "default"

// modeMarkerFile is the file that records that setup, not the person, set the permission
// mode in Claude Code's settings. So uninstall may remove that mode. The file contains
// the path of those settings.
func modeMarkerFile(env state.Getenv) string {
	return filepath.Join(state.UserStateDir(env), "default-mode")
}

// removeOfferedMode removes the permission mode from the settings if setup wrote it
// there.
func (p Program) removeOfferedMode(file settings.File, dryRun bool) error {
	markedPath, _ := os.ReadFile(modeMarkerFile(p.env))
	if strings.TrimSpace(string(markedPath)) != file.Path {
		return nil
	}
	fmt.Fprintf(p.out, "%s: removing permissions.defaultMode, which setup wrote\n", file.Path)
	_, err := file.SetPermissionMode(offeredMode, true, dryRun)
	if err != nil || dryRun {
		return err
	}
	return os.Remove(modeMarkerFile(p.env))
}

// offerSessionStart asks whether sessions may be started from Chat, unless that is
// configured already.
func (s *setupWizard) offerSessionStart(ctx context.Context) error {
	if _, err := exec.LookPath("tmux"); err != nil || s.loadConfig().CanStartSessions {
		return nil
	}
	isWanted, err := s.flagOrAsk(ctx, "start-sessions", "Also resume ended sessions, "+
		"and start new ones, from there? They run in tmux on this machine.", false)
	if err != nil || !isWanted {
		return err
	}
	return config.SetMember(state.ConfigFile(s.getenv), "start_sessions", true)
}

// offerSpaceService offers that the system runs the embedded space from each login on, so
// that a phone always reaches its page. Without that, a process that needs it starts it.
func (s *setupWizard) offerSpaceService(ctx context.Context) (err error) {
	if s.spaceServer == nil {
		return nil
	}
	unit := service.NewSpace(s.getenv, s.installedPath(), s.out, s.spaceServer.flags()...)
	_, isInstalled := unit.FindFile()
	_, spacePID := lastSpace(s.getenv)
	switch {
	case spacePID == 0 && s.flags.Bool("service") && !isInstalled:
		// A person runs the space, and the system cannot run a second one.
		return exitError(errSpaceRuns, endSpaceHint, exitFailed)
	case spacePID == 0: // a person or the system runs it
		return nil
	case !isInstalled && (s.spaceServer.allowsPhone || s.flags.Bool("service")):
		isInstalled, err = s.flagOrAsk(ctx, "service", "Start the page's server at each login?", true)
	}
	if err != nil || !isInstalled {
		return err
	}
	endSpace(s.getenv)
	err = unit.Install(ctx)
	if err != nil {
		s.startDetachedSpace(s.spaceServer.flags())
	}
	if err != nil && !s.flags.Bool("service") {
		fmt.Fprintln(s.out, s.errorText(err))
		err = nil
	}
	return err
}
