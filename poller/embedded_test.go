package poller

import (
	"cmp"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	chatapi "google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/space"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// newEmbeddedMachine returns a machine whose configuration has the webhook that an
// earlier version's setup --space wrote.
func newEmbeddedMachine(t *testing.T) (*testMachine, *gchat.Webhook) {
	t.Helper()
	d := newTestMachine(t)
	address := d.vars["GOOGLE_CHAT_WEBHOOK_URL"]
	delete(d.vars, "GOOGLE_CHAT_WEBHOOK_URL")
	file := filepath.Join(d.dir, ".config/gchat-hooks/config.json")
	kit.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	kit.NoError(t, config.SetMember(file, "webhook_url", address))
	at, _ := url.Parse(address)
	port, _ := strconv.Atoi(at.Port())
	kit.NoError(t, state.WriteSpaceSocket(d.env, port, filepath.Join(d.dir, "socket")))
	hook, err := gchat.ParseWebhook(&config.Config{}, address)
	kit.NoError(t, err)
	return d, hook
}

// addTextQuestion adds an open question whose text a webhook posted.
func (d *testMachine) addTextQuestion(hook *gchat.Webhook) *state.Question {
	d.t.Helper()
	q := d.addQuestion(func(q *state.Question) {
		q.Mode = state.ModeNative
		posted, err := hook.Post(d.t.Context(), gchat.Post{
			Text: wording.QuestionTexts(q)[0], ThreadKey: q.ThreadKey,
		})
		kit.NoError(d.t, err)
		q.IsMessageSent, q.ThreadName, q.MessageName, q.Space, q.Chat =
			true, posted.ThreadName, posted.Name, space.Name, hook.Chat()
	})
	d.startWaiter(q)
	return q
}

// cardMessages returns the messages of a thread that have a card.
func (d *testMachine) cardMessages(thread string) (cards []*chatapi.Message) {
	for _, m := range d.space.Messages() {
		if m.Thread.Name == thread && len(m.CardsV2) > 0 {
			cards = append(cards, m)
		}
	}
	return cards
}

// An open question that is in the embedded space as a text is posted again, as a card in
// its thread, and can be tapped there. A typed reply to the text counts, both before and
// after that.
func TestEmbedded_TextBecomesCard(t *testing.T) {
	d, hook := newEmbeddedMachine(t)
	before, tapped, typed :=
		d.addTextQuestion(hook), d.addTextQuestion(hook), d.addTextQuestion(hook)
	d.reply(before.ThreadName, "", "2")
	end := d.runPoller(Options{})
	has := func(q *state.Question) bool { return q.CardMessage != "" && q.ThreadName != "" }
	answered := func(q *state.Question) bool {
		return q.Status == state.Answered && q.Answers["Which?"] == "Two"
	}
	d.awaitQuestion(before, "what was typed before counts", answered)
	tapped = d.awaitQuestion(tapped, "a card", has)
	typed = d.awaitQuestion(typed, "a card", has)
	kit.NoError(t, end())
	d.runPoller(Options{})
	kit.NoError(t, d.space.Tap(nil, tapped.MessageName, "", "2", nil, "tap:1"))
	d.reply(typed.ThreadName, "", "two")
	for _, q := range []*state.Question{tapped, typed} {
		d.awaitQuestion(q, "answered", answered)
		cards := d.cardMessages(q.ThreadName)
		kit.True(t, len(cards) == 1 && cards[0].Name == q.MessageName,
			"%d cards in the thread", len(cards))
	}
	cards := d.cardMessages(before.ThreadName)
	kit.True(t, len(cards) == 0, "a card for what was answered: %v", cards)
}

// A reply answers some of several questions on a card. The card shows those answers as
// chosen. A tap that sends the card unchanged keeps them.
func TestEmbedded_CardShowsPartialReply(t *testing.T) {
	d, _ := newEmbeddedMachine(t)
	q := d.addQuestion(func(q *state.Question) {
		options := []state.Option{{Label: "One"}, {Label: "Two"}}
		q.Mode = state.ModeNative
		q.SubQuestions = []state.SubQuestion{
			{Question: "Which?", Options: options, OptionCount: 2}, {
				Question: "Why?", Options: options, OptionCount: 2,
			},
			{Question: "And?", Options: options, OptionCount: 2},
		}
	})
	d.startWaiter(q)
	d.runPoller(Options{})
	q = d.awaitQuestion(q, "a card", hasCard)
	d.reply(q.ThreadName, "", "Q1: 2\nQ2: none of them")
	d.awaitQuestion(q, "kept", func(q *state.Question) bool { return len(q.PartialAnswers) == 2 })
	given := map[string]string{"q1": "2", "w2": "none of them"}
	var shown map[string]string
	bound.Until(t, "the card shows both", func() bool {
		shown = map[string]string{}
		for _, s := range d.cardMessages(q.ThreadName)[0].CardsV2[0].Card.Sections {
			for _, w := range s.Widgets {
				if w.TextInput != nil && w.TextInput.Value != "" {
					shown[w.TextInput.Name] = w.TextInput.Value
				}
				for _, item := range cmp.Or(w.SelectionInput,
					&chatapi.GoogleAppsCardV1SelectionInput{}).Items {
					if item.Selected {
						shown[w.SelectionInput.Name] += item.Value
					}
				}
			}
		}
		return maps.Equal(shown, given)
	})
	cards := d.cardMessages(q.ThreadName)
	kit.True(t, len(cards) == 1 && cards[0].CardsV2[0].CardId == "gchat-hooks.question.open",
		"%d cards, %s", len(cards), cards[0].CardsV2[0].CardId)
	inputs := map[string][]string{"q3": {"1"}}
	for name, value := range given {
		inputs[name] = []string{value}
	}
	kit.NoError(t, d.space.Tap(nil, q.MessageName, "", "send", inputs, "tap:1"))
	d.awaitQuestion(q, "answered", func(q *state.Question) bool {
		a := q.Answers
		return q.Status == state.Answered && a["Which?"] == "Two" && a["Why?"] == "none of them" &&
			a["And?"] == "One"
	})
}

// Where an app is used, a reply in the thread of another program's webhook is left to
// that program.
func TestEmbedded_WebhookThreadIsLeftAlone(t *testing.T) {
	d, hook := newEmbeddedMachine(t)
	posted, err := hook.Post(t.Context(), gchat.Post{Text: "curl asks: which?"})
	kit.NoError(t, err)
	cfg := config.LoadPersonal(d.env)
	app, err := gchat.NewApp(t.Context(), cfg)
	kit.NoError(t, err)
	m := d.reply(posted.ThreadName, "", "2")
	follows := gchat.Message{Name: m.Name, ThreadName: m.Thread.Name, IsReply: true}.ParentMessage()
	concerns, err := app.CanAnswerFor(t.Context(), follows)
	kit.True(t, !concerns && err == nil, "%v, %v", concerns, err)
}
