// key.js keeps what lets this page read and write: the key of the link that gchat-hooks space prints.
// It stands behind the "#", so that no request line, log or referrer holds it. The browser keeps it
// for this origin, with its port, and the page sends it as a header. A cookie would go to every port
// of this host.

const linkForm = /^#key=([\w-]+)$/;
let linked = inSession((session) => session.getItem('key')) ?? ''; // a link's key that is not kept yet
let inBrowser = ''; // the key that the browser keeps, once it was read
let inTab = false; // the browser does not keep the link's key: it is this tab's alone
let refused = ''; // the key that the server refused last

// takeKey reads the key out of the address, and removes it there and from the tab's history. It says
// whether there was one.
export function takeKey() {
  const found = linkForm.exec(location.hash);
  if (!found) return false;
  history.replaceState(null, '', location.pathname);
  linked = found[1];
  inTab = false;
  refused = '';
  inSession((session) => session.setItem('key', linked)); // a reload now would lose it
  return true;
}
takeKey(); // before anything is asked

// request is fetch with the key. A link's key goes before the kept one, and is kept once the server took it:
// a link with a wrong key changes nothing. Without a key that may be right it asks nothing, and throws.
export async function request(address, options = {}) {
  const key = linked || await keptKey();
  if (!key || key === refused) throw new NoKey();
  const answer = await fetch(address, { ...options, headers: { ...options.headers, 'Gchat-Page-Key': key } });
  if (answer.status === 401) {
    if (key === linked) forgetLinked();
    refused = key;
    return request(address, options); // there may be another one
  }
  if (key === linked && !inTab) await keepKey(key);
  return answer;
}

// keyInUse returns the key for a request that is not made with fetch. It throws like request.
export async function keyInUse() {
  const key = linked || await keptKey();
  if (!key || key === refused) throw new NoKey();
  return key;
}

// readJSON asks for something in ten seconds at most. It throws if that cannot be had.
export async function readJSON(address) {
  const answer = await request(address, { signal: AbortSignal.timeout?.(10000) });
  if (!answer.ok) throw new Error(answer.statusText);
  return answer.json();
}

function forgetLinked() {
  linked = '';
  inSession((session) => session.removeItem('key'));
}

// NoKey says that the page has no key, or one that the server refuses.
export class NoKey extends Error {}

export const onlyInTab = () => inTab;

// wasRefused says whether there was a key that the server refused.
export const wasRefused = () => refused !== '';

// ---- where the key is kept: IndexedDB, which a service worker can read, too

const database = 'gchat-hooks';
const store = 'page';
// inDatabase makes one request to the store, and returns its result.
function inDatabase(mode, ask) {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(database, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(store);
    opening.onerror = () => reject(opening.error);
    opening.onblocked = () => reject(new Error('blocked'));
    opening.onsuccess = () => {
      const opened = opening.result;
      const done = opened.transaction(store, mode);
      const asked = ask(done.objectStore(store));
      done.oncomplete = () => resolve(asked.result);
      done.onabort = () => reject(done.error);
      opened.close(); // once the transaction is over
    };
  });
}

// keep and kept are for what else the page and its service worker keep.
export const keep = (name, value) => inDatabase('readwrite', (values) => values.put(value, name));
export const kept = (name) => inDatabase('readonly', (values) => values.get(name));

export async function keptKey() {
  if (inBrowser && inBrowser !== refused) return inBrowser;
  try {
    inBrowser = await kept('key') ?? '';
  } catch { // some browsers refuse it in a private window
    inBrowser = '';
  }
  return inBrowser;
}

async function keepKey(key) {
  inBrowser = key;
  try {
    await keep('key', key);
  } catch {
    inTab = true;
    return;
  }
  if (key === linked) forgetLinked();
}

// inSession uses what outlives a reload of the tab. A browser may refuse that, too.
function inSession(use) {
  try {
    return use(sessionStorage);
  } catch {
    return null;
  }
}
