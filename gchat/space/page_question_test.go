package space

import (
	"crypto/rand"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// What the page sends and the space does not take is refused in words that the page shows,
// and nothing of it reaches the app.
func TestPageQuestion_RefusalsSayWhy(t *testing.T) {
	form := formOfInputs()
	var app *gchat.App
	s, err := Open(Options{
		IsDirect: true,
		CheckForm: func(cardID string, inputs map[string][]string) map[string]string {
			kit.Equalf(t, cardID, app.CardID(deskID), "the card")
			return wording.FormProblems(&form,
				&wording.Tap{Choice: wording.AcceptChoice, Inputs: inputs})
		},
		ReadShownText: func(cardID string) string { return cardID[:4] },
	})
	kit.NoError(t, err)
	srv := serveWith(t, s, s.Handler().ServeHTTP)
	app = newApp(t, s, srv.URL)
	d := newCardDeskOf(t, s, srv.URL, app)
	formCard, over := d.asked[d.ask(form)], d.ask(bashPermission())
	overCard, long := d.asked[over], d.asked[d.ask(editPermission())]
	d.end(over, answerWith())
	call := func(body map[string]any) string {
		body["clientId"] = rand.Text()
		return callHandler(s, "POST", "http://localhost/page/messages", jsonText(body),
			pageKeyField(s), "Content-Type: application/json").Body.String()
	}
	for name, c := range map[string]struct {
		body map[string]any
		want string
	}{
		"too late": {map[string]any{"message": overCard.name, "choice": "allow"},
			`"Too late: this is over, or only the terminal can answer it."`},
		"too long": {map[string]any{"text": strings.Repeat("x", maxMessageBytes+1)},
			`"Message content is too long"`},
		"a form": {map[string]any{"message": formCard.name, "choice": "accept",
			"inputs": map[string][]string{"w2": {"9"}}},
			`"inputs":{"w1":"it is required.","w2":"it takes a whole number, at least 1, at most 8."}`},
	} {
		kit.Containsf(t, call(c.body), c.want, "%s", name)
	}

	for message, want := range map[string]string{
		long.name: `{"text":"0123"}`, overCard.name: "no more to show", "none": "no more to show",
	} {
		got := callHandler(s, "GET", "http://localhost/page/shown?message="+
			url.QueryEscape(message), "", pageKeyField(s)).Body.String()
		kit.Containsf(t, got, want, "all that %s shows", message)
	}

	queued := &queuedEvent{eventLine: eventLine{At: time.Now()}}
	s.mu.Lock()
	kit.Equalf(t, len(s.queue), 0, "events of what was refused")
	for range maxQueuedEvents {
		s.queue = append(s.queue, queued)
	}
	rows := len(s.rows)
	s.mu.Unlock()
	const full = `"too many messages wait: `
	kit.Containsf(t, call(map[string]any{"text": "hello"}), full, "a text")
	kit.Containsf(t, call(map[string]any{"message": long.name, "choice": "allow"}), full, "a tap")
	kit.Equalf(t, len(s.rows), rows, "rows after both")
}

// formOfInputs is a form with an input of each kind.
func formOfInputs() state.Question {
	q := askDecision(state.KindForm, state.LabelAccept, state.LabelDecline, state.LabelCancel)
	q.SubQuestions[0].Question, q.About, q.Status = "Book a table?", "tables", state.Pending
	options := func(labels ...string) (options []state.Option) {
		for _, label := range labels {
			options = append(options, newOption(label, ""))
		}
		return options
	}
	q.Fields = []state.Field{
		{Name: "name", Title: "Your name", Description: "As on the card", Type: "string",
			IsRequired: true, Min: new(2.0), Max: new(20.0)},
		{Name: "seats", Type: "integer", IsRequired: true, Min: new(1.0), Max: new(8.0)},
		{Name: "smoke", Type: "boolean", Options: options("Yes", "No"),
			Values: []string{"true", "false"}, Default: json.RawMessage("true")},
		{Name: "place", Type: "string", Options: options("Inside", "Outside"),
			Values: []string{"in", "out"}},
		{Name: "food", Type: "array", Max: new(1.0), Options: options("a", "b"),
			Values: []string{"a", "b"}},
		{Name: "mail", Type: "string", Format: "email"},
		{Name: "day", Type: "string", Format: "date", Default: json.RawMessage(`"2026-11-28"`)},
		{Name: "at", Type: "string", Format: "date-time"},
		{Name: "page", Type: "string", Format: "uri"},
		{Name: "tip", Type: "number", Max: new(0.5)},
	}
	return q
}
