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

	"gchat-hooks/gchat/space"
)

// app starts a session that asks with cards, in a direct message with its Chat app.
func app(t *testing.T, c claude, cfg config) *bridge {
	t.Helper()
	cfg.App = true
	return approve(t, c, cfg)
}

// tap taps a button of a message's card as it stands there.
func (b *bridge) tap(m *chat.Message, choice string, inputs map[string][]string) {
	b.t.Helper()
	if err := b.chat.Tap(nil, m.Name, "", choice, inputs, ""); err != nil {
		b.t.Fatal(err)
	}
}

// over waits until the card of a message says so, without a button.
func (b *bridge) over(m *chat.Message, parts ...string) {
	b.t.Helper()
	b.awaitMessage(fmt.Sprintf("whose card says %q", parts), func(is *chat.Message) bool {
		if is.Name != m.Name || len(is.CardsV2) == 0 {
			return false
		}
		raw, _ := is.CardsV2[0].Card.MarshalJSON()
		return holdsAll(is.Text+string(raw), parts) && !strings.Contains(string(raw), "onClick")
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
		"single choice": {[]question{deploy}, "2", nil, []string{`"="Rolling deployment"`}},
		"several":       {[]question{features}, "send", map[string][]string{"q1": {"1", "3"}}, []string{`"="Auth, Search"`}},
		"two questions": {[]question{database, features}, "send", map[string][]string{"q1": {"2"}, "q2": {"3"}},
			[]string{`"Which DB?"="SQLite"`, `"="Search"`}},
		"own words": {[]question{deploy}, "send", map[string][]string{"w1": {"neither: use \"$HOME\" & wait\nQ2: 1 然后 ✅"}},
			[]string{"neither: use \"$HOME\" & wait\nQ2: 1 然后 ✅"}},
	} {
		t.Run(name, func(t *testing.T) {
			versions := []string{newest}
			if name == "single choice" {
				versions = both
			}
			eachClaude(t, versions, func(t *testing.T, cl claude) {
				b := app(t, cl, config{Script: []turn{{ask(c.asks...)}, thanks}})
				b.Prompt("go ahead")
				q := b.await("[AskUserQuestion]", c.asks[0].Question)
				b.tap(q, c.choice, c.inputs)
				b.told(1, c.told...)
				b.over(q, "[Answered]", "You,")
				b.WaitScreen("Thanks, understood.")
			})
		})
	}
}

// A permission is allowed, one denied with a reason, one allowed for always; then comes the next instruction.
func TestTappedDecisions(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := app(t, c, config{Script: []turn{{bash("mkdir one")}, {bash("mkdir two")}, {bash("mkdir three")}, {bash("mkdir four")}, asksBack, thanks}})
		b.Prompt("go ahead")
		for _, step := range []struct{ shown, choice, why, says string }{
			{"mkdir one", "allow", "", "Allowed: Bash: mkdir one"}, {"mkdir two", "deny", "use git mv", "Reason: use git mv"},
			{"mkdir three", "always", "", "Always allowed from now on:"},
		} {
			q := b.await("[Permission]", step.shown)
			b.tap(q, step.choice, map[string][]string{"w1": {step.why}})
			b.over(q, step.says)
		}
		b.told(2, "use git mv")
		q := b.await("[Waiting for you]", "Shall I commit?")
		b.tap(q, "send", map[string][]string{"w1": {"yes, and push it"}})
		b.API.WaitText(t, "yes, and push it")
		b.WaitScreen("Thanks, understood.")
		b.over(q, "[Sent]")
		for name, want := range map[string]bool{"one": true, "two": false, "three": true, "four": true} {
			if _, err := os.Stat(filepath.Join(b.Dir, name)); (err == nil) != want {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestATappedPlan(t *testing.T) {
	plan := turn{call("ExitPlanMode", map[string]any{"plan": "# The plan\n\n1. do this"})}
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := app(t, c, config{Args: []string{"--permission-mode", "plan"}, Script: []turn{{say("Hm.")}, plan, plan, thanks}})
		b.thinks("# The plan\n\n1. do this")
		b.Prompt("go ahead")
		q := b.await("[Plan] Session:")
		b.tap(q, "back", map[string][]string{"w1": {"leave it out"}})
		b.told(1, "leave it out")
		b.over(q, "Sent the plan back.", "leave it out")
		b.tap(b.await("[Plan] Session:"), "approve", nil)
		b.WaitScreen("Thanks, understood.")
	})
}

// The terminal, a second person and an old card: the first answer counts, and each of the others is told.
func TestTapsThatComeTooLate(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := app(t, c, config{Env: []string{"GCHAT_ALLOWED_USERS=" + space.Human + ",users/2"}, Script: []turn{{ask(deploy)}, {ask(database)}, thanks}})
		b.Prompt("go ahead")
		q := b.await("[AskUserQuestion]", deploy.Question)
		old := carried(q)
		b.Choose(firstOption, "2")
		b.over(q, "Answered in the terminal.")
		b.told(1, "Rolling deployment")
		if err := b.chat.Tap(nil, q.Name, old, "3", nil, ""); err != nil {
			t.Fatal(err)
		}
		b.await("[Not used]", "already answered")

		q = b.await("[AskUserQuestion]", database.Question)
		old = carried(q)
		second := &chat.User{Name: "users/2", Type: "HUMAN", DisplayName: "Ben"}
		if err := b.chat.Tap(second, q.Name, old, "1", nil, ""); err != nil {
			t.Fatal(err)
		}
		if err := b.chat.Tap(nil, q.Name, old, "2", nil, ""); err != nil {
			t.Fatal(err)
		}
		b.told(2, "Postgres")
		b.over(q, "Postgres", "Ben,")
		b.WaitScreen("Thanks, understood.")
	})
}

