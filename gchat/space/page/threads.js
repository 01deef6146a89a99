// threads.js says what the messages of a thread mean: what waits for the person, and whether a reply is read. A card says how it
// stands, and the app says of its texts what they are about. No text is read.
import { titleOf, lineOf } from './card.js';
import { plain } from './markup.js';

// waits are what a person has to do something about, until the session goes on.
const waits = new Set(['permission', 'blocked_alert']);
// beside are what comes while something waits, too: from helpers, and at the end of a turn.
const beside = new Set(['subagent_done', 'task_done', 'turn_done']);
// neutral are the notes that say nothing about a reply.
const neutral = new Set(['note reminder', 'note more', 'note granted', 'note attached']);
const longestWait = 24 * 60 * 60 * 1000; // ms; a question ends after that time, too

const isNote = (m) => m.kind.startsWith('note');
const programs = (t) => t.messages.filter((m) => !m.human && !isNote(m));
const isAsked = (m) => Boolean(m.card) && m.card.kind !== 'notice' && !m.isEnd;

// stateOf is how the card or notice at an index stands: as its card says, or "replied" (a person wrote or tapped, and it is still
// open); "" for what waits for no person.
export function stateOf(all, t, at) {
  const m = t.messages[at];
  if (isAsked(m)) {
    const state = m.ended ?? m.card.state;
    return state === 'open' && isReplied(t, m, at) ? 'replied' : state;
  }
  if (!waits.has(m.kind) || goneOn(all, t, m)) return '';
  const last = t.messages.slice(at + 1).filter((one) => one.pending !== 'failed').at(-1);
  return last?.human && m.kind !== 'permission' ? 'replied' : 'open'; // the terminal decides a permission
}

// isReplied says whether a person replied or tapped, and was told nothing about it since but that it was sent.
function isReplied(t, { tapped = Infinity, card }, at) {
  let replied = false;
  for (const m of t.messages.slice(at + 1)) {
    if (m.pending === 'failed' || m.isEnd || neutral.has(m.kind)) continue;
    if (m.human) replied = card.kind !== 'next' || !m.text.startsWith('/') || replied;
    else if (m.kind !== 'note sent' && (card.kind === 'question' || isNote(m) || !isAsked(m))) {
      replied = false;
      if (m.count > tapped) tapped = Infinity;
    }
  }
  return replied || tapped < Infinity;
}

// startOf is the index of the message in which the card at an index begins: a long plan stands above it.
export function startOf(t, at) {
  while (t.messages[at].card && t.messages[at - 1]?.kind === 'question') at--;
  while (at > 0 && t.messages[at].kind === 'question' && t.messages[at - 1].kind === 'question') at--;
  return at;
}

// goneOn says that a session waits no more after a notice: it has said something else since, in whatever thread. What waits in
// the terminal alone is taken back in its thread; until then other things may be asked and answered.
function goneOn(all, t, m) {
  if (Date.now() - new Date(m.time) > longestWait) return true;
  const later = (one) => !one.human && one.count > m.count;
  if (m.kind === 'permission') return t.messages.some((one) => later(one) && ['gone_on', 'session_end'].includes(one.kind));
  const tells = (one) => later(one) && !isNote(one) && !beside.has(one.kind) && !one.isEnd;
  return all.some((other) => other.messages.some((one) => tells(one) && (other === t || m.session && one.session === m.session)));
}

// askAt is the index of what the thread is about: what waits, else the last question or notice; -1 for none.
export function askAt(all, t) {
  const states = t.messages.map((_, i) => stateOf(all, t, i));
  const open = states.findLastIndex((state) => state === 'open' || state === 'terminal');
  return open >= 0 ? open : states.findLastIndex(Boolean);
}

// stateWords are what a person reads of a state.
export const stateWords = {
  open: 'Needs you', replied: 'Reply sent', answered: 'Answered', denied: 'Denied',
  cancelled: 'Cancelled', timeout: 'Timed out', late: 'Timed out',
  terminal: 'Answer in the terminal', over: 'Over',
};

const overWords = { cancelled: (what) => `This ${what} is closed.`, timeout: (what) => `The time for this ${what} has run out.` };
const hasAnswer = () => 'Already answered.';

// unread says why a reply in this thread would not be read, as {words, sure}, or null where it may be. Where it is not sure,
// a program may wait for a reply all the same (gchat-wait), and the person may write.
export function unread(all, t) {
  if (t.messages.length === 0) {
    return { words: 'This session has no thread of its own. Write to it in the terminal.', sure: true };
  }
  const told = t.messages.filter((m) => !m.human).at(-1);
  if (['note unwaited', 'note unread'].includes(told?.kind)) return { words: 'Please answer in the terminal.', sure: false };
  const last = programs(t).at(-1);
  const states = t.messages.map((m, i) => isAsked(m) && stateOf(all, t, i)).filter(Boolean);
  if (!last || states.some((state) => ['open', 'replied', 'late', 'terminal'].includes(state))) return null;
  const { kind } = last.card ?? {};
  if (last.isEnd && kind !== 'next') {
    const { state } = last.card;
    return { words: (overWords[state] ?? hasAnswer)(kind) + ' Replies here are not read.', sure: state !== 'timeout' };
  }
  if (last.kind === 'session_end') return { words: 'This session has ended. It is not waiting for a reply.', sure: false };
  if (kind === 'notice' && last.card.choices.length === 0) return { words: 'This message needs no reply.', sure: true };
  return null;
}

const emptyThread = { state: '', waiting: false, ask: null, where: '', time: '', title: '', line: '' };

// describe is a thread in a few words. Waiting says that it waits for the person.
export function describe(all, t) {
  if (t.messages.length === 0) return emptyThread;
  const at = askAt(all, t);
  const m = t.messages[at] ?? programs(t).at(-1) ?? t.messages[0];
  const state = at < 0 ? '' : stateOf(all, t, at);
  const where = m.card?.subtitle || m.session || t.messages.findLast((one) => one.session)?.session || '';
  const told = { state, waiting: state === 'open' || state === 'terminal', ask: m, where, time: t.messages.at(-1).time,
    isBlocked: m.kind === 'blocked_alert' && state === 'open' };
  if (!m.card) {
    return { ...told, title: titleOfKind(m.kind) || m.sender, line: lineOfMessage(m) };
  }
  const start = t.messages[startOf(t, t.messages.indexOf(m))];
  return { ...told, title: titleOf(m.card), line: plain(start === m ? lineOf(m.card) : start.text) };
}

// lineOfMessage is a message in one line.
export function lineOfMessage(m) {
  if (m.card) return plain(lineOf(m.card) || titleOf(m.card));
  const [, ...rest] = m.text.split('\n'); // the first line of what the app says is its header
  return plain(!m.human && m.kind && rest.join(' ') || m.text);
}

// titleOfKind has "Task completion" for what is about a "task_completion".
const titleOfKind = (kind) => kind === 'blocked_alert' ? 'Blocked' : kind.charAt(0).toUpperCase() + kind.slice(1).replaceAll('_', ' ');

// withoutFolder shortens "web-shop · /home/ann/web-shop" to the session's name.
export const withoutFolder = (where) => where.replace(/ · [/~].*/s, '');
