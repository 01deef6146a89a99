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

// Session is what Claude Code's transcript does not say about a session: the file
// sessions/{session_id}.json in the user's state. Counts of a session come from the
// transcript.
type Session struct {
	Record
	ID          string `json:"session_id"` // Claude Code's own id
	Name        string `json:"session_name"`
	ProjectDir  string `json:"project_dir"` // absolute
	CWD         string `json:"cwd,omitempty"`
	Environment string `json:"env,omitempty"` // see the function Environment
	IsTrusted   bool   `json:"trusted,omitempty"`
	// the folder for questions that let Claude act; see SpareStateDir
	StateDir    string `json:"state_dir,omitempty"`
	ClaudePID   int    `json:"claude_pid,omitempty"`
	ClaudeStart string `json:"claude_start,omitempty"`
	// the command that started its Claude Code, with absolute paths
	ClaudeCommand []string `json:"program,omitempty"`
	TmuxSession   string   `json:"tmux_session,omitempty"`
	TmuxPane      string   `json:"tmux_pane,omitempty"`
	TmuxSocket    string   `json:"tmux_socket,omitempty"`
	// a pane that its variables name, but in which it is not seen to run
	HiddenPane     string    `json:"hidden_pane,omitempty"`
	TranscriptPath string    `json:"transcript_path,omitempty"`
	StartedAt      time.Time `json:"started_at"`
	LastSeen       time.Time `json:"last_seen"`
	// startup, resume, clear or fork; "" where no hook saw the start
	Source string `json:"source,omitempty"`
	Model  string `json:"model,omitempty"`
	// the branch at the start; "" outside git
	Branch    string    `json:"branch,omitempty"`
	Commit    string    `json:"commit,omitempty"` // the HEAD at the start
	EndedAt   time.Time `json:"ended_at,omitzero"`
	EndReason string    `json:"reason,omitempty"`

	// StartingAt is when a poller began to start its Claude Code. Where no process is
	// known afterwards, that poller was killed.
	StartingAt time.Time `json:"begins,omitzero"`
	// the session that its Claude Code had before /clear, whose thread goes on
	PreviousSession string `json:"before,omitempty"`
	// host/spaces/S: the space of its reports
	Chat string `json:"chat,omitempty"`
	// the thread of its reports; "" before the first one arrived
	ThreadName string   `json:"thread_name,omitempty"`
	Notices    []string `json:"notices,omitempty"` // texts that its next hook shows once
	// HasThreadStart says that a hook enqueued the message that begins its thread.
	HasThreadStart bool `json:"begun,omitempty"`
	// AcceptsCommands says that its person can steer it from the thread of its reports:
	// commands there are read while it lives.
	AcceptsCommands bool `json:"listens,omitempty"`
	// its reports are not sent before
	MutedUntil time.Time `json:"muted_until,omitzero"`
	// UsageLimitUntil is when the usage limit ends that stopped it; zero for none. Until
	// then nothing is typed into it.
	UsageLimitUntil time.Time `json:"limit_until,omitzero"`
	Watch           *Watch    `json:"watch,omitempty"` // nil: nobody watches it in Chat

	// ExplainedClaude is the version of Claude Code of which a message said that it takes
	// not every answer from Chat; "" for none.
	ExplainedClaude string `json:"explained_claude,omitempty"`

	// LastTyped is the last prompt that was typed into it from Chat; nil for none.
	LastTyped *TypedPrompt `json:"typed,omitempty"`

	// Versions without an inbox wrote these: the commands to the session that were not
	// carried out, the time up to which all were, and those carried out since.
	OldCommands          []OldCommand     `json:"commands,omitempty"`
	OldCommandsDoneUntil time.Time        `json:"commanded,omitzero"`
	OldDoneCommands      []OldDoneCommand `json:"did,omitempty"`
	// OldIgnoredUntil keeps versions without an inbox from reading messages in its thread
	// up to that time: the inbox has them.
	OldIgnoredUntil time.Time `json:"told_nobody,omitzero"`

	// SummaryOwedFor is the end of the session whose summary its thread is owed; zero for
	// none. SummarySentFor is the end that the last summary reported.
	SummaryOwedFor time.Time `json:"owes_summary,omitzero"`
	SummarySentFor time.Time `json:"told_summary,omitzero"`

	// when the stop gate sent it back to work
	GateBlocks []time.Time `json:"gate_blocks,omitempty"`
	// what waits in its terminal but in no thread; nil for nothing
	Dialog     *Dialog    `json:"dialog,omitempty"`
	WakeMemory WakeMemory `json:"wake,omitzero"` // what its agent knows
}

// TypedPrompt is a prompt that was typed from Chat into a session's terminal.
type TypedPrompt struct {
	Text    string    `json:"words"`
	TypedAt time.Time `json:"at"` // this machine's clock, UTC; taken before the first key
	// Before is the other prompt that was typed before this one; nil for none.
	Before *TypedPrompt `json:"before,omitempty"`
}

