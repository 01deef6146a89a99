// card.js reads the cards of the Chat app, and draws them: https://developers.google.com/workspace/chat/api/reference/rest/v1/cards
import { h, markup, inline } from './markup.js';

// readCard returns {kind, state, title, subtitle, sections, choices, own}, or null. A card's id says its kind and how it
// stands: "gchat-hooks.permission.open". Own is the field of a card that has one for words: the reply box is in its place.
export function readCard(cards) {
  const [{ cardId = '', card } = {}] = cards ?? [];
  if (!card) return null;
  const { header = {}, sections = [] } = card;
  const widgets = sections.flatMap((section) => section.widgets ?? []);
  const choices = widgets.flatMap((w) => w.buttonList?.buttons ?? []).map(choiceOf).filter(Boolean);
  const fields = widgets.map((w) => w.textInput).filter(Boolean);
  const [, kind = '', state = choices.length > 0 ? 'open' : 'over'] = cardId.split('.');
  const own = fields.length === 1 && fields[0].name === 'w1' && !choices.includes('accept') ? fields[0] : null;
  return { kind, state, title: header.title ?? '', subtitle: header.subtitle ?? '', sections, choices, own };
}

const choiceOf = (button) => button.onClick?.action?.parameters?.find((p) => p.key === 'choice')?.value;
const isOption = (choice) => /^\d+$/.test(choice);

