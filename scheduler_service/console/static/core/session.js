// Who is signed in, and what that role may do; the API refuses the rest whatever is shown.

import { call, get, onUnauthorized } from "./api.js";
import { nextTick, reactive } from "./vue.js";

const RANKS = ["viewer", "operator", "editor", "admin"];

/** `role` null: nobody is signed in. `service`, `labels`: the part of the tenant that the key is for. `needsKey`: the service has a key; without one everybody on its machine is an admin. */
export const session = reactive({ isKnown: false, role: null, name: "", tenant: "", service: null, labels: [], needsKey: false, expiresAt: null });

/** What the names of drafts in the browser's storage begin with. */
export const DRAFTS = "punctual.draft.";

/** Whether the role includes `needed` (viewer, operator, editor, admin). */
export function may(needed) {
  return RANKS.indexOf(session.role) >= RANKS.indexOf(needed);
}

/** Asks who is signed in. Throws ApiError. */
export async function readSession() {
  Object.assign(session, await get("session"), { isKnown: true });
}

/** Exchanges a key for a session. Throws ApiError: 401 for a wrong key, 429 after too many. */
export async function signIn(key) {
  Object.assign(session, (await call("POST", "session", { body: { key } })).data, { isKnown: true });
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
  onUnauthorized.call = () => {
    session.role = null;
    session.needsKey = true;
  };
}
