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
	Pending  Status = "pending"  // asked, not answered yet
	Answered Status = "answered" // a reply was claimed; Claude Code has not confirmed it yet
	// Claude Code has the answer, from the thread or from the terminal
	Resolved  Status = "resolved"
	Cancelled Status = "cancelled" // Esc, quit, crash, "chat about this"
	Abandoned Status = "abandoned" // its tmux session is gone (inject mode)
	TimedOut  Status = "timeout"   // not answered in time (deny mode)
	Expired   Status = "expired"   // 24 hours old
)

// IsOpen says that the question can still get its answer delivered.
func (s Status) IsOpen() bool { return s == Pending || s == Answered }

// nextStatuses holds the allowed steps of a question's life. A closed question never
// opens again, but for one that timed out.
var nextStatuses = map[Status][]Status{
	Pending:  {Answered, Resolved, Cancelled, Abandoned, TimedOut, Expired},
	Answered: {Resolved, Cancelled, Abandoned, Expired},
	TimedOut: {Answered, Resolved, Expired}, // a late reply still counts
}

// ErrTransition is what a step that a question's life does not allow returns. Another
// process was faster.
var ErrTransition = errors.New("question is not in that state any more")

// The labels of decisions, which stand in Answers as options' labels do. What a person
// says beside one is in Notes. A person sees LabelApproveAuto as "Approve, accept edits",
// after the permission mode that it sets. Records keep the label that other releases
// know.
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

// IsRefusal says that a decision lets Claude do nothing.
func IsRefusal(label string) bool {
	return slices.Contains([]string{LabelDeny, LabelSendBack, LabelDecline, LabelCancel}, label)
}

// MaxAboutLength is how long a file's name, or what "always" allows, may be to be decided
// from Chat, in bytes: a card shows so much of it whatever else stands there.
const MaxAboutLength = 300

// What a person may say of a question in place of an answer. A label named so wins.
const (
	DeclinedChat = "chat" // Claude is told that the person wants to talk about it first
	// only the terminal answers it; where no dialog stands there, Claude is told
	DeclinedSkip = "skip"
)

// TimeoutPolicy is what becomes of a question in deny mode without a reply in time.
type TimeoutPolicy string

const (
	TimeoutLeaveOpen TimeoutPolicy = "leave" // Claude is told that no reply came
	// the recommended option, else the first, is chosen for the person
	TimeoutRecommended TimeoutPolicy = "recommended"
	// Claude is told to ask again, and that goes to the terminal
	TimeoutAskTerminal TimeoutPolicy = "ask-terminal"
)

// Option is one choice of a Prompt, as Claude Code's AskUserQuestion tool names it.
type Option struct {
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
	Preview     string `json:"preview,omitempty"`
}

// SubQuestion is one of the one to four questions of an AskUserQuestion call. Question is
// the raw text and the key of its answer: it is never trimmed or normalised.
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
	Pattern     string `json:"pattern,omitempty"` // it is shown, and never run
	IsRequired  bool   `json:"required,omitempty"`
	// of a number, a text's characters, or how many are chosen
	Min     *float64        `json:"min,omitempty"`
	Max     *float64        `json:"max,omitempty"`
	Options []Option        `json:"options,omitempty"` // what may be chosen
	Values  []string        `json:"values,omitempty"`  // of the options
	Default json.RawMessage `json:"default,omitempty"` // what an empty field means
}

// Answer is what one prompt was answered with.
type Answer struct {
	Labels []string `json:"labels,omitempty"` // the chosen options' labels, in the options' order
	Text   string   `json:"text,omitempty"`   // the person's own words
	Notes  string   `json:"notes,omitempty"`  // a remark beside a choice
}

// Value is the answer as Claude Code's `answers` map wants it: labels and own words
// joined by ", ".
func (a Answer) Value() string {
	parts := slices.Clone(a.Labels)
	if a.Text != "" {
		parts = append(parts, a.Text)
	}
	return strings.Join(parts, ", ")
}

