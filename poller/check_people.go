package poller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// plainEndpoint says that reading takes no credentials: the embedded space's.
func (l *look) plainEndpoint(hook *gchat.Webhook) bool {
	u, err := url.Parse(l.endpoint(l.cfg, hook))
	return err == nil && u.Scheme == "http"
}

// checkCredentials looks at what replies are read with: at whether Google took them when the space was read.
func (l *look) checkCredentials(ctx context.Context) []state.Finding {
	if gchat.CheckEndpoint(l.cfg.APIEndpoint) != nil {
		return state.Skipped(seeEndpoint)
	}
	hook, err := l.webhookOf(ctx)
	if err == nil && l.plainEndpoint(hook) {
		return state.Fine("none are needed for the space on this machine")
	}
	endpoint := ""
	if err == nil {
		if unread, err := l.list(ctx); unread == nil && refused(err) {
			return failed(l.say(err), "replies are not read", l.loginMend(l.cfg, readHint(err, hook.Space)))
		}
		endpoint = l.endpoint(l.cfg, hook)
	}
	if _, err := gchat.NewReader(ctx, endpoint, l.cfg.CredentialsFile); err != nil {
		return failed(l.say(err), "replies are not read", l.loginMend(l.cfg, logIn))
	}
	switch {
	case l.cfg.CredentialsFile == state.LoginFile(l.Env):
		return state.Fine("a login (gchat-hooks login)")
	case l.cfg.CredentialsFile != "":
		return state.Fine("the file " + l.cfg.CredentialsFile)
	}
	return state.Fine("Application Default Credentials")
}

// refused says that Google does not take the credentials, or not any more: whatever they were to read.
func refused(err error) bool {
	var e *gchat.APIError
	return errors.Is(err, gchat.ErrCredentials) || errors.As(err, &e) && e.HTTP == http.StatusUnauthorized
}

// checkMe tells the person who they are to Chat, and whether they may answer their own questions.
func (l *look) checkMe(ctx context.Context) []state.Finding {
	hook, err := l.webhookOf(ctx)
	if err != nil {
		return state.Skipped("without a webhook there is no Chat to ask")
	}
	if l.plainEndpoint(hook) {
		return state.Skipped("the space on this machine knows no logins")
	}
	login, err := state.ReadLogin(state.LoginFile(l.Env))
	if err == nil && l.cfg.CredentialsFile == state.LoginFile(l.Env) && state.IsPerson(login.User) {
		return state.Fine(strings.TrimSpace("you are " + login.User + " " + l.plain(login.DisplayName)))
	}
	if unread, err := l.list(ctx); unread != nil || err != nil {
		return state.Skipped("messages cannot be read")
	}
	ctx, cancel := context.WithTimeout(ctx, lookBound)
	defer cancel()
	me, err := l.reader.Me(ctx)
	if err != nil { // a service account, for one, is no person
		return state.Skipped("Chat does not tell who reads: " + l.say(err))
	}
	if !allowed(l.cfg, &state.Reply{Sender: me.Name, SenderEmail: me.Email}) {
		return warned("you are "+me.Name+", and may not answer", "your own replies are not used",
			"put \""+me.Name+"\" on allowed_users in ~/.config/gchat-hooks/config.json")
	}
	return state.Fine(strings.TrimSpace("you are " + me.Name + " " + l.plain(me.DisplayName)))
}

// personOrMail is how people are written: Google numbers them, the space on this machine calls them local-NAME.
var personOrMail = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(users/([0-9]+|local-[^\s@/]+)|(users/)?[^\s@/]+@[^\s@/]+)$`)
})

// checkAllowed looks whether any person may answer, and whether those on the list are people.
func (l *look) checkAllowed(ctx context.Context) (fs []state.Finding) {
	if len(l.cfg.AllowedUsers) == 0 {
		return failed("nobody may answer: allowed_users is empty", "no reply is used",
			logIn+", or reply to a question and put the users/ID that its thread tells on allowed_users in "+
				"~/.config/gchat-hooks/config.json")
	}
	unread, err := l.list(ctx)
	for _, u := range l.cfg.AllowedUsers {
		program := func(m gchat.Message) bool { return m.Sender == u && !m.Human }
		switch {
		case unread == nil && err == nil && slices.ContainsFunc(l.listed, program):
			fs = append(fs, warned(u+" on allowed_users is a program, not a person", "no reply of a program is used",
				"take it out of allowed_users, and put the person's users/ID there")...)
		case !personOrMail().MatchString(u):
			fs = append(fs, warned(fmt.Sprintf("%q on allowed_users is nobody", l.plain(u)),
				"whoever it should be may not answer",
				"write it as users/ID with Google's number of the person (a thread tells it to whoever may not answer), "+
					"or as an e-mail address")...)
		}
	}
	if len(fs) > 0 {
		return fs
	}
	return state.Fine(fmt.Sprintf("people who may answer: %d", len(l.cfg.AllowedUsers)))
}

var ourMessageID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^client-[0-9a-f]{40}$`) })

// checkPeople sees to it that our own messages, which it knows by the form of their ids, are not listed as a person's.
func (l *look) checkPeople(ctx context.Context) []state.Finding {
	if _, err := l.webhookOf(ctx); err != nil {
		return state.Skipped("without a webhook there is no space to read")
	}
	if unread, err := l.list(ctx); unread != nil || err != nil {
		return state.Skipped("messages cannot be read")
	}
	ours := 0
	for _, m := range l.listed {
		if !ourMessageID().MatchString(m.ClientID) {
			continue
		}
		ours++
		if m.Human {
			return failed("a message of this program is listed as a person's: "+l.plain(m.Name), "it would be taken for a reply",
				"look what answers in Google Chat's place (GCHAT_API_ENDPOINT); gchat-hooks verify looks closer")
		}
	}
	if ours == 0 {
		return state.Skipped("nothing of ours was posted in the last 24 hours; gchat-hooks doctor --live tries it")
	}
	return state.Fine(fmt.Sprintf("people are told from programs; messages of ours that are listed as a program's: %d", ours))
}

const logIn = "gchat-hooks login"

// loginMend adds to a mend that names a login what keeps one from being used: a credentials file goes before it.
func (p *Poller) loginMend(cfg *state.Config, mend string) string {
	if !strings.Contains(mend, logIn) {
		return mend
	}
	if cfg.CredentialsFile == state.NoCredentials {
		return "put a credentials file into the project and name it as credentials_file, " +
			"or take the webhook out of the project's files"
	}
	if file := cfg.CredentialsFile; file != "" && file != state.LoginFile(p.Env) {
		mend += "; a login is used only once credentials_file (GOOGLE_CHAT_CREDENTIALS_FILE) is removed: " +
			"do that, or replace " + file
	}
	return mend
}
