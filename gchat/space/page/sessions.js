// sessions.js knows which sessions there are, what each does, and which threads are its own.
import { request } from './key.js';
import { redraw, threadNamed, threads } from './messages.js';
import { lineOfMessage } from './threads.js';

const day = 24 * 60 * 60 * 1000; // ms
const interval = 5000; // ms between two looks at the sessions
const claudeID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/; // a session's id of Claude Code's own
const ownKinds = ['session_start', 'turn_done', 'session_end', 'gone_on'];
const sessionKinds = [...ownKinds, 'permission', 'subagent_done', 'task_done'];

let listed = []; // the sessions as the server lists them
let version = ''; // of the list
let isLoaded = false; // the server has answered, or cannot

export const hasSessions = () => isLoaded;

// watchSessions asks the server for the sessions again and again, while a person may see them.
export function watchSessions() {
  setInterval(load, interval);
  document.addEventListener('visibilitychange', load);
}

// load asks the server for the sessions.
export async function load() {
  if (document.hidden) return;
  const wasLoaded = isLoaded;
  const isNew = await readList().catch(() => false);
  isLoaded = true;
  if (isNew || !wasLoaded) redraw();
}

async function readList() {
  const address = '/page/sessions?version=' + encodeURIComponent(version);
  const answer = await request(address, { signal: AbortSignal.timeout?.(10000) });
  if (!answer.ok) return false;
  const list = await answer.json();
  if (!list.sessions) return false;
  [listed, version] = [list.sessions, list.version];
  return true;
}

// groupThreads returns {sessions, others}: the sessions with their threads, and the threads that
// belong to none. A session is {key, name, project, does, doesSince, own, threads, …}; own is the
// name of the thread that its row leads to. Descriptions has what describe says of each thread.
export function groupThreads(descriptions) {
  const all = [...descriptions.keys()];
  const index = indexOf(listed.map(newSession));
  const others = [];
  const place = (t) => {
    const session = ownerOf(t, index);
    if (session) session.threads.push(t);
    else others.push(t);
    return session;
  };
  for (const t of all.filter(isOwnThread)) nameAll(t, place(t), index);
  for (const t of all.filter((one) => !isOwnThread(one))) place(t);
  const sessions = index.sessions.filter((s) => s.threads.length > 0 || s.does !== 'ended');
  for (const session of sessions) complete(session, descriptions);
  sessions.sort((a, b) => Boolean(b.waits.length) - Boolean(a.waits.length) || byLast(a, b));
  return { sessions, others };
}

const byLast = (a, b) => (a.time < b.time ? 1 : a.time > b.time ? -1 : 0);

function newSession(s) {
  return { ...s, key: s.id, own: s.thread, threads: [], listedWaits: s.waits ?? [] };
}

function indexOf(sessions) {
  const index = { sessions, byID: new Map(), byThread: new Map(), byName: new Map() };
  for (const s of sessions) {
    for (const id of [s.id, ...s.formerIds ?? []]) index.byID.set(id, s);
    for (const thread of [s.thread, ...s.listedWaits.map((w) => w.thread)]) {
      if (thread) index.byThread.set(thread, s);
    }
    // A name that two sessions have says nothing.
    index.byName.set(s.name, index.byName.has(s.name) ? null : s);
  }
  return index;
}

// nameAll notes that all ids in a session's own thread are that session's: after /clear, a thread
// goes on with another id.
function nameAll(t, session, { byID }) {
  for (const { sessionId } of t.messages) {
    if (session && sessionId && !byID.has(sessionId)) byID.set(sessionId, session);
  }
}

// ownerOf returns the session that a thread belongs to: the one of its first message that names
// one. A message of an earlier version has only the session's name.
function ownerOf(t, { sessions, byID, byThread, byName }) {
  const first = t.messages.find((m) => m.sessionId);
  const id = first?.sessionId;
  if (byThread.has(t.name)) return byThread.get(t.name);
  if (byID.has(id)) return byID.get(id);
  if (!id) return findByName(byName, nameIn({ messages: t.messages.filter(isOfSession) }));
  if (!claudeID.test(id)) return null; // a script's own word
  const unknown = { key: id, id, name: '', does: '', threads: [], listedWaits: [] };
  byID.set(id, unknown);
  sessions.push(unknown);
  return unknown;
}

