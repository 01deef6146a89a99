// new_session.js has the form that starts a session. What was written stays until it has started.
import { h } from './markup.js';
import { readJSON } from './key.js';
import { reasonOf, withCapital } from './failure.js';
import { threads } from './messages.js';

const $ = (id) => document.getElementById(id);
const manyProjects = 8; // more have a search
const askPause = 500; // ms between two questions whether the session has a thread
const longestStart = 60000; // ms

let projects = [];
let isStarting = false;

// offerNew asks the server whether sessions can be started here, and in which projects.
export async function offerNew() {
  if (document.hidden) return;
  try {
    const offered = await readJSON('/page/projects');
    $('new').hidden = !offered.start;
    projects = offered.projects ?? [];
  } catch { // it stays as it was
    return;
  }
  const hasMany = projects.length > manyProjects;
  $('new-search').hidden = !hasMany;
  $('new-search-label').hidden = !hasMany;
  listProjects();
}

// listProjects lists the projects whose names have the text of the search.
function listProjects() {
  const wanted = $('new-search').value.trim().toLowerCase();
  const found = projects.filter((name) => name.toLowerCase().includes(wanted));
  const before = $('new-project').value;
  const none = h('option', { value: '' }, found.length > 0 ? 'Choose one' : 'No project has this name');
  $('new-project').replaceChildren(none, ...found.map((name) => h('option', { value: name }, name)));
  $('new-project').value = found.includes(before) ? before : found.length === 1 ? found[0] : '';
}

// listenToNew begins to listen to the form. start(text) posts the command, and returns {name,
// thread}; open(thread) leads to a thread.
export function listenToNew({ start, open }) {
  $('begin').addEventListener('click', () => show(true));
  $('new-cancel').addEventListener('click', () => show(false));
  $('new-search').addEventListener('input', listProjects);
  $('new-form').addEventListener('input', clearProblems);
  $('new-form').addEventListener('submit', (e) => {
    e.preventDefault();
    if (!isStarting && check()) startSession(start, open);
  });
  document.addEventListener('visibilitychange', offerNew);
  offerNew();
}

function show(isOpen) {
  $('new-form').hidden = !isOpen;
  $('begin').hidden = isOpen;
  if (!isOpen) $('begin').focus();
  else if ($('new-search').hidden) $('new-project').focus();
  else $('new-search').focus();
}

function clearProblems() {
  for (const id of ['new-project', 'new-words']) {
    $(id).removeAttribute('aria-invalid');
    $(`${id}-problem`).textContent = '';
  }
  $('new-failed').hidden = true;
}

// check says beside each field what is missing.
function check() {
  clearProblems();
  const missing = [];
  if (!$('new-project').value) missing.push(['new-project', 'Choose a project.']);
  if (!$('new-words').value.trim()) missing.push(['new-words', 'Write what to do.']);
  for (const [id, problem] of missing) {
    $(id).setAttribute('aria-invalid', 'true');
    $(`${id}-problem`).textContent = problem;
  }
  if (missing.length > 0) $(missing[0][0]).focus();
  return missing.length === 0;
}

async function startSession(start, open) {
  const project = $('new-project').value;
  setStarting(`Starting in ${project}…`);
  try {
    const { name, thread } = await start(`/new ${project} ${$('new-words').value.trim()}`);
    const started = await waitForThread(name, thread);
    setStarting('');
    const isWanted = !$('new-form').hidden; // and not closed meanwhile
    $('new-form').reset();
    show(false);
    if (isWanted) open(started ?? thread);
  } catch (error) {
    setStarting('');
    $('new-failed').textContent = withCapital(error instanceof Refused ? error.message : `Not sent: ${reasonOf(error)}.`);
    $('new-failed').hidden = false;
    $('new-words').focus();
  }
}

function setStarting(status) {
  isStarting = status !== '';
  $('new-status').textContent = status;
  $('new-form').setAttribute('aria-busy', String(isStarting));
  for (const id of ['new-start', 'new-project', 'new-words', 'new-search']) $(id).disabled = isStarting;
}

// Refused says why gchat-hooks did not start the session.
class Refused extends Error {}

// waitForThread returns the thread of the session that a message started, null if it takes too
// long. It throws if the message's own thread says that the session is not started.
async function waitForThread(message, thread) {
  for (const end = Date.now() + longestStart; Date.now() < end;) {
    const refusal = threads.get(thread)?.messages.find((m) => !m.human);
    if (refusal) throw new Refused(refusal.text.replace(/^\[[^\]]*\] /, ''));
    const started = await readJSON('/page/started?message=' + encodeURIComponent(message)).catch(() => ({}));
    if (started.thread) return started.thread;
    await new Promise((done) => setTimeout(done, askPause));
  }
  return null;
}
