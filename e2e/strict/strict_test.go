package strict

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What Google refuses fails the test, is answered with the reason, and does not reach the
// stand-in; what it takes, does.
func TestGoogle(t *testing.T) {
	const (
		create = "POST /v1/spaces/A/messages"
		list   = "GET /v1/spaces/A/messages"
		patch  = "PATCH /v1/spaces/A/messages/client-x"
		pull   = "POST /v1/projects/p/subscriptions/s:pull"
		reply  = "&messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD"
	)
	card := func(widgets string) string {
		return `{"cardsV2":[{"cardId":"c","card":{"sections":[{"widgets":[` + widgets + `]}]}}]}`
	}
	button := func(member string) string { return card(`{"buttonList":{"buttons":[{"text":"t"` + member + `}]}}`) }
	paragraphs := func(n int) string {
		return card(strings.TrimSuffix(strings.Repeat(`{"textParagraph":{"text":"x"}},`, n), ","))
	}
	for _, c := range []struct {
		request, body, token string
		want                 string // in the refusal; "" where Google takes it
	}{
		// What we ask for.
		{create + "?key=k&token=t&messageId=client-1&requestId=client-1" + reply, `{"text":"x","markupSyntax":"MARKUP_SYNTAX_CHAT","thread":{"threadKey":"k"}}`, "", ""},
		// the probe: it is for the stand-in to say that it is empty
		{create + "?key=k&token=t", `{}`, "", ""},
		{create + "?alt=json&prettyPrint=false" + reply, button(`,"onClick":{"action":{"function":"f"}}`), "", "no thread"},
		{create + "?alt=json&prettyPrint=false", button(`,"onClick":{"action":{"function":"f"}}`), "scope:chat.bot", ""},
		{create + "?x=1" + reply, `{"thread":{"name":"spaces/A/threads/T"}}`, "", `Unknown name "x"`},
		{create + "?alt=json" + reply, `{"text":"x","thread":{"name":"spaces/A/threads/T"}}`, "", ""},
		{list + "?pageSize=1000&orderBy=createTime+ASC&filter=createTime+%3E+%222026-11-21T08:00:00.000005Z%22", "", "scope:chat.messages.readonly", ""},
		{"GET /v1/spaces/A/messages/client-x?alt=json", "", "scope:chat.bot", ""},
		{patch + "?updateMask=text,cardsV2", `{"text":"x","cardsV2":null}`, "scope:chat.bot", ""},
		{"POST /v1/spaces/-/messages:search?fields=results", `{"filter":"sender.name = \"users/me\"","pageSize":25}`, "scope:chat.messages.readonly", ""},
		{"GET /v1/spaces?pageSize=1000", "", "", ""},
		{"GET /v1/spaces/A", "", "ya29.not-judged", ""},
		{pull, `{"maxMessages":100}`, "scope:pubsub", ""},
		{"POST /v1/projects/p/subscriptions/s:acknowledge", `{"ackIds":["a"]}`, "", ""},
		{"POST /v1/projects/p/subscriptions/s:testIamPermissions", `{"permissions":["pubsub.subscriptions.consume"]}`, "", ""},

		// Path, query and body, by the documents.
		{"GET /v1/spaces/A/mesages", "", "", "404 NOT_FOUND"},
		{"POST /v1/projects/p/subscriptions/s:pul", `{"maxMessages":1}`, "", "404 NOT_FOUND"},
		{create + "?threadKey=k", `{"text":"x"}`, "", "deprecated"},
		{create + "?token=t", `{"text":"x"}`, "", `Unknown name "token"`},
		{create + "?messageReplyOption=REPLY", `{"text":"x","thread":{"threadKey":"k"}}`, "", "Invalid value at 'messageReplyOption'"},
		{list + "?pageSize=1&pageSize=2", "", "", "more than once"},
		{create, `{"txt":"x"}`, "", `Unknown name "txt"`},
		{create, `{"text":"x","thread":{"thread_key":"k"}}`, "", `Unknown name "thread_key" at '.thread'`},
		{create, `{"text":"x","markupSyntax":"HTML"}`, "", "Invalid value at '.markupSyntax', HTML"},
		{create, `{"cardsV2":{}}`, "", "Invalid value at '.cardsV2'"},
		{create, `{"text":"x"}{}`, "", "Invalid JSON payload"},
		{create, `{"text":"x","sender":{"name":"users/1"}}`, "", "'.sender' is output only"},
		{create, `{"cards":[]}`, "", "'.cards' is deprecated"},
		{create, button(""), "", "buttons[0].onClick' is required"},
		{list, `{}`, "", "takes no body"},
		{pull, ``, "", "'.maxMessages' is required"},
		{pull, `{"maxMessages":1,"returnImmediately":true}`, "", "deprecated"},
		{patch, `{"text":"x"}`, "", "Required parameter is missing: updateMask"},
		{patch + "?updateMask=txt", `{"text":"x"}`, "", "Invalid update mask"},
		{patch + "?updateMask=text,fallbackText", `{"text":"x"}`, "", `Invalid update mask: "fallbackText"`},
		{list, "", "scope:chat.bot", "403 PERMISSION_DENIED: Request had insufficient"},
		{pull, `{"maxMessages":1}`, "scope:chat.bot,chat.messages", "403 PERMISSION_DENIED"},

		// What is only said in words.
		{create + "?messageId=x-1", `{"text":"x"}`, "", "invalid message id"},
		{create + "?messageId=client-" + strings.Repeat("a", 57), `{"text":"x"}`, "", "invalid message id"},
		{create + "?messageId=client-A", `{"text":"x"}`, "", "invalid message id"},
		{create + "?alt=json" + reply, `{"text":"x","thread":{"name":"spaces/B/threads/T"}}`, "", "invalid thread resource name"},
		{create, `{"text":"x","thread":{"threadKey":"` + strings.Repeat("ä", 4001) + `"}}`, "", "thread key is too long"},
		{create, `{"text":"` + strings.Repeat("x", 32001) + `"}`, "", "too long"},
		{create, `{"cardsV2":[{"cardId":"` + strings.Repeat("x", 32000) + `"}]}`, "", "too long"},
		{create, paragraphs(100), "", ""},
		{create, paragraphs(101), "", "101 widgets"},
		{create, card(`{"selectionInput":{"name":"n","items":[` + strings.TrimSuffix(strings.Repeat("{},", 101), ",") + `]}}`), "", "101 items"},
		{patch + "?key=k&token=t&updateMask=text", `{"text":"x"}`, "", "403 PERMISSION_DENIED: A webhook may only create"},
		{list + "?filter=createTime+%3E%3D+%222026-11-21T08:00:00Z%22", "", "", "Invalid filter"},
		{list + "?filter=createTime+%3E+%22today%22", "", "", "Invalid filter"},
		{list + "?filter=createTime+%3E+2026-11-21T08:00:00Z", "", "", "Invalid filter"},
		{list + "?filter=thread.name+%3D+spaces/A/threads/T+OR+thread.name+%3D+spaces/A/threads/U", "", "", "Invalid filter"},
		{list + "?filter=thread.name+%3D+spaces/A/threads/T+AND+thread.name+%3D+spaces/A/threads/U", "", "", "Invalid filter"},
		{list + "?orderBy=name", "", "", "Invalid order"},
		{"POST /v1/spaces/A/messages:search", `{"filter":"x"}`, "", "searched in spaces/-"},
		{pull, `{"maxMessages":0}`, "", "must be positive"},
	} {
		test, reached := &failureRecorder{TB: t}, ""
		g := CheckRequests(test, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			reached = r.Method + " " + r.RequestURI + string(b)
		}))
		answer := ask(t, g, c.request, c.body, c.token)
		name := fmt.Sprintf("%.200s %.200s %s", c.request, c.body, c.token)
		if c.want == "" && (test.message != "" || reached != c.request+c.body) {
			t.Errorf("%s: %s", name, test.message)
		}
		if c.want != "" && (!strings.Contains(test.message, c.want) || reached != "" || answer.Code < 400 || !strings.Contains(answer.Body.String(), `{"error":{"code":4`)) {
			t.Errorf("%s: said %q, want %q; answered %d %s", name, test.message, c.want, answer.Code, answer.Body)
		}
	}
}

