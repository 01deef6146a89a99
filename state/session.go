package state

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Session is what cannot be read from Claude Code's transcript about a session: file
// sessions/{session_id}.json in the user state. Its counts come from the transcript.
type Session struct {
	Record
	ID          string `json:"session_id"` // Claude Code's own
	Name        string `json:"session_name"`
	ProjectDir  string `json:"project_dir"` // absolute
	CWD         string `json:"cwd,omitempty"`
	Environment string `json:"env,omitempty"` // see Environment
	IsTrusted   bool   `json:"trusted,omitempty"`
	// where what lets it act is written: see SpareStateDir
	StateDir    string `json:"state_dir,omitempty"`
	ClaudePID   int    `json:"claude_pid,omitempty"`
	ClaudeStart string `json:"claude_start,omitempty"`
	// by which its Claude Code was started, by absolute paths
	ClaudeCommand []string `json:"program,omitempty"`
	TmuxSession   string   `json:"tmux_session,omitempty"`
	TmuxPane      string   `json:"tmux_pane,omitempty"`
	TmuxSocket    string   `json:"tmux_socket,omitempty"`
	// that its environment names, and that it is not seen to run in
	HiddenPane     string    `json:"hidden_pane,omitempty"`
	TranscriptPath string    `json:"transcript_path,omitempty"`
	StartedAt      time.Time `json:"started_at"`
	LastSeen       time.Time `json:"last_seen"`
	// startup, resume, clear, fork; "" when no hook saw the start
	Source    string    `json:"source,omitempty"`
	Model     string    `json:"model,omitempty"`
	Branch    string    `json:"branch,omitempty"` // at the start; "" outside git
	Commit    string    `json:"commit,omitempty"` // HEAD at the start
	EndedAt   time.Time `json:"ended_at,omitzero"`
	EndReason string    `json:"reason,omitempty"`

	// Begins is when a poller set about starting its Claude Code. Where no process is
	// known since, that poller was killed.
	StartingAt time.Time `json:"begins,omitzero"`
	// the session that its Claude Code had before /clear: its thread goes on
	PreviousSession string `json:"before,omitempty"`
	Chat            string `json:"chat,omitempty"` // host/spaces/S: where its reports are
	// of its reports; "" before the first arrived
	ThreadName string   `json:"thread_name,omitempty"`
	Notices    []string `json:"notices,omitempty"` // shown by its next hook, once
	// Begun says that a hook put the message that begins its thread.
	HasThreadStart bool `json:"begun,omitempty"`
	// Listens says that its person can steer it from the thread of its reports: commands
	// there are read while it lives.
	AcceptsCommands bool      `json:"listens,omitempty"`
	MutedUntil      time.Time `json:"muted_until,omitzero"` // no report of it is sent before

	// Typed is what was typed last from Chat as its next prompt; nil for nothing.
	LastTyped *TypedPrompt `json:"typed,omitempty"`

	// These are of versions without an inbox: what was said to the session and not
	// done, up to when all commands were done, and which were done since.
	OldCommands          []OldCommand     `json:"commands,omitempty"`
	OldCommandsDoneUntil time.Time        `json:"commanded,omitzero"`
	OldDoneCommands      []OldDoneCommand `json:"did,omitempty"`
	// OldIgnoredUntil has versions without an inbox pass over what was written in its
	// thread until then: it is in the inbox.
	OldIgnoredUntil time.Time `json:"told_nobody,omitzero"`

	// SummaryOwedFor is when the session ended whose summary its thread is owed; zero for
	// none. SummarySentFor is the end that the last summary told of.
	SummaryOwedFor time.Time `json:"owes_summary,omitzero"`
	SummarySentFor time.Time `json:"told_summary,omitzero"`

	GateBlocks []time.Time `json:"gate_blocks,omitempty"` // when the stop gate sent it back
	// what waits in its terminal, and in no thread; nil for nothing
	Dialog     *Dialog    `json:"dialog,omitempty"`
	WakeMemory WakeMemory `json:"wake,omitzero"` // what its agent was told
}

// TypedPrompt is what was typed from Chat into a session's terminal, and when.
type TypedPrompt struct {
	Text    string    `json:"words"`
	TypedAt time.Time `json:"at"` // this machine's clock, UTC; before the first key
}

// OutsideTmuxWarning tells the person beforehand what becomes of their words where they
// cannot be typed.
const OutsideTmuxWarning = "Outside of tmux, words from here wake Claude as a message from a hook, which it must not take for your approval."