// IsEmpty says that nothing was chosen and nothing said.
func (a Answer) IsEmpty() bool { return len(a.Labels) == 0 && a.Text == "" }

// Verdict is what became of a reply.
type Verdict string

const (
	VerdictUnread    Verdict = ""           // stored by the poller, not judged yet
	VerdictUsed      Verdict = "used"       // became the answer, or turned the question down
	VerdictKept      Verdict = "kept"       // answered some of several questions
	VerdictRefused   Verdict = "refused"    // its sender may not answer
	VerdictAskedBack Verdict = "asked_back" // named an option that there is not
	VerdictAskedHow  Verdict = "asked_how"  // asked what to write
	VerdictLate      Verdict = "late"       // the question was answered or closed already
	VerdictIgnored   Verdict = "ignored"    // older than the question, or without text
	// no process can deliver it: only the terminal answers this question
	VerdictNoWaiter Verdict = "unwaited"
)

// LocalSender is the sender of a reply that did not come through Chat: a program or a
// person wrote it into the state folder, and only the session's owner can write there.
const LocalSender = "local"

// Reply is a message of a person in the question's thread. MessageName is its Chat
// resource name and is used once.
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
	// it may be for another question of its thread
	IsUnsure bool   `json:"unsure,omitempty"`
	Choice   string `json:"choice,omitempty"` // of a tap: which button it was
	// of a tap: what the card's fields held
	Inputs map[string][]string `json:"inputs,omitempty"`
}

// Typing is the poller's account of the keys that it sent for a question. It is written
// before each key.
type Typing struct {
	LastKeyAt time.Time `json:"at"`               // of the last key
	KeyCount  int       `json:"keys"`             // how many were sent, the last one perhaps not
	LastKey   string    `json:"last"`             // the last key; "text" for words
	IsSubmit  bool      `json:"commit,omitempty"` // the last key submits
	// the typing came to its end; otherwise the poller was killed in it, or is at it
	IsEnded bool   `json:"ended,omitempty"`
	Result  string `json:"result,omitempty"` // injected, clean or dirty
	Why     string `json:"why,omitempty"`    // for a person
}

// KeyQueued is the last key of words that were typed while Claude worked, which puts them
// into its queue.
const KeyQueued = "queued"

// OwedNote is a note that a question's thread is still to be given. It stands in the same
// write as the step that it tells of; the poller words it from the question, puts it into
// the outbox and strikes it off.
type OwedNote struct {
	// what the note is about: one of the Note constants
	About        string `json:"about"`
	ReplyMessage string `json:"reply,omitempty"` // the message that it answers; "" for none
	// what the note is to say, where the question does not tell it
	Text string `json:"seen,omitempty"`
}

// What notes are about.
const (
	NoteClosed = "closed" // how it ended
	// the answer was handed to Claude Code, which did not confirm it for ten seconds
	NoteSent    = "sent"
	NoteRefused = "refused"   // the sender may not answer
	NoteLate    = "late"      // the question was answered or closed already
	NoteUnclear = "no option" // the reply is no answer: a number that no option has, say
	NoteKept    = "kept"      // an answer to some of several questions
	// Claude reads the reply with its next step, or when its session is resumed
	NoteLater      = "later"
	NoteNoText     = "no text"   // an attachment is no answer
	NoteAttached   = "attached"  // the words of a reply are used, and what came with them is not
	NoteNoWaiter   = "unwaited"  // only the terminal can answer
	NoteUnread     = "unread"    // the space cannot be read
	NoteDryRun     = "dry run"   // nothing is typed at present, and the reply is not kept
	NoteNotTyped   = "not typed" // the answer was not typed to its end (inject)
	NoteFullText   = "more"      // all that a permission is asked for
	NoteReminder   = "reminder"  // it is still open
	NoteSendUnsent = "send"      // what was answered and did not reach Claude goes to it as words
	NoteGranted    = "granted"   // a yes for a while begins
	// NoteHandedOver is about a dialog that only the terminal answers from now on.
	NoteHandedOver = "handed over"

	// NoteStillKept is about words that are kept for longer than two minutes.
	NoteStillKept = "still kept"
)

