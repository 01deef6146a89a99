// undo.js holds a tap back for a moment, in which the person can undo it. When they leave the
// page, or the thread, it is sent at once.

const undoTime = 3000; // ms
let held = null; // {send, drop, timer}

// hold sends later. A tap that was held before is sent now. drop is called if this one is not sent.
export function hold(send, drop) {
  sendHeld();
  held = { send, drop, timer: setTimeout(sendHeld, undoTime) };
}

// sendHeld sends what is held, and reports whether there was anything.
export function sendHeld() {
  const { send } = release();
  send?.();
  return Boolean(send);
}

// undoHeld drops what is held.
export function undoHeld() {
  release().drop?.();
}

function release() {
  const released = held ?? {};
  held = null;
  clearTimeout(released.timer);
  return released;
}

addEventListener('pagehide', sendHeld);
addEventListener('hashchange', sendHeld);
document.addEventListener('visibilitychange', () => {
  if (document.hidden) sendHeld();
});
