package doctor

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/poller/service"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// tryListing lists the space as the poller does.
func (e *exam) tryListing(ctx context.Context) (*gchat.API, error) {
	w, err := e.findTransport(ctx)
	if err == nil {
		err = w.reader.ListSince(ctx, w.space, time.Now(), func([]gchat.Message) {})
	}
	return w.reader, err
}

func (e *exam) findWebhook(ctx context.Context) (*gchat.Webhook, error) {
	if _, err := gchat.ParseEndpoint(e.cfg.APIEndpoint); err != nil {
		return nil, err
	}
	hook, err := gchat.NewWebhook(ctx, e.cfg)
	e.log.AddSecrets(e.cfg.WebhookURL) // webhook_url_command has printed it in WebhookOf
	return hook, err
}

// checkChatPost checks that a space is configured for questions, that Chat accepts its
// webhook or its Chat app, and that this machine's clock agrees with Chat's.
func (e *exam) checkChatPost(ctx context.Context, r *result) {
	if e.cfg.ReceivesEvents() {
		e.checkChatApp(ctx, r)
		return
	}
	hook, err := e.webhook()
	clockAhead := time.Duration(0)
	if err == nil {
		clockAhead, err = hook.Probe(ctx)
	}
	// The clocks matter: Google refuses a service account's token from a difference of
	// about five minutes on, and a reply's time is compared with this machine's time.
	if clockOffset := clockAhead.Abs().Round(time.Second); clockOffset >= 30*time.Second {
		r.warn("this machine's clock and Chat's differ by %s", clockOffset).Fix =
			"let the system set its clock: sudo timedatectl set-ntp true (macOS: sudo sntp -sS time.apple.com)"
	}
	fix := Hint(err)
	isExplained := errors.Is(err, config.ErrNoWebhook) || errors.Is(err, gchat.ErrNotWebhook) ||
		errors.Is(err, gchat.ErrEndpoint)
	if hook == nil && !isExplained { // then webhook_url_command has failed
		fix = "run webhook_url_command by hand: it has to print the URL within 4 seconds, without asking"
	}
	switch {
	case gchat.IsOverloaded(err):
		r.warn("%v", err).Fix = fix
	case err != nil:
		r.fail("%v", err).Fix = fix
	case e.cfg.SpaceID != "" && e.cfg.SpaceID != hook.Space:
		r.warn("space_id is %s, but the webhook posts to %s", e.cfg.SpaceID, hook.Space).Fix =
			"remove space_id (GOOGLE_CHAT_SPACE_ID) from the configuration: the webhook's URL names the space"
	default:
		r.ok("Chat accepts the webhook of %s; nothing was posted", hook.Chat())
	}
}

// checkChatApp checks that Google knows the Chat app and its space, and that the app may
// pull from its subscription. It pulls no event. Only a tap can show that taps arrive.
func (e *exam) checkChatApp(ctx context.Context, r *result) {
	app, err := gchat.NewApp(ctx, e.cfg)
	if err == nil {
		err = app.CheckPullAccess(ctx)
	}
	// it may have a new token now
	hub, isDirect := gchat.LoadHubClient(e.cfg.CredentialsFile), false
	for _, err := range hub.Problems(e.Version) {
		r.warn("%v", err).Fix = Hint(err)
	}
	if err == nil {
		isDirect, err = app.IsDirect(ctx)
	}
	switch {
	case gchat.IsOverloaded(err):
		r.warn("%v", err).Fix = Hint(err)
	case err != nil && (hub != nil || e.cfg.UsesEmbeddedApp()):
		r.fail("%v", err).Fix = Hint(err)
	case err != nil:
		r.fail("%v", err).Fix = gchat.AppHint(err) +
			"; gchat-hooks setup --app goes through it step by step"
	case e.cfg.UsesEmbeddedApp():
		r.ok("Chat accepts messages to %s; nothing was posted", app.Chat())
	default:
		spaceKind := map[bool]string{true: "the direct message ", false: ""}[isDirect]
		r.ok("the Chat app can post to %s%s, and receive taps", spaceKind, app.Space)
	}
}

