// Copies a text, and says so.

import { t } from "./language.js";
import { sayDone } from "./notices.js";

/** Puts `text` into the clipboard; outside of HTTPS and loopback browsers have only the older way. */
export async function copy(text) {
  if (navigator.clipboard !== undefined) await navigator.clipboard.writeText(text);
  else copyBySelection(text);
  sayDone(t("copied"));
}

function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "unseen";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