// Question is something that a person was asked, and its whole life, as it stands in its
// file. The first block is the format that other programs read; the second is ours. A
// thread that a process waits in without a question is one without prompts.
type Question struct {
	Record
	QuestionID string `json:"question_id"` // UUID; in deny mode the thread key
	// what stop gates compare with: see SessionID
	SessionID   string    `json:"session_id"`
	TmuxSession string    `json:"tmux_session"`
	AskedAt     time.Time `json:"asked_at"` // this machine's clock, UTC
	ThreadKey   string    `json:"gchat_thread_key"`
	// spaces/S/threads/T, from the send's response
	ThreadName string `json:"gchat_thread_name"`
	// where Chat began another for a later note
	FormerThreads []string      `json:"gchat_former_threads,omitempty"`
	IsMessageSent bool          `json:"gchat_message_sent"`
	MessageName   string        `json:"gchat_message_name"` // spaces/S/messages/M
	SubQuestions  []SubQuestion `json:"questions"`
	Status        Status        `json:"status"`
	ResolvedAt    *time.Time    `json:"resolved_at"`
	// the reply as it was typed, without space around it
	Response *string `json:"response"`
	// single_select, multi_select, custom_text, multi_question
	ResponseType       *string `json:"response_type"`
	InjectionAttempted bool    `json:"injection_attempted"`
	InjectionSucceeded *bool   `json:"injection_succeeded"`

	// Claude Code's own; see ClaudeSession
	ClaudeSessionID string `json:"claude_session_id,omitempty"`
	Mode            Mode   `json:"mode"`
	Kind            Kind   `json:"kind,omitempty"`
	// that Claude asks a permission for
	ToolName string `json:"tool_name,omitempty"`
	// what a permission is for, in one line
	About string `json:"about,omitempty"`
	// a command, a diff, a plan, last words; secrets masked
	ShownText string `json:"shown,omitempty"`
	// what "always" would allow; "" where it is not offered
	AlwaysAllows   string `json:"always_allows,omitempty"`
	IsTerminalOnly bool   `json:"terminal_only,omitempty"` // no reply allows it
	// who could decide when it was asked; nil: not known
	Approvers *[]string `json:"approvers,omitempty"`
	Fields    []Field   `json:"fields,omitempty"` // of a form
	// of a form that is a link, which Shown is
	LinkID      string   `json:"link_id,omitempty"`
	NeverRemote []string `json:"never_remote,omitempty"` // as it was then
	// what never_remote is held against: a command, a file
	CallTexts []string `json:"call,omitempty"`
	// the registrations of ours whose hooks had its event
	SeenByHooks []string `json:"seen_by,omitempty"`
	// it is not due before, while its person types in its pane
	GracePeriod time.Duration `json:"grace,omitempty"`
	// after its asking: when it is said again
	RemindAfter []time.Duration `json:"remind,omitempty"`
	// how many reminders its thread had
	RemindersSent int    `json:"reminded,omitempty"`
	ProjectDir    string `json:"project_dir,omitempty"`
	CWD           string `json:"cwd,omitempty"`
	SessionName   string `json:"session_name"`
	Machine       string `json:"machine,omitempty"`   // as people call it
	PromptID      string `json:"prompt_id,omitempty"` // Claude Code's, from 2.1.196
	ToolUseID     string `json:"tool_use_id,omitempty"`
	// of the subagent that asks; "" for the session itself
	AgentID   string `json:"agent_id,omitempty"`
	AgentType string `json:"agent_type,omitempty"`
	// what that agent does, in Claude's words
	AgentTask string `json:"agent_task,omitempty"`
	// Hidden says that the terminal draws no dialog while the question's hook waits.
	IsDialogHidden bool `json:"hidden,omitempty"`
	// WantedInTerminalAt is since when a person is known to want a hidden dialog in the
	// terminal.
	WantedInTerminalAt *time.Time `json:"wanted_at,omitempty"`
	// HandedOverAt is since when the hidden dialog is the terminal's alone to answer. The
	// question stays open until it is known how it ended.
	HandedOverAt *time.Time `json:"handed_over,omitempty"`
	// of its questions; ties a PermissionRequest to it
	InputHash string `json:"input_hash,omitempty"`
	ClaudePID int    `json:"claude_pid,omitempty"`
	// of that process: its pid may come again
	ClaudeStart string `json:"claude_start,omitempty"`
	TmuxPane    string `json:"tmux_pane,omitempty"` // %N
	// of the server that the pane is on
	TmuxSocket string `json:"tmux_socket,omitempty"`
	// cycles running that the poller did not find it (inject)
	PaneMissedCycles int    `json:"tmux_missed,omitempty"`
	Chat             string `json:"chat,omitempty"` // host/spaces/S: where it is
	// spaces/S/messages/M: the message that has its buttons
	CardMessage string     `json:"card,omitempty"`
	Space       string     `json:"space,omitempty"`     // spaces/S
	PostedAt    *time.Time `json:"posted_at,omitempty"` // the server's clock
	// why it is not in the space yet, without secrets
	PostError string `json:"post_error,omitempty"`
	// notes that its thread is to be given
	OwedNotes []OwedNote `json:"owes,omitempty"`
	// that its words are kept for long
	HasKeptNote bool `json:"told_kept,omitempty"`
	// its thread was told that replies cannot be read
	HasUnreadNote bool `json:"told_unread,omitempty"`
	// the waiting hook handed the answer to Claude Code
	IsPrinted bool       `json:"printed,omitempty"`
	PrintedAt *time.Time `json:"printed_at,omitempty"` // this machine's clock, UTC
	// its thread was told that the answer was sent to Claude
	HasSentNote bool    `json:"told_sent,omitempty"`
	Replies     []Reply `json:"replies,omitempty"`
	// the process that asked has a model word it: see Words
	IsWordedByAsker bool `json:"asker_words,omitempty"`
	// of the Questions' texts, where a model worded them
	Wording []string `json:"wording,omitempty"`
	// a model was asked for a wording, and gave none of use
	IsWordingTried bool    `json:"format_tried,omitempty"`
	WordingCostUSD float64 `json:"format_usd,omitempty"` // what that cost
	// Claude Code was told that the call is denied (deny)
	IsDenied      bool          `json:"denied,omitempty"`
	TimeoutPolicy TimeoutPolicy `json:"timeout_policy,omitempty"` // (deny)
	// this machine's clock, UTC (deny, and a thread)
	TimesOutAt *time.Time `json:"times_out_at,omitempty"`
	// this machine's clock, UTC (deny)
	SessionEndedAt *time.Time `json:"session_ended_at,omitempty"`
	// a hook ended then to wake the session (deny)
	DeliveredAt *time.Time `json:"delivered_at,omitempty"`
	// the transcript holds it, or it was given up (deny)
	IsDeliverySeen bool `json:"delivery_seen,omitempty"`
	// after its timeout in the terminal (deny)
	IsAskedAgain bool `json:"asked_again,omitempty"`
	// by index into Questions, until all are answered
	PartialAnswers map[int]Answer    `json:"partial,omitempty"`
	Answers        map[string]string `json:"answers,omitempty"` // by raw question text
	// remarks, by raw question text
	Notes map[string]string `json:"notes,omitempty"`
	// what a person said in place of an answer
	Declined string `json:"declined,omitempty"`
	// and what they said beside that
	DeclinedText string `json:"declined_words,omitempty"`
	// what the poller typed (inject)
	Typing     *Typing `json:"typing,omitempty"`
	AnsweredBy string  `json:"answered_by,omitempty"` // users/ID
	// display name, when Chat gave one
	AnsweredByName string `json:"answered_by_name,omitempty"`
	// the message whose text became the answer
	AnsweredMessage string `json:"answered_message,omitempty"`
	// it was answered with a yes for a while, or by one
	Grant *Grant `json:"grant,omitempty"`
	// of the last no to it, which ends a yes for a while
	LastDenialAt time.Time `json:"no_at,omitzero"`
	// how long Claude Code waited for an answer in vain
	AwayAfter time.Duration `json:"away_after,omitempty"`
	// its session took words when Claude Code went on
	AcceptsPrompts bool `json:"takes_words,omitempty"`
	// ResolvedBy is chat, terminal, stop, prompt, session_end, cleared, signal, unposted,
	// claude_gone, tmux_gone, screen, not_typed, superseded, age, timeout, policy,
	// agent_end, tool_end, unseen, unconfirmed, away, dialog_gone or instead.
	ResolvedBy string `json:"resolved_by,omitempty"`
}

