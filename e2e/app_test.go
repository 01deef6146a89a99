package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"google.golang.org/api/chat/v1"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat/space"
)

// startWithApp starts a session that asks with cards, in a direct message with its Chat
// app.
func startWithApp(t *testing.T, c claude, cfg config) *hookedSession {
	t.Helper()
	cfg.App = true
	return startApproving(t, c, cfg)
}

// tapCard taps a button of a message's card as it stands there.
func (b *hookedSession) tapCard(m *chat.Message, choice string, inputs map[string][]string) {
	b.t.Helper()
	kit.NoError(b.t, b.space.Tap(nil, m.Name, "", choice, inputs, ""))
}

// awaitClosedCard waits until the card of a message says so, without a button.
func (b *hookedSession) awaitClosedCard(m *chat.Message, parts ...string) {
	b.t.Helper()
	b.awaitPostFunc(fmt.Sprintf("whose card says %q", parts), func(is *chat.Message) bool {
		if is.Name != m.Name || len(is.CardsV2) == 0 {
			return false
		}
		raw, _ := is.CardsV2[0].Card.MarshalJSON()
		return containsAll(is.Text+string(raw), parts) && !strings.Contains(string(raw), "onClick")
	})
}

func TestTappedAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		asks   []question
		choice string
		inputs map[string][]string
		told   []string
	}{
		"single choice": {[]question{deployQuestion}, "2", nil, []string{`"="Rolling deployment"`}},
		"several":       {[]question{featuresQuestion}, "send", map[string][]string{"q1": {"1", "3"}}, []string{`"="Auth, Search"`}},
		"two questions": {[]question{databaseQuestion, featuresQuestion}, "send", map[string][]string{"q1": {"2"}, "q2": {"3"}},
			[]string{`"Which DB?"="SQLite"`, `"="Search"`}},
		"own words": {[]question{deployQuestion}, "send", map[string][]string{"w1": {"neither: use \"$HOME\" & wait\nQ2: 1 然后 ✅"}},
			[]string{"neither: use \"$HOME\" & wait\nQ2: 1 然后 ✅"}},
	} {
		t.Run(name, func(t *testing.T) {
			versions := []string{newestVersion}
			if name == "single choice" {
				versions = bothVersions
			}
			eachClaude(t, versions, func(t *testing.T, cl claude) {
				b := startWithApp(t, cl, config{Script: []turn{{questionCall(c.asks...)}, thanksTurn}})
				b.Prompt("go ahead")
				q := b.awaitPost("[AskUserQuestion]", c.asks[0].Question)
				b.tapCard(q, c.choice, c.inputs)
				b.awaitResult(1, c.told...)
				b.awaitClosedCard(q, "[Answered]", "You,")
				b.WaitScreen("Thanks, understood.")
			})
		})
	}
}

// A permission is allowed, one denied with a reason, one allowed for always; then comes
// the next instruction.
func TestTappedDecisions(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startWithApp(t, c, config{Script: []turn{{bash("mkdir one")}, {bash("mkdir two")}, {bash("mkdir three")}, {bash("mkdir four")}, askBackTurn, thanksTurn}})
		b.Prompt("go ahead")
		for _, step := range []struct{ shown, choice, why, says string }{
			{"mkdir one", "allow", "", "Allowed: Bash: mkdir one"}, {"mkdir two", "deny", "use git mv", "Reason: use git mv"},
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
		for name, want := range map[string]bool{"one": true, "two": false, "three": true, "four": true} {
			if _, err := os.Stat(filepath.Join(b.Dir, name)); (err == nil) != want {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestATappedPlan(t *testing.T) {
	plan := turn{toolCall("ExitPlanMode", map[string]any{"plan": "# The plan\n\n1. do this"})}
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startWithApp(t, c, config{Args: []string{"--permission-mode", "plan"}, Script: []turn{{textBlock("Hm.")}, plan, plan, thanksTurn}})
		b.awaitPlan("# The plan\n\n1. do this")
		b.Prompt("go ahead")
		q := b.awaitPost("[Plan] Session:")
		b.tapCard(q, "back", map[string][]string{"w1": {"leave it out"}})
		b.awaitResult(1, "leave it out")
		b.awaitClosedCard(q, "Sent the plan back.", "leave it out")
		b.tapCard(b.awaitPost("[Plan] Session:"), "approve", nil)
		b.WaitScreen("Thanks, understood.")
	})
}

// The terminal, a second person and an old card: the first answer counts, and each of the
// others is told.
func TestTapsThatComeTooLate(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startWithApp(t, c, config{Env: []string{"GCHAT_ALLOWED_USERS=" + space.PersonName + ",users/2"}, Script: []turn{{questionCall(deployQuestion)}, {questionCall(databaseQuestion)}, thanksTurn}})
		b.Prompt("go ahead")
		q := b.awaitPost("[AskUserQuestion]", deployQuestion.Question)
		old := buttonState(q)
		b.Choose(firstOption, "2")
		b.awaitClosedCard(q, "Answered in the terminal.")
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
func TestATapWithoutAPoller(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startWithApp(t, c, config{Script: []turn{{questionCall(deployQuestion)}, thanksTurn}})
		b.Prompt("go ahead")
		q := b.awaitPost("[AskUserQuestion]")
		b.killProcess("poller --detached")
		b.tapCard(q, "3", nil)
		b.awaitResult(1, "Canary")
		b.awaitClosedCard(q, "Canary")
	})
}

// A card whose machine is gone: another one, which has its subscription, tells who tapped
// it.
func TestACardOfAMachineThatIsGone(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startWithApp(t, c, config{Script: []turn{{questionCall(deployQuestion)}, thanksTurn}})
		b.Prompt("go ahead")
		q := b.awaitPost("[AskUserQuestion]", deployQuestion.Question)
		kit.NoError(t, b.space.Tap(nil, q.Name, strings.Repeat("0", 32), "2", nil, ""))
		b.awaitPost("[Not used]", "This card is closed")
		b.tapCard(q, "2", nil)
		b.awaitResult(1, "Rolling deployment")
	})
}

