package state

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gchat-hooks/e2e/kit"
)

func TestProjectFiles_LeaveOtherProgramsAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".claude", "state")
	ours := []string{"pending-questions/s-1.json", "pending-questions/.locks/record",
		"gchat-forwarded-ask/ask-1.json", "gchat-poller.pid", "gchat-poller-last-poll.txt"}
	theirs := []string{"pending-questions/s-2.json", "pending-questions/notes.txt",
		"gchat-forwarded-ask/ask-2.json", "gchat-forwarded-ask/broken.json",
		"user-input-queue/s.txt", "todo.md"}
	for name, text := range map[string]string{
		"pending-questions/s-1.json":     `{"question_id": "1", "status": "pending", "mode": "native", "project_dir": "/p"}`,
		"gchat-forwarded-ask/ask-1.json": `{"question_id": "1", "status": "pending", "mode": "deny", "project_dir": "/p"}`,
		"pending-questions/s-2.json":     `{"question_id": "2", "session_id": "s"}`,
		"gchat-forwarded-ask/ask-2.json": `{"question_id": "2", "status": "pending"}`,
	} {
		writeAt(t, filepath.Join(dir, name), text)
	}
	for _, name := range slices.Concat(ours, theirs) {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			writeAt(t, filepath.Join(dir, name), "x")
		}
	}
	files, folders := OwnProjectFiles(dir)
	later := "pending-questions/.locks/later" // of a process that runs
	writeAt(t, filepath.Join(dir, later), "")
	for _, path := range files {
		_ = os.RemoveAll(path)
	}
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	for _, name := range append(ours, later) {
		kit.True(t, !there(name), "%s is ours, and stays", name)
	}
	for _, name := range theirs {
		kit.True(t, there(name), "%s is not ours, and goes", name)
	}
	kit.True(t, slices.Contains(folders, filepath.Dir(dir)), "the folders are %v", folders)
	_, folders = OwnProjectFiles("/somewhere/state")
	kit.True(t, !slices.Contains(folders, "/somewhere"),
		"a folder around a state folder that was chosen by hand would go")
}
