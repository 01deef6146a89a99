package state

import (
	"bytes"
	"cmp"
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

// MessageType says what an outgoing message is.
type MessageType string

const (
	MessageQuestion MessageType = "question" // the text of a question
	MessageNote     MessageType = "note"     // a note in a question's thread
	MessageReport   MessageType = "report"   // a report of a session, a person or a script
	MessageWake     MessageType = "wake"     // a wake message for an OpenClaw agent
	MessageCall     MessageType = "call"     // calls a person who is away
)

// Message is an outgoing message: something to deliver once, to Google Chat or to an
// agent. It is the file outbox/{unix_nano}-{key}.json in the user's state, written before
// it is sent. The sent message stays as a receipt for receiptAge: the process that waits
// for it reads it, and it prevents a second delivery.
type Message struct {
	Record
	// client-…: the same on every try, so that Chat keeps one message
	ID string `json:"message_id"`
	// two messages with one key are the same message; see Enqueue
	Key  string      `json:"key"`
	Type MessageType `json:"kind"`
	// see the function Environment; "" is any
	Environment string `json:"env,omitempty"`
	// the project whose configuration it is sent with
	ProjectDir string `json:"project_dir"`
	IsTrusted  bool   `json:"trusted,omitempty"`
	// Claude Code's id of the session that is notified when it is set aside
	SessionID string `json:"session_id,omitempty"`
	// host/spaces/S, the only space it may go to; "" for the configured one
	Chat       string `json:"chat,omitempty"`
	ThreadName string `json:"thread_name,omitempty"`
	ThreadKey  string `json:"thread_key,omitempty"`
	// the path of the question that it is about
	Question string    `json:"question,omitempty"`
	Note     *OwedNote `json:"note,omitempty"`
	Report   *Report   `json:"report,omitempty"`
	Wake     *Wake     `json:"wake,omitempty"`
	Call     *Call     `json:"call,omitempty"`
	// the texts to send, one message each; set before the first try
	Parts     []string `json:"parts,omitempty"`
	PartsSent int      `json:"parts_sent,omitempty"`
	// for a Chat app: the card of the last part, which is its fallback text
	Card json.RawMessage `json:"card,omitempty"`
	// the tokens of the uploaded files that go with the last part
	UploadTokens []string `json:"uploads,omitempty"`
	// IsWatch says that it shows what a watched session does, or changes such a message.
	IsWatch bool `json:"watch,omitempty"`
	// the existing message that the card is put into, in place of a new one
	PatchedMessage string `json:"patch,omitempty"`
	// users/ID: the only person who is to see it, where Chat supports that
	Viewer   string `json:"viewer,omitempty"`
	IsUrgent bool   `json:"urgent,omitempty"` // not held back in quiet hours
	// sent as one message with all others that are held back until the same time
	IsDigest bool `json:"digest,omitempty"`
	// names of the messages whose texts are merged into Parts (digest)
	MergedMessages []string  `json:"with,omitempty"`
	CreatedAt      time.Time `json:"created_at"`
	NotBefore      time.Time `json:"not_before,omitzero"`
	FailedTries    int       `json:"tries,omitempty"` // how many tries failed
	// when the first try began that may have arrived; zero for none
	FirstTriedAt time.Time `json:"tried_at,omitzero"`
	LastError    string    `json:"last_error,omitempty"`

	// when it was delivered; this makes it a receipt
	SentAt time.Time `json:"sent_at,omitzero"`
	// spaces/S/messages/M, where Chat returned it
	MessageName    string    `json:"name,omitempty"`
	AgentAnswer    string    `json:"answer,omitempty"`    // the answer of the agent
	SetAsideReason string    `json:"set_aside,omitempty"` // why it will not be delivered
	EndedAt        time.Time `json:"ended_at,omitzero"`   // when it was sent or set aside
}

// ReportType is what a report is about. It decides its header and its urgency.
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

// ReportTypes are all types of reports.
var ReportTypes = []ReportType{
	ReportTaskCompletion, ReportProgressUpdate, ReportBlockedAlert, ReportHeartbeat,
	ReportSessionStarted, ReportSessionEnded, ReportFailure, ReportPlain,
}

// IsUrgent reports whether a person should look at once.
func (t ReportType) IsUrgent() bool { return t == ReportBlockedAlert || t == ReportFailure }

// Report is the content of a message of type report; package wording writes its text.
// Everything in it but the type and the prefix is foreign text.
type Report struct {
	Type ReportType `json:"type"`
	// a finer kind, for rules: subagent_done, task_done, permission
	RuleKind    string    `json:"kind,omitempty"`
	Prefix      string    `json:"prefix,omitempty"` // the header, in place of the type's
	SessionName string    `json:"session,omitempty"`
	About       string    `json:"about,omitempty"`
	Title       string    `json:"title,omitempty"`
	Text        string    `json:"text"` // Markdown, or in Chat's own syntax
	At          time.Time `json:"at,omitzero"`

	IsChatSyntax bool `json:"chat_syntax,omitempty"`
}

// Wake says how a wake message is handed to an OpenClaw agent.
type Wake struct {
	Args []string `json:"args"`
	// $PATH of the hook, on which openclaw and node are found
	SearchPath string `json:"path,omitempty"`
	// the agent's session; messages go to it one at a time
	AgentSession string `json:"to"`
	AgentName    string `json:"agent,omitempty"` // what people call the agent
	Trigger      string `json:"trigger,omitempty"`
	NeedsReply   bool   `json:"reply,omitempty"` // a hook waits for the agent's answer
}

// Call is a line that calls a person who is away, by the person's setting notify. It names
// the session and what waits, and never a command.
type Call struct {
	// the same for the call and for the one that says that it is over
	ID       string `json:"id"`
	Title    string `json:"title"`
	Text     string `json:"text"`
	Link     string `json:"link,omitempty"` // has no token
	Priority int    `json:"priority"`       // ntfy's: 1 is the lowest, 5 is urgent
	IsEnd    bool   `json:"end,omitempty"`  // says that the call is over
}

func (m *Message) check(time.Time) error {
	if m.ID == "" && m.Key == "" {
		return errors.New("message_id is missing")
	}
	if m.Type == MessageCall && m.Call == nil {
		return errors.New("the call has no content")
	}
	isKnown := slices.Contains([]MessageType{MessageQuestion, MessageNote, MessageWake, MessageCall}, m.Type)
	if !isKnown {
		m.Type = MessageReport // earlier versions wrote other words there
	}
	if m.Type == MessageReport && m.Report == nil && len(m.Parts) == 0 {
		return errors.New("the report has no text")
	}
	m.PartsSent = min(max(m.PartsSent, 0), len(m.Parts))
	return nil
}

// IsFinal reports whether the message was sent or set aside.
func (m *Message) IsFinal() bool { return !m.SentAt.IsZero() || m.SetAsideReason != "" }

// HasReceipt reports whether a message's file holds a receipt. It spares parsing them, of
// which the outbox keeps many.
func HasReceipt(_ string, file []byte) bool { return bytes.Contains(file, []byte(`"sent_at":"2`)) }

// IsInSessionThread reports whether the message goes into its session's own thread.
func (m *Message) IsInSessionThread() bool { return m.ThreadKey == SessionThreadKey(m.SessionID) }

// IsForChat reports whether the message goes to a Chat space.
func (m *Message) IsForChat() bool { return m.Wake == nil && m.Call == nil }

// Lane names the queue within which messages keep their order: the thread, as far as it
// is known, or the agent's session.
func (m *Message) Lane() string {
	switch {
	case m.Wake != nil:
		return "wake " + m.Wake.AgentSession
	case m.Call != nil:
		return "call " + m.Call.ID
	case m.IsWatch: // nothing else waits for it
		return "watch " + m.SessionID
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

// Outbox is the folder of outgoing messages.
type Outbox struct{ Folder[Message] }

// OutboxIn returns the outbox of a user state folder.
func OutboxIn(userState string) Outbox {
	return Outbox{Folder[Message]{Dir: filepath.Join(userState, "outbox"), durability: unsynced}}
}

// Enqueue writes a message into the outbox. Where the outbox has a message with the same
// key that was created less than repeatAfter before, it returns that one as stored, and
// isNew is false. The key defaults to the id. CreatedAt has to be set. An error means
// that nothing was written.
func (o Outbox) Enqueue(env Getenv, m *Message, repeatAfter time.Duration) (
	stored *Message, isNew bool, err error,
) {
	m.Key = cmp.Or(m.Key, m.ID)
	m.Environment = Environment(env)
	if m.ProjectDir != "" && !m.IsTrusted {
		m.IsTrusted = IsProjectTrusted(env, m.ProjectDir)
	}
	lock, err := LockWithTimeout(o.lockPath("put"))
	if err != nil {
		return nil, false, fmt.Errorf("enqueue message: %w", err)
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
			earlier, err := o.Load(name)
			if err == nil && m.CreatedAt.Sub(earlier.CreatedAt).Abs() < repeatAfter {
				return earlier, false, nil
			}
		}
		if nanosecondOfLast, err := strconv.ParseInt(nanos, 10, 64); err == nil {
			// names stay in order even if the clock was set back
			nanosecond = max(nanosecond, nanosecondOfLast+1)
		}
	}
	if err := o.Create(fmt.Sprintf("%019d-%s", nanosecond, key), m); err != nil {
		return nil, false, fmt.Errorf("enqueue message: %w", err)
	}
	return m, true, nil
}

// FindByKey returns the newest message with this key; nil where there is none.
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

// Change updates a message, by its file or its name. It returns nil and no error where
// the message is gone.
func (o Outbox) Change(file string, change func(*Message)) (*Message, error) {
	after, err := o.Folder.Change(RecordName(file), change)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return after, err
}

// Waiting returns the messages that are neither sent nor set aside, the oldest first, and
// the errors of files that cannot be parsed.
func (o Outbox) Waiting() (waiting []*Message, bad []error) {
	all, bad, _ := o.allUnless(HasReceipt)
	return slices.DeleteFunc(all, (*Message).IsFinal), bad
}

// moveToEnvironment moves the waiting messages that match to another environment.
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

// SetAside returns the messages that were set aside, the oldest first.
func (o Outbox) SetAside() []*Message {
	all, _ := o.All()
	return slices.DeleteFunc(all, func(m *Message) bool { return m.SetAsideReason == "" })
}

// RetrySetAside queues the messages that were set aside once more, after a person fixed
// the cause. It returns how many.
func (o Outbox) RetrySetAside(now time.Time) (count int, err error) {
	for _, m := range o.SetAside() {
		_, err := o.Change(m.Path, func(m *Message) {
			m.SetAsideReason, m.EndedAt = "", time.Time{}
			m.FailedTries, m.LastError = 0, ""
			m.NotBefore = now.UTC()
		})
		if err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}

// RemoveMessage removes a message and its index entry.
func (o Outbox) RemoveMessage(env Getenv, m *Message) error {
	if err := o.Remove(RecordName(m.Path)); err != nil {
		return err
	}
	return RemoveFromIndex(env, m.Path)
}

// Sweep removes receipts older than receiptAge, and messages that were set aside more
// than setAsideAge ago.
func (o Outbox) Sweep(env Getenv, now time.Time) {
	all, _ := o.All()
	for _, m := range all {
		age := now.Sub(m.EndedAt).Abs()
		if !m.SentAt.IsZero() && age > receiptAge || m.SetAsideReason != "" && age > setAsideAge {
			_ = o.RemoveMessage(env, m)
		}
	}
}

// MessageID derives an id from what a message is about; Google Chat keeps one message of
// an id. It has at most 63 characters of a-z, 0-9 and "-", and begins with "client-".
func MessageID(parts ...string) string {
	return "client-" + Hash(20, strings.Join(parts, "\x00")+"\x00")
}

// MachineIDPrefix begins the id of a message whose text does not name its machine; the id
// does. A hub adds 13 characters to it.
const MachineIDPrefix = "client-of-"

// OwnIDPrefix returns how such ids of this machine begin.
func OwnIDPrefix() string { return MachineIDPrefix + Hash(4, MachineName()) + "-" }

// MachineMessageID returns a MessageID that names this machine.
func MachineMessageID(parts ...string) string {
	return OwnIDPrefix() + Hash(15, strings.Join(parts, "\x00"))
}
