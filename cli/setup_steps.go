package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/login"
	"gchat-hooks/gchat/space"
	"gchat-hooks/hooks/settings"
	"gchat-hooks/poller"
	"gchat-hooks/poller/service"
	"gchat-hooks/state"
)

const (
	webhookFlag = "gchat-hooks setup --webhook-url-file FILE, or GOOGLE_CHAT_WEBHOOK_URL, or --space to do without Google"
	readingFlag = "gchat-hooks setup --client-id-file FILE, --credentials-file FILE, or --send-only"
)

// webhook finds out where questions go. A URL is written down only after a message went through.
func (s *setup) webhook(ctx context.Context) error {
	known, err := s.configuredWebhook(ctx, s.kept)
	raw := s.said("GOOGLE_CHAT_WEBHOOK_URL")
	again := raw == "" && known != nil && known.LocalEndpoint() == "http://"+s.flags.String("address")+"/"
	if s.flags.Bool("space") || again {
		return s.openSpace(ctx, known)
	}
	if raw != "" {
		if said, err := gchat.ConfiguredWebhook(s.config(s.said), raw); err != nil || known == nil || said.ID() != known.ID() {
			return s.tryWebhook(ctx, raw)
		}
	}
	switch {
	case known != nil:
		s.done("webhook", "%s", gchat.Line(known.Chat()))
		return s.write(s.answered("GCHAT_API_ENDPOINT", "api_endpoint", s.config(s.kept).APIEndpoint)...)
	case !s.ask.terminal && errors.Is(err, state.ErrNoWebhook):
		return failed(errors.New("no webhook URL is configured, and there is no terminal to ask on"), webhookFlag, exitNoWebhook)
	case !s.ask.terminal:
		return failed(err, gchat.Hint(err), exitNoWebhook)
	}
	fmt.Fprintln(s.out, "\nQuestions go to a space, through a webhook. In the space: Apps & integrations > Webhooks > Add.")
	for {
		raw, err := s.ask.secret(ctx, "Paste its URL here (it is not shown), or type `space` to do without Google:")
		if err != nil {
			return err
		}
		if strings.EqualFold(raw, "space") {
			return s.openSpace(ctx, nil)
		}
		if err = s.tryWebhook(ctx, raw); err == nil || ctx.Err() != nil {
			return err
		}
		s.doesNotWork(err)
	}
}

// doesNotWork says why an answer is asked for again.
func (s *setup) doesNotWork(err error) {
	told := &state.UserError{Hint: poller.VerifyHint(err)}
	errors.As(err, &told)
	fmt.Fprintf(s.out, "That does not work: %s\n  %s\n", plain(err.Error()), plain(told.Hint))
}

// configuredWebhook is the webhook that an environment's configuration names.
func (s *setup) configuredWebhook(ctx context.Context, env state.Getenv) (*gchat.Webhook, error) {
	cfg := s.config(env)
	raw, err := cfg.Webhook(ctx)
	if err != nil {
		return nil, err
	}
	return gchat.ConfiguredWebhook(cfg, raw)
}

// tryWebhook posts through a webhook and writes it down. What it says of the URL is where it posts, never its secret.
func (s *setup) tryWebhook(ctx context.Context, raw string) error {
	cfg, files := s.config(s.said), s.config(s.kept)
	members := slices.Concat([]member{{"webhook_url", raw}}, s.answered("GCHAT_API_ENDPOINT", "api_endpoint", files.APIEndpoint),
		s.answered("GOOGLE_CHAT_SPACE_ID", "space_id", files.SpaceID))
	if s.said("GCHAT_API_ENDPOINT") == "" && (s.page != "" || strings.HasPrefix(cfg.APIEndpoint, "http:")) {
		cfg.APIEndpoint = "" // the embedded space's follows from its webhook, or was of an earlier setup
		members = append(members, member{name: "api_endpoint"})
	}
	hook, err := gchat.ConfiguredWebhook(cfg, raw)
	if err != nil {
		return failed(fmt.Errorf("%w: Google Chat's are https://chat.googleapis.com/v1/spaces/ID/messages with a key and a token", err),
			gchat.Hint(err)+"; a gateway's URL goes with --space-id spaces/ID, or GOOGLE_CHAT_SPACE_ID", exitNoWebhook)
	}
	_, err = hook.Post(ctx, gchat.Post{
		Text:      "[Setup] gchat-hooks can write here: questions of Claude Code sessions will appear in this space.",
		ThreadKey: "setup-webhook-" + uuid.NewString()[:8], MessageID: "client-" + uuid.NewString(),
	})
	if err != nil {
		var secrets state.Redactor
		secrets.Hide(raw) // a server may quote it
		return failed(errors.New(secrets.Clean(err.Error())), poller.VerifyHint(err), exitNotVerifiable)
	}
	if err := s.write(members...); err != nil {
		return err
	}
	s.done("webhook", "a test message is in %s; kept in %s", gchat.Line(hook.Chat()), state.ConfigFile(s.env))
	return nil
}

