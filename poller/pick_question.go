package poller

import (
	"fmt"
	"strings"

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
	for _, q := range e.Them[:min(len(e.Them), 5)] {
		keys = append(keys, q.ThreadKey)
	}
	if more := len(e.Them) - len(keys); more > 0 {
		keys = append(keys, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%s could be %d questions: %s", e.By, len(e.Them), strings.Join(keys, ", "))
}

// PickQuestion finds the question that a person means: by its id, its thread's key or its thread's name; by its session's name,
// where that has one question that can be answered; by a beginning of its id or key that only one such question has. Where
// none can be answered, a closed one that is meant is returned: that it is over is worth saying. The error is *NotOne, or what
// kept questions from being read.
func (p *Poller) PickQuestion(by string) (*state.Question, error) {
	qs, bad := p.allQuestions(&Look{})
	begins := func(q *state.Question) bool {
		return strings.HasPrefix(q.QuestionID, by) || strings.HasPrefix(q.ThreadKey, by)
	}
	ways := []func(*state.Question) bool{
		func(q *state.Question) bool { return by == q.QuestionID || by == q.ThreadKey || by == q.ThreadName },
		func(q *state.Question) bool { return by == q.SessionName || by == q.SessionID },
		begins,
	}
	var closed *state.Question
	for way, means := range ways {
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
		case way == 0 && over != nil:
			return over, nil // that very one
		case closed == nil:
			closed = over
		}
	}
	if closed != nil {
		return closed, nil
	}
	if len(bad) > 0 { // it may be the one that is meant
		return nil, fmt.Errorf("%w; %d files could not be read: %w", &NotOne{By: by}, len(bad), bad[0])
	}
	return nil, &NotOne{By: by}
}
