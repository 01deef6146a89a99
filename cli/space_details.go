package cli

import (
	"strings"
	"time"

	"gchat-hooks/gchat/space"
	"gchat-hooks/gchat/wording"
	steering "gchat-hooks/poller/commands"
	"gchat-hooks/state"
)

// pageWeek returns the figures of the last seven days.
func (d *spaceServer) pageWeek() space.Week {
	now := time.Now()
	dates := space.WeekDays(now)
	first, _ := time.ParseInLocation(time.DateOnly, dates[0], now.Location())
	stats := state.ReadStats(d.env, first)
	week := space.Week{}
	for _, date := range dates {
		day := space.Day{Date: date}
		if tally := stats.Groups["day"][date]; tally != nil {
			day.Asked, day.Lost = tally.Asked(), len(tally.LostQuestions)
			day.InChat = tally.Counts["answered_in_chat"]
			day.InTerminal = tally.Counts["answered_in_the_terminal"]
			day.Messages = tally.Counts["messages_sent"]
		}
		week.Days = append(week.Days, day)
	}
	for _, name := range stats.Total.Names() {
		week.Totals = append(week.Totals, space.Total{
			What:  strings.ReplaceAll(name, "_", " "),
			Count: stats.Total.Counts[name],
		})
	}
	for _, step := range []struct {
		name  string
		times state.Durations
	}{
		{"from question to message", stats.Total.AskedToPosted},
		{"from message to reply", stats.Total.PostedToReplied},
		{"from reply to Claude", stats.Total.RepliedToTold},
	} {
		if len(step.times) > 0 {
			week.Waits = append(week.Waits, space.StepTime{
				Step:   step.name,
				Median: step.times.Percentile(50),
				P95:    step.times.Percentile(95),
			})
		}
	}
	return week
}

// questionOfCard returns the open question whose card has that id in its buttons; nil if
// there is none.
func (d *spaceServer) questionOfCard(cardID string) *state.Question {
	id, _, _ := strings.Cut(cardID, "-") // the machine's name follows
	questions, _ := state.ReadIndexedQuestions(d.env, state.OpenStatusTexts...)
	for _, q := range questions {
		if state.CardID(d.env, q.QuestionID) == id {
			return q
		}
	}
	return nil
}

// pageShownText returns all that a permission is asked for.
func (d *spaceServer) pageShownText(cardID string) string {
	q := d.questionOfCard(cardID)
	if q == nil || q.Kind != state.KindPermission {
		return ""
	}
	return wording.WholeShownText(q)
}

// pageFormProblems returns what is wrong with the inputs of a form that a person accepts.
func (d *spaceServer) pageFormProblems(
	cardID string, inputs map[string][]string,
) map[string]string {
	q := d.questionOfCard(cardID)
	if q == nil {
		return nil
	}
	return wording.FormProblems(q, &wording.Tap{Choice: wording.AcceptChoice, Inputs: inputs})
}

// pageStartedThread returns the thread of the session that a "/new" message started; "" if
// it has none yet.
func (d *spaceServer) pageStartedThread(message string) string {
	sessions := state.SessionsIn(state.UserStateDir(d.env))
	session, err := sessions.Get(steering.NewSessionID(message))
	if err != nil {
		return ""
	}
	return session.ThreadName
}
