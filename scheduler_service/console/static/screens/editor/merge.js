// Two changes of one definition brought together, where they touch different members.

/**
 * How `mine` and `theirs` (JSON values), both made from `base`, go together: `conflicts` are the pointers of what both changed differently, `taken` the paths at which only
 * they changed something. Objects are compared member by member, anything else as a whole.
 */
export function mergeValues(base, mine, theirs) {
  const found = { conflicts: [], taken: [] };
  mergeAt(base, mine, theirs, [], found);
  return found;
}

function mergeAt(base, mine, theirs, path, found) {
  if (isSame(mine, theirs) || isSame(base, theirs)) return;
  if (isSame(base, mine) && !(isMap(mine) && isMap(theirs))) {
    found.taken.push(path);
  } else if (isMap(mine) && isMap(theirs) && isMap(base)) {
    const names = new Set([...Object.keys(mine), ...Object.keys(theirs)]);
    for (const name of names) mergeAt(base[name], mine[name], theirs[name], [...path, name], found);
  } else {
    found.conflicts.push(`/${path.join("/")}`);
  }
}

function isSame(one, other) {
  if (isMap(one) && isMap(other)) {
    const names = Object.keys(one);
    return names.length === Object.keys(other).length && names.every((name) => isSame(one[name], other[name]));
  }
  if (Array.isArray(one) && Array.isArray(other)) return one.length === other.length && one.every((item, index) => isSame(item, other[index]));
  return one === other;
}

function isMap(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
