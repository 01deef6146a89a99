package space

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/gchat"
	"gchat-hooks/gchat/wording"
	"gchat-hooks/state"
)

// newBrowser starts a headless Chromium, or skips the test when there is none.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	var path string
	for _, name := range []string{
		"chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
	} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		if os.Getenv("GCHAT_E2E_REQUIRED") == "1" {
			t.Fatal("no chromium on the PATH, and GCHAT_E2E_REQUIRED=1")
		}
		t.Skip("no chromium on the PATH")
	}
	kit.SkipShort(t, "a browser takes seconds")
	home, err := os.MkdirTemp("", "browser-")
	kit.NoError(t, err)
	// not a failure when the browser, which is going, writes there once more
	t.Cleanup(func() { os.RemoveAll(home) })
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx,
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()),
		// it writes there beside its own folder
		chromedp.Env("HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("host-resolver-rules", "MAP phone.test 127.0.0.1"),
		chromedp.Flag("hide-scrollbars", true),
	)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		chromedp.Cancel(ctx) // waits until the browser is gone, and its folder can go
		cancel()
	})
	if err := chromedp.Do(ctx); err != nil { // the browser lives as long as this call's context
		t.Fatalf("start %s: %v", path, err)
	}
	emulatePhone(t, ctx)
	runFirst(t, ctx, sendAtOnceScript)
	return ctx
}

// sendAtOnceScript has the page send a tap without the three seconds in which it can be
// undone. keepUndoScript takes that back, for the test of those seconds.
const (
	sendAtOnceScript = `window.slowTimeout = window.setTimeout;
		window.setTimeout = (f, ms, ...rest) => window.slowTimeout(f, ms === 3000 ? 0 : ms, ...rest)`
	keepUndoScript = `window.setTimeout = window.slowTimeout`
)

func emulatePhone(t *testing.T, ctx context.Context) {
	runActions(t, ctx,
		chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(2), chromedp.EmulateMobile))
}

func runActions(t *testing.T, ctx context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatalf("browser: %v", err)
	}
}

// waitUntil waits for conditions of the page, one after the other, written in JavaScript.
// Where one throws, it does not hold yet.
func waitUntil(t *testing.T, ctx context.Context, conditions ...string) {
	t.Helper()
	for _, condition := range conditions {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		script := "(() => { try { return Boolean(" + condition + ") } catch { return false } })()"
		if _, err := chromedp.Run(ctx, chromedp.Poll[bool](script)); err != nil {
			t.Fatalf("the page never came to %s: %v", condition, err)
		}
	}
}

