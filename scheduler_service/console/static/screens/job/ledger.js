// The ledger of a month: what became of each planned firing, read newest first and at most so many.

import { call, onUnmounted, pathOf, shallowReactive, watch } from "../../core.js";

const PAGE = 500;
const MOST_PAGES = 6;

/**
 * The lines of the ledger between two moments (ms), which `span()` gives as `{from, to}`. Members: `lines`, newest first; `knownFrom`: the moment (ms) from which
 * on all are there, later than `from` where there are too many; `isBusy`, `error`, `loadedAt` (ms), `reload()`. For `setup` of a component.
 */
export function useLedger(jobId, span) {
  const state = shallowReactive({ lines: [], knownFrom: 0, isBusy: true, error: null, loadedAt: 0 });
  let aborter = null;
  async function load() {
    aborter?.abort();
    const own = new AbortController();
    aborter = own;
    Object.assign(state, { isBusy: true, error: null });
    try {
      const read = await readPages(jobId, span(), own.signal);
      if (own === aborter) Object.assign(state, read, { loadedAt: Date.now() });
    } catch (error) {
      if (!own.signal.aborted) state.error = error;
    } finally {
      if (own === aborter) state.isBusy = false;
    }
  }
  watch(() => JSON.stringify(span()), load, { immediate: true });
  onUnmounted(() => aborter?.abort());
  return Object.assign(state, { reload: load });
}

async function readPages(jobId, { from, to }, signal) {
  const lines = [];
  let cursor = null;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const query = { from: new Date(from).toISOString(), to: new Date(to - 1).toISOString(), limit: PAGE, cursor };
    const { data } = await call("GET", `${pathOf("jobs", jobId)}/firings`, { query, signal });
    lines.push(...data.items);
    cursor = data.nextCursor;
    if (cursor === null) return { lines, knownFrom: from };
  }
  return { lines, knownFrom: new Date(lines.at(-1).plannedAt).getTime() };
}
