// decision.js reads the messages that ask for a decision or for the next instruction, and says what a typed reply to them means.
// As question.js does, it knows the one format that is sent; anything else is no decision.

const offered = /^Reply yes or no \(.*\)(, or always)?\.$/;
const terminalOnly = 'Only the terminal can allow this. Reply no (with a reason if you like: "no, use git mv").';
const planned = /^Reply yes, ("yes, (?:accept edits|auto)" \(.*\), )?or "no, …" with what to change\.$/;
const planInTerminal = 'Only the terminal can allow this. Reply "no, …" with what to change.';
const instruction = 'Reply with the next instruction.';

// parseDecision returns {kind: 'permission', session, folder, tool, about, shown, text, always, only, more}, {kind: 'plan',
// session, folder, text, auto, only} or {kind: 'next', session, text}; null when the text is none of them. "shown" is the code block,
// "text" is Chat's markup, "always" what that would allow, "auto" that edits may go on without asking, "only" that the terminal alone
// can allow it, "more" that a part is hidden.
export function parseDecision(message) {
  const lines = message.trimEnd().split('\n');
  if (lines[1]?.startsWith('Machine: ')) lines.splice(1, 1);
  const first = /^\[(Permission|Plan|Waiting for you)\] (.*?)(?: ?\(\d+\/\d+\))?$/.exec(lines.shift());
  if (!first) return null;
  if (first[1] === 'Waiting for you') {
    return lines.pop() === instruction ? { kind: 'next', session: first[2].trim(), text: lines.join('\n').trim() } : null;
  }
  // The end of the message is ours: a command or a plan may hold any line before it.
  if (!first[2].startsWith('Session: ') || !lines.pop()?.startsWith('Thread key: ')) return null;
  const said = { session: first[2].slice('Session: '.length).trim() };
  if (lines[0]?.startsWith('Folder: ')) said.folder = lines.shift().slice('Folder: '.length);
  const asks = lines.pop();
  if (first[1] === 'Plan') {
    const only = asks === planInTerminal;
    const text = lines.join('\n').trim();
    return only || planned.test(asks) ? { kind: 'plan', ...said, text, auto: Boolean(planned.exec(asks)?.[1]), only } : null;
  }
  if (asks !== terminalOnly && !offered.test(asks)) return null;
  return { kind: 'permission', ...said, ...readPermission(lines, Boolean(offered.exec(asks)?.[1])), only: asks === terminalOnly };
}

// readPermission reads what stands between the folder and the line that asks. The block ends with its last fence, so that
// no line of a command passes for one of the lines behind it.
function readPermission(lines, mayAlways) {
  const from = lines.indexOf('```');
  const to = lines.lastIndexOf('```');
  const block = from >= 0 && to > from;
  const before = (block ? lines.slice(0, from) : lines).filter((line) => line !== '');
  const after = block ? lines.slice(to + 1) : lines;
  const always = after.findLast((line) => line.startsWith('"always" allows: '));
  const more = after.findLast((line) => /^\(.*\bmore lines?: reply "more"\)$/.test(line));
  const named = /^([\w.-]+): ?(.*)$/.exec(before[0] ?? '') ?? [];
  return {
    tool: named[1] ?? '', about: named[2] ?? '',
    text: before.slice(named[1] ? 1 : 0).filter((line) => line !== always && line !== more).join('\n'),
    shown: block ? lines.slice(from + 1, to).join('\n') : '',
    always: mayAlways ? always?.slice('"always" allows: '.length).replace(/^`(.*)`$/, '$1') ?? '' : null,
    more: more?.slice(1).split(':')[0] ?? '',
  };
}

// noRefusal says nothing of a refusal, although it begins as one does.
const noRefusal = /^no\s+(?:problem|worries|objections?|issues?)\b/i;

// readDecision is what a reply means, as {word, reason}: "yes", "always", "auto", "no" or "more"; null for anything else.
export function readDecision({ kind, always, auto, only, more }, reply) {
  const text = reply.trim();
  const plan = kind === 'plan';
  const no = /^(?:n|no|deny)(?:[\s,;:.!–—-]+(.*))?$/is.exec(text);
  if (no && !noRefusal.test(text)) return { word: 'no', reason: no[1]?.trim() ?? '' };
  if (!only && /^(?:y|yes|allow|1)[.!]?$/i.test(text)) return { word: 'yes' };
  if (auto && /^yes,? (?:auto|accept edits)[.!]?$/i.test(text)) return { word: 'auto' };
  if (!plan && !only && always !== null && /^always[.!]?$/i.test(text)) return { word: 'always' };
  return more && /^more[.!]?$/i.test(text) ? { word: 'more' } : null;
}

const words = {
  permission: { yes: 'Allow', always: 'Always', no: 'Deny', more: 'Show more' },
  plan: { yes: 'Approve', auto: 'Approve, accept edits', no: 'Send back' },
};

// meaning is the same in words, for the person who wrote it; "" for what decides nothing.
export function meaning(decision, reply) {
  if (decision.kind === 'next') return '';
  const said = readDecision(decision, reply);
  if (!said) return '';
  return words[decision.kind][said.word] + (said.reason ? ': ' + said.reason : '');
}
