// sw.js is the page's service worker: it shows the calls that come through the browser's
// push service, also while no page is open, and sends what is tapped in them. It keeps
// nothing of the space. It is a script and not a module, because not every browser that
// has push takes a module here; so it reads the page's key by itself (see key.js).
const icon = '/page/icon-192.png';

addEventListener('install', () => skipWaiting());
addEventListener('activate', (event) => event.waitUntil(clients.claim()));
addEventListener('push', (event) => event.waitUntil(receiveInTurn(readCall(event.data))));
addEventListener('notificationclick', (event) => event.waitUntil(act(event)));
addEventListener('pushsubscriptionchange', (event) => event.waitUntil(renew(event)));

function readCall(data) {
  try {
    return data.json();
  } catch { // a server of another version
    return { title: 'gchat-hooks', body: 'Something needs you' };
  }
}

// receiveInTurn receives one push after the other. Chromium 156 forgets a notification that
// is being shown while getNotifications runs: it stays on the screen, and nothing can close it.
let lastReceived = Promise.resolve();
function receiveInTurn(call) {
  lastReceived = lastReceived.catch(() => {}).then(() => receive(call));
  return lastReceived;
}

// receive shows a call, or takes it back. Each push has to show something: Safari ends
// the subscription of a page that breaks this promise, and Chrome shows words of its own.
// So the end of a call replaces it without a sound, and that is closed at once.
// https://webkit.org/blog/12945/meet-web-push/
async function receive({ type, tag, title, body, message, thread, buttons = [] }) {
  if (type === 'over') {
    await show('Over', { tag, silent: true });
    const shown = await registration.getNotifications({ tag });
    shown.forEach((notification) => notification.close());
    return;
  }
  await show(title, {
    body,
    tag,
    data: { title, message, thread },
    actions: buttons.map((button) => ({ action: button.choice, title: button.title })),
    requireInteraction: true, // it is taken back when it is over
  });
}

// show shows a notification. One of the same tag is replaced, and makes no sound again.
function show(title, options) {
  return registration.showNotification(title, { icon, badge: icon, ...options });
}

// act sends the option that was tapped, or opens the thread. A notification that is
// replaced is not closed before: a browser may do that late, and close the new one.
async function act({ notification, action }) {
  const { title, message, thread } = notification.data ?? {};
  const isTap = action && message;
  const problem = isTap ? await sendTap(message, action) : '';
  if (!problem) notification.close();
  if (!isTap) await openThread(thread);
  if (problem) await show(title, { body: problem, tag: notification.tag, data: { title, thread } });
}

// sendTap returns why the tap does not count, or "". It may be sent twice: the server
// counts one.
async function sendTap(message, choice) {
  const key = await stored('key');
  if (!key) return 'Not sent: open the page with its link first';
  const device = await stored('device') ?? '';
  for (const isLast of [false, true]) {
    try {
      const answer = await call('POST', '/page/push/taps', { device, message, choice });
      if (answer.ok) return '';
      if (answer.status === 409) return 'Too late: already answered';
      return 'Not sent: answer on the page';
    } catch {
      if (isLast) return 'Not sent: the page is out of reach';
    }
  }
}

async function call(method, address, content) {
  return fetch(address, {
    method,
    headers: { 'Content-Type': 'application/json', 'Gchat-Page-Key': await stored('key') },
    body: content && JSON.stringify(content),
    signal: AbortSignal.timeout?.(10000),
  });
}

// openThread opens a thread in a page that is open, or in a new one.
async function openThread(thread = '') {
  const id = thread.split('/').pop();
  const [page] = await clients.matchAll({ type: 'window', includeUncontrolled: true });
  if (!page) return clients.openWindow('/#' + id);
  page.postMessage({ open: id });
  return page.focus();
}

// renew tells the server the subscription with which the browser replaced an earlier one, or
// that there is none. If the server does not take it, the person is told.
async function renew({ newSubscription }) {
  const device = await stored('device');
  if (!device) return;
  const late = new Promise((_, reject) => setTimeout(reject, 20000)); // it may never say no
  const subscription = newSubscription ?? await Promise.race([subscribe(), late]).catch(() => null);
  const { endpoint, keys } = subscription?.toJSON() ?? {};
  const content = { subscription: { endpoint, keys } };
  const answer = await call('PUT', '/page/push/devices/' + device, content).catch(() => null);
  if (answer?.ok) return;
  await show('This device is no longer notified', {
    body: 'Open the page to be notified again',
    tag: 'renewal',
  });
}

// subscribe asks the server for its key: some browsers tell neither the new subscription nor
// the earlier one.
async function subscribe() {
  const answer = await call('GET', '/page/push');
  const { publicKey } = await answer.json();
  return registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: publicKey });
}

// stored reads what the page keeps in the browser (see key.js).
function stored(name) {
  return new Promise((resolve) => {
    const opening = indexedDB.open('gchat-hooks', 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore('page');
    opening.onerror = () => resolve(undefined);
    opening.onsuccess = () => {
      const database = opening.result;
      const asked = database.transaction('page').objectStore('page').get(name);
      asked.onsuccess = () => resolve(asked.result);
      asked.onerror = () => resolve(undefined);
      database.close(); // once the transaction is over
    };
  });
}
