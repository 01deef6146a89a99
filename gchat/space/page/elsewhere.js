// elsewhere.js tells the person in a thread what else there is: the other threads of its session,
// and threads that need an answer.
import { h } from './markup.js';
import { allThreads } from './messages.js';
import { describe, stateWords, withoutFolder } from './threads.js';
import { idOf } from './list.js';

const $ = (id) => document.getElementById(id);
const links = new Map(); // thread name → {node, shown}

// threadLinks returns [time, node] for each other thread of a session whose own thread is open:
// a link that says what the thread is about, and how that stands.
export function threadLinks(session, t) {
  if (session?.own !== t.name) return [];
  const all = allThreads();
  return session.threads
    .filter((other) => other !== t)
    .map((other) => [other.messages[0].time, linkTo(other, describe(all, other))]);
}

function linkTo(t, { title, line, state }) {
  const link = links.get(t.name) ?? { node: h('a', { class: 'to-thread' }), shown: '' };
  links.set(t.name, link);
  const shown = JSON.stringify([title, line, state]);
  if (link.shown === shown) return link.node;
  link.shown = shown;
  link.node.href = '#' + idOf(t.name);
  link.node.replaceChildren(
    h('strong', { dir: 'auto' }, title),
    state ? h('span', { class: 'chip', 'data-state': state }, stateWords[state]) : '',
    h('span', { class: 'line', dir: 'auto' }, line));
  return link.node;
}

// drawOtherWaits shows above the reply box that other threads need the person, with a link to the
// one that waits longest. Waiting is a list of [thread, description].
export function drawOtherWaits(waiting, current) {
  const others = waiting.filter(([t]) => t.name !== current);
  others.sort(([, a], [, b]) => (a.ask.time < b.ask.time ? -1 : 1));
  const box = $('other-waits');
  box.hidden = others.length === 0;
  if (box.hidden) return;
  const [t, { title, where }] = others[0];
  const name = [withoutFolder(where), title].filter(Boolean).join(': ');
  const words = others.length === 1 ? `Needs you, too: ${name}`
    : `${others.length} others need you. First: ${name}`;
  if (box.textContent !== words) box.textContent = words; // it is read aloud
  box.href = '#' + idOf(t.name);
}
