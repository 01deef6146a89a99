package doctor

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/strict"
	"gchat-hooks/gchat/space"
	"gchat-hooks/state/config"
)

// runLive is what a live run saw. Nothing private may be in it: doctor looks for the
// secrets.
func (p *doctorHome) runLive(args ...string) (l Live, code int) {
	p.Helper()
	p.writeDefaults()
	code, stdout, stderr := p.runDoctor(append([]string{"--live", "--paste"}, args...)...)
	if err := json.Unmarshal([]byte(stdout), &l); err != nil {
		p.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	for _, private := range []string{"@", "http", "[Verify]", "token", "a secret of mine", p.home} {
		if strings.Contains(stdout, private) {
			p.Errorf("%q is in what is to be pasted:\n%s", private, stdout)
		}
	}
	return l, code
}

func (l Live) result(id string) string {
	i := slices.IndexFunc(l.Probes, func(p Probe) bool { return p.ID == id })
	return l.Probes[i].Result
}

// checkProbes compares what probes saw; a lag is compared without its time.
func (p *doctorHome) checkProbes(l Live, want map[string]string) {
	p.Helper()
	kit.Equalf(p, len(l.Probes), len(probes), "probes")
	for id, seen := range want {
		if got := l.result(id); !strings.HasPrefix(got, seen) {
			p.Errorf("%s: %q, want %q", id, got, seen)
		}
	}
}

// messageNames are the names of all messages in the space.
func (p *doctorHome) messageNames() (names []string) {
	for _, m := range p.space.Messages() {
		names = append(names, m.Name)
	}
	return names
}

// useApp has a Chat app of the space post, in a direct message.
func (p *doctorHome) useApp() {
	var err error
	p.space, err = space.Open(space.Options{IsDirect: true})
	p.check(err)
	p.Cleanup(func() { p.space.Close() })
	at := p.space.APIEndpoint(p.server.URL)
	p.config = map[string]any{
		"pubsub_subscription": "projects/p/subscriptions/s", "space_id": space.Name,
		"api_endpoint": at, "pubsub_endpoint": at,
		"allowed_users":    []string{space.PersonName},
		"credentials_file": filepath.Join(p.home, "adc.json"),
	}
	p.writeJSON(filepath.Join(p.home, "adc.json"),
		map[string]any{"type": "impersonated_service_account"})
	p.secrets = append(p.secrets,
		strings.Trim(at[strings.LastIndex(strings.Trim(at, "/"), "/"):], "/"))
}

// What the embedded space does.
func TestProbes_EmbeddedSpace(t *testing.T) {
	p := newDoctorHome(t)
	p.config["allowed_users"] = []string{space.PersonName, "ann@example.com"}
	l, code := p.runLive()
	p.checkProbes(l, map[string]string{
		"same-id": "same message", "get-by-id": "200, found",
		"thread-key": "not tried: no direct message", "card-text": "not tried: no Chat app",
		"same-user": "not tried: no login",
	})
	if code != 0 || l.ExitCode != 0 || l.Version != "v1.2.3" ||
		l.OS != runtime.GOOS+"/"+runtime.GOARCH || l.Space != space.Name ||
		l.Kind != "space, threads unknown" || l.PostsBy != "webhook" || l.Credentials != "no file" {
		t.Errorf("exit code %d, %+v", code, l)
	}
	if len(p.messageNames()) != 4 {
		t.Errorf("in the space are %v", p.messageNames())
	}
}

func TestProbes_App(t *testing.T) {
	p := newDoctorHome(t)
	p.useApp()
	l, code := p.runLive()
	p.checkProbes(l, map[string]string{
		"same-id": "same message", "get-by-id": "200, found", "thread-key": "same thread",
		"card-text": "200, taken",
		"same-user": "not tried: no login",
	})
	if code != 0 || l.Kind != "direct message, threads unknown" || l.PostsBy != "app" ||
		l.Credentials != "impersonated service account" {
		t.Errorf("exit code %d, %+v", code, l)
	}
}

// An app deletes what it posted.
func TestProbes_AppDeletesThem(t *testing.T) {
	p := newDoctorHome(t)
	p.useApp()
	var deleted []string
	p.answerInstead = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete {
			deleted = append(deleted, r.URL.Path[strings.Index(r.URL.Path, "spaces/"):])
			_, _ = io.WriteString(w, "{}")
		}
		return r.Method == http.MethodDelete
	}
	if p.runLive(); len(deleted) != 3 ||
		!strings.HasPrefix(deleted[0], "spaces/local/messages/client-verify-") {
		t.Errorf("deleted were %v", deleted)
	}
}

