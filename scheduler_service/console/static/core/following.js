// Parts of a page that are asked for again when something else has moved, instead of each by its own clock.

import { onUnmounted, watch } from "./vue.js";

/** Reloads `resource` when what `source()` gives changes, at most once in `pause` ms; the last change is never lost. For `setup` of a component. */
export function reloadWith(source, resource, pause) {
  let timer = 0;
  watch(
    () => JSON.stringify(source()),
    () => {
      clearTimeout(timer);
      // What has not come yet is on its way.
      const since = resource.loadedAt || Date.now();
      timer = setTimeout(resource.reload, Math.max(0, since + pause - Date.now()));
    },
  );
  onUnmounted(() => clearTimeout(timer));
}
