// card.js reads the cards of the Chat app, and draws them:
// https://developers.google.com/workspace/chat/api/reference/rest/v1/cards
import { h, markup, inline } from './markup.js';
import { drawInput } from './form.js';
import { hold, sendHeld, undoHeld } from './undo.js';
import { withCapital } from './failure.js';

// readCard returns {kind, state, chosen, title, subtitle, sections, choices, own, accepts}, or
// null. A card's id says its kind, how it stands, and which options were chosen:
// "gchat-hooks.question.answered.1-2". Own is the field of a card that has one for words: the
// reply box is in its place. Accepts says what the inputs of a form accept.
export function readCard(cards) {
  const [{ cardId = '', card } = {}] = cards ?? [];
  if (!card) return null;
  const { header = {}, sections = [] } = card;
  const widgets = sections.flatMap((section) => section.widgets ?? []);
  const buttons = widgets.flatMap((w) => w.buttonList?.buttons ?? []);
  const choices = buttons.map((button) => parameter(button, 'choice')).filter(Boolean);
  const fields = widgets.map((w) => w.textInput).filter(Boolean);
  const stateOfChoices = choices.length > 0 ? 'open' : 'over';
  const [, kind = '', state = stateOfChoices, ...chosen] = cardId.split('.');
  const hasOwn = fields.length === 1 && fields[0].name === 'w1' && !choices.includes('accept');
  return {
    kind, state, chosen, sections, choices,
    title: header.title ?? '',
    subtitle: header.subtitle ?? '',
    own: hasOwn ? fields[0] : null,
    accepts: readFields(buttons),
  };
}

const parameter = (button, name) => button.onClick?.action?.parameters?.find((p) => p.key === name)?.value;

function readFields(buttons) {
  const text = buttons.map((button) => parameter(button, 'fields')).find(Boolean);
  try {
    return JSON.parse(text ?? '{}');
  } catch {
    return {};
  }
}

const isOption = (choice) => /^\d+$/.test(choice);

// textOf is what a paragraph says: plain text that is written as HTML, or a block of code.
function textOf({ text, textSyntax }) {
  if (textSyntax === 'MARKDOWN') return text.replace(/^```\n|\n```$/g, '');
  return text.replaceAll('<br>', '\n').replaceAll('\u00a0', ' ').replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>').replaceAll('&amp;', '&');
}

const isCode = (w) => w?.textParagraph?.textSyntax === 'MARKDOWN';
const inputOf = (w) => w?.selectionInput ?? w?.textInput;

