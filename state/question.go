package state

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Status is where a question is in its life.
type Status string

const (
	Pending Status = "pending" // asked, not answered yet
	// a reply became its answer; Claude Code has not confirmed it yet
	Answered Status = "answered"
	// Claude Code has the answer, from the thread or from the terminal
	Resolved  Status = "resolved"
	Cancelled Status = "cancelled" // ended by Esc, quit, a crash or "chat about this"
	Abandoned Status = "abandoned" // its tmux session is gone (inject mode)
	TimedOut  Status = "timeout"   // not answered in time (deny mode)
	Expired   Status = "expired"   // 24 hours old
)

// IsOpen reports whether an answer can still be delivered to Claude.
func (s Status) IsOpen() bool { return s == Pending || s == Answered }

// nextStatuses holds the allowed steps of a question's life. A closed question never
// opens again, except for one that timed out.
var nextStatuses = map[Status][]Status{
	Pending:  {Answered, Resolved, Cancelled, Abandoned, TimedOut, Expired},
	Answered: {Resolved, Cancelled, Abandoned, Expired},
	TimedOut: {Answered, Resolved, Expired}, // a late reply still counts
}

// ErrTransition means that a question's life does not allow a step, since another process
// changed its status first.
var ErrTransition = errors.New("question is in another state")

// The labels of decisions. They are values of Answers, as labels of options are; a
// person's remark beside one is in Notes. A person sees LabelApproveAuto as "Approve,
// accept edits", after the permission mode that it sets; records keep the label that
// other releases know.
const (
	LabelAllow       = "Allow"
	LabelAlways      = "Always"
	LabelDeny        = "Deny"
	LabelApprove     = "Approve"
	LabelApproveAuto = "Approve, auto"
	LabelSendBack    = "Send back"
	LabelAccept      = "Accept"
	LabelDecline     = "Decline"
	LabelCancel      = "Cancel"
)

// IsRefusal reports whether a decision keeps Claude from acting.
func IsRefusal(label string) bool {
	return slices.Contains([]string{LabelDeny, LabelSendBack, LabelDecline, LabelCancel}, label)
}

// MaxAboutLength is how long a file's name, or what "always" would allow, may be if it is
// to be decided from Chat, in bytes: a card always has room for that much.
const MaxAboutLength = 300

// What a person may reply in place of an answer. An option with such a label has
// precedence.
const (
	DeclinedChat = "chat" // Claude is told that the person wants to talk about it first
	// leave the question to the terminal; where it shows no dialog, Claude is told so
	DeclinedSkip = "skip"
)

// TimeoutPolicy is what happens to a question in deny mode that gets no reply in time.
type TimeoutPolicy string

const (
	TimeoutLeaveOpen TimeoutPolicy = "leave" // Claude is told that no reply came
	// the recommended option, else the first, is chosen for the person
	TimeoutRecommended TimeoutPolicy = "recommended"
	// Claude is told to ask again, and that goes to the terminal
	TimeoutAskTerminal TimeoutPolicy = "ask-terminal"
)

// Option is one choice of a SubQuestion, with the members of Claude Code's
// AskUserQuestion tool.
type Option struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
	Preview     string `json:"preview,omitempty"`
}

// SubQuestion is one of the one to four questions of an AskUserQuestion call. Question is
// the raw text, which is the key of its answer: it is never trimmed or normalised.
type SubQuestion struct {
	Question    string   `json:"question"`
	Header      string   `json:"header,omitempty"`
	Options     []Option `json:"options"`
	MultiSelect bool     `json:"multiSelect"`
	OptionCount int      `json:"option_count"`
}

