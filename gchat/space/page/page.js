// page.js keeps the threads as the server tells them, and draws them.
import { h, markup } from './markup.js';
import { parseQuestion } from './question.js';
import { questionCard, labels } from './card.js';

const $ = (id) => document.getElementById(id);
const threads = new Map(); // name → {name, messages, node}
const drawn = new Map(); // message key → {node, update}, of the open thread
const drafts = new Map(); // thread name → unsent text
let current = null; // the open thread's name
let ready = false; // the server has told everything it had

const keyOf = (m) => m.clientId || m.name;
const wide = matchMedia('(min-width: 860px)');

// ---- what the messages mean

function takeMessage(m) {
  const t = threadOf(m.thread);
  m.question = m.human ? null : parseQuestion(m.text);
  const at = t.messages.findIndex((old) => keyOf(old) === keyOf(m));
  if (at >= 0) t.messages.splice(at, 1);
  const waiting = t.messages.findIndex((old) => old.pending);
  t.messages.splice(waiting < 0 ? t.messages.length : waiting, 0, m);
}

function threadOf(name) {
  if (!threads.has(name)) threads.set(name, { name, messages: [] });
  return threads.get(name);
}

const closing = (m) => !m.human && /^\[(Answered|Cancelled)\]/.exec(m.text)?.[1].toLowerCase();

// stateOf is how the question at an index stands: open, replied (a person wrote,
// the session has not said anything yet), answered or cancelled.
function stateOf(t, at) {
  const later = t.messages.slice(at + 1);
  const closed = later.map(closing).find(Boolean);
  if (closed) return closed;
  return later.filter((m) => m.pending !== 'failed').at(-1)?.human ? 'replied' : 'open';
}

function repliedTo(t, at) {
  const later = t.messages.slice(at + 1);
  const end = later.findIndex(closing);
  return later.slice(0, end < 0 ? undefined : end).findLast((m) => m.human && m.pending !== 'failed')?.text;
}

function questionAt(t) {
  return t.messages.findLastIndex((m) => m.question);
}

function describe(t) {
  const at = questionAt(t);
  const last = t.messages.at(-1);
  const time = last?.time ?? '';
  if (at < 0) {
    const first = t.messages[0];
    const tag = tagOf(first);
    const line = plain((first?.text || '').slice(tag?.[0].length ?? 0));
    return { title: tag?.[1] ?? first?.sender ?? '', line, session: '', state: '', time };
  }
  const { session, sections } = t.messages[at].question;
  const title = sections.map((s) => s.header).filter(Boolean).join(' · ') || 'Question';
  return { title, line: plain(sections[0].text), session, state: stateOf(t, at), time };
}

// tagOf is the "[Session ended] " that a session's messages begin with.
const tagOf = (m) => (m && !m.human ? /^\[([^\]\n]{1,40})\]\s*/.exec(m.text) : null);

