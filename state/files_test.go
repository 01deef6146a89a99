package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestRegisterTogether(t *testing.T) {
	user := t.TempDir()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := Register(user, fmt.Sprintf("/p%02d/.claude/state", i), fmt.Sprintf("/p%02d", i), asked); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if dirs, err := ProjectStates(user); err != nil || len(dirs) != 20 || !slices.IsSorted(dirs) {
		t.Errorf("%d projects, %v", len(dirs), err)
	}
}

func TestRegistryKeepsUnknownFieldsAndSetsGarbageAside(t *testing.T) {
	user := t.TempDir()
	path := filepath.Join(user, "projects.json")
	os.WriteFile(path, []byte(`{"version":9,"projects":{"/a":{"nick":"A"}}}`), 0o600)
	if err := Register(user, "/b", "/b", asked); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(path)
	if s := string(b); !strings.Contains(s, `"version": 9`) || !strings.Contains(s, `"nick": "A"`) {
		t.Errorf("got %s", s)
	}
	os.WriteFile(path, []byte(`{"projects":`), 0o600)
	var c *Corrupt
	if _, err := ProjectStates(user); !errors.As(err, &c) || c.Aside == "" {
		t.Errorf("garbage: %v", err)
	}
	if err := Register(user, "/c", "/c", asked); err != nil {
		t.Fatal(err)
	}
	if dirs, err := ProjectStates(user); err != nil || !slices.Equal(dirs, []string{"/c"}) {
		t.Errorf("after garbage: %v, %v", dirs, err)
	}
}

func TestInboxSurvivesAndForgetsGarbage(t *testing.T) {
	user := t.TempDir()
	in, err := OpenInbox(user, "spaces/A")
	if err != nil {
		t.Fatal(err)
	}
	in.Watermark, in.Covered["q1"] = asked, true
	if err := in.Save(); err != nil {
		t.Fatal(err)
	}
	if again, err := OpenInbox(user, "spaces/A"); err != nil || !again.Watermark.Equal(asked) || !again.Covered["q1"] {
		t.Errorf("got %+v, %v", again, err)
	}
	os.WriteFile(in.path, []byte(`{"watermark":"yesterday"}`), 0o600)
	var c *Corrupt
	if again, err := OpenInbox(user, "spaces/A"); !errors.As(err, &c) || !again.Watermark.IsZero() {
		t.Errorf("garbage: %+v, %v", again, err)
	}
}

func TestRedactor(t *testing.T) {
	var r Redactor
	r.Hide("https://chat.example/v1/spaces/A/messages?key=KEYKEYKEY&token=tok%2Ftok%3D")
	for _, leak := range []string{
		`Post "https://chat.example/v1/spaces/A/messages?key=KEYKEYKEY&token=tok%2Ftok%3D": EOF`,
		"token is tok/tok=", "KEYKEYKEY", `https://other.example/x?token=unseen-secret`, `{"url":"https://o/x?key=a1\u0026token=unseen-secret"}`,
		"Authorization: Bearer unseen-secret", `"refresh_token": "unseen-secret"`, `{"refresh_token":"1//0-unseen-secret"}`,
		`{"private_key":"-----BEGIN PRIVATE KEY-----\nunseen-secret\n"}`, "GET /?state=x&code=4/0Aunseen-secret&scope=y", "got ya29.unseen-secret",
		"http://127.0.0.1:1/t/unseen-secret/v1/spaces",
	} {
		got := r.Clean(leak)
		for _, secret := range []string{"KEYKEYKEY", "tok/tok=", "tok%2Ftok", "unseen-secret"} {
			if strings.Contains(got, secret) {
				t.Errorf("%q became %q, which holds %q", leak, got, secret)
			}
		}
	}
	if got := r.Clean("a plain line, key: value"); got != "a plain line, key: value" {
		t.Errorf("a plain line became %q", got)
	}
}

func TestLogIsCappedAndClean(t *testing.T) {
	home := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": home}[name] }
	path := LogPath(env)
	NewLog(env, "test")
	if _, err := os.Stat(path); err == nil {
		t.Error("a log without a line was opened")
	}
	os.MkdirAll(filepath.Dir(path), 0o700)
	os.WriteFile(path, make([]byte, maxLog+1), 0o600)
	l := NewLog(env, "test")
	l.Hide("topsecret")
	l.Error().Str("url", "topsecret").Msg("x")
	b, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(b), "topsecret") || !strings.Contains(string(b), `"job":"test"`) {
		t.Errorf("log holds %s, %v", b, err)
	}
	if info, err := os.Stat(path + ".1"); err != nil || info.Size() != maxLog+1 {
		t.Errorf("old log: %v, %v", info, err)
	}
}

func TestNoticesAreShownOnce(t *testing.T) {
	user := t.TempDir()
	for range 2 {
		if err := AddNotice(user, "s/1", "it failed"); err != nil {
			t.Fatal(err)
		}
	}
	if got := TakeNotices(user, "s/1"); got != "it failed" {
		t.Errorf("first: %q", got)
	}
	if got := TakeNotices(user, "s/1"); got != "" {
		t.Errorf("second: %q", got)
	}
}

func TestWatchTellsOfARename(t *testing.T) {
	q := record(t, QuestionsIn(t.TempDir()), question("s"))
	for name, watch := range map[string]func() <-chan struct{}{
		"by the kernel": func() <-chan struct{} { return Watch(t.Context(), q.Path) },
		"by looking": func() <-chan struct{} {
			c := make(chan struct{}, 1)
			go watchByLooking(t.Context(), q.Path, func() {
				select {
				case c <- struct{}{}:
				default:
				}
			})
			c <- struct{}{}
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			changed := watch()
			<-changed // the first is for what was before
			stop := make(chan struct{})
			defer close(stop)
			go func() { // the watch may begin after the first write
				for {
					_, _ = UpdateQuestion(q.Path, func(q *Question) error { q.PostError += "."; return nil })
					select {
					case <-stop:
						return
					case <-time.After(20 * time.Millisecond):
					}
				}
			}()
			select {
			case <-changed:
			case <-time.After(10 * time.Second):
				t.Fatal("not told")
			}
		})
	}
}
