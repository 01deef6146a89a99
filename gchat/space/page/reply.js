// reply.js says what a typed reply chooses. It reads replies as gchat/reply.go does, which decides; a test compares them.

// readReplies reads what was replied to a question, in order. It returns {each, all, done}: one list of sections for each
// reply, one for all of them together, and whether every section has an answer; a further reply then begins anew. A
// section is the Set of the options' numbers that were chosen, empty for the person's own words, or undefined without an
// answer; its "words" are the text that says so. A reply with a number that no option has says nothing.
export function readReplies(question, texts) {
  const sections = question.sections.map(choices);
  let all = [];
  const each = texts.map((text) => {
    const before = missing(sections, all).length === 0 ? [] : all;
    if (declines(sections, before, text.trim())) return [];
    const said = readReply(sections, text.trim(), before);
    if (said === null) return [];
    all = sections.map((_, i) => said[i] ?? before[i]);
    return said;
  });
  return { each, all, done: missing(sections, all).length === 0 };
}

// readDraft is what a text would say that is not sent yet, as a list of sections; "intro" is what
// stands before them, and "declined" says that without a tap it answers nothing. A number that no option has is words in it: nothing of the text is left out.
export function readDraft(question, texts, text) {
  const { all, done } = readReplies(question, texts);
  const sections = question.sections.map(choices);
  const before = done ? [] : all;
  const declined = declines(sections, before, text.trim());
  return Object.assign(readReply(sections, text.trim(), before, true), { declined });
}

const missing = (sections, answers) => sections.map((_, i) => i).filter((i) => !answers[i]);

const chatForm =
  /^(?:(chat[\s\p{Z}]+about[\s\p{Z}]+this)(?![\w])|(chat)(?:[\t\p{Z}]*[:：\n]|[\t\p{Z}]+[-–—]{1,3}[\t\p{Z}]))/iu;
const ourCommand = /^\/(?:screen|status|stop|mute|ask|help|sessions|new)(?:[\s\p{Z}]|$)/iu;

// declines says whether a reply answers nothing: it turns the question down, asks what to write, or is a command.
function declines(sections, before, text) {
  const form = chatForm.exec(text);
  const word = form ? form[1] ?? form[2] : text;
  const said = /^(?:chat|chat about this|skip|cancel|help|)$/i.test(normal(word.replace(/[.!?]+$/, '')));
  if (text === '' || !said && !ourCommand.test(text)) return false;
  return !missing(sections, before).some((i) => sections[i].choice(word));
}

// offersDecline says whether a word turns a question down, and is no option of it.
export const offersDecline = (question, word) => declines(question.sections.map(choices), [], word);

// readReply returns null where a number has no option, unless that is words.
function readReply(sections, text, before, numbersAreWords = false) {
  const found = parts(sections, text, missing(sections, before));
  const said = Object.assign([], { intro: found.intro ?? '' });
  for (const part of found) {
    if (part.text.trim() === '') continue;
    const picked = sections[part.section].choice(part.text);
    const known = picked?.every((n) => sections[part.section].has(n));
    if (picked && !known && !numbersAreWords) return null;
    said[part.section] = Object.assign(new Set(known ? picked : []), { words: sections.length > 1 ? part.text : text });
  }
  return said;
}

const otherPrefix = /^other[\s\p{Z}]*[:：]/iu;
const otherInList = /[\s\p{Z},;，；、]+(?:and[\s\p{Z}]+)?other[\s\p{Z}]*[:：]/iu;
const remarkDash = /[\t\p{Z}]+[-–—]{1,3}[\t\p{Z}]+/gu;
const listSeparator = /[\s\p{Z},;，；、\u20E3]+(?:(?:and|&|\+)[\s\p{Z}]+)?/giu;
const questionMark = // "Q2:"; the first group is missing inside a line
  /(?:(^)|[\t\p{Z},;，；])[\t\p{Z}]*[QqＱｑ][\t\p{Z}]*([0-9０-９])[\t\p{Z}]*(?:[:：=)）]|[.–—-][\t\p{Z}])/gmu;

// parts says which text of the reply belongs to which section.
function parts(sections, text, open) {
  const whole = open.length > 0 ? [{ section: open[0], text }] : [];
  if (whole.length > 0 && (sections[open[0]].label(text) > 0 || otherPrefix.test(text))) return whole;
  return named(sections, text) ?? inOrder(sections, text, open, /\n/) ?? inOrder(sections, text, open, /[;；]/) ?? whole;
}

// named cuts "Q1: 2 ⏎ Q2: text" and "Q1: 2, Q2: 1".
function named(sections, text) {
  const found = [];
  let from = 0;
  let intro = '';
  for (const m of text.matchAll(questionMark)) {
    const section = Number(plainDigits(m[2])) - 1;
    if (section < 0 || section >= sections.length) continue;
    const last = found.at(-1);
    const before = text.slice(from, m.index).trim();
    if (m[1] === undefined && !(last && sections[last.section].pick(before, true))) continue;
    if (last) last.text = before;
    else intro = before;
    from = m.index + m[0].length;
    found.push({ section, text: text.slice(from).trim() });
  }
  if (found.some((part) => part.text !== '')) return Object.assign(found, { intro }); // a remark on the first answer
  return intro === '' && sections.length > 1 && found.length > 0 ? found : null;
}

