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

// look lists the space once, as the poller does.
func (e *exam) look(ctx context.Context) (*gchat.API, error) {
	w, err := e.findWay(ctx)
	if err == nil {
		err = w.reader.Since(ctx, w.space, time.Now(), func([]gchat.Message) {})
	}
	return w.reader, err
}

func (e *exam) findWebhook(ctx context.Context) (*gchat.Webhook, error) {
	if _, err := gchat.ParseEndpoint(e.cfg.APIEndpoint); err != nil {
		return nil, err
	}
	hook, err := gchat.WebhookOf(ctx, e.cfg)
	e.log.Hide(e.cfg.WebhookURL) // its command may only now have told it
	return hook, err
}

// chatPost looks whether there is a place for questions to go to, whether Chat lets the webhook in, and whether its clock is
// ours.
func (e *exam) chatPost(ctx context.Context, r *result) {
	if e.cfg.HearsEvents() {
		e.chatApp(ctx, r)
		return
	}
	hook, err := e.webhook()
	ahead := time.Duration(0)
	if err == nil {
		ahead, err = hook.Probe(ctx)
	}
	// Google refuses a service account's token from about five minutes on; a reply's time is compared with this machine's.
	if off := ahead.Abs().Round(time.Second); off >= 30*time.Second {
		r.warn("this machine's clock is %s off Chat's", off).Mend =
			"have the system set its clock: sudo timedatectl set-ntp true (macOS: sudo sntp -sS time.apple.com)"
	}
	mend := Hint(err)
	told := errors.Is(err, config.ErrNoWebhook) || errors.Is(err, gchat.ErrNotWebhook) || errors.Is(err, gchat.ErrEndpoint)
	if hook == nil && !told {
		mend = "run webhook_url_command by hand: it has to print the URL within 4 seconds, without asking"
	}
	switch {
	case gchat.Overloaded(err):
		r.warn("%v", err).Mend = mend
	case err != nil:
		r.fail("%v", err).Mend = mend
	case e.cfg.SpaceID != "" && e.cfg.SpaceID != hook.Space:
		r.warn("space_id is %s, but the webhook posts to %s", e.cfg.SpaceID, hook.Space).Mend =
			"take space_id (GOOGLE_CHAT_SPACE_ID) out of the configuration: it follows from the webhook's URL, which counts"
	default:
		r.ok("Chat accepts the webhook of %s; nothing was posted", hook.Chat())
	}
}

// chatApp looks whether Google knows the Chat app, in its space, and whether its subscription may be pulled from; no event is
// taken. That taps arrive only a tap shows.
func (e *exam) chatApp(ctx context.Context, r *result) {
	app, err := gchat.NewApp(ctx, e.cfg)
	if err == nil {
		err = app.MayPull(ctx)
	}
	hub, direct := gchat.ReadHub(e.cfg.CredentialsFile), false // it may have a new token now
	for _, err := range hub.Wrong(e.Version) {
		r.warn("%v", err).Mend = Hint(err)
	}
	if err == nil {
		direct, err = app.Direct(ctx)
	}
	switch {
	case gchat.Overloaded(err):
		r.warn("%v", err).Mend = Hint(err)
	case err != nil && (hub != nil || e.cfg.InEmbeddedApp()):
		r.fail("%v", err).Mend = Hint(err)
	case err != nil:
		r.fail("%v", err).Mend = gchat.AppHint(err) + "; gchat-hooks setup --app goes through it step by step"
	case e.cfg.InEmbeddedApp():
		r.ok("Chat accepts messages to %s; nothing was posted", app.Chat())
	default:
		where := map[bool]string{true: "the direct message ", false: ""}[direct]
		r.ok("the Chat app writes to %s%s, and may pull", where, app.Space)
	}
}

// chatRead lists as the poller does: that needs credentials, their scope, and membership of the space.
func (e *exam) chatRead(_ context.Context, r *result) {
	if e.cfg.HearsEvents() && !e.cfg.InEmbeddedApp() {
		r.skip("taps, and what is said to the Chat app, come by its subscription")
		return
	}
	if _, err := e.webhook(); err != nil && !e.cfg.InEmbeddedApp() {
		r.skip("without a webhook there is no space to read")
		return
	}
	switch _, err := e.list(); {
	case gchat.Overloaded(err):
		r.warn("%v", err).Mend = Hint(err)
	case err != nil:
		r.fail("%v", err).Mend = e.readMend(err)
	}
	r.ok("replies can be read")
}

// readMend is what to do when listing fails: a refusal there is about membership, and not about the webhook. A login is of no
// use while a credentials file goes before it.
func (e *exam) readMend(err error) string {
	mend := Hint(err)
	if strings.HasPrefix(mend, "the webhook") {
		mend = "the account that reads is no member of the space, or the space is gone: add it there in Google Chat, " +
			"or log in as a person who is a member (" + login + ")"
	}
	if file := e.cfg.CredentialsFile; file != "" && file != config.LoginFile(e.Env) && strings.Contains(mend, login) {
		mend += "; a login is used only where the webhook is your own " +
			"and no credentials_file (GOOGLE_CHAT_CREDENTIALS_FILE) is set"
	}
	return mend
}

// chatAllowed looks whether any person may answer, whether the list has people, and whether the person who reads is on it.
func (e *exam) chatAllowed(ctx context.Context, r *result) {
	switch {
	case errors.Is(errors.Join(e.cfg.Problems...), config.ErrPolicy):
		r.skip("nobody may answer while a policy cannot be read")
		return
	case len(e.cfg.AllowedUsers) == 0:
		r.fail("nobody may answer: allowed_users is empty")
		return
	}
	for _, u := range e.cfg.AllowedUsers {
		if !config.IsPerson(u) && !strings.Contains(u, "@") && !strings.HasPrefix(u, "users/local-") {
			r.warn("%q on allowed_users is no person's users/ID or e-mail address", u)
		}
	}
	if !e.cfg.HearsEvents() {
		reader, err := e.list()
		var me gchat.Person
		if err == nil {
			me, err = reader.Me(ctx) // none for a service account, and in the space on this machine, which knows no logins
		}
		if err == nil && !e.cfg.Allows(me.Name, me.Email) {
			r.warn("you are %s, and may not answer", me.Name)
		}
	}
	r.ok("may answer: %s", strings.Join(e.cfg.AllowedUsers, ", "))
}

// daemonRuns looks whether the daemon runs where its service is installed, whether it polls, and whether there is a tmux to
// type with.
func (e *exam) daemonRuns(_ context.Context, r *result) {
	if _, err := exec.LookPath("tmux"); err != nil && e.asks(state.Inject) {
		r.fail("there is no tmux, but ask_mode is inject").Mend = "install tmux 3.3 or newer"
	}
	_, installed := service.New(e.Env, "", nil).Installed()
	line, health := service.Health(e.Env, time.Now())
	runs := slices.ContainsFunc(state.Pollers(e.Env), func(h state.Heartbeat) bool { return h.Lives && h.Daemon })
	switch {
	case !runs && installed:
		r.warn("the daemon's service is installed, and no daemon runs")
	case !runs:
		r.ok("none runs, and none is needed: hooks start a poller")
	case health != service.Healthy:
		r.warn("%s", line)
	default:
		r.ok("%s", line)
	}
}
