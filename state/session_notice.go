package state

import (
	"os"
	"path/filepath"
	"strings"
)

// AddNotice leaves a sentence for the person at the terminal. The session's next hook shows it once. The same
// sentence waits only once.
func AddNotice(userState, sessionID, text string) error {
	path := noticePath(userState, sessionID)
	if err := mkdir(filepath.Dir(path)); err != nil {
		return err
	}
	b, _ := os.ReadFile(path)
	if strings.Contains(string(b), strings.TrimSuffix(text, ".")) || len(b) > 4096 {
		return nil
	}
	return writeFile(path, append(b, text+"\n"...))
}

// TakeNotices returns what was left for the session's person, and removes it; "" for nothing.
func TakeNotices(userState, sessionID string) string {
	path := noticePath(userState, sessionID)
	mine := path + ".taken"
	if os.Rename(path, mine) != nil { // the rename decides between two hooks of the same moment
		return ""
	}
	defer os.Remove(mine)
	b, _ := os.ReadFile(mine)
	return strings.TrimSpace(string(b))
}

func noticePath(userState, sessionID string) string {
	return filepath.Join(userState, "notices", safeName(sessionID)+".txt")
}