// Then returns the prompt to record when another text is typed after t, which may be nil.
func (t *TypedPrompt) Then(text string, typedAt time.Time) *TypedPrompt {
	next := &TypedPrompt{Text: text, TypedAt: typedAt}
	switch {
	case t == nil:
	case t.Text == text: // it is typed again
		next.Before = t.Before
	default:
		next.Before = &TypedPrompt{Text: t.Text, TypedAt: t.TypedAt}
	}
	return next
}

// Watch is a person's wish to see in a session's thread what Claude does.
type Watch struct {
	// MessageName is the message of the present turn, spaces/S/messages/client-…, and ""
	// between two turns. It is recorded before the message is posted.
	MessageName string    `json:"message,omitempty"`
	TurnSince   time.Time `json:"turn_since,omitzero"` // when a poller first saw the turn
	PostedAt    time.Time `json:"posted,omitzero"`     // zero: the message is not in the thread
	IsOver      bool      `json:"over,omitempty"`      // the person ended the watch
}

// OutsideTmuxWarning tells the person what happens to their prompts where they cannot be
// typed.
const OutsideTmuxWarning = "This session does not run in tmux. What you write here reaches " +
	"Claude as a message from a hook, which does not count as your approval."

// Dialog is what Claude Code waits for in a terminal, where no record of ours asks it.
// The session's thread gets a note of it.
type Dialog struct {
	// WaitsSince is when the wait began, by Claude Code's own file of sessions. It is
	// zero where that does not say.
	WaitsSince time.Time `json:"at,omitzero"`
	Text       string    `json:"says"` // a sentence for people
	// Claude asks for nothing: its person may have opened a menu
	IsMenu         bool `json:"menu,omitempty"`
	IsNoteEnqueued bool `json:"told,omitempty"` // the note is in the outbox
	IsOver         bool `json:"over,omitempty"` // a hook saw that the wait is over
}

// NewDialog returns a Dialog with its sentence. claudeText is Claude Code's own text.
func NewDialog(isPermission bool, claudeText string) *Dialog {
	text := "Claude waits in the terminal"
	if isPermission {
		text = "Claude waits for a permission in the terminal"
	}
	saysNothing := []string{"", "Claude needs your permission", "permission prompt"}
	if slices.Contains(saysNothing, claudeText) {
		return &Dialog{Text: text}
	}
	return &Dialog{Text: text + ": " + MaskKeys(claudeText)}
}

// IsSame reports whether both are the same wait. Either may be nil.
func (d *Dialog) IsSame(other *Dialog) bool {
	return d != nil && other != nil && d.WaitsSince.Equal(other.WaitsSince) &&
		(!d.WaitsSince.IsZero() || d.Text == other.Text)
}

// MessageKey returns the key of the note about a session's dialog; "" where only the
// note's text identifies it.
func (d *Dialog) MessageKey(sessionID string) string {
	if d.WaitsSince.IsZero() {
		return ""
	}
	return MessageID("dialog", sessionID, d.WaitsSince.UTC().Format(time.RFC3339Nano))
}

// OldCommand is what a person wrote into a session's thread, as versions without an inbox
// stored it.
type OldCommand struct {
	MessageName    string    `json:"message_name"` // spaces/S/messages/M
	Sender         string    `json:"sender"`       // users/ID
	SenderEmail    string    `json:"sender_email,omitempty"`
	DisplayName    string    `json:"display_name,omitempty"`
	Text           string    `json:"text"`
	HasAttachment  bool      `json:"attached,omitempty"`
	LocalCreatedAt time.Time `json:"at"`               // this machine's clock, UTC
	CreatedAt      time.Time `json:"created,omitzero"` // the server's clock
	// "" for the thread of the session's reports
	ThreadName string `json:"thread,omitempty"`
}

// Incoming returns the command as an incoming message of the inbox.
func (c OldCommand) Incoming(session *Session, now time.Time) *Incoming {
	return &Incoming{
		ID: IncomingID(session.Chat, c.MessageName), Chat: session.Chat, MessageName: c.MessageName,
		ThreadName: cmp.Or(c.ThreadName, session.ThreadName),
		Sender:     c.Sender, SenderEmail: c.SenderEmail, DisplayName: c.DisplayName,
		Text: c.Text, HasAttachment: c.HasAttachment,
		CreatedAt:      cmp.Or(c.CreatedAt, c.LocalCreatedAt),
		LocalCreatedAt: c.LocalCreatedAt, ReadAt: now.UTC(),
		Status: IncomingRouted, SessionID: session.ID,
	}
}

// OldDoneCommand is a command that was carried out, as versions without an inbox stored
// it.
type OldDoneCommand struct {
	MessageName string    `json:"message_name"` // spaces/S/messages/M
	DoneAt      time.Time `json:"at"`           // the server's clock, in whole milliseconds
}

// IsOldCommandDone reports whether a version without an inbox carried out the command.
func (s *Session) IsOldCommandDone(messageName string, at time.Time) bool {
	isKnown := slices.ContainsFunc(s.OldDoneCommands, func(r OldDoneCommand) bool {
		return r.MessageName == messageName
	})
	return isKnown || !at.After(s.OldCommandsDoneUntil)
}