func (s *setup) spaceData() string { return filepath.Join(state.UserState(s.env), "space") }

// openSpace has questions go to the embedded space: to one that runs at the address, else to one that setup serves.
func (s *setup) openSpace(ctx context.Context, known *gchat.Webhook) error {
	address := s.flags.String("address")
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return usage(fmt.Errorf("--address %s is not on this machine: 127.0.0.1:PORT", address), "gchat-hooks setup --help")
	}
	if known != nil && known.LocalEndpoint() == "" && !s.flags.Bool("replace") { // its URL stands nowhere else
		there := gchat.Line(known.Chat())
		if !s.ask.terminal {
			return usage(fmt.Errorf("questions go to %s now, and its URL would be lost", there), "gchat-hooks setup --space --replace")
		}
		yes, err := s.ask.yes(ctx, "Questions go to "+there+" now. Give that webhook up for the embedded space?", false, "")
		if err != nil || !yes {
			return cmp.Or(err, errStopped)
		}
	}
	s.page = "http://" + address
	ln, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		opened, err := space.Open(space.Options{Data: s.spaceData()})
		if err != nil {
			ln.Close()
			return failed(err, "a space runs on another address: give that with --address", exitFailed)
		}
		s.serving = make(chan error, 1)
		go func() { s.serving <- errors.Join(space.Serve(ctx, ln, opened), opened.Close()) }()
	case !errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("open the embedded space: %w", err)
	}
	raw, err := space.KeptWebhookURL(s.spaceData(), s.page)
	if err != nil {
		return failed(fmt.Errorf("something else answers at %s: %w", s.page, err), "give another --address 127.0.0.1:PORT", exitFailed)
	}
	s.answers["GOOGLE_CHAT_WEBHOOK_URL"] = raw // before what the environment says, with the endpoint that follows from it
	s.answers["GCHAT_API_ENDPOINT"] = ""
	if s.config(s.kept).WebhookURL != raw {
		return s.tryWebhook(ctx, raw)
	}
	s.done("webhook", "the embedded space, %s/", s.page)
	return nil
}

// stay serves the embedded space for a person at the terminal, until they end it.
func (s *setup) stay(ctx context.Context) error {
	again := "gchat-hooks space --listen " + strings.TrimPrefix(s.page, "http://")
	switch {
	case s.serving == nil:
		return nil
	case !s.ask.terminal:
		fmt.Fprintf(s.out, "The space is where questions go, and has to run:  %s\n", again)
		return nil
	}
	fmt.Fprintf(s.out, "The space runs here until you end it with Ctrl-C: %s/\nFrom then on:  %s\n", s.page, again)
	<-ctx.Done()
	return <-s.serving
}

