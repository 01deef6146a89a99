// card.js draws a question with its options as buttons.
import { h, markup, inline } from './markup.js';
import { composeReply, readReply } from './question.js';

// questionCard returns {node, update, submit, ready}. reply(text) is called with
// what was chosen; update(state, text) is told how the question stands and what
// was replied to it last.
export function questionCard(question, reply) {
  const { sections } = question;
  const direct = sections.length === 1 && !sections[0].multi; // a tap is the answer
  const choices = sections.map(() => new Set());
  const buttons = []; // {node, i, n}
  let open = true;

  const send = h('button', { type: 'button', class: 'send-choices', 'data-send-choices': true, onclick: submit }, 'Send');
  const node = h('div', { class: 'question' },
    ...sections.map((section, i) => h('section', { 'data-question': i + 1 },
      h('h2', {},
        sections.length > 1 ? h('span', { class: 'count' }, `${i + 1} of ${sections.length}`) : null,
        section.header),
      h('div', { class: 'ask' }, ...markup(section.text)),
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
    show(choices);
    if (direct) submit();
  }

  function show(chosen) {
    for (const { node: b, i, n } of buttons) b.setAttribute('aria-pressed', String(chosen[i].has(n)));
    const missing = choices.filter((c) => c.size === 0).length;
    send.disabled = !open || missing > 0;
    send.textContent = sections.length > 1 ? (missing > 0 ? `Send answers (${missing} to go)` : 'Send answers') : 'Send choice';
    send.hidden = !open;
  }

  function submit() {
    const text = open && composeReply(question, choices);
    if (text) reply(text);
  }

  function update(state, replied) {
    open = state === 'open';
    node.dataset.state = state;
    for (const { node: b } of buttons) b.disabled = !open;
    const said = replied == null ? null : readReply(question, replied);
    if (open) show(choices);
    else show(said ?? sections.map(() => new Set()));
  }

  update('open');
  return { node, update, submit, ready: () => open && !direct && composeReply(question, choices) !== null };
}

// labels is what the numbers of a reply stand for, for a person who forgot.
export function labels(question, text) {
  const said = readReply(question, text);
  if (!said) return '';
  return said.map((set, i) => [...set].map((n) => question.sections[i].options[n - 1].label).join(', ')).join('\n');
}
