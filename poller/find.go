package poller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// NotOne says that a person's words name no question, or more than one.
type NotOne struct {
	By   string
	Them []*state.Question // that it could be; none when there is no such question
}

func (e *NotOne) Error() string {
	if len(e.Them) == 0 {
		return fmt.Sprintf("no question %s is known", e.By)
	}
	var keys []string
	for _, q := range e.Them {
		keys = append(keys, q.ThreadKey)
	}
	return fmt.Sprintf("%s could be %d questions: %s", e.By, len(e.Them), strings.Join(keys, ", "))
}

// FindQuestion finds a question of the index by its id, its thread's key or its thread's name, the newest of several; nil when
// there is none.
func FindQuestion(env state.Getenv, by string) *state.Question {
	qs, _ := state.OpenQuestions(env)
	if i := slices.IndexFunc(qs, func(q *state.Question) bool { return by != "" && goesBy(q, by) }); i >= 0 {
		return qs[i]
	}
	return nil
}

func goesBy(q *state.Question, by string) bool {
	return by == q.QuestionID || by == q.ThreadKey || by == q.ThreadName
}

// ThreadOf is the thread of a key, as far as a session, a question or a message tells it; "" where none does.
func ThreadOf(env state.Getenv, key string) (name string) {
	if key == "" {
		return ""
	}
	user := state.UserState(env)
	id, ofSession := strings.CutPrefix(key, "session-")
	if session, err := state.SessionsIn(user).Of(id); err == nil {
		name = session.ThreadName
	}
	if name != "" || ofSession { // what a session's first message began stands in its record
		return name
	}
	if q := FindQuestion(env, key); q != nil {
		name = q.ThreadName
	}
	messages, _ := state.OutboxIn(user).All()
	for _, m := range messages {
		if m.ThreadKey == key {
			name = cmp.Or(m.ThreadName, name)
		}
	}
	return name
}

// PickQuestion finds the question that a person means: by its id, its thread's key or its thread's name, else by its session's
// name or id, where that has one question that can be answered. Where none can be answered, a closed one that is meant is
// returned: that it is over is worth saying. The error is *NotOne, or what kept questions from being read.
func PickQuestion(env state.Getenv, by string) (*state.Question, error) {
	qs, bad := state.OpenQuestions(env)
	ofSession := func(q *state.Question, by string) bool {
		return by == q.SessionName || by == q.SessionID || by == q.ClaudeSessionID
	}
	for _, means := range []func(*state.Question, string) bool{goesBy, ofSession} {
		var open []*state.Question
		var over *state.Question
		for _, q := range qs { // the newest first
			switch {
			case by == "" || !q.Way().Asks || !means(q, by):
			case q.Answerable():
				open = append(open, q)
			case over == nil:
				over = q
			}
		}
		switch {
		case len(open) == 1:
			return open[0], nil
		case len(open) > 1:
			return nil, &NotOne{by, open}
		case over != nil:
			return over, nil
		}
	}
	if len(bad) > 0 { // it may be the question that is meant
		return nil, fmt.Errorf("%w; %d files could not be read: %w", &NotOne{By: by}, len(bad), bad[0])
	}
	return nil, &NotOne{By: by}
}

// OpenQuestion is a question that still wants an answer, or whose answer is on its way, as status shows it.
type OpenQuestion struct {
	QuestionID  string       `json:"question_id"`
	ThreadKey   string       `json:"thread_key"`
	SessionID   string       `json:"session_id"`
	ClaudeID    string       `json:"claude_session_id"`
	SessionName string       `json:"session_name"`
	ProjectDir  string       `json:"project_dir,omitempty"`
	AskedAt     time.Time    `json:"asked_at"`
	Kind        state.Kind   `json:"kind"`      // "", permission, plan or next
	Question    string       `json:"question"`  // the words of the first one
	Questions   int          `json:"questions"` // how many it asks
	Mode        state.Mode   `json:"mode"`
	Status      state.Status `json:"status"`                // pending, answered (unconfirmed by Claude), timeout (a reply counts)
	Posted      bool         `json:"posted"`                // it is in its space
	PostError   string       `json:"post_error,omitempty"`  // why it is not
	ThreadName  string       `json:"thread_name,omitempty"` // spaces/S/threads/T
	ThreadURL   string       `json:"thread_url,omitempty"`  // opens the thread in a browser, where that is known
	AnsweredBy  string       `json:"answered_by,omitempty"` // a name, else users/ID
	Waiter      string       `json:"waiter"`                // hook, poller (it types), later (deny) or terminal
}

// Who delivers a reply to a question.
const (
	HookWaits    = "hook"     // a process waits for it: a hook, or gchat-wait
	PollerTypes  = "poller"   // the poller types the answer
	ClaudeLater  = "later"    // a hook of the session delivers it with Claude's next step (deny)
	TerminalOnly = "terminal" // only the terminal can answer
)

// OpenQuestions are the open questions of the index, of all kinds, the oldest first, and those that were timed out and would
// still take a reply. What cannot be read is returned in bad, and stays where it is.
func OpenQuestions(env state.Getenv, now time.Time) (open []OpenQuestion, bad []error) {
	open = []OpenQuestion{}
	qs, bad := state.OpenQuestions(env)
	for _, q := range slices.Backward(qs) {
		if !q.Way().Asks || !q.Status.Open() && !q.Late(now) {
			continue
		}
		o := OpenQuestion{
			QuestionID: q.QuestionID, ThreadKey: cmp.Or(q.ThreadKey, q.QuestionID), SessionID: q.SessionID,
			ClaudeID: q.ClaudeSession(), SessionName: cmp.Or(q.SessionName, q.TmuxSession, q.SessionID), ProjectDir: q.ProjectDir,
			AskedAt: q.AskedAt.UTC(), Kind: q.Kind, Questions: len(q.Questions),
			Mode: q.Mode, Status: q.Status, Posted: q.MessageSent,
			ThreadName: q.ThreadName, ThreadURL: gchat.ThreadLink(q.Chat, q.ThreadName),
			AnsweredBy: cmp.Or(q.AnsweredByName, q.AnsweredBy), Waiter: WaiterOf(env, q),
		}
		if len(q.Questions) > 0 {
			o.Question = q.Questions[0].Question
		}
		if !q.MessageSent {
			o.PostError = q.PostError
		}
		open = append(open, o)
	}
	return open, bad
}

// WaiterOf says who delivers a reply to a question.
func WaiterOf(env state.Getenv, q *state.Question) string {
	switch {
	case state.HasWaiter(env, q.Path):
		return HookWaits
	case q.Way().Marker:
		return ClaudeLater
	case typed(q) && q.TmuxPane != "":
		return PollerTypes
	}
	return TerminalOnly
}
