// An object that is edited: its JSON text is the truth, a form reads and changes members of it, and every change can be undone.

import { computed, reactive, shallowReactive } from "../core/vue.js";
import { partOfNode, withItem, withPart, withSwapped, withValue, without } from "./json_edit.js";
import { JsonFault, lineOf, nodeAt, pointerOf, readTree } from "./json_tree.js";

const TOGETHER_MS = 1_000;
const KEPT_STEPS = 500;
/** Characters of a JSON value that is edited in the text alone. */
export const LARGE_PART = 20_000;

/**
 * A draft that begins as `text`. Members: `text`, `saved` (the text that the service has, or the one of the beginning), `isChanged`, `value` (of the last
 * text that was JSON), `tree` (null while the text is no JSON), `fault` (`{code, offset, line}` or null), `touched` (pointers that somebody has
 * edited); `get(path)`, `set(path, value)`, `part(path)` and `setPart(path, text)` for JSON texts, `remove`, `insert`, `swap`; `write(text, source)`, `undo()`, `redo()`, `canUndo`, `canRedo`.
 */
export function makeDraft(text) {
  const state = shallowReactive({ text, saved: text, past: [], future: [], source: "", at: 0 });
  const touched = reactive(new Set());
  const read = computed(() => reading(state.text));
  let lastValue = {}; // read before each change, since a computed value is not computed before somebody wants it
  const value = computed(() => {
    if (read.value.tree?.kind === "object") lastValue = JSON.parse(state.text);
    return lastValue;
  });

  /** Null where there is nothing; a large part is not arranged. */
  function part(path) {
    const node = read.value.tree === null ? null : nodeAt(read.value.tree, path);
    if (node === null) return null;
    const isLarge = node.end - node.start > LARGE_PART;
    return isLarge ? state.text.slice(node.start, node.end) : partOfNode(state.text, node);
  }

  function write(next, source = "text") {
    if (next === state.text) return;
    void value.value;
    const isOneChange = source === state.source && Date.now() - state.at < TOGETHER_MS && state.past.length > 0;
    if (!isOneChange) state.past = [...state.past.slice(-KEPT_STEPS), state.text];
    Object.assign(state, { text: next, future: [], source, at: Date.now() });
  }

  function edit(path, change) {
    if (read.value.fault !== null) return;
    touched.add(pointerOf(path));
    write(change(state.text), pointerOf(path));
  }

  function step(from, to) {
    if (state[from].length === 0) return;
    const other = state[from].at(-1);
    Object.assign(state, { [from]: state[from].slice(0, -1), [to]: [...state[to], state.text], text: other, source: "" });
  }

  return reactive({
    text: computed(() => state.text),
    saved: computed(() => state.saved),
    isChanged: computed(() => state.text !== state.saved),
    value,
    tree: computed(() => read.value.tree),
    fault: computed(() => read.value.fault),
    canUndo: computed(() => state.past.length > 0),
    canRedo: computed(() => state.future.length > 0),
    touched,
    get: (path) => path.reduce((one, name) => (Object(one) === one && Object.hasOwn(one, name) ? one[name] : undefined), value.value),
    set: (path, next) => edit(path, (before) => withValue(before, path, next)),
    part,
    setPart: (path, part) => edit(path, (before) => withPart(before, path, part)),
    remove: (path) => edit(path, (before) => without(before, path)),
    insert: (path, index, item) => edit([...path, index], (before) => withItem(before, path, index, item)),
    swap: (path, from, to) => edit([...path, from], (before) => withSwapped(before, path, from, to)),
    write,
    undo: () => step("past", "future"),
    redo: () => step("future", "past"),
    begin: (next) => {
      Object.assign(state, { text: next, saved: next, past: [], future: [], source: "" });
      touched.clear();
    },
    markSaved: (next) => (state.saved = next),
  });
}

function reading(text) {
  try {
    const tree = readTree(text);
    if (tree.kind === "object") return { tree, fault: null };
    return { tree: null, fault: { code: "object", offset: 0, line: 0 } };
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    return { tree: null, fault: { code: error.code, offset: error.offset, line: lineOf(text, error.offset) } };
  }
}