// QuestionThreadKey is the key of the thread that a question begins: "ask-user-" and the
// first eight digits of its id.
func QuestionThreadKey(questionID string) string { return "ask-user-" + questionID[:8] }

// SessionID is what a session is called in the files of its questions:
// $CLAUDE_SESSION_ID, which launch scripts set and stop gates compare with, else Claude
// Code's own id. Two sessions may be called the same.
func SessionID(env Getenv, claudeSessionID string) string {
	return cmp.Or(env("CLAUDE_SESSION_ID"), claudeSessionID)
}

// ClaudeSession is Claude Code's own id of the session that asked. Files of earlier
// versions and of other programs have only a session_id.
func (q *Question) ClaudeSession() string { return cmp.Or(q.ClaudeSessionID, q.SessionID) }

// SessionFileName is the session_id as the names of files have it.
func (q *Question) SessionFileName() string { return safeFileName(q.SessionID) }

// MarkerQuestionID is the id of a question in deny mode, and the key of its thread: it
// names the session, since people and other programs look for it by that.
func MarkerQuestionID(sessionID, uuid string) string {
	return "ask-" + safeFileName(sessionID) + "-" + uuid[:8]
}

// IsAnswerable says whether a reply may still become the question's answer: also one that
// came too late, as long as nothing else was chosen. What was handed over, the terminal
// alone answers.
func (q *Question) IsAnswerable() bool {
	return q.Status == Pending && q.HandedOverAt == nil ||
		q.Status == TimedOut && len(q.Answers) == 0 && !q.IsAskedAgain
}

