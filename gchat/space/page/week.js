// week.js shows what was asked in the last seven days, as tables.
import { h } from './markup.js';
import { readJSON } from './key.js';

const details = document.getElementById('week');
const figures = document.getElementById('week-figures');

details.addEventListener('toggle', async () => {
  if (!details.open) return;
  try {
    figures.replaceChildren(...tables(await readJSON('/page/week')));
  } catch {
    figures.replaceChildren('Out of reach. Try again.');
  }
});

function tables({ days = [], totals = [], waits = [] }) {
  if (!days.some((day) => day.asked > 0 || day.messages > 0)) return ['Nothing was asked in the last seven days.'];
  const most = Math.max(...days.map((day) => day.asked), 1);
  const rows = days.map((day) => [
    weekday(day.date), barOf(day, most), day.chat, day.terminal, day.messages,
    day.lost > 0 ? h('strong', { class: 'lost' }, String(day.lost)) : '0',
  ]);
  const waited = waits.map(({ step, median, p95 }) => [step, seconds(median), seconds(p95)]);
  const counted = totals.map(({ what, count }) => [what, count]);
  return [
    table('Asked and answered', ['Day', 'Asked', 'In Chat', 'In the terminal', 'Messages', 'Lost'], rows),
    waited.length > 0 ? table('How long it took', ['Step', 'Median', '95 %'], waited) : '',
    table('In all', ['What', 'Times'], counted),
  ];
}

function table(caption, heads, rows) {
  return h('table', {},
    h('caption', {}, caption),
    h('thead', {}, h('tr', {}, ...heads.map((head) => h('th', { scope: 'col' }, head)))),
    h('tbody', {}, ...rows.map(([head, ...cells]) => h('tr', {},
      h('th', { scope: 'row' }, head),
      ...cells.map((cell) => h('td', {}, cell instanceof Node ? cell : String(cell)))))));
}

// barOf is a number with a bar. The width is set here: the page allows no style in an attribute.
function barOf({ asked }, most) {
  const bar = h('span', { class: 'bar-of', 'aria-hidden': 'true' });
  bar.style.width = `${Math.round(asked / most * 100)}%`;
  return h('span', { class: 'barred' }, String(asked), h('span', { class: 'bar-room' }, bar));
}

const weekday = (date) => new Date(date + 'T12:00').toLocaleDateString([], { weekday: 'short', day: 'numeric' });
const seconds = (s) => (s < 60 ? `${s.toFixed(1)} s` : s < 3600 ? `${(s / 60).toFixed(1)} min` : `${(s / 3600).toFixed(1)} h`);
