package poller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/gchat/space"
	"gchat-hooks/state"
)

// verified is a check of a space that can be made to go wrong.
type verified struct {
	*Verify
	t     *testing.T
	space *space.Space
	env   map[string]string

	refuse func(n int, w http.ResponseWriter) (refused bool)             // the n-th post
	store  bool                                                          // what is refused is stored all the same
	posted func(n int, q map[string][]string, m *chat.Message)           // changes the n-th post on its way
	answer func(n int, m *chat.Message)                                  // changes what Chat answers to it
	list   func(n int, ms []*chat.Message) (_ []*chat.Message, code int) // changes the n-th list; code 0 is fine

	mu           sync.Mutex
	posts, lists int
}

func newVerified(t *testing.T) *verified {
	t.Helper()
	s, err := space.Open(space.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := &verified{t: t, space: s}
	server := httptest.NewServer(v)
	t.Cleanup(func() { server.Close(); s.Close() })
	dir := t.TempDir()
	v.env = map[string]string{
		"HOME": dir, "XDG_STATE_HOME": dir, "CLAUDE_PROJECT_DIR": dir, "GOOGLE_CHAT_WEBHOOK_URL": s.WebhookURL(server.URL),
		"GCHAT_ALLOWED_USERS": space.Human, "GCHAT_POLLER_INTERVAL": "0.02", "GCHAT_WRITES_PER_MINUTE": "60000",
	}
	getenv := func(name string) string { return v.env[name] }
	v.Verify = &Verify{
		Poller: &Poller{Env: getenv, Log: state.NewLog(getenv, "test")}, ProjectDir: dir,
		NoHuman: true, Wait: 30 * time.Second, Timeout: 50 * time.Millisecond, Patience: 20 * time.Second,
	}
	return v
}

func (v *verified) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	answer := httptest.NewRecorder()
	defer func() {
		maps.Copy(w.Header(), answer.Header())
		w.Header().Del("Content-Length")
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}()
	if r.Method == http.MethodPost {
		v.posts++
		v.servePost(answer, r)
		return
	}
	v.lists++
	v.space.Handler().ServeHTTP(answer, r)
	if v.list == nil || answer.Code != http.StatusOK {
		return
	}
	var page chat.ListMessagesResponse
	if err := json.Unmarshal(answer.Body.Bytes(), &page); err != nil {
		v.t.Error(err)
	}
	code := 0
	if page.Messages, code = v.list(v.lists, page.Messages); code != 0 {
		answer.Body.Reset()
		answer.Code = code
		fmt.Fprintf(answer.Body, `{"error":{"code":%d,"message":"not for you","status":"X"}}`, code)
		return
	}
	answer.Body.Reset()
	_ = json.NewEncoder(answer.Body).Encode(page)
}

func (v *verified) servePost(answer *httptest.ResponseRecorder, r *http.Request) {
	var m chat.Message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		v.t.Error(err)
	}
	q := r.URL.Query()
	if v.posted != nil {
		v.posted(v.posts, q, &m)
	}
	b, _ := json.Marshal(&m)
	r.URL.RawQuery, r.Body = q.Encode(), io.NopCloser(bytes.NewReader(b))
	if v.refuse != nil && v.refuse(v.posts, answer) {
		if v.store {
			v.space.Handler().ServeHTTP(httptest.NewRecorder(), r)
		}
		return
	}
	v.space.Handler().ServeHTTP(answer, r)
	if v.answer != nil && answer.Code == http.StatusOK {
		var done chat.Message
		_ = json.Unmarshal(answer.Body.Bytes(), &done)
		v.answer(v.posts, &done)
		answer.Body.Reset()
		_ = json.NewEncoder(answer.Body).Encode(&done)
	}
}

// check runs it. Whatever happens, no secret may be in the report, and every thread that was begun must say its end.
func (v *verified) check() *VerifyReport {
	v.t.Helper()
	return v.checkUntil(v.t.Context())
}