// MayExplainDialog says whether a dialog in its session's terminal may be that of this
// question.
func (q *Question) MayExplainDialog() bool {
	isDrawn := q.IsDialogDrawn() && q.Mode.Traits().HasDialog || q.HandedOverAt != nil
	return q.Status.IsOpen() && isDrawn && !q.Kind.Traits().IsPrompt
}

// IsLate says whether the question was timed out, and a reply would still count.
func (q *Question) IsLate(now time.Time) bool {
	return q.Status == TimedOut && q.IsAnswerable() && now.Sub(q.AskedAt) < MaxQuestionAge
}

// HasUnreadReply says whether a reply waits to be judged.
func (q *Question) HasUnreadReply() bool {
	return slices.ContainsFunc(q.Replies, func(r Reply) bool { return r.Verdict == VerdictUnread })
}

// MoveTo takes the question one step on, or returns ErrTransition when its life does not
// allow it.
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

// WithdrawAnswer gives an answer up that reached nobody: the question waits for another
// reply.
func (q *Question) WithdrawAnswer() {
	if r := q.FindReply(q.AnsweredMessage); r != nil {
		r.Verdict = VerdictNoWaiter
	}
	q.Status, q.Answers, q.Notes, q.Response, q.ResponseType = Pending, nil, nil, nil, nil
	q.AnsweredBy, q.AnsweredByName, q.AnsweredMessage = "", "", ""
}

// FindReply returns the reply of that message, or nil.
func (q *Question) FindReply(messageName string) *Reply {
	for i := range q.Replies {
		if q.Replies[i].MessageName == messageName {
			return &q.Replies[i]
		}
	}
	return nil
}

// OweNote notes that the question's thread is to be given a note, once for each reply
// that it answers.
func (q *Question) OweNote(about, replyMessage string) {
	note := OwedNote{About: about, ReplyMessage: replyMessage}
	if !slices.Contains(q.OwedNotes, note) {
		q.OwedNotes = append(q.OwedNotes, note)
	}
}

