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

// Session is what cannot be read from Claude Code's transcript about a session: file sessions/{session_id}.json in the user
// state. Its counts come from the transcript.
type Session struct {
	Record
	ID             string    `json:"session_id"` // Claude Code's own
	Name           string    `json:"session_name"`
	ProjectDir     string    `json:"project_dir"` // absolute
	CWD            string    `json:"cwd,omitempty"`
	Env            string    `json:"env,omitempty"` // see Environment
	Trusted        bool      `json:"trusted,omitempty"`
	StateDir       string    `json:"state_dir,omitempty"` // where what lets it act is written: see SpareState
	ClaudePID      int       `json:"claude_pid,omitempty"`
	ClaudeStart    string    `json:"claude_start,omitempty"`
	Program        []string  `json:"program,omitempty"` // by which its Claude Code was started, by absolute paths
	TmuxSession    string    `json:"tmux_session,omitempty"`
	TmuxPane       string    `json:"tmux_pane,omitempty"`
	TmuxSocket     string    `json:"tmux_socket,omitempty"`
	HiddenPane     string    `json:"hidden_pane,omitempty"` // that its environment names, and that it is not seen to run in
	TranscriptPath string    `json:"transcript_path,omitempty"`
	StartedAt      time.Time `json:"started_at"`
	LastSeen       time.Time `json:"last_seen"`
	Source         string    `json:"source,omitempty"` // startup, resume, clear, fork; "" when no hook saw the start
	Model          string    `json:"model,omitempty"`
	Branch         string    `json:"branch,omitempty"` // at the start; "" outside git
	Commit         string    `json:"commit,omitempty"` // HEAD at the start
	EndedAt        time.Time `json:"ended_at,omitzero"`
	Reason         string    `json:"reason,omitempty"`

	// Begins is when a poller set about starting its Claude Code. Where no process is known since, that poller was killed.
	Begins     time.Time `json:"begins,omitzero"`
	Before     string    `json:"before,omitempty"`      // the session that its Claude Code had before /clear: its thread goes on
	Chat       string    `json:"chat,omitempty"`        // host/spaces/S: where its reports are
	ThreadName string    `json:"thread_name,omitempty"` // of its reports; "" before the first arrived
	Notices    []string  `json:"notices,omitempty"`     // shown by its next hook, once
	// Begun says that a hook put the message that begins its thread.
	Begun bool `json:"begun,omitempty"`
	// Listens says that its person can steer it from the thread of its reports: commands there are read while it lives.
	Listens    bool      `json:"listens,omitempty"`
	MutedUntil time.Time `json:"muted_until,omitzero"` // no report of it is sent before

	// Typed is what was typed last from Chat as its next prompt; nil for nothing.
	Typed *TypedPrompt `json:"typed,omitempty"`

	// These are of versions without an inbox: what was said to the session and not
	// done, up to when all commands were done, and which were done since.
	OldCommands  []OldCommand `json:"commands,omitempty"`
	OldCommanded time.Time    `json:"commanded,omitzero"`
	OldDid       []OldRead    `json:"did,omitempty"`
	// OldToldNobody has versions without an inbox pass over what was written in its thread until
	// then: it is in the inbox.
	OldToldNobody time.Time `json:"told_nobody,omitzero"`

	// OwesSummary is when the session ended whose summary its thread is owed; zero for none. ToldSummary is the end that the
	// last summary told of.
	OwesSummary time.Time `json:"owes_summary,omitzero"`
	ToldSummary time.Time `json:"told_summary,omitzero"`

	GateBlocks []time.Time `json:"gate_blocks,omitempty"` // when the stop gate sent it back
	Dialog     *Dialog     `json:"dialog,omitempty"`      // what waits in its terminal, and in no thread; nil for nothing
	Wake       WakeMemory  `json:"wake,omitzero"`         // what its agent was told
}

// TypedPrompt is what was typed from Chat into a session's terminal, and when.
type TypedPrompt struct {
	Words string    `json:"words"`
	At    time.Time `json:"at"` // this machine's clock, UTC; before the first key
}

// OutsideTmux tells the person beforehand what becomes of their words where they cannot be typed.
const OutsideTmux = "Outside of tmux, words from here wake Claude as a message from a hook, which it must not take for your approval."

