package space

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"gchat-hooks/e2e/kit"
)

// However many pages ask for a session, it is looked at once in two seconds, and only if
// the thread exists.
func TestPageSession_LookedAtOnce(t *testing.T) {
	var looks, ahead atomic.Int64
	s, _ := testServer(t, Options{
		Now: func() time.Time { return time.Unix(ahead.Load(), 0) },
		DescribeSession: func(context.Context, string) Session {
			time.Sleep(50 * time.Millisecond) // the other pages come meanwhile
			return Session{State: fmt.Sprint("works ", looks.Add(1)), AcceptsCommands: true}
		},
	})
	m := postAsPerson(t, s, "", "hello")
	ask := func(thread string) string {
		return callHandler(s, "GET", "http://localhost/page/session?thread="+
			url.QueryEscape(thread), "", pageKeyField(s)).Body.String()
	}
	for at, want := range []int{1, 1, 2, 2, 3} { // a second each
		ahead.Store(int64(at))
		var pages sync.WaitGroup
		for range 5 {
			pages.Go(func() {
				kit.Equalf(t, ask(m.Thread.Name),
					fmt.Sprintf(`{"does":"works %d","commands":true}`+"\n", want), "after %d s", at)
			})
		}
		pages.Wait()
	}
	for _, other := range []string{"", "spaces/local/threads/none"} {
		if got := ask(other); got != `{"does":"","commands":false}`+"\n" || looks.Load() != 3 {
			t.Errorf("of thread %q: %s, after %d looks", other, got, looks.Load())
		}
	}
}

// A space without callbacks knows no session and offers to start none.
func TestPageSession_NoneWithoutAnOwner(t *testing.T) {
	s, _ := testServer(t, Options{})
	m, _ := s.PostAs(nil, "", "hello")
	for path, want := range map[string]string{
		"session?thread=" + m.Thread.Name: `{"does":"","commands":false}`,
		"projects":                        `{"start":false,"projects":null}`, "week": `{}`,
	} {
		kit.Equalf(t, callHandler(s, "GET", "/page/"+path, "", "Host: localhost",
			pageKeyField(s)).Body.String(), want+"\n", "%s", path)
	}
}

// weekOf is a week with hostile texts.
func weekOf(texts ...string) Week {
	week := Week{
		Days:  []Day{{Date: "2026-11-27", Asked: 3, InChat: 2}, {Date: "2026-11-28", Asked: 12, Lost: 1}},
		Waits: []StepTime{{Step: "from message to reply", Median: 4.2, P95: 95}},
	}
	for _, text := range texts {
		week.Totals = append(week.Totals, Total{What: text, Count: 1})
	}
	return week
}

const shownScript = `[...document.querySelectorAll('#session button')].filter((b) => ` +
	`b.checkVisibility() && !b.disabled).map((b) => b.textContent).join()`

