package state

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// aMarker is one as this version writes it.
func aMarker(id, session string, status Status, asked time.Time) *Question {
	response := "Canary"
	q := &Question{
		QuestionID: id, SessionID: session, AskedAt: asked, ThreadKey: id, ThreadName: "spaces/AAAA/threads/BBBB", MessageSent: true, Status: status, Response: &response, Mode: Deny,
		ProjectDir: "/home/dev/projects/x", CWD: "/home/dev/projects/x", SessionName: "system3-main", TimeoutPolicy: LeaveOpen, TimesOutAt: &asked,
		Questions: []Prompt{{Question: "Which \"deployment\" approach\nshould we use?", Header: "Deploy", Options: []Option{{Label: "Rolling", Description: "Bit by bit {[\\"}, {Label: "Canary"}}}},
	}
	if status != Pending {
		q.ResolvedAt = &asked
	}
	return q
}

// put writes a marker as other programs do, written at that time.
func put(t testing.TB, s Questions, name string, v any, written time.Time) string {
	t.Helper()
	b, ok := v.([]byte)
	if !ok {
		var err error
		if b, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(s.Dir, name)
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, written, written); err != nil {
		t.Fatal(err)
	}
	return path
}

func openMarkers(t testing.TB, s Questions) *MarkerFolder {
	t.Helper()
	f, err := s.OpenMarkers()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func TestFindMarkerLooksAtTheNewestFirst(t *testing.T) {
	s, now := MarkersIn(t.TempDir()), time.Now()
	for i := range 5 {
		id := fmt.Sprintf("ask-s-%08x", i)
		put(t, s, id+".json", aMarker(id, "s", Pending, now), now.Add(-time.Duration(i)*time.Hour))
	}
	put(t, s, "ask-other-00000000.json", aMarker("ask-other-00000000", "other", Pending, now), now)
	put(t, s, "odd.json", aMarker("odd", "other", Pending, now), now) // looked into: it is not the session's
	for name, c := range map[string]struct {
		since    time.Duration
		want     string // the one that proves it
		looked   string
		sessions []string
	}{
		"the newest":      {time.Hour * 9, "0", "00", nil}, // what proves it is looked at once more
		"the third":       {time.Hour * 9, "2", "0122", nil},
		"none":            {time.Hour * 9, "x", "01234", nil},
		"those of lately": {time.Hour * 5 / 2, "x", "012", nil},
		"another session": {time.Hour * 9, "x", "", []string{"t"}},
	} {
		looked := ""
		sessions := c.sessions
		if sessions == nil {
			sessions = []string{"s", "name"}
		}
		found, bad := openMarkers(t, s).Find(sessions, now.Add(-c.since), func(m *Proof) (bool, error) {
			last := m.QuestionID[len(m.QuestionID)-1:]
			looked += last
			return last == c.want, nil
		})
		if len(bad) > 0 || found != (c.want != "x") || looked != c.looked {
			t.Errorf("%s: found %v, looked at %q, %v", name, found, looked, bad)
		}
	}
}

// A folder that its owner renamed files into, made longer and removed while it was read gives what stood there.
func TestFindMarkerWhileItIsWritten(t *testing.T) {
	s, now := MarkersIn(t.TempDir()), time.Now().UTC().Truncate(time.Second)
	q := aMarker("ask-s-00000000", "s", Pending, now)
	path := put(t, s, "ask-s-00000000.json", q, now)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 300 {
			q.SessionName = strings.Repeat("x", i*200)
			b, _ := json.Marshal(q)
			if err := replaceFile(path, b); err != nil {
				t.Error(err)
			}
		}
	}()
	for writing := true; writing; {
		select {
		case <-done:
			writing = false
		default:
		}
		found, bad := openMarkers(t, s).Find([]string{"s"}, now, func(m *Proof) (bool, error) { return m.Status == Pending && m.AskedAt.Equal(now), nil })
		if !found || len(bad) > 0 {
			t.Fatalf("found %v, %v", found, bad)
		}
	}
}

