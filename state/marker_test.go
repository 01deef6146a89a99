package state

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// aMarker is a marker as this version writes it.
func aMarker(id, session string, status Status, asked time.Time) *Question {
	response := "Canary"
	q := &Question{
		QuestionID: id, SessionID: session, AskedAt: asked, ThreadKey: id,
		ThreadName: "spaces/AAAA/threads/BBBB", IsMessageSent: true, Status: status,
		Response: &response, Mode: ModeDeny,
		ProjectDir: "/home/dev/projects/x", CWD: "/home/dev/projects/x",
		SessionName: "system3-main", TimeoutPolicy: TimeoutLeaveOpen, TimesOutAt: &asked,
		SubQuestions: []SubQuestion{{Question: "Which \"deployment\" approach\nshould we use?",
			Header: "Deploy", Options: []Option{{Label: "Rolling", Description: "Bit by bit {[\\"},
				{Label: "Canary"}}}},
	}
	if status != Pending {
		q.ResolvedAt = &asked
	}
	return q
}

// put writes a marker as other programs do, with this time as the file's.
func put(t testing.TB, s Questions, name string, v any, written time.Time) string {
	t.Helper()
	b, ok := v.([]byte)
	if !ok {
		b = kit.JSON(t, v)
	}
	path := filepath.Join(s.Dir, name)
	kit.WriteFile(t, path, b, 0o600)
	kit.NoError(t, os.Chtimes(path, written, written))
	return path
}

// A session's questions are found by its id and by its name. Other programs use either.
func TestMarker_Mentioning(t *testing.T) {
	s, now := MarkersIn(t.TempDir()), time.Now()
	for id, session := range map[string]string{"a": "s", "b": "name", "c": "other"} {
		put(t, s, id+".json", aMarker(id, session, Pending, now), now.Add(-time.Hour))
	}
	put(t, s, "d.json", map[string]any{"question_id": "d", "session_id": "s", "status": "pending"},
		now)
	put(t, s, "ask-s-1.json", []byte("{"), now.Add(-time.Hour))
	qs, bad, err := s.OfSessionNames([]string{"s", "name"})
	kit.True(t, len(qs) == 3 && len(bad) == 1 && err == nil,
		"%d questions, %v, %v", len(qs), bad, err)
	for _, q := range qs {
		kit.True(t, q.QuestionID != "a" ||
			q.WrittenAt.Sub(now.Add(-time.Hour)).Abs() <= time.Second,
			"written %s", q.WrittenAt)
	}
	qs, _, _ = s.OfSession("s")
	kit.True(t, len(qs) == 1 && qs[0].QuestionID == "a", "the session's own: %d", len(qs))
}

// Python writes times with and without a zone, in UTC or in the machine's zone.
func TestMarker_TimeNear(t *testing.T) {
	was := time.Local
	defer func() { time.Local = was }()
	at := time.Date(2026, 2, 21, 10, 30, 0, 0, time.UTC)
	for _, hours := range []int{-8, 0, 2, 9} {
		time.Local = time.FixedZone("here", hours*3600)
		for name, text := range map[string]string{
			"Z": "2026-02-21T10:30:00Z", "fraction": "2026-02-21T10:30:00.000000+00:00",
			"zone": "2026-02-21T12:30:00+02:00", "zone without colon": "2026-02-21T12:30:00+0200",
			"space": "2026-02-21 10:30:00", "UTC without zone": "2026-02-21T10:30:00.000001",
			"local without zone": at.In(time.Local).Format("2006-01-02T15:04:05"),
		} {
			got, err := parseTimeNear(text, at.Add(time.Second))
			kit.True(t, err == nil && got.Sub(at).Abs() <= time.Second,
				"%s, %+d h: %v, %v", name, hours, got, err)
		}
	}
	for _, text := range []string{"", "now", "10:30", "2026-02-31T10:30:00Z", "1771669800"} {
		got, err := parseTimeNear(text, at)
		kit.True(t, err != nil, "%q is %v", text, got)
	}
}
