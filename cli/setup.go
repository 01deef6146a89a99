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
		Name:  "setup",
		Usage: "connect Claude Code to a space: asks for what is missing, tries it, and keeps it",
		Description: "On a terminal:  gchat-hooks setup\n" +
			"No Google:      gchat-hooks setup --space\n" +
			"With a phone:   gchat-hooks setup --space --phone\n" +
			"In a script:    GOOGLE_CHAT_WEBHOOK_URL=... gchat-hooks setup --credentials-file key.json --allow users/123\n" +
			"                gchat-hooks setup --space --phone --service --round-trip=false\n" +
			"Of a team:      gchat-hooks setup --hub https://...   (it asks for the code that the app answers to: join)\n" +
			"What is configured already is not asked again. Without a terminal nothing is asked.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "app", Usage: "a Chat app in place of the webhook: questions have buttons to tap"},
			&cli.StringFlag{Name: "hub", Usage: "join the hub at `URL`, which has your team's Chat app"},
			&cli.StringFlag{Name: "code", Usage: "with --hub, `-`: read from stdin the code that the app answers to the word join"},
			&cli.BoolFlag{Name: "space", Usage: "the embedded space in place of Google"},
			&cli.BoolFlag{Name: "phone", Usage: "with --space: let a phone reach its page; prints a QR code of the link"},
			spaceFlag(),
			&cli.StringFlag{Name: "client-id-file", Usage: "log in with the OAuth client's JSON `FILE`"},
			&cli.StringFlag{Name: "credentials-file", Usage: "`FILE` to read with (or $GOOGLE_CHAT_CREDENTIALS_FILE)"},
			&cli.BoolFlag{Name: "send-only", Usage: "do not read replies"},
			&cli.BoolFlag{Name: "no-browser", Usage: "only print the address to log in at"},
			&cli.StringSliceFlag{Name: "allow", Usage: "`users/ID` or e-mail that may answer (or $GCHAT_ALLOWED_USERS)"},
			&cli.BoolFlag{Name: "round-trip", Usage: "wait for your reply to a test message (on a terminal it does)"},
			&cli.DurationFlag{Name: "wait", Value: 5 * time.Minute, Usage: "`TIME` to wait for that reply"},
			&cli.BoolFlag{Name: "no-hooks", Usage: "do not register the hooks, because the plugin does"},
			&cli.StringSliceFlag{Name: "preset", Usage: "`NAME` of the hooks to register: see gchat-hooks install --help"},
			&cli.BoolFlag{Name: "approve", Usage: "also permissions, plans and the next instruction: preset approve"},
			&cli.BoolFlag{Name: "start-sessions", Usage: "let Chat resume and begin sessions in tmux (setup asks)"},
			&cli.BoolFlag{Name: "service", Usage: "with --space: have the system keep the space running (setup asks)"},
		},
		Action: func(c *cli.Context) error {
			s := &setup{Program: p, flags: c, ask: newAsker(p.in, p.out), answers: map[string]string{}}
			return s.run(c.Context)
		},
	}
}

// setup is one conversation from nothing to a question answered from the phone. Every step tries what it was told, then
// writes it into the person's configuration, and is done when that has it: so setup can be stopped anywhere, and a person
// who did a step otherwise is not asked for it.
type setup struct {
	Program
	flags    *cli.Context
	ask      *asker
	answers  map[string]string // by the variable that they could be in: given, and not written down yet
	sendOnly bool              // replies are not read
	door     *spaceDoor        // of the embedded space, where questions go there
	page     string            // its page's address
	person   string            // users/ID, of whom alone a tap on the test card counts; "" for anybody
	pulling  *state.Lock       // of the hub's subscription
	secrets  state.Redactor
}

