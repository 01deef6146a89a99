// failure.js says why something was not sent.
import { NoKey } from './key.js';

export const mostBytes = 32000; // of a text, as in Google Chat

// Failure is a refusal of the server. Words say why, for a person; status is HTTP's. Inputs has
// what is wrong with the inputs of a form, by their names.
export class Failure extends Error {
  constructor(words, status, inputs = {}) {
    super(words);
    this.status = status;
    this.inputs = inputs;
  }
}

export const tooLong = `too long: at most ${mostBytes.toLocaleString('en')} bytes`;

const tooLongTexts = ['Message content is too long', 'Request payload size exceeds the limit.'];

// failureOf returns the refusal that an answer of the server is. A proxy answers with a page.
export async function failureOf(answer) {
  return failureFrom(answer.status, await answer.json().catch(() => null));
}

// failureFrom does the same for a status and the JSON of the answer, null if that is none.
export function failureFrom(status, body) {
  const { message, inputs } = body?.error ?? {};
  if (tooLongTexts.includes(message)) return new Failure(tooLong, status);
  if (!message) return new Failure(`the page's server cannot be reached (${status})`, status);
  return new Failure(withSmallLetter(message.replace(/\.$/, '')), status, inputs);
}

// reasonOf says for a person why a request failed: "no connection to the page's server".
export function reasonOf(error) {
  if (error instanceof Failure) return error.message;
  if (error instanceof NoKey) return 'the key was refused. Open the page with its link again';
  if (error.name === 'TimeoutError') return "the page's server did not answer in 10 seconds";
  return "no connection to the page's server";
}

const withSmallLetter = (text) => text.charAt(0).toLowerCase() + text.slice(1);

export const withCapital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
