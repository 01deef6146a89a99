package e2e

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/cli/claudecheck/fakemodel"
	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
)

// The terminal, a second person and an old card: the first answer counts, and each of the
// others is told.
func TestCard_LateTapsNotUsed(t *testing.T) {
	eachSession(t, testedVersions, startWithApp, config{
		Env: []string{"GCHAT_ALLOWED_USERS=" + space.PersonName + ",users/2"},
		Script: []turn{
			{questionCall(deployQuestion)}, {questionCall(databaseQuestion)}, thanksTurn,
		},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[AskUserQuestion]", deployQuestion.Question)
		old := buttonState(q)
		b.Choose(firstOption, "2")
		b.awaitClosedCard(q, "in the terminal")
		b.awaitResult(1, "Rolling deployment")
		kit.NoError(t, b.space.Tap(nil, q.Name, old, "3", nil, ""))
		b.awaitPost("[Not used]", "already answered")

		q = b.awaitPost("[AskUserQuestion]", databaseQuestion.Question)
		old = buttonState(q)
		second := &chat.User{Name: "users/2", Type: "HUMAN", DisplayName: "Ben"}
		kit.NoError(t, b.space.Tap(second, q.Name, old, "1", nil, ""))
		// Two taps in one millisecond may be read in either order.
		bound.Until(t, "the first tap is read", func() bool {
			return strings.Contains(b.readLog("gchat-hooks.log"), `"sender":"users/2"`)
		})
		kit.NoError(t, b.space.Tap(nil, q.Name, old, "2", nil, ""))
		b.awaitResult(2, "Postgres")
		b.awaitClosedCard(q, "Postgres", "Ben,")
		b.WaitScreen("Thanks, understood.")
	})
}

// buttonState is what the buttons of a message's card carry for its question.
func buttonState(m *chat.Message) string {
	raw, _ := json.Marshal(m.CardsV2)
	return regexp.MustCompile(`"key":"question","value":"([^"]*)"`).FindStringSubmatch(string(raw))[1]
}

// A tap while no poller runs is used when one is back, which the waiting hook starts.
func TestCard_TapWithoutPollerCounts(t *testing.T) {
	eachAsked(t, startWithApp, func(t *testing.T, b *hookedSession, q *chat.Message) {
		b.killProcess("poller --detached")
		b.tapCard(q, "3", nil)
		b.awaitResult(1, "Canary")
		b.awaitClosedCard(q, "Canary")
	})
}

// A card whose machine is gone: another one, which has its subscription, tells who tapped
// it.
func TestCard_OfAnotherMachineClosed(t *testing.T) {
	eachAsked(t, startWithApp, func(t *testing.T, b *hookedSession, q *chat.Message) {
		kit.NoError(t, b.space.Tap(nil, q.Name, strings.Repeat("0", 32), "2", nil, ""))
		b.awaitPost("[Not used]", "closed")
		b.tapCard(q, "2", nil)
		b.awaitResult(1, "Rolling deployment")
	})
}

// A tap and a key in the terminal at the same moment: one of them counts, and the card
// says which.
func TestCard_TapAndKeyTogether(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		const rounds = 5
		var script []turn
		for n := range rounds {
			script = append(script, turn{questionCall(roundQuestion(n))})
		}
		b := startWithApp(t, c, config{Script: append(script, thanksTurn)})
		b.Prompt("go ahead")
		for n := range rounds {
			q := b.awaitPost("[AskUserQuestion]", roundQuestion(n).Question)
			b.WaitScreen(roundQuestion(n).Question)
			time.Sleep(300 * time.Millisecond) // a dialog refuses keys in its first moment
			done := make(chan bool)
			go func() { b.tapCard(q, "2", nil); close(done) }()
			b.Keys("3")
			<-done
			says := "Canary"
			if told := b.API.WaitToolResult(t, n+1).Text; strings.Contains(told, `"="Rolling"`) {
				says = "Rolling"
			}
			b.awaitClosedCard(q, says)
		}
		b.WaitScreen("Thanks, understood.")
	})
}

// A card has a button for both.
func TestCard_TappedDeclines(t *testing.T) {
	eachSession(t, testedVersions, startWithApp, config{
		Script: twiceScript,
	}, func(t *testing.T, b *hookedSession) {
		card := b.awaitPost("[AskUserQuestion]", deployQuestion.Question)
		b.tapCard(card, "chat", map[string][]string{"w1": {"what is a canary?"}})
		b.awaitResult(1, clarifyText+deployQuestion.Question, "The user wrote: what is a canary?")
		b.awaitClosedCard(card, "Claude was told that you want to talk about it first.")
		b.WaitIdle()
		b.Prompt("again")
		card = b.awaitPost("[AskUserQuestion]", databaseQuestion.Question)
		b.tapCard(card, "skip", nil)
		b.awaitClosedCard(card, "In the terminal since ")
		b.Choose("Postgres", "2")
		b.awaitResult(2, `="SQLite"`)
		b.awaitClosedCard(card, "Selected: SQLite", "in the terminal")
	})
}

// A form is filled in on its card.
func TestCard_TappedForm(t *testing.T) {
	eachSession(t, testedVersions, startWithApp, config{
		Args:    allowFormTool,
		Prepare: serveForms(formOfAllKinds),
		Script:  []turn{{fakemodel.FormCall()}, {fakemodel.FormCall()}, thanksTurn},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[Form] Session:", "Book a table?")
		// the fields come in the order of their names
		b.tapCard(q, "accept", map[string][]string{"w2": {"Ann"}})
		b.awaitPost("[Not used]", "4. seats: it is required.")
		b.tapCard(q, "accept", map[string][]string{
			"q1": {"2", "1"}, "w2": {"Ann"}, "w4": {"4"}, "q5": {"1"},
		})
		b.awaitResult(1, `{"food":["a","b"],"name":"Ann","seats":4,"smoke":true}`,
			`"action":"accept"`)
		b.awaitClosedCard(q, "Accepted.")
		next := b.awaitPostFunc("the second form", func(m *chat.Message) bool {
			return strings.HasPrefix(cmp.Or(m.Text, m.FallbackText), "[Form]") && m.Name != q.Name
		})
		b.tapCard(next, "decline", nil)
		b.awaitResult(2, `"action":"decline"`)
		b.awaitClosedCard(next, "Declined.")
		b.WaitScreen("Thanks, understood.")
	})
}
