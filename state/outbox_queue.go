package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Queued is a message's place in the outbox, as its file name tells.
type Queued struct {
	Path string
	Lane string // messages of one lane go in order: hashes of chat and thread
	Key  string // as a file name
	At   time.Time
}

// laneChat is how many characters of a lane are the chat's hash.
const laneChat = 6

func lane(m *Outgoing) string {
	thread := m.Thread()
	if m.Chat == "" { // each command's messages go their own way
		thread += "\x00" + m.ProjectDir
	}
	return hashName(m.Chat)[:laneChat] + hashName(thread)[:8]
}

// OnlyTo says, without reading it, that the message is for that chat.
func (q Queued) OnlyTo(chat string) bool { return strings.HasPrefix(q.Lane, hashName(chat)[:laneChat]) }

// NeverTo says, without reading it, that the message is for another chat than that. One that was put before a command was
// asked for the webhook may go anywhere.
func (q Queued) NeverTo(chat string) bool { return !q.OnlyTo(chat) && !q.OnlyTo("") }

// Queue is what waits, by lane, each in its order. It reads file names only.
func (o Outbox) Queue() ([][]Queued, error) {
	all, err := o.queue()
	if err != nil {
		return nil, err
	}
	var lanes [][]Queued
	at := map[string]int{}
	for _, q := range all {
		i, ok := at[q.Lane]
		if !ok {
			i = len(lanes)
			at[q.Lane], lanes = i, append(lanes, nil)
		}
		lanes[i] = append(lanes[i], q)
	}
	return lanes, nil
}

func (o Outbox) queue() (all []Queued, err error) {
	entries, err := os.ReadDir(o.Dir) // sorted: the oldest first
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	for _, e := range entries {
		name, isMessage := strings.CutSuffix(e.Name(), ".json")
		parts := strings.SplitN(name, "-", 3)
		if !isMessage || strings.HasPrefix(name, ".") || len(parts) != 3 {
			continue
		}
		nanos, err := strconv.ParseInt(parts[0], 10, 64)
		if err != nil {
			continue
		}
		all = append(all, Queued{Path: filepath.Join(o.Dir, e.Name()), Lane: parts[1], Key: parts[2], At: time.Unix(0, nanos)})
	}
	return all, nil
}

var errNoText = errors.New("no text")

// Load reads a waiting message; nil when it waits no more. What does not parse is moved aside and returned as *Corrupt.
func (o Outbox) Load(path string) (*Outgoing, error) {
	b, err := os.ReadFile(path)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read message: %w", err)
	}
	m := &Outgoing{}
	if err = json.Unmarshal(b, m); err == nil && len(m.Parts) == 0 {
		err = errNoText
	}
	if err != nil {
		return nil, setAside(path, err)
	}
	m.Path = path
	m.PartsSent = min(max(m.PartsSent, 0), len(m.Parts))
	return m, nil
}

// Waiting are all messages to be sent, oldest first, and what did not parse.
func (o Outbox) Waiting() (ms []*Outgoing, bad []error) {
	all, err := o.queue()
	if err != nil {
		return nil, []error{err}
	}
	for _, q := range all {
		m, err := o.Load(q.Path)
		if err != nil {
			bad = append(bad, err)
		} else if m != nil {
			ms = append(ms, m)
		}
	}
	return ms, bad
}

// Empty says that no message waits.
func (o Outbox) Empty() bool {
	all, err := o.queue()
	return err == nil && len(all) == 0
}
