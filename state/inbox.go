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

// IncomingStatus is how far the program is with what a person wrote.
type IncomingStatus string

const (
	IncomingNew    IncomingStatus = "new"    // it is not decided what it is
	IncomingRouted IncomingStatus = "routed" // it is for the session that it names
	IncomingKept   IncomingStatus = "kept"   // words that Claude is to get
	// IncomingDoing says that the program began to do what it asks for. A command is not
	// done again; whether words arrived is looked for.
	IncomingDoing IncomingStatus = "doing"
	IncomingDone  IncomingStatus = "done"
)

// Outcome is what an incoming message turned out to be.
type Outcome string

const (
	OutcomeReply   Outcome = "reply"   // it stands in a question
	OutcomePrompt  Outcome = "words"   // for Claude
	OutcomeCommand Outcome = "command" // of ours
	OutcomeNobody  Outcome = "nobody"  // nothing took it; its thread was told, where it is ours
	OutcomeRevoked Outcome = "revoked" // its sender took it back
)

// Incoming is something that a person wrote or tapped, once: file inbox/{id}.json in the
// user's state. When it is done, its words go, and what is left is a tombstone in
// inbox/done: the same message is known by it when it is read again.
type Incoming struct {
	Record
	ID            string `json:"incoming_id"` // see IncomingID
	Chat          string `json:"chat"`        // host/spaces/S
	MessageName   string `json:"message_name"`
	ThreadName    string `json:"thread_name,omitempty"` // spaces/S/threads/T
	QuotedMessage string `json:"quotes,omitempty"`      // the message that it quotes
	// the message that its thread begins with
	FirstThreadMessage string `json:"follows,omitempty"`
	// of a tapped card: see MessageID
	CardClientID string `json:"client_id,omitempty"`
	Sender       string `json:"sender,omitempty"` // users/ID
	SenderEmail  string `json:"sender_email,omitempty"`
	DisplayName  string `json:"display_name,omitempty"`
	Text         string `json:"text,omitempty"`
	// a file or a picture came with it
	HasAttachment bool `json:"attached,omitempty"`
	// its sender took it back: its reply counts no more
	IsRevoked bool         `json:"gone,omitempty"`
	Tap       *IncomingTap `json:"tap,omitempty"` // nil of a message
	// Pub/Sub's id of the event; "" of what was listed
	EventID   string    `json:"event,omitempty"`
	CreatedAt time.Time `json:"created_at"` // the server's clock
	// the same by this machine's clock
	LocalCreatedAt time.Time      `json:"said_at"`
	ReadAt         time.Time      `json:"read_at"` // this machine's clock
	Status         IncomingStatus `json:"status"`
	// Claude Code's, of the session that it is for
	SessionID string `json:"session_id,omitempty"`
	// Typing is what the poller typed of words, and PrintedAt is when a hook woke their
	// session with them. Both are written before.
	Typing    *Typing   `json:"typing,omitempty"`
	PrintedAt time.Time `json:"printed_at,omitzero"`
	// which notes of them their thread was given; see Owed.About
	SentNotes []string `json:"told,omitempty"`
	// ResolvedBy is how words ended, as of a question; "" while they wait. Their thread
	// is owed a note of that.
	ResolvedBy string `json:"resolved_by,omitempty"`
	// by the terminal, of one of Claude Code's own commands
	TerminalOutput string    `json:"said,omitempty"`
	Outcome        Outcome   `json:"outcome,omitempty"`
	EndedAt        time.Time `json:"ended_at,omitzero"`
}

// IncomingTap is what a card tells of a tap on it.
type IncomingTap struct {
	// what the card carries for its question: see CardID
	CardID string              `json:"question"`
	Choice string              `json:"choice"` // which button it was
	Inputs map[string][]string `json:"inputs,omitempty"`
	// the card had that button when Chat told of the tap
	HadButton bool `json:"stands,omitempty"`
}

// IncomingID is the id of a message that was written in a chat, host/spaces/S. A tap has
// no message of its own: parts say who tapped what, and when.
func IncomingID(chat, message string, parts ...string) string {
	return Hash(16, strings.Join(append([]string{chat, message}, parts...), "\x00"))
}

// IsTap says whether it is a tap on a card.
func (in *Incoming) IsTap() bool { return in.Tap != nil }

// IsCommand says whether it looks like a command: of ours, or of Claude Code's.
func (in *Incoming) IsCommand() bool { return strings.HasPrefix(strings.TrimSpace(in.Text), "/") }

