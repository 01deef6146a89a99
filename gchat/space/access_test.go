package space

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
)

func TestAccess_LoopbackOnly(t *testing.T) {
	s, _ := testServer(t, Options{})
	s.secrets.APIToken = "sesame"
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8080": 200, "LOCALHOST:1": 200, "127.0.0.1:8080": 200,
		"127.1.2.3":  200,
		"[::1]:8080": 200, "[::1]": 200, "space.localhost:80": 200, "[::ffff:127.0.0.1]:1": 200,
		"evil.example": 403, "evil.example:8080": 403, "127.0.0.1.evil.example": 403,
		"192.168.1.5:8080":       403,
		"localhost.evil.example": 403, "evillocalhost": 403, "0.0.0.0:80": 403,
	} {
		for _, path := range []string{"/", "/t/sesame/v1/" + Name + "/messages", "/page/page.js"} {
			kit.Equalf(t, callHandler(s, "GET", path, "", "Host: "+host, pageKeyField(s)).Code,
				want, "%s at %s", path, host)
		}
	}
	w := callHandler(s, "POST", s.WebhookURL(""), `{"text":"x"}`, "Host: evil.example")
	kit.Equalf(t, w.Code, 403, "webhook through a foreign name")
}

func TestAccess_PagePost(t *testing.T) {
	s, _ := testServer(t, Options{})
	root := postAsPerson(t, s, "", "root")
	good := `{"thread":"` + root.Thread.Name + `","text":"2","clientId":"c1"}`
	const asJSON = "Content-Type: application/json"
	for _, tt := range []struct {
		name, body string
		headers    []string
		want       int
	}{
		{"same origin", good, []string{asJSON, "Origin: http://localhost:8080"}, 200},
		{"again", good, []string{asJSON, "Origin: http://localhost:8080"}, 200},
		{"no browser", good, []string{asJSON}, 200},
		{"fetch metadata", good, []string{asJSON, "Sec-Fetch-Site: same-origin"}, 200},
		{"other origin", good, []string{asJSON, "Origin: http://evil.example"}, 403},
		{"other port", good, []string{asJSON, "Origin: http://localhost:9090"}, 403},
		{"null origin", good, []string{asJSON, "Origin: null"}, 403},
		{"cross site", good, []string{asJSON, "Sec-Fetch-Site: cross-site"}, 403},
		{"form", good, []string{"Content-Type: text/plain"}, 415},
		{"no type", good, nil, 415},
		{"no client id", `{"thread":"` + root.Thread.Name + `","text":"2"}`, []string{asJSON}, 400},
		{"unknown field", `{"text":"2","clientId":"c","sender":"users/x"}`, []string{asJSON}, 400},
		{
			"unknown thread", `{"thread":"spaces/local/threads/no","text":"2","clientId":"c2"}`,
			[]string{asJSON}, 404,
		},
		{
			"empty", `{"thread":"` + root.Thread.Name + `","text":"","clientId":"c3"}`,
			[]string{asJSON}, 400,
		},
		{"no JSON", `text=2`, []string{asJSON}, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := callHandler(s, "POST", "http://localhost:8080/page/messages", tt.body,
				append(tt.headers, pageKeyField(s))...)
			kit.Equalf(t, w.Code, tt.want, "%s", w.Body)
		})
	}
	wantTexts(t, s, "root 2") // one reply for one client id
	wantFromPerson(t, s.Messages()[1])
	kit.Equalf(t, s.Messages()[1].Thread.Name, root.Thread.Name, "the reply's thread")
}

// Every path that shows or changes anything wants the token or the page's key, for a
// phone and for the other users of this machine.
func TestAccess_WantsATokenOrKey(t *testing.T) {
	for name, host := range map[string]string{
		"phone": "space.example", "loopback": "127.0.0.1:8765",
	} {
		t.Run(name,
			func(t *testing.T) { checkAccess(t, Options{AllowsPhone: name == "phone"}, host) })
	}
}

