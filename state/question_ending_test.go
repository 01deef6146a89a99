package state

import (
	"testing"
	"time"

	"gchat-hooks/e2e/kit"
)

// A question is lost if a person's reply was accepted, the question is over, and neither
// a hook nor the terminal gave Claude an answer.
func TestQuestionEnding_Table(t *testing.T) {
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	taken := func(change func(*Question)) *Question {
		q := &Question{
			QuestionID: "q", Status: Answered, AnsweredBy: "users/1", AnsweredMessage: "m",
			Replies: []Reply{{MessageName: "m", CreatedAt: at, Verdict: VerdictUsed},
				{Verdict: VerdictLate}, {Verdict: VerdictRefused}, {Verdict: VerdictKept}},
		}
		change(q)
		return q
	}
	for name, c := range map[string]struct {
		q             *Question
		lost          bool
		told          *time.Time
		late, notUsed int
	}{
		"on its way": {q: taken(func(*Question) {}), late: 1, notUsed: 1},
		"claude is gone": {q: taken(func(q *Question) { q.Status = Cancelled }), lost: true,
			late: 1, notUsed: 1},
		"expired": {q: taken(func(q *Question) { q.Status = Expired }), lost: true,
			late: 1, notUsed: 1},
		"printed, then gone":  {q: taken(func(q *Question) { q.Status, q.PrintedAt = Cancelled, &at }), told: &at, late: 1, notUsed: 1},
		"told":                {q: taken(func(q *Question) { q.Status, q.ResolvedAt = Resolved, &at }), told: &at, late: 1, notUsed: 1},
		"the terminal faster": {q: taken(func(q *Question) { q.Status, q.ResolvedBy = Resolved, "terminal" }), late: 1, notUsed: 2},
		"not answered":        {q: &Question{Status: Expired}},
		"turned down": {q: taken(func(q *Question) {
			q.Status, q.Declined, q.PrintedAt, q.ResolvedBy = Resolved, DeclinedChat, &at, "stop"
		}), told: &at, late: 1, notUsed: 1},
		"left to the terminal": {q: taken(func(q *Question) {
			q.Status, q.ResolvedBy, q.AnsweredBy, q.AnsweredMessage = Resolved, "terminal", "", ""
			q.Declined, q.HandedOverAt = DeclinedSkip, &at
		}), late: 1, notUsed: 1},
	} {
		e := c.q.Ending()
		kit.True(t, e.isLost() == c.lost && e.ToldAt == c.told && e.LateReplies == c.late &&
			e.UnusedReplies == c.notUsed,
			"%s: lost %v, told %v, %d late, %d not used", name, e.isLost(), e.ToldAt, e.LateReplies,
			e.UnusedReplies)
	}
}
