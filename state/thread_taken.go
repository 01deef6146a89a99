package state

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Taken is the last reply that was delivered of a thread that no question is known of: file waited/{hash of the thread}.json in
// the user state. It and what is older is nobody's any more.
type Taken struct {
	ThreadName  string    `json:"thread_name"`
	MessageName string    `json:"message_name"`
	CreateTime  time.Time `json:"create_time"` // the server's clock
	At          time.Time `json:"at"`
}

// keepTaken is longer than a thread's old messages are looked at: receipts of a day say from when on.
const keepTaken = 30 * 24 * time.Hour

// TakenIn is what was last taken in a thread; zero for nothing, and where that cannot be read.
func TakenIn(userState, threadName string) (t Taken) {
	b, err := os.ReadFile(takenPath(userState, threadName))
	if err != nil || json.Unmarshal(b, &t) != nil {
		return Taken{}
	}
	return t
}

// Holds says whether a message was taken, or stands before one that was.
func (t Taken) Holds(r Reply) bool {
	return r.MessageName == t.MessageName || !r.CreateTime.After(t.CreateTime)
}

// TakeInThread gives a reply to the one who asks first: of several who wait in a thread one has it, once. It is on the disk then.
// taken is false where another had it, or one after it. Errors are ErrLocked, and what keeps it from being written down.
func TakeInThread(userState, threadName string, r Reply, now time.Time) (taken bool, err error) {
	path := takenPath(userState, threadName)
	dir := filepath.Dir(path)
	lock, err := lockSoon(filepath.Join(dir, ".lock"))
	if err != nil {
		return false, fmt.Errorf("take reply: %w", err)
	}
	defer lock.Unlock()
	if TakenIn(userState, threadName).Holds(r) {
		return false, nil
	}
	b, err := json.Marshal(Taken{threadName, r.MessageName, r.CreateTime.UTC(), now.UTC()})
	if err != nil {
		return false, err
	}
	if _, err := os.Stat(path); missing(err) {
		forgetTaken(dir, now)
	}
	if err := writeFile(path, append(b, '\n')); err != nil {
		return false, fmt.Errorf("take reply: %w", err)
	}
	return true, nil
}

// forgetTaken removes what was taken long ago. The lock stays.
func forgetTaken(dir string, now time.Time) {
	for _, file := range jsonFiles(dir) {
		if info, err := os.Stat(file); err == nil && now.Sub(info.ModTime()) > keepTaken {
			os.Remove(file)
		}
	}
}

func takenPath(userState, threadName string) string {
	return filepath.Join(userState, "waited", hashName(threadName)+".json")
}