func checkAccess(t *testing.T, opts Options, host string) {
	s, srv := testServer(t, opts)
	s.secrets.APIToken = "sesame-1"
	postAsPerson(t, s, "", "secret")
	elsewhere := "Host: " + host
	for path, want := range map[string]int{
		"/":                                    200, // the page's files are for all
		"/?token=wrong":                        303,
		"/page/page.js":                        200,
		"/page/icon.svg":                       200,
		"/events":                              401,
		"/events?key=" + s.pageKey():           401,
		"/page/session?thread=x":               401,
		"/page/projects":                       401,
		"/page/week":                           401,
		"/v1/" + Name + "/messages":            401,
		"/t/wrong/v1/" + Name + "/messages":    401,
		"/t/sesame-1/v1/" + Name + "/messages": 200,
		"/t/sesame-1/":                         200,
		"/t/sesame-1/page/page.js":             200,
		"/t/sesame-1/page/projects":            401,
		"/t/sesame-1/events":                   401,
		"/t/sesame-1/t/sesame-1/v1/x":          404,
		"/v1/spaces":                           401,
		"/v1/" + Name:                          401,
		"/v1/" + Name + "/messages/client-x":   401,
	} {
		w := callHandler(s, "GET", path, "", elsewhere)
		shows := strings.Contains(w.Body.String(), "secret") &&
			!strings.HasPrefix(path, "/t/sesame-1/v1/")
		leaks := strings.Contains(fmt.Sprint(w.Body, w.Header()), s.pageKey())
		if w.Code != want || shows || leaks {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
		kit.Equalf(t, len(w.Header().Values("Set-Cookie")), 0, "cookies of %s", path)
	}
	wantCode := func(want int, method, url, body string, headers ...string) *httptest.ResponseRecorder {
		t.Helper()
		w := callHandler(s, method, url, body, append(headers, elsewhere)...)
		kit.Equalf(t, w.Code, want, "%s %s with %q", method, url, headers)
		return w
	}
	const message = `{"text":"x","clientId":"c"}`
	wantCode(401, "POST", "/page/messages", message, "Content-Type: application/json")
	wantCode(401, "POST", "/v1/"+Subscription+":pull", `{"maxMessages":1}`)
	for _, wrong := range []string{
		"guess", "", "sesame-1", s.secrets.WebhookToken, s.pageKey() + "x", s.pageKey()[1:],
	} {
		wantCode(401, "GET", "/page/week", "", pageKeyHeader+": "+wrong)
	}
	wantCode(200, "GET", "/page/week", "", pageKeyField(s))
	wantCode(401, "GET", "/t/"+s.pageKey()+"/v1/"+Name, "")
	for _, prefix := range []string{"", "/t/sesame-1"} {
		webhook := prefix + strings.TrimPrefix(s.WebhookURL(""), "/t/sesame-1")
		wantCode(200, "POST", webhook, `{"text":"x"}`)
		wantCode(403, "POST", strings.Replace(webhook, "token=", "token=x", 1), `{"text":"x"}`)
	}
	list, err := newClient(t, s.APIEndpoint(srv.URL)).Spaces.Messages.List(Name).Do()
	kit.NoError(t, err)
	kit.Equalf(t, len(list.Messages), 3, "messages for a client with the endpoint")

	kit.Equalf(t, s.PageURL("http://"+host), "http://"+host+"/#key="+s.pageKey(), "the page's link")
	// A link of an earlier version, with the token in it, leads to this version's.
	header := wantCode(303, "GET", "/?token=sesame-1", "").Header()
	kit.Equalf(t, header.Get("Location"), "/#key="+s.pageKey(), "an older link leads to")
	kit.Equalf(t, header.Get("Cache-Control"), "no-store", "an older link's cache")
	header = wantCode(200, "GET", "/", "").Header()
	kit.Containsf(t, header.Get("Content-Security-Policy"), "default-src 'none'", "the policy")
	kit.Containsf(t, header.Get("Content-Security-Policy"), "frame-ancestors 'none'", "the policy")
	kit.Equalf(t, header.Get("X-Content-Type-Options"), "nosniff", "the types")
}

// A browser that asks whether a page of another origin may send the key's header is
// refused.
func TestAccess_NoOtherOrigin(t *testing.T) {
	s, _ := testServer(t, Options{})
	for _, path := range []string{
		"/", "/events", "/page/week", "/page/messages", "/page/key.js",
		"/v1/" + Name + "/messages",
	} {
		for _, method := range []string{"OPTIONS", "GET", "POST"} {
			w := callHandler(s, method, path, `{"text":"yes","clientId":"c"}`,
				"Host: 127.0.0.1:8765", "Origin: http://127.0.0.1:8766",
				"Content-Type: application/json", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: "+
					pageKeyHeader)
			for name := range w.Header() {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s %s answers with %s", method, path, name)
				}
			}
		}
	}
}
