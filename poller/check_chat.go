package poller

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

const (
	// lookBound is how long one look at Chat takes at most: a server that says nothing must not hold the doctor.
	lookBound = 4 * time.Second
	// lookBack is how far back the space is read.
	lookBack = 24 * time.Hour
)

// look is what the doctor sees of a project's space. Each thing is asked for once, by whichever check needs it first.
// Nothing is posted: a person runs the doctor often, and the space is for questions.
type look struct {
	*Poller
	cfg *state.Config

	hookOnce, probeOnce, listOnce sync.Once

	hook     *gchat.Webhook
	hookErr  error
	ahead    time.Duration // Chat's clock, as the webhook's answer told
	clock    bool
	probeErr error
	took     time.Duration // to answer the probe
	reader   *gchat.Reader
	readErr  error // no reader
	listed   []gchat.Message
	listErr  error
}

// Checks are the checks of a project's space and of what reads it.
func (p *Poller) Checks(projectDir string) []state.Check {
	l := &look{Poller: p, cfg: p.config(projectDir)}
	return []state.Check{
		{ID: "chat.endpoint", Run: l.checkEndpoint},
		{ID: "chat.webhook", Run: l.checkWebhook},
		{ID: "chat.post", Run: l.checkPost},
		{ID: "chat.credentials", Run: l.checkCredentials},
		{ID: "chat.read", Run: l.checkRead},
		{ID: "chat.me", Run: l.checkMe},
		{ID: "chat.allowed", Run: l.checkAllowed},
		{ID: "chat.people", Run: l.checkPeople},
		{ID: "chat.clock", Run: l.checkClock},
		{ID: "daemon.runs", Run: l.checkDaemon},
		{ID: "daemon.inbox", Run: l.checkInbox},
	}
}

func (l *look) webhookOf(ctx context.Context) (*gchat.Webhook, error) {
	l.hookOnce.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, lookBound)
		defer cancel()
		l.hook, l.hookErr = l.webhook(ctx, l.cfg)
	})
	return l.hook, l.hookErr
}

func (l *look) probe(ctx context.Context) error {
	hook, err := l.webhookOf(ctx)
	if err != nil {
		return err
	}
	l.probeOnce.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, lookBound)
		defer cancel()
		began := l.now()
		l.ahead, l.clock, l.probeErr = hook.Probe(ctx)
		l.took = l.now().Sub(began)
	})
	return l.probeErr
}

// list reads what came into the space lately. unread says that there was nothing to read with.
func (l *look) list(ctx context.Context) (unread, err error) {
	hook, err := l.webhookOf(ctx)
	if err != nil {
		return err, nil
	}
	l.listOnce.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, lookBound)
		defer cancel()
		if l.reader, l.readErr = gchat.NewReader(ctx, l.endpoint(l.cfg, hook), l.cfg.CredentialsFile); l.readErr != nil {
			return
		}
		_, l.listErr = l.reader.Since(ctx, hook.Space, l.now().Add(-lookBack), func(page []gchat.Message) {
			l.listed = append(l.listed, page...)
		})
	})
	return l.readErr, l.listErr
}

const staysInTerminal = "questions stay in the terminal"

func (l *look) checkWebhook(ctx context.Context) []state.Finding {
	hook, err := l.webhookOf(ctx)
	switch {
	case errors.Is(err, state.ErrNoWebhook):
		return failed("no webhook URL is configured", staysInTerminal, gchat.Hint(err))
	case errors.Is(err, gchat.ErrNotWebhook):
		return failed("the configured webhook URL is none", staysInTerminal, gchat.Hint(err))
	case errors.Is(err, gchat.ErrEndpoint):
		return state.Skipped(seeEndpoint)
	case err != nil:
		return failed(l.say(err), staysInTerminal,
			"run webhook_url_command by hand: it has to print the URL within 4 seconds, without asking")
	case l.cfg.SpaceID != "" && l.cfg.SpaceID != hook.Space:
		return warned(fmt.Sprintf("space_id is %s, but the webhook posts to %s", l.plain(l.cfg.SpaceID), hook.Space),
			"the webhook's space counts",
			"take space_id (GOOGLE_CHAT_SPACE_ID) out of the configuration: it follows from the URL")
	}
	return state.Fine("posts to " + hook.Chat())
}

func (l *look) checkPost(ctx context.Context) []state.Finding {
	if _, err := l.webhookOf(ctx); err != nil {
		return state.Skipped("there is no webhook to try")
	}
	switch err := l.probe(ctx); {
	case err == nil:
		return state.Fine(fmt.Sprintf("Chat lets the webhook in (%d ms; nothing was posted)", l.took.Milliseconds()))
	case gchat.Overloaded(err):
		return warned(l.say(err), "questions wait until Chat takes them", VerifyHint(err))
	default:
		return failed(l.say(err), staysInTerminal, VerifyHint(err))
	}
}

