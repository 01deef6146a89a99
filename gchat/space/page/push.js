// push.js has this device called while the page is closed, by the browser's push service.
import { request, keep, kept, keptKey } from './key.js';
import { leaveToPush, offerNotifications } from './notify.js';

const $ = (id) => document.getElementById(id);
const button = $('notify');
const claimInterval = 20000; // ms; the server believes for 30 s that the page is visible
let registration = null;
let publicKey = ''; // of the server; '': it calls no device
let device = ''; // the id of this browser's device; '': it is not called
let refusal = ''; // why this browser's device is not called, although the server knows it
let isStarted = false;

const canPush = () => window.isSecureContext && 'serviceWorker' in navigator
  && 'PushManager' in window && 'Notification' in window;

// isBrowserOfPhone reports whether this is a page in an iPhone's or an iPad's browser.
// Push comes there only to a page that was added to the Home Screen.
const isBrowserOfPhone = () => navigator.standalone === false;

// startPush offers the calls, or renews those of a device that is called. It needs the
// page's key.
export async function startPush() {
  if (isStarted) return;
  isStarted = true;
  if (!canPush()) {
    $('add-to-home').hidden = !isBrowserOfPhone() || !window.isSecureContext;
    offerNotifications();
    return;
  }
  try {
    publicKey = (await call('GET', '/page/push')).publicKey;
    registration = await navigator.serviceWorker.register('/sw.js', { updateViaCache: 'none' });
    navigator.serviceWorker.addEventListener('message', openThread);
    device = await kept('device') ?? '';
    if (device && Notification.permission !== 'granted') await remove(); // the person took it back
    else if (device) await renew();
  } catch (error) {
    isStarted = error.status === 404; // such a server calls no device; otherwise try again
  }
  showState();
}

// A page that was open all the time renews once the person comes back to it.
document.addEventListener('visibilitychange', async () => {
  if (!device || document.hidden) return;
  await renew().catch(() => {}); // the server is out of reach, and nothing is known
  showState();
});

// openThread opens the thread whose notification was tapped.
function openThread({ data }) {
  if (/^[\w-]*$/.test(data?.open)) location.hash = data.open;
}

// renew tells the server the subscription as it is now, or that there is none. A device that
// a person removed stays removed.
async function renew() {
  let subscription = await registration.pushManager.getSubscription();
  if (!subscription || isForOtherKey(subscription)) {
    subscription = await subscribeAnew().catch(() => null);
  }
  try {
    const content = { subscription: subscription ? keysOf(subscription) : {} };
    const renewed = await call('PUT', '/page/push/devices/' + device, content);
    $('device-name').textContent = renewed.name;
    refusal = '';
    $('push-problem').textContent = '';
    claimWhileVisible();
  } catch (error) {
    if (error.status !== 404 && error.status !== 400) throw error;
    refusal = error.message;
    $('push-problem').textContent = `This device is no longer notified: ${refusal}`;
    if (error.status === 404) await forget(subscription);
  }
}

async function forget(subscription) {
  await subscription?.unsubscribe();
  await keep('device', '');
  device = '';
}

const keysOf = (subscription) => {
  const { endpoint, keys } = subscription.toJSON();
  return { endpoint, keys: { p256dh: keys.p256dh, auth: keys.auth } };
};

const subscribe = () => registration.pushManager.subscribe({
  userVisibleOnly: true,
  applicationServerKey: publicKey,
});

// isForOtherKey reports whether a subscription was made with another public key: the
// server's data was deleted since.
function isForOtherKey({ options }) {
  const key = options.applicationServerKey;
  if (!key) return false; // this browser does not say
  const text = btoa(String.fromCharCode(...new Uint8Array(key)));
  return text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '') !== publicKey;
}

// add has the person allow notifications, and this device called.
async function add() {
  button.disabled = true;
  $('push-problem').textContent = '';
  try {
    if (await Notification.requestPermission() !== 'granted') return;
    const content = { name: '', subscription: keysOf(await subscribeAnew()) };
    const added = await call('POST', '/page/push/devices', content);
    if (device && device !== added.id) await call('DELETE', '/page/push/devices/' + device).catch(() => {});
    await keep('device', added.id);
    device = added.id;
    refusal = '';
    $('device-name').textContent = added.name;
    claimWhileVisible();
  } catch (error) {
    $('push-problem').textContent = error.status ? error.message
      : 'This browser has no push service that can be reached. '
        + 'You are notified only while this page is open.';
  } finally {
    button.disabled = false;
    showState();
  }
}

// subscribeAnew replaces a subscription that was made with other keys of the server.
async function subscribeAnew() {
  try {
    return await subscribe();
  } catch (error) {
    const old = await registration.pushManager.getSubscription();
    if (!old) throw error;
    await old.unsubscribe();
    return subscribe();
  }
}

async function remove() {
  await call('DELETE', '/page/push/devices/' + device).catch(() => {});
  await forget(await registration.pushManager.getSubscription());
  showState();
}

function showState() {
  const isCalled = device !== '' && !refusal;
  leaveToPush(isCalled);
  if (!publicKey || !registration) {
    offerNotifications();
    return;
  }
  button.hidden = isCalled || Notification.permission === 'denied';
  button.textContent = 'Notify me on this device';
  button.onclick = add;
  $('called').hidden = !isCalled;
  $('push-problem').hidden = $('push-problem').textContent === '';
}
$('call-no-more').addEventListener('click', remove);

// claimWhileVisible tells the server that this page is visible, so that the device is not
// called.
let isClaiming = false;
function claimWhileVisible() {
  if (isClaiming) return;
  isClaiming = true;
  document.addEventListener('visibilitychange', claim);
  setInterval(() => document.hidden || claim(), claimInterval);
  claim();
}

function claim() {
  if (!device) return;
  call('POST', '/page/push/visible', { device, visible: !document.hidden }, true).catch(() => {});
}

async function call(method, address, content, keepalive = false) {
  const answer = await request(address, {
    method,
    headers: { 'Content-Type': 'application/json' },
    body: content && JSON.stringify(content),
    keepalive, // a page that is closed still says so
    signal: AbortSignal.timeout?.(10000),
  });
  const told = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(told.error?.message), { status: answer.status });
  return told;
}

// The page on the Home Screen has its own storage, so it needs the link once more.
$('copy-link').addEventListener('click', async () => {
  await navigator.clipboard.writeText(`${location.origin}/#key=${await keptKey()}`);
  $('copy-link').textContent = 'Copied';
});
$('paste-link').addEventListener('submit', (event) => {
  event.preventDefault();
  const link = $('pasted').value.trim();
  $('pasted').value = '';
  if (/#key=[\w-]+$/.test(link)) location.hash = link.slice(link.indexOf('#'));
});
