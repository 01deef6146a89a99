package space

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"gchat-hooks/e2e/bound"
	"gchat-hooks/e2e/kit"
	"gchat-hooks/e2e/pushservice"
)

// pushedBrowser is a Chromium whose page has a subscription at the stand-in: it could get
// one of its own from Google only. What the stand-in decrypts is handed to the service
// worker by DevTools.
type pushedBrowser struct {
	*pushDesk
	t            *testing.T
	ctx          context.Context // of the page
	worker       context.Context
	subscription *pushservice.Browser
	registration serviceworker.RegistrationID
	delivered    int
}

func newPushedBrowser(t *testing.T) *pushedBrowser {
	t.Helper()
	b := &pushedBrowser{t: t, ctx: newBrowser(t)}
	b.pushDesk = newPushDesk(t)
	b.subscription = b.service.Subscribe("chromium")
	runFirst(t, b.ctx, `(() => {
		const subscription = {
			options: {}, toJSON: () => (`+b.subscription.JSON()+`), unsubscribe: async () => true,
		};
		let isSubscribed = localStorage.getItem('subscribed');
		PushManager.prototype.subscribe = async ({ userVisibleOnly, applicationServerKey }) => {
			const key = atob(applicationServerKey.replaceAll('-', '+').replaceAll('_', '/'));
			if (!userVisibleOnly || key.length !== 65) throw new Error('bad key');
			localStorage.setItem('subscribed', isSubscribed = 'yes');
			return subscription;
		};
		PushManager.prototype.getSubscription = async () => (isSubscribed ? subscription : null);
	})()`)
	runCommand(t, b.ctx, browser.SetPermission, browser.SetPermissionParams{
		Permission: &browser.PermissionDescriptor{Name: "notifications"}, Setting: "granted",
	})
	return b
}

// newSubscribedBrowser returns a browser whose page asked for notifications.
func newSubscribedBrowser(t *testing.T) *pushedBrowser {
	t.Helper()
	b := newPushedBrowser(t)
	navigate(t, b.ctx, b.s.PageURL(b.base))
	click(t, b.ctx, "#notify")
	waitUntil(t, b.ctx, `!document.querySelector('#called').hidden`)
	b.attach()
	return b
}

// attach finds the service worker, and what DevTools calls its registration.
func (b *pushedBrowser) attach() {
	b.t.Helper()
	registrations := make(chan serviceworker.RegistrationID, 100)
	kit.NoError(b.t, chromedp.Listen(b.ctx, func(event any) {
		if e, is := event.(*serviceworker.EventWorkerRegistrationUpdated); is {
			for _, r := range e.Registrations {
				registrations <- r.RegistrationID
			}
		}
	}))
	runCommand(b.t, b.ctx, serviceworker.Enable, cdp.Empty{})
	b.registration = <-registrations
	bound.Until(b.t, "the service worker runs", func() bool {
		targets, err := chromedp.Targets(b.ctx)
		kit.NoError(b.t, err)
		isWorker := func(i *target.Info) bool { return i.Type == "service_worker" }
		at := slices.IndexFunc(targets, isWorker)
		if at < 0 {
			return false
		}
		ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithTargetID(targets[at].TargetID))
		b.t.Cleanup(cancel)
		b.worker = ctx
		return true
	})
	kit.NoError(b.t, chromedp.Do(b.worker)) // it is attached as long as this call's context
	b.inWorker(`(() => {
		const ours = receive;
		globalThis.received = 0;
		globalThis.receive = (...all) => ours(...all).finally(() => { received++; });
		return '';
	})()`)
}

// deliver hands the next n messages of the push service to the service worker at one
// moment, and waits until it has shown them. A look at the notifications in between would
// make Chromium 156 forget the one that is being shown.
func (b *pushedBrowser) deliver(n int) {
	b.t.Helper()
	all := b.service.WaitFor(b.subscription, b.delivered+n)
	for _, m := range all[b.delivered:] {
		runCommand(b.t, b.ctx, serviceworker.DeliverPushMessage,
			serviceworker.DeliverPushMessageParams{
				Origin: b.base + "/", RegistrationID: b.registration, Data: m.Text,
			})
	}
	b.delivered = len(all)
	bound.Until(b.t, "they are shown", func() bool {
		return b.inWorker("String(received)") == fmt.Sprint(b.delivered)
	})
}

func (b *pushedBrowser) inWorker(script string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.worker, bound.Patience)
	defer cancel()
	result, err := chromedp.Run(ctx, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise))
	kit.NoError(b.t, err)
	return result
}

// wantShown waits until the browser shows these notifications: title, text and buttons.
func (b *pushedBrowser) wantShown(want ...string) {
	b.t.Helper()
	got := ""
	isSo := bound.WaitFor(bound.Patience, func() bool {
		got = b.inWorker(`registration.getNotifications().then((all) => all.map((n) =>
			[n.title, n.body, ...n.actions.map((a) => a.title)].join('|')).join('\n'))`)
		return got == strings.Join(want, "\n")
	})
	kit.True(b.t, isSo, "the browser shows %q, want %q", got, want)
}

