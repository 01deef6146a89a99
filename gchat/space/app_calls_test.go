package space

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/state/config"
)

// A request that a browser sends twice has one effect.
func TestAppCalls_SentTwiceHappensOnce(t *testing.T) {
	s, srv, app := openApp(t, Options{IsDirect: true})
	card := postCard(t, app)
	for range 2 {
		for _, body := range []string{
			`{"thread":"","text":"hello","clientId":"a1"}`,
			`{"message":"` + card + `","choice":"2","inputs":{},"clientId":"a1"}`,
		} {
			kit.Equalf(t, sendTo(t, "POST", srv.URL+"/page/messages", body, pageKeyField(s)), 200,
				"%s", body)
		}
	}
	pullAll(t, app, 2)
}

// A tap says who tapped what. A button that is no longer on the card cannot be tapped.
func TestAppCalls_Tap(t *testing.T) {
	s, _, app := openApp(t, Options{IsDirect: true})
	name := postCard(t, app)
	ann := &chat.User{Name: "users/1", Email: "ann@example.com"}
	kit.NoError(t, s.Tap(ann, name, "", "2", map[string][]string{"w1": {"a text"}}, ""))
	e := pullAll(t, app, 1)[0].Event
	tap := e.Tap
	if !e.IsHuman || e.Person.Email != ann.Email || tap.QuestionID != "x" || tap.Choice != "2" ||
		tap.Inputs["w1"][0] != "a text" {
		t.Errorf("event %+v, tap %+v", e, tap)
	}
	kit.NoError(t, app.Patch(t.Context(), name, "over", buttonsCard()))
	if err := s.Tap(ann, name, "", "2", nil, ""); err == nil {
		t.Error("a button that is gone was tapped")
	}
	kit.NoError(t, s.Tap(ann, name, "x", "2", nil, "")) // on an old screen
}

// In a space the app receives messages that begin with its name, and no others.
func TestAppCalls_Mention(t *testing.T) {
	s, _, app := openApp(t, Options{})
	postCard(t, app)
	for _, text := range []string{"hello", "@gchat-hooksters hello", "@gchat-hooks yes"} {
		postAsPerson(t, s, "", text)
	}
	kit.Equalf(t, pullAll(t, app, 1)[0].Event.Message.Text, " yes", "the app hears")
}

// A webhook's URL does not give the app's rights.
func TestAppCalls_WebhookIsNoApp(t *testing.T) {
	s, srv, app := openApp(t, Options{})
	name := postCard(t, app)
	hook, err := gchat.ParseWebhook(&config.Config{}, s.WebhookURL(srv.URL))
	kit.NoError(t, err)
	var threads []string
	for _, sender := range []interface {
		Post(context.Context, gchat.Post) (gchat.PostedMessage, error)
	}{hook, app, app} {
		posted, err := sender.Post(t.Context(), gchat.Post{Text: "x", ThreadKey: "k"})
		kit.NoError(t, err)
		threads = append(threads, posted.ThreadName)
	}
	if threads[0] == threads[1] || threads[1] != threads[2] {
		t.Errorf("threads %q", threads)
	}
	patch := strings.Replace(s.WebhookURL(srv.URL), Name+"/messages", name, 1) + "&updateMask=text"
	kit.Equalf(t, sendTo(t, "PATCH", patch, `{"text":"changed"}`), 403, "a webhook's patch")
}

// What the app says that a text is about reaches the page, also after a restart. Of a
// webhook it is not taken.
func TestAppCalls_AboutReachesThePage(t *testing.T) {
	opts := Options{DataDir: t.TempDir(), IsDirect: true}
	s, srv, app := openApp(t, opts)
	hook, err := gchat.ParseWebhook(&config.Config{}, s.WebhookURL(srv.URL))
	kit.NoError(t, err)
	about := gchat.Post{Text: "x", About: gchat.About{Kind: "blocked_alert", Session: "shöp · a&b"}}
	_, err = app.Post(t.Context(), about)
	kit.NoError(t, err)
	_, err = hook.Post(t.Context(), about)
	kit.NoError(t, err)
	for range 2 {
		rows, _, _ := s.rowsAfter(0)
		a, b := pageRow(rows[0]), pageRow(rows[1])
		if a.Kind != "blocked_alert" || a.Session != "shöp · a&b" || b.Kind != "" ||
			b.Session != "" {
			t.Errorf("the page has %+v and %+v", a, b)
		}
		s.Close()
		s, _, _ = openApp(t, opts)
	}
}

// After a restart, changed messages are as they were, and the space still knows that it
// has an app.
func TestAppCalls_OutliveARestart(t *testing.T) {
	opts := Options{DataDir: t.TempDir(), IsDirect: true}
	s, _, app := openApp(t, opts)
	name := postCard(t, app)
	kit.NoError(t, app.Patch(t.Context(), name, "over", buttonsCard()))
	s.Close()
	s, _, app = openApp(t, opts)
	postAsPerson(t, s, "", "first")
	pullAll(t, app, 1)
	if m := s.Messages(); len(m) != 2 || m[0].Text != "over" || m[0].LastUpdateTime == "" {
		t.Errorf("after the restart: %+v", m)
	}
}

// An app that met an earlier version's space, which was no direct message, learns that
// the new space is one.
func TestAppCalls_LearnThatItIsDirect(t *testing.T) {
	s, _, app := openApp(t, Options{})
	for _, want := range []bool{false, true} {
		s.isDirect = want
		is, err := app.IsDirect(t.Context())
		kit.NoError(t, err)
		kit.Equalf(t, is, want, "direct")
	}
}
