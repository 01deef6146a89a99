package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MessageType is what a message is.
type MessageType string

const (
	MessageQuestion MessageType = "question" // the text of a question
	MessageNote     MessageType = "note"     // in a question's thread
	MessageReport   MessageType = "report"   // what a session, a person or a script has to tell
	MessageWake     MessageType = "wake"     // for an OpenClaw agent
)

// Message is something to be delivered once, to Google Chat or to an agent: file outbox/{unix_nano}-{key}.json in the user
// state. It is on disk before it is sent; its receipt is kept in it for KeepSent, for the process that waits for it and
// against a second delivery.
type Message struct {
	Record
	ID         string          `json:"message_id"` // client-…: the same on every try, so that Chat keeps one
	Key        string          `json:"key"`        // what is put again under the same key is the same message
	Type       MessageType     `json:"kind"`
	Env        string          `json:"env,omitempty"` // see Environment; "" is any
	ProjectDir string          `json:"project_dir"`   // whose configuration it is sent with
	Trusted    bool            `json:"trusted,omitempty"`
	SessionID  string          `json:"session_id,omitempty"` // Claude Code's; who is told when it is set aside
	Chat       string          `json:"chat,omitempty"`       // host/spaces/S, the only place it may go to; "" is as configured
	ThreadName string          `json:"thread_name,omitempty"`
	ThreadKey  string          `json:"thread_key,omitempty"`
	Question   string          `json:"question,omitempty"` // path of the question that it is about
	Note       *Owed           `json:"note,omitempty"`
	Report     *Report         `json:"report,omitempty"`
	Wake       *Wake           `json:"wake,omitempty"`
	Parts      []string        `json:"parts,omitempty"` // its texts as they are sent, one message each: set before the first try
	PartsSent  int             `json:"parts_sent,omitempty"`
	Card       json.RawMessage `json:"card,omitempty"`   // of a Chat app: a card with the last part, its fallback text
	Patch      string          `json:"patch,omitempty"`  // the message that the card, in place of its own, is put into
	Viewer     string          `json:"viewer,omitempty"` // users/ID: only that person is to see it, where Chat can do that
	Urgent     bool            `json:"urgent,omitempty"` // not held back in the quiet hours
	Digest     bool            `json:"digest,omitempty"` // goes with all others that were held back until then
	With       []string        `json:"with,omitempty"`   // names of the messages whose texts are in Parts, too (digest)
	CreatedAt  time.Time       `json:"created_at"`
	NotBefore  time.Time       `json:"not_before,omitzero"`
	Tries      int             `json:"tries,omitempty"`   // that failed
	TriedAt    time.Time       `json:"tried_at,omitzero"` // of the first try that may have arrived; zero for none
	LastError  string          `json:"last_error,omitempty"`

	SentAt   time.Time `json:"sent_at,omitzero"`    // its receipt: it was delivered
	Name     string    `json:"name,omitempty"`      // spaces/S/messages/M, where Chat said it
	Answer   string    `json:"answer,omitempty"`    // what an agent answered
	SetAside string    `json:"set_aside,omitempty"` // why it will not be delivered
	EndedAt  time.Time `json:"ended_at,omitzero"`   // when it was sent or set aside
}

// ReportType is what a report is about; it sets the words that it begins with and the urgency.
type ReportType string

const (
	TaskCompletion ReportType = "task_completion"
	ProgressUpdate ReportType = "progress_update"
	BlockedAlert   ReportType = "blocked_alert"
	Heartbeating   ReportType = "heartbeat"
	SessionStarted ReportType = "session_start"
	SessionEnded   ReportType = "session_end"
	Failure        ReportType = "error"
	Plain          ReportType = "plain" // no header
)

var ReportTypes = []ReportType{
	TaskCompletion, ProgressUpdate, BlockedAlert, Heartbeating, SessionStarted, SessionEnded, Failure, Plain,
}