// In a real browser, all is tapped, and the cards have no buttons afterwards.
func TestTapsInABrowser(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startWithApp(t, c, config{Script: []turn{
			{questionCall(deployQuestion)}, {questionCall(featuresQuestion)}, {questionCall(databaseQuestion, featuresQuestion)}, {questionCall(deployQuestion)}, {bash("mkdir one")}, {bash("mkdir two")}, askBackTurn, thanksTurn,
		}})
		p := b.openPhonePage()
		b.Prompt("go ahead")
		p.tapAnswer(`[data-option="3"]`)
		p.awaitAnswered(1, "Canary")
		p.tapAnswer(`[data-option="1"]`, `[data-option="3"]`, `[data-choice="send"]`)
		p.awaitAnswered(2, "Auth, Search")
		p.tapAnswer(`[data-question="1"] [data-option="2"]`, `[data-question="2"] [data-option="1"]`, `[data-choice="send"]`)
		p.awaitAnswered(3, `"Which DB?"="SQLite"`, "Auth")
		p.typeAnswer("neither, wait")
		p.tapAnswer(`#send`)
		p.awaitAnswered(4, "neither, wait")
		p.tapAnswer(`[data-choice="allow"]`)
		p.awaitAnswered(5)
		p.typeAnswer("use git mv")
		p.tapAnswer(`[data-choice="deny"]`)
		p.awaitAnswered(6, "use git mv")
		p.typeAnswer("yes, and push it")
		p.tapAnswer(`#send`)
		b.API.WaitText(t, "yes, and push it")
		b.WaitScreen("Thanks, understood.")
	})
}

func TestAPlanIsTappedInABrowser(t *testing.T) {
	plan := turn{toolCall("ExitPlanMode", map[string]any{"plan": "# The plan\n\n1. do this"})}
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startWithApp(t, c, config{Args: []string{"--permission-mode", "plan"}, Script: []turn{{textBlock("Hm.")}, plan, plan, thanksTurn}})
		p := b.openPhonePage()
		b.awaitPlan("# The plan\n\n1. do this")
		b.Prompt("go ahead")
		p.typeAnswer("leave it out")
		p.tapAnswer(`[data-choice="back"]`)
		p.awaitAnswered(1, "leave it out")
		p.tapAnswer(`[data-choice="approve"]`)
		b.WaitScreen("Thanks, understood.")
	})
}

