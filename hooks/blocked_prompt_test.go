package hooks_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gchat-hooks/state"
)

// A reply is handed over as the context of a prompt, which another hook may block: then Claude has neither.
func TestReplyOfABlockedPromptIsToldAgain(t *testing.T) {
	for name, c := range map[string]struct {
		after string // what the transcript holds after it was handed over; %s is that
		want  int
	}{
		"blocked":           {`{"type":"system"}`, 2},
		"let through":       {`{"type":"attachment","version":"2.1.197","content":%s}`, 1},
		"in another's turn": {`{"type":"assistant","version":"2.1.197","timestamp":"` + time.Now().UTC().Format(time.RFC3339Nano) + `"}`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := denying(t)
			w.denial(w.run(forward, asks(t, "s-1", "t1", "Which DB?", "SQLite", "Postgres")))
			w.replied("2")
			transcript := filepath.Join(w.dir, "transcript.jsonl")
			writeFile(t, transcript, `{"type":"user"}`)
			told := 0
			for range 3 {
				if out := w.run(answered, event(t, "UserPromptSubmit", "s-1", "transcript_path", transcript)); strings.Contains(out, `=\"Postgres\"`) {
					told++
					writeFile(t, transcript, strings.Replace(c.after, "%s", strings.TrimSpace(out), 1))
				}
				w.longAgo()
			}
			if told != c.want {
				t.Errorf("told %d times, want %d", told, c.want)
			}
			w.reads("s-1", "resolved | 2 | Which DB?")
		})
	}
}

// replied writes a reply of Ann's into the question's file, as the inbox does.
func (w *world) replied(text string) {
	w.Helper()
	if _, err := state.UpdateQuestion(w.question().Path, func(q *state.Question) error {
		q.Replies = append(q.Replies, state.Reply{MessageName: "spaces/x/messages/y", Sender: ann.Name, Text: text, CreateTime: time.Now()})
		return nil
	}); err != nil {
		w.Fatal(err)
	}
}

// longAgo has every delivery so far be old enough for the transcript to tell.
func (w *world) longAgo() {
	w.Helper()
	for _, q := range w.questions() {
		if q.DeliveredAt == nil {
			continue
		}
		if _, err := state.UpdateQuestion(q.Path, func(q *state.Question) error {
			then := q.DeliveredAt.Add(-time.Minute)
			was := q.ResolvedAt.Add(-time.Minute)
			q.DeliveredAt, q.ResolvedAt = &then, &was
			return nil
		}); err != nil {
			w.Fatal(err)
		}
	}
}
