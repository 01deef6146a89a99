// page.js starts the page, knows which thread is open, and draws.
import { takeKey } from './key.js';
import { page, allThreads, drawWith, forgetViews, redraw } from './messages.js';
import { describe } from './threads.js';
import { drawList, idOf } from './list.js';
import { drawThread, scrollToEnd } from './thread.js';
import { listenToComposer, post, startThread } from './composer.js';
import { connect, isOut, keepConnected } from './connection.js';
import { forgetWaiting, notifyOfNew } from './notify.js';
import { startPush } from './push.js';
import { watchSession } from './session.js';

const $ = (id) => document.getElementById(id);
const isWide = matchMedia('(min-width: 860px)');

function draw() {
  const all = allThreads();
  const rows = all.map((t) => [t, describe(all, t)]);
  rows.sort(([, a], [, b]) => b.waiting - a.waiting || (b.time < a.time ? -1 : 1));
  const waiting = rows.filter(([, about]) => about.waiting);
  document.title = (waiting.length > 0 ? `(${waiting.length}) ` : '') + 'Local space';
  $('summary').textContent = summary(waiting.length);
  $('no-threads').hidden = all.length > 0 || !page.isReady;
  if (page.current === null && isWide.matches && page.isReady && all.length > 0) {
    page.current = rows[0][0].name;
    scrollToEnd();
  }
  drawList(rows);
  drawOpenThread();
  if (page.isReady) notifyOfNew(waiting);
}

const drawOpenThread = () => drawThread(session.show);

function summary(count) {
  if (!page.isReady) return 'Connecting…';
  if (count === 0 && isOut()) return 'Out of reach: it is not known what needs you';
  if (count === 0) return 'Nothing needs you';
  return count === 1 ? '1 needs you' : `${count} need you`;
}

// readAddress opens the thread that the address names behind the "#", unless that is a link's key.
function readAddress() {
  if (takeKey()) connect();
  const id = location.hash.slice(1);
  const next = id === '' ? null : 'spaces/local/threads/' + id;
  if (next !== page.current || next === null) {
    page.current = next;
    scrollToEnd();
    forgetViews();
  }
  redraw();
  session.ask();
}

async function startSession(text) {
  location.hash = idOf(await startThread(text));
}

drawWith(draw);
const session = watchSession({
  current: () => page.current,
  say: post,
  begin: startSession,
  changed: redraw,
});
listenToComposer(drawOpenThread);
addEventListener('hashchange', readAddress);
isWide.addEventListener('change', redraw);
setInterval(() => page.isReady && redraw(), 30000); // "3 min" grows old
readAddress();
keepConnected({ reset: forgetWaiting, ready: showAll, unlock: session.offer });

function showAll() {
  scrollToEnd();
  startPush();
}
