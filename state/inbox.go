package state

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// IncomingStatus is how far the program has come with an incoming message.
type IncomingStatus string

const (
	IncomingNew    IncomingStatus = "new"    // route has not decided yet what it is
	IncomingRouted IncomingStatus = "routed" // it is for the session that SessionID names
	// it is a prompt that waits until Claude can take it
	IncomingKept IncomingStatus = "kept"
	// IncomingDoing means that the program began to carry it out. If the program is
	// killed then, a command is not repeated; of a prompt, it is looked up whether Claude
	// has it.
	IncomingDoing IncomingStatus = "doing"
	IncomingDone  IncomingStatus = "done"
)

// Outcome is what an incoming message turned out to be.
type Outcome string

const (
	OutcomeReply  Outcome = "reply" // the message became a reply to a question
	OutcomePrompt Outcome = "words" // the message was a prompt for Claude
	// the message was one of our commands, or one of Claude Code's
	OutcomeCommand Outcome = "command"
	// it was for nobody; if it stands in a thread of ours, a note there said so
	OutcomeNobody  Outcome = "nobody"
	OutcomeRevoked Outcome = "revoked" // its sender deleted it
)

// Incoming is a message or a tap of a person, once: the file inbox/{id}.json in the
// user's state. Once it is done its text is removed, and a tombstone stays in inbox/done.
// By the tombstone the same message is recognised when it is read again.
type Incoming struct {
	Record
	ID            string `json:"incoming_id"` // see the function IncomingID
	Chat          string `json:"chat"`        // host/spaces/S
	MessageName   string `json:"message_name"`
	ThreadName    string `json:"thread_name,omitempty"` // spaces/S/threads/T
	QuotedMessage string `json:"quotes,omitempty"`      // the message that it quotes
	// the first message of its thread
	FirstThreadMessage string `json:"follows,omitempty"`
	// of a tapped card: the id that we posted the card with; see the function MessageID
	CardClientID string `json:"client_id,omitempty"`
	Sender       string `json:"sender,omitempty"` // users/ID
	SenderEmail  string `json:"sender_email,omitempty"`
	DisplayName  string `json:"display_name,omitempty"`
	Text         string `json:"text,omitempty"`
	// a file or a picture is attached
	HasAttachment bool `json:"attached,omitempty"`
	// what is attached; a record of an earlier version has none
	Files []AttachedFile `json:"files,omitempty"`
	// its sender deleted it, so its reply does not count
	IsRevoked bool         `json:"gone,omitempty"`
	Tap       *IncomingTap `json:"tap,omitempty"` // nil where it is a message
	// Pub/Sub's id of the event; "" for a message that was listed
	EventID   string    `json:"event,omitempty"`
	CreatedAt time.Time `json:"created_at"` // the server's clock
	// CreatedAt by this machine's clock
	LocalCreatedAt time.Time      `json:"said_at"`
	ReadAt         time.Time      `json:"read_at"` // this machine's clock
	Status         IncomingStatus `json:"status"`
	// Claude Code's id of the session that it is for
	SessionID string `json:"session_id,omitempty"`
	// Typing is what the poller typed of a prompt. PrintedAt is when a hook woke the
	// session with it, and TurnEnd is the id of the turn's end at which that was. All are
	// written before the fact.
	Typing    *Typing   `json:"typing,omitempty"`
	PrintedAt time.Time `json:"printed_at,omitzero"`
	TurnEnd   string    `json:"turn_end,omitempty"`
	// the notes about this prompt that its thread already has; see OwedNote.About
	SentNotes []string `json:"told,omitempty"`
	// ResolvedBy is how a prompt ended, in the words of Question.ResolvedBy; "" while it
	// waits. Its thread is then owed a note.
	ResolvedBy string `json:"resolved_by,omitempty"`
	// what the terminal showed for one of Claude Code's own commands
	TerminalOutput string    `json:"said,omitempty"`
	Outcome        Outcome   `json:"outcome,omitempty"`
	EndedAt        time.Time `json:"ended_at,omitzero"`
}

// IncomingTap is what Chat says about a tap on a card.
type IncomingTap struct {
	// identifies the question; see the function CardID
	CardID string              `json:"question"`
	Choice string              `json:"choice"` // the button that was tapped
	Inputs map[string][]string `json:"inputs,omitempty"`
	// the card still had that button when Chat reported the tap
	HadButton bool `json:"stands,omitempty"`
}

// IncomingID returns the id of a message in a chat, host/spaces/S. A tap has no message
// of its own: parts add who tapped what, and when.
func IncomingID(chat, message string, parts ...string) string {
	return Hash(16, strings.Join(append([]string{chat, message}, parts...), "\x00"))
}

