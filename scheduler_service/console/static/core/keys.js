// Keys of the keyboard: which do what at the moment, for the page of `?` and for everyone without a mouse.

import { onUnmounted, shallowReactive } from "./vue.js";

/** What is bound at the moment: `{keys, text, run}`, `keys` as "j", "Ctrl+k" or two after each other as "g j". */
export const bindings = shallowReactive([]);

/** Binds keys for as long as a component lives. `list` has `{keys, text, run}`; `text` is the key of a text for the reader. */
export function useKeys(list) {
  bindings.push(...list);
  onUnmounted(() => {
    for (const one of list) bindings.splice(bindings.indexOf(one), 1);
  });
}

/** Listens to the keyboard from now on. Keys typed into fields and dialogs are theirs, but for those with Ctrl. */
export function startKeys() {
  let first = "";
  addEventListener("keydown", (event) => {
    const pressed = nameOf(event);
    if (pressed === null || (isTyping(event.target) && !pressed.startsWith("Ctrl+"))) return;
    const found = findBinding(`${first} ${pressed}`.trim()) ?? findBinding(pressed);
    first = found === undefined && startsTwo(pressed) ? pressed : "";
    if (found === undefined) return;
    event.preventDefault();
    found.run(event);
  });
}

function findBinding(keys) {
  return bindings.findLast((one) => one.keys === keys);
}

function startsTwo(pressed) {
  return bindings.some((one) => one.keys.startsWith(`${pressed} `));
}

function nameOf(event) {
  if (event.altKey || event.isComposing || ["Control", "Shift", "Meta"].includes(event.key)) return null;
  return event.ctrlKey || event.metaKey ? `Ctrl+${event.key.toLowerCase()}` : event.key;
}

function isTyping(target) {
  return target.closest?.("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable], dialog[open]") != null;
}
