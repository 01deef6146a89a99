package e2e

import (
	"context"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"gchat-hooks/cli/claudecheck/fakemodel"
	"gchat-hooks/e2e/kit"
)

// In a real browser, all is tapped, and the cards have no buttons afterwards.
func TestPage_TapsEveryKind(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startWithApp(t, c, config{Script: []turn{
			{questionCall(deployQuestion)}, {questionCall(featuresQuestion)},
			{questionCall(databaseQuestion, featuresQuestion)}, {questionCall(deployQuestion)},
			{bash("mkdir one")}, {bash("mkdir two")}, askBackTurn, thanksTurn,
		}})
		p := b.openPhonePage()
		b.Prompt("go ahead")
		p.tapAnswer(`[data-option="3"]`)
		p.awaitAnswered(1, "Canary")
		p.tapAnswer(`[data-option="1"]`, `[data-option="3"]`, `[data-choice="send"]`)
		p.awaitAnswered(2, "Auth, Search")
		p.tapAnswer(`[data-question="1"] [data-option="2"]`,
			`[data-question="2"] [data-option="1"]`, `[data-choice="send"]`)
		p.awaitAnswered(3, `"Which DB?"="SQLite"`, "Auth")
		p.sendAnswer("neither, wait", `#send`)
		p.awaitAnswered(4, "neither, wait")
		p.tapAnswer(`[data-choice="allow"]`)
		p.awaitAnswered(5)
		p.sendAnswer("use git mv", `[data-choice="deny"]`)
		p.awaitAnswered(6, "use git mv")
		p.sendAnswer("yes, and push it", `#send`)
		b.API.WaitText(t, "yes, and push it")
		b.WaitScreen("Thanks, understood.")
	})
}

func TestPage_TapsPlan(t *testing.T) {
	plan := planTurn("# The plan\n\n1. do this")
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startWithApp(t, c, inPlanMode(plan, plan, thanksTurn))
		p := b.openPhonePage()
		b.promptPlan("# The plan\n\n1. do this")
		p.sendAnswer("leave it out", `[data-choice="back"]`)
		p.awaitAnswered(1, "leave it out")
		p.tapAnswer(`[data-choice="approve"]`)
		b.WaitScreen("Thanks, understood.")
	})
}

// What a person writes goes along with what they tap. What counted of two answers is said
// and shown, and only clear words decide a permission.
func TestPage_TextGoesWithTaps(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startWithApp(t, c, config{Script: []turn{
			{questionCall(deployQuestion)}, {questionCall(databaseQuestion, featuresQuestion)},
			{questionCall(databaseQuestion, featuresQuestion)}, {bash("mkdir one")}, thanksTurn,
		}})
		p := b.openPhonePage()
		b.Prompt("go ahead")
		p.sendAnswer("but keep the footer", `[data-option="2"]`)
		p.awaitResult(1, `"="Rolling deployment"`, "but keep the footer")

		p.leaveThread()
		p.sendAnswer("if it is fast", `[data-question="2"] [data-option="3"]`,
			`[data-question="1"] [data-option="2"]`, `[data-choice="send"]`)
		p.awaitResult(2, `"Which DB?"="SQLite"`, "if it is fast", `"="Search"`)

		p.leaveThread()
		p.sendAnswer("just auth and postgres", `#send`)
		b.awaitPost("[Kept]", "Q1: just auth and postgres")
		p.do(chromedp.Poll[chromedp.Void](`document.querySelector('[name="w1"]').value === 'just auth and postgres'`))
		p.tapAnswer(`[data-question="2"] [data-option="1"]`, `[data-choice="send"]`)
		p.awaitResult(3, `"Which DB?"="just auth and postgres"`, `"="Auth"`)

		p.leaveThread()
		for _, unclear := range []string{"👍", "ja"} {
			p.sendAnswer(unclear, `#send`)
			p.do(chromedp.WaitVisible(chromedp.CSS(`#thread-state[data-state="open"]`)))
		}
		b.awaitPosts(2, "[Not used]")
		p.sendAnswer("use git mv", `#refuse`)
		p.awaitResult(4, "use git mv")
		b.WaitScreen("Thanks, understood.")
		b.checkMade(false, "one")
	})
}

// phonePage is a person at the space's page on a phone.
type phonePage struct {
	*hookedSession
	*browser
	isOpen bool // a thread
}

func (b *hookedSession) openPhonePage() *phonePage {
	b.t.Helper()
	p := &phonePage{hookedSession: b, browser: newBrowser(b.t)}
	p.do(chromedp.Navigate(b.pageURL))
	return p
}

// openThread goes to the thread that waits, unless one is open. It clicks the row wherever
// that is: rows move while the page loads the sessions.
func (p *phonePage) openThread() {
	p.t.Helper()
	if !p.isOpen {
		const row = `[data-thread][data-state="open"]`
		p.do(chromedp.WaitVisible(chromedp.CSS(row)))
		p.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('" + row + "').click()"))
	}
	p.isOpen = true
}

func (p *phonePage) typeAnswer(text string) {
	p.t.Helper()
	p.openThread()
	p.do(chromedp.SendKeys(chromedp.CSS(`[data-reply]`), text, chromedp.NodeVisible))
}

func (p *phonePage) tapAnswer(buttons ...string) {
	p.t.Helper()
	p.openThread()
	for _, b := range buttons {
		p.do(chromedp.Click(chromedp.CSS(b), chromedp.NodeVisible))
	}
}

