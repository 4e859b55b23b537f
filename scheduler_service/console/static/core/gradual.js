// Long tables: the rows that are seen first are drawn first.

import { counted } from "./api.js";
import { computed, ref, watch } from "./vue.js";

// So much of the window is above the rows of every list.
const HEAD_PIXELS = 130;
const FRAME_MS = 100;

/**
 * Of `rows()` as many as the window shows until the browser has drawn them, then all (computed); none of them is less than `pixels` high. For
 * `setup` of a component.
 */
export function useGradually(rows, pixels) {
  const isWhole = ref(false);
  const first = Math.ceil(Math.max(0, innerHeight - HEAD_PIXELS) / pixels);
  watch(
    () => rows().length > 0,
    async (hasRows) => {
      if (!hasRows || isWhole.value) return;
      await counted(untilDrawn());
      isWhole.value = true;
    },
    { immediate: true },
  );
  return computed(() => (isWhole.value ? rows() : rows().slice(0, first)));
}

/** Until the next frame is drawn; a tab that is not seen has none, and waits a moment. */
function untilDrawn() {
  return new Promise((resolve) => {
    setTimeout(resolve, FRAME_MS);
    requestAnimationFrame(() => setTimeout(resolve));
  });
}
