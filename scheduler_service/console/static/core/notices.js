// Short notices at the edge of the page: what has been done, or why it was not.

import { t } from "./language.js";
import { shallowReactive } from "./vue.js";

const SHOWN_MS = 6_000;
let last = 0;

/** What is shown: `{id, kind, text, link, count}`; `kind` is done or failed. What is said again is the newest, once, with its count. */
export const notices = shallowReactive([]);

/** Says that something is done; `link` is `{href, text}`. It goes by itself. */
export function sayDone(text, link = null) {
  const notice = say("done", text, link);
  setTimeout(() => dropNotice(notice), SHOWN_MS);
}

/** Says why something was not done; it stays until it is closed. `options` are those of `explain`. */
export function sayFailed(error, options) {
  say("failed", explain(error, options));
}

/** Takes a notice away. */
export function dropNotice(notice) {
  const index = notices.indexOf(notice);
  if (index >= 0) notices.splice(index, 1);
}

/**
 * An error in words: that of the API, or that the service does not answer. `places`: with the pointers into what was sent, for whoever wrote that
 * as JSON.
 */
export function explain(error, { places = false } = {}) {
  if (error.status === 0) return t("problem.offline");
  const words = (error.errors ?? []).map((one) => (places && one.pointer ? `${one.pointer}: ${one.message}` : one.message));
  return words.length > 0 ? words.join("\n") : error.message;
}

/** Runs `action`; says `text` when it is done, or why not. Gives its result, or undefined. What was aborted is no failure. */
export async function attempt(action, text = null) {
  try {
    const result = await action();
    if (text !== null) sayDone(typeof text === "function" ? text(result) : text);
    return result;
  } catch (error) {
    if (error.name !== "AbortError") sayFailed(error);
    return undefined;
  }
}

function say(kind, text, link = null) {
  last += 1;
  const same = notices.find((one) => one.kind === kind && one.text === text);
  if (same !== undefined) dropNotice(same);
  const notice = { id: last, kind, text, link, count: (same?.count ?? 0) + 1 };
  notices.push(notice);
  return notice;
}