func click(t *testing.T, ctx context.Context, selectors ...string) {
	t.Helper()
	for _, selector := range selectors {
		runActions(t, ctx, chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
	}
}

// evaluate runs a script in the page.
func evaluate(t *testing.T, ctx context.Context, script string) {
	t.Helper()
	runActions(t, ctx, chromedp.Evaluate[chromedp.Void](script))
}

func navigate(t *testing.T, ctx context.Context, addresses ...string) {
	t.Helper()
	for _, address := range addresses {
		runActions(t, ctx, chromedp.Navigate(address))
	}
}

// runCommand sends the browser a command of DevTools and returns its result.
func runCommand[P, R any](
	t *testing.T, ctx context.Context, command cdp.Command[P, R], params P,
) (result R) {
	t.Helper()
	runActions(t, ctx, chromedp.Func(
		func(ctx context.Context, target *chromedp.Target) (err error) {
			result, err = cdp.Call(ctx, target, command, params)
			return err
		}))
	return result
}

// runFirst runs a script in each document before its own.
func runFirst(t *testing.T, ctx context.Context, script string) {
	t.Helper()
	runCommand(t, ctx, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// preferScheme has the person prefer light or dark.
func preferScheme(t *testing.T, ctx context.Context, scheme string) {
	t.Helper()
	prefer(t, ctx, "prefers-color-scheme", scheme)
}

// prefer has the person prefer something: names of media features, each with its value.
func prefer(t *testing.T, ctx context.Context, namesAndValues ...string) {
	t.Helper()
	var features []*emulation.MediaFeature
	for pair := range slices.Chunk(namesAndValues, 2) {
		features = append(features, &emulation.MediaFeature{Name: pair[0], Value: pair[1]})
	}
	runCommand(t, ctx, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: features})
}

func screenshot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	dir := os.Getenv("GCHAT_SCREENSHOTS")
	if dir == "" {
		dir = t.TempDir()
	}
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	kit.NoError(t, err)
	kit.NoError(t, os.MkdirAll(dir, 0o755))
	kit.NoError(t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}

// postQuestion posts a question as the forwarder does and returns its thread.
func postQuestion(t *testing.T, s *Space, base, key, text string) string {
	t.Helper()
	body := jsonText(map[string]any{"text": text, "thread": map[string]string{"threadKey": key}})
	return threadOf(mustPost(t, s.WebhookURL(base)+"&messageReplyOption="+replyOrFallback, body))
}

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// waitForReplies waits for the reply of the person in a thread.
func waitForReplies(t *testing.T, s *Space, thread string, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		_, _, changed := s.rowsAfter(0)
		var replies []string
		for _, m := range s.Messages() {
			if m.Thread.Name == thread && m.Sender.Name == PersonName {
				replies = append(replies, m.Text)
			}
		}
		if len(replies) >= n {
			return replies
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%q is all that was replied", replies)
		}
	}
}

func wantReplies(t *testing.T, s *Space, thread string, want ...string) {
	t.Helper()
	if got := waitForReplies(t, s, thread, len(want)); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("replies %q, want %q", got, want)
	}
}

// openThread opens a thread with the mouse. A row that moves just then, as rows above it
// come, is clicked again.
func openThread(t *testing.T, ctx context.Context, thread string) {
	t.Helper()
	waitUntil(t, ctx, fmt.Sprintf(`document.querySelector('[data-thread="%s"]')`, thread))
	evaluate(t, ctx, `location.hash = ''`)
	isOpen := func() bool {
		id, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.hash.slice(1)`))
		return err == nil && id != "" && strings.HasSuffix(thread, "/"+id)
	}
	bound.Until(t, "the thread is open", func() bool {
		click(t, ctx, fmt.Sprintf(`[data-thread="%s"]`, thread))
		return bound.WaitFor(time.Second, isOpen)
	})
}

// faintScript lists the texts of the page whose contrast is below 4.5:1, by the colours
// that the browser computed.
const faintScript = `(() => {
	const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
	const layer = (colour, under) => {
		canvas.fillStyle = under; canvas.fillRect(0, 0, 1, 1);
		canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
		const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
		return 'rgb(' + [r, g, b] + ')';
	};
	const light = (colour) => {
		const [r, g, b] = colour.match(/\d+/g).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const ground = (n) => n ? layer(getComputedStyle(n).backgroundColor, ground(n.parentElement)) : 'rgb(255,255,255)';
	const ratio = (n, pseudo) => {
		const under = ground(n);
		const [a, b] = [light(layer(getComputedStyle(n, pseudo).color, under)), light(under)].sort((a, b) => b - a);
		return (a + 0.05) / (b + 0.05);
	};
	const out = [];
	for (const n of document.querySelectorAll('body *')) {
		const field = n.placeholder && getComputedStyle(n).display !== 'none';
		const says = n.checkVisibility() && [...n.childNodes].some((c) => c.nodeType === 3 &&
		c.data.trim()) && parseFloat(getComputedStyle(n).fontSize) > 0;
		if (n.checkVisibility() &&
		getComputedStyle(n).opacity !== '1') out.push('opacity of ' + n.className);
		if ((says || field) &&
		ratio(n, field ? '::placeholder' : undefined) < 4.5) out.push((n.className ||
		n.tagName) + ' ' + n.textContent.slice(0, 20) + ' ' + ratio(n).toFixed(2));
	}
	return out.join('; ');
})()`

func wantContrast(t *testing.T, ctx context.Context, where string) {
	t.Helper()
	found, err := chromedp.Run(ctx, chromedp.Evaluate[string](faintScript))
	if err != nil || found != "" {
		t.Errorf("%s: too faint: %s (%v)", where, found, err)
	}
}

// wantReadable fails the test if a text of a view does not stand out. It takes a
// screenshot of the view under this name.
func wantReadable(t *testing.T, ctx context.Context, view string) {
	t.Helper()
	wantContrast(t, ctx, view)
	screenshot(t, ctx, view)
}

// typeReply types into the reply box, at its end.
func typeReply(t *testing.T, ctx context.Context, text string) {
	t.Helper()
	runActions(t, ctx, chromedp.SendKeys(chromedp.CSS(`[data-reply]`), text))
}

// fillBox puts a text of any lines into the reply box.
func fillBox(t *testing.T, ctx context.Context, text string) {
	t.Helper()
	runActions(t, ctx, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => {
		const box = document.querySelector('[data-reply]');
		box.value = %s;
		box.dispatchEvent(new Event('input'));
	})()`, jsonText(text))))
}

