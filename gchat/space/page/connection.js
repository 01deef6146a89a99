// connection.js reads the server's events, and shows whether they come.
import { request, wasRefused, onlyInTab, NoKey } from './key.js';
import { readEvents } from './stream.js';
import { page, addMessage, forgetMessages, messageOf, redraw } from './messages.js';

const $ = (id) => document.getElementById(id);
const silence = 40000; // ms without an event after which a stream is dead
const grace = 10000; // ms without a stream after which it is not known what waits

let stream = null; // ends the events that come; null: none come
let lastID = ''; // of the last event
let heardAt = 0; // when the last event came
let lostAt = 0; // when the stream was lost; 0: it is not
let onReset = () => {};
let onReady = () => {};
let onUnlock = () => {};

// isOut reports whether the server is out of reach for so long that something may wait.
export const isOut = () => lostAt > 0 && Date.now() - lostAt >= grace;

// keepConnected connects again whenever the events stop. A stream that died in a sleeping phone
// is not noticed, so silence counts, too. A page without a key looks whether another tab has one.
// Of what it is given, reset is called before all messages come anew, ready once all have come,
// and unlock when a key is accepted after none was.
export function keepConnected({ reset, ready, unlock }) {
  [onReset, onReady, onUnlock] = [reset, ready, unlock];
  setInterval(() => connectAfter(silence), 1000);
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) connectAfter(silence / 2);
  });
  connect();
}

function connectAfter(ms) {
  if (stream === null || Date.now() - heardAt > ms) connect();
}

// connect asks for all events after the last one that came.
export async function connect() {
  stream?.abort();
  const own = new AbortController();
  stream = own;
  heardAt = Date.now();
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
  lostAt ||= Date.now();
  showLink('lost', isOut() ? 'Not running' : 'Reconnecting');
  if (isOut()) redraw();
}

function takeEvent(event, id, data) {
  heardAt = Date.now();
  const wasOut = isOut();
  lostAt = 0;
  lastID = id || lastID;
  showLink('live', 'Live');
  if (wasOut) redraw();
  handlers[event]?.(JSON.parse(data));
}

const handlers = {
  reset() {
    forgetMessages();
    onReset();
  },
  messages(rows) {
    rows.map(messageOf).forEach(addMessage);
    if (page.isReady) redraw();
  },
  ready() {
    page.isReady = true;
    onReady();
    redraw();
  },
};

// lock shows how to get the key in place of everything else, or takes that away again.
function lock(isLocked) {
  const words = wasRefused()
    ? 'The link that was opened here is no longer valid. This prints the new one:'
    : 'Open it once with the link that gchat-hooks printed. This prints the link again:';
  // A text that is set again is read aloud again.
  if ($('locked-words').textContent !== words) $('locked-words').textContent = words;
  if (!isLocked && $('main').hidden) onUnlock();
  $('locked').hidden = !isLocked;
  $('main').hidden = isLocked;
  $('only-tab').hidden = !onlyInTab();
}

function showLink(state, words) {
  $('link').dataset.state = state;
  $('link').textContent = words;
}
