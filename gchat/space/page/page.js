// page.js starts the page, knows which thread is open, and draws.
import { takeKey } from './key.js';
import { page, allThreads, drawWith, forgetViews, redraw } from './messages.js';
import { describe } from './threads.js';
import { drawList, idOf, listenToArchive } from './list.js';
import { drawThread, scrollToEnd } from './thread.js';
import { groupThreads, hasSessions, load, sessionOf, watchSessions } from './sessions.js';
import { drawOtherWaits } from './elsewhere.js';
import { listenToComposer, post, startThread } from './composer.js';
import { connect, isOut, keepConnected } from './connection.js';
import { forgetWaiting, notifyOfNew } from './notify.js';
import { startPush } from './push.js';
import { watchSession } from './session.js';
import { listenToNew, offerNew } from './new_session.js';
import './week.js';

const $ = (id) => document.getElementById(id);
const isWide = matchMedia('(min-width: 860px)');

function draw() {
  const all = allThreads();
  const descriptions = new Map(all.map((t) => [t, describe(all, t)]));
  grouped = groupThreads(descriptions);
  const waiting = latestFirst([...descriptions].filter(([, about]) => about.waiting));
  const others = latestFirst(grouped.others.map((t) => [t, descriptions.get(t)]));
  document.title = (waiting.length > 0 ? `(${waiting.length}) ` : '') + 'gchat-hooks';
  $('summary').textContent = summary(waiting.length);
  const isEmpty = all.length === 0 && grouped.sessions.length === 0;
  $('no-threads').hidden = !isEmpty || !page.isReady;
  $('threads').hidden = isEmpty;
  if (page.current === null && isWide.matches && page.isReady && hasSessions()) {
    openFirst(waiting, grouped.sessions, others);
  }
  drawList({ waiting, sessions: grouped.sessions, others });
  drawOpenThread();
  drawOtherWaits(waiting, page.current);
  if (page.isReady) notifyOfNew(waiting);
}

let grouped = { sessions: [], others: [] }; // as of the last drawing

const latestFirst = (rows) => rows.sort(([, a], [, b]) => (b.time < a.time ? -1 : 1));

// openFirst opens what stands first in the list.
function openFirst(waiting, sessions, others) {
  const running = sessions.find((s) => !s.isOver);
  const first = waiting[0]?.[0].name ?? running?.own ?? others[0]?.[0].name;
  if (!first) return;
  page.current = first;
  scrollToEnd();
}

const drawOpenThread = () => drawThread(session.show, (t) => sessionOf(grouped.sessions, t));

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
  load();
}

drawWith(draw);
const session = watchSession({
  current: () => page.current,
  say: post,
  changed: redraw,
});
listenToNew({
  start: startThread,
  open: (thread) => {
    location.hash = idOf(thread);
  },
});
listenToComposer(drawOpenThread);
listenToArchive(redraw);
watchSessions();
addEventListener('hashchange', readAddress);
isWide.addEventListener('change', redraw);
setInterval(() => page.isReady && redraw(), 30000); // "3 min" grows old
readAddress();
keepConnected({ reset: forgetWaiting, ready: showAll, unlock: offerNew });

function showAll() {
  scrollToEnd();
  startPush();
}
