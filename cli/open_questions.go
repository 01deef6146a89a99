package cli

import (
	"cmp"
	"slices"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// openQuestion is a question that still wants an answer, or whose answer is on its way, as status shows it.
type openQuestion struct {
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

	Waiter state.Deliverer `json:"waiter"` // hook, poller (it types), later or terminal

	HandedOver *time.Time `json:"handed_over,omitempty"` // since when only the terminal answers it
}

// openQuestions are the open questions of the index, of all kinds, the oldest first, and those that were timed out and would
// still take a reply. What cannot be read is returned in bad, and stays where it is.
func openQuestions(env state.Getenv, now time.Time, redact *state.Redactor) (open []openQuestion, bad []error) {
	open = []openQuestion{}
	qs, bad := state.OpenQuestions(env, append(state.TextsOpen, state.TextLate)...)
	qs = append(qs, state.KeptWords(env)...)
	state.SortNewestFirst(qs)
	for _, q := range slices.Backward(qs) {
		if !q.Mode.Row().Asks || !q.Status.Open() && !q.Late(now) {
			continue
		}
		o := openQuestion{
			QuestionID: q.QuestionID, ThreadKey: cmp.Or(q.ThreadKey, q.QuestionID), SessionID: q.SessionID,
			ClaudeID: q.ClaudeSession(), SessionName: cmp.Or(q.SessionName, q.TmuxSession, q.SessionID), ProjectDir: q.ProjectDir,
			AskedAt: q.AskedAt.UTC(), Kind: q.Kind, Questions: len(q.Questions),
			Mode: q.Mode, Status: q.Status, Posted: q.MessageSent,
			ThreadName: q.ThreadName, ThreadURL: gchat.ThreadLink(q.Chat, q.ThreadName),
			AnsweredBy: cmp.Or(q.AnsweredByName, q.AnsweredBy), Waiter: q.Deliverer(env, q.TmuxPane != ""), HandedOver: q.HandedOver,
		}
		if len(q.Questions) > 0 {
			o.Question = redact.Clean(asked(q, 0)) // it may be cut, and half a secret is not known as one
		}
		if !q.MessageSent {
			o.PostError = q.PostError
		}
		open = append(open, o)
	}
	return open, bad
}

// asked is what a prompt of a question asks: of a permission the command before Claude's words about it, and of a session that
// waits Claude's last words.
func asked(q *state.Question, prompt int) string {
	switch {
	case q.Kind == state.AskedNext && q.Shown != "":
		return q.Shown
	case q.Kind == state.AskedPermission && state.Shell(q.Tool) && q.About != "":
		return q.Tool + ": " + wording.Cut(state.OneLine(q.Shown), mostWords) + " (" + q.About + ")"
	}
	return q.Questions[prompt].Question
}