// What a person writes goes along with what they tap. What counted of two answers is said
// and shown, and only clear words decide a permission.
func TestWordsAndTapsOnThePage(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startWithApp(t, c, config{Script: []turn{
			{questionCall(deployQuestion)}, {questionCall(databaseQuestion, featuresQuestion)}, {questionCall(databaseQuestion, featuresQuestion)}, {bash("mkdir one")}, thanksTurn,
		}})
		p := b.openPhonePage()
		b.Prompt("go ahead")
		p.typeAnswer("but keep the footer")
		p.tapAnswer(`[data-option="2"]`)
		p.awaitResult(1, `"="Rolling deployment"`, "but keep the footer")

		p.leaveThread()
		p.typeAnswer("if it is fast")
		p.tapAnswer(`[data-question="2"] [data-option="3"]`, `[data-question="1"] [data-option="2"]`, `[data-choice="send"]`)
		p.awaitResult(2, `"Which DB?"="SQLite"`, "if it is fast", `"="Search"`)

		p.leaveThread()
		p.typeAnswer("just auth and postgres")
		p.tapAnswer(`#send`)
		b.awaitPost("[Kept]", "Q1: just auth and postgres")
		p.runActions(chromedp.Poll[chromedp.Void](`document.querySelector('[name="w1"]').value === 'just auth and postgres'`))
		p.tapAnswer(`[data-question="2"] [data-option="1"]`, `[data-choice="send"]`)
		p.awaitResult(3, `"Which DB?"="just auth and postgres"`, `"="Auth"`)

		p.leaveThread()
		for _, unclear := range []string{"👍", "ja"} {
			p.typeAnswer(unclear)
			p.tapAnswer(`#send`)
			p.runActions(chromedp.WaitVisible(chromedp.CSS(`#thread-state[data-state="open"]`)))
		}
		b.awaitPostFunc("a second time that nothing is decided", func(*chat.Message) bool {
			return b.countPosts("[Not used] That is not a yes or a no.") == 2
		})
		p.typeAnswer("use git mv")
		p.tapAnswer(`#refuse`)
		p.awaitResult(4, "use git mv")
		b.WaitScreen("Thanks, understood.")
		if _, err := os.Stat(filepath.Join(b.Dir, "one")); err == nil {
			t.Error("the command ran")
		}
	})
}

// phonePage is a person at the space's page on a phone.
type phonePage struct {
	*hookedSession
	runActions func(...chromedp.Action[chromedp.Void])
	isOpen     bool // a thread
}

func (b *hookedSession) openPhonePage() *phonePage {
	b.t.Helper()
	p := &phonePage{hookedSession: b, runActions: phoneBrowser(b.t)}
	p.runActions(chromedp.Navigate(b.pageURL))
	return p
}

// openThread goes to the thread that waits, unless one is open.
func (p *phonePage) openThread() {
	p.t.Helper()
	if !p.isOpen {
		p.runActions(chromedp.Click(chromedp.CSS(`[data-thread][data-state="open"]`), chromedp.NodeVisible))
	}
	p.isOpen = true
}

func (p *phonePage) typeAnswer(text string) {
	p.t.Helper()
	p.openThread()
	p.runActions(chromedp.SendKeys(chromedp.CSS(`[data-reply]`), text, chromedp.NodeVisible))
}

func (p *phonePage) tapAnswer(buttons ...string) {
	p.t.Helper()
	p.openThread()
	for _, b := range buttons {
		p.runActions(chromedp.Click(chromedp.CSS(b), chromedp.NodeVisible))
	}
}

// awaitAnswered waits until Claude has the answer, and no button of the card can be
// tapped; then the list of threads is back.
func (p *phonePage) awaitAnswered(n int, results ...string) {
	p.t.Helper()
	p.awaitResult(n, results...)
	p.runActions(chromedp.WaitNotPresent(chromedp.CSS(`[data-option]:enabled, .decide:enabled:not([hidden])`)))
	p.runActions(chromedp.WaitVisible(chromedp.CSS(`#thread-state:is([data-state="answered"], [data-state="denied"])`)))
	p.leaveThread()
}

// leaveThread goes back to the list of threads.
func (p *phonePage) leaveThread() {
	p.t.Helper()
	p.runActions(chromedp.Navigate(p.pageURL))
	p.isOpen = false
}

// A tap and a key in the terminal at the same moment: one of them counts, and the card
// says which.
func TestATapAndAKeyAtOnce(t *testing.T) {
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

// phoneBrowser starts a browser of a phone's size. What it returns does things in it.
func phoneBrowser(t *testing.T) func(...chromedp.Action[chromedp.Void]) {
	t.Helper()
	home := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, chromedp.UserDataDir(t.TempDir()),
		chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		chromedp.Cancel(ctx) // waits until the browser is gone
		cancel()
	})
	act := func(actions ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(ctx, actions...); err != nil {
			t.Fatalf("browser: %v", err)
		}
	}
	act(chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(2), chromedp.EmulateMobile))
	return act
}
