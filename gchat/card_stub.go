package gchat

import (
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/state"
)

func AppTexts(q *state.Question, id string) ([]string, *chat.CardWithId) {
	return QuestionTexts(q), nil
}
func ClosedCard(q *state.Question, now time.Time) (string, *chat.CardWithId) {
	return NoteText(q, state.Owed{About: state.NoteClosed}), nil
}
func ReadTap(q *state.Question, t *Tap) (map[int]state.Answer, string, string) { return nil, "", "" }
