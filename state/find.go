package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// FindQuestion finds a question of the index by its id, its thread's key or its thread's name, the newest of several; nil when
// there is none.
func FindQuestion(env Getenv, by string) *Question {
	qs, _ := OpenQuestions(env)
	if i := slices.IndexFunc(qs, func(q *Question) bool { return by != "" && goesBy(q, by) }); i >= 0 {
		return qs[i]
	}
	return nil
}

func goesBy(q *Question, by string) bool {
	return by == q.QuestionID || by == q.ThreadKey || by == q.ThreadName
}

// ThreadOf is the thread of a key, as far as a session, a question or a message tells it; "" where none does.
func ThreadOf(env Getenv, key string) (name string) {
	if key == "" {
		return ""
	}
	user := UserState(env)
	id, ofSession := strings.CutPrefix(key, "session-")
	if session, err := SessionsIn(user).Of(id); err == nil {
		name = session.ThreadName
	}
	if name != "" || ofSession { // what a session's first message began stands in its record
		return name
	}
	if q := FindQuestion(env, key); q != nil {
		name = q.ThreadName
	}
	messages, _ := OutboxIn(user).All()
	for _, m := range messages {
		if m.ThreadKey == key {
			name = cmp.Or(m.ThreadName, name)
		}
	}
	return name
}

// PickQuestion finds the question that a person means: by its id, its thread's key or its thread's name, else by its session's
// name or id, where that has one question that can be answered. Where none can be answered, a closed one that is meant is
// returned: that it is over is worth saying.
func PickQuestion(env Getenv, by string) (*Question, error) {
	qs, bad := OpenQuestions(env)
	ofSession := func(q *Question, by string) bool {
		return by == q.SessionName || by == q.SessionID || by == q.ClaudeSessionID
	}
	for _, means := range []func(*Question, string) bool{goesBy, ofSession} {
		var open []*Question
		var over *Question
		for _, q := range qs { // the newest first
			switch {
			case by == "" || !q.Mode.Row().Asks || !means(q, by):
			case q.Answerable() && (!q.Kind.Row().Personal || goesBy(q, by)): // no command decides the others
				open = append(open, q)
			case over == nil:
				over = q
			}
		}
		switch {
		case len(open) == 1:
			return open[0], nil
		case len(open) > 1:
			var keys []string
			for _, q := range open {
				keys = append(keys, q.ThreadKey)
			}
			return nil, fmt.Errorf("%s could be %d questions: %s", by, len(open), strings.Join(keys, ", "))
		case over != nil:
			return over, nil
		}
	}
	if len(bad) > 0 { // it may be the question that is meant
		return nil, fmt.Errorf("no question %s is known; %d files could not be read: %w", by, len(bad), bad[0])
	}
	return nil, fmt.Errorf("no question %s is known", by)
}