// openNew asks a question, and opens its thread.
func openNew(t *testing.T, ctx context.Context, d *cardDesk, q state.Question) (thread string) {
	t.Helper()
	thread = d.ask(q)
	openThread(t, ctx, thread)
	waitUntil(t, ctx, hasState("open"))
	return thread
}

const boxIsEmpty = `document.querySelector('[data-reply]').value === ''`

// endsWithText is the condition that the thread's last message has a text.
func endsWithText(text string) string {
	return fmt.Sprintf(`document.querySelector('#messages').lastChild.textContent.includes(%q)`, text)
}

// hasPressed is the condition that the page shows these options as chosen, such as
// "1.2,2.3": "question.option".
func hasPressed(want string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('[aria-pressed="true"]')]
		.map((b) => b.closest('section').dataset.question + '.' + b.dataset.option).join() === %q`, want)
}

// hasOwnText is the condition that the page shows this text as an answer, or as a remark
// on what is chosen.
func hasOwnText(want string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('.own')].filter((p) => p.checkVisibility())
		.map((p) => p.textContent).join('|') === %s`, jsonText(want))
}

// openTab is another tab of the browser.
func openTab(t *testing.T, ctx context.Context) context.Context {
	t.Helper()
	newTab, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	kit.NoError(t, chromedp.Do(newTab)) // the tab lives as long as this call's context
	return newTab
}

const isLiveScript = `document.querySelector('#link').dataset.state === 'live'`

// serveOnce serves a space until the test ends, and returns the address.
func serveOnce(t *testing.T, s *Space) string {
	t.Helper()
	return kit.NewServer(t, s.Handler()).URL
}

func newOption(label, about string) state.Option {
	return state.Option{Label: label, Description: about}
}

var (
	deploymentQuestion = state.SubQuestion{
		Header: "Deployment Strategy", Question: "Which deployment approach should we use?",
		Options: []state.Option{
			newOption("Blue-green deployment", "Zero-downtime with instant rollback."),
			newOption("Rolling deployment", "Gradual rollout."),
			newOption("Recreate", "Simple; a short downtime."),
		},
	}
	featuresQuestion = state.SubQuestion{
		Header: "Features", Question: "Which features should the first release have?",
		MultiSelect: true,
		Options: []state.Option{
			newOption("Search", "Full text, with typo tolerance."), newOption("Wish lists", ""),
			newOption("Gift cards", "Needs the new payment provider."),
		},
	}
	retriesQuestion = state.SubQuestion{
		Header: "Retry policy", Question: "How often should a failed delivery be tried again?",
		Options: []state.Option{
			newOption("Five times in an hour", "Then it goes to the dead letters."),
			newOption("Until it works", ""),
		},
	}
	databaseQuestion = state.SubQuestion{
		Header: "Database", Question: "Where should sessions be stored?",
		Options: []state.Option{
			newOption("PostgreSQL", "What we have."),
			newOption("Redis", "Faster, one more service."),
		},
	}
	mergesQuestion = state.SubQuestion{
		Header: "Checks", Question: "Which checks should block a merge?", MultiSelect: true,
		Options: []state.Option{
			newOption("Unit tests", ""), newOption("Lint", ""),
			newOption("Race detector", "Twice as slow."),
		},
	}
)

