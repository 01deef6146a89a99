// shown.js asks the server for all of a text that a card shows a part of.
import { readJSON } from './key.js';

// readShownText returns the text of a message's card, "" if the server does not know it.
export async function readShownText(message) {
  try {
    return (await readJSON('/page/shown?message=' + encodeURIComponent(message))).text;
  } catch {
    return '';
  }
}