// Urgent says that a person should look now.
func (t ReportType) Urgent() bool { return t == BlockedAlert || t == Failure }

// Report is what a message of type report says; package gchat words it. All of it is foreign text but the type and the prefix.
type Report struct {
	Type    ReportType `json:"type"`
	Kind    string     `json:"kind,omitempty"`   // the finer name that rules know: subagent_done, task_done, permission
	Prefix  string     `json:"prefix,omitempty"` // in place of the type's
	Session string     `json:"session,omitempty"`
	About   string     `json:"about,omitempty"`
	Title   string     `json:"title,omitempty"`
	Text    string     `json:"text"` // Markdown, or in Chat's own syntax
	At      time.Time  `json:"at,omitzero"`

	ChatSyntax bool `json:"chat_syntax,omitempty"`
}

// Wake is how a message is handed to an OpenClaw agent.
type Wake struct {
	Args    []string `json:"args"`
	Path    string   `json:"path,omitempty"`  // $PATH of the hook: openclaw is on it, and node
	To      string   `json:"to"`              // the agent's session: one message at a time goes there
	Agent   string   `json:"agent,omitempty"` // what people call the agent
	Trigger string   `json:"trigger,omitempty"`
	Reply   bool     `json:"reply,omitempty"` // a hook waits for the agent's answer
}

func (m *Message) check(time.Time) error {
	if m.ID == "" && m.Key == "" {
		return errors.New("message_id is missing")
	}
	if m.Type != MessageQuestion && m.Type != MessageNote && m.Type != MessageWake {
		m.Type = MessageReport // files of earlier versions have other words there
	}
	if m.Type == MessageReport && m.Report == nil && len(m.Parts) == 0 {
		return errors.New("it has no text")
	}
	m.PartsSent = min(max(m.PartsSent, 0), len(m.Parts))
	return nil
}

// Final says that the message was sent or set aside.
func (m *Message) Final() bool { return !m.SentAt.IsZero() || m.SetAside != "" }

// Sent says of a message's file that it holds a receipt: the outbox keeps many of them.
func Sent(_ string, file []byte) bool { return bytes.Contains(file, []byte(`"sent_at":"2`)) }

// InSessionThread says whether it goes into its session's own thread.
func (m *Message) InSessionThread() bool { return m.ThreadKey == SessionThread(m.SessionID) }

// Lane is what a message's order is kept in: its thread, as far as it is named, or its agent's session.
func (m *Message) Lane() string {
	switch {
	case m.Wake != nil:
		return "wake " + m.Wake.To
	case m.ThreadKey != "":
		return m.Chat + " " + m.ThreadKey
	case m.ThreadName != "":
		return m.ThreadName
	}
	return m.ID // it begins a thread of its own
}

const (
	// KeepSent is how long a message's receipt is kept.
	KeepSent = 10 * time.Minute
	// KeepAside is how long a message is kept that was set aside.
	KeepAside = 30 * 24 * time.Hour
)

type Outbox struct{ Folder[Message] }

// OutboxIn is the outbox of a user state folder.
func OutboxIn(userState string) Outbox {
	return Outbox{Folder[Message]{Dir: filepath.Join(userState, "outbox"), writes: quick}}
}

