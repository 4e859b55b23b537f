// Why an execution ended as it did, in words.

import { hasText, t } from "../core/language.js";
import { showUnseen } from "../core/unseen.js";

/** The reason of an execution as a sentence; one that somebody wrote stays as it is, "" where there is none. */
export function reasonText(reason) {
  if (reason === null || reason === undefined) return "";
  return hasText(`reason.${reason}`) ? t(`reason.${reason}`) : showUnseen(reason);
}

/** What set an execution off, and by whom: `by hand · Anna`; nobody triggers what a timer fires. */
export function triggerText({ triggeredBy, triggeredByName }) {
  const what = t(`triggeredBy.${triggeredBy}`);
  return triggeredByName ? `${what} · ${showUnseen(triggeredByName)}` : what;
}
