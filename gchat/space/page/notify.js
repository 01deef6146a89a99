// notify.js calls the person with the browser's notifications, which exist on its own machine and
// over https.
import { keyOf } from './messages.js';
import { idOf } from './list.js';

const button = document.getElementById('notify');
const known = new Set(); // keys of what waited before
let isListening = false; // what waited when the page was opened is known
let isPushed = false; // the browser's push service calls this device while the page is hidden

// leaveToPush says whether this device is called by push.js.
export function leaveToPush(is) {
  isPushed = is;
}

// notifyOfNew shows what waits since the last time, while the person is not at the page.
// Waiting is a list of [thread, description].
export function notifyOfNew(waiting) {
  for (const [t, about] of waiting) {
    const key = keyOf(about.ask);
    if (isListening && !known.has(key)) show(t, about);
    known.add(key);
  }
  isListening = true;
}

// forgetWaiting has the next call of notifyOfNew show nothing.
export function forgetWaiting() {
  isListening = false;
}

function show(t, { where, line, title }) {
  if (!canNotify() || Notification.permission !== 'granted' || document.hasFocus()) return;
  if (isPushed && document.hidden) return;
  try {
    const body = [where, line].filter(Boolean).join('\n');
    const shown = new Notification(title, { body, tag: t.name, icon: '/page/icon.svg' });
    shown.onclick = () => {
      window.focus();
      location.hash = idOf(t.name);
      shown.close();
    };
  } catch { // Chrome on Android has only those of service workers
    button.hidden = true;
  }
}

const canNotify = () => window.isSecureContext && 'Notification' in window;

// offerNotifications shows the button if the person was not asked yet.
export function offerNotifications() {
  button.hidden = !canNotify() || Notification.permission !== 'default';
  button.onclick = ask;
}

async function ask() {
  await Notification.requestPermission();
  offerNotifications();
}
