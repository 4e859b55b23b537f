// What is seen first is drawn first: the rows that the window shows, and all else when the browser has shown them.

import { counted } from "./api.js";
import { computed, ref, watch } from "./vue.js";

// So much of the window is above the rows of every list.
const HEAD_PIXELS = 130;
const HIDDEN_MS = 100;
const LONGEST_MS = 2_000;

/**
 * Whether what is there since `isThere()` has been shown by the browser (a ref). What else a page asks for and draws waits for that: service and
 * browser would otherwise work at it while the first rows are drawn. For `setup` of a component.
 */
export function useShown(isThere) {
  const isShown = ref(false);
  watch(
    () => isThere(),
    async (isDrawn) => {
      if (!isDrawn || isShown.value) return;
      await counted(untilShown());
      isShown.value = true;
    },
    { immediate: true },
  );
  return isShown;
}

/**
 * Of `rows()` as many as the window shows until the browser has shown them, then all (computed); none of them is less than `pixels` high. For
 * `setup` of a component.
 */
export function useGradually(rows, pixels) {
  const isWhole = useShown(() => rows().length > 0);
  const first = Math.ceil(Math.max(0, innerHeight - HEAD_PIXELS) / pixels);
  return computed(() => (isWhole.value ? rows() : rows().slice(0, first)));
}

/**
 * Until what is drawn now is on the screen: the browser tells that of the first frame with anything in it; after later ones the next frame
 * begins. A tab that is not seen has no frames, and waits a moment.
 */
export function untilShown() {
  return new Promise((resolve) => {
    setTimeout(resolve, document.hidden ? HIDDEN_MS : LONGEST_MS);
    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => whenPainted(resolve))));
  });
}

/** Calls `go` when the page has shown anything. The threads that paint its first frame need 30 ms after the page has handed it over. */
function whenPainted(go) {
  const observer = new PerformanceObserver((paints) => {
    if (paints.getEntriesByName("first-contentful-paint").length === 0) return;
    observer.disconnect();
    go();
  });
  observer.observe({ type: "paint", buffered: true });
}
