package space

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// postOf posts a text of a session's, and askOf a question.
func (d *cardDesk) postOf(id, name, thread, kind, text string) string {
	d.t.Helper()
	about := gchat.About{Kind: kind, Session: name, SessionID: id}
	return d.post(gchat.Post{Text: text, ThreadName: thread, About: about}).ThreadName
}

func (d *cardDesk) askOf(id string, q state.Question) string {
	d.t.Helper()
	texts, card := wording.CardTexts(&q, d.app.CardID(deskID), gchat.CardSize)
	posted := d.post(gchat.Post{
		Text: texts[0], Card: gchat.StoredCard(card),
		About: gchat.About{Kind: "question", SessionID: id},
	})
	d.asked[posted.ThreadName] = &askedQuestion{q, posted.Name}
	return posted.ThreadName
}

const (
	shopID  = "11111111-1111-4111-8111-111111111111"
	oldID   = "22222222-2222-4222-8222-222222222222" // of the shop's session before /clear
	rtlID   = "33333333-3333-4333-8333-333333333333"
	endedID = "44444444-4444-4444-8444-444444444444"
	// of the laptop's session after /clear
	clearedID = "77777777-7777-4777-8777-777777777777"
	otherID   = "55555555-5555-4555-8555-555555555555" // the server does not know it
)

