// list.js draws the list of threads.
import { h } from './markup.js';
import { page } from './messages.js';
import { stateWords } from './threads.js';

const $ = (id) => document.getElementById(id);

// idOf is the part of the address that leads to a thread.
export const idOf = (name) => name.split('/').pop();

// drawList draws a row for each [thread, description].
export function drawList(rows) {
  const list = $('threads');
  rows.forEach(([t, about], i) => {
    t.row ??= h('a', { class: 'row', 'data-thread': t.name, href: '#' + idOf(t.name) });
    t.row.dataset.state = about.waiting ? 'open' : about.state;
    if (t.name === page.current) t.row.setAttribute('aria-current', 'true');
    else t.row.removeAttribute('aria-current');
    t.row.replaceChildren(avatar(about.where || about.title), rowText(about));
    if (list.children[i] !== t.row) list.insertBefore(t.row, list.children[i] ?? null);
  });
  while (list.children.length > rows.length) list.lastChild.remove();
}

function rowText({ title, time, line, state, where }) {
  const top = h('div', { class: 'row-top' },
    h('strong', {}, title),
    h('time', { datetime: time }, ago(time)));
  const end = state || where ? h('div', { class: 'row-end' },
    state ? h('span', { class: 'chip', 'data-state': state }, stateWords[state]) : null,
    where ? h('span', { class: 'session' }, where) : null) : null;
  return h('div', { class: 'row-text' }, top, h('p', {}, line), end);
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
  const seconds = (Date.now() - new Date(iso)) / 1000;
  if (seconds < 60) return 'now';
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return new Date(iso).toLocaleDateString([], { month: 'short', day: 'numeric' });
}
