// What happened in an execution as the rows of a waterfall: pure, from the API's answer.
//
// A row: `key`, `kind` (start, attempt, step, part, running, lease, queue, checks, feedback, retry, notification), `depth`, `tone`, `from`, `to` (ms;
// null while it goes on), `bars`, and what it is made of (`attempt`, `step` …). A bar: `kind` (work, wait or frame), `from`, `to`, `tone`, `words` (the key of a
// text) and `isCrowded` (others lie upon it).

import { stepRows } from "./step_rows.js";
import { msOf, rowOf } from "./times.js";

const OPEN_STATES = new Set(["scheduled", "enqueued"]);
const RUNNING_STATES = new Set(["processing", "failed"]);

const SHOWN_TICKS = 80;
// A wait before the start is shown up to the length of the run, and for so long at least.
const SHOWN_WAIT_MS = 20;

/**
 * The rows of `execution` in order; `chain` is `{steps, isAsync, hasCheck}` of its definition, or null where that is not known. `isPart`:
 * there may be attempts between those that are given, so each has its `requestCounts` for a number.
 */
export function rowsOf(execution, chain, isPart = false) {
  return [
    ...startRows(execution),
    ...execution.attempts.flatMap((attempt, index) => attemptRows(execution, attempt, execution.attempts[index + 1], chain, isPart)),
    ...execution.notifications.map(notificationRow),
  ];
}

/** Whether the execution goes on. */
export function isLive(execution) {
  return OPEN_STATES.has(execution.state) || RUNNING_STATES.has(execution.state);
}

/** `{from, to}` (ms) of the execution itself, and `all` with its notifications; `now` is the end of what goes on. */
export function spansOf(execution, rows, now) {
  const planned = msOf(execution.plannedAt);
  const started = msOf(execution.startedAt) ?? planned;
  const end = msOf(execution.endedAt) ?? Math.max(now, started, ...ends(rows.filter((row) => row.kind !== "notification")));
  const last = Math.max(end, ...ends(rows));
  const wait = Math.min(started - planned, Math.max(end - started, SHOWN_WAIT_MS));
  return { run: { from: started - wait, to: end }, all: { from: Math.min(planned, started), to: last } };
}

/** The step that made the execution fail: the last one with an error of its last attempt; null where there is none. */
export function failingRow(rows) {
  const attempts = rows.filter((row) => row.kind === "attempt");
  const last = attempts.at(-1);
  if (last === undefined || last.attempt.error === null) return null;
  const own = rows.filter((row) => row.attempt === last.attempt && row.kind !== "attempt");
  return own.findLast((row) => row.kind === "step" && row.step.error !== null) ?? own.findLast((row) => row.tone === "bad") ?? last;
}

function ends(rows) {
  return rows.flatMap((row) => [row.to ?? row.from, ...row.bars.map((bar) => bar.to ?? bar.from)]);
}

function startRows(execution) {
  const from = msOf(execution.plannedAt);
  const to = msOf(execution.startedAt) ?? msOf(execution.endedAt);
  if (execution.state === "scheduled" || (to !== null && to - from < 1)) return [];
  const words = execution.triggeredBy === "timer" && execution.state !== "enqueued" ? "execution.wait.late" : "execution.wait.turn";
  return [rowOf("start", "start", 0, "wait", from, to, [{ kind: "wait", from, to, words }], {})];
}

function attemptRows(execution, attempt, next, chain, isPart) {
  const number = attempt.requestCounts;
  const from = msOf(attempt.startedAt) ?? msOf(attempt.steps[0]?.sentAt) ?? msOf(execution.startedAt);
  const to = msOf(attempt.endedAt) ?? (next === undefined ? msOf(execution.endedAt) : msOf(next.startedAt));
  const span = { from, to };
  const head = rowOf(`a${number}`, "attempt", 0, toneOfAttempt(attempt, next, to), from, to, [{ kind: "frame", from, to }], { attempt, ordinal: isPart ? number : execution.attempts.indexOf(attempt) + 1 });
  const rows = [head, ...stepRows(attempt, span)];
  const chainEnd = Math.max(from, ...attempt.steps.map((step) => msOf(step.endedAt)));
  rows.push(...checkRows(attempt, span, chainEnd, chain), ...feedbackRows(attempt, span, chainEnd, chain));
  if (to === null && attempt.queue === null) rows.push(...runningRows(attempt, chainEnd, chain));
  if (attempt.retryInMs !== null) rows.push(retryRow(execution, attempt, isPart ? undefined : next, to));
  return rows;
}

