// session.js shows what the session of the open thread does, with its commands as buttons.
import { readJSON } from './key.js';
import { drawProgress } from './progress.js';

const $ = (id) => document.getElementById(id);
let told = {}; // of the thread that it is of
let of = null;

// watchSession has what changed drawn. It asks for the open thread only, and only while a person may see it.
export function watchSession({ current, say, changed }) {
  async function ask() {
    const thread = current();
    if (document.hidden || thread === null) return;
    let progress;
    // The commands keep their place while the server is out of reach.
    let now = of === thread && told.does ? { ...told, does: 'out of reach' } : {};
    try {
      ({ progress, ...now } = await readJSON('/page/session?thread=' + encodeURIComponent(thread)));
    } catch { // the server is out of reach itself
    }
    if (thread !== current()) return;
    drawProgress(thread, progress);
    const news = of !== thread || JSON.stringify(now) !== JSON.stringify(told);
    [told, of] = [now, thread];
    if (news) changed();
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
  document.addEventListener('visibilitychange', ask);
  setInterval(ask, 2000);

  return {
    ask,
    // show draws what is known of the thread, and says whether the box is for its session.
    show(thread) {
      const { does = '', commands, outside } = of === thread ? told : {};
      if (of !== thread) reallyClear(false);
      if (of !== thread) drawProgress(thread);
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
