package space

import (
	"bufio"
	"context"
	"io"
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
		postAsPerson(t, s, "", "early")
	}
	events, id, _ := readEvents(t, s, srv.URL+"/events", "", "ready")
	kit.Equalf(t, events, "reset messages messages ready", "a new browser gets")
	events, _, _ = readEvents(t, s, srv.URL+"/events", id, "ready")
	kit.Equalf(t, events, "ready", "one that has everything gets")
	postAsPerson(t, s, "", "late")
	events, _, data := readEvents(t, s, srv.URL+"/events?after="+id, "", "messages")
	if events != "messages" || strings.Count(data, `"late"`) != 1 ||
		strings.Contains(data, `"early"`) {
		t.Errorf("one that resumes gets %s %s", events, data)
	}
	epoch, _, _ := strings.Cut(id, "-")
	for _, foreign := range []string{"0123456789ab-3", epoch + "-9999", epoch + "--1", "x"} {
		events, _, _ := readEvents(t, s, srv.URL+"/events", foreign, "ready")
		kit.Containsf(t, events, "reset messages", "events for the id %s of another space", foreign)
	}
}

// wantEnded fails the test if a stream does not end, or is cut.
func wantEnded(t *testing.T, answer *http.Response) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, answer.Body)
		ended <- err
	}()
	select {
	case err := <-ended:
		kit.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("the stream does not end")
	}
}

func TestStream_EndsWithTheSpace(t *testing.T) {
	s, srv := testServer(t, Options{})
	answer := openEvents(t, s, srv.URL)
	defer answer.Body.Close()
	s.Close()
	wantEnded(t, answer)
}

func TestStream_EndsWithTheServer(t *testing.T) {
	s := openSpace(t, "")
	ln := kit.Listen(t)
	base := "http://" + ln.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, ln, s) }()

	answer := openEvents(t, s, base)
	defer answer.Body.Close()
	mustPost(t, s.WebhookURL(base), `{"text":"x"}`)
	cancel()
	kit.NoError(t, <-served)
	wantEnded(t, answer)
	if err := Serve(t.Context(), ln, s); err == nil {
		t.Error("Serve on a closed listener is content")
	}
}
