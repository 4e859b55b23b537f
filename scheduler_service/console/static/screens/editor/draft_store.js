// Drafts that outlive the page: kept by this browser for each job until they are saved or thrown away.

import { session } from "../../core.js";

const PREFIX = "punctual.draft";
const NEW = " new";

/** What is kept for `jobId` (null: a new job): `{text, saved, etag, at}` with `at` in ms, or null. */
export function keptDraft(jobId) {
  try {
    const kept = JSON.parse(localStorage.getItem(keyOf(jobId)));
    return typeof kept?.text === "string" ? kept : null;
  } catch {
    return null;
  }
}

/** Keeps `text`, made from `saved` of the revision `etag`; a browser without room keeps nothing. */
export function keepDraft(jobId, { text, saved, etag }) {
  try {
    localStorage.setItem(keyOf(jobId), JSON.stringify({ text, saved, etag, at: Date.now() }));
  } catch {
    // The text stays in the page; only a reload would lose it, and the browser asks before that.
  }
}

/** Forgets the draft of `jobId`. */
export function dropDraft(jobId) {
  try {
    localStorage.removeItem(keyOf(jobId));
  } catch {
    // Nothing was kept.
  }
}

function keyOf(jobId) {
  return `${PREFIX}.${session.tenant}.${jobId ?? NEW}`;
}
