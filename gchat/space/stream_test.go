package space

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// sendAsBrowser sends a request with the page's key.
func sendAsBrowser(t *testing.T, s *Space, r *http.Request) *http.Response {
	t.Helper()
	r.Header.Set(pageKeyHeader, s.pageKey())
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %+v, %v", r.URL, answer, err)
	}
	return answer
}

func openEvents(t *testing.T, s *Space, base string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", base+"/events", nil)
	kit.NoError(t, err)
	return sendAsBrowser(t, s, r)
}

// readEvents reads the stream's "event: …" and "id: …" lines until an event named
// last came.
func readEvents(t *testing.T, s *Space, url, lastID, last string) (events, id, data string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	kit.NoError(t, err)
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	answer := sendAsBrowser(t, s, r)
	defer answer.Body.Close()
	var names []string
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "event":
			names = append(names, value)
		case "id":
			id = value
		case "data":
			data += value
		case "":
			if names[len(names)-1] == last {
				return strings.Join(names, " "), id, data
			}
		}
	}
	t.Fatalf("the stream ended after %q: %v", names, lines.Err())
	return "", "", ""
}

func TestStream_ResumesAfterAnID(t *testing.T) {
	s, srv := testServer(t, Options{})
	for range 250 {
		if _, err := s.PostAs(nil, "", "early"); err != nil {
			t.Fatal(err)
		}
	}
	events, id, _ := readEvents(t, s, srv.URL+"/events", "", "ready")
	kit.Equalf(t, events, "reset messages messages ready", "a new browser gets")
	if events, _, _ := readEvents(t, s, srv.URL+"/events", id, "ready"); events != "ready" {
		t.Errorf("one that has everything gets %s", events)
	}
	if _, err := s.PostAs(nil, "", "late"); err != nil {
		t.Fatal(err)
	}
	events, _, data := readEvents(t, s, srv.URL+"/events?after="+id, "", "messages")
	if events != "messages" || strings.Count(data, `"late"`) != 1 || strings.Contains(data, `"early"`) {
		t.Errorf("one that resumes gets %s %s", events, data)
	}
	for _, foreign := range []string{"0123456789ab-3", strings.Split(id, "-")[0] + "-9999", strings.Split(id, "-")[0] + "--1", "x"} {
		if events, _, _ := readEvents(t, s, srv.URL+"/events", foreign, "ready"); !strings.HasPrefix(events, "reset messages") {
			t.Errorf("one with id %s of another space gets %s", foreign, events)
		}
	}
}

func TestStream_EndsWithTheSpace(t *testing.T) {
	s, srv := testServer(t, Options{})
	answer := openEvents(t, s, srv.URL)
	defer answer.Body.Close()
	s.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, answer.Body)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the stream was cut, not ended: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the stream outlives the space")
	}
}

func TestStream_EndsWithTheServer(t *testing.T) {
	s, err := Open(Options{})
	kit.NoError(t, err)
	defer s.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	kit.NoError(t, err)
	base := "http://" + ln.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, ln, s) }()

	answer := openEvents(t, s, base)
	defer answer.Body.Close()
	if code, v := postTo(t, s.WebhookURL(base), `{"text":"x"}`); code != 200 {
		t.Fatal(code, v)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Errorf("the stream was cut, not ended: %v", err)
	}
	if err := Serve(t.Context(), ln, s); err == nil {
		t.Error("Serve on a closed listener is content")
	}
}
