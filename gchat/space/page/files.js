// files.js attaches files to what a person writes, and shows the files of messages.
import { h } from './markup.js';
import { keyInUse, request } from './key.js';
import { failureFrom } from './failure.js';
import { page, redraw } from './messages.js';

const $ = (id) => document.getElementById(id);
const maxFiles = 10; // of a message, as the server has it
const maxBytes = 10 * 1024 * 1024; // of a file, as the server has it
const maxOpen = 40; // fetched files that are kept in memory
// A browser runs nothing in these. No other type is ever shown.
const pictures = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

const chosen = new Map(); // thread name → [{file, name, type, url, id}]
const opened = new Map(); // file id → promise of {url, type}

// ---- choosing

// chosenFiles are the files that go with the next message of a thread.
export const chosenFiles = (thread) => chosen.get(thread) ?? [];

// takeChosenFiles returns them, and empties the list.
export function takeChosenFiles(thread) {
  const files = chosenFiles(thread);
  chosen.delete(thread);
  showProblem('');
  return files;
}

function choose(list) {
  const files = [...chosenFiles(page.current)];
  let problem = '';
  for (const file of list) {
    const name = file.name || 'file';
    if (file.size > maxBytes) problem = `${name} is too large: at most 10 MB`;
    else if (file.size === 0) problem = `${name} is empty`;
    else if (files.length === maxFiles) problem = `Too many: at most ${maxFiles} files in a message`;
    else {
      const url = pictures.includes(file.type) ? URL.createObjectURL(file) : '';
      files.push({ file, name, type: file.type, url });
    }
  }
  chosen.set(page.current, files);
  showProblem(problem);
  redraw();
}

function drop(entry) {
  chosen.set(page.current, chosenFiles(page.current).filter((other) => other !== entry));
  if (entry.url) URL.revokeObjectURL(entry.url);
  showProblem('');
  redraw();
  $('attach').focus();
}

function showProblem(words) {
  $('files-problem').textContent = words;
  $('files-problem').hidden = words === '';
}

let drawnFiles = []; // that are in the list

// drawChosenFiles shows the files that go with the next message, each with a button that removes it.
export function drawChosenFiles(isOpen) {
  $('attach').hidden = !isOpen;
  $('take-photo').hidden = !isOpen || !matchMedia('(pointer: coarse)').matches;
  const files = isOpen ? chosenFiles(page.current) : [];
  $('chosen-files').hidden = files.length === 0;
  if (files.length === drawnFiles.length && files.every((f, i) => f === drawnFiles[i])) return;
  drawnFiles = files;
  $('chosen-files').replaceChildren(...files.map((entry) => h('li', {},
    entry.url ? h('img', { src: entry.url, alt: '' }) : null,
    h('span', { dir: 'auto' }, entry.name),
    h('button', {
      type: 'button', class: 'remove', 'aria-label': `Remove ${entry.name}`,
      onclick: () => drop(entry),
    }, '×'))));
}

// listenForFiles begins to take files from the buttons, the clipboard and the mouse.
export function listenForFiles() {
  for (const [button, input] of [['attach', 'file-input'], ['take-photo', 'photo-input']]) {
    $(button).addEventListener('click', () => $(input).click());
    $(input).addEventListener('change', () => {
      choose($(input).files);
      $(input).value = ''; // the same file may be chosen again
    });
  }
  $('reply').addEventListener('paste', (e) => {
    if (e.clipboardData.files.length === 0) return;
    if (e.clipboardData.getData('text/plain') === '') e.preventDefault();
    choose(e.clipboardData.files);
  });
  const hasFiles = (e) => e.dataTransfer?.types.includes('Files');
  addEventListener('dragover', (e) => {
    if (hasFiles(e)) e.preventDefault(); // else the browser opens the file in place of the page
  });
  addEventListener('drop', (e) => {
    if (!hasFiles(e)) return;
    e.preventDefault();
    if (!$('thread').hidden && !$('attach').hidden) choose(e.dataTransfer.files);
  });
}

// ---- sending

// uploadFiles uploads the files of a message that are not uploaded yet. showProgress gets how many
// hundredths of all are sent.
export async function uploadFiles(files, showProgress) {
  const total = files.reduce((sum, { file }) => sum + file.size, 0);
  let before = 0;
  for (const entry of files) {
    const show = (sent) => showProgress(Math.floor((100 * (before + sent)) / total));
    entry.id ??= await upload(entry.file, show);
    before += entry.file.size;
  }
}

