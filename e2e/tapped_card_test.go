package e2e

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/chat/v1"

	"gchat-hooks/cli/claudecheck/fakemodel"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
)

func TestCard_TappedAnswers(t *testing.T) {
	type testCase struct {
		asks   []question
		choice string
		inputs map[string][]string
		told   []string
	}
	single := testCase{[]question{deployQuestion}, "2", nil, []string{`"="Rolling deployment"`}}
	const ownWords = "neither: use \"$HOME\" & wait\nQ2: 1 然后 ✅"
	cases := map[string][]testCase{newestVersion: {
		single,
		{
			[]question{featuresQuestion}, "send", map[string][]string{"q1": {"1", "3"}},
			[]string{`"="Auth, Search"`},
		},
		{
			[]question{databaseQuestion, featuresQuestion}, "send",
			map[string][]string{"q1": {"2"}, "q2": {"3"}},
			[]string{`"Which DB?"="SQLite"`, `"="Search"`},
		},
		{
			[]question{deployQuestion}, "send", map[string][]string{"w1": {ownWords}},
			[]string{ownWords},
		},
	}, olderVersion: {single}}
	eachClaude(t, testedVersions, func(t *testing.T, cl claude) {
		script := []turn{}
		for _, c := range cases[cl.Version] {
			script = append(script, turn{questionCall(c.asks...)}, thanksTurn)
		}
		b := startWithApp(t, cl, config{Script: script})
		seen := map[string]bool{}
		for i, c := range cases[cl.Version] {
			b.Prompt("go ahead")
			q := b.awaitPostFunc("with the next question", func(m *chat.Message) bool {
				text := cmp.Or(m.Text, m.FallbackText)
				return !seen[m.Name] && strings.HasPrefix(text, "[AskUserQuestion]") &&
					strings.Contains(text, c.asks[0].Question)
			})
			seen[q.Name] = true
			b.tapCard(q, c.choice, c.inputs)
			b.awaitResult(i+1, c.told...)
			b.awaitClosedCard(q, "[Answered]", "You,")
			b.WaitDone("Thanks, understood.")
		}
	})
}

// A permission is allowed, one denied with a reason, one allowed for always; then comes
// the next instruction.
func TestCard_TappedDecisions(t *testing.T) {
	eachSession(t, testedVersions, startWithApp, config{
		Script: []turn{
			{bash("mkdir one")}, {bash("mkdir two")}, {bash("mkdir three")}, {bash("mkdir four")},
			askBackTurn, thanksTurn,
		},
	}, func(t *testing.T, b *hookedSession) {
		for _, step := range []struct{ shown, choice, why, says string }{
			{"mkdir one", "allow", "", "Allowed: Bash: mkdir one"},
			{"mkdir two", "deny", "use git mv", "Reason: use git mv"},
			{"mkdir three", "always", "", "Always allowed from now on:"},
		} {
			q := b.awaitPost("[Permission]", step.shown)
			b.tapCard(q, step.choice, map[string][]string{"w1": {step.why}})
			b.awaitClosedCard(q, step.says)
		}
		b.awaitResult(2, "use git mv")
		q := b.awaitPost("[Waiting for you]", "Shall I commit?")
		b.tapCard(q, "send", map[string][]string{"w1": {"yes, and push it"}})
		b.API.WaitText(t, "yes, and push it")
		b.WaitScreen("Thanks, understood.")
		b.awaitClosedCard(q, "[Sent]")
		for name, want := range map[string]bool{
			"one": true, "two": false, "three": true, "four": true,
		} {
			if _, err := os.Stat(filepath.Join(b.Dir, name)); (err == nil) != want {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestCard_TappedPlan(t *testing.T) {
	plan := planTurn("# The plan\n\n1. do this")
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startWithApp(t, c, inPlanMode(plan, plan, thanksTurn))
		b.promptPlan("# The plan\n\n1. do this")
		q := b.awaitPost("[Plan] Session:")
		b.tapCard(q, "back", map[string][]string{"w1": {"leave it out"}})
		b.awaitResult(1, "leave it out")
		b.awaitClosedCard(q, "plan back", "leave it out")
		b.tapCard(b.awaitPost("[Plan] Session:"), "approve", nil)
		b.WaitScreen("Thanks, understood.")
	})
}

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
	eachSession(t, testedVersions, startWithApp, config{
		Script: []turn{{questionCall(deployQuestion)}, thanksTurn},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[AskUserQuestion]")
		b.killProcess("poller --detached")
		b.tapCard(q, "3", nil)
		b.awaitResult(1, "Canary")
		b.awaitClosedCard(q, "Canary")
	})
}

// A card whose machine is gone: another one, which has its subscription, tells who tapped
// it.
func TestCard_OfAnotherMachineClosed(t *testing.T) {
	eachSession(t, testedVersions, startWithApp, config{
		Script: []turn{{questionCall(deployQuestion)}, thanksTurn},
	}, func(t *testing.T, b *hookedSession) {
		q := b.awaitPost("[AskUserQuestion]", deployQuestion.Question)
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
	eachSession(t, bothVersions, startWithApp, config{
		Script: []turn{
			{questionCall(deployQuestion)}, thanksTurn, {questionCall(databaseQuestion)},
			thanksTurn,
		},
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
	eachSession(t, bothVersions, startWithApp, config{
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