func TestPageSession_IsSteered(t *testing.T) {
	ctx := newBrowser(t)
	var now atomic.Value
	now.Store(Session{})
	var looks atomic.Int32
	var started, startedFrom atomic.Value
	long := strings.Repeat("x", 10<<10)
	names := []string{
		`"><img src=x onerror=alert(1)><script>document.title = "owned"</script>`,
		"\u202egpj.evil", long, "web-shop", "a", "b", "c", "d", "e",
	}
	s, srv, app := openApp(t, Options{
		IsDirect: true,
		DescribeSession: func(context.Context, string) Session {
			looks.Add(1)
			return now.Load().(Session)
		},
		ListProjects: func() ([]string, bool) { return names, true },
		DescribeWeek: func() Week { return weekOf(names[0], long) },
		StartedThread: func(message string) string {
			startedFrom.Store(message)
			thread, _ := started.Load().(string)
			return thread
		},
	})
	d := newCardDeskOf(t, s, srv.URL, app)
	name := "<script>document.title = 'owned'</script>\u202e" + long
	thread := d.postReport("", "session_start", name,
		"[Session Start] "+name+"\n\nProject: "+names[0])
	other := d.postReport("", "progress_update", "other", "[Progress] other\n\nStep 2.")
	runActions(t, ctx, chromedp.EmulateViewport(360, 740, chromedp.EmulateScale(2),
		chromedp.EmulateMobile), chromedp.Navigate(s.PageURL(srv.URL)))
	waitUntil(t, ctx, `document.querySelectorAll('[data-thread]').length === 2`)
	wantContrast(t, ctx, "closed week")
	runActions(t, ctx, chromedp.Click(chromedp.CSS(`#week summary`)))
	waitUntil(t, ctx,
		`[...document.querySelectorAll('#week caption')].map((c) => c.textContent).join() ===
			'Asked and answered,How long it took,In all'`,
		`[...document.querySelectorAll('#week tbody')][0].innerText.includes('12') &&
			document.querySelector('.bar-of').style.width === '25%' &&
			document.querySelector('.bar-of').offsetWidth === 16 &&
			document.documentElement.scrollWidth <= 360`)
	wantReadable(t, ctx, "phone-week")
	runActions(t, ctx, chromedp.Click(chromedp.CSS(`#week summary`)))
	kit.Equalf(t, looks.Load(), 0, "looks without an open thread")
	openThread(t, ctx, thread)
	waitUntil(t, ctx,
		`document.querySelector('#thread-title').textContent === 'Session start' &&
			document.querySelector('#session').hidden`)
	for _, c := range []struct {
		Session
		want string
	}{
		{Session{"works", true, "", nil}, "Screen,Status,Stop,Compact,Clear,Mute 1h"},
		{Session{"dialog open", true, "", nil}, "Screen,Status,Compact,Clear,Mute 1h"},
		{Session{"idle", true, "", nil}, "Screen,Status,Compact,Clear,Mute 1h"},
		{Session{"idle", false, "", nil}, ""}, // nobody reads them
		{Session{"ended", false, "", nil}, ""},
		{Session{"out of reach", true, "Outside of tmux.", nil}, "Status,Mute 1h"},
		{Session{"waits for you", true, "", nil}, "Screen,Status,Compact,Clear,Mute 1h"},
	} {
		now.Store(c.Session)
		waitUntil(t, ctx,
			fmt.Sprintf(`document.querySelector('#does').checkVisibility() &&
				document.querySelector('#does').textContent === %q &&
				%s === %q`, c.State, shownScript, c.want),
			`document.querySelector('#reply').checkVisibility() &&
				document.documentElement.scrollWidth <= 360`,
			fmt.Sprintf(`document.querySelector('#outside').innerText === %q`, c.OutsideTmux))
		wantContrast(t, ctx, c.State)
	}
	screenshot(t, ctx, "phone-session")

	// While Claude works, what it does stands above the box, and changes. Then it is gone.
	const progressScript = `document.querySelector('#progress').innerText`
	for _, progress := range []*Progress{
		{Calls: []string{"Bash", "Read " + names[0]}, Words: "Now the tests.\u202e"},
		{Calls: []string{"Edit page.go"}, Words: long},
		{Calls: []string{}, Words: "<b>Done</b>"},
	} {
		now.Store(Session{"works", true, "", progress})
		want := strings.Join(progress.Calls, " · ")
		waitUntil(t, ctx, fmt.Sprintf(`document.querySelector('#progress').checkVisibility() &&
			[...document.querySelectorAll('#progress p')].map((p) => p.textContent).join('|') === %q`,
			strings.TrimPrefix(want+"|"+progress.Words, "|")),
			`document.documentElement.scrollWidth <= 360 && !document.querySelector('#progress img, #progress b') &&
				document.querySelector('#progress').offsetHeight < 100 &&
				document.querySelector('#reply').checkVisibility()`)
		wantContrast(t, ctx, "progress")
	}
	now.Store(Session{"idle", true, "", nil})
	waitUntil(t, ctx, progressScript+` === '' && !document.querySelector('#progress').checkVisibility()`)
	now.Store(Session{"waits for you", true, "", nil})
	waitUntil(t, ctx, `document.querySelector('#does').textContent === 'waits for you'`)

	// Clear asks first, where the commands were; the keyboard is where the question is.
	runActions(t, ctx, chromedp.Focus(chromedp.CSS(`#clear`)), chromedp.KeyEvent("\r"))
	waitUntil(t, ctx, shownScript+` === 'Keep it,Clear it' && document.activeElement.id === 'keep'`)
	screenshot(t, ctx, "phone-session-clear")
	click(t, ctx, `#keep`)
	waitUntil(t, ctx, `document.activeElement.id === 'clear'`)
	click(t, ctx, `#clear`)
	openThread(t, ctx, other) // the question is not carried along
	waitUntil(t, ctx, shownScript+` === 'Screen,Status,Compact,Clear,Mute 1h'`)
	openThread(t, ctx, thread)
	now.Store(Session{"works", true, "", nil})
	waitUntil(t, ctx, `!document.querySelector('#stop').disabled`)
	for _, id := range []string{
		`[data-say="/screen"]`, `#stop`, `[data-say="/mute 1h"]`, `#clear`,
		`[data-say="/clear"]`,
	} {
		click(t, ctx, id)
	}
	wantReplies(t, s, thread, "/screen", "/stop", "/mute 1h", "/clear")

	// A session is begun from the list. What was written stays until it has started.
	evaluate(t, ctx, `location.hash = ''`)
	click(t, ctx, `#begin`)
	waitUntil(t, ctx,
		`document.activeElement.id === 'new-search' &&
			document.documentElement.scrollWidth <= 360`,
		`JSON.stringify([...document.querySelectorAll('#new-project option')].slice(1).map((o) => `+
			`o.value)) === JSON.stringify(`+jsonText(names)+`)`)
	wantReadable(t, ctx, "phone-new")
	click(t, ctx, `#new-start`)
	waitUntil(t, ctx,
		`document.querySelector('#new-project-problem').textContent === 'Choose a project.' &&
			document.querySelector('#new-words-problem').textContent === 'Write what to do.' &&
			document.activeElement.id === 'new-project'`)
	screenshot(t, ctx, "phone-new-missing")
	const shown = `document.querySelector('#new-status').textContent`
	// the only project that is found is chosen
	runActions(t, ctx, chromedp.SendKeys(chromedp.CSS(`#new-search`), "WEB"))
	waitUntil(t, ctx, `document.querySelectorAll('#new-project option').length === 2 &&
		document.querySelector('#new-project').value === 'web-shop'`)
	runActions(t, ctx, chromedp.SendKeys(chromedp.CSS(`#new-words`), "Fix the\n@cart"))
	waitUntil(t, ctx, `document.querySelector('#new-words-problem').textContent === ''`)
	evaluate(t, ctx, `document.querySelector('#new-start').click();
		document.querySelector('#new-start').click()`) // twice
	waitUntil(t, ctx, shown+` === 'Starting in web-shop…' && document.querySelector('#new-words').disabled`)
	wantContrast(t, ctx, "starting")
	messages := s.Messages()
	last := messages[len(messages)-1]
	if last.Text != "/new web-shop Fix the\n@cart" || last.ThreadReply ||
		last.Sender.Name != PersonName {
		t.Errorf("begun with %+v", last)
	}
	d.postReport(last.Thread.Name, "note", "", "[Not used] No word may begin with @.")
	waitUntil(t, ctx, shown+` === '' && document.querySelector('#new-failed').textContent === 'No word may begin with @.' &&
		document.querySelector('#new-words').value === 'Fix the\n@cart' &&
		document.querySelector('#new-project').value === 'web-shop' && location.hash === ''`)
	wantReadable(t, ctx, "phone-new-refused")
	kit.Equalf(t, len(s.Messages()), len(messages)+1, "messages after two taps and a note")
	evaluate(t, ctx, `document.querySelector('#new-words').value = 'Fix the cart'`)
	click(t, ctx, `#new-start`)
	waitUntil(t, ctx, shown+` === 'Starting in web-shop…'`)
	started.Store(other)
	waitUntil(t, ctx, `location.hash.slice(1) === '`+other[strings.LastIndex(other, "/")+1:]+`'`)
	last = s.Messages()[len(s.Messages())-1]
	kit.Equalf(t, startedFrom.Load().(string), last.Name, "asked for the session of")
	waitUntil(t, ctx,
		`document.querySelector('#new-form').hidden &&
			document.querySelector('#new-words').value === '' && document.title !== 'owned' &&
			!document.querySelector('main script, #new img[src=x]')`)

	// A page that nobody sees asks for nothing.
	evaluate(t, ctx,
		`Object.defineProperty(document, 'hidden', { value: true }); window.asked = 0; const `+
			`real = fetch; window.fetch = (...a) => { window.asked++; return real(...a) }`)
	time.Sleep(2500 * time.Millisecond)
	waitUntil(t, ctx, `window.asked === 0`)
}
