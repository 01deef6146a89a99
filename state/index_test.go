package state

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

func TestIndex_HasWhatWeWrote(t *testing.T) {
	env := envOf(t)
	q := question("s")
	q.TmuxPane, q.TmuxSocket = "%3", "/tmp/tmux"
	record(t, QuestionsIn(t.TempDir()), q)
	kit.NoError(t, errors.Join(AddQuestionToIndex(env, q), AddQuestionToIndex(env, q)))
	os.WriteFile(filepath.Join(UserStateDir(env), "open", "odd.open"), []byte("{"), 0o600)
	os.WriteFile(filepath.Join(UserStateDir(env), "open", "relative.open"),
		[]byte(`{"path":"q.json"}`), 0o600)
	all, err := IndexEntries(env)
	kit.Must(t, err == nil && len(all) == 1 && all[0].Path == q.Path && all[0].TmuxPane == "%3" &&
		all[0].Environment == Environment(env),
		"%+v, %v", all, err)
	qs, bad := ReadIndexedQuestions(env)
	kit.True(t, len(qs) == 1 && len(bad) == 0, "%v, %v", qs, bad)
	kit.True(t, RemoveClosedQuestion(env, q) != nil, "an open question was removed")
	q, err = UpdateQuestion(q.Path, moveTo(Cancelled))
	kit.NoError(t, errors.Join(err, RemoveClosedQuestion(env, q)))
	all, _ = IndexEntries(env)
	kit.True(t, len(all) == 0, "still in the index: %+v", all)
}

// If a question moves to another environment, its outgoing messages move with it, because
// no poller would send them. What a running poller serves stays, and so do other
// questions' messages.
func TestIndex_AQuestionWithItsMessages(t *testing.T) {
	for _, lives := range []bool{true, false} {
		env := envOf(t)
		old := envOf(t, "GCHAT_FORMAT", "haiku", "HOME", env("HOME"))
		q := newIndexed(t, old)
		about := map[string]string{"its text": q.Path, "of another": "/q.json"}
		for key, question := range about {
			m := message(key, "words")
			m.Question, m.CreatedAt = question, time.Now().UTC()
			enqueue(t, old, m)
		}
		lock := lockPoller(t, old)
		if !lives {
			lock.Unlock()
		}
		kit.NoError(t, AddQuestionToIndex(env, q))
		for key := range about {
			want := Environment(old)
			if key == "its text" && !lives {
				want = Environment(env)
			}
			m, err := OutboxIn(UserStateDir(env)).FindByKey(key)
			kit.True(t, err == nil && m.Environment == want,
				"%s, with a poller %v: of %s, want %s, %v", key, lives, m.Environment, want, err)
		}
		lock.Unlock()
	}
}
