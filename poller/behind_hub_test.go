package poller

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	chatapi "google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/team"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/space"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// newHubMachine returns a machine that joined a hub, which stands in front of the app's
// Chat.
func newHubMachine(t *testing.T, kind string) (*testMachine, *fakeGoogle, *team.Hub) {
	t.Helper()
	d, g := newAppMachine(t)
	g.spaceType = kind
	direct := appSpace
	if kind == "SPACE" {
		direct = "spaces/D"
	}
	h := team.Start(t, appSpace, direct, appSubscription, http.HandlerFunc(g.serve))
	d.joinHub(h)
	return d, g, h
}

// joinHub has the machine reach its app by a hub.
func (d *testMachine) joinHub(h *team.Hub) {
	d.t.Helper()
	file := filepath.Join(d.t.TempDir(), "hub.json")
	hub, err := gchat.JoinHub(d.t.Context(), h.URL, h.Code, "nonce", "v")
	if err == nil {
		err = hub.Save(file)
	}
	kit.NoError(d.t, err)
	d.vars["GCHAT_API_ENDPOINT"], d.vars["GCHAT_PUBSUB_ENDPOINT"],
		d.vars["GOOGLE_CHAT_CREDENTIALS_FILE"] = h.URL, h.URL, file
	d.vars["GCHAT_PUBSUB_SUBSCRIPTION"] = h.Subscription
}

// The hub relays a file that came with a reply. An earlier hub cannot, and the thread says
// so; the reply counts all the same.
func TestBehindHub_FileOfAReply(t *testing.T) {
	d := newTestMachine(t)
	delete(d.vars, "GOOGLE_CHAT_WEBHOOK_URL")
	h, sp := team.StartLocal(t)
	d.vars["GOOGLE_CHAT_SPACE_ID"] = h.Space
	d.joinHub(h)
	d.runPoller(Options{Daemon: true})
	reply := func(want string) *state.Question {
		q, _ := d.addCardQuestion(nil)
		q = d.awaitQuestion(q, "posted", isSent)
		ann := &chatapi.User{Name: "users/1", Type: "HUMAN"}
		_, err := sp.PostFiles(ann, q.ThreadName, "2", space.NewFile{
			Name: "cat.png", Content: kit.Picture(),
		})
		kit.NoError(t, err)
		return d.awaitQuestion(q, want, isAnswered)
	}
	file := reply("answered with a file").Replies[0].Files[0]
	kit.Equalf(t, kit.ReadFile(t, file.Path), string(kit.Picture()), "%+v", file)

	replica := h.Handler()
	h.Override = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/media/") {
			r.URL.Path = "/v1/unknown" // as a hub without that call
		}
		replica.ServeHTTP(w, r)
	})
	file = reply("answered without a file").Replies[0].Files[0]
	kit.Equal(t, file.Problem, problemOldHub)
}

