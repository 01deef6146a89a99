// card.js draws a question with its options as buttons, and a decision with its own.
import { h, markup, inline } from './markup.js';
import { composeReply } from './question.js';
import { readDecision, meaning, asReply } from './decision.js';

// questionCard returns {node, update, submit, ready}. reply(text, chosen) is called with what was chosen, a Set for each section.
// update({open, said, draft})
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
    if (text) reply(text, chosen());
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

// visible shows the characters that a person would not see, or that change the order of others.
const visible = (text) => text.replace(/[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[^\P{Cc}\n\t]/gu,
  (c) => `‹U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}›`);

// decisionCard returns {node, update} for a permission, a plan or the next instruction. decide(text) is called with the reply of
// a button, and with true where it has taken the words of the reply box. update({state, draft, asked}) tells how it stands, what
// the reply box holds, and whether the rest of what is shown has come.
export function decisionCard(decision, decide) {
  const { kind } = decision;
  let words = ''; // of the reply box: why not, or what to change
  let denial = 'no';

  const button = (name, text, press) =>
    h('button', { type: 'button', class: 'decide', 'data-decide': text, onclick: press }, name);
  const plain = (name, text) => button(name, text, () => decide(text, false));
  const no = button(kind === 'plan' ? 'Send back' : 'Deny', 'no', () => decide(denial, words !== ''));
  const more = decision.more ? plain(`Show ${decision.more}`, 'more') : null;
  const allow = decision.only ? null : plain('Allow', 'yes');
  const always = decision.always === null ? null : plain('Always', 'always');
  const approve = decision.only ? null : plain('Approve', 'yes');
  const buttons = kind === 'plan' ? [approve, decision.auto ? plain('Approve, auto', 'yes, auto') : null, no] : [allow, no, always];
  const hint = h('p', { class: 'hint', role: 'status' });
  const actions = h('div', { class: 'decisions' }, more,
    kind === 'next' ? null : h('div', { class: 'buttons', role: 'group', 'aria-label': 'Decision' }, ...buttons), hint);
  const node = h('div', { class: 'question decision', 'data-kind': kind },
    h('h2', {}, kind === 'next' ? 'Waiting for you' : kind === 'plan' ? 'Plan' : visible(decision.tool) || 'Permission'),
    decision.about ? h('p', { class: 'about' }, visible(decision.about)) : null,
    h('div', { class: 'ask' }, ...markup(decision.text)),
    decision.shown ? block(decision) : null,
    decision.folder ? h('p', { class: 'folder' }, 'in ', h('bdi', {}, visible(decision.folder))) : null,
    decision.always ? h('p', { class: 'always' }, '“Always” allows: ', h('bdi', {}, visible(decision.always))) : null);

  function explain(state, draft) {
    if (state === 'replied') return 'Sent. Claude has not confirmed it yet.';
    if (kind === 'next') return 'Write it in the box below';
    if (draft !== '') return `Send below means: ${meaning(decision, asReply(decision, draft))}`;
    if (kind === 'plan') return 'To send it back, write what to change in the box below';
    return (decision.only ? 'Only the terminal can allow this. ' : '') + 'To deny it with a reason, write that in the box below';
  }

  function update({ state, draft, asked }) {
    const said = draft === '' ? null : readDecision(decision, draft);
    words = said ? said.reason ?? '' : draft;
    denial = words === '' ? 'no' : said ? draft : `no, ${words}`;
    node.dataset.state = state;
    for (const b of actions.querySelectorAll('button')) b.disabled = state !== 'open';
    if (kind === 'plan' && words === '') no.disabled = true;
    if (more) more.hidden = asked;
    const told = explain(state, draft);
    if (hint.textContent !== told) hint.textContent = told;
    if (!['open', 'replied'].includes(state)) actions.remove();
    else if (!actions.isConnected) node.append(actions);
  }

  return { node, update };
}

// block is what a tool would do. The lines of a diff have a colour beside their sign, and no line hides its end.
function block({ tool, shown }) {
  const diff = /Edit|Write/.test(tool);
  const rows = visible(shown).split('\n').map((line) => {
    const sign = diff ? { '+': 'added', '-': 'removed' }[line[0]] : null;
    return h('span', { class: sign ? `line ${sign}` : 'line' }, line === '' ? '\n' : line);
  });
  return h('pre', { class: 'shown', dir: 'ltr' }, h('code', {}, ...rows));
}
