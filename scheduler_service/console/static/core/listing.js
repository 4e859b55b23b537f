// A list with pages by cursor, whose filters live in the address.

import { useShown } from "./gradual.js";
import { useResource } from "./resource.js";
import { pushQuery, route } from "./router.js";
import { computed, ref, watch } from "./vue.js";

/**
 * A page of the list at `path`; `filters()` gives its query, or null: nothing is asked. The cursors of the pages before are kept, so that one can go back; a change
 * of filters begins at the first page. Members: `resource` (of useResource), `items`, `page` (from 1), `hasNext`, `next()`, `back()`,
 * `isShown` (whether the first rows, or why there are none, have been shown).
 */
export function useListing(path, filters, { limit = 50, live = true } = {}) {
  const cursors = ref([null]);
  const key = () => JSON.stringify(filters());
  const filtered = ref(key());
  watch(key, (value) => {
    filtered.value = value;
    cursors.value = [null];
  });
  const resource = useResource(
    () => filters() && { path: typeof path === "function" ? path() : path, query: { ...filters(), limit, cursor: cursors.value.at(-1) } },
    { live, keeps: true },
  );
  return {
    resource,
    isShown: useShown(() => resource.data !== null || resource.error !== null),
    items: computed(() => resource.data?.items ?? []),
    page: computed(() => cursors.value.length),
    hasNext: computed(() => Boolean(resource.data?.nextCursor)),
    next: () => (cursors.value = [...cursors.value, resource.data.nextCursor]),
    back: () => (cursors.value = cursors.value.slice(0, -1)),
  };
}

/** `question` once the first rows of `listing` have been shown, and null before: what is not a row does not delay rows. */
export function behind(listing, question) {
  return listing.isShown.value ? question : null;
}

/** A filter that lives in the address: `[value, choose]`, "" where it is not given. */
export function queryValue(name) {
  return [computed(() => route.query[name] ?? ""), (value) => pushQuery({ [name]: value })];
}