func (s *setup) run(ctx context.Context) error {
	s.sendOnly = s.flags.Bool("send-only")
	if err := s.wrongFlags(); err != nil {
		return err
	}
	for _, problem := range s.config().Problems {
		if errors.Is(problem, config.ErrBroken) && !errors.Is(problem, config.ErrGone) { // nothing could be written down at the end
			return s.cannot("", problem)
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
	where := s.chat()
	if s.sendOnly {
		where = "in the terminal; the question is shown " + where
	}
	fmt.Fprintf(s.out, "\nDone. Now start claude in a project, and tell it:  ask me a question with three options\n"+
		"Answer %s\nIf nothing comes:  %s doctor\n", where, s.typed())
	return nil
}

// wrongFlags says why setup cannot be run with these flags.
func (s *setup) wrongFlags() error {
	joins, hasCode := s.flags.IsSet("hub"), s.flags.IsSet("code")
	switch {
	case hasCode && !joins, joins && (s.flags.Bool("app") || s.flags.Bool("space")):
		const hint = "write join to the app in Google Chat: it answers with the line to run"
		return usage(errors.New("--code goes with --hub, and --hub without --app or --space"), hint)
	case hasCode && s.flags.String("code") != "-":
		const hint = "leave --code out, and paste the code when setup asks; in a script: --code - reads it from stdin"
		return usage(errors.New("a code on the command line can be read by every user of this machine"), hint)
	}
	for _, who := range s.flags.StringSlice("allow") {
		if !strings.HasPrefix(who, "users/") && !strings.Contains(who, "@") {
			err := fmt.Errorf("%q is neither users/ID nor an e-mail address", who)
			return usage(err, "gchat-hooks setup --allow users/ID; a question's thread tells your id")
		}
	}
	return nil
}

// steps are what setup does for a hub, for a Chat app, and for a webhook or the embedded space.
func (s *setup) steps() []func(context.Context) error {
	switch {
	case s.flags.IsSet("hub"):
		return []func(context.Context) error{s.hub, s.people, s.hooks, s.hubCard}
	case s.flags.Bool("app"):
		return []func(context.Context) error{s.app, s.people, s.hooks}
	}
	return []func(context.Context) error{s.webhook, s.reading, s.people, s.roundTrip, s.hooks, s.keepSpace}
}

// chat is where questions are seen once it is set up.
func (s *setup) chat() string {
	switch {
	case s.door != nil:
		return "on the page, " + s.page
	case s.config().OnPage():
		return "on the page; its link again:  " + s.typed() + " space"
	}
	return "in Google Chat"
}

// env is the environment with the answers in place of its settings, in a folder that is no project: the files say everything
// else, as they do for the daemon and for other shells.
func (s *setup) env(name string) string {
	switch {
	case name == "CLAUDE_PROJECT_DIR":
		return state.ConfigDir(os.Getenv)
	case slices.Contains(config.Variables(), name):
		return s.answers[name]
	}
	return os.Getenv(name)
}

func (s *setup) config() *config.Config { return config.Load(s.env, state.ConfigDir(s.env)) }

// keep writes the answers, which were tried, into the configuration.
func (s *setup) keep() error {
	file := state.ConfigFile(s.env)
	toWebhook := s.answers["GOOGLE_CHAT_WEBHOOK_URL"] != ""
	toSpace := s.answers["GCHAT_PUBSUB_SUBSCRIPTION"] == space.Subscription
	answers := s.answers
	s.answers = map[string]string{}
	if toWebhook && s.config().InEmbeddedApp() {
		if err := config.LeaveEmbedded(file); err != nil {
			return err
		}
	}
	for _, setting := range config.Settings() {
		if answer := answers[setting.Variable]; answer != "" {
			if err := config.SetMember(file, setting.Member, answer); err != nil {
				return err
			}
		}
	}
	if toSpace {
		return config.SetMember(file, "webhook_url", nil)
	}
	return nil
}

// choose is a yes or no that a flag says, else the person.
func (s *setup) choose(ctx context.Context, flag, question string, otherwise bool) (bool, error) {
	if s.flags.IsSet(flag) || !s.ask.terminal {
		return s.flags.Bool(flag), nil
	}
	return s.ask.yes(ctx, question, otherwise)
}

// done says what a step came to, in a line.
func (s *setup) done(step, format string, args ...any) {
	fmt.Fprintf(s.out, "ok    %-9s %s\n", step, fmt.Sprintf(format, args...))
}

// words is an error for the screen, without the webhook's URL: a server may quote it.
func (s *setup) words(err error) string {
	s.secrets.Hide(s.answers["GOOGLE_CHAT_WEBHOOK_URL"])
	return state.Clean(state.ForTerminal, s.secrets.Clean(err.Error()))
}

// cannot ends setup with what Chat, or the way to it, does not do.
func (s *setup) cannot(what string, err error) error {
	hint := doctor.Hint(err)
	switch {
	case s.flags.Bool("app"):
		hint = gchat.AppHint(err)
	case errors.Is(err, config.ErrNoWebhook) && !errors.Is(err, config.ErrBroken):
		hint = "GOOGLE_CHAT_WEBHOOK_URL='https://...' gchat-hooks setup; or without Google: gchat-hooks setup --space"
	}
	return failed(errors.New(what+s.words(err)), hint, exitFailed)
}

// webhook finds out where questions go. A URL is written down only after a message went through.
func (s *setup) webhook(ctx context.Context) error {
	known := s.place(ctx) // by the files alone, for there are no answers yet
	for _, variable := range []string{"GOOGLE_CHAT_WEBHOOK_URL", "GOOGLE_CHAT_SPACE_ID", "GCHAT_API_ENDPOINT"} {
		s.answers[variable] = strings.TrimSpace(os.Getenv(variable))
	}
	toSpace := s.flags.Bool("space") || s.flags.Bool("phone")
	for {
		if toSpace {
			if err := s.openSpace(); err != nil {
				return err
			}
		}
		err := s.tryPlace(ctx, known)
		switch {
		case err == nil:
			return s.keep()
		case !s.ask.terminal || toSpace || ctx.Err() != nil:
			return s.cannot("", err)
		case errors.Is(err, config.ErrNoWebhook):
			fmt.Fprintln(s.out, "\nQuestions go to a Google Chat space, by a webhook: "+
				"in the space, Apps & integrations > Webhooks > Add.")
		default:
			fmt.Fprintln(s.out, "That does not work:", s.words(err))
		}
		const paste = "Paste its URL here (it is not shown), or press Enter to answer on a page of this machine, without Google:"
		raw, err := s.ask.secret(ctx, paste)
		if err != nil {
			return err
		}
		s.answers["GOOGLE_CHAT_WEBHOOK_URL"], toSpace = raw, raw == "" || strings.EqualFold(raw, "space")
	}
}

// outlet is what questions go by: a webhook, or the embedded space's app.
type outlet interface {
	Post(context.Context, gchat.Post) (gchat.Posted, error)
	Chat() string
	ID() string
}

func (s *setup) outlet(ctx context.Context) (outlet, error) {
	if s.config().InEmbeddedApp() {
		return gchat.NewApp(ctx, s.config())
	}
	return gchat.WebhookOf(ctx, s.config())
}

// place names what questions go by; "" for nothing.
func (s *setup) place(ctx context.Context) string {
	out, err := s.outlet(ctx)
	if err != nil {
		return ""
	}
	return out.ID()
}

// tryPlace posts to where questions are to go, unless that is the known one, and says where.
func (s *setup) tryPlace(ctx context.Context, known string) error {
	out, err := s.outlet(ctx)
	if err != nil {
		return err
	}
	if s.door == nil && known != out.ID() { // the embedded space needs no proof
		const text = "[Setup] gchat-hooks can write here: questions of Claude Code sessions will appear in this space."
		if _, err := out.Post(ctx, gchat.Post{Text: text}); err != nil {
			return err
		}
		fmt.Fprintln(s.out, "A test message is in the space.")
	}
	if s.door != nil {
		s.done("page", "questions go there")
	} else {
		s.done("webhook", "questions go to %s", wording.Line(out.Chat()))
	}
	return nil
}

// openSpace has questions go to the embedded space: to one that runs at the address, else to one that starts now.
func (s *setup) openSpace() (err error) {
	s.door, err = newSpaceDoor(s.Program, s.flags)
	if err != nil {
		return err
	}
	opened, ln, err := s.door.open()
	if err != nil {
		return err
	}
	if ln != nil { // it can run here
		err = errors.Join(ln.Close(), opened.Close())
		if err == nil && !s.detachSpace(s.door.flags()) {
			err = failed(errors.New("the embedded space does not start"), "gchat-hooks logs says why", exitFailed)
		}
		if err != nil {
			return err
		}
	}
	endpoint := opened.APIEndpoint(s.door.base())
	s.answers = map[string]string{
		"GOOGLE_CHAT_SPACE_ID": space.Name, "GCHAT_PUBSUB_SUBSCRIPTION": space.Subscription,
		"GCHAT_API_ENDPOINT": endpoint, "GCHAT_PUBSUB_ENDPOINT": endpoint,
	}
	s.page = s.door.pages(opened)[0]
	s.door.show(opened)
	return nil
}

// reading finds what replies are read with, and tries it on the space.
func (s *setup) reading(ctx context.Context) error {
	file := cmp.Or(s.flags.String("credentials-file"), os.Getenv("GOOGLE_CHAT_CREDENTIALS_FILE"))
	if file != "" && s.door == nil {
		s.answers["GOOGLE_CHAT_CREDENTIALS_FILE"], _ = filepath.Abs(file)
	}
	if file := s.flags.String("client-id-file"); file != "" && s.door == nil {
		if err := s.readWith(ctx, file); err != nil {
			return err
		}
	}
	for !s.sendOnly {
		err := doctor.CanRead(ctx, doctor.Options{Env: s.env})
		if err == nil {
			s.done("reading", "replies can be read")
			return s.keep()
		}
		if !s.ask.terminal || s.door != nil || ctx.Err() != nil {
			return s.cannot("replies cannot be read (--send-only does without): ", err)
		}
		fmt.Fprintln(s.out, "\nYour replies cannot be read yet:", s.words(err))
		fmt.Fprintln(s.out, "It takes an OAuth client (type Desktop app, see docs/connect.md), or a service account's key.")
		path, err := s.ask.line(ctx, "Path of that JSON file (empty: only send, answer in the terminal):")
		if err != nil {
			return err
		}
		if path == "" {
			s.sendOnly = true
		} else if err := s.readWith(ctx, path); err != nil {
			fmt.Fprintln(s.out, "That does not work:", s.words(err))
		}
	}
	s.done("reading", "not set up: questions are posted, and answered in the terminal")
	return nil
}

// readWith takes the credentials in a file, or logs in with the OAuth client in it.
func (s *setup) readWith(ctx context.Context, path string) error {
	delete(s.answers, "GOOGLE_CHAT_CREDENTIALS_FILE")
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(state.Home(s.env), rest)
	}
	b, err := state.ReadLinked(path, state.MostRead)
	if err != nil {
		return err
	}
	var credentials struct{ Type string } // a client's file has none
	if json.Unmarshal(b, &credentials) == nil && credentials.Type != "" {
		s.answers["GOOGLE_CHAT_CREDENTIALS_FILE"], err = filepath.Abs(path)
		return err
	}
	return logIn(ctx, login.Options{
		ClientFile: path, Env: s.env, Out: s.out, Paste: s.ask.next, NoBrowser: s.flags.Bool("no-browser"),
	})
}

// people writes down who may answer. Who logged in and the embedded space's person may, too.
func (s *setup) people(context.Context) error {
	may := s.config().AllowedUsers
	before := len(may)
	wanted := append(s.flags.StringSlice("allow"), strings.Split(os.Getenv("GCHAT_ALLOWED_USERS"), ",")...)
	if s.door != nil {
		wanted = append(wanted, space.Human)
	}
	for _, who := range wanted {
		who = strings.TrimSpace(who)
		if who != "" && !slices.Contains(may, who) {
			may = append(may, who)
		}
	}
	if len(may) > before {
		if err := config.SetMember(state.ConfigFile(s.env), "allowed_users", may); err != nil {
			return err
		}
	}
	if s.door != nil {
		s.done("people", "who has the page's address may answer")
	} else if len(may) > 0 {
		s.done("people", "may answer: %s", wording.Line(strings.Join(may, ", ")))
	} else if !s.sendOnly && !s.ask.terminal {
		return usage(errors.New("nobody may answer yet"), "gchat-hooks setup --allow users/ID; a question's thread tells your id")
	}
	return nil
}

// roundTrip sends a message through the space and waits for a person's reply. A sender who may not answer is named, for
// the person to run setup again with --allow: a reply alone puts a sender on no list, for all in the space can reply.
func (s *setup) roundTrip(ctx context.Context) error {
	if s.sendOnly {
		return nil
	}
	if asked := s.flags.IsSet("round-trip"); asked && !s.flags.Bool("round-trip") || !asked && !s.ask.terminal {
		return nil
	}
	report := doctor.RoundTrip(ctx, doctor.Options{
		Env: s.env, Wait: s.flags.Duration("wait"), OneThread: s.door != nil,
		Tell: func(sentence string) { fmt.Fprintln(s.out, "\n"+plain(sentence)) },
	})
	if failure := report.Findings[0]; report.ExitCode != 0 {
		return failed(errors.New(failure.What), failure.Mend, report.ExitCode)
	}
	s.done("back", "%s", report.Findings[len(report.Findings)-1].What)
	return nil
}

// hooks writes the hooks of questions into Claude Code's settings; those that are there stay.
func (s *setup) hooks(ctx context.Context) (err error) {
	if s.flags.Bool("no-hooks") {
		return nil
	}
	presets := s.flags.StringSlice("preset")
	registers := install{Program: s.Program, scope: settings.User, presets: presets, keep: s.sendOnly}
	approve := s.flags.Bool("approve")
	if !s.sendOnly && len(presets) == 0 && !registers.approves() {
		const question = "\nAlso answer permissions and plans, and give the next instruction, from there? " +
			"Anyone who may answer can then run commands here."
		approve, err = s.choose(ctx, "approve", question, true)
		if err != nil {
			return err
		}
	}
	if approve && !s.sendOnly {
		registers.presets = append(presets, "approve")
	}
	err = registers.run(ctx)
	if err == nil && approve {
		err = s.offerMode(ctx)
	}
	if err == nil && !s.sendOnly && (approve || s.flags.Bool("start-sessions")) { // asked once
		err = s.startSessions(ctx)
	}
	return err
}

// offerMode offers the mode default to sessions that would begin in auto mode, where its check cannot run.
func (s *setup) offerMode(ctx context.Context) error {
	gateway := doctor.AutoBehind(ctx, os.Getenv)
	if gateway == "" {
		return nil
	}
	fmt.Fprintf(s.out, "\nYour sessions begin in auto mode, whose check %s does not pass on. What Claude then asks for is asked in the\n"+
		"terminal alone: permissions reach you here in the modes default and acceptEdits.\n", wording.Line(gateway))
	file, err := settings.At(s.env, settings.User)
	if err != nil {
		return err
	}
	change, err := file.SetMode(startMode, false, true)
	if err != nil || change.Nothing() || !s.ask.terminal {
		return err
	}
	fmt.Fprint(s.out, change.Diff())
	yes, err := s.ask.yes(ctx, "Begin sessions in the mode default?", false)
	if err != nil || !yes {
		return err
	}
	err = state.WriteFile(modeMark(s.env), []byte(file.Path+"\n")) // before: it is to be taken out again
	if err == nil {
		_, err = file.SetMode(startMode, false, false)
	}
	return err
}

// startMode is the permission mode that setup offers; modeMark is the file that says that setup wrote it, and into which.
const startMode = "default"

func modeMark(env state.Getenv) string { return filepath.Join(state.UserState(env), "default-mode") }

// takeModeBack takes the mode out of the settings that setup put there.
func (p Program) takeModeBack(file settings.File, dryRun bool) error {
	mark, _ := os.ReadFile(modeMark(p.env))
	if strings.TrimSpace(string(mark)) != file.Path {
		return nil
	}
	fmt.Fprintf(p.out, "%s: permissions.defaultMode, which setup wrote, goes\n", file.Path)
	_, err := file.SetMode(startMode, true, dryRun)
	if err != nil || dryRun {
		return err
	}
	return os.Remove(modeMark(p.env))
}

// startSessions lets sessions be started from Chat, where the person wants that, and did not say so yet.
func (s *setup) startSessions(ctx context.Context) error {
	const question = "Also resume sessions that ended, and begin new ones, from there? They run in tmux on this machine."
	if _, err := exec.LookPath("tmux"); err != nil || s.config().StartSessions {
		return nil
	}
	yes, err := s.choose(ctx, "start-sessions", question, false)
	if err != nil || !yes {
		return err
	}
	return config.SetMember(state.ConfigFile(s.env), "start_sessions", true)
}

// keepSpace offers, for a phone, to have the system run the embedded space from each login on. Else what needs it starts it.
func (s *setup) keepSpace(ctx context.Context) (err error) {
	if s.door == nil {
		return nil
	}
	unit := service.Space(s.env, s.installed(), s.out, s.door.flags()...)
	_, keep := unit.Installed()
	_, detached := lastSpace(s.env)
	switch {
	case detached == 0 && s.flags.Bool("service") && !keep:
		return failed(errRuns, howToEnd, exitFailed) // the system cannot run a second one
	case detached == 0: // a person or the system runs it
		return nil
	case !keep && (s.door.phone || s.flags.Bool("service")):
		keep, err = s.choose(ctx, "service", "Start the chat page at login?", true)
	}
	if err != nil || !keep {
		return err
	}
	endSpace(s.env)
	err = unit.Install(ctx)
	if err != nil {
		s.detachSpace(s.door.flags())
	}
	if err != nil && !s.flags.Bool("service") {
		fmt.Fprintln(s.out, s.words(err))
		err = nil
	}
	return err
}