// Decision is what was decided about a permission or a plan: a label, and the person's
// words beside it. It is "" before.
func (q *Question) Decision() (label, remark string) {
	if len(q.SubQuestions) == 0 {
		return "", ""
	}
	text := q.SubQuestions[0].Question
	return q.Answers[text], q.Notes[text]
}

// ReduceToTitle leaves of a permission or a plan that a policy wants it so: which tool,
// and which session. It can be denied, and only the terminal shows what it is about, and
// allows it.
func (q *Question) ReduceToTitle() {
	if q.Kind.Traits().UsesOwnSpace {
		q.IsTerminalOnly, q.About, q.ShownText, q.AlwaysAllows, q.Wording = true, "", "", "", nil
		q.Fields = nil
		q.AgentTask = ""
	}
}

// forgetValues takes what people replied out of a form that is over: it is the server's
// alone. It is part of each write.
func (q *Question) forgetValues() {
	if !q.Kind.Traits().AsksForValues || q.Status.IsOpen() {
		return
	}
	q.Notes, q.Response = nil, nil
	for i := range q.Replies {
		q.Replies[i].Text, q.Replies[i].Inputs = "", nil
	}
}

// Grant is a yes for a while. It stands in the permission that it was given to, which
// knows the person, the session and the process that it binds, and in each that it
// allowed.
type Grant struct {
	QuestionID string    `json:"question"` // id of the permission that it was given to
	GrantedAt  time.Time `json:"at"`       // what was asked before is not covered
	EndsAt     time.Time `json:"until"`
	IsEnded    bool      `json:"ended,omitempty"` // its thread was told that it is over
}

// HasActiveGrant says whether a yes for a while was given to the question, which is not
// known to be over.
func (q *Question) HasActiveGrant() bool {
	return q.Grant != nil && q.Grant.QuestionID == q.QuestionID && !q.Grant.IsEnded
}

// AnsweredWhere is where the person was who answered, for Claude and for the terminal.
func (q *Question) AnsweredWhere() string {
	if q.AnsweredBy == LocalSender {
		return "on this machine"
	}
	return "from " + ChatName(q.Chat)
}

// EmbeddedSpaceName is the name of the embedded space, on every machine.
const EmbeddedSpaceName = "spaces/local"

// EmbeddedSubscription is the subscription with the embedded space's events.
const EmbeddedSubscription = "projects/local/subscriptions/local"

// ChatName is what people call a chat, host/spaces/S.
func ChatName(chat string) string {
	if strings.HasSuffix(chat, "/"+EmbeddedSpaceName) {
		return "the chat page"
	}
	return "Google Chat"
}

// DescribeGrant says whose yes for a while a question was answered with, and until when.
// The name is foreign text.
func (q *Question) DescribeGrant() string {
	return cmp.Or(
		q.AnsweredByName,
		q.AnsweredBy,
	) + " until " + q.Grant.EndsAt.Local().
		Format("15:04")
}