// Dialog is what Claude Code waits for in a terminal, and only there: no record of ours
// asks it. The session's thread is told.
type Dialog struct {
	// At is since when it waits, by Claude Code's own file of sessions. It is zero where
	// that does not tell.
	WaitsSince time.Time `json:"at,omitzero"`
	Text       string    `json:"says"` // a sentence for people
	// Claude asks for nothing: its person may have opened it
	IsMenu         bool `json:"menu,omitempty"`
	IsNoteEnqueued bool `json:"told,omitempty"` // the note is in the outbox
	IsOver         bool `json:"over,omitempty"` // a hook saw that nothing waits any more
}

// NewDialog words what a terminal waits for. words are Claude Code's own.
func NewDialog(isPermission bool, claudeText string) *Dialog {
	text := "Claude waits in the terminal"
	if isPermission {
		text = "Claude waits for a permission in the terminal"
	}
	if claudeText == "" || claudeText == "Claude needs your permission" ||
		claudeText == "permission prompt" {
		return &Dialog{Text: text}
	}
	return &Dialog{Text: text + ": " + MaskKeys(claudeText)}
}

// IsSame says whether it is the same wait. Either may be nil.
func (d *Dialog) IsSame(other *Dialog) bool {
	isMissing := d == nil || other == nil
	return !isMissing && d.WaitsSince.Equal(other.WaitsSince) &&
		(!d.WaitsSince.IsZero() || d.Text == other.Text)
}

// MessageKey is the key of the message that tells of a session's dialog; "" leaves that
// to the words.
func (d *Dialog) MessageKey(sessionID string) string {
	if d.WaitsSince.IsZero() {
		return ""
	}
	return MessageID("dialog", sessionID, d.WaitsSince.UTC().Format(time.RFC3339Nano))
}

// OldCommand is what a person wrote into a session's thread, as versions without an inbox
// kept it.
type OldCommand struct {
	MessageName    string    `json:"message_name"` // spaces/S/messages/M
	Sender         string    `json:"sender"`       // users/ID
	SenderEmail    string    `json:"sender_email,omitempty"`
	DisplayName    string    `json:"display_name,omitempty"`
	Text           string    `json:"text"`
	HasAttachment  bool      `json:"attached,omitempty"`
	LocalCreatedAt time.Time `json:"at"`               // this machine's clock, UTC
	CreatedAt      time.Time `json:"created,omitzero"` // the server's clock
	ThreadName     string    `json:"thread,omitempty"` // "" for that of the session's reports
}

// Incoming is the same as the inbox has it.
func (c OldCommand) Incoming(session *Session, now time.Time) *Incoming {
	return &Incoming{
		ID: IncomingID(session.Chat, c.MessageName), Chat: session.Chat, MessageName: c.MessageName,
		ThreadName: cmp.Or(
			c.ThreadName,
			session.ThreadName,
		), Sender: c.Sender, SenderEmail: c.SenderEmail,
		DisplayName: c.DisplayName, Text: c.Text, HasAttachment: c.HasAttachment, CreatedAt: cmp.Or(c.CreatedAt, c.LocalCreatedAt),
		LocalCreatedAt: c.LocalCreatedAt, ReadAt: now.UTC(), Status: IncomingRouted, SessionID: session.ID,
	}
}

// OldDoneCommand is a command that was done, as versions without an inbox kept it.
type OldDoneCommand struct {
	MessageName string    `json:"message_name"` // spaces/S/messages/M
	DoneAt      time.Time `json:"at"`           // by the server's clock, in milliseconds
}

// IsOldCommandDone says whether a version without an inbox did a command.
func (s *Session) IsOldCommandDone(messageName string, at time.Time) bool {
	isKnown := slices.ContainsFunc(
		s.OldDoneCommands,
		func(r OldDoneCommand) bool { return r.MessageName == messageName },
	)
	return isKnown || !at.After(s.OldCommandsDoneUntil)
}

// WakeMemory is what is remembered of a supervised session from one wake message to the
// next.
type WakeMemory struct {
	CapturedAt time.Time `json:"captured_at"` // when tmux had answered with Lines
	// the pane's last ones; nil before the first capture
	Lines    []string `json:"lines"`
	PaneHash string   `json:"pane"` // hash of what the pane showed at the last message
	TextHash string   `json:"text"` // hash of the last words that a message carried
	// the last one that a message carried, below its call's id
	Question     string `json:"question"`
	AgentSession string `json:"to"` // the agent's session that the last message went to
}

func (s *Session) check(time.Time) error {
	if s.ID == "" {
		return errors.New("session_id is missing")
	}
	return nil
}