// textOf is what a paragraph says: plain text that is written as HTML, or a block of code.
const textOf = ({ text, textSyntax }) => (textSyntax === 'MARKDOWN' ? text.replace(/^```\n|\n```$/g, '')
  : text.replaceAll('<br>', '\n').replaceAll('\u00a0', ' ').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&'));
const isCode = (w) => w.textParagraph?.textSyntax === 'MARKDOWN';

// titleOf and lineOf are a card in a few words. A command goes before Claude's words about it, a change behind them.
export function titleOf(card) {
  return (card.kind === 'question' && card.sections.map((s) => s.header).filter(Boolean).map((t) => textOf({ text: t })).join(' · ')) || card.title;
}

export function lineOf({ sections }) {
  const widgets = sections.flatMap((section) => section.widgets ?? []);
  const said = widgets.find((w) => w.textParagraph && !isCode(w));
  const code = widgets.find(isCode);
  const words = said ? textOf(said.textParagraph) : '';
  const shown = code && widgets.indexOf(code) < 3 ? textOf(code.textParagraph) : '';
  if (!shown || isDiff(shown)) return words;
  return words ? `${shown} (${words})` : shown;
}

const isDiff = (code) => code.split('\n').every((line) => /^([ +-]|$|⋯)/.test(line));

// drawCard returns {node, update, submit, tapped, ready, clear, refusal, refuse}. act(choice, inputs, words) is called for a tap,
// with what goes along; words are those of the reply box that do. update({state, words, asked, failed}) tells how the card
// stands, what the box holds, whether the rest of what is shown was asked for, and whether a tap could not be sent.
export function drawCard(card, act) {
  const lists = []; // {name, several, chosen}; of single buttons the name is ""
  const options = []; // {node, list, value}
  const fields = [];
  const buttons = []; // {node, choice, text}
  const isQuestion = card.kind === 'question';
  let open = true;
  let touched = false;
  let words = '';

  const own = h('p', { class: 'own', dir: 'auto', hidden: true });
  const hint = h('p', { class: 'hint', role: 'status' });
  const sections = card.sections.map(drawSection);
  const node = h('div', { class: isQuestion ? 'question' : 'question decision', 'data-kind': card.kind },
    isQuestion ? null : h('h2', {}, card.title),
    card.subtitle && !isQuestion ? h('p', { class: 'folder' }, h('bdi', {}, card.subtitle)) : null,
    ...sections, own, hint);

  function drawSection({ header = '', widgets = [] }, i) {
    let option = null; // the button that stood last: its description and its preview come behind it
    let asked = false;
    const nodes = widgets.flatMap((w) => {
      if (w.textParagraph) {
        const text = textOf(w.textParagraph);
        if (isCode(w)) return [isQuestion ? preview(text) : block(text)];
        if (option) {
          option.querySelector('.words').append(h('span', { class: 'description' }, ...inline(text)));
          return [];
        }
        const first = !asked;
        asked = true;
        if (card.kind === 'permission') return [h('p', { class: first ? 'about' : 'note' }, visible(text))];
        return [h('div', { class: first ? 'ask' : 'note' }, ...markup(text, isQuestion))];
      }
      if (w.selectionInput) return [drawList(w.selectionInput)];
      if (w.textInput) return card.own ? [] : [drawField(w.textInput)];
      const row = (w.buttonList?.buttons ?? []).map(drawButton).filter(Boolean);
      option = row.find((b) => b.matches('.option')) ?? null;
      return option ? row : row.length > 0 ? [h('div', { class: 'buttons', role: 'group', 'aria-label': 'Decision' }, ...row)] : [];
    });
    return h('section', { 'data-question': i + 1 }, header ? h('h2', {}, ...inline(textOf({ text: header }))) : null, ...nodes);
  }

  function drawList({ name, type, label, items = [] }) {
    const list = { name, several: type === 'CHECK_BOX', chosen: new Set(items.filter((i) => i.selected).map((i) => i.value)) };
    lists.push(list);
    return h('div', { class: 'options', role: 'group', 'aria-label': label }, h('p', { class: 'hint' }, label),
      ...items.map(({ text, value }) => {
        const [name, ...about] = text.split(' — ');
        const b = optionButton(list, value, name);
        if (about.length > 0) b.querySelector('.words').append(h('span', { class: 'description' }, ...inline(about.join(' — '))));
        return b;
      }));
  }

  function optionButton(list, value, text) {
    const b = h('button', {
      type: 'button', class: list.several ? 'option multi' : 'option', 'data-option': value, 'aria-pressed': 'false',
      onclick: () => pick(list, value),
    },
    h('span', { class: 'number', 'aria-hidden': 'true' }, value),
    h('span', { class: 'words' }, h('span', { class: 'label' }, ...inline(text))));
    options.push({ node: b, list, value });
    return b;
  }

  function pick(list, value) {
    if (!open) return;
    if (list.name === '') return press(value);
    if (!list.several) list.chosen.clear();
    if (!list.chosen.delete(value)) list.chosen.add(value);
    touch();
  }

  function drawField({ name, label, value = '' }) {
    const field = h('textarea', { class: 'field', name, rows: 1, dir: 'auto', placeholder: label, 'aria-label': label, oninput: touch });
    field.value = value;
    fields.push(field);
    return field;
  }

  function drawButton(button) {
    const { text, onClick = {} } = button;
    const choice = choiceOf(button);
    if (onClick.openLink) return h('p', {}, ...inline(`<${onClick.openLink.url}|${text}>`));
    if (!choice) return null;
    if (isOption(choice)) {
      lists[0] ??= { name: '', chosen: new Set() };
      return optionButton(lists[0], choice, text);
    }
    if (choice === 'send' && lists.every((l) => l.name === '') && fields.length === 0) return null; // the box sends
    const b = h('button', {
      type: 'button', class: choice === 'send' ? 'send-choices' : 'decide', 'data-choice': choice, onclick: () => press(choice),
    }, text);
    buttons.push({ node: b, choice, text });
    return b;
  }

  function touch() {
    touched = true;
    show();
  }

  const takesWords = (choice) => isOption(choice) || ['deny', 'back', 'chat', 'send'].includes(choice);
  const takesInputs = (choice) => ['send', 'chat', 'accept'].includes(choice);
  const sends = card.choices.includes('accept') ? 'accept' : 'send'; // a form is accepted

  function press(choice) {
    if (!open) return;
    const taken = takesWords(choice) ? words : '';
    const inputs = taken ? { [card.own?.name ?? 'w']: [taken] } : {};
    for (const { name, chosen } of takesInputs(choice) ? lists : []) if (name && chosen.size > 0) inputs[name] = [...chosen];
    for (const f of takesInputs(choice) ? fields : []) if (f.value.trim()) inputs[f.name] = [f.value.trim()];
    if (isOption(choice)) lists[0].chosen = new Set([choice]);
    act(choice, inputs, taken);
  }

  // left is how many questions have neither a choice nor words.
  const left = () => sections.filter((s) => s.querySelector('[data-option], .field') && !s.querySelector('[aria-pressed="true"]')
    && ![...s.querySelectorAll('.field')].some((f) => f.value.trim())).length;
  const tapped = () => open && touched;
  const ready = () => tapped() && (left() === 0 || words !== '');
  const refuser = () => buttons.find((b) => b.choice === 'deny' || b.choice === 'back');
  const refusal = () => (open && words && refuser() ? `${refuser().text} with these words` : '');

  function explain(state, failed) {
    if (state === 'replied') return 'Sent. Claude has not confirmed it yet.';
    if (failed) return 'Not sent. Tap it again.';
    if (!open || !card.own) return '';
    if (words === '') return lists.some((l) => l.name === '') ? 'Tap one, or write your own answer below' : `${card.own.label}: write it in the box below`;
    if (words.startsWith('/')) return 'Send below sends a command';
    if (refuser()) return `Not clear: write yes or no, or tap “${refusal()}”`;
    return lists.some((l) => l.name === '') ? 'Tap one to send it with your words, or send them alone' : '';
  }

  function show() {
    for (const { node: b, list, value } of options) {
      b.disabled = !open;
      b.setAttribute('aria-pressed', String(list.chosen.has(value)));
    }
    for (const f of fields) f.disabled = !open;
    const missing = left();
    for (const { node: b, choice, text } of buttons) {
      b.disabled = !open || choice === 'send' && !ready() || choice === 'back' && !words;
      if (choice === 'send') b.textContent = missing > 0 ? `${text} (${missing} to go)` : text;
      if (choice === refuser()?.choice) b.textContent = refusal() || text;
    }
    own.textContent = words ? `Your words: ${words}` : '';
    own.hidden = !words || !open || !lists.some((l) => l.name);
  }

  function update({ state, words: now, asked, failed }) {
    open = state === 'open';
    words = now;
    node.dataset.state = state;
    show();
    for (const { node: b, choice } of buttons) b.hidden = !['open', 'replied'].includes(state) || asked && choice === 'more';
    const told = explain(state, failed);
    if (hint.textContent !== told) hint.textContent = told;
  }

  show();
  return {
    node, update, tapped, ready, refusal,
    submit: () => press(sends), refuse: () => press(refuser().choice), clear: () => { touched = false; },
  };
}

// visible shows the characters that a person would not see, or that change the order of others.
const visible = (text) => text.replace(/[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[^\P{Cc}\n\t]/gu,
  (c) => `‹U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}›`);

const preview = (text) => h('pre', { class: 'preview', tabindex: 0, 'aria-label': 'Preview' },
  h('code', {}, text.split('\n').map((line) => line.replace(/^ {2}/, '')).join('\n')));

// block is what a tool would do. The lines of a diff have a colour beside their sign, and no line hides its end.
function block(shown) {
  const diff = isDiff(shown);
  const rows = visible(shown).split('\n').map((line) => {
    const sign = diff ? { '+': 'added', '-': 'removed' }[line[0]] : null;
    return h('span', { class: sign ? `line ${sign}` : 'line' }, line === '' ? '\n' : line);
  });
  return h('pre', { class: 'shown', dir: 'ltr' }, h('code', {}, ...rows));
}
