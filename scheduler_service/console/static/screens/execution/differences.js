// Two executions side by side: step by step, and where their answers differ first. Pure.

/**
 * What to compare of the last attempts of `present` and `past` (executions in full): `{steps, total}`. A step has `index`, `present` and `past` (the
 * API's step, or null), `request` and `response` (of `firstDifference`; null: the same, or one of them is not there). `total` has both durations in ms.
 */
export function compareExecutions(present, past) {
  const [own, other] = [lastSteps(present), lastSteps(past)];
  const indexes = [...new Set([...own.keys(), ...other.keys()])].sort((one, two) => one - two);
  return {
    steps: indexes.map((index) => compareStep(index, own.get(index) ?? null, other.get(index) ?? null)),
    total: { present: durationOf(present), past: durationOf(past) },
  };
}

/**
 * The first place at which two JSON values differ: `{path, present, past}`, `path` as JSONPath; null where they are equal. A member that is missing
 * is undefined.
 */
export function firstDifference(present, past, path = "$") {
  if (Object.is(present, past)) return null;
  if (!isBranch(present) || !isBranch(past) || Array.isArray(present) !== Array.isArray(past)) return { path, present, past };
  for (const key of new Set([...Object.keys(past), ...Object.keys(present)])) {
    const found = firstDifference(present[key], past[key], path + segmentOf(key, Array.isArray(present)));
    if (found !== null) return found;
  }
  return null;
}

function compareStep(index, present, past) {
  const isBoth = present !== null && past !== null;
  return {
    index,
    present,
    past,
    request: isBoth ? compareBodies(present.request, past.request) : null,
    response: isBoth ? compareBodies(present.response, past.response) : null,
  };
}

function compareBodies(present, past) {
  if ((present?.body ?? null) === (past?.body ?? null)) return null;
  return firstDifference(valueOf(present?.body), valueOf(past?.body));
}

function valueOf(body) {
  try {
    return JSON.parse(body);
  } catch {
    return body ?? undefined;
  }
}

function lastSteps(execution) {
  const steps = execution.attempts.at(-1)?.steps ?? [];
  return new Map(steps.filter((step) => step.part === null).map((step) => [step.index, step]));
}

function durationOf({ startedAt, endedAt }) {
  return startedAt === null || endedAt === null ? null : Date.parse(endedAt) - Date.parse(startedAt);
}

function isBranch(value) {
  return value !== null && typeof value === "object";
}

function segmentOf(key, isIndex) {
  if (isIndex) return `[${key}]`;
  return /^[A-Za-z_]\w*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
}
