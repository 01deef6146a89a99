package poller

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	chatapi "google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/e2e/team"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/space"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// transportTest has a gateway into an embedded space, opened from a configuration.
// Between the two is a fake Google that refuses what Google refuses, and can answer with
// an error of the test.
type transportTest struct {
	*projectGateway
	t     *testing.T
	space *space.Space
	// what calls about messages are answered with; nil for the space's own
	fault atomic.Pointer[chatFault]
}

// chatFault is an error that Chat answers with.
type chatFault struct {
	code       int
	status     string
	retryAfter string // Retry-After
	isLate     bool   // the call was carried out before
}

// transportTests are all transports. An app may be in a direct conversation, or in a
// space of several people, where it gets fewer messages.
var transportTests = map[string]func(*testing.T) *transportTest{
	"webhook": func(t *testing.T) *transportTest {
		c := newTransportTest(t, space.Options{})
		server := c.serve(strict.CheckRequests(t, c, strict.Embedded, strict.OtherThreads))
		c.openTransport(map[string]string{"GOOGLE_CHAT_WEBHOOK_URL": c.space.WebhookURL(server)})
		return c
	},
	"app in a direct message": func(t *testing.T) *transportTest {
		c := newTransportTest(t, space.Options{IsDirect: true})
		c.openApp(strict.CheckRequests(t, c, strict.Embedded, strict.OtherThreads,
			strict.DirectMessage))
		return c
	},
	"app in a space": func(t *testing.T) *transportTest {
		c := newTransportTest(t, space.Options{})
		c.openApp(strict.CheckRequests(t, c, strict.Embedded, strict.OtherThreads))
		return c
	},
	"app behind a hub": func(t *testing.T) *transportTest {
		c := newTransportTest(t, space.Options{IsDirect: true})
		prefix := strings.TrimSuffix(c.space.APIEndpoint(""), "/")
		h := team.Start(t, space.Name, space.Name, space.Subscription,
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.URL.Path = prefix + r.URL.Path
				c.ServeHTTP(w, r)
			}))
		if program := os.Getenv(team.OtherHubVariable); program != "" {
			h.Override = startOtherHub(t, program, h.Google)
		}
		file := filepath.Join(t.TempDir(), "hub.json")
		hub, err := gchat.JoinHub(t.Context(), h.URL, h.Code, "nonce", "v")
		if err == nil {
			err = hub.Save(file)
		}
		kit.NoError(t, err)
		c.openTransport(map[string]string{
			"GOOGLE_CHAT_SPACE_ID": space.Name, "GCHAT_PUBSUB_SUBSCRIPTION": h.Subscription,
			"GCHAT_API_ENDPOINT": h.URL, "GCHAT_PUBSUB_ENDPOINT": h.URL,
			"GOOGLE_CHAT_CREDENTIALS_FILE": file,
		})
		return c
	},
}

// startOtherHub starts a hub of another version of the program, in a process of its own.
// It relays nothing, because its subscription does not exist.
func startOtherHub(t *testing.T, program, google string) http.Handler {
	t.Helper()
	ln := kit.Listen(t)
	address := ln.Addr().String()
	ln.Close()
	home := t.TempDir()
	key := filepath.Join(home, "key")
	kit.NoError(t, os.WriteFile(key, []byte(team.Key), 0o600))
	cmd := bound.Command(t, program, "hub", "--listen", address, "--key-file", key,
		"--topic", team.Topic, "--subscription", "projects/p/subscriptions/none",
		"--domain", "example.com")
	cmd.Env = []string{
		"HOME=" + home, "GCHAT_API_ENDPOINT=" + google, "GCHAT_PUBSUB_ENDPOINT=" + google,
	}
	kit.StartProcess(t, cmd)
	at := &url.URL{Scheme: "http", Host: address}
	bound.Until(t, "the other hub listens", func() bool {
		answer, err := http.Get(at.JoinPath("healthz").String())
		if err == nil {
			answer.Body.Close()
		}
		return err == nil
	})
	return httputil.NewSingleHostReverseProxy(at)
}

