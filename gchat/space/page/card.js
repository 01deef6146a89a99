// card.js draws a question with its options as buttons, and a decision with its own.
import { h, markup, inline } from './markup.js';
import { composeReply, remark } from './question.js';
import { offersDecline } from './reply.js';
import { readDecision, meaning } from './decision.js';

// questionCard returns {node, update, submit, message, tapped, ready, clear}. reply(text, tapped)
// is called with the reply, which message() is too, and what was tapped, a Set for each section.
// update({open, said, text, draft}) tells how the question stands: open for a tap or not, what was
// replied, the text in the reply box, and what that would say (as readDraft has it). decline(how) is
// called for the buttons that turn the question down, with what else would be sent.
export function questionCard(question, reply, decline) {
  const { sections } = question;
  const direct = sections.length === 1 && !sections[0].multi; // a tap is the answer
  const choices = sections.map(() => new Set()); // by taps
  const buttons = []; // {node, i, n}
  const hints = sections.map((section) => (section.options.length > 0 ? h('p', { class: 'hint' }) : null));
  const own = sections.map(() => h('p', { class: 'own', dir: 'auto', hidden: true })); // the person's own words
  let open = true;
  let said = [];
  let text = '';
  let draft = [];
  let sent = []; // taps

  const send = h('button', { type: 'button', class: 'send-choices', 'data-send-choices': true, onclick: submit }, 'Send');
  const node = h('div', { class: 'question' },
    ...sections.map((section, i) => h('section', { 'data-question': i + 1 },
      h('h2', {},
        sections.length > 1 ? h('span', { class: 'count' }, `${i + 1} of ${sections.length}`) : null,
        ...inline(section.header)),
      h('div', { class: 'ask' }, ...markup(section.text, true)),
      hints[i],
      h('div', { class: 'options', role: 'group', 'aria-label': section.header || 'Options' },
        ...section.options.flatMap((option, k) => [
          optionButton(section, option, i, k + 1),
          option.preview ? h('pre', { class: 'preview', tabindex: 0, 'aria-label': `Preview of ${k + 1}` },
            h('code', {}, option.preview)) : null,
        ])),
      own[i])),
    !direct && sections.some((s) => s.options.length > 0) ? send : null);
  const declines = h('div', { class: 'buttons', role: 'group', 'aria-label': 'Without an answer' },
    ...[['Chat about this', 'chat'], ['Skip', 'skip']].filter(([name]) => offersDecline(question, name)).map(([name, how]) =>
      h('button', { type: 'button', class: 'decide', 'data-decline': how, onclick: () => open && decline(how, message()) }, name)));
  node.append(declines);

  function hint(section) {
    if (section.multi) return 'Choose one or more';
    if (!direct) return 'Choose one';
    return text ? 'Tap one to send it with your words, or send them alone' : 'Tap one, or write your own answer below';
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

  const tapped = () => open && choices.some((set) => set.size > 0);
  // answers are what was tapped, else what the text in the box would say, else what was replied.
  // What is sent is what is shown. Once the question is not open, it is what was replied, else the taps that were sent.
  const answers = () => sections.map((_, i) => {
    if (open && choices[i].size > 0) return choices[i];
    if (open) return (draft.declined && !tapped() ? undefined : draft[i]) ?? said[i];
    return said[i]?.size > 0 || said[i]?.words ? said[i] : sent[i] ?? said[i];
  });
  const left = () => answers().filter((set) => !set).length;
  const ready = () => open && left() === 0 && (tapped() || text !== '');

  function show() {
    answers().forEach((set, i) => {
      const words = set === choices[i] ? remark(set, draft[i]) : set?.size === 0 ? set.words : '';
      own[i].hidden = !words;
      own[i].textContent = words ? `Your words: ${words}` : '';
    });
    for (const { node: b, i, n } of buttons) {
      b.disabled = !open;
      b.setAttribute('aria-pressed', String(Boolean(answers()[i]?.has(n))));
    }
    sections.forEach((section, i) => hints[i]?.replaceChildren(hint(section)));
    send.disabled = !ready();
    send.textContent = sections.length === 1 ? 'Send choice' : left() > 0 ? `Send answers (${left()} to go)` : 'Send answers';
    send.hidden = declines.hidden = !open;
  }

  const message = () => (tapped() ? composeReply(question, choices, draft) : text);

  function submit() {
    if (!open) return;
    sent = choices.map((set) => new Set(set));
    reply(message(), choices);
  }

  function clear() {
    choices.forEach((set) => set.clear());
  }

  function update(now) {
    ({ open, said, text, draft } = now);
    if (open) sent = []; // they did not arrive, or were not used
    node.dataset.state = open ? 'open' : 'over';
    show();
  }

  show();
  return { node, update, submit, message, tapped, ready, clear };
}

// labels is what the numbers of a reply stand for, for a person who forgot.
export function labels(question, said) {
  const words = said.map((set, i) => [...set ?? []].map((n) => question.sections[i].options[n - 1].label).join(', '));
  return words.filter(Boolean).join('\n');
}

// visible shows the characters that a person would not see, or that change the order of others.
const visible = (text) => text.replace(/[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[^\P{Cc}\n\t]/gu,
  (c) => `‹U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}›`);

// decisionCard returns {node, update, refusal, refuse} for a permission, a plan or the next
// instruction. decide(text) is called with the reply of a button, and with true where it has taken
// the words of the reply box. update({state, draft, asked}) tells how it stands, what the reply box
// holds, and whether the rest of what is shown has come. refusal() names the button that refuses
// with the words in the box; it is "" where there are none.
export function decisionCard(decision, decide) {
  const { kind } = decision;
  let words = ''; // of the reply box: why not, or what to change
  let denial = 'no';

  const button = (name, text, press) =>
    h('button', { type: 'button', class: 'decide', 'data-decide': text, onclick: press }, name);
  const plain = (name, text) => button(name, text, () => decide(text, false));
  const refuse = () => decide(denial, words !== '');
  const no = button('', 'no', refuse);
  const refusing = () => (kind === 'plan' ? 'Send back' : 'Deny') + (words ? ' with these words' : '');
  const more = decision.more ? plain(`Show ${decision.more}`, 'more') : null;
  const allow = decision.only ? null : plain('Allow', 'yes');
  const always = decision.always === null ? null : plain('Always', 'always');
  const approve = decision.only ? null : plain('Approve', 'yes');
  const buttons = kind === 'plan' ? [approve, decision.auto ? plain('Approve, accept edits', 'yes, accept edits') : null, no] : [allow, no, always];
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
    if (draft.startsWith('/')) return 'Send below means: a command';
    if (draft !== '') {
      const clear = meaning(decision, draft);
      return clear ? `Send below means: ${clear}` : `Send below decides nothing: write yes or no, or tap “${refusing()}”`;
    }
    if (kind === 'plan') return 'To send it back, write what to change in the box below';
    return (decision.only ? 'Only the terminal can allow this. ' : '') + 'To deny it with a reason, write that in the box below';
  }

  function update({ state, draft, asked }) {
    const said = draft === '' ? null : readDecision(decision, draft);
    words = said ? said.reason ?? '' : draft;
    denial = words === '' ? 'no' : said ? draft : `no, ${words}`;
    node.dataset.state = state;
    no.textContent = refusing();
    for (const b of actions.querySelectorAll('button')) b.disabled = state !== 'open';
    if (kind === 'plan' && words === '') no.disabled = true;
    if (more) more.hidden = asked;
    const told = explain(state, draft);
    if (hint.textContent !== told) hint.textContent = told;
    if (!['open', 'replied'].includes(state)) actions.remove();
    else if (!actions.isConnected) node.append(actions);
  }

  const refusal = () => (kind !== 'next' && words && node.dataset.state === 'open' ? refusing() : '');
  return { node, update, refusal, refuse };
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
