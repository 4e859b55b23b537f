// Rows that are chosen and the one that the keyboard is at: j and k move, x chooses, a goes to the actions, Enter opens.

import { useKeys } from "./keys.js";
import { nextTick, reactive, watch } from "./vue.js";

/**
 * The selection among rows: `keysOf()` gives the keys of the rows that are shown, `open(key)` goes to one. Members: `chosen` (a Set of keys, over
 * pages), `at` (index of the keyboard's row, -1 for none), `toggle(key)`, `toggleAll()`, `clear()`.
 */
export function useSelection(keysOf, open) {
  const state = reactive({ chosen: new Set(), at: -1, toggle, toggleAll, clear: () => state.chosen.clear() });

  function toggle(key) {
    if (!state.chosen.delete(key)) state.chosen.add(key);
  }

  function toggleAll() {
    const keys = keysOf();
    const isAll = keys.every((key) => state.chosen.has(key));
    for (const key of keys) isAll ? state.chosen.delete(key) : state.chosen.add(key);
  }

  async function move(step) {
    state.at = Math.min(Math.max(state.at + step, 0), keysOf().length - 1);
    await nextTick();
    document.querySelector("tr[aria-current=true]")?.scrollIntoView({ block: "nearest" });
  }

  const present = () => keysOf()[state.at];
  useKeys([
    { keys: "j", text: "keys.next", run: () => move(1) },
    { keys: "k", text: "keys.previous", run: () => move(-1) },
    { keys: "a", text: "keys.actions", run: () => document.querySelector(".bulk .button:not(.bare)")?.focus() },
    { keys: "x", text: "keys.choose", run: () => present() !== undefined && toggle(present()) },
    { keys: "Enter", text: "keys.open", run: (event) => present() !== undefined && !isControl(event.target) && open(present()) },
  ]);
  watch(() => keysOf().join("\n"), () => (state.at = -1));
  return state;
}

function isControl(target) {
  const control = target.closest?.("a, button, summary");
  if (control) control.click();
  return Boolean(control);
}