// carried is what the buttons of a message's card carry for its question.
func carried(m *chat.Message) string {
	raw, _ := json.Marshal(m.CardsV2)
	return regexp.MustCompile(`"key":"question","value":"([^"]*)"`).FindStringSubmatch(string(raw))[1]
}

// A tap while no poller runs is used when one is back, which the waiting hook starts.
func TestATapWithoutAPoller(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := app(t, c, config{Script: []turn{{ask(deploy)}, thanks}})
		b.Prompt("go ahead")
		q := b.await("[AskUserQuestion]")
		b.killed("poller --detached")
		b.tap(q, "3", nil)
		b.told(1, "Canary")
		b.over(q, "Canary")
	})
}

// A card whose machine is gone: another one, which has its subscription, tells who tapped it.
func TestACardOfAMachineThatIsGone(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := app(t, c, config{Script: []turn{{ask(deploy)}, thanks}})
		b.Prompt("go ahead")
		q := b.await("[AskUserQuestion]", deploy.Question)
		if err := b.chat.Tap(nil, q.Name, strings.Repeat("0", 32), "2", nil, ""); err != nil {
			t.Fatal(err)
		}
		b.await("[Not used]", "This card is over")
		b.tap(q, "2", nil)
		b.told(1, "Rolling deployment")
	})
}

// In a real browser, all is tapped, and the cards have no buttons afterwards.
func TestTapsInABrowser(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := app(t, c, config{Script: []turn{
			{ask(deploy)}, {ask(features)}, {ask(database, features)}, {ask(deploy)}, {bash("mkdir one")}, {bash("mkdir two")}, asksBack, thanks,
		}})
		p := b.browser()
		b.Prompt("go ahead")
		p.answer(`[data-option="3"]`)
		p.over(1, "Canary")
		p.answer(`[data-option="1"]`, `[data-option="3"]`, `[data-choice="send"]`)
		p.over(2, "Auth, Search")
		p.answer(`[data-question="1"] [data-option="2"]`, `[data-question="2"] [data-option="1"]`, `[data-choice="send"]`)
		p.over(3, `"Which DB?"="SQLite"`, "Auth")
		p.words("neither, wait")
		p.answer(`#send`)
		p.over(4, "neither, wait")
		p.answer(`[data-choice="allow"]`)
		p.over(5)
		p.words("use git mv")
		p.answer(`[data-choice="deny"]`)
		p.over(6, "use git mv")
		p.words("yes, and push it")
		p.answer(`#send`)
		b.API.WaitText(t, "yes, and push it")
		b.WaitScreen("Thanks, understood.")
	})
}

func TestAPlanIsTappedInABrowser(t *testing.T) {
	plan := turn{call("ExitPlanMode", map[string]any{"plan": "# The plan\n\n1. do this"})}
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := app(t, c, config{Args: []string{"--permission-mode", "plan"}, Script: []turn{{say("Hm.")}, plan, plan, thanks}})
		p := b.browser()
		b.thinks("# The plan\n\n1. do this")
		b.Prompt("go ahead")
		p.words("leave it out")
		p.answer(`[data-choice="back"]`)
		p.over(1, "leave it out")
		p.answer(`[data-choice="approve"]`)
		b.WaitScreen("Thanks, understood.")
	})
}