// Field is one field of a form. Name is the raw key of its value: it is never trimmed or
// normalised.
type Field struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"about,omitempty"`
	Type        string `json:"type"` // string, number, integer, boolean or array
	Format      string `json:"format,omitempty"`
	// a regular expression, which is shown and never run
	Pattern    string `json:"pattern,omitempty"`
	IsRequired bool   `json:"required,omitempty"`
	// limits of a number, of a text's length, or of how many options are chosen
	Min     *float64 `json:"min,omitempty"`
	Max     *float64 `json:"max,omitempty"`
	Options []Option `json:"options,omitempty"` // the options to choose from
	// the values of the Options, in their order
	Values []string `json:"values,omitempty"`
	// the value of a field that is left empty
	Default json.RawMessage `json:"default,omitempty"`
}

// Answer is the answer to one SubQuestion.
type Answer struct {
	Labels []string `json:"labels,omitempty"` // the chosen options' labels, in the options' order
	Text   string   `json:"text,omitempty"`   // text of the person's own
	Notes  string   `json:"notes,omitempty"`  // a remark beside a choice
}

// Value returns the answer as Claude Code's `answers` map has it: labels and own text,
// joined by ", ".
func (a Answer) Value() string {
	parts := slices.Clone(a.Labels)
	if a.Text != "" {
		parts = append(parts, a.Text)
	}
	return strings.Join(parts, ", ")
}

// IsEmpty reports whether nothing was chosen or written.
func (a Answer) IsEmpty() bool { return len(a.Labels) == 0 && a.Text == "" }

// Verdict is how a reply was judged.
type Verdict string

const (
	VerdictUnread  Verdict = ""        // the poller stored it, and nothing has judged it yet
	VerdictUsed    Verdict = "used"    // it became the answer, or declined the question
	VerdictKept    Verdict = "kept"    // it answered some of several questions
	VerdictRefused Verdict = "refused" // its sender may not answer
	// it named an option that does not exist, and its sender was asked
	VerdictAskedBack Verdict = "asked_back"
	VerdictAskedHow  Verdict = "asked_how" // it asked what one can reply
	VerdictLate      Verdict = "late"      // the question was answered or closed already
	VerdictIgnored   Verdict = "ignored"   // older than the question, or without text
	// nothing can deliver it: only the terminal answers this question
	VerdictNoWaiter Verdict = "unwaited"
)

// LocalSender is the sender of a reply that did not come through Chat: a program or
// person wrote it into the state folder, where only the session's owner can write.
const LocalSender = "local"

// Reply is a message or tap of a person in the question's thread. MessageName is its Chat
// resource name, and is used once.
type Reply struct {
	MessageName string    `json:"message_name"`
	Sender      string    `json:"sender"` // users/ID
	SenderEmail string    `json:"sender_email,omitempty"`
	DisplayName string    `json:"display_name,omitempty"`
	Text        string    `json:"text"`
	CreatedAt   time.Time `json:"create_time"` // the server's clock
	Verdict     Verdict   `json:"verdict,omitempty"`
	// a file or a picture came with it
	HasAttachment bool `json:"attached,omitempty"`
	// what came with it; a record of an earlier version has none
	Files []AttachedFile `json:"files,omitempty"`
	// it may be for another question of its thread
	IsUnsure bool   `json:"unsure,omitempty"`
	Choice   string `json:"choice,omitempty"` // for a tap: the button
	// for a tap: what the card's fields contained
	Inputs map[string][]string `json:"inputs,omitempty"`
}

// Typing is the poller's record of the keys that it sent for a question or a prompt. It
// is written before each key.
type Typing struct {
	LastKeyAt time.Time `json:"at"` // when the last key was sent
	// how many keys were sent; the last one may not have been
	KeyCount int    `json:"keys"`
	LastKey  string `json:"last"`             // the last key; "text" for a text
	IsSubmit bool   `json:"commit,omitempty"` // the last key submits the answer
	// the typing is complete; otherwise the poller is typing, or was killed while it
	// typed
	IsEnded bool   `json:"ended,omitempty"`
	Result  string `json:"result,omitempty"` // injected, clean or dirty
	Why     string `json:"why,omitempty"`    // the reason, for a person
}

// KeyQueued is the LastKey of a prompt that was typed while Claude worked: Claude Code
// then queues it.
const KeyQueued = "queued"

// OwedNote is a note that a question's thread does not have yet. It is part of the same
// write as the step that it reports. The poller writes its text from the question, puts
// it into the outbox, and then removes it here.
type OwedNote struct {
	// what the note is about: one of the constants that begin with Note
	About        string `json:"about"`
	ReplyMessage string `json:"reply,omitempty"` // the reply that it answers; "" for none
	// what the note has to say that the question does not hold
	Text string `json:"seen,omitempty"`
}

// What notes are about.
const (
	NoteClosed = "closed" // how the question ended
	// the answer was given to Claude Code, which has not confirmed it for ten seconds
	NoteSent    = "sent"
	NoteRefused = "refused" // the sender may not answer
	NoteLate    = "late"    // the question was answered or closed already
	// the reply is no valid answer, such as a number without an option
	NoteUnclear = "no option"
	NoteKept    = "kept" // an answer to some of several questions
	// Claude reads the reply with its next step, or when its session is resumed
	NoteLater    = "later"
	NoteNoText   = "no text"   // an attachment is no answer
	NoteAttached = "attached"  // the text of a reply is used; a file that came with it is not
	NoteNoWaiter = "unwaited"  // only the terminal can answer
	NoteUnread   = "unread"    // the space cannot be read
	NoteDryRun   = "dry run"   // nothing is typed in a dry run, and the reply is not kept
	NoteNotTyped = "not typed" // the answer was typed only in part (inject)
	NoteFullText = "more"      // the full text of what a permission is for
	NoteReminder = "reminder"  // the question is still open
	// an answer that did not reach Claude is sent to it as a prompt
	NoteSendUnsent = "send"
	NoteGranted    = "granted" // permissions are allowed for a while from now on
	// NoteHandedOver is about a dialog that only the terminal can answer from now on.
	NoteHandedOver = "handed over"

	// NoteStillKept tells a person that their message to a session has waited for more
	// than two minutes: the session cannot take it yet.
	NoteStillKept = "still kept"
)

// Question is something that a person was asked, and its whole life, as it is in its
// file. Other programs read the first block of members; the second is ours. A Question
// without SubQuestions is a thread that a process waits in.
type Question struct {
	Record
	QuestionID string `json:"question_id"` // a UUID; in deny mode the thread key
	// what stop gates compare with; see the function SessionID
	SessionID   string    `json:"session_id"`
	TmuxSession string    `json:"tmux_session"`
	AskedAt     time.Time `json:"asked_at"` // this machine's clock, UTC
	ThreadKey   string    `json:"gchat_thread_key"`
	// spaces/S/threads/T, from Chat's response to the post
	ThreadName string `json:"gchat_thread_name"`
	// threads that it was in before Chat put a later note into another one
	FormerThreads []string      `json:"gchat_former_threads,omitempty"`
	IsMessageSent bool          `json:"gchat_message_sent"`
	MessageName   string        `json:"gchat_message_name"` // spaces/S/messages/M
	SubQuestions  []SubQuestion `json:"questions"`
	Status        Status        `json:"status"`
	ResolvedAt    *time.Time    `json:"resolved_at"`
	// the reply's text, trimmed
	Response *string `json:"response"`
	// single_select, multi_select, custom_text, multi_question
	ResponseType       *string `json:"response_type"`
	InjectionAttempted bool    `json:"injection_attempted"`
	InjectionSucceeded *bool   `json:"injection_succeeded"`

	// Claude Code's own id; see the method ClaudeSession
	ClaudeSessionID string `json:"claude_session_id,omitempty"`
	Mode            Mode   `json:"mode"`
	Kind            Kind   `json:"kind,omitempty"`
	// the tool that Claude asks a permission for
	ToolName string `json:"tool_name,omitempty"`
	// what a permission is for, in one line
	About string `json:"about,omitempty"`
	// a command, a diff, a plan, or Claude's last text; with secrets masked
	ShownText string `json:"shown,omitempty"`
	// the figures of the turn that ended before a "next instruction" question; "" for none
	TurnFigures string `json:"turn,omitempty"`
	// what "always" would allow; "" where that is not offered
	AlwaysAllows   string `json:"always_allows,omitempty"`
	IsTerminalOnly bool   `json:"terminal_only,omitempty"` // no reply can allow it
	// who could decide when it was asked; nil where that is not known
	Approvers *[]string `json:"approvers,omitempty"`
	Fields    []Field   `json:"fields,omitempty"` // the fields of a form
	// the id of a form that is a link; ShownText is the link
	LinkID string `json:"link_id,omitempty"`
	// the setting when the question was asked
	NeverRemote []string `json:"never_remote,omitempty"`
	// the texts that never_remote is matched against: a command, a file
	CallTexts []string `json:"call,omitempty"`
	// which of our registered hooks received its event
	SeenByHooks []string `json:"seen_by,omitempty"`
	// how long it is held back while its person types in its pane
	GracePeriod time.Duration `json:"grace,omitempty"`
	// when reminders are due, counted from AskedAt
	RemindAfter []time.Duration `json:"remind,omitempty"`
	// how many reminders its thread has
	RemindersSent int    `json:"reminded,omitempty"`
	ProjectDir    string `json:"project_dir,omitempty"`
	CWD           string `json:"cwd,omitempty"`
	SessionName   string `json:"session_name"`
	Machine       string `json:"machine,omitempty"`   // what people call the machine
	PromptID      string `json:"prompt_id,omitempty"` // Claude Code's, from 2.1.196
	// the id of the turn's end at which it was asked; "" if it asks for no next instruction
	TurnEnd   string `json:"turn_end,omitempty"`
	ToolUseID string `json:"tool_use_id,omitempty"`
	// the subagent that asks; "" for the session itself
	AgentID   string `json:"agent_id,omitempty"`
	AgentType string `json:"agent_type,omitempty"`
	// that agent's task, in Claude's words
	AgentTask string `json:"agent_task,omitempty"`
	// IsDialogHidden says that the terminal shows no dialog while the question's hook
	// waits.
	IsDialogHidden bool `json:"hidden,omitempty"`
	// WantedInTerminalAt is when it was seen that a person wants a hidden dialog in the
	// terminal.
	WantedInTerminalAt *time.Time `json:"wanted_at,omitempty"`
	// HandedOverAt is when the hidden dialog was left to the terminal, which alone can
	// answer it since. The question stays open until it is known how it ended.
	HandedOverAt *time.Time `json:"handed_over,omitempty"`
	// UnsupportedClaude is the version of Claude Code that takes no answer to it but from
	// its terminal, by a check. Only the first such question of a session has it; see
	// LeaveToTerminal.
	UnsupportedClaude string `json:"unsupported_claude,omitempty"`
	// a hash of its questions; it relates a PermissionRequest to the question
	InputHash string `json:"input_hash,omitempty"`
	ClaudePID int    `json:"claude_pid,omitempty"`
	// when that process started: its pid may be reused
	ClaudeStart string `json:"claude_start,omitempty"`
	TmuxPane    string `json:"tmux_pane,omitempty"` // %N
	// the socket of the pane's tmux server
	TmuxSocket string `json:"tmux_socket,omitempty"`
	// in how many cycles in a row the poller did not find the pane (inject)
	PaneMissedCycles int `json:"tmux_missed,omitempty"`
	// host/spaces/S: the space that it is in
	Chat string `json:"chat,omitempty"`
	// spaces/S/messages/M: the message that has its buttons
	CardMessage string     `json:"card,omitempty"`
	Space       string     `json:"space,omitempty"`     // spaces/S
	PostedAt    *time.Time `json:"posted_at,omitempty"` // the server's clock
	// when the person was called because it waits (notify)
	CalledAt *time.Time `json:"called_at,omitempty"`
	// the call that it is over is in the outbox
	IsCallOver bool `json:"call_over,omitempty"`
	// why it is not posted yet, without secrets
	PostError string `json:"post_error,omitempty"`
	// the notes that its thread does not have yet
	OwedNotes []OwedNote `json:"owes,omitempty"`
	// its thread has the note NoteStillKept
	HasKeptNote bool `json:"told_kept,omitempty"`
	// its thread has the note that replies cannot be read
	HasUnreadNote bool `json:"told_unread,omitempty"`
	// the waiting hook gave the answer to Claude Code
	IsPrinted bool       `json:"printed,omitempty"`
	PrintedAt *time.Time `json:"printed_at,omitempty"` // this machine's clock, UTC
	// its thread has the note that the answer was sent to Claude
	HasSentNote bool    `json:"told_sent,omitempty"`
	Replies     []Reply `json:"replies,omitempty"`
	// a process of the asking hook has a model word it; see WordQuestionFlag
	IsWordedByAsker bool `json:"asker_words,omitempty"`
	// a model's wording of the SubQuestions' texts
	Wording []string `json:"wording,omitempty"`
	// a model was asked for a wording and gave none of use
	IsWordingTried bool    `json:"format_tried,omitempty"`
	WordingCostUSD float64 `json:"format_usd,omitempty"` // what the wording cost
	// Claude Code was told that the call is denied (deny)
	IsDenied      bool          `json:"denied,omitempty"`
	TimeoutPolicy TimeoutPolicy `json:"timeout_policy,omitempty"` // (deny)
	// this machine's clock, UTC (deny, and a thread)
	TimesOutAt *time.Time `json:"times_out_at,omitempty"`
	// this machine's clock, UTC (deny)
	SessionEndedAt *time.Time `json:"session_ended_at,omitempty"`
	// when a hook ended in order to wake the session (deny)
	DeliveredAt *time.Time `json:"delivered_at,omitempty"`
	// the transcript holds the answer, or delivery was given up (deny)
	IsDeliverySeen bool `json:"delivery_seen,omitempty"`
	// it was asked in the terminal after its timeout (deny)
	IsAskedAgain bool `json:"asked_again,omitempty"`
	// answers by index into SubQuestions, until all are answered
	PartialAnswers map[int]Answer    `json:"partial,omitempty"`
	Answers        map[string]string `json:"answers,omitempty"` // by raw question text
	// remarks, by raw question text
	Notes map[string]string `json:"notes,omitempty"`
	// what a person replied in place of an answer
	Declined string `json:"declined,omitempty"`
	// the person's text beside Declined
	DeclinedText string `json:"declined_words,omitempty"`
	// what the poller typed (inject)
	Typing     *Typing `json:"typing,omitempty"`
	AnsweredBy string  `json:"answered_by,omitempty"` // users/ID
	// the person's display name, where Chat has one
	AnsweredByName string `json:"answered_by_name,omitempty"`
	// the message whose text became the answer
	AnsweredMessage string `json:"answered_message,omitempty"`
	// it was answered by allowing permissions for a while, or such a grant allowed it
	Grant *Grant `json:"grant,omitempty"`
	// when the session's person last refused, which ends the grant
	LastDenialAt time.Time `json:"no_at,omitzero"`
	// how long Claude Code waited for an answer before it went on
	AwayAfter time.Duration `json:"away_after,omitempty"`
	// its session accepted prompts when Claude Code went on
	AcceptsPrompts bool `json:"takes_words,omitempty"`
	// ResolvedBy says how the question ended: chat, terminal, stop, prompt, session_end,
	// cleared, signal, unposted, claude_gone, tmux_gone, screen, not_typed, superseded,
	// age, timeout, policy, agent_end, tool_end, unseen, unconfirmed, away, dialog_gone
	// or instead.
	ResolvedBy string `json:"resolved_by,omitempty"`
}

// QuestionThreadKey returns the key of the thread that a question begins: "ask-user-" and
// the first eight digits of its id.
func QuestionThreadKey(questionID string) string { return "ask-user-" + questionID[:8] }

// SessionID returns what a session is called in the files of its questions:
// $CLAUDE_SESSION_ID, which launch scripts set and stop gates compare with, else Claude
// Code's own id. Two sessions may have the same.
func SessionID(env Getenv, claudeSessionID string) string {
	return cmp.Or(env("CLAUDE_SESSION_ID"), claudeSessionID)
}

// ClaudeSession returns Claude Code's own id of the session that asked. Files of earlier
// versions and of other programs have only a session_id.
func (q *Question) ClaudeSession() string { return cmp.Or(q.ClaudeSessionID, q.SessionID) }

// SessionFileName returns the session_id as it is in the names of files.
func (q *Question) SessionFileName() string { return safeFileName(q.SessionID) }

// MarkerQuestionID returns the id of a question in deny mode, which is also the key of
// its thread. It names the session, since people and other programs look for it by that.
func MarkerQuestionID(sessionID, uuid string) string {
	return "ask-" + safeFileName(sessionID) + "-" + uuid[:8]
}

// IsAnswerable reports whether a reply may still become the question's answer, even after
// a timeout as long as nothing else was chosen. A dialog that was handed over is answered
// by the terminal alone.
func (q *Question) IsAnswerable() bool {
	return q.Status == Pending && q.HandedOverAt == nil ||
		q.Status == TimedOut && len(q.Answers) == 0 && !q.IsAskedAgain
}

// MayExplainDialog reports whether a dialog in its session's terminal may belong to this
// question.
func (q *Question) MayExplainDialog() bool {
	isDrawn := q.IsDialogDrawn() && q.Mode.Traits().HasDialog || q.HandedOverAt != nil
	return q.Status.IsOpen() && isDrawn && !q.Kind.Traits().IsPrompt
}

// IsLate reports whether the question timed out and a reply would still count.
func (q *Question) IsLate(now time.Time) bool {
	return q.Status == TimedOut && q.IsAnswerable() && now.Sub(q.AskedAt) < MaxQuestionAge
}

// HasUnreadReply reports whether a reply waits to be judged.
func (q *Question) HasUnreadReply() bool {
	return slices.ContainsFunc(q.Replies, func(r Reply) bool { return r.Verdict == VerdictUnread })
}

// MoveTo gives the question its next status, or returns ErrTransition where its life does
// not allow that.
func (q *Question) MoveTo(status Status, now time.Time) error {
	isTerminalOnly := status == Answered && q.HandedOverAt != nil
	if isTerminalOnly || !slices.Contains(nextStatuses[q.Status], status) {
		return fmt.Errorf("move question from %s to %s: %w", q.Status, status, ErrTransition)
	}
	q.Status = status
	q.ResolvedAt = nil
	if status != Answered {
		q.ResolvedAt = new(now.UTC())
	}
	return nil
}

// WithdrawAnswer takes back an answer that reached nobody: the question waits for another
// reply.
func (q *Question) WithdrawAnswer() {
	if r := q.FindReply(q.AnsweredMessage); r != nil {
		r.Verdict = VerdictNoWaiter
	}
	q.Status = Pending
	q.Answers, q.Notes, q.Response, q.ResponseType = nil, nil, nil, nil
	q.AnsweredBy, q.AnsweredByName, q.AnsweredMessage = "", "", ""
}

// FindReply returns the reply with that message's name, or nil.
func (q *Question) FindReply(messageName string) *Reply {
	for i := range q.Replies {
		if q.Replies[i].MessageName == messageName {
			return &q.Replies[i]
		}
	}
	return nil
}

// OweNote adds a note that the question's thread is owed, once for each reply that it
// answers.
func (q *Question) OweNote(about, replyMessage string) {
	note := OwedNote{About: about, ReplyMessage: replyMessage}
	if !slices.Contains(q.OwedNotes, note) {
		q.OwedNotes = append(q.OwedNotes, note)
	}
}

// Decision returns what was decided about a permission or a plan: a label, and the
// person's remark. Both are "" before.
func (q *Question) Decision() (label, remark string) {
	if len(q.SubQuestions) == 0 {
		return "", ""
	}
	text := q.SubQuestions[0].Question
	return q.Answers[text], q.Notes[text]
}

// ReduceToTitle removes everything from a permission or a plan but the tool and the
// session, as a policy may demand. It can then be denied from Chat; only the terminal
// shows what it is about, and allows it.
func (q *Question) ReduceToTitle() {
	if q.Kind.Traits().UsesOwnSpace {
		q.IsTerminalOnly = true
		q.About, q.ShownText, q.AlwaysAllows, q.AgentTask = "", "", "", ""
		q.Wording, q.Fields = nil, nil
	}
}

// forgetValues removes people's replies from a form that is closed: they are for the MCP
// server alone. Every write calls it.
func (q *Question) forgetValues() {
	if !q.Kind.Traits().AsksForValues || q.Status.IsOpen() {
		return
	}
	q.Notes, q.Response = nil, nil
	for i := range q.Replies {
		q.Replies[i].Text, q.Replies[i].Inputs = "", nil
	}
}

// Grant allows a session's permissions for a while ("yes 30m"). It stands in the
// permission that was answered so, which holds the person, the session and the process
// that it applies to, and in each permission that it allowed.
type Grant struct {
	QuestionID string    `json:"question"` // the permission that was answered so
	GrantedAt  time.Time `json:"at"`       // permissions asked before are not covered
	EndsAt     time.Time `json:"until"`
	// its thread has the note that the grant is over
	IsEnded bool `json:"ended,omitempty"`
}

// HasActiveGrant reports whether the question was answered with a grant that is not known
// to be over.
func (q *Question) HasActiveGrant() bool {
	return q.Grant != nil && q.Grant.QuestionID == q.QuestionID && !q.Grant.IsEnded
}

// AnsweredWhere says where the person answered, for Claude and for the terminal: "from
// Google Chat", "from the chat page" or "on this machine".
func (q *Question) AnsweredWhere() string {
	if q.AnsweredBy == LocalSender {
		return "on this machine"
	}
	return "from " + ChatName(q.Chat)
}

// EmbeddedSpaceName is the name of the embedded space, on every machine.
const EmbeddedSpaceName = "spaces/local"

// EmbeddedSubscription is the subscription that delivers the embedded space's events.
const EmbeddedSubscription = "projects/local/subscriptions/local"

// ChatName returns what people call a chat, host/spaces/S.
func ChatName(chat string) string {
	if strings.HasSuffix(chat, "/"+EmbeddedSpaceName) {
		return "the chat page"
	}
	return "Google Chat"
}

// DescribeGrant says who granted the question's permission, and until when: "NAME until
// 15:04". The name is foreign text.
func (q *Question) DescribeGrant() string {
	name := cmp.Or(q.AnsweredByName, q.AnsweredBy)
	return name + " until " + q.Grant.EndsAt.Local().Format("15:04")
}

// EndGrants ends the grants of a session.
func EndGrants(questions []*Question, session string) (failed error) {
	for _, q := range questions {
		if q.HasActiveGrant() && q.ClaudeSession() == session {
			_, err := ChangeQuestion(q.Path, func(q *Question) {
				q.LastDenialAt = time.Now().UTC()
			})
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// CloseQuestion closes a question and, in the same write, owes its thread a note. change,
// where it is not nil, changes more in that write. ended reports whether this call closed
// the question: of two concurrent calls, one does.
func CloseQuestion(path string, status Status, resolvedBy string, change func(*Question)) (
	ended bool, err error,
) {
	_, err = ChangeQuestion(path, func(q *Question) {
		if q.MoveTo(status, time.Now()) != nil {
			return
		}
		q.ResolvedBy, ended = resolvedBy, true
		if change != nil {
			change(q)
		}
		if q.ResolvedBy != EndedReplaced || q.Kind.Traits().IsPrompt && q.CardMessage != "" {
			// the card's button has to go
			q.OweNote(NoteClosed, "")
		}
	})
	return ended && err == nil, err
}

// Values of ResolvedBy for a permission or a plan whose end no event reported.
const (
	EndedUnseen = "unseen" // nobody in Chat decided it
	// a hook printed a refusal, but the terminal may have been faster
	EndedUnconfirmed = "unconfirmed"
)

// EndedDismissed is the ResolvedBy of a question whose dialog or turn was ended with Esc.
const EndedDismissed = "signal"

// EndedDialogGone is the ResolvedBy of a question whose dialog disappeared without an
// event to a hook.
const EndedDialogGone = "dialog_gone"

// EndedAway is the ResolvedBy of a question that nobody answered, until Claude Code went
// on.
const EndedAway = "away"

// UnsentAnswers returns, as a prompt for Claude, the answers to some questions of a call
// that Claude did not get because it went on; "" for none.
func (q *Question) UnsentAnswers() string {
	var sentences []string
	for i, sub := range q.SubQuestions {
		if a := q.PartialAnswers[i]; !a.IsEmpty() && q.ResolvedBy == EndedAway {
			text := fmt.Sprintf("You asked %q. The answer: %s. %s", sub.Question, a.Value(), a.Notes)
			sentences = append(sentences, strings.TrimSpace(text))
		}
	}
	return strings.Join(sentences, " ")
}

// EndedReplaced is the ResolvedBy of a question that another question of its session
// replaced: its thread gets no note of that.
const EndedReplaced = "instead"

// EndingLine is a line of the log of decisions: how a question of any kind ended, without
// its text. After a late reply or a kill a question has another line; the last one
// counts.
type EndingLine struct {
	Time      *time.Time `json:"time,omitempty"`
	Message   string     `json:"message"` // "ended"
	ID        string     `json:"id"`
	Kind      string     `json:"kind"` // question, permission, plan, next or said
	Project   string     `json:"project,omitempty"`
	Session   string     `json:"session"`    // the session's name
	SessionID string     `json:"session_id"` // Claude Code's id of the session
	AskedAt   time.Time  `json:"asked_at"`
	PostedAt  *time.Time `json:"posted_at,omitempty"` // Chat's clock
	// when the reply that became the answer was written, by Chat's clock
	RepliedAt *time.Time `json:"answered_at,omitempty"`
	ToldAt    *time.Time `json:"told_at,omitempty"` // when Claude was given that reply
	Status    Status     `json:"status"`
	EndedBy   string     `json:"ended_by,omitempty"` // see Question.ResolvedBy
	// users/ID or local: whose reply became the answer
	AnsweredBy  string `json:"by,omitempty"`
	LateReplies int    `json:"late,omitempty"` // replies that came too late
	// replies that were no valid answer, came from people who may not answer, or could
	// not be delivered
	UnusedReplies int    `json:"not_used,omitempty"`
	Declined      string `json:"declined,omitempty"` // see Question.Declined
}

// Ending returns how a question ended, or how far it is.
func (q *Question) Ending() EndingLine {
	line := EndingLine{
		Time: q.ResolvedAt, Message: "ended", ID: q.QuestionID,
		Kind: cmp.Or(string(q.Kind), "question"), Project: q.ProjectDir,
		Session: q.SessionName, SessionID: q.ClaudeSession(), AskedAt: q.AskedAt,
		PostedAt: q.PostedAt, Status: q.Status, EndedBy: q.ResolvedBy,
		AnsweredBy: q.AnsweredBy, Declined: q.Declined,
	}
	// the terminal, or the timeout, was faster than the reply
	if q.ResolvedBy == "terminal" || q.ResolvedBy == EndedAway {
		line.AnsweredBy = ""
	}
	for _, r := range q.Replies {
		switch {
		case line.AnsweredBy != "" && r.MessageName == q.AnsweredMessage:
			// it became the answer, whatever its verdict
		case r.Verdict == VerdictLate:
			line.LateReplies++
		case r.Verdict == VerdictUsed && line.AnsweredBy == "" && q.HandedOverAt == nil,
			!slices.Contains([]Verdict{VerdictUsed, VerdictKept, VerdictUnread}, r.Verdict):
			line.UnusedReplies++
		}
	}
	if line.AnsweredBy == "" {
		return line
	}
	if r := q.FindReply(q.AnsweredMessage); r != nil {
		line.RepliedAt = &r.CreatedAt
	}
	line.ToldAt = q.PrintedAt
	if line.ToldAt == nil && q.Status == Resolved {
		line.ToldAt = q.ResolvedAt
	}
	return line
}

// isLost reports whether a reply became the answer but Claude never got one.
func (e EndingLine) isLost() bool { return e.AnsweredBy != "" && e.ToldAt == nil && !e.Status.IsOpen() }