// checkRead lists as the inbox does: that needs the scope, and membership of the space.
func (l *look) checkRead(ctx context.Context) []state.Finding {
	hook, err := l.webhookOf(ctx)
	if err != nil {
		return state.Skipped("without a webhook there is no space to read")
	}
	unread, err := l.list(ctx)
	if unread != nil {
		if errors.Is(unread, gchat.ErrEndpoint) {
			return state.Skipped(seeEndpoint)
		}
		return state.Skipped("there is nothing to read with: see chat.credentials")
	}
	if err != nil {
		if gchat.Overloaded(err) {
			return warned(l.say(err), "replies are read later", VerifyHint(err))
		}
		return failed(l.say(err), "replies are not read", l.loginMend(l.cfg, readHint(err, hook.Space)))
	}
	people := 0
	for _, m := range l.listed {
		if m.Human {
			people++
		}
	}
	return state.Fine(fmt.Sprintf("messages of the last 24 hours that could be read: %d, %d of them from people",
		len(l.listed), people))
}

// readHint is what to do when listing fails: a 403 there is about membership, and not about the webhook.
func readHint(err error, space string) string {
	var e *gchat.APIError
	if !errors.As(err, &e) || errors.Is(err, gchat.ErrCredentials) {
		return VerifyHint(err)
	}
	has := func(words string) bool { return strings.Contains(e.Message, words) }
	special := has("SCOPE") || has("scope") || has("has not been used in project") || has("Chat app not found")
	switch {
	case e.HTTP == 403 && has("insufficient authentication scopes"):
		return "log in with the scope chat.messages.readonly: gchat-hooks login"
	case (e.HTTP == 403 || e.HTTP == 404) && !special:
		return "the account that reads is no member of " + space + ", or the space is gone: " +
			"add it there in Google Chat, or log in as somebody who is (gchat-hooks login)"
	}
	return VerifyHint(err)
}

// clockWarn and clockFail are how far off a clock may be. Google refuses a service account's token from about five
// minutes on; a reply's time is compared with this machine's.
const (
	clockWarn = 30 * time.Second
	clockFail = 5 * time.Minute
)

func (l *look) checkClock(ctx context.Context) []state.Finding {
	_ = l.probe(ctx)
	ahead, ok := l.ahead, l.clock
	if !ok {
		if _, err := l.list(ctx); err == nil && l.reader != nil {
			ahead, ok = l.reader.Ahead()
		}
	}
	if !ok {
		return state.Skipped("Chat did not tell the time")
	}
	off, side, level := ahead.Abs().Round(time.Second), "behind", state.LevelWarn
	if ahead < 0 {
		side = "ahead of"
	}
	switch {
	case off >= clockFail:
		level = state.LevelFail
	case off < clockWarn:
		return state.Fine(fmt.Sprintf("this machine's clock is Chat's (within %s)", Spoken(max(off, time.Second))))
	}
	return []state.Finding{{
		Level: level, What: fmt.Sprintf("this machine's clock is %s %s Chat's", Spoken(off), side),
		Means: "time limits and times of replies are off; Google refuses logins when it gets worse",
		Mend:  "have the system set its clock: sudo timedatectl set-ntp true (macOS: sudo sntp -sS time.apple.com)",
	}}
}

func failed(what, means, mend string) []state.Finding {
	return []state.Finding{{Level: state.LevelFail, What: what, Means: means, Mend: mend}}
}

func warned(what, means, mend string) []state.Finding {
	return []state.Finding{{Level: state.LevelWarn, What: what, Means: means, Mend: mend}}
}

// say is an error as a line for a terminal, without secrets.
func (l *look) say(err error) string { return l.plain(err.Error()) }

func (l *look) plain(s string) string { return gchat.Cut(gchat.Line(l.Log.Clean(s)), 400) }

// seeEndpoint is all that the other checks say of an API endpoint that is none.
const seeEndpoint = "nothing is asked of an address like api_endpoint's: see chat.endpoint"

// checkEndpoint looks whether requests may go where the configuration sends them in Google's place.
func (l *look) checkEndpoint(context.Context) []state.Finding {
	err := gchat.CheckEndpoint(l.cfg.APIEndpoint)
	switch {
	case l.cfg.APIEndpoint == "":
		return state.Fine("api_endpoint is not set: replies are read from Google, or from where the webhook is on this machine")
	case err == nil:
		return state.Fine("api_endpoint may stand in for Google")
	}
	what := "api_endpoint (GCHAT_API_ENDPOINT)"
	if u, err := url.Parse(l.cfg.APIEndpoint); err == nil && u.Host != "" { // the rest may hold a secret
		what += " is " + l.plain(u.Scheme+"://"+u.Host)
	}
	return failed(what+": "+l.say(err), "no reply is read, and a webhook of Google's cannot be posted to", gchat.Hint(err))
}
