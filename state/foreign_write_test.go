package state

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gchat-hooks/e2e/kit"
)

// Another program takes no lock. Its answer is not lost, whenever it writes while we do.
func TestForeignWrite_AnswerIsKept(t *testing.T) {
	replace := func(t *testing.T, path string, b []byte) {
		tmp := filepath.Join(filepath.Dir(path), "other.tmp")
		kit.NoError(t, os.WriteFile(tmp, b, 0o600))
		kit.NoError(t, os.Rename(tmp, path))
	}
	for name, write := range map[string]func(t *testing.T, path string, b []byte){
		"in place": func(t *testing.T, path string, b []byte) {
			kit.NoError(t, os.WriteFile(path, b, 0o600))
		},
		"by a rename": replace,
		"begun before our rename, and ended after it": func(t *testing.T, path string, b []byte) {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
			kit.NoError(t, err)
			go func() {
				for isLinked(f) {
					time.Sleep(time.Millisecond)
				}
				_, _ = f.Write(b[:len(b)/2])
				_, _ = f.Write(b[len(b)/2:])
				f.Close()
			}()
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			q := record(t, MarkersIn(t.TempDir()), question("s"))
			answered := answerInFile(t, q.Path, "2")
			stored, err := ChangeQuestion(q.Path, func(q *Question) {
				q.MessageName = "spaces/S/messages/M"
				write(t, q.Path, answered)
			})
			kit.NoError(t, err)
			onDisk := loadMarker(t, q.Path)
			for _, q := range []*Question{stored, onDisk} {
				kit.Must(t, len(q.Replies) == 1, "%d replies", len(q.Replies))
				kit.Equal(t, q.Replies[0].Text, "2")
				kit.Equal(t, q.Replies[0].DisplayName, "Ann")
				kit.Equal(t, q.MessageName, "spaces/S/messages/M")
			}
			kit.True(t, stored.IsChanged, "the record says that nothing was written")
		})
	}
}

// A question that we closed in that write takes no answer, and one that was answered in
// Chat keeps that answer.
func TestForeignWrite_IsLate(t *testing.T) {
	for _, status := range []Status{Answered, Cancelled} {
		q := record(t, MarkersIn(t.TempDir()), question("s"))
		answered := answerInFile(t, q.Path, "2")
		stored, err := ChangeQuestion(q.Path, func(q *Question) {
			kit.NoError(t, q.MoveTo(status, time.Now()))
			q.Response = new("1")
			kit.NoError(t, os.WriteFile(q.Path, answered, 0o600))
		})
		kit.NoError(t, err)
		kit.True(t, stored.Status == status && len(stored.Replies) == 0,
			"%s with %+v", stored.Status, stored.Replies)
	}
}

// While another program writes, its file is not complete. Our change waits for it, and
// both stay.
func TestForeignWrite_ChangeWaitsForIt(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		q := record(t, MarkersIn(t.TempDir()), question("s"))
		answered := answerInFile(t, q.Path, "2")
		kit.NoError(t, os.WriteFile(q.Path, answered[:20], 0o600))
		kit.NoError(t, os.Chtimes(q.Path, time.Now(), time.Now()))
		go func() {
			time.Sleep(10 * foreignWritePause)
			_ = os.WriteFile(q.Path, answered, 0o600)
		}()
		_, err := ChangeQuestion(q.Path, func(q *Question) { q.MessageName = "m" })
		kit.NoError(t, err)
		stored := loadMarker(t, q.Path)
		kit.True(t, stored.MessageName == "m" && len(stored.Replies) == 1, "%q with %+v",
			stored.MessageName, stored.Replies)
	})
}

// inBubble runs a test whose clock stands still while anything runs.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// answerInFile returns what another program makes of a question's file to answer it.
func answerInFile(t *testing.T, path, answer string) []byte {
	t.Helper()
	members := map[string]any{}
	kit.NoError(t, json.Unmarshal([]byte(kit.ReadFile(t, path)), &members))
	members["status"], members["answer"], members["answered_by"] = "answered", answer, "Ann"
	b, err := json.MarshalIndent(members, "", "  ")
	kit.NoError(t, err)
	return b
}

// isLinked reports whether an open file has a name.
func isLinked(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Sys().(*syscall.Stat_t).Nlink > 0
}

func loadMarker(t *testing.T, path string) *Question {
	t.Helper()
	q, err := LoadQuestion(path)
	kit.NoError(t, err)
	return q
}