// EndGrants ends what was granted to a session.
func EndGrants(questions []*Question, session string) (failed error) {
	for _, q := range questions {
		if q.HasActiveGrant() && q.ClaudeSession() == session {
			_, err := ChangeQuestion(
				q.Path,
				func(q *Question) { q.LastDenialAt = time.Now().UTC() },
			)
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// CloseQuestion moves a question to its end; that its thread is owed a note of it stands
// in the same write. also, where it is not nil, changes more in that write. It reports
// whether this call ended the question: of two that end it, one does.
func CloseQuestion(
	path string,
	status Status,
	resolvedBy string,
	change func(*Question),
) (ended bool, err error) {
	_, err = ChangeQuestion(path, func(q *Question) {
		if q.MoveTo(status, time.Now()) != nil {
			return
		}
		q.ResolvedBy, ended = resolvedBy, true
		if change != nil {
			change(q)
		}
		if q.ResolvedBy != EndedReplaced || q.Kind.Traits().IsPrompt && q.CardMessage != "" {
			// a card has to lose its button
			q.OweNote(NoteClosed, "")
		}
	})
	return ended && err == nil, err
}

// ResolvedBy of a permission or a plan whose end no event told of.
const (
	EndedUnseen      = "unseen"      // nobody in Chat decided
	EndedUnconfirmed = "unconfirmed" // a refusal was printed, and the terminal may have been faster
)

// EndedDismissed is the ResolvedBy of a question whose dialog or turn was broken off,
// with Esc.
const EndedDismissed = "signal"

// EndedDialogGone is the ResolvedBy of a question whose dialog is gone, and of which no
// hook told.
const EndedDialogGone = "dialog_gone"

// EndedAway is the ResolvedBy of a question that nobody answered, so that Claude Code
// went on.
const EndedAway = "away"

// UnsentAnswers is what was answered to some questions of a call and did not reach
// Claude, as words for it; "" for nothing.
func (q *Question) UnsentAnswers() string {
	var sentences []string
	for i, sub := range q.SubQuestions {
		if a := q.PartialAnswers[i]; !a.IsEmpty() && q.ResolvedBy == EndedAway {
			sentences = append(
				sentences,
				strings.TrimSpace(
					fmt.Sprintf(
						"You asked %q. The answer: %s. %s",
						sub.Question,
						a.Value(),
						a.Notes,
					),
				),
			)
		}
	}
	return strings.Join(sentences, " ")
}

// EndedReplaced is the ResolvedBy of what another question of the session came in place
// of: its thread hears nothing of that.
const EndedReplaced = "instead"

// EndingLine is a line of the log of decisions: how a question, of any kind, ended. It
// has none of its words. After a late reply, or a kill, a question has another line: the
// last one counts.
type EndingLine struct {
	Time      *time.Time `json:"time,omitempty"`
	Message   string     `json:"message"` // "ended"
	ID        string     `json:"id"`
	Kind      string     `json:"kind"` // question, permission, plan, next or said
	Project   string     `json:"project,omitempty"`
	Session   string     `json:"session"`    // its name
	SessionID string     `json:"session_id"` // Claude Code's
	AskedAt   time.Time  `json:"asked_at"`
	PostedAt  *time.Time `json:"posted_at,omitempty"` // Chat's clock
	// Chat's clock; of the reply that was taken
	RepliedAt   *time.Time `json:"answered_at,omitempty"`
	ToldAt      *time.Time `json:"told_at,omitempty"` // Claude was given that reply
	Status      Status     `json:"status"`
	EndedBy     string     `json:"ended_by,omitempty"` // see ResolvedBy
	AnsweredBy  string     `json:"by,omitempty"`       // users/ID or local: whose reply was taken
	LateReplies int        `json:"late,omitempty"`     // replies that came too late
	// replies that were no answer, of others, or that nothing could deliver
	UnusedReplies int    `json:"not_used,omitempty"`
	Declined      string `json:"declined,omitempty"` // see Question.Declined
}

// Ending says how a question ended, or how far it is.
func (q *Question) Ending() EndingLine {
	line := EndingLine{
		Time: q.ResolvedAt, Message: "ended", ID: q.QuestionID, Kind: cmp.Or(string(q.Kind), "question"), Project: q.ProjectDir,
		Session: q.SessionName, SessionID: q.ClaudeSession(), AskedAt: q.AskedAt, PostedAt: q.PostedAt,
		Status: q.Status, EndedBy: q.ResolvedBy, AnsweredBy: q.AnsweredBy, Declined: q.Declined,
	}
	if q.ResolvedBy == "terminal" || q.ResolvedBy == EndedAway { // it was faster than the reply
		line.AnsweredBy = ""
	}
	for _, r := range q.Replies {
		switch {
		case line.AnsweredBy != "" && r.MessageName == q.AnsweredMessage:
			// it is the answer, whatever was thought of it later
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

// isLost says that a reply was taken, and Claude never had an answer.
func (e EndingLine) isLost() bool { return e.AnsweredBy != "" && e.ToldAt == nil && !e.Status.IsOpen() }
