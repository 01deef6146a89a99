package space

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/state"
)

// waitsOnPageScript gives what waits on the page: cards with or without a reply, and
// notices without one.
const waitsOnPageScript = `Promise.all([
	import('/page/messages.js'), import('/page/threads.js'),
]).then(async ([{ allThreads, page }, { stateOf }]) => {
	while (!page.isReady) await new Promise(requestAnimationFrame);
	const all = allThreads();
	return JSON.stringify(all.flatMap((t) => t.messages.filter((m, i) => {
		const state = stateOf(all, t, i);
		return state === 'open' || m.card && state === 'replied';
	}).map((m) => m.name)));
})`

// The page shows as waiting what devices are called for, whatever comes after it.
func TestPage_ShowsAsWaitingWhatCalls(t *testing.T) {
	ctx, d := newBrowser(t), newCardDesk(t)
	kinds := []string{
		"question", "permission", "plan", "form", "next", "blocked_alert", "report",
		"session_start", "session_end", "turn_done", "subagent_done", "task_done", "gone_on",
		"progress_update", "heartbeat", "note sent", "note unread", "note reminder",
	}
	number := 0
	post := func(thread, kind, session string) string {
		number++
		return d.post(gchat.Post{
			Text: fmt.Sprintf("[%s] %d", kind, number), ThreadName: thread,
			About: gchat.About{Kind: kind, Session: session},
		}).ThreadName
	}
	for i, kind := range kinds { // each is left alone, and followed by each
		post("", kind, fmt.Sprintf("alone %d", i))
		for j, next := range kinds {
			post(post("", kind, ""), next, "")
			session := fmt.Sprintf("s %d %d", i, j)
			post("", kind, session)
			post("", next, session)
		}
		_, err := d.s.PostAs(Person(), post("", kind, ""), "a person's words")
		kit.NoError(t, err)
	}
	for _, ask := range []state.Question{
		askQuestions(databaseQuestion), bashPermission(), terminalPermission(), planQuestion(),
		nextQuestion(), formQuestion(),
	} {
		d.ask(ask)
		_, err := d.s.PostAs(Person(), d.ask(ask), "1")
		kit.NoError(t, err)
		post(d.ask(ask), "turn_done", "")
		d.end(d.ask(ask), answerWith())
		d.end(d.ask(ask), cancelQuestion)
	}

	called := newWaitingList()
	rows, _, _ := d.s.rowsAfter(0)
	for _, r := range rows {
		called.add(r)
	}
	kit.Must(t, len(called.all) > 20, "too little waits for a test: %d", len(called.all))
	navigate(t, ctx, d.s.PageURL(d.base))
	waitUntil(t, ctx, isLiveScript)
	shown, err := chromedp.Run(ctx,
		chromedp.Evaluate[string](waitsOnPageScript, chromedp.EvalAwaitPromise))
	kit.NoError(t, err)
	for _, r := range rows {
		name := r.Message.Name
		isCalled, isShown := called.all[name] != nil, strings.Contains(shown, `"`+name+`"`)
		kit.True(t, isCalled == isShown, "%q %s in %s: is called %v, shown as waiting %v",
			r.Message.Text, r.Kind, r.Message.Thread.Name, isCalled, isShown)
	}
}
