// Where the reader is: the part of the address after `#`, as a path and a query; the filters of a list live there.

import { shallowReactive } from "./vue.js";

/** The present place: `segments` (decoded), `path` (as written), `query` (an object of strings; a name that repeats is an array). */
export const route = shallowReactive(readPlace());

/** The link to a place, for `href`: `placeOf("/jobs", {state: "active"})`. Null and "" are left out. */
export function placeOf(path, query = {}) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "" && one !== false) parameters.append(name, String(one));
    }
  }
  const text = parameters.toString();
  return `#${path}${text === "" ? "" : `?${text}`}`;
}

/** The link to a place with an id in it: `linkTo("jobs", jobId)`. */
export function linkTo(...segments) {
  return `#/${segments.map((segment) => encodeURIComponent(segment)).join("/")}`;
}

/** Goes to a place, with an entry in the browser's history. */
export function navigate(place) {
  if (place === location.hash) return;
  history.pushState(null, "", place);
  followPlace();
}

/** Goes to a place in the present one's stead, without an entry in the browser's history: another name of the same. */
export function replacePlace(place) {
  history.replaceState(null, "", place);
  followPlace();
}

/** Changes members of the query in place: while somebody types. */
export function replaceQuery(changes) {
  replacePlace(placeOf(route.path, { ...route.query, ...changes }));
}

/** The same with an entry: a choice that one may want to take back. */
export function pushQuery(changes) {
  navigate(placeOf(route.path, { ...route.query, ...changes }));
}

/** The values of a member of the query, as an array. */
export function valuesOf(name) {
  const value = route.query[name];
  return value === undefined ? [] : [value].flat();
}

/** Asks `guard` (a function that gives a promise of whether one may leave) before a link is followed, until the returned function is called. */
export function guardLeaving(guard) {
  leaving.guard = guard;
  return () => {
    if (leaving.guard === guard) leaving.guard = null;
  };
}

/** Follows links and the browser's own buttons from now on. */
export function startRouter() {
  addEventListener("popstate", followPlace);
  addEventListener("hashchange", followPlace);
  document.addEventListener("click", onClick);
}

const leaving = { guard: null };

function onClick(event) {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const link = event.target.closest?.("a[href^='#']");
  if (link === null || link === undefined || link.target !== "") return;
  event.preventDefault();
  follow(link.getAttribute("href"));
}

async function follow(place) {
  if (leaving.guard !== null && !(await leaving.guard())) return;
  navigate(place);
}

function followPlace() {
  Object.assign(route, readPlace());
}

function readPlace() {
  // The overview is the root; whoever writes its name comes to it, too.
  const text = location.hash.slice(1).replace(/^\/overview(?=$|[/?])/, "/").replace(/^\/{2,}/, "/") || "/";
  const [path, search = ""] = text.split(/\?(.*)/s);
  const query = {};
  for (const [name, value] of new URLSearchParams(search)) {
    query[name] = name in query ? [query[name], value].flat() : value;
  }
  return { path, segments: path.split("/").filter(Boolean).map(decode), query };
}

function decode(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