func askQuestions(prompts ...state.SubQuestion) state.Question {
	return state.Question{SubQuestions: prompts}
}

// askDecision is a permission, a plan or the next instruction, with these answers.
func askDecision(kind state.Kind, labels ...string) state.Question {
	p := state.SubQuestion{Question: "May it?"}
	for _, label := range labels {
		p.Options = append(p.Options, newOption(label, ""))
	}
	return state.Question{Kind: kind, SubQuestions: []state.SubQuestion{p}}
}

func bashPermission() state.Question {
	q := askDecision(state.KindPermission, state.LabelAllow, state.LabelDeny, state.LabelAlways)
	q.ToolName, q.About, q.ShownText, q.AlwaysAllows = "Bash", "Delete the build folder", "rm -rf build", "rm -rf build:* in this folder"
	return q
}

func oncePermission() state.Question {
	q := askDecision(state.KindPermission, state.LabelAllow, state.LabelDeny)
	q.ToolName, q.About = "WebFetch", "https://example.com/a"
	return q
}

func editPermission() state.Question {
	q := askDecision(state.KindPermission, state.LabelAllow, state.LabelDeny, state.LabelAlways)
	q.ToolName, q.About, q.AlwaysAllows = "Edit", "cart/total.go", "all edits in this session"
	q.ShownText = " func total(items []Item) int {\n-\treturn len(items)\n+\tsum := 0\n" +
		strings.Repeat("+\tsum++\n", 40) + " }"
	return q
}

func terminalPermission() state.Question {
	q := bashPermission()
	q.About, q.ShownText, q.AlwaysAllows, q.IsTerminalOnly = "Publish", "git push --force", "", true
	return q
}

func planQuestion() state.Question {
	q := askDecision(state.KindPlan, state.LabelApprove, state.LabelSendBack,
		state.LabelApproveAuto)
	q.ShownText = "**Totals**\n\n- Sum the prices in `cart/total.go`\n- Round once, at the " +
		"end\n\nNo change to the database."
	return q
}

func nextQuestion() state.Question {
	q := askDecision(state.KindNext, "Reply")
	q.TmuxPane = "%1"
	q.ShownText = "The totals are right now, and all *42* tests pass. Shall I look at the " +
		"rounding, too?"
	return q
}

// cardDesk has the app of a space write to it, as the poller does, and hear what is
// tapped there.
type cardDesk struct {
	t     *testing.T
	s     *Space
	base  string
	app   *gchat.App
	asked map[string]*askedQuestion // by thread
}

type askedQuestion struct {
	q    state.Question
	name string // of the message with its card
}

func newCardDesk(t *testing.T) *cardDesk {
	t.Helper()
	s, srv, app := openApp(t, Options{IsDirect: true})
	return newCardDeskOf(t, s, srv.URL, app)
}

func newCardDeskOf(t *testing.T, s *Space, base string, app *gchat.App) *cardDesk {
	return &cardDesk{t, s, base, app, map[string]*askedQuestion{}}
}

// openCards is a browser at the page of such a space.
func openCards(t *testing.T) (context.Context, *cardDesk) {
	t.Helper()
	ctx := newBrowser(t)
	d := newCardDesk(t)
	navigate(t, ctx, d.s.PageURL(d.base))
	return ctx, d
}

const deskID = "0123456789abcdef0123456789abcdef"

