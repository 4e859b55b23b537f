// Long tables: the rows that are seen first are drawn first.

import { counted } from "./api.js";
import { computed, ref, watch } from "./vue.js";

// More than a screen of 900 pixels shows of the densest table.
const FIRST_ROWS = 20;
const FRAME_MS = 100;

/** Of `rows()` the first twenty until the browser has drawn them, then all (computed). For `setup` of a component. */
export function useGradually(rows) {
  const isWhole = ref(false);
  watch(
    () => rows().length > 0,
    async (hasRows) => {
      if (!hasRows || isWhole.value) return;
      await counted(untilDrawn());
      isWhole.value = true;
    },
    { immediate: true },
  );
  return computed(() => (isWhole.value ? rows() : rows().slice(0, FIRST_ROWS)));
}

/** Until the next frame is drawn; a tab that is not seen has none, and waits a moment. */
function untilDrawn() {
  return new Promise((resolve) => {
    setTimeout(resolve, FRAME_MS);
    requestAnimationFrame(() => setTimeout(resolve));
  });
}
