// threads.js says what the messages of a thread mean: whose they are, what waits for the person, and whether a reply is read.
// The space is only a Chat: it knows the messages, and nothing of the sessions and the programs behind them.
import { parseQuestion } from './question.js';
import { readReplies } from './reply.js';
import { parseDecision } from './decision.js';

// named are the messages that begin with a session's name: "[Done] orch-epic4 | 2026-02-21 10:45:23".
const named = new Set(['Answered', 'Cancelled', 'Timeout', 'Done', 'Progress', 'BLOCKED', 'Heartbeat', 'Session Start',
  'Session End', 'Error', 'Permission', 'Plan', 'Reminder', 'In the terminal', 'Subagent Done', 'Task Done', 'Turn Done',
  'Notification', 'Waiting for you']);
// waits are those that a person has to do something about, until the session goes on.
const waits = new Set(['Permission', 'BLOCKED', 'Waiting for you']);
// notes are about a reply. They say neither that a session goes on nor that something waits.
const notes = new Set(['Sent', 'Kept', 'Not used', 'Not read', 'Waiting', 'Look', 'Changed', 'More', 'Reminder', 'Screen',
  'Status', 'Stopped', 'Muted', 'Help', 'In the terminal', 'Words only']);
const reopens = new Set(['Not used', 'Not read']); // of the notes: what the reply was not taken for
const answersCommand = new Set(['Screen', 'Status', 'Stopped', 'Muted', 'Help']);
// beside are those that come while something waits, too: from helpers, at the end of a turn, and about a question that is over.
const beside = new Set(['Subagent Done', 'Task Done', 'Turn Done', 'Answered', 'Cancelled', 'Timeout', 'Digest', 'Setup', 'Verify']);
const longestWait = 24 * 60 * 60 * 1000; // ms; a question ends after that time, too

const programs = (t) => t.messages.filter((m) => !m.human && !notes.has(m.tag));

// readMessage adds to a message what its text means: question, decision, tag, session, project, and body, the text below them.
export function readMessage(m) {
  m.question = m.human ? null : parseQuestion(m.text);
  m.body = m.text;
  if (m.human) return;
  if (m.question) {
    m.session = m.question.session;
    m.project = m.question.project;
    return;
  }
  const tag = /^\[([^\]\n]{1,40})\]\s*/.exec(m.text);
  if (!tag) return;
  m.tag = tag[1];
  m.body = m.text.slice(tag[0].length);
  const [first] = m.body.split('\n', 1);
  const name = first.replace(/ ?\(\d+\/\d+\)$/, '').replace(/(^| \|) ?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/, '').trim();
  if (!named.has(m.tag) || closing(m) && first === m.body) return; // no header: a sentence behind the tag
  m.session = name;
  if (['Permission', 'Plan'].includes(m.tag)) m.session = name.replace(/^Session: /, '');
  if (!closing(m)) m.body = m.body.slice(first.length).replace(/^\nMachine: .*/, '').trimStart();
  m.decision = parseDecision(m.text);
  if (m.tag === 'Session Start') m.project = /^Project: (.*)$/m.exec(m.body)?.[1];
}

// closing is how a message ends its thread's question. "denied" is a permission or a plan; "late" is over for Claude, and open for
// a reply.
export function closing(m) {
  if (m.human) return undefined;
  switch (m.tag) {
    case 'Answered': return /^.*\n\n(Denied: |Sent the plan back\.)/.test(m.text) ? 'denied' : 'answered';
    case 'Cancelled': return 'cancelled';
    case 'Timeout': return m.text.trimEnd().endsWith('a reply still reaches it.') ? 'late' : 'timeout';
  }
  return undefined;
}

