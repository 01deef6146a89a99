// session.js shows what the session of the open thread does, with its commands as buttons, begins sessions, and tells the week.
import { h } from './markup.js';
import { request } from './key.js';

const $ = (id) => document.getElementById(id);
let told = {}; // of the thread that it is of
let of = null;

// watchSession has what changed drawn. It asks for the open thread only, and only while a person may see it.
export function watchSession({ current, say, begin, changed }) {
  async function ask() {
    const thread = current();
    if (document.hidden || thread === null) return;
    let now = { does: of === thread && told.does ? 'out of reach' : '' };
    try {
      now = await read('/page/session?thread=' + encodeURIComponent(thread));
    } catch { // the server is out of reach itself
    }
    if (thread !== current()) return;
    const news = of !== thread || JSON.stringify(now) !== JSON.stringify(told);
    [told, of] = [now, thread];
    if (news) changed();
  }

  async function offer() {
    if (document.hidden) return;
    const { start, projects } = await read('/page/projects').catch(() => ({ start: !$('new').hidden }));
    $('new').hidden = !start;
    if (projects) $('projects').replaceChildren(...projects.map((value) => h('option', { value })));
  }

  // reallyClear asks in place of the commands whether Claude is to forget the conversation.
  function reallyClear(asked) {
    $('commands').hidden = asked;
    $('really').hidden = !asked;
  }

  $('session').addEventListener('click', ({ target }) => {
    if (target.id === 'clear' || target.closest('#really')) {
      reallyClear(target.id === 'clear');
      $(target.id === 'clear' ? 'keep' : 'clear').focus();
    }
    if (target.dataset.say) say(current(), target.dataset.say);
  });
  const open = (yes) => {
    $('new-form').hidden = !yes;
    $('begin').hidden = yes;
    $(yes ? 'new-project' : 'begin').focus();
  };
  $('begin').addEventListener('click', () => open(true));
  $('new-cancel').addEventListener('click', () => open(false));
  $('new-form').addEventListener('submit', async (e) => {
    e.preventDefault();
    const text = `/new ${$('new-project').value.trim()} ${$('new-words').value.trim()}`;
    $('new-start').disabled = true;
    const sent = await begin(text).then(() => true, () => false);
    $('new-start').disabled = false;
    $('new-failed').hidden = sent;
    if (!sent) return;
    $('new-form').reset();
    open(false);
  });
  $('week').addEventListener('toggle', async () => {
    if (!$('week').open) return;
    const { week = 'No figures yet.' } = await read('/page/week').catch(() => ({ week: 'Out of reach. Try again.' }));
    $('week-lines').textContent = week;
  });
  document.addEventListener('visibilitychange', () => { ask(); offer(); });
  setInterval(ask, 2000);
  offer();

  return {
    ask,
    offer,
    // show draws what is known of the thread, and says whether the box is for its session.
    show(thread) {
      const { does = '', commands, outside } = of === thread ? told : {};
      if (of !== thread) reallyClear(false);
      $('session').hidden = !does;
      $('does').dataset.does = does;
      if ($('does').textContent !== does) $('does').textContent = does;
      $('steer').hidden = !commands;
      $('outside').hidden = !outside;
      $('outside').textContent = outside ?? '';
      for (const button of document.querySelectorAll('#commands .typed')) button.hidden = Boolean(outside);
      $('stop').disabled = does !== 'works';
      return does === 'ended' || Boolean(commands);
    },
  };
}

async function read(address) {
  const answer = await request(address, { signal: AbortSignal.timeout?.(10000) });
  if (!answer.ok) throw new Error(answer.statusText);
  return answer.json();
}