// sendAnswer types a text and taps buttons.
func (p *phonePage) sendAnswer(text string, buttons ...string) {
	p.t.Helper()
	p.typeAnswer(text)
	p.tapAnswer(buttons...)
}

// awaitAnswered waits until Claude has the answer, and no button of the card can be
// tapped; then the list of threads is back.
func (p *phonePage) awaitAnswered(n int, results ...string) {
	p.t.Helper()
	p.awaitResult(n, results...)
	p.do(chromedp.WaitNotPresent(chromedp.CSS(`[data-option]:enabled, .decide:enabled:not([hidden])`)))
	p.do(chromedp.WaitVisible(chromedp.CSS(`#thread-state:is([data-state="answered"], [data-state="denied"])`)))
	p.leaveThread()
}

// leaveThread goes back to the list of threads.
func (p *phonePage) leaveThread() {
	p.t.Helper()
	p.do(chromedp.Navigate(p.pageURL))
	p.isOpen = false
}

// A browser is one of a phone's size.
type browser struct {
	test *testing.T
	ctx  context.Context
}

// newBrowser starts a browser, which ends with the test.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	home := t.TempDir()
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), chromedp.UserDataDir(t.TempDir()),
		chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.NoDefaultBrowserCheck)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		chromedp.Cancel(ctx) // waits until the browser is gone
		cancel()
	})
	// The first call must have no bound: it would be the browser's.
	kit.NoError(t,
		chromedp.Do(ctx,
			chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(2), chromedp.EmulateMobile),
			sendAtOnce))
	return &browser{t, ctx}
}

// sendAtOnce has the page send a tap without the three seconds in which it can be undone.
var sendAtOnce = chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
	const script = `const timeout = window.setTimeout;
		window.setTimeout = (f, ms, ...rest) => timeout(f, ms === 3000 ? 0 : ms, ...rest)`
	_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	return err
})

// do does things in the browser, within the time that anything is waited for.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.test.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 2*patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.test.Fatalf("browser: %v", err)
	}
}

// The page has a button for both, and takes the words of its box along.
func TestPage_DeclinesQuestion(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startAsking(t, c, config{
			App: true,
			Script: []turn{
				{questionCall(deployQuestion)}, thanksTurn, {questionCall(talkQuestion)},
				{questionCall(databaseQuestion)}, thanksTurn,
			},
		})
		p := b.openPhonePage()
		b.Prompt("go ahead")
		p.sendAnswer("what is a canary?", `[data-choice="chat"]`)
		b.awaitResult(1, clarifyText+deployQuestion.Question, "The user wrote: what is a canary?")
		b.awaitPost("[Cancelled]", "Claude was told that you want to talk about it first.")
		p.leaveThread()
		b.WaitIdle()
		b.Prompt("again")
		// "Skip" is an option, and no button of ours stands beside it
		p.tapAnswer(`[data-option="2"]`)
		p.do(chromedp.WaitNotPresent(chromedp.CSS(`[data-choice="skip"]`)))
		b.awaitResult(2, `="Skip"`)
		p.leaveThread()
		p.tapAnswer(`[data-choice="skip"]`)
		p.do(chromedp.WaitVisible(chromedp.CSS(`#thread-state[data-state="terminal"]`)))
		b.Choose("Postgres", "2")
		b.awaitResult(3, `="SQLite"`)
		p.do(chromedp.WaitVisible(chromedp.CSS(`#thread-state[data-state="answered"]`)))
	})
}

// On the page a form's fields are filled in, and what is missing is said there.
func TestPage_FillsInForm(t *testing.T) {
	eachClaude(t, testedVersions, func(t *testing.T, c claude) {
		b := startWithApp(t, c, config{
			Args:    allowFormTool,
			Prepare: serveForms(formOfAllKinds, nameForm),
			Script:  []turn{{fakemodel.FormCall()}, {fakemodel.FormCall()}, {fakemodel.FormCall()}, thanksTurn},
		})
		p := b.openPhonePage()
		b.Prompt("go ahead")
		p.tapAnswer(`[data-field="q1"] [data-option="2"]`, `[data-field="q5"] [data-option="1"]`)
		p.do(chromedp.SendKeys(chromedp.CSS(`[name="w2"]`), "Ann Secret", chromedp.NodeVisible))
		p.tapAnswer(`[data-choice="accept"]`)
		p.do(chromedp.WaitVisible(chromedp.CSS(`[data-field="w4"] .problem:not(:empty)`)))
		p.do(chromedp.SendKeys(chromedp.CSS(`[name="w4"]`), "2", chromedp.NodeVisible))
		p.tapAnswer(`[data-choice="accept"]`)
		p.awaitAnswered(1, `{"food":["b"],"name":"Ann Secret","seats":2,"smoke":true}`)
		p.openThread()
		// the only field
		p.do(chromedp.SendKeys(chromedp.CSS(`[name="w1"]`), "Ann Secret",
			chromedp.NodeVisible))
		p.tapAnswer(`[data-choice="accept"]`)
		p.awaitAnswered(2, `{"name":"Ann Secret"}`)
		p.tapAnswer(`[data-choice="decline"]`)
		p.awaitAnswered(3, `"action":"decline"`)
		b.WaitScreen("Thanks, understood.")
		b.checkAbsent("Ann Secret")
	})
}