// inOrder cuts the reply into a choice for each section, or for each that is open.
function inOrder(sections, text, open, separator) {
  const texts = [];
  for (let rest = text; rest !== '';) {
    const at = otherPrefix.test(rest) ? -1 : rest.search(separator);
    texts.push((at < 0 ? rest : rest.slice(0, at)).trim());
    rest = at < 0 ? '' : rest.slice(at + 1).trim();
    if (texts.length > sections.length) return null;
  }
  const all = texts.length === sections.length;
  if (texts.length < 2) return null;
  if (!all && (texts.length > open.length || (separator.source === '\\n' && texts.length < open.length))) return null;
  const found = texts.map((part, i) => ({ section: all ? i : open[i], text: part }));
  return found.every((part) => sections[part.section].choice(part.text) || otherPrefix.test(part.text)) ? found : null;
}

// saidAlone are words that choose no label which begins with them.
const saidAlone = new Set(('all and any both but cool fine for good great how let maybe nah new nice none nope not now off ' +
  'okay old one out right stop sure thanks that the this try two use wait well what who why yeah yep yes you yup').split(' '));
const leastBeginning = 3; // letters

// choices reads the answer to one section.
function choices({ options, multi }) {
  const labels = options.map((o) => normal(o.label));
  const has = (n) => n >= 1 && n <= labels.length && labels[n - 1] !== '';

  // choice is the numbers that the text chooses; null when it is no choice.
  function choice(text) {
    const whole = pick(text, true);
    if (whole) return whole;
    const other = otherInList.exec(text);
    const before = other && multi && pick(text.slice(0, other.index), true);
    if (before) return before;
    const dashes = [...text.matchAll(remarkDash)].slice(0, 32).reverse();
    for (const dash of dashes) {
      const picked = pick(text.slice(0, dash.index), false);
      if (picked) return picked;
    }
    return null;
  }

  function pick(text, beginnings) {
    text = text.trim();
    if (options.length === 0 || text === '') return null;
    const n = one(text, beginnings);
    if (n >= 0) return [n];
    return multi ? list(text, beginnings) : null;
  }

  // list reads "1,3" and "auth, search and 2": each time the longest start of the text that is one option.
  function list(text, beginnings) {
    const picked = [];
    while (text !== '') {
      const ends = [];
      for (const m of text.matchAll(listSeparator)) {
        if (ends.push([m.index, m.index + m[0].length]) === 16) break;
      }
      if (ends.length < 16) ends.push([text.length, text.length]);
      const end = ends.findLast(([stop]) => one(text.slice(0, stop), beginnings) >= 0);
      if (!end) return null;
      picked.push(one(text.slice(0, end[0]), beginnings));
      text = text.slice(end[1]);
    }
    return picked;
  }

  // one is the number of the one option that the text names, or -1. A number needs no option: "9" is 9.
  function one(text, beginnings) {
    const { n, bare } = number(text);
    if (bare && has(n)) return n;
    const named = label(text);
    if (named > 0) return named;
    return n < 0 && beginnings ? beginning(text) : n;
  }

  function label(text) {
    const wanted = normal(text);
    if (wanted === '') return 0;
    const at = labels.indexOf(wanted);
    return (at >= 0 ? at : labels.indexOf(wanted.replace(/[!.]+$/, ''))) + 1;
  }

  // beginning is the number of the only label that begins with the text, or -1.
  function beginning(text) {
    const wanted = normal(text);
    if ((wanted.match(/[\p{L}\p{Nd}]/gu) ?? []).length < leastBeginning || saidAlone.has(wanted)) return -1;
    const found = labels.filter((l) => l.startsWith(wanted));
    return found.length > 0 && found.every((l) => l === found[0]) ? labels.indexOf(found[0]) + 1 : -1;
  }

  return { choice, pick, label, has };
}

// number reads "2", "2.", "(2)", "#2", "option 2", "２", "2️⃣"; -1 for anything else. Bare is a number without decoration.
function number(text) {
  const plain = plainDigits(text).trim();
  const m = text.length > 200 ? null : /^(?:options?\s*)?#?\s*\(?\s*(\d{1,9})\s*[.)]?$/i.exec(plain);
  return m ? { n: Number(m[1]), bare: plain === m[1] } : { n: -1, bare: false };
}

// plainDigits is full-width ASCII as ASCII; a keycap emoji ends with a space.
function plainDigits(text) {
  return text.replace(/[！-～]/g, (c) => String.fromCharCode(c.charCodeAt(0) - 0xfee0))
    .replaceAll('。', '.').replaceAll('\uFE0F', '').replace(/[\u20E3\p{Zs}]/gu, ' ');
}

// normal is text as labels are compared: without case, double spaces, what is invisible, and what phones do to quotes and dashes.
function normal(text) {
  return text.replace(/[^\P{C}\s]|[\u00AD\uFE00-\uFE0F]/gu, '').trim().replace(/\s+/g, ' ')
    .replace(/[‘’‚‛′`]/g, "'").replace(/[“”„‟″]/g, '"').replace(/[‐‑‒–—―−]/g, '-').replaceAll('‹', '<')
    .replace(/./gu, (c) => (c.toUpperCase().length === c.length ? c.toUpperCase() : c).toLowerCase());
}
