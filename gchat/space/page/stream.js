// stream.js reads server-sent events from an answer. EventSource sends no header, and so no key.

// readEvents calls take(event, id, data) for each event of a body, until it ends.
export async function readEvents(body, take) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let line = []; // pieces of a line whose end has not come: a batch of messages is one long line
  let fields = {};
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    decoder.decode(value, { stream: true }).split('\n').forEach((piece, i) => {
      if (i > 0) {
        takeLine(line.join(''));
        line = [];
      }
      line.push(piece);
    });
  }

  function takeLine(whole) {
    if (whole !== '') {
      const colon = whole.indexOf(': ');
      fields[whole.slice(0, colon)] = whole.slice(colon + 2);
      return;
    }
    take(fields.event, fields.id ?? '', fields.data);
    fields = {};
  }
}