// Supersedes says that its Claude Code had another session before, and goes on with this
// one: after /clear, or /resume.
func (s *Session) Supersedes(other *Session) bool {
	return s.ID != other.ID && s.ClaudePID > 1 && s.ClaudePID == other.ClaudePID &&
		s.ClaudeStart == other.ClaudeStart &&
		s.LastSeen.After(other.LastSeen)
}

// IsRunning says that no hook told of the session's end. Its process may have been
// killed.
func (s *Session) IsRunning() bool { return s.EndedAt.IsZero() }

// Sessions is the folder of sessions.
type Sessions struct{ Folder[Session] }

// SessionsIn is the folder sessions of a user state folder.
func SessionsIn(userState string) Sessions {
	return Sessions{
		Folder[Session]{Dir: filepath.Join(userState, "sessions"), durability: unsynced},
	}
}

// Get reads a session by Claude Code's own id; fs.ErrNotExist when no hook has written it
// down.
func (s Sessions) Get(id string) (*Session, error) { return s.Load(safeFileName(id)) }

// LockNames keeps others from naming a session meanwhile.
func (s Sessions) LockNames() (*Lock, error) { return LockWithTimeout(s.lockPath(".names")) }

// LockWake makes the caller the one hook that tells the agent of a session something.
// Other hooks may change the session meanwhile.
func (s Sessions) LockWake(id string) (*Lock, error) {
	return LockWithTimeout(s.wakeLockPath(safeFileName(id)))
}

func (s Sessions) wakeLockPath(name string) string { return s.lockPath(name) + ".wake" }

// Change updates a session; it is begun where no hook has written it down.
func (s Sessions) Change(id string, change func(*Session)) (*Session, error) {
	s.initRecord = func(session *Session) { session.ID = id }
	return s.Folder.Change(safeFileName(id), change)
}

// IsSuperseded says that the Claude Code of a session goes on with another one: what is
// said to the first must not reach that.
func (s Sessions) IsSuperseded(session *Session) bool {
	all, _ := s.All()
	return slices.ContainsFunc(all, func(other *Session) bool { return other.Supersedes(session) })
}

// AddNotice leaves the person at a session's terminal a sentence, once.
func (s Sessions) AddNotice(id, sentence string) error {
	if id == "" {
		return nil
	}
	_, err := s.Change(id, func(session *Session) {
		if !slices.Contains(session.Notices, sentence) && len(session.Notices) < 20 {
			session.Notices = append(session.Notices, sentence)
		}
	})
	return err
}

// TakeNotices returns a session's notices, a line each, and forgets them.
func (s Sessions) TakeNotices(id string) (text string) {
	if session, err := s.Get(id); err != nil || len(session.Notices) == 0 {
		return ""
	}
	_, err := s.Change(id, func(session *Session) {
		text = strings.Join(session.Notices, "\n")
		session.Notices = nil
	})
	if err != nil {
		return ""
	}
	return text
}

// CountGateBlock writes down that the stop gate sends a session back, and reports whether
// it may: at most so many times within that time. An error means that nothing could be
// counted.
func (s Sessions) CountGateBlock(
	id string,
	now time.Time,
	limit int,
	period time.Duration,
) (mayBlock bool, err error) {
	_, err = s.Change(id, func(session *Session) {
		// Of a clock that was set back, what lies just ahead counts, too.
		session.GateBlocks = slices.DeleteFunc(
			session.GateBlocks,
			func(at time.Time) bool { return now.Sub(at).Abs() >= period },
		)
		mayBlock = len(session.GateBlocks) < limit
		if mayBlock {
			session.GateBlocks = append(session.GateBlocks, now.UTC())
		}
	})
	return mayBlock && err == nil, err
}

// TmuxSockets are the sockets of the tmux servers that a tmux session of this name was
// seen on, the last one first.
func (s Sessions) TmuxSockets(tmuxSession string) (sockets []string) {
	all, _ := s.All()
	slices.SortStableFunc(all, func(a, b *Session) int { return b.LastSeen.Compare(a.LastSeen) })
	for _, session := range all {
		if session.TmuxSession == tmuxSession && session.TmuxSocket != "" &&
			!slices.Contains(sockets, session.TmuxSocket) {
			sockets = append(sockets, session.TmuxSocket)
		}
	}
	return sockets
}

// Sweep forgets the sessions without a hook for a month.
func (s Sessions) Sweep(now time.Time) {
	all, _ := s.All()
	for _, session := range all {
		if now.Sub(session.LastSeen) > 30*24*time.Hour && !session.LastSeen.IsZero() {
			_ = s.Remove(RecordName(session.Path))
			os.Remove(s.wakeLockPath(RecordName(session.Path)))
		}
	}
}
