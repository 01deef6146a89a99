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
	return in.Watermark.Equal(other.Watermark) && in.From.Equal(other.From) && in.Resume.Equal(other.Resume) && maps.Equal(in.Covered, other.Covered) &&
		(in.Trouble == other.Trouble || in.Trouble != nil && other.Trouble != nil && *in.Trouble == *other.Trouble)
}