// A question is posted, tapped and answered with a note, and its card is updated. The hub
// lets all these requests through, and gets no others. A long plan's card is the last of
// several messages. A tap is on the message that Chat names, and the card is updated by
// the id that it was posted with.
func TestBehindHub_QuestionPasses(t *testing.T) {
	d, g, h := newHubMachine(t, "DIRECT_MESSAGE")
	plan, button := d.addCardQuestion(func(q *state.Question) {
		q.Kind, q.ToolName, q.ShownText =
			state.KindPlan, "ExitPlanMode", strings.Repeat("a step\n\n", 6000)
		q.Approvers = &[]string{"users/1"}
		q.SubQuestions[0].Options = []state.Option{
			{Label: state.LabelApprove}, {Label: state.LabelSendBack},
		}
	})
	d.startWaiter(plan)
	d.runPoller(Options{Daemon: true})
	card := g.awaitPost("(The full text is above.)")
	plan = d.awaitQuestion(plan, "posted", isSent)
	kit.True(t, g.countMessages("") >= 3, "the plan is %d messages", g.countMessages(""))
	for _, m := range g.messages("") {
		kit.Equalf(t, m.Thread.Name, card.Thread.Name, "the thread of %.20q", m.Text)
	}
	kit.True(t, plan.MessageName == card.Name && plan.CardMessage != card.Name,
		"it is %s, and its card %s", plan.MessageName, plan.CardMessage)
	g.tap("users/9", card, button, "more", nil) // a stranger, who is told so in the thread
	message := g.addHumanMessage(card.Thread.Name, "what?", "")
	g.publish(newEvent("MESSAGE", "users/1", message))
	d.awaitQuestion(plan, "both are added", func(q *state.Question) bool {
		return len(q.Replies) == 2
	})
	g.awaitAcknowledged()
	d.closeQuestion(plan, state.Cancelled, "")
	g.awaitPatch(card.Name, "Cancelled")
	bound.Until(t, "all is sent", func() bool {
		waiting, _ := d.outbox().Waiting()
		return len(waiting) == 0
	})
	joined, requests, refused := h.Seen()
	policy := slices.DeleteFunc(requests, func(r string) bool { return r != "GET /hub/policy" })
	kit.True(t, joined == 1 && len(refused) == 0 && len(policy) == 1,
		"%d tokens, refused %q; its policy was asked for %d times", joined, refused, len(policy))
	kit.True(t, len(g.unexpectedRequests) == 0, "asked for %q", g.unexpectedRequests)
}

// A post whose answer was lost is searched for by its own id, and not repeated.
func TestBehindHub_FindsUnknownPost(t *testing.T) {
	d, g, h := newHubMachine(t, "DIRECT_MESSAGE")
	message := &state.Message{
		ID: state.MessageID("report", "1"), Type: state.MessageReport, Parts: []string{"a report"},
		CreatedAt:    time.Now().UTC(),
		FirstTriedAt: time.Now().UTC(), Chat: strings.TrimPrefix(h.URL, "http://") + "/" + appSpace,
	}
	g.post([]byte(`{"text":"a report"}`),
		"client-"+team.Machine+"-"+strings.TrimPrefix(message.ID, "client-"))
	_, _, err := d.outbox().Enqueue(d.env, message, 0)
	kit.NoError(t, err)
	d.runPoller(Options{Daemon: true})
	bound.Until(t, "its receipt", func() bool {
		all, _ := d.outbox().All()
		return len(all) == 1 && all[0].MessageName == appSpace+"/messages/m0.m0"
	})
	_, requests, _ := h.Seen()
	kit.True(t, !strings.Contains(strings.Join(requests, " "), "POST /v1/"+appSpace),
		"it was posted again: %q", requests)
}

// The hub lists no space, and no poller asks it to. Taps come all the same. The poller
// reads the card of a closed question by the id that it was posted with.
func TestBehindHub_NamedSpace(t *testing.T) {
	d, g, h := newHubMachine(t, "SPACE")
	q, button := d.addCardQuestion(nil)
	d.runPoller(Options{Daemon: true})
	card := g.awaitPost("Which?")
	q = d.awaitQuestion(q, "posted", isSent)
	over := *card
	over.CardsV2 = []*chatapi.CardWithId{gchat.CardV2(wording.NoticeCard("over", ""))}
	// the card has no button of that question
	g.tap("users/1", &over, strings.Repeat("a", 32), "1", nil)
	g.awaitPost(wording.OldCardText)
	g.tap("users/1", card, button, "2", nil)
	d.awaitQuestion(q, "answered", isAnswered)
	g.awaitAcknowledged()
	space := d.spaces().Get(q.Chat)
	kit.True(t, space.ReadTrouble == nil && len(space.PausedWebhooks) == 0, "%+v", space)
	_, _, refused := h.Seen()
	refused = slices.DeleteFunc(refused, func(r string) bool {
		// on a slow machine: see whether it was posted
		return strings.HasPrefix(r, "GET ") && strings.Contains(r, "-"+gchat.OnceMark)
	})
	kit.True(t, len(refused) == 0, "refused %q", refused)
}
