// page.js keeps the threads as the server tells them, and draws them.
import { h, markup } from './markup.js';
import { readCard, drawCard, lineOf } from './card.js';
import { watchSession } from './session.js';
import { request, takeKey, wasRefused, onlyInTab, NoKey } from './key.js';
import { readEvents } from './stream.js';
import { stateOf, describe, unread, askAt, startOf } from './threads.js';

const $ = (id) => document.getElementById(id);
const threads = new Map(); // name → {name, messages, node, anyway}
const drawn = new Map(); // message key → {node, update}, of the open thread
const drafts = new Map(); // thread name → unsent text
let current = null; // the open thread's name
let ready = false; // the server has told everything it had
let counted = 0; // messages that came

const keyOf = (m) => m.clientId || m.name;
const wide = matchMedia('(min-width: 860px)');

function takeMessage(m) {
  const t = threadOf(m.thread);
  m.count = ++counted;
  const find = () => t.messages.findIndex((old) => keyOf(old) === keyOf(m));
  let at = find();
  if (at >= 0 && m.patched) {
    const asked = t.messages[at];
    if (!asked.card || !m.card || ['open', 'late', 'terminal'].includes(m.card.state)) { // the same message, as it is now
      t.messages[at] = m;
      drawn.delete(keyOf(m));
      return;
    }
    asked.ended = m.card.state; // the card stays, and how it ended is a message below
    Object.assign(m, { name: m.name + '#end', clientId: undefined, isEnd: true });
    drawn.delete(keyOf(m));
    at = find();
  }
  if (at >= 0) t.messages.splice(at, 1);
  const waiting = t.messages.findIndex((old) => old.pending);
  t.messages.splice(waiting < 0 ? t.messages.length : waiting, 0, m);
}

function threadOf(name) {
  if (!threads.has(name)) threads.set(name, { name, messages: [] });
  return threads.get(name);
}

const allThreads = () => [...threads.values()].filter((t) => t.messages.length > 0);

const stateWords = {
  open: 'Needs you', replied: 'Reply sent', answered: 'Answered', denied: 'Denied', cancelled: 'Cancelled',
  timeout: 'Timed out', late: 'Timed out', terminal: 'Answer in the terminal', over: 'Over',
};

// ---- drawing

function draw() {
  const all = allThreads();
  const told = all.map((t) => [t, describe(all, t)])
    .sort(([, a], [, b]) => b.waiting - a.waiting || (b.time < a.time ? -1 : 1));
  const waiting = told.filter(([, d]) => d.waiting);
  const n = waiting.length;
  document.title = (n > 0 ? `(${n}) ` : '') + 'Local space';
  $('summary').textContent = !ready ? 'Connecting…'
    : n === 0 && isOut() ? 'Out of reach: it is not known what needs you'
    : n === 0 ? 'Nothing needs you' : n === 1 ? '1 needs you' : `${n} need you`;
  $('no-threads').hidden = all.length > 0 || !ready;
  if (current === null && wide.matches && ready && all.length > 0) {
    current = told[0][0].name;
    opened = true;
  }
  drawList(told);
  drawThread();
  if (ready) notify(waiting);
}

function drawList(told) {
  const list = $('threads');
  told.forEach(([t, d], i) => {
    t.node ??= h('a', { class: 'row', 'data-thread': t.name, href: '#' + idOf(t.name) });
    t.node.dataset.state = d.waiting ? 'open' : d.state;
    if (t.name === current) t.node.setAttribute('aria-current', 'true');
    else t.node.removeAttribute('aria-current');
    t.node.replaceChildren(
      avatar(d.where || d.title),
      h('div', { class: 'row-text' },
        h('div', { class: 'row-top' }, h('strong', {}, d.title), h('time', { datetime: d.time }, ago(d.time))),
        h('p', {}, d.line),
        d.state || d.where ? h('div', { class: 'row-end' },
          d.state ? h('span', { class: 'chip', 'data-state': d.state }, stateWords[d.state]) : null,
          d.where ? h('span', { class: 'session' }, d.where) : null) : null));
    if (list.children[i] !== t.node) list.insertBefore(t.node, list.children[i] ?? null);
  });
  while (list.children.length > told.length) list.lastChild.remove();
}

function avatar(name) {
  let sum = 0;
  for (const c of name) sum = (sum * 31 + c.codePointAt(0)) % 997;
  const letters = name.split(/[^\p{L}\p{N}]+/u).filter(Boolean).slice(0, 2).map((w) => [...w][0].toUpperCase()).join('');
  return h('span', { class: `avatar hue${sum % 6}`, 'aria-hidden': 'true' }, letters || '?');
}

let opened = false; // the thread was opened just now: show its end