// checkChatRead lists the space as the poller does. That needs credentials with the right
// scope, of a member of the space.
func (e *exam) checkChatRead(_ context.Context, r *result) {
	if e.cfg.ReceivesEvents() && !e.cfg.UsesEmbeddedApp() {
		r.skip("not needed: taps and messages to the Chat app come through its subscription")
		return
	}
	if _, err := e.webhook(); err != nil && !e.cfg.UsesEmbeddedApp() {
		r.skip("without a webhook there is no space to read")
		return
	}
	switch _, err := e.list(); {
	case gchat.IsOverloaded(err):
		r.warn("%v", err).Fix = Hint(err)
	case err != nil:
		r.fail("%v", err).Fix = e.readingFix(err)
	}
	r.ok("replies can be read")
}

// readingFix says what to do when listing fails. A refusal is about the reader's
// membership, not about the webhook. A login does not help while a credentials file takes
// precedence.
func (e *exam) readingFix(err error) string {
	fix := Hint(err)
	if strings.HasPrefix(fix, "the webhook") {
		fix = "the account that reads is not a member of the space, or the space is gone: add it in Google Chat, " +
			"or log in as a person who is a member (" + loginCommand + ")"
	}
	file := e.cfg.CredentialsFile
	hasOtherFile := file != "" && file != config.LoginFile(e.Env)
	if hasOtherFile && strings.Contains(fix, loginCommand) {
		fix += "; a login is used only where the webhook is your own " +
			"and no credentials_file (GOOGLE_CHAT_CREDENTIALS_FILE) is set"
	}
	return fix
}

// checkChatAllowed checks that somebody may answer, that the names on the list are
// people's, and that the person who has logged in is on it.
func (e *exam) checkChatAllowed(ctx context.Context, r *result) {
	switch {
	case errors.Is(errors.Join(e.cfg.Problems...), config.ErrUnreadablePolicy):
		r.skip("nobody may answer while a policy cannot be read")
		return
	case len(e.cfg.AllowedUsers) == 0:
		r.fail("nobody may answer: allowed_users is empty")
		return
	}
	for _, user := range e.cfg.AllowedUsers {
		isPerson := config.IsPersonName(user) || strings.HasPrefix(user, "users/local-")
		if !isPerson && !strings.Contains(user, "@") {
			r.warn("allowed_users has %q, which is not a person's users/ID or e-mail address", user)
		}
	}
	if !e.cfg.ReceivesEvents() {
		reader, err := e.list()
		var me gchat.Person
		if err == nil {
			// Me fails for a service account and in the embedded space: neither has a
			// login.
			me, err = reader.Me(ctx)
		}
		if err == nil && !e.cfg.CanAnswer(me.Name, me.Email) {
			r.warn("you are %s, who is not on allowed_users and may not answer", me.Name)
		}
	}
	r.ok("may answer: %s", strings.Join(e.cfg.AllowedUsers, ", "))
}

// checkDaemonRuns checks that the daemon runs if its service is installed, that it polls,
// and that tmux is there if answers are typed.
func (e *exam) checkDaemonRuns(_ context.Context, r *result) {
	if _, err := exec.LookPath("tmux"); err != nil && e.usesMode(state.ModeInject) {
		r.fail("ask_mode is inject, but tmux is not installed").Fix = "install tmux 3.3 or newer"
	}
	_, isInstalled := service.NewDaemon(e.Env, "", nil).FindFile()
	line, health := service.Health(e.Env, time.Now())
	isRunning := slices.ContainsFunc(state.ReadHeartbeats(e.Env), func(h state.Heartbeat) bool {
		return h.IsAlive && h.IsDaemon
	})
	switch {
	case !isRunning && isInstalled:
		r.warn("the daemon's service is installed, but no daemon runs")
	case !isRunning:
		r.ok("no daemon runs, and none is needed: hooks start a poller")
	case health != service.ExitHealthy:
		r.warn("%s", line)
	default:
		r.ok("%s", line)
	}
}