// isOfSession reports whether only a session posts such a message. A script may post others.
const isOfSession = (m) => Boolean(m.card) || sessionKinds.includes(m.kind);

// findByName returns the session with a name. A card's subtitle has the machine and the folder
// behind the name.
function findByName(byName, subtitle) {
  const parts = subtitle.split(' · ');
  for (let n = parts.length; n > 0; n--) {
    const name = parts.slice(0, n).join(' · ');
    if (byName.has(name)) return byName.get(name);
  }
  return null;
}

// nameIn returns the name of the session that a thread's messages have, with what a card says
// behind it.
function nameIn(t) {
  const m = t.messages.find((one) => one.session || one.card?.subtitle);
  return m?.session || m?.card?.subtitle || '';
}

// complete adds to a session what its messages tell.
function complete(session, descriptions) {
  const messages = session.threads.flatMap((t) => t.messages).sort(byMessageTime);
  const last = messages.at(-1);
  session.name ||= session.threads.map(nameIn).find(Boolean) ?? 'Session';
  session.own ??= session.threads.find(isOwnThread)?.name ?? threadNameOf(session);
  threadNamed(session.own);
  session.time = [session.lastSeen ?? '', last?.time ?? ''].sort().at(-1);
  session.line = lastWords(session, messages);
  session.waits = waitsOf(session, descriptions);
  session.isOver = isOver(session, last);
}

// threadNameOf is where a session without a thread of its own is shown.
const threadNameOf = (session) => 'spaces/local/threads/session-' + session.id;

const isOwn = (m) => ownKinds.includes(m.kind) || m.card?.kind === 'next';
const isOwnThread = (t) => t.messages.some(isOwn);

function lastWords({ lastWords: words, personLast }, messages) {
  if (words) return (personLast ? 'You: ' : '') + words;
  const m = messages.findLast((one) => one.human || lineOfMessage(one) !== '');
  return m ? (m.human ? 'You: ' : '') + lineOfMessage(m) : '';
}

// waitsOf returns the kinds of what waits for the person, as far as it waits in a thread of this
// page; and what the server says of the rest.
function waitsOf(session, descriptions) {
  const inThreads = session.threads.map((t) => descriptions.get(t))
    .filter((about) => about.waiting)
    .sort((a, b) => byMessageTime(a.ask, b.ask))
    .map(({ ask }) => ask.card?.kind || ask.kind);
  if (inThreads.length > 0) return inThreads;
  return session.listedWaits.filter((w) => !threads.has(w.thread)).map((w) => w.kind);
}

function isOver({ does, waits, time }, last) {
  if (waits.length > 0) return false;
  if (does === 'ended') return true;
  if (does) return false;
  return last?.kind === 'session_end' || Date.now() - new Date(time) > day;
}

// isOldThread reports whether a thread that belongs to no session moves to the archive.
export const isOldThread = (t, about) => !about.waiting && Date.now() - new Date(about.time) > day;

const byMessageTime = (a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0);

// sessionOf returns the session that a thread belongs to, if it is known.
export function sessionOf(sessions, t) {
  return sessions.find((s) => s.own === t.name || s.threads.includes(t)) ?? null;
}

const waitNames = {
  question: ['question', 'questions'],
  permission: ['permission', 'permissions'],
  plan: ['plan', 'plans'],
  form: ['form', 'forms'],
  next: ['next instruction', 'next instructions'],
  blocked_alert: ['urgent message', 'urgent messages'],
  terminal: ['dialog in the terminal', 'dialogs in the terminal'],
};

// countWaits says "1 permission, 2 questions", what waits longest first.
export function countWaits(kinds) {
  const counts = new Map();
  for (const kind of kinds) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return [...counts].map(([kind, n]) => {
    const [one, several] = waitNames[kind] ?? ['message', 'messages'];
    return `${n} ${n === 1 ? one : several}`;
  }).join(', ');
}

// hasText reports whether a session's name, its project or a text in its threads has all words.
export function hasText({ name = '', project = '', line = '', threads: own }, words) {
  const texts = [name, project, line];
  for (const t of own) {
    for (const m of t.messages) {
      texts.push(m.session, m.text, m.card?.title, m.card && lineOfMessage(m));
    }
  }
  const text = texts.filter(Boolean).join('\n').toLocaleLowerCase();
  return words.every((word) => text.includes(word));
}