// ReplyName names the reply that it becomes in a question.
func (in *Incoming) ReplyName() string {
	if in.IsTap() {
		return "tap/" + cmp.Or(in.EventID, in.ID)
	}
	return in.MessageName
}

// AsReply is the reply that it becomes in a question.
func (in *Incoming) AsReply() Reply {
	r := Reply{
		MessageName: in.ReplyName(), Sender: in.Sender, SenderEmail: in.SenderEmail,
		DisplayName: in.DisplayName, Text: in.Text, HasAttachment: in.HasAttachment, CreatedAt: in.CreatedAt,
	}
	if in.IsTap() {
		r.Choice, r.Inputs = in.Tap.Choice, in.Tap.Inputs
	}
	return r
}

// IsWaitingPrompt says whether it is words for Claude that have not ended.
func (in *Incoming) IsWaitingPrompt() bool {
	isPrompt := in.Status == IncomingKept || in.Typing != nil || !in.PrintedAt.IsZero()
	return isPrompt && in.ResolvedBy == "" && in.Status != IncomingDone
}

// AsQuestion is words for a session as a question with this reply: for notes, logs and
// lists.
func (in *Incoming) AsQuestion(session *Session) *Question {
	_, space, _ := strings.Cut(in.Chat, "/")
	reply := in.AsReply()
	q := &Question{
		QuestionID: MessageID(
			"said",
			in.MessageName,
		), Kind: KindPrompt, Mode: ModeNative, Status: Answered,
		AskedAt: in.LocalCreatedAt, PostedAt: &in.LocalCreatedAt, SessionID: in.SessionID, ClaudeSessionID: in.SessionID,
		SessionName: session.Name, ProjectDir: session.ProjectDir, CWD: session.CWD,
		ThreadKey: SessionThreadKey(
			session.ID,
		), ThreadName: session.ThreadName, Chat: session.Chat, Space: space,
		IsMessageSent: true, ClaudePID: session.ClaudePID, ClaudeStart: session.ClaudeStart,
		TmuxSession: session.TmuxSession, TmuxPane: session.TmuxPane, TmuxSocket: session.TmuxSocket,
		SubQuestions: []SubQuestion{
			{Header: "Said", Question: in.Text},
		}, Typing: in.Typing, ResolvedBy: in.ResolvedBy,
		Answers: map[string]string{
			in.Text: in.Text,
		}, Notes: map[string]string{in.Text: in.TerminalOutput},
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
	case EndedReplaced: // they were asked back
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

// asOldPrompt are the words of a question of the kind Said, as versions without an inbox
// kept them.
func (q *Question) asOldPrompt(now time.Time) *Incoming {
	r := q.Replies[0]
	in := &Incoming{
		ID: IncomingID(q.Chat, r.MessageName), Chat: q.Chat, MessageName: r.MessageName,
		ThreadName: q.ThreadName, Sender: r.Sender, SenderEmail: r.SenderEmail, DisplayName: r.DisplayName,
		Text: r.Text, HasAttachment: r.HasAttachment, CreatedAt: r.CreatedAt, LocalCreatedAt: r.CreatedAt, ReadAt: now.UTC(),
		Status: IncomingRouted, SessionID: q.ClaudeSession(),
	}
	if q.Status == Answered {
		in.Status, in.Typing = IncomingKept, q.Typing
		in.Text, _ = q.Decision()
		in.SentNotes = []string{NoteLater, NoteAttached} // with the judging
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
	// tombstoneAge is how long a tombstone is kept after its message was written. What is
	// older than MaxQuestionAge when it is read is never used.
	tombstoneAge = 48 * time.Hour
	// maxUndecided is how many messages of a space may be undecided, and
	// MaxUndecidedOfStranger how many of one sender who may not answer.
	maxUndecided           = 1000
	MaxUndecidedOfStranger = 20
)

// errInboxFull says that too much of a space, or of a stranger, is undecided.
var errInboxFull = errors.New("too many messages are undecided: the rest is read later")

// Inbox is the folder of incoming messages. No other place knows which messages were
// read. Update and Load of one that is done are fs.ErrNotExist.
type Inbox struct {
	Folder[Incoming]
	tombstones Folder[Incoming]
}

// InboxIn is the inbox of a user state folder.
func InboxIn(userState string) Inbox {
	dir := filepath.Join(userState, "inbox")
	return Inbox{
		Folder:     Folder[Incoming]{Dir: dir},
		tombstones: Folder[Incoming]{Dir: filepath.Join(dir, "done")},
	}
}

// Add writes an incoming message down, unless it was written down before. Then it returns
// that record, or its tombstone. isStranger says that its sender may not answer. An error
// means that nothing was written.
func (b Inbox) Add(in *Incoming, isStranger bool) (existing *Incoming, err error) {
	lock, err := LockWithTimeout(b.lockPath("take"))
	if err != nil {
		return nil, fmt.Errorf("take message: %w", err)
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

// Finish leaves of an incoming message its tombstone.
func (b Inbox) Finish(in *Incoming, outcome Outcome, now time.Time) error {
	tombstone := *in
	tombstone.rawMembers = nil // else what is emptied comes back
	tombstone.Text, tombstone.TerminalOutput, tombstone.Tap, tombstone.DisplayName, tombstone.SenderEmail = "", "", nil, "", ""
	tombstone.Status, tombstone.Outcome, tombstone.EndedAt = IncomingDone, outcome, now.UTC()
	lock, err := LockWithTimeout(b.lockPath("take")) // Take finds the one or the other
	if err != nil {
		return fmt.Errorf("finish message: %w", err)
	}
	defer lock.Unlock()
	// A power cut may take it: what it was used for says so, too.
	err = unsynced.write(b.tombstones.path(in.ID), encode(&tombstone, nil), true)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("finish message: %w", err)
	}
	return b.Remove(in.ID)
}

// RemoveFinished takes a message away that has its tombstone already: a process was
// killed in Finish. It reports whether that was so.
func (b Inbox) RemoveFinished(id string) (wasFinished bool) {
	if !fileExists(b.tombstones.path(id)) {
		return false
	}
	_ = b.Remove(id)
	return true
}

// RemoveTombstone has Take take a message once more that this became of.
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

// AddOldPrompt takes words that a version without an inbox kept as a question. What their
// thread is owed stays with the question.
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
			q.Replies[0].Verdict = VerdictIgnored // no list brings it again, and nothing judges it
		}
	})
	return err
}