// Dialog is what Claude Code waits for in a terminal, and only there: no record of ours asks it. The session's thread is told.
type Dialog struct {
	// At is since when it waits, by Claude Code's own file of sessions. It is zero where that does not tell.
	At   time.Time `json:"at,omitzero"`
	Says string    `json:"says"`           // a sentence for people
	Menu bool      `json:"menu,omitempty"` // Claude asks for nothing: its person may have opened it
	Told bool      `json:"told,omitempty"` // the note is in the outbox
	Over bool      `json:"over,omitempty"` // a hook saw that nothing waits any more
}

// NewDialog words what a terminal waits for. words are Claude Code's own.
func NewDialog(permission bool, words string) *Dialog {
	says := "Claude waits in the terminal"
	if permission {
		says = "Claude waits for a permission in the terminal"
	}
	if words == "" || words == "Claude needs your permission" || words == "permission prompt" {
		return &Dialog{Says: says}
	}
	return &Dialog{Says: says + ": " + MaskKeys(words)}
}

// Same says whether it is the same wait. Either may be nil.
func (d *Dialog) Same(other *Dialog) bool {
	none := d == nil || other == nil
	return !none && d.At.Equal(other.At) && (!d.At.IsZero() || d.Says == other.Says)
}

// Key is the key of the message that tells of a session's dialog; "" leaves that to the words.
func (d *Dialog) Key(session string) string {
	if d.At.IsZero() {
		return ""
	}
	return MessageID("dialog", session, d.At.UTC().Format(time.RFC3339Nano))
}

// OldCommand is what a person wrote into a session's thread, as versions without an inbox
// kept it.
type OldCommand struct {
	Message     string    `json:"message_name"` // spaces/S/messages/M
	Sender      string    `json:"sender"`       // users/ID
	SenderEmail string    `json:"sender_email,omitempty"`
	DisplayName string    `json:"display_name,omitempty"`
	Text        string    `json:"text"`
	Attached    bool      `json:"attached,omitempty"`
	At          time.Time `json:"at"`               // this machine's clock, UTC
	Created     time.Time `json:"created,omitzero"` // the server's clock
	Thread      string    `json:"thread,omitempty"` // "" for that of the session's reports
}

// Incoming is the same as the inbox has it.
func (c OldCommand) Incoming(one *Session, now time.Time) *Incoming {
	return &Incoming{
		ID: IncomingID(one.Chat, c.Message), Chat: one.Chat, MessageName: c.Message,
		ThreadName: cmp.Or(c.Thread, one.ThreadName), Sender: c.Sender, SenderEmail: c.SenderEmail,
		DisplayName: c.DisplayName, Text: c.Text, Attached: c.Attached, CreatedAt: cmp.Or(c.Created, c.At),
		SaidAt: c.At, ReadAt: now.UTC(), Status: IncomingRouted, SessionID: one.ID,
	}
}

// OldRead is a command that was done, as versions without an inbox kept it.
type OldRead struct {
	Message string    `json:"message_name"` // spaces/S/messages/M
	At      time.Time `json:"at"`           // by the server's clock, in milliseconds
}

// DidBefore says whether a version without an inbox did a command.
func (s *Session) DidBefore(message string, at time.Time) bool {
	isKnown := slices.ContainsFunc(s.OldDid, func(r OldRead) bool { return r.Message == message })
	return isKnown || !at.After(s.OldCommanded)
}

// WakeMemory is what is remembered of a supervised session from one wake message to the next.
type WakeMemory struct {
	CapturedAt time.Time `json:"captured_at"` // when tmux had answered with Lines
	Lines      []string  `json:"lines"`       // the pane's last ones; nil before the first capture
	Pane       string    `json:"pane"`        // hash of what the pane showed at the last message
	Text       string    `json:"text"`        // hash of the last words that a message carried
	Question   string    `json:"question"`    // the last one that a message carried, below its call's id
	To         string    `json:"to"`          // the agent's session that the last message went to
}

func (s *Session) check(time.Time) error {
	if s.ID == "" {
		return errors.New("session_id is missing")
	}
	return nil
}

// Supersedes says that its Claude Code had another session before, and goes on with this one: after /clear, or /resume.
func (s *Session) Supersedes(other *Session) bool {
	return s.ID != other.ID && s.ClaudePID > 1 && s.ClaudePID == other.ClaudePID && s.ClaudeStart == other.ClaudeStart &&
		s.LastSeen.After(other.LastSeen)
}

