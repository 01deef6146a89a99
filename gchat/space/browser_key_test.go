package space

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
)

// A attackerSite is somebody else's web server on another port of this host.
type attackerSite struct {
	space, thread string

	mu       sync.Mutex
	visits   int
	received []string // the requests, with their headers
	cookies  []string // that browsers brought
	stolen   []string // what it got of the space with them
}

// attackScript is what the neighbour's page tries in the person's browser. Its result is
// what it got.
const attackScript = `<!doctype html><title>harmless</title><button>Go</button><script type="module">
const space = %q;
const post = { method: 'POST', credentials: 'include', body: JSON.stringify({ thread: %q, text: 'yes', clientId: 'evil' }) };
const asJSON = { 'Content-Type': 'application/json' };
const read = async (path, how) => (await fetch(space + path, { credentials: 'include', ...how })).text();
const tries = {
  'cookies': () => document.cookie,
  'storage': async () => (await indexedDB.databases()).length + localStorage.length + (await caches.keys()).length,
  'week': () => read('/page/week'),
  'week without CORS': () => read('/page/week', { mode: 'no-cors' }),
  'events without CORS': () => read('/events', { mode: 'no-cors' }),
  'post': async () => (await fetch(space + '/page/messages', { ...post, headers: asJSON })).status,
  'post with a header': async () =>
    (await fetch(space + '/page/messages', { ...post, headers: { ...asJSON, 'Gchat-Page-Key': 'guess' } })).status,
  'post without CORS': async () => (await fetch(space + '/page/messages', { ...post, mode: 'no-cors' })).status,
  'the module of the key': async () => Object.keys(await import(space + '/page/key.js')).length,
  'EventSource': () => new Promise((done) => {
    const source = new EventSource(space + '/events', { withCredentials: true });
    source.onmessage = source.onopen = () => done('open');
    source.onerror = () => { source.close(); done(''); };
  }),
  'a frame': () => new Promise((done) => {
    const frame = document.createElement('iframe');
    frame.onload = () => done(frame.contentDocument?.body?.textContent ?? '');
    frame.src = space + '/';
    document.body.append(frame);
  }),
  'a worker for its origin': async () => (await navigator.serviceWorker.register('/worker.js', { scope: space + '/' })).scope,
  'a worker of its origin': async () => (await navigator.serviceWorker.register(space + '/page/page.js')).scope,
  'a window': () => peek(opened),
  'a window of its name': () => {
    const named = window.open('', 'space'); // an empty one where the name leads to none
    return named === opened && peek(named);
  },
};
let opened = null;
async function peek(other) {
  for (;;) { // until its page has come: till then it is an empty page of this origin
    try {
      if (other.closed || other.location.href !== 'about:blank') break;
    } catch {
      break;
    }
    await new Promise((done) => setTimeout(done, 20));
  }
  for (const look of [() => other.document.title, () => other.location.href, () => other.indexedDB.databases(), () => other.fetch]) {
    try {
      if (await look()) return look.toString();
    } catch { // another origin
    }
  }
  other.location = space + '/#key=guess'; // that it may
  return '';
}
let tell;
window.got = new Promise((done) => { tell = done; });
document.querySelector('button').onclick = async () => {
  opened = window.open(space + '/', 'space');
  const got = [];
  for (const [name, attempt] of Object.entries(tries)) {
    const what = await Promise.resolve().then(attempt).catch(() => '');
    if (what) got.push(name + ': ' + what);
  }
  tell(got.join('; ') || 'nothing');
};
</script>`

func (n *attackerSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.visits++
	n.received = append(n.received, fmt.Sprint(r.URL, r.Header))
	if header := r.Header.Get("Cookie"); header != "" {
		n.cookies = append(n.cookies, header)
	}
	body := fmt.Sprintf(`{"thread":%q,"text":"yes","clientId":"replayed"}`, n.thread)
	for path, method := range map[string]string{
		"/page/messages": "POST", "/page/week": "GET", "/page/projects": "GET",
	} {
		again, _ := http.NewRequest(method, n.space+path, strings.NewReader(body))
		again.Header = r.Header.Clone()
		again.Header.Set("Content-Type", "application/json")
		again.Header.Del("Sec-Fetch-Site") // as a program sends it
		again.Header.Del("Origin")
		answer, err := http.DefaultClient.Do(again)
		if err != nil {
			continue
		}
		content, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			n.stolen = append(n.stolen, fmt.Sprintf("%s %s: %s", method, path, content))
		}
	}
	if r.URL.Path == "/worker.js" {
		w.Header().Set("Content-Type", "text/javascript")
		w.Header().Set("Service-Worker-Allowed", "/")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, attackScript, n.space, n.thread)
}