func (v *verified) checkUntil(ctx context.Context) *VerifyReport {
	v.t.Helper()
	r, err := v.Run(ctx)
	if err != nil {
		v.t.Fatal(err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		v.t.Fatal(err)
	}
	_, secrets, _ := strings.Cut(v.env["GOOGLE_CHAT_WEBHOOK_URL"], "?")
	for _, pair := range strings.Split(secrets, "&") {
		if _, secret, _ := strings.Cut(pair, "="); bytes.Contains(b, []byte(secret)) {
			v.t.Errorf("a secret is in the report: %s", b)
		}
	}
	if len(r.Scenarios) != len(verifyScenarios) || r.Ended.IsZero() {
		v.t.Errorf("the report is not whole: %s", b)
	}
	return r
}

func (v *verified) statuses(r *VerifyReport) (got string) {
	for _, s := range r.Scenarios {
		got += string(s.Status) + " "
	}
	return strings.TrimSpace(got)
}

func reply(sender, text string) func(v *verified, thread string) {
	return func(v *verified, thread string) {
		if _, err := v.space.Say(&chat.User{Name: sender, Type: "HUMAN", DisplayName: "Ann"}, thread, text); err != nil {
			v.t.Error(err)
		}
	}
}

// asked is the thread of the last question in the space.
func (v *verified) asked() (thread string) {
	for _, m := range v.space.Messages() {
		if strings.HasPrefix(m.Text, "[AskUserQuestion]") {
			thread = m.Thread.Name
		}
	}
	return thread
}

func TestVerifyASoundSpace(t *testing.T) {
	v := newVerified(t)
	var kept []string
	v.Keep = func(r *VerifyReport) error { kept = append(kept, v.statuses(r)); return nil }
	r := v.check()
	if !r.Passed || v.statuses(r) != "pass pass skipped pass" {
		t.Fatalf("%+v", r)
	}
	if want := "|pass|pass pass|pass pass skipped|pass pass skipped pass|pass pass skipped pass"; strings.Join(kept, "|") != want {
		t.Errorf("written down: %q", kept)
	}
	// Every key has a thread of its own, the messages that were posted there are there, and the last one says the end.
	last, texts, names := map[string]string{}, map[string][]string{}, map[string]bool{}
	for _, m := range v.space.Messages() {
		last[m.Thread.Name], texts[m.Thread.Name] = m.Text, append(texts[m.Thread.Name], m.Name)
		if !strings.Contains(m.Text, "[Verify]") {
			t.Errorf("not recognisable: %q", m.Text)
		}
	}
	for _, s := range r.Scenarios {
		for _, th := range s.Threads {
			if !strings.HasPrefix(th.Key, "verify-"+r.Run+"-") || names[th.Name] {
				t.Errorf("thread %+v", th)
			}
			names[th.Name] = true
			if strings.Join(texts[th.Name], " ") != strings.Join(th.Messages, " ") || !strings.HasSuffix(last[th.Name], verifyOver) {
				t.Errorf("%s: the space has %q, the report %q; the last says %q", th.Key, texts[th.Name], th.Messages, last[th.Name])
			}
		}
	}
	if len(names) != 4 || len(texts) != 4 {
		t.Errorf("%d threads in the report, %d in the space", len(names), len(texts))
	}
	if s := r.Scenarios[0]; len(s.PostMS) != 2 || len(s.ListedMS) != 2 || s.PostMS[0] <= 0 {
		t.Errorf("latencies: %+v", s)
	}
}

func TestVerifyReportIsThePersonsAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "report.json")
	if err := os.WriteFile(path, []byte("older, and longer than the report that replaces it"), 0o644); err != nil {
		t.Fatal(err)
	}
	want := VerifyReport{Run: "1a2b3c4d", Began: noon, Scenarios: []VerifyResult{{Scenario: "thread", Status: VerifyPass, PostMS: []float64{1.5}}}}
	if err := want.Save(path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got VerifyReport
	if err := json.Unmarshal(b, &got); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v: %+v", err, got)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("left behind: %v", files)
	}
	if err := want.Save(filepath.Join(dir, "none", "report.json")); err == nil || !strings.HasPrefix(err.Error(), "write report: ") {
		t.Errorf("%v", err)
	}
}