// Running says that no hook told of the session's end. Its process may have been killed.
func (s *Session) Running() bool { return s.EndedAt.IsZero() }

type Sessions struct{ Folder[Session] }

// SessionsIn is the folder sessions of a user state folder.
func SessionsIn(userState string) Sessions {
	return Sessions{Folder[Session]{Dir: filepath.Join(userState, "sessions"), writes: quick}}
}

// Of reads a session by Claude Code's own id; fs.ErrNotExist when no hook has written it down.
func (s Sessions) Of(id string) (*Session, error) { return s.Load(safeName(id)) }

// LockNames keeps others from naming a session meanwhile.
func (s Sessions) LockNames() (*Lock, error) { return LockSoon(s.lockPath(".names")) }

// LockWake makes the caller the one hook that tells the agent of a session something. Other
// hooks may change the session meanwhile.
func (s Sessions) LockWake(id string) (*Lock, error) { return LockSoon(s.wakePath(safeName(id))) }

func (s Sessions) wakePath(name string) string { return s.lockPath(name) + ".wake" }

// Change updates a session; it is begun where no hook has written it down.
func (s Sessions) Change(id string, change func(*Session)) (*Session, error) {
	s.begins = func(one *Session) { one.ID = id }
	return s.Folder.Change(safeName(id), change)
}

// Superseded says that the Claude Code of a session goes on with another one: what is said to the first must not reach that.
func (s Sessions) Superseded(one *Session) bool {
	all, _ := s.All()
	return slices.ContainsFunc(all, func(other *Session) bool { return other.Supersedes(one) })
}

// AddNotice leaves the person at a session's terminal a sentence, once.
func (s Sessions) AddNotice(id, sentence string) error {
	if id == "" {
		return nil
	}
	_, err := s.Change(id, func(one *Session) {
		if !slices.Contains(one.Notices, sentence) && len(one.Notices) < 20 {
			one.Notices = append(one.Notices, sentence)
		}
	})
	return err
}

// TakeNotices returns a session's notices, a line each, and forgets them.
func (s Sessions) TakeNotices(id string) (text string) {
	if one, err := s.Of(id); err != nil || len(one.Notices) == 0 {
		return ""
	}
	_, err := s.Change(id, func(one *Session) {
		text = strings.Join(one.Notices, "\n")
		one.Notices = nil
	})
	if err != nil {
		return ""
	}
	return text
}

// CountGateBlock writes down that the stop gate sends a session back, and reports whether it may: at most so many times within
// that time. An error means that nothing could be counted.
func (s Sessions) CountGateBlock(id string, now time.Time, most int, within time.Duration) (ok bool, err error) {
	_, err = s.Change(id, func(one *Session) {
		// Of a clock that was set back, what lies just ahead counts, too.
		one.GateBlocks = slices.DeleteFunc(one.GateBlocks, func(at time.Time) bool { return now.Sub(at).Abs() >= within })
		ok = len(one.GateBlocks) < most
		if ok {
			one.GateBlocks = append(one.GateBlocks, now.UTC())
		}
	})
	return ok && err == nil, err
}

// TmuxSockets are the sockets of the tmux servers that a tmux session of this name was seen on, the last one first.
func (s Sessions) TmuxSockets(tmuxSession string) (sockets []string) {
	all, _ := s.All()
	slices.SortStableFunc(all, func(a, b *Session) int { return b.LastSeen.Compare(a.LastSeen) })
	for _, one := range all {
		if one.TmuxSession == tmuxSession && one.TmuxSocket != "" && !slices.Contains(sockets, one.TmuxSocket) {
			sockets = append(sockets, one.TmuxSocket)
		}
	}
	return sockets
}

// Sweep forgets the sessions without a hook for a month.
func (s Sessions) Sweep(now time.Time) {
	all, _ := s.All()
	for _, one := range all {
		if now.Sub(one.LastSeen) > 30*24*time.Hour && !one.LastSeen.IsZero() {
			_ = s.Remove(NameOf(one.Path))
			os.Remove(s.wakePath(NameOf(one.Path)))
		}
	}
}