// A web server on another port of the same host gets nothing of the page from the same
// browser, and decides nothing. A cookie would go to it.
func TestPageKey_AnotherPortDecidesNothing(t *testing.T) {
	ctx := newBrowser(t)
	d := newCardDesk(t)
	s := d.s
	thread := d.ask(bashPermission())
	navigate(t, ctx, s.PageURL(d.base))
	openThread(t, ctx, thread)
	waitUntil(t, ctx, isLiveScript+` && document.querySelector('[data-choice="allow"]')`)

	n := &attackerSite{space: d.base, thread: thread}
	next := kit.NewServer(t, n)
	other := openTab(t, ctx)
	navigate(t, other, next.URL)
	click(t, other, "button")
	got, err := chromedp.Run(other,
		chromedp.Evaluate[string](`window.got`, chromedp.EvalAwaitPromise))
	if err != nil || got != "nothing" {
		t.Errorf("the neighbour's page got %s (%v)", got, err)
	}
	n.mu.Lock()
	if n.visits == 0 || len(n.cookies) > 0 || len(n.stolen) > 0 {
		t.Errorf("of %d requests the neighbour has the cookies %q, and got %q with them", n.visits,
			n.cookies, n.stolen)
	}
	n.mu.Unlock()
	for _, m := range s.Messages() {
		if m.Sender.Name == PersonName {
			t.Errorf("the permission is decided: %q", m.Text)
		}
	}
	s.mu.Lock()
	if len(s.queue) > 0 {
		t.Errorf("the app has %d events", len(s.queue))
	}
	s.mu.Unlock()
	click(t, ctx, `[data-choice="deny"]`) // the person's own tab goes on
	d.wantTap("deny")

	// Nor does a link to it in a message.
	n.mu.Lock()
	n.visits = 0
	n.mu.Unlock()
	openThread(t, ctx, postQuestion(t, s, d.base, "link", "[Stop] see <"+next.URL+"/log|the log>"))
	click(t, ctx, "#messages a")
	bound.Until(t, "the link is followed", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.visits > 0
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	all := strings.Join(n.received, "\n")
	if strings.Contains(all, s.pageKey()) || strings.Contains(all, "Referer:["+d.base) ||
		len(n.stolen) > 0 {
		t.Errorf("the neighbour received %s", all)
	}
}

const isLockedScript = `document.querySelector('#locked').checkVisibility() &&
	!document.querySelector('main').checkVisibility() &&
	document.querySelector('#locked').textContent.includes('gchat-hooks space')`

// wantCleanAddress fails if the key is in the tab's address, its history or its
// title.
func wantCleanAddress(t *testing.T, ctx context.Context) {
	t.Helper()
	entries, err := chromedp.Run(ctx, chromedp.NavigationEntries())
	kit.NoError(t, err)
	waitUntil(t, ctx, `location.hash === '' && location.search === ''`)
	for _, e := range entries.Entries {
		if strings.Contains(e.URL, "key=") || strings.Contains(e.URL, "token=") ||
			strings.Contains(e.Title, "key") {
			t.Errorf("the tab's history has %s, %q", e.URL, e.Title)
		}
	}
}

// A link is opened once on a device. Its key is kept for the origin, for every tab, and a
// wrong link does not displace it. When the space's token changes, each tab says so, and
// the new link serves all of them.
func TestPageKey_LinkIsOpenedOnce(t *testing.T) {
	ctx := newBrowser(t)
	var now atomic.Pointer[Space]
	var down atomic.Bool
	srv := kit.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(pageKeyHeader) != "" && down.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		now.Load().Handler().ServeHTTP(w, r)
	}))
	replace := func() *Space {
		s, err := Open(Options{})
		kit.NoError(t, err)
		postQuestion(t, s, serveOnce(t, s), "bash", "Bash: rm -rf build")
		if old := now.Swap(s); old != nil {
			old.Close()
		}
		return s
	}
	s := replace()
	t.Cleanup(func() { now.Load().Close() }) // first: it ends the event streams

	navigate(t, ctx, srv.URL)
	waitUntil(t, ctx, isLockedScript+` && !document.body.textContent.includes('rm -rf')`)
	wantReadable(t, ctx, "phone-locked")
	navigate(t, ctx, srv.URL+"/#key=wrong")
	waitUntil(t, ctx, isLockedScript+
		` && document.querySelector('#locked-words').textContent.includes('no longer valid')`)
	navigate(t, ctx, s.PageURL(srv.URL)) // the same document
	const shows = isLiveScript +
		` && document.querySelector('main').checkVisibility() &&
			document.querySelector('[data-thread]') &&
		!document.querySelector('#locked').checkVisibility() &&
		!document.querySelector('#only-tab').checkVisibility()`
	waitUntil(t, ctx, shows)
	wantCleanAddress(t, ctx)

	other := openTab(t, ctx)
	navigate(t, other, srv.URL)
	waitUntil(t, other, shows)
	for _, link := range []string{"/#key=wrong", "/?token=wrong", "/?token=" + s.secrets.APIToken} {
		navigate(t, other, "about:blank", srv.URL+link)
		waitUntil(t, other, shows)
		wantCleanAddress(t, other)
		runActions(t, other, chromedp.Reload())
		waitUntil(t, other, shows)
	}

	s = replace()
	waitUntil(t, ctx, isLockedScript)
	waitUntil(t, other, isLockedScript)
	navigate(t, ctx, s.PageURL(srv.URL))
	waitUntil(t, ctx, shows)
	waitUntil(t, other, shows)

	// A reload before the server took the key does not lose it.
	elsewhere := strings.Replace(srv.URL, "127.0.0.1", "localhost", 1) // an origin of its own
	down.Store(true)
	navigate(t, ctx, "about:blank", s.PageURL(elsewhere))
	runActions(t, ctx, chromedp.Reload())
	wantCleanAddress(t, ctx)
	down.Store(false)
	waitUntil(t, ctx, shows)

	// Where the browser refuses to keep it, the key lives as long as the tab, and the
	// page says so.
	elsewhere = strings.Replace(srv.URL, "127.0.0.1", "space.localhost", 1)
	private := openTab(t, ctx)
	runFirst(t, private, `Object.defineProperty(window, 'indexedDB', {
		get() { throw new DOMException('no', 'SecurityError'); } })`)
	const says = isLiveScript + ` && document.querySelector('#only-tab').checkVisibility()`
	navigate(t, private, s.PageURL(elsewhere))
	waitUntil(t, private, says)
	wantCleanAddress(t, private)
	runActions(t, private, chromedp.Reload())
	waitUntil(t, private, says)
	screenshot(t, private, "phone-only-tab")
	navigate(t, other, elsewhere)
	waitUntil(t, other, isLockedScript)
}