// Put writes a message down to be sent, unless one of the same key is there already that was put less than again before it:
// then that one is returned, and put is false. Without a key its id is the key. CreatedAt has to be set. An error means that
// nothing was written.
func (o Outbox) Put(env Getenv, m *Message, again time.Duration) (stands *Message, put bool, err error) {
	if m.Key == "" {
		m.Key = m.ID
	}
	m.Env = Environment(env)
	if m.ProjectDir != "" && !m.Trusted {
		m.Trusted = ProjectCounts(env, m.ProjectDir)
	}
	lock, err := LockSoon(o.lockPath("put"))
	if err != nil {
		return nil, false, fmt.Errorf("put message: %w", err)
	}
	defer lock.Unlock()
	key := safeName(m.Key)
	names, err := o.Names()
	if err != nil {
		return nil, false, err
	}
	at := m.CreatedAt.UnixNano()
	for _, name := range names {
		nanos, k, _ := strings.Cut(name, "-")
		if k == key {
			if was, err := o.Load(name); err == nil && m.CreatedAt.Sub(was.CreatedAt).Abs() < again {
				return was, false, nil
			}
		}
		if last, err := strconv.ParseInt(nanos, 10, 64); err == nil {
			at = max(at, last+1) // a clock that was set back does not turn the order round
		}
	}
	if err := o.Create(fmt.Sprintf("%019d-%s", at, key), m); err != nil {
		return nil, false, fmt.Errorf("put message: %w", err)
	}
	return m, true, nil
}

// ByKey is the newest message that was put under a key; nil when there is none.
func (o Outbox) ByKey(key string) (*Message, error) {
	names, err := o.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Backward(names) {
		if _, k, _ := strings.Cut(name, "-"); k != safeName(key) {
			continue
		}
		m, err := o.Load(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return m, err
	}
	return nil, nil
}

// Change is Update of a message, by its file or its name; nil and no error when it is gone.
func (o Outbox) Change(file string, change func(*Message)) (*Message, error) {
	after, err := o.Folder.Change(NameOf(file), change)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return after, err
}

// Waiting are the messages that are neither sent nor set aside, the oldest first, and what does not parse.
func (o Outbox) Waiting() (waiting []*Message, bad []error) {
	all, bad, _ := o.allBut(Sent)
	return slices.DeleteFunc(all, (*Message).Final), bad
}

// takeOver has those of the messages that wait be sent in another environment.
func (o Outbox) takeOver(those func(*Message) bool, to string) (failed error) {
	waiting, _ := o.Waiting()
	for _, m := range waiting {
		if those(m) {
			_, err := o.Change(m.Path, func(m *Message) { m.Env = to })
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// Aside are the messages that were set aside, the oldest first.
func (o Outbox) Aside() []*Message {
	all, _ := o.All()
	return slices.DeleteFunc(all, func(m *Message) bool { return m.SetAside == "" })
}

// Revive puts the messages that were set aside back into the queue, after a person changed what they failed for.
func (o Outbox) Revive(now time.Time) (n int, err error) {
	for _, m := range o.Aside() {
		_, err := o.Change(m.Path, func(m *Message) {
			m.SetAside, m.EndedAt, m.Tries, m.LastError, m.NotBefore = "", time.Time{}, 0, "", now.UTC()
		})
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (o Outbox) Drop(env Getenv, m *Message) error {
	if err := o.Remove(NameOf(m.Path)); err != nil {
		return err
	}
	return Forget(env, m.Path)
}

// Sweep removes receipts that are older than KeepSent, and messages that were set aside KeepAside ago.
func (o Outbox) Sweep(env Getenv, now time.Time) {
	all, _ := o.All()
	for _, m := range all {
		age := now.Sub(m.EndedAt).Abs()
		if !m.SentAt.IsZero() && age > KeepSent || m.SetAside != "" && age > KeepAside {
			_ = o.Drop(env, m)
		}
	}
}

// MessageID derives the id that Google Chat keeps one message of, from what the message is about: at most 63 characters of a-z,
// 0-9 and "-", beginning with "client-".
func MessageID(parts ...string) string {
	return "client-" + Hash(20, strings.Join(parts, "\x00")+"\x00")
}

// NamedIDs begins the id of a message that names its machine there and not in its words. A hub adds 13 characters to it.
const NamedIDs = "client-of-"

// OwnIDs begins such ids of this machine's.
func OwnIDs() string { return NamedIDs + Hash(4, MachineName()) + "-" }

// NamedID is a MessageID that names this machine.
func NamedID(parts ...string) string { return OwnIDs() + Hash(15, strings.Join(parts, "\x00")) }