// What a person writes goes along with what they tap. What counted of two answers is said and
// shown, and only clear words decide a permission.
func TestWordsAndTapsOnThePage(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		b := app(t, c, config{Script: []turn{
			{ask(deploy)}, {ask(database, features)}, {ask(database, features)}, {bash("mkdir one")}, thanks,
		}})
		p := b.browser()
		b.Prompt("go ahead")
		p.words("but keep the footer")
		p.answer(`[data-option="2"]`)
		p.told(1, `"="Rolling deployment"`, "but keep the footer")

		p.leave()
		p.words("if it is fast")
		p.answer(`[data-question="2"] [data-option="3"]`, `[data-question="1"] [data-option="2"]`, `[data-choice="send"]`)
		p.told(2, `"Which DB?"="SQLite"`, "if it is fast", `"="Search"`)

		p.leave()
		p.words("just auth and postgres")
		p.answer(`#send`)
		b.await("[Kept]", "Q1: just auth and postgres")
		p.do(chromedp.Poll[chromedp.Void](`document.querySelector('[name="w1"]').value === 'just auth and postgres'`))
		p.answer(`[data-question="2"] [data-option="1"]`, `[data-choice="send"]`)
		p.told(3, `"Which DB?"="just auth and postgres"`, `"="Auth"`)

		p.leave()
		for _, unclear := range []string{"👍", "ja"} {
			p.words(unclear)
			p.answer(`#send`)
			p.do(chromedp.WaitVisible(chromedp.CSS(`#thread-state[data-state="open"]`)))
		}
		b.awaitMessage("a second time that nothing is decided", func(*chat.Message) bool {
			return b.count("[Not used] That decides nothing.") == 2
		})
		p.words("use git mv")
		p.answer(`#refuse`)
		p.told(4, "use git mv")
		b.WaitScreen("Thanks, understood.")
		if _, err := os.Stat(filepath.Join(b.Dir, "one")); err == nil {
			t.Error("the command ran")
		}
	})
}

// thumb is a person at the space's page on a phone.
type thumb struct {
	*bridge
	do   func(...chromedp.Action[chromedp.Void])
	open bool // a thread
}

func (b *bridge) browser() *thumb {
	b.t.Helper()
	p := &thumb{bridge: b, do: phoneBrowser(b.t)}
	p.do(chromedp.Navigate(b.page))
	return p
}

// enter goes to the thread that waits, unless one is open.
func (p *thumb) enter() {
	p.t.Helper()
	if !p.open {
		p.do(chromedp.Click(chromedp.CSS(`[data-thread][data-state="open"]`), chromedp.NodeVisible))
	}
	p.open = true
}

func (p *thumb) words(text string) {
	p.t.Helper()
	p.enter()
	p.do(chromedp.SendKeys(chromedp.CSS(`[data-reply]`), text, chromedp.NodeVisible))
}

func (p *thumb) answer(buttons ...string) {
	p.t.Helper()
	p.enter()
	for _, b := range buttons {
		p.do(chromedp.Click(chromedp.CSS(b), chromedp.NodeVisible))
	}
}

// over waits until Claude has the answer, and no button of the card can be tapped; then the
// list of threads is back.
func (p *thumb) over(n int, told ...string) {
	p.t.Helper()
	p.told(n, told...)
	p.do(chromedp.WaitNotPresent(chromedp.CSS(`[data-option]:enabled, .decide:enabled:not([hidden])`)))
	p.do(chromedp.WaitVisible(chromedp.CSS(`#thread-state:is([data-state="answered"], [data-state="denied"])`)))
	p.leave()
}

// leave goes back to the list of threads.
func (p *thumb) leave() {
	p.t.Helper()
	p.do(chromedp.Navigate(p.page))
	p.open = false
}

// A tap and a key in the terminal at the same moment: one of them counts, and the card says which.
func TestATapAndAKeyAtOnce(t *testing.T) {
	eachClaude(t, ours, func(t *testing.T, c claude) {
		const rounds = 5
		var script []turn
		for n := range rounds {
			script = append(script, turn{ask(round(n))})
		}
		b := app(t, c, config{Script: append(script, thanks)})
		b.Prompt("go ahead")
		for n := range rounds {
			q := b.await("[AskUserQuestion]", round(n).Question)
			b.WaitScreen(round(n).Question)
			time.Sleep(300 * time.Millisecond) // a dialog refuses keys in its first moment
			done := make(chan bool)
			go func() { b.tap(q, "2", nil); close(done) }()
			b.Keys("3")
			<-done
			says := "Canary"
			if told := b.API.WaitToolResult(t, n+1).Text; strings.Contains(told, `"="Rolling"`) {
				says = "Rolling"
			}
			b.over(q, says)
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
