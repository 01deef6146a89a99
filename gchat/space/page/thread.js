// thread.js draws the open thread: its header and its messages.
import { h, markup } from './markup.js';
import { drawCard, lineOf } from './card.js';
import { readShownText } from './shown.js';
import { page, threads, views, allThreads, keyOf, redraw } from './messages.js';
import { drawFiles } from './files.js';
import { stateOf, stateWords, describe, startOf } from './threads.js';
import { idOf } from './list.js';
import { threadLinks } from './elsewhere.js';
import { boxText, deliver, drawComposer, isTooLong, resetReply, tap } from './composer.js';

const $ = (id) => document.getElementById(id);

let isNew = false; // the thread was opened since it was last drawn

// scrollToEnd has the next drawing show the thread's end.
export function scrollToEnd() {
  isNew = true;
}

// drawThread draws the open thread. showSession draws what its session does, and returns whether
// the reply box is for that session. findSession returns the session of a thread, or null.
export function drawThread(showSession, findSession) {
  const t = threads.get(page.current);
  $('thread').hidden = !t;
  $('no-thread').hidden = Boolean(t);
  document.body.classList.toggle('reading', page.current !== null);
  if (!t) return;
  const all = allThreads();
  const about = describe(all, t);
  const session = findSession(t);
  drawHeader(t, about, session);

  const box = $('scroll');
  const wasAtEnd = isNew || box.scrollHeight - box.scrollTop - box.clientHeight < 80;
  const isForSession = showSession(t.name);
  const nodes = drawMessages(t, threadLinks(session, t));
  if (wasAtEnd) box.scrollTop = box.scrollHeight;
  if (isNew) {
    const last = t.messages.at(-1);
    if (last?.card && !last.isEnd) {
      nodes[startOf(t, nodes.length - 1)].scrollIntoView({ block: 'start' });
    }
    resetReply(t);
  }
  isNew = false;
  drawComposer(all, t, about, isForSession);
}

// drawHeader titles a session's own thread with the session. Another thread of the session links
// to that one.
function drawHeader(t, { title, where, line, state, isBlocked }, session) {
  const isOwn = session?.own === t.name;
  setText($('thread-title'), isOwn ? session.name : title);
  const subtitle = isOwn ? session.project || line : where || session?.name || line;
  if (session && !isOwn) linkTo($('thread-session'), subtitle, session.own);
  else setText($('thread-session'), subtitle);
  $('thread-state').textContent = isBlocked ? 'Blocked' : stateWords[state] ?? '';
  $('thread-state').toggleAttribute('data-blocked', isBlocked);
  $('thread-state').hidden = !state;
  $('thread-state').dataset.state = state;
}

function setText(node, text) {
  if (node.textContent !== text || node.firstElementChild) node.textContent = text;
}

function linkTo(node, text, thread) {
  const href = '#' + idOf(thread);
  const link = node.querySelector('a') ?? h('a', {});
  setText(link, text);
  if (link.getAttribute('href') !== href) link.setAttribute('href', href);
  if (!link.isConnected) node.replaceChildren(link);
}

// drawMessages draws the messages, and between them links to other threads, by their times. It
// returns the messages' nodes.
function drawMessages(t, links) {
  const nodes = t.messages.map((m, i) => {
    const key = keyOf(m);
    const hasCard = m.card && !m.isEnd;
    if (!views.has(key)) views.set(key, hasCard ? drawCardMessage(t, m) : drawMessage(m));
    const view = views.get(key);
    view.update(m, i);
    return view.node;
  });
  const timed = t.messages.map((m, i) => [m.time, nodes[i]]);
  placeNodes($('messages'), mergeByTime(timed, links));
  return nodes;
}

// mergeByTime returns the nodes of both lists. Those of the first keep their order.
function mergeByTime(timed, links) {
  const nodes = [];
  const left = [...links].sort(([a], [b]) => (a < b ? -1 : 1));
  for (const [time, node] of timed) {
    while (left.length > 0 && left[0][0] < time) nodes.push(left.shift()[1]);
    nodes.push(node);
  }
  return [...nodes, ...left.map(([, node]) => node)];
}

function placeNodes(list, nodes) {
  nodes.forEach((node, i) => {
    if (list.children[i] !== node) list.insertBefore(node, list.children[i] ?? null);
  });
  while (list.children.length > nodes.length) list.lastChild.remove();
}

function drawCardMessage(t, m) {
  const time = h('time', {});
  const act = (choice, inputs, words) => {
    if (choice === 'more') showAll(m);
    else tap(m, choice, inputs, words ? card : null);
  };
  const card = drawCard(m.card, act, isTooLong);
  const node = h('article', { class: 'message card' }, h('header', {}, time), card.node);
  const update = (now, i) => {
    setTime(node, time, now);
    const state = stateOf(allThreads(), t, i) || 'over';
    const { asked, failed, shown } = now;
    card.update({ state, words: boxText(t), asked, failed, shown });
  };
  return { node, card, update };
}

// showAll shows in the card all that it shows a part of. If the server does not know it, the app
// is asked for a message.
async function showAll(m) {
  m.shown ??= await readShownText(m.name);
  if (!m.shown) tap(m, 'more', {}, null);
  redraw();
}

// drawMessage draws a message without a card, or how a card ended.
function drawMessage(m) {
  const time = h('time', {});
  const status = h('footer', {}, time);
  const { title, subtitle, state } = m.isEnd ? m.card : {};
  const side = m.human ? 'mine' : m.isEnd ? 'end' : 'theirs';
  const isBlocked = m.kind === 'blocked_alert';
  const header = m.human ? null : h('header', {},
    h('b', {}, isBlocked ? '⚠ Blocked' : title || m.sender),
    subtitle ? ` · ${subtitle}` : null,
    m.private ? ' · only you see this' : null);
  const text = m.isEnd ? lineOf(m.card) : m.text;
  const about = { 'data-state': state ?? false, 'data-blocked': isBlocked };
  const node = h('article', { class: `message ${side}`, ...about },
    header,
    text === '' && m.files?.length > 0 ? null : h('div', { class: 'bubble' }, ...markup(text)),
    drawFiles(m.files),
    status);
  let shown = null; // of a person's message
  const update = (now) => {
    setTime(node, time, now);
    if (!now.human) return;
    const { pending, progress } = now;
    // The button that sends it again must not vanish under the person's finger.
    if (shown?.of === now && shown.pending === pending && shown.progress === progress) return;
    shown = { of: now, pending, progress };
    node.dataset.pending = pending ?? '';
    status.replaceChildren(...sendStatus(now, time));
  };
  return { node, update };
}

// sendStatus says what became of a person's message: on its way, not sent, or when it was sent.
function sendStatus(m, time) {
  if (m.pending === 'sending') return [m.progress > 0 ? `Sending… ${m.progress} %` : 'Sending…'];
  if (m.pending !== 'failed') return [time];
  const retry = { type: 'button', 'data-retry': true, onclick: () => deliver(m) };
  return [`Not sent: ${m.reason}. `, h('button', retry, 'Try again')];
}

function setTime(node, time, m) {
  node.dataset.message = m.name || m.clientId;
  time.dateTime = m.time;
  const shown = { hour: '2-digit', minute: '2-digit' };
  time.textContent = new Date(m.time).toLocaleTimeString([], shown);
}
