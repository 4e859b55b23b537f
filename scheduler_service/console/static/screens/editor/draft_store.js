// Drafts that outlive the page: kept by this browser for each job until they are saved or thrown away.

import { session } from "../../core.js";

const PREFIX = "punctual.draft";

/** The name under which drafts of `jobId` are kept; of a new job (null) those that began in the same way (`query` of the address). */
export function draftName(jobId, { from = "", example = "" }) {
  return jobId ?? ` new ${from} ${example}`;
}

/** What is kept under `name`: `{text, saved, etag, at}` with `at` in ms, or null. */
export function keptDraft(name) {
  try {
    const kept = JSON.parse(localStorage.getItem(keyOf(name)));
    return typeof kept?.text === "string" ? kept : null;
  } catch {
    return null;
  }
}

/** Keeps `text`, made from `saved` of the revision `etag`; a browser without room keeps nothing. */
export function keepDraft(name, { text, saved, etag }) {
  try {
    localStorage.setItem(keyOf(name), JSON.stringify({ text, saved, etag, at: Date.now() }));
  } catch {
    // The text stays in the page; only a reload would lose it, and the browser asks before that.
  }
}

/** Forgets the draft under `name`. */
export function dropDraft(name) {
  try {
    localStorage.removeItem(keyOf(name));
  } catch {
    // Nothing was kept.
  }
}

function keyOf(name) {
  return `${PREFIX}.${session.tenant}.${name}`;
}
