package cli

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/strict"
)

// cloud is a Google in front of a settler's space: it logs people in, and shows the space to nobody who is not.
type cloud struct {
	*settler
	server  *httptest.Server
	env     []string
	access  atomic.Pointer[string] // the token that is good now
	refused atomic.Int64
}

func newCloud(t *testing.T) *cloud {
	g := &cloud{settler: newSettler(t)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /auth", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"4/0Acode"}, "state": {q.Get("state")}, "scope": {q.Get("scope")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		token := "scope:chat.messages.readonly,chat.spaces.readonly,ya29.access"
		g.access.Store(&token)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":%q,"refresh_token":"1//0refresh","expires_in":3599,"token_type":"Bearer","id_token":"e30.%s.s",
			"scope":"https://www.googleapis.com/auth/chat.messages.readonly https://www.googleapis.com/auth/chat.spaces.readonly"}`,
			token, base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"1.apps.googleusercontent.com","sub":"7"}`)))
	})
	space := g.space.Handler()
	mux.Handle("/v1/", strict.Google(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if good := g.access.Load(); good == nil || r.Header.Get("Authorization") != "Bearer "+*good {
			g.refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{"error":{"code":401,"status":"UNAUTHENTICATED","message":"no such token"}}`)
			return
		}
		r.Host = strings.TrimPrefix(g.settler.server, "http://")
		if r.Method == http.MethodGet { // the space has a token where Google has a login
			r.URL.Path = strings.TrimSuffix(g.space.APIEndpoint(""), "/") + r.URL.Path
		}
		space.ServeHTTP(w, r)
	})))
	g.server = httptest.NewTLSServer(mux)
	t.Cleanup(g.server.Close)
	cert := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	g.env = []string{"HOME=" + g.home, "PATH=/usr/bin:/bin", "TERM=dumb", "SSL_CERT_FILE=" + cert, "GCHAT_API_ENDPOINT=" + g.server.URL}
	return g
}

func (g *cloud) setup(args ...string) *ptyDialog {
	return inTerminal(g.t, g.env, g.program, append([]string{"setup", "--no-browser", "--service=false"}, args...)...)
}

// clientFile is what the console offers for download.
func (g *cloud) clientFile() string {
	path := filepath.Join(g.t.TempDir(), "client_secret.json")
	file := fmt.Sprintf(`{"installed":{"client_id":"1.apps.googleusercontent.com","auth_uri":%q,"token_uri":%q,"client_secret":"GOCSPX-s","redirect_uris":["http://localhost"]}}`,
		g.server.URL+"/auth", g.server.URL+"/token")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		g.t.Fatal(err)
	}
	return path
}

// agrees opens the address that is shown, as the person's browser does, and says yes.
func (g *cloud) agrees(x *ptyDialog) {
	g.t.Helper()
	address := x.expect(`https://127\.0\.0\.1:\d+/auth\?\S+`)
	resp, err := g.server.Client().Get(address)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	if page, _ := io.ReadAll(resp.Body); !strings.Contains(string(page), "You are logged in") {
		g.t.Fatalf("the browser ends on %s: %s", resp.Status, page)
	}
}

// From nothing to a reply that was read, with a login: who logged in may answer, and needs no other word.
func TestSetupLogsIn(t *testing.T) {
	g := newCloud(t)
	ann := &chat.User{Name: "users/7", Type: "HUMAN", DisplayName: "Ann"}
	x := g.setup()
	x.answer("Paste its URL here", g.url)
	x.expect("ok    webhook")
	x.answer("Path of that JSON file", "/no/such/file")
	x.expect("That does not work")
	x.answer("Path of that JSON file", g.clientFile())
	g.agrees(x)
	x.expect(`logged in: users/7`)
	x.expect("ok    reading   replies can be read")
	x.expect(`ok    people    may answer: users/7`)
	x.expect(`choose ok in the thread`)
	g.says(ann, "ok")
	x.expect(`ok    back      the reply of users/7 Ann was read`) // nobody has to vouch for Ann
	x.answer(`Also answer permissions and plans`, "")
	x.expect("hooks added")
	if _, err := os.Stat("/usr/bin/tmux"); err == nil { // on the PATH that setup has here
		x.answer(`Also resume sessions that ended`, "")
	}
	x.expect("Done.")
	if code := x.ends(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, x.screen())
	}
	if g.refused.Load() > 0 {
		t.Errorf("%d requests without the login's token", g.refused.Load())
	}
	for _, secret := range []string{"ya29.access", "1//0refresh", "GOCSPX-s", "4/0Acode", secretOf(g.url)} {
		if strings.Contains(x.screen(), secret) {
			t.Errorf("%s stands on the screen:\n%s", secret, x.screen())
		}
	}

	x = g.setup("--round-trip=false") // nothing is asked again
	x.expect("ok    reading   replies can be read")
	x.expect("nothing to change")
	x.expect("Done.")
	if code := x.ends(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, x.screen())
	}
}
