// Drafts that outlive the page: kept by this browser for each job and tab until they are saved or thrown away.

import { DRAFTS, draftKeys, session } from "../../core.js";

const TAB = "punctual.tab";
const MOST = 20;
const OLDEST_MS = 30 * 24 * 3_600_000;
const own = { tab: null };

/** The name under which drafts of `jobId` are kept; of a new job (null) those that began in the same way (`query` of the address). */
export function draftName(jobId, { from = "", example = "" }) {
  return jobId ?? ` new ${from} ${example}`;
}

/** What this tab has kept under `name`: `{text, saved, etag, at}` with `at` in ms, or null. */
export function keptDraft(name) {
  return read(keyOf(name));
}

/** The newest draft under `name` of another tab, with its `key`, or null: that tab may be closed, or may still be open. */
export function otherDraft(name) {
  const others = all().filter((one) => one.name === name && one.tenant === session.tenant && one.key !== keyOf(name));
  return others.sort((one, other) => other.at - one.at)[0] ?? null;
}

/** Keeps `text`, made from `saved` of the revision `etag`; a browser without room keeps nothing. Of all drafts the newest twenty of thirty days stay. */
export function keepDraft(name, { text, saved, etag }) {
  try {
    localStorage.setItem(keyOf(name), JSON.stringify({ name, tenant: session.tenant, text, saved, etag, at: Date.now() }));
    const drafts = all().sort((one, other) => other.at - one.at);
    for (const [index, one] of drafts.entries()) if (index >= MOST || Date.now() - one.at > OLDEST_MS) dropKey(one.key);
  } catch {
    // The text stays in the page; only a reload would lose it, and the browser asks before that.
  }
}

/** Forgets the draft of this tab under `name`. */
export function dropDraft(name) {
  dropKey(keyOf(name));
}

/** Forgets the draft with this key. */
export function dropKey(key) {
  try {
    localStorage.removeItem(key);
  } catch {
    // Nothing was kept.
  }
}

function all() {
  return draftKeys().map((key) => ({ ...read(key), key })).filter((one) => one.text !== undefined);
}

function read(key) {
  try {
    const kept = JSON.parse(localStorage.getItem(key));
    return typeof kept?.text === "string" ? kept : null;
  } catch {
    return null;
  }
}

function keyOf(name) {
  own.tab ??= takeTab();
  return `${DRAFTS}${session.tenant}.${own.tab}.${name}`;
}

/** The id of this tab. Between two pages the browser has it; while a page is shown it has not, since a copy of the tab would get it too. */
function takeTab() {
  const made = Array.from(crypto.getRandomValues(new Uint8Array(8)), (one) => one.toString(16).padStart(2, "0")).join("");
  try {
    const tab = sessionStorage.getItem(TAB) ?? made;
    const take = () => sessionStorage.removeItem(TAB);
    take();
    addEventListener("pagehide", () => sessionStorage.setItem(TAB, tab));
    addEventListener("pageshow", take);
    return tab;
  } catch {
    return made;
  }
}