// titleOf and lineOf are a card in a few words. A command goes before Claude's words about it, a
// change behind them.
export function titleOf(card) {
  const headers = card.sections.map((s) => s.header).filter(Boolean).map((text) => textOf({ text }));
  return (card.kind === 'question' && headers.join(' · ')) || card.title;
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

// drawCard returns {node, update, submit, tapped, ready, clear, refusal, refuse}. act(choice,
// inputs, words) is called for a tap, with what goes along; words are those of the reply box that
// do, unless isTooLong(words). update({state, words, asked, failed, shown}) tells how the card
// stands, what the box holds, whether the rest of what is shown was asked for, why a tap could not
// be sent, and the whole of what is shown.
export function drawCard(card, act, isTooLong) {
  const lists = []; // {name, several, chosen, question}; of single buttons the name is ""
  const options = []; // {node, list, value, text}
  const fields = [];
  const inputs = []; // of a form; see drawInput
  const buttons = []; // {node, choice, text}
  const isQuestion = card.kind === 'question';
  let open = true;
  let touched = false;
  let words = '';
  let held = ''; // the choice that can still be undone
  let isUndone = false;
  let problems = null; // what the server said of the inputs last
  let part = null; // {code, note}: the block that shows a part, and how much that leaves out

  const own = h('p', { class: 'own', dir: 'auto', hidden: true });
  const hint = h('p', { class: 'hint', role: 'status' });
  const undo = h('button', { type: 'button', class: 'small undo', 'data-undo': true, hidden: true, onclick: undoPress }, 'Undo');
  const sections = card.sections.map(drawSection);
  const node = h('div', { class: isQuestion ? 'question' : 'question decision', 'data-kind': card.kind },
    isQuestion ? null : h('h2', {}, card.title),
    card.subtitle && !isQuestion ? h('p', { class: 'folder' }, h('bdi', {}, card.subtitle)) : null,
    ...sections, own, hint, undo);
  node.addEventListener('keydown', (e) => {
    if (e.key === 'Escape' && held) undoPress();
  });

  function drawSection({ header = '', widgets = [] }, i) {
    let option = null; // the button that stood last: its description and its preview come behind it
    let asked = false;
    const nodes = widgets.flatMap((w, at) => {
      const accepts = card.accepts[inputOf(w)?.name];
      if (accepts) return [drawFormInput(inputOf(w), accepts)];
      if (w.textParagraph) {
        if (card.accepts[inputOf(widgets[at + 1])?.name]) return []; // the input says the same
        const text = textOf(w.textParagraph);
        if (isCode(w)) return [isQuestion ? preview(text) : shownBlock(text)];
        if (option) {
          option.querySelector('.words').append(h('span', { class: 'description' }, ...inline(text)));
          return [];
        }
        const isFirst = !asked;
        asked = true;
        if (card.kind === 'permission') {
          const line = h('p', { class: isFirst ? 'about' : 'note' }, visible(text));
          if (isCode(widgets[at - 1]) && card.choices.includes('more')) part.note = line;
          return [line];
        }
        return [h('div', { class: isFirst ? 'ask' : 'note' }, ...markup(text, isQuestion))];
      }
      if (w.selectionInput) return [drawList(w.selectionInput, i)];
      if (w.textInput) return card.own ? [] : [drawField(w.textInput)];
      const row = (w.buttonList?.buttons ?? []).map((button) => drawButton(button, i)).filter(Boolean);
      option = row.find((b) => b.matches('.option')) ?? null;
      if (option) return row;
      return row.length > 0 ? [h('div', { class: 'buttons', role: 'group', 'aria-label': 'Decision' }, ...row)] : [];
    });
    const title = header ? h('h2', {}, ...inline(textOf({ text: header }))) : null;
    return h('section', { 'data-question': i + 1 }, title, ...nodes);
  }

  function shownBlock(text) {
    part = { code: block(text), note: null };
    return part.code;
  }

  function showWhole(text) {
    const whole = block(text);
    whole.tabIndex = -1;
    part.code.replaceWith(whole);
    part.note?.remove();
    part = null;
    if (node.isConnected) whole.focus({ preventScroll: true });
  }

  function drawList({ name, type, label, items = [] }, question) {
    const chosen = items.filter((item) => item.selected).map((item) => item.value);
    const list = { name, several: type === 'CHECK_BOX', chosen: new Set(chosen), question };
    lists.push(list);
    const rows = items.map(({ text, value }) => {
      const [title, ...about] = text.split(' — ');
      const b = optionButton(list, value, title);
      if (about.length > 0) {
        b.querySelector('.words').append(h('span', { class: 'description' }, ...inline(about.join(' — '))));
      }
      return b;
    });
    return h('div', { class: 'options', role: 'group', 'aria-label': label },
      h('p', { class: 'hint' }, label), ...rows);
  }

  function optionButton(list, value, text) {
    const b = h('button', {
      type: 'button', class: list.several ? 'option multi' : 'option', 'data-option': value,
      'aria-pressed': 'false', onclick: (e) => pick(list, value, e),
    },
    h('span', { class: 'number', 'aria-hidden': 'true' }, value),
    h('span', { class: 'words' }, h('span', { class: 'label' }, ...inline(text))));
    options.push({ node: b, list, value, text });
    return b;
  }

  function pick(list, value, event) {
    if (!open) return;
    if (list.name === '') {
      press(value, event);
      return;
    }
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

  function drawFormInput(widget, accepts) {
    const input = drawInput(widget, accepts, touch);
    inputs.push(input);
    return input.node;
  }

  function drawButton(button, question) {
    const { text, onClick = {} } = button;
    const choice = parameter(button, 'choice');
    if (onClick.openLink) return h('p', {}, ...inline(`<${onClick.openLink.url}|${text}>`));
    if (!choice) return null;
    if (isOption(choice)) {
      lists[0] ??= { name: '', chosen: new Set(), question };
      return optionButton(lists[0], choice, text);
    }
    if (choice === 'send' && lists.every((l) => l.name === '') && fields.length === 0) return null; // the box sends
    const b = h('button', {
      type: 'button', class: choice === 'send' ? 'send-choices' : 'decide', 'data-choice': choice,
      onclick: (e) => press(choice, e),
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

  // press sends a choice. One that a single tap makes can be undone for a moment; a second tap on
  // it sends at once, but not one of a double click.
  function press(choice, event) {
    if (!open || isTooLong(takesWords(choice) ? words : '')) return;
    if (choice === 'more') {
      act(choice, {}, '');
      return;
    }
    if (choice === 'send' || choice === 'accept') {
      if (held) undoHeld();
      if (choice === 'send' || checkInputs()) sendChoice(choice);
      return;
    }
    if (held === choice) {
      if (!(event?.detail > 1)) sendHeld();
      return;
    }
    if (held) undoHeld();
    held = choice;
    if (isOption(choice)) lists[0].chosen = new Set([choice]);
    hold(() => {
      held = '';
      sendChoice(choice);
    }, () => {
      held = '';
      for (const list of lists) if (list.name === '') list.chosen.clear();
    });
    redrawSelf();
  }

  function undoPress() {
    const { node: pressed } = [...options.filter((o) => o.value === held), ...buttons.filter((b) => b.choice === held)][0];
    undoHeld();
    isUndone = true;
    redrawSelf();
    isUndone = false;
    pressed.focus();
  }

  // checkInputs reports whether a form can be sent, and otherwise leads to the first problem.
  function checkInputs() {
    const bad = inputs.filter((input) => !input.check());
    bad[0]?.focus();
    return bad.length === 0;
  }

  function sendChoice(choice) {
    const taken = takesWords(choice) ? words : '';
    const values = taken ? { [card.own?.name ?? 'w']: [taken] } : {};
    if (takesInputs(choice)) {
      for (const { name, chosen } of lists) if (name && chosen.size > 0) values[name] = [...chosen];
      for (const f of fields) if (f.value.trim()) values[f.name] = [f.value.trim()];
      for (const input of inputs) if (input.values().length > 0) values[input.name] = input.values();
    }
    act(choice, values, taken);
  }

  // left is how many questions have neither a choice nor words.
  const left = () => sections.filter((s) => s.querySelector('[data-option], .field') && !s.querySelector('[aria-pressed="true"]')
    && ![...s.querySelectorAll('.field')].some((f) => f.value.trim())).length;
  const tapped = () => open && touched;
  const ready = () => tapped() && (inputs.length > 0 || left() === 0 || words !== '');
  const refuser = () => buttons.find((b) => b.choice === 'deny' || b.choice === 'back');
  const refusal = () => (open && words && refuser() ? `${refuser().text} with these words` : '');

  function explain(state, failed) {
    if (state === 'replied') return 'Sent. Claude has not confirmed it yet.';
    if (held) return `Sending “${nameOf(held)}”…`;
    if (isUndone) return 'Undone. Nothing was sent.';
    if (failed && Object.keys(failed.inputs).length > 0) return 'Not sent: see the fields that are marked.';
    if (failed) return `Not sent: ${failed.reason}. Tap it again.`;
    if (!open || !card.own) return '';
    const isSingle = lists.some((l) => l.name === '');
    if (words === '') return isSingle ? 'Tap one, or write your own answer below' : `${card.own.label}: write it in the box below`;
    if (words.startsWith('/')) return 'Send below sends a command';
    if (refuser()) return `Not clear: write yes or no, or tap “${refusal()}”`;
    return isSingle ? 'Tap one to send it with your words, or send them alone' : '';
  }

  const nameOf = (choice) => (options.find((o) => isOption(choice) && o.value === choice)
    ?? buttons.find((b) => b.choice === choice)).text;

  function show() {
    for (const { node: b, list, value } of options) {
      b.disabled = !open;
      b.setAttribute('aria-pressed', String(list.chosen.has(value)));
    }
    for (const f of fields) f.disabled = !open;
    for (const input of inputs) input.disable(!open);
    const missing = left();
    for (const { node: b, choice, text } of buttons) {
      b.disabled = !open || choice === 'send' && !ready() || choice === 'back' && !words;
      b.toggleAttribute('data-held', choice === held);
      if (choice === 'send') b.textContent = missing > 0 ? `${text} (${missing} to go)` : text;
      if (choice === refuser()?.choice) b.textContent = refusal() || text;
    }
    own.textContent = words ? `Your words: ${words}` : '';
    own.hidden = !words || !open || !lists.some((l) => l.name);
    undo.hidden = !held;
    node.toggleAttribute('data-held', Boolean(held));
  }

  let last = {}; // what update was told last

  const redrawSelf = () => update(last);

  function update(now) {
    last = now;
    const { state, asked, failed, shown } = now;
    open = state === 'open';
    words = now.words;
    node.dataset.state = state;
    if (!open && held) undoHeld(); // it is over: what was tapped would not count
    if (card.chosen.length > 0) tick(card.chosen);
    if (shown && part) showWhole(shown);
    show();
    for (const { node: b, choice } of buttons) {
      const isDone = choice === 'more' && (asked || shown);
      b.hidden = !['open', 'replied'].includes(state) || isDone;
    }
    if (failed?.inputs && failed.inputs !== problems) showProblems(failed.inputs);
    const told = explain(state, failed);
    if (hint.textContent !== told) hint.textContent = told;
  }

  // tick shows which options were chosen, whoever chose them.
  function tick(chosen) {
    for (const list of lists) {
      const begin = `${list.question + 1}-`;
      const values = chosen.filter((name) => name.startsWith(begin)).map((name) => name.slice(begin.length));
      list.chosen = new Set(values);
    }
  }

  function showProblems(found) {
    problems = found;
    const bad = inputs.filter((input) => found[input.name]);
    for (const input of bad) input.showProblem(withCapital(found[input.name]));
    bad[0]?.focus();
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

function preview(text) {
  const lines = text.split('\n').map((line) => line.replace(/^ {2}/, ''));
  return h('pre', { class: 'preview', tabindex: 0, 'aria-label': 'Preview' }, h('code', {}, lines.join('\n')));
}

// block is what a tool would do. The lines of a diff have a colour beside their sign, and no line hides its end.
function block(shown) {
  const diff = isDiff(shown);
  const rows = visible(shown).split('\n').map((line) => {
    const sign = diff ? { '+': 'added', '-': 'removed' }[line[0]] : null;
    return h('span', { class: sign ? `line ${sign}` : 'line' }, line === '' ? '\n' : line);
  });
  return h('pre', { class: 'shown', dir: 'ltr' }, h('code', {}, ...rows));
}
