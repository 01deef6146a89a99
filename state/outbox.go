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

// Message is something to be delivered once, to Google Chat or to an agent: file
// outbox/{unix_nano}-{key}.json in the user state. It is on disk before it is sent; its
// receipt is kept in it for receiptAge, for the process that waits for it and against a
// second delivery.
type Message struct {
	Record
	// client-…: the same on every try, so that Chat keeps one
	ID string `json:"message_id"`
	// what is put again under the same key is the same message
	Key         string      `json:"key"`
	Type        MessageType `json:"kind"`
	Environment string      `json:"env,omitempty"` // see Environment; "" is any
	ProjectDir  string      `json:"project_dir"`   // whose configuration it is sent with
	IsTrusted   bool        `json:"trusted,omitempty"`
	// Claude Code's; who is told when it is set aside
	SessionID string `json:"session_id,omitempty"`
	// host/spaces/S, the only place it may go to; "" is as configured
	Chat       string `json:"chat,omitempty"`
	ThreadName string `json:"thread_name,omitempty"`
	ThreadKey  string `json:"thread_key,omitempty"`
	// path of the question that it is about
	Question string    `json:"question,omitempty"`
	Note     *OwedNote `json:"note,omitempty"`
	Report   *Report   `json:"report,omitempty"`
	Wake     *Wake     `json:"wake,omitempty"`
	// its texts as they are sent, one message each: set before the first try
	Parts     []string `json:"parts,omitempty"`
	PartsSent int      `json:"parts_sent,omitempty"`
	// of a Chat app: a card with the last part, its fallback text
	Card json.RawMessage `json:"card,omitempty"`
	// the message that the card, in place of its own, is put into
	PatchedMessage string `json:"patch,omitempty"`
	// users/ID: only that person is to see it, where Chat can do that
	Viewer   string `json:"viewer,omitempty"`
	IsUrgent bool   `json:"urgent,omitempty"` // not held back in the quiet hours
	// goes with all others that were held back until then
	IsDigest bool `json:"digest,omitempty"`
	// names of the messages whose texts are in Parts, too (digest)
	MergedMessages []string  `json:"with,omitempty"`
	CreatedAt      time.Time `json:"created_at"`
	NotBefore      time.Time `json:"not_before,omitzero"`
	FailedTries    int       `json:"tries,omitempty"` // that failed
	// of the first try that may have arrived; zero for none
	FirstTriedAt time.Time `json:"tried_at,omitzero"`
	LastError    string    `json:"last_error,omitempty"`

	SentAt         time.Time `json:"sent_at,omitzero"`    // its receipt: it was delivered
	MessageName    string    `json:"name,omitempty"`      // spaces/S/messages/M, where Chat said it
	AgentAnswer    string    `json:"answer,omitempty"`    // what an agent answered
	SetAsideReason string    `json:"set_aside,omitempty"` // why it will not be delivered
	EndedAt        time.Time `json:"ended_at,omitzero"`   // when it was sent or set aside
}

// ReportType is what a report is about; it sets the words that it begins with and the
// urgency.
type ReportType string

const (
	ReportTaskCompletion ReportType = "task_completion"
	ReportProgressUpdate ReportType = "progress_update"
	ReportBlockedAlert   ReportType = "blocked_alert"
	ReportHeartbeat      ReportType = "heartbeat"
	ReportSessionStarted ReportType = "session_start"
	ReportSessionEnded   ReportType = "session_end"
	ReportFailure        ReportType = "error"
	ReportPlain          ReportType = "plain" // no header
)

var ReportTypes = []ReportType{
	ReportTaskCompletion, ReportProgressUpdate, ReportBlockedAlert, ReportHeartbeat, ReportSessionStarted, ReportSessionEnded, ReportFailure, ReportPlain,
}

// IsUrgent says that a person should look now.
func (t ReportType) IsUrgent() bool { return t == ReportBlockedAlert || t == ReportFailure }

