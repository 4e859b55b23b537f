// What all rows of the waterfall are made with.

/** A moment of the API in ms; null stays. */
export function msOf(text) {
  return text === null || text === undefined ? null : Date.parse(text);
}

/** A row; `made` has what it is made of. */
export function rowOf(key, kind, depth, tone, from, to, bars, made) {
  return { key, kind, depth, tone, from, to, bars, ...made };
}
