package cli

import (
	"cmp"
	"slices"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// openQuestion is a question that still wants an answer, or whose answer is on its way,
// as status shows it.
type openQuestion struct {
	QuestionID  string     `json:"question_id"`
	ThreadKey   string     `json:"thread_key"`
	SessionID   string     `json:"session_id"`
	ClaudeID    string     `json:"claude_session_id"`
	SessionName string     `json:"session_name"`
	ProjectDir  string     `json:"project_dir,omitempty"`
	AskedAt     time.Time  `json:"asked_at"`
	Kind        state.Kind `json:"kind"`      // "", permission, plan or next
	Question    string     `json:"question"`  // the words of the first one
	Questions   int        `json:"questions"` // how many it asks
	Mode        state.Mode `json:"mode"`
	// pending, answered (unconfirmed by Claude), timeout (a reply counts)
	Status     state.Status `json:"status"`
	Posted     bool         `json:"posted"`                // it is in its space
	PostError  string       `json:"post_error,omitempty"`  // why it is not
	ThreadName string       `json:"thread_name,omitempty"` // spaces/S/threads/T
	// opens the thread in a browser, where that is known
	ThreadURL  string `json:"thread_url,omitempty"`
	AnsweredBy string `json:"answered_by,omitempty"` // a name, else users/ID

	Deliverer state.Deliverer `json:"waiter"` // hook, poller (it types), later or terminal

	HandedOver *time.Time `json:"handed_over,omitempty"` // since when only the terminal answers it
}

// openQuestions are the open questions of the index, of all kinds, the oldest first, and
// those that were timed out and would still take a reply. What cannot be read is returned
// in bad, and stays where it is.
func openQuestions(
	env state.Getenv,
	now time.Time,
	redact *state.Redactor,
) (open []openQuestion, unreadable []error) {
	open = []openQuestion{}
	questions, unreadable := state.ReadIndexedQuestions(
		env,
		append(state.OpenStatusTexts, state.TimedOutText)...)
	questions = append(questions, state.WaitingPromptQuestions(env)...)
	state.SortNewestFirst(questions)
	for _, q := range slices.Backward(questions) {
		if !q.Mode.Traits().Asks || !q.Status.IsOpen() && !q.IsLate(now) {
			continue
		}
		shown := openQuestion{
			QuestionID: q.QuestionID, ThreadKey: cmp.Or(q.ThreadKey, q.QuestionID), SessionID: q.SessionID,
			ClaudeID: q.ClaudeSession(), SessionName: cmp.Or(q.SessionName, q.TmuxSession, q.SessionID), ProjectDir: q.ProjectDir,
			AskedAt: q.AskedAt.UTC(), Kind: q.Kind, Questions: len(q.SubQuestions),
			Mode: q.Mode, Status: q.Status, Posted: q.IsMessageSent,
			ThreadName: q.ThreadName, ThreadURL: gchat.ThreadLink(q.Chat, q.ThreadName),
			AnsweredBy: cmp.Or(
				q.AnsweredByName,
				q.AnsweredBy,
			), Deliverer: q.FindDeliverer(env, q.TmuxPane != ""), HandedOver: q.HandedOverAt,
		}
		if len(q.SubQuestions) > 0 {
			// it may be cut, and half a secret is not known as one
			shown.Question = redact.Redact(questionText(q, 0))
		}
		if !q.IsMessageSent {
			shown.PostError = q.PostError
		}
		open = append(open, shown)
	}
	return open, unreadable
}

// questionText is what a prompt of a question asks: of a permission the command before
// Claude's words about it, and of a session that waits Claude's last words.
func questionText(q *state.Question, index int) string {
	switch {
	case q.Kind == state.KindNext && q.ShownText != "":
		return q.ShownText
	case q.Kind == state.KindPermission && state.IsShellTool(q.ToolName) && q.About != "":
		return q.ToolName + ": " + wording.Cut(
			state.OneLine(q.ShownText),
			maxQuestionBytes,
		) + " (" + q.About + ")"
	}
	return q.SubQuestions[index].Question
}