function toneOfAttempt(attempt, next, to) {
  if (attempt.error !== null) return next !== undefined || attempt.retryInMs !== null ? "warn" : "bad";
  return to === null ? "busy" : attempt.endedAt === null ? "quiet" : "good";
}

function checkRows(attempt, span, chainEnd, chain) {
  if (attempt.checks.length === 0 && !(span.to === null && chain?.hasCheck && isChainDone(attempt, chain))) return [];
  const ticks = thinned(attempt.checks).map((one) => {
    const to = msOf(one.at);
    return { kind: "work", from: to - (one.durationMs ?? 0), to, tone: toneOfCheck(one) };
  });
  const bars = [{ kind: "wait", from: chainEnd, to: span.to, words: "execution.wait.check", isCrowded: ticks.length > 0 }, ...ticks];
  const tone = attempt.checks.length === 0 ? "busy" : toneOfCheck(attempt.checks.at(-1));
  return [rowOf(`a${attempt.requestCounts}.c`, "checks", 1, tone, chainEnd, span.to, bars, { attempt })];
}

/** At most so many checks as are told apart on the axis: those that went wrong, and of the others each n-th. */
function thinned(checks) {
  const each = Math.ceil(checks.length / SHOWN_TICKS);
  return checks.filter((one, index) => index % each === 0 || toneOfCheck(one) === "bad");
}

function toneOfCheck(check) {
  if (check.fault !== null || check.error !== null || check.status === null) return "bad";
  return check.status === "" ? "busy" : "good";
}

function feedbackRows(attempt, span, chainEnd, chain) {
  const isAwaited = chain !== null && chain.isAsync && !chain.hasCheck && isChainDone(attempt, chain);
  if (attempt.feedback.length === 0 && !isAwaited) return [];
  const ticks = attempt.feedback.map((one) => ({ kind: "work", from: msOf(one.at), to: msOf(one.at), tone: one.stale ? "quiet" : "busy" }));
  const bars = [...(isAwaited ? [{ kind: "wait", from: chainEnd, to: span.to, words: "execution.wait.feedback", isCrowded: ticks.length > 0 }] : []), ...ticks];
  return [rowOf(`a${attempt.requestCounts}.f`, "feedback", 1, span.to === null ? "busy" : "quiet", chainEnd, span.to, bars, { attempt })];
}

/** The step that is under way: the history has it when it has ended. */
function runningRows(attempt, from, chain) {
  if (chain !== null && isChainDone(attempt, chain)) return [];
  const index = attempt.steps.filter((one) => one.part === null).length;
  const step = chain?.steps[index] ?? null;
  return [rowOf(`a${attempt.requestCounts}.r`, "running", 1, "busy", from, null, [{ kind: "work", from, to: null, tone: "busy" }], { attempt, index, given: step })];
}

function isChainDone(attempt, chain) {
  const whole = attempt.steps.filter((one) => one.part === null);
  return whole.length >= chain.steps.length && whole.every((one) => one.error === null);
}

function retryRow(execution, attempt, next, from) {
  const planned = from + attempt.retryInMs;
  const to = msOf(next?.startedAt) ?? (execution.endedAt === null ? planned : Math.min(planned, msOf(execution.endedAt)));
  return rowOf(`a${attempt.requestCounts}.w`, "retry", 0, "wait", from, to, [{ kind: "wait", from, to, words: "execution.wait.retry" }], { attempt });
}

function notificationRow(one) {
  const from = msOf(one.createdAt);
  const tries = one.attempts.map((each) => {
    const begun = msOf(each.at);
    return { kind: "work", from: begun, to: begun + (each.durationMs ?? 0), tone: isDelivered(each) ? "good" : "bad" };
  });
  const next = msOf(one.nextTryAt);
  const waits = tries.map((each, index) => ({ from: each.to, to: tries[index + 1]?.from ?? next })).filter((wait) => wait.to !== null);
  const bars = [...waits.map((wait) => ({ kind: "wait", words: "execution.wait.delivery", ...wait })), ...tries];
  const to = next ?? tries.at(-1)?.to ?? from;
  return rowOf(`n.${one.deliveryId}`, "notification", 0, toneOfDelivery(one.state), from, to, bars, { notification: one });
}

function isDelivered({ status }) {
  return status !== null && status >= 200 && status < 300;
}

function toneOfDelivery(state) {
  return { delivered: "good", failed: "bad", outbox: "bad", pending: "busy" }[state] ?? "quiet";
}