function drawThread() {
  const t = threads.get(current);
  $('thread').hidden = !t;
  $('no-thread').hidden = Boolean(t);
  document.body.classList.toggle('reading', current !== null);
  if (!t) return;
  const all = allThreads();
  const d = describe(all, t);
  $('thread-title').textContent = d.title;
  $('thread-session').textContent = d.where || d.line;
  $('thread-state').textContent = stateWords[d.state] ?? '';
  $('thread-state').hidden = !d.state;
  $('thread-state').dataset.state = d.state;

  const box = $('scroll');
  const atEnd = opened || box.scrollHeight - box.scrollTop - box.clientHeight < 80;
  const steered = session.show(t.name);
  const nodes = t.messages.map((m, i) => {
    const key = keyOf(m);
    if (!drawn.has(key)) drawn.set(key, drawMessage(t, m));
    const view = drawn.get(key);
    view.update(m, i);
    return view.node;
  });
  const messages = $('messages');
  nodes.forEach((node, i) => {
    if (messages.children[i] !== node) messages.insertBefore(node, messages.children[i] ?? null);
  });
  while (messages.children.length > nodes.length) messages.lastChild.remove();
  if (atEnd) box.scrollTop = box.scrollHeight;
  const last = t.messages.at(-1);
  if (opened && last?.card && !last.isEnd) nodes[startOf(t, nodes.length - 1)].scrollIntoView({ block: 'start' });
  if (opened) resetReply(t);
  opened = false;
  drawComposer(all, t, d, steered);
}

function drawMessage(t, m) {
  const time = h('time', {});
  if (m.card && !m.isEnd) {
    const card = drawCard(m.card, (choice, inputs, words) => {
      if (!isTooLong(words)) tap(m, choice, inputs, words ? card : null);
    });
    const node = h('article', { class: 'message card' }, h('header', {}, time), card.node);
    return { node, card, update: (now, i) => {
      stamp(node, time, now);
      card.update({ state: stateOf(allThreads(), t, i) || 'over', words: boxText(t), asked: now.asked, failed: now.failed });
    } };
  }
  const { title, subtitle, state } = m.isEnd ? m.card : {};
  const status = h('footer', {}, time);
  const node = h('article', { class: 'message ' + (m.human ? 'mine' : m.isEnd ? 'end' : 'theirs'), 'data-state': state ?? false },
    m.human ? null : h('header', {}, h('b', {}, title || m.sender), subtitle ? ` · ${subtitle}` : null,
      m.private ? ' · only you see this' : null),
    h('div', { class: 'bubble' }, ...markup(m.isEnd ? lineOf(m.card) : m.text)),
    status);
  return { node, update: (now) => {
    stamp(node, time, now);
    if (!m.human) return;
    node.dataset.pending = now.pending ?? '';
    status.replaceChildren(...(now.pending === 'failed'
      ? ['Not sent. ', h('button', { type: 'button', 'data-retry': true, onclick: () => deliver(now) }, 'Try again')]
      : now.pending === 'sending' ? ['Sending…'] : [time]));
  } };
}

// boxText is what stands in the reply box of a thread.
const boxText = (t) => drafts.get(t.name)?.trim() ?? '';

function stamp(node, time, m) {
  node.dataset.message = m.name || m.clientId;
  time.dateTime = m.time;
  time.textContent = clock(m.time);
}

const clock = (iso) => new Date(iso).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });

