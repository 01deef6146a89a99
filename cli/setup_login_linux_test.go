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

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
)

// fakeGoogle is a Google in front of a settler's space: it logs people in, and shows the
// space to nobody who is not.
type fakeGoogle struct {
	*setupHome
	server      *httptest.Server
	env         []string
	accessToken atomic.Pointer[string] // the token that is good now
	refused     atomic.Int64
}

func newFakeGoogle(t *testing.T) *fakeGoogle {
	g := &fakeGoogle{setupHome: newSetupHome(t)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /auth", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {"4/0Acode"}, "state": {q.Get("state")}, "scope": {q.Get("scope")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		token := "scope:chat.messages.readonly,chat.spaces.readonly,ya29.access"
		g.accessToken.Store(&token)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":%q,"refresh_token":"1//0refresh","expires_in":3599,"token_type":"Bearer","id_token":"e30.%s.s",
			"scope":"https://www.googleapis.com/auth/chat.messages.readonly https://www.googleapis.com/auth/chat.spaces.readonly"}`,
			token, base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"1.apps.googleusercontent.com","sub":"7"}`)))
	})
	space := g.space.Handler()
	mux.Handle("/v1/", strict.CheckRequests(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := g.accessToken.Load(); token == nil || r.Header.Get("Authorization") != "Bearer "+*token {
			g.refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{"error":{"code":401,"status":"UNAUTHENTICATED","message":"no such token"}}`)
			return
		}
		r.Host = strings.TrimPrefix(g.setupHome.serverURL, "http://")
		if r.Method == http.MethodGet { // the space has a token where Google has a login
			r.URL.Path = strings.TrimSuffix(g.space.APIEndpoint(""), "/") + r.URL.Path
		}
		space.ServeHTTP(w, r)
	})))
	g.server = httptest.NewTLSServer(mux)
	t.Cleanup(g.server.Close)
	cert := filepath.Join(t.TempDir(), "ca.pem")
	kit.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.server.Certificate().Raw}), 0o600))
	g.env = []string{"HOME=" + g.home, "PATH=/usr/bin:/bin", "TERM=dumb", "SSL_CERT_FILE=" + cert, "GCHAT_API_ENDPOINT=" + g.server.URL}
	return g
}

func (g *fakeGoogle) runSetup(args ...string) *ptyDialog {
	return startInTerminal(g.t, g.env, g.program, append([]string{"setup", "--no-browser", "--service=false"}, args...)...)
}

// writeClientFile is what the console offers for download.
func (g *fakeGoogle) writeClientFile() string {
	path := filepath.Join(g.t.TempDir(), "client_secret.json")
	file := fmt.Sprintf(`{"installed":{"client_id":"1.apps.googleusercontent.com","auth_uri":%q,"token_uri":%q,"client_secret":"GOCSPX-s","redirect_uris":["http://localhost"]}}`,
		g.server.URL+"/auth", g.server.URL+"/token")
	kit.NoError(g.t, os.WriteFile(path, []byte(file), 0o600))
	return path
}

// agreeToLogin opens the address that is shown, as the person's browser does, and says
// yes.
func (g *fakeGoogle) agreeToLogin(dialog *ptyDialog) {
	g.t.Helper()
	address := dialog.expect(`https://127\.0\.0\.1:\d+/auth\?\S+`)
	resp, err := g.server.Client().Get(address)
	kit.NoError(g.t, err)
	defer resp.Body.Close()
	if page, _ := io.ReadAll(resp.Body); !strings.Contains(string(page), "You are logged in") {
		g.t.Fatalf("the browser ends on %s: %s", resp.Status, page)
	}
}

// From nothing to a reply that was read, with a login: who logged in may answer, and
// needs no other word.
func TestSetupLogsIn(t *testing.T) {
	g := newFakeGoogle(t)
	ann := &chat.User{Name: "users/7", Type: "HUMAN", DisplayName: "Ann"}
	dialog := g.runSetup()
	dialog.answerPrompt("Paste its URL here", g.webhookURL)
	dialog.expect("ok    webhook")
	dialog.answerPrompt("Path of its JSON file", "/no/such/file")
	dialog.expect("That did not work")
	dialog.answerPrompt("Path of its JSON file", g.writeClientFile())
	g.agreeToLogin(dialog)
	dialog.expect(`logged in: users/7`)
	dialog.expect("ok    reading   replies can be read")
	dialog.expect(`ok    people    may answer: users/7`)
	dialog.expect(`choose ok in the thread`)
	g.reply(ann, "ok")
	// nobody has to vouch for Ann
	dialog.expect(`ok    back      the reply of users/7 Ann was read`)
	dialog.answerPrompt(`Also answer permissions and plans`, "")
	dialog.expect("hooks added")
	if _, err := os.Stat("/usr/bin/tmux"); err == nil { // on the PATH that setup has here
		dialog.answerPrompt(`Also resume ended sessions`, "")
	}
	dialog.expect("Done.")
	if code := dialog.waitExit(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, dialog.screen())
	}
	if g.refused.Load() > 0 {
		t.Errorf("%d requests without the login's token", g.refused.Load())
	}
	for _, secret := range []string{"ya29.access", "1//0refresh", "GOCSPX-s", "4/0Acode", webhookSecret(g.webhookURL)} {
		if strings.Contains(dialog.screen(), secret) {
			t.Errorf("%s stands on the screen:\n%s", secret, dialog.screen())
		}
	}

	dialog = g.runSetup("--round-trip=false") // nothing is asked again
	dialog.expect("ok    reading   replies can be read")
	dialog.expect("nothing to change")
	dialog.expect("Done.")
	if code := dialog.waitExit(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, dialog.screen())
	}
}
