package cli

import (
	"cmp"
	"slices"
	"time"

	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// openQuestion is what status shows of a question that has no answer yet, or whose answer
// is on its way to Claude.
type openQuestion struct {
	QuestionID  string     `json:"question_id"`
	ThreadKey   string     `json:"thread_key"`
	SessionID   string     `json:"session_id"`
	ClaudeID    string     `json:"claude_session_id"`
	SessionName string     `json:"session_name"`
	ProjectDir  string     `json:"project_dir,omitempty"`
	AskedAt     time.Time  `json:"asked_at"`
	Kind        state.Kind `json:"kind"`      // "", permission, plan or next
	Question    string     `json:"question"`  // the text of its first question
	Questions   int        `json:"questions"` // how many questions it asks
	Mode        state.Mode `json:"mode"`
	// pending, answered (unconfirmed by Claude), timeout (a reply counts)
	Status     state.Status `json:"status"`
	Posted     bool         `json:"posted"`                // its message is in the space
	PostError  string       `json:"post_error,omitempty"`  // why it is not posted
	ThreadName string       `json:"thread_name,omitempty"` // spaces/S/threads/T
	// the thread's address for a browser, if it is known
	ThreadURL  string `json:"thread_url,omitempty"`
	AnsweredBy string `json:"answered_by,omitempty"` // a name, else users/ID

	Deliverer state.Deliverer `json:"waiter"` // hook, poller (it types), later or terminal

	HandedOver *time.Time `json:"handed_over,omitempty"` // since then only the terminal answers it
}

// readOpenQuestions returns the open questions in the index, of all kinds, the oldest
// first, and the prompts that Claude does not have yet. A question that timed out is
// among them while it still takes a reply. A record that cannot be read stays where it
// is, and its error is in unreadable.
func readOpenQuestions(
	env state.Getenv, now time.Time,
) (questions []*state.Question, unreadable []error) {
	statuses := append(state.OpenStatusTexts, state.TimedOutText)
	questions, unreadable = state.ReadIndexedQuestions(env, statuses...)
	questions = append(questions, state.WaitingPromptQuestions(env)...)
	questions = slices.DeleteFunc(questions, func(q *state.Question) bool {
		return !q.Mode.Traits().Asks || !q.Status.IsOpen() && !q.IsLate(now)
	})
	state.SortNewestFirst(questions)
	slices.Reverse(questions)
	return questions, unreadable
}

// openQuestions are the questions of readOpenQuestions as status shows them.
func openQuestions(
	env state.Getenv, questions []*state.Question, redact *state.Redactor,
) (open []openQuestion) {
	open = []openQuestion{}
	for _, q := range questions {
		shown := openQuestion{
			QuestionID:  q.QuestionID,
			ThreadKey:   cmp.Or(q.ThreadKey, q.QuestionID),
			SessionID:   q.SessionID,
			ClaudeID:    q.ClaudeSession(),
			SessionName: cmp.Or(q.SessionName, q.TmuxSession, q.SessionID),
			ProjectDir:  q.ProjectDir,
			AskedAt:     q.AskedAt.UTC(),
			Kind:        q.Kind,
			Questions:   len(q.SubQuestions),
			Mode:        q.Mode,
			Status:      q.Status,
			Posted:      q.IsMessageSent,
			ThreadName:  q.ThreadName,
			ThreadURL:   gchat.ThreadLink(q.Chat, q.ThreadName),
			AnsweredBy:  cmp.Or(q.AnsweredByName, q.AnsweredBy),
			Deliverer:   q.FindDeliverer(env, q.TmuxPane != ""),
			HandedOver:  q.HandedOverAt,
		}
		if len(q.SubQuestions) > 0 {
			// Secrets go before the text is cut: half a secret is not recognised.
			shown.Question = redact.Redact(questionText(q, 0))
		}
		if !q.IsMessageSent {
			shown.PostError = q.PostError
		}
		open = append(open, shown)
	}
	return open
}

// questionText is the text of one of a question's questions. For a permission to run a
// command it is the command, then Claude's description. For a session that waits for the
// next instruction it is Claude's last message.
func questionText(q *state.Question, index int) string {
	switch {
	case q.Kind == state.KindNext && q.ShownText != "":
		return q.ShownText
	case q.Kind == state.KindPermission && state.IsShellTool(q.ToolName) && q.About != "":
		command := wording.Cut(state.OneLine(q.ShownText), maxQuestionBytes)
		return q.ToolName + ": " + command + " (" + q.About + ")"
	}
	return q.SubQuestions[index].Question
}