function ago(iso) {
  const s = (Date.now() - new Date(iso)) / 1000;
  if (s < 60) return 'now';
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h`;
  return new Date(iso).toLocaleDateString([], { month: 'short', day: 'numeric' });
}

// ---- tapping

let lastTap = {}; // that could not be sent: the same one is sent once, however often it is tried

// tap sends what a card's button carries. Words of the box that went along leave it.
async function tap(m, choice, inputs, taking) {
  const what = JSON.stringify([m.name, choice, inputs]);
  if (lastTap.what !== what) lastTap = { what, clientId: newID() };
  if (choice !== 'more') m.tapped = counted;
  m.failed = false;
  draw();
  try {
    await send({ message: m.name, choice, inputs, clientId: lastTap.clientId });
    lastTap = {};
    m.asked ||= choice === 'more';
    taking?.clear();
    if (taking) clearReply();
  } catch {
    m.failed = true;
    delete m.tapped;
  }
  draw();
}

// ---- replying

async function send(what) {
  const answer = await request('/page/messages', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(what),
    signal: AbortSignal.timeout?.(10000),
  });
  if (!answer.ok) throw new Error(answer.statusText);
  return answer.json();
}

// isTooLong tells a person that no message is so long.
function isTooLong(text) {
  const most = 32000; // bytes, as in Google Chat
  const long = new TextEncoder().encode(text).length > most;
  $('too-long').textContent = long ? `Too long: at most ${most.toLocaleString('en')} bytes` : '';
  $('too-long').hidden = !long;
  return long;
}

// post says whether the text is on its way.
function post(thread, text) {
  if (isTooLong(text)) return false;
  const m = { clientId: newID(), thread, text, human: true, kind: '', sender: 'You', time: new Date().toISOString() };
  threadOf(thread).messages.push(m);
  deliver(m);
  $('scroll').scrollTop = $('scroll').scrollHeight;
  return true;
}

// deliver may be called again for the same message: the server knows its id.
async function deliver(m) {
  m.pending = 'sending';
  draw();
  try {
    m.name = (await send({ thread: m.thread, text: m.text, clientId: m.clientId })).name;
    m.pending = 'sent';
  } catch {
    m.pending = 'failed';
  }
  draw();
}

// begin starts a thread, and opens it. The same text is sent once, however often it is tried.
let begun = {};
async function begin(text) {
  if (begun.text !== text) begun = { text, clientId: newID() };
  const { thread } = await send(begun);
  begun = {};
  location.hash = idOf(thread);
}

// newID works without crypto.randomUUID, which plain http beyond localhost lacks.
function newID() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');
}

const reply = $('reply');

// drawComposer says why a reply would not be read, in place of the box. That of a session is always there.
function drawComposer(all, t, d, steered) {
  const why = t.anyway || steered ? null : unread(all, t);
  $('unread').hidden = !why;
  $('unread-words').textContent = why?.words ?? '';
  $('anyway').hidden = !why || why.sure;
  reply.disabled = Boolean(why);
  reply.hidden = Boolean(why) && boxText(t) === ''; // words that were not sent stay
  $('send').hidden = Boolean(why);
  $('refuse').textContent = why ? '' : refusing()?.refusal() ?? '';
  $('refuse').hidden = $('refuse').textContent === '';
  reply.placeholder = d.state === 'open' && d.ask.card?.own && d.ask.card.kind !== 'question' ? d.ask.card.own.label
    : d.ask?.kind === 'permission' && d.waiting ? 'Allow or deny it in the terminal'
    : steered ? 'Write to Claude' : askAt(all, t) < 0 ? 'Reply (read only if a script waits)' : 'Write a reply';
  allowSend();
}

$('anyway').addEventListener('click', () => {
  threads.get(current).anyway = true;
  draw();
  reply.focus();
});

// readyCard is the open question whose choices are made, but not sent. tappedCard may lack some.
const readyCard = () => [...drawn.values()].find((v) => v.card?.ready())?.card;
const tappedCard = () => [...drawn.values()].find((v) => v.card?.tapped())?.card;

// refusing is the decision that the words in the box would refuse.
const refusing = () => [...drawn.values()].find((v) => v.card?.refusal())?.card;

$('refuse').addEventListener('click', () => refusing()?.refuse());

function allowSend() {
  const text = reply.value.trim();
  $('send').disabled = reply.disabled || isTooLong(text) || (text === '' && !readyCard());
}

function grow() {
  reply.rows = Math.min(6, reply.value.split('\n').length);
  allowSend();
}

function clearReply() {
  drafts.delete(current);
  reply.value = '';
  grow();
}

function resetReply(t) {
  reply.value = drafts.get(t.name) ?? '';
  grow();
}

reply.addEventListener('input', () => {
  drafts.set(current, reply.value);
  grow();
  drawThread(); // a card says what becomes of the words
});
reply.addEventListener('keydown', (e) => {
  if (e.key !== 'Enter' || e.shiftKey || e.isComposing) return;
  e.preventDefault();
  $('composer').requestSubmit();
});
reply.addEventListener('keypress', (e) => { // some keyboards send a character all the same
  if (e.key === 'Enter' && !e.shiftKey) e.preventDefault();
});
$('composer').addEventListener('submit', (e) => {
  e.preventDefault();
  const text = reply.value.trim();
  if (reply.disabled) return;
  if (text === '') {
    readyCard()?.submit();
    return;
  }
  const card = tappedCard(); // what was tapped goes along
  if (card) card.submit();
  else if (post(current, text)) clearReply();
});
$('messages').addEventListener('click', allowSend);

// ---- notifications: a browser has them on its own machine and over https

const told = new Set(); // keys of what waited before
let listening = false; // the threads that waited when the page was opened are known

// notify shows what waits since the last time, while the person is not at the page.
function notify(waiting) {
  const keys = waiting.map(([, d]) => keyOf(d.ask));
  waiting.forEach(([t, d], i) => {
    if (listening && !told.has(keys[i])) show(t, d);
  });
  keys.forEach((key) => told.add(key));
  listening = true;
}

function show(t, d) {
  if (!canNotify() || Notification.permission !== 'granted' || document.hasFocus()) return;
  try {
    const body = [d.where, d.line].filter(Boolean).join('\n');
    const shown = new Notification(d.title, { body, tag: t.name, icon: '/page/icon.svg' });
    shown.onclick = () => {
      window.focus();
      location.hash = idOf(t.name);
      shown.close();
    };
  } catch { // Chrome on Android has only those of service workers
    $('notify').hidden = true;
  }
}

const canNotify = () => window.isSecureContext && 'Notification' in window;

function offerNotify() {
  $('notify').hidden = !canNotify() || Notification.permission !== 'default';
}
$('notify').addEventListener('click', async () => {
  await Notification.requestPermission();
  offerNotify();
});
offerNotify();

const session = watchSession({ current: () => current, say: post, begin, changed: draw });

// ---- which thread is open: the part of the address behind the #, unless that is the key of a link

const idOf = (name) => name.split('/').pop();

function readAddress() {
  if (takeKey()) connect();
  const id = location.hash.slice(1);
  const next = id === '' ? null : 'spaces/local/threads/' + id;
  if (next !== current || next === null) {
    current = next;
    opened = true;
    drawn.clear();
    $('messages').replaceChildren();
  }
  draw();
  session.ask();
}
addEventListener('hashchange', readAddress);
wide.addEventListener('change', draw);

// ---- the events

let stream = null; // ends the events that come; null: none come
let lastID = '';
let heard = 0;
let lost = 0; // when it was lost
const isOut = () => lost > 0 && Date.now() - lost >= 10000;

async function connect() {
  stream?.abort();
  const own = new AbortController();
  stream = own;
  heard = Date.now();
  try {
    const after = lastID ? '?after=' + encodeURIComponent(lastID) : '';
    const answer = await request('/events' + after, { signal: own.signal });
    if (!answer.ok) throw new Error(answer.statusText);
    lock(false);
    await readEvents(answer.body, takeEvent);
  } catch (error) {
    if (stream === own) lock(error instanceof NoKey);
  }
  if (stream !== own) return; // another has taken its place
  stream = null;
  lost ||= Date.now();
  link('lost', isOut() ? 'Not running' : 'Reconnecting');
  if (isOut()) draw();
}

function takeEvent(event, id, data) {
  heard = Date.now();
  const wasOut = isOut();
  lost = 0;
  lastID = id || lastID;
  link('live', 'Live');
  if (wasOut) draw();
  events[event]?.(JSON.parse(data));
}

const events = {
  reset() {
    for (const t of threads.values()) t.messages = t.messages.filter((m) => m.pending);
    listening = false;
    ready = false;
    drawn.clear();
    $('messages').replaceChildren();
  },
  messages(rows) {
    rows.map(fromRow).forEach(takeMessage);
    if (ready) draw();
  },
  ready() {
    ready = true;
    opened = true;
    draw();
  },
};

// lock shows how to get the key in place of everything else, or takes that away again.
function lock(locked) {
  const words = wasRefused() ? 'The link that was opened here is no longer valid. This prints the new one:'
    : 'Open it once with the link that gchat-hooks printed. This prints the link again:';
  if ($('locked-words').textContent !== words) $('locked-words').textContent = words; // it is read aloud
  if (!locked && $('main').hidden) session.offer();
  $('locked').hidden = !locked;
  $('main').hidden = locked;
  $('only-tab').hidden = !onlyInTab();
}

// fromRow is a message as the page shows it, of one as the Chat API tells it.
function fromRow({ message: m, patch, requestId = '', kind = '', session = '' }) {
  return {
    name: m.name, thread: m.thread.name, text: m.text || m.fallbackText || '', time: m.createTime,
    human: m.sender.type === 'HUMAN', sender: m.sender.displayName || m.sender.name.replace('users/', ''),
    card: readCard(m.cardsV2), kind, session, patched: Boolean(patch), private: Boolean(m.privateMessageViewer),
    clientId: requestId.startsWith('page:') ? requestId.slice('page:'.length) : undefined,
  };
}

function link(state, words) {
  $('link').dataset.state = state;
  $('link').textContent = words;
}

// A stream that died in a sleeping phone is not noticed. It is started anew from the last message, as
// one that ended is. A page without a key looks whether another tab has kept one.
setInterval(() => {
  if (stream === null || Date.now() - heard > 40000) connect();
}, 1000);
document.addEventListener('visibilitychange', () => {
  if (!document.hidden && (stream === null || Date.now() - heard > 20000)) connect();
});
setInterval(() => ready && draw(), 30000); // "3 min" grows old

readAddress();
connect();