// WakeMemory is what is remembered of a supervised session from one wake message to the
// next.
type WakeMemory struct {
	CapturedAt time.Time `json:"captured_at"` // when tmux returned Lines
	// the last lines of the pane; nil before the first capture
	Lines    []string `json:"lines"`
	PaneHash string   `json:"pane"` // a hash of what the pane showed at the last message
	TextHash string   `json:"text"` // a hash of Claude's last text that a message carried
	// the id of the call whose question a message carried last
	Question     string `json:"question"`
	AgentSession string `json:"to"` // the agent's session that the last message went to
}

func (s *Session) check(time.Time) error {
	if s.ID == "" {
		return errors.New("session_id is missing")
	}
	return nil
}

// Supersedes reports whether the Claude Code of other went on with this session, as after
// /clear or /resume.
func (s *Session) Supersedes(other *Session) bool {
	isSameProcess := s.ClaudePID > 1 && s.ClaudePID == other.ClaudePID &&
		s.ClaudeStart == other.ClaudeStart
	return isSameProcess && s.ID != other.ID && s.LastSeen.After(other.LastSeen)
}

// IsRunning reports whether no hook reported the session's end. Its process may have been
// killed.
func (s *Session) IsRunning() bool { return s.EndedAt.IsZero() }

// Sessions is the folder of sessions.
type Sessions struct{ Folder[Session] }

// SessionsIn returns the folder sessions of a user state folder.
func SessionsIn(userState string) Sessions {
	return Sessions{
		Folder[Session]{Dir: filepath.Join(userState, "sessions"), durability: unsynced},
	}
}

// Get reads a session by Claude Code's own id. The error is fs.ErrNotExist where no hook
// has recorded it.
func (s Sessions) Get(id string) (*Session, error) { return s.Load(safeFileName(id)) }

// LockNames keeps other processes from naming a session meanwhile.
func (s Sessions) LockNames() (*Lock, error) { return LockWithTimeout(s.lockPath(".names")) }

// LockWake makes the caller the one hook that sends the agent of a session a message.
// Other hooks may change the session meanwhile.
func (s Sessions) LockWake(id string) (*Lock, error) {
	return LockWithTimeout(s.wakeLockPath(safeFileName(id)))
}

func (s Sessions) wakeLockPath(name string) string { return s.lockPath(name) + ".wake" }

// Change updates a session, and creates its record where no hook has recorded it.
func (s Sessions) Change(id string, change func(*Session)) (*Session, error) {
	s.initRecord = func(session *Session) { session.ID = id }
	return s.Folder.Change(safeFileName(id), change)
}

// IsSuperseded reports whether the Claude Code that ran a session has changed to another
// session. Prompts to the former session must not reach the new one.
func (s Sessions) IsSuperseded(session *Session) bool {
	all, _ := s.All()
	return slices.ContainsFunc(all, func(other *Session) bool { return other.Supersedes(session) })
}

// AddNotice adds a sentence, once, for the person at a session's terminal. A session has
// 20 notices at most.
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

// TakeNotices returns a session's notices, one a line, and removes them.
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

// CountGateBlock records that the stop gate sends a session back, and reports whether it
// may: at most limit times within period. An error means that nothing could be counted.
func (s Sessions) CountGateBlock(id string, now time.Time, limit int, period time.Duration) (
	mayBlock bool, err error,
) {
	_, err = s.Change(id, func(session *Session) {
		// If the clock was set back, blocks that lie slightly in the future count as
		// well.
		session.GateBlocks = slices.DeleteFunc(session.GateBlocks, func(at time.Time) bool {
			return now.Sub(at).Abs() >= period
		})
		mayBlock = len(session.GateBlocks) < limit
		if mayBlock {
			session.GateBlocks = append(session.GateBlocks, now.UTC())
		}
	})
	return mayBlock && err == nil, err
}

// TmuxSockets returns the sockets of the tmux servers on which a tmux session of this
// name was seen, the latest first.
func (s Sessions) TmuxSockets(tmuxSession string) (sockets []string) {
	all, _ := s.All()
	slices.SortStableFunc(all, func(a, b *Session) int { return b.LastSeen.Compare(a.LastSeen) })
	for _, session := range all {
		hasSocket := session.TmuxSession == tmuxSession && session.TmuxSocket != ""
		if hasSocket && !slices.Contains(sockets, session.TmuxSocket) {
			sockets = append(sockets, session.TmuxSocket)
		}
	}
	return sockets
}

// Sweep removes the records of sessions that no hook has reported for 30 days.
func (s Sessions) Sweep(now time.Time) {
	all, _ := s.All()
	for _, session := range all {
		if now.Sub(session.LastSeen) > 30*24*time.Hour && !session.LastSeen.IsZero() {
			_ = s.Remove(RecordName(session.Path))
			os.Remove(s.wakeLockPath(RecordName(session.Path)))
		}
	}
}

// ResumeCommand returns the shell command that continues a session in its project's
// folder. An empty folder is left out.
func ResumeCommand(projectDir, sessionID string) string {
	command := "claude --resume " + QuoteForShell(sessionID)
	if projectDir == "" {
		return command
	}
	return "cd " + QuoteForShell(projectDir) + " && " + command
}
