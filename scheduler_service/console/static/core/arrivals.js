// Rows that do not jump: new ones wait behind a button, those that are shown change in their place.

import { computed, shallowRef, watch } from "./vue.js";

/**
 * The rows of a live list in the order in which they were first shown. `items()` gives the latest answer's rows, or null while another list is
 * waited for; `keyOf(row)` names one; `about()` names the list (its filters and page): when that changes all rows are taken at once.
 * Members (computed): `rows`, `newCount` (rows of the latest answer that are not shown), `gone` (a Set of the keys that are shown and fit no more);
 * `show()` takes the latest answer. For `setup` of a component.
 */
export function useArrivals(items, keyOf, about) {
  const shown = shallowRef({ keys: [], known: new Map() });
  let wanted = true;

  function take(rows) {
    const known = new Map(rows.map((row) => [keyOf(row), row]));
    shown.value = { keys: [...known.keys()], known };
  }

  function refresh(rows) {
    const { keys, known } = shown.value;
    const fresh = new Map(known);
    for (const row of rows) if (known.has(keyOf(row))) fresh.set(keyOf(row), row);
    shown.value = { keys, known: fresh };
  }

  watch(about, () => (wanted = true));
  watch(
    items,
    (rows) => {
      if (rows === null) return;
      if (wanted || shown.value.keys.length === 0) take(rows);
      else refresh(rows);
      wanted = false;
    },
    { immediate: true },
  );
  const newCount = computed(() => (items() ?? []).filter((row) => !shown.value.known.has(keyOf(row))).length);
  const gone = computed(() => {
    const present = new Set((items() ?? []).map(keyOf));
    // The last ones may only have been pushed off the page by new ones.
    return new Set(shown.value.keys.slice(0, shown.value.keys.length - newCount.value).filter((key) => !present.has(key)));
  });
  return {
    rows: computed(() => shown.value.keys.map((key) => shown.value.known.get(key))),
    newCount,
    gone,
    show: () => take(items() ?? []),
  };
}
