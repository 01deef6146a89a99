package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Inbox is how far the messages of one space were read: file inbox/{host and space}.json in the user state.
type Inbox struct {
	// Watermark is the createTime of the newest message seen; the server's clock. Messages up to it were handed to
	// the questions in Covered.
	Watermark time.Time `json:"watermark"`
	// Covered holds the ids of the questions whose thread was read from their beginning. A question that is not in it
	// needs one look further back.
	Covered map[string]bool `json:"covered"`
	// From is where the pass began that Resume goes on with: a list that was too long, or broke off, is no reason to
	// begin anew. Resume is zero when the last pass came to its end.
	From   time.Time `json:"from,omitzero"`
	Resume time.Time `json:"resume,omitzero"`
	// Trouble is why replies cannot be read at present; nil when they can.
	Trouble *ReadTrouble `json:"trouble,omitempty"`
	Chat    string       `json:"chat"` // host/spaces/S

	path string
}

// ReadTrouble is what keeps a space from being read.
type ReadTrouble struct {
	Since    time.Time `json:"since"`
	Why      string    `json:"why"` // without secrets
	Degraded bool      `json:"degraded"`
	Refused  bool      `json:"refused,omitempty"` // only a person can mend it
}

// OpenInbox reads how far a space was read. A file that does not parse is moved aside and the space is read afresh.
func OpenInbox(userState, chat string) (*Inbox, error) {
	in := &Inbox{Covered: map[string]bool{}, Chat: chat, path: filepath.Join(userState, "inbox", safeName(chat)+".json")}
	b, err := os.ReadFile(in.path)
	if errors.Is(err, fs.ErrNotExist) {
		return in, nil
	}
	if err != nil {
		return in, fmt.Errorf("read inbox: %w", err)
	}
	if err := json.Unmarshal(b, in); err != nil {
		return &Inbox{Covered: map[string]bool{}, Chat: chat, path: in.path}, setAside(in.path, err)
	}
	if in.Covered == nil {
		in.Covered = map[string]bool{}
	}
	in.Chat = chat
	return in, nil
}

// Inboxes are the spaces that were ever read, as far as their files can be.
func Inboxes(userState string) (all []*Inbox) {
	for _, file := range jsonFiles(filepath.Join(userState, "inbox")) {
		in := &Inbox{}
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if b, err := os.ReadFile(file); err == nil && json.Unmarshal(b, in) == nil {
			all = append(all, in)
		}
	}
	return all
}

// TroubledInboxes are the spaces that cannot be read at present.
func TroubledInboxes(userState string) []*Inbox {
	return slices.DeleteFunc(Inboxes(userState), func(in *Inbox) bool { return in.Trouble == nil })
}

// Save writes how far the space was read. It comes after the replies are in the questions' files: the other way round
// a crash would lose them.
func (in *Inbox) Save() error {
	b, err := json.Marshal(in)
	if err != nil {
		return err
	}
	if err := mkdir(filepath.Dir(in.path)); err != nil {
		return err
	}
	return writeFile(in.path, append(b, '\n'))
}

// Equal says whether the two say the same.
func (in *Inbox) Equal(other *Inbox) bool {
	sameTrouble := in.Trouble == other.Trouble || in.Trouble != nil && other.Trouble != nil && *in.Trouble == *other.Trouble
	return sameTrouble && in.Watermark.Equal(other.Watermark) && in.From.Equal(other.From) &&
		in.Resume.Equal(other.Resume) && maps.Equal(in.Covered, other.Covered)
}

// Taken is the last reply that was delivered of a thread without a known question: file waited/{hash of the thread}.json in
// the user state. It and older ones are not delivered again.
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

// TakeInThread gives a reply to the first process that asks: of several that wait in a thread one has it, once. It is on the
// disk then. taken is false where another had it, or a later one. Errors are ErrLocked, and those of writing.
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
		removeOld(dir, "", keepTaken, now)
	}
	if err := writeFile(path, append(b, '\n')); err != nil {
		return false, fmt.Errorf("take reply: %w", err)
	}
	return true, nil
}

func takenPath(userState, threadName string) string {
	return filepath.Join(userState, "waited", hashName(threadName)+".json")
}
