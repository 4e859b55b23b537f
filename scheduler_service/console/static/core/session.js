// Who is signed in, and what that role may do; the API refuses the rest whatever is shown.

import { call, get, onUnauthorized } from "./api.js";
import { nextTick, reactive } from "./vue.js";

const RANKS = ["viewer", "operator", "editor", "admin"];

/**
 * `role` null: nobody is signed in. `service`, `labels`: the part of the tenant that the key is for. `needsKey`: the service has a key; without one
 * everybody on its machine is an admin. `isOfProxy`: a proxy says who it is. `hasEnded`: the service has refused the session while it was used.
 * `isAsked`: the sign-in is shown to who is signed in by a proxy, and has a key too.
 */
export const session = reactive({
  isKnown: false,
  role: null,
  name: "",
  tenant: "",
  service: null,
  labels: [],
  needsKey: false,
  isOfProxy: false,
  expiresAt: null,
  hasEnded: false,
  isAsked: false,
});

/** What the names of drafts in the browser's storage begin with. */
export const DRAFTS = "punctual.draft.";

/**
 * Whether the role includes `needed` (viewer, operator, editor, admin), and the key reaches as far: "jobs" (every key, for the jobs that it sees),
 * "service" (not those for labels), "tenant" (those of a whole tenant), "platform" (those of the whole tenant default). The service has the same
 * table for its routes (docs/security.md).
 */
export function may(needed, reach = "jobs") {
  return RANKS.indexOf(session.role) >= RANKS.indexOf(needed) && reaches(reach);
}

/** Whether the key reaches so far, whatever its role. */
export function reaches(reach) {
  if (reach === "jobs") return true;
  const isWhole = session.labels.length === 0 && (reach === "service" || !session.service);
  return isWhole && (reach !== "platform" || session.tenant === "default");
}

/** Asks who is signed in. Throws ApiError. */
export async function readSession() {
  takeSession(await get("session"));
}

/** Exchanges a key for a session. Throws ApiError: 401 for a wrong key, 429 after too many. */
export async function signIn(key) {
  takeSession((await call("POST", "session", { body: { key } })).data);
}

/** Ends the session, and removes the drafts from this browser: whoever uses it next reads none. Throws ApiError. */
export async function signOut() {
  await call("DELETE", "session");
  await readSession();
  // An editor keeps its draft when it leaves the page.
  await nextTick();
  draftKeys().forEach((key) => localStorage.removeItem(key));
}

/** The names of drafts in the browser's storage. */
export function draftKeys() {
  try {
    return Object.keys(localStorage).filter((key) => key.startsWith(DRAFTS));
  } catch {
    return [];
  }
}

/** From now on an answer 401 shows the sign-in. */
export function startSession() {
  onUnauthorized.call = () => Object.assign(session, { role: null, needsKey: true, hasEnded: session.hasEnded || session.role !== null });
}

function takeSession(answer) {
  Object.assign(session, answer, { isKnown: true, hasEnded: false, isAsked: false });
}
