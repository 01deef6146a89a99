// messages.js keeps the threads with their messages, as the server sends them.
import { readCard } from './card.js';
import { messageFiles } from './files.js';

export const threads = new Map(); // name → {name, messages, mayWrite}
export const views = new Map(); // message key → {node, card, update}, of the open thread
export const page = {
  current: null, // the open thread's name
  isReady: false, // the server has sent all that it had
};

let draw = () => {};

// drawWith says which function draws the page.
export function drawWith(drawPage) {
  draw = drawPage;
}

// redraw draws the page after something changed.
export const redraw = () => draw();

let count = 0; // of the messages that came

export const messageCount = () => count;
export const keyOf = (m) => m.clientId || m.name;
export const allThreads = () => [...threads.values()].filter((t) => t.messages.length > 0);

export function threadNamed(name) {
  if (!threads.has(name)) threads.set(name, { name, messages: [] });
  return threads.get(name);
}

// messageOf returns a row of the server as the page's message.
export function messageOf(row) {
  const { message: m, patch, requestId = '', kind = '', session = '', sessionId = '' } = row;
  return {
    name: m.name,
    thread: m.thread.name,
    text: m.text || m.fallbackText || '',
    time: m.createTime,
    human: m.sender.type === 'HUMAN',
    sender: m.sender.displayName || m.sender.name.replace('users/', ''),
    card: readCard(m.cardsV2),
    files: messageFiles(m),
    kind,
    session,
    sessionId,
    patched: Boolean(patch),
    private: Boolean(m.privateMessageViewer),
    clientId: requestId.startsWith('page:') ? requestId.slice('page:'.length) : undefined,
  };
}

const openStates = ['open', 'late', 'terminal'];

// addMessage adds a message to its thread, or puts it in the place of what it changes. Messages
// that are still on their way to the server stay last.
export function addMessage(m) {
  const t = threadNamed(m.thread);
  m.count = ++count;
  const findOld = () => t.messages.findIndex((old) => keyOf(old) === keyOf(m));
  let at = findOld();
  if (at >= 0 && m.patched) {
    const old = t.messages[at];
    m.sessionId ||= old.sessionId;
    if (!old.card || !m.card || openStates.includes(m.card.state)) {
      t.messages[at] = m;
      views.delete(keyOf(m));
      return;
    }
    // The card stays as it was drawn. How it ended is a message of its own.
    old.ended = m.card.state;
    old.card.chosen = m.card.chosen;
    Object.assign(m, { name: m.name + '#end', clientId: undefined, isEnd: true });
    views.delete(keyOf(m));
    at = findOld();
  }
  if (at >= 0) t.messages.splice(at, 1);
  const pending = t.messages.findIndex((old) => old.pending);
  t.messages.splice(pending < 0 ? t.messages.length : pending, 0, m);
}

// forgetMessages removes what the server sent. What is on its way to it stays.
export function forgetMessages() {
  for (const t of threads.values()) t.messages = t.messages.filter((m) => m.pending);
  page.isReady = false;
  forgetViews();
}

// forgetViews has all messages of the open thread drawn anew.
export function forgetViews() {
  views.clear();
  document.getElementById('messages').replaceChildren();
}