// Report is what a message of type report says; package gchat words it. All of it is
// foreign text but the type and the prefix.
type Report struct {
	Type ReportType `json:"type"`
	// the finer name that rules know: subagent_done, task_done, permission
	RuleKind    string    `json:"kind,omitempty"`
	Prefix      string    `json:"prefix,omitempty"` // in place of the type's
	SessionName string    `json:"session,omitempty"`
	About       string    `json:"about,omitempty"`
	Title       string    `json:"title,omitempty"`
	Text        string    `json:"text"` // Markdown, or in Chat's own syntax
	At          time.Time `json:"at,omitzero"`

	IsChatSyntax bool `json:"chat_syntax,omitempty"`
}

// Wake is how a message is handed to an OpenClaw agent.
type Wake struct {
	Args       []string `json:"args"`
	SearchPath string   `json:"path,omitempty"` // $PATH of the hook: openclaw is on it, and node
	// the agent's session: one message at a time goes there
	AgentSession string `json:"to"`
	AgentName    string `json:"agent,omitempty"` // what people call the agent
	Trigger      string `json:"trigger,omitempty"`
	NeedsReply   bool   `json:"reply,omitempty"` // a hook waits for the agent's answer
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

// IsFinal says that the message was sent or set aside.
func (m *Message) IsFinal() bool { return !m.SentAt.IsZero() || m.SetAsideReason != "" }

// HasReceipt says of a message's file that it holds a receipt: the outbox keeps many of
// them.
func HasReceipt(_ string, file []byte) bool { return bytes.Contains(file, []byte(`"sent_at":"2`)) }

// IsInSessionThread says whether it goes into its session's own thread.
func (m *Message) IsInSessionThread() bool { return m.ThreadKey == SessionThreadKey(m.SessionID) }

// Lane is what a message's order is kept in: its thread, as far as it is named, or its
// agent's session.
func (m *Message) Lane() string {
	switch {
	case m.Wake != nil:
		return "wake " + m.Wake.AgentSession
	case m.ThreadKey != "":
		return m.Chat + " " + m.ThreadKey
	case m.ThreadName != "":
		return m.ThreadName
	}
	return m.ID // it begins a thread of its own
}

const (
	// receiptAge is how long a message's receipt is kept.
	receiptAge = 10 * time.Minute
	// setAsideAge is how long a message is kept that was set aside.
	setAsideAge = 30 * 24 * time.Hour
)

type Outbox struct{ Folder[Message] }

// OutboxIn is the outbox of a user state folder.
func OutboxIn(userState string) Outbox {
	return Outbox{Folder[Message]{Dir: filepath.Join(userState, "outbox"), durability: unsynced}}
}

// Enqueue writes a message down to be sent, unless one of the same key is there already
// that was put less than again before it: then that one is returned, and put is false.
// Without a key its id is the key. CreatedAt has to be set. An error means that nothing
// was written.
func (o Outbox) Enqueue(
	env Getenv,
	m *Message,
	repeatAfter time.Duration,
) (stored *Message, isNew bool, err error) {
	if m.Key == "" {
		m.Key = m.ID
	}
	m.Environment = Environment(env)
	if m.ProjectDir != "" && !m.IsTrusted {
		m.IsTrusted = IsProjectTrusted(env, m.ProjectDir)
	}
	lock, err := LockWithTimeout(o.lockPath("put"))
	if err != nil {
		return nil, false, fmt.Errorf("put message: %w", err)
	}
	defer lock.Unlock()
	key := safeFileName(m.Key)
	names, err := o.Names()
	if err != nil {
		return nil, false, err
	}
	nanosecond := m.CreatedAt.UnixNano()
	for _, name := range names {
		nanos, keyInName, _ := strings.Cut(name, "-")
		if keyInName == key {
			if earlier, err := o.Load(name); err == nil &&
				m.CreatedAt.Sub(earlier.CreatedAt).Abs() < repeatAfter {
				return earlier, false, nil
			}
		}
		if nanosecondOfLast, err := strconv.ParseInt(nanos, 10, 64); err == nil {
			// a clock that was set back does not turn the order round
			nanosecond = max(nanosecond, nanosecondOfLast+1)
		}
	}
	if err := o.Create(fmt.Sprintf("%019d-%s", nanosecond, key), m); err != nil {
		return nil, false, fmt.Errorf("put message: %w", err)
	}
	return m, true, nil
}

// FindByKey is the newest message that was put under a key; nil when there is none.
func (o Outbox) FindByKey(key string) (*Message, error) {
	names, err := o.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Backward(names) {
		if _, keyInName, _ := strings.Cut(name, "-"); keyInName != safeFileName(key) {
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

// Change is Update of a message, by its file or its name; nil and no error when it is
// gone.
func (o Outbox) Change(file string, change func(*Message)) (*Message, error) {
	after, err := o.Folder.Change(RecordName(file), change)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return after, err
}

// Waiting are the messages that are neither sent nor set aside, the oldest first, and
// what does not parse.
func (o Outbox) Waiting() (waiting []*Message, bad []error) {
	all, bad, _ := o.allUnless(HasReceipt)
	return slices.DeleteFunc(all, (*Message).IsFinal), bad
}

// moveToEnvironment has those of the messages that wait be sent in another environment.
func (o Outbox) moveToEnvironment(matches func(*Message) bool, environment string) (failed error) {
	waiting, _ := o.Waiting()
	for _, m := range waiting {
		if matches(m) {
			_, err := o.Change(m.Path, func(m *Message) { m.Environment = environment })
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// SetAside are the messages that were set aside, the oldest first.
func (o Outbox) SetAside() []*Message {
	all, _ := o.All()
	return slices.DeleteFunc(all, func(m *Message) bool { return m.SetAsideReason == "" })
}

// RetrySetAside puts the messages that were set aside back into the queue, after a person
// changed what they failed for.
func (o Outbox) RetrySetAside(now time.Time) (count int, err error) {
	for _, m := range o.SetAside() {
		_, err := o.Change(m.Path, func(m *Message) {
			m.SetAsideReason, m.EndedAt, m.FailedTries, m.LastError, m.NotBefore = "", time.Time{}, 0, "", now.UTC()
		})
		if err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}

func (o Outbox) RemoveMessage(env Getenv, m *Message) error {
	if err := o.Remove(RecordName(m.Path)); err != nil {
		return err
	}
	return RemoveFromIndex(env, m.Path)
}

// Sweep removes receipts that are older than receiptAge, and messages that were set aside
// setAsideAge ago.
func (o Outbox) Sweep(env Getenv, now time.Time) {
	all, _ := o.All()
	for _, m := range all {
		age := now.Sub(m.EndedAt).Abs()
		if !m.SentAt.IsZero() && age > receiptAge || m.SetAsideReason != "" && age > setAsideAge {
			_ = o.RemoveMessage(env, m)
		}
	}
}

// MessageID derives the id that Google Chat keeps one message of, from what the message
// is about: at most 63 characters of a-z, 0-9 and "-", beginning with "client-".
func MessageID(parts ...string) string {
	return "client-" + Hash(20, strings.Join(parts, "\x00")+"\x00")
}

// MachineIDPrefix begins the id of a message that names its machine there and not in its
// words. A hub adds 13 characters to it.
const MachineIDPrefix = "client-of-"

// OwnIDPrefix begins such ids of this machine's.
func OwnIDPrefix() string { return MachineIDPrefix + Hash(4, MachineName()) + "-" }

// MachineMessageID is a MessageID that names this machine.
func MachineMessageID(parts ...string) string {
	return OwnIDPrefix() + Hash(15, strings.Join(parts, "\x00"))
}