// tap taps the notification: an action, or "" for the rest of it. DevTools cannot do it,
// so the worker gets the event that the browser would give it.
func (b *pushedBrowser) tap(action string) {
	b.t.Helper()
	b.inWorker(fmt.Sprintf(`registration.getNotifications().then(async ([notification]) => {
		const event = new NotificationEvent('notificationclick', { notification, action: %q });
		let work;
		event.waitUntil = (promise) => { work = promise; };
		dispatchEvent(event);
		return String(await work.catch((error) => error));
	})`, action))
}

// wantInstallable fails the test if Chromium would not install the page as an app.
func wantInstallable(t *testing.T, ctx context.Context) {
	t.Helper()
	manifest := runCommand(t, ctx, page.GetAppManifest, page.GetAppManifestParams{})
	kit.Equalf(t, len(manifest.Errors), 0, "errors in the manifest %s", manifest.Data)
	found := runCommand(t, ctx, page.GetInstallabilityErrors, cdp.Empty{})
	for _, e := range found.InstallabilityErrors {
		t.Errorf("not installable: %s %v", e.ErrorID, e.ErrorArguments)
	}
}

// changeSubscription has the browser take back the subscription. The worker gets the event
// that the browser would give it, with the new one or null.
func (b *pushedBrowser) changeSubscription(renewed string) {
	b.t.Helper()
	b.inWorker(fmt.Sprintf(`(async () => {
		const event = new ExtendableEvent('pushsubscriptionchange');
		const subscription = %s;
		event.newSubscription = subscription && { toJSON: () => subscription };
		event.oldSubscription = null;
		let work;
		event.waitUntil = (promise) => { work = promise; };
		dispatchEvent(event);
		return String(await work.catch((error) => error));
	})()`, renewed))
}

// While a notification is taken back, others that are shown at the same moment stay known
// to the browser, so that they can be taken back as well.
func TestPage_PushesAtOneMoment(t *testing.T) {
	b := newSubscribedBrowser(t)
	forgotten := b.inWorker(`(async () => {
		const push = (content) => {
			const event = new PushEvent('push', { data: JSON.stringify(content) });
			let work;
			event.waitUntil = (promise) => { work = promise; };
			dispatchEvent(event);
			return work;
		};
		let forgotten = 0;
		for (let i = 0; i < 15; i++) {
			const pushes = [push({ type: 'over', tag: 'ended' })];
			for (let j = 0; j < 8; j++) {
				pushes.push(push({ type: 'call', tag: 'new' + j, title: 'new' }));
				await new Promise((resolve) => setTimeout(resolve, 1));
			}
			await Promise.all(pushes);
			const shown = await registration.getNotifications();
			forgotten += 8 - shown.length;
			shown.forEach((notification) => notification.close());
		}
		return String(forgotten);
	})()`)
	kit.Equal(t, forgotten, "0")
}

// A person learns that a device is not called any more: from a notification, and from the
// page when it is opened.
func TestPage_RefusedRenewalIsTold(t *testing.T) {
	b := newSubscribedBrowser(t)
	b.changeSubscription(b.service.Subscribe("renewed").JSON())
	b.wantShown()
	// Firefox gives the event neither the new subscription nor the earlier one.
	again := b.service.Subscribe("again")
	b.inWorker(`(() => {
		PushManager.prototype.subscribe = async ({ userVisibleOnly, applicationServerKey }) => {
			PushManager.prototype.subscribe = async () => { throw new Error('no push service'); };
			if (!userVisibleOnly || applicationServerKey.length !== 87) throw new Error('bad key');
			return { toJSON: () => (` + again.JSON() + `) };
		};
		return '';
	})()`)
	b.changeSubscription(`null`)
	b.wantShown()
	subscribed, err := Devices(b.dir)
	kit.NoError(t, err)
	kit.Equal(t, subscribed[0].Subscription, subscriptionOf(t, again))
	const told = "This device is no longer notified|Open the page to be notified again"
	b.changeSubscription(`null`)
	b.wantShown(told)
	devices, err := Devices(b.dir)
	kit.NoError(t, err)
	kit.Contains(t, devices[0].Refusal, "got no subscription")

	runFirst(t, b.ctx, `PushManager.prototype.getSubscription = async () => null;
		PushManager.prototype.subscribe = async () => { throw new Error('no push service'); };`)
	navigate(t, b.ctx, b.base)
	waitUntil(t, b.ctx, `document.querySelector('#push-problem').checkVisibility()
		&& document.querySelector('#push-problem').textContent.includes('got no subscription')
		&& document.querySelector('#called').hidden && !document.querySelector('#notify').hidden`)
	wantContrast(t, b.ctx, "a device that is not called")

	runFirst(t, b.ctx, `PushManager.prototype.subscribe = async () => ({
		options: {}, toJSON: () => (`+b.subscription.JSON()+`), unsubscribe: async () => true,
	})`)
	navigate(t, b.ctx, b.base)
	waitUntil(t, b.ctx, `!document.querySelector('#called').hidden
		&& document.querySelector('#push-problem').hidden`)

	// The notification may lead to a page that was open all the time.
	b.wantStatus(400, "PUT", "/page/push/devices/"+devices[0].ID, `{"subscription":{}}`)
	evaluate(t, b.ctx, `document.dispatchEvent(new Event('visibilitychange'))`)
	bound.Until(t, "the device is called again", func() bool {
		devices, err := Devices(b.dir)
		return err == nil && devices[0].Refusal == ""
	})
}

