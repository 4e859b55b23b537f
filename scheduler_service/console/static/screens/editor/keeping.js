// Nothing typed is lost: the draft is kept by the browser while it differs, and whoever leaves is asked.

import { confirm, guardLeaving, onUnmounted, t, watch } from "../../core.js";
import { dropDraft, keepDraft } from "./draft_store.js";

const PAUSE_KEEPING_MS = 300;

/** Keeps the draft of `editor` for as long as the screen lives, and asks before a link leaves it. For `setup`. */
export function useKeeping({ draft, state }) {
  let timer = 0;

  function keep() {
    clearTimeout(timer);
    timer = 0;
    if (!state.isReady) return;
    if (draft.isChanged) keepDraft(state.name, { text: draft.text, saved: draft.saved, etag: state.etag });
    else dropDraft(state.name);
  }

  function keepSoon() {
    clearTimeout(timer);
    timer = setTimeout(keep, PAUSE_KEEPING_MS);
  }

  const stopWatching = watch(() => [draft.text, draft.saved, state.isReady], keepSoon);
  const stopGuarding = guardLeaving(async () => {
    keep();
    if (!draft.isChanged) return true;
    return confirm({ title: t("editor.leave"), text: t("editor.leaveText"), action: t("editor.leaveAction") });
  });
  // Also what is kept already: another tab may have taken it over.
  addEventListener("pagehide", keep);
  onUnmounted(() => {
    keep();
    stopWatching();
    stopGuarding();
    removeEventListener("pagehide", keep);
  });
}
