package state

import (
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

var asked = time.Date(2026, 2, 21, 10, 30, 0, 123e6, time.UTC)

// envOf is the environment of a person with a home folder of their own.
func envOf(t testing.TB, pairs ...string) Getenv {
	home := t.TempDir()
	return func(name string) string {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		if name == "HOME" {
			return home
		}
		return ""
	}
}

func writeAt(t *testing.T, path, text string) {
	t.Helper()
	kit.WriteFile(t, path, text, 0o600)
}

func question(session string) *Question {
	options := []Option{{Label: "A"}, {Label: "B"}}
	return &Question{
		QuestionID: "a1b2c3d4-e5f6-4890-abcd-ef1234567890", SessionID: session, AskedAt: asked,
		Status: Pending, Mode: ModeNative, ThreadKey: "ask-user-a1b2c3d4",
		SubQuestions: []SubQuestion{{Question: "Which?", Options: options, OptionCount: 2}},
	}
}

func fresh(q *Question) func([]*Question) *Question {
	return func([]*Question) *Question { return q }
}

func record(t *testing.T, s Questions, q *Question) *Question {
	t.Helper()
	got, err := s.Record(q.SessionID, fresh(q))
	kit.NoError(t, err)
	return got
}

// newIndexed records a question in a folder of its own, and adds it to the index.
func newIndexed(t *testing.T, env Getenv) *Question {
	t.Helper()
	q := record(t, QuestionsIn(t.TempDir()), question("s"))
	kit.NoError(t, AddQuestionToIndex(env, q))
	return q
}

func update(t *testing.T, path string, change func(*Question) error) {
	t.Helper()
	_, err := UpdateQuestion(path, change)
	kit.NoError(t, err)
}

// moveTo is a change that ends a step of a question's life.
func moveTo(status Status) func(*Question) error {
	return func(q *Question) error { return q.MoveTo(status, asked) }
}

func tryLock(t *testing.T, path string) *Lock {
	t.Helper()
	lock, err := TryLock(path)
	kit.NoError(t, err)
	return lock
}

func lockPoller(t *testing.T, env Getenv) *Lock {
	t.Helper()
	lock, err := LockPoller(env)
	kit.NoError(t, err)
	return lock
}

func message(key, text string) *Message {
	report := &Report{Type: ReportPlain, Text: text}
	return &Message{ID: "client-" + key, Key: key, Type: MessageReport, Report: report}
}

func enqueue(t *testing.T, env Getenv, m *Message) *Message {
	t.Helper()
	m, isNew, err := OutboxIn(UserStateDir(env)).Enqueue(env, m, 0)
	kit.NoError(t, err)
	kit.True(t, isNew, "%s was in the outbox already", m.Key)
	return m
}

func changeMessage(t *testing.T, env Getenv, m *Message, change func(*Message)) {
	t.Helper()
	_, err := OutboxIn(UserStateDir(env)).Change(m.Path, change)
	kit.NoError(t, err)
}