// The page's first view lists the sessions. Their questions stand in them, what needs the
// person stands above all, and what is over moves to the archive.
func TestPage_ListsSessions(t *testing.T) {
	ctx := newBrowser(t)
	var list atomic.Pointer[[]ListedSession]
	list.Store(&[]ListedSession{})
	var looks atomic.Int32
	s, srv, app := openApp(t, Options{
		IsDirect: true,
		ListSessions: func(context.Context) []ListedSession {
			looks.Add(1)
			return *list.Load()
		},
	})
	d := newCardDeskOf(t, s, srv.URL, app)
	const hostile = "<img src=x onerror=alert(1)>\u202e"
	rtlName := "חנות 🛒 " + strings.Repeat("ארוך", 60)
	shop := d.postOf(oldID, "shop", "", "session_start", "[Session Start] shop\n\nProject: shop")
	d.postOf(shopID, "shop", shop, "turn_done", "[Turn Done] shop\nThe totals are right.")
	answered := d.askOf(oldID, askQuestions(databaseQuestion))
	d.end(answered, answerWith())
	permission := bashPermission()
	permission.SessionName = "shop"
	waiting := d.askOf(shopID, permission)
	ended := d.postOf(endedID, hostile, "", "session_end", "[Session End]\n\nLast words: the zebra is done")
	laptop := d.postOf(otherID, "laptop", "", "session_start", "[Session Start] laptop\n\nProject: blog")
	// After /clear, the thread goes on; an earlier version names no id.
	d.postOf(clearedID, "laptop", laptop, "turn_done", "[Turn Done] laptop\nDone.")
	inLaptop := d.askOf(clearedID, askQuestions(databaseQuestion))
	d.end(inLaptop, answerWith())
	earlier := d.ask(state.Question{
		SessionName: "shop", Machine: "vps1", SubQuestions: []state.SubQuestion{databaseQuestion},
	})
	d.end(earlier, answerWith())
	script := d.postOf("nightly", "nightly", "", "task_completion", "[Done] nightly\n\nBackup.")
	d.postReport("", "progress_update", "shop", "[Progress] shop\n\nFrom outside of a session.")
	now := time.Now().UTC()
	ago := func(d time.Duration) string { return now.Add(-d).Format(time.RFC3339) }
	sessions := []ListedSession{
		{
			ID: shopID, FormerIDs: []string{oldID}, Name: "shop", Project: "web-shop",
			State: "works", StateSince: ago(12 * time.Minute), Thread: shop,
			LastWords: "add <b>tax</b>", PersonLast: true,
			Waits: []Wait{{Kind: "permission", Thread: waiting}, {Kind: "terminal"}},
		},
		// it has no thread
		{ID: rtlID, Name: rtlName, Project: "p", State: "idle", LastSeen: ago(time.Minute)},
		{ID: endedID, Name: hostile, State: "ended", Thread: ended, LastSeen: ago(time.Hour)},
	}
	list.Store(&sessions)
	runActions(t, ctx, chromedp.EmulateViewport(320, 640, chromedp.EmulateScale(2),
		chromedp.EmulateMobile), chromedp.Navigate(s.PageURL(srv.URL)))

	const names = `[...document.querySelectorAll('#%s-rows .row strong')].map((n) => n.textContent).join('|')`
	waitUntil(t, ctx,
		fmt.Sprintf(names+` === 'Permission'`, "waiting"),
		fmt.Sprintf(names+` === 'shop|laptop|%s'`, "sessions", rtlName),
		fmt.Sprintf(names+` === 'Progress update|Task completion'`, "others"),
		fmt.Sprintf(`document.querySelector('#others-rows .row:last-child').dataset.thread === %q`, script),
		`document.querySelector('#archive-title').textContent === 'Archive (1)'`,
		// the answered questions have no rows
		fmt.Sprintf(`![%q, %q, %q].some((name) => document.querySelector('[data-thread="' + name + '"]'))`,
			answered, inLaptop, earlier))
	const shopRow = `document.querySelector('[data-session="` + shopID + `"]')`
	waitUntil(t, ctx,
		shopRow+`.querySelector('.waits').textContent === '1 permission'`,
		shopRow+`.querySelector('p:not(.waits)').textContent === 'You: add <b>tax</b>'`,
		shopRow+`.querySelector('.chip').textContent === 'waits for you'`,
		shopRow+`.querySelector('.session').textContent === 'web-shop'`,
		`document.querySelector('[data-session="`+rtlID+`"] .chip').textContent === 'idle'`,
		`document.documentElement.scrollWidth <= 320`)
	for _, scheme := range []string{"light", "dark"} {
		preferScheme(t, ctx, scheme)
		wantReadable(t, ctx, "phone-sessions-"+scheme)
	}

	// A session's thread has its name, and leads to its questions.
	evaluate(t, ctx, shopRow+`.focus()`)
	runActions(t, ctx, chromedp.SendKeys(chromedp.CSS(`[data-session="`+shopID+`"]`), "\r"))
	const links = `[...document.querySelectorAll('#messages .to-thread')]`
	waitUntil(t, ctx,
		`document.querySelector('#thread-title').textContent === 'shop'`,
		`document.querySelector('#thread-session').textContent === 'web-shop'`,
		links+`.map((n) => n.querySelector('.chip').textContent).join() === 'Answered,Needs you,Answered'`,
		`document.querySelector('#other-waits').textContent === 'Needs you, too: shop: Permission'`,
		`document.documentElement.scrollWidth <= 320`)
	wantReadable(t, ctx, "phone-session-thread")
	click(t, ctx, `#other-waits`)
	waitUntil(t, ctx,
		`document.querySelector('#thread-title').textContent === 'Permission' &&
			document.querySelector('#other-waits').hidden`)
	click(t, ctx, `#thread-session a`)
	waitUntil(t, ctx, `document.querySelector('#thread-title').textContent === 'shop'`)

	// Another thread that needs the person is told of in each thread.
	second := d.askOf(shopID, askQuestions(retriesQuestion))
	waitUntil(t, ctx, `document.querySelector('#other-waits').textContent === '2 others need you. First: shop: Permission'`)
	evaluate(t, ctx, `location.hash = ''`)
	waitUntil(t, ctx, shopRow+`.querySelector('.waits').textContent === '1 permission, 1 question'`)
	d.end(waiting, answerWith())
	d.end(second, answerWith())
	waitUntil(t, ctx,
		`document.querySelector('#waiting').hidden`,
		shopRow+`.querySelector('.waits').textContent === '1 dialog in the terminal'`)

	// A click counts also if the row is drawn again between press and release.
	const laptopRow = `document.querySelector('[data-session="` + otherID + `"]')`
	at, err := chromedp.Run(ctx, chromedp.Evaluate[[]float64](`(() => {
		const box = `+laptopRow+`.querySelector('p').getBoundingClientRect();
		return [box.x + 5, box.y + 5] })()`))
	kit.NoError(t, err)
	runActions(t, ctx, chromedp.MouseEvent(chromedp.MousePressed, at[0], at[1], chromedp.ButtonLeft, chromedp.ClickCount(1)))
	d.postOf(otherID, "laptop", laptop, "turn_done", "[Turn Done] laptop\nHalfway.")
	waitUntil(t, ctx, laptopRow+`.textContent.includes('Halfway.')`)
	runActions(t, ctx, chromedp.MouseEvent(chromedp.MouseReleased, at[0], at[1], chromedp.ButtonLeft, chromedp.ClickCount(1)))
	waitUntil(t, ctx, `document.querySelector('#thread-title').textContent === 'laptop'`)
	evaluate(t, ctx, `location.hash = ''`)

	// A session without a thread of its own has a page, and no box.
	evaluate(t, ctx, `document.querySelector('[data-session="`+rtlID+`"]').click()`)
	waitUntil(t, ctx,
		fmt.Sprintf(`document.querySelector('#thread-title').textContent === %q`, rtlName),
		`document.querySelector('[data-reply]').disabled &&
			document.querySelector('#unread-words').textContent.startsWith('This session has no thread')`,
		`document.documentElement.scrollWidth <= 320`)

	// The archive is searched by titles, projects and texts.
	evaluate(t, ctx, `location.hash = ''`)
	click(t, ctx, `#archive-title`)
	for query, want := range map[string]string{"ZEBRA done": hostile, "giraffe": "", "onerror": hostile} {
		evaluate(t, ctx, fmt.Sprintf(`{ const box = document.querySelector('#archive-search');
			box.value = %q; box.dispatchEvent(new Event('input')) }`, query))
		waitUntil(t, ctx, fmt.Sprintf(names+` === %s`, "archive", jsonText(want)))
	}
	waitUntil(t, ctx, `!document.querySelector('main img[src="x"]')`)
	wantContrast(t, ctx, "archive")

	// With hundreds of sessions the list is there at once, and a key press does not draw them.
	many := sessions
	for i := range 300 {
		many = append(many, ListedSession{
			ID: fmt.Sprintf("66666666-0000-4000-8000-%012d", i), Name: fmt.Sprint("many ", i),
			Project: "p", State: "idle", LastSeen: ago(time.Duration(i+2) * time.Minute),
		})
	}
	list.Store(&many)
	evaluate(t, ctx, `window.drawn = new Set(); new MutationObserver((all) => {
		for (const { target } of all) window.drawn.add(target) }).observe(
			document.querySelector('#sessions-rows'), { childList: true, subtree: true })`)
	waitUntil(t, ctx, `document.querySelectorAll('#sessions-rows .row').length === 303`)
	evaluate(t, ctx, `window.drawn.clear()`)
	d.postOf(otherID, "laptop", laptop, "turn_done", "[Turn Done] laptop\nOnce more.")
	waitUntil(t, ctx,
		`document.querySelector('[data-session="`+otherID+`"]').textContent.includes('Once more.')`,
		`window.drawn.size < 5`)
	kit.True(t, looks.Load() < 100, "%d looks", looks.Load())
}
