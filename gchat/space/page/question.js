// question.js reads the text of a question message and writes the reply to it.
// It knows the one format that the forwarder sends; anything else is no question.

const choose = 'Options (choose one or more):';

// parseQuestion returns {session, project, sections: [{header, text, options, multi}]},
// or null when the text is not a question. Text is Claude's Markdown.
export function parseQuestion(text) {
  const lines = text.split('\n');
  if (lines[1]?.startsWith('Machine: ')) lines.splice(1, 1);
  const first = /^\[AskUserQuestion\] Session: (.*)$/.exec(lines[0]);
  if (!first) return null;
  // The footer is looked for from the end: a question may quote anything.
  const footer = lines.findLastIndex((line) => line.startsWith('Reply with '));
  const project = /^Project: (.*)$/.exec(lines[1] ?? '')?.[1].trim();
  const body = lines.slice(project ? 2 : 1, footer < 0 ? lines.length : footer);
  const several = footer >= 0 && lines[footer].startsWith('Reply with answers in order');
  const parts = several ? splitSections(body) : [body];
  const sections = parts.map(parseSection);
  if (sections.length === 0) return null;
  if (!several && footer >= 0 && lines[footer].includes('comma-separated')) sections[0].multi = true;
  return { session: first[1].trim(), project, sections };
}

// splitSections cuts at "---" lines that a numbered section follows.
function splitSections(lines) {
  const starts = [];
  lines.forEach((line, i) => {
    if (!line.startsWith(`Q${starts.length + 1}. `)) return;
    const before = lines.slice(0, i).findLast((l) => l.trim() !== '');
    if (starts.length === 0 || before.trim() === '---') starts.push(i);
  });
  return starts.map((start, i) => {
    const part = lines.slice(start, starts[i + 1] ?? lines.length);
    while (part.length > 0 && /^(---)?\s*$/.test(part.at(-1))) part.pop();
    part[0] = part[0].replace(/^Q\d+\. /, '');
    return part;
  });
}

function parseSection(lines) {
  const rows = lines.slice();
  while (rows.length > 0 && rows[0].trim() === '') rows.shift();
  const at = rows.findLastIndex((line, i) => (line === 'Options:' || line === choose) && /^1\. /.test(rows[i + 1] ?? ''));
  const options = [];
  let preview = null; // the lines of the code block that is open
  for (const line of at < 0 ? [] : rows.slice(at + 1)) {
    const numbered = /^(\d+)\.(?: (.*))?$/.exec(line); // a label may be empty; a preview's lines are indented
    if (numbered && Number(numbered[1]) === options.length + 1) {
      const [label, ...rest] = (numbered[2] ?? '').split(' — ');
      options.push({ label, description: rest.join(' — ') });
      preview = null;
    } else if (line === '```') {
      if (preview) options.at(-1).preview = preview.join('\n');
      preview = preview ? null : [];
    } else if (preview) {
      preview.push(line.replace(/^ {2}/, ''));
    } else if (line.trim() !== '') {
      const last = options.at(-1);
      last.description = (last.description ? last.description + '\n' : '') + line.trim();
    }
  }
  const prose = (at < 0 ? rows : rows.slice(0, at)).join('\n').trim().split('\n');
  // The text's own lines are indented by two, from its second on; a first line without any behind it is no header.
  const header = prose.length > 1 && /^\S/.test(prose[1]) ? prose.shift() : '';
  const text = prose.map((line) => line.replace(/^ {2}/, '')).join('\n').trim();
  return { header, text, options, multi: at >= 0 && rows[at] === choose };
}

// composeReply writes what was tapped, a Set of option numbers per section, as a reply. What the
// text in the reply box says of a section (as readDraft has it) is a remark on what was tapped
// there, or else the section's answer. A section of which nothing is known has no line.
export function composeReply(question, tapped, draft = []) {
  const answers = question.sections.map((_, i) => {
    const numbers = [...tapped[i]].sort((a, b) => a - b).join(',');
    const words = draft[i]?.words.replace(/\n(?=\s*q)/gi, ' ') ?? ''; // a line "Q2: …" would be another answer
    return numbers && remark(tapped[i], draft[i]) ? `${numbers} - ${words}` : words || numbers;
  });
  if (answers.length === 1) return answers[0];
  return [draft.intro, ...answers.map((answer, i) => answer && `Q${i + 1}: ${answer}`)].filter(Boolean).join('\n');
}

// remark is the words that go beside what was tapped; "" where they choose just that themselves.
export function remark(tapped, draft) {
  const same = draft?.size === tapped.size && [...tapped].every((n) => draft.has(n));
  return same ? '' : draft?.words ?? '';
}