// reading finds what replies are read with, and tries it on the space.
func (s *setup) reading(ctx context.Context) error {
	if client := s.flags.String("client-id-file"); client != "" && !s.sendOnly {
		_, none := state.ReadLogin(state.LoginFile(s.env))
		if none != nil || gchat.AuthFailure(s.read(ctx)) {
			if err := s.logIn(ctx, client); err != nil {
				return err
			}
		}
	}
	for !s.sendOnly {
		err := s.read(ctx)
		if err == nil {
			s.done("reading", "replies can be read")
			return s.write(s.answered("GOOGLE_CHAT_CREDENTIALS_FILE", "credentials_file", s.config(s.kept).CredentialsFile)...)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !s.ask.terminal {
			hint, code := poller.VerifyHint(err), exitNotVerifiable
			if gchat.AuthFailure(err) {
				hint, code = readingFlag, exitUsage
			}
			return failed(fmt.Errorf("replies cannot be read: %w", err), hint, code)
		}
		fmt.Fprintf(s.out, "\nYour replies cannot be read yet: %s\n  %s\n", plain(err.Error()), poller.VerifyHint(err))
		fmt.Fprintln(s.out, "It takes an OAuth client of your own (type Desktop app, see docs/connect.md), or a service account's key.")
		delete(s.answers, "GOOGLE_CHAT_CREDENTIALS_FILE")
		path, err := s.ask.line(ctx, "Path of that JSON file (empty: only send, answer in the terminal):", readingFlag)
		if err != nil {
			return err
		}
		if s.sendOnly = path == ""; s.sendOnly {
			break
		}
		var credentials struct{ Type string }
		b, err := os.ReadFile(s.absolute(path))
		if err == nil && json.Unmarshal(b, &credentials) == nil && credentials.Type != "" {
			s.answers["GOOGLE_CHAT_CREDENTIALS_FILE"] = s.absolute(path)
		} else if err == nil { // an OAuth client to log in with, or nothing of use
			err = s.logIn(ctx, s.absolute(path))
		}
		if err != nil {
			s.doesNotWork(err)
		}
	}
	s.done("reading", "not set up: questions are posted, and answered in the terminal")
	return nil
}

func (s *setup) logIn(ctx context.Context, clientFile string) error {
	hook, err := s.configuredWebhook(ctx, s.said)
	if err != nil {
		return err
	}
	s.changed = true
	o := login.Options{
		ClientFile: clientFile, Env: s.env, Out: s.out, NoBrowser: s.flags.Bool("no-browser"), Wait: s.flags.Duration("wait"),
		Endpoint: cmp.Or(s.config(s.said).APIEndpoint, hook.LocalEndpoint()), // where replies are read is known who replies
	}
	if s.ask.terminal {
		o.Paste = s.ask.next
	}
	return logIn(ctx, o)
}

// read lists the space once.
func (s *setup) read(ctx context.Context) error {
	cfg := s.config(s.said)
	hook, err := s.configuredWebhook(ctx, s.said)
	if err != nil {
		return err
	}
	r, err := gchat.NewReader(ctx, cmp.Or(cfg.APIEndpoint, hook.LocalEndpoint()), cfg.CredentialsFile)
	if err != nil {
		return err
	}
	_, err = r.Since(ctx, hook.Space, time.Now(), func([]gchat.Message) {})
	return err
}

// people sees to it that a person may answer: those that flags and the environment name, the login's, the page's.
func (s *setup) people(ctx context.Context) error {
	may := s.config(s.kept).AllowedUsers
	before := len(may)
	wanted := append(s.flags.StringSlice("allow"), strings.Split(s.env("GCHAT_ALLOWED_USERS"), ",")...)
	if s.page != "" {
		wanted = append(wanted, space.Human)
	}
	for _, who := range wanted {
		who = strings.TrimSpace(who)
		switch {
		case who == "" || slices.Contains(may, who):
		case strings.HasPrefix(who, "users/") && len(who) > len("users/") || strings.Contains(who, "@"):
			may = append(may, who)
		default:
			return usage(fmt.Errorf("%q is neither users/ID nor an e-mail address", who), "gchat-hooks setup --allow users/123456789")
		}
	}
	if len(may) > before {
		if err := s.write(member{"allowed_users", may}); err != nil {
			return err
		}
	}
	if len(may) > 0 {
		s.done("people", "may answer: %s", gchat.Line(strings.Join(may, ", ")))
	} else if !s.sendOnly && !s.ask.terminal && !s.flags.Bool("round-trip") {
		return usage(errors.New("nobody may answer yet: --allow users/ID or --allow EMAIL says who (or GCHAT_ALLOWED_USERS)"),
			"gchat-hooks setup --allow users/ID; a reply in the space's thread tells you your id")
	}
	return nil
}

// roundTrip sends a message through the space and waits for a person's reply. It is offered after a change, and while
// the allowlist is empty.
func (s *setup) roundTrip(ctx context.Context) error {
	if s.sendOnly || !s.flags.IsSet("round-trip") && !s.changed && len(s.config(s.kept).AllowedUsers) > 0 {
		return nil
	}
	yes, err := s.choose(ctx, "round-trip", "\nShall a message go there, for you to reply to?", true, false)
	if err != nil || !yes {
		return err
	}
	wait := s.flags.Duration("wait")
	trip := &poller.RoundTrip{Verify: &poller.Verify{
		Poller: &poller.Poller{Env: s.kept, Log: state.NewLog(s.env, "setup")}, ProjectDir: state.ConfigDir(s.env), Wait: wait,
	}}
	there, err := trip.Out(ctx, "[Setup] Reply \"ok\" in this thread.")
	if err != nil {
		return failed(err, poller.VerifyHint(err), exitNotVerified)
	}
	where := gchat.Line(there.Chat)
	if s.page != "" {
		where += ", on the page " + s.page + "/"
	}
	fmt.Fprintf(s.out, "Now you: reply \"ok\" in the thread that just appeared in %s. Waiting %s for it (Ctrl-C stops).\n",
		where, poller.Spoken(wait))
	for {
		reply, err := trip.Back(ctx)
		if err != nil {
			return failed(err, "gchat-hooks setup --round-trip, and reply in the thread of the [Setup] message", exitNotVerified)
		}
		ok, err := s.mayAnswer(ctx, trip, reply)
		if err != nil {
			return err
		}
		if ok {
			s.done("back", "%s said %q", name(reply), reply.Text)
			return trip.Say(ctx, "[Setup] Read: "+gchat.Line(reply.Text)+". All is set; this thread can be deleted.")
		}
	}
}

// mayAnswer says whether a reply's sender is on the allowlist, and puts them there if the person at the terminal says so.
// A reply alone never does: everybody in the space could send one.
func (s *setup) mayAnswer(ctx context.Context, trip *poller.RoundTrip, r *state.Reply) (bool, error) {
	if trip.MayAnswer(r) {
		return true, nil
	}
	if !s.ask.terminal {
		fmt.Fprintf(s.out, "%s replied, and may not answer: --allow %s if that is you\n", name(r), gchat.Line(r.Sender))
		return false, nil
	}
	yes, err := s.ask.yes(ctx, fmt.Sprintf("%s replied. Is that you: may they answer Claude for you?", name(r)), false, "")
	if err != nil {
		return false, err
	}
	if !yes {
		fmt.Fprintln(s.out, "Then they may not. Waiting for another reply in that thread; Ctrl-C stops.")
		return false, nil
	}
	may := append(s.config(s.kept).AllowedUsers, r.Sender)
	s.done("people", "may answer: %s", gchat.Line(strings.Join(may, ", ")))
	return true, s.write(member{"allowed_users", may})
}

// name is a reply's sender for a person.
func name(r *state.Reply) string {
	if r.DisplayName == "" {
		return gchat.Line(r.Sender)
	}
	return gchat.Line(r.DisplayName) + " (" + gchat.Line(r.Sender) + ")"
}

// hooks writes the hooks into Claude Code's settings.
func (s *setup) hooks(ctx context.Context) error {
	presets := s.flags.StringSlice("preset")
	file, err := settings.At(s.env, settings.User)
	if err != nil {
		return err
	}
	if there, err := file.Holds(); err == nil && there && len(presets) == 0 {
		s.done("hooks", "registered; gchat-hooks install says which, and changes them")
		return nil
	}
	yes, err := s.choose(ctx, "hooks", "\nRegister the hooks in Claude Code's settings?", true, true)
	if err != nil {
		return err
	}
	if s.declined = !yes; s.declined {
		fmt.Fprintln(s.out, "later:  gchat-hooks install")
		return nil
	}
	var shown strings.Builder // the difference is long, and `install --dry-run` shows it
	if err := (install{env: s.env, self: s.self, out: &shown, scope: settings.User, presets: presets}).run(ctx); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(shown.String()), "\n")
	s.done("hooks", "%s; --preset report adds what sessions tell", lines[len(lines)-1])
	return nil
}

// service offers the daemon. Without a terminal it is installed only where a flag says so.
func (s *setup) service(ctx context.Context) error {
	daemon := service.New(s.kept, s.self, s.out)
	if _, there := daemon.Installed(); there && !s.flags.IsSet("service") {
		s.done("service", "installed")
		return nil
	}
	const question = "Keep the daemon running? It answers sessions that hooks cannot reach; most need none."
	yes, err := s.choose(ctx, "service", question, false, false)
	if err != nil || !yes {
		return err
	}
	if err := daemon.Install(ctx); err != nil {
		return err
	}
	s.done("service", "installed")
	return nil
}