// stateOf is how the question, decision or notice at an index stands: "open", "replied" (a person wrote, the session has not
// said anything yet), "late", "terminal" (it is to be answered there), "answered", "denied", "cancelled", "timeout", or "" for
// what waits for no person.
export function stateOf(all, t, at) {
  const m = t.messages[at];
  if (m.patched) return closing(m) ?? (m.tag === 'In the terminal' ? 'terminal' : '');
  if (m.tapped && !t.messages.slice(at + 1).some((one) => reopens.has(one.tag) && one.count > m.tapped)) return 'replied';
  if (m.decision) return decisionState(m.decision, t.messages.slice(at + 1));
  if (!m.question && !waits.has(m.tag)) return '';
  const later = t.messages.slice(at + 1);
  const ends = later.map(closing).filter(Boolean);
  const end = ends.find((e) => e !== 'late') ?? ends[0];
  if (m.question && end && end !== 'late') return end;
  if (m.question && later.some((one) => one.tag === 'In the terminal')) return 'terminal';
  if (!m.question && goneOn(all, t, m)) return '';
  if (m.tag === 'Permission') return 'open'; // the terminal decides it
  if (later.filter((one) => one.pending !== 'failed').at(-1)?.human) return 'replied';
  return (m.question && end) || 'open';
}

// decisionState is stateOf for a decision or the next instruction, by the messages after it.
function decisionState({ kind }, later) {
  let reply = null; // the text that the thread has said nothing about yet
  let sent = false;
  for (const m of later.filter((one) => one.pending !== 'failed')) {
    if (closing(m)) return closing(m);
    if (kind === 'next' && m.tag === 'Waiting for you') return '';
    if (kind === 'next' && m.tag === 'Session End') return 'cancelled';
    if (kind === 'next' && m.tag === 'Sent' && reply !== null) return 'answered';
    if (m.human) reply = m.text.trim();
    else if (m.tag === 'Sent') sent = true;
    else if (m.tag === 'More') reply = /^more\b/i.test(reply ?? '') ? null : reply;
    else if (answersCommand.has(m.tag)) reply = reply?.startsWith('/') ? null : reply;
    else if (reopens.has(m.tag) || kind !== 'next' && !notes.has(m.tag)) reply = null;
  }
  if (later.some((m) => m.tag === 'In the terminal')) return 'terminal';
  return sent && kind !== 'next' || reply !== null ? 'replied' : 'open';
}

// moreCame says that the rest of what a permission shows stands in the thread.
export const moreCame = (t, at) => t.messages.slice(at + 1).some((m) => !m.human && m.tag === 'More');

// startOf is the index of the message in which the decision at an index begins: a long plan comes in parts.
export function startOf(t, at) {
  const { tag, session } = t.messages[at];
  let from = at;
  while (/\((?!1\/)\d+\/\d+\)$/m.test(t.messages[from].text.split('\n', 1)[0])) {
    const before = t.messages.slice(0, from).findLastIndex((m) => !m.human && m.tag === tag && m.session === session);
    if (before < 0) break;
    from = before;
  }
  return from;
}

// What waits in the terminal alone is taken back in its thread; until then other things may be asked and answered.
const inTerminal = (m) => m.tag === 'Permission' && /^Claude waits .*in the terminal/.test(m.body);
const takesBack = new Set(['Gone on', 'Session End']);

// goneOn says that a session waits no more after a notice: it has said something else since, in whatever thread.
function goneOn(all, t, m) {
  if (Date.now() - new Date(m.time) > longestWait) return true;
  if (inTerminal(m)) return t.messages.some((one) => !one.human && one.count > m.count && takesBack.has(one.tag));
  const tells = (one) => !one.human && one.count > m.count && !notes.has(one.tag) && !beside.has(one.tag);
  const same = (one) => m.session && one.session === m.session;
  return all.some((other) => other.messages.some((one) => tells(one) && (other === t || same(one))));
}

// askAt is the index of what the thread is about: what waits, else the last question or notice; -1 for none.
export function askAt(all, t) {
  const states = t.messages.map((_, i) => stateOf(all, t, i));
  const open = states.findLastIndex((state) => state === 'open' || state === 'terminal');
  return open >= 0 ? open : states.findLastIndex(Boolean);
}

// replies is what was replied to the question at an index: the messages, in the order of each, and what readReplies says.
export function replies(t, at) {
  const later = t.messages.slice(at + 1);
  const end = later.findIndex((m) => closing(m) && closing(m) !== 'late');
  const messages = later.slice(0, end < 0 ? undefined : end).filter((m) => m.human && m.pending !== 'failed');
  return { messages, ...readReplies(t.messages[at].question, messages.map((m) => m.text)) };
}