// Ctrl-C ends the probes, but their messages are still deleted.
func TestProbes_DeletedAfterAnInterrupt(t *testing.T) {
	p := newDoctorHome(t)
	p.useApp()
	p.writeDefaults()
	ctx, interrupt := context.WithCancel(t.Context())
	deleted := 0
	p.answerInstead = func(w http.ResponseWriter, r *http.Request) bool {
		switch r.Method {
		case http.MethodPatch:
			interrupt()
			<-r.Context().Done()
			return true
		case http.MethodDelete:
			deleted++
			_, _ = io.WriteString(w, "{}")
			return true
		}
		return false
	}
	e := newExam(ctx, Options{Env: p.getenv})
	if l := e.runProbes(ctx, 0); deleted != 3 || l.result("card-text") != "no answer of use" {
		t.Errorf("%d deleted, %+v", deleted, l)
	}
}

// If Chat does not say who logged in, the reply's sender is compared instead.
func TestProbes_ReplyShowsTheLogin(t *testing.T) {
	for user, seen := range map[string]string{
		space.PersonName: "same id", "users/7": "another id, or another person replied",
	} {
		p := newDoctorHome(t)
		p.writeLogin(p.server, func(l *config.Login) { l.User = user })
		p.replyOnce(space.Person(), "a secret of mine")
		l, _ := p.runLive("--wait", "20s")
		p.checkProbes(l, map[string]string{"same-user": seen})
		kit.Equalf(t, l.Credentials, "login", "%+v", l)
	}
}

// Without a webhook no probe is tried, and each says so.
func TestProbes_WithoutASpace(t *testing.T) {
	p := newDoctorHome(t)
	p.config = nil
	l, code := p.runLive()
	for _, probe := range l.Probes {
		if !strings.HasPrefix(probe.Result, "not tried: ") {
			t.Errorf("%+v", probe)
		}
	}
	if code != 2 || l.ExitCode != 2 || l.Space != "" {
		t.Errorf("exit code %d, %+v", code, l)
	}
}

// Each row is a Chat that behaves in another way. One probe shows it, and no finding
// comes from it.
func TestProbes_DifferentChats(t *testing.T) {
	answer := func(w http.ResponseWriter, code int, body string) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
		return true
	}
	refusal := func(w http.ResponseWriter, code int, status string) bool {
		b, _ := json.Marshal(map[string]any{"error": map[string]any{
			"code": code, "status": status, "message": "not for ann@example.com",
		}})
		return answer(w, code, string(b))
	}
	posts := 0
	for _, c := range []struct {
		name, probe, seen string
		app               bool
		plant             func(p *doctorHome)
		answers           func(w http.ResponseWriter, r *http.Request) bool
	}{
		{
			name: "the same id is refused", probe: "same-id", seen: "409 already exists",
			answers: func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Has("messageId") {
					posts++
				}
				return r.URL.Query().Has("messageId") && posts == 2 &&
					refusal(w, 409, "ALREADY_EXISTS")
			},
		},
		{
			name: "the same id makes another message", probe: "same-id", seen: "another message",
			answers: func(_ http.ResponseWriter, r *http.Request) bool {
				r.URL.RawQuery = strings.NewReplacer("messageId=", "x=", "requestId=",
					"y=").Replace(r.URL.RawQuery)
				return false
			},
		},
		{
			name: "the reader does not find the id", probe: "get-by-id", seen: "404 not found",
			answers: func(w http.ResponseWriter, r *http.Request) bool {
				return strings.Contains(r.URL.Path, "/messages/client-") &&
					refusal(w, 404, "NOT_FOUND")
			},
		},
		{
			name: "no thread keys in a direct message", app: true, probe: "thread-key",
			seen: "another thread",
			plant: func(p *doctorHome) {
				p.server.Config.Handler = strict.CheckRequests(p, p, strict.Embedded,
					strict.DirectMessage)
			},
		},
		{
			name: "a card takes no text", app: true, probe: "card-text",
			seen: "400 invalid argument",
			answers: func(w http.ResponseWriter, r *http.Request) bool {
				return r.Method == http.MethodPatch && refusal(w, 400, "INVALID_ARGUMENT")
			},
		},
		{
			name: "the login has another id", probe: "same-user", seen: "another id",
			plant: func(p *doctorHome) {
				p.writeLogin(p.server, func(l *config.Login) { l.User = "users/7" })
			},
			answers: func(w http.ResponseWriter, r *http.Request) bool {
				return strings.HasSuffix(r.URL.Path, ":search") &&
					answer(w, 200,
						`{"results": [{"message": {"sender": {"name": "users/8", "type": "HUMAN", "email": "ann@example.com"}}}]}`)
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newDoctorHome(t)
			posts = 0
			if c.app {
				p.useApp()
			}
			if c.plant != nil {
				c.plant(p)
			}
			p.answerInstead = c.answers
			l, code := p.runLive()
			p.checkProbes(l, map[string]string{c.probe: c.seen})
			if c.probe != "same-user" && code != 0 { // there, the person may not answer
				t.Errorf("exit code %d", code)
			}
		})
	}
}