// IsTap reports whether it is a tap on a card.
func (in *Incoming) IsTap() bool { return in.Tap != nil }

// IsCommand reports whether it looks like a command, of ours or of Claude Code's.
func (in *Incoming) IsCommand() bool { return strings.HasPrefix(strings.TrimSpace(in.Text), "/") }

// TellFiles adds where the fetched files are to the text. What is left in Files was not
// fetched.
func (in *Incoming) TellFiles() {
	if len(in.Files) == 0 {
		return
	}
	in.Text = WithFileLines(in.Text, in.Files)
	in.Files = slices.DeleteFunc(in.Files, func(f AttachedFile) bool { return f.Path != "" })
	in.HasAttachment = len(in.Files) > 0
}

// ReplyName returns the name of the reply that it becomes in a question.
func (in *Incoming) ReplyName() string {
	if in.IsTap() {
		return "tap/" + cmp.Or(in.EventID, in.ID)
	}
	return in.MessageName
}

// AsReply returns the reply that it becomes in a question.
func (in *Incoming) AsReply() Reply {
	r := Reply{
		MessageName: in.ReplyName(), Sender: in.Sender, SenderEmail: in.SenderEmail,
		DisplayName: in.DisplayName, Text: in.Text, HasAttachment: in.HasAttachment,
		Files: in.Files, CreatedAt: in.CreatedAt,
	}
	if in.IsTap() {
		r.Choice, r.Inputs = in.Tap.Choice, in.Tap.Inputs
	}
	return r
}

// IsWaitingPrompt reports whether it is a prompt for Claude that has not ended.
func (in *Incoming) IsWaitingPrompt() bool {
	isPrompt := in.Status == IncomingKept || in.Typing != nil || !in.PrintedAt.IsZero()
	return isPrompt && in.ResolvedBy == "" && in.Status != IncomingDone
}

// AsQuestion returns a prompt in the form of a question with this reply, for notes, logs
// and lists.
func (in *Incoming) AsQuestion(session *Session) *Question {
	_, space, _ := strings.Cut(in.Chat, "/")
	reply := in.AsReply()
	q := &Question{
		QuestionID: MessageID("said", in.MessageName),
		Kind:       KindPrompt, Mode: ModeNative, Status: Answered,
		AskedAt: in.LocalCreatedAt, PostedAt: &in.LocalCreatedAt,
		SessionID: in.SessionID, ClaudeSessionID: in.SessionID, SessionName: session.Name,
		ProjectDir: session.ProjectDir, CWD: session.CWD,
		ThreadKey:  SessionThreadKey(session.ID),
		ThreadName: session.ThreadName, Chat: session.Chat, Space: space, IsMessageSent: true,
		ClaudePID: session.ClaudePID, ClaudeStart: session.ClaudeStart,
		TmuxSession: session.TmuxSession, TmuxPane: session.TmuxPane, TmuxSocket: session.TmuxSocket,
		SubQuestions: []SubQuestion{{Header: "Said", Question: in.Text}},
		Typing:       in.Typing, ResolvedBy: in.ResolvedBy,
		Answers:  map[string]string{in.Text: in.Text},
		Notes:    map[string]string{in.Text: in.TerminalOutput},
		Response: &in.Text, AnsweredMessage: reply.MessageName,
		AnsweredBy: in.Sender, AnsweredByName: in.DisplayName,
	}
	reply.Verdict = VerdictUsed
	if !in.PrintedAt.IsZero() {
		q.IsPrinted, q.PrintedAt = true, &in.PrintedAt
	}
	switch in.ResolvedBy {
	case "":
	case "chat":
		q.Status, q.ResolvedAt = Resolved, &in.EndedAt
	case EndedReplaced: // the sender was asked what the prompt means
		q.Status, q.ResolvedAt, reply.Verdict = Cancelled, &in.EndedAt, VerdictAskedBack
		q.AnsweredBy, q.AnsweredByName, q.AnsweredMessage = "", "", ""
	case "age":
		q.Status, q.ResolvedAt = Expired, &in.EndedAt
	default:
		q.Status, q.ResolvedAt = Cancelled, &in.EndedAt
	}
	q.Replies = []Reply{reply}
	return q
}

