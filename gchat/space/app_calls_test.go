package space

import (
	"strings"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/state/config"
)

// What a browser sends twice happens once.
func TestAppCalls_SentTwiceHappensOnce(t *testing.T) {
	s, srv, app := openApp(t, Options{IsDirect: true})
	card := postCard(t, app)
	for range 2 {
		count := sendTo(t, "POST", srv.URL+"/page/messages", `{"thread":"","text":"hello","clientId":"a1"}`, pageKeyField(s))
		tapped := sendTo(t, "POST", srv.URL+"/page/messages", `{"message":"`+card+`","choice":"2","inputs":{},"clientId":"a1"}`, pageKeyField(s))
		if count != 200 || tapped != 200 {
			t.Errorf("answers %d and %d", count, tapped)
		}
	}
	pullAll(t, app, 2)
}

// A tap tells who tapped what; a button that the card has no more cannot be tapped.
func TestAppCalls_Tap(t *testing.T) {
	s, _, app := openApp(t, Options{IsDirect: true})
	name := postCard(t, app)
	ann := &chat.User{Name: "users/1", Email: "ann@example.com"}
	kit.NoError(t, s.Tap(ann, name, "", "2", map[string][]string{"w1": {"words"}}, ""))
	e := pullAll(t, app, 1)[0].Event
	tap := e.Tap
	if !e.IsHuman || e.Person.Email != ann.Email || tap.QuestionID != "x" || tap.Choice != "2" || tap.Inputs["w1"][0] != "words" {
		t.Errorf("event %+v, tap %+v", e, tap)
	}
	kit.NoError(t, app.Patch(t.Context(), name, "over", buttonsCard()))
	if err := s.Tap(ann, name, "", "2", nil, ""); err == nil {
		t.Error("a button that is gone was tapped")
	}
	if err := s.Tap(ann, name, "x", "2", nil, ""); err != nil {
		t.Errorf("tap on an old screen: %v", err)
	}
}

// In a space the app hears what begins with its name, and no other word that begins so.
func TestAppCalls_Mention(t *testing.T) {
	s, _, app := openApp(t, Options{})
	postCard(t, app)
	for _, text := range []string{"hello", "@gchat-hooksters hello", "@gchat-hooks yes"} {
		if _, err := s.PostAs(nil, "", text); err != nil {
			t.Fatal(err)
		}
	}
	if e := pullAll(t, app, 1)[0].Event; e.Message.Text != " yes" {
		t.Errorf("heard %q", e.Message.Text)
	}
}

// The holder of a webhook's URL is not the app.
func TestAppCalls_WebhookIsNoApp(t *testing.T) {
	s, srv, app := openApp(t, Options{})
	name := postCard(t, app)
	hook, err := gchat.ParseWebhook(&config.Config{}, s.WebhookURL(srv.URL))
	kit.NoError(t, err)
	a, errA := hook.Post(t.Context(), gchat.Post{Text: "x", ThreadKey: "k"})
	b, errB := app.Post(t.Context(), gchat.Post{Text: "x", ThreadKey: "k"})
	c, errC := app.Post(t.Context(), gchat.Post{Text: "x", ThreadKey: "k"})
	if a.ThreadName == b.ThreadName || b.ThreadName != c.ThreadName || errA != nil || errB != nil || errC != nil {
		t.Errorf("threads %s %s %s (%v %v %v)", a.ThreadName, b.ThreadName, c.ThreadName, errA, errB, errC)
	}
	patch := strings.Replace(s.WebhookURL(srv.URL), Name+"/messages", name, 1) + "&updateMask=text"
	kit.Equalf(t, sendTo(t, "PATCH", patch, `{"text":"changed"}`), 403, "a webhook's patch")
}

// What the app says that a text is about is told to the page, also after a restart. Of a
// webhook it is not taken.
func TestAppCalls_AboutReachesThePage(t *testing.T) {
	opts := Options{DataDir: t.TempDir(), IsDirect: true}
	s, srv, app := openApp(t, opts)
	hook, err := gchat.ParseWebhook(&config.Config{}, s.WebhookURL(srv.URL))
	kit.NoError(t, err)
	about := gchat.Post{Text: "x", About: gchat.About{Kind: "blocked_alert", Session: "shöp · a&b"}}
	_, errA := app.Post(t.Context(), about)
	_, errB := hook.Post(t.Context(), about)
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	for range 2 {
		rows, _, _ := s.rowsAfter(0)
		a, b := pageRow(rows[0]), pageRow(rows[1])
		if a.Kind != "blocked_alert" || a.Session != "shöp · a&b" || b.Kind != "" || b.Session != "" {
			t.Errorf("the page is told %+v and %+v", a, b)
		}
		s.Close()
		s, _, _ = openApp(t, opts)
	}
}

// A restart keeps changed messages, and that there is an app.
func TestAppCalls_OutliveARestart(t *testing.T) {
	opts := Options{DataDir: t.TempDir(), IsDirect: true}
	s, _, app := openApp(t, opts)
	name := postCard(t, app)
	kit.NoError(t, app.Patch(t.Context(), name, "over", buttonsCard()))
	s.Close()
	s, _, app = openApp(t, opts)
	if _, err := s.PostAs(nil, "", "first"); err != nil {
		t.Fatal(err)
	}
	pullAll(t, app, 1)
	if m := s.Messages(); len(m) != 2 || m[0].Text != "over" || m[0].LastUpdateTime == "" {
		t.Errorf("after the restart: %+v", m)
	}
}

// An app that met a space of an earlier version, which was no direct message, finds out
// that it is one once the space was replaced.
func TestAppCalls_LearnThatItIsDirect(t *testing.T) {
	s, _, app := openApp(t, Options{})
	for _, want := range []bool{false, true} {
		s.isDirect = want
		if is, err := app.IsDirect(t.Context()); is != want || err != nil {
			t.Errorf("direct: %v, want %v (%v)", is, want, err)
		}
	}
}