func (d *cardDesk) post(p gchat.Post) gchat.PostedMessage {
	d.t.Helper()
	posted, err := d.app.Post(d.t.Context(), p)
	kit.NoError(d.t, err)
	return posted
}

// ask posts a question's card, in a thread of its own, and gives that.
func (d *cardDesk) ask(q state.Question) (thread string) { return d.askIn("", q) }

func (d *cardDesk) askIn(thread string, q state.Question) string {
	d.t.Helper()
	if q.SessionName == "" {
		q.SessionName, q.CWD = "web-shop", "/home/ann/web-shop"
	}
	texts, card := wording.CardTexts(&q, d.app.CardID(deskID), gchat.CardSize)
	last := len(texts) - 1
	for _, text := range texts[:last] {
		thread = d.post(gchat.Post{
			Text: text, ThreadName: thread, About: gchat.About{Kind: "question"},
		}).ThreadName
	}
	posted := d.post(gchat.Post{
		Text: texts[last], ThreadName: thread, Card: gchat.StoredCard(card),
	})
	d.asked[posted.ThreadName] = &askedQuestion{q, posted.Name}
	return posted.ThreadName
}

// postReport posts a text of the app's.
func (d *cardDesk) postReport(thread, kind, session, text string) string {
	d.t.Helper()
	return d.post(gchat.Post{
		Text: text, ThreadName: thread, About: gchat.About{Kind: kind, Session: session},
	}).ThreadName
}

// keepPartial shows what counted of a reply.
func (d *cardDesk) keepPartial(thread string, partial map[int]state.Answer) {
	d.t.Helper()
	a := d.asked[thread]
	a.q.PartialAnswers = partial
	texts, card := wording.CardTexts(&a.q, d.app.CardID(deskID), gchat.CardSize)
	d.patch(thread, texts[len(texts)-1], card)
}

func (d *cardDesk) patch(thread, text string, card *wording.Card) {
	d.t.Helper()
	kit.NoError(d.t, d.app.Patch(d.t.Context(), d.asked[thread].name, text, gchat.StoredCard(card)))
}

// end closes the card of a thread.
func (d *cardDesk) end(thread string, change func(q *state.Question)) {
	d.t.Helper()
	q := &d.asked[thread].q
	change(q)
	text, card := wording.ClosedCard(q, time.Now())
	d.patch(thread, text, card)
}

// answerWith ends a question with its first option, or with a label.
func answerWith(label ...string) func(q *state.Question) {
	return func(q *state.Question) {
		q.Status, q.ResolvedBy, q.Answers = state.Resolved, "chat", map[string]string{}
		for _, p := range q.SubQuestions {
			q.Answers[p.Question] = append(slices.Clone(label), p.Options[0].Label)[0]
		}
	}
}

func cancelQuestion(q *state.Question) { q.Status, q.ResolvedBy = state.Cancelled, "session_end" }

// wantTap takes the next tap from the subscription, such as "send q1=1 q1=3 w2=soon".
func (d *cardDesk) wantTap(want string) {
	d.t.Helper()
	for tries := 0; ; tries++ {
		events, err := d.app.Pull(d.t.Context())
		if err != nil || tries == 5 {
			d.t.Fatalf("no tap came, but should be %q (%v)", want, err)
		}
		for _, e := range events {
			kit.NoError(d.t, d.app.Ack(d.t.Context(), []string{e.AckID}))
			if e.Tap == nil {
				continue
			}
			got := e.Tap.Choice
			for _, name := range slices.Sorted(maps.Keys(e.Tap.Inputs)) {
				for _, value := range e.Tap.Inputs[name] {
					got += " " + name + "=" + value
				}
			}
			kit.Equalf(d.t, got, want, "tapped")
			return
		}
	}
}

// hasState is the condition that the thread is in a state.
func hasState(want string) string {
	return fmt.Sprintf(`document.querySelector('#thread-state').dataset.state === %q`, want)
}