// Python writes the time of day with and without a zone, of UTC and of its machine.
func TestTimeNear(t *testing.T) {
	was := time.Local
	defer func() { time.Local = was }()
	at := time.Date(2026, 2, 21, 10, 30, 0, 0, time.UTC)
	for _, hours := range []int{-8, 0, 2, 9} {
		time.Local = time.FixedZone("here", hours*3600)
		for name, text := range map[string]string{
			"Z": "2026-02-21T10:30:00Z", "fraction": "2026-02-21T10:30:00.000000+00:00", "zone": "2026-02-21T12:30:00+02:00", "zone without colon": "2026-02-21T12:30:00+0200",
			"space": "2026-02-21 10:30:00", "UTC without zone": "2026-02-21T10:30:00.000001", "local without zone": at.In(time.Local).Format("2006-01-02T15:04:05"),
		} {
			if got, err := timeNear(text, at.Add(time.Second)); err != nil || got.Sub(at).Abs() > time.Second {
				t.Errorf("%s, %+d h: %v, %v", name, hours, got, err)
			}
		}
	}
	for _, text := range []string{"", "now", "10:30", "2026-02-31T10:30:00Z", "1771669800"} {
		if got, err := timeNear(text, at); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestOldMarkersAreOurs(t *testing.T) {
	s, now := MarkersIn(t.TempDir()), time.Now()
	old := now.Add(-25 * time.Hour)
	for id, status := range map[string]Status{"ask-s-00000001": Pending, "ask-s-00000002": Resolved, "ask-s-00000003": TimedOut, "ask-s-00000004": Answered, "ask-s-00000005": Expired} {
		put(t, s, id+".json", aMarker(id, "s", status, old.Add(-time.Duration(id[13])*time.Minute)), old)
	}
	put(t, s, "ask-s-00000006.json", aMarker("ask-s-00000006", "s", Resolved, old), now)
	put(t, s, "ask-s-00000007.json", aMarker("ask-s-00000007", "s", Resolved, now), old)
	put(t, s, "mine.json", aMarker("mine", "s", Resolved, old), old)
	put(t, s, "ask-s-00000008.json", aMarker("ask-s-00000009", "s", Resolved, old), old)
	found, bad := openMarkers(t, s).Old(now, 100)
	got := ""
	for _, m := range found {
		got += m.QuestionID[13:]
	}
	if got != "53241" || len(bad) != 3 {
		t.Errorf("got %s, %v", got, bad)
	}
	if found, bad := openMarkers(t, s).Old(now, 4); len(found)+len(bad) != 4 {
		t.Errorf("looked at %d", len(found)+len(bad))
	}
	if found, bad := openMarkers(t, MarkersIn(filepath.Join(s.Dir, "none"))).Old(now, 4); len(found)+len(bad) != 0 {
		t.Errorf("no folder: %v, %v", found, bad)
	}
}

// What is read quickly is what a parser reads.
func FuzzMarker(f *testing.F) {
	asked := time.Date(2026, 2, 21, 10, 30, 0, 0, time.UTC)
	whole, _ := json.Marshal(aMarker("ask-s-00000001", "s", Resolved, asked))
	f.Add(whole)
	for _, text := range []string{
		`{"question_id":"a","session_id":"s","status":"pending","asked_at":"2026-02-21T10:30:00Z","resolved_at":null}`,
		" {\n \"a\" : [ ] , \"b\":{\"status\":\"x\"},\"status\" : \"timeout\",\"n\":-1.5e3,\"t\":true , \"session_id\":\"\\u0073\"}\n", `{}`, `{"a":1,}`, `{"a"}`, `{"status":tru"e}`,
		`{"status":"pending","status":"resolved","Status":"timeout"}`, `{"resolved_at":"2026-02-21T10:30:00Z","resolved_at":null}`, `{"status":"\""}`, `{"a":"\\","status":"pending"}`, `{"asked_at":[}`, `{"a":}`, `{"":""`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var quick, parsed markerText
		if !utf8.Valid(b) || !topMembers(b, quick.set) || json.Unmarshal(b, &parsed) != nil {
			return
		}
		var names map[string]json.RawMessage
		_ = json.Unmarshal(b, &names)
		for name := range names { // a parser takes "Status" for "status", which no program writes
			if name != strings.ToLower(name) || strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
				return
			}
		}
		if parsed.ThreadKey = ""; !reflect.DeepEqual(quick, parsed) {
			t.Errorf("quickly %+v, parsed %+v", quick, parsed)
		}
	})
}