// upload sends a file, and returns its id. fetch does not say how much is sent, so it is not used.
async function upload(file, showSent) {
  const key = await keyInUse();
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest();
    const fail = () => reject(new Error('not uploaded'));
    sending.open('POST', '/page/files');
    sending.setRequestHeader('Gchat-Page-Key', key);
    sending.setRequestHeader('Content-Type', 'application/octet-stream');
    sending.responseType = 'json';
    sending.timeout = 5 * 60 * 1000;
    sending.upload.onprogress = (e) => showSent(e.loaded);
    sending.onerror = fail;
    sending.ontimeout = fail;
    sending.onload = () => {
      if (sending.status === 200) resolve(sending.response.id);
      else reject(failureFrom(sending.status, sending.response));
    };
    sending.send(file);
  });
}

// forgetUploads has the files of a message uploaded anew: the server has them no longer.
export function forgetUploads(files) {
  for (const entry of files) delete entry.id;
}

// textOfTap returns a tap on a card as words, since files go only with words; null if it has none.
export function textOfTap(choice, inputs) {
  const own = (inputs.w1 ?? [])[0]?.trim() ?? '';
  if (/^\d+$/.test(choice)) return own ? `${choice} - ${own}` : choice;
  if (choice === 'deny' || choice === 'back') return own ? `no, ${own}` : 'no';
  if (choice === 'chat') return own ? `chat: ${own}` : 'chat';
  if (choice !== 'send') return null;
  const numbers = new Set(Object.keys(inputs).map((name) => /^[qw](\d+)$/.exec(name)?.[1]));
  const answers = [...numbers].sort((a, b) => a - b).map((n) => {
    const words = (inputs[`w${n}`] ?? [])[0]?.trim() ?? '';
    const answer = [(inputs[`q${n}`] ?? []).join(','), words].filter(Boolean).join(' - ');
    return [n, answer];
  }).filter(([, answer]) => answer);
  if (answers.length === 1 && answers[0][0] === '1') return answers[0][1];
  return answers.map(([n, answer]) => `Q${n}: ${answer}`).join('\n') || null;
}

// ---- showing

// messageFiles returns the files of a message of the server.
export function messageFiles({ attachment = [] }) {
  return attachment.map(({ contentName, contentType, attachmentDataRef }) => ({
    name: contentName || 'file', type: contentType, id: attachmentDataRef?.resourceName,
  }));
}

// drawFiles draws the files of a message: a picture, or a button that saves the file.
export function drawFiles(files = []) {
  if (files.length === 0) return null;
  return h('ul', { class: 'files' }, ...files.map((entry) => h('li', {},
    pictures.includes(entry.type) ? drawPicture(entry) : drawDownload(entry))));
}

function drawPicture(entry) {
  const picture = h('img', { alt: entry.name });
  const link = h('a', { target: '_blank', rel: 'noopener' }, picture);
  open(entry).then(({ url, type }) => {
    if (!pictures.includes(type)) throw new Error('not a picture');
    picture.src = url;
    link.href = url;
  }).catch(() => link.replaceWith(h('span', { dir: 'auto' }, `${entry.name} (no longer kept)`)));
  return link;
}

function drawDownload(entry) {
  const save = async () => {
    try {
      const { url } = await open(entry);
      h('a', { href: url, download: entry.name }).click();
    } catch {
      button.disabled = true;
      button.append(' (no longer kept)');
    }
  };
  const button = h('button', { type: 'button', class: 'small', dir: 'auto', onclick: save }, entry.name);
  return button;
}

// open fetches a file with the key, which no address may hold. The type is the server's: it never
// is one that could run in this page.
function open({ id, url, type }) {
  if (url) return Promise.resolve({ url, type });
  if (!opened.has(id)) {
    const opening = request(`/page/files/${encodeURIComponent(id)}`).then(async (answer) => {
      if (!answer.ok) throw new Error(answer.statusText);
      const served = answer.headers.get('Content-Type');
      const safe = pictures.includes(served) ? served : 'application/octet-stream';
      const content = new Blob([await answer.arrayBuffer()], { type: safe });
      return { url: URL.createObjectURL(content), type: safe };
    });
    opened.set(id, opening);
    opening.catch(() => opened.delete(id));
  }
  if (opened.size > maxOpen) {
    const [oldest, opening] = opened.entries().next().value;
    opened.delete(oldest);
    opening.then((old) => URL.revokeObjectURL(old.url));
  }
  return opened.get(id);
}