// ask makes one request.
func ask(t *testing.T, h http.Handler, request, body, token string) *httptest.ResponseRecorder {
	method, target, _ := strings.Cut(request, " ")
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// The rules for what stands behind.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, request, body string
		rule                Rule
		reached, answered   string
	}{
		{"the embedded space's token", "GET /t/secret/v1/spaces/local", "", Embedded, "GET /t/secret/v1/spaces/local", ""},
		{"the embedded space's page", "POST /say?x=1", "no JSON", Embedded, "POST /say?x=1no JSON", ""},
		{"a thread key in a direct message", "POST /v1/spaces/A/messages?messageReplyOption=REPLY_MESSAGE_OR_FAIL", `{"text":"x","thread":{"threadKey":"k"}}`,
			DirectMessage, `POST /v1/spaces/A/messages?{"text":"x","thread":{}}`, ""},
		{"a thread in a direct message", "POST /v1/spaces/A/messages?messageReplyOption=REPLY_MESSAGE_OR_FAIL", `{"thread":{"name":"spaces/A/threads/T"}}`,
			DirectMessage, `POST /v1/spaces/A/messages?messageReplyOption=REPLY_MESSAGE_FALLBACK_TO_NEW_THREAD{"thread":{"name":"spaces/A/threads/T"}}`, ""},
	} {
		reached := ""
		g := CheckRequests(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			reached = r.Method + " " + r.URL.Path
			if r.URL.RawQuery != "" || strings.Contains(r.RequestURI, "?") {
				reached += "?" + r.URL.RawQuery
			}
			reached += string(b)
		}), c.rule)
		answer := ask(t, g, c.request, c.body, "").Body.String()
		if reached != c.reached || !strings.Contains(answer, c.answered) {
			t.Errorf("%s: %q reached the stand-in, want %q; answered %s", c.name, reached, c.reached, answer)
		}
	}
}

// failureRecorder is a test that may fail.
type failureRecorder struct {
	testing.TB
	message string
}

func (f *failureRecorder) Errorf(format string, args ...any) {
	f.message += fmt.Sprintf(format, args...)
}