// WaitingPrompts are the words for sessions that wait, the oldest first; without names,
// for all.
func (b Inbox) WaitingPrompts(sessionIDs ...string) []*Incoming {
	all, _ := b.All()
	all = slices.DeleteFunc(all, func(in *Incoming) bool {
		isForOther := len(sessionIDs) > 0 && !slices.Contains(sessionIDs, in.SessionID)
		return isForOther || !in.IsWaitingPrompt()
	})
	slices.SortFunc(all, (*Incoming).Compare)
	return all
}

// WaitingPromptQuestions are the words for sessions that Claude does not have yet, as
// questions look.
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

// Compare orders messages as they were written.
func (in *Incoming) Compare(other *Incoming) int {
	return cmp.Or(
		in.CreatedAt.Compare(other.CreatedAt),
		in.ReadAt.Compare(other.ReadAt),
		in.WrittenAt.Compare(other.WrittenAt),
		strings.Compare(in.MessageName, other.MessageName),
	)
}

// EndPrompt notes how words ended that wait. It reports whether this call ended them.
func (b Inbox) EndPrompt(id, resolvedBy, terminalOutput string) (ended bool, err error) {
	_, err = b.Change(id, func(in *Incoming) {
		ended = in.IsWaitingPrompt()
		if ended {
			in.ResolvedBy, in.TerminalOutput, in.EndedAt = resolvedBy, terminalOutput, time.Now().
				UTC()
		}
	})
	return ended && err == nil, err
}

// Sweep removes old tombstones, and ends what nobody decided or did for as long as those
// are kept.
func (b Inbox) Sweep(now time.Time) {
	undecided, _ := b.All()
	for _, in := range undecided {
		if now.Sub(in.LocalCreatedAt) > tombstoneAge && now.Sub(in.ReadAt) > tombstoneAge {
			_ = b.Finish(in, OutcomeNobody, now)
		}
	}
	tombstones, _ := b.tombstones.All()
	for _, tombstone := range tombstones {
		if now.Sub(tombstone.LocalCreatedAt) > tombstoneAge &&
			now.Sub(tombstone.EndedAt) > time.Hour {
			_ = b.tombstones.Remove(tombstone.ID)
		}
	}
	RemoveTemporaryFiles(b.Dir)
	RemoveTemporaryFiles(b.tombstones.Dir)
}
