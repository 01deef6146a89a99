// card.js draws a question with its options as buttons.
import { h, markup, inline } from './markup.js';
import { composeReply } from './question.js';

// questionCard returns {node, update, submit, ready}. reply(text) is called with what was chosen. update({open, said, draft})
// tells how the question stands: open for a tap or not, what was replied, and what the text in the reply box would choose, a
// Set for each section.
export function questionCard(question, reply) {
  const { sections } = question;
  const direct = sections.length === 1 && !sections[0].multi; // a tap is the answer
  const choices = sections.map(() => new Set()); // by taps
  const buttons = []; // {node, i, n}
  let open = true;
  let said = [];
  let draft = [];

  const send = h('button', { type: 'button', class: 'send-choices', 'data-send-choices': true, onclick: submit }, 'Send');
  const node = h('div', { class: 'question' },
    ...sections.map((section, i) => h('section', { 'data-question': i + 1 },
      h('h2', {},
        sections.length > 1 ? h('span', { class: 'count' }, `${i + 1} of ${sections.length}`) : null,
        ...inline(section.header)),
      h('div', { class: 'ask' }, ...markup(section.text, true)),
      section.options.length > 0 ? h('p', { class: 'hint' }, hint(section)) : null,
      h('div', { class: 'options', role: 'group', 'aria-label': section.header || 'Options' },
        ...section.options.map((option, k) => optionButton(section, option, i, k + 1))),
    )),
    !direct && sections.some((s) => s.options.length > 0) ? send : null);

  function hint(section) {
    if (section.multi) return 'Choose one or more';
    return direct ? 'Tap one, or write your own answer below' : 'Choose one';
  }

  function optionButton(section, option, i, n) {
    const b = h('button', {
      type: 'button', class: section.multi ? 'option multi' : 'option', 'data-option': n, 'aria-pressed': 'false',
      onclick: () => pick(section, i, n),
    },
    h('span', { class: 'number', 'aria-hidden': 'true' }, String(n)),
    h('span', { class: 'words' },
      h('span', { class: 'label' }, ...inline(option.label)),
      option.description ? h('span', { class: 'description' }, ...inline(option.description)) : null));
    buttons.push({ node: b, i, n });
    return b;
  }

  function pick(section, i, n) {
    if (!open) return;
    if (section.multi) {
      if (!choices[i].delete(n)) choices[i].add(n);
    } else {
      choices[i] = new Set([n]);
    }
    show();
    if (direct) submit();
  }

  // chosen is what was tapped, else what was replied.
  const chosen = () => sections.map((_, i) => (open && choices[i].size > 0 ? choices[i] : said[i] ?? new Set()));

  function show() {
    const shown = chosen().map((set, i) => draft[i] ?? set);
    for (const { node: b, i, n } of buttons) {
      b.disabled = !open;
      b.setAttribute('aria-pressed', String(shown[i].has(n)));
    }
    const left = chosen().filter((c) => c.size === 0).length;
    send.disabled = !open || left > 0;
    send.textContent = sections.length > 1 ? (left > 0 ? `Send answers (${left} to go)` : 'Send answers') : 'Send choice';
    send.hidden = !open;
  }

  function submit() {
    const text = open && composeReply(question, chosen());
    if (text) reply(text);
  }

  function update(now) {
    ({ open, said, draft } = now);
    node.dataset.state = open ? 'open' : 'over';
    show();
  }

  show();
  return { node, update, submit, ready: () => open && !direct && composeReply(question, chosen()) !== null };
}

// labels is what the numbers of a reply stand for, for a person who forgot.
export function labels(question, said) {
  const words = said.map((set, i) => [...set ?? []].map((n) => question.sections[i].options[n - 1].label).join(', '));
  return words.filter(Boolean).join('\n');
}
