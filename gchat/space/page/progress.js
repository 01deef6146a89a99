// progress.js draws what Claude does while it works, above the reply box of its thread.
import { h } from './markup.js';

let drawn = '';

// drawProgress draws the last tools that Claude called and its last words. Without them it draws
// nothing: Claude does not work.
export function drawProgress(thread, progress) {
  const news = JSON.stringify([thread, progress ?? null]);
  if (news === drawn) return;
  drawn = news;
  const messages = document.getElementById('scroll');
  const isAtEnd = messages.scrollHeight - messages.scrollTop - messages.clientHeight < 80;
  const { calls = [], words = '' } = progress ?? {};
  const box = document.getElementById('progress');
  box.hidden = !progress;
  box.replaceChildren(
    ...(calls.length ? [h('p', {}, calls.join(' · '))] : []),
    ...(words ? [h('p', {}, words)] : []));
  if (isAtEnd) messages.scrollTop = messages.scrollHeight;
}