// asOldPrompt returns the prompt that a version without an inbox kept as a question of
// the kind KindPrompt.
func (q *Question) asOldPrompt(now time.Time) *Incoming {
	r := q.Replies[0]
	in := &Incoming{
		ID: IncomingID(q.Chat, r.MessageName), Chat: q.Chat, MessageName: r.MessageName,
		ThreadName: q.ThreadName, Sender: r.Sender, SenderEmail: r.SenderEmail, DisplayName: r.DisplayName,
		Text: r.Text, HasAttachment: r.HasAttachment,
		CreatedAt: r.CreatedAt, LocalCreatedAt: r.CreatedAt, ReadAt: now.UTC(),
		Status: IncomingRouted, SessionID: q.ClaudeSession(),
	}
	if q.Status == Answered {
		in.Status, in.Typing = IncomingKept, q.Typing
		in.Text, _ = q.Decision()
		// versions without an inbox posted these notes when they judged the reply
		in.SentNotes = []string{NoteLater, NoteAttached}
		if q.HasKeptNote {
			in.SentNotes = append(in.SentNotes, NoteStillKept)
		}
		if q.HasSentNote {
			in.SentNotes = append(in.SentNotes, NoteSent)
		}
		if q.PrintedAt != nil {
			in.PrintedAt = *q.PrintedAt
		}
		if in.Typing != nil || q.IsPrinted {
			in.Status = IncomingDoing
		}
	}
	return in
}

func (in *Incoming) check(time.Time) error {
	if in.ID == "" || in.Status == "" {
		return errors.New("incoming_id or status is missing")
	}
	return nil
}

const (
	// tombstoneAge is how long a tombstone is kept after its message was written. A
	// message that is older than MaxQuestionAge when it is read is never used.
	tombstoneAge = 48 * time.Hour
	// maxUndecided is how many messages of one space may be undecided at once.
	// MaxUndecidedOfStranger is the same for one sender who may not answer.
	maxUndecided           = 1000
	MaxUndecidedOfStranger = 20
)

// errInboxFull means that too many messages of a space, or of one stranger, are
// undecided.
var errInboxFull = errors.New("too many messages are undecided: the rest is read later")

// Inbox is the folder of incoming messages. It alone knows which messages were read. For
// a message that is done, Update and Load return fs.ErrNotExist.
type Inbox struct {
	Folder[Incoming]
	tombstones Folder[Incoming]
}

// InboxIn returns the inbox of a user state folder.
func InboxIn(userState string) Inbox {
	dir := filepath.Join(userState, "inbox")
	return Inbox{
		Folder:     Folder[Incoming]{Dir: dir},
		tombstones: Folder[Incoming]{Dir: filepath.Join(dir, "done")},
	}
}

// Add writes a new incoming message into the inbox. Where the inbox has or had it
// already, Add returns that record or its tombstone as existing. isStranger says that its
// sender may not answer. An error means that nothing was written.
func (b Inbox) Add(in *Incoming, isStranger bool) (existing *Incoming, err error) {
	lock, err := LockWithTimeout(b.lockPath("take"))
	if err != nil {
		return nil, fmt.Errorf("add message to inbox: %w", err)
	}
	defer lock.Unlock()
	for _, folder := range []Folder[Incoming]{b.Folder, b.tombstones} {
		existing, err := folder.Load(in.ID)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return existing, err
		}
	}
	names, err := b.Names()
	if err != nil {
		return nil, err
	}
	mayBeFull := isStranger && len(names) >= MaxUndecidedOfStranger || len(names) >= maxUndecided
	if mayBeFull && b.isFull(in, isStranger) {
		return nil, errInboxFull
	}
	return nil, b.Create(in.ID, in)
}

func (b Inbox) isFull(in *Incoming, isStranger bool) bool {
	all, _ := b.All()
	spaceCount, senderCount := 0, 0
	for _, other := range all {
		if other.Chat != in.Chat || other.Status != IncomingNew {
			continue
		}
		spaceCount++
		if other.Sender == in.Sender {
			senderCount++
		}
	}
	return spaceCount >= maxUndecided || isStranger && senderCount >= MaxUndecidedOfStranger
}

// Finish replaces an incoming message by its tombstone.
func (b Inbox) Finish(in *Incoming, outcome Outcome, now time.Time) error {
	tombstone := *in
	// otherwise the members that are emptied below would be written again
	tombstone.rawMembers = nil
	tombstone.Text, tombstone.TerminalOutput, tombstone.Tap = "", "", nil
	tombstone.Files = nil
	tombstone.DisplayName, tombstone.SenderEmail = "", ""
	tombstone.Status, tombstone.Outcome, tombstone.EndedAt = IncomingDone, outcome, now.UTC()
	// so that Add finds either the message or its tombstone
	lock, err := LockWithTimeout(b.lockPath("take"))
	if err != nil {
		return fmt.Errorf("finish message: %w", err)
	}
	defer lock.Unlock()
	// A power cut may lose the tombstone: the record that the message was used for names
	// it, too.
	err = unsynced.write(b.tombstones.path(in.ID), encode(&tombstone, nil), true)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("finish message: %w", err)
	}
	return b.Remove(in.ID)
}

