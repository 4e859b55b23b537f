// What the service says about something that is still being written: asked a moment after the last change, never with an error in the browser's log.

import { call } from "../core/api.js";
import { preferences } from "../core/preferences.js";
import { onUnmounted, shallowReactive, watch } from "../core/vue.js";

const PAUSE_MS = 250;

/**
 * The answer to `question()`: `{path, body}` or `{path, bodyText}`, with a `query` if it has one, null for nothing. Members: `data` and `warnings` of the last answer that was not a problem, `problem`
 * (problem details of the last one, or null), `isBusy`, `isAbsent` (this service has no such route). For `setup` of a component.
 */
export function useSoft(question) {
  const state = shallowReactive({ data: null, problem: null, warnings: [], isBusy: false, isAbsent: false });
  let timer = 0;
  let aborter = null;

  async function ask(asked) {
    const own = new AbortController();
    aborter = own;
    try {
      const { path, query, body, bodyText } = asked;
      take(await call("POST", path, { query: { ...query, soft: true }, body, bodyText, signal: own.signal }));
    } catch (error) {
      if (error.status === 404) state.isAbsent = true;
      else if (error.problem) state.problem = error.problem;
    } finally {
      if (own === aborter) state.isBusy = false;
    }
  }

  function take(answer) {
    state.problem = answer.data.problem ?? null;
    if (state.problem !== null) return;
    state.data = answer.data;
    state.warnings = answer.warnings;
  }

  function later(asked) {
    clearTimeout(timer);
    aborter?.abort();
    state.isBusy = asked !== null && !state.isAbsent;
    if (state.isBusy) timer = setTimeout(() => ask(asked), PAUSE_MS);
    else Object.assign(state, { data: null, problem: null, warnings: [] });
  }

  const stop = watch(() => JSON.stringify([question(), preferences.language]), () => later(question()), { immediate: true });
  onUnmounted(() => {
    stop();
    clearTimeout(timer);
    aborter?.abort();
  });
  return state;
}
