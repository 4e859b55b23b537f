// What a screen shows of the service: loaded, kept, asked again while somebody looks, and dropped when the question changes.

import { call, connection } from "./api.js";
import { preferences } from "./preferences.js";
import { route } from "./router.js";
import { onUnmounted, shallowReactive, watch } from "./vue.js";

const FASTEST = 1_000;
const SLOWEST = 8_000;
const SLOWER = 1.6;
// An answer of so many characters is asked for every second at most, larger ones more rarely.
const HEAVY = 100_000;

/**
 * The answer to `question()`, which gives `{path, query}` or null (nothing is asked). It is asked anew whenever the question changes;
 * an older request is then aborted. With `live` it is asked again after one second while answers change, slower up to eight seconds
 * while they do not, and never while the tab is hidden. `keeps`: the last answer stays until that to another question has come, as in a list
 * whose filter is typed into. `least`: the shortest pause (ms) between questions, for those that are dear.
 *
 * Nothing is asked while the address is another place than the one at which this began: the query there is that of the next screen.
 *
 * Asked again, too, when the reader chooses another language: some answers have words.
 *
 * Members: `data`, `warnings`, `etag`, `error` (of the last question, while `data` may be older), `isLoading` (nothing to show
 * yet), `isBusy`, `loadedAt` (ms), `reload()`. For `setup` of a component.
 */
export function useResource(question, { live = false, keeps = false, least = FASTEST } = {}) {
  const state = shallowReactive({
    data: null,
    warnings: [],
    etag: null,
    error: null,
    isLoading: false,
    isBusy: false,
    loadedAt: 0,
    reload: () => load(),
  });
  const place = placeNow();
  const isHere = () => placeNow() === place;
  let aborter = null;
  let timer = 0;
  let pause = least;
  let text = null;

  async function load() {
    clearTimeout(timer);
    if (!isHere()) return void wait();
    aborter?.abort();
    const asked = question();
    if (asked === null) return;
    const own = new AbortController();
    aborter = own;
    state.isBusy = true;
    state.isLoading = state.data === null;
    try {
      const answer = await call("GET", asked.path, { query: asked.query, signal: own.signal });
      if (own === aborter) take(answer);
    } catch (error) {
      if (own === aborter) state.error = error;
      pause = SLOWEST;
    } finally {
      if (own === aborter) end();
    }
  }

  function take(answer) {
    const isSame = answer.text === text;
    pause = isSame ? Math.min(pause * SLOWER, SLOWEST) : Math.min(SLOWEST, least * Math.max(1, answer.text.length / HEAVY));
    text = answer.text;
    if (!isSame) state.data = answer.data;
    state.warnings = answer.warnings;
    state.etag = answer.etag;
    state.error = null;
    state.loadedAt = Date.now();
  }

  function end() {
    aborter = null;
    state.isBusy = false;
    state.isLoading = false;
    wait();
  }

  function wait() {
    if (live) timer = setTimeout(again, pause);
  }

  function again() {
    if (document.hidden) return;
    load();
  }

  function onVisible() {
    if (!document.hidden && live && aborter === null) load();
  }

  function forget() {
    text = null;
    pause = least;
    if (!keeps) state.data = null;
    state.error = null;
  }

  document.addEventListener("visibilitychange", onVisible);
  const stopAsking = watch(
    (last) => (isHere() ? JSON.stringify(question()) : last),
    () => {
      forget();
      load();
    },
    { immediate: true },
  );
  const stopWords = watch(() => preferences.language, () => load());
  const stopReturn = watch(
    () => connection.isReachable,
    (isReachable) => isReachable && state.error !== null && aborter === null && load(),
  );
  onUnmounted(() => {
    stopAsking();
    stopReturn();
    stopWords();
    clearTimeout(timer);
    aborter?.abort();
    document.removeEventListener("visibilitychange", onVisible);
  });
  return state;
}

function placeNow() {
  return route.segments.join("/");
}