// RemoveFinished removes a message that has its tombstone already, as when a process is
// killed within Finish. It reports whether there was a tombstone.
func (b Inbox) RemoveFinished(id string) (wasFinished bool) {
	if !fileExists(b.tombstones.path(id)) {
		return false
	}
	_ = b.Remove(id)
	return true
}

// RemoveTombstone removes a message's tombstone if it has this outcome, so that Add
// accepts the message again.
func (b Inbox) RemoveTombstone(id string, outcome Outcome) (removed bool, err error) {
	tombstone, err := b.tombstones.Load(id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil || tombstone.Outcome != outcome:
		return false, err
	}
	return true, b.tombstones.Remove(id)
}

// AddOldPrompt moves a prompt that a version without an inbox kept as a question into the
// inbox. The notes that its thread is owed stay with the question.
func (b Inbox) AddOldPrompt(q *Question, now time.Time) error {
	if q.Kind != KindPrompt || !q.Status.IsOpen() || len(q.Replies) == 0 {
		return nil
	}
	_, err := b.Add(q.asOldPrompt(now), false)
	if err != nil {
		return err
	}
	_, err = ChangeQuestion(q.Path, func(q *Question) {
		if q.MoveTo(Cancelled, now) == nil {
			q.ResolvedBy = EndedReplaced
			// so that the reply is neither listed nor judged again
			q.Replies[0].Verdict = VerdictIgnored
		}
	})
	return err
}

// WaitingPrompts returns the waiting prompts of these sessions, or of all where none is
// named; the oldest first.
func (b Inbox) WaitingPrompts(sessionIDs ...string) []*Incoming {
	all, _ := b.All()
	all = slices.DeleteFunc(all, func(in *Incoming) bool {
		isForOther := len(sessionIDs) > 0 && !slices.Contains(sessionIDs, in.SessionID)
		return isForOther || !in.IsWaitingPrompt()
	})
	slices.SortFunc(all, (*Incoming).Compare)
	return all
}

// WaitingPromptQuestions returns the prompts that Claude does not have yet, of all
// sessions, in the form of questions.
func WaitingPromptQuestions(env Getenv) (questions []*Question) {
	user := UserStateDir(env)
	for _, in := range InboxIn(user).WaitingPrompts() {
		session, err := SessionsIn(user).Get(in.SessionID)
		if err == nil {
			questions = append(questions, in.AsQuestion(session))
		}
	}
	return questions
}

// Compare orders messages by when they were written.
func (in *Incoming) Compare(other *Incoming) int {
	return cmp.Or(
		in.CreatedAt.Compare(other.CreatedAt),
		in.ReadAt.Compare(other.ReadAt),
		in.WrittenAt.Compare(other.WrittenAt),
		strings.Compare(in.MessageName, other.MessageName),
	)
}

// EndPrompt records how a waiting prompt ended. It reports whether this call ended it.
func (b Inbox) EndPrompt(id, resolvedBy, terminalOutput string) (ended bool, err error) {
	_, err = b.Change(id, func(in *Incoming) {
		ended = in.IsWaitingPrompt()
		if ended {
			in.ResolvedBy, in.TerminalOutput = resolvedBy, terminalOutput
			in.EndedAt = time.Now().UTC()
		}
	})
	return ended && err == nil, err
}

// Sweep removes tombstones that are older than tombstoneAge, and finishes messages of
// that age that were neither decided nor carried out.
func (b Inbox) Sweep(now time.Time) {
	undecided, _ := b.All()
	for _, in := range undecided {
		if now.Sub(in.LocalCreatedAt) > tombstoneAge && now.Sub(in.ReadAt) > tombstoneAge {
			_ = b.Finish(in, OutcomeNobody, now)
		}
	}
	tombstones, _ := b.tombstones.All()
	for _, tombstone := range tombstones {
		isOld := now.Sub(tombstone.LocalCreatedAt) > tombstoneAge
		if isOld && now.Sub(tombstone.EndedAt) > time.Hour {
			_ = b.tombstones.Remove(tombstone.ID)
		}
	}
	RemoveTemporaryFiles(b.Dir)
	RemoveTemporaryFiles(b.tombstones.Dir)
}
