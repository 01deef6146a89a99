package gchat

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/wording"
)

// Google's events have members that its documentation does not name, such as
// retentionSettings and messageHistoryState.
func TestEvent_UnknownMembers(t *testing.T) {
	const (
		user   = `{"name":"users/1","displayName":"Ann","avatarUrl":"https://a","email":"ann@example.com","type":"HUMAN","domainId":"d"}`
		thread = `{"name":"spaces/A/threads/T","retentionSettings":{"state":"PERMANENT"}}`
		kept   = `"retentionSettings":{"state":"EPHEMERAL_ONE_DAY","expiryTimestamp":"2026-07-31T10:00:00Z"},"messageHistoryState":"HISTORY_OFF"`
		about  = `"eventTime":"2026-07-30T10:00:00.123456Z","user":` + user + `,"thread":` +
			thread +
			`,"space":{"name":"spaces/A","type":"ROOM","spaceType":"SPACE","messageHistoryState":"HISTORY_OFF"},"configCompleteRedirectUrl":"https://c"`
		button = `{"buttonList":{"buttons":[{"text":"A","onClick":{"action":{"parameters":[{"key":"question","value":"q"}]}}}]}}`
	)
	message := func(sender, rest string) string {
		return `{"name":"spaces/A/messages/M.N","sender":` + sender + `,"thread":` + thread + `,` +
			kept + `,` + rest + `}`
	}
	for name, c := range map[string]struct {
		event string
		text  string
		tap   *wording.Tap
	}{
		"words": {`{"type":"MESSAGE",` + about + `,"message":` +
			message(user, `"text":"@app 2","argumentText":" 2"`) + `}`, " 2", nil},
		"a tap": {`{"type":"CARD_CLICKED",` + about + `,"message":` +
			message(`{"name":"users/2","type":"BOT"}`,
				`"cardsV2":[{"card":{"sections":[{"widgets":[`+button+`]}]}}]`) +
			`,"action":{"actionMethodName":"gchat-hooks","parameters":[{"key":"question","value":"q-0f"},{"key":"choice","value":"1"}]},
			"common":{"userLocale":"en","hostApp":"CHAT","platform":"WEB","timeZone":{"id":"Europe/Berlin","offset":7200000},"invokedFunction":"gchat-hooks",
			"parameters":{"question":"q-0f","choice":"1"},"formInputs":{"w1":{"stringInputs":{"value":["soon"]}}}}}`,
			"", &wording.Tap{QuestionID: "q", MachineID: "0f", Choice: "1",
				Inputs: map[string][]string{"w1": {"soon"}}, IsOnCard: true}},
	} {
		e, err := ReadEvent([]byte(c.event))
		kit.True(t, err == nil && e.Person == (Person{"users/1", "ann@example.com", "Ann"}) &&
			e.IsHuman && e.At.Nanosecond() == 123456000 &&
			e.Message.Name == "spaces/A/messages/M.N" &&
			e.Message.ThreadName == "spaces/A/threads/T" && e.Message.Text == c.text &&
			reflect.DeepEqual(e.Tap, c.tap),
			"%s: %+v, tap %+v, %v", name, e, e.Tap, err)
	}
}

// A card names its machine by the subscription that gets its taps. Machines that share a
// subscription accept each other's taps. An earlier version's card names none.
func TestEvent_CardsNameTheirMachine(t *testing.T) {
	app, sameApp := &App{Subscription: "projects/p/subscriptions/a"}, &App{Subscription: "projects/p/subscriptions/a"}
	otherApp := &App{Subscription: "projects/p/subscriptions/b"}
	for id, foreign := range map[string]bool{app.CardID("cafe12"): false,
		sameApp.CardID("cafe12"): false, otherApp.CardID("cafe12"): true, "cafe12": false,
		"-": false, "": false} {
		data := `{"type":"CARD_CLICKED","common":{"parameters":{"question":"` + id + `"}}}`
		e, err := ReadEvent([]byte(data))
		kit.True(t, err == nil && app.IsForOtherMachine(e.Tap) == foreign &&
			(len(id) <= 1 || e.Tap.QuestionID == "cafe12"),
			"%q: %+v, %v", id, e.Tap, err)
	}
}

// A message that Chat does not show to an app concerns none of its machines. One that a
// hub does not show may concern another machine.
func TestEvent_SendersThatAreIgnored(t *testing.T) {
	server := kit.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := http.StatusForbidden
		if strings.HasSuffix(r.URL.Path, "/T.T") {
			code = http.StatusServiceUnavailable
		}
		http.Error(w, `{"error":{"code":`+strconv.Itoa(code)+`,"message":"no"}}`, code)
	}))
	app := newTestApp(t, server.URL, "")
	message := Message{ThreadName: "spaces/A/threads/T", IsReply: true}
	concerns, err := app.CanAnswerFor(t.Context(), message.ParentMessage())
	kit.True(t, !concerns && err != nil, "%v, %v of a Chat in trouble", concerns, err)
	for hub, want := range map[*HubClient]bool{nil: true,
		{JoinResponse: JoinResponse{Machine: "0123456789ab"}}: false} {
		app.Hub = hub
		concerns, err := app.CanAnswerFor(t.Context(), "spaces/A/messages/U.U")
		kit.True(t, concerns == want && err == nil, "with the hub %v: %v, %v", hub, concerns, err)
	}
}
