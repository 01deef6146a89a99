// composer.js has the reply box, and sends what a person writes and taps.
import { request } from './key.js';
import { failureOf, reasonOf, mostBytes, tooLong, withCapital } from './failure.js';
import { sendHeld } from './undo.js';
import { page, threads, views, messageCount, redraw, threadNamed } from './messages.js';
import { unread, askAt } from './threads.js';
import {
  chosenFiles, drawChosenFiles, forgetUploads, listenForFiles, takeChosenFiles, textOfTap, uploadFiles,
} from './files.js';

const $ = (id) => document.getElementById(id);
const reply = $('reply');
const drafts = new Map(); // thread name → unsent text

// ---- sending

// newID works without crypto.randomUUID, which plain http beyond localhost lacks.
function newID() {
  const bytes = [...crypto.getRandomValues(new Uint8Array(16))];
  return bytes.map((b) => b.toString(16).padStart(2, '0')).join('');
}

async function send(body) {
  const text = JSON.stringify(body);
  const answer = await request('/page/messages', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: text,
    keepalive: text.length < 20000, // it arrives though the page is left; browsers take 64 KB
    signal: AbortSignal.timeout?.(10000),
  });
  if (!answer.ok) throw await failureOf(answer);
  return answer.json();
}

// post shows a message of the person's, and sends it, with the chosen files if hasFiles. It returns
// false if the text is too long.
export function post(thread, text, hasFiles = false) {
  if (isTooLong(text)) return false;
  const m = {
    clientId: newID(), thread, text, human: true, kind: '', sender: 'You',
    time: new Date().toISOString(), files: hasFiles ? takeChosenFiles(thread) : [],
  };
  threadNamed(thread).messages.push(m);
  deliver(m);
  $('scroll').scrollTop = $('scroll').scrollHeight;
  return true;
}

// deliver may be called again for the same message: the server knows its id.
export async function deliver(m) {
  m.pending = 'sending';
  redraw();
  try {
    await uploadFiles(m.files, (hundredths) => {
      m.progress = hundredths;
      redraw();
    });
    const files = m.files.map(({ id, name }) => ({ id, name }));
    const sent = await send({ thread: m.thread, text: m.text, clientId: m.clientId, files });
    m.name = sent.name;
    m.pending = 'sent';
  } catch (error) {
    m.pending = 'failed';
    if (error.status === 404) forgetUploads(m.files);
    m.reason = reasonOf(error);
  }
  redraw();
}

let failedStart = {}; // {text, clientId}: the same text has one id, however often it is tried

// startThread sends a text as the first message of a thread, and returns {name, thread}.
export async function startThread(text) {
  if (failedStart.text !== text) failedStart = { text, clientId: newID() };
  const sent = await send(failedStart);
  failedStart = {};
  return sent;
}

let failedTap = {}; // {what, clientId}: the same tap has one id, however often it is tried

// tap sends what a card's button carries. If words of the reply box go along with it, card is the
// card that took them, and they leave the box.
export async function tap(m, choice, inputs, card) {
  const text = chosenFiles(m.thread).length > 0 ? textOfTap(choice, inputs) : null;
  if (text !== null) {
    if (!post(m.thread, text, true)) return;
    card?.clear();
    clearReply(m.thread);
    return;
  }
  const what = JSON.stringify([m.name, choice, inputs]);
  if (failedTap.what !== what) failedTap = { what, clientId: newID() };
  if (choice !== 'more') m.tapped = messageCount();
  m.failed = null;
  redraw();
  try {
    await send({ message: m.name, choice, inputs, clientId: failedTap.clientId });
    failedTap = {};
    m.asked ||= choice === 'more';
    card?.clear();
    if (card) clearReply(m.thread);
  } catch (error) {
    m.failed = { reason: reasonOf(error), inputs: error.inputs ?? {} };
    delete m.tapped;
  }
  redraw();
}

// ---- the reply box

// boxText is what stands in the reply box of a thread.
export const boxText = (t) => drafts.get(t.name)?.trim() ?? '';

// isTooLong reports whether no message may be so long, and tells the person.
export function isTooLong(text) {
  const isLong = new TextEncoder().encode(text).length > mostBytes;
  $('too-long').textContent = isLong ? withCapital(tooLong) : '';
  $('too-long').hidden = !isLong;
  return isLong;
}

// drawComposer shows the reply box, or why a reply would not be read. The box of a session's
// thread is always there.
export function drawComposer(all, t, about, isForSession) {
  const why = t.mayWrite || isForSession ? null : unread(all, t);
  $('unread').hidden = !why;
  $('unread-words').textContent = why?.words ?? '';
  $('anyway').hidden = !why || why.sure;
  reply.disabled = Boolean(why);
  reply.hidden = Boolean(why) && boxText(t) === ''; // words that were not sent stay
  $('send').hidden = Boolean(why);
  $('refuse').textContent = why ? '' : refusingCard()?.refusal() ?? '';
  $('refuse').hidden = $('refuse').textContent === '';
  drawChosenFiles(!why);
  reply.placeholder = placeholder(all, t, about, isForSession);
  allowSend();
}

function placeholder(all, t, { state, ask, waiting }, isForSession) {
  const field = state === 'open' && ask.card?.kind !== 'question' ? ask.card?.own : null;
  if (field) return field.label;
  if (ask?.kind === 'permission' && waiting) return 'Allow or deny it in the terminal';
  if (isForSession) return 'Write to Claude';
  return askAt(all, t) < 0 ? 'Only a waiting script reads this' : 'Write a reply';
}

const findCard = (matches) => [...views.values()].find((v) => v.card && matches(v.card))?.card;

// readyCard is the open question whose choices are made, but not sent. touchedCard may lack some.
const readyCard = () => findCard((card) => card.ready());
const touchedCard = () => findCard((card) => card.tapped());

// refusingCard is the decision that the words in the box would refuse.
const refusingCard = () => findCard((card) => card.refusal());

function allowSend() {
  const text = reply.value.trim();
  const hasNothing = text === '' && chosenFiles(page.current).length === 0 && !readyCard();
  $('send').disabled = reply.disabled || isTooLong(text) || hasNothing;
}

function fitToText() {
  reply.rows = Math.min(6, reply.value.split('\n').length);
  allowSend();
}

function clearReply(thread) {
  drafts.delete(thread);
  if (thread !== page.current) return;
  reply.value = '';
  fitToText();
}

// resetReply puts the unsent text of a thread into the box.
export function resetReply(t) {
  reply.value = drafts.get(t.name) ?? '';
  fitToText();
}

// listenToComposer begins to listen to the box and its buttons. drawThread draws what follows
// from the words.
export function listenToComposer(drawThread) {
  $('refuse').addEventListener('click', () => refusingCard()?.refuse());
  $('anyway').addEventListener('click', () => {
    threads.get(page.current).mayWrite = true;
    redraw();
    reply.focus();
  });
  reply.addEventListener('input', () => {
    drafts.set(page.current, reply.value);
    fitToText();
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
    submit();
  });
  $('messages').addEventListener('click', allowSend);
  listenForFiles();
}

function submit() {
  const text = reply.value.trim();
  if (reply.disabled || sendHeld()) return;
  const isEmpty = text === '' && chosenFiles(page.current).length === 0;
  if (isEmpty || (text === '' && readyCard())) {
    readyCard()?.submit();
    return;
  }
  const card = touchedCard(); // what was tapped goes along
  if (card) card.submit();
  else if (post(page.current, text, true)) clearReply(page.current);
}
