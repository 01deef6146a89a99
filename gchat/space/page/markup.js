// markup.js turns Chat's own text syntax into nodes. Text becomes text nodes only;
// nothing a message says is ever read as HTML.

// h makes an element: h('a', {href, class: 'x', hidden: true}, child, …).
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value == null) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.filter((c) => c != null && c !== ''));
  return node;
}

// markup is the nodes of a message's text: code blocks, and lines between them. A question is Claude's own Markdown, which has
// headings, and languages of code blocks.
export function markup(text, claude = false) {
  return text.split(/```\n?([\s\S]*?)\n?```\n?/).flatMap((part, i) => {
    if (i % 2 === 1) return [h('pre', {}, h('code', {}, claude ? part.replace(/^[\w+#.-]+\n/, '') : part))];
    return part === '' ? [] : [h('div', { class: 'prose' }, ...lines(part.replace(/\n$/, ''), claude))];
  });
}

function lines(text, claude) {
  return text.split('\n').map((line) => {
    const heading = claude && /^#{1,6} +(.*)$/.exec(line);
    if (heading) return h('p', {}, h('strong', {}, ...inline(heading[1])));
    const bullet = /^(\s*)[*•-] (.*)$/.exec(line);
    if (bullet) {
      const deep = bullet[1].length >= 4;
      return h('p', { class: deep ? 'bullet deep' : 'bullet' }, ...inline(bullet[2]));
    }
    if (line.startsWith('> ')) return h('p', { class: 'quote' }, ...inline(line.slice(2)));
    return h('p', {}, ...(line === '' ? [h('br')] : inline(line)));
  });
}

const spans = new RegExp([
  '`([^`\\n]+)`', // 1 code
  '<(https?:[^|>\\s]+)(?:\\|([^>\\n]*))?>', // 2 address, 3 words
  '<users/([^>\\n]*)>', // 4 mention
  '(https?:\\/\\/[^\\s<>"]*[^\\s<>".,;:!?)\\]\'*_~])', // 5 bare address
  '(?<![\\w*])\\*(?=\\S)([^*\\n]*[^*\\s])\\*(?![\\w*])', // 6 bold
  // 7 italic: a word in a path or a name keeps its underscores, such as src/_lib_/a or _id_.py
  '(?<![^\\s([{"\'*~])_(?=\\S)([^_\\n]*[^_\\s])_(?=[.,;:!?]*(?:[\\s)\\]}"\'*~]|$))',
  '(?<![\\w~])~{1,2}(?=[^\\s~])([^~\\n]*[^~\\s])~{1,2}(?![\\w~])', // 8 struck
  '(?<![\\w*])\\*\\*(?=[^\\s*])([^\\n]*?[^*\\s])\\*\\*(?![\\w*])', // 9 bold in Claude's Markdown
].join('|'), 'g');

export function inline(text) {
  const out = [];
  let done = 0;
  for (const m of text.matchAll(spans)) {
    out.push(text.slice(done, m.index), span(m));
    done = m.index + m[0].length;
  }
  out.push(text.slice(done));
  return out.filter((n) => n !== '');
}

function span(m) {
  if (m[1] != null) return h('code', {}, m[1]);
  if (m[2] != null) return link(m[2], m[3] || m[2]);
  if (m[4] != null) return h('span', { class: 'mention' }, '@' + m[4]);
  if (m[5] != null) return link(m[5], m[5]);
  if (m[6] != null || m[9] != null) return h('strong', {}, ...inline(m[6] ?? m[9]));
  if (m[7] != null) return h('em', {}, ...inline(m[7]));
  return h('s', {}, ...inline(m[8]));
}

// link opens only http addresses, elsewhere, and shows where it leads on hover.
function link(address, words) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return words;
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return words;
  return h('a', { href: url.href, title: url.href, target: '_blank', rel: 'noopener noreferrer' }, words);
}

// plain is a text in one line, without its markup.
export const plain = (text) => bare(text.replace(/```\n?/g, ' ')).replace(/\s+/g, ' ').trim();

const bare = (text) => text.replace(spans, (...m) => {
  const [, code, address, words, mention, bareAddress, bold, italic, struck, claudesBold] = m;
  if (code != null || bareAddress != null) return code ?? bareAddress;
  if (address != null) return words || address;
  if (mention != null) return '@' + mention;
  return bare(bold ?? italic ?? struck ?? claudesBold);
});