func newTransportTest(t *testing.T, o space.Options) *transportTest {
	t.Helper()
	s, err := space.Open(o)
	kit.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return &transportTest{t: t, space: s}
}

func (c *transportTest) serve(by http.Handler) string {
	return kit.NewServer(c.t, by).URL
}

func (c *transportTest) openApp(by http.Handler) {
	at := c.space.APIEndpoint(c.serve(by))
	c.openTransport(map[string]string{
		"GOOGLE_CHAT_SPACE_ID": space.Name, "GCHAT_PUBSUB_SUBSCRIPTION": space.Subscription,
		"GCHAT_API_ENDPOINT": at, "GCHAT_PUBSUB_ENDPOINT": at,
	})
}

// openTransport has a poller read its configuration and open the gateway.
func (c *transportTest) openTransport(vars map[string]string) {
	c.t.Helper()
	vars["HOME"] = c.t.TempDir()
	env := func(name string) string { return vars[name] }
	p := newPoller(Options{Env: env, Log: state.NewLog(env, "test")})
	c.projectGateway = p.gatewayFor(c.t.Context(), configSource{})
	kit.NoError(c.t, c.err)
}

func (c *transportTest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := c.fault.Load()
	if f == nil || !strings.Contains(r.URL.Path, "/messages") {
		c.space.Handler().ServeHTTP(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	if f.isLate {
		r.Body = io.NopCloser(bytes.NewReader(body))
		c.space.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	var after []string
	if f.retryAfter != "" {
		after = []string{"Retry-After", f.retryAfter}
	}
	answerWithError(f.code, f.status, "a fault", after...)("", w, nil)
}

// post creates a message. The test fails where that fails.
func (c *transportTest) post(p gchat.Post) gchat.PostedMessage {
	c.t.Helper()
	posted, err := c.transport.Post(c.t.Context(), p)
	kit.Must(c.t, err == nil, "post %q: %v", p.Text, err)
	return posted
}

// shownMessage returns the message with a name as the space shows it.
func (c *transportTest) shownMessage(name string) *chatapi.Message {
	for _, m := range c.space.Messages() {
		if m.Name == name {
			return m
		}
	}
	c.t.Fatalf("there is no message %s", name)
	return nil
}

// receiveMessage returns the first message of a person that the poller gets, from an
// event or from the list.
func (c *transportTest) receiveMessage(from time.Time) (got gchat.Message) {
	c.t.Helper()
	all, err := c.transport.ReceivesAllAsEvents(c.t.Context())
	kit.NoError(c.t, err)
	if !all {
		reader, err := c.openReader(c.t.Context())
		if err == nil {
			err = reader.ListSince(c.t.Context(), c.projectGateway.spaceName, from,
				func(page []gchat.Message) {
					for _, m := range page {
						if m.IsHuman {
							got = m
						}
					}
				})
		}
		kit.NoError(c.t, err)
		return got
	}
	events, err := c.eventSource().Pull(c.t.Context())
	kit.Must(c.t, err == nil && len(events) == 1, "pulled %+v, %v", events, err)
	kit.NoError(c.t, c.eventSource().Ack(c.t.Context(), []string{events[0].AckID}))
	return events[0].Message
}

// Each transport keeps the contract that the poller relies on.
func TestTransport_KeepsItsContract(t *testing.T) {
	for name, connect := range transportTests {
		t.Run(name, func(t *testing.T) {
			for promise, holds := range transportPromises {
				t.Run(promise, func(t *testing.T) { holds(t, connect(t)) })
			}
		})
	}
}

// Only the code that opens a gateway knows which transports there are.
func TestTransport_NamedInOnePlace(t *testing.T) {
	kinds := regexp.MustCompile(
		`gchat\.(App|NewApp|Webhook\w*|ListedWebhook|Hub|ReadHub|CardV2)\b|` +
			`\.Hub\b|\.Subscription\b`)
	files, err := filepath.Glob("*.go")
	kit.Must(t, err == nil && len(files) >= 20, "only %d files: %v", len(files), err)
	for _, file := range files {
		b := kit.ReadFile(t, file)
		elsewhere := file != "gateway.go" && !strings.HasSuffix(file, "_test.go")
		found := kinds.FindString(b)
		kit.True(t, found == "" || !elsewhere, "%s names %s", file, found)
	}
}

// isMissingMessage reports whether an error says that there is no such message.
func isMissingMessage(err error) bool { return gchat.IsPermanent(err) && !gchat.IsAuthFailure(err) }

var transportPromises = map[string]func(*testing.T, *transportTest){
	"it says where it leads": func(t *testing.T, c *transportTest) {
		kit.True(t, c.projectGateway.spaceName == space.Name &&
			strings.HasSuffix(c.transport.Chat(), "/"+space.Name), "it leads to %q, %q",
			c.projectGateway.spaceName, c.transport.Chat())
		id := c.transport.ID()
		kit.True(t, id != "" && !strings.Contains(id, "key="), "its id is %q", id)
	},

	"two posts of an id are one message": func(t *testing.T, c *transportTest) {
		p := gchat.Post{Text: "once", ThreadKey: "k", MessageID: state.MessageID("twice")}
		first := c.post(p)
		again, err := c.transport.Post(t.Context(), p)
		isSame := again.Name == first.Name && again.ThreadName == first.ThreadName
		kit.True(t, err == nil && isSame || gchat.IsAlreadyExists(err),
			"the first receipt is %+v, the second %+v, %v", first, again, err)
		kit.Equalf(t, len(c.space.Messages()), 1, "messages")
	},

	"a post of unknown fate is found, and one that never was is not": func(t *testing.T,
		c *transportTest) {
		from, id := time.Now().Add(-time.Minute), state.MessageID("unknown")
		c.fault.Store(&chatFault{code: 503, status: "UNAVAILABLE", isLate: true})
		p := gchat.Post{Text: "perhaps", ThreadKey: "k", MessageID: id}
		_, err := c.transport.Post(t.Context(), p)
		kit.True(t, gchat.MayHaveArrived(err), "a failed post: %v", err)
		c.fault.Store(nil)
		found, err := c.transport.Find(t.Context(), id, from)
		kit.NoError(t, err)
		m := c.shownMessage(found.Name)
		created, _ := time.Parse(time.RFC3339Nano, m.CreateTime)
		kit.True(t, m.Text == "perhaps" && found.ThreadName == m.Thread.Name &&
			found.ServerTime.Equal(created), "found %+v, and it is %+v", found, m)
		_, err = c.transport.Find(t.Context(), state.MessageID("never"),
			from)
		kit.True(t, isMissingMessage(err), "what never was: %v", err)
	},

	"a message of ours is changed, or none is": func(t *testing.T, c *transportTest) {
		id := state.MessageID("old")
		posted := c.post(gchat.Post{Text: "old", MessageID: id})
		changed := gchat.Post{Text: "new"}
		err := c.transport.Update(t.Context(), gchat.MessageName(c.projectGateway.spaceName, id),
			changed)
		want := "new"
		if errors.Is(err, errors.ErrUnsupported) {
			want, err = "old", nil
		}
		m := c.shownMessage(posted.Name)
		kit.True(t, err == nil && m.Text == want, "it is %q, want %q: %v", m.Text, want, err)
		gone := gchat.MessageName(c.projectGateway.spaceName, state.MessageID("gone"))
		err = c.transport.Update(t.Context(), gone, changed)
		kit.True(t, err == nil || errors.Is(err, errors.ErrUnsupported),
			"one that is gone: %v", err)
		kit.Equalf(t, len(c.space.Messages()), 1, "messages")
	},

	"what cannot be changed is posted as a message": func(t *testing.T, c *transportTest) {
		id := state.MessageID("card")
		first := c.post(gchat.Post{Text: "open", MessageID: id})
		message := &state.Message{
			ID: state.MessageID("closed"), Parts: []string{"closed"}, ThreadName: first.ThreadName,
			PatchedMessage: gchat.MessageName(c.projectGateway.spaceName, id),
		}
		_, err := c.postPart(t.Context(), message)
		kit.NoError(t, err)
		var closed []*chatapi.Message
		for _, m := range c.space.Messages() {
			if m.Text == "closed" && m.Thread.Name == first.ThreadName {
				closed = append(closed, m)
			}
		}
		kit.Equalf(t, len(closed), 1, "messages")
	},

	"a thread of another space is refused, and the message begins one": func(t *testing.T,
		c *transportTest) {
		const other = "spaces/other/threads/T"
		id := state.MessageID("moved")
		p := gchat.Post{Text: "hello", ThreadName: other, MessageID: id}
		_, err := c.transport.Post(t.Context(), p)
		kit.True(t, gchat.IsMalformed(err) && !gchat.MayHaveArrived(err), "posted: %v", err)
		message := &state.Message{ID: id, Parts: []string{"hello"}, ThreadName: other}
		posted, err := c.postPart(t.Context(), message)
		kit.True(t, err == nil && gchat.SpaceOf(posted.ThreadName) == space.Name,
			"delivered as %+v, %v", posted, err)
		kit.Equalf(t, len(c.space.Messages()), 1, "messages")
	},

	"a thread is found again": func(t *testing.T, c *transportTest) {
		first := c.post(gchat.Post{Text: "1", ThreadKey: "k", MessageID: state.MessageID("1")})
		named := gchat.Post{
			Text: "2", ThreadName: first.ThreadName, MessageID: state.MessageID("2"),
		}
		second := c.post(named)
		kit.True(t, second.ThreadName == first.ThreadName,
			"by its name: %s, not %s", second.ThreadName, first.ThreadName)
		third := c.post(gchat.Post{Text: "3", ThreadKey: "k", MessageID: state.MessageID("3")})
		kit.True(t, !c.transport.KeepsThreadKeys() || third.ThreadName == first.ThreadName,
			"by its key: %s, not %s", third.ThreadName, first.ThreadName)
	},

	"what is written comes back": func(t *testing.T, c *transportTest) {
		from := time.Now().Add(-time.Minute)
		posted := c.post(gchat.Post{
			Text: "Which?", ThreadKey: "k", MessageID: state.MessageID("asked"),
		})
		ann := &chatapi.User{Name: "users/7", DisplayName: "Ann", Email: "ann@example.com"}
		message, err := c.space.PostAs(ann, posted.ThreadName, "the second")
		kit.NoError(t, err)
		created, _ := time.Parse(time.RFC3339Nano, message.CreateTime)
		got := c.receiveMessage(from)
		want := gchat.Message{
			Name: message.Name, ThreadName: posted.ThreadName, Text: "the second",
			CreateTime: created, IsReply: true, IsHuman: true, Sender: ann.Name,
			SenderEmail: ann.Email, DisplayName: ann.DisplayName,
		}
		kit.Equalf(t, got, want, "it came as")
	},

	"a question is a card where taps come, and text where they do not": func(t *testing.T,
		c *transportTest) {
		q := &state.Question{QuestionID: "q", SubQuestions: []state.SubQuestion{{
			Question: "Which?", Options: []state.Option{{Label: "One"}, {Label: "Two"}},
		}}}
		texts, card := c.transport.QuestionTexts(q, "cafe12")
		draws := c.transport.DrawsCards()
		kit.Must(t, draws == (card != nil) && draws == (c.eventSource() != nil) && len(texts) == 1,
			"draws cards: %t; %d texts, the card %s", draws, len(texts), card)
		message := &state.Message{ID: state.MessageID("q"), Parts: texts, Card: card}
		posted, err := c.postPart(t.Context(), message)
		kit.NoError(t, err)
		shown := c.shownMessage(posted.Name)
		b := kit.JSON(t, shown.CardsV2)
		asks := strings.Contains(shown.Text+shown.FallbackText, "Which?")
		kit.True(t, asks && strings.Contains(string(b), "cafe12") == draws,
			"it is %q, %q, and the card %s", shown.Text, shown.FallbackText, b)
	},

	"a card is not drawn where nobody could tap it": func(t *testing.T, c *transportTest) {
		card := gchat.StoredCard(wording.NoticeCard("over", "cafe12"))
		posted := c.post(gchat.Post{Text: "text", Card: card, MessageID: state.MessageID("card")})
		m := c.shownMessage(posted.Name)
		kit.True(t, (len(m.CardsV2) > 0) == c.transport.DrawsCards(),
			"text %q, %d cards", m.Text, len(m.CardsV2))
	},

	"a message for one person is shown to no one else": func(t *testing.T, c *transportTest) {
		all, err := c.transport.ReceivesAllAsEvents(t.Context())
		kit.NoError(t, err)
		posted := c.post(gchat.Post{
			Text: "psst", Viewer: "users/7", MessageID: state.MessageID("psst"),
		})
		hides := c.transport.DrawsCards() && !all
		viewer := c.shownMessage(posted.Name).PrivateMessageViewer
		kit.True(t, (viewer != nil) == hides,
			"hidden from others: %t, want %t", viewer != nil, hides)
	},

	"errors mean the same": func(t *testing.T, c *transportTest) {
		id := state.MessageID("x")
		c.post(gchat.Post{Text: "x", MessageID: id})
		for status, want := range map[string]struct {
			chatFault
			auth, permanent, refused, tooMany, overloaded, unsure bool
		}{
			"PERMISSION_DENIED": {chatFault: chatFault{code: 403}, auth: true, permanent: true},
			"INVALID_ARGUMENT":  {chatFault: chatFault{code: 400}, permanent: true, refused: true},
			"NOT_FOUND":         {chatFault: chatFault{code: 404}, permanent: true, refused: true},
			"RESOURCE_EXHAUSTED": {
				chatFault: chatFault{code: 429, retryAfter: "7"}, tooMany: true, overloaded: true,
			},
			"UNAVAILABLE": {chatFault: chatFault{code: 503}, overloaded: true, unsure: true},
		} {
			want.status = status
			c.fault.Store(&want.chatFault)
			p := gchat.Post{Text: "y", MessageID: state.MessageID("y")}
			_, posting := c.transport.Post(t.Context(), p)
			_, finding := c.transport.Find(t.Context(), id, time.Now().Add(-time.Minute))
			changing := c.transport.Update(t.Context(),
				gchat.MessageName(c.projectGateway.spaceName, id), p)
			for what, err := range map[string]error{
				"post": posting, "find": finding, "update": changing,
			} {
				if what == "update" &&
					(errors.Is(err, errors.ErrUnsupported) || want.code == 404 && err == nil) {
					continue
				}
				got := want
				got.auth, got.permanent, got.refused =
					gchat.IsAuthFailure(err), gchat.IsPermanent(err), gchat.IsRefused(err)
				got.tooMany, got.overloaded, got.unsure =
					gchat.IsRateLimited(err), gchat.IsOverloaded(err), gchat.MayHaveArrived(err)
				isInTime := want.retryAfter == "" || gchat.RetryAfter(err) == 7*time.Second
				kit.True(t, got == want && isInTime,
					"%s, answered with %s: %v is %+v", what, status, err, got)
			}
		}
	},
}

func TestTransport_MessageSaysItsKind(t *testing.T) {
	for want, message := range map[gchat.About]*state.Message{
		{Kind: "blocked_alert", Session: "shop"}: {
			Report: &state.Report{Type: state.ReportBlockedAlert, SessionName: "shop"},
		},
		{Kind: "permission"}: {
			Report: &state.Report{Type: state.ReportPlain, RuleKind: "permission"},
		},
		{Kind: "note sent"}: {
			Type: state.MessageNote, Note: &state.OwedNote{About: state.NoteSent},
		},
		{Kind: "gone_on"}: {
			Type: state.MessageNote, Parts: []string{wording.DialogOverText},
		},
		{Kind: "note"}: {
			Type: state.MessageNote, Parts: []string{"[Status] shop"},
		},
		{Kind: "question"}: {
			Type: state.MessageQuestion, Parts: []string{"[Plan] (1/2)", "x"},
		},
	} {
		kit.Equal(t, aboutOf(message), want)
	}
}
