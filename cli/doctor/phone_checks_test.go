package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
	"gchat-hooks/state/config"
)

// testExam is an exam of a home folder without a configuration.
func testExam(home string) *exam {
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	return &exam{
		Options: Options{Env: env}, cfg: &config.Config{}, log: state.NewLog(env, "doctor"),
		roots: x509.NewCertPool(),
		list:  func() (*gchat.API, error) { return nil, nil },
	}
}

// The page's address by https is checked without a secret, and what is wrong there is
// said in words.
func TestPublicPage_SaysWhatIsWrong(t *testing.T) {
	e := testExam(t.TempDir())
	own, err := space.Open(space.Options{
		DataDir: filepath.Join(state.UserStateDir(e.Env), "space"), HTTPSHost: "box.example",
	})
	kit.NoError(t, err)
	defer own.Close()
	other, err := space.Open(space.Options{})
	kit.NoError(t, err)
	serve := func(handler http.HandlerFunc) string {
		server := kit.NewTLSServer(t, handler)
		e.roots.AddCert(server.Certificate())
		return server.URL
	}
	right := serve(own.Handler().ServeHTTP)
	answer := func(status int) string {
		return serve(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", right)
			w.WriteHeader(status)
		})
	}
	selfSigned := func(expiry time.Time) (string, string) {
		cert, key := kit.WriteCertificate(t, t.TempDir(), "127.0.0.1", expiry)
		pair, err := tls.LoadX509KeyPair(cert, key)
		kit.NoError(t, err)
		server := httptest.NewUnstartedServer(own.Handler())
		server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
		server.StartTLS()
		t.Cleanup(server.Close)
		return server.URL, cert
	}
	unknown, _ := selfSigned(time.Now().Add(time.Hour))
	expired, expiredCert := selfSigned(time.Now().Add(-time.Minute))
	e.roots.AppendCertsFromPEM([]byte(kit.ReadFile(t, expiredCert)))
	plain := kit.NewServer(t, own.Handler())
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(right, "https://"))

	for address, want := range map[string]string{
		right:                            "",
		serve(other.Handler().ServeHTTP): "another person or machine",
		answer(404):                      "another server answers there, with 404",
		answer(302):                      "another server answers there, with 302",
		answer(502):                      "does not reach the page's server",
		serve(func(w http.ResponseWriter, r *http.Request) {
			r.Host = "inside.example"
			own.Handler().ServeHTTP(w, r)
		}): "keep the Host header",
		"https://localhost:" + port: "its certificate is for",
		unknown:                     "does not trust its certificate's issuer",
		expired:                     "its certificate is valid from",
		strings.Replace(plain.URL, "http:", "https:", 1): "speaks no TLS",
		"https://127.0.0.1:1":                            "nothing listens there",
		"https://nowhere.invalid":                        "no address is known for the name",
	} {
		e.PublicPage = address
		r := &result{check: check{id: "page.https", fix: "fix"}}
		e.checkPublicPage(t.Context(), r)
		level := Warn
		if want == "" {
			level = OK
		}
		kit.Equalf(t, r.found[0].Level, level, "%s: %s", want, r.found[0].Text)
		kit.Contains(t, r.found[0].Text, want)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	e.PublicPage = serve(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	kit.Equal(t, e.askForIdentity(ctx, own), "no answer in time")
}

// The doctor says where calls go and how the last one went, and never the topic.
func TestDevices_SaysWhichAreNotCalled(t *testing.T) {
	e := testExam(t.TempDir())
	r := &result{check: check{id: "page.devices", fix: "fix"}}
	e.checkDevices(t.Context(), r)
	kit.Equalf(t, len(r.found), 0, "findings without a device")
	dir := filepath.Join(state.UserStateDir(e.Env), "space")
	kit.NoError(t, os.MkdirAll(dir, 0o700))
	write := func(devices string) *Finding {
		file := filepath.Join(dir, "devices.json")
		kit.NoError(t, os.WriteFile(file, []byte(`{"devices": [`+devices+`]}`), 0o600))
		r.found = nil
		e.checkDevices(t.Context(), r)
		kit.Equalf(t, len(r.found), 1, "findings")
		return r.found[0]
	}
	kit.Equal(t, write(`{"name": "laptop"}`).Level, OK)
	refused := write(`{"name": "laptop"}, {"name": "phone\u001b[2J", "refusal": "no push service"}`)
	kit.Equal(t, refused.Level, Warn)
	kit.Contains(t, refused.Text, "is not notified: no push service")
	kit.True(t, !strings.Contains(refused.Text, "\x1b"), "%q", refused.Text)
}

func TestCalls_SaysHowTheLastWent(t *testing.T) {
	e := testExam(t.TempDir())
	find := func(level Level, want string) {
		t.Helper()
		r := &result{check: check{id: "notify.calls", fix: "fix"}}
		e.checkCalls(t.Context(), r)
		kit.Equal(t, r.found[0].Level, level)
		kit.Contains(t, r.found[0].Text, want)
		kit.True(t, !strings.Contains(r.found[0].Text, "topic-name"), "it has the topic")
	}
	find(OK, "notify is not set up")
	e.cfg.Notify = &config.Notify{URL: "https://ntfy.example/topic-name", Token: "tk"}
	find(OK, "through ntfy.example; nothing was sent yet")
	at := time.Now()
	kit.NoError(t, state.RecordCall(e.Env, at, ""))
	find(OK, "the last notification was on "+at.Local().Format(time.DateTime))
	kit.NoError(t, state.RecordCall(e.Env, at.Add(time.Second), "no network"))
	find(Warn, "the last notification to ntfy.example failed on")
	kit.NoError(t, state.RecordCall(e.Env, at.Add(2*time.Second), ""))
	e.cfg.Notify = &config.Notify{Command: []string{"/home/ann/bin/call-me", "topic-name"}}
	find(OK, "through the command call-me; the last notification was on")
}
