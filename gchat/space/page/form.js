// form.js draws the inputs of a form. A card says of each what it accepts: see formField in
// gchat/card_v2.go. The browser checks the same first; what the app says decides.
import { h, inline } from './markup.js';
import { withCapital } from './failure.js';

const mostRadios = 6; // more options are a list that opens
const longText = 100; // characters from which a text has a box of several lines

let count = 0; // of inputs, for their ids

// drawInput draws the input of a widget: of Google's textInput or selectionInput. It returns
// {name, node, values, check, showProblem, disable}: values is what the input has, check reports
// whether that can be sent, and says beside the input why not.
export function drawInput(widget, accepts, onChange) {
  const id = `input-${++count}`;
  const describedBy = `${id}-help ${id}-accepts ${id}-problem`;
  const control = drawControl(widget, accepts, id, describedBy);
  const problem = h('p', { class: 'problem', id: `${id}-problem`, role: 'alert' });
  const isGroup = control.node.matches('fieldset');
  const title = accepts.title;
  const help = accepts.help ? h('p', { class: 'help', id: `${id}-help` }, ...inline(accepts.help)) : null;
  const words = h('p', { class: 'help', id: `${id}-accepts` }, withCapital(accepts.words));
  if (isGroup) control.node.prepend(h('legend', {}, title), help ?? '', words);
  const node = h('div', { class: 'input', 'data-field': widget.name },
    ...(isGroup ? [] : [h('label', { for: id }, title), help, words]),
    control.node, problem);

  function showProblem(text) {
    if (problem.textContent !== text) problem.textContent = text;
    for (const one of control.inputs) one.setAttribute('aria-invalid', String(text !== ''));
  }
  function check() {
    showProblem(control.problem());
    return problem.textContent === '';
  }
  node.addEventListener('input', () => {
    showProblem('');
    onChange();
  });
  node.addEventListener('change', () => {
    if (control.values().length > 0 || control.isBad?.()) check();
  });
  return {
    name: widget.name,
    node,
    values: control.values,
    check,
    showProblem,
    focus: () => control.inputs[0].focus(),
    disable(isOff) {
      for (const one of control.inputs) one.disabled = isOff;
    },
  };
}

function drawControl(widget, accepts, id, describedBy) {
  if (!widget.items) return drawText(widget, accepts, id, describedBy);
  if (accepts.type === 'boolean') return drawYes(widget, accepts, describedBy);
  if (accepts.type === 'array') return drawBoxes(widget, accepts, describedBy);
  if (widget.items.length > mostRadios) return drawSelect(widget, accepts, id, describedBy);
  return drawRadios(widget, accepts, id, describedBy);
}

// ---- texts, numbers and dates

const typeOfFormat = { email: 'email', uri: 'url', date: 'date', 'date-time': 'datetime-local' };
const typeOf = ({ type, format }) => (type === 'string' ? typeOfFormat[format] ?? 'text' : 'number');

function drawText({ name, value = '' }, accepts, id, describedBy) {
  const type = typeOf(accepts);
  const isLong = type === 'text' && !(accepts.max <= longText);
  const isNumber = type === 'number';
  const node = h(isLong ? 'textarea' : 'input', {
    class: 'field', id, name, dir: 'auto', autocomplete: 'off', 'aria-describedby': describedBy,
    type: isLong ? null : type,
    rows: isLong ? 2 : null,
    required: accepts.required && !accepts.default,
    min: isNumber ? accepts.min : null,
    max: isNumber ? accepts.max : null,
    step: isNumber ? (accepts.type === 'integer' ? 1 : 'any') : type === 'datetime-local' ? 1 : null,
  });
  const first = type === 'datetime-local' ? localTime(value) : value;
  node.value = first;
  const text = () => {
    if (node.value === first) return value.trim(); // as the server wrote it
    return type === 'datetime-local' && node.value ? zoned(node.value) : node.value.trim();
  };
  return {
    node,
    inputs: [node],
    values: () => (text() ? [text()] : []),
    isBad: () => node.validity.badInput,
    problem() {
      node.setCustomValidity(type === 'text' ? lengthProblem(text(), accepts) : '');
      return node.validationMessage;
    },
  };
}

// lengthProblem counts characters as the server does. An empty field is left out, or required.
function lengthProblem(text, { min, max }) {
  const length = [...text].length;
  if (length === 0) return '';
  if (length < min) return `At least ${min} characters, not ${length}.`;
  return length > max ? `At most ${max} characters, not ${length}.` : '';
}

// localTime is a time of the schema's form (RFC 3339), as the browser's input takes it.
function localTime(text) {
  const time = new Date(text);
  if (!text || Number.isNaN(time.getTime())) return '';
  return new Date(time - time.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
}

const zoned = (local) => new Date(local).toISOString().replace(/\.\d+Z$/, 'Z');

// ---- choices

function drawSelect({ name, items }, accepts, id, describedBy) {
  const node = h('select', {
    class: 'field', id, name, required: accepts.required && !accepts.default,
    'aria-describedby': describedBy,
  },
  h('option', { value: '' }, 'Choose one'),
  ...items.map(({ text, value, selected }) => h('option', { value, selected: Boolean(selected) }, text)));
  return {
    node,
    inputs: [node],
    values: () => (node.value ? [node.value] : []),
    problem: () => node.validationMessage,
  };
}

function drawRadios({ name, items }, accepts, id, describedBy) {
  const all = accepts.required ? items
    : [...items, { text: 'No answer', value: '', selected: !items.some((item) => item.selected) }];
  const group = drawGroup('radio', `${id}-${name}`, all, describedBy);
  for (const one of group.inputs) one.required = Boolean(accepts.required && !accepts.default);
  return { ...group, problem: () => group.inputs[0].validationMessage };
}

function drawBoxes({ name, items }, accepts, describedBy) {
  const group = drawGroup('checkbox', name, items, describedBy);
  return { ...group, problem: () => countProblem(group.values().length, accepts) };
}

function countProblem(chosen, { min, max, required, default: hasDefault }) {
  if (chosen === 0) return required && !hasDefault ? 'Choose at least one.' : '';
  if (chosen < min) return `Choose at least ${min}, not ${chosen}.`;
  return chosen > max ? `Choose at most ${max}, not ${chosen}.` : '';
}

// drawYes draws yes or no as one box. A box that nobody touched says nothing, unless there has
// to be an answer.
function drawYes({ name, items }, accepts, describedBy) {
  const [yes, no] = items;
  const group = drawGroup('checkbox', name, [{ ...yes, text: yes.text }], describedBy);
  const [box] = group.inputs;
  let isTouched = Boolean(accepts.required || accepts.default);
  box.addEventListener('input', () => {
    isTouched = true;
  });
  return {
    ...group,
    values: () => (isTouched ? [box.checked ? yes.value : no.value] : []),
    problem: () => '',
  };
}

function drawGroup(type, name, items, describedBy) {
  const inputs = [];
  const rows = items.map(({ text, value, selected }) => {
    const one = h('input', { type, name, value, checked: Boolean(selected) });
    inputs.push(one);
    const [label, ...about] = text.split(' — ');
    const description = about.length > 0
      ? h('span', { class: 'description' }, ...inline(about.join(' — '))) : null;
    return h('label', { class: 'option', 'data-option': value }, one,
      h('span', { class: 'words' }, h('span', { class: 'label' }, ...inline(label)), description));
  });
  const node = h('fieldset', { 'aria-describedby': describedBy }, ...rows);
  const values = () => inputs.filter((one) => one.checked && one.value).map((one) => one.value);
  return { node, inputs, values };
}