// plain is a text in one line, without its markup.
const plain = (text) => text.replace(/<[^|>\n]+\|([^>\n]*)>/g, '$1').replace(/[*_`~]/g, '').replace(/\s+/g, ' ').trim();

const stateWords = { open: 'Needs you', replied: 'Reply sent', answered: 'Answered', cancelled: 'Cancelled' };

// ---- drawing

function draw() {
  const all = [...threads.values()].filter((t) => t.messages.length > 0)
    .sort((a, b) => (b.messages.at(-1).time < a.messages.at(-1).time ? -1 : 1));
  const told = all.map((t) => [t, describe(t)]);
  const open = told.filter(([, d]) => d.state === 'open').length;
  document.title = (open > 0 ? `(${open}) ` : '') + 'Local space';
  $('summary').textContent = !ready ? 'Connecting…'
    : open === 0 ? 'Nothing waits for you' : `${open} question${open > 1 ? 's' : ''} for you`;
  $('no-threads').hidden = all.length > 0 || !ready;
  if (current === null && wide.matches && ready && all.length > 0) {
    current = (told.find(([, d]) => d.state === 'open')?.[0] ?? all[0]).name;
    opened = true;
  }
  drawList(told);
  drawThread();
}

function drawList(told) {
  const list = $('threads');
  told.forEach(([t, d], i) => {
    t.node ??= h('a', { class: 'row', 'data-thread': t.name, href: '#' + idOf(t.name) });
    t.node.dataset.state = d.state;
    if (t.name === current) t.node.setAttribute('aria-current', 'true');
    else t.node.removeAttribute('aria-current');
    t.node.replaceChildren(
      avatar(d.session || d.title),
      h('div', { class: 'row-text' },
        h('div', { class: 'row-top' }, h('strong', {}, d.title), h('time', { datetime: d.time }, ago(d.time))),
        h('p', {}, d.line),
        d.state ? h('div', { class: 'row-end' },
          h('span', { class: 'chip', 'data-state': d.state }, stateWords[d.state]),
          h('span', { class: 'session' }, d.session)) : null));
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
  const d = describe(t);
  $('thread-title').textContent = d.title;
  $('thread-session').textContent = d.session || d.line;
  $('thread-state').textContent = stateWords[d.state] ?? '';
  $('thread-state').hidden = !d.state;
  $('thread-state').dataset.state = d.state;

  const box = $('scroll');
  const atEnd = opened || box.scrollHeight - box.scrollTop - box.clientHeight < 80;
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
  if (opened && last?.question) nodes.at(-1).scrollIntoView({ block: 'start' });
  if (opened) resetReply(t);
  opened = false;
  allowSend();
}

function drawMessage(t, m) {
  const time = h('time', {});
  if (m.question) {
    const card = questionCard(m.question, (text) => post(t.name, text));
    const node = h('article', { class: 'message card' }, h('header', {}, time), card.node);
    return { node, card, update: (now, i) => {
      stamp(node, time, now);
      card.update(stateOf(t, i), repliedTo(t, i));
    } };
  }
  const end = closing(m);
  const tag = tagOf(m);
  const meaning = h('p', { class: 'meaning' });
  const status = h('footer', {}, time);
  const node = h('article', { class: 'message ' + (m.human ? 'mine' : end ? 'end' : 'theirs'), 'data-state': end || false },
    m.human ? null : h('header', {}, tag ? h('b', {}, tag[1]) : m.sender),
    h('div', { class: 'bubble' }, ...markup(tag ? m.text.slice(tag[0].length) : m.text), meaning),
    status);
  return { node, update: (now) => {
    stamp(node, time, now);
    if (!m.human) return;
    const question = t.messages[questionAt(t)]?.question;
    meaning.textContent = question ? labels(question, m.text) : '';
    node.dataset.pending = now.pending ?? '';
    status.replaceChildren(...(now.pending === 'failed'
      ? ['Not sent. ', h('button', { type: 'button', 'data-retry': true, onclick: () => deliver(now) }, 'Try again')]
      : now.pending === 'sending' ? ['Sending…'] : [time]));
  } };
}

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

// ---- replying

function post(thread, text) {
  const m = { clientId: newID(), thread, text, human: true, sender: 'You', time: new Date().toISOString() };
  threadOf(thread).messages.push(m);
  deliver(m);
  $('scroll').scrollTop = $('scroll').scrollHeight;
}

// deliver may be called again for the same message: the server knows its id.
async function deliver(m) {
  m.pending = 'sending';
  draw();
  try {
    const answer = await fetch('/page/messages', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ thread: m.thread, text: m.text, clientId: m.clientId }),
      signal: AbortSignal.timeout?.(10000),
    });
    if (!answer.ok) throw new Error(answer.statusText);
    m.name = (await answer.json()).name;
    m.pending = 'sent';
  } catch {
    m.pending = 'failed';
  }
  draw();
}

// newID works without crypto.randomUUID, which plain http beyond localhost lacks.
function newID() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');
}

const reply = $('reply');

// readyCard is the open question whose choices are made, but not sent.
function readyCard() {
  return [...drawn.values()].find((v) => v.card?.ready())?.card;
}

function allowSend() {
  $('send').disabled = reply.value.trim() === '' && !readyCard();
}

function grow() {
  reply.rows = Math.min(6, reply.value.split('\n').length);
  allowSend();
}

function resetReply(t) {
  reply.value = drafts.get(t.name) ?? '';
  grow();
}

reply.addEventListener('input', () => {
  drafts.set(current, reply.value);
  grow();
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
  if (text === '') {
    readyCard()?.submit();
    return;
  }
  drafts.delete(current);
  reply.value = '';
  grow();
  post(current, text);
});
$('messages').addEventListener('click', allowSend);

// ---- which thread is open: the part of the address behind the #

const idOf = (name) => name.split('/').pop();

function readAddress() {
  const id = location.hash.slice(1);
  const next = id === '' ? null : 'spaces/local/threads/' + id;
  if (next !== current || next === null) {
    current = next;
    opened = true;
    drawn.clear();
    $('messages').replaceChildren();
  }
  draw();
}
addEventListener('hashchange', readAddress);
wide.addEventListener('change', draw);

// ---- the events

let source = null;
let lastID = '';
let heard = 0;

function connect() {
  source?.close();
  heard = Date.now();
  source = new EventSource('/events' + (lastID ? '?after=' + encodeURIComponent(lastID) : ''));
  on('reset', () => {
    for (const t of threads.values()) t.messages = t.messages.filter((m) => m.pending);
    drawn.clear();
    $('messages').replaceChildren();
  });
  on('messages', (messages) => {
    messages.forEach(takeMessage);
    if (ready) draw();
  });
  on('ready', () => {
    ready = true;
    opened = true;
    draw();
  });
  on('heartbeat', () => {});
  source.onerror = () => link('lost', 'Reconnecting');
}

function on(event, take) {
  source.addEventListener(event, (e) => {
    heard = Date.now();
    lastID = e.lastEventId || lastID;
    link('live', 'Live');
    take(JSON.parse(e.data));
  });
}

function link(state, words) {
  $('link').dataset.state = state;
  $('link').textContent = words;
}

// A browser gives up on a stream that was refused, and does not notice one that
// died in a sleeping phone. Both are started anew from the last message.
setInterval(() => {
  if (source.readyState === EventSource.CLOSED || Date.now() - heard > 40000) connect();
}, 2000);
document.addEventListener('visibilitychange', () => {
  if (!document.hidden && Date.now() - heard > 20000) connect();
});
setInterval(() => ready && draw(), 30000); // "3 min" grows old

readAddress();
connect();
