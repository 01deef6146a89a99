// list.js draws the list: what needs the person, the sessions, other threads, and the archive.
import { h } from './markup.js';
import { page } from './messages.js';
import { stateWords, withoutFolder } from './threads.js';
import { countWaits, hasText, isOldThread } from './sessions.js';

const $ = (id) => document.getElementById(id);
const rows = new Map(); // key of a row → {node, shown}
const mostArchived = 100; // rows of the archive that are drawn
let openWaits = new Set(); // names of the threads that need the person

// idOf is the part of the address that leads to a thread.
export const idOf = (name) => name.split('/').pop();

// drawList draws waiting and others, which are lists of [thread, description], and the sessions.
export function drawList({ waiting, sessions, others }) {
  openWaits = new Set(waiting.map(([t]) => t.name));
  const running = sessions.filter((s) => !s.isOver);
  const recent = others.filter(([t, about]) => !about.waiting && !isOldThread(t, about));
  const old = others.filter(([t, about]) => isOldThread(t, about));
  drawSection('waiting', waiting.map(threadRow));
  drawSection('sessions', running.map(sessionRow));
  drawSection('others', recent.map(threadRow));
  drawArchive(sessions.filter((s) => s.isOver), old);
}

function drawSection(name, drawn) {
  $(name).hidden = drawn.length === 0;
  placeRows($(name + '-rows'), drawn);
}

// placeRows puts nodes into a list. The focus stays where it is, also if its node moves.
function placeRows(list, nodes) {
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  nodes.forEach((node, i) => {
    if (list.children[i] !== node) list.insertBefore(node, list.children[i] ?? null);
  });
  while (list.children.length > nodes.length) list.lastChild.remove();
  if (focused?.isConnected && focused !== document.activeElement) focused.focus();
}

// rowFor returns the row with a key. It is filled only if what it shows has changed.
function rowFor(key, threadName, isCurrent, shown, fill) {
  const row = rows.get(key) ?? { node: h('a', { class: 'row' }), shown: '' };
  rows.set(key, row);
  if (isCurrent) row.node.setAttribute('aria-current', 'true');
  else row.node.removeAttribute('aria-current');
  const text = JSON.stringify(shown);
  if (row.shown === text) return row.node;
  row.shown = text;
  row.node.dataset.thread = threadName;
  row.node.href = '#' + idOf(threadName);
  row.node.replaceChildren(...fill());
  return row.node;
}

// threadRow draws a thread that needs the person, or that belongs to no session.
function threadRow([t, about]) {
  const { title, time, line, state, where, waiting, isBlocked } = about;
  const when = ago(time);
  const shown = [title, when, line, state, where, isBlocked];
  const node = rowFor(t.name, t.name, t.name === page.current, shown, () => [
    avatar(withoutFolder(where) || title),
    h('div', { class: 'row-text' },
      rowTop(title, time, when),
      h('p', { dir: 'auto' }, line),
      rowEnd(
        state ? h('span', { class: 'chip', 'data-state': state, 'data-blocked': isBlocked },
          isBlocked ? 'Blocked' : stateWords[state]) : null,
        where ? h('span', { class: 'session', dir: 'auto' }, where) : null)),
  ]);
  node.dataset.state = waiting ? 'open' : state;
  return node;
}

// isCurrent reports whether a session's thread is open, and no other row is that thread's.
function isCurrent(s) {
  const isOpen = s.own === page.current || s.threads.some((t) => t.name === page.current);
  return isOpen && !openWaits.has(page.current);
}

// sessionRow draws a session: what it does and since when, what was said last, what waits.
function sessionRow(s) {
  const does = s.waits.length > 0 ? 'waits for you' : s.isOver ? 'ended' : s.does;
  const waits = s.isOver ? '' : countWaits(s.waits);
  const since = does === s.does && s.doesSince ? ago(s.doesSince) : '';
  const project = s.project && !s.name.startsWith(s.project) ? s.project : '';
  const when = ago(s.time);
  const shown = [s.name, when, s.line, does, since, waits, project, s.own];
  const node = rowFor('session ' + s.key, s.own, isCurrent(s), shown, () => [
    avatar(s.name),
    h('div', { class: 'row-text' },
      rowTop(s.name, s.time, when),
      waits ? h('p', { class: 'waits' }, waits) : null,
      h('p', { dir: 'auto' }, s.line),
      rowEnd(
        does ? h('span', { class: 'chip', 'data-does': does }, does) : null,
        since ? h('span', { class: 'since' }, since === 'now' ? 'just now' : `for ${since}`) : null,
        project || does ? h('span', { class: 'session', dir: 'auto' }, project) : null)),
  ]);
  node.dataset.session = s.key;
  return node;
}

function rowTop(title, time, when) {
  return h('div', { class: 'row-top' },
    h('strong', { dir: 'auto' }, title),
    when ? h('time', { datetime: time }, when) : null);
}

function rowEnd(...parts) {
  const shown = parts.filter(Boolean);
  return shown.length > 0 ? h('div', { class: 'row-end' }, ...shown) : null;
}

// ---- the archive

// drawArchive draws what is over, if the person opened it: sessions, and threads of none.
function drawArchive(sessions, threads) {
  const count = sessions.length + threads.length;
  $('archive').hidden = count === 0;
  $('archive-title').textContent = `Archive (${count})`;
  if (!$('archive').open) return;
  const words = $('archive-search').value.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  const foundSessions = sessions.filter((s) => hasText(s, words));
  const foundThreads = threads.filter(([t, about]) => hasText({
    name: about.title, project: about.where, line: about.line, threads: [t],
  }, words));
  const found = [
    ...foundSessions.map((s) => [s.time, () => sessionRow(s)]),
    ...foundThreads.map((row) => [row[1].time, () => threadRow(row)]),
  ].sort(([a], [b]) => (a < b ? 1 : -1));
  placeRows($('archive-rows'), found.slice(0, mostArchived).map(([, draw]) => draw()));
  $('archive-found').textContent = foundText(found.length, words.length > 0);
}

function foundText(count, isSearch) {
  if (count === 0) return 'Nothing found';
  if (count > mostArchived) return `${count} found; the latest ${mostArchived} are shown`;
  return isSearch ? `${count} found` : '';
}

// listenToArchive has the archive drawn when the person opens it or searches in it.
export function listenToArchive(draw) {
  $('archive').addEventListener('toggle', draw);
  $('archive-search').addEventListener('input', draw);
}

// avatar is a name's initials on a colour that the name always has.
function avatar(name) {
  let sum = 0;
  for (const c of name) sum = (sum * 31 + c.codePointAt(0)) % 997;
  const words = name.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  const initials = words.slice(0, 2).map((word) => [...word][0].toUpperCase()).join('');
  return h('span', { class: `avatar hue${sum % 6}`, 'aria-hidden': 'true' }, initials || '?');
}

function ago(iso) {
  if (!iso) return '';
  const seconds = (Date.now() - new Date(iso)) / 1000;
  if (seconds < 60) return 'now';
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return new Date(iso).toLocaleDateString([], { month: 'short', day: 'numeric' });
}