// A person is called while the page is closed, answers in the notification, and is told
// when that came too late. What is over is taken back.
func TestPage_PushCallsAndAnswers(t *testing.T) {
	b := newPushedBrowser(t)
	navigate(t, b.ctx, b.s.PageURL(b.base))
	click(t, b.ctx, "#notify")
	waitUntil(t, b.ctx,
		`!document.querySelector('#called').hidden && document.querySelector('#notify').hidden`)
	wantReadable(t, b.ctx, "phone-called")
	wantInstallable(t, b.ctx)
	b.attach()
	devices, err := Devices(b.dir)
	kit.NoError(t, err)
	kit.Must(t, len(devices) == 1 && devices[0].Name == "Chrome on Linux", "%+v", devices)

	seen := b.ask(askQuestions(databaseQuestion)) // on the page, which is visible
	waitForStep(t, b.pushDesk, "skipped", 1)
	b.end(seen, answerWith())
	navigate(t, b.ctx, "about:blank")

	bound.Until(t, "the page says that it is closed", func() bool {
		b.s.pushes.mu.Lock()
		defer b.s.pushes.mu.Unlock()
		return b.s.pushes.visibleTill[devices[0].ID].IsZero()
	})
	thread := b.ask(askQuestions(databaseQuestion))
	b.deliver(1)
	const call = "web-shop|Question: Database|PostgreSQL|Redis"
	b.wantShown(call)
	b.tap("2")
	b.wantShown()
	b.wantTap("2")

	b.end(thread, answerWith("Redis"))

	late := b.ask(askQuestions(databaseQuestion))
	b.deliver(1)
	b.wantShown(call)
	b.wantStatus(200, "POST", "/page/push/taps", tapBody("", b.asked[late].name, "1"))
	b.tap("2")
	b.wantShown("web-shop|Too late: already answered")
	b.wantTap("1")
	pullNothing(t, b.pushDesk)
	b.end(late, answerWith())
	b.deliver(1)
	b.wantShown()

	over := b.ask(bashPermission())
	b.deliver(1)
	b.wantShown("web-shop|Permission")
	b.end(over, answerWith())
	b.deliver(1)
	b.wantShown()

	// a tap on the notification itself opens the thread in a page that is open
	thread = b.ask(planQuestion())
	b.deliver(1)
	b.wantShown("web-shop|Plan")
	navigate(t, b.ctx, b.base)
	waitUntil(t, b.ctx, `!document.querySelector('#called').hidden`)
	b.tap("")
	id := thread[strings.LastIndex(thread, "/")+1:]
	waitUntil(t, b.ctx, fmt.Sprintf(`location.hash === '#%s'`, id))

	kit.NoError(t, RemoveDevice(b.dir, devices[0].Name)) // at a shell
	navigate(t, b.ctx, b.base)
	waitUntil(t, b.ctx,
		`!document.querySelector('#notify').hidden && document.querySelector('#called').hidden`)
	click(t, b.ctx, "#notify")
	waitUntil(t, b.ctx, `!document.querySelector('#called').hidden`)
	click(t, b.ctx, "#call-no-more")
	waitUntil(t, b.ctx, `!document.querySelector('#notify').hidden`)
	devices, err = Devices(b.dir)
	kit.NoError(t, err)
	kit.Equal(t, len(devices), 0)

	// an app on the Home Screen has a storage of its own, as another origin has
	navigate(t, b.ctx, strings.Replace(b.base, "127.0.0.1", "localhost", 1))
	waitUntil(t, b.ctx, `!document.querySelector('#locked').hidden`)
	wantReadable(t, b.ctx, "phone-locked")
	link := b.s.PageURL("http://elsewhere.example")
	runActions(t, b.ctx, chromedp.SendKeys(chromedp.CSS("#pasted"), link+"\n"))
	waitUntil(t, b.ctx, `!document.querySelector('#main').hidden && location.hash === ''`)
}