const overWords = {
  answered: (what) => `This ${what} has its answer.`,
  denied: (what) => `This ${what} has its answer.`,
  cancelled: (what) => `This ${what} is closed.`,
  timeout: (what) => `The time for this ${what} is over.`,
};

// unread says why a reply in this thread would not be read, as {words, sure}, or null where it may be. Where it is not sure,
// a program may wait for a reply all the same (gchat-wait), and the person may write.
export function unread(all, t) {
  const said = programs(t);
  const last = said.at(-1);
  const told = t.messages.filter((m) => !m.human).at(-1);
  if (told?.tag === 'Not read' && /^Please (answer in the terminal|write to Claude)/.test(told.body)) {
    return { words: told.body.split('\n')[0], sure: false };
  }
  if (!last || askOpen(all, t)) return null;
  const ends = said.map(closing).filter(Boolean);
  const kind = said.findLast((m) => m.question || m.decision)?.decision?.kind ?? 'question';
  if (kind !== 'next' && closing(last) && !ends.includes('late') && ends.length >= said.filter((m) => m.question).length) {
    const again = closing(last) === 'timeout' && last.text.includes('ask again'); // until Claude does, a reply counts
    return { words: overWords[closing(last)](kind) + ' A reply here would not be read.', sure: !again };
  }
  if (told.tag === 'Not read' && /^nobody is waiting/.test(told.body)) {
    return { words: told.body[0].toUpperCase() + told.body.slice(1), sure: false };
  }
  if (last.tag === 'Session End') return { words: 'This session has ended. Nobody waits for a reply here.', sure: false };
  if (['Setup', 'Verify'].includes(last.tag)) return { words: 'This message needs no reply, and none is read.', sure: true };
  return null;
}

function askOpen(all, t) {
  return t.messages.some((m, i) => (m.decision || m.tag !== 'Permission') && ['open', 'replied', 'late'].includes(stateOf(all, t, i)));
}

// describe is a thread in a few words. Waiting says that it waits for the person.
export function describe(all, t) {
  const at = askAt(all, t);
  const m = t.messages[at] ?? t.messages.findLast((one) => !one.human && !notes.has(one.tag)) ?? t.messages[0];
  const state = at < 0 ? '' : stateOf(all, t, at);
  const session = m.session || t.messages.findLast((one) => one.session)?.session || '';
  const told = { state, waiting: state === 'open' || state === 'terminal', ask: m, where: whereOf(all, t, session), time: t.messages.at(-1).time };
  if (m.question) {
    const { sections } = m.question;
    const title = sections.map((s) => s.header).filter(Boolean).join(' · ') || 'Question';
    return { ...told, title, line: plain(sections[0].text) };
  }
  if (m.decision) {
    const { kind, tool, about, text, shown } = m.decision;
    // A command goes before Claude's words about it.
    const shell = /^(Bash|Monitor|PowerShell)$/.test(tool);
    const asks = shell && shown ? `${shown.replace(/\n+/g, ' ')} ${about && `(${about})`}`.trim() : about;
    const line = kind === 'permission' ? [tool, asks].filter(Boolean).join(': ') : '';
    const start = t.messages[startOf(t, at)];
    return { ...told, title: m.tag, line: line || plain(start === m ? text : start.body.replace(/^Folder: .*\n*/, '')) };
  }
  return { ...told, title: m.tag === 'BLOCKED' ? 'Blocked' : m.tag ?? m.sender, line: plain(m.body) };
}

// whereOf is the project and the session. A session's name begins with its project unless a person chose it.
function whereOf(all, t, session) {
  let project = t.messages.findLast((m) => m.project)?.project ?? '';
  for (const other of session && !project ? all : []) {
    project = other.messages.findLast((m) => m.project && m.session === session)?.project ?? project;
  }
  const known = project === '' || session === project || session.startsWith(project + ' · ');
  return known ? session : session === '' ? project : `${project} · ${session}`;
}

// plain is a text in one line, without its markup.
const plain = (text) => text.replace(/<[^|>\n]+\|([^>\n]*)>/g, '$1').replace(/[*_`~]/g, '').replace(/\s+/g, ' ').trim();
