package poller

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"gchat-hooks/state"
)

// FindQuestion finds a question by its id, its thread's key or its thread's name, in all projects that are known and in this
// process's own; the newest of several, nil for none.
func (p *Poller) FindQuestion(by string) (*state.Question, error) {
	dirs, err := p.stateDirs()
	if own, aerr := filepath.Abs(state.ProjectState(p.Env)); aerr == nil {
		dirs = append(dirs, own, state.SpareState(p.Env))
	}
	qs, bad := (&state.Scan{}).Questions(dirs, p.Folders...)
	for _, err := range bad {
		p.Log.Error().Err(err).Msg("question passed over")
	}
	for _, q := range qs {
		if by != "" && (q.QuestionID == by || q.ThreadKey == by || q.ThreadName == by) {
			return q, nil
		}
	}
	for _, dir := range dirs { // another program's, by the name of its file
		if by != filepath.Base(by) {
			break
		}
		if q, err := state.PeekQuestion(filepath.Join(state.MarkersIn(dir).Dir, by+".json")); err == nil && q.QuestionID == by {
			return q, nil
		}
	}
	return nil, err
}

// AdoptMarker makes a marker ours that another program wrote down, since a person wants its reply waited for: the space
// follows from its project's configuration, its thread from its name or its key.
func (p *Poller) AdoptMarker(q *state.Question) (*state.Question, error) {
	chat, space := p.chatFor(q)
	return state.UpdateQuestion(q.Path, func(q *state.Question) error {
		q.Mode, q.MessageSent, q.ThreadName = state.Deny, true, cmp.Or(q.ThreadName, p.ThreadOf(q.ThreadKey))
		if q.Chat == "" {
			q.Chat, q.Space = chat, space
		}
		if q.ProjectDir == "" {
			q.ProjectDir = p.projectOf(stateDirOf(q))
		}
		if q.SessionName == "" {
			q.SessionName = q.SessionID
		}
		return nil
	})
}

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
	for _, q := range e.Them[:min(len(e.Them), 5)] {
		keys = append(keys, q.ThreadKey)
	}
	if more := len(e.Them) - len(keys); more > 0 {
		keys = append(keys, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%s could be %d questions: %s", e.By, len(e.Them), strings.Join(keys, ", "))
}

// PickQuestion finds the question that a person means: by its id, its thread's key or its thread's name; by its session's name
// or id, where that has one question that can be answered; by a beginning of its id or key that only one such question has.
// Where none can be answered, a closed one that is meant is returned: that it is over is worth saying, and an answer to it is
// none to another session's question, whose id may begin as this session is called. The error is *NotOne, or what kept
// questions from being read.
func (p *Poller) PickQuestion(by string) (*state.Question, error) {
	qs, bad := p.allQuestions(&Look{})
	for _, means := range []func(*state.Question) bool{
		func(q *state.Question) bool { return by == q.QuestionID || by == q.ThreadKey || by == q.ThreadName },
		func(q *state.Question) bool {
			return by == q.SessionName || by == q.SessionID || by == q.ClaudeSessionID
		},
		func(q *state.Question) bool { return idBegins(q.QuestionID, by) || idBegins(q.ThreadKey, by) },
	} {
		var open []*state.Question
		var over *state.Question
		for _, q := range qs { // the newest first
			switch {
			case by == "" || !means(q):
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
	if len(bad) > 0 { // it may be the one that is meant
		return nil, fmt.Errorf("%w; %d files could not be read: %w", &NotOne{By: by}, len(bad), bad[0])
	}
	return nil, &NotOne{By: by}
}

// leastBeginning is how much of an id says which: a number could be the name of a session, an option, or a slip.
const leastBeginning = 4

// idBegins says whether an id or a thread's key begins so, as far as that tells it from others: all keys begin alike.
func idBegins(id, beginning string) bool {
	alike := ""
	for _, prefix := range []string{"ask-user-", "ask-"} {
		if strings.HasPrefix(id, prefix) {
			alike = prefix
			break
		}
	}
	return strings.HasPrefix(id, beginning) && len(beginning) >= len(alike)+leastBeginning
}
